/*
 * A run: pin what is fed, push every step in program order, wait, copy out what is fetched.
 * Ready steps run in program order; collectives start as soon as their input is there and end
 * by themselves, so that they overlap whatever follows.
 */
#include "graph/session.h"
#include "tensor/tensor.h"

#include <string.h>

/* This rank's slice of a value that is whole here; or its summand: all of it on the first rank
 * of the axis. */
static gy_status take_shard(const gy_program_step *step)
{
    const gy_kernel_call *call = &step->call;
    const gy_attributes *attributes = &step->node->attributes;
    const gy_mesh *mesh = &step->program->graph->mesh;
    if (attributes->move.to.kind == GY_PARTIAL &&
        mesh->coordinates[attributes->move.mesh_axis] > 0) {
        memset(call->outputs[0].data, 0,
               (size_t)gy_view_count(&call->outputs[0]) *
                   gy_dtype_bytes(call->outputs[0].dtype));
        return GY_OK;
    }
    GY_ASSERT(call->input_offsets != NULL && call->output_offsets != NULL);
    gy_view from = call->inputs[0];
    int64_t begin = 0;
    for (int i = 0; i < from.rank; i++) {
        begin += (call->output_offsets[0][i] - call->input_offsets[0][i]) * from.strides[i];
        from.sizes[i] = call->outputs[0].sizes[i];
    }
    GY_ASSERT(begin >= 0 && from.rank == call->outputs[0].rank);
    from.data = (char *)from.data + (size_t)begin * gy_dtype_bytes(from.dtype);
    return gy_view_copy(&call->outputs[0], &from);
}

static gy_status compute(const gy_program_step *step)
{
    if (step->kernel != NULL) {
        return step->kernel->run(&step->call);
    }
    GY_ASSERT(step->node->op == &gy_ops_row_take_shard || step->node->op->reference != NULL);
    return step->node->op == &gy_ops_row_take_shard ? take_shard(step)
                                                    : step->node->op->reference(&step->call);
}

/* What a fetch has in this rank's memory. */
static gy_view root_view(const gy_program *program, int index)
{
    const gy_graph *graph = program->graph;
    const gy_value value = graph->roots[index].value;
    const int32_t storage = program->memory.of_value[gy_graph_value(graph, value)];
    GY_ASSERT(storage >= 0 && storage < program->memory.buffer_count);
    return gy_local_view(&graph->mesh, gy_graph_type(graph, value), program->data[storage]);
}

/* Fetch `index` is there: each is told by one task, or by the run's end. */
static void tell_root(gy_program *program, int index)
{
    const gy_session *session = program->session;
    const gy_view view = root_view(program, index);
    GY_ASSERT(!program->is_told[index]);
    program->is_told[index] = true;
    program->is_taken[index] = session->hook(session->hook_arg, index, &view);
}

static void run_step(void *arg, gy_done *done)
{
    gy_program_step *step = arg;
    gy_program *program = step->program;
    gy_meter *meter = &program->session->meter;
    const int64_t begun_ns = program->session->is_timed ? gy_now_ns(gy_env_real()) : 0;
    gy_meter_change(meter, 1);
    gy_status status = compute(step);
    gy_meter_change(meter, -1);
    if (program->session->is_timed) {
        step->ran_ns = gy_now_ns(gy_env_real()) - begun_ns;
    }
    for (int32_t r = step->root; r >= 0 && status >= 0 && program->session->hook != NULL;
         r = program->next_root[r]) {
        tell_root(program, r);
    }
    if (status < 0) {
        gy_fail_within(status, "node %s", step->node->name);
        gy_done_fail(done, status);
    } else {
        gy_done_ok(done);
    }
}

static gy_status push(gy_program *program, int32_t index, int priority)
{
    GY_ASSERT(index >= 0 && index < program->step_count);
    GY_ASSERT(program->scope != NULL);
    gy_program_step *step = &program->steps[index];
    gy_engine *engine = program->session->engine;
    gy_task task = {.name = step->trace_name,
                    .run = run_step,
                    .arg = step,
                    .scope = program->scope,
                    .reads = step->reads,
                    .read_count = step->read_count,
                    .mutates = step->mutates,
                    .mutate_count = step->mutate_count,
                    .priority = priority + step->priority};
    if (step->collective != NULL) {
        return gy_collective_push(engine, step->collective, &task);
    }
    if (step->group != NULL) {
        task.priority = priority + step->group->priority;
        return gy_device_lane_push_group(program->session->lane, step->group, &task);
    }
    if (gy_devices_runs(step->node)) {
        return gy_device_lane_push(program->session->lane, &task);
    }
    return gy_engine_push(engine, &task);
}

gy_status gy_session_refuse(gy_session *session, gy_status status)
{
    GY_ASSERT(status < 0);
    gy_error cause;
    gy_error_take(&cause, status);
    for (int axis = 0; axis < GY_MESH_MAX; axis++) {
        if (session->comms[axis] != NULL) {
            gy_comm_refuse(session->comms[axis], &cause);
        }
    }
    if (session->mesh.pipe != NULL) {
        gy_comm_refuse(session->mesh.pipe, &cause);
    }
    return gy_error_raise(&cause);
}

/*
 * A failure goes to the peers of every axis. On a mesh of several axes all ranks end a run
 * together: one that failed has refused its communicators, and so the barrier fails everywhere.
 */
gy_status gy_session_meet(gy_session *session, bool has_exchanges, gy_status status)
{
    const int ranks = session->mesh.whole != NULL ? gy_comm_size(session->mesh.whole) : 1;
    bool is_grid = session->mesh.stages > 1; /* no communicator of one axis has all ranks, or
                                                messages alone tie them */
    for (int axis = 0; axis < session->mesh.axes; axis++) {
        is_grid =
            is_grid || (session->mesh.sizes[axis] > 1 && session->mesh.sizes[axis] < ranks);
    }
    if (!has_exchanges) {
        return status;
    }
    if (status >= 0 && is_grid) {
        GY_ASSERT(session->mesh.whole != NULL);
        const bool has_stages = session->mesh.stages > 1; /* others have something to do yet */
        gy_meter_exchange(&session->meter, GY_EXCHANGE_KINDS_MAX - 1, NULL, 1, 0);
        if (has_stages) {
            gy_meter_await(&session->meter, 1, 0);
        }
        status = gy_barrier(session->mesh.whole);
        if (has_stages) {
            gy_meter_await(&session->meter, -1, 0);
        }
        gy_meter_exchange(&session->meter, GY_EXCHANGE_KINDS_MAX - 1, NULL, -1, 0);
    }
    return status < 0 ? gy_session_refuse(session, gy_mesh_name_stages(&session->mesh, status))
                      : status;
}

/* Without overlap a collective begins when all before it has ended, and ends before the next
 * step begins. Beside other micro-batches that would be a wait for what they are to send. */
gy_status gy_program_push(gy_program *program, int32_t from, int32_t to, int priority)
{
    GY_ASSERT(from >= 0 && from <= to);
    const int32_t last = program->first[GY_MIN(to, program->segment_count)];
    if (program->scope == NULL) {
        return gy_fail(GY_NOMEM, "no task group: out of memory after an earlier failure");
    }
    int32_t i = program->first[GY_MIN(from, program->segment_count)];
    while (i < last) {
        bool is_alone = program->session->has_no_overlap && program->segments == NULL &&
                        program->steps[i].collective != NULL;
        GY_TRY(is_alone ? gy_scope_wait(program->scope, GY_NEVER) : GY_OK);
        GY_TRY(push(program, i, priority));
        GY_TRY(is_alone ? gy_scope_wait(program->scope, GY_NEVER) : GY_OK);
        const gy_device_group *group = program->steps[i].group;
        i += group != NULL ? group->count : 1;
    }
    return GY_OK;
}

/* After a failure: all variables sound again, a new group. */
static gy_status heal(gy_program *program, gy_status failed)
{
    GY_ASSERT(failed < 0);
    gy_error error;
    gy_error_take(&error, failed);
    gy_scope_free(program->scope);
    program->scope = NULL; /* stays so out of memory: run_steps says it */
    if (gy_scope_new(program->session->engine, GY_NEVER, &program->scope) < 0) {
        GY_ASSERT(program->scope == NULL);
    }
    for (int32_t i = 0; i < program->memory.buffer_count; i++) {
        gy_var_heal(program->vars[i]);
    }
    return gy_error_raise(&error);
}

/* All tasks have ended, and all that the device was given. */
static gy_status await(gy_program *program)
{
    gy_status waited = program->scope != NULL ? gy_scope_wait(program->scope, GY_NEVER) : GY_OK;
    gy_error error;
    gy_error_take(&error, waited);
    const gy_status ended = gy_device_lane_await(program->session->lane);
    return waited < 0 ? gy_error_raise(&error) : ended;
}

gy_status gy_program_wait(gy_program *program)
{
    GY_ASSERT(program->session != NULL);
    const gy_status waited = await(program);
    return waited < 0 ? heal(program, waited) : GY_OK;
}

static gy_status run_steps(gy_program *program)
{
    gy_status pushed = gy_program_push(program, 0, program->segment_count, 0);
    if (pushed < 0 && program->has_exchanges) { /* or peers would wait for what is not pushed */
        pushed = gy_session_refuse(program->session, pushed);
    }
    gy_error error;
    gy_error_take(&error, pushed);
    gy_status waited = await(program);
    if (pushed < 0) {
        waited = gy_error_raise(&error);
    }
    return waited < 0 ? heal(program, waited) : GY_OK;
}

/* ---- feeds ---- */

static gy_type fed_type(gy_tensor *tensor)
{
    gy_type type = {.dtype = gy_tensor_dtype(tensor), .rank = gy_tensor_rank(tensor)};
    for (int i = 0; i < type.rank; i++) {
        type.sizes[i] = gy_tensor_size(tensor, i);
    }
    return type;
}

static gy_status check_feed(const gy_program *program, const gy_graph_node *node,
                            gy_tensor *tensor)
{
    GY_ASSERT(node->op == &gy_ops_row_input);
    const gy_type *whole = &node->types[0];
    gy_type wanted = *whole, fed = fed_type(tensor);
    int64_t offsets[GY_TENSOR_RANK_MAX];
    gy_local_part(&program->graph->mesh, whole, wanted.sizes, offsets);
    if (gy_type_is_same_shape(&fed, &wanted)) {
        return GY_OK;
    }
    char have[160], want[160], all[160];
    return gy_fail(
        GY_SHAPE, "feed of %s is %s, expected %s (rank %d's part of %s)", node->name,
        gy_type_text(&fed, have), gy_type_text(&wanted, want),
        gy_mesh_rank(&program->graph->mesh, gy_mesh_data_axis(&program->graph->mesh)),
        gy_type_text(whole, all));
}

/* Kernels get row-major memory: what has strides is copied. */
static gy_status pin_feed(gy_program *program, int32_t storage, gy_tensor *tensor)
{
    GY_ASSERT(program->memory.buffers[storage].kind == GY_STORAGE_INPUT);
    GY_ASSERT(program->fed[storage] == NULL);
    gy_view view = gy_tensor_pin(tensor);
    if (!gy_view_is_contiguous(&view)) {
        gy_tensor_unpin(tensor);
        if (program->staging[storage] == NULL) {
            GY_TRY(gy_tensor_new(NULL, view.dtype, view.sizes, view.rank,
                                 &program->staging[storage]));
        }
        GY_TRY(gy_tensor_copy(program->staging[storage], tensor));
        tensor = program->staging[storage];
        view = gy_tensor_pin(tensor);
    }
    program->fed[storage] = tensor;
    program->data[storage] = view.data;
    return GY_OK;
}

static gy_status feed_one(gy_program *program, int32_t storage, const gy_feed *feeds,
                          int feed_count)
{
    GY_ASSERT(program->memory.buffers[storage].leaf >= 0);
    const gy_graph_node *node = &program->graph->nodes[program->memory.buffers[storage].leaf];
    if (strcmp(node->name, GY_SEED_NAME) == 0) {
        program->data[storage] = program->seed_words;
        return GY_OK;
    }
    for (int i = 0; i < feed_count; i++) {
        if (feeds[i].node.graph == program->session->graph &&
            feeds[i].node.index == node->origin) {
            if (feeds[i].tensor == NULL) {
                return gy_fail(GY_ARG, "feed of %s has no tensor", node->name);
            }
            GY_TRY(check_feed(program, node, feeds[i].tensor));
            return pin_feed(program, storage, feeds[i].tensor);
        }
    }
    char text[160];
    return gy_fail(GY_ARG, "input %s, %s, is not fed", node->name,
                   gy_type_text(&node->types[0], text));
}

static gy_status feed(gy_program *program, const gy_feed *feeds, int feed_count)
{
    for (int32_t i = 0; i < program->memory.buffer_count; i++) {
        if (program->memory.buffers[i].kind == GY_STORAGE_INPUT) {
            GY_TRY(feed_one(program, i, feeds, feed_count));
        }
    }
    return GY_OK;
}

/* The rows of a parameter that this run has. */
static gy_status place_rows(gy_program *program, int32_t storage, int64_t first)
{
    const gy_session *session = program->session;
    const gy_graph_node *leaf = &program->graph->nodes[program->memory.buffers[storage].leaf];
    const gy_graph_node *node = &session->graph->nodes[leaf->origin];
    const gy_parameter_slot *slot = NULL;
    gy_type kept = gy_graph_parameter_type(&session->mesh, node);
    int64_t sizes[GY_TENSOR_RANK_MAX], begins[GY_TENSOR_RANK_MAX];
    int64_t own[GY_TENSOR_RANK_MAX], offsets[GY_TENSOR_RANK_MAX];
    GY_TRY(gy_session_slot(program->session, leaf->origin, &slot));
    gy_local_part(&session->mesh, &kept, sizes, begins);
    gy_local_part(&program->graph->mesh, &leaf->types[0], own, offsets);
    const int64_t from = first + offsets[0] - begins[0];
    GY_ASSERT(slot->view.rank == kept.rank && leaf->types[0].rank == kept.rank);
    if (own[0] > 0 && (from < 0 || from + own[0] > sizes[0])) {
        return gy_fail(
            GY_ARG, "rows %lld to %lld of %s are not this rank's, which has %lld to %lld",
            (long long)(first + offsets[0]), (long long)(first + offsets[0] + own[0] - 1),
            node->name, (long long)begins[0], (long long)(begins[0] + sizes[0] - 1));
    }
    int64_t row = (int64_t)gy_dtype_bytes(kept.dtype);
    for (int i = 1; i < kept.rank; i++) {
        GY_ASSERT(own[i] == sizes[i] && offsets[i] == begins[i]);
        row *= sizes[i];
    }
    program->data[storage] = (char *)slot->view.data + (own[0] > 0 ? from * row : 0);
    return GY_OK;
}

/* Of parameters that the run assigns there the device has the newer value from now on. */
static gy_status note_assigned(gy_program *program)
{
    const gy_graph *graph = program->graph;
    for (int32_t i = 0; i < graph->node_count && graph->device != NULL; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        gy_parameter_slot *slot = NULL;
        if (node->op != &gy_ops_row_assign || !node->is_on_device) {
            continue;
        }
        while (node->op != &gy_ops_row_parameter) {
            GY_ASSERT(node->op == &gy_ops_row_assign || (node->op->flags & GY_OP_VIEW) != 0);
            node = gy_graph_at(graph, node->inputs[0]);
        }
        GY_TRY(gy_session_find_slot(program->session, node->origin, &slot));
        GY_ASSERT(slot->is_same_there);
        slot->is_newer_there = true;
    }
    return GY_OK;
}

/* Parameters that have their home on the device. */
static gy_status send_parameters(gy_program *program)
{
    for (int32_t i = 0; i < program->memory.buffer_count && program->graph->device != NULL;
         i++) {
        const gy_storage *storage = &program->memory.buffers[i];
        gy_parameter_slot *slot = NULL;
        if (storage->kind != GY_STORAGE_PARAMETER) {
            continue;
        }
        GY_ASSERT(storage->leaf >= 0);
        const gy_graph_node *leaf = &program->graph->nodes[storage->leaf];
        if (leaf->is_on_device) {
            GY_TRY(gy_session_find_slot(program->session, leaf->origin, &slot));
            GY_TRY(gy_device_lane_send(program->session->lane, slot));
        }
    }
    return note_assigned(program);
}

static gy_status place_all_rows(gy_program *program, int64_t first)
{
    GY_ASSERT(first >= 0 && program->graph != NULL);
    for (int32_t i = 0; i < program->memory.buffer_count; i++) {
        const gy_storage *storage = &program->memory.buffers[i];
        if (storage->kind == GY_STORAGE_PARAMETER &&
            gy_graph_has_batch(&program->graph->nodes[storage->leaf]) &&
            gy_graph_has_rows(&program->graph->nodes[storage->leaf])) {
            GY_TRY(place_rows(program, i, first));
        }
    }
    return GY_OK;
}

void gy_program_end(gy_program *program)
{
    for (int32_t i = 0; i < program->memory.buffer_count; i++) {
        if (program->fed[i] != NULL) {
            gy_tensor_unpin(program->fed[i]);
            program->fed[i] = NULL;
        }
    }
}

/* The tags of ordinary runs are numbers of values; a run's messages have ended on both sides
 * before the next of the same rank. */
static gy_status number_messages(gy_program *program, int micro)
{
    enum { MESSAGES_MAX = 8192 };
    for (int32_t i = 0; i < program->step_count && micro >= 0; i++) {
        const gy_program_step *step = &program->steps[i];
        if (step->message == NULL) {
            continue;
        }
        const int32_t number = step->node->attributes.message.number;
        if (number >= MESSAGES_MAX || micro >= INT32_MAX / MESSAGES_MAX) {
            return gy_fail(GY_LIMIT,
                           "micro-batch %d, message %d between stages: expected fewer than %d "
                           "and %d",
                           micro, (int)number, INT32_MAX / MESSAGES_MAX, (int)MESSAGES_MAX);
        }
        step->message->message.tag = micro * MESSAGES_MAX + number;
    }
    return GY_OK;
}

gy_status gy_program_begin(gy_program *program, const gy_micro_batch *batch, int micro)
{
    const gy_session *session = program->session;
    GY_ASSERT(batch->feed_count >= 0 && micro >= -1);
    program->seed_words[0] = (int64_t)session->seed;
    program->seed_words[1] = (int64_t)session->step;
    program->seed_words[2] = batch->first;
    memset(program->is_told, 0, (size_t)program->fetch_count * sizeof(bool));
    memset(program->is_taken, 0, (size_t)program->fetch_count * sizeof(bool));
    GY_TRY(number_messages(program, micro));
    GY_TRY(feed(program, batch->feeds, batch->feed_count));
    GY_TRY(place_all_rows(program, batch->first));
    GY_TRY(send_parameters(program));
    for (int32_t i = 0; i < program->patch_count; i++) {
        GY_ASSERT(program->patches[i].storage < program->memory.buffer_count);
        program->patches[i].view->data = program->data[program->patches[i].storage];
    }
    for (int32_t i = 0; i < program->step_count; i++) { /* exchanges of fed values */
        gy_program_step *step = &program->steps[i];
        if (step->collective != NULL && step->node->input_count > 0) {
            step->collective->input = step->call.inputs[0];
        }
    }
    return GY_OK;
}

/* ---- results ---- */

/* Fetches that no computation of this run made: what was fed, constants, ends of exchanges. */
static void tell_rest(gy_program *program)
{
    for (int i = 0; i < program->fetch_count; i++) {
        const gy_value value = program->graph->roots[i].value;
        if (!program->is_told[i] && !program->graph->roots[i].is_elsewhere &&
            gy_graph_at(program->graph, value)->op != &gy_ops_row_assign) {
            tell_root(program, i);
        }
    }
}

static gy_status copy_result(gy_program *program, int index, gy_tensor **result)
{
    GY_ASSERT(index >= 0 && index < program->graph->root_count);
    const gy_graph *graph = program->graph;
    gy_value value = graph->roots[index].value;
    *result = NULL;
    if (graph->roots[index].is_elsewhere ||
        gy_graph_at(graph, value)->op == &gy_ops_row_assign || program->is_taken[index]) {
        return GY_OK;
    }
    const gy_view from = root_view(program, index);
    GY_TRY(gy_tensor_new(NULL, from.dtype, from.sizes, from.rank, result));
    gy_view to = gy_tensor_pin(*result);
    gy_status status = gy_view_copy(&to, &from);
    gy_tensor_unpin(*result);
    return status;
}

gy_status gy_program_take(gy_program *program, gy_tensor **results)
{
    gy_tensor **made = program->results;
    GY_ASSERT(program->graph->root_count == program->fetch_count);
    gy_status status = GY_OK;
    int count = 0;
    for (; status >= 0 && count < program->fetch_count; count++) {
        status = copy_result(program, count, &made[count]);
    }
    for (int i = 0; i < count; i++) {
        if (status >= 0) {
            results[i] = made[i];
        } else {
            gy_tensor_drop(made[i]);
        }
    }
    return status;
}

gy_status gy_program_run(gy_program *program, const gy_micro_batch *batch, gy_tensor **results)
{
    GY_ASSERT(batch->feed_count >= 0);
    GY_ASSERT(program->graph->root_count == program->fetch_count);
    gy_session *session = program->session;
    const size_t count = (size_t)program->fetch_count;
    gy_status status = gy_program_begin(program, batch, -1);
    gy_meter_run(&session->meter, true);
    if (status >= 0) {
        status = run_steps(program);
    }
    if (status >= 0 && session->hook != NULL) {
        tell_rest(program);
    }
    gy_tensor **made = program->results;
    bool is_taken = false;
    if (status >= 0) {
        status = gy_program_take(program, made);
        is_taken = status >= 0;
    }
    status = gy_session_meet(session, program->has_exchanges, status);
    gy_meter_run(&session->meter, false);
    program->runs += status >= 0 ? 1 : 0;
    for (size_t i = 0; i < count && is_taken; i++) {
        if (status >= 0) {
            results[i] = made[i];
        } else {
            gy_tensor_drop(made[i]);
        }
    }
    gy_program_end(program);
    return status;
}
