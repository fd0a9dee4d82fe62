#include "transport/tcp/link_priv.h"

#include <string.h>

/* A large message waits in the stream until its receive is posted, so that it needs no copy;
 * but not when another receive waits for a message behind it. */
static gy_status begin_message(gy_reader *reader)
{
    GY_ASSERT(reader->is_inside);
    GY_ASSERT(!reader->is_begun);
    if (reader->frame.size_bytes > GY_EAGER_BYTES && !reader->is_eager &&
        reader->inbox.posted == NULL && !gy_inbox_is_stale(&reader->inbox, reader->frame.tag)) {
        return GY_AGAIN;
    }
    if (!gy_inbox_begin(&reader->inbox, reader->frame.tag, (size_t)reader->frame.size_bytes)) {
        return GY_AGAIN;
    }
    reader->is_begun = true;
    return GY_OK;
}

static gy_status read_head(gy_reader *reader, const uint8_t *bytes, size_t size, size_t *taken)
{
    GY_ASSERT(!reader->is_inside);
    GY_ASSERT(reader->head_bytes < GY_FRAME_BYTES);
    size_t more = GY_MIN(size, GY_FRAME_BYTES - reader->head_bytes);
    memcpy(reader->head + reader->head_bytes, bytes, more);
    reader->head_bytes += more;
    *taken += more;
    if (reader->head_bytes < GY_FRAME_BYTES) {
        return GY_OK;
    }
    GY_TRY(
        gy_transport_frame_read(reader->head, reader->sequence, reader->limit, &reader->frame));
    reader->is_inside = true;
    reader->is_begun = false;
    reader->control_bytes = 0;
    if (reader->frame.type == GY_FRAME_MESSAGE || reader->frame.size_bytes == 0) {
        return GY_OK;
    }
    reader->control = gy_alloc("transport.control", (size_t)reader->frame.size_bytes);
    return reader->control != NULL ? GY_OK : GY_NOMEM;
}

static void end_frame(gy_reader *reader)
{
    GY_ASSERT(reader->is_inside);
    GY_ASSERT(reader->head_bytes == GY_FRAME_BYTES);
    gy_free(reader->control);
    reader->control = NULL;
    reader->is_inside = false;
    reader->head_bytes = 0;
    reader->sequence++;
}

static gy_status take_message(gy_reader *reader, const uint8_t *bytes, size_t size,
                              size_t *taken)
{
    GY_ASSERT(reader->is_inside);
    GY_ASSERT(reader->frame.type == GY_FRAME_MESSAGE);
    if (!reader->is_begun) {
        gy_status status = begin_message(reader);
        if (status != GY_OK) {
            return status;
        }
    }
    if (reader->inbox.is_arriving) {
        uint8_t *to = NULL;
        size_t more = GY_MIN(gy_inbox_space(&reader->inbox, &to), size);
        if (to != NULL && more > 0 && to != bytes) {
            memcpy(to, bytes, more);
        }
        *taken += more;
        gy_inbox_filled(&reader->inbox, more);
    }
    if (!reader->inbox.is_arriving) {
        end_frame(reader);
    }
    return GY_OK;
}

static gy_status take_control(gy_reader *reader, const uint8_t *bytes, size_t size,
                              size_t *taken, gy_status *heard)
{
    GY_ASSERT(reader->is_inside);
    GY_ASSERT(reader->frame.type != GY_FRAME_MESSAGE);
    GY_ASSERT(reader->control_bytes <= reader->frame.size_bytes);
    size_t wanted = (size_t)reader->frame.size_bytes - reader->control_bytes;
    size_t more = GY_MIN(wanted, size);
    if (more > 0) {
        memcpy(reader->control + reader->control_bytes, bytes, more);
        reader->control_bytes += more;
        *taken += more;
    }
    *heard = more == wanted ? GY_OK : GY_AGAIN;
    return GY_OK;
}

gy_status gy_reader_take(gy_reader *reader, const struct iovec *bytes, size_t *taken,
                         gy_tcp_link_hear hear, void *arg)
{
    GY_ASSERT(hear != NULL);
    const uint8_t *data = bytes->iov_base;
    *taken = 0;
    while (*taken < bytes->iov_len || reader->is_inside) {
        size_t left = bytes->iov_len - *taken;
        if (!reader->is_inside) {
            GY_TRY(read_head(reader, data + *taken, left, taken));
            continue;
        }
        if (reader->frame.type == GY_FRAME_MESSAGE) {
            gy_status status = take_message(reader, data + *taken, left, taken);
            if (status != GY_OK) {
                return status;
            }
        } else {
            gy_status heard = GY_AGAIN;
            GY_TRY(take_control(reader, data + *taken, left, taken, &heard));
            if (heard == GY_OK) {
                GY_TRY(hear(arg, &reader->frame, reader->control));
                end_frame(reader);
            }
        }
        if (reader->is_inside && *taken == bytes->iov_len) {
            break; /* the rest of the body has not arrived */
        }
    }
    return GY_OK;
}

void gy_reader_fini(gy_reader *reader)
{
    GY_ASSERT(reader->control == NULL || reader->is_inside);
    gy_inbox_fini(&reader->inbox);
    gy_free(reader->control);
    reader->control = NULL;
}
