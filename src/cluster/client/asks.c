/* A user's requests: lists, status, waiting, kill, resume, drain. */
#include "cluster/client/client_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- The list ---- */

static gy_status show_job(const gy_cluster_visit *visit, const Gy__Cluster__JobRow *row)
{
    gy_cluster_job job = {.name = row->name,
                          .manager = row->address,
                          .reason = row->reason,
                          .progress = row->progress,
                          .epoch = row->epoch,
                          .weight = row->weight,
                          .slots_requested = row->slots_wanted,
                          .slots_leased = row->slots_held,
                          .attempts = row->attempts,
                          .is_finished = row->is_ended,
                          .is_up = row->is_up,
                          .status = (gy_status)row->status};
    gy_net_key_text(gy_net_key(row->job), job.id);
    return visit->job(visit->arg, &job);
}

static gy_status show_daemon(const gy_cluster_visit *visit, const Gy__Cluster__DaemonRow *row)
{
    gy_cluster_daemon daemon = {.address = row->address,
                                .host = row->host,
                                .labels = row->labels,
                                .unavailable_reason = row->trouble,
                                .slots = row->slots,
                                .slots_leased = row->leased,
                                .managers = row->managers,
                                .is_up = row->is_up,
                                .is_drained = row->is_drained,
                                .heartbeat_age_s = (double)row->silent_ns * 1e-9};
    snprintf(daemon.id, sizeof(daemon.id), "%016llx", (unsigned long long)row->daemon);
    return visit->daemon(visit->arg, &daemon);
}

static gy_status show(void *arg, const ProtobufCMessage *answer)
{
    const gy_cluster_visit *visit = arg;
    const Gy__Cluster__List *list = (const Gy__Cluster__List *)answer;
    gy_status status = GY_OK;
    for (size_t i = 0; visit->daemon != NULL && i < list->n_daemons && status == GY_OK; i++) {
        status = show_daemon(visit, list->daemons[i]);
    }
    for (size_t i = 0; visit->job != NULL && i < list->n_jobs && status == GY_OK; i++) {
        status = show_job(visit, list->jobs[i]);
    }
    return status;
}

gy_status gy_cluster_list(gy_cluster *cluster, const gy_cluster_visit *visit)
{
    const Gy__Cluster__AskList all = GY__CLUSTER__ASK_LIST__INIT;
    gy_cluster_visit own = *visit;
    return gy_client_ask(cluster, GY_NET_LIST, &all.base, gy_client_soon(cluster), show, &own);
}

/* ---- The status of one job ---- */

typedef struct look {
    gy_cluster_report_visit visit;
    void *arg;
} look;

/* Write the rows of `report` from the view, which owns their texts. GY_NOMEM */
static gy_status fill_report(const Gy__Cluster__View *view, gy_arena *arena,
                             gy_job_report *report)
{
    gy_job_stage *stages = gy_arena_alloc(arena, (view->n_stages + 1) * sizeof(*stages));
    gy_job_counter *counters =
        gy_arena_alloc(arena, (view->n_counters + 1) * sizeof(*counters));
    gy_job_note *notes = gy_arena_alloc(arena, (view->n_notes + 1) * sizeof(*notes));
    gy_job_straggler *slow = gy_arena_alloc(arena, (view->n_slow + 1) * sizeof(*slow));
    if (stages == NULL || counters == NULL || notes == NULL || slow == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < view->n_stages; i++) {
        const Gy__Cluster__ViewStage *from = view->stages[i];
        stages[i] = (gy_job_stage){.name = from->name,
                                   .tasks = from->tasks,
                                   .committed = from->committed,
                                   .memoised = from->memoised,
                                   .attempts = from->runs,
                                   .failures = from->failed,
                                   .backups = from->copies,
                                   .backups_won = from->backups_won,
                                   .run_s = (double)from->run_ns * 1e-9};
    }
    for (size_t i = 0; i < view->n_counters; i++) {
        counters[i] = (gy_job_counter){view->counters[i]->name, view->counters[i]->value};
    }
    for (size_t i = 0; i < view->n_notes; i++) {
        notes[i] = (gy_job_note){view->notes[i]->wall_ns, view->notes[i]->text};
    }
    for (size_t i = 0; i < view->n_slow; i++) {
        const Gy__Cluster__ViewRun *from = view->slow[i];
        slow[i] = (gy_job_straggler){.stage = view->stages[from->stage]->name,
                                     .host = from->host,
                                     .task = from->task,
                                     .run_s = (double)from->run_ns * 1e-9,
                                     .expected_s = (double)from->expected_ns * 1e-9};
    }
    *report = (gy_job_report){.name = "",
                              .folder = "",
                              .epoch = view->epoch,
                              .stages = stages,
                              .counters = counters,
                              .notes = notes,
                              .stragglers = slow,
                              .stage_count = view->n_stages,
                              .counter_count = view->n_counters,
                              .note_count = view->n_notes,
                              .straggler_count = view->n_slow,
                              .bad_record_text = ""};
    return GY_OK;
}

static gy_status show_view(void *arg, const ProtobufCMessage *answer)
{
    const look *at = arg;
    const Gy__Cluster__View *view = (const Gy__Cluster__View *)answer;
    gy_job_report report = {.name = "", .folder = "", .bad_record_text = ""};
    gy_arena arena = {0};
    gy_status status = GY_OK;
    if (view->epoch != 0) {
        status = gy_net_check_view(view);
        status = status == GY_OK ? fill_report(view, &arena, &report) : status;
    }
    status = status == GY_OK ? at->visit(at->arg, &report) : status;
    gy_arena_free(&arena);
    return status;
}

gy_status gy_cluster_read_report(gy_cluster *cluster, const char *id,
                                 gy_cluster_report_visit visit, void *arg)
{
    gy_key job;
    look at = {visit, arg};
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__AskView asks = GY__CLUSTER__ASK_VIEW__INIT;
    GY_TRY(gy_client_read_id(id, &job));
    key.high = job.high;
    key.low = job.low;
    asks.job = &key;
    return gy_client_ask(cluster, GY_NET_ASK_VIEW, &asks.base, gy_client_soon(cluster),
                         show_view, &at);
}

/* ---- Find a job by the beginning of its id ---- */

typedef struct search {
    const char *beginning;
    char id[GY_CLUSTER_ID_BYTES];
    int found;
} search;

static void look_at(search *at, const char *id, const char *host)
{
    bool is_it = strncmp(id, at->beginning, strlen(at->beginning)) == 0;
    if (is_it || (host != NULL && strcmp(host, at->beginning) == 0)) {
        at->found++;
        snprintf(at->id, sizeof(at->id), "%s", id);
    }
}

static gy_status look_at_job(void *arg, const gy_cluster_job *job)
{
    look_at(arg, job->id, NULL);
    return GY_OK;
}

static gy_status check_daemon(void *arg, const gy_cluster_daemon *daemon)
{
    look_at(arg, daemon->id, daemon->host);
    return GY_OK;
}

/* The request may be repeated until it is answered; results of earlier tries do not count. */
static gy_status judge(const search *at, const char *what)
{
    if (at->beginning[0] == '\0') { /* every id begins with it: a script's empty variable */
        return gy_fail(
            GY_ARG, "the id of a %s is empty: expected an id, its beginning or a name", what);
    }
    if (at->found == 0) {
        return gy_fail(GY_NOTFOUND, "the name server knows no %s '%.64s'", what, at->beginning);
    }
    return at->found == 1
               ? GY_OK
               : gy_fail(GY_ARG, "'%.64s' matches %d %ss: expected a longer part of the id",
                         at->beginning, at->found, what);
}

gy_status gy_cluster_find_job(gy_cluster *cluster, const char *beginning,
                              char id[GY_CLUSTER_ID_BYTES])
{
    search at = {.beginning = beginning};
    GY_TRY(gy_cluster_list(cluster, &(gy_cluster_visit){.job = look_at_job, .arg = &at}));
    GY_TRY(judge(&at, "job"));
    memcpy(id, at.id, sizeof(at.id));
    return GY_OK;
}

/* ---- Requests about one job ---- */

typedef struct seen_job {
    const char *id;
    uint32_t epoch;
    bool is_there, is_finished;
} seen_job;

static gy_status see_job(void *arg, const gy_cluster_job *job)
{
    seen_job *seen = arg;
    if (strcmp(job->id, seen->id) == 0) {
        *seen = (seen_job){seen->id, job->epoch, true, job->is_finished};
    }
    return GY_OK;
}

/* A job that ends meanwhile, or whose first answer was lost, counts as killed. */
gy_status gy_cluster_kill(gy_cluster *cluster, const char *id)
{
    gy_key job;
    seen_job seen = {.id = id};
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Kill kill = GY__CLUSTER__KILL__INIT;
    GY_TRY(gy_client_read_id(id, &job));
    GY_TRY(gy_cluster_list(cluster, &(gy_cluster_visit){.job = see_job, .arg = &seen}));
    if (seen.is_finished) {
        return gy_fail(GY_STATE, "job %s has ended: there is nothing to kill", id);
    }
    key.high = job.high;
    key.low = job.low;
    kill.job = &key;
    return gy_client_ask(cluster, GY_NET_KILL, &kill.base, gy_client_soon(cluster), NULL, NULL);
}

/* Read the job's epoch first and send it with each try: a repeated request then cannot apply to
 * a later end of the job. */
static gy_status ask_again(gy_cluster *cluster, const char *id, bool is_forgotten,
                           uint32_t *epoch)
{
    gy_key job;
    seen_job seen = {.id = id};
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Resume resume = GY__CLUSTER__RESUME__INIT;
    GY_TRY(gy_client_read_id(id, &job));
    GY_TRY(gy_cluster_list(cluster, &(gy_cluster_visit){.job = see_job, .arg = &seen}));
    if (!seen.is_there) {
        return gy_fail(GY_NOTFOUND, "the name server knows no job %s", id);
    }
    if (!seen.is_finished) {
        return gy_fail(GY_STATE, "job %s has not ended: %s", id,
                       is_forgotten ? "kill it first" : "the cluster continues it");
    }
    key.high = job.high;
    key.low = job.low;
    resume.job = &key;
    resume.epoch = seen.epoch;
    resume.is_forgotten = is_forgotten;
    *epoch = seen.epoch + 1;
    return gy_client_ask(cluster, GY_NET_RESUME, &resume.base, gy_client_soon(cluster), NULL,
                         NULL);
}

gy_status gy_cluster_resume(gy_cluster *cluster, const char *id, uint32_t *epoch)
{
    return ask_again(cluster, id, false, epoch);
}

gy_status gy_cluster_forget(gy_cluster *cluster, const char *id, double seconds)
{
    uint32_t epoch = 0;
    gy_status status = GY_OK;
    char reason[GY_CLUSTER_REASON_BYTES];
    GY_TRY(ask_again(cluster, id, true, &epoch));
    GY_TRY(gy_cluster_wait(cluster, id, seconds, &status, reason));
    return status == GY_CANCELLED
               ? GY_OK
               : gy_fail(GY_STATE, "cannot remove the files of job %s: %s", id, reason);
}

gy_status gy_cluster_drain(gy_cluster *cluster, const char *id, bool is_on)
{
    search at = {.beginning = id};
    unsigned long long daemon = 0;
    Gy__Cluster__Drain drain = GY__CLUSTER__DRAIN__INIT;
    GY_TRY(gy_cluster_list(cluster, &(gy_cluster_visit){.daemon = check_daemon, .arg = &at}));
    GY_TRY(judge(&at, "daemon"));
    if (sscanf(at.id, "%16llx", &daemon) != 1) {
        return gy_fail(GY_FORMAT, "the name server lists a daemon '%s'", at.id);
    }
    drain.daemon = daemon;
    drain.is_on = is_on;
    return gy_client_ask(cluster, GY_NET_DRAIN, &drain.base, gy_client_soon(cluster), NULL,
                         NULL);
}

/* ---- Waiting ---- */

typedef struct job_end {
    gy_status status;
    char reason[GY_CLUSTER_REASON_BYTES];
} job_end;

static gy_status take_end(void *arg, const ProtobufCMessage *answer)
{
    job_end *end = arg;
    const Gy__Cluster__Ended *ended = (const Gy__Cluster__Ended *)answer;
    end->status = (gy_status)ended->status;
    gy_net_clean_text(ended->reason, end->reason, GY_CLUSTER_REASON_BYTES);
    return GY_OK;
}

gy_status gy_cluster_wait(gy_cluster *cluster, const char *id, double seconds,
                          gy_status *status, char reason[GY_CLUSTER_REASON_BYTES])
{
    gy_key job;
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__WaitEnd wait = GY__CLUSTER__WAIT_END__INIT;
    job_end end = {.status = GY_OK};
    GY_TRY(gy_client_read_id(id, &job));
    if (!(seconds >= 0)) {
        return gy_fail(GY_ARG, "a timeout of %g seconds: expected 0 or more", seconds);
    }
    key.high = job.high;
    key.low = job.low;
    wait.job = &key;
    GY_TRY(gy_client_ask(cluster, GY_NET_WAIT_END, &wait.base,
                         seconds > 0 ? gy_env_deadline(cluster->env, seconds) : GY_NEVER,
                         take_end, &end));
    *status = end.status;
    memcpy(reason, end.reason, sizeof(end.reason));
    return GY_OK;
}

/* ---- A job's output ---- */

typedef struct follow {
    gy_cluster_output_handler said;
    void *arg;
    gy_cluster_result *end; /* NULL: not requested */
    uint32_t epoch;
    uint64_t offset;
    bool is_over;
} follow;

static gy_status take_output(void *arg, const ProtobufCMessage *answer)
{
    follow *at = arg;
    const Gy__Cluster__OutputSince *since = (const Gy__Cluster__OutputSince *)answer;
    /* Of a manager that has ended it is not known how much more it printed. */
    const uint64_t from = since->epoch == at->epoch ? at->offset : 0;
    if (since->epoch < at->epoch || since->offset < from ||
        since->offset > UINT64_MAX - since->data.len) {
        return gy_fail(GY_FORMAT, "the name server answered another request");
    }
    uint64_t lost = since->offset - from;
    at->epoch = since->epoch;
    at->offset = since->offset + since->data.len;
    at->is_over = since->is_ended;
    if (at->is_over && since->said > at->offset) {
        lost += since->said - at->offset;
    }
    if (at->said != NULL && (since->data.len > 0 || lost > 0)) {
        at->said(at->arg, at->epoch, lost, (const char *)since->data.data, since->data.len);
    }
    if (at->is_over && at->end != NULL) {
        at->end->status = (gy_status)since->status;
        at->end->code = since->code;
        gy_net_clean_text(since->reason, at->end->reason, sizeof(at->end->reason));
    }
    return GY_OK;
}

static gy_status ask_output(gy_cluster *cluster, const char *id, gy_deadline deadline,
                            bool is_hasty, follow *at)
{
    gy_key job;
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__AskOutput asks = GY__CLUSTER__ASK_OUTPUT__INIT;
    GY_TRY(gy_client_read_id(id, &job));
    key.high = job.high;
    key.low = job.low;
    asks.job = &key;
    asks.epoch = at->epoch;
    asks.offset = at->offset;
    asks.is_hasty = is_hasty;
    return gy_client_ask(cluster, GY_NET_ASK_OUTPUT, &asks.base, deadline, take_output, at);
}

gy_status gy_cluster_follow(gy_cluster *cluster, const char *id, double seconds,
                            gy_cluster_output_handler said, void *arg, gy_cluster_result *end)
{
    *end = (gy_cluster_result){.epoch = 0};
    return gy_cluster_follow_from(cluster, id, seconds, said, arg, end);
}

gy_status gy_cluster_follow_from(gy_cluster *cluster, const char *id, double seconds,
                                 gy_cluster_output_handler said, void *arg,
                                 gy_cluster_result *end)
{
    follow at = {
        .said = said, .arg = arg, .end = end, .epoch = end->epoch, .offset = end->offset};
    if (!(seconds >= 0)) {
        return gy_fail(GY_ARG, "a timeout of %g seconds: expected 0 or more", seconds);
    }
    const gy_deadline deadline =
        seconds > 0 ? gy_env_deadline(cluster->env, seconds) : GY_NEVER;
    gy_status status = GY_OK;
    end->code = -1;
    end->reason[0] = '\0';
    while (status == GY_OK && !at.is_over) {
        status = ask_output(cluster, id, deadline, false, &at);
    }
    end->epoch = at.epoch;
    end->offset = at.offset;
    return status;
}

gy_status gy_cluster_log_tail(gy_cluster *cluster, const char *id,
                              gy_cluster_output_handler said, void *arg)
{
    follow at = {.said = said, .arg = arg};
    return ask_output(cluster, id, gy_client_soon(cluster), true, &at);
}
