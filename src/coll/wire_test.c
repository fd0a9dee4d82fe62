/* Goal: over TCP a collective's bytes on the wire are those of its plan, the calls that ranks
 * compare, and 32 bytes for each frame. */
#include "coll/coll_priv.h"
#include "transport/tcp.h"

#include "gy_test.h"

enum { RANKS = 4, COUNT = 10000 };

typedef struct member {
    gy_thread thread;
    gy_transport *transport;
    gy_comm *comm;
    bool meets;
    gy_error error;
} member;

static void *run_member(void *arg)
{
    static float data[RANKS][COUNT];
    member *me = arg;
    float *mine = data[me->transport->rank];
    for (size_t i = 0; i < COUNT; i++) {
        mine[i] = (float)i;
    }
    gy_status status = me->meets ? gy_transport_meet(me->transport, gy_deadline_after(30))
                                 : gy_allreduce(me->comm, mine, mine, COUNT, GY_F32, GY_SUM);
    gy_error_take(&me->error, status);
    for (size_t i = 0; i < COUNT && status == GY_OK && !me->meets; i++) {
        if (mine[i] != (float)i * (float)me->transport->size) {
            me->error.status = GY_NUMERIC;
        }
    }
    return NULL;
}

static gy_tcp_count run_all(member *members, int ranks, bool meets)
{
    gy_tcp_count sum = {.sent_bytes = 0};
    for (int rank = 0; rank < ranks; rank++) {
        members[rank].meets = meets;
        assert_ok(gy_thread_start(&members[rank].thread, "rank", run_member, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
        assert_ok(members[rank].error.status);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_tcp_count count = gy_tcp_counts(members[rank].transport);
        sum.sent_bytes += count.sent_bytes;
        sum.sent_frames += count.sent_frames;
    }
    return sum;
}

static void open_members(member *members, int ranks, const char *name)
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
                                  .host_ranks = ranks};
        members[rank] = (member){.transport = NULL};
        assert_ok(gy_tcp_open(&options, gy_env_real(), &members[rank].transport));
        assert_ok(gy_comm_new(members[rank].transport, &(gy_comm_options){.algorithm = name},
                              &members[rank].comm));
    }
}

typedef struct plan_traffic {
    uint64_t messages, bytes;
} plan_traffic;

/* What the plan says that all ranks send. */
static plan_traffic count_plan(const char *name, int ranks)
{
    gy_plan *plan = NULL;
    plan_traffic sum = {.messages = 0};
    const gy_algorithm *row = gy_algorithm_find(GY_OPERATION_ALLREDUCE, name);
    gy_plan_request request = {
        .operation = GY_OPERATION_ALLREDUCE, .ranks = ranks, .chunks = 1, .in_place = true};
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
    gy_plan_free(plan);
    /* Both algorithms move the vector p - 1 times in and p - 1 times out. */
    assert_int_equal(sum.bytes, 2 * (uint64_t)(ranks - 1) * COUNT * sizeof(float));
    return sum;
}

static void wire_carries_what_the_plan_says(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "tree"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            member members[RANKS];
            uint64_t cards = 2 * (uint64_t)ranks;
            plan_traffic plan = count_plan(names[i], ranks);
            open_members(members, ranks, names[i]);
            gy_tcp_count before = run_all(members, ranks, true);
            gy_tcp_count after = run_all(members, ranks, false);
            assert_int_equal(after.sent_frames - before.sent_frames, plan.messages + cards);
            assert_int_equal(after.sent_bytes - before.sent_bytes,
                             plan.bytes + cards * sizeof(gy_card) +
                                 (plan.messages + cards) * GY_FRAME_BYTES);
            for (int rank = 0; rank < ranks; rank++) {
                gy_comm_free(members[rank].comm);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wire_carries_what_the_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
