/*
 * Goal: real processes: snapshots that are taken while workers push are of one clock, and what
 * begins again from one has exactly the pushes of the clocks before. What is damaged, foreign
 * or does not fit on the disk is one line, and the snapshot before stays whole.
 *
 * Worker w adds 1 to its own row and to those that all share in each clock, so that all rows of
 * a table tell the clock at which it was saved.
 */
#include "ps_cluster_kit.h"

#include "base/disk.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { SERVERS = 2, WORKERS = 2, SHARED = 12, ROWS = SHARED + WORKERS, SAVES = 12 };

static cluster at;
static char list[160];
static char *const resume[] = {"--resume", NULL};

/* ---- Processes ---- */

static void begin(void)
{
    at = (cluster){.has_folders = true};
    cluster_begin(&at);
}

static void start_servers(bool resumes)
{
    at.server_more = resumes ? resume : NULL;
    for (int i = 0; i < SERVERS; i++) {
        cluster_begin_server(&at, i);
    }
    for (int i = 0; i < SERVERS; i++) {
        cluster_await_server(&at, i);
    }
    snprintf(list, sizeof(list), "%s,%s", at.addresses[0], at.addresses[1]);
}

static void kill_servers(void)
{
    cluster_kill_all(at.servers, SERVERS);
}

/* ---- Workers ---- */

typedef struct work {
    uint32_t worker;
    gy_ps_rule rule;
    _Atomic bool *is_over;
    _Atomic int64_t rounds;
    _Atomic gy_status status; /* of a failure, once its text is there */
    char text[256];
} work;

#define NEED(work, call)                                                                       \
    do {                                                                                       \
        gy_status need_ = (call);                                                              \
        if (need_ < 0) {                                                                       \
            snprintf((work)->text, sizeof((work)->text), "%s", gy_error_text());               \
            atomic_store_explicit(&(work)->status, need_, memory_order_release); /* main's */  \
            goto out;                                                                          \
        }                                                                                      \
    } while (0)

static gy_ps_options options_of(uint32_t worker)
{
    gy_ps_options options = cluster_options(&at, worker, WORKERS);
    options.timeout_s = 60;
    if (at.lead_list[0] == '\0') {
        options.lead = NULL;
        options.servers = list;
    }
    return options;
}

static gy_ps_table_options table_of(gy_ps_rule rule)
{
    return (gy_ps_table_options){.dtype = GY_I64, .is_sparse = true, .sync = {.rule = rule}};
}

static void fill_keys(uint64_t keys[ROWS])
{
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i * 1000003; /* over all parts */
    }
}

static void *train(void *arg)
{
    work *self = arg;
    gy_ps *ps = NULL;
    gy_ps_table *tables[2] = {NULL};
    uint64_t keys[ROWS];
    int64_t ones[ROWS], seen[ROWS];
    const gy_ps_options options = options_of(self->worker);
    const gy_ps_table_options of = table_of(self->rule);
    fill_keys(keys);
    for (int i = 0; i < ROWS; i++) {
        ones[i] = i < SHARED || i == SHARED + (int)self->worker;
    }
    NEED(self, gy_ps_open(&options, &ps));
    NEED(self, gy_ps_table_open(ps, "t/a", &of, &tables[0]));
    NEED(self, gy_ps_table_open(ps, "t/b", &of, &tables[1]));
    while (!atomic_load_explicit(self->is_over, memory_order_acquire)) { /* main's */
        for (int i = 0; i < 2; i++) { /* in between the tables are at different clocks */
            NEED(self, gy_ps_push(tables[i], keys, ROWS, ones, NULL));
            NEED(self, gy_ps_clock(tables[i]));
            NEED(self, gy_ps_pull(tables[i], keys, ROWS, seen, NULL));
        }
        atomic_fetch_add_explicit(&self->rounds, 1, memory_order_release); /* await's */
    }
out:
    gy_ps_close(ps);
    return NULL;
}

static work works[WORKERS];
static gy_thread threads[WORKERS];
static _Atomic bool is_over;

static void start_workers(gy_ps_rule rule)
{
    atomic_store_explicit(&is_over, false, memory_order_release); /* train's */
    for (uint32_t w = 0; w < WORKERS; w++) {
        works[w] = (work){.worker = w, .rule = rule, .is_over = &is_over};
        threads[w] = (gy_thread){.is_started = false};
        assert_ok(gy_thread_start(&threads[w], "test-worker", train, &works[w]));
    }
}

static void await_rounds(int64_t more)
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 60);
    for (int w = 0; w < WORKERS; w++) {
        int64_t wanted = atomic_load_explicit(&works[w].rounds, memory_order_acquire) + more;
        while (atomic_load_explicit(&works[w].rounds, memory_order_acquire) < wanted) {
            /* train's */
            if (atomic_load_explicit(&works[w].status, memory_order_acquire) < 0 ||
                gy_now_ns(env) > deadline.at_ns) {
                fail_msg("worker %d does not go on: %s", w, works[w].text);
            }
            (void)gy_env_poll(env, gy_env_deadline(env, 0.002));
        }
    }
}

/* Rounds that are acknowledged; each may have begun one more. */
static void count_rounds(int64_t rounds[WORKERS])
{
    for (int w = 0; w < WORKERS; w++) {
        rounds[w] = atomic_load_explicit(&works[w].rounds, memory_order_acquire); /* train's */
    }
}

/* They end by themselves, since their calls fail. */
static void await_failures(void)
{
    for (int w = 0; w < WORKERS; w++) {
        gy_thread_join(&threads[w]);
    }
}

static void join_workers(void)
{
    atomic_store_explicit(&is_over, true, memory_order_release); /* train's */
    await_failures();
}

/* Rows of both tables as one that comes again sees them, before anybody's clock. It is a worker
 * beyond the others, who are all waited for when it leaves. */
static void read_rows(gy_ps_rule rule, int64_t a[ROWS], int64_t b[ROWS])
{
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    uint64_t keys[ROWS];
    const gy_ps_options options = options_of(WORKERS);
    const gy_ps_table_options of = table_of(rule);
    fill_keys(keys);
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "t/a", &of, &table));
    assert_ok(gy_ps_pull(table, keys, ROWS, a, NULL));
    assert_ok(gy_ps_table_open(ps, "t/b", &of, &table));
    assert_ok(gy_ps_pull(table, keys, ROWS, b, NULL));
    gy_ps_close(ps);
}

static void check_rows(int64_t clock)
{
    int64_t rows[2][ROWS];
    read_rows(GY_PS_BSP, rows[0], rows[1]);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < ROWS; i++) {
            assert_int_equal(rows[t][i], i < SHARED ? WORKERS * clock : clock);
        }
    }
}

static void save(const char *name, gy_ps_saved *saved)
{
    const gy_ps_options options = options_of(0);
    assert_ok(gy_ps_save(&options, name, saved));
}

static void forget_snapshot(int number)
{
    char path[160];
    for (int i = 0; i < SERVERS; i++) {
        snprintf(path, sizeof(path), "%s/snapshots%d/snapshot-%d", at.folder, i, number);
        assert_int_equal(gy_disk_remove_tree(path), 0);
    }
}

/* ---- Without a lead ---- */

GY_TEST(a_snapshot_under_load_is_of_one_clock)
{
    gy_ps_saved saved, again;
    begin();
    start_servers(false);
    start_workers(GY_PS_BSP);
    await_rounds(10);
    uint64_t clocks[SAVES];
    for (int i = 0; i < SAVES; i++) {
        await_rounds(1);
        save(NULL, &saved);
        clocks[i] = saved.clock;
        assert_int_equal(saved.number, i + 1);
        assert_true(saved.parts == SERVERS && saved.tables == 2 && saved.clock >= 10);
    }
    await_rounds(5);
    join_workers();
    kill_servers();
    for (int i = SAVES - 1; i > 0; i--) {
        start_servers(true);
        check_rows((int64_t)clocks[i]);
        kill_servers();
        forget_snapshot(i + 1);
    }
    start_servers(true);
    start_workers(GY_PS_BSP); /* all workers come again, and go on */
    await_rounds(7);
    save("new", &again);
    assert_true(again.clock >= clocks[0] + 7 && again.number == 2);
    save(NULL, &again); /* whatever names there are */
    assert_int_equal(again.number, 3);
    join_workers();
    assert_true(works[0].status >= 0 && works[1].status >= 0);
    kill_servers();
    start_servers(true);
    check_rows((int64_t)again.clock);
    cluster_end(&at);
}

GY_TEST(asynchronous_tables_are_saved_between_pushes)
{
    int64_t rows[2][ROWS];
    gy_ps_saved saved;
    begin();
    start_servers(false);
    start_workers(GY_PS_ASP);
    await_rounds(20);
    int64_t before[WORKERS], after[WORKERS];
    count_rounds(before);
    save(NULL, &saved);
    count_rounds(after);
    await_rounds(5);
    join_workers();
    kill_servers();
    start_servers(true);
    read_rows(GY_PS_ASP, rows[0], rows[1]);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < ROWS; i++) { /* what was acknowledged before it, no later rounds */
            bool is_own = i >= SHARED;
            assert_true(rows[t][i] >= (is_own ? before[i - SHARED] : before[0] + before[1]));
            assert_true(rows[t][i] <=
                        (is_own ? after[i - SHARED] + 1 : after[0] + after[1] + WORKERS));
        }
    }
    cluster_end(&at);
}

/* ---- What cannot be used ---- */

static void flip(const char *name, const char *file, off_t place)
{
    char path[256];
    unsigned char byte = 0;
    snprintf(path, sizeof(path), "%s/snapshots0/%s/%s", at.folder, name, file);
    int of = open(path, O_RDWR | O_CLOEXEC);
    assert_true(of >= 0);
    assert_int_equal(pread(of, &byte, 1, place), 1);
    byte ^= 4;
    assert_int_equal(pwrite(of, &byte, 1, place), 1);
    close(of);
}

/* It ends by itself, with a line that has this text. */
static void need_refused(int index, const char *text)
{
    char path[128], told[4096];
    int status = 0;
    snprintf(path, sizeof(path), "%s/server%d.log", at.folder, index);
    assert_int_equal(truncate(path, 0), 0);
    cluster_begin_server(&at, index);
    assert_int_equal(waitpid(at.servers[index], &status, 0), at.servers[index]);
    at.servers[index] = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    told[fread(told, 1, sizeof(told) - 1, file)] = '\0';
    fclose(file);
    if (strstr(told, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, told);
    }
}

GY_TEST(damaged_and_foreign_snapshots_are_refused)
{
    gy_ps_saved one, two;
    char path[256], to[256];
    begin();
    start_servers(false);
    start_workers(GY_PS_BSP);
    await_rounds(3);
    save("one", &one);
    await_rounds(3);
    save("two", &two);
    gy_ps_options options = options_of(0);
    assert_int_equal(gy_ps_save(&options, "one", NULL), GY_EXISTS);
    assert_int_equal(gy_ps_save(&options, "../x", NULL), GY_ARG);
    options.servers = at.addresses[0]; /* half of the tables is no snapshot */
    assert_int_equal(gy_ps_save(&options, "half", NULL), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "lists of servers differ"));
    join_workers();
    kill_servers();
    flip("two", "part-0", 300); /* the one before it is whole */
    start_servers(true);
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    const gy_ps_options again = options_of(0);
    const gy_ps_table_options of = table_of(GY_PS_BSP);
    assert_ok(gy_ps_open(&again, &ps));
    assert_int_equal(gy_ps_table_open(ps, "t/a", &of, &table), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "same snapshot"));
    gy_ps_close(ps);
    kill_servers();
    snprintf(path, sizeof(path), "%s/snapshots0/one/part-0", at.folder);
    assert_int_equal(truncate(path, 100), 0); /* half a file */
    need_refused(0, "has no whole snapshot");
    flip("one", "manifest", 40);
    need_refused(0, "a manifest whose checksum is wrong");
    snprintf(path, sizeof(path), "%s/snapshots1/two/part-1", at.folder);
    snprintf(to, sizeof(to), "%s/snapshots0/two/part-1", at.folder);
    assert_int_equal(rename(path, to), 0);
    flip("two", "part-0", 300); /* it is whole again, and there are two parts of it */
    need_refused(0, "2 whole parts");
    cluster_end(&at);
}

/* ---- A full disk ---- */

static void limit_files(rlim_t bytes)
{
    for (int i = 0; i < SERVERS; i++) {
        const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
        assert_int_equal(prlimit(at.servers[i], RLIMIT_FSIZE, &limit, NULL), 0);
    }
}

GY_TEST(a_full_disk_leaves_the_snapshot_before)
{
    gy_ps_saved saved;
    struct stat there;
    char path[256];
    begin();
    start_servers(false);
    start_workers(GY_PS_BSP);
    await_rounds(3);
    save("good", &saved);
    limit_files(200);
    const gy_ps_options options = options_of(0);
    assert_int_equal(gy_ps_save(&options, "bad", NULL), GY_IO);
    assert_non_null(strstr(gy_error_text(), "/bad/part-"));
    printf("%s\n", gy_error_text());
    await_rounds(5); /* the servers go on */
    for (int i = 0; i < SERVERS; i++) {
        snprintf(path, sizeof(path), "%s/snapshots%d/bad", at.folder, i);
        assert_true(stat(path, &there) != 0);
    }
    limit_files(RLIM_INFINITY);
    save("bad", NULL); /* there is room again */
    join_workers();
    assert_true(works[0].status >= 0 && works[1].status >= 0);
    for (int i = 0; i < SERVERS; i++) {
        snprintf(path, sizeof(path), "%s/snapshots%d/bad", at.folder, i);
        assert_int_equal(gy_disk_remove_tree(path), 0);
    }
    kill_servers();
    start_servers(true);
    check_rows((int64_t)saved.clock);
    cluster_end(&at);
}

/* ---- With a lead ---- */

static void end_lead(void)
{
    cluster_kill(&at.leads[0]);
}

/* A lead of a table that knows nothing of what was. */
static void start_new_lead(char *const *more)
{
    char path[128];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < GY_COUNT(ends); i++) {
        snprintf(path, sizeof(path), "%s/lead.db%s", at.folder, ends[i]);
        (void)unlink(path);
    }
    at.lead_more = more;
    cluster_start_lead(&at, 0);
}

GY_TEST(a_cluster_that_lost_all_replicas_begins_again)
{
    gy_ps_saved saved;
    char wanted[128];
    begin();
    at.lead_more = resume; /* of which there is nothing at first */
    cluster_start_lead(&at, 0);
    start_servers(false);
    start_workers(GY_PS_BSP);
    await_rounds(5);
    save("good", &saved);
    assert_int_equal(saved.parts, CLUSTER_PARTS);
    await_rounds(5);
    kill_servers();
    await_failures();
    snprintf(wanted, sizeof(wanted),
             "replicas are gone; the newest snapshot, good, is of clock %llu",
             (unsigned long long)saved.clock);
    for (int w = 0; w < WORKERS; w++) {
        assert_int_equal(works[w].status, GY_PEER);
        if (strstr(works[w].text, wanted) == NULL) {
            fail_msg("'%s' is not in '%s'", wanted, works[w].text);
        }
    }
    start_servers(false);
    check_rows((int64_t)saved.clock);
    start_workers(GY_PS_BSP);
    await_rounds(5);
    save("better", &saved);
    join_workers();
    assert_true(works[0].status >= 0 && works[1].status >= 0);
    kill_servers();
    end_lead();
    start_new_lead(NULL); /* it has another cluster */
    need_refused(0, "of cluster");
    end_lead();
    start_new_lead(resume);
    start_servers(false);
    check_rows((int64_t)saved.clock);
    cluster_end(&at);
}

GY_TEST(snapshots_of_servers_alone_are_refused_by_a_lead)
{
    begin();
    start_servers(false);
    start_workers(GY_PS_BSP);
    await_rounds(1);
    save("alone", NULL);
    join_workers();
    kill_servers();
    start_new_lead(resume);
    need_refused(0, "of cluster 0:");
    cluster_end(&at);
}

GY_TEST_MAIN(NULL, NULL)
