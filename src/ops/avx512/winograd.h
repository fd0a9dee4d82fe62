/**
 * The arithmetic of Winograd's convolution F(2x2, 5x5): what winograd.c calls, compiled for
 * AVX-512.
 *
 * An image is cut into tiles of 2 by 2 results, made of 6 by 6 inputs d. With the matrices of
 * the points 0, 1, -1, 2, -1/2 and infinity, Y = t(A) [(G g t(G)) o (t(B) d B)] A for one
 * filter g: 36 products where the definition has 100. Over channels and tiles these are 36
 * matrix products (tiles,channels) by (channels,filters). The filters' gradient is the
 * transposed algorithm: dg = t(G) [(t(B) d B) o (A dY t(A))] G, summed over tiles.
 *
 * @source Winograd: "Arithmetic complexity of computations", 1980; Lavin, Gray: "Fast
 * algorithms for convolutional neural networks", 2016
 */
#ifndef GY_OPS_AVX512_WINOGRAD_H
#define GY_OPS_AVX512_WINOGRAD_H

#include "base/base.h"

enum {
    GY_WINOGRAD_TAPS = 5,
    GY_WINOGRAD_POINTS = 36,
    GY_WINOGRAD_TILES = 28 /* at once: with 32 and 64 channels they fit the L2 cache */
};

/** Images are nChw16c; channels are multiples of 16. */
typedef struct gy_winograd {
    int64_t from_channels, to_channels;
    int64_t from[2], to[2], pad[2]; /* heights and widths; to = from + 2 pad - 4 */
} gy_winograd;

/** Floats of scratch that the functions below need, and of transformed filters. */
static inline int64_t gy_winograd_scratch(const gy_winograd *s)
{
    return (s->from_channels + s->to_channels) * GY_WINOGRAD_POINTS * GY_WINOGRAD_TILES;
}
static inline int64_t gy_winograd_filter_floats(const gy_winograd *s)
{
    return GY_WINOGRAD_POINTS * s->from_channels * s->to_channels;
}

/**
 * G g t(G) of all filters, turned by 180 degrees: the convolution is then the one that gives
 * the input's gradient. w: (from,to,5,5). u: (36,from,to).
 */
void gy_winograd_filters(const gy_winograd *s, const float *w, float *u);

/** Convolve `images` images. x: (images,from,..), y: (images,to,..), u: (36,from,to). */
void gy_winograd_images(const gy_winograd *s, int64_t images, const float *const xu[2],
                        float *y, float *scratch);

/** Add these images' part of the filters' gradient to sums: (36,from,to). */
void gy_winograd_filter_sums(const gy_winograd *s, int64_t images, const float *const xdy[2],
                             float *sums, float *scratch);

/** dw: (to,from,5,5) from the sums of all images. */
void gy_winograd_filter_gradient(const gy_winograd *s, const float *sums, float *dw);

#endif
