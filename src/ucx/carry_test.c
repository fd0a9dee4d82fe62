/*
 * Goal: messages over UCX keep order and tags, whether ranks meet in shared memory or over TCP,
 * over UCX's TCP and its shared memory; a rank that dies, leaves, fails or does not answer is
 * named, a dead one by UCX alone too.
 */
#include "transport/carried_priv.h"
#include "transport/tcp.h"
#include "transport/ucx_priv.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_kit.h"

static const char *const ways[] = {"tcp,self", "all"};

static const gy_transport_key test_key = {.bytes = {7, 1, 2, 3}};

/* ---- Opening: each rank waits for the others, so each has a thread ---- */

typedef struct opening {
    gy_transport *guide, *opened;
    gy_thread thread;
    gy_status status;
} opening;

static void *open_one(void *arg)
{
    opening *one = arg;
    const gy_ucx_options options = {.is_loopback = true};
    one->status = gy_ucx_open(&options, one->guide, &one->opened);
    if (one->status != GY_OK) {
        printf("%s\n", gy_error_text());
    }
    return NULL;
}

static void open_over(gy_transport **transports)
{
    opening all[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        all[rank] = (opening){.guide = transports[rank]};
        assert_ok(gy_thread_start(&all[rank].thread, "open", open_one, &all[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_thread_join(&all[rank].thread);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(all[rank].status, GY_OK);
        transports[rank] = all[rank].opened;
    }
}

static void open_all(bool is_tcp, gy_transport **transports)
{
    ports place;
    if (!is_tcp) {
        assert_ok(gy_transport_shm_open_all(&(gy_transport_segment_options){.ranks = RANKS},
                                            gy_env_real(), transports));
        open_over(transports);
        return;
    }
    make_listeners(&place);
    for (int rank = 0; rank < RANKS; rank++) {
        gy_tcp_options options = {.rank = rank,
                                  .size = RANKS,
                                  .addresses = place.addresses,
                                  .listener = place.listeners[rank],
                                  .key = &test_key,
                                  .host_ranks = RANKS};
        assert_ok(gy_tcp_open(&options, gy_env_real(), &transports[rank]));
    }
    open_over(transports);
}

/* ---- What UCX alone says: two processes that nothing else leads to each other ---- */

static gy_transport *open_bare(int rank, int socket)
{
    char why[256] = "", path[4096] = "";
    uint8_t mine[GY_UCX_ADDRESS_BYTES] = {0}, theirs[GY_UCX_ADDRESS_BYTES];
    size_t size = 0;
    gy_carrier carrier;
    gy_transport *transport = NULL;
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 20) > 0);
    snprintf(strrchr(path, '/'), 20, "/libgyre-ucx.so");
    void *library = dlopen(path, RTLD_NOW);
    const gy_ucx_plugin *plugin = library != NULL ? dlsym(library, "gy_ucx") : NULL;
    assert_non_null(plugin);
    assert_true(plugin->open(rank, 2, true, &carrier, why));
    assert_true(plugin->address(carrier.context, mine, &size, why));
    assert_int_equal(write(socket, mine, sizeof(mine)), sizeof(mine));
    assert_int_equal(recv(socket, theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
    assert_true(plugin->connect(carrier.context, 1 - rank, theirs, why));
    const gy_carried_options options = {.rank = rank, .size = 2, .host_ranks = 2};
    assert_ok(gy_carried_open(&options, &carrier, gy_env_real(), &transport));
    return transport;
}

static void ucx_itself_names_a_dead_rank(void **state)
{
    (void)state;
    int pair[2], value = 7, got = 0;
    gy_transfer transfer;
    assert_int_equal(setenv("UCX_TLS", "tcp,self", 1), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (child == 0) {
        gy_transport *transport = open_bare(1, pair[1]);
        gy_deadline deadline = gy_deadline_after(30);
        bool is_well =
            gy_transport_recv(transport, 0, 1, &got, sizeof(got), &transfer) == GY_OK &&
            gy_transport_finish(transport, &transfer, deadline) == GY_OK &&
            gy_transport_send(transport, 0, 2, &got, sizeof(got), &transfer) == GY_OK &&
            gy_transport_finish(transport, &transfer, deadline) == GY_OK &&
            gy_transport_recv(transport, 0, 3, &got, sizeof(got), &transfer) == GY_OK &&
            gy_transport_finish(transport, &transfer, deadline) == GY_OK;
        raise(is_well ? SIGKILL : SIGTERM);
    }
    gy_transport *transport = open_bare(0, pair[0]);
    assert_ok(gy_transport_send(transport, 1, 1, &value, sizeof(value), &transfer));
    assert_ok(gy_transport_finish(transport, &transfer, gy_deadline_after(30)));
    assert_ok(gy_transport_recv(transport, 1, 2, &got, sizeof(got), &transfer));
    assert_ok(gy_transport_finish(transport, &transfer, gy_deadline_after(30)));
    assert_int_equal(got, 7);
    assert_ok(gy_transport_post(transport, 1, 3, &value, sizeof(value)));
    assert_ok(gy_transport_recv(transport, 1, 4, &got, sizeof(got), &transfer));
    assert_status(gy_transport_finish(transport, &transfer, gy_deadline_after(30)), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 1 is lost"));
    gy_transport_close(transport);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(pair[0]);
    close(pair[1]);
}

/* Whoever leaves has sent all; it is not missed before its last message is here. */
static void ucx_itself_names_one_that_leaves(void **state)
{
    (void)state;
    enum { SIZE = 4000, LOOKS = 2000 }; /* UCX takes it at once */
    static uint8_t data[SIZE], got[SIZE];
    int pair[2], status = 0;
    gy_transfer transfer;
    memset(data, 7, SIZE);
    assert_int_equal(setenv("UCX_TLS", "tcp,self", 1), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (child == 0) {
        gy_transport *transport = open_bare(1, pair[1]);
        gy_status sent = GY_OK;
        for (int i = 0; i < 3 && sent == GY_OK; i++) {
            sent = gy_transport_post(transport, 0, 1, data, SIZE);
        }
        gy_transport_close(transport);
        _exit(sent == GY_OK ? 0 : 1);
    }
    gy_transport *transport = open_bare(0, pair[0]);
    assert_ok(gy_transport_recv(transport, 1, 1, got, SIZE, &transfer));
    assert_ok(gy_transport_finish(transport, &transfer, gy_deadline_after(30)));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++) {
        for (int look = 0; look < LOOKS; look++) {
            assert_ok(gy_transport_check(transport, 1));
        }
        memset(got, 0, SIZE);
        assert_ok(gy_transport_recv(transport, 1, 1, got, SIZE, &transfer));
        assert_ok(gy_transport_finish(transport, &transfer, gy_deadline_after(30)));
        assert_memory_equal(got, data, SIZE);
    }
    assert_ok(gy_transport_recv(transport, 1, 1, got, SIZE, &transfer));
    assert_status(gy_transport_finish(transport, &transfer, gy_deadline_after(30)), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 1 has left the launch"));
    gy_transport_close(transport);
    close(pair[0]);
    close(pair[1]);
}

/* ---- Four ranks ---- */

/* A rank drives its messages from inside its calls alone: it stays until all have theirs. */
static _Atomic int finished;

static void stay(gy_transport *transport)
{
    gy_deadline deadline = gy_deadline_after(60);
    atomic_fetch_add_explicit(&finished, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&finished, memory_order_acquire) % RANKS != 0 &&
           gy_now_ns(gy_env_real()) < deadline.at_ns) {
        (void)gy_transport_progress(transport);
    }
}

static void exchange_and_stay(gy_transport *transport, int *failures)
{
    exchange_all(transport, failures);
    stay(transport);
}

static void messages_arrive_whole_between_all(void **state)
{
    (void)state;
    gy_transport *transports[RANKS];
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        assert_int_equal(setenv("UCX_TLS", ways[i], 1), 0);
        open_all(i == 0, transports);
        run_on(transports, RANKS, exchange_and_stay);
    }
}

/* Many packets each way at once. */
static void exchange_large(gy_transport *transport, int *failures)
{
    enum { WORDS = 2 << 20 };
    uint32_t *out = gy_alloc("test", WORDS * sizeof(*out));
    uint32_t *in = gy_alloc("test", WORDS * sizeof(*in));
    int peer = transport->rank ^ 1;
    gy_transfer send, receive;
    for (uint32_t i = 0; i < WORDS; i++) {
        out[i] = i * 2654435761u + (uint32_t)transport->rank;
    }
    EXPECT(gy_transport_recv(transport, peer, 3, in, WORDS * sizeof(*in), &receive) == GY_OK);
    EXPECT(gy_transport_send(transport, peer, 3, out, WORDS * sizeof(*out), &send) == GY_OK);
    EXPECT(gy_transport_finish(transport, &receive, gy_deadline_after(60)) == GY_OK);
    EXPECT(gy_transport_finish(transport, &send, gy_deadline_after(60)) == GY_OK);
    for (uint32_t i = 0; i < WORDS; i++) {
        if (in[i] != i * 2654435761u + (uint32_t)peer) {
            ++*failures;
            break;
        }
    }
    stay(transport);
    gy_free(in);
    gy_free(out);
}

static void large_messages_cross(void **state)
{
    (void)state;
    gy_transport *transports[RANKS];
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        assert_int_equal(setenv("UCX_TLS", ways[i], 1), 0);
        open_all(false, transports);
        run_on(transports, RANKS, exchange_large);
    }
}

static void ranks_go_on_after_a_failure(void **state)
{
    (void)state;
    gy_transport *transports[RANKS];
    assert_int_equal(setenv("UCX_TLS", "tcp,self", 1), 0);
    open_all(true, transports);
    given_up_sends_are_finished(transports);
    failures_are_told_in_their_epoch(transports);
    a_cut_stream_is_told(transports);
    close_all(transports, RANKS);
}

static void ends_of_ranks_are_named(void **state)
{
    (void)state;
    gy_transport *ranks[RANKS];
    int value = 42, got = 0;
    gy_transfer send, receive;
    gy_deadline deadline = gy_deadline_after(30);
    open_all(true, ranks);
    assert_ok(gy_transport_send(ranks[1], 0, 9, &value, sizeof(value), &send));
    gy_transport_close(ranks[1]);
    assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, sizeof(got), &receive));
    assert_ok(gy_transport_finish(ranks[0], &receive,
                                  deadline)); /* what the rank sent before it left */
    assert_int_equal(got, 42);
    assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, sizeof(got), &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, deadline), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 1 has left the launch"));
    assert_ok(gy_transport_check(ranks[0], -1));
    gy_error error = {.status = GY_MISMATCH, .rank = -1, .text = "different collectives"};
    gy_transport_abort(ranks[2], &error);
    assert_ok(gy_transport_recv(ranks[0], 3, 9, &got, sizeof(got), &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, deadline), GY_MISMATCH);
    assert_string_equal(gy_error_text(), "message: rank 2: different collectives");
    ranks[1] = ranks[3];
    close_all(ranks, 3);
}

static void those_who_do_not_answer_are_named(void **state)
{
    (void)state;
    gy_transport *ranks[RANKS];
    open_all(true, ranks);
    the_silent_are_named(ranks);
    close_all(ranks, RANKS);
}

/* Ways that do not notice a dead peer are none. */
static void no_way_is_told(void **state)
{
    (void)state;
    opening all[RANKS];
    gy_transport *ranks[RANKS];
    assert_int_equal(setenv("UCX_TLS", "posix,self", 1), 0);
    assert_ok(gy_transport_shm_open_all(&(gy_transport_segment_options){.ranks = RANKS},
                                        gy_env_real(), ranks));
    for (int rank = 0; rank < RANKS; rank++) {
        all[rank] = (opening){.guide = ranks[rank]};
        assert_ok(gy_thread_start(&all[rank].thread, "open", open_one, &all[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_thread_join(&all[rank].thread);
        /* Or another one said it, and left. */
        assert_true(all[rank].status == GY_UNSUPPORTED || all[rank].status == GY_PEER);
    }
}

int main(void)
{
    (void)setenv("UCX_MEM_EVENTS", "no", 1); /* it patches what TSan needs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ucx_itself_names_a_dead_rank), /* these fork: first */
        cmocka_unit_test(ucx_itself_names_one_that_leaves),
        cmocka_unit_test(messages_arrive_whole_between_all),
        cmocka_unit_test(large_messages_cross),
        cmocka_unit_test(ranks_go_on_after_a_failure),
        cmocka_unit_test(ends_of_ranks_are_named),
        cmocka_unit_test(those_who_do_not_answer_are_named),
        cmocka_unit_test(no_way_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
