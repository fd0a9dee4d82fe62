/* winograd.h for 512-bit registers. Vectors of 16 lanes are channels; products and sums are
   contracted here (room.cmake), as in the libraries' kernels. */
#include "ops/avx512/winograd.h"

#include <string.h>

typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));

enum {
    LANES = 16,
    SIDE = 6,
    TAPS = GY_WINOGRAD_TAPS,
    TAP_COUNT = TAPS * TAPS,
    POINTS = GY_WINOGRAD_POINTS
};

#define INLINE static inline __attribute__((always_inline))

INLINE v16f load16(const float *x)
{
    v16f value;
    memcpy(&value, x, sizeof(value));
    return value;
}

INLINE void store16(float *y, v16f value)
{
    memcpy(y, &value, sizeof(value));
}

INLINE v16f all16(float x)
{
    return (v16f){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

/* ---- the matrices, along one dimension: elements of x stand `step` apart, y's `to` ---- */

/* t(B) x: 6 to 6. */
INLINE void input_line(const v16f *x, int64_t step, v16f *y, int64_t to)
{
    v16f even = x[4 * step] - x[2 * step], odd = x[3 * step] - x[step];
    v16f high = even - 1.5f * x[3 * step], low = odd - 1.5f * x[2 * step];
    y[0] = even - (x[2 * step] - x[0]) - 1.5f * odd;
    y[to] = high + low;
    y[2 * to] = high - low;
    y[3 * to] = even + 0.5f * odd;
    y[4 * to] = even - 2.0f * odd;
    y[5 * to] = (x[5 * step] - x[3 * step]) - 1.5f * even - odd;
}

/* t(A) x: 6 to 2. */
INLINE void result_line(const v16f *x, int64_t step, v16f *y, int64_t to)
{
    y[0] = x[0] + (x[step] + x[2 * step]) + (x[3 * step] + x[4 * step]);
    y[to] = (x[step] - x[2 * step]) + (2.0f * x[3 * step] - 0.5f * x[4 * step]) + x[5 * step];
}

/* A x: 2 to 6. */
INLINE void spread_line(const v16f *x, int64_t step, v16f *y, int64_t to)
{
    v16f a = x[0], b = x[step];
    y[0] = a;
    y[to] = a + b;
    y[2 * to] = a - b;
    y[3 * to] = a + 2.0f * b;
    y[4 * to] = a - 0.5f * b;
    y[5 * to] = b;
}

/* G x: 5 to 6. */
INLINE void filter_line(const v16f *x, int64_t step, v16f *y, int64_t to)
{
    v16f even = x[0] + x[2 * step] + x[4 * step], odd = x[step] + x[3 * step];
    v16f two = x[0] + 2.0f * x[step] + 4.0f * x[2 * step] + 8.0f * x[3 * step];
    v16f half = 16.0f * x[0] - 8.0f * x[step] + 4.0f * x[2 * step] - 2.0f * x[3 * step];
    y[0] = x[0];
    y[to] = (even + odd) * (-1.0f / 3);
    y[2 * to] = (even - odd) * (1.0f / 3);
    y[3 * to] = (two + 16.0f * x[4 * step]) * (1.0f / 15);
    y[4 * to] = (half + x[4 * step]) * (-1.0f / 15);
    y[5 * to] = x[4 * step];
}

/* t(G) x: 6 to 5. */
INLINE void gradient_line(const v16f *x, int64_t step, v16f *y, int64_t to)
{
    v16f odd = (x[step] + x[2 * step]) * (-1.0f / 3);
    v16f even = (x[2 * step] - x[step]) * (1.0f / 3);
    v16f two = x[3 * step] * (1.0f / 15), half = x[4 * step] * (-1.0f / 15);
    y[0] = x[0] + even + (two + 16.0f * half);
    y[to] = odd + (2.0f * two - 8.0f * half);
    y[2 * to] = even + (4.0f * two + 4.0f * half);
    y[3 * to] = odd + (8.0f * two - 2.0f * half);
    y[4 * to] = even + (16.0f * two + half) + x[5 * step];
}

/* ---- tiles ---- */

static const float zeros[LANES];

typedef struct tile {
    int64_t image, row, column; /* of the 2 by 2 results */
} tile;

static tile tile_at(const gy_winograd *s, int64_t index)
{
    int64_t rows = (s->to[0] + 1) / 2, columns = (s->to[1] + 1) / 2;
    return (tile){index / (rows * columns), index / columns % rows * 2, index % columns * 2};
}

static int64_t tile_count(const gy_winograd *s, int64_t images)
{
    return images * ((s->to[0] + 1) / 2) * ((s->to[1] + 1) / 2);
}

/* A plane of 16 channels of an image, cut out from (row, column) on; zeros outside. */
INLINE void cut(const float *plane, const int64_t sizes[2], int64_t row, int64_t column,
                int64_t side, v16f *d)
{
    if (row >= 0 && column >= 0 && row + side <= sizes[0] && column + side <= sizes[1]) {
        for (int64_t i = 0; i < side; i++) {
            for (int64_t j = 0; j < side; j++) {
                d[i * side + j] = load16(plane + ((row + i) * sizes[1] + column + j) * LANES);
            }
        }
        return;
    }
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) {
            bool is_in =
                row + i >= 0 && row + i < sizes[0] && column + j >= 0 && column + j < sizes[1];
            int64_t at = ((row + i) * sizes[1] + column + j) * LANES;
            d[i * side + j] = load16(is_in ? plane + at : zeros);
        }
    }
}

/* v: (36,28,from) = t(B) d B of `count` tiles from `first` on. */
static void transform_inputs(const gy_winograd *s, const float *x, int64_t first, int64_t count,
                             float *v)
{
    int64_t channels = s->from_channels, area = s->from[0] * s->from[1];
    for (int64_t t = 0; t < count; t++) {
        tile at = tile_at(s, first + t);
        for (int64_t c = 0; c < channels; c += LANES) {
            v16f d[POINTS], half[POINTS], out[POINTS];
            cut(x + (at.image * channels + c) * area, s->from, at.row - s->pad[0],
                at.column - s->pad[1], SIDE, d);
            for (int64_t i = 0; i < SIDE; i++) {
                input_line(d + i, SIDE, half + i, SIDE);
            }
            for (int64_t i = 0; i < SIDE; i++) {
                input_line(half + SIDE * i, 1, out + SIDE * i, 1);
            }
            for (int64_t p = 0; p < POINTS; p++) {
                store16(v + (p * GY_WINOGRAD_TILES + t) * channels + c, out[p]);
            }
        }
    }
}

/* v: (36,28,to) = A dy t(A). */
static void transform_result_gradients(const gy_winograd *s, const float *dy, int64_t first,
                                       int64_t count, float *v)
{
    int64_t channels = s->to_channels, area = s->to[0] * s->to[1];
    for (int64_t t = 0; t < count; t++) {
        tile at = tile_at(s, first + t);
        for (int64_t c = 0; c < channels; c += LANES) {
            v16f d[4], half[12], out[POINTS];
            cut(dy + (at.image * channels + c) * area, s->to, at.row, at.column, 2, d);
            for (int64_t i = 0; i < 2; i++) {
                spread_line(d + i, 2, half + i, 2);
            }
            for (int64_t i = 0; i < SIDE; i++) {
                spread_line(half + 2 * i, 1, out + SIDE * i, 1);
            }
            for (int64_t p = 0; p < POINTS; p++) {
                store16(v + (p * GY_WINOGRAD_TILES + t) * channels + c, out[p]);
            }
        }
    }
}

/* A tile's results to where they lie in the plane. */
INLINE void store_tile(const gy_winograd *s, tile at, const v16f results[4], float *plane)
{
    for (int64_t i = 0; i < 4; i++) {
        int64_t row = at.row + i / 2, column = at.column + i % 2;
        if (row < s->to[0] && column < s->to[1]) {
            store16(plane + (row * s->to[1] + column) * LANES, results[i]);
        }
    }
}

/* m: (36,28,to); y gets t(A) m A. */
static void transform_results(const gy_winograd *s, const float *m, int64_t first,
                              int64_t count, float *y)
{
    int64_t channels = s->to_channels, area = s->to[0] * s->to[1];
    for (int64_t t = 0; t < count; t++) {
        tile at = tile_at(s, first + t);
        for (int64_t c = 0; c < channels; c += LANES) {
            v16f d[POINTS], half[12], out[4];
            for (int64_t p = 0; p < POINTS; p++) {
                d[p] = load16(m + (p * GY_WINOGRAD_TILES + t) * channels + c);
            }
            for (int64_t i = 0; i < SIDE; i++) {
                result_line(d + i, SIDE, half + i, SIDE);
            }
            for (int64_t i = 0; i < 2; i++) {
                result_line(half + SIDE * i, 1, out + 2 * i, 1);
            }
            store_tile(s, at, out, y + (at.image * channels + c) * area);
        }
    }
}

/* ---- products ---- */

/* m: (rows,width) = or += sum over l < depth of a[i * row + l * step] b[l * width + j]. */
typedef struct product {
    const float *a, *b;
    float *m;
    int64_t row, step, depth, width;
    bool adds;
} product;

/* A block of `rows` by 16 `vectors` in registers; both are constants where this is inlined. */
INLINE void multiply_block(const product *p, int64_t rows, int64_t vectors)
{
    const float *a = p->a, *b = p->b;
    const int64_t row = p->row, step = p->step, width = p->width;
    v16f sums[8][4];
    _Pragma("GCC unroll 8") for (int64_t i = 0; i < rows; i++)
    {
        _Pragma("GCC unroll 4") for (int64_t j = 0; j < vectors; j++)
        {
            sums[i][j] = p->adds ? load16(p->m + i * width + j * LANES) : all16(0);
        }
    }
    for (int64_t l = p->depth; l > 0; l--) {
        v16f right[4];
        _Pragma("GCC unroll 4") for (int64_t j = 0; j < vectors; j++)
        {
            right[j] = load16(b + j * LANES);
        }
        _Pragma("GCC unroll 8") for (int64_t i = 0; i < rows; i++)
        {
            v16f left = all16(a[i * row]);
            _Pragma("GCC unroll 4") for (int64_t j = 0; j < vectors; j++)
            {
                sums[i][j] += left * right[j];
            }
        }
        a += step;
        b += width;
    }
    _Pragma("GCC unroll 8") for (int64_t i = 0; i < rows; i++)
    {
        _Pragma("GCC unroll 4") for (int64_t j = 0; j < vectors; j++)
        {
            store16(p->m + i * width + j * LANES, sums[i][j]);
        }
    }
}

/* Tiles (rows of a, `channels` apart) by filters, seven tiles at a time. */
static void multiply_tiles(product p, int64_t tiles)
{
    const float *a = p.a, *b = p.b;
    float *m = p.m;
    int64_t vectors = p.width % 64 == 0 ? 4 : p.width % 32 == 0 ? 2 : 1;
    for (int64_t j = 0; j < p.width; j += vectors * LANES) {
        for (int64_t t = 0; t < tiles; t += 7) {
            p.a = a + t * p.row;
            p.b = b + j;
            p.m = m + t * p.width + j;
            if (vectors == 4) {
                multiply_block(&p, 7, 4);
            } else if (vectors == 2) {
                multiply_block(&p, 7, 2);
            } else {
                multiply_block(&p, 7, 1);
            }
        }
    }
}

/* Channels (neighbours in a) by filters, summed over tiles, added to m. */
static void multiply_channels(product p, int64_t channels)
{
    const float *a = p.a, *b = p.b;
    float *m = p.m;
    int64_t vectors = p.width % 64 == 0 ? 4 : p.width % 32 == 0 ? 2 : 1;
    int64_t rows = vectors == 4 ? 4 : 8;
    p.row = 1;
    for (int64_t j = 0; j < p.width; j += vectors * LANES) {
        for (int64_t c = 0; c < channels; c += rows) {
            p.a = a + c;
            p.b = b + j;
            p.m = m + c * p.width + j;
            if (vectors == 4) {
                multiply_block(&p, 4, 4);
            } else if (vectors == 2) {
                multiply_block(&p, 8, 2);
            } else {
                multiply_block(&p, 8, 1);
            }
        }
    }
}

void gy_winograd_images(const gy_winograd *s, int64_t images, const float *const xu[2],
                        float *y, float *scratch)
{
    int64_t from = s->from_channels, to = s->to_channels, total = tile_count(s, images);
    float *v = scratch, *m = scratch + from * POINTS * GY_WINOGRAD_TILES;
    for (int64_t first = 0; first < total; first += GY_WINOGRAD_TILES) {
        int64_t count = GY_MIN((int64_t)GY_WINOGRAD_TILES, total - first);
        transform_inputs(s, xu[0], first, count, v);
        for (int64_t p = 0; p < POINTS; p++) {
            multiply_tiles((product){.a = v + p * GY_WINOGRAD_TILES * from,
                                     .b = xu[1] + p * from * to,
                                     .m = m + p * GY_WINOGRAD_TILES * to,
                                     .row = from,
                                     .step = 1,
                                     .depth = from,
                                     .width = to},
                           count);
        }
        transform_results(s, m, first, count, y);
    }
}

void gy_winograd_filter_sums(const gy_winograd *s, int64_t images, const float *const xdy[2],
                             float *sums, float *scratch)
{
    int64_t from = s->from_channels, to = s->to_channels, total = tile_count(s, images);
    float *v = scratch, *d = scratch + from * POINTS * GY_WINOGRAD_TILES;
    for (int64_t first = 0; first < total; first += GY_WINOGRAD_TILES) {
        int64_t count = GY_MIN((int64_t)GY_WINOGRAD_TILES, total - first);
        transform_inputs(s, xdy[0], first, count, v);
        transform_result_gradients(s, xdy[1], first, count, d);
        for (int64_t p = 0; p < POINTS; p++) {
            multiply_channels((product){.a = v + p * GY_WINOGRAD_TILES * from,
                                        .b = d + p * GY_WINOGRAD_TILES * to,
                                        .m = sums + p * from * to,
                                        .step = from,
                                        .depth = count,
                                        .width = to,
                                        .adds = first > 0},
                              from);
        }
    }
}

/* ---- filters ---- */

/* Sixteen filters, a lane each, `lane_step` floats apart; turned: their last tap first. */
static void gather_turned(const float *filters, v16f *taps)
{
    float g[TAP_COUNT][LANES];
    for (int64_t lane = 0; lane < LANES; lane++) {
        const float *filter = filters + lane * TAP_COUNT;
        for (int64_t f = 0; f < TAP_COUNT; f++) {
            g[f][lane] = filter[TAP_COUNT - 1 - f];
        }
    }
    memcpy(taps, g, sizeof(g));
}

void gy_winograd_filters(const gy_winograd *s, const float *w, float *u)
{
    int64_t from = s->from_channels, to = s->to_channels;
    for (int64_t k = 0; k < to; k += LANES) {
        for (int64_t c = 0; c < from; c++) {
            v16f taps[TAP_COUNT], half[SIDE * TAPS], out[POINTS];
            gather_turned(w + (c * to + k) * TAP_COUNT, taps);
            for (int64_t i = 0; i < TAPS; i++) {
                filter_line(taps + i, TAPS, half + i, TAPS);
            }
            for (int64_t i = 0; i < SIDE; i++) {
                filter_line(half + TAPS * i, 1, out + SIDE * i, 1);
            }
            for (int64_t p = 0; p < POINTS; p++) {
                store16(u + (p * from + c) * to + k, out[p]);
            }
        }
    }
}

void gy_winograd_filter_gradient(const gy_winograd *s, const float *sums, float *dw)
{
    int64_t from = s->from_channels, to = s->to_channels;
    for (int64_t k = 0; k < to; k += LANES) {
        for (int64_t c = 0; c < from; c++) {
            float g[TAP_COUNT][LANES];
            v16f d[POINTS], half[TAPS * SIDE], out[TAP_COUNT];
            for (int64_t p = 0; p < POINTS; p++) {
                d[p] = load16(sums + (p * from + c) * to + k);
            }
            for (int64_t i = 0; i < SIDE; i++) {
                gradient_line(d + i, SIDE, half + i, SIDE);
            }
            for (int64_t i = 0; i < TAPS; i++) {
                gradient_line(half + SIDE * i, 1, out + TAPS * i, 1);
            }
            memcpy(g, out, sizeof(g));
            for (int64_t lane = 0; lane < LANES; lane++) {
                for (int64_t f = 0; f < TAP_COUNT; f++) {
                    dw[((k + lane) * from + c) * TAP_COUNT + f] = g[f][lane];
                }
            }
        }
    }
}
