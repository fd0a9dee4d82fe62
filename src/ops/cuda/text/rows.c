/*
 * Rows that work along lines: softmax, log-softmax, cross entropy and its gradient, argmax,
 * running sums. A value is (outer, length, inner); a line is `length` elements, `inner` apart.
 * A block takes a line: its threads every so many elements, then a tree. Sums are doubles. A
 * running sum is one thread's.
 */
#include "ops/cuda/text/text_priv.h"

enum { NUMBER_BYTES = 16 };

typedef struct lines {
    int64_t outer, length, inner;
} lines;

static lines lines_of(const gy_view *view, int dim)
{
    lines of = {1, view->sizes[dim], 1};
    for (int d = 0; d < view->rank; d++) {
        *(d < dim ? &of.outer : &of.inner) *= d == dim ? 1 : view->sizes[d];
    }
    return of;
}

static void number_lines(gy_cuda_writer *w, const lines *of)
{
    gy_cuda_fields(w, 0);
    gy_cuda_number(w, "count", of->outer * of->inner);
    gy_cuda_number(w, "length", of->length);
    gy_cuda_number(w, "inner", of->inner);
}

/* A snippet with the keys of most of them: $T element type, $f its suffix, $N type of a place,
 * $I type of the index input, $B threads of a block. */
static void print_typed(gy_cuda_writer *w, const char *snippet, int threads)
{
    const gy_kernel_call *call = w->call;
    const gy_dtype type = call->inputs[0].dtype;
    char block[NUMBER_BYTES];
    (void)gy_print(block, sizeof(block), "%d", threads);
    const gy_cuda_key keys[] = {
        {"T", gy_cuda_type_name(type)},
        {"N", gy_cuda_whole_name(gy_view_count(&call->inputs[0]))},
        {"f", gy_cuda_suffix(type)},
        {"I", gy_cuda_type_name(call->inputs[call->input_count > 1 ? 1 : 0].dtype)},
        {"B", block},
        {NULL, NULL}};
    gy_cuda_print(w, snippet, keys);
}

/* ---- softmax, log-softmax ---- */

/* The line's maximum (a NaN makes the sum one) and the sum of exp(x - maximum), in one pass: a
 * thread's sum is of its own maximum so far. It loads eight numbers before it looks at them.
 * @source Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 */
#define LINE_SUM                                                                               \
    "    const $T lowest = -($T)gy_infinity();\n"                                              \
    "    $T best = lowest;\n"                                                                  \
    "    double sum = 0;\n"                                                                    \
    "    for ($N first = ($N)threadIdx.x; first < length; first += 8 * $B) {\n"                \
    "        $T own[8], most = best, part = 0;\n"                                              \
    "        for (int n = 0; n < 8; n++) {\n"                                                  \
    "            const $N k = first + n * $B;\n"                                               \
    "            own[n] = k < length ? x[k * inner] : lowest;\n"                               \
    "            most = fmax$f(most, own[n]);\n"                                               \
    "        }\n"                                                                              \
    "        const $T level = most == lowest ? 0 : most;\n"                                    \
    "        for (int n = 0; n < 8; n++) {\n"                                                  \
    "            part += first + n * $B < length ? exp$f(own[n] - level) : 0;\n"               \
    "        }\n"                                                                              \
    "        sum = sum * (double)exp$f(best - level) + (double)part;\n"                        \
    "        best = most;\n"                                                                   \
    "    }\n"                                                                                  \
    "    const $T shift = ($T)gy_tree_max(shared, (double)best);\n"                            \
    "    sum = sum > 0 ? sum * (double)exp$f(best - shift) : sum;\n"                           \
    "    sum = gy_tree_sum(shared, sum);\n"

/* `value` of x, four at a time: loads do not wait for stores. */
#define LINE_STORE(value)                                                                      \
    "    $T *to = g.out0 + begin;\n"                                                           \
    "    for ($N first = ($N)threadIdx.x; first < length; first += 4 * $B) {\n"                \
    "        $T own[4];\n"                                                                     \
    "        for (int n = 0; n < 4; n++) {\n"                                                  \
    "            const $N k = first + n * $B;\n"                                               \
    "            own[n] = k < length ? x[k * inner] : 0;\n"                                    \
    "        }\n"                                                                              \
    "        for (int n = 0; n < 4; n++) {\n"                                                  \
    "            const $N k = first + n * $B;\n"                                               \
    "            if (k < length) {\n"                                                          \
    "                to[k * inner] = " value ";\n"                                             \
    "            }\n"                                                                          \
    "        }\n"                                                                              \
    "    }\n"

#define LINE                                                                                   \
    "    __shared__ double shared[$B];\n"                                                      \
    "    const long long line = blockIdx.x;\n"                                                 \
    "    const $N length = ($N)g.length, inner = ($N)g.inner;\n"                               \
    "    const long long begin = line / g.inner * g.length * g.inner + line % g.inner;\n"      \
    "    const $T *x = g.in0 + begin;\n"

static const char softmax_text[] =
    "GY_BLOCK_KERNEL(gy_softmax)\n"
    "{\n" LINE LINE_SUM
    "    const $T scale = ($T)(1 / sum);\n" LINE_STORE("exp$f(own[n] - shift) * scale") "}\n";

static const char log_softmax_text[] =
    "GY_BLOCK_KERNEL(gy_softmax)\n"
    "{\n" LINE LINE_SUM
    "    const $T rest = ($T)log(sum);\n" LINE_STORE("own[n] - shift - rest") "}\n";

void gy_cuda_write_softmax(gy_cuda_writer *w)
{
    const lines of = lines_of(&w->call->inputs[0], w->call->attributes->axis.dim);
    const bool is_log = w->call->op == &gy_ops_row_log_softmax;
    const int threads = gy_cuda_line_threads(of.length);
    number_lines(w, &of);
    print_typed(w, is_log ? log_softmax_text : softmax_text, threads);
    gy_cuda_launch_blocks(w, "gy_softmax", of.length > 0 ? of.outer * of.inner : 0, threads);
}

/* ---- cross entropy and its gradient ---- */

/* The label of a block's row, of all threads alike; a wrong one leaves the row. */
#define LABEL                                                                                  \
    "    __shared__ double shared[$B];\n"                                                      \
    "    const long long row = blockIdx.x, begin = row * g.length;\n"                          \
    "    const $N length = ($N)g.length, inner = 1;\n"                                         \
    "    const $T *x = g.in0 + begin;\n"                                                       \
    "    const long long label = (long long)g.in1[row];\n"                                     \
    "    if (label < 0 || label >= length) {\n"                                                \
    "        if (threadIdx.x == 0) {\n"                                                        \
    "            atomicMin(g.fault, (unsigned long long)row);\n"                               \
    "        }\n"                                                                              \
    "        return;\n"                                                                        \
    "    }\n"

static const char loss_text[] =
    "GY_BLOCK_KERNEL(gy_losses)\n"
    "{\n" LABEL LINE_SUM "    if (threadIdx.x == 0) {\n"
    "        g.workspace[row] = log(sum) + (double)shift - (double)x[label];\n"
    "    }\n"
    "}\n"
    "GY_BLOCK_KERNEL(gy_total)\n"
    "{\n"
    "    __shared__ double shared[256];\n"
    "    double sum = 0;\n"
    "    for (long long row = threadIdx.x; row < g.count; row += 256) {\n"
    "        sum += g.workspace[row];\n"
    "    }\n"
    "    sum = gy_tree_sum(shared, sum);\n"
    "    if (threadIdx.x == 0) {\n"
    "        g.out0[0] = ($T)(sum / g.rows);\n"
    "    }\n"
    "}\n";

/* Of an infinite share no two infinities may be subtracted: (p - 1) share is the slope. */
static const char loss_gradient_text[] =
    "GY_BLOCK_KERNEL(gy_slopes)\n"
    "{\n" LABEL LINE_SUM
    "    const $T scale = ($T)(1 / sum), share = ($T)((double)g.in2[0] / g.rows);\n" LINE_STORE(
        "(exp$f(own[n] - shift) * scale - (k == label ? ($T)1 : ($T)0)) * share") "}\n";

/* Rows of all ranks. */
static double all_rows(const gy_kernel_call *call)
{
    double rows = 1;
    for (int dim = 0; dim < call->inputs[1].rank; dim++) {
        rows *= (double)(call->input_types != NULL ? call->input_types[1].sizes[dim]
                                                   : call->inputs[1].sizes[dim]);
    }
    return rows;
}

void gy_cuda_write_cross_entropy(gy_cuda_writer *w)
{
    const gy_view *logits = &w->call->inputs[0];
    const lines of = lines_of(logits, logits->rank - 1);
    const int threads = gy_cuda_line_threads(of.length);
    if (w->call->inputs[1].dtype == GY_U64) {
        gy_cuda_refuse(w, "labels are u64");
        return;
    }
    number_lines(w, &of);
    gy_cuda_real(w, "rows", all_rows(w->call));
    gy_cuda_check_index(w, 1, "label", of.length);
    if (w->call->op == &gy_ops_row_cross_entropy) {
        print_typed(w, loss_text, threads);
        w->text->workspace_bytes = (size_t)of.outer * sizeof(double);
        gy_cuda_launch_blocks(w, "gy_losses", of.outer, threads);
        gy_cuda_launch_blocks(w, "gy_total", 1, GY_CUDA_THREADS);
    } else {
        print_typed(w, loss_gradient_text, threads);
        gy_cuda_launch_blocks(w, "gy_slopes", of.outer, threads);
    }
}

/* ---- argmax ---- */

/* The first of equals; what is no number is more than any. A thread without elements has place
 * -1. */
static const char argmax_text[] =
    "GY_BLOCK_KERNEL(gy_argmax)\n"
    "{\n"
    "    __shared__ $T values[$B];\n"
    "    __shared__ long long places[$B];\n"
    "    const unsigned t = threadIdx.x;\n"
    "    const long long line = blockIdx.x, length = g.length, inner = g.inner;\n"
    "    const $T *x = g.in0 + line / inner * length * inner + line % inner;\n"
    "    $T best = x[0];\n"
    "    long long place = -1;\n"
    "    for (long long k = t; k < length; k += $B) {\n"
    "        const $T a = x[k * inner], b = best;\n"
    "        if (place < 0 || a > b || (a != a && b == b)) {\n"
    "            best = a;\n"
    "            place = k;\n"
    "        }\n"
    "    }\n"
    "    values[t] = best;\n"
    "    places[t] = place;\n"
    "    for (unsigned half = $B / 2; half > 0; half /= 2) {\n"
    "        __syncthreads();\n"
    "        if (t < half && places[t + half] >= 0) {\n"
    "            const $T a = values[t + half], b = values[t];\n"
    "            const int is_more = a > b || (a != a && b == b);\n"
    "            const int is_less = b > a || (b != b && a == a);\n"
    "            if (places[t] < 0 || is_more || (!is_less && places[t + half] < places[t])) "
    "{\n"
    "                values[t] = a;\n"
    "                places[t] = places[t + half];\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    if (t == 0) {\n"
    "        g.out0[line] = places[0];\n"
    "    }\n"
    "}\n";

void gy_cuda_write_argmax(gy_cuda_writer *w)
{
    const lines of = lines_of(&w->call->inputs[0], w->call->attributes->axis.dim);
    const int threads = gy_cuda_line_threads(of.length);
    GY_ASSERT(of.length > 0);
    number_lines(w, &of);
    print_typed(w, argmax_text, threads);
    gy_cuda_launch_blocks(w, "gy_argmax", of.outer * of.inner, threads);
}

/* ---- running sums ---- */

static const char cumsum_text[] =
    "GY_KERNEL(gy_cumsum)\n"
    "{\n"
    "    const long long line = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (line >= g.count) {\n"
    "        return;\n"
    "    }\n"
    "    const long long length = g.length, inner = g.inner;\n"
    "    const long long begin = line / inner * length * inner + line % inner;\n"
    "    $A sum = 0;\n"
    "    for (long long n = 0; n < length; n++) {\n"
    "        const long long at = begin + (g.is_reverse != 0 ? length - 1 - n : n) * inner;\n"
    "        sum += ($A)g.in0[at];\n"
    "        g.out0[at] = ($T)sum;\n"
    "    }\n"
    "}\n";

void gy_cuda_write_cumsum(gy_cuda_writer *w)
{
    const gy_dtype type = w->call->inputs[0].dtype;
    const lines of = lines_of(&w->call->inputs[0], w->call->attributes->axis.dim);
    const int64_t count = of.outer * of.inner;
    number_lines(w, &of);
    gy_cuda_number(w, "is_reverse", w->call->attributes->axis.is_reverse);
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(type)},
                                {"A", gy_dtype_is_real(type) ? "double" : "unsigned long long"},
                                {NULL, NULL}};
    gy_cuda_print(w, cumsum_text, keys);
    gy_cuda_launch_blocks(w, "gy_cumsum", (count + GY_CUDA_THREADS - 1) / GY_CUDA_THREADS,
                          GY_CUDA_THREADS);
}
