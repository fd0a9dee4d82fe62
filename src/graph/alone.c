/* A process alone: what room coll replaces (weak, until it is there). */
#include "ops/collective.h"

#define WEAK __attribute__((weak))

WEAK int gy_comm_size(const gy_comm *comm)
{
    (void)comm;
    return 1;
}

WEAK int gy_comm_rank(const gy_comm *comm)
{
    (void)comm;
    return 0;
}

WEAK gy_pool *gy_comm_pool(gy_comm *comm)
{
    (void)comm;
    return NULL;
}

WEAK gy_status gy_collective_attach(gy_engine *engine, gy_comm *comm)
{
    (void)engine;
    (void)comm;
    return GY_OK;
}

WEAK void gy_collective_detach(gy_engine *engine, gy_comm *comm)
{
    (void)engine;
    (void)comm;
}

WEAK size_t gy_collective_workspace_bytes(const gy_op *op, const gy_attributes *attributes,
                                          const gy_type *type, int ranks)
{
    (void)op;
    (void)attributes;
    (void)type;
    (void)ranks;
    return 0;
}

WEAK void gy_collective_refuse(gy_collective *collective, const gy_error *cause)
{
    (void)collective;
    (void)cause;
}

WEAK gy_status gy_collective_push(gy_engine *engine, gy_collective *collective, gy_task *task)
{
    (void)engine;
    (void)collective;
    (void)task;
    return gy_fail(GY_UNSUPPORTED, "this process has no peers");
}

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
