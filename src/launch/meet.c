/* Rendezvous of the keepers: the others connect to node 0 and retry until it admits them. */
#include "launch/nodes_priv.h"

#include <stdio.h>
#include <string.h>

static const double meet_default_seconds = 60, retry_seconds = 0.1;

enum {
    LOOK_MS = 50,
    ANSWER_SECONDS = 10, /* for one connection, before the next try */
};

/* On node 0: may this node join? */
static gy_status judge_node(void *arg, const gy_hello *theirs)
{
    const gy_nodes *nodes = arg;
    uint32_t count = (uint32_t)nodes->options->nodes;
    if (theirs->count != count) {
        return gy_fail(GY_STATE, "node 0 was started with --nodes %u, node %u with --nodes %u",
                       count, theirs->index, theirs->count);
    }
    if (theirs->index == 0 || theirs->index >= count) {
        return gy_fail(GY_STATE, "node %u of %u called node 0", theirs->index, theirs->count);
    }
    if (nodes->nodes[theirs->index].link != NULL) {
        return gy_fail(GY_EXISTS, "node %u is here already", theirs->index);
    }
    return GY_OK;
}

static gy_status judge_first(void *arg, const gy_hello *theirs)
{
    const gy_nodes *nodes = arg;
    return theirs->index == 0 && theirs->count == (uint32_t)nodes->options->nodes
               ? GY_OK
               : gy_fail(GY_STATE, "node %u of %u answers instead of node 0 of %d",
                         theirs->index, theirs->count, nodes->options->nodes);
}

static gy_status open_door(gy_nodes *nodes, int *listeners)
{
    int listener = nodes->options->listener;
    if (listener <= 0) {
        GY_TRY(gy_address_listen(&nodes->rendezvous, &listener));
    }
    gy_tcp_acceptor_options door = {.listener = listener,
                                    .tls = nodes->tls,
                                    .hello = {.count = (uint32_t)nodes->options->nodes},
                                    .judge = judge_node,
                                    .arg = nodes};
    GY_TRY(gy_tcp_acceptor_new(&door, nodes->env, &nodes->door));
    return gy_nodes_listen_at(nodes, &nodes->rendezvous, listeners);
}

/* GY_OK: all nodes are connected and each has the table. */
static gy_status receive_nodes(gy_nodes *nodes)
{
    gy_tcp_wire *wire = NULL;
    gy_hello theirs;
    while (gy_tcp_acceptor_step(nodes->door, &wire, &theirs) == GY_OK) {
        if (nodes->tls != NULL) { /* the key file may be older than the node's */
            uint64_t epoch = gy_tls_epoch(nodes->tls, gy_tcp_wire_key_name(wire));
            nodes->epoch = GY_MIN(nodes->epoch, epoch);
        }
        GY_TRY(gy_tcp_link_new(wire, &nodes->nodes[theirs.index].link));
        nodes->linked++;
    }
    gy_nodes_step_links(nodes);
    for (int i = 0; i < nodes->options->nodes; i++) {
        if (!nodes->nodes[i].is_known) {
            return GY_AGAIN;
        }
    }
    gy_status status = gy_nodes_send(nodes, -1, GY_FRAME_TABLE, 0, NULL);
    gy_nodes_step_links(nodes);
    gy_tcp_acceptor_free(nodes->door);
    nodes->door = NULL;
    return status < 0 ? status : GY_OK;
}

static gy_status greet_first(gy_nodes *nodes, int *listeners)
{
    gy_tcp_wire *wire = NULL;
    gy_hello theirs;
    gy_address own;
    gy_status status = gy_greeting_step(nodes->greeting, judge_first, nodes, &wire, &theirs);
    if (status != GY_OK) {
        return status;
    }
    gy_greeting_free(nodes->greeting);
    nodes->greeting = NULL;
    status = gy_address_own(gy_tcp_wire_socket(wire), &own);
    if (status < 0) {
        gy_tcp_wire_close(wire);
        return status;
    }
    GY_TRY(gy_tcp_link_new(wire, &nodes->nodes[0].link));
    GY_TRY(gy_nodes_listen_at(nodes, &own, listeners));
    return gy_nodes_send(nodes, 0, GY_FRAME_NODE, 0, NULL);
}

/* Connect until node 0 admits this node. GY_OK: the table has arrived; GY_PEER: connect again.
 */
static gy_status call_first(gy_nodes *nodes, int *listeners)
{
    if (nodes->nodes[0].link == NULL) {
        gy_status status = greet_first(nodes, listeners);
        if (status != GY_OK) {
            return status;
        }
    }
    gy_nodes_step_links(nodes);
    return nodes->has_table ? GY_OK : GY_AGAIN;
}

static gy_status begin_call(gy_nodes *nodes)
{
    gy_tcp_wire *wire = NULL;
    gy_hello hello = {.index = (uint32_t)nodes->options->node,
                      .count = (uint32_t)nodes->options->nodes};
    GY_TRY(gy_tcp_wire_call(&nodes->rendezvous, nodes->tls, &wire));
    return gy_greeting_new(wire, true, &hello, &nodes->greeting);
}

/* Wait for events of the rendezvous; GY_CANCELLED: a signal or the launcher's end comes first.
 */
static gy_status wait_for_news(const gy_nodes *nodes, const int *stops, size_t stop_count,
                               int wait_ms)
{
    struct pollfd looks[8 + GY_STRANGERS + 1 + GY_RUN_NODES_MAX];
    nfds_t count = 0;
    for (size_t i = 0; i < stop_count; i++) {
        looks[count++] = (struct pollfd){.fd = stops[i], .events = POLLIN};
    }
    if (nodes->door != NULL) {
        int sockets[GY_STRANGERS + 1];
        bool wants_room[GY_STRANGERS + 1];
        int strangers = gy_tcp_acceptor_sockets(nodes->door, sockets, wants_room);
        for (int i = 0; i < strangers; i++) {
            looks[count++] = (struct pollfd){
                .fd = sockets[i], .events = wants_room[i] ? POLLIN | POLLOUT : POLLIN};
        }
    }
    if (nodes->greeting != NULL) {
        const gy_tcp_wire *wire = gy_greeting_wire(nodes->greeting);
        looks[count++] =
            (struct pollfd){.fd = gy_tcp_wire_socket(wire),
                            .events = gy_tcp_wire_wants_room(wire) ? POLLOUT : POLLIN};
    }
    count += gy_nodes_poll(nodes, looks + count);
    if (poll(looks, count, wait_ms) > 0) {
        for (size_t i = 0; i < stop_count; i++) {
            if (looks[i].revents != 0) {
                return gy_fail(GY_CANCELLED, "the meeting of the nodes was broken off");
            }
        }
    }
    return GY_OK;
}

static gy_status too_late(const gy_nodes *nodes, double seconds, const char *why)
{
    char text[GY_ADDRESS_TEXT_BYTES];
    (void)gy_address_text(&nodes->rendezvous, text);
    if (nodes->options->node != 0) {
        return gy_fail(GY_TIMEOUT, "node 0 at %s did not let node %d in within %g s: %s", text,
                       nodes->options->node, seconds, why);
    }
    int missing = 1;
    while (missing < nodes->options->nodes - 1 && nodes->nodes[missing].is_known) {
        missing++;
    }
    return gy_fail(GY_TIMEOUT, "node %d of %d did not call %s within %g s", missing,
                   nodes->options->nodes, text, seconds);
}

/* A temporary obstacle may pass; a wrong key or number will not. */
static bool may_try_again(gy_status status)
{
    return status == GY_PEER;
}

static gy_status meet_as_first(gy_nodes *nodes, const gy_meeting *meeting, double seconds)
{
    gy_deadline deadline = gy_env_deadline(nodes->env, seconds);
    GY_TRY(open_door(nodes, meeting->listeners));
    for (;;) {
        gy_status status = receive_nodes(nodes);
        if (status != GY_AGAIN) {
            return status;
        }
        if (nodes->has_end) {
            return gy_fail(GY_PEER, "%s", nodes->end.text);
        }
        if (gy_now_ns(nodes->env) >= deadline.at_ns) {
            return too_late(nodes, seconds, "");
        }
        GY_TRY(wait_for_news(nodes, meeting->stops, GY_COUNT(meeting->stops), LOOK_MS));
    }
}

static gy_status meet_as_other(gy_nodes *nodes, const gy_meeting *meeting, double seconds)
{
    gy_deadline deadline = gy_env_deadline(nodes->env, seconds), answer = GY_NEVER;
    gy_error last = {.text = "no answer"};
    for (;;) {
        gy_status status = GY_OK;
        if (nodes->greeting == NULL && nodes->nodes[0].link == NULL) {
            answer = gy_env_deadline(nodes->env, ANSWER_SECONDS);
            status = begin_call(nodes);
        }
        status = status < 0 ? status : call_first(nodes, meeting->listeners);
        bool is_late = nodes->greeting != NULL && gy_now_ns(nodes->env) >= answer.at_ns;
        if (status == GY_OK) {
            return GY_OK;
        }
        bool is_older = status == GY_STATE && nodes->greeting != NULL && nodes->tls != NULL &&
                        gy_tls_offer_older(nodes->tls);
        if (status < 0 && !may_try_again(status) && !is_older) {
            return status;
        }
        if (nodes->has_end) {
            return gy_fail(GY_PEER, "%s", nodes->end.text);
        }
        if (status < 0 || is_late) {
            gy_error_take(&last, GY_PEER);
            gy_greeting_free(nodes->greeting);
            nodes->greeting = NULL;
        }
        if (gy_now_ns(nodes->env) >= deadline.at_ns) {
            return too_late(nodes, seconds, last.text);
        }
        int wait_ms = status < 0 ? (int)(retry_seconds * 1e3) : LOOK_MS;
        GY_TRY(wait_for_news(nodes, meeting->stops, GY_COUNT(meeting->stops), wait_ms));
    }
}

/* Choose the key: none only on the loopback or by an explicit option. */
static gy_status choose_key(gy_nodes *nodes)
{
    const gy_run_options *options = nodes->options;
    const char *path = options->key_file;
    bool is_open = path == NULL && options->key == NULL;
    if (options->is_plaintext || (is_open && gy_address_is_loopback(&nodes->rendezvous))) {
        return GY_OK;
    }
    char kept[4096];
    if (path == NULL && options->key == NULL) {
        GY_TRY(gy_run_key_path(kept, sizeof(kept)));
        path = kept;
    }
    gy_keys keys;
    GY_TRY(gy_nodes_keys(nodes, path, GY_ROLE_NODE, NULL, &keys));
    nodes->epoch = keys.items[0].epoch;
    nodes->key_path =
        gy_copy_text("launch.nodes", path != NULL ? path : "the key of the launch");
    gy_status status =
        nodes->key_path == NULL ? GY_NOMEM : gy_tls_new_of(&keys, GY_ROLE_NODE, &nodes->tls);
    gy_keys_wipe(&keys);
    return status;
}

/* A launch over TCP on one host: there is no other keeper. */
static gy_status be_alone(gy_nodes *nodes, const gy_meeting *meeting)
{
    gy_address own = {.size_bytes = sizeof(own.at.v4)};
    own.at.v4.sin_family = AF_INET;
    own.at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return gy_nodes_listen_at(nodes, &own, meeting->listeners);
}

gy_status gy_nodes_meet(const gy_run_options *options, gy_env *env, const gy_meeting *meeting,
                        gy_nodes **nodes)
{
    int count = GY_MAX(options->nodes, 1);
    gy_nodes *made =
        gy_alloc_zero("launch.nodes", 1, sizeof(*made) + (size_t)count * sizeof(node));
    if (made == NULL) {
        return GY_NOMEM;
    }
    double seconds = options->rendezvous_timeout_s > 0 ? options->rendezvous_timeout_s
                                                       : meet_default_seconds;
    made->options = options;
    made->env = env;
    *nodes = made;
    GY_TRY(gy_transport_run_id_make(made->run));
    GY_TRY(gy_address_find(count > 1 ? options->rendezvous : "127.0.0.1:1", &made->rendezvous));
    if (gy_address_is_any(&made->rendezvous)) {
        return gy_fail(GY_ARG, "%s: expected an address by which all nodes reach node 0",
                       options->rendezvous);
    }
    GY_TRY(choose_key(made));
    return count == 1           ? be_alone(made, meeting)
           : options->node == 0 ? meet_as_first(made, meeting, seconds)
                                : meet_as_other(made, meeting, seconds);
}
