/* A node: its table of methods, its clock, and pending work. */
#include "rpc/session/session_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GYRE_PLANTED
gy_rpc_plant gy_rpc_planted;
#endif

/* ---- Methods ---- */

static int compare_types(const void *a, const void *b)
{
    const gy_rpc_method *const *first = a, *const *second = b;
    return ((*first)->type > (*second)->type) - ((*first)->type < (*second)->type);
}

const gy_rpc_method *gy_rpc_method_of(const gy_rpc *node, uint64_t type)
{
    size_t low = 0, high = node->options.method_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (node->methods[middle]->type < type) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_there = low < node->options.method_count && node->methods[low]->type == type;
    return is_there ? node->methods[low] : NULL;
}

static gy_status check_method(const gy_rpc_method *method)
{
    if (method->type < GY_RPC_TYPE_FIRST || method->type > GY_RPC_TYPE_LAST ||
        method->name == NULL || method->request == NULL ||
        method->request_bytes_max > GY_RPC_BYTES_MAX ||
        method->answer_bytes_max > GY_RPC_BYTES_MAX || method->roles >> GY_RPC_ROLES != 0 ||
        method->request_beside_max > GY_RPC_BESIDE_MAX ||
        method->answer_beside_max > GY_RPC_BESIDE_MAX ||
        (method->request_beside_max > 0 && method->serve != NULL && method->admit == NULL) ||
        (method->answer_beside_max > 0 && (method->flags & GY_RPC_READS) == 0)) {
        return gy_fail(GY_ARG, "the method of type %u is not well-formed", method->type);
    }
    return GY_OK;
}

static gy_status index_methods(gy_rpc *node)
{
    size_t count = node->options.method_count;
    node->methods = gy_alloc_zero("rpc.methods", count + 1, sizeof(*node->methods));
    if (node->methods == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        node->methods[i] = &node->options.methods[i];
        GY_TRY(check_method(node->methods[i]));
    }
    qsort(node->methods, count, sizeof(*node->methods), compare_types);
    for (size_t i = 1; i < count; i++) {
        if (node->methods[i]->type == node->methods[i - 1]->type) {
            return gy_fail(GY_ARG, "two methods of type %u", node->methods[i]->type);
        }
    }
    return GY_OK;
}

/* ---- Open and close ---- */

static void set_defaults(gy_rpc_options *options)
{
    options->beat_ns = options->beat_ns > 0 ? options->beat_ns : 400000000;
    options->dead_ns = options->dead_ns > 0 ? options->dead_ns : 2000000000;
    options->linger_ns = options->linger_ns > 0 ? options->linger_ns : 60000000000;
    options->retry_ns_min = options->retry_ns_min > 0 ? options->retry_ns_min : 50000000;
    options->retry_ns_max = options->retry_ns_max > 0 ? options->retry_ns_max : 5000000000;
    options->queue_bytes = options->queue_bytes > 0 ? options->queue_bytes : (size_t)8 << 20;
    options->call_max = options->call_max > 0 ? options->call_max : RPC_CALLS;
}

static gy_status check_options(const gy_rpc_options *options)
{
    if (options->name == NULL || strlen(options->name) >= RPC_NAME_BYTES) {
        return gy_fail(GY_ARG, "a node needs a name of at most %d bytes", RPC_NAME_BYTES - 1);
    }
    if (options->role >= GY_RPC_ROLES || options->call_max > RPC_CALLS) {
        return gy_fail(GY_ARG, "role %d with %u calls at once: at most %d and %d",
                       (int)options->role, options->call_max, GY_RPC_ROLES - 1, RPC_CALLS);
    }
    if (options->subject != NULL && options->subject[0] != '\0' &&
        !gy_rpc_subject_is_good(options->subject)) {
        return gy_fail(GY_ARG, "a subject has 1 to %d printable characters",
                       GY_RPC_SUBJECT_BYTES - 1);
    }
    if (options->dead_ns != 0 && options->beat_ns >= options->dead_ns) {
        return gy_fail(GY_ARG, "a heartbeat every %lld ns with a timeout of %lld ns",
                       (long long)options->beat_ns, (long long)options->dead_ns);
    }
    return GY_OK;
}

gy_status gy_rpc_new_carried(gy_env *env, const gy_rpc_options *options,
                             const gy_rpc_carrier_ops *ops, void *carrier, gy_rpc **rpc)
{
    GY_TRY(check_options(options));
    gy_rpc *made = gy_alloc_zero("rpc.node", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->options = *options;
    made->ops = ops;
    made->complaints = 0;
    set_defaults(&made->options);
    snprintf(made->name, sizeof(made->name), "%s", options->name);
    made->options.name = made->name;
    snprintf(made->subject, sizeof(made->subject), "%s",
             options->subject != NULL ? options->subject : "");
    made->options.subject = made->subject;
    for (size_t i = 0; i < RPC_ID_BYTES; i += sizeof(uint64_t)) {
        uint64_t part = env->ops->random(env, GY_CHANCE_NETWORK);
        memcpy(made->id + i, &part, sizeof(part));
    }
    gy_status status = index_methods(made);
    if (status < 0) {
        gy_free(made->methods);
        gy_free(made);
        return status;
    }
    made->carrier = carrier;
    *rpc = made;
    return GY_OK;
}

void gy_rpc_free(gy_rpc *rpc)
{
    if (rpc == NULL) {
        return;
    }
    for (gy_rpc_entry *at = NULL; (at = gy_rpc_table_any(&rpc->peers)) != NULL;) {
        gy_rpc_drop(rpc, at->number);
    }
    gy_rpc_enter(rpc);
    while (rpc->links != NULL) { /* links without a hello so far */
        gy_rpc_link_end(rpc->links, gy_fail(GY_CANCELLED, "this node ends"));
    }
    gy_rpc_calls_deliver(rpc);
    gy_rpc_leave(rpc);
    if (rpc->ops->free != NULL) {
        rpc->ops->free(rpc->carrier);
    }
    GY_ASSERT(rpc->alarms.count == 0 && rpc->alarms.admitted == 0);
    gy_rpc_table_free(&rpc->peers);
    gy_free(rpc->alarms.heap);
    gy_free(rpc->methods);
    gy_free(rpc);
}

/* ---- Pending work ---- */

void gy_rpc_enter(gy_rpc *node)
{
    node->depth++;
}

void gy_rpc_leave(gy_rpc *node)
{
    GY_ASSERT(node->depth > 0);
    if (--node->depth > 0) {
        return;
    }
    while (node->dead_links != NULL) {
        gy_rpc_link *link = node->dead_links;
        node->dead_links = link->next_dead;
        gy_rpc_link_free(link);
    }
    while (node->dead_peers != NULL) {
        rpc_peer *peer = node->dead_peers;
        node->dead_peers = peer->next_dead;
        gy_rpc_peer_free(peer);
    }
}

static void fire(gy_rpc_alarm *alarm)
{
    char *at = (char *)alarm;
    switch (alarm->kind) {
    case ALARM_LINK:
        gy_rpc_link_alarm((gy_rpc_link *)(at - offsetof(gy_rpc_link, alarm)));
        break;
    case ALARM_PEER:
        gy_rpc_peer_alarm((rpc_peer *)(at - offsetof(rpc_peer, alarm)));
        break;
    case ALARM_CALL:
        gy_rpc_call_alarm((rpc_call *)(at - offsetof(rpc_call, alarm)));
        break;
    default:
        gy_panic("an alarm of kind %d", (int)alarm->kind);
    }
}

static rpc_peer *find_drained(const gy_rpc *node)
{
    for (size_t i = 0; i < node->peers.bucket_count; i++) {
        for (gy_rpc_entry *at = node->peers.buckets[i]; at != NULL; at = at->next) {
            if (((rpc_peer *)at)->is_drained) {
                return (rpc_peer *)at;
            }
        }
    }
    return NULL;
}

void gy_rpc_tick(gy_rpc *rpc)
{
    gy_rpc_enter(rpc);
    int64_t now_ns = gy_rpc_now_ns(rpc);
    gy_rpc_alarms *alarms = &rpc->alarms;
    while (alarms->count > 0 && alarms->heap[0]->at_ns <= now_ns) {
        gy_rpc_alarm *alarm = alarms->heap[0];
        gy_rpc_alarm_set(alarms, alarm, INT64_MAX);
        fire(alarm);
    }
    gy_rpc_calls_deliver(rpc);
    while (rpc->is_due) {
        rpc_peer *peer = find_drained(rpc);
        rpc->is_due = peer != NULL;
        if (peer != NULL) {
            peer->is_drained = false;
            gy_rpc_hear(peer, GY_RPC_DRAINED);
        }
    }
    gy_rpc_leave(rpc);
}

gy_deadline gy_rpc_next(const gy_rpc *rpc)
{
    if (rpc->ended_first != NULL || rpc->is_due) {
        return (gy_deadline){0};
    }
    int64_t at_ns = rpc->ops->next != NULL ? rpc->ops->next(rpc->carrier) : INT64_MAX;
    if (rpc->alarms.count > 0) {
        at_ns = GY_MIN(at_ns, rpc->alarms.heap[0]->at_ns);
    }
    return (gy_deadline){at_ns};
}

void gy_rpc_hear(rpc_peer *peer, gy_rpc_event event)
{
    const gy_rpc_options *options = &peer->node->options;
    if (options->hear != NULL) {
        options->hear(options->arg, peer->entry.number, event);
    }
}

/* Log ten lines at once, then one a second: a flood of unauthenticated callers must not fill a
 * disk. */
void gy_rpc_complain(gy_rpc *node, const char *from, const char *what, const char *why)
{
    enum { BURST = 10 };
    static const int64_t each_ns = 1000000000;
    int64_t now_ns = gy_rpc_now_ns(node);
    int64_t more = (now_ns - node->complain_ns) / each_ns;
    if (more > 0) {
        node->complain_ns = now_ns;
        node->complaints -= (uint32_t)GY_MIN(more, (int64_t)node->complaints);
    }
    if (node->complaints >= BURST) {
        node->silenced++;
        return;
    }
    node->complaints++;
    if (node->silenced > 0) {
        gy_warn("%s %s: %s (and %u others, unsaid)", from, what, why, node->silenced);
        node->silenced = 0;
    } else {
        gy_warn("%s %s: %s", from, what, why);
    }
}

/* ---- Calls of the carrier ---- */

gy_status gy_rpc_listen(gy_rpc *rpc, const char *at, char address[GY_RPC_ADDRESS_BYTES])
{
    GY_ASSERT(rpc->ops->listen != NULL);
    return rpc->ops->listen(rpc->carrier, at, address);
}

gy_status gy_rpc_turn(gy_rpc *rpc, gy_deadline deadline)
{
    GY_ASSERT(rpc->ops->turn != NULL && rpc->depth == 0);
    return rpc->ops->turn(rpc->carrier, deadline);
}

int gy_rpc_fd(const gy_rpc *rpc)
{
    GY_ASSERT(rpc->ops->fd != NULL);
    return rpc->ops->fd(rpc->carrier);
}
