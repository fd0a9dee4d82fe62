/* `gyre cluster`: the daemons of a cluster. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <stdio.h>

static struct cluster_settings {
    gy_names_settings at;
    bool is_undone;
} settings;

static void print_head(bool *is_printed)
{
    if (!*is_printed) {
        printf("%-16s %-8s %13s %8s  %-22s %-20s %s\n", "id", "state", "slots", "managers",
               "address", "host", "labels");
        *is_printed = true;
    }
}

/* Print a row; the first one prints the head before it, so that a failure prints no head. */
static gy_status print_daemon(void *arg, const gy_cluster_daemon *daemon)
{
    print_head(arg);
    const char *state = !daemon->is_up                          ? "lost"
                        : daemon->is_drained                    ? "drained"
                        : daemon->unavailable_reason[0] != '\0' ? "trouble"
                                                                : "up";
    gy_print_to(stdout, "%-16s %-8s %6u/%-6u %8u  %-22s %-20s %s%s%s\n", daemon->id, state,
                daemon->slots_leased, daemon->slots, daemon->managers, daemon->address,
                daemon->host, daemon->labels,
                daemon->labels[0] != '\0' && daemon->unavailable_reason[0] != '\0' ? "  " : "",
                daemon->unavailable_reason);
    return GY_OK;
}

static int run_list(char **operands, int count)
{
    gy_cluster *cluster = NULL;
    (void)operands;
    (void)count;
    int opened = gy_cli_open_cluster("cluster list", &settings.at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    bool has_head = false;
    gy_status status =
        gy_cluster_list(cluster, &(gy_cluster_visit){.daemon = print_daemon, .arg = &has_head});
    if (status == GY_OK) {
        print_head(&has_head);
    }
    return gy_cli_close_cluster("cluster list", cluster, status);
}

static int run_drain(char **operands, int count)
{
    gy_cluster *cluster = NULL;
    (void)count;
    int opened = gy_cli_open_operator("cluster drain", &settings.at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = gy_cluster_drain(cluster, operands[0], !settings.is_undone);
    return gy_cli_close_cluster("cluster drain", cluster, status);
}

static const gy_option list_options[] = {GY_NAMES_OPTIONS(struct cluster_settings)};

static const gy_option drain_options[] = {
    GY_NAMES_OPTIONS(struct cluster_settings),
    {&gy_option_undo, GY_OPTION_FLAG, NULL, offsetof(struct cluster_settings, is_undone), 0, 0,
     NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const gy_command verbs[] = {
    {.name = "cluster list",
     .operands = "",
     .description = "Lists the daemons that the name server knows.",
     .options = list_options,
     .option_count = COUNT(list_options),
     .settings = &settings,
     .run = run_list},
    {.name = "cluster drain",
     .operands = "DAEMON",
     .operands_least = 1,
     .operands_most = 1,
     .description =
         "The daemon gets no new work; running work continues. This lasts until --undo.",
     .options = drain_options,
     .option_count = COUNT(drain_options),
     .settings = &settings,
     .run = run_drain},
};

const gy_command gy_command_cluster = {
    .name = "cluster",
    .summary = "list and drain the daemons of a cluster",
    .operands = "VERB [OPTION...] [OPERAND...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description =
        "list          list the daemons: slots, hosts, labels and problems\n"
        "drain DAEMON  give a daemon no new work\n"
        "\n"
        "DAEMON is an id that 'gyre cluster list' shows, its beginning, or a host.\n"
        "Jobs of a cluster: 'gyre job submit|list|show|wait|kill --nameservers ...'.",
    .verbs = verbs,
    .verb_count = COUNT(verbs),
};
