/* `gyre job`: each verb is a command of its own with options of its own. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/jobs/common.h"
#include "cli/report.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LAST_JOBS = 20 };

static struct job_settings {
    gy_job_settings job;
    gy_names_settings at;
    long long last, quota, memory;
    double keep;
} settings = {.last = -1, .quota = -1, .keep = -1};

static const char *state_name(gy_job_state state)
{
    switch (state) {
    case GY_JOB_RUNNING:
        return "running";
    case GY_JOB_DONE:
        return "done";
    case GY_JOB_FAILED:
        return "failed";
    case GY_JOB_KILLED:
        return "killed";
    case GY_JOB_INTERRUPTED:
        return "interrupted";
    }
    return "";
}

static const char *took_text(const gy_job *job, char out[32])
{
    if (job->ended_ns == 0) {
        snprintf(out, 32, "-");
    } else {
        snprintf(out, 32, "%.3f s", (double)(job->ended_ns - job->started_ns) * 1e-9);
    }
    return out;
}

static void print_header(bool *is_printed)
{
    if (!*is_printed) {
        printf("%-22s %-11s %-19s %12s  %s\n", "id", "state", "started", "took", "name");
        *is_printed = true;
    }
}

static gy_status print_row(void *arg, const gy_job *job)
{
    char date[32], took[32];
    print_header(arg);
    gy_print_to(stdout, "%-22s %-11s %s %12s  %s\n", job->id, state_name(job->state),
                gy_cli_date_text(job->started_ns, date), took_text(job, took),
                job->report.name);
    return GY_OK;
}

static int run_list(char **operands, int count)
{
    (void)operands;
    (void)count;
    if (gy_cli_is_of_cluster(&settings.at)) {
        return settings.last < 0
                   ? gy_cli_cluster_jobs(&settings.at)
                   : gy_cli_report_usage("gyre job list: --last and --nameservers exclude each "
                                         "other: --last is for jobs of this machine");
    }
    const int most = settings.last < 0 ? LAST_JOBS : (int)settings.last;
    bool has_header = false; /* the first row prints it, so that a failure prints none */
    gy_status status = gy_job_list(most, print_row, &has_header);
    if (status != GY_OK) {
        return gy_cli_report_failure("job list", status);
    }
    print_header(&has_header);
    return GY_EXIT_OK;
}

static void print_bad_records(const gy_job *job)
{
    if (job->report.bad_record_count > 0) {
        printf("\nskipped records\n");
    }
    for (size_t i = 0; i < job->report.bad_record_count; i++) {
        const gy_job_bad_record *bad = &job->report.bad_records[i];
        gy_print_to(stdout, "  %s at %llu: %s\n", bad->source, (unsigned long long)bad->offset,
                    bad->what);
        for (const char *line = bad->backtrace; *line != '\0';) {
            size_t size = strcspn(line, "\n");
            printf("    %.*s\n", (int)size, line);
            line += size + (line[size] == '\n' ? 1 : 0);
        }
    }
}

static void print_job(const gy_job *job)
{
    char date[32], took[32];
    gy_print_to(stdout, "job      %s  %s  %s\n", job->id, job->report.name,
                state_name(job->state));
    printf("command ");
    for (int i = 0; job->arguments[i] != NULL; i++) {
        gy_print_to(stdout, " %s", job->arguments[i]);
    }
    printf("\n");
    gy_print_to(stdout, "in       %s\n", job->directory);
    gy_print_to(stdout, "folder   %s\n", job->report.folder);
    gy_print_to(stdout, "output   %s\n", job->output[0] != '\0' ? job->output : "-");
    printf("started  %s, took %s\n", gy_cli_date_text(job->started_ns, date),
           took_text(job, took));
    if (job->reason[0] != '\0') {
        gy_print_to(stdout, "reason   %s\n", job->reason);
    }
    gy_cli_print_stages(job->report.stages, job->report.stage_count);
    gy_cli_print_counters(job->report.counters, job->report.counter_count);
    print_bad_records(job);
    gy_cli_print_notes(job->report.notes, job->report.note_count, job->started_ns);
    if (job->report.notes_dropped > 0) {
        printf("  and %lld more\n", (long long)job->report.notes_dropped);
    }
}

static int run_show(char **operands, int count)
{
    (void)count;
    if (gy_cli_is_of_cluster(&settings.at)) {
        return gy_cli_cluster_show(&settings.at, operands[0]);
    }
    gy_job *job = NULL;
    gy_status status = gy_job_read(operands[0], &job);
    if (status != GY_OK) {
        return gy_cli_report_failure("job show", status);
    }
    print_job(job);
    gy_job_free(job);
    return GY_EXIT_OK;
}

static int run_kill(char **operands, int count)
{
    (void)count;
    if (gy_cli_is_of_cluster(&settings.at)) {
        return gy_cli_cluster_kill(&settings.at, operands[0]);
    }
    gy_status status = gy_job_kill(operands[0]);
    return status == GY_OK ? GY_EXIT_OK : gy_cli_report_failure("job kill", status);
}

/* Set a variable to a number; do nothing for an option that was not given. */
static bool set_number(const char *name, double value)
{
    char text[64];
    snprintf(text, sizeof(text), "%.15g", value);
    return value <= 0 || setenv(name, text, 1) == 0;
}

static bool set_text(const char *name, const char *text)
{
    return text == NULL || setenv(name, text, 1) == 0;
}

static int run_run(char **operands, int count)
{
    (void)count;
    bool is_set = set_number("GYRE_JOB_PROCESSES", (double)settings.job.processes) &&
                  set_number("GYRE_JOB_THREADS", (double)settings.job.threads) &&
                  set_number("GYRE_JOB_MEMORY", (double)settings.memory) &&
                  set_number("GYRE_JOB_TIMEOUT", settings.job.timeout) &&
                  set_number("GYRE_JOB_HEARTBEAT_TIMEOUT", settings.job.heartbeat_timeout) &&
                  set_text("GYRE_JOB_FOLDER", settings.job.folder) &&
                  set_text("GYRE_JOB_MEMO", settings.job.memo) &&
                  set_number("GYRE_JOB_MEMO_BYTES", (double)settings.job.memo_bytes) &&
                  set_text("GYRE_JOB_TRACE", settings.job.trace) &&
                  set_text("GYRE_JOB_SANDBOX", settings.job.sandbox);
    if (!is_set) {
        gy_print_to(stderr, "gyre job run: out of memory for the environment\n");
        return GY_EXIT_FAILURE;
    }
    execvp(operands[0], operands);
    gy_print_to(stderr, "gyre job run: cannot start %s: %s\n", operands[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

/* Remove the given jobs of this machine. */
static int forget_these(char **operands, int count)
{
    if (settings.quota >= 0 || settings.keep >= 0 || settings.job.memo != NULL) {
        return gy_cli_report_usage(
            "gyre job gc: --quota, --keep-days and --memo exclude a list of jobs");
    }
    for (int i = 0; i < count; i++) {
        const gy_status status = gy_job_forget(operands[i]);
        if (status != GY_OK) {
            return gy_cli_report_failure("job gc", status);
        }
    }
    printf("%d job%s removed\n", count, count == 1 ? "" : "s");
    return GY_EXIT_OK;
}

static int run_gc(char **operands, int count)
{
    if (gy_cli_is_of_cluster(&settings.at)) {
        const bool is_home =
            settings.quota >= 0 || settings.keep >= 0 || settings.job.memo != NULL;
        return is_home || count == 0
                   ? gy_cli_report_usage("gyre job gc: --nameservers needs a list of jobs, and "
                                         "excludes --quota, --keep-days and --memo")
                   : gy_cli_cluster_forget(&settings.at, settings.job.timeout, operands, count);
    }
    if (settings.job.timeout > 0) {
        return gy_cli_report_usage(
            "gyre job gc: --wait-timeout is for a cluster (--nameservers)");
    }
    if (count > 0) {
        return forget_these(operands, count);
    }
    const long long quota =
        settings.quota >= 0 ? settings.quota : (long long)GY_JOB_QUOTA_BYTES;
    const double retention_s = settings.keep >= 0 ? settings.keep * 86400 : GY_JOB_RETENTION_S;
    if (settings.job.memo != NULL) {
        if (settings.keep >= 0) {
            return gy_cli_report_usage(
                "gyre job gc: --keep-days is for jobs, not for memoised results (--memo)");
        }
        int64_t memo_freed = 0;
        gy_status collected = gy_flow_collect(settings.job.memo, quota, &memo_freed);
        if (collected != GY_OK) {
            return gy_cli_report_failure("job gc", collected);
        }
        gy_print_to(stdout, "%lld bytes freed in %s\n", (long long)memo_freed,
                    settings.job.memo);
        return GY_EXIT_OK;
    }
    int removed = 0;
    uint64_t freed = 0;
    gy_status status = gy_job_collect((uint64_t)quota, retention_s, &removed, &freed);
    if (status != GY_OK) {
        return gy_cli_report_failure("job gc", status);
    }
    printf("%d job%s removed, %llu bytes freed\n", removed, removed == 1 ? "" : "s",
           (unsigned long long)freed);
    return GY_EXIT_OK;
}

#define PLACE(member) offsetof(struct job_settings, member)

static const gy_option run_options[] = {
    GY_JOB_OPTIONS(struct job_settings),
    {&gy_option_memory_max, GY_OPTION_SIZE, "default: no limit", PLACE(memory),
     GY_FLOW_MEMORY_BYTES_MIN, 0, NULL},
};

static const gy_option names_options[] = {GY_NAMES_OPTIONS(struct job_settings)};

static const gy_option list_options[] = {
    GY_NAMES_OPTIONS(struct job_settings),
    {&gy_option_last, GY_OPTION_INTEGER, "default: 20; 0: all", PLACE(last), 0, 1e9, NULL},
};

static const gy_option gc_options[] = {
    GY_NAMES_OPTIONS(struct job_settings),
    {&gy_option_quota, GY_OPTION_SIZE,
     "folders of finished jobs, or with --memo the memoised results; default: 1GiB",
     PLACE(quota), 0, 0, NULL},
    {&gy_option_memo, GY_OPTION_PATH,
     "remove results from it instead, the least recently used first", PLACE(job.memo), 0, 0,
     NULL},
    {&gy_option_keep_days, GY_OPTION_REAL, "default: 7", PLACE(keep), 0, 36500, NULL},
    {&gy_option_wait_timeout, GY_OPTION_REAL, "with --nameservers, for each job",
     PLACE(job.timeout), 0.001, 1e9, NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const gy_command verbs[] = {
    {.name = "job run",
     .operands = "PROGRAM [ARGUMENT...]",
     .operands_least = 1,
     .operands_most = -1,
     .stops_at_operand = true,
     .description =
         "Starts a program that runs jobs (gy_flow_run), with these options in place of the\n"
         "program's own.",
     .options = run_options,
     .option_count = COUNT(run_options),
     .settings = &settings,
     .run = run_run},
    {.name = "job list",
     .operands = "",
     .description =
         "Lists jobs, newest first. With --nameservers: all jobs that the cluster's name "
         "server\n"
         "knows.",
     .options = list_options,
     .option_count = COUNT(list_options),
     .settings = &settings,
     .run = run_list},
    {.name = "job show",
     .operands = "JOB",
     .operands_least = 1,
     .operands_most = 1,
     .description =
         "Shows a job: stages, counters, skipped records, and the reason of each wait, "
         "failure,\n"
         "loss, backup task and retry. With --nameservers: what the cluster's name server "
         "knows\n"
         "about the job.",
     .options = names_options,
     .option_count = COUNT(names_options),
     .settings = &settings,
     .run = run_show},
    {.name = "job kill",
     .operands = "JOB",
     .operands_least = 1,
     .operands_most = 1,
     .description = "Asks a running job to end, as Ctrl-C does.",
     .options = names_options,
     .option_count = COUNT(names_options),
     .settings = &settings,
     .run = run_kill},
    {.name = "job submit",
     .operands = "PROGRAM [ARGUMENT...]",
     .operands_least = 1,
     .operands_most = -1,
     .stops_at_operand = true,
     .description =
         "Runs a program that runs jobs (gy_flow_run) on a cluster: uploads the program, its\n"
         "libraries outside the system's folders and the given files, prints the job's id, "
         "waits\n"
         "for the job's end and prints the job's output (256 KiB are buffered for a slow "
         "reader).\n"
         "The job outlives this command and this host.",
     .options = gy_submit_options,
     .option_count = GY_SUBMIT_OPTIONS,
     .settings = &gy_submit_given,
     .run = gy_cli_job_submit},
    {.name = "job wait",
     .operands = "JOB",
     .operands_least = 1,
     .operands_most = 1,
     .description = "Waits for the end of a job of a cluster. The exit status is 0 when the "
                    "job succeeded.",
     .options = gy_wait_options,
     .option_count = GY_WAIT_OPTIONS,
     .settings = &gy_submit_given,
     .run = gy_cli_job_wait},
    {.name = "job resume",
     .operands = "JOB",
     .operands_least = 1,
     .operands_most = 1,
     .description =
         "Resumes a job whose manager has ended: starts its program as it was started. "
         "Committed\n"
         "tasks do not run again. With --nameservers: resumes a job of the cluster that failed "
         "or\n"
         "was killed, and waits for its end (the cluster itself continues an unfinished job).",
     .options = gy_resume_options,
     .option_count = GY_RESUME_OPTIONS,
     .settings = &gy_submit_given,
     .run = gy_cli_job_resume},
    {.name = "job gc",
     .operands = "[JOB...]",
     .operands_most = -1,
     .description =
         "Removes the given jobs, or finished jobs, oldest first, until their folders hold no\n"
         "more than the quota (which each job also enforces at its end), and what interrupted "
         "jobs\n"
         "left in their output. With --nameservers: removes the files that a cluster retains "
         "of\n"
         "the given jobs, which failed or were killed. A removed job cannot be resumed.",
     .options = gc_options,
     .option_count = COUNT(gc_options),
     .settings = &settings,
     .run = run_gc},
};

const gy_command gy_command_job = {
    .name = "job",
    .summary = "run, submit, list, show, kill, resume and remove jobs",
    .operands = "VERB [OPTION...] [OPERAND...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description = "run PROGRAM     start a program that runs jobs\n"
                   "submit PROGRAM  run it on a cluster\n"
                   "wait JOB        wait for the end of a job of a cluster\n"
                   "list            list the last jobs of this user on this machine\n"
                   "show JOB        show all that is known about a job\n"
                   "kill JOB        end a job\n"
                   "resume JOB      resume a job whose manager has ended\n"
                   "gc [JOB...]     remove the files of old jobs\n"
                   "\n"
                   "JOB is an id that 'gyre job list' shows, or its beginning. 'gyre job VERB "
                   "--help' shows\n"
                   "the options of a verb.",
    .verbs = verbs,
    .verb_count = COUNT(verbs),
};
