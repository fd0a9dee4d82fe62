/* The runner carries out the steps of one rank as far as they can go now. It has no thread and
 * never waits; coll->peer names the rank that must act next. */
#include "coll/coll_priv.h"

#include <string.h>

static gy_status await_send(gy_coll *coll, uint32_t index)
{
    GY_ASSERT(index < coll->runner.plan->steps.count);
    GY_ASSERT(coll->runner.plan->steps.items[index].kind == GY_STEP_SEND);
    GY_ASSERT(coll->runner.plan->notes[index].sends_before < coll->runner.sends_started);
    const gy_transfer *send = &coll->runner.sends[coll->runner.plan->notes[index].sends_before];
    coll->peer = send->peer;
    return send->status;
}

static uint64_t message_tag(const gy_coll *coll, uint16_t chunk)
{
    GY_ASSERT(chunk != UINT16_MAX); /* the tag of signatures */
    return gy_tag_of(coll->comm, coll->number, chunk);
}

static void count_sent(gy_coll *coll, size_t bytes)
{
    if (coll->sent_bytes != NULL) {
        *coll->sent_bytes += bytes;
    }
}

static gy_status start_send(gy_coll *coll, const gy_step *step)
{
    gy_runner *runner = &coll->runner;
    size_t bytes = gy_run_message_bytes(coll, &step->a);
    const void *from = NULL;
    GY_ASSERT(step->kind == GY_STEP_SEND);
    GY_ASSERT(gy_comm_has_rank(coll->comm, step->peer));
    GY_ASSERT(runner->sends_started < runner->plan->send_count);
    if (bytes > 0 && gy_run_widens(runner) && !runner->plan->notes[runner->next].a_is_sum) {
        from = gy_run_widen(coll, &step->a);
    } else if (bytes > 0) {
        from = gy_run_is_dense(coll, &step->a) ? gy_run_place(coll, &step->a, coll->comm->rank)
                                               : gy_run_pack(coll, &step->a);
    }
    count_sent(coll, bytes);
    return gy_transport_send(coll->comm->transport, gy_comm_peer(coll->comm, step->peer),
                             message_tag(coll, step->chunk), from, bytes,
                             &runner->sends[runner->sends_started++]);
}

static gy_status check_received(const gy_coll *coll, int peer, size_t bytes)
{
    const gy_transfer *receive = &coll->runner.receive;
    GY_ASSERT(receive->status != GY_AGAIN);
    GY_ASSERT(!coll->runner.is_receiving);
    if (receive->status < 0 && receive->status != GY_MISMATCH) {
        return gy_fail(receive->status, "receiving from rank %d: %s", peer,
                       gy_status_text(receive->status));
    }
    if (receive->size_bytes != bytes || receive->status == GY_MISMATCH) {
        return gy_fail(GY_MISMATCH, "rank %d sent %zu bytes, rank %d expected %zu", peer,
                       receive->size_bytes, gy_comm_peer(coll->comm, coll->comm->rank), bytes);
    }
    return GY_OK;
}

/* Receives into place, or into a buffer beside it where the step combines or the place has
 * gaps. */
static gy_status receive(gy_coll *coll, const gy_step *step)
{
    GY_ASSERT(step->kind == GY_STEP_RECV || step->kind == GY_STEP_RECV_REDUCE);
    GY_ASSERT(gy_comm_has_rank(coll->comm, step->peer));
    gy_runner *runner = &coll->runner;
    if (runner->is_receiving && runner->receive.status == GY_AGAIN) {
        coll->peer = runner->receive.peer;
        return GY_AGAIN;
    }
    gy_transport *transport = coll->comm->transport;
    const gy_blocks wire = {.buffer = GY_BUFFER_WIRE};
    size_t bytes = gy_run_message_bytes(coll, &step->to);
    int peer = gy_comm_peer(coll->comm, step->peer);
    bool combines = step->kind == GY_STEP_RECV_REDUCE;
    bool is_narrowed = gy_run_widens(runner) && step->to.buffer == GY_BUFFER_OUT;
    bool is_beside = combines || is_narrowed || !gy_run_is_dense(coll, &step->to);
    if (!runner->is_receiving) {
        const gy_blocks *to = is_beside ? &wire : &step->to;
        GY_TRY(gy_transport_recv(transport, peer, message_tag(coll, step->chunk),
                                 bytes > 0 ? gy_run_place(coll, to, coll->comm->rank) : NULL,
                                 bytes, &runner->receive));
        runner->is_receiving = true;
    }
    if (runner->receive.status == GY_AGAIN) {
        coll->peer = peer;
        return GY_AGAIN;
    }
    runner->is_receiving = false;
    GY_TRY(check_received(coll, peer, bytes));
    if (combines) {
        gy_run_write(coll, step);
    } else if (is_beside) {
        gy_step unpack = {.kind = GY_STEP_COPY, .a = step->to, .to = step->to};
        unpack.a.buffer = GY_BUFFER_WIRE;
        gy_run_write(coll, &unpack);
    }
    return GY_OK;
}

/* Tests whether the compared signatures already imply the mark. A registered vector is readable
 * when its rank enters, and so is a private vector that was copied to staging before. */
static bool is_implied_by_signatures(const gy_coll *coll, uint32_t mark)
{
    const gy_runner *runner = &coll->runner;
    GY_ASSERT(mark > 0);
    return mark == 1 && (runner->choice.algorithm->need == GY_NEED_DIRECT ||
                         (runner->has_opened && runner->leg == 0 && !coll->any_registered));
}

static void post(gy_coll *coll, uint32_t mark)
{
    const gy_comm *comm = coll->comm;
    GY_ASSERT(mark > 0);
    GY_ASSERT(comm->shared != NULL);
    GY_ASSERT(coll->runner.mark_base + mark < UINT32_C(1) << GY_MARK_BITS);
    if (coll->runner.choice.algorithm->need == GY_NEED_DIRECT && mark == 1) {
        return;
    }
    uint64_t value = coll->number << GY_MARK_BITS | (coll->runner.mark_base + mark);
    if (coll->runner.choice.is_streamed) {
        gy_stream_end();
    }
    /* release: all that this rank wrote and read; with the acquire in await_post */
    atomic_store_explicit(gy_word_of(comm, comm->rank, 1 + coll->number % GY_CHANNELS), value,
                          memory_order_release);
    if (coll->stage != GY_COLL_STARTED) { /* until then peers wait for the signature */
        gy_wake_peers(comm);
    }
}

static gy_status await_post(gy_coll *coll, int peer, uint32_t mark)
{
    gy_runner *runner = &coll->runner;
    const gy_comm *comm = coll->comm;
    uint64_t wanted = coll->number << GY_MARK_BITS | (runner->mark_base + mark);
    GY_ASSERT(mark > 0);
    GY_ASSERT(peer == GY_EVERY || gy_comm_has_rank(comm, peer));
    GY_ASSERT(gy_comm_has_rank(comm, runner->wait_rank));
    if (is_implied_by_signatures(coll, mark)) {
        return GY_OK;
    }
    int first = peer == GY_EVERY ? runner->wait_rank : peer;
    int end = peer == GY_EVERY ? comm->size : peer + 1;
    for (int rank = first; rank < end; rank++) {
        /* acquire: with the release in post */
        if (rank != comm->rank &&
            atomic_load_explicit(gy_word_of(comm, rank, 1 + coll->number % GY_CHANNELS),
                                 memory_order_acquire) < wanted) {
            coll->peer = gy_comm_peer(comm, rank);
            runner->wait_rank = rank;
            return GY_AGAIN;
        }
    }
    runner->wait_rank = 0;
    return GY_OK;
}

/* In how many other ranks' memory the blocks lie. */
static size_t copies_elsewhere(const gy_comm *comm, const gy_blocks *at)
{
    const bool is_private = at->buffer == GY_BUFFER_SCRATCH || at->buffer == GY_BUFFER_WORK ||
                            at->buffer == GY_BUFFER_WIRE;
    const size_t copies = at->rank == GY_EVERY     ? (size_t)comm->size - 1
                          : at->rank != comm->rank ? 1
                                                   : 0;
    GY_ASSERT(at->rank == GY_EVERY || gy_comm_has_rank(comm, at->rank));
    return is_private ? 0 : copies;
}

/* Counts what `length` steps, of which each but the first goes on with the sum of the one
 * before, read from and write to memory of other ranks. */
static void count_copied(gy_coll *coll, const gy_step *step, uint32_t length)
{
    const gy_comm *comm = coll->comm;
    GY_ASSERT(length >= 1);
    if (coll->sent_bytes == NULL) {
        return;
    }
    size_t copies = copies_elsewhere(comm, &step->a);
    for (uint32_t i = 0; i < length; i++) {
        copies += step[i].kind == GY_STEP_REDUCE ? copies_elsewhere(comm, &step[i].b) : 0;
    }
    copies += copies_elsewhere(comm, &step[length - 1].to);
    count_sent(coll, copies * gy_run_bytes_of(coll, &step->to));
}

static gy_status do_step(gy_coll *coll, const gy_step *step)
{
    GY_ASSERT(step == &coll->runner.plan->steps.items[coll->runner.next]);
    GY_ASSERT(step->after[0] <= coll->runner.next && step->after[1] <= coll->runner.next);
    for (int i = 0; i < 2; i++) {
        if (step->after[i] != 0) {
            gy_status status = await_send(coll, step->after[i] - 1);
            if (status != GY_OK) {
                return status;
            }
        }
    }
    switch (step->kind) {
    case GY_STEP_SEND:
        return start_send(coll, step);
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        return receive(coll, step);
    case GY_STEP_COPY:
        gy_run_write(coll, step);
        count_copied(coll, step, 1);
        return GY_OK;
    case GY_STEP_REDUCE: {
        const uint32_t more = gy_run_reduce(coll, step);
        count_copied(coll, step, 1 + more);
        coll->runner.next += more;
        return GY_OK;
    }
    case GY_STEP_POST:
        post(coll, step->mark);
        return GY_OK;
    case GY_STEP_WAIT:
        return await_post(coll, step->peer, step->mark);
    case GY_STEP_CLAIM:
        gy_claim_take(coll, step);
        return GY_OK;
    case GY_STEP_CLAIMED:
        return gy_claim_await(coll, step);
    case GY_STEP_COUNT:
    default:
        gy_panic("step of kind %d", (int)step->kind);
    }
}

static gy_status await_sends(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    GY_ASSERT(runner->sends_ended <= runner->sends_started);
    GY_ASSERT(runner->sends_started <= runner->plan->send_count);
    for (; runner->sends_ended < runner->sends_started; runner->sends_ended++) {
        const gy_transfer *send = &runner->sends[runner->sends_ended];
        if (send->status != GY_OK) {
            coll->peer = send->peer;
            return send->status < 0 ? gy_fail(send->status, "sending to rank %d: %s",
                                              send->peer, gy_status_text(send->status))
                                    : GY_AGAIN;
        }
    }
    return GY_OK;
}

static gy_status begin_leg(gy_coll *coll, int64_t leg)
{
    gy_runner *runner = &coll->runner;
    const gy_coll_call *call = &coll->call;
    const gy_algorithm *row = runner->choice.algorithm;
    const gy_plan_request *request = &runner->plan->request;
    int64_t unit = gy_unit_of((int64_t)gy_run_element_bytes(coll));
    int64_t first = leg * runner->choice.pieces.leg;
    int64_t length = GY_MIN(runner->choice.pieces.leg, (int64_t)call->count - first);
    bool has_parts = gy_call_has_parts(call);
    int parts = gy_cut_parts(row->cut, request);
    GY_ASSERT(leg >= 0 && leg < runner->choice.pieces.legs);
    GY_ASSERT(parts > 0 && unit > 0);
    GY_ASSERT(call->is_vector || length >= 0);
    runner->leg = leg;
    runner->first = first;
    runner->layout = (gy_layout){.count = has_parts ? length * parts : length,
                                 .parts = parts,
                                 .chunks = gy_cut_chunks(row->cut, request),
                                 .part_unit = has_parts ? 1 : unit,
                                 .chunk_unit = unit,
                                 .stride = has_parts ? (int64_t)call->count : 0};
    runner->next = 0;
    runner->sends_started = runner->sends_ended = 0;
    runner->packed_bytes = 0;
    runner->has_posted_leg = false;
    runner->claim = 0;
    if (call->is_vector) {
        runner->first = 0;
        runner->layout.count = 0;
        runner->layout.stride = 0;
        return gy_parts_layout(coll, &runner->layout);
    }
    return GY_OK;
}

/* Returns the bytes of the input from its beginning to the end of its last part. */
static size_t input_extent(const gy_coll *coll)
{
    const gy_parts *parts = &coll->call.in_parts;
    int64_t end = 0;
    if (!coll->call.is_vector || parts->displacements == NULL) {
        return gy_call_in_bytes(coll->comm, &coll->call);
    }
    for (int rank = 0; rank < coll->comm->size; rank++) {
        end = GY_MAX(end, parts->displacements[rank] + parts->counts[rank]);
    }
    GY_ASSERT(end >= 0);
    return (size_t)end * gy_run_element_bytes(coll);
}

gy_status gy_run_reserve(gy_runner *runner, size_t size_bytes)
{
    if (runner->scratch_bytes < size_bytes) {
        gy_free(runner->scratch);
        runner->scratch_bytes = 0;
        runner->scratch = gy_alloc("coll.scratch", size_bytes);
        if (runner->scratch == NULL) {
            return GY_NOMEM;
        }
        runner->scratch_bytes = size_bytes;
    }
    GY_ASSERT(runner->scratch_bytes >= size_bytes);
    return GY_OK;
}

/* Returns the elements that fit a slot; for staging the result is the same on all ranks. */
static size_t longest_block(const gy_coll *coll)
{
    const gy_layout *own = &coll->runner.layout;
    GY_ASSERT(own->chunks > 0 && own->parts > 0);
    if (!coll->call.is_vector || coll->longest < 0) {
        return (size_t)gy_layout_longest(own);
    }
    const gy_layout staged = {.count = coll->longest,
                              .parts = 1,
                              .chunks = own->chunks,
                              .part_unit = 1,
                              .chunk_unit = own->chunk_unit};
    return (size_t)gy_layout_longest(&staged);
}

static gy_status reserve_scratch(gy_coll *coll, bool copies_input)
{
    gy_runner *runner = &coll->runner;
    const gy_cached_plan *plan = runner->plan;
    size_t longest = longest_block(coll), element = gy_run_element_bytes(coll);
    size_t sum = gy_run_folds(runner) ? gy_coll_fold_sum_bytes(&runner->fold) : element;
    size_t slot = gy_round_up(longest * sum, GY_CACHE_LINE);
    runner->scratch_slot_bytes = slot;
    runner->stage_slot_bytes = gy_round_up(longest * element, GY_CACHE_LINE);
    GY_ASSERT(!gy_run_folds(runner) ||
              (size_t)plan->steps.stage_slots * runner->stage_slot_bytes <=
                  coll->comm->region_bytes);
    runner->wire_at = (size_t)plan->steps.scratch_slots * slot;
    runner->pack_at = runner->wire_at + (size_t)plan->wire_run * slot;
    size_t packed =
        (size_t)plan->pack_run + (gy_run_widens(runner) ? (size_t)plan->widen_run : (size_t)0);
    runner->work_at = runner->pack_at + packed * slot;
    runner->work_bytes = 0;
    if (plan->steps.work_planes > 0) {
        int64_t blocks = (int64_t)runner->layout.parts * runner->layout.chunks;
        int64_t whole = gy_layout_length(&runner->layout, 0, blocks);
        runner->work_bytes = gy_round_up((size_t)whole * element, GY_CACHE_LINE);
    }
    runner->apart_at = runner->work_at + (size_t)plan->steps.work_planes * runner->work_bytes;
    GY_ASSERT(runner->wire_at <= runner->pack_at && runner->pack_at <= runner->work_at);
    GY_ASSERT(runner->work_at <= runner->apart_at);
    size_t wanted = runner->apart_at + (copies_input ? input_extent(coll) : 0);
    GY_TRY(gy_run_reserve(runner, wanted));
    return GY_GROW("coll.sends", runner->sends, runner->send_capacity, plan->send_count + 1);
}

gy_status gy_run_start(gy_coll *coll, const gy_coll_method *choice)
{
    gy_runner *runner = &coll->runner;
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(choice->algorithm != NULL && choice->algorithm->operation == call->operation);
    GY_ASSERT(choice->pieces.legs >= 1 && choice->pieces.chunks >= 1);
    GY_ASSERT(runner->plan == NULL); /* the previous call on this runner has ended */
    if (gy_row_is_library(choice->algorithm)) {
        return gy_library_start(coll, choice);
    }
    runner->fold = gy_call_fold(coll->comm, call);
    bool in_place = gy_call_is_in_place(coll->comm, call);
    /* An all-to-all in place may put a part over a shorter one, so it works on a copy of the
     * input. */
    bool is_uneven = call->is_vector && call->operation == GY_OPERATION_ALLTOALL;
    bool copies_input =
        in_place && (is_uneven || (choice->algorithm->limits & GY_LIMIT_APART) != 0);
    bool has_claims =
        (choice->algorithm->limits & GY_HAS_CLAIMS) != 0 && gy_comm_is_crowded(coll->comm);
    gy_plan_request request = {.operation = call->operation,
                               .ranks = coll->comm->size,
                               .root = call->root,
                               .chunks = choice->pieces.chunks,
                               .in_place = in_place && !copies_input,
                               .order = gy_call_order(call),
                               .claims = has_claims ? GY_CLAIMS_FREE : GY_CLAIMS_USUAL,
                               .topology = gy_site_topology(&coll->comm->site)};
    memcpy(request.parameter, choice->parameter, sizeof(request.parameter));
    runner->choice = *choice;
    runner->mark_base = 0;
    runner->wait_rank = 0;
    runner->is_receiving = runner->is_claiming = runner->has_opened = false;
    runner->claim_base = 0;
    runner->in = call->in;
    GY_TRY(gy_cached_plan_take(coll->comm, choice->algorithm, &request, &runner->plan));
    GY_TRY(begin_leg(coll, 0));
    GY_TRY(reserve_scratch(coll, copies_input));
    if (copies_input && input_extent(coll) > 0) {
        uint8_t *copy = runner->scratch + runner->apart_at;
        memcpy(copy, call->in, input_extent(coll));
        runner->in = copy;
    }
    return GY_OK;
}

/* Tests whether all ranks begin with the same step, so that the signature of any rank implies
 * its first mark. */
static bool begins_alike(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE_SCATTER ||
           operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_ALLTOALL;
}

gy_status gy_run_open(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    const gy_steps *steps = &runner->plan->steps;
    size_t opening = gy_steps_opening(steps, coll->comm->rank);
    GY_ASSERT(opening <= steps->count);
    GY_ASSERT(coll->stage == GY_COLL_STARTED && runner->next == 0);
    if (runner->choice.algorithm->need != GY_NEED_STAGE ||
        !begins_alike(coll->call.operation)) {
        return GY_OK;
    }
    for (; runner->next < opening; runner->next++) {
        GY_TRY(do_step(coll, &steps->items[runner->next]));
    }
    runner->has_opened = opening > 0;
    return GY_OK;
}

/* Goes on to the next leg. All ranks meet between legs where peers may still read the staging
 * of a leg that the next one overwrites. The legs of registered vectors touch different
 * elements. */
static gy_status next_leg(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    GY_ASSERT(runner->leg + 1 < runner->choice.pieces.legs);
    GY_ASSERT(runner->next == runner->plan->steps.count);
    GY_ASSERT(runner->sends_ended == runner->sends_started);
    if (runner->choice.algorithm->need == GY_NEED_DIRECT) {
        runner->mark_base += runner->plan->steps.last_mark;
    } else if (runner->choice.algorithm->need == GY_NEED_STAGE) {
        uint32_t mark = runner->plan->steps.last_mark + 1;
        if (!runner->has_posted_leg) {
            post(coll, mark);
            runner->has_posted_leg = true;
        }
        gy_status status = await_post(coll, GY_EVERY, mark);
        if (status != GY_OK) {
            return status;
        }
        runner->mark_base += mark;
    }
    runner->claim_base += runner->plan->claims;
    GY_ASSERT(runner->mark_base < UINT32_C(1) << (GY_MARK_BITS - 1));
    return begin_leg(coll, runner->leg + 1);
}

/* Divides the sum of an avg where no fold has done so. */
static void finish_result(const gy_coll *coll)
{
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(coll->runner.next == coll->runner.plan->steps.count);
    if (!gy_run_folds(&coll->runner) && gy_call_gets(coll->comm, call) &&
        gy_call_reduces(call)) {
        gy_coll_fold_finish(&coll->runner.fold, call->out,
                            gy_call_out_bytes(coll->comm, call) / gy_run_element_bytes(coll));
    }
}

gy_status gy_run_step(gy_coll *coll, bool *has_moved)
{
    gy_runner *runner = &coll->runner;
    GY_ASSERT(coll->stage == GY_COLL_RUNS);
    if (gy_row_is_library(runner->choice.algorithm)) {
        return gy_library_step(coll, has_moved);
    }
    GY_ASSERT(runner->plan != NULL);
    const gy_steps *steps = &runner->plan->steps;
    for (;;) {
        while (runner->next < steps->count) {
            gy_status status = do_step(coll, &steps->items[runner->next]);
            if (status != GY_OK) {
                return status;
            }
            runner->next++;
            *has_moved = true;
        }
        gy_status status = await_sends(coll);
        if (status == GY_OK && runner->leg + 1 < runner->choice.pieces.legs) {
            status = next_leg(coll);
            *has_moved = *has_moved || status == GY_OK;
            if (status == GY_OK) {
                continue;
            }
        }
        if (status == GY_OK) {
            finish_result(coll);
        }
        return status;
    }
}

void gy_run_end(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    gy_library_end(coll);
    if (runner->plan == NULL) {
        return;
    }
    if (runner->is_receiving) {
        gy_transport_cancel(coll->comm->transport, &runner->receive);
        runner->is_receiving = false;
    }
    GY_ASSERT(runner->sends_ended <= runner->sends_started);
    for (uint32_t i = runner->sends_ended; i < runner->sends_started; i++) {
        gy_transport_cancel(coll->comm->transport, &runner->sends[i]);
    }
    runner->sends_started = runner->sends_ended = 0;
    if (runner->choice.is_streamed) {
        gy_stream_end();
    }
    GY_ASSERT(runner->plan->users > 0);
    runner->plan->users--;
    runner->plan = NULL;
}
