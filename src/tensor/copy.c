/*
 * Copies between views. The planner first reduces both views to the same few dimensions: it
 * drops sizes of 1, orders the rest by the target's strides (so that the innermost loop writes
 * forward), and merges neighbours that are gapless in both. A contiguous pair becomes one
 * memcpy or one conversion. Where the source has the two innermost dimensions in the opposite
 * order, the copy works in tiles.
 *
 * A blocked view (N,C,H,W) is the dense (N,C/16,16,H,W) with permuted strides; channels beyond
 * the last whole block are a second such view with fewer than 16 in the third dimension.
 */
#include "tensor/tensor.h"

#include "base/base.h"
#include "tensor/convert_priv.h"

#include <string.h>

typedef struct loop {
    int rank;
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int64_t to[GY_TENSOR_RANK_MAX], from[GY_TENSOR_RANK_MAX]; /* strides in elements */
} loop;

/* The dimensions of the copy, outermost first. */
static loop plan_loop(const gy_view *to, const gy_view *from)
{
    GY_ASSERT(to->rank == from->rank);
    loop plan = {.rank = 0};
    for (int dim = 0; dim < to->rank; dim++) { /* insertion sort by descending target stride */
        if (to->sizes[dim] == 1) {
            continue;
        }
        int at = plan.rank++;
        for (; at > 0 && plan.to[at - 1] < to->strides[dim]; at--) {
            plan.sizes[at] = plan.sizes[at - 1];
            plan.to[at] = plan.to[at - 1];
            plan.from[at] = plan.from[at - 1];
        }
        plan.sizes[at] = to->sizes[dim];
        plan.to[at] = to->strides[dim];
        plan.from[at] = from->strides[dim];
    }
    int kept = 0;
    for (int dim = 1; dim < plan.rank; dim++) { /* merge a dimension into the next outer one */
        if (plan.to[kept] == plan.to[dim] * plan.sizes[dim] &&
            plan.from[kept] == plan.from[dim] * plan.sizes[dim]) {
            plan.sizes[kept] *= plan.sizes[dim];
        } else {
            plan.sizes[++kept] = plan.sizes[dim];
        }
        plan.to[kept] = plan.to[dim];
        plan.from[kept] = plan.from[dim];
    }
    GY_ASSERT(kept == 0 || kept < plan.rank);
    plan.rank = plan.rank == 0 ? 0 : kept + 1;
    return plan;
}

#define DEFINE_MOVE(type)                                                                      \
    static void move_##type(void *to_data, int64_t to_stride, const void *from_data,           \
                            int64_t from_stride, int64_t count)                                \
    {                                                                                          \
        type *to = to_data;                                                                    \
        const type *from = from_data;                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            to[i * to_stride] = from[i * from_stride];                                         \
        }                                                                                      \
    }
DEFINE_MOVE(uint8_t)
DEFINE_MOVE(uint16_t)
DEFINE_MOVE(uint32_t)
DEFINE_MOVE(uint64_t)

static void copy_run(gy_run to, gy_const_run from, int64_t count)
{
    GY_ASSERT(count > 0);
    if (to.dtype != from.dtype) {
        gy_convert_run(to, from, count);
        return;
    }
    const size_t item = gy_dtype_bytes(to.dtype);
    if (count == 1 || (to.stride == 1 && from.stride == 1)) {
        memcpy(to.data, from.data, (size_t)count * item);
    } else if (item == 8) {
        move_uint64_t(to.data, to.stride, from.data, from.stride, count);
    } else if (item == 4) {
        move_uint32_t(to.data, to.stride, from.data, from.stride, count);
    } else if (item == 2) {
        move_uint16_t(to.data, to.stride, from.data, from.stride, count);
    } else {
        move_uint8_t(to.data, to.stride, from.data, from.stride, count);
    }
}

/*
 * Copy the two innermost dimensions of a transposing copy in tiles. A row that writes forward
 * reads one element from each of `count` cache lines, and the next rows of the tile read the
 * same lines again.
 */
static void copy_turned(gy_run to, gy_const_run from, const loop *plan)
{
    GY_ASSERT(plan->rank >= 2);
    enum { TILE = 16 };
    const int64_t rows = plan->sizes[plan->rank - 2], columns = plan->sizes[plan->rank - 1];
    const int64_t to_item = (int64_t)gy_dtype_bytes(to.dtype);
    const int64_t from_item = (int64_t)gy_dtype_bytes(from.dtype);
    const int64_t to_row = plan->to[plan->rank - 2], from_row = plan->from[plan->rank - 2];
    for (int64_t row = 0; row < rows; row += TILE) {
        const int64_t row_end = GY_MIN(row + TILE, rows);
        for (int64_t column = 0; column < columns; column += TILE) {
            const int64_t count = GY_MIN((int64_t)TILE, columns - column);
            for (int64_t r = row; r < row_end; r++) {
                gy_run target = to;
                gy_const_run source = from;
                target.data = (char *)to.data + (r * to_row + column * to.stride) * to_item;
                source.data =
                    (const char *)from.data + (r * from_row + column * from.stride) * from_item;
                copy_run(target, source, count);
            }
        }
    }
}

/* Copy dense views of one shape with at least one element. */
static void copy_dense(const gy_view *to, const gy_view *from)
{
    GY_ASSERT(to->format == GY_FORMAT_DENSE);
    GY_ASSERT(from->format == GY_FORMAT_DENSE);
    const loop plan = plan_loop(to, from);
    const int inner = plan.rank - 1; /* the innermost dimension is copied as one sequence */
    const bool is_turned =
        plan.rank >= 2 && plan.from[inner] > plan.from[inner - 1] && plan.from[inner - 1] > 0;
    const int64_t count = plan.rank == 0 ? 1 : plan.sizes[inner];
    const int64_t to_item = (int64_t)gy_dtype_bytes(to->dtype);
    const int64_t from_item = (int64_t)gy_dtype_bytes(from->dtype);
    gy_run target = {to->data, to->dtype, plan.rank == 0 ? 1 : plan.to[inner]};
    gy_const_run source = {from->data, from->dtype, plan.rank == 0 ? 1 : plan.from[inner]};
    int64_t place[GY_TENSOR_RANK_MAX] = {0};
    int64_t to_at = 0, from_at = 0;
    for (;;) {
        target.data = (char *)to->data + to_at * to_item;
        source.data = (const char *)from->data + from_at * from_item;
        if (is_turned) {
            copy_turned(target, source, &plan);
        } else {
            copy_run(target, source, count);
        }
        int dim = is_turned ? inner - 2 : inner - 1;
        for (; dim >= 0; dim--) { /* advance to the next index, as an odometer does */
            to_at += plan.to[dim];
            from_at += plan.from[dim];
            if (++place[dim] < plan.sizes[dim]) {
                break;
            }
            to_at -= plan.to[dim] * plan.sizes[dim];
            from_at -= plan.from[dim] * plan.sizes[dim];
            place[dim] = 0;
        }
        if (dim < 0) {
            return;
        }
    }
}

/* Channels [first, first + blocks * width) of (N,C,H,W) as dense (N,blocks,width,H,W). */
static gy_view channel_blocks(const gy_view *view, int64_t first, int64_t blocks, int64_t width)
{
    const int64_t unit = GY_BLOCK_CHANNELS;
    const int64_t height = view->sizes[2], columns = view->sizes[3];
    gy_view out = {.data = view->data,
                   .dtype = view->dtype,
                   .rank = 5,
                   .sizes = {view->sizes[0], blocks, width, height, columns}};
    int64_t start = 0;
    if (view->format == GY_FORMAT_BLOCKED) {
        const int64_t plane = height * columns * unit;
        out.strides[0] = (view->sizes[1] + unit - 1) / unit * plane;
        out.strides[1] = plane;
        out.strides[2] = 1;
        out.strides[3] = columns * unit;
        out.strides[4] = unit;
        start = first / unit * plane;
    } else {
        out.strides[0] = view->strides[0];
        out.strides[1] = view->strides[1] * unit;
        out.strides[2] = view->strides[1];
        out.strides[3] = view->strides[2];
        out.strides[4] = view->strides[3];
        start = first * view->strides[1];
    }
    out.data = (char *)view->data + start * (int64_t)gy_dtype_bytes(view->dtype);
    return out;
}

static void copy_blocked(gy_view *to, const gy_view *from)
{
    const int64_t channels = to->sizes[1];
    const int64_t whole = channels / GY_BLOCK_CHANNELS, rest = channels % GY_BLOCK_CHANNELS;
    if (whole > 0) {
        gy_view target = channel_blocks(to, 0, whole, GY_BLOCK_CHANNELS);
        gy_view source = channel_blocks(from, 0, whole, GY_BLOCK_CHANNELS);
        copy_dense(&target, &source);
    }
    if (rest > 0) {
        gy_view target = channel_blocks(to, channels - rest, 1, rest);
        gy_view source = channel_blocks(from, channels - rest, 1, rest);
        if (to->format == GY_FORMAT_BLOCKED) { /* the padding: clear the last block of each n */
            const int64_t item = (int64_t)gy_dtype_bytes(to->dtype);
            const size_t plane = (size_t)(target.strides[1] * item);
            for (int64_t n = 0; n < to->sizes[0]; n++) {
                memset((char *)target.data + n * target.strides[0] * item, 0, plane);
            }
        }
        copy_dense(&target, &source);
    }
}

gy_status gy_view_copy(gy_view *to, const gy_view *from)
{
    if (!gy_view_same_shape(to, from)) {
        char a[GY_SHAPE_TEXT_BYTES], b[GY_SHAPE_TEXT_BYTES];
        return gy_fail(GY_SHAPE, "cannot copy %s to %s", gy_view_text(from, b),
                       gy_view_text(to, a));
    }
    if (gy_view_count(to) == 0) {
        return GY_OK;
    }
    GY_ASSERT(to->data != NULL);
    GY_ASSERT(from->data != NULL);
    if (to->format == GY_FORMAT_BLOCKED || from->format == GY_FORMAT_BLOCKED) {
        GY_ASSERT(to->rank == 4);
        copy_blocked(to, from);
    } else {
        copy_dense(to, from);
    }
    return GY_OK;
}

void gy_view_zero(gy_view *view)
{
    if (gy_view_count(view) == 0) {
        return;
    }
    if (view->format == GY_FORMAT_BLOCKED || gy_view_is_contiguous(view)) {
        memset(view->data, 0, gy_view_bytes(view));
        return;
    }
    static const double zero = 0;
    gy_view source = *view; /* one zero, repeated by strides of 0 */
    memset(source.strides, 0, sizeof(source.strides));
    double copy = zero; /* all bits 0: a zero of every element type */
    source.data = &copy;
    copy_dense(view, &source);
}
