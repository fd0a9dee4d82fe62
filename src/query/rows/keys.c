/* Keys of groups and joins: hashes of columns, keys as words of a record, and back. */
#include "query/rows/rows_priv.h"

#include "base/hash.h"

#define NULL_HASH UINT64_C(0x2545f4914f6cdd1d)

/* The bits of a double; -0 is 0, all NaN are one. */
static inline uint64_t double_bits(double value)
{
    uint64_t bits;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof(bits));
    return value != value ? UINT64_C(0x7ff8000000000000) : bits;
}

/* What stands in a row, one word. */
static inline uint64_t word_of(const gy_column *column, int64_t row)
{
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
        return gy_column_bool(column, row);
    case GY_FIELD_DATE:
        return (uint64_t)(int64_t)gy_column_date(column, row);
    case GY_FIELD_DOUBLE:
        return double_bits(gy_column_double(column, row));
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    case GY_FIELD_DECIMAL:
    case GY_FIELD_TEXT:
    default:
        return (uint64_t)gy_column_int64(column, row);
    }
}

static uint64_t hash_of(const gy_column *column, int64_t row)
{
    if (gy_column_is_null(column, row)) {
        return NULL_HASH;
    }
    if (column->field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        return gy_hash(text.data, text.size_bytes, 0);
    }
    if (column->field->kind == GY_FIELD_DECIMAL) {
        const gy_int128 value = gy_column_decimal(column, row);
        return gy_rows_mix((uint64_t)value ^ gy_rows_mix((uint64_t)(value >> 64) + 1));
    }
    return gy_rows_mix(word_of(column, row) + UINT64_C(0x9e3779b97f4a7c15));
}

void gy_rows_hash_range(const gy_frame *frame, const int *columns, int column_count,
                        int64_t begin, int64_t count, uint64_t *hashes)
{
    for (int64_t i = 0; i < count; i++) {
        hashes[i] = 0;
    }
    for (int k = 0; k < column_count; k++) {
        const gy_column column = gy_frame_column(frame, columns[k]);
        if (column.field->kind == GY_FIELD_INT64 && column.valid == NULL) {
            const int64_t *values = (const int64_t *)column.values + column.offset + begin;
            for (int64_t i = 0; i < count; i++) {
                hashes[i] = hashes[i] * UINT64_C(0xff51afd7ed558ccd) +
                            gy_rows_mix((uint64_t)values[i] + UINT64_C(0x9e3779b97f4a7c15));
            }
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            hashes[i] = hashes[i] * UINT64_C(0xff51afd7ed558ccd) + hash_of(&column, begin + i);
        }
    }
}

void gy_rows_hash(const gy_frame *frame, const int *columns, int count, uint64_t *hashes)
{
    gy_rows_hash_range(frame, columns, count, 0, gy_frame_rows(frame), hashes);
}

gy_status gy_rows_key_layout_init(gy_rows_key_layout *layout, const gy_schema *schema,
                                  const int *columns, int count)
{
    const int null_words = count <= 64 ? 1 : (count + 63) / 64;
    *layout = (gy_rows_key_layout){.column_count = count, .words = null_words};
    layout->columns = gy_alloc_zero("query.keys", (size_t)count + 1, sizeof(int));
    layout->offsets = gy_alloc_zero("query.keys", (size_t)count + 1, sizeof(int));
    layout->kinds = gy_alloc_zero("query.keys", (size_t)count + 1, sizeof(gy_field_kind));
    if (layout->columns == NULL || layout->offsets == NULL || layout->kinds == NULL) {
        gy_rows_key_layout_fini(layout);
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        const gy_field_kind kind = gy_schema_field(schema, columns[i])->kind;
        layout->columns[i] = columns[i];
        layout->kinds[i] = kind;
        layout->offsets[i] = layout->words;
        layout->words += kind == GY_FIELD_DECIMAL || kind == GY_FIELD_TEXT ? 2 : 1;
        layout->has_text |= kind == GY_FIELD_TEXT;
    }
    return GY_OK;
}

void gy_rows_key_layout_fini(gy_rows_key_layout *layout)
{
    gy_free(layout->columns);
    gy_free(layout->offsets);
    gy_free(layout->kinds);
    *layout = (gy_rows_key_layout){.words = 0};
}

void gy_rows_value_write(const gy_column *column, int64_t row, uint64_t *to)
{
    if (column->field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        gy_rows_text_put(to, text.data, text.size_bytes);
    } else if (column->field->kind == GY_FIELD_DECIMAL) {
        const gy_int128 value = gy_column_decimal(column, row);
        to[0] = (uint64_t)value;
        to[1] = (uint64_t)(value >> 64);
    } else {
        to[0] = word_of(column, row);
    }
}

void gy_rows_keys_write(const gy_rows_key_layout *layout, const gy_frame *frame, int64_t begin,
                        int64_t count, uint64_t *keys, size_t stride)
{
    /* the words of a null are zero, so that equal keys have equal words */
    for (int64_t i = 0; i < count; i++) {
        memset(keys + (size_t)i * stride, 0, (size_t)layout->words * sizeof(uint64_t));
    }
    for (int k = 0; k < layout->column_count; k++) {
        const gy_column column = gy_frame_column(frame, layout->columns[k]);
        uint64_t *to = keys + layout->offsets[k];
        if (column.field->kind == GY_FIELD_INT64 && column.valid == NULL) {
            const int64_t *values = (const int64_t *)column.values + column.offset + begin;
            for (int64_t i = 0; i < count; i++) {
                to[(size_t)i * stride] = (uint64_t)values[i];
            }
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            if (gy_column_is_null(&column, begin + i)) {
                keys[(size_t)i * stride + (size_t)(k >> 6)] |= UINT64_C(1) << (k & 63);
            } else {
                gy_rows_value_write(&column, begin + i, to + (size_t)i * stride);
            }
        }
    }
}

bool gy_rows_keys_equal_texts(const gy_rows_key_layout *layout, const uint64_t *a,
                              const uint64_t *b)
{
    if (memcmp(a, b, (size_t)layout->offsets[0] * sizeof(*a)) != 0) {
        return false; /* nulls */
    }
    for (int k = 0; k < layout->column_count; k++) {
        const uint64_t *x = a + layout->offsets[k], *y = b + layout->offsets[k];
        if (x[0] != y[0]) {
            return false;
        }
        if (layout->kinds[k] == GY_FIELD_DECIMAL && x[1] != y[1]) {
            return false;
        }
        if (layout->kinds[k] == GY_FIELD_TEXT && x[1] != y[1]) {
            const gy_text_view left = gy_rows_text_get(x), right = gy_rows_text_get(y);
            if (left.size_bytes <= GY_ROWS_TEXT_INLINE ||
                memcmp(left.data, right.data, left.size_bytes) != 0) {
                return false;
            }
        }
    }
    return true;
}

int gy_rows_keys_compare(const gy_rows_key_layout *layout, const uint64_t *a, const uint64_t *b)
{
    const int nulls = layout->column_count == 0 ? 1 : layout->offsets[0];
    int order = memcmp(a, b, (size_t)nulls * sizeof(*a));
    for (int k = 0; k < layout->column_count && order == 0; k++) {
        const uint64_t *x = a + layout->offsets[k], *y = b + layout->offsets[k];
        if (layout->kinds[k] == GY_FIELD_TEXT) {
            const gy_text_view left = gy_rows_text_get(x), right = gy_rows_text_get(y);
            order = memcmp(left.data, right.data, GY_MIN(left.size_bytes, right.size_bytes));
            order = order != 0 ? order
                               : (left.size_bytes > right.size_bytes) -
                                     (left.size_bytes < right.size_bytes);
        } else if (layout->kinds[k] == GY_FIELD_DECIMAL && x[1] != y[1]) {
            order = x[1] < y[1] ? -1 : 1;
        } else {
            order = (x[0] > y[0]) - (x[0] < y[0]);
        }
    }
    return order;
}

gy_status gy_rows_value_append(gy_frame_maker *maker, const uint64_t *word)
{
    const int64_t row = maker->rows;
    switch (maker->field.kind) {
    case GY_FIELD_BOOL:
        ((uint8_t *)maker->values)[row >> 3] |= (uint8_t)((word[0] & 1) << (row & 7));
        break;
    case GY_FIELD_DATE:
        ((int32_t *)maker->values)[row] = (int32_t)(int64_t)word[0];
        break;
    case GY_FIELD_DECIMAL:
        memcpy((char *)maker->values + 16 * row, word, 16);
        break;
    case GY_FIELD_TEXT: {
        const gy_text_view text = gy_rows_text_get(word);
        GY_TRY(gy_frame_maker_reserve_text(maker, text.size_bytes));
        memcpy(maker->text + maker->text_bytes, text.data, text.size_bytes);
        maker->text_bytes += text.size_bytes;
        ((int32_t *)maker->values)[row + 1] = (int32_t)maker->text_bytes;
        break;
    }
    case GY_FIELD_INT64:
    case GY_FIELD_DOUBLE:
    case GY_FIELD_TIMESTAMP:
    default:
        ((uint64_t *)maker->values)[row] = word[0];
        break;
    }
    gy_frame_maker_set(maker);
    return GY_OK;
}

gy_status gy_rows_keys_append(const gy_rows_key_layout *layout, int column,
                              const uint64_t *const *keys, int64_t count, gy_frame_maker *maker)
{
    GY_ASSERT(column < layout->column_count && maker->field.kind == layout->kinds[column]);
    GY_TRY(gy_frame_maker_reserve(maker, count));
    for (int64_t i = 0; i < count; i++) {
        if ((keys[i][column >> 6] >> (column & 63) & 1) != 0) {
            gy_frame_maker_null(maker);
        } else {
            GY_TRY(gy_rows_value_append(maker, keys[i] + layout->offsets[column]));
        }
    }
    return GY_OK;
}
