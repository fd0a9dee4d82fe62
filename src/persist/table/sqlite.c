/*
 * A table in an SQLite file with a write-ahead log: a commit is one sync, and readers never
 * wait. Each thread has its own connection. An election is a flock(2) on FILE.NAME.lock, which
 * the kernel releases when its process ends in any way; the leader's number and value are in
 * the database.
 *
 * Source: SQLite, "Write-Ahead Logging" and "Result and Error Codes".
 */
#include "persist/table/table_priv.h"
#include "store/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 5000, PATH_BYTES = 4096, APPLICATION = 0x47795462 /* "GyTb" */ };

typedef struct sqlite_place {
    char path[PATH_BYTES];
    sqlite3 *base; /* the storing thread's */
    sqlite3_stmt *look, *put, *drop;
} sqlite_place;

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS records(key BLOB PRIMARY KEY, version INTEGER NOT NULL,"
    " data BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS leaders(name TEXT PRIMARY KEY, number INTEGER NOT NULL,"
    " value TEXT NOT NULL) WITHOUT ROWID;"
    "PRAGMA application_id = 1199133794;"
    "PRAGMA user_version = 1;"
    "COMMIT;";
_Static_assert(APPLICATION == 1199133794 && GY_TABLE_VERSION == 1, "as in the schema");

/* ---- connections ---- */

static gy_status fail_base(sqlite3 *base, const char *verb, const char *path)
{
    const int code = base != NULL ? sqlite3_extended_errcode(base) : SQLITE_NOMEM;
    const char *words = base != NULL ? sqlite3_errmsg(base) : "out of memory";
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return gy_fail(GY_NOMEM, "cannot %s the table %s: out of memory", verb, path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return gy_fail(GY_FORMAT, "cannot %s the table %s: %s", verb, path, words);
    case SQLITE_FULL:
        return gy_fail(GY_LIMIT, "cannot %s the table %s: %s", verb, path, words);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return gy_fail(GY_TIMEOUT, "cannot %s the table %s: %s for %g s", verb, path, words,
                       BUSY_MS * 1e-3);
    default:
        return gy_fail(GY_IO, "cannot %s the table %s: %s (%d)", verb, path, words, code);
    }
}

static gy_status execute(sqlite3 *base, const char *path, const char *verb, const char *text)
{
    return sqlite3_exec(base, text, NULL, NULL, NULL) == SQLITE_OK
               ? GY_OK
               : fail_base(base, verb, path);
}

/* The number in the only row of a query. */
static gy_status ask_number(sqlite3 *base, const char *path, const char *question,
                            int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    gy_status status = GY_OK;
    if (sqlite3_prepare_v2(base, question, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = fail_base(base, "read", path);
    } else {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return status;
}

/* Create the tables if the file is empty; refuse a file of another program or version. */
static gy_status check_base(sqlite3 *base, const char *path)
{
    int64_t application = 0, version = 0, tables = 0;
    GY_TRY(ask_number(base, path, "PRAGMA application_id", &application));
    GY_TRY(ask_number(base, path, "PRAGMA user_version", &version));
    GY_TRY(ask_number(base, path, "SELECT count(*) FROM sqlite_schema", &tables));
    if (application == 0 && version == 0 && tables == 0) {
        return execute(base, path, "make", schema);
    }
    if (application != APPLICATION) {
        return gy_fail(GY_FORMAT, "%s is a data base, but no table of a name server's", path);
    }
    return version == GY_TABLE_VERSION
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "the table %s is of version %lld, this Gyre knows %d",
                         path, (long long)version, GY_TABLE_VERSION);
}

static gy_status connect_base(const char *path, sqlite3 **base)
{
    const int code = sqlite3_open_v2(
        path, base, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    gy_status status = GY_OK;
    if (code != SQLITE_OK || sqlite3_busy_timeout(*base, BUSY_MS) != SQLITE_OK) {
        status = fail_base(*base, "open", path);
    } else {
        status = execute(*base, path, "open",
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    }
    if (status < 0) {
        sqlite3_close(*base);
        *base = NULL;
    }
    return status;
}

static const char magic[16] = "SQLite format 3"; /* sqlite.org/fileformat.html */

/* Create the file before SQLite opens it, readable by this user only, and sync its folder. */
static gy_status make_file(gy_env *env, const char *path)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const int made = gy_disk_make_folders(path);
    if (made != 0) {
        return gy_fail(GY_IO, "cannot make the folder of %s: %s", path, strerror(-made));
    }
    const int file = disk->open(env, path, O_RDWR | O_CREAT, 0600);
    if (file < 0) {
        return gy_fail(GY_IO, "cannot open the table %s: %s", path, strerror(-file));
    }
    /* SQLite treats a file shorter than a page as empty and overwrites it. */
    char head[sizeof(magic)] = "";
    const int64_t got = disk->read(env, file, head, sizeof(head));
    (void)disk->close(env, file); /* the file was only read */
    if (got < 0) {
        return gy_fail(GY_IO, "cannot read the table %s: %s", path, strerror((int)-got));
    }
    if (got > 0 && memcmp(head, magic, sizeof(magic)) != 0) {
        return gy_fail(GY_FORMAT, "%s is a file of something else, no table", path);
    }
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
             slash != NULL ? path : ".");
    const int opened = disk->open(env, folder, O_RDONLY | O_DIRECTORY, 0);
    const int synced = opened >= 0 ? disk->sync(env, opened) : opened;
    if (opened >= 0) {
        (void)disk->close(env, opened);
    }
    return synced == 0
               ? GY_OK
               : gy_fail(GY_IO, "cannot sync the folder of %s: %s", path, strerror(-synced));
}

static gy_status prepare_all(sqlite_place *place)
{
    const struct {
        const char *text;
        sqlite3_stmt **statement;
    } wanted[] = {
        {"SELECT version FROM records WHERE key = ?1", &place->look},
        {"INSERT INTO records VALUES(?1, ?2, ?3)"
         " ON CONFLICT(key) DO UPDATE SET version = ?2, data = ?3",
         &place->put},
        {"DELETE FROM records WHERE key = ?1", &place->drop},
    };
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        if (sqlite3_prepare_v2(place->base, wanted[i].text, -1, wanted[i].statement, NULL) !=
            SQLITE_OK) {
            return fail_base(place->base, "use", place->path);
        }
    }
    return GY_OK;
}

static gy_status sqlite_open(gy_persist_table *table, const gy_persist_table_options *options)
{
    const bool is_named = strncmp(options->where, "sqlite:", 7) == 0;
    const char *path = options->where + (is_named ? 7 : 0);
    const size_t word = strcspn(path, ":/");
    char own[PATH_BYTES];
    if (!is_named && gy_uri_is_file(path)) {
        GY_TRY(gy_store_path_local(path, "the table", own, sizeof(own)));
        path = own;
    } else if (!is_named && path[word] == ':') {
        return gy_fail(GY_ARG, "the table \"%.100s\": expected sqlite:PATH or etcd:https://...",
                       path);
    }
    if (path[0] == '\0' || strlen(path) >= PATH_BYTES - GY_TABLE_NAME_BYTES - 8) {
        return gy_fail(GY_ARG, "the table \"%.100s\": expected a path of 1 to %d bytes", path,
                       PATH_BYTES - GY_TABLE_NAME_BYTES - 9);
    }
    if (options->user != NULL || options->password_file != NULL ||
        options->authorities != NULL || options->certificate != NULL ||
        options->certificate_key != NULL) {
        return gy_fail(GY_ARG,
                       "the table %s is a file: user, password and certificates are "
                       "of etcd",
                       path);
    }
    sqlite_place *place = gy_alloc_zero("persist.table", 1, sizeof(*place));
    if (place == NULL) {
        return GY_NOMEM;
    }
    table->place = place;
    snprintf(place->path, sizeof(place->path), "%s", path);
    GY_TRY(make_file(table->env, path));
    GY_TRY(connect_base(path, &place->base));
    GY_TRY(check_base(place->base, path));
    return prepare_all(place);
}

static void sqlite_close(gy_persist_table *table)
{
    sqlite_place *place = table->place;
    sqlite3_finalize(place->look);
    sqlite3_finalize(place->put);
    sqlite3_finalize(place->drop);
    sqlite3_close(place->base);
    gy_free(place);
}

static void sqlite_wake(gy_persist_table *table)
{
    (void)table; /* only other processes' commits make it wait */
}

/* ---- loading ---- */

static void write_key(gy_key key, uint8_t bytes[16])
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(key.high >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(key.low >> (56 - 8 * i));
    }
}

static gy_key read_key(const uint8_t bytes[16])
{
    gy_key key = {0, 0};
    for (int i = 0; i < 8; i++) {
        key.high = key.high << 8 | bytes[i];
        key.low = key.low << 8 | bytes[8 + i];
    }
    return key;
}

static gy_status visit_row(sqlite3_stmt *row, const char *path, gy_persist_table_each each,
                           void *arg)
{
    const void *key = sqlite3_column_blob(row, 0);
    const int64_t version = sqlite3_column_int64(row, 1);
    const int size = sqlite3_column_bytes(row, 2);
    if (sqlite3_column_bytes(row, 0) != 16 || version < 1 || size < 1 ||
        size > GY_TABLE_RECORD_BYTES || sqlite3_column_type(row, 2) != SQLITE_BLOB) {
        return gy_fail(GY_FORMAT,
                       "the table %s has a record of version %lld and %d bytes with "
                       "a key of %d",
                       path, (long long)version, size, sqlite3_column_bytes(row, 0));
    }
    return each(arg, read_key(key), (uint64_t)version, sqlite3_column_blob(row, 2),
                (size_t)size);
}

/* Report SQLite's own description of a corrupt file. */
static gy_status check_pages(sqlite3 *base, const char *path)
{
    sqlite3_stmt *check = NULL;
    gy_status status = GY_OK;
    if (sqlite3_prepare_v2(base, "PRAGMA quick_check(1)", -1, &check, NULL) != SQLITE_OK ||
        sqlite3_step(check) != SQLITE_ROW) {
        status = fail_base(base, "read", path);
    } else if (strcmp((const char *)sqlite3_column_text(check, 0), "ok") != 0) {
        status = gy_fail(GY_FORMAT, "the table %s is spoilt: %s", path,
                         (const char *)sqlite3_column_text(check, 0));
    }
    sqlite3_finalize(check);
    return status;
}

static gy_status sqlite_load(gy_persist_table *table, gy_persist_table_each each, void *arg)
{
    const sqlite_place *place = table->place;
    sqlite3 *base = NULL;
    GY_TRY(connect_base(place->path, &base));
    gy_status status = check_pages(base, place->path);
    sqlite3_stmt *rows = NULL;
    int code = SQLITE_OK;
    if (status == GY_OK) {
        code =
            sqlite3_prepare_v2(base, "SELECT key, version, data FROM records", -1, &rows, NULL);
    }
    while (status == GY_OK && code == SQLITE_OK && sqlite3_step(rows) == SQLITE_ROW) {
        status = visit_row(rows, place->path, each, arg);
    }
    if (status == GY_OK && sqlite3_errcode(base) != SQLITE_DONE) {
        status = fail_base(base, "read", place->path);
    }
    sqlite3_finalize(rows);
    sqlite3_close(base);
    return status;
}

/* ---- storing ---- */

/* Within a transaction: GY_OK written; GY_MISMATCH; else the whole transaction failed. */
static gy_status write_one(sqlite_place *place, const gy_persist_table_write *write)
{
    uint8_t key[16];
    write_key(write->key, key);
    sqlite3_reset(place->look);
    sqlite3_bind_blob(place->look, 1, key, sizeof(key), SQLITE_STATIC);
    const int found = sqlite3_step(place->look);
    const uint64_t version =
        found == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(place->look, 0) : 0;
    sqlite3_reset(place->look);
    if (found != SQLITE_ROW && found != SQLITE_DONE) {
        return fail_base(place->base, "read", place->path);
    }
    if (version != write->version) {
        return gy_fail(GY_MISMATCH, "the record has version %llu, expected %llu",
                       (unsigned long long)version, (unsigned long long)write->version);
    }
    sqlite3_stmt *statement = write->size_bytes > 0 ? place->put : place->drop;
    sqlite3_reset(statement);
    sqlite3_bind_blob(statement, 1, key, sizeof(key), SQLITE_STATIC);
    if (write->size_bytes > 0) {
        sqlite3_bind_int64(statement, 2, (int64_t)(version + 1));
        sqlite3_bind_blob64(statement, 3, write->data, write->size_bytes, SQLITE_STATIC);
    }
    const int done = sqlite3_step(statement);
    gy_status status = GY_OK;
    if (done != SQLITE_DONE) {
        status = fail_base(place->base, "write", place->path);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

static gy_status write_all(sqlite_place *place, gy_persist_table_write *const *batch,
                           size_t count)
{
    GY_TRY(execute(place->base, place->path, "write", "BEGIN IMMEDIATE"));
    for (size_t i = 0; i < count; i++) {
        const gy_status status = write_one(place, batch[i]);
        if (status == GY_MISMATCH) {
            gy_persist_table_settle(batch[i], status);
        } else if (status < 0) {
            return status;
        }
    }
    return execute(place->base, place->path, "write", "COMMIT");
}

/* Commit all stores but those with another version, or none. SQLite finds a full disk before
 * the log has the commit frame, so after SQLITE_FULL nothing was written; single stores may
 * still fit. */
static void sqlite_commit(gy_persist_table *table, gy_persist_table_write *const *batch,
                          size_t count)
{
    sqlite_place *place = table->place;
    const gy_status status = write_all(place, batch, count);
    if (status < 0 && sqlite3_get_autocommit(place->base) == 0) {
        gy_error error;
        gy_error_take(&error, status);
        /* If this fails, the next transaction reports it. */
        (void)sqlite3_exec(place->base, "ROLLBACK", NULL, NULL, NULL);
        (void)gy_error_raise(&error);
    }
    for (size_t i = 0; i < count; i++) {
        if (!batch[i]->is_open && status == GY_OK) {
            continue;
        }
        if (status == GY_LIMIT && count > 1) {
            batch[i]->is_open = true;
            sqlite_commit(table, batch + i, 1);
        } else {
            gy_persist_table_settle(batch[i], status);
        }
    }
}

/* ---- elections ---- */

static void lock_path(const sqlite_place *place, const char *name, char path[PATH_BYTES])
{
    GY_ASSERT(snprintf(path, PATH_BYTES, "%s.%s.lock", place->path, name) < PATH_BYTES);
}

/* The last elected leader; number 0: there never was one. */
static gy_status read_leader(sqlite3 *base, const char *path, const char *name,
                             char value[GY_TABLE_VALUE_BYTES], uint64_t *number)
{
    sqlite3_stmt *row = NULL;
    gy_status status = GY_OK;
    *number = 0;
    value[0] = '\0';
    const bool is_asked =
        sqlite3_prepare_v2(base, "SELECT number, value FROM leaders WHERE name = ?1", -1, &row,
                           NULL) == SQLITE_OK &&
        sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC) == SQLITE_OK;
    const int found = is_asked ? sqlite3_step(row) : SQLITE_ERROR;
    if (found == SQLITE_ROW) {
        *number = (uint64_t)sqlite3_column_int64(row, 0);
        const char *text = (const char *)sqlite3_column_text(row, 1);
        snprintf(value, GY_TABLE_VALUE_BYTES, "%s", text != NULL ? text : "");
    } else if (found != SQLITE_DONE) {
        status = fail_base(base, "read", path);
    }
    sqlite3_finalize(row);
    return status;
}

static gy_status read_leader_of(gy_persist_table *table, const char *name,
                                char value[GY_TABLE_VALUE_BYTES], uint64_t *number)
{
    const sqlite_place *place = table->place;
    sqlite3 *base = NULL;
    GY_TRY(connect_base(place->path, &base));
    const gy_status status = read_leader(base, place->path, name, value, number);
    sqlite3_close(base);
    return status;
}

static gy_status sqlite_leader(gy_persist_table *table, const char *name,
                               char value[GY_TABLE_VALUE_BYTES], uint64_t *number)
{
    char path[PATH_BYTES];
    lock_path(table->place, name, path);
    *number = 0;
    const gy_disk_ops *disk = gy_env_disk(table->env);
    const int file = disk->open(table->env, path, O_RDONLY, 0);
    if (file == -ENOENT) {
        return GY_OK; /* there never was a leader */
    }
    if (file < 0) {
        return gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(-file));
    }
    const bool is_free = flock(file, LOCK_SH | LOCK_NB) == 0;
    const int error = errno;
    (void)disk->close(table->env, file);
    if (is_free) {
        return GY_OK;
    }
    return error == EWOULDBLOCK
               ? read_leader_of(table, name, value, number)
               : gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(error));
}

static gy_status write_leader(sqlite3 *base, const char *path, gy_election *election)
{
    sqlite3_stmt *row = NULL;
    gy_status status = GY_OK;
    if (sqlite3_prepare_v2(base,
                           "INSERT INTO leaders VALUES(?1, 1, ?2) ON CONFLICT(name)"
                           " DO UPDATE SET number = number + 1, value = ?2 RETURNING number",
                           -1, &row, NULL) != SQLITE_OK ||
        sqlite3_bind_text(row, 1, election->name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_text(row, 2, election->value, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_step(row) != SQLITE_ROW) {
        status = fail_base(base, "write", path);
    } else {
        election->number = (uint64_t)sqlite3_column_int64(row, 0);
        status = sqlite3_step(row) == SQLITE_DONE ? GY_OK : fail_base(base, "write", path);
    }
    sqlite3_finalize(row); /* commits the statement */
    return status;
}

static void sqlite_leave(gy_persist_table *table, gy_election *election)
{
    if (election->lock >= 0) {
        (void)gy_env_disk(table->env)
            ->close(table->env, election->lock); /* on Linux close always releases it */
        election->lock = -1;
    }
    election->is_held = false;
    election->number = 0;
}

static gy_status take_election(gy_persist_table *table, gy_election *election)
{
    const sqlite_place *place = table->place;
    sqlite3 *base = NULL;
    gy_status status = connect_base(place->path, &base);
    status = status < 0 ? status : write_leader(base, place->path, election);
    sqlite3_close(base);
    if (status < 0) {
        sqlite_leave(table, election);
        return status;
    }
    election->is_held = true;
    election->until_ns = GY_NEVER.at_ns;
    election->renew_ns = (int64_t)1e9;
    return GY_OK;
}

static gy_status sqlite_run(gy_persist_table *table, gy_election *election)
{
    char path[PATH_BYTES];
    lock_path(table->place, election->name, path);
    const gy_disk_ops *disk = gy_env_disk(table->env);
    const int file = disk->open(table->env, path, O_RDWR | O_CREAT, 0600);
    if (file < 0) {
        return gy_fail(GY_IO, "cannot open %s: %s", path, strerror(-file));
    }
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        election->lock = file;
        return take_election(table, election);
    }
    const int error = errno;
    (void)disk->close(table->env, file);
    if (error != EWOULDBLOCK) {
        return gy_fail(GY_IO, "cannot lock %s: %s", path, strerror(error));
    }
    GY_TRY(read_leader_of(table, election->name, election->seen, &election->number));
    return GY_AGAIN;
}

static gy_status sqlite_renew(gy_persist_table *table, gy_election *election)
{
    (void)table;
    /* The kernel holds the lock as long as the process lives. */
    return election->lock >= 0 ? GY_OK : GY_STATE;
}

const gy_persist_table_ops gy_persist_table_sqlite = {
    .name = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .wake = sqlite_wake,
    .load = sqlite_load,
    .commit = sqlite_commit,
    .leader = sqlite_leader,
    .run = sqlite_run,
    .renew = sqlite_renew,
    .leave = sqlite_leave,
};
