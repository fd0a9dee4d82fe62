/** Gang vertices: ranks of the tensor wing that form one vertex of a job. */
#ifndef GY_DRIVER_GANG_H
#define GY_DRIVER_GANG_H

#include "worker/worker.h"

enum { GY_GANG_HOSTS_MAX = 256 };

/** The ranks of one vertex or (nodes > 1) the part of them on one host. */
typedef struct gy_gang {
    int ranks;         /* on this host, 1 .. GY_RUN_RANKS_MAX */
    char *const *argv; /* program (beside this one, or found through PATH) and arguments,
                          NULL-terminated */
    double timeout_s;  /* 0: no limit except that in `run` */
    const void *run; /* (run_bytes) a gy_run_options, of which only the plain numbers are used;
                        run_bytes 0: none */
    size_t run_bytes;
    /* Additional environment variables; NULL-terminated, or NULL. */
    const char *const *environment;
    const gy_worker_task *task; /* NULL: not in a vertex; nothing is published */
    bool is_reported; /* gy_worker_output the ranks' output and how they failed; else both go to
                         the process's log */
    /* of several hosts */
    int nodes, node;     /* 0 and 0: only this host; member node * ranks is that node */
    const char *address; /* of node 0: "HOST:PORT"; it listens on another port of HOST */
    bool is_plain;       /* no encryption; else with a key that node 0 draws for each attempt */
} gy_gang;

/**
 * Called in gy_worker_ops.run: start ranks as `gyre run` does, wait until all have ended, and
 * kill what they started. Node 0 publishes its address to the others (gy_worker_publish).
 *
 * @return GY_OK all ended well; GY_PEER they did not (the text says how); GY_STATE another node
 * was lost, or did not come, which is no task's fault; GY_CANCELLED; GY_TIMEOUT; GY_ARG;
 * GY_LIMIT no more processes; GY_NOMEM
 * @threads any
 * @cost a start of this program, then of the ranks
 */
GY_MUST_CHECK gy_status gy_gang_run(const gy_gang *gang, const _Atomic bool *is_cancelled);

/**
 * For gy_worker_ops.gang, in the process that was started for a gang: takes the texts after the
 * role, and the descriptor of its output (-1: this process's). Returns an exit status.
 */
int gy_gang_serve(int socket, const struct gy_role *role, struct gy_packet *packet,
                  const char *texts);

#endif
