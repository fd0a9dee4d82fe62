#include "base/hash.h"

#include "base/fail.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(sizeof(XXH3_state_t) <= GY_HASH_STATE_BYTES, "the state fits");

uint64_t gy_hash(const void *data, size_t size_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size_bytes, seed);
}

void gy_hash_wide(const void *data, size_t size_bytes, uint64_t out[2])
{
    XXH128_hash_t hash = XXH3_128bits(data, size_bytes);
    out[0] = hash.high64;
    out[1] = hash.low64;
}

void gy_hash_begin(gy_hash_stream *stream)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)stream->state;
    XXH3_INITSTATE(state);
    GY_ASSERT(XXH3_64bits_reset(state) == XXH_OK);
}

void gy_hash_stream_begin(gy_hash_stream *stream, uint64_t seed)
{
    GY_ASSERT(stream != NULL);
    XXH3_state_t *state = (XXH3_state_t *)(void *)stream->state;
    XXH3_INITSTATE(state);
    GY_ASSERT(XXH3_64bits_reset_withSeed(state, seed) == XXH_OK);
}

void gy_hash_feed(gy_hash_stream *stream, const void *data, size_t size_bytes)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)stream->state;
    GY_ASSERT(XXH3_64bits_update(state, data, size_bytes) == XXH_OK);
}

uint64_t gy_hash_end(const gy_hash_stream *stream)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)stream->state);
}
