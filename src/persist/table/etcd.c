/*
 * Records in etcd. A batch is one transaction with a nested compare-and-set for each record, so
 * that a store that loses does not block the others.
 *
 * An answer may be lost, and a request may take effect long after it was sent (a stopped member
 * resumes and forwards it to its leader). So each transaction also requires that the table's
 * fence has its expected version. When an answer is missing, the store raises the fence: the
 * request has then either taken effect or never will. Reading the records decides which: a
 * record with this store's token is stored.
 *
 * Source: etcd 3.4, "KV API guarantees"; Ongaro, "Consensus: bridging theory and practice",
 * 2014, 6.3 (duplicate operations).
 */
#include "base/text.h"
#include "persist/table/etcd_priv.h"

#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES = 16, PAGE_RECORDS = 64, LOADS = 3, KEY_DIGITS = 32 };

/* The fence's value: the version of the table's format. */
static const char mark[] = "gyre table 1";

/* ---- opening and closing ---- */

static gy_status keep_text(char **out, const char *text)
{
    *out = text != NULL ? gy_copy_text("persist.table", text) : NULL;
    return text != NULL && *out == NULL ? GY_NOMEM : GY_OK;
}

static gy_status keep_options(gy_persist_table *table, const gy_persist_table_options *options)
{
    gy_etcd *etcd = table->place;
    GY_TRY(gy_etcd_where_parse(options->where, &etcd->where));
    if ((options->user == NULL) != (options->password_file == NULL)) {
        return gy_fail(GY_ARG, "of etcd's user and password file one alone is given");
    }
    if ((options->certificate == NULL) != (options->certificate_key == NULL)) {
        return gy_fail(GY_ARG, "of a client's certificate and its key one alone is given");
    }
    if (!etcd->where.is_tls && !etcd->where.is_loopback && options->user != NULL) {
        return gy_fail(GY_ARG, "etcd's user and password would cross the network in plain "
                               "text: expected \"etcd:https://\"");
    }
    if (!etcd->where.is_tls && !etcd->where.is_loopback && !options->is_plaintext) {
        return gy_fail(GY_ARG, "the table would cross the network in plain text: expected "
                               "\"etcd:https://\", or --table-plaintext where all on that "
                               "network may read and change it");
    }
    const bool has_files = options->authorities != NULL || options->certificate != NULL;
    if (!etcd->where.is_tls && has_files) {
        return gy_fail(GY_ARG, "certificates are given, but the table is \"etcd:http://\", "
                               "without TLS");
    }
    GY_TRY(keep_text(&etcd->user, options->user));
    GY_TRY(keep_text(&etcd->authorities, options->authorities));
    GY_TRY(keep_text(&etcd->certificate, options->certificate));
    GY_TRY(keep_text(&etcd->certificate_key, options->certificate_key));
    if (etcd->certificate != NULL) {
        GY_TRY(gy_etcd_certificate_check(etcd->certificate));
    }
    return etcd->user != NULL
               ? gy_etcd_password_read(table->env, options->password_file, etcd->password)
               : GY_OK;
}

static void fence_key(const gy_etcd *etcd, char key[GY_ETCD_KEY_BYTES])
{
    snprintf(key, GY_ETCD_KEY_BYTES, "%s/fence", etcd->where.prefix);
}

static void record_key(const gy_etcd *etcd, gy_key record, char key[GY_ETCD_KEY_BYTES])
{
    snprintf(key, GY_ETCD_KEY_BYTES, "%s/record/%016llx%016llx", etcd->where.prefix,
             (unsigned long long)record.high, (unsigned long long)record.low);
}

static void add_range(gy_text *body, const char *key)
{
    gy_text_add(body, "{\"requestRange\":{");
    gy_etcd_add_key(body, key);
    gy_text_add(body, "}}");
}

static void add_compare(gy_text *body, const char *key, uint64_t version)
{
    gy_text_add(body, "\"compare\":[{\"target\":\"VERSION\",\"version\":\"%llu\",",
                (unsigned long long)version);
    gy_etcd_add_key(body, key);
    gy_text_add(body, "}]");
}

static void add_put(gy_text *body, const char *key, const void *value, size_t size)
{
    gy_text_add(body, "{\"requestPut\":{");
    gy_etcd_add_key(body, key);
    gy_text_add(body, ",\"value\":\"");
    gy_etcd_add_bytes(body, value, size);
    gy_text_add(body, "\"}}");
}

static gy_status ask_text(gy_etcd_lane *lane, gy_text *body, gy_etcd_question question,
                          json_t **answer)
{
    *answer = NULL;
    question.body = gy_text_get(body);
    const gy_status status =
        body->status < 0 ? body->status : gy_etcd_ask(lane, &question, answer);
    gy_text_free(body);
    return status;
}

static gy_status look_at_fence(gy_etcd *etcd, const char *key, const gy_etcd_record *found)
{
    char value[64];
    size_t size = 0;
    const gy_status status = gy_etcd_bytes(found->value, value, sizeof(value) - 1, &size);
    value[size] = '\0';
    etcd->fence = found->version;
    if (status == GY_LIMIT || (status == GY_OK && strcmp(value, mark) != 0)) {
        return gy_fail(GY_UNSUPPORTED,
                       "etcd's %s is of another version, or no table of a name server's: "
                       "expected \"%s\"",
                       key, mark);
    }
    return status;
}

/* Check that the fence exists and that the table below it has this version. Create the fence
 * only if it is missing: an etcd without room refuses any request that contains a put. */
static gy_status check_fence(gy_persist_table *table)
{
    gy_etcd *etcd = table->place;
    char key[GY_ETCD_KEY_BYTES];
    fence_key(etcd, key);
    gy_etcd_record found = {.version = 0};
    gy_status status = GY_OK;
    for (int i = 0; i < 2 && status == GY_OK && found.version == 0; i++) {
        gy_text body = {0};
        gy_text_add(&body, "{");
        if (i > 0) {
            add_compare(&body, key, 0);
            gy_text_add(&body, ",\"success\":[");
            add_put(&body, key, mark, sizeof(mark) - 1);
            gy_text_add(&body, ",");
            add_range(&body, key);
            gy_text_add(&body, "],\"failure\":[");
            add_range(&body, key); /* read before and after, so that the response has the same
                                      index in both cases */
            gy_text_add(&body, ",");
        } else {
            gy_text_add(&body, "\"success\":[");
        }
        add_range(&body, key);
        gy_text_add(&body, "]}");
        json_t *answer = NULL;
        GY_TRY(ask_text(
            &etcd->owner, &body,
            (gy_etcd_question){.path = "/v3/kv/txn",
                               .deadline = gy_env_deadline(table->env, table->patience_s)},
            &answer));
        status = gy_etcd_found(answer, (size_t)i, &found);
        if (status == GY_OK && found.version > 0) {
            status = look_at_fence(etcd, key, &found);
        }
        json_decref(answer);
    }
    return status;
}

static gy_status etcd_open(gy_persist_table *table, const gy_persist_table_options *options)
{
    gy_etcd *etcd = gy_alloc_zero("persist.table", 1, sizeof(*etcd));
    if (etcd == NULL) {
        return GY_NOMEM;
    }
    table->place = etcd;
    GY_TRY(keep_options(table, options));
    etcd->writer = table->env->ops->random(table->env, GY_CHANCE_NETWORK);
    GY_TRY(gy_etcd_lane_open(table, &etcd->owner));
    GY_TRY(gy_etcd_lane_open(table, &etcd->storing));
    GY_TRY(gy_etcd_lane_open(table, &etcd->campaigning));
    return check_fence(table);
}

static void etcd_close(gy_persist_table *table)
{
    gy_etcd *etcd = table->place;
    gy_etcd_lane_close(&etcd->owner);
    gy_etcd_lane_close(&etcd->storing);
    gy_etcd_lane_close(&etcd->campaigning);
    gy_free(etcd->user);
    gy_free(etcd->authorities);
    gy_free(etcd->certificate);
    gy_free(etcd->certificate_key);
    explicit_bzero(etcd, sizeof(*etcd));
    gy_free(etcd);
}

static void etcd_wake(gy_persist_table *table)
{
    const gy_etcd *etcd = table->place;
    gy_http *const all[] = {etcd->owner.http, etcd->storing.http, etcd->campaigning.http};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        if (all[i] != NULL) {
            gy_http_wake(all[i]);
        }
    }
}

/* ---- loading ---- */

typedef struct loaded_record {
    struct loaded_record *next;
    gy_key key;
    uint64_t version;
    size_t size_bytes;
    uint8_t data[];
} loaded_record;

typedef struct loading {
    gy_etcd *etcd;
    gy_arena arena;
    loaded_record *first;
    uint64_t revision;            /* 0: set from the first page */
    char from[GY_ETCD_KEY_BYTES]; /* the last key that was read */
    size_t from_bytes;
    uint8_t *room; /* (TOKEN_BYTES + GY_TABLE_RECORD_BYTES) */
} loading;

static bool read_digits(const char *digits, gy_key *key)
{
    uint64_t half[2] = {0, 0};
    for (int i = 0; i < KEY_DIGITS; i++) {
        const char *at = strchr("0123456789abcdef", digits[i]);
        if (digits[i] == '\0' || at == NULL) {
            return false;
        }
        half[i / 16] = half[i / 16] << 4 | (uint64_t)(at - "0123456789abcdef");
    }
    *key = (gy_key){half[0], half[1]};
    return true;
}

static gy_status keep_record(loading *load, const gy_etcd_record *found)
{
    const size_t head = strlen(load->etcd->where.prefix) + strlen("/record/");
    size_t size = 0;
    GY_TRY(gy_etcd_bytes(found->key, load->from, sizeof(load->from) - 2, &load->from_bytes));
    load->from[load->from_bytes] = '\0';
    gy_key key;
    if (load->from_bytes != head + KEY_DIGITS || !read_digits(load->from + head, &key)) {
        return gy_fail(GY_FORMAT, "etcd's key %.300s is of no record", load->from);
    }
    gy_status status =
        gy_etcd_bytes(found->value, load->room, TOKEN_BYTES + GY_TABLE_RECORD_BYTES, &size);
    if (status == GY_LIMIT || (status == GY_OK && size <= TOKEN_BYTES)) {
        return gy_fail(GY_FORMAT, "etcd's record %.300s has %zu bytes, expected %d to %d",
                       load->from, size, TOKEN_BYTES + 1, TOKEN_BYTES + GY_TABLE_RECORD_BYTES);
    }
    GY_TRY(status);
    size -= TOKEN_BYTES;
    loaded_record *record = gy_arena_alloc(&load->arena, sizeof(*record) + size);
    if (record == NULL) {
        return GY_NOMEM;
    }
    *record = (loaded_record){load->first, key, found->version, size};
    memcpy(record->data, load->room + TOKEN_BYTES, size);
    load->first = record;
    return GY_OK;
}

static gy_status take_page(loading *load, const json_t *answer, bool *has_more)
{
    if (load->revision == 0) {
        GY_TRY(gy_etcd_revision(answer, &load->revision));
    }
    gy_etcd_record found = {.version = 0};
    gy_status status = GY_OK;
    size_t count = 0;
    while ((status = gy_etcd_kv(answer, count, &found)) == GY_OK) {
        GY_TRY(keep_record(load, &found));
        count++;
    }
    *has_more = json_is_true(json_object_get(answer, "more")) && count > 0;
    return status == GY_NOTFOUND ? GY_OK : status;
}

static gy_status ask_page(loading *load, gy_deadline deadline, json_t **answer)
{
    gy_text body = {0};
    char end[GY_ETCD_KEY_BYTES];
    /* The end of the range: '0' is '/' + 1. */
    snprintf(end, sizeof(end), "%s/record0", load->etcd->where.prefix);
    gy_text_add(&body, "{\"key\":\"");
    gy_etcd_add_bytes(&body, load->from, load->from_bytes);
    gy_text_add(&body, "\",\"range_end\":\"");
    gy_etcd_add_bytes(&body, end, strlen(end));
    gy_text_add(&body, "\",\"limit\":\"%d\",\"revision\":\"%llu\"}", PAGE_RECORDS,
                (unsigned long long)load->revision);
    return ask_text(&load->etcd->owner, &body,
                    (gy_etcd_question){.path = "/v3/kv/range", .deadline = deadline}, answer);
}

/* Load all pages of one revision. GY_MISMATCH: etcd compacted it meanwhile. */
static gy_status load_once(gy_persist_table *table, loading *load)
{
    const gy_deadline deadline = gy_env_deadline(table->env, table->patience_s);
    load->first = NULL;
    load->revision = 0;
    load->from_bytes =
        gy_print(load->from, sizeof(load->from), "%s/record/", load->etcd->where.prefix);
    bool has_more = true;
    while (has_more) {
        json_t *answer = NULL;
        GY_TRY(ask_page(load, deadline, &answer));
        const gy_status status = take_page(load, answer, &has_more);
        json_decref(answer);
        GY_TRY(status);
        load->from[load->from_bytes++] = '\0'; /* the smallest key after the last one */
    }
    return GY_OK;
}

static gy_status etcd_load(gy_persist_table *table, gy_persist_table_each each, void *arg)
{
    loading load = {.etcd = table->place};
    load.room = gy_alloc("persist.table", TOKEN_BYTES + GY_TABLE_RECORD_BYTES);
    gy_status status = load.room != NULL ? GY_MISMATCH : GY_NOMEM;
    for (int i = 0; i < LOADS && status == GY_MISMATCH; i++) {
        gy_arena_free(&load.arena);
        status = load_once(table, &load);
    }
    if (status == GY_MISMATCH) {
        status =
            gy_fail(GY_IO, "etcd was compacted %d times while the table was loaded", LOADS);
    }
    for (const loaded_record *at = load.first; status == GY_OK && at != NULL; at = at->next) {
        status = each(arg, at->key, at->version, at->data, at->size_bytes);
    }
    gy_arena_free(&load.arena);
    gy_free(load.room);
    return status;
}

/* ---- storing ---- */

typedef struct committing {
    gy_persist_table *table;
    gy_etcd *etcd;
    gy_persist_table_write *const *batch;
    size_t count;
    gy_deadline deadline;
    bool is_unsure; /* a request was sent and no answer came */
} committing;

static bool has_token(const gy_persist_table_write *write, const json_t *value)
{
    /* 16 bytes are 22 base64 digits, the last of which also encodes bits of the data */
    gy_text text = {0};
    gy_etcd_add_bytes(&text, write->token, TOKEN_BYTES - 1);
    const char *told = json_string_value(value);
    const bool is_same = text.status == GY_OK && told != NULL &&
                         strncmp(told, gy_text_get(&text), text.size_bytes) == 0;
    gy_text_free(&text);
    return is_same;
}

/* Decide a store from the record's current state. It stays open if it was not applied. */
static void look_at(const committing *commit, gy_persist_table_write *write,
                    const gy_etcd_record *found)
{
    if (write->size_bytes > 0 && has_token(write, found->value)) {
        gy_persist_table_settle(write, GY_OK);
    } else if (found->version == write->version) {
        return;
    } else if (write->size_bytes == 0 && found->version == 0 && commit->is_unsure) {
        gy_persist_table_settle(
            write, gy_fail(GY_STATE, "another client may have removed the record"));
    } else {
        gy_persist_table_settle(write, gy_fail(GY_MISMATCH,
                                               "the record has version %llu, expected %llu",
                                               (unsigned long long)found->version,
                                               (unsigned long long)write->version));
    }
}

static void settle_rest(const committing *commit, gy_status status)
{
    gy_error error;
    gy_error_take(&error, status);
    for (size_t i = 0; i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            commit->batch[i]->is_open = false;
            commit->batch[i]->outcome = error;
        }
    }
}

static size_t count_open(const committing *commit)
{
    size_t count = 0;
    for (size_t i = 0; i < commit->count; i++) {
        count += commit->batch[i]->is_open;
    }
    return count;
}

/* Raise the fence, so that no earlier request can take effect any more, and read the records.
 */
static gy_status raise_fence(committing *commit)
{
    gy_etcd *etcd = commit->etcd;
    char key[GY_ETCD_KEY_BYTES];
    fence_key(etcd, key);
    gy_text body = {0};
    gy_text_add(&body, "{\"compare\":[{\"target\":\"VERSION\",\"result\":\"GREATER\","
                       "\"version\":\"0\",");
    gy_etcd_add_key(&body, key);
    gy_text_add(&body, "}],\"success\":[");
    add_put(&body, key, mark, sizeof(mark) - 1);
    gy_text_add(&body, ",");
    add_range(&body, key);
    for (size_t i = 0; i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            char record[GY_ETCD_KEY_BYTES];
            record_key(etcd, commit->batch[i]->key, record);
            gy_text_add(&body, ",");
            add_range(&body, record);
        }
    }
    gy_text_add(&body, "]}");
    json_t *answer = NULL;
    GY_TRY(ask_text(&etcd->storing, &body,
                    (gy_etcd_question){.path = "/v3/kv/txn", .deadline = commit->deadline},
                    &answer));
    gy_etcd_record found = {.version = 0};
    gy_status status =
        gy_etcd_has_succeeded(answer)
            ? gy_etcd_found(answer, 1, &found)
            : gy_fail(GY_FORMAT, "etcd's %s was removed, and the table with it", key);
    etcd->fence = status == GY_OK ? found.version : 0;
    size_t index = 2;
    for (size_t i = 0; status == GY_OK && i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            status = gy_etcd_found(answer, index++, &found);
            if (status == GY_OK) {
                look_at(commit, commit->batch[i], &found);
            }
        }
    }
    json_decref(answer);
    commit->is_unsure = commit->is_unsure && status < 0;
    return status;
}

static void add_store(gy_text *body, const gy_etcd *etcd, const gy_persist_table_write *write)
{
    char key[GY_ETCD_KEY_BYTES];
    record_key(etcd, write->key, key);
    gy_text_add(body, "{\"requestTxn\":{");
    add_compare(body, key, write->version);
    gy_text_add(body, ",\"success\":[");
    if (write->size_bytes > 0) {
        uint8_t value[TOKEN_BYTES + GY_TABLE_RECORD_BYTES];
        memcpy(value, write->token, TOKEN_BYTES);
        memcpy(value + TOKEN_BYTES, write->data, write->size_bytes);
        add_put(body, key, value, TOKEN_BYTES + write->size_bytes);
    } else {
        gy_text_add(body, "{\"requestDeleteRange\":{");
        gy_etcd_add_key(body, key);
        gy_text_add(body, "}}");
    }
    gy_text_add(body, "],\"failure\":[");
    add_range(body, key);
    gy_text_add(body, "]}}");
}

/* Take the answer to send_open: one nested transaction for each store. */
static gy_status take_stored(const committing *commit, const json_t *answer)
{
    gy_etcd_record found = {.version = 0};
    if (!gy_etcd_has_succeeded(answer)) { /* the fence has changed, so nothing was applied */
        GY_TRY(gy_etcd_found(answer, 0, &found));
        commit->etcd->fence = found.version; /* 0: raise_fence reports the error */
        return GY_OK;
    }
    /* The first response is of PREFIX/stored. */
    size_t index = commit->batch[0]->size_bytes > 0;
    for (size_t i = 0; i < commit->count; i++) {
        if (!commit->batch[i]->is_open) {
            continue;
        }
        const json_t *one = NULL;
        GY_TRY(gy_etcd_response(answer, index++, "response_txn", &one));
        if (gy_etcd_has_succeeded(one)) {
            gy_persist_table_settle(commit->batch[i], GY_OK);
            continue;
        }
        GY_TRY(gy_etcd_found(one, 0, &found));
        look_at(commit, commit->batch[i], &found);
        if (commit->batch[i]->is_open) {
            return gy_fail(GY_FORMAT,
                           "etcd found a record's version to be another and the same");
        }
    }
    return GY_OK;
}

/* Send the open stores once. GY_AGAIN: they may have been applied. */
static gy_status send_open(committing *commit)
{
    gy_etcd *etcd = commit->etcd;
    char key[GY_ETCD_KEY_BYTES];
    fence_key(etcd, key);
    gy_text body = {0};
    const bool has_put = commit->batch[0]->size_bytes > 0;
    const char *comma = "";
    gy_text_add(&body, "{");
    add_compare(&body, key, etcd->fence);
    gy_text_add(&body, ",\"success\":[");
    if (has_put) { /* etcd's quota check ignores nested puts, so add one at the top level */
        char stored[GY_ETCD_KEY_BYTES];
        snprintf(stored, sizeof(stored), "%s/stored", etcd->where.prefix);
        add_put(&body, stored, mark, sizeof(mark) - 1);
        comma = ",";
    }
    for (size_t i = 0; i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            gy_text_add(&body, "%s", comma);
            add_store(&body, etcd, commit->batch[i]);
            comma = ",";
        }
    }
    gy_text_add(&body, "],\"failure\":[");
    add_range(&body, key);
    gy_text_add(&body, "]}");
    json_t *answer = NULL;
    /* A removal leaves no token that would reveal whether libcurl sent it twice. */
    const gy_status status = ask_text(&etcd->storing, &body,
                                      (gy_etcd_question){.path = "/v3/kv/txn",
                                                         .deadline = commit->deadline,
                                                         .is_once = true,
                                                         .is_fresh = !has_put},
                                      &answer);
    if (status != GY_OK) {
        return status;
    }
    const gy_status taken = take_stored(commit, answer);
    json_decref(answer);
    return taken;
}

static gy_status commit_open(committing *commit)
{
    while (count_open(commit) > 0) {
        if (commit->is_unsure || commit->etcd->fence == 0) {
            GY_TRY(raise_fence(commit));
            continue;
        }
        const gy_status status = send_open(commit);
        GY_TRY(status);
        commit->is_unsure = status == GY_AGAIN;
    }
    return GY_OK;
}

/* etcd answered that it has no room. It answers the same for a transaction that it applied
 * before checking its quota. The answer has arrived, so reading the records decides without a
 * fence. */
static gy_status find_refused(committing *commit)
{
    gy_error refused;
    gy_error_take(&refused, GY_LIMIT);
    gy_text body = {0};
    const char *comma = "";
    gy_text_add(&body, "{\"success\":[");
    for (size_t i = 0; i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            char record[GY_ETCD_KEY_BYTES];
            record_key(commit->etcd, commit->batch[i]->key, record);
            gy_text_add(&body, "%s", comma);
            add_range(&body, record);
            comma = ",";
        }
    }
    gy_text_add(&body, "]}");
    json_t *answer = NULL;
    GY_TRY(ask_text(&commit->etcd->storing, &body,
                    (gy_etcd_question){.path = "/v3/kv/txn", .deadline = commit->deadline},
                    &answer));
    gy_etcd_record found = {.version = 0};
    gy_status status = GY_OK;
    size_t index = 0;
    for (size_t i = 0; status == GY_OK && i < commit->count; i++) {
        if (commit->batch[i]->is_open) {
            status = gy_etcd_found(answer, index++, &found);
            if (status == GY_OK) {
                look_at(commit, commit->batch[i], &found);
            }
        }
    }
    json_decref(answer);
    return status < 0 ? status : gy_error_raise(&refused);
}

/* Commit the stores of one kind: puts, or removals, which leave no token and need no room. */
static void commit_kind(gy_persist_table *table, gy_persist_table_write *const *batch,
                        size_t count)
{
    committing commit = {.table = table, .etcd = table->place, .batch = batch, .count = count};
    commit.deadline = (gy_deadline){batch[0]->due_ns};
    gy_status status = commit_open(&commit);
    if (status == GY_LIMIT && commit.is_unsure) {
        status = gy_fail_within(GY_IO, "it is not known what stands");
    } else if (status == GY_LIMIT) {
        status = find_refused(&commit);
    }
    if (status < 0) {
        settle_rest(&commit, status);
    }
}

static void etcd_commit(gy_persist_table *table, gy_persist_table_write *const *batch,
                        size_t count)
{
    gy_etcd *etcd = table->place;
    gy_persist_table_write *kinds[2][GY_TABLE_BATCH];
    size_t counts[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        const uint64_t halves[2] = {etcd->writer, ++etcd->writes};
        memcpy(batch[i]->token, halves, sizeof(halves));
        const int kind = batch[i]->size_bytes == 0;
        kinds[kind][counts[kind]++] = batch[i];
    }
    for (int kind = 0; kind < 2; kind++) {
        if (counts[kind] > 0) {
            commit_kind(table, kinds[kind], counts[kind]);
        }
    }
}

const gy_persist_table_ops gy_persist_table_etcd = {
    .name = "etcd",
    .open = etcd_open,
    .close = etcd_close,
    .wake = etcd_wake,
    .load = etcd_load,
    .commit = etcd_commit,
    .leader = gy_etcd_leader,
    .run = gy_etcd_run,
    .renew = gy_etcd_renew,
    .leave = gy_etcd_leave,
};
