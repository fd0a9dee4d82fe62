/**
 * Inside room transport: the memory that the ranks of a host share.
 *
 *     header | rank states | records | words | slots | rings, from (r,0) to (r,p-1) for each r
 *     | staging | pools
 *
 * Every area is zero at first; pages take no memory until touched.
 */
#ifndef GY_TRANSPORT_SEGMENT_PRIV_H
#define GY_TRANSPORT_SEGMENT_PRIV_H

#include "transport/recorder.h"
#include "transport/ring_priv.h"
#include "transport/transport.h"

typedef enum gy_rank_stage {
    GY_RANK_ABSENT,
    GY_RANK_JOINING,
    GY_RANK_JOINED,
    GY_RANK_LEFT, /* left in order */
    GY_RANK_DEAD,
    GY_RANK_GAVE_UP, /* left because its rendezvous failed; flight record files say "left" */
} gy_rank_stage;

typedef struct gy_rank_state {
    alignas(GY_CACHE_LINE) _Atomic uint32_t stage; /* gy_rank_stage */
    _Atomic int32_t process;
    /* Where the rank sleeps, and the futex word for it. */
    alignas(GY_CACHE_LINE) _Atomic uint32_t bell;
    _Atomic uint32_t sleep;    /* gy_sleep */
    _Atomic uint32_t is_muted; /* a peer cannot write to the pipe */
    /* Identifies the pipe, set before the rank first sleeps on it, so that a peer that opens
     * it can check that it is the right one. */
    int32_t pipe;
    uint64_t pipe_device, pipe_inode;
} gy_rank_state;

/** How a sleeping rank must be woken. */
typedef enum gy_sleep { GY_SLEEP_NONE, GY_SLEEP_ON_WORD, GY_SLEEP_ON_PIPE } gy_sleep;

enum { GY_ABORT_NONE, GY_ABORT_WRITING, GY_ABORT_SET, GY_ABORT_STATES = 4 };

typedef struct gy_transport_segment_header {
    uint64_t magic;
    uint32_t version;
    int32_t ranks, host_cores, first_rank, run_size;
    int32_t maker; /* process that made it */
    int64_t made_ns;
    uint64_t made_ticks;
    uint64_t staging_bytes, ring_bytes, pool_bytes, total_bytes;
    alignas(GY_CACHE_LINE) _Atomic uint32_t abort; /* epoch * GY_ABORT_STATES + state */
    gy_error error;                                /* published by `abort` */
} gy_transport_segment_header;

/** Offsets of the areas in bytes; a pure function of the header's sizes. */
typedef struct gy_transport_segment_layout {
    size_t states, records, words, slots, rings, staging, pools, total;
    size_t ring_stride;
} gy_transport_segment_layout;

/** GY_LIMIT when the sum overflows. */
GY_MUST_CHECK gy_status gy_transport_segment_plan(int ranks, size_t staging_bytes,
                                                  size_t ring_bytes, size_t pool_bytes,
                                                  gy_transport_segment_layout *layout);

/** This process's descriptor for a rank's pipe. */
typedef struct gy_pipe_end {
    _Atomic int descriptor; /* 0: not opened yet; -1: impossible */
} gy_pipe_end;

/** A reference-counted mapping: several transports of one process may share it. */
typedef struct gy_transport_segment {
    uint8_t *base;
    gy_transport_segment_layout layout;
    gy_transport_segment_header *header;
    int fd;             /* open, so that other processes find it under /proc/PID/fd */
    gy_pipe_end *pipes; /* (ranks) descriptors of this process */
    _Atomic int holders;
} gy_transport_segment;

/** Read the header of fd's segment, whose contents are not trusted. GY_FORMAT; GY_IO */
GY_MUST_CHECK gy_status gy_transport_segment_look(int fd, gy_transport_segment_header *header,
                                                  gy_transport_segment_layout *layout);
/** Map fd's segment; the caller owns one reference. GY_FORMAT; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_transport_segment_map(int fd, gy_transport_segment **segment);
void gy_transport_segment_hold(gy_transport_segment *segment);
void gy_transport_segment_drop(gy_transport_segment *segment);

static inline gy_rank_state *gy_transport_segment_state(const gy_transport_segment *segment,
                                                        int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < segment->header->ranks);
    return (gy_rank_state *)(void *)(segment->base + segment->layout.states) + rank;
}

/** Rank 0's records; those of the other ranks follow. */
static inline gy_flight_record_area *
gy_transport_segment_records(const gy_transport_segment *segment)
{
    return (gy_flight_record_area *)(void *)(segment->base + segment->layout.records);
}

/** The ring that `from` writes and `to` reads. */
static inline gy_transport_ring *gy_transport_segment_ring(const gy_transport_segment *segment,
                                                           int from, int to)
{
    GY_ASSERT(from >= 0);
    GY_ASSERT(from < segment->header->ranks);
    GY_ASSERT(to >= 0);
    GY_ASSERT(to < segment->header->ranks);
    size_t index = (size_t)from * (size_t)segment->header->ranks + (size_t)to;
    return (gy_transport_ring *)(void *)(segment->base + segment->layout.rings +
                                         index * segment->layout.ring_stride);
}

#endif
