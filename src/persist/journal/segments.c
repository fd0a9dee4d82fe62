/*
 * The journal in a folder that hosts share. A manager first claims its epoch by creating the
 * segment, then seals and reads the older ones. An older manager checks for newer epochs after
 * each sync: if it finds none, its sync came before the claim, and so before the new manager's
 * read.
 */
#include "persist/journal/journal_priv.h"

#include <fcntl.h>
#include <string.h>

/* ---- has a newer epoch begun? ---- */

static gy_status fail_over(gy_journal *journal, uint64_t next)
{
    char owner[GY_JOURNAL_OWNER] = "";
    if (next != journal->epoch) {
        gy_journal_segment_owner(journal, next, owner);
    }
    return gy_journal_fail_over(journal, next, owner);
}

/* List the segments; fails if a newer epoch has begun. */
static gy_status look(gy_journal *journal, gy_segments *list)
{
    list->count = 0;
    GY_TRY(gy_segments_list(journal->env, journal->folder, list));
    uint64_t highest = gy_segments_highest(list);
    if (highest > journal->epoch) {
        return fail_over(journal, highest);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].epoch == journal->epoch && list->items[i].has_seal) {
            return fail_over(journal, journal->epoch);
        }
    }
    return GY_OK;
}

static gy_status segments_check(gy_journal *journal)
{
    gy_segments list = {.items = NULL};
    gy_status status = look(journal, &list);
    gy_free(list.items);
    return status;
}

/* ---- opening ---- */

static gy_status check_removed(const gy_journal *journal, const gy_segments *list)
{
    return gy_segments_are_removed(list)
               ? gy_fail(GY_STATE, "the job in %s has ended: its journal was removed",
                         journal->folder)
               : GY_OK;
}

/* Claim the epoch. From here on no check of an older one succeeds. */
static gy_status claim(gy_journal *journal, const gy_journal_options *options)
{
    gy_status status = gy_journal_segment_create(journal, options->owner);
    if (status == GY_EXISTS && GY_PLANTED_HERE(EPOCH_AGAIN)) {
        return GY_OK;
    }
    if (status == GY_EXISTS) {
        char owner[GY_JOURNAL_OWNER];
        gy_journal_segment_owner(journal, journal->epoch, owner);
        status = gy_journal_fail_claimed(journal, owner);
    }
    return status;
}

static gy_status settle_older(gy_journal *journal, const gy_segments *list,
                              gy_journal_bytes *records)
{
    GY_TRY(check_removed(journal, list));
    for (size_t i = 0; i < list->count; i++) {
        const gy_journal_segment *segment = &list->items[i];
        if (segment->epoch != journal->epoch) {
            GY_TRY(gy_journal_segment_settle(journal, segment, records));
        }
    }
    return GY_OK;
}

static gy_status open_own(gy_journal *journal)
{
    char name[32], path[GY_JOURNAL_PATH];
    gy_env *env = journal->env;
    gy_journal_segment_name(name, false, journal->epoch);
    GY_TRY(gy_journal_path(journal->folder, name, path));
    journal->file = gy_env_disk(env)->open(env, path, O_WRONLY | O_APPEND, 0);
    return journal->file >= 0 ? GY_OK : gy_journal_fail("open", path, journal->file);
}

static gy_status begin(gy_journal *journal, const gy_journal_options *options,
                       gy_segments *list, gy_journal_bytes *records)
{
    GY_TRY(look(journal, list));
    GY_TRY(check_removed(journal, list));
    if (list->has_file) {
        return gy_fail(GY_STATE,
                       "%s holds the journal of a job of one machine, which has no epochs",
                       journal->folder);
    }
    if (GY_PLANTED_HERE(CLAIMED_LATE)) {
        GY_TRY(settle_older(journal, list, records));
        GY_TRY(claim(journal, options));
        return open_own(journal);
    }
    GY_TRY(claim(journal, options));
    if (!GY_PLANTED_HERE(LOOKED_ONCE)) {
        GY_TRY(look(journal, list)); /* list again to include all claims before ours */
    }
    GY_TRY(settle_older(journal, list, records));
    return open_own(journal);
}

static gy_status segments_open(gy_journal *journal, const gy_journal_options *options)
{
    gy_segments list = {.items = NULL};
    gy_journal_bytes records = {.data = NULL};
    gy_status status = begin(journal, options, &list, &records);
    status = status < 0 ? status : gy_journal_take_all(journal, options, &records);
    gy_free(list.items);
    gy_free(records.data);
    return status;
}

static gy_status segments_sync(gy_journal *journal)
{
    int error = gy_env_disk(journal->env)->sync(journal->env, journal->file);
    return error == 0 ? GY_OK : gy_journal_fail("sync the journal in", journal->folder, error);
}

const gy_journal_ops gy_journal_segments = {
    .name = "segments",
    .open = segments_open,
    .write = gy_journal_write_all,
    .sync = segments_sync,
    .check = segments_check,
};
