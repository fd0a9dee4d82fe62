/**
 * A sequential model: its graph, its session, and the parameters that outlive both.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <stdio.h>
#include <string.h>

gy_node gy_model_slot(gy_model *model, const char *name, const int64_t *sizes, int rank,
                      gy_init init, gy_train_slot_kind kind)
{
    gy_node failed = {.graph = model->graph, .index = -1, .output = 0};
    if (GY_GROW("train.slots", model->slots, model->slot_capacity, model->slot_count + 1) < 0) {
        model->slot_status = GY_NOMEM;
        return failed;
    }
    gy_train_slot *slot = &model->slots[model->slot_count];
    *slot = (gy_train_slot){.kind = kind};
    snprintf(slot->name, sizeof(slot->name), "%s", name);
    slot->node = gy_graph_parameter(model->graph, slot->name, model->dtype, sizes, rank, init);
    if (slot->node.index >= 0) {
        model->slot_count++;
    }
    return slot->node;
}

/* Forward pass for training and for use, losses, predictions. */
static gy_status build_forward(gy_model *model)
{
    int64_t sizes[GY_TENSOR_RANK_MAX] = {GY_BATCH};
    memcpy(&sizes[1], model->input_sizes, (size_t)model->input_rank * sizeof(*sizes));
    model->x = gy_graph_input(model->graph, "x", model->dtype, sizes, model->input_rank + 1);
    model->labels = gy_graph_input(model->graph, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    gy_node training = gy_train_layers_apply(model, model->x, true);
    model->train_loss = gy_op_cross_entropy(training, model->labels);
    gy_node logits = gy_train_layers_apply(model, model->x, false);
    model->loss = gy_op_cross_entropy(logits, model->labels);
    model->log_probabilities = gy_op_log_softmax(logits, 1);
    model->predicted = gy_op_argmax(logits, 1);
    GY_TRY(model->slot_status);
    GY_TRY(gy_graph_status(model->graph));
    const gy_type *type = gy_graph_type(model->graph, (gy_value){logits.index, logits.output});
    if (type->rank != 2) {
        return gy_fail(GY_SHAPE,
                       "the last layer gives %d dimensions, expected 2: (batch, classes)",
                       type->rank);
    }
    model->classes = (int)type->sizes[1];
    return GY_OK;
}

static void drop_update(gy_update *update)
{
    gy_free(update->fetches);
    gy_free(update->gather_fetches);
    *update = (gy_update){.fetches = NULL};
}

gy_status gy_train_slot_tensor(gy_model *model, const char *name, gy_tensor **tensor)
{
    *tensor = gy_session_parameter(model->session, name);
    return *tensor != NULL ? GY_OK : GY_NOMEM;
}

/* Values of the old session's parameters go to the new one's by name. One that nobody has asked
 * for yet begins alike in both: drawing it here, twice, would be a third of a small model's
 * start. */
static gy_status carry_over(gy_model *model, gy_session *old, const gy_train_slot *slots,
                            size_t slot_count)
{
    for (size_t i = 0; i < slot_count; i++) {
        gy_tensor *from =
            slots[i].kind == GY_SLOT_STATE ? NULL : gy_session_made(old, slots[i].name);
        if (from != NULL) {
            gy_tensor *to = NULL;
            GY_TRY(gy_train_slot_tensor(model, slots[i].name, &to));
            GY_TRY(gy_tensor_copy(to, from));
        }
    }
    return GY_OK;
}

gy_status gy_train_slot_find(const gy_model *model, const gy_train_slot *slot,
                             const gy_bundle *bundle, gy_tensor **tensor)
{
    const gy_type *type =
        gy_graph_type(model->graph, (gy_value){slot->node.index, slot->node.output});
    gy_tensor *found = gy_bundle_find(bundle, slot->name);
    if (found == NULL) {
        return gy_fail(GY_FORMAT, "no tensor '%s' for model %s", slot->name, model->name);
    }
    bool fits = gy_tensor_dtype(found) == type->dtype && gy_tensor_rank(found) == type->rank;
    for (int i = 0; fits && i < type->rank; i++) {
        fits = gy_tensor_size(found, i) == type->sizes[i];
    }
    if (!fits) {
        return gy_fail(GY_FORMAT, "tensor '%s' is no %s of the sizes that model %s has",
                       slot->name, gy_dtype_name(type->dtype), model->name);
    }
    *tensor = found;
    return GY_OK;
}

/* The tensors that the model was promised are its parameters, no more and no fewer. */
static gy_status check_expected(const gy_model *model)
{
    if (model->expected == NULL) {
        return GY_OK;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *tensor = NULL;
        GY_TRY(gy_train_slot_find(model, &model->slots[i], model->expected, &tensor));
    }
    if (model->slot_count != gy_bundle_count(model->expected)) {
        return gy_fail(GY_FORMAT, "%zu tensors, model %s has %zu",
                       gy_bundle_count(model->expected), model->name, model->slot_count);
    }
    return GY_OK;
}

gy_status gy_model_build(gy_model *model, const gy_train_options *options)
{
    gy_graph *old_graph = model->graph;
    gy_session *old_session = model->session;
    gy_train_slot *old_slots = model->slots;
    size_t old_count = model->slot_count;
    drop_update(&model->update);
    model->slots = NULL;
    model->slot_count = model->slot_capacity = 0;
    model->session = NULL;
    model->slot_status = GY_OK;
    model->statistic_count = 0;
    model->pair_layer = -1;
    model->graph = NULL;
    gy_status status = gy_graph_new(&model->graph);
    if (status == GY_OK) {
        status = build_forward(model);
    }
    if (status == GY_OK) {
        status = check_expected(model);
    }
    if (status == GY_OK && options != NULL) {
        status = gy_update_build(model, options);
    }
    if (status == GY_OK) {
        status = gy_session_new(model->graph,
                                &(gy_session_options){.comm = model->comm,
                                                      .seed = model->seed,
                                                      .workers = model->workers,
                                                      .has_no_overlap = model->has_no_overlap},
                                &model->session);
    }
    if (status == GY_OK && old_session != NULL) {
        status = carry_over(model, old_session, old_slots, old_count);
    }
    if (status < 0) {
        /* The model stays what it was. */
        gy_session_free(model->session);
        gy_graph_free(model->graph);
        gy_free(model->slots);
        drop_update(&model->update);
        model->graph = old_graph;
        model->session = old_session;
        model->slots = old_slots;
        model->slot_count = model->slot_capacity = old_count;
        return status;
    }
    gy_session_free(old_session);
    gy_graph_free(old_graph);
    gy_free(old_slots);
    return GY_OK;
}

/* Of one sample: what is beyond is a damaged file or a slip. */
static const int64_t input_limit = (int64_t)1 << 40;

static gy_status check_options(const gy_model_options *options)
{
    if (options->layer_count < 1 || options->layer_count > GY_LAYER_LIMIT) {
        return gy_fail(GY_ARG, "model: %d layers, expected 1 to %d", options->layer_count,
                       GY_LAYER_LIMIT);
    }
    if (options->dtype != GY_F32 && options->dtype != GY_F64) {
        return gy_fail(GY_TYPE, "model: element type %s, expected f32 or f64",
                       gy_dtype_name(options->dtype));
    }
    if (options->input_rank < 1 || options->input_rank >= GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_ARG, "model: input of %d dimensions, expected 1 to %d",
                       options->input_rank, GY_TENSOR_RANK_MAX - 1);
    }
    int64_t count = 1;
    for (int i = 0; i < options->input_rank; i++) {
        if (options->input_sizes[i] < 1) {
            return gy_fail(GY_ARG,
                           "model: input size %lld in dimension %d, expected at least 1",
                           (long long)options->input_sizes[i], i);
        }
        if (options->input_sizes[i] > input_limit / count) {
            return gy_fail(GY_LIMIT, "model: an input of more than %lld elements",
                           (long long)input_limit);
        }
        count *= options->input_sizes[i];
    }
    return GY_OK;
}

/* What could be saved and not loaded again is no model: layers pass through their text, class
 * names are lines of one. */
static gy_status check_texts(const gy_model_options *options)
{
    gy_text text = {.data = NULL};
    gy_layer *parsed = NULL;
    int count = 0;
    for (int i = 0; i < options->layer_count; i++) {
        if ((int)options->layers[i].kind < 0 || options->layers[i].kind > GY_LAYER_BATCH_NORM) {
            return gy_fail(GY_ARG, "model: layer %d is of kind %d, expected 0 to %d", i,
                           (int)options->layers[i].kind, GY_LAYER_BATCH_NORM);
        }
    }
    gy_train_layers_text(options->layers, options->layer_count, &text);
    gy_status status = text.status;
    if (status == GY_OK) {
        status = gy_train_layers_parse(gy_text_get(&text), &parsed, &count);
        status = status == GY_FORMAT ? gy_fail(GY_ARG, "model: %s", gy_error_text()) : status;
    }
    gy_free(parsed);
    gy_text_free(&text);
    GY_TRY(status);
    for (int i = 0; options->class_names != NULL && i < options->class_count; i++) {
        if (strchr(options->class_names[i], '\n') != NULL) {
            return gy_fail(GY_ARG, "model: the name of class %d holds a line end", i);
        }
    }
    return GY_OK;
}

static gy_status copy_class_names(gy_model *model, const gy_model_options *options)
{
    if (options->class_names == NULL) {
        return GY_OK;
    }
    if (options->class_count != model->classes) {
        return gy_fail(GY_ARG, "model: %d class names for %d classes", options->class_count,
                       model->classes);
    }
    model->class_names =
        gy_alloc_zero("train.model", (size_t)model->classes, sizeof(*model->class_names));
    if (model->class_names == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < model->classes; i++) {
        model->class_names[i] = gy_copy_text("train.model", options->class_names[i]);
        if (model->class_names[i] == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

gy_status gy_model_make(const gy_model_options *options, const gy_bundle *bundle,
                        gy_model **model)
{
    GY_TRY(check_options(options));
    GY_TRY(check_texts(options));
    gy_model *made = gy_alloc_zero("train.model", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    snprintf(made->name, sizeof(made->name), "%s",
             options->name == NULL ? "sequential" : options->name);
    made->layer_count = options->layer_count;
    made->input_rank = options->input_rank;
    memcpy(made->input_sizes, options->input_sizes, sizeof(made->input_sizes));
    made->dtype = options->dtype;
    made->seed = options->seed;
    made->comm = options->comm;
    made->workers = options->workers;
    made->has_no_overlap = options->has_no_overlap;
    made->expected = bundle;
    const size_t layers = (size_t)made->layer_count;
    made->layers = gy_alloc_zero("train.model", layers, sizeof(gy_layer));
    made->is_frozen = gy_alloc_zero("train.model", layers, sizeof(bool));
    made->statistics = gy_alloc_zero("train.model", 2 * layers, sizeof(gy_node));
    gy_status status = GY_NOMEM;
    if (made->layers != NULL && made->is_frozen != NULL && made->statistics != NULL) {
        memcpy(made->layers, options->layers, layers * sizeof(gy_layer));
        status = gy_model_build(made, NULL);
    }
    if (status == GY_OK) {
        status = copy_class_names(made, options);
    }
    if (status < 0) {
        gy_model_free(made);
        return status;
    }
    made->expected = NULL;
    *model = made;
    return GY_OK;
}

gy_status gy_model_new(const gy_model_options *options, gy_model **model)
{
    gy_model_options known;
    GY_TRY(gy_options_take(gy_model_options, &known, options));
    known.dtype = known.dtype != GY_DTYPE_NONE ? known.dtype : GY_F32;
    return gy_model_make(&known, NULL, model);
}

void gy_model_free(gy_model *model)
{
    if (model == NULL) {
        return;
    }
    gy_session_free(model->session);
    gy_graph_free(model->graph);
    gy_free(model->slots);
    drop_update(&model->update);
    for (int i = 0; model->class_names != NULL && i < model->classes; i++) {
        gy_free(model->class_names[i]);
    }
    gy_free(model->class_names);
    gy_bundle_free(model->source);
    gy_free(model->layers);
    gy_free(model->is_frozen);
    gy_free(model->statistics);
    gy_free(model);
}

gy_status gy_model_freeze(gy_model *model, int index, bool is_frozen)
{
    if (index < 0 || index >= model->layer_count) {
        return gy_fail(GY_ARG, "freeze: layer %d, model %s has 0 to %d", index, model->name,
                       model->layer_count - 1);
    }
    model->is_frozen[index] = is_frozen;
    return GY_OK;
}

gy_status gy_model_named(const char *name, const gy_model_options *options, int classes,
                         gy_model **model)
{
    const gy_layer softmax[] = {gy_layer_flatten(), gy_layer_dense(classes)};
    const gy_layer mlp[] = {gy_layer_flatten(),  gy_layer_dense(512), gy_layer_relu(),
                            gy_layer_dense(512), gy_layer_relu(),     gy_layer_dense(classes)};
    const gy_layer lenet[] = {
        gy_layer_conv2d(32, 5, 2), gy_layer_relu(),         gy_layer_max_pool(2),
        gy_layer_conv2d(64, 5, 2), gy_layer_relu(),         gy_layer_max_pool(2),
        gy_layer_flatten(),        gy_layer_dense(512),     gy_layer_relu(),
        gy_layer_dropout(0.5),     gy_layer_dense(classes),
    };
    const struct {
        const char *name;
        const gy_layer *layers;
        size_t count;
    } known[] = {{"softmax", softmax, GY_COUNT(softmax)},
                 {"mlp", mlp, GY_COUNT(mlp)},
                 {"lenet", lenet, GY_COUNT(lenet)}};
    if (classes < 1) {
        return gy_fail(GY_ARG, "model %s: %d classes, expected at least 1", name, classes);
    }
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            gy_model_options o;
            GY_TRY(gy_options_take(gy_model_options, &o, options));
            o.name = name;
            o.layers = known[i].layers;
            o.layer_count = (int)known[i].count;
            return gy_model_new(&o, model);
        }
    }
    return gy_fail(GY_NOTFOUND, "no model '%s': there are softmax, mlp and lenet", name);
}

const char *gy_model_name(const gy_model *model)
{
    return model->name;
}

const char *gy_model_metadata(const gy_model *model, const char *key)
{
    return model->source == NULL ? NULL : gy_bundle_get(model->source, key);
}

const char *gy_model_class_name(const gy_model *model, int index)
{
    GY_ASSERT(index >= 0 && index < model->classes);
    return model->class_names == NULL ? NULL : model->class_names[index];
}

int gy_model_class_count(const gy_model *model)
{
    return model->classes;
}

gy_session *gy_model_session(gy_model *model)
{
    return model->session;
}
