/* Maps, time, and the calls of clients. */
#include "ps/chain/chain_priv.h"

#include <stdio.h>
#include <string.h>

#ifdef GYRE_PLANTED
gy_ps_chain_plant gy_ps_chain_planted;
#endif

void gy_ps_chain_fail(gy_ps_chain *chain, gy_status status)
{
    if (chain->failure.status == GY_OK) {
        gy_error_take(&chain->failure, status);
    }
}

const gy_ps_map *gy_ps_chain_map(const gy_ps_chain *chain)
{
    return &chain->map;
}

bool gy_ps_chain_is_head(const gy_ps_chain *chain, uint32_t part)
{
    GY_ASSERT(part < GY_PS_MAP_PARTS_MAX);
    return chain->places[part].is_head;
}

uint32_t gy_ps_chain_place(const gy_ps_chain *chain, uint32_t part)
{
    GY_ASSERT(part < GY_PS_MAP_PARTS_MAX);
    return part < chain->map.chain_count
               ? gy_ps_map_place(&chain->map.chains[part], chain->options.id) + 1
               : 0;
}

uint64_t gy_ps_chain_epoch(const gy_ps_chain *chain, uint32_t part)
{
    GY_ASSERT(part < GY_PS_MAP_PARTS_MAX);
    return chain->places[part].epoch;
}

/* ---- Open and close ---- */

gy_status gy_ps_chain_new(const gy_ps_chain_options *options, gy_ps_chain **chain)
{
    gy_ps_chain *made = gy_alloc_zero("ps.chain", 1, sizeof(*made));
    GY_ASSERT(options->id != 0);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    for (uint32_t i = 0; i < GY_PS_MAP_PARTS_MAX; i++) {
        made->places[i].answers_end = &made->places[i].answers;
        made->places[i].held_end = &made->places[i].held;
    }
    *chain = made;
    return GY_OK;
}

static void held_free(gy_ps_chain *chain, chain_held *held)
{
    if (held->asked.beside != NULL) {
        chain->options.give(held->asked.beside);
    }
    gy_free(held->body);
    gy_free(held);
}

void gy_ps_chain_free(gy_ps_chain *chain)
{
    if (chain == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GY_PS_MAP_PARTS_MAX; i++) {
        chain_place *place = &chain->places[i];
        for (chain_answer *at = place->answers, *next = NULL; at != NULL; at = next) {
            next = at->next;
            gy_ps_chain_answer_free(at);
        }
        for (chain_held *at = place->held, *next = NULL; at != NULL; at = next) {
            next = at->next;
            held_free(chain, at);
        }
        for (chain_entry *at = place->first, *next = NULL; at != NULL; at = next) {
            next = at->next;
            gy_ps_chain_entry_drop(chain, at);
        }
        gy_text_free(&place->copy);
    }
    gy_free(chain);
}

gy_status gy_ps_chain_start(gy_ps_chain *chain, gy_rpc *rpc, const char *leads,
                            const char *address)
{
    chain->rpc = rpc;
    snprintf(chain->address, sizeof(chain->address), "%s", address);
    const char *at = leads;
    while (*at != '\0' && chain->lead_count < CHAIN_LEADS_MAX) {
        char one[GY_RPC_ADDRESS_BYTES];
        size_t size = strcspn(at, ",");
        if (size == 0 || size >= sizeof(one)) {
            break;
        }
        memcpy(one, at, size);
        one[size] = '\0';
        chain_lead *lead = &chain->leads[chain->lead_count];
        *lead = (chain_lead){.chain = chain};
        GY_TRY(gy_rpc_dial(rpc, one, &lead->peer));
        chain->lead_count++;
        at += size + (at[size] == ',' && at[size + 1] != '\0');
    }
    return *at == '\0' && chain->lead_count > 0
               ? GY_OK
               : gy_fail(GY_ARG, "leads are '%s': expected HOST:PORT,... of 1 to %d", leads,
                         CHAIN_LEADS_MAX);
}

/* ---- Maps ---- */

chain_peer *gy_ps_chain_peer(gy_ps_chain *chain, uint64_t id)
{
    for (uint32_t i = 0; i < chain->peer_count; i++) {
        if (chain->peers[i].id == id) {
            return &chain->peers[i];
        }
    }
    const gy_ps_map_server *server = gy_ps_map_find(&chain->map, id);
    GY_ASSERT(chain->peer_count < GY_PS_MAP_SERVERS_MAX);
    if (server == NULL) {
        return NULL;
    }
    chain_peer *made = &chain->peers[chain->peer_count];
    made->id = id;
    if (gy_rpc_dial(chain->rpc, server->address, &made->peer) < 0) {
        return NULL;
    }
    chain->peer_count++;
    return made;
}

static void drop_peers(gy_ps_chain *chain)
{
    for (uint32_t i = 0; i < chain->peer_count;) {
        if (gy_ps_map_find(&chain->map, chain->peers[i].id) != NULL) {
            i++;
            continue;
        }
        gy_rpc_drop(chain->rpc, chain->peers[i].peer);
        chain->peers[i] = chain->peers[--chain->peer_count];
    }
}

/* Who is behind this server, and what does it surely have? */
static void set_next(chain_place *place, const gy_ps_map_chain *of, uint32_t at)
{
    bool is_last = at + 1 == of->count;
    place->next = is_last ? of->joining : of->members[at + 1];
    place->is_next_joining = is_last && place->next != 0;
    place->is_copied = false;
    place->acked = place->first != NULL ? place->first->number - 1 : place->number;
    place->unsent = place->first;
    place->caught_at = 0;
}

static void leave_chain(gy_ps_chain *chain, uint32_t part, bool had_data)
{
    chain_place *place = &chain->places[part];
    gy_ps_chain_clear(chain, place);
    place->next = 0;
    place->is_next_joining = place->is_copied = false;
    if (had_data) {
        chain->options.drop(chain->options.arg, part);
    }
}

/* The chain begins from a snapshot. What this server has of the part is of before. */
static bool begin_from(gy_ps_chain *chain, uint32_t part, const gy_ps_map_chain *of)
{
    chain_place *place = &chain->places[part];
    gy_ps_chain_clear(chain, place);
    place->born = of->born;
    gy_status status = chain->options.resume(chain->options.arg, part, of->snapshot);
    if (status < 0) {
        gy_ps_chain_fail(chain, status);
    }
    return status == GY_OK;
}

static void take_chain(gy_ps_chain *chain, uint32_t part, const gy_ps_map_chain *of)
{
    chain_place *place = &chain->places[part];
    uint32_t at = gy_ps_map_place(of, chain->options.id);
    bool was_head = place->is_head, had_data = place->has_data;
    place->epoch = of->epoch;
    place->generation++;
    place->flying = 0;
    place->retry_ns = 0;
    place->is_stuck = place->is_asking = place->is_copying = false;
    gy_text_free(&place->copy);
    place->copy = (gy_text){.data = NULL};
    place->is_joining = of->joining == chain->options.id;
    place->is_member = at != UINT32_MAX;
    place->is_head = at == 0;
    if (!place->is_member) {
        leave_chain(chain, part, had_data);
        place->born = of->born; /* as the copy that it may get */
        return;
    }
    if (place->born != of->born && !begin_from(chain, part, of)) {
        return;
    }
    place->has_data = true; /* a chain is born with empty members, or from a snapshot */
    set_next(place, of, at);
    gy_ps_chain_refuse_answers(chain, place, was_head && !place->is_head);
    if (place->is_head && !was_head) {
        gy_info("part %u: this server is its head since epoch %llu", part,
                (unsigned long long)of->epoch);
        chain->options.promote(chain->options.arg, part);
    }
    gy_ps_chain_forward(chain, part);
    gy_ps_chain_advance(chain, part);
}

gy_status gy_ps_chain_take_map(gy_ps_chain *chain, const gy_ps_map *map)
{
    if (chain->map.cluster != 0 && map->cluster != chain->map.cluster) {
        return gy_fail(GY_MISMATCH, "the lead is of cluster %llx, this server of %llx",
                       (unsigned long long)map->cluster,
                       (unsigned long long)chain->map.cluster);
    }
    if (map->epoch <= chain->map.epoch) {
        return GY_OK;
    }
    chain->map = *map;
    drop_peers(chain);
    for (uint32_t i = 0; i < map->chain_count; i++) {
        if (map->chains[i].epoch > chain->places[i].epoch) {
            take_chain(chain, i, &map->chains[i]);
        }
    }
    chain->tick_ns = 0;
    return GY_OK;
}

/* ---- Calls of clients ---- */

static bool is_serving(const gy_ps_chain *chain, const chain_place *place)
{
    return place->is_head && chain->failure.status == GY_OK &&
           gy_ps_chain_now(chain) >= place->granted_until_ns;
}

static void give(gy_ps_chain *chain, const gy_rpc_asked *asked)
{
    if (asked->beside != NULL) {
        chain->options.give(asked->beside);
    }
}

/* An event is recorded once it is carried out; memory for that is got before. */
static gy_status carry_out(gy_ps_chain *chain, uint32_t part, uint32_t type,
                           const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    chain_place *place = &chain->places[part];
    if (!chain->options.is_event(type)) {
        return chain->options.serve(chain->options.arg, type, asked, request);
    }
    chain_entry *entry =
        gy_ps_chain_entry_new(chain, type, request, asked->beside, asked->beside_bytes);
    if (entry == NULL) {
        give(chain, asked);
        return GY_NOMEM;
    }
    place->serving = place->number + 1;
    gy_status status = chain->options.serve(chain->options.arg, type, asked, request);
    place->serving = 0;
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_ps_chain_entry_drop(chain, entry);
        return gy_error_raise(&why);
    }
    gy_ps_chain_append(place, entry);
    gy_ps_chain_forward(chain, part);
    gy_ps_chain_advance(chain, part);
    return GY_OK;
}

static gy_status hold(gy_ps_chain *chain, chain_place *place, const chain_held *what,
                      const ProtobufCMessage *request)
{
    chain_held *made = gy_alloc_zero("ps.held", 1, sizeof(*made));
    size_t size = protobuf_c_message_get_packed_size(request);
    uint8_t *body = gy_alloc("ps.held", size + 1);
    if (made == NULL || body == NULL) {
        gy_free(made);
        gy_free(body);
        give(chain, &what->asked);
        return GY_NOMEM;
    }
    protobuf_c_message_pack(request, body);
    *made = *what;
    made->next = NULL;
    made->body = body;
    made->body_bytes = size;
    *place->held_end = made;
    place->held_end = &made->next;
    return GY_OK;
}

static uint32_t type_of(const gy_ps_chain *chain, const ProtobufCMessage *request)
{
    for (size_t i = 0; i < chain->options.method_count; i++) {
        if (chain->options.methods[i].request == request->descriptor) {
            return chain->options.methods[i].type;
        }
    }
    gy_panic("a call of a kind that nobody serves");
}

static gy_status refuse_old(const chain_place *place, uint32_t part, uint64_t epoch)
{
    return gy_fail(GY_CANCELLED, "part %u: a call by the map of epoch %llu: this is %llu", part,
                   (unsigned long long)epoch, (unsigned long long)place->epoch);
}

gy_status gy_ps_chain_serve(gy_ps_chain *chain, uint32_t part, uint64_t epoch,
                            const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    if (part >= GY_PS_MAP_PARTS_MAX || epoch == 0) {
        give(chain, asked);
        return gy_fail(GY_ARG, "part %u of epoch %llu: this server is one of a lead's", part,
                       (unsigned long long)epoch);
    }
    chain_place *place = &chain->places[part];
    uint32_t type = type_of(chain, request);
    if (epoch < place->epoch) {
        give(chain, asked);
        return refuse_old(place, part, epoch);
    }
    if (epoch == place->epoch && is_serving(chain, place) && place->held == NULL) {
        return carry_out(chain, part, type, asked, request);
    }
    if (epoch == place->epoch && !place->is_head) { /* another life listened here */
        give(chain, asked);
        return gy_fail(GY_CANCELLED, "part %u: this server is not the head of its chain", part);
    }
    chain->tick_ns = 0;
    return hold(chain, place, &(chain_held){.epoch = epoch, .asked = *asked, .type = type},
                request);
}

static void serve_held(gy_ps_chain *chain, uint32_t part, chain_held *held)
{
    chain_place *place = &chain->places[part];
    const gy_rpc_method *method = NULL;
    for (size_t i = 0; i < chain->options.method_count && method == NULL; i++) {
        method =
            chain->options.methods[i].type == held->type ? &chain->options.methods[i] : NULL;
    }
    GY_ASSERT(method != NULL);
    gy_status status = GY_OK;
    gy_rpc_asked asked = held->asked;
    held->asked.beside = NULL; /* who carries it out takes it */
    ProtobufCMessage *request =
        protobuf_c_message_unpack(method->request, NULL, held->body_bytes, held->body);
    if (request == NULL || held->epoch < place->epoch) {
        give(chain, &asked);
        status = request == NULL ? GY_NOMEM : refuse_old(place, part, held->epoch);
    } else {
        status = carry_out(chain, part, held->type, &asked, request);
    }
    if (status < 0) {
        gy_rpc_refuse(chain->rpc, &asked, status, gy_error_text());
    }
    if (request != NULL) {
        protobuf_c_message_free_unpacked(request, NULL);
    }
    held_free(chain, held);
}

static void serve_all_held(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    while (place->held != NULL && chain->failure.status == GY_OK) {
        chain_held *one = place->held;
        bool is_old = one->epoch < place->epoch;
        bool is_foreign = one->epoch == place->epoch && !place->is_head;
        if (!is_old && !is_foreign &&
            (one->epoch > place->epoch || !is_serving(chain, place))) {
            return;
        }
        place->held = one->next;
        if (place->held == NULL) {
            place->held_end = &place->held;
        }
        if (is_foreign) {
            gy_rpc_refuse(chain->rpc, &one->asked, GY_CANCELLED,
                          "this server is not the head of the part's chain");
            held_free(chain, one);
        } else {
            serve_held(chain, part, one);
        }
    }
}

void gy_ps_chain_happen(gy_ps_chain *chain, uint32_t part, const ProtobufCMessage *request)
{
    const gy_rpc_asked nobody = {.deadline = GY_NEVER};
    if (!chain->places[part].is_head) {
        return;
    }
    gy_status status = carry_out(chain, part, type_of(chain, request), &nobody, request);
    if (status < 0) {
        gy_ps_chain_fail(chain, status);
    }
}

/* ---- Who does not wait any more ---- */

static bool is_asked(const gy_rpc_asked *one, gy_rpc_peer peer, uint64_t number)
{
    return one->peer == peer && (number == 0 || one->number == number);
}

/* Those of a peer (number 0), or one call; returns whether there was any. */
static bool forget(gy_ps_chain *chain, chain_place *place, gy_rpc_peer peer, uint64_t number)
{
    bool is_found = false;
    for (chain_held **at = &place->held; *at != NULL;) {
        chain_held *one = *at;
        if (!is_asked(&one->asked, peer, number)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        place->held_end = place->held_end == &one->next ? at : place->held_end;
        held_free(chain, one);
        is_found = true;
    }
    for (chain_answer **at = &place->answers; *at != NULL;) {
        chain_answer *one = *at;
        if (!is_asked(&one->asked, peer, number) || !one->is_read) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        place->answers_end = place->answers_end == &one->next ? at : place->answers_end;
        gy_ps_chain_answer_free(one);
        is_found = true;
    }
    return is_found;
}

bool gy_ps_chain_cancel(gy_ps_chain *chain, const gy_rpc_asked *asked)
{
    for (uint32_t i = 0; i < GY_PS_MAP_PARTS_MAX; i++) {
        if (forget(chain, &chain->places[i], asked->peer, asked->number)) {
            gy_rpc_refuse(chain->rpc, asked, GY_CANCELLED, "cancelled");
            return true;
        }
    }
    return false;
}

void gy_ps_chain_forget(gy_ps_chain *chain, gy_rpc_peer peer)
{
    for (uint32_t i = 0; i < GY_PS_MAP_PARTS_MAX; i++) {
        (void)forget(chain, &chain->places[i], peer, 0);
    }
}

/* ---- Time ---- */

int64_t gy_ps_chain_next(const gy_ps_chain *chain)
{
    return chain->tick_ns;
}

/* A client has a later map than this server: another one may have it, too, if the lead is gone.
 */
static void ask_others(gy_ps_chain *chain)
{
    uint32_t count = chain->map.server_count;
    uint64_t id =
        count > 0 ? chain->map.servers[chain->asked_peers++ % count].id : chain->options.id;
    const chain_peer *peer = id != chain->options.id ? gy_ps_chain_peer(chain, id) : NULL;
    if (peer != NULL) {
        gy_ps_chain_ask_peer(chain, peer->peer);
    }
}

static void tick_part(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    int64_t now_ns = gy_ps_chain_now(chain);
    serve_all_held(chain, part);
    if (place->held != NULL && place->held->epoch > place->epoch) {
        ask_others(chain);
    }
    if (!place->has_data || now_ns < place->retry_ns) {
        return;
    }
    gy_ps_chain_send_copy(chain, part);
    gy_ps_chain_forward(chain, part);
    if (place->is_member && place->lease_until_ns - now_ns < gy_ps_chain_lease_ns(chain) / 2) {
        gy_ps_chain_ask_lease(chain, part);
    }
}

gy_status gy_ps_chain_tick(gy_ps_chain *chain)
{
    static const int64_t least_ns = 5000000, most_ns = 50000000;
    int64_t now_ns = gy_ps_chain_now(chain);
    if (chain->failure.status == GY_OK && now_ns >= chain->tick_ns) {
        int64_t pause_ns = gy_ps_chain_lease_ns(chain) / 16;
        chain->tick_ns = now_ns + GY_MAX(GY_MIN(pause_ns, most_ns), least_ns);
        gy_ps_chain_renew(chain);
        for (uint32_t i = 0; i < chain->map.chain_count; i++) {
            tick_part(chain, i);
        }
    }
    return chain->failure.status == GY_OK ? GY_OK : gy_error_raise(&chain->failure);
}
