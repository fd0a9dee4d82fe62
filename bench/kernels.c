/*
 * The kernels of a training step, one after another, without an engine: median processor time
 * of each beside its floor (flops over the peak of a core, or bytes over what the third-level
 * cache gives), and their sum.
 *
 * usage: bench_kernels [mlp|lenet|adam|gpt] [BATCH] [ROUNDS]
 */
#include "ops/kernels/libraries.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ITEMS = 64, MOST_ROUNDS = 401 };

static const double peak_flops = 268e9, cache_bytes = 100e9;

typedef struct item {
    const char *name;
    const gy_kernel *kernel;
    gy_kernel_call call;
    gy_attributes attributes;
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    gy_fused program;
    double flops, bytes;
    double seconds[MOST_ROUNDS];
} item;

static item items[MOST_ITEMS];
static int item_count;

static void must(gy_status status)
{
    if (status != GY_OK) {
        gy_panic("%s: %s", gy_status_text(status), gy_error_text());
    }
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t product(const int64_t *sizes, int rank)
{
    int64_t count = 1;
    for (int d = 0; d < rank; d++) {
        count *= sizes[d];
    }
    return count;
}

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, (int)GY_COUNT(((int64_t[]){__VA_ARGS__}))

static gy_view value(const int64_t *sizes, int rank)
{
    int64_t count = product(sizes, rank);
    float *data = gy_alloc("bench", (size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i * 7 % 13 - 6) * 0.125f;
    }
    return gy_view_of(data, GY_F32, sizes, rank);
}

static gy_view blocked(const int64_t *sizes, int rank)
{
    gy_view view = value(sizes, rank);
    view.format = GY_FORMAT_BLOCKED;
    return view;
}

/* Takes an item whose op, attributes, inputs and outputs are set. */
static void add(item *it)
{
    item *to = &items[item_count++];
    *to = *it;
    to->call.attributes = &to->attributes;
    to->call.inputs = to->inputs;
    to->call.outputs = to->outputs;
    if (to->call.op == &gy_ops_row_fused) {
        to->attributes.fused.program = &to->program;
    }
    for (int i = 0; i < to->call.input_count; i++) {
        to->bytes += (double)gy_view_bytes(&to->inputs[i]);
    }
    for (int i = 0; i < to->call.output_count; i++) {
        to->bytes += (double)gy_view_bytes(&to->outputs[i]);
    }
    gy_kernel_query query = {.op = to->call.op,
                             .attributes = &to->attributes,
                             .inputs = to->inputs,
                             .input_count = to->call.input_count,
                             .outputs = to->outputs,
                             .output_count = to->call.output_count,
                             .workers = 1};
    to->kernel = gy_kernel_choose(&query);
    if (to->kernel == NULL) {
        gy_panic("%s: no kernel", to->name);
    }
    if (to->kernel->workspace_bytes != NULL) {
        to->call.workspace = gy_alloc("bench", to->kernel->workspace_bytes(&query));
    }
    if (to->kernel->prepare != NULL) {
        must(to->kernel->prepare(&query, &to->call.state));
    }
}

static item new_item(const char *name, const gy_op *op, int inputs, int outputs)
{
    item it;
    memset(&it, 0, sizeof(it));
    it.name = name;
    it.call.op = op;
    it.call.input_count = inputs;
    it.call.output_count = outputs;
    return it;
}

static void step(item *it, const gy_op *op, int a, int b, int c)
{
    gy_fused_step *to = &it->program.steps[it->program.step_count++];
    to->op = op;
    to->inputs[0] = (int16_t)a;
    to->inputs[1] = (int16_t)b;
    to->inputs[2] = (int16_t)c;
}

static void begin_program(item *it, const gy_view *common)
{
    it->program.input_count = it->call.input_count;
    it->program.output_count = it->call.output_count;
    it->program.rank = common->rank;
    memcpy(it->program.sizes, common->sizes, sizeof(common->sizes));
}

/* ---- dense layers ---- */

static gy_view dense(gy_view x, gy_view w, gy_view bias, bool relu)
{
    item it = new_item(relu ? "x W + b, relu" : "x W + b", &gy_ops_row_matmul, 3, 1);
    it.attributes.matmul.has_bias = true;
    it.attributes.matmul.activation = relu ? GY_ACTIVATION_RELU : GY_ACTIVATION_NONE;
    it.inputs[0] = x;
    it.inputs[1] = w;
    it.inputs[2] = bias;
    it.outputs[0] = value(SIZES(x.sizes[0], w.sizes[1]));
    it.flops = 2.0 * (double)(x.sizes[0] * w.sizes[0] * w.sizes[1]);
    add(&it);
    return it.outputs[0];
}

static gy_view dense_filter_gradient(gy_view x, gy_view dy)
{
    item it = new_item("t(x) dy", &gy_ops_row_matmul, 2, 1);
    it.attributes.matmul.transpose_a = true;
    it.inputs[0] = x;
    it.inputs[1] = dy;
    it.outputs[0] = value(SIZES(x.sizes[1], dy.sizes[1]));
    it.flops = 2.0 * (double)(x.sizes[0] * x.sizes[1] * dy.sizes[1]);
    add(&it);
    return it.outputs[0];
}

static gy_view dense_input_gradient(gy_view dy, gy_view w)
{
    item it = new_item("dy t(W)", &gy_ops_row_matmul, 2, 1);
    it.attributes.matmul.transpose_b = true;
    it.inputs[0] = dy;
    it.inputs[1] = w;
    it.outputs[0] = value(SIZES(dy.sizes[0], w.sizes[0]));
    it.flops = 2.0 * (double)(dy.sizes[0] * w.sizes[0] * w.sizes[1]);
    add(&it);
    return it.outputs[0];
}

/* select(y <= 0, 0, dy) in place of dy, and its sums down to the bias. */
static gy_view relu_gradient(gy_view y, gy_view dy, gy_view *bias)
{
    item it = new_item("relu gradient, bias gradient", &gy_ops_row_fused, 3, 2);
    bool is_image = y.rank == 4;
    it.inputs[0] = y;
    it.inputs[1] = dy;
    it.inputs[2] = value(NULL, 0);
    *(float *)it.inputs[2].data = 0;
    begin_program(&it, &y);
    step(&it, &gy_ops_row_less_equal, 0, 2, 0);
    step(&it, &gy_ops_row_select, 3, 2, 1);
    it.program.outputs[0].register_index = 4;
    it.program.outputs[1] = (gy_fused_output){
        .register_index = 4, .reduction = &gy_ops_row_sum, .axes = is_image ? 13u : 1u};
    it.outputs[0] = dy;
    *bias = it.outputs[1] = value(SIZES(y.sizes[1]));
    add(&it);
    return dy;
}

static gy_view column_sums(gy_view dy)
{
    item it = new_item("bias gradient", &gy_ops_row_sum, 1, 1);
    it.attributes.reduce.axes = 1;
    it.inputs[0] = dy;
    it.outputs[0] = value(SIZES(dy.sizes[1]));
    add(&it);
    return it.outputs[0];
}

/* parameter -= rate * gradient */
static void update(gy_view parameter, gy_view gradient)
{
    item it = new_item("parameter - rate gradient", &gy_ops_row_fused, 3, 1);
    it.inputs[0] = parameter;
    it.inputs[1] = gradient;
    it.inputs[2] = value(NULL, 0);
    *(float *)it.inputs[2].data = 1e-9f;
    begin_program(&it, &parameter);
    step(&it, &gy_ops_row_mul, 1, 2, 0);
    step(&it, &gy_ops_row_sub, 0, 3, 0);
    it.program.outputs[0].register_index = 4;
    it.outputs[0] = parameter;
    add(&it);
}

/* ---- loss ---- */

/* Of logits of the size that training has: those of made-up weights lie so far apart that exp
 * gives numbers below the normal range, which this CPU handles slowly. */
static gy_view loss_gradient(const int64_t *sizes, int rank)
{
    gy_view logits = value(sizes, rank);
    int64_t rows = logits.sizes[0], classes = logits.sizes[1];
    gy_view labels = value(&rows, 1);
    labels.dtype = GY_I32;
    for (int64_t i = 0; i < rows; i++) {
        ((int32_t *)labels.data)[i] = (int32_t)(i % classes);
    }
    item loss = new_item("cross entropy", &gy_ops_row_cross_entropy, 2, 1);
    loss.inputs[0] = logits;
    loss.inputs[1] = labels;
    loss.outputs[0] = value(NULL, 0);
    add(&loss);
    item it = new_item("cross entropy gradient", &gy_ops_row_cross_entropy_gradient, 3, 1);
    it.inputs[0] = logits;
    it.inputs[1] = labels;
    it.inputs[2] = value(NULL, 0);
    it.outputs[0] = value(logits.sizes, 2);
    add(&it);
    return it.outputs[0];
}

/* ---- images ---- */

static item conv_item(const char *name, const gy_op *op, gy_view a, gy_view b, int inputs)
{
    item it = new_item(name, op, inputs, 1);
    for (int d = 0; d < 2; d++) {
        it.attributes.conv.stride[d] = 1;
        it.attributes.conv.pad[d] = 2;
    }
    it.inputs[0] = a;
    it.inputs[1] = b;
    return it;
}

static double conv_flops(const gy_view *y, const gy_view *w)
{
    return 2.0 * (double)product(y->sizes, 4) * (double)product(w->sizes + 1, 3);
}

static gy_view conv(gy_view x, gy_view w, gy_view bias)
{
    item it = conv_item("convolution, bias, relu", &gy_ops_row_conv2d, x, w, 3);
    it.attributes.conv.has_bias = true;
    it.attributes.conv.activation = GY_ACTIVATION_RELU;
    it.inputs[2] = bias;
    it.outputs[0] = blocked(SIZES(x.sizes[0], w.sizes[0], x.sizes[2], x.sizes[3]));
    it.flops = conv_flops(&it.outputs[0], &w);
    add(&it);
    return it.outputs[0];
}

static gy_view pool(gy_view x)
{
    item it = new_item("max pool", &gy_ops_row_max_pool, 1, 1);
    for (int d = 0; d < 2; d++) {
        it.attributes.pool.window[d] = it.attributes.pool.stride[d] = 2;
    }
    it.inputs[0] = x;
    it.outputs[0] = blocked(SIZES(x.sizes[0], x.sizes[1], x.sizes[2] / 2, x.sizes[3] / 2));
    add(&it);
    return it.outputs[0];
}

static gy_view pool_gradient(gy_view x, gy_view dy)
{
    item it = new_item("max pool gradient", &gy_ops_row_max_pool_gradient, 2, 1);
    for (int d = 0; d < 2; d++) {
        it.attributes.pool.window[d] = it.attributes.pool.stride[d] = 2;
    }
    it.inputs[0] = x;
    it.inputs[1] = dy;
    it.outputs[0] = blocked(x.sizes, 4);
    add(&it);
    return it.outputs[0];
}

static gy_view reorder(gy_view x, gy_format format)
{
    item it = new_item("reorder", &gy_ops_row_reorder, 1, 1);
    it.attributes.reorder.format = format;
    it.inputs[0] = x;
    it.outputs[0] = value(x.sizes, 4);
    it.outputs[0].format = format;
    add(&it);
    return it.outputs[0];
}

static gy_view dropout(gy_view x)
{
    static int64_t seed[2] = {1, 2};
    item it = new_item("dropout", &gy_ops_row_dropout, 2, 1);
    it.attributes.dropout.rate = 0.5;
    it.inputs[0] = x;
    it.inputs[1] = gy_view_of(seed, GY_I64, SIZES(2));
    it.outputs[0] = value(x.sizes, 2);
    add(&it);
    return it.outputs[0];
}

/* ---- the steps ---- */

static void make_mlp(int64_t batch)
{
    const int64_t widths[4] = {784, 512, 512, 10};
    gy_view h[4] = {value(SIZES(batch, 784))}, w[3], b[3], dw[3], db[3];
    for (int l = 0; l < 3; l++) {
        w[l] = value(SIZES(widths[l], widths[l + 1]));
        b[l] = value(SIZES(widths[l + 1]));
        h[l + 1] = dense(h[l], w[l], b[l], l < 2);
    }
    gy_view dy = loss_gradient(h[3].sizes, 2);
    db[2] = column_sums(dy);
    for (int l = 2; l >= 0; l--) {
        dw[l] = dense_filter_gradient(h[l], dy);
        if (l > 0) {
            dy = relu_gradient(h[l], dense_input_gradient(dy, w[l]), &db[l - 1]);
        }
    }
    for (int l = 0; l < 3; l++) {
        update(w[l], dw[l]);
        update(b[l], db[l]);
    }
}

static void make_lenet(int64_t batch)
{
    gy_view x = value(SIZES(batch, 1, 28, 28));
    gy_view w1 = value(SIZES(32, 1, 5, 5)), b1 = value(SIZES(32));
    gy_view w2 = value(SIZES(64, 32, 5, 5)), b2 = value(SIZES(64));
    gy_view w3 = value(SIZES(3136, 512)), b3 = value(SIZES(512));
    gy_view w4 = value(SIZES(512, 10)), b4 = value(SIZES(10));
    gy_view y1 = conv(x, w1, b1), p1 = pool(y1), y2 = conv(p1, w2, b2), p2 = pool(y2);
    gy_view flat = reorder(p2, GY_FORMAT_DENSE);
    flat = gy_view_of(flat.data, GY_F32, SIZES(batch, 3136));
    gy_view h = dense(flat, w3, b3, true), d = dropout(h), logits = dense(d, w4, b4, false);
    gy_view dy = loss_gradient(logits.sizes, 2), db[4], dw[4];
    db[3] = column_sums(dy);
    dw[3] = dense_filter_gradient(d, dy);
    gy_view dd = dropout(dense_input_gradient(dy, w4));
    gy_view dh = relu_gradient(h, dd, &db[2]);
    dw[2] = dense_filter_gradient(flat, dh);
    gy_view df = dense_input_gradient(dh, w3);
    df = gy_view_of(df.data, GY_F32, p2.sizes, 4);
    gy_view dp2 = reorder(df, GY_FORMAT_BLOCKED);
    gy_view dy2 = relu_gradient(y2, pool_gradient(y2, dp2), &db[1]);
    item it = conv_item("filter gradient", &gy_ops_row_conv2d_filter_gradient, p1, dy2, 2);
    dw[1] = it.outputs[0] = value(w2.sizes, 4);
    it.flops = conv_flops(&dy2, &w2);
    add(&it);
    it = conv_item("input gradient", &gy_ops_row_conv2d_input_gradient, dy2, w2, 2);
    gy_view dp1 = it.outputs[0] = blocked(p1.sizes, 4);
    it.flops = conv_flops(&dy2, &w2);
    add(&it);
    gy_view dy1 = relu_gradient(y1, pool_gradient(y1, dp1), &db[0]);
    it = conv_item("filter gradient", &gy_ops_row_conv2d_filter_gradient, x, dy1, 2);
    dw[0] = it.outputs[0] = value(w1.sizes, 4);
    it.flops = conv_flops(&dy1, &w1);
    add(&it);
    const gy_view w[4] = {w1, w2, w3, w4}, b[4] = {b1, b2, b3, b4};
    for (int l = 0; l < 4; l++) {
        update(w[l], dw[l]);
        update(b[l], db[l]);
    }
}

/* ---- a language model: B batches of 128 positions, 4 heads of 64, 512 classes ---- */

/* The view in bf16. */
static gy_view narrowed(gy_view wide)
{
    gy_view half = value(wide.sizes, wide.rank);
    half.dtype = GY_BF16;
    must(gy_view_copy(&half, &wide));
    return half;
}

static void attention(int64_t batch, bool is_causal, bool is_half)
{
    const int64_t t = 128, h = 4, d = 64;
    const double products = 2.0 * (double)(batch * h * t * t * d) * (is_causal ? 0.5 : 1);
    item it = new_item(is_half     ? "causal attention of bf16"
                       : is_causal ? "causal attention"
                                   : "attention",
                       &gy_ops_row_attention, 3, 2);
    it.attributes.attention.is_causal = is_causal;
    for (int i = 0; i < 3; i++) {
        it.inputs[i] = value(SIZES(batch, t, h, d));
        it.inputs[i] = is_half ? narrowed(it.inputs[i]) : it.inputs[i];
    }
    it.outputs[0] = value(SIZES(batch, t, h, d));
    it.outputs[1] = value(SIZES(batch, h, t));
    it.flops = 2 * products;
    add(&it);
    item back = new_item(is_half     ? "its gradient (causal, bf16)"
                         : is_causal ? "its gradient (causal)"
                                     : "its gradient",
                         &gy_ops_row_attention_gradient, 6, 3);
    back.attributes = it.attributes;
    memcpy(back.inputs, it.inputs, 3 * sizeof(it.inputs[0]));
    memcpy(back.inputs + 3, it.outputs, 2 * sizeof(it.outputs[0]));
    back.inputs[5] = value(SIZES(batch, t, h, d));
    back.inputs[5] = is_half ? narrowed(back.inputs[5]) : back.inputs[5];
    for (int i = 0; i < 3; i++) {
        back.outputs[i] = value(SIZES(batch, t, h, d));
    }
    back.flops = 5 * products;
    add(&back);
}

static gy_view whole_numbers(int64_t count, int64_t below)
{
    gy_view view = value(&count, 1);
    view.dtype = GY_I32;
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)view.data)[i] = (int32_t)(i * 7919 % below);
    }
    return view;
}

static void layer_norm(int64_t rows, int64_t width)
{
    item it = new_item("layer norm", &gy_ops_row_layer_norm, 3, 1);
    it.attributes.norm.axis_count = 1;
    it.attributes.norm.epsilon = 1e-5;
    it.inputs[0] = value(SIZES(rows, width));
    it.inputs[1] = it.inputs[2] = value(SIZES(width));
    it.outputs[0] = value(SIZES(rows, width));
    add(&it);
    item back = new_item("its gradient", &gy_ops_row_layer_norm_gradient, 3, 3);
    back.attributes = it.attributes;
    back.inputs[0] = it.inputs[0];
    back.inputs[1] = it.inputs[1];
    back.inputs[2] = it.outputs[0];
    back.outputs[0] = value(SIZES(rows, width));
    back.outputs[1] = value(SIZES(width));
    back.outputs[2] = value(SIZES(width));
    add(&back);
}

static void embedding(int64_t rows, int64_t words, int64_t width)
{
    item it = new_item("embedding", &gy_ops_row_gather, 2, 1);
    it.inputs[0] = value(SIZES(words, width));
    it.inputs[1] = whole_numbers(rows, words);
    it.outputs[0] = value(SIZES(rows, width));
    add(&it);
    item back = new_item("its gradient", &gy_ops_row_scatter_add, 2, 1);
    back.attributes.axis.depth = words;
    back.inputs[0] = it.outputs[0];
    back.inputs[1] = it.inputs[1];
    back.outputs[0] = value(SIZES(words, width));
    add(&back);
}

/* The products of a layer with its bias, and their gradients. */
static void gpt_product(int64_t rows, int64_t inputs, int64_t outputs)
{
    const gy_view x = value(SIZES(rows, inputs)), w = value(SIZES(inputs, outputs));
    const gy_view y = dense(x, w, value(SIZES(outputs)), false);
    (void)dense_input_gradient(y, w);
    (void)dense_filter_gradient(x, y);
    (void)column_sums(y);
}

static void make_gpt(int64_t batch)
{
    const int64_t rows = batch * 128, width = 256;
    gpt_product(rows, width, 3 * width);
    gpt_product(rows, width, width);
    gpt_product(rows, width, 4 * width);
    gpt_product(rows, 4 * width, width);
    attention(batch, true, false);
    attention(batch, true, true);
    attention(batch, false, false);
    item copy = new_item("a copy, for comparison", &gy_ops_row_broadcast_to, 1, 1);
    copy.inputs[0] = value(SIZES(rows, width));
    copy.outputs[0] = value(SIZES(rows, width));
    add(&copy);
    layer_norm(rows, width);
    embedding(rows, 512, width);
    item gelu = new_item("gelu", &gy_ops_row_gelu, 1, 1);
    gelu.inputs[0] = value(SIZES(rows, 4 * width));
    gelu.outputs[0] = value(SIZES(rows, 4 * width));
    add(&gelu);
    (void)dropout(value(SIZES(rows, width)));
    (void)loss_gradient(SIZES(rows, 512));
}

/* m, v and the parameter in place; the scalars stand for rates and their corrections. */
static void make_adam(int64_t count)
{
    item it = new_item("adam", &gy_ops_row_fused, 10, 3);
    static const float scalars[6] = {0.9f, 0.1f, 0.999f, 0.001f, 1e-8f, 1e-9f};
    for (int i = 0; i < 4; i++) {
        it.inputs[i] = value(&count, 1);
        memset(it.inputs[i].data, 0, (size_t)count * sizeof(float));
    }
    for (int i = 0; i < 6; i++) {
        it.inputs[4 + i] = value(NULL, 0);
        *(float *)it.inputs[4 + i].data = scalars[i];
    }
    begin_program(&it, &it.inputs[0]);
    step(&it, &gy_ops_row_mul, 1, 4, 0);   /* 10 */
    step(&it, &gy_ops_row_mul, 3, 5, 0);   /* 11 */
    step(&it, &gy_ops_row_add, 10, 11, 0); /* 12: m */
    step(&it, &gy_ops_row_mul, 2, 6, 0);   /* 13 */
    step(&it, &gy_ops_row_square, 3, 0, 0);
    step(&it, &gy_ops_row_mul, 14, 7, 0);
    step(&it, &gy_ops_row_add, 13, 15, 0); /* 16: v */
    step(&it, &gy_ops_row_sqrt, 16, 0, 0);
    step(&it, &gy_ops_row_add, 17, 8, 0);
    step(&it, &gy_ops_row_mul, 12, 9, 0);
    step(&it, &gy_ops_row_div, 19, 18, 0);
    step(&it, &gy_ops_row_sub, 0, 20, 0); /* 21 */
    const int16_t registers[3] = {21, 12, 16};
    for (int o = 0; o < 3; o++) {
        it.program.outputs[o].register_index = registers[o];
        it.outputs[o] = it.inputs[o];
    }
    add(&it);
}

/* The same by hand, one loop that the compiler vectorises. */
__attribute__((noinline)) static void adam_by_hand(float *restrict p, float *restrict m,
                                                   float *restrict v, const float *restrict g,
                                                   int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float gi = g[i];
        m[i] = m[i] * 0.9f + gi * 0.1f;
        v[i] = v[i] * 0.999f + gi * gi * 0.001f;
        p[i] -= m[i] * 1e-9f / (__builtin_sqrtf(v[i]) + 1e-8f);
    }
}

static int by_value(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

static double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof(double), by_value);
    return seconds[count / 2];
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "mlp";
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 64;
    int rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 101;
    rounds = GY_MAX(1, GY_MIN(rounds, (int)MOST_ROUNDS));
    static double wholes[MOST_ROUNDS], hand[MOST_ROUNDS];
    bool is_adam = strcmp(what, "adam") == 0;
    if (is_adam) {
        make_adam(669706);
    } else {
        (strcmp(what, "lenet") == 0 ? make_lenet
         : strcmp(what, "gpt") == 0 ? make_gpt
                                    : make_mlp)(batch);
    }
    for (int round = -3; round < rounds; round++) {
        double whole = cpu_seconds();
        for (int i = 0; i < item_count; i++) {
            double begun = cpu_seconds();
            must(items[i].kernel->run(&items[i].call));
            items[i].seconds[GY_MAX(round, 0)] = cpu_seconds() - begun;
        }
        wholes[GY_MAX(round, 0)] = cpu_seconds() - whole;
        if (is_adam) {
            gy_view *in = items[0].inputs;
            double begun = cpu_seconds();
            adam_by_hand(in[0].data, in[1].data, in[2].data, in[3].data, in[0].sizes[0]);
            hand[GY_MAX(round, 0)] = cpu_seconds() - begun;
        }
    }
    double floors = 0;
    printf("%-30s %-22s %9s %9s %8s %6s\n", "what", "kernel", "us", "floor us", "GFLOP/s",
           "GB/s");
    for (int i = 0; i < item_count; i++) {
        item *it = &items[i];
        double seconds = median(it->seconds, rounds);
        double floor = it->flops > 0 ? it->flops / peak_flops : it->bytes / cache_bytes;
        floors += it->flops / peak_flops;
        printf("%-30s %-22s %9.1f %9.1f %8.0f %6.0f\n", it->name, it->kernel->name,
               seconds * 1e6, floor * 1e6, it->flops / seconds * 1e-9,
               it->bytes / seconds * 1e-9);
    }
    printf("%s %lld: %.3f ms, floor of its products %.3f ms\n", what, (long long)batch,
           median(wholes, rounds) * 1e3, floors * 1e3);
    if (is_adam) {
        double seconds = median(hand, rounds);
        printf("by hand %.1f us: tiles take %.2f times that\n", seconds * 1e6,
               median(items[0].seconds, rounds) / seconds);
    }
    return 0;
}
