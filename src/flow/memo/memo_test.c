/* Goal: cached results are found again, also behind a torn index; keys change with what they
 * depend on; collecting removes the least recently used results. */
#include "flow/channel/start.h"
#include "flow/memo/key.h"
#include "flow/memo/memo_priv.h"
#include "flow/memo/places.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "gy_test.h"

typedef struct place {
    char top[200], memo[256], data[256];
} place;

static place make_place(void)
{
    place at;
    snprintf(at.top, sizeof(at.top), "/tmp/gyre-memo-test-XXXXXX");
    assert_non_null(mkdtemp(at.top));
    snprintf(at.memo, sizeof(at.memo), "%s/memo", at.top);
    snprintf(at.data, sizeof(at.data), "%s/data", at.top);
    assert_int_equal(mkdir(at.data, 0700), 0);
    return at;
}

static void remove_place(const place *at)
{
    char line[300], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->top);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static gy_memo_store *open_store(const place *at)
{
    gy_memo_store *store = NULL;
    assert_ok(gy_flow_memo_open(gy_env_real(), at->memo, &store));
    return store;
}

/* Store a result under key `n` whose file has `bytes` bytes. */
static gy_status try_keep(gy_memo_store *store, const place *at, uint64_t n, size_t bytes)
{
    const gy_attempt id = {(uint32_t)n, 0, 1};
    char name[GY_NAME_BYTES], path[400], *text = gy_alloc_zero("test", bytes + 1, 1);
    snprintf(path, sizeof(path), "%s/%s", at->data, gy_flow_name_data(id, 0, 1, name));
    memset(text, 'x', bytes);
    write_file(path, text);
    gy_free(text);
    const gy_memo_entry entry = {.key = {n, n},
                                 .content = {n, 0},
                                 .attempt = 1,
                                 .width = 1,
                                 .report = "report",
                                 .report_bytes = 6};
    return gy_flow_memo_keep(store, &entry, &(gy_memo_place){.id = id, .data = at->data});
}

static void keep(gy_memo_store *store, const place *at, uint64_t n, size_t bytes)
{
    assert_ok(try_keep(store, at, n, bytes));
}

GY_TEST(what_is_kept_is_found_again)
{
    place at = make_place();
    gy_memo_store *store = open_store(&at);
    for (uint64_t n = 1; n <= 200; n++) {
        keep(store, &at, n, 100);
    }
    gy_flow_memo_close(store);
    store = open_store(&at);
    assert_int_equal(gy_flow_memo_bytes(store), 200 * 4096); /* whole pages on disk */
    for (uint64_t n = 1; n <= 200; n++) {
        const gy_memo_entry *entry = gy_flow_memo_find(store, (gy_key){n, n});
        assert_non_null(entry);
        assert_int_equal(entry->content.high, n);
        assert_memory_equal(entry->report, "report", 6);
    }
    assert_null(gy_flow_memo_find(store, (gy_key){0, 1}));
    char path[400];
    const gy_attempt other = {999, 0, 1};
    assert_ok(gy_flow_memo_lend(store, gy_flow_memo_find(store, (gy_key){5, 5}),
                                &(gy_memo_place){.id = other, .data = at.data}));
    snprintf(path, sizeof(path), "%s/999.0.1", at.data);
    assert_int_equal(access(path, R_OK), 0);
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST(a_torn_index_loses_its_end_alone)
{
    place at = make_place();
    gy_memo_store *store = open_store(&at);
    keep(store, &at, 1, 10);
    char index[300];
    struct stat whole, about;
    snprintf(index, sizeof(index), "%s/index", at.memo);
    assert_int_equal(stat(index, &whole), 0);
    keep(store, &at, 2, 10);
    gy_flow_memo_close(store);
    assert_int_equal(stat(index, &about), 0);
    for (off_t size = about.st_size - 1; size > whole.st_size; size -= 37) {
        assert_int_equal(truncate(index, size), 0);
        store = open_store(&at);
        assert_non_null(gy_flow_memo_find(store, (gy_key){1, 1}));
        assert_null(gy_flow_memo_find(store, (gy_key){2, 2}));
        keep(store, &at, 3, 10); /* appending continues after the last complete record */
        gy_flow_memo_close(store);
        store = open_store(&at);
        assert_non_null(gy_flow_memo_find(store, (gy_key){3, 3}));
        gy_flow_memo_close(store);
        assert_int_equal(truncate(index, whole.st_size + 40), 0);
    }
    /* a flipped bit: the record with it and all following ones are gone */
    store = open_store(&at);
    keep(store, &at, 4, 10);
    gy_flow_memo_close(store);
    assert_int_equal(stat(index, &about), 0);
    const int file = open(index, O_RDWR);
    char byte = 0;
    assert_int_equal(pread(file, &byte, 1, about.st_size - 20), 1);
    byte ^= 16;
    assert_int_equal(pwrite(file, &byte, 1, about.st_size - 20), 1);
    close(file);
    store = open_store(&at);
    assert_non_null(gy_flow_memo_find(store, (gy_key){1, 1}));
    assert_null(gy_flow_memo_find(store, (gy_key){4, 4}));
    gy_flow_memo_close(store);
    write_file(index, "something else");
    assert_status(gy_flow_memo_open(gy_env_real(), at.memo, &store), GY_FORMAT);
    remove_place(&at);
}

/* A disk that cannot link files, and whose n-th call of some kind fails. */
static gy_disk_ops far_disk;
static int far_calls, far_bad;
static char far_name[400]; /* of the object that is made */

static int no_link(gy_env *env, const char *from, const char *to)
{
    (void)env, (void)from, (void)to;
    return -EXDEV;
}

/* A file that is being written does not have its final name yet. */
static bool is_far_bad(void)
{
    assert_int_equal(access(far_name, F_OK), -1);
    return ++far_calls == far_bad;
}

static int64_t far_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    return is_far_bad() ? -ENOSPC : gy_disk_real.write(env, file, data, size_bytes);
}

static int64_t far_write_nothing(gy_env *env, int file, const void *data, size_t size_bytes)
{
    return is_far_bad() ? 0 : gy_disk_real.write(env, file, data, size_bytes);
}

static int64_t far_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    return is_far_bad() ? -EIO : gy_disk_real.read(env, file, data, size_bytes);
}

static int far_sync(gy_env *env, int file)
{
    return access(far_name, F_OK) != 0 && is_far_bad() ? -EIO : gy_disk_real.sync(env, file);
}

static int far_rename(gy_env *env, const char *from, const char *to)
{
    return is_far_bad() ? -EIO : gy_disk_real.rename(env, from, to);
}

/* Without links a copy is complete or absent, and its result is recorded only if it is
 * complete. */
GY_TEST(a_copy_that_fails_leaves_nothing)
{
    enum { BYTES = 3 << 20 };
    gy_env_ops ops = *gy_env_real()->ops;
    ops.disk = &far_disk;
    gy_env env = {&ops};
    bool is_over = false;
    for (int kind = 0, failed = 0; kind < 2; kind++, is_over = false) {
        for (far_bad = 1; !is_over; far_bad++) {
            place at = make_place();
            gy_memo_store *store = NULL;
            char line[300], out[256], data[400];
            far_disk = gy_disk_real;
            assert_ok(gy_flow_memo_open(&env, at.memo, &store));
            far_disk.link = no_link;
            far_disk.read = far_read;
            far_disk.write = kind == 0 ? far_write : far_write_nothing;
            far_disk.sync = far_sync;
            far_disk.rename = far_rename;
            far_calls = 0;
            snprintf(far_name, sizeof(far_name), "%s/objects/%016x%016x.0.1", at.memo, 1, 1);
            const gy_status status = try_keep(store, &at, 1, BYTES);
            is_over = status == GY_OK;
            failed += !is_over;
            assert_int_equal(is_over, far_calls < far_bad);
            assert_int_equal(gy_flow_memo_find(store, (gy_key){1, 1}) != NULL, is_over);
            snprintf(line, sizeof(line), "ls -A %s/objects | wc -l", at.memo);
            assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
            assert_int_equal(strtol(out, NULL, 10), is_over);
            far_calls = far_bad; /* no further calls fail */
            if (is_over) {       /* and is copied back */
                struct stat about;
                snprintf(data, sizeof(data), "%s/9.0.1", at.data);
                snprintf(far_name, sizeof(far_name), "%s", data);
                assert_ok(
                    gy_flow_memo_lend(store, gy_flow_memo_find(store, (gy_key){1, 1}),
                                      &(gy_memo_place){.id = {9, 0, 1}, .data = at.data}));
                assert_int_equal(stat(data, &about), 0);
                assert_int_equal(about.st_size, BYTES);
                assert_int_equal(about.st_nlink, 1);
            }
            gy_flow_memo_close(store);
            remove_place(&at);
        }
        assert_true(failed >= 3 * (kind + 1));
    }
}

/* A result's files are bits of one number: an entry for more members than the number has bits
 * is refused. */
GY_TEST(a_result_of_too_many_members_is_refused)
{
    static const uint16_t widths[] = {0, GY_MEMO_WIDTH_MAX + 1, UINT16_MAX, GY_MEMO_WIDTH_MAX};
    for (size_t i = 0; i < GY_COUNT(widths); i++) {
        place at = make_place();
        gy_memo_store *store = open_store(&at);
        const gy_memo_entry entry = {.key = {1, 1}, .attempt = 1, .width = widths[i]};
        assert_ok(gy_flow_memo_append(store, GY_MEMO_KEPT, &entry, sizeof(entry), NULL, 0));
        gy_flow_memo_close(store);
        const bool is_good = i + 1 == GY_COUNT(widths);
        assert_status(gy_flow_memo_open(gy_env_real(), at.memo, &store),
                      is_good ? GY_OK : GY_FORMAT);
        if (is_good) {
            gy_flow_memo_close(store);
        }
        remove_place(&at);
    }
}

/* An environment in which another process releases the lock during a pause. */
typedef struct patient_env {
    gy_env env;
    int lock, pauses;
} patient_env;

static void let_go(gy_env *env, uint64_t round)
{
    (void)round;
    patient_env *patient = (patient_env *)env;
    patient->pauses++;
    assert_int_equal(flock(patient->lock, LOCK_UN), 0);
}

GY_TEST(who_holds_the_lock_is_waited_for)
{
    place at = make_place();
    gy_flow_memo_close(open_store(&at));
    char path[300];
    snprintf(path, sizeof(path), "%s/lock", at.memo);
    gy_env_ops ops = *gy_env_real()->ops;
    ops.pause = let_go;
    patient_env patient = {.env = {&ops}, .lock = open(path, O_RDWR)};
    assert_int_equal(flock(patient.lock, LOCK_EX), 0);
    gy_memo_store *store = NULL;
    assert_ok(gy_flow_memo_open(&patient.env, at.memo, &store));
    assert_int_equal(patient.pauses, 1);
    gy_flow_memo_close(store);
    close(patient.lock);
    remove_place(&at);
}

/* On storage shared by hosts, an append waits for another host's append. */
GY_TEST(hosts_append_one_after_the_other)
{
    place at = make_place();
    gy_flow_memo_close(open_store(&at));
    char path[300];
    snprintf(path, sizeof(path), "%s/index", at.memo);
    gy_env_ops ops = *gy_env_real()->ops;
    ops.pause = let_go;
    patient_env patient = {.env = {&ops}, .lock = open(path, O_RDWR)};
    gy_memo_store *store = NULL;
    assert_ok(gy_flow_memo_open(&patient.env, at.memo, &store));
    assert_int_equal(flock(patient.lock, LOCK_EX), 0);
    keep(store, &at, 1, 10); /* on one machine one call is enough */
    assert_int_equal(patient.pauses, 0);
    gy_flow_memo_share(store, true);
    keep(store, &at, 2, 10);
    assert_int_equal(patient.pauses, 1);
    assert_int_equal(flock(patient.lock, LOCK_EX | LOCK_NB), 0); /* the lock was released */
    gy_flow_memo_close(store);
    close(patient.lock);
    store = open_store(&at);
    assert_non_null(gy_flow_memo_find(store, (gy_key){2, 2}));
    gy_flow_memo_close(store);
    remove_place(&at);
}

/* A later job of a program has its number in front of the names of files. */
GY_TEST(files_are_those_of_the_jobs_round)
{
    place at = make_place();
    char path[400];
    gy_memo_store *store = open_store(&at);
    keep(store, &at, 1, 10);
    assert_ok(
        gy_flow_memo_lend(store, gy_flow_memo_find(store, (gy_key){1, 1}),
                          &(gy_memo_place){.id = {7, 0, 1}, .round = 3, .data = at.data}));
    snprintf(path, sizeof(path), "%s/3-7.0.1", at.data);
    assert_int_equal(access(path, R_OK), 0);
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST(jobs_open_a_folder_at_once)
{
    place at = make_place();
    pid_t children[6];
    for (int c = 0; c < 6; c++) {
        children[c] = fork();
        if (children[c] == 0) { /* each child stores its own results */
            gy_memo_store *store = NULL;
            for (uint64_t n = 0; n < 30; n++) {
                if (gy_flow_memo_open(gy_env_real(), at.memo, &store) != GY_OK) {
                    _exit(1);
                }
                keep(store, &at, (uint64_t)c * 1000 + n, 10);
                gy_flow_memo_close(store);
            }
            _exit(0);
        }
    }
    for (int c = 0; c < 6; c++) {
        int status = 1;
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_int_equal(status, 0);
    }
    gy_memo_store *store = open_store(&at);
    for (uint64_t n = 0; n < 180; n++) {
        const uint64_t key = n / 30 * 1000 + n % 30;
        assert_non_null(gy_flow_memo_find(store, (gy_key){key, key}));
    }
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST(collecting_removes_the_least_recently_used)
{
    place at = make_place();
    gy_memo_store *store = open_store(&at);
    for (uint64_t n = 1; n <= 10; n++) {
        keep(store, &at, n, 1000);
    }
    assert_status(gy_flow_collect(at.memo, 5 * 4096, NULL), GY_STATE); /* a job has it open */
    assert_ok(gy_flow_memo_lend(store, gy_flow_memo_find(store, (gy_key){2, 2}),
                                &(gy_memo_place){.id = {50, 0, 1}, .data = at.data}));
    gy_flow_memo_close(store);
    char stray[400];
    snprintf(stray, sizeof(stray), "%s/objects/stray", at.memo);
    write_file(stray, "12345");
    snprintf(stray, sizeof(stray), "%s/objects/.gyre-0123456789abcdef.tmp", at.memo);
    write_file(stray, "1"); /* an unfinished copy */
    int64_t freed = 0;
    assert_ok(gy_flow_collect(at.memo, 5 * 4096, &freed));
    assert_int_equal(freed, 7 * 4096);
    store = open_store(&at);
    assert_int_equal(gy_flow_memo_bytes(store), 5 * 4096);
    for (uint64_t n = 1; n <= 10; n++) {
        assert_int_equal(gy_flow_memo_find(store, (gy_key){n, n}) != NULL, n == 2 || n > 6);
    }
    gy_flow_memo_close(store);
    assert_status(gy_flow_collect(at.data, 0, NULL), GY_NOTFOUND);
    assert_status(gy_flow_collect(at.memo, -1, NULL), GY_ARG);
    remove_place(&at);
}

/* ---- keys ---- */

static gy_status make_keys(gy_dag *dag, gy_memo_store *memo, gy_key *keys, uint32_t count)
{
    gy_proto_keys made = {.memo = memo};
    gy_store_stamps_forget(); /* as at the end of a job */
    assert_ok(gy_flow_key_build(&made.build));
    gy_status status = gy_proto_keys_make(&made, dag);
    for (uint32_t p = 0; status >= 0 && p < count; p++) {
        bool is_kept = false;
        int64_t bytes = 0;
        gy_proto_keys_tell(&made, dag, p, &keys[p], &is_kept, &bytes);
    }
    gy_proto_keys_fini(&made);
    return status;
}

static gy_status key_of(const gy_vertex_options *options, gy_memo_store *memo, gy_key *key)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(NULL, "keys", &dag));
    (void)gy_dag_vertex(dag, options);
    assert_null(gy_dag_failure(dag));
    gy_status status = make_keys(dag, memo, key, 1);
    gy_dag_free(dag);
    return status;
}

GY_TEST(keys_change_with_what_they_stand_on)
{
    const gy_vertex_options options[] = {
        {.function = "a"},
        {.function = "b"},
        {.function = "a", .stage = "b"},
        {.function = "a", .parameter = "x", .parameter_bytes = 1},
        {.function = "a", .parameter = "y", .parameter_bytes = 1},
        {.function = "a", .inputs = 1},
        {.function = "a", .outputs = 1},
        {.function = "a", .memory_bytes = 4096},
        {.function = "a", .determinism = GY_OUTPUT_UNORDERED},
        {.command = (const char *[]){"a", NULL}},
        {.command = (const char *[]){"a", "b", NULL}},
    };
    gy_key keys[GY_COUNT(options)], again;
    for (size_t i = 0; i < GY_COUNT(options); i++) {
        assert_ok(key_of(&options[i], NULL, &keys[i]));
        assert_ok(key_of(&options[i], NULL, &again));
        assert_memory_equal(&keys[i], &again, sizeof(again));
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(&keys[i], &keys[j], sizeof(again));
        }
    }
}

GY_TEST(equal_vertices_have_keys_of_their_own)
{
    enum { EQUAL = 300 };
    gy_key keys[EQUAL];
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(NULL, "keys", &dag));
    for (int i = 0; i < EQUAL; i++) {
        (void)gy_dag_vertex(dag, &(gy_vertex_options){.function = i % 2 == 0 ? "a" : "b"});
    }
    assert_ok(make_keys(dag, NULL, keys, EQUAL));
    for (int i = 0; i < EQUAL; i++) {
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(&keys[i], &keys[j], sizeof(gy_key));
        }
    }
    gy_dag_free(dag);
}

GY_TEST(files_are_known_by_content_or_by_stat)
{
    place at = make_place();
    gy_memo_store *store = open_store(&at);
    char path[300], part[320];
    snprintf(path, sizeof(path), "%s/in:put", at.top); /* a colon alone is no range */
    snprintf(part, sizeof(part), "%s:2:3", path);
    const gy_vertex_options whole = {.function = "a", .files = (const char *[]){path, NULL}};
    const gy_vertex_options range = {.function = "a", .files = (const char *[]){part, NULL}};
    gy_key content[3], ranged[2], about[2];
    write_file(path, "0123456789");
    assert_ok(key_of(&whole, store, &content[0]));
    assert_ok(key_of(&range, store, &ranged[0]));
    assert_ok(key_of(&whole, NULL, &about[0]));
    assert_int_equal(unlink(path), 0);
    write_file(path, "xx234xxxxx"); /* the range is unchanged */
    assert_ok(key_of(&whole, store, &content[1]));
    assert_ok(key_of(&range, store, &ranged[1]));
    assert_memory_not_equal(&content[0], &content[1], sizeof(gy_key));
    assert_memory_equal(&ranged[0], &ranged[1], sizeof(gy_key));
    assert_int_equal(unlink(path), 0);
    write_file(path, "0123456789");
    assert_ok(key_of(&whole, store, &content[2]));
    assert_ok(key_of(&whole, NULL, &about[1]));
    assert_memory_equal(&content[0], &content[2], sizeof(gy_key));
    assert_memory_not_equal(&about[0], &about[1], sizeof(gy_key));
    write_file(path, "012"); /* too short for the range */
    assert_status(key_of(&range, store, &ranged[0]), GY_ARG);
    assert_int_equal(unlink(path), 0);
    assert_status(key_of(&whole, NULL, &about[0]), GY_NOTFOUND);
    const gy_vertex_options folder = {.function = "a", .files = (const char *[]){at.top, NULL}};
    assert_status(key_of(&folder, NULL, &about[0]), GY_IO);
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST(contents_are_read_once)
{
    place at = make_place();
    gy_memo_store *store = open_store(&at);
    char path[300];
    snprintf(path, sizeof(path), "%s/in", at.top);
    write_file(path, "text");
    const gy_vertex_options options = {.function = "a", .files = (const char *[]){path, NULL}};
    gy_key key;
    assert_ok(key_of(&options, store, &key));
    assert_int_equal(store->by_file.count, 1);
    assert_ok(key_of(&options, store, &key));
    assert_int_equal(store->by_file.count, 1);
    gy_flow_memo_close(store);
    store = open_store(&at); /* also by a later job */
    assert_int_equal(store->by_file.count, 1);
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST(ranges_of_files_are_read)
{
    gy_file_range range;
    assert_ok(gy_file_range_read("/a/b:c", &range));
    assert_string_equal(range.path, "/a/b:c");
    assert_true(range.offset == 0 && range.size_bytes == UINT64_MAX);
    assert_ok(gy_file_range_read("/a/b:5:17", &range));
    assert_string_equal(range.path, "/a/b");
    assert_true(range.offset == 5 && range.size_bytes == 17);
    assert_ok(gy_file_range_read("/a/b:17", &range)); /* one number is none */
    assert_string_equal(range.path, "/a/b:17");
    assert_ok(gy_file_range_read("b", &range));
    assert_int_equal(range.path[0], '/');
    assert_status(gy_file_range_read("", &range), GY_ARG);
    assert_ok(gy_file_range_read("file://h1,h2/a%20b:5:17", &range));
    assert_string_equal(range.path, "/a b");
    assert_string_equal(range.hosts, "h1 h2");
    assert_true(range.offset == 5 && range.size_bytes == 17);
    assert_ok(gy_file_range_read("file:///a", &range));
    assert_string_equal(range.hosts, "");
    assert_status(gy_file_range_read("file://h1:5:17", &range), GY_ARG);
    assert_status(gy_file_range_read("s3a://b/k:5:17", &range), GY_ARG);
}

/* A name with numbers after colons is no range if a file of that name exists. */
GY_TEST(names_that_look_like_ranges_are_names)
{
    char folder[] = "/tmp/gyre-range-XXXXXX", path[64], uri[96], text[128];
    gy_file_range range;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/x:1:2", folder);
    assert_ok(gy_store_file_write(gy_env_real(), path, "abcdef", 6));
    (void)snprintf(uri, sizeof(uri), "file://%s", path);
    const char *const whole[] = {path, uri};
    for (size_t i = 0; i < GY_COUNT(whole); i++) {
        assert_ok(gy_file_range_read(whole[i], &range));
        assert_string_equal(range.path, path);
        assert_true(range.offset == 0 && range.size_bytes == UINT64_MAX);
        (void)snprintf(text, sizeof(text), "%s:3:1", whole[i]);
        assert_ok(gy_file_range_read(text, &range));
        assert_string_equal(range.path, path);
        assert_true(range.offset == 3 && range.size_bytes == 1);
        (void)snprintf(text, sizeof(text), "%s/:3:1", whole[i]); /* whatever has that name */
        assert_ok(gy_file_range_read(text, &range));
        assert_string_equal(range.path, path);
        assert_true(range.offset == 3 && range.size_bytes == 1);
    }
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

/* The hosts that prototypes prefer, which only a job over hosts requests. */
GY_TEST(files_of_hosts_are_places)
{
    static const char *const both[] = {"file://h1,h2/a", "file://h2,h3/b:0:9", "/c", NULL};
    static const char *const apart[] = {"file://h1/a", "file://h2/b", NULL};
    static const char *const near[] = {"h5", "h6", NULL}, *const wrong[] = {"a b", NULL};
    const struct {
        const char *const *files, *const *near;
        const char *hosts;
        bool is_pinned;
        gy_status status;
    } rows[] = {{both, near, "h2", true, GY_OK},
                {apart, NULL, NULL, false, GY_ARG},
                {NULL, near, "h5 h6", false, GY_OK},
                {NULL, NULL, NULL, false, GY_OK},
                {NULL, wrong, NULL, false, GY_ARG}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_arena arena = {0};
        gy_proto_places places = {0};
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(NULL, "places", &dag));
        assert_non_null(dag);
        (void)gy_dag_vertex(dag, &(gy_vertex_options){.function = "f",
                                                      .files = rows[i].files,
                                                      .preferred_hosts = rows[i].near});
        assert_status(gy_flow_places_find(dag, 0, &arena, &places), rows[i].status);
        assert_int_equal(places.is_pinned && rows[i].status == GY_OK, rows[i].is_pinned);
        assert_true((places.hosts != NULL) == (rows[i].hosts != NULL));
        if (rows[i].hosts != NULL) {
            assert_string_equal(places.hosts, rows[i].hosts);
        }
        dag->is_running = true;
        assert_status(gy_flow_places_find(dag, 0, &arena, &places),
                      rows[i].is_pinned ? GY_UNSUPPORTED : rows[i].status);
        gy_dag_free(dag);
        gy_arena_free(&arena);
    }
}

/* On a cluster: the content of a host's own file is unknown, so results from it are not
 * memoised. */
GY_TEST(what_reads_a_hosts_file_is_not_kept)
{
    place at = make_place();
    char path[300];
    snprintf(path, sizeof(path), "%s/input", at.top);
    write_file(path, "a");
    gy_memo_store *store = open_store(&at);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(NULL, "hosts", &dag));
    assert_non_null(dag);
    (void)gy_dag_vertex(
        dag, &(gy_vertex_options){.function = "f", .files = (const char *[]){path, NULL}});
    (void)gy_dag_vertex(
        dag, &(gy_vertex_options){.function = "f",
                                  .files = (const char *[]){"file://h1/a", path, NULL}});
    gy_proto_keys keys = {.memo = store, .is_over_hosts = true};
    assert_ok(gy_proto_keys_make(&keys, dag));
    for (uint32_t p = 0; p < 2; p++) {
        gy_key key;
        bool is_kept = false;
        int64_t bytes = 0;
        gy_proto_keys_tell(&keys, dag, p, &key, &is_kept, &bytes);
        assert_int_equal(is_kept, p == 0);
    }
    gy_proto_keys_fini(&keys);
    gy_dag_free(dag);
    gy_flow_memo_close(store);
    remove_place(&at);
}

GY_TEST_MAIN(NULL, NULL)
