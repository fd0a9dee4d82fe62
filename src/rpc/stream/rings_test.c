/*
 * Goal: any bytes in any pieces pass two rings of shared memory in order and whole; memory that
 * is not what a caller says is refused, and counts that the other end spoils are a failure,
 * never a read or write outside the ring.
 */
#include "rpc/stream/rings_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gy_test.h"

enum { RING_BYTES = 1 << 20, HEAD_BYTES = 4096, ALL_BYTES = HEAD_BYTES + 2 * RING_BYTES };

static const uint8_t token[GY_RINGS_TOKEN_BYTES] = "fifteen letters";

typedef struct pair {
    stream_rings *caller, *called;
} pair;

static pair open_pair(void)
{
    pair made = {NULL, NULL};
    assert_ok(gy_rpc_rings_make(token, &made.caller));
    assert_ok(gy_rpc_rings_open((uint32_t)getpid(), (uint32_t)gy_rpc_rings_file(made.caller),
                                token, &made.called));
    return made;
}

static void close_pair(pair *at)
{
    gy_rpc_rings_free(at->caller);
    gy_rpc_rings_free(at->called);
}

static uint8_t byte_at(uint64_t place, int way)
{
    return (uint8_t)(place * 31 + place / 251 + (uint64_t)way * 97);
}

/* One direction of the pair, as a stream of known bytes. */
typedef struct flow {
    stream_rings *from, *to;
    int way;
    uint64_t put, got;
} flow;

static void put_some(flow *of, gy_random *random, uint8_t *bytes)
{
    size_t first = (size_t)gy_random_below(random, 300000), put = 0;
    size_t second = (size_t)gy_random_below(random, 3) == 0 ? 0 : first / 3;
    for (size_t i = 0; i < first + second; i++) {
        bytes[i] = byte_at(of->put + i, of->way);
    }
    const struct iovec pieces[2] = {{.iov_base = bytes, .iov_len = first},
                                    {.iov_base = bytes + first, .iov_len = second}};
    gy_status status = gy_rpc_rings_write(of->from, pieces, 2, &put);
    assert_true(status == GY_OK ? put > 0 : status == GY_AGAIN && put == 0);
    assert_true(put <= first + second);
    of->put += put;
    assert_true(of->put - of->got <= RING_BYTES);
}

static void get_some(flow *of, gy_random *random, uint8_t *bytes)
{
    size_t first = (size_t)gy_random_below(random, 300000), got = 0;
    const struct iovec pieces[2] = {{.iov_base = bytes, .iov_len = first},
                                    {.iov_base = bytes + first, .iov_len = 5000}};
    gy_status status = gy_rpc_rings_read(of->to, pieces, 2, &got);
    assert_true(status == GY_OK || (status == GY_AGAIN && got == 0));
    assert_true(status == GY_OK || of->put == of->got);
    for (size_t i = 0; i < got; i++) {
        assert_int_equal(bytes[i], byte_at(of->got + i, of->way));
    }
    of->got += got;
    assert_true(of->got <= of->put);
    assert_int_equal(gy_rpc_rings_has_work(of->to, false), of->put > of->got);
}

GY_TEST(bytes_pass_in_order_and_whole)
{
    gy_random random = {.key = gy_test_seed()};
    uint8_t *bytes = gy_alloc("test.rings", 1 << 20);
    pair at = open_pair();
    flow flows[2] = {{at.caller, at.called, 0, 0, 0}, {at.called, at.caller, 1, 0, 0}};
    for (long i = gy_test_serial_cases(400); i > 0; i--) {
        flow *of = &flows[gy_random_below(&random, 2)];
        if (gy_random_below(&random, 2) == 0) {
            put_some(of, &random, bytes);
        } else {
            get_some(of, &random, bytes);
        }
    }
    for (int i = 0; i < 2; i++) {
        while (flows[i].got < flows[i].put) {
            get_some(&flows[i], &random, bytes);
        }
    }
    close_pair(&at);
    gy_free(bytes);
}

GY_TEST(who_sleeps_is_woken_once)
{
    pair at = open_pair();
    uint8_t byte = 1;
    size_t done = 0;
    const struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    assert_false(gy_rpc_rings_must_ring(at.caller));
    assert_true(gy_rpc_rings_arm(at.called, false));
    assert_ok(gy_rpc_rings_write(at.caller, &piece, 1, &done));
    assert_true(gy_rpc_rings_must_ring(at.caller));
    assert_false(gy_rpc_rings_must_ring(at.caller));  /* once */
    assert_false(gy_rpc_rings_arm(at.called, false)); /* there is work, so it does not sleep */
    gy_rpc_rings_disarm(at.called);
    assert_false(gy_rpc_rings_must_ring(at.caller));
    close_pair(&at);
}

/* ---- What is not believed ---- */

static void refused(int file, uint32_t process, const uint8_t *of, const char *text)
{
    stream_rings *rings = NULL;
    assert_true(gy_rpc_rings_open(process, (uint32_t)file, of, &rings) < 0);
    if (strstr(gy_error_text(), text) == NULL) {
        fail_msg("'%s' does not say '%s'", gy_error_text(), text);
    }
    assert_null(rings);
}

static int memory(size_t size_bytes, int seals)
{
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)size_bytes), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
}

/* A file of a disk, which knows no seals: its owner may cut it short at any time. */
static int plain_file(void)
{
    char path[] = "/tmp/gyre-rings-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftruncate(file, ALL_BYTES), 0);
    assert_int_equal(pwrite(file, token, sizeof(token), 0), sizeof(token));
    return file;
}

GY_TEST(other_memory_is_refused)
{
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    uint32_t self = (uint32_t)getpid();
    uint8_t other[GY_RINGS_TOKEN_BYTES] = "fifteen digits.";
    stream_rings *rings = NULL;
    int ends[2], files[] = {memory(ALL_BYTES, F_SEAL_GROW), memory(ALL_BYTES - 4096, all),
                            memory(ALL_BYTES, all), plain_file()};
    assert_int_equal(pipe(ends), 0);
    assert_ok(gy_rpc_rings_make(token, &rings));
    refused(files[0], self, token, "not sealed, or has another size");
    refused(files[1], self, token, "not sealed, or has another size");
    refused(files[2], self, token, "is of another connection");
    refused(files[3], self, token, "not sealed, or has another size");
    refused(gy_rpc_rings_file(rings), self, other, "is of another connection");
    refused(ends[0], self, token, "no memory of process");
    refused(12345, self, token, "no memory of process");
    refused(files[2], 0x7ffffff0, token, "no memory of process");
    gy_rpc_rings_free(rings);
    for (int i = 0; i < 4; i++) {
        close(files[i]);
    }
    close(ends[0]);
    close(ends[1]);
}

/* The memory as a hostile other end sees it: counts lie at lines of 64 bytes behind the token.
 */
GY_TEST(spoilt_counts_are_a_failure)
{
    static uint8_t bytes[1000];
    static const uint64_t wrong[] = {UINT64_MAX, (uint64_t)RING_BYTES + 1, (uint64_t)1 << 63};
    const struct iovec piece = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        for (size_t place = 64; place <= 256; place += 64) {
            pair at = open_pair();
            size_t done = 0;
            uint8_t *seen = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 gy_rpc_rings_file(at.caller), 0);
            assert_true(seen != MAP_FAILED);
            memcpy(seen + place, &wrong[i], sizeof(wrong[i]));
            stream_rings *ends[] = {at.caller, at.called};
            int failures = 0;
            for (int e = 0; e < 4; e++) { /* reads first: a write puts its own count right */
                gy_status status = e < 2 ? gy_rpc_rings_read(ends[e % 2], &piece, 1, &done)
                                         : gy_rpc_rings_write(ends[e % 2], &piece, 1, &done);
                failures += status == GY_FORMAT;
                assert_true(done <= sizeof(bytes));
            }
            assert_true(failures > 0);
            munmap(seen, ALL_BYTES);
            close_pair(&at);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
