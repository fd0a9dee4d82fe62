/**
 * Room frame, for higher rooms: columns in the making, and values as texts. Reading order:
 * schema, frame, make, build, read, write, print.
 */
#ifndef GY_FRAME_FRAME_H
#define GY_FRAME_FRAME_H

#include "base/base.h"

#include <gyre/frame.h>

/* ---- columns in the making (make.c) ---- */

/** A column to which values are appended. Zero but for field at first. Whoever appends makes
 * room, then writes element `rows` of `values` and counts it. */
typedef struct gy_frame_maker {
    gy_field field; /* its name is borrowed */
    int64_t rows, capacity, nulls;
    void *values;   /* (capacity) as in gy_column; of text (capacity + 1) offsets */
    uint8_t *valid; /* (capacity) bits, zero from `rows` on */
    char *text;     /* (text_capacity) */
    size_t text_bytes, text_capacity;
} gy_frame_maker;

/** Make room for so many rows more. GY_NOMEM */
GY_MUST_CHECK gy_status gy_frame_maker_reserve(gy_frame_maker *maker, int64_t rows);
/** Make room for so many bytes of text more. GY_NOMEM; GY_LIMIT a column's text would be over
 * 2 GiB */
GY_MUST_CHECK gy_status gy_frame_maker_reserve_text(gy_frame_maker *maker, size_t size_bytes);
void gy_frame_maker_fini(gy_frame_maker *maker);

/** Bytes of a value of that kind; 0: a bit, as of bool. */
size_t gy_frame_kind_bytes(gy_field_kind kind);

/** Mark the next row as one that has its value, which the caller wrote. Room is there. */
static inline void gy_frame_maker_set(gy_frame_maker *maker)
{
    maker->valid[maker->rows >> 3] |= (uint8_t)(1 << (maker->rows & 7));
    maker->rows++;
}

/** Append a null; room is there. */
void gy_frame_maker_null(gy_frame_maker *maker);

/**
 * Make a frame of finished columns (schema count) of `rows` rows, whose buffers it takes: the
 * makers are empty again, also on failure. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_frame_make(gy_schema *schema, gy_frame_maker *makers, int64_t rows,
                                      gy_frame **frame);

/**
 * A frame of columns of other frames, which are shared: column i is column columns[i] of
 * frames[i], each of `rows` rows and of the kind, precision and scale of the schema's field,
 * which gives its name. GY_NOMEM. @cost O(columns)
 */
GY_MUST_CHECK gy_status gy_frame_compose(gy_schema *schema, const gy_frame *const *frames,
                                         const int *columns, int64_t rows, gy_frame **frame);

/* ---- values as texts (read.c, write.c) ---- */

/**
 * How strictly a text is read. Strict: as the type of a column is found, so that no information
 * is lost: no whitespace around, no '+', no leading zeros, times with at most 6 digits of a
 * second. Else as casts are: these too, decimals rounded to their scale (half away from zero),
 * times to microseconds, and bool by t, yes, y, on, 1 as well.
 */
typedef enum gy_frame_reading { GY_READING_STRICT, GY_READING_CAST } gy_frame_reading;

/* Read a value; false: the text is none. @threads any */
bool gy_frame_read_bool(gy_text_view text, gy_frame_reading how, bool *value);
bool gy_frame_read_int64(gy_text_view text, gy_frame_reading how, int64_t *value);
bool gy_frame_read_double(gy_text_view text, gy_frame_reading how, double *value);
bool gy_frame_read_decimal(gy_text_view text, gy_frame_reading how, const gy_field *field,
                           gy_int128 *value);
bool gy_frame_read_date(gy_text_view text, gy_frame_reading how, int32_t *days);
bool gy_frame_read_timestamp(gy_text_view text, gy_frame_reading how, int64_t *micros);

/** The digits of a number without exponent, read strictly: those before and behind the point.
 * False: it is none. */
bool gy_frame_count_digits(gy_text_view text, int *whole, int *fraction);

enum { GY_FRAME_VALUE_BYTES = 64 };

/** Write the value of a row that is not null, of any kind but text, with a NUL: true, -1.50,
 * 2024-02-29, 2024-02-29 12:00:00.5. @return its bytes without the NUL. @threads any */
size_t gy_frame_write(const gy_column *column, int64_t row, char out[GY_FRAME_VALUE_BYTES]);

/** Whether all bytes are UTF-8 without NUL; `*wrong` becomes the offset of the first character
 * that is not. @cost 16 bytes at a time where they are ASCII */
bool gy_frame_is_utf8(const char *data, size_t size_bytes, size_t *wrong);

/* ---- days (days.c) ---- */

/** Days since 1970-01-01 of a date of the Gregorian calendar. */
int32_t gy_frame_days(int year, int month, int day);
/** The date of a day. */
void gy_frame_civil(int32_t days, int *year, int *month, int *day);
/** How many days a month has; `month` in 1 to 12. */
int gy_frame_month_days(int year, int month);

/** Days of the first and behind the last day of a time that is allowed: years 1 to 9999. */
enum { GY_DAYS_MIN = -719162, GY_DAYS_END = 2932897 };
#define GY_MICROS_A_DAY INT64_C(86400000000)

#endif
