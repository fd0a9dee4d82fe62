/* Goal: threads that multiply side by side get what each gets alone, whichever OpenBLAS is
 * here. */
#include "base/base.h"
#include "ops/kernels/libraries.h"

#include "gy_test.h"

enum { THREADS = 4, SIDE = 12, ROUNDS = 100000 };

typedef struct multiplier {
    gy_thread thread;
    double a[SIDE * SIDE], b[SIDE * SIDE], alone[SIDE * SIDE], c[SIDE * SIDE];
    int wrong; /* elements */
} multiplier;

static const gy_blas *blas;

static void multiply(const multiplier *me, double *c)
{
    blas->dgemm(GY_BLAS_ROW_MAJOR, GY_BLAS_PLAIN, GY_BLAS_PLAIN, SIDE, SIDE, SIDE, 1, me->a,
                SIDE, me->b, SIDE, 0, c, SIDE);
}

static void *multiply_often(void *arg)
{
    multiplier *me = arg;
    for (int i = 0; i < ROUNDS; i++) {
        multiply(me, me->c);
        for (int at = 0; at < SIDE * SIDE; at++) {
            me->wrong += me->c[at] != me->alone[at];
        }
    }
    return NULL;
}

GY_TEST(products_side_by_side)
{
    static multiplier all[THREADS];
    gy_random random = {.key = gy_test_seed()};
    assert_int_equal(gy_blas_get(&blas), GY_OK);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < SIDE * SIDE; i++) {
            all[t].a[i] = gy_random_unit(&random);
            all[t].b[i] = gy_random_unit(&random);
        }
        multiply(&all[t], all[t].alone);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(gy_thread_start(&all[t].thread, "multiplier", multiply_often, &all[t]),
                         GY_OK);
    }
    for (int t = 0; t < THREADS; t++) {
        gy_thread_join(&all[t].thread);
        assert_int_equal(all[t].wrong, 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
