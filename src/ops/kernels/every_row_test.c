/*
 * Goal: every row, by its plain definition and by each of its kernels, gives what the
 * definition gives in float64, for all types that it takes and random shapes: within 1e-12 in
 * float64, 1e-5 in float32 (products of 16 bits have results of that type), integers and 16
 * bits exactly. A kernel that may write over an input gives the same bits when it does.
 */
#include "ops/kernels/kernels.h"
#include "ops_example.h"
#include "ops_random.h"

enum { DRAWS = 60 };

typedef struct seen {
    int runs, in_place;
    uint32_t types, taken; /* bits: with which a kernel ran, and which the row takes */
} seen;

static void run(const gy_kernel *kernel, const ops_example *e, gy_view *outputs)
{
    gy_kernel_call call = ops_example_call(e, e->inputs, outputs);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    const size_t bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(&query) : 0;
    void *memory = gy_alloc("test.workspace", bytes + GY_CACHE_LINE);
    assert_non_null(memory);
    memset(memory, 0x7b, bytes + GY_CACHE_LINE);
    if (kernel->prepare != NULL) {
        assert_ok(kernel->prepare(&query, &call.state));
    }
    call.workspace = (void *)gy_round_up((size_t)memory, GY_CACHE_LINE);
    assert_ok(kernel->run(&call));
    if (kernel->release != NULL) {
        kernel->release(call.state);
    }
    gy_free(memory);
}

static bool is_like(const gy_view *a, const gy_view *b)
{
    return a->rank == b->rank && gy_dtype_bytes(a->dtype) == gy_dtype_bytes(b->dtype) &&
           gy_view_is_contiguous(a) &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) == 0;
}

/* Output o over input i, whose elements are put back. */
static void run_in_place(const gy_kernel *kernel, const ops_example *e, int o, int i)
{
    gy_view outputs[GY_OP_OUTPUTS_MAX];
    const size_t bytes = gy_view_bytes(&e->got[o]);
    memcpy(outputs, e->got, sizeof(outputs));
    void *kept = gy_alloc("test", bytes), *wanted = gy_alloc("test", bytes);
    memcpy(kept, e->inputs[i].data, bytes);
    memcpy(wanted, e->got[o].data, bytes);
    outputs[o].data = e->inputs[i].data;
    run(kernel, e, outputs);
    if (memcmp(outputs[o].data, wanted, bytes) != 0) {
        char text[512];
        ops_example_describe(e, text);
        fail_msg("%s by %s, output %d over input %d: other bits", text, kernel->name, o, i);
    }
    memcpy(e->inputs[i].data, kept, bytes);
    gy_free(kept);
    gy_free(wanted);
}

static void overwrite(const gy_kernel *kernel, const ops_example *e, seen *row)
{
    for (int o = 0; o < e->output_count; o++) {
        const bool stores = e->op != &gy_ops_row_fused ||
                            e->attributes.fused.program->outputs[o].reduction == NULL;
        for (int i = 0; i < e->input_count && stores; i++) {
            const bool may =
                kernel->in_place_any || (o == 0 && i < 8 && (kernel->in_place >> i & 1) != 0);
            if (may && is_like(&e->inputs[i], &e->got[o])) {
                run_in_place(kernel, e, o, i);
                row->in_place++;
            }
        }
    }
}

/* Slopes of attention are sums of terms that cancel, more so of a log-sum-exp that is none of
 * the scores'; products of 16 bits by AVX512-BF16 round probabilities and slopes of scores to
 * bf16 as well, 2^-8 of the sum of their terms' sizes (docs/decisions/058). */
static void compare(const ops_example *e, const char *how)
{
    const bool is_attention = strncmp(e->op->name, "attention", 9) == 0;
    for (int o = 0; o < e->output_count; o++) {
        double tolerance = ops_example_tolerance(e, o);
        if (is_attention && e->dtype != GY_F64) {
            tolerance = (e->dtype == GY_BF16 ? 0x1p-6 : 0x1p-13) * ops_example_largest(e, o);
        }
        ops_example_compare_within(e, o, tolerance, how);
    }
}

/* Does it take the example as it is laid out? */
static bool takes(const gy_kernel *kernel, const ops_example *e, const gy_kernel_query *query)
{
    gy_format inputs[GY_OP_INPUTS_MAX] = {GY_FORMAT_DENSE};
    gy_format outputs[GY_OP_OUTPUTS_MAX] = {GY_FORMAT_DENSE};
    bool is_dense = true;
    if (kernel->formats != NULL) {
        kernel->formats(query, inputs, outputs);
    }
    for (int i = 0; i < e->input_count; i++) {
        is_dense &= inputs[i] == GY_FORMAT_DENSE &&
                    (kernel->takes_strides || gy_view_is_contiguous(&e->inputs[i]));
    }
    for (int o = 0; o < e->output_count; o++) {
        is_dense &= outputs[o] == GY_FORMAT_DENSE;
    }
    return is_dense && kernel->accepts(query);
}

static void check_kernels(ops_example *e, seen *row)
{
    const gy_kernel_call call = ops_example_call(e, e->inputs, e->got);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    for (const gy_kernel *const *at = gy_ops_kernels(e->op); *at != NULL; at++) {
        if (takes(*at, e, &query)) {
            run(*at, e, e->got);
            compare(e, (*at)->name);
            overwrite(*at, e, row);
            row->runs++;
            row->types |= 1u << e->dtype;
        }
    }
}

static void check_row(const gy_op *op, seen *row, gy_random *random)
{
    const long rounds = gy_test_serial_cases(DRAWS);
    gy_ops_sample sample;
    for (long n = 0; n < rounds && ops_random_any(op, random, &sample); n++) {
        ops_example e;
        const gy_dtype dtype =
            n % 2 == 0 ? (gy_dtype)(GY_F64 + n / 2 % 4) : ops_random_dtype(random);
        if (!ops_example_make(&e, op, &sample, dtype, random)) {
            continue;
        }
        for (int i = 0; i < e.input_count; i++) {
            if (ops_random_chance(random, 8)) {
                ops_example_stride(&e, i, random);
            }
        }
        const gy_kernel_call plain = ops_example_call(&e, e.inputs, e.got);
        const gy_status status = ops_example_define(&e);
        assert_int_equal(op->reference(&plain), status);
        if (status == GY_OK) {
            row->taken |= 1u << dtype;
            ops_example_compare(&e, "by definition");
            check_kernels(&e, row);
        }
        ops_example_free(&e);
    }
}

GY_TEST(every_row_gives_what_its_definition_gives_in_float64)
{
    gy_random random = {.key = gy_test_seed()};
    int runs = 0, rows = 0, in_place = 0, begin = 0, end = 0;
    gy_test_rows(gy_ops_all_count, &begin, &end);
    for (int i = begin; i < end; i++) {
        seen row = {.runs = 0};
        check_row(gy_ops_all[i], &row, &random);
        printf("%s: types %x, %d runs of kernels with types %x, %d in place\n",
               gy_ops_all[i]->name, row.taken, row.runs, row.types, row.in_place);
        rows += row.taken != 0;
        runs += row.runs;
        in_place += row.in_place;
    }
    printf("%d rows, %d runs of kernels, %d in place\n", rows, runs, in_place);
    const bool is_whole = gy_test_serial_cases(DRAWS) >= DRAWS;
    assert_true(end - begin < gy_ops_all_count ||
                (rows >= 70 && (!is_whole || (runs > 2 * rows && in_place > 20))));
}

GY_TEST_MAIN(NULL, NULL)
