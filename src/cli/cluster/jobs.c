/* `gyre job submit`, `wait`, `resume`, and what `list`, `show` and `kill` do with
 * --nameservers. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/jobs/common.h"
#include "cli/report.h"

#include <gyre/job.h>
#include <gyre/store.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct gy_submit_settings {
    gy_names_settings at;
    const char *name, *label, *journal;
    long long weight, slots;
    gy_option_list files, variables;
    bool is_detached;
    double timeout;
};

gy_submit_settings gy_submit_given;

enum { TIMED_OUT = 124 }; /* as timeout(1) does */

int gy_cli_find_key(const char *what, const char *given, bool is_plaintext, char kept[4096],
                    const char **key)
{
    if (given != NULL && is_plaintext) {
        return gy_cli_report_usage("gyre %s: --key and --plaintext exclude each other", what);
    }
    *key = given;
    if (given == NULL && !is_plaintext) {
        gy_status status = gy_run_key_path(kept, 4096);
        *key = kept;
        return status == GY_OK ? GY_EXIT_OK : gy_cli_report_failure(what, status);
    }
    return GY_EXIT_OK;
}

int gy_cli_failure(const char *what, gy_status status)
{
    return status == GY_ARG ? gy_cli_report_usage("gyre %s: %s", what, gy_error_text())
                            : gy_cli_report_failure(what, status);
}

int gy_cli_check_addresses(const char *what, const char *option, const char *addresses,
                           int port_min)
{
    if (addresses == NULL ||
        gy_cluster_check_addresses(addresses, port_min, port_min == 0 ? 1 : 8) == GY_OK) {
        return GY_EXIT_OK;
    }
    return gy_cli_report_usage("gyre %s: %s: %s", what, option, gy_error_text());
}

bool gy_cli_write_port_file(const char *what, const char *path, const char *address)
{
    char beside[4096];
    if (path == NULL) {
        return true;
    }
    FILE *file = snprintf(beside, sizeof(beside), "%s.new", path) < (int)sizeof(beside)
                     ? fopen(beside, "w")
                     : NULL;
    bool is_written = file != NULL && fprintf(file, "%s\n", address) > 0;
    is_written = file != NULL && fclose(file) == 0 && is_written;
    if (!is_written || rename(beside, path) != 0) {
        gy_print_to(stderr, "gyre %s: cannot write %s: %s\n", what, path, strerror(errno));
        return raise(SIGTERM) != 0; /* the server ends as if by SIGTERM */
    }
    return true;
}

/* Report the failure before closing, which may record a failure of its own. */
int gy_cli_close_cluster(const char *what, gy_cluster *cluster, gy_status status)
{
    int exit_status = status < 0 ? gy_cli_report_failure(what, status) : GY_EXIT_OK;
    gy_cluster_close(cluster);
    return exit_status;
}

bool gy_cli_is_of_cluster(const gy_names_settings *at)
{
    return at->names != NULL || at->key != NULL || at->is_plaintext;
}

/* Open with `options` and the name servers and key of the command line. */
static int open_cluster_as(const char *what, const gy_names_settings *at,
                           gy_cluster_options options, gy_cluster **cluster)
{
    if (at->names == NULL) {
        return gy_cli_report_usage(
            "gyre %s: --nameservers is missing: HOST:PORT of the name server", what);
    }
    int checked = gy_cli_check_addresses(what, "--nameservers", at->names, 1);
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    char kept[4096];
    int found = gy_cli_find_key(what, at->key, at->is_plaintext, kept, &options.key_file);
    if (found != GY_EXIT_OK) {
        return found;
    }
    options.nameservers = at->names;
    options.is_plaintext = at->is_plaintext;
    options.connect_timeout_s = at->connect_timeout_s;
    gy_status status = gy_cluster_open(&options, cluster);
    return status == GY_OK ? GY_EXIT_OK : gy_cli_failure(what, status);
}

int gy_cli_open_cluster(const char *what, const gy_names_settings *at, gy_cluster **cluster)
{
    return open_cluster_as(what, at, (gy_cluster_options){.prewarm = NULL}, cluster);
}

int gy_cli_open_operator(const char *what, const gy_names_settings *at, gy_cluster **cluster)
{
    return open_cluster_as(what, at, (gy_cluster_options){.is_operator = true}, cluster);
}

/* ---- Lists ---- */

static const char *state_name(const gy_cluster_job *job)
{
    if (!job->is_finished) {
        return job->is_up ? "running" : "waiting";
    }
    return job->status == GY_OK ? "done" : job->status == GY_CANCELLED ? "killed" : "failed";
}

static void print_head(bool *is_printed)
{
    if (!*is_printed) {
        printf("%-32s %-8s %13s %6s  %-24s %s\n", "id", "state", "slots", "epoch", "name", "");
        *is_printed = true;
    }
}

/* Print a row; the first one prints the head before it, so that a failure prints no head. */
static gy_status print_row(void *arg, const gy_cluster_job *job)
{
    print_head(arg);
    gy_print_to(stdout, "%-32s %-8s %6u/%-6u %6u  %-24s %s\n", job->id, state_name(job),
                job->slots_leased, job->slots_requested, job->epoch, job->name,
                job->reason[0] != '\0' ? job->reason : job->progress);
    return GY_OK;
}

int gy_cli_cluster_jobs(const gy_names_settings *at)
{
    gy_cluster *cluster = NULL;
    int opened = gy_cli_open_cluster("job list", at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    bool has_head = false;
    gy_status status =
        gy_cluster_list(cluster, &(gy_cluster_visit){.job = print_row, .arg = &has_head});
    if (status == GY_OK) {
        print_head(&has_head);
    }
    return gy_cli_close_cluster("job list", cluster, status);
}

static gy_status print_job(void *arg, const gy_cluster_job *job)
{
    if (strcmp(job->id, arg) != 0) {
        return GY_OK;
    }
    gy_print_to(stdout, "job      %s  %s  %s\n", job->id, job->name, state_name(job));
    printf("weight   %u\nslots    %u allocated, %u requested\n", job->weight, job->slots_leased,
           job->slots_requested);
    gy_print_to(stdout, "manager  epoch %u, attempt %u, at %s\n", job->epoch, job->attempts,
                job->manager[0] != '\0' ? job->manager : "-");
    if (job->reason[0] != '\0') {
        gy_print_to(stdout, "reason   %s\n", job->reason);
    }
    if (job->progress[0] != '\0') {
        gy_print_to(stdout, "progress %s\n", job->progress);
    }
    return GY_OK;
}

static gy_status print_report(void *arg, const gy_job_report *report)
{
    (void)arg;
    gy_cli_print_stages(report->stages, report->stage_count);
    if (report->straggler_count > 0) {
        printf("\nslow attempts\n");
    }
    for (size_t i = 0; i < report->straggler_count; i++) {
        const gy_job_straggler *run = &report->stragglers[i];
        gy_print_to(stdout, "  %s %u at %s for %.3f s", run->stage, run->task, run->host,
                    run->run_s);
        if (run->expected_s > 0) {
            printf(", expected %.3f s", run->expected_s);
        }
        printf("\n");
    }
    gy_cli_print_counters(report->counters, report->counter_count);
    gy_cli_print_notes(report->notes, report->note_count, 0);
    return GY_OK;
}

/* Print the last lines, with bytes that are no text escaped. */
static void print_tail(void *arg, uint32_t epoch, uint64_t lost, const char *text,
                       size_t size_bytes)
{
    enum { LINES = 20, TAIL_BYTES = 64 << 10 };
    (void)arg, (void)epoch, (void)lost;
    size_t begin = size_bytes;
    for (int lines = 0; begin > 0 && lines <= LINES; begin--) {
        lines += begin < size_bytes && text[begin - 1] == '\n';
        if (lines > LINES) {
            break;
        }
    }
    printf("\nlast output\n");
    static char shown[4 * TAIL_BYTES + 16];
    begin = size_bytes - begin > TAIL_BYTES ? size_bytes - TAIL_BYTES : begin;
    (void)gy_printable(shown, sizeof(shown), text + begin, size_bytes - begin, "\n\t");
    (void)fputs(shown, stdout);
    if (size_bytes > 0 && text[size_bytes - 1] != '\n') {
        printf("\n");
    }
}

int gy_cli_cluster_show(const gy_names_settings *at, const char *job)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    int opened = gy_cli_open_cluster("job show", at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = gy_cluster_find_job(cluster, job, id);
    status = status == GY_OK
                 ? gy_cluster_list(cluster, &(gy_cluster_visit){.job = print_job, .arg = id})
                 : status;
    status = status == GY_OK ? gy_cluster_read_report(cluster, id, print_report, NULL) : status;
    status = status == GY_OK ? gy_cluster_log_tail(cluster, id, print_tail, NULL) : status;
    return gy_cli_close_cluster("job show", cluster, status);
}

int gy_cli_cluster_kill(const gy_names_settings *at, const char *job)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    int opened = gy_cli_open_cluster("job kill", at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = gy_cluster_find_job(cluster, job, id);
    status = status == GY_OK ? gy_cluster_kill(cluster, id) : status;
    return gy_cli_close_cluster("job kill", cluster, status);
}

int gy_cli_cluster_forget(const gy_names_settings *at, double timeout, char **jobs, int count)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    int opened = gy_cli_open_cluster("job gc", at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = GY_OK;
    for (int i = 0; i < count && status == GY_OK; i++) {
        status = gy_cluster_find_job(cluster, jobs[i], id);
        status = status == GY_OK ? gy_cluster_forget(cluster, id, timeout) : status;
        if (status == GY_OK) {
            gy_print_to(stdout, "%s: its files are removed\n", id);
        }
    }
    const int ended = gy_cli_close_cluster("job gc", cluster, status);
    return status == GY_TIMEOUT ? TIMED_OUT : ended;
}

/* ---- Submitting and waiting ---- */

static void keep_tail(gy_cli_heard *heard, const char *text, size_t size_bytes)
{
    const size_t room = sizeof(heard->tail);
    const size_t size = size_bytes < room ? size_bytes : room;
    const size_t kept = heard->tail_bytes < room - size ? heard->tail_bytes : room - size;
    memmove(heard->tail, heard->tail + heard->tail_bytes - kept, kept);
    memcpy(heard->tail + kept, text + size_bytes - size, size);
    heard->tail_bytes = kept + size;
}

/* Whether the text after "exit status N: ", which may be truncated, is the end of its output.
 */
static bool has_printed(const gy_cli_heard *heard, const char *reason)
{
    const char *words = strstr(reason, ": ");
    size_t size = words != NULL ? strlen(words + 2) : 0;
    if (words == NULL || strncmp(reason, "exit status ", 12) != 0) {
        return false;
    }
    if (size > 3 && strcmp(words + 2 + size - 3, "...") == 0) {
        size -= 3;
    }
    return size > 0 && memmem(heard->tail, heard->tail_bytes, words + 2, size) != NULL;
}

void gy_cli_tell_end(const char *what, const char *id, const gy_cluster_result *end,
                     const gy_cli_heard *heard)
{
    const bool is_told = has_printed(heard, end->reason);
    gy_print_to(stderr, "gyre %s: job %s %s: %.*s\n", what, id,
                end->status == GY_CANCELLED ? "was killed" : "failed",
                is_told ? (int)strcspn(end->reason, ":") : (int)strlen(end->reason),
                end->reason);
}

/* Print the job's output, and report what is missing of it. */
void gy_cli_print_said(void *arg, uint32_t epoch, uint64_t lost, const char *text,
                       size_t size_bytes)
{
    gy_cli_heard *heard = arg;
    if (heard->epoch != 0 && epoch > heard->epoch) {
        fflush(stdout);
        gy_print_to(stderr, "gyre: another manager has taken over, epoch %u\n", epoch);
    }
    heard->epoch = epoch;
    keep_tail(heard, text, size_bytes);
    if (lost > 0) {
        fflush(stdout);
        gy_print_to(stderr, "gyre: %llu bytes of the job's output are lost\n",
                    (unsigned long long)lost);
    }
    if (fwrite(text, 1, size_bytes, stdout) != size_bytes || fflush(stdout) != 0) {
        clearerr(stdout); /* standard output has no reader; the job's end still counts */
    }
}

/* Wait for the end of the job, from the manager of `epoch` on. Returns 0 when it succeeded, 124
 * when it did not end in time, else 1. */
static int wait_for(const char *what, gy_cluster *cluster, const char *id, uint32_t epoch,
                    gy_cli_heard *heard)
{
    gy_cluster_result end = {.epoch = epoch};
    gy_status status = gy_cluster_follow_from(cluster, id, gy_submit_given.timeout,
                                              gy_cli_print_said, heard, &end);
    if (status == GY_TIMEOUT) {
        gy_print_to(stderr, "gyre %s: job %s is still running after %g s\n", what, id,
                    gy_submit_given.timeout);
        return TIMED_OUT;
    }
    if (status < 0) {
        return gy_cli_report_failure(what, status);
    }
    if (end.status != GY_OK) {
        gy_cli_tell_end(what, id, &end, heard);
        return GY_EXIT_FAILURE;
    }
    return GY_EXIT_OK;
}

/* List the given variables, and the one of the journal's place. Returns the exit status. */
static int list_variables(char journal[4096], const char *variables[GY_OPTION_LIST_MAX + 2])
{
    const char *const *given = gy_submit_given.variables.items;
    const char *where = gy_submit_given.journal;
    size_t count = 0;
    if (where != NULL && where[0] != '/' && strstr(where, ":/") == NULL) {
        return gy_cli_report_usage("gyre job submit: --journal is '%s', expected a URI (s3://, "
                                   "hdfs://, file:/) or a path from the root",
                                   where);
    }
    if (where != NULL && gy_store_check(where) < 0) {
        return gy_cli_report_usage("gyre job submit: --journal: %s", gy_error_text());
    }
    if (where != NULL && snprintf(journal, 4096, "GYRE_JOB_JOURNAL=%s", where) >= 4096) {
        return gy_cli_report_usage("gyre job submit: --journal is too long");
    }
    while (given[count] != NULL) {
        variables[count] = given[count];
        count++;
    }
    variables[count] = where != NULL ? journal : NULL;
    return GY_EXIT_OK;
}

static int check_submit(void)
{
    const char *label = gy_submit_given.label;
    const char *const *files = gy_submit_given.files.items;
    const char *const *variables = gy_submit_given.variables.items;
    if (label != NULL && (label[0] == '\0' || strchr(label, ',') != NULL)) {
        return gy_cli_report_usage("gyre job submit: --label is '%s', expected one word",
                                   label);
    }
    for (; *variables != NULL; variables++) {
        if (**variables == '=' || **variables == '\0') {
            return gy_cli_report_usage("gyre job submit: --env is '%s', expected NAME[=VALUE]",
                                       *variables);
        }
    }
    for (; *files != NULL; files++) {
        if (access(*files, R_OK) != 0) {
            return gy_cli_report_usage("gyre job submit: --file %s: %s", *files,
                                       strerror(errno));
        }
    }
    return GY_EXIT_OK;
}

static bool has_heard(const gy_cli_heard *heard, const char *words)
{
    return memmem(heard->tail, heard->tail_bytes, words, strlen(words)) != NULL;
}

/* Whether the end of the output names the file that the hint begins with. */
static bool is_heard(const gy_cli_heard *heard, const char *hint)
{
    const char *end = strstr(hint, " is missing in ");
    end = end != NULL ? end : strstr(hint, " is placed in ");
    const size_t size = end != NULL ? (size_t)(end - hint) : strlen(hint);
    const char *slash = memrchr(hint, '/', size);
    const char *name = slash != NULL ? slash + 1 : hint;
    return memmem(heard->tail, heard->tail_bytes, name, size - (size_t)(name - hint)) != NULL;
}

/* When the output of a failed job mentions a missing file, look for a file that the command
 * line names and that exists only on this host. */
static void tell_unbrought(char **operands, const gy_cli_heard *heard)
{
    char hint[2400];
    if (has_heard(heard, " is missing in ") ||
        (!has_heard(heard, strerror(ENOENT)) && !has_heard(heard, "No such file") &&
         !has_heard(heard, "not found") && !has_heard(heard, "annot open"))) {
        return;
    }
    for (char **at = operands + 1; *at != NULL; at++) {
        if (gy_cli_find_unbrought(*at, gy_submit_given.files.items, hint, sizeof(hint)) &&
            is_heard(heard, hint)) {
            gy_print_to(stderr, "gyre job submit: %s (before the program)\n", hint);
            return;
        }
    }
}

int gy_cli_job_submit(char **operands, int count)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    (void)count;
    int checked = check_submit();
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    int opened = open_cluster_as("job submit", &gy_submit_given.at,
                                 (gy_cluster_options){.prewarm = operands[0]}, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    char journal[4096];
    const char *variables[GY_OPTION_LIST_MAX + 2] = {NULL};
    int used = list_variables(journal, variables);
    if (used != GY_EXIT_OK) {
        gy_cluster_close(cluster);
        return used;
    }
    const gy_cluster_program program = {.arguments = (const char *const *)operands,
                                        .files = gy_submit_given.files.items,
                                        .variables = variables,
                                        .name = gy_submit_given.name,
                                        .label = gy_submit_given.label,
                                        .weight = (int)gy_submit_given.weight,
                                        .slots_max = (int)gy_submit_given.slots};
    gy_cli_heard heard = {0};
    gy_status status = gy_cluster_submit(cluster, &program, id);
    int exit_status = GY_EXIT_OK;
    if (status < 0) {
        exit_status = gy_cli_report_failure("job submit", status);
    } else {
        gy_print_to(stdout, "%s\n", id);
        fflush(stdout);
        exit_status = gy_submit_given.is_detached
                          ? GY_EXIT_OK
                          : wait_for("job submit", cluster, id, 0, &heard);
        if (exit_status == GY_EXIT_FAILURE) {
            tell_unbrought(operands, &heard);
        }
    }
    gy_cluster_close(cluster);
    return exit_status;
}

int gy_cli_job_wait(char **operands, int count)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    (void)count;
    int opened = gy_cli_open_cluster("job wait", &gy_submit_given.at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = gy_cluster_find_job(cluster, operands[0], id);
    int exit_status = status == GY_OK ? wait_for("job wait", cluster, id, 0, &(gy_cli_heard){0})
                                      : gy_cli_report_failure("job wait", status);
    gy_cluster_close(cluster);
    return exit_status;
}

static int resume_there(const char *job)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    uint32_t epoch = 0;
    int opened = gy_cli_open_cluster("job resume", &gy_submit_given.at, &cluster);
    if (opened != GY_EXIT_OK) {
        return opened;
    }
    gy_status status = gy_cluster_find_job(cluster, job, id);
    status = status == GY_OK ? gy_cluster_resume(cluster, id, &epoch) : status;
    int exit_status = GY_EXIT_OK;
    if (status < 0) {
        exit_status = gy_cli_report_failure("job resume", status);
    } else if (!gy_submit_given.is_detached) {
        exit_status = wait_for("job resume", cluster, id, epoch, &(gy_cli_heard){0});
    }
    gy_cluster_close(cluster);
    return exit_status;
}

int gy_cli_job_resume(char **operands, int count)
{
    (void)count;
    if (gy_cli_is_of_cluster(&gy_submit_given.at)) {
        return resume_there(operands[0]);
    }
    if (gy_submit_given.is_detached || gy_submit_given.timeout > 0) {
        return gy_cli_report_usage(
            "gyre job resume: --no-wait and --wait-timeout are for jobs of a "
            "cluster (--nameservers)");
    }
    return gy_cli_report_failure("job resume", gy_job_resume(operands[0]));
}

#define PLACE(member) offsetof(struct gy_submit_settings, member)

const gy_option gy_submit_options[GY_SUBMIT_OPTIONS] = {
    GY_NAMES_OPTIONS(struct gy_submit_settings),
    {&gy_option_name, GY_OPTION_TEXT, "default: what runs", PLACE(name), 0, 0, NULL},
    {&gy_option_weight, GY_OPTION_INTEGER, "1 to 1000, default: 100", PLACE(weight), 1, 1000,
     NULL},
    {&gy_option_slots_max, GY_OPTION_INTEGER, "default: no limit", PLACE(slots), 1, 1 << 22,
     NULL},
    {&gy_option_label, GY_OPTION_TEXT, NULL, PLACE(label), 0, 0, NULL},
    {&gy_option_file, GY_OPTION_PATHS, "placed beside the program; may be repeated",
     PLACE(files), 0, 0, NULL},
    {&gy_option_env, GY_OPTION_LIST, NULL, PLACE(variables), 0, 0, NULL},
    {&gy_option_journal, GY_OPTION_TEXT, "default: in the folder of the output", PLACE(journal),
     0, 0, NULL},
    {&gy_option_no_wait, GY_OPTION_FLAG, NULL, PLACE(is_detached), 0, 0, NULL},
    {&gy_option_wait_timeout, GY_OPTION_REAL, NULL, PLACE(timeout), 0.001, 1e9, NULL},
};

const gy_option gy_wait_options[GY_WAIT_OPTIONS] = {
    GY_NAMES_OPTIONS(struct gy_submit_settings),
    {&gy_option_wait_timeout, GY_OPTION_REAL, NULL, PLACE(timeout), 0.001, 1e9, NULL},
};

const gy_option gy_resume_options[GY_RESUME_OPTIONS] = {
    GY_NAMES_OPTIONS(struct gy_submit_settings),
    {&gy_option_no_wait, GY_OPTION_FLAG, NULL, PLACE(is_detached), 0, 0, NULL},
    {&gy_option_wait_timeout, GY_OPTION_REAL, NULL, PLACE(timeout), 0.001, 1e9, NULL},
};
