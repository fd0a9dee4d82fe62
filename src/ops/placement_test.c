/*
 * Goal: every signature of every sample, run part by part for 2, 3 and 4 ranks, gives what one
 * rank gives: inputs are split as the signature says, outputs put together as it says; by the
 * plain definition and by the kernel that is chosen for the parts.
 */
#include "ops/ops.h"
#include "ops/ops_priv.h"
#include "ops_eager.h"
#include "ops_random.h"

#include <math.h>

#include "gy_test.h"

enum { MAX_SAMPLE_INPUTS = 6, MAX_OUTPUTS = 3, MAX_RANKS = 4 };

/* One value on all ranks: its parts, where they begin, and what memory to free. */
typedef struct parts {
    gy_view views[MAX_RANKS];
    int64_t offsets[MAX_RANKS][GY_TENSOR_RANK_MAX];
    void *owned[MAX_RANKS];
} parts;

static bool is_whole(gy_dtype dtype)
{
    return dtype != GY_F64 && dtype != GY_F32;
}

/* Integers wrap, as sums over ranks do. */
static void put(const gy_view *view, int64_t index, double value)
{
    int64_t number = (int64_t)value;
    if (!is_whole(view->dtype)) {
        gy_element_set(view->dtype, view->data, index, value);
        return;
    }
    gy_element_set_whole(view->dtype, view->data, index, number);
}

/* The part of rank r of `whole` along dim, as a view into it. */
static gy_view shard_of(const gy_view *whole, int dim, int r, int ranks, int64_t *begin)
{
    *begin = gy_part_begin(whole->sizes[dim], r, ranks);
    const int64_t end = gy_part_begin(whole->sizes[dim], r + 1, ranks);
    return gy_view_cut(whole, dim, *begin, end - *begin, 1);
}

/* Neutral to the reduction, or nearly so for one rank's random share. */
static double share_of(gy_reduction reduction, double value, int r, bool whole,
                       gy_random *random)
{
    double drawn = whole ? (double)gy_random_below(random, 5) : gy_random_unit(random);
    switch (reduction) {
    case GY_SUM:
        return drawn;
    case GY_PROD:
        return whole ? 1 : 0.5 + drawn;
    case GY_MIN:
        return r % 2 == 0 ? value : value + drawn;
    case GY_MAX:
        return r % 2 == 0 || (whole && value < 5) ? value : value - drawn; /* no wrap */
    case GY_AVG:
    case GY_BIT_AND:
    case GY_BIT_OR:
    case GY_BIT_XOR:
    case GY_REDUCTION_COUNT:
        break; /* no placement */
    }
    return 0;
}

static double combine(gy_reduction reduction, double a, double b)
{
    switch (reduction) {
    case GY_SUM:
        return a + b;
    case GY_PROD:
        return a * b;
    case GY_MIN:
        return fmin(a, b);
    case GY_MAX:
        return fmax(a, b);
    case GY_AVG:
    case GY_BIT_AND:
    case GY_BIT_OR:
    case GY_BIT_XOR:
    case GY_REDUCTION_COUNT:
        break; /* no placement */
    }
    return 0;
}

/* Random parts whose combination is the value: the last rank of a sum or product has the rest.
 */
static void split_partial(const gy_view *whole, gy_reduction reduction, int ranks,
                          gy_random *random, parts *out)
{
    const gy_type type = ops_eager_type_of(whole);
    for (int r = 0; r < ranks; r++) {
        out->views[r] = ops_eager_view(&type);
        out->owned[r] = out->views[r].data;
    }
    for (int64_t i = 0; i < gy_view_count(whole); i++) {
        const double value = gy_element_get(whole->dtype, whole->data, i);
        double left = value;
        for (int r = 0; r < ranks; r++) {
            double share = share_of(reduction, value, r, is_whole(whole->dtype), random);
            if (r == ranks - 1 && (reduction == GY_SUM || reduction == GY_PROD)) {
                share = left;
            }
            left = reduction == GY_SUM ? left - share : left / share;
            put(&out->views[r], i, share);
        }
    }
}

static void split(const gy_view *whole, gy_placement placement, int ranks, gy_random *random,
                  parts *out)
{
    memset(out, 0, sizeof(*out));
    if (placement.kind == GY_PARTIAL) {
        split_partial(whole, (gy_reduction)placement.reduction, ranks, random, out);
        return;
    }
    for (int r = 0; r < ranks; r++) {
        out->views[r] = *whole;
        if (placement.kind == GY_SHARD) {
            assert_true(placement.dim < whole->rank);
            out->views[r] =
                shard_of(whole, placement.dim, r, ranks, &out->offsets[r][placement.dim]);
        }
    }
}

/* Memory of its own for every rank's output. */
static void make_outputs(const gy_type *type, gy_placement placement, int ranks, parts *out)
{
    memset(out, 0, sizeof(*out));
    for (int r = 0; r < ranks; r++) {
        gy_type local = *type;
        if (placement.kind == GY_SHARD) {
            int64_t begin = gy_part_begin(type->sizes[placement.dim], r, ranks);
            local.sizes[placement.dim] =
                gy_part_begin(type->sizes[placement.dim], r + 1, ranks) - begin;
            out->offsets[r][placement.dim] = begin;
        }
        out->views[r] = ops_eager_view(&local);
        out->owned[r] = out->views[r].data;
    }
}

static void free_parts(parts *p)
{
    for (int r = 0; r < MAX_RANKS; r++) {
        gy_free(p->owned[r]);
    }
}

static int kernel_runs; /* parts that a kernel took */

typedef struct example {
    const gy_op *op;
    const gy_ops_sample *sample;
    const gy_signature *signature;
    const gy_view *inputs;
    const gy_type *types;
    gy_type output_types[MAX_OUTPUTS];
    gy_view expected[MAX_OUTPUTS];
    char name[64]; /* for failures */
} example;

static void expect_equal(const example *e, int output, const gy_view *got, int ranks)
{
    const gy_view *expected = &e->expected[output];
    for (int64_t i = 0; i < gy_view_count(got); i++) {
        double a = gy_element_get(got->dtype, got->data, i);
        double b = gy_element_get(expected->dtype, expected->data, i);
        double tolerance = got->dtype == GY_F64 ? 1e-9 : got->dtype == GY_F32 ? 1e-5 : 0;
        if (a != b && !(fabs(a - b) <= tolerance * (1 + fabs(b)))) {
            fail_msg("%s on %d ranks, output %d, element %lld: %.12g, one rank %.12g", e->name,
                     ranks, output, (long long)i, a, b);
        }
    }
}

/* Put an output together as its placement says and compare with one rank. */
static void check_output(const example *e, int output, const parts *outputs, int ranks)
{
    const gy_placement placement = e->signature->outputs[output];
    gy_view whole = ops_eager_view(&e->output_types[output]);
    if (placement.kind == GY_SHARD) {
        for (int r = 0; r < ranks; r++) {
            int64_t begin = 0;
            gy_view part = shard_of(&whole, placement.dim, r, ranks, &begin);
            assert_ok(gy_view_copy(&part, &outputs->views[r]));
        }
        expect_equal(e, output, &whole, ranks);
    } else if (placement.kind == GY_PARTIAL) {
        for (int64_t i = 0; i < gy_view_count(&whole); i++) {
            double total = gy_element_get(whole.dtype, outputs->views[0].data, i);
            for (int r = 1; r < ranks; r++) {
                total = combine((gy_reduction)placement.reduction, total,
                                gy_element_get(whole.dtype, outputs->views[r].data, i));
            }
            put(&whole, i, total);
        }
        expect_equal(e, output, &whole, ranks);
    } else {
        for (int r = 0; r < ranks; r++) { /* replicated: every rank has all of it */
            expect_equal(e, output, &outputs->views[r], ranks);
        }
    }
    gy_free(whole.data);
}

/* A view's parts must be equally large before and after; whoever knows the ranks looks. */
static bool fits_ranks(const example *e, int ranks)
{
    const gy_placement from = e->signature->inputs[0], to = e->signature->outputs[0];
    if ((e->op->flags & GY_OP_VIEW) == 0 || from.kind != GY_SHARD) {
        return true;
    }
    const int64_t n = e->types[0].sizes[from.dim], m = e->output_types[0].sizes[to.dim];
    for (int r = 0; r < ranks && n > 0 && m > 0; r++) {
        if (gy_part_begin(n, r, ranks) * m != gy_part_begin(m, r, ranks) * n) {
            return false;
        }
    }
    return true;
}

/* All formats dense: no blocks are made here. */
static bool is_dense(const gy_kernel *kernel, const gy_kernel_query *query)
{
    gy_format inputs[GY_OP_INPUTS_MAX] = {GY_FORMAT_DENSE},
              outputs[GY_OP_OUTPUTS_MAX] = {GY_FORMAT_DENSE};
    if (kernel->formats != NULL) {
        kernel->formats(query, inputs, outputs);
    }
    bool is_so = outputs[0] == GY_FORMAT_DENSE;
    for (int i = 0; i < query->input_count; i++) {
        is_so = is_so && inputs[i] == GY_FORMAT_DENSE;
    }
    return is_so;
}

static gy_status run_prepared(const gy_kernel *kernel, const gy_kernel_query *query,
                              gy_kernel_call *call)
{
    const size_t bytes =
        kernel->workspace_bytes != NULL ? kernel->workspace_bytes(query) : (size_t)0;
    call->workspace = bytes > 0 ? gy_alloc("test.workspace", GY_MAX(bytes, 64)) : NULL;
    gy_status status = kernel->prepare != NULL ? kernel->prepare(query, &call->state) : GY_OK;
    if (status == GY_OK) {
        status = kernel->run(call);
    }
    if (kernel->release != NULL && call->state != NULL) {
        kernel->release(call->state);
    }
    gy_free(call->workspace);
    return status;
}

/* By the kernel for these parts, on contiguous copies; by the plain definition if none takes
 * them. */
static gy_status run_part(const gy_kernel_call *given, bool by_kernel)
{
    gy_view inputs[MAX_SAMPLE_INPUTS];
    const gy_kernel_query query = {.op = given->op,
                                   .attributes = given->attributes,
                                   .inputs = inputs,
                                   .input_count = given->input_count,
                                   .outputs = given->outputs,
                                   .output_count = given->output_count,
                                   .workers = 1};
    if (!by_kernel) {
        return given->op->reference(given);
    }
    for (int i = 0; i < given->input_count; i++) {
        const gy_type type = ops_eager_type_of(&given->inputs[i]);
        inputs[i] = ops_eager_view(&type);
        assert_ok(gy_view_copy(&inputs[i], &given->inputs[i]));
    }
    gy_kernel_call call = *given;
    call.inputs = inputs;
    const gy_kernel *kernel = gy_kernel_choose(&query);
    bool runs = kernel != NULL && is_dense(kernel, &query);
    kernel_runs += runs;
    gy_status status = runs ? run_prepared(kernel, &query, &call) : given->op->reference(&call);
    for (int i = 0; i < given->input_count; i++) {
        gy_free(inputs[i].data);
    }
    return status;
}

static void run_signature(const example *e, int ranks, bool by_kernel, gy_random *random)
{
    if (!fits_ranks(e, ranks)) {
        return;
    }
    parts inputs[MAX_SAMPLE_INPUTS], outputs[MAX_OUTPUTS];
    const int count = e->sample->input_count, output_count = e->op->output_count;
    for (int i = 0; i < count; i++) {
        split(&e->inputs[i], e->signature->inputs[i], ranks, random, &inputs[i]);
    }
    for (int k = 0; k < output_count; k++) {
        make_outputs(&e->output_types[k], e->signature->outputs[k], ranks, &outputs[k]);
    }
    for (int r = 0; r < ranks; r++) {
        gy_view views[MAX_SAMPLE_INPUTS], made[MAX_OUTPUTS];
        int64_t offsets[MAX_SAMPLE_INPUTS][GY_TENSOR_RANK_MAX];
        int64_t made_offsets[MAX_OUTPUTS][GY_TENSOR_RANK_MAX];
        for (int k = 0; k < output_count; k++) {
            made[k] = outputs[k].views[r];
            memcpy(made_offsets[k], outputs[k].offsets[r], sizeof(made_offsets[k]));
        }
        for (int i = 0; i < count; i++) {
            views[i] = inputs[i].views[r];
            memcpy(offsets[i], inputs[i].offsets[r], sizeof(offsets[i]));
        }
        const gy_kernel_call call = {
            .op = e->op,
            .attributes = &e->sample->attributes,
            .inputs = views,
            .input_count = count,
            .outputs = made,
            .output_count = output_count,
            .input_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])offsets,
            .output_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])made_offsets,
            .input_types = e->types,
            .output_types = e->output_types,
        };
        if (run_part(&call, by_kernel) != GY_OK) {
            fail_msg("%s, rank %d of %d: %s", e->name, r, ranks, gy_error_text());
        }
    }
    for (int k = 0; k < output_count; k++) {
        check_output(e, k, &outputs[k], ranks);
        free_parts(&outputs[k]);
    }
    for (int i = 0; i < count; i++) {
        free_parts(&inputs[i]);
    }
}

static void run_one_rank(example *e)
{
    for (int k = 0; k < e->op->output_count; k++) {
        e->expected[k] = ops_eager_view(&e->output_types[k]);
    }
    const gy_kernel_call call = {.op = e->op,
                                 .attributes = &e->sample->attributes,
                                 .inputs = e->inputs,
                                 .input_count = e->sample->input_count,
                                 .outputs = e->expected,
                                 .output_count = e->op->output_count};
    assert_ok(e->op->reference(&call));
}

static int run_sample(const gy_op *op, const gy_ops_sample *sample, int s, gy_dtype real,
                      gy_random *random)
{
    example e = {.op = op, .sample = sample};
    gy_view inputs[MAX_SAMPLE_INPUTS];
    gy_type types[MAX_SAMPLE_INPUTS];
    gy_signature signatures[GY_OP_SIGNATURES_MAX];
    for (int i = 0; i < sample->input_count; i++) {
        inputs[i] = ops_eager_draw(sample, i, real, random);
        types[i] = ops_eager_type_of(&inputs[i]);
    }
    e.inputs = inputs;
    e.types = types;
    assert_in_range(op->output_count, 1, MAX_OUTPUTS);
    assert_ok(op->infer(&sample->attributes, types, sample->input_count, e.output_types));
    int count = op->placements(&sample->attributes, types, sample->input_count, e.output_types,
                               signatures);
    assert_in_range(count, 0, GY_OP_SIGNATURES_MAX);
    run_one_rank(&e);
    for (int k = 0; k < count; k++) {
        e.signature = &signatures[k];
        snprintf(e.name, sizeof(e.name), "%s sample %d, signature %d", op->name, s, k);
        for (int ranks = 2; ranks <= MAX_RANKS; ranks++) {
            run_signature(&e, ranks, false, random);
            run_signature(&e, ranks, true, random);
        }
    }
    for (int i = 0; i < sample->input_count; i++) {
        gy_free(inputs[i].data);
    }
    for (int k = 0; k < op->output_count; k++) {
        gy_free(e.expected[k].data);
    }
    return count;
}

GY_TEST(every_signature_gives_what_one_rank_gives)
{
    gy_random random = {.key = gy_test_seed()};
    int total = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        int own = 0;
        for (int s = 0; s < op->sample_count && op->placements != NULL; s++) {
            own += run_sample(op, &op->samples[s], s, GY_F64, &random);
            own += run_sample(op, &op->samples[s], s, GY_F32, &random);
        }
        if (op->placements != NULL && own == 0) {
            fail_msg("%s has no signature for any of its samples", op->name);
        }
        total += own;
    }
    printf("%d signatures, %d parts by kernels\n", total, kernel_runs);
    assert_in_range(total, 500, 100000);
    assert_in_range(kernel_runs, 1000, 10000000);
}

GY_TEST(so_over_random_shapes)
{
    gy_random random = {.key = gy_test_seed()};
    int total = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        for (int round = 0; round < gy_test_cases(40); round++) {
            gy_ops_sample sample;
            if (ops_random_sample(gy_ops_all[i], &random, &sample)) {
                total += run_sample(gy_ops_all[i], &sample, 1000 + round, GY_F64, &random);
            }
        }
    }
    printf("%d signatures\n", total);
    assert_in_range(total, 70 * gy_test_cases(40), 3000 * gy_test_cases(40));
}

GY_TEST(more_signatures_than_fit_are_counted)
{
    gy_signature list[GY_OP_SIGNATURES_MAX + 1];
    const gy_signature untouched = {.outputs = {gy_shard(7)}};
    list[GY_OP_SIGNATURES_MAX] = untouched;
    gy_signatures made = {.list = list};
    for (int i = 0; i <= GY_OP_SIGNATURES_MAX; i++) {
        gy_signatures_shard(&made, 0, i);
    }
    assert_int_equal(made.count, GY_OP_SIGNATURES_MAX + 1);
    assert_int_equal(list[GY_OP_SIGNATURES_MAX - 1].outputs[0].dim, GY_OP_SIGNATURES_MAX - 1);
    assert_memory_equal(&list[GY_OP_SIGNATURES_MAX], &untouched, sizeof(untouched));
}

static bool has_signature(const gy_op *op, const gy_ops_sample *sample, const gy_type *types,
                          gy_signature wanted)
{
    gy_type outputs[GY_OP_OUTPUTS_MAX];
    gy_signature signatures[GY_OP_SIGNATURES_MAX];
    assert_ok(op->infer(&sample->attributes, types, sample->input_count, outputs));
    int count =
        op->placements(&sample->attributes, types, sample->input_count, outputs, signatures);
    for (int k = 0; k < count; k++) {
        bool is_same =
            memcmp(&signatures[k].outputs[0], &wanted.outputs[0], sizeof(gy_placement)) == 0;
        for (int i = 0; i < sample->input_count; i++) {
            is_same &=
                memcmp(&signatures[k].inputs[i], &wanted.inputs[i], sizeof(gy_placement)) == 0;
        }
        if (is_same) {
            return true;
        }
    }
    return false;
}

#define S(d) ((gy_placement){.kind = GY_SHARD, .dim = (d)})
#define P    ((gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM})
#define R    ((gy_placement){.kind = GY_REPLICATE})

/* The table of the design, with a symbolic batch: what data-parallel training stands on. */
GY_TEST(rows_of_the_design_are_there)
{
    const gy_type x = {.dtype = GY_F32, .rank = 2, .sizes = {GY_BATCH, 8}};
    const gy_type w = {.dtype = GY_F32, .rank = 2, .sizes = {8, 3}};
    const gy_type dy = {.dtype = GY_F32, .rank = 2, .sizes = {GY_BATCH, 3}};
    const gy_type bias = {.dtype = GY_F32, .rank = 1, .sizes = {3}};
    const gy_type scalar = {.dtype = GY_F32, .rank = 0};
    const gy_type labels = {.dtype = GY_I32, .rank = 1, .sizes = {GY_BATCH}};
    const gy_type logits = {.dtype = GY_F32, .rank = 3, .sizes = {GY_BATCH, 6, 9}};
    const gy_type words = {.dtype = GY_I32, .rank = 2, .sizes = {GY_BATCH, 6}};
    const gy_ops_sample two = {.input_count = 2}, one = {.input_count = 1};
    const gy_ops_sample turned = {.attributes.matmul = {.transpose_a = true}, .input_count = 2};
    const gy_ops_sample rows = {.attributes.reduce = {.axes = 1}, .input_count = 1};
    const gy_ops_sample spread = {.attributes.shape = {.rank = 2, .sizes = {GY_BATCH, 3}},
                                  .input_count = 1};
    const gy_type image = {.dtype = GY_F32, .rank = 2, .sizes = {GY_BATCH, 16}};
    const gy_ops_sample flat = {.attributes.shape = {.rank = 1, .sizes = {16 * GY_BATCH}},
                                .input_count = 1};
    const gy_ops_sample split = {.attributes.shape = {.rank = 3, .sizes = {8, 3, 1}},
                                 .input_count = 1};
    const gy_ops_sample depth = {.attributes.axis = {.depth = 8}, .input_count = 2};
    const struct {
        const gy_op *op;
        const gy_ops_sample *sample;
        gy_type types[2];
        gy_signature wanted;
        bool is_there;
    } cases[] = {
        {&gy_ops_row_matmul, &two, {x, w}, {{S(0), R}, {S(0)}}, true},
        {&gy_ops_row_matmul, &two, {x, w}, {{R, S(1)}, {S(1)}}, true},
        {&gy_ops_row_matmul, &two, {x, w}, {{S(1), S(0)}, {P}}, true},
        {&gy_ops_row_matmul, &two, {x, w}, {{P, R}, {P}}, true},
        {&gy_ops_row_matmul, &two, {x, w}, {{P, P}, {P}}, false},
        {&gy_ops_row_matmul, &turned, {x, dy}, {{S(0), S(0)}, {P}}, true}, /* dW = t(X) dY */
        {&gy_ops_row_add, &two, {dy, bias}, {{S(0), R}, {S(0)}}, true},
        {&gy_ops_row_add, &two, {dy, bias}, {{P, P}, {P}}, true},
        {&gy_ops_row_add, &two, {dy, bias}, {{R, P}, {P}}, false},
        {&gy_ops_row_mul, &two, {dy, scalar}, {{P, R}, {P}}, true},
        {&gy_ops_row_mul, &two, {dy, scalar}, {{P, P}, {P}}, false},
        {&gy_ops_row_div, &two, {dy, dy}, {{R, P}, {P}}, false},
        {&gy_ops_row_relu, &one, {dy}, {{P}, {P}}, false},
        {&gy_ops_row_sum, &rows, {dy}, {{S(0)}, {P}}, true},
        {&gy_ops_row_sum, &rows, {dy}, {{S(1)}, {S(0)}}, true},
        {&gy_ops_row_broadcast_to, &spread, {scalar}, {{R}, {S(0)}}, true},
        {&gy_ops_row_cross_entropy, &two, {dy, labels}, {{S(0), S(0)}, {P}}, true},
        {&gy_ops_row_cross_entropy, &two, {logits, words}, {{S(1), S(1)}, {P}}, true},
        {&gy_ops_row_count, &rows, {dy}, {{S(0)}, {R}}, true},
        {&gy_ops_row_gather,
         &two,
         {w, labels},
         {{S(0), R}, {P}},
         true}, /* a table cut by rows */
        {&gy_ops_row_gather, &two, {w, labels}, {{R, S(0)}, {S(0)}}, true},
        {&gy_ops_row_scatter_add, &depth, {dy, labels}, {{R, R}, {S(0)}}, true},
        {&gy_ops_row_reshape,
         &flat,
         {image},
         {{S(0)}, {S(0)}},
         true}, /* (batch,16) to (16 batch) */
        {&gy_ops_row_reshape, &flat, {image}, {{S(1)}, {S(0)}}, false},
        {&gy_ops_row_reshape, &split, {w}, {{S(1)}, {S(1)}}, true}, /* (8,3) to (8,3,1) */
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        bool is_there =
            has_signature(cases[i].op, cases[i].sample, cases[i].types, cases[i].wanted);
        if (is_there != cases[i].is_there) {
            fail_msg("case %zu (%s): signature %s", i, cases[i].op->name,
                     is_there ? "is there" : "is missing");
        }
    }
}

/* Classes, the rows of a table and the columns of a matrix may be cut: what a model that is
 * spread over ranks stands on. */
GY_TEST(classes_may_be_cut)
{
    const gy_type logits = {.dtype = GY_F32, .rank = 3, .sizes = {GY_BATCH, 6, 9}};
    const gy_type words = {.dtype = GY_I32, .rank = 2, .sizes = {GY_BATCH, 6}};
    const gy_type best = {.dtype = GY_F32, .rank = 2, .sizes = {GY_BATCH, 6}};
    const gy_placement least = {.kind = GY_PARTIAL, .reduction = GY_MIN};
    const gy_ops_sample pick = {.attributes.axis = {.dim = 2}, .input_count = 2};
    const gy_ops_sample hot = {.attributes.axis = {.dim = 2, .depth = 9, .dtype = GY_F32},
                               .input_count = 1};
    const gy_ops_sample spread = {.attributes.axis = {.dim = 2, .depth = 9}, .input_count = 2};
    const gy_ops_sample two = {.input_count = 2};
    const struct {
        const gy_op *op;
        const gy_ops_sample *sample;
        gy_type types[2];
        gy_signature wanted;
    } cases[] = {
        {&gy_ops_row_pick, &pick, {logits, words}, {{S(2), R}, {P}}},
        {&gy_ops_row_pick, &pick, {logits, words}, {{S(0), S(0)}, {S(0)}}},
        {&gy_ops_row_pick_gradient, &spread, {best, words}, {{R, R}, {S(2)}}},
        {&gy_ops_row_find, &pick, {logits, best}, {{S(2), R}, {least}}},
        {&gy_ops_row_one_hot, &hot, {words}, {{R}, {S(2)}}},
        {&gy_ops_row_matmul_over_rows, &two, {logits, logits}, {{S(0), S(0)}, {P}}},
        {&gy_ops_row_matmul_over_rows, &two, {logits, logits}, {{S(1), S(1)}, {P}}},
        {&gy_ops_row_matmul_over_rows, &two, {logits, logits}, {{S(2), R}, {S(0)}}},
        {&gy_ops_row_matmul_over_rows, &two, {logits, logits}, {{R, S(2)}, {S(1)}}},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        if (!has_signature(cases[i].op, cases[i].sample, cases[i].types, cases[i].wanted)) {
            fail_msg("case %zu (%s): the signature is missing", i, cases[i].op->name);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
