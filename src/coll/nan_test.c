/*
 * Goal: min and max over ranks are NaN where any rank has a NaN, whichever rank that is and
 * wherever in the vector, and the sign of a zero does not depend on the ranks' order; by every
 * algorithm, over shared memory and messages, for each floating type and number of ranks.
 */
#include "coll/coll_priv.h"
#include "coll/crew_priv.h"

#include "tensor/tensor.h"

#include <math.h>

#include "gy_test.h"

enum { RANKS_MOST = 5, COUNTS = 3 };

/* By the slots, in one chunk, in several. */
static const size_t counts[COUNTS] = {13, 1100, 4501};

typedef struct nan_case {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    size_t count;
    bool is_registered;
} nan_case;

/* Element i: one rank has what is odd, in turn, and now and then none. The others have numbers
 * of either sign, or zeros of the other sign. */
static bool is_odd(size_t i, int rank, int ranks)
{
    return i % (size_t)(ranks + 1) == (size_t)rank;
}

static bool is_about_zeros(size_t i)
{
    return i / 16 % 2 == 1;
}

static double given(const nan_case *spec, size_t i, int rank, int ranks)
{
    bool is_min = spec->reduction == GY_MIN;
    if (is_about_zeros(i)) {
        return is_odd(i, rank, ranks) == is_min ? -0.0 : 0.0;
    }
    return is_odd(i, rank, ranks) ? (double)NAN : (double)((int)(i % 5) - 2 + rank % 2);
}

/* Of ranks 0 to `last`. */
static double expected(const nan_case *spec, size_t i, int last, int ranks)
{
    bool is_min = spec->reduction == GY_MIN;
    double result = given(spec, i, 0, ranks);
    for (int rank = 1; rank <= last; rank++) {
        double next = given(spec, i, rank, ranks);
        bool is_better = is_min ? next < result : next > result;
        bool is_tie = next == result && signbit(next) != signbit(result);
        if (isnan(next) || is_better || (is_tie && (signbit(next) != 0) == is_min)) {
            result = isnan(result) ? result : next;
        }
    }
    return result;
}

static bool is_same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void run_case(crew_member *me, const nan_case *spec)
{
    gy_pool *pool = spec->is_registered ? gy_comm_pool(me->comm) : gy_pool_heap();
    bool is_split = spec->operation == GY_OPERATION_REDUCE_SCATTER;
    bool is_scan = spec->operation == GY_OPERATION_SCAN;
    size_t all = spec->count * (is_split ? (size_t)me->size : 1);
    void *in = gy_pool_take(pool, all * sizeof(double));
    void *out = gy_pool_take(pool, spec->count * sizeof(double));
    for (size_t i = 0; i < all; i++) {
        gy_element_set(spec->dtype, in, (int64_t)i, given(spec, i, me->rank, me->size));
    }
    EXPECT(gy_coll_run(me->comm, &(gy_coll_call){.operation = spec->operation,
                                                 .dtype = spec->dtype,
                                                 .reduction = spec->reduction,
                                                 .count = spec->count,
                                                 .in = in,
                                                 .out = out}) == GY_OK);
    size_t first = is_split ? spec->count * (size_t)me->rank : 0;
    bool has_answer = spec->operation != GY_OPERATION_REDUCE || me->rank == 0;
    for (size_t i = 0; i < spec->count && has_answer && me->failures == 0; i++) {
        double got = gy_element_get(spec->dtype, out, (int64_t)i);
        double wanted = expected(spec, first + i, is_scan ? me->rank : me->size - 1, me->size);
        if (!is_same(got, wanted)) {
            printf("rank %d of %d: %s by %s of %zu %s: element %zu is %g, expected %g\n",
                   me->rank, me->size, gy_operation_name(spec->operation),
                   gy_reduction_name(spec->reduction), spec->count, gy_dtype_name(spec->dtype),
                   i, got, wanted);
            me->failures++;
        }
    }
    gy_pool_give(pool, in);
    gy_pool_give(pool, out);
}

static void run_operation(crew_member *me)
{
    static const gy_dtype dtypes[] = {GY_F32, GY_F64, GY_F16, GY_BF16};
    const gy_operation *operation = me->shared_arg;
    for (size_t k = 0; k < GY_COUNT(dtypes) * COUNTS * 2 && me->failures == 0; k++) {
        run_case(me,
                 &(nan_case){.operation = *operation,
                             .dtype = dtypes[k % GY_COUNT(dtypes)],
                             .count = counts[k / GY_COUNT(dtypes) % COUNTS],
                             .reduction = k / GY_COUNT(dtypes) / COUNTS == 0 ? GY_MIN : GY_MAX,
                             .is_registered = k % 2 == 0});
    }
}

static bool is_of_interest(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE ||
           operation == GY_OPERATION_REDUCE_SCATTER || operation == GY_OPERATION_SCAN;
}

/* By one algorithm (NULL: what is chosen), on as many ranks, over memory or messages. */
static void check(const char *algorithm, gy_operation operation, int ranks, bool is_apart)
{
    const gy_comm_options options = {.algorithm = algorithm, .has_messages_only = is_apart};
    if (crew_run(ranks, &options, run_operation, &operation) != 0) {
        fail_msg("%s by %s on %d ranks%s (%s)", gy_operation_name(operation),
                 algorithm != NULL ? algorithm : "choice", ranks, is_apart ? ", messages" : "",
                 gy_error_text());
    }
}

GY_TEST(every_algorithm_keeps_the_nan_of_any_rank)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (is_of_interest(row->operation) && gy_test_takes(i)) {
            char name[64];
            bool has_number = row->parameter == GY_PARAMETER_NUMBER;
            snprintf(name, sizeof(name), "%s%s", row->name, has_number ? ":2" : "");
            check(name, row->operation, 3 + (int)(i % 3), false);
            check(name, row->operation, 2 + (int)(i % 4), true);
        }
    }
}

GY_TEST(so_do_slots_and_what_is_chosen)
{
    for (int operation = 0; operation < GY_OPERATION_COUNT; operation++) {
        for (int ranks = 2; ranks <= RANKS_MOST && is_of_interest((gy_operation)operation);
             ranks++) {
            check(NULL, (gy_operation)operation, ranks, ranks % 2 == 0);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
