/**
 * Pipes and FIFOs between the members of a cohort, each of which runs in a process of its own.
 *
 * Members share a memfd, which the first member creates and the others open through /proc. It
 * contains the wait-for table and the rings. A member that is about to sleep walks the table:
 * each sleeper waits for one other member, and a walk that returns to its start has found a
 * deadlock. Every such cycle has a writer that waits for room, because a graph without cycles
 * has no cycle of readers alone. That writer spills into an unlinked file, which its reader
 * reads once the ring is empty. So diamonds and hash joins finish, and a FIFO whose reader is
 * only slow stays bounded.
 */
#ifndef GY_FLOW_CHANNEL_COHORT_H
#define GY_FLOW_CHANNEL_COHORT_H

#include "base/env.h"

#include <stdatomic.h>

typedef struct gy_cohort gy_cohort;
struct gy_flow_task_channel;

typedef struct gy_cohort_options {
    /* of the file by which members find each other; the first member creates it, the caller
     * removes it */
    const char *path;
    const char *folder; /* for spilled files */
    uint32_t width, member;
    const struct gy_flow_task_channel *channels;
    uint32_t channel_count;
    size_t ring_bytes; /* rounded up to a power of two, at least a page; 0: 1 MiB */
    uint64_t token[2];
    const _Atomic bool *is_cancelled;
    gy_deadline deadline;
    /* true while the member sleeps, which stops the record timeout; or NULL */
    _Atomic bool *is_waiting;
} gy_cohort_options;

/**
 * Join the cohort and wait for all members. All calls belong to the member's thread.
 *
 * @return GY_OK; GY_PEER a member was lost; GY_CANCELLED; GY_TIMEOUT; GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_cohort_join(gy_env *env, const gy_cohort_options *options,
                                       gy_cohort **cohort);
/** Read, as gy_vertex_read does, from a channel whose reader this member is. GY_PEER its writer
 * failed or died before it closed the channel; GY_FORMAT the sum of a pipe's bytes differs */
GY_MUST_CHECK gy_status gy_cohort_read(gy_cohort *cohort, uint32_t index, const void **data,
                                       size_t *size_bytes);
/** Append to a channel whose writer this member is. GY_PEER the reader failed or died; if the
 * reader ended in order, bytes that it did not read are discarded. */
GY_MUST_CHECK gy_status gy_cohort_write(gy_cohort *cohort, uint32_t index, const void *data,
                                        size_t size_bytes);
GY_MUST_CHECK gy_status gy_cohort_room(gy_cohort *cohort, uint32_t index, size_t size_bytes,
                                       void **room);
GY_MUST_CHECK gy_status gy_cohort_wrote(gy_cohort *cohort, uint32_t index, size_t size_bytes);
/** Close all channels whose writer this member is: their readers see the end after the last
 * byte. */
GY_MUST_CHECK gy_status gy_cohort_close(gy_cohort *cohort);
/** Bytes written to a channel, and how many of them were spilled to a file. */
uint64_t gy_cohort_bytes(const gy_cohort *cohort, uint32_t index, uint64_t *spilled);
/** Leave the cohort and free it. With is_well false, or without gy_cohort_close, the other
 * members get GY_PEER. NULL is fine. */
void gy_cohort_leave(gy_cohort *cohort, bool is_well);

#endif
