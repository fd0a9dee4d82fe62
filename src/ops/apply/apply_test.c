/* Goal: every row applied to the tensors of its samples, plain and transposed, gives what its
 * reference gives; a site serves other types after the first ones. */
#include "ops/apply/apply.h"

#include "ops_eager.h"

#include <math.h>

#include "gy_test.h"

static gy_tensor *draw(const gy_ops_sample *sample, int index, gy_random *random)
{
    gy_view view = ops_eager_draw(sample, index, GY_F64, random);
    gy_tensor *tensor = NULL;
    assert_int_equal(
        gy_tensor_from(NULL, view.dtype, view.sizes, view.rank, view.data, &tensor), GY_OK);
    gy_free(view.data);
    return tensor;
}

/* The same elements with the last two dimensions lying the other way in memory. */
static gy_tensor *strided(gy_tensor *tensor)
{
    int dims[GY_TENSOR_RANK_MAX];
    int64_t sizes[GY_TENSOR_RANK_MAX];
    gy_tensor *turned = NULL, *view = NULL;
    const int rank = gy_tensor_rank(tensor);
    if (rank < 2) {
        return gy_tensor_hold(tensor);
    }
    for (int i = 0; i < rank; i++) {
        dims[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        sizes[i] = gy_tensor_size(tensor, dims[i]);
    }
    assert_int_equal(gy_tensor_new(NULL, gy_tensor_dtype(tensor), sizes, rank, &turned), GY_OK);
    assert_int_equal(gy_tensor_permute(turned, dims, &view), GY_OK);
    assert_int_equal(gy_tensor_copy(view, tensor), GY_OK);
    gy_tensor_drop(turned);
    return view;
}

static void reference_of(const gy_op *op, const gy_ops_sample *sample, gy_tensor **inputs,
                         const gy_apply *site, gy_tensor **outputs)
{
    gy_view in[GY_OP_INPUTS_MAX], out[GY_OP_OUTPUTS_MAX];
    for (int i = 0; i < sample->input_count; i++) {
        in[i] = gy_tensor_pin(inputs[i]);
    }
    for (int i = 0; i < op->output_count; i++) {
        const gy_type *type = &site->outputs[i];
        assert_int_equal(gy_tensor_new(NULL, type->dtype, type->sizes, type->rank, &outputs[i]),
                         GY_OK);
        out[i] = gy_tensor_pin(outputs[i]);
    }
    const gy_kernel_call call = {.op = op,
                                 .attributes = &sample->attributes,
                                 .inputs = in,
                                 .input_count = sample->input_count,
                                 .outputs = out,
                                 .output_count = op->output_count};
    assert_int_equal(op->reference(&call), GY_OK);
    for (int i = 0; i < sample->input_count; i++) {
        gy_tensor_unpin(inputs[i]);
    }
    for (int i = 0; i < op->output_count; i++) {
        gy_tensor_unpin(outputs[i]);
    }
}

static void check_sample(gy_apply *site, const gy_op *op, const gy_ops_sample *sample,
                         bool is_strided)
{
    gy_random random = {.key = 11};
    gy_tensor *inputs[GY_OP_INPUTS_MAX], *given[GY_OP_INPUTS_MAX];
    gy_tensor *outputs[GY_OP_OUTPUTS_MAX], *wanted[GY_OP_OUTPUTS_MAX];
    for (int i = 0; i < sample->input_count; i++) {
        inputs[i] = draw(sample, i, &random);
        given[i] = is_strided ? strided(inputs[i]) : gy_tensor_hold(inputs[i]);
    }
    for (int round = 0; round < 2; round++) { /* the second one with what the site kept */
        const gy_status status =
            gy_apply_run(site, op, &sample->attributes, given, sample->input_count, outputs);
        if (status != GY_OK) {
            fail_msg("%s: %s", op->name, gy_error_text());
        }
        reference_of(op, sample, inputs, site, wanted);
        for (int k = 0; k < op->output_count; k++) {
            for (int64_t i = 0; i < gy_tensor_count(outputs[k]); i++) {
                const double got = gy_tensor_get(outputs[k], i),
                             is = gy_tensor_get(wanted[k], i);
                if (!(fabs(got - is) <= 1e-9 * fmax(1, fabs(is)))) {
                    fail_msg("%s: output %d, element %lld: %g, expected %g", op->name, k,
                             (long long)i, got, is);
                }
            }
            gy_tensor_drop(outputs[k]);
            gy_tensor_drop(wanted[k]);
        }
    }
    for (int i = 0; i < sample->input_count; i++) {
        gy_tensor_drop(inputs[i]);
        gy_tensor_drop(given[i]);
    }
}

static void test_samples(void **state)
{
    const int64_t live = gy_alloc_live();
    int rows = 0;
    (void)state;
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        gy_apply site = {.op = NULL};
        for (int k = 0; k < op->sample_count && op->reference != NULL && op->output_count > 0;
             k++) {
            check_sample(&site, op, &op->samples[k], false);
            check_sample(&site, op, &op->samples[k], true);
            rows += k == 0;
        }
        gy_apply_fini(&site);
    }
    assert_in_range(rows, 50, 200);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_refusal(void **state)
{
    gy_apply site = {.op = NULL};
    gy_attributes attributes;
    gy_tensor *inputs[2] = {NULL}, *out = NULL;
    (void)state;
    memset(&attributes, 0, sizeof(attributes));
    assert_int_equal(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){2, 3}, 2, &inputs[0]), GY_OK);
    assert_int_equal(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){4, 3}, 2, &inputs[1]), GY_OK);
    assert_int_equal(gy_apply_run(&site, &gy_ops_row_matmul, &attributes, inputs, 2, &out),
                     GY_SHAPE);
    assert_null(out);
    attributes.matmul.transpose_b = true;
    assert_int_equal(gy_apply_run(&site, &gy_ops_row_matmul, &attributes, inputs, 2, &out),
                     GY_OK);
    assert_int_equal(gy_tensor_size(out, 1), 4);
    gy_tensor_drop(out);
    gy_tensor_drop(inputs[0]);
    gy_tensor_drop(inputs[1]);
    gy_apply_fini(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
