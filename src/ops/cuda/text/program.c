/*
 * Prints a fused program, and single element-wise operators and reductions as programs of one
 * step. The plan of ops/kernels/fused_plan.h says how views spread over the common shape and
 * which dimensions run together; here it becomes kernels instead of tiles.
 *
 * Outputs that are reduced over the same axes are one kernel, which computes again what it
 * needs; outputs that are stored are written by the last of them, or by a kernel of their own.
 * A reduction is cut into pieces by its sizes alone: a thread folds its elements in ascending
 * order into a double or 64 bits, a block its threads in a tree, and a second kernel the pieces
 * in order. No atomics: the same bits each time.
 */
#include "ops/cuda/text/program_priv.h"
#include "ops/kernels/fused_plan.h"

#include <string.h>

enum { NAME_BYTES = 64, PIECES_MAX = 512 };

typedef struct program {
    gy_cuda_writer *w;
    const gy_fused *steps;
    gy_fused_plan plan;
    int64_t linear[GY_PLAN_RANK]; /* row-major strides of the common shape */
    int64_t count;
    const char *index; /* type of an index */
    bool needs[GY_PLAN_REGISTERS];
    bool is_scattered; /* this is a part of what dropout counts the elements of */
} program;

/* Outputs of one kernel; those that are reduced share their axes. */
typedef struct group {
    int number;
    int reduced[GY_OP_OUTPUTS_MAX], reduced_count;
    bool stores;
    int64_t kept, folded, pieces; /* counts: results, elements of each */
    int threads;                  /* of a block that makes one result; 0: a thread does */
} group;

static void line(program *p, const char *format, ...) GY_PRINTF(2, 3);
static void line(program *p, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)gy_print_list(text, sizeof(text), format, args);
    va_end(args);
    gy_text_add(&p->w->kernels, "%s\n", text);
}

static bool is_live(const program *p, int dim)
{
    return p->plan.sizes[dim] != 1;
}

/* ---- registers ---- */

static const gy_plan_register *reg_of(const program *p, int index)
{
    return &p->plan.registers[index];
}

static bool has_strides(const program *p, int index, const int64_t *strides)
{
    for (int dim = 0; dim < p->plan.rank; dim++) {
        const int64_t wanted = strides != NULL ? strides[dim] : 0;
        if (is_live(p, dim) && reg_of(p, index)->strides[dim] != wanted) {
            return false;
        }
    }
    return true;
}

static bool is_direct(const program *p, int index)
{
    return has_strides(p, index, p->linear);
}

static bool is_dropout(const program *p, int step)
{
    return p->steps->steps[step].op == &gy_ops_row_dropout;
}

/* Mark what a register is made of. A seed is no value of the common shape. */
static void need(program *p, int index)
{
    p->needs[index] = true;
    for (int s = p->steps->step_count - 1; s >= 0; s--) {
        const gy_fused_step *step = &p->steps->steps[s];
        for (int i = 0; p->needs[p->steps->input_count + s] && i < step->op->input_count; i++) {
            if (!is_dropout(p, s) || i == 0) {
                p->needs[step->inputs[i]] = true;
            }
        }
    }
}

/* "i0 * g.in2x0 + i1" */
static void print_place(const program *p, int index, char out[512])
{
    size_t size = 0;
    out[0] = '\0';
    for (int dim = 0; dim < p->plan.rank; dim++) {
        const int64_t stride = reg_of(p, index)->strides[dim];
        if (!is_live(p, dim) || stride == 0) {
            continue;
        }
        const char *plus = size > 0 ? " + " : "";
        if (stride == 1) {
            size += gy_print(out + size, 512 - size, "%si%d", plus, dim);
        } else {
            size += gy_print(out + size, 512 - size, "%si%d * (%s)g.in%dx%d", plus, dim,
                             p->index, index, dim);
        }
    }
    if (size == 0) {
        (void)gy_print(out, 512, "0");
    }
}

static void print_loads(program *p)
{
    char place[512];
    for (int i = 0; i < p->plan.input_count; i++) {
        if (!p->needs[i]) {
            continue;
        }
        (void)gy_print(place, sizeof(place), "i");
        if (!is_direct(p, i)) {
            print_place(p, i, place);
        }
        line(p, "        const %s r%d = g.in%d[%s];", gy_cuda_type_name(reg_of(p, i)->dtype), i,
             i, place);
    }
}

/* Where element i stands in the whole value. */
static void print_whole_index(program *p)
{
    if (!p->is_scattered) {
        line(p, "        const long long whole = (long long)i + g.shift;");
        return;
    }
    line(p, "        long long rest = (long long)i, whole = 0;");
    for (int dim = p->plan.program_rank - 1; dim >= 0; dim--) {
        line(p, "        whole += (rest %% g.part%d + g.begin%d) * g.unit%d;", dim, dim, dim);
        line(p, "        rest /= g.part%d;", dim);
    }
}

static void print_dropout(program *p, int s)
{
    const gy_fused_step *step = &p->steps->steps[s];
    const int to = p->steps->input_count + s;
    const char *type = gy_cuda_type_name(reg_of(p, to)->dtype);
    char begin[NAME_BYTES] = "";
    if (step->attributes.dropout.row > 0) {
        (void)gy_print(begin, sizeof(begin), " + g.row%d * g.in%d[2]", s, step->inputs[1]);
    }
    line(p, "        const unsigned draw%d = gy_dropout_number(", s);
    line(p, "            g.in%d, (unsigned long long)g.stream%d,", step->inputs[1], s);
    line(p, "            (unsigned long long)(whole%s));", begin);
    line(p,
         "        const %s r%d = draw%d < (unsigned)g.least%d ? (%s)0 : r%d * (%s)g.scale%d;",
         type, to, s, s, type, step->inputs[0], type, s);
}

static void print_step(program *p, int s)
{
    const gy_fused_step *step = &p->steps->steps[s];
    const int to = p->steps->input_count + s;
    const gy_ops_code code = gy_ops_code_of(step->op);
    const gy_dtype operand = reg_of(p, step->inputs[code == GY_CODE_select ? 1 : 0])->dtype;
    char names[3][NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        (void)gy_print(names[i], NAME_BYTES, "r%d",
                       i < step->op->input_count ? step->inputs[i] : 0);
    }
    const char *text = gy_cuda_step_text(code, operand, reg_of(p, to)->dtype);
    if (text == NULL) {
        gy_cuda_refuse(p->w, "a step has no expression for its types");
        return;
    }
    const char *type = gy_cuda_type_name(reg_of(p, to)->dtype);
    const gy_cuda_key keys[] = {{"p", names[0]},
                                {"q", names[1]},
                                {"r", names[2]},
                                {"T", type},
                                {"f", gy_cuda_suffix(operand)},
                                {"U", "(unsigned long long)"},
                                {NULL, NULL}};
    gy_text_add(&p->w->kernels, "        const %s r%d = ", type, to);
    gy_cuda_print(p->w, text, keys);
    gy_text_add(&p->w->kernels, ";\n");
}

/* From indices to values: all that the group's outputs need. */
static void print_values(program *p)
{
    bool has_draw = false;
    print_loads(p);
    for (int s = 0; s < p->steps->step_count; s++) {
        const bool is_wanted = p->needs[p->steps->input_count + s];
        if (is_wanted && is_dropout(p, s)) {
            if (!has_draw) {
                print_whole_index(p);
            }
            has_draw = true;
            print_dropout(p, s);
        } else if (is_wanted) {
            print_step(p, s);
        }
    }
}

static void print_stores(program *p)
{
    for (int o = 0; o < p->plan.output_count; o++) {
        if (!p->plan.outputs[o].is_reduced) {
            line(p, "        g.out%d[i] = r%d;", o, p->plan.outputs[o].register_index);
        }
    }
}

/* ---- indices ---- */

/* Does the kernel look at single dimensions, or at i alone? */
static bool looks_at_dimensions(const program *p)
{
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && !is_direct(p, i) && !has_strides(p, i, NULL)) {
            return true;
        }
    }
    return false;
}

/* The indices of those dimensions, from the row-major number `from` of an element of them. */
static void print_split(program *p, const bool *dims, const char *from, const char *indent)
{
    int last = -1, first = -1;
    for (int dim = 0; dim < p->plan.rank; dim++) {
        first = dims[dim] && first < 0 ? dim : first;
        last = dims[dim] ? dim : last;
    }
    for (int dim = last; dim >= 0; dim--) {
        if (!dims[dim]) {
            continue;
        }
        if (dim == first) {
            line(p, "%sconst %s i%d = %s;", indent, p->index, dim, from);
        } else {
            line(p, "%sconst %s i%d = %s %% (%s)g.size%d;", indent, p->index, dim, from,
                 p->index, dim);
            line(p, "%s%s /= (%s)g.size%d;", indent, from, p->index, dim);
        }
    }
}

/* ---- a kernel that stores ---- */

static void write_store(program *p)
{
    bool live[GY_PLAN_RANK] = {false};
    for (int dim = 0; dim < p->plan.rank; dim++) {
        live[dim] = is_live(p, dim);
    }
    line(p, "GY_KERNEL(gy_store)\n{");
    line(p, "    const %s step = (%s)gridDim.x * blockDim.x;", p->index, p->index);
    line(p, "    %s i = (%s)blockIdx.x * blockDim.x + threadIdx.x;", p->index, p->index);
    line(p, "    for (; i < (%s)g.count; i += step) {", p->index);
    if (looks_at_dimensions(p)) {
        line(p, "        %s at = i;", p->index);
        print_split(p, live, "at", "        ");
    }
    print_values(p);
    print_stores(p);
    line(p, "    }\n}");
    gy_cuda_launch_each(p->w, "gy_store", p->count);
}

/* ---- a kernel that reduces ---- */

typedef struct fold_text {
    const char *type, *tree, *fold;
} fold_text;

static fold_text fold_of(const gy_plan_output *out)
{
    static const fold_text real[] = {{"double", "gy_tree_sum", "a + b"},
                                     {"double", "gy_tree_prod", "a * b"},
                                     {"double", "gy_tree_max", "gy_maximum(a, b)"},
                                     {"double", "gy_tree_min", "gy_minimum(a, b)"}};
    static const fold_text whole[] = {{"unsigned long long", "gy_tree_whole_sum", "a + b"},
                                      {"unsigned long long", "gy_tree_whole_prod", "a * b"},
                                      {"long long", "gy_tree_whole_max", "a > b ? a : b"},
                                      {"long long", "gy_tree_whole_min", "a < b ? a : b"}};
    const int kind = out->reduction == GY_CODE_sum    ? 0
                     : out->reduction == GY_CODE_prod ? 1
                     : out->reduction == GY_CODE_max  ? 2
                                                      : 3;
    GY_ASSERT(kind < 3 || out->reduction == GY_CODE_min);
    return gy_dtype_is_real(out->dtype) ? real[kind] : whole[kind];
}

/* What an empty reduction gives. */
static void number_start(program *p, int o)
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
static void print_result(program *p, int o, const char *indent)
{
    const gy_plan_output *out = &p->plan.outputs[o];
    const char *type = gy_cuda_type_name(out->dtype);
    if (out->is_mean) {
        line(p, "%sg.out%d[k] = (%s)(a%d / g.count%d);", indent, o, type, o, o);
    } else {
        line(p, "%sg.out%d[k] = (%s)a%d;", indent, o, type, o);
    }
}

static void print_ends(program *p, const group *g, const char *indent)
{
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        if (g->pieces == 1) {
            print_result(p, o, indent);
        } else {
            line(p, "%s((%s *)g.workspace)[g.piece%d + piece * (long long)g.kept%d + k] = a%d;",
                 indent, fold_of(&p->plan.outputs[o]).type, o, g->number, o);
        }
    }
}

/* The linear index, where a load, a draw or a store wants it. */
static void print_linear(program *p)
{
    char sum[512] = "0";
    size_t size = 0;
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (!is_live(p, dim)) {
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
    line(p, "        const %s i = %s;", p->index, sum);
    line(p, "        (void)i;");
}

static void print_fold(program *p, const group *g, const bool *folded)
{
    line(p, "        %s at = r;", p->index);
    line(p, "        (void)at;");
    print_split(p, folded, "at", "        ");
    print_linear(p);
    print_values(p);
    if (g->stores) {
        print_stores(p);
    }
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const fold_text fold = fold_of(&p->plan.outputs[o]);
        line(p, "        {");
        line(p, "            const %s a = a%d, b = (%s)r%d;", fold.type, o, fold.type,
             p->plan.outputs[o].register_index);
        line(p, "            a%d = %s;", o, fold.fold);
        line(p, "        }");
    }
}

/* Up to the loop: which result and which piece, the indices of what is kept. */
static void print_begin(program *p, const group *g, const bool *kept)
{
    line(p, "    const %s k = (%s)(job %% g.kept%d);", p->index, p->index, g->number);
    line(p, "    const long long piece = job / g.kept%d;", g->number);
    line(p, "    const %s begin = (%s)(g.folded%d * piece / g.pieces%d);", p->index, p->index,
         g->number, g->number);
    line(p, "    const %s end = (%s)(g.folded%d * (piece + 1) / g.pieces%d);", p->index,
         p->index, g->number, g->number);
    line(p, "    %s rest = k;", p->index);
    line(p, "    (void)rest;");
    print_split(p, kept, "rest", "    ");
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const char *type = fold_of(&p->plan.outputs[o]).type;
        line(p, "    %s a%d = (%s)g.start%d;", type, o, type, o);
    }
}

static void print_trees(program *p, const group *g)
{
    for (int n = 0; n < g->reduced_count; n++) {
        const gy_plan_output *out = &p->plan.outputs[g->reduced[n]];
        const fold_text fold = fold_of(out);
        line(p, "    a%d = %s((%s *)shared, a%d);", g->reduced[n], fold.tree, fold.type,
             g->reduced[n]);
    }
}

static void write_join(program *p, const group *g)
{
    char name[NAME_BYTES];
    (void)gy_print(name, sizeof(name), "gy_join%d", g->number);
    line(p, "GY_KERNEL(%s)\n{", name);
    line(p, "    const long long step = (long long)gridDim.x * blockDim.x;");
    line(p, "    long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;");
    line(p, "    for (; k < g.kept%d; k += step) {", g->number);
    for (int n = 0; n < g->reduced_count; n++) {
        const int o = g->reduced[n];
        const fold_text fold = fold_of(&p->plan.outputs[o]);
        line(p, "        const %s *from%d = (const %s *)g.workspace + g.piece%d + k;",
             fold.type, o, fold.type, o);
        line(p, "        %s a%d = from%d[0];", fold.type, o, o);
        line(p, "        for (long long piece = 1; piece < g.pieces%d; piece++) {", g->number);
        line(p, "            const %s a = a%d, b = from%d[piece * g.kept%d];", fold.type, o, o,
             g->number);
        line(p, "            a%d = %s;", o, fold.fold);
        line(p, "        }");
        print_result(p, o, "        ");
    }
    line(p, "    }\n}");
    gy_cuda_launch_each(p->w, name, g->kept);
}

static void write_reduce(program *p, const group *g)
{
    const gy_plan_output *out = &p->plan.outputs[g->reduced[0]];
    const int64_t jobs = g->kept * g->pieces;
    bool kept[GY_PLAN_RANK] = {false}, folded[GY_PLAN_RANK] = {false};
    char name[NAME_BYTES];
    for (int dim = 0; dim < p->plan.rank; dim++) {
        kept[dim] = is_live(p, dim) && out->strides[dim] != 0;
        folded[dim] = is_live(p, dim) && out->strides[dim] == 0;
    }
    (void)gy_print(name, sizeof(name), "gy_reduce%d", g->number);
    if (g->threads > 0) {
        line(p, "GY_BLOCK_KERNEL(%s)\n{", name);
        line(p, "    __shared__ double shared[%d];", g->threads);
        line(p, "    const long long job = blockIdx.x;");
        print_begin(p, g, kept);
        line(p, "    for (%s r = begin + threadIdx.x; r < end; r += %d) {", p->index,
             g->threads);
        print_fold(p, g, folded);
        line(p, "    }");
        print_trees(p, g);
        line(p, "    if (threadIdx.x == 0) {");
        print_ends(p, g, "        ");
        line(p, "    }\n}");
        gy_cuda_launch_blocks(p->w, name, jobs, g->threads);
    } else {
        line(p, "GY_KERNEL(%s)\n{", name);
        line(p, "    const long long job = (long long)blockIdx.x * blockDim.x + threadIdx.x;");
        line(p, "    if (job >= g.kept%d * g.pieces%d) {\n        return;\n    }", g->number,
             g->number);
        print_begin(p, g, kept);
        line(p, "    for (%s r = begin; r < end; r++) {", p->index);
        print_fold(p, g, folded);
        line(p, "    }");
        print_ends(p, g, "    ");
        line(p, "}");
        gy_cuda_launch_blocks(p->w, name, (jobs + GY_CUDA_THREADS - 1) / GY_CUDA_THREADS,
                              GY_CUDA_THREADS);
    }
    if (g->pieces > 1) {
        write_join(p, g);
    }
}

/* ---- groups ---- */

/* Pieces, and who folds: a block where elements of a result lie side by side, else a thread. */
static void cut_group(const program *p, group *g)
{
    enum { LINE_PIECE = 4096, LINES = 4096, COLUMN_PIECE = 64, COLUMNS = 65536, SHORT = 32 };
    const gy_plan_output *out = &p->plan.outputs[g->reduced[0]];
    bool is_inner = true;
    g->kept = out->count;
    g->folded = 1;
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (is_live(p, dim)) {
            is_inner = out->strides[dim] == 0;
            g->folded *= is_inner ? p->plan.sizes[dim] : 1;
        }
    }
    const bool is_line = is_inner && g->folded > SHORT;
    int64_t most = (is_line ? LINES : COLUMNS) / GY_MAX(g->kept, (int64_t)1);
    most = GY_MIN(most, (int64_t)PIECES_MAX);
    g->pieces = GY_MIN(g->folded / (is_line ? LINE_PIECE : COLUMN_PIECE), most);
    g->pieces = GY_MAX(g->pieces, (int64_t)1);
    g->threads = is_line ? gy_cuda_line_threads(g->folded / g->pieces) : 0;
}

static void number_group(program *p, const group *g)
{
    char name[NAME_BYTES];
    (void)gy_print(name, sizeof(name), "kept%d", g->number);
    gy_cuda_number(p->w, name, g->kept);
    (void)gy_print(name, sizeof(name), "folded%d", g->number);
    gy_cuda_number(p->w, name, g->folded);
    (void)gy_print(name, sizeof(name), "pieces%d", g->number);
    gy_cuda_number(p->w, name, g->pieces);
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
static int find_groups(const program *p, group *groups)
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

static void write_groups(program *p)
{
    group groups[GY_OP_OUTPUTS_MAX] = {{0}};
    const int count = find_groups(p, groups);
    bool stores = false;
    for (int o = 0; o < p->plan.output_count; o++) {
        stores = stores || !p->plan.outputs[o].is_reduced;
    }
    p->w->text->in_place = count == 0 ? 0xff : 0;
    p->w->text->in_place_any = count == 0;
    for (int n = 0; n < GY_MAX(count, 1); n++) {
        memset(p->needs, 0, sizeof(p->needs));
        groups[n].stores = stores && n == count - 1;
        for (int o = 0; o < p->plan.output_count; o++) {
            const gy_plan_output *out = &p->plan.outputs[o];
            if (!out->is_reduced ? count == 0 || groups[n].stores
                                 : out->axes == p->plan.outputs[groups[n].reduced[0]].axes) {
                need(p, out->register_index);
            }
        }
        if (count == 0) {
            write_store(p);
        } else {
            cut_group(p, &groups[n]);
            number_group(p, &groups[n]);
            write_reduce(p, &groups[n]);
        }
    }
}

/* ---- numbers ---- */

/* Dropout counts elements in the global value: where is this part of it? */
static void number_whole(program *p)
{
    const gy_kernel_call *call = p->w->call;
    const int rank = p->steps->rank;
    int o = 0;
    while (o < call->output_count && p->steps->outputs[o].reduction != NULL) {
        o++;
    }
    if (o == call->output_count || call->output_types == NULL || call->output_offsets == NULL) {
        gy_cuda_number(p->w, "shift", 0);
        return;
    }
    const int64_t *sizes = call->output_types[o].sizes, *begin = call->output_offsets[o];
    int64_t row = 1;
    for (int dim = 1; dim < rank; dim++) {
        p->is_scattered = p->is_scattered || sizes[dim] != p->steps->sizes[dim];
        row *= sizes[dim];
    }
    if (!p->is_scattered) {
        gy_cuda_number(p->w, "shift", rank > 0 ? begin[0] * row : 0);
        return;
    }
    int64_t unit = 1;
    for (int dim = rank - 1; dim >= 0; dim--) {
        char name[NAME_BYTES];
        (void)gy_print(name, sizeof(name), "part%d", dim);
        gy_cuda_number(p->w, name, p->steps->sizes[dim]);
        (void)gy_print(name, sizeof(name), "begin%d", dim);
        gy_cuda_number(p->w, name, begin[dim]);
        (void)gy_print(name, sizeof(name), "unit%d", dim);
        gy_cuda_number(p->w, name, unit);
        unit *= sizes[dim];
    }
}

static void number_dropouts(program *p)
{
    char name[NAME_BYTES];
    bool is_any = false;
    for (int s = 0; s < p->steps->step_count; s++) {
        if (!is_dropout(p, s)) {
            continue;
        }
        const gy_attributes *of = &p->steps->steps[s].attributes;
        if (!is_any) {
            number_whole(p);
        }
        is_any = true;
        (void)gy_print(name, sizeof(name), "stream%d", s);
        gy_cuda_number(p->w, name, (int64_t)of->dropout.stream);
        (void)gy_print(name, sizeof(name), "least%d", s);
        gy_cuda_number(p->w, name, (int64_t)gy_dropout_threshold(of->dropout.rate));
        (void)gy_print(name, sizeof(name), "row%d", s);
        gy_cuda_number(p->w, name, of->dropout.row);
        (void)gy_print(name, sizeof(name), "scale%d", s);
        gy_cuda_real(p->w, name, 1 / (1 - of->dropout.rate));
    }
}

/* How many elements one result of a mean stands for, in the global value. */
static double mean_count(const program *p, const gy_plan_output *out)
{
    const gy_kernel_call *call = p->w->call;
    double count = 1;
    if (out->mean_count > 0) {
        return out->mean_count;
    }
    for (int dim = 0; dim < p->steps->rank; dim++) {
        int64_t size = p->steps->sizes[dim];
        for (int i = 0; i < call->input_count && call->input_types != NULL; i++) {
            const int own = dim - (p->steps->rank - call->input_types[i].rank);
            size = own >= 0 ? GY_MAX(size, call->input_types[i].sizes[own]) : size;
        }
        count *= (out->axes >> dim & 1u) != 0 ? (double)size : 1;
    }
    return count;
}

static void number_shape(program *p)
{
    char name[NAME_BYTES];
    gy_cuda_number(p->w, "count", p->count);
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (is_live(p, dim)) {
            (void)gy_print(name, sizeof(name), "size%d", dim);
            gy_cuda_number(p->w, name, p->plan.sizes[dim]);
            (void)gy_print(name, sizeof(name), "line%d", dim);
            gy_cuda_number(p->w, name, p->linear[dim]);
        }
    }
    for (int i = 0; i < p->plan.input_count; i++) {
        for (int dim = 0; dim < p->plan.rank && !is_direct(p, i); dim++) {
            const int64_t stride = reg_of(p, i)->strides[dim];
            if (is_live(p, dim) && stride != 0 && stride != 1) {
                (void)gy_print(name, sizeof(name), "in%dx%d", i, dim);
                gy_cuda_number(p->w, name, stride);
            }
        }
    }
    for (int o = 0; o < p->plan.output_count; o++) {
        if (p->plan.outputs[o].is_reduced && p->plan.outputs[o].is_mean) {
            (void)gy_print(name, sizeof(name), "count%d", o);
            gy_cuda_real(p->w, name, mean_count(p, &p->plan.outputs[o]));
        }
    }
}

/* The largest place that an index reaches in any view. */
static int64_t reach_of(const program *p)
{
    int64_t most = p->count;
    for (int i = 0; i < p->plan.input_count; i++) {
        int64_t reach = 0;
        for (int dim = 0; dim < p->plan.rank; dim++) {
            const int64_t stride = reg_of(p, i)->strides[dim];
            if (stride < 0) {
                return INT64_MAX;
            }
            reach += (p->plan.sizes[dim] - 1) * stride;
        }
        most = GY_MAX(most, reach);
    }
    return most;
}

void gy_cuda_write_program(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const gy_kernel_query query = gy_kernel_query_of(call, 0);
    gy_fused single;
    program p = {.w = w, .steps = call->attributes->fused.program, .count = 1};
    if (call->op != &gy_ops_row_fused) {
        p.steps = &single;
        if (!gy_fused_from_query(&query, &single)) {
            gy_cuda_refuse(w, "it is no program of one step");
            return;
        }
    }
    if (!gy_fused_plan_make(p.steps, &query, &p.plan)) {
        gy_cuda_refuse(w, "a step has no fast kernel for its types on the CPU either");
        return;
    }
    for (int dim = p.plan.rank - 1; dim >= 0; dim--) {
        p.linear[dim] = p.count;
        p.count *= p.plan.sizes[dim];
    }
    p.index = gy_cuda_index_name(reach_of(&p));
    gy_cuda_fields(w, 0);
    number_shape(&p);
    number_dropouts(&p);
    write_groups(&p);
}
