/* The memo store: its index in memory and on disk. Real files only, because it locks them. */
#include "flow/memo/memo_priv.h"

#include "base/text.h"
#include "flow/channel/start.h"
#include "flow/section/section.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_SECONDS = 5, PIECE_BYTES = 1 << 20 };

static gy_status fail_file(const char *verb, const char *path)
{
    return gy_fail(errno == ENOMEM ? GY_NOMEM : GY_IO, "cannot %s %s: %s", verb, path,
                   strerror(errno));
}

gy_status gy_flow_memo_path(const gy_memo_store *store, const char *name,
                            char out[GY_MEMO_PATH])
{
    if (snprintf(out, GY_MEMO_PATH, "%s/%s", store->folder, name) >= GY_MEMO_PATH) {
        return gy_fail(GY_ARG, "the path of the memo folder has over %d bytes",
                       GY_MEMO_PATH - 100);
    }
    return GY_OK;
}

gy_memo_entry *gy_memo_entry_of(const gy_memo_store *store, gy_key key)
{
    const uint32_t row = gy_index_find(&store->by_key, key);
    return row != GY_NONE ? &store->entries[row] : NULL;
}

const gy_memo_entry *gy_flow_memo_find(const gy_memo_store *store, gy_key key)
{
    const gy_memo_entry *entry = gy_memo_entry_of(store, key);
    return entry != NULL && !entry->is_gone ? entry : NULL;
}

bool gy_flow_memo_content(const gy_memo_store *store, const gy_memo_file *file, gy_key *content)
{
    const uint32_t row = gy_index_find(&store->by_file, gy_key_of(file, sizeof(*file)));
    if (row != GY_NONE) {
        *content = store->contents[row].content;
    }
    return row != GY_NONE;
}

static gy_status learn_content(gy_memo_store *store, const gy_memo_content_row *of)
{
    uint32_t row = 0;
    GY_TRY(GY_GROW("flow.memo", store->contents, store->content_capacity,
                   store->by_file.count + 1));
    GY_TRY(gy_index_number(&store->by_file, gy_key_of(&of->file, sizeof(of->file)), &row));
    store->contents[row] = *of;
    return GY_OK;
}

/* Add or replace the entry of a key. The report is copied. */
static gy_status learn_entry(gy_memo_store *store, const gy_memo_entry *entry)
{
    void *report = NULL;
    if (entry->report_bytes > 0) {
        report = gy_arena_alloc(&store->reports, entry->report_bytes);
        if (report == NULL) {
            return GY_NOMEM;
        }
        memcpy(report, entry->report, entry->report_bytes);
    }
    gy_memo_entry *known = gy_memo_entry_of(store, entry->key);
    if (known == NULL) {
        GY_TRY(GY_GROW("flow.memo", store->entries, store->entry_capacity,
                       store->entry_count + 1));
        GY_TRY(gy_index_put(&store->by_key, entry->key, (uint32_t)store->entry_count));
        known = &store->entries[store->entry_count++];
        *known = (gy_memo_entry){0};
    }
    store->bytes += entry->bytes - known->bytes;
    *known = *entry;
    known->report = report;
    return GY_OK;
}

/* ---- the index ---- */

static gy_status take_record(gy_memo_store *store, const gy_memo_record *record,
                             const char *body, size_t body_bytes)
{
    if (record->kind == GY_MEMO_CONTENT && body_bytes == sizeof(gy_memo_content_row)) {
        gy_memo_content_row row;
        memcpy(&row, body, sizeof(row));
        return learn_content(store, &row);
    }
    if (record->kind == GY_MEMO_USED && body_bytes == sizeof(gy_memo_used)) {
        gy_memo_used used;
        memcpy(&used, body, sizeof(used));
        gy_memo_entry *entry = gy_memo_entry_of(store, used.key);
        if (entry != NULL) {
            entry->used_ns = used.used_ns;
        }
        return GY_OK;
    }
    gy_memo_entry entry;
    if (record->kind != GY_MEMO_KEPT || body_bytes < sizeof(entry)) {
        return gy_fail(GY_FORMAT, "a record of kind %u and %zu bytes", record->kind,
                       body_bytes);
    }
    memcpy(&entry, body, sizeof(entry));
    entry.report = body + sizeof(entry);
    if (entry.width == 0 || entry.width > GY_MEMO_WIDTH_MAX) {
        return gy_fail(GY_FORMAT, "a result of %u members: expected 1 to %d", entry.width,
                       GY_MEMO_WIDTH_MAX);
    }
    if (entry.report_bytes != body_bytes - sizeof(entry)) {
        return gy_fail(GY_FORMAT, "a report of %zu bytes in a record of %zu",
                       entry.report_bytes, body_bytes);
    }
    return learn_entry(store, &entry);
}

/* *used: the size before the first torn record. */
static gy_status take_index(gy_memo_store *store, const char *data, size_t size_bytes,
                            size_t *used)
{
    const size_t magic = sizeof(GY_MEMO_MAGIC) - 1;
    if (size_bytes < magic || memcmp(data, GY_MEMO_MAGIC, magic) != 0) {
        return gy_fail(GY_FORMAT, "it does not begin as the index of a memo folder does");
    }
    size_t at = magic;
    while (size_bytes - at >= sizeof(gy_memo_record)) {
        gy_memo_record record;
        memcpy(&record, data + at, sizeof(record));
        const char *body = data + at + sizeof(record);
        if (record.body_bytes > size_bytes - at - sizeof(record) ||
            gy_hash(body, record.body_bytes, record.kind) != record.sum) {
            break;
        }
        GY_TRY(take_record(store, &record, body, record.body_bytes));
        at += sizeof(record) + record.body_bytes;
    }
    *used = at;
    return GY_OK;
}

static gy_status load_index(gy_memo_store *store, const char *path, bool is_alone)
{
    struct stat about;
    if (fstat(store->index, &about) != 0) {
        return fail_file("read", path);
    }
    const size_t magic = sizeof(GY_MEMO_MAGIC) - 1;
    if (about.st_size == 0 && is_alone) {
        return write(store->index, GY_MEMO_MAGIC, magic) == (ssize_t)magic
                   ? GY_OK
                   : fail_file("write", path);
    }
    gy_bytes bytes;
    GY_TRY(gy_store_file_read(store->env, path, SIZE_MAX / 2, &bytes));
    size_t used = 0;
    gy_status status = take_index(store, bytes.data, bytes.size_bytes, &used);
    gy_free(bytes.data);
    if (status < 0) {
        return gy_fail_within(status, "%s", path);
    }
    if (is_alone && used < bytes.size_bytes && ftruncate(store->index, (off_t)used) != 0) {
        return fail_file("cut", path);
    }
    return GY_OK;
}

/* One write call for each record, so that records of several jobs do not mix. On a file system
 * that several hosts share, a host may have a stale idea of the file's end; with the lock it
 * is correct. */
static gy_status write_record(const gy_memo_store *store, const gy_text *text)
{
    if (store->is_over_hosts) {
        const gy_deadline deadline = gy_env_deadline(store->env, LOCK_SECONDS);
        for (uint64_t round = 0; flock(store->index, LOCK_EX | LOCK_NB) != 0; round++) {
            if (gy_now_ns(store->env) >= deadline.at_ns) {
                return gy_fail(GY_STATE, "the index of %s has been locked for more than %d s",
                               store->folder, LOCK_SECONDS);
            }
            store->env->ops->pause(store->env, round);
        }
    }
    const ssize_t written = write(store->index, text->data, text->size_bytes);
    const gy_status status = written == (ssize_t)text->size_bytes
                                 ? GY_OK
                                 : fail_file("write the index of", store->folder);
    if (store->is_over_hosts) {
        (void)flock(store->index, LOCK_UN);
    }
    return status;
}

gy_status gy_flow_memo_append(gy_memo_store *store, uint32_t kind, const void *body,
                              size_t body_bytes, const void *more, size_t more_bytes)
{
    gy_text text = {0};
    gy_memo_record record = {.kind = kind, .body_bytes = (uint32_t)(body_bytes + more_bytes)};
    gy_text_add_bytes(&text, &record, sizeof(record));
    gy_text_add_bytes(&text, body, body_bytes);
    if (more_bytes > 0) {
        gy_text_add_bytes(&text, more, more_bytes);
    }
    gy_status status = text.status;
    if (status >= 0) {
        record.sum = gy_hash(text.data + sizeof(record), record.body_bytes, kind);
        memcpy(text.data, &record, sizeof(record));
        status = write_record(store, &text);
    }
    gy_text_free(&text);
    return status;
}

/* ---- opening ---- */

/* Lock exclusively if no other process has the folder open, else shared. Waits while another
 * process opens or collects the folder. */
static gy_status take_lock(gy_memo_store *store, bool *is_alone, bool may_be_alone)
{
    const gy_deadline deadline = gy_env_deadline(store->env, LOCK_SECONDS);
    for (uint64_t round = 0;; round++) {
        *is_alone = may_be_alone && flock(store->lock, LOCK_EX | LOCK_NB) == 0;
        if (*is_alone || flock(store->lock, LOCK_SH | LOCK_NB) == 0) {
            return GY_OK;
        }
        if (gy_now_ns(store->env) >= deadline.at_ns) {
            return gy_fail(GY_STATE,
                           "the memo folder %s has been under collection for more than %d s",
                           store->folder, LOCK_SECONDS);
        }
        store->env->ops->pause(store->env, round);
    }
}

/* Open exclusively first, to repair the index; then shared. */
static gy_status open_files(gy_memo_store *store)
{
    char path[GY_MEMO_PATH];
    GY_TRY(gy_flow_memo_path(store, "objects/any", path));
    const int made = gy_disk_make_folders(path);
    if (made != 0) {
        return gy_fail(GY_IO, "cannot make the folder %s: %s", store->folder, strerror(-made));
    }
    GY_TRY(gy_flow_memo_path(store, "lock", path));
    store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock < 0) {
        return fail_file("open", path);
    }
    bool is_alone = false;
    GY_TRY(take_lock(store, &is_alone, true));
    GY_TRY(gy_flow_memo_path(store, "index", path));
    store->index = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (store->index < 0) {
        return fail_file("open", path);
    }
    GY_TRY(load_index(store, path, is_alone));
    return is_alone ? take_lock(store, &is_alone, false) : GY_OK;
}

gy_status gy_flow_memo_open(gy_env *env, const char *folder, gy_memo_store **store)
{
    gy_memo_store *made = gy_alloc_zero("flow.memo", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->lock = made->index = -1;
    made->folder = gy_copy_text("flow.memo", folder);
    gy_status status = made->folder != NULL ? open_files(made) : GY_NOMEM;
    if (status != GY_OK) {
        gy_flow_memo_close(made);
        return status;
    }
    *store = made;
    return GY_OK;
}

void gy_flow_memo_share(gy_memo_store *store, bool is_over_hosts)
{
    store->is_over_hosts = is_over_hosts;
}

void gy_flow_memo_close(gy_memo_store *store)
{
    if (store == NULL) {
        return;
    }
    const int files[] = {store->index, store->lock};
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        if (files[i] >= 0) {
            (void)close(files[i]);
        }
    }
    gy_free(store->entries);
    gy_free(store->contents);
    gy_free(store->folder);
    gy_index_free(&store->by_key);
    gy_index_free(&store->by_file);
    gy_arena_free(&store->reports);
    gy_free(store);
}

uint64_t gy_flow_memo_bytes(const gy_memo_store *store)
{
    return store->bytes;
}

/* ---- results ---- */

void gy_flow_memo_object(const gy_memo_entry *entry, uint32_t member, char out[GY_MEMO_NAME])
{
    const size_t size = gy_print(
        out, GY_MEMO_NAME, "objects/%016llx%016llx.%u.%u", (unsigned long long)entry->key.high,
        (unsigned long long)entry->key.low, entry->epoch, entry->attempt);
    if (entry->width > 1) {
        (void)snprintf(out + size, GY_MEMO_NAME - size, ".%u", member);
    }
}

static bool has_file(const gy_memo_entry *entry, uint32_t member)
{
    return (entry->files >> member & 1) != 0;
}

gy_status gy_flow_memo_remember(gy_memo_store *store, gy_manager *manager)
{
    gy_sched_memo *memos = gy_alloc("flow.memo", (store->entry_count + 1) * sizeof(*memos));
    if (memos == NULL) {
        return GY_NOMEM;
    }
    size_t count = 0;
    gy_status status = GY_OK;
    for (size_t i = 0; status >= 0 && i < store->entry_count; i++) {
        gy_memo_entry *entry = &store->entries[i];
        char path[GY_MEMO_PATH], name[GY_MEMO_NAME];
        for (uint32_t m = 0; status >= 0 && m < entry->width; m++) {
            if (!has_file(entry, m)) {
                continue;
            }
            gy_flow_memo_object(entry, m, name);
            status = gy_flow_memo_path(store, name, path);
            entry->is_gone = entry->is_gone || access(path, R_OK) != 0;
        }
        if (!entry->is_gone) {
            memos[count++] = (gy_sched_memo){.key = entry->key,
                                             .content = entry->content,
                                             .epoch = entry->epoch,
                                             .attempt = entry->attempt,
                                             .report = entry->report,
                                             .report_bytes = entry->report_bytes};
        }
    }
    if (status >= 0 && count > 0) {
        status = gy_manager_remember(manager, memos, count);
    }
    gy_free(memos);
    return status;
}

static gy_status fail_copy(const char *from, const char *to, int64_t error)
{
    gy_status status = GY_IO;
    if (error == -ENOENT) {
        status = GY_NOTFOUND;
    } else if (error == -ENOMEM) {
        status = GY_NOMEM;
    }
    return gy_fail(status, "cannot copy %s to %s: %s", from, to, strerror((int)-error));
}

/* Read the file instead of mapping it, because its owner may truncate it meanwhile. */
static int64_t add_all(gy_env *env, int source, char *piece, gy_writer *writer)
{
    int64_t got = gy_env_disk(env)->size(env, source);
    for (got = got < 0 ? got : 1; got > 0;) {
        got = gy_env_disk(env)->read(env, source, piece, PIECE_BYTES);
        if (got > 0 && gy_writer_add(writer, piece, (size_t)got) < 0) {
            return 0; /* gy_section_finish reports the failure again */
        }
    }
    return got;
}

/* The copy gets its name only after it is complete and synced, because a process after a crash
 * trusts a file with that name. */
static gy_status copy_file(gy_env *env, const char *from, const char *to)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    gy_writer *writer = NULL;
    GY_TRY(gy_writer_open(env, to, &writer));
    char *piece = gy_alloc("flow.memo", PIECE_BYTES);
    const int source =
        piece != NULL ? disk->open(env, from, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0)
                      : -ENOMEM;
    const int64_t error = source < 0 ? source : add_all(env, source, piece, writer);
    if (source >= 0) {
        (void)disk->close(env, source);
    }
    gy_free(piece);
    if (error < 0) {
        gy_writer_abort(writer);
        return fail_copy(from, to, error);
    }
    return gy_writer_finish(writer);
}

/* Link the file under a second name, or copy it where links are impossible. An existing file
 * of that name has the same content. */
static gy_status link_file(gy_env *env, const char *from, const char *to)
{
    const int error = gy_env_disk(env)->link(env, from, to);
    if (error == 0 || error == -EEXIST) {
        return GY_OK;
    }
    return error == -EXDEV || error == -EPERM || error == -EMLINK ? copy_file(env, from, to)
                                                                  : fail_copy(from, to, error);
}

/* Copy a final output and check that its bytes match its producer's report. The user has the
 * same file under another name and may write to it, so it is read, not mapped. */
static gy_status copy_pieces(int from, int to, gy_section_sum *sum)
{
    char *piece = gy_alloc("flow.memo", PIECE_BYTES);
    if (piece == NULL) {
        return GY_NOMEM;
    }
    gy_hash_stream hash;
    gy_hash_begin(&hash);
    ssize_t got = 1;
    bool is_written = true;
    for (sum->size_bytes = 0; got > 0 && is_written; sum->size_bytes += (uint64_t)got) {
        got = read(from, piece, PIECE_BYTES);
        if (got <= 0) {
            break;
        }
        gy_hash_feed(&hash, piece, (size_t)got);
        for (ssize_t done = 0; is_written && done < got;) {
            const ssize_t more = write(to, piece + done, (size_t)(got - done));
            is_written = more > 0;
            done += more;
        }
    }
    sum->hash = gy_hash_end(&hash);
    gy_free(piece);
    return got == 0 && is_written ? GY_OK : gy_fail(GY_IO, "cannot copy: %s", strerror(errno));
}

static gy_status copy_final(const char *from, const char *to, gy_key content)
{
    const int source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const int target =
        source >= 0 ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    gy_section_sum sum = {0};
    gy_status status = target < 0 ? fail_file("copy", from) : GY_OK;
    if (status >= 0) {
        status = copy_pieces(source, target, &sum);
        status = status < 0 ? gy_fail_within(status, "%s to %s", from, to) : status;
    }
    const int files[] = {source, target};
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        if (files[i] >= 0 && close(files[i]) != 0 && status >= 0) {
            status = fail_file("write", to);
        }
    }
    const gy_key is = gy_section_content(&sum, 1);
    if (status >= 0 && memcmp(&is, &content, sizeof(content)) != 0) {
        status = gy_fail(GY_FORMAT,
                         "%s was changed since it was memoised: it is computed again", from);
        (void)unlink(from);
    }
    if (status < 0 && target >= 0) {
        (void)unlink(to);
    }
    return status;
}

static bool is_final(const gy_memo_place *place, uint32_t member)
{
    return (place->finals >> member & 1) != 0;
}

/* Make the paths of a member's file in the store and in the job. */
static gy_status both_paths(const gy_memo_store *store, const gy_memo_entry *entry,
                            const gy_memo_place *place, char out[2][GY_MEMO_PATH],
                            uint32_t member)
{
    char name[GY_MEMO_NAME];
    gy_flow_memo_object(entry, member, name);
    GY_TRY(gy_flow_memo_path(store, name, out[0]));
    const char *folder = place->data;
    if (is_final(place, member)) {
        folder = place->hidden;
        (void)gy_flow_name_final(place->id, member, 0, name);
    } else {
        (void)gy_flow_name_file(place->round, place->id, member, entry->width, name);
    }
    if (snprintf(out[1], GY_MEMO_PATH, "%s/%s", folder, name) >= GY_MEMO_PATH) {
        return gy_fail(GY_ARG, "the path %s is too long", folder);
    }
    return GY_OK;
}

gy_status gy_flow_memo_lend(gy_memo_store *store, const gy_memo_entry *entry,
                            const gy_memo_place *place)
{
    for (uint32_t m = 0; m < entry->width; m++) {
        char paths[2][GY_MEMO_PATH];
        if (!has_file(entry, m)) {
            continue;
        }
        GY_TRY(both_paths(store, entry, place, paths, m));
        GY_TRY(is_final(place, m) ? copy_final(paths[0], paths[1], place->contents[m])
                                  : link_file(store->env, paths[0], paths[1]));
    }
    const gy_memo_used used = {entry->key, store->env->ops->wall_ns(store->env)};
    return gy_flow_memo_append(store, GY_MEMO_USED, &used, sizeof(used), NULL, 0);
}

gy_status gy_flow_memo_keep(gy_memo_store *store, const gy_memo_entry *entry,
                            const gy_memo_place *place)
{
    gy_memo_entry kept = *entry;
    kept.bytes = 0;
    kept.files = 0;
    kept.is_gone = false;
    GY_ASSERT(entry->width <= GY_MEMO_WIDTH_MAX);
    for (uint32_t m = 0; m < entry->width; m++) {
        char paths[2][GY_MEMO_PATH];
        struct stat about;
        GY_TRY(both_paths(store, entry, place, paths, m));
        if (stat(paths[1], &about) != 0) {
            continue; /* the report contains all outputs of this member */
        }
        GY_TRY(link_file(store->env, paths[1], paths[0]));
        kept.files |= UINT64_C(1) << m;
        kept.bytes += gy_round_up((uint64_t)about.st_size, GY_MEMO_PAGE);
    }
    kept.used_ns = store->env->ops->wall_ns(store->env);
    kept.report = NULL;
    GY_TRY(gy_flow_memo_append(store, GY_MEMO_KEPT, &kept, sizeof(kept), entry->report,
                               entry->report_bytes));
    kept.report = entry->report;
    return learn_entry(store, &kept);
}

gy_status gy_flow_memo_tell_content(gy_memo_store *store, const gy_memo_file *file,
                                    gy_key content)
{
    const gy_memo_content_row row = {*file, content};
    GY_TRY(gy_flow_memo_append(store, GY_MEMO_CONTENT, &row, sizeof(row), NULL, 0));
    return learn_content(store, &row);
}
