/* Collects the heaviest keys of a map's output, and reports them. */
#include "mapreduce/hot/hot.h"

#include "base/base.h"
#include "mapreduce/hot/told.h"

#include <assert.h>
#include <string.h>

/* Keys with a smaller share of a map's output are ignored: a hot key is rarely spread that
 * evenly over the maps. */
enum { FLOOR_SHARE = 256 };

static_assert(sizeof(gy_told_head) +
                      GY_HEAVY_KEYS * (sizeof(gy_told_row) + GY_HEAVY_KEY_BYTES) <=
                  GY_SAMPLE_BYTES_MAX,
              "all that is kept can be told");

gy_heavy *gy_heavy_new(uint32_t partitions, size_t least)
{
    gy_heavy *heavy = gy_alloc("mapreduce.heavy", sizeof(*heavy));
    if (heavy != NULL) {
        memset(heavy, 0, offsetof(gy_heavy, keys));
        heavy->floor = least / FLOOR_SHARE;
        heavy->partitions = partitions;
    }
    return heavy;
}

void gy_heavy_free(gy_heavy *heavy)
{
    gy_free(heavy);
}

static uint32_t lightest(const gy_heavy *heavy)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < heavy->count; i++) {
        if (heavy->keys[i].bytes < heavy->keys[least].bytes) {
            least = i;
        }
    }
    return least;
}

void gy_heavy_keep(gy_heavy *heavy, const gy_row *row, uint32_t partition)
{
    if (row->key_size > GY_HEAVY_KEY_BYTES) {
        return;
    }
    for (uint32_t i = 0; i < heavy->count; i++) {
        gy_heavy_key *kept = &heavy->keys[i];
        if (kept->key_size == row->key_size &&
            memcmp(kept->key, row->key, row->key_size) == 0) {
            kept->bytes = heavy->bytes;
            return;
        }
    }
    const bool is_full = heavy->count == GY_HEAVY_KEYS;
    const uint32_t at = is_full ? lightest(heavy) : heavy->count++;
    if (is_full && heavy->bytes <= heavy->keys[at].bytes) {
        heavy->floor = heavy->keys[at].bytes;
        return;
    }
    memcpy(heavy->texts[at], row->key, row->key_size);
    heavy->keys[at] = (gy_heavy_key){.key = heavy->texts[at],
                                     .key_size = (uint32_t)row->key_size,
                                     .partition = partition,
                                     .bytes = heavy->bytes};
}

/* A key with half a fair share of all bytes has at least that share in one of the maps. */
static bool may_be_hot(const gy_heavy *heavy, const gy_heavy_key *key)
{
    return key->bytes * 4 * heavy->partitions > heavy->total;
}

void gy_heavy_write(const gy_heavy *heavy, gy_text *out)
{
    gy_told_head head = {.magic = GY_TOLD_MAGIC};
    for (uint32_t i = 0; i < heavy->count; i++) {
        head.count += may_be_hot(heavy, &heavy->keys[i]);
    }
    if (head.count == 0) {
        return;
    }
    gy_text_add_bytes(out, &head, sizeof(head));
    for (uint32_t i = 0; i < heavy->count; i++) {
        const gy_heavy_key *key = &heavy->keys[i];
        if (may_be_hot(heavy, key)) {
            const gy_told_row row = {key->bytes, key->partition, key->key_size};
            gy_text_add_bytes(out, &row, sizeof(row));
            gy_text_add_bytes(out, key->key, key->key_size);
        }
    }
}
