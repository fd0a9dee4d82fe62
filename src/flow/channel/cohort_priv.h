/**
 * What the members of a cohort share, and what each keeps for itself.
 */
#ifndef GY_FLOW_CHANNEL_COHORT_PRIV_H
#define GY_FLOW_CHANNEL_COHORT_PRIV_H

#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/channel/cohort.h"

/* ---- shared ---- */

/** What a member sleeps on: nothing, or one side of one channel. */
static inline uint32_t gy_wait_read(uint32_t channel)
{
    return channel * 2 + 1;
}
static inline uint32_t gy_wait_write(uint32_t channel)
{
    return channel * 2 + 2;
}

enum { GY_MEMBER_ABSENT, GY_MEMBER_IN, GY_MEMBER_WELL, GY_MEMBER_ILL };

typedef struct gy_flow_shared_member {
    /* gy_wait_* in the low half, 0: it runs; the high half tells one wait from the next */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t waits;
    _Atomic uint32_t bell;  /* the futex that it sleeps on */
    _Atomic uint32_t state; /* GY_MEMBER_* */
    _Atomic int32_t pid;
} gy_flow_shared_member;

/**
 * A channel. Bytes are counted from its beginning. A FIFO has [head, tail) in its ring and
 * then, if its file is not empty, [file_head, file_tail) in the file, which begins at file_base
 * there. A pipe counts what was received and sent; what is spilled has still to be sent.
 */
typedef struct gy_flow_shared_channel {
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t tail; /* the writer's */
    _Atomic uint64_t file_tail, file_base;
    _Atomic uint32_t is_closed;
    _Atomic int32_t file; /* its descriptor in the writer's process, +1; 0: none */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t head;       /* the reader's */
    _Atomic uint64_t file_head;                          /* a pipe's: the pump's */
    _Atomic uint32_t is_file_open;                       /* the reader has it */
    _Atomic uint32_t port;                               /* of a pipe's listener */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t file_limit; /* so much may lie in the file */
    _Atomic uint32_t must_spill;                         /* set by who saw a circle */
} gy_flow_shared_channel;

typedef struct gy_flow_shared {
    _Atomic uint32_t is_broken; /* a member failed or died */
    _Atomic uint32_t joined;    /* members that came in */
    _Atomic uint32_t spills; /* files ever published: who sees it rise opens those it reads */
    uint32_t width, channel_count;
    uint64_t ring_bytes;
} gy_flow_shared;

/* ---- a member's own ---- */

typedef struct gy_pipe gy_pipe;

typedef struct gy_end {
    bool is_reader, is_pipe, is_ended;
    uint32_t from, to;
    uint8_t *ring;     /* FIFO: mapped twice in a row */
    size_t held_bytes; /* reader: of the ring, given out */
    int file;          /* the spill; -1: none */
    uint8_t *buffer;   /* reader: of file bytes; writer: for room that the ring lacks */
    size_t buffer_bytes;
    size_t room_bytes; /* asked for */
    bool is_room_ring;
    uint64_t bytes, spilled;
    gy_pipe *pipe;
} gy_end;

struct gy_cohort {
    gy_env *env;
    gy_cohort_options options;
    int memory; /* the memfd */
    size_t shared_bytes, ring_bytes;
    gy_flow_shared *shared;
    gy_flow_shared_member *members;
    gy_flow_shared_channel *channels;
    size_t rings_offset;
    gy_end *ends;         /* (channel_count), of channels not its own: zero */
    uint32_t spills_seen; /* of shared->spills */
    uint64_t turn;        /* waits begun */
    bool is_in, is_closed, is_flushing;
};

/** Whether a wait may end. */
typedef bool (*gy_engine_ready)(gy_cohort *cohort, uint32_t index);

/**
 * Sleep until `ready`. GY_PEER the cohort is broken; GY_CANCELLED; GY_TIMEOUT.
 *
 * @param file  a socket to sleep on as well, -1: none; `events` as for poll
 */
GY_MUST_CHECK gy_status gy_cohort_wait(gy_cohort *cohort, uint32_t wait, gy_engine_ready ready,
                                       int file, short events);
/** GY_PEER the cohort is broken; GY_CANCELLED; GY_TIMEOUT the deadline has passed. */
GY_MUST_CHECK gy_status gy_cohort_check(gy_cohort *cohort);
/** Wake a member that sleeps on `wait` (0: on anything). */
void gy_cohort_ring(gy_cohort *cohort, uint32_t member, uint32_t wait);
void gy_cohort_break(gy_cohort *cohort);
/** A file without a name in the job's folder. */
GY_MUST_CHECK gy_status gy_flow_spill_open(gy_cohort *cohort, int *file);
/** Write or read all of it. GY_LIMIT the disk is full; GY_IO */
GY_MUST_CHECK gy_status gy_flow_spill_write(int file, const void *data, size_t size_bytes,
                                            uint64_t offset);
GY_MUST_CHECK gy_status gy_flow_spill_read(int file, void *data, size_t size_bytes,
                                           uint64_t offset);

/** Open the files that were spilled to this member. */
GY_MUST_CHECK gy_status gy_flow_spills_take(gy_cohort *cohort);
/** How much may go into the file now; takes a must_spill that waits. */
size_t gy_flow_spill_room(gy_cohort *cohort, uint32_t index);

/* FIFO */
GY_MUST_CHECK gy_status gy_flow_fifo_map(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_flow_fifo_read(gy_cohort *cohort, uint32_t index, const void **data,
                                          size_t *size_bytes);
GY_MUST_CHECK gy_status gy_flow_fifo_write(gy_cohort *cohort, uint32_t index,
                                           const uint8_t *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_flow_fifo_room(gy_cohort *cohort, uint32_t index, size_t size_bytes,
                                          void **room);
GY_MUST_CHECK gy_status gy_flow_fifo_wrote(gy_cohort *cohort, uint32_t index,
                                           size_t size_bytes);
/** Wake the writers that this reader keeps waiting though there is room: before it sleeps. */
void gy_flow_fifo_settle(gy_cohort *cohort);
void gy_flow_fifo_end(gy_cohort *cohort, uint32_t index);
/** Whether whoever sleeps so has really to sleep, as the table says. */
bool gy_flow_wait_is_true(gy_cohort *cohort, uint32_t wait);

/* pipe */
GY_MUST_CHECK gy_status gy_pipe_listen(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_pipe_read(gy_cohort *cohort, uint32_t index, const void **data,
                                     size_t *size_bytes);
GY_MUST_CHECK gy_status gy_pipe_write(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                                      size_t size_bytes);
/** Send what is buffered. */
GY_MUST_CHECK gy_status gy_pipe_flush(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_pipe_finish(gy_cohort *cohort, uint32_t index);
/** Wait for what a pump has still to send, unless the cohort is broken; free. */
void gy_pipe_close(gy_cohort *cohort, uint32_t index);

#endif
