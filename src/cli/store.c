/* gyre store: copies, lists and removes objects and files in any store. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/store.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct store_settings {
    bool is_long, is_new, is_expanded;
} settings;

static gy_status print_entry(void *arg, const gy_store_entry *entry)
{
    (void)arg;
    if (settings.is_long) {
        char date[32] = "-";
        const time_t seconds = (time_t)(entry->modified_ms / 1000);
        struct tm parts;
        if (entry->modified_ms != 0 && localtime_r(&seconds, &parts) != NULL &&
            strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &parts) == 0) {
            snprintf(date, sizeof(date), "-");
        }
        printf("%14llu  %-19s  ", (unsigned long long)entry->size_bytes, date);
    }
    char shown[4 * 4608]; /* escaped, so that a name is one line without control characters */
    GY_TRY(gy_store_escape_name(entry->name, shown, sizeof(shown)));
    puts(shown);
    return ferror(stdout) ? GY_CANCELLED : GY_OK; /* main reports that it cannot be written */
}

/* The exit status for a failure of a verb. */
static int report(const char *verb, gy_status status)
{
    return status == GY_ARG ? gy_cli_report_usage("gyre %s: %s", verb, gy_error_text())
                            : gy_cli_report_failure(verb, status);
}

static int run_list(char **operands, int count)
{
    for (int i = 0; i < count; i++) {
        const gy_status status = gy_store_list(operands[i], print_entry, NULL);
        if (status < 0 && !ferror(stdout)) {
            return report("store ls", status);
        }
    }
    return GY_EXIT_OK;
}

static gy_status print_bytes(void *arg, const void *data, size_t size_bytes)
{
    (void)arg;
    return fwrite(data, 1, size_bytes, stdout) == size_bytes ? GY_OK : GY_CANCELLED;
}

static int run_cat(char **operands, int count)
{
    for (int i = 0; i < count; i++) {
        const gy_status status =
            gy_store_read(operands[i], settings.is_expanded, print_bytes, NULL);
        if (status < 0 && !ferror(stdout)) {
            return report("store cat", status);
        }
    }
    return GY_EXIT_OK;
}

/* The target of a copy: TO, with FROM's name appended when TO ends with a slash. False: too
 * long. */
static bool find_target(const char *from, const char *to, char *target, size_t size_bytes)
{
    const size_t size = strlen(to);
    const char *slash = strrchr(from, '/');
    const char *name = slash != NULL ? slash + 1 : from;
    const bool is_folder = size > 0 && to[size - 1] == '/';
    return snprintf(target, size_bytes, "%s%s", to, is_folder ? name : "") < (int)size_bytes;
}

static volatile sig_atomic_t interrupted_by;

static void interrupt(int number)
{
    interrupted_by = number;
    gy_store_interrupt();
}

/* The first signal stops the copy and removes what is half written; the second ends the process
 * at once. */
static void watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        struct sigaction now;
        const struct sigaction take = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaction(ending[i], &take, NULL);
        }
    }
}

static int run_copy(char **operands, int count)
{
    (void)count;
    char target[8192];
    if (!find_target(operands[0], operands[1], target, sizeof(target))) {
        return gy_cli_report_usage(
            "gyre store cp: the target is too long: expected at most %zu bytes",
            sizeof(target) - 1);
    }
    watch_signals();
    const gy_status status =
        gy_store_copy(operands[0], target, settings.is_new ? GY_STORE_NEW : GY_STORE_REPLACE);
    if (status == GY_CANCELLED && interrupted_by != 0) {
        (void)report("store cp", status);
        return 128 + interrupted_by;
    }
    return status == GY_OK ? GY_EXIT_OK : report("store cp", status);
}

#define PLACE(member) offsetof(struct store_settings, member)
#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))

static const gy_option list_options[] = {
    {&gy_option_long, GY_OPTION_FLAG, NULL, PLACE(is_long), 0, 0, NULL},
};

static const gy_option cat_options[] = {
    {&gy_option_expand, GY_OPTION_FLAG, NULL, PLACE(is_expanded), 0, 0, NULL},
};

static const gy_option copy_options[] = {
    {&gy_option_no_clobber, GY_OPTION_FLAG, "of several concurrent copies one succeeds",
     PLACE(is_new), 0, 0, NULL},
};

static const gy_command verbs[] = {
    {.name = "store ls",
     .operands = "URI...",
     .operands_least = 1,
     .operands_most = -1,
     .description = "Lists folders or prefixes, one level, sorted.",
     .options = list_options,
     .option_count = COUNT(list_options),
     .settings = &settings,
     .run = run_list},
    {.name = "store cat",
     .operands = "URI...",
     .operands_least = 1,
     .operands_most = -1,
     .description = "Writes objects to standard output, one after the other.",
     .options = cat_options,
     .option_count = COUNT(cat_options),
     .settings = &settings,
     .run = run_cat},
    {.name = "store cp",
     .operands = "FROM TO",
     .operands_least = 2,
     .operands_most = 2,
     .description =
         "Copies an object; the copy appears whole or not at all. A TO that ends with a slash\n"
         "gets FROM's name.",
     .options = copy_options,
     .option_count = COUNT(copy_options),
     .settings = &settings,
     .run = run_copy},
};

const gy_command gy_command_store = {
    .name = "store",
    .summary = "list, show and copy objects of S3, HDFS and files",
    .operands = "VERB [OPTION...] URI...",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description =
        "ls URI...   list folders or prefixes\n"
        "cat URI...  print the bytes of objects\n"
        "cp FROM TO  copy an object\n"
        "\n"
        "URI is s3://BUCKET/KEY, hdfs://HOST:PORT/PATH (WebHDFS), file:/PATH or a path.\n"
        "Credentials of S3 come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or from\n"
        "~/.aws/credentials, the server from GYRE_S3_ENDPOINT: see gyre(1).",
    .verbs = verbs,
    .verb_count = COUNT(verbs),
};
