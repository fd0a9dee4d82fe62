#include "sim/sim_priv.h"

#include <string.h>

typedef struct sim_packet {
    struct sim_packet *next;
    size_t size_bytes;
    uint8_t data[];
} sim_packet;

/* One direction between two nodes. */
typedef struct sim_channel {
    gy_sim *sim;
    int from, to;
    gy_sim_link link;
    bool is_cut;
    int64_t free_ns;           /* when the bytes sent so far have left */
    int64_t last_ns;           /* when the last message of the stream arrives */
    uint64_t draws;            /* each link has its own chance */
    sim_packet *first, *last;  /* of the stream, in order */
    size_t waiting, scheduled; /* messages; events that will deliver one each */
    struct cast *casts;        /* datagrams under way */
    struct sim_channel *next_void;
} sim_channel;

typedef struct cast {
    struct cast *next;
    sim_channel *channel;
    sim_packet *packet;
} cast;

static gy_status channel_of(gy_sim *sim, int from, int to, sim_channel **channel)
{
    GY_ASSERT(from >= 0 && from < sim->node_count && to >= 0 && to < sim->node_count);
    sim_channel **place = &sim->channels[(size_t)from * (size_t)sim->node_count + (size_t)to];
    if (*place == NULL) {
        sim_channel *made = gy_alloc_zero("sim.channel", 1, sizeof(*made));
        if (made == NULL) {
            return GY_NOMEM;
        }
        *made = (sim_channel){.sim = sim, .from = from, .to = to, .link = sim->link};
        *place = made;
    }
    *channel = *place;
    return GY_OK;
}

static double chance(sim_channel *channel)
{
    uint32_t out[4];
    uint64_t stream = 1u << 31 | ((uint64_t)channel->from << 32) | (uint64_t)channel->to;
    gy_philox(channel->sim->seed, stream, channel->draws++, out);
    return (double)out[0] * 0x1p-32;
}

static sim_packet *copy_packet(const void *data, size_t size_bytes)
{
    sim_packet *made = gy_alloc("sim.packet", sizeof(sim_packet) + size_bytes);
    if (made != NULL) {
        made->next = NULL;
        made->size_bytes = size_bytes;
        if (size_bytes > 0) {
            memcpy(made->data, data, size_bytes);
        }
    }
    return made;
}

/* When a message that is sent now arrives; its bytes queue behind those sent before. */
static int64_t arrival_ns(sim_channel *channel, size_t size_bytes)
{
    const gy_sim_link *link = &channel->link;
    int64_t start_ns = GY_MAX(channel->sim->now_ns, channel->free_ns);
    double bytes_ns =
        link->bytes_per_second > 0 ? (double)size_bytes / link->bytes_per_second * 1e9 : 0;
    channel->free_ns = start_ns + (int64_t)bytes_ns;
    int64_t jitter_ns = (int64_t)(chance(channel) * (double)(link->jitter_ns + 1));
    return channel->free_ns + link->latency_ns + GY_MIN(jitter_ns, link->jitter_ns);
}

static void hand_over(sim_channel *channel, const char *what, sim_packet *packet)
{
    gy_sim *sim = channel->sim;
    gy_sim_node *to = &sim->nodes[channel->to];
    if (to->is_up && to->receive != NULL) {
        gy_sim_note(sim, what, channel->from, channel->to);
        sim->digest = gy_hash(packet->data, packet->size_bytes, sim->digest);
        to->receive(to->receive_arg, channel->from, packet->data, packet->size_bytes);
    }
    gy_free(packet);
}

/* An event of the stream: the first message that waits, if the link lets it pass. */
static void deliver(void *arg)
{
    sim_channel *channel = arg;
    channel->scheduled--;
    sim_packet *packet = channel->first;
    if (channel->is_cut || packet == NULL) {
        return;
    }
    channel->first = packet->next;
    channel->last = packet->next == NULL ? NULL : channel->last;
    channel->waiting--;
    hand_over(channel, "message", packet);
}

gy_status gy_sim_send(gy_sim *sim, int from, int to, const void *data, size_t size_bytes)
{
    sim_channel *channel = NULL;
    if (!gy_sim_is_up(sim, from) || !gy_sim_is_up(sim, to)) {
        return gy_fail(GY_PEER, "node %d is down", gy_sim_is_up(sim, from) ? to : from);
    }
    GY_TRY(channel_of(sim, from, to, &channel));
    sim_packet *packet = copy_packet(data, size_bytes);
    if (packet == NULL) {
        return GY_NOMEM;
    }
    int64_t at_ns = arrival_ns(channel, size_bytes);
    at_ns = GY_MAX(at_ns, channel->last_ns);
    gy_status status = gy_sim_at(sim, at_ns, deliver, channel);
    if (status < 0) {
        gy_free(packet);
        return status;
    }
    channel->last_ns = at_ns;
    channel->scheduled++;
    channel->waiting++;
    if (channel->last != NULL) {
        channel->last->next = packet;
    } else {
        channel->first = packet;
    }
    channel->last = packet;
    return GY_OK;
}

static void deliver_cast(void *arg)
{
    cast *one = arg;
    sim_channel *channel = one->channel;
    cast **place = &channel->casts;
    while (*place != one) {
        place = &(*place)->next;
    }
    *place = one->next;
    sim_packet *packet = one->packet;
    gy_free(one);
    if (packet == NULL) {
        return; /* a node crashed meanwhile */
    }
    if (channel->is_cut) {
        gy_free(packet);
        return;
    }
    hand_over(channel, "datagram", packet);
}

static gy_status cast_once(sim_channel *channel, const void *data, size_t size_bytes)
{
    sim_packet *packet = copy_packet(data, size_bytes);
    cast *one = gy_alloc("sim.cast", sizeof(*one));
    gy_status status =
        packet == NULL || one == NULL
            ? GY_NOMEM
            : gy_sim_at(channel->sim, arrival_ns(channel, size_bytes), deliver_cast, one);
    if (status < 0) {
        gy_free(packet);
        gy_free(one);
        return status;
    }
    *one = (cast){.next = channel->casts, .channel = channel, .packet = packet};
    channel->casts = one;
    return GY_OK;
}

gy_status gy_sim_cast(gy_sim *sim, int from, int to, const void *data, size_t size_bytes)
{
    sim_channel *channel = NULL;
    GY_TRY(channel_of(sim, from, to, &channel));
    /* Both numbers are drawn in any case: a changed probability does not shift what follows. */
    bool is_lost = chance(channel) < channel->link.drop;
    bool is_doubled = chance(channel) < channel->link.duplicate;
    if (is_lost || channel->is_cut || !gy_sim_is_up(sim, from) || !gy_sim_is_up(sim, to)) {
        gy_sim_note(sim, "lost", from, to);
        return GY_OK;
    }
    GY_TRY(cast_once(channel, data, size_bytes));
    return is_doubled ? cast_once(channel, data, size_bytes) : GY_OK;
}

gy_status gy_sim_set_link(gy_sim *sim, int from, int to, const gy_sim_link *link)
{
    sim_channel *channel = NULL;
    GY_TRY(channel_of(sim, from, to, &channel));
    channel->link = *link;
    return GY_OK;
}

gy_status gy_sim_cut(gy_sim *sim, int from, int to, bool is_cut)
{
    sim_channel *channel = NULL;
    GY_TRY(channel_of(sim, from, to, &channel));
    gy_sim_note(sim, is_cut ? "cut" : "heal", from, to);
    channel->is_cut = is_cut;
    /* What could not pass is sent again, in the old order. */
    while (!is_cut && channel->scheduled < channel->waiting) {
        int64_t at_ns = GY_MAX(sim->now_ns + channel->link.latency_ns, channel->last_ns);
        GY_TRY(gy_sim_at(sim, at_ns, deliver, channel));
        channel->last_ns = at_ns;
        channel->scheduled++;
    }
    return GY_OK;
}

/* Nothing under way arrives; events that are still to come find an empty channel. */
static void drop_all(sim_channel *channel)
{
    while (channel->first != NULL) {
        sim_packet *packet = channel->first;
        channel->first = packet->next;
        gy_free(packet);
    }
    channel->last = NULL;
    for (cast *one = channel->casts; one != NULL; one = one->next) {
        gy_free(one->packet);
        one->packet = NULL;
    }
}

static void free_channel(sim_channel *channel)
{
    drop_all(channel);
    while (channel->casts != NULL) {
        cast *one = channel->casts;
        channel->casts = one->next;
        gy_free(one);
    }
    gy_free(channel);
}

/* A crash breaks the connection: the next message starts a channel with the same properties. */
static void replace(gy_sim *sim, sim_channel **place)
{
    sim_channel *old = *place, *fresh = NULL;
    if (old == NULL) {
        return;
    }
    drop_all(old);
    old->waiting = 0;
    if (old->scheduled == 0 && old->casts == NULL) {
        return; /* no event refers to it */
    }
    fresh = gy_alloc_zero("sim.channel", 1, sizeof(*fresh));
    if (fresh == NULL) {
        gy_panic("no memory to simulate a crash");
    }
    *fresh = (sim_channel){.sim = sim,
                           .from = old->from,
                           .to = old->to,
                           .link = old->link,
                           .is_cut = old->is_cut,
                           .draws = old->draws};
    old->next_void = sim->voids;
    sim->voids = old;
    *place = fresh;
}

void gy_sim_channels_reset(gy_sim *sim, int node)
{
    size_t count = (size_t)sim->node_count, me = (size_t)node;
    for (size_t other = 0; other < count; other++) {
        replace(sim, &sim->channels[me * count + other]);
        replace(sim, &sim->channels[other * count + me]);
    }
}

void gy_sim_channels_free(gy_sim *sim)
{
    size_t count = (size_t)sim->node_count;
    for (size_t i = 0; i < count * count; i++) {
        if (sim->channels[i] != NULL) {
            free_channel(sim->channels[i]);
        }
    }
    while (sim->voids != NULL) {
        sim_channel *channel = sim->voids;
        sim->voids = channel->next_void;
        free_channel(channel);
    }
}
