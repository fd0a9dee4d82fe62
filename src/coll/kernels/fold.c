/*
 * Folds: contributions combined from left to right, a tile that fits the first cache at a time.
 * Sums of f16 and bf16 are float32 until they are finished, so that p contributions cost one
 * rounding; every path that folds gives these bits.
 */
#include "coll/kernels.h"

#include "base/base.h"

#include <stdalign.h>
#include <string.h>

enum {
    TILE_BYTES = 8192, /* with two operands well inside the first cache */
    WIDE_TILE = TILE_BYTES / sizeof(float)
};

gy_coll_fold gy_coll_fold_of(gy_dtype dtype, gy_reduction reduction,
                             const gy_user_reduction *user, int ranks)
{
    GY_CHECK_DEEP(ranks > 0);
    if (dtype == GY_DTYPE_NONE) { /* a barrier combines nothing */
        return (gy_coll_fold){.user = user, .element_bytes = 1};
    }
    size_t element = gy_dtype_bytes(dtype);
    GY_CHECK_DEEP(element > 0);
    if (user != NULL) {
        return (gy_coll_fold){.user = user,
                              .element_bytes =
                                  user->element_bytes != 0 ? user->element_bytes : element,
                              .dtype = dtype};
    }
    return (gy_coll_fold){.loop = gy_coll_combine_of(dtype, reduction),
                          .many = gy_coll_combine_many_of(dtype, reduction),
                          .element_bytes = element,
                          .dtype = dtype,
                          .reduction = reduction,
                          .divisor = reduction == GY_AVG ? ranks : 0};
}

/* Returns the elements from `at` on as float32: the term's own memory if it is a running sum,
 * else a widened copy in the tile. */
static const float *as_floats(const gy_coll_fold *fold, gy_term term, size_t at, size_t count,
                              float *tile)
{
    GY_CHECK_DEEP(count <= WIDE_TILE);
    if (term.is_sum) {
        return (const float *)term.data + at;
    }
    gy_half_widen(fold->dtype, tile, (const uint16_t *)term.data + at, count);
    return tile;
}

static void finish_wide(const gy_coll_fold *fold, float *sum, uint16_t *to, size_t count)
{
    GY_CHECK_DEEP(count <= WIDE_TILE && fold->divisor >= 0);
    if (fold->divisor != 0) {
        gy_divide(GY_F32, sum, count, fold->divisor);
    }
    gy_half_narrow(fold->dtype, to, sum, count);
}

static void fold_wide(const gy_targets *targets, bool is_sum, const gy_coll_fold *fold,
                      gy_term a, gy_term b, size_t count)
{
    alignas(64) float left[WIDE_TILE], right[WIDE_TILE];
    alignas(64) uint16_t halves[WIDE_TILE];
    gy_coll_combine combine = gy_coll_combine_of(GY_F32, fold->reduction);
    GY_ASSERT(combine != NULL && targets->count > 0);
    for (size_t at = 0; at < count; at += WIDE_TILE) {
        size_t now = GY_MIN((size_t)WIDE_TILE, count - at);
        combine(left, as_floats(fold, a, at, now, left), as_floats(fold, b, at, now, right),
                now);
        if (is_sum) {
            gy_stream_put(targets, at * sizeof(float), left, now * sizeof(float));
        } else {
            finish_wide(fold, left, halves, now);
            gy_stream_put(targets, at * sizeof(uint16_t), halves, now * sizeof(uint16_t));
        }
    }
}

void gy_finish_into(const gy_targets *targets, const gy_coll_fold *fold, const void *sum,
                    size_t count)
{
    alignas(64) float tile[WIDE_TILE];
    alignas(64) uint16_t halves[WIDE_TILE];
    const float *from = sum;
    GY_ASSERT(gy_coll_fold_is_wide(fold));
    GY_ASSERT(targets->count > 0);
    for (size_t at = 0; at < count; at += WIDE_TILE) {
        size_t now = GY_MIN((size_t)WIDE_TILE, count - at);
        memcpy(tile, from + at, now * sizeof(*tile));
        finish_wide(fold, tile, halves, now);
        gy_stream_put(targets, at * sizeof(uint16_t), halves, now * sizeof(uint16_t));
    }
}

/* Combines in place where there is one target, else through a tile. One element may be larger
 * than the tile. */
static void combine_tiles(const gy_targets *targets, const gy_coll_fold *fold, const uint8_t *a,
                          const uint8_t *b, size_t count, bool is_finished)
{
    alignas(64) uint8_t tile[TILE_BYTES];
    size_t element = fold->element_bytes, step = GY_MAX(TILE_BYTES / element, (size_t)1);
    bool in_place = element > TILE_BYTES || (targets->count == 1 && !targets->is_streamed);
    GY_ASSERT(element > 0 && targets->count > 0);
    if (in_place && !is_finished) {
        step = count;
    }
    for (size_t at = 0; at < count; at += step) {
        size_t now = GY_MIN(step, count - at), byte = at * element;
        uint8_t *to = in_place ? targets->to[0] + byte : tile;
        gy_coll_fold_combine(fold, to, a + byte, b + byte, now);
        if (is_finished) {
            gy_coll_fold_finish(fold, to, now);
        }
        if (!in_place || targets->count > 1) {
            gy_stream_put(targets, byte, to, now * element);
        }
    }
}

void gy_coll_combine_into(const gy_targets *targets, const gy_coll_fold *fold, const void *a,
                          const void *b, size_t count)
{
    GY_ASSERT(targets->count > 0);
    combine_tiles(targets, fold, a, b, count, false);
}

void gy_coll_fold_into(const gy_targets *targets, bool is_sum, const gy_coll_fold *fold,
                       gy_term a, gy_term b, size_t count)
{
    GY_CHECK_DEEP(gy_coll_fold_is_wide(fold) ||
                  (!a.is_sum || fold->element_bytes == gy_coll_fold_sum_bytes(fold)));
    if (gy_coll_fold_is_wide(fold)) {
        fold_wide(targets, is_sum, fold, a, b, count);
    } else {
        combine_tiles(targets, fold, a.data, b.data, count, !is_sum && fold->divisor != 0);
    }
}

void gy_coll_fold_many_into(const gy_targets *targets, const gy_coll_fold *fold,
                            const void *const *terms, int term_count, size_t count)
{
    alignas(64) uint8_t tile[TILE_BYTES];
    const void *at_tile[GY_FOLD_TERMS];
    size_t element = fold->element_bytes, step = TILE_BYTES / element;
    bool in_place = targets->count == 1 && !targets->is_streamed;
    GY_ASSERT(fold->many != NULL && term_count > 1 && term_count <= GY_FOLD_TERMS);
    GY_ASSERT(targets->count > 0 && element <= TILE_BYTES);
    if (in_place && fold->divisor == 0) {
        step = count;
    }
    for (size_t at = 0; at < count; at += step) {
        size_t now = GY_MIN(step, count - at), byte = at * element;
        uint8_t *to = in_place ? targets->to[0] + byte : tile;
        for (int of = 0; of < term_count; of++) {
            at_tile[of] = (const uint8_t *)terms[of] + byte;
        }
        fold->many(to, at_tile, term_count, now);
        gy_coll_fold_finish(fold, to, now);
        if (!in_place) {
            gy_stream_put(targets, byte, to, now * element);
        }
    }
}
