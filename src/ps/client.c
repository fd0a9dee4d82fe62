/* Connections of a worker to its servers. */
#include "ps/client_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* above all that rpc may take within */
enum { LOCK_RANK = 60, POOL_RANK = 59 };

static const int64_t slice_ns = 100000000; /* a turn while servers are being reached */

/* ---- Open and close ---- */

static gy_status read_servers(gy_ps *ps, const char *servers)
{
    const char *at = servers != NULL ? servers : "";
    while (*at != '\0') {
        size_t size = strcspn(at, ",");
        size_t capacity = ps->part_count;
        if (size == 0 || size >= GY_RPC_ADDRESS_BYTES || ps->part_count == GY_PS_PARTS_MAX) {
            break;
        }
        GY_TRY(GY_GROW("ps.targets", ps->targets, capacity, (size_t)ps->part_count + 1));
        ps_target *target = &ps->targets[ps->part_count++];
        *target = (ps_target){.peer = 0};
        memcpy(target->address, at, size);
        GY_TRY(gy_rpc_check_address(target->address, 1));
        at += size + (at[size] == ',' && at[size + 1] != '\0');
    }
    if (ps->part_count == 0 || *at != '\0') {
        return gy_fail(GY_ARG, "servers are '%s': expected HOST:PORT,... of 1 to %d servers",
                       servers != NULL ? servers : "", GY_PS_PARTS_MAX);
    }
    return GY_OK;
}

static gy_status dial_all(gy_ps *ps)
{
    for (uint32_t i = 0; i < ps->part_count; i++) {
        GY_TRY(gy_rpc_dial(ps->rpc, ps->targets[i].address, &ps->targets[i].peer));
    }
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    for (uint32_t i = 0; i < ps->part_count;) {
        gy_rpc_facts facts;
        if (gy_rpc_look(ps->rpc, ps->targets[i].peer, &facts) && facts.is_up) {
            i++;
            continue;
        }
        int64_t now_ns = gy_now_ns(gy_env_real());
        if (now_ns >= deadline.at_ns) {
            return gy_ps_blame(ps, i, "parameter servers");
        }
        (void)gy_rpc_turn(ps->rpc, (gy_deadline){GY_MIN(deadline.at_ns, now_ns + slice_ns)});
    }
    return GY_OK;
}

/* Wait for a map with parts; their heads are reached when they are called. */
static gy_status find_parts(gy_ps *ps, const char *leads, uint32_t replicas)
{
    GY_TRY(gy_ps_route_new(
        &(gy_ps_route_options){
            .env = gy_env_real(), .rpc = ps->rpc, .arg = ps, .found = gy_ps_reopen},
        leads, &ps->route));
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    while (gy_ps_route_map(ps->route)->chain_count == 0) {
        int64_t now_ns = gy_now_ns(gy_env_real());
        if (now_ns >= deadline.at_ns) {
            const gy_ps_map *map = gy_ps_route_map(ps->route);
            return map->epoch == 0
                       ? gy_fail(GY_PEER, "parameter servers: no lead of %s answers", leads)
                       : gy_fail(GY_TIMEOUT,
                                 "parameter servers: %u have come to the lead %s, and each "
                                 "part is to have %u replicas",
                                 map->server_count, leads, map->replicas);
        }
        (void)gy_ps_turn(ps, (gy_deadline){GY_MIN(deadline.at_ns, now_ns + slice_ns)});
    }
    ps->part_count = gy_ps_route_map(ps->route)->chain_count;
    const uint32_t has = gy_ps_route_map(ps->route)->replicas;
    return replicas == 0 || replicas == has
               ? GY_OK
               : gy_fail(GY_MISMATCH,
                         "parameter servers: each part has %u replicas at the lead %s, "
                         "expected %u",
                         has, leads, replicas);
}

static gy_status judge(const gy_ps_options *options, gy_ps_options *o)
{
    GY_TRY(gy_options_take(gy_ps_options, o, options));
    o->workers = o->workers == 0 ? 1 : o->workers;
    o->timeout_s = o->timeout_s == 0 ? 60 : o->timeout_s;
    if (o->lead != NULL && o->servers != NULL) {
        return gy_fail(GY_ARG, "expected either a list of servers or one of leads");
    }
    if (o->lead == NULL && o->replicas > 0) {
        return gy_fail(GY_ARG, "%u replicas of each part: expected a lead", o->replicas);
    }
    if (o->workers > GY_PS_WORKERS_MAX || o->worker >= GY_PS_WORKERS_MAX) {
        return gy_fail(GY_ARG, "worker %u of %u: expected 1 to %d workers", o->worker,
                       o->workers, GY_PS_WORKERS_MAX);
    }
    if (!(o->timeout_s > 0)) {
        return gy_fail(GY_ARG, "a timeout of %g s: expected above 0", o->timeout_s);
    }
    return GY_OK;
}

gy_status gy_ps_connect(const gy_ps_options *options, gy_rpc_role role, gy_ps **ps)
{
    gy_ps_options o;
    char name[32];
    GY_TRY(judge(options, &o));
    gy_ps *made = gy_alloc_zero("ps.client", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_env *env = gy_env_real();
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_mutex_init(&made->pool_lock, POOL_RANK);
    gy_cond_init(&made->idle);
    gy_cond_init(&made->moved);
    made->worker = o.worker;
    made->workers = o.workers;
    made->timeout_s = o.timeout_s;
    made->client = env->ops->random(env, GY_CHANCE_NETWORK) | 1;
    made->wake_file = -1;
    gy_ps_methods(made->methods);
    gy_ps_led_methods(made->methods + PS_METHODS);
    snprintf(name, sizeof(name), "worker %u", o.worker);
    const gy_rpc_options node = {.name = name,
                                 .role = role,
                                 .methods = made->methods,
                                 .method_count = PS_ALL_METHODS,
                                 .key_file = o.key_file,
                                 .is_plaintext = o.is_plaintext,
                                 .shares_memory = !o.without_shared_memory,
                                 .retry_ns_max = GY_PS_REDIAL_NS};
    gy_status status = o.lead != NULL ? GY_OK : read_servers(made, o.servers);
    if (status == GY_OK) {
        status = gy_rpc_new(env, &node, &made->rpc);
    }
    if (status == GY_OK) {
        status = o.lead != NULL ? find_parts(made, o.lead, o.replicas) : dial_all(made);
    }
    if (status == GY_OK) {
        made->wake_file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        status = made->wake_file >= 0
                     ? gy_thread_start(&made->thread, "gyre-ps", gy_ps_keep_alive, made)
                     : gy_fail(GY_LIMIT, "no descriptor: %s", strerror(errno));
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_ps_disconnect(made);
        return gy_error_raise(&why);
    }
    *ps = made;
    return GY_OK;
}

void gy_ps_disconnect(gy_ps *ps)
{
    const uint64_t one = 1;
    if (ps->thread.is_started) {
        gy_mutex_lock(&ps->lock);
        ps->is_ending = true;
        (void)!write(ps->wake_file, &one, sizeof(one));
        gy_cond_signal(&ps->idle);
        gy_mutex_unlock(&ps->lock);
        gy_thread_join(&ps->thread);
    }
    gy_mutex_lock(&ps->lock);
    for (gy_ps_table *table = ps->tables; table != NULL; table = table->next) {
        gy_ps_prefetch_drop(table, true);
    }
    gy_ps_route_end(ps->route);
    gy_rpc_free(ps->rpc); /* ends all calls */
    ps->rpc = NULL;
    gy_ps_route_free(ps->route);
    ps->route = NULL;
    gy_ps_call_ended(ps);
    gy_mutex_unlock(&ps->lock);
    while (ps->tables != NULL) {
        gy_ps_table *gone = ps->tables;
        ps->tables = gone->next;
        for (uint32_t i = 0; i < ps->part_count; i++) {
            gy_ps_own_lists_fini(&gone->parts[i].lists);
        }
        gy_free(gone);
    }
    if (ps->wake_file >= 0) {
        close(ps->wake_file);
    }
    gy_ps_pool_fini(&ps->pool);
    gy_mutex_fini(&ps->pool_lock);
    gy_mutex_fini(&ps->lock);
    gy_cond_fini(&ps->idle);
    gy_cond_fini(&ps->moved);
    gy_free(ps->targets);
    gy_free(ps);
}

/* Parts that have lost all replicas may begin again from a snapshot: a worker that comes then
 * waits for them. */
static gy_status await_parts(gy_ps *ps)
{
    const int nothing = 1;
    const gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    gy_status status = GY_OK;
    gy_ps_enter(ps);
    for (uint32_t i = 0; i < ps->part_count && status == GY_OK;) {
        if (!gy_ps_route_map(ps->route)->chains[i].is_away) {
            i++;
        } else if (gy_now_ns(gy_env_real()) >= deadline.at_ns) {
            status = gy_ps_route_fail_gone(ps->route, i);
        } else {
            (void)gy_ps_drive(ps, &nothing, gy_deadline_after(0.02));
        }
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(ps);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}

gy_status gy_ps_open(const gy_ps_options *options, gy_ps **ps)
{
    gy_ps *made = NULL;
    GY_TRY(gy_ps_connect(options, GY_RPC_WORKER, &made));
    GY_ASSERT(made != NULL);
    gy_status status = made->route != NULL ? await_parts(made) : GY_OK;
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_ps_disconnect(made);
        return gy_error_raise(&why);
    }
    *ps = made;
    return GY_OK;
}

static void count_down(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    int *pending = arg;
    (void)status; /* a server that is away gives this worker up by itself */
    (void)answer;
    --*pending;
}

void gy_ps_close(gy_ps *ps)
{
    int pending = 0;
    if (ps == NULL) {
        return;
    }
    gy_deadline deadline = gy_deadline_after(GY_MIN(ps->timeout_s, 2.0));
    gy_ps_enter(ps);
    for (const gy_ps_table *table = ps->tables; table != NULL; table = table->next) {
        for (uint32_t i = 0; i < ps->part_count && !table->has_failed; i++) {
            Gy__Ps__Leave leave;
            gy__ps__leave__init(&leave);
            leave.table = table->parts[i].id;
            leave.worker = ps->worker;
            leave.client = ps->client;
            const gy_rpc_request request = {.type = PS_LEAVE,
                                            .message = &leave.base,
                                            .deadline = deadline,
                                            .is_hasty = true,
                                            .done = count_down,
                                            .arg = &pending};
            pending += gy_ps_call_now(ps, i, &request, NULL) == GY_OK;
        }
    }
    (void)gy_ps_drive(ps, &pending, GY_NEVER); /* the calls have deadlines */
    gy_ps_leave(ps);
    gy_ps_disconnect(ps);
}
