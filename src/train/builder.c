/**
 * What a model's function builds with: parameters by name, the same ones in each form.
 */
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
