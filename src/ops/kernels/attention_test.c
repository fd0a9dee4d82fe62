/* Goal: attention over packed q, k and v gives the bits that it gives over the three apart, and
 * so does its gradient. */
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <string.h>

#include "gy_test.h"

enum { WORKERS = 1 };

static gy_view value(gy_random *random, gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    view.data = gy_alloc("test", gy_view_bytes(&view));
    assert_non_null(view.data);
    for (int64_t i = 0; i < gy_view_count(&view); i++) {
        gy_element_set(dtype, view.data, i, 4 * gy_random_unit(random) - 2);
    }
    return view;
}

static void run(const gy_op *op, const gy_attributes *attributes, gy_view *inputs,
                int input_count, gy_view *outputs)
{
    const gy_kernel_query query = {.op = op,
                                   .attributes = attributes,
                                   .inputs = inputs,
                                   .input_count = input_count,
                                   .outputs = outputs,
                                   .output_count = op->output_count,
                                   .workers = WORKERS};
    gy_kernel_call call = {.op = op,
                           .attributes = attributes,
                           .inputs = inputs,
                           .input_count = input_count,
                           .outputs = outputs,
                           .output_count = op->output_count};
    const gy_kernel *kernel = gy_kernel_choose(&query);
    assert_non_null(kernel);
    call.workspace = gy_alloc("test", kernel->workspace_bytes(&query));
    assert_non_null(call.workspace);
    assert_ok(kernel->prepare(&query, &call.state));
    assert_ok(kernel->run(&call));
    kernel->release(call.state);
    gy_free(call.workspace);
}

/* Copy part `part` of (rows,3,width) to (rows,width), or back. */
static void copy_part(const gy_view *packed, int part, const gy_view *plain, bool is_back)
{
    const size_t row = (size_t)plain->sizes[3] * gy_dtype_bytes(plain->dtype);
    for (int64_t r = 0; r < gy_view_count(plain) / plain->sizes[3]; r++) {
        char *in = (char *)packed->data + (size_t)(3 * r + part) * row;
        char *out = (char *)plain->data + (size_t)r * row;
        memcpy(is_back ? in : out, is_back ? out : in, row);
    }
}

/* sizes: B T H d */
static void check(gy_random *random, gy_dtype dtype, const int64_t sizes[4], bool is_causal)
{
    const gy_attributes attributes = {.attention = {.is_causal = is_causal}};
    const int64_t packed[5] = {sizes[0], sizes[1], sizes[2], 3, sizes[3]};
    const int64_t lse[3] = {sizes[0], sizes[2], sizes[1]};
    gy_view plain[6], slopes[3], out[2], all[4], slope[1], expected;
    all[0] = value(random, dtype, packed, 5);
    slope[0] = value(random, dtype, packed, 5);
    expected = value(random, dtype, packed, 5);
    for (int i = 0; i < 6; i++) {
        plain[i] = value(random, dtype, i == 4 ? lse : sizes, i == 4 ? 3 : 4);
        if (i < 3) {
            slopes[i] = value(random, dtype, sizes, 4);
            copy_part(&all[0], i, &plain[i], false);
        }
    }
    out[0] = value(random, dtype, sizes, 4);
    out[1] = value(random, dtype, lse, 3);
    run(&gy_ops_row_attention, &attributes, plain, 3, &plain[3]);
    run(&gy_ops_row_attention_packed, &attributes, all, 1, out);
    assert_memory_equal(out[0].data, plain[3].data, gy_view_bytes(&out[0]));
    assert_memory_equal(out[1].data, plain[4].data, gy_view_bytes(&out[1]));

    all[1] = out[0];
    all[2] = out[1];
    all[3] = plain[5];
    run(&gy_ops_row_attention_gradient, &attributes, plain, 6, slopes);
    run(&gy_ops_row_attention_packed_gradient, &attributes, all, 4, slope);
    for (int i = 0; i < 3; i++) {
        copy_part(&expected, i, &slopes[i], true);
        gy_free(slopes[i].data);
    }
    assert_memory_equal(slope[0].data, expected.data, gy_view_bytes(&expected));
    gy_view *const made[] = {&all[0], &slope[0], &expected, &out[0], &out[1]};
    for (size_t i = 0; i < GY_COUNT(made); i++) {
        gy_free(made[i]->data);
    }
    for (int i = 0; i < 6; i++) {
        gy_free(plain[i].data);
    }
}

GY_TEST(packed_is_the_same_as_apart)
{
    static const int64_t sizes[][4] = {{2, 130, 2, 5}, {1, 530, 2, 3}, {5, 65, 1, 64}};
    gy_random random = {.key = gy_test_seed()};
    for (size_t k = 0; k < 2 * GY_COUNT(sizes); k++) {
        check(&random, GY_F32, sizes[k / 2], k % 2 == 0);
        check(&random, GY_F64, sizes[k / 2], k % 2 == 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
