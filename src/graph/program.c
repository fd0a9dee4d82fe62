/*
 * From a scheduled graph to steps: a kernel for each node (or its reference), memory by the
 * plan, one engine variable per storage. Everything a run needs is made here, so that runs
 * allocate nothing.
 */
#include "graph/session.h"

#include <string.h>

/* A kernel whose wanted formats are those that the values have. */
static bool fits_formats(const gy_kernel *kernel, const gy_kernel_query *query)
{
    GY_ASSERT(query->input_count <= GY_OP_INPUTS_MAX);
    GY_ASSERT(query->output_count <= GY_OP_OUTPUTS_MAX);
    gy_format inputs[GY_OP_INPUTS_MAX] = {GY_FORMAT_DENSE},
              outputs[GY_OP_OUTPUTS_MAX] = {GY_FORMAT_DENSE};
    if (kernel->formats != NULL) {
        kernel->formats(query, inputs, outputs);
    }
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].format != inputs[i]) {
            return false;
        }
    }
    for (int i = 0; i < query->output_count; i++) {
        if (query->outputs[i].format != outputs[i]) {
            return false;
        }
    }
    return true;
}

static const gy_kernel *choose(const gy_kernel_query *query)
{
    const gy_kernel *best = gy_kernel_choose(query);
    if (best == NULL || fits_formats(best, query)) {
        return best;
    }
    for (const gy_kernel *const *kernel = gy_ops_kernels(query->op); *kernel != NULL;
         kernel++) {
        if (fits_formats(*kernel, query) && (*kernel)->accepts(query)) {
            return *kernel;
        }
    }
    return NULL;
}

static bool is_exchange(const gy_op *op)
{
    return gy_meter_kind(op, 0) >= 0;
}

void gy_choose_kernels(const gy_graph *graph, int workers, gy_graph_choice *choices)
{
    GY_ASSERT(graph->is_placed && workers >= 1);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        choices[i] = (gy_graph_choice){.kernel = NULL};
        if (gy_collective_is_message(node->op) || gy_devices_is_copy(node->op)) {
            continue;
        }
        if (node->is_on_device && gy_devices_is_work(node)) {
            choices[i].workspace_bytes = gy_devices_workspace(graph, i);
            continue;
        }
        if (is_exchange(node->op)) {
            const int axis = node->attributes.move.mesh_axis;
            GY_ASSERT(axis < graph->mesh.axes);
            const gy_type shared = gy_axis_type(&graph->mesh, &node->types[0], axis);
            choices[i].workspace_bytes = gy_collective_workspace_bytes(
                node->op, &node->attributes, &shared, graph->mesh.sizes[axis]);
        } else if ((node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) == 0) {
            gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
            gy_kernel_query query = gy_graph_query(graph, i, workers, views);
            choices[i].kernel = choose(&query);
            if (choices[i].kernel != NULL && choices[i].kernel->workspace_bytes != NULL) {
                choices[i].workspace_bytes = choices[i].kernel->workspace_bytes(&query);
            }
        }
    }
}

/* ---- memory ---- */

static gy_pool *pool_of(const gy_session *session, gy_storage_kind kind)
{
    GY_ASSERT(kind == GY_STORAGE_OWN || kind == GY_STORAGE_SHARED);
    return kind == GY_STORAGE_SHARED ? session->pool : gy_pool_heap();
}

static gy_status take(const gy_session *session, gy_storage_kind kind, size_t size_bytes,
                      void **data)
{
    GY_ASSERT(size_bytes > 0);
    if (kind == GY_STORAGE_DEVICE) {
        gy_device *device = gy_device_lane_device(session->lane);
        return device->ops->take(device, size_bytes, data);
    }
    *data = gy_pool_take(pool_of(session, kind), size_bytes);
    return *data == NULL ? GY_NOMEM : GY_OK;
}

static void give(const gy_session *session, gy_storage_kind kind, void *data)
{
    GY_ASSERT(data != NULL);
    if (kind == GY_STORAGE_DEVICE) {
        gy_device *device = gy_device_lane_device(session->lane);
        device->ops->give(device, data);
    } else {
        gy_pool_give(pool_of(session, kind), data);
    }
}

/* Memory that the session's programs use in turn, this one among them. */
static gy_status share_memory(gy_program *program)
{
    gy_session *session = program->session;
    GY_ASSERT(!program->is_sharing);
    GY_TRY(program->twin != NULL
               ? gy_memory_share_with(program->chunks, &program->twin->memory, &program->memory)
               : gy_memory_share(program->chunks, &program->memory));
    program->is_sharing = true;
    for (size_t i = 0; i < program->chunks->count; i++) {
        gy_memory_chunk *chunk = &program->chunks->list[i];
        if (chunk->size_bytes > 0 && chunk->data == NULL) {
            GY_TRY(take(session, chunk->kind, chunk->size_bytes, &chunk->data));
        }
    }
    return GY_OK;
}

/* What no other program uses is free. */
static void unshare_memory(gy_program *program)
{
    gy_session *session = program->session;
    GY_ASSERT(program->is_sharing);
    gy_memory_unshare(program->chunks, &program->memory);
    for (size_t i = 0; i < program->chunks->count; i++) {
        gy_memory_chunk *chunk = &program->chunks->list[i];
        if (chunk->users == 0) {
            if (chunk->data != NULL) {
                give(session, chunk->kind, chunk->data);
            }
            *chunk = (gy_memory_chunk){.kind = GY_STORAGE_OWN};
        }
    }
}

/* Is it the base's? */
static bool is_borrowed(const gy_program *program, int32_t index)
{
    GY_ASSERT(index >= 0 && index < program->memory.buffer_count);
    GY_ASSERT(program->base == NULL || program->base->base == NULL);
    return program->base != NULL && program->is_passing[index];
}

/* Are they rows of the batch, whose place is each run's? */
static bool has_rows(const gy_program *program, int32_t index)
{
    const gy_storage *storage = &program->memory.buffers[index];
    GY_ASSERT(index >= 0 && index < program->memory.buffer_count);
    if (storage->kind != GY_STORAGE_PARAMETER) {
        return false;
    }
    GY_ASSERT(storage->leaf >= 0);
    const gy_graph_node *leaf = &program->graph->nodes[storage->leaf];
    return gy_graph_has_rows(leaf) && gy_graph_has_batch(leaf);
}

/* Is it the twin's? */
static bool is_twins(const gy_program *program, int32_t index)
{
    GY_ASSERT(program->twin == NULL || program->twin->twin == NULL);
    return program->twin != NULL && program->memory.buffers[index].chunk >= 0;
}

static gy_status bind_storage(gy_program *program, int32_t index)
{
    GY_ASSERT(index >= 0 && index < program->memory.buffer_count);
    GY_ASSERT(program->vars[index] == NULL);
    gy_session *session = program->session;
    const gy_storage *storage = &program->memory.buffers[index];
    const gy_graph_node *leaf =
        storage->leaf >= 0 ? &program->graph->nodes[storage->leaf] : NULL;
    if (is_borrowed(program, index)) {
        program->vars[index] = program->base->vars[index];
        program->data[index] = program->base->data[index];
        return GY_OK;
    }
    if (is_twins(program, index)) {
        program->vars[index] = program->twin->vars[index];
        program->data[index] = program->twin->data[index];
        return GY_OK;
    }
    if (storage->kind == GY_STORAGE_PARAMETER) {
        gy_parameter_slot *slot;
        GY_ASSERT(leaf != NULL);
        GY_ASSERT(leaf->origin >= 0);
        GY_TRY(gy_session_find_slot(session, leaf->origin, &slot));
        if (has_rows(program, index)) { /* of this instance alone while it runs */
            program->data[index] = slot->view.data;
            return gy_var_new(session->engine, &program->vars[index]);
        }
        program->vars[index] = slot->var;
        if (leaf->is_on_device) {
            GY_TRY(gy_device_lane_place(session->lane, slot));
        }
        program->data[index] = leaf->is_on_device ? slot->there : slot->view.data;
        return GY_OK;
    }
    GY_TRY(gy_var_new(session->engine, &program->vars[index]));
    switch (storage->kind) {
    case GY_STORAGE_INPUT:
    case GY_STORAGE_PARAMETER:
        return GY_OK;
    case GY_STORAGE_LITERAL:
        GY_ASSERT(leaf != NULL);
        program->data[index] = gy_tensor_pin(leaf->attributes.literal.tensor).data;
        return GY_OK;
    case GY_STORAGE_OWN:
    case GY_STORAGE_SHARED:
    case GY_STORAGE_DEVICE:
        break;
    }
    if (storage->chunk >= 0) {
        char *chunk = program->chunks->list[storage->chunk].data;
        GY_ASSERT(chunk != NULL);
        program->data[index] = chunk + storage->offset;
        return GY_OK;
    }
    return take(session, storage->kind, GY_MAX(storage->size_bytes, 64), &program->data[index]);
}

static void release_storage(gy_program *program, int32_t index)
{
    GY_ASSERT(index >= 0 && index < program->memory.buffer_count);
    const gy_storage *storage = &program->memory.buffers[index];
    if (is_borrowed(program, index) || is_twins(program, index) ||
        (storage->kind == GY_STORAGE_PARAMETER && !has_rows(program, index))) {
        return;
    }
    gy_var_free(program->vars[index]);
    gy_tensor_drop(program->staging[index]);
    if (program->data[index] == NULL || storage->chunk >= 0) {
        return;
    }
    if (storage->kind == GY_STORAGE_LITERAL) {
        gy_tensor_unpin(program->graph->nodes[storage->leaf].attributes.literal.tensor);
    } else if (storage->kind == GY_STORAGE_OWN || storage->kind == GY_STORAGE_SHARED ||
               storage->kind == GY_STORAGE_DEVICE) {
        give(program->session, storage->kind, program->data[index]);
    }
}

/* ---- steps ---- */

static int32_t storage_of(const gy_program *program, gy_value value)
{
    const int32_t storage = program->memory.of_value[gy_graph_value(program->graph, value)];
    GY_ASSERT(storage >= 0 && storage < program->memory.buffer_count);
    return storage;
}

static void add_var(gy_var **list, size_t *count, gy_var *var)
{
    GY_ASSERT(var != NULL);
    for (size_t i = 0; i < *count; i++) {
        if (list[i] == var) {
            return;
        }
    }
    list[(*count)++] = var;
}

static gy_view bound_view(gy_program *program, gy_value value)
{
    void *data = program->data[storage_of(program, value)];
    return gy_local_view(&program->graph->mesh, gy_graph_type(program->graph, value), data);
}

/* Inputs, outputs, offsets and types of the call, in the program's arena. */
static gy_status fill_call(gy_program *program, gy_program_step *step, int32_t index)
{
    GY_ASSERT(step->node == &program->graph->nodes[index]);
    const gy_graph *graph = program->graph;
    const gy_graph_node *node = step->node;
    const int inputs = node->input_count, outputs = node->output_count;
    const size_t count = (size_t)inputs + (size_t)outputs;
    gy_view *views = gy_arena_alloc(&program->arena, (count + 1) * sizeof(*views));
    gy_type *types = gy_arena_alloc(&program->arena, (count + 1) * sizeof(*types));
    int64_t(*offsets)[GY_TENSOR_RANK_MAX] =
        gy_arena_alloc(&program->arena, (count + 1) * sizeof(*offsets));
    if (views == NULL || types == NULL || offsets == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < inputs + outputs; i++) {
        gy_value value = i < inputs ? node->inputs[i] : (gy_value){index, i - inputs};
        int64_t sizes[GY_TENSOR_RANK_MAX];
        views[i] = bound_view(program, value);
        types[i] = *gy_graph_type(graph, value);
        gy_local_part(&graph->mesh, &types[i], sizes, offsets[i]);
        int32_t storage = storage_of(program, value);
        if (program->memory.buffers[storage].kind == GY_STORAGE_INPUT ||
            has_rows(program, storage)) {
            program->patches[program->patch_count++] = (gy_patch){&views[i], storage};
        }
    }
    typedef const int64_t(*known)[GY_TENSOR_RANK_MAX];
    const bool is_alone = graph->mesh.axes == 1 && graph->mesh.sizes[0] == 1;
    int32_t workspace = program->memory.of_workspace[index];
    GY_ASSERT(workspace < program->memory.buffer_count);
    step->call = (gy_kernel_call){.op = node->op,
                                  .attributes = &node->attributes,
                                  .inputs = views,
                                  .input_count = inputs,
                                  .outputs = views + inputs,
                                  .output_count = outputs,
                                  .input_offsets = is_alone ? NULL : (known)offsets,
                                  .output_offsets = is_alone ? NULL : (known)(offsets + inputs),
                                  .input_types = is_alone ? NULL : types,
                                  .output_types = is_alone ? NULL : types + inputs,
                                  .workspace = workspace >= 0 ? program->data[workspace] : NULL,
                                  .engine = program->session->engine};
    return GY_OK;
}

static gy_status fill_vars(gy_program *program, gy_program_step *step, int32_t index)
{
    GY_ASSERT(step->node == &program->graph->nodes[index]);
    const gy_graph_node *node = step->node;
    const size_t count = (size_t)(node->input_count + node->output_count) + 1;
    step->reads = gy_arena_alloc(&program->arena, count * sizeof(gy_var *));
    step->mutates = gy_arena_alloc(&program->arena, count * sizeof(gy_var *));
    if (step->reads == NULL || step->mutates == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < node->input_count; i++) {
        add_var(step->reads, &step->read_count,
                program->vars[storage_of(program, node->inputs[i])]);
    }
    /* A send's output is nothing: sends that write it would go one after the other. */
    for (int32_t i = 0; i < node->output_count && node->op != &gy_ops_row_send; i++) {
        add_var(step->mutates, &step->mutate_count,
                program->vars[storage_of(program, (gy_value){index, i})]);
    }
    if (program->memory.of_workspace[index] >= 0) {
        add_var(step->mutates, &step->mutate_count,
                program->vars[program->memory.of_workspace[index]]);
    }
    return GY_OK;
}

static void watch(void *arg, int change)
{
    gy_program_step *step = arg;
    GY_ASSERT(change == 1 || change == -1);
    gy_meter *meter = &step->program->session->meter;
    if (step->node->op == &gy_ops_row_receive && change < 0) {
        gy_meter_await(meter, change, step->transfer_ns);
    }
    gy_meter_exchange(meter, step->exchange, &step->span, change,
                      change < 0 ? step->collective->sent_bytes : 0);
    if (step->node->op == &gy_ops_row_receive && change > 0) {
        gy_meter_await(meter, change, step->transfer_ns);
    }
}

static gy_status add_message(gy_program *program, gy_program_step *step)
{
    GY_ASSERT(gy_collective_is_message(step->node->op));
    GY_ASSERT(program->session->mesh.pipe != NULL);
    gy_collective *collective = gy_arena_alloc(&program->arena, sizeof(*collective));
    gy_attributes *attributes = gy_arena_alloc(&program->arena, sizeof(*attributes));
    if (collective == NULL || attributes == NULL) {
        return GY_NOMEM;
    }
    *attributes = step->node->attributes; /* the tag is each micro-batch's */
    step->message = attributes;
    *collective = (gy_collective){.comm = program->session->mesh.pipe,
                                  .op = step->node->op,
                                  .attributes = attributes,
                                  .watch = watch,
                                  .watch_arg = step};
    if (step->node->op == &gy_ops_row_send) {
        collective->input = step->call.inputs[0];
    } else {
        const size_t elements = (size_t)gy_view_count(&step->call.outputs[0]);
        const double bytes = (double)(elements * gy_dtype_bytes(step->call.outputs[0].dtype));
        collective->output = step->call.outputs[0];
        step->transfer_ns = (int64_t)(1e9 * gy_stages_transfer(&program->graph->mesh, bytes));
    }
    step->collective = collective;
    step->exchange = gy_meter_kind(step->node->op, 0);
    return GY_OK;
}

static gy_status add_exchange(gy_program *program, gy_program_step *step)
{
    GY_ASSERT(is_exchange(step->node->op));
    GY_ASSERT(step->call.input_count == 1 && step->call.output_count == 1);
    const gy_graph_node *node = step->node;
    const int axis = node->attributes.move.mesh_axis;
    gy_collective *collective = gy_arena_alloc(&program->arena, sizeof(*collective));
    gy_type *shared = gy_arena_alloc(&program->arena, sizeof(*shared));
    if (collective == NULL || shared == NULL) {
        return GY_NOMEM;
    }
    GY_ASSERT(program->session->comms[axis] != NULL);
    *shared = gy_axis_type(&program->graph->mesh, &node->types[0], axis);
    *collective = (gy_collective){.comm = program->session->comms[axis],
                                  .op = node->op,
                                  .attributes = &node->attributes,
                                  .sizes = shared->sizes,
                                  .input = step->call.inputs[0],
                                  .output = step->call.outputs[0],
                                  .workspace = step->call.workspace,
                                  .watch = watch,
                                  .watch_arg = step};
    GY_TRY(gy_collective_init(collective, &program->arena));
    step->collective = collective;
    step->exchange = gy_meter_kind(node->op, axis);
    program->has_exchanges = true;
    return GY_OK;
}

/* Names in traces outlive the program: operators' names do, those of nodes are kept when
 * traced. */
static const char *trace_name(const gy_graph_node *node)
{
    return gy_trace_on() ? gy_name_keep(node->name) : node->op->name;
}

/* A leaf, a view, or an assignment of a value that was made in the parameter's memory. */
static bool is_nothing(const gy_program *program, const gy_graph_node *node)
{
    return (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) != 0 ||
           (node->op == &gy_ops_row_assign &&
            storage_of(program, node->inputs[0]) == storage_of(program, node->inputs[1]));
}

static gy_status add_step(gy_program *program, int32_t index, const gy_graph_choice *choice)
{
    GY_ASSERT(index >= 0 && index < program->graph->node_count);
    const gy_graph_node *node = &program->graph->nodes[index];
    if (is_nothing(program, node)) {
        return GY_OK;
    }
    gy_program_step *step = &program->steps[program->step_count];
    GY_ASSERT(program->step_count < program->graph->node_count);
    *step = (gy_program_step){.program = program,
                              .node = node,
                              .trace_name = trace_name(node),
                              .root = -1,
                              .kernel = choice->kernel};
    GY_TRY(fill_call(program, step, index));
    GY_TRY(fill_vars(program, step, index));
    if (gy_devices_runs(node)) {
        GY_TRY(gy_device_lane_prepare(program->session->lane, step));
        program->step_count++;
        return GY_OK;
    }
    if (node->op == &gy_ops_row_fill) { /* its memory is its own: filled once */
        return node->op->reference(&step->call);
    }
    if (gy_collective_is_message(node->op)) {
        GY_TRY(add_message(program, step));
    } else if (is_exchange(node->op)) {
        GY_TRY(add_exchange(program, step));
    } else if (choice->kernel != NULL && choice->kernel->prepare != NULL) {
        gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
        gy_kernel_query query = gy_graph_query(
            program->graph, index, gy_engine_workers(program->session->engine), views);
        GY_TRY(choice->kernel->prepare(&query, &step->state));
        step->call.state = step->state;
    } else if (choice->kernel == NULL && node->op->reference == NULL) {
        return gy_fail(GY_UNSUPPORTED, "node %s: no kernel runs %s on these sizes and types",
                       node->name, node->op->name);
    }
    program->step_count++;
    return GY_OK;
}

/* ---- the whole ---- */

static gy_status set_priorities(gy_program *program)
{
    const gy_graph *graph = program->graph;
    int32_t *priorities =
        gy_alloc("graph.program", ((size_t)graph->node_count + 1) * sizeof(*priorities));
    if (priorities == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_graph_prioritize(graph, priorities);
    for (int32_t i = 0; i < program->step_count && status >= 0; i++) {
        program->steps[i].priority = priorities[program->steps[i].node - graph->nodes];
    }
    gy_free(priorities);
    return status;
}

/* A fetch is there once the last step that writes its memory has ended: nothing reuses the
 * memory of a fetch. Of exchanges, whose end no task of the program sees, the run's end tells.
 */
static void find_roots(gy_program *program)
{
    const gy_graph *graph = program->graph;
    for (int32_t r = 0; r < graph->root_count; r++) {
        const gy_value value = graph->roots[r].value;
        program->next_root[r] = -1;
        if (graph->roots[r].is_elsewhere ||
            gy_graph_at(graph, value)->op == &gy_ops_row_assign) {
            continue;
        }
        const int32_t storage = storage_of(program, value);
        gy_program_step *last = NULL;
        for (int32_t i = 0; i < program->step_count; i++) {
            gy_program_step *step = &program->steps[i];
            const int32_t node = (int32_t)(step->node - graph->nodes);
            for (int32_t k = 0; k < step->node->output_count; k++) {
                last = storage_of(program, (gy_value){node, k}) == storage ? step : last;
            }
        }
        if (last != NULL && last->collective == NULL) {
            program->next_root[r] = last->root;
            last->root = r;
        }
    }
}

static gy_status find_passing(gy_program *program)
{
    const size_t storages = (size_t)program->memory.buffer_count;
    program->is_passing = gy_arena_alloc(&program->arena, storages + 1);
    if (program->is_passing == NULL) {
        return GY_NOMEM;
    }
    gy_pipe_find_passing(program->graph, program->segments, &program->memory,
                         program->is_passing);
    return GY_OK;
}

static gy_status add_all(gy_program *program, const gy_graph_choice *choices)
{
    const gy_graph *graph = program->graph;
    const int32_t nodes = graph->node_count;
    int32_t segment = 0;
    program->segment_count =
        program->segments == NULL || nodes == 0 ? 1 : program->segments[nodes - 1] + 1;
    const size_t ends = (size_t)program->segment_count + 1;
    program->first = gy_arena_alloc(&program->arena, ends * sizeof(int32_t));
    if (program->first == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < nodes; i++) {
        while (program->segments != NULL && segment < program->segments[i]) {
            program->first[++segment] = program->step_count;
        }
        GY_TRY(add_step(program, i, &choices[i]));
    }
    while (segment < program->segment_count) {
        program->first[++segment] = program->step_count;
    }
    return GY_OK;
}

static gy_status add_steps(gy_program *program)
{
    GY_ASSERT(program->step_count == 0 && program->steps == NULL);
    const gy_graph *graph = program->graph;
    const size_t nodes = (size_t)graph->node_count;
    gy_graph_choice *choices = gy_arena_alloc(&program->arena, (nodes + 1) * sizeof(*choices));
    if (choices == NULL) {
        return GY_NOMEM;
    }
    const int workers = gy_engine_workers(program->session->engine);
    gy_choose_kernels(graph, workers, choices);
    GY_TRY(gy_plan_memory(graph, choices,
                          (program->session->skip & GY_SKIP_SHARING) != 0 ? 0 : workers,
                          &program->memory));
    if (find_passing(program) < 0) {
        program->memory.buffer_count = 0; /* nothing to release */
        return GY_NOMEM;
    }
    const size_t storages = (size_t)program->memory.buffer_count;
    GY_ASSERT(program->graph->is_placed);
    size_t views = 0;
    for (size_t i = 0; i < nodes; i++) {
        views += (size_t)(graph->nodes[i].input_count + graph->nodes[i].output_count);
    }
    program->data = gy_arena_alloc(&program->arena, (storages + 1) * sizeof(void *));
    program->vars = gy_arena_alloc(&program->arena, (storages + 1) * sizeof(gy_var *));
    program->steps = gy_arena_alloc(&program->arena, (nodes + 1) * sizeof(*program->steps));
    program->patches = gy_arena_alloc(&program->arena, (views + 1) * sizeof(gy_patch));
    program->fed = gy_arena_alloc(&program->arena, (storages + 1) * sizeof(gy_tensor *));
    program->staging = gy_arena_alloc(&program->arena, (storages + 1) * sizeof(gy_tensor *));
    if (program->fed == NULL || program->staging == NULL || program->data == NULL ||
        program->vars == NULL || program->steps == NULL || program->patches == NULL) {
        program->memory.buffer_count = 0; /* nothing to release */
        return GY_NOMEM;
    }
    GY_TRY(share_memory(program));
    for (size_t i = 0; i < storages; i++) {
        GY_TRY(bind_storage(program, (int32_t)i));
    }
    GY_TRY(add_all(program, choices));
    find_roots(program);
    GY_TRY(set_priorities(program));
    GY_TRY(gy_device_group_steps(program));
    return gy_scope_new(program->session->engine, GY_NEVER, &program->scope);
}

/* The arrays of a run's fetches. */
static gy_status add_fetches(gy_program *program, const gy_planned_run *run)
{
    const size_t count = (size_t)run->fetch_count, roots = count + 1;
    GY_ASSERT(run->fetch_count >= 0);
    GY_ASSERT(program->fetches == NULL);
    program->batch = run->batch;
    program->loss = run->loss;
    program->fetch_count = run->fetch_count;
    program->fetches = gy_arena_alloc(&program->arena, roots * sizeof(*run->fetches));
    program->results = gy_arena_alloc(&program->arena, roots * sizeof(gy_tensor *));
    program->next_root = gy_arena_alloc(&program->arena, roots * sizeof(int32_t));
    program->is_told = gy_arena_alloc(&program->arena, roots * sizeof(bool));
    program->is_taken = gy_arena_alloc(&program->arena, roots * sizeof(bool));
    if (program->fetches == NULL || program->results == NULL || program->next_root == NULL ||
        program->is_told == NULL || program->is_taken == NULL) {
        return GY_NOMEM;
    }
    memcpy(program->fetches, run->fetches, count * sizeof(*run->fetches));
    return GY_OK;
}

gy_status gy_program_make(gy_session *session, const gy_program_source *source,
                          gy_program **out)
{
    GY_ASSERT(source->run.batch > 0 && source->run.fetch_count >= 0);
    GY_ASSERT((source->base == NULL) == (source->graph != NULL));
    gy_program *program = gy_alloc_zero("graph.program", 1, sizeof(*program));
    if (program == NULL) {
        return GY_NOMEM;
    }
    program->session = session;
    program->base = source->base;
    program->twin = source->twin;
    program->chunks = source->chunks;
    program->graph = source->base != NULL ? source->base->graph : source->graph;
    program->segments = source->base != NULL ? source->base->segments : source->segments;
    program->has_exchanges = session->mesh.stages > 1;
    gy_status status = add_fetches(program, &source->run);
    status = status >= 0 ? add_steps(program) : status;
    gy_session_keep_narrowed(session, program->graph);
    if (status >= 0 && program->graph->device != NULL) {
        status = gy_session_keep_homes(session, program->graph);
    }
    if (status < 0) {
        gy_error error; /* freeing may fail nothing, yet keep the text */
        gy_error_take(&error, status);
        program->is_lent = true;
        gy_program_free(program);
        return gy_error_raise(&error);
    }
    GY_ASSERT(program->graph->root_count == source->run.fetch_count && program->scope != NULL);
    *out = program;
    return GY_OK;
}

gy_status gy_program_new(gy_session *session, int64_t batch, const gy_value *fetches,
                         int fetch_count, gy_program **out)
{
    gy_program_source source = {
        .run = {.batch = batch, .fetches = fetches, .fetch_count = fetch_count},
        .chunks = &session->chunks};
    GY_TRY(gy_session_find_homes(session, &source.run));
    GY_TRY(gy_session_compile(session, &session->mesh, &source.run, NULL, &source.graph));
    gy_status status = gy_program_make(session, &source, out);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_graph_free(source.graph);
        return gy_error_raise(&error);
    }
    return GY_OK;
}

void gy_program_free(gy_program *program)
{
    if (program == NULL) {
        return;
    }
    gy_scope_free(program->scope);
    for (int32_t i = 0; i < program->memory.buffer_count; i++) {
        release_storage(program, i);
    }
    for (int32_t i = 0; i < program->step_count; i++) {
        gy_program_step *step = &program->steps[i];
        if (step->state != NULL && step->kernel == NULL) {
            gy_device *device = gy_device_lane_device(program->session->lane);
            device->ops->release(device, step->state);
        } else if (step->state != NULL && step->kernel->release != NULL) {
            step->kernel->release(step->state);
        }
    }
    if (program->is_sharing) {
        unshare_memory(program);
    }
    gy_memory_plan_free(&program->memory);
    if (program->base == NULL && !program->is_lent) {
        gy_graph_free(program->graph);
        gy_free(program->segments);
    }
    gy_arena_free(&program->arena);
    gy_free(program);
}
