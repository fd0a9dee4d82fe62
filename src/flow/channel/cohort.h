/**
 * Pipes and FIFOs between the members of a cohort, each of which runs in a process of its own.
 *
 * Members share a memfd that the first to come makes and the others open through /proc: the
 * table of who waits where, and the rings. A member that is about to sleep walks the table: the
 * one thing that each sleeper waits for leads to the next member, and a walk that comes back
 * means that all on it would sleep for ever. On every such circle some writer waits for room (a
 * graph without cycles has no circle of readers alone); it is told to spill into an unlinked
 * file, which its reader takes when the ring is empty. So diamonds and hash joins end, and a
 * FIFO whose reader is only slow stays bounded.
 */
#ifndef GY_FLOW_CHANNEL_COHORT_H
#define GY_FLOW_CHANNEL_COHORT_H

#include "base/env.h"

#include <stdatomic.h>

typedef struct gy_cohort gy_cohort;
struct gy_flow_task_channel;

typedef struct gy_cohort_options {
    const char *path; /* of the file where members meet; made by need, removed by nobody here */
    const char *folder; /* for spills */
    uint32_t width, member;
    const struct gy_flow_task_channel *channels;
    uint32_t channel_count;
    size_t ring_bytes; /* rounded up to a power of two, at least a page; 0: 1 MiB */
    uint64_t token[2];
    const _Atomic bool *is_cancelled;
    gy_deadline deadline;
    _Atomic bool *is_waiting; /* true while it sleeps: its record does not run out of time; or
                                 NULL */
} gy_cohort_options;

/**
 * Come in and wait for all members. All calls are the member's thread's.
 *
 * @return GY_OK; GY_PEER one of them is gone; GY_CANCELLED; GY_TIMEOUT; GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_cohort_join(gy_env *env, const gy_cohort_options *options,
                                       gy_cohort **cohort);
/** As gy_vertex_read of the channel that this member reads. GY_PEER its writer failed or died
 * before it closed the channel; GY_FORMAT the sum of a pipe's bytes differs */
GY_MUST_CHECK gy_status gy_cohort_read(gy_cohort *cohort, uint32_t index, const void **data,
                                       size_t *size_bytes);
/** Append to the channel that this member writes. GY_PEER the reader failed or died; what a
 * reader that ended well leaves unread is dropped. */
GY_MUST_CHECK gy_status gy_cohort_write(gy_cohort *cohort, uint32_t index, const void *data,
                                        size_t size_bytes);
GY_MUST_CHECK gy_status gy_cohort_room(gy_cohort *cohort, uint32_t index, size_t size_bytes,
                                       void **room);
GY_MUST_CHECK gy_status gy_cohort_wrote(gy_cohort *cohort, uint32_t index, size_t size_bytes);
/** Nothing more will be written: the readers of all channels that this member writes see the
 * end after what was written. */
GY_MUST_CHECK gy_status gy_cohort_close(gy_cohort *cohort);
/** Bytes written to a channel, and how many of them went through a file. */
uint64_t gy_cohort_bytes(const gy_cohort *cohort, uint32_t index, uint64_t *spilled);
/** Go and free; `is_well` false: the others get GY_PEER. Without a gy_cohort_close before: not
 * well. NULL is fine. */
void gy_cohort_leave(gy_cohort *cohort, bool is_well);

#endif
