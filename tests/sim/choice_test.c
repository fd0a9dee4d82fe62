/*
 * Goal: ranks that span hosts take a hierarchy or a weighted ring where the model says that it
 * wins; it gives the same sums, sooner and with fewer bytes between hosts than a ring that
 * knows no hosts.
 */
#include "coll/coll.h"
#include "transport/simnet.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS_MAX = 12, COUNT_MAX = 1 << 18 };

typedef struct hosts_world {
    gy_sim *sim;
    int size;
    int32_t host_of[RANKS_MAX];
    gy_comm *comms[RANKS_MAX];
    gy_status ends[RANKS_MAX]; /* GY_AGAIN under way */
    int32_t *data;             /* (size, COUNT_MAX) */
} hosts_world;

/* Bytes that were sent between hosts; all worlds' transports are of one kind. */
static int64_t across_bytes;
static const gy_transport_ops *sent_by;

static gy_status count_send(gy_transport *transport, gy_transfer *transfer)
{
    if (transport->hosts[transport->rank] != transport->hosts[transfer->peer]) {
        across_bytes += (int64_t)transfer->size_bytes;
    }
    return sent_by->send(transport, transfer);
}

/* Ranks are dealt to hosts in blocks, or one after another. */
static void open_world(hosts_world *world, int hosts, int each, bool is_dealt, const char *name)
{
    static gy_transport_ops counting;
    const gy_sim_link near = {.latency_ns = 1000, .bytes_per_second = 8e9};
    const gy_sim_options options = {.seed = 3,
                                    .nodes = hosts * each,
                                    .link = {.latency_ns = 30000, .bytes_per_second = 1.2e9}};
    *world = (struct hosts_world){.size = hosts * each};
    assert_ok(gy_sim_new(&options, &world->sim));
    for (int rank = 0; rank < world->size; rank++) {
        world->host_of[rank] = is_dealt ? rank % hosts : rank / each;
    }
    for (int rank = 0; rank < world->size; rank++) {
        gy_transport *transport = NULL;
        assert_ok(gy_transport_simnet_open(world->sim, rank, &transport));
        for (int peer = 0; peer < world->size; peer++) {
            if (peer != rank && world->host_of[peer] == world->host_of[rank]) {
                assert_ok(gy_sim_set_link(world->sim, rank, peer, &near));
            }
        }
        sent_by = transport->ops == &counting ? sent_by : transport->ops;
        counting = *sent_by;
        counting.send = count_send;
        transport->ops = &counting;
        transport->hosts = world->host_of;
        assert_ok(gy_comm_new(transport, &(gy_comm_options){.timeout_s = 30, .algorithm = name},
                              &world->comms[rank]));
    }
    world->data = gy_alloc("test", sizeof(int32_t) * COUNT_MAX * (size_t)world->size);
    assert_non_null(world->data);
}

static void close_world(hosts_world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        gy_comm_free(world->comms[rank]);
    }
    gy_free(world->data);
    gy_sim_free(world->sim);
    assert_int_equal(gy_alloc_live(), 0);
}

static void note_end(void *arg, gy_status status)
{
    *(gy_status *)arg = status;
}

static gy_coll_call allreduce_of(hosts_world *world, int rank, size_t count)
{
    int32_t *data = world->data + (size_t)rank * COUNT_MAX;
    return (gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                          .dtype = GY_I32,
                          .reduction = GY_SUM,
                          .count = count,
                          .in = data,
                          .out = data};
}

/* Bytes between hosts; the virtual time. */
static int64_t run_allreduce(hosts_world *world, size_t count, int64_t *took_ns)
{
    int64_t before = across_bytes, start_ns = gy_sim_now_ns(world->sim);
    for (int rank = 0; rank < world->size; rank++) {
        int32_t *data = world->data + (size_t)rank * COUNT_MAX;
        for (size_t i = 0; i < count; i++) {
            data[i] = (int32_t)(i % 1000) * (rank + 1);
        }
        gy_coll_call call = allreduce_of(world, rank, count);
        world->ends[rank] = GY_AGAIN;
        assert_ok(gy_coll_begin(world->comms[rank], &call, note_end, &world->ends[rank]));
    }
    for (bool is_over = false; !is_over;) {
        bool has_moved = false;
        is_over = true;
        for (int rank = 0; rank < world->size; rank++) {
            has_moved = gy_comm_progress(world->comms[rank]) || has_moved;
            is_over = is_over && world->ends[rank] != GY_AGAIN;
        }
        if (!has_moved && !is_over && !gy_sim_step(world->sim)) {
            gy_sim_run_until(world->sim, gy_sim_now_ns(world->sim) + 1000000);
        }
    }
    *took_ns = gy_sim_now_ns(world->sim) - start_ns;
    int32_t weight = world->size * (world->size + 1) / 2;
    for (int rank = 0; rank < world->size; rank++) {
        const int32_t *data = world->data + (size_t)rank * COUNT_MAX;
        assert_ok(world->ends[rank]);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(data[i], (int32_t)(i % 1000) * weight);
        }
    }
    return across_bytes - before;
}

static const char *choice_of(hosts_world *world, size_t count, char out[GY_CHOICE_BYTES])
{
    char other[GY_CHOICE_BYTES];
    gy_coll_call call = allreduce_of(world, 0, count);
    assert_ok(gy_coll_choice(world->comms[0], &call, false, out));
    for (int rank = 1; rank < world->size; rank++) {
        call = allreduce_of(world, rank, count);
        assert_ok(gy_coll_choice(world->comms[rank], &call, false, other));
        assert_string_equal(out, other);
    }
    return out;
}

GY_TEST(hosts_are_minded)
{
    static const struct {
        int hosts, each;
        bool is_dealt;
    } shapes[] = {{3, 2, false}, {3, 2, true}, {2, 4, false}, {4, 3, true}};
    static const size_t counts[] = {2, 4096, 65536, COUNT_MAX};
    int hierarchies = 0;
    for (size_t s = 0; s < GY_COUNT(shapes); s++) {
        for (size_t c = 0; c < GY_COUNT(counts); c++) {
            hosts_world chosen, ring;
            char choice[GY_CHOICE_BYTES];
            int64_t chosen_ns = 0, ring_ns = 0;
            open_world(&chosen, shapes[s].hosts, shapes[s].each, shapes[s].is_dealt, NULL);
            choice_of(&chosen, counts[c], choice);
            int64_t chosen_bytes = run_allreduce(&chosen, counts[c], &chosen_ns);
            close_world(&chosen);
            open_world(&ring, shapes[s].hosts, shapes[s].each, shapes[s].is_dealt, "ring");
            int64_t ring_bytes = run_allreduce(&ring, counts[c], &ring_ns);
            close_world(&ring);
            printf("%d hosts of %d, %zu B: %s, %lld B and %lld us; ring %lld B and %lld us\n",
                   shapes[s].hosts, shapes[s].each, counts[c] * 4, choice,
                   (long long)chosen_bytes, (long long)chosen_ns / 1000, (long long)ring_bytes,
                   (long long)ring_ns / 1000);
            bool is_hierarchy = strncmp(choice, "hierarchy:", strlen("hierarchy:")) == 0;
            bool is_few = counts[c] <= 4096; /* rounds count, not bytes */
            bool is_weighted = strncmp(choice, "weighted", strlen("weighted")) == 0;
            /* In blocks, rings and powers of two cross hosts as seldom as can be. */
            assert_true(is_hierarchy || is_weighted || !shapes[s].is_dealt);
            assert_true(is_few || !shapes[s].is_dealt || chosen_bytes < ring_bytes);
            assert_true(chosen_ns <= ring_ns);
            hierarchies += is_hierarchy;
        }
    }
    assert_true(hierarchies >= 6);
}

/* The same ranks on one host, or one a host, have nobody to be above or below. */
GY_TEST(one_level_needs_no_hierarchy)
{
    static const int shapes[][2] = {{1, 6}, {6, 1}};
    for (size_t s = 0; s < GY_COUNT(shapes); s++) {
        hosts_world world;
        char choice[GY_CHOICE_BYTES];
        int64_t took_ns = 0;
        open_world(&world, shapes[s][0], shapes[s][1], false, NULL);
        assert_null(strstr(choice_of(&world, COUNT_MAX, choice), "hierarchy"));
        run_allreduce(&world, COUNT_MAX, &took_ns);
        close_world(&world);
    }
}

GY_TEST_MAIN(NULL, NULL)
