/* Types of columns: which fit all values. What was seen of two parts of a file is merged in any
 * order. */
#include "frame/csv/csv_priv.h"

#include <string.h>

enum {
    GUESSED_DIGITS = 18, /* of a decimal whose type was found */
    DOUBLE_DIGITS = 300, /* so many before the point are a double of any digits */
    ALL = 1 << GY_FIELD_BOOL | 1 << GY_FIELD_INT64 | 1 << GY_FIELD_DOUBLE |
          1 << GY_FIELD_DECIMAL | 1 << GY_FIELD_DATE | 1 << GY_FIELD_TIMESTAMP,
};

static bool may_be(const gy_csv_type *type, gy_field_kind kind)
{
    return (type->refused >> kind & 1) == 0;
}

static void refuse(gy_csv_type *type, gy_field_kind kind, bool fits)
{
    type->refused |= (uint8_t)((unsigned)!fits << kind);
}

static void see_number(gy_csv_type *type, gy_text_view value)
{
    int64_t whole_value;
    double number;
    int whole = 0, fraction = 0;
    const bool is_plain = gy_frame_count_digits(value, &whole, &fraction);
    if (may_be(type, GY_FIELD_INT64)) {
        refuse(type, GY_FIELD_INT64,
               is_plain && gy_frame_read_int64(value, GY_READING_STRICT, &whole_value));
    }
    if (may_be(type, GY_FIELD_DOUBLE)) {
        refuse(type, GY_FIELD_DOUBLE,
               (is_plain && whole < DOUBLE_DIGITS && fraction < DOUBLE_DIGITS) ||
                   gy_frame_read_double(value, GY_READING_STRICT, &number));
    }
    refuse(type, GY_FIELD_DECIMAL, is_plain);
    type->whole_max = GY_MAX(type->whole_max, whole);
    type->fraction_max = GY_MAX(type->fraction_max, fraction);
}

static void see(gy_csv_type *type, gy_text_view value)
{
    bool is_true;
    int32_t days;
    int64_t micros;
    type->has_values = true;
    if (may_be(type, GY_FIELD_INT64) || may_be(type, GY_FIELD_DECIMAL) ||
        may_be(type, GY_FIELD_DOUBLE)) {
        see_number(type, value);
    }
    if (may_be(type, GY_FIELD_BOOL)) {
        refuse(type, GY_FIELD_BOOL, gy_frame_read_bool(value, GY_READING_STRICT, &is_true));
    }
    if (may_be(type, GY_FIELD_DATE)) {
        refuse(type, GY_FIELD_DATE, gy_frame_read_date(value, GY_READING_STRICT, &days));
    }
    if (may_be(type, GY_FIELD_TIMESTAMP)) {
        refuse(type, GY_FIELD_TIMESTAMP,
               gy_frame_read_timestamp(value, GY_READING_STRICT, &micros));
    }
}

static size_t take_types(void *arg, const gy_csv_block *block, gy_status *status)
{
    gy_csv_types *types = arg;
    for (int i = 0; i < types->count; i++) {
        gy_csv_type *type = &types->types[i];
        for (size_t row = 0; row < block->rows && type->refused != ALL; row++) {
            gy_text_view value = gy_csv_field(block, row, (size_t)types->indices[i]);
            if (gy_csv_is_null(value, types->null_text)) {
                continue;
            }
            if (value.data[0] == '"') {
                value = gy_csv_unquote(value, &types->scratch);
            }
            see(type, value);
        }
    }
    *status = types->scratch.status;
    return block->rows;
}

gy_csv_visitor gy_csv_types_visitor(gy_csv_types *types)
{
    return (gy_csv_visitor){.take = take_types, .arg = types};
}

void gy_csv_type_merge(gy_csv_type *into, const gy_csv_type *from)
{
    into->refused |= from->refused;
    into->has_values = into->has_values || from->has_values;
    into->whole_max = GY_MAX(into->whole_max, from->whole_max);
    into->fraction_max = GY_MAX(into->fraction_max, from->fraction_max);
}

void gy_csv_type_choose(const gy_csv_type *type, gy_field *field)
{
    static const gy_field_kind order[] = {GY_FIELD_INT64, GY_FIELD_DECIMAL, GY_FIELD_DOUBLE,
                                          GY_FIELD_BOOL,  GY_FIELD_DATE,    GY_FIELD_TIMESTAMP};
    field->kind = GY_FIELD_TEXT;
    field->precision = field->scale = 0;
    for (size_t i = 0; i < GY_COUNT(order) && type->has_values; i++) {
        const bool is_decimal = order[i] == GY_FIELD_DECIMAL;
        if (may_be(type, order[i]) &&
            (!is_decimal || type->whole_max + type->fraction_max <= GUESSED_DIGITS)) {
            field->kind = order[i];
            field->precision = is_decimal ? GUESSED_DIGITS : 0;
            field->scale = is_decimal ? type->fraction_max : 0;
            return;
        }
    }
}
