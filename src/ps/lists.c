/* Key lists that are sent once (Li et al., OSDI 2014, "key caching"). */
#include "ps/lists_priv.h"

#include "base/hash.h"

#include <string.h>

/* ---- At the client ---- */

static ps_own_list *find_own(ps_own_lists *lists, const uint64_t *keys, size_t count,
                             uint64_t hash)
{
    for (int i = 0; i < PS_LISTS; i++) {
        ps_own_list *at = &lists->of[i];
        if (at->count == count && at->hash == hash &&
            memcmp(at->keys, keys, count * sizeof(*keys)) == 0) {
            return at;
        }
    }
    return NULL;
}

/* An empty slot, or the one that was not used for longest. */
static ps_own_list *choose_own(ps_own_lists *lists)
{
    ps_own_list *best = &lists->of[0];
    for (int i = 0; i < PS_LISTS; i++) {
        ps_own_list *at = &lists->of[i];
        if (at->count == 0) {
            return at;
        }
        best = at->used < best->used ? at : best;
    }
    return best;
}

ps_list_name gy_ps_own_lists_name(ps_own_lists *lists, const uint64_t *keys, size_t count,
                                  bool may_guess)
{
    size_t bytes = count * sizeof(*keys);
    if (count < PS_LIST_KEYS_MIN || count > PS_LIST_KEYS_MAX) {
        return (ps_list_name){.slot = 0};
    }
    uint64_t hash = gy_hash(keys, bytes, 0);
    ps_own_list *at = find_own(lists, keys, count, hash);
    bool is_new = at == NULL;
    if (is_new) {
        at = choose_own(lists);
        uint64_t *copy = gy_resize("ps.list", at->keys, bytes);
        if (copy == NULL) {
            return (ps_list_name){.slot = 0}; /* then they are sent */
        }
        memcpy(copy, keys, bytes);
        *at = (ps_own_list){
            .hash = hash, .number = ++lists->number, .keys = copy, .count = count};
    }
    at->used = ++lists->turn;
    return (ps_list_name){.slot = (uint32_t)(at - lists->of) + 1,
                          .number = at->number,
                          .is_known = at->is_kept || (may_guess && !is_new)};
}

static ps_own_list *named_own(ps_own_lists *lists, ps_list_name name)
{
    GY_ASSERT(name.slot <= PS_LISTS);
    ps_own_list *at = name.slot > 0 ? &lists->of[name.slot - 1] : NULL;
    return at != NULL && at->number == name.number && at->count > 0 ? at : NULL;
}

void gy_ps_own_lists_kept(ps_own_lists *lists, ps_list_name name, bool is_kept)
{
    ps_own_list *at = named_own(lists, name);
    if (at != NULL) {
        at->is_kept = is_kept;
        at->count = is_kept ? at->count : 0; /* it may have room another time */
    }
}

void gy_ps_own_lists_forget(ps_own_lists *lists, ps_list_name name)
{
    gy_ps_own_lists_kept(lists, name, false);
}

void gy_ps_own_lists_fini(ps_own_lists *lists)
{
    for (int i = 0; i < PS_LISTS; i++) {
        gy_free(lists->of[i].keys);
    }
    *lists = (ps_own_lists){.number = 0};
}

/* ---- At the server ---- */

bool gy_ps_kept_lists_put(ps_kept_lists *lists, ps_list_name name, const uint64_t *keys,
                          size_t count, size_t *total_bytes, size_t bytes_max)
{
    if (name.slot == 0 || name.slot > PS_LISTS || count > PS_LIST_KEYS_MAX) {
        return false;
    }
    ps_kept_list *at = &lists->of[name.slot - 1];
    if (name.number < at->number) {
        return false; /* a request that comes again, older than what is there */
    }
    if (count > at->capacity) {
        size_t more = (count - at->capacity) * sizeof(*keys);
        if (*total_bytes + more > bytes_max) {
            return false;
        }
        uint64_t *room = gy_resize("ps.list", at->keys, count * sizeof(*keys));
        if (room == NULL) {
            return false;
        }
        *total_bytes += more;
        at->keys = room;
        at->capacity = count;
    }
    memcpy(at->keys, keys, count * sizeof(*keys));
    at->count = count;
    at->number = name.number;
    return true;
}

const uint64_t *gy_ps_kept_lists_find(const ps_kept_lists *lists, ps_list_name name,
                                      size_t count)
{
    if (name.slot == 0 || name.slot > PS_LISTS || count == 0) {
        return NULL;
    }
    const ps_kept_list *at = &lists->of[name.slot - 1];
    return at->number == name.number && at->count == count ? at->keys : NULL;
}

void gy_ps_kept_lists_fini(ps_kept_lists *lists, size_t *total_bytes)
{
    for (int i = 0; i < PS_LISTS; i++) {
        size_t bytes = lists->of[i].capacity * sizeof(uint64_t);
        GY_ASSERT(*total_bytes >= bytes);
        *total_bytes -= bytes;
        gy_free(lists->of[i].keys);
    }
    *lists = (ps_kept_lists){.of = {{.number = 0}}};
}
