/** The parameter of a sort's vertices, and the sort by encoded keys. */
#ifndef GY_MAPREDUCE_SORT_TOLD_H
#define GY_MAPREDUCE_SORT_TOLD_H

#include "mapreduce/sort.h"

#include <gyre/sort.h>

/** How an item's key is encoded into the key that is sorted. */
typedef struct gy_sort_coding {
    bool is_on;         /* false: keys are sorted as the layout says */
    bool is_number;     /* by the decimal number that the key begins with */
    bool is_descending; /* the sort stays stable */
    char separator;     /* of fields; 0: spaces and tabs */
    bool is_strict;     /* a line without the field or the number is an error */
    int32_t field;      /* field of a line, from 1; 0: the whole key */
} gy_sort_coding;

/** A key as bytes that memcmp orders, and what the item lacks. */
typedef struct gy_sort_coded_key {
    char *bytes; /* (size) reallocated as needed; gy_free */
    size_t size, capacity;
    bool lacks_field, lacks_number; /* the code is then that of an empty key, or of 0 */
} gy_sort_coded_key;

/** The parameter of a vertex. Memo keys include its bytes, so it is zeroed before it is filled
 * in. After it come, for the sort, `input_count` numbers (uint32_t): the position of each
 * input among the sort's inputs; for an expander the path of its file or the URI of its
 * object, with its NUL. */
typedef struct gy_sort_told {
    gy_sort_layout layout;
    gy_sort_method method;
    gy_sort_coding coding;
    uint32_t input_count;
    bool is_expander;     /* the vertex writes the contents of a compressed file or an object */
    gy_encoding encoding; /* of the expander's input; PLAIN: copied unchanged */
    gy_line_end line_end; /* of the expander's input; a '\r' that ends a line becomes '\n' */
} gy_sort_told;

/* ---- coded.c ---- */

/**
 * Encode an item's key as bytes that memcmp orders, and store them in `code`.
 *
 * @return GY_OK; GY_NOMEM
 * @cost about 20 ns plus one or two passes over the key's bytes
 */
GY_MUST_CHECK gy_status gy_sort_code(const gy_sort_layout *layout, const gy_sort_coding *coding,
                                     const gy_sort_item *item, gy_sort_coded_key *code);

/** Write part `part` of `parts` of the records, in the order of their codes, with runs in the
 * vertex's scratch folder. */
GY_MUST_CHECK gy_status gy_sort_coded(gy_vertex *vertex, const gy_sort_records *records,
                                      const gy_sort_coding *coding);

/* ---- vertex.c ---- */

/** Write the sorter's records; each line ends with '\n'. */
GY_MUST_CHECK gy_status gy_sort_write(gy_vertex *vertex, gy_sorter *sorter,
                                      const gy_sort_layout *layout);
/** Make a sorter with the vertex's memory and scratch folder. */
GY_MUST_CHECK gy_status gy_sort_sorter(gy_vertex *vertex, gy_key_kind key, gy_sorter **sorter);
/** Report the sorter's statistics as counters. */
void gy_sort_tell(gy_vertex *vertex, const gy_sorter *sorter);

#endif
