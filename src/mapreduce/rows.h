/**
 * Rows: the encoding of a table on its way from map to reduce and in spill files.
 *
 * A row is the hash (8 bytes, little-endian), the key's size (varint), then the number (zigzag,
 * varint) or the list's size (varint), the key, the list. Rows ascend by (hash, key). A list
 * may take several consecutive rows.
 *
 * A list is a concatenation of values: bytes with their size in front (varint); numbers
 * (zigzag, varint). A set has, in each row, the first number so and then differences (varint).
 *
 * @source varint and zigzag: Protocol Buffers, "Encoding"
 */
#ifndef GY_MAPREDUCE_ROWS_H
#define GY_MAPREDUCE_ROWS_H

#include "mapreduce/sort.h"
#include "mapreduce/table.h"

enum { GY_ROW_HEAD_BYTES = 8 + 2 * GY_VARINT_BYTES };

static inline uint64_t gy_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t gy_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

enum { GY_COPY_SLACK = 16 };

/** Copy in steps of 16 bytes: touches up to GY_COPY_SLACK bytes after both ranges. */
static inline void gy_copy_loosely(char *to, const char *from, size_t size)
{
    for (size_t i = 0; i < size; i += GY_COPY_SLACK) {
        char piece[GY_COPY_SLACK];
        memcpy(piece, from + i, GY_COPY_SLACK);
        memcpy(to + i, piece, GY_COPY_SLACK);
    }
}

/* ---- writing ---- */

/** Takes bytes in order. */
typedef struct gy_sink {
    gy_status (*write)(void *arg, const void *data, size_t size_bytes);
    void *arg;
} gy_sink;

/** A buffer in front of a sink. Zero at first, except for sink and capacity. */
typedef struct gy_outlet {
    gy_sink sink;
    size_t capacity; /* of the buffer, which is allocated at the first byte */
    char *buffer;
    size_t used;
    uint64_t flushed; /* bytes passed to the sink */
} gy_outlet;

/** The slow path of gy_outlet_room. */
GY_MUST_CHECK gy_status gy_outlet_make_room(gy_outlet *outlet, size_t size_bytes);

/** Make room for size_bytes, which the caller fills from outlet->buffer + outlet->used on.
 * GY_NOMEM; the sink's failures. */
GY_MUST_CHECK static inline gy_status gy_outlet_room(gy_outlet *outlet, size_t size_bytes)
{
    return outlet->buffer != NULL && outlet->capacity - outlet->used >= size_bytes
               ? GY_OK
               : gy_outlet_make_room(outlet, size_bytes);
}

GY_MUST_CHECK gy_status gy_outlet_add(gy_outlet *outlet, const void *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_outlet_flush(gy_outlet *outlet);
void gy_outlet_free(gy_outlet *outlet);

/** Append a row. Its key has GY_COPY_SLACK readable bytes after it, as in a table's arena and
 * in groups. */
GY_MUST_CHECK gy_status gy_row_put(gy_outlet *outlet, const gy_row *row, bool is_list);

/* ---- reading ---- */

/** A source of rows: returns the next chunk, at least one byte; size 0: the end. A chunk is
 * valid until the next call. */
typedef struct gy_byte_source {
    gy_status (*more)(void *arg, const char **data, size_t *size_bytes);
    void *arg;
    const char *name; /* for messages; borrowed */
} gy_byte_source;

typedef struct gy_mapreduce_rows gy_mapreduce_rows;

/** Make a reader. GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_rows_new(gy_byte_source source, bool is_list,
                                              gy_mapreduce_rows **rows);
void gy_mapreduce_rows_free(gy_mapreduce_rows *rows);
/** Read the next row, valid until the next call, with GY_COPY_SLACK readable bytes after its
 * key. GY_FORMAT: not written by a table; the source's failures. */
GY_MUST_CHECK gy_status gy_mapreduce_rows_next(gy_mapreduce_rows *rows, gy_row *row,
                                               bool *has_row);

/* ---- several tables merged ---- */

typedef struct gy_groups gy_groups;

/** Takes the `count` rows, also on a failure. GY_NOMEM; as gy_mapreduce_rows_next. */
GY_MUST_CHECK gy_status gy_groups_new(gy_mapreduce_rows **rows, size_t count,
                                      gy_mapreduce_fold fold, gy_join_numbers join,
                                      gy_groups **groups);
void gy_groups_free(gy_groups *groups);
/**
 * Get the next key, by (hash, key), valid until the next call; with a number, the fold of all
 * its rows; NULL: the end. Skips the rest of the previous key's list.
 */
GY_MUST_CHECK gy_status gy_groups_next(gy_groups *groups, const gy_row **row);
/** Get the next segment of the key's list, those of the first rows first; `list` NULL: the
 * end. */
GY_MUST_CHECK gy_status gy_groups_list(gy_groups *groups, const char **list, size_t *size);

/** Iterates over the values of a segment of a list. */
typedef struct gy_piece {
    const char *at, *end;
    int64_t last; /* of a set: the previous value */
    bool has_last;
} gy_piece;

/** Get the next value of a segment, bytes or number by fold. GY_AGAIN: the end; GY_FORMAT */
GY_MUST_CHECK gy_status gy_piece_next(gy_piece *piece, gy_mapreduce_fold fold, gy_item *value);

#endif
