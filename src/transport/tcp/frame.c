#include "transport/tcp/bytes_priv.h"

#include <string.h>

/* "gyr1" on the wire; the first bytes of other protocols differ */
static const uint32_t frame_magic = 0x31727967;

enum { MAGIC_AT = 0, TYPE_AT = 4, SIZE_AT = 8, TAG_AT = 16, SEQUENCE_AT = 24 };

void gy_transport_frame_write(const gy_transport_frame *frame, uint8_t out[GY_FRAME_BYTES])
{
    GY_ASSERT(frame->type == GY_FRAME_MESSAGE ||
              (frame->tag == 0 && frame->size_bytes <= GY_CONTROL_BYTES));
    GY_ASSERT(frame->type >= GY_FRAME_HELLO);
    GY_ASSERT(frame->type < GY_FRAME_TYPES);
    gy_mapreduce_put_number(out + MAGIC_AT, frame_magic, 4);
    gy_mapreduce_put_number(out + TYPE_AT, (uint64_t)frame->type, 4);
    gy_mapreduce_put_number(out + SIZE_AT, frame->size_bytes, 8);
    gy_mapreduce_put_number(out + TAG_AT, frame->tag, 8);
    gy_mapreduce_put_number(out + SEQUENCE_AT, frame->sequence, 8);
}

static bool is_http(const uint8_t in[GY_FRAME_BYTES])
{
    static const char *const begins[] = {"GET ", "POST", "HEAD", "PUT ", "HTTP"};
    for (size_t i = 0; i < GY_COUNT(begins); i++) {
        if (memcmp(in, begins[i], 4) == 0) {
            return true;
        }
    }
    return false;
}

gy_status gy_transport_frame_read(const uint8_t in[GY_FRAME_BYTES], uint64_t sequence,
                                  uint64_t limit, gy_transport_frame *frame)
{
    GY_ASSERT(limit <= GY_MESSAGE_BYTES);
    uint64_t type = gy_get_number(in + TYPE_AT, 4);
    uint64_t size = gy_get_number(in + SIZE_AT, 8), tag = gy_get_number(in + TAG_AT, 8);
    uint64_t number = gy_get_number(in + SEQUENCE_AT, 8);
    if (gy_get_number(in + MAGIC_AT, 4) != frame_magic) {
        if (is_http(in)) {
            return gy_fail(GY_FORMAT, "these bytes are no frame but HTTP: the other end is a "
                                      "browser or a web server");
        }
        return gy_fail(GY_FORMAT, "these bytes are no frame: %02x %02x %02x %02x", in[0], in[1],
                       in[2], in[3]);
    }
    if (type < GY_FRAME_HELLO || type >= GY_FRAME_TYPES) {
        return gy_fail(GY_FORMAT, "a frame of type %llu: expected 1 to %d",
                       (unsigned long long)type, GY_FRAME_TYPES - 1);
    }
    bool is_message = type == GY_FRAME_MESSAGE;
    uint64_t most = is_message ? limit : (uint64_t)GY_CONTROL_BYTES;
    if (size > most) {
        return gy_fail(GY_FORMAT, "a frame of %llu bytes: at most %llu",
                       (unsigned long long)size, (unsigned long long)most);
    }
    if (number != sequence) {
        return gy_fail(GY_FORMAT, "frame number %llu: expected %llu",
                       (unsigned long long)number, (unsigned long long)sequence);
    }
    if (!is_message && tag != 0) {
        return gy_fail(GY_FORMAT, "a frame of type %llu with tag %llu",
                       (unsigned long long)type, (unsigned long long)tag);
    }
    *frame = (gy_transport_frame){.type = (gy_transport_frame_type)type,
                                  .size_bytes = size,
                                  .tag = tag,
                                  .sequence = number};
    return GY_OK;
}
