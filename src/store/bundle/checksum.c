/*
 * The checksum of a bundle: over names, types, sizes, elements and texts, not over the file's
 * bytes, so that tools that rewrite a file with its texts kept do not break it.
 *
 * Processes that have parts of a tensor each take the sum of theirs, and the sum of these is
 * the tensor's: element number i with the bits b adds mix(seed + i g ^ b), modulo 2^64. `mix`
 * is a bijection, so any change of one element is found, and others, and elements that changed
 * their places, as surely as a hash of 64 bits finds them.
 *
 * The older kind, "xxh3:", is XXH3 over the elements in their order. It is read, not written.
 *
 * @source Bellare & Micciancio, "A new paradigm for collision-free hashing: incrementality at
 * reduced cost", EUROCRYPT 1997 (AdHash); mix: Steele, Lea & Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014
 */
#include "store/bundle/bundle_priv.h"

#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char chained_prefix[] = "xxh3:", sum_prefix[] = "sum:";

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Elements of one width. */
#define SUM_OF(type)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                      \
        type bits;                                                                             \
        memcpy(&bits, (const unsigned char *)data + (size_t)i * sizeof(bits), sizeof(bits));   \
        sum += mix(place ^ bits);                                                              \
        place += golden;                                                                       \
    }

uint64_t gy_bundle_sum(const gy_bundle_item *item, int64_t index, const void *data,
                       int64_t count)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t place = gy_bundle_seed(item) + (uint64_t)index * golden, sum = 0;
    switch (gy_bundle_element_bytes(item)) {
    case 8:
        SUM_OF(uint64_t)
        break;
    case 4:
        SUM_OF(uint32_t)
        break;
    case 2:
        SUM_OF(uint16_t)
        break;
    default:
        GY_ASSERT(gy_bundle_element_bytes(item) == 1);
        SUM_OF(uint8_t)
        break;
    }
    return sum;
}

uint64_t gy_bundle_seed(const gy_bundle_item *item)
{
    const gy_view *shape = &item->shape;
    const char *type = gy_dtype_name(shape->dtype);
    uint64_t hash = gy_hash(item->name, strlen(item->name), 0);
    hash = gy_hash(type, strlen(type), hash);
    int64_t sizes[1 + GY_TENSOR_RANK_MAX] = {shape->rank};
    for (int dim = 0; dim < shape->rank; dim++) {
        sizes[1 + dim] = shape->sizes[dim];
    }
    return gy_hash(sizes, sizeof(sizes), hash);
}

bool gy_bundle_is_chained(const gy_bundle *bundle)
{
    const char *text = gy_bundle_get(bundle, GY_BUNDLE_CHECKSUM_KEY);
    return text != NULL && strncmp(text, chained_prefix, strlen(chained_prefix)) == 0;
}

typedef struct name_hash {
    const char *name;
    uint64_t hash;
} name_hash;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const name_hash *)a)->name, ((const name_hash *)b)->name);
}

gy_status gy_bundle_checksum_of(const gy_bundle *bundle, bool is_chained, const uint64_t *sums,
                                char out[GY_BUNDLE_CHECKSUM_BYTES])
{
    uint64_t hash = gy_hash(&bundle->item_count, sizeof(bundle->item_count), 0);
    for (size_t i = 0; i < bundle->note_count; i++) {
        const gy_bundle_note *note = &bundle->notes[i];
        if (strcmp(note->key, GY_BUNDLE_CHECKSUM_KEY) != 0) {
            hash = gy_hash(note->key, strlen(note->key), hash);
            hash = gy_hash(note->value, strlen(note->value), hash);
        }
    }
    name_hash *hashes = gy_alloc_zero("store.bundle", bundle->item_count, sizeof(*hashes));
    if (hashes == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < bundle->item_count; i++) {
        const gy_bundle_item *item = &bundle->items[i];
        hashes[i].name = item->name;
        hashes[i].hash =
            is_chained ? sums[i] : gy_hash(&sums[i], sizeof(sums[i]), gy_bundle_seed(item));
    }
    qsort(hashes, bundle->item_count, sizeof(*hashes), by_name);
    for (size_t i = 0; i < bundle->item_count; i++) {
        hash = gy_hash(&hashes[i].hash, sizeof(hashes[i].hash), hash);
    }
    snprintf(out, GY_BUNDLE_CHECKSUM_BYTES, "%s%016llx",
             is_chained ? chained_prefix : sum_prefix, (unsigned long long)hash);
    gy_free(hashes);
    return GY_OK;
}

typedef struct summing {
    const gy_bundle_item *item;
    bool is_chained;
    uint64_t sum;
} summing;

static gy_status sum_elements(void *arg, const void *data, size_t size_bytes)
{
    summing *s = arg;
    s->sum = s->is_chained
                 ? gy_hash(data, size_bytes, gy_bundle_seed(s->item))
                 : gy_bundle_sum(s->item, 0, data,
                                 (int64_t)(size_bytes / gy_bundle_element_bytes(s->item)));
    return GY_OK;
}

gy_status gy_bundle_checksum(const gy_bundle *bundle, bool is_chained,
                             char out[GY_BUNDLE_CHECKSUM_BYTES])
{
    uint64_t *sums = gy_alloc_zero("store.bundle", bundle->item_count, sizeof(*sums));
    gy_status status = sums == NULL ? GY_NOMEM : GY_OK;
    for (size_t i = 0; i < bundle->item_count && status == GY_OK; i++) {
        summing s = {.item = &bundle->items[i], .is_chained = is_chained};
        GY_ASSERT(s.item->tensor != NULL);
        status = gy_bundle_elements(s.item->tensor, sum_elements, &s);
        sums[i] = s.sum;
    }
    if (status == GY_OK) {
        status = gy_bundle_checksum_of(bundle, is_chained, sums, out);
    }
    gy_free(sums);
    return status;
}
