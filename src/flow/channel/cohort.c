/* How the members of a cohort find each other, wait for each other, and detect deadlocks. */
#include "flow/channel/cohort_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    RING_BYTES = 1 << 20,
    /* between checks of the deadline, cancellation and the other members */
    NAP_NS = 50000000,
    /* for a member that sleeps on a socket, where no futex can wake it */
    POLL_NAP_NS = 5000000,
};

/* The contents of the file at options.path: where the shared memory is. */
typedef struct meeting {
    /* 0: no member has come; 1: the first one creates the memory; 2: ready */
    _Atomic uint32_t state;
    int32_t pid, file;
    uint64_t inode;
} meeting;

/* ---- sleeping ---- */

static void sleep_on(_Atomic uint32_t *word, uint32_t seen, int64_t nap_ns)
{
    struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gy_cohort_ring(gy_cohort *cohort, uint32_t member, uint32_t wait)
{
    gy_flow_shared_member *of = &cohort->members[member];
    /* partner: the store of `waits` in gy_cohort_wait; at least one of the two sees the
     * other's store */
    uint32_t waits = (uint32_t)atomic_load_explicit(&of->waits, memory_order_seq_cst);
    if (waits != 0 && (wait == 0 || waits == wait)) {
        atomic_fetch_add_explicit(&of->bell, 1, memory_order_seq_cst);
        wake_all(&of->bell);
    }
}

void gy_cohort_break(gy_cohort *cohort)
{
    atomic_store_explicit(&cohort->shared->is_broken, 1, memory_order_seq_cst);
    for (uint32_t i = 0; i < cohort->options.width; i++) {
        gy_cohort_ring(cohort, i, 0);
    }
    wake_all(&cohort->shared->joined);
}

static gy_status check_broken(const gy_cohort *cohort)
{
    if (atomic_load_explicit(&cohort->shared->is_broken, memory_order_acquire) != 0) {
        return gy_fail(GY_PEER, "another vertex of the cohort failed or died");
    }
    return GY_OK;
}

gy_status gy_cohort_check(gy_cohort *cohort)
{
    GY_TRY(check_broken(cohort));
    if (atomic_load_explicit(cohort->options.is_cancelled, memory_order_relaxed)) {
        return gy_fail(GY_CANCELLED, "the job no longer needs it");
    }
    if (gy_now_ns(cohort->env) >= cohort->options.deadline.at_ns) {
        return gy_fail(GY_TIMEOUT, "the deadline passed while it waited for its cohort");
    }
    return GY_OK;
}

/* True for a process that has ended, whether it was reaped or not. */
static bool is_dead(int32_t pid)
{
    int file = (int)syscall(SYS_pidfd_open, pid, 0);
    if (file < 0) {
        return errno == ESRCH;
    }
    struct pollfd look = {.fd = file, .events = POLLIN};
    bool is_over = poll(&look, 1, 0) == 1;
    (void)close(file);
    return is_over;
}

static void look_after_peers(gy_cohort *cohort)
{
    for (uint32_t i = 0; i < cohort->options.width; i++) {
        const gy_flow_shared_member *of = &cohort->members[i];
        if (i != cohort->options.member &&
            atomic_load_explicit(&of->state, memory_order_acquire) == GY_MEMBER_IN &&
            is_dead(atomic_load_explicit(&of->pid, memory_order_relaxed)) &&
            atomic_load_explicit(&of->state, memory_order_acquire) == GY_MEMBER_IN) {
            gy_cohort_break(cohort);
        }
    }
}

/* ---- deadlocks ---- */

static uint32_t other_side(const gy_cohort *cohort, uint32_t wait)
{
    const gy_flow_task_channel *channel = &cohort->options.channels[(wait - 1) / 2];
    return wait == gy_wait_read((wait - 1) / 2) ? channel->from : channel->to;
}

static bool is_write(uint32_t wait)
{
    return wait % 2 == 0;
}

/* A writer on a wait-for cycle, and a number that distinguishes this cycle of these waits from
 * all others. */
typedef struct circle {
    uint32_t writer, wait; /* wait 0: no writer found */
    uint64_t print;
} circle;

/* Follow the wait-for edges from this member. False: the walk ends at a member that runs. */
static bool walk(gy_cohort *cohort, circle *found)
{
    uint32_t at = cohort->options.member;
    *found = (circle){.wait = 0};
    for (uint32_t steps = 0; steps < cohort->options.width; steps++) {
        uint64_t waits = atomic_load_explicit(&cohort->members[at].waits, memory_order_seq_cst);
        uint32_t wait = (uint32_t)waits;
        if (wait == 0 || !gy_flow_wait_is_true(cohort, wait)) {
            return false;
        }
        bool is_pipe = cohort->options.channels[(wait - 1) / 2].is_pipe;
        if (is_write(wait) &&
            (found->wait == 0 ||
             (cohort->options.channels[(found->wait - 1) / 2].is_pipe && !is_pipe))) {
            found->wait = wait;
            found->writer = at;
        }
        uint64_t parts[] = {found->print, at, waits};
        found->print = gy_hash(parts, sizeof(parts), 0);
        at = other_side(cohort, wait);
        if (at == cohort->options.member) {
            return found->wait != 0;
        }
    }
    return false;
}

/*
 * Called when this member is about to sleep. Each sleeper waits for one member, so the walk is
 * a path that either ends at a member that runs or returns to its start: a deadlock. The walk
 * is done twice; when both walks see the same waits, all members on the cycle slept at one
 * time between the walks. A single walk could see a false cycle: a reader that empties a ring
 * between two reads of the table would seem to wait for the writer that seems to wait for it.
 * The function then tells the best writer on the cycle to spill, preferably a FIFO's, since a
 * pipe's needs a thread. A member stores its wait before it walks, so at least the last member
 * of a cycle sees all of it.
 */
static void break_circle(gy_cohort *cohort)
{
    circle first, again;
    if (walk(cohort, &first) && walk(cohort, &again) && first.print == again.print) {
        gy_flow_shared_channel *channel = &cohort->channels[(first.wait - 1) / 2];
        atomic_store_explicit(&channel->must_spill, 1, memory_order_seq_cst);
        gy_cohort_ring(cohort, first.writer, first.wait);
    }
}

/* Open the files that writers spilled for this member while those writers still exist. */
gy_status gy_flow_spills_take(gy_cohort *cohort)
{
    uint32_t spills = atomic_load_explicit(&cohort->shared->spills, memory_order_acquire);
    if (spills == cohort->spills_seen) {
        return GY_OK;
    }
    for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
        gy_end *end = &cohort->ends[i];
        gy_flow_shared_channel *channel = &cohort->channels[i];
        int32_t file = atomic_load_explicit(&channel->file, memory_order_acquire);
        if (!end->is_reader || end->is_pipe || end->file >= 0 || file == 0) {
            continue;
        }
        char path[64];
        (void)snprintf(
            path, sizeof(path), "/proc/%d/fd/%d",
            atomic_load_explicit(&cohort->members[end->from].pid, memory_order_relaxed),
            file - 1);
        end->file = open(path, O_RDONLY | O_CLOEXEC);
        if (end->file < 0) {
            if (errno == ENOENT || errno == ESRCH) {
                return gy_fail(GY_PEER, "another vertex of the cohort died");
            }
            return gy_fail(GY_IO, "cannot open a spilled file: %s", strerrordesc_np(errno));
        }
        atomic_store_explicit(&channel->is_file_open, 1, memory_order_seq_cst);
        gy_cohort_ring(cohort, end->from, 0);
    }
    cohort->spills_seen = spills;
    return GY_OK;
}

/* ---- waiting ---- */

static gy_status flush_pipes(gy_cohort *cohort)
{
    if (cohort->is_flushing) {
        return GY_OK;
    }
    cohort->is_flushing = true;
    gy_status status = GY_OK;
    for (uint32_t i = 0; i < cohort->options.channel_count && status == GY_OK; i++) {
        if (cohort->ends[i].pipe != NULL && !cohort->ends[i].is_reader) {
            status = gy_pipe_flush(cohort, i);
        }
    }
    cohort->is_flushing = false;
    return status;
}

static void set_waiting(gy_cohort *cohort, bool is_waiting)
{
    if (cohort->options.is_waiting != NULL) {
        atomic_store_explicit(cohort->options.is_waiting, is_waiting, memory_order_relaxed);
    }
}

gy_status gy_cohort_wait(gy_cohort *cohort, uint32_t wait, gy_engine_ready ready, int file,
                         short events)
{
    gy_flow_shared_member *own = &cohort->members[cohort->options.member];
    uint32_t channel = (wait - 1) / 2;
    /* a peer that waits for bytes in our own buffers would never wake */
    GY_TRY(flush_pipes(cohort));
    gy_status status = GY_OK;
    uint64_t waits = ++cohort->turn << 32 | wait;
    set_waiting(cohort, true);
    for (uint32_t round = 0; status == GY_OK; round++) {
        uint32_t bell = atomic_load_explicit(&own->bell, memory_order_seq_cst);
        /* partner: gy_cohort_ring */
        atomic_store_explicit(&own->waits, waits, memory_order_seq_cst);
        if (ready(cohort, channel)) {
            break;
        }
        gy_flow_fifo_settle(cohort);
        status = gy_cohort_check(cohort);
        if (status == GY_OK) {
            status = gy_flow_spills_take(cohort);
        }
        if (status == GY_OK && round > 0) {
            look_after_peers(cohort);
        }
        if (status < 0) {
            break;
        }
        break_circle(cohort);
        if (ready(cohort, channel)) {
            break;
        }
        if (file < 0) {
            sleep_on(&own->bell, bell, NAP_NS);
        } else {
            struct pollfd look = {.fd = file, .events = events};
            struct timespec nap = {.tv_nsec = POLL_NAP_NS};
            (void)ppoll(&look, 1, &nap, NULL);
        }
    }
    atomic_store_explicit(&own->waits, 0, memory_order_seq_cst);
    set_waiting(cohort, false);
    return status;
}

/* ---- joining and leaving ---- */

static gy_status lay_out(gy_cohort *cohort)
{
    size_t wanted = cohort->options.ring_bytes > 0 ? cohort->options.ring_bytes : RING_BYTES;
    cohort->ring_bytes = PAGE_BYTES;
    while (cohort->ring_bytes < wanted) {
        cohort->ring_bytes *= 2;
    }
    size_t members = gy_round_up(sizeof(gy_flow_shared), GY_CACHE_LINE);
    size_t channels = members + cohort->options.width * sizeof(gy_flow_shared_member);
    cohort->rings_offset = gy_round_up(
        channels + cohort->options.channel_count * sizeof(gy_flow_shared_channel), PAGE_BYTES);
    cohort->shared_bytes = cohort->rings_offset;
    cohort->ends = gy_alloc_zero("flow.cohort", cohort->options.channel_count, sizeof(gy_end));
    return cohort->ends != NULL ? GY_OK : GY_NOMEM;
}

static gy_status make_memory(gy_cohort *cohort, meeting *met)
{
    cohort->memory = memfd_create("gyre-cohort", MFD_CLOEXEC);
    size_t total = cohort->rings_offset + cohort->options.channel_count * cohort->ring_bytes;
    struct stat status;
    if (cohort->memory < 0 || ftruncate(cohort->memory, (off_t)total) != 0 ||
        fstat(cohort->memory, &status) != 0) {
        return gy_fail(GY_NOMEM, "no shared memory of %zu bytes for a cohort: %s", total,
                       strerrordesc_np(errno));
    }
    met->pid = getpid();
    met->file = cohort->memory;
    met->inode = (uint64_t)status.st_ino;
    return GY_OK;
}

static gy_status open_memory(gy_cohort *cohort, const meeting *met)
{
    char path[64];
    struct stat status;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", met->pid, met->file);
    cohort->memory = open(path, O_RDWR | O_CLOEXEC);
    if (cohort->memory < 0 || fstat(cohort->memory, &status) != 0 ||
        (uint64_t)status.st_ino != met->inode) {
        return gy_fail(GY_PEER, "the first vertex of the cohort has ended");
    }
    return GY_OK;
}

static gy_status wait_for_maker(gy_cohort *cohort, meeting *met)
{
    uint32_t state = 0;
    while ((state = atomic_load_explicit(&met->state, memory_order_acquire)) != 2) {
        if (atomic_load_explicit(cohort->options.is_cancelled, memory_order_relaxed)) {
            return gy_fail(GY_CANCELLED, "the job no longer needs it");
        }
        if (gy_now_ns(cohort->env) >= cohort->options.deadline.at_ns) {
            return gy_fail(GY_TIMEOUT, "the first vertex of the cohort did not get ready");
        }
        sleep_on(&met->state, state, NAP_NS);
    }
    return GY_OK;
}

static gy_status meet(gy_cohort *cohort, int file)
{
    if (ftruncate(file, PAGE_BYTES) != 0) {
        return gy_fail(errno == ENOSPC ? GY_LIMIT : GY_IO, "cannot make %s: %s",
                       cohort->options.path, strerrordesc_np(errno));
    }
    meeting *met = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (met == MAP_FAILED) {
        return gy_fail(GY_IO, "cannot map %s: %s", cohort->options.path,
                       strerrordesc_np(errno));
    }
    uint32_t nobody = 0;
    gy_status status = GY_OK;
    if (atomic_compare_exchange_strong_explicit(&met->state, &nobody, 1, memory_order_acq_rel,
                                                memory_order_acquire)) {
        status = make_memory(cohort, met);
        atomic_store_explicit(&met->state, status == GY_OK ? 2 : 0, memory_order_release);
        wake_all(&met->state);
    } else {
        status = wait_for_maker(cohort, met);
        if (status == GY_OK) {
            status = open_memory(cohort, met);
        }
    }
    GY_ASSERT(munmap(met, PAGE_BYTES) == 0);
    return status;
}

static gy_status map_shared(gy_cohort *cohort)
{
    void *base =
        mmap(NULL, cohort->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cohort->memory, 0);
    if (base == MAP_FAILED) {
        return gy_fail(GY_NOMEM, "cannot map the memory of a cohort");
    }
    cohort->shared = base;
    cohort->members =
        (void *)((uint8_t *)base + gy_round_up(sizeof(gy_flow_shared), GY_CACHE_LINE));
    cohort->channels = (void *)(cohort->members + cohort->options.width);
    return GY_OK;
}

static gy_status open_ends(gy_cohort *cohort)
{
    for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
        const gy_flow_task_channel *row = &cohort->options.channels[i];
        gy_end *end = &cohort->ends[i];
        GY_ASSERT(row->from < cohort->options.width && row->to < cohort->options.width);
        GY_ASSERT(row->from != row->to);
        end->file = -1;
        end->from = row->from;
        end->to = row->to;
        end->is_pipe = row->is_pipe;
        end->is_reader = row->to == cohort->options.member;
        bool is_own = end->is_reader || row->from == cohort->options.member;
        if (is_own && !row->is_pipe) {
            GY_TRY(gy_flow_fifo_map(cohort, i));
        } else if (end->is_reader) {
            GY_TRY(gy_pipe_listen(cohort, i));
        }
    }
    return GY_OK;
}

/* Before all members have joined, the creator must keep its descriptor open, and each reader
 * its listener. */
static gy_status wait_for_all(gy_cohort *cohort)
{
    gy_flow_shared *shared = cohort->shared;
    gy_flow_shared_member *own = &cohort->members[cohort->options.member];
    atomic_store_explicit(&own->pid, getpid(), memory_order_relaxed);
    atomic_store_explicit(&own->state, GY_MEMBER_IN, memory_order_release);
    cohort->is_in = true;
    atomic_fetch_add_explicit(&shared->joined, 1, memory_order_acq_rel);
    wake_all(&shared->joined);
    gy_status status = GY_OK;
    set_waiting(cohort, true);
    while (status == GY_OK) {
        uint32_t joined = atomic_load_explicit(&shared->joined, memory_order_acquire);
        if (joined >= cohort->options.width) {
            break;
        }
        status = gy_cohort_check(cohort);
        if (status == GY_OK) {
            sleep_on(&shared->joined, joined, NAP_NS);
            look_after_peers(cohort);
        }
    }
    set_waiting(cohort, false);
    return status;
}

static gy_status join(gy_cohort *cohort)
{
    GY_TRY(lay_out(cohort));
    const int how = O_RDWR | O_CREAT | O_CLOEXEC;
    int file = open(cohort->options.path, how, 0600);
    if (file < 0 && errno == ENOENT && gy_disk_make_folders(cohort->options.path) == 0) {
        /* this member is the first one on its host */
        file = open(cohort->options.path, how, 0600);
    }
    if (file < 0) {
        return gy_fail(GY_IO, "cannot make %s: %s", cohort->options.path,
                       strerrordesc_np(errno));
    }
    gy_status status = meet(cohort, file);
    (void)close(file);
    GY_TRY(status);
    GY_TRY(map_shared(cohort));
    GY_TRY(open_ends(cohort));
    return wait_for_all(cohort);
}

gy_status gy_cohort_join(gy_env *env, const gy_cohort_options *options, gy_cohort **cohort)
{
    GY_ASSERT(options->width > 1 && options->member < options->width);
    gy_cohort *made = gy_alloc_zero("flow.cohort", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->options = *options;
    made->memory = -1;
    gy_status status = join(made);
    if (status < 0) {
        gy_cohort_leave(made, false);
        return status;
    }
    *cohort = made;
    return GY_OK;
}

/* ---- channels ---- */

static gy_end *end_of(gy_cohort *cohort, uint32_t index, bool is_reader)
{
    GY_ASSERT(index < cohort->options.channel_count && !cohort->is_closed);
    gy_end *end = &cohort->ends[index];
    uint32_t member = is_reader ? end->to : end->from;
    GY_ASSERT(member == cohort->options.member);
    return end;
}

gy_status gy_cohort_read(gy_cohort *cohort, uint32_t index, const void **data,
                         size_t *size_bytes)
{
    const gy_end *end = end_of(cohort, index, true);
    GY_TRY(check_broken(cohort));
    GY_TRY(gy_flow_spills_take(cohort));
    return end->is_pipe ? gy_pipe_read(cohort, index, data, size_bytes)
                        : gy_flow_fifo_read(cohort, index, data, size_bytes);
}

gy_status gy_cohort_write(gy_cohort *cohort, uint32_t index, const void *data,
                          size_t size_bytes)
{
    const gy_end *end = end_of(cohort, index, false);
    GY_TRY(check_broken(cohort));
    GY_TRY(gy_flow_spills_take(cohort));
    return end->is_pipe ? gy_pipe_write(cohort, index, data, size_bytes)
                        : gy_flow_fifo_write(cohort, index, data, size_bytes);
}

gy_status gy_cohort_room(gy_cohort *cohort, uint32_t index, size_t size_bytes, void **room)
{
    (void)end_of(cohort, index, false);
    GY_TRY(check_broken(cohort));
    return gy_flow_fifo_room(cohort, index, size_bytes, room);
}

gy_status gy_cohort_wrote(gy_cohort *cohort, uint32_t index, size_t size_bytes)
{
    (void)end_of(cohort, index, false);
    return gy_flow_fifo_wrote(cohort, index, size_bytes);
}

gy_status gy_cohort_close(gy_cohort *cohort)
{
    GY_TRY(gy_cohort_check(cohort));
    for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
        const gy_end *end = &cohort->ends[i];
        if (end->from != cohort->options.member) {
            continue;
        }
        if (end->is_pipe) {
            GY_TRY(gy_pipe_finish(cohort, i));
        } else {
            gy_flow_fifo_end(cohort, i);
        }
    }
    cohort->is_closed = true;
    return GY_OK;
}

uint64_t gy_cohort_bytes(const gy_cohort *cohort, uint32_t index, uint64_t *spilled)
{
    *spilled = cohort->ends[index].spilled;
    return cohort->ends[index].bytes;
}

/* The reader must have opened a spilled file before its writer exits, since the file has no
 * name. */
static bool are_spills_taken(gy_cohort *cohort)
{
    for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
        const gy_end *end = &cohort->ends[i];
        gy_flow_shared_channel *channel = &cohort->channels[i];
        bool is_mine = !end->is_reader && !end->is_pipe && end->file >= 0;
        if (is_mine &&
            atomic_load_explicit(&channel->is_file_open, memory_order_seq_cst) == 0 &&
            atomic_load_explicit(&cohort->members[end->to].state, memory_order_acquire) ==
                GY_MEMBER_IN) {
            return false;
        }
    }
    return true;
}

static void wait_for_spills(gy_cohort *cohort)
{
    gy_flow_shared_member *own = &cohort->members[cohort->options.member];
    while (gy_cohort_check(cohort) == GY_OK) {
        uint32_t bell = atomic_load_explicit(&own->bell, memory_order_seq_cst);
        /* no channel: another member's walk stops here */
        atomic_store_explicit(&own->waits, UINT32_MAX, memory_order_seq_cst);
        if (are_spills_taken(cohort)) {
            break;
        }
        sleep_on(&own->bell, bell, NAP_NS);
        look_after_peers(cohort);
    }
    atomic_store_explicit(&own->waits, 0, memory_order_seq_cst);
}

static void free_ends(gy_cohort *cohort)
{
    for (uint32_t i = 0; cohort->ends != NULL && i < cohort->options.channel_count; i++) {
        gy_end *end = &cohort->ends[i];
        if (end->pipe != NULL) {
            gy_pipe_close(cohort, i);
        }
        if (end->ring != NULL) {
            GY_ASSERT(munmap(end->ring, 2 * cohort->ring_bytes) == 0);
        }
        if (end->file >= 0 && !end->is_pipe) {
            (void)close(end->file);
        }
        gy_free(end->buffer);
    }
    gy_free(cohort->ends);
}

void gy_cohort_leave(gy_cohort *cohort, bool is_well)
{
    if (cohort == NULL) {
        return;
    }
    if (cohort->is_in) {
        gy_flow_shared_member *own = &cohort->members[cohort->options.member];
        is_well = is_well && cohort->is_closed;
        if (!is_well) {
            gy_cohort_break(cohort);
        } else {
            wait_for_spills(cohort);
        }
        for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
            if (cohort->ends[i].pipe != NULL && !cohort->ends[i].is_reader) {
                gy_pipe_close(cohort, i); /* its pump thread may still have bytes to send */
            }
        }
        atomic_store_explicit(&own->state, is_well ? GY_MEMBER_WELL : GY_MEMBER_ILL,
                              memory_order_seq_cst);
        for (uint32_t i = 0; i < cohort->options.width; i++) {
            /* writers to this member may discard their bytes now */
            gy_cohort_ring(cohort, i, 0);
        }
    }
    if (cohort->shared != NULL && !cohort->is_in) {
        gy_cohort_break(cohort);
    }
    free_ends(cohort);
    if (cohort->shared != NULL) {
        GY_ASSERT(munmap(cohort->shared, cohort->shared_bytes) == 0);
    }
    if (cohort->memory >= 0) {
        (void)close(cohort->memory);
    }
    gy_free(cohort);
}
