/**
 * GPT-2's architecture over characters:
 *
 *   h = embedding[x] + positions                                (batch, length, width)
 *   for each block   h += projection(attention(norm(h)))
 *                    h += down(gelu(up(norm(h))))
 *   logits = norm(h) embedding'
 *
 * with dropout on h at first and on what each block adds. One matrix makes query, key and
 * value; its columns stand head by head, (heads, 3, width / heads), so that a part of the
 * columns is a number of whole heads.
 *
 * @source Radford et al., "Language models are unsupervised multitask learners", 2019;
 * Karpathy, nanoGPT (initial values, weights shared by embedding and head)
 */
#include "base/text.h"
#include "graph/graph.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 1000, WIDTH_MAX = 1 << 16, NAME_BYTES = 32 };

typedef struct gpt {
    gy_model_builder *builder;
    int layers, width, heads, classes;
    int64_t length;
    double dropout;
    char block[NAME_BYTES / 2]; /* what the names of its parameters begin with */
} gpt;

/* ---- configuration ---- */

static gy_status check(const gpt *g)
{
    const struct {
        const char *name;
        int value, max;
    } numbers[] = {{"layers", g->layers, LAYERS_MAX},
                   {"width", g->width, WIDTH_MAX},
                   {"heads", g->heads, WIDTH_MAX},
                   {"classes", g->classes, 1 << 24}};
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        if (numbers[i].value < 1 || numbers[i].value > numbers[i].max) {
            return gy_fail(GY_ARG, "gpt: %s is %d, expected 1 to %d", numbers[i].name,
                           numbers[i].value, numbers[i].max);
        }
    }
    if (g->width % g->heads != 0) {
        return gy_fail(GY_ARG, "gpt: width %d is not divisible by %d heads", g->width,
                       g->heads);
    }
    if (!(g->dropout >= 0 && g->dropout < 1)) {
        return gy_fail(GY_ARG, "gpt: dropout %g, expected 0 to below 1", g->dropout);
    }
    return GY_OK;
}

static gy_status parse(const char *text, gpt *g)
{
    int end = 0;
    const int found = sscanf(text, "layers %d, width %d, heads %d, dropout %lf, classes %d%n",
                             &g->layers, &g->width, &g->heads, &g->dropout, &g->classes, &end);
    if (found != 5 || text[end] != '\0') {
        return gy_fail(GY_FORMAT,
                       "gpt: configuration '%.80s', expected 'layers N, width N, "
                       "heads N, dropout P, classes N'",
                       text);
    }
    return check(g);
}

/* ---- nodes ---- */

static gy_node parameter(const gpt *g, const char *name, const int64_t *sizes, int rank,
                         double value)
{
    const gy_init init = {.kind = rank == 2 ? GY_INIT_NORMAL : GY_INIT_CONSTANT,
                          .scale = value};
    return gy_model_parameter(g->builder, name, sizes, rank, init);
}

/* The weight and the bias of `name`; their order is that of the model file. */
static void parameter_pair(const gpt *g, const char *name, const int64_t *sizes, int rank,
                           double value, gy_node pair[2])
{
    char weight[NAME_BYTES], bias[NAME_BYTES];
    gy_print(weight, sizeof(weight), "%s%s.weight", g->block, name);
    gy_print(bias, sizeof(bias), "%s%s.bias", g->block, name);
    pair[0] = parameter(g, weight, sizes, rank, value);
    pair[1] = parameter(g, bias, &sizes[rank - 1], 1, 0);
}

static gy_node norm(const gpt *g, const char *name, gy_node x)
{
    gy_node pair[2];
    parameter_pair(g, name, (int64_t[]){g->width}, 1, 1, pair);
    return gy_op_layer_norm(x, pair[0], pair[1], 1, 1e-5);
}

/* x (batch, length, inputs) -> (batch, length, outputs) */
static gy_node linear(const gpt *g, const char *name, gy_node x, const int64_t sizes[2],
                      double deviation)
{
    gy_node pair[2];
    parameter_pair(g, name, sizes, 2, deviation, pair);
    return gy_op_add(gy_op_matmul(x, pair[0]), pair[1]);
}

static gy_node drop(const gpt *g, gy_node x)
{
    return g->dropout > 0 && gy_model_is_training(g->builder) ? gy_op_dropout(x, g->dropout)
                                                              : x;
}

/* What the blocks add to, by a name for pins. */
static gy_node residual(const gpt *g, const char *name, gy_node h)
{
    char full[NAME_BYTES];
    gy_print(full, sizeof(full), "%s%s", g->block, name);
    return gy_node_named(h, full);
}

/* h (batch, length, width) -> the same */
static gy_node attention(const gpt *g, gy_node h)
{
    const int64_t width = g->width, size = g->width / g->heads;
    const int64_t parted[] = {GY_BATCH, g->length, g->heads, 3, size};
    gy_node qkv =
        gy_op_reshape(linear(g, "qkv", h, (int64_t[]){width, 3 * width}, 0.02), parted, 5);
    gy_node mixed =
        gy_op_attention_packed(qkv, &GY_OPTIONS(gy_attention_options, .is_causal = true));
    mixed = gy_op_reshape(mixed, (int64_t[]){GY_BATCH, g->length, width}, 3);
    return linear(g, "projection", mixed, (int64_t[]){width, width},
                  0.02 / sqrt(2.0 * g->layers));
}

static gy_node feed_forward(const gpt *g, gy_node h)
{
    const int64_t width = g->width;
    gy_node inner = gy_op_gelu(linear(g, "up", h, (int64_t[]){width, 4 * width}, 0.02));
    return linear(g, "down", inner, (int64_t[]){4 * width, width},
                  0.02 / sqrt(2.0 * g->layers));
}

gy_status gy_train_gpt_build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    gpt g = {.builder = builder};
    (void)arg;
    GY_TRY(parse(gy_model_configuration(builder), &g));
    const gy_type *type = gy_graph_type(x.graph, (gy_value){x.index, x.output});
    if (type->rank != 2 || type->dtype != GY_I32) {
        return gy_fail(GY_SHAPE,
                       "gpt: an input of %d dimensions of %s, expected i32 "
                       "(batch, length)",
                       type->rank, gy_dtype_name(type->dtype));
    }
    g.length = type->sizes[1];
    gy_node embedding = parameter(&g, "embedding", (int64_t[]){g.classes, g.width}, 2, 0.02);
    gy_node positions = parameter(&g, "positions", (int64_t[]){g.length, g.width}, 2, 0.02);
    gy_node h =
        residual(&g, "residual", drop(&g, gy_op_add(gy_op_embedding(embedding, x), positions)));
    for (int i = 0; i < g.layers; i++) {
        gy_print(g.block, sizeof(g.block), "block%d.", i);
        h = residual(&g, "residual1",
                     gy_op_add(h, drop(&g, attention(&g, norm(&g, "norm1", h)))));
        h = residual(&g, "residual2",
                     gy_op_add(h, drop(&g, feed_forward(&g, norm(&g, "norm2", h)))));
    }
    g.block[0] = '\0';
    *logits = gy_op_matmul_transposed(norm(&g, "norm", h), false, embedding, true);
    return GY_OK;
}

/* "1, 2 or 4" */
static const char *divisors_text(int of, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 1; i <= of; i++) {
        if (of % i == 0 && used < size) {
            const char *before = i == 1 ? "" : i == of ? " or " : ", ";
            used += gy_print(out + used, size - used, "%s%d", before, i);
        }
    }
    return out;
}

gy_status gy_train_gpt_check_pin(const gy_model *model, const char *name,
                                 const gy_parameter_pin *pin, int ranks)
{
    static const struct {
        const char *name; /* what dimension `dim` of it has head by head */
        int dim;
    } of_heads[] = {{"qkv.weight", 1}, {"qkv.bias", 0}, {"projection.weight", 0}};
    gpt g = {.builder = NULL};
    const char *last = strchr(name, '.');
    GY_ASSERT(model->build == gy_train_gpt_build && ranks >= 1);
    GY_TRY(parse(model->configuration, &g));
    for (size_t i = 0; i < GY_COUNT(of_heads) && last != NULL; i++) {
        char sizes[128];
        if (strcmp(last + 1, of_heads[i].name) != 0 || pin->placement.kind != GY_SHARD ||
            pin->placement.dim != of_heads[i].dim || g.heads % ranks == 0) {
            continue;
        }
        return gy_fail(GY_ARG,
                       "pin: %s along %s: %d heads cannot be cut over %d ranks, expected %s "
                       "ranks along %s",
                       name, pin->axis, g.heads, ranks,
                       divisors_text(g.heads, sizes, sizeof(sizes)), pin->axis);
    }
    return GY_OK;
}

gy_status gy_gpt_new(const gy_gpt_options *options, const gy_model_options *base,
                     gy_model **model)
{
    gy_gpt_options known;
    gy_model_options all;
    char text[256];
    GY_TRY(gy_options_take(gy_gpt_options, &known, options));
    GY_TRY(gy_options_take(gy_model_options, &all, base));
    const gpt g = {.layers = known.layers != 0 ? known.layers : 4,
                   .width = known.width != 0 ? known.width : 128,
                   .heads = known.heads != 0 ? known.heads : 4,
                   .classes = all.class_count,
                   .dropout = known.dropout};
    GY_TRY(check(&g));
    gy_print(text, sizeof(text), "layers %d, width %d, heads %d, dropout %.17g, classes %d",
             g.layers, g.width, g.heads, g.dropout, g.classes);
    all.name = GY_GPT_MODEL;
    all.layers = NULL;
    all.layer_count = 0;
    all.build = gy_train_gpt_build;
    all.configuration = text;
    all.input_rank = all.label_rank = 1;
    all.label_sizes[0] = all.input_sizes[0];
    all.input_dtype = GY_I32;
    return gy_model_new(&all, model);
}
