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

#include <string.h>

static const gy_type *type_of_slot(const gy_model *model, const gy_train_slot *slot)
{
    return gy_graph_type(model->graph, (gy_value){slot->node.index, slot->node.output});
}

/* The first dimension where it has a row for each rank, for its parts are not packed; else the
 * largest one; whole where none has as many. */
static gy_placement cut_of(const gy_type *type, int ranks)
{
    int best = 0;
    if (type->rank == 0) {
        return (gy_placement){.kind = GY_REPLICATE};
    }
    for (int dim = 1; type->sizes[0] < ranks && dim < type->rank; dim++) {
        best = type->sizes[dim] > type->sizes[best] ? dim : best;
    }
    return type->sizes[best] < ranks ? (gy_placement){.kind = GY_REPLICATE}
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
        return cut_of(type_of_slot(model, slot), gy_model_row_ranks(model));
    }
    return is_gradient_sum(slot) ? (gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM}
                                 : (gy_placement){.kind = GY_REPLICATE};
}

gy_status gy_train_slots_gather(gy_model *model, bool has_state, gy_bundle *bundle)
{
    gy_status first = GY_OK;
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        gy_tensor *whole = NULL;
        if (slot->kind == GY_SLOT_STATE && !has_state) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, slot->name, &whole));
        if (bundle != NULL && first == GY_OK) {
            first = gy_bundle_add(bundle, slot->name, whole);
        }
        gy_tensor_drop(whole);
    }
    return first;
}

gy_status gy_train_pin(gy_model *model, int stage)
{
    GY_ASSERT(stage >= 0);
    GY_ASSERT(stage <= GY_TRAIN_ZERO_MAX);
    model->is_spread = false;
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        const gy_placement placement = placement_of(model, slot, stage);
        GY_TRY(gy_pin(slot->node, "data", placement));
        model->is_spread =
            model->is_spread || (slot->kind != GY_SLOT_STATE && placement.kind == GY_SHARD &&
                                 gy_model_row_ranks(model) > 1);
    }
    return GY_OK;
}
