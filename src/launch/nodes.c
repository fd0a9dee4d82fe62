/* The keepers of a launch's hosts: they exchange the addresses of all ranks, and report ends.
 */
#include "launch/nodes_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double flush_seconds = 1;

enum {
    LOOK_MS = 50,
    ENTRY_BYTES = 4 + 4 + 16,
    END_BYTES = 8,
    LOST_BIT = 256, /* a flag beside an exit status */
    /* Each body between keepers begins with the generation, except an end's. */
    GENERATION_BYTES = 4,
};

/* Identifies the link that a frame came from. */
typedef struct ear {
    gy_nodes *nodes;
    int from;
} ear;

/* ---- Frames ---- */

static void put_entry(gy_text *body, const node *entry)
{
    uint32_t words[2] = {(uint32_t)entry->ranks, entry->address.at.any.sa_family == AF_INET6};
    uint8_t host[16] = {0};
    if (words[1] != 0) {
        memcpy(host, &entry->address.at.v6.sin6_addr, 16);
    } else {
        memcpy(host, &entry->address.at.v4.sin_addr, 4);
    }
    gy_text_add_bytes(body, words, sizeof(words));
    gy_text_add_bytes(body, host, sizeof(host));
    gy_text_add_bytes(body, entry->ports, (size_t)entry->ranks * sizeof(*entry->ports));
}

/* Parse one address entry from `size` bytes; *used of them. */
static gy_status take_entry(const uint8_t *bytes, size_t size, node *entry, size_t *used)
{
    uint32_t words[2];
    if (size < ENTRY_BYTES) {
        return gy_fail(GY_FORMAT, "a node's message of %zu bytes", size);
    }
    memcpy(words, bytes, sizeof(words));
    if (words[0] < 1 || words[0] > GY_RUN_RANKS_MAX ||
        size - ENTRY_BYTES < words[0] * sizeof(*entry->ports)) {
        return gy_fail(GY_FORMAT, "a node with %u ranks in %zu bytes", words[0], size);
    }
    uint16_t *ports = gy_alloc_zero("launch.nodes", words[0], sizeof(*ports));
    if (ports == NULL) {
        return GY_NOMEM;
    }
    memcpy(ports, bytes + ENTRY_BYTES, words[0] * sizeof(*ports));
    gy_address at = {.size_bytes = sizeof(at.at.v4)};
    if (words[1] != 0) {
        at.size_bytes = sizeof(at.at.v6);
        at.at.v6.sin6_family = AF_INET6;
        memcpy(&at.at.v6.sin6_addr, bytes + sizeof(words), 16);
    } else {
        at.at.v4.sin_family = AF_INET;
        memcpy(&at.at.v4.sin_addr, bytes + sizeof(words), 4);
    }
    gy_free(entry->ports);
    entry->ports = ports;
    entry->ranks = (int)words[0];
    entry->address = at;
    entry->is_known = true;
    *used = ENTRY_BYTES + words[0] * sizeof(*ports);
    return GY_OK;
}

static gy_status pass_on(gy_nodes *nodes, int from, gy_transport_frame_type type,
                         uint32_t generation, const gy_run_end *cause)
{
    if (nodes->renewal != NULL) {
        return gy_renewal_handle(nodes->renewal, from, type, generation, cause);
    }
    early_message *word = gy_alloc_zero("launch.nodes", 1, sizeof(*word));
    if (word == NULL) {
        return GY_NOMEM;
    }
    *word =
        (early_message){.from = from, .type = type, .generation = generation, .cause = *cause};
    early_message **last = &nodes->early;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = word;
    return GY_OK;
}

/* Parse the generation; the rest of the body follows it. */
static gy_status take_generation(const gy_transport_frame *frame, const uint8_t **body,
                                 size_t *size, uint32_t *generation)
{
    if (frame->size_bytes < GENERATION_BYTES) {
        return gy_fail(GY_FORMAT, "a frame of %llu bytes between keepers",
                       (unsigned long long)frame->size_bytes);
    }
    memcpy(generation, *body, sizeof(*generation));
    *body += GENERATION_BYTES;
    *size = (size_t)frame->size_bytes - GENERATION_BYTES;
    return GY_OK;
}

/* Check that a node has as many ranks as before. */
static gy_status take_entry_again(gy_nodes *nodes, int which, const uint8_t *bytes, size_t size,
                                  size_t *used)
{
    node *entry = &nodes->nodes[which];
    int before = entry->is_known ? entry->ranks : 0;
    GY_TRY(take_entry(bytes, size, entry, used));
    return before == 0 || entry->ranks == before
               ? GY_OK
               : gy_fail(GY_FORMAT, "node %d has %d ranks, %d before", which, entry->ranks,
                         before);
}

static gy_status handle_node(gy_nodes *nodes, int from, const gy_transport_frame *frame,
                             const uint8_t *body)
{
    size_t used = 0, size = 0;
    uint32_t generation = 0;
    GY_TRY(take_generation(frame, &body, &size, &generation));
    bool is_first = generation == 0 && !nodes->nodes[from].is_known;
    if (nodes->options->node != 0 || is_first == (nodes->renewal != NULL)) {
        return gy_fail(GY_FORMAT, "a node sent its address without a request");
    }
    GY_TRY(take_entry_again(nodes, from, body, size, &used));
    return is_first ? GY_OK
                    : gy_renewal_handle(nodes->renewal, from, GY_FRAME_NODE, generation, NULL);
}

static gy_status handle_table(gy_nodes *nodes, const gy_transport_frame *frame,
                              const uint8_t *body)
{
    size_t size = 0, at = GY_RUN_ID_BYTES + sizeof(nodes->epoch);
    uint32_t generation = 0;
    GY_TRY(take_generation(frame, &body, &size, &generation));
    bool is_first = generation == 0 && !nodes->has_table;
    if (nodes->options->node == 0 || is_first == (nodes->renewal != NULL) || size < at) {
        return gy_fail(GY_FORMAT, "a node sent a table of nodes without a request");
    }
    memcpy(nodes->run, body, GY_RUN_ID_BYTES);
    memcpy(&nodes->epoch, body + GY_RUN_ID_BYTES, sizeof(nodes->epoch));
    for (int i = 0; i < nodes->options->nodes; i++) {
        size_t used = 0;
        GY_TRY(take_entry_again(nodes, i, body + at, size - at, &used));
        at += used;
    }
    if (nodes->nodes[nodes->options->node].ranks != nodes->options->ranks) {
        return gy_fail(GY_FORMAT, "node 0 gives node %d another number of ranks",
                       nodes->options->node);
    }
    nodes->has_table = true;
    return is_first ? GY_OK
                    : gy_renewal_handle(nodes->renewal, 0, GY_FRAME_TABLE, generation, NULL);
}

static void store_end(gy_nodes *nodes, const gy_run_end *end)
{
    if (!nodes->has_end) {
        nodes->end = *end;
        nodes->has_end = true;
    }
}

static void put_end(gy_text *body, const gy_run_end *end)
{
    int32_t words[2] = {end->status | (end->is_lost ? LOST_BIT : 0), end->number};
    gy_text_add_bytes(body, words, sizeof(words));
    gy_text_add_bytes(body, end->text, strlen(end->text));
}

static gy_status take_end(const uint8_t *body, size_t size, gy_run_end *end)
{
    int32_t words[2];
    if (size < END_BYTES) {
        return gy_fail(GY_FORMAT, "an end of %zu bytes", size);
    }
    memcpy(words, body, sizeof(words));
    *end = (gy_run_end){
        .status = words[0] & 255, .number = words[1], .is_lost = (words[0] & LOST_BIT) != 0};
    memcpy(end->text, body + END_BYTES, GY_MIN(size - END_BYTES, sizeof(end->text) - 1));
    return GY_OK;
}

/* Send to one node, or (-1) to all connected ones but `but`. A broken link is no error here:
 * the next read finds it. GY_NOMEM */
static gy_status pass_frame(gy_nodes *nodes, int to, int but, gy_transport_frame_type type,
                            const gy_text *body)
{
    GY_TRY(body->status);
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_tcp_link *link = nodes->nodes[i].link;
        if (link != NULL && i != but && (to < 0 || i == to)) {
            GY_TRY(gy_tcp_link_note(link, type, body->data, body->size_bytes));
            (void)gy_tcp_link_push(link);
        }
    }
    return GY_OK;
}

static void send_end(gy_nodes *nodes, const gy_run_end *end, int but)
{
    gy_text body = {.data = NULL};
    put_end(&body, end);
    if (pass_frame(nodes, -1, but, GY_FRAME_END, &body) < 0) {
        gy_warn("cannot report the end to the other nodes: %s", gy_error_text());
    }
    gy_text_free(&body);
}

static gy_status handle_end(gy_nodes *nodes, int from, const gy_transport_frame *frame,
                            const uint8_t *body)
{
    gy_run_end end = {.status = 1};
    GY_TRY(take_end(body, (size_t)frame->size_bytes, &end));
    if (!nodes->has_end) {
        store_end(nodes, &end);
        send_end(nodes, &end, from);
        if (end.is_lost) {
            gy_nodes_report_lost(nodes->options);
        }
    }
    return GY_OK;
}

/* Handle a message about generations that carries no addresses. */
static gy_status handle_message(gy_nodes *nodes, int from, const gy_transport_frame *frame,
                                const uint8_t *body)
{
    size_t size = 0;
    uint32_t generation = 0;
    gy_run_end cause = {.status = 0};
    GY_TRY(take_generation(frame, &body, &size, &generation));
    if (frame->type == GY_FRAME_LOST || frame->type == GY_FRAME_RENEW) {
        GY_TRY(take_end(body, size, &cause));
    }
    return pass_on(nodes, from, frame->type, generation, &cause);
}

static gy_status hear(void *arg, const gy_transport_frame *frame, const uint8_t *body)
{
    const ear *at = arg;
    switch (frame->type) {
    case GY_FRAME_NODE:
        return handle_node(at->nodes, at->from, frame, body);
    case GY_FRAME_TABLE:
        return handle_table(at->nodes, frame, body);
    case GY_FRAME_DONE:
        at->nodes->nodes[at->from].is_done = true;
        return GY_OK;
    case GY_FRAME_END:
        return handle_end(at->nodes, at->from, frame, body);
    case GY_FRAME_LOST:
    case GY_FRAME_RENEW:
    case GY_FRAME_READY:
    case GY_FRAME_OVER:
        return handle_message(at->nodes, at->from, frame, body);
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
    gy_tcp_link_free(gone->link);
    gone->link = NULL;
    if (!gone->is_done) {
        gy_run_end end = {.status = 1, .number = SIGTERM, .is_lost = true};
        char where[GY_ADDRESS_TEXT_BYTES] = "";
        (void)gy_address_text(&gone->address, where);
        where[strlen(where) - strlen(strrchr(where, ':'))] = '\0'; /* without the port */
        snprintf(end.text, sizeof(end.text), "node %d (%s) is lost: %.800s", from, where,
                 gy_error_text());
        if (!nodes->has_end) {
            store_end(nodes, &end);
            send_end(nodes, &end, from);
            gy_nodes_report_lost(nodes->options);
        }
    }
}

void gy_nodes_report_lost(const gy_run_options *options)
{
    if (options->lost_fd > 0 && write(options->lost_fd, "l", 1) != 1) {
        gy_warn("cannot report a lost node: %s", strerror(errno));
    }
}

void gy_nodes_step_links(gy_nodes *nodes)
{
    for (int i = 0; i < nodes->options->nodes; i++) {
        node *at = &nodes->nodes[i];
        if (at->link != NULL && gy_tcp_link_push(at->link) < 0) {
            lose(nodes, i);
        }
        if (at->link != NULL &&
            gy_tcp_link_pull(at->link, hear, &(ear){.nodes = nodes, .from = i}) < 0) {
            lose(nodes, i);
        }
    }
}

nfds_t gy_nodes_poll(const gy_nodes *nodes, struct pollfd *looks)
{
    nfds_t count = 0;
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_tcp_link *link = nodes->nodes[i].link;
        if (link != NULL) {
            short events = (short)(POLLIN | (gy_tcp_link_is_full(link) ? POLLOUT : 0));
            looks[count++] = (struct pollfd){.fd = gy_tcp_wire_socket(gy_tcp_link_wire(link)),
                                             .events = events};
        }
    }
    return count;
}

bool gy_nodes_step(gy_nodes *nodes, gy_run_end *end)
{
    gy_nodes_step_links(nodes);
    if (nodes->has_end && !nodes->is_told) {
        nodes->is_told = true;
        *end = nodes->end;
        return true;
    }
    return false;
}

void gy_nodes_report_end(gy_nodes *nodes, const gy_run_end *end)
{
    if (!nodes->has_end) {
        store_end(nodes, end);
        nodes->is_told = true;
        send_end(nodes, end, -1);
    }
}

static void send_done(gy_nodes *nodes)
{
    if (pass_frame(nodes, -1, -1, GY_FRAME_DONE, &(gy_text){.data = NULL}) < 0) {
        gy_warn("cannot report success to the other nodes: %s", gy_error_text());
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

/* ---- Generations ---- */

gy_status gy_nodes_listen_at(gy_nodes *nodes, const gy_address *own, int *listeners)
{
    node *entry = &nodes->nodes[nodes->options->node];
    int ranks = nodes->options->ranks;
    gy_address here = *own; /* the address that the node had */
    gy_free(entry->ports);
    entry->ports = gy_alloc_zero("launch.nodes", (size_t)ranks, sizeof(*entry->ports));
    if (entry->ports == NULL) {
        return GY_NOMEM;
    }
    entry->ranks = ranks;
    entry->address = here;
    gy_address_set_port(&entry->address, 0);
    for (int rank = 0; rank < ranks; rank++) {
        gy_address at = entry->address;
        GY_TRY(gy_address_listen(&at, &listeners[rank]));
        entry->ports[rank] = gy_address_port(&at);
    }
    entry->is_known = true;
    return GY_OK;
}

gy_status gy_nodes_send(gy_nodes *nodes, int to, gy_transport_frame_type type,
                        uint32_t generation, const gy_run_end *cause)
{
    gy_text body = {.data = NULL};
    gy_text_add_bytes(&body, &generation, GENERATION_BYTES);
    if (type == GY_FRAME_NODE) {
        put_entry(&body, &nodes->nodes[nodes->options->node]);
    } else if (type == GY_FRAME_TABLE) {
        gy_text_add_bytes(&body, nodes->run, sizeof(nodes->run));
        gy_text_add_bytes(&body, &nodes->epoch, sizeof(nodes->epoch));
        for (int i = 0; i < nodes->options->nodes; i++) {
            put_entry(&body, &nodes->nodes[i]);
        }
    } else if (cause != NULL) {
        put_end(&body, cause);
    }
    gy_status status = pass_frame(nodes, to, -1, type, &body);
    gy_text_free(&body);
    return status;
}

gy_status gy_nodes_listen(gy_nodes *nodes, int *listeners)
{
    if (nodes->options->node == 0) {
        GY_TRY(gy_transport_run_id_make(nodes->run)); /* the table carries it to the others */
    }
    return gy_nodes_listen_at(nodes, &nodes->nodes[nodes->options->node].address, listeners);
}

gy_status gy_nodes_attach(gy_nodes *nodes, gy_renewal *renewal)
{
    nodes->renewal = renewal;
    gy_status status = GY_OK;
    while (nodes->early != NULL) {
        early_message *word = nodes->early;
        nodes->early = word->next;
        status = status < 0 ? status
                            : gy_renewal_handle(renewal, word->from, word->type,
                                                word->generation, &word->cause);
        gy_free(word);
    }
    return status;
}

gy_status gy_nodes_keys(const gy_nodes *nodes, const char *path, const char *role,
                        const uint8_t *run, gy_keys *keys)
{
    static const uint8_t no_run[GY_RUN_ID_BYTES];
    const char *key = nodes->options->key;
    if (key == NULL) {
        return gy_keys_read(path, role, run, keys);
    }
    *keys = (gy_keys){.count = 1};
    keys->items[0].epoch = 1;
    return gy_transport_key_derive((const uint8_t *)key, strlen(key),
                                   run != NULL ? run : no_run, role, &keys->items[0].key);
}

static gy_status read_rank_key(const gy_nodes *nodes, gy_transport_key *key)
{
    gy_keys keys;
    GY_TRY(gy_nodes_keys(nodes, nodes->key_path, GY_ROLE_RANK, nodes->run, &keys));
    const gy_transport_key *found = gy_keys_find(&keys, nodes->epoch);
    if (found != NULL) {
        *key = *found;
    }
    gy_keys_wipe(&keys);
    return found != NULL
               ? GY_OK
               : gy_fail(GY_STATE, "%s has no epoch %llu, which the ranks of this launch use",
                         nodes->key_path, (unsigned long long)nodes->epoch);
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
            made->endpoints[rank] =
                (gy_run_endpoint){.address = nodes->nodes[i].address, .host = i};
            gy_address_set_port(&made->endpoints[rank].address, nodes->nodes[i].ports[port]);
        }
    }
    gy_status status = GY_OK;
    if (made->has_key) {
        status = read_rank_key(nodes, &made->key);
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
    while (nodes->early != NULL) {
        early_message *word = nodes->early;
        nodes->early = word->next;
        gy_free(word);
    }
    for (int i = 0; i < nodes->options->nodes; i++) {
        gy_tcp_link *link = nodes->nodes[i].link;
        while (link != NULL && gy_tcp_link_is_full(link) &&
               gy_now_ns(nodes->env) < deadline.at_ns) {
            struct pollfd look = {.fd = gy_tcp_wire_socket(gy_tcp_link_wire(link)),
                                  .events = POLLOUT};
            (void)poll(&look, 1, LOOK_MS);
            if (gy_tcp_link_push(link) < 0) {
                break;
            }
        }
        gy_tcp_link_free(link);
    }
    for (int i = 0; i < GY_MAX(nodes->options->nodes, 1); i++) {
        gy_free(nodes->nodes[i].ports);
    }
    gy_tcp_acceptor_free(nodes->door);
    gy_greeting_free(nodes->greeting);
    gy_tls_free(nodes->tls);
    gy_free(nodes->key_path);
    gy_free(nodes);
}
