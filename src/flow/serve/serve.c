/*
 * A vertex process: decodes STARTs into orders, runs them (channel/execute.c), and sends the
 * answers. Everything that is made for a task is in an arena that lives as long as the task.
 */
#include "driver/gang.h"
#include "flow/channel/channel.h"
#include "flow/channel/start.h"
#include "flow/flow.h"
#include "flow/section/section_fetch.h"

#include "base/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACE_EVENTS = 1 << 14 };

typedef struct gy_served {
    const gy_flow *flow;
    gy_welcome welcome;
    gy_arena arena; /* memory of the welcome */
    gy_fault *fault;
    gy_launch_keep keep;
    bool is_welcome;
} gy_served;

/* Create the subfolders that a job's folder at a daemon has beside its data. */
static gy_status make_folders(const char *folder)
{
    static const char *const names[] = {"data", "scratch", "run", "trace"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        char path[4096];
        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) >= (int)sizeof(path)) {
            return gy_fail(GY_IO, "the name of the job's folder is too long");
        }
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return gy_fail(GY_IO, "cannot make %s: %s", path, strerror(errno));
        }
    }
    return GY_OK;
}

static gy_status be_welcome(void *arg, const void *message, size_t message_bytes)
{
    gy_served *served = arg;
    GY_TRY(gy_welcome_read(message, message_bytes, &served->arena, &served->welcome));
    if (served->welcome.functions != served->flow->hash) {
        return gy_fail(GY_MISMATCH,
                       "the manager's program lists other functions than this one");
    }
    if (served->welcome.is_remote) {
        GY_TRY(make_folders(served->welcome.folder));
    }
    GY_TRY(gy_fault_open(served->welcome.is_remote ? NULL : served->welcome.folder,
                         &served->fault));
    if (served->welcome.is_traced) {
        gy_trace_start(TRACE_EVENTS);
    }
    served->is_welcome = true;
    return GY_OK;
}

/* ---- a START as an order ---- */

/* "folder/name" in the arena; NULL: no memory. */
static const char *path_in(gy_arena *arena, const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = gy_arena_alloc(arena, size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/%s", folder, name);
    }
    return path;
}

/* State of one START. */
typedef struct gy_flow_serving {
    const gy_served *served;
    const gy_worker_task *task;
    gy_arena arena;
    gy_vertex_start start;
    gy_flow_task order;
} gy_flow_serving;

static gy_status fill_inputs(gy_flow_serving *serving)
{
    const gy_vertex_start *start = &serving->start;
    gy_flow_task_input *inputs =
        gy_arena_alloc(&serving->arena, ((size_t)start->input_count + 1) * sizeof(*inputs));
    if (inputs == NULL) {
        return GY_NOMEM;
    }
    char name[GY_NAME_BYTES];
    for (uint32_t i = 0; i < start->input_count; i++) {
        const gy_vertex_start_input *from = &start->inputs[i];
        inputs[i] = (gy_flow_task_input){.kind = from->kind,
                                         .section = from->section,
                                         .epoch = from->from.epoch,
                                         .attempt = from->from.attempt,
                                         .member = from->member,
                                         .channel = from->channel,
                                         .key = from->key,
                                         .content = from->content,
                                         .path = from->path,
                                         .version = from->version,
                                         .data = from->data,
                                         .offset = from->offset,
                                         .size_bytes = from->size_bytes,
                                         .total_bytes = from->total_bytes,
                                         .stamp = from->stamp};
        if (from->kind == GY_INPUT_FETCHED) {
            (void)snprintf(name, sizeof(name), "fetched/");
            const gy_section_wanted wanted = {
                .owner = {from->key, from->from.epoch, from->from.attempt, from->member},
                .content = from->content,
                .section = from->section};
            (void)gy_section_fetch_name(&wanted, name + strlen(name));
            inputs[i].path = path_in(&serving->arena, serving->served->welcome.folder, name);
            if (inputs[i].path == NULL) {
                return GY_NOMEM;
            }
        }
        if (from->kind == GY_INPUT_SECTION) {
            (void)gy_flow_name_file(serving->served->welcome.round, from->from, from->member,
                                    from->width, name);
            inputs[i].path = path_in(&serving->arena, serving->served->welcome.data, name);
            if (inputs[i].path == NULL) {
                return GY_NOMEM;
            }
        }
    }
    serving->order.inputs = inputs;
    serving->order.input_count = start->input_count;
    return GY_OK;
}

static gy_status fill_outputs(gy_flow_serving *serving)
{
    const gy_vertex_start *start = &serving->start;
    gy_flow_task_output *outputs =
        gy_arena_alloc(&serving->arena, ((size_t)start->output_count + 1) * sizeof(*outputs));
    if (outputs == NULL) {
        return GY_NOMEM;
    }
    char name[GY_NAME_BYTES];
    for (uint32_t i = 0; i < start->output_count; i++) {
        outputs[i] = (gy_flow_task_output){.kind = start->outputs[i].kind,
                                           .channel = start->outputs[i].channel};
        if (outputs[i].kind == GY_OUTPUT_FINAL) {
            (void)gy_flow_name_final(serving->task->id, serving->task->member, i, name);
            outputs[i].path = path_in(&serving->arena, serving->served->welcome.output, name);
            if (outputs[i].path == NULL) {
                return GY_NOMEM;
            }
        }
    }
    serving->order.outputs = outputs;
    serving->order.output_count = start->output_count;
    return GY_OK;
}

static gy_status fill_paths(gy_flow_serving *serving)
{
    const gy_welcome *welcome = &serving->served->welcome;
    const gy_vertex_start *start = &serving->start;
    gy_flow_task *order = &serving->order;
    char name[GY_NAME_BYTES];
    (void)gy_flow_name_file(welcome->round, serving->task->id, serving->task->member,
                            start->width, name);
    order->path = path_in(&serving->arena, welcome->data, name);
    char *cohort = gy_arena_alloc(&serving->arena, GY_NAME_BYTES + 16);
    char *title = gy_arena_alloc(&serving->arena, strlen(order->stage) + 16);
    if (order->path == NULL || cohort == NULL || title == NULL) {
        return GY_NOMEM;
    }
    (void)snprintf(title, strlen(order->stage) + 16, "%s[%u]", order->stage, start->number);
    order->name = title;
    if (start->width > 1) {
        (void)snprintf(cohort, GY_NAME_BYTES + 16, "run/cohort.%s",
                       gy_flow_name_file(welcome->round, serving->task->id, 0, 1, name));
        order->cohort = path_in(&serving->arena, welcome->folder, cohort);
    }
    return start->width > 1 && order->cohort == NULL ? GY_NOMEM : GY_OK;
}

static gy_status fill_order(gy_flow_serving *serving)
{
    const gy_served *served = serving->served;
    const gy_worker_task *task = serving->task;
    gy_vertex_start *start = &serving->start;
    GY_TRY(gy_vertex_start_read(task->message, task->message_bytes, &serving->arena, start));
    const bool is_command = start->function == GY_FUNCTION_NONE;
    if (start->stage >= served->welcome.stage_count ||
        (!is_command && start->function >= served->flow->count)) {
        return gy_fail(GY_FORMAT, "a task of stage %u and function %u: there are %u and %u",
                       start->stage, start->function, served->welcome.stage_count,
                       served->flow->count);
    }
    if (start->hosts > 0 &&
        (start->ranks != start->width || start->width % start->hosts != 0)) {
        return gy_fail(GY_FORMAT, "%u ranks as %u members on %u hosts", start->ranks,
                       start->width, start->hosts);
    }
    const gy_function *function = is_command ? NULL : &served->flow->functions[start->function];
    serving->order = (gy_flow_task){.id = task->id,
                                    .key = task->key,
                                    .member = task->member,
                                    .stage = served->welcome.stages[start->stage],
                                    .run = is_command ? NULL : function->run,
                                    .user = is_command ? NULL : function->user,
                                    .functions = served->flow->functions,
                                    .function_count = served->flow->count,
                                    .parameter = start->parameter,
                                    .parameter_bytes = start->parameter_bytes,
                                    .index = start->index,
                                    .copies = start->copies,
                                    .memory_bytes = (size_t)start->memory_bytes,
                                    .folder = served->welcome.folder,
                                    .bad = start->bad,
                                    .bad_count = start->bad_count,
                                    .record_timeout_ns = served->welcome.record_timeout_ns,
                                    .width = start->width,
                                    .channel_count = start->channel_count,
                                    .channels = start->channels,
                                    .token = {start->token[0], start->token[1]},
                                    .command = start->command,
                                    .files = start->files,
                                    .stamps = start->stamps,
                                    .ranks = (int)start->ranks,
                                    .hosts = (int)start->hosts,
                                    .address = start->address,
                                    .is_plain = start->is_plain,
                                    .is_reported = start->is_reported,
                                    .task = task,
                                    .deadline = served->welcome.deadline};
    GY_TRY(fill_paths(serving));
    GY_TRY(fill_inputs(serving));
    return fill_outputs(serving);
}

/* Send the recorded trace events of a process at a daemon with its answers, because the
 * process does not exit in order. */
static void tell_trace(const gy_served *served, const gy_worker_task *task)
{
    gy_text rows = {.data = NULL};
    if (served->welcome.is_traced && served->welcome.is_remote) {
        gy_trace_take(&rows);
        if (rows.status == GY_OK) {
            gy_worker_trace(task, rows.data, rows.size_bytes);
        }
        gy_text_free(&rows);
    }
}

static void serve_task(void *arg, const gy_worker_task *task, const _Atomic bool *is_cancelled,
                       gy_worker_answer *answer)
{
    gy_served *served = arg;
    gy_flow_serving serving = {.served = served, .task = task};
    const gy_status status = fill_order(&serving);
    serving.order.keep = &served->keep;
    if (status < 0) {
        answer->cause = status == GY_NOMEM ? GY_CAUSE_OWN : GY_CAUSE_FATAL;
        gy_text_add(&answer->reason, "%s", gy_error_text());
    } else {
        gy_vertex_execute(gy_env_real(), &serving.order, served->fault, task->board,
                          is_cancelled, answer);
        /* the manager counts the edges of the whole task */
        if (answer->cause == GY_CAUSE_LOST_INPUT) {
            GY_ASSERT(answer->input < serving.start.input_count);
            answer->input = serving.start.inputs[answer->input].task_input;
        }
        tell_trace(served, task);
    }
    gy_arena_free(&serving.arena);
}

/* ---- the process ---- */

/* Write this process's part of the job's trace: FOLDER/trace/PID. */
static void write_trace(const gy_served *served)
{
    gy_text text = {0};
    char path[4096], name[32];
    (void)snprintf(name, sizeof(name), "process %d", (int)getpid());
    (void)snprintf(path, sizeof(path), "%s/trace/%d", served->welcome.folder, (int)getpid());
    gy_trace_write(&text, (int)getpid(), name);
    FILE *file = text.status >= 0 ? fopen(path, "we") : NULL;
    if (file == NULL || fwrite(text.data, 1, text.size_bytes, file) != text.size_bytes) {
        gy_warn("the trace of a vertex process is lost: cannot write %s", path);
    }
    if (file != NULL && fclose(file) != 0) {
        gy_warn("the trace of a vertex process is lost: cannot close %s", path);
    }
    gy_text_free(&text);
}

int gy_flow_serve(const gy_flow *flow, int socket)
{
    gy_served served = {.flow = flow};
    gy_keep_init(&served.keep);
    const gy_worker_ops ops = {
        .run = serve_task, .welcome = be_welcome, .gang = gy_gang_serve, .arg = &served};
    const int status = gy_worker_serve(socket, &ops);
    if (served.is_welcome && served.welcome.is_traced && !served.welcome.is_remote) {
        write_trace(&served);
    }
    gy_keep_fini(&served.keep);
    gy_fault_close(served.fault);
    gy_arena_free(&served.arena);
    return status;
}
