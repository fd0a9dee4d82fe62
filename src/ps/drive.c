/*
 * Who drives a client's node. A caller that waits takes turns, looks again for some
 * microseconds where that pays (spin.c), then sleeps without the lock; others that wait
 * meanwhile sleep until its turns have moved something. While no caller waits, the thread goes
 * on: at once with what is urgent, else now and then, since waking it beside each small push
 * would cost as much as the push.
 */
#include "ps/client_priv.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static const int64_t slice_ns = 100000000; /* a sleep ends at least, for what has no event */

/* functions of ended requests that are being called on this thread */
static _Thread_local int calling;

/* ---- Ends of requests ---- */

void gy_ps_request_begin(gy_ps_request *request, bool is_urgent)
{
    if (is_urgent && !request->is_urgent && request->pending > 0) {
        request->is_urgent = true;
        request->table->ps->urgent++;
    }
}

static void list_out(gy_ps *ps, const gy_ps_request *request)
{
    for (gy_ps_request **at = &ps->then_first; *at != NULL; at = &(*at)->next) {
        if (*at == request) {
            *at = request->next;
            return;
        }
    }
}

static void list_ended(gy_ps *ps, gy_ps_request *request)
{
    request->next = NULL;
    if (ps->ended_last != NULL) {
        ps->ended_last->next = request;
    } else {
        ps->ended_first = request;
    }
    ps->ended_last = request;
}

void gy_ps_request_ended(gy_ps_request *request)
{
    gy_ps *ps = request->table->ps;
    GY_ASSERT(request->pending == 0);
    if (request->is_urgent) {
        GY_ASSERT(ps->urgent > 0);
        request->is_urgent = false;
        ps->urgent--;
    }
    if (gy_ps_kind_pulls(request->kind) && request->error.status == GY_OK &&
        request->clock_min != UINT64_MAX) {
        ps->stats.staleness[gy_ps_staleness_bin(request->clock, request->clock_min)]++;
    }
    if (request->is_taken && request->error.status == GY_OK) {
        gy_ps_prefetch_take(request, request->taker);
    }
    if (request->done != NULL) {
        list_out(ps, request);
        list_ended(ps, request);
    }
}

/* Deadlines of requests that nobody waits for. */
static void end_late(gy_ps *ps)
{
    int64_t now_ns = ps->then_first != NULL ? gy_now_ns(gy_env_real()) : 0;
    for (gy_ps_request *at = ps->then_first, *next = NULL; at != NULL; at = next) {
        next = at->next;
        if (at->deadline.at_ns <= now_ns) {
            gy_error_take(&at->error, gy_ps_request_blame(at));
            gy_ps_request_cancel(at); /* which lists it as ended */
            next = ps->then_first;
        }
    }
}

/* Call the functions of requests that have ended, without the lock. */
void gy_ps_call_ended(gy_ps *ps)
{
    while (ps->ended_first != NULL) {
        gy_ps_request *request = ps->ended_first;
        ps->ended_first = request->next;
        ps->ended_last = request->next == NULL ? NULL : ps->ended_last;
        gy_mutex_unlock(&ps->lock);
        gy_status status = request->error.status < 0 ? gy_error_raise(&request->error) : GY_OK;
        calling++;
        request->done(request->arg, status);
        calling--;
        gy_ps_request_free(request);
        gy_mutex_lock(&ps->lock);
    }
}

void gy_ps_then(gy_ps_request *request, gy_deadline deadline,
                void (*done)(void *arg, gy_status status), void *arg)
{
    gy_ps *ps = request->table->ps;
    GY_ASSERT(done != NULL && request->done == NULL);
    gy_ps_enter(ps);
    request->done = done;
    request->arg = arg;
    request->deadline = deadline;
    if (request->pending == 0) {
        list_ended(ps, request);
    } else {
        request->next = ps->then_first;
        ps->then_first = request;
        gy_ps_request_begin(request, true);
    }
    gy_ps_leave(ps);
}

/* ---- Turns ---- */

static int64_t next_ns(const gy_ps *ps)
{
    int64_t route_ns = ps->route != NULL ? gy_ps_route_next(ps->route) : INT64_MAX;
    return GY_MIN(gy_rpc_next(ps->rpc).at_ns, route_ns);
}

gy_status gy_ps_turn(gy_ps *ps, gy_deadline deadline)
{
    if (ps->route == NULL) {
        return gy_rpc_turn(ps->rpc, deadline);
    }
    int64_t until_ns = GY_MIN(deadline.at_ns, gy_ps_route_next(ps->route));
    gy_status status = gy_rpc_turn(ps->rpc, (gy_deadline){until_ns});
    gy_ps_route_tick(ps->route);
    return status;
}

gy_status gy_ps_call_now(gy_ps *ps, uint32_t part, const gy_rpc_request *request,
                         uint64_t *number)
{
    return ps->route != NULL ? gy_ps_route_call(ps->route, part, false, request, number)
                             : gy_rpc_call(ps->rpc, ps->targets[part].peer, request, number);
}

void gy_ps_cancel(const gy_ps *ps, uint32_t part, uint64_t number)
{
    if (ps->route != NULL) {
        gy_ps_route_cancel(ps->route, number);
    } else {
        gy_rpc_cancel(ps->rpc, ps->targets[part].peer, number);
    }
}

/* One turn, without a wait. What it moves may be what others wait for. */
static gy_status turn(gy_ps *ps)
{
    gy_status status = gy_ps_turn(ps, (gy_deadline){0});
    end_late(ps);
    if (status == GY_OK && ps->followers > 0) {
        gy_cond_broadcast(&ps->moved);
    }
    if (status == GY_OK && ps->is_polled && !ps->is_woken) {
        const uint64_t one = 1;
        ps->is_woken = true;
        (void)!write(ps->wake_file, &one, sizeof(one)); /* a full counter wakes as well */
    }
    return status;
}

/* Sleep without the lock. A failure is a turn early. */
static void sleep_at_node(gy_ps *ps, int64_t left_ns)
{
    struct pollfd files[2] = {{.fd = gy_rpc_fd(ps->rpc), .events = POLLIN},
                              {.fd = ps->wake_file, .events = POLLIN}};
    left_ns = GY_MAX(left_ns, (int64_t)0);
    gy_mutex_unlock(&ps->lock);
    (void)poll(files, 2, (int)((left_ns + 999999) / 1000000));
    gy_mutex_lock(&ps->lock);
}

/* Nothing is to be done: sleep until there is, or the deadline. */
static void rest(gy_ps *ps, int64_t now_ns, gy_deadline deadline)
{
    int64_t until_ns = GY_MIN(GY_MIN(deadline.at_ns, now_ns + slice_ns), next_ns(ps));
    if (ps->is_polled) {
        ps->followers++;
        (void)gy_cond_wait(&ps->moved, &ps->lock,
                           (gy_deadline){GY_MIN(deadline.at_ns, now_ns + slice_ns)});
        ps->followers--;
        return;
    }
    uint64_t count = 0;
    ps->is_polled = true;
    sleep_at_node(ps, until_ns - now_ns);
    ps->is_polled = false;
    if (ps->is_woken) {
        ps->is_woken = false;
        (void)!read(ps->wake_file, &count, sizeof(count)); /* it was written */
    }
    if (ps->followers > 0) {
        gy_cond_broadcast(&ps->moved); /* one of them may have to sleep there */
    }
}

void gy_ps_enter(gy_ps *ps)
{
    gy_mutex_lock(&ps->lock);
    ps->drivers++;
}

/* Does something wait that a later call of the user does not drive soon enough? */
static bool is_thread_wanted(const gy_ps *ps)
{
    if (ps->urgent > 0 || ps->ended_first != NULL || ps->route != NULL) {
        return true;
    }
    for (uint32_t i = 0; i < ps->part_count; i++) {
        gy_rpc_facts facts;
        if (gy_rpc_look(ps->rpc, ps->targets[i].peer, &facts) &&
            (!facts.is_up || facts.waiting_bytes > 0)) {
            return true;
        }
    }
    return false;
}

static bool has_output(const gy_ps *ps)
{
    if (ps->route != NULL) { /* whose heads change: a turn costs less than to ask them all */
        return true;
    }
    for (uint32_t i = 0; i < ps->part_count; i++) {
        gy_rpc_facts facts;
        if (gy_rpc_look(ps->rpc, ps->targets[i].peer, &facts) && facts.waiting_bytes > 0) {
            return true;
        }
    }
    return false;
}

void gy_ps_leave(gy_ps *ps)
{
    if (has_output(ps)) {
        (void)turn(ps); /* send what was put */
    }
    if (calling == 0) {
        gy_ps_call_ended(ps); /* else it is called behind the function that is being called */
    }
    if (--ps->drivers == 0 && is_thread_wanted(ps)) {
        gy_cond_signal(&ps->idle);
    }
    gy_mutex_unlock(&ps->lock);
}

gy_status gy_ps_drive(gy_ps *ps, const int *pending, gy_deadline deadline)
{
    gy_env *env = gy_env_real();
    GY_ASSERT(calling == 0); /* a function at a request's end must not wait */
    for (;;) {
        gy_status moved = turn(ps);
        gy_ps_call_ended(ps);
        if (*pending == 0) {
            gy_ps_spin_end(&ps->spin, false);
            return GY_OK;
        }
        int64_t now_ns = gy_now_ns(env);
        if (now_ns >= deadline.at_ns) {
            return GY_TIMEOUT;
        }
        if (moved == GY_OK) {
            gy_ps_spin_end(&ps->spin, false);
        } else if (ps->is_polled || !gy_ps_spin_more(&ps->spin, now_ns)) {
            rest(ps, now_ns, deadline);
            gy_ps_spin_end(&ps->spin, true);
        } else {
            gy_spin();
        }
    }
}

gy_status gy_ps_call(gy_ps *ps, uint32_t part, const gy_rpc_request *request, uint64_t *number,
                     gy_deadline deadline)
{
    for (;;) {
        gy_status status = gy_ps_call_now(ps, part, request, number);
        if (status != GY_AGAIN) {
            return status;
        }
        gy_env *env = gy_env_real();
        int64_t now_ns = gy_now_ns(env);
        if (now_ns >= deadline.at_ns) {
            return gy_ps_blame(ps, part, "a call that finds no room in the queue");
        }
        (void)gy_ps_turn(ps, (gy_deadline){GY_MIN(deadline.at_ns, now_ns + slice_ns)});
        ps->stats.queue_wait_s += (double)(gy_now_ns(env) - now_ns) / 1e9;
    }
}

/* ---- The thread ---- */

static void sleep_until(gy_ps *ps, int64_t now_ns)
{
    int64_t until_ns = GY_MIN(next_ns(ps), now_ns + slice_ns);
    if (!is_thread_wanted(ps)) {
        (void)gy_cond_wait(&ps->idle, &ps->lock, (gy_deadline){until_ns});
        return;
    }
    sleep_at_node(ps, until_ns - now_ns);
}

void *gy_ps_keep_alive(void *arg)
{
    gy_ps *ps = arg;
    gy_env *env = gy_env_real();
    gy_mutex_lock(&ps->lock);
    while (!ps->is_ending) {
        if (ps->drivers > 0) {
            (void)gy_cond_wait(&ps->idle, &ps->lock, gy_env_deadline(env, 0.1));
            continue;
        }
        gy_status moved = turn(ps);
        gy_ps_call_ended(ps);
        if (moved != GY_OK && ps->drivers == 0 && !ps->is_ending) {
            sleep_until(ps, gy_now_ns(env));
        }
    }
    gy_mutex_unlock(&ps->lock);
    return NULL;
}

gy_status gy_ps_blame(const gy_ps *ps, uint32_t part, const char *what)
{
    gy_rpc_facts facts;
    if (ps->route != NULL) {
        return gy_ps_route_blame(ps->route, part, what);
    }
    const ps_target *target = &ps->targets[part];
    if (gy_rpc_look(ps->rpc, target->peer, &facts) && !facts.is_up) {
        return gy_fail(GY_PEER, "%s: server %s is not reached: %s", what, target->address,
                       facts.why);
    }
    return gy_fail(GY_TIMEOUT, "%s: no answer of server %s by the deadline", what,
                   target->address);
}
