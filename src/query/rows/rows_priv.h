/** Private to query/rows: columns that are filled, keys, spill files, groups, and the base of
 * operators. */
#ifndef GY_QUERY_ROWS_ROWS_PRIV_H
#define GY_QUERY_ROWS_ROWS_PRIV_H

#include "base/base.h"
#include "base/env.h"
#include "query/rows/operators.h"

#include <string.h>

/* ---- columns that are filled (frames.c) ---- */

/** Makers for all columns of a schema; NULL: out of memory. */
GY_MUST_CHECK gy_frame_maker *gy_rows_makers_new(const gy_schema *schema);
void gy_rows_makers_free(gy_frame_maker *makers, int count);

/** Append rows of a column to a maker of its kind; has_missing: a row may be -1, a null. */
GY_MUST_CHECK gy_status gy_rows_append(gy_frame_maker *maker, const gy_column *column,
                                       const int32_t *rows, int64_t count, bool has_missing);
/** Append the rows [begin, begin + count). */
GY_MUST_CHECK gy_status gy_rows_append_range(gy_frame_maker *maker, const gy_column *column,
                                             int64_t begin, int64_t count);
/** Append one int64 `count` times, or nulls. */
GY_MUST_CHECK gy_status gy_rows_append_int64(gy_frame_maker *maker, int64_t value,
                                             int64_t count);

/** A schema of some of the fields of two: columns[i] counts through both; NULL: all. */
GY_MUST_CHECK gy_status gy_rows_schema_of(const gy_schema *left, const gy_schema *right,
                                          const int *columns, int count, gy_schema **schema);
/** `schema` and an int64 column behind it. */
GY_MUST_CHECK gy_status gy_rows_schema_tagged(const gy_schema *schema, gy_schema **tagged);

/** gy_rows_concat by the workers of an engine, a column each; NULL: alone. */
GY_MUST_CHECK gy_status gy_rows_concat_by(gy_engine *engine, gy_schema *schema,
                                          gy_frame *const *frames, size_t count,
                                          gy_frame **all);

/** Whether the columns are there; `what` names them in the message. GY_ARG */
GY_MUST_CHECK gy_status gy_rows_check_columns(const gy_schema *schema, const int *columns,
                                              int count, const char *what);
/** GY_TYPE when a field of one side has another type. */
GY_MUST_CHECK gy_status gy_rows_check_same(const gy_field *a, const gy_field *b);

/* ---- keys (keys.c) ---- */

/** The mix of a word: every bit depends on all of them. */
static inline uint64_t gy_rows_mix(uint64_t word)
{
    word ^= word >> 32;
    word *= UINT64_C(0xd6e8feb86659fd93);
    word ^= word >> 32;
    word *= UINT64_C(0xd6e8feb86659fd93);
    word ^= word >> 32;
    return word;
}

/** Key columns of a frame from row `begin` on, `count` rows. */
void gy_rows_hash_range(const gy_frame *frame, const int *columns, int column_count,
                        int64_t begin, int64_t count, uint64_t *hashes);

/**
 * How keys lie in a record: words (8 bytes), first those with a bit for each column that is
 * null, then a word a column; decimals have two, and a text two: its size and first 4 bytes,
 * and the other up to 8 bytes or a pointer to all of it.
 */
typedef struct gy_rows_key_layout {
    int column_count, words;
    int *columns;         /* (column_count) of the frames */
    gy_field_kind *kinds; /* (column_count) */
    int *offsets;         /* (column_count) in words */
    bool has_text;
} gy_rows_key_layout;

GY_MUST_CHECK gy_status gy_rows_key_layout_init(gy_rows_key_layout *layout,
                                                const gy_schema *schema, const int *columns,
                                                int count);
void gy_rows_key_layout_fini(gy_rows_key_layout *layout);

/** Write the keys of rows of a frame: keys + i * stride words. Texts point into the frame. */
void gy_rows_keys_write(const gy_rows_key_layout *layout, const gy_frame *frame, int64_t begin,
                        int64_t count, uint64_t *keys, size_t stride);

/** Whether two keys are equal; texts are read where they lie. */
bool gy_rows_keys_equal_texts(const gy_rows_key_layout *layout, const uint64_t *a,
                              const uint64_t *b);
static inline bool gy_rows_keys_equal(const gy_rows_key_layout *layout, const uint64_t *a,
                                      const uint64_t *b)
{
    if (layout->has_text) {
        return gy_rows_keys_equal_texts(layout, a, b);
    }
    uint64_t differs = 0;
    for (int i = 0; i < layout->words; i++) {
        differs |= a[i] ^ b[i];
    }
    return differs == 0;
}

/** Three ways: the order of two keys with one hash; any, but the same everywhere. */
int gy_rows_keys_compare(const gy_rows_key_layout *layout, const uint64_t *a,
                         const uint64_t *b);

enum { GY_ROWS_TEXT_INLINE = 12 };

/** A text as two words. */
static inline void gy_rows_text_put(uint64_t *words, const char *data, size_t size)
{
    uint32_t head[4] = {(uint32_t)size, 0, 0, 0};
    if (size <= GY_ROWS_TEXT_INLINE) {
        if (size > 0) {
            memcpy(head + 1, data, size);
        }
        memcpy(words, head, sizeof(head));
        return;
    }
    memcpy(head + 1, data, 4);
    memcpy(words, head, 8);
    memcpy(words + 1, &data, sizeof(data));
}

static inline gy_text_view gy_rows_text_get(const uint64_t *words)
{
    uint32_t size;
    memcpy(&size, words, sizeof(size));
    gy_text_view view = {(const char *)words + 4, size};
    if (size > GY_ROWS_TEXT_INLINE) {
        memcpy(&view.data, words + 1, sizeof(view.data));
    }
    return view;
}

/** Append a word of a value (as in a key) to a maker that has room for a row. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_value_append(gy_frame_maker *maker, const uint64_t *word);
/** What stands in a row that is not null, as the words of a key. */
void gy_rows_value_write(const gy_column *column, int64_t row, uint64_t *to);
/** Append a key column of `count` keys to a maker. */
GY_MUST_CHECK gy_status gy_rows_keys_append(const gy_rows_key_layout *layout, int column,
                                            const uint64_t *const *keys, int64_t count,
                                            gy_frame_maker *maker);

/* ---- memory of texts (groups.c) ---- */

/** Memory that grows and is freed at once. Zero at first. */
typedef struct gy_rows_heap {
    char **chunks;
    size_t count, capacity;
    char *at;
    size_t left;
    uint64_t bytes;
} gy_rows_heap;

/** NULL: out of memory. */
GY_MUST_CHECK char *gy_rows_heap_take(gy_rows_heap *heap, size_t size_bytes);
void gy_rows_heap_free(gy_rows_heap *heap);

/** Put texts into the heap: a key whose texts lie elsewhere. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_text_keep(gy_rows_heap *heap, uint64_t *words);

/* ---- states of aggregates (states.c) ---- */

/** An aggregate with the place of its state in a record. */
typedef struct gy_rows_state {
    gy_rows_aggregate_of of;
    gy_field field;    /* of its column; of count(*): bool */
    int offset, words; /* in the record */
    int column_count;  /* of its state */
} gy_rows_state;

/** Resolve an aggregate of a column. GY_TYPE */
GY_MUST_CHECK gy_status gy_rows_state_init(gy_rows_state *state, const gy_rows_aggregate_of *of,
                                           const gy_field *field);
/** The field of its answer. */
gy_field gy_rows_state_answer(const gy_rows_state *state);
/** The field of column `i` of its state. */
gy_field gy_rows_state_field(const gy_rows_state *state, int i);

/** Rows of a frame and the records of their groups. */
typedef struct gy_rows_batch {
    const gy_frame *frame;
    int64_t begin, count;
    uint64_t *const *records; /* (count) */
    gy_rows_heap *heap;
} gy_rows_batch;

enum { GY_ROWS_BATCH = 1024 }; /* most rows of a batch */

/** Add rows to their groups. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_state_add(const gy_rows_state *state,
                                          const gy_rows_batch *batch);
/** Merge states, columns from of.column on, into groups. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_state_merge(const gy_rows_state *state,
                                            const gy_rows_batch *batch);
/** Append states of groups to makers (column_count), or answers to one. GY_NOMEM; GY_LIMIT */
GY_MUST_CHECK gy_status gy_rows_state_emit(const gy_rows_state *state,
                                           const uint64_t *const *records, int64_t count,
                                           bool is_final, gy_frame_maker *makers);

/* ---- groups (groups.c) ---- */

/** Records by key: hash, key, states, in words. */
typedef struct gy_rows_groups gy_rows_groups;

/** `state_words`: zero for a new group. The layout must outlive it. */
GY_MUST_CHECK gy_status gy_rows_groups_new(const gy_rows_key_layout *layout, int state_words,
                                           gy_rows_groups **groups);
void gy_rows_groups_free(gy_rows_groups *groups);
/** Find or make the groups of up to GY_ROWS_BATCH rows, whose keys lie as `from` says: as the
 * layout, but in other columns. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_groups_find(gy_rows_groups *groups,
                                            const gy_rows_key_layout *from,
                                            const gy_frame *frame, int64_t begin, int64_t count,
                                            uint64_t **records);
int64_t gy_rows_groups_count(const gy_rows_groups *groups);
/** Memory, with that of their order. */
uint64_t gy_rows_groups_bytes(const gy_rows_groups *groups);
gy_rows_heap *gy_rows_groups_heap(gy_rows_groups *groups);
/** Bring them into the order of hash and key; none may be added until they are cleared. */
GY_MUST_CHECK gy_status gy_rows_groups_order(gy_rows_groups *groups);
/** The records [begin, begin + count) of that order. */
void gy_rows_groups_get(const gy_rows_groups *groups, int64_t begin, int64_t count,
                        const uint64_t **records);
void gy_rows_groups_clear(gy_rows_groups *groups);

/** An aggregation with distinct aggregates (distinct.c); takes `in`. */
GY_MUST_CHECK gy_status gy_rows_aggregate_distinct(gy_frame_source in, gy_schema *in_schema,
                                                   const gy_rows_aggregate_options *options,
                                                   gy_frame_source *out, gy_schema **schema);

/* ---- normalised keys (order_keys.c) ---- */

/** Keys of rows as bytes whose order by memcmp is that of the rows. Zero at first. */
typedef struct gy_rows_order_keys {
    char *bytes;
    uint64_t *starts; /* (rows + 1) */
    size_t capacity, start_capacity;
    int64_t rows;
} gy_rows_order_keys;

/** Encode the keys of all rows of a frame. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_order_encode(const gy_frame *frame,
                                             const gy_rows_sort_key *keys, int key_count,
                                             gy_rows_order_keys *out);
void gy_rows_order_keys_free(gy_rows_order_keys *keys);

/* A value as a word that ascends with it. */
static inline uint64_t gy_rows_order_int64(int64_t value)
{
    return (uint64_t)value ^ UINT64_C(1) << 63;
}

static inline uint64_t gy_rows_order_double(double value)
{
    if (value != value) {
        return UINT64_MAX;
    }
    uint64_t bits;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof(bits));
    return (bits >> 63) != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

/** Sort the rows of a frame: `order` (rows) becomes their indices. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_order(const gy_frame *frame, const gy_rows_sort_key *keys,
                                      int key_count, int32_t *order);

/** The same by the workers of an engine, NULL: alone; few rows are sorted here (partition.c).
 */
GY_MUST_CHECK gy_status gy_rows_order_of(gy_engine *engine, const gy_frame *frame,
                                         const gy_rows_sort_key *keys, int key_count,
                                         int32_t *order);

/* ---- spill files (spill.c) ---- */

enum { GY_ROWS_SPILL_FRAME = 2048 }; /* most rows of a frame in a spill file */

/** A file without a name that takes frames, and gives them again. */
typedef struct gy_rows_spill gy_rows_spill;

/** A run of frames in a spill file. Zero at first. */
typedef struct gy_rows_run {
    uint64_t *offsets; /* (count) */
    size_t count, capacity;
    int64_t rows;
    uint64_t bytes; /* in memory */
} gy_rows_run;

GY_MUST_CHECK gy_status gy_rows_spill_new(const gy_rows_limits *limits, gy_rows_spill **spill);
void gy_rows_spill_free(gy_rows_spill *spill);
/** Write a frame behind a run. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_spill_add(gy_rows_spill *spill, gy_rows_run *run,
                                          const gy_frame *frame);
/** Read frame `index` of a run. GY_IO; GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_spill_get(gy_rows_spill *spill, gy_schema *schema,
                                          const gy_rows_run *run, size_t index,
                                          gy_frame **frame);
void gy_rows_run_free(gy_rows_run *run);
/** The frames of a run as a source; the spill, run and schema must outlive it. */
GY_MUST_CHECK gy_status gy_rows_run_source(gy_rows_spill *spill, gy_schema *schema,
                                           const gy_rows_run *run, gy_frame_source *out);

/* ---- runs that are merged (merge.c) ---- */

/** Runs in order, of one file. Zero at first. */
typedef struct gy_rows_runs {
    gy_rows_spill *spill;
    gy_rows_run *runs; /* (count) */
    size_t count, capacity;
} gy_rows_runs;

void gy_rows_runs_free(gy_rows_runs *runs);
/** Begin another run. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_runs_add(gy_rows_runs *runs, const gy_rows_limits *limits);
/** Merge all runs (at least one), through other files where there are too many for the memory;
 * of equal rows those of the first runs come first. Takes what is in `runs` on success. */
GY_MUST_CHECK gy_status gy_rows_runs_merge(gy_rows_runs *runs, gy_schema *schema,
                                           const gy_rows_sort_options *options,
                                           gy_frame_source *out);

/* ---- matching (match.c) ---- */

/** What a join is, in terms of the side that is built and the one that probes. */
typedef struct gy_rows_match_plan {
    gy_schema *built_schema, *probe_schema; /* tagged: an int64 column behind the others */
    gy_schema *out_schema;                  /* the same */
    gy_schema *pair_schema;                 /* of the condition: left and right columns */
    gy_rows_key_layout built_layout, probe_layout;
    bool builds_left, is_tagged;
    int left_count; /* columns, without the tag */
    int *columns;   /* (column_count) that come out, of the left side, then the right one */
    int column_count;
    bool gives_pairs;
    bool gives_probe_matched, gives_probe_unmatched; /* each once, with nulls beside it */
    bool gives_built_matched, gives_built_unmatched;
    bool marks_built; /* one of the last two */
    gy_rows_keep keep;
    void *keep_arg;
} gy_rows_match_plan;

/** What NOT IN must know of the right side. */
typedef struct gy_rows_not_in {
    bool has_rows, has_null;
} gy_rows_not_in;

/** Look at rows of the right side. */
void gy_rows_not_in_see(gy_rows_not_in *right, const gy_frame *frame, int key);

/** Build a table of rows, with the engine's workers (NULL: alone). Takes what is in the list,
 * also on failure. `right`: of NOT IN, else NULL; that and the plan must outlive it. GY_NOMEM;
 * GY_LIMIT */
GY_MUST_CHECK gy_status gy_rows_matcher_new(const gy_rows_match_plan *plan,
                                            gy_rows_not_in *right, gy_rows_list *built,
                                            gy_engine *engine, gy_rows_matcher **matcher);
/** The table has but a block of the rows. `known` has a bit for each probing row, whether one
 * of the blocks had a match. Probing rows stand alone in the last block. */
void gy_rows_matcher_blocks(gy_rows_matcher *it, uint8_t *known, bool is_last);
/** The next rows of the join; reads `probe` to its end. GY_DONE */
GY_MUST_CHECK gy_status gy_rows_matcher_next(gy_rows_matcher *matcher,
                                             const gy_frame_source *probe, gy_frame **frame);
/** Memory for so many rows of so many bytes. */
uint64_t gy_rows_matcher_bytes(const gy_rows_match_plan *plan, uint64_t bytes, int64_t rows);

#endif
