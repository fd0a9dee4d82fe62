/**
 * CSV: comma-separated values (RFC 4180) read into frames, and frames written.
 *
 * Rows end with LF, CRLF or CR; fields are separated by a delimiter of one byte; a field in
 * double quotes may contain delimiters, line ends, and quotes that are doubled. A byte order
 * mark is skipped. An unquoted empty field is null, "" is the empty text. In a file of one
 * column an empty line is a null, else it is not a row. Bytes must be UTF-8 without NUL.
 * Nothing else is accepted: a row with another number of fields, a quote within an unquoted
 * field, bytes behind a closing quote, a quote that is not closed, a row over 1 GB end the
 * reading with GY_FORMAT (GY_LIMIT), file and line, whichever columns are read.
 *
 * A file is read in cuts: the bytes [k c, (k + 1) c), c a power of two; a row belongs to the
 * cut that it begins in. One frame a cut, in order (gy_csv_next), or any cut by any thread
 * (gy_csv_split, gy_csv_read_cut).
 *
 * Types. Unless `columns` says them, a column has the first of these types that fits its rows:
 * int64 (no leading zeros), decimal (18 digits in all), double, bool (true, false), date
 * (YYYY-MM-DD), timestamp (YYYY-MM-DD HH:MM[:SS[.FFFFFF]], offset to UTC), else text; one
 * without values is text. First the rows of a sample are looked at. When a later row does not
 * fit, or has the first value of its column, reading ends with GY_TYPE, file and line;
 * gy_csv_retype then finds the types over all rows, and reading begins again.
 *
 * @source RFC 4180
 */
#ifndef GYRE_CSV_H
#define GYRE_CSV_H

#include <gyre/engine.h>
#include <gyre/format.h>
#include <gyre/frame.h>
#include <gyre/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A CSV file that is open. */
typedef struct gy_csv gy_csv;

enum { GY_CSV_NULL_BYTES_MAX = 63 };

/** How a file is read. Zero: commas, a header, all columns, types found. */
typedef struct gy_csv_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    char delimiter;     /* ASCII, neither quote nor line end; 0: ',' */
    /* The first row is a row like the others; columns are column1, column2, ... unless
     * `columns` names them. Else it has the columns' names; an empty one is columnN. */
    bool has_no_header;
    /* Names and types of all columns, as gy_schema_parse reads them. Values are cast: a text
     * that is none of its type ends the reading with GY_FORMAT, value, file and line. */
    const char *columns;
    /* Names of the columns to read, in this order; only these are parsed. NULL: all. A name
     * that stands in the file twice is refused. */
    const char *const *used; /* (used_count) */
    int used_count;
    gy_encoding encoding; /* GY_ENCODING_AUTO: by the first bytes */
    size_t cut_bytes;     /* a power of two from 64 to 2^30; 0: 2^20 */
    size_t sample_bytes;  /* whose rows the types are guessed of; 0: 2^20 */
    bool is_part;         /* rows from the middle of a file: no byte order mark stands there */
    /* `columns` were found: a value that finding them would not have taken ends with GY_TYPE,
     * as where they are found here. */
    bool is_found;
    int64_t skip_lines;    /* before the header or the first row, whatever they are; their
                              double quotes are even in number */
    const char *null_text; /* a field of these bytes, without quotes, is null as an empty one
                              is: "NA"; copied; NULL or "": none. Up to GY_CSV_NULL_BYTES_MAX
                              bytes without a quote, delimiter or line end */
} gy_csv_options;

/**
 * Open a file or object (a path or a URI, <gyre/store.h>) and read its header and sample.
 *
 * @return GY_OK, caller owns; GY_ARG an option, a name in `used` that is not there or there
 * twice; GY_FORMAT, GY_LIMIT as above; GY_NOTFOUND, GY_IO, GY_STATE as gy_store_read; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_csv_open(const char *uri, const gy_csv_options *options,
                                           gy_csv **csv);
/** The same for bytes in memory, borrowed until the close; `name` stands for the file's. */
GY_API GY_MUST_CHECK gy_status gy_csv_open_memory(const void *data, size_t size_bytes,
                                                  const char *name,
                                                  const gy_csv_options *options, gy_csv **csv);
/** NULL is fine. */
GY_API void gy_csv_close(gy_csv *csv);

/** The schema of the frames: the columns that are read. Borrowed until gy_csv_retype. */
GY_API gy_schema *gy_csv_schema(const gy_csv *csv);
/** Whether a column that is read, from 0, has no value in any row that was looked at: it is
 * text until one comes. Never where types were given. */
GY_API bool gy_csv_is_empty(const gy_csv *csv, int column);

/**
 * Read the next cut that has rows. Not in one file from two threads.
 * @return GY_OK, held once by the caller; GY_DONE no rows are left; GY_TYPE a value does not
 * fit its guessed type; GY_FORMAT, GY_LIMIT, GY_STATE the file changed meanwhile, GY_IO;
 * GY_NOMEM
 * @cost one pass over the bytes; 64 bytes at a time with vector instructions (GYRE_ISA)
 */
GY_API GY_MUST_CHECK gy_status gy_csv_next(gy_csv *csv, gy_frame **frame);

/**
 * Find the types over all rows, and begin again at the first row. The reader has one schema
 * for all rows from now on: GY_TYPE does not come again.
 * @param engine looks at cuts in parallel; NULL: serial
 * @return GY_OK; failures as gy_csv_next
 */
GY_API GY_MUST_CHECK gy_status gy_csv_retype(gy_csv *csv, gy_engine *engine);

/**
 * Find where the rows of each cut begin: one pass over the bytes, in parallel.
 * @return GY_OK; GY_UNSUPPORTED a compressed file, which is read in order; GY_FORMAT a quote
 * that is not closed; else as gy_csv_next
 */
GY_API GY_MUST_CHECK gy_status gy_csv_split(gy_csv *csv, gy_engine *engine);
/** Cuts of a file that was split; 0 before. */
GY_API int64_t gy_csv_cut_count(const gy_csv *csv);
/** The first byte of the first row of a cut; that of cut count is the file's size. Where it is
 * that of the next cut, no row begins in it. `cut` in [0, count]. */
GY_API uint64_t gy_csv_cut_begin(const gy_csv *csv, int64_t cut);
/**
 * Read the rows of one cut; a cut may have none.
 * @return as gy_csv_next without GY_DONE
 * @threads any, several at once
 */
GY_API GY_MUST_CHECK gy_status gy_csv_read_cut(gy_csv *csv, int64_t cut, gy_frame **frame);

/**
 * Write where a row of a cut stands, "FILE:LINE", for messages.
 *
 * @param row    from 0, in the frame of gy_csv_read_cut
 * @param place  (size_bytes) a text with its NUL, cut where it is longer
 * @return GY_OK; GY_STATE there is no such row, so the file changed; failures of reading
 * @threads any
 * @cost reads the cut again, and counts the lines before it
 */
GY_API GY_MUST_CHECK gy_status gy_csv_row_place(gy_csv *csv, int64_t cut, int64_t row,
                                                char *place, size_t size_bytes);

/** The rest of the frames as a sequence, which takes `csv`: closing it closes the file. */
GY_API gy_frame_source gy_csv_source(gy_csv *csv);

/* ---- writing ---- */

typedef struct gy_csv_write_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    char delimiter;     /* as of gy_csv_options; 0: ',' */
    bool has_no_header; /* the columns' names are not written */
} gy_csv_write_options;

/**
 * Write a frame as CSV: LF behind each row, a field in quotes where it needs them. Nulls are
 * empty, empty texts "", so that gy_csv_open reads the same values.
 *
 * @param sink  takes the bytes in order
 * @return GY_OK; GY_ARG an option; GY_NOMEM; what `sink` returned
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_csv_write(const gy_frame *frame,
                                            const gy_csv_write_options *options,
                                            gy_store_sink sink, void *arg);
/** Write a sequence of frames to a file, whole or not at all; it is closed. A name that ends in
 * .gz or .zst compresses it. `options` and failures as above, and those of gy_save_file and of
 * the sequence; GY_UNSUPPORTED a name of another format that is no text (.xz, .parquet). */
GY_API GY_MUST_CHECK gy_status gy_csv_save(const char *path, gy_schema *schema,
                                           const gy_frame_source *source,
                                           const gy_csv_write_options *options);

/** Write a frame as lines of JSON, an object a row: {"id":7,"price":-0.05,"name":null}. Dates
 * and times are strings, and so are NaN and infinities. Failures as of gy_csv_write. */
GY_API GY_MUST_CHECK gy_status gy_json_write(const gy_frame *frame, gy_store_sink sink,
                                             void *arg);

#ifdef __cplusplus
}
#endif
#endif
