/**
 * The glue between coll and engine: a change of placement as a task that occupies no worker
 * while it waits.
 */
#ifndef GY_OPS_COLLECTIVE_H
#define GY_OPS_COLLECTIVE_H

#include "coll/coll.h"
#include "ops/ops.h"

/** Let whoever waits on the engine drive the communicator. GY_NOMEM. */
GY_MUST_CHECK gy_status gy_collective_attach(gy_engine *engine, gy_comm *comm);
void gy_collective_detach(gy_engine *engine, gy_comm *comm);

/**
 * One allreduce, reduce_scatter, allgather or alltoall row applied to this rank's part, or a
 * send or receive row, along the ranks of whose stages `comm` is. Filled
 * in by the caller, then by gy_collective_init; kept until the task has ended; the same one is
 * pushed at every run.
 */
typedef struct gy_collective {
    gy_comm *comm;
    const gy_op *op;
    const gy_attributes *attributes; /* .move; .message */
    const int64_t *sizes;            /* whole along this mesh axis, local in the others; of a
                                        message NULL */
    gy_view input, output;           /* contiguous; a send has an input alone, a receive an
                                        output */
    void *workspace;                 /* gy_collective_workspace_bytes of it */
    int priority;
    /* Optional: told +1 when it starts, -1 when it ends (any thread). */
    void (*watch)(void *arg, int change);
    void *watch_arg;
    uint64_t sent_bytes; /* by this rank in the exchange; complete when `watch` is told of its
                            end (gy_coll_count) */
    /* Of gy_collective_init: elements to and from each rank, and where received parts that are
       not yet in their places begin in the workspace, in bytes. */
    int64_t *send_counts, *receive_counts;
    size_t received_offset;
    /* The task's own. */
    gy_coll *coll;
    gy_done *done;
} gy_collective;

/** Bytes that moving a value of `type` (whole along this mesh axis) takes; 0 when it goes
 * directly. */
size_t gy_collective_workspace_bytes(const gy_op *op, const gy_attributes *attributes,
                                     const gy_type *type, int ranks);

/** Is it a row by which two stages exchange, and no collective? */
static inline bool gy_collective_is_message(const gy_op *op)
{
    return op == &gy_ops_row_send || op == &gy_ops_row_receive;
}

/** Reckon what each rank sends and receives; its arrays are the arena's. Not of messages.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_collective_init(gy_collective *collective, gy_arena *arena);

/**
 * Take the next number of the communicator and push `task` (its variables, scope, name and
 * priority; the rest is set here) to start the collective when its input is ready. A failed
 * input is told to the peers, who then fail with its cause. All ranks push in one order, but
 * messages, which have no number.
 * @return GY_OK; GY_NOMEM and what the communicator failed with: nothing was pushed, the peers
 * are told
 */
GY_MUST_CHECK gy_status gy_collective_push(gy_engine *engine, gy_collective *collective,
                                           gy_task *task);

#endif
