/* A segment consists of a head and records. It is created by a hard link, so the head exists
 * whole or not at all. A seal fixes how many bytes of the segment's records are valid for all
 * readers. */
#include "persist/journal/journal_priv.h"
#include "store/remote/remote.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1 };

/* The last bytes of both. */
enum { SUM_BYTES = 8 };

static_assert(sizeof(segment_head_packed) == 128 && sizeof(segment_seal_packed) == 56,
              "a head or seal of another size needs another VERSION");

/* The checksum of a packed head or seal: of all that stands before it. */
static uint64_t sum_of(const void *packed, size_t size_bytes)
{
    return gy_hash(packed, size_bytes - SUM_BYTES, VERSION);
}

static gy_status path_of(const char *folder, bool is_seal, uint64_t epoch,
                         char out[GY_JOURNAL_PATH])
{
    char name[32];
    gy_journal_segment_name(name, is_seal, epoch);
    return gy_journal_path(folder, name, out);
}

/* ---- reading ---- */

/* Append all of a file; is_kept: also sync it. 0, or a negated errno. */
static int64_t read_file(gy_env *env, const char *path, bool is_kept, gy_journal_bytes *to)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const size_t before = to->size_bytes;
    int64_t error = -ESTALE;
    /* After ESTALE a new open finds the current file. */
    for (int i = 0; i < 2 && error == -ESTALE; i++) {
        to->size_bytes = before;
        int file = disk->open(env, path, O_RDONLY, 0);
        error = file < 0 ? file : gy_journal_read_on(env, file, to);
        /* Sync after the read, so that all that was read is durable. */
        if (error == 0 && is_kept && !GY_PLANTED_HERE(SEALED_UNSYNCED)) {
            error = disk->sync(env, file);
        }
        if (file >= 0) {
            (void)disk->close(env, file);
        }
    }
    return error;
}

/* A head or seal of another version may have other fields behind these two. */
static gy_status check_version(const char *path, const char *magic, const uint8_t *data,
                               size_t size)
{
    segment_opening opening;
    return !segment_opening_take(&data, &size, &opening) ||
                   memcmp(opening.magic, magic, sizeof(opening.magic)) != 0 ||
                   opening.version == VERSION
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "%s is of version %llu, expected version %d", path,
                         (unsigned long long)opening.version, VERSION);
}

static gy_status check_head(const char *path, uint64_t epoch, const uint8_t *data, size_t size)
{
    segment_head head;
    const uint8_t *at = data;
    size_t left = size;
    GY_TRY(check_version(path, "gyre seg", data, size));
    if (!segment_head_take(&at, &left, &head)) {
        return gy_fail(GY_FORMAT, "%s has %zu bytes, expected a head of %zu", path, size,
                       sizeof(segment_head_packed));
    }
    return memcmp(head.magic, "gyre seg", sizeof(head.magic)) == 0 &&
                   head.checksum == sum_of(data, sizeof(segment_head_packed)) &&
                   head.epoch == epoch
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s is no segment of epoch %llu", path,
                         (unsigned long long)epoch);
}

/* Append the records of a segment that can be read now. */
static gy_status read_records(gy_journal *journal, uint64_t epoch, bool is_kept,
                              gy_journal_bytes *to)
{
    char path[GY_JOURNAL_PATH];
    const size_t before = to->size_bytes;
    GY_TRY(path_of(journal->folder, false, epoch, path));
    int64_t error = read_file(journal->env, path, is_kept, to);
    if (error < 0) {
        return gy_journal_fail("read", path, error);
    }
    uint8_t *data = to->data + before;
    size_t size = to->size_bytes - before;
    GY_TRY(check_head(path, epoch, data, size));
    size -= sizeof(segment_head_packed);
    memmove(data, data + sizeof(segment_head_packed), size);
    to->size_bytes = before + size;
    return GY_OK;
}

static gy_status read_seal(gy_journal *journal, uint64_t epoch, segment_seal *seal)
{
    char path[GY_JOURNAL_PATH];
    gy_journal_bytes bytes = {.data = NULL};
    GY_TRY(path_of(journal->folder, true, epoch, path));
    int64_t error = read_file(journal->env, path, false, &bytes);
    gy_status status = error < 0 ? gy_journal_fail("read", path, error) : GY_OK;
    const uint8_t *at = bytes.data;
    size_t left = bytes.size_bytes;
    status = status < 0 ? status : check_version(path, "gyreseal", at, left);
    if (status == GY_OK &&
        (left != sizeof(segment_seal_packed) || !segment_seal_take(&at, &left, seal) ||
         seal->checksum != sum_of(bytes.data, sizeof(segment_seal_packed)) ||
         memcmp(seal->magic, "gyreseal", sizeof(seal->magic)) != 0 || seal->epoch != epoch)) {
        status =
            gy_fail(GY_FORMAT, "%s is no seal of epoch %llu", path, (unsigned long long)epoch);
    }
    gy_free(bytes.data);
    if (status == GY_OK && seal->by == epoch) {
        status = gy_fail(GY_STATE, "the job in %s has ended: its journal is being removed",
                         journal->folder);
    }
    return status;
}

/* ---- sealing ---- */

static gy_status create_seal(gy_env *env, const char *folder, segment_seal *seal)
{
    char path[GY_JOURNAL_PATH];
    GY_ASSERT(seal->epoch > 0 && seal->by >= seal->epoch);
    memcpy(seal->magic, "gyreseal", sizeof(seal->magic));
    seal->version = VERSION;
    segment_seal_packed packed = segment_seal_pack(seal);
    gy_record_put(packed.checksum, SUM_BYTES, sum_of(&packed, sizeof(packed)));
    GY_TRY(path_of(folder, true, seal->epoch, path));
    return gy_share_create(env, path, &packed, sizeof(packed));
}

/* Seal the segment after its last intact record. If several processes do, the first seal counts
 * for all. */
static gy_status make_seal(gy_journal *journal, uint64_t epoch, const uint8_t *records,
                           size_t size_bytes, segment_seal *seal)
{
    size_t whole =
        GY_PLANTED_HERE(TORN_SEALED) ? size_bytes : journal->measure(records, size_bytes);
    *seal = (segment_seal){.epoch = epoch,
                           .by = journal->epoch,
                           .size_bytes = whole,
                           .content = gy_hash(records, whole, epoch)};
    gy_status status = create_seal(journal->env, journal->folder, seal);
    if (status == GY_EXISTS && GY_PLANTED_HERE(OWN_SEAL_KEPT)) {
        return GY_OK;
    }
    return status == GY_EXISTS ? read_seal(journal, epoch, seal) : status;
}

gy_status gy_journal_segment_settle(gy_journal *journal, const gy_journal_segment *segment,
                                    gy_journal_bytes *to)
{
    const uint64_t epoch = segment->epoch;
    const size_t before = to->size_bytes;
    segment_seal seal = {.epoch = 0};
    if (segment->has_seal) {
        GY_TRY(read_seal(journal, epoch, &seal));
    }
    GY_TRY(read_records(journal, epoch, !segment->has_seal, to));
    if (!segment->has_seal) {
        GY_TRY(make_seal(journal, epoch, to->data + before, to->size_bytes - before, &seal));
        /* The process that sealed the segment read more of it. */
        if (seal.size_bytes > to->size_bytes - before) {
            to->size_bytes = before;
            GY_TRY(read_records(journal, epoch, false, to));
        }
    }
    if (seal.size_bytes > to->size_bytes - before) {
        return gy_fail(GY_FORMAT,
                       "segment %llu of the journal in %s has %zu bytes, its seal "
                       "says %llu",
                       (unsigned long long)epoch, journal->folder, to->size_bytes - before,
                       (unsigned long long)seal.size_bytes);
    }
    if (!GY_PLANTED_HERE(READ_BEYOND)) {
        to->size_bytes = before + (size_t)seal.size_bytes;
    }
    if (gy_hash(to->data + before, (size_t)seal.size_bytes, epoch) != seal.content) {
        return gy_fail(GY_FORMAT, "segment %llu of the journal in %s is not what was sealed",
                       (unsigned long long)epoch, journal->folder);
    }
    return GY_OK;
}

/* ---- beginning and end ---- */

gy_status gy_journal_segment_create(gy_journal *journal, const char *owner)
{
    char path[GY_JOURNAL_PATH];
    segment_head head = {.magic = {'g', 'y', 'r', 'e', ' ', 's', 'e', 'g'},
                         .version = VERSION,
                         .epoch = journal->epoch};
    snprintf(head.owner, sizeof(head.owner), "%s", owner != NULL ? owner : "");
    segment_head_packed packed = segment_head_pack(&head);
    gy_record_put(packed.checksum, SUM_BYTES, sum_of(&packed, sizeof(packed)));
    GY_TRY(path_of(journal->folder, false, journal->epoch, path));
    return gy_share_create(journal->env, path, &packed, sizeof(packed));
}

void gy_journal_segment_owner(gy_journal *journal, uint64_t epoch, char out[GY_JOURNAL_OWNER])
{
    char path[GY_JOURNAL_PATH];
    gy_env *env = journal->env;
    segment_head_packed packed;
    segment_head head;
    out[0] = '\0';
    if (path_of(journal->folder, false, epoch, path) < 0) {
        return;
    }
    int file = gy_env_disk(env)->open(env, path, O_RDONLY, 0);
    int64_t got = file < 0 ? file : gy_env_disk(env)->read(env, file, &packed, sizeof(packed));
    if (file >= 0) {
        (void)gy_env_disk(env)->close(env, file);
    }
    const uint8_t *at = (const uint8_t *)&packed;
    size_t left = got > 0 ? (size_t)got : 0;
    if (segment_head_take(&at, &left, &head) &&
        head.checksum == sum_of(&packed, sizeof(packed))) {
        memcpy(out, head.owner, sizeof(head.owner));
        /* untrusted: another writer of the folder may have written it. */
        out[GY_JOURNAL_OWNER - 1] = '\0';
    }
}

gy_status gy_journal_segment_close(gy_env *env, const char *folder, uint64_t epoch)
{
    segment_seal seal = {.epoch = epoch, .by = epoch};
    gy_status status = create_seal(env, folder, &seal);
    return status == GY_EXISTS ? GY_OK : status;
}

bool gy_journal_segment_is_closed(gy_env *env, const char *folder, uint64_t epoch)
{
    segment_seal seal = {.by = 0};
    gy_journal at = {.env = env, .folder = folder};
    return read_seal(&at, epoch, &seal) == GY_STATE;
}
