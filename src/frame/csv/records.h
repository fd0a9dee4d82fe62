/** Rows of CSV as texts, for rooms that make records of them; <gyre/csv.h> says what a row is.
 */
#ifndef GY_FRAME_CSV_RECORDS_H
#define GY_FRAME_CSV_RECORDS_H

#include "base/base.h"
#include "store/store.h"

#include <gyre/engine.h>
#include <gyre/frame.h>

/** Takes a row: its bytes with their quotes, without the line end; borrowed for the call. A
 * failure ends the visit. */
typedef gy_status (*gy_csv_record_visit)(void *arg, gy_text_view row, uint64_t offset);

/** How rows are visited. */
typedef struct gy_csv_records {
    const char *name;     /* of the file, for messages; borrowed */
    char delimiter;       /* ASCII, neither a quote nor a line end */
    size_t row_bytes_max; /* a longer row is refused; 0: 2^30 */
    gy_csv_record_visit visit;
    void *arg;
} gy_csv_records;

/** GY_ARG: not ASCII, a quote or a line end. */
GY_MUST_CHECK gy_status gy_csv_check_delimiter(char c);

/**
 * Visit the rows of a file in memory that begin in [begin, end), in order. Each has as many
 * fields as the file's first row.
 *
 * @param begin  0, or where a row begins (gy_csv_records_begins)
 * @return GY_OK; GY_FORMAT, GY_LIMIT with name and line; GY_NOMEM; what `visit` returned
 * @threads any
 * @cost one copy of the bytes, a MiB at a time, and one pass over them
 */
GY_MUST_CHECK gy_status gy_csv_records_of(const gy_csv_records *records, gy_text_view file,
                                          uint64_t begin, uint64_t end);
/** Visit the rows of a source, which is taken. Failures also those of reading it. */
GY_MUST_CHECK gy_status gy_csv_records_from(const gy_csv_records *records, gy_source *source);

/**
 * Move offsets to where rows begin: each to the first row of its cut, a cut being so many
 * bytes; behind the last row to the file's size. One pass over a file that is not compressed.
 *
 * @param cut_bytes  a power of two from 64 to 2^30
 * @param engine     looks at cuts in parallel; NULL: serial
 * @param offsets    (count) ascending ones stay ascending
 * @return GY_OK; GY_FORMAT a quote that is not closed; GY_NOTFOUND, GY_IO, GY_STATE the file
 *     changed meanwhile; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_csv_records_begins(const char *path, size_t cut_bytes,
                                              gy_engine *engine, uint64_t *offsets,
                                              size_t count);

#endif
