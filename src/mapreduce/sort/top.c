/* The k largest: a binary heap whose root is the first to be replaced. Source: Williams
 * 1964. */
#include "mapreduce/top.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    gy_top_row shown;
    char *key; /* memory of shown.key */
    size_t capacity;
} row;

struct gy_top {
    size_t most, count, capacity;
    row *rows;
    bool is_ended;
};

/* Below 0 when a is better. */
static int compare(const gy_top_row *a, const gy_top_row *b)
{
    if (a->count != b->count) {
        return a->count > b->count ? -1 : 1;
    }
    const size_t shared = GY_MIN(a->key_bytes, b->key_bytes);
    const int order = shared == 0 ? 0 : memcmp(a->key, b->key, shared);
    return order != 0 ? order : (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

gy_status gy_top_new(size_t most, gy_top **top)
{
    *top = gy_alloc_zero("mapreduce.top", 1, sizeof(**top));
    if (*top == NULL) {
        return GY_NOMEM;
    }
    (*top)->most = most;
    return GY_OK;
}

static void swap(row *a, row *b)
{
    const row kept = *a;
    *a = *b;
    *b = kept;
}

static void rise(gy_top *top, size_t at)
{
    while (at > 0) {
        const size_t above = (at - 1) / 2;
        if (compare(&top->rows[at].shown, &top->rows[above].shown) <= 0) {
            return;
        }
        swap(&top->rows[at], &top->rows[above]);
        at = above;
    }
}

static void sink(gy_top *top, size_t at)
{
    for (;;) {
        size_t worst = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < top->count; child++) {
            if (compare(&top->rows[child].shown, &top->rows[worst].shown) > 0) {
                worst = child;
            }
        }
        if (worst == at) {
            return;
        }
        swap(&top->rows[at], &top->rows[worst]);
        at = worst;
    }
}

static gy_status set(row *to, const gy_top_row *wanted)
{
    GY_TRY(GY_GROW("mapreduce.top", to->key, to->capacity, wanted->key_bytes + 1));
    if (wanted->key_bytes > 0) {
        memcpy(to->key, wanted->key, wanted->key_bytes);
    }
    to->shown = *wanted;
    to->shown.key = to->key;
    return GY_OK;
}

gy_status gy_top_add(gy_top *top, const char *key, size_t key_bytes, int64_t count)
{
    GY_ASSERT(!top->is_ended);
    const gy_top_row wanted = {key, key_bytes, count};
    if (top->count == top->most) {
        if (top->most == 0 || compare(&wanted, &top->rows[0].shown) >= 0) {
            return GY_OK;
        }
        GY_TRY(set(&top->rows[0], &wanted));
        sink(top, 0);
        return GY_OK;
    }
    GY_TRY(GY_GROW("mapreduce.top", top->rows, top->capacity, top->count + 1));
    top->rows[top->count] = (row){0};
    GY_TRY(set(&top->rows[top->count], &wanted));
    top->count++;
    rise(top, top->count - 1);
    return GY_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const row *first = a, *second = b;
    return compare(&first->shown, &second->shown);
}

size_t gy_top_end(gy_top *top)
{
    if (top->count > 1) {
        qsort(top->rows, top->count, sizeof(*top->rows), compare_rows);
    }
    top->is_ended = true;
    return top->count;
}

gy_top_row gy_top_get(const gy_top *top, size_t index)
{
    GY_ASSERT(top->is_ended && index < top->count);
    return top->rows[index].shown;
}

void gy_top_free(gy_top *top)
{
    if (top == NULL) {
        return;
    }
    for (size_t i = 0; i < top->count; i++) {
        gy_free(top->rows[i].key);
    }
    gy_free(top->rows);
    gy_free(top);
}
