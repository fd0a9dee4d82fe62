/*
 * Kernels of a program's reductions. Outputs that are reduced over the same axes are one
 * kernel, which computes again what it needs; outputs that are stored are written by the last
 * of them.
 *
 * A reduction is cut into pieces by its sizes alone: a thread folds its elements in ascending
 * order into a double or 64 bits, float32 four at a time in their own type (some devices have a
 * sixty-fourth of the rate for double), a block its threads in a tree, and a second kernel the
 * pieces in the same way. No atomics: the same bits each time.
 */
#include "ops/cuda/text/program_priv.h"

#include <string.h>

enum { NAME_BYTES = 64, TILE_WIDTH = 32 };

/* Outputs of one kernel; those that are reduced share their axes. */
typedef struct group {
    int number;
    int reduced[GY_OP_OUTPUTS_MAX], reduced_count;
    bool stores;
    int64_t kept, folded, pieces; /* counts: results, elements of each */
    int threads;                  /* of a block */
    int width;    /* results that a block makes, side by side; 0: each thread one */
    int unrolled; /* elements that a thread loads before it folds them */
} group;

typedef struct fold_text {
    const char *type, *tree, *fold;
    const char *part; /* the fold of a few float32 numbers; NULL: they are widened first */
} fold_text;

static fold_text fold_of(const gy_plan_output *out)
{
    static const fold_text real[] = {
        {"double", "gy_tree_sum", "a + b", "a + b"},
        {"double", "gy_tree_prod", "a * b", NULL},
        {"double", "gy_tree_max", "gy_maximum(a, b)", "gy_maximumf(a, b)"},
        {"double", "gy_tree_min", "gy_minimum(a, b)", "gy_minimumf(a, b)"}};
    static const fold_text whole[] = {
        {"unsigned long long", "gy_tree_whole_sum", "a + b", NULL},
        {"unsigned long long", "gy_tree_whole_prod", "a * b", NULL},
        {"long long", "gy_tree_whole_max", "a > b ? a : b", NULL},
        {"long long", "gy_tree_whole_min", "a < b ? a : b", NULL}};
    const int kind = out->reduction == GY_CODE_sum    ? 0
                     : out->reduction == GY_CODE_prod ? 1
                     : out->reduction == GY_CODE_max  ? 2
                                                      : 3;
    GY_ASSERT(kind < 3 || out->reduction == GY_CODE_min);
    return gy_dtype_is_real(out->dtype) ? real[kind] : whole[kind];
}

/* Does a thread fold this output's elements in float32 first? */
static bool has_part(const gy_cuda_fused *p, const group *g, int o)
{
    const gy_plan_output *out = &p->plan.outputs[o];
    return g->unrolled > 1 && fold_of(out).part != NULL &&
           gy_cuda_reg_of(p, out->register_index)->dtype == GY_F32;
}

/* What an empty reduction gives. */
static void number_start(gy_cuda_fused *p, int o)
{
    const gy_plan_output *out = &p->plan.outputs[o];
    const bool is_max = out->reduction == GY_CODE_max, is_min = out->reduction == GY_CODE_min;
    char name[NAME_BYTES];
    (void)gy_print(name, sizeof(name), "start%d", o);
    if (gy_dtype_is_real(out->dtype)) {
        const double infinity = (double)__builtin_inff();
        gy_cuda_real(p->w, name,
                     is_max   ? -infinity
                     : is_min ? infinity
                              : out->reduction == GY_CODE_prod);
        return;
    }
    int64_t start = out->reduction == GY_CODE_prod;
    if (is_max || is_min) {
        start = out->dtype == GY_I64   ? (is_max ? INT64_MIN : INT64_MAX)
                : out->dtype == GY_I32 ? (is_max ? INT32_MIN : INT32_MAX)
                                       : (is_max ? 0 : UINT8_MAX);
    }
    gy_cuda_number(p->w, name, start);
}

/* The result of output o from `a%d`, at kept element k. */
static void print_result(gy_cuda_fused *p, int o, const char *indent)
{
    const gy_plan_output *out = &p->plan.outputs[o];
    const char *type = gy_cuda_type_name(out->dtype);
    if (out->is_mean) {
        gy_cuda_line(p, "%sg.out%d[k] = (%s)(a%d / g.count%d);", indent, o, type, o, o);
    } else {
        gy_cuda_line(p, "%sg.out%d[k] = (%s)a%d;", indent, o, type, o);
    }
}

static void print_ends(gy_cuda_fused *p, const group *g, const char *indent)
{
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        if (g->pieces == 1) {
            print_result(p, o, indent);
        } else {
            gy_cuda_line(
                p, "%s((%s *)g.workspace)[g.piece%d + piece * (long long)g.kept%d + k] = a%d;",
                indent, fold_of(&p->plan.outputs[o]).type, o, g->number, o);
        }
    }
}

/* The linear index, where a load, a draw or a store wants it. */
static void print_linear(gy_cuda_fused *p)
{
    char sum[512] = "0";
    size_t size = 0;
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (!gy_cuda_is_live(p, dim)) {
            continue;
        }
        const char *plus = size > 0 ? " + " : "";
        if (p->linear[dim] == 1) {
            size += gy_print(sum + size, sizeof(sum) - size, "%si%d", plus, dim);
        } else {
            size += gy_print(sum + size, sizeof(sum) - size, "%si%d * (%s)g.line%d", plus, dim,
                             p->index, dim);
        }
    }
    gy_cuda_line(p, "        const %s i = %s;", p->index, sum);
    gy_cuda_line(p, "        (void)i;");
}

/* Fold `b` into accumulator `name` of an output. */
static void print_join(gy_cuda_fused *p, const char *type, const char *name, int o,
                       const char *fold, const char *b)
{
    gy_cuda_line(p, "        {");
    gy_cuda_line(p, "            const %s a = %s%d, b = (%s)%s%d;", type, name, o, type, b,
                 b[0] == 'r' ? p->plan.outputs[o].register_index : o);
    gy_cuda_line(p, "            %s%d = %s;", name, o, fold);
    gy_cuda_line(p, "        }");
}

/* Element r of the result: values, stores and what is folded. */
static void print_fold(gy_cuda_fused *p, const group *g, const bool *folded)
{
    gy_cuda_line(p, "        %s at = r;", p->index);
    gy_cuda_line(p, "        (void)at;");
    gy_cuda_print_split(p, folded, "at", "        ");
    print_linear(p);
    gy_cuda_print_values(p);
    if (g->stores) {
        gy_cuda_print_stores(p);
    }
    if (g->unrolled > 1) {
        gy_cuda_line(p, "        if (own < end) {");
    }
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const fold_text fold = fold_of(&p->plan.outputs[o]);
        if (has_part(p, g, o)) {
            print_join(p, "float", "p", o, fold.part, "r");
        } else {
            print_join(p, fold.type, "a", o, fold.fold, "r");
        }
    }
    if (g->unrolled > 1) {
        gy_cuda_line(p, "        }");
    }
}

/* A thread's elements, from `begin + from` on, `step` apart. Several at a time: those past the
 * end are the last one again, so that no load waits for a comparison. */
static void print_loop(gy_cuda_fused *p, const group *g, const bool *folded, const char *from,
                       int step)
{
    if (g->unrolled == 1) {
        gy_cuda_line(p, "    for (%s r = begin + %s; r < end; r += %d) {", p->index, from,
                     step);
        print_fold(p, g, folded);
        gy_cuda_line(p, "    }");
        return;
    }
    gy_cuda_line(p, "    for (%s first = begin + %s; first < end; first += %d) {", p->index,
                 from, g->unrolled * step);
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        if (has_part(p, g, o)) {
            gy_cuda_line(p, "        float p%d = (float)g.start%d;", o, o);
        }
    }
    gy_cuda_line(p, "        for (int n = 0; n < %d; n++) {", g->unrolled);
    gy_cuda_line(p, "        const %s own = first + (%s)n * %d, r = own < end ? own : end - 1;",
                 p->index, p->index, step);
    print_fold(p, g, folded);
    gy_cuda_line(p, "        }");
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        if (has_part(p, g, o)) {
            print_join(p, "double", "a", o, fold_of(&p->plan.outputs[o]).fold, "p");
        }
    }
    gy_cuda_line(p, "    }");
}

/* Up to the loop, with k known: the piece, the indices of what is kept. */
static void print_begin(gy_cuda_fused *p, const group *g, const bool *kept)
{
    if (g->pieces == 1) {
        gy_cuda_line(p, "    const %s begin = 0, end = (%s)g.folded%d;", p->index, p->index,
                     g->number);
    } else {
        gy_cuda_line(p, "    const %s begin = (%s)piece * (%s)g.span%d;", p->index, p->index,
                     p->index, g->number);
        gy_cuda_line(p, "    const %s all = (%s)g.folded%d, past = begin + (%s)g.span%d;",
                     p->index, p->index, g->number, p->index, g->number);
        gy_cuda_line(p, "    const %s end = past < all ? past : all;", p->index);
    }
    gy_cuda_line(p, "    %s rest = k;", p->index);
    gy_cuda_line(p, "    (void)rest;");
    gy_cuda_print_split(p, kept, "rest", "    ");
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const char *type = fold_of(&p->plan.outputs[o]).type;
        gy_cuda_line(p, "    %s a%d = (%s)g.start%d;", type, o, type, o);
    }
}

static void print_trees(gy_cuda_fused *p, const group *g, int width)
{
    for (int n = 0; n < g->reduced_count; n++) {
        const gy_plan_output *out = &p->plan.outputs[g->reduced[n]];
        const fold_text fold = fold_of(out);
        gy_cuda_line(p, "    a%d = %s_columns((%s *)shared, a%d, %d);", g->reduced[n],
                     fold.tree, fold.type, g->reduced[n], width);
    }
}

/* Results side by side in a block that folds: a power of two. */
static int width_of(int64_t kept)
{
    int width = 1;
    while (width < TILE_WIDTH && width < kept) {
        width *= 2;
    }
    return width;
}

/* Which of `width` results a thread folds: k, which is the last where there is none. */
static void print_tile(gy_cuda_fused *p, const group *g, int width)
{
    gy_cuda_line(p, "    const long long tiles = (g.kept%d + %d) / %d;", g->number, width - 1,
                 width);
    gy_cuda_line(p, "    const long long tile = (unsigned)blockIdx.x %% (unsigned)tiles;");
    gy_cuda_line(p, "    const long long own_k = tile * %d + threadIdx.x %% %d;", width, width);
    gy_cuda_line(p, "    const %s k = (%s)(own_k < g.kept%d ? own_k : g.kept%d - 1);", p->index,
                 p->index, g->number, g->number);
    gy_cuda_line(p, "    (void)tiles;");
}

static void write_join(gy_cuda_fused *p, const group *g)
{
    char name[NAME_BYTES];
    const int width = width_of(g->kept), lanes = GY_CUDA_THREADS / width;
    (void)gy_print(name, sizeof(name), "gy_join%d", g->number);
    gy_cuda_line(p, "GY_BLOCK_KERNEL(%s)\n{", name);
    gy_cuda_line(p, "    __shared__ double shared[%d];", GY_CUDA_THREADS);
    print_tile(p, g, width);
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const fold_text fold = fold_of(&p->plan.outputs[o]);
        gy_cuda_line(p, "    const %s *from%d = (const %s *)g.workspace + g.piece%d + k;",
                     fold.type, o, fold.type, o);
        gy_cuda_line(p, "    %s a%d = (%s)g.start%d;", fold.type, o, fold.type, o);
        gy_cuda_line(p, "    for (long long n = threadIdx.x / %d; n < g.pieces%d; n += %d) {",
                     width, g->number, lanes);
        gy_cuda_line(p, "        const %s a = a%d, b = from%d[n * g.kept%d];", fold.type, o, o,
                     g->number);
        gy_cuda_line(p, "        a%d = %s;", o, fold.fold);
        gy_cuda_line(p, "    }");
    }
    print_trees(p, g, width);
    gy_cuda_line(p, "    if (threadIdx.x < %d && own_k < g.kept%d) {", width, g->number);
    for (int n = 0; n < g->reduced_count; n++) {
        print_result(p, g->reduced[n], "        ");
    }
    gy_cuda_line(p, "    }\n}");
    gy_cuda_launch_blocks(p->w, name, (g->kept + width - 1) / width, GY_CUDA_THREADS);
}

/* A block folds `width` results side by side, or a line. */
static void write_block(gy_cuda_fused *p, const group *g, const char *name, const bool *kept,
                        const bool *folded)
{
    char from[NAME_BYTES];
    (void)gy_print(from, sizeof(from), "threadIdx.x / %d", g->width);
    gy_cuda_line(p, "GY_BLOCK_KERNEL(%s)\n{", name);
    gy_cuda_line(p, "    __shared__ double shared[%d];", g->threads);
    print_tile(p, g, g->width);
    gy_cuda_line(p, "    const long long piece = (unsigned)blockIdx.x / (unsigned)tiles;");
    gy_cuda_line(p, "    (void)piece;");
    print_begin(p, g, kept);
    gy_cuda_line(p, "    if (own_k < g.kept%d) {", g->number);
    print_loop(p, g, folded, from, g->threads / g->width);
    gy_cuda_line(p, "    }");
    print_trees(p, g, g->width);
    gy_cuda_line(p, "    if (threadIdx.x < %d && own_k < g.kept%d) {", g->width, g->number);
    print_ends(p, g, "        ");
    gy_cuda_line(p, "    }\n}");
    gy_cuda_launch_blocks(p->w, name, (g->kept + g->width - 1) / g->width * g->pieces,
                          g->threads);
    if (g->pieces > 1) {
        write_join(p, g);
    }
}

static void write_reduce(gy_cuda_fused *p, const group *g)
{
    const gy_plan_output *out = &p->plan.outputs[g->reduced[0]];
    bool kept[GY_PLAN_RANK] = {false}, folded[GY_PLAN_RANK] = {false};
    char name[NAME_BYTES];
    for (int dim = 0; dim < p->plan.rank; dim++) {
        kept[dim] = gy_cuda_is_live(p, dim) && out->strides[dim] != 0;
        folded[dim] = gy_cuda_is_live(p, dim) && out->strides[dim] == 0;
    }
    (void)gy_print(name, sizeof(name), "gy_reduce%d", g->number);
    if (g->width > 0) {
        write_block(p, g, name, kept, folded);
        return;
    }
    GY_ASSERT(g->pieces == 1);
    gy_cuda_line(p, "GY_KERNEL(%s)\n{", name);
    gy_cuda_line(p,
                 "    const long long job = (long long)blockIdx.x * blockDim.x + threadIdx.x;");
    gy_cuda_line(p, "    if (job >= g.kept%d) {\n        return;\n    }", g->number);
    gy_cuda_line(p, "    const %s k = (%s)job;", p->index, p->index);
    print_begin(p, g, kept);
    print_loop(p, g, folded, "0", 1);
    print_ends(p, g, "    ");
    gy_cuda_line(p, "}");
    gy_cuda_launch_blocks(p->w, name, (g->kept + g->threads - 1) / g->threads, g->threads);
}

/* ---- groups ---- */

/*
 * Pieces, and who folds: a block a line where elements of a result lie side by side, a block
 * some columns where results do, and a thread where there are results enough or little to fold.
 * A device has some hundred multiprocessors, each with room for eight blocks of 256 threads.
 */
static void cut_group(const gy_cuda_fused *p, group *g)
{
    enum { SHORT = 32, MANY = 65536, BLOCKS = 1024, PIECES_MAX = 1024, OF_THREAD = 16 };
    const gy_plan_output *out = &p->plan.outputs[g->reduced[0]];
    bool is_inner = true;
    g->kept = out->count;
    g->folded = 1;
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (gy_cuda_is_live(p, dim)) {
            is_inner = out->strides[dim] == 0;
            g->folded *= is_inner ? p->plan.sizes[dim] : 1;
        }
    }
    g->pieces = 1;
    g->unrolled = 1;
    g->threads = GY_CUDA_THREADS;
    if (g->folded <= SHORT || (!is_inner && g->kept >= MANY) || g->kept == 0) {
        return;
    }
    g->width = is_inner ? 1 : width_of(g->kept);
    g->threads = is_inner ? gy_cuda_line_threads(g->folded) : GY_CUDA_THREADS;
    const int64_t lanes = g->threads / g->width, tiles = (g->kept + g->width - 1) / g->width;
    const int64_t most = GY_MIN(GY_MAX(BLOCKS / tiles, (int64_t)1), (int64_t)PIECES_MAX);
    g->pieces = GY_MAX(GY_MIN(g->folded / (lanes * OF_THREAD), most), (int64_t)1);
    g->unrolled = g->folded / g->pieces >= 4 * lanes ? 4 : 1;
}

static void number_group(gy_cuda_fused *p, const group *g)
{
    char name[NAME_BYTES];
    (void)gy_print(name, sizeof(name), "kept%d", g->number);
    gy_cuda_number(p->w, name, g->kept);
    (void)gy_print(name, sizeof(name), "folded%d", g->number);
    gy_cuda_number(p->w, name, g->folded);
    (void)gy_print(name, sizeof(name), "pieces%d", g->number);
    gy_cuda_number(p->w, name, g->pieces);
    (void)gy_print(name, sizeof(name), "span%d", g->number);
    gy_cuda_number(p->w, name, (g->folded + g->pieces - 1) / g->pieces);
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        number_start(p, o);
        if (g->pieces > 1) {
            (void)gy_print(name, sizeof(name), "piece%d", o);
            gy_cuda_number(p->w, name, (int64_t)(p->w->text->workspace_bytes / 8));
            p->w->text->workspace_bytes += (size_t)(g->kept * g->pieces) * 8;
        }
    }
}

/* Outputs that share their axes. */
static int find_groups(const gy_cuda_fused *p, group *groups)
{
    int count = 0;
    for (int o = 0; o < p->plan.output_count; o++) {
        const gy_plan_output *out = &p->plan.outputs[o];
        int at = 0;
        if (!out->is_reduced) {
            continue;
        }
        while (at < count && p->plan.outputs[groups[at].reduced[0]].axes != out->axes) {
            at++;
        }
        if (at == count) {
            groups[count] = (group){.number = count};
            count++;
        }
        groups[at].reduced[groups[at].reduced_count++] = o;
    }
    return count;
}

bool gy_cuda_write_reductions(gy_cuda_fused *p)
{
    group groups[GY_OP_OUTPUTS_MAX] = {{0}};
    const int count = find_groups(p, groups);
    for (int n = 0; n < count; n++) {
        memset(p->needs, 0, sizeof(p->needs));
        for (int o = 0; o < p->plan.output_count; o++) {
            const gy_plan_output *out = &p->plan.outputs[o];
            const bool is_stored = !out->is_reduced && n == count - 1;
            groups[n].stores = groups[n].stores || is_stored;
            if (is_stored ||
                (out->is_reduced && out->axes == p->plan.outputs[groups[n].reduced[0]].axes)) {
                gy_cuda_need(p, out->register_index);
            }
        }
        cut_group(p, &groups[n]);
        number_group(p, &groups[n]);
        write_reduce(p, &groups[n]);
    }
    return count > 0;
}
