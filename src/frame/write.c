/* Values written as texts that read.c reads strictly. */
#include "frame/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t write_text(char *out, const char *text)
{
    return gy_print(out, GY_FRAME_VALUE_BYTES, "%s", text);
}

/* The fewest of 15 to 17 digits that give the number again. */
static size_t write_double(double value, char *out)
{
    if (isnan(value)) {
        return write_text(out, "NaN");
    }
    if (isinf(value)) {
        return write_text(out, value < 0 ? "-Infinity" : "Infinity");
    }
    size_t size = 0;
    for (int digits = 15; digits <= 17; digits++) {
        size = gy_print(out, GY_FRAME_VALUE_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value) { /* in the locale that printed it */
            break;
        }
    }
    for (char *at = out; *at != '\0'; at++) {
        if (strchr("0123456789+-e", *at) == NULL) {
            *at = '.'; /* what another locale takes for a point */
        }
    }
    return size;
}

/* At most 38 digits, the point and a sign. */
static size_t write_decimal(gy_int128 value, int scale, char *out)
{
    char digits[GY_FRAME_VALUE_BYTES];
    size_t at = sizeof(digits);
    const bool is_negative = value < 0;
    __extension__ unsigned __int128 rest =
        is_negative ? 0 - (unsigned __int128)value : (unsigned __int128)value;
    for (int count = 0; rest > 0 || count <= scale; count++) {
        if (count == scale && scale > 0) {
            digits[--at] = '.';
        }
        digits[--at] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    }
    if (is_negative) {
        digits[--at] = '-';
    }
    const size_t size = sizeof(digits) - at;
    memcpy(out, digits + at, size);
    out[size] = '\0';
    return size;
}

static size_t write_date(int32_t days, char *out)
{
    int year = 0, month = 0, day = 0;
    gy_frame_civil(days, &year, &month, &day);
    return gy_print(out, GY_FRAME_VALUE_BYTES, "%04d-%02d-%02d", year, month, day);
}

static size_t write_timestamp(int64_t micros, char *out)
{
    int64_t days = micros / GY_MICROS_A_DAY;
    days -= micros % GY_MICROS_A_DAY < 0;
    const int64_t of_day = micros - days * GY_MICROS_A_DAY, second = of_day / 1000000;
    size_t size = write_date((int32_t)days, out);
    size += gy_print(out + size, GY_FRAME_VALUE_BYTES - size, " %02d:%02d:%02d",
                     (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
    if (of_day % 1000000 != 0) {
        size +=
            gy_print(out + size, GY_FRAME_VALUE_BYTES - size, ".%06d", (int)(of_day % 1000000));
        while (out[size - 1] == '0') {
            out[--size] = '\0';
        }
    }
    return size;
}

size_t gy_frame_write(const gy_column *column, int64_t row, char out[GY_FRAME_VALUE_BYTES])
{
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
        return write_text(out, gy_column_bool(column, row) ? "true" : "false");
    case GY_FIELD_INT64:
        return gy_print(out, GY_FRAME_VALUE_BYTES, "%lld",
                        (long long)gy_column_int64(column, row));
    case GY_FIELD_DOUBLE:
        return write_double(gy_column_double(column, row), out);
    case GY_FIELD_DECIMAL:
        return write_decimal(gy_column_decimal(column, row), column->field->scale, out);
    case GY_FIELD_DATE:
        return write_date(gy_column_date(column, row), out);
    case GY_FIELD_TIMESTAMP:
        return write_timestamp(gy_column_int64(column, row), out);
    case GY_FIELD_TEXT:
        break;
    }
    gy_panic("a text is written as it is");
}
