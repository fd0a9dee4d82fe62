/*
 * The journal as objects, for stores that cannot append. Each epoch has object 0 (its owner),
 * 1, 2, ... (records), and a last one that seals it. Whoever creates a number first decides
 * whether the segment continues or ends there, so every object that a writer created comes
 * before the seal. The writer checks for newer epochs only because its whole journal may have
 * been removed meanwhile.
 */
#include "persist/journal/journal_priv.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, SENT_BYTES = 4 << 20, ROOM_BYTES = 64 << 10 };

typedef enum object_kind {
    OBJECT_BEGIN = 1, /* the owner's name */
    OBJECT_RECORDS,
    OBJECT_SEAL, /* created by a newer epoch, which continues the job */
    OBJECT_END   /* the job has ended, and its objects are being removed */
} object_kind;

static_assert(sizeof(object_head_packed) == 48, "a head of another size needs another VERSION");

typedef struct object_name {
    uint64_t epoch, number;
} object_name;

typedef struct object_list {
    object_name *items;
    size_t count, capacity;
} object_list;

static uint64_t sum_object(const void *packed, uint64_t number, const uint8_t *content,
                           size_t size_bytes)
{
    return gy_hash(packed, offsetof(object_head_packed, checksum),
                   gy_hash(content, size_bytes, number));
}

static void name_of(const object_name *name, char out[64])
{
    snprintf(out, 64, "journal.%llu.%llu", (unsigned long long)name->epoch,
             (unsigned long long)name->number);
}

/* ---- the list ---- */

static gy_status add_name(void *to, const char *name)
{
    object_list *list = to;
    char epoch[32] = "";
    const char *dot = strncmp(name, "journal.", 8) == 0 ? strchr(name + 8, '.') : NULL;
    if (dot == NULL || dot - (name + 8) >= (ptrdiff_t)sizeof(epoch)) {
        return GY_OK;
    }
    memcpy(epoch, name + 8, (size_t)(dot - (name + 8)));
    const object_name found = {gy_journal_segment_number(epoch),
                               gy_journal_segment_number(dot + 1)};
    if (found.epoch == 0 || (found.number == 0 && strcmp(dot, ".0") != 0)) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("persist.objects", list->items, list->capacity, list->count + 1));
    list->items[list->count++] = found;
    return GY_OK;
}

static gy_status list_all(const gy_journal_store *store, object_list *list)
{
    list->count = 0;
    return store->list(store->arg, add_name, list);
}

static bool has_object(const object_list *list, uint64_t epoch, uint64_t number)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].epoch == epoch && list->items[i].number == number) {
            return true;
        }
    }
    return false;
}

/* The lowest epoch above `epoch`; 0: there is none. */
static uint64_t next_epoch(const object_list *list, uint64_t epoch)
{
    uint64_t next = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t one = list->items[i].epoch;
        next = one > epoch && (next == 0 || one < next) ? one : next;
    }
    return next;
}

static uint64_t highest_epoch(const object_list *list)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < list->count; i++) {
        highest = GY_MAX(highest, list->items[i].epoch);
    }
    return highest;
}

/* The highest object number of an epoch; 0 also if it has no object. */
static uint64_t last_number(const object_list *list, uint64_t epoch)
{
    uint64_t last = 0;
    for (size_t i = 0; i < list->count; i++) {
        last = list->items[i].epoch == epoch ? GY_MAX(last, list->items[i].number) : last;
    }
    return last;
}

/* Is the first object of an epoch missing? A removal goes in order, so the job has ended. */
static bool is_removed(const object_list *list)
{
    for (uint64_t epoch = next_epoch(list, 0); epoch > 0; epoch = next_epoch(list, epoch)) {
        if (!has_object(list, epoch, 0)) {
            return true;
        }
    }
    return false;
}

/* ---- one object ---- */

static gy_status create(const gy_journal_store *store, object_head head, const void *content,
                        size_t size_bytes)
{
    gy_journal_bytes bytes = {.data = NULL};
    char name[64];
    name_of(&(object_name){head.epoch, head.number}, name);
    memcpy(head.magic, "gyre obj", sizeof(head.magic));
    head.version = VERSION;
    object_head_packed packed = object_head_pack(&head);
    gy_record_put(packed.checksum, sizeof(packed.checksum),
                  sum_object(&packed, head.number, content, size_bytes));
    gy_status status = gy_journal_add(&bytes, &packed, sizeof(packed));
    status = status < 0 ? status : gy_journal_add(&bytes, content, size_bytes);
    status =
        status < 0 ? status : store->create(store->arg, name, bytes.data, bytes.size_bytes);
    gy_free(bytes.data);
    return status;
}

/* An object of another version may have other fields behind its version. */
static gy_status take_head(const char *name, object_name which, const uint8_t *data,
                           size_t size_bytes, object_head *head)
{
    object_opening opening;
    const uint8_t *start = data, *content = data;
    size_t after = size_bytes, left = size_bytes;
    const bool has_magic = object_opening_take(&start, &after, &opening) &&
                           memcmp(opening.magic, "gyre obj", sizeof(opening.magic)) == 0;
    if (has_magic && opening.version != VERSION) {
        return gy_fail(GY_UNSUPPORTED, "%s is of version %u, expected version %d", name,
                       opening.version, VERSION);
    }
    return has_magic && object_head_take(&content, &left, head) && head->epoch == which.epoch &&
                   head->number == which.number &&
                   head->checksum == sum_object(data, head->number, content, left)
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s does not hold what was written there", name);
}

/* Append the object's content. GY_NOTFOUND */
static gy_status read_object(const gy_journal_store *store, object_name which,
                             object_head *head, gy_journal_bytes *to)
{
    char name[64];
    const size_t before = to->size_bytes;
    size_t size = 0;
    name_of(&which, name);
    gy_status status = GY_LIMIT;
    size_t room = ROOM_BYTES;
    for (int i = 0; i < 2 && status == GY_LIMIT; i++, room = size) {
        GY_TRY(GY_GROW("persist.objects", to->data, to->capacity, before + room));
        status = store->read(store->arg, name, to->data + before, room, &size);
    }
    GY_TRY(status);
    GY_TRY(take_head(name, which, to->data + before, size, head));
    size -= sizeof(object_head_packed);
    memmove(to->data + before, to->data + before + sizeof(object_head_packed), size);
    to->size_bytes = before + size;
    return GY_OK;
}

/* ---- has a newer epoch begun? ---- */

static gy_status fail_over(const gy_journal *journal, uint64_t next)
{
    gy_journal_bytes owner = {.data = NULL};
    object_head head;
    char text[GY_JOURNAL_OWNER] = "";
    if (next != journal->epoch &&
        read_object(&journal->store, (object_name){next, 0}, &head, &owner) == GY_OK) {
        snprintf(text, sizeof(text), "%.*s", (int)owner.size_bytes, (const char *)owner.data);
    }
    gy_free(owner.data);
    return gy_journal_fail_over(journal, next, text);
}

static gy_status fail_removed(const gy_journal *journal)
{
    return gy_fail(GY_STATE, "the job in %s has ended: its journal was removed",
                   journal->folder);
}

/* List the objects; fails if a newer epoch has begun. */
static gy_status look(const gy_journal *journal, object_list *list)
{
    GY_TRY(list_all(&journal->store, list));
    uint64_t highest = highest_epoch(list);
    if (highest > journal->epoch) {
        return fail_over(journal, highest);
    }
    if (is_removed(list)) {
        return fail_removed(journal);
    }
    bool is_sealed = journal->number > 0 && /* or the rest of a removal */
                     last_number(list, journal->epoch) >= journal->number;
    return is_sealed ? fail_over(journal, journal->epoch) : GY_OK;
}

static gy_status objects_check(gy_journal *journal)
{
    object_list list = {.items = NULL};
    gy_status status = look(journal, &list);
    gy_free(list.items);
    return status;
}

/* ---- writing ---- */

static gy_status send(gy_journal *journal)
{
    if (journal->unsent.size_bytes == 0) {
        return GY_OK;
    }
    const object_head head = {
        .kind = OBJECT_RECORDS, .epoch = journal->epoch, .number = journal->number};
    gy_status status =
        create(&journal->store, head, journal->unsent.data, journal->unsent.size_bytes);
    journal->unsent.size_bytes = 0;
    if (status == GY_EXISTS) { /* the object is this epoch's seal */
        journal->is_over = true;
        GY_TRY(objects_check(journal)); /* names the epoch that created it */
        return fail_over(journal, journal->epoch);
    }
    journal->number += status == GY_OK;
    return status;
}

static gy_status objects_write(gy_journal *journal, const void *data, size_t size_bytes)
{
    GY_TRY(gy_journal_add(&journal->unsent, data, size_bytes));
    return journal->unsent.size_bytes >= SENT_BYTES ? send(journal) : GY_OK;
}

static gy_status objects_sync(gy_journal *journal)
{
    return GY_PLANTED_HERE(SENT_LATE) ? GY_OK : send(journal);
}

/* ---- opening ---- */

/* Read an older epoch to its end; seal it if it has no seal yet. */
static gy_status settle(gy_journal *journal, uint64_t epoch, const object_list *list,
                        gy_journal_bytes *records)
{
    const uint64_t last = last_number(list, epoch);
    const gy_journal_store *store = &journal->store;
    for (uint64_t number = 0;;) {
        object_head head = {.kind = OBJECT_SEAL};
        const size_t before = records->size_bytes;
        gy_status status = read_object(store, (object_name){epoch, number}, &head, records);
        if (status == GY_NOTFOUND && number <= last) {
            return fail_removed(journal); /* a later object existed, so this one was removed */
        }
        if (status == GY_NOTFOUND) {
            const object_head seal = {
                .kind = OBJECT_SEAL, .epoch = epoch, .number = number, .by = journal->epoch};
            status = create(store, seal, NULL, 0);
            if (status == GY_EXISTS && !GY_PLANTED_HERE(GAP_IGNORED)) {
                continue; /* its writer, or another process that seals it, came first */
            }
            status = status == GY_EXISTS ? GY_OK : status;
        }
        GY_TRY(status);
        if (head.kind != OBJECT_RECORDS) {
            records->size_bytes = before;
        }
        if (head.kind == OBJECT_END) {
            return fail_removed(journal);
        }
        if (head.kind == OBJECT_SEAL) {
            return GY_OK;
        }
        number++;
    }
}

static gy_status claim(gy_journal *journal, const char *owner)
{
    const object_head head = {.kind = OBJECT_BEGIN, .epoch = journal->epoch};
    char text[GY_JOURNAL_OWNER] = "";
    snprintf(text, sizeof(text), "%s", owner != NULL ? owner : "");
    gy_status status = create(&journal->store, head, text, strlen(text));
    if (status == GY_EXISTS && !GY_PLANTED_HERE(EPOCH_AGAIN)) {
        return gy_journal_fail_claimed(journal, "");
    }
    journal->number = 1;
    return status == GY_EXISTS ? GY_OK : status;
}

static gy_status begin(gy_journal *journal, const gy_journal_options *options,
                       object_list *list, gy_journal_bytes *records)
{
    GY_TRY(look(journal, list));
    if (!GY_PLANTED_HERE(CLAIMED_LATE)) {
        GY_TRY(claim(journal, options->owner));
    }
    if (!GY_PLANTED_HERE(LOOKED_ONCE)) {
        GY_TRY(look(journal, list));
    }
    for (uint64_t epoch = next_epoch(list, 0); epoch > 0 && epoch < journal->epoch;
         epoch = next_epoch(list, epoch)) {
        GY_TRY(settle(journal, epoch, list, records));
    }
    if (GY_PLANTED_HERE(CLAIMED_LATE)) {
        return claim(journal, options->owner);
    }
    return look(journal, list); /* otherwise a newer epoch may have ended the job and removed
                                   everything meanwhile */
}

static gy_status objects_open(gy_journal *journal, const gy_journal_options *options)
{
    object_list list = {.items = NULL};
    gy_journal_bytes records = {.data = NULL};
    gy_status status = begin(journal, options, &list, &records);
    status = status < 0 ? status : gy_journal_take_all(journal, options, &records);
    gy_free(list.items);
    gy_free(records.data);
    return status;
}

const gy_journal_ops gy_journal_objects = {
    .name = "objects",
    .open = objects_open,
    .write = objects_write,
    .sync = objects_sync,
    .check = objects_check,
};

/* ---- state and removal ---- */

bool gy_journal_objects_are_there(const gy_journal_store *store)
{
    object_list list = {.items = NULL};
    bool are_there = list_all(store, &list) == GY_OK && list.count > 0 && !is_removed(&list);
    gy_free(list.items);
    return are_there;
}

gy_status gy_journal_objects_next(const gy_journal_store *store, uint64_t *epoch)
{
    object_list list = {.items = NULL};
    gy_status status = list_all(store, &list);
    uint64_t highest = highest_epoch(&list);
    gy_free(list.items);
    *epoch = highest > 0 ? highest + 1 : 0;
    return status;
}

/* Create an object after the last one which says that the job has ended. */
static gy_status close_last(const gy_journal_store *store, const object_list *list,
                            object_name *last)
{
    last->epoch = highest_epoch(list);
    last->number = last_number(list, last->epoch) + 1;
    const object_head head = {
        .kind = OBJECT_END, .epoch = last->epoch, .number = last->number, .by = last->epoch};
    gy_status status = create(store, head, NULL, 0);
    return status == GY_EXISTS ? GY_OK : status;
}

/* Remove all objects but the last in ascending order: an epoch without its first object also
 * means that the job has ended. */
gy_status gy_journal_objects_remove(const gy_journal_store *store, const char *folder)
{
    object_list list = {.items = NULL};
    object_name last = {.epoch = 0};
    gy_status status = list_all(store, &list);
    if (status == GY_OK && list.count > 0 && !is_removed(&list)) {
        status = close_last(store, &list, &last);
    }
    for (int is_later = 0; is_later < 2 && last.epoch > 0; is_later++) {
        for (size_t i = 0; i < list.count && status == GY_OK; i++) {
            char name[64];
            name_of(&list.items[i], name);
            if ((list.items[i].number > 0) == (is_later == 1)) {
                status = store->remove(store->arg, name);
            }
        }
    }
    gy_free(list.items);
    return status < 0 ? gy_fail_within(status, "the journal in %s", folder) : GY_OK;
}
