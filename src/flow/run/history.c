/* Writes a job's rows in the history, with names for records and vertices. */
#include "flow/run/run_priv.h"

#include <string.h>
#include <unistd.h>

/* ---- names ---- */

/* The file of a vertex's input; NULL: the input is another vertex's output, or missing. */
static const char *file_of(const gy_dag *dag, uint32_t vertex, uint32_t input)
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    const uint32_t joined = dag->inputs[vertex];
    if (proto->function == NULL || proto->files == NULL || input < joined) {
        return NULL;
    }
    uint32_t at = 0;
    while (at < input - joined && proto->files[at] != NULL) {
        at++;
    }
    return proto->files[at];
}

static bool vertex_of(const gy_flow_job *job, const gy_bad_record *record, uint32_t *vertex)
{
    const gy_lowering *l = &job->lowering;
    if (record->task >= l->task_count) {
        return false;
    }
    const uint32_t first = l->member_first[record->task];
    if (record->member >= l->member_first[record->task + 1] - first) {
        return false;
    }
    *vertex = l->members[first + record->member];
    return true;
}

/* Append the file of a record, or the number of its input. */
static void add_source(const gy_flow_job *job, const gy_bad_record *record, gy_text *out)
{
    uint32_t vertex = 0;
    const char *file = vertex_of(job, record, &vertex)
                           ? file_of(job->dag, vertex, record->place.source)
                           : NULL;
    gy_file_range range;
    if (file != NULL && gy_file_range_read(file, &range) == GY_OK) {
        gy_text_add(out, "%s", range.path);
    } else {
        gy_text_add(out, "input %u", record->place.source);
    }
}

void gy_flow_run_name_record(void *arg, const gy_bad_record *record, gy_text *out)
{
    const gy_flow_job *job = arg;
    char name[GY_DAG_NAME_BYTES];
    uint32_t vertex = 0;
    if (vertex_of(job, record, &vertex)) {
        gy_text_add(out, "%s", gy_dag_vertex_name(job->dag, vertex, name));
    } else {
        gy_text_add(out, "task %u", record->task);
    }
    if (record->place.source != GY_PLACE_KEY) {
        gy_text_add(out, " ");
        add_source(job, record, out);
    }
}

/* ---- the history ---- */

/* A job can run without a history: log the first failure and stop writing it. */
static void lose_history(gy_flow_job *job)
{
    gy_warn("this job is missing in the history: %s", gy_error_text());
    gy_history_close(job->history);
    job->history = NULL;
}

static void begin_history(gy_flow_job *job, const gy_job *row)
{
    gy_status status = gy_history_open(&job->history);
    if (status >= 0) {
        status = gy_history_begin(job->history, row);
    }
    if (status < 0) {
        lose_history(job);
    }
}

/* Text that lives as long as the arena; NULL: no memory. */
static const char *settle(gy_arena *arena, gy_text *text)
{
    char *copy = text->status < 0 ? NULL : gy_arena_alloc(arena, text->size_bytes + 1);
    if (copy != NULL && text->size_bytes > 0) {
        memcpy(copy, text->data, text->size_bytes);
    }
    gy_text_free(text);
    return copy;
}

static bool fill_bad_record(const gy_flow_job *job, const gy_bad_record *from, gy_arena *arena,
                            gy_job_bad_record *to)
{
    const bool is_key = from->place.source == GY_PLACE_KEY;
    gy_text source = {0}, what = {0}, backtrace = {0};
    if (is_key) {
        gy_text_add(&source, "key '");
        gy_bad_key_text(from->key, &source);
        gy_text_add(&source, "'");
    } else {
        add_source(job, from, &source);
    }
    gy_bad_what(from, &what);
    gy_text_add(&backtrace, "%s", from->backtrace);
    *to = (gy_job_bad_record){.source = settle(arena, &source),
                              .offset = from->place.offset,
                              .what = settle(arena, &what),
                              .backtrace = settle(arena, &backtrace)};
    return to->source != NULL && to->what != NULL && to->backtrace != NULL;
}

bool gy_running_list_bad(const gy_flow_job *job, gy_arena *arena, gy_job_report *report)
{
    const int64_t count = job->bad != NULL ? gy_bad_count(job->bad) : 0;
    gy_job_bad_record *records = gy_arena_alloc(arena, ((size_t)count + 1) * sizeof(*records));
    gy_bad_record from;
    bool is_ok = records != NULL;
    for (int64_t i = 0; is_ok && i < count && gy_bad_get(job->bad, i, &from); i++) {
        is_ok = fill_bad_record(job, &from, arena, &records[i]);
    }
    report->bad_records = records;
    report->bad_record_count = (size_t)count;
    return is_ok;
}

void gy_flow_run_tell_history(gy_flow_job *job, gy_job_state state, const char *reason)
{
    char here[GY_JOB_PATH] = "";
    if (getcwd(here, sizeof(here)) == NULL) {
        here[0] = '\0';
    }
    const bool is_end = state != GY_JOB_RUNNING;
    gy_job row = {.id = job->id,
                  .report = {.name = job->dag->name, .folder = job->folder},
                  .output = job->target[0] != '\0' ? job->target : job->output,
                  .directory = here,
                  .reason = reason,
                  .arguments = (const char *const *)job->flow->argv,
                  .state = state,
                  .pid = getpid(),
                  .started_ns = job->wall_ns,
                  .ended_ns = is_end ? job->env->ops->wall_ns(job->env) : 0};
    if (job->history == NULL && !is_end) {
        begin_history(job, &row);
        return;
    }
    gy_job_report *report = job->history != NULL ? gy_flow_run_make_report(job) : NULL;
    if (report != NULL) {
        row.report = *report;
        if (gy_history_save(job->history, &row) < 0) {
            lose_history(job);
        }
    }
    gy_job_report_free(report);
}
