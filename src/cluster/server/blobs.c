/* The name server's store of files by content. */
#include "cluster/server/blobs.h"

#include "base/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PATH_BYTES = 4096,
    SYNC_EVERY = 8 << 20, /* so that no sync delays the loop for long */
};

static const int64_t second_ns = 1000000000;

typedef struct blob {
    gy_key content;
    uint64_t size_bytes;
    int64_t used_ns;
    bool is_marked;
} blob;

typedef struct upload {
    gy_blob_piece about; /* data: unused */
    gy_net_digest *digest;
    uint64_t unsynced;
    int64_t heard_ns;
    int file; /* -1: none */
    char path[PATH_BYTES];
} upload;

struct gy_blobs {
    gy_env *env;
    gy_blobs_options options;
    char folder[PATH_BYTES - 80];
    gy_index by_content;
    blob *rows;
    size_t count, capacity;
    uint64_t size_bytes;
    upload *uploads; /* (GY_BLOBS_UPLOADS) */
    uint64_t next_upload;
    int64_t swept_ns; /* when it last found nothing to remove */
};

static gy_status fail_file(const char *what, const char *path, int64_t error)
{
    bool is_full = error == -ENOSPC || error == -EDQUOT;
    return gy_fail(is_full ? GY_LIMIT : GY_IO, "cannot %s %s: %s", what, path,
                   strerror((int)-error));
}

static void path_of(const gy_blobs *blobs, gy_key content, char out[PATH_BYTES])
{
    char name[GY_NET_KEY_TEXT];
    gy_net_key_text(content, name);
    snprintf(out, PATH_BYTES, "%s/%s", blobs->folder, name);
}

/* ---- Existing blobs ---- */

static gy_status add_row(gy_blobs *blobs, const blob *made)
{
    GY_TRY(GY_GROW("blobs", blobs->rows, blobs->capacity, blobs->count + 1));
    GY_TRY(gy_index_put(&blobs->by_content, made->content, (uint32_t)blobs->count));
    blobs->rows[blobs->count++] = *made;
    blobs->size_bytes += made->size_bytes;
    return GY_OK;
}

static void remove_row(gy_blobs *blobs, uint32_t row)
{
    blob *last = &blobs->rows[--blobs->count];
    blobs->size_bytes -= blobs->rows[row].size_bytes;
    gy_index_remove(&blobs->by_content, blobs->rows[row].content);
    if (last != &blobs->rows[row]) {
        gy_index_remove(&blobs->by_content, last->content);
        blobs->rows[row] = *last;
        gy_status put = gy_index_put(&blobs->by_content, last->content, row);
        GY_ASSERT(put == GY_OK); /* room was reserved just before */
    }
}

/* Parse 32 hex digits as a content hash. */
static bool read_name(const char *name, gy_key *content)
{
    unsigned long long high = 0, low = 0;
    if (strlen(name) != GY_NET_KEY_TEXT - 1 ||
        strspn(name, "0123456789abcdef") != GY_NET_KEY_TEXT - 1 ||
        sscanf(name, "%16llx%16llx", &high, &low) != 2) {
        return false;
    }
    *content = (gy_key){high, low};
    return true;
}

static gy_status load_file(void *arg, const char *name)
{
    gy_blobs *blobs = arg;
    struct stat about;
    blob found = {0};
    char path[PATH_BYTES];
    if (name[0] == '.') {
        if (strncmp(name, ".part-", 6) != 0) {
            return GY_OK;
        }
        snprintf(path, sizeof(path), "%s/%.64s", blobs->folder, name);
        /* Left by an interrupted upload. */
        int gone = gy_env_disk(blobs->env)->unlink(blobs->env, path);
        return gone < 0 ? fail_file("remove", path, gone) : GY_OK;
    }
    if (!read_name(name, &found.content)) {
        return gy_fail(GY_FORMAT, "%s/%.64s is no file of a job: not removed, nothing is done",
                       blobs->folder, name);
    }
    path_of(blobs, found.content, path);
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return gy_fail(GY_IO, "%s is no file that can be read", path);
    }
    int64_t age_ns = blobs->env->ops->wall_ns(blobs->env) -
                     (about.st_mtim.tv_sec * second_ns + about.st_mtim.tv_nsec);
    found.size_bytes = (uint64_t)about.st_size;
    found.used_ns = gy_now_ns(blobs->env) - GY_MAX(age_ns, (int64_t)0);
    return add_row(blobs, &found);
}

static gy_status load_folder(gy_blobs *blobs)
{
    char inside[PATH_BYTES];
    snprintf(inside, sizeof(inside), "%s/x", blobs->folder);
    int made = gy_disk_make_folders(inside);
    return made < 0 ? fail_file("open", blobs->folder, made)
                    : gy_disk_each(blobs->env, blobs->folder, load_file, blobs);
}

gy_status gy_blobs_open(gy_env *env, const gy_blobs_options *options, gy_blobs **blobs)
{
    gy_blobs *made = gy_alloc_zero("blobs", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->options = *options;
    made->options.fresh_ns = options->fresh_ns > 0 ? options->fresh_ns : 600 * second_ns;
    made->options.idle_ns = options->idle_ns > 0 ? options->idle_ns : 10 * second_ns;
    made->swept_ns = INT64_MIN / 2;
    made->uploads = gy_alloc_zero("blobs", GY_BLOBS_UPLOADS, sizeof(upload));
    gy_status status = made->uploads == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK && snprintf(made->folder, sizeof(made->folder), "%s",
                                    options->folder) >= (int)sizeof(made->folder)) {
        status = gy_fail(GY_ARG, "the path of the files of jobs is too long");
    }
    for (int i = 0; status == GY_OK && i < GY_BLOBS_UPLOADS; i++) {
        made->uploads[i].file = -1;
    }
    status = status == GY_OK ? load_folder(made) : status;
    if (status < 0) {
        gy_blobs_close(made);
        return status;
    }
    *blobs = made;
    return GY_OK;
}

bool gy_blobs_touch(gy_blobs *blobs, gy_key content, uint64_t *size_bytes)
{
    uint32_t row = gy_index_find(&blobs->by_content, content);
    if (row == GY_NONE) {
        return false;
    }
    blobs->rows[row].used_ns = gy_now_ns(blobs->env);
    if (size_bytes != NULL) {
        *size_bytes = blobs->rows[row].size_bytes;
    }
    return true;
}

void gy_blobs_mark(gy_blobs *blobs, gy_key content)
{
    uint32_t row = gy_index_find(&blobs->by_content, content);
    if (row != GY_NONE) {
        blobs->rows[row].is_marked = true;
    }
}

gy_status gy_blobs_find(gy_blobs *blobs, gy_key content, gy_bulk_region *region)
{
    char path[PATH_BYTES];
    uint64_t size = 0;
    path_of(blobs, content, path);
    if (!gy_blobs_touch(blobs, content, &size)) {
        return gy_fail(GY_NOTFOUND, "there is no file %s", strrchr(path, '/') + 1);
    }
    int file = gy_env_disk(blobs->env)->open(blobs->env, path, O_RDONLY | O_NOFOLLOW, 0);
    if (file < 0) {
        return fail_file("open", path, file);
    }
    *region = (gy_bulk_region){.fd = file, .is_taken = true, .size_bytes = size};
    return GY_OK;
}

gy_status gy_blobs_read(gy_blobs *blobs, gy_key content, size_t bytes_max, gy_arena *arena,
                        void **data, size_t *size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(blobs->env);
    gy_bulk_region region = {.fd = -1};
    GY_TRY(gy_blobs_find(blobs, content, &region));
    uint8_t *bytes = region.size_bytes > bytes_max
                         ? NULL
                         : gy_arena_alloc(arena, (size_t)region.size_bytes + 1);
    size_t have = 0;
    int64_t got = 1;
    while (bytes != NULL && have < region.size_bytes && got > 0) {
        got = disk->read(blobs->env, region.fd, bytes + have, (size_t)region.size_bytes - have);
        have += got > 0 ? (size_t)got : 0;
    }
    (void)disk->close(blobs->env, region.fd);
    if (region.size_bytes > bytes_max) {
        return gy_fail(GY_LIMIT, "%llu bytes are more than %zu",
                       (unsigned long long)region.size_bytes, bytes_max);
    }
    if (bytes == NULL) {
        return GY_NOMEM;
    }
    if (have < region.size_bytes) {
        return gy_fail(GY_IO, "a file of a job cannot be read: %s",
                       got < 0 ? strerror((int)-got) : "it is shorter than it was");
    }
    *data = bytes;
    *size_bytes = have;
    return GY_OK;
}

/* ---- Disk space ---- */

static uint64_t reserved_bytes(const gy_blobs *blobs)
{
    uint64_t sum = blobs->size_bytes;
    for (int i = 0; i < GY_BLOBS_UPLOADS; i++) {
        sum += blobs->uploads[i].file >= 0 ? blobs->uploads[i].about.size_bytes : 0;
    }
    return sum;
}

static gy_status remove_blob(gy_blobs *blobs, uint32_t row)
{
    char path[PATH_BYTES];
    path_of(blobs, blobs->rows[row].content, path);
    int gone = gy_env_disk(blobs->env)->unlink(blobs->env, path);
    if (gone < 0 && gone != -ENOENT) {
        return fail_file("remove", path, gone);
    }
    remove_row(blobs, row);
    return GY_OK;
}

/* The least recently used blob that may be removed; GY_NONE. */
static uint32_t oldest(const gy_blobs *blobs, int64_t now_ns)
{
    uint32_t found = GY_NONE;
    for (uint32_t i = 0; i < blobs->count; i++) {
        const blob *row = &blobs->rows[i];
        if (!row->is_marked && now_ns - row->used_ns >= blobs->options.fresh_ns &&
            (found == GY_NONE || row->used_ns < blobs->rows[found].used_ns)) {
            found = i;
        }
    }
    return found;
}

/* Make room for that many more bytes. Finding removable blobs reads the specifications of all
 * open jobs, so after a failure it is not repeated within a second. */
static gy_status make_room(gy_blobs *blobs, uint64_t size_bytes)
{
    const uint64_t limit = blobs->options.limit_bytes;
    const int64_t now_ns = gy_now_ns(blobs->env);
    uint64_t used = reserved_bytes(blobs);
    bool is_enough = size_bytes <= limit && used <= limit - size_bytes;
    if (!is_enough && size_bytes <= limit && now_ns - blobs->swept_ns >= second_ns) {
        for (size_t i = 0; i < blobs->count; i++) {
            blobs->rows[i].is_marked = false;
        }
        GY_TRY(blobs->options.mark != NULL ? blobs->options.mark(blobs->options.arg, blobs)
                                           : GY_OK);
        for (uint32_t row; !is_enough && (row = oldest(blobs, now_ns)) != GY_NONE;) {
            GY_TRY(remove_blob(blobs, row));
            used = reserved_bytes(blobs);
            is_enough = used <= limit - size_bytes;
        }
        blobs->swept_ns = is_enough ? blobs->swept_ns : now_ns;
    }
    if (!is_enough) {
        return gy_fail(GY_LIMIT,
                       "no room for %llu bytes: %llu of %llu are in use by files of unfinished "
                       "jobs or of recent uploads",
                       (unsigned long long)size_bytes, (unsigned long long)used,
                       (unsigned long long)limit);
    }
    return GY_OK;
}

/* ---- Uploads ---- */

static void drop_upload(gy_blobs *blobs, upload *at, bool is_file_gone)
{
    const gy_disk_ops *disk = gy_env_disk(blobs->env);
    if (at->file >= 0) {
        (void)disk->close(blobs->env, at->file);
        if (!is_file_gone) {
            /* If it fails, the next start removes it. */
            (void)disk->unlink(blobs->env, at->path);
        }
    }
    gy_net_digest_free(at->digest);
    at->digest = NULL;
    at->file = -1;
}

static upload *find_upload(gy_blobs *blobs, const gy_blob_piece *piece)
{
    for (int i = 0; i < GY_BLOBS_UPLOADS; i++) {
        upload *at = &blobs->uploads[i];
        if (at->file >= 0 && at->about.from == piece->from &&
            gy_key_is_same(at->about.content, piece->content)) {
            return at;
        }
    }
    return NULL;
}

/* A free row, or that of an idle upload. */
static upload *place_upload(gy_blobs *blobs)
{
    upload *idle = NULL;
    for (int i = 0; i < GY_BLOBS_UPLOADS; i++) {
        upload *at = &blobs->uploads[i];
        if (at->file < 0) {
            return at;
        }
        if (gy_now_ns(blobs->env) - at->heard_ns >= blobs->options.idle_ns &&
            (idle == NULL || at->heard_ns < idle->heard_ns)) {
            idle = at;
        }
    }
    if (idle != NULL) {
        drop_upload(blobs, idle, false);
    }
    return idle;
}

static gy_status begin_upload(gy_blobs *blobs, const gy_blob_piece *piece, upload **begun)
{
    upload *at = place_upload(blobs);
    if (at == NULL) {
        return gy_fail(GY_LIMIT, "%d files are being uploaded already", GY_BLOBS_UPLOADS);
    }
    GY_TRY(make_room(blobs, piece->size_bytes));
    GY_TRY(gy_net_digest_begin(&at->digest));
    snprintf(at->path, sizeof(at->path), "%s/.part-%llu", blobs->folder,
             (unsigned long long)++blobs->next_upload);
    int file =
        gy_env_disk(blobs->env)
            ->open(blobs->env, at->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (file < 0) {
        gy_net_digest_free(at->digest);
        at->digest = NULL;
        return fail_file("make", at->path, file);
    }
    at->file = file;
    at->about = *piece;
    at->about.offset = 0;
    at->unsynced = 0;
    *begun = at;
    return GY_OK;
}

static gy_status write_piece(gy_blobs *blobs, upload *at, const void *data, size_t size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(blobs->env);
    const uint8_t *bytes = data;
    for (size_t done = 0; done < size_bytes;) {
        int64_t put = disk->write(blobs->env, at->file, bytes + done, size_bytes - done);
        if (put <= 0) {
            return fail_file("write", at->path, put < 0 ? put : -EIO);
        }
        done += (size_t)put;
    }
    gy_net_digest_feed(at->digest, data, size_bytes);
    at->about.offset += size_bytes;
    at->unsynced += size_bytes;
    if (at->unsynced >= SYNC_EVERY || at->about.offset == at->about.size_bytes) {
        int synced = disk->sync(blobs->env, at->file);
        if (synced < 0) {
            return fail_file("sync", at->path, synced);
        }
        at->unsynced = 0;
    }
    return GY_OK;
}

/* All of it has arrived: rename it if it matches its name. */
static gy_status keep(gy_blobs *blobs, upload *at)
{
    const gy_disk_ops *disk = gy_env_disk(blobs->env);
    const blob made = {.content = at->about.content,
                       .size_bytes = at->about.size_bytes,
                       .used_ns = gy_now_ns(blobs->env)};
    char path[PATH_BYTES];
    gy_key is = gy_net_digest_end(at->digest);
    if (!gy_key_is_same(is, made.content)) {
        return gy_fail(GY_FORMAT, "the bytes of a file are not those of its name");
    }
    if (gy_blobs_touch(blobs, made.content, NULL)) { /* another upload completed it first */
        return GY_AGAIN;
    }
    path_of(blobs, made.content, path);
    int moved = disk->rename(blobs->env, at->path, path);
    if (moved < 0) {
        return fail_file("make", path, moved);
    }
    int folder = disk->open(blobs->env, blobs->folder, O_RDONLY | O_DIRECTORY, 0);
    int synced = folder < 0 ? folder : disk->sync(blobs->env, folder);
    if (folder >= 0) {
        (void)disk->close(blobs->env, folder);
    }
    gy_status status = synced < 0 ? fail_file("sync", blobs->folder, synced) : GY_OK;
    status = status == GY_OK ? add_row(blobs, &made) : status;
    if (status < 0) {
        (void)disk->unlink(blobs->env, path);
    }
    return status;
}

/* Take the next piece of an upload, maybe the last. */
static gy_status take(gy_blobs *blobs, upload *at, const gy_blob_piece *piece)
{
    at->heard_ns = gy_now_ns(blobs->env);
    if (piece->offset + piece->data_bytes <= at->about.offset &&
        at->about.offset < at->about.size_bytes) {
        return GY_OK; /* a repeated piece */
    }
    if (piece->offset != at->about.offset || piece->size_bytes != at->about.size_bytes) {
        return gy_fail(GY_STATE, "byte %llu of a file comes, byte %llu is expected",
                       (unsigned long long)piece->offset, (unsigned long long)at->about.offset);
    }
    gy_status status = write_piece(blobs, at, piece->data, piece->data_bytes);
    if (status == GY_OK && at->about.offset < at->about.size_bytes) {
        return GY_OK;
    }
    status = status == GY_OK ? keep(blobs, at) : status;
    drop_upload(blobs, at, status == GY_OK);
    return status < 0 ? status : GY_OK;
}

gy_status gy_blobs_put(gy_blobs *blobs, const gy_blob_piece *piece)
{
    if (piece->offset > piece->size_bytes ||
        piece->data_bytes > piece->size_bytes - piece->offset ||
        (piece->data_bytes == 0 && piece->size_bytes > 0)) {
        return gy_fail(GY_ARG, "%zu bytes from %llu of a file of %llu", piece->data_bytes,
                       (unsigned long long)piece->offset,
                       (unsigned long long)piece->size_bytes);
    }
    upload *at = find_upload(blobs, piece);
    if (at != NULL && piece->offset == 0 && at->about.offset > 0 &&
        piece->size_bytes != at->about.size_bytes) {
        drop_upload(blobs, at, false);
        at = NULL;
    }
    if (gy_blobs_touch(blobs, piece->content, NULL)) {
        if (at != NULL) {
            drop_upload(blobs, at, false);
        }
        return GY_OK;
    }
    if (at == NULL && piece->offset != 0) {
        return gy_fail(GY_STATE, "byte %llu of a file comes, its beginning did not",
                       (unsigned long long)piece->offset);
    }
    gy_status status = at == NULL ? begin_upload(blobs, piece, &at) : GY_OK;
    return at != NULL && status == GY_OK ? take(blobs, at, piece) : status;
}

void gy_blobs_leave(gy_blobs *blobs, uint64_t from)
{
    for (int i = 0; i < GY_BLOBS_UPLOADS; i++) {
        if (blobs->uploads[i].file >= 0 && blobs->uploads[i].about.from == from) {
            drop_upload(blobs, &blobs->uploads[i], false);
        }
    }
}

gy_blobs_sums gy_blobs_look(const gy_blobs *blobs)
{
    gy_blobs_sums sums = {.count = blobs->count, .size_bytes = blobs->size_bytes};
    for (int i = 0; i < GY_BLOBS_UPLOADS; i++) {
        sums.uploads += blobs->uploads[i].file >= 0;
    }
    return sums;
}

void gy_blobs_close(gy_blobs *blobs)
{
    if (blobs == NULL) {
        return;
    }
    for (int i = 0; blobs->uploads != NULL && i < GY_BLOBS_UPLOADS; i++) {
        drop_upload(blobs, &blobs->uploads[i], false);
    }
    gy_index_free(&blobs->by_content);
    gy_free(blobs->uploads);
    gy_free(blobs->rows);
    gy_free(blobs);
}
