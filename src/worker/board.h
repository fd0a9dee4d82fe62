/** Shows from outside what runs in a process. */
#ifndef GY_WORKER_BOARD_H
#define GY_WORKER_BOARD_H

#include "worker/worker.h"

#include <stdatomic.h>

/**
 * One line for each thread of a vertex process, in shared memory; each has cache lines of its
 * own.
 */
typedef struct gy_board {
    /* Stored with release before the task runs, and cleared after it. */
    _Alignas(GY_CACHE_LINE) _Atomic uint32_t is_running;
    /* Its process ends because user code closed or replaced its socket. */
    _Atomic uint32_t is_cut_off;
    uint32_t member;
    gy_attempt id;
    _Alignas(16) uint8_t text[GY_BOARD_BYTES]; /* opaque data of room flow */
} gy_board;

/**
 * Create a memory file with lines for processes * threads, and return its descriptor. GY_LIMIT
 */
GY_MUST_CHECK gy_status gy_worker_boards_new(uint32_t lines, int *file);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_worker_boards_map(int file, uint32_t lines, gy_board **boards);
void gy_worker_boards_unmap(gy_board *boards, uint32_t lines);

#endif
