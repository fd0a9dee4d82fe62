/*
 * Goal: every collective by every algorithm, of any type, size and number of ranks, equals a
 * serial oracle, on all ranks alike; algorithms that promise one order give one result.
 */
#include "coll/crew_priv.h"

#include "coll/kernels.h"
#include "tensor/half.h"

#include <stdlib.h>

#include "gy_test.h"

typedef struct case_spec {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    size_t count;
    int root, shift; /* shift: elements by which buffers miss their alignment */
    bool in_place, is_registered, is_mixed; /* mixed: only even ranks registered */
    uint64_t seed;
} case_spec;

typedef struct round_list {
    const case_spec *cases;
    size_t count;
    bool is_ordered; /* the algorithm folds in rank order: equal to the oracle bit by bit */
} round_list;

static bool is_half(gy_dtype dtype)
{
    return dtype == GY_F16 || dtype == GY_BF16;
}

/* Small whole numbers: exact in every type, so that order does not show where it need not. */
static void fill(void *data, gy_dtype dtype, size_t count, uint64_t seed, bool is_rough)
{
    gy_random random = {.key = seed};
    for (size_t i = 0; i < count; i++) {
        uint64_t draw = gy_random_u64(&random);
        bool is_real = dtype == GY_F32 || dtype == GY_F64 || is_half(dtype);
        double value =
            is_rough && is_real ? (double)(draw >> 11) * 0x1p-53 - 0.5 : (double)(1 + draw % 2);
        switch (dtype) {
#define STORE(name, type)                                                                      \
    case GY_##name:                                                                            \
        ((type *)data)[i] = (type)value;                                                       \
        break;
            STORE(F64, double)
            STORE(F32, float)
            STORE(I64, int64_t)
            STORE(I32, int32_t)
            STORE(I16, int16_t)
            STORE(I8, int8_t)
            STORE(U64, uint64_t)
            STORE(U32, uint32_t)
            STORE(U16, uint16_t)
            STORE(U8, uint8_t)
#undef STORE
        case GY_F16:
            ((uint16_t *)data)[i] = gy_f16_from(value);
            break;
        case GY_BF16:
            ((uint16_t *)data)[i] = gy_bf16_from(value);
            break;
        case GY_DTYPE_COUNT:
        default:
            abort();
        }
    }
}

static size_t in_count(const case_spec *spec, int size)
{
    return spec->operation == GY_OPERATION_REDUCE_SCATTER ? spec->count * (size_t)size
                                                          : spec->count;
}

static size_t out_count(const case_spec *spec, int size)
{
    return spec->operation == GY_OPERATION_ALLGATHER ? spec->count * (size_t)size : spec->count;
}

static uint64_t seed_of(const case_spec *spec, int rank)
{
    return spec->seed * 64 + (uint64_t)rank;
}

/* Halves are summed in float32 and rounded once. */
static void finish_half(const case_spec *spec, int ranks, const float *sum, uint16_t *to,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = spec->reduction == GY_AVG ? sum[i] / (float)ranks : sum[i];
        to[i] =
            spec->dtype == GY_F16 ? gy_f16_from((double)value) : gy_bf16_from((double)value);
    }
}

static void widen_half(gy_dtype dtype, const uint16_t *from, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = dtype == GY_F16 ? gy_f16_to(from[i]) : gy_bf16_to(from[i]);
    }
}

/* sum (in) = the left fold of what the ranks give. */
static void fold_all(const case_spec *spec, int ranks, size_t in, bool is_rough, void *sum)
{
    size_t element = is_half(spec->dtype) ? sizeof(float) : gy_dtype_bytes(spec->dtype);
    gy_combine loop =
        gy_combine_of(is_half(spec->dtype) ? GY_F32 : spec->dtype, spec->reduction);
    uint8_t *total = gy_alloc_zero("test", in + 1, element);
    uint8_t *next = gy_alloc_zero("test", in + 1, element);
    uint8_t *given = gy_alloc_zero("test", in + 1, element);
    for (int rank = 0; rank < ranks; rank++) {
        fill(given, spec->dtype, in, seed_of(spec, rank), is_rough);
        if (is_half(spec->dtype)) {
            widen_half(spec->dtype, (const uint16_t *)(void *)given, (float *)(void *)next, in);
        } else {
            memcpy(next, given, in * element);
        }
        if (rank == 0) {
            memcpy(total, next, in * element);
        } else {
            loop(total, total, next, in);
        }
    }
    if (is_half(spec->dtype)) {
        finish_half(spec, ranks, (const float *)(void *)total, sum, in);
    } else {
        memcpy(sum, total, in * element);
        if (spec->reduction == GY_AVG) {
            gy_divide(spec->dtype, sum, in, ranks);
        }
    }
    gy_free(total);
    gy_free(next);
    gy_free(given);
}

/* The answer, computed alone: left folds of the plain loop, copies. */
static uint8_t *oracle(const crew_member *me, const case_spec *spec, bool is_rough)
{
    size_t element = gy_dtype_bytes(spec->dtype), in = in_count(spec, me->size);
    size_t out = out_count(spec, me->size);
    uint8_t *result = gy_alloc("test", out * element);
    uint8_t *sum = gy_alloc("test", in * element), *next = gy_alloc("test", in * element);
    for (int rank = 0; rank < me->size; rank++) {
        fill(next, spec->dtype, in, seed_of(spec, rank), is_rough);
        if (spec->operation == GY_OPERATION_ALLGATHER) {
            memcpy(result + (size_t)rank * in * element, next, in * element);
        } else if (spec->operation == GY_OPERATION_BROADCAST) {
            if (rank == spec->root) {
                memcpy(result, next, out * element);
            }
        }
    }
    fold_all(spec, me->size, in, is_rough, sum);
    if (spec->operation == GY_OPERATION_ALLREDUCE || spec->operation == GY_OPERATION_REDUCE) {
        memcpy(result, sum, out * element);
    } else if (spec->operation == GY_OPERATION_REDUCE_SCATTER) {
        memcpy(result, sum + (size_t)me->rank * out * element, out * element);
    }
    gy_free(sum);
    gy_free(next);
    return result;
}

static void *take(crew_member *me, const case_spec *spec, size_t bytes)
{
    bool is_registered = spec->is_registered && (!spec->is_mixed || me->rank % 2 == 0);
    return is_registered ? gy_pool_take(gy_comm_pool(me->comm), bytes)
                         : gy_pool_take(gy_pool_heap(), bytes);
}

static void give(crew_member *me, const case_spec *spec, void *memory)
{
    bool is_registered = spec->is_registered && (!spec->is_mixed || me->rank % 2 == 0);
    gy_pool_give(is_registered ? gy_comm_pool(me->comm) : gy_pool_heap(), memory);
}

static void one_case(crew_member *me, const case_spec *spec, bool is_ordered)
{
    size_t element = gy_dtype_bytes(spec->dtype), shift = (size_t)spec->shift * element;
    size_t in_bytes = in_count(spec, me->size) * element;
    size_t out_bytes = out_count(spec, me->size) * element;
    size_t own = (size_t)me->rank * spec->count * element;
    uint8_t *first = take(me, spec, in_bytes + shift + 64);
    uint8_t *second = take(me, spec, out_bytes + shift + 64);
    uint8_t *in = first + shift, *out = second + shift;
    if (spec->operation == GY_OPERATION_BROADCAST) {
        in = out;
    } else if (spec->in_place && spec->operation == GY_OPERATION_ALLGATHER) {
        in = out + own;
    } else if (spec->in_place && spec->operation == GY_OPERATION_REDUCE_SCATTER) {
        out = in + own;
    } else if (spec->in_place) {
        out = in;
    }
    fill(in, spec->dtype, in_count(spec, me->size), seed_of(spec, me->rank), is_ordered);
    if (!spec->in_place && in != out) {
        memset(out, 0xee, out_bytes);
    }
    gy_status status = gy_coll_run(me->comm, &(gy_coll_call){.operation = spec->operation,
                                                             .dtype = spec->dtype,
                                                             .reduction = spec->reduction,
                                                             .root = spec->root,
                                                             .count = spec->count,
                                                             .in = in,
                                                             .out = out});
    EXPECT(status == GY_OK);
    bool has_result = spec->operation != GY_OPERATION_REDUCE || me->rank == spec->root;
    if (status == GY_OK && has_result && out_bytes > 0) {
        uint8_t *expected = oracle(me, spec, is_ordered);
        if (memcmp(out, expected, out_bytes) != 0) {
            printf("rank %d of %d: %s of %zu %s, %s%s, root %d, shift %d is wrong\n", me->rank,
                   me->size, gy_operation_name(spec->operation), spec->count,
                   gy_dtype_name(spec->dtype), spec->in_place ? "in place" : "apart",
                   spec->is_registered ? ", registered" : "", spec->root, spec->shift);
            me->failures++;
        }
        gy_free(expected);
    }
    give(me, spec, first);
    give(me, spec, second);
}

static void all_cases(crew_member *me)
{
    const round_list *list = me->shared_arg;
    for (size_t i = 0; i < list->count && me->failures == 0; i++) {
        /* The tree of reduce brackets otherwise. */
        bool is_fold = list->cases[i].operation != GY_OPERATION_REDUCE;
        one_case(me, &list->cases[i], list->is_ordered && is_fold);
    }
    EXPECT(gy_barrier(me->comm) == GY_OK);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
}

static size_t draw_count(gy_random *random)
{
    static const size_t edges[] = {0, 1, 2, 7, 13, 127, 1021, 2048, 2049, 4099};
    uint64_t kind = gy_random_below(random, 8);
    if (kind < 4) {
        return edges[gy_random_below(random, GY_COUNT(edges))];
    }
    return kind < 7 ? gy_random_below(random, 30000) : gy_random_below(random, 200000);
}

static void draw_case(gy_random *random, int size, case_spec *spec)
{
    static const gy_operation operations[] = {
        GY_OPERATION_ALLREDUCE, GY_OPERATION_ALLREDUCE, GY_OPERATION_REDUCE_SCATTER,
        GY_OPERATION_ALLGATHER, GY_OPERATION_BROADCAST, GY_OPERATION_REDUCE};
    *spec = (case_spec){
        .operation = operations[gy_random_below(random, GY_COUNT(operations))],
        .dtype = (gy_dtype)gy_random_below(random, GY_DTYPE_COUNT),
        .reduction = (gy_reduction)gy_random_below(random, GY_REDUCTION_COUNT),
        .count = draw_count(random),
        .root = (int)gy_random_below(random, (uint64_t)size),
        .shift = (int)gy_random_below(random, 3),
        .in_place = gy_random_below(random, 2) == 0,
        .is_registered = gy_random_below(random, 2) == 0,
        .is_mixed = gy_random_below(random, 4) == 0,
        .seed = gy_random_u64(random) >> 8,
    };
    if (gy_combine_of(spec->dtype, spec->reduction) == NULL) {
        spec->reduction = GY_AVG;
    }
}

/* As many cases as GYRE_CASES says, spread over algorithms and 1 to 8 ranks. */
static void random_cases_equal_the_oracle(void **state)
{
    (void)state;
    static const char *const names[] = {NULL,     "slots", "exchange",      "staged",
                                        "direct", "ring",  "dissemination", "tree"};
    enum { ROUND = 24 };
    const char *wanted = getenv("GYRE_CASES");
    long total = wanted != NULL ? strtol(wanted, NULL, 10) : gy_test_cases(480);
    gy_random random = {.key = gy_test_seed()};
    case_spec cases[ROUND];
    for (long done = 0, round = 0; done < total; done += ROUND, round++) {
        const char *name = names[(size_t)round % GY_COUNT(names)];
        int ranks = 1 + (int)gy_random_below(&random, CREW_MAX);
        for (size_t i = 0; i < ROUND; i++) {
            draw_case(&random, ranks, &cases[i]);
        }
        bool is_ordered = name == NULL || strcmp(name, "ring") != 0;
        bool brackets = name != NULL && strcmp(name, "tree") == 0;
        round_list list = {
            .cases = cases, .count = ROUND, .is_ordered = is_ordered && !brackets};
        int failures = crew_run(ranks, &(gy_comm_options){.algorithm = name}, all_cases, &list);
        if (failures != 0) {
            fail_msg("round %ld, %d ranks, algorithm %s: %d failures (%s)", round, ranks,
                     name != NULL ? name : "chosen", failures, gy_error_text());
        }
    }
}

static void long_vectors_go_in_legs(void **state)
{
    (void)state;
    const case_spec cases[] = {
        {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F32, .count = 5000001, .seed = 1},
        {.operation = GY_OPERATION_REDUCE_SCATTER,
         .dtype = GY_F64,
         .count = 1100001,
         .seed = 2},
        {.operation = GY_OPERATION_ALLGATHER, .dtype = GY_I16, .count = 5000003, .seed = 3},
        {.operation = GY_OPERATION_BROADCAST, .dtype = GY_U8, .count = 17000001, .seed = 4},
    };
    static const char *const names[] = {NULL, "staged", "ring"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        round_list list = {.cases = cases, .count = GY_COUNT(cases)};
        assert_int_equal(crew_run(i == 1 ? 3 : 2, &(gy_comm_options){.algorithm = names[i]},
                                  all_cases, &list),
                         0);
    }
}

/* 2 x 2 matrices over the integers modulo 2^64: associative, and the order shows. */
typedef struct matrix {
    uint64_t at[2][2];
} matrix;

static void multiply(void *to, const void *a, const void *b, size_t count, void *arg)
{
    const matrix *left = a, *right = b;
    (*(_Atomic int *)arg)++;
    for (size_t i = 0; i < count; i++) {
        matrix product;
        for (int row = 0; row < 2; row++) {
            for (int column = 0; column < 2; column++) {
                product.at[row][column] = left[i].at[row][0] * right[i].at[0][column] +
                                          left[i].at[row][1] * right[i].at[1][column];
            }
        }
        ((matrix *)to)[i] = product;
    }
}

static void matrix_of(int rank, size_t i, matrix *out)
{
    uint64_t value = (uint64_t)rank * 7 + i % 5 + 1;
    *out = (matrix){{{value, value + 1}, {3, value * value}}};
}

/* The product of all ranks' matrices, in order. */
static void multiply_matrices(crew_member *me)
{
    const size_t counts[] = {1, 40, 3001, 70001};
    _Atomic int calls = 0;
    const gy_user_reduction product = {.name = "product of matrices",
                                       .combine = multiply,
                                       .arg = &calls,
                                       .element_bytes = sizeof(matrix)};
    for (size_t c = 0; c < GY_COUNT(counts); c++) {
        size_t count = counts[c];
        matrix *data = gy_alloc_zero("test", count, sizeof(*data));
        for (size_t i = 0; i < count; i++) {
            matrix_of(me->rank, i, &data[i]);
        }
        EXPECT(gy_coll_run(me->comm, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                                     .dtype = GY_U8,
                                                     .user = &product,
                                                     .count = count,
                                                     .in = data,
                                                     .out = data}) == GY_OK);
        for (size_t i = 0; i < count; i++) {
            matrix expected, next;
            matrix_of(0, i, &expected);
            for (int rank = 1; rank < me->size; rank++) {
                matrix_of(rank, i, &next);
                multiply(&expected, &expected, &next, 1, &calls);
            }
            if (memcmp(&expected, &data[i], sizeof(expected)) != 0) {
                EXPECT(i == SIZE_MAX);
                break;
            }
        }
        gy_free(data);
    }
    EXPECT(calls > 0 || me->size == 1);
}

static void a_users_reduction_keeps_the_order_of_ranks(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "ring", "tree", "staged", "exchange"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        for (int ranks = 1; ranks <= 7; ranks += 2) {
            const gy_comm_options options = {.algorithm = names[i]};
            assert_int_equal(crew_run(ranks, &options, multiply_matrices, NULL), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases_equal_the_oracle),
        cmocka_unit_test(long_vectors_go_in_legs),
        cmocka_unit_test(a_users_reduction_keeps_the_order_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
