/* Carries out the machine's effects: stores, sends, answers. */
#include "cluster/server/server_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- Pending calls ---- */

gy_status gy_server_hold(gy_server *server, const server_held *held, uint64_t *number)
{
    if (server->held_count >= SERVER_HELD_MAX) {
        return gy_fail(GY_LIMIT, "%d calls wait for an answer already", SERVER_HELD_MAX);
    }
    GY_TRY(GY_GROW("server", server->held, server->held_capacity, server->held_count + 1));
    server_held *kept = &server->held[server->held_count++];
    *kept = *held;
    kept->number = ++server->next_asker;
    if (number != NULL) {
        *number = kept->number;
    }
    return GY_OK;
}

void gy_server_unhold(gy_server *server, size_t index)
{
    server->held[index] = server->held[--server->held_count];
}

void gy_server_ask_again(gy_server *server, const char *why)
{
    while (server->held_count > 0) {
        gy_rpc_refuse(server->rpc, &server->held[server->held_count - 1].asked, GY_TIMEOUT,
                      why);
        gy_server_unhold(server, server->held_count - 1);
    }
}

/* A failure to answer only concerns the caller, so it is ignored. */
static void answer(gy_server *server, const gy_rpc_asked *asked, const ProtobufCMessage *with)
{
    gy_status status = gy_rpc_answer(server->rpc, asked, with);
    if (status < 0) {
        gy_rpc_refuse(server->rpc, asked, status, gy_error_text());
    }
}

/* GY_AGAIN is no failure: the caller may repeat the call. */
static void on_answer(gy_server *server, const gy_names_effect *effect)
{
    for (size_t i = 0; effect->asker != 0 && i < server->held_count; i++) {
        server_held held = server->held[i];
        if (held.kind != HELD_ASK || held.number != effect->asker) {
            continue;
        }
        gy_server_unhold(server, i);
        if (effect->status == GY_OK) {
            Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
            answer(server, &held.asked, &done.base);
        } else {
            gy_rpc_refuse(server->rpc, &held.asked,
                          effect->status == GY_AGAIN ? GY_TIMEOUT : effect->status,
                          effect->reason);
        }
        return;
    }
}

static void on_ended(gy_server *server, const gy_names_effect *effect)
{
    Gy__Cluster__Ended ended;
    gy__cluster__ended__init(&ended);
    ended.status = effect->status;
    ended.reason = (char *)(uintptr_t)effect->reason;
    gy_server_speakers_remove(&server->managers, effect->key);
    for (size_t i = server->held_count; i > 0; i--) {
        server_held held = server->held[i - 1];
        if (held.kind == HELD_WAIT && gy_key_is_same(held.key, effect->key)) {
            gy_server_unhold(server, i - 1);
            answer(server, &held.asked, &ended.base);
        }
    }
    gy_server_output_over(server, effect->key);
    char id[GY_NET_KEY_TEXT];
    gy_net_key_text(effect->key, id);
    gy_warn("job %s has ended: %s", id, effect->status == GY_OK ? "well" : effect->reason);
}

/* ---- Tells, which may be lost ---- */

static void tell(gy_server *server, gy_rpc_peer peer, gy_net_type type,
                 const ProtobufCMessage *message)
{
    gy_status status = gy_rpc_tell(server->rpc, peer, (uint32_t)type, message);
    if (status != GY_OK) {
        gy_debug("not reported: %s", status < 0 ? gy_error_text() : "too much waits for it");
    }
}

static void on_order(gy_server *server, const gy_names_effect *effect, gy_arena *arena)
{
    const server_speaker *to =
        gy_server_speakers_find(&server->daemons, gy_index_id(effect->order.daemon));
    Gy__Cluster__Order message;
    if (to != NULL && gy_net_write_order(&effect->order, arena, &message) == GY_OK) {
        tell(server, to->peer, GY_NET_ORDER, &message.base);
    }
}

static void on_allocations(gy_server *server, const gy_names_effect *effect, gy_arena *arena)
{
    const server_speaker *to = gy_server_speakers_find(&server->managers, effect->key);
    Gy__Cluster__Key job = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Allocations message;
    if (to == NULL || to->epoch != effect->epoch ||
        gy_net_write_allocations(effect->allocations, effect->allocation_count, arena,
                                 &message) < 0) {
        return;
    }
    job.high = effect->key.high;
    job.low = effect->key.low;
    message.job = &job;
    message.epoch = effect->epoch;
    message.version = effect->version;
    message.from = effect->from;
    message.is_killed = effect->is_on;
    message.sequence = effect->sequence;
    message.missing = effect->missing;
    message.never = effect->never;
    message.most = effect->most;
    tell(server, to->peer, GY_NET_ALLOCATIONS, &message.base);
}

/* To the last sender of messages as that manager, and to daemons that reported its end. */
static void on_over(gy_server *server, const gy_names_effect *effect)
{
    const server_speaker *known = gy_server_speakers_find(&server->managers, effect->key);
    Gy__Cluster__Key job = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Over message = GY__CLUSTER__OVER__INIT;
    job.high = effect->key.high;
    job.low = effect->key.low;
    message.job = &job;
    message.epoch = effect->epoch;
    message.status = effect->status;
    for (size_t i = server->held_count; i > 0; i--) {
        server_held held = server->held[i - 1];
        if (held.kind == HELD_END && gy_key_is_same(held.key, effect->key) &&
            held.epoch == effect->epoch) {
            gy_server_unhold(server, i - 1);
            answer(server, &held.asked, &message.base);
        }
    }
    if (server->speaks != 0 && effect->address[0] == '\0') {
        tell(server, server->speaks, GY_NET_OVER, &message.base);
    } else if (known != NULL && known->epoch == effect->epoch) {
        tell(server, known->peer, GY_NET_OVER, &message.base);
    }
}

/* ---- The table ---- */

static void on_store(gy_server *server, const gy_names_effect *effect)
{
    gy_status status = gy_persist_table_store(server->table, effect->key, effect->version,
                                              effect->data, effect->size_bytes);
    if (status == GY_OK) {
        server->storing++;
        return;
    }
    /* The store did not begin, so nothing was written, unless another store of it is under way.
     */
    gy_status kept =
        GY_GROW("server", server->refused, server->refused_capacity, server->refused_count + 1);
    if (kept < 0) {
        gy_server_fail(server, kept);
        return;
    }
    server->refused[server->refused_count++] =
        (struct server_refused){.key = effect->key,
                                .version = effect->version,
                                .status = status == GY_STATE ? status : GY_LIMIT};
}

/* The machine will answer none of the pending calls. */
static void on_end(gy_server *server, const gy_names_effect *effect)
{
    static const int64_t second_ns = 1000000000;
    const int64_t now_ns = gy_now_ns(server->env);
    gy_warn("the name server restarts: %s", effect->reason);
    bool was_long = now_ns - server->made_ns > 60 * second_ns;
    server->anew_wait_ns =
        was_long ? second_ns / 10
                 : GY_MIN(GY_MAX(server->anew_wait_ns * 2, second_ns / 10), 5 * second_ns);
    server->anew_ns = now_ns + server->anew_wait_ns;
}

static void on_note(gy_server *server, const gy_names_effect *effect)
{
    char id[GY_NET_KEY_TEXT];
    gy_net_key_text(effect->key, id);
    if (effect->id != 0) {
        (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)effect->id);
    }
    gy_warn("%s %s: %s", effect->id != 0 ? "daemon" : "job", id, effect->reason);
    gy_server_note(server, id, effect->reason);
}

void gy_server_effects(gy_server *server)
{
    gy_arena arena = {0};
    bool is_end = false;
    for (size_t i = 0; i < server->effects.count; i++) {
        const gy_names_effect *effect = &server->effects.items[i];
        switch (effect->kind) {
        case GY_NAMES_STORE:
            on_store(server, effect);
            break;
        case GY_NAMES_ORDER:
            on_order(server, effect, &arena);
            break;
        case GY_NAMES_ALLOCATIONS:
            on_allocations(server, effect, &arena);
            break;
        case GY_NAMES_OVER:
            on_over(server, effect);
            break;
        case GY_NAMES_ANSWER:
            on_answer(server, effect);
            break;
        case GY_NAMES_ENDED:
            on_ended(server, effect);
            break;
        case GY_NAMES_WAKE:
            server->wake_ns = GY_MIN(server->wake_ns, effect->at_ns);
            break;
        case GY_NAMES_NOTE:
            on_note(server, effect);
            break;
        case GY_NAMES_END:
            on_end(server, effect);
            is_end = true;
            break;
        }
    }
    gy_arena_free(&arena);
    if (is_end) {
        gy_names_free(server->names);
        server->names = NULL;
        server->wake_ns = INT64_MAX;
        server->refused_count = 0;
        gy_server_ask_again(server, "the name server is restarting: try again");
    }
}
