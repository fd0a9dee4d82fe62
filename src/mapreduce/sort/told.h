/**
 * What the vertices of a sort are told, and the sort by keys that are not the bytes as they
 * stand.
 */
#ifndef GY_MAPREDUCE_SORT_TOLD_H
#define GY_MAPREDUCE_SORT_TOLD_H

#include "mapreduce/sort.h"

#include <gyre/sort.h>

/** How the key of an item becomes the one that is sorted by. */
typedef struct gy_sort_coding {
    bool is_on;         /* else keys are sorted as the layout says */
    bool is_number;     /* the decimal number that it begins with */
    bool is_descending; /* equal keys stay in the order of the input */
    char separator;     /* of fields; 0: spaces and tabs */
    bool is_strict;     /* a line without the field or the number is an error */
    int32_t field;      /* of a line, from 1; 0: the key as it is */
} gy_sort_coding;

/** A key as bytes that memcmp orders, and what the item lacks for it. */
typedef struct gy_sort_coded_key {
    char *bytes; /* (size) grown as needed; gy_free */
    size_t size, capacity;
    bool lacks_field, lacks_number; /* then it is that of an empty key, that of 0 */
} gy_sort_coded_key;

/** The parameter of a vertex; its bytes are part of what results are known by, so it is zeroed
 * before. Behind it: of the sort `input_count` numbers, uint32_t, which place among the sort's
 * inputs each of its own has; of an expander the path of its file, or the URI of its object,
 * with its NUL. */
typedef struct gy_sort_told {
    gy_sort_layout layout;
    gy_sort_method method;
    gy_sort_coding coding;
    uint32_t input_count;
    bool is_expander;     /* writes what a compressed file or an object holds */
    gy_encoding encoding; /* of which it is; PLAIN: taken as it stands */
    gy_line_end line_end; /* of that; '\r' that ends lines becomes '\n' */
} gy_sort_told;

/* ---- coded.c ---- */

/**
 * The key of an item as bytes that memcmp orders. Appends nothing: `code` takes the bytes.
 *
 * @return GY_OK; GY_NOMEM
 * @cost about 20 ns and the key's bytes, once or twice
 */
GY_MUST_CHECK gy_status gy_sort_code(const gy_sort_layout *layout, const gy_sort_coding *coding,
                                     const gy_sort_item *item, gy_sort_coded_key *code);

/** Write part `part` of `parts` of the records, in the order of their codes, by runs in the
 * vertex's scratch folder. */
GY_MUST_CHECK gy_status gy_sort_coded(gy_vertex *vertex, const gy_sort_records *records,
                                      const gy_sort_coding *coding);

/* ---- vertex.c ---- */

/** Write what the sorter gives; lines end by '\n'. */
GY_MUST_CHECK gy_status gy_sort_write(gy_vertex *vertex, gy_sorter *sorter,
                                      const gy_sort_layout *layout);
/** A sorter of the vertex's memory and scratch folder. */
GY_MUST_CHECK gy_status gy_sort_sorter(gy_vertex *vertex, gy_key_kind key, gy_sorter **sorter);
/** What the sorter did, as counters. */
void gy_sort_tell(gy_vertex *vertex, const gy_sorter *sorter);

#endif
