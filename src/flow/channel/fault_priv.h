/** What the fault handler reads of the thread that it runs on. */
#ifndef GY_FLOW_CHANNEL_FAULT_PRIV_H
#define GY_FLOW_CHANNEL_FAULT_PRIV_H

#include "flow/channel/fault.h"

#include <stdatomic.h>

enum { GY_FAULT_KEY_BYTES = 64 };

enum { GY_MAPPED_PLAIN = 1, GY_MAPPED_SECTION = 2 };

/**
 * A task's board (at most GY_BOARD_BYTES). Its members are atomic so that the handler on the
 * same thread, and the reader after the process's death, see the stores in order.
 */
typedef struct gy_fault_board {
    _Atomic uint64_t records; /* record ids stored so far, which the timer compares */
    _Atomic uint64_t offset;
    _Atomic uint32_t source;
    _Atomic uint32_t has_place;
    _Atomic int32_t signal;      /* the signal that killed the process; 0: none */
    _Atomic uint32_t is_timeout; /* the record exceeded its time limit */
    /* GY_MAPPED_*: SIGBUS in a mapped input, whose path is in `text` */
    _Atomic uint32_t mapped;
    _Atomic uint32_t input;
    char text[GY_FAULT_KEY_BYTES]; /* first bytes of a key, or last bytes of a path */
} gy_fault_board;

/** A mapped file that somebody may shorten during the task. */
typedef struct gy_fault_span {
    const char *data;
    size_t size_bytes;
    uint32_t input, kind; /* GY_MAPPED_* */
    const char *path;
} gy_fault_span;

typedef struct gy_fault_task {
    gy_fault *fault;
    gy_fault_board *board;
    gy_attempt id;
    uint32_t member;
    int64_t timeout_ns; /* time limit of a record; 0: none */
    _Atomic bool is_waiting;
    /* the thread changes these without blocking signals, so each store leaves the list valid
     * for the handler */
    gy_fault_span *_Atomic spans;
    _Atomic uint32_t span_count;
    size_t span_capacity;
    /* for the handler: */
    int32_t pid; /* a process that the vertex forked has another pid and is not the vertex */
    uint64_t ticked_records;
    int ticks;
    bool is_in;
} gy_fault_task;

/** Catch faults of this thread from now on. The caller has filled in fault, board, id, member
 * and timeout_ns. The stack and the timer that a thread needs stay until the thread ends.
 * GY_NOMEM; GY_IO no timer */
GY_MUST_CHECK gy_status gy_fault_enter(gy_fault_task *task);
/** Stop catching faults. Does nothing without a matching gy_fault_enter. */
void gy_fault_leave(gy_fault_task *task);
/** Blame a SIGBUS within the span on its file, not on a record. GY_NOMEM */
GY_MUST_CHECK gy_status gy_fault_watch(gy_fault_task *task, const gy_fault_span *span);
void gy_fault_unwatch(gy_fault_task *task, const char *data);
/** Open a datagram socket to the manager that listens in `folder`; -1: none listens. */
int gy_fault_call(const char *folder);

#endif
