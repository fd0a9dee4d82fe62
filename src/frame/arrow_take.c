/* Frames taken in through Arrow's C data interface. */
#include "frame/frame_priv.h"

#include <gyre/arrow.h>

#include <stdlib.h>
#include <string.h>

/* ---- schemas ---- */

/* The name of a type of Arrow that Gyre does not take; formats that begin so. */
static const char *name_of_format(const char *format)
{
    static const struct {
        const char *begin, *name;
    } names[] = {
        {"n", "null"},
        {"c", "int8"},
        {"C", "uint8"},
        {"s", "int16"},
        {"S", "uint16"},
        {"i", "int32"},
        {"I", "uint32"},
        {"L", "uint64"},
        {"e", "float16"},
        {"f", "float32"},
        {"z", "binary"},
        {"Z", "large binary"},
        {"U", "large text"},
        {"vz", "binary view"},
        {"vu", "text view"},
        {"w:", "binary of fixed size"},
        {"d:", "decimal of another width, precision or scale"},
        {"tdm", "date in milliseconds"},
        {"tts", "time of day"},
        {"ttm", "time of day"},
        {"ttu", "time of day"},
        {"ttn", "time of day"},
        {"tss:", "timestamp in seconds"},
        {"tsm:", "timestamp in milliseconds"},
        {"tsn:", "timestamp in nanoseconds"},
        {"tD", "duration"},
        {"ti", "interval"},
        {"+l", "list"},
        {"+L", "large list"},
        {"+vl", "list view"},
        {"+vL", "large list view"},
        {"+w:", "list of fixed size"},
        {"+s", "struct"},
        {"+m", "map"},
        {"+ud:", "dense union"},
        {"+us:", "sparse union"},
        {"+r", "run-end encoding"},
    };
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (strncmp(format, names[i].begin, strlen(names[i].begin)) == 0) {
            return names[i].name;
        }
    }
    return "type";
}

/* "d:12,2" or "d:12,2,128". */
static bool parse_decimal(const char *format, gy_field *field)
{
    char *at = NULL;
    const long precision = strtol(format + 2, &at, 10);
    if (*at != ',') {
        return false;
    }
    const long scale = strtol(at + 1, &at, 10);
    if ((*at != '\0' && strcmp(at, ",128") != 0) || precision < 1 ||
        precision > GY_DECIMAL_DIGITS_MAX || scale < 0 || scale > precision) {
        return false;
    }
    field->kind = GY_FIELD_DECIMAL;
    field->precision = (int)precision;
    field->scale = (int)scale;
    return true;
}

static bool parse_format(const char *format, gy_field *field)
{
    static const struct {
        const char *format;
        gy_field_kind kind;
    } kinds[] = {{"b", GY_FIELD_BOOL},
                 {"l", GY_FIELD_INT64},
                 {"g", GY_FIELD_DOUBLE},
                 {"u", GY_FIELD_TEXT},
                 {"tdD", GY_FIELD_DATE}};
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        if (strcmp(format, kinds[i].format) == 0) {
            field->kind = kinds[i].kind;
            return true;
        }
    }
    if (strncmp(format, "tsu:", 4) == 0) { /* of any zone: the numbers count in UTC */
        field->kind = GY_FIELD_TIMESTAMP;
        return true;
    }
    return strncmp(format, "d:", 2) == 0 && parse_decimal(format, field);
}

static gy_status take_field(const gy_arrow_schema *arrow, int64_t index, gy_field *field)
{
    if (arrow == NULL || arrow->release == NULL || arrow->format == NULL) {
        return gy_fail(GY_ARG, "Arrow: column %lld has no schema", (long long)index + 1);
    }
    *field = (gy_field){.name = arrow->name != NULL ? arrow->name : ""};
    if (arrow->dictionary != NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "Arrow: column '%s' is dictionary-encoded: decode it first",
                       field->name);
    }
    if (!parse_format(arrow->format, field)) {
        return gy_fail(GY_UNSUPPORTED,
                       "Arrow: column '%s' is of type %s (\"%s\"): expected bool, int64, "
                       "float64, decimal128, date32, timestamp in microseconds, or text",
                       field->name, name_of_format(arrow->format), arrow->format);
    }
    return GY_OK;
}

gy_status gy_schema_from_arrow(const gy_arrow_schema *arrow, gy_schema **schema)
{
    if (arrow->release == NULL || arrow->format == NULL || arrow->n_children < 0 ||
        arrow->n_children > GY_FRAME_COLUMNS_MAX) {
        return gy_fail(GY_ARG, "Arrow: a schema that was released, or of %lld columns",
                       (long long)arrow->n_children);
    }
    if (strcmp(arrow->format, "+s") != 0 || arrow->dictionary != NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "Arrow: a %s (\"%s\"): expected a struct of columns (\"+s\")",
                       name_of_format(arrow->format), arrow->format);
    }
    gy_field *fields = gy_alloc("frame.arrow", (size_t)arrow->n_children * sizeof(*fields));
    gy_status status = fields != NULL ? GY_OK : GY_NOMEM;
    for (int64_t i = 0; i < arrow->n_children && status == GY_OK; i++) {
        status = take_field(arrow->children[i], i, &fields[i]);
    }
    status = status == GY_OK ? gy_schema_new(fields, (int)arrow->n_children, schema) : status;
    gy_free(fields);
    return status;
}

/* ---- arrays ---- */

/* Somebody's array under a frame. */
typedef struct array_owner {
    gy_frame_owner base;
    gy_arrow_array array;
} array_owner;

static void free_array(gy_frame_owner *owner)
{
    array_owner *held = (array_owner *)owner;
    held->array.release(&held->array);
    gy_free(held);
}

static gy_status check_offsets(const gy_field *field, const int32_t *offsets, int64_t rows)
{
    bool is_wrong = offsets[0] < 0;
    for (int64_t i = 0; i < rows; i++) {
        is_wrong |= offsets[i + 1] < offsets[i];
    }
    return is_wrong ? gy_fail(GY_ARG, "Arrow: the offsets of column '%s' descend", field->name)
                    : GY_OK;
}

/* The rows one by one: what lies under a null may be anything. */
static gy_status check_texts(const gy_field *field, const gy_frame_buffers *column,
                             int64_t rows)
{
    const gy_column nulls = {.rows = rows, .offset = column->offset, .valid = column->valid};
    const int32_t *offsets = (const int32_t *)column->values + column->offset;
    for (int64_t i = 0; i < rows; i++) {
        const char *text = column->text + offsets[i];
        size_t wrong = 0;
        if (!gy_column_is_null(&nulls, i) &&
            !gy_frame_is_utf8(text, (size_t)(offsets[i + 1] - offsets[i]), &wrong)) {
            const unsigned char byte = (unsigned char)text[wrong];
            return byte == 0
                       ? gy_fail(GY_FORMAT, "Arrow: column '%s' has a NUL byte in row %lld",
                                 field->name, (long long)i + 1)
                       : gy_fail(GY_FORMAT,
                                 "Arrow: byte 0x%02x in row %lld of column '%s' is no UTF-8",
                                 byte, (long long)i + 1, field->name);
        }
    }
    return GY_OK;
}

/* Texts are UTF-8 without NUL: all of them at once, where none begins within a character. */
static gy_status check_utf8(const gy_field *field, const gy_frame_buffers *column, int64_t rows)
{
    const int32_t *offsets = (const int32_t *)column->values + column->offset;
    const int32_t end = offsets[rows];
    size_t wrong = 0;
    bool is_cut = false;
    for (int64_t i = 0; i < rows; i++) {
        is_cut |= offsets[i] < end && ((unsigned char)column->text[offsets[i]] & 0xc0) == 0x80;
    }
    return !is_cut && gy_frame_is_utf8(column->text + offsets[0], (size_t)(end - offsets[0]),
                                       &wrong)
               ? GY_OK
               : check_texts(field, column, rows);
}

/* Fit a column's array to its field; `rows` are those of the frame, from its row `first` on. */
static gy_status take_column(const gy_field *field, const gy_arrow_array *array,
                             const int64_t first_and_rows[2], gy_frame_buffers *column)
{
    const int64_t first = first_and_rows[0], rows = first_and_rows[1];
    const bool is_text = field->kind == GY_FIELD_TEXT;
    if (array == NULL || array->release == NULL || array->dictionary != NULL ||
        array->n_children != 0 || array->n_buffers != (is_text ? 3 : 2)) {
        return gy_fail(GY_ARG, "Arrow: the array of column '%s' is no %s", field->name,
                       gy_field_kind_name(field->kind));
    }
    if (array->offset < 0 || array->length < first || array->length - first < rows) {
        return gy_fail(GY_ARG, "Arrow: column '%s' has %lld rows: expected %lld", field->name,
                       (long long)array->length, (long long)(first + rows));
    }
    static const int32_t none[2] = {0, 0}; /* under a column without rows and memory */
    const bool lacks = array->buffers[1] == NULL;
    if ((lacks && rows > 0) || (array->null_count > 0 && array->buffers[0] == NULL)) {
        return gy_fail(GY_ARG, "Arrow: column '%s' lacks a buffer", field->name);
    }
    *column = (gy_frame_buffers){
        .offset = lacks ? 0 : array->offset + first,
        .valid = array->null_count == 0 ? NULL : array->buffers[0],
        .values = lacks ? none : array->buffers[1],
        .text = is_text && array->buffers[2] != NULL ? array->buffers[2] : "",
    };
    const int32_t *offsets = (const int32_t *)column->values + column->offset;
    if (is_text && rows > 0) {
        GY_TRY(check_offsets(field, offsets, rows));
        if (array->buffers[2] == NULL && offsets[rows] > offsets[0]) {
            return gy_fail(GY_ARG, "Arrow: column '%s' lacks its text", field->name);
        }
        GY_TRY(check_utf8(field, column, rows));
    }
    return GY_OK;
}

static gy_status check_frame(const gy_schema *schema, const gy_arrow_array *array)
{
    const int count = gy_schema_count(schema);
    if (array->release == NULL || array->n_children != count || array->n_buffers != 1 ||
        array->length < 0 || array->offset < 0 || array->dictionary != NULL) {
        return gy_fail(GY_ARG, "Arrow: no array of %d columns", count);
    }
    const gy_column rows = {.rows = array->length,
                            .offset = array->offset,
                            .valid = array->null_count != 0 ? array->buffers[0] : NULL};
    if (gy_column_nulls(&rows) > 0) {
        return gy_fail(GY_ARG, "Arrow: %lld rows are null as a whole",
                       (long long)gy_column_nulls(&rows));
    }
    return GY_OK;
}

gy_status gy_frame_from_arrow(gy_schema *schema, gy_arrow_array *array, gy_frame **frame)
{
    GY_TRY(check_frame(schema, array));
    const int64_t first_and_rows[2] = {array->offset, array->length};
    gy_frame *made = NULL;
    GY_TRY(gy_frame_new(schema, array->length, &made));
    gy_status status = GY_OK;
    for (int i = 0; i < gy_schema_count(schema) && status == GY_OK; i++) {
        status = take_column(gy_schema_field(schema, i), array->children[i], first_and_rows,
                             &made->columns[i]);
    }
    array_owner *owner = status == GY_OK ? gy_alloc("frame.arrow", sizeof(*owner)) : NULL;
    if (owner == NULL) {
        gy_frame_drop(made); /* its columns have no owner yet */
        return status < 0 ? status : GY_NOMEM;
    }
    owner->base.free = free_array;
    owner->array = *array;
    array->release = NULL;
    atomic_init(&owner->base.holds, 1);
    for (int i = 0; i < gy_schema_count(schema); i++) {
        made->columns[i].owner = gy_frame_owner_hold(&owner->base);
    }
    gy_frame_owner_drop(&owner->base); /* of an array without columns the last */
    *frame = made;
    return GY_OK;
}
