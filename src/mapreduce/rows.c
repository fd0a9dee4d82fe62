/* Encodes and decodes rows. */
#include "mapreduce/rows_priv.h"

#include "base/base.h"

#include <string.h>

gy_status gy_outlet_flush(gy_outlet *outlet)
{
    if (outlet->used == 0) {
        return GY_OK;
    }
    const size_t size = outlet->used;
    outlet->used = 0;
    outlet->flushed += size;
    return outlet->sink.write(outlet->sink.arg, outlet->buffer, size);
}

gy_status gy_outlet_make_room(gy_outlet *outlet, size_t size_bytes)
{
    if (outlet->buffer == NULL) {
        outlet->capacity = GY_MAX(outlet->capacity, size_bytes);
        outlet->buffer = gy_alloc("mapreduce.out", outlet->capacity);
        return outlet->buffer != NULL ? GY_OK : GY_NOMEM;
    }
    GY_TRY(gy_outlet_flush(outlet));
    if (outlet->capacity < size_bytes) {
        char *larger = gy_resize("mapreduce.out", outlet->buffer, size_bytes);
        if (larger == NULL) {
            return GY_NOMEM;
        }
        outlet->buffer = larger;
        outlet->capacity = size_bytes;
    }
    return GY_OK;
}

gy_status gy_outlet_add(gy_outlet *outlet, const void *data, size_t size_bytes)
{
    /* large data bypass the buffer */
    if (outlet->buffer != NULL && size_bytes > outlet->capacity) {
        GY_TRY(gy_outlet_flush(outlet));
        outlet->flushed += size_bytes;
        return outlet->sink.write(outlet->sink.arg, data, size_bytes);
    }
    GY_TRY(gy_outlet_room(outlet, size_bytes));
    if (size_bytes > 0) {
        memcpy(outlet->buffer + outlet->used, data, size_bytes);
    }
    outlet->used += size_bytes;
    return GY_OK;
}

void gy_outlet_free(gy_outlet *outlet)
{
    gy_free(outlet->buffer);
    outlet->buffer = NULL;
}

static inline void store8(char *out, uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(out, &value, sizeof(value));
}

gy_status gy_row_put(gy_outlet *outlet, const gy_row *row, bool is_list)
{
    const size_t list_size = is_list ? row->list_size : 0;
    GY_TRY(
        gy_outlet_room(outlet, GY_ROW_HEAD_BYTES + row->key_size + GY_COPY_SLACK + list_size));
    char *out = outlet->buffer + outlet->used, *const from = out;
    store8(out, row->hash);
    out += sizeof(uint64_t);
    out += gy_sort_varint_put(out, row->key_size);
    out += gy_sort_varint_put(out, is_list ? list_size : gy_zigzag(row->number));
    gy_copy_loosely(out, row->key, row->key_size);
    out += row->key_size;
    if (list_size > 0) {
        memcpy(out, row->list, list_size);
        out += list_size;
    }
    outlet->used += (size_t)(out - from);
    return GY_OK;
}

gy_status gy_mapreduce_rows_new(gy_byte_source source, bool is_list, gy_mapreduce_rows **rows)
{
    gy_mapreduce_rows *made = gy_alloc_zero("mapreduce.rows", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->source = source;
    made->is_list = is_list;
    *rows = made;
    return GY_OK;
}

void gy_mapreduce_rows_free(gy_mapreduce_rows *rows)
{
    if (rows != NULL) {
        gy_free(rows->joined);
        gy_free(rows);
    }
}

enum { ROW_WRONG = -1, ROW_CUT = 0, ROW_WHOLE = 1 };

/* Decode the row at `from`. `*size`: its size, or for a truncated row the least number of
 * bytes to read. */
static inline int parse(const gy_mapreduce_rows *rows, const char *from, const char *end,
                        gy_row *row, size_t *size)
{
    *size = GY_ROW_HEAD_BYTES;
    if (end - from < (ptrdiff_t)sizeof(uint64_t)) {
        return ROW_CUT;
    }
    const char *at = from + sizeof(uint64_t);
    uint64_t key_size = 0, value = 0;
    const char *next = gy_sort_varint_get(at, end, &key_size);
    if (next != NULL) {
        at = next;
        next = gy_sort_varint_get(at, end, &value);
    }
    if (next == NULL) {
        return end - at >= GY_VARINT_BYTES ? ROW_WRONG : ROW_CUT;
    }
    at = next;
    const uint64_t list_size = rows->is_list ? value : 0;
    if (key_size > UINT32_MAX || list_size > UINT32_MAX) {
        return ROW_WRONG;
    }
    *size = (size_t)(at - from) + key_size + list_size;
    if ((size_t)(end - from) < *size) {
        return ROW_CUT;
    }
    *row = (gy_row){.hash = gy_hash_load8(from),
                    .key = at,
                    .key_size = key_size,
                    .number = rows->is_list ? 0 : gy_unzigzag(value),
                    .list = at + key_size,
                    .list_size = list_size};
    return ROW_WHOLE;
}

static gy_status fail_rows(const gy_mapreduce_rows *rows, const char *what)
{
    return gy_fail(GY_FORMAT, "%s: %s before byte %llu of a table", rows->source.name, what,
                   (unsigned long long)(rows->passed - (size_t)(rows->end - rows->at)));
}

/* Get the next chunk of the source when the current one is used up. */
static gy_status fetch(gy_mapreduce_rows *rows)
{
    if (rows->at == rows->end && !rows->is_ended) {
        size_t size = 0;
        GY_TRY(rows->source.more(rows->source.arg, &rows->at, &size));
        rows->end = rows->at + size;
        rows->is_ended = size == 0;
        rows->passed += size;
    }
    return GY_OK;
}

/* The row crosses the end of the chunk: assemble it in a buffer. */
static gy_status join_row(gy_mapreduce_rows *rows, gy_row *row)
{
    size_t have = 0, needed = GY_ROW_HEAD_BYTES;
    int found = ROW_CUT;
    while (found == ROW_CUT) {
        GY_TRY(fetch(rows));
        const size_t more = GY_MIN(needed - have, (size_t)(rows->end - rows->at));
        if (more == 0) {
            return fail_rows(rows, "a row is cut");
        }
        GY_TRY(GY_GROW("mapreduce.rows", rows->joined, rows->joined_capacity,
                       have + more + GY_COPY_SLACK));
        memcpy(rows->joined + have, rows->at, more);
        rows->at += more;
        have += more;
        found = parse(rows, rows->joined, rows->joined + have, row, &needed);
        if (found == ROW_CUT && needed <= have) { /* the end of its head is in the next chunk */
            needed = have + 1;
        }
    }
    if (found == ROW_WRONG) {
        return fail_rows(rows, "no row");
    }
    rows->at -= have - needed; /* the surplus bytes belong to the next row */
    return GY_OK;
}

gy_status gy_mapreduce_rows_next(gy_mapreduce_rows *rows, gy_row *row, bool *has_row)
{
    GY_TRY(fetch(rows));
    *has_row = !rows->is_ended;
    if (rows->is_ended) {
        return GY_OK;
    }
    size_t size = 0;
    const int found = parse(rows, rows->at, rows->end, row, &size);
    if (found == ROW_WRONG) {
        return fail_rows(rows, "no row");
    }
    if (found == ROW_WHOLE && (size_t)(rows->end - rows->at) >= size + GY_COPY_SLACK) {
        rows->at += size;
        /* also the last ones of the chunk, so that their keys have readable bytes after them */
    } else {
        GY_TRY(join_row(rows, row));
    }
    if (row->hash < rows->last_hash) {
        return fail_rows(rows, "rows out of order");
    }
    rows->last_hash = row->hash;
    return GY_OK;
}

gy_status gy_piece_next(gy_piece *piece, gy_mapreduce_fold fold, gy_item *value)
{
    if (piece->at == piece->end) {
        return GY_AGAIN;
    }
    uint64_t number = 0;
    piece->at = gy_sort_varint_get(piece->at, piece->end, &number);
    if (piece->at == NULL) {
        piece->at = piece->end;
        return gy_fail(GY_FORMAT, "a list that ends within a number");
    }
    if (fold == GY_FOLD_LIST) {
        if (number > (size_t)(piece->end - piece->at)) {
            return gy_fail(GY_FORMAT, "a list that ends within a value");
        }
        value->value = piece->at;
        value->value_size = (uint32_t)number;
        piece->at += number;
        return GY_OK;
    }
    if (fold == GY_FOLD_SET && piece->has_last) {
        value->number = (int64_t)((uint64_t)piece->last + number);
    } else {
        value->number = gy_unzigzag(number);
    }
    piece->last = value->number;
    piece->has_last = true;
    value->value_size = sizeof(value->number);
    return GY_OK;
}
