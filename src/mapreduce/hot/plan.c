/*
 * Decides which keys are hot and how their values are shared: a pure function of the maps'
 * reports and of complete sizes.
 *
 *   bytes of the key in maps   5 3 0 4 | 6 1 | 5 5
 *
 * The three shares are of neighbouring maps, so their concatenated outputs are in the order of
 * maps.
 */
#include "mapreduce/hot/hot.h"

#include "base/base.h"
#include "flow/refine.h"
#include "mapreduce/hot/told.h"

#include <stdlib.h>
#include <string.h>

/* A key as one map reported it. */
typedef struct piece {
    gy_hot_key key; /* weight: bytes in this map */
    uint32_t map;
} piece;

typedef struct pieces {
    piece *all;
    size_t count, capacity;
} pieces;

static int compare_hot_keys(const gy_hot_key *a, const gy_hot_key *b)
{
    if (a->partition != b->partition) {
        return a->partition < b->partition ? -1 : 1;
    }
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    const int sign = memcmp(a->key, b->key, GY_MIN(a->key_size, b->key_size));
    return sign != 0 ? sign : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

static int compare_pieces(const void *left, const void *right)
{
    const piece *a = left, *b = right;
    const int order = compare_hot_keys(&a->key, &b->key);
    return order != 0 ? order : (a->map > b->map) - (a->map < b->map);
}

/* Decode a map's report; a malformed one counts as empty. */
static gy_status take_told(const gy_hot_told *told, uint32_t map, uint32_t partitions,
                           pieces *out)
{
    gy_told_head head;
    if (told->size_bytes < sizeof(head)) {
        return GY_OK;
    }
    memcpy(&head, told->data, sizeof(head));
    const char *at = (const char *)told->data + sizeof(head),
               *end = (const char *)told->data + told->size_bytes;
    for (uint32_t i = 0; head.magic == GY_TOLD_MAGIC && i < head.count; i++) {
        gy_told_row row;
        if ((size_t)(end - at) < sizeof(row)) {
            break;
        }
        memcpy(&row, at, sizeof(row));
        at += sizeof(row);
        if (row.key_size > (size_t)(end - at) || row.partition >= partitions ||
            row.bytes > INT64_MAX / GY_HOT_SHARES_MOST / 2) {
            break;
        }
        GY_TRY(GY_GROW("mapreduce.hot", out->all, out->capacity, out->count + 1));
        out->all[out->count++] = (piece){
            .key = {.key = at,
                    .key_size = row.key_size,
                    .hash = gy_key_hash(at, row.key_size, gy_key_head_within(at, row.key_size)),
                    .partition = row.partition,
                    .weight = (int64_t)row.bytes},
            .map = map};
        at += row.key_size;
    }
    return GY_OK;
}

/* Cut the key's maps where a fraction of its weight ends; returns the number of shares. */
static uint32_t cut_shares(const piece *of, size_t count, uint32_t maps, gy_hot_key *key,
                           gy_hot_share *shares)
{
    const int64_t ways = key->share_count;
    uint32_t made = 0, first = 0;
    int64_t sum = 0, passed = 0; /* passed: complete fractions so far */
    for (size_t i = 0; i < count; i++) {
        sum += of[i].key.weight;
        if (sum < key->weight && sum * ways >= key->weight * (passed + 1)) {
            shares[made++] = (gy_hot_share){first, of[i].map + 1};
            first = of[i].map + 1;
            passed = sum * ways / key->weight;
        }
    }
    shares[made++] = (gy_hot_share){first, maps};
    return made;
}

/* Thresholds from the total bytes and the bytes of each partition. */
typedef struct scales {
    int64_t *partition_bytes; /* (partitions) */
    int64_t fair;
    uint64_t least;
    uint32_t maps;
} scales;

static bool is_hot(const scales *with, const gy_hot_key *key)
{
    const int64_t partition = with->partition_bytes[key->partition];
    return partition / 9 > with->fair / 8 && key->weight > with->fair / 2 &&
           (uint64_t)key->weight >= with->least;
}

static gy_status plan_pieces(const pieces *of, const scales *with, gy_hot_plan *plan)
{
    size_t key_capacity = 0, share_capacity = 0, next = 0;
    for (size_t i = 0; i < of->count; i = next) {
        gy_hot_key key = of->all[i].key;
        for (next = i + 1; next < of->count && compare_hot_keys(&key, &of->all[next].key) == 0;
             next++) {
            key.weight += of->all[next].key.weight;
        }
        if (!is_hot(with, &key)) {
            continue;
        }
        key.share_count = (uint32_t)GY_MIN(GY_MAX(gy_key_ways(key.weight, with->fair), 2),
                                           (int)GY_HOT_SHARES_MOST);
        key.first_share = (uint32_t)plan->share_count;
        GY_TRY(GY_GROW("mapreduce.hot", plan->shares, share_capacity,
                       plan->share_count + key.share_count));
        GY_TRY(GY_GROW("mapreduce.hot", plan->keys, key_capacity, plan->key_count + 1));
        key.share_count = cut_shares(&of->all[i], next - i, with->maps, &key,
                                     &plan->shares[plan->share_count]);
        if (key.share_count > 1) { /* otherwise one map has all of it */
            plan->share_count += key.share_count;
            plan->keys[plan->key_count++] = key;
        }
    }
    return GY_OK;
}

static gy_status weigh(const int64_t *bytes, const uint32_t shape[2], uint64_t least,
                       scales *out)
{
    *out = (scales){.least = least, .maps = shape[0]};
    out->partition_bytes = gy_alloc_zero("mapreduce.hot", shape[1], sizeof(int64_t));
    if (out->partition_bytes == NULL) {
        return GY_NOMEM;
    }
    int64_t total = 0;
    for (size_t i = 0; i < (size_t)shape[0] * shape[1]; i++) {
        out->partition_bytes[i % shape[1]] += bytes[i];
        total += bytes[i];
    }
    out->fair = GY_MAX(total / shape[1], 1);
    return GY_OK;
}

gy_status gy_hot_plan_make(const gy_hot_told *told, const int64_t *bytes,
                           const uint32_t shape[2], uint64_t least, gy_hot_plan *plan)
{
    GY_ASSERT(shape[0] > 0 && shape[1] > 0);
    *plan = (gy_hot_plan){0};
    pieces all = {0};
    scales with = {0};
    gy_status status = GY_OK;
    for (uint32_t map = 0; status >= 0 && map < shape[0]; map++) {
        status = take_told(&told[map], map, shape[1], &all);
    }
    if (status >= 0 && all.count > 0) {
        qsort(all.all, all.count, sizeof(*all.all), compare_pieces);
        status = weigh(bytes, shape, least, &with);
        status = status < 0 ? status : plan_pieces(&all, &with, plan);
    }
    gy_free(with.partition_bytes);
    gy_free(all.all);
    if (status < 0) {
        gy_hot_plan_free(plan);
    }
    return status;
}

void gy_hot_plan_free(gy_hot_plan *plan)
{
    gy_free(plan->keys);
    gy_free(plan->shares);
    *plan = (gy_hot_plan){0};
}
