/*
 * Goal: the average of integers is that of the whole numbers, cut towards 0, for every type, by
 * every algorithm and on any number of ranks, also where their sum is beyond the type; calls
 * that differ are still told by what was called.
 */
#include "coll/coll_priv.h"
#include "coll/crew_priv.h"

#include "tensor/tensor.h"

#include "gy_test.h"

enum { COUNTS = 2 };

/* By the slots, and by a plan for each type. */
static const size_t counts[COUNTS] = {37, 2501};

static const gy_dtype integers[] = {GY_I8,  GY_U8,  GY_I16, GY_U16,
                                    GY_I32, GY_U32, GY_I64, GY_U64};

__extension__ typedef __int128 whole;

static bool is_signed(gy_dtype dtype)
{
    return dtype == GY_I8 || dtype == GY_I16 || dtype == GY_I32 || dtype == GY_I64;
}

/* The ends of the type, numbers near them, and others. */
static int64_t given(gy_dtype dtype, size_t i, int rank)
{
    int bits = (int)gy_dtype_bytes(dtype) * 8;
    int64_t most = (int64_t)(UINT64_MAX >> (is_signed(dtype) ? 65 - bits : 64 - bits));
    int64_t least = is_signed(dtype) ? -most - 1 : 0;
    switch (i % 5) {
    case 0:
        return most;
    case 1:
        return least;
    case 2:
        return most - rank;
    case 3:
        return rank % 2 == 0 ? least : most;
    default:
        return (int64_t)(i % 50) - (is_signed(dtype) ? 2 * rank : 0) + rank;
    }
}

static whole number(gy_dtype dtype, int64_t bits)
{
    return dtype == GY_U64 ? (whole)(uint64_t)bits : (whole)bits;
}

static int64_t average(gy_dtype dtype, size_t i, int ranks)
{
    whole sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        sum += number(dtype, given(dtype, i, rank));
    }
    return (int64_t)(sum / ranks);
}

typedef struct average_case {
    gy_operation operation;
    gy_dtype dtype;
    size_t count;
    bool is_vector, in_place, is_request;
} average_case;

/* Rank r has count + r elements of a vector variant, last first, with a gap before each. */
static size_t place_parts(const average_case *spec, int ranks, int64_t *sizes,
                          int64_t *displacements)
{
    int64_t at = 0;
    for (int rank = ranks - 1; rank >= 0; rank--) {
        sizes[rank] = (int64_t)spec->count + (spec->is_vector ? rank : 0);
        displacements[rank] = at + (spec->is_vector ? 3 : 0);
        at = displacements[rank] + sizes[rank];
    }
    for (int rank = 0; rank < ranks && !spec->is_vector; rank++) {
        displacements[rank] = (int64_t)spec->count * rank;
    }
    return (size_t)at;
}

static gy_status carry_out(crew_member *me, const average_case *spec, const gy_coll_call *call)
{
    gy_request *request = NULL;
    if (!spec->is_request) {
        return gy_coll_run(me->comm, call);
    }
    GY_TRY(gy_request_begin(me->comm, call, &request));
    gy_status status = gy_request_wait(request, gy_deadline_after(60));
    gy_request_free(request);
    return status;
}

static void run_case(crew_member *me, const average_case *spec)
{
    int64_t sizes[CREW_MAX], displacements[CREW_MAX];
    bool is_split = spec->operation == GY_OPERATION_REDUCE_SCATTER;
    size_t parts = place_parts(spec, me->size, sizes, displacements);
    size_t all = is_split ? parts : spec->count, element = gy_dtype_bytes(spec->dtype);
    int64_t first = is_split ? displacements[me->rank] : 0;
    size_t own = is_split ? (size_t)sizes[me->rank] : spec->count;
    uint8_t *in = gy_alloc("test", all * element), *apart = gy_alloc("test", own * element);
    uint8_t *out = spec->in_place ? in + (size_t)first * element : apart;
    for (size_t i = 0; i < all; i++) {
        gy_element_set_whole(spec->dtype, in, (int64_t)i, given(spec->dtype, i, me->rank));
    }
    gy_coll_call call = {.operation = spec->operation,
                         .dtype = spec->dtype,
                         .reduction = GY_AVG,
                         .root = me->size - 1,
                         .count = spec->count,
                         .is_vector = spec->is_vector,
                         .in = in,
                         .out = out};
    if (spec->is_vector) {
        call.in_parts = (gy_parts){sizes, displacements};
    }
    EXPECT(carry_out(me, spec, &call) == GY_OK);
    bool has_answer = spec->operation != GY_OPERATION_REDUCE || me->rank == me->size - 1;
    for (size_t i = 0; i < own && has_answer && me->failures == 0; i++) {
        int64_t got = gy_element_get_whole(spec->dtype, out, (int64_t)i);
        int64_t wanted = average(spec->dtype, (size_t)first + i, me->size);
        if (got != wanted) {
            printf("rank %d of %d: %s%s of %zu %s: element %zu is %lld, expected %lld\n",
                   me->rank, me->size, gy_operation_name(spec->operation),
                   spec->is_vector ? "v" : "", spec->count, gy_dtype_name(spec->dtype), i,
                   (long long)got, (long long)wanted);
            me->failures++;
        }
    }
    gy_free(in);
    gy_free(apart);
}

static void run_operation(crew_member *me)
{
    const gy_operation *operation = me->shared_arg;
    bool has_parts = *operation == GY_OPERATION_REDUCE_SCATTER;
    for (size_t k = 0; k < GY_COUNT(integers) * COUNTS && me->failures == 0; k++) {
        run_case(me, &(average_case){.operation = *operation,
                                     .dtype = integers[k % GY_COUNT(integers)],
                                     .count = counts[k / GY_COUNT(integers)],
                                     .in_place = k % 2 == 0,
                                     .is_request = k % 3 == 0,
                                     .is_vector = has_parts && k % 4 < 2});
    }
}

static bool is_of_interest(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE ||
           operation == GY_OPERATION_REDUCE_SCATTER;
}

static void check(const char *algorithm, gy_operation operation, int ranks, bool is_apart)
{
    const gy_comm_options options = {.algorithm = algorithm, .has_messages_only = is_apart};
    if (crew_run(ranks, &options, run_operation, &operation) != 0) {
        fail_msg("%s by %s on %d ranks%s (%s)", gy_operation_name(operation),
                 algorithm != NULL ? algorithm : "choice", ranks, is_apart ? ", messages" : "",
                 gy_error_text());
    }
}

GY_TEST(no_algorithm_wraps_an_average)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (is_of_interest(row->operation) && gy_test_takes(i)) {
            char name[64];
            bool has_number = row->parameter == GY_PARAMETER_NUMBER;
            snprintf(name, sizeof(name), "%s%s", row->name, has_number ? ":2" : "");
            check(name, row->operation, 2 + (int)(i % 4), i % 2 == 0);
        }
    }
}

GY_TEST(any_number_of_ranks_has_the_average)
{
    const gy_operation operations[] = {GY_OPERATION_ALLREDUCE, GY_OPERATION_REDUCE,
                                       GY_OPERATION_REDUCE_SCATTER};
    for (size_t k = 0; k < GY_COUNT(operations); k++) {
        for (int ranks = 1; ranks <= 7; ranks++) {
            check(NULL, operations[k], ranks, ranks % 2 == 0);
        }
    }
}

/* One rank sums what the others average. */
static void differ(crew_member *me)
{
    int32_t data[3] = {1, 2, 3};
    gy_reduction reduction = me->rank == 1 ? GY_SUM : GY_AVG;
    EXPECT(gy_allreduce(me->comm, data, data, 3, GY_I32, reduction) == GY_MISMATCH);
    EXPECT(strstr(gy_error_text(), "allreduce of 3 i32 by avg") != NULL);
    EXPECT(strstr(gy_error_text(), "allreduce of 3 i32 by sum") != NULL);
}

GY_TEST(calls_are_told_as_they_were_made)
{
    assert_int_equal(crew_run(2, NULL, differ, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
