/**
 * Frames: rows in columns, with a schema, nulls, and the memory layout of Apache Arrow.
 *
 * A schema names columns and their types. A frame is a batch of rows of one schema: immutable,
 * counted, its columns shared, so that a slice of rows and a selection of columns copy nothing.
 * Frames without rows and frames without columns (which still count their rows) are ordinary.
 * In a program with threads a frame and a schema may be read, held and dropped by all of them.
 *
 * Layout of a column, whose row r (from 0) is element i = offset + r of its buffers:
 *   bool        values: bit i, the lowest of a byte first
 *   int64       values: int64_t
 *   double      values: double
 *   decimal     values: gy_int128, the number times 10^scale
 *   date        values: int32_t, days since 1970-01-01
 *   timestamp   values: int64_t, microseconds since 1970-01-01 00:00:00 UTC
 *   text        values: int32_t offsets into `text`: element i is [values[i], values[i + 1]);
 *               UTF-8, no NUL behind it
 *   nulls       valid: bit i is set where the row has a value; NULL: every row has one
 *
 * @source Apache Arrow, "Arrow Columnar Format" 1.0
 */
#ifndef GYRE_FRAME_H
#define GYRE_FRAME_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

__extension__ typedef __int128 gy_int128;

/** Types of columns: name, number, text in a list of columns. */
#define GY_FIELD_LIST(X)                                                                       \
    X(BOOL, 1, "bool")                                                                         \
    X(INT64, 2, "int64")                                                                       \
    X(DOUBLE, 3, "double")                                                                     \
    X(DECIMAL, 4, "decimal")                                                                   \
    X(DATE, 5, "date")                                                                         \
    X(TIMESTAMP, 6, "timestamp")                                                               \
    X(TEXT, 7, "text")

typedef enum gy_field_kind {
#define GY_X(name, value, text) GY_FIELD_##name = (value),
    GY_FIELD_LIST(GY_X)
#undef GY_X
} gy_field_kind;

enum { GY_DECIMAL_DIGITS_MAX = 38, GY_FRAME_COLUMNS_MAX = 65536 };

/** "int64"; static. */
GY_API const char *gy_field_kind_name(gy_field_kind kind);

/** A column's name and type. */
typedef struct gy_field {
    const char *name; /* UTF-8; may be empty, and two columns may share one */
    gy_field_kind kind;
    int precision; /* of decimal: its digits, 1 to 38; else 0 */
    int scale;     /* of decimal: the digits behind the point, 0 to precision; else 0 */
} gy_field;

/* ---- schemas ---- */

/** Names and types of columns; immutable and counted. */
typedef struct gy_schema gy_schema;

/**
 * Make a schema of `count` fields, which are copied.
 * @return GY_OK, held once by the caller; GY_ARG no such kind, precision or scale, a name that
 * is no UTF-8, too many columns; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_schema_new(const gy_field *fields, int count,
                                             gy_schema **schema);

/**
 * Make a schema of a text: names and types, separated by commas: "id int, price
 * decimal(12, 2), \"odd, name\" text". Types: bool, boolean, int, integer, int8, bigint, int64,
 * double [precision], float8, decimal or numeric (precision [, scale]), date, timestamp,
 * timestamptz, text, varchar. A name in double quotes is taken as it is, "" in it is a quote.
 *
 * @return GY_OK, held once by the caller; GY_ARG names the place and what was expected;
 * GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_schema_parse(const char *text, gy_schema **schema);

/** Hold once more; returns `schema`. */
GY_API gy_schema *gy_schema_hold(gy_schema *schema);
/** The last one frees it. NULL is fine. */
GY_API void gy_schema_drop(gy_schema *schema);

GY_API int gy_schema_count(const gy_schema *schema);
/** Borrowed from the schema; `index` in [0, count). */
GY_API const gy_field *gy_schema_field(const gy_schema *schema, int index);
/** The column of that name, by its bytes; -1: none; -2: several. @cost one pass over names */
GY_API int gy_schema_find(const gy_schema *schema, const char *name);
/** Write the schema as gy_schema_parse reads it; gy_string_free. GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_schema_text(const gy_schema *schema, char **text);

/* ---- frames ---- */

/** Rows in columns; immutable and counted. */
typedef struct gy_frame gy_frame;

/** Hold once more; returns `frame`. */
GY_API gy_frame *gy_frame_hold(gy_frame *frame);
/** The last one frees it. NULL is fine. */
GY_API void gy_frame_drop(gy_frame *frame);

/** Borrowed from the frame. */
GY_API gy_schema *gy_frame_schema(const gy_frame *frame);
GY_API int64_t gy_frame_rows(const gy_frame *frame);

/** A view of a column, as above; borrowed from its frame. */
typedef struct gy_column {
    const gy_field *field;
    int64_t rows;
    int64_t offset;       /* of the first row in the buffers, in elements */
    const uint8_t *valid; /* NULL: no nulls */
    const void *values;
    const char *text; /* of text */
} gy_column;

/** View a column; `index` in [0, columns). */
GY_API gy_column gy_frame_column(const gy_frame *frame, int index);
/** How many rows of a column are null. @cost O(rows / 64) */
GY_API int64_t gy_column_nulls(const gy_column *column);

/**
 * The rows [begin, end) of a frame; 0 <= begin <= end <= rows.
 * @return GY_OK, held once by the caller; GY_ARG other bounds; GY_NOMEM
 * @cost O(columns), no copy
 */
GY_API GY_MUST_CHECK gy_status gy_frame_slice(const gy_frame *frame, int64_t begin, int64_t end,
                                              gy_frame **slice);
/**
 * The columns columns[0], columns[1], ... of a frame, in this order; one may stand there twice.
 * @return GY_OK, held once by the caller; GY_ARG no such column; GY_NOMEM
 * @cost O(count), no copy
 */
GY_API GY_MUST_CHECK gy_status gy_frame_select(const gy_frame *frame, const int *columns,
                                               int count, gy_frame **selected);

/** A text, without a NUL behind it. */
typedef struct gy_text_view {
    const char *data; /* (size_bytes) */
    size_t size_bytes;
} gy_text_view;

/* What stands in row `row` of a column of that kind; of a null row anything. */

static inline bool gy_column_is_null(const gy_column *column, int64_t row)
{
    const int64_t i = column->offset + row;
    return column->valid != NULL && (column->valid[i >> 3] >> (i & 7) & 1) == 0;
}

static inline bool gy_column_bool(const gy_column *column, int64_t row)
{
    const int64_t i = column->offset + row;
    return (((const uint8_t *)column->values)[i >> 3] >> (i & 7) & 1) != 0;
}

/** Of int64 and timestamp. */
static inline int64_t gy_column_int64(const gy_column *column, int64_t row)
{
    return ((const int64_t *)column->values)[column->offset + row];
}

static inline double gy_column_double(const gy_column *column, int64_t row)
{
    return ((const double *)column->values)[column->offset + row];
}

/** In units of 10^-scale. */
static inline gy_int128 gy_column_decimal(const gy_column *column, int64_t row)
{
    gy_int128 value; /* memory of others may be aligned to 8 bytes alone */
    __builtin_memcpy(
        &value, (const char *)column->values + (column->offset + row) * (int64_t)sizeof(value),
        sizeof(value));
    return value;
}

/** Days since 1970-01-01. */
static inline int32_t gy_column_date(const gy_column *column, int64_t row)
{
    return ((const int32_t *)column->values)[column->offset + row];
}

static inline gy_text_view gy_column_text(const gy_column *column, int64_t row)
{
    const int32_t *at = (const int32_t *)column->values + column->offset + row;
    gy_text_view view = {column->text + at[0], (size_t)(at[1] - at[0])};
    return view;
}

typedef struct gy_frame_print_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int64_t rows_max;   /* rows that are printed; 0: 40; a line says how many there are more */
    int width_max;      /* characters of a column; 0: 40; what is longer ends in "…" */
} gy_frame_print_options;

/**
 * Print a frame as a table for people; nulls are empty texts' opposite: "null". Control
 * characters are escaped.
 * @return GY_OK; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_frame_print(const gy_frame *frame, FILE *out,
                                              const gy_frame_print_options *options);

/* ---- making frames ---- */

/**
 * Collects rows: for each the values of its columns in order, then gy_frame_row_end. A failed
 * call is remembered, and what follows does nothing, so that gy_frame_finish is the one call
 * to check. Not thread-safe.
 */
typedef struct gy_frame_builder gy_frame_builder;

/** @return GY_OK, caller owns; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_frame_builder_new(gy_schema *schema,
                                                    gy_frame_builder **builder);
/** NULL is fine. */
GY_API void gy_frame_builder_free(gy_frame_builder *builder);

/* Append the value of the next column. Remembered failures: GY_TYPE the column has another
 * kind; GY_STATE the row has all its values; GY_ARG a text that is no UTF-8, a decimal or a
 * time outside its type; GY_LIMIT more than 2 GiB of text in a column; GY_NOMEM. */
GY_API void gy_frame_add_null(gy_frame_builder *builder);
GY_API void gy_frame_add_bool(gy_frame_builder *builder, bool value);
GY_API void gy_frame_add_int64(gy_frame_builder *builder, int64_t value);
GY_API void gy_frame_add_double(gy_frame_builder *builder, double value);
/** `value` is in units of 10^-scale. */
GY_API void gy_frame_add_decimal(gy_frame_builder *builder, gy_int128 value);
/** Days since 1970-01-01, of years 1 to 9999. */
GY_API void gy_frame_add_date(gy_frame_builder *builder, int32_t days);
/** Microseconds since 1970-01-01 00:00:00 UTC, of years 1 to 9999. */
GY_API void gy_frame_add_timestamp(gy_frame_builder *builder, int64_t micros);
GY_API void gy_frame_add_text(gy_frame_builder *builder, const char *data, size_t size_bytes);
/** End the row. Remembered failure: GY_STATE a column lacks its value. */
GY_API void gy_frame_row_end(gy_frame_builder *builder);

/**
 * Give all rows that were ended since the last call as a frame; the builder is empty again.
 * @return GY_OK, held once by the caller; GY_STATE a row was begun and not ended; the first
 * failure of the calls before, after which the builder is of no more use; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_frame_finish(gy_frame_builder *builder, gy_frame **frame);

/* ---- sequences of frames ---- */

/** A sequence of frames of one schema. */
typedef struct gy_frame_source {
    /* Gives the next frame, held once by the caller; GY_DONE: there is none. */
    gy_status (*next)(void *arg, gy_frame **frame);
    void (*close)(void *arg); /* frees `arg`; NULL: nothing to do */
    void *arg;
} gy_frame_source;

#ifdef __cplusplus
}
#endif
#endif
