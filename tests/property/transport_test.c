/*
 * Goal: whatever is sent and asked for, in whatever order, through rings of 64 bytes packets
 * of another library or simulated links: the n-th receive of a tag from a rank gets the n-th
 * message of that tag, whole.
 */
#include "sim/sim.h"
#include "transport/carried_priv.h"
#include "transport/simnet.h"
#include "transport/transport.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 3, TAGS = 3, MESSAGES = 40, BYTES_MAX = 700 };

/* One tag of one ordered pair: how far senders and receivers are. */
typedef struct lane {
    int sent, asked;
    gy_transfer sends[MESSAGES], receives[MESSAGES];
    uint8_t out[MESSAGES][BYTES_MAX], in[MESSAGES][BYTES_MAX];
} lane;

static lane lanes[RANKS][RANKS][TAGS];

static size_t size_of(int from, int to, int tag, int index)
{
    uint32_t out[4];
    gy_philox(77, (uint64_t)from * RANKS + (uint64_t)to,
              (uint64_t)tag * MESSAGES + (uint64_t)index, out);
    return out[0] % 4 == 0 ? out[1] % 3 : out[1] % BYTES_MAX;
}

static uint8_t byte_of(int from, int to, int tag, int index, size_t at)
{
    return (uint8_t)((size_t)(from * 101 + to * 31 + tag * 7 + index * 13) + at);
}

/* Start one send or receive chosen by chance, if one is left there. */
static void start_one(gy_transport **ranks, gy_random *random)
{
    int from = (int)gy_random_below(random, RANKS), to = (int)gy_random_below(random, RANKS);
    int tag = (int)gy_random_below(random, TAGS);
    lane *way = &lanes[from][to][tag];
    if (gy_random_below(random, 2) == 0 && way->sent < MESSAGES) {
        int index = way->sent++;
        size_t size = size_of(from, to, tag, index);
        for (size_t at = 0; at < size; at++) {
            way->out[index][at] = byte_of(from, to, tag, index, at);
        }
        assert_ok(gy_transport_send(ranks[from], to, (uint64_t)tag, way->out[index], size,
                                    &way->sends[index]));
    } else if (way->asked < MESSAGES) {
        int index = way->asked++;
        assert_ok(gy_transport_recv(ranks[to], from, (uint64_t)tag, way->in[index], BYTES_MAX,
                                    &way->receives[index]));
    }
}

static int count_left(void)
{
    int left = 0;
    for (int i = 0; i < RANKS * RANKS * TAGS; i++) {
        const lane *way = &lanes[i / TAGS / RANKS][i / TAGS % RANKS][i % TAGS];
        left += 2 * MESSAGES - way->sent - way->asked;
        for (int index = 0; index < MESSAGES; index++) {
            left += index < way->sent && way->sends[index].status == GY_AGAIN;
            left += index < way->asked && way->receives[index].status == GY_AGAIN;
        }
    }
    return left;
}

static void check_all(void)
{
    for (int i = 0; i < RANKS * RANKS * TAGS * MESSAGES; i++) {
        int index = i % MESSAGES, tag = i / MESSAGES % TAGS;
        int from = i / MESSAGES / TAGS / RANKS, to = i / MESSAGES / TAGS % RANKS;
        const lane *way = &lanes[from][to][tag];
        size_t size = size_of(from, to, tag, index);
        assert_int_equal(way->sends[index].status, GY_OK);
        assert_int_equal(way->receives[index].status, GY_OK);
        assert_int_equal(way->receives[index].size_bytes, size);
        for (size_t at = 0; at < size; at++) {
            assert_int_equal(way->in[index][at], byte_of(from, to, tag, index, at));
        }
    }
}

/* Start everything in a random order, progress ranks at random in between, then all to the end.
 */
static void exchange(gy_transport **ranks, gy_sim *sim, uint64_t seed)
{
    gy_random random = {.key = seed};
    memset(lanes, 0, sizeof(lanes));
    int idle = 0;
    while (count_left() > 0 && idle < 1000) {
        bool has_moved = sim != NULL && gy_sim_step(sim);
        for (int i = 0; i < 20; i++) {
            start_one(ranks, &random);
            int rank = (int)gy_random_below(&random, RANKS);
            has_moved = gy_transport_progress(ranks[rank]) == GY_OK || has_moved;
        }
        idle = has_moved ? 0 : idle + 1;
    }
    assert_int_equal(count_left(), 0);
    check_all();
}

static void close_all(gy_transport **ranks)
{
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_close(ranks[rank]);
    }
}

GY_TEST(shared_memory_keeps_order)
{
    uint64_t seed = gy_test_seed();
    static const size_t rings[] = {64, 256, 65536};
    for (uint64_t i = 0; i < 12; i++) {
        gy_transport *ranks[RANKS];
        gy_transport_segment_options options = {.ranks = RANKS,
                                                .ring_bytes = rings[i % GY_COUNT(rings)],
                                                .pool_bytes = 4096,
                                                .staging_bytes = 4096};
        assert_ok(gy_transport_shm_open_all(&options, gy_env_real(), ranks));
        exchange(ranks, NULL, seed + i);
        close_all(ranks);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(simulated_links_keep_order)
{
    uint64_t seed = gy_test_seed();
    for (uint64_t i = 0; i < 12; i++) {
        gy_transport *ranks[RANKS];
        gy_sim *sim = NULL;
        gy_sim_options options = {.seed = seed + i,
                                  .nodes = RANKS,
                                  .link = {.latency_ns = 1000,
                                           .jitter_ns = (int64_t)i * 1000,
                                           .bytes_per_second = i % 2 == 0 ? 1e8 : 0}};
        assert_ok(gy_sim_new(&options, &sim));
        for (int rank = 0; rank < RANKS; rank++) {
            assert_ok(gy_transport_simnet_open(sim, rank, &ranks[rank]));
        }
        exchange(ranks, sim, seed + i);
        close_all(ranks);
        gy_sim_free(sim);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* ---- Packets that another library carries: here queues in memory ---- */

enum { LANES = 2 };

typedef struct packet {
    struct packet *next;
    size_t size_bytes;
    uint8_t data[];
} packet;

static struct {
    gy_mutex lock;
    packet *queues[RANKS][RANKS][LANES]; /* to, from */
} post;

static bool post_send(void *context, int to, int way, const void *data, size_t size_bytes,
                      gy_carried *carried)
{
    packet *made = gy_alloc("test", sizeof(*made) + size_bytes);
    assert_non_null(made);
    made->next = NULL;
    made->size_bytes = size_bytes;
    memcpy(made->data, data, size_bytes);
    carried->opaque[0] = size_bytes % 3; /* so many looks pass until it is done */
    gy_mutex_lock(&post.lock);
    packet **end = &post.queues[to][*(const int *)context][way];
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = made;
    gy_mutex_unlock(&post.lock);
    return true;
}

static bool post_look(void *context, int *from, int way, size_t *size_bytes)
{
    bool is_any = *from == GY_CARRIER_ANY, is_here = false;
    gy_mutex_lock(&post.lock);
    for (int rank = 0; rank < RANKS && !is_here; rank++) {
        const packet *first = post.queues[*(const int *)context][rank][way];
        if (first != NULL && (is_any || rank == *from)) {
            *from = rank;
            *size_bytes = first->size_bytes;
            is_here = true;
        }
    }
    gy_mutex_unlock(&post.lock);
    return is_here;
}

static bool post_recv(void *context, int from, int way, void *data, size_t size_bytes,
                      gy_carried *carried)
{
    gy_mutex_lock(&post.lock);
    packet **queue = &post.queues[*(const int *)context][from][way], *first = *queue;
    *queue = first->next;
    gy_mutex_unlock(&post.lock);
    assert_int_equal(first->size_bytes, size_bytes);
    memcpy(data, first->data, size_bytes);
    gy_free(first);
    carried->opaque[0] = 1;
    return true;
}

static bool post_is_done(void *context, gy_carried *carried)
{
    (void)context;
    return carried->opaque[0]-- == 0;
}

static void post_lose(void *context)
{
    printf("rank %d lost packets\n", *(const int *)context);
    abort();
}

/* Each waits for the others to leave. */
static void *close_one(void *transport)
{
    gy_transport_close(transport);
    return NULL;
}

GY_TEST(carried_packets_keep_order)
{
    static int numbers[RANKS] = {0, 1, 2};
    static const size_t sizes[] = {17, 64, 1024};
    uint64_t seed = gy_test_seed();
    gy_mutex_init(&post.lock, 1);
    for (uint64_t i = 0; i < 12; i++) {
        gy_transport *ranks[RANKS];
        gy_thread threads[RANKS];
        for (int rank = 0; rank < RANKS; rank++) {
            gy_carried_options options = {.rank = rank,
                                          .size = RANKS,
                                          .packet_bytes = sizes[i % GY_COUNT(sizes)],
                                          .host_ranks = 1,
                                          .host_cores = 1};
            gy_carrier carrier = {.context = &numbers[rank],
                                  .send = post_send,
                                  .recv = post_recv,
                                  .look = post_look,
                                  .is_done = post_is_done,
                                  .lose = post_lose};
            assert_ok(gy_carried_open(&options, &carrier, gy_env_real(), &ranks[rank]));
        }
        exchange(ranks, NULL, seed + i);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_ok(gy_thread_start(&threads[rank], "close", close_one, ranks[rank]));
        }
        for (int rank = 0; rank < RANKS; rank++) {
            gy_thread_join(&threads[rank]);
        }
    }
    gy_mutex_fini(&post.lock);
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST_MAIN(NULL, NULL)
