/*
 * Goal: real processes: heads, tails, leads, workers that are killed and heads that are stopped
 * while two workers push and pull. No acknowledged push is lost and none counts twice, what was
 * acknowledged is seen by the next pull, and servers that come and go take their parts along.
 * Each kind once; ten times with GYRE_SOAK, which prints the pauses.
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
    _Atomic int64_t rounds;   /* that are acknowledged */
    _Atomic int64_t pause_ns; /* the longest round since it was last looked at */
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
        int64_t took_ns = gy_now_ns(env) - begun_ns;
        if (took_ns > atomic_load(&self->pause_ns)) { /* only look_at_pauses makes it less */
            atomic_store(&self->pause_ns, took_ns);
        }
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

static cluster_look await_replicas(void)
{
    cluster_look look;
    cluster_await_replicas(&at, "sums", check_works, &look);
    return look;
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

/* ---- Kills ---- */

typedef enum kill_kind { HEAD, TAIL, LEAD, WORKER, STOPPED, KINDS } kill_kind;

static const char *const kinds[KINDS] = {"head killed", "tail killed", "lead killed",
                                         "worker killed in a clock", "head stopped"};

static bool is_soak(void)
{
    return getenv("GYRE_SOAK") != NULL;
}

static double look_at_pauses(void)
{
    int64_t longest_ns = 0;
    for (int w = 0; w < WORKERS; w++) {
        int64_t pause_ns = atomic_exchange(&works[w].pause_ns, 0);
        longest_ns = GY_MAX(longest_ns, pause_ns);
    }
    return (double)longest_ns / 1e9;
}

/* A server that is the head, or the tail, of a part. */
static int find_server(bool is_head, int part)
{
    const cluster_look look = await_replicas();
    const int found =
        cluster_server_at(&at, is_head ? look.head_addresses[part] : look.tail_addresses[part]);
    assert_true(found >= 0);
    return found;
}

static void kill_server(bool is_head, int part)
{
    const int server = find_server(is_head, part);
    (void)look_at_pauses();
    cluster_kill(&at.servers[server]);
    await_rounds(20);
    cluster_start_server(&at, server);
}

/* All goes on without the lead, and with the next one. */
static void kill_lead(void)
{
    (void)look_at_pauses();
    cluster_kill(&at.leads[0]);
    await_rounds(100);
    cluster_start_lead(&at, 0);
    await_rounds(20);
}

/* It is taken for dead, and what it has to say when it goes on is not heard: each round of the
 * workers sees what was acknowledged before. */
static void stop_head(int part)
{
    const int server = find_server(true, part);
    gy_env *env = gy_env_real();
    const gy_deadline until = gy_env_deadline(env, is_soak() ? 10 : 0);
    (void)look_at_pauses();
    cluster_freeze(at.servers[server]);
    do {
        await_rounds(20);
    } while (gy_now_ns(env) < until.at_ns);
    (void)await_replicas();
    assert_int_equal(kill(at.servers[server], SIGCONT), 0);
    await_rounds(50);
}

static const gy_ps_table_options clocks = {
    .dtype = GY_I64, .rows = 8, .update = GY_PS_SUM, .sync = {.rule = GY_PS_BSP}};

/* The process of a worker that dies when its push of a clock is acknowledged. */
static int die_in_a_clock(const char *lead, const char *name)
{
    const int64_t twos[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    const gy_ps_options options = {
        .lead = lead, .is_plaintext = true, .worker = 1, .workers = 2, .timeout_s = 30};
    if (gy_ps_open(&options, &ps) == GY_OK &&
        gy_ps_table_open(ps, name, &clocks, &table) == GY_OK &&
        gy_ps_push(table, NULL, 8, twos, NULL) == GY_OK) {
        (void)raise(SIGKILL);
    }
    fprintf(stderr, "the worker that is to die: %s\n", gy_error_text());
    return 1;
}

/* The other worker of its clock waits until it is given up, and not longer; the dead one's
 * pushes of the clock that it has not made are no part of the sum. */
static double kill_worker(int number)
{
    const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t seen[8];
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    char name[32];
    int status = 0;
    /* a head that is new waits longer for who has to come to it */
    cluster_await_level(&at, "sums", check_works);
    snprintf(name, sizeof(name), "clocks%d", number);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)setenv("DOOMED_LEAD", at.lead_list, 1);
        (void)setenv("DOOMED_TABLE", name, 1);
        (void)execl("/proc/self/exe", "doomed", NULL);
        _exit(127);
    }
    const gy_ps_options options = cluster_options(&at, 0, 2);
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, name, &clocks, &table));
    assert_ok(gy_ps_push(table, NULL, 8, ones, NULL));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    assert_ok(gy_ps_clock(table));
    assert_ok(gy_ps_pull(table, NULL, 8, seen, NULL));
    const double pause_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) / 1e9;
    assert_memory_equal(seen, ones, sizeof(ones));
    gy_ps_close(ps);
    return pause_s;
}

static double strike(kill_kind kind, int number)
{
    switch (kind) {
    case HEAD:
    case TAIL:
        kill_server(kind == HEAD, number % CLUSTER_PARTS);
        break;
    case LEAD:
        kill_lead();
        break;
    case WORKER:
        return kill_worker(number);
    case STOPPED:
        stop_head(number % CLUSTER_PARTS);
        break;
    case KINDS:
        break;
    }
    check_works();
    return look_at_pauses();
}

static void strike_all(void)
{
    for (kill_kind kind = HEAD; kind < KINDS; kind++) {
        /* the head of a part is the tail of another one, which is enough for once */
        const int times = is_soak() ? 10 : kind != TAIL;
        double longest_s = 0, sum_s = 0;
        for (int i = 0; i < times; i++) {
            const double pause_s = strike(kind, i);
            longest_s = GY_MAX(longest_s, pause_s);
            sum_s += pause_s;
        }
        if (times == 0) {
            continue;
        }
        printf("%s, %d times: the longest pause %.2f s, %.2f s in the mean\n", kinds[kind],
               times, longest_s, sum_s / times);
        fflush(stdout);
    }
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
    strike_all();
    (void)await_replicas();
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
    cluster_end(&at);
}

static double lose_all_replicas(void)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t key = 0;
    int64_t value = 1;
    memset(&at, 0, sizeof(at));
    cluster_begin(&at);
    cluster_start_lead(&at, 0);
    for (int i = 0; i < 2; i++) {
        cluster_start_server(&at, i);
    }
    const gy_ps_options options = cluster_options(&at, 0, 1);
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_push(table, &key, 1, &value, NULL));
    cluster_kill_all(at.servers, 2);
    int64_t begun_ns = gy_now_ns(gy_env_real());
    assert_int_equal(gy_ps_push(table, &key, 1, &value, NULL), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "replicas are gone"));
    const double took_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) / 1e9;
    gy_ps_close(ps);
    cluster_end(&at);
    return took_s;
}

GY_TEST(a_lost_part_is_named)
{
    double longest_s = 0;
    const int times = is_soak() ? 10 : 1;
    for (int i = 0; i < times; i++) {
        const double took_s = lose_all_replicas();
        longest_s = GY_MAX(longest_s, took_s);
    }
    printf("all replicas of a part killed, %d times: named after %.2f s at most\n", times,
           longest_s);
}

static int begin(void **state)
{
    const char *lead = getenv("DOOMED_LEAD"), *table = getenv("DOOMED_TABLE");
    (void)state;
    if (lead != NULL && table != NULL) {
        _exit(die_in_a_clock(lead, table));
    }
    return 0;
}

GY_TEST_MAIN(begin, NULL)
