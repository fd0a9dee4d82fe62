/**
 * The collective operations.
 */
#ifndef GYRE_OPERATION_H
#define GYRE_OPERATION_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gy_operation {
    GY_OPERATION_ALLREDUCE,
    GY_OPERATION_REDUCE_SCATTER,
    GY_OPERATION_ALLGATHER,
    GY_OPERATION_BROADCAST,
    GY_OPERATION_REDUCE,
    GY_OPERATION_BARRIER,
    GY_OPERATION_GATHER,
    GY_OPERATION_SCATTER,
    GY_OPERATION_ALLTOALL,
    GY_OPERATION_SCAN,           /* rank r gets x0 op ... op xr */
    GY_OPERATION_EXCLUSIVE_SCAN, /* rank r gets x0 op ... op x(r-1); rank 0 gets nothing */
    GY_OPERATION_COUNT
} gy_operation;

/** The name of an operation ("allreduce"); static. @threads any */
GY_API const char *gy_operation_name(gy_operation operation);

#ifdef __cplusplus
}
#endif
#endif
