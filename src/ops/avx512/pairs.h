/**
 * Products of bf16 with sums in float32 by AVX512-BF16, whose instruction adds to each lane the
 * products of a pair: for small products in the cache, where a library's call costs as much.
 * The instruction takes subnormal numbers for 0.
 */
#ifndef GY_OPS_AVX512_PAIRS_H
#define GY_OPS_AVX512_PAIRS_H

#include "base/base.h"

/** A matrix of bf16, or of float32 to be rounded to it (nearest, even). */
typedef struct gy_pairs_operand {
    const void *data;
    int64_t step;            /* elements from row to row in memory */
    bool is_turned, is_wide; /* rows in memory are columns; float32 */
} gy_pairs_operand;

/** c: (m,n) float32 = alpha a b, or += that. a: (m,k); b: (k,n), not wide. */
typedef struct gy_pairs {
    int64_t m, n, k;
    gy_pairs_operand a, b;
    float alpha;
    bool adds;
    float *c;
    int64_t c_step;
    void *workspace; /* gy_pairs_bytes, fastest at a multiple of 64 */
} gy_pairs;

size_t gy_pairs_bytes(int64_t m, int64_t n, int64_t k);

/**
 * Compute c, which is no operand's memory. On CPUs with AVX512-BF16 alone. Both operands are
 * laid out anew, about a tenth of the work at 64 rows and columns.
 * @threads any, each with workspace of its own
 * @cost 2 m n k at 64 floating point operations a cycle
 * @source Intel, "Instruction set extensions", VDPBF16PS; Goto and van de Geijn, "Anatomy of
 * high-performance matrix multiplication", 2008
 */
void gy_pairs_multiply(const gy_pairs *p);

#endif
