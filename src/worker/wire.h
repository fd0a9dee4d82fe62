/**
 * Messages between the manager's side and a vertex process: one after another on a stream, each
 * a head of 56 bytes and a body. Pure. The two ends are one build of one program on one
 * machine, so the head is a struct in the machine's own byte order; what it says is checked all
 * the same, since user code may have scribbled over the process that sends it.
 */
#ifndef GY_WORKER_WIRE_H
#define GY_WORKER_WIRE_H

#include "sched/job.h"

enum { GY_WIRE_HEAD_BYTES = 56, GY_WIRE_BODY_BYTES = 256 << 20 };

typedef enum gy_wire_kind {
    GY_WIRE_NONE,
    GY_WIRE_WELCOME, /* to a process: first. body: room flow's */
    GY_WIRE_START,   /* to: id, member, key, body */
    GY_WIRE_CANCEL,  /* to: id, member */
    GY_WIRE_READY,   /* from: it serves */
    GY_WIRE_ALIVE,   /* from: a heartbeat */
    GY_WIRE_DONE,    /* from: id, member, run_ns, key (the content's), body: report */
    GY_WIRE_FAILED,  /* from: id, member, cause, input, run_ns, body: board, then the reason */
    /* of ranks over hosts. From: body: what other members may ask for; or without one a
     * question, `input` says whose. To: the answer, likewise */
    GY_WIRE_MEET,
    GY_WIRE_OUTPUT, /* from: id, body: what its ranks printed; without one `input` is the exit
                     status with which they ended */
    GY_WIRE_TRACED, /* from: input: its pid; body: rows of its trace (base/trace.h) */
    GY_WIRE_KINDS
} gy_wire_kind;

typedef struct gy_wire {
    gy_wire_kind kind;
    gy_cause cause;
    gy_attempt id;
    uint32_t member, input;
    gy_key key;
    int64_t run_ns;
    const void *body;
    size_t body_bytes;
} gy_wire;

/** Append one message. A body over GY_WIRE_BODY_BYTES is a misuse. `out` remembers GY_NOMEM.
 * @threads any */
void gy_wire_add(gy_text *out, const gy_wire *message);

/**
 * The message at the beginning of (size_bytes) bytes; its body is borrowed from them.
 *
 * @param used  how many bytes it takes, head and body; with GY_AGAIN: how many there must be to
 * get further, so that a reader can make room
 * @return GY_OK; GY_AGAIN it is not whole yet; GY_FORMAT it is no message: says what is wrong
 * @threads any
 */
GY_MUST_CHECK gy_status gy_wire_next(const uint8_t *data, size_t size_bytes, gy_wire *message,
                                     size_t *used);

#endif
