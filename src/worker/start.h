/**
 * Starts a process of this program or of another, and exchanges packets with descriptors with
 * it.
 */
#ifndef GY_WORKER_START_H
#define GY_WORKER_START_H

#include "base/env.h"

#include <gyre/launch.h>

#include <sys/types.h>

/**
 * The first packet to a process that was started to serve. The arguments of a gang follow it,
 * or the paths of a fork server's sandbox.
 */
typedef struct gy_role {
    enum { GY_ROLE_FORK_SERVER = 1, GY_ROLE_GANG } kind;
    uint32_t processes, threads; /* fork server */
    size_t memory_bytes;         /* fork server: limit of a vertex process */
    uint32_t parts;              /* fork server: of its sandbox, GY_SANDBOX_ */
    pid_t starter;               /* its parent */
    /* For a gang. These texts follow: on several hosts (run.nodes > 1) node 0's address and,
     * unless run.is_plaintext, the key; then `variables` environment variables; then program
     * and arguments. The packet carries a descriptor if the ranks' output goes to one. */
    gy_run_options run;
    uint32_t variables;
} gy_role;

enum { GY_PACKET_FILES = 2, GY_PACKET_BYTES = 128 << 10 };

typedef struct gy_packet {
    void *data;
    size_t size_bytes; /* in: capacity; out: size received */
    int files[GY_PACKET_FILES];
    int file_count;
} gy_packet;

/** How to start a program that serves; all pointers are borrowed, NULL: as this process. */
typedef struct gy_worker_start {
    char *const *argv;        /* the first is the program's path; NULL: /proc/self/exe */
    char *const *environment; /* GYRE_VERTEX is added */
    const char *directory;
} gy_worker_start;

/**
 * Start this program again, or another one. `socket` is this process's end, blocking, for
 * packets of up to GY_PACKET_BYTES. GY_LIMIT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_worker_start_self(const gy_worker_start *start, int *socket,
                                             pid_t *process);
/** GY_PEER; GY_TIMEOUT: the other side has not read for 10 s */
GY_MUST_CHECK gy_status gy_packet_send(int socket, const gy_packet *packet);
/** GY_AGAIN: no packet (if not waiting); GY_PEER: the end; GY_FORMAT: too long and truncated */
GY_MUST_CHECK gy_status gy_packet_receive(int socket, gy_packet *packet, bool is_waiting);
/**
 * Wait for a child that was told to end until the deadline, then kill it. Its status as from
 * waitpid; -1: unknown.
 */
int gy_worker_child_wait(gy_env *env, pid_t child, gy_deadline deadline);

#endif
