/*
 * Goal: real processes: a lead and servers that are killed and stopped while two workers push
 * and pull. No acknowledged push is lost and none counts twice, what was acknowledged is seen
 * by the next pull, a pause is short, and servers that come and go take their parts along.
 */
#include <gyre/ps.h>

#include "base/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { SERVERS = 4, WORKERS = 2, SHARED = 10, PARTS = 4 };

static const char lease[] = "1"; /* a server silent for twice as long is replaced */
static char folder[64], lead_address[64];
static pid_t lead_process, servers[SERVERS];
static char addresses[SERVERS][64];

/* ---- Processes ---- */

static const char *path_of(char *out, const char *name, int index)
{
    snprintf(out, 128, "%s/%s%d", folder, name, index);
    return out;
}

static pid_t start(char *const *arguments)
{
    const char *binary = getenv("GYRE_BIN");
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(binary != NULL ? binary : "build/dev/gyre", arguments);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

/* Wait until a process says where it listens. */
static void read_address(const char *path, char out[64])
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 30);
    for (;;) {
        FILE *file = fopen(path, "r");
        bool is_there = file != NULL && fgets(out, 64, file) != NULL;
        if (file != NULL) {
            fclose(file);
        }
        if (is_there) {
            out[strcspn(out, "\n")] = '\0';
            return;
        }
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("%s does not appear", path);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.002));
    }
}

static void start_lead(void)
{
    char path[128], table[128];
    char listen[64];
    snprintf(listen, sizeof(listen), "%s",
             lead_address[0] != '\0' ? lead_address : "127.0.0.1:0");
    snprintf(table, sizeof(table), "sqlite:%s/lead.db", folder);
    (void)unlink(path_of(path, "lead", 0));
    char *const arguments[] = {"gyre",        "ps",   "lead",    "--plaintext",
                               "--listen",    listen, "--table", table,
                               "--replicas",  "2",    "--lease", (char *)(uintptr_t)lease,
                               "--port-file", path,   NULL};
    lead_process = start(arguments);
    read_address(path, lead_address);
}

static void start_server(int index)
{
    char path[128];
    (void)unlink(path_of(path, "server", index));
    char *const arguments[] = {"gyre",        "ps",          "serve",  "--plaintext",
                               "--listen",    "127.0.0.1:0", "--lead", lead_address,
                               "--port-file", path,          NULL};
    servers[index] = start(arguments);
    read_address(path, addresses[index]);
}

static void kill_process(pid_t *process)
{
    assert_int_equal(kill(*process, SIGKILL), 0);
    assert_int_equal(waitpid(*process, NULL, 0), *process);
    *process = 0;
}

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

static gy_ps_options options_of(uint32_t worker)
{
    return (gy_ps_options){.lead = lead_address,
                           .is_plaintext = true,
                           .worker = worker,
                           .workers = WORKERS,
                           .timeout_s = 30};
}

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
    const gy_ps_options options = options_of(self->worker);
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

static gy_status count_part(void *arg, const gy_ps_facts *facts)
{
    int *counts = arg;
    counts[facts->part] += strcmp(facts->table, "sums") == 0 && facts->place > 0;
    return GY_OK;
}

typedef struct parts_of {
    const char *server;
    int count;
} parts_of;

static gy_status count_parts_of(void *arg, const gy_ps_facts *facts)
{
    parts_of *parts = arg;
    parts->count += strcmp(facts->server, parts->server) == 0 && facts->place > 0;
    return GY_OK;
}

/* Wait until a server that has come holds a part. */
static void await_part(const char *server)
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 40);
    const gy_ps_options options = {.lead = lead_address, .is_plaintext = true, .timeout_s = 1};
    for (;;) {
        parts_of parts = {.server = server};
        if (gy_ps_show(&options, count_parts_of, &parts) == GY_OK && parts.count > 0) {
            return;
        }
        check_works();
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("server %s takes over no part", server);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.05));
    }
}

static bool has_replicas(void)
{
    int counts[PARTS] = {0};
    const gy_ps_options options = {.lead = lead_address, .is_plaintext = true, .timeout_s = 1};
    if (gy_ps_show(&options, count_part, counts) < 0) { /* a server may be gone: again */
        return false;
    }
    for (int part = 0; part < PARTS; part++) {
        if (counts[part] != 2) {
            return false;
        }
    }
    return true;
}

/* Wait until each part stands on two servers again: by two looks, since servers hear of a map
 * one after the other. */
static void await_replicas(void)
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 40);
    for (int looks = 0; looks < 2;) {
        looks = has_replicas() ? looks + 1 : 0;
        check_works();
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("the %d parts have not got two replicas each", PARTS);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.05));
    }
}

/* All that was acknowledged, to the last one; and no more. */
static void check_sums(void)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t keys[SHARED + 1];
    int64_t seen[SHARED + 1], wanted = 0;
    const gy_ps_options options = options_of(0);
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

static void end_all(void)
{
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i] > 0) {
            (void)kill(servers[i], SIGCONT);
            kill_process(&servers[i]);
        }
    }
    if (lead_process > 0) {
        kill_process(&lead_process);
    }
}

GY_TEST(kills_and_stops_lose_nothing)
{
    static _Atomic bool is_over;
    gy_thread threads[WORKERS] = {{.is_started = false}};
    snprintf(folder, sizeof(folder), "/tmp/gyre-ps-XXXXXX");
    assert_non_null(mkdtemp(folder));
    start_lead();
    for (int i = 0; i < 3; i++) {
        start_server(i);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        works[w] = (work){.worker = w, .is_over = &is_over};
        assert_ok(gy_thread_start(&threads[w], "test-worker", push_and_pull, &works[w]));
    }
    await_rounds(20);
    for (int i = 0; i < 3; i++) { /* each is a head and a tail of some parts */
        await_replicas();
        kill_process(&servers[i]);
        await_rounds(20);
        start_server(i);
    }
    await_replicas();
    kill_process(&lead_process); /* all goes on without it, and with the next one */
    await_rounds(200);
    start_lead();
    assert_int_equal(kill(servers[1], SIGSTOP), 0); /* until it is taken for dead */
    await_rounds(100);
    await_replicas();
    assert_int_equal(kill(servers[1], SIGCONT), 0);
    await_rounds(100);
    start_server(3); /* it takes over parts under load */
    await_part(addresses[3]);
    await_rounds(100);
    const gy_ps_options draining = {
        .lead = lead_address, .is_plaintext = true, .timeout_s = 30};
    assert_ok(gy_ps_drain(&draining, addresses[0], NULL, NULL));
    kill_process(&servers[0]);
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
    end_all();
}

GY_TEST(a_lost_part_is_named)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t key = 0;
    int64_t value = 1;
    gy_status status = GY_OK;
    lead_address[0] = '\0';
    snprintf(folder, sizeof(folder), "/tmp/gyre-ps-XXXXXX");
    assert_non_null(mkdtemp(folder));
    start_lead();
    for (int i = 0; i < 2; i++) {
        start_server(i);
    }
    gy_ps_options options = options_of(0);
    options.workers = 1;
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_push(table, &key, 1, &value, NULL));
    kill_process(&servers[0]);
    kill_process(&servers[1]);
    int64_t begun_ns = gy_now_ns(gy_env_real());
    status = gy_ps_push(table, &key, 1, &value, NULL);
    assert_int_equal(status, GY_PEER);
    assert_non_null(strstr(gy_error_text(), "all its 2 replicas are gone"));
    double took_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) / 1e9;
    printf("after %.2f s: %s\n", took_s, gy_error_text());
    assert_true(took_s < 20); /* far below the call's own time */
    gy_ps_close(ps);
    end_all();
}

GY_TEST_MAIN(NULL, NULL)
