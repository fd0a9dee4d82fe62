/* Goal: a table in an SQLite file stores what it reported as stored, reports a full or failing
 * disk, refuses files that are no table, and has one leader on a host. */
#include "table_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/prctl.h>

static char folder[64], path[96];

/* ---- a disk that fails ---- */

/* SQLite's default file system, whose files fail from the `at`-th write or sync on. */
static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    sqlite3_io_methods real_methods[2], methods[2]; /* of logs; of databases */
    int at, count;                                  /* at 0: never */
    int error;
} broken; /* atomic, since another thread uses at and count too */

static bool strikes(void)
{
    const int at = __atomic_load_n(&broken.at, __ATOMIC_ACQUIRE);
    return at > 0 && __atomic_add_fetch(&broken.count, 1, __ATOMIC_ACQ_REL) >= at;
}

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
    return &broken.real_methods[file->pMethods == &broken.methods[1]];
}

static int broken_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    return strikes() ? broken.error : real_of(file)->xWrite(file, data, size, at);
}

static int broken_sync(sqlite3_file *file, int flags)
{
    return broken.error != SQLITE_FULL && strikes() ? SQLITE_IOERR_FSYNC
                                                    : real_of(file)->xSync(file, flags);
}

static int broken_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *out)
{
    const int code = broken.real->xOpen(vfs, name, file, flags, out);
    if (code == SQLITE_OK && file->pMethods != NULL) {
        const int kind = file->pMethods->xShmMap != NULL;
        if (broken.methods[kind].xWrite == NULL) { /* the first connection has no thread yet */
            broken.real_methods[kind] = broken.methods[kind] = *file->pMethods;
            broken.methods[kind].xWrite = broken_write;
            broken.methods[kind].xSync = broken_sync;
        }
        file->pMethods = &broken.methods[kind];
    }
    return code;
}

static void break_disk(int at, int error)
{
    __atomic_store_n(&broken.at, 0, __ATOMIC_RELEASE);
    broken.error = error;
    __atomic_store_n(&broken.count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&broken.at, at, __ATOMIC_RELEASE);
}

/* ---- */

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-table-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/names.db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return gy_disk_remove_tree(folder);
}

static gy_key key_of(uint64_t number)
{
    return (gy_key){number * UINT64_C(0x9e3779b97f4a7c15), number};
}

static void what_is_stored_is_there_again(void **state)
{
    (void)state;
    kit_table kit;
    char where[128];
    snprintf(where, sizeof(where), "sqlite:%s", path);
    kit_open(&kit, &(gy_persist_table_options){.where = where});
    assert_int_equal(kit_store(&kit, key_of(1), 0, "one", 3), GY_OK);
    assert_int_equal(kit_store(&kit, key_of(1), 0, "two", 3), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "version 1, expected 0"));
    assert_int_equal(kit_store(&kit, key_of(1), 1, "three", 5), GY_OK);
    assert_int_equal(kit_store(&kit, key_of(2), 0, "gone", 4), GY_OK);
    assert_int_equal(kit_store(&kit, key_of(2), 1, NULL, 0), GY_OK);
    assert_int_equal(kit_store(&kit, key_of(3), 4, "never", 5), GY_MISMATCH);
    static const char large[GY_TABLE_RECORD_BYTES + 1];
    assert_status(gy_persist_table_store(kit.table, key_of(4), 0, large, sizeof(large)),
                  GY_LIMIT);
    assert_int_equal(kit_store(&kit, key_of(4), 0, large, sizeof(large) - 1), GY_OK);
    kit_begin(&kit, key_of(5), 0, "x", 1);
    assert_status(gy_persist_table_store(kit.table, key_of(5), 1, "y", 1), GY_STATE);
    kit_close(&kit); /* while a store is under way */
    kit_open(&kit, &(gy_persist_table_options){.where = path});
    static kit_loaded loaded;
    kit_load(&kit, &loaded);
    const kit_record *one = kit_find(&loaded, key_of(1));
    assert_non_null(one);
    assert_true(one->version == 2 && one->size == 5 && one->first == 't' && one->last == 'e');
    assert_non_null(kit_find(&loaded, key_of(4)));
    assert_true(loaded.count == 2 || (loaded.count == 3 && kit_find(&loaded, key_of(5))));
    kit_close(&kit);
}

static void run_sql(const char *file, const char *text)
{
    sqlite3 *base = NULL;
    assert_int_equal(sqlite3_open(file, &base), SQLITE_OK);
    assert_int_equal(sqlite3_exec(base, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(base), SQLITE_OK);
}

static void refuse(const gy_persist_table_options *options, gy_status status, const char *words)
{
    kit_table kit;
    assert_status(kit_try_open(&kit, options), status);
    if (strstr(gy_error_text(), words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gy_error_text(), words);
    }
}

static void what_is_no_table_is_not_touched(void **state)
{
    (void)state;
    char other[128];
    refuse(&(gy_persist_table_options){.where = "sqlite:"}, GY_ARG, "expected a path");
    refuse(&(gy_persist_table_options){.where = path, .user = "root"}, GY_ARG, "are of etcd");
    snprintf(other, sizeof(other), "%s/other.db", folder);
    run_sql(other, "CREATE TABLE t(x); INSERT INTO t VALUES(1)");
    refuse(&(gy_persist_table_options){.where = other}, GY_FORMAT,
           "other.db is a data base, but no");
    snprintf(other, sizeof(other), "%s/newer.db", folder);
    kit_table kit;
    kit_open(&kit, &(gy_persist_table_options){.where = other});
    kit_close(&kit);
    run_sql(other, "PRAGMA user_version = 2");
    refuse(&(gy_persist_table_options){.where = other}, GY_UNSUPPORTED,
           "newer.db is of version 2");
    snprintf(other, sizeof(other), "%s/text.db", folder);
    FILE *file = fopen(other, "w");
    for (int i = 0; i < 1000; i++) {
        fprintf(file, "this is no data base\n");
    }
    fclose(file);
    refuse(&(gy_persist_table_options){.where = other}, GY_FORMAT,
           "text.db is a file of something");
    snprintf(other, sizeof(other), "%s/short.db", folder); /* SQLite would overwrite it */
    file = fopen(other, "w");
    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    refuse(&(gy_persist_table_options){.where = other}, GY_FORMAT,
           "short.db is a file of something");
    file = fopen(other, "r");
    assert_int_equal(fgetc(file), 'x');
    assert_int_equal(fgetc(file), EOF);
    assert_int_equal(fclose(file), 0);
    refuse(&(gy_persist_table_options){.where = "etdc:https://h:1/x"}, GY_ARG,
           "expected sqlite:PATH");
    refuse(&(gy_persist_table_options){.where = folder}, GY_IO, folder);
}

/* Pages with records are overwritten: the load fails and names the file. */
static void a_spoilt_file_is_named(void **state)
{
    (void)state;
    char spoilt[128];
    snprintf(spoilt, sizeof(spoilt), "%s/spoilt.db", folder);
    kit_table kit;
    kit_open(&kit, &(gy_persist_table_options){.where = spoilt});
    static const char data[2000] = "data";
    for (uint64_t i = 1; i <= 40; i++) {
        kit_begin(&kit, key_of(i), 0, data, sizeof(data));
    }
    kit_settle(&kit);
    kit_close(&kit);
    const int file = open(spoilt, O_WRONLY);
    static const char noise[4096] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (int page = 4; page < 8; page++) {
        assert_int_equal(pwrite(file, noise, sizeof(noise), page * 4096), sizeof(noise));
    }
    close(file);
    kit_open(&kit, &(gy_persist_table_options){.where = spoilt});
    static kit_loaded loaded;
    loaded.count = 0;
    assert_status(gy_persist_table_load(kit.table, kit_keep, &loaded), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), spoilt));
    assert_int_equal(loaded.count, 0);
    kit_close(&kit);
}

/* Three stores at a time on a disk that fails at each of its writes and syncs in turn. Stores
 * reported as stored are there, stores reported as not stored are not; also after reopening. */
static void fail_everywhere(const char *file, int error)
{
    static kit_loaded loaded;
    uint64_t versions[3] = {0, 0, 0};
    int limits = 0, unknown = 0;
    for (int at = 1, failed = 1; failed > 0; at++) {
        assert_true(at < 100);
        kit_table kit;
        kit_open(&kit, &(gy_persist_table_options){.where = file});
        break_disk(at, error);
        static char data[9000];
        for (uint64_t i = 0; i < 3; i++) {
            data[0] = (char)at;
            kit_begin(&kit, key_of(i), versions[i], data, sizeof(data));
        }
        kit_settle(&kit);
        break_disk(0, error);
        kit_close(&kit);
        kit_outcome told[3];
        memcpy(told, kit.outcomes, sizeof(told));
        kit_open(&kit, &(gy_persist_table_options){.where = file});
        kit_load(&kit, &loaded);
        kit_close(&kit);
        failed = 0;
        for (size_t i = 0; i < 3; i++) {
            const gy_status status = told[i].status;
            const uint64_t number = told[i].key.low;
            const kit_record *record = kit_find(&loaded, key_of(number));
            const uint64_t version = record != NULL ? record->version : 0;
            limits += status == GY_LIMIT;
            unknown += status != GY_OK && status != GY_LIMIT;
            failed += status != GY_OK;
            assert_int_not_equal(status, GY_MISMATCH);
            assert_true(version == versions[number] + (status == GY_OK) ||
                        (status != GY_LIMIT && version == versions[number] + 1));
            versions[number] = version;
        }
    }
    assert_true(error == SQLITE_FULL ? limits > 3 && unknown == 0 : unknown > 3 && limits == 0);
}

static void a_full_disk_is_surely_not_stored(void **state)
{
    (void)state;
    char file[128];
    broken.real = sqlite3_vfs_find(NULL);
    broken.vfs = *broken.real;
    broken.vfs.zName = "broken";
    broken.vfs.xOpen = broken_open;
    assert_int_equal(sqlite3_vfs_register(&broken.vfs, 1), SQLITE_OK);
    snprintf(file, sizeof(file), "%s/full.db", folder);
    fail_everywhere(file, SQLITE_FULL);
    snprintf(file, sizeof(file), "%s/failing.db", folder);
    fail_everywhere(file, SQLITE_IOERR_WRITE);
    assert_int_equal(sqlite3_vfs_unregister(&broken.vfs), SQLITE_OK);
}

/* ---- elections ---- */

/* A process that leads until it is killed. */
static pid_t start_leader(const char *file)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        kit_table kit;
        kit_open(&kit, &(gy_persist_table_options){.where = file});
        assert_ok(gy_persist_table_campaign(kit.table, "names", "first:1"));
        KIT_UNTIL(&kit, NULL, kit.is_elected);
        (void)!write(ends[1], &kit.number, sizeof(kit.number));
        for (;;) {
            (void)gy_persist_table_turn(kit.table, GY_NEVER);
        }
    }
    close(ends[1]);
    uint64_t number = 0;
    assert_int_equal(read(ends[0], &number, sizeof(number)), sizeof(number));
    assert_int_equal(number, 1);
    close(ends[0]);
    return pid;
}

static void one_process_of_a_host_leads(void **state)
{
    (void)state;
    char file[128], value[GY_TABLE_VALUE_BYTES];
    snprintf(file, sizeof(file), "%s/led.db", folder);
    const pid_t first = start_leader(file);
    kit_table second, third;
    kit_open(&second, &(gy_persist_table_options){.where = file});
    kit_open(&third, &(gy_persist_table_options){.where = file});
    uint64_t number = 0;
    assert_ok(gy_persist_table_leader(third.table, "names", value, &number));
    assert_string_equal(value, "first:1");
    assert_status(gy_persist_table_leader(third.table, "others", value, NULL), GY_NOTFOUND);
    assert_status(gy_persist_table_campaign(second.table, "a/b", "x"), GY_ARG);
    assert_ok(gy_persist_table_campaign(second.table, "names", "second:2"));
    assert_status(gy_persist_table_campaign(second.table, "names", "x"), GY_STATE);
    KIT_UNTIL(&second, NULL,
              gy_persist_table_leader(second.table, "names", value, NULL) == GY_OK);
    assert_string_equal(value, "first:1");
    assert_false(second.is_elected);
    kill(first, SIGKILL);
    assert_int_equal(waitpid(first, NULL, 0), first);
    KIT_UNTIL(&second, NULL, second.is_elected);
    assert_int_equal(second.number, 2);
    assert_ok(gy_persist_table_leader(third.table, "names", value, &number));
    assert_string_equal(value, "second:2");
    assert_int_equal(number, 2);
    gy_persist_table_resign(second.table);
    second.is_elected = false;
    assert_ok(gy_persist_table_campaign(third.table, "names", "third:3"));
    KIT_UNTIL(&third, &second, third.is_elected);
    assert_false(second.is_elected);
    kit_close(&third);
    assert_status(gy_persist_table_leader(second.table, "names", value, NULL), GY_NOTFOUND);
    kit_close(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, since it forks before there are threads. */
        cmocka_unit_test(one_process_of_a_host_leads),
        cmocka_unit_test(what_is_stored_is_there_again),
        cmocka_unit_test(what_is_no_table_is_not_touched),
        cmocka_unit_test(a_spoilt_file_is_named),
        cmocka_unit_test(a_full_disk_is_surely_not_stored),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
