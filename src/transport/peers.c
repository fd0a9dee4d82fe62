#include "transport/peers_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WRITER_YIELDS = 1000 };

gy_status gy_transport_peers_join(gy_transport_segment *segment, int rank)
{
    gy_rank_state *state = gy_transport_segment_state(segment, rank);
    uint32_t stage = GY_RANK_ABSENT;
    if (!atomic_compare_exchange_strong_explicit(&state->stage, &stage, GY_RANK_JOINING,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        return gy_fail(GY_EXISTS, "rank %d has joined the launch already",
                       segment->header->first_rank + rank);
    }
    atomic_store_explicit(&state->process, (int32_t)getpid(), memory_order_relaxed);
    /* release: publishes the process id before the stage (acquire in
     * gy_transport_peers_stage) */
    atomic_store_explicit(&state->stage, GY_RANK_JOINED, memory_order_release);
    return GY_OK;
}

gy_rank_stage gy_transport_peers_stage(gy_transport_segment *segment, int rank)
{
    return (gy_rank_stage)atomic_load_explicit(
        &gy_transport_segment_state(segment, rank)->stage, memory_order_acquire);
}

static void ring_all(gy_transport_segment *segment)
{
    GY_ASSERT(segment->header->ranks > 0);
    for (int rank = 0; rank < segment->header->ranks; rank++) {
        gy_transport_peers_ring(segment, rank);
    }
}

void gy_transport_peers_leave(gy_transport_segment *segment, int rank, bool has_given_up)
{
    /* release: publishes everything that the rank wrote before it left */
    atomic_store_explicit(&gy_transport_segment_state(segment, rank)->stage,
                          has_given_up ? GY_RANK_GAVE_UP : GY_RANK_LEFT, memory_order_release);
    ring_all(segment);
}

/* A process descriptor becomes readable when the process ends, even before it is reaped. */
static bool is_process_gone(pid_t process)
{
    int handle = (int)syscall(SYS_pidfd_open, process, 0);
    if (handle < 0) {
        /* Where pidfd_open is forbidden or descriptors have run out, a zombie still counts as
         * alive. */
        return errno == ESRCH || (kill(process, 0) != 0 && errno == ESRCH);
    }
    struct pollfd look = {.fd = handle, .events = POLLIN};
    bool is_gone = poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
    close(handle);
    return is_gone;
}

gy_status gy_transport_peers_check(gy_transport_segment *segment, int rank, bool is_needed)
{
    gy_rank_state *state = gy_transport_segment_state(segment, rank);
    gy_rank_stage stage = gy_transport_peers_stage(segment, rank);
    pid_t process = atomic_load_explicit(&state->process, memory_order_relaxed);
    if (stage == GY_RANK_JOINED && process != getpid() && is_process_gone(process)) {
        /* The rank may have left in order before its process ended: then the stage stays so. */
        uint32_t before = GY_RANK_JOINED;
        (void)atomic_compare_exchange_strong_explicit(
            &state->stage, &before, GY_RANK_DEAD, memory_order_acq_rel, memory_order_acquire);
        stage = gy_transport_peers_stage(segment, rank);
    }
    if (stage == GY_RANK_DEAD) {
        return gy_fail(GY_PEER, "rank %d (process %d) is lost",
                       segment->header->first_rank + rank, (int)process);
    }
    if (stage == GY_RANK_LEFT && is_needed) {
        return gy_fail(GY_PEER, "rank %d has left the launch",
                       segment->header->first_rank + rank);
    }
    return GY_OK;
}

bool gy_transport_peers_is_stopped(gy_transport_segment *segment, int rank)
{
    gy_rank_state *state = gy_transport_segment_state(segment, rank);
    char letter =
        gy_transport_process_state(atomic_load_explicit(&state->process, memory_order_relaxed));
    return letter == 'T' || letter == 't';
}

void gy_transport_peers_record(gy_transport *transport, gy_transport_segment *segment)
{
    GY_ASSERT(transport->rank >= segment->header->first_rank);
    GY_ASSERT(transport->rank - segment->header->first_rank < segment->header->ranks);
    transport->records = gy_transport_segment_records(segment);
    transport->first_recorded = segment->header->first_rank;
    transport->recorded_ranks = segment->header->ranks;
    gy_flight_record_area *own = gy_transport_records(transport, transport->rank);
    for (size_t i = 0; i < GY_RECORDS; i++) {
        /* Touch the pages now, so that no collective takes the page faults; nobody else writes
         * here. */
        atomic_store_explicit(&own->rings[i][0], 0, memory_order_relaxed);
    }
}

gy_status gy_transport_record(gy_transport *transport, int fd)
{
    GY_ASSERT(transport->recorder == NULL);
    GY_ASSERT(transport->records == NULL);
    gy_transport_segment *segment = NULL;
    GY_TRY(gy_transport_segment_map(fd, &segment));
    int rank = transport->rank - segment->header->first_rank;
    gy_status status =
        rank >= 0 && rank < segment->header->ranks
            ? gy_transport_peers_join(segment, rank)
            : gy_fail(GY_ARG, "rank %d is none of the segment's", transport->rank);
    if (status < 0) {
        gy_transport_segment_drop(segment);
        return status;
    }
    gy_transport_peers_record(transport, segment);
    transport->recorder = segment;
    return GY_OK;
}

void gy_transport_close(gy_transport *transport)
{
    GY_ASSERT(transport == NULL || transport->ops != NULL);
    if (transport == NULL) {
        return;
    }
    gy_transport_segment *recorder = transport->recorder;
    int rank = transport->rank - transport->first_recorded;
    transport->ops->close(transport);
    if (recorder != NULL) {
        gy_transport_peers_leave(recorder, rank, false);
        gy_transport_segment_drop(recorder);
    }
}

gy_status gy_transport_peers_aborted(gy_transport_segment *segment, uint32_t epoch)
{
    GY_ASSERT(epoch < UINT32_MAX / GY_ABORT_STATES);
    /* acquire: pairs with the release in gy_transport_peers_abort, which publishes the error */
    if (atomic_load_explicit(&segment->header->abort, memory_order_acquire) !=
        epoch * GY_ABORT_STATES + GY_ABORT_SET) {
        return GY_OK;
    }
    GY_ASSERT(segment->header->error.status < 0); /* as gy_transport_peers_abort asserts */
    return gy_error_raise(&segment->header->error);
}

/* True: this rank's abort is the first of its epoch. A record of an earlier epoch is
 * obsolete. */
static bool claim_abort(_Atomic uint32_t *abort, uint32_t epoch)
{
    GY_ASSERT(epoch < UINT32_MAX / GY_ABORT_STATES);
    uint32_t none = epoch * GY_ABORT_STATES + GY_ABORT_NONE;
    uint32_t before = atomic_load_explicit(abort, memory_order_relaxed);
    while (before <= none) {
        if (atomic_compare_exchange_weak_explicit(abort, &before, none + GY_ABORT_WRITING,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* The second rank to abort may exit at once, so it first waits until the first one's error is
 * visible. */
static void await_writer(const _Atomic uint32_t *abort, uint32_t epoch)
{
    GY_ASSERT(epoch < UINT32_MAX / GY_ABORT_STATES);
    const uint32_t writing = epoch * GY_ABORT_STATES + GY_ABORT_WRITING;
    for (int i = 0; i < WRITER_YIELDS; i++) { /* bounded, because the writer may have died */
        if (atomic_load_explicit(abort, memory_order_relaxed) != writing) {
            return;
        }
        (void)sched_yield();
    }
}

void gy_transport_peers_abort(gy_transport_segment *segment, uint32_t epoch, int rank,
                              const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    if (!claim_abort(&segment->header->abort, epoch)) {
        await_writer(&segment->header->abort, epoch);
        return;
    }
    gy_error *kept = &segment->header->error;
    kept->status = error->status;
    kept->rank = error->rank >= 0 ? error->rank : rank;
    snprintf(kept->text, sizeof(kept->text), "rank %d: %.990s", kept->rank, error->text);
    /* release: pairs with the acquire in gy_transport_peers_aborted */
    atomic_store_explicit(&segment->header->abort, epoch * GY_ABORT_STATES + GY_ABORT_SET,
                          memory_order_release);
    ring_all(segment);
}

/* ---- Wake-ups ---- */

gy_status gy_transport_peers_hang_bell(gy_transport_segment *segment, int rank, int *pipe)
{
    GY_ASSERT(pipe != NULL);
    gy_rank_state *state = gy_transport_segment_state(segment, rank);
    struct stat facts;
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        return gy_fail(GY_IO, "cannot make a pipe: %s", strerror(errno));
    }
    /* the waking rank opens the pipe for reading and writing, as this rank does now */
    close(ends[1]);
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    int both = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    close(ends[0]);
    if (both < 0 || fstat(both, &facts) != 0) {
        gy_status status =
            gy_fail(GY_IO, "cannot open a pipe through /proc: %s", strerror(errno));
        if (both >= 0) {
            close(both);
        }
        return status;
    }
    state->pipe = both;
    state->pipe_device = (uint64_t)facts.st_dev;
    state->pipe_inode = (uint64_t)facts.st_ino;
    *pipe = both;
    return GY_OK;
}

/* Open a peer's pipe; -1: impossible. */
static int open_pipe(const gy_rank_state *state)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d",
             (int)atomic_load_explicit(&state->process, memory_order_relaxed),
             (int)state->pipe);
    int pipe = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    bool is_it = pipe >= 0 && fstat(pipe, &facts) == 0 &&
                 (uint64_t)facts.st_dev == state->pipe_device &&
                 (uint64_t)facts.st_ino == state->pipe_inode;
    if (pipe >= 0 && !is_it) {
        close(pipe);
    }
    return is_it ? pipe : -1;
}

/* Threads of this process may wake a peer at the same time: the first one's descriptor is
 * kept. */
static int pipe_to(gy_transport_segment *segment, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < segment->header->ranks);
    /* acquire: pairs with the exchange of the thread that opened it */
    _Atomic int *end = &segment->pipes[rank].descriptor;
    int kept = atomic_load_explicit(end, memory_order_acquire);
    if (kept != 0) {
        return kept;
    }
    int opened = open_pipe(gy_transport_segment_state(segment, rank));
    if (!atomic_compare_exchange_strong_explicit(end, &kept, opened, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        if (opened >= 0) {
            close(opened);
        }
        GY_ASSERT(kept != 0); /* another thread opened it first */
        return kept;
    }
    return opened;
}

static void write_bell(gy_transport_segment *segment, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < segment->header->ranks);
    int pipe = pipe_to(segment, rank);
    /* A full pipe wakes as well as one more byte would. */
    if (pipe < 0 || (write(pipe, "", 1) != 1 && errno != EAGAIN)) {
        atomic_store_explicit(&gy_transport_segment_state(segment, rank)->is_muted, 1,
                              memory_order_relaxed);
    }
}

void gy_transport_peers_ring(gy_transport_segment *segment, int rank)
{
    gy_rank_state *state = gy_transport_segment_state(segment, rank);
    /*
     * A ring's counter is published in seq_cst order, as is this load: if this load does not
     * see a sleeper, that sleeper announced itself later and will see the counter. A word of
     * the segment (coll) is published with release only, so this load may move before that
     * store, and the sleeper then wakes at the end of its nap. A fence here would slow every
     * exchange of a tiny message.
     */
    if (atomic_load_explicit(&state->sleep, memory_order_seq_cst) == GY_SLEEP_NONE) {
        return;
    }
    /* acq_rel: the pipe's description, written before the rank announced its sleep */
    uint32_t sleep =
        atomic_exchange_explicit(&state->sleep, GY_SLEEP_NONE, memory_order_acq_rel);
    GY_ASSERT(sleep <= GY_SLEEP_ON_PIPE);
    if (sleep == GY_SLEEP_ON_PIPE) {
        write_bell(segment, rank);
    } else if (sleep == GY_SLEEP_ON_WORD) {
        atomic_fetch_add_explicit(&state->bell, 1, memory_order_release);
        syscall(SYS_futex, &state->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

bool gy_transport_peers_announce(gy_rank_state *state)
{
    GY_ASSERT(state != NULL);
    /* seq_cst: pairs with the load in gy_transport_peers_ring; publishes the pipe's
     * description */
    return atomic_exchange_explicit(&state->sleep, GY_SLEEP_ON_PIPE, memory_order_seq_cst) ==
           GY_SLEEP_NONE;
}

uint32_t gy_transport_peers_nap(gy_rank_state *state, uint32_t bell, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    if (nap_ns > 0) {
        struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
        syscall(SYS_futex, &state->bell, FUTEX_WAIT, bell, &nap, NULL, 0);
    }
    uint32_t now = atomic_load_explicit(&state->bell, memory_order_acquire);
    /* seq_cst: pairs with the load in gy_transport_peers_ring */
    atomic_exchange_explicit(&state->sleep, GY_SLEEP_ON_WORD, memory_order_seq_cst);
    return now;
}
