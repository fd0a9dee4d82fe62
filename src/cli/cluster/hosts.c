/* `gyre run --hosts`: ranks over hosts of a cluster. The command submits itself with the
 * program; started as that job's manager it runs the ranks as a gang, all or none. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <gyre/flow.h>
#include <gyre/launch.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 4096, NUMBERS = 16, PATH_BYTES = 4096 };
static const double look_seconds = 0.1, end_seconds = 30;
static const double wait_told_seconds = 3, wait_again_seconds = 60;

/* ---- the manager ---- */

typedef struct told {
    int exit_status; /* of the ranks; 0: not reported */
} told;

/* Take the output of the ranks and their exit status; the first failure counts. */
static void hear(void *arg, const char *text, size_t size_bytes, int exit_status)
{
    told *heard = arg;
    if (text == NULL) {
        heard->exit_status = heard->exit_status == 0 ? exit_status : heard->exit_status;
        return;
    }
    if (fwrite(text, 1, size_bytes, stdout) != size_bytes || fflush(stdout) != 0) {
        gy_print_to(stderr, "gyre run: cannot write the output of the ranks: %s\n",
                    strerror(errno));
    }
}

/* Without --folder the journal is in a folder of this manager, beside the ticket, and is
 * removed with it. */
static bool find_folder(char path[PATH_BYTES])
{
    const char *ticket = getenv("GYRE_TICKET");
    const char *slash = ticket != NULL ? strrchr(ticket, '/') : NULL;
    return slash != NULL &&
           snprintf(path, PATH_BYTES, "%.*s/run", (int)(slash - ticket), ticket) < PATH_BYTES;
}

static int run_gang(const gy_hosts_settings *given, const gy_run_options *run, char **operands)
{
    char folder[PATH_BYTES];
    told heard = {0};
    gy_flow *flow = NULL;
    gy_dag *dag = NULL;
    gy_status status = gy_cli_flow(&flow);
    status = status == GY_OK ? gy_dag_new(flow, operands[0], &dag) : status;
    if (status != GY_OK) {
        gy_flow_end(flow);
        return gy_cli_report_failure("run", status);
    }
    gy_run_options ranks = *run;
    if (given->folder != NULL &&
        snprintf(folder, sizeof(folder), "%s", given->folder) >= (int)sizeof(folder)) {
        gy_dag_free(dag);
        gy_flow_end(flow);
        return gy_cli_report_usage("gyre run: the folder's path has more than %d bytes",
                                   PATH_BYTES - 1);
    }
    if (given->folder == NULL && !find_folder(folder)) {
        gy_dag_free(dag);
        gy_flow_end(flow);
        gy_print_to(
            stderr,
            "gyre run: this job has no folder: expected to run as the manager of a job\n");
        return GY_EXIT_FAILURE;
    }
    const int count = ranks.ranks;
    ranks.ranks = 0; /* the vertex's option has the number */
    (void)gy_dag_vertex(dag, &(gy_vertex_options){.command = (const char *const *)operands,
                                                  .stage = "ranks",
                                                  .parameter = &ranks,
                                                  .parameter_bytes = sizeof(ranks),
                                                  .determinism = GY_OUTPUT_INDETERMINATE,
                                                  .ranks = count,
                                                  .hosts = (int)given->hosts});
    status = gy_flow_run(
        flow, dag,
        &(gy_flow_options){
            .folder = folder, .failures_max = 1, .on_output = hear, .on_output_arg = &heard},
        NULL);
    int code = GY_EXIT_OK;
    if (status == GY_CANCELLED) {
        code = 128 + SIGTERM;
    } else if (status < 0) {
        gy_print_to(stderr, "gyre run: %s\n", gy_error_text());
        code = heard.exit_status > 0 ? heard.exit_status : GY_EXIT_FAILURE;
    }
    gy_dag_free(dag);
    gy_flow_end(flow);
    return code;
}

/* ---- the submitter ---- */

static volatile sig_atomic_t last_signal;

static void take_signal(int number)
{
    last_signal = number;
}

static void watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        struct sigaction now, take = {.sa_handler = take_signal};
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaction(ending[i], &take, NULL);
        }
    }
}

/* Why a job without slots waits. */
typedef struct waiting {
    const char *id;
    long long hosts;
    double next_seconds; /* time of the next check */
    char reason[GY_CLUSTER_REASON_BYTES], told[GY_CLUSTER_REASON_BYTES]; /* "": nothing */
} waiting;

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static gy_status find_reason(void *arg, const gy_cluster_job *job)
{
    waiting *waits = arg;
    if (strcmp(job->id, waits->id) != 0 || job->is_finished || job->slots_leased > 0) {
        return GY_OK;
    }
    if (job->reason[0] != '\0') {
        snprintf(waits->reason, sizeof(waits->reason), "%s", job->reason);
    } else if (!job->is_up) {
        snprintf(waits->reason, sizeof(waits->reason), "for its manager to start");
    } else {
        snprintf(waits->reason, sizeof(waits->reason), "for free slots on %lld hosts",
                 waits->hosts);
    }
    return GY_OK;
}

/* Report the reason once the wait is long, and again when the reason changes. */
static void tell_waiting(gy_cluster *cluster, waiting *waits)
{
    const double now = now_seconds();
    if (now < waits->next_seconds) {
        return;
    }
    waits->next_seconds = now + wait_again_seconds;
    waits->reason[0] = '\0';
    if (gy_cluster_list(cluster, &(gy_cluster_visit){.job = find_reason, .arg = waits}) < 0) {
        return; /* the wait for the job's end reports the failure */
    }
    if (waits->reason[0] != '\0' && strcmp(waits->reason, waits->told) != 0) {
        gy_print_to(stderr, "gyre run: job %s waits: %s\n", waits->id, waits->reason);
    }
    memcpy(waits->told, waits->reason, sizeof(waits->told));
}

/* Wait for the job's end; a signal kills the job. */
static int wait_for_end(gy_cluster *cluster, const char *id, long long hosts)
{
    waiting waits = {
        .id = id, .hosts = hosts, .next_seconds = now_seconds() + wait_told_seconds};
    gy_cluster_result end = {.epoch = 0};
    gy_status status = GY_TIMEOUT;
    gy_cli_heard heard = {0};
    int ending = 0;
    double left = end_seconds;
    while (status == GY_TIMEOUT && left > 0) {
        if (last_signal != 0 && ending == 0) {
            ending = last_signal;
            gy_print_to(stderr, "gyre run: ended by signal %d (%s)\n", ending,
                        strsignal(ending));
            status = gy_cluster_kill(cluster, id);
            if (status < 0) {
                break;
            }
        }
        left -= ending != 0 ? look_seconds : 0;
        if (ending == 0) {
            tell_waiting(cluster, &waits);
        }
        status =
            gy_cluster_follow_from(cluster, id, look_seconds, gy_cli_print_said, &heard, &end);
    }
    if (status < 0) {
        return gy_cli_report_failure("run", status);
    }
    if (ending != 0) {
        return 128 + ending;
    }
    /* otherwise its manager has printed the reason */
    if (end.status != GY_OK && end.code <= 0) {
        gy_cli_tell_end("run", id, &end, &heard);
    }
    return end.status == GY_OK ? GY_EXIT_OK : end.code > 0 ? end.code : GY_EXIT_FAILURE;
}

typedef struct line {
    const char *words[ARGUMENTS_MAX];
    char numbers[NUMBERS][32];
    int count, number_count;
    bool is_full;
} line;

static void add(line *made, const char *word)
{
    if (made->count + 1 < ARGUMENTS_MAX) {
        made->words[made->count++] = word;
    } else {
        made->is_full = true;
    }
}

static void add_number(line *made, const char *option, double value)
{
    char *text = made->numbers[made->number_count++];
    (void)snprintf(text, sizeof(made->numbers[0]), "%.17g", value);
    add(made, option);
    add(made, text);
}

/* Make the command line of the manager from the options of this one. */
static void make_line(line *made, const gy_hosts_settings *given, const gy_run_options *run,
                      char **operands)
{
    add(made, "run");
    add_number(made, "--hosts", (double)given->hosts);
    add_number(made, "--ranks", run->ranks);
    if (run->has_prefix) {
        add(made, "--prefix");
    }
    if (run->has_no_binding) {
        add(made, "--no-binding");
    }
    if (run->is_tcp) {
        add(made, "--transport");
        add(made, "tcp");
    }
    if (run->on_failure == GY_RUN_RESTART) {
        add(made, "--on-failure");
        add(made, "restart");
    }
    const struct {
        const char *option;
        double value;
    } numbers[] = {{"--timeout", run->timeout_s},
                   {"--grace", run->kill_grace_s},
                   {"--rendezvous-timeout", run->rendezvous_timeout_s},
                   {"--restarts-max", run->restarts},
                   {"--pool", (double)(run->pool_bytes >> 20)}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].value > 0) {
            add_number(made, numbers[i].option, numbers[i].value);
        }
    }
    if (given->folder != NULL) {
        add(made, "--folder");
        add(made, given->folder);
    }
    for (int i = 0; operands[i] != NULL; i++) {
        add(made, operands[i]);
    }
}

static const char *name_of(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static int submit(const gy_hosts_settings *given, const gy_run_options *run, char **operands)
{
    static line made; /* static because a page of pointers is large for a stack */
    char self[PATH_BYTES], id[GY_CLUSTER_ID_BYTES];
    gy_cluster *cluster = NULL;
    const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (size <= 0) {
        gy_print_to(stderr, "gyre run: cannot find this program: %s\n", strerror(errno));
        return GY_EXIT_FAILURE;
    }
    self[size] = '\0';
    add(&made, self);
    make_line(&made, given, run, operands);
    if (made.is_full) {
        return gy_cli_report_usage("gyre run: more than %d arguments", ARGUMENTS_MAX);
    }
    int program_at = made.count;
    for (int i = 0; operands[i] != NULL; i++) {
        program_at--;
    }
    int opened = gy_cli_open_cluster("run", &given->at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    const gy_cluster_program program = {.arguments = made.words,
                                        .files = given->files.items,
                                        .variables = given->variables.items,
                                        .name = given->name != NULL ? given->name
                                                                    : name_of(operands[0]),
                                        .label = given->label,
                                        .weight = (int)given->weight,
                                        .program_at = program_at};
    watch_signals();
    gy_status status = gy_cluster_submit(cluster, &program, id);
    int code = GY_EXIT_OK;
    if (status < 0) {
        code = gy_cli_report_failure("run", status);
        /* the exit status of `gyre run` for a missing program */
        code = status == GY_NOTFOUND ? 127 : code;
    } else {
        code = wait_for_end(cluster, id, given->hosts);
    }
    gy_cluster_close(cluster);
    return code;
}

int gy_cli_run_hosts(const gy_hosts_settings *given, const gy_run_options *run, char **operands)
{
    if (run->ranks % given->hosts != 0) {
        return gy_cli_report_usage(
            "gyre run: %d ranks on %lld hosts: expected the same number on each host",
            run->ranks, given->hosts);
    }
    if (getenv("GYRE_TICKET") != NULL) {
        return run_gang(given, run, operands);
    }
    return given->at.names != NULL
               ? submit(given, run, operands)
               : gy_cli_report_usage(
                     "gyre run: --hosts needs --nameservers, or 'gyre job submit'");
}
