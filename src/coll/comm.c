/* Communicators: made over a transport, driven by whoever waits. */
#include "coll/coll_priv.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMM_LOCK_RANK = 20, DEFAULT_TIMEOUT_S = 60, ROUNDS_UNDER_LOCK = 64 };

static gy_status read_timeout(double wanted, int64_t *timeout_ns)
{
    const char *text = gy_setting_get("GYRE_TIMEOUT");
    double seconds = wanted > 0 ? wanted : DEFAULT_TIMEOUT_S;
    if (wanted == 0 && text != NULL) {
        char *end = NULL;
        seconds = strtod(text, &end);
        if (end == text || *end != '\0' || !(seconds > 0) || seconds > 1e9) {
            return gy_fail(GY_ARG,
                           "GYRE_TIMEOUT is \"%s\": expected seconds, above 0 and up to 1e9",
                           text);
        }
    }
    *timeout_ns = (int64_t)(seconds * 1e9);
    return GY_OK;
}

static gy_status check_algorithm(void)
{
    gy_status status = gy_choice_check_name(gy_setting_get("GYRE_COLL"));
    return status < 0 ? gy_fail_within(status, "GYRE_COLL") : GY_OK;
}

gy_status gy_comm_check_settings(void)
{
    int64_t timeout_ns = 0;
    GY_TRY(read_timeout(0, &timeout_ns));
    GY_TRY(check_algorithm());
    return gy_transport_check_environment();
}

static gy_status init_shared(gy_comm *comm)
{
    comm->shared = comm->size > 1 ? gy_transport_shared(comm->transport) : NULL;
    if (comm->shared != NULL && comm->shared->size < comm->size) {
        comm->shared = NULL; /* ranks on other hosts: messages for all */
    }
    comm->pool = gy_pool_heap();
    if (comm->shared == NULL) {
        return GY_OK;
    }
    size_t slots = GY_CHANNELS * sizeof(gy_slot);
    size_t least = slots + (size_t)GY_CHANNELS * (size_t)comm->size * 2 * GY_CACHE_LINE;
    if (comm->shared->staging_bytes < least) {
        return gy_fail(GY_ARG, "%zu bytes of staging a rank, at least %zu are needed",
                       comm->shared->staging_bytes, least);
    }
    comm->region_bytes =
        (comm->shared->staging_bytes - slots) / GY_CHANNELS / GY_CACHE_LINE * GY_CACHE_LINE;
    return gy_pool_new(gy_shared_pool(comm->shared, comm->rank), comm->shared->pool_bytes,
                       &comm->pool);
}

static gy_status init(gy_comm *comm, const gy_comm_options *options)
{
    comm->forced =
        options->algorithm != NULL ? options->algorithm : gy_setting_get("GYRE_COLL");
    GY_TRY(options->algorithm != NULL ? gy_choice_check_name(comm->forced) : check_algorithm());
    if (comm->forced != NULL) {
        comm->forced_hash = (uint32_t)gy_hash(comm->forced, strlen(comm->forced), 0) | 1;
    }
    GY_TRY(read_timeout(options->timeout_s, &comm->timeout_ns));
    comm->peer_ended =
        gy_alloc_zero("coll.comm", (size_t)comm->size, sizeof(*comm->peer_ended));
    comm->stage_slots =
        gy_alloc_zero("coll.comm", gy_algorithm_count, sizeof(*comm->stage_slots));
    if (comm->peer_ended == NULL || comm->stage_slots == NULL) {
        return GY_NOMEM;
    }
    return init_shared(comm);
}

gy_status gy_comm_new(gy_transport *transport, const gy_comm_options *options, gy_comm **comm)
{
    gy_comm *made = gy_alloc_zero("coll.comm", 1, sizeof(*made));
    if (made == NULL) {
        gy_transport_close(transport);
        return GY_NOMEM;
    }
    made->transport = transport;
    made->rank = gy_transport_rank(transport);
    made->size = gy_transport_size(transport);
    gy_mutex_init(&made->lock, COMM_LOCK_RANK);
    gy_status status =
        init(made, options != NULL ? options : &(gy_comm_options){.timeout_s = 0});
    if (status != GY_OK) {
        gy_comm_free(made);
        return status;
    }
    *comm = made;
    return GY_OK;
}

static void free_coll(gy_coll *coll)
{
    gy_free(coll->runner.scratch);
    gy_free(coll->runner.sends);
    gy_free(coll->far);
    gy_free(coll);
}

/* A program that ends early may still hold tensors: their memory goes, but giving it back must
 * not hurt. */
static void free_pool(gy_comm *comm)
{
    size_t used = gy_pool_used_bytes(comm->pool);
    if (used > 0) {
        gy_debug("%zu bytes of registered memory were not given back", used);
        return;
    }
    gy_pool_free(comm->pool);
}

void gy_comm_free(gy_comm *comm)
{
    if (comm == NULL) {
        return;
    }
    gy_mutex_lock(&comm->lock);
    if (comm->flying != NULL) {
        gy_comm_fail(
            comm, gy_fail(GY_CANCELLED, "rank %d left with collectives in flight", comm->rank));
    }
    gy_comm_tell(comm);
    gy_mutex_unlock(&comm->lock);
    while (comm->spare != NULL) {
        gy_coll *coll = comm->spare;
        comm->spare = coll->next;
        free_coll(coll);
    }
    gy_plans_free(comm);
    if (comm->pool != NULL && comm->pool != gy_pool_heap()) {
        free_pool(comm);
    }
    gy_free(comm->peer_ended);
    gy_free(comm->stage_slots);
    gy_transport_close(comm->transport);
    gy_mutex_fini(&comm->lock);
    gy_free(comm);
}

int gy_comm_rank(const gy_comm *comm)
{
    return comm->rank;
}

int gy_comm_size(const gy_comm *comm)
{
    return comm->size;
}

gy_pool *gy_comm_pool(gy_comm *comm)
{
    return comm->pool;
}

int64_t gy_comm_in_flight(gy_comm *comm)
{
    gy_mutex_lock(&comm->lock);
    int64_t count = (int64_t)(comm->next_number - comm->ended);
    for (int i = 0; i < GY_CHANNELS; i++) {
        count -= comm->is_ended[i];
    }
    gy_mutex_unlock(&comm->lock);
    return count;
}

gy_comm_stats gy_comm_statistics(gy_comm *comm)
{
    gy_mutex_lock(&comm->lock);
    gy_comm_stats stats = comm->stats;
    gy_mutex_unlock(&comm->lock);
    return stats;
}

gy_status gy_coll_reserve(gy_comm *comm, gy_coll **coll)
{
    gy_mutex_lock(&comm->lock);
    gy_coll *taken = gy_coll_take(comm);
    gy_mutex_unlock(&comm->lock);
    if (taken == NULL) {
        return GY_NOMEM;
    }
    *coll = taken;
    return GY_OK;
}

void gy_coll_start(gy_coll *coll, const gy_coll_call *call, gy_coll_end end, void *arg)
{
    gy_comm *comm = coll->comm;
    gy_mutex_lock(&comm->lock);
    coll->call = *call;
    coll->end = end;
    coll->arg = arg;
    gy_status status = gy_call_check(comm, call);
    if (comm->is_failed) {
        status = gy_error_raise(&comm->failure);
    }
    if (status < 0) {
        coll->call = (gy_coll_call){.operation = GY_OPERATION_BARRIER};
    }
    gy_coll_launch(coll);
    if (status < 0) {
        gy_comm_fail(comm, status);
    }
    (void)gy_progress_all(comm);
    gy_comm_tell(comm);
    gy_mutex_unlock(&comm->lock);
}

void gy_coll_poison(gy_coll *coll, const gy_error *cause, gy_coll_end end, void *arg)
{
    gy_comm *comm = coll->comm;
    GY_ASSERT(cause->status < 0);
    gy_mutex_lock(&comm->lock);
    coll->call = (gy_coll_call){.operation = GY_OPERATION_BARRIER};
    coll->end = end;
    coll->arg = arg;
    gy_coll_launch(coll);
    gy_comm_fail(comm, gy_error_raise(cause));
    gy_comm_tell(comm);
    gy_mutex_unlock(&comm->lock);
}

void gy_comm_refuse(gy_comm *comm, const gy_error *cause)
{
    GY_ASSERT(cause->status < 0);
    gy_mutex_lock(&comm->lock);
    gy_comm_fail(comm, gy_error_raise(cause));
    gy_comm_tell(comm);
    gy_mutex_unlock(&comm->lock);
}

gy_status gy_coll_begin(gy_comm *comm, const gy_coll_call *call, gy_coll_end end, void *arg)
{
    gy_coll *coll = NULL;
    GY_TRY(gy_call_check(comm, call));
    GY_TRY(gy_coll_reserve(comm, &coll));
    gy_coll_start(coll, call, end, arg);
    return GY_OK;
}

bool gy_comm_progress(gy_comm *comm)
{
    if (!gy_mutex_try(&comm->lock)) {
        return false;
    }
    bool has_moved = comm->flying != NULL && gy_progress_all(comm);
    gy_comm_tell(comm);
    gy_mutex_unlock(&comm->lock);
    return has_moved;
}

/* ---- Blocking ---- */

typedef struct wait_note {
    bool is_over;
    gy_error error;
} wait_note;

static void note_end(void *arg, gy_status status)
{
    wait_note *waiter = arg;
    waiter->error.status = GY_OK;
    if (status != GY_OK) {
        gy_error_take(&waiter->error, status);
    }
    waiter->is_over = true;
}

/* Nothing else is in flight: slot out, slots in, done; no list, no callback. */
static gy_status run_tiny(gy_comm *comm, const gy_coll_call *call) GY_REQUIRES(comm->lock)
{
    gy_coll coll;
    coll.comm = comm;
    coll.call = *call;
    coll.number = comm->next_number++;
    coll.card = gy_call_card(comm, call);
    coll.checked = 0;
    coll.peer = -1;
    coll.stage = GY_COLL_ENTERED;
    gy_wait wait = gy_wait_start(comm->transport, -1, "its call", GY_NEVER);
    bool has_entered = false;
    gy_status status = GY_AGAIN;
    for (;;) {
        if (!has_entered && gy_channel_is_free(comm, coll.number, &coll.peer)) {
            gy_slot_enter(&coll, true);
            has_entered = true;
        }
        status = GY_AGAIN;
        if (has_entered) {
            status = comm->transport->is_oversubscribed ? gy_slot_compare(&coll)
                                                        : gy_slot_compare_spinning(&coll);
        }
        if (status != GY_AGAIN) {
            break;
        }
        wait.peer = coll.peer;
        if (wait.start_ns != 0 && wait.deadline.at_ns == INT64_MAX) {
            wait.deadline.at_ns = wait.start_ns + comm->timeout_ns;
        }
        status = gy_wait_round(&wait);
        if (status < 0) {
            break;
        }
    }
    if (status == GY_OK) {
        gy_slot_finish(&coll);
        gy_comm_end_number(comm, coll.number);
        comm->stats.collectives++;
        comm->stats.bytes += (int64_t)gy_call_out_bytes(comm, call);
        return GY_OK;
    }
    char text[128];
    if (status != GY_MISMATCH) {
        (void)gy_fail_within(status, "collective %llu, %s", (unsigned long long)coll.number,
                             gy_card_text(&coll.card, text));
    }
    gy_comm_fail(comm, status);
    return status;
}

/* Drive all until `waiter` is over; the lock is let go now and then, so that others can start.
 */
static void drive(gy_comm *comm, gy_coll *coll, wait_note *waiter) GY_REQUIRES(comm->lock)
{
    char what[160], text[128];
    snprintf(what, sizeof(what), "collective %llu, %s", (unsigned long long)coll->number,
             gy_card_text(&coll->card, text));
    gy_wait wait = gy_wait_start(comm->transport, -1, what, (gy_deadline){coll->deadline_ns});
    for (int round = 1; !waiter->is_over; round++) {
        if (gy_progress_all(comm)) {
            gy_comm_tell(comm);
            /* What moves is not waited for: the next wait starts over. */
            wait.start_ns = wait.check_ns = 0;
            wait.round = 0;
            wait.is_napping = false;
            continue;
        }
        wait.peer = coll->stage == GY_COLL_STARTED ? -1 : coll->peer;
        gy_status status = gy_wait_round(&wait);
        if (status < 0) {
            gy_comm_fail(comm, status);
            gy_comm_tell(comm);
        }
        if (round % ROUNDS_UNDER_LOCK == 0) {
            gy_mutex_unlock(&comm->lock);
            gy_mutex_lock(&comm->lock);
        }
    }
}

static gy_status run_locked(gy_comm *comm, const gy_coll_call *call) GY_REQUIRES(comm->lock)
{
    if (comm->is_failed) {
        return gy_error_raise(&comm->failure);
    }
    if (comm->next_number == comm->ended && call->timeout_s == 0 &&
        gy_call_is_tiny(comm, call)) {
        return run_tiny(comm, call);
    }
    gy_coll *coll = gy_coll_take(comm);
    if (coll == NULL) {
        return GY_NOMEM;
    }
    wait_note waiter = {.is_over = false};
    coll->call = *call;
    coll->end = note_end;
    coll->arg = &waiter;
    gy_coll_launch(coll);
    int64_t start_ns = gy_now_ns(comm->transport->env);
    drive(comm, coll, &waiter);
    comm->stats.wait_ns += gy_now_ns(comm->transport->env) - start_ns;
    return waiter.error.status != GY_OK ? gy_error_raise(&waiter.error) : GY_OK;
}

gy_status gy_coll_run(gy_comm *comm, const gy_coll_call *call)
{
    GY_TRY(gy_call_check(comm, call));
    if (comm->size == 1) {
        gy_call_alone(call);
        return GY_OK;
    }
    gy_mutex_lock(&comm->lock);
    gy_status status = run_locked(comm, call);
    gy_mutex_unlock(&comm->lock);
    return status;
}
