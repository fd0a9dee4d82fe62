/* Encodes STARTs: what a member reads, writes and skips, from the graph and the committed
 * tasks. */
#include "flow/run/run_priv.h"
#include "flow/section/section_fetch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

gy_status gy_flow_run_welcome(void *arg, const char *folder, gy_text *message)
{
    gy_flow_job *job = arg;
    char data[GY_JOB_PATH];
    job->is_ours = job->has_lock = true; /* the driver holds the lock */
    const bool is_there = folder != NULL && !gy_flow_run_is_shared(job);
    GY_TRY(gy_flow_run_path(data, is_there ? folder : job->folder, "data"));
    const char **stages =
        gy_alloc("flow.welcome", (job->dag->stage_count + 1) * sizeof(*stages));
    if (stages == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < job->dag->stage_count; i++) {
        stages[i] = job->dag->stages[i].name;
    }
    const double seconds = job->options.record_timeout_s;
    gy_welcome_write(&(gy_welcome){.functions = job->flow->hash,
                                   .folder = folder != NULL ? folder : job->folder,
                                   .data = data,
                                   .output = job->hidden,
                                   .stages = stages,
                                   .stage_count = (uint32_t)job->dag->stage_count,
                                   .is_traced = job->options.trace != NULL,
                                   .round = gy_flow_run_round(job),
                                   .is_remote = folder != NULL,
                                   .record_timeout_ns = (int64_t)(seconds * 1e9),
                                   /* clocks of different machines are not comparable, so a
                                    * daemon gets no deadline */
                                   .deadline = folder != NULL ? GY_NEVER : job->deadline},
                     message);
    gy_free(stages);
    return message->status;
}

gy_status gy_flow_run_report(const gy_flow_job *job, uint32_t task, const void *data,
                             size_t size_bytes, uint32_t member, gy_report *report)
{
    const uint32_t width =
        job->lowering.member_first[task + 1] - job->lowering.member_first[task];
    if (width == 1) {
        return gy_report_read(data, size_bytes, report);
    }
    /* reports of a cohort: uint32_t size and bytes of each, one after the other */
    const char *at = data;
    for (uint32_t m = 0;; m++) {
        uint32_t size = 0;
        if (size_bytes < sizeof(size)) {
            return gy_fail(GY_FORMAT, "the report of task %u ends before member %u", task,
                           member);
        }
        memcpy(&size, at, sizeof(size));
        at += sizeof(size);
        size_bytes -= sizeof(size);
        if (size > size_bytes) {
            return gy_fail(GY_FORMAT, "the report of member %u of task %u has %u bytes of %zu",
                           m, task, size, size_bytes);
        }
        if (m == member) {
            return gy_report_read(size > 0 ? at : NULL, size, report);
        }
        at += size;
        size_bytes -= size;
    }
}

/* ---- channels of a cohort ---- */

static gy_status fill_channels(gy_flow_job *job, uint32_t task, gy_vertex_start *start)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t first = l->member_first[task];
    uint32_t count = 0;
    for (uint32_t m = 0; m < start->width; m++) {
        const uint32_t vertex = l->members[first + m];
        for (uint32_t e = l->edge_first[vertex]; e < l->edge_first[vertex + 1]; e++) {
            const gy_dag_edge *edge = &job->dag->edges[e];
            if (edge->channel == GY_CHANNEL_FILE) {
                continue;
            }
            GY_TRY(GY_GROW("flow.start", job->channels, job->channel_capacity, count + 1));
            GY_TRY(GY_GROW("flow.start", job->channel_outputs, job->channel_output_capacity,
                           count + 1));
            job->channel_outputs[count] = edge->output;
            job->channels[count++] =
                (gy_flow_task_channel){.from = (uint16_t)gy_flow_lower_member(l, edge->from),
                                       .to = (uint16_t)m,
                                       .is_pipe = edge->channel == GY_CHANNEL_PIPE};
        }
    }
    start->channels = job->channels;
    start->channel_count = count;
    return GY_OK;
}

/* ---- inputs ---- */

/* Add a file that the reader's host must fetch first. */
static gy_status add_need(gy_flow_job *job, const gy_sched_task_state *state,
                          const gy_vertex_start_input *input, uint64_t size_bytes)
{
    static_assert(GY_SECTION_ASKED_BYTES <= sizeof((gy_driver_need){0}.wanted), "has room");
    static_assert(GY_NAME_BYTES <= sizeof((gy_driver_need){0}.name), "has room");
    if (state->host == GY_NONE) {
        return gy_fail(GY_STATE, "the output of task %u has no location",
                       state->committed.task);
    }
    gy_driver_need need = {.input = input->task_input,
                           .host = state->host,
                           .size_bytes = size_bytes,
                           .wanted_bytes = GY_SECTION_ASKED_BYTES};
    (void)gy_flow_name_file(gy_flow_run_round(job), state->committed, input->member,
                            input->width, need.name);
    const gy_section_wanted wanted = {
        .owner = {state->key, state->committed.epoch, state->committed.attempt, input->member},
        .content = input->content,
        .section = input->section};
    need.content = gy_section_fetch_key(&wanted);
    gy_section_ask(&wanted, need.wanted);
    return gy_driver_place_add(job->place, &need);
}

/* Fill in an input from the output of a committed task. */
static gy_status fill_edge(gy_flow_job *job, const gy_manager *manager, const gy_dag_edge *edge,
                           gy_vertex_start_input *input)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t task = l->task[edge->from];
    const uint32_t width = l->member_first[task + 1] - l->member_first[task];
    gy_sched_task_state state;
    gy_manager_task(manager, task, &state);
    const uint32_t member = width > 1 ? gy_flow_lower_member(l, edge->from) : 0;
    gy_report report = {0};
    GY_TRY(gy_flow_run_report(job, task, state.report, state.report_bytes, member, &report));
    const gy_report_part part = gy_report_output(&report, edge->output);
    size_t final = 0, finals = 0;
    if (job->task_flags[task] & GY_TASK_FINAL) {
        gy_flow_lower_finals(job->dag, edge->from, &final, &finals);
    }
    for (size_t i = final; i < final + finals; i++) {
        if (job->dag->finals[i].output == edge->output) {
            char name[GY_NAME_BYTES];
            char *path = gy_arena_alloc(&job->start_arena, GY_JOB_PATH);
            if (path == NULL) {
                return GY_NOMEM;
            }
            input->kind = GY_INPUT_PLAIN;
            input->path = path;
            input->size_bytes = UINT64_MAX;
            return gy_flow_run_path(
                path, job->hidden,
                gy_flow_name_final(state.committed, member, edge->output, name));
        }
    }
    if (part.size_bytes == 0 || part.inlined != NULL) {
        input->kind = GY_INPUT_INLINE;
        input->data = part.inlined;
        input->size_bytes = part.size_bytes;
        return GY_OK;
    }
    const bool is_here =
        job->place == NULL || state.host == job->place->host || gy_flow_run_is_shared(job);
    input->kind = is_here ? GY_INPUT_SECTION : GY_INPUT_FETCHED;
    input->from = state.committed;
    input->member = member;
    input->section = edge->output;
    input->width = width;
    input->key = state.key;
    input->content = report.content;
    return is_here ? GY_OK : add_need(job, &state, input, part.size_bytes);
}

/* Fill in a function's files, after the inputs from edges. */
static gy_status fill_files(gy_flow_job *job, uint32_t at, uint32_t *count)
{
    const gy_proto *proto = &job->dag->protos[at];
    const gy_object *objects = job->keys.objects[at];
    const gy_stamp *stamps = job->keys.stamps[at];
    for (size_t i = 0;
         proto->function != NULL && proto->files != NULL && proto->files[i] != NULL; i++) {
        gy_file_range range;
        GY_TRY(gy_file_range_read(proto->files[i], &range));
        GY_TRY(GY_GROW("flow.start", job->inputs, job->input_capacity, *count + 1));
        char *path = gy_arena_alloc(&job->start_arena, strlen(range.path) + 1);
        if (path == NULL) {
            return GY_NOMEM;
        }
        gy_vertex_start_input *input = &job->inputs[(*count)++];
        *input =
            (gy_vertex_start_input){.kind = GY_INPUT_PLAIN,
                                    .path = memcpy(path, range.path, strlen(range.path) + 1),
                                    .offset = range.offset,
                                    .size_bytes = range.size_bytes};
        if (range.is_object) {
            input->kind = GY_INPUT_OBJECT;
            input->version = objects[i].version;
            input->total_bytes = objects[i].total_bytes;
        } else {
            input->stamp = stamps[i];
            if (stamps[i].machine != 0 && range.size_bytes == UINT64_MAX) {
                input->size_bytes = stamps[i].disk.size_bytes - range.offset;
            }
        }
    }
    return GY_OK;
}

/* How many edges from other tasks the members before this one have. */
static uint32_t edges_before(const gy_flow_job *job, uint32_t task, uint32_t member)
{
    const gy_lowering *l = &job->lowering;
    uint32_t count = 0;
    for (uint32_t m = 0; m < member; m++) {
        const uint32_t vertex = l->members[l->member_first[task] + m];
        for (uint32_t e = l->edge_first[vertex]; e < l->edge_first[vertex + 1]; e++) {
            count += job->dag->edges[e].channel == GY_CHANNEL_FILE;
        }
    }
    return count;
}

static gy_status fill_inputs(gy_flow_job *job, const gy_manager *manager, uint32_t vertex,
                             uint32_t member, gy_vertex_start *start)
{
    const gy_lowering *l = &job->lowering;
    uint32_t count = 0, channel = 0;
    uint32_t task_input = edges_before(job, l->task[vertex], member);
    while (channel < start->channel_count && start->channels[channel].to < member) {
        channel++;
    }
    for (uint32_t e = l->edge_first[vertex]; e < l->edge_first[vertex + 1]; e++) {
        const gy_dag_edge *edge = &job->dag->edges[e];
        GY_TRY(GY_GROW("flow.start", job->inputs, job->input_capacity, count + 1));
        gy_vertex_start_input *input = &job->inputs[count++];
        *input = (gy_vertex_start_input){.task_input = task_input};
        if (edge->channel == GY_CHANNEL_FILE) {
            GY_TRY(fill_edge(job, manager, edge, input));
            task_input++;
        } else {
            input->kind = edge->channel == GY_CHANNEL_PIPE ? GY_INPUT_PIPE : GY_INPUT_FIFO;
            input->channel = channel++;
        }
    }
    GY_TRY(fill_files(job, job->dag->proto[vertex], &count));
    start->inputs = job->inputs;
    start->input_count = count;
    return GY_OK;
}

/* ---- outputs ---- */

static gy_status fill_outputs(gy_flow_job *job, uint32_t vertex, uint32_t member,
                              gy_vertex_start *start)
{
    const uint32_t count = job->dag->outputs[vertex];
    GY_TRY(GY_GROW("flow.start", job->outputs, job->output_capacity, (size_t)count + 1));
    for (uint32_t i = 0; i < count; i++) {
        job->outputs[i] = (gy_vertex_start_output){.kind = GY_OUTPUT_SECTION};
    }
    for (uint32_t c = 0; c < start->channel_count; c++) {
        if (start->channels[c].from == member) {
            job->outputs[job->channel_outputs[c]] = (gy_vertex_start_output){
                .kind = start->channels[c].is_pipe ? GY_OUTPUT_PIPE : GY_OUTPUT_FIFO,
                .channel = c};
        }
    }
    size_t final = 0, finals = 0;
    if (job->task_flags[job->lowering.task[vertex]] & GY_TASK_FINAL) {
        gy_flow_lower_finals(job->dag, vertex, &final, &finals);
    }
    for (size_t i = final; i < final + finals; i++) {
        job->outputs[job->dag->finals[i].output].kind = GY_OUTPUT_FINAL;
    }
    start->outputs = job->outputs;
    start->output_count = count;
    return GY_OK;
}

/* ---- the whole START ---- */

/* Fill in a command's files; objects are replaced by local paths. */
static gy_status name_files(gy_flow_job *job, const gy_proto *proto, gy_vertex_start *start)
{
    size_t count = 0;
    while (proto->command != NULL && proto->files != NULL && proto->files[count] != NULL) {
        count++;
    }
    const char **files = gy_arena_alloc(&job->start_arena, (count + 1) * sizeof(*files));
    if (files == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gy_host_file file;
        GY_TRY(gy_host_file_read(proto->files[i], &file));
        files[i] = proto->files[i];
        if (file.hosts[0] != '\0' || gy_uri_is_file(proto->files[i])) {
            char *path = gy_arena_alloc(&job->start_arena, strlen(file.path) + 1);
            if (path == NULL) {
                return GY_NOMEM;
            }
            files[i] = memcpy(path, file.path, strlen(file.path) + 1);
        }
    }
    files[count] = NULL;
    start->files = count > 0 ? files : NULL;
    start->stamps = job->keys.stamps[proto - job->dag->protos];
    return GY_OK;
}

/* Ranks over hosts: the first member of each host gets the inputs, the first of all also the
 * outputs; the other members only occupy their executor slots. */
static gy_status fill_gang(gy_flow_job *job, const gy_manager *manager, const gy_effect *effect,
                           gy_vertex_start *start)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t vertex = l->members[l->member_first[effect->id.task] + effect->member];
    gy_host_state host;
    if (job->place == NULL || !gy_manager_host(manager, job->place->host, &host)) {
        return gy_fail(GY_STATE, "a gang over hosts starts without a host");
    }
    start->hosts = (uint32_t)job->dag->protos[job->dag->proto[vertex]].hosts;
    start->is_plain = job->ticket->key_file[0] == '\0';
    start->address = host.address;
    if (effect->member % (start->width / start->hosts) == 0) {
        GY_TRY(fill_inputs(job, manager, vertex, 0, start));
    }
    return effect->member == 0 ? fill_outputs(job, vertex, 0, start) : GY_OK;
}

static gy_status fill_start(gy_flow_job *job, const gy_manager *manager,
                            const gy_effect *effect, gy_vertex_start *start)
{
    const gy_lowering *l = &job->lowering;
    const gy_dag *dag = job->dag;
    const uint32_t task = effect->id.task;
    GY_ASSERT(task < l->task_count);
    const uint32_t vertex = l->members[l->member_first[task] + effect->member];
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    *start = (gy_vertex_start){
        .function = proto->function != NULL ? gy_flow_find(job->flow, proto->function)
                                            : GY_FUNCTION_NONE,
        .stage = proto->stage,
        .number = proto->base + dag->index[vertex],
        .index = dag->index[vertex],
        .copies = proto->copies,
        .ranks = (uint32_t)proto->ranks,
        .width = l->member_first[task + 1] - l->member_first[task],
        .memory_bytes =
            proto->memory_bytes > 0 ? proto->memory_bytes : job->options.memory_bytes,
        .parameter = proto->parameter,
        .parameter_bytes = (uint32_t)proto->parameter_bytes,
        .command = proto->command,
        .is_reported = job->options.on_output != NULL};
    GY_TRY(name_files(job, proto, start));
    if (gy_flow_lower_ranks(l, dag, vertex) > 1) {
        return fill_gang(job, manager, effect, start);
    }
    if (start->width > 1) {
        const uint64_t words[] = {job->secret[0], job->secret[1], task,
                                  (uint64_t)effect->id.epoch << 32 | effect->id.attempt};
        gy_hash_wide(words, sizeof(words), start->token);
        GY_TRY(fill_channels(job, task, start));
    }
    size_t bad = 0;
    start->bad = gy_bad_of(job->bad, task, effect->member, &bad);
    start->bad_count = (uint32_t)bad;
    GY_TRY(fill_inputs(job, manager, vertex, effect->member, start));
    return fill_outputs(job, vertex, effect->member, start);
}

gy_status gy_flow_run_encode(void *arg, const gy_manager *manager, const gy_effect *start,
                             gy_driver_place *place, gy_text *message)
{
    gy_flow_job *job = arg;
    GY_TRY(gy_flow_run_follow(job, manager));
    job->place = place;
    gy_vertex_start written;
    gy_status status = fill_start(job, manager, start, &written);
    if (status >= 0) {
        gy_vertex_start_write(&written, message);
        status = message->status;
    }
    gy_arena_free(&job->start_arena);
    return status;
}
