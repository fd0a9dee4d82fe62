/*
 * Goal: random fused programs give what their steps give one after another by the plain
 * definitions; the same bits with any number of workers and in place; dropout of a shard is the
 * shard of the dropout; blocked values give what dense ones give.
 */
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { MOST_INPUTS = 5, MOST_STEPS = 8 };

typedef struct trial {
    gy_fused program;
    gy_type inputs[GY_OP_INPUTS_MAX];
    gy_type outputs[GY_OP_OUTPUTS_MAX];
    gy_view values[GY_OP_INPUTS_MAX + 32]; /* float64, of every register, of its own shape */
} trial;

static const gy_op *const unary[] = {&gy_ops_row_neg,  &gy_ops_row_square, &gy_ops_row_tanh,
                                     &gy_ops_row_relu, &gy_ops_row_abs,    &gy_ops_row_sigmoid};
static const gy_op *const binary[] = {&gy_ops_row_add, &gy_ops_row_sub, &gy_ops_row_mul,
                                      &gy_ops_row_maximum};

static gy_engine *workers;

static gy_view new_view(gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    view.data = gy_alloc("test", gy_view_bytes(&view) + 64);
    return view;
}

static int64_t one_size(gy_random *random)
{
    static const int64_t sizes[] = {1, 2, 5, 16, 31, 64, 300, 1500};
    return sizes[gy_random_below(random, GY_COUNT(sizes))];
}

static void draw_input(trial *t, int i, gy_random *random)
{
    const gy_fused *p = &t->program;
    int skip = (int)gy_random_below(random, (uint64_t)p->rank + 1);
    skip = gy_random_below(random, 2) == 0 || i == 0 ? 0 : skip;
    gy_type *type = &t->inputs[i];
    *type = (gy_type){.dtype = GY_F32, .rank = p->rank - skip};
    for (int d = skip; d < p->rank; d++) {
        bool repeats = i > 0 && gy_random_below(random, 4) == 0;
        type->sizes[d - skip] = repeats ? 1 : p->sizes[d];
    }
    t->values[i] = new_view(GY_F64, type->sizes, type->rank);
    for (int64_t k = 0; k < gy_view_count(&t->values[i]); k++) {
        ((double *)t->values[i].data)[k] = (double)(float)(2 * gy_random_unit(random) - 1);
    }
}

/* A step by its plain definition, broadcast to the common shape. */
static void draw_step(trial *t, int s, gy_random *random)
{
    gy_fused *p = &t->program;
    gy_fused_step *step = &p->steps[s];
    int registers = p->input_count + s;
    bool is_binary = gy_random_below(random, 3) > 0;
    step->op = is_binary ? binary[gy_random_below(random, GY_COUNT(binary))]
                         : unary[gy_random_below(random, GY_COUNT(unary))];
    gy_view inputs[2];
    for (int i = 0; i < step->op->input_count; i++) {
        step->inputs[i] = (int16_t)gy_random_below(random, (uint64_t)registers);
        if (s == p->step_count - 1 && i == 0) {
            step->inputs[0] = 0; /* the last has the common shape */
        }
        inputs[i] = t->values[step->inputs[i]];
    }
    gy_view *out = &t->values[registers];
    *out = new_view(GY_F64, p->sizes, p->rank);
    gy_kernel_call call = {.op = step->op,
                           .attributes = &step->attributes,
                           .inputs = inputs,
                           .input_count = step->op->input_count,
                           .outputs = out,
                           .output_count = 1};
    assert_ok(step->op->reference(&call));
}

static void draw_outputs(trial *t, gy_random *random)
{
    gy_fused *p = &t->program;
    p->output_count = 1 + (int)gy_random_below(random, 3);
    for (int o = 0; o < p->output_count; o++) {
        gy_fused_output *out = &p->outputs[o];
        int last = p->input_count + p->step_count - 1;
        out->register_index =
            (int16_t)(o == 0 ? last
                             : last - (int)gy_random_below(random, (uint64_t)p->step_count));
        gy_type *type = &t->outputs[o];
        *type = (gy_type){.dtype = GY_F32, .rank = p->rank};
        memcpy(type->sizes, p->sizes, sizeof(p->sizes));
        if (gy_random_below(random, 2) == 0) {
            const gy_op *const ops[] = {&gy_ops_row_sum, &gy_ops_row_max, &gy_ops_row_min};
            out->reduction = ops[gy_random_below(random, 3)];
            out->axes = (uint32_t)gy_random_below(random, 1u << p->rank);
            out->keep = gy_random_below(random, 2) == 0;
            gy_attributes attributes;
            memset(&attributes, 0, sizeof(attributes));
            attributes.reduce.axes = out->axes;
            attributes.reduce.keep = out->keep;
            gy_type common = *type;
            assert_ok(out->reduction->infer(&attributes, &common, 1, type));
        }
    }
}

static void draw_trial(trial *t, gy_random *random)
{
    memset(t, 0, sizeof(*t));
    gy_fused *p = &t->program;
    p->rank = 1 + (int)gy_random_below(random, 4);
    p->input_count = 1 + (int)gy_random_below(random, MOST_INPUTS);
    p->step_count = 1 + (int)gy_random_below(random, MOST_STEPS);
    int64_t count = 1;
    for (int d = 0; d < p->rank; d++) {
        p->sizes[d] = count > 300 ? 1 + d % 3 : one_size(random);
        count *= p->sizes[d];
    }
    for (int i = 0; i < p->input_count; i++) {
        draw_input(t, i, random);
    }
    for (int s = 0; s < p->step_count; s++) {
        draw_step(t, s, random);
    }
    draw_outputs(t, random);
}

static void free_trial(trial *t)
{
    for (int r = 0; r < t->program.input_count + t->program.step_count; r++) {
        gy_free(t->values[r].data);
    }
}

typedef struct ran {
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
} ran;

/* Run with inputs from `values`; blocked: 4-D values of the common shape. */
static void run_program(const trial *t, gy_engine *engine, bool in_place, bool is_blocked,
                        ran *r)
{
    const gy_fused *p = &t->program;
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.fused.program = p;
    for (int i = 0; i < p->input_count; i++) {
        r->inputs[i] = new_view(GY_F32, t->inputs[i].sizes, t->inputs[i].rank);
        if (is_blocked && memcmp(t->inputs[i].sizes, p->sizes, sizeof(p->sizes)) == 0) {
            r->inputs[i].format = GY_FORMAT_BLOCKED;
        }
        assert_ok(gy_view_copy(&r->inputs[i], &t->values[i]));
    }
    for (int o = 0; o < p->output_count; o++) {
        r->outputs[o] = new_view(GY_F32, t->outputs[o].sizes, t->outputs[o].rank);
        if (is_blocked && p->outputs[o].reduction == NULL) {
            r->outputs[o].format = GY_FORMAT_BLOCKED;
        }
    }
    if (in_place) {
        gy_free(r->outputs[0].data);
        r->outputs[0].data = r->inputs[0].data;
    }
    gy_kernel_query query = {.op = &gy_ops_row_fused,
                             .attributes = &attributes,
                             .inputs = r->inputs,
                             .input_count = p->input_count,
                             .outputs = r->outputs,
                             .output_count = p->output_count,
                             .workers = 1};
    const gy_kernel *kernel = gy_kernel_choose(&query);
    assert_non_null(kernel);
    void *state = NULL, *workspace = gy_alloc("test", kernel->workspace_bytes(&query) + 64);
    assert_ok(kernel->prepare(&query, &state));
    gy_kernel_call call = {.op = &gy_ops_row_fused,
                           .attributes = &attributes,
                           .inputs = r->inputs,
                           .input_count = p->input_count,
                           .outputs = r->outputs,
                           .output_count = p->output_count,
                           .workspace = workspace,
                           .state = state,
                           .engine = engine};
    assert_ok(kernel->run(&call));
    kernel->release(state);
    gy_free(workspace);
}

static void free_ran(const trial *t, ran *r, bool in_place)
{
    for (int i = 0; i < t->program.input_count; i++) {
        gy_free(r->inputs[i].data);
    }
    for (int o = in_place ? 1 : 0; o < t->program.output_count; o++) {
        gy_free(r->outputs[o].data);
    }
}

static double expected_at(const trial *t, int o, const gy_view *reduced, int64_t i)
{
    const gy_view *from = t->program.outputs[o].reduction != NULL
                              ? reduced
                              : &t->values[t->program.outputs[o].register_index];
    return gy_element_get(GY_F64, from->data, i);
}

static void compare(const trial *t, const ran *r)
{
    for (int o = 0; o < t->program.output_count; o++) {
        const gy_fused_output *out = &t->program.outputs[o];
        gy_view reduced = {.data = NULL};
        gy_view from = t->values[out->register_index];
        if (out->reduction != NULL) {
            gy_attributes attributes;
            memset(&attributes, 0, sizeof(attributes));
            attributes.reduce.axes = out->axes;
            attributes.reduce.keep = out->keep;
            reduced = new_view(GY_F64, t->outputs[o].sizes, t->outputs[o].rank);
            gy_kernel_call call = {.op = out->reduction,
                                   .attributes = &attributes,
                                   .inputs = &from,
                                   .input_count = 1,
                                   .outputs = &reduced,
                                   .output_count = 1};
            assert_ok(out->reduction->reference(&call));
        }
        const gy_view *got = &r->outputs[o];
        double largest = 1;
        for (int64_t i = 0; i < gy_view_count(&from); i++) {
            largest = fmax(largest, fabs(gy_element_get(GY_F64, from.data, i)));
        }
        double length = (double)gy_view_count(&from) / (double)GY_MAX(gy_view_count(got), 1);
        for (int64_t i = 0; i < gy_view_count(got); i++) {
            double a = gy_element_get(GY_F32, got->data, gy_view_offset(got, i));
            double b = expected_at(t, o, &reduced, i);
            if (!(fabs(a - b) <= 2e-5 * (largest + fabs(b)) * fmax(1, sqrt(length))) &&
                a != b) {
                fail_msg("output %d element %lld: %.9g, expected %.9g", o, (long long)i, a, b);
            }
        }
        gy_free(reduced.data);
    }
}

GY_TEST(random_programs)
{
    gy_random random = {.key = gy_test_seed()};
    static trial t;
    for (int round = 0; round < 120; round++) {
        ran first, again;
        draw_trial(&t, &random);
        run_program(&t, NULL, false, false, &first);
        compare(&t, &first);
        run_program(&t, workers, false, false, &again);
        for (int o = 0; o < t.program.output_count; o++) {
            assert_memory_equal(first.outputs[o].data, again.outputs[o].data,
                                gy_view_bytes(&first.outputs[o]));
        }
        free_ran(&t, &again, false);
        if (t.program.outputs[0].reduction == NULL) {
            run_program(&t, workers, true, false, &again);
            for (int o = 0; o < t.program.output_count; o++) {
                assert_memory_equal(first.outputs[o].data, again.outputs[o].data,
                                    gy_view_bytes(&first.outputs[o]));
            }
            free_ran(&t, &again, true);
        }
        free_ran(&t, &first, false);
        free_trial(&t);
    }
}

/* relu(x * y + per channel), stored and summed per channel, over sizes with 16 k channels. */
GY_TEST(blocked_values)
{
    gy_random random = {.key = gy_test_seed()};
    static trial t;
    for (int round = 0; round < 30; round++) {
        memset(&t, 0, sizeof(t));
        gy_fused *p = &t.program;
        p->rank = 4;
        p->input_count = 3;
        p->step_count = 3;
        const int64_t sizes[4] = {1 + round % 4, 16 * (1 + round % 3), 1 + round % 9,
                                  1 + round % 14};
        memcpy(p->sizes, sizes, sizeof(sizes));
        for (int i = 0; i < 3; i++) {
            gy_type *type = &t.inputs[i];
            *type = (gy_type){.dtype = GY_F32, .rank = 4};
            for (int d = 0; d < 4; d++) {
                type->sizes[d] = i == 2 && d != 1 ? 1 : sizes[d];
            }
            t.values[i] = new_view(GY_F64, type->sizes, 4);
            for (int64_t k = 0; k < gy_view_count(&t.values[i]); k++) {
                ((double *)t.values[i].data)[k] =
                    (double)(float)(gy_random_unit(&random) - 0.5);
            }
        }
        p->steps[0] = (gy_fused_step){.op = &gy_ops_row_mul, .inputs = {0, 1}};
        p->steps[1] = (gy_fused_step){.op = &gy_ops_row_add, .inputs = {3, 2}};
        p->steps[2] = (gy_fused_step){.op = &gy_ops_row_relu, .inputs = {4}};
        for (int s = 0; s < 3; s++) {
            gy_view inputs[2] = {t.values[p->steps[s].inputs[0]],
                                 t.values[p->steps[s].inputs[1]]};
            t.values[3 + s] = new_view(GY_F64, sizes, 4);
            gy_kernel_call call = {.op = p->steps[s].op,
                                   .attributes = &p->steps[s].attributes,
                                   .inputs = inputs,
                                   .input_count = p->steps[s].op->input_count,
                                   .outputs = &t.values[3 + s],
                                   .output_count = 1};
            assert_ok(p->steps[s].op->reference(&call));
        }
        p->output_count = 3;
        p->outputs[0] = (gy_fused_output){.register_index = 5};
        p->outputs[1] =
            (gy_fused_output){.register_index = 5, .reduction = &gy_ops_row_sum, .axes = 13};
        p->outputs[2] =
            (gy_fused_output){.register_index = 4, .reduction = &gy_ops_row_max, .axes = 15};
        t.outputs[0] = t.inputs[0];
        t.outputs[1] = (gy_type){.dtype = GY_F32, .rank = 1, .sizes = {sizes[1]}};
        t.outputs[2] = (gy_type){.dtype = GY_F32, .rank = 0};
        ran r;
        run_program(&t, round % 2 == 0 ? NULL : workers, false, true, &r);
        compare(&t, &r);
        free_ran(&t, &r, false);
        free_trial(&t);
    }
}

/* Dropout of part [begin, end) of a dimension is that part of the dropout of all. */
GY_TEST(dropout_of_a_shard)
{
    const int64_t sizes[2] = {37, 53};
    int64_t seed[2] = {5, 11};
    float x[37 * 53], whole[37 * 53];
    for (int i = 0; i < 37 * 53; i++) {
        x[i] = (float)(i + 1);
    }
    for (int dim = -1; dim < 2; dim++) {
        gy_attributes attributes;
        memset(&attributes, 0, sizeof(attributes));
        attributes.dropout.rate = 0.25;
        attributes.dropout.stream = 3;
        int64_t offsets[1][GY_TENSOR_RANK_MAX] = {{0}}, own[2] = {sizes[0], sizes[1]};
        gy_type type = {.dtype = GY_F32, .rank = 2, .sizes = {sizes[0], sizes[1]}};
        if (dim >= 0) {
            offsets[0][dim] = 10;
            own[dim] = 21;
        }
        float part[37 * 53], result[37 * 53];
        for (int64_t i = 0; i < own[0] * own[1]; i++) {
            int64_t row = i / own[1] + offsets[0][0], column = i % own[1] + offsets[0][1];
            part[i] = x[row * sizes[1] + column];
        }
        gy_view inputs[2] = {gy_view_of(part, GY_F32, own, 2),
                             gy_view_of(seed, GY_I64, (int64_t[]){2}, 1)};
        gy_view output = gy_view_of(result, GY_F32, own, 2);
        gy_kernel_query query = {.op = &gy_ops_row_dropout,
                                 .attributes = &attributes,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .outputs = &output,
                                 .output_count = 1};
        const gy_kernel *kernel = gy_kernel_choose(&query);
        assert_non_null(kernel);
        void *prepared = NULL;
        assert_ok(kernel->prepare(&query, &prepared));
        gy_type types[2] = {type, type};
        int64_t in_offsets[2][GY_TENSOR_RANK_MAX] = {{0}};
        memcpy(in_offsets[0], offsets[0], sizeof(offsets[0]));
        gy_kernel_call call = {.op = &gy_ops_row_dropout,
                               .attributes = &attributes,
                               .inputs = inputs,
                               .input_count = 2,
                               .outputs = &output,
                               .output_count = 1,
                               .state = prepared};
        if (dim >= 0) {
            call.input_types = types;
            call.output_types = &type;
            call.input_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])in_offsets;
            call.output_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])offsets;
        }
        assert_ok(kernel->run(&call));
        kernel->release(prepared);
        if (dim < 0) {
            memcpy(whole, result, sizeof(whole));
            continue;
        }
        for (int64_t i = 0; i < own[0] * own[1]; i++) {
            int64_t row = i / own[1] + offsets[0][0], column = i % own[1] + offsets[0][1];
            assert_memory_equal(&result[i], &whole[row * sizes[1] + column], sizeof(float));
        }
    }
}

/* Where y is not a number the gradient passes: select(y <= 0, 0, dy), which is one loop. */
GY_TEST(the_gradient_of_relu_passes_nan)
{
    enum { COUNT = 50, KINDS = 7 };
    static const double special[KINDS] = {NAN, 1, 0, -0.0, -1, INFINITY, -INFINITY};
    static const bool passes[KINDS] = {true, true, false, false, false, true, false};
    double memory[4][COUNT];
    for (int kind = 0; kind < 2; kind++) {
        gy_dtype dtype = kind == 0 ? GY_F32 : GY_F64;
        const int64_t sizes[1] = {COUNT};
        gy_view inputs[3] = {gy_view_of(memory[0], dtype, sizes, 1),
                             gy_view_of(memory[1], dtype, sizes, 1),
                             gy_view_of(memory[2], dtype, NULL, 0)};
        gy_view output = gy_view_of(memory[3], dtype, sizes, 1);
        for (int i = 0; i < COUNT; i++) {
            gy_element_set(dtype, memory[0], i, special[i % KINDS]);
            gy_element_set(dtype, memory[1], i, i + 1);
        }
        gy_element_set(dtype, memory[2], 0, 0);
        gy_fused program = {.input_count = 3, .step_count = 2, .output_count = 1, .rank = 1};
        program.sizes[0] = COUNT;
        program.steps[0] = (gy_fused_step){.op = &gy_ops_row_less_equal, .inputs = {0, 2}};
        program.steps[1] = (gy_fused_step){.op = &gy_ops_row_select, .inputs = {3, 2, 1}};
        program.outputs[0].register_index = 4;
        gy_attributes attributes;
        memset(&attributes, 0, sizeof(attributes));
        attributes.fused.program = &program;
        gy_kernel_query query = {.op = &gy_ops_row_fused,
                                 .attributes = &attributes,
                                 .inputs = inputs,
                                 .input_count = 3,
                                 .outputs = &output,
                                 .output_count = 1,
                                 .workers = 1};
        gy_kernel_call call = {.op = &gy_ops_row_fused,
                               .attributes = &attributes,
                               .inputs = inputs,
                               .input_count = 3,
                               .outputs = &output,
                               .output_count = 1};
        const gy_kernel *kernel = gy_kernel_choose(&query);
        assert_non_null(kernel);
        void *workspace = gy_alloc("test", kernel->workspace_bytes(&query) + 64);
        call.workspace = workspace;
        assert_ok(kernel->prepare(&query, &call.state));
        assert_ok(kernel->run(&call));
        kernel->release(call.state);
        gy_free(workspace);
        for (int i = 0; i < COUNT; i++) {
            double expected = passes[i % KINDS] ? i + 1 : 0;
            assert_true(gy_element_get(dtype, memory[3], i) == expected);
        }
    }
}

static int start_workers(void **state)
{
    (void)state;
    return gy_engine_new(&(gy_engine_options){.workers = 3}, &workers) == GY_OK ? 0 : -1;
}

static int end_workers(void **state)
{
    (void)state;
    gy_engine_free(workers);
    return 0;
}

GY_TEST_MAIN(start_workers, end_workers)
