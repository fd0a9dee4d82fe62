/* gyre run: start a program on several ranks. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <gyre/info.h>
#include <gyre/launch.h>

#include <string.h>

static struct {
    long long ranks, pool_mib, nodes, node, restarts;
    bool prefix, no_binding;
    double timeout, grace, meet;
    const char *rendezvous, *transport, *on_failure, *record;
    gy_hosts_settings
        over; /* over.at has the key file and --plaintext also of launches without --hosts */
} settings = {.ranks = 0};

static const gy_option options[] = {
    {&gy_option_ranks, GY_OPTION_INTEGER,
     "default: one per core; with --hosts, of all hosts together",
     offsetof(__typeof__(settings), ranks), 1, GY_RUN_RANKS_MAX, NULL},
    {&gy_option_prefix, GY_OPTION_FLAG, NULL, offsetof(__typeof__(settings), prefix), 0, 0,
     NULL},
    {&gy_option_no_binding, GY_OPTION_FLAG, NULL, offsetof(__typeof__(settings), no_binding), 0,
     0, NULL},
    {&gy_option_timeout, GY_OPTION_REAL, "the exit status is then 124",
     offsetof(__typeof__(settings), timeout), 0.001, 1e9, NULL},
    {&gy_option_grace, GY_OPTION_REAL, "default: 2", offsetof(__typeof__(settings), grace),
     0.001, 1e6, NULL},
    {&gy_option_pool, GY_OPTION_INTEGER, NULL, offsetof(__typeof__(settings), pool_mib), 1,
     1 << 24, NULL},
    {&gy_option_nodes, GY_OPTION_INTEGER, NULL, offsetof(__typeof__(settings), nodes), 1,
     GY_RUN_NODES_MAX, NULL},
    {&gy_option_node, GY_OPTION_INTEGER, NULL, offsetof(__typeof__(settings), node), 0,
     GY_RUN_NODES_MAX - 1, NULL},
    {&gy_option_rendezvous, GY_OPTION_TEXT, NULL, offsetof(__typeof__(settings), rendezvous), 0,
     0, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes",
     offsetof(__typeof__(settings), over.at.key), 0, 0, NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "between hosts",
     offsetof(__typeof__(settings), over.at.is_plaintext), 0, 0, NULL},
    {&gy_option_rendezvous_timeout, GY_OPTION_REAL, "default: 60",
     offsetof(__typeof__(settings), meet), 0.001, 1e6, NULL},
    {&gy_option_transport, GY_OPTION_CHOICE, "default: shm",
     offsetof(__typeof__(settings), transport), 0, 0, "shm|tcp"},
    {&gy_option_on_failure, GY_OPTION_CHOICE, "default: end, which ends all ranks",
     offsetof(__typeof__(settings), on_failure), 0, 0, "end|continue|restart"},
    {&gy_option_restarts_max, GY_OPTION_INTEGER, "default: 3",
     offsetof(__typeof__(settings), restarts), 1, 1000000, NULL},
    {&gy_option_record, GY_OPTION_PATH, NULL, offsetof(__typeof__(settings), record), 0, 0,
     NULL},
    {&gy_option_hosts, GY_OPTION_INTEGER, "of a cluster, as many ranks on each",
     offsetof(__typeof__(settings), over.hosts), 1, GY_RUN_NODES_MAX, NULL},
    {&gy_option_nameservers, GY_OPTION_TEXT, "with --hosts",
     offsetof(__typeof__(settings), over.at.names), 0, 0, NULL},
    {&gy_option_connect_timeout, GY_OPTION_REAL, "with --hosts; default: 10",
     offsetof(__typeof__(settings), over.at.connect_timeout_s), 0.001, 1e5, NULL},
    {&gy_option_name, GY_OPTION_TEXT, "with --hosts; default: the name of the program",
     offsetof(__typeof__(settings), over.name), 0, 0, NULL},
    {&gy_option_weight, GY_OPTION_INTEGER, "with --hosts; 1 to 1000, default: 100",
     offsetof(__typeof__(settings), over.weight), 1, 1000, NULL},
    {&gy_option_label, GY_OPTION_TEXT, "with --hosts",
     offsetof(__typeof__(settings), over.label), 0, 0, NULL},
    {&gy_option_folder, GY_OPTION_PATH, "with --hosts; in storage that all hosts share",
     offsetof(__typeof__(settings), over.folder), 0, 0, NULL},
    {&gy_option_file, GY_OPTION_PATHS,
     "placed beside the program, with --hosts; may be repeated",
     offsetof(__typeof__(settings), over.files), 0, 0, NULL},
    {&gy_option_env, GY_OPTION_LIST, "with --hosts",
     offsetof(__typeof__(settings), over.variables), 0, 0, NULL},
};

static gy_run_failure failure_mode(void)
{
    const char *name = settings.on_failure;
    if (name == NULL || strcmp(name, "end") == 0) {
        return GY_RUN_END;
    }
    return strcmp(name, "continue") == 0 ? GY_RUN_CONTINUE : GY_RUN_RESTART;
}

/* The first option that the other options exclude; NULL: none. */
static const char *misplaced(void)
{
    const gy_hosts_settings *over = &settings.over;
    const bool has_hosts = over->hosts > 0;
    const struct {
        const char *name;
        bool is_given, is_for_hosts;
    } given[] = {
        {"--nodes", settings.nodes > 0, false},
        {"--node", settings.node > 0, false},
        {"--rendezvous", settings.rendezvous != NULL, false},
        {"--record", settings.record != NULL, false},
        {"--on-failure=continue", failure_mode() == GY_RUN_CONTINUE, false},
        {"--nameservers", over->at.names != NULL, true},
        {"--connect-timeout", over->at.connect_timeout_s > 0, true},
        {"--name", over->name != NULL, true},
        {"--weight", over->weight > 0, true},
        {"--label", over->label != NULL, true},
        {"--folder", over->folder != NULL, true},
        {"--file", over->files.items[0] != NULL, true},
        {"--env", over->variables.items[0] != NULL, true},
    };
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (given[i].is_given && given[i].is_for_hosts != has_hosts) {
            return given[i].name;
        }
    }
    return NULL;
}

static int default_ranks(void)
{
    if (settings.over.hosts > 0) {
        return (int)settings.over.hosts;
    }
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
        .timeout_s = settings.timeout,
        .kill_grace_s = settings.grace,
        .pool_bytes = (size_t)settings.pool_mib << 20,
        .nodes = (int)settings.nodes,
        .node = (int)settings.node,
        .rendezvous = settings.rendezvous,
        .key_file = settings.over.at.key,
        .is_plaintext = settings.over.at.is_plaintext,
        .is_tcp = settings.transport != NULL && strcmp(settings.transport, "tcp") == 0,
        .rendezvous_timeout_s = settings.meet,
        .on_failure = failure_mode(),
        .restarts = (int)settings.restarts,
        .record = settings.record,
    };
    const char *wrong = misplaced();
    if (wrong != NULL) {
        return settings.over.hosts > 0
                   ? gy_cli_report_usage("gyre run: %s and --hosts exclude each other", wrong)
                   : gy_cli_report_usage("gyre run: %s needs --hosts", wrong);
    }
    return settings.over.hosts > 0 ? gy_cli_run_hosts(&settings.over, &chosen, operands)
                                   : gy_cli_launch(&chosen, operands);
}

const gy_command gy_command_run = {
    .name = "run",
    .summary = "start a program on several ranks, on one or several hosts",
    .operands = "PROGRAM [ARGUMENT...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description =
        "Starts PROGRAM once per rank, waits for all ranks, and ends all ranks when one "
        "fails.\n"
        "The exit status is that of the first rank that failed, 128 + N when signal N killed\n"
        "the rank, 124 after the time limit, 126 or 127 when PROGRAM cannot be started.\n"
        "With --on-failure=continue the other ranks continue, and the status is 0 when at "
        "least\n"
        "one rank succeeds. With --nodes, start the same command once on each host; all of "
        "them\n"
        "end with one status. With --hosts a cluster runs the ranks, the same number on each\n"
        "host, once it has slots for all of them; when a host is lost, all ranks start again "
        "on\n"
        "other hosts.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
