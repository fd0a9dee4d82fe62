/**
 * Instruction sets for text processing 64 bytes at a time: which of them this CPU supports,
 * and which is used. Everything that is vectorised has a function for each.
 */
#ifndef GY_TOPO_WAYS_H
#define GY_TOPO_WAYS_H

#include <gyre/base.h>

typedef enum gy_way {
    GY_WAY_PLAIN,
    GY_WAY_AVX2,   /* with BMI1 and BMI2 */
    GY_WAY_AVX512, /* F, BW, VL and VBMI2, with BMI2 */
    GY_WAY_COUNT
} gy_way;

/** Does this CPU support it? @threads any */
bool gy_way_is_here(gy_way way);

/** The best that this CPU supports, or a lesser one by GYRE_ISA (baseline, avx2, avx512);
 * determined once. @threads any @cost a load */
gy_way gy_way_best(void);

#endif
