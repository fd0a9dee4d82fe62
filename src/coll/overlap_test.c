/*
 * Goal: buffers that share memory are refused by every collective; where one rank alone passes
 * such, none is left waiting, where all do they can go on; what is in place, apart, side by
 * side or in each other's gaps is not refused.
 */
#include "coll/coll_priv.h"
#include "coll/crew_priv.h"

#include "gy_test.h"

enum { RANKS = 3, COUNT = 20, ROOM = 4 * RANKS * COUNT };

static const gy_operation operations[] = {
    GY_OPERATION_ALLREDUCE, GY_OPERATION_REDUCE_SCATTER, GY_OPERATION_ALLGATHER,
    GY_OPERATION_REDUCE,    GY_OPERATION_GATHER,         GY_OPERATION_SCATTER,
    GY_OPERATION_ALLTOALL,  GY_OPERATION_SCAN,           GY_OPERATION_EXCLUSIVE_SCAN};

typedef struct overlap_case {
    gy_operation operation;
    int64_t in, out; /* elements from the start of one room */
    size_t count;
    int culprit; /* the rank that passes them, the others' lie apart; -1: all do */
    bool is_request, is_vector;
} overlap_case;

static bool has_parts_in(gy_operation operation)
{
    return operation == GY_OPERATION_REDUCE_SCATTER || operation == GY_OPERATION_SCATTER ||
           operation == GY_OPERATION_ALLTOALL;
}

static bool has_parts_out(gy_operation operation)
{
    return operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_GATHER ||
           operation == GY_OPERATION_ALLTOALL;
}

static bool is_like_all(gy_operation operation)
{
    return has_parts_in(operation) == has_parts_out(operation);
}

/* Has this rank both buffers? Ranks without an output, or without an input, are never refused.
 */
static bool has_both(const crew_member *me, gy_operation operation)
{
    bool is_rooted = operation == GY_OPERATION_REDUCE || operation == GY_OPERATION_GATHER ||
                     operation == GY_OPERATION_SCATTER;
    return (!is_rooted || me->rank == 0) &&
           (operation != GY_OPERATION_EXCLUSIVE_SCAN || me->rank != 0);
}

static gy_status call_once(const crew_member *me, const overlap_case *spec, float *room)
{
    int64_t counts[RANKS];
    bool is_mine = spec->culprit < 0 || spec->culprit == me->rank;
    gy_coll_call call = {.operation = spec->operation,
                         .dtype = GY_F32,
                         .reduction = GY_SUM,
                         .count = spec->count,
                         .in = room + (is_mine ? spec->in : 0),
                         .out = room + (is_mine ? spec->out : ROOM / 2)};
    for (int rank = 0; rank < me->size; rank++) {
        counts[rank] = (int64_t)spec->count;
    }
    if (spec->is_vector) {
        call.is_vector = true;
        call.in_parts.counts = has_parts_in(spec->operation) ? counts : NULL;
        call.out_parts.counts = has_parts_out(spec->operation) ? counts : NULL;
    }
    if (!spec->is_request) {
        return gy_coll_run(me->comm, &call);
    }
    gy_request *request = NULL;
    GY_TRY(gy_request_begin(me->comm, &call, &request));
    gy_status status = gy_request_wait(request, gy_deadline_after(20));
    gy_request_free(request);
    return status;
}

/* Whoever passes the buffers gets GY_ARG, the others fail too; if there are others, or nobody
 * waits for the call, the communicator fails. */
static void be_refused(crew_member *me)
{
    const overlap_case *spec = me->shared_arg;
    float *room = gy_alloc_zero("test", ROOM, sizeof(*room));
    bool is_mine = spec->culprit < 0 || spec->culprit == me->rank;
    bool is_rooted = spec->operation == GY_OPERATION_REDUCE ||
                     spec->operation == GY_OPERATION_GATHER ||
                     spec->operation == GY_OPERATION_SCATTER;
    bool are_all =
        spec->culprit < 0 && !is_rooted && spec->operation != GY_OPERATION_EXCLUSIVE_SCAN;
    gy_status status = call_once(me, spec, room);
    if (is_mine && has_both(me, spec->operation)) {
        EXPECT(status == GY_ARG);
        EXPECT(strstr(gy_error_text(), "overlap, expected memory apart, or in place") != NULL);
        EXPECT(strstr(gy_error_text(), gy_operation_name(spec->operation)) != NULL);
    } else {
        EXPECT(status == GY_MISMATCH || (spec->is_request && status == GY_ARG));
        EXPECT(spec->is_request || strstr(gy_error_text(), "buffers that it was refused"));
    }
    if (are_all && !spec->is_request) {
        float sum = 1;
        EXPECT(gy_allreduce(me->comm, &sum, &sum, 1, GY_F32, GY_SUM) == GY_OK);
        EXPECT(sum == (float)me->size);
    } else {
        EXPECT(gy_barrier(me->comm) < 0);
    }
    gy_free(room);
}

static void check_refused(const overlap_case *spec)
{
    for (int is_apart = 0; is_apart < 2; is_apart++) {
        overlap_case one = *spec;
        const gy_comm_options options = {.timeout_s = 20, .has_messages_only = is_apart == 1};
        if (crew_run(RANKS, &options, be_refused, &one) != 0) {
            fail_msg("%s%s, in at %d, out at %d, culprit %d%s",
                     gy_operation_name(spec->operation), spec->is_vector ? "v" : "",
                     (int)spec->in, (int)spec->out, spec->culprit,
                     is_apart ? ", messages" : "");
        }
    }
}

GY_TEST(all_ranks_are_refused_what_overlaps)
{
    for (size_t k = 0; k < GY_COUNT(operations); k++) {
        gy_operation operation = operations[k];
        overlap_case one = {.operation = operation, .culprit = -1, .count = COUNT};
        one.out = is_like_all(operation) ? 1 : has_parts_in(operation) ? 7 : 0;
        one.in = has_parts_out(operation) && !is_like_all(operation) ? 7 : 0;
        check_refused(&one);
        one.is_request = true;
        one.is_vector = has_parts_in(operation) || has_parts_out(operation);
        check_refused(&one);
    }
}

/* The last element of one is the first of the other; on a rank that has both. */
GY_TEST(one_rank_alone_does_not_leave_the_others_waiting)
{
    for (size_t k = 0; k < GY_COUNT(operations); k++) {
        gy_operation operation = operations[k];
        bool is_rooted = operation == GY_OPERATION_REDUCE || operation == GY_OPERATION_GATHER ||
                         operation == GY_OPERATION_SCATTER;
        overlap_case one = {.operation = operation,
                            .culprit = is_rooted ? 0 : 1 + (int)(k % 2),
                            .count = COUNT,
                            .is_request = k % 3 == 0};
        int64_t in = has_parts_in(operation) ? RANKS * COUNT : COUNT;
        int64_t out = has_parts_out(operation) ? RANKS * COUNT : COUNT;
        one.out = in - 1;
        check_refused(&one);
        one.out = 0;
        one.in = out - 1;
        check_refused(&one);
    }
}

/* One rank has no buffer at all. */
static void miss_one(crew_member *me)
{
    float data[COUNT] = {0};
    gy_status status =
        gy_allreduce(me->comm, me->rank == 1 ? NULL : data, data, COUNT, GY_F32, GY_SUM);
    EXPECT(status == (me->rank == 1 ? GY_ARG : GY_MISMATCH));
    EXPECT(strstr(gy_error_text(), me->rank == 1 ? "in is NULL" : "it was refused") != NULL);
    EXPECT(gy_barrier(me->comm) < 0);
}

GY_TEST(a_missing_buffer_does_not_leave_the_others_waiting)
{
    for (int is_apart = 0; is_apart < 2; is_apart++) {
        const gy_comm_options options = {.timeout_s = 20, .has_messages_only = is_apart == 1};
        assert_int_equal(crew_run(RANKS, &options, miss_one, NULL), 0);
    }
}

/* In place by the other way around: out where in begins, for those with one part a rank. */
GY_TEST(equal_pointers_are_in_place_for_one_rank_alone)
{
    const gy_operation parts[] = {GY_OPERATION_ALLGATHER, GY_OPERATION_REDUCE_SCATTER};
    for (size_t k = 0; k < GY_COUNT(parts); k++) {
        check_refused(&(overlap_case){.operation = parts[k], .culprit = 2, .count = COUNT});
    }
}

static void run_fine(crew_member *me)
{
    const size_t sizes[] = {COUNT, 3000};
    for (size_t k = 0; k < GY_COUNT(operations) * GY_COUNT(sizes); k++) {
        gy_operation operation = operations[k / GY_COUNT(sizes)];
        int64_t count = (int64_t)sizes[k % GY_COUNT(sizes)];
        int64_t in = has_parts_in(operation) ? me->size * count : count;
        int64_t out = has_parts_out(operation) ? me->size * count : count;
        float *room = gy_alloc_zero("test", (size_t)(in + out), sizeof(*room));
        overlap_case one = {.operation = operation, .culprit = -1, .count = (size_t)count};
        one.out = in; /* side by side */
        EXPECT(call_once(me, &one, room) == GY_OK);
        one = (overlap_case){
            .operation = operation, .in = out, .culprit = -1, .count = one.count};
        EXPECT(call_once(me, &one, room) == GY_OK);
        one.in = one.out = 0; /* in place */
        if (has_both(me, operation) && !is_like_all(operation)) {
            one.in = has_parts_out(operation) ? me->rank * count : 0;
            one.out = has_parts_in(operation) ? me->rank * count : 0;
        }
        EXPECT(call_once(me, &one, room) == GY_OK);
        gy_free(room);
    }
}

GY_TEST(what_is_apart_or_in_place_runs)
{
    const gy_comm_options messages = {.has_messages_only = true};
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        assert_int_equal(crew_run(ranks, NULL, run_fine, NULL), 0);
        assert_int_equal(crew_run(ranks, &messages, run_fine, NULL), 0);
    }
}

/* The input lies between two parts of the output. */
static void run_in_gaps(crew_member *me)
{
    float room[RANKS * 2 * COUNT] = {0};
    int64_t counts[RANKS], displacements[RANKS];
    for (int rank = 0; rank < me->size; rank++) {
        counts[rank] = COUNT;
        displacements[rank] = (int64_t)rank * 2 * COUNT;
    }
    const gy_parts parts = {counts, displacements};
    float *in = room + COUNT;
    for (int i = 0; i < COUNT; i++) {
        in[i] = (float)(me->rank + 1);
    }
    EXPECT(gy_allgatherv(me->comm, in, room, &parts, GY_F32) == GY_OK);
    for (int rank = 0; rank < me->size; rank++) {
        EXPECT(room[displacements[rank] + COUNT - 1] == (float)(rank + 1));
    }
    EXPECT(gy_allgatherv(me->comm, in + 1, room, &parts, GY_F32) == GY_ARG);
}

GY_TEST(gaps_are_not_the_calls)
{
    assert_int_equal(crew_run(RANKS, NULL, run_in_gaps, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
