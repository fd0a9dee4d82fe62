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
    bool is_varied, has_gaps;               /* counts differ; parts lie apart, last first */
    uint64_t seed;
} case_spec;

typedef struct round_list {
    const case_spec *cases;
    size_t count;
    bool is_wide;    /* sums of halves are float32 */
    bool is_grouped; /* on groups of ranks with one parity, in descending order */
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

/* The parts of a buffer. */
typedef struct side {
    int parts;
    int64_t counts[CREW_MAX], starts[CREW_MAX];
    size_t extent; /* elements to its end */
} side;

static bool is_one_of(const case_spec *spec, gy_operation a, gy_operation b)
{
    return spec->operation == a || spec->operation == b ||
           spec->operation == GY_OPERATION_ALLTOALL;
}

static bool is_split(const case_spec *spec, bool is_in)
{
    return is_in ? is_one_of(spec, GY_OPERATION_REDUCE_SCATTER, GY_OPERATION_SCATTER)
                 : is_one_of(spec, GY_OPERATION_ALLGATHER, GY_OPERATION_GATHER);
}

/* Elements that go from a rank to a rank (all-to-all), or of a rank's part. */
static int64_t part_count(const case_spec *spec, int from, int to)
{
    uint64_t kind = (spec->seed >> 3) + (uint64_t)from * 5 + (uint64_t)to * 3;
    return spec->is_varied ? (int64_t)(spec->count * (kind % 4) / 2) : (int64_t)spec->count;
}

static side side_of(const case_spec *spec, int size, int rank, bool is_in)
{
    side out = {.parts = is_split(spec, is_in) ? size : 1};
    bool is_pair = spec->operation == GY_OPERATION_ALLTOALL;
    for (int i = 0; i < out.parts; i++) {
        int part = out.parts > 1 || size == 1 ? i : rank;
        int from = !is_pair ? 0 : is_in ? rank : part;
        int to = !is_pair || is_in ? part : rank;
        out.counts[i] = part_count(spec, from, to);
    }
    int64_t at = 0;
    bool has_gaps = spec->has_gaps && out.parts > 1;
    for (int k = 0; k < out.parts; k++) {
        int i = has_gaps ? out.parts - 1 - k : k;
        out.starts[i] = at;
        at += out.counts[i] + (has_gaps ? 2 : 0);
    }
    out.extent = (size_t)at;
    return out;
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

/* What a rank gives, whole; the caller frees it. */
static uint8_t *given_by(const case_spec *spec, int size, int rank, bool is_rough)
{
    side in = side_of(spec, size, rank, true);
    uint8_t *data = gy_alloc_zero("test", in.extent + 1, gy_dtype_bytes(spec->dtype));
    fill(data, spec->dtype, in.extent, seed_of(spec, rank), is_rough);
    return data;
}

/* sum (count) = the left fold of what ranks 0 to ranks - 1 give, from element `at` on. */
static void fold_all(const crew_member *me, const case_spec *spec, int ranks, size_t at,
                     size_t count, bool is_rough, void *sum)
{
    bool is_wide = is_half(spec->dtype);
    size_t element = is_wide ? sizeof(float) : gy_dtype_bytes(spec->dtype);
    gy_combine loop = gy_combine_of(is_wide ? GY_F32 : spec->dtype, spec->reduction);
    uint8_t *total = gy_alloc_zero("test", count + 1, element);
    uint8_t *next = gy_alloc_zero("test", count + 1, element);
    for (int rank = 0; rank < ranks; rank++) {
        uint8_t *given = given_by(spec, me->size, rank, is_rough);
        uint8_t *to = rank == 0 ? total : next;
        if (is_wide) {
            widen_half(spec->dtype, (const uint16_t *)(void *)given + at, (float *)(void *)to,
                       count);
        } else {
            memcpy(to, given + at * element, count * element);
        }
        if (rank > 0) {
            loop(total, total, next, count);
        }
        gy_free(given);
    }
    if (is_wide) {
        finish_half(spec, ranks, (const float *)(void *)total, sum, count);
    } else {
        memcpy(sum, total, count * element);
        if (spec->reduction == GY_AVG) {
            gy_divide(spec->dtype, sum, count, ranks);
        }
    }
    gy_free(total);
    gy_free(next);
}

/* Part `part` of this rank's answer, computed alone. */
static uint8_t *oracle(const crew_member *me, const case_spec *spec, int part, bool is_rough)
{
    side out = side_of(spec, me->size, me->rank, false);
    size_t element = gy_dtype_bytes(spec->dtype), count = (size_t)out.counts[part];
    uint8_t *result = gy_alloc_zero("test", count + 1, element);
    gy_operation operation = spec->operation;
    bool is_scan = operation == GY_OPERATION_SCAN || operation == GY_OPERATION_EXCLUSIVE_SCAN;
    if (is_scan || operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE ||
        operation == GY_OPERATION_REDUCE_SCATTER) {
        side in = side_of(spec, me->size, me->rank, true);
        size_t at = in.parts > 1 ? (size_t)in.starts[me->rank] : 0;
        int ranks = !is_scan ? me->size : me->rank + (operation == GY_OPERATION_SCAN ? 1 : 0);
        fold_all(me, spec, ranks, at, count, is_rough, result);
        return result;
    }
    bool is_roots = operation == GY_OPERATION_BROADCAST || operation == GY_OPERATION_SCATTER;
    int from = is_roots ? spec->root : part;
    side in = side_of(spec, me->size, from, true);
    size_t at = in.parts > 1 ? (size_t)in.starts[me->rank] : 0;
    uint8_t *given = given_by(spec, me->size, from, is_rough);
    memcpy(result, given + at * element, count * element);
    gy_free(given);
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

static bool has_answer(const crew_member *me, const case_spec *spec)
{
    bool is_roots =
        spec->operation == GY_OPERATION_REDUCE || spec->operation == GY_OPERATION_GATHER;
    bool is_left = spec->operation == GY_OPERATION_EXCLUSIVE_SCAN && me->rank == 0;
    return !is_left && (!is_roots || me->rank == spec->root);
}

static void compare(crew_member *me, const case_spec *spec, const uint8_t *out, bool is_rough)
{
    size_t element = gy_dtype_bytes(spec->dtype);
    side parts = side_of(spec, me->size, me->rank, false);
    for (int i = 0; i < parts.parts; i++) {
        uint8_t *expected = oracle(me, spec, i, is_rough);
        size_t bytes = (size_t)parts.counts[i] * element;
        if (bytes > 0 &&
            memcmp(out + (size_t)parts.starts[i] * element, expected, bytes) != 0) {
            printf("rank %d of %d: %s%s of %zu %s, %s%s%s, reduction %d, root %d, shift %d: "
                   "part %d is wrong\n",
                   me->rank, me->size, gy_operation_name(spec->operation),
                   spec->is_varied ? "v" : "", spec->count, gy_dtype_name(spec->dtype),
                   spec->in_place ? "in place" : "apart", spec->has_gaps ? ", gaps" : "",
                   spec->is_registered ? ", registered" : "", (int)spec->reduction, spec->root,
                   spec->shift, i);
            me->failures++;
        }
        gy_free(expected);
    }
}

/* In place: the own part of one buffer lies in the other. */
static void lay_out(const crew_member *me, const case_spec *spec, uint8_t **in, uint8_t **out)
{
    size_t element = gy_dtype_bytes(spec->dtype);
    side from = side_of(spec, me->size, me->rank, true);
    side to = side_of(spec, me->size, me->rank, false);
    bool is_pairs = spec->operation == GY_OPERATION_ALLTOALL;
    bool is_rooted =
        spec->operation == GY_OPERATION_GATHER || spec->operation == GY_OPERATION_SCATTER;
    if (spec->operation == GY_OPERATION_BROADCAST) {
        *in = *out;
    } else if (!spec->in_place || (is_pairs && spec->is_varied) ||
               (is_rooted && me->rank != spec->root)) {
        return;
    } else if (!is_pairs && to.parts > 1) {
        *in = *out + (size_t)to.starts[me->rank] * element;
    } else if (!is_pairs && from.parts > 1) {
        *out = *in + (size_t)from.starts[me->rank] * element;
    } else {
        *out = *in;
    }
}

static gy_coll_call call_of(const crew_member *me, const case_spec *spec, const side *in,
                            const side *out)
{
    gy_coll_call call = {.operation = spec->operation,
                         .dtype = spec->dtype,
                         .reduction = spec->reduction,
                         .root = spec->root,
                         .count = spec->count,
                         .is_varied = spec->is_varied};
    bool is_rooted =
        spec->operation == GY_OPERATION_GATHER || spec->operation == GY_OPERATION_SCATTER;
    bool knows = !is_rooted || me->rank == spec->root;
    if (spec->is_varied) {
        call.count = (size_t)part_count(spec, 0, me->rank);
        if (is_split(spec, true) && knows) {
            call.in_parts = (gy_parts){in->counts, spec->has_gaps ? in->starts : NULL};
        }
        if (is_split(spec, false) && knows) {
            call.out_parts = (gy_parts){out->counts, spec->has_gaps ? out->starts : NULL};
        }
    }
    return call;
}

static void one_case(crew_member *me, const case_spec *spec, bool is_rough)
{
    size_t element = gy_dtype_bytes(spec->dtype), shift = (size_t)spec->shift * element;
    side from = side_of(spec, me->size, me->rank, true);
    side to = side_of(spec, me->size, me->rank, false);
    size_t room = GY_MAX(from.extent, to.extent) * element + shift + 64;
    uint8_t *first = take(me, spec, room), *second = take(me, spec, room);
    uint8_t *in = first + shift, *out = second + shift;
    memset(first, 0xee, room);
    memset(second, 0xee, room);
    lay_out(me, spec, &in, &out);
    fill(in, spec->dtype, from.extent, seed_of(spec, me->rank), is_rough);
    gy_coll_call call = call_of(me, spec, &from, &to);
    call.in = in;
    call.out = out;
    gy_status status = gy_coll_run(me->comm, &call);
    EXPECT(status == GY_OK);
    if (status == GY_OK && has_answer(me, spec)) {
        compare(me, spec, out, is_rough);
    }
    give(me, spec, first);
    give(me, spec, second);
}

static void cases_on(crew_member *me, const round_list *list)
{
    for (size_t i = 0; i < list->count && me->failures == 0; i++) {
        case_spec spec = list->cases[i];
        spec.root %= me->size;
        /* The tree of reduce brackets otherwise; halves are rounded at each hop. */
        bool has_hops = !list->is_wide || spec.operation == GY_OPERATION_SCAN ||
                        spec.operation == GY_OPERATION_EXCLUSIVE_SCAN;
        bool is_fold =
            spec.operation != GY_OPERATION_REDUCE && !(has_hops && is_half(spec.dtype));
        one_case(me, &spec, list->is_ordered && is_fold);
    }
    EXPECT(gy_barrier(me->comm) == GY_OK);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
}

static void all_cases(crew_member *me)
{
    const round_list *list = me->shared_arg;
    if (!list->is_grouped) {
        cases_on(me, list);
        return;
    }
    crew_member inner = {.shared_arg = me->shared_arg};
    EXPECT(gy_comm_split(me->comm, me->rank % 2, -me->rank, &inner.comm) == GY_OK);
    inner.rank = gy_comm_rank(inner.comm);
    inner.size = gy_comm_size(inner.comm);
    EXPECT(inner.rank == (me->size - 1 - me->rank) / 2);
    cases_on(&inner, list);
    gy_comm_free(inner.comm);
    me->failures += inner.failures;
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
        GY_OPERATION_ALLREDUCE, GY_OPERATION_ALLREDUCE,     GY_OPERATION_REDUCE_SCATTER,
        GY_OPERATION_ALLGATHER, GY_OPERATION_BROADCAST,     GY_OPERATION_REDUCE,
        GY_OPERATION_GATHER,    GY_OPERATION_SCATTER,       GY_OPERATION_ALLTOALL,
        GY_OPERATION_SCAN,      GY_OPERATION_EXCLUSIVE_SCAN};
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
    bool is_scan =
        spec->operation == GY_OPERATION_SCAN || spec->operation == GY_OPERATION_EXCLUSIVE_SCAN;
    if (gy_combine_of(spec->dtype, spec->reduction) == NULL ||
        (is_scan && spec->reduction == GY_AVG)) {
        spec->reduction = is_scan ? GY_SUM : GY_AVG;
    }
    if (is_split(spec, true) || is_split(spec, false)) {
        spec->count /= spec->count > 20000 ? 4 : 1;
        spec->is_varied = gy_random_below(random, 2) == 0;
        spec->has_gaps = spec->is_varied && gy_random_below(random, 2) == 0;
    }
}

/* As many cases as GYRE_CASES says, spread over algorithms and 1 to 9 ranks. */
static void random_cases_equal_the_oracle(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_fold; /* whatever it does is in rank order, bracketed from the left */
    } names[] = {{NULL, true},
                 {"slots", true},
                 {"exchange", true},
                 {"staged", true},
                 {"direct", true},
                 {"ring", false},
                 {"dissemination", true},
                 {"tree", false},
                 {"flat", true},
                 {"chain", true},
                 {"double-tree", false},
                 {"doubling", false},
                 {"halving", false},
                 {"servers", true},
                 {"partitioned", true},
                 {"copies", true},
                 {"one-by-one", true},
                 {"pipeline", true},
                 {"bruck", true},
                 {"pairwise", true},
                 {"weighted-ring", false},
                 {"segments", false},
                 {"weighted-tree", false},
                 {"hierarchy", false}};
    enum { ROUND = 24 };
    const char *wanted = getenv("GYRE_CASES");
    long total = wanted != NULL ? strtol(wanted, NULL, 10) : gy_test_cases(24 * ROUND);
    gy_random random = {.key = gy_test_seed()};
    case_spec cases[ROUND];
    for (long done = 0, round = 0; done < total; done += ROUND, round++) {
        const char *name = names[(size_t)round % GY_COUNT(names)].name;
        bool is_ordered = names[(size_t)round % GY_COUNT(names)].is_fold;
        int ranks = 1 + (int)gy_random_below(&random, CREW_MAX);
        for (size_t i = 0; i < ROUND; i++) {
            draw_case(&random, ranks, &cases[i]);
        }
        bool is_apart = gy_random_below(&random, 3) == 0;
        round_list list = {.cases = cases,
                           .count = ROUND,
                           .is_ordered = is_ordered && !is_apart,
                           .is_wide = (size_t)round % GY_COUNT(names) < 5,
                           .is_grouped = gy_random_below(&random, 4) == 0};
        int failures = crew_run(
            ranks, &(gy_comm_options){.algorithm = name, .has_messages_only = is_apart},
            all_cases, &list);
        if (failures != 0) {
            fail_msg("round %ld, %d ranks%s, algorithm %s%s: %d failures (%s)", round, ranks,
                     list.is_grouped ? " in groups" : "", name != NULL ? name : "chosen",
                     is_apart ? ", messages" : "", failures, gy_error_text());
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
