/*
 * Goal: the ways to ask (push and pull in one round trip, by a function at the end, as a task
 * of an engine, before the rows are needed, with keys that were sent before) give what pushes
 * and pulls one by one give, right to the last one, and end by their deadlines.
 */
#include "ps/client_priv.h"

#include <math.h>
#include <signal.h>

#include "ps_kit.h"

static const gy_ps_table_options sums = {
    .dtype = GY_I64, .is_sparse = true, .sync = {GY_PS_ASP, 0}};

static gy_status take_facts(void *arg, const gy_ps_facts *facts)
{
    gy_ps_facts *all = arg;
    all->received_bytes += facts->received_bytes;
    all->sent_bytes += facts->sent_bytes;
    all->pushes += facts->pushes;
    return GY_OK;
}

static gy_ps_facts facts_of(const scene *at)
{
    gy_ps_facts all = {.server = NULL};
    assert_ok(gy_ps_show(&(gy_ps_options){.servers = at->list, .is_plaintext = true},
                         take_facts, &all));
    return all;
}

/* ---- Push and pull ---- */

typedef struct work {
    const scene *at;
    uint32_t worker;
    char wrong[256];
} work;

#define NEED(work, call)                                                                       \
    do {                                                                                       \
        if ((call) < 0) {                                                                      \
            snprintf((work)->wrong, sizeof((work)->wrong), "%.100s: %.150s", #call,            \
                     gy_error_text());                                                         \
            return NULL;                                                                       \
        }                                                                                      \
    } while (0)

enum { KEYS = 10, WINDOW = 10, ROUNDS = 50, MANY = 100 };

static const uint64_t ends[KEYS] = {0,
                                    1,
                                    77,
                                    (uint64_t)1 << 40,
                                    UINT64_MAX / 3,
                                    ((uint64_t)1 << 63) - 1,
                                    (uint64_t)1 << 63,
                                    UINT64_MAX / 3 * 2,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};

/* ps-lite's own pattern with both in one: what comes back has this worker's pushes so far, and
 * never more than there were. */
static void *push_and_pull_windows(void *arg)
{
    work *self = arg;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    gy_ps_request *requests[WINDOW];
    int64_t values[KEYS], rows[WINDOW][KEYS];
    int64_t own = (int64_t)self->worker + 1;
    NEED(self, gy_ps_open(&(gy_ps_options){.servers = self->at->list,
                                           .is_plaintext = true,
                                           .worker = self->worker,
                                           .without_shared_memory = self->worker % 2 == 1,
                                           .workers = 2},
                          &ps));
    NEED(self, gy_ps_table_open(ps, "sums", &sums, &table));
    for (int i = 0; i < KEYS; i++) {
        values[i] = own * (i + 1);
    }
    for (int64_t round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WINDOW; w++) {
            NEED(self, gy_ps_push_pull(table, ends, KEYS, values, rows[w], &requests[w]));
        }
        for (int w = 0; w < WINDOW; w++) {
            NEED(self, gy_ps_wait(requests[w], gy_deadline_after(30)));
            for (int i = 0; i < KEYS; i++) {
                int64_t least = own * (round * WINDOW + w + 1) * (i + 1);
                int64_t others = rows[w][i] - least, other = (3 - own) * (i + 1);
                if (others < 0 || others % other != 0 || others / other > ROUNDS * WINDOW) {
                    snprintf(self->wrong, sizeof(self->wrong),
                             "key %d shows %lld in round %lld", i, (long long)rows[w][i],
                             (long long)round);
                }
            }
        }
    }
    gy_ps_close(ps);
    return NULL;
}

GY_TEST(a_push_comes_back_with_its_rows)
{
    scene at;
    work all[2];
    gy_thread threads[2] = {{.is_started = false}};
    int64_t live = gy_alloc_live(), values[KEYS];
    open_servers(&at, 3);
    for (uint32_t i = 0; i < 2; i++) {
        all[i] = (work){.at = &at, .worker = i};
        assert_ok(gy_thread_start(&threads[i], "test-worker", push_and_pull_windows, &all[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        gy_thread_join(&threads[i]);
        assert_string_equal(all[i].wrong, "");
    }
    gy_ps *ps = worker_of(&at, 0, 2);
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_pull(table, ends, KEYS, values, NULL));
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(values[i], (int64_t)ROUNDS * WINDOW * 3 * (i + 1));
    }
    gy_ps_close(ps);
    close_servers(&at);
    assert_int_equal(gy_alloc_live(), live);
}

/* A rule that holds pushes until the clock is over shows the rows before it. */
GY_TEST(a_held_push_does_not_show_in_its_rows)
{
    scene at;
    float value = 3, row = -1;
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "t", &(gy_ps_table_options){.rows = 1}, &table));
    assert_ok(gy_ps_push_pull(table, NULL, 1, &value, &row, NULL));
    assert_true(row == 0);
    assert_ok(gy_ps_clock(table));
    assert_ok(gy_ps_push_pull(table, NULL, 1, &value, &row, NULL));
    assert_true(row == 3);
    value = NAN;
    assert_status(gy_ps_push_pull(table, NULL, 1, &value, &row, NULL), GY_NUMERIC);
    gy_ps_close(ps);
    close_servers(&at);
}

/* ---- Functions at the end ---- */

typedef struct chain {
    gy_ps_table *table;
    int64_t value;
    uint64_t key;
    int left;
    gy_mutex lock; /* of what follows */
    gy_cond over;
    bool has_ended;
    gy_status status;
    char text[256];
} chain;

static chain chain_of(gy_ps_table *table, int64_t value, int left)
{
    chain made = {.table = table, .value = value, .key = 7, .left = left};
    gy_mutex_init(&made.lock, 90);
    gy_cond_init(&made.over);
    return made;
}

/* Each end begins the next push. */
static void push_next(void *arg, gy_status status)
{
    chain *self = arg;
    gy_ps_request *request = NULL;
    if (status == GY_OK && --self->left > 0) {
        status = gy_ps_push(self->table, &self->key, 1, &self->value, &request);
        if (status == GY_OK) {
            gy_ps_then(request, gy_deadline_after(30), push_next, self);
            return;
        }
    }
    gy_mutex_lock(&self->lock);
    if (status < 0) {
        snprintf(self->text, sizeof(self->text), "%s", gy_error_text());
    }
    self->status = status;
    self->has_ended = true;
    gy_cond_signal(&self->over);
    gy_mutex_unlock(&self->lock);
}

static gy_status end_of(chain *self)
{
    gy_deadline deadline = gy_deadline_after(30);
    gy_mutex_lock(&self->lock);
    while (!self->has_ended && gy_cond_wait(&self->over, &self->lock, deadline) == GY_OK) {
    }
    assert_true(self->has_ended);
    gy_mutex_unlock(&self->lock);
    gy_mutex_fini(&self->lock);
    gy_cond_fini(&self->over);
    return self->status;
}

GY_TEST(functions_at_the_end_begin_further_requests)
{
    enum { COUNT = 200 };
    scene at;
    int64_t value = 0;
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_request *request = NULL, *pull = NULL;
    chain all[2] = {{.value = 1, .key = 7, .left = COUNT},
                    {.value = 2, .key = 7, .left = COUNT}};
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    for (int i = 0; i < 2; i++) {
        all[i] = chain_of(table, i + 1, COUNT);
        assert_ok(gy_ps_push(table, &all[i].key, 1, &all[i].value, &request));
        gy_ps_then(request, gy_deadline_after(30), push_next, &all[i]);
    }
    /* a caller that waits meanwhile drives them too */
    assert_ok(gy_ps_pull(table, &all[0].key, 1, &value, &pull));
    assert_ok(gy_ps_wait(pull, gy_deadline_after(30)));
    assert_ok(end_of(&all[0]));
    assert_ok(end_of(&all[1]));
    assert_ok(gy_ps_pull(table, &all[0].key, 1, &value, NULL));
    assert_int_equal(value, COUNT * 3);
    gy_ps_close(ps);
    close_servers(&at);
}

GY_TEST(functions_are_called_by_the_deadline_and_by_the_handles_end)
{
    scene at;
    float value = 1, rows[2];
    uint64_t key = 5;
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 2), *slow = worker_of(&at, 1, 2);
    gy_ps_table *table = NULL, *other = NULL;
    gy_ps_request *request = NULL;
    const gy_ps_table_options options = {.is_sparse = true};
    chain late = chain_of(NULL, 0, 1), cut = chain_of(NULL, 0, 1);
    assert_ok(gy_ps_table_open(ps, "t", &options, &table));
    assert_ok(gy_ps_table_open(slow, "t", &options, &other));
    assert_ok(gy_ps_push(table, &key, 1, &value, NULL));
    assert_ok(gy_ps_clock(table));
    assert_ok(gy_ps_pull(table, &key, 1, &rows[0], &request));
    gy_ps_then(request, gy_deadline_after(0.05), push_next, &late);
    assert_int_equal(end_of(&late), GY_TIMEOUT);
    assert_non_null(strstr(late.text, "table t: a pull after clock 1: no answer of server"));
    assert_ok(gy_ps_pull(table, &key, 1, &rows[1], &request));
    gy_ps_then(request, GY_NEVER, push_next, &cut);
    gy_ps_close(ps);
    assert_int_equal(end_of(&cut), GY_CANCELLED);
    gy_ps_close(slow);
    close_servers(&at);
}

/* ---- Tasks of an engine ---- */

typedef struct step {
    int64_t *in, *out;
} step;

static void twice(void *arg, gy_done *done)
{
    const step *of = arg;
    for (int i = 0; i < KEYS; i++) {
        of->out[i] = of->in[i] * 2 + 1;
    }
    gy_done_ok(done);
}

/* pull -> compute -> push and pull -> compute: each runs when the one before has its data. */
GY_TEST(tasks_run_when_their_rows_are_there)
{
    scene at;
    int64_t pulled[KEYS], pushed[KEYS], again[KEYS], last[KEYS], base[KEYS];
    gy_engine *engine = NULL;
    gy_var *vars[4];
    open_servers(&at, 2);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 1}, &engine));
    for (int i = 0; i < 4; i++) {
        assert_ok(gy_var_new(engine, &vars[i]));
    }
    for (int i = 0; i < KEYS; i++) {
        base[i] = 100 * i;
    }
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    assert_ok(gy_ps_push(table, ends, KEYS, base, NULL));
    gy_ps_task task = {.engine = engine, .keys = ends, .count = KEYS};
    step first = {pulled, pushed}, second = {again, last};
    task.rows = pulled;
    task.rows_var = vars[0];
    assert_ok(gy_ps_push_task(table, &task));
    assert_ok(gy_engine_push(engine, &(gy_task){.name = "twice",
                                                .run = twice,
                                                .arg = &first,
                                                .reads = &vars[0],
                                                .read_count = 1,
                                                .mutates = &vars[1],
                                                .mutate_count = 1}));
    task.values = pushed;
    task.values_var = vars[1];
    task.rows = again;
    task.rows_var = vars[2];
    assert_ok(gy_ps_push_task(table, &task));
    assert_ok(gy_engine_push(engine, &(gy_task){.name = "twice",
                                                .run = twice,
                                                .arg = &second,
                                                .reads = &vars[2],
                                                .read_count = 1,
                                                .mutates = &vars[3],
                                                .mutate_count = 1}));
    assert_ok(gy_engine_wait(engine, vars[3], gy_deadline_after(30)));
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(last[i], (base[i] + base[i] * 2 + 1) * 2 + 1);
    }
    assert_status(gy_ps_push_task(table, &(gy_ps_task){.engine = engine}), GY_ARG);
    task.keys = (const uint64_t[KEYS]){2, 1};
    assert_ok(gy_ps_push_task(table, &task)); /* its end says what was wrong */
    assert_status(gy_engine_wait(engine, vars[2], gy_deadline_after(30)), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "key 1 is 1 after 2"));
    for (int i = 0; i < 4; i++) {
        gy_var_heal(vars[i]);
        gy_var_free(vars[i]);
    }
    gy_engine_free(engine);
    gy_ps_close(ps);
    close_servers(&at);
}

/* ---- Prefetch ---- */

GY_TEST(a_pull_takes_what_was_prefetched)
{
    scene at;
    double value = 2, row = 0;
    uint64_t key = 9, other = 10;
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL, *fast = NULL;
    const gy_ps_table_options bsp = {.dtype = GY_F64, .is_sparse = true};
    const gy_ps_table_options asp = {
        .dtype = GY_F64, .is_sparse = true, .sync = {GY_PS_ASP, 0}};
    assert_ok(gy_ps_table_open(ps, "bsp", &bsp, &table));
    for (int clock = 0; clock < 3; clock++) { /* D's loop: the next rows come meanwhile */
        assert_ok(gy_ps_prefetch(table, &key, 1, 1));
        assert_ok(gy_ps_push(table, &key, 1, &value, NULL));
        assert_ok(gy_ps_clock(table));
        assert_ok(gy_ps_pull(table, &key, 1, &row, NULL));
        assert_true(row == value * (clock + 1));
    }
    assert_int_equal(facts_of(&at).sent_bytes, 3 * sizeof(row)); /* each came once */
    assert_ok(gy_ps_table_open(ps, "asp", &asp, &fast));
    assert_ok(gy_ps_prefetch(fast, &key, 1, 0));
    assert_ok(gy_ps_prefetch(fast, &other, 1, 0));
    assert_ok(gy_ps_push(fast, &key, 1, &value, NULL));
    assert_ok(gy_ps_pull(fast, &key, 1, &row, NULL)); /* not what lacks its own push */
    assert_true(row == value);
    for (uint64_t i = 0; i < 16; i++) {
        assert_ok(gy_ps_prefetch(fast, &i, 1, 1));
    }
    assert_status(gy_ps_prefetch(fast, &key, 1, 1), GY_LIMIT);
    gy_ps_close(ps); /* what no pull took is freed */
    close_servers(&at);
}

/* ---- Key lists ---- */

static void many_keys(uint64_t keys[MANY], uint64_t apart)
{
    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = i * apart + i * i;
    }
}

static void keys_go_once(int servers, gy_ps_sync sync)
{
    enum { LISTS = 12, TURNS = 4 }; /* more lists than slots */
    scene at;
    uint64_t keys[MANY];
    int64_t values[MANY], rows[MANY];
    gy_ps_table_options options = sums;
    options.sync = sync;
    open_servers(&at, servers);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "sums", &options, &table));
    for (int i = 0; i < MANY; i++) {
        values[i] = i + 1;
    }
    many_keys(keys, 1 << 20);
    for (int i = 0; i < TURNS; i++) {
        assert_ok(gy_ps_push(table, keys, MANY, values, NULL));
        assert_ok(gy_ps_clock(table));
        assert_ok(gy_ps_pull(table, keys, MANY, rows, NULL));
        assert_int_equal(rows[MANY - 1], (int64_t)(i + 1) * MANY);
    }
    assert_int_equal(facts_of(&at).received_bytes,
                     TURNS * sizeof(values) + sizeof(keys)); /* once */
    for (uint64_t list = 0; list < TURNS * LISTS; list++) {
        many_keys(keys, ((uint64_t)2 << 40) + list % LISTS);
        assert_ok(gy_ps_push(table, keys, MANY, values, NULL));
        assert_ok(gy_ps_clock(table));
        assert_ok(gy_ps_push_pull(table, keys, MANY, values, rows, NULL));
        assert_ok(gy_ps_clock(table));
        assert_ok(gy_ps_pull(table, keys, MANY, rows, NULL));
        assert_int_equal(rows[1], (int64_t)(list / LISTS + 1) * 4);
    }
    gy_ps_close(ps);
    close_servers(&at);
}

GY_TEST(keys_are_sent_once)
{
    keys_go_once(1, gy_ps_asp());
    keys_go_once(3, gy_ps_asp());
}

GY_TEST(keys_of_held_pushes_are_sent_once)
{
    keys_go_once(2, gy_ps_bsp());
}

/* A server that does not have a list, or has another under its number, is sent it again. */
GY_TEST(a_list_that_is_not_there_is_sent_again)
{
    scene at;
    uint64_t keys[MANY];
    int64_t values[MANY], rows[MANY];
    open_servers(&at, 1);
    gy_ps *ps = worker_of(&at, 0, 1);
    gy_ps_table *table = NULL;
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    many_keys(keys, 1000);
    for (int i = 0; i < MANY; i++) {
        values[i] = 1;
    }
    ps_own_list *first = &table->parts[0].lists.of[0];
    for (int i = 0; i < 4; i++) {
        assert_ok(gy_ps_push(table, keys, MANY, values, NULL));
        assert_true(first->is_kept);
        first->number += 1000; /* which the server has never seen */
        table->parts[0].lists.number += 1000;
        if (i % 2 == 0) {
            assert_ok(gy_ps_pull(table, keys, MANY, rows, NULL));
            assert_int_equal(rows[0], i + 1);
        }
    }
    gy_ps_request *requests[3];
    for (int i = 0; i < 3; i++) { /* the later ones are not mistaken for the first */
        assert_ok(gy_ps_push(table, keys, MANY, values, &requests[i]));
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(gy_ps_wait(requests[i], gy_deadline_after(30)));
    }
    assert_ok(gy_ps_pull(table, keys, MANY, rows, NULL));
    assert_int_equal(rows[MANY - 1], 7);
    gy_ps_close(ps);
    close_servers(&at);
}

/* ---- Kills ---- */

/* A process of its own, before this one has threads; it tells a text first. */
static pid_t start_process(void (*run)(const char *told, int tell), const char *told,
                           char *said, size_t size_bytes)
{
    int tell[2];
    assert_int_equal(pipe(tell), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(tell[0]);
        run(told, tell[1]);
        _exit(1);
    }
    close(tell[1]);
    memset(said, 0, size_bytes);
    assert_true(child > 0 && read(tell[0], said, size_bytes - 1) > 0);
    close(tell[0]);
    return child;
}

static void serve_until_killed(const char *told, int tell)
{
    gy_ps_server *server = NULL;
    (void)told;
    if (gy_ps_server_open(&(gy_ps_server_options){.is_plaintext = true}, &server) == GY_OK) {
        const char *address = gy_ps_server_address(server);
        (void)!write(tell, address, strlen(address));
        (void)!gy_ps_server_run(server, -1);
    }
}

/* Another worker, which has pushed for its clock, and never ends it. */
static void work_until_killed(const char *told, int tell)
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    float value = 5;
    const gy_ps_options options = {
        .servers = told, .is_plaintext = true, .worker = 1, .workers = 2};
    if (gy_ps_open(&options, &ps) == GY_OK &&
        gy_ps_table_open(ps, "t", &(gy_ps_table_options){.rows = 1}, &table) == GY_OK &&
        gy_ps_push(table, NULL, 1, &value, NULL) == GY_OK) {
        (void)!write(tell, "1", 1);
    }
    for (;;) {
        pause();
    }
}

static void kill_process(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The memory that they share outlives a process that is killed; the connection does not. */
GY_TEST(a_killed_process_is_found_out_through_shared_memory)
{
    enum { ROWS = 4 << 20 };
    char address[64], joined[2];
    float value = 1, row = 0;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL, *large = NULL;
    gy_ps_request *push = NULL;
    float *values = gy_alloc_zero("test", ROWS, sizeof(float));
    pid_t server = start_process(serve_until_killed, NULL, address, sizeof(address));
    pid_t worker = start_process(work_until_killed, address, joined, sizeof(joined));
    assert_ok(gy_ps_open(
        &(gy_ps_options){.servers = address, .is_plaintext = true, .workers = 2}, &ps));
    assert_ok(gy_ps_table_open(ps, "t", &(gy_ps_table_options){.rows = 1}, &table));
    assert_ok(gy_ps_push(table, NULL, 1, &value, NULL));
    assert_ok(gy_ps_clock(table));
    kill_process(worker);
    assert_ok(gy_ps_pull(table, NULL, 1, &row, NULL)); /* it is not waited for */
    assert_true(row == 1);
    assert_ok(gy_ps_table_open(
        ps, "large", &(gy_ps_table_options){.rows = ROWS, .sync = {GY_PS_ASP, 0}}, &large));
    assert_ok(gy_ps_push(large, NULL, ROWS, values, &push));
    kill_process(server); /* in the middle of it */
    assert_status(gy_ps_wait(push, gy_deadline_after(0.5)), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "is not reached"));
    gy_ps_close(ps);
    gy_free(values);
}

GY_TEST_MAIN(NULL, NULL)
