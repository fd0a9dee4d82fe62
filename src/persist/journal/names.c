/* Finds a folder's epochs by file names, and removes them when the job has ended. */
#include "persist/journal/journal_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void gy_journal_segment_name(char out[32], bool is_seal, uint64_t epoch)
{
    snprintf(out, 32, "%s.%llu", is_seal ? "seal" : "journal", (unsigned long long)epoch);
}

uint64_t gy_journal_segment_number(const char *text)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return 0;
        }
        number = number * 10 + (uint64_t)(*at - '0');
    }
    return *at == '\0' && text[0] != '0' ? number : 0;
}

/* The epoch in "journal.7" or "seal.7"; 0: the name is neither. */
static uint64_t parse_name(const char *name, bool *is_seal)
{
    *is_seal = strncmp(name, "seal.", 5) == 0;
    if (!*is_seal && strncmp(name, "journal.", 8) != 0) {
        return 0;
    }
    return gy_journal_segment_number(strchr(name, '.') + 1);
}

/* Find or insert the epoch's item, in order. NULL: out of memory. */
static gy_journal_segment *find_item(gy_segments *list, uint64_t epoch)
{
    size_t at = list->count;
    while (at > 0 && list->items[at - 1].epoch >= epoch && !GY_PLANTED_HERE(ORDER_AS_LISTED)) {
        at--;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].epoch == epoch) {
            return &list->items[i];
        }
    }
    if (GY_GROW("persist.segments", list->items, list->capacity, list->count + 1) < 0) {
        return NULL;
    }
    memmove(list->items + at + 1, list->items + at,
            (list->count - at) * sizeof(gy_journal_segment));
    list->items[at] = (gy_journal_segment){.epoch = epoch};
    list->count++;
    return &list->items[at];
}

static int add_name(void *arg, const char *name)
{
    gy_segments *list = arg;
    bool is_seal = false;
    uint64_t epoch = parse_name(name, &is_seal);
    list->has_file = list->has_file || strcmp(name, "journal") == 0;
    if (epoch == 0) {
        return 0;
    }
    gy_journal_segment *item = find_item(list, epoch);
    if (item == NULL) {
        return -ENOMEM;
    }
    item->has_seal = item->has_seal || is_seal;
    item->has_records = item->has_records || !is_seal;
    return 0;
}

gy_status gy_segments_list(gy_env *env, const char *folder, gy_segments *out)
{
    int error = gy_env_disk(env)->list(env, folder, add_name, out);
    return error == 0 ? GY_OK : gy_journal_fail("list", folder, error);
}

uint64_t gy_segments_highest(const gy_segments *segments)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < segments->count; i++) {
        highest = GY_MAX(highest, segments->items[i].epoch);
    }
    return highest;
}

bool gy_segments_are_removed(const gy_segments *segments)
{
    for (size_t i = 0; i < segments->count; i++) {
        if (!segments->items[i].has_records) {
            return true;
        }
    }
    return false;
}

bool gy_journal_is_there(gy_env *env, const char *folder)
{
    if (gy_journal_is_place(folder)) {
        gy_journal_place place = {env, folder};
        const gy_journal_store store = gy_journal_store_of(&place);
        return gy_journal_objects_are_there(&store);
    }
    gy_segments list = {.items = NULL};
    bool is_there = gy_segments_list(env, folder, &list) == GY_OK &&
                    (list.has_file || (list.count > 0 && !gy_segments_are_removed(&list)));
    gy_free(list.items);
    return is_there;
}

bool gy_journal_is_ending(gy_env *env, const char *folder)
{
    gy_segments list = {.items = NULL};
    bool is_ending = false;
    if (!gy_journal_is_place(folder) && gy_segments_list(env, folder, &list) == GY_OK) {
        for (size_t i = 0; i < list.count && !is_ending; i++) {
            is_ending = list.items[i].has_seal &&
                        gy_journal_segment_is_closed(env, folder, list.items[i].epoch);
        }
    }
    gy_free(list.items);
    return is_ending;
}

gy_status gy_journal_next(gy_env *env, const char *folder, uint64_t *epoch)
{
    if (gy_journal_is_place(folder)) {
        gy_journal_place place = {env, folder};
        const gy_journal_store store = gy_journal_store_of(&place);
        return gy_journal_objects_next(&store, epoch);
    }
    gy_segments list = {.items = NULL};
    gy_status status = gy_segments_list(env, folder, &list);
    uint64_t highest = gy_segments_highest(&list);
    gy_free(list.items);
    *epoch = highest > 0 ? highest + 1 : 0;
    return status;
}

/* ---- removing ---- */

static gy_status remove_name(gy_env *env, const char *folder, const char *name)
{
    char path[GY_JOURNAL_PATH];
    GY_TRY(gy_journal_path(folder, name, path));
    int error = gy_env_disk(env)->unlink(env, path);
    return error == 0 || error == -ENOENT ? GY_OK : gy_journal_fail("remove", path, error);
}

/* Remove all segments, or all seals, of epochs below one. */
static gy_status remove_below(gy_env *env, const char *folder, const gy_segments *list,
                              bool is_seal, uint64_t below)
{
    for (size_t i = 0; i < list->count; i++) {
        char name[32];
        if (list->items[i].epoch >= below) {
            continue;
        }
        gy_journal_segment_name(name, is_seal, list->items[i].epoch);
        GY_TRY(remove_name(env, folder, name));
    }
    return GY_OK;
}

gy_status gy_journal_remove(gy_env *env, const char *folder)
{
    if (gy_journal_is_place(folder)) {
        gy_journal_place place = {env, folder};
        const gy_journal_store store = gy_journal_store_of(&place);
        return gy_journal_objects_remove(&store, folder);
    }
    gy_segments list = {.items = NULL};
    gy_status status = gy_segments_list(env, folder, &list);
    uint64_t highest = gy_segments_highest(&list);
    if (status == GY_OK && list.has_file) {
        status = remove_name(env, folder, "journal");
    }
    /* Seals are removed after segments: a seal without its segment means that the job has
     * ended. The last seal stays, for managers that wake up later. */
    if (status == GY_OK && highest > 0) {
        status = GY_PLANTED_HERE(NEVER_CLOSED) ? GY_OK
                                               : gy_journal_segment_close(env, folder, highest);
        status = status < 0 ? status : remove_below(env, folder, &list, false, highest + 1);
        uint64_t kept = highest + GY_PLANTED_HERE(SEALS_GONE);
        status = status < 0 ? status : remove_below(env, folder, &list, true, kept);
    }
    gy_free(list.items);
    return status;
}
