/* gyre doctor: what the ranks of a run do, live or after a crash. */
#include "cli/cli.h"

#include <gyre/doctor.h>

#include <limits.h>
#include <stdlib.h>

static struct {
    const char *file;
    bool json;
} settings = {.json = false};

static const gy_option options[] = {
    {"file", 0, GY_OPTION_TEXT, "FILE", "read what a run left instead of a live one",
     offsetof(__typeof__(settings), file), 0, 0, NULL},
    {"json", 0, GY_OPTION_FLAG, NULL, "for programs instead of people",
     offsetof(__typeof__(settings), json), 0, 0, NULL},
};

static int run(char **operands, int operand_count)
{
    gy_doctor_options chosen = {.file = settings.file, .is_json = settings.json};
    if (operand_count > 0) {
        char *end = NULL;
        long process = strtol(operands[0], &end, 10);
        if (end == operands[0] || *end != '\0' || process < 1 || process > INT_MAX) {
            fprintf(stderr, "gyre doctor: \"%s\": expected the number of a process\n",
                    operands[0]);
            return GY_EXIT_USAGE;
        }
        chosen.process = (int)process;
    }
    if (operand_count > 0 && settings.file != NULL) {
        fprintf(stderr, "gyre doctor: a process or a file, not both\n");
        return GY_EXIT_USAGE;
    }
    return gy_doctor(&chosen);
}

const gy_command gy_command_doctor = {
    .name = "doctor",
    .summary = "say who waits for whom in a run, live or after a crash",
    .operands = "[PROCESS]",
    .operands_most = 1,
    .description =
        "Reads the flight recorder of a run on this host: of the launcher, keeper or rank\n"
        "PROCESS, by default of the only run of this user (several are listed), or of the\n"
        "FILE that a failed run has left. Says which ranks are stopped or gone, whose calls\n"
        "differ, who waits for whom, and who enters collectives late.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
