/* gy_flow_run: from a graph to its published output. */
#include "flow/channel/vertex.h"
#include "flow/run/run_priv.h"
#include "store/remote/remote.h"
#include "store/versions/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, TRACE_EVENTS = 1 << 14 };
#define MEMO_BYTES (INT64_C(10) << 30)

/* ---- faults and obsolete files ---- */

static gy_cause judge_failure(void *arg, const gy_manager *manager, gy_sched_event *failed,
                              const void *board)
{
    gy_flow_job *job = arg;
    (void)manager;
    gy_crash_report crash_report;
    while (job->door != NULL && gy_fault_handle(job->door, &crash_report)) {
        gy_bad_handle(job->bad, &crash_report);
    }
    if (failed->cause != GY_CAUSE_OWN) {
        return failed->cause;
    }
    /* aligned, because it arrived within a message */
    _Alignas(64) unsigned char aligned[GY_BOARD_BYTES];
    memcpy(aligned, board, sizeof(aligned));
    const gy_cause cause =
        gy_bad_tell(job->bad, failed->id, failed->member, aligned, failed->cause);
    gy_text record = {0};
    bool is_bad = false;
    if (cause == GY_CAUSE_NEW_BAD_RECORD && gy_bad_last(job->bad, &record, &is_bad)) {
        gy_flow_run_note_text(job, "%s: %s", gy_text_get(&record),
                              is_bad ? "a bad record, skipped from now on" : "tried once more");
    }
    gy_text_free(&record);
    if (cause == GY_CAUSE_FATAL) {
        (void)snprintf(job->fatal, sizeof(job->fatal), "%s", gy_error_text());
        gy_flow_run_note_text(job, "%s", job->fatal);
    } else if (cause == GY_CAUSE_NEW_BAD_RECORD) {
        job->learnt.size_bytes = 0;
        gy_bad_write_last(job->bad, &job->learnt);
        failed->report = job->learnt.data;
        failed->report_bytes = job->learnt.status == GY_OK ? job->learnt.size_bytes : 0;
    }
    return cause;
}

static void remove_file(const char *folder, const char *name)
{
    char path[GY_JOB_PATH];
    if (gy_flow_run_path(path, folder, name) < 0 || (unlink(path) != 0 && errno != ENOENT)) {
        gy_warn("cannot remove %s/%s: %s", folder, name, strerror(errno));
    }
}

/* Remove the scratch folder of a killed process. */
static void remove_scratch(const gy_flow_job *job, const char *name)
{
    char folder[GY_JOB_PATH], path[GY_JOB_PATH];
    if (gy_flow_run_path(folder, job->folder, "scratch") < 0 ||
        gy_flow_run_path(path, folder, name) < 0 ||
        (access(path, F_OK) == 0 && gy_flow_folder_remove(path) < 0)) {
        gy_warn("a scratch folder stays: %s", gy_error_text());
    }
}

static void remove_cohort(const gy_flow_job *job, gy_attempt id)
{
    char name[GY_NAME_BYTES], table[GY_NAME_BYTES + 16];
    (void)snprintf(table, sizeof(table), "run/cohort.%s", gy_flow_name_data(id, 0, 1, name));
    remove_file(job->folder, table);
}

static void discard(void *arg, const gy_manager *manager, const gy_effect *effect,
                    gy_text *names)
{
    gy_flow_job *job = arg;
    const gy_lowering *l = &job->lowering;
    const uint32_t task = effect->id.task;
    if (gy_flow_run_follow(job, manager) < 0) {
        return; /* the same failure ends the job at the next START */
    }
    const uint32_t first = l->member_first[task], width = l->member_first[task + 1] - first;
    char name[GY_NAME_BYTES];
    for (uint32_t m = 0; m < width; m++) {
        (void)gy_flow_name_file(gy_flow_run_round(job), effect->id, m, width, name);
        if (names != NULL && !gy_flow_run_is_shared(job)) {
            gy_text_add_bytes(names, name, strlen(name) + 1);
        } else {
            remove_file(job->data, name);
        }
        if (names == NULL) { /* its other files at a daemon are removed with the job */
            remove_scratch(job, name);
        }
        size_t final = 0, finals = 0;
        if (job->task_flags[task] & GY_TASK_FINAL) {
            gy_flow_lower_finals(job->dag, l->members[first + m], &final, &finals);
        }
        for (size_t i = final; i < final + finals; i++) {
            remove_file(job->hidden,
                        gy_flow_name_final(effect->id, m, job->dag->finals[i].output, name));
        }
    }
    if (width > 1 && names == NULL) {
        remove_cohort(job, effect->id);
    }
}

static void committed(void *arg, const gy_effect *effect)
{
    const gy_flow_job *job = arg;
    gy_flow_run_committed(arg, effect);
    const uint32_t task = effect->id.task;
    if (job->site->host_max == 0 && task < job->lowering.task_count &&
        job->lowering.member_first[task + 1] - job->lowering.member_first[task] > 1) {
        remove_cohort(job, effect->id);
    }
}

/* Store the failure's status, because the manager knows only that a callback failed. */
static gy_status keep_cause(gy_flow_job *job, gy_status status)
{
    job->cause = status < 0 ? status : job->cause;
    return status;
}

static gy_status grow(void *arg, const gy_manager *manager, uint32_t stage,
                      const gy_growth **growth)
{
    return keep_cause(arg, gy_flow_run_grow(arg, manager, stage, growth));
}

static gy_status save(void *arg, const gy_manager *manager, gy_attempt *lost)
{
    const gy_status status = gy_flow_run_save(arg, manager, lost);
    return status == GY_NOTFOUND ? status : keep_cause(arg, status); /* the task runs again */
}

static gy_status publish(void *arg, const gy_manager *manager)
{
    return keep_cause(arg, gy_flow_run_publish(arg, manager));
}

/* ---- options ---- */

static int count_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

static gy_status check_options(gy_flow_job *job)
{
    const gy_flow_options *o = &job->options;
    if (o->processes < 0 || o->processes > GY_JOB_PROCESSES || o->threads < 0 ||
        o->threads > THREADS_MAX) {
        return gy_fail(GY_ARG, "%d processes of %d threads: expected up to %d of up to %d",
                       o->processes, o->threads, GY_JOB_PROCESSES, THREADS_MAX);
    }
    if (o->failures_max < 0 || o->memo_bytes_max < 0 || o->timeout_s < 0 ||
        o->record_timeout_s < 0 ||
        !(o->heartbeat_timeout_s >= 0 && o->heartbeat_timeout_s < 1e9)) {
        return gy_fail(GY_ARG, "failures_max, memo_bytes_max, timeout_s, "
                               "record_timeout_s and heartbeat_timeout_s are 0 or more");
    }
    if (o->memory_bytes > 0 && o->memory_bytes < GY_FLOW_MEMORY_BYTES_MIN) {
        return gy_fail(GY_ARG, "memory_bytes of %zu: expected at least %d, or 0 for no limit",
                       o->memory_bytes, GY_FLOW_MEMORY_BYTES_MIN);
    }
    if (job->dag->is_running) {
        return gy_fail(GY_STATE, "job %s was run before: a graph runs once", job->dag->name);
    }
    GY_TRY(job->site->check != NULL ? job->site->check(job) : GY_OK);
    const int most = job->site->process_max > 0 ? job->site->process_max : count_cores();
    job->processes = o->processes > 0 ? o->processes : GY_MIN(most, GY_JOB_PROCESSES);
    job->deadline = o->timeout_s > 0 ? gy_env_deadline(job->env, o->timeout_s) : GY_NEVER;
    return GY_OK;
}

/* ---- the site: one machine ---- */

static void choose_id(gy_flow_job *job)
{
    gy_flow_run_new_id(job->env, job->wall_ns, job->id);
}

static gy_status listen_for_faults(gy_flow_job *job)
{
    return gy_fault_listen(job->folder, &job->door);
}

const gy_flow_site gy_flow_site_local = {
    .name = "local",
    .has_history = true,
    .begin = gy_flow_run_look_for_resume,
    .choose_id = choose_id,
    .find_folder = gy_flow_run_find_folder,
    .listen = listen_for_faults,
};

/* ---- preparation ---- */

static gy_status make_manager(gy_flow_job *job, const gy_growth *growth)
{
    GY_TRY(gy_flow_run_mark_refinements(job));
    const size_t count = job->dag->stage_count;
    gy_stage *stages = gy_arena_alloc(&job->arena, (count + 1) * sizeof(*stages));
    job->stage_bytes = gy_arena_alloc(&job->arena, (count + 1) * sizeof(*job->stage_bytes));
    if (stages == NULL || job->stage_bytes == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        stages[i] = (gy_stage){job->dag->stages[i].name, job->dag->stages[i].is_gate};
    }
    const gy_flow_options *o = &job->options;
    const gy_manager_options options = {
        .stages = stages,
        .stage_count = (uint32_t)count,
        .process_max = (uint32_t)job->processes,
        .host_max = job->site->host_max,
        .generation = gy_flow_run_generation(job),
        .threads = (uint32_t)o->threads,
        .failures_max = o->failures_max,
        .backup_floor_ns = (int64_t)(o->backup_floor_s * 1e9),
        .silence_ns = (int64_t)(o->heartbeat_timeout_s * 1e9),
    };
    return gy_manager_new(&options, growth, &job->manager);
}

static gy_status prepare(gy_flow_job *job)
{
    GY_TRY(gy_flow_run_look_for_cluster(job));
    GY_TRY(job->site->begin != NULL ? job->site->begin(job) : GY_OK);
    GY_TRY(check_options(job));
    GY_TRY(gy_dag_status(job->dag));
    if (job->ticket != NULL && job->ticket->is_forgotten) {
        return gy_flow_run_forget(job);
    }
    /* Compute the build id before any store request loads further libraries, so that a resumed
     * job gets the same id. */
    GY_TRY(gy_flow_key_build(&job->keys.build));
    GY_TRY(gy_flow_run_trace_begin(job));
    GY_TRY(gy_flow_run_make_folder(job));
    if (job->is_done) {
        return GY_OK;
    }
    GY_TRY(gy_flow_run_make_output(job));
    job->keys.is_over_hosts = job->site->host_max > 0;
    if (job->options.memo != NULL) {
        GY_TRY(gy_flow_memo_open(job->env, job->options.memo, &job->memo));
        gy_flow_memo_share(job->memo, job->site->host_max > 0);
        job->keys.memo = job->memo;
    }
    GY_TRY(gy_flow_run_prepare_sandbox(job));
    job->width = job->processes;
    GY_TRY(job->site->agree_on_width != NULL ? job->site->agree_on_width(job) : GY_OK);
    gy_growth growth;
    GY_TRY(gy_flow_run_lower(job, &growth));
    job->dag->is_running = true;
    gy_status status = job->is_resumed ? GY_OK : gy_flow_run_save_inputs(job);
    status = status < 0 ? status : make_manager(job, &growth);
    gy_flow_growth_free(&growth);
    GY_TRY(status);
    if (job->memo != NULL) {
        GY_TRY(gy_flow_memo_remember(job->memo, job->manager));
    }
    job->bad = gy_bad_new(job->options.bad_records_max);
    if (job->bad == NULL) {
        return GY_NOMEM;
    }
    gy_bad_name_by(job->bad, gy_flow_run_name_record, job);
    for (int i = 0; i < 2; i++) {
        job->secret[i] = job->env->ops->random(job->env, GY_CHANCE_NETWORK);
    }
    return job->site->listen != NULL ? job->site->listen(job) : GY_OK;
}

/* ---- the run ---- */

/* A job without final data: the manager needs no manifest, but a reader finds an empty one. */
static gy_status publish_nothing(gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    GY_TRY(gy_flow_run_check_refinements(job));
    GY_TRY(gy_flow_run_path(path, job->output, "MANIFEST.json"));
    if (job->is_resumed && job->target[0] == '\0' && access(path, F_OK) == 0) {
        return GY_OK; /* the folder was empty when the job began, so the file is this job's */
    }
    gy_flow_run_recount(job);
    gy_status status = publish(job, job->manager);
    if (status == GY_AGAIN) {
        gy_object_output_wait(job->upload);
        status = publish(job, job->manager);
    }
    return status;
}

static void said(void *arg, const char *text, size_t size_bytes, int exit_status)
{
    const gy_flow_job *job = arg;
    job->options.on_output(job->options.on_output_arg, text, size_bytes, exit_status);
}

static gy_status drive(gy_flow_job *job)
{
    const gy_driver_ops ops = {.encode = gy_flow_run_encode,
                               .welcome = gy_flow_run_welcome,
                               .committed = committed,
                               .discard = discard,
                               .held = gy_flow_run_held,
                               .say = gy_flow_run_say,
                               .view = gy_flow_run_view,
                               .failed = judge_failure,
                               .is_culprit = gy_bad_is_told,
                               .grow = grow,
                               .save = save,
                               .publish = publish,
                               .began = gy_flow_run_began,
                               .over = gy_flow_run_over,
                               .said = job->options.on_output != NULL ? said : NULL,
                               .traced = job->options.trace != NULL ? gy_flow_run_traced : NULL,
                               .note = gy_flow_run_note,
                               .tick = gy_flow_run_tick,
                               .arg = job};
    const gy_driver_options options = {
        .folder = job->folder,
        .processes = job->processes,
        .threads = job->options.threads,
        .memory_bytes = job->options.memory_bytes,
        .ops = &ops,
        .epoch = job->epoch,
        .journal = job->journal,
        .sandbox = job->sandbox.parts != 0 ? &job->sandbox : NULL,
        .ticket = job->ticket,
        .traffic = &job->traffic,
        .deadline = job->options.timeout_s > 0 ? job->deadline : (gy_deadline){0},
    };
    gy_status status = gy_driver_run(job->env, job->manager, &options);
    if (status >= 0) { /* a job that had already ended calls no callback of this room */
        job->is_ours = true;
        status = gy_flow_run_follow(job, job->manager);
    }
    if (status >= 0 && job->dag->final_count == 0) {
        status = publish_nothing(job);
    }
    if (status < 0 && job->cause < 0 && !job->is_over && status != GY_CANCELLED &&
        status != GY_TIMEOUT) {
        gy_error error;
        gy_error_take(&error, job->cause);
        status = gy_error_raise(&error);
    }
    if (status == GY_FORMAT && job->is_resumed && !job->is_ours) {
        status = gy_flow_run_name_changed(job, status);
    }
    if (status == GY_FORMAT && job->is_resumed && !job->is_ours) {
        status = gy_fail_within(GY_MISMATCH,
                                "cannot resume %s: it is another job, or another "
                                "build of its program",
                                job->folder);
    }
    return status;
}

static void end_memo(gy_flow_job *job)
{
    if (job->memo == NULL) {
        return;
    }
    const int64_t limit =
        job->options.memo_bytes_max > 0 ? job->options.memo_bytes_max : MEMO_BYTES;
    const bool is_over = gy_flow_memo_bytes(job->memo) > (uint64_t)limit;
    gy_flow_memo_close(job->memo);
    job->memo = NULL;
    if (is_over && gy_flow_collect(job->options.memo, limit, NULL) < 0) {
        gy_flow_run_note_text(job, "memo: %s", gy_error_text());
    }
}

static void free_job(gy_flow_job *job)
{
    gy_object_output_free(job->upload);
    gy_history_close(job->history);
    gy_fault_context_free(job->door);
    gy_bad_free(job->bad);
    gy_manager_free(job->manager);
    gy_flow_memo_close(job->memo);
    gy_flow_growth_free(&job->growth);
    gy_lowering_fini(&job->lowering);
    gy_proto_keys_fini(&job->keys);
    for (size_t i = 0; i < job->refinement_count; i++) {
        gy_free(job->refinements[i].bytes);
        gy_free(job->refinements[i].samples);
    }
    void *arrays[] = {job->task_flags, job->refinements,     job->inputs,  job->outputs,
                      job->channels,   job->counters,        job->cohorts, job->channel_outputs,
                      job->notes,      job->traced_processes};
    for (size_t i = 0; i < GY_COUNT(arrays); i++) {
        gy_free(arrays[i]);
    }
    gy_sandbox_fini(&job->sandbox);
    gy_text_free(&job->detail);
    gy_text_free(&job->learnt);
    gy_text_free(&job->traced);
    gy_arena_free(&job->arena);
    gy_arena_free(&job->start_arena);
    gy_flow_run_leave_cluster(job);
    gy_store_facts_forget(); /* the next job must read its inputs' metadata again */
    gy_store_stamps_forget();
    gy_free(job);
}

static gy_job_state state_of(gy_status status)
{
    return status >= 0 ? GY_JOB_DONE : status == GY_CANCELLED ? GY_JOB_KILLED : GY_JOB_FAILED;
}

/* Replace the name of a folder by its local path. */
static gy_status name_path(gy_flow_job *job, const char *what, const char **place)
{
    if (*place == NULL) {
        return GY_OK;
    }
    char *path = gy_arena_alloc(&job->arena, GY_JOB_PATH);
    GY_TRY(path != NULL ? GY_OK : GY_NOMEM);
    const char *text = *place;
    path[0] = '\0';
    *place = path;
    return gy_store_path_local(text, what, path, GY_JOB_PATH);
}

static gy_status name_places(gy_flow_job *job)
{
    gy_flow_options *o = &job->options;
    GY_TRY(name_path(job, "the job's folder", &o->folder));
    GY_TRY(name_path(job, "the memo", &o->memo));
    GY_TRY(name_path(job, "the trace", &o->trace));
    return o->output != NULL && gy_uri_is_remote(o->output)
               ? GY_OK
               : name_path(job, "the output", &o->output);
}

/* Run the job and report it: the name server lists a cluster's job, the history other jobs. */
static gy_status drive_and_tell(gy_flow_job *job, gy_error *error)
{
    job->has_begun = true;
    if (job->site->has_history) {
        gy_flow_run_tell_history(job, GY_JOB_RUNNING, "");
    }
    const gy_status status = drive(job);
    gy_error_take(error, status);
    gy_flow_run_recount(job);
    gy_flow_run_show(job); /* show the final state */
    if (status < 0 && job->fatal[0] != '\0') {
        (void)snprintf(error->text, sizeof(error->text), "%s", job->fatal);
    }
    /* otherwise the newer manager writes the final state */
    if (!job->is_over && job->site->has_history) {
        gy_flow_run_tell_history(job, state_of(status), status < 0 ? error->text : "");
    }
    if (job->options.trace != NULL) {
        gy_flow_run_trace(job);
    }
    return status;
}

gy_status gy_flow_run(gy_flow *flow, gy_dag *dag, const gy_flow_options *options,
                      gy_job_report **report)
{
    return gy_flow_run_execute(gy_env_real(), flow, dag, options, report);
}

gy_status gy_flow_run_execute(gy_env *env, gy_flow *flow, gy_dag *dag,
                              const gy_flow_options *options, gy_job_report **report)
{
    gy_flow_options known;
    if (report != NULL) {
        *report = NULL;
    }
    if (flow == NULL || dag == NULL) {
        return flow == NULL ? gy_fail(GY_STATE, "no handle: gy_flow_start did not return GY_OK")
                            : gy_dag_status(dag);
    }
    GY_TRY(gy_options_take(gy_flow_options, &known, options));
    gy_flow_job *job = gy_alloc_zero("flow.job", 1, sizeof(*job));
    if (job == NULL) {
        return GY_NOMEM;
    }
    job->env = env;
    job->flow = flow;
    job->dag = dag;
    job->site = &gy_flow_site_local;
    job->options = known;
    job->started_ns = gy_now_ns(job->env);
    job->wall_ns = job->env->ops->wall_ns(job->env);
    gy_status status = gy_flow_options_override(&job->options);
    status = status < 0 ? status : name_places(job);
    if (job->options.trace != NULL) {
        gy_trace_start(TRACE_EVENTS);
    }
    status = status < 0 ? status : prepare(job);
    gy_error error = {.rank = -1};
    if (status >= 0 && job->is_done) {
        gy_flow_run_note_text(job, "an earlier manager has published the output");
    } else if (status >= 0) {
        status = drive_and_tell(job, &error);
    } else {
        gy_error_take(&error, status);
    }
    end_memo(job);
    /* remove the socket's file before the journal, which goes last */
    gy_fault_context_free(job->door);
    job->door = NULL;
    gy_flow_run_end_upload(job);
    gy_flow_run_clean(job, status);
    if (job->site->has_history && job->has_begun) {
        gy_history_tidy(job->folder);
    }
    if (report != NULL) {
        *report = gy_flow_run_make_report(job);
    }
    free_job(job);
    return status < 0 ? gy_error_raise(&error) : GY_OK;
}
