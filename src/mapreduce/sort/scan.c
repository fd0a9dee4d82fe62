/* Scans mapped records: computes the words of keys, and selects those in a range. */
#include "mapreduce/sort/scan.h"

#include "base/base.h"

typedef struct scanner {
    const gy_sort_records *records;
    const gy_sort_range_of *range;
    uint64_t low, width; /* only words in [low, low + width] may be in the range */
    gy_sort_take take;
    void *arg;
    gy_entry block[GY_BLOCK_ENTRIES];
    size_t count;
} scanner;

static uint64_t bound_word(gy_key_kind kind, const gy_sort_bound *bound)
{
    return gy_sort_key_word(kind, bound->key, bound->key_bytes);
}

/* Drop the keys whose words are at the range's edges but that are outside, and pass on the
 * rest. */
static gy_status flush(scanner *scan)
{
    const gy_sort_range_of *range = scan->range;
    const gy_key_kind kind = scan->records->layout->key;
    const uint64_t high = scan->low + scan->width;
    size_t kept = 0;
    for (size_t i = 0; i < scan->count; i++) {
        const gy_entry entry = scan->block[i];
        bool is_in = true;
        if ((entry.prefix == scan->low && range->low != NULL) ||
            (entry.prefix == high && range->high != NULL)) {
            const gy_sort_item item = gy_sort_item_at(scan->records, entry.position);
            const gy_sort_bound at = {item.key, item.key_bytes, entry.position};
            is_in = (range->low == NULL || gy_sort_bound_compare(kind, range->low, &at) <= 0) &&
                    (range->high == NULL || gy_sort_bound_compare(kind, &at, range->high) < 0);
        }
        scan->block[kept] = entry;
        kept += is_in;
    }
    scan->count = 0;
    return kept == 0 ? GY_OK : scan->take(scan->arg, scan->block, kept);
}

/* Compute the words of `count` keys of at least 8 bytes; the loop has no data-dependent
 * branch. */
static void filter_words(scanner *scan, const char *key, size_t count, uint64_t position)
{
    const size_t stride = scan->records->layout->record_bytes;
    const uint64_t low = scan->low, width = scan->width;
    gy_entry *block = scan->block;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, key, sizeof(word));
        word = __builtin_bswap64(word);
        block[kept] = (gy_entry){word, position};
        kept += word - low <= width;
        key += stride;
        position += stride;
    }
    scan->count = kept;
}

static void filter_any(scanner *scan, const char *key, size_t count, uint64_t position)
{
    const gy_sort_layout *layout = scan->records->layout;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = gy_sort_key_word(layout->key, key, layout->key_bytes);
        scan->block[kept] = (gy_entry){word, position};
        kept += word - scan->low <= scan->width;
        key += layout->record_bytes;
        position += layout->record_bytes;
    }
    scan->count = kept;
}

static gy_status scan_fixed(scanner *scan, size_t number)
{
    const gy_sort_layout *layout = scan->records->layout;
    const gy_sort_span *span = &scan->records->spans[number];
    const size_t count = span->size_bytes / layout->record_bytes;
    const bool is_plain = layout->key == GY_KEY_BYTES && layout->key_bytes >= sizeof(uint64_t);
    for (size_t i = 0; i < count; i += GY_BLOCK_ENTRIES) {
        const size_t some = GY_MIN(count - i, GY_BLOCK_ENTRIES);
        const char *key = span->data + i * layout->record_bytes + layout->key_offset;
        const uint64_t position = gy_sort_position(number, i * layout->record_bytes);
        (is_plain ? filter_words : filter_any)(scan, key, some, position);
        GY_TRY(flush(scan));
    }
    return GY_OK;
}

static gy_status scan_lines(scanner *scan, size_t number)
{
    const gy_sort_layout *layout = scan->records->layout;
    const gy_sort_span *span = &scan->records->spans[number];
    const char *end = span->data + span->size_bytes;
    for (const char *at = span->data; at < end;) {
        gy_sort_item item = {0};
        (void)gy_sort_item_read(layout, at, end, &item); /* a line cannot be malformed */
        const uint64_t word = gy_sort_word(item.key, item.key_bytes);
        scan->block[scan->count] =
            (gy_entry){word, gy_sort_position(number, (size_t)(at - span->data))};
        scan->count += word - scan->low <= scan->width;
        at += item.size_bytes;
        if (scan->count == GY_BLOCK_ENTRIES) {
            GY_TRY(flush(scan));
        }
    }
    return flush(scan);
}

gy_status gy_sort_scan(const gy_sort_records *records, const gy_sort_range_of *range,
                       gy_sort_take take, void *arg)
{
    const gy_key_kind kind = records->layout->key;
    const uint64_t low = range->low == NULL ? 0 : bound_word(kind, range->low);
    const uint64_t high = range->high == NULL ? UINT64_MAX : bound_word(kind, range->high);
    if (high < low) {
        return GY_OK;
    }
    scanner scan = {.records = records,
                    .range = range,
                    .low = low,
                    .width = high - low,
                    .take = take,
                    .arg = arg};
    for (size_t i = 0; i < records->span_count; i++) {
        GY_TRY(records->layout->kind == GY_LAYOUT_FIXED ? scan_fixed(&scan, i)
                                                        : scan_lines(&scan, i));
    }
    return GY_OK;
}
