/*
 * What each rank keeps of a model's parameters and of what an update keeps for them, along the
 * data axis: the stages of ZeRO as pins. Stage 1 cuts the optimizer's state, 2 the sums of
 * gradients as well, 3 the parameters as well. Below stage 2 a sum of gradients is Partial:
 * each rank adds up its own rows, and one exchange an update completes the sum, however many
 * batches it is of.
 *
 * @source Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static gy_graph_node *node_of(const gy_model *model, const gy_train_slot *slot)
{
    GY_ASSERT(slot->node.index >= 0);
    return &model->graph->nodes[slot->node.index];
}

/* Does another axis than `data` cut the dimension? */
static bool is_taken(const gy_graph_node *node, int dim)
{
    for (int kind = 0; kind < GY_AXIS_KINDS; kind++) {
        if (kind != GY_AXIS_DATA && node->pins[kind].kind == GY_SHARD &&
            node->pins[kind].dim == dim) {
            return true;
        }
    }
    return false;
}

/* The first dimension where it has a row for each rank, for its parts are not packed; else the
 * largest one that no other axis cuts; whole where none has as many. */
static gy_placement cut_of(const gy_graph_node *node, int ranks)
{
    const gy_type *type = &node->types[0];
    int best = -1;
    for (int dim = 0; dim < type->rank; dim++) {
        if (!is_taken(node, dim) &&
            (best < 0 || (type->sizes[best] < ranks && type->sizes[dim] > type->sizes[best]))) {
            best = dim;
        }
    }
    return best < 0 || type->sizes[best] < ranks
               ? (gy_placement){.kind = GY_REPLICATE}
               : (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)best};
}

static bool is_gradient_sum(const gy_train_slot *slot)
{
    const char *end = strrchr(slot->name, '/');
    return slot->kind == GY_SLOT_STATE && end != NULL && strcmp(end, "/" GY_TRAIN_SUM) == 0;
}

static gy_placement placement_of(const gy_model *model, const gy_train_slot *slot, int stage)
{
    const int first_stage = is_gradient_sum(slot)             ? 2
                            : slot->kind == GY_SLOT_STATE     ? 1
                            : slot->kind == GY_SLOT_PARAMETER ? 3
                                                              : GY_TRAIN_ZERO_MAX + 1;
    if (stage >= first_stage) {
        return cut_of(node_of(model, slot), gy_model_row_ranks(model));
    }
    return is_gradient_sum(slot) ? (gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM}
                                 : (gy_placement){.kind = GY_REPLICATE};
}

gy_status gy_train_slots_outline(const gy_model *model, bool has_state, gy_bundle *bundle)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        const gy_type *type = &node_of(model, slot)->types[0];
        if (slot->kind != GY_SLOT_STATE || has_state) {
            GY_TRY(gy_bundle_outline(bundle, slot->name, type->dtype, type->sizes, type->rank));
        }
    }
    return GY_OK;
}

/* Does the pattern name the slot, or the parameter that it is state of? */
static bool is_named(const char *pattern, const gy_train_slot *slot)
{
    char name[GY_TRAIN_NAME_BYTES];
    snprintf(name, sizeof(name), "%s", slot->name);
    char *state = slot->kind == GY_SLOT_STATE ? strrchr(name, '/') : NULL;
    if (state != NULL) {
        *state = '\0';
    }
    return fnmatch(pattern, name, 0) == 0;
}

static gy_status apply(const gy_model *model, const gy_parameter_pin *pin)
{
    const gy_mesh mesh = model->mesh != NULL ? *model->mesh : gy_mesh_line(model->comm);
    const int ranks = gy_mesh_size(&mesh, gy_mesh_find(&mesh, pin->axis));
    int found = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if (is_named(pin->name, slot)) {
            GY_TRY(gy_pin(slot->node, pin->axis, pin->placement));
            GY_TRY(model->build == gy_train_gpt_build
                       ? gy_train_gpt_check_pin(model, slot->name, pin, ranks)
                       : GY_OK);
            found++;
        }
    }
    return found > 0
               ? GY_OK
               : gy_fail(GY_ARG, "pin: model %s has no parameter '%s'", model->name, pin->name);
}

/* Has this rank a part of the slot? */
static bool is_part(const gy_model *model, const gy_train_slot *slot)
{
    const gy_mesh mesh = model->mesh != NULL ? *model->mesh : gy_mesh_line(model->comm);
    const gy_type type = gy_graph_parameter_type(&mesh, node_of(model, slot));
    for (int axis = 0; axis < mesh.axes; axis++) {
        if (type.placement[axis].kind != GY_REPLICATE) {
            return true;
        }
    }
    return false;
}

gy_status gy_train_pin_slots(gy_model *model, const gy_train_options *options)
{
    GY_ASSERT(options->zero >= 0);
    GY_ASSERT(options->zero <= GY_TRAIN_ZERO_MAX);
    model->is_sharded = false;
    for (int i = 0; i < options->pin_count; i++) {
        GY_TRY(apply(model, &options->pins[i]));
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if (node_of(model, slot)->pins[GY_AXIS_DATA].kind == GY_REPLICATE) {
            GY_TRY(gy_pin(slot->node, "data", placement_of(model, slot, options->zero)));
        }
    }
    return GY_OK;
}

gy_status gy_train_decide_slots(gy_model *model, const gy_train_options *options)
{
    GY_ASSERT(model->session != NULL && model->update.fetch_count > 0);
    GY_TRY(gy_session_decide(model->session, options->batch, model->update.fetches,
                             model->update.fetch_count));
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        model->is_sharded =
            model->is_sharded || (slot->kind != GY_SLOT_STATE && is_part(model, slot));
    }
    return GY_OK;
}

bool gy_model_is_sharded(const gy_model *model)
{
    return model->is_sharded;
}
