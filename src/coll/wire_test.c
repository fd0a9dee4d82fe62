/* Goal: over TCP a collective's bytes on the wire are those that the model prices, the calls
 * that ranks compare, and 32 bytes for each frame; differing calls are told by all ranks; what
 * was allocated is used again. */
#include "coll/coll_priv.h"
#include "transport/tcp.h"

#include "gy_test.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>

enum { RANKS = 4, COUNT = 10000 };

typedef struct member {
    gy_thread thread;
    gy_transport *transport;
    gy_comm *comm;
    bool meets;
    size_t count; /* 0: all */
    int calls;    /* 0: one */
    long faults;  /* of this thread, in all calls but the first ones */
    gy_error error;
} member;

static gy_status call_often(member *me, float *mine, size_t count)
{
    enum { WARM_CALLS = 20 };
    struct rusage before = {.ru_minflt = 0}, after;
    for (int i = 0; i < GY_MAX(me->calls, 1); i++) {
        if (i == WARM_CALLS) {
            getrusage(RUSAGE_THREAD, &before);
        }
        GY_TRY(gy_allreduce(me->comm, mine, mine, count, GY_F32, GY_SUM));
    }
    getrusage(RUSAGE_THREAD, &after);
    me->faults = after.ru_minflt - before.ru_minflt;
    return GY_OK;
}

static void *run_member(void *arg)
{
    static float data[RANKS][COUNT];
    member *me = arg;
    float *mine = data[me->transport->rank];
    for (size_t i = 0; i < COUNT; i++) {
        mine[i] = (float)i;
    }
    size_t count = me->count > 0 ? me->count : COUNT;
    gy_status status = me->meets ? gy_transport_meet(me->transport, gy_deadline_after(30))
                                 : call_often(me, mine, count);
    gy_error_take(&me->error, status);
    for (size_t i = 0; i < COUNT && status == GY_OK && !me->meets && me->calls == 0; i++) {
        if (mine[i] != (float)i * (float)me->transport->size) {
            me->error.status = GY_NUMERIC;
        }
    }
    return NULL;
}

static void start_and_join(member *members, int ranks, bool meets)
{
    for (int rank = 0; rank < ranks; rank++) {
        members[rank].meets = meets;
        assert_ok(gy_thread_start(&members[rank].thread, "rank", run_member, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
    }
}

static gy_tcp_count run_all(member *members, int ranks, bool meets)
{
    gy_tcp_count sum = {.sent_bytes = 0};
    start_and_join(members, ranks, meets);
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(members[rank].error.status);
        gy_tcp_count count = gy_tcp_counts(members[rank].transport);
        sum.sent_bytes += count.sent_bytes;
        sum.sent_frames += count.sent_frames;
    }
    return sum;
}

/* `cores`: of the host, as the ranks are told; 0 they are not. */
static void open_on(member *members, int ranks, int cores, const char *name)
{
    gy_address addresses[RANKS];
    int listeners[RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(gy_address_find("127.0.0.1:1", &addresses[rank]));
        gy_address_set_port(&addresses[rank], 0);
        assert_ok(gy_address_listen(&addresses[rank], &listeners[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_tcp_options options = {.rank = rank,
                                  .size = ranks,
                                  .addresses = addresses,
                                  .listener = listeners[rank],
                                  .host_ranks = ranks,
                                  .host_cores = cores};
        members[rank] = (member){.transport = NULL};
        assert_ok(gy_tcp_open(&options, gy_env_real(), &members[rank].transport));
        assert_ok(gy_comm_new(members[rank].transport, &(gy_comm_options){.algorithm = name},
                              &members[rank].comm));
    }
}

static void open_members(member *members, int ranks, const char *name)
{
    open_on(members, ranks, 0, name);
}

typedef struct plan_traffic {
    uint64_t messages, bytes;
} plan_traffic;

/* What the plan says that all ranks send. */
static plan_traffic count_plan(const char *name, int ranks)
{
    gy_plan *plan = NULL;
    plan_traffic sum = {.messages = 0};
    const gy_algorithm *row = NULL;
    gy_plan_request request = {
        .operation = GY_OPERATION_ALLREDUCE, .ranks = ranks, .chunks = 1, .in_place = true};
    assert_ok(gy_algorithm_parse(request.operation, name, &row, request.parameter));
    gy_layout layout = {.count = COUNT,
                        .parts = gy_cut_parts(row->cut, &request),
                        .chunks = gy_cut_chunks(row->cut, &request),
                        .part_unit = GY_CACHE_LINE / sizeof(float),
                        .chunk_unit = GY_CACHE_LINE / sizeof(float)};
    assert_ok(gy_plan_new(row, &request, &plan));
    for (int rank = 0; rank < ranks; rank++) {
        for (size_t i = 0; i < plan->ranks[rank].count; i++) {
            const gy_step *step = &plan->ranks[rank].items[i];
            if (step->kind == GY_STEP_SEND) {
                int64_t elements = gy_layout_at(&layout, step->a.first + step->a.run) -
                                   gy_layout_at(&layout, step->a.first);
                sum.messages++;
                sum.bytes += (uint64_t)elements * sizeof(float);
            }
        }
    }
    gy_plan_costs price;
    assert_ok(gy_plan_cost_of(plan,
                              &(gy_volume){.count = COUNT, .element_bytes = sizeof(float)},
                              &(gy_links){.alpha = 1e-6, .beta = 1e-9}, &price));
    assert_int_equal(sum.bytes, price.sent_sum);
    gy_plan_free(plan);
    return sum;
}

GY_TEST(wire_carries_what_the_plan_says)
{
    static const char *const names[] = {"ring", "tree",        "doubling",  "halving",
                                        "flat", "partitioned", "servers:2", "folded:2"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            member members[RANKS];
            bool is_folded = strncmp(names[i], "folded", strlen("folded")) == 0;
            int pairs = ranks == 2 ? 1 : ranks - (is_folded && ranks == 4); /* ring; line */
            uint64_t signatures = 2 * (uint64_t)pairs;                      /* one each way */
            plan_traffic plan = count_plan(names[i], ranks);
            open_on(members, ranks, is_folded ? 2 : 0, names[i]);
            gy_tcp_count before = run_all(members, ranks, true);
            gy_tcp_count after = run_all(members, ranks, false);
            assert_int_equal(after.sent_frames - before.sent_frames,
                             plan.messages + signatures);
            assert_int_equal(after.sent_bytes - before.sent_bytes,
                             plan.bytes + signatures * sizeof(gy_coll_signature) +
                                 (plan.messages + signatures) * GY_FRAME_BYTES);
            for (int rank = 0; rank < ranks; rank++) {
                gy_comm_free(members[rank].comm);
            }
        }
    }
}

/* Crowded ranks fold; those who are not, or do not know, double; long vectors go round. */
GY_TEST(crowded_ranks_fold)
{
    static const struct {
        int cores;
        size_t count;
        const char *name;
    } cases[] = {{2, 2, "folded:2 (built in)"},
                 {3, 1 << 20, "folded:3 (built in)"},
                 {2, 2 << 20, "ring (built in)"},
                 {4, 2, "doubling (built in)"},
                 {0, 2, "doubling (built in)"}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        member members[RANKS];
        char choice[GY_CHOICE_BYTES];
        const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                   .dtype = GY_F32,
                                   .reduction = GY_SUM,
                                   .count = cases[i].count};
        open_on(members, RANKS, cases[i].cores, NULL);
        (void)run_all(members, RANKS, true);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_ok(gy_coll_choice(members[rank].comm, &call, false, choice));
            assert_string_equal(choice, cases[i].name);
        }
        (void)run_all(members, RANKS, false);
        for (int rank = 0; rank < RANKS; rank++) {
            gy_comm_free(members[rank].comm);
        }
    }
}

/* What the last call's choice depended on and the next call's signature does not say. */
GY_TEST(choices_are_not_taken_for_other_calls)
{
    member members[RANKS];
    gy_coll_method choice;
    open_members(members, 2, NULL);
    (void)run_all(members, 2, true);
    gy_comm *comm = members[0].comm;
    enum { MANY = 2 << 20 }; /* 8 MiB: past the cache where there are two vectors */
    static float in[2], out[2];
    for (int round = 0; round < 2; round++) {
        for (int way = 0; way < 4; way++) {
            bool is_long = way == 1 || way == 2, is_in_place = way >= 2; /* one at a time */
            gy_coll coll = {.comm = comm,
                            .call = {.operation = GY_OPERATION_ALLREDUCE,
                                     .dtype = GY_F32,
                                     .reduction = GY_SUM,
                                     .count = is_long ? MANY : 2,
                                     .in = in,
                                     .out = is_in_place ? in : out}};
            coll.signature = gy_coll_signature_of(comm, &coll.call, false);
            assert_ok(gy_choose(&coll, &choice));
            assert_string_equal(choice.algorithm->name, is_long ? "ring" : "doubling");
            assert_int_equal(choice.pieces.leg * choice.pieces.legs >= (int64_t)MANY, is_long);
            assert_int_equal(choice.is_streamed, is_long && !is_in_place);
        }
    }
    gy_comm_free(members[0].comm);
    gy_comm_free(members[1].comm);
}

GY_TEST(differing_calls_are_told_by_all)
{
    for (int way = 0; way < 2 * (RANKS - 1); way++) {
        member members[RANKS];
        int ranks = 2 + way / 2;
        open_on(members, ranks, way % 2 == 0 ? 0 : 2, NULL); /* the latter: crowded */
        (void)run_all(members, ranks, true);
        members[ranks - 1].count = COUNT / 2;
        start_and_join(members, ranks, false);
        for (int rank = 0; rank < ranks; rank++) {
            const gy_error *error = &members[rank].error;
            assert_int_equal(error->status, GY_MISMATCH);
            assert_non_null(strstr(error->text, "called allreduce of 10000 f32 by sum"));
            assert_non_null(strstr(error->text, "called allreduce of 5000 f32 by sum"));
            gy_comm_free(members[rank].comm);
        }
    }
}

/* In one exchange with each, and through larger messages. */
GY_TEST(memory_is_used_again)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip(); /* they touch memory of their own */
#endif
    static const size_t counts[] = {2, COUNT};
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        member members[RANKS];
        open_members(members, RANKS, NULL);
        (void)run_all(members, RANKS, true);
        for (int rank = 0; rank < RANKS; rank++) {
            members[rank].count = counts[i];
            members[rank].calls = 200;
        }
        /* New threads may be given memory of malloc's that is not touched yet. */
        long best = LONG_MAX;
        for (int tries = 0; tries < 10 && best > 0; tries++) {
            long faults = 0;
            (void)run_all(members, RANKS, false);
            for (int rank = 0; rank < RANKS; rank++) {
                faults += members[rank].faults;
            }
            best = GY_MIN(best, faults);
        }
        printf("%ld faults in %d calls of %zu numbers\n", best, RANKS * members[0].calls,
               counts[i]);
        assert_true(best < RANKS * members[0].calls / 20);
        for (int rank = 0; rank < RANKS; rank++) {
            gy_comm_free(members[rank].comm);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
