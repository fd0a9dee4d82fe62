/**
 * Types of tensors that are spread over ranks: shapes with a symbolic batch size, meshes and
 * placements.
 */
#ifndef GYRE_TYPES_H
#define GYRE_TYPES_H

#include <gyre/coll.h>
#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The symbolic size "batch". A size n >= 0 is a number; -k is k times batch, so that (batch, 7,
 * 7, 64) reshapes to (batch, 3136) and (batch, 16) to (16 batch).
 */
#define GY_BATCH ((int64_t)-1)

enum { GY_MESH_MAX = 4 };

typedef enum gy_placement_kind {
    GY_REPLICATE, /* every rank of the axis has the whole value */
    GY_PARTIAL,   /* the value is the reduction over the ranks' values */
    GY_SHARD,     /* rank r of the axis has part r of dimension dim */
} gy_placement_kind;

typedef enum gy_bounds {
    GY_BOUNDS_EVEN,   /* part r of p over n rows: [r n / p, (r + 1) n / p) */
    GY_BOUNDS_BLOCKS, /* whole blocks of 1024 */
    GY_BOUNDS_RANGES, /* by a given list */
    GY_BOUNDS_ONE,    /* all on one rank */
} gy_bounds;

/** How a value is placed along one axis of the mesh. Zero: replicated. */
typedef struct gy_placement {
    uint8_t kind;      /* gy_placement_kind */
    uint8_t reduction; /* gy_reduction, of GY_PARTIAL */
    uint8_t dim;       /* of GY_SHARD */
    uint8_t bounds;    /* gy_bounds, of GY_SHARD */
} gy_placement;

/** The first row of part `rank` of `ranks` in n rows by GY_BOUNDS_EVEN; gy_part_begin(n, ranks,
 * ranks) is n. @threads any */
static inline int64_t gy_part_begin(int64_t n, int rank, int ranks)
{
    return n / ranks * rank + n % ranks * rank / ranks;
}

#ifdef __cplusplus
}
#endif
#endif
