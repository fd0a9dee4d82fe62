/**
 * What the handler of a fault sees of the thread that it runs on.
 */
#ifndef GY_FLOW_CHANNEL_FAULT_PRIV_H
#define GY_FLOW_CHANNEL_FAULT_PRIV_H

#include "flow/channel/fault.h"

#include <stdatomic.h>

enum { GY_FAULT_KEY_BYTES = 64 };

enum { GY_MAPPED_PLAIN = 1, GY_MAPPED_SECTION = 2 };

/**
 * A task's board (GY_BOARD_BYTES at most). Atomics since the handler of the same thread, and
 * who reads it after the process has died, see them in the order stored.
 */
typedef struct gy_fault_board {
    _Atomic uint64_t records; /* places stored so far: what a timer compares */
    _Atomic uint64_t offset;
    _Atomic uint32_t source;
    _Atomic uint32_t has_place;
    _Atomic int32_t signal;      /* that it died of; 0: none */
    _Atomic uint32_t is_timeout; /* the record took too long */
    _Atomic uint32_t mapped;     /* GY_MAPPED_*: SIGBUS in a mapped input, its path in `text` */
    _Atomic uint32_t input;
    char text[GY_FAULT_KEY_BYTES]; /* first bytes of a key, or last ones of a path */
} gy_fault_board;

/** A span that somebody may shorten under the reader's feet. */
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
    int64_t timeout_ns; /* a record may take; 0: any time */
    _Atomic bool is_waiting;
    /* spans: changed by the thread itself with its signals open, so the handler takes only what
     * is whole */
    gy_fault_span *_Atomic spans;
    _Atomic uint32_t span_count;
    size_t span_capacity;
    /* the handler's */
    int32_t pid; /* what the vertex forked is not the vertex */
    uint64_t ticked_records;
    int ticks;
    bool is_in;
} gy_fault_task;

/** Catch what this thread does from now on; the caller filled in fault, board, id, member,
 * timeout_ns. What a thread needs for it (a stack, a timer) is kept until the thread ends.
 * GY_NOMEM; GY_IO no timer */
GY_MUST_CHECK gy_status gy_fault_enter(gy_fault_task *task);
/** No longer. Does nothing for who did not enter. */
void gy_fault_leave(gy_fault_task *task);
/** A SIGBUS within the span is its file's doing. GY_NOMEM */
GY_MUST_CHECK gy_status gy_fault_watch(gy_fault_task *task, const gy_fault_span *span);
void gy_fault_unwatch(gy_fault_task *task, const char *data);
/** A datagram socket connected to who listens in `folder`; -1: nobody does. */
int gy_fault_call(const char *folder);

#endif
