/* Reports on a job: counters, notes, the report, the history. */
#include "flow/run/run_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HISTORY_NS = 1000000000 };

static const char *keep_text(gy_arena *arena, const char *text)
{
    char *copy = gy_arena_alloc(arena, strlen(text) + 1);
    return copy != NULL ? memcpy(copy, text, strlen(text) + 1) : NULL;
}

/* ---- counters ---- */

static void count(gy_flow_job *job, const char *name, int64_t by)
{
    for (size_t i = 0; i < job->counter_count; i++) {
        if (strcmp(job->counters[i].name, name) == 0) {
            job->counters[i].value += by;
            return;
        }
    }
    const char *copy = keep_text(&job->arena, name);
    if (copy == NULL || GY_GROW("flow.counters", job->counters, job->counter_capacity,
                                job->counter_count + 1) < 0) {
        gy_flow_run_note_text(job, "counter %s is wrong: out of memory", name);
        return;
    }
    size_t at = job->counter_count++;
    for (; at > 0 && strcmp(job->counters[at - 1].name, name) > 0; at--) {
        job->counters[at] = job->counters[at - 1];
    }
    job->counters[at] = (gy_job_counter){copy, by};
}

static void count_report(gy_flow_job *job, uint32_t stage, const gy_report *report)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < report->output_count; i++) {
        bytes += (int64_t)gy_report_output(report, i).size_bytes;
    }
    job->bytes += bytes;
    job->stage_bytes[stage] += bytes;
    job->skipped += report->skipped;
    size_t at = 0;
    gy_counter counter;
    while (gy_report_counter(report, &at, &counter)) {
        count(job, counter.name, counter.value);
    }
}

static uint32_t stage_of(const gy_flow_job *job, uint32_t task, uint32_t member)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t vertex = l->members[l->member_first[task] + member];
    return job->dag->protos[job->dag->proto[vertex]].stage;
}

/* Count all members' reports of a task. */
static gy_status count_task(gy_flow_job *job, uint32_t task, const gy_sched_task_state *state)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t width = l->member_first[task + 1] - l->member_first[task];
    for (uint32_t m = 0; state->report_bytes > 0 && m < width; m++) {
        gy_report report;
        GY_TRY(gy_flow_run_report(job, task, state->report, state->report_bytes, m, &report));
        count_report(job, stage_of(job, task, m), &report);
    }
    return GY_OK;
}

/* Bytes of a committed final output, as its task reported them. */
static int64_t final_bytes(const gy_flow_job *job, const gy_dag_final *final)
{
    if (final->vertex >= job->lowering.vertex_floor) {
        return 0; /* vertex of a failed growth */
    }
    const uint32_t task = job->lowering.task[final->vertex];
    gy_sched_task_state state;
    gy_report report;
    gy_manager_task(job->manager, task, &state);
    if (state.committed.attempt == 0 ||
        gy_flow_run_report(job, task, state.report, state.report_bytes,
                           gy_flow_lower_member(&job->lowering, final->vertex), &report) < 0) {
        return 0;
    }
    return (int64_t)gy_report_output(&report, final->output).size_bytes;
}

/* Count the hosts that this manager used. */
static void count_hosts(gy_flow_job *job)
{
    const gy_driver_traffic *traffic = &job->traffic;
    uint32_t near = 0, far = 0;
    gy_manager_placed(job->manager, &near, &far);
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"tasks started where their files are", near},
                {"tasks started where their files are not", far},
                {"sections fetched", traffic->sections},
                {"bytes fetched", traffic->bytes},
                {"bytes fetched, on the wire", traffic->wire_bytes},
                {"transfers between hosts", traffic->transfers},
                {"messages about fetching", traffic->questions + traffic->answers}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        if (rows[i].value > 0) {
            count(job, rows[i].name, rows[i].value);
        }
    }
}

void gy_flow_run_recount(gy_flow_job *job)
{
    job->output_bytes = 0;
    for (size_t i = 0; i < job->dag->final_count; i++) {
        job->output_bytes += final_bytes(job, &job->dag->finals[i]);
    }
    job->bytes = job->skipped = 0;
    job->counter_count = 0;
    memset(job->stage_bytes, 0, job->dag->stage_count * sizeof(*job->stage_bytes));
    gy_status status = GY_OK;
    for (uint32_t task = 0; status >= 0 && task < job->lowering.task_count; task++) {
        gy_sched_task_state state;
        gy_manager_task(job->manager, task, &state);
        if (state.committed.attempt != 0) {
            status = count_task(job, task, &state);
        }
    }
    if (status < 0) {
        gy_flow_run_note_text(job, "the counters are wrong: %s", gy_error_text());
    }
    count_hosts(job);
}

/* ---- memo ---- */

/* Find the folders of an attempt's files, which outputs are final, and their contents. */
static gy_status place_of(const gy_flow_job *job, const gy_effect *effect, gy_memo_place *place)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t first = l->member_first[effect->id.task];
    const uint32_t width = l->member_first[effect->id.task + 1] - first;
    *place = (gy_memo_place){.id = effect->id,
                             .round = gy_flow_run_round(job),
                             .data = job->data,
                             .hidden = job->hidden};
    if ((job->task_flags[effect->id.task] & GY_TASK_FINAL) == 0) {
        return GY_OK;
    }
    for (uint32_t m = 0; m < GY_MIN(width, (uint32_t)GY_MEMO_WIDTH_MAX); m++) {
        size_t final = 0, finals = 0;
        gy_flow_lower_finals(job->dag, l->members[first + m], &final, &finals);
        if (finals > 0) {
            gy_report report;
            GY_TRY(gy_flow_run_report(job, effect->id.task, effect->data, effect->size_bytes, m,
                                      &report));
            place->finals |= UINT64_C(1) << m;
            place->contents[m] = report.content;
        }
    }
    return GY_OK;
}

static void remember(gy_flow_job *job, const gy_effect *effect,
                     const gy_sched_task_state *state, int64_t skipped)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t task = effect->id.task;
    const uint32_t width = l->member_first[task + 1] - l->member_first[task];
    const gy_memo_entry *kept = gy_flow_memo_find(job->memo, effect->key);
    gy_memo_place place;
    gy_status status = place_of(job, effect, &place);
    if (status < 0) {
        gy_flow_run_note_text(job, "memo: %s", gy_error_text());
        return;
    }
    if (kept != NULL && kept->epoch == effect->id.epoch &&
        kept->attempt == effect->id.attempt) {
        status = gy_flow_memo_lend(job->memo, kept, &place);
    } else if ((job->task_flags[task] & GY_TASK_NO_MEMO) == 0 && skipped == 0 &&
               width <= GY_MEMO_WIDTH_MAX) {
        const gy_memo_entry entry = {.key = effect->key,
                                     .content = state->content,
                                     .epoch = effect->id.epoch,
                                     .attempt = effect->id.attempt,
                                     .width = (uint16_t)width,
                                     .report = effect->data,
                                     .report_bytes = effect->size_bytes};
        status = gy_flow_memo_keep(job->memo, &entry, &place);
    }
    if (status < 0) {
        gy_flow_run_note_text(job, "memo: %s", gy_error_text());
    }
}

void gy_flow_run_committed(void *arg, const gy_effect *effect)
{
    gy_flow_job *job = arg;
    const uint32_t task = effect->id.task;
    gy_status status = gy_flow_run_follow(job, job->manager);
    if (status < 0) {
        gy_flow_run_note_text(job, "a commit is not counted: %s", gy_error_text());
        return;
    }
    gy_sched_task_state state;
    gy_manager_task(job->manager, task, &state);
    const int64_t skipped = job->skipped;
    status = count_task(job, task, &state); /* until all tasks are counted again at the end */
    if (status < 0) {
        gy_flow_run_note_text(job, "a report is not counted: %s", gy_error_text());
    }
    if (job->memo != NULL) {
        remember(job, effect, &state, job->skipped - skipped);
    }
}

/* ---- notes ---- */

static void add_note(gy_flow_job *job, const char *text)
{
    struct last_note *last = &job->last_notes[job->last_note_count++ % GY_DRIVER_ROWS];
    const int64_t wall_ns = job->env->ops->wall_ns(job->env);
    last->wall_ns = wall_ns;
    (void)snprintf(last->text, sizeof(last->text), "%.159s",
                   text); /* the text is for people and may be cut */
    if (job->note_count < GY_JOB_NOTES) {
        const char *copy = keep_text(&job->arena, text);
        if (copy == NULL ||
            GY_GROW("flow.notes", job->notes, job->note_capacity, job->note_count + 1) < 0) {
            gy_warn("a note is lost: out of memory: %s", text);
            return;
        }
        job->notes[job->note_count++] = (gy_job_note){wall_ns, copy};
    }
    if (job->history != NULL && gy_history_note(job->history, wall_ns, text) < 0) {
        gy_warn("the history lacks a note: %s", gy_error_text());
    }
}

void gy_flow_run_view(void *arg, gy_driver_view *view)
{
    const gy_flow_job *job = arg;
    for (; view->counter_count < GY_MIN(job->counter_count, (size_t)GY_DRIVER_ROWS);
         view->counter_count++) {
        const gy_job_counter *counter = &job->counters[view->counter_count];
        view->counters[view->counter_count] =
            (struct gy_driver_counter){counter->name, counter->value};
    }
    const uint64_t count = job->last_note_count;
    for (uint64_t i = count - GY_MIN(count, (uint64_t)GY_DRIVER_ROWS); i < count; i++) {
        const struct last_note *note = &job->last_notes[i % GY_DRIVER_ROWS];
        view->notes[view->note_count++] = (struct gy_driver_note){note->wall_ns, note->text};
    }
}

void gy_flow_run_note_text(gy_flow_job *job, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_note(job, text);
}

/* Add the name of the vertex in front, unless the text begins with it. */
void gy_flow_run_note(void *arg, const gy_effect *effect)
{
    gy_flow_job *job = arg;
    const gy_lowering *l = &job->lowering;
    const char *words = effect->reason != NULL ? effect->reason : "";
    if (effect->id.task == GY_TASK_NONE && effect->process != UINT32_MAX) {
        const bool is_named = strncmp(words, "process ", strlen("process ")) == 0;
        gy_flow_run_note_text(job, is_named ? "%.0u%s" : "process %u: %s",
                              is_named ? 0 : effect->process, words);
    } else if (effect->id.task < l->task_count) {
        char name[GY_DAG_NAME_BYTES];
        const uint32_t first = l->member_first[effect->id.task];
        const uint32_t width = l->member_first[effect->id.task + 1] - first;
        bool is_named = false;
        for (uint32_t m = 0; m < width && !is_named; m++) {
            gy_dag_vertex_name(job->dag, l->members[first + m], name);
            is_named = strncmp(words, name, strlen(name)) == 0;
        }
        gy_dag_vertex_name(job->dag, l->members[first], name);
        gy_flow_run_note_text(job, is_named ? "%.0s%s" : "%s: %s", name, words);
    } else {
        add_note(job, words);
    }
}

/* ---- the report ---- */

/* A report with the data that it points at. */
typedef struct gy_report_holder {
    gy_job_report report; /* must be first */
    gy_arena arena;
    gy_text bad; /* for people */
} gy_report_holder;

static void fill_stages(const gy_flow_job *job, gy_job_stage *stages)
{
    for (uint32_t i = 0; i < job->dag->stage_count; i++) {
        gy_stage_state state = {0};
        if (job->manager != NULL) {
            gy_manager_stage(job->manager, i, &state);
        }
        stages[i] = (gy_job_stage){.tasks = state.tasks,
                                   .committed = state.committed,
                                   .running = state.running,
                                   .attempts = state.runs,
                                   .failures = state.failed,
                                   .backups = state.copies,
                                   .backups_won = state.backups_won,
                                   .memoised = state.memoised,
                                   .bytes = job->stage_bytes != NULL ? job->stage_bytes[i] : 0,
                                   .run_s = (double)state.run_ns * 1e-9};
    }
}

/* The manager counts a cohort under its first member's stage; this counts it as a task of each
 * of its members' stages. `seen` (stages) is zero. */
static void fill_cohorts(const gy_flow_job *job, gy_job_stage *stages, uint32_t *seen)
{
    const gy_lowering *l = &job->lowering;
    for (size_t i = 0; job->manager != NULL && i < job->cohort_count; i++) {
        const uint32_t task = job->cohorts[i];
        gy_sched_task_state state;
        gy_manager_task(job->manager, task, &state);
        seen[state.stage] = task + 1;
        for (uint32_t m = 1; m < l->member_first[task + 1] - l->member_first[task]; m++) {
            const uint32_t stage = stage_of(job, task, m);
            if (seen[stage] != task + 1) {
                seen[stage] = task + 1;
                stages[stage].tasks++;
                stages[stage].committed += state.committed.attempt != 0;
            }
        }
    }
}

static bool fill_texts(const gy_flow_job *job, gy_report_holder *holder, gy_job_stage *stages,
                       gy_job_counter *counters, gy_job_note *notes)
{
    bool is_ok = true;
    for (size_t i = 0; i < job->dag->stage_count; i++) {
        stages[i].name = keep_text(&holder->arena, job->dag->stages[i].name);
        is_ok = is_ok && stages[i].name != NULL;
    }
    for (size_t i = 0; i < job->counter_count; i++) {
        counters[i] = (gy_job_counter){keep_text(&holder->arena, job->counters[i].name),
                                       job->counters[i].value};
        is_ok = is_ok && counters[i].name != NULL;
    }
    for (size_t i = 0; i < job->note_count; i++) {
        notes[i] =
            (gy_job_note){job->notes[i].wall_ns, keep_text(&holder->arena, job->notes[i].text)};
        is_ok = is_ok && notes[i].text != NULL;
    }
    holder->report.name = keep_text(&holder->arena, job->dag->name);
    holder->report.folder = keep_text(&holder->arena, job->folder);
    return is_ok && holder->report.name != NULL && holder->report.folder != NULL;
}

/* Drop stages for which a refinement made no vertex; returns how many remain. */
static size_t drop_unmade(const gy_flow_job *job, gy_job_stage *stages)
{
    size_t left = 0;
    for (size_t i = 0; i < job->dag->stage_count; i++) {
        const gy_dag_stage *stage = &job->dag->stages[i];
        if (!stage->is_growth || stage->vertices > 0) {
            stages[left++] = stages[i];
        }
    }
    return left;
}

gy_job_report *gy_flow_run_make_report(const gy_flow_job *job)
{
    gy_report_holder *holder = gy_alloc_zero("flow.report", 1, sizeof(*holder));
    if (holder == NULL) {
        return NULL;
    }
    const size_t stage_count = job->dag->stage_count;
    gy_job_stage *stages = gy_arena_alloc(&holder->arena, (stage_count + 1) * sizeof(*stages));
    gy_job_counter *counters =
        gy_arena_alloc(&holder->arena, (job->counter_count + 1) * sizeof(*counters));
    gy_job_note *notes = gy_arena_alloc(&holder->arena, (job->note_count + 1) * sizeof(*notes));
    uint32_t *seen = gy_arena_alloc(&holder->arena, (stage_count + 1) * sizeof(*seen));
    bool is_ok = stages != NULL && counters != NULL && notes != NULL && seen != NULL;
    if (is_ok) {
        fill_stages(job, stages);
        fill_cohorts(job, stages, seen);
        is_ok = fill_texts(job, holder, stages, counters, notes) &&
                gy_running_list_bad(job, &holder->arena, &holder->report);
    }
    if (job->bad != NULL) {
        gy_bad_list(job->bad, &holder->bad);
    }
    if (!is_ok || holder->bad.status < 0) {
        gy_job_report_free(&holder->report);
        return NULL;
    }
    gy_job_report *report = &holder->report;
    report->duration_s = (double)(gy_now_ns(job->env) - job->started_ns) * 1e-9;
    report->stages = stages;
    report->stage_count = drop_unmade(job, stages);
    report->counters = counters;
    report->counter_count = job->counter_count;
    report->bytes = job->bytes;
    report->output_bytes = job->output_bytes;
    report->skipped_records = job->skipped;
    report->bad_record_text = gy_text_get(&holder->bad);
    report->notes = notes;
    report->note_count = job->note_count;
    return report;
}

void gy_job_report_free(gy_job_report *report)
{
    if (report != NULL) {
        gy_report_holder *holder = (gy_report_holder *)report;
        gy_text_free(&holder->bad);
        gy_arena_free(&holder->arena);
        gy_free(holder);
    }
}

int64_t gy_job_report_counter(const gy_job_report *report, const char *name)
{
    for (size_t i = 0; i < report->counter_count; i++) {
        if (strcmp(report->counters[i].name, name) == 0) {
            return report->counters[i].value;
        }
    }
    return 0;
}

/* ---- periodic output ---- */

void gy_flow_run_show(gy_flow_job *job)
{
    if (job->options.progress != NULL) {
        gy_job_report *report = gy_flow_run_make_report(job);
        if (report != NULL) {
            job->options.progress(job->options.progress_arg, report);
        }
        gy_job_report_free(report);
    }
}

static void tell_resume(gy_flow_job *job, const gy_manager *manager)
{
    uint32_t stands = 0;
    for (uint32_t i = 0; i < job->dag->stage_count; i++) {
        gy_stage_state state;
        gy_manager_stage(manager, i, &state);
        stands += state.committed;
    }
    job->has_told_resume = true;
    gy_flow_run_note_text(job,
                          "another manager continues, process %ld: %u of %u tasks are done",
                          (long)getpid(), stands, job->lowering.task_count);
}

void gy_flow_run_tick(void *arg, const gy_manager *manager)
{
    gy_flow_job *job = arg;
    job->is_ours = job->has_lock = true;
    if (job->is_resumed && !job->has_told_resume) {
        tell_resume(job, manager);
    }
    gy_flow_run_show(job);
    const int64_t now_ns = gy_now_ns(job->env);
    if (job->history != NULL && now_ns - job->saved_ns >= HISTORY_NS) {
        job->saved_ns = now_ns;
        gy_flow_run_tell_history(job, GY_JOB_RUNNING, "");
    }
}
