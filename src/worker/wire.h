/**
 * Messages between the manager's side and a vertex process: a stream in which each message is a
 * head of 56 bytes and a body. Pure.
 *
 * Both ends are one build of one program on one machine, so the head is a struct in the
 * machine's byte order. Its content is checked all the same, since user code may have
 * overwritten the memory of the process that sends it.
 */
#ifndef GY_WORKER_WIRE_H
#define GY_WORKER_WIRE_H

#include "sched/job.h"

enum { GY_WIRE_HEAD_BYTES = 56, GY_WIRE_BODY_BYTES = 256 << 20 };

typedef enum gy_wire_kind {
    GY_WIRE_NONE,
    GY_WIRE_WELCOME, /* to a process, first. body: opaque data of room flow */
    GY_WIRE_START,   /* to: id, member, key, body */
    GY_WIRE_CANCEL,  /* to: id, member */
    GY_WIRE_READY,   /* from: it is ready for tasks */
    GY_WIRE_ALIVE,   /* from: a heartbeat */
    GY_WIRE_DONE,    /* from: id, member, run_ns, key (the content's), body: report */
    GY_WIRE_FAILED,  /* from: id, member, cause, input, run_ns, body: board, then the reason */
    /* of ranks over hosts. From: with a body it publishes data for the other members, without
     * one it asks for those of member `input`. To: the answer, in the same form */
    GY_WIRE_MEET,
    GY_WIRE_OUTPUT, /* from: id, body: output of its ranks; without a body `input` is their exit
                       status */
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

/**
 * Append one message. A body over GY_WIRE_BODY_BYTES is a misuse. `out` records GY_NOMEM.
 * @threads any
 */
void gy_wire_add(gy_text *out, const gy_wire *message);

/**
 * Parse the message at the beginning of (size_bytes) bytes; its body is borrowed from them.
 *
 * @param used  its size, head and body; with GY_AGAIN: the size needed to continue, so that a
 * reader can make room
 * @return GY_OK; GY_AGAIN it is incomplete; GY_FORMAT it is no message: the text names the
 * error
 * @threads any
 */
GY_MUST_CHECK gy_status gy_wire_next(const uint8_t *data, size_t size_bytes, gy_wire *message,
                                     size_t *used);

#endif
