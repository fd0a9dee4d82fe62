/*
 * Rows that move elements without looking at them, as unsigned types of their size, and rows
 * that write one value: a thread for each element of the output, which is contiguous. A
 * transposition goes by tiles in shared memory, so that both sides are read and written in
 * lines.
 */
#include "ops/cuda/text/text_priv.h"

#include <string.h>

enum { NAME_BYTES = 32 };

#define EACH(count)                                                                            \
    "    const $N step = ($N)gridDim.x * blockDim.x;\n"                                        \
    "    $N i = ($N)blockIdx.x * blockDim.x + threadIdx.x;\n"                                  \
    "    for (; i < " count "; i += step) {\n"

static const gy_cuda_key no_keys[] = {{NULL, NULL}};

/* ---- copies of a view with other strides ---- */

/* Dimensions of one element go, those that run together are one. */
static void join_dimensions(gy_view *view)
{
    int rank = 0;
    for (int dim = 0; dim < view->rank; dim++) {
        const int64_t size = view->sizes[dim], stride = view->strides[dim];
        if (size == 1) {
            continue;
        }
        if (rank > 0 && view->strides[rank - 1] == stride * size) {
            view->sizes[rank - 1] *= size;
            view->strides[rank - 1] = stride;
        } else {
            view->sizes[rank] = size;
            view->strides[rank++] = stride;
        }
    }
    view->rank = rank;
}

/* The dimension along which memory lies where the last one is another; -1: none, or either is
 * too short for tiles. */
static int turned_dim(const gy_view *view)
{
    enum { SHORT = 8 };
    const int last = view->rank - 1;
    for (int dim = 0; dim < last; dim++) {
        if (view->strides[dim] == 1 && view->strides[last] > 1 && view->sizes[dim] >= SHORT &&
            view->sizes[last] >= SHORT) {
            return dim;
        }
    }
    return -1;
}

/*
 * A block turns a tile of 32 by 32: it reads along the dimension where the input's elements lie
 * side by side, and writes along the last. Lines of the tile are 33 apart, so that neither way
 * meets a bank twice.
 * @source Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009
 */
static void write_turned(gy_cuda_writer *w, const gy_view *view, int dim)
{
    const int last = view->rank - 1;
    char name[NAME_BYTES], read[16], lines[16];
    int64_t to = 1, blocks = 1;
    (void)gy_print(lines, sizeof(lines), "%d", last);
    (void)gy_print(read, sizeof(read), "%d", dim);
    for (int d = last; d >= 0; d--) {
        (void)gy_print(name, sizeof(name), "to%d", d);
        gy_cuda_number(w, name, to);
        to *= view->sizes[d];
        const bool is_tiled = d == last || d == dim;
        (void)gy_print(name, sizeof(name), "tiles%d", d);
        const int64_t tiles = is_tiled ? (view->sizes[d] + 31) / 32 : view->sizes[d];
        gy_cuda_number(w, name, tiles);
        blocks *= tiles;
    }
    const gy_cuda_key keys[] = {{"T", gy_cuda_bits_name(w->call->inputs[0].dtype)},
                                {"K", read},
                                {"L", lines},
                                {NULL, NULL}};
    gy_cuda_print(w,
                  "GY_BLOCK_KERNEL(gy_copy)\n"
                  "{\n"
                  "    __shared__ $T tile[32 * 33];\n"
                  "    const $N x = ($N)threadIdx.x % 32, lane = ($N)threadIdx.x / 32;\n"
                  "    $N rest = ($N)blockIdx.x, at = g.begin, to = 0;\n"
                  "    const $N first$L = rest % g.tiles$L * 32;\n"
                  "    rest /= g.tiles$L;\n"
                  "    const $N first$K = rest % g.tiles$K * 32;\n"
                  "    rest /= g.tiles$K;\n",
                  keys);
    for (int d = last - 1; d >= 0; d--) {
        if (d != dim) {
            gy_text_add(&w->kernels, "    at += rest %% g.size%d * g.stride%d;\n", d, d);
            gy_text_add(&w->kernels, "    to += rest %% g.size%d * g.to%d;\n", d, d);
            gy_text_add(&w->kernels, "    rest /= g.size%d;\n", d);
        }
    }
    gy_cuda_print(w,
                  "    for ($N line = lane; line < 32; line += 8) {\n"
                  "        const $N k = first$K + x, l = first$L + line;\n"
                  "        if (k < g.size$K && l < g.size$L) {\n"
                  "            tile[line * 33 + x] = g.in0[at + l * g.stride$L + k];\n"
                  "        }\n"
                  "    }\n"
                  "    __syncthreads();\n"
                  "    for ($N line = lane; line < 32; line += 8) {\n"
                  "        const $N k = first$K + line, l = first$L + x;\n"
                  "        if (k < g.size$K && l < g.size$L) {\n"
                  "            g.out0[to + k * g.to$K + l] = tile[x * 33 + line];\n"
                  "        }\n"
                  "    }\n"
                  "}\n",
                  keys);
    gy_cuda_launch_blocks(w, "gy_copy", blocks, GY_CUDA_THREADS);
}

/* The elements of `from`, which begins `begin` elements behind the input, in its order. */
static void write_copy(gy_cuda_writer *w, const gy_view *from, int64_t begin)
{
    gy_view view = *from;
    char name[NAME_BYTES];
    const int64_t count = gy_view_count(&view);
    join_dimensions(&view);
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES);
    gy_cuda_number(w, "count", count);
    gy_cuda_number(w, "begin", begin);
    for (int dim = 0; dim < view.rank; dim++) {
        (void)gy_print(name, sizeof(name), "size%d", dim);
        gy_cuda_number(w, name, view.sizes[dim]);
        (void)gy_print(name, sizeof(name), "stride%d", dim);
        gy_cuda_number(w, name, view.strides[dim]);
    }
    const int turned = turned_dim(&view);
    if (turned >= 0 && count > 0) {
        write_turned(w, &view, turned);
        return;
    }
    gy_cuda_print(w,
                  "GY_KERNEL(gy_copy)\n{\n" EACH("g.count") "        $N rest = i, at = "
                                                            "g.begin;\n",
                  no_keys);
    for (int dim = view.rank - 1; dim >= 0; dim--) {
        gy_text_add(&w->kernels, "        at += rest %% g.size%d * g.stride%d;\n", dim, dim);
        gy_text_add(&w->kernels, "        rest /= g.size%d;\n", dim);
    }
    gy_cuda_print(w, "        g.out0[i] = g.in0[at];\n    }\n}\n", no_keys);
    gy_cuda_launch_each(w, "gy_copy", count);
}

void gy_cuda_write_copy(gy_cuda_writer *w)
{
    const gy_view *x = &w->call->inputs[0], *y = &w->call->outputs[0];
    if (w->call->op == &gy_ops_row_transpose) {
        int dims[GY_TENSOR_RANK_MAX];
        for (int i = 0; i < x->rank; i++) {
            dims[i] = w->call->attributes->permute.dims[i];
        }
        const gy_view turned = gy_view_permute(x, dims);
        write_copy(w, &turned, 0);
    } else if (w->call->op == &gy_ops_row_broadcast_to) {
        const gy_view spread = gy_view_spread(x, y->sizes, y->rank);
        write_copy(w, &spread, 0);
    } else {
        write_copy(w, x, 0);
    }
}

void gy_cuda_write_slice(gy_cuda_writer *w)
{
    const gy_attributes *of = w->call->attributes;
    gy_view view = w->call->inputs[0];
    const int dim = of->slice.dim;
    const int64_t begin = of->slice.begin * view.strides[dim];
    view.sizes[dim] = w->call->outputs[0].sizes[dim];
    view.strides[dim] = view.sizes[dim] > 1 ? view.strides[dim] * of->slice.step : 0;
    write_copy(w, &view, begin);
}

/* The part of a value that every rank has which is this rank's. Of a sum's parts all are 0 but
 * one rank's, and a kernel is not told its rank. */
void gy_cuda_write_shard(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    gy_view view = call->inputs[0];
    int64_t begin = 0;
    if (call->attributes->move.to.kind == GY_PARTIAL) {
        gy_cuda_refuse(w, "a part of a sum depends on the rank");
        return;
    }
    GY_ASSERT(view.rank == call->outputs[0].rank);
    for (int dim = 0; dim < view.rank; dim++) {
        const int64_t own = call->input_offsets != NULL ? call->input_offsets[0][dim] : 0;
        const int64_t at = call->output_offsets != NULL ? call->output_offsets[0][dim] : own;
        begin += (at - own) * view.strides[dim];
        view.sizes[dim] = call->outputs[0].sizes[dim];
    }
    GY_ASSERT(begin >= 0);
    write_copy(w, &view, begin);
}

/* ---- lines that are put side by side, or apart ---- */

/* Sizes before and after dimension `dim`. */
static void number_around(gy_cuda_writer *w, const gy_view *view, int dim)
{
    int64_t inner = 1;
    for (int d = dim + 1; d < view->rank; d++) {
        inner *= view->sizes[d];
    }
    gy_cuda_number(w, "count", gy_view_count(view));
    gy_cuda_number(w, "inner", inner);
    gy_cuda_number(w, "length", view->sizes[dim]);
}

#define AROUND                                                                                 \
    "        const $N inner = i % g.inner, at = i / g.inner % g.length;\n"                     \
    "        const $N outer = i / g.inner / g.length;\n"

static const char pad_text[] = "GY_KERNEL(gy_pad)\n"
                               "{\n" EACH("g.count") AROUND
    "        const $N k = (at - g.begin) / g.step;\n"
    "        const int is_here = at >= g.begin && (at - g.begin) % g.step == 0 && k < "
    "g.taken;\n"
    "        g.out0[i] = is_here ? g.in0[(outer * g.taken + k) * g.inner + inner] : 0;\n"
    "    }\n"
    "}\n";

void gy_cuda_write_pad(gy_cuda_writer *w)
{
    const gy_attributes *of = w->call->attributes;
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES);
    number_around(w, &w->call->outputs[0], of->slice.dim);
    gy_cuda_number(w, "begin", of->slice.begin);
    gy_cuda_number(w, "step", of->slice.step);
    gy_cuda_number(w, "taken", w->call->inputs[0].sizes[of->slice.dim]);
    gy_cuda_print(w, pad_text, no_keys);
    gy_cuda_launch_each(w, "gy_pad", gy_view_count(&w->call->outputs[0]));
}

void gy_cuda_write_concat(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const int dim = call->attributes->axis.dim;
    int64_t end = 0;
    char name[NAME_BYTES];
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES_ALL);
    number_around(w, &call->outputs[0], dim);
    gy_cuda_print(w, "GY_KERNEL(gy_concat)\n{\n" EACH("g.count") AROUND, no_keys);
    for (int k = 0; k < call->input_count; k++) {
        const int64_t size = call->inputs[k].sizes[dim];
        (void)gy_print(name, sizeof(name), "begin%d", k);
        gy_cuda_number(w, name, end);
        (void)gy_print(name, sizeof(name), "size%d", k);
        gy_cuda_number(w, name, size);
        end += size;
        gy_text_add(&w->kernels,
                    "        if (at >= g.begin%d && at < g.begin%d + g.size%d) {\n"
                    "            const %s from = outer * g.size%d + at - g.begin%d;\n"
                    "            g.out0[i] = g.in%d[from * g.inner + inner];\n"
                    "        }\n",
                    k, k, k, w->is_short ? "int" : "long long", k, k, k);
    }
    gy_cuda_print(w, "    }\n}\n", no_keys);
    gy_cuda_launch_each(w, "gy_concat", gy_view_count(&call->outputs[0]));
}

/* ---- one value ---- */

/* The bits of an element that is `value`, by the conversions of gy_view_copy. */
static int64_t bits_of(gy_dtype dtype, double value)
{
    uint64_t bits = 0;
    gy_element_set(dtype, &bits, 0, value);
    return (int64_t)bits;
}

static void write_value(gy_cuda_writer *w, double value)
{
    const gy_view *y = &w->call->outputs[0];
    const gy_cuda_key keys[] = {{"T", gy_cuda_bits_name(y->dtype)}, {NULL, NULL}};
    gy_cuda_fields(w, GY_CUDA_MOVES_OUT);
    gy_cuda_number(w, "count", gy_view_count(y));
    gy_cuda_number(w, "bits", bits_of(y->dtype, value));
    gy_cuda_print(
        w,
        "GY_KERNEL(gy_fill)\n{\n" EACH("g.count") "        g.out0[i] = ($T)g.bits;\n    }\n}\n",
        keys);
    gy_cuda_launch_each(w, "gy_fill", gy_view_count(y));
}

void gy_cuda_write_fill(gy_cuda_writer *w)
{
    write_value(w, w->call->attributes->shape.value);
}

/* How many elements the axes hold globally: sizes are known, nothing is read. */
void gy_cuda_write_count(gy_cuda_writer *w)
{
    const gy_view *x = &w->call->inputs[0];
    const uint32_t axes = gy_reduce_axes(w->call->attributes->reduce.axes, x->rank);
    double count = 1;
    for (int dim = 0; dim < x->rank; dim++) {
        const int64_t size =
            w->call->input_types != NULL ? w->call->input_types[0].sizes[dim] : x->sizes[dim];
        count *= (axes >> dim & 1u) != 0 ? (double)size : 1;
    }
    write_value(w, count);
}
