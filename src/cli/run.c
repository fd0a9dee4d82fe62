/* gyre run: start a program on several ranks. */
#include "cli/cli.h"

#include <gyre/info.h>
#include <gyre/launch.h>

#include <string.h>

static struct {
    long long ranks, pool_mib, nodes, node, restarts;
    bool prefix, no_binding, plaintext;
    double timeout, grace, meet;
    const char *rendezvous, *key, *transport, *on_failure, *record;
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
    {"nodes", 0, GY_OPTION_INTEGER, "N", "hosts of the run; start this once on each",
     offsetof(__typeof__(settings), nodes), 1, GY_RUN_NODES_MAX, NULL},
    {"node", 0, GY_OPTION_INTEGER, "K", "which of them this is, from 0",
     offsetof(__typeof__(settings), node), 0, GY_RUN_NODES_MAX - 1, NULL},
    {"rendezvous", 0, GY_OPTION_TEXT, "HOST:PORT", "where node 0 listens and the others call",
     offsetof(__typeof__(settings), rendezvous), 0, 0, NULL},
    {"key", 0, GY_OPTION_TEXT, "FILE", "cluster key (default: the one `gyre key` makes)",
     offsetof(__typeof__(settings), key), 0, 0, NULL},
    {"plaintext", 0, GY_OPTION_FLAG, NULL, "no key and no encryption between hosts",
     offsetof(__typeof__(settings), plaintext), 0, 0, NULL},
    {"meet", 0, GY_OPTION_REAL, "SECONDS", "for all hosts to be there (default: 60)",
     offsetof(__typeof__(settings), meet), 0.001, 1e6, NULL},
    {"transport", 0, GY_OPTION_CHOICE, "NAME", "between ranks of a host: shm or tcp",
     offsetof(__typeof__(settings), transport), 0, 0, "shm|tcp"},
    {"on-failure", 0, GY_OPTION_CHOICE, "WHAT",
     "when a rank fails: end all (default), continue or restart it",
     offsetof(__typeof__(settings), on_failure), 0, 0, "end|continue|restart"},
    {"restarts", 0, GY_OPTION_INTEGER, "N",
     "at most so many restarts on this host (default: 3)",
     offsetof(__typeof__(settings), restarts), 1, 1000000, NULL},
    {"record", 0, GY_OPTION_TEXT, "FILE", "keep what the ranks did, for `gyre doctor`",
     offsetof(__typeof__(settings), record), 0, 0, NULL},
};

static int default_ranks(void)
{
    int cores = gy_info_cores();
    return cores > GY_RUN_RANKS_MAX ? GY_RUN_RANKS_MAX : cores;
}

static gy_run_failure failure_mode(void)
{
    const char *name = settings.on_failure;
    if (name == NULL || strcmp(name, "end") == 0) {
        return GY_RUN_END;
    }
    return strcmp(name, "continue") == 0 ? GY_RUN_CONTINUE : GY_RUN_RESTART;
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
        .nodes = (int)settings.nodes,
        .node = (int)settings.node,
        .rendezvous = settings.rendezvous,
        .key_file = settings.key,
        .is_plain = settings.plaintext,
        .is_tcp = settings.transport != NULL && strcmp(settings.transport, "tcp") == 0,
        .meet_seconds = settings.meet,
        .on_failure = failure_mode(),
        .restarts = (int)settings.restarts,
        .record = settings.record,
    };
    return gy_run(&chosen, operands);
}

const gy_command gy_command_run = {
    .name = "run",
    .summary = "start a program on several ranks, of this machine or of several",
    .operands = "PROGRAM [ARGUMENT...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description =
        "Starts PROGRAM once a rank, waits for all, and ends all when one fails.\n"
        "The exit status is that of the first rank that failed, 128 + N when signal N\n"
        "ended it, 124 after the time limit, 126 or 127 when PROGRAM cannot be started.\n"
        "With --on-failure=continue the others go on and the status is 0 when any ended well.\n"
        "With --nodes the same is started once on each host; all end with one status.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
