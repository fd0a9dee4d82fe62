/* Draws samples of mapped records, and makes splitters of them. */
#include "mapreduce/sort.h"

#include "base/base.h"

#include <stdlib.h>

static uint64_t records_in(const gy_sort_layout *layout, const gy_sort_span *span)
{
    return layout->kind == GY_LAYOUT_FIXED ? span->size_bytes / layout->record_bytes
                                           : span->size_bytes;
}

gy_status gy_sort_records_check(const gy_sort_records *records)
{
    const gy_sort_layout *layout = records->layout;
    GY_TRY(gy_sort_layout_check(layout));
    if (layout->kind == GY_LAYOUT_FRAMED) {
        return gy_fail(GY_ARG, "records of key and value cannot be entered in their middle");
    }
    if (records->span_count > GY_SPANS_MAX) {
        return gy_fail(GY_LIMIT, "%zu inputs, at most %zu can be sorted at once",
                       records->span_count, GY_SPANS_MAX);
    }
    for (size_t i = 0; i < records->span_count; i++) {
        const gy_sort_span *span = &records->spans[i];
        if (span->size_bytes > GY_POSITION_MASK) {
            return gy_fail(GY_LIMIT, "input %zu has %zu bytes, at most 1 TiB can be sorted", i,
                           span->size_bytes);
        }
        if (layout->kind == GY_LAYOUT_FIXED && span->size_bytes % layout->record_bytes != 0) {
            return gy_fail(GY_FORMAT,
                           "input %zu has %zu bytes, which is no whole number of records of "
                           "%zu bytes",
                           i, span->size_bytes, layout->record_bytes);
        }
    }
    return GY_OK;
}

static uint64_t count_units(const gy_sort_records *records)
{
    uint64_t units = 0;
    for (size_t i = 0; i < records->span_count; i++) {
        units += records_in(records->layout, &records->spans[i]);
    }
    return units;
}

/* The offset of the record that contains unit `at` of the span, or of the next one. */
static size_t record_at(const gy_sort_layout *layout, const gy_sort_span *span, uint64_t at)
{
    if (layout->kind == GY_LAYOUT_FIXED) {
        return (size_t)at * layout->record_bytes;
    }
    if (at == 0 || span->data[at - 1] == '\n') {
        return (size_t)at;
    }
    const char *newline = memchr(span->data + at, '\n', span->size_bytes - at);
    /* within the last line: take the span's first record instead, so that there always is
     * one */
    const bool is_last = newline == NULL || newline + 1 == span->data + span->size_bytes;
    return is_last ? 0 : (size_t)(newline + 1 - span->data);
}

/* The record drawn last, and the units that would draw it again: a line that is longer than a
 * stretch is read once, not for each stretch. */
typedef struct drawn_record {
    size_t span, first, last; /* units of the span; last < first: none */
    uint64_t position;
    gy_sort_item item;
} drawn_record;

static void draw_one(const gy_sort_records *records, size_t span, size_t unit,
                     drawn_record *drawn)
{
    if (drawn->span == span && drawn->first <= unit && unit <= drawn->last) {
        return;
    }
    const size_t at = record_at(records->layout, &records->spans[span], unit);
    const bool is_lines = records->layout->kind == GY_LAYOUT_LINES;
    const uint64_t position = gy_sort_position(span, at);
    if (drawn->last < drawn->first || drawn->position != position) {
        drawn->item = gy_sort_item_at(records, position);
    }
    drawn->span = span;
    drawn->first = unit;
    /* for the last line see above */
    drawn->last = !is_lines ? unit : at >= unit ? at : SIZE_MAX;
    drawn->position = position;
}

/* Draw a record from each of `count` stretches of the units. */
static size_t draw(const gy_sort_records *records, uint64_t seed, uint64_t units, size_t count,
                   gy_entry *entries)
{
    size_t span = 0;
    uint64_t before = 0, bytes = 0;
    drawn_record drawn = {.first = 1};
    const uint64_t stretch = count == 0 ? 0 : units / count, rest = units - stretch * count;
    for (size_t i = 0; i < count; i++) {
        const uint64_t begin = stretch * i + GY_MIN(i, rest);
        const uint64_t end = begin + stretch + (i < rest);
        gy_random random = {seed, i};
        const uint64_t unit = begin + gy_random_below(&random, end - begin);
        while (unit - before >= records_in(records->layout, &records->spans[span])) {
            before += records_in(records->layout, &records->spans[span++]);
        }
        draw_one(records, span, (size_t)(unit - before), &drawn);
        const gy_sort_item *item = &drawn.item;
        bytes += item->size_bytes;
        entries[i] = (gy_entry){
            gy_sort_key_word(records->layout->key, item->key, item->key_bytes), drawn.position};
    }
    return count == 0 ? 0 : (size_t)(bytes / count);
}

static int by_position(const void *a, const void *b)
{
    const gy_entry *first = a, *second = b;
    return (first->position > second->position) - (first->position < second->position);
}

/* Remove duplicates from entries in the order of positions; `times` becomes the number of
 * draws of each. Returns how many remain. */
static size_t unite(gy_entry *entries, size_t count, uint64_t *positions, uint32_t *times)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && positions[kept - 1] == entries[i].position) {
            times[kept - 1]++;
            continue;
        }
        entries[kept] = entries[i];
        positions[kept] = entries[i].position;
        times[kept++] = 1;
    }
    return kept;
}

static size_t find_position(const uint64_t *positions, size_t count, uint64_t position)
{
    size_t low = 0;
    while (count > 1) {
        const size_t half = count / 2;
        low += positions[low + half] <= position ? half : 0;
        count -= half;
    }
    GY_ASSERT(positions[low] == position);
    return low;
}

/* Sort the drawn records; one that was drawn several times is compared once. */
static gy_status order_drawn(const gy_sort_records *records, gy_entry *entries, size_t count,
                             gy_sort_bound *bounds)
{
    uint64_t *positions = gy_alloc("mapreduce.sample", (count + 1) * sizeof(*positions));
    uint32_t *times = gy_alloc("mapreduce.sample", (count + 1) * sizeof(*times));
    if (positions != NULL && times != NULL) {
        if (count > 1) {
            qsort(entries, count, sizeof(*entries), by_position);
        }
        const size_t kept = unite(entries, count, positions, times);
        gy_mapreduce_entries_sort(records, entries, entries + count, kept, 0);
        gy_sort_bound *to = bounds;
        for (size_t i = 0; i < kept; i++) {
            const gy_sort_item item = gy_sort_item_at(records, entries[i].position);
            const size_t at = find_position(positions, kept, entries[i].position);
            for (uint32_t n = 0; n < times[at]; n++) {
                *to++ = (gy_sort_bound){item.key, item.key_bytes, entries[i].position};
            }
        }
    }
    const bool is_ok = positions != NULL && times != NULL;
    gy_free(positions);
    gy_free(times);
    return is_ok ? GY_OK : GY_NOMEM;
}

gy_status gy_mapreduce_sample_take(const gy_sort_records *records, uint64_t seed,
                                   gy_mapreduce_sample *sample)
{
    GY_TRY(gy_sort_records_check(records));
    const uint64_t units = count_units(records);
    const size_t count = (size_t)GY_MIN(units, GY_SAMPLE_MOST);
    gy_entry *entries = gy_alloc("mapreduce.sample", 2 * count * sizeof(*entries));
    gy_sort_bound *bounds = gy_alloc("mapreduce.sample", count * sizeof(*bounds));
    if (entries == NULL || bounds == NULL) {
        gy_free(entries);
        gy_free(bounds);
        return GY_NOMEM;
    }
    const size_t mean_bytes = draw(records, seed, units, count, entries);
    const gy_status status = order_drawn(records, entries, count, bounds);
    gy_free(entries);
    if (status < 0) {
        gy_free(bounds);
        return status;
    }
    const bool is_fixed = records->layout->kind == GY_LAYOUT_FIXED;
    *sample = (gy_mapreduce_sample){
        bounds, count, is_fixed || mean_bytes == 0 ? units : units / mean_bytes + 1};
    return GY_OK;
}

void gy_mapreduce_sample_free(gy_mapreduce_sample *sample)
{
    gy_free(sample->bounds);
    *sample = (gy_mapreduce_sample){0};
}

int gy_sort_bound_compare(gy_key_kind kind, const gy_sort_bound *a, const gy_sort_bound *b)
{
    const gy_sort_item first = {.key = a->key, .key_bytes = a->key_bytes};
    const gy_sort_item second = {.key = b->key, .key_bytes = b->key_bytes};
    const int order = gy_sort_key_compare(kind, &first, &second);
    return order != 0 ? order : (a->position > b->position) - (a->position < b->position);
}

void gy_mapreduce_sample_split(const gy_mapreduce_sample *sample, gy_key_kind kind,
                               size_t parts, bool keeps_keys, gy_sort_bound *bounds)
{
    static const char least[sizeof(uint64_t)];
    for (size_t i = 1; i < parts; i++) {
        const size_t at = sample->count * i / parts;
        bounds[i - 1] = sample->count > 0
                            ? sample->bounds[at]
                            : (gy_sort_bound){least, kind == GY_KEY_BYTES ? 0 : 8, 0};
        if (keeps_keys) {
            bounds[i - 1].position = 0;
        }
    }
}

size_t gy_mapreduce_sample_find(const gy_mapreduce_sample *sample, gy_key_kind kind,
                                const gy_sort_bound *bound)
{
    size_t low = 0, high = sample->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (gy_sort_bound_compare(kind, &sample->bounds[middle], bound) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
