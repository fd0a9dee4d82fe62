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
    gy_kernel_query query = {.op = &gy_ops_row_matmul_update,
                             .attributes = &attributes,
                             .inputs = inputs,
                             .input_count = 4,
                             .outputs = &beside,
                             .output_count = 1,
                             .workers = 1};
    const gy_kernel *kernel = gy_kernel_choose(&query);
    assert_non_null(kernel);
    gy_kernel_call call = {.op = &gy_ops_row_matmul_update,
                           .attributes = &attributes,
                           .inputs = inputs,
                           .input_count = 4,
                           .outputs = &plain,
                           .output_count = 1};
    assert_ok(gy_ops_row_matmul_update.reference(&call));
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

GY_TEST(the_kernel_is_its_definition)
{
    gy_random random = {.key = gy_test_seed()};
    for (int trial = 0; trial < 60; trial++) {
        int64_t sizes[3];
        for (int i = 0; i < 3; i++) {
            sizes[i] = (int64_t)gy_random_below(&random, trial % 10 == 0 ? 3 : 70);
        }
        check(&random, trial % 2 == 0 ? GY_F32 : GY_F64, sizes, trial / 2 % 4);
    }
    for (int64_t columns = 1; columns <= 17; columns++) {
        check(&random, GY_F32, (int64_t[]){64 * (1 + columns % 3), columns, 30}, 1);
    }
}

/* Rows that the kernel cuts into pieces are what it makes of them band by band. */
GY_TEST(pieces_are_put_together)
{
    enum { ROWS = 600, BAND = 200, COLUMNS = 300, DEPTH = 400 };
    gy_random random = {.key = gy_test_seed()};
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    float scale = 0.25f;
    gy_view inputs[4] = {
        matrix(&random, GY_F32, ROWS, COLUMNS), matrix(&random, GY_F32, ROWS, DEPTH),
        matrix(&random, GY_F32, DEPTH, COLUMNS), gy_view_of(&scale, GY_F32, NULL, 0)};
    gy_view whole = matrix(&random, GY_F32, ROWS, COLUMNS);
    gy_view bands = matrix(&random, GY_F32, ROWS, COLUMNS), bands_at = bands;
    gy_kernel_call call = {.op = &gy_ops_row_matmul_update,
                           .attributes = &attributes,
                           .inputs = inputs,
                           .input_count = 4,
                           .outputs = &whole,
                           .output_count = 1};
    const gy_kernel *kernel = gy_ops_kernels(&gy_ops_row_matmul_update)[0];
    assert_ok(kernel->run(&call));
    gy_view band[4] = {inputs[0], inputs[1], inputs[2], inputs[3]};
    band[0].sizes[0] = band[1].sizes[0] = bands_at.sizes[0] = BAND;
    call.inputs = band;
    call.outputs = &bands_at;
    for (int row = 0; row < ROWS; row += BAND) {
        band[0].data = (float *)inputs[0].data + row * COLUMNS;
        band[1].data = (float *)inputs[1].data + row * DEPTH;
        bands_at.data = (float *)bands.data + row * COLUMNS;
        assert_ok(kernel->run(&call));
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double a = gy_element_get(GY_F32, whole.data, i);
        double b = gy_element_get(GY_F32, bands.data, i);
        assert_true(fabs(a - b) <= 1e-4);
    }
    for (int i = 0; i < 3; i++) {
        gy_free(inputs[i].data);
    }
    gy_free(whole.data);
    gy_free(bands.data);
}

GY_TEST_MAIN(NULL, NULL)
