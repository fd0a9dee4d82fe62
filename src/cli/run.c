/* gyre run: start a program on several ranks. */
#include "cli/cli.h"

#include <gyre/info.h>
#include <gyre/launch.h>

static struct {
    long long ranks, pool_mib;
    bool prefix, no_binding;
    double timeout, grace;
} settings = {.ranks = 0};

static const gy_option options[] = {
    {"ranks", 'n', GY_OPTION_INTEGER, "N", "ranks to start (default: one a core)",
     offsetof(__typeof__(settings), ranks), 1, GY_RUN_RANKS_MAX, NULL},
    {"prefix", 'p', GY_OPTION_FLAG, NULL, "put \"[RANK] \" before each line of output",
     offsetof(__typeof__(settings), prefix), 0, 0, NULL},
    {"no-binding", 0, GY_OPTION_FLAG, NULL, "let every rank use all cores",
     offsetof(__typeof__(settings), no_binding), 0, 0, NULL},
    {"timeout", 't', GY_OPTION_REAL, "SECONDS", "end all ranks after this time, status 124",
     offsetof(__typeof__(settings), timeout), 0.001, 1e9, NULL},
    {"grace", 0, GY_OPTION_REAL, "SECONDS", "from SIGTERM to SIGKILL (default: 2)",
     offsetof(__typeof__(settings), grace), 0.001, 1e6, NULL},
    {"pool", 0, GY_OPTION_INTEGER, "MIB", "shared memory a rank may register",
     offsetof(__typeof__(settings), pool_mib), 1, 1 << 24, NULL},
};

static int default_ranks(void)
{
    int cores = gy_info_cores();
    return cores > GY_RUN_RANKS_MAX ? GY_RUN_RANKS_MAX : cores;
}

static int run(char **operands, int operand_count)
{
    (void)operand_count;
    gy_run_options chosen = {
        .ranks = settings.ranks > 0 ? (int)settings.ranks : default_ranks(),
        .has_prefix = settings.prefix,
        .has_no_binding = settings.no_binding,
        .timeout_seconds = settings.timeout,
        .grace_seconds = settings.grace,
        .pool_bytes = (size_t)settings.pool_mib << 20,
    };
    return gy_run(&chosen, operands);
}

const gy_command gy_command_run = {
    .name = "run",
    .summary = "start a program on several ranks of this machine",
    .operands = "PROGRAM [ARGUMENT...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description =
        "Starts PROGRAM once a rank, waits for all, and ends all when one fails.\n"
        "The exit status is that of the first rank that failed, 128 + N when signal N\n"
        "ended it, 124 after the time limit, 126 or 127 when PROGRAM cannot be started.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
