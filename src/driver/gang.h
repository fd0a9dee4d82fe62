/**
 * Gang vertices: ranks of the tensor wing that are one vertex of a job.
 */
#ifndef GY_DRIVER_GANG_H
#define GY_DRIVER_GANG_H

#include "worker/worker.h"

enum { GY_GANG_HOSTS_MAX = 256 };

/** Ranks of the tensor wing that are one vertex, or (nodes above 1) one host's part of them. */
typedef struct gy_gang {
    int ranks;         /* here, 1 .. GY_RUN_RANKS_MAX */
    char *const *argv; /* program (found beside this one, or through PATH) and arguments,
                          NULL at the end */
    double timeout_s;  /* 0: no limit but the one in `run` */
    const void *run;   /* (run_bytes) a gy_run_options, of which the plain numbers count;
                          run_bytes 0: none */
    size_t run_bytes;
    const char *const *environment; /* more variables; NULL at the end, or NULL */
    const gy_worker_task *task;     /* NULL: alone, and nothing is told */
    bool is_reported; /* gy_worker_say what ranks print, else it goes to the process's log; and
                     how they failed */
    /* of several hosts */
    int nodes, node;     /* 0 and 0: this host alone; member node * ranks is that node */
    const char *address; /* of node 0: "HOST:PORT"; it listens at another port of HOST */
    bool is_plain;       /* no encryption; else with a key that node 0 draws for this attempt */
} gy_gang;

/**
 * Called in gy_worker_ops.run: start ranks as `gyre run` does and wait for the end of all. What
 * they started is killed at the end. Nodes find node 0 by what it tells (gy_worker_tell).
 *
 * @return GY_OK all ended well; GY_PEER they did not: how; GY_STATE another node was lost, or
 * did not come, for which nobody is to blame; GY_CANCELLED; GY_TIMEOUT; GY_ARG; GY_LIMIT no
 * more processes; GY_NOMEM
 * @threads any
 * @cost a start of this program, then of the ranks
 */
GY_MUST_CHECK gy_status gy_gang_run(const gy_gang *gang, const _Atomic bool *is_cancelled);

/** For gy_worker_ops.gang: in the process that was started for a gang, with what came after the
 * role, and where its output goes (-1: as this one's). It tells how the ranks ended by the
 * socket; 0. */
int gy_gang_serve(int socket, const struct gy_role *role, struct gy_packet *packet,
                  const char *texts);

#endif
