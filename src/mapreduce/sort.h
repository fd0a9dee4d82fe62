/**
 * Sorting of records: in memory, within ranges of mapped inputs, and by runs on disk that are
 * merged. Reading order: entries, sample, range, sorter, runs, merge, top.
 *
 * A record is represented by an *entry* of 16 bytes: the first 8 bytes of its key as a number,
 * and its position. The sort is stable.
 */
#ifndef GY_MAPREDUCE_SORT_H
#define GY_MAPREDUCE_SORT_H

#include "base/env.h"
#include "base/fail.h"

#include <string.h>

/* ---- records ---- */

typedef enum gy_sort_layout_kind {
    GY_LAYOUT_FIXED, /* records of record_bytes each; a shorter last one is an error */
    /* records that end with '\n' (takes_cr: or "\r\n"), which the last one may lack */
    GY_LAYOUT_LINES,
    GY_LAYOUT_FRAMED, /* varint of the key's size, varint of the value's, key, value */
} gy_sort_layout_kind;

typedef enum gy_key_kind {
    GY_KEY_BYTES,   /* as memcmp; a prefix comes before longer keys */
    GY_KEY_INT64,   /* 8 bytes in host byte order */
    GY_KEY_FLOAT64, /* the same; -0 before 0, NaN beyond the infinity of its sign */
} gy_key_kind;

/** The format of a record, and which part of it is the key. */
typedef struct gy_sort_layout {
    gy_sort_layout_kind kind;
    gy_key_kind key;
    size_t record_bytes; /* FIXED: > 0 */
    size_t key_offset;   /* FIXED and LINES: bytes before the key */
    size_t key_bytes;    /* FIXED: > 0, 8 if typed; LINES: an upper bound, 0: none */
    bool has_values;     /* FRAMED: equal keys are ordered by value (secondary sort) */
    /* LINES: a '\r' before the '\n', or at the end, does not belong to the line */
    bool takes_cr;
} gy_sort_layout;

/** GY_ARG when the fields of a layout contradict each other. */
GY_MUST_CHECK gy_status gy_sort_layout_check(const gy_sort_layout *layout);

/** A record's parts, borrowed from its memory. */
typedef struct gy_sort_item {
    const char *data, *key, *value; /* value: FRAMED */
    size_t size_bytes, key_bytes, value_bytes;
} gy_sort_item;

/** Bytes in memory. */
typedef struct gy_sort_span {
    const char *data;
    size_t size_bytes;
} gy_sort_span;

/** Records in memory: spans of whole records, in the order of the input. */
typedef struct gy_sort_records {
    const gy_sort_layout *layout;
    const gy_sort_span *spans;
    size_t span_count;
} gy_sort_records;

enum { GY_POSITION_BITS = 40, GY_VARINT_BYTES = 10 };
#define GY_POSITION_MASK ((UINT64_C(1) << GY_POSITION_BITS) - 1)
#define GY_SPANS_MAX     ((size_t)1 << (64 - GY_POSITION_BITS))

/** An element of the sort. */
typedef struct gy_entry {
    uint64_t prefix;   /* 8 bytes of the key as a big-endian number */
    uint64_t position; /* span << GY_POSITION_BITS | offset: ascends with the input */
} gy_entry;

static inline uint64_t gy_sort_position(size_t span, size_t offset)
{
    return (uint64_t)span << GY_POSITION_BITS | offset;
}

/** Up to 8 bytes as a number with the same order; missing bytes count as zero. */
static inline uint64_t gy_sort_word(const char *data, size_t size_bytes)
{
    uint64_t word = 0;
    if (size_bytes >= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        return __builtin_bswap64(word);
    }
    for (size_t i = 0; i < size_bytes; i++) {
        word |= (uint64_t)(unsigned char)data[i] << (56 - 8 * i);
    }
    return word;
}

/** A typed key's 8 bytes as an unsigned number with the type's order. */
static inline uint64_t gy_typed_word(gy_key_kind kind, const char *data)
{
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t bits = 0;
    memcpy(&bits, data, sizeof(bits));
    return kind == GY_KEY_FLOAT64 && (bits & sign) != 0 ? ~bits : bits ^ sign;
}

/** The first word of a key. */
static inline uint64_t gy_sort_key_word(gy_key_kind kind, const char *data, size_t size_bytes)
{
    return kind == GY_KEY_BYTES ? gy_sort_word(data, size_bytes) : gy_typed_word(kind, data);
}

/** Encode `value` as varint, 7 bits a byte, low bits first; returns the bytes written (1 to
 * 10). */
static inline size_t gy_sort_varint_put(char *to, uint64_t value)
{
    size_t size = 0;
    for (; value >= 128; value >>= 7) {
        to[size++] = (char)(value | 128);
    }
    to[size++] = (char)value;
    return size;
}

/** Decode a varint; NULL when it is truncated or over 64 bits, else the position after it. */
static inline const char *gy_sort_varint_get(const char *from, const char *end, uint64_t *value)
{
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && from < end; shift += 7) {
        const uint64_t byte = (unsigned char)*from++;
        if (shift == 63 && byte > 1) {
            return NULL;
        }
        result |= (byte & 127) << shift;
        if (byte < 128) {
            *value = result;
            return from;
        }
    }
    return NULL;
}

/** Decode the record at `at`, which must be below `end`; false when it is truncated or
 * malformed. */
static inline bool gy_sort_item_read(const gy_sort_layout *layout, const char *at,
                                     const char *end, gy_sort_item *item)
{
    const size_t left = (size_t)(end - at);
    item->data = at;
    if (layout->kind == GY_LAYOUT_FRAMED) {
        uint64_t key = 0, value = 0;
        const char *body = gy_sort_varint_get(at, end, &key);
        body = body == NULL ? NULL : gy_sort_varint_get(body, end, &value);
        if (body == NULL || key > (size_t)(end - body) || value > (size_t)(end - body) - key) {
            return false;
        }
        *item =
            (gy_sort_item){at, body, body + key, (size_t)(body - at) + key + value, key, value};
        return layout->key == GY_KEY_BYTES || key == sizeof(uint64_t);
    }
    if (layout->kind == GY_LAYOUT_FIXED) {
        item->size_bytes = layout->record_bytes;
        item->key = at + layout->key_offset;
        item->key_bytes = layout->key_bytes;
        return left >= layout->record_bytes;
    }
    const char *newline = memchr(at, '\n', left);
    const size_t whole = newline == NULL ? left : (size_t)(newline - at);
    const size_t text = whole - (layout->takes_cr && whole > 0 && at[whole - 1] == '\r');
    const size_t offset = layout->key_offset < text ? layout->key_offset : text;
    const size_t rest = text - offset;
    item->size_bytes = whole + (newline != NULL);
    item->key = at + offset;
    item->key_bytes =
        layout->key_bytes != 0 && layout->key_bytes < rest ? layout->key_bytes : rest;
    return true;
}

/** The record at a position that was decoded successfully before. */
static inline gy_sort_item gy_sort_item_at(const gy_sort_records *records, uint64_t position)
{
    const gy_sort_span *span = &records->spans[position >> GY_POSITION_BITS];
    gy_sort_item item = {0};
    const bool is_whole =
        gy_sort_item_read(records->layout, span->data + (position & GY_POSITION_MASK),
                          span->data + span->size_bytes, &item);
    GY_ASSERT(is_whole);
    return item;
}

/** At most `most` bytes of a key from byte `depth` on; the key has at least `depth` bytes. Does
 * not read further into a line, because a sort that goes word by word must not search for the
 * ends of long lines. */
static inline gy_sort_span gy_sort_key_head(const gy_sort_records *records, uint64_t position,
                                            size_t depth, size_t most)
{
    const gy_sort_layout *layout = records->layout;
    if (layout->kind != GY_LAYOUT_LINES || depth == 0) {
        const gy_sort_item item = gy_sort_item_at(records, position);
        const size_t left = item.key_bytes > depth ? item.key_bytes - depth : 0;
        return (gy_sort_span){item.key + (left > 0 ? depth : 0), left < most ? left : most};
    }
    const gy_sort_span *span = &records->spans[position >> GY_POSITION_BITS];
    const size_t at = (size_t)(position & GY_POSITION_MASK) + layout->key_offset + depth;
    size_t left = span->size_bytes - at;
    if (layout->key_bytes != 0 && layout->key_bytes - depth < left) {
        left = layout->key_bytes - depth;
    }
    left = left < most ? left : most;
    const char *newline = left == 0 ? NULL : memchr(span->data + at, '\n', left);
    size_t size = newline == NULL ? left : (size_t)(newline - span->data) - at;
    if (layout->takes_cr && size > 0 && span->data[at + size - 1] == '\r' &&
        (at + size == span->size_bytes || span->data[at + size] == '\n')) {
        size--;
    }
    return (gy_sort_span){span->data + at, size};
}

/** For a line of `*size_bytes` including its end: returns whether its last byte is not '\n', in
 * which case the caller must add one after the *size_bytes that it returns. */
static inline bool gy_sort_line_trim(const gy_sort_layout *layout, const char *line,
                                     size_t *size_bytes)
{
    const bool has_end = line[*size_bytes - 1] == '\n';
    const size_t whole = *size_bytes - has_end;
    const bool has_cr = layout->takes_cr && whole > 0 && line[whole - 1] == '\r';
    if (has_end && !has_cr) {
        return false;
    }
    *size_bytes = whole - has_cr;
    return true;
}

/** Order of two byte strings, as memcmp, then the shorter first. */
static inline int gy_sort_bytes_compare(const char *a, size_t a_bytes, const char *b,
                                        size_t b_bytes)
{
    const size_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = shared == 0 ? 0 : memcmp(a, b, shared);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/** Compare two records by key. */
static inline int gy_sort_key_compare(gy_key_kind kind, const gy_sort_item *a,
                                      const gy_sort_item *b)
{
    if (kind != GY_KEY_BYTES) {
        const uint64_t first = gy_typed_word(kind, a->key),
                       second = gy_typed_word(kind, b->key);
        return (first > second) - (first < second);
    }
    return gy_sort_bytes_compare(a->key, a->key_bytes, b->key, b->key_bytes);
}

/** Compare two records by key, then by value where the layout asks for it. */
static inline int gy_sort_item_compare(const gy_sort_layout *layout, const gy_sort_item *a,
                                       const gy_sort_item *b)
{
    const int order = gy_sort_key_compare(layout->key, a, b);
    if (order != 0 || !layout->has_values) {
        return order;
    }
    return gy_sort_bytes_compare(a->value, a->value_bytes, b->value, b->value_bytes);
}

/* ---- entries ---- */

/**
 * Sort entries by their records, stably: radix by `prefix`, which is the key's word at byte
 * `depth` where all keys agree before, then by what follows. Prefixes are changed where they
 * were equal.
 *
 * @param scratch  room for `count` entries
 * @threads any
 * @cost 2 passes over cache-sized parts for random keys; a key of n bytes that all records
 * share costs n/8 passes. No memory.
 * @source McIlroy, Bostic, McIlroy: Engineering radix sort, 1993; Kärkkäinen, Rantala:
 * Engineering radix sort for strings, 2008 (words of the key kept beside the pointer)
 */
void gy_mapreduce_entries_sort(const gy_sort_records *records, gy_entry *entries,
                               gy_entry *scratch, size_t count, size_t depth);

/** The same by the prefixes alone. */
void gy_mapreduce_entries_sort_words(gy_entry *entries, gy_entry *scratch, size_t count);

/* ---- samples and splitters ---- */

/** Check records. GY_OK; GY_ARG the layout; GY_FORMAT a fixed record is truncated; GY_LIMIT too
 * many or too large spans. FIXED or LINES. */
GY_MUST_CHECK gy_status gy_sort_records_check(const gy_sort_records *records);

/** A position in the order of (key, position); the key is borrowed from the records. */
typedef struct gy_sort_bound {
    const char *key;
    size_t key_bytes;
    uint64_t position;
} gy_sort_bound;

/** Records drawn from the input, in order. */
typedef struct gy_mapreduce_sample {
    gy_sort_bound *bounds;
    size_t count;
    /* number of records in the input: exact for FIXED, else estimated from the sample */
    uint64_t records;
} gy_mapreduce_sample;

enum { GY_SAMPLE_MOST = 16384 };

/**
 * Draw one record from each of up to GY_SAMPLE_MOST equal stretches of the input. The same
 * records and seed give the same sample.
 *
 * @param records  FIXED or LINES; must outlive the sample
 * @return GY_OK; what gy_sort_records_check returns; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_mapreduce_sample_take(const gy_sort_records *records, uint64_t seed,
                                                 gy_mapreduce_sample *sample);
void gy_mapreduce_sample_free(gy_mapreduce_sample *sample);

/**
 * Divide the order into `parts` with about equally many records: a pure function of the
 * sample.
 *
 * @param keeps_keys  all records of a key stay in one part, as a reduce needs them; otherwise a
 *     frequent key is split by position
 * @param bounds      becomes parts - 1 bounds, ascending; equal ones make empty parts
 */
void gy_mapreduce_sample_split(const gy_mapreduce_sample *sample, gy_key_kind kind,
                               size_t parts, bool keeps_keys, gy_sort_bound *bounds);

/** Order of two bounds: by key, then by position. */
int gy_sort_bound_compare(gy_key_kind kind, const gy_sort_bound *a, const gy_sort_bound *b);

/** The index of the first bound of the sample that is not less than `bound`. */
size_t gy_mapreduce_sample_find(const gy_mapreduce_sample *sample, gy_key_kind kind,
                                const gy_sort_bound *bound);

/* ---- output ---- */

/** Takes bytes in order without a copy: the sort gets room, fills it, and commits it. */
typedef struct gy_sort_sink {
    /* Get room for at least size_bytes; valid until the next call of wrote. */
    gy_status (*room)(void *arg, size_t size_bytes, void **room);
    gy_status (*wrote)(void *arg, size_t size_bytes);
    void *arg;
} gy_sort_sink;

/* ---- ranges of inputs in memory ---- */

/** Records r with low <= r < high; NULL: unbounded. */
typedef struct gy_sort_range_of {
    const gy_sort_bound *low, *high;
} gy_sort_range_of;

typedef struct gy_range_options {
    size_t memory_bytes; /* for all allocations of this call; 0: enough for all records */
    const gy_mapreduce_sample *sample;
} gy_range_options;

enum { GY_RANGE_MEMORY_BYTES_MIN = 4 << 20 };

/** What a sort did. */
typedef struct gy_range_report {
    uint64_t records, bytes; /* written to the output */
    uint64_t scans;          /* number of scans over the whole input */
} gy_range_report;

/**
 * Write the records of a range in order: scan the input for as many entries as memory holds,
 * sort and gather them, and repeat for the rest. Only the output is written to disk. A key
 * with more records than memory holds is written by a scan of its own.
 *
 * @param records  FIXED or LINES, in memory or mapped; a last line gets its '\n'
 * @return GY_OK; GY_ARG the layout, memory below GY_RANGE_MEMORY_BYTES_MIN; GY_NOMEM; what the
 *     sink returns
 * @threads any; several ranges of one input may be sorted at once
 * @cost 16 bytes of memory a record in the range; a scan reads every key of the input
 */
GY_MUST_CHECK gy_status gy_sort_range(const gy_sort_records *records,
                                      const gy_sort_range_of *range,
                                      const gy_range_options *options, const gy_sort_sink *sink,
                                      gy_range_report *report);

/* ---- scans or runs ---- */

/** Facts about the inputs of a sort and the machine. */
typedef struct gy_sort_facts {
    uint64_t input_bytes;
    uint64_t cached_bytes; /* bytes of the inputs that are in the page cache now */
    uint64_t free_bytes;   /* bytes by which the page cache may grow */
} gy_sort_facts;

/** Whether the page cache keeps the inputs, so that random reads of records are cheap. Pure. */
bool gy_sort_is_kept(const gy_sort_facts *facts);

/** Ask the operating system. Where it gives no answer, the inputs count as cached. */
gy_sort_facts gy_sort_facts_get(const gy_sort_records *records);

/* ---- runs: sorted records on disk ---- */

/** An unnamed file of framed records: written once, then read once. Not thread-safe. */
typedef struct gy_sort_run gy_sort_run;

/**
 * Create a run in `folder`. Its name is removed before this returns, so that a crash leaves no
 * file.
 *
 * @param buffer  of buffer_bytes > 0, borrowed until gy_sort_run_seal
 * @return GY_OK; GY_NOTFOUND no such folder; GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_sort_run_new(gy_env *env, const char *folder, char *buffer,
                                        size_t buffer_bytes, gy_sort_run **run);
GY_MUST_CHECK gy_status gy_sort_run_add(gy_sort_run *run, const void *data, size_t size_bytes);
/** End writing. */
GY_MUST_CHECK gy_status gy_sort_run_seal(gy_sort_run *run);
/** Begin reading with a buffer that is borrowed until the run is freed. */
void gy_sort_run_read(gy_sort_run *run, char *buffer, size_t buffer_bytes);
/** A gy_sort_fill: the next bytes. GY_IO when at the end the checksum of the bytes read differs
 * from that of the bytes written. */
GY_MUST_CHECK gy_status gy_sort_run_fill(void *run, const void **data, size_t *size_bytes);
/** Free a run. NULL is fine. */
void gy_sort_run_free(gy_sort_run *run);

/* ---- merging ---- */

/** Get the next chunk of a source, valid until the next call; empty at the end, also when
 * called again. */
typedef gy_status (*gy_sort_fill)(void *arg, const void **data, size_t *size_bytes);

typedef struct gy_merge_source {
    gy_sort_fill fill;
    void *arg;
} gy_merge_source;

/** Merges framed records of several sorted sources by a tree of losers. Not thread-safe. */
typedef struct gy_merge gy_merge;

/**
 * @param layout   FRAMED; copied
 * @param sources  copied; records may cross a source's chunks
 * @return GY_OK; GY_NOMEM; GY_FORMAT; what a source returns
 * @cost log2(count) comparisons of words a record
 * @source Knuth, The Art of Computer Programming 3, 5.4.1
 */
GY_MUST_CHECK gy_status gy_merge_new(const gy_sort_layout *layout,
                                     const gy_merge_source *sources, size_t count,
                                     gy_merge **merge);
/**
 * Get the next record in order, equal ones in the order of the sources; `*has` is false at the
 * end. Valid until the next call.
 *
 * @return GY_OK; GY_FORMAT a record is truncated or malformed; GY_NOMEM; what a source returns
 */
GY_MUST_CHECK gy_status gy_merge_next(gy_merge *merge, gy_sort_item *item, bool *has);
/** Free the merge, but no source. NULL is fine. */
void gy_merge_free(gy_merge *merge);

/* ---- external sort ---- */

/** Takes records and returns them in order; writes runs to disk when memory is full. Not
 * thread-safe. */
typedef struct gy_sorter gy_sorter;

typedef struct gy_sorter_options {
    size_t memory_bytes; /* total memory of the sorter; at least GY_SORTER_MEMORY_BYTES_MIN */
    const char *scratch; /* folder of the runs; copied */
    gy_key_kind key;
    /* order equal keys by value; otherwise they stay in the order of addition */
    bool has_values;
} gy_sorter_options;

enum { GY_SORTER_MEMORY_BYTES_MIN = 64 << 10 };

/** Statistics of a sorter. */
typedef struct gy_sorter_report {
    uint64_t records, bytes;  /* added records; their size when framed */
    uint64_t runs, run_bytes; /* runs written, including those of merges */
    uint64_t merges;          /* merges of runs into longer ones */
} gy_sorter_report;

/** Make a sorter. GY_ARG memory below the minimum; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_sorter_new(gy_env *env, const gy_sorter_options *options,
                                      gy_sorter **sorter);
/**
 * Add records: copies key and value of each.
 *
 * @return GY_OK; GY_LIMIT a record is larger than the memory; GY_ARG a typed key without 8
 *     bytes; GY_IO, GY_NOTFOUND of a run; after a failure only gy_sorter_free may be called
 */
GY_MUST_CHECK gy_status gy_sorter_add(gy_sorter *sorter, const gy_sort_item *items,
                                      size_t count);
/** End adding. */
GY_MUST_CHECK gy_status gy_sorter_end(gy_sorter *sorter);
/** Get the next record in order; `*has` is false at the end. Valid until the next call. */
GY_MUST_CHECK gy_status gy_sorter_next(gy_sorter *sorter, gy_sort_item *item, bool *has);
void gy_sorter_report_get(const gy_sorter *sorter, gy_sorter_report *report);
/** Free a sorter. NULL is fine. */
void gy_sorter_free(gy_sorter *sorter);

/* ---- groups of one key ---- */

/** gy_sorter_next or gy_merge_next. */
typedef gy_status (*gy_sort_next)(void *arg, gy_sort_item *item, bool *has);

/** Keys and their values over sorted records. Begin with gy_sort_groups_init. */
typedef struct gy_sort_groups {
    gy_sort_next next;
    void *arg;
    gy_sort_item item; /* read, but not returned yet */
    bool has, is_first, is_given;
    char *key; /* copy of the group's key */
    size_t key_bytes, key_capacity;
} gy_sort_groups;

void gy_sort_groups_init(gy_sort_groups *groups, gy_sort_next next, void *arg);
/** Get the next key, valid until the next call; skips values of the previous key that were not
 * read. */
GY_MUST_CHECK gy_status gy_sort_groups_next(gy_sort_groups *groups, gy_sort_span *key,
                                            bool *has);
/** Get the key's next value, valid until the next call. */
GY_MUST_CHECK gy_status gy_sort_groups_value(gy_sort_groups *groups, gy_sort_span *value,
                                             bool *has);
void gy_sort_groups_fini(gy_sort_groups *groups);

/** gy_merge_next and gy_sorter_next as gy_sort_next. */
GY_MUST_CHECK gy_status gy_sort_next_merged(void *merge, gy_sort_item *item, bool *has);
GY_MUST_CHECK gy_status gy_sort_next_sorted(void *sorter, gy_sort_item *item, bool *has);

#endif
