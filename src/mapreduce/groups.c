/* Several tables read as one: a heap of their next rows, by (hash, key, table). */
#include "mapreduce/rows.h"

#include "base/base.h"

#include <string.h>

typedef struct head {
    gy_row row;
    gy_rows *rows;
    uint32_t index;
} head;

struct gy_groups {
    gy_fold fold;
    gy_join_numbers join;
    head *heads;    /* (count) */
    uint32_t *heap; /* (heap_count) of heads that have a row */
    size_t count, heap_count;
    /* the key at hand */
    char *key;
    size_t key_size, key_capacity;
    uint64_t hash;
    bool has_key, is_waiting; /* of a list: the top's row was given, the top is to go on */
};

static int compare_keys(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int sign = memcmp(a, b, GY_MIN(a_size, b_size));
    return sign != 0 ? sign : (a_size > b_size) - (a_size < b_size);
}

static bool is_before(const head *a, const head *b)
{
    if (a->row.hash != b->row.hash) {
        return a->row.hash < b->row.hash;
    }
    const int sign = compare_keys(a->row.key, a->row.key_size, b->row.key, b->row.key_size);
    return sign != 0 ? sign < 0 : a->index < b->index;
}

static void sift(gy_groups *groups, size_t at)
{
    uint32_t *heap = groups->heap;
    const uint32_t moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= groups->heap_count) {
            break;
        }
        if (child + 1 < groups->heap_count &&
            is_before(&groups->heads[heap[child + 1]], &groups->heads[heap[child]])) {
            child++;
        }
        if (!is_before(&groups->heads[heap[child]], &groups->heads[moved])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* The first table goes on to its next row. */
static gy_status advance(gy_groups *groups)
{
    head *top = &groups->heads[groups->heap[0]];
    bool has_row = false;
    GY_TRY(gy_rows_next(top->rows, &top->row, &has_row));
    if (!has_row) {
        groups->heap[0] = groups->heap[--groups->heap_count];
    }
    if (groups->heap_count > 1) {
        sift(groups, 0);
    }
    return GY_OK;
}

static gy_status fill_heap(gy_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        bool has_row = false;
        GY_TRY(gy_rows_next(groups->heads[i].rows, &groups->heads[i].row, &has_row));
        if (has_row) {
            groups->heap[groups->heap_count++] = (uint32_t)i;
        }
    }
    for (size_t i = groups->heap_count / 2; i-- > 0;) {
        sift(groups, i);
    }
    return GY_OK;
}

gy_status gy_groups_new(gy_rows **rows, size_t count, gy_fold fold, gy_join_numbers join,
                        gy_groups **groups)
{
    gy_groups *made = gy_alloc_zero("mapreduce.groups", 1, sizeof(*made));
    head *heads = gy_alloc_zero("mapreduce.groups", count, sizeof(*heads));
    uint32_t *heap = gy_alloc("mapreduce.groups", count * sizeof(*heap));
    if (made == NULL || heads == NULL || heap == NULL) {
        for (size_t i = 0; i < count; i++) {
            gy_rows_free(rows[i]);
        }
        gy_free(made);
        gy_free(heads);
        gy_free(heap);
        return GY_NOMEM;
    }
    *made =
        (gy_groups){.fold = fold, .join = join, .heads = heads, .heap = heap, .count = count};
    for (size_t i = 0; i < count; i++) {
        heads[i] = (head){.rows = rows[i], .index = (uint32_t)i};
    }
    gy_status status = fill_heap(made);
    if (status < 0) {
        gy_groups_free(made);
        return status;
    }
    *groups = made;
    return GY_OK;
}

void gy_groups_free(gy_groups *groups)
{
    if (groups != NULL) {
        for (size_t i = 0; i < groups->count; i++) {
            gy_rows_free(groups->heads[i].rows);
        }
        gy_free(groups->heads);
        gy_free(groups->heap);
        gy_free(groups->key);
        gy_free(groups);
    }
}

static bool is_top_of_key(const gy_groups *groups)
{
    if (groups->heap_count == 0) {
        return false;
    }
    const gy_row *row = &groups->heads[groups->heap[0]].row;
    return row->hash == groups->hash && row->key_size == groups->key_size &&
           memcmp(row->key, groups->key, row->key_size) == 0;
}

/* Keep the top's key: its table will go on while the key is in use. */
static gy_status keep_key(gy_groups *groups)
{
    const gy_row *row = &groups->heads[groups->heap[0]].row;
    GY_TRY(gy_reserve("mapreduce.groups", (void **)&groups->key, &groups->key_capacity,
                      row->key_size + GY_COPY_SLACK, 1));
    memcpy(groups->key, row->key, row->key_size);
    groups->key_size = row->key_size;
    groups->hash = row->hash;
    groups->has_key = true;
    return GY_OK;
}

gy_status gy_groups_list(gy_groups *groups, const char **list, size_t *size)
{
    GY_ASSERT(gy_fold_is_list(groups->fold));
    *list = NULL;
    *size = 0;
    if (groups->is_waiting) {
        groups->is_waiting = false;
        GY_TRY(advance(groups));
    }
    if (groups->has_key && is_top_of_key(groups)) {
        const gy_row *row = &groups->heads[groups->heap[0]].row;
        *list = row->list;
        *size = row->list_size;
        groups->is_waiting = true;
    } else {
        groups->has_key = false;
    }
    return GY_OK;
}

static gy_status next_list(gy_groups *groups, gy_row *row)
{
    while (groups->has_key) { /* what was not read */
        const char *list;
        size_t size;
        GY_TRY(gy_groups_list(groups, &list, &size));
    }
    if (groups->heap_count > 0) {
        GY_TRY(keep_key(groups));
        *row = (gy_row){.hash = groups->hash, .key = groups->key, .key_size = groups->key_size};
    }
    return GY_OK;
}

static gy_status next_number(gy_groups *groups, gy_row *row)
{
    GY_TRY(keep_key(groups));
    *row = (gy_row){.hash = groups->hash,
                    .key = groups->key,
                    .key_size = groups->key_size,
                    .number = groups->heads[groups->heap[0]].row.number};
    GY_TRY(advance(groups));
    while (is_top_of_key(groups)) {
        row->number = gy_fold_numbers(groups->fold, groups->join, row->number,
                                      groups->heads[groups->heap[0]].row.number);
        GY_TRY(advance(groups));
    }
    return GY_OK;
}

gy_status gy_groups_next(gy_groups *groups, gy_row *row, bool *has_row)
{
    if (gy_fold_is_list(groups->fold)) {
        GY_TRY(next_list(groups, row));
        *has_row = groups->has_key;
        return GY_OK;
    }
    *has_row = groups->heap_count > 0;
    return *has_row ? next_number(groups, row) : GY_OK;
}
