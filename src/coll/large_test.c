/*
 * Goal: vectors and messages of more than 2^31 bytes come whole: no length or place is cut to
 * 32 bits. Buffers are one piece of memory mapped again and again, with an end of their own.
 */
#include "coll/crew_priv.h"

#include "transport/tcp.h"

#include <sys/mman.h>
#include <unistd.h>

#include "gy_test.h"

enum { PIECE = 1 << 21, OVER = 3, RANKS = 2 };

static const size_t beyond = (UINT64_C(1) << 31) + OVER;

/* `bytes` and what is left of their last piece; the last two pieces are no other's. */
static uint8_t *map_long(size_t bytes)
{
    size_t pieces = bytes / PIECE + 1;
    int file = memfd_create("long", MFD_CLOEXEC);
    uint8_t *data = mmap(NULL, pieces * PIECE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || data == MAP_FAILED || ftruncate(file, PIECE) != 0) {
        return NULL;
    }
    for (size_t i = 0; i + 2 < pieces; i++) {
        void *at = mmap(data + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        file, 0);
        if (at == MAP_FAILED) {
            return NULL;
        }
    }
    close(file);
    return data;
}

static void unmap_long(uint8_t *data, size_t bytes)
{
    munmap(data, (bytes / PIECE + 1) * PIECE);
}

static size_t own_end(size_t bytes)
{
    return (bytes / PIECE - 1) * PIECE;
}

static uint8_t value_at(size_t i, int rank)
{
    return (uint8_t)((i * 7 + i / PIECE % 2 * 3 + (size_t)rank * 5) & 0x3f);
}

/* The piece that is everywhere, and the end. */
static void fill(uint8_t *data, size_t bytes, int rank)
{
    for (size_t i = 0; i < PIECE; i++) {
        data[i] = value_at(i, rank);
    }
    for (size_t i = own_end(bytes); i < bytes; i++) {
        data[i] = value_at(i, rank);
    }
}

/* Bytes from the end on, each a sum of what `ranks` gave from rank `first` on. */
static int count_wrong(const uint8_t *end, size_t from, size_t bytes, int first, int ranks)
{
    int wrong = 0;
    for (size_t i = from; i < bytes; i++) {
        int sum = 0;
        for (int rank = first; rank < first + ranks; rank++) {
            sum += value_at(i, rank);
        }
        wrong += end[i - from] != (uint8_t)sum;
    }
    return wrong;
}

static void reduce_all(crew_member *me)
{
    uint8_t *in = map_long(beyond), *out = map_long(beyond);
    size_t end = own_end(beyond);
    fill(in, beyond, me->rank);
    EXPECT(gy_allreduce(me->comm, in, out, beyond, GY_U8, GY_SUM) == GY_OK);
    EXPECT(count_wrong(out + end, end, beyond, 0, RANKS) == 0);
    EXPECT(count_wrong(out, 0, PIECE, 0, RANKS) == 0);
    unmap_long(in, beyond);
    unmap_long(out, beyond);
}

static void tell_and_gather(crew_member *me)
{
    size_t part = beyond / RANKS + 1, all = part * RANKS;
    uint8_t *in = map_long(part), *out = map_long(all);
    fill(in, part, me->rank);
    EXPECT(gy_allgather(me->comm, in, out, part, GY_U8) == GY_OK);
    EXPECT(count_wrong(out + part + own_end(part), own_end(part), part, RANKS - 1, 1) == 0);
    if (me->rank == 0) {
        fill(out, all, 0);
    }
    EXPECT(gy_broadcast(me->comm, out, all, GY_U8, 0) == GY_OK);
    EXPECT(count_wrong(out + own_end(all), own_end(all), all, 0, 1) == 0);
    unmap_long(in, part);
    unmap_long(out, all);
}

static void send_one(crew_member *me)
{
    uint8_t *data = map_long(beyond);
    size_t end = own_end(beyond);
    if (me->rank == 0) {
        fill(data, beyond, 0);
        EXPECT(gy_send(me->comm, data, beyond, GY_U8, 1, 0) == GY_OK);
    } else {
        EXPECT(gy_recv(me->comm, data, beyond, GY_U8, 0, 0) == GY_OK);
        EXPECT(count_wrong(data + end, end, beyond, 0, 1) == 0);
    }
    EXPECT(gy_barrier(me->comm) == GY_OK);
    unmap_long(data, beyond);
}

/* Sanitizers keep memory of their own for all that is mapped; the rest takes a minute. */
static void skip_unless(bool is_soak)
{
    const long cases = gy_test_cases(8);
    if (cases == 1) {
        printf("skipped under sanitizers\n");
        skip();
    }
    if (is_soak && cases == 8) {
        printf("skipped: a minute, so for make soak\n");
        skip();
    }
}

GY_TEST(sums_beyond_2_gib_come_whole)
{
    skip_unless(false);
    assert_int_equal(crew_run(RANKS, NULL, reduce_all, NULL), 0);
}

GY_TEST(vectors_beyond_2_gib_come_whole)
{
    skip_unless(true);
    const gy_comm_options ring = {.algorithm = "ring"};
    assert_int_equal(crew_run(RANKS, &ring, reduce_all, NULL), 0);
    assert_int_equal(crew_run(RANKS, NULL, tell_and_gather, NULL), 0);
}

GY_TEST(messages_beyond_2_gib_come_whole)
{
    gy_address addresses[RANKS];
    int listeners[RANKS];
    crew_member members[RANKS];
    skip_unless(true);
    crew_ring_bytes = 65536;
    assert_int_equal(crew_run(RANKS, NULL, send_one, NULL), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_ok(gy_address_find("127.0.0.1:1", &addresses[rank]));
        gy_address_set_port(&addresses[rank], 0);
        assert_ok(gy_address_listen(&addresses[rank], &listeners[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_tcp_options options = {.rank = rank,
                                  .size = RANKS,
                                  .addresses = addresses,
                                  .listener = listeners[rank],
                                  .host_ranks = RANKS};
        gy_transport *transport = NULL;
        members[rank] = (crew_member){.rank = rank, .size = RANKS, .run = send_one};
        assert_ok(gy_tcp_open(&options, gy_env_real(), &transport));
        assert_ok(gy_comm_new(transport, NULL, &members[rank].comm));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        assert_ok(gy_thread_start(&members[rank].thread, "rank", crew_thread, &members[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_thread_join(&members[rank].thread);
        assert_int_equal(members[rank].failures, 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_comm_free(members[rank].comm);
    }
}

GY_TEST_MAIN(NULL, NULL)
