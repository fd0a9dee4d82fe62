/**
 * A sequential model: its graph, its session, and the parameters that outlive both.
 */
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A slot whose node is still to come; NULL: out of memory. */
static gy_train_slot *next_slot(gy_model *model, const char *name, gy_train_slot_kind kind)
{
    if (GY_GROW("train.slots", model->slots, model->slot_capacity, model->slot_count + 1) < 0) {
        model->slot_status = GY_NOMEM;
        return NULL;
    }
    gy_train_slot *slot = &model->slots[model->slot_count];
    *slot = (gy_train_slot){.kind = kind, .node = {.graph = model->graph, .index = -1}};
    snprintf(slot->name, sizeof(slot->name), "%s", name);
    return slot;
}

gy_node gy_model_rows_slot(gy_model *model, const char *name, const int64_t *sizes, int rank)
{
    gy_train_slot *slot = next_slot(model, name, GY_SLOT_STATE);
    if (slot == NULL) {
        return (gy_node){.graph = model->graph, .index = -1, .output = 0};
    }
    slot->node = gy_graph_rows_parameter(model->graph, slot->name, model->dtype, sizes, rank);
    model->slot_count += slot->node.index >= 0 ? 1 : 0;
    return slot->node;
}

gy_node gy_model_slot(gy_model *model, const char *name, const int64_t *sizes, int rank,
                      gy_init init, gy_train_slot_kind kind)
{
    gy_train_slot *slot = next_slot(model, name, kind);
    if (slot == NULL) {
        return (gy_node){.graph = model->graph, .index = -1, .output = 0};
    }
    slot->node = gy_graph_parameter(model->graph, slot->name, model->dtype, sizes, rank, init);
    if (slot->node.index >= 0) {
        model->slot_count++;
    }
    return slot->node;
}

static const gy_type *type_of(gy_node node)
{
    return gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

/* Logits are (batch, label sizes…, classes). */
static gy_status check_logits(const gy_model *model, const gy_type *type)
{
    const gy_type *labels = type_of(model->labels);
    bool fits = type->rank == labels->rank + 1;
    for (int i = 0; fits && i < labels->rank; i++) {
        fits = type->sizes[i] == labels->sizes[i];
    }
    if (!fits) {
        char texts[2][160];
        return gy_fail(GY_SHAPE,
                       "model %s: logits %s for labels %s: expected the sizes of the labels, "
                       "then the number of classes",
                       model->name, gy_type_text(type, texts[0]),
                       gy_type_text(labels, texts[1]));
    }
    return GY_OK;
}

/* One form of the model. */
static gy_status build_form(gy_model *model, bool is_training, gy_node *logits)
{
    gy_model_builder builder = {.model = model, .is_training = is_training, .layer = -1};
    *logits = (gy_node){.graph = NULL, .index = -1};
    GY_TRY(model->build(model->build_arg, &builder, model->x, logits));
    GY_TRY(model->slot_status);
    GY_TRY(gy_graph_status(model->graph));
    if (logits->graph != model->graph || logits->index < 0) {
        return gy_fail(GY_ARG, "model %s: its function gave no logits", model->name);
    }
    return check_logits(model, type_of(*logits));
}

/* Forward pass for training and for use, losses, predictions. */
static gy_status build_forward(gy_model *model)
{
    int64_t sizes[GY_TENSOR_RANK_MAX] = {GY_BATCH};
    gy_node training, logits;
    memcpy(&sizes[1], model->input_sizes, (size_t)model->input_rank * sizeof(*sizes));
    model->x =
        gy_graph_input(model->graph, "x", model->input_dtype, sizes, model->input_rank + 1);
    memcpy(&sizes[1], model->label_sizes, (size_t)model->label_rank * sizeof(*sizes));
    model->labels =
        gy_graph_input(model->graph, "labels", GY_I32, sizes, model->label_rank + 1);
    GY_TRY(gy_graph_status(model->graph)); /* a function is called with nodes that are there */
    GY_TRY(build_form(model, true, &training));
    model->train_loss = gy_op_cross_entropy(training, model->labels);
    GY_TRY(build_form(model, false, &logits));
    model->loss = gy_op_cross_entropy(logits, model->labels);
    model->log_probabilities = gy_op_log_softmax(logits, -1);
    model->predicted = gy_op_argmax(logits, -1);
    model->classes = (int)type_of(logits)->sizes[model->label_rank + 1];
    return gy_graph_status(model->graph);
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
        if (slots[i].kind != GY_SLOT_STATE && gy_session_has(old, slots[i].name)) {
            gy_tensor *whole = NULL;
            GY_TRY(gy_session_gather(old, slots[i].name, &whole));
            gy_status status = gy_session_scatter(model->session, slots[i].name, whole);
            gy_tensor_drop(whole);
            GY_TRY(status);
        }
    }
    return GY_OK;
}

gy_status gy_train_slot_check(const gy_model *model, const gy_train_slot *slot,
                              const gy_bundle *bundle)
{
    const gy_type whole = gy_graph_whole_type(&model->graph->nodes[slot->node.index]);
    const gy_type *type = &whole;
    size_t index = 0;
    if (!gy_bundle_index(bundle, slot->name, &index)) {
        return gy_fail(GY_FORMAT, "no tensor '%s' for model %s", slot->name, model->name);
    }
    const gy_view found = gy_bundle_shape(bundle, index);
    bool fits = found.dtype == type->dtype && found.rank == type->rank;
    for (int i = 0; fits && i < type->rank; i++) {
        fits = found.sizes[i] == type->sizes[i];
    }
    return fits ? GY_OK
                : gy_fail(GY_FORMAT, "tensor '%s' is no %s of the sizes that model %s has",
                          slot->name, gy_dtype_name(type->dtype), model->name);
}

/* The tensors that the model was promised are its parameters, no more and no fewer. */
static gy_status check_expected(const gy_model *model)
{
    if (model->expected == NULL) {
        return GY_OK;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        GY_TRY(gy_train_slot_check(model, &model->slots[i], model->expected));
    }
    if (model->slot_count != gy_bundle_count(model->expected)) {
        return gy_fail(GY_FORMAT, "%zu tensors, model %s has %zu",
                       gy_bundle_count(model->expected), model->name, model->slot_count);
    }
    return GY_OK;
}

void gy_model_describe(const gy_model *model, gy_text *text)
{
    GY_ASSERT(model->configuration != NULL);
    gy_text_add(text, "function %s: %s", model->name, model->configuration);
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        const gy_type *type = type_of(slot->node);
        for (int k = 0; slot->kind != GY_SLOT_STATE && k <= type->rank; k++) {
            if (k == 0) {
                gy_text_add(text, "; %s", slot->name);
            } else {
                gy_text_add(text, " %lld", (long long)type->sizes[k - 1]);
            }
        }
    }
}

/* Everything that gy_model_build makes anew. */
static void drop_built(gy_model *model)
{
    gy_session_free(model->session);
    gy_graph_free(model->graph);
    gy_free(model->slots);
    gy_free(model->statistics);
    gy_free(model->carried);
    drop_update(&model->update);
}

/* What the options of a training (NULL: there are none) ask of the session. */
static gy_session_options session_options(const gy_model *model,
                                          const gy_train_options *options)
{
    gy_session_options made = {.comm = model->mesh == NULL ? model->comm : NULL,
                               .mesh = model->mesh,
                               .seed = model->seed,
                               .workers = model->workers,
                               .has_no_overlap = model->has_no_overlap,
                               .chunks = model->chunks,
                               .device = -1};
    if (options != NULL && model->device == NULL) {
        made.device = options->device;
        made.devices = options->devices;
        made.device_rank = options->device_rank;
        made.device_ranks = options->device_ranks;
    }
    return made;
}

static gy_status build_all(gy_model *model, const gy_train_options *options)
{
    model->chunks = options != NULL ? gy_train_chunks(model, options) : 0;
    GY_TRY(gy_graph_new(&model->graph));
    GY_TRY(build_forward(model));
    GY_TRY(check_expected(model));
    if (options != NULL) {
        GY_TRY(gy_update_build(model, options));
        GY_TRY(gy_train_cut(model, options));
        GY_TRY(options->recompute == GY_RECOMPUTE_LAYERS
                   ? gy_graph_recompute(model->graph, INT_MAX)
                   : GY_OK);
        GY_TRY(gy_train_is_narrow(options)
                   ? gy_graph_precision(model->graph, options->precision)
                   : GY_OK);
    }
    const gy_session_options of_session = session_options(model, options);
    GY_TRY(gy_session_new(model->graph, &of_session, &model->session));
    if (model->device != NULL) {
        GY_TRY(gy_session_set_device(model->session, model->device));
    }
    if (model->is_lazy) {
        gy_session_set_fill(model->session, gy_session_fill_from, model->source);
    }
    return options != NULL ? gy_train_decide_slots(model, options) : GY_OK;
}

gy_status gy_model_build(gy_model *model, const gy_train_options *options)
{
    gy_model old = *model;
    model->graph = NULL;
    model->session = NULL;
    model->slots = NULL;
    model->slot_count = model->slot_capacity = 0;
    model->slot_status = GY_OK;
    model->statistics = NULL;
    model->statistic_count = model->statistic_capacity = 0;
    model->carried = NULL;
    model->carried_count = model->carried_capacity = 0;
    model->micro_count = options != NULL ? options->micro_batches : 0;
    model->carried_rows = options != NULL && options->servers == NULL ? options->batch : 0;
    model->pair_layer[0] = '\0';
    model->update = (gy_update){.fetches = NULL};
    gy_status status = build_all(model, options);
    if (status == GY_OK && old.session != NULL) {
        status = carry_over(model, old.session, old.slots, old.slot_count);
    }
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        drop_built(model);
        *model = old; /* the model stays what it was */
        return gy_error_raise(&error);
    }
    drop_built(&old);
    return GY_OK;
}

/* Elements of one sample: what is beyond is a damaged file or a slip. */
static const int64_t input_limit = (int64_t)1 << 40;

/* (rank) sizes of one sample's input or labels; *count takes their product. */
static gy_status check_sizes(const char *what, const int64_t *sizes, int rank, int64_t *count)
{
    *count = 1;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 1) {
            return gy_fail(GY_ARG, "model: %s size %lld in dimension %d, expected at least 1",
                           what, (long long)sizes[i], i);
        }
        if (sizes[i] > input_limit / *count) {
            return gy_fail(GY_LIMIT, "model: %s sizes of more than %lld elements", what,
                           (long long)input_limit);
        }
        *count *= sizes[i];
    }
    return GY_OK;
}

static gy_status check_kind(const gy_model_options *options)
{
    if (options->build == NULL &&
        (options->layer_count < 1 || options->layer_count > GY_LAYER_LIMIT)) {
        return gy_fail(GY_ARG, "model: %d layers, expected 1 to %d", options->layer_count,
                       GY_LAYER_LIMIT);
    }
    if (options->build != NULL && options->layer_count > 0) {
        return gy_fail(GY_ARG, "model: a function and %d layers, expected one of both",
                       options->layer_count);
    }
    return GY_OK;
}

static gy_status check_options(const gy_model_options *options)
{
    if (options->comm != NULL && options->mesh != NULL) {
        return gy_fail(GY_ARG, "model: a mesh and a communicator, expected one of them");
    }
    int64_t count = 0;
    GY_TRY(check_kind(options));
    if (options->dtype != GY_F32 && options->dtype != GY_F64) {
        return gy_fail(GY_TYPE, "model: element type %s, expected f32 or f64",
                       gy_dtype_name(options->dtype));
    }
    if (!gy_dtype_is_element(options->input_dtype)) {
        return gy_fail(GY_TYPE, "model: input of element type %d", (int)options->input_dtype);
    }
    if (options->input_rank < 1 || options->input_rank >= GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_ARG, "model: input of %d dimensions, expected 1 to %d",
                       options->input_rank, GY_TENSOR_RANK_MAX - 1);
    }
    if (options->label_rank < 0 || options->label_rank > GY_TENSOR_RANK_MAX - 2) {
        return gy_fail(GY_ARG, "model: labels of %d dimensions, expected 0 to %d",
                       options->label_rank, GY_TENSOR_RANK_MAX - 2);
    }
    GY_TRY(check_sizes("input", options->input_sizes, options->input_rank, &count));
    return check_sizes("label", options->label_sizes, options->label_rank, &count);
}

/* What could be saved and not loaded again is no model: layers pass through their text. */
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
    if (status == GY_OK && options->build == NULL) {
        status = gy_train_layers_parse(gy_text_get(&text), &parsed, &count);
        status = status == GY_FORMAT ? gy_fail(GY_ARG, "model: %s", gy_error_text()) : status;
    }
    gy_free(parsed);
    gy_text_free(&text);
    return status;
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

/* What of the options is numbers. */
static void take_numbers(gy_model *made, const gy_model_options *options)
{
    snprintf(made->name, sizeof(made->name), "%s",
             options->name != NULL    ? options->name
             : options->build != NULL ? "function"
                                      : "sequential");
    made->build = options->build != NULL ? options->build : gy_train_layers_build;
    made->build_arg = options->arg;
    made->layer_count = options->layer_count;
    made->input_rank = options->input_rank;
    memcpy(made->input_sizes, options->input_sizes, sizeof(made->input_sizes));
    made->label_rank = options->label_rank;
    memcpy(made->label_sizes, options->label_sizes, sizeof(made->label_sizes));
    made->label_count = 1;
    for (int i = 0; i < made->label_rank; i++) {
        made->label_count *= made->label_sizes[i];
    }
    made->dtype = options->dtype;
    made->input_dtype = options->input_dtype;
    made->seed = options->seed;
    made->mesh = options->mesh;
    made->comm = options->mesh != NULL ? gy_mesh_comm(options->mesh) : options->comm;
    made->workers = options->workers;
    made->has_no_overlap = options->has_no_overlap;
}

/* The layers, or the configuration of a function. */
static gy_status take_kind(gy_model *made, const gy_model_options *options)
{
    const size_t layers = (size_t)options->layer_count;
    if (options->build != NULL) {
        made->configuration = gy_copy_text(
            "train.model", options->configuration != NULL ? options->configuration : "");
        return made->configuration != NULL ? GY_OK : GY_NOMEM;
    }
    made->layers = gy_alloc_zero("train.model", layers, sizeof(gy_layer));
    made->is_frozen = gy_alloc_zero("train.model", layers, sizeof(bool));
    if (made->layers == NULL || made->is_frozen == NULL) {
        return GY_NOMEM;
    }
    memcpy(made->layers, options->layers, layers * sizeof(gy_layer));
    return GY_OK;
}

gy_status gy_model_make(const gy_model_options *options, const gy_bundle *bundle,
                        gy_model **model)
{
    gy_model_options known = *options;
    known.dtype = known.dtype != GY_DTYPE_NONE ? known.dtype : GY_F32;
    known.input_dtype = known.input_dtype != GY_DTYPE_NONE ? known.input_dtype : known.dtype;
    GY_TRY(check_options(&known));
    GY_TRY(check_texts(&known));
    gy_model *made = gy_alloc_zero("train.model", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    take_numbers(made, &known);
    made->expected = bundle;
    gy_status status = take_kind(made, &known);
    if (status == GY_OK) {
        status = gy_model_build(made, NULL);
    }
    if (status == GY_OK) {
        status = copy_class_names(made, &known);
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
    return gy_model_make(&known, NULL, model);
}

void gy_model_free(gy_model *model)
{
    if (model == NULL) {
        return;
    }
    drop_built(model);
    for (int i = 0; model->class_names != NULL && i < model->classes; i++) {
        gy_free(model->class_names[i]);
    }
    gy_free(model->class_names);
    gy_bundle_free(model->source);
    gy_free(model->configuration);
    gy_free(model->layers);
    gy_free(model->is_frozen);
    gy_free(model);
}

gy_status gy_model_freeze(gy_model *model, int index, bool is_frozen)
{
    if (model->layers == NULL) {
        return gy_fail(GY_ARG, "freeze: layer %d, but model %s is a function", index,
                       model->name);
    }
    if (index < 0 || index >= model->layer_count) {
        return gy_fail(GY_ARG, "freeze: layer %d, model %s has 0 to %d", index, model->name,
                       model->layer_count - 1);
    }
    model->is_frozen[index] = is_frozen;
    return GY_OK;
}

const char *gy_model_device(const gy_model *model)
{
    return gy_session_device(model->session);
}

gy_status gy_train_find_device(const gy_train_options *options, gy_comm *comm)
{
    gy_train_options o;
    gy_device *device = NULL;
    GY_TRY(gy_options_take(gy_train_options, &o, options));
    const gy_device_choice choice = {
        .number = o.device, .names = o.devices, .rank = o.device_rank, .ranks = o.device_ranks};
    const gy_status status = gy_device_open(&choice, &device);
    gy_device_close(device);
    if (comm == NULL || gy_comm_size(comm) == 1 || status >= 0) {
        return gy_session_agree(comm, status);
    }
    gy_error own; /* the others are told whose it is */
    gy_error_take(&own, status);
    (void)gy_session_agree(comm,
                           gy_fail_within(gy_error_raise(&own), "rank %d", gy_comm_rank(comm)));
    return gy_error_raise(&own);
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
