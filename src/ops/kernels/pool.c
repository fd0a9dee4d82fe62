/**
 * Pooling by own code: sixteen channels a vector in the blocked layout (float32), element by
 * element otherwise. The gradient of max pooling finds the maxima of x again: reading x once
 * more costs less than to write and read a workspace of positions.
 *
 * Planes (an image's sixteen channels, or one) are independent.
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <math.h>
#include <string.h>

/* Sizes of the large and the small side of a pooling, whichever way it runs. */
typedef struct pool_call {
    const gy_kernel_call *call;
    int64_t sizes[4];     /* large height and width, small height and width */
    int64_t large, small; /* elements of a plane */
    int64_t planes;
} pool_call;

static const gy_view *large_view(const gy_kernel_call *call)
{
    return call->op == &gy_ops_row_average_pool_gradient ? &call->outputs[0] : &call->inputs[0];
}

static const gy_view *small_view(const gy_kernel_call *call)
{
    bool is_first = call->op == &gy_ops_row_average_pool_gradient;
    bool is_second = call->op == &gy_ops_row_max_pool_gradient;
    return is_first ? &call->inputs[0] : is_second ? &call->inputs[1] : &call->outputs[0];
}

/* ---- element by element ---- */

typedef struct span {
    int64_t begin, end;
} span;

static inline span span_of(const gy_attributes *a, int d, int64_t out, int64_t size)
{
    int64_t from = out * a->pool.stride[d] - a->pool.pad[d], to = from + a->pool.window[d];
    return (span){GY_MAX(from, (int64_t)0), GY_MIN(to, size)};
}

static double share_of(const gy_attributes *a, span rows, span columns)
{
    int64_t seen = (rows.end - rows.begin) * (columns.end - columns.begin);
    int64_t all = (int64_t)a->pool.window[0] * a->pool.window[1];
    return (double)(a->pool.count_pad ? all : seen);
}

#define PLAIN(suffix, type)                                                                    \
    static int64_t first_maximum_##suffix(const type *x, span rows, span columns,              \
                                          int64_t width)                                       \
    {                                                                                          \
        int64_t best = rows.begin * width + columns.begin;                                     \
        for (int64_t r = rows.begin; r < rows.end; r++) {                                      \
            for (int64_t c = columns.begin; c < columns.end; c++) {                            \
                type old = x[best], next = x[r * width + c];                                   \
                if (next > old || (isnan(next) && !isnan(old))) {                              \
                    best = r * width + c;                                                      \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
        return best;                                                                           \
    }                                                                                          \
    static void max_plane_##suffix(const pool_call *p, int64_t plane)                          \
    {                                                                                          \
        const gy_attributes *a = p->call->attributes;                                          \
        const gy_op *op = p->call->op;                                                         \
        const type *x = (const type *)p->call->inputs[0].data + plane * p->large;              \
        const type *second = NULL;                                                             \
        type *y = (type *)p->call->outputs[0].data;                                            \
        if (op == &gy_ops_row_max_pool_gradient) {                                             \
            second = (const type *)p->call->inputs[1].data + plane * p->small;                 \
            y += plane * p->large;                                                             \
            memset(y, 0, (size_t)p->large * sizeof(type));                                     \
        } else {                                                                               \
            second = op == &gy_ops_row_max_pool                                                \
                         ? x                                                                   \
                         : (const type *)p->call->inputs[1].data + plane * p->large;           \
            y += plane * p->small;                                                             \
        }                                                                                      \
        for (int64_t i = 0; i < p->small; i++) {                                               \
            span rows = span_of(a, 0, i / p->sizes[3], p->sizes[0]);                           \
            span columns = span_of(a, 1, i % p->sizes[3], p->sizes[1]);                        \
            int64_t best = first_maximum_##suffix(x, rows, columns, p->sizes[1]);              \
            if (op == &gy_ops_row_max_pool_gradient) {                                         \
                y[best] += second[i];                                                          \
            } else {                                                                           \
                y[i] = second[best];                                                           \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    static void average_plane_##suffix(const pool_call *p, int64_t plane)                      \
    {                                                                                          \
        const gy_attributes *a = p->call->attributes;                                          \
        bool is_gradient = p->call->op == &gy_ops_row_average_pool_gradient;                   \
        type *in =                                                                             \
            (type *)p->call->inputs[0].data + plane * (is_gradient ? p->small : p->large);     \
        type *out =                                                                            \
            (type *)p->call->outputs[0].data + plane * (is_gradient ? p->large : p->small);    \
        if (is_gradient) {                                                                     \
            memset(out, 0, (size_t)p->large * sizeof(type));                                   \
        }                                                                                      \
        for (int64_t i = 0; i < p->small; i++) {                                               \
            span rows = span_of(a, 0, i / p->sizes[3], p->sizes[0]);                           \
            span columns = span_of(a, 1, i % p->sizes[3], p->sizes[1]);                        \
            double sum = 0, share = share_of(a, rows, columns);                                \
            for (int64_t r = rows.begin; r < rows.end; r++) {                                  \
                for (int64_t c = columns.begin; c < columns.end; c++) {                        \
                    if (is_gradient) {                                                         \
                        out[r * p->sizes[1] + c] += (type)((double)in[i] / share);             \
                    } else {                                                                   \
                        sum += (double)in[r * p->sizes[1] + c];                                \
                    }                                                                          \
                }                                                                              \
            }                                                                                  \
            if (!is_gradient) {                                                                \
                out[i] = (type)(sum / share);                                                  \
            }                                                                                  \
        }                                                                                      \
    }
PLAIN(f32, float)
PLAIN(f64, double)

/* ---- the call ---- */

static bool is_average(const gy_op *op)
{
    return op == &gy_ops_row_average_pool || op == &gy_ops_row_average_pool_gradient;
}

static void run_plain(const pool_call *p, int64_t begin, int64_t end)
{
    bool is_wide = p->call->inputs[0].dtype == GY_F64;
    void (*plane)(const pool_call *, int64_t) = is_wide ? max_plane_f64 : max_plane_f32;
    if (is_average(p->call->op)) {
        plane = is_wide ? average_plane_f64 : average_plane_f32;
    }
    for (int64_t i = begin; i < end; i++) {
        plane(p, i);
    }
}

static void run_blocked(const pool_call *p, int64_t begin, int64_t end)
{
    const gy_kernel_call *call = p->call;
    const float *first = call->inputs[0].data;
    float *out = call->outputs[0].data;
    int64_t large = p->large * 16, small = p->small * 16, planes = end - begin;
    const gy_attributes *a = call->attributes;
    if (call->op == &gy_ops_row_max_pool) {
        gy_tiles()->max_pool_blocked(first + begin * large, p->sizes, a, out + begin * small,
                                     planes);
    } else if (call->op == &gy_ops_row_max_pool_gradient) {
        const float *dy = (const float *)call->inputs[1].data + begin * small;
        gy_tiles()->max_pool_gradient_blocked(first + begin * large, dy, p->sizes, a,
                                              out + begin * large, planes);
    } else if (call->op == &gy_ops_row_average_pool) {
        gy_tiles()->average_pool_blocked(first + begin * large, p->sizes, a,
                                         out + begin * small, planes);
    } else {
        gy_tiles()->average_pool_gradient_blocked(first + begin * small, p->sizes, a,
                                                  out + begin * large, planes);
    }
}

static void run_planes(void *arg, int64_t begin, int64_t end)
{
    const pool_call *p = arg;
    bool is_blocked = p->call->inputs[0].format == GY_FORMAT_BLOCKED;
    (is_blocked ? run_blocked : run_plain)(p, begin, end);
}

static gy_status pool_run(const gy_kernel_call *call)
{
    const gy_view *large = large_view(call), *small = small_view(call);
    pool_call p = {
        .call = call,
        .sizes = {large->sizes[2], large->sizes[3], small->sizes[2], small->sizes[3]},
        .large = large->sizes[2] * large->sizes[3],
        .small = small->sizes[2] * small->sizes[3],
        .planes = large->sizes[0] * large->sizes[1]};
    bool is_blocked = large->format == GY_FORMAT_BLOCKED;
    if (is_blocked) {
        p.planes /= 16;
    }
    int64_t plane = GY_MAX(p.large * (is_blocked ? 16 : 1), (int64_t)1);
    gy_parallel_for(call->engine, p.planes, GY_MAX(65536 / plane, (int64_t)1), run_planes, &p);
    return GY_OK;
}

/* Blocked when an input already is; picking by another value's maxima always runs plain. */
static void pool_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs)
{
    bool any = false;
    for (int i = 0; i < query->input_count; i++) {
        any = any || query->inputs[i].format == GY_FORMAT_BLOCKED;
    }
    any = any && query->op != &gy_ops_row_max_pool_pick && query->inputs[0].dtype == GY_F32 &&
          query->inputs[0].sizes[1] % 16 == 0;
    for (int i = 0; i < query->input_count; i++) {
        inputs[i] = any ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
    }
    outputs[0] = any ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
}

static bool pool_accepts(const gy_kernel_query *query)
{
    gy_format inputs[GY_OP_INPUTS_MAX] = {0}, outputs[GY_OP_OUTPUTS_MAX] = {0};
    if (query->inputs[0].dtype != GY_F32 && query->inputs[0].dtype != GY_F64) {
        return false;
    }
    pool_formats(query, inputs, outputs);
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].format != inputs[i]) {
            return false;
        }
    }
    return query->outputs[0].format == outputs[0];
}

const gy_kernel gy_kernel_pool = {
    .name = "tiles pooling",
    .accepts = pool_accepts,
    .formats = pool_formats,
    .run = pool_run,
};
