/* Fuzz target: arbitrary bytes in arbitrary pieces give messages within their lengths, or a
 * failure. */
#include "worker/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read all bytes of a message's body. */
static uint64_t read_all(const gy_wire *message)
{
    uint64_t sum = (uint64_t)message->kind + message->id.task;
    const uint8_t *body = message->body;
    GY_ASSERT(message->kind > GY_WIRE_NONE && message->kind < GY_WIRE_KINDS);
    GY_ASSERT(message->body_bytes <= GY_WIRE_BODY_BYTES);
    for (size_t i = 0; i < message->body_bytes; i++) {
        sum += body[i];
    }
#ifdef GYRE_PLANTED_BUG
    /* room for a body of 16 bytes only, whatever the length says */
    uint8_t *copy = gy_alloc("fuzz", 16);
    for (size_t i = 0; copy != NULL && i < message->body_bytes; i++) {
        ((volatile uint8_t *)copy)[i] = body[i];
    }
    gy_free(copy);
#endif
    return sum;
}

/* The first byte is the size of the pieces. The received bytes are copied to a heap block of
 * exactly their size, so that a sanitizer sees a read past the end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1, total = size - 1;
    uint8_t *all = gy_alloc("fuzz", total);
    if (all == NULL) {
        return 0;
    }
    memcpy(all, data + 1, total);
    uint64_t sum = 0;
    size_t at = 0, come = GY_MIN(piece, total);
    for (;;) {
        gy_wire message;
        size_t used = 0;
        gy_status status = gy_wire_next(all + at, come - at, &message, &used);
        if (status == GY_OK) {
            GY_ASSERT(used >= GY_WIRE_HEAD_BYTES && used <= come - at);
            sum += read_all(&message);
            at += used;
        } else if (status == GY_AGAIN && come < total) {
            GY_ASSERT(used > come - at);
            come = GY_MIN(come + piece, total);
        } else {
            break;
        }
    }
    gy_free(all);
    __asm__ volatile("" : : "r"(sum)); /* prevent the compiler from removing the reads */
    return 0;
}
