/*
 * Goal: real processes: a lead and servers that are killed and stopped while two workers push
 * and pull. No acknowledged push is lost and none counts twice, what was acknowledged is seen
 * by the next pull, a pause is short, and servers that come and go take their parts along.
 */
#include "ps_cluster_kit.h"

#include "gy_test.h"

#include <stdatomic.h>

enum { WORKERS = 2, SHARED = 10 };

static cluster at;

/* ---- Workers ---- */

static const gy_ps_table_options sums = {
    .dtype = GY_I64, .is_sparse = true, .sync = {.rule = GY_PS_ASP}};

typedef struct work {
    uint32_t worker;
    _Atomic bool *is_over;
    _Atomic int64_t rounds; /* that are acknowledged */
    double pause_max_s;
    char wrong[256];
} work;

#define NEED(work, call)                                                                       \
    do {                                                                                       \
        if ((call) < 0) {                                                                      \
            snprintf((work)->wrong, sizeof((work)->wrong), "%.80s: %.170s", #call,             \
                     gy_error_text());                                                         \
            return NULL;                                                                       \
        }                                                                                      \
    } while (0)

/* Keys that all share, spread over parts, and one of the worker's own. */
static void fill_keys(uint64_t keys[SHARED + 1], uint32_t worker)
{
    for (uint64_t i = 0; i < SHARED; i++) {
        keys[i] = i * 1000003;
    }
    keys[SHARED] = (uint64_t)1 << 62 | worker;
}

static void *push_and_pull(void *arg)
{
    work *self = arg;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    gy_env *env = gy_env_real();
    uint64_t keys[SHARED + 1];
    int64_t ones[SHARED + 1], seen[SHARED + 1];
    const gy_ps_options options = cluster_options(&at, self->worker, WORKERS);
    fill_keys(keys, self->worker);
    for (int i = 0; i <= SHARED; i++) {
        ones[i] = 1;
    }
    NEED(self, gy_ps_open(&options, &ps));
    NEED(self, gy_ps_table_open(ps, "sums", &sums, &table));
    for (int64_t round = 1;
         !atomic_load_explicit(self->is_over, memory_order_acquire); /* the main thread's */
         round++) {
        int64_t begun_ns = gy_now_ns(env);
        NEED(self, gy_ps_push(table, keys, SHARED + 1, ones, NULL));
        NEED(self, gy_ps_pull(table, keys, SHARED + 1, seen, NULL));
        double took_s = (double)(gy_now_ns(env) - begun_ns) / 1e9;
        self->pause_max_s = GY_MAX(self->pause_max_s, took_s);
        if (seen[SHARED] != round || seen[0] < round) {
            snprintf(self->wrong, sizeof(self->wrong), "round %lld shows %lld and %lld",
                     (long long)round, (long long)seen[SHARED], (long long)seen[0]);
            return NULL;
        }
        atomic_store_explicit(&self->rounds, round, memory_order_release); /* await's */
    }
    gy_ps_close(ps);
    return NULL;
}

static work works[WORKERS];

static void check_works(void)
{
    for (int w = 0; w < WORKERS; w++) {
        if (works[w].wrong[0] != '\0') {
            fail_msg("worker %d: %s", w, works[w].wrong);
        }
    }
}

/* Wait until both workers have made so many rounds more. */
static void await_rounds(int64_t more)
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 40);
    for (int w = 0; w < WORKERS; w++) {
        int64_t wanted = atomic_load_explicit(&works[w].rounds, memory_order_acquire) + more;
        while (atomic_load_explicit(&works[w].rounds, memory_order_acquire) < wanted) {
            if (works[w].wrong[0] != '\0' || gy_now_ns(env) > deadline.at_ns) {
                fail_msg("worker %d does not go on: %s", w, works[w].wrong);
            }
            (void)gy_env_poll(env, gy_env_deadline(env, 0.002));
        }
    }
}

/* Wait until a server that has come holds a part. */
static void await_part(const char *server)
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 40);
    for (;;) {
        cluster_look look = {.server = server};
        if (cluster_see(&at, &look) && look.count > 0) {
            return;
        }
        check_works();
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("server %s takes over no part", server);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.05));
    }
}

static void await_replicas(void)
{
    cluster_await_replicas(&at, "sums", check_works, NULL);
}

/* All that was acknowledged, to the last one; and no more. */
static void check_sums(void)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t keys[SHARED + 1];
    int64_t seen[SHARED + 1], wanted = 0;
    const gy_ps_options options = cluster_options(&at, 0, WORKERS);
    fill_keys(keys, 0);
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_pull(table, keys, SHARED + 1, seen, NULL));
    for (int w = 0; w < WORKERS; w++) {
        wanted += atomic_load_explicit(&works[w].rounds, memory_order_acquire);
    }
    for (int i = 0; i < SHARED; i++) {
        assert_int_equal(seen[i], wanted);
    }
    gy_ps_close(ps);
}

GY_TEST(kills_and_stops_lose_nothing)
{
    static _Atomic bool is_over;
    gy_thread threads[WORKERS] = {{.is_started = false}};
    memset(&at, 0, sizeof(at));
    cluster_begin(&at);
    cluster_start_lead(&at, 0);
    for (int i = 0; i < 3; i++) {
        cluster_start_server(&at, i);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        works[w] = (work){.worker = w, .is_over = &is_over};
        assert_ok(gy_thread_start(&threads[w], "test-worker", push_and_pull, &works[w]));
    }
    await_rounds(20);
    for (int i = 0; i < 3; i++) { /* each is a head and a tail of some parts */
        await_replicas();
        cluster_kill(&at.servers[i]);
        await_rounds(20);
        cluster_start_server(&at, i);
    }
    await_replicas();
    cluster_kill(&at.leads[0]); /* all goes on without it, and with the next one */
    await_rounds(200);
    cluster_start_lead(&at, 0);
    cluster_freeze(at.servers[1]); /* until it is taken for dead */
    await_rounds(100);
    await_replicas();
    assert_int_equal(kill(at.servers[1], SIGCONT), 0);
    await_rounds(100);
    cluster_start_server(&at, 3); /* it takes over parts under load */
    await_part(at.addresses[3]);
    await_rounds(100);
    const gy_ps_options draining = cluster_options(&at, 0, WORKERS);
    assert_ok(gy_ps_drain(&draining, at.addresses[0], NULL, NULL));
    cluster_kill(&at.servers[0]);
    await_rounds(100);
    atomic_store_explicit(&is_over, true, memory_order_release); /* the workers' */
    for (int w = 0; w < WORKERS; w++) {
        gy_thread_join(&threads[w]);
    }
    check_works();
    check_sums();
    double pause_s = GY_MAX(works[0].pause_max_s, works[1].pause_max_s);
    printf("%lld and %lld rounds, the longest pause %.2f s\n", (long long)works[0].rounds,
           (long long)works[1].rounds, pause_s);
    cluster_end(&at);
}

GY_TEST(a_lost_part_is_named)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t key = 0;
    int64_t value = 1;
    gy_status status = GY_OK;
    memset(&at, 0, sizeof(at));
    cluster_begin(&at);
    cluster_start_lead(&at, 0);
    for (int i = 0; i < 2; i++) {
        cluster_start_server(&at, i);
    }
    gy_ps_options options = cluster_options(&at, 0, WORKERS);
    options.workers = 1;
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_push(table, &key, 1, &value, NULL));
    cluster_kill(&at.servers[0]);
    cluster_kill(&at.servers[1]);
    int64_t begun_ns = gy_now_ns(gy_env_real());
    status = gy_ps_push(table, &key, 1, &value, NULL);
    assert_int_equal(status, GY_PEER);
    assert_non_null(strstr(gy_error_text(), "all its 2 replicas are gone"));
    double took_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) / 1e9;
    printf("after %.2f s: %s\n", took_s, gy_error_text());
    assert_true(took_s < 20); /* far below the call's own time */
    gy_ps_close(ps);
    cluster_end(&at);
}

GY_TEST_MAIN(NULL, NULL)
