/*
 * 16-bit operands for kernels of float32, in which products of them are exact: they are widened
 * to the beginning of the workspace, and the kernel that takes the same in float32 runs there.
 * Where the CPU has no unit for them, and for f16.
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <string.h>

enum { WIDEN_CHUNK = 1 << 15, INPUTS_MAX = 6 };

typedef struct widened {
    const gy_kernel *kernel;
    void *state; /* the kernel's */
} widened;

static const gy_kernel *kernel_of(const gy_op *op)
{
    if (op == &gy_ops_row_matmul || op == &gy_ops_row_matmul_over_rows) {
        return &gy_kernel_matmul_f32;
    }
    if (op == &gy_ops_row_attention || op == &gy_ops_row_attention_gradient ||
        op == &gy_ops_row_attention_packed || op == &gy_ops_row_attention_packed_gradient) {
        return &gy_kernel_attention;
    }
    return &gy_kernel_conv_f32;
}

static bool is_half(gy_dtype dtype)
{
    return dtype == GY_BF16 || dtype == GY_F16;
}

/* The same in float32, to ask a kernel about. */
static gy_kernel_query in_f32(const gy_kernel_query *query, gy_view wide[INPUTS_MAX])
{
    gy_kernel_query same = *query;
    GY_ASSERT(query->input_count <= INPUTS_MAX);
    for (int i = 0; i < query->input_count; i++) {
        wide[i] = query->inputs[i];
        wide[i].dtype = is_half(wide[i].dtype) ? GY_F32 : wide[i].dtype;
    }
    same.inputs = wide;
    return same;
}

static bool widened_accepts(const gy_kernel_query *query)
{
    gy_view wide[INPUTS_MAX];
    const gy_dtype dtype = query->inputs[0].dtype;
    for (int i = 1; i < query->input_count; i++) {
        if (is_half(query->inputs[i].dtype) && query->inputs[i].dtype != dtype) {
            return false;
        }
    }
    const gy_kernel_query same = in_f32(query, wide);
    return is_half(dtype) && kernel_of(query->op)->accepts(&same);
}

static void widened_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs)
{
    const gy_kernel *kernel = kernel_of(query->op);
    gy_view wide[INPUTS_MAX];
    memset(inputs, 0, (size_t)query->input_count * sizeof(inputs[0]));
    memset(outputs, 0, (size_t)query->output_count * sizeof(outputs[0]));
    if (kernel->formats != NULL) {
        const gy_kernel_query same = in_f32(query, wide);
        kernel->formats(&same, inputs, outputs);
    }
}

/* Of one operand, blocked ones with whole blocks. */
static size_t bytes_of(const gy_view *view)
{
    return gy_round_up((size_t)gy_view_count(view) * sizeof(float), 64);
}

static size_t widened_workspace(const gy_kernel_query *query)
{
    gy_view wide[INPUTS_MAX];
    const gy_kernel_query same = in_f32(query, wide);
    size_t bytes = kernel_of(query->op)->workspace_bytes(&same);
    for (int i = 0; i < query->input_count; i++) {
        bytes += is_half(query->inputs[i].dtype) ? bytes_of(&query->inputs[i]) : 0;
    }
    return bytes;
}

static void widened_release(void *state)
{
    widened *w = state;
    if (w != NULL) {
        w->kernel->release(w->state);
        gy_free(w);
    }
}

static gy_status widened_prepare(const gy_kernel_query *query, void **state)
{
    gy_view wide[INPUTS_MAX];
    const gy_kernel_query same = in_f32(query, wide);
    widened *w = gy_alloc("ops.widened", sizeof(*w));
    if (w == NULL) {
        return GY_NOMEM;
    }
    *w = (widened){.kernel = kernel_of(query->op)};
    const gy_status status = w->kernel->prepare(&same, &w->state);
    if (status != GY_OK) {
        gy_free(w);
        return status;
    }
    *state = w;
    return GY_OK;
}

typedef struct widening {
    gy_tile_function run;
    const uint16_t *from;
    float *to;
    int64_t count;
} widening;

static void widen_chunks(void *arg, int64_t begin, int64_t end)
{
    const widening *w = arg;
    const int64_t first = begin * WIDEN_CHUNK, last = GY_MIN(end * WIDEN_CHUNK, w->count);
    const gy_tile tile = {
        .inputs = {w->from + first}, .output = w->to + first, .count = last - first};
    w->run(&tile);
}

static gy_status widened_run(const gy_kernel_call *call)
{
    const widened *w = call->state;
    char *memory = call->workspace;
    gy_view wide[INPUTS_MAX];
    gy_kernel_call same = *call;
    GY_ASSERT(w->kernel == kernel_of(call->op) && call->input_count <= INPUTS_MAX);
    for (int i = 0; i < call->input_count; i++) {
        wide[i] = call->inputs[i];
        if (!is_half(wide[i].dtype)) {
            continue;
        }
        widening all = {.run = gy_tiles()->find(GY_CODE_cast, wide[i].dtype, GY_F32),
                        .from = wide[i].data,
                        .to = (float *)(void *)memory,
                        .count = gy_view_count(&wide[i])};
        gy_parallel_for(call->engine, (all.count + WIDEN_CHUNK - 1) / WIDEN_CHUNK, 1,
                        widen_chunks, &all);
        wide[i].dtype = GY_F32;
        wide[i].data = memory;
        memory += bytes_of(&wide[i]);
    }
    same.inputs = wide;
    same.workspace = memory;
    same.state = w->state;
    return w->kernel->run(&same);
}

const gy_kernel gy_kernel_widened = {
    .name = "widened to f32",
    .accepts = widened_accepts,
    .formats = widened_formats,
    .workspace_bytes = widened_workspace,
    .prepare = widened_prepare,
    .release = widened_release,
    .run = widened_run,
};
