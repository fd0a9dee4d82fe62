#include "transport/tcp/bytes_priv.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

enum { HELLO_BYTES = 4 + GY_RUN_ID_BYTES + 4 + 4, REFUSED_BYTES = 512 };

typedef enum stage { STAGE_OPEN, STAGE_SPEAK, STAGE_HEAR, STAGE_ANSWER } stage;

struct gy_greeting {
    gy_tcp_wire *wire;
    gy_hello mine, theirs;
    bool is_caller;
    stage stage;
    size_t sent_bytes, heard_bytes;
    gy_transport_frame head;
    uint8_t heard[GY_FRAME_BYTES + REFUSED_BYTES + 1];
};

gy_status gy_greeting_new(gy_tcp_wire *wire, bool is_caller, const gy_hello *mine,
                          gy_greeting **greeting)
{
    GY_ASSERT(wire != NULL);
    gy_greeting *made = gy_alloc_zero("transport.greeting", 1, sizeof(*made));
    if (made == NULL) {
        gy_tcp_wire_close(wire);
        return GY_NOMEM;
    }
    made->wire = wire;
    made->mine = *mine;
    made->is_caller = is_caller;
    *greeting = made;
    return GY_OK;
}

static gy_status speak(gy_greeting *greeting)
{
    GY_ASSERT(greeting->stage == STAGE_SPEAK || greeting->stage == STAGE_ANSWER);
    uint8_t words[GY_FRAME_BYTES + HELLO_BYTES];
    uint8_t *body = words + GY_FRAME_BYTES;
    gy_transport_frame_write(
        &(gy_transport_frame){.type = GY_FRAME_HELLO, .size_bytes = HELLO_BYTES}, words);
    gy_mapreduce_put_number(body, GY_RANK_PROTOCOL, 4);
    memcpy(body + 4, greeting->mine.run, GY_RUN_ID_BYTES);
    gy_mapreduce_put_number(body + 4 + GY_RUN_ID_BYTES, greeting->mine.index, 4);
    gy_mapreduce_put_number(body + 8 + GY_RUN_ID_BYTES, greeting->mine.count, 4);
    while (greeting->sent_bytes < sizeof(words)) {
        struct iovec piece = {.iov_base = words + greeting->sent_bytes,
                              .iov_len = sizeof(words) - greeting->sent_bytes};
        size_t put = 0;
        gy_status status = gy_tcp_wire_write(greeting->wire, &piece, 1, &put);
        if (status != GY_OK) {
            return status;
        }
        greeting->sent_bytes += put;
    }
    return gy_tcp_wire_flush(greeting->wire);
}

/* Read exactly `wanted` bytes, because data after a greeting belong to the link. */
static gy_status hear(gy_greeting *greeting, size_t wanted)
{
    GY_ASSERT(wanted < sizeof(greeting->heard));
    while (greeting->heard_bytes < wanted) {
        struct iovec piece = {.iov_base = greeting->heard + greeting->heard_bytes,
                              .iov_len = wanted - greeting->heard_bytes};
        size_t got = 0;
        gy_status status = gy_tcp_wire_read(greeting->wire, &piece, 1, &got);
        if (status != GY_OK) {
            return status;
        }
        greeting->heard_bytes += got;
    }
    return GY_OK;
}

static gy_status read_hello(gy_greeting *greeting)
{
    GY_ASSERT(greeting->heard_bytes == GY_FRAME_BYTES + HELLO_BYTES);
    const uint8_t *body = greeting->heard + GY_FRAME_BYTES;
    GY_TRY(gy_transport_protocol_check("the peer", (int64_t)gy_get_number(body, 4)));
    memcpy(greeting->theirs.run, body + 4, GY_RUN_ID_BYTES);
    greeting->theirs.index = (uint32_t)gy_get_number(body + 4 + GY_RUN_ID_BYTES, 4);
    greeting->theirs.count = (uint32_t)gy_get_number(body + 8 + GY_RUN_ID_BYTES, 4);
    return GY_OK;
}

static gy_status hear_hello(gy_greeting *greeting)
{
    GY_ASSERT(greeting->stage == STAGE_HEAR);
    gy_status status = hear(greeting, GY_FRAME_BYTES);
    if (status != GY_OK) {
        return status;
    }
    /* A TLS record in place of a frame: the alert of a peer that requires a key. */
    if (greeting->heard[0] >= 0x14 && greeting->heard[0] <= 0x17 && greeting->heard[1] == 3) {
        return gy_fail(GY_STATE,
                       "the peer uses TLS: it has a cluster key, this process has none");
    }
    GY_TRY(gy_transport_frame_read(greeting->heard, 0, 0, &greeting->head));
    bool is_hello =
        greeting->head.type == GY_FRAME_HELLO && greeting->head.size_bytes == HELLO_BYTES;
    bool is_refusal = greeting->is_caller && greeting->head.type == GY_FRAME_REFUSED &&
                      greeting->head.size_bytes <= REFUSED_BYTES;
    if (!is_hello && !is_refusal) {
        return gy_fail(GY_FORMAT, "the other end began with a frame of type %d and %llu bytes",
                       (int)greeting->head.type, (unsigned long long)greeting->head.size_bytes);
    }
    status = hear(greeting, GY_FRAME_BYTES + (size_t)greeting->head.size_bytes);
    if (status != GY_OK) {
        return status;
    }
    if (is_refusal) {
        greeting->heard[greeting->heard_bytes] = '\0';
        return gy_fail(GY_STATE, "the other end refused: %s",
                       (const char *)greeting->heard + GY_FRAME_BYTES);
    }
    return read_hello(greeting);
}

/* Best effort: the other end may have closed already. */
static gy_status refuse(gy_greeting *greeting, gy_status status)
{
    GY_ASSERT(status < 0);
    GY_ASSERT(!greeting->is_caller);
    gy_error error;
    gy_error_take(&error, status);
    uint8_t head[GY_FRAME_BYTES];
    size_t size = GY_MIN(strlen(error.text), (size_t)REFUSED_BYTES), put = 0;
    gy_transport_frame_write(
        &(gy_transport_frame){.type = GY_FRAME_REFUSED, .size_bytes = size}, head);
    struct iovec pieces[] = {{.iov_base = head, .iov_len = sizeof(head)},
                             {.iov_base = error.text, .iov_len = size}};
    if (greeting->stage == STAGE_OPEN) {
        gy_tcp_wire_write_plain(greeting->wire, pieces, 2);
    } else if (gy_tcp_wire_write(greeting->wire, pieces, 2, &put) == GY_OK) {
        (void)gy_tcp_wire_flush(greeting->wire);
    }
    return gy_error_raise(&error);
}

gy_status gy_greeting_step(gy_greeting *greeting, gy_judge judge, void *arg, gy_tcp_wire **wire,
                           gy_hello *theirs)
{
    GY_ASSERT(greeting->wire != NULL);
    GY_ASSERT(judge != NULL);
    gy_status status = GY_OK;
    if (greeting->stage == STAGE_OPEN) {
        status = gy_tcp_wire_open(greeting->wire);
        if (status == GY_STATE && !greeting->is_caller) {
            return refuse(greeting, status);
        }
        greeting->stage = status != GY_OK       ? STAGE_OPEN
                          : greeting->is_caller ? STAGE_SPEAK
                                                : STAGE_HEAR;
    }
    if (greeting->stage == STAGE_SPEAK && status == GY_OK) {
        status = speak(greeting);
        greeting->stage = status == GY_OK ? STAGE_HEAR : STAGE_SPEAK;
    }
    if (greeting->stage == STAGE_HEAR && status == GY_OK) {
        status = hear_hello(greeting);
        if (status == GY_OK) {
            status = judge(arg, &greeting->theirs);
        }
        if (status < 0 && status != GY_PEER && !greeting->is_caller) {
            return refuse(greeting, status);
        }
        greeting->stage = status == GY_OK ? STAGE_ANSWER : STAGE_HEAR;
    }
    if (greeting->stage == STAGE_ANSWER && status == GY_OK && !greeting->is_caller) {
        status = speak(greeting);
    }
    if (status == GY_OK) {
        *wire = greeting->wire;
        *theirs = greeting->theirs;
        greeting->wire = NULL;
    }
    return status;
}

const gy_tcp_wire *gy_greeting_wire(const gy_greeting *greeting)
{
    GY_ASSERT(greeting->wire != NULL);
    return greeting->wire;
}

void gy_greeting_free(gy_greeting *greeting)
{
    if (greeting != NULL) {
        gy_tcp_wire_close(greeting->wire);
        gy_free(greeting);
    }
}
