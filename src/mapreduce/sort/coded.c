/*
 * Sorts by decimal numbers, by fields, or in descending order: keys are encoded as bytes that
 * memcmp orders, and records are sorted by external runs (sorter.c).
 *
 *   number      0                    80
 *               12.5    81 02 '1' '2' '5'        sign, number of digits before the point,
 *                       digits
 *              -12.5    7f fd ce cd ca ff        the same with each byte inverted, and an end
 *   descending  each byte inverted; ff as ff 00, the end as ff ff
 */
#include "mapreduce/sort/told.h"

#include "base/base.h"

#include <gyre/mapreduce.h>

#include <stdlib.h>

enum {
    SAMPLE_SEED = 1,
    /* prefix length of a sampled code, enough for bounds to distinguish keys */
    BOUND_BYTES = 256,
    LENGTH_MOST = 255, /* most digits that one length byte counts; more have 8 length bytes */
    NUMBER_EXTRA = 12, /* bytes for sign, length, end */
};

/* ---- keys ---- */

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

/* Field `number` of a line; data NULL when the line has fewer. */
static gy_sort_span field_of(const gy_sort_coding *coding, gy_sort_span line)
{
    const char *at = line.data, *end = at + line.size_bytes;
    for (int32_t number = 1;; number++) {
        while (coding->separator == '\0' && at < end && is_blank(*at)) {
            at++;
        }
        const char *begin = at;
        while (at < end &&
               (coding->separator == '\0' ? !is_blank(*at) : *at != coding->separator)) {
            at++;
        }
        const bool is_there = coding->separator != '\0' || at > begin;
        if (number == coding->field && is_there) {
            return (gy_sort_span){begin, (size_t)(at - begin)};
        }
        if (at == end) {
            return (gy_sort_span){NULL, 0};
        }
        at += coding->separator != '\0';
    }
}

/* Skip digits from `at` on. */
static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* Encode the number at the beginning of the key; returns the size. `out` has room for all of
 * it. */
static size_t code_number(gy_sort_span key, unsigned char *out, bool *lacks)
{
    const char *at = key.data, *end = at + key.size_bytes;
    while (at < end && is_blank(*at)) {
        at++;
    }
    const bool is_negative = at < end && *at == '-';
    at += is_negative;
    const char *digits = at;
    while (at < end && *at == '0') {
        at++;
    }
    const char *whole = at;
    at = skip_digits(at, end);
    const size_t length = (size_t)(at - whole);
    const char *fraction = at + (at < end && *at == '.');
    const char *fraction_end = fraction > at ? skip_digits(fraction, end) : fraction;
    *lacks = at == digits && fraction_end == fraction;
    while (fraction_end > fraction && fraction_end[-1] == '0') {
        fraction_end--;
    }
    const size_t rest = (size_t)(fraction_end - fraction);
    if (length + rest == 0) {
        out[0] = 0x80;
        return 1;
    }
    size_t size = 0;
    out[size++] = 0x81;
    out[size++] = (unsigned char)GY_MIN(length, (size_t)LENGTH_MOST);
    for (int shift = 56; length >= LENGTH_MOST && shift >= 0; shift -= 8) {
        out[size++] = (unsigned char)((uint64_t)length >> shift);
    }
    memcpy(out + size, whole, length);
    memcpy(out + size + length, fraction, rest);
    size += length + rest;
    if (is_negative) {
        out[0] = 0x7f;
        for (size_t i = 1; i < size; i++) {
            out[i] = (unsigned char)~out[i];
        }
        out[size++] = 0xff; /* of two numbers with a common prefix, the shorter one is larger */
    }
    return size;
}

static size_t code_typed(gy_key_kind kind, const char *key, unsigned char *out)
{
    const uint64_t word = __builtin_bswap64(gy_typed_word(kind, key));
    memcpy(out, &word, sizeof(word));
    return sizeof(word);
}

/* Invert the order of codes, in a buffer with room for twice as many bytes plus two. */
static size_t turn(unsigned char *code, size_t size)
{
    size_t more = 2;
    for (size_t i = 0; i < size; i++) {
        more += code[i] == 0;
    }
    size_t to = size + more;
    code[--to] = 0xff;
    code[--to] = 0xff;
    for (size_t i = size; i-- > 0;) {
        const unsigned char turned = (unsigned char)~code[i];
        if (turned == 0xff) {
            code[--to] = 0;
        }
        code[--to] = turned;
    }
    return size + more;
}

gy_status gy_sort_code(const gy_sort_layout *layout, const gy_sort_coding *coding,
                       const gy_sort_item *item, gy_sort_coded_key *code)
{
    gy_sort_span key = {item->key, item->key_bytes};
    if (coding->field > 0) {
        key = field_of(coding, key);
    }
    code->lacks_field = coding->field > 0 && key.data == NULL;
    code->lacks_number = false;
    key.data = key.data != NULL ? key.data : "";
    void *bytes = code->bytes;
    const gy_status status = gy_reserve("mapreduce.code", &bytes, &code->capacity,
                                        2 * (key.size_bytes + NUMBER_EXTRA) + 2, 1);
    code->bytes = bytes;
    GY_TRY(status);
    unsigned char *out = bytes;
    size_t size = key.size_bytes;
    if (coding->is_number && !code->lacks_field) {
        size = code_number(key, out, &code->lacks_number);
    } else if (coding->is_number) {
        out[0] = 0x80;
        size = 1;
    } else if (layout->key != GY_KEY_BYTES) {
        size = code_typed(layout->key, key.data, out);
    } else if (size > 0) {
        memcpy(out, key.data, size);
    }
    code->size = coding->is_descending ? turn(out, size) : size;
    return GY_OK;
}

/* ---- parts ---- */

/* State of encoding records: one buffer for all. */
typedef struct coding_run {
    const gy_sort_records *records;
    const gy_sort_coding *coding;
    gy_sorter *sorter;
    gy_sort_bound low, high; /* key NULL: unbounded */
    size_t item_most;
    gy_sort_coded_key code;
    int64_t without_field, without_number; /* counts for the part */
} coding_run;

static gy_status code_item(coding_run *run, const gy_sort_item *item)
{
    if (item->size_bytes > run->item_most) {
        return gy_fail(GY_LIMIT, "a record has %zu bytes: too many to be sorted within %zu",
                       item->size_bytes, run->item_most);
    }
    return gy_sort_code(run->records->layout, run->coding, item, &run->code);
}

static int compare_bounds(const void *a, const void *b)
{
    return gy_sort_bound_compare(GY_KEY_BYTES, a, b);
}

/* Encode the sample's records, and sort them by their codes, whose bytes are in the arena. A
 * long record is in the sample many times, consecutively: it is encoded once. */
static gy_status code_sample(coding_run *run, const gy_mapreduce_sample *sample,
                             gy_arena *arena, gy_sort_bound *bounds)
{
    for (size_t i = 0; i < sample->count; i++) {
        if (i > 0 && sample->bounds[i].position == sample->bounds[i - 1].position) {
            bounds[i] = bounds[i - 1];
            continue;
        }
        const gy_sort_item item = gy_sort_item_at(run->records, sample->bounds[i].position);
        GY_TRY(code_item(run, &item));
        const size_t size = GY_MIN(run->code.size, (size_t)BOUND_BYTES);
        char *key = gy_arena_alloc(arena, size + 1);
        if (key == NULL) {
            return GY_NOMEM;
        }
        if (size > 0) {
            memcpy(key, run->code.bytes, size);
        }
        bounds[i] = (gy_sort_bound){key, size, sample->bounds[i].position};
    }
    if (sample->count > 1) {
        qsort(bounds, sample->count, sizeof(*bounds), compare_bounds);
    }
    return GY_OK;
}

/* Find where the part begins and ends: a pure function of the records. */
static gy_status find_part(coding_run *run, gy_arena *arena, size_t part, size_t parts)
{
    gy_mapreduce_sample sample = {0};
    if (parts == 1) {
        return GY_OK;
    }
    GY_TRY(gy_mapreduce_sample_take(run->records, SAMPLE_SEED, &sample));
    gy_sort_bound *bounds = gy_arena_alloc(arena, (sample.count + 1) * sizeof(*bounds));
    gy_status status = bounds == NULL ? GY_NOMEM : code_sample(run, &sample, arena, bounds);
    if (status == GY_OK) {
        /* An empty sample means that there are no records. */
        const gy_mapreduce_sample coded = {bounds, sample.count, sample.records};
        run->low = part > 0 && coded.count > 0 ? bounds[coded.count * part / parts]
                                               : (gy_sort_bound){0};
        run->high = part + 1 < parts && coded.count > 0
                        ? bounds[coded.count * (part + 1) / parts]
                        : (gy_sort_bound){0};
    }
    gy_mapreduce_sample_free(&sample);
    return status;
}

/* Each part refuses the first record that lacks a field or number, even another part's, so
 * that all parts report the same error. */
static gy_status check_lack(const coding_run *run, size_t input, uint64_t offset)
{
    const gy_sort_coding *coding = run->coding;
    if (!coding->is_strict || (!run->code.lacks_field && !run->code.lacks_number)) {
        return GY_OK;
    }
    if (run->code.lacks_field) {
        return gy_fail(GY_FORMAT, "input %zu: the line at offset %llu has no field %d",
                       input + 1, (unsigned long long)offset, coding->field);
    }
    return gy_fail(GY_FORMAT,
                   "input %zu: the key of the line at offset %llu begins with no number",
                   input + 1, (unsigned long long)offset);
}

static gy_status add_records(coding_run *run)
{
    const gy_sort_layout *layout = run->records->layout;
    for (size_t number = 0; number < run->records->span_count; number++) {
        const gy_sort_span *span = &run->records->spans[number];
        const char *end = span->data + span->size_bytes;
        for (const char *at = span->data; at < end;) {
            gy_sort_item item = {0};
            const bool is_whole = gy_sort_item_read(layout, at, end, &item);
            GY_ASSERT(is_whole); /* the sizes were checked */
            GY_TRY(code_item(run, &item));
            GY_TRY(check_lack(run, number, (uint64_t)(at - span->data)));
            const gy_sort_bound here = {run->code.bytes, run->code.size,
                                        gy_sort_position(number, (size_t)(at - span->data))};
            at += item.size_bytes;
            if ((run->low.key != NULL && compare_bounds(&here, &run->low) < 0) ||
                (run->high.key != NULL && compare_bounds(&here, &run->high) >= 0)) {
                continue;
            }
            run->without_field += run->code.lacks_field;
            run->without_number += run->code.lacks_number;
            item.value = item.data;
            item.value_bytes = item.size_bytes;
            item.key = run->code.bytes;
            item.key_bytes = run->code.size;
            GY_TRY(gy_sorter_add(run->sorter, &item, 1));
        }
    }
    return GY_OK;
}

gy_status gy_sort_coded(gy_vertex *vertex, const gy_sort_records *records,
                        const gy_sort_coding *coding)
{
    coding_run run = {
        .records = records, .coding = coding, .item_most = gy_vertex_memory(vertex) / 4};
    gy_arena arena = {0};
    gy_status status = gy_sort_records_check(records);
    if (status == GY_OK) {
        status = find_part(&run, &arena, (size_t)gy_vertex_index(vertex),
                           (size_t)gy_vertex_clones(vertex));
    }
    if (status == GY_OK) {
        status = gy_sort_sorter(vertex, GY_KEY_BYTES, &run.sorter);
    }
    if (status == GY_OK) {
        status = add_records(&run);
    }
    if (status == GY_OK) {
        status = gy_sorter_end(run.sorter);
    }
    if (status == GY_OK) {
        status = gy_sort_write(vertex, run.sorter, records->layout);
    }
    if (run.without_field > 0) {
        gy_vertex_count(vertex, GY_COUNTER_NO_FIELD, run.without_field);
    }
    if (run.without_number > 0) {
        gy_vertex_count(vertex, GY_COUNTER_NO_NUMBER, run.without_number);
    }
    if (run.sorter != NULL) {
        gy_sort_tell(vertex, run.sorter);
    }
    gy_sorter_free(run.sorter);
    gy_arena_free(&arena);
    gy_free(run.code.bytes);
    return status;
}
