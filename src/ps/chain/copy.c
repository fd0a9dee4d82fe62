/* Whoever joins a chain gets a copy of its last member, in pieces, and the events that follow.
 * Once it has the copy the last member waits for its word, too: so nothing is acknowledged any
 * more that it would not have. When it has all that was acknowledged before, the lead is told.
 */
#include "ps/chain/chain_priv.h"

#include "base/hash.h"

#include <string.h>

static const int64_t call_ns = 10000000000;
static const int64_t retry_ns = 50000000;

/* ---- Sending ---- */

typedef struct flight {
    gy_ps_chain *chain;
    uint32_t part, generation;
    size_t size_bytes;
    uint8_t data[]; /* a piece of its own: the copy may be dropped while it is lent */
} flight;

static void end_copy(chain_place *place)
{
    gy_text_free(&place->copy);
    place->copy = (gy_text){.data = NULL};
    place->is_copying = false;
}

/* It has the copy, which ends with event copy_number. */
static void copied(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    place->is_copied = true;
    place->acked = place->copy_number;
    place->caught_at = place->number;
    place->unsent = place->first;
    while (place->unsent != NULL && place->unsent->number <= place->acked) {
        place->unsent = place->unsent->next;
    }
    end_copy(place);
    gy_info("part %u: server %llx has a copy", part, (unsigned long long)place->next);
    gy_ps_chain_forward(chain, part);
    gy_ps_chain_advance(chain, part);
}

static void on_copied(void *arg, gy_status status, const ProtobufCMessage *message)
{
    flight *at = arg;
    gy_ps_chain *chain = at->chain;
    uint32_t part = at->part;
    chain_place *place = &chain->places[part];
    bool is_stale = at->generation != place->generation;
    size_t size = at->size_bytes;
    (void)message;
    gy_free(at);
    if (is_stale) {
        return;
    }
    place->flying = 0;
    if (status < 0) {
        gy_debug("part %u: a copy was not taken: %s", part, gy_error_text());
        const chain_peer *peer = gy_ps_chain_peer(chain, place->next);
        if (status == GY_CANCELLED && peer != NULL) {
            gy_ps_chain_ask_peer(chain, peer->peer);
        }
        end_copy(place); /* from the beginning */
        place->retry_ns = gy_ps_chain_now(chain) + retry_ns;
        return;
    }
    place->copy_at += size;
    if (place->copy_at == place->copy.size_bytes) {
        copied(chain, part);
    } else {
        gy_ps_chain_send_copy(chain, part);
    }
}

static gy_status begin(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    place->copy_number = place->number;
    place->copy_at = 0;
    gy_status status = chain->options.save(chain->options.arg, part, &place->copy);
    if (status < 0) {
        end_copy(place);
        return status;
    }
    GY_ASSERT(place->copy.size_bytes > 0);
    place->is_copying = true;
    if (GY_PS_CHAIN_PLANTED(COPY_LATE) && place->copy_number > 0) {
        place->copy_number--;
    }
    return GY_OK;
}

static gy_status send_piece(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    const chain_peer *peer = gy_ps_chain_peer(chain, place->next);
    size_t size =
        GY_MIN(place->copy.size_bytes - (size_t)place->copy_at, (size_t)CHAIN_COPY_BYTES);
    flight *made = gy_alloc("ps.copy", sizeof(*made) + size);
    if (made == NULL || peer == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    *made = (flight){
        .chain = chain, .part = part, .generation = place->generation, .size_bytes = size};
    memcpy(made->data, place->copy.data + place->copy_at, size);
    Gy__Ps__Copy copy;
    gy__ps__copy__init(&copy);
    copy.to = place->next;
    copy.part = part;
    copy.epoch = place->epoch;
    copy.number = place->copy_number;
    copy.offset = place->copy_at;
    copy.size_bytes = place->copy.size_bytes;
    copy.hash = gy_hash(made->data, size, place->copy_at);
    gy_status status =
        gy_rpc_call(chain->rpc, peer->peer,
                    &(gy_rpc_request){.type = GY_PS_COPY,
                                      .message = &copy.base,
                                      .deadline = {gy_ps_chain_now(chain) + call_ns},
                                      .done = on_copied,
                                      .arg = made,
                                      .beside = made->data,
                                      .beside_bytes = size},
                    NULL);
    if (status != GY_OK) {
        gy_free(made);
        return status;
    }
    place->flying = 1;
    return GY_OK;
}

void gy_ps_chain_send_copy(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    bool is_due = place->has_data && place->is_next_joining && !place->is_copied &&
                  place->flying == 0 && gy_ps_chain_now(chain) >= place->retry_ns;
    if (!is_due) {
        return;
    }
    gy_status status = place->is_copying ? GY_OK : begin(chain, part);
    if (status == GY_OK) {
        status = send_piece(chain, part);
    }
    if (status != GY_OK) {
        gy_debug("part %u: a copy cannot be sent: %s", part, gy_error_text());
        place->retry_ns = gy_ps_chain_now(chain) + retry_ns;
    }
}

/* ---- Receiving ---- */

static gy_status judge(const gy_ps_chain *chain, const Gy__Ps__Copy *copy, size_t size_bytes)
{
    if (copy->part >= GY_PS_MAP_PARTS_MAX || copy->to != chain->options.id ||
        copy->epoch != chain->places[copy->part].epoch ||
        !chain->places[copy->part].is_joining) {
        return gy_fail(GY_CANCELLED, "a copy of part %u that this server does not join",
                       copy->part);
    }
    const chain_place *place = &chain->places[copy->part];
    if ((copy->offset != 0 && copy->offset != place->copy.size_bytes) ||
        copy->size_bytes < copy->offset || copy->size_bytes - copy->offset < size_bytes ||
        size_bytes == 0) {
        return gy_fail(
            GY_SHAPE,
            "bytes %llu to %llu of %llu of a copy of part %u come after "
            "%zu",
            (unsigned long long)copy->offset, (unsigned long long)(copy->offset + size_bytes),
            (unsigned long long)copy->size_bytes, copy->part, place->copy.size_bytes);
    }
    return GY_OK;
}

gy_status gy_ps_chain_admit_copy(gy_ps_chain *chain, const ProtobufCMessage *request,
                                 size_t size_bytes, void **room)
{
    GY_TRY(judge(chain, (const Gy__Ps__Copy *)request, size_bytes));
    *room = chain->options.take(chain->options.arg, size_bytes);
    return *room != NULL ? GY_OK : GY_NOMEM;
}

static gy_status take_piece(gy_ps_chain *chain, const Gy__Ps__Copy *copy,
                            const gy_rpc_asked *asked)
{
    GY_TRY(judge(chain, copy, asked->beside_bytes));
    chain_place *place = &chain->places[copy->part];
    if (gy_hash(asked->beside, asked->beside_bytes, copy->offset) != copy->hash) {
        return gy_fail(GY_FORMAT, "a copy of part %u whose checksum is wrong", copy->part);
    }
    if (copy->offset == 0) {
        gy_text_free(&place->copy);
        place->copy = (gy_text){.data = NULL};
        place->has_data = false;
    }
    gy_text_add_bytes(&place->copy, asked->beside, asked->beside_bytes);
    if (place->copy.status < 0) {
        end_copy(place);
        return GY_NOMEM;
    }
    if (place->copy.size_bytes < copy->size_bytes) {
        return GY_OK;
    }
    gy_status status = chain->options.load(chain->options.arg, copy->part, place->copy.data,
                                           place->copy.size_bytes);
    end_copy(place);
    GY_TRY(status);
    place->has_data = true;
    place->number = copy->number;
    return GY_OK;
}

gy_status gy_ps_chain_copy(gy_ps_chain *chain, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request)
{
    Gy__Ps__Done done;
    const Gy__Ps__Copy *copy = (const Gy__Ps__Copy *)request;
    if (copy->part < GY_PS_MAP_PARTS_MAX && copy->epoch > chain->places[copy->part].epoch) {
        gy_ps_chain_ask_peer(chain, asked->peer);
    }
    gy_status status = asked->beside != NULL ? take_piece(chain, copy, asked)
                                             : gy_fail(GY_SHAPE, "a copy without bytes");
    if (asked->beside != NULL) {
        chain->options.give(asked->beside);
    }
    GY_TRY(status);
    gy__ps__done__init(&done);
    done.is_done = true;
    return gy_rpc_answer(chain->rpc, asked, &done.base);
}
