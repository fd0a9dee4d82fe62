/*
 * Goal: every row of the operator table gives on a device what its plain definition gives in
 * float64, for all types that it takes and random shapes (empty ones, of one element, of
 * primes, strided where the device takes that): within 1e-12 in float64, 1e-5 in float32,
 * integers and 16 bits exactly. A row that no device runs says why.
 */
#include "ops/cuda/executor.h"
#include "ops/cuda/text/text.h"
#include "ops_example.h"
#include "ops_random.h"
#include "standin/standin_kit.h"

enum { SIZES = 3, ROWS_OF_A_DEVICE = 4 };

typedef struct seen {
    int runs;
    uint32_t types, taken; /* bits: with which it ran, and which it takes */
    const char *why;       /* it was refused at first */
} seen;

/* ---- one application ---- */

typedef struct lent {
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    void *workspace, *kernel;
} lent;

static gy_view send(gy_device *device, const gy_view *view)
{
    gy_view there = *view;
    const size_t bytes = ops_example_span(view);
    uint64_t mark;
    assert_ok(device->ops->take(device, bytes, &there.data));
    assert_ok(device->ops->copy_there(device, there.data, view->data, bytes, &mark));
    return there;
}

static void give_all(gy_device *device, const ops_example *e, const lent *l)
{
    for (int i = 0; i < e->input_count; i++) {
        device->ops->give(device, l->inputs[i].data);
    }
    for (int o = 0; o < e->output_count; o++) {
        device->ops->give(device, l->outputs[o].data);
    }
    device->ops->give(device, l->workspace);
    device->ops->release(device, l->kernel);
}

/* Into e->got; the failure of what was queued. */
static gy_status run_there(gy_device *device, ops_example *e)
{
    lent l;
    uint64_t mark;
    for (int i = 0; i < e->input_count; i++) {
        l.inputs[i] = send(device, &e->inputs[i]);
    }
    for (int o = 0; o < e->output_count; o++) {
        l.outputs[o] = send(device, &e->got[o]); /* filled: what is not written shows */
    }
    gy_kernel_call call = ops_example_call(e, l.inputs, l.outputs);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    assert_ok(
        device->ops->take(device, device->ops->workspace_bytes(device, &query), &l.workspace));
    call.workspace = l.workspace;
    if (device->ops->prepare(device, &call, "tested", &l.kernel) < 0) {
        char text[512];
        ops_example_describe(e, text);
        fail_msg("%s: %s", text, gy_error_text());
    }
    for (int twice = 0; twice < 2; twice++) { /* nothing is left over from the first launch */
        assert_ok(device->ops->launch(device, l.kernel, &call));
    }
    gy_status status = GY_OK;
    for (int o = 0; o < e->output_count && status == GY_OK; o++) {
        status = device->ops->copy_back(device, e->got[o].data, l.outputs[o].data,
                                        gy_view_bytes(&e->got[o]), &mark);
    }
    status = status == GY_OK ? device->ops->finish(device, soon()) : status;
    give_all(device, e, &l);
    return status;
}

static bool accepts(gy_device *device, const ops_example *e, const char **why)
{
    gy_view outputs[GY_OP_OUTPUTS_MAX];
    memcpy(outputs, e->got, sizeof(outputs));
    const gy_kernel_call call = ops_example_call(e, e->inputs, outputs);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    *why = NULL;
    const bool is_accepted = device->ops->accepts(device, &query, why);
    assert_true(is_accepted == (**why == '\0'));
    return is_accepted;
}

/* ---- all rows ---- */

static void check(gy_device *device, ops_example *e, seen *row)
{
    const char *why;
    row->taken |= 1u << e->dtype;
    if (!accepts(device, e, &why)) {
        row->why = row->why != NULL ? row->why : why;
        return;
    }
    if (ops_example_define(e) < 0) {
        return; /* an index outside its range */
    }
    assert_ok(run_there(device, e));
    ops_example_compare(e, "on the device");
    row->runs++;
    row->types |= 1u << e->dtype;
}

/* The sample, and the same with other sizes. */
static void check_sizes(gy_device *device, const gy_op *op, const gy_ops_sample *sample,
                        gy_dtype dtype, seen *row, gy_random *random)
{
    gy_ops_sample sized = *sample;
    for (int n = 0; n < SIZES; n++) {
        ops_example e;
        if (ops_example_make(&e, op, &sized, dtype, random)) {
            for (int i = 0; i < e.input_count && n > 0; i++) {
                if (ops_random_chance(random, 8)) {
                    ops_example_stride(&e, i, random);
                }
            }
            check(device, &e, row);
            ops_example_free(&e);
        }
        ops_random_resize(op, &sized, random);
    }
}

/* The first of its samples in float64 and float32, and whatever is drawn. A text is compiled by
 * a process of its own, which is what the test takes: few are drawn but with GYRE_SOAK; all of
 * them, in one piece, are the part of ops/cuda/text/text_test.c. */
static void check_row(gy_device *device, const gy_op *op, seen *row, gy_random *random)
{
    const bool has_own_text = gy_cuda_text_reason(op) == NULL;
    const long draws = op->sample_count > 0 ? gy_test_cases(has_own_text ? 1 : 8) : 0;
    const gy_dtype first = ops_random_chance(random, 2) ? GY_F32 : GY_F64;
    for (long n = 0; n < draws; n++) {
        gy_ops_sample sample = op->samples[0];
        if (n == 0) {
            check_sizes(device, op, &sample, first, row, random);
        }
        if (ops_random_any(op, random, &sample)) {
            check_sizes(device, op, &sample, ops_random_dtype(random), row, random);
        }
    }
}

/* It ran, in all floating types of its first sample; or it never does, and there is a reason.
 */
static void expect_seen(const gy_op *op, const seen *row)
{
    const uint32_t real = 1u << GY_F64 | 1u << GY_F32;
    const char *reason = gy_cuda_text_reason(op);
    printf("%s: %d runs%s%s\n", op->name, row->runs, row->runs == 0 ? ", " : "",
           row->runs == 0 && reason != NULL ? reason : "");
    if (row->runs == 0 ? reason == NULL || (row->why != NULL && strcmp(row->why, reason) != 0)
                       : (row->taken & real) != 0 && (row->types & real) == 0) {
        fail_msg("%s: %d runs, of types %x with types %x; %s", op->name, row->runs, row->taken,
                 row->types, row->why != NULL ? row->why : "never asked for");
    }
}

GY_TEST(every_row_gives_what_its_definition_gives)
{
    gy_random random = {.key = gy_test_seed()};
    gy_device *device = NULL;
    int runs = 0, rows = 0, begin = 0, end = 0;
    gy_test_rows(gy_ops_all_count, &begin, &end);
    standin->reset(random.key);
    for (int i = begin; i < end; i++) {
        seen row = {.runs = 0};
        if ((i - begin) % ROWS_OF_A_DEVICE == 0) { /* it keeps what it has compiled */
            gy_cuda_executor_close(device);
            assert_ok(gy_cuda_executor_open(0, &device));
        }
        check_row(device, gy_ops_all[i], &row, &random);
        expect_seen(gy_ops_all[i], &row);
        rows += row.runs > 0;
        runs += row.runs;
    }
    gy_cuda_executor_close(device);
    printf("%d runs of %d rows\n", runs, rows);
    assert_true(rows >= 60 || end - begin < gy_ops_all_count);
    standin_expect_clean();
}

/* ---- integers outside their range ---- */

/* Whether the row refuses one that input i gets, by the same words on both sides. */
static bool check_fault(ops_example *e, int i, int64_t bad, gy_random *random)
{
    gy_device *device = NULL;
    char wanted[512], text[512];
    const char *why;
    const int64_t at = ops_random_in(random, 0, gy_view_count(&e->inputs[i]) - 1);
    gy_element_set_whole(e->inputs[i].dtype, e->inputs[i].data, at, bad);
    gy_element_set_whole(e->wide[i].dtype, e->wide[i].data, at, bad);
    if (ops_example_define(e) != GY_ARG) {
        return false;
    }
    (void)gy_print(wanted, sizeof(wanted), "node tested: %s", gy_error_text());
    assert_ok(gy_cuda_executor_open(0, &device));
    assert_true(accepts(device, e, &why));
    assert_status(run_there(device, e), GY_ARG);
    (void)gy_print(text, sizeof(text), "%s", gy_error_text());
    assert_string_equal(text, wanted);
    gy_cuda_executor_close(device);
    return true;
}

GY_TEST(an_integer_outside_its_range_is_named_as_the_definition_does)
{
    gy_random random = {.key = gy_test_seed()};
    int rows = 0;
    standin->reset(random.key);
    for (int row = 0; row < gy_ops_all_count; row++) {
        const gy_op *op = gy_ops_all[row];
        bool refuses = false;
        for (int i = 0; op->sample_count > 0 && i < op->samples[0].input_count; i++) {
            ops_example e;
            const gy_ops_sample *sample = &op->samples[0];
            if (sample->inputs[i].dtype != GY_F64 &&
                ops_example_make(&e, op, sample, GY_F32, &random)) {
                const int64_t above = (int64_t)sample->inputs[i].high;
                refuses |=
                    check_fault(&e, i, ops_random_chance(&random, 2) ? -1 : above, &random);
                ops_example_free(&e);
            }
        }
        rows += refuses;
    }
    printf("%d rows refuse integers\n", rows);
    assert_true(rows >= 7);
    standin_expect_clean();
}

GY_TEST_MAIN(standin_find, NULL)
