/*
 * Goal: with a guide and another way for messages, whoever has left is not missed before its
 * last message is here, and whoever is gone is missed soon even if the messages' way never
 * hears of it.
 */
#include "transport/ucx_priv.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 2 };

/* A transport that says what it is told to say. */
typedef struct told {
    gy_transport base;
    bool is_gone;
    int naps; /* until its message comes; 0: none does */
    gy_transfer *receive;
} told;

/* A clock that naps drive. */
static int64_t clock_ns;

static int64_t read_clock(gy_env *env)
{
    (void)env;
    return clock_ns;
}

static void pass_time(gy_env *env, uint64_t round)
{
    (void)env;
    (void)round;
    clock_ns += 1000;
}

static gy_status told_recv(gy_transport *transport, gy_transfer *transfer)
{
    ((told *)(void *)transport)->receive = transfer;
    return GY_OK;
}

static gy_status told_progress(gy_transport *transport)
{
    told *way = (told *)(void *)transport;
    if (way->receive == NULL || way->naps != 1) {
        return GY_AGAIN;
    }
    way->receive->status = GY_OK;
    way->receive = NULL;
    return GY_OK;
}

static void told_cancel(gy_transport *transport, gy_transfer *transfer)
{
    (void)transfer;
    ((told *)(void *)transport)->receive = NULL;
}

static gy_status told_aborted(gy_transport *transport)
{
    (void)transport;
    return GY_OK;
}

static gy_status told_check(gy_transport *transport, int peer)
{
    const told *way = (const told *)(const void *)transport;
    return way->is_gone && peer == 1 ? gy_fail(GY_PEER, "rank 1 has left") : GY_OK;
}

static void told_nap(gy_transport *transport, int64_t nap_ns)
{
    told *way = (told *)(void *)transport;
    way->naps -= way->naps > 1;
    clock_ns += nap_ns + 1000;
}

static bool told_is_busy(const gy_transport *transport)
{
    return ((const told *)(const void *)transport)->receive != NULL;
}

static int told_absent(gy_transport *transport, gy_absent *absent, int room)
{
    (void)transport;
    (void)absent;
    (void)room;
    return 0;
}

static void told_close(gy_transport *transport)
{
    (void)transport;
}

static const gy_transport_ops ops = {.name = "told",
                                     .close = told_close,
                                     .recv = told_recv,
                                     .progress = told_progress,
                                     .cancel = told_cancel,
                                     .aborted = told_aborted,
                                     .check = told_check,
                                     .nap = told_nap,
                                     .is_busy = told_is_busy,
                                     .absent = told_absent};

/* Receives from rank 1, whom the guide misses; its message comes after so many naps. */
static gy_status receive_after(int naps, bool is_gone_there, double *seconds)
{
    gy_env_ops env_ops = *gy_env_real()->ops;
    env_ops.now_ns = read_clock;
    env_ops.pause = pass_time;
    gy_env env = {.ops = &env_ops};
    told guide = {.base = {.ops = &ops, .env = &env, .size = RANKS}, .is_gone = true};
    told data = {.base = {.ops = &ops, .env = &env, .size = RANKS},
                 .is_gone = is_gone_there,
                 .naps = naps};
    gy_transport *guided = NULL;
    gy_transfer receive;
    uint8_t byte;
    clock_ns = 1;
    assert_ok(gy_transport_guided_open(&guide.base, &data.base, &guided));
    assert_ok(gy_transport_recv(guided, 1, 5, &byte, 1, &receive));
    gy_status status = gy_transport_finish(guided, &receive, (gy_deadline){INT64_C(1) << 40});
    gy_transport_close(guided);
    *seconds = (double)clock_ns * 1e-9;
    return status;
}

GY_TEST(messages_before_leaving_arrive)
{
    double seconds;
    assert_ok(receive_after(40, false, &seconds)); /* about as many milliseconds */
    assert_true(seconds > 0.03);
}

GY_TEST(who_is_gone_is_missed_soon)
{
    double seconds;
    assert_status(receive_after(0, false, &seconds), GY_PEER);
    assert_true(seconds > 0.1 && seconds < 0.2);
    assert_status(receive_after(0, true, &seconds), GY_PEER);
    assert_true(seconds < 0.06);
}

GY_TEST_MAIN(NULL, NULL)
