/* Turns entries into records in order: divides lists into parts that fit the cache, and sorts
 * these. */
#include "mapreduce/sort/scan.h"

#include "base/base.h"

enum {
    AHEAD = 16,
    ROOM_BYTES = 64 << 10, /* room requested from the sink at once */
    FAN_BITS = 4,          /* log2 of the number of parts for a list that exceeds the cache */
    FAN = 1 << FAN_BITS,
};

static const char *record_of(const gy_sort_records *records, const gy_entry *entry)
{
    return records->spans[entry->position >> GY_POSITION_BITS].data +
           (entry->position & GY_POSITION_MASK);
}

static void prefetch(const char *record, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i += GY_CACHE_LINE) {
        __builtin_prefetch(record + i);
    }
    __builtin_prefetch(record + size_bytes - 1);
}

/* Copies 16 bytes at a time, the last ones overlapping: avoids a call for the usual small
 * records. */
static void copy(char *to, const char *from, size_t size_bytes)
{
    if (size_bytes < 16 || size_bytes > 256) {
        memcpy(to, from, size_bytes);
        return;
    }
    for (size_t i = 0; i + 16 <= size_bytes; i += 16) {
        memcpy(to + i, from + i, 16);
    }
    memcpy(to + size_bytes - 16, from + size_bytes - 16, 16);
}

static gy_status gather_fixed(gy_sort_gather *gather, const gy_entry *entries, size_t count)
{
    const gy_sort_records *records = gather->records;
    const size_t size = records->layout->record_bytes;
    const size_t most = GY_MAX(ROOM_BYTES / size, 1);
    for (size_t begin = 0; begin < count; begin += most) {
        const size_t some = GY_MIN(count - begin, most);
        void *room = NULL;
        GY_TRY(gather->sink->room(gather->sink->arg, some * size, &room));
        char *to = room;
        for (size_t i = begin; i < begin + some; i++) {
            if (i + AHEAD < count) {
                prefetch(record_of(records, &entries[i + AHEAD]), GY_MIN(size, 1024));
            }
            copy(to, record_of(records, &entries[i]), size);
            to += size;
        }
        GY_TRY(gather->sink->wrote(gather->sink->arg, some * size));
        gather->report->bytes += some * size;
    }
    return GY_OK;
}

/* Write a line in chunks, because a long line must not request that much room at once. */
static gy_status write_line(const gy_sort_sink *sink, const gy_sort_item *item, bool is_cut)
{
    size_t at = 0;
    do {
        const size_t some = GY_MIN(item->size_bytes - at, (size_t)ROOM_BYTES);
        const bool ends = is_cut && at + some == item->size_bytes;
        void *room = NULL;
        GY_TRY(sink->room(sink->arg, some + ends, &room));
        copy(room, item->data + at, some);
        if (ends) {
            ((char *)room)[some] = '\n';
        }
        GY_TRY(sink->wrote(sink->arg, some + ends));
        at += some;
    } while (at < item->size_bytes);
    return GY_OK;
}

static gy_status gather_lines(gy_sort_gather *gather, const gy_entry *entries, size_t count)
{
    const gy_sort_records *records = gather->records;
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            prefetch(record_of(records, &entries[i + AHEAD]), GY_CACHE_LINE);
        }
        gy_sort_item item = gy_sort_item_at(records, entries[i].position);
        const bool is_cut = gy_sort_line_trim(records->layout, item.data, &item.size_bytes);
        GY_TRY(write_line(gather->sink, &item, is_cut));
        gather->report->bytes += item.size_bytes + is_cut;
    }
    return GY_OK;
}

gy_status gy_sort_gather_entries(gy_sort_gather *gather, const gy_entry *entries, size_t count)
{
    gather->report->records += count;
    return gather->records->layout->kind == GY_LAYOUT_FIXED
               ? gather_fixed(gather, entries, count)
               : gather_lines(gather, entries, count);
}

static gy_entry *chunk_of(const gy_sort_gather *gather, uint32_t chunk)
{
    return gather->chunks.entries + (size_t)chunk * GY_CHUNK_ENTRIES;
}

/* Move the list's entries to `to` and free its chunks. */
static void move_entries(gy_sort_gather *gather, gy_entry_list *list, gy_entry *to)
{
    while (list->first != GY_CHUNK_NONE) {
        const uint32_t fill = gy_entry_list_fill(list, list->first);
        memcpy(to, chunk_of(gather, list->first), fill * sizeof(*to));
        to += fill;
        gy_entry_list_shift(&gather->chunks, list);
    }
}

/* Write a list that fits the cache: copy it to an array, sort, write. */
static gy_status gather_small(gy_sort_gather *gather, gy_entry_list *list, size_t depth)
{
    const size_t count = list->count;
    move_entries(gather, list, gather->flat);
    gy_mapreduce_entries_sort(gather->records, gather->flat, gather->scratch, count, depth);
    return gy_sort_gather_entries(gather, gather->flat, count);
}

/* Write a list that cannot be divided, because too many nested parts hold chunks: with an
 * array of its own. */
static gy_status gather_whole(gy_sort_gather *gather, gy_entry_list *list, size_t depth)
{
    const size_t count = list->count;
    gy_entry *entries = gy_alloc("mapreduce.deep", 2 * count * sizeof(*entries));
    if (entries == NULL) {
        return GY_NOMEM;
    }
    move_entries(gather, list, entries);
    gy_mapreduce_entries_sort(gather->records, entries, entries + count, count, depth);
    const gy_status status = gy_sort_gather_entries(gather, entries, count);
    gy_free(entries);
    return status;
}

/* Write a list of equal keys in its order. */
static gy_status gather_equal(gy_sort_gather *gather, gy_entry_list *list)
{
    while (list->first != GY_CHUNK_NONE) {
        const uint32_t chunk = list->first;
        GY_TRY(gy_sort_gather_entries(gather, chunk_of(gather, chunk),
                                      gy_entry_list_fill(list, chunk)));
        gy_entry_list_shift(&gather->chunks, list);
    }
    return GY_OK;
}

/* The bits in which the list's prefixes differ. */
static uint64_t spread(const gy_sort_gather *gather, const gy_entry_list *list)
{
    const uint64_t any = chunk_of(gather, list->first)->prefix;
    uint64_t bits = 0;
    for (uint32_t at = list->first; at != GY_CHUNK_NONE; at = gather->chunks.next[at]) {
        const uint32_t fill = gy_entry_list_fill(list, at);
        for (uint32_t i = 0; i < fill; i++) {
            bits |= chunk_of(gather, at)[i].prefix ^ any;
        }
    }
    return bits;
}

/* How a list is divided. */
typedef struct rule {
    const gy_sort_records *records;
    unsigned shift; /* of prefixes; 64: by the bytes left of the keys after `depth` */
    size_t depth;
} rule;

/* 9: more than a word. */
static size_t left_of(const rule *by, const gy_entry *entry)
{
    return gy_sort_key_head(by->records, entry->position, by->depth, 9).size_bytes;
}

static void deal(gy_sort_gather *gather, gy_entry_list *list, const rule *by,
                 gy_entry_list parts[FAN])
{
    for (int i = 0; i < FAN; i++) {
        gy_entry_list_begin(&parts[i]);
    }
    while (list->first != GY_CHUNK_NONE) {
        const uint32_t fill = gy_entry_list_fill(list, list->first);
        const gy_entry *entries = chunk_of(gather, list->first);
        for (uint32_t i = 0; i < fill; i++) {
            const size_t part = by->shift < 64 ? entries[i].prefix >> by->shift & (FAN - 1)
                                               : left_of(by, &entries[i]);
            const bool is_in =
                gy_entry_list_add(&gather->chunks, &parts[part], entries[i], UINT32_MAX);
            GY_ASSERT(is_in);
        }
        gy_entry_list_shift(&gather->chunks, list);
    }
}

/* The next words of keys that all go on. */
static void load_words(gy_sort_gather *gather, const gy_entry_list *list, size_t depth)
{
    for (uint32_t at = list->first; at != GY_CHUNK_NONE; at = gather->chunks.next[at]) {
        const uint32_t fill = gy_entry_list_fill(list, at);
        gy_entry *entries = chunk_of(gather, at);
        for (uint32_t i = 0; i < fill; i++) {
            const gy_sort_span word =
                gy_sort_key_head(gather->records, entries[i].position, depth, sizeof(uint64_t));
            entries[i].prefix = gy_sort_word(word.data, word.size_bytes);
        }
    }
}

/* Write the parts in order; after a failure free the remaining ones. */
static gy_status gather_parts(gy_sort_gather *gather, gy_entry_list parts[FAN], size_t depth)
{
    gy_status status = GY_OK;
    for (int i = 0; i < FAN; i++) {
        if (status == GY_OK && parts[i].count > 0) {
            status = gy_sort_gather_list(gather, &parts[i], depth);
        }
        gy_entry_list_clear(&gather->chunks, &parts[i]);
    }
    return status;
}

/* All words are equal: write the keys that end within them, shortest first; the others stay in
 * the list with their next words. */
static gy_status gather_ended(gy_sort_gather *gather, gy_entry_list *list, size_t *depth)
{
    const rule by = {gather->records, 64, *depth};
    gy_entry_list parts[FAN];
    deal(gather, list, &by, parts);
    *list = parts[9];
    gy_status status = GY_OK;
    for (int i = 0; i < 9; i++) {
        if (status == GY_OK) {
            status = gather_equal(gather, &parts[i]);
        }
        gy_entry_list_clear(&gather->chunks, &parts[i]);
    }
    *depth += sizeof(uint64_t);
    load_words(gather, list, *depth);
    return status;
}

gy_status gy_sort_gather_list(gy_sort_gather *gather, gy_entry_list *list, size_t depth)
{
    const gy_sort_layout *layout = gather->records->layout;
    gy_status status = GY_OK;
    while (status == GY_OK && list->count > GY_FLAT_ENTRIES) {
        if (gather->chunks.count - gather->chunks.used <= FAN) {
            return gather_whole(gather, list, depth);
        }
        const uint64_t bits = spread(gather, list);
        if (bits != 0) {
            const unsigned top = 64 - (unsigned)__builtin_clzll(bits);
            const rule by = {gather->records, top > FAN_BITS ? top - FAN_BITS : 0, 0};
            gy_entry_list parts[FAN];
            deal(gather, list, &by, parts);
            return gather_parts(gather, parts, depth);
        }
        if (layout->key != GY_KEY_BYTES) {
            status = gather_equal(gather, list);
            break;
        }
        status = gather_ended(gather, list, &depth);
    }
    if (status == GY_OK && list->count > 0) {
        status = gather_small(gather, list, depth);
    }
    gy_entry_list_clear(&gather->chunks, list);
    return status;
}
