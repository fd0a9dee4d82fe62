/*
 * Goal: workers and servers over real sockets, in one process: sums are right to the last one
 * over several servers, each rule holds what it says, whoever leaves or dies is not waited for,
 * and what is wrong is refused with who, what and what was expected.
 */
#include <math.h>

#include "ps_kit.h"

enum { WORKERS_MAX = 4 };

static void half(void *arg, uint64_t key, void *row, const void *gradient, uint32_t width,
                 double rate)
{
    (void)arg;
    (void)key;
    for (uint32_t i = 0; i < width; i++) {
        ((float *)row)[i] += (float)rate * ((const float *)gradient)[i] / 2;
    }
}

static const gy_ps_named_function functions[] = {{"half", half, NULL}};

/* ---- Workers as threads ---- */

typedef struct work {
    const scene *at;
    const gy_ps_table_options *table;
    uint32_t worker, workers;
    int rounds;
    double last; /* what it saw at its end */
    char wrong[256];
} work;

static void run_workers(const scene *at, const gy_ps_table_options *table, uint32_t workers,
                        int rounds, void *(*run)(void *), work *all)
{
    gy_thread threads[WORKERS_MAX] = {{.is_started = false}};
    for (uint32_t i = 0; i < workers; i++) {
        all[i] =
            (work){.at = at, .table = table, .worker = i, .workers = workers, .rounds = rounds};
        assert_ok(gy_thread_start(&threads[i], "test-worker", run, &all[i]));
    }
    for (uint32_t i = 0; i < workers; i++) {
        gy_thread_join(&threads[i]);
    }
    for (uint32_t i = 0; i < workers; i++) {
        if (all[i].wrong[0] != '\0') {
            fail_msg("worker %u: %s", i, all[i].wrong);
        }
    }
}

#define NEED(work, call)                                                                       \
    do {                                                                                       \
        if ((call) < 0) {                                                                      \
            snprintf((work)->wrong, sizeof((work)->wrong), "%.100s: %.150s", #call,            \
                     gy_error_text());                                                         \
            return NULL;                                                                       \
        }                                                                                      \
    } while (0)

/* ps-lite's own test: 10 keys, 10 pushes under way, 50 rounds; here of whole numbers. */
static const uint64_t spread_keys[10] = {0,
                                         1,
                                         77,
                                         (uint64_t)1 << 40,
                                         UINT64_MAX / 3,
                                         ((uint64_t)1 << 63) - 1,
                                         (uint64_t)1 << 63,
                                         UINT64_MAX / 3 * 2,
                                         UINT64_MAX - 1,
                                         UINT64_MAX};

static void *push_windows(void *arg)
{
    enum { WINDOW = 10 };
    work *self = arg;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    gy_ps_request *requests[WINDOW];
    int64_t values[10];
    NEED(self, gy_ps_open(&(gy_ps_options){.servers = self->at->list,
                                           .is_plaintext = true,
                                           .worker = self->worker,
                                           .without_shared_memory = self->worker % 2 == 1,
                                           .workers = self->workers},
                          &ps));
    NEED(self, gy_ps_table_open(ps, "sums", self->table, &table));
    for (int i = 0; i < 10; i++) {
        values[i] = (int64_t)(self->worker + 1) * (i + 1);
    }
    for (int round = 0; round < self->rounds; round++) {
        for (int i = 0; i < WINDOW; i++) {
            NEED(self, gy_ps_push(table, spread_keys, 10, values, &requests[i]));
        }
        for (int i = 0; i < WINDOW; i++) {
            NEED(self, gy_ps_wait(requests[i], gy_deadline_after(30)));
        }
    }
    gy_ps_close(ps);
    return NULL;
}

static void sums_are_exact(int servers, bool is_by_range)
{
    scene at;
    work all[WORKERS_MAX];
    int64_t live = gy_alloc_live();
    const gy_ps_table_options table = {
        .dtype = GY_I64, .is_sparse = true, .is_by_range = is_by_range, .sync = {GY_PS_ASP, 0}};
    open_servers(&at, servers);
    run_workers(&at, &table, 2, 50, push_windows, all);
    gy_ps *ps = worker_of(&at, 0, 2);
    gy_ps_table *opened = NULL;
    int64_t values[10];
    assert_ok(gy_ps_table_open(ps, "sums", &table, &opened));
    assert_ok(gy_ps_pull(opened, spread_keys, 10, values, NULL));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(values[i], (int64_t)50 * 10 * 3 * (i + 1));
    }
    gy_ps_close(ps);
    close_servers(&at);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(sums_are_exact_at_one_server)
{
    sums_are_exact(1, false);
}

GY_TEST(sums_are_exact_over_three_servers_by_hash)
{
    sums_are_exact(3, false);
}

GY_TEST(sums_are_exact_over_three_servers_by_range)
{
    sums_are_exact(3, true);
}

/* Lecture D's loop, push before pull, on a dense table: every worker sees the same numbers. */
static void *train_clocks(void *arg)
{
    enum { ROWS = 1000 };
    work *self = arg;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    static _Thread_local double gradient[ROWS], values[ROWS];
    NEED(self, gy_ps_open(&(gy_ps_options){.servers = self->at->list,
                                           .is_plaintext = true,
                                           .worker = self->worker,
                                           .without_shared_memory = self->worker % 2 == 1,
                                           .workers = self->workers},
                          &ps));
    NEED(self, gy_ps_table_open(ps, "w", self->table, &table));
    for (int round = 0; round < self->rounds; round++) {
        for (int i = 0; i < ROWS; i++) {
            gradient[i] = (double)(self->worker + 1);
        }
        NEED(self, gy_ps_push(table, NULL, ROWS, gradient, NULL));
        NEED(self, gy_ps_clock(table));
        NEED(self, gy_ps_pull(table, NULL, ROWS, values, NULL));
        double all = (double)self->workers * (self->workers + 1) / 2;
        for (int i = 0; i < ROWS; i++) {
            double least = self->table->sync.rule == GY_PS_BSP ? (round + 1) * all
                                                               : (round + 1) * gradient[i];
            bool is_wrong = self->table->sync.rule == GY_PS_BSP
                                ? values[i] < least || fmod(values[i], all) != 0
                                : values[i] < least;
            if (is_wrong && self->wrong[0] == '\0') {
                snprintf(self->wrong, sizeof(self->wrong), "row %d is %g in round %d", i,
                         values[i], round);
            }
        }
    }
    self->last = values[ROWS - 1];
    gy_ps_close(ps);
    return NULL;
}

static void clocks_hold(gy_ps_sync sync, int servers)
{
    enum { ROWS = 1000, ROUNDS = 30, WORKERS = 3 };
    scene at;
    work all[WORKERS_MAX];
    double values[ROWS];
    const gy_ps_table_options table = {.dtype = GY_F64, .rows = ROWS, .sync = sync};
    open_servers(&at, servers);
    run_workers(&at, &table, WORKERS, ROUNDS, train_clocks, all);
    gy_ps *ps = worker_of(&at, 0, WORKERS);
    gy_ps_table *opened = NULL;
    assert_ok(gy_ps_table_open(ps, "w", &table, &opened));
    assert_ok(gy_ps_pull(opened, NULL, ROWS, values, NULL));
    for (int i = 0; i < ROWS; i++) {
        assert_true(values[i] == ROUNDS * 6); /* 1 + 2 + 3 a clock */
    }
    gy_ps_close(ps);
    close_servers(&at);
}

GY_TEST(bsp_shows_whole_clocks)
{
    clocks_hold(gy_ps_bsp(), 2);
}

GY_TEST(ssp_loses_nothing)
{
    clocks_hold(gy_ps_ssp(2), 1);
}

GY_TEST(asp_loses_nothing)
{
    clocks_hold(gy_ps_asp(), 3);
}

/* ---- Who is not waited for ---- */

GY_TEST(a_pull_waits_for_who_is_behind_and_says_so)
{
    scene at;
    float value = 1;
    uint64_t key = 5;
    open_servers(&at, 1);
    gy_ps *a = worker_of(&at, 0, 2), *b = worker_of(&at, 1, 2);
    gy_ps_table *ta = NULL, *tb = NULL;
    gy_ps_request *pull = NULL;
    const gy_ps_table_options table = {.is_sparse = true};
    assert_ok(gy_ps_table_open(a, "t", &table, &ta));
    assert_ok(gy_ps_table_open(b, "t", &table, &tb));
    assert_ok(gy_ps_push(ta, &key, 1, &value, NULL));
    assert_ok(gy_ps_clock(ta));
    assert_ok(gy_ps_pull(ta, &key, 1, &value, &pull));
    assert_status(gy_ps_wait(pull, gy_deadline_after(0.05)), GY_TIMEOUT);
    assert_non_null(
        strstr(gy_error_text(), "table t: a pull after clock 1: no answer of server"));
    value = 3;
    assert_ok(gy_ps_pull(ta, &key, 1, &value, &pull));
    gy_ps_close(b); /* it has no batches left */
    assert_ok(gy_ps_wait(pull, gy_deadline_after(30)));
    assert_true(value == 1);
    gy_ps_close(a);
    close_servers(&at);
}

/* ---- What is wrong ---- */

static void refused(gy_status got, gy_status wanted, const char *text)
{
    assert_status(got, wanted);
    if (strstr(gy_error_text(), text) == NULL) {
        fail_msg("'%s' does not say '%s'", gy_error_text(), text);
    }
}

GY_TEST(wrong_tables_are_refused)
{
    scene at;
    open_servers(&at, 2);
    gy_ps *ps = worker_of(&at, 0, 2), *other = NULL, *same = worker_of(&at, 0, 2);
    gy_ps_table *table = NULL, *none = NULL;
    const gy_ps_table_options good = {.rows = 10}, wide = {.rows = 10, .width = 2};
    assert_ok(gy_ps_table_open(ps, "t", &good, &table));
    refused(gy_ps_table_open(ps, "t", &wide, &none), GY_MISMATCH,
            "table t is there with other options");
    refused(gy_ps_table_open(same, "t", &good, &none), GY_EXISTS,
            "worker 0 is another client already");
    refused(gy_ps_table_open(ps, "f",
                             &(gy_ps_table_options){
                                 .rows = 1, .update = GY_PS_FUNCTION, .function = "third"},
                             &none),
            GY_NOTFOUND, "this server has no function third");
    char turned[128];
    char *comma = strchr(at.list, ',');
    snprintf(turned, sizeof(turned), "%s,%.*s", comma + 1, (int)(comma - at.list), at.list);
    assert_ok(gy_ps_open(
        &(gy_ps_options){.servers = turned, .is_plaintext = true, .worker = 1, .workers = 2},
        &other));
    refused(gy_ps_table_open(other, "t", &good, &none), GY_MISMATCH,
            "the lists of servers differ");
    gy_ps_close(other);
    refused(gy_ps_open(&(gy_ps_options){.servers = "nowhere", .is_plaintext = true}, &other),
            GY_ARG, "nowhere");
    refused(gy_ps_open(&(gy_ps_options){.is_plaintext = true}, &other), GY_ARG,
            "expected HOST:PORT,...");
    refused(gy_ps_open(&(gy_ps_options){.servers = at.list}, &other), GY_ARG, "no cluster key");
    gy_ps_close(same);
    gy_ps_close(ps);
    close_servers(&at);
    refused(
        gy_ps_open(&(gy_ps_options){.servers = at.list, .is_plaintext = true, .timeout_s = 0.2},
                   &other),
        GY_PEER, "is not reached");
}

GY_TEST(wrong_rows_are_refused_and_nothing_is_applied)
{
    scene at;
    uint64_t unsorted[] = {5, 4}, doubled[] = {5, 5}, good[] = {4, 5}, first = 9;
    float values[] = {1, NAN}, got[] = {7, 7};
    open_servers_with(&at, 2,
                      &(gy_ps_server_options){
                          .is_plaintext = true, .functions = functions, .function_count = 1});
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *sparse = NULL, *dense = NULL, *made = NULL;
    assert_ok(gy_ps_table_open(
        ps, "s", &(gy_ps_table_options){.is_sparse = true, .is_by_range = true}, &sparse));
    assert_ok(gy_ps_table_open(ps, "d", &(gy_ps_table_options){.rows = 10}, &dense));
    refused(gy_ps_push(sparse, unsorted, 2, got, NULL), GY_ARG, "table s: key 1 is 4 after 5");
    refused(gy_ps_push(sparse, doubled, 2, got, NULL), GY_ARG, "key 1 is 5 after 5");
    refused(gy_ps_pull(sparse, unsorted, 2, got, NULL), GY_ARG, "key 1 is 4 after 5");
    refused(gy_ps_push(sparse, good, 2, values, NULL), GY_NUMERIC,
            "table s: value 0 of key 5 is not finite");
    refused(gy_ps_push(dense, &first, 2, got, NULL), GY_ARG, "table d: rows 9 to 11 of 10");
    assert_ok(gy_ps_push(dense, &first, 0, got, NULL)); /* nothing is nothing */
    assert_ok(gy_ps_pull(sparse, good, 2, got, NULL));
    assert_true(got[0] == 0 && got[1] == 0);
    assert_ok(gy_ps_table_open(
        ps, "f",
        &(gy_ps_table_options){
            .rows = 2, .update = GY_PS_FUNCTION, .function = "half", .sync = {GY_PS_ASP, 0}},
        &made));
    values[1] = 3;
    gy_ps_set_rate(made, 4);
    assert_ok(gy_ps_put(made, NULL, 2, values, NULL));
    assert_ok(gy_ps_push(made, NULL, 2, values, NULL));
    assert_ok(gy_ps_pull(made, NULL, 2, got, NULL));
    assert_true(got[0] == 3 && got[1] == 9); /* 1 + 4 · 1 / 2 and 3 + 4 · 3 / 2 */
    gy_ps_close(ps);
    close_servers(&at);
}

static gy_status count_facts(void *arg, const gy_ps_facts *facts)
{
    uint64_t *pushes = arg;
    *pushes += facts->pushes;
    return facts->parts == 2 && strcmp(facts->table, "t") == 0
               ? GY_OK
               : gy_fail(GY_STATE, "table %s in %u parts", facts->table, facts->parts);
}

GY_TEST(servers_tell_of_their_tables)
{
    scene at;
    float values[10] = {1};
    uint64_t pushes = 0;
    open_servers(&at, 2);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "t", &(gy_ps_table_options){.rows = 10}, &table));
    assert_ok(gy_ps_push(table, NULL, 10, values, NULL));
    assert_ok(gy_ps_show(&(gy_ps_options){.servers = at.list, .is_plaintext = true},
                         count_facts, &pushes));
    assert_int_equal(pushes, 2);
    gy_ps_close(ps);
    close_servers(&at);
}

/* A server that is gone is an error with its name, not a wait for ever. */
GY_TEST(a_lost_server_is_named)
{
    scene at;
    float values[10] = {1};
    char address[64], text[128];
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    gy_ps_request *push = NULL;
    assert_ok(gy_ps_table_open(ps, "t", &(gy_ps_table_options){.rows = 10}, &table));
    snprintf(address, sizeof(address), "%s", gy_ps_server_address(at.servers[0]));
    close_servers(&at);
    assert_ok(gy_ps_push(table, NULL, 10, values, &push));
    snprintf(text, sizeof(text), "table t: a push after clock 0: server %s is not reached",
             address);
    refused(gy_ps_wait(push, gy_deadline_after(0.3)), GY_PEER, text);
    gy_ps_close(ps);
}

/* What an update keeps is read and set as rows are, by slot; what it does not keep is refused,
 * and a sparse table's rows have theirs for themselves. */
GY_TEST(state_of_an_update_is_read_and_set)
{
    enum { ROWS = 5 };
    scene at;
    open_servers(&at, 2);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL, *plain = NULL, *sparse = NULL;
    const float ones[ROWS] = {1, 1, 1, 1, 1}, given[ROWS] = {1, 2, 3, 4, 5};
    float seen[ROWS] = {0};
    uint64_t updates = 0;
    assert_ok(gy_ps_table_open(
        ps, "velocities",
        &(gy_ps_table_options){.rows = ROWS, .update = GY_PS_MOMENTUM, .rate = 1}, &table));
    for (int clock = 0; clock < 2; clock++) {
        assert_ok(gy_ps_push(table, NULL, ROWS, ones, NULL));
        assert_ok(gy_ps_clock(table));
    }
    assert_ok(gy_ps_pull_state(table, 1, seen, &updates));
    assert_int_equal(updates, 2);
    for (int i = 0; i < ROWS; i++) {
        assert_true(seen[i] == 0.9F * 1 + 1);
    }
    assert_ok(gy_ps_put_state(table, 1, given, 7));
    assert_ok(gy_ps_pull_state(table, 1, seen, &updates));
    assert_int_equal(updates, 7);
    assert_memory_equal(seen, given, sizeof(given));
    assert_status(gy_ps_pull_state(table, 2, seen, &updates), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "state 2 of its update, which keeps 1"));
    assert_ok(gy_ps_table_open(
        ps, "plain", &(gy_ps_table_options){.rows = ROWS, .update = GY_PS_SGD}, &plain));
    assert_status(gy_ps_put_state(plain, 1, given, 1), GY_ARG);
    assert_ok(gy_ps_table_open(ps, "sparse",
                               &(gy_ps_table_options){.is_sparse = true, .update = GY_PS_ADAM},
                               &sparse));
    assert_status(gy_ps_pull_state(sparse, 1, seen, &updates), GY_ARG);
    gy_ps_close(ps);
    close_servers(&at);
}

GY_TEST_MAIN(NULL, NULL)
