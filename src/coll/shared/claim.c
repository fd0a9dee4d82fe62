/*
 * Claims: sums that the ranks of a host take one after another from a shared counter. They help
 * where a host has fewer cores than ranks: the ranks that run do the sums, and nobody waits for
 * a rank that does not run. The counters lie beside the channel's mark and also hold number and
 * count in one word, so that a new collective need not reset them.
 */
#include "coll/coll_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One system call instead of a page fault per page, and now instead of in a later call. */
static void map_region(const gy_comm *comm, const uint8_t *region)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)region / page * page;
    uintptr_t end = gy_round_up((uintptr_t)region + comm->region_bytes, page);
    GY_ASSERT(page > 0 && (page & (page - 1)) == 0);
    GY_ASSERT(first < end);
    if (madvise((void *)first, end - first, MADV_POPULATE_WRITE) != 0) {
        gy_debug("staging is mapped page by page: %s", strerror(errno));
    }
}

void gy_claim_prepare(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    const gy_runner *runner = &coll->runner;
    _Static_assert(GY_CHANNELS <= 8 * sizeof(*comm->mapped), "a bit each");
    GY_ASSERT(comm->shared != NULL || runner->plan == NULL || runner->plan->claims == 0);
    if (runner->plan == NULL || runner->plan->claims == 0 ||
        runner->choice.algorithm->need != GY_NEED_STAGE) {
        return;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        unsigned region = rank == comm->rank ? coll->region : coll->remote[rank].region;
        uint8_t bit = (uint8_t)(1U << region % GY_CHANNELS);
        if ((comm->mapped[rank] & bit) == 0) {
            comm->mapped[rank] |= bit;
            map_region(comm, gy_region_of(coll, rank));
        }
    }
}

/* The words beside a mark. Rank 0 has two for all ranks: the number of claims taken and of
 * claims done. Each rank has one: the claim that it works on. */
enum { TAKEN, DONE, AT };
_Static_assert((int)AT < (int)GY_SHARED_BESIDE, "all in one line");

#define COUNT_MASK ((UINT64_C(1) << GY_MARK_BITS) - 1)

static _Atomic uint64_t *word_of(const gy_coll *coll, int rank, int which)
{
    GY_CHECK_DEEP(which == TAKEN || which == DONE || which == AT);
    GY_CHECK_DEEP(gy_comm_has_rank(coll->comm, rank));
    return &gy_word_line(coll->comm, rank, 1 + coll->number % GY_CHANNELS)->beside[which];
}

static uint64_t value_of(const gy_coll *coll, uint64_t count)
{
    GY_ASSERT(count <= COUNT_MASK);
    return coll->number << GY_MARK_BITS | count;
}

/* Returns 0 where the word is of an earlier collective. */
static uint64_t count_in(const gy_coll *coll, uint64_t value)
{
    return value >> GY_MARK_BITS == coll->number ? value & COUNT_MASK : 0;
}

/* Publishes the claim that this rank works on, so that waiting ranks can name it. */
static void be_at(const gy_coll *coll, uint64_t claim)
{
    GY_ASSERT(claim <= COUNT_MASK);
    /* relaxed: carries no data; with the load in find_last */
    atomic_store_explicit(word_of(coll, coll->comm->rank, AT), value_of(coll, claim),
                          memory_order_relaxed);
}

/* Takes the next claim of this leg. It is published before it is taken, so that a rank that
 * stops in between can be named. */
static void take(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    _Atomic uint64_t *taken = word_of(coll, 0, TAKEN);
    uint64_t end = (uint64_t)runner->claim_base + runner->plan->claims;
    GY_ASSERT(!runner->is_claiming);
    GY_ASSERT(runner->plan->claims > 0 && end <= COUNT_MASK);
    /* relaxed: the data was visible when the calls were compared or a mark was posted */
    uint64_t seen = atomic_load_explicit(taken, memory_order_relaxed), count = 0;
    do {
        count = count_in(coll, seen);
        be_at(coll, count < end ? count + 1 : 0);
    } while (count < end && !atomic_compare_exchange_weak_explicit(
                                taken, &seen, value_of(coll, count + 1), memory_order_relaxed,
                                memory_order_relaxed));
    GY_ASSERT(count >= runner->claim_base || count >= end);
    runner->claim = (uint32_t)(GY_MIN(count, end) - runner->claim_base) + 1;
    GY_ASSERT(runner->claim >= 1 && runner->claim <= runner->plan->claims + 1);
}

/* Counts the current claim as done. */
static void finish(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    _Atomic uint64_t *done = word_of(coll, 0, DONE);
    uint64_t end = (uint64_t)runner->claim_base + runner->plan->claims;
    if (!runner->is_claiming) {
        return;
    }
    if (runner->choice.is_streamed) {
        gy_stream_end();
    }
    uint64_t seen = atomic_load_explicit(done, memory_order_relaxed), count = 0;
    do {
        count = count_in(coll, seen) + 1;
        /* release: the sum; with the acquire in gy_claim_await */
    } while (!atomic_compare_exchange_weak_explicit(
        done, &seen, value_of(coll, count), memory_order_release, memory_order_relaxed));
    GY_ASSERT(count > runner->claim_base && count <= end);
    be_at(coll, 0);
    runner->is_claiming = false;
    if (count == end) {
        gy_wake_peers(coll->comm);
    }
}

void gy_claim_take(gy_coll *coll, const gy_step *step)
{
    GY_ASSERT(step->kind == GY_STEP_CLAIM);
    GY_ASSERT(step->mark >= 1 && step->mark <= coll->runner.plan->claims);
    gy_runner *runner = &coll->runner;
    const gy_steps *steps = &runner->plan->steps;
    finish(coll);
    if (runner->claim < step->mark) {
        take(coll);
    }
    runner->is_claiming = runner->claim == step->mark;
    while (!runner->is_claiming) {
        GY_ASSERT(runner->next + 1 < steps->count); /* a CLAIMED step follows the last claim */
        const gy_step *next = &steps->items[runner->next + 1];
        if (next->kind == GY_STEP_CLAIMED ||
            (next->kind == GY_STEP_CLAIM && next->mark == runner->claim)) {
            return;
        }
        runner->next++;
    }
}

/* Returns a rank whose claim is not done yet. */
static int find_last(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    GY_ASSERT(comm->shared != NULL);
    for (int rank = 0; rank < comm->size; rank++) {
        /* relaxed: with the store in be_at */
        uint64_t at = atomic_load_explicit(word_of(coll, rank, AT), memory_order_relaxed);
        if (rank != comm->rank && count_in(coll, at) > 0) {
            return gy_comm_peer(comm, rank);
        }
    }
    return coll->peer; /* that rank has finished meanwhile */
}

gy_status gy_claim_await(gy_coll *coll, const gy_step *step)
{
    GY_ASSERT(step->kind == GY_STEP_CLAIMED);
    GY_ASSERT(step->mark <= coll->runner.plan->claims);
    finish(coll);
    /* acquire: with the release in finish, all sums */
    uint64_t done = atomic_load_explicit(word_of(coll, 0, DONE), memory_order_acquire);
    if (count_in(coll, done) >= (uint64_t)coll->runner.claim_base + step->mark) {
        return GY_OK;
    }
    coll->peer = find_last(coll);
    return GY_AGAIN;
}
