/**
 * What runs in a process, seen from outside.
 */
#ifndef GY_WORKER_BOARD_H
#define GY_WORKER_BOARD_H

#include "worker/worker.h"

#include <stdatomic.h>

/** One line a thread of a vertex process, in memory that all share; no two in one cache line.
 */
typedef struct gy_board {
    _Alignas(GY_CACHE_LINE) _Atomic uint32_t is_running; /* written last before, first after */
    _Atomic uint32_t is_cut_off; /* its process ends, as its socket was closed or replaced */
    uint32_t member;
    gy_attempt id;
    _Alignas(16) uint8_t text[GY_BOARD_BYTES]; /* room flow's */
} gy_board;

/** A memory file of lines for processes * threads. Its descriptor. GY_LIMIT */
GY_MUST_CHECK gy_status gy_worker_boards_new(uint32_t lines, int *file);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_worker_boards_map(int file, uint32_t lines, gy_board **boards);
void gy_worker_boards_unmap(gy_board *boards, uint32_t lines);

#endif
