/*
 * Goal: between ranks that share memory parts of unequal length are piggybacked in the slots,
 * or go through staging or registered memory, not by messages; who gives more than another rank
 * expects is named on all ranks.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 3, LONG = 70001 };

/* Rank r gives (or takes) count + r elements in each part. */
typedef struct parts_case {
    gy_operation operation;
    size_t count;
    bool is_registered, is_apart; /* apart: rank 1 gives one more than others expect */
    const char *way;              /* "slots" or an algorithm */
} parts_case;

static int64_t part_of(const parts_case *spec, int from, int to)
{
    bool is_by_giver =
        spec->operation == GY_OPERATION_ALLGATHER || spec->operation == GY_OPERATION_GATHER;
    return (int64_t)spec->count + (is_by_giver ? from : to);
}

static gy_coll_call call_of(const crew_member *me, const parts_case *spec, int64_t *in,
                            int64_t *out)
{
    gy_operation operation = spec->operation;
    bool gathers = operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_GATHER;
    gy_coll_call call = {
        .operation = operation,
        .dtype = GY_F32,
        .reduction = GY_SUM,
        .count = (size_t)(gathers ? part_of(spec, me->rank, 0) : part_of(spec, 0, me->rank)),
        .is_vector = true};
    for (int rank = 0; rank < me->size; rank++) {
        in[rank] = part_of(spec, me->rank, rank);
        out[rank] = part_of(spec, rank, me->rank);
    }
    if (spec->is_apart && me->rank == 1) {
        in[0]++;
        in[2]++;
        call.count++;
    }
    bool is_root = me->rank == 0;
    if (operation == GY_OPERATION_ALLTOALL || operation == GY_OPERATION_REDUCE_SCATTER ||
        (operation == GY_OPERATION_SCATTER && is_root)) {
        call.in_parts.counts = in;
    }
    if (operation == GY_OPERATION_ALLTOALL || operation == GY_OPERATION_ALLGATHER ||
        (operation == GY_OPERATION_GATHER && is_root)) {
        call.out_parts.counts = out;
    }
    return call;
}

/* The plan that was kept, of the one call of its kind. */
static const char *way_taken(const gy_comm *comm, gy_operation operation)
{
    for (size_t i = 0; i < GY_CACHED_PLANS; i++) {
        const gy_algorithm *row = comm->cached[i].algorithm;
        if (row != NULL && row->operation == operation) {
            return row->name;
        }
    }
    return "slots";
}

static void run_case(crew_member *me)
{
    const parts_case *spec = me->shared_arg;
    int64_t in[RANKS], out[RANKS];
    size_t room = (spec->count + RANKS + 1) * RANKS * sizeof(float);
    gy_pool *pool = spec->is_registered ? gy_comm_pool(me->comm) : gy_pool_heap();
    gy_coll_call call = call_of(me, spec, in, out);
    call.in = memset(gy_pool_take(pool, room), 0, room);
    call.out = memset(gy_pool_take(pool, room), 0, room);
    EXPECT(gy_barrier(me->comm) == GY_OK);
    gy_status status = gy_coll_run(me->comm, &call);
    bool is_third = me->rank == 2 && spec->operation != GY_OPERATION_ALLTOALL;
    if (spec->is_apart) { /* both sides are told at once, others with the next call */
        status = is_third && status == GY_OK ? gy_barrier(me->comm) : status;
        EXPECT(status == GY_MISMATCH);
        EXPECT(strstr(gy_error_text(), "elements, rank") != NULL);
        EXPECT(strstr(gy_error_text(), "rank 1 ") != NULL);
        EXPECT(strstr(gy_error_text(), gy_operation_name(spec->operation)) != NULL);
    } else {
        EXPECT(status == GY_OK);
        const char *way = way_taken(me->comm, spec->operation);
        if (strcmp(way, spec->way) != 0) {
            printf("%s of %zu took %s, expected %s\n", gy_operation_name(spec->operation),
                   spec->count, way, spec->way);
            me->failures++;
        }
    }
    gy_pool_give(pool, (void *)(uintptr_t)call.in);
    gy_pool_give(pool, call.out);
}

static const gy_operation operations[] = {GY_OPERATION_ALLGATHER, GY_OPERATION_GATHER,
                                          GY_OPERATION_SCATTER, GY_OPERATION_REDUCE_SCATTER,
                                          GY_OPERATION_ALLTOALL};

GY_TEST(parts_take_the_ways_of_shared_memory)
{
    for (size_t i = 0; i < GY_COUNT(operations); i++) {
        const parts_case cases[] = {
            {.operation = operations[i], .count = 0, .way = "slots"},
            {.operation = operations[i], .count = 100, .way = "slots"},
            {.operation = operations[i], .count = LONG, .way = "staged"},
            {.operation = operations[i], .count = LONG, .is_registered = true, .way = "direct"},
        };
        for (size_t k = 0; k < GY_COUNT(cases); k++) {
            parts_case spec = cases[k];
            assert_int_equal(crew_run(RANKS, NULL, run_case, &spec), 0);
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(who_gives_too_much_is_named)
{
    static const gy_operation told[] = {GY_OPERATION_GATHER, GY_OPERATION_SCATTER,
                                        GY_OPERATION_ALLTOALL};
    static const size_t counts[] = {5, LONG};
    for (size_t i = 0; i < GY_COUNT(told) * GY_COUNT(counts); i++) {
        parts_case spec = {.operation = told[i / GY_COUNT(counts)],
                           .count = counts[i % GY_COUNT(counts)],
                           .is_apart = true};
        assert_int_equal(crew_run(RANKS, NULL, run_case, &spec), 0);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST_MAIN(NULL, NULL)
