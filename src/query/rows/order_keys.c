/*
 * Normalised keys: the bytes of a key compare (memcmp) as its rows do. Each column gives a byte
 * for null or value, and its value with the most significant byte first; a descending column's
 * bytes are complemented. A text ends in a zero byte, which it has nowhere else.
 */
#include "query/rows/rows_priv.h"

#include "mapreduce/sort.h"

enum { NULL_BYTE = 1, TEXT_END = 1 };

static size_t value_bytes(gy_field_kind kind)
{
    switch (kind) {
    case GY_FIELD_BOOL:
        return 1;
    case GY_FIELD_DECIMAL:
        return 16;
    case GY_FIELD_TEXT:
        return 0;
    case GY_FIELD_INT64:
    case GY_FIELD_DOUBLE:
    case GY_FIELD_DATE:
    case GY_FIELD_TIMESTAMP:
    default:
        return 8;
    }
}

/* What a row that is not null has, in so many bytes of a word; not decimal or text. */
static inline uint64_t word_of(const gy_column *column, int64_t row)
{
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
        return gy_column_bool(column, row);
    case GY_FIELD_DATE:
        return gy_rows_order_int64(gy_column_date(column, row));
    case GY_FIELD_DOUBLE:
        return gy_rows_order_double(gy_column_double(column, row));
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    case GY_FIELD_DECIMAL:
    case GY_FIELD_TEXT:
    default:
        return gy_rows_order_int64(gy_column_int64(column, row));
    }
}

static char *put_word(char *to, uint64_t word)
{
    word = __builtin_bswap64(word);
    memcpy(to, &word, sizeof(word));
    return to + sizeof(word);
}

/* Write a value; the position behind it. */
static char *put_value(char *to, const gy_column *column, int64_t row)
{
    if (column->field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        if (text.size_bytes > 0) {
            memcpy(to, text.data, text.size_bytes);
        }
        to[text.size_bytes] = '\0';
        return to + text.size_bytes + TEXT_END;
    }
    if (column->field->kind == GY_FIELD_DECIMAL) {
        const gy_int128 value = gy_column_decimal(column, row);
        to = put_word(to, gy_rows_order_int64((int64_t)(value >> 64)));
        return put_word(to, (uint64_t)value);
    }
    if (column->field->kind == GY_FIELD_BOOL) {
        *to = (char)word_of(column, row);
        return to + 1;
    }
    return put_word(to, word_of(column, row));
}

/* Bytes of a row's key in one column; nulls of fixed width have zeros, so that widths agree. */
static size_t size_of(const gy_column *column, int64_t row)
{
    const size_t fixed = NULL_BYTE + value_bytes(column->field->kind);
    if (column->field->kind != GY_FIELD_TEXT || gy_column_is_null(column, row)) {
        return fixed;
    }
    return fixed + gy_column_text(column, row).size_bytes + TEXT_END;
}

static gy_status make_room(gy_rows_order_keys *out, const gy_frame *frame,
                           const gy_rows_sort_key *keys, int key_count)
{
    const int64_t rows = gy_frame_rows(frame);
    GY_TRY(GY_GROW("query.order", out->starts, out->start_capacity, (size_t)rows + 1));
    memset(out->starts, 0, ((size_t)rows + 1) * sizeof(*out->starts));
    for (int k = 0; k < key_count; k++) {
        const gy_column column = gy_frame_column(frame, keys[k].column);
        for (int64_t i = 0; i < rows; i++) {
            out->starts[i + 1] += size_of(&column, i);
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        out->starts[i + 1] += out->starts[i];
    }
    /* and a word, so that the last key's first word can be loaded */
    return GY_GROW("query.order", out->bytes, out->capacity,
                   (size_t)out->starts[rows] + sizeof(uint64_t));
}

gy_status gy_rows_order_encode(const gy_frame *frame, const gy_rows_sort_key *keys,
                               int key_count, gy_rows_order_keys *out)
{
    const int64_t rows = gy_frame_rows(frame);
    GY_TRY(make_room(out, frame, keys, key_count));
    uint64_t *ends = gy_alloc("query.order", ((size_t)rows + 1) * sizeof(*ends));
    if (ends == NULL) {
        return GY_NOMEM;
    }
    memcpy(ends, out->starts, (size_t)rows * sizeof(*ends));
    for (int k = 0; k < key_count; k++) {
        const gy_column column = gy_frame_column(frame, keys[k].column);
        const size_t fixed = value_bytes(column.field->kind);
        for (int64_t i = 0; i < rows; i++) {
            char *to = out->bytes + ends[i], *begin = to + NULL_BYTE;
            const bool is_null = gy_column_is_null(&column, i);
            *to = (char)(is_null != keys[k].nulls_first);
            if (is_null) {
                memset(begin, 0, fixed);
                ends[i] += NULL_BYTE + fixed;
                continue;
            }
            char *end = put_value(begin, &column, i);
            for (char *at = begin; at < end && keys[k].is_descending; at++) {
                *at = (char)~*at;
            }
            ends[i] = (uint64_t)(end - out->bytes);
        }
    }
    out->rows = rows;
    GY_ASSERT(rows == 0 || ends[rows - 1] == out->starts[rows]);
    gy_free(ends);
    return GY_OK;
}

void gy_rows_order_keys_free(gy_rows_order_keys *keys)
{
    gy_free(keys->bytes);
    gy_free(keys->starts);
    *keys = (gy_rows_order_keys){.rows = 0};
}

/* ---- order of rows ---- */

/* One column that is a word: nulls stay in their order before or behind the others. */
static void order_words(const gy_column *column, const gy_rows_sort_key *key, gy_entry *entries,
                        gy_entry *scratch, int32_t *order)
{
    const int64_t nulls = gy_column_nulls(column);
    const uint64_t flip = key->is_descending ? UINT64_MAX : 0;
    int64_t count = 0, null_at = key->nulls_first ? 0 : column->rows - nulls;
    for (int64_t i = 0; i < column->rows; i++) {
        if (nulls > 0 && gy_column_is_null(column, i)) {
            order[null_at++] = (int32_t)i;
        } else {
            entries[count++] =
                (gy_entry){.prefix = word_of(column, i) ^ flip, .position = (uint64_t)i};
        }
    }
    gy_mapreduce_entries_sort_words(entries, scratch, (size_t)count);
    int32_t *to = order + (key->nulls_first ? nulls : 0);
    for (int64_t i = 0; i < count; i++) {
        to[i] = (int32_t)entries[i].position;
    }
}

/* Keys as records of the sort: the key, and as value the row. */
static gy_status make_records(const gy_rows_order_keys *keys, gy_entry *entries, char **records,
                              size_t *size_bytes)
{
    enum { HEAD_MOST = GY_VARINT_BYTES + 1, ROW_BYTES = sizeof(uint32_t) };
    const size_t rows = (size_t)keys->rows;
    const size_t room = rows * (HEAD_MOST + ROW_BYTES) + (size_t)keys->starts[rows];
    char *to = gy_alloc("query.order", room + 1);
    if (to == NULL) {
        return GY_NOMEM;
    }
    *records = to;
    for (size_t i = 0; i < rows; i++) {
        const char *key = keys->bytes + keys->starts[i];
        const size_t size = (size_t)(keys->starts[i + 1] - keys->starts[i]);
        const uint32_t row = (uint32_t)i;
        entries[i] = (gy_entry){.prefix = gy_sort_word(key, size),
                                .position = gy_sort_position(0, (size_t)(to - *records))};
        to += gy_sort_varint_put(to, size);
        to += gy_sort_varint_put(to, ROW_BYTES);
        memcpy(to, key, size);
        memcpy(to + size, &row, ROW_BYTES);
        to += size + ROW_BYTES;
    }
    *size_bytes = (size_t)(to - *records);
    GY_ASSERT(*size_bytes <= room);
    return GY_OK;
}

static gy_status order_keys(const gy_frame *frame, const gy_rows_sort_key *keys, int key_count,
                            gy_entry *entries, int32_t *order)
{
    static const gy_sort_layout layout = {.kind = GY_LAYOUT_FRAMED, .key = GY_KEY_BYTES};
    const size_t rows = (size_t)gy_frame_rows(frame);
    gy_rows_order_keys encoded = {.rows = 0};
    char *bytes = NULL;
    size_t size_bytes = 0;
    gy_status status = gy_rows_order_encode(frame, keys, key_count, &encoded);
    if (status == GY_OK) {
        status = make_records(&encoded, entries, &bytes, &size_bytes);
    }
    gy_rows_order_keys_free(&encoded);
    if (status == GY_OK) {
        const gy_sort_span span = {.data = bytes, .size_bytes = size_bytes};
        const gy_sort_records records = {.layout = &layout, .spans = &span, .span_count = 1};
        gy_mapreduce_entries_sort(&records, entries, entries + rows, rows, 0);
        for (size_t i = 0; i < rows; i++) {
            uint32_t row;
            memcpy(&row, gy_sort_item_at(&records, entries[i].position).value, sizeof(row));
            order[i] = (int32_t)row;
        }
    }
    gy_free(bytes);
    return status;
}

gy_status gy_rows_order(const gy_frame *frame, const gy_rows_sort_key *keys, int key_count,
                        int32_t *order)
{
    const size_t rows = (size_t)gy_frame_rows(frame);
    gy_entry *entries = gy_alloc("query.order", (2 * rows + 1) * sizeof(*entries));
    if (entries == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    const gy_column first =
        key_count == 0 ? (gy_column){.rows = 0} : gy_frame_column(frame, keys[0].column);
    if (key_count == 0) {
        for (size_t i = 0; i < rows; i++) {
            order[i] = (int32_t)i;
        }
    } else if (key_count == 1 && first.field->kind != GY_FIELD_DECIMAL &&
               first.field->kind != GY_FIELD_TEXT) {
        order_words(&first, &keys[0], entries, entries + rows, order);
    } else {
        status = order_keys(frame, keys, key_count, entries, order);
    }
    gy_free(entries);
    return status;
}
