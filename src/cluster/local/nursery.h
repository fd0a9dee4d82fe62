/**
 * The parent of the vertex processes, and what is said to it and by it.
 */
#ifndef GY_CLUSTER_LOCAL_NURSERY_H
#define GY_CLUSTER_LOCAL_NURSERY_H

#include "cluster/local/start.h"
#include "cluster/sandbox.h"
#include "cluster/worker.h"

/** To the nursery. SPAWN brings the vertex process's socket and log. */
typedef struct gy_nursery_order {
    enum { GY_NURSERY_SPAWN = 1, GY_NURSERY_KILL, GY_NURSERY_END } kind;
    uint32_t slot, generation;
} gy_nursery_order;

/** From the nursery: a vertex process has ended, or could not be made. */
typedef struct gy_nursery_news {
    uint32_t slot, generation;
    int status;          /* as waitpid tells it */
    int error;           /* errno of a fork that failed; 0 */
    bool is_over_memory; /* it, or what it started, was killed for that */
} gy_nursery_news;

/** Its exit status when it cannot be walled in as it was told to, said on standard error. */
enum { GY_NURSERY_OPEN = 78 };

/** The guardian's life, which does not return; the nursery's, and (it returns there too) that
 * of each process that it forks; an exit status. `socket` and `boards` are taken. */
int gy_nursery_run(int socket, const gy_role *role, const gy_walls *walls, int boards,
                   const gy_worker_ops *ops);

#endif
