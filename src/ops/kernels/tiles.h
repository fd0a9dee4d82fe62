/**
 * Element-wise operators over one tile: a run of elements in fast memory. tiles.inc holds the
 * code, compiled once for each instruction set; all of them give the same bits, because none
 * contracts a product and a sum, and sums go by sixteen lanes everywhere.
 */
#ifndef GY_OPS_KERNELS_TILES_H
#define GY_OPS_KERNELS_TILES_H

#include "ops/kernels/libraries.h"
#include "ops/ops.h"

/** Operators by number, in the order of ops.def. */
typedef enum gy_ops_code {
#define GY_X(name) GY_CODE_##name,
#include "ops/ops.def"
#undef GY_X
    GY_CODE_COUNT
} gy_ops_code;

/** GY_CODE_COUNT when the row is none of the table. */
gy_ops_code gy_ops_code_of(const gy_op *op);

enum { GY_TILE_BYTES = 4096 }; /* of one tile register */

typedef struct gy_tile {
    const void *inputs[3];
    void *output; /* may be the memory of an input, element for element */
    int64_t count;
    uint32_t scalars; /* bit i: input i is a single element */
    const gy_attributes *attributes;
    int64_t index; /* dropout: of the first element in the global tensor */
} gy_tile;
typedef void (*gy_tile_function)(const gy_tile *tile);

/**
 * Fold x: (rows,columns) into double (floats) or int64_t (integers) accumulators.
 * rows: acc[r * stride] gets row r; columns: acc[c] gets column c.
 */
typedef void (*gy_tile_fold)(const void *x, int64_t rows, int64_t columns, void *acc,
                             int64_t stride);

/* A row of layer norm: xhat = (x - mean) scale. */
typedef struct gy_norm_line {
    const float *x, *gain;
    float mean, scale;
    int64_t count;
} gy_norm_line;

typedef struct gy_tile_table {
    /* NULL when there is none. Types of the first value operand and of the result. */
    gy_tile_function (*find)(gy_ops_code code, gy_dtype input, gy_dtype output);
    /* a <= z ? z : b of tiles a and b and one element z; NULL: not for this type. */
    gy_tile_function (*find_gate)(gy_dtype type);
    /* reduction: GY_CODE_sum, prod, max or min. */
    gy_tile_fold (*find_fold)(gy_ops_code reduction, gy_dtype type, bool by_rows);
    /* y = exp(x - shift) and the sum of y; along one row. */
    double (*exp_sum)(const float *x, float shift, float *y, int64_t count);
    /* The same sum without y. */
    double (*exp_total)(const float *x, float shift, int64_t count);
    /* y = factor softmax(x); along one row. */
    void (*softmax)(const float *x, float *y, int64_t count, double factor);
    /* dp = scale p (dp - mean): from probabilities to the slopes of scores; along one row. */
    void (*softmax_slope)(const float *p, float *dp, float mean, float scale, int64_t count);
    double (*row_dot)(const float *a, const float *b, int64_t count);
    /* y = xhat gain + bias */
    void (*norm_row)(const gy_norm_line *line, const float *bias, float *y);
    /* dx = scale (h - mean of h - xhat mean of h xhat) with h = dy gain; dgain += dy xhat and
       dbias += dy. dx is not dy. */
    void (*norm_slope)(const gy_norm_line *line, const float *dy, float *dx, float *dgain,
                       float *dbias);
    float (*row_max)(const float *x, int64_t count);
    double (*row_sum)(const float *x, int64_t count);
    /* Sum of (x - mean)^2. */
    double (*row_deviation)(const float *x, float mean, int64_t count);
    /* y: (rows,columns) plus bias (columns; may be NULL), then relu. */
    void (*finish_rows)(float *y, const float *bias, bool relu, int64_t rows, int64_t columns);
    /* sizes: height and width of x, then of y; planes of sixteen channels. */
    void (*max_pool_blocked)(const float *x, const int64_t sizes[4], const gy_attributes *pool,
                             float *y, int64_t planes);
    void (*max_pool_gradient_blocked)(const float *x, const float *dy, const int64_t sizes[4],
                                      const gy_attributes *pool, float *dx, int64_t planes);
    void (*average_pool_blocked)(const float *x, const int64_t sizes[4],
                                 const gy_attributes *pool, float *y, int64_t planes);
    void (*average_pool_gradient_blocked)(const float *dy, const int64_t sizes[4],
                                          const gy_attributes *pool, float *dx, int64_t planes);
} gy_tile_table;

extern const gy_tile_table gy_tiles_baseline, gy_tiles_avx2, gy_tiles_avx512;
/** The table of gy_tile_isa_level(). @threads any */
const gy_tile_table *gy_tiles(void);

#endif
