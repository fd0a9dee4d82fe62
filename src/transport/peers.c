#include "transport/peers_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

gy_status gy_peers_join(gy_segment *segment, int rank)
{
    gy_rank_state *state = gy_segment_state(segment, rank);
    uint32_t stage = GY_RANK_ABSENT;
    if (!atomic_compare_exchange_strong_explicit(&state->stage, &stage, GY_RANK_JOINING,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        return gy_fail(GY_EXISTS, "rank %d's place in the run is taken",
                       segment->header->first_rank + rank);
    }
    atomic_store_explicit(&state->process, (int32_t)getpid(), memory_order_relaxed);
    /* release: the process number before the stage (acquire in gy_peers_stage) */
    atomic_store_explicit(&state->stage, GY_RANK_JOINED, memory_order_release);
    return GY_OK;
}

gy_rank_stage gy_peers_stage(gy_segment *segment, int rank)
{
    return (gy_rank_stage)atomic_load_explicit(&gy_segment_state(segment, rank)->stage,
                                               memory_order_acquire);
}

static void ring_all(gy_segment *segment)
{
    for (int rank = 0; rank < segment->header->ranks; rank++) {
        gy_peers_ring(gy_segment_state(segment, rank));
    }
}

void gy_peers_leave(gy_segment *segment, int rank)
{
    /* release: all that the rank published before it left */
    atomic_store_explicit(&gy_segment_state(segment, rank)->stage, GY_RANK_LEFT,
                          memory_order_release);
    ring_all(segment);
}

/* A process handle becomes readable when the process ends, even while it waits to be reaped. */
static bool is_process_gone(pid_t process)
{
    int handle = (int)syscall(SYS_pidfd_open, process, 0);
    if (handle < 0) {
        /* Where the call is forbidden or descriptors have run out, a zombie still counts as
         * alive. */
        return errno == ESRCH || (kill(process, 0) != 0 && errno == ESRCH);
    }
    struct pollfd look = {.fd = handle, .events = POLLIN};
    bool is_gone = poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
    close(handle);
    return is_gone;
}

gy_status gy_peers_check(gy_segment *segment, int rank, bool is_needed)
{
    gy_rank_state *state = gy_segment_state(segment, rank);
    gy_rank_stage stage = gy_peers_stage(segment, rank);
    pid_t process = atomic_load_explicit(&state->process, memory_order_relaxed);
    if (stage == GY_RANK_JOINED && process != getpid() && is_process_gone(process)) {
        /* It may have left before it ended: the stage then says so, and stays. */
        uint32_t before = GY_RANK_JOINED;
        (void)atomic_compare_exchange_strong_explicit(
            &state->stage, &before, GY_RANK_DEAD, memory_order_acq_rel, memory_order_acquire);
        stage = gy_peers_stage(segment, rank);
    }
    if (stage == GY_RANK_DEAD) {
        return gy_fail(GY_PEER, "rank %d (process %d) is gone",
                       segment->header->first_rank + rank, (int)process);
    }
    if (stage == GY_RANK_LEFT && is_needed) {
        return gy_fail(GY_PEER, "rank %d has left the run", segment->header->first_rank + rank);
    }
    return GY_OK;
}

bool gy_peers_is_stopped(gy_segment *segment, int rank)
{
    char path[32], text[512];
    pid_t process =
        atomic_load_explicit(&gy_segment_state(segment, rank)->process, memory_order_relaxed);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof(text) - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    text[size > 0 ? size : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* "7 (name) T ..." */
    return name_end != NULL && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

gy_status gy_peers_aborted(gy_segment *segment)
{
    /* acquire: with the release in gy_peers_abort, the error itself */
    if (atomic_load_explicit(&segment->header->abort, memory_order_acquire) != GY_ABORT_SET) {
        return GY_OK;
    }
    return gy_error_raise(&segment->header->error);
}

void gy_peers_abort(gy_segment *segment, int rank, const gy_error *error)
{
    uint32_t before = GY_ABORT_NONE;
    if (!atomic_compare_exchange_strong_explicit(&segment->header->abort, &before,
                                                 GY_ABORT_WRITING, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        return;
    }
    gy_error *kept = &segment->header->error;
    kept->status = error->status;
    kept->rank = error->rank >= 0 ? error->rank : rank;
    snprintf(kept->text, sizeof(kept->text), "rank %d: %.990s", kept->rank, error->text);
    /* release: with the acquire in gy_peers_aborted */
    atomic_store_explicit(&segment->header->abort, GY_ABORT_SET, memory_order_release);
    ring_all(segment);
}

void gy_peers_ring(gy_rank_state *state)
{
    /*
     * The load may pass the store that published the news: then the ring is missed and the
     * sleeper wakes by its nap's end. A fence here would cost each exchange of a tiny message
     * more.
     */
    if (atomic_load_explicit(&state->is_sleeping, memory_order_acquire) == 0 ||
        atomic_exchange_explicit(&state->is_sleeping, 0, memory_order_acq_rel) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&state->bell, 1, memory_order_release);
    syscall(SYS_futex, &state->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t gy_peers_nap(gy_rank_state *state, uint32_t bell, int64_t nap_ns)
{
    if (nap_ns > 0) {
        struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
        syscall(SYS_futex, &state->bell, FUTEX_WAIT, bell, &nap, NULL, 0);
    }
    uint32_t now = atomic_load_explicit(&state->bell, memory_order_acquire);
    atomic_exchange_explicit(&state->is_sleeping, 1, memory_order_acq_rel);
    return now;
}
