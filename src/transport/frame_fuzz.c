/* Fuzz target: any bytes on a link, in any pieces, give messages within their lengths or a
 * failure. */
#include "transport/tcp/link_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gy_status hear(void *arg, const gy_transport_frame *frame, const uint8_t *body)
{
    uint64_t *sum = arg;
    GY_ASSERT(frame->type != GY_FRAME_MESSAGE && frame->size_bytes <= GY_CONTROL_BYTES);
    for (uint64_t i = 0; i < frame->size_bytes; i++) {
        *sum += body[i];
    }
#ifdef GYRE_PLANTED_BUG
    /* room for a body of 16 bytes: the length is believed */
    uint8_t *copy = gy_alloc("fuzz", 16);
    for (uint64_t i = 0; copy != NULL && i < frame->size_bytes; i++) {
        ((volatile uint8_t *)copy)[i] = body[i];
    }
    gy_free(copy);
#endif
    return GY_OK;
}

/* The first byte says how long the pieces are, the second how many receives are posted. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { POSTED = 4, ROOM = 64 };
    gy_reader reader = {.sequence = 1, .limit = 1 << 20};
    gy_transfer receives[POSTED];
    uint8_t room[POSTED][ROOM];
    uint64_t sum = 0;
    if (size < 2) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    for (int i = 0; i < data[1] % (POSTED + 1); i++) {
        receives[i] = (gy_transfer){
            .status = GY_AGAIN, .size_bytes = ROOM, .tag = (uint64_t)i, .data = room[i]};
        gy_inbox_post(&reader.inbox, &receives[i]);
    }
    gy_status status = GY_OK;
    for (size_t at = 2; at < size && status == GY_OK;) {
        struct iovec bytes = {.iov_base = (void *)(uintptr_t)(data + at),
                              .iov_len = GY_MIN(piece, size - at)};
        size_t taken = 0;
        status = gy_reader_take(&reader, &bytes, &taken, hear, &sum);
        GY_ASSERT(taken <= bytes.iov_len && (status != GY_OK || taken == bytes.iov_len));
        at += taken;
    }
    for (int i = 0; i < data[1] % (POSTED + 1); i++) {
        GY_ASSERT(receives[i].status != GY_OK || receives[i].size_bytes <= ROOM);
    }
    gy_reader_fini(&reader);
    return 0;
}
