/*
 * A segment: its head, which is there whole or not at all (it is created by a link), then
 * records. A seal: how many bytes of records the segment has for everybody, from now on.
 */
#include "persist/journal/journal_priv.h"
#include "store/remote/remote.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1 };

/* In this machine's byte order, as the records are. */
typedef struct segment_head {
    char magic[8]; /* "gyre seg" */
    uint64_t version, epoch;
    char owner[GY_JOURNAL_OWNER];
    uint64_t checksum; /* of what stands before it */
} segment_head;

typedef struct segment_seal {
    char magic[8];               /* "gyreseal" */
    uint64_t version, epoch, by; /* by its own epoch: the job has ended, and all of this goes */
    uint64_t size_bytes, content; /* of the records; their checksum */
    uint64_t checksum;            /* of what stands before it */
} segment_seal;

static_assert(sizeof(segment_head) == 128 && sizeof(segment_seal) == 56,
              "heads and seals have no holes");

static uint64_t sum_head(const segment_head *head)
{
    return gy_hash(head, offsetof(segment_head, checksum), VERSION);
}

static uint64_t sum_seal(const segment_seal *seal)
{
    return gy_hash(seal, offsetof(segment_seal, checksum), VERSION);
}

static gy_status path_of(const char *folder, bool is_seal, uint64_t epoch,
                         char out[GY_JOURNAL_PATH])
{
    char name[32];
    gy_journal_segment_name(name, is_seal, epoch);
    return gy_journal_path(folder, name, out);
}

/* ---- reading ---- */

/* Append all of a file, and make sure that it stays. 0, or a negated errno. */
static int64_t read_file(gy_env *env, const char *path, bool is_kept, gy_journal_bytes *to)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const size_t before = to->size_bytes;
    int64_t error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++) { /* opened anew it is the file of now */
        to->size_bytes = before;
        int file = disk->open(env, path, O_RDONLY, 0);
        error = file < 0 ? file : gy_journal_read_on(env, file, to);
        /* After the reading: what was read is what is synced, or less. */
        if (error == 0 && is_kept && !GY_PLANTED_HERE(SEALED_UNSYNCED)) {
            error = disk->sync(env, file);
        }
        if (file >= 0) {
            (void)disk->close(env, file);
        }
    }
    return error;
}

static gy_status check_head(const char *path, uint64_t epoch, const uint8_t *data, size_t size)
{
    segment_head head;
    if (size < sizeof(head)) {
        return gy_fail(GY_FORMAT, "%s has %zu bytes, expected a head of %zu", path, size,
                       sizeof(head));
    }
    memcpy(&head, data, sizeof(head));
    if (memcmp(head.magic, "gyre seg", sizeof(head.magic)) != 0 ||
        head.checksum != sum_head(&head) || head.epoch != epoch) {
        return gy_fail(GY_FORMAT, "%s is no segment of epoch %llu", path,
                       (unsigned long long)epoch);
    }
    return head.version == VERSION
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "%s is of version %llu, this is version %d", path,
                         (unsigned long long)head.version, VERSION);
}

/* Append the records of a segment, as far as they are seen now. */
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
    size -= sizeof(segment_head);
    memmove(data, data + sizeof(segment_head), size);
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
    if (status == GY_OK && bytes.size_bytes == sizeof(*seal)) {
        memcpy(seal, bytes.data, sizeof(*seal));
    }
    if (status == GY_OK &&
        (bytes.size_bytes != sizeof(*seal) || seal->checksum != sum_seal(seal) ||
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
    memcpy(seal->magic, "gyreseal", sizeof(seal->magic));
    seal->version = VERSION;
    seal->checksum = sum_seal(seal);
    GY_TRY(path_of(folder, true, seal->epoch, path));
    return gy_share_create(env, path, seal, sizeof(*seal));
}

/* Seal the segment at the whole ones of these records. Of several who do, the first one's seal
 * counts for all. */
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
        if (seal.size_bytes > to->size_bytes - before) { /* who sealed it saw more */
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
    head.checksum = sum_head(&head);
    GY_TRY(path_of(journal->folder, false, journal->epoch, path));
    return gy_share_create(journal->env, path, &head, sizeof(head));
}

void gy_journal_segment_owner(gy_journal *journal, uint64_t epoch, char out[GY_JOURNAL_OWNER])
{
    char path[GY_JOURNAL_PATH];
    gy_env *env = journal->env;
    segment_head head;
    out[0] = '\0';
    if (path_of(journal->folder, false, epoch, path) < 0) {
        return;
    }
    int file = gy_env_disk(env)->open(env, path, O_RDONLY, 0);
    int64_t got = file < 0 ? file : gy_env_disk(env)->read(env, file, &head, sizeof(head));
    if (file >= 0) {
        (void)gy_env_disk(env)->close(env, file);
    }
    if (got == (int64_t)sizeof(head) && head.checksum == sum_head(&head)) {
        memcpy(out, head.owner, sizeof(head.owner));
        out[GY_JOURNAL_OWNER - 1] = '\0'; /* whoever may write in that folder wrote it */
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
