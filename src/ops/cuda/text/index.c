/*
 * Rows that read or write where an integer says. An index out of range leaves its element alone
 * and its place, the smallest of all, in *fault. A sum into rows first notes between which
 * places each row is named; then a block a row looks there for its places and adds up in their
 * order: no atomics on values, the bits of the plain definition.
 */
#include "ops/cuda/text/text_priv.h"

#define EACH                                                                                   \
    "    const $N step = ($N)gridDim.x * blockDim.x;\n"                                        \
    "    $N i = ($N)blockIdx.x * blockDim.x + threadIdx.x;\n"                                  \
    "    for (; i < g.count; i += step) {\n"
#define CHECK(place)                                                                           \
    "        if (index < 0 || index >= g.all) {\n"                                             \
    "            atomicMin(g.fault, (unsigned long long)(" place "));\n"                       \
    "            continue;\n"                                                                  \
    "        }\n"

/* $T: type of elements, or of their bits. */
static void print_typed(gy_cuda_writer *w, const char *snippet, const char *type)
{
    const gy_cuda_key keys[] = {{"T", type}, {NULL, NULL}};
    gy_cuda_print(w, snippet, keys);
}

static int64_t product(const gy_view *view, int from, int to)
{
    int64_t count = 1;
    for (int dim = from; dim < to; dim++) {
        count *= view->sizes[dim];
    }
    return count;
}

/* u64 is storage: no index. */
static bool takes_index(gy_cuda_writer *w, int input)
{
    if (w->call->inputs[input].dtype == GY_U64) {
        gy_cuda_refuse(w, "indices are u64");
        return false;
    }
    return true;
}

static void number_rows(gy_cuda_writer *w)
{
    const gy_ops_rows rows = gy_call_rows(w->call);
    gy_cuda_number(w, "all", rows.all);
    gy_cuda_number(w, "begin", rows.begin);
    gy_cuda_number(w, "here", rows.count);
    gy_cuda_check_index(w, 1, "index", rows.all);
}

/* ---- gather, scatter_add ---- */

static const char gather_text[] =
    "GY_KERNEL(gy_gather)\n"
    "{\n" EACH "        const $N right = i % g.right, some = i / g.right % g.some;\n"
    "        const $N left = i / g.right / g.some;\n"
    "        const long long index = (long long)g.in1[some];\n" CHECK(
        "some") "        const long long row = index - g.begin;\n"
                "        const int is_here = row >= 0 && row < g.here;\n"
                "        g.out0[i] = is_here ? g.in0[(left * g.here + row) * g.right + right] "
                ": 0;\n"
                "    }\n"
                "}\n";

void gy_cuda_write_gather(gy_cuda_writer *w)
{
    const gy_view *a = &w->call->inputs[0], *y = &w->call->outputs[0];
    const int dim = w->call->attributes->axis.dim;
    if (!takes_index(w, 1)) {
        return;
    }
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES);
    gy_cuda_number(w, "count", gy_view_count(y));
    gy_cuda_number(w, "some", gy_view_count(&w->call->inputs[1]));
    gy_cuda_number(w, "right", product(a, dim + 1, a->rank));
    number_rows(w);
    print_typed(w, gather_text, "");
    gy_cuda_launch_each(w, "gy_gather", gy_view_count(y));
}

/* Of each row the first place that names it and the complement of the last: the least of both,
 * so integers' atomics do and the result is the same in any order. */
static const char scatter_marks_text[] =
    "GY_KERNEL(gy_clear)\n"
    "{\n"
    "    unsigned long long *edges = (unsigned long long *)g.workspace;\n"
    "    const long long step = (long long)gridDim.x * blockDim.x;\n"
    "    const long long begin = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    for (long long i = begin; i < g.filled; i += step) {\n"
    "        g.out0[i] = 0;\n"
    "    }\n"
    "    for (long long i = begin; i < 2 * g.here; i += step) {\n"
    "        edges[i] = ~0ull;\n"
    "    }\n"
    "}\n"
    "GY_KERNEL(gy_mark)\n"
    "{\n"
    "    unsigned long long *edges = (unsigned long long *)g.workspace;\n" EACH
    "        const long long index = (long long)g.in1[i];\n" CHECK(
        "i") "        const long long row = index - g.begin;\n"
             "        if (row >= 0 && row < g.here) {\n"
             "            atomicMin(edges + 2 * row, (unsigned long long)i);\n"
             "            atomicMin(edges + 2 * row + 1, ~(unsigned long long)i);\n"
             "        }\n"
             "    }\n"
             "}\n";

/* Which row a block makes: the job's, or the one that the job's place is the first to name. */
#define SCATTER_ROW   "    const long long row = job;\n"
#define SCATTER_PLACE "    const long long row = (long long)g.in1[job] - g.begin;\n"

/* A block makes a chunk of columns of a row of one `left`. It looks at as many indices at a
 * time as it has threads, lists its own, and each thread adds up its column in the order of
 * places. */
static const char scatter_text[] =
    "GY_BLOCK_KERNEL(gy_scatter)\n"
    "{\n"
    "    __shared__ int is_mine[$B], list[$B + 1];\n"
    "    const unsigned long long *edges = (const unsigned long long *)g.workspace;\n"
    "    const long long chunk = blockIdx.x % g.chunks, job = blockIdx.x / g.chunks % g.jobs;\n"
    "    const long long left = blockIdx.x / g.chunks / g.jobs;\n$row"
    "    if (row < 0 || row >= g.here || edges[2 * row] $other) {\n"
    "        return;\n"
    "    }\n"
    "    const long long past = (long long)~edges[2 * row + 1] + 1;\n"
    "    const int t = threadIdx.x;\n"
    "    const long long k = chunk * $B + t;\n"
    "    const $T *from = g.in0 + left * g.some * g.right + k;\n"
    "    $T sum = 0;\n"
    "    for (long long first = (long long)edges[2 * row]; first < past; first += $B) {\n"
    "        const long long own = first + t;\n"
    "        is_mine[t] = own < past && (long long)g.in1[own] - g.begin == row;\n"
    "        if (__syncthreads_or(is_mine[t]) != 0) {\n"
    "            if (is_mine[t] != 0 || t == $B - 1) {\n"
    "                int place = 0;\n"
    "                for (int before = 0; before < t; before++) {\n"
    "                    place += is_mine[before];\n"
    "                }\n"
    "                if (is_mine[t] != 0) {\n"
    "                    list[place] = t;\n"
    "                }\n"
    "                if (t == $B - 1) {\n"
    "                    list[$B] = place + is_mine[t];\n"
    "                }\n"
    "            }\n"
    "            __syncthreads();\n"
    "            const int count = k < g.right ? list[$B] : 0;\n"
    "            int n = 0;\n"
    "            for (; n + 4 <= count; n += 4) { /* four loads at a time */\n"
    "                const $T a = from[(first + list[n]) * g.right];\n"
    "                const $T b = from[(first + list[n + 1]) * g.right];\n"
    "                const $T c = from[(first + list[n + 2]) * g.right];\n"
    "                const $T d = from[(first + list[n + 3]) * g.right];\n"
    "                sum = ($T)(sum + a);\n"
    "                sum = ($T)(sum + b);\n"
    "                sum = ($T)(sum + c);\n"
    "                sum = ($T)(sum + d);\n"
    "            }\n"
    "            for (; n < count; n++) {\n"
    "                sum = ($T)(sum + from[(first + list[n]) * g.right]);\n"
    "            }\n"
    "        }\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (k < g.right) {\n"
    "        g.out0[(left * g.here + row) * g.right + k] = sum;\n"
    "    }\n"
    "}\n";

/* Where a rank has no row, its indices are looked at all the same. */
static const char check_text[] =
    "GY_KERNEL(gy_check)\n"
    "{\n"
    "    const long long step = (long long)gridDim.x * blockDim.x;\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    for (; i < g.some; i += step) {\n"
    "        const long long index = (long long)g.in$K[i];\n" CHECK("i") "    }\n"
                                                                         "}\n";

static void write_check(gy_cuda_writer *w, int input)
{
    gy_cuda_print(w, check_text,
                  (const gy_cuda_key[]){{"K", input == 0 ? "0" : "1"}, {NULL, NULL}});
    gy_cuda_launch_each(w, "gy_check", gy_view_count(&w->call->inputs[input]));
}

/* Blocks for rows or for places, whichever are fewer: of a large vocabulary most rows are named
 * nowhere, and end as zeros. */
static void write_scatter(gy_cuda_writer *w, const char *type, int64_t left, int64_t right)
{
    const gy_view *y = &w->call->outputs[0];
    const int64_t places = gy_view_count(&w->call->inputs[1]);
    const int64_t rows = y->sizes[w->call->attributes->axis.dim];
    const int threads = gy_cuda_line_threads(GY_MAX(places, right));
    const int64_t chunks = (right + threads - 1) / threads, jobs = GY_MIN(rows, places);
    char block[16];
    (void)gy_print(block, sizeof(block), "%d", threads);
    const bool is_row = rows <= places;
    const gy_cuda_key keys[] = {{"T", type},
                                {"B", block},
                                {"row", is_row ? SCATTER_ROW : SCATTER_PLACE},
                                {"other", is_row ? "== ~0ull" : "!= (unsigned long long)job"},
                                {NULL, NULL}};
    gy_cuda_number(w, "chunks", chunks);
    gy_cuda_number(w, "jobs", jobs);
    gy_cuda_number(w, "filled", gy_view_count(y));
    w->text->workspace_bytes = (size_t)rows * 2 * sizeof(uint64_t);
    gy_cuda_print(w, scatter_marks_text, keys);
    gy_cuda_print(w, scatter_text, keys);
    gy_cuda_launch_each(w, "gy_clear", GY_MAX(gy_view_count(y), 2 * rows));
    gy_cuda_launch_each(w, "gy_mark", places);
    gy_cuda_launch_blocks(w, "gy_scatter", left * jobs * chunks, threads);
}

void gy_cuda_write_scatter_add(gy_cuda_writer *w)
{
    const gy_view *a = &w->call->inputs[0], *y = &w->call->outputs[0];
    const int dim = w->call->attributes->axis.dim, some = w->call->inputs[1].rank;
    const int64_t left = product(a, 0, dim), indices = gy_view_count(&w->call->inputs[1]);
    if (!takes_index(w, 1)) {
        return;
    }
    /* Integers wrap: their unsigned types add. */
    const bool is_real = gy_dtype_is_real(a->dtype);
    const int64_t right = product(a, dim + some, a->rank);
    gy_cuda_shorten(w);
    gy_cuda_fields(w, is_real ? 0 : GY_CUDA_MOVES);
    gy_cuda_number(w, "count", indices);
    gy_cuda_number(w, "some", indices);
    gy_cuda_number(w, "right", right);
    number_rows(w);
    const char *type = is_real ? gy_cuda_type_name(a->dtype) : gy_cuda_bits_name(a->dtype);
    if (left == 0 || y->sizes[dim] == 0) {
        write_check(w, 1);
        return;
    }
    write_scatter(w, type, left, right);
}

/* ---- pick, its gradient, find ---- */

static const char pick_text[] =
    "GY_KERNEL(gy_pick)\n"
    "{\n" EACH "        const $N inner = i % g.inner, outer = i / g.inner;\n"
    "        const long long index = (long long)g.in1[i];\n" CHECK(
        "i") "        const long long k = index - g.begin;\n"
             "        const int is_here = k >= 0 && k < g.here;\n"
             "        g.out0[i] = is_here ? g.in0[(outer * g.here + k) * g.inner + inner] : "
             "0;\n"
             "    }\n"
             "}\n";

/* A thread takes an element of the result, of which most are 0; those of line 0 look whether
 * the index is one. */
#define LINES                                                                                  \
    "        const $N inner = i % g.inner, line = i / g.inner;\n"                              \
    "        const $N k = line % g.here, from = line / g.here * g.inner + inner;\n"

static const char pick_gradient_text[] =
    "GY_KERNEL(gy_pick)\n"
    "{\n" EACH LINES "        const long long index = (long long)g.in1[from];\n"
    "        if (k == 0 && (index < 0 || index >= g.all)) {\n"
    "            atomicMin(g.fault, (unsigned long long)from);\n"
    "        }\n"
    "        g.out0[i] = k == index - g.begin ? g.in0[from] : 0;\n"
    "    }\n"
    "}\n";

void gy_cuda_write_pick(gy_cuda_writer *w)
{
    const bool is_pick = w->call->op == &gy_ops_row_pick;
    const gy_view *lines = is_pick ? &w->call->inputs[0] : &w->call->outputs[0];
    const int64_t some = gy_view_count(&w->call->inputs[1]);
    const int64_t count = gy_view_count(&w->call->outputs[0]);
    if (!takes_index(w, 1)) {
        return;
    }
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES);
    gy_cuda_number(w, "count", count);
    gy_cuda_number(w, "some", some);
    gy_cuda_number(w, "inner", product(lines, w->call->attributes->axis.dim + 1, lines->rank));
    number_rows(w);
    if (count == 0) {
        write_check(w, 1);
        return;
    }
    print_typed(w, is_pick ? pick_text : pick_gradient_text, "");
    gy_cuda_launch_each(w, "gy_pick", count);
}

/* The first place that has the value, or is no number as it is none. */
static const char find_text[] =
    "GY_KERNEL(gy_find)\n"
    "{\n" EACH "        const $N inner = i % g.inner, outer = i / g.inner;\n"
    "        const $T *x = g.in0 + outer * g.here * g.inner + inner, value = g.in1[i];\n"
    "        long long found = g.all;\n"
    "        for (long long k = g.here - 1; k >= 0; k--) {\n"
    "            const $T a = x[k * g.inner];\n"
    "            found = a == value || (a != a && value != value) ? g.begin + k : found;\n"
    "        }\n"
    "        g.out0[i] = found;\n"
    "    }\n"
    "}\n";

void gy_cuda_write_find(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const gy_view *x = &call->inputs[0];
    const int dim = call->attributes->axis.dim;
    const int64_t count = gy_view_count(&call->inputs[1]);
    gy_cuda_shorten(w);
    gy_cuda_fields(w, 0);
    gy_cuda_number(w, "count", count);
    gy_cuda_number(w, "inner", product(x, dim + 1, x->rank));
    gy_cuda_number(w, "here", x->sizes[dim]);
    gy_cuda_number(w, "all",
                   call->input_types != NULL ? call->input_types[0].sizes[dim] : x->sizes[dim]);
    gy_cuda_number(w, "begin", call->input_offsets != NULL ? call->input_offsets[0][dim] : 0);
    print_typed(w, find_text, gy_cuda_type_name(x->dtype));
    gy_cuda_launch_each(w, "gy_find", count);
}

/* ---- one_hot ---- */

static const char one_hot_text[] =
    "GY_KERNEL(gy_one_hot)\n"
    "{\n" EACH LINES "        const long long index = (long long)g.in0[from];\n"
    "        if (k == 0 && (index < 0 || index >= g.all)) {\n"
    "            atomicMin(g.fault, (unsigned long long)from);\n"
    "        }\n"
    "        g.out0[i] = k == index - g.begin ? ($T)g.one : 0;\n"
    "    }\n"
    "}\n";

void gy_cuda_write_one_hot(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const gy_view *labels = &call->inputs[0], *y = &call->outputs[0];
    const int dim = call->attributes->axis.dim;
    uint64_t one = 0;
    if (!takes_index(w, 0)) {
        return;
    }
    gy_element_set(y->dtype, &one, 0, 1);
    gy_cuda_shorten(w);
    gy_cuda_fields(w, GY_CUDA_MOVES_OUT);
    gy_cuda_number(w, "count", gy_view_count(y));
    gy_cuda_number(w, "some", gy_view_count(labels));
    gy_cuda_number(w, "inner", product(y, dim + 1, y->rank));
    gy_cuda_number(w, "all", call->attributes->axis.depth);
    gy_cuda_number(w, "begin", call->output_offsets != NULL ? call->output_offsets[0][dim] : 0);
    gy_cuda_number(w, "here", y->sizes[dim]);
    gy_cuda_number(w, "one", (int64_t)one);
    gy_cuda_check_index(w, 0, "label", call->attributes->axis.depth);
    if (gy_view_count(y) == 0) {
        write_check(w, 0);
        return;
    }
    print_typed(w, one_hot_text, gy_cuda_bits_name(y->dtype));
    gy_cuda_launch_each(w, "gy_one_hot", gy_view_count(y));
}
