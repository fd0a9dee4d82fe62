/* A job whose processes run at daemons: what all epochs of its managers must agree on, which
 * options are impossible there, and where outputs lie. */
#include "flow/run/run_priv.h"

#include "driver/heartbeat.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the ticket ---- */

gy_status gy_flow_run_look_for_cluster(gy_flow_job *job)
{
    gy_ticket ticket;
    gy_status status = gy_ticket_read(&ticket);
    if (status == GY_NOTFOUND) {
        return GY_OK;
    }
    GY_TRY(status);
    gy_driver_heartbeat_stop();
    int lock = -1;
    job->ticket = gy_alloc("flow.ticket", sizeof(ticket));
    status = job->ticket == NULL ? GY_NOMEM : gy_ticket_begin(&ticket, &lock);
    if (status < 0) {
        gy_free(job->ticket);
        job->ticket = NULL;
        gy_driver_heartbeat_start(job->env, &ticket);
        return status;
    }
    *job->ticket = ticket;
    job->site = &gy_flow_site_cluster;
    job->ticket_lock = lock;
    job->epoch = ticket.epoch;
    return GY_OK;
}

void gy_flow_run_leave_cluster(gy_flow_job *job)
{
    if (job->ticket != NULL) {
        close(job->ticket_lock);
        gy_driver_heartbeat_start(job->env, job->ticket);
        gy_free(job->ticket);
        job->ticket = NULL;
    }
}

uint32_t gy_flow_run_round(const gy_flow_job *job)
{
    return job->ticket != NULL ? job->ticket->round : 0;
}

/* The journal's last generation is at most its epoch + round - 1, so this one is always newer;
 * whatever daemons know of processes of the program's previous job is older. */
uint32_t gy_flow_run_generation(const gy_flow_job *job)
{
    return job->ticket != NULL ? job->ticket->epoch + job->ticket->round - 1 : 0;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Daemons start the submitted program for vertices, so it must be the program that runs
 * here. */
static gy_status check_program(const gy_ticket *ticket)
{
    struct stat own, submitted;
    char path[GY_JOB_PATH] = "";
    if (ticket->program[0] == '\0' || stat(ticket->program, &submitted) != 0 ||
        stat("/proc/self/exe", &own) != 0 ||
        (own.st_dev == submitted.st_dev && own.st_ino == submitted.st_ino)) {
        return GY_OK;
    }
    (void)!readlink("/proc/self/exe", path, sizeof(path) - 1);
    return gy_fail(GY_UNSUPPORTED, "submit %.60s itself, not %.60s: that is what daemons start",
                   name_of(path), name_of(ticket->program));
}

static gy_status check_options(const gy_flow_job *job)
{
    const gy_flow_options *o = &job->options;
    GY_TRY(check_program(job->ticket));
    if (o->memo != NULL && o->memo[0] != '/') {
        return gy_fail(GY_ARG,
                       "the memo of a job on a cluster is '%.200s', expected a path from "
                       "the root, in storage that all hosts have",
                       o->memo);
    }
    if (o->trace != NULL && o->trace[0] != '/') {
        return gy_fail(GY_ARG,
                       "the trace of a job on a cluster is '%.200s', expected a path from "
                       "the root, in storage that all hosts have",
                       o->trace);
    }
    if (o->sandbox != NULL) {
        return gy_fail(GY_UNSUPPORTED, "the daemons of a cluster choose the sandbox of its "
                                       "jobs' processes: expected no sandbox from the job");
    }
    if (o->is_resume) {
        return gy_fail(GY_UNSUPPORTED, "a job on a cluster is resumed by `gyre job resume`, "
                                       "not by its program");
    }
    if (o->output != NULL && o->folder == NULL && gy_uri_is_remote(o->output)) {
        return gy_fail(GY_ARG,
                       "the output %.200s is made in the job's folder first: a job on a "
                       "cluster needs one (--folder, GYRE_JOB_FOLDER) in storage that all "
                       "hosts have at the same path",
                       o->output);
    }
    if (o->output == NULL && o->folder == NULL) {
        return gy_fail(GY_ARG, "a job on a cluster needs an output or a folder in storage that "
                               "all hosts have at the same path");
    }
    /* This host usually provides slots too: start the fork server while the journal is read. */
    gy_ticket_prewarm_hint(job->ticket,
                           &(gy_ticket_request){.threads = (uint32_t)GY_MAX(o->threads, 1),
                                                .memory_bytes = (uint64_t)o->memory_bytes});
    return GY_OK;
}

/* The graph must become the same tasks in each epoch, although hosts come and go. So the first
 * manager records how many slots the largest host lends this job, as the name server reports
 * it, and no cohort is wider. A pipe that does not fit becomes a file. */
static gy_status agree_on_width(gy_flow_job *job)
{
    char path[GY_JOB_PATH], text[16];
    gy_bytes bytes;
    job->width = job->processes;
    if (job->ticket->slots > 0) {
        job->width = (int)GY_MIN(job->ticket->slots, (uint32_t)job->processes);
    }
    GY_TRY(gy_flow_run_path(path, job->folder, "width"));
    (void)snprintf(text, sizeof(text), "%d", job->width);
    gy_status status = gy_share_create(job->env, path, text, strlen(text));
    if (status != GY_EXISTS) {
        return status;
    }
    GY_TRY(gy_share_read(job->env, path, sizeof(text), &bytes));
    char *end = NULL;
    const long width = strtol(bytes.data, &end, 10);
    const bool is_number = end != bytes.data && *end == '\0';
    gy_free(bytes.data);
    job->width = (int)width;
    return is_number && width >= 1 && width <= job->processes
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s does not hold the maximum width of a cohort", path);
}

/* ---- progress ---- */

void gy_flow_run_say(void *arg, const gy_manager *manager, gy_text *line)
{
    const gy_flow_job *job = arg;
    for (size_t i = 0; i < job->dag->stage_count; i++) {
        gy_stage_state state;
        gy_manager_stage(manager, (uint32_t)i, &state);
        gy_text_add(line, "%s%s %u of %u", i > 0 ? ", " : "", job->dag->stages[i].name,
                    state.committed, state.tasks);
    }
}

/* ---- places of outputs ---- */

/* Does an output go to another member of the same cohort, while both run? */
static bool is_channel(const gy_flow_job *job, uint32_t task, uint32_t vertex, uint32_t output)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t first = l->member_first[task], end = l->member_first[task + 1];
    for (uint32_t m = first; end - first > 1 && m < end; m++) {
        const uint32_t reader = l->members[m];
        for (uint32_t e = l->edge_first[reader]; e < l->edge_first[reader + 1]; e++) {
            const gy_dag_edge *edge = &job->dag->edges[e];
            if (edge->from == vertex && edge->output == output &&
                edge->channel != GY_CHANNEL_FILE) {
                return true;
            }
        }
    }
    return false;
}

/* Are an output's bytes in the attempt's own file, which is on the attempt's host? */
static bool is_in_file(const gy_flow_job *job, uint32_t task, uint32_t vertex, uint32_t output)
{
    size_t final = 0, finals = 0;
    if (job->task_flags[task] & GY_TASK_FINAL) {
        gy_flow_lower_finals(job->dag, vertex, &final, &finals);
    }
    for (size_t i = final; i < final + finals; i++) {
        if (job->dag->finals[i].output == output) {
            return false; /* in shared storage */
        }
    }
    return !is_channel(job, task, vertex, output);
}

int64_t gy_flow_run_held(void *arg, const gy_manager *manager, const gy_sched_event *done)
{
    gy_flow_job *job = arg;
    const gy_lowering *l = &job->lowering;
    const uint32_t task = done->id.task;
    gy_report report;
    if (gy_flow_run_is_shared(job)) {
        return -1;
    }
    if (gy_flow_run_follow(job, manager) < 0 || task >= l->task_count ||
        done->member >= l->member_first[task + 1] - l->member_first[task] ||
        gy_report_read(done->report, done->report_bytes, &report) < 0) {
        return 0; /* the manager decides; "held" is the safe answer */
    }
    const uint32_t vertex = l->members[l->member_first[task] + done->member];
    const uint32_t count = GY_MIN(report.output_count, job->dag->outputs[vertex]);
    int64_t bytes = -1;
    for (uint32_t i = 0; i < count && !report.is_inline; i++) {
        const uint64_t size = gy_report_output(&report, i).size_bytes;
        if (size > 0 && is_in_file(job, task, vertex, i)) {
            bytes = GY_MAX(bytes, 0) + (int64_t)size;
        }
    }
    return bytes;
}

/* ---- the site ---- */

/* The same for all epochs. */
static void choose_id(gy_flow_job *job)
{
    GY_ASSERT(job->ticket != NULL);
    const size_t size = gy_print(job->id, sizeof(job->id), "%016llx%016llx",
                                 (unsigned long long)job->ticket->job.high,
                                 (unsigned long long)job->ticket->job.low);
    if (job->ticket->round > 1) {
        (void)snprintf(job->id + size, sizeof(job->id) - size, ".%u",
                       job->ticket->round % 10000);
    }
}

static gy_status find_folder(gy_flow_job *job)
{
    GY_TRY(gy_flow_run_name_folder(job));
    GY_TRY(gy_flow_run_take_back(job));
    return gy_flow_run_make_output_folder(job);
}

const gy_flow_site gy_flow_site_cluster = {
    .name = "cluster",
    .host_max = GY_JOB_HOSTS,
    .process_max = GY_JOB_PROCESSES,
    .store_seconds = GY_JOB_STORE_SECONDS,
    .check = check_options,
    .choose_id = choose_id,
    .find_folder = find_folder,
    .place_journal = gy_flow_run_place_journal,
    .is_done = gy_flow_run_is_done,
    .say_done = gy_flow_run_say_done,
    .check_left = gy_flow_run_check_left,
    .is_left = gy_flow_run_is_left,
    .agree_on_width = agree_on_width,
};
