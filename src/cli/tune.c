/* gyre tune: measures the fastest algorithm of each collective on this machine, or shows the
 * table. */
#include "cli/cli.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

static struct {
    long long ranks, hosts;
    bool print;
    double seconds;
    const char *output, *transport;
} settings = {.seconds = 20};

#define PLACE(member) offsetof(__typeof__(settings), member)

static const gy_option options[] = {
    {&gy_option_ranks, GY_OPTION_INTEGER, "at least 2; default: one per core", PLACE(ranks), 2,
     GY_RUN_RANKS_MAX, NULL},
    {&gy_option_output, GY_OPTION_PATH,
     "a file; default: GYRE_TUNE's, else ~/.config/gyre/tune", PLACE(output), 0, 0, NULL},
    {&gy_option_duration, GY_OPTION_REAL, "in all; default: 20", PLACE(seconds), 0.01, 3600,
     NULL},
    {&gy_option_transport, GY_OPTION_CHOICE, "default: shm", PLACE(transport), 0, 0, "shm|tcp"},
    {&gy_option_print, GY_OPTION_FLAG, NULL, PLACE(print), 0, 0, NULL},
    {&gy_option_hosts, GY_OPTION_INTEGER, "with --print", PLACE(hosts), 1, GY_RUN_NODES_MAX,
     NULL},
};

static int print(const gy_tune_query *query)
{
    char *text = NULL;
    gy_status status = gy_tune_show(query, &text);
    if (status == GY_ARG) {
        return gy_cli_report_usage("gyre tune: %s", gy_error_text());
    }
    if (status != GY_OK) {
        return gy_cli_report_failure("tune", status);
    }
    fputs(text, stdout);
    gy_string_free(text);
    return GY_EXIT_OK;
}

static int measure(void)
{
    char *report = NULL;
    gy_comm *comm = NULL;
    const gy_tune_options chosen = {.path = settings.output, .duration_s = settings.seconds};
    gy_status status = gy_comm_world(&comm);
    status = status == GY_OK ? gy_tune(comm, &chosen, &report) : status;
    if (status != GY_OK) {
        return gy_cli_report_failure("tune", status);
    }
    if (report != NULL) {
        fputs(report, stdout);
        gy_string_free(report);
    }
    gy_comm_world_close();
    return GY_EXIT_OK;
}

static int run(char **operands, int operand_count)
{
    (void)operands;
    (void)operand_count;
    int cores = gy_info_cores();
    int usual = cores < 2 ? 2 : cores > GY_RUN_RANKS_MAX ? GY_RUN_RANKS_MAX : cores;
    int ranks = settings.ranks > 0 ? (int)settings.ranks : usual;
    bool is_tcp = settings.transport != NULL && strcmp(settings.transport, "tcp") == 0;
    if (settings.print) {
        return print(
            &(gy_tune_query){.ranks = ranks, .hosts = (int)settings.hosts, .is_tcp = is_tcp});
    }
    if (settings.hosts > 0) {
        return gy_cli_report_usage(
            "gyre tune: --hosts needs --print: to measure between hosts, "
            "start 'gyre tune' with 'gyre run' on each host");
    }
    if (!gy_run_is_rank()) {
        return gy_cli_start_run("tune", &(gy_run_options){.ranks = ranks, .is_tcp = is_tcp});
    }
    return measure();
}

const gy_command gy_command_tune = {
    .name = "tune",
    .summary = "measure which algorithm collectives take on this machine",
    .operands = "",
    .operands_most = 0,
    .description =
        "Measures links and algorithms between N ranks and writes a table from which later\n"
        "launches on this machine choose their algorithms: $XDG_CONFIG_HOME/gyre/tune or\n"
        "~/.config/gyre/tune. Inside 'gyre run' or an MPI launcher it measures the ranks of "
        "that\n"
        "launch, also over several hosts.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
