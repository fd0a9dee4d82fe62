/* Merges several tables by a tree of losers over their next rows, ordered by (hash, key,
 * table). */
#include "mapreduce/losers.h"
#include "mapreduce/rows_priv.h"

#include <string.h>

typedef struct head {
    gy_row row;
    gy_mapreduce_rows *rows;
    bool is_ended;
} head;

struct gy_groups {
    gy_mapreduce_fold fold;
    gy_join_numbers join;
    head *heads;    /* (tree.count) */
    gy_losers tree; /* over the hashes of their next rows */
    /* the current key */
    char *key;
    size_t key_size, key_capacity;
    uint64_t hash;
    gy_row row; /* the row that the caller gets, unless the key is in one table only */
    bool has_key;
    /* the caller has the first table's row, so that table still has to advance */
    bool is_waiting;
};

static int compare_keys(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int sign = memcmp(a, b, GY_MIN(a_size, b_size));
    return sign != 0 ? sign : (a_size > b_size) - (a_size < b_size);
}

/* Order of two tables whose next rows have equal hashes. */
static bool is_before(const void *arg, uint32_t a, uint32_t b)
{
    const gy_groups *groups = arg;
    const head *first = &groups->heads[a], *second = &groups->heads[b];
    if (first->is_ended || second->is_ended) {
        return !first->is_ended || (second->is_ended && a < b);
    }
    const int sign = compare_keys(first->row.key, first->row.key_size, second->row.key,
                                  second->row.key_size);
    return sign != 0 ? sign < 0 : a < b;
}

static gy_status read_row(gy_groups *groups, size_t index)
{
    head *of = &groups->heads[index];
    bool has_row = false;
    GY_TRY(gy_mapreduce_rows_step(of->rows, &of->row, &has_row));
    of->is_ended = !has_row;
    groups->tree.words[index] = has_row ? of->row.hash : UINT64_MAX;
    return GY_OK;
}

static const head *top_of(const gy_groups *groups)
{
    return &groups->heads[gy_losers_first(&groups->tree)];
}

/* Advance the first table to its next row. */
static gy_status advance(gy_groups *groups)
{
    GY_TRY(read_row(groups, gy_losers_first(&groups->tree)));
    gy_losers_replay(&groups->tree, is_before, groups);
    return GY_OK;
}

gy_status gy_groups_new(gy_mapreduce_rows **rows, size_t count, gy_mapreduce_fold fold,
                        gy_join_numbers join, gy_groups **groups)
{
    gy_groups *made = gy_alloc_zero("mapreduce.groups", 1, sizeof(*made));
    head *heads = gy_alloc_zero("mapreduce.groups", GY_MAX(count, (size_t)1), sizeof(*heads));
    if (made == NULL || heads == NULL) {
        for (size_t i = 0; i < count; i++) {
            gy_mapreduce_rows_free(rows[i]);
        }
        gy_free(made);
        gy_free(heads);
        return GY_NOMEM;
    }
    *made = (gy_groups){.fold = fold, .join = join, .heads = heads};
    gy_status status = gy_losers_init(&made->tree, count);
    heads[0].is_ended = true; /* the table has no row */
    for (size_t i = 0; i < count; i++) {
        heads[i].rows = rows[i];
    }
    for (size_t i = 0; status >= 0 && i < count; i++) {
        status = read_row(made, i);
    }
    if (status < 0) {
        gy_groups_free(made);
        return status;
    }
    gy_losers_play(&made->tree, is_before, made);
    *groups = made;
    return GY_OK;
}

void gy_groups_free(gy_groups *groups)
{
    if (groups != NULL) {
        for (size_t i = 0; i < groups->tree.count; i++) {
            gy_mapreduce_rows_free(groups->heads[i].rows);
        }
        gy_losers_fini(&groups->tree);
        gy_free(groups->heads);
        gy_free(groups->key);
        gy_free(groups);
    }
}

static bool is_top_of_key(const gy_groups *groups)
{
    const head *top = top_of(groups);
    const gy_row *row = &top->row;
    return !top->is_ended && row->hash == groups->hash && row->key_size == groups->key_size &&
           memcmp(row->key, groups->key, row->key_size) == 0;
}

/* Copy the first row's key, because its table will advance while the key is in use. */
static gy_status keep_key(gy_groups *groups)
{
    const gy_row *row = &top_of(groups)->row;
    GY_TRY(GY_GROW("mapreduce.groups", groups->key, groups->key_capacity,
                   row->key_size + GY_COPY_SLACK));
    gy_copy_loosely(groups->key, row->key, row->key_size);
    groups->key_size = row->key_size;
    groups->hash = row->hash;
    groups->has_key = true;
    return GY_OK;
}

gy_status gy_groups_list(gy_groups *groups, const char **list, size_t *size)
{
    GY_ASSERT(gy_mapreduce_fold_is_list(groups->fold));
    *list = NULL;
    *size = 0;
    if (groups->is_waiting) {
        groups->is_waiting = false;
        GY_TRY(advance(groups));
    }
    if (groups->has_key && is_top_of_key(groups)) {
        const gy_row *row = &top_of(groups)->row;
        *list = row->list;
        *size = row->list_size;
        groups->is_waiting = true;
    } else {
        groups->has_key = false;
    }
    return GY_OK;
}

static gy_status next_list(gy_groups *groups, const gy_row **row)
{
    while (groups->has_key) { /* skip what the caller did not read */
        const char *list;
        size_t size;
        GY_TRY(gy_groups_list(groups, &list, &size));
    }
    if (!top_of(groups)->is_ended) {
        GY_TRY(keep_key(groups));
        groups->row =
            (gy_row){.hash = groups->hash, .key = groups->key, .key_size = groups->key_size};
        *row = &groups->row;
    }
    return GY_OK;
}

/* A key in one table only is returned in place; the table advances at the next call. */
static gy_status next_number(gy_groups *groups, const gy_row **row)
{
    if (groups->is_waiting) {
        groups->is_waiting = false;
        GY_TRY(advance(groups));
    }
    const head *top = top_of(groups);
    if (top->is_ended) {
        return GY_OK;
    }
    if (!gy_losers_has_equal(&groups->tree)) {
        *row = &top->row;
        groups->is_waiting = true;
        return GY_OK;
    }
    GY_TRY(keep_key(groups));
    int64_t number = top->row.number;
    GY_TRY(advance(groups));
    while (is_top_of_key(groups)) {
        number = gy_mapreduce_fold_numbers(groups->fold, groups->join, number,
                                           top_of(groups)->row.number);
        GY_TRY(advance(groups));
    }
    groups->row = (gy_row){.hash = groups->hash,
                           .key = groups->key,
                           .key_size = groups->key_size,
                           .number = number};
    *row = &groups->row;
    return GY_OK;
}

gy_status gy_groups_next(gy_groups *groups, const gy_row **row)
{
    *row = NULL;
    return gy_mapreduce_fold_is_list(groups->fold) ? next_list(groups, row)
                                                   : next_number(groups, row);
}
