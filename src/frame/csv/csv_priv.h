/**
 * Private to CSV: bytes of a file, separators in them, rows, fields, types, cuts.
 */
#ifndef GY_FRAME_CSV_CSV_PRIV_H
#define GY_FRAME_CSV_CSV_PRIV_H

#include "base/base.h"
#include "frame/csv/records.h"
#include "frame/frame.h"
#include "store/store.h"
#include "store/versions/stamp.h"
#include "topo/ways.h"

#include <gyre/csv.h>

#include <string.h>

enum {
    GY_CSV_PORTION_BYTES = 32 << 10, /* of text whose separators are found at once */
    GY_CSV_ROW_BYTES_MAX = 1 << 30,
    GY_CSV_EDGE_SLACK = 64,  /* edges behind the last that may be overwritten */
    GY_CSV_SLACK_BYTES = 64, /* readable bytes behind a window's; the first of them is NUL */
};

/* ---- separators (marks.c) ---- */

/** What was found in a text. */
typedef struct gy_csv_marks {
    size_t edges, row_ends; /* separators; those of them that end rows */
    size_t wrong;           /* the first quote that stands where none may, or the byte behind a
                               closing quote that may not; SIZE_MAX: none */
    bool is_inside;         /* the text ends within quotes */
    bool has_quotes, has_others; /* others: NUL, and bytes that are not ASCII */
} gy_csv_marks;

/**
 * Find the separators of a text that begins where a row does: the offsets of delimiters and row
 * ends outside of quotes, ascending. A row end is its LF, or a CR that no LF follows.
 *
 * @param next   the byte behind the text; '\n' when it is not known, so that a CR at the end
 *               ends nothing; NUL: the end of the file
 * @param edges  room for size_bytes + GY_CSV_EDGE_SLACK; size_bytes < 2^32
 * @threads any
 * @source Langdale, Lemire: "Parsing gigabytes of JSON per second", VLDB Journal 2019 (bit
 *     masks of blocks, the parity of quotes as a prefix sum)
 */
void gy_csv_find(gy_way way, char delimiter, gy_text_view text, char next, uint32_t *edges,
                 gy_csv_marks *marks);

/** What one pass finds of a cut, whatever state it begins in: [0] outside, [1] in quotes. */
typedef struct gy_csv_cut {
    uint64_t first[2]; /* offset behind the first row end, from the cut's begin; UINT64_MAX:
                          none */
    uint64_t row_ends[2];
    uint64_t last_quote; /* offset of the last quote; UINT64_MAX: none */
    bool ends_row[2];    /* the last byte ends a row */
    bool is_odd;         /* the number of quotes is */
    uint64_t begin;      /* in the file: of its first row (gy_csv_cuts_begin) */
} gy_csv_cut;

/** Look at a cut. `next` as above. @threads any */
void gy_csv_look(gy_way way, gy_text_view text, char next, gy_csv_cut *cut);

/** Line ends in a text: LF, and CR that no LF follows. */
uint64_t gy_csv_count_lines(gy_text_view text, char next);

/* ---- bytes (bytes.c) ---- */

/** A file, object or memory. */
typedef struct gy_csv_bytes {
    char *name;         /* for messages, and to open it */
    const char *memory; /* (size_bytes) borrowed; NULL: none */
    size_t memory_bytes;
    int file; /* -1: none */
    gy_stamp stamp;
    bool is_remote;
    char *version;     /* of an object */
    gy_source *stream; /* NULL: bytes are read at any offset */
    bool is_stream;
    uint64_t size_bytes; /* UINT64_MAX of a stream */
    gy_encoding encoding;
} gy_csv_bytes;

GY_MUST_CHECK gy_status gy_csv_bytes_open(const char *uri, gy_encoding encoding,
                                          gy_csv_bytes *bytes);
GY_MUST_CHECK gy_status gy_csv_bytes_open_memory(gy_text_view memory, const char *name,
                                                 gy_encoding encoding, gy_csv_bytes *bytes);
/** The bytes of a source, which is taken, as a stream that cannot begin again. */
GY_MUST_CHECK gy_status gy_csv_bytes_open_source(gy_source *source, const char *name,
                                                 gy_csv_bytes *bytes);
/** Of a stream: begin again. */
GY_MUST_CHECK gy_status gy_csv_bytes_rewind(gy_csv_bytes *bytes);
void gy_csv_bytes_close(gy_csv_bytes *bytes);

/** A part of the bytes in memory. Zero at first. */
typedef struct gy_csv_window {
    char *data; /* (size_bytes + GY_CSV_SLACK_BYTES) */
    size_t size_bytes, capacity;
    uint64_t offset; /* of data[0] in the file */
    bool is_end;     /* nothing follows */
    uint64_t lines;  /* of a stream: line ends before it */
} gy_csv_window;

/** Make the window at least so large, or reach the end. @threads any with windows of their own,
 * unless it is a stream */
GY_MUST_CHECK gy_status gy_csv_fill(gy_csv_bytes *bytes, gy_csv_window *window, size_t wanted);
/** Drop the first bytes. */
void gy_csv_skip(const gy_csv_bytes *bytes, gy_csv_window *window, size_t size_bytes);
void gy_csv_window_fini(gy_csv_window *window);
/** The number of the line, from 1, that a byte of the window stands in. */
GY_MUST_CHECK gy_status gy_csv_line(gy_csv_bytes *bytes, const gy_csv_window *window, size_t at,
                                    uint64_t *line);

/* ---- rows (rows.c) ---- */

/** Whole rows: row r has its field c at [edges[r n + c - 1] + 1, edges[r n + c]) of text, the
 * last without the CR of its end. */
typedef struct gy_csv_block {
    const char *text; /* (size_bytes), then GY_CSV_SLACK_BYTES */
    size_t size_bytes;
    const uint32_t *edges; /* edges[-1] is there */
    size_t rows, columns;
    bool has_quotes;
} gy_csv_block;

/** A field's bytes without its line end; quotes stand around it where it has some. */
static inline gy_text_view gy_csv_field(const gy_csv_block *block, size_t row, size_t column)
{
    const uint32_t *edge = block->edges + row * block->columns + column;
    const uint32_t begin = edge[-1] + 1;
    uint32_t end = edge[0];
    if (column + 1 == block->columns && end > begin && block->text[end - 1] == '\r' &&
        block->text[end] == '\n') {
        end--;
    }
    return (gy_text_view){block->text + begin, end - begin};
}

/** Takes blocks of rows. Returns the first row that it does not take; all: block->rows. On a
 * failure of its own `*status` is it. */
typedef size_t (*gy_csv_take)(void *arg, const gy_csv_block *block, gy_status *status);
/** Fails for the row that was not taken. `place` is "FILE:LINE". */
typedef gy_status (*gy_csv_refuse)(void *arg, const gy_csv_block *block, size_t row,
                                   const char *place);

typedef struct gy_csv_visitor {
    gy_csv_take take;
    gy_csv_refuse refuse;
    void *arg;
} gy_csv_visitor;

/** How rows are read. */
typedef struct gy_csv_rows {
    gy_csv_bytes *bytes;
    gy_way way;
    char delimiter;
    size_t columns;
    const char *source;   /* of the number of columns: "the header", ... */
    size_t row_bytes_max; /* at most GY_CSV_ROW_BYTES_MAX */
    bool is_part;         /* of a file, from its middle: no byte order mark stands there */
    int64_t skip_lines;   /* before the first row */
} gy_csv_rows;

/**
 * Visit all rows that begin in the window's file before `limit`; the window begins at a row,
 * and at the next one behind them when the call ends.
 * @return GY_OK; GY_FORMAT, GY_LIMIT with file and line; what the visitor fails with; failures
 * of reading
 */
GY_MUST_CHECK gy_status gy_csv_visit(const gy_csv_rows *rows, gy_csv_window *window,
                                     uint64_t limit, const gy_csv_visitor *visitor);

/** Whether an unquoted field is null. */
static inline bool gy_csv_is_null(gy_text_view field, gy_text_view null_text)
{
    return field.size_bytes == 0 ||
           (field.size_bytes == null_text.size_bytes &&
            memcmp(field.data, null_text.data, null_text.size_bytes) == 0);
}

/** "FILE:LINE" of a byte of the window. */
GY_MUST_CHECK gy_status gy_csv_place(gy_csv_bytes *bytes, const gy_csv_window *window,
                                     size_t at, gy_text *place);
/** Fail at a byte of the window: "FILE:LINE: what". */
gy_status gy_csv_fail(gy_csv_bytes *bytes, const gy_csv_window *window, size_t at,
                      gy_status failure, const char *what);

/** Fail at a quote where none may stand, or at a byte behind one. */
gy_status gy_csv_fail_quote(const gy_csv_rows *rows, const gy_csv_window *window, size_t at);
/** Fail for a text of the window that has a row's beginning and is too long. */
gy_status gy_csv_fail_long(const gy_csv_rows *rows, const gy_csv_window *window,
                           const gy_text_view *text);

/* ---- the first row (first.c) ---- */

/** The first row that is no empty line. */
typedef struct gy_csv_first {
    size_t at, end;  /* its bytes in the window, with its line end */
    uint32_t *edges; /* of its fields, behind one of its own; the caller frees it; NULL: none */
    size_t fields;   /* 0: the file has no row */
} gy_csv_first;

/**
 * Find it in the window, which is at the beginning of the bytes; moves the window behind a byte
 * order mark. `rows` needs no columns.
 * @return GY_OK; GY_FORMAT, GY_LIMIT with file and line; failures of reading
 */
GY_MUST_CHECK gy_status gy_csv_first_find(const gy_csv_rows *rows, gy_csv_window *window,
                                          gy_csv_first *first);

/* ---- fields (fields.c) ---- */

/** Columns that are parsed. */
typedef struct gy_csv_columns {
    const gy_schema *schema; /* of those */
    const int *indices;      /* (schema count) of the file's columns */
    gy_frame_reading how;
    /* (schema count) borrowed: had no values when types were found; NULL: none */
    const bool *is_empty;
    gy_text_view null_text; /* what is null beside the empty field; no bytes: nothing */
    gy_frame_maker *makers; /* (schema count) */
    gy_text scratch;        /* a field without its doubled quotes */
    int64_t rows;
    int failed; /* the column whose value did not fit */
} gy_csv_columns;

GY_MUST_CHECK gy_status gy_csv_columns_init(gy_csv_columns *columns, const gy_schema *schema,
                                            const int *indices, gy_frame_reading how);
void gy_csv_columns_fini(gy_csv_columns *columns);
gy_csv_visitor gy_csv_columns_visitor(gy_csv_columns *columns);

/** A field in quotes without them, doubled quotes single; `scratch` holds what has some. */
gy_text_view gy_csv_unquote(gy_text_view field, gy_text *scratch);

/* ---- types (types.c) ---- */

/** Which types fit all values of a column that were seen; zero: none was. */
typedef struct gy_csv_type {
    uint8_t refused; /* bit gy_field_kind: it does not fit */
    bool has_values;
    int whole_max, fraction_max; /* digits of the values that are decimals */
} gy_csv_type;

typedef struct gy_csv_types {
    gy_text_view null_text; /* as of gy_csv_columns */
    const int *indices;     /* (count) of the file's columns */
    int count;
    gy_csv_type *types; /* (count) */
    gy_text scratch;
} gy_csv_types;

gy_csv_visitor gy_csv_types_visitor(gy_csv_types *types);
/** What fits what fits both. */
void gy_csv_type_merge(gy_csv_type *into, const gy_csv_type *from);
/** The first type that fits. */
void gy_csv_type_choose(const gy_csv_type *type, gy_field *field);

/* ---- cuts (cuts.c) ---- */

/** Look at all cuts and find where their rows begin. `cuts` has room for count + 1. */
GY_MUST_CHECK gy_status gy_csv_cuts_find(gy_csv_bytes *bytes, gy_way way, size_t cut_bytes,
                                         gy_engine *engine, gy_csv_cut *cuts);

#endif
