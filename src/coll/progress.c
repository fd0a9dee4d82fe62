/* Collectives in flight: how they enter, compare, run and end, and what happens when one fails.
 */
#include "coll/record_priv.h"

#include <string.h>

/* A round of a rank that gets little of a busy core may take 0.1 s, and a deadline is noticed
 * so many rounds late at most. */
enum { CHECK_EVERY_ROUNDS = 16, CHECK_EVERY_NS = 20000000 };

/* Returns the tag of signatures; a plan's messages use smaller chunk numbers. */
static uint64_t signature_tag(const gy_coll *coll)
{
    GY_ASSERT(coll->kind == GY_COLL_COLLECTIVE);
    return gy_tag_of(coll->comm, coll->number, UINT16_MAX);
}

void gy_wake_peers(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->shared != NULL);
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank) {
            gy_transport_wake(comm->transport, gy_comm_peer(comm, rank));
        }
    }
}

/* Without shared memory each rank sends its signature to its two neighbours on a ring, so that
 * two ranks see every difference. The ring of four ranks is 0 1 3 2, since doubling sends
 * between the same ranks. Where the ranks fold by two the ring is cut into the line 2 0 1 3,
 * since folding sends along it. */
static int find_neighbours(const gy_comm *comm, int neighbours[2])
{
    int rank = comm->rank, size = comm->size;
    bool is_line = size == 4 && comm->site.loop_cores == 2;
    GY_ASSERT(size > 1 && gy_comm_has_rank(comm, rank));
    neighbours[0] = size == 4 ? rank ^ (is_line && rank >= 2 ? 2 : 1) : (rank + 1) % size;
    neighbours[1] = size == 4 ? rank ^ 2 : (rank + size - 1) % size;
    GY_ASSERT(gy_comm_has_rank(comm, neighbours[0]) && neighbours[0] != rank);
    GY_ASSERT(gy_comm_has_rank(comm, neighbours[1]) && neighbours[1] != rank);
    return size == 2 || (is_line && rank >= 2) ? 1 : 2;
}

/* Sends the signatures. They travel with the plan's first messages where those go to the same
 * ranks. */
static gy_status send_signatures(gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    int peers[2];
    int count = find_neighbours(comm, peers);
    GY_ASSERT(comm->shared == NULL);
    GY_ASSERT(coll->stage == GY_COLL_STARTED);
    for (int i = 0; i < count; i++) {
        peers[i] = gy_comm_peer(comm, peers[i]);
        GY_TRY(gy_transport_send_soon(comm->transport, peers[i], signature_tag(coll),
                                      &coll->signature, sizeof(coll->signature),
                                      &coll->signatures[i]));
        GY_TRY(gy_transport_recv(comm->transport, peers[i], signature_tag(coll),
                                 &coll->neighbour[i], sizeof(coll->neighbour[i]),
                                 &coll->signatures[2 + i]));
    }
    return GY_OK;
}

/* Compares each signature when it arrives, since the other neighbour may never call. */
static gy_status compare_neighbours(gy_coll *coll)
{
    GY_ASSERT(coll->comm->shared == NULL);
    GY_ASSERT(coll->stage >= GY_COLL_ENTERED && !coll->is_agreed);
    int neighbours[2], count = find_neighbours(coll->comm, neighbours);
    gy_status status = GY_OK;
    for (int i = 0; i < 2 * count; i++) {
        int which = i / count; /* sent, then received */
        const gy_transfer *transfer = &coll->signatures[2 * which + i % count];
        if (transfer->status < 0) {
            coll->peer = transfer->peer;
            return gy_fail(transfer->status, "call of rank %d: %s", transfer->peer,
                           gy_status_text(transfer->status));
        }
        if (transfer->status == GY_OK && which == 1 &&
            !gy_coll_signatures_agree(&coll->signature, &coll->neighbour[i % count])) {
            return gy_coll_signature_mismatch(coll, &coll->neighbour[i % count],
                                              transfer->peer);
        }
        if (transfer->status == GY_AGAIN && status == GY_OK) {
            coll->peer = transfer->peer;
            status = GY_AGAIN;
        }
    }
    coll->peer = status == GY_OK ? -1 : coll->peer;
    coll->is_agreed = status == GY_OK;
    return status;
}

/* Enters over shared memory. The rank writes the data that its peers read before it publishes
 * its signature. A registered vector may need no copy: that depends on the signatures of the
 * others. */
static gy_status enter_shared(gy_coll *coll)
{
    GY_ASSERT(coll->comm->shared != NULL);
    GY_ASSERT(coll->stage == GY_COLL_STARTED);
    bool is_tiny = gy_call_is_tiny(coll->comm, &coll->call);
    coll->has_remote = !is_tiny;
    if (!is_tiny) {
        gy_region_take(coll);
    }
    if (!is_tiny && !coll->signature.is_registered && !coll->call.is_vector) {
        gy_coll_method choice;
        GY_TRY(gy_choose(coll, &choice));
        if (!gy_row_is_library(choice.algorithm)) {
            GY_TRY(gy_run_start(coll, &choice));
            GY_TRY(gy_run_open(coll));
        }
    }
    gy_coll_slot_enter(coll, is_tiny);
    return GY_OK;
}

static gy_status enter(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    GY_ASSERT(coll->stage == GY_COLL_STARTED);
    GY_ASSERT(coll->kind == GY_COLL_COLLECTIVE);
    if (!gy_channel_is_free(comm, coll->number, &coll->peer)) {
        return GY_AGAIN;
    }
    if (comm->size == 1) {
        gy_call_alone(&coll->call);
        coll->stage = GY_COLL_ENDED;
        return GY_OK;
    }
    coll->checked = 0;
    coll->all_registered = coll->any_registered = coll->signature.is_registered;
    coll->longest = -1;
    coll->is_all_inline = false;
    if (comm->shared != NULL) {
        GY_TRY(enter_shared(coll));
    } else {
        GY_TRY(send_signatures(coll));
    }
    coll->stage = GY_COLL_ENTERED;
    gy_coll_check(coll);
    gy_record_entered(coll);
    return GY_OK;
}

/* Chooses an algorithm and starts it. Where messages carry signatures, a library's collective
 * waits for those of the neighbours, since its behaviour with different calls is undefined. */
static gy_status choose_and_start(gy_coll *coll)
{
    GY_ASSERT(coll->stage == GY_COLL_ENTERED && coll->runner.plan == NULL);
    gy_coll_method choice;
    GY_TRY(gy_choose(coll, &choice));
    if (gy_row_is_library(choice.algorithm) && !coll->is_agreed) {
        gy_status status = compare_neighbours(coll);
        if (status != GY_OK) {
            return status;
        }
    }
    return gy_run_start(coll, &choice);
}

/* Starts the work after the signatures on this host agree; a tiny call ends here. */
static gy_status begin_work(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    GY_ASSERT(coll->stage == GY_COLL_ENTERED);
    GY_ASSERT(coll->is_agreed || comm->shared == NULL);
    if (coll->is_all_inline || gy_call_is_tiny(comm, &coll->call)) {
        gy_coll_slot_finish(coll);
        if (coll->sent_bytes != NULL) {
            *coll->sent_bytes += gy_coll_slot_read_bytes(coll);
        }
        coll->stage = GY_COLL_ENDED;
        return GY_OK;
    }
    if (coll->runner.plan == NULL) {
        gy_status status = choose_and_start(coll);
        if (status != GY_OK) {
            return status;
        }
    }
    gy_claim_prepare(coll);
    coll->stage = GY_COLL_RUNS;
    gy_coll_check(coll);
    gy_record_runs(coll, coll->runner.choice.algorithm);
    return GY_OK;
}

/* Runs a plan. Without shared memory it runs before the signatures have arrived; they are
 * compared when they arrive, at the latest before the call ends. A message of the wrong size is
 * reported after that comparison, which may give a better cause. */
static gy_status run_unconfirmed(gy_coll *coll, bool *has_moved)
{
    GY_ASSERT(coll->stage == GY_COLL_RUNS || coll->stage == GY_COLL_AGREES);
    gy_status status = coll->is_agreed ? GY_OK : compare_neighbours(coll);
    if (status >= 0 && coll->stage == GY_COLL_RUNS) {
        status = gy_run_step(coll, has_moved);
        if (status == GY_OK || (status == GY_MISMATCH && !coll->is_agreed)) {
            if (status < 0) { /* a success has no error text to copy */
                gy_error_take(&coll->error, status);
            }
            coll->stage = GY_COLL_AGREES;
            status = coll->is_agreed ? GY_OK : compare_neighbours(coll);
        }
    }
    if (status == GY_OK && coll->stage == GY_COLL_AGREES) {
        status = coll->error.status < 0 ? gy_error_raise(&coll->error) : GY_OK;
        coll->stage = status == GY_OK ? GY_COLL_ENDED : coll->stage;
    }
    return status;
}

/*
 * What holds of a call between two steps:
 *
 *   stage     channel      signatures       plan                 which calls
 *   STARTED   not yet      not compared     none                 collectives
 *   ENTERED   its own      being compared   perhaps laid out     collectives
 *   RUNS      its own      compared, or     set; a message       all
 *                          on their way     needs none
 *   AGREES    its own      on their way     has ended            without shared memory
 *   ENDED     free soon    compared         has ended            all
 */
void gy_coll_check(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    bool is_collective = coll->kind == GY_COLL_COLLECTIVE;
    bool has_channel = coll->stage > GY_COLL_STARTED && is_collective;
    GY_ASSERT(coll->stage > GY_COLL_RESERVED && coll->stage <= GY_COLL_ENDED);
    GY_ASSERT(is_collective == (coll->number != UINT64_MAX));
    GY_ASSERT(is_collective || coll->stage == GY_COLL_RUNS || coll->stage == GY_COLL_ENDED);
    GY_ASSERT(!is_collective || coll->number < comm->next_number);
    GY_ASSERT(!has_channel || coll->number < comm->ended + GY_CHANNELS);
    GY_ASSERT(coll->stage != GY_COLL_STARTED || coll->runner.plan == NULL);
    GY_ASSERT(coll->stage != GY_COLL_AGREES || comm->shared == NULL);
    GY_ASSERT(coll->stage != GY_COLL_RUNS || !is_collective || coll->runner.plan != NULL ||
              gy_row_is_library(coll->runner.choice.algorithm));
    GY_ASSERT(!is_collective || coll->number >= comm->ended);
    GY_ASSERT(coll->stage != GY_COLL_ENTERED || comm->size > 1);
    GY_ASSERT(coll->stage != GY_COLL_ENDED || coll->error.status <= GY_OK);
    GY_ASSERT(coll->end != NULL && comm->root->in_flight > 0);
    GY_ASSERT(coll->peer >= -1 && coll->peer < comm->transport->size);
}

static gy_status step(gy_coll *coll, bool *has_moved)
{
    gy_status status = GY_OK;
    if (coll->kind != GY_COLL_COLLECTIVE) {
        status = gy_message_step(coll);
        coll->stage = status == GY_OK ? GY_COLL_ENDED : coll->stage;
        return status;
    }
    if (coll->stage == GY_COLL_STARTED) {
        status = enter(coll);
        *has_moved = *has_moved || status == GY_OK;
    }
    if (status == GY_OK && coll->stage == GY_COLL_ENTERED) {
        status = coll->comm->shared != NULL ? gy_coll_slot_compare(coll) : GY_OK;
        if (status == GY_AGAIN && coll->comm->root->options.outlives_mismatch) {
            /* A waiting rank may sleep for long, so it compares the later ranks too. */
            gy_status other = gy_coll_slot_compare_later(coll);
            status = other < 0 ? other : status;
        }
        coll->is_agreed = coll->comm->shared != NULL;
        if (status == GY_OK) {
            status = begin_work(coll);
            *has_moved = *has_moved || status == GY_OK;
        }
    }
    if (status == GY_OK && (coll->stage == GY_COLL_RUNS || coll->stage == GY_COLL_AGREES)) {
        status = run_unconfirmed(coll, has_moved);
    }
    return status;
}

void gy_comm_end_number(gy_comm *comm, uint64_t number)
{
    GY_ASSERT(number >= comm->ended && number < comm->ended + GY_CHANNELS);
    GY_CHECK_DEEP(!comm->is_ended[number % GY_CHANNELS]);
    comm->is_ended[number % GY_CHANNELS] = true;
    while (comm->is_ended[comm->ended % GY_CHANNELS]) {
        comm->is_ended[comm->ended % GY_CHANNELS] = false;
        comm->ended++;
    }
    GY_CHECK_DEEP(comm->ended <= comm->next_number);
    if (comm->shared != NULL) {
        /* release: this rank's reads of others' slots and staging; with the acquire in
         * peer_has_ended */
        atomic_store_explicit(gy_word_of(comm, comm->rank, 0), comm->ended,
                              memory_order_release);
    }
}

void gy_comm_skip(gy_comm *comm, uint8_t why)
{
    GY_ASSERT(comm->shared != NULL && comm->root->options.outlives_mismatch);
    gy_mutex_lock(&comm->root->lock);
    uint64_t number = comm->next_number++;
    GY_ASSERT(number >> 56 == 0); /* it shares its word with the reason */
    gy_shared_word *line = gy_word_line(comm, comm->rank, 0);
    /* relaxed: the release in gy_comm_end_number comes after */
    atomic_store_explicit(&line->beside[number % GY_SHARED_BESIDE], number << 8 | why,
                          memory_order_relaxed);
    if (!comm->root->is_failed) { /* numbers that failed are never ended */
        gy_comm_end_number(comm, number);
        gy_wake_peers(comm);
    }
    gy_mutex_unlock(&comm->root->lock);
}

uint64_t gy_comm_ended_by(const gy_comm *comm, int rank)
{
    GY_ASSERT(comm->shared != NULL && gy_comm_has_rank(comm, rank));
    /* acquire: with the release in gy_comm_end_number */
    return atomic_load_explicit(gy_word_of(comm, rank, 0), memory_order_acquire);
}

uint64_t gy_comm_next(const gy_comm *comm)
{
    GY_ASSERT(comm->next_number >= comm->ended);
    return comm->next_number;
}

gy_status gy_comm_skipped(const gy_comm *comm, int rank, uint64_t number, const char *call)
{
    GY_ASSERT(gy_comm_has_rank(comm, rank) && rank != comm->rank);
    GY_ASSERT(call != NULL);
    gy_shared_word *line = gy_word_line(comm, rank, 0);
    /* relaxed: only words; after the acquire in gy_comm_ended_by */
    uint64_t note =
        atomic_load_explicit(&line->beside[number % GY_SHARED_BESIDE], memory_order_relaxed);
    const char *why = NULL;
    if (note >> 8 == number && comm->root->options.skip_text != NULL) {
        why = comm->root->options.skip_text((uint8_t)(note & 0xff));
    }
    return gy_fail(GY_MISMATCH, "collective %llu: rank %d called %s, rank %d %s",
                   (unsigned long long)number, gy_comm_peer(comm, comm->rank), call,
                   gy_comm_peer(comm, rank), why != NULL ? why : "takes no part in it");
}

static void remove_flying(gy_comm *comm, gy_coll *coll)
{
    gy_coll **at = &comm->flying;
    GY_ASSERT(coll->comm == comm && coll->stage == GY_COLL_ENDED);
    GY_ASSERT(comm->root->in_flight > 0);
    while (*at != coll) {
        GY_ASSERT(*at != NULL); /* the list has the call */
        at = &(*at)->next;
    }
    *at = coll->next;
    comm->root->in_flight--;
    comm->unended -= coll->kind == GY_COLL_COLLECTIVE;
    GY_ASSERT(comm->unended >= 0);
    gy_coll **last = &comm->root->ended_calls;
    while (*last != NULL) {
        last = &(*last)->next_ended;
    }
    coll->next_ended = NULL;
    *last = coll;
}

static void end_transfers(gy_coll *coll)
{
    GY_ASSERT(coll->stage > GY_COLL_RESERVED);
    for (int i = 0; i < 4; i++) {
        if (coll->signatures[i].status == GY_AGAIN) {
            gy_transport_cancel(coll->comm->transport, &coll->signatures[i]);
        }
    }
    if (gy_message_is_any(coll) && coll->any.transfers != NULL) {
        gy_transport_any_cancel(coll->comm->transport, &coll->any);
    }
    gy_run_end(coll);
}

void gy_comm_fail(gy_comm *comm, gy_status status)
{
    GY_ASSERT(status < 0);
    GY_ASSERT(comm->root != NULL && comm->root->root == comm->root);
    if (!comm->root->is_failed) {
        comm->root->is_failed = true;
        gy_error_take(&comm->root->failure, status);
        gy_transport_abort(comm->transport, &comm->root->failure);
    }
    for (gy_comm *each = comm->root; each != NULL; each = each->next) {
        while (each->flying != NULL) {
            gy_coll *coll = each->flying;
            GY_ASSERT(coll->comm == each);
            end_transfers(coll);
            gy_record_end(coll, GY_RECORD_FAILED);
            coll->error = comm->root->failure;
            coll->stage = GY_COLL_ENDED;
            remove_flying(each, coll);
        }
    }
}

/* Fails the communicator, so that no peer waits for this rank in vain, and names the call in
 * the error text. */
static void fail_step(gy_comm *comm, const gy_coll *coll, gy_status status)
{
    char text[192];
    GY_ASSERT(status < 0);
    GY_ASSERT(coll->comm == comm);
    if (status == GY_PEER) { /* a peer that ended after a failure has published its cause */
        gy_status cause = gy_transport_check(comm->transport, coll->peer);
        status = cause < 0 ? cause : status;
    }
    if (status != GY_MISMATCH || coll->is_agreed) {
        (void)gy_fail_within(status, "%s", gy_coll_text(coll, text));
    }
    gy_comm_fail(comm, status);
}

static void end_call(gy_comm *comm, gy_coll *coll, gy_flight_record_state how)
{
    GY_ASSERT(coll->stage == GY_COLL_ENDED);
    GY_ASSERT(how == GY_RECORD_ENDED || how == GY_RECORD_FAILED);
    end_transfers(coll);
    coll->peer = -1;
    gy_record_end(coll, how);
    if (coll->kind == GY_COLL_COLLECTIVE) {
        gy_comm_end_number(comm, coll->number);
        comm->stats.collectives++;
        comm->stats.bytes += (int64_t)gy_call_out_bytes(comm, &coll->call);
    }
    remove_flying(comm, coll);
}

/* Tests whether the call fails alone. All ranks see a difference between calls before any data
 * has moved, so a communicator that outlives mismatches goes on. */
static bool fails_alone(gy_comm *comm, gy_coll *coll, gy_status status)
{
    GY_ASSERT(coll->comm == comm);
    if (status != GY_MISMATCH || !comm->root->options.outlives_mismatch ||
        coll->stage != GY_COLL_ENTERED) {
        return false;
    }
    gy_error_take(&coll->error, status);
    coll->stage = GY_COLL_ENDED;
    gy_coll_check(coll);
    end_call(comm, coll, GY_RECORD_FAILED);
    return true;
}

/* Fails a call whose deadline has passed. No rank is named for a library's collective, which
 * does not report one. */
static gy_status fail_overdue(const gy_coll *coll)
{
    int rank = gy_comm_peer(coll->comm, coll->comm->rank);
    GY_ASSERT(coll->deadline_ns != INT64_MAX);
    GY_ASSERT(coll->peer < coll->comm->transport->size);
    return coll->peer >= 0 ? gy_fail(GY_TIMEOUT, "rank %d waits for rank %d past its deadline",
                                     rank, coll->peer)
                           : gy_fail(GY_TIMEOUT, "rank %d waits past its deadline", rank);
}

/* Whether the ranks that a call awaits are there and make the same call. */
static gy_status check_ranks(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    gy_status status = GY_OK;
    GY_ASSERT(coll->stage != GY_COLL_ENDED);
    GY_ASSERT(coll->peer < comm->transport->size);
    if (coll->peer >= 0 && coll->stage != GY_COLL_STARTED) {
        status = gy_transport_check(comm->transport, coll->peer);
    }
    if (status >= 0 && gy_message_is_any(coll)) {
        status = gy_message_check_senders(coll);
    }
    if (status >= 0 && coll->stage == GY_COLL_ENTERED && comm->shared != NULL) {
        status = gy_coll_slot_compare_later(coll);
    }
    return status;
}

/* Returns false when something failed. */
static bool check_flying(gy_comm *comm, int64_t now)
{
    for (gy_coll *coll = comm->flying; coll != NULL; coll = coll->next) {
        GY_ASSERT(coll->comm == comm && coll->stage != GY_COLL_ENDED);
        gy_status status = check_ranks(coll);
        if (status < 0 && status != GY_MISMATCH) {
            /* What a rank sent before it left may have come since the call last looked, also
             * to a transport that reads only when it is asked to. */
            bool has_moved = false;
            (void)gy_transport_progress(comm->transport);
            if (!gy_coll_progress(coll, &has_moved)) {
                return false;
            }
            if (has_moved) {
                return true; /* the next round checks the other calls */
            }
            status = check_ranks(coll);
        }
        if (status >= 0 && coll->deadline_ns <= now) {
            status = fail_overdue(coll);
            status = gy_record_blame(coll, status);
            status = gy_transport_blame(comm->transport, status);
        }
        if (status < 0 && fails_alone(comm, coll, status)) {
            return true; /* the next round checks the other calls */
        }
        if (status < 0) {
            fail_step(comm, coll, status);
            return false;
        }
    }
    return true;
}

/* Checks, every CHECK_EVERY_NS, whether all peers live and whether a deadline has passed. */
static void check_now_and_then(gy_comm *root)
{
    GY_ASSERT(root->root == root && root->in_flight >= 0);
    if (root->in_flight == 0 || ++root->idle_rounds % CHECK_EVERY_ROUNDS != 0) {
        return;
    }
    int64_t now = gy_now_ns(root->transport->env);
    if (now < root->check_ns) {
        return;
    }
    root->check_ns = now + CHECK_EVERY_NS;
    for (gy_comm *each = root; each != NULL; each = each->next) {
        if (!check_flying(each, now)) {
            return;
        }
    }
    gy_status status = gy_transport_check(root->transport, -1);
    if (status < 0) {
        gy_comm_fail(root, status);
    }
}

bool gy_coll_progress(gy_coll *coll, bool *has_moved)
{
    gy_comm *comm = coll->comm;
    GY_ASSERT(coll->stage > GY_COLL_RESERVED && coll->stage != GY_COLL_ENDED);
    GY_ASSERT(!comm->root->is_failed);
    gy_status status = step(coll, has_moved);
    if (status < 0 && fails_alone(comm, coll, status)) {
        *has_moved = true;
        return true;
    }
    if (status < 0) {
        fail_step(comm, coll, status);
        return false;
    }
    gy_coll_check(coll);
    if (coll->stage == GY_COLL_ENDED) {
        end_call(comm, coll, GY_RECORD_ENDED);
        *has_moved = true;
    } else {
        gy_record_waits(coll);
    }
    return true;
}

/* Returns false when something failed. A stage may await a hundred messages, and this runs
 * between any two tasks: those that have not moved are passed over. */
static bool progress_one(gy_comm *comm, bool *has_moved)
{
    gy_coll *next = NULL;
    for (gy_coll *coll = comm->flying; coll != NULL; coll = next) {
        next = coll->next;
        GY_ASSERT(coll->comm == comm);
        if (!gy_message_is_idle(coll) && !gy_coll_progress(coll, has_moved)) {
            return false;
        }
    }
    return true;
}

bool gy_progress_all(gy_comm *comm)
{
    gy_comm *root = comm->root;
    GY_ASSERT(root != NULL);
    if (root->is_failed) {
        return false; /* another communicator may own the transport by now */
    }
    bool has_moved = gy_transport_progress(comm->transport) == GY_OK;
    for (gy_comm *each = root; each != NULL && !root->is_failed; each = each->next) {
        if (!progress_one(each, &has_moved)) {
            return true;
        }
    }
    if (!has_moved) {
        check_now_and_then(root);
        has_moved = root->ended_calls != NULL; /* who waits for such a call would wait on */
    }
    return has_moved;
}

static void recycle(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    GY_ASSERT(coll->stage == GY_COLL_ENDED);
    GY_ASSERT(coll->runner.plan == NULL);
    coll->next = comm->spare;
    comm->spare = coll;
}

void gy_comm_call_ends(gy_comm *comm)
{
    while (comm->root->ended_calls != NULL) {
        gy_coll *coll = comm->root->ended_calls;
        comm->root->ended_calls = coll->next_ended;
        gy_coll_end end = coll->end;
        GY_ASSERT(end != NULL && coll->stage == GY_COLL_ENDED);
        void *arg = coll->arg;
        gy_error error = {.status = coll->error.status};
        if (error.status != GY_OK) {
            error = coll->error;
        }
        recycle(coll);
        gy_mutex_unlock(&comm->root->lock);
        gy_status status = error.status != GY_OK ? gy_error_raise(&error) : GY_OK;
        GY_ASSERT(status <= GY_OK);
        end(arg, status);
        gy_mutex_lock(&comm->root->lock);
    }
}

gy_coll *gy_coll_take_unnumbered(gy_comm *comm)
{
    gy_coll *coll = comm->spare;
    if (coll != NULL) {
        GY_ASSERT(coll->stage == GY_COLL_ENDED && coll->runner.plan == NULL);
        comm->spare = coll->next;
    } else {
        coll = gy_alloc_zero("coll", 1, sizeof(*coll));
        gy_remote_address *remote =
            gy_alloc_zero("coll.remote", (size_t)comm->size, sizeof(*remote));
        if (coll == NULL || remote == NULL) {
            gy_free(coll);
            gy_free(remote);
            return NULL;
        }
        coll->remote = remote;
    }
    coll->comm = comm;
    coll->stage = GY_COLL_RESERVED;
    coll->kind = GY_COLL_COLLECTIVE;
    coll->is_agreed = false;
    coll->number = UINT64_MAX;
    coll->call.priority = 0;
    coll->error.status = GY_OK;
    coll->sent_bytes = NULL;
    coll->peer = -1;
    coll->deadline_ns = INT64_MAX;
    memset(coll->signatures, 0, sizeof(coll->signatures));
    GY_ASSERT(comm->root->in_flight >= 0);
    GY_ASSERT(coll->remote != NULL);
    comm->root->in_flight++;
    return coll;
}

gy_coll *gy_coll_take(gy_comm *comm)
{
    gy_coll *coll = gy_coll_take_unnumbered(comm);
    if (coll != NULL) {
        GY_ASSERT(comm->next_number >= comm->ended);
        coll->number = comm->next_number++;
        comm->unended++;
        gy_record_reserve(coll);
    }
    return coll;
}

void gy_coll_launch(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    gy_coll **at = &comm->flying;
    GY_ASSERT(coll->stage == GY_COLL_RESERVED);
    GY_ASSERT(coll->end != NULL);
    GY_ASSERT(coll->runner.plan == NULL);
    while (*at != NULL &&
           ((*at)->call.priority > coll->call.priority ||
            ((*at)->call.priority == coll->call.priority && (*at)->number < coll->number))) {
        at = &(*at)->next;
    }
    coll->next = *at;
    *at = coll;
    coll->stage = GY_COLL_STARTED;
    double seconds = coll->message.timeout_s;
    if (coll->kind == GY_COLL_COLLECTIVE) {
        coll->signature =
            gy_coll_signature_of(comm, &coll->call, gy_call_is_tiny(comm, &coll->call));
        seconds = coll->call.timeout_s;
        gy_record_start(coll);
    } else {
        gy_record_message(coll);
    }
    int64_t timeout = seconds > 0 ? (int64_t)(seconds * 1e9) : comm->timeout_ns;
    coll->deadline_ns = gy_now_ns(comm->transport->env) + timeout;
    if (coll->kind == GY_COLL_COLLECTIVE) {
        gy_coll_check(coll);
    }
}
