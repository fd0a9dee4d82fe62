/**
 * Rows: how a table travels from map to reduce and to spill files and back.
 *
 * A row is the hash (8 bytes, little endian), the key's size (varint), then the number (zigzag,
 * varint) or the list's size (varint), the key, the list. Rows rise by (hash, key). A list may
 * take several rows, one after the other.
 *
 * A list is values one behind the other: bytes with their size in front (varint); numbers
 * (zigzag, varint); of a set, in each row, the first number so, then differences (varint).
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

/** Copy 16 bytes at once: up to GY_COPY_SLACK bytes behind both may be touched. */
static inline void gy_copy_loosely(char *to, const char *from, size_t size)
{
    for (size_t i = 0; i < size; i += GY_COPY_SLACK) {
        char piece[GY_COPY_SLACK];
        memcpy(piece, from + i, GY_COPY_SLACK);
        memcpy(to + i, piece, GY_COPY_SLACK);
    }
}

/* ---- out ---- */

/** Where bytes go, in order. */
typedef struct gy_sink {
    gy_status (*write)(void *arg, const void *data, size_t size_bytes);
    void *arg;
} gy_sink;

/** Bytes gathered on their way to a sink. Zero but for sink and capacity at first. */
typedef struct gy_outlet {
    gy_sink sink;
    size_t capacity; /* of the buffer, made at the first byte */
    char *buffer;
    size_t used;
    uint64_t flushed; /* to the sink */
} gy_outlet;

/** What gy_outlet_room does when there is none. */
GY_MUST_CHECK gy_status gy_outlet_make_room(gy_outlet *outlet, size_t size_bytes);

/** Room for size_bytes, to be filled from outlet->buffer + outlet->used on. GY_NOMEM; the
 * sink's. */
GY_MUST_CHECK static inline gy_status gy_outlet_room(gy_outlet *outlet, size_t size_bytes)
{
    return outlet->buffer != NULL && outlet->capacity - outlet->used >= size_bytes
               ? GY_OK
               : gy_outlet_make_room(outlet, size_bytes);
}

GY_MUST_CHECK gy_status gy_outlet_add(gy_outlet *outlet, const void *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_outlet_flush(gy_outlet *outlet);
void gy_outlet_free(gy_outlet *outlet);

/** The row's key has GY_COPY_SLACK bytes behind it, as in a table's arena and in groups. */
GY_MUST_CHECK gy_status gy_row_put(gy_outlet *outlet, const gy_row *row, bool is_list);

/* ---- in ---- */

/** Where rows come from: the next bytes, at least one; size 0: the end. They stay until the
 * next call. */
typedef struct gy_byte_source {
    gy_status (*more)(void *arg, const char **data, size_t *size_bytes);
    void *arg;
    const char *name; /* for messages; borrowed */
} gy_byte_source;

typedef struct gy_mapreduce_rows gy_mapreduce_rows;

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_rows_new(gy_byte_source source, bool is_list,
                                              gy_mapreduce_rows **rows);
void gy_mapreduce_rows_free(gy_mapreduce_rows *rows);
/** The next row, valid until the next call, with GY_COPY_SLACK bytes behind its key. GY_FORMAT:
 * what no table wrote; the source's. */
GY_MUST_CHECK gy_status gy_mapreduce_rows_next(gy_mapreduce_rows *rows, gy_row *row,
                                               bool *has_row);

/* ---- several tables as one ---- */

typedef struct gy_groups gy_groups;

/** Takes the `count` rows, also on a failure. GY_NOMEM; as gy_mapreduce_rows_next. */
GY_MUST_CHECK gy_status gy_groups_new(gy_mapreduce_rows **rows, size_t count,
                                      gy_mapreduce_fold fold, gy_join_numbers join,
                                      gy_groups **groups);
void gy_groups_free(gy_groups *groups);
/**
 * The next key, by (hash, key), valid until the next call; of numbers with the number of all
 * rows of it; NULL: none is left. What was left of the last key's list is skipped.
 */
GY_MUST_CHECK gy_status gy_groups_next(gy_groups *groups, const gy_row **row);
/** The next piece of the key's list: first the pieces of the first rows; `list` NULL: none. */
GY_MUST_CHECK gy_status gy_groups_list(gy_groups *groups, const char **list, size_t *size);

/** Values of a piece of a list, one after the other. */
typedef struct gy_piece {
    const char *at, *end;
    int64_t last; /* of a set */
    bool has_last;
} gy_piece;

/** The next value of a piece, bytes or number by fold. GY_AGAIN: none is left; GY_FORMAT */
GY_MUST_CHECK gy_status gy_piece_next(gy_piece *piece, gy_mapreduce_fold fold, gy_item *value);

#endif
