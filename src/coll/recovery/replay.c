/*
 * Collectives that a restarted rank repeats from cached results. The ranks number them since
 * the last checkpoint and retain each result on replicas + 1 ranks. After a recovery all ranks
 * exchange their positions (version, number). A rank that retains a result sends it to the
 * ranks that are behind, one number at a time, until all ranks are at the same call, which then
 * runs.
 *
 * @source rabit: Chen et al. 2015, "RABIT: A Reliable Allreduce and Broadcast Interface"
 */
#include "coll/recovery/replay_priv.h"

#include <string.h>

static const size_t limit_default = (size_t)256 << 20;
enum { REPLICAS_DEFAULT = 2 };

gy_status gy_recoverable_new(gy_comm *comm, const gy_recoverable_options *options,
                             gy_recoverable **made_to)
{
    GY_ASSERT(made_to != NULL);
    gy_recoverable_options known;
    GY_TRY(gy_options_take(gy_recoverable_options, &known, options));
    options = &known;
    GY_COMM_EXPECT(comm);
    if (comm->root != comm) {
        return gy_fail(GY_ARG, "recovery: a group, expected a communicator of all ranks, which "
                               "gy_comm_recover can make anew");
    }
    int wanted = options->replicas > 0 ? options->replicas : REPLICAS_DEFAULT;
    gy_recoverable *made = gy_alloc_zero("coll.replay", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->comm = comm;
    made->replicas = GY_MIN(wanted, gy_comm_size(comm) - 1);
    GY_ASSERT(made->replicas >= 0);
    made->limit_bytes = options->limit_bytes > 0 ? options->limit_bytes : limit_default;
    made->is_apart = true; /* until all ranks are at the first call */
    size_t count = (size_t)made->replicas + 1;
    made->states = gy_alloc_zero("coll.replay", count, sizeof(gy_state));
    made->pending = gy_alloc_zero("coll.replay", count, sizeof(gy_state));
    if (made->states == NULL || made->pending == NULL) {
        gy_recoverable_free(made);
        return GY_NOMEM;
    }
    *made_to = made;
    return GY_OK;
}

static void drop_results(gy_recoverable *replay)
{
    GY_ASSERT(replay->kept_bytes <= replay->total_bytes);
    while (replay->results != NULL) {
        gy_result *next = replay->results->next;
        gy_free(replay->results);
        replay->results = next;
    }
    replay->total_bytes = replay->kept_bytes = 0;
}

void gy_recoverable_free(gy_recoverable *replay)
{
    if (replay == NULL) {
        return;
    }
    GY_ASSERT(replay->retired_count >= 0);
    drop_results(replay);
    gy_states_drop(replay, replay->states);
    gy_states_drop(replay, replay->pending);
    gy_free(replay->states);
    gy_free(replay->pending);
    for (int i = 0; i < replay->retired_count; i++) {
        gy_comm_free(replay->retired[i]);
    }
    gy_free(replay->retired);
    gy_free(replay);
}

gy_comm *gy_recoverable_comm(const gy_recoverable *replay)
{
    GY_ASSERT(replay != NULL);
    return replay->comm;
}

size_t gy_recoverable_bytes(const gy_recoverable *replay)
{
    GY_ASSERT(replay != NULL);
    return replay->kept_bytes;
}

/* ---- Results ---- */

static bool is_mine(const gy_recoverable *replay, int64_t number)
{
    int size = gy_comm_size(replay->comm);
    int64_t behind = (gy_comm_rank(replay->comm) - number % size + size) % size;
    GY_ASSERT(number >= 0 && size > 0);
    return behind <= replay->replicas;
}

static gy_result *find(const gy_recoverable *replay, int64_t number)
{
    gy_result *at = replay->results;
    while (at != NULL && at->number != number) {
        at = at->next;
    }
    return at;
}

/* All ranks have ended the calls below `number`, so replicas + 1 ranks are enough to retain
 * their results. */
static void thin_out(gy_recoverable *replay, int64_t number)
{
    GY_ASSERT(number <= replay->number);
    gy_result **at = &replay->results;
    while (*at != NULL) {
        gy_result *result = *at;
        if (result->number < number && !is_mine(replay, result->number)) {
            *at = result->next;
            GY_ASSERT(replay->kept_bytes >= result->size_bytes);
            replay->kept_bytes -= result->size_bytes;
            gy_free(result);
        } else {
            at = &result->next;
        }
    }
}

static void keep(gy_recoverable *replay, gy_result *result)
{
    GY_CHECK_DEEP(find(replay, replay->number) == NULL);
    result->number = replay->number++;
    result->next = replay->results;
    replay->results = result;
    replay->kept_bytes += result->size_bytes;
    replay->total_bytes += result->size_bytes;
    GY_ASSERT(replay->kept_bytes <= replay->total_bytes);
}

/* ---- Going on after a loss ---- */

bool gy_replay_is_loss(gy_status status)
{
    return status == GY_PEER || status == GY_CANCELLED;
}

gy_status gy_replay_recover(gy_recoverable *replay)
{
    gy_error cause;
    gy_comm *whole = NULL;
    gy_error_take(&cause, GY_PEER);
    size_t count = (size_t)replay->retired_count + 1;
    gy_comm **retired = gy_alloc_zero("coll.replay", count, sizeof(gy_comm *));
    if (retired == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < replay->retired_count; i++) {
        retired[i] = replay->retired[i];
    }
    gy_free(replay->retired);
    replay->retired = retired;
    gy_status status = gy_comm_recover(replay->comm, &whole);
    if (status == GY_UNSUPPORTED) {
        return gy_error_raise(&cause);
    }
    GY_TRY(status);
    GY_ASSERT(whole != NULL && whole != replay->comm);
    retired[replay->retired_count++] = replay->comm;
    replay->comm = whole;
    replay->is_apart = true;
    return GY_OK;
}

/* ---- Serving ranks that are behind ---- */

/* No rank can continue. The peers learn it even if this rank ends before they detect it, and
 * the launcher does not restart a rank that ends with this failure. */
gy_status gy_replay_lost(const gy_recoverable *replay, gy_status status)
{
    GY_ASSERT(status < 0);
    gy_error error;
    gy_error_take(&error, status);
    gy_comm_refuse(replay->comm, &error);
    (void)gy_transport_run_report_abort(&error);
    return gy_error_raise(&error);
}

static gy_status take_result(gy_recoverable *replay, int from, size_t size_bytes,
                             gy_replay_call *own)
{
    GY_ASSERT(!own->is_served);
    GY_ASSERT(gy_comm_has_rank(replay->comm, from));
    gy_result *result = gy_alloc("coll.replay", sizeof(*result) + size_bytes);
    if (result == NULL) {
        return GY_NOMEM;
    }
    gy_status status =
        gy_recv(replay->comm, &result->signature, sizeof(result->signature) + size_bytes, GY_U8,
                from, GY_REPLAY_TAG);
    if (status >= 0 && (own->kind != GY_REPLAY_CALL || size_bytes != own->size_bytes ||
                        !gy_coll_signatures_agree(&result->signature, &own->signature))) {
        char mine[128], theirs[128];
        status = gy_fail(
            GY_MISMATCH, "recovery: call %lld since checkpoint %lld was %s, this rank calls %s",
            (long long)replay->number, (long long)replay->version,
            gy_coll_signature_text(&result->signature, theirs),
            own->kind == GY_REPLAY_CALL ? gy_coll_signature_text(&own->signature, mine)
                                        : "no collective");
    }
    if (status < 0) {
        gy_free(result);
        return status;
    }
    result->size_bytes = size_bytes;
    if (size_bytes > 0 && own->out != NULL) {
        memcpy(own->out, result->data, size_bytes);
    }
    keep(replay, result);
    own->is_served = true;
    return GY_OK;
}

/* The ranks at `number` get its result from the first rank that retains it. */
static gy_status serve_result(gy_recoverable *replay, const gy_standing *standings,
                              int64_t number, gy_replay_call *own)
{
    gy_comm *comm = replay->comm;
    int size = gy_comm_size(comm), rank = gy_comm_rank(comm), from = -1;
    int64_t sizes[GY_RANKS_MAX];
    gy_result *result = find(replay, number);
    int64_t mine = result != NULL ? (int64_t)result->size_bytes : -1;
    GY_ASSERT(size <= GY_RANKS_MAX);
    GY_ASSERT(result == NULL || result->number == number);
    GY_TRY(gy_allgather(comm, &mine, sizes, 1, GY_I64));
    for (int i = size - 1; i >= 0; i--) {
        from = sizes[i] >= 0 ? i : from;
    }
    if (from < 0) {
        return gy_replay_lost(replay, gy_fail(GY_STATE,
                                              "recovery: no live rank has result %lld since "
                                              "checkpoint %lld: each result has %d copies",
                                              (long long)number, (long long)replay->version,
                                              replay->replicas + 1));
    }
    if (standings[rank].number == number) {
        return take_result(replay, from, (size_t)sizes[from], own);
    }
    for (int to = 0; rank == from && result != NULL && to < size; to++) {
        if (standings[to].number == number) {
            GY_TRY(gy_send(comm, &result->signature,
                           sizeof(result->signature) + result->size_bytes, GY_U8, to,
                           GY_REPLAY_TAG));
        }
    }
    return GY_OK;
}

static void commit(gy_recoverable *replay)
{
    gy_state *old = replay->states;
    GY_ASSERT(replay->states != replay->pending);
    replay->states = replay->pending;
    replay->pending = old;
    gy_states_drop(replay, old);
    drop_results(replay);
    replay->version++;
    replay->number = 0;
}

/* Compares the positions of all ranks, and takes one step towards a common one. */
static gy_status catch_up(gy_recoverable *replay, gy_replay_call *own)
{
    gy_comm *comm = replay->comm;
    int size = gy_comm_size(comm);
    gy_standing standings[GY_RANKS_MAX];
    gy_standing mine = {
        .kind = own->kind, .version = replay->version, .number = replay->number};
    int64_t version = 0, least = INT64_MAX;
    bool is_equal = true, is_loading = false;
    GY_ASSERT(size <= GY_RANKS_MAX);
    GY_ASSERT(!own->is_served);
    GY_TRY(gy_allgather(comm, &mine, standings, sizeof(mine) / sizeof(int64_t), GY_I64));
    for (int i = 0; i < size; i++) {
        const gy_standing *at = &standings[i];
        is_equal = is_equal && memcmp(at, &standings[0], sizeof(*at)) == 0;
        is_loading = is_loading || at->kind == GY_REPLAY_LOAD;
        version = GY_MAX(version, at->version);
    }
    if (is_equal) {
        replay->is_apart = false;
        return GY_OK;
    }
    if (own->kind == GY_REPLAY_CHECKPOINT && replay->version < version) {
        commit(replay); /* a rank that is past the checkpoint has seen all ranks in it */
        own->is_served = true;
    }
    if (is_loading) {
        return gy_states_serve(replay, standings, version, own);
    }
    for (int i = 0; i < size; i++) {
        if (standings[i].version < version) {
            return GY_OK; /* this rank has just committed */
        }
        least = GY_MIN(least, standings[i].number);
    }
    return serve_result(replay, standings, least, own);
}

gy_status gy_replay_meet(gy_recoverable *replay, gy_replay_call *own)
{
    GY_ASSERT(replay->comm != NULL && own != NULL);
    while (replay->is_apart && !own->is_served) {
        gy_status status = catch_up(replay, own);
        if (gy_replay_is_loss(status)) {
            status = gy_replay_recover(replay);
        }
        GY_TRY(status);
    }
    return GY_OK;
}

/* ---- Collectives ---- */

static gy_status check_call(const gy_recoverable *replay, const gy_coll_call *call)
{
    bool is_same_for_all = call->operation == GY_OPERATION_ALLREDUCE ||
                           call->operation == GY_OPERATION_BROADCAST ||
                           call->operation == GY_OPERATION_BARRIER ||
                           (call->operation == GY_OPERATION_ALLGATHER && !call->is_vector);
    if (!is_same_for_all) {
        return gy_fail(
            GY_UNSUPPORTED,
            "recovery: %s, expected allreduce, broadcast, allgather or barrier, whose "
            "results are the same for all",
            gy_operation_name(call->operation));
    }
    GY_TRY(gy_call_check(replay->comm, call));
    return gy_call_check_buffers(replay->comm, call);
}

/* Runs the call into the retained result, so that the input stays unchanged, also in place. */
static gy_status run_retained(gy_recoverable *replay, const gy_coll_call *call,
                              gy_result *result)
{
    gy_coll_call inner = *call;
    bool is_broadcast = call->operation == GY_OPERATION_BROADCAST;
    GY_ASSERT(result->size_bytes == 0 || call->out != NULL);
    inner.out = result->data;
    if (is_broadcast && result->size_bytes > 0) {
        memcpy(result->data, call->out, result->size_bytes);
        inner.in = result->data;
    }
    GY_TRY(gy_coll_run(replay->comm, &inner));
    if (result->size_bytes > 0) {
        memcpy(call->out, result->data, result->size_bytes);
    }
    /* Only a call that needs all ranks proves that all have ended the earlier ones. */
    bool has_met =
        call->operation == GY_OPERATION_BARRIER || (!is_broadcast && result->size_bytes > 0);
    keep(replay, result);
    if (has_met) {
        thin_out(replay, replay->number - 1);
    }
    return GY_OK;
}

gy_status gy_recoverable_run(gy_recoverable *replay, const gy_coll_call *call)
{
    GY_ASSERT(replay != NULL && call != NULL);
    GY_TRY(check_call(replay, call));
    bool is_barrier = call->operation == GY_OPERATION_BARRIER;
    gy_replay_call own = {.kind = GY_REPLAY_CALL,
                          .signature = gy_coll_signature_of(
                              replay->comm, call, gy_call_is_tiny(replay->comm, call)),
                          .out = call->out,
                          .size_bytes = is_barrier ? 0 : gy_call_out_bytes(replay->comm, call)};
    own.signature.is_registered = 0;
    if (replay->total_bytes + own.size_bytes > replay->limit_bytes) {
        return gy_fail(
            GY_LIMIT,
            "recovery: results of %zu bytes since checkpoint %lld, the limit is %zu: "
            "checkpoint more often",
            replay->total_bytes + own.size_bytes, (long long)replay->version,
            replay->limit_bytes);
    }
    for (;;) {
        GY_TRY(gy_replay_meet(replay, &own));
        if (own.is_served) {
            return GY_OK;
        }
        gy_result *result = gy_alloc("coll.replay", sizeof(*result) + own.size_bytes);
        if (result == NULL) {
            return GY_NOMEM;
        }
        result->signature = own.signature;
        result->size_bytes = own.size_bytes;
        gy_status status = run_retained(replay, call, result);
        if (status >= 0) {
            return GY_OK;
        }
        gy_free(result);
        GY_TRY(gy_replay_is_loss(status) ? gy_replay_recover(replay) : status);
    }
}

gy_status gy_recoverable_allreduce(gy_recoverable *replay, const void *in, void *out,
                                   size_t count, gy_dtype dtype, gy_reduction reduction)
{
    return gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                                      .dtype = dtype,
                                                      .reduction = reduction,
                                                      .count = count,
                                                      .in = in,
                                                      .out = out});
}

/* ---- Checkpoints and the end ---- */

gy_status gy_recoverable_checkpoint(gy_recoverable *replay, const void *state,
                                    size_t size_bytes)
{
    GY_ASSERT(replay != NULL);
    gy_replay_call own = {.kind = GY_REPLAY_CHECKPOINT};
    for (;;) {
        GY_TRY(gy_replay_meet(replay, &own));
        if (own.is_served) {
            return GY_OK;
        }
        gy_status status = gy_state_set(&replay->pending[0], state, size_bytes);
        status = status < 0 ? status : gy_states_spread(replay, replay->pending);
        status = status < 0 ? status : gy_barrier(replay->comm);
        if (status >= 0) {
            commit(replay);
            return GY_OK;
        }
        GY_TRY(gy_replay_is_loss(status) ? gy_replay_recover(replay) : status);
    }
}

gy_status gy_recoverable_load(gy_recoverable *replay, void *state, size_t size_bytes,
                              int64_t *version)
{
    GY_ASSERT(replay != NULL && version != NULL);
    gy_replay_call own = {.kind = GY_REPLAY_LOAD};
    if (replay->number > 0 || replay->version > 0) {
        return gy_fail(GY_STATE, "recovery: load comes before all other calls");
    }
    GY_TRY(gy_replay_meet(replay, &own));
    const gy_state *mine = &replay->states[0];
    if (replay->version > 0 && mine->size_bytes != size_bytes) {
        return gy_fail(GY_MISMATCH, "recovery: a state of %zu bytes, expected %zu",
                       mine->size_bytes, size_bytes);
    }
    if (replay->version > 0 && size_bytes > 0) {
        memcpy(state, mine->data, size_bytes);
    }
    *version = replay->version;
    return GY_OK;
}

gy_status gy_recoverable_finish(gy_recoverable *replay)
{
    GY_ASSERT(replay != NULL);
    gy_replay_call own = {.kind = GY_REPLAY_FINISH};
    for (;;) {
        GY_TRY(gy_replay_meet(replay, &own));
        const gy_comm_options *options = &replay->comm->options;
        gy_deadline deadline = {gy_now_ns(replay->comm->transport->env) +
                                replay->comm->timeout_ns};
        gy_status status = options->finish != NULL
                               ? options->finish(options->launcher, deadline)
                               : gy_barrier(replay->comm);
        if (status == GY_OK) {
            return GY_OK;
        }
        GY_TRY(status == GY_AGAIN || gy_replay_is_loss(status) ? gy_replay_recover(replay)
                                                               : status);
    }
}
