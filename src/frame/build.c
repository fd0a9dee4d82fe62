/* The builder: values appended row by row. */
#include "frame/frame_priv.h"

#include <string.h>

struct gy_frame_builder {
    gy_schema *schema;
    int count, next; /* columns; the one whose value comes next */
    int64_t rows;
    gy_error error; /* the first failure */
    gy_frame_maker makers[];
};

gy_status gy_frame_builder_new(gy_schema *schema, gy_frame_builder **builder)
{
    const int count = gy_schema_count(schema);
    gy_frame_builder *made = gy_alloc_zero(
        "frame.builder", 1, sizeof(*made) + (size_t)count * sizeof(made->makers[0]));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->schema = gy_schema_hold(schema);
    made->count = count;
    for (int i = 0; i < count; i++) {
        made->makers[i].field = *gy_schema_field(schema, i);
    }
    *builder = made;
    return GY_OK;
}

void gy_frame_builder_free(gy_frame_builder *builder)
{
    if (builder == NULL) {
        return;
    }
    for (int i = 0; i < builder->count; i++) {
        gy_frame_maker_fini(&builder->makers[i]);
    }
    gy_schema_drop(builder->schema);
    gy_free(builder);
}

static void keep(gy_frame_builder *builder, gy_status status)
{
    (void)gy_error_keep(&builder->error, status);
}

/* The maker of the next column, with room for a row; NULL: a failure is remembered. `is_kind`:
 * whether a column of kind `is` takes a value of kind `kind`. */
static gy_frame_maker *next_of(gy_frame_builder *builder, gy_field_kind kind)
{
    if (builder->error.status < 0) {
        return NULL;
    }
    if (builder->next >= builder->count) {
        keep(builder, gy_fail(GY_STATE, "row %lld has its %d values: expected its end",
                              (long long)builder->rows, builder->count));
        return NULL;
    }
    gy_frame_maker *maker = &builder->makers[builder->next];
    if (maker->field.kind != kind) {
        keep(builder, gy_fail(GY_TYPE, "column '%s' is of type %s, the value of type %s",
                              maker->field.name, gy_field_kind_name(maker->field.kind),
                              gy_field_kind_name(kind)));
        return NULL;
    }
    const gy_status status = gy_frame_maker_reserve(maker, 1);
    if (status < 0) {
        keep(builder, status);
        return NULL;
    }
    builder->next++;
    return maker;
}

void gy_frame_add_null(gy_frame_builder *builder)
{
    const gy_field_kind kind = builder->next < builder->count
                                   ? builder->makers[builder->next].field.kind
                                   : GY_FIELD_TEXT;
    gy_frame_maker *maker = next_of(builder, kind);
    if (maker != NULL) {
        gy_frame_maker_null(maker);
    }
}

void gy_frame_add_bool(gy_frame_builder *builder, bool value)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_BOOL);
    if (maker != NULL) {
        ((uint8_t *)maker->values)[maker->rows >> 3] |=
            (uint8_t)((unsigned)value << (maker->rows & 7));
        gy_frame_maker_set(maker);
    }
}

void gy_frame_add_int64(gy_frame_builder *builder, int64_t value)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_INT64);
    if (maker != NULL) {
        ((int64_t *)maker->values)[maker->rows] = value;
        gy_frame_maker_set(maker);
    }
}

void gy_frame_add_double(gy_frame_builder *builder, double value)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_DOUBLE);
    if (maker != NULL) {
        ((double *)maker->values)[maker->rows] = value;
        gy_frame_maker_set(maker);
    }
}

static bool has_digits(gy_int128 value, int precision)
{
    gy_int128 limit = 1;
    for (int i = 0; i < precision; i++) {
        limit *= 10;
    }
    return value < limit && value > -limit;
}

void gy_frame_add_decimal(gy_frame_builder *builder, gy_int128 value)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_DECIMAL);
    if (maker == NULL) {
        return;
    }
    if (!has_digits(value, maker->field.precision)) {
        keep(builder, gy_fail(GY_ARG, "column '%s': a value of more than %d digits",
                              maker->field.name, maker->field.precision));
        return;
    }
    ((gy_int128 *)maker->values)[maker->rows] = value;
    gy_frame_maker_set(maker);
}

static void fail_time(gy_frame_builder *builder, const gy_frame_maker *maker, int64_t value,
                      const char *unit)
{
    keep(builder, gy_fail(GY_ARG, "column '%s': %lld %s since 1970: expected years 1 to 9999",
                          maker->field.name, (long long)value, unit));
}

void gy_frame_add_date(gy_frame_builder *builder, int32_t days)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_DATE);
    if (maker == NULL) {
        return;
    }
    if (days < GY_DAYS_MIN || days >= GY_DAYS_END) {
        fail_time(builder, maker, days, "days");
        return;
    }
    ((int32_t *)maker->values)[maker->rows] = days;
    gy_frame_maker_set(maker);
}

void gy_frame_add_timestamp(gy_frame_builder *builder, int64_t micros)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_TIMESTAMP);
    if (maker == NULL) {
        return;
    }
    if (micros < GY_DAYS_MIN * GY_MICROS_A_DAY || micros >= GY_DAYS_END * GY_MICROS_A_DAY) {
        fail_time(builder, maker, micros, "microseconds");
        return;
    }
    ((int64_t *)maker->values)[maker->rows] = micros;
    gy_frame_maker_set(maker);
}

void gy_frame_add_text(gy_frame_builder *builder, const char *data, size_t size_bytes)
{
    gy_frame_maker *maker = next_of(builder, GY_FIELD_TEXT);
    size_t wrong = 0;
    if (maker == NULL) {
        return;
    }
    if (!gy_frame_is_utf8(data, size_bytes, &wrong)) {
        keep(builder, gy_fail(GY_ARG, "column '%s': a text that is no UTF-8 at byte %zu",
                              maker->field.name, wrong));
        return;
    }
    const gy_status status = gy_frame_maker_reserve_text(maker, size_bytes);
    if (status < 0) {
        keep(builder, status);
        return;
    }
    if (size_bytes > 0) {
        memcpy(maker->text + maker->text_bytes, data, size_bytes);
    }
    maker->text_bytes += size_bytes;
    ((int32_t *)maker->values)[maker->rows + 1] = (int32_t)maker->text_bytes;
    gy_frame_maker_set(maker);
}

void gy_frame_row_end(gy_frame_builder *builder)
{
    if (builder->error.status < 0) {
        return;
    }
    if (builder->next < builder->count) {
        keep(builder,
             gy_fail(GY_STATE, "row %lld ends without a value of column '%s'",
                     (long long)builder->rows, builder->makers[builder->next].field.name));
        return;
    }
    builder->next = 0;
    builder->rows++;
}

gy_status gy_frame_finish(gy_frame_builder *builder, gy_frame **frame)
{
    if (builder->error.status < 0) {
        return gy_error_raise(&builder->error);
    }
    if (builder->next != 0) {
        return gy_fail(GY_STATE, "row %lld was begun and not ended", (long long)builder->rows);
    }
    const gy_status status =
        gy_frame_make(builder->schema, builder->makers, builder->rows, frame);
    keep(builder, status);
    builder->rows = 0;
    return status;
}
