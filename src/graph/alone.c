/* Kernels of ops, until they are there (weak). */
#include "ops/ops.h"

#define WEAK __attribute__((weak))

/* Until the kernels are there the references run. */
WEAK const gy_kernel *gy_kernel_choose(const gy_kernel_query *query)
{
    (void)query;
    return NULL;
}

WEAK const gy_kernel *const *gy_op_kernels(const gy_op *op)
{
    (void)op;
    static const gy_kernel *const none[] = {NULL};
    return none;
}
