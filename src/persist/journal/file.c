/* The journal of a job on one machine: a single file, written by the process that holds the
 * folder's lock. A torn end is truncated. */
#include "persist/journal/journal_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Read the existing records; *used is the size of the intact ones. */
static gy_status take_all(gy_journal *journal, const gy_journal_options *options,
                          const char *path, size_t *size_bytes, size_t *used)
{
    gy_journal_bytes bytes = {.data = NULL};
    int64_t error = gy_journal_read_on(journal->env, journal->file, &bytes);
    gy_status status = error < 0 ? gy_journal_fail("read", path, error) : GY_OK;
    if (status == GY_OK && bytes.size_bytes > 0) {
        status = options->take(options->arg, bytes.data, bytes.size_bytes, used);
        status = status < 0 ? gy_fail_within(status, "%s", path) : GY_OK;
    }
    *size_bytes = bytes.size_bytes;
    gy_free(bytes.data);
    return status;
}

static gy_status file_open(gy_journal *journal, const gy_journal_options *options)
{
    char path[GY_JOURNAL_PATH];
    gy_env *env = journal->env;
    size_t size_bytes = 0, used = 0;
    GY_TRY(gy_journal_path(journal->folder, "journal", path));
    journal->file = gy_env_disk(env)->open(env, path, O_RDWR | O_CREAT | O_APPEND, 0600);
    if (journal->file < 0) {
        return gy_journal_fail("open", path, journal->file);
    }
    GY_TRY(take_all(journal, options, path, &size_bytes, &used));
    if (used < size_bytes) { /* truncate a record that a crash left incomplete */
        gy_info("%s: the last %zu of %zu bytes are torn and cut", path, size_bytes - used,
                size_bytes);
        if (ftruncate(journal->file, (off_t)used) != 0) {
            return gy_journal_fail("cut", path, -errno);
        }
    }
    return GY_OK;
}

static gy_status file_sync(gy_journal *journal)
{
    int error = gy_env_disk(journal->env)->sync(journal->env, journal->file);
    if (error != 0) {
        return gy_journal_fail("sync the journal in", journal->folder, error);
    }
    if (!journal->is_named) {
        GY_TRY(gy_journal_sync_names(journal->env, journal->folder));
        journal->is_named = true;
    }
    return GY_OK;
}

const gy_journal_ops gy_journal_file = {
    .name = "file",
    .open = file_open,
    .write = gy_journal_write_all,
    .sync = file_sync,
};
