/**
 * Long short-term memory over characters, as lecture B writes it:
 *
 *   for each layer, for each time t
 *     i, f, g, o = out[t] W + h U + b      (batch, 4 hidden), gate by gate
 *     c = sigmoid(f) c + sigmoid(i) tanh(g)
 *     h = sigmoid(o) tanh(c)
 *     out[t] = h
 *
 * of ordinary nodes: what may run at once is what does not depend on one another, so layer 1
 * works on time t while layer 0 works on t + 1, on this rank's workers or in another stage. The
 * last c and h of each layer are the first of the next batch.
 *
 * @source Hochreiter & Schmidhuber 1997; Gers et al. 2000 (forget gate); lecture B, "Question:
 * How to Write Model Parallel Program?"
 */
#include "base/text.h"
#include "graph/graph.h"
#include "train/train.h"

#include <gyre/gpt.h>

#include <math.h>
#include <stdio.h>

enum {
    LAYERS_MAX = 1000,
    HIDDEN_MAX = 1 << 16,
    NAME_BYTES = 48,
    JOINED = 16,
    TABLE_MAX = 256 /* classes: as many as a byte has, fewer than the characters of a batch */
};

typedef struct lstm {
    gy_model_builder *builder;
    int layers, hidden, classes;
    int64_t length;
    double dropout;
    gy_node embedding;          /* (classes, hidden) */
    char layer[NAME_BYTES / 2]; /* what the names of its parameters begin with */
} lstm;

/* ---- configuration ---- */

static gy_status check(const lstm *m)
{
    const struct {
        const char *name;
        int value, max;
    } numbers[] = {{"layers", m->layers, LAYERS_MAX},
                   {"hidden", m->hidden, HIDDEN_MAX},
                   {"classes", m->classes, 1 << 24}};
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        if (numbers[i].value < 1 || numbers[i].value > numbers[i].max) {
            return gy_fail(GY_ARG, "lstm: %s is %d, expected 1 to %d", numbers[i].name,
                           numbers[i].value, numbers[i].max);
        }
    }
    return m->dropout >= 0 && m->dropout < 1
               ? GY_OK
               : gy_fail(GY_ARG, "lstm: dropout %g, expected 0 to below 1", m->dropout);
}

static gy_status parse(const char *text, lstm *m)
{
    int end = 0;
    const int found = sscanf(text, "layers %d, hidden %d, dropout %lf, classes %d%n",
                             &m->layers, &m->hidden, &m->dropout, &m->classes, &end);
    if (found != 4 || text[end] != '\0') {
        return gy_fail(GY_FORMAT,
                       "lstm: configuration '%.80s', expected 'layers N, hidden N, dropout P, "
                       "classes N'",
                       text);
    }
    return check(m);
}

/* ---- nodes ---- */

/* Uniform within 1 / sqrt(hidden), as PyTorch has them; of rank 1, zeros. */
static gy_node parameter(const lstm *m, const char *name, const int64_t *sizes, int rank)
{
    char full[NAME_BYTES];
    const gy_init init = {.kind = rank == 2 ? GY_INIT_UNIFORM : GY_INIT_ZEROS,
                          .scale = 1 / sqrt(m->hidden)};
    gy_print(full, sizeof(full), "%s%s", m->layer, name);
    return gy_model_parameter(m->builder, full, sizes, rank, init);
}

/* Columns of gate k of four. */
static gy_node gate(const lstm *m, gy_node gates, int k)
{
    const int64_t hidden = m->hidden;
    return gy_op_slice(gates, 1, k * hidden, (k + 1) * hidden, 1);
}

/* What the first layer adds for each character: all times take rows of one small product, so a
 * training computes it once, not at each time. Where few characters are read at a time, as in
 * generating, the product would be more than they ask for. */
static bool has_table(const lstm *m, bool is_first)
{
    return is_first && m->classes <= TABLE_MAX && gy_model_is_training(m->builder);
}

/* Times 0 to length - 1 of one layer; out[t], (batch, hidden) or of the first layer characters
 * (batch), takes its output's place. */
static void run_layer(const lstm *m, bool is_first, gy_node *out)
{
    const int64_t hidden = m->hidden;
    char cell[NAME_BYTES], state[NAME_BYTES];
    gy_print(cell, sizeof(cell), "%scell", m->layer);
    gy_print(state, sizeof(state), "%sstate", m->layer);
    const gy_node w = parameter(m, "input.weight", (int64_t[]){hidden, 4 * hidden}, 2);
    const gy_node u = parameter(m, "hidden.weight", (int64_t[]){hidden, 4 * hidden}, 2);
    const gy_node b = parameter(m, "bias", (int64_t[]){4 * hidden}, 1);
    gy_node c = gy_model_carried(m->builder, cell, &hidden, 1);
    gy_node h = gy_model_carried(m->builder, state, &hidden, 1);
    const bool by_table = has_table(m, is_first);
    const gy_node table = by_table ? gy_op_add(gy_op_matmul(m->embedding, w), b) : w;
    for (int64_t t = 0; t < m->length; t++) {
        const gy_node x =
            is_first && !by_table ? gy_op_embedding(m->embedding, out[t]) : out[t];
        const gy_node inputs =
            by_table ? gy_op_embedding(table, x) : gy_op_add(gy_op_matmul(x, w), b);
        const gy_node gates = gy_op_add(inputs, gy_op_matmul(h, u));
        const gy_node kept = gy_op_mul(gy_op_sigmoid(gate(m, gates, 1)), c);
        const gy_node added =
            gy_op_mul(gy_op_sigmoid(gate(m, gates, 0)), gy_op_tanh(gate(m, gates, 2)));
        c = gy_op_add(kept, added);
        h = gy_op_mul(gy_op_sigmoid(gate(m, gates, 3)), gy_op_tanh(c));
        out[t] = h;
    }
    gy_model_carry(m->builder, cell, c);
    gy_model_carry(m->builder, state, h);
}

/* What a layer hands to the next one in a training. */
static void drop(const lstm *m, gy_node *out)
{
    for (int64_t t = 0; t < m->length; t++) {
        out[t] = gy_op_dropout(out[t], m->dropout);
    }
}

/* (batch, hidden) at each time -> (batch, length, hidden); `out` is overwritten. */
static gy_node join(const lstm *m, gy_node *out)
{
    int64_t count = m->length;
    for (int64_t t = 0; t < count; t++) {
        out[t] = gy_op_reshape(out[t], (int64_t[]){GY_BATCH, 1, m->hidden}, 3);
    }
    while (count > 1) {
        int64_t joined = 0;
        for (int64_t t = 0; t < count; t += JOINED) {
            const int64_t parts = GY_MIN((int64_t)JOINED, count - t);
            out[joined++] = parts > 1 ? gy_op_concat(out + t, (int)parts, 1) : out[t];
        }
        count = joined;
    }
    return out[0];
}

static gy_node build(lstm *m, gy_node x, gy_node *out)
{
    m->embedding = parameter(m, "embedding", (int64_t[]){m->classes, m->hidden}, 2);
    for (int64_t t = 0; t < m->length; t++) {
        const gy_node at = gy_op_slice(x, 1, t, t + 1, 1);
        out[t] = gy_op_reshape(at, (int64_t[]){GY_BATCH}, 1);
    }
    for (int i = 0; i < m->layers; i++) {
        gy_print(m->layer, sizeof(m->layer), "layer%d.", i);
        if (i > 0 && m->dropout > 0 && gy_model_is_training(m->builder)) {
            drop(m, out);
        }
        run_layer(m, i == 0, out);
    }
    m->layer[0] = '\0';
    const gy_node weight =
        parameter(m, "decoder.weight", (int64_t[]){m->hidden, m->classes}, 2);
    const gy_node bias = parameter(m, "decoder.bias", (int64_t[]){m->classes}, 1);
    return gy_op_add(gy_op_matmul(join(m, out), weight), bias);
}

gy_status gy_train_lstm_build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    lstm m = {.builder = builder};
    (void)arg;
    GY_TRY(parse(gy_model_configuration(builder), &m));
    const gy_type *type = gy_graph_type(x.graph, (gy_value){x.index, x.output});
    if (type->rank != 2 || type->dtype != GY_I32) {
        return gy_fail(GY_SHAPE,
                       "lstm: an input of %d dimensions of %s, expected i32 "
                       "(batch, length)",
                       type->rank, gy_dtype_name(type->dtype));
    }
    m.length = type->sizes[1];
    gy_node *out = gy_alloc_zero("train.lstm", (size_t)m.length, sizeof(*out));
    if (out == NULL) {
        return GY_NOMEM;
    }
    *logits = build(&m, x, out);
    gy_free(out);
    return GY_OK;
}

gy_status gy_lstm_new(const gy_lstm_options *options, const gy_model_options *base,
                      gy_model **model)
{
    gy_lstm_options known;
    gy_model_options all;
    char text[256];
    GY_TRY(gy_options_take(gy_lstm_options, &known, options));
    GY_TRY(gy_options_take(gy_model_options, &all, base));
    const lstm m = {.layers = known.layers != 0 ? known.layers : 2,
                    .hidden = known.hidden != 0 ? known.hidden : 256,
                    .classes = all.class_count,
                    .dropout = known.dropout};
    GY_TRY(check(&m));
    gy_print(text, sizeof(text), "layers %d, hidden %d, dropout %.17g, classes %d", m.layers,
             m.hidden, m.dropout, m.classes);
    all.name = GY_LSTM_MODEL;
    all.layers = NULL;
    all.layer_count = 0;
    all.build = gy_train_lstm_build;
    all.configuration = text;
    all.input_rank = all.label_rank = 1;
    all.label_sizes[0] = all.input_sizes[0];
    all.input_dtype = GY_I32;
    return gy_model_new(&all, model);
}
