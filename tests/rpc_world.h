/*
 * Room rpc over room sim: a carrier whose connections are packets of a simulated network, so
 * that what speaks through gy_rpc can be driven with delay, loss, cuts, stops and crashes.
 *
 * One host a node of the simulator. A host is its gy_rpc and the connections of its present
 * life. Addresses are "n3:1". After whatever was called at a host from outside a callback:
 * rpc_host_settle.
 */
#ifndef GY_TESTS_RPC_WORLD_H
#define GY_TESTS_RPC_WORLD_H

#include "rpc/carrier.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RPC_WORLD_HOSTS
#define RPC_WORLD_HOSTS 16
#define RPC_WORLD_LINKS 64
#endif

enum { RPC_LINKS = RPC_WORLD_LINKS, RPC_HOSTS = RPC_WORLD_HOSTS, RPC_MANY = 10000 };

typedef enum rpc_packet_kind {
    PACKET_OPEN,
    PACKET_OPENED,
    PACKET_DATA,
    PACKET_CLOSE
} rpc_packet_kind;

typedef struct rpc_packet {
    uint8_t kind, role, is_of_dialler;
    char subject[GY_RPC_SUBJECT_BYTES];
    uint64_t id; /* of the connection, by its dialler */
} rpc_packet;

typedef struct rpc_sim_link {
    gy_rpc_link *link; /* NULL: a free place */
    int other;
    uint64_t id;
    bool is_dialled, is_up, is_pushed, is_broken;
    int64_t busy_ns; /* nothing is taken from it before */
} rpc_sim_link;

typedef struct rpc_net rpc_net;

typedef struct rpc_host {
    rpc_net *net;
    int node;
    gy_rpc *rpc;        /* NULL: down */
    gy_rpc_role proved; /* the role and subject of its key; options may lie */
    char proved_subject[GY_RPC_SUBJECT_BYTES];
    uint32_t life;
    uint64_t link_count;
    int64_t wake_ns, stopped_until_ns;
    bool is_crashing;
    rpc_sim_link links[RPC_LINKS];
} rpc_host;

struct rpc_net {
    gy_sim *sim;
    int host_count;
    /* Packets as datagrams, which are lost, doubled and overtaken: connections break, as they
     * do when packets of another connection come; else as over TCP. */
    bool is_lossy;
    /* Of a packet that a host sends, beside the network's; NULL: none. */
    int64_t (*delay)(void *arg, int from, rpc_packet_kind kind);
    void *delay_arg;
    /* Pause after many bytes of a connection, which is then full; 0: none. */
    int64_t pause_ns;
    rpc_host hosts[RPC_HOSTS];
};

/* An errand for later: a packet, or a host that has something to do. */
typedef struct rpc_later {
    rpc_host *host;
    uint32_t life;
    int from;
    size_t size_bytes;
    bool is_packet, is_sent; /* is_sent: it goes to `from` */
    uint8_t data[];
} rpc_later;

static void rpc_host_settle(rpc_host *host);
static void rpc_host_take(rpc_host *host, int from, const void *data, size_t size_bytes);

static inline void rpc_at(rpc_net *net, int64_t at_ns, gy_env_fire fire, void *arg)
{
    if (gy_sim_at(net->sim, at_ns, fire, arg) < 0) {
        gy_panic("no memory for a simulated network");
    }
}

/* ---- Packets ---- */

static inline gy_status rpc_put(rpc_host *host, int to, const void *data, size_t size_bytes)
{
    gy_sim *sim = host->net->sim;
    return host->net->is_lossy ? gy_sim_cast(sim, host->node, to, data, size_bytes)
                               : gy_sim_send(sim, host->node, to, data, size_bytes);
}

static inline void rpc_later_fire(void *arg)
{
    rpc_later *later = arg;
    rpc_host *host = later->host;
    bool is_alive = host->rpc != NULL && host->life == later->life;
    if (is_alive && later->is_sent) {
        (void)rpc_put(host, later->from, later->data, later->size_bytes);
    } else if (is_alive && later->is_packet) {
        rpc_host_take(host, later->from, later->data, later->size_bytes);
    } else if (is_alive) {
        host->wake_ns = INT64_MAX;
        rpc_host_settle(host);
    }
    gy_free(later);
}

static inline rpc_later *rpc_later_new(rpc_host *host, const void *data, size_t size_bytes)
{
    rpc_later *made = gy_alloc_zero("test.later", 1, sizeof(*made) + size_bytes);
    if (made == NULL) {
        gy_panic("no memory for a simulated network");
    }
    *made = (rpc_later){.host = host, .life = host->life, .size_bytes = size_bytes};
    if (size_bytes > 0) {
        memcpy(made->data, data, size_bytes);
    }
    return made;
}

static inline gy_status rpc_send(rpc_host *host, const rpc_sim_link *link, rpc_packet_kind kind,
                                 const void *data, size_t size_bytes)
{
    rpc_net *net = host->net;
    uint8_t *packet = gy_alloc("test.packet", sizeof(rpc_packet) + size_bytes);
    rpc_packet head = {.kind = (uint8_t)kind,
                       .role = (uint8_t)host->proved,
                       .is_of_dialler = link->is_dialled,
                       .id = link->id};
    memcpy(head.subject, host->proved_subject, sizeof(head.subject));
    if (packet == NULL) {
        gy_panic("no memory for a simulated network");
    }
    memcpy(packet, &head, sizeof(head));
    if (size_bytes > 0) {
        memcpy(packet + sizeof(head), data, size_bytes);
    }
    int64_t delay_ns = net->delay != NULL ? net->delay(net->delay_arg, host->node, kind) : 0;
    gy_status status = GY_OK;
    if (delay_ns > 0) {
        rpc_later *later = rpc_later_new(host, packet, sizeof(head) + size_bytes);
        later->from = link->other;
        later->is_sent = true;
        rpc_at(net, gy_sim_now_ns(net->sim) + delay_ns, rpc_later_fire, later);
    } else {
        status = rpc_put(host, link->other, packet, sizeof(head) + size_bytes);
    }
    gy_free(packet);
    return status;
}

/* ---- The carrier ---- */

static inline rpc_sim_link *rpc_link_of(rpc_host *host, int other, uint64_t id, bool is_dialled)
{
    for (int i = 0; i < RPC_LINKS; i++) {
        rpc_sim_link *at = &host->links[i];
        if (at->link != NULL && at->other == other && at->id == id &&
            at->is_dialled == is_dialled) {
            return at;
        }
    }
    return NULL;
}

static inline rpc_sim_link *rpc_link_place(rpc_host *host)
{
    for (int i = 0; i < RPC_LINKS; i++) {
        if (host->links[i].link == NULL) {
            return &host->links[i];
        }
    }
    gy_panic("more than %d connections of a simulated host", RPC_LINKS);
}

static inline gy_status rpc_dial(void *carrier, gy_rpc_link *link, const char *address)
{
    rpc_host *host = carrier;
    rpc_sim_link *place = rpc_link_place(host);
    int other = (int)strtol(address + 1, NULL, 10);
    GY_ASSERT(address[0] == 'n' && other >= 0 && other < host->net->host_count);
    *place = (rpc_sim_link){.link = link,
                            .other = other,
                            .id = (uint64_t)host->life << 32 | ++host->link_count,
                            .is_dialled = true};
    gy_status status = rpc_send(host, place, PACKET_OPEN, NULL, 0);
    if (status < 0) {
        place->link = NULL;
        return status;
    }
    gy_rpc_link_set_tag(link, place);
    return GY_OK;
}

static inline void rpc_push(void *carrier, gy_rpc_link *link)
{
    rpc_sim_link *place = gy_rpc_link_tag(link);
    (void)carrier;
    place->is_pushed = true;
}

/* All that a connection has to send, which is whole frames: the caller frees it. */
static inline uint8_t *rpc_gather(const gy_rpc_link *link, size_t *size_bytes)
{
    struct iovec pieces[GY_RPC_PIECES];
    int count = gy_rpc_link_outputs(link, pieces);
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        size += pieces[i].iov_len;
    }
    uint8_t *all = gy_alloc("test.frames", size + 1);
    if (all == NULL) {
        gy_panic("no memory for a simulated network");
    }
    *size_bytes = 0;
    for (int i = 0; i < count; i++) {
        memcpy(all + *size_bytes, pieces[i].iov_base, pieces[i].iov_len);
        *size_bytes += pieces[i].iov_len;
    }
    return all;
}

static inline void rpc_close(void *carrier, gy_rpc_link *link)
{
    rpc_host *host = carrier;
    rpc_sim_link *place = gy_rpc_link_tag(link);
    size_t size = 0;
    uint8_t *data = rpc_gather(link, &size);
    if (!host->is_crashing) { /* if it fails nobody is there */
        if (size > 0 && place->is_up) {
            (void)rpc_send(host, place, PACKET_DATA, data, size);
        }
        (void)rpc_send(host, place, PACKET_CLOSE, NULL, 0);
    }
    gy_free(data);
    place->link = NULL;
}

static const gy_rpc_carrier_ops rpc_sim_ops = {
    .name = "sim", .dial = rpc_dial, .push = rpc_push, .close = rpc_close};

/* ---- Hosts ---- */

static inline void rpc_flush(rpc_host *host, rpc_sim_link *place)
{
    const void *data = NULL;
    place->is_pushed = false;
    while (place->link != NULL && place->is_up && gy_rpc_link_output(place->link, &data) > 0) {
        gy_rpc_link *link = place->link;
        size_t size = 0;
        uint8_t *frames = rpc_gather(link, &size);
        gy_status status = rpc_send(host, place, PACKET_DATA, frames, size);
        gy_free(frames);
        if (status < 0) {
            place->link = NULL;
            gy_rpc_link_lost(host->rpc, link, status);
            return;
        }
        gy_rpc_link_sent(host->rpc, link, size);
        if (size >= RPC_MANY && host->net->pause_ns > 0 && place->link != NULL) {
            place->busy_ns = gy_sim_now_ns(host->net->sim) + host->net->pause_ns;
            place->is_pushed = true;
            return;
        }
    }
}

static void rpc_host_settle(rpc_host *host)
{
    gy_sim *sim = host->net->sim;
    int64_t now_ns = gy_sim_now_ns(sim);
    if (host->rpc == NULL || host->is_crashing) {
        return;
    }
    if (now_ns < host->stopped_until_ns) {
        now_ns = host->stopped_until_ns; /* it does nothing before */
    } else {
        bool has_more = true;
        while (has_more) {
            gy_rpc_tick(host->rpc);
            has_more = gy_rpc_next(host->rpc).at_ns <= now_ns;
            for (int i = 0; i < RPC_LINKS; i++) {
                if (host->links[i].link != NULL && host->links[i].is_pushed &&
                    host->links[i].busy_ns <= now_ns) {
                    rpc_flush(host, &host->links[i]);
                    has_more = true;
                }
            }
        }
    }
    int64_t next_ns = GY_MAX(gy_rpc_next(host->rpc).at_ns, now_ns);
    for (int i = 0; i < RPC_LINKS; i++) {
        if (host->links[i].link != NULL && host->links[i].is_pushed) {
            next_ns = GY_MIN(next_ns, GY_MAX(host->links[i].busy_ns, now_ns));
        }
    }
    if (next_ns < host->wake_ns) {
        host->wake_ns = next_ns;
        rpc_at(host->net, next_ns, rpc_later_fire, rpc_later_new(host, NULL, 0));
    }
}

static inline void rpc_host_hear(rpc_host *host, int from, const rpc_packet *head,
                                 const void *data, size_t size_bytes)
{
    rpc_sim_link *place = rpc_link_of(host, from, head->id, !head->is_of_dialler);
    char text[16];
    if (head->kind == PACKET_OPEN) {
        if (place == NULL) {
            place = rpc_link_place(host);
            *place = (rpc_sim_link){.other = from, .id = head->id, .is_up = true};
            snprintf(text, sizeof(text), "n%d:0", from);
            if (gy_rpc_link_in(host->rpc, text, &place->link) < 0) {
                gy_panic("no memory for a simulated connection");
            }
            gy_rpc_link_set_tag(place->link, place);
            (void)rpc_send(host, place, PACKET_OPENED, NULL, 0);
            gy_rpc_link_up(host->rpc, place->link, (gy_rpc_role)head->role, head->subject);
        }
    } else if (place == NULL) {
        const rpc_sim_link none = {
            .other = from, .id = head->id, .is_dialled = !head->is_of_dialler};
        if (head->kind != PACKET_CLOSE) {
            (void)rpc_send(host, &none, PACKET_CLOSE, NULL, 0);
        }
    } else if (head->kind == PACKET_OPENED && place->is_dialled && !place->is_up) {
        place->is_up = true;
        gy_rpc_link_up(host->rpc, place->link, GY_RPC_ROLES, "");
    } else if (head->kind == PACKET_DATA && place->is_up) {
        gy_rpc_link_input(host->rpc, place->link, data, size_bytes);
    } else if (head->kind == PACKET_CLOSE) {
        gy_rpc_link *link = place->link;
        place->link = NULL;
        gy_rpc_link_lost(host->rpc, link, gy_fail(GY_PEER, "the other end closed it"));
    }
}

static void rpc_host_take(rpc_host *host, int from, const void *data, size_t size_bytes)
{
    rpc_net *net = host->net;
    rpc_packet head;
    if (host->rpc == NULL) {
        return;
    }
    if (gy_sim_now_ns(net->sim) < host->stopped_until_ns) {
        rpc_later *later = rpc_later_new(host, data, size_bytes);
        later->from = from;
        later->is_packet = true;
        rpc_at(net, host->stopped_until_ns, rpc_later_fire, later);
        return;
    }
    GY_ASSERT(size_bytes >= sizeof(head));
    memcpy(&head, data, sizeof(head));
    rpc_host_hear(host, from, &head, (const uint8_t *)data + sizeof(head),
                  size_bytes - sizeof(head));
    rpc_host_settle(host);
}

static inline void rpc_host_receive(void *arg, int from, const void *data, size_t size_bytes)
{
    rpc_host_take(arg, from, data, size_bytes);
}

/* ---- Lives ---- */

static inline void rpc_net_init(rpc_net *net, gy_sim *sim)
{
    *net = (rpc_net){.sim = sim, .host_count = gy_sim_nodes(sim)};
    GY_ASSERT(net->host_count <= RPC_HOSTS);
    for (int i = 0; i < net->host_count; i++) {
        net->hosts[i] = (rpc_host){.net = net, .node = i};
    }
}

/* A new life of a host, whose node is up. */
static inline void rpc_host_start(rpc_host *host, const gy_rpc_options *options)
{
    GY_ASSERT(host->rpc == NULL);
    host->life++;
    host->link_count = 0;
    host->wake_ns = INT64_MAX;
    host->stopped_until_ns = 0;
    host->proved = options->role;
    snprintf(host->proved_subject, sizeof(host->proved_subject), "%s",
             options->subject != NULL ? options->subject : "");
    host->is_crashing = false;
    memset(host->links, 0, sizeof(host->links));
    if (gy_rpc_new_carried(gy_sim_env(host->net->sim, host->node), options, &rpc_sim_ops, host,
                           &host->rpc) < 0) {
        gy_panic("no simulated host: %s", gy_error_text());
    }
    gy_sim_listen(host->net->sim, host->node, rpc_host_receive, host);
}

/* It is gone, without a word; callbacks that end its calls come within. */
static inline void rpc_host_crash(rpc_host *host)
{
    gy_rpc *rpc = host->rpc;
    host->is_crashing = true;
    gy_rpc_free(rpc);
    host->rpc = NULL;
    gy_sim_crash(host->net->sim, host->node);
}

/* It does and hears nothing until then. */
static inline void rpc_host_stop(rpc_host *host, int64_t until_ns)
{
    host->stopped_until_ns = GY_MAX(host->stopped_until_ns, until_ns);
}

/* Connections of hosts break, as they do where nobody answers. */
static inline void rpc_host_break(rpc_host *host, int other)
{
    for (int i = 0; host->rpc != NULL && i < RPC_LINKS; i++) {
        rpc_sim_link *place = &host->links[i];
        if (place->link != NULL && place->other == other) {
            gy_rpc_link *link = place->link;
            place->link = NULL;
            gy_rpc_link_lost(host->rpc, link, gy_fail(GY_PEER, "the connection broke"));
        }
    }
    rpc_host_settle(host);
}

#endif
