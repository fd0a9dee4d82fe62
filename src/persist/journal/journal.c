/* What all forms of a journal share: the write buffer, and the choice of a form. */
#include "persist/journal/journal_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#ifdef GYRE_PLANTED
gy_journal_plant gy_journal_planted;
#endif

enum { WAITING_BYTES = 256 << 10 };

gy_status gy_journal_fail(const char *what, const char *path, int64_t error)
{
    return gy_fail(error == -ENOMEM ? GY_NOMEM : GY_IO, "cannot %s %s: %s", what, path,
                   strerror((int)-error));
}

gy_status gy_journal_path(const char *folder, const char *name, char out[GY_JOURNAL_PATH])
{
    int size = snprintf(out, GY_JOURNAL_PATH, "%s/%s", folder, name);
    if (size >= GY_JOURNAL_PATH) {
        return gy_fail(GY_ARG, "the path of a job's folder has over %d bytes",
                       GY_JOURNAL_PATH - 64);
    }
    return GY_OK;
}

int64_t gy_journal_read_on(gy_env *env, int file, gy_journal_bytes *to)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    int64_t size = disk->size(env, file), got = 1;
    if (size < 0) {
        return size;
    }
    if (GY_GROW("persist.journal", to->data, to->capacity, to->size_bytes + (size_t)size + 1) <
        0) {
        return -ENOMEM;
    }
    size_t end = to->size_bytes + (size_t)size;
    while (to->size_bytes < end && got > 0) {
        got = disk->read(env, file, to->data + to->size_bytes, end - to->size_bytes);
        to->size_bytes += got > 0 ? (size_t)got : 0;
    }
    return got < 0 ? got : 0;
}

gy_status gy_journal_write_all(gy_journal *journal, const void *data, size_t size_bytes)
{
    gy_env *env = journal->env;
    const uint8_t *bytes = data;
    for (size_t at = 0; at < size_bytes;) {
        int64_t done = gy_env_disk(env)->write(env, journal->file, bytes + at, size_bytes - at);
        if (done <= 0 && GY_PLANTED_HERE(FULL_AS_DONE)) {
            break;
        }
        if (done <= 0) {
            return gy_fail(GY_IO, "cannot write the journal in %s: %s", journal->folder,
                           strerror(done < 0 ? (int)-done : ENOSPC));
        }
        at += (size_t)done;
    }
    return GY_OK;
}

gy_status gy_journal_sync_names(gy_env *env, const char *folder)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    int file = disk->open(env, folder, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) {
        return gy_journal_fail("open", folder, file);
    }
    int error = disk->sync(env, file);
    (void)disk->close(env, file);
    return error == 0 ? GY_OK : gy_journal_fail("sync", folder, error);
}

gy_status gy_journal_add(gy_journal_bytes *to, const void *data, size_t size_bytes)
{
    GY_TRY(GY_GROW("persist.journal", to->data, to->capacity, to->size_bytes + size_bytes));
    if (size_bytes > 0) {
        memcpy(to->data + to->size_bytes, data, size_bytes);
    }
    to->size_bytes += size_bytes;
    return GY_OK;
}

/* ---- errors of forms with epochs ---- */

gy_status gy_journal_fail_over(const gy_journal *journal, uint64_t next, const char *owner)
{
    unsigned long long own = journal->epoch;
    if (next == journal->epoch) {
        return gy_fail(GY_STATE, "epoch %llu has ended: its journal is sealed", own);
    }
    return gy_fail(GY_STATE, "epoch %llu has ended: epoch %llu continues%s%s%s", own,
                   (unsigned long long)next, owner[0] != '\0' ? " (" : "", owner,
                   owner[0] != '\0' ? ")" : "");
}

gy_status gy_journal_fail_claimed(const gy_journal *journal, const char *owner)
{
    return gy_fail(GY_STATE, "epoch %llu was used before%s%s: a manager needs a new epoch",
                   (unsigned long long)journal->epoch, owner[0] != '\0' ? " by " : "", owner);
}

gy_status gy_journal_take_all(gy_journal *journal, const gy_journal_options *options,
                              const gy_journal_bytes *records)
{
    size_t used = 0;
    if (records->size_bytes == 0) {
        return GY_OK;
    }
    gy_status status = options->take(options->arg, records->data, records->size_bytes, &used);
    if (status < 0) {
        return gy_fail_within(status, "the journal in %s", journal->folder);
    }
    return used == records->size_bytes
               ? GY_OK
               : gy_fail(GY_FORMAT, "the journal in %s: the record at byte %zu is not whole",
                         journal->folder, used);
}

/* ---- opening ---- */

static gy_status choose_objects(gy_journal *journal, const gy_journal_options *options)
{
    journal->place = (gy_journal_place){journal->env, journal->folder};
    journal->store =
        options->store != NULL ? *options->store : gy_journal_store_of(&journal->place);
    journal->ops = &gy_journal_objects;
    if (journal->epoch == 0) {
        GY_TRY(gy_journal_objects_next(&journal->store, &journal->epoch));
        journal->epoch = GY_MAX(journal->epoch, UINT64_C(1));
    }
    return GY_OK;
}

/* Without an epoch, a folder with segments continues as its next epoch: creating that epoch's
 * segment succeeds for one process only. */
static gy_status choose_form(gy_journal *journal, const gy_journal_options *options)
{
    gy_segments segments = {.items = NULL};
    if (options->store != NULL || gy_journal_is_place(journal->folder)) {
        return choose_objects(journal, options);
    }
    journal->ops = &gy_journal_segments;
    if (journal->epoch > 0) {
        return GY_OK;
    }
    gy_status status = gy_segments_list(journal->env, journal->folder, &segments);
    uint64_t highest = gy_segments_highest(&segments);
    if (status == GY_OK && highest == 0) {
        journal->ops = &gy_journal_file;
    } else if (status == GY_OK && segments.has_file) {
        status = gy_fail(GY_STATE, "%s holds a journal with epochs and one without",
                         journal->folder);
    } else if (status == GY_OK) {
        journal->epoch = highest + 1;
    }
    gy_free(segments.items);
    return status;
}

gy_status gy_journal_open(gy_env *env, const gy_journal_options *options, gy_journal **journal)
{
    GY_ASSERT(options->folder != NULL && options->take != NULL && options->measure != NULL);
    gy_journal *opened = gy_alloc_zero("persist.journal", 1, sizeof(*opened));
    if (opened == NULL) {
        return GY_NOMEM;
    }
    *opened = (gy_journal){.env = env,
                           .folder = options->folder,
                           .measure = options->measure,
                           .epoch = options->epoch,
                           .file = -1};
    opened->waiting = gy_alloc("persist.journal", WAITING_BYTES);
    gy_status status = opened->waiting != NULL ? choose_form(opened, options) : GY_NOMEM;
    status = status < 0 ? status : opened->ops->open(opened, options);
    if (status < 0) {
        gy_journal_close(opened);
        return status;
    }
    *journal = opened;
    return GY_OK;
}

void gy_journal_close(gy_journal *journal)
{
    if (journal == NULL) {
        return;
    }
    if (journal->file >= 0) {
        (void)gy_env_disk(journal->env)->close(journal->env, journal->file);
    }
    gy_free(journal->unsent.data);
    gy_free(journal->waiting);
    gy_free(journal);
}

/* ---- writing ---- */

gy_status gy_journal_flush(gy_journal *journal)
{
    size_t size_bytes = journal->waiting_bytes;
    journal->waiting_bytes = 0; /* after a failure too: the journal cannot be used any more */
    return size_bytes > 0 ? journal->ops->write(journal, journal->waiting, size_bytes) : GY_OK;
}

gy_status gy_journal_append(gy_journal *journal, const void *data, size_t size_bytes)
{
    if (journal->waiting_bytes + size_bytes > WAITING_BYTES) {
        GY_TRY(gy_journal_flush(journal));
    }
    if (size_bytes > WAITING_BYTES) {
        return journal->ops->write(journal, data, size_bytes);
    }
    if (journal->waiting_bytes == 0) {
        journal->since_ns = gy_now_ns(journal->env);
    }
    memcpy(journal->waiting + journal->waiting_bytes, data, size_bytes);
    journal->waiting_bytes += size_bytes;
    return GY_OK;
}

gy_status gy_journal_sync(gy_journal *journal)
{
    GY_TRY(gy_journal_flush(journal));
    if (GY_PLANTED_HERE(CHECKED_FIRST)) {
        GY_TRY(gy_journal_check(journal));
        return journal->ops->sync(journal);
    }
    GY_TRY(journal->ops->sync(journal));
    /* Check for a newer epoch only after the sync (docs/decisions/035). */
    return gy_journal_check(journal);
}

gy_status gy_journal_check(gy_journal *journal)
{
    if (journal->ops->check == NULL || GY_PLANTED_HERE(NEVER_CHECKED)) {
        return GY_OK;
    }
    gy_status status = journal->ops->check(journal);
    journal->is_over = journal->is_over || status == GY_STATE;
    return status;
}

/* ---- questions ---- */

bool gy_journal_is_over(const gy_journal *journal)
{
    return journal->is_over;
}

uint64_t gy_journal_epoch(const gy_journal *journal)
{
    return journal->epoch;
}

bool gy_journal_is_waiting(const gy_journal *journal, int64_t *since_ns)
{
    *since_ns = journal->since_ns;
    return journal->waiting_bytes > 0;
}
