/**
 * Layers: constructors, their text in model files, and their nodes.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a layer's line holds besides its name. */
enum { HAS_UNITS = 1, HAS_WINDOW = 2, HAS_RATE = 4, HAS_NORM = 8 };

static const struct {
    const char *name;
    int members;
} kinds[] = {
    [GY_LAYER_DENSE] = {"dense", HAS_UNITS},
    [GY_LAYER_CONV2D] = {"conv2d", HAS_UNITS | HAS_WINDOW},
    [GY_LAYER_MAX_POOL] = {"max_pool", HAS_WINDOW},
    [GY_LAYER_AVERAGE_POOL] = {"average_pool", HAS_WINDOW},
    [GY_LAYER_RELU] = {"relu", 0},
    [GY_LAYER_TANH] = {"tanh", 0},
    [GY_LAYER_SIGMOID] = {"sigmoid", 0},
    [GY_LAYER_GELU] = {"gelu", 0},
    [GY_LAYER_DROPOUT] = {"dropout", HAS_RATE},
    [GY_LAYER_FLATTEN] = {"flatten", 0},
    [GY_LAYER_BATCH_NORM] = {"batch_norm", HAS_NORM},
};

gy_layer gy_layer_dense(int64_t units)
{
    return (gy_layer){.kind = GY_LAYER_DENSE, .units = units};
}

gy_layer gy_layer_conv2d(int64_t filters, int window, int pad)
{
    return (gy_layer){.kind = GY_LAYER_CONV2D, .units = filters, .window = window, .pad = pad};
}

gy_layer gy_layer_max_pool(int window)
{
    return (gy_layer){.kind = GY_LAYER_MAX_POOL, .window = window, .stride = window};
}

gy_layer gy_layer_average_pool(int window)
{
    return (gy_layer){.kind = GY_LAYER_AVERAGE_POOL, .window = window, .stride = window};
}

gy_layer gy_layer_relu(void)
{
    return (gy_layer){.kind = GY_LAYER_RELU};
}

gy_layer gy_layer_dropout(double rate)
{
    return (gy_layer){.kind = GY_LAYER_DROPOUT, .rate = rate};
}

gy_layer gy_layer_flatten(void)
{
    return (gy_layer){.kind = GY_LAYER_FLATTEN};
}

gy_layer gy_layer_batch_norm(void)
{
    return (gy_layer){.kind = GY_LAYER_BATCH_NORM};
}

static double momentum_of(const gy_layer *layer)
{
    return layer->momentum == 0 ? 0.1 : layer->momentum;
}

static double epsilon_of(const gy_layer *layer)
{
    return layer->epsilon == 0 ? 1e-5 : layer->epsilon;
}

void gy_train_layers_text(const gy_layer *layers, int count, gy_text *text)
{
    for (int i = 0; i < count; i++) {
        const gy_layer *layer = &layers[i];
        int members = kinds[layer->kind].members;
        gy_text_add(text, "%s%s", i == 0 ? "" : "; ", kinds[layer->kind].name);
        if ((members & HAS_UNITS) != 0) {
            gy_text_add(text, " %lld", (long long)layer->units);
        }
        if ((members & HAS_WINDOW) != 0) {
            gy_text_add(text, " %d %d %d", layer->window, layer->stride, layer->pad);
        }
        if ((members & HAS_RATE) != 0) {
            gy_text_add(text, " %.17g", layer->rate);
        }
        if ((members & HAS_NORM) != 0) {
            gy_text_add(text, " %.17g %.17g", momentum_of(layer), epsilon_of(layer));
        }
    }
}

/* The next number of a line, in [low, high]. */
static gy_status parse_number(const char **at, double low, double high, double *value)
{
    char *end = NULL;
    double parsed = strtod(*at, &end);
    if (end == *at || !(parsed >= low && parsed <= high)) {
        return gy_fail(GY_FORMAT, "layers: '%.20s': expected a number from %g to %g", *at, low,
                       high);
    }
    *value = parsed;
    *at = end;
    return GY_OK;
}

/* The numbers behind a layer's name. */
static gy_status parse_members(const char **at, gy_layer *layer)
{
    const int kind = (int)layer->kind;
    double value = 0;
    if ((kinds[kind].members & HAS_UNITS) != 0) {
        GY_TRY(parse_number(at, 1, 1e9, &value));
        layer->units = (int64_t)value;
    }
    if ((kinds[kind].members & HAS_WINDOW) != 0) {
        GY_TRY(parse_number(at, 1, 1e6, &value));
        layer->window = (int)value;
        GY_TRY(parse_number(at, 0, 1e6, &value));
        layer->stride = (int)value;
        GY_TRY(parse_number(at, 0, 1e6, &value));
        layer->pad = (int)value;
    }
    if ((kinds[kind].members & HAS_RATE) != 0) {
        GY_TRY(parse_number(at, 0, 0.999999, &layer->rate));
    }
    if ((kinds[kind].members & HAS_NORM) != 0) {
        GY_TRY(parse_number(at, 1e-12, 1, &layer->momentum));
        GY_TRY(parse_number(at, 1e-300, 1e9, &layer->epsilon));
    }
    return GY_OK;
}

static gy_status parse_layer(const char **at, gy_layer *layer)
{
    *layer = (gy_layer){.kind = GY_LAYER_DENSE};
    *at += strspn(*at, " ");
    size_t size = strcspn(*at, " ;");
    size_t kind = 0;
    while (kind < GY_COUNT(kinds) &&
           (strlen(kinds[kind].name) != size || strncmp(*at, kinds[kind].name, size) != 0)) {
        kind++;
    }
    if (kind == GY_COUNT(kinds)) {
        return gy_fail(GY_FORMAT, "layers: unknown layer '%.*s'", (int)GY_MIN(size, 40), *at);
    }
    *at += size;
    layer->kind = (gy_layer_kind)kind;
    GY_TRY(parse_members(at, layer));
    *at += strspn(*at, " ");
    if (**at != ';' && **at != '\0') {
        return gy_fail(GY_FORMAT, "layers: '%.20s' after %s: expected ';'", *at,
                       kinds[kind].name);
    }
    *at += **at == ';';
    return GY_OK;
}

gy_status gy_train_layers_parse(const char *text, gy_layer **layers, int *count)
{
    gy_layer *parsed = gy_alloc_zero("train.layers", GY_LAYER_LIMIT, sizeof(*parsed));
    if (parsed == NULL) {
        return GY_NOMEM;
    }
    int found = 0;
    gy_status status = GY_OK;
    while (*text != '\0' && status == GY_OK) {
        if (found == GY_LAYER_LIMIT) {
            status = gy_fail(GY_LIMIT, "layers: more than %d", GY_LAYER_LIMIT);
        } else {
            status = parse_layer(&text, &parsed[found++]);
        }
    }
    if (status == GY_OK && found == 0) {
        status = gy_fail(GY_FORMAT, "layers: none");
    }
    if (status < 0) {
        gy_free(parsed);
        return status;
    }
    *layers = parsed;
    *count = found;
    return GY_OK;
}

/* What is known of a node; NULL: it failed, and the graph says why. */
static const gy_type *type_of(gy_node node)
{
    return node.index < 0 ? NULL
                          : gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

/* One layer where it is applied. */
typedef struct site {
    gy_model_builder *builder;
    const char *name; /* what its parameters are called */
    const gy_layer *layer;
} site;

/* The slot "name.what" of a layer. */
static gy_node layer_slot(const site *at, const char *what, const int64_t *sizes, int rank,
                          gy_init init, gy_train_slot_kind kind)
{
    char name[GY_TRAIN_PARAMETER_BYTES];
    if (!gy_print_whole(name, sizeof(name), "%s.%s", at->name, what)) {
        gy_graph *graph = at->builder->model->graph;
        gy_fail(GY_ARG, "name of a layer too long: %.60s", at->name);
        gy_graph_fail(graph, GY_ARG, NULL);
        return (gy_node){.graph = graph, .index = -1};
    }
    return gy_train_builder_slot(at->builder, name, sizes, rank, init, kind);
}

static gy_node layer_parameter(const site *at, const char *what, const int64_t *sizes, int rank,
                               gy_init init)
{
    return layer_slot(at, what, sizes, rank, init, GY_SLOT_PARAMETER);
}

/* Normal with deviation sqrt(2 / fan in), for what a relu follows (He et al., ICCV 2015). */
static gy_init he_of(int64_t fan_in)
{
    return (gy_init){.kind = GY_INIT_NORMAL, .scale = sqrt(2 / (double)GY_MAX(fan_in, 1))};
}

static gy_node apply_dense(const site *at, gy_node x)
{
    const gy_type *type = type_of(x);
    if (type == NULL) {
        return x;
    }
    int64_t inputs = type->rank > 0 ? type->sizes[type->rank - 1] : 0;
    int64_t units = at->layer->units;
    gy_node weight =
        layer_parameter(at, "weight", (int64_t[]){inputs, units}, 2, he_of(inputs));
    gy_node bias = layer_parameter(at, "bias", (int64_t[]){units}, 1, gy_init_zeros());
    return gy_op_add(gy_op_matmul(x, weight), bias);
}

static gy_node apply_conv2d(const site *at, gy_node x)
{
    const gy_layer *layer = at->layer;
    const gy_type *type = type_of(x);
    if (type == NULL) {
        return x;
    }
    int64_t channels = type->rank == 4 ? type->sizes[1] : 1;
    int64_t filter_sizes[4] = {layer->units, channels, layer->window, layer->window};
    gy_node filters = layer_parameter(at, "weight", filter_sizes, 4,
                                      he_of(channels * layer->window * layer->window));
    gy_node bias = layer_parameter(at, "bias", (int64_t[]){layer->units}, 1, gy_init_zeros());
    gy_node y =
        gy_op_conv2d(x, filters,
                     &GY_OPTIONS(gy_conv_options, .stride = {layer->stride, layer->stride},
                                 .pad = {layer->pad, layer->pad}));
    return gy_op_add(y, gy_op_reshape(bias, (int64_t[]){layer->units, 1, 1}, 3));
}

static gy_node apply_flatten(gy_node x)
{
    const gy_type *type = type_of(x);
    if (type == NULL) {
        return x;
    }
    return gy_op_reshape(x, (int64_t[]){type->rank > 0 ? type->sizes[0] : 1, GY_ANY}, 2);
}

/* One value for each channel. */
static gy_node channel_slot(const site *at, int64_t channels, const char *what, double value,
                            gy_train_slot_kind kind)
{
    const gy_init init = {.kind = GY_INIT_CONSTANT, .scale = value};
    return layer_slot(at, what, &channels, 1, init, kind);
}

/* Keep the two assignments of a training batch to the running statistics. */
static void add_statistics(const site *at, gy_node x, gy_node mean, gy_node variance)
{
    gy_model *model = at->builder->model;
    if (GY_GROW("train.statistics", model->statistics, model->statistic_capacity,
                model->statistic_count + 2) < 0) {
        model->slot_status = GY_NOMEM;
        return;
    }
    gy_op_batch_norm_updates(x, mean, variance, momentum_of(at->layer),
                             &model->statistics[model->statistic_count]);
    model->statistic_count += 2;
}

/* In training by the batch's statistics, unless frozen, else by the running ones. */
static gy_node apply_batch_norm(const site *at, gy_node x)
{
    const gy_type *type = type_of(x);
    gy_model *model = at->builder->model;
    if (type == NULL) {
        return x;
    }
    const int64_t channels = type->rank > 1 ? type->sizes[1] : 1;
    int64_t positions = 1; /* values of a channel in one sample */
    for (int dim = 2; dim < type->rank; dim++) {
        positions *= type->sizes[dim];
    }
    gy_node gain = channel_slot(at, channels, "weight", 1, GY_SLOT_PARAMETER);
    gy_node bias = channel_slot(at, channels, "bias", 0, GY_SLOT_PARAMETER);
    gy_node mean = channel_slot(at, channels, "running_mean", 0, GY_SLOT_STATISTIC);
    gy_node variance = channel_slot(at, channels, "running_variance", 1, GY_SLOT_STATISTIC);
    const double epsilon = epsilon_of(at->layer);
    if (!at->builder->is_training || gy_train_builder_is_frozen(at->builder)) {
        return gy_op_batch_norm_inference(x, gain, bias, mean, variance, epsilon);
    }
    if (positions == 1 && model->pair_layer[0] == '\0') {
        gy_print(model->pair_layer, sizeof(model->pair_layer), "%s", at->name);
    }
    add_statistics(at, x, mean, variance);
    return gy_op_batch_norm(x, gain, bias, epsilon);
}

gy_node gy_model_layer(gy_model_builder *builder, const char *name, gy_layer layer, gy_node x)
{
    const site at = {.builder = builder, .name = name, .layer = &layer};
    const int stride = GY_MAX(layer.stride, 1);
    const gy_window_options window =
        GY_OPTIONS(gy_window_options, .window = {layer.window, layer.window},
                   .stride = {stride, stride}, .pad = {layer.pad, layer.pad});
    switch (layer.kind) {
    case GY_LAYER_DENSE:
        return apply_dense(&at, x);
    case GY_LAYER_CONV2D:
        return apply_conv2d(&at, x);
    case GY_LAYER_MAX_POOL:
        return gy_op_max_pool(x, &window);
    case GY_LAYER_AVERAGE_POOL:
        return gy_op_average_pool(x, &window);
    case GY_LAYER_RELU:
        return gy_op_relu(x);
    case GY_LAYER_TANH:
        return gy_op_tanh(x);
    case GY_LAYER_SIGMOID:
        return gy_op_sigmoid(x);
    case GY_LAYER_GELU:
        return gy_op_gelu(x);
    case GY_LAYER_DROPOUT:
        return builder->is_training && layer.rate > 0 ? gy_op_dropout(x, layer.rate) : x;
    case GY_LAYER_FLATTEN:
        return apply_flatten(x);
    case GY_LAYER_BATCH_NORM:
        return apply_batch_norm(&at, x);
    }
    gy_fail(GY_ARG, "layer %s is of kind %d, expected 0 to %d", name, (int)layer.kind,
            GY_LAYER_BATCH_NORM);
    gy_graph_fail(builder->model->graph, GY_ARG, NULL);
    return (gy_node){.graph = builder->model->graph, .index = -1};
}

gy_status gy_train_layers_build(void *arg, gy_model_builder *builder, gy_node x,
                                gy_node *logits)
{
    (void)arg;
    const gy_model *model = builder->model;
    for (int i = 0; i < model->layer_count; i++) {
        char name[GY_TRAIN_NAME_BYTES];
        gy_print(name, sizeof(name), "%s%d", kinds[model->layers[i].kind].name, i);
        builder->layer = i;
        x = gy_model_layer(builder, name, model->layers[i], x);
    }
    *logits = x;
    return GY_OK;
}
