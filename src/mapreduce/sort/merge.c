/* Merges framed records by a tree of losers. */
#include "mapreduce/sort.h"

#include "base/base.h"
#include "mapreduce/losers.h"

enum { HEADER_BYTES = 2 * GY_VARINT_BYTES };

/* A source and its next record. */
typedef struct cursor {
    gy_merge_source source;
    const char *at, *end; /* the rest of the chunk after the record */
    gy_sort_item item;
    bool is_ended;
    char *carry; /* buffer for a record that crosses chunks */
    size_t carry_used, carry_capacity;
} cursor;

struct gy_merge {
    gy_sort_layout layout;
    cursor *cursors; /* (tree.count) */
    gy_losers tree;  /* over the words of the cursors' keys */
    bool is_begun;
};

/* The size of a framed record, or 0 while its header is truncated; SIZE_MAX: malformed. */
static size_t needed_bytes(const char *data, size_t size_bytes)
{
    uint64_t key = 0, value = 0;
    const char *end = data + size_bytes;
    const char *body = gy_sort_varint_get(data, end, &key);
    body = body == NULL ? NULL : gy_sort_varint_get(body, end, &value);
    if (body == NULL) {
        return size_bytes >= HEADER_BYTES ? SIZE_MAX : 0;
    }
    size_t sum = 0;
    if (__builtin_add_overflow(key, value, &sum) ||
        __builtin_add_overflow(sum, (size_t)(body - data), &sum)) {
        return SIZE_MAX;
    }
    return sum;
}

static gy_status carry_bytes(cursor *from, size_t size_bytes)
{
    GY_TRY(GY_GROW("mapreduce.merge", from->carry, from->carry_capacity,
                   from->carry_used + size_bytes));
    memcpy(from->carry + from->carry_used, from->at, size_bytes);
    from->carry_used += size_bytes;
    from->at += size_bytes;
    return GY_OK;
}

static gy_status fail_cut(void)
{
    return gy_fail(GY_FORMAT, "a sorted run ends within a record or its record is malformed");
}

/* Assemble a record that crosses the end of a chunk. `*is_whole` is false at the end. */
static gy_status carry_record(cursor *from, bool *is_whole)
{
    from->carry_used = 0;
    for (;;) {
        const size_t needed =
            from->carry_used == 0 ? 0 : needed_bytes(from->carry, from->carry_used);
        if (needed == SIZE_MAX) {
            return fail_cut();
        }
        if (needed != 0 && needed <= from->carry_used) {
            *is_whole = true;
            return GY_OK;
        }
        if (from->at == from->end) {
            const void *data = NULL;
            size_t size = 0;
            GY_TRY(from->source.fill(from->source.arg, &data, &size));
            if (size == 0) {
                *is_whole = false;
                return from->carry_used == 0 ? GY_OK : fail_cut();
            }
            from->at = data;
            from->end = from->at + size;
        }
        /* read a header byte by byte, a body as far as the chunk goes */
        const size_t most = needed == 0 ? 1 : needed - from->carry_used;
        GY_TRY(carry_bytes(from, GY_MIN(most, (size_t)(from->end - from->at))));
    }
}

/* Advance a cursor to its next record. */
static gy_status advance(gy_merge *merge, size_t index)
{
    cursor *from = &merge->cursors[index];
    if (from->at < from->end &&
        gy_sort_item_read(&merge->layout, from->at, from->end, &from->item)) {
        from->at += from->item.size_bytes;
    } else {
        bool is_whole = false;
        GY_TRY(carry_record(from, &is_whole));
        if (is_whole && !gy_sort_item_read(&merge->layout, from->carry,
                                           from->carry + from->carry_used, &from->item)) {
            return fail_cut();
        }
        from->is_ended = !is_whole;
    }
    merge->tree.words[index] =
        from->is_ended
            ? UINT64_MAX
            : gy_sort_key_word(merge->layout.key, from->item.key, from->item.key_bytes);
    return GY_OK;
}

/* Order of two cursors whose words are equal. */
static bool is_before(const void *arg, uint32_t a, uint32_t b)
{
    const gy_merge *merge = arg;
    const cursor *first = &merge->cursors[a], *second = &merge->cursors[b];
    if (first->is_ended || second->is_ended) {
        return !first->is_ended || (second->is_ended && a < b);
    }
    const int order = gy_sort_item_compare(&merge->layout, &first->item, &second->item);
    return order != 0 ? order < 0 : a < b;
}

gy_status gy_merge_new(const gy_sort_layout *layout, const gy_merge_source *sources,
                       size_t count, gy_merge **merge)
{
    GY_ASSERT(layout->kind == GY_LAYOUT_FRAMED && count < UINT32_MAX);
    gy_merge *made = gy_alloc_zero("mapreduce.merge", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->layout = *layout;
    made->cursors = gy_alloc_zero("mapreduce.merge", count, sizeof(*made->cursors));
    gy_status status = gy_losers_init(&made->tree, count);
    if (made->cursors == NULL) {
        status = GY_NOMEM;
    }
    for (size_t i = 0; status == GY_OK && i < count; i++) {
        made->cursors[i].source = sources[i];
        status = advance(made, i);
    }
    if (status != GY_OK) {
        gy_merge_free(made);
        return status;
    }
    gy_losers_play(&made->tree, is_before, made);
    *merge = made;
    return GY_OK;
}

gy_status gy_merge_next(gy_merge *merge, gy_sort_item *item, bool *has)
{
    *has = false;
    if (merge->tree.count == 0) {
        return GY_OK;
    }
    if (merge->is_begun) { /* the caller had the previous record until now */
        const uint32_t last = gy_losers_first(&merge->tree);
        if (!merge->cursors[last].is_ended) {
            GY_TRY(advance(merge, last));
        }
        gy_losers_replay(&merge->tree, is_before, merge);
    }
    merge->is_begun = true;
    const cursor *from = &merge->cursors[gy_losers_first(&merge->tree)];
    if (!from->is_ended) {
        *item = from->item;
        *has = true;
    }
    return GY_OK;
}

void gy_merge_free(gy_merge *merge)
{
    if (merge == NULL) {
        return;
    }
    for (size_t i = 0; merge->cursors != NULL && i < merge->tree.count; i++) {
        gy_free(merge->cursors[i].carry);
    }
    gy_free(merge->cursors);
    gy_losers_fini(&merge->tree);
    gy_free(merge);
}

gy_status gy_sort_next_merged(void *merge, gy_sort_item *item, bool *has)
{
    return gy_merge_next(merge, item, has);
}

void gy_sort_groups_init(gy_sort_groups *groups, gy_sort_next next, void *arg)
{
    *groups = (gy_sort_groups){.next = next, .arg = arg, .is_first = true};
}

static bool is_same_key(const gy_sort_groups *groups)
{
    return groups->has && groups->item.key_bytes == groups->key_bytes &&
           (groups->key_bytes == 0 ||
            memcmp(groups->item.key, groups->key, groups->key_bytes) == 0);
}

gy_status gy_sort_groups_next(gy_sort_groups *groups, gy_sort_span *key, bool *has)
{
    if (groups->is_first) {
        groups->is_first = false;
        GY_TRY(groups->next(groups->arg, &groups->item, &groups->has));
    } else {
        gy_sort_span passed;
        bool is_more = true;
        while (is_more) {
            GY_TRY(gy_sort_groups_value(groups, &passed, &is_more));
        }
    }
    *has = groups->has;
    if (!groups->has) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("mapreduce.groups", groups->key, groups->key_capacity,
                   groups->item.key_bytes + 1));
    memcpy(groups->key, groups->item.key, groups->item.key_bytes);
    groups->key_bytes = groups->item.key_bytes;
    *key = (gy_sort_span){groups->key, groups->key_bytes};
    groups->is_given = false;
    return GY_OK;
}

gy_status gy_sort_groups_value(gy_sort_groups *groups, gy_sort_span *value, bool *has)
{
    if (groups->is_given) {
        groups->is_given = false;
        GY_TRY(groups->next(groups->arg, &groups->item, &groups->has));
    }
    *has = is_same_key(groups);
    if (*has) {
        *value = (gy_sort_span){groups->item.value, groups->item.value_bytes};
        groups->is_given = true;
    }
    return GY_OK;
}

void gy_sort_groups_fini(gy_sort_groups *groups)
{
    gy_free(groups->key);
    *groups = (gy_sort_groups){0};
}
