/* gyre doctor: what the ranks of a run do, live or after a crash. */
#include "cli/cli.h"

#include <gyre/doctor.h>
#include <gyre/flow.h>
#include <gyre/key.h>
#include <gyre/launch.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct {
    const char *file;
    bool json, sandbox;
} settings = {.json = false};

static const gy_option options[] = {
    {&gy_option_recording, GY_OPTION_PATH, NULL, offsetof(__typeof__(settings), file), 0, 0,
     NULL},
    {&gy_option_json, GY_OPTION_FLAG, NULL, offsetof(__typeof__(settings), json), 0, 0, NULL},
    {&gy_option_check_sandbox, GY_OPTION_FLAG, NULL, offsetof(__typeof__(settings), sandbox), 0,
     0, NULL},
};

typedef struct ring {
    uint64_t first, last;
    char roles[512]; /* the roles of a restricted key file; "": all */
} ring;

static gy_status note_line(void *arg, const gy_keyring_entry *entry)
{
    ring *found = arg;
    const char *role = entry->restriction;
    size_t used = strlen(found->roles);
    found->first = entry->epoch < found->first ? entry->epoch : found->first;
    found->last = entry->epoch > found->last ? entry->epoch : found->last;
    if (role[0] != '\0' && strstr(found->roles, role) == NULL) {
        snprintf(found->roles + used, sizeof(found->roles) - used, "%s%s", used > 0 ? ", " : "",
                 role);
    }
    return GY_OK;
}

/* Report the key with which this user's processes authenticate to other hosts, or what is wrong
 * with it. */
static void say_key(void)
{
    char path[4096];
    struct stat facts;
    ring found = {.first = UINT64_MAX};
    if (gy_run_key_path(path, sizeof(path)) < 0) {
        gy_print_to(stdout, "key: %s\n", gy_error_text());
        return;
    }
    if (lstat(path, &facts) != 0 && errno == ENOENT) {
        gy_print_to(stdout, "key: none at %s (gyre key makes one)\n", path);
        return;
    }
    if (gy_keyring_list(path, note_line, &found) < 0) {
        gy_print_to(stdout, "key: invalid: %s\n", gy_error_text());
        return;
    }
    gy_print_to(stdout, "key: %s, mode %04o, epoch", path, (unsigned)facts.st_mode & 07777);
    printf(found.first == found.last ? " %llu" : "s %llu to %llu",
           (unsigned long long)found.first, (unsigned long long)found.last);
    printf("%s%s\n", found.roles[0] != '\0' ? ", of roles only: " : "", found.roles);
}

static int run(char **operands, int operand_count)
{
    if (settings.sandbox) {
        char text[2048];
        if (operand_count > 0 || settings.file != NULL || settings.json) {
            gy_print_to(stderr,
                        "gyre doctor: --check-sandbox takes no other option and no PROCESS\n");
            return GY_EXIT_USAGE;
        }
        fputs(gy_flow_describe_sandbox(text, sizeof(text)), stdout);
        return GY_EXIT_OK;
    }
    gy_doctor_options chosen = {.file = settings.file, .is_json = settings.json};
    if (operand_count > 0) {
        char *end = NULL;
        long process = strtol(operands[0], &end, 10);
        if (end == operands[0] || *end != '\0' || process < 1 || process > INT_MAX) {
            gy_print_to(stderr, "gyre doctor: \"%s\": expected a process number\n",
                        operands[0]);
            return GY_EXIT_USAGE;
        }
        chosen.process = (int)process;
    }
    if (operand_count > 0 && settings.file != NULL) {
        gy_print_to(stderr, "gyre doctor: PROCESS and --recording exclude each other\n");
        return GY_EXIT_USAGE;
    }
    if (settings.file == NULL && !settings.json) {
        say_key();
    }
    char *text = NULL;
    gy_status status = gy_doctor(&chosen, &text);
    if (status < 0) {
        gy_print_to(stderr, "gyre: %s\n", gy_error_text());
    }
    if (text != NULL) { /* with GY_ARG, the launches that there are */
        fputs(text, status == GY_ARG ? stderr : stdout);
    }
    gy_string_free(text);
    return status < 0 ? GY_EXIT_FAILURE : GY_EXIT_OK;
}

const gy_command gy_command_doctor = {
    .name = "doctor",
    .summary = "diagnose a launch, live or after a crash: which rank waits for which",
    .operands = "[PROCESS]",
    .operands_most = 1,
    .description =
        "Reads the flight recorder of a launch on this host: that of the launcher, supervisor "
        "or\n"
        "rank PROCESS, by default of the only launch of this user (several are listed), or "
        "the\n"
        "recording that a failed launch has left. Reports which ranks are stopped or lost, "
        "whose\n"
        "calls differ, which rank waits for which, which ranks enter collectives late, and "
        "where\n"
        "the time of ranks that train went. For a live launch it first reports the state of "
        "this\n"
        "user's cluster key (gyre key). With --check-sandbox it reports what 'gyre job run\n"
        "--sandbox' supports on this machine.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
