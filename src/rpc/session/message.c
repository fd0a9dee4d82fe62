/* Bytes and messages: frames in both directions, and decoding within bounds. */
#include "rpc/session/session_priv.h"

#include <string.h>

/* ---- Decoding ---- */

enum { SPARE_BYTES = 4096, MORE_TIMES = 64 };

/* A few encoded bytes may describe a large tree, so the memory for decoding is limited in
 * proportion to their number. */
typedef struct budget {
    size_t left;
    bool is_spent, is_out; /* is_spent: the budget is used up; is_out: out of memory */
} budget;

static void *take(void *arg, size_t size_bytes)
{
    budget *left = arg;
    if (size_bytes > left->left) {
        left->is_spent = true;
        return NULL;
    }
    left->left -= size_bytes;
    void *taken = gy_alloc("rpc.message", size_bytes);
    left->is_out = left->is_out || taken == NULL;
    return taken;
}

static void give(void *arg, void *pointer)
{
    (void)arg;
    gy_free(pointer);
}

gy_status gy_rpc_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data,
                        size_t size_bytes, ProtobufCMessage **message)
{
    budget left = {.left = SPARE_BYTES + MORE_TIMES * size_bytes};
    ProtobufCAllocator allocator = {.alloc = take, .free = give, .allocator_data = &left};
    *message = protobuf_c_message_unpack(descriptor, &allocator, size_bytes, data);
    if (*message != NULL) {
        return GY_OK;
    }
    if (left.is_out) {
        return GY_NOMEM;
    }
    return left.is_spent ? gy_fail(GY_FORMAT, "a message \"%s\" that takes %zu times its size",
                                   descriptor->name, (size_t)MORE_TIMES)
                         : gy_fail(GY_FORMAT, "%zu bytes are no message \"%s\"", size_bytes,
                                   descriptor->name);
}

void gy_rpc_unpacked_free(ProtobufCMessage *message)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = give};
    if (message != NULL) {
        protobuf_c_message_free_unpacked(message, &allocator);
    }
}

/* ---- Input ---- */

static gy_status read_head(gy_rpc_inbox *inbox, gy_rpc_limit limit, const void *arg)
{
    gy_transport_frame *frame = &inbox->frame;
    uint64_t expected = inbox->received;
#ifdef GYRE_PLANTED
    if (GY_PLANTED(REPLAY_ACCEPTED)) {
        memcpy(&expected, inbox->head + GY_FRAME_BYTES - sizeof(expected), sizeof(expected));
    }
#endif
    GY_TRY(gy_transport_frame_read(inbox->head, expected, GY_MESSAGE_BYTES, frame));
    size_t most = frame->type == GY_FRAME_MESSAGE ? limit(arg, frame->tag) : 0;
    if (most == 0) {
        if (frame->type != GY_FRAME_MESSAGE) {
            return gy_fail(
                GY_FORMAT,
                "a frame of a rank: the peer is the rendezvous of gyre run, or a rank");
        }
        return gy_fail(GY_FORMAT, "a frame of type %llu and kind %llu, which is none here",
                       (unsigned long long)(frame->tag >> 8),
                       (unsigned long long)(frame->tag & 255));
    }
    if (frame->size_bytes == 0 || frame->size_bytes > most) {
        return gy_fail(GY_FORMAT, "a frame of type %llu with %llu bytes: expected 1 to %zu",
                       (unsigned long long)(frame->tag >> 8),
                       (unsigned long long)frame->size_bytes, most);
    }
    return GY_OK;
}

gy_status gy_rpc_inbox_take(gy_rpc_inbox *inbox, const uint8_t **data, size_t *size_bytes,
                            gy_rpc_limit limit, const void *arg, const uint8_t **body)
{
    if (inbox->head_bytes == GY_FRAME_BYTES && inbox->body_bytes == inbox->frame.size_bytes) {
        gy_free(inbox->body); /* body of the previous frame */
        inbox->body = NULL;
        inbox->head_bytes = inbox->body_bytes = 0;
    }
    GY_ASSERT(inbox->raw_bytes == 0);
    if (inbox->head_bytes < GY_FRAME_BYTES) {
        size_t size = GY_MIN(*size_bytes, GY_FRAME_BYTES - inbox->head_bytes);
        if (size > 0) {
            memcpy(inbox->head + inbox->head_bytes, *data, size);
        }
        inbox->head_bytes += size;
        *data += size;
        *size_bytes -= size;
        if (inbox->head_bytes < GY_FRAME_BYTES) {
            return GY_AGAIN;
        }
        GY_TRY(read_head(inbox, limit, arg));
        if ((inbox->frame.tag & 255) == KIND_BESIDE) {
            inbox->raw_bytes = (size_t)inbox->frame.size_bytes;
            inbox->head_bytes = 0;
            inbox->received++;
            *body = NULL;
            return GY_OK;
        }
    }
    size_t wanted = (size_t)inbox->frame.size_bytes, missing = wanted - inbox->body_bytes;
    size_t size = GY_MIN(*size_bytes, missing);
    *body = *data;
    /* otherwise the frame is contiguous in the input */
    if (inbox->body != NULL || size < wanted) {
        if (inbox->body == NULL && (inbox->body = gy_alloc("rpc.frame", wanted)) == NULL) {
            return GY_NOMEM;
        }
        if (size > 0) {
            memcpy(inbox->body + inbox->body_bytes, *data, size);
        }
        *body = inbox->body;
    }
    inbox->body_bytes += size;
    *data += size;
    *size_bytes -= size;
    if (inbox->body_bytes < wanted) {
        return GY_AGAIN;
    }
    inbox->received++;
    return GY_OK;
}

void gy_rpc_inbox_fini(gy_rpc_inbox *inbox)
{
    gy_free(inbox->body);
    inbox->body = NULL;
}

/* ---- Output ---- */

enum { OUTBOX_LEAST = 512, OUTBOX_KEPT = 4096 };

static gy_status make_room(gy_rpc_outbox *outbox, size_t size_bytes)
{
    if (outbox->at > 0 && outbox->at >= outbox->size_bytes / 2) {
        memmove(outbox->data, outbox->data + outbox->at, outbox->size_bytes - outbox->at);
        outbox->size_bytes -= outbox->at;
        outbox->at = 0;
    }
    return GY_GROW("rpc.outbox", outbox->data, outbox->capacity,
                   GY_MAX(outbox->size_bytes + size_bytes, (size_t)OUTBOX_LEAST));
}

gy_status gy_rpc_outbox_put_raw(gy_rpc_outbox *outbox, uint64_t tag, const void *body,
                                size_t size_bytes)
{
    size_t copied = body != NULL ? size_bytes : 0;
    GY_ASSERT(size_bytes > 0);
    GY_TRY(make_room(outbox, GY_FRAME_BYTES + copied));
    uint8_t *to = outbox->data + outbox->size_bytes;
    gy_transport_frame_write(&(gy_transport_frame){.type = GY_FRAME_MESSAGE,
                                                   .size_bytes = size_bytes,
                                                   .tag = tag,
                                                   .sequence = outbox->sent},
                             to);
    if (copied > 0) {
        memcpy(to + GY_FRAME_BYTES, body, copied);
    }
    outbox->size_bytes += GY_FRAME_BYTES + copied;
    outbox->sent++;
    return GY_OK;
}

gy_status gy_rpc_outbox_insert(gy_rpc_outbox *outbox, size_t before_bytes, const void *data,
                               size_t size_bytes)
{
    GY_TRY(make_room(outbox, size_bytes));
    size_t left = outbox->size_bytes - outbox->at - before_bytes;
    uint8_t *to = outbox->data + outbox->at + before_bytes;
    memmove(to + size_bytes, to, left);
    memcpy(to, data, size_bytes);
    outbox->size_bytes += size_bytes;
    return GY_OK;
}

gy_status gy_rpc_outbox_put(gy_rpc_outbox *outbox, uint64_t tag,
                            const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    GY_ASSERT(size > 0);
    GY_TRY(make_room(outbox, GY_FRAME_BYTES + size));
    uint8_t *to = outbox->data + outbox->size_bytes;
    gy_transport_frame_write(
        &(gy_transport_frame){
            .type = GY_FRAME_MESSAGE, .size_bytes = size, .tag = tag, .sequence = outbox->sent},
        to);
    size_t packed = protobuf_c_message_pack(message, to + GY_FRAME_BYTES);
    GY_ASSERT(packed == size);
    outbox->size_bytes += GY_FRAME_BYTES + size;
    outbox->sent++;
    return GY_OK;
}

void gy_rpc_outbox_sent(gy_rpc_outbox *outbox, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= outbox->size_bytes - outbox->at);
    outbox->at += size_bytes;
    if (outbox->at == outbox->size_bytes) {
        outbox->at = outbox->size_bytes = 0;
        if (outbox->capacity > OUTBOX_KEPT) {
            gy_rpc_outbox_fini(outbox);
        }
    }
}

void gy_rpc_outbox_fini(gy_rpc_outbox *outbox)
{
    gy_free(outbox->data);
    outbox->data = NULL;
    outbox->at = outbox->size_bytes = outbox->capacity = 0;
}
