/* Bytes beside messages: they follow the message of a call or an answer in frames of their own,
 * between which heartbeats and cancellations go, and are read straight to where the receiver
 * says. One message's bytes are under way in each direction of a connection at a time. */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <string.h>

/* ---- Sending ---- */

static void end_lend(gy_rpc_link *link)
{
    rpc_asked *asked = link->lend.asked;
    link->lend = (rpc_lend){0};
    if (asked != NULL && link->peer != NULL) {
        gy_rpc_asked_over(link->peer, asked);
    }
}

/* A failure ends the connection in the next turn, as for other frames. */
static gy_status is_put(gy_rpc_link *link, gy_status status)
{
    gy_rpc *node = link->node;
    if (status < 0) {
        link->is_broken = true;
        gy_rpc_alarm_set(&node->alarms, &link->alarm, gy_rpc_now_ns(node));
    }
    return status;
}

static gy_status begin_chunk(gy_rpc_link *link)
{
    rpc_lend *lend = &link->lend;
    size_t size = GY_MIN(lend->left_bytes, (size_t)RPC_CHUNK_BYTES);
    GY_TRY(is_put(
        link, gy_rpc_outbox_put_raw(&link->outbox, gy_rpc_tag_of(KIND_BESIDE, 0), NULL, size)));
    lend->chunk_bytes = size;
    lend->before_bytes = link->outbox.size_bytes - link->outbox.at;
    return GY_OK;
}

gy_status gy_rpc_lend(gy_rpc_link *link, const rpc_call *call, rpc_asked *asked)
{
    const uint8_t *data = call != NULL ? call->beside : asked->lent.data;
    size_t size = call != NULL ? call->beside_bytes : asked->lent.size_bytes;
    GY_ASSERT(link->lend.data == NULL && size > 0);
    if (size <= RPC_COPIED_BYTES) {
        gy_status status =
            is_put(link, gy_rpc_outbox_put_raw(&link->outbox, gy_rpc_tag_of(KIND_BESIDE, 0),
                                               data, size));
        if (asked != NULL) {
            gy_rpc_asked_over(link->peer, asked);
        }
        return status;
    }
    link->lend = (rpc_lend){.data = data, .left_bytes = size, .call = call, .asked = asked};
    return begin_chunk(link);
}

/* The frame that was begun is completed from a copy, then the cut is told. */
void gy_rpc_lend_cut(gy_rpc_link *link)
{
    rpc_lend lend = link->lend;
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    envelope.number = 1; /* a frame needs at least one byte */
    if (lend.data == NULL) {
        return;
    }
    gy_status status = GY_OK;
    if (lend.chunk_bytes > 0) {
        status =
            gy_rpc_outbox_insert(&link->outbox, lend.before_bytes, lend.data, lend.chunk_bytes);
    }
    link->lend = (rpc_lend){0};
    if (is_put(link, status) == GY_OK && !GY_PLANTED(CUT_UNTOLD) &&
        lend.left_bytes > lend.chunk_bytes) {
        (void)gy_rpc_link_say(link, KIND_CUT, 0, &envelope); /* on failure the link ends */
    }
    if (lend.asked != NULL && link->peer != NULL) {
        gy_rpc_asked_over(link->peer, lend.asked);
    }
}

int gy_rpc_link_outputs(const gy_rpc_link *link, struct iovec pieces[GY_RPC_PIECES])
{
    const gy_rpc_outbox *outbox = &link->outbox;
    const rpc_lend *lend = &link->lend;
    uint8_t *data = outbox->data != NULL ? outbox->data + outbox->at : NULL;
    size_t size = outbox->size_bytes - outbox->at;
    size_t before = lend->chunk_bytes > 0 ? lend->before_bytes : size;
    int count = 0;
    if (before > 0) {
        pieces[count++] = (struct iovec){.iov_base = data, .iov_len = before};
    }
    if (lend->chunk_bytes > 0) {
        pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)lend->data,
                                         .iov_len = lend->chunk_bytes};
    }
    if (size > before) {
        pieces[count++] = (struct iovec){.iov_base = data + before, .iov_len = size - before};
    }
    return count;
}

size_t gy_rpc_link_output(const gy_rpc_link *link, const void **data)
{
    struct iovec pieces[GY_RPC_PIECES] = {{.iov_len = 0}};
    (void)gy_rpc_link_outputs(link, pieces);
    *data = pieces[0].iov_base;
    return pieces[0].iov_len;
}

static void chunk_sent(gy_rpc_link *link, size_t size_bytes)
{
    rpc_lend *lend = &link->lend;
    lend->data += size_bytes;
    lend->left_bytes -= size_bytes;
    lend->chunk_bytes -= size_bytes;
    if (lend->chunk_bytes > 0) {
        return;
    }
    if (lend->left_bytes == 0) {
        end_lend(link);
    } else {
        (void)begin_chunk(link); /* on failure the link ends */
    }
}

void gy_rpc_link_sent(gy_rpc *rpc, gy_rpc_link *link, size_t size_bytes)
{
    gy_rpc_enter(rpc);
    while (size_bytes > 0) {
        rpc_lend *lend = &link->lend;
        bool is_chunk = lend->chunk_bytes > 0 && lend->before_bytes == 0;
        size_t most = is_chunk                ? lend->chunk_bytes
                      : lend->chunk_bytes > 0 ? lend->before_bytes
                                              : size_bytes;
        size_t size = GY_MIN(size_bytes, most);
        size_bytes -= size;
        if (is_chunk) {
            chunk_sent(link, size);
        } else {
            gy_rpc_outbox_sent(&link->outbox, size);
            lend->before_bytes -= lend->chunk_bytes > 0 ? size : 0;
        }
    }
    if (link->peer != NULL && link->peer->link == link && link->is_ready) {
        gy_rpc_peer_pump(link->peer);
        gy_rpc_peer_look(link->peer);
    }
    gy_rpc_leave(rpc);
}

/* ---- Receiving ---- */

void gy_rpc_coming_begin(gy_rpc_link *link, const rpc_coming *coming)
{
    GY_ASSERT(link->coming.left_bytes == 0 && coming->left_bytes > 0);
    link->coming = *coming;
}

void gy_rpc_coming_skip(gy_rpc_link *link, size_t size_bytes)
{
    if (size_bytes > 0) {
        gy_rpc_coming_begin(link,
                            &(rpc_coming){.left_bytes = size_bytes, .size_bytes = size_bytes});
    }
}

void gy_rpc_coming_drop(gy_rpc_link *link)
{
    rpc_coming coming = link->coming;
    link->coming = (rpc_coming){0};
    if (coming.is_call && coming.room != NULL && coming.method->leave != NULL) {
        coming.method->leave(link->node->options.arg, coming.room);
    }
    gy_rpc_unpacked_free(coming.message);
}

static void complete(gy_rpc_link *link)
{
    rpc_coming coming = link->coming;
    link->coming = (rpc_coming){0};
    if (coming.call != NULL) {
        gy_rpc_call_end(coming.call, coming.message);
        return;
    }
    gy_status status = GY_OK;
    if (coming.is_call && link->peer != NULL) {
        status = gy_rpc_serve_coming(link->peer, &coming);
    }
    gy_rpc_unpacked_free(coming.message);
    if (status < 0 && !link->is_dead) {
        gy_rpc_link_end(link, status);
    }
}

gy_status gy_rpc_coming_cut(gy_rpc_link *link)
{
    if (link->coming.left_bytes == 0 || link->coming.call != NULL) {
        return gy_fail(GY_FORMAT, "the peer ends bytes that do not come");
    }
    if (GY_PLANTED(PART_SERVED)) {
        complete(link);
    } else {
        gy_rpc_coming_drop(link);
    }
    return GY_OK;
}

size_t gy_rpc_coming_take(gy_rpc_link *link, const uint8_t *data, size_t size_bytes)
{
    rpc_coming *coming = &link->coming;
    size_t size = GY_MIN(size_bytes, link->inbox.raw_bytes);
    GY_ASSERT(size <= coming->left_bytes);
    if (data != NULL && coming->room != NULL && size > 0) {
        memcpy(coming->room + (coming->size_bytes - coming->left_bytes), data, size);
    }
    link->inbox.raw_bytes -= size;
    coming->left_bytes -= size;
    if (coming->left_bytes == 0 && size > 0) {
        complete(link);
    }
    return size;
}

size_t gy_rpc_link_room(const gy_rpc_link *link, void **room)
{
    const rpc_coming *coming = &link->coming;
    if (link->inbox.raw_bytes == 0 || coming->room == NULL) {
        return 0;
    }
    *room = coming->room + (coming->size_bytes - coming->left_bytes);
    return link->inbox.raw_bytes;
}

void gy_rpc_link_filled(gy_rpc *rpc, gy_rpc_link *link, size_t size_bytes)
{
    gy_rpc_enter(rpc);
    link->heard_ns = gy_rpc_now_ns(rpc);
    (void)gy_rpc_coming_take(link, NULL, size_bytes);
    gy_rpc_leave(rpc);
}
