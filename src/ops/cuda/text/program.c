/*
 * Prints a fused program, and single element-wise operators and reductions as programs of one
 * step. The plan of ops/kernels/fused_plan.h says how views spread over the common shape and
 * which dimensions run together; here it becomes kernels instead of tiles. This file has what a
 * program's values are, and the kernel that stores them; reduce.c has those that reduce.
 */
#include "ops/cuda/text/program_priv.h"
#include "ops/kernels/fused_plan.h"

#include <string.h>

enum { NAME_BYTES = 64 };

void gy_cuda_line(gy_cuda_fused *p, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)gy_print_list(text, sizeof(text), format, args);
    va_end(args);
    gy_text_add(&p->w->kernels, "%s\n", text);
}

bool gy_cuda_is_live(const gy_cuda_fused *p, int dim)
{
    return p->plan.sizes[dim] != 1;
}

/* ---- registers ---- */

const gy_plan_register *gy_cuda_reg_of(const gy_cuda_fused *p, int index)
{
    return &p->plan.registers[index];
}

static bool has_strides(const gy_cuda_fused *p, int index, const int64_t *strides)
{
    for (int dim = 0; dim < p->plan.rank; dim++) {
        const int64_t wanted = strides != NULL ? strides[dim] : 0;
        if (gy_cuda_is_live(p, dim) && gy_cuda_reg_of(p, index)->strides[dim] != wanted) {
            return false;
        }
    }
    return true;
}

static bool is_direct(const gy_cuda_fused *p, int index)
{
    return has_strides(p, index, p->linear);
}

static bool is_dropout(const gy_cuda_fused *p, int step)
{
    return p->steps->steps[step].op == &gy_ops_row_dropout;
}

/* Mark what a register is made of. A seed is no value of the common shape. */
void gy_cuda_need(gy_cuda_fused *p, int index)
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
static void print_place(const gy_cuda_fused *p, int index, char out[512])
{
    size_t size = 0;
    out[0] = '\0';
    for (int dim = 0; dim < p->plan.rank; dim++) {
        const int64_t stride = gy_cuda_reg_of(p, index)->strides[dim];
        if (!gy_cuda_is_live(p, dim) || stride == 0) {
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

static void print_loads(gy_cuda_fused *p)
{
    char place[512];
    for (int i = 0; i < p->plan.input_count; i++) {
        if (!p->needs[i]) {
            continue;
        }
        if (p->is_wide && is_direct(p, i)) {
            gy_cuda_line(p, "        const %s r%d = in%d.x[n];",
                         gy_cuda_type_name(gy_cuda_reg_of(p, i)->dtype), i, i);
            continue;
        }
        (void)gy_print(place, sizeof(place), "i");
        if (!is_direct(p, i)) {
            print_place(p, i, place);
        }
        gy_cuda_line(p, "        const %s r%d = g.in%d[%s];",
                     gy_cuda_type_name(gy_cuda_reg_of(p, i)->dtype), i, i, place);
    }
}

/* Where element i stands in the whole value. */
static void print_whole_index(gy_cuda_fused *p)
{
    if (!p->is_scattered) {
        gy_cuda_line(p, "        const long long whole = (long long)i + g.shift;");
        return;
    }
    gy_cuda_line(p, "        long long rest = (long long)i, whole = 0;");
    for (int dim = p->plan.program_rank - 1; dim >= 0; dim--) {
        gy_cuda_line(p, "        whole += (rest %% g.part%d + g.begin%d) * g.unit%d;", dim, dim,
                     dim);
        gy_cuda_line(p, "        rest /= g.part%d;", dim);
    }
}

static void print_dropout(gy_cuda_fused *p, int s)
{
    const gy_fused_step *step = &p->steps->steps[s];
    const int to = p->steps->input_count + s;
    const char *type = gy_cuda_type_name(gy_cuda_reg_of(p, to)->dtype);
    char begin[NAME_BYTES] = "";
    if (step->attributes.dropout.row > 0) {
        (void)gy_print(begin, sizeof(begin), " + g.row%d * g.in%d[2]", s, step->inputs[1]);
    }
    gy_cuda_line(p, "        const unsigned draw%d = gy_dropout_number(", s);
    gy_cuda_line(p, "            g.in%d, (unsigned long long)g.stream%d,", step->inputs[1], s);
    gy_cuda_line(p, "            (unsigned long long)(whole%s));", begin);
    gy_cuda_line(
        p, "        const %s r%d = draw%d < (unsigned)g.least%d ? (%s)0 : r%d * (%s)g.scale%d;",
        type, to, s, s, type, step->inputs[0], type, s);
}

static void print_step(gy_cuda_fused *p, int s)
{
    const gy_fused_step *step = &p->steps->steps[s];
    const int to = p->steps->input_count + s;
    const gy_ops_code code = gy_ops_code_of(step->op);
    const gy_dtype operand =
        gy_cuda_reg_of(p, step->inputs[code == GY_CODE_select ? 1 : 0])->dtype;
    char names[3][NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        (void)gy_print(names[i], NAME_BYTES, "r%d",
                       i < step->op->input_count ? step->inputs[i] : 0);
    }
    const char *text = gy_cuda_step_text(code, operand, gy_cuda_reg_of(p, to)->dtype);
    if (text == NULL) {
        gy_cuda_refuse(p->w, "a step has no expression for its types");
        return;
    }
    const char *type = gy_cuda_type_name(gy_cuda_reg_of(p, to)->dtype);
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
void gy_cuda_print_values(gy_cuda_fused *p)
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

void gy_cuda_print_stores(gy_cuda_fused *p)
{
    for (int o = 0; o < p->plan.output_count; o++) {
        if (!p->plan.outputs[o].is_reduced) {
            gy_cuda_line(p, "        g.out%d[i] = r%d;", o, p->plan.outputs[o].register_index);
        }
    }
}

/* ---- indices ---- */

/* Does the kernel look at single dimensions, or at i alone? */
static bool looks_at_dimensions(const gy_cuda_fused *p)
{
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && !is_direct(p, i) && !has_strides(p, i, NULL)) {
            return true;
        }
    }
    return false;
}

/* The indices of those dimensions, from the row-major number `from` of an element of them. */
void gy_cuda_print_split(gy_cuda_fused *p, const bool *dims, const char *from,
                         const char *indent)
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
            gy_cuda_line(p, "%sconst %s i%d = %s;", indent, p->index, dim, from);
        } else {
            gy_cuda_line(p, "%sconst %s i%d = %s %% (%s)g.size%d;", indent, p->index, dim, from,
                         p->index, dim);
            gy_cuda_line(p, "%s%s /= (%s)g.size%d;", indent, from, p->index, dim);
        }
    }
}

/* ---- a kernel that stores ---- */

/* Four elements of a type, which memory gives and takes at once where they are aligned. */
static int bytes_of_four(gy_dtype dtype)
{
    return (int)GY_MIN(4 * gy_dtype_bytes(dtype), (size_t)16);
}

static void print_four(gy_cuda_fused *p, const char *name, int index, gy_dtype dtype)
{
    gy_cuda_line(p, "    typedef struct __attribute__((aligned(%d))) {", bytes_of_four(dtype));
    gy_cuda_line(p, "        %s x[4];\n    } %s_four%d;", gy_cuda_type_name(dtype), name,
                 index);
}

/* Types of what is read and written four at a time. */
static void print_fours(gy_cuda_fused *p)
{
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && is_direct(p, i)) {
            print_four(p, "in", i, gy_cuda_reg_of(p, i)->dtype);
        }
    }
    for (int o = 0; o < p->plan.output_count; o++) {
        print_four(p, "out", o, p->plan.outputs[o].dtype);
    }
}

/* Are these four whole and aligned? Asked of their own addresses: of those of the first
 * elements a compiler would make two loops. */
static void print_is_whole(gy_cuda_fused *p)
{
    gy_cuda_line(p, "        const int is_whole = base + 4 <= count &&");
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && is_direct(p, i)) {
            gy_cuda_line(p, "            ((unsigned long long)(g.in%d + base) & %d) == 0 &&", i,
                         bytes_of_four(gy_cuda_reg_of(p, i)->dtype) - 1);
        }
    }
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_line(p, "            ((unsigned long long)(g.out%d + base) & %d) == 0%s", o,
                     bytes_of_four(p->plan.outputs[o].dtype) - 1,
                     o + 1 < p->plan.output_count ? " &&" : ";");
    }
}

/* Load what is direct: at once, or one by one, the last again for those past the end. */
static void print_wide_loads(gy_cuda_fused *p)
{
    gy_cuda_line(p, "        if (is_whole) {");
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && is_direct(p, i)) {
            gy_cuda_line(p, "            in%d = ((const in_four%d *)g.in%d)[at4];", i, i, i);
        }
    }
    gy_cuda_line(p, "        } else {\n            for (int n = 0; n < 4; n++) {");
    gy_cuda_line(p, "                const %s own = base + (%s)n;", p->index, p->index);
    gy_cuda_line(p, "                const %s i = own < count ? own : count - 1;", p->index);
    gy_cuda_line(p, "                (void)i;");
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && is_direct(p, i)) {
            gy_cuda_line(p, "                in%d.x[n] = g.in%d[i];", i, i);
        }
    }
    gy_cuda_line(p, "            }\n        }");
}

static void print_wide_stores(gy_cuda_fused *p)
{
    gy_cuda_line(p, "        if (is_whole) {");
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_line(p, "            ((out_four%d *)g.out%d)[at4] = out%d;", o, o, o);
    }
    gy_cuda_line(p, "        } else {");
    gy_cuda_line(p, "            for (int n = 0; n < 4 && base + (%s)n < count; n++) {",
                 p->index);
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_line(p, "                g.out%d[base + (%s)n] = out%d.x[n];", o, p->index, o);
    }
    gy_cuda_line(p, "            }\n        }");
}

/* The index of element n of four; where the last dimension is of whole fours, those of the
 * others are the same for all. */
static void print_wide_indices(gy_cuda_fused *p, const bool *live)
{
    int last = p->plan.rank - 1;
    while (last > 0 && !live[last]) {
        last--;
    }
    const bool is_split = looks_at_dimensions(p);
    const bool is_even = is_split && live[last] && p->plan.sizes[last] % 4 == 0;
    if (is_even) {
        gy_cuda_line(p, "        %s at = base;", p->index);
        gy_cuda_print_split(p, live, "at", "        ");
        gy_cuda_line(p, "        const %s begin = i%d;", p->index, last);
    }
    gy_cuda_line(p, "        GY_UNROLL\n        for (int n = 0; n < 4; n++) {");
    if (is_even) {
        gy_cuda_line(p, "        const %s i%d = begin + (%s)n, i = base + (%s)n;", p->index,
                     last, p->index, p->index);
    } else {
        gy_cuda_line(p, "        const %s own = base + (%s)n;", p->index, p->index);
        gy_cuda_line(p, "        const %s i = own < count ? own : count - 1;", p->index);
    }
    gy_cuda_line(p, "        (void)i;");
    if (is_split && !is_even) {
        gy_cuda_line(p, "        %s at = i;", p->index);
        gy_cuda_print_split(p, live, "at", "        ");
    }
}

/* A thread takes four elements side by side. */
static void write_wide_store(gy_cuda_fused *p, const bool *live)
{
    p->is_wide = true;
    gy_cuda_line(p, "GY_KERNEL(gy_store)\n{");
    print_fours(p);
    gy_cuda_line(p, "    const %s step = (%s)gridDim.x * blockDim.x, count = (%s)g.count;",
                 p->index, p->index, p->index);
    gy_cuda_line(p, "    %s at4 = (%s)blockIdx.x * blockDim.x + threadIdx.x;", p->index,
                 p->index);
    gy_cuda_line(p, "    for (; at4 < (count + 3) / 4; at4 += step) {");
    gy_cuda_line(p, "        const %s base = 4 * at4;", p->index);
    print_is_whole(p);
    for (int i = 0; i < p->plan.input_count; i++) {
        if (p->needs[i] && is_direct(p, i)) {
            gy_cuda_line(p, "        in_four%d in%d;", i, i);
        }
    }
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_line(p, "        out_four%d out%d;", o, o);
    }
    print_wide_loads(p);
    print_wide_indices(p, live);
    gy_cuda_print_values(p);
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_line(p, "        out%d.x[n] = r%d;", o, p->plan.outputs[o].register_index);
    }
    gy_cuda_line(p, "        }");
    print_wide_stores(p);
    gy_cuda_line(p, "    }\n}");
    gy_cuda_launch_each(p->w, "gy_store", (p->count + 3) / 4);
}

static void write_store(gy_cuda_fused *p)
{
    enum { FEW = 64 };
    bool live[GY_PLAN_RANK] = {false};
    for (int o = 0; o < p->plan.output_count; o++) {
        gy_cuda_need(p, p->plan.outputs[o].register_index);
    }
    for (int dim = 0; dim < p->plan.rank; dim++) {
        live[dim] = gy_cuda_is_live(p, dim);
    }
    if (p->count >= FEW) {
        write_wide_store(p, live);
        return;
    }
    gy_cuda_line(p, "GY_KERNEL(gy_store)\n{");
    gy_cuda_line(p, "    const %s step = (%s)gridDim.x * blockDim.x;", p->index, p->index);
    gy_cuda_line(p, "    %s i = (%s)blockIdx.x * blockDim.x + threadIdx.x;", p->index,
                 p->index);
    gy_cuda_line(p, "    for (; i < (%s)g.count; i += step) {", p->index);
    if (looks_at_dimensions(p)) {
        gy_cuda_line(p, "        %s at = i;", p->index);
        gy_cuda_print_split(p, live, "at", "        ");
    }
    gy_cuda_print_values(p);
    gy_cuda_print_stores(p);
    gy_cuda_line(p, "    }\n}");
    gy_cuda_launch_each(p->w, "gy_store", p->count);
}

/* ---- numbers ---- */

/* Dropout counts elements in the global value: where is this part of it? */
static void number_whole(gy_cuda_fused *p)
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

static void number_dropouts(gy_cuda_fused *p)
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
static double mean_count(const gy_cuda_fused *p, const gy_plan_output *out)
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

static void number_shape(gy_cuda_fused *p)
{
    char name[NAME_BYTES];
    gy_cuda_number(p->w, "count", p->count);
    for (int dim = 0; dim < p->plan.rank; dim++) {
        if (gy_cuda_is_live(p, dim)) {
            (void)gy_print(name, sizeof(name), "size%d", dim);
            gy_cuda_number(p->w, name, p->plan.sizes[dim]);
            (void)gy_print(name, sizeof(name), "line%d", dim);
            gy_cuda_number(p->w, name, p->linear[dim]);
        }
    }
    for (int i = 0; i < p->plan.input_count; i++) {
        for (int dim = 0; dim < p->plan.rank && !is_direct(p, i); dim++) {
            const int64_t stride = gy_cuda_reg_of(p, i)->strides[dim];
            if (gy_cuda_is_live(p, dim) && stride != 0 && stride != 1) {
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
static int64_t reach_of(const gy_cuda_fused *p)
{
    int64_t most = p->count;
    for (int i = 0; i < p->plan.input_count; i++) {
        int64_t reach = 0;
        for (int dim = 0; dim < p->plan.rank; dim++) {
            const int64_t stride = gy_cuda_reg_of(p, i)->strides[dim];
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
    gy_cuda_fused p = {.w = w, .steps = call->attributes->fused.program, .count = 1};
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
    const bool reduces = gy_cuda_write_reductions(&p);
    w->text->in_place = reduces ? 0 : 0xff;
    w->text->in_place_any = !reduces;
    if (!reduces) {
        write_store(&p);
    }
}
