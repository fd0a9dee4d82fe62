/** The state that the members of a cohort share, and the private state of one member. */
#ifndef GY_FLOW_CHANNEL_COHORT_PRIV_H
#define GY_FLOW_CHANNEL_COHORT_PRIV_H

#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/channel/cohort.h"

/* ---- shared ---- */

/** A wait as one number: it names a channel and its side; 0 is no wait. */
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
    /* low half: gy_wait_*, 0 while the member runs; the high half counts waits, so that two
     * waits differ */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t waits;
    _Atomic uint32_t bell;  /* futex on which the member sleeps */
    _Atomic uint32_t state; /* GY_MEMBER_* */
    _Atomic int32_t pid;
} gy_flow_shared_member;

/**
 * A channel. All positions count bytes from the channel's beginning. A FIFO has [head, tail)
 * in its ring and then, if its file is not empty, [file_head, file_tail) in the file, which
 * begins at file_base there. A pipe counts received and sent bytes; spilled bytes are not sent
 * yet.
 */
typedef struct gy_flow_shared_channel {
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t tail; /* the writer writes it */
    _Atomic uint64_t file_tail, file_base;
    _Atomic uint32_t is_closed;
    _Atomic int32_t file; /* the file's descriptor in the writer's process, +1; 0: none */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t head; /* the reader writes it */
    /* of a pipe: its pump thread writes it */
    _Atomic uint64_t file_head;
    _Atomic uint32_t is_file_open; /* the reader has opened the file */
    _Atomic uint32_t port;         /* port of a pipe's listener */
    /* the writer may spill up to this position */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t file_limit;
    /* set by the member that found a deadlock */
    _Atomic uint32_t must_spill;
} gy_flow_shared_channel;

typedef struct gy_flow_shared {
    _Atomic uint32_t is_broken; /* a member failed or died */
    _Atomic uint32_t joined;    /* members that have joined */
    /* files published so far: a member that sees it increase opens the files that it reads */
    _Atomic uint32_t spills;
    uint32_t width, channel_count;
    uint64_t ring_bytes;
} gy_flow_shared;

/* ---- private state of a member ---- */

typedef struct gy_pipe gy_pipe;

typedef struct gy_end {
    bool is_reader, is_pipe, is_ended;
    uint32_t from, to;
    uint8_t *ring;     /* FIFO: the ring, mapped twice in a row */
    size_t held_bytes; /* reader: bytes of the ring that the last read returned */
    int file;          /* the spilled file; -1: none */
    /* reader: bytes from the file; writer: room that the ring cannot provide */
    uint8_t *buffer;
    size_t buffer_bytes;
    size_t room_bytes; /* room that the writer asked for */
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
    gy_end *ends;         /* (channel_count); zero for channels of other members */
    uint32_t spills_seen; /* last value seen of shared->spills */
    uint64_t turn;        /* number of waits so far */
    bool is_in, is_closed, is_flushing;
};

/** Tells whether a wait may end. */
typedef bool (*gy_engine_ready)(gy_cohort *cohort, uint32_t index);

/**
 * Sleep until `ready` holds. GY_PEER the cohort is broken; GY_CANCELLED; GY_TIMEOUT.
 *
 * @param file  a socket to sleep on as well, -1: none; `events` as for poll
 */
GY_MUST_CHECK gy_status gy_cohort_wait(gy_cohort *cohort, uint32_t wait, gy_engine_ready ready,
                                       int file, short events);
/** GY_PEER the cohort is broken; GY_CANCELLED; GY_TIMEOUT the deadline has passed. */
GY_MUST_CHECK gy_status gy_cohort_check(gy_cohort *cohort);
/** Wake a member if it sleeps on `wait` (0: on anything). */
void gy_cohort_ring(gy_cohort *cohort, uint32_t member, uint32_t wait);
void gy_cohort_break(gy_cohort *cohort);
/** Create an unnamed file in the job's folder. */
GY_MUST_CHECK gy_status gy_flow_spill_open(gy_cohort *cohort, int *file);
/** Write or read all of it. GY_LIMIT the disk is full; GY_IO */
GY_MUST_CHECK gy_status gy_flow_spill_write(int file, const void *data, size_t size_bytes,
                                            uint64_t offset);
GY_MUST_CHECK gy_status gy_flow_spill_read(int file, void *data, size_t size_bytes,
                                           uint64_t offset);

/** Open the files that writers spilled for this member. */
GY_MUST_CHECK gy_status gy_flow_spills_take(gy_cohort *cohort);
/** How many bytes may go into the file now; also consumes a pending must_spill. */
size_t gy_flow_spill_room(gy_cohort *cohort, uint32_t index);

/* fifo.c */
GY_MUST_CHECK gy_status gy_flow_fifo_map(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_flow_fifo_read(gy_cohort *cohort, uint32_t index, const void **data,
                                          size_t *size_bytes);
GY_MUST_CHECK gy_status gy_flow_fifo_write(gy_cohort *cohort, uint32_t index,
                                           const uint8_t *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_flow_fifo_room(gy_cohort *cohort, uint32_t index, size_t size_bytes,
                                          void **room);
GY_MUST_CHECK gy_status gy_flow_fifo_wrote(gy_cohort *cohort, uint32_t index,
                                           size_t size_bytes);
/** Wake writers that wait although there is room; called before this reader sleeps. */
void gy_flow_fifo_settle(gy_cohort *cohort);
void gy_flow_fifo_end(gy_cohort *cohort, uint32_t index);
/** Re-check by the table whether a sleeper's wait is still justified. */
bool gy_flow_wait_is_true(gy_cohort *cohort, uint32_t wait);

/* pipe.c */
GY_MUST_CHECK gy_status gy_pipe_listen(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_pipe_read(gy_cohort *cohort, uint32_t index, const void **data,
                                     size_t *size_bytes);
GY_MUST_CHECK gy_status gy_pipe_write(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                                      size_t size_bytes);
/** Send the buffered bytes. */
GY_MUST_CHECK gy_status gy_pipe_flush(gy_cohort *cohort, uint32_t index);
GY_MUST_CHECK gy_status gy_pipe_finish(gy_cohort *cohort, uint32_t index);
/** Wait until the pump thread has sent its bytes, unless the cohort is broken; then free the
 * pipe. */
void gy_pipe_close(gy_cohort *cohort, uint32_t index);

#endif
