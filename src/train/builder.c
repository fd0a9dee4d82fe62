/**
 * What a model's function builds with: parameters by name, the same ones in each form.
 */
#include "base/text.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <string.h>

static gy_node failed(gy_model_builder *builder, gy_status status)
{
    gy_graph *graph = builder->model->graph;
    gy_graph_fail(graph, status, NULL);
    return (gy_node){.graph = graph, .index = -1};
}

bool gy_train_builder_is_frozen(const gy_model_builder *builder)
{
    GY_ASSERT(builder->layer < builder->model->layer_count);
    return builder->layer >= 0 && builder->model->is_frozen[builder->layer];
}

/* A slot that is named again must be meant alike. */
static gy_node found(gy_model_builder *builder, const gy_train_slot *slot, const int64_t *sizes,
                     int rank)
{
    const gy_type *type =
        gy_graph_type(builder->model->graph, (gy_value){slot->node.index, slot->node.output});
    bool fits = type->rank == rank;
    for (int i = 0; fits && i < rank; i++) {
        fits = type->sizes[i] == sizes[i];
    }
    if (!fits) {
        char has[GY_SHAPE_TEXT_BYTES], wanted[GY_SHAPE_TEXT_BYTES];
        return failed(builder,
                      gy_fail(GY_SHAPE, "parameter %s has sizes %s and is named again with %s",
                              slot->name, gy_shape_text(type->sizes, type->rank, has),
                              gy_shape_text(sizes, rank, wanted)));
    }
    return slot->node;
}

gy_node gy_train_builder_slot(gy_model_builder *builder, const char *name, const int64_t *sizes,
                              int rank, gy_init init, gy_train_slot_kind kind)
{
    gy_model *model = builder->model;
    for (size_t i = 0; i < model->slot_count; i++) {
        if (strcmp(model->slots[i].name, name) == 0) {
            return found(builder, &model->slots[i], sizes, rank);
        }
    }
    const bool is_frozen = kind == GY_SLOT_PARAMETER && gy_train_builder_is_frozen(builder);
    return gy_model_slot(model, name, sizes, rank, init, is_frozen ? GY_SLOT_FROZEN : kind);
}

gy_node gy_model_parameter(gy_model_builder *builder, const char *name, const int64_t *sizes,
                           int rank, gy_init init)
{
    /* The optimizer's state is called after the parameter, and has to fit with it. */
    if (name == NULL || name[0] == '\0' || strlen(name) >= GY_TRAIN_PARAMETER_BYTES) {
        return failed(builder,
                      gy_fail(GY_ARG, "parameter '%.40s': expected a name of 1 to %d bytes",
                              name == NULL ? "" : name, GY_TRAIN_PARAMETER_BYTES - 1));
    }
    if (strcmp(name, GY_TRAIN_LOSSES) == 0) {
        return failed(builder, gy_fail(GY_ARG,
                                       "parameter '%s': checkpoints keep the losses "
                                       "under this name",
                                       name));
    }
    return gy_train_builder_slot(builder, name, sizes, rank, init, GY_SLOT_PARAMETER);
}

/* ---- state that batches hand on ---- */

static gy_train_carried *find_carried(gy_model *model, const char *name)
{
    for (size_t i = 0; i < model->carried_count; i++) {
        if (strcmp(model->carried[i].name, name) == 0) {
            return &model->carried[i];
        }
    }
    return NULL;
}

/* It is found when the evaluation form names it, which is built behind the other. */
static gy_status add_carried(gy_model *model, const char *name, gy_node fed)
{
    GY_ASSERT(find_carried(model, name) == NULL);
    GY_TRY(GY_GROW("train.carried", model->carried, model->carried_capacity,
                   model->carried_count + 1));
    gy_train_carried *made = &model->carried[model->carried_count++];
    *made = (gy_train_carried){.fed = fed, .next = fed};
    gy_print(made->name, sizeof(made->name), "%s", name);
    return GY_OK;
}

static void slot_name(const char *name, char out[GY_TRAIN_NAME_BYTES])
{
    gy_print(out, GY_TRAIN_NAME_BYTES, "%s/" GY_TRAIN_CARRIED, name);
}

/* In a training each rank keeps the state of its rows of the batch. Those of micro-batches are
 * no part of an even cut: it then has memory for all rows, and the others' are zero. */
static gy_node kept_state(gy_model *model, const char *name, const int64_t *sizes, int rank)
{
    char full[GY_TRAIN_NAME_BYTES];
    int64_t all[GY_TENSOR_RANK_MAX] = {model->carried_rows};
    slot_name(name, full);
    memcpy(&all[1], sizes, (size_t)rank * sizeof(*sizes));
    const gy_node state = gy_model_rows_slot(model, full, all, rank + 1);
    if (gy_graph_status(model->graph) != GY_OK) {
        return state;
    }
    const bool is_split = model->micro_count > 0 && gy_model_row_ranks(model) > 1;
    gy_status status = gy_pin(state, "data",
                              is_split ? (gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM}
                                       : (gy_placement){.kind = GY_SHARD});
    if (status >= 0 && model->micro_count > 0) { /* no axis cuts rows otherwise */
        status = gy_pin(state, "auto", (gy_placement){.kind = GY_REPLICATE});
    }
    if (status < 0) {
        gy_graph_fail(model->graph, status, full);
    }
    return state;
}

gy_node gy_model_carried(gy_model_builder *builder, const char *name, const int64_t *sizes,
                         int rank)
{
    gy_model *model = builder->model;
    int64_t batch[GY_TENSOR_RANK_MAX] = {GY_BATCH};
    if (name == NULL || name[0] == '\0' || strlen(name) >= GY_TRAIN_PARAMETER_BYTES ||
        rank < 0 || rank >= GY_TENSOR_RANK_MAX || strcmp(name, "x") == 0) {
        return failed(builder,
                      gy_fail(GY_ARG,
                              "state '%.40s' of %d dimensions: expected a name of 1 to %d "
                              "bytes other than x, and up to %d dimensions",
                              name == NULL ? "" : name, rank, GY_TRAIN_PARAMETER_BYTES - 1,
                              GY_TENSOR_RANK_MAX - 1));
    }
    memcpy(&batch[1], sizes, (size_t)rank * sizeof(*sizes));
    if (builder->is_training) {
        return model->carried_rows > 0
                   ? kept_state(model, name, sizes, rank)
                   : gy_graph_fill(model->graph, model->dtype, batch, rank + 1, 0);
    }
    const gy_node fed = gy_graph_input(model->graph, name, model->dtype, batch, rank + 1);
    if (fed.index >= 0) {
        const gy_status status = add_carried(model, name, fed);
        if (status < 0) {
            return failed(builder, status);
        }
    }
    return fed;
}

/* An assignment of each training batch, as running statistics are. */
static gy_status add_assignment(gy_model *model, const char *name, gy_node next)
{
    char full[GY_TRAIN_NAME_BYTES];
    slot_name(name, full);
    for (size_t i = 0; i < model->slot_count; i++) {
        if (strcmp(model->slots[i].name, full) != 0) {
            continue;
        }
        const gy_node slot = model->slots[i].node;
        GY_TRY(GY_GROW("train.statistics", model->statistics, model->statistic_capacity,
                       model->statistic_count + 1));
        model->statistics[model->statistic_count++] = gy_op_assign(slot, next);
        return gy_graph_status(model->graph);
    }
    return gy_fail(GY_ARG, "state '%.40s': gy_model_carried has not named it", name);
}

void gy_model_carry(gy_model_builder *builder, const char *name, gy_node next)
{
    gy_model *model = builder->model;
    gy_status status = gy_graph_status(model->graph);
    if (status == GY_OK && builder->is_training) {
        status = model->carried_rows > 0 ? add_assignment(model, name, next) : GY_OK;
    } else if (status == GY_OK) {
        gy_train_carried *carried = find_carried(model, name);
        status =
            carried != NULL
                ? GY_OK
                : gy_fail(GY_ARG, "state '%.40s': gy_model_carried has not named it", name);
        if (carried != NULL) {
            carried->next = next;
        }
    }
    if (status < 0) {
        (void)failed(builder, status);
    }
}

bool gy_model_is_training(const gy_model_builder *builder)
{
    return builder->is_training;
}

const char *gy_model_configuration(const gy_model_builder *builder)
{
    const char *text = builder->model->configuration;
    return text != NULL ? text : "";
}

gy_dtype gy_model_dtype(const gy_model_builder *builder)
{
    return builder->model->dtype;
}
