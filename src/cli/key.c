/* gyre key: the key file of a cluster, its epochs, and files of restricted keys. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/key.h>
#include <gyre/launch.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

/* The given file, or the user's; NULL: the user has no configuration folder. */
static const char *path_of(const char *named, char kept[PATH_BYTES])
{
    if (named != NULL) {
        return named;
    }
    return gy_run_key_path(kept, PATH_BYTES) == GY_OK ? kept : NULL;
}

static int make(const char *path, char **operands)
{
    (void)operands;
    gy_status status = gy_keyring_make(path);
    if (status < 0) {
        return gy_cli_report_failure("key", status);
    }
    gy_print_to(stdout, "%s\n", path);
    return GY_EXIT_OK;
}

static int rotate(const char *path, char **operands)
{
    uint64_t epoch = 0;
    gy_status status = gy_keyring_rotate(path, &epoch);
    (void)operands;
    if (status < 0) {
        return gy_cli_report_failure("key rotate", status);
    }
    gy_print_to(stdout, "%s: epoch %llu is new\n", path, (unsigned long long)epoch);
    return GY_EXIT_OK;
}

static int retire(const char *path, char **operands)
{
    char *end = NULL;
    errno = 0;
    unsigned long long epoch = strtoull(operands[0], &end, 10);
    if (operands[0][0] < '0' || operands[0][0] > '9' || *end != '\0' || errno != 0) {
        return gy_cli_report_usage("gyre key retire: '%s': expected an epoch", operands[0]);
    }
    gy_status status = gy_keyring_retire(path, epoch);
    return status < 0 ? gy_cli_report_failure("key retire", status) : GY_EXIT_OK;
}

static int derive(const char *path, char **operands)
{
    gy_status status = gy_keyring_derive(path, operands[0], operands[1]);
    if (status == GY_ARG) {
        return gy_cli_report_usage("gyre key derive: '%s': %s", operands[0], gy_error_text());
    }
    return status < 0 ? gy_cli_report_failure("key derive", status) : GY_EXIT_OK;
}

static gy_status show_line(void *arg, const gy_keyring_entry *entry)
{
    (void)arg;
    gy_print_to(stdout, "epoch %llu: %s\n", (unsigned long long)entry->epoch,
                entry->restriction[0] != '\0' ? entry->restriction : "all roles");
    return GY_OK;
}

static int show(const char *path, char **operands)
{
    struct stat facts;
    (void)operands;
    if (stat(path, &facts) == 0) {
        gy_print_to(stdout, "%s: mode %04o\n", path, (unsigned)facts.st_mode & 07777);
    }
    gy_status status = gy_keyring_list(path, show_line, NULL);
    return status < 0 ? gy_cli_report_failure("key show", status) : GY_EXIT_OK;
}

static const struct {
    const char *name, *operands;
    int count; /* operands before the optional file */
    int (*run)(const char *path, char **operands);
} verbs[] = {
    {"new", "[FILE]", 0, make},
    {"rotate", "[FILE]", 0, rotate},
    {"retire", "EPOCH [FILE]", 1, retire},
    {"derive", "WHO NEW-FILE [FILE]", 2, derive},
    {"show", "[FILE]", 0, show},
};

static int run(char **operands, int operand_count)
{
    char kept[PATH_BYTES];
    for (size_t i = 0; operand_count > 0 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        int rest = operand_count - 1 - verbs[i].count;
        if (strcmp(operands[0], verbs[i].name) != 0) {
            continue;
        }
        if (rest < 0 || rest > 1) {
            return gy_cli_report_usage("gyre key %s: %d operands: expected %s", verbs[i].name,
                                       operand_count - 1, verbs[i].operands);
        }
        const char *path = path_of(rest == 1 ? operands[operand_count - 1] : NULL, kept);
        return path != NULL ? verbs[i].run(path, operands + 1)
                            : gy_cli_report_failure("key", GY_ARG);
    }
    if (operand_count > 1) {
        return gy_cli_report_usage(
            "gyre key: '%s': expected new, rotate, retire, derive, show or one FILE",
            operands[0]);
    }
    const char *path = path_of(operand_count > 0 ? operands[0] : NULL, kept);
    return path != NULL ? make(path, operands) : gy_cli_report_failure("key", GY_ARG);
}

const gy_command gy_command_key = {
    .name = "key",
    .summary = "make and change the key that the hosts of a cluster share",
    .operands = "[FILE] | new [FILE] | rotate [FILE] | retire EPOCH [FILE] | "
                "derive WHO NEW-FILE [FILE] | show [FILE]",
    .operands_most = 4,
    .description =
        "Writes a new key to FILE, by default $XDG_CONFIG_HOME/gyre/key or "
        "~/.config/gyre/key,\n"
        "readable only by its owner, and prints the path. A key is never overwritten. Copy "
        "the\n"
        "file to every host of the cluster over a channel that you trust.\n"
        "\n"
        "rotate adds an epoch with a new key, one above the newest epoch; the new key is "
        "offered,\n"
        "all keys are accepted. Copy the file to every host, then retire the old epoch there:\n"
        "connections with its key end. derive makes a file of restricted keys of all epochs: "
        "WHO\n"
        "is one or more of the roles nameserver, daemon, manager, submitter, watcher, "
        "operator,\n"
        "server, worker and lead, separated by commas, or ROLE/SUBJECT for a single subject, "
        "such\n"
        "as the manager of one job. Daemons need daemon,manager; parameter servers "
        "server,worker,\n"
        "their lead lead,server,worker,operator. After a rotation, derive the file again. "
        "show\n"
        "lists epochs and roles.",
    .run = run,
};
