/*
 * The parameters of a session: made at their first use, each rank its part of those that are
 * pinned; gathered whole and set from the whole.
 */
#include "graph/session.h"
#include "tensor/tensor.h"

#include <string.h>

void gy_session_set_fill(gy_session *session, gy_session_fill fill, void *arg)
{
    GY_ASSERT(session != NULL);
    session->fill = fill;
    session->fill_arg = arg;
}

static gy_status fill(gy_session *session, const gy_graph_node *node, const gy_type *type,
                      const int64_t *offsets, gy_tensor *tensor)
{
    GY_ASSERT(node->name != NULL);
    gy_status status = GY_AGAIN;
    if (session->fill != NULL) {
        status = session->fill(session->fill_arg, node->name, offsets, tensor);
    }
    return status == GY_AGAIN ? gy_init_fill(session, node, type, offsets, tensor) : status;
}

/* ---- which stages keep it ---- */

bool gy_session_keeps(const gy_session *session, int32_t index)
{
    GY_ASSERT(index >= 0 && index < session->graph->node_count);
    const uint64_t homes = session->graph->nodes[index].homes;
    return session->mesh.stages <= 1 || homes == 0 ||
           (homes & gy_mesh_stages_of(&session->mesh, session->mesh.stage)) != 0;
}

/* A parameter without a home that the fetches need? */
static bool has_homeless(const gy_graph *bound)
{
    GY_ASSERT(bound->batch > 0);
    for (int32_t i = 0; i < bound->node_count; i++) {
        if (bound->nodes[i].op == &gy_ops_row_parameter && bound->nodes[i].homes == 0) {
            return true;
        }
    }
    return false;
}

gy_status gy_session_find_homes(gy_session *session, const gy_planned_run *run)
{
    gy_graph *bound = NULL, *scheduled = NULL;
    if (session->mesh.stages <= 1) {
        return GY_OK;
    }
    GY_TRY(gy_bind(session->graph, &session->mesh, run->batch, run->fetches, run->fetch_count,
                   &bound));
    gy_status status = GY_OK;
    if (has_homeless(bound)) {
        status =
            gy_graph_compile_placed(bound, session->skip, GY_COMPILE_SCHEDULED, &scheduled);
        status = status >= 0 ? gy_stages_keep(scheduled, session->graph) : status;
    }
    gy_graph_free(scheduled);
    gy_graph_free(bound);
    return status;
}

gy_status gy_session_slot(gy_session *session, int32_t index, const gy_parameter_slot **slot)
{
    gy_parameter_slot *found = NULL;
    GY_TRY(gy_session_find_slot(session, index, &found));
    *slot = found;
    return gy_device_lane_bring(session->lane, found);
}

gy_status gy_session_find_slot(gy_session *session, int32_t index, gy_parameter_slot **slot)
{
    GY_ASSERT(index >= 0 && index < session->graph->node_count);
    for (size_t i = 0; i < session->parameter_count; i++) {
        if (session->parameters[i].node == index) {
            *slot = &session->parameters[i];
            return GY_OK;
        }
    }
    const gy_graph_node *node = &session->graph->nodes[index];
    GY_ASSERT(node->op == &gy_ops_row_parameter && node->init != NULL);
    GY_TRY(GY_GROW("graph.parameters", session->parameters, session->parameter_capacity,
                   session->parameter_count + 1));
    gy_tensor *tensor;
    const gy_type type = gy_graph_parameter_type(&session->mesh, node);
    int64_t sizes[GY_TENSOR_RANK_MAX], offsets[GY_TENSOR_RANK_MAX];
    gy_local_part(&session->mesh, &type, sizes, offsets);
    gy_var *var = NULL;
    GY_TRY(gy_tensor_new(session->pool, type.dtype, sizes, type.rank, &tensor));
    gy_status status = fill(session, node, &type, offsets, tensor);
    status = status >= 0 ? gy_var_new(session->engine, &var) : status;
    if (status < 0) {
        gy_tensor_drop(tensor);
        return status;
    }
    gy_parameter_slot *made = &session->parameters[session->parameter_count++];
    *made = (gy_parameter_slot){.node = index,
                                .name = node->name,
                                .tensor = tensor,
                                .view = gy_tensor_pin(tensor),
                                .var = var};
    GY_ASSERT(made->view.rank == type.rank);
    *slot = made;
    return GY_OK;
}

gy_tensor *gy_session_made(gy_session *session, const char *name)
{
    GY_ASSERT(name != NULL);
    for (size_t i = 0; i < session->parameter_count; i++) {
        if (strcmp(session->parameters[i].name, name) == 0) {
            return session->parameters[i].tensor;
        }
    }
    return NULL;
}

/* The node of that name in the user's graph. */
static gy_status find_parameter(const gy_session *session, const char *name, int32_t *index)
{
    GY_ASSERT(name != NULL);
    for (int32_t i = 0; i < session->graph->node_count; i++) {
        const gy_graph_node *node = &session->graph->nodes[i];
        if (node->op == &gy_ops_row_parameter && strcmp(node->name, name) == 0) {
            *index = i;
            return GY_OK;
        }
    }
    return gy_fail(GY_NOTFOUND, "no parameter %s", name);
}

gy_tensor *gy_session_parameter(gy_session *session, const char *name)
{
    int32_t index = -1;
    const gy_parameter_slot *slot = NULL;
    return find_parameter(session, name, &index) < 0 || !gy_session_keeps(session, index) ||
                   gy_session_slot(session, index, &slot) < 0
               ? NULL
               : slot->tensor;
}

bool gy_session_is_elsewhere(const gy_session *session, const char *name)
{
    int32_t index = -1;
    GY_ASSERT(name != NULL);
    return find_parameter(session, name, &index) == GY_OK && !gy_session_keeps(session, index);
}

bool gy_session_has(gy_session *session, const char *name)
{
    int32_t index = -1;
    GY_ASSERT(name != NULL);
    return gy_session_made(session, name) != NULL ||
           (find_parameter(session, name, &index) == GY_OK &&
            session->graph->nodes[index].homes != 0);
}

gy_status gy_session_part_of(gy_session *session, const char *name, gy_session_part *part)
{
    GY_ASSERT(part != NULL);
    int32_t index = -1;
    const gy_parameter_slot *slot = NULL;
    int64_t sizes[GY_TENSOR_RANK_MAX];
    GY_TRY(find_parameter(session, name, &index));
    *part = (gy_session_part){.mesh = &session->mesh, .replicas = 1};
    part->type = gy_graph_parameter_type(&session->mesh, &session->graph->nodes[index]);
    part->has_rows = gy_graph_has_rows(&session->graph->nodes[index]);
    part->is_elsewhere = !gy_session_keeps(session, index);
    if (part->is_elsewhere) {
        return GY_OK;
    }
    GY_TRY(gy_session_slot(session, index, &slot));
    const uint64_t homes = session->graph->nodes[index].homes;
    if (homes != 0) {
        part->replicas = part->replica = 0;
        for (int rank = 0; rank < session->mesh.stages; rank++) {
            const bool keeps = (homes & gy_mesh_stages_of(&session->mesh, rank)) != 0;
            part->replicas += keeps ? 1 : 0;
            part->replica += keeps && rank < session->mesh.stage ? 1 : 0;
        }
    } else if (session->mesh.stages > 1) { /* each stage has made it alike */
        part->replicas = session->mesh.stages;
        part->replica = session->mesh.stage;
    }
    part->view = slot->view;
    gy_local_part(&session->mesh, &part->type, sizes, part->offsets);
    GY_ASSERT(gy_view_is_contiguous(&part->view));
    return GY_OK;
}

static bool is_whole(const gy_session *session, const gy_type *type)
{
    GY_ASSERT(session->mesh.axes >= 1);
    for (int axis = 0; axis < session->mesh.axes; axis++) {
        if (type->placement[axis].kind != GY_REPLICATE) {
            return false;
        }
    }
    return true;
}

gy_status gy_session_gather(gy_session *session, const char *name, gy_tensor **whole)
{
    GY_ASSERT(whole != NULL);
    int32_t index = -1;
    const gy_parameter_slot *slot = NULL;
    GY_TRY(find_parameter(session, name, &index));
    const bool is_cut = session->mesh.stages > 1 && session->graph->nodes[index].homes != 0;
    if (!is_cut) {
        GY_TRY(gy_session_slot(session, index, &slot));
    }
    const gy_type type = gy_graph_parameter_type(&session->mesh, &session->graph->nodes[index]);
    if (!is_cut && is_whole(session, &type)) {
        *whole = gy_tensor_hold(slot->tensor);
        return GY_OK;
    }
    /* A run that fetches it alone, which the placement pass completes. */
    gy_program *program = NULL;
    const gy_value fetch = {index, 0};
    gy_status status = gy_program_new(session, 1, &fetch, 1, &program);
    if (status < 0) {
        return gy_session_refuse(session, status);
    }
    GY_ASSERT(program->fetch_count == 1);
    status = gy_program_run(program, &(gy_micro_batch){.feeds = NULL}, whole);
    gy_error error;
    gy_error_take(&error, status);
    gy_program_free(program);
    return gy_error_raise(&error);
}

gy_status gy_session_scatter(gy_session *session, const char *name, gy_tensor *whole)
{
    GY_ASSERT(whole != NULL);
    int32_t index = -1;
    const gy_parameter_slot *slot = NULL;
    GY_TRY(find_parameter(session, name, &index));
    if (!gy_session_keeps(session, index)) {
        return GY_OK;
    }
    GY_TRY(gy_session_slot(session, index, &slot));
    const gy_mesh *mesh = &session->mesh;
    const gy_type type = gy_graph_parameter_type(mesh, &session->graph->nodes[index]);
    if (gy_graph_has_rows(&session->graph->nodes[index])) {
        return gy_fail(GY_ARG, "%s has rows of the batch, which runs and files give it", name);
    }
    int64_t sizes[GY_TENSOR_RANK_MAX], offsets[GY_TENSOR_RANK_MAX];
    gy_local_part(mesh, &type, sizes, offsets);
    gy_view from = gy_tensor_pin(whole);
    const gy_view all = gy_view_of(NULL, type.dtype, type.sizes, type.rank);
    if (from.dtype != type.dtype || !gy_view_same_shape(&from, &all)) {
        char texts[2][GY_SHAPE_TEXT_BYTES];
        gy_tensor_unpin(whole);
        return gy_fail(from.dtype != type.dtype ? GY_TYPE : GY_SHAPE,
                       "parameter %s is %s of %s, not %s of %s", name,
                       gy_dtype_name(type.dtype), gy_view_text(&all, texts[0]),
                       gy_dtype_name(from.dtype), gy_view_text(&from, texts[1]));
    }
    for (int dim = 0; dim < type.rank; dim++) {
        from = gy_view_cut(&from, dim, offsets[dim], sizes[dim], 1);
    }
    gy_view to = slot->view;
    GY_ASSERT(from.rank == to.rank);
    gy_status status = gy_view_copy(&to, &from);
    gy_tensor_unpin(whole);
    for (int axis = 0; axis < mesh->axes; axis++) { /* the summands of the others are zero */
        if (type.placement[axis].kind == GY_PARTIAL && mesh->coordinates[axis] > 0) {
            memset(slot->view.data, 0,
                   (size_t)gy_view_count(&slot->view) * gy_dtype_bytes(type.dtype));
        }
    }
    return status;
}

/* May the node's value be kept so, whatever the axis? */
static gy_status check_pin(const gy_graph_node *node, int output, gy_placement placement)
{
    GY_ASSERT(node->output_count >= 1);
    char text[160];
    if ((node->op->flags & GY_OP_EFFECT) != 0) {
        return gy_fail(GY_ARG, "pin of %s: it is an effect, pin the parameter", node->name);
    }
    if (output != 0) {
        return gy_fail(GY_ARG, "pin of %s: its value %d, expected the first one", node->name,
                       output);
    }
    if (placement.kind == GY_SHARD &&
        (placement.dim >= node->types[0].rank || placement.bounds != GY_BOUNDS_EVEN)) {
        return gy_fail(GY_ARG, "pin of %s, %s: cannot cut dimension %d", node->name,
                       gy_type_text(&node->types[0], text), placement.dim);
    }
    if (placement.kind == GY_PARTIAL && node->op == &gy_ops_row_parameter &&
        (placement.reduction != GY_SUM || node->init->kind != GY_INIT_ZEROS)) {
        return gy_fail(GY_ARG, "pin of %s: a Partial is a sum that begins with zeros",
                       node->name);
    }
    return GY_OK;
}

gy_status gy_pin(gy_node pinned, const char *axis, gy_placement placement)
{
    GY_ASSERT(axis != NULL);
    GY_TRY(gy_graph_status(pinned.graph));
    gy_graph_node *node = &pinned.graph->nodes[pinned.index];
    gy_axis_kind kind = GY_AXIS_DATA;
    GY_TRY(gy_mesh_kind_parse(axis, &kind));
    GY_TRY(check_pin(node, pinned.output, placement));
    for (int other = 0; placement.kind == GY_SHARD && other < GY_AXIS_KINDS; other++) {
        if (other != (int)kind && node->pins[other].kind == GY_SHARD &&
            node->pins[other].dim == placement.dim) {
            return gy_fail(GY_ARG, "pin of %s: two axes cut dimension %d", node->name,
                           placement.dim);
        }
    }
    GY_ASSERT(kind < GY_AXIS_KINDS);
    node->pins[kind] = placement;
    node->pinned_kinds |= (uint8_t)(1u << kind);
    return GY_OK;
}

/* ---- where parameters live, decided by a program ---- */

/* Axes along which a parameter may be cut: neither data nor pinned, and it has no value yet. */
static uint8_t free_axes(const gy_session *session, int32_t index)
{
    const gy_graph_node *node = &session->graph->nodes[index];
    uint8_t axes = 0;
    GY_ASSERT(node->op == &gy_ops_row_parameter);
    for (size_t i = 0; i < session->parameter_count; i++) {
        if (session->parameters[i].node == index) {
            return 0;
        }
    }
    for (int axis = 0; axis < session->mesh.axes; axis++) {
        const gy_axis_kind kind = session->mesh.kinds[axis];
        if (session->mesh.sizes[axis] > 1 && kind != GY_AXIS_DATA &&
            (node->pinned_kinds >> kind & 1) == 0) {
            axes |= (uint8_t)(1u << axis);
        }
    }
    return axes;
}

static void keep_placements(const gy_session *session, const gy_graph *placed)
{
    GY_ASSERT(placed->is_placed);
    for (int32_t i = 0; i < placed->node_count; i++) {
        const gy_graph_node *node = &placed->nodes[i];
        for (int axis = 0; axis < session->mesh.axes; axis++) {
            if (node->op == &gy_ops_row_parameter &&
                (node->attributes.shape.free_axes >> axis & 1) != 0) {
                GY_ASSERT(node->origin >= 0);
                session->graph->nodes[node->origin].pins[session->mesh.kinds[axis]] =
                    node->types[0].placement[axis];
            }
        }
    }
}

/* What an earlier program decided for them is forgotten. */
static void forget_decided(const gy_session *session)
{
    gy_graph *graph = session->graph;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const bool is_parameter = graph->nodes[i].op == &gy_ops_row_parameter;
        const uint8_t axes = is_parameter ? free_axes(session, i) : 0;
        for (int axis = 0; axis < session->mesh.axes; axis++) {
            if ((axes >> axis & 1) != 0) {
                GY_ASSERT(session->mesh.kinds[axis] < GY_AXIS_KINDS);
                graph->nodes[i].pins[session->mesh.kinds[axis]] =
                    (gy_placement){.kind = GY_REPLICATE};
            }
        }
    }
}

/* Is there an axis along which a program may decide? */
static bool has_free_axis(const gy_mesh *mesh)
{
    GY_ASSERT(mesh->axes >= 1 && mesh->axes <= GY_MESH_MAX);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->sizes[axis] > 1 && mesh->kinds[axis] != GY_AXIS_DATA) {
            return true;
        }
    }
    return false;
}

void gy_session_price_memory(gy_session *session, double byte_s)
{
    GY_ASSERT(byte_s >= 0);
    GY_ASSERT(session->program_count == 0);
    session->mesh.byte_s = byte_s;
}

double gy_session_memory_price(const gy_session *session)
{
    GY_ASSERT(session->mesh.byte_s >= 0);
    return session->mesh.byte_s;
}

gy_status gy_session_decide(gy_session *session, int64_t batch, const gy_node *fetches,
                            int fetch_count)
{
    if (fetch_count < 0 || batch < 1) {
        return gy_fail(GY_ARG, "fetches %d, batch %lld, expected 0 and 1 at least", fetch_count,
                       (long long)batch);
    }
    if (!has_free_axis(&session->mesh) && session->mesh.stages <= 1) {
        return GY_OK;
    }
    gy_value *values = gy_alloc("graph.fetches", ((size_t)fetch_count + 1) * sizeof(*values));
    gy_graph *bound = NULL, *placed = NULL;
    gy_status status = values == NULL ? GY_NOMEM : GY_OK;
    status = status >= 0 ? gy_session_fetches(session, fetches, fetch_count, values) : status;
    if (status >= 0) {
        forget_decided(session);
        status = gy_bind(session->graph, &session->mesh, batch, values, fetch_count, &bound);
    }
    uint8_t all = 0;
    for (int32_t i = 0; status >= 0 && i < bound->node_count; i++) {
        gy_graph_node *node = &bound->nodes[i];
        if (node->op == &gy_ops_row_parameter) {
            node->attributes.shape.free_axes = free_axes(session, node->origin);
            all |= node->attributes.shape.free_axes;
        }
    }
    if (status >= 0 && all != 0) {
        status = gy_graph_compile_placed(bound, session->skip, GY_COMPILE_PLACED, &placed);
    }
    if (placed != NULL) {
        keep_placements(session, placed);
    }
    if (status >= 0) {
        const gy_planned_run run = {
            .batch = batch, .fetches = values, .fetch_count = fetch_count};
        status = gy_session_find_homes(session, &run);
    }
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_free(values);
    return status < 0 ? gy_session_refuse(session, status) : GY_OK;
}
