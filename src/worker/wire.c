#include "worker/wire.h"

#include <assert.h>
#include <string.h>

typedef struct head {
    uint32_t body_bytes;
    uint8_t kind, cause;
    uint16_t zero;
    uint32_t task, epoch, attempt, member, input, mark;
    uint64_t high, low;
    int64_t run_ns;
} head;

static_assert(sizeof(head) == GY_WIRE_HEAD_BYTES, "the head has no gaps");

enum { MARK = 0x47795631 }; /* distinguishes a head from overwritten memory */

void gy_wire_add(gy_text *out, const gy_wire *message)
{
    GY_ASSERT(message->body_bytes <= GY_WIRE_BODY_BYTES);
    head first = {
        .body_bytes = (uint32_t)message->body_bytes,
        .kind = (uint8_t)message->kind,
        .cause = (uint8_t)message->cause,
        .task = message->id.task,
        .epoch = message->id.epoch,
        .attempt = message->id.attempt,
        .member = message->member,
        .input = message->input,
        .mark = MARK,
        .high = message->key.high,
        .low = message->key.low,
        .run_ns = message->run_ns,
    };
    gy_text_add_bytes(out, &first, sizeof(first));
    if (message->body_bytes > 0) {
        gy_text_add_bytes(out, message->body, message->body_bytes);
    }
}

/* The error in a head; NULL: none. */
static const char *wrong_with(const head *first)
{
    bool is_failed = first->kind == GY_WIRE_FAILED;
    if (first->mark != MARK || first->zero != 0) {
        return "a message does not begin with the magic number";
    }
    if (first->kind == GY_WIRE_NONE || first->kind >= GY_WIRE_KINDS) {
        return "an unknown kind of message";
    }
    if (first->cause > GY_CAUSE_FATAL || is_failed != (first->cause != GY_CAUSE_NONE)) {
        return "the cause does not fit the kind of the message";
    }
    if (first->body_bytes > GY_WIRE_BODY_BYTES) {
        return "the body of a message is over the limit";
    }
    if (first->run_ns < 0) {
        return "a time is below 0";
    }
    return NULL;
}

gy_status gy_wire_next(const uint8_t *data, size_t size_bytes, gy_wire *message, size_t *used)
{
    head first;
    *used = sizeof(first);
    if (size_bytes < sizeof(first)) {
        return GY_AGAIN;
    }
    memcpy(&first, data, sizeof(first));
    const char *wrong = wrong_with(&first);
    if (wrong != NULL) {
        return gy_fail(GY_FORMAT, "%s: kind %u, cause %u, %u bytes", wrong, first.kind,
                       first.cause, first.body_bytes);
    }
    *used = sizeof(first) + first.body_bytes;
    if (size_bytes < *used) {
        return GY_AGAIN;
    }
    *message = (gy_wire){
        .kind = (gy_wire_kind)first.kind,
        .cause = (gy_cause)first.cause,
        .id = {.task = first.task, .epoch = first.epoch, .attempt = first.attempt},
        .member = first.member,
        .input = first.input,
        .key = {.high = first.high, .low = first.low},
        .run_ns = first.run_ns,
        .body = data + sizeof(first),
        .body_bytes = first.body_bytes,
    };
    return GY_OK;
}
