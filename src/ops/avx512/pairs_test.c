/* Goal: products of pairs are the float64 products of the rounded operands within
 * (k + 2) 2^-24 sum |a b|, for any sides and steps, and nothing beside the result is touched.
 */
#include "ops/avx512/pairs.h"

#include "ops/kernels/libraries.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

typedef struct side {
    gy_pairs_operand operand;
    uint16_t *half;
    float *wide;
    int64_t step;
} side;

/* Rows in memory with up to 3 elements between them; those between are no numbers. */
static side new_side(gy_random *random, int64_t rows, int64_t columns, bool is_turned,
                     bool is_wide)
{
    const int64_t lines = is_turned ? columns : rows, width = is_turned ? rows : columns;
    side made = {.step = width + (int64_t)gy_random_below(random, 4)};
    const size_t count = (size_t)(lines * made.step);
    made.half = gy_alloc("test", (count + 1) * sizeof(*made.half));
    made.wide = gy_alloc("test", (count + 1) * sizeof(*made.wide));
    assert_non_null(made.half);
    assert_non_null(made.wide);
    for (size_t i = 0; i < count; i++) {
        const bool is_there = (int64_t)i % made.step < width;
        made.wide[i] = is_there ? (float)(2 * gy_random_unit(random) - 1) : NAN;
        gy_element_set(GY_BF16, made.half, (int64_t)i, (double)made.wide[i]);
    }
    made.operand = (gy_pairs_operand){is_wide ? (const void *)made.wide : made.half, made.step,
                                      is_turned, is_wide};
    return made;
}

static double at(const side *of, int64_t row, int64_t column)
{
    const int64_t index =
        of->operand.is_turned ? column * of->step + row : row * of->step + column;
    return gy_element_get(GY_BF16, of->half, index);
}

static void check(gy_random *random, const int64_t sizes[3], int forms)
{
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2], step = n + 3;
    side a = new_side(random, m, k, (forms & 1) != 0, (forms & 2) != 0);
    side b = new_side(random, k, n, (forms & 4) != 0, false);
    const size_t count = (size_t)(m * step);
    float *c = gy_alloc("test", count * sizeof(*c));
    void *workspace = gy_alloc("test", gy_pairs_bytes(m, n, k));
    assert_non_null(c);
    assert_non_null(workspace);
    for (size_t i = 0; i < count; i++) {
        c[i] = 0.5F;
    }
    gy_pairs_multiply(&(gy_pairs){.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a.operand,
                                  .b = b.operand,
                                  .alpha = 0.25F,
                                  .adds = (forms & 8) != 0,
                                  .c = c,
                                  .c_step = step,
                                  .workspace = workspace});
    for (int64_t i = 0; i < m * step; i++) {
        const int64_t row = i / step, column = i % step;
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k && column < n; p++) {
            const double term = at(&a, row, p) * at(&b, p, column) / 4;
            sum += term;
            size += fabs(term);
        }
        const double before = column >= n || (forms & 8) != 0 ? 0.5 : 0;
        const double got = (double)c[i], most = (double)(k + 2) * 0x1p-24 * (size + before);
        if (!(fabs(got - sum - before) <= (column < n ? most : 0))) {
            fail_msg("(%lld,%lld,%lld) form %d element %lld: %.9g, expected %.9g", (long long)m,
                     (long long)n, (long long)k, forms, (long long)i, got, sum + before);
        }
    }
    gy_free(workspace);
    gy_free(c);
    gy_free(a.half);
    gy_free(a.wide);
    gy_free(b.half);
    gy_free(b.wide);
}

GY_TEST(products_are_those_of_float64)
{
    gy_random random = {.key = gy_test_seed()};
    if (!gy_kernel_has_bf16()) {
        skip();
    }
    for (int trial = 0; trial < 320; trial++) {
        int64_t sizes[3];
        for (int i = 0; i < 3; i++) {
            sizes[i] = 1 + (int64_t)gy_random_below(&random, trial % 20 < 10 ? 20 : 140);
        }
        check(&random, sizes, trial % 16);
    }
    check(&random, (const int64_t[]){64, 128, 64}, 4);
    check(&random, (const int64_t[]){128, 64, 64}, 11);
}

GY_TEST_MAIN(NULL, NULL)
