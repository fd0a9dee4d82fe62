/* Fields of rows parsed into columns, a column of a block at a time. */
#include "frame/csv/csv_priv.h"

#include <assert.h>
#include <string.h>

enum { DIGITS_FAST = 18 }; /* of an int64_t, without a check for overflow */

gy_text_view gy_csv_unquote(gy_text_view field, gy_text *scratch)
{
    GY_ASSERT(field.size_bytes >= 2);
    const char *from = field.data + 1, *const end = field.data + field.size_bytes - 1;
    const char *quote = memchr(from, '"', (size_t)(end - from));
    if (quote == NULL) {
        return (gy_text_view){from, (size_t)(end - from)};
    }
    scratch->size_bytes = 0;
    while (quote != NULL) {
        gy_text_add_bytes(scratch, from, (size_t)(quote + 1 - from));
        from = quote + 2; /* of two the first was taken */
        quote = from < end ? memchr(from, '"', (size_t)(end - from)) : NULL;
    }
    if (from < end) {
        gy_text_add_bytes(scratch, from, (size_t)(end - from));
    }
    return (gy_text_view){gy_text_get(scratch), scratch->size_bytes};
}

/* The value of a row's field; false: it is null. */
static inline bool take_value(gy_csv_columns *columns, const gy_csv_block *block, size_t row,
                              size_t column, gy_text_view *value)
{
    *value = gy_csv_field(block, row, column);
    if (gy_csv_is_null(*value, columns->null_text)) {
        return false;
    }
    if (block->has_quotes && value->data[0] == '"') {
        *value = gy_csv_unquote(*value, &columns->scratch);
    }
    return true;
}

/* Parse column `column` of the first `rows` rows; the first row that does not fit, or `rows`.
 * Room is there. */
typedef size_t (*parse_column)(gy_csv_columns *columns, gy_frame_maker *maker,
                               const gy_csv_block *block, size_t column, size_t rows);

#define EACH_VALUE(fits)                                                                       \
    for (size_t row = 0; row < rows; row++) {                                                  \
        gy_text_view value;                                                                    \
        if (!take_value(columns, block, row, column, &value)) {                                \
            gy_frame_maker_null(maker);                                                        \
            continue;                                                                          \
        }                                                                                      \
        if (!(fits)) {                                                                         \
            return row;                                                                        \
        }                                                                                      \
        gy_frame_maker_set(maker);                                                             \
    }                                                                                          \
    return rows

static inline bool put_bool(const gy_frame_maker *maker, gy_text_view value,
                            gy_frame_reading how)
{
    bool is_true = false;
    uint8_t *bits = maker->values;
    const bool fits = gy_frame_read_bool(value, how, &is_true);
    bits[maker->rows >> 3] |= (uint8_t)((unsigned)is_true << (maker->rows & 7));
    return fits;
}

static size_t parse_bool(gy_csv_columns *columns, gy_frame_maker *maker,
                         const gy_csv_block *block, size_t column, size_t rows)
{
    EACH_VALUE(put_bool(maker, value, columns->how));
}

/* A few digits without leading zeros; false: look more closely. */
static inline bool parse_digits(gy_text_view text, int64_t *value)
{
    const bool is_negative = text.size_bytes > 0 && text.data[0] == '-';
    const char *at = text.data + is_negative;
    const size_t count = text.size_bytes - is_negative;
    if (count - 1 >= DIGITS_FAST || (*at == '0' && text.size_bytes > 1)) {
        return false;
    }
    uint64_t sum = 0;
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned digit = (unsigned)(unsigned char)at[i] - '0';
        bad |= digit > 9;
        sum = sum * 10 + digit;
    }
    *value = (int64_t)(is_negative ? 0 - sum : sum);
    return bad == 0;
}

static size_t parse_int64(gy_csv_columns *columns, gy_frame_maker *maker,
                          const gy_csv_block *block, size_t column, size_t rows)
{
    int64_t *values = maker->values;
    EACH_VALUE(parse_digits(value, &values[maker->rows]) ||
               gy_frame_read_int64(value, columns->how, &values[maker->rows]));
}

static size_t parse_double(gy_csv_columns *columns, gy_frame_maker *maker,
                           const gy_csv_block *block, size_t column, size_t rows)
{
    double *values = maker->values;
    EACH_VALUE(gy_frame_read_double(value, columns->how, &values[maker->rows]));
}

static size_t parse_decimal(gy_csv_columns *columns, gy_frame_maker *maker,
                            const gy_csv_block *block, size_t column, size_t rows)
{
    gy_int128 *values = maker->values;
    EACH_VALUE(gy_frame_read_decimal(value, columns->how, &maker->field, &values[maker->rows]));
}

static size_t parse_date(gy_csv_columns *columns, gy_frame_maker *maker,
                         const gy_csv_block *block, size_t column, size_t rows)
{
    int32_t *values = maker->values;
    EACH_VALUE(gy_frame_read_date(value, columns->how, &values[maker->rows]));
}

static size_t parse_timestamp(gy_csv_columns *columns, gy_frame_maker *maker,
                              const gy_csv_block *block, size_t column, size_t rows)
{
    int64_t *values = maker->values;
    EACH_VALUE(gy_frame_read_timestamp(value, columns->how, &values[maker->rows]));
}

enum { COPY_BYTES = 16 };
static_assert((int)COPY_BYTES <= (int)GY_CSV_SLACK_BYTES,
              "a short text is copied with what follows it");

/* Append a text; behind what was appended are COPY_BYTES of room. */
static inline bool put_text(gy_frame_maker *maker, const gy_csv_block *block,
                            gy_text_view value)
{
    char *to = maker->text + maker->text_bytes;
    const bool is_in_block =
        value.data >= block->text && value.data <= block->text + block->size_bytes;
    if (is_in_block && value.size_bytes <= COPY_BYTES) {
        memcpy(to, value.data, COPY_BYTES);
    } else {
        memcpy(to, value.data, value.size_bytes);
    }
    maker->text_bytes += value.size_bytes;
    ((int32_t *)maker->values)[maker->rows + 1] = (int32_t)maker->text_bytes;
    return true;
}

static size_t parse_text(gy_csv_columns *columns, gy_frame_maker *maker,
                         const gy_csv_block *block, size_t column, size_t rows)
{
    EACH_VALUE(put_text(maker, block, value));
}

static const parse_column parsers[] = {
    [GY_FIELD_BOOL] = parse_bool,     [GY_FIELD_INT64] = parse_int64,
    [GY_FIELD_DOUBLE] = parse_double, [GY_FIELD_DECIMAL] = parse_decimal,
    [GY_FIELD_DATE] = parse_date,     [GY_FIELD_TIMESTAMP] = parse_timestamp,
    [GY_FIELD_TEXT] = parse_text,
};

/* Room for the rows of a block. */
static gy_status reserve(gy_frame_maker *maker, const gy_csv_block *block, size_t column)
{
    GY_TRY(gy_frame_maker_reserve(maker, (int64_t)block->rows));
    if (maker->field.kind != GY_FIELD_TEXT) {
        return GY_OK;
    }
    size_t size = COPY_BYTES;
    for (size_t row = 0; row < block->rows; row++) {
        size += gy_csv_field(block, row, column).size_bytes;
    }
    return gy_frame_maker_reserve_text(maker, size);
}

/* Of a column without values in the sample, which has no type yet: nulls alone. */
static size_t parse_none(gy_csv_columns *columns, gy_frame_maker *maker,
                         const gy_csv_block *block, size_t column, size_t rows)
{
    EACH_VALUE(false);
}

static size_t take_columns(void *arg, const gy_csv_block *block, gy_status *status)
{
    gy_csv_columns *columns = arg;
    size_t rows = block->rows;
    for (int i = 0; i < gy_schema_count(columns->schema); i++) {
        gy_frame_maker *maker = &columns->makers[i];
        const size_t column = (size_t)columns->indices[i];
        *status = reserve(maker, block, column);
        if (*status < 0) {
            return 0;
        }
        const bool is_empty = columns->is_empty != NULL && columns->is_empty[i];
        const parse_column parse = is_empty ? parse_none : parsers[maker->field.kind];
        const size_t fit = parse(columns, maker, block, column, rows);
        if (fit < rows) { /* the first row that does not fit decides, not the first column */
            rows = fit;
            columns->failed = i;
        }
    }
    *status = columns->scratch.status;
    columns->rows += (int64_t)rows;
    return rows;
}

static gy_status refuse_value(void *arg, const gy_csv_block *block, size_t row,
                              const char *place)
{
    gy_csv_columns *columns = arg;
    const gy_field *field = gy_schema_field(columns->schema, columns->failed);
    const gy_text_view value =
        gy_csv_field(block, row, (size_t)columns->indices[columns->failed]);
    char shown[128], name[64], digits[32] = "";
    (void)gy_printable(shown, sizeof(shown), value.data, value.size_bytes, "");
    (void)gy_printable(name, sizeof(name), field->name, strlen(field->name), "");
    if (field->kind == GY_FIELD_DECIMAL) {
        (void)gy_print(digits, sizeof(digits), "(%d, %d)", field->precision, field->scale);
    }
    const bool is_guess = columns->how == GY_READING_STRICT;
    if (columns->is_empty != NULL && columns->is_empty[columns->failed]) {
        return gy_fail(GY_TYPE, "%s: %s in column '%s', which is empty in the first rows",
                       place, shown, name);
    }
    return gy_fail(is_guess ? GY_TYPE : GY_FORMAT, "%s: %s in column '%s' is no %s%s%s", place,
                   shown, name, gy_field_kind_name(field->kind), digits,
                   is_guess ? ", the type that its first rows have" : "");
}

gy_status gy_csv_columns_init(gy_csv_columns *columns, const gy_schema *schema,
                              const int *indices, gy_frame_reading how)
{
    const int count = gy_schema_count(schema);
    *columns = (gy_csv_columns){.schema = schema, .indices = indices, .how = how};
    columns->makers = gy_alloc_zero("frame.csv", (size_t)count, sizeof(*columns->makers));
    for (int i = 0; i < count && columns->makers != NULL; i++) {
        columns->makers[i].field = *gy_schema_field(schema, i);
    }
    return columns->makers != NULL ? GY_OK : GY_NOMEM;
}

void gy_csv_columns_fini(gy_csv_columns *columns)
{
    for (int i = 0; i < gy_schema_count(columns->schema) && columns->makers != NULL; i++) {
        gy_frame_maker_fini(&columns->makers[i]);
    }
    gy_free(columns->makers);
    gy_text_free(&columns->scratch);
}

gy_csv_visitor gy_csv_columns_visitor(gy_csv_columns *columns)
{
    return (gy_csv_visitor){.take = take_columns, .refuse = refuse_value, .arg = columns};
}
