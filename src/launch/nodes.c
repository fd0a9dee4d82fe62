/* The keepers of a run's hosts: they meet, learn where all ranks listen, tell each other ends.
 */
#include "launch/launch_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double meet_default_seconds = 60, retry_seconds = 0.1, flush_seconds = 1;

enum {
    LOOK_MS = 50,
    ANSWER_SECONDS = 10, /* for one call, before the next is tried */
    SEAT_BYTES = 4 + 4 + 16,
    END_BYTES = 8,
};

/* A host of the run. On node 0 all have links, elsewhere node 0 alone. */
typedef struct node {
    gy_link *link;
    bool is_known, is_done;
    int ranks;
    gy_address address; /* port 0 */
    uint16_t *ports;    /* (ranks) */
} node;

struct gy_nodes {
    const gy_run_options *options;
    gy_env *env;
    gy_address rendezvous;
    gy_tls *tls;
    gy_door *door;         /* node 0, until all are here */
    gy_greeting *greeting; /* others, while they call */
    char *key_path;        /* NULL: plain */
    uint8_t run[GY_RUN_ID_BYTES];
    int linked;
    bool has_table, has_end, is_told;
    gy_run_end end; /* the first one heard */
    node nodes[];
};

/* Whom a link's frames come from. */
typedef struct ear {
    gy_nodes *nodes;
    int from;
} ear;

/* ---- Frames ---- */

static void put_seat(gy_text *body, const node *seat)
{
    uint32_t words[2] = {(uint32_t)seat->ranks, seat->address.at.any.sa_family == AF_INET6};
    uint8_t host[16] = {0};
    if (words[1] != 0) {
        memcpy(host, &seat->address.at.v6.sin6_addr, 16);
    } else {
        memcpy(host, &seat->address.at.v4.sin_addr, 4);
    }
    gy_text_add_bytes(body, words, sizeof(words));
    gy_text_add_bytes(body, host, sizeof(host));
    gy_text_add_bytes(body, seat->ports, (size_t)seat->ranks * sizeof(*seat->ports));
}

/* Read one seat from `size` bytes; *used of them. */
static gy_status take_seat(const uint8_t *bytes, size_t size, node *seat, size_t *used)
{
    uint32_t words[2];
    if (size < SEAT_BYTES) {
        return gy_fail(GY_FORMAT, "a node's seat of %zu bytes", size);
    }
    memcpy(words, bytes, sizeof(words));
    if (words[0] < 1 || words[0] > GY_RUN_RANKS_MAX ||
        size - SEAT_BYTES < words[0] * sizeof(*seat->ports)) {
        return gy_fail(GY_FORMAT, "a node with %u ranks in %zu bytes", words[0], size);
    }
    uint16_t *ports = gy_alloc_zero("launch.nodes", words[0], sizeof(*ports));
    if (ports == NULL) {
        return GY_NOMEM;
    }
    memcpy(ports, bytes + SEAT_BYTES, words[0] * sizeof(*ports));
    gy_address at = {.size_bytes = sizeof(at.at.v4)};
    if (words[1] != 0) {
        at.size_bytes = sizeof(at.at.v6);
        at.at.v6.sin6_family = AF_INET6;
        memcpy(&at.at.v6.sin6_addr, bytes + sizeof(words), 16);
    } else {
        at.at.v4.sin_family = AF_INET;
        memcpy(&at.at.v4.sin_addr, bytes + sizeof(words), 4);
    }
    gy_free(seat->ports);
    seat->ports = ports;
    seat->ranks = (int)words[0];
    seat->address = at;
    seat->is_known = true;
    *used = SEAT_BYTES + words[0] * sizeof(*ports);
    return GY_OK;
}

static gy_status hear_node(gy_nodes *nodes, int from, const gy_frame *frame,
                           const uint8_t *body)
{
    size_t used = 0;
    if (nodes->options->node != 0 || nodes->nodes[from].is_known) {
        return gy_fail(GY_FORMAT, "a node says twice where it is");
    }
    return take_seat(body, (size_t)frame->size_bytes, &nodes->nodes[from], &used);
}

static gy_status hear_table(gy_nodes *nodes, const gy_frame *frame, const uint8_t *body)
{
    size_t size = (size_t)frame->size_bytes, at = GY_RUN_ID_BYTES;
    if (nodes->options->node == 0 || nodes->has_table || size < at) {
        return gy_fail(GY_FORMAT, "a table of nodes that nobody asked for");
    }
    memcpy(nodes->run, body, GY_RUN_ID_BYTES);
    for (int i = 0; i < nodes->options->nodes; i++) {
        size_t used = 0;
        GY_TRY(take_seat(body + at, size - at, &nodes->nodes[i], &used));
        at += used;
    }
    if (nodes->nodes[nodes->options->node].ranks != nodes->options->ranks) {
        return gy_fail(GY_FORMAT, "node 0 gives node %d another number of ranks",
                       nodes->options->node);
    }
    nodes->has_table = true;
    return GY_OK;
}

static void keep_end(gy_nodes *nodes, const gy_run_end *end)
{
    if (!nodes->has_end) {
        nodes->end = *end;
        nodes->has_end = true;
    }
}

static void send_end(gy_nodes *nodes, const gy_run_end *end, int but)
{
    gy_text body = {.data = NULL};
    int32_t words[2] = {end->status, end->number};
    gy_text_add_bytes(&body, words, sizeof(words));
    gy_text_add_bytes(&body, end->text, strlen(end->text));
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_link *link = nodes->nodes[i].link;
        if (link != NULL && i != but &&
            gy_link_note(link, GY_FRAME_END, body.data, body.size_bytes) == GY_OK) {
            (void)gy_link_push(link); /* a broken one is told to nobody */
        }
    }
    gy_text_free(&body);
}

static gy_status hear_end(gy_nodes *nodes, int from, const gy_frame *frame, const uint8_t *body)
{
    int32_t words[2];
    if (frame->size_bytes < END_BYTES) {
        return gy_fail(GY_FORMAT, "an end of %llu bytes",
                       (unsigned long long)frame->size_bytes);
    }
    memcpy(words, body, sizeof(words));
    gy_run_end end = {.status = words[0] & 255, .number = words[1]};
    size_t size = GY_MIN((size_t)frame->size_bytes - END_BYTES, sizeof(end.text) - 1);
    memcpy(end.text, body + END_BYTES, size);
    if (!nodes->has_end) {
        keep_end(nodes, &end);
        send_end(nodes, &end, from);
    }
    return GY_OK;
}

static gy_status hear(void *arg, const gy_frame *frame, const uint8_t *body)
{
    const ear *at = arg;
    switch (frame->type) {
    case GY_FRAME_NODE:
        return hear_node(at->nodes, at->from, frame, body);
    case GY_FRAME_TABLE:
        return hear_table(at->nodes, frame, body);
    case GY_FRAME_DONE:
        at->nodes->nodes[at->from].is_done = true;
        return GY_OK;
    case GY_FRAME_END:
        return hear_end(at->nodes, at->from, frame, body);
    case GY_FRAME_HELLO:
    case GY_FRAME_REFUSED:
    case GY_FRAME_MESSAGE:
    case GY_FRAME_ABORT:
    case GY_FRAME_LEAVE:
    case GY_FRAME_ASK:
    case GY_FRAME_HERE:
    case GY_FRAME_TYPES:
    default:
        return gy_fail(GY_FORMAT, "a frame of type %d has no place between keepers",
                       (int)frame->type);
    }
}

/* ---- Links ---- */

static void lose(gy_nodes *nodes, int from)
{
    node *gone = &nodes->nodes[from];
    gy_link_free(gone->link);
    gone->link = NULL;
    if (!gone->is_done) {
        gy_run_end end = {.status = 1, .number = SIGTERM};
        snprintf(end.text, sizeof(end.text), "node %d is gone: %.800s", from, gy_error_text());
        if (!nodes->has_end) {
            keep_end(nodes, &end);
            send_end(nodes, &end, from);
        }
    }
}

static void step_links(gy_nodes *nodes)
{
    for (int i = 0; i < nodes->options->nodes; i++) {
        node *at = &nodes->nodes[i];
        if (at->link != NULL && gy_link_push(at->link) < 0) {
            lose(nodes, i);
        }
        if (at->link != NULL &&
            gy_link_pull(at->link, hear, &(ear){.nodes = nodes, .from = i}) < 0) {
            lose(nodes, i);
        }
    }
}

nfds_t gy_nodes_look(const gy_nodes *nodes, struct pollfd *looks)
{
    nfds_t count = 0;
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_link *link = nodes->nodes[i].link;
        if (link != NULL) {
            short events = (short)(POLLIN | (gy_link_is_full(link) ? POLLOUT : 0));
            looks[count++] =
                (struct pollfd){.fd = gy_wire_socket(gy_link_wire(link)), .events = events};
        }
    }
    return count;
}

bool gy_nodes_step(gy_nodes *nodes, gy_run_end *end)
{
    step_links(nodes);
    if (nodes->has_end && !nodes->is_told) {
        nodes->is_told = true;
        *end = nodes->end;
        return true;
    }
    return false;
}

void gy_nodes_tell_end(gy_nodes *nodes, const gy_run_end *end)
{
    if (!nodes->has_end) {
        keep_end(nodes, end);
        nodes->is_told = true;
        send_end(nodes, end, -1);
    }
}

static void send_done(gy_nodes *nodes)
{
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_link *link = nodes->nodes[i].link;
        if (link != NULL && gy_link_note(link, GY_FRAME_DONE, NULL, 0) == GY_OK) {
            (void)gy_link_push(link); /* a broken link is noticed when it is read */
        }
    }
}

bool gy_nodes_end_well(gy_nodes *nodes)
{
    int own = nodes->options->node;
    bool is_first = !nodes->nodes[own].is_done;
    nodes->nodes[own].is_done = true;
    if (own != 0) {
        if (is_first) {
            send_done(nodes);
        }
        return nodes->nodes[0].is_done;
    }
    for (int i = 0; i < nodes->options->nodes; i++) {
        if (!nodes->nodes[i].is_done) {
            return false;
        }
    }
    send_done(nodes);
    return true;
}

/* ---- Meeting ---- */

/* On node 0: may that node come in? */
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

/* Listen for this host's ranks at its own address. */
static gy_status seat_ranks(gy_nodes *nodes, const gy_address *own, int *listeners)
{
    node *seat = &nodes->nodes[nodes->options->node];
    int ranks = nodes->options->ranks;
    seat->ports = gy_alloc_zero("launch.nodes", (size_t)ranks, sizeof(*seat->ports));
    if (seat->ports == NULL) {
        return GY_NOMEM;
    }
    seat->ranks = ranks;
    seat->address = *own;
    gy_address_set_port(&seat->address, 0);
    for (int rank = 0; rank < ranks; rank++) {
        gy_address at = seat->address;
        GY_TRY(gy_address_listen(&at, &listeners[rank]));
        seat->ports[rank] = gy_address_port(&at);
    }
    seat->is_known = true;
    return GY_OK;
}

static gy_status open_door(gy_nodes *nodes, int *listeners)
{
    int listener = -1;
    GY_TRY(gy_address_listen(&nodes->rendezvous, &listener));
    gy_door_options door = {.listener = listener,
                            .tls = nodes->tls,
                            .hello = {.count = (uint32_t)nodes->options->nodes},
                            .judge = judge_node,
                            .arg = nodes};
    GY_TRY(gy_door_new(&door, nodes->env, &nodes->door));
    return seat_ranks(nodes, &nodes->rendezvous, listeners);
}

/* GY_OK all nodes are here and everybody has the table. */
static gy_status receive_nodes(gy_nodes *nodes)
{
    gy_wire *wire = NULL;
    gy_hello theirs;
    while (gy_door_step(nodes->door, &wire, &theirs) == GY_OK) {
        GY_TRY(gy_link_new(wire, &nodes->nodes[theirs.index].link));
        nodes->linked++;
    }
    step_links(nodes);
    gy_text body = {.data = NULL};
    gy_text_add_bytes(&body, nodes->run, sizeof(nodes->run));
    for (int i = 0; i < nodes->options->nodes; i++) {
        if (!nodes->nodes[i].is_known) {
            gy_text_free(&body);
            return GY_AGAIN;
        }
        put_seat(&body, &nodes->nodes[i]);
    }
    gy_status status = body.status;
    for (int i = 1; i < nodes->options->nodes && status >= 0; i++) {
        if (nodes->nodes[i].link != NULL) {
            status =
                gy_link_note(nodes->nodes[i].link, GY_FRAME_TABLE, body.data, body.size_bytes);
        }
    }
    gy_text_free(&body);
    step_links(nodes);
    gy_door_free(nodes->door);
    nodes->door = NULL;
    return status < 0 ? status : GY_OK;
}

static gy_status greet_first(gy_nodes *nodes, int *listeners)
{
    gy_wire *wire = NULL;
    gy_hello theirs;
    gy_address own;
    gy_status status = gy_greeting_step(nodes->greeting, judge_first, nodes, &wire, &theirs);
    if (status != GY_OK) {
        return status;
    }
    gy_greeting_free(nodes->greeting);
    nodes->greeting = NULL;
    status = gy_address_own(gy_wire_socket(wire), &own);
    if (status < 0) {
        gy_wire_close(wire);
        return status;
    }
    GY_TRY(gy_link_new(wire, &nodes->nodes[0].link));
    GY_TRY(seat_ranks(nodes, &own, listeners));
    gy_text body = {.data = NULL};
    put_seat(&body, &nodes->nodes[nodes->options->node]);
    status = body.status < 0 ? body.status
                             : gy_link_note(nodes->nodes[0].link, GY_FRAME_NODE, body.data,
                                            body.size_bytes);
    gy_text_free(&body);
    return status;
}

/* Calls on until node 0 lets this one in. GY_OK the table is here; GY_PEER call again. */
static gy_status call_first(gy_nodes *nodes, int *listeners)
{
    if (nodes->nodes[0].link == NULL) {
        gy_status status = greet_first(nodes, listeners);
        if (status != GY_OK) {
            return status;
        }
    }
    step_links(nodes);
    return nodes->has_table ? GY_OK : GY_AGAIN;
}

static gy_status begin_call(gy_nodes *nodes)
{
    gy_wire *wire = NULL;
    gy_hello hello = {.index = (uint32_t)nodes->options->node,
                      .count = (uint32_t)nodes->options->nodes};
    GY_TRY(gy_wire_call(&nodes->rendezvous, nodes->tls, &wire));
    return gy_greeting_new(wire, true, &hello, &nodes->greeting);
}

/* Wait for news of the meeting; GY_CANCELLED: something else is to be done first. */
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
        int strangers = gy_door_sockets(nodes->door, sockets, wants_room);
        for (int i = 0; i < strangers; i++) {
            looks[count++] = (struct pollfd){
                .fd = sockets[i], .events = wants_room[i] ? POLLIN | POLLOUT : POLLIN};
        }
    }
    if (nodes->greeting != NULL) {
        const gy_wire *wire = gy_greeting_wire(nodes->greeting);
        looks[count++] = (struct pollfd){.fd = gy_wire_socket(wire),
                                         .events = gy_wire_wants_room(wire) ? POLLOUT : POLLIN};
    }
    count += gy_nodes_look(nodes, looks + count);
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

/* What keeps a node from being let in now may be over soon; a wrong key or number will not. */
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
    gy_error last = {.text = "nobody answers"};
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
        if (status < 0 && !may_try_again(status)) {
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

/* Which key, if any: plain only on loopback or by name. */
static gy_status choose_key(gy_nodes *nodes)
{
    const gy_run_options *options = nodes->options;
    const char *path = options->key_file;
    if (options->is_plain || (path == NULL && gy_address_is_loopback(&nodes->rendezvous))) {
        return GY_OK;
    }
    char kept[4096];
    if (path == NULL) {
        GY_TRY(gy_place_key_path(kept, sizeof(kept)));
        path = kept;
    }
    gy_key key;
    GY_TRY(gy_key_read(path, GY_ROLE_NODE, NULL, &key));
    nodes->key_path = gy_copy_text("launch.nodes", path);
    return nodes->key_path == NULL ? GY_NOMEM : gy_tls_new(&key, GY_ROLE_NODE, &nodes->tls);
}

/* A run of one host over TCP: nobody to meet. */
static gy_status be_alone(gy_nodes *nodes, const gy_meeting *meeting)
{
    gy_address own = {.size_bytes = sizeof(own.at.v4)};
    own.at.v4.sin_family = AF_INET;
    own.at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return seat_ranks(nodes, &own, meeting->listeners);
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
    double seconds = options->meet_seconds > 0 ? options->meet_seconds : meet_default_seconds;
    made->options = options;
    made->env = env;
    *nodes = made;
    GY_TRY(gy_run_id_make(made->run));
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

gy_status gy_nodes_net(const gy_nodes *nodes, gy_run_net **net)
{
    int size = 0, first = 0, rank = 0, count = GY_MAX(nodes->options->nodes, 1);
    for (int i = 0; i < count; i++) {
        first += i < nodes->options->node ? nodes->nodes[i].ranks : 0;
        size += nodes->nodes[i].ranks;
    }
    if (size > GY_RUN_RANKS_MAX) {
        return gy_fail(GY_LIMIT, "%d ranks on %d nodes: at most %d", size, count,
                       GY_RUN_RANKS_MAX);
    }
    gy_run_net *made = gy_run_net_new(size);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->first_rank = first;
    made->host_ranks = nodes->options->ranks;
    made->is_shared = !nodes->options->is_tcp;
    made->has_key = nodes->key_path != NULL;
    memcpy(made->run, nodes->run, sizeof(made->run));
    for (int i = 0; i < count; i++) {
        for (int port = 0; port < nodes->nodes[i].ranks; port++, rank++) {
            made->seats[rank] = (gy_run_seat){.address = nodes->nodes[i].address, .host = i};
            gy_address_set_port(&made->seats[rank].address, nodes->nodes[i].ports[port]);
        }
    }
    gy_status status = GY_OK;
    if (made->has_key) {
        status = gy_key_read(nodes->key_path, GY_ROLE_RANK, made->run, &made->key);
    }
    if (status < 0) {
        gy_free(made);
        return status;
    }
    *net = made;
    return GY_OK;
}

void gy_nodes_free(gy_nodes *nodes)
{
    if (nodes == NULL) {
        return;
    }
    gy_deadline deadline = gy_env_deadline(nodes->env, flush_seconds);
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_link *link = nodes->nodes[i].link;
        while (link != NULL && gy_link_is_full(link) &&
               gy_now_ns(nodes->env) < deadline.at_ns) {
            struct pollfd look = {.fd = gy_wire_socket(gy_link_wire(link)), .events = POLLOUT};
            (void)poll(&look, 1, LOOK_MS);
            if (gy_link_push(link) < 0) {
                break;
            }
        }
        gy_link_free(link);
    }
    for (int i = 0; i < GY_MAX(nodes->options->nodes, 1); i++) {
        gy_free(nodes->nodes[i].ports);
    }
    gy_door_free(nodes->door);
    gy_greeting_free(nodes->greeting);
    gy_tls_free(nodes->tls);
    gy_free(nodes->key_path);
    gy_free(nodes);
}
