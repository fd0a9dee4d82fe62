/* Files by content hash. Each was verified in this life of the daemon, and is verified again
 * when its size or modification time changes. A file that a job's folder links to stays; of the
 * others the oldest are deleted when there are too many. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10, PIECES = 16 /* of a round: 10 ms */ };
static const uint64_t kept_bytes = (uint64_t)4 << 30;
static const double fetch_seconds = 600;

static void blob_name(gy_key key, char out[HOST_NAME])
{
    snprintf(out, HOST_NAME, "%016llx%016llx", (unsigned long long)key.high,
             (unsigned long long)key.low);
}

void gy_host_blob_path(const gy_host *host, gy_key key, char out[HOST_PATH])
{
    char name[HOST_NAME];
    blob_name(key, name);
    (void)gy_host_path(out, host->folder, "blobs", name);
}

static host_blob *find(const gy_host *host, gy_key key)
{
    host_blob *blob = host->blobs;
    while (blob != NULL && !gy_key_is_same(blob->key, key)) {
        blob = blob->next;
    }
    return blob;
}

static host_blob *add(gy_host *host, gy_key key)
{
    host_blob *made = gy_alloc_zero("host.blob", 1, sizeof(*made));
    if (made != NULL) {
        made->key = key;
        made->host = host;
        made->file = -1;
        made->next = host->blobs;
        host->blobs = made;
    }
    return made;
}

static void free_blob(host_blob *blob)
{
    gy_net_digest_free(blob->digest);
    if (blob->file >= 0) {
        close(blob->file);
    }
    gy_free(blob);
}

static void drop(gy_host *host, host_blob *blob)
{
    host_blob **at = &host->blobs;
    while (*at != blob) {
        at = &(*at)->next;
    }
    *at = blob->next;
    free_blob(blob);
}

/* ---- Existing blobs ---- */

static int64_t changed_ns(const struct stat *about)
{
    return (int64_t)about->st_mtim.tv_sec * 1000000000 + about->st_mtim.tv_nsec;
}

static void stop_reading(host_blob *blob)
{
    gy_net_digest_free(blob->digest);
    blob->digest = NULL;
    close(blob->file);
    blob->file = -1;
    blob->is_verified = false;
}

/* GY_AGAIN: there is more to read. */
static gy_status digest_some(host_blob *blob, uint8_t *piece)
{
    ssize_t got = 1;
    for (int i = 0; i < PIECES && got != 0; i++) {
        got = read(blob->file, piece, PIECE_BYTES);
        if (got < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "a file of a job cannot be read: %s", strerror(errno));
        }
        gy_net_digest_feed(blob->digest, piece, got > 0 ? (size_t)got : 0);
    }
    return got == 0 ? GY_OK : GY_AGAIN;
}

/* All its bytes are hashed: do they match its name? GY_NOTFOUND: they do not */
static gy_status judge(host_blob *blob)
{
    struct stat about;
    if (fstat(blob->file, &about) != 0) {
        return gy_fail(GY_IO, "a file of a job cannot be read: %s", strerror(errno));
    }
    blob->is_here = gy_key_is_same(gy_net_digest_end(blob->digest), blob->key);
    if (!blob->is_here) {
        return GY_NOTFOUND;
    }
    blob->size_bytes = (uint64_t)about.st_size;
    blob->changed_ns = changed_ns(&about);
    return GY_OK;
}

static void throw_away(gy_host *host, const host_blob *blob)
{
    char path[HOST_PATH];
    gy_host_blob_path(host, blob->key, path);
    gy_warn("the content of %s does not match its hash", path);
    (void)unlink(path);
}

/* Hash more bytes of a blob that is being verified; any result but GY_AGAIN ends that.
 * GY_NOTFOUND: it did not match its name and was deleted; another failure proves nothing, so
 * the blob stays. */
static gy_status verify_some(gy_host *host, host_blob *blob)
{
    uint8_t *piece = gy_alloc("host.blob", PIECE_BYTES);
    gy_status status = piece != NULL ? digest_some(blob, piece) : GY_NOMEM;
    gy_free(piece);
    if (status == GY_AGAIN) {
        return GY_AGAIN;
    }
    status = status == GY_OK ? judge(blob) : status;
    stop_reading(blob);
    if (status == GY_NOTFOUND) {
        throw_away(host, blob);
    }
    return status;
}

/* Verify a blob. GY_AGAIN: in progress; gigabytes take seconds, in which this daemon must not
 * fall silent. Else as verify_some. */
static gy_status verify(gy_host *host, host_blob *blob)
{
    char path[HOST_PATH];
    struct stat about;
    gy_host_blob_path(host, blob->key, path);
    blob->file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (blob->file < 0) {
        return GY_NOTFOUND;
    }
    if (fstat(blob->file, &about) != 0) {
        gy_status status = gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(errno));
        stop_reading(blob);
        return status;
    }
    if (!S_ISREG(about.st_mode)) {
        stop_reading(blob);
        throw_away(host, blob);
        return GY_NOTFOUND;
    }
    if (blob->is_here && blob->size_bytes == (uint64_t)about.st_size &&
        blob->changed_ns == changed_ns(&about)) {
        stop_reading(blob);
        return GY_OK;
    }
    blob->is_here = false;
    gy_status status = gy_net_digest_begin(&blob->digest);
    if (status < 0) {
        stop_reading(blob);
        return status;
    }
    blob->is_verified = true;
    return verify_some(host, blob);
}

/* The least recently used blob that no job's folder links to. */
static host_blob *oldest(const gy_host *host, uint64_t *total)
{
    host_blob *found = NULL;
    *total = 0;
    for (host_blob *blob = host->blobs; blob != NULL; blob = blob->next) {
        char path[HOST_PATH];
        struct stat about;
        gy_host_blob_path(host, blob->key, path);
        if (blob->file >= 0 || stat(path, &about) != 0 || about.st_nlink > 1) {
            continue;
        }
        *total += (uint64_t)about.st_size;
        found = found == NULL || blob->used < found->used ? blob : found;
    }
    return found;
}

static void keep_within(gy_host *host, uint64_t most)
{
    uint64_t total = 0;
    for (host_blob *old = oldest(host, &total); old != NULL && total > most;
         old = oldest(host, &total)) {
        char path[HOST_PATH];
        gy_host_blob_path(host, old->key, path);
        if (unlink(path) != 0) {
            gy_warn("cannot remove %s: %s", path, strerror(errno));
            return;
        }
        drop(host, old);
    }
}

static gy_status load_blob(void *arg, const char *name)
{
    gy_host *host = arg;
    char path[HOST_PATH], rest = '\0';
    unsigned long long high = 0, low = 0;
    if (strlen(name) == HOST_NAME - 1 && strspn(name, "0123456789abcdef") == HOST_NAME - 1 &&
        sscanf(name, "%16llx%16llx%c", &high, &low, &rest) == 2) {
        return add(host, (gy_key){high, low}) != NULL ? GY_OK : GY_NOMEM;
    }
    if (name[0] != '.' && gy_host_path(path, host->folder, "blobs", name)) {
        (void)unlink(path); /* left by an interrupted fetch */
    }
    return GY_OK;
}

gy_status gy_host_blobs_load(gy_host *host)
{
    char path[HOST_PATH];
    (void)gy_host_path(path, host->folder, "blobs", NULL);
    return gy_disk_each(host->env, path, load_blob, host);
}

gy_status gy_host_blob_link(gy_host *host, gy_key key, bool is_executable, const char *to)
{
    char path[HOST_PATH];
    gy_host_blob_path(host, key, path);
    int error = is_executable && chmod(path, 0500) != 0 ? errno : 0;
    if (error == 0 && link(path, to) != 0) {
        error = errno;
    }
    if (error == ENOSPC || error == EDQUOT) {
        gy_host_disk_full(host);
        return gy_fail(GY_LIMIT, "cannot link %s: %s", to, strerror(error));
    }
    return error == 0 ? GY_OK : gy_fail(GY_IO, "cannot link %s: %s", to, strerror(error));
}

/* ---- Fetched blobs ---- */

static gy_status take_piece(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    host_blob *blob = arg;
    const uint8_t *from = data;
    for (size_t put = 0; put < size_bytes;) {
        ssize_t more = pwrite(blob->file, from + put, size_bytes - put, (off_t)(offset + put));
        if (more < 0 && (errno == ENOSPC || errno == EDQUOT)) {
            gy_host_disk_full(blob->host);
            return gy_fail(GY_LIMIT, "no room for a file of a job: %s", strerror(errno));
        }
        if (more < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "a file of a job cannot be written: %s", strerror(errno));
        }
        put += more > 0 ? (size_t)more : 0;
    }
    gy_net_digest_feed(blob->digest, data, size_bytes);
    return GY_OK;
}

static void part_path(const gy_host *host, gy_key key, char out[HOST_PATH])
{
    char name[HOST_NAME + 8];
    blob_name(key, name);
    snprintf(name + HOST_NAME - 1, 8, ".part");
    (void)gy_host_path(out, host->folder, "blobs", name);
}

/* All of it has arrived: keep it if it matches its name. */
static gy_status keep(gy_host *host, host_blob *blob)
{
    char part[HOST_PATH], path[HOST_PATH];
    struct stat about;
    part_path(host, blob->key, part);
    gy_host_blob_path(host, blob->key, path);
    if (!gy_key_is_same(gy_net_digest_end(blob->digest), blob->key)) {
        return gy_fail(GY_FORMAT, "the content of a job's file does not match its hash");
    }
    if (fchmod(blob->file, 0400) != 0 || rename(part, path) != 0 ||
        fstat(blob->file, &about) != 0) {
        return gy_fail(GY_IO, "cannot keep %s: %s", path, strerror(errno));
    }
    blob->is_here = true;
    blob->size_bytes = (uint64_t)about.st_size;
    blob->changed_ns = changed_ns(&about);
    blob->used = ++host->blob_clock;
    return GY_OK;
}

static gy_status open_part(gy_host *host, host_blob *blob)
{
    char part[HOST_PATH];
    part_path(host, blob->key, part);
    blob->file = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return blob->file >= 0 ? gy_net_digest_begin(&blob->digest)
                           : gy_fail(GY_IO, "cannot make %s: %s", part, strerror(errno));
}

/* Keep or delete what arrived. */
static gy_status end_part(gy_host *host, host_blob *blob, gy_status status)
{
    gy_error why;
    status = status < 0 ? status : keep(host, blob);
    gy_error_take(&why, status);
    gy_net_digest_free(blob->digest);
    blob->digest = NULL;
    if (blob->file >= 0) {
        close(blob->file);
    }
    blob->file = -1;
    if (status < 0) {
        char part[HOST_PATH];
        part_path(host, blob->key, part);
        (void)unlink(part);
        drop(host, blob);
        gy_info("cannot fetch a file of a job: %s", why.text);
        return gy_error_raise(&why);
    }
    return GY_OK;
}

void gy_host_blob_take(gy_host *host, gy_key key, const void *data, size_t size_bytes)
{
    host_blob *blob = find(host, key) == NULL ? add(host, key) : NULL;
    if (blob == NULL) {
        return;
    }
    gy_status status = open_part(host, blob);
    status = status < 0 ? status : take_piece(blob, 0, data, size_bytes);
    if (end_part(host, blob, status) < 0) {
        gy_debug("it is fetched: %s", gy_error_text());
    }
}

static void done(void *arg, gy_status status, uint64_t size_bytes)
{
    host_blob *blob = arg;
    gy_host *host = blob->host;
    gy_key key = blob->key;
    (void)size_bytes;
    if (status == GY_CANCELLED) { /* the node is closing */
        return;
    }
    status = end_part(host, blob, status);
    gy_host_program_blob(host, key, status);
    keep_within(host, host->options->blob_bytes > 0 ? host->options->blob_bytes : kept_bytes);
}

static gy_status fetch(gy_host *host, host_blob *blob)
{
    uint8_t name[128];
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__BulkName message;
    GY_TRY(open_part(host, blob));
    gy__cluster__bulk_name__init(&message);
    key.high = blob->key.high;
    key.low = blob->key.low;
    message.blob = &key;
    size_t size = gy__cluster__bulk_name__get_packed_size(&message);
    GY_ASSERT(size <= sizeof(name));
    (void)gy__cluster__bulk_name__pack(&message, name);
    return gy_rpc_bulk_begin(
        host->rpc,
        &(gy_bulk_fetch){.address = gy_host_name_address(host),
                         .name = name,
                         .name_bytes = size,
                         .size_bytes = UINT64_MAX,
                         .deadline = gy_env_deadline(host->env, fetch_seconds),
                         .fd = -1,
                         .take = take_piece,
                         .done = done,
                         .arg = blob},
        &blob->number);
}

static gy_status fetch_or_drop(gy_host *host, host_blob *blob)
{
    blob->is_here = false;
    gy_status status = fetch(host, blob);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        drop(host, blob);
        return gy_error_raise(&why);
    }
    return GY_AGAIN;
}

gy_status gy_host_blob(gy_host *host, gy_key key)
{
    host_blob *blob = find(host, key);
    if (blob != NULL && blob->file >= 0) {
        return GY_AGAIN;
    }
    gy_status status = blob != NULL ? verify(host, blob) : GY_NOTFOUND;
    if (status != GY_NOTFOUND) {
        blob->used = ++host->blob_clock;
        return status;
    }
    blob = blob != NULL ? blob : add(host, key);
    return blob != NULL ? fetch_or_drop(host, blob) : GY_NOMEM;
}

bool gy_host_blobs_verify(gy_host *host)
{
    host_blob *blob = host->blobs;
    while (blob != NULL && !blob->is_verified) {
        blob = blob->next;
    }
    if (blob == NULL) {
        return false;
    }
    const gy_key key = blob->key;
    gy_status status = verify_some(host, blob);
    if (status == GY_AGAIN) {
        return true;
    }
    status = status == GY_NOTFOUND ? fetch_or_drop(host, blob) : status;
    if (status != GY_AGAIN) {
        gy_host_program_blob(host, key, status);
    }
    return true;
}

void gy_host_blobs_free(gy_host *host)
{
    while (host->blobs != NULL) {
        host_blob *blob = host->blobs;
        host->blobs = blob->next;
        free_blob(blob);
    }
}
