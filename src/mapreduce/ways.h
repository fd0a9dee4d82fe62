/**
 * The ways to look at text 64 bytes at a time: which of them this machine can go, and which is
 * taken. Everything that has a vector form has a function for each.
 */
#ifndef GY_MAPREDUCE_WAYS_H
#define GY_MAPREDUCE_WAYS_H

#include <gyre/base.h>

typedef enum gy_way {
    GY_WAY_PLAIN,
    GY_WAY_AVX2,   /* with BMI1 and BMI2 */
    GY_WAY_AVX512, /* F, BW, VL and VBMI2, with BMI2 */
    GY_WAY_COUNT
} gy_way;

/** Can this CPU go it? @threads any */
bool gy_way_is_here(gy_way way);

/** The best that is here, or less when GYRE_ISA (baseline, avx2, avx512) says so; read once.
 * @threads any @cost a load */
gy_way gy_way_best(void);

#endif
