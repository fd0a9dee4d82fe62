/*
 * Frames as bytes, for shuffles and spill files:
 *
 *   head      u32 magic, u32 columns, u64 rows, u64 length of what follows, u64 checksum (over
 *             the head before it, and what follows)
 *   column    u8 kind, u8 has nulls, then bits of rows that have a value ((rows + 7) / 8 bytes)
 *     bool    bits
 *     double  8 bytes each
 *     others  u8 width, i64 smallest, (rows * width) differences to it; width 16: decimals,
 * each as it is, and no smallest text    sizes as integers are, then the bytes
 *
 * What a null's value is does not matter: zero is written.
 */
#include "query/rows/rows_priv.h"

#include "base/hash.h"

#include <assert.h>

#define MAGIC UINT32_C(0x31465947) /* "GYF1" */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bytes are written as they lie");

enum { CHECKSUM_AT = 24, ROWS_MOST = INT32_MAX };

static gy_status room(gy_rows_buffer *buffer, size_t size_bytes)
{
    return GY_GROW("query.bytes", buffer->data, buffer->capacity,
                   buffer->size_bytes + size_bytes);
}

static void put(gy_rows_buffer *buffer, const void *data, size_t size_bytes)
{
    GY_ASSERT(buffer->capacity - buffer->size_bytes >= size_bytes);
    if (size_bytes > 0) {
        memcpy(buffer->data + buffer->size_bytes, data, size_bytes);
    }
    buffer->size_bytes += size_bytes;
}

/* Bits from an offset on, the first one in the lowest bit of the first byte. */
static void put_bits(gy_rows_buffer *buffer, const uint8_t *bits, int64_t offset, int64_t rows)
{
    char *to = buffer->data + buffer->size_bytes;
    const size_t size = (size_t)(rows + 7) / 8;
    memset(to, 0, size);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = offset + i;
        to[i >> 3] = (char)(to[i >> 3] | (bits[at >> 3] >> (at & 7) & 1) << (i & 7));
    }
    buffer->size_bytes += size;
}

/* ---- integers ---- */

typedef int64_t (*integer_of)(const gy_column *column, int64_t row);

static int64_t of_int64(const gy_column *column, int64_t row)
{
    return gy_column_int64(column, row);
}

static int64_t of_date(const gy_column *column, int64_t row)
{
    return gy_column_date(column, row);
}

static int64_t of_decimal(const gy_column *column, int64_t row)
{
    return (int64_t)gy_column_decimal(column, row);
}

static int64_t of_text(const gy_column *column, int64_t row)
{
    return (int64_t)gy_column_text(column, row).size_bytes;
}

static int width_of(uint64_t range)
{
    return range == 0 ? 0 : range < 256 ? 1 : range < 65536 ? 2 : range >> 32 == 0 ? 4 : 8;
}

static gy_status put_integers(gy_rows_buffer *buffer, const gy_column *column, integer_of value)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < column->rows; i++) {
        if (!gy_column_is_null(column, i)) {
            const int64_t here = value(column, i);
            least = GY_MIN(least, here);
            most = GY_MAX(most, here);
        }
    }
    least = least > most ? 0 : least;
    const uint64_t range = most < least ? 0 : (uint64_t)most - (uint64_t)least;
    const int width = width_of(range);
    GY_TRY(room(buffer, 9 + (size_t)width * (size_t)column->rows));
    const uint8_t head = (uint8_t)width;
    put(buffer, &head, 1);
    put(buffer, &least, sizeof(least));
    char *to = buffer->data + buffer->size_bytes;
    for (int64_t i = 0; i < column->rows && width > 0; i++, to += width) {
        const uint64_t delta =
            gy_column_is_null(column, i) ? 0 : (uint64_t)value(column, i) - (uint64_t)least;
        memcpy(to, &delta, (size_t)width);
    }
    buffer->size_bytes += (size_t)width * (size_t)column->rows;
    return GY_OK;
}

static gy_status put_decimals(gy_rows_buffer *buffer, const gy_column *column)
{
    bool is_narrow = true;
    for (int64_t i = 0; i < column->rows && is_narrow; i++) {
        const gy_int128 value = gy_column_decimal(column, i);
        is_narrow = gy_column_is_null(column, i) || value == (int64_t)value;
    }
    if (is_narrow) {
        return put_integers(buffer, column, of_decimal);
    }
    const uint8_t width = 16;
    GY_TRY(room(buffer, 1 + 16 * (size_t)column->rows));
    put(buffer, &width, 1);
    for (int64_t i = 0; i < column->rows; i++) {
        const gy_int128 value = gy_column_is_null(column, i) ? 0 : gy_column_decimal(column, i);
        put(buffer, &value, sizeof(value));
    }
    return GY_OK;
}

static gy_status put_doubles(gy_rows_buffer *buffer, const gy_column *column)
{
    GY_TRY(room(buffer, 8 * (size_t)column->rows));
    for (int64_t i = 0; i < column->rows; i++) {
        const double value = gy_column_is_null(column, i) ? 0 : gy_column_double(column, i);
        put(buffer, &value, sizeof(value));
    }
    return GY_OK;
}

static gy_status put_texts(gy_rows_buffer *buffer, const gy_column *column)
{
    GY_TRY(put_integers(buffer, column, of_text));
    const int32_t *offsets = (const int32_t *)column->values + column->offset;
    GY_TRY(room(buffer, (size_t)(offsets[column->rows] - offsets[0])));
    if (column->valid == NULL) {
        put(buffer, column->text + offsets[0], (size_t)(offsets[column->rows] - offsets[0]));
        return GY_OK;
    }
    for (int64_t i = 0; i < column->rows; i++) {
        if (!gy_column_is_null(column, i)) {
            const gy_text_view text = gy_column_text(column, i);
            put(buffer, text.data, text.size_bytes);
        }
    }
    return GY_OK;
}

static gy_status put_column(gy_rows_buffer *buffer, const gy_column *column)
{
    const size_t bits = (size_t)(column->rows + 7) / 8;
    GY_TRY(room(buffer, 2 + 2 * bits));
    const uint8_t head[2] = {(uint8_t)column->field->kind, column->valid != NULL};
    put(buffer, head, sizeof(head));
    if (column->valid != NULL) {
        put_bits(buffer, column->valid, column->offset, column->rows);
    }
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
        put_bits(buffer, column->values, column->offset, column->rows);
        return GY_OK;
    case GY_FIELD_DOUBLE:
        return put_doubles(buffer, column);
    case GY_FIELD_DECIMAL:
        return put_decimals(buffer, column);
    case GY_FIELD_DATE:
        return put_integers(buffer, column, of_date);
    case GY_FIELD_TEXT:
        return put_texts(buffer, column);
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    default:
        return put_integers(buffer, column, of_int64);
    }
}

static uint64_t checksum(const char *data, size_t length)
{
    return gy_hash(data + GY_ROWS_HEAD_BYTES, length, gy_hash(data, CHECKSUM_AT, 0));
}

gy_status gy_rows_bytes_write(const gy_frame *frame, gy_rows_buffer *buffer)
{
    const int columns = gy_schema_count(gy_frame_schema(frame));
    const size_t begin = buffer->size_bytes;
    gy_status status = room(buffer, GY_ROWS_HEAD_BYTES);
    if (status == GY_OK) {
        buffer->size_bytes += GY_ROWS_HEAD_BYTES;
    }
    for (int i = 0; i < columns && status == GY_OK; i++) {
        const gy_column column = gy_frame_column(frame, i);
        status = put_column(buffer, &column);
    }
    if (status < 0) {
        buffer->size_bytes = begin;
        return status;
    }
    char *head = buffer->data + begin;
    const uint32_t words[2] = {MAGIC, (uint32_t)columns};
    const uint64_t sizes[2] = {(uint64_t)gy_frame_rows(frame),
                               buffer->size_bytes - begin - GY_ROWS_HEAD_BYTES};
    memcpy(head, words, sizeof(words));
    memcpy(head + sizeof(words), sizes, sizeof(sizes));
    const uint64_t sum = checksum(head, sizes[1]);
    memcpy(head + CHECKSUM_AT, &sum, sizeof(sum));
    return GY_OK;
}

/* ---- reading ---- */

/* What is left to read. */
typedef struct cursor {
    const char *at, *end;
    int64_t rows;
} cursor;

static gy_status malformed(const char *what)
{
    return gy_fail(GY_FORMAT, "a frame in bytes: %s", what);
}

/* The next so many bytes; NULL: there are fewer. */
static const char *take(cursor *in, size_t size_bytes)
{
    if ((size_t)(in->end - in->at) < size_bytes) {
        return NULL;
    }
    const char *data = in->at;
    in->at += size_bytes;
    return data;
}

static bool is_decimal(gy_int128 value, int precision)
{
    gy_int128 bound = 1;
    for (int i = 0; i < precision; i++) {
        bound *= 10;
    }
    return value < bound && value > -bound;
}

/* Store an integer as the column's kind has it; false: it is outside. */
static bool store(gy_frame_maker *maker, int64_t row, int64_t value)
{
    switch (maker->field.kind) {
    case GY_FIELD_DATE:
        ((int32_t *)maker->values)[row] = (int32_t)value;
        return value >= GY_DAYS_MIN && value < GY_DAYS_END;
    case GY_FIELD_TIMESTAMP:
        ((int64_t *)maker->values)[row] = value;
        return value >= GY_DAYS_MIN * GY_MICROS_A_DAY && value < GY_DAYS_END * GY_MICROS_A_DAY;
    case GY_FIELD_DECIMAL: {
        const gy_int128 wide = value;
        memcpy((char *)maker->values + 16 * row, &wide, sizeof(wide));
        return is_decimal(wide, maker->field.precision);
    }
    case GY_FIELD_TEXT: { /* its size */
        int32_t *ends = (int32_t *)maker->values;
        const bool fits = value >= 0 && value <= INT32_MAX - ends[row];
        ends[row + 1] = ends[row] + (fits ? (int32_t)value : 0);
        return fits;
    }
    case GY_FIELD_BOOL:
    case GY_FIELD_INT64:
    case GY_FIELD_DOUBLE:
    default:
        ((int64_t *)maker->values)[row] = value;
        return true;
    }
}

static bool is_set(const char *valid, int64_t row)
{
    return valid == NULL || ((unsigned char)valid[row >> 3] >> (row & 7) & 1) != 0;
}

static gy_status take_integers(cursor *in, gy_frame_maker *maker, const char *valid)
{
    const char *head = take(in, 1);
    const int width = head == NULL ? -1 : *head;
    const bool is_wide = width == 16 && maker->field.kind == GY_FIELD_DECIMAL;
    if (!is_wide && width != 0 && width != 1 && width != 2 && width != 4 && width != 8) {
        return malformed("no such width");
    }
    const char *smallest = is_wide ? in->at : take(in, sizeof(int64_t));
    const char *from = take(in, (size_t)width * (size_t)in->rows);
    if (smallest == NULL || from == NULL) {
        return malformed("it ends within a column");
    }
    uint64_t least = 0;
    if (!is_wide) {
        memcpy(&least, smallest, sizeof(least));
    }
    GY_TRY(gy_frame_maker_reserve(maker, in->rows));
    bool fits = true;
    for (int64_t i = 0; i < in->rows; i++) {
        if (!is_set(valid, i)) {
            fits &= maker->field.kind == GY_FIELD_TEXT ? store(maker, i, 0) : true;
        } else if (is_wide) {
            gy_int128 value;
            memcpy(&value, from + 16 * i, sizeof(value));
            memcpy((char *)maker->values + 16 * i, &value, sizeof(value));
            fits &= is_decimal(value, maker->field.precision);
        } else {
            uint64_t delta = 0;
            memcpy(&delta, from + (size_t)width * (size_t)i, (size_t)width);
            fits &= store(maker, i, (int64_t)(least + delta));
        }
    }
    return fits ? GY_OK : malformed("a value is outside its type");
}

static gy_status take_texts(cursor *in, gy_frame_maker *maker, const char *valid)
{
    GY_TRY(take_integers(in, maker, valid));
    const int32_t *ends = maker->values;
    const size_t size = (size_t)ends[in->rows];
    const char *text = take(in, size);
    size_t wrong = 0;
    if (text == NULL) {
        return malformed("it ends within a column");
    }
    if (!gy_frame_is_utf8(text, size, &wrong)) {
        return malformed("a text is no UTF-8");
    }
    for (int64_t i = 0; i < in->rows; i++) { /* each text begins with a character's begin */
        if ((size_t)ends[i] < size && ((unsigned char)text[ends[i]] & 0xc0) == 0x80) {
            return malformed("a text is no UTF-8");
        }
    }
    GY_TRY(gy_frame_maker_reserve_text(maker, size));
    if (size > 0) {
        memcpy(maker->text, text, size);
    }
    maker->text_bytes = size;
    return GY_OK;
}

static gy_status take_column(cursor *in, gy_frame_maker *maker)
{
    const size_t bits = (size_t)(in->rows + 7) / 8;
    const char *head = take(in, 2);
    if (head == NULL || (gy_field_kind)head[0] != maker->field.kind || (head[1] & ~1) != 0) {
        return malformed("a column of another type");
    }
    const char *valid = head[1] == 0 ? NULL : take(in, bits);
    if (head[1] != 0 && valid == NULL) {
        return malformed("it ends within a column");
    }
    if (maker->field.kind == GY_FIELD_BOOL || maker->field.kind == GY_FIELD_DOUBLE) {
        const size_t size =
            maker->field.kind == GY_FIELD_BOOL ? bits : sizeof(double) * (size_t)in->rows;
        const char *values = take(in, size);
        if (values == NULL) {
            return malformed("it ends within a column");
        }
        GY_TRY(gy_frame_maker_reserve(maker, in->rows));
        memcpy(maker->values, values, size);
    } else if (maker->field.kind == GY_FIELD_TEXT) {
        GY_TRY(take_texts(in, maker, valid));
    } else {
        GY_TRY(take_integers(in, maker, valid));
    }
    for (int64_t i = 0; i < in->rows; i++) {
        const bool has_value = is_set(valid, i);
        maker->valid[i >> 3] |= (uint8_t)(has_value << (i & 7));
        maker->nulls += !has_value;
    }
    maker->rows = in->rows;
    return GY_OK;
}

/* Read the head; *length is what follows it. */
static gy_status take_head(const char *data, size_t size_bytes, int columns, int64_t *rows,
                           uint64_t *length)
{
    uint32_t words[2];
    uint64_t sizes[2], sum;
    memcpy(words, data, sizeof(words));
    memcpy(sizes, data + sizeof(words), sizeof(sizes));
    memcpy(&sum, data + CHECKSUM_AT, sizeof(sum));
    if (words[0] != MAGIC) {
        return malformed("it begins with other bytes");
    }
    if (words[1] != (uint32_t)columns || sizes[0] > ROWS_MOST ||
        sizes[1] > SIZE_MAX / 2 - GY_ROWS_HEAD_BYTES) {
        return malformed("its head has other columns, or too many rows");
    }
    *rows = (int64_t)sizes[0];
    *length = sizes[1];
    if (size_bytes - GY_ROWS_HEAD_BYTES < *length) {
        return GY_AGAIN;
    }
    return checksum(data, *length) == sum ? GY_OK : malformed("its checksum is another one");
}

gy_status gy_rows_bytes_read(gy_schema *schema, const char *data, size_t size_bytes,
                             size_t *used, gy_frame **frame)
{
    const int columns = gy_schema_count(schema);
    uint64_t length = 0;
    cursor in = {.rows = 0};
    gy_status status = size_bytes < GY_ROWS_HEAD_BYTES
                           ? GY_AGAIN
                           : take_head(data, size_bytes, columns, &in.rows, &length);
    if (status >= 0) {
        *used = GY_ROWS_HEAD_BYTES + (size_t)length;
    }
    if (status != GY_OK) {
        return status;
    }
    in.at = data + GY_ROWS_HEAD_BYTES;
    in.end = in.at + length;
    gy_frame_maker *makers = gy_rows_makers_new(schema);
    status = makers == NULL ? GY_NOMEM : GY_OK;
    for (int i = 0; i < columns && status == GY_OK; i++) {
        status = take_column(&in, &makers[i]);
    }
    if (status == GY_OK && in.at != in.end) {
        status = malformed("bytes behind the last column");
    }
    if (status == GY_OK) {
        status = gy_frame_make(schema, makers, in.rows, frame);
    }
    gy_rows_makers_free(makers, columns);
    return status;
}
