/**
 * Operators over sequences of frames, by the index of a column: aggregate, join, sort, limit,
 * distinct, sets; partitions of frames, and frames as bytes. Reading order: keys, bytes, spill,
 * states, groups, aggregate, join, order, merge, simple, sets, partition.
 *
 * Each operator takes its sources (also when it fails) and gives one; nothing is read before
 * the first call of its `next`. It borrows nothing of its options but `counts`, `engine`, and
 * the arg of a condition, which must outlive the source. Schemas are borrowed for the call;
 * what is given in `schema` is held once by the caller. A source is for one thread at a time,
 * two sources for two.
 *
 * Order of rows, the same whatever the memory, so that equal input gives equal bytes:
 * - aggregate, distinct, sets: by the hash of the keys (gy_rows_hash), then by the keys, so
 *   that outputs of hash partitions, one behind the other, are the output over all rows;
 * - join: as the side that is not built, of each row its matches as the built side; then rows
 *   of the built side that have none;
 * - sort: by the keys, equal ones as they came;
 * - all others: as they came.
 */
#ifndef GY_QUERY_ROWS_H
#define GY_QUERY_ROWS_H

#include "base/env.h"
#include "frame/frame.h"
#include "query/functions/functions.h"

#include <gyre/engine.h>

/** What an operator did so far. Zero at first; several operators may add to one. */
typedef struct gy_rows_counts {
    int64_t rows_in, rows_out;
    uint64_t bytes_in;      /* of frames, as gy_rows_bytes counts them */
    uint64_t spilled_bytes; /* written to files */
    int64_t spills;         /* how often memory was full */
    int64_t rows_passed;    /* by an aggregate that made states of rows one by one */
    int64_t time_ns;        /* within the operator, its sources left out */
} gy_rows_counts;

/** Bounds of an operator. NULL, or zero: none. */
typedef struct gy_rows_limits {
    uint64_t memory_bytes;    /* of rows that it keeps; 0: no bound, it never spills */
    const char *spill_folder; /* needed with memory_bytes; files there have no name */
    gy_env *env;              /* whose disk; NULL: the real one */
    gy_rows_counts *counts;   /* NULL: nobody counts */
    gy_engine *engine;        /* whose workers take part in large work; NULL: none */
    /* Of one column's text that a join keeps in one frame: with more the join spills where it
     * has a spill_folder; 0: 2^31 - 1, what a frame takes. */
    uint64_t text_bytes;
} gy_rows_limits;

enum {
    GY_ROWS_FRAME = 16384,                /* most rows of a frame that an operator makes */
    GY_ROWS_MEMORY_BYTES_MIN = 256 << 10, /* a smaller bound counts as this one */
};

/* ---- aggregate ---- */

/** Kinds of aggregates: name, number, text. */
#define GY_ROWS_AGGREGATE_LIST(X)                                                              \
    X(COUNT_STAR, 1, "count(*)")                                                               \
    X(COUNT, 2, "count")                                                                       \
    X(SUM, 3, "sum")                                                                           \
    X(AVG, 4, "avg")                                                                           \
    X(MIN, 5, "min")                                                                           \
    X(MAX, 6, "max")                                                                           \
    X(ANY, 7, "any")                                                                           \
    X(BOOL_AND, 8, "bool_and")                                                                 \
    X(BOOL_OR, 9, "bool_or")                                                                   \
    X(OWN, 10, "a function of the program")

typedef enum gy_rows_aggregate_kind {
#define GY_X(name, value, text) GY_ROWS_##name = (value),
    GY_ROWS_AGGREGATE_LIST(GY_X)
#undef GY_X
} gy_rows_aggregate_kind;

/**
 * One aggregate. Nulls are left out (but of count(*)); without a value the answer is null, of a
 * count 0. Types of answers:
 * - count(*), count: int64;
 * - sum: of int64 decimal(38, 0), of decimal(p, s) decimal(38, s), of double double, exact
 *   within 108 bits below its largest value, whatever the order. Past 38 digits or a double's
 *   range: GY_LIMIT;
 * - avg: of int64 and decimal(p, s) decimal(38, max(s, 16)), half away from zero; of double
 *   double;
 * - min, max, any: the column's. NaN is above all numbers, -0 just below 0; text by bytes;
 *   false below true. any is the first value;
 * - bool_and, bool_or: bool;
 * - own: what the program's function declares, of columns of its types. A failure is GY_ARG.
 */
typedef struct gy_rows_aggregate_of {
    gy_rows_aggregate_kind kind;
    int column;       /* in MERGE and FINAL: the first column of its state */
    gy_field field;   /* MERGE and FINAL: the column as it was before PARTIAL; else unused */
    bool is_distinct; /* each value once; WHOLE alone */
    bool has_filter;  /* rows alone whose bool column `filter` is true; WHOLE and PARTIAL */
    int filter;
    const char *name; /* of the answer's column, "" for NULL; borrowed for the call */
    const gy_query_function *own;             /* of OWN; borrowed */
    int more[GY_FUNCTION_PARAMETERS_MAX - 1]; /* its arguments behind `column`; of one that
                                                 is_distinct there are none */
} gy_rows_aggregate_of;

/** What goes in and comes out. States are columns behind the keys: gy_rows_states says which.
 * The keys are the first columns of what comes out, in the order of `keys`. */
typedef enum gy_rows_phase {
    GY_ROWS_WHOLE,   /* rows to answers */
    GY_ROWS_PARTIAL, /* rows to states */
    GY_ROWS_MERGE,   /* states to states */
    GY_ROWS_FINAL,   /* states to answers */
} gy_rows_phase;

enum { GY_ROWS_MEASURED = 64 << 10 };
#define GY_ROWS_GROUPS_MOST 0.8

typedef struct gy_rows_aggregate_options {
    const int *keys; /* null is one value; none: one group, that is there without rows, too */
    int key_count;
    const gy_rows_aggregate_of *aggregates;
    int aggregate_count;
    gy_rows_phase phase;
    /* PARTIAL and MERGE: when memory is full, its groups are given and it begins anew, so that
     * a group may come several times (and nothing is spilled). */
    bool is_passing;
    /* PARTIAL with is_passing: where so many rows, a first time and later again, have over
     * GY_ROWS_GROUPS_MOST groups a row, those behind them become a state each, in their order;
     * 0: GY_ROWS_MEASURED */
    int64_t measured_rows;
    bool needs_rows; /* without keys and rows: no group */
    gy_rows_limits limits;
} gy_rows_aggregate_options;

/** Columns of the state of an aggregate of a column (of count(*): of any). @threads any */
int gy_rows_state_columns(const gy_rows_aggregate_of *aggregate, const gy_field *field);

/**
 * Aggregate rows by keys.
 *
 * @return GY_OK; GY_ARG no such column; GY_TYPE an aggregate of a column of another type;
 * GY_UNSUPPORTED is_distinct in another phase; GY_NOMEM. `next` gives what the source gives,
 * GY_LIMIT a sum past its type; GY_IO a spill file; GY_NOMEM
 * @cost a row: about 15 ns where groups fit the cache, else two misses; a group: its key and
 * state, and 16 bytes
 */
GY_MUST_CHECK gy_status gy_rows_aggregate(gy_frame_source in, gy_schema *in_schema,
                                          const gy_rows_aggregate_options *options,
                                          gy_frame_source *out, gy_schema **schema);

/** Each distinct row once; null equals null. */
GY_MUST_CHECK gy_status gy_rows_unique(gy_frame_source in, gy_schema *in_schema,
                                       const gy_rows_limits *limits, gy_frame_source *out,
                                       gy_schema **schema);

/* ---- join ---- */

/** Kinds of joins: name, number, text. */
#define GY_ROWS_JOIN_LIST(X)                                                                   \
    X(INNER, 1, "inner")                                                                       \
    X(LEFT, 2, "left")                                                                         \
    X(RIGHT, 3, "right")                                                                       \
    X(FULL, 4, "full")                                                                         \
    X(SEMI, 5, "semi")                                                                         \
    X(ANTI, 6, "anti")                                                                         \
    X(NOT_IN, 7, "not in")

typedef enum gy_rows_join_kind {
#define GY_X(name, value, text) GY_ROWS_JOIN_##name = (value),
    GY_ROWS_JOIN_LIST(GY_X)
#undef GY_X
} gy_rows_join_kind;

/**
 * Whether pairs of rows join, beyond their equal keys. `pairs` has the columns of the left
 * side, then those of the right one. Gives a frame of one bool column, of which null is false,
 * held once by the caller.
 */
typedef gy_status (*gy_rows_keep)(void *arg, const gy_frame *pairs, gy_frame **mask);

typedef struct gy_rows_match_options {
    gy_rows_join_kind kind;
    const int *left_keys, *right_keys; /* (key_count) of equal types; null equals nothing */
    int key_count;                     /* 0: all pairs. NOT_IN: 1 */
    /* SEMI: rows of the left side that join; ANTI: that do not; NOT_IN: so that `left not in
     * (right)` is true: none if a right key is null, all without right rows. Their columns are
     * the left side's alone. */
    bool builds_left;  /* the side that is kept in memory; else the right one */
    gy_rows_keep keep; /* NULL: none. Not with NOT_IN */
    void *keep_arg;
    const int
        *columns; /* what comes out, of the left columns, then the right ones; NULL: all */
    int column_count;
    gy_rows_limits limits;
} gy_rows_match_options;

/** A side of a join. */
typedef struct gy_rows_side {
    gy_frame_source source;
    gy_schema *schema; /* borrowed for the call */
} gy_rows_side;

/**
 * Join two sides.
 *
 * @return GY_OK; GY_ARG no such column; GY_TYPE keys of two types; GY_NOMEM. `next` gives what
 * sources and `keep` give; GY_LIMIT what is kept of a side at once has over 2^31 rows, or,
 * without a spill_folder, over 2 GiB of text in a column; GY_IO a spill file; GY_NOMEM
 * @cost builds a hash table of one side; over the memory both sides are partitioned into a
 * file and read once more, and the output is ordered through another; a key whose rows do not
 * fit is joined block by block
 */
GY_MUST_CHECK gy_status gy_rows_match(gy_rows_side left, gy_rows_side right,
                                      const gy_rows_match_options *options,
                                      gy_frame_source *out, gy_schema **schema);

/* ---- order ---- */

/** A column that rows are ordered by. */
typedef struct gy_rows_sort_key {
    int column;
    bool is_descending;
    bool nulls_first; /* SQL's default: is_descending */
} gy_rows_sort_key;

typedef struct gy_rows_sort_options {
    const gy_rows_sort_key *keys;
    int key_count;
    int64_t limit; /* so many first rows; -1: all */
    gy_rows_limits limits;
} gy_rows_sort_options;

/**
 * Sort, stably.
 * @return GY_OK; GY_ARG no such column; GY_NOMEM. `next` as the source; GY_IO; GY_NOMEM
 * @cost radix passes over 16 bytes a row, and a gather; with a limit it keeps about twice as
 * many rows
 */
GY_MUST_CHECK gy_status gy_rows_sort(gy_frame_source in, gy_schema *in_schema,
                                     const gy_rows_sort_options *options, gy_frame_source *out,
                                     gy_schema **schema);

/**
 * Merge sources that are each in the order of the keys; of equal rows those of the first
 * sources come first. Takes the sources.
 */
GY_MUST_CHECK gy_status gy_rows_merge(const gy_frame_source *sources, int count,
                                      gy_schema *in_schema, const gy_rows_sort_options *options,
                                      gy_frame_source *out, gy_schema **schema);

/** Leave out `offset` rows, then give at most `count` (-1: all); then read no more. Both >= 0
 * but for that -1. */
GY_MUST_CHECK gy_status gy_rows_slice(gy_frame_source in, gy_schema *in_schema, int64_t offset,
                                      int64_t count, gy_frame_source *out, gy_schema **schema);

/* ---- sets ---- */

/** The rows of all sides, one behind the other; names are those of the first one. GY_TYPE
 * columns of other types. */
GY_MUST_CHECK gy_status gy_rows_chain(const gy_rows_side *sides, int count,
                                      gy_frame_source *out, gy_schema **schema);

typedef enum gy_rows_set_kind {
    GY_ROWS_INTERSECT,
    GY_ROWS_INTERSECT_ALL, /* a row as often as on the side where it is rarer */
    GY_ROWS_EXCEPT,
    GY_ROWS_EXCEPT_ALL, /* a row as much more often as it is on the left side */
} gy_rows_set_kind;

/** Intersect, or leave out the rows of the right side; null equals null. GY_TYPE as above. */
GY_MUST_CHECK gy_status gy_rows_set(gy_rows_side left, gy_rows_side right,
                                    gy_rows_set_kind kind, const gy_rows_limits *limits,
                                    gy_frame_source *out, gy_schema **schema);

/* ---- partitions ---- */

/** Hashes of the values of columns in each row, the same in all processes; -0 is 0, all NaN are
 * one. `hashes`: (rows). Columns of two frames must have equal types for equal hashes. */
void gy_rows_hash(const gy_frame *frame, const int *columns, int count, uint64_t *hashes);

/**
 * Divide rows by the hash of keys: part p has the hashes in [p, p + 1) * 2^64 / parts, in the
 * order of the frame.
 * @param out (parts) each held once by the caller
 * @return GY_OK; GY_NOMEM, and none is held
 */
GY_MUST_CHECK gy_status gy_rows_partition_hash(const gy_frame *frame, const int *keys,
                                               int key_count, int parts, gy_frame **out);

/** Keys with too large a share of rows for one part, by their hashes. */
typedef struct gy_rows_hot {
    uint64_t *hashes; /* (count) ascending; gy_free */
    size_t count;
    bool is_copied; /* their rows go to each part; else to one part after the other */
    uint64_t next;  /* the part of the next one: counted on by each call */
} gy_rows_hot;

/** gy_rows_partition_hash, but for rows whose keys are hot. */
GY_MUST_CHECK gy_status gy_rows_partition_hot(const gy_frame *frame, const int *keys,
                                              int key_count, int parts, gy_rows_hot *hot,
                                              gy_frame **out);

/**
 * The keys of a sample that have more than half a fair share, so one in 2 `parts`, of its
 * weight. Keys with fewer than 8 rows are left to chance.
 * @param weights (rows of the sample) how many rows each stands for
 * @param hot     takes hashes and count, at most 2 parts
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rows_find_hot(const gy_frame *sample, const int *keys, int key_count,
                                         const int64_t *weights, int parts, gy_rows_hot *hot);

/**
 * Divide rows by ranges of keys: part p has the rows from bound p - 1 on and below bound p, so
 * that equal keys are in one part.
 * @param bounds (parts - 1) rows, ascending: columns are the key columns in the order of `keys`
 */
GY_MUST_CHECK gy_status gy_rows_partition_range(const gy_frame *frame,
                                                const gy_rows_sort_key *keys, int key_count,
                                                const gy_frame *bounds, gy_frame **out);

/** A sample of the keys of many frames: of equal chance for each row, and the same for the same
 * rows and seed. */
typedef struct gy_rows_sampler gy_rows_sampler;

GY_MUST_CHECK gy_status gy_rows_sampler_new(gy_schema *schema, const gy_rows_sort_key *keys,
                                            int key_count, int rows_max, uint64_t seed,
                                            gy_rows_sampler **sampler);
void gy_rows_sampler_free(gy_rows_sampler *sampler);
GY_MUST_CHECK gy_status gy_rows_sampler_add(gy_rows_sampler *sampler, const gy_frame *frame);
/** The sample: key columns, at most rows_max rows; held once by the caller. */
GY_MUST_CHECK gy_status gy_rows_sampler_take(gy_rows_sampler *sampler, gy_frame **sample);

/** Bounds of `parts` ranges of about equally many rows of a sample of key columns (several
 * samples: gy_rows_concat), ordered as `keys` says, whose columns count in the sample. At most
 * parts - 1 rows: equal bounds are left out, so that there may be fewer parts.
 * @param weights (rows of the sample) how many rows each stands for, > 0; NULL: equally many */
GY_MUST_CHECK gy_status gy_rows_bounds(const gy_frame *sample, const int64_t *weights,
                                       const gy_rows_sort_key *keys, int key_count, int parts,
                                       gy_frame **bounds);

/* ---- frames ---- */

/** Bytes of the values of a frame. @cost O(columns) */
uint64_t gy_rows_bytes(const gy_frame *frame);

/** Rows of a frame by index, in that order; an index of -1 gives nulls. Held once by the
 * caller. GY_LIMIT a column's text would be over 2 GiB */
GY_MUST_CHECK gy_status gy_rows_gather(const gy_frame *frame, const int32_t *rows,
                                       int64_t count, gy_frame **gathered);

/** The rows of frames of equal types, one behind the other; names of `schema`. */
GY_MUST_CHECK gy_status gy_rows_concat(gy_schema *schema, gy_frame *const *frames, size_t count,
                                       gy_frame **all);

/** A source of frames that lie in memory, which it holds. */
GY_MUST_CHECK gy_status gy_rows_source(gy_frame *const *frames, size_t count,
                                       gy_frame_source *out);

/** Frames in a file without a name, given again in the order in which they came. */
typedef struct gy_rows_file gy_rows_file;

/** A file in the folder of the limits. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_file_new(gy_schema *schema, const gy_rows_limits *limits,
                                         gy_rows_file **file);
void gy_rows_file_free(gy_rows_file *file);
/** Write a frame of the schema behind the others. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_file_add(gy_rows_file *file, const gy_frame *frame);
/** What was written, as a source that takes the file. */
gy_frame_source gy_rows_file_source(gy_rows_file *file);
/** The same from the beginning, any number of times: the file outlives the source. Sources of
 * one file are for one thread. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_file_again(gy_rows_file *file, gy_frame_source *source);

/* ---- frames as bytes ---- */

/** Bytes that grow. Zero at first. */
typedef struct gy_rows_buffer {
    char *data;
    size_t size_bytes, capacity;
} gy_rows_buffer;

enum { GY_ROWS_HEAD_BYTES = 32 };

/**
 * Append a frame as bytes: head (magic, columns, rows, length, checksum), then of each column
 * its nulls and its values, integers as the difference to the smallest in 0, 1, 2, 4 or 8
 * bytes. Little-endian. Names are not written.
 * @return GY_OK; GY_NOMEM, and the buffer is as before
 */
GY_MUST_CHECK gy_status gy_rows_bytes_write(const gy_frame *frame, gy_rows_buffer *buffer);

/**
 * Read a frame of `schema` from the first of `size_bytes` bytes, of which it takes *used.
 * @return GY_OK, the frame held once by the caller; GY_AGAIN there are too few bytes: *used
 * is how many are needed at least; GY_FORMAT they are no frame of this schema; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rows_bytes_read(gy_schema *schema, const char *data,
                                           size_t size_bytes, size_t *used, gy_frame **frame);

#endif
