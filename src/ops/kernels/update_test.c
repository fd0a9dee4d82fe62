/* Goal: matmul_update's kernel gives what its plain definition gives, over random shapes, in
 * w's memory and beside it. */
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

static gy_view matrix(gy_random *random, gy_dtype dtype, int64_t rows, int64_t columns)
{
    const int64_t sizes[] = {rows, columns};
    size_t bytes = (size_t)(rows * columns) * gy_dtype_bytes(dtype);
    void *data = gy_alloc("test", GY_MAX(bytes, (size_t)1));
    assert_non_null(data);
    for (int64_t i = 0; i < rows * columns; i++) {
        gy_element_set(dtype, data, i, 2 * gy_random_unit(random) - 1);
    }
    return gy_view_of(data, dtype, sizes, 2);
}

static void check(gy_random *random, gy_dtype dtype, const int64_t *mnk, int flags)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.matmul.transpose_a = (flags & 1) != 0;
    attributes.matmul.transpose_b = (flags & 2) != 0;
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    double scale[1];
    gy_element_set(dtype, scale, 0, -0.5);
    gy_view inputs[4] = {
        matrix(random, dtype, m, n),
        attributes.matmul.transpose_a ? matrix(random, dtype, k, m)
                                      : matrix(random, dtype, m, k),
        attributes.matmul.transpose_b ? matrix(random, dtype, n, k)
                                      : matrix(random, dtype, k, n),
        gy_view_of(scale, dtype, NULL, 0),
    };
    gy_view plain = matrix(random, dtype, m, n), beside = matrix(random, dtype, m, n);
    gy_kernel_query query = {.op = &gy_op_matmul_update,
                             .attributes = &attributes,
                             .inputs = inputs,
                             .input_count = 4,
                             .outputs = &beside,
                             .output_count = 1,
                             .workers = 1};
    const gy_kernel *kernel = gy_kernel_choose(&query);
    assert_non_null(kernel);
    gy_kernel_call call = {.op = &gy_op_matmul_update,
                           .attributes = &attributes,
                           .inputs = inputs,
                           .input_count = 4,
                           .outputs = &plain,
                           .output_count = 1};
    assert_ok(gy_op_matmul_update.reference(&call));
    call.outputs = &beside;
    assert_ok(kernel->run(&call));
    call.outputs = &inputs[0];
    assert_ok(kernel->run(&call));
    double bound = (dtype == GY_F64 ? 1e-13 : 1e-6) * (double)(k + 1);
    for (int64_t i = 0; i < m * n; i++) {
        double wanted = gy_element_get(dtype, plain.data, i);
        if (!(fabs(gy_element_get(dtype, beside.data, i) - wanted) <= bound)) {
            fail_msg("%s (%d,%d,%d) flags %d: element %d is %g, expected %g",
                     gy_dtype_name(dtype), (int)m, (int)n, (int)k, flags, (int)i,
                     gy_element_get(dtype, beside.data, i), wanted);
        }
    }
    size_t bytes = (size_t)(m * n) * gy_dtype_bytes(dtype);
    assert_memory_equal(inputs[0].data, beside.data, bytes);
    for (int i = 0; i < 3; i++) {
        gy_free(inputs[i].data);
    }
    gy_free(plain.data);
    gy_free(beside.data);
}

static void the_kernel_is_its_definition(void **state)
{
    (void)state;
    gy_random random = {.key = gy_test_seed()};
    for (int trial = 0; trial < 60; trial++) {
        int64_t sizes[3];
        for (int i = 0; i < 3; i++) {
            sizes[i] = (int64_t)gy_random_below(&random, trial % 10 == 0 ? 3 : 70);
        }
        check(&random, trial % 2 == 0 ? GY_F32 : GY_F64, sizes, trial / 2 % 4);
    }
    check(&random, GY_F32, (int64_t[]){700, 300, 700}, 1); /* in pieces */
    check(&random, GY_F64, (int64_t[]){700, 300, 700}, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_kernel_is_its_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
