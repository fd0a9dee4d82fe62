/* Types of columns: read from texts, detected in cells, applied. */
#include "dml/frame/frame.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What stands behind a type in a detected schema whose column has missing cells. */
static const char missing_mark[] = "\xc2\xb7n";

static size_t count_digits(const char *text, size_t size, size_t at)
{
    size_t count = 0;
    while (at + count < size && isdigit((unsigned char)text[at + count])) {
        count++;
    }
    return count;
}

/* -12, 12.000 */
static bool is_whole(const char *text, size_t size)
{
    const size_t sign = size > 0 && text[0] == '-', digits = count_digits(text, size, sign);
    size_t at = sign + digits;
    if (digits == 0 || size > 22) {
        return false;
    }
    at += at < size && text[at] == '.';
    while (at < size && at > sign + digits && text[at] == '0') {
        at++;
    }
    return at == size;
}

/* 1.5, .5, -2.5E+10, NaN, Inf */
static bool is_real(const char *text, size_t size)
{
    static const char *const words[] = {"nan", "inf", "-inf", "infinity", "-infinity"};
    double real = 0;
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        if (strlen(words[i]) == size && strncasecmp(words[i], text, size) == 0) {
            return true;
        }
    }
    const bool begins = size > 0 && size <= 30 && strchr("0123456789.-+", text[0]) != NULL;
    const bool has_x = size > 1 && memchr(text, 'x', size) != NULL;
    return begins && !has_x && gy_dml_parse_real(text, size, &real) && isfinite(real);
}

/* SystemDS holds a number as FP32 where a float's digits say as much. */
static gy_dml_column_type type_of_real(const char *text, size_t size)
{
    char copy[32], single[64], whole[64];
    if (size <= 7 || (size == 8 && text[0] == '-') || !isdigit((unsigned char)text[size - 1])) {
        return GY_DML_COLUMN_FP32;
    }
    if (size >= 13) {
        return GY_DML_COLUMN_FP64;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    const double real = strtod(copy, NULL);
    if (real >= 10000 || real < 0.00001) {
        return GY_DML_COLUMN_FP64;
    }
    gy_text a = {.data = NULL}, b = {.data = NULL};
    gy_dml_add_real(&a, real);
    gy_dml_add_single(&b, (float)real);
    return strcmp(gy_text_move(&a, whole, sizeof(whole)),
                  gy_text_move(&b, single, sizeof(single))) == 0
               ? GY_DML_COLUMN_FP32
               : GY_DML_COLUMN_FP64;
}

static bool is_truth(const char *text, size_t size)
{
    static const char *const words[] = {"t", "T", "true",  "TRUE",  "True",  "tRUE",
                                        "f", "F", "false", "FALSE", "False", "fALSE"};
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0) {
            return true;
        }
    }
    if (size == 0 || size > 16 || (text[0] != '0' && text[0] != '1')) {
        return false;
    }
    return size == 1 || (size > 2 && text[1] == '.' && strspn(text + 2, "0") >= size - 2);
}

static bool is_hash(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f')) {
            return false;
        }
    }
    return size >= 4 && size <= 16;
}

gy_dml_column_type gy_dml_schema_of_text(const char *text, size_t size)
{
    if (is_truth(text, size)) {
        return GY_DML_COLUMN_BOOLEAN;
    }
    if (is_whole(text, size)) {
        double real = 0;
        (void)!gy_dml_parse_real(text, size, &real);
        return real >= INT32_MIN && real <= INT32_MAX ? GY_DML_COLUMN_INT32
                                                      : GY_DML_COLUMN_INT64;
    }
    if (is_real(text, size)) {
        return type_of_real(text, size);
    }
    return size == 1              ? GY_DML_COLUMN_CHARACTER
           : !is_hash(text, size) ? GY_DML_COLUMN_STRING
           : size <= 8            ? GY_DML_COLUMN_HASH32
                                  : GY_DML_COLUMN_HASH64;
}

static gy_dml_column_type type_of_double(double real)
{
    if (real == 0 || real == 1) {
        return GY_DML_COLUMN_BOOLEAN;
    }
    if (rint(real) == real && fabs(real) < 0x1p63) {
        return real >= INT32_MIN && real <= INT32_MAX ? GY_DML_COLUMN_INT32
                                                      : GY_DML_COLUMN_INT64;
    }
    return (double)(float)real == real ? GY_DML_COLUMN_FP32 : GY_DML_COLUMN_FP64;
}

/* The narrowest type of a column's cells; -1: none has a value. */
static int detect(const gy_dml_column *column, bool *has_missing)
{
    int type = -1;
    *has_missing = false;
    if (column->type != GY_DML_COLUMN_FP64 &&
        gy_dml_column_storage(column->type) != GY_DML_STORES_TEXT) {
        return (int)column->type;
    }
    for (int64_t i = 0; i < column->count && type != (int)GY_DML_COLUMN_STRING; i++) {
        gy_dml_column_type cell = GY_DML_COLUMN_STRING;
        if (column->type == GY_DML_COLUMN_FP64) {
            cell = type_of_double(column->reals[i]);
        } else if (column->texts[i] == NULL || column->texts[i]->size == 0) {
            *has_missing = true;
            continue;
        } else {
            cell = gy_dml_schema_of_text(column->texts[i]->data, column->texts[i]->size);
        }
        type = type < 0 ? (int)cell
                        : (int)gy_dml_column_type_common((gy_dml_column_type)type, cell);
    }
    *has_missing = *has_missing && type != (int)GY_DML_COLUMN_STRING;
    return type;
}

gy_status gy_dml_schema_detect(const gy_dml_frame *frame, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_new(1, frame->columns, NULL, &made));
    gy_status status = GY_OK;
    for (int64_t j = 0; j < frame->columns && status == GY_OK; j++) {
        char name[32];
        bool has_missing = false;
        const int type = detect(frame->items[j], &has_missing);
        const size_t size =
            gy_print(name, sizeof(name), "%s%s",
                     type < 0 ? "UNKNOWN" : gy_dml_column_type_name((gy_dml_column_type)type),
                     has_missing ? missing_mark : "");
        status = gy_dml_column_set(made->items[j], 0, name, size);
    }
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

gy_status gy_dml_schema_row(const gy_dml_frame *frame, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_new(1, frame->columns, NULL, &made));
    for (int64_t j = 0; j < frame->columns; j++) {
        const char *name = gy_dml_column_type_name(frame->items[j]->type);
        const gy_status status = gy_dml_column_set(made->items[j], 0, name, strlen(name));
        if (status != GY_OK) {
            gy_dml_frame_drop(made);
            return status;
        }
    }
    *out = made;
    return GY_OK;
}

/* One type of a schema; SystemDS's UNKNOWN is kept as strings. */
static gy_status take_type(const char *text, size_t size, int64_t j, gy_dml_column_type *type)
{
    const size_t mark = strlen(missing_mark);
    while (size > 0 && *text == ' ') {
        text++;
        size--;
    }
    while (size > 0 && text[size - 1] == ' ') {
        size--;
    }
    if (size > mark && memcmp(text + size - mark, missing_mark, mark) == 0) {
        size -= mark;
    }
    if ((size == 7 && strncasecmp(text, "UNKNOWN", size) == 0) || (size == 1 && *text == '*')) {
        *type = GY_DML_COLUMN_STRING;
        return GY_OK;
    }
    return gy_dml_column_type_parse(text, size, type)
               ? GY_OK
               : gy_fail(GY_ARG,
                         "the schema's type %lld, \"%.*s\", is none of string, int64, double, "
                         "boolean and the like",
                         (long long)j + 1, (int)GY_MIN(size, 40u), text);
}

gy_status gy_dml_schema_parse(const char *text, int64_t columns, gy_dml_column_type *types)
{
    int64_t count = 0;
    for (const char *at = text;; count++) {
        const size_t size = strcspn(at, ",");
        gy_dml_column_type type = GY_DML_COLUMN_STRING;
        GY_TRY(take_type(at, size, count, &type));
        if (count < columns) {
            types[count] = type;
        }
        if (at[size] == '\0' || at[size + 1] == '\0') { /* SystemDS's files end with a comma */
            break;
        }
        at += size + 1;
    }
    count++;
    for (int64_t j = 1; j < columns && count == 1; j++) {
        types[j] = types[0];
    }
    return count == columns || count == 1
               ? GY_OK
               : gy_fail(GY_ARG, "the schema has %lld types for %lld columns", (long long)count,
                         (long long)columns);
}

gy_status gy_dml_schema_take(const gy_dml_frame *row, gy_dml_column_type *types)
{
    if (row->rows < 1) {
        return gy_fail(GY_SHAPE, "the schema is a frame without a row");
    }
    for (int64_t j = 0; j < row->columns; j++) {
        gy_text text = {.data = NULL};
        gy_dml_column_add(&text, row->items[j], 0);
        const gy_status status = take_type(gy_text_get(&text), text.size_bytes, j, &types[j]);
        gy_text_free(&text);
        GY_TRY(status);
    }
    return GY_OK;
}

gy_status gy_dml_schema_apply(const gy_dml_frame *frame, const gy_dml_column_type *types,
                              gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_open(frame->rows, frame->columns, &made));
    gy_status status = gy_dml_frame_copy_names(made, frame, 0);
    for (int64_t j = 0; j < frame->columns && status == GY_OK; j++) {
        if (types[j] == frame->items[j]->type) {
            made->items[j] = gy_dml_column_hold(frame->items[j]);
            continue;
        }
        status = gy_dml_column_new(types[j], frame->rows, &made->items[j]);
        status = status == GY_OK ? gy_dml_column_set_cells(made->items[j], 0, frame->items[j],
                                                           0, frame->rows)
                                 : status;
        status = status == GY_OK || status == GY_NOMEM
                     ? status
                     : gy_fail_within(status, "column %lld", (long long)j + 1);
    }
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}
