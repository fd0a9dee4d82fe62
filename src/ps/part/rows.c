/* Rows and the state of their update: arrays of a dense table's range, or arrays in the order
 * in which a sparse table's rows appeared, with a hash index from keys. */
#include "ps/part/part_priv.h"

#include "tensor/tensor.h"

#include <string.h>

/* The initial value of a row, which depends on seed and key alone: wherever it is made, and
 * whether it is there or not. */
static void fill_initial(const gy_ps_table_options *table, uint64_t key, void *out)
{
    double range = table->initial_range;
    if (range == 0) {
        memset(out, 0, (size_t)table->width * gy_dtype_bytes(table->dtype));
        return;
    }
    uint32_t bits[4] = {0};
    for (uint32_t i = 0; i < table->width; i++) {
        if (i % 2 == 0) {
            gy_philox(table->seed, key, i / 2, bits);
        }
        uint64_t wide =
            (uint64_t)bits[(size_t)(i % 2) * 2] << 32 | bits[(size_t)(i % 2) * 2 + 1];
        double value = (2 * gy_random_part(wide) - 1) * range;
        if (table->dtype == GY_F32) {
            ((float *)out)[i] = (float)value;
        } else {
            ((double *)out)[i] = value;
        }
    }
}

gy_status gy_ps_rows_init(ps_rows *rows, const gy_ps_table_options *table, uint64_t first,
                          uint64_t end)
{
    *rows = (ps_rows){.table = table,
                      .row_bytes = table->width * gy_dtype_bytes(table->dtype),
                      .slots = gy_ps_update_slots(table->update),
                      .first = first,
                      .end = end};
    if (table->is_sparse) {
        return GY_OK;
    }
    size_t count = (size_t)(end - first);
    rows->values = gy_alloc_zero("ps.rows", count, rows->row_bytes);
    bool is_there = rows->values != NULL || count == 0;
    for (int i = 0; i < rows->slots && is_there; i++) {
        rows->state[i] = gy_alloc_zero("ps.rows", count, rows->row_bytes);
        is_there = rows->state[i] != NULL || count == 0;
    }
    if (!is_there) {
        gy_ps_rows_fini(rows);
        return GY_NOMEM;
    }
    rows->count = count;
    for (uint64_t key = first; table->initial_range > 0 && key < end; key++) {
        fill_initial(table, key, rows->values + (size_t)(key - first) * rows->row_bytes);
    }
    return GY_OK;
}

void gy_ps_rows_fini(ps_rows *rows)
{
    gy_index_free(&rows->index);
    gy_free(rows->keys);
    gy_free(rows->steps);
    gy_free(rows->values);
    for (int i = 0; i < PS_SLOTS_MAX; i++) {
        gy_free(rows->state[i]);
    }
    *rows = (ps_rows){.table = rows->table};
}

/* An array of `from` items becomes one of `to`. */
static gy_status widen(void *array, size_t from, size_t to, size_t item_bytes)
{
    void **place = array;
    void *made = gy_alloc("ps.rows", to * item_bytes);
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (from > 0) {
        memcpy(made, *place, from * item_bytes);
    }
    gy_free(*place);
    *place = made;
    return GY_OK;
}

gy_status gy_ps_rows_admit(ps_rows *rows, size_t count)
{
    GY_ASSERT(rows->table->is_sparse);
    if (rows->count + count <= rows->capacity) {
        return GY_OK;
    }
    if (rows->count + count >= GY_NONE) {
        return gy_fail(GY_LIMIT, "a part of more than %u rows", GY_NONE - 1);
    }
    size_t capacity = GY_MAX(rows->capacity * 2, GY_MAX(rows->count + count, (size_t)64));
    /* what was widened before a failure is only larger than it must be */
    GY_TRY(widen(&rows->keys, rows->count, capacity, sizeof(*rows->keys)));
    GY_TRY(widen(&rows->values, rows->count, capacity, rows->row_bytes));
    for (int i = 0; i < rows->slots; i++) {
        GY_TRY(widen(&rows->state[i], rows->count, capacity, rows->row_bytes));
    }
    if (gy_ps_update_counts(rows->table->update)) {
        GY_TRY(widen(&rows->steps, rows->count, capacity, sizeof(*rows->steps)));
    }
    rows->capacity = capacity;
    return GY_OK;
}

gy_status gy_ps_rows_take(ps_rows *rows, uint64_t key, uint32_t *place)
{
    size_t before = rows->index.count;
    GY_ASSERT(rows->count < rows->capacity || before > 0);
    GY_TRY(gy_index_number(&rows->index, gy_index_id(gy_ps_key_mixed(key)), place));
    if (rows->index.count == before) {
        return GY_OK;
    }
    GY_ASSERT(*place == rows->count && rows->count < rows->capacity);
    rows->keys[*place] = key;
    fill_initial(rows->table, key, rows->values + *place * rows->row_bytes);
    for (int i = 0; i < rows->slots; i++) {
        memset(rows->state[i] + *place * rows->row_bytes, 0, rows->row_bytes);
    }
    if (rows->steps != NULL) {
        rows->steps[*place] = 0;
    }
    rows->count++;
    return GY_OK;
}

void gy_ps_rows_read(const ps_rows *rows, uint64_t key, void *out)
{
    uint32_t place = gy_index_find(&rows->index, gy_index_id(gy_ps_key_mixed(key)));
    if (place == GY_NONE) {
        fill_initial(rows->table, key, out);
    } else {
        memcpy(out, rows->values + place * rows->row_bytes, rows->row_bytes);
    }
}
