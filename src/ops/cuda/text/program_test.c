/*
 * Goal: kernels of random fused programs give what the CPU's kernel gives: stored values of
 * exact operators and masks of dropout bit for bit, reductions within the rounding of a sum;
 * over broadcast, strided and empty views, for each element type, in either order of threads.
 */
#include "cuda_text_kit.h"
#include "ops/ops.h"

#include <math.h>
#include <sys/mman.h>

enum { PROGRAMS = 240, INPUTS_MAX = 5, STEPS_MAX = 7, REGISTERS_MAX = INPUTS_MAX + STEPS_MAX };

typedef struct trial {
    gy_fused program;
    gy_attributes attributes;
    bool has_seed; /* the last input */
    int usable[REGISTERS_MAX], usable_count;
    gy_dtype types[REGISTERS_MAX];
    int products; /* steps that multiply: few, so that sums stay small */
    gy_view inputs[INPUTS_MAX], wanted[GY_OP_OUTPUTS_MAX], got[GY_OP_OUTPUTS_MAX];
    void *memory[INPUTS_MAX];
    gy_type output_types[GY_OP_OUTPUTS_MAX];
    int64_t offsets[GY_OP_OUTPUTS_MAX][GY_TENSOR_RANK_MAX];
    int at; /* among the texts */
} trial;

static int64_t below(gy_random *random, int64_t limit)
{
    return (int64_t)gy_random_below(random, (uint64_t)limit);
}

static gy_view new_view(gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    view.data = gy_alloc_zero("test.view", 1, gy_view_bytes(&view));
    assert_non_null(view.data);
    return view;
}

static bool is_real(gy_dtype dtype)
{
    return dtype == GY_F32 || dtype == GY_F64;
}

static void draw_elements(const gy_view *view, gy_random *random)
{
    const double odd[] = {0, -0.0, INFINITY, NAN, 1};
    const int64_t count = gy_view_count(view);
    for (int64_t i = 0; i < count; i++) {
        if (is_real(view->dtype) || view->dtype == GY_BF16 || view->dtype == GY_F16) {
            const bool is_odd = below(random, 200) == 0;
            gy_element_set(view->dtype, view->data, i,
                           is_odd ? odd[below(random, 5)] : 4 * gy_random_unit(random) - 2);
        } else {
            gy_element_set_whole(view->dtype, view->data, i, below(random, 200) - 60);
        }
    }
}

static void add_register(trial *t, gy_dtype dtype)
{
    const int r = t->program.input_count + t->program.step_count;
    t->types[r] = dtype;
    t->usable[t->usable_count++] = r;
}

/* A view of the common shape or of one that repeats, sometimes with strides of another order or
 * with gaps. */
static void draw_input(trial *t, gy_dtype dtype, gy_random *random)
{
    gy_fused *p = &t->program;
    const int i = p->input_count;
    const int skip = i == 0 || below(random, 2) == 0 ? 0 : (int)below(random, p->rank + 1);
    const bool is_turned = below(random, 4) == 0, has_gaps = below(random, 4) == 0;
    const int rank = p->rank - skip;
    int64_t sizes[GY_TENSOR_RANK_MAX], stored[GY_TENSOR_RANK_MAX];
    int dims[GY_TENSOR_RANK_MAX];
    for (int d = 0; d < rank; d++) {
        sizes[d] = i > 0 && below(random, 4) == 0 ? 1 : p->sizes[d + skip];
        dims[d] = is_turned ? rank - 1 - d : d;
    }
    for (int d = 0; d < rank; d++) {
        stored[dims[d]] = sizes[d] * (has_gaps && d == rank - 1 ? 2 : 1);
    }
    gy_view whole = new_view(dtype, stored, rank);
    draw_elements(&whole, random);
    t->memory[i] = whole.data;
    t->inputs[i] = gy_view_permute(&whole, dims);
    if (has_gaps && rank > 0) {
        t->inputs[i] = gy_view_cut(&t->inputs[i], rank - 1, 0, sizes[rank - 1], 2);
    }
    add_register(t, dtype);
    p->input_count++;
}

static void add_seed(trial *t, gy_random *random)
{
    const int i = t->program.input_count++;
    t->inputs[i] = new_view(GY_I64, (const int64_t[]){3}, 1);
    t->memory[i] = t->inputs[i].data;
    for (int k = 0; k < 3; k++) {
        ((int64_t *)t->memory[i])[k] = below(random, 1000);
    }
    t->has_seed = true;
}

/* A register of that type; -1: there is none. */
static int find_register(const trial *t, gy_dtype dtype, gy_random *random)
{
    const int first = (int)below(random, t->usable_count);
    for (int k = 0; k < t->usable_count; k++) {
        const int r = t->usable[(first + k) % t->usable_count];
        if (t->types[r] == dtype) {
            return r;
        }
    }
    return -1;
}

static const gy_op *draw_op(gy_dtype dtype, gy_random *random)
{
    static const gy_op *const any[] = {
        &gy_ops_row_add,     &gy_ops_row_sub,           &gy_ops_row_mul,
        &gy_ops_row_minimum, &gy_ops_row_maximum,       &gy_ops_row_neg,
        &gy_ops_row_square,  &gy_ops_row_select,        &gy_ops_row_identity,
        &gy_ops_row_equal,   &gy_ops_row_not_equal,     &gy_ops_row_less,
        &gy_ops_row_greater, &gy_ops_row_greater_equal, &gy_ops_row_less_equal};
    static const gy_op *const of_signed[] = {&gy_ops_row_abs, &gy_ops_row_sign,
                                             &gy_ops_row_relu, &gy_ops_row_div};
    static const gy_op *const of_real[] = {&gy_ops_row_floor, &gy_ops_row_ceil,
                                           &gy_ops_row_round, &gy_ops_row_sqrt};
    const bool is_signed = is_real(dtype) || (dtype >= GY_I64 && dtype <= GY_I8);
    const int64_t kind = below(random, 8);
    if (kind == 0 && is_signed) {
        return of_signed[below(random, (int64_t)GY_COUNT(of_signed))];
    }
    return kind == 1 && is_real(dtype) ? of_real[below(random, (int64_t)GY_COUNT(of_real))]
                                       : any[below(random, (int64_t)GY_COUNT(any))];
}

/* A cast that tiles have; the type as it is where they have none. */
static gy_dtype draw_target(gy_dtype from, gy_random *random)
{
    static const gy_dtype targets[] = {GY_F64, GY_F32, GY_I64, GY_I32, GY_U8, GY_BF16, GY_F16};
    const gy_dtype to = targets[below(random, (int64_t)GY_COUNT(targets))];
    const bool from_half = from == GY_BF16 || from == GY_F16;
    const bool to_half = to == GY_BF16 || to == GY_F16;
    if (from_half) {
        return GY_F32;
    }
    return to_half && from != GY_F32 ? GY_I32 : to;
}

static bool has_casts(gy_dtype dtype)
{
    return is_real(dtype) || dtype == GY_I64 || dtype == GY_I32 || dtype == GY_U8 ||
           dtype == GY_BF16 || dtype == GY_F16;
}

/* Dropout, with draws from the first row that the seed names, or from the first element. */
static void make_dropout(trial *t, gy_fused_step *step, gy_random *random)
{
    step->op = &gy_ops_row_dropout;
    step->attributes.dropout.rate = 0.3;
    step->attributes.dropout.stream = (uint64_t)below(random, 9);
    step->attributes.dropout.row = below(random, 2) * 7;
    step->inputs[1] = (int16_t)(t->program.input_count - 1);
}

static void draw_step(trial *t, gy_random *random)
{
    gy_fused_step *step = &t->program.steps[t->program.step_count];
    const int first = t->usable[below(random, t->usable_count)];
    const gy_dtype type = t->types[first];
    gy_dtype result = type;
    step->inputs[0] = (int16_t)first;
    if (type == GY_BF16 || type == GY_F16 || (has_casts(type) && below(random, 6) == 0)) {
        step->op = &gy_ops_row_cast;
        result = step->attributes.cast.dtype = draw_target(type, random);
    } else if (t->has_seed && is_real(type) && below(random, 3) == 0) {
        make_dropout(t, step, random);
    } else {
        step->op = draw_op(type, random);
        const bool multiplies = step->op == &gy_ops_row_mul || step->op == &gy_ops_row_square;
        const int mask = find_register(t, GY_U8, random);
        if ((multiplies && t->products++ > 1) || (step->op == &gy_ops_row_select && mask < 0)) {
            step->op = &gy_ops_row_identity;
        }
        for (int i = 1; i < step->op->input_count; i++) {
            step->inputs[i] = (int16_t)find_register(t, type, random);
        }
        if (step->op == &gy_ops_row_select) {
            step->inputs[0] = (int16_t)mask;
            step->inputs[2] = (int16_t)first;
        }
        const gy_op *const compare[] = {&gy_ops_row_equal,   &gy_ops_row_not_equal,
                                        &gy_ops_row_less,    &gy_ops_row_less_equal,
                                        &gy_ops_row_greater, &gy_ops_row_greater_equal};
        for (size_t k = 0; k < GY_COUNT(compare); k++) {
            result = step->op == compare[k] ? GY_U8 : result;
        }
    }
    add_register(t, result);
    t->program.step_count++;
}

static void draw_outputs(trial *t, gy_random *random)
{
    static const gy_op *const ops[] = {&gy_ops_row_sum, &gy_ops_row_prod, &gy_ops_row_max,
                                       &gy_ops_row_min, &gy_ops_row_mean};
    gy_fused *p = &t->program;
    const int first = p->input_count;
    p->output_count = 1 + (int)below(random, 3);
    for (int o = 0; o < p->output_count; o++) {
        gy_fused_output *out = &p->outputs[o];
        out->register_index = (int16_t)(first + below(random, p->step_count));
        gy_type *type = &t->output_types[o];
        *type = (gy_type){.dtype = t->types[out->register_index], .rank = p->rank};
        memcpy(type->sizes, p->sizes, sizeof(p->sizes));
        const bool folds = is_real(type->dtype) || type->dtype == GY_I64 ||
                           type->dtype == GY_I32 || type->dtype == GY_U8;
        if (folds && below(random, 2) == 0) {
            const gy_op *op = ops[below(random, is_real(type->dtype) ? 5 : 4)];
            out->reduction = op == &gy_ops_row_prod && is_real(type->dtype) ? ops[0] : op;
            out->axes = o > 0 && below(random, 2) == 0 && p->outputs[o - 1].reduction != NULL
                            ? p->outputs[o - 1].axes
                            : (uint32_t)below(random, INT64_C(1) << p->rank);
            const uint32_t axes = gy_reduce_axes(out->axes, p->rank);
            type->rank = 0;
            for (int d = 0; d < p->rank; d++) {
                if ((axes >> d & 1u) == 0) {
                    type->sizes[type->rank++] = p->sizes[d];
                }
            }
        }
        t->wanted[o] = new_view(type->dtype, type->sizes, type->rank);
        t->got[o] = new_view(type->dtype, type->sizes, type->rank);
    }
}

static void draw_trial(trial *t, gy_random *random)
{
    static const gy_dtype types[] = {GY_F32, GY_F32, GY_F64, GY_I64, GY_I32,  GY_I16,
                                     GY_I8,  GY_U32, GY_U16, GY_U8,  GY_BF16, GY_F16};
    static const int64_t sizes[] = {1, 1, 2, 3, 7, 16, 31, 64, 131};
    gy_fused *p = &t->program;
    memset(t, 0, sizeof(*t));
    p->rank = (int)below(random, 5);
    int64_t count = 1;
    for (int d = 0; d < p->rank; d++) {
        p->sizes[d] = sizes[below(random, count > 500 ? 5 : (int64_t)GY_COUNT(sizes))];
        p->sizes[d] = below(random, 40) == 0 ? 0 : p->sizes[d];
        count *= p->sizes[d];
    }
    if (p->rank > 0 && below(random, 8) == 0) { /* long enough for pieces */
        p->sizes[p->rank - 1] *= 97;
    }
    const gy_dtype type = types[below(random, (int64_t)GY_COUNT(types))];
    const int inputs = 1 + (int)below(random, 3);
    for (int i = 0; i < inputs; i++) {
        draw_input(t, i > 0 && below(random, 4) == 0 ? GY_U8 : type, random);
    }
    if (below(random, 3) == 0) {
        add_seed(t, random);
    }
    const int steps = 1 + (int)below(random, STEPS_MAX);
    for (int s = 0; s < steps; s++) {
        draw_step(t, random);
    }
    draw_outputs(t, random);
    t->attributes.fused.program = p;
    /* The part of a larger value, every other time one that is no run of whole rows. */
    const int cut = below(random, 2) == 0 ? 0 : p->rank - 1;
    for (int o = 0; o < p->output_count && p->rank > 0; o++) {
        t->output_types[o].sizes[cut] += 11;
        t->offsets[o][cut] = 5;
    }
}

static gy_kernel_call call_of(trial *t, gy_view *outputs)
{
    return (gy_kernel_call){.op = &gy_ops_row_fused,
                            .attributes = &t->attributes,
                            .inputs = t->inputs,
                            .input_count = t->program.input_count,
                            .outputs = outputs,
                            .output_count = t->program.output_count,
                            .output_types = t->output_types,
                            .output_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])t->offsets};
}

/* false: the CPU has no kernel either. */
static bool run_here(trial *t)
{
    gy_kernel_call call = call_of(t, t->wanted);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    const gy_kernel *kernel = gy_kernel_choose(&query);
    if (kernel == NULL) {
        return false;
    }
    call.workspace = gy_alloc("test", kernel->workspace_bytes(&query) + 64);
    assert_ok(kernel->prepare(&query, &call.state));
    assert_ok(kernel->run(&call));
    kernel->release(call.state);
    gy_free(call.workspace);
    return true;
}

static void free_trial(trial *t)
{
    for (int i = 0; i < t->program.input_count; i++) {
        gy_free(t->memory[i]);
    }
    for (int o = 0; o < t->program.output_count; o++) {
        gy_free(t->wanted[o].data);
        gy_free(t->got[o].data);
    }
}

static bool is_same(double wanted, double got, double tolerance)
{
    if (isnan(wanted) || isnan(got)) {
        return isnan(wanted) && isnan(got);
    }
    return wanted == got || fabs(wanted - got) <= tolerance * (1 + fabs(wanted));
}

static void compare(const trial *t, int number)
{
    for (int o = 0; o < t->program.output_count; o++) {
        const gy_view *wanted = &t->wanted[o], *got = &t->got[o];
        const bool is_sum = t->program.outputs[o].reduction == &gy_ops_row_sum ||
                            t->program.outputs[o].reduction == &gy_ops_row_mean;
        const double tolerance = !is_sum                   ? 0
                                 : wanted->dtype == GY_F32 ? 1e-4
                                 : wanted->dtype == GY_F64 ? 1e-12
                                                           : 0;
        for (int64_t i = 0; i < gy_view_count(wanted); i++) {
            if (is_real(wanted->dtype)) {
                const double a = gy_element_get(wanted->dtype, wanted->data, i);
                const double b = gy_element_get(got->dtype, got->data, i);
                if (!is_same(a, b, tolerance)) {
                    fail_msg("program %d, output %d at %lld: %.17g, the CPU gave %.17g", number,
                             o, (long long)i, b, a);
                }
            } else if (gy_element_get_whole(wanted->dtype, wanted->data, i) !=
                       gy_element_get_whole(got->dtype, got->data, i)) {
                fail_msg("program %d, output %d at %lld: %lld, the CPU gave %lld", number, o,
                         (long long)i,
                         (long long)gy_element_get_whole(got->dtype, got->data, i),
                         (long long)gy_element_get_whole(wanted->dtype, wanted->data, i));
            }
        }
    }
}

/* All outputs' bytes, one behind another. */
static size_t gather_bytes(const trial *t, unsigned char *into)
{
    size_t size = 0;
    for (int o = 0; o < t->program.output_count; o++) {
        const size_t bytes = gy_view_bytes(&t->got[o]);
        if (into != NULL && bytes > 0) {
            memcpy(into + size, t->got[o].data, bytes);
        }
        size += bytes;
    }
    return size;
}

static void run_both_ways(const texts *all, trial *t, int number)
{
    gy_kernel_call call = call_of(t, t->got);
    const size_t size = gather_bytes(t, NULL);
    unsigned char *first = gy_alloc("test", size), *second = gy_alloc("test", size);
    assert_non_null(first);
    assert_non_null(second);
    for (int order = 0; order < 2; order++) {
        texts_order(all, order);
        (void)texts_run(all, t->at, &call);
        (void)gather_bytes(t, order == 0 ? first : second);
    }
    if (memcmp(first, second, size) != 0) {
        fail_msg("program %d: other bits in another order of threads", number);
    }
    gy_free(first);
    gy_free(second);
}

static bool can_be_in_place(const trial *t, const texts *all)
{
    const gy_view *in = &t->inputs[0], *out = &t->got[0];
    return all->of[t->at]->in_place_any && t->program.outputs[0].reduction == NULL &&
           gy_dtype_bytes(in->dtype) == gy_dtype_bytes(out->dtype) &&
           gy_view_is_contiguous(in) && gy_view_same_shape(in, out);
}

/* Output 0 in the memory of input 0. */
static void run_in_place(const texts *all, trial *t)
{
    gy_kernel_call call = call_of(t, t->got);
    const size_t bytes = gy_view_bytes(&t->got[0]);
    gy_view own = t->got[0];
    t->got[0].data = t->inputs[0].data;
    (void)texts_run(all, t->at, &call);
    t->got[0] = own;
    memcpy(own.data, t->inputs[0].data, bytes);
}

GY_TEST(random_programs_give_what_the_cpu_gives)
{
    gy_random random = {.key = gy_test_seed()};
    const long count = gy_test_serial_cases(PROGRAMS);
    trial *trials = gy_alloc_zero("test", (size_t)count, sizeof(*trials));
    texts *all = gy_alloc("test", sizeof(*all));
    long taken = 0, in_place = 0;
    texts_open(all);
    for (long n = 0; n < count; n++) {
        draw_trial(&trials[n], &random);
        gy_kernel_call call = call_of(&trials[n], trials[n].got);
        trials[n].at = texts_add(all, &call);
        /* What the CPU's tiles can run has a text. */
        assert_int_equal(trials[n].at >= 0, run_here(&trials[n]));
        taken += trials[n].at >= 0;
    }
    assert_true(taken > count / 2);
    texts_compile(all);
    texts_check(all);
    for (long n = 0; n < count; n++) {
        if (trials[n].at >= 0) {
            run_both_ways(all, &trials[n], (int)n);
            compare(&trials[n], (int)n);
            if (can_be_in_place(&trials[n], all)) {
                run_in_place(all, &trials[n]);
                compare(&trials[n], (int)n);
                in_place++;
            }
        }
        free_trial(&trials[n]);
    }
    assert_in_range(in_place, count >= PROGRAMS ? 1 : 0, count); /* few have none, perhaps */
    texts_close(all);
    gy_free(all);
    gy_free(trials);
}

/* Views that an index of 32 bits does not reach the end of: pages that nobody touches cost
 * nothing. */
GY_TEST(far_apart_elements_are_reached)
{
    enum { ROWS = 3, COLUMNS = 5 };
    const int64_t sizes[2] = {ROWS, COLUMNS}, away = INT64_C(1) << 31;
    const size_t bytes = (size_t)(ROWS * away);
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    gy_view x = gy_view_of(memory, GY_U8, sizes, 2);
    gy_view y = new_view(GY_U8, sizes, 2);
    x.strides[0] = away;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        memory[i / COLUMNS * away + i % COLUMNS] = (uint8_t)(7 * i);
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const gy_kernel_call call = {.op = &gy_ops_row_square,
                                 .attributes = &attributes,
                                 .inputs = &x,
                                 .input_count = 1,
                                 .outputs = &y,
                                 .output_count = 1};
    texts *all = gy_alloc("test", sizeof(*all));
    texts_open(all);
    const int at = texts_add(all, &call);
    assert_int_equal(at, 0);
    texts_compile(all);
    const bool fits = texts_fit(all, bytes);
    if (fits) {
        (void)texts_run(all, at, &call);
    }
    for (int i = 0; fits && i < ROWS * COLUMNS; i++) {
        assert_int_equal(((uint8_t *)y.data)[i], (uint8_t)(49 * i * i));
    }
    texts_close(all);
    gy_free(all);
    gy_free(y.data);
    assert_int_equal(munmap(memory, bytes), 0);
    if (!fits) {
        printf("left out: the device has too little memory\n");
        skip();
    }
}

GY_TEST_MAIN(NULL, NULL)
