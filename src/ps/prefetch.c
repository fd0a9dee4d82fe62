/* Rows that are pulled before they are asked for: a pull into memory of its own, which the pull
 * of the same keys takes over. */
#include "ps/client_priv.h"

#include <string.h>

enum { PREFETCHED_MAX = 16 };

/* ---- Making them ---- */

static gy_status own(gy_ps_request *request, const uint64_t *keys, size_t count)
{
    const gy_ps_table *table = request->table;
    size_t key_count = table->options.is_sparse ? count : 1;
    request->own_keys =
        gy_ps_room_take(table->ps, GY_MAX(key_count, (size_t)1) * sizeof(*keys));
    request->own_rows = gy_ps_room_take(table->ps, GY_MAX(count * table->row_bytes, (size_t)1));
    if (request->own_keys == NULL || request->own_rows == NULL) {
        return GY_NOMEM;
    }
    request->own_keys[0] = 0;
    if (keys != NULL && key_count > 0) {
        memcpy(request->own_keys, keys, key_count * sizeof(*keys));
    }
    request->keys = request->own_keys;
    request->rows = request->own_rows;
    request->is_prefetch = true;
    return GY_OK;
}

static gy_status add(gy_ps_table *table, gy_ps_request *request)
{
    int count = 0;
    gy_ps_prefetch_drop(table, false);
    for (const gy_ps_request *at = table->prefetched; at != NULL; at = at->next) {
        count++;
    }
    if (count >= PREFETCHED_MAX) {
        return gy_fail(GY_LIMIT, "table %s: %d lists of keys are prefetched already",
                       table->name, count);
    }
    request->changes = table->changes;
    GY_TRY(gy_ps_request_start(request));
    request->next = table->prefetched;
    table->prefetched = request;
    return GY_OK;
}

gy_status gy_ps_prefetch(gy_ps_table *table, const uint64_t *keys, size_t count,
                         uint32_t clocks)
{
    gy_ps *ps = table->ps;
    gy_ps_request *request = NULL;
    GY_TRY(gy_ps_request_new(
        table, &(ps_order){.kind = PS_KIND_PULL, .keys = keys, .count = count}, &request));
    gy_status status = own(request, keys, count);
    request->clock = clocks;
    request->is_early = clocks > 0;
    gy_ps_enter(ps);
    status = status == GY_OK ? add(table, request) : status;
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(ps);
    if (status < 0) {
        gy_ps_request_free(request);
        return gy_error_raise(&why);
    }
    return GY_OK;
}

/* ---- Taking them ---- */

static bool is_of(const gy_ps_request *request, const uint64_t *keys, size_t count)
{
    const gy_ps_table *table = request->table;
    if (request->count != count || request->clock != table->clock) {
        return false;
    }
    if (!table->options.is_sparse) {
        return request->own_keys[0] == (keys != NULL ? *keys : 0);
    }
    return memcmp(request->own_keys, keys, count * sizeof(*keys)) == 0;
}

gy_ps_request *gy_ps_prefetch_find(gy_ps_table *table, const uint64_t *keys, size_t count)
{
    for (gy_ps_request **at = &table->prefetched; *at != NULL; at = &(*at)->next) {
        gy_ps_request *found = *at;
        if (count > 0 && is_of(found, keys, count)) {
            *at = found->next;
            found->next = NULL;
            return found;
        }
    }
    return NULL;
}

void gy_ps_prefetch_take(gy_ps_request *request, void *rows)
{
    GY_ASSERT(request->is_prefetch);
    request->is_taken = true;
    request->taker = rows;
    if (request->pending == 0 && request->error.status == GY_OK) {
        memcpy(rows, request->own_rows, request->count * request->table->row_bytes);
        request->is_taken = false; /* once is enough */
    }
}

void gy_ps_prefetch_drop(gy_ps_table *table, bool is_all)
{
    for (gy_ps_request **at = &table->prefetched; *at != NULL;) {
        gy_ps_request *gone = *at;
        /* rows of this clock would lack what was pushed since */
        bool is_stale =
            gone->clock < table->clock || (!gone->is_early && gone->changes != table->changes);
        if (!is_stale && !is_all) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        gy_ps_request_cancel(gone);
        gy_ps_request_free(gone);
    }
}
