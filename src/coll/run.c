/*
 * The runner: carries out one rank's steps, as far as they can go now. It has no thread and
 * never waits; coll->peer says whose turn it is.
 */
#include "coll/coll_priv.h"

#include <string.h>

static size_t element_bytes(const gy_coll *coll)
{
    return coll->runner.fold.element_bytes;
}

/* Allgather's output and reduce-scatter's input are one part a rank, of call.count each. */
static bool is_by_part(const gy_coll *coll)
{
    return coll->call.operation == GY_OPERATION_ALLGATHER ||
           coll->call.operation == GY_OPERATION_REDUCE_SCATTER;
}

static size_t bytes_of(const gy_coll *coll, const gy_blocks *at)
{
    const gy_layout *layout = &coll->runner.layout;
    int64_t elements =
        gy_layout_at(layout, at->first + at->run) - gy_layout_at(layout, at->first);
    return (size_t)elements * element_bytes(coll);
}

/* Byte offset of a block in the whole vector, of which the leg is a piece (of each part). */
static int64_t offset_of(const gy_coll *coll, int block)
{
    const gy_runner *runner = &coll->runner;
    int64_t at = gy_layout_at(&runner->layout, block);
    if (is_by_part(coll)) {
        int64_t part = block / runner->layout.chunks;
        int64_t length = runner->layout.count / runner->layout.parts;
        at += part * ((int64_t)coll->call.count - length);
    }
    return (runner->first + at) * (int64_t)element_bytes(coll);
}

static uint8_t *user_block(const gy_coll *coll, const gy_blocks *at, int rank)
{
    const gy_comm *comm = coll->comm;
    bool is_in = at->buffer == GY_BUFFER_IN;
    /* Only read through where the plan says IN; the checker has proved that. */
    uint8_t *base = is_in ? (uint8_t *)(uintptr_t)coll->call.in : coll->call.out;
    if (rank != comm->rank) {
        const gy_far *far = &coll->far[rank];
        base = gy_shared_pool(comm->shared, rank) + (is_in ? far->in : far->out);
    }
    int64_t offset = offset_of(coll, at->first);
    bool is_own_part = (is_in && coll->call.operation == GY_OPERATION_ALLGATHER) ||
                       (!is_in && coll->call.operation == GY_OPERATION_REDUCE_SCATTER);
    if (is_own_part) {
        offset -= rank * (int64_t)(coll->call.count * element_bytes(coll));
    }
    return base == NULL ? NULL : base + offset;
}

static uint8_t *place_of(const gy_coll *coll, const gy_blocks *at, int rank)
{
    const gy_runner *runner = &coll->runner;
    int buffer = at->buffer;
    switch (buffer) {
    case GY_BUFFER_STAGE:
        return gy_region_of(coll->comm, rank, coll->number) +
               (size_t)at->slot * runner->stage_slot_bytes;
    case GY_BUFFER_SCRATCH:
        return runner->scratch + (size_t)at->slot * runner->scratch_slot_bytes;
    case GY_BUFFER_WIRE:
        return runner->scratch +
               (size_t)runner->plan->steps.scratch_slots * runner->scratch_slot_bytes;
    default:
        return user_block(coll, at, rank);
    }
}

/* Plans over shared memory fold all contributions on one rank: their scratch holds running
 * sums, and a sum that goes elsewhere is finished. Message plans combine elements as they are.
 */
static bool folds(const gy_runner *runner)
{
    return runner->choice.algorithm->need != GY_NEED_MESSAGES;
}

static gy_term term_of(const gy_coll *coll, const gy_blocks *at)
{
    return (gy_term){.data = place_of(coll, at, at->rank),
                     .is_sum = at->buffer == GY_BUFFER_SCRATCH};
}

static void combine_step(const gy_coll *coll, const gy_step *step, const gy_targets *targets,
                         size_t count)
{
    const gy_runner *runner = &coll->runner;
    gy_term a = term_of(coll, &step->a), b = term_of(coll, &step->b);
    if (folds(runner)) {
        gy_fold_into(targets, step->to.buffer == GY_BUFFER_SCRATCH, &runner->fold, a, b, count);
    } else {
        gy_combine_into(targets, &runner->fold, a.data, b.data, count);
    }
}

/* Copy or combine into all targets of a step. */
static void write_step(const gy_coll *coll, const gy_step *step)
{
    enum { TARGETS_AT_ONCE = 64 };
    const gy_comm *comm = coll->comm;
    const gy_runner *runner = &coll->runner;
    uint8_t *to[TARGETS_AT_ONCE];
    gy_targets targets = {.to = to,
                          .is_streamed =
                              runner->choice.is_streamed && step->to.buffer == GY_BUFFER_OUT};
    size_t bytes = bytes_of(coll, &step->to);
    int first = step->to.rank == GY_EVERY ? 0 : step->to.rank;
    int end = step->to.rank == GY_EVERY ? comm->size : first + 1;
    bool is_copy = step->kind == GY_STEP_COPY;
    const void *source = is_copy ? place_of(coll, &step->a, step->a.rank) : NULL;
    GY_ASSERT(!is_copy || !folds(runner) || step->to.buffer != GY_BUFFER_SCRATCH);
    for (int rank = first; rank < end && bytes > 0; rank += targets.count) {
        targets.count = GY_MIN(end - rank, TARGETS_AT_ONCE);
        for (int i = 0; i < targets.count; i++) {
            to[i] = place_of(coll, &step->to, rank + i);
        }
        if (source != NULL) {
            gy_copy_into(&targets, source, bytes);
            continue;
        }
        combine_step(coll, step, &targets, bytes / element_bytes(coll));
        source = to[0]; /* more targets than fit: copies of the first */
    }
}

static gy_status await_send(gy_coll *coll, uint32_t index)
{
    const gy_transfer *send = &coll->runner.sends[coll->runner.plan->send_index[index]];
    coll->peer = send->peer;
    return send->status;
}

static uint64_t message_tag(const gy_coll *coll, uint16_t chunk)
{
    return coll->number << 16 | chunk;
}

static gy_status start_send(gy_coll *coll, const gy_step *step)
{
    gy_runner *runner = &coll->runner;
    size_t bytes = bytes_of(coll, &step->a);
    const void *from = bytes > 0 ? place_of(coll, &step->a, coll->comm->rank) : NULL;
    return gy_transport_send(coll->comm->transport, step->peer, message_tag(coll, step->chunk),
                             from, bytes, &runner->sends[runner->sends_started++]);
}

/* Receive into place, or into the wire slot where the step combines. */
static gy_status receive(gy_coll *coll, const gy_step *step)
{
    gy_runner *runner = &coll->runner;
    gy_transport *transport = coll->comm->transport;
    size_t bytes = bytes_of(coll, &step->to);
    bool combines = step->kind == GY_STEP_RECV_REDUCE;
    if (!runner->is_receiving) {
        const gy_blocks wire = {.buffer = GY_BUFFER_WIRE};
        void *to =
            combines ? place_of(coll, &wire, 0) : place_of(coll, &step->to, coll->comm->rank);
        GY_TRY(gy_transport_recv(transport, step->peer, message_tag(coll, step->chunk),
                                 bytes > 0 ? to : NULL, bytes, &runner->receive));
        runner->is_receiving = true;
    }
    if (runner->receive.status == GY_AGAIN) {
        coll->peer = step->peer;
        return GY_AGAIN;
    }
    runner->is_receiving = false;
    if (runner->receive.status < 0 && runner->receive.status != GY_MISMATCH) {
        return gy_fail(runner->receive.status, "receiving from rank %d: %s", step->peer,
                       gy_status_text(runner->receive.status));
    }
    if (runner->receive.size_bytes != bytes || runner->receive.status == GY_MISMATCH) {
        return gy_fail(GY_MISMATCH, "rank %d sent %zu bytes, expected %zu", step->peer,
                       runner->receive.size_bytes, bytes);
    }
    if (combines) {
        write_step(coll, step);
    }
    return GY_OK;
}

static void post(gy_coll *coll, uint32_t mark)
{
    const gy_comm *comm = coll->comm;
    uint64_t value = coll->number << GY_MARK_BITS | (coll->runner.mark_base + mark);
    gy_shared_word *words = gy_shared_words(comm->shared, comm->rank);
    if (coll->runner.choice.is_streamed) {
        gy_stream_end();
    }
    /* release: all this rank wrote and read; with the acquire in await_post */
    atomic_store_explicit(&words[1 + coll->number % GY_CHANNELS].value, value,
                          memory_order_release);
    gy_wake_peers(comm);
}

static gy_status await_post(gy_coll *coll, int peer, uint32_t mark)
{
    gy_runner *runner = &coll->runner;
    const gy_comm *comm = coll->comm;
    uint64_t wanted = coll->number << GY_MARK_BITS | (runner->mark_base + mark);
    int first = peer == GY_EVERY ? runner->wait_rank : peer;
    int end = peer == GY_EVERY ? comm->size : peer + 1;
    for (int rank = first; rank < end; rank++) {
        const gy_shared_word *words = gy_shared_words(comm->shared, rank);
        /* acquire: with the release in post */
        if (rank != comm->rank &&
            atomic_load_explicit(&words[1 + coll->number % GY_CHANNELS].value,
                                 memory_order_acquire) < wanted) {
            coll->peer = rank;
            runner->wait_rank = rank;
            return GY_AGAIN;
        }
    }
    runner->wait_rank = 0;
    return GY_OK;
}

static gy_status do_step(gy_coll *coll, const gy_step *step)
{
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
    case GY_STEP_REDUCE:
        write_step(coll, step);
        return GY_OK;
    case GY_STEP_POST:
        post(coll, step->mark);
        return GY_OK;
    case GY_STEP_WAIT:
        return await_post(coll, step->peer, step->mark);
    case GY_STEP_COUNT:
    default:
        gy_panic("step of kind %d", (int)step->kind);
    }
}

static gy_status await_sends(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
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

static void begin_leg(gy_coll *coll, int64_t leg)
{
    gy_runner *runner = &coll->runner;
    const gy_algorithm *row = runner->choice.algorithm;
    const gy_plan_request *request = &runner->plan->request;
    int64_t element = (int64_t)element_bytes(coll), unit = gy_unit_of(element);
    int64_t first = leg * runner->choice.leg;
    int64_t length = GY_MIN(runner->choice.leg, (int64_t)coll->call.count - first);
    bool is_exact = is_by_part(coll);
    runner->leg = leg;
    runner->first = first;
    runner->layout = (gy_layout){.count = is_exact ? length * coll->comm->size : length,
                                 .parts = gy_cut_parts(row->cut, request),
                                 .chunks = gy_cut_chunks(row->cut, request),
                                 .part_unit = is_exact ? 1 : unit,
                                 .chunk_unit = unit};
    runner->next = 0;
    runner->sends_started = runner->sends_ended = 0;
    runner->has_posted_leg = false;
}

static gy_status reserve_scratch(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    const gy_steps *steps = &runner->plan->steps;
    size_t longest = (size_t)gy_layout_longest(&runner->layout);
    size_t sum = folds(runner) ? gy_fold_sum_bytes(&runner->fold) : element_bytes(coll);
    size_t slot = gy_round_up(longest * sum, GY_CACHE_LINE);
    size_t wanted = ((size_t)steps->scratch_slots + (folds(runner) ? 0 : 1)) * slot;
    runner->scratch_slot_bytes = slot;
    runner->stage_slot_bytes = gy_round_up(longest * element_bytes(coll), GY_CACHE_LINE);
    GY_ASSERT((size_t)steps->stage_slots * runner->stage_slot_bytes <=
              coll->comm->region_bytes);
    if (runner->scratch_bytes < wanted) {
        gy_free(runner->scratch);
        runner->scratch_bytes = 0;
        runner->scratch = gy_alloc("coll.scratch", wanted);
        if (runner->scratch == NULL) {
            return GY_NOMEM;
        }
        runner->scratch_bytes = wanted;
    }
    void *sends = runner->sends;
    gy_status status = gy_reserve("coll.sends", &sends, &runner->send_capacity,
                                  runner->plan->send_count + 1, sizeof(*runner->sends));
    runner->sends = sends;
    return status;
}

gy_status gy_run_start(gy_coll *coll, const gy_choice *choice)
{
    gy_runner *runner = &coll->runner;
    const gy_coll_call *call = &coll->call;
    runner->fold = gy_call_fold(coll->comm, call);
    size_t part = call->count * element_bytes(coll);
    size_t own = part * (size_t)coll->comm->rank;
    bool in_place = call->in == call->out;
    if (call->operation == GY_OPERATION_ALLGATHER) {
        in_place = call->out != NULL && call->in == (const uint8_t *)call->out + own;
    } else if (call->operation == GY_OPERATION_REDUCE_SCATTER) {
        in_place = call->in != NULL && call->out == (const uint8_t *)call->in + own;
    }
    gy_plan_request request = {.operation = call->operation,
                               .ranks = coll->comm->size,
                               .root = call->root,
                               .chunks = choice->chunks,
                               .in_place = in_place,
                               .order = gy_call_order(call)};
    runner->choice = *choice;
    runner->mark_base = 0;
    runner->wait_rank = 0;
    runner->is_receiving = false;
    GY_TRY(gy_plan_keep(coll->comm, choice->algorithm, &request, &runner->plan));
    begin_leg(coll, 0);
    return reserve_scratch(coll);
}

/* Between legs all meet once: a leg's staging is still read when the next one would write it.
 */
static gy_status next_leg(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    if (runner->choice.algorithm->need != GY_NEED_MESSAGES) {
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
        GY_ASSERT(runner->mark_base < UINT32_C(1) << (GY_MARK_BITS - 1));
    }
    begin_leg(coll, runner->leg + 1);
    return GY_OK;
}

/* An avg whose sum came by messages. */
static void finish_result(const gy_coll *coll)
{
    const gy_coll_call *call = &coll->call;
    bool has_result = call->operation != GY_OPERATION_REDUCE || coll->comm->rank == call->root;
    if (!folds(&coll->runner) && has_result && gy_call_reduces(call)) {
        gy_fold_finish(&coll->runner.fold, call->out, call->count);
    }
}

gy_status gy_run_step(gy_coll *coll, bool *has_moved)
{
    gy_runner *runner = &coll->runner;
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
        if (status == GY_OK && runner->leg + 1 < runner->choice.legs) {
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
    if (runner->plan == NULL) {
        return;
    }
    if (runner->is_receiving) {
        gy_transport_cancel(coll->comm->transport, &runner->receive);
        runner->is_receiving = false;
    }
    for (uint32_t i = runner->sends_ended; i < runner->sends_started; i++) {
        gy_transport_cancel(coll->comm->transport, &runner->sends[i]);
    }
    runner->sends_started = runner->sends_ended = 0;
    if (runner->choice.is_streamed) {
        gy_stream_end();
    }
    runner->plan->users--;
    runner->plan = NULL;
}
