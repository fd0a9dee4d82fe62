#include "transport/tcp/link_priv.h"

#include <string.h>

enum { PIECES = 32 };

gy_status gy_tcp_link_new(gy_tcp_wire *wire, gy_tcp_link **link)
{
    GY_ASSERT(wire != NULL);
    gy_tcp_link *made = gy_alloc_zero("transport.link", 1, sizeof(*made));
    uint8_t *ahead = gy_alloc("transport.link", GY_LINK_AHEAD_BYTES);
    if (made == NULL || ahead == NULL) {
        gy_tcp_wire_close(wire);
        gy_free(made);
        gy_free(ahead);
        return GY_NOMEM;
    }
    made->wire = wire;
    made->ahead = ahead;
    made->sequence = made->reader.sequence = 1; /* the greeting was number 0 */
    made->reader.limit = GY_MESSAGE_BYTES;
    *link = made;
    return GY_OK;
}

gy_status gy_tcp_link_note(gy_tcp_link *link, gy_transport_frame_type type, const void *body,
                           size_t size_bytes)
{
    GY_ASSERT(type != GY_FRAME_MESSAGE);
    GY_ASSERT(size_bytes <= GY_CONTROL_BYTES);
    gy_note *note = gy_alloc("transport.note", sizeof(gy_note) + GY_FRAME_BYTES + size_bytes);
    if (note == NULL) {
        return GY_NOMEM;
    }
    *note = (gy_note){.size_bytes = GY_FRAME_BYTES + size_bytes, .type = type};
    if (size_bytes > 0) {
        memcpy(note->bytes + GY_FRAME_BYTES, body, size_bytes);
    }
    gy_note **end = &link->notes;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = note;
    return GY_OK;
}

static bool is_between_messages(const gy_tcp_link *link)
{
    return link->head_sent_bytes == 0;
}

/* Write the first note between two messages. */
static gy_status push_note(gy_tcp_link *link)
{
    GY_ASSERT(link->notes != NULL);
    GY_ASSERT(is_between_messages(link));
    GY_ASSERT(link->notes->sent_bytes < link->notes->size_bytes);
    gy_note *note = link->notes;
    if (note->sent_bytes == 0) {
        gy_transport_frame_write(
            &(gy_transport_frame){.type = note->type,
                                  .size_bytes = note->size_bytes - GY_FRAME_BYTES,
                                  .sequence = link->sequence},
            note->bytes);
    }
    struct iovec piece = {.iov_base = note->bytes + note->sent_bytes,
                          .iov_len = note->size_bytes - note->sent_bytes};
    size_t put = 0;
    gy_status status = gy_tcp_wire_write(link->wire, &piece, 1, &put);
    if (status != GY_OK) {
        return status;
    }
    note->sent_bytes += put;
    if (note->sent_bytes == note->size_bytes) {
        link->sequence++;
        link->notes = note->next;
        gy_free(note);
    }
    return GY_OK;
}

/* Gather the unsent parts of the queued messages, from the first one's position on. */
static int gather(const gy_tcp_link *link, struct iovec pieces[PIECES],
                  uint8_t heads[PIECES / 2][GY_FRAME_BYTES])
{
    GY_ASSERT(link->head_sent_bytes < GY_FRAME_BYTES || link->sends != NULL);
    int count = 0;
    uint64_t sequence = link->sequence;
    for (const gy_transfer *send = link->sends; send != NULL && count + 2 <= PIECES;
         send = send->next) {
        uint8_t *head = heads[count / 2];
        size_t skip = send == link->sends ? link->head_sent_bytes : 0;
        gy_transport_frame_write(&(gy_transport_frame){.type = GY_FRAME_MESSAGE,
                                                       .size_bytes = send->size_bytes,
                                                       .tag = send->tag,
                                                       .sequence = sequence++},
                                 head);
        pieces[count++] =
            (struct iovec){.iov_base = head + skip, .iov_len = GY_FRAME_BYTES - skip};
        pieces[count++] = (struct iovec){.iov_base = send->data + send->done_bytes,
                                         .iov_len = send->size_bytes - send->done_bytes};
    }
    GY_ASSERT(count > 0);
    GY_ASSERT(count <= PIECES);
    return count;
}

/* Account for `put` bytes that were written. */
static void advance(gy_tcp_link *link, size_t put)
{
    GY_ASSERT(link->head_sent_bytes <= GY_FRAME_BYTES);
    while (link->sends != NULL) {
        gy_transfer *send = link->sends;
        size_t head = GY_MIN(put, GY_FRAME_BYTES - link->head_sent_bytes);
        link->head_sent_bytes += head;
        put -= head;
        size_t body = GY_MIN(put, send->size_bytes - send->done_bytes);
        send->done_bytes += body;
        put -= body;
        if (link->head_sent_bytes < GY_FRAME_BYTES || send->done_bytes < send->size_bytes) {
            break;
        }
        link->sends = send->next;
        link->head_sent_bytes = 0;
        link->sequence++;
        gy_transfer_end(send, GY_OK);
    }
    GY_ASSERT(put == 0);
}

gy_status gy_tcp_link_push(gy_tcp_link *link)
{
    GY_ASSERT(link->head_sent_bytes == 0 || link->sends != NULL || link->is_cut);
    bool has_moved = false;
    gy_status status = gy_tcp_wire_flush(link->wire);
    while (status == GY_OK && (link->notes != NULL || link->sends != NULL)) {
        if (link->is_cut) {
            break;
        }
        if (link->notes != NULL && is_between_messages(link)) {
            status = push_note(link);
        } else {
            struct iovec pieces[PIECES];
            uint8_t heads[PIECES / 2][GY_FRAME_BYTES];
            int count = gather(link, pieces, heads);
            size_t put = 0;
            status = gy_tcp_wire_write(link->wire, pieces, count, &put);
            if (status == GY_OK) {
                advance(link, put);
            }
        }
        has_moved = has_moved || status == GY_OK;
    }
    if (status >= 0) {
        status = gy_tcp_wire_flush(link->wire);
    }
    return status < 0 ? status : has_moved ? GY_OK : GY_AGAIN;
}

/* Process bytes that were read in advance. GY_OK: all of them. */
static gy_status use_ahead(gy_tcp_link *link, gy_tcp_link_hear hear, void *arg)
{
    GY_ASSERT(link->ahead_from <= link->ahead_to);
    GY_ASSERT(link->ahead_to <= GY_LINK_AHEAD_BYTES);
    struct iovec bytes = {.iov_base = link->ahead + link->ahead_from,
                          .iov_len = link->ahead_to - link->ahead_from};
    size_t taken = 0;
    gy_status status = gy_reader_take(&link->reader, &bytes, &taken, hear, arg);
    link->ahead_from += taken;
    if (link->ahead_from == link->ahead_to) {
        link->ahead_from = link->ahead_to = 0;
    }
    return status;
}

/* One read: the rest of a message goes directly to its destination, further bytes into the
 * read-ahead buffer. *is_all: no more data. */
static gy_status read_once(gy_tcp_link *link, bool *is_all, gy_tcp_link_hear hear, void *arg)
{
    GY_ASSERT(link->ahead_from == link->ahead_to);
    struct iovec pieces[2] = {{.iov_len = 0}};
    int count = 0;
    size_t straight = 0, got = 0, taken = 0;
    uint8_t *to = NULL;
    if (link->reader.inbox.is_arriving) {
        straight = gy_inbox_space(&link->reader.inbox, &to);
        straight = to != NULL ? straight : 0;
    }
    if (straight > 0) {
        pieces[count++] = (struct iovec){.iov_base = to, .iov_len = straight};
    }
    pieces[count++] = (struct iovec){.iov_base = link->ahead, .iov_len = GY_LINK_AHEAD_BYTES};
    gy_status status = gy_tcp_wire_read(link->wire, pieces, count, &got);
    if (status != GY_OK) {
        return status;
    }
    size_t body = GY_MIN(got, straight);
    if (body > 0) {
        struct iovec bytes = {.iov_base = to, .iov_len = body};
        GY_TRY(gy_reader_take(&link->reader, &bytes, &taken, hear, arg));
        GY_ASSERT(taken == body);
    }
    GY_ASSERT(got > 0);
    GY_ASSERT(got - body <= GY_LINK_AHEAD_BYTES);
    link->ahead_to = got - body;
    *is_all = got < straight + GY_LINK_AHEAD_BYTES;
    return GY_OK;
}

gy_status gy_tcp_link_pull(gy_tcp_link *link, gy_tcp_link_hear hear, void *arg)
{
    GY_ASSERT(hear != NULL);
    bool has_moved = false, is_all = false;
    gy_status status = GY_OK;
    /* Read until the end: data that TLS has buffered do not make the socket readable. */
    while (status == GY_OK) {
        if (link->ahead_to > link->ahead_from || link->reader.is_inside) {
            status = use_ahead(link, hear, arg);
        }
        if (status == GY_OK && is_all) {
            break;
        }
        if (status == GY_OK) {
            status = read_once(link, &is_all, hear, arg);
            has_moved = has_moved || status == GY_OK;
        }
    }
    return status < 0 ? status : has_moved ? GY_OK : GY_AGAIN;
}

bool gy_tcp_link_is_full(const gy_tcp_link *link)
{
    GY_ASSERT(link->wire != NULL);
    return link->notes != NULL || link->sends != NULL || gy_tcp_wire_wants_room(link->wire);
}

const gy_tcp_wire *gy_tcp_link_wire(const gy_tcp_link *link)
{
    GY_ASSERT(link != NULL);
    return link->wire;
}

void gy_tcp_link_free(gy_tcp_link *link)
{
    if (link == NULL) {
        return;
    }
    gy_tcp_wire_close(link->wire);
    while (link->notes != NULL) {
        gy_note *next = link->notes->next;
        gy_free(link->notes);
        link->notes = next;
    }
    gy_reader_fini(&link->reader);
    gy_free(link->ahead);
    gy_free(link);
}
