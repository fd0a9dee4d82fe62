/* Goal: messages keep order and tags, shared areas are one memory, waits end with a named
 * cause. */
#include "transport/transport.h"

#include "transport/match_priv.h"
#include "transport/segment_priv.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_kit.h"

static const gy_transport_segment_options small = {
    .ranks = RANKS, .pool_bytes = 1 << 20, .ring_bytes = 4096, .staging_bytes = 1 << 16};

static void on_all_ranks(const gy_transport_segment_options *options,
                         void (*run)(gy_transport *, int *))
{
    gy_transport *transports[RANKS];
    assert_ok(gy_transport_shm_open_all(options, gy_env_real(), transports));
    run_on(transports, options->ranks, run);
}

GY_TEST(messages_arrive_whole_between_all)
{
    on_all_ranks(&small, exchange_all);
}

/* One after the other increments a counter in rank 0's words; all words are seen by all. */
static void pass_the_word(gy_transport *transport, int *failures)
{
    const gy_shared *shared = gy_transport_shared(transport);
    gy_shared_word *word = gy_shared_words(shared, 0);
    uint8_t *slot = gy_shared_slot(shared, transport->rank);
    EXPECT((uintptr_t)slot % GY_CACHE_LINE == 0 && (uintptr_t)word % GY_CACHE_LINE == 0);
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t mine = round * RANKS + (uint64_t)transport->rank;
        gy_wait wait = gy_wait_start(transport, -1, "the word", gy_deadline_after(60));
        while (atomic_load_explicit(&word->value, memory_order_acquire) != mine) {
            gy_status status = gy_wait_round(&wait);
            EXPECT(status == GY_OK);
            if (status < 0) {
                return;
            }
        }
        /* What the one before wrote is there; then write for the next. */
        int before = (transport->rank + RANKS - 1) % RANKS;
        EXPECT(mine == 0 || gy_shared_slot(shared, before)[7] == (uint8_t)(mine - 1));
        EXPECT(mine == 0 || gy_shared_pool(shared, before)[9] == (uint8_t)(mine - 1));
        slot[7] = (uint8_t)mine;
        gy_shared_pool(shared, transport->rank)[9] = (uint8_t)mine;
        atomic_store_explicit(&word->value, mine + 1, memory_order_release);
        gy_transport_wake(transport, (transport->rank + 1) % RANKS);
    }
}

GY_TEST(words_pass_round_the_ranks)
{
    on_all_ranks(&small, pass_the_word);
}

GY_TEST(first_of_a_tag_is_taken_first)
{
    gy_transport *ranks[RANKS];
    assert_ok(gy_transport_shm_open_all(&small, gy_env_real(), ranks));
    int values[3] = {10, 11, 12}, got = 0;
    gy_transfer sends[3], receive;
    for (int i = 0; i < 3; i++) {
        assert_ok(gy_transport_send(ranks[0], 1, 5, &values[i], sizeof(int), &sends[i]));
        assert_int_equal(sends[i].status, GY_OK);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(gy_transport_recv(ranks[1], 0, 5, &got, sizeof(got), &receive));
        assert_ok(gy_transport_finish(ranks[1], &receive, gy_deadline_after(10)));
        assert_int_equal(got, values[i]);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_close(ranks[rank]);
    }
}

/* Where few ranks share a host, what a stage sends is out before its next task, though the
 * other end looks at nothing. */
GY_TEST(messages_of_stages_leave_at_once)
{
    enum { BYTES = 512 * 1024 };
    gy_transport *transports[2];
    gy_transfer send, receive;
    uint8_t *out = gy_alloc_zero("test", 1, BYTES), *in = gy_alloc_zero("test", 1, BYTES);
    assert_true(out != NULL && in != NULL);
    memset(out, 7, BYTES);
    assert_ok(gy_transport_shm_open_all(
        &(gy_transport_segment_options){.ranks = 2, .pool_bytes = 4096}, gy_env_real(),
        transports));
    assert_ok(gy_transport_send(transports[0], 1, 5, out, BYTES, &send));
    assert_int_equal(send.status, GY_OK);
    assert_ok(gy_transport_recv(transports[1], 0, 5, in, BYTES, &receive));
    assert_int_equal(receive.status, GY_OK);
    assert_memory_equal(in, out, BYTES);
    gy_transport_close(transports[0]);
    gy_transport_close(transports[1]);
    gy_free(out);
    gy_free(in);
}

/* Many ranks have many rings: together they stay small. */
GY_TEST(rings_of_many_ranks_are_smaller)
{
    size_t before = 0;
    for (int ranks = 1; ranks <= 256; ranks *= 4) {
        int fd = -1;
        gy_transport_segment_layout layout;
        gy_transport_segment_header header;
        assert_ok(gy_transport_segment_make(
            &(gy_transport_segment_options){.ranks = ranks, .pool_bytes = 4096}, &fd));
        assert_ok(gy_transport_segment_look(fd, &header, &layout));
        assert_true(header.ring_bytes >= 64 * 1024 && header.ring_bytes <= 1024 * 1024);
        assert_true(before == 0 || header.ring_bytes <= before);
        assert_true(header.ring_bytes == 64 * 1024 ||
                    header.ring_bytes * (size_t)ranks * (size_t)ranks <= 64 << 20);
        before = header.ring_bytes;
        close(fd);
    }
    assert_int_equal(before, 64 * 1024);
}

GY_TEST(large_message_in_small_room_is_a_mismatch)
{
    gy_transport *ranks[RANKS];
    assert_ok(gy_transport_shm_open_all(&small, gy_env_real(), ranks));
    char text[16] = "0123456789abcde", got[16] = "";
    gy_transfer send, receive;
    assert_ok(gy_transport_send(ranks[0], 1, 1, text, 16, &send));
    assert_ok(gy_transport_recv(ranks[1], 0, 1, got, 8, &receive));
    assert_status(gy_transport_finish(ranks[1], &receive, gy_deadline_after(10)), GY_MISMATCH);
    assert_string_equal(gy_error_text(), "rank 0 sent 16 bytes where fewer were expected");
    assert_string_equal(got, "");
    /* The stream goes on behind it. */
    assert_ok(gy_transport_send(ranks[0], 1, 2, text, 16, &send));
    assert_ok(gy_transport_recv(ranks[1], 0, 2, got, 16, &receive));
    assert_ok(gy_transport_finish(ranks[1], &receive, gy_deadline_after(10)));
    assert_string_equal(got, text);
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_close(ranks[rank]);
    }
}

GY_TEST(waits_end_with_a_cause)
{
    gy_transport *ranks[RANKS];
    char got[4];
    gy_transfer receive, other;
    assert_ok(gy_transport_shm_open_all(&small, gy_env_real(), ranks));
    assert_status(gy_transport_recv(ranks[0], RANKS, 1, got, 4, &receive), GY_ARG);
    assert_status(gy_transport_recv(ranks[0], -1, 1, got, 4, &receive), GY_ARG);
    assert_ok(gy_transport_recv(ranks[0], 1, 1, got, 4, &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, gy_deadline_after(0.01)), GY_TIMEOUT);
    assert_non_null(strstr(gy_error_text(), "for rank 1: message"));
    assert_int_equal(receive.status, GY_CANCELLED);
    gy_transport_close(ranks[1]);
    assert_ok(gy_transport_recv(ranks[0], 1, 1, got, 4, &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, gy_deadline_after(30)), GY_PEER);
    assert_string_equal(gy_error_text(), "message: rank 1 has left the launch");
    assert_ok(gy_transport_check(ranks[0], -1));
    gy_error error = {.status = GY_MISMATCH, .rank = -1, .text = "different collectives"};
    assert_ok(gy_transport_recv(ranks[3], 0, 1, got, 4, &other));
    gy_transport_abort(ranks[2], &error);
    assert_status(gy_transport_finish(ranks[3], &other, gy_deadline_after(30)), GY_MISMATCH);
    assert_string_equal(gy_error_text(), "message: rank 2: different collectives");
    gy_transport_close(ranks[0]);
    gy_transport_close(ranks[2]);
    gy_transport_close(ranks[3]);
}

GY_TEST(ranks_go_on_after_a_failure)
{
    gy_transport *ranks[RANKS];
    assert_ok(gy_transport_shm_open_all(&small, gy_env_real(), ranks));
    given_up_sends_are_finished(ranks);
    failures_are_told_in_their_epoch(ranks);
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_close(ranks[rank]);
    }
}

/* A message written by a rank that has left is still delivered. */
GY_TEST(messages_before_leaving_arrive)
{
    gy_transport *ranks[RANKS];
    int value = 42, got = 0;
    gy_transfer send, receive;
    assert_ok(gy_transport_shm_open_all(&small, gy_env_real(), ranks));
    assert_ok(gy_transport_send(ranks[1], 0, 9, &value, sizeof(value), &send));
    gy_transport_close(ranks[1]);
    assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, sizeof(got), &receive));
    assert_ok(gy_transport_finish(ranks[0], &receive, gy_deadline_after(10)));
    assert_int_equal(got, 42);
    gy_transport_close(ranks[0]);
    gy_transport_close(ranks[2]);
    gy_transport_close(ranks[3]);
}

GY_TEST(killed_process_is_named_soon)
{
    int fd = -1, status = 0;
    gy_transport_segment_options two = small;
    two.ranks = 2;
    assert_ok(gy_transport_segment_make(&two, &fd));
    pid_t launcher = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gy_transport *me = NULL;
        gy_transfer never;
        char byte;
        if (gy_transport_shm_open_process(launcher, fd, 1, gy_env_real(), &me) != GY_OK ||
            gy_transport_recv(me, 0, 1, &byte, 1, &never) != GY_OK) {
            _exit(3);
        }
        _exit(gy_transport_finish(me, &never, gy_deadline_after(60)) == GY_OK ? 4 : 5);
    }
    gy_transport *me = NULL;
    gy_transfer receive;
    char byte;
    assert_ok(gy_transport_shm_open(fd, 0, gy_env_real(), &me));
    assert_status(gy_transport_shm_open(fd, 0, gy_env_real(), &me), GY_EXISTS);
    assert_status(gy_transport_shm_open(fd, 2, gy_env_real(), &me), GY_ARG);
    assert_ok(gy_transport_meet(me, gy_deadline_after(30)));
    assert_ok(gy_transport_check(me, 1));
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_ok(gy_transport_recv(me, 1, 1, &byte, 1, &receive));
    assert_status(gy_transport_finish(me, &receive, gy_deadline_after(0.01)), GY_TIMEOUT);
    assert_non_null(strstr(gy_error_text(), "rank 1 is stopped: rank 0 waited"));
    kill(child, SIGKILL);
    int64_t before = gy_now_ns(gy_env_real());
    /* Not reaped yet: a zombie counts as gone. */
    assert_ok(gy_transport_recv(me, 1, 1, &byte, 1, &receive));
    assert_status(gy_transport_finish(me, &receive, gy_deadline_after(30)), GY_PEER);
    assert_true(gy_now_ns(gy_env_real()) - before < 5000000000); /* not by the deadline */
    char expected[64];
    snprintf(expected, sizeof(expected), "message: rank 1 (process %d) is lost", (int)child);
    assert_string_equal(gy_error_text(), expected);
    assert_int_equal(waitpid(child, &status, 0), child);
    gy_transport_close(me);
    close(fd);
}

/* One that comes before its receive lies where the last such one lay. */
GY_TEST(kept_messages_use_their_memory_again)
{
    enum { LARGE = 65536, TIMES = 5 };
    static uint8_t data[LARGE], got[LARGE];
    gy_inbox inbox = {.survival = NULL};
    int64_t live = gy_alloc_live();
    for (int i = 0; i < TIMES; i++) {
        data[0] = data[LARGE - 1] = (uint8_t)(i + 1);
        for (size_t part = 1; part <= 2; part++) {
            assert_true(gy_inbox_deliver(&inbox, part, data, LARGE / part));
        }
        assert_true(gy_inbox_deliver(&inbox, 3, data, 24));
        for (size_t tag = 3; tag >= 1; tag--) {
            size_t size = tag == 3 ? 24 : LARGE / tag;
            gy_transfer receive = {
                .status = GY_AGAIN, .size_bytes = size, .tag = tag, .data = got};
            gy_inbox_post(&inbox, &receive);
            assert_int_equal(receive.status, GY_OK);
            assert_memory_equal(got, data, size);
        }
        /* From now on only the small one needs memory. */
        gy_alloc_fail_after(2);
    }
    gy_alloc_fail_after(0);
    gy_inbox_fini(&inbox);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(pool_offsets_translate)
{
    int fd = -1;
    gy_transport *a = NULL, *b = NULL;
    assert_ok(gy_transport_segment_make(&small, &fd));
    assert_ok(gy_transport_shm_open(fd, 0, gy_env_real(), &a));
    assert_ok(gy_transport_shm_open(fd, 1, gy_env_real(), &b));
    close(fd);
    const gy_shared *in_a = gy_transport_shared(a), *in_b = gy_transport_shared(b);
    assert_ptr_not_equal(in_a->pool, in_b->pool); /* two mappings */
    uint8_t *piece = gy_shared_pool(in_a, 0) + 12345;
    memcpy(piece, "seen", 5);
    size_t offset = 0;
    assert_true(gy_shared_owns(in_a, 0, piece, 5, &offset));
    assert_int_equal(offset, 12345);
    assert_string_equal((const char *)gy_shared_pool(in_b, 0) + offset, "seen");
    assert_false(gy_shared_owns(in_a, 1, piece, 5, &offset));
    assert_false(gy_shared_owns(in_a, 0, &offset, 8, &offset));
    uint8_t *end = gy_shared_pool(in_a, 0) + in_a->pool_bytes;
    assert_true(gy_shared_owns(in_a, 0, end - 8, 8, &offset));
    assert_false(gy_shared_owns(in_a, 0, end - 8, 9, &offset));
    gy_transport_close(a);
    gy_transport_close(b);
}

GY_TEST(bad_segments_are_refused)
{
    int fd = -1;
    gy_transport *transport = NULL;
    gy_transport_segment_options bad = {.ranks = 0};
    assert_status(gy_transport_segment_make(&bad, &fd), GY_ARG);
    bad.ranks = 1025;
    assert_status(gy_transport_segment_make(&bad, &fd), GY_ARG);
    bad = (gy_transport_segment_options){.ranks = 2, .ring_bytes = 3000};
    assert_status(gy_transport_segment_make(&bad, &fd), GY_ARG);
    bad = (gy_transport_segment_options){.ranks = 1024, .pool_bytes = SIZE_MAX / 512};
    assert_status(gy_transport_segment_make(&bad, &fd), GY_LIMIT);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_status(gy_transport_segment_make(&small, &fd), GY_LIMIT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(fd, -1);
    assert_status(gy_transport_shm_open(-1, 0, gy_env_real(), &transport), GY_IO);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_status(gy_transport_shm_open(fileno(file), 0, gy_env_real(), &transport), GY_FORMAT);
    fclose(file);
    assert_status(gy_transport_shm_open_process(getpid(), 99999, 0, gy_env_real(), &transport),
                  GY_IO);
    for (int n = 1; n <= RANKS * 2 + 3; n++) {
        gy_transport *all[RANKS];
        gy_alloc_fail_after(n);
        gy_status status = gy_transport_shm_open_all(&small, gy_env_real(), all);
        gy_alloc_fail_after(0);
        if (status >= 0) {
            assert_true(n > 2);
            for (int rank = 0; rank < RANKS; rank++) {
                gy_transport_close(all[rank]);
            }
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* An environment that counts how a wait passes its time; its clock moves 1 us with every pause.
 */
typedef struct counting_env {
    gy_env env;
    int64_t now_ns;
    int spins, yields;
} counting_env;

static int64_t counting_now_ns(gy_env *env)
{
    return ((counting_env *)(void *)env)->now_ns;
}

static void counting_pause(gy_env *env, uint64_t round)
{
    counting_env *counts = (counting_env *)(void *)env;
    counts->now_ns += 1000;
    counts->spins += round == 0;
    counts->yields += round != 0;
}

GY_TEST(waits_spin_only_while_cores_suffice)
{
    static const gy_env_ops ops = {
        .name = "counting", .now_ns = counting_now_ns, .pause = counting_pause};
    for (int cores = 3; cores <= 4; cores++) {
        gy_transport *ranks[RANKS];
        counting_env env = {.env = {.ops = &ops}, .now_ns = 1};
        gy_transport_segment_options options = small;
        options.host_cores = cores;
        assert_ok(gy_transport_shm_open_all(&options, &env.env, ranks));
        gy_wait wait = gy_wait_start(ranks[0], 1, "nothing", (gy_deadline){90000});
        gy_status status = GY_OK;
        while (status == GY_OK) {
            status = gy_wait_round(&wait);
        }
        assert_status(status, GY_TIMEOUT);
        /* It slept in the kernel never: the wait was shorter than what a wake-up costs. */
        assert_in_range(env.spins + env.yields, 85, 130);
        assert_int_equal(cores < RANKS ? env.spins : env.yields, 0);
        for (int rank = 0; rank < RANKS; rank++) {
            gy_transport_close(ranks[rank]);
        }
    }
}

GY_TEST(self_is_a_run_of_one)
{
    gy_transport *self = NULL;
    gy_transfer send, receive;
    char text[6] = "hello", got[6] = "";
    assert_ok(gy_transport_self_open(gy_env_real(), &self));
    assert_int_equal(gy_transport_size(self), 1);
    assert_null(gy_transport_shared(self));
    assert_ok(gy_transport_recv(self, 0, 2, got, 6, &receive));
    assert_status(gy_transport_finish(self, &receive, gy_deadline_after(0.001)), GY_TIMEOUT);
    assert_ok(gy_transport_send(self, 0, 1, text, 6, &send));
    assert_ok(gy_transport_finish(self, &send, gy_deadline_after(1)));
    assert_ok(gy_transport_recv(self, 0, 1, got, 6, &receive));
    assert_ok(gy_transport_finish(self, &receive, gy_deadline_after(1)));
    assert_string_equal(got, "hello");
    assert_ok(gy_transport_meet(self, gy_deadline_after(1)));
    gy_transport_close(self);
    gy_transport_close(NULL);
}

GY_TEST_MAIN(NULL, NULL)
