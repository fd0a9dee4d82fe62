/*
 * Pipes: TCP over the loopback. The reader listens and accepts the one caller that knows the
 * token. Frames of (length, bytes) follow, and then a closing record of length 0 with the
 * count and the checksum of all bytes: a stream that ends without this record means that the
 * writer died. A writer on a wait-for cycle appends to a file from then on, which a pump
 * thread sends.
 */
#include "flow/channel/cohort_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRAME_BYTES = 64 << 10, /* most data bytes in a frame */
    IN_BYTES = 256 << 10,
    GREETING_BYTES = 20, /* token, channel */
    CLOSING_BYTES = 20,  /* 0, count, checksum */
    GREETING_MS = 1000,  /* time limit for a caller's greeting */
    PUMP_NAP_MS = 50,
};

struct gy_pipe {
    int listener, socket;
    uint8_t *buffer;
    size_t first,
        used; /* reader: bytes received; writer: bytes buffered behind 4 bytes of length */
    uint32_t frame_left;
    gy_hash_stream hash;
    uint64_t total;
    /* writer: the spilled bytes */
    gy_mutex lock;
    gy_cond more;
    bool has_pump, is_finished GY_GUARDED(lock);
    gy_thread pump;
    _Atomic bool has_failed;
    gy_cohort *cohort;
    uint32_t channel;
};

static void close_file(int *file)
{
    if (*file >= 0) {
        (void)close(*file);
    }
    *file = -1;
}

static gy_status make_pipe(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = gy_alloc_zero("flow.pipe", 1, sizeof(*pipe));
    if (pipe == NULL) {
        return GY_NOMEM;
    }
    pipe->listener = pipe->socket = -1;
    pipe->cohort = cohort;
    pipe->channel = index;
    gy_hash_begin(&pipe->hash);
    gy_mutex_init(&pipe->lock, 1);
    gy_cond_init(&pipe->more);
    cohort->ends[index].pipe = pipe; /* freed together with the cohort from here on */
    pipe->buffer = gy_alloc("flow.pipe", IN_BYTES);
    return pipe->buffer != NULL ? GY_OK : GY_NOMEM;
}

static gy_status lost(const char *what)
{
    return gy_fail(GY_PEER, "the other end of a pipe has closed: %s", what);
}

static bool is_ready(int file, short events)
{
    struct pollfd look = {.fd = file, .events = events};
    return poll(&look, 1, 0) == 1;
}

/* ---- the reader ---- */

gy_status gy_pipe_listen(gy_cohort *cohort, uint32_t index)
{
    GY_TRY(make_pipe(cohort, index));
    gy_pipe *pipe = cohort->ends[index].pipe;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    pipe->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pipe->listener < 0 ||
        bind(pipe->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(pipe->listener, 16) != 0 ||
        getsockname(pipe->listener, (struct sockaddr *)&address, &size) != 0) {
        return gy_fail(GY_IO, "cannot listen on the loopback: %s", strerrordesc_np(errno));
    }
    atomic_store_explicit(&cohort->channels[index].port, ntohs(address.sin_port),
                          memory_order_release);
    return GY_OK;
}

static void greeting_of(const gy_cohort *cohort, uint32_t index, uint8_t out[GREETING_BYTES])
{
    memcpy(out, cohort->options.token, sizeof(cohort->options.token));
    memcpy(out + sizeof(cohort->options.token), &index, sizeof(index));
}

/* Does the caller send the whole token in time? The comparison takes the same time wherever
 * the bytes differ. */
static bool is_believed(const gy_cohort *cohort, uint32_t index, int caller)
{
    uint8_t said[GREETING_BYTES], expected[GREETING_BYTES];
    const int64_t until_ns = gy_now_ns(cohort->env) + (int64_t)GREETING_MS * 1000000;
    greeting_of(cohort, index, expected);
    for (size_t done = 0; done < sizeof(said);) {
        const int64_t left_ns = until_ns - gy_now_ns(cohort->env);
        if (left_ns <= 0) {
            return false;
        }
        struct pollfd look = {.fd = caller, .events = POLLIN};
        int ready = poll(&look, 1, (int)((left_ns + 999999) / 1000000));
        if (ready < 0 && errno == EINTR) { /* the timer of records interrupted the call */
            continue;
        }
        if (ready != 1) {
            return false;
        }
        ssize_t got = recv(caller, said + done, sizeof(said) - done, MSG_DONTWAIT);
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    uint8_t differs = 0;
    for (size_t i = 0; i < sizeof(said); i++) {
        differs = (uint8_t)(differs | (said[i] ^ expected[i]));
    }
    return differs == 0;
}

static bool has_caller(gy_cohort *cohort, uint32_t index)
{
    return is_ready(cohort->ends[index].pipe->listener, POLLIN);
}

static gy_status fail_accept(void)
{
    gy_status status = GY_IO;
    if (errno == EMFILE || errno == ENFILE) {
        status = GY_LIMIT;
    } else if (errno == ENOMEM || errno == ENOBUFS) {
        status = GY_NOMEM;
    }
    return gy_fail(status, "cannot take the call of a pipe's writer: %s",
                   strerrordesc_np(errno));
}

static gy_status take_caller(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = cohort->ends[index].pipe;
    while (pipe->socket < 0) {
        GY_TRY(gy_cohort_wait(cohort, gy_wait_read(index), has_caller, pipe->listener, POLLIN));
        int caller = accept4(pipe->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            /* the caller keeps waiting, and the next accept fails as well */
            return fail_accept();
        }
        if (caller >= 0 && is_believed(cohort, index, caller)) {
            pipe->socket = caller;
        } else {
            close_file(&caller);
        }
    }
    close_file(&pipe->listener);
    return GY_OK;
}

static bool has_bytes(gy_cohort *cohort, uint32_t index)
{
    return is_ready(cohort->ends[index].pipe->socket, POLLIN);
}

/* Read more bytes behind the buffered ones, at least one. */
static gy_status refill(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = cohort->ends[index].pipe;
    memmove(pipe->buffer, pipe->buffer + pipe->first, pipe->used);
    pipe->first = 0;
    for (;;) {
        ssize_t got =
            recv(pipe->socket, pipe->buffer + pipe->used, IN_BYTES - pipe->used, MSG_DONTWAIT);
        if (got > 0) {
            pipe->used += (size_t)got;
            atomic_fetch_add_explicit(&cohort->channels[index].head, (uint64_t)got,
                                      memory_order_seq_cst);
            return GY_OK;
        }
        if (got == 0) {
            return lost("it ended without a closing record");
        }
        if (errno != EAGAIN && errno != EINTR) {
            return lost(strerrordesc_np(errno));
        }
        GY_TRY(gy_cohort_wait(cohort, gy_wait_read(index), has_bytes, pipe->socket, POLLIN));
    }
}

static gy_status need(gy_cohort *cohort, uint32_t index, size_t size_bytes)
{
    while (cohort->ends[index].pipe->used < size_bytes) {
        GY_TRY(refill(cohort, index));
    }
    return GY_OK;
}

static gy_status take_closing(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = cohort->ends[index].pipe;
    uint64_t said[2];
    GY_TRY(need(cohort, index, CLOSING_BYTES));
    memcpy(said, pipe->buffer + pipe->first + 4, sizeof(said));
    if (said[0] != pipe->total || said[1] != gy_hash_end(&pipe->hash)) {
        return gy_fail(GY_FORMAT, "a pipe's %llu bytes differ from the %llu that were sent",
                       (unsigned long long)pipe->total, (unsigned long long)said[0]);
    }
    cohort->ends[index].is_ended = true;
    return GY_OK;
}

gy_status gy_pipe_read(gy_cohort *cohort, uint32_t index, const void **data, size_t *size_bytes)
{
    gy_end *end = &cohort->ends[index];
    gy_pipe *pipe = end->pipe;
    if (pipe->socket < 0 && !end->is_ended) {
        GY_TRY(take_caller(cohort, index));
    }
    while (pipe->frame_left == 0 && !end->is_ended) {
        uint32_t size = 0;
        GY_TRY(need(cohort, index, sizeof(size)));
        memcpy(&size, pipe->buffer + pipe->first, sizeof(size));
        if (size == 0) {
            GY_TRY(take_closing(cohort, index));
        } else if (size > FRAME_BYTES) {
            return gy_fail(GY_FORMAT, "a pipe's frame has %u bytes, at most %d", size,
                           FRAME_BYTES);
        } else {
            pipe->first += sizeof(size);
            pipe->used -= sizeof(size);
            pipe->frame_left = size;
        }
    }
    *data = "";
    *size_bytes = 0;
    if (end->is_ended) {
        return GY_OK;
    }
    GY_TRY(need(cohort, index, 1));
    size_t piece = GY_MIN(pipe->used, (size_t)pipe->frame_left);
    *data = pipe->buffer + pipe->first;
    *size_bytes = piece;
    gy_hash_feed(&pipe->hash, *data, piece);
    pipe->total += piece;
    pipe->first += piece;
    pipe->used -= piece;
    pipe->frame_left -= (uint32_t)piece;
    return GY_OK;
}

/* ---- the writer ---- */

static bool is_reader_gone(gy_cohort *cohort, uint32_t index)
{
    uint32_t to = cohort->ends[index].to;
    return atomic_load_explicit(&cohort->members[to].state, memory_order_acquire) ==
           GY_MEMBER_WELL;
}

static uint64_t backlog_of(gy_cohort *cohort, uint32_t index)
{
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    return atomic_load_explicit(&channel->file_tail, memory_order_seq_cst) -
           atomic_load_explicit(&channel->file_head, memory_order_seq_cst);
}

static bool may_send(gy_cohort *cohort, uint32_t index)
{
    const gy_pipe *pipe = cohort->ends[index].pipe;
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    if (atomic_load_explicit(&channel->must_spill, memory_order_seq_cst) != 0 ||
        is_reader_gone(cohort, index)) {
        return true;
    }
    if (pipe->has_pump) {
        return atomic_load_explicit(&pipe->has_failed, memory_order_acquire) ||
               atomic_load_explicit(&channel->file_limit, memory_order_seq_cst) >
                   backlog_of(cohort, index);
    }
    return is_ready(pipe->socket, POLLOUT);
}

static gy_status call_reader(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = cohort->ends[index].pipe;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(
        (uint16_t)atomic_load_explicit(&cohort->channels[index].port, memory_order_acquire));
    pipe->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    /* the listener exists already, and on the loopback a connect finishes or fails at once */
    if (pipe->socket < 0 ||
        setsockopt(pipe->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        connect(pipe->socket, (struct sockaddr *)&address, sizeof(address)) != 0) {
        return is_reader_gone(cohort, index) ? GY_OK : lost(strerrordesc_np(errno));
    }
    uint8_t greeting[GREETING_BYTES];
    greeting_of(cohort, index, greeting);
    if (send(pipe->socket, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting)) {
        return is_reader_gone(cohort, index) ? GY_OK : lost(strerrordesc_np(errno));
    }
    return GY_OK;
}

/* Send as much as the socket takes: returns the size; 0: it would block; < 0: the reader is
 * gone. */
static ssize_t send_some(gy_cohort *cohort, uint32_t index, const void *data, size_t size_bytes)
{
    ssize_t sent = 0;
    do {
        sent = send(cohort->ends[index].pipe->socket, data, size_bytes,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent > 0) {
        atomic_fetch_add_explicit(&cohort->channels[index].tail, (uint64_t)sent,
                                  memory_order_seq_cst);
    }
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

/* ---- the pump ---- */

static gy_status pump_piece(gy_pipe *pipe, uint8_t *piece, size_t size_bytes)
{
    gy_cohort *cohort = pipe->cohort;
    gy_flow_shared_channel *channel = &cohort->channels[pipe->channel];
    uint64_t head = atomic_load_explicit(&channel->file_head, memory_order_seq_cst);
    uint64_t base = atomic_load_explicit(&channel->file_base, memory_order_seq_cst);
    GY_TRY(
        gy_flow_spill_read(cohort->ends[pipe->channel].file, piece, size_bytes, head - base));
    for (size_t done = 0; done < size_bytes;) {
        ssize_t sent = send_some(cohort, pipe->channel, piece + done, size_bytes - done);
        if (sent < 0) {
            return is_reader_gone(cohort, pipe->channel) ? GY_OK : lost("its reader died");
        }
        if (sent == 0) {
            struct pollfd look = {.fd = pipe->socket, .events = POLLOUT};
            (void)poll(&look, 1, PUMP_NAP_MS);
            GY_TRY(gy_cohort_check(cohort));
        }
        done += (size_t)sent;
    }
    return GY_OK;
}

static gy_status pump_all(gy_pipe *pipe, uint8_t *piece)
{
    gy_cohort *cohort = pipe->cohort;
    gy_flow_shared_channel *channel = &cohort->channels[pipe->channel];
    for (;;) {
        gy_mutex_lock(&pipe->lock);
        uint64_t ready = backlog_of(cohort, pipe->channel);
        while (ready == 0 && !pipe->is_finished) {
            int64_t until_ns = gy_now_ns(cohort->env) + (int64_t)PUMP_NAP_MS * 1000000;
            (void)gy_cond_wait(&pipe->more, &pipe->lock, (gy_deadline){until_ns});
            ready = backlog_of(cohort, pipe->channel);
        }
        gy_mutex_unlock(&pipe->lock);
        if (ready == 0) {
            return GY_OK;
        }
        size_t size = (size_t)GY_MIN(ready, (uint64_t)IN_BYTES);
        GY_TRY(pump_piece(pipe, piece, size));
        atomic_fetch_add_explicit(&channel->file_head, size, memory_order_seq_cst);
        gy_cohort_ring(cohort, cohort->options.member, gy_wait_write(pipe->channel));
    }
}

static void *pump(void *arg)
{
    gy_pipe *pipe = arg;
    uint8_t *piece = gy_alloc("flow.pump", IN_BYTES);
    if (piece == NULL || pump_all(pipe, piece) < 0) {
        atomic_store_explicit(&pipe->has_failed, true, memory_order_release);
        gy_cohort_break(pipe->cohort); /* the writer itself may already have ended in order */
    }
    gy_free(piece);
    return NULL;
}

static gy_status spill(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                       size_t size_bytes)
{
    gy_end *end = &cohort->ends[index];
    gy_pipe *pipe = end->pipe;
    gy_flow_shared_channel *channel = &cohort->channels[index];
    if (end->file < 0) {
        GY_TRY(gy_flow_spill_open(cohort, &end->file));
    }
    uint64_t tail = atomic_load_explicit(&channel->file_tail, memory_order_seq_cst);
    if (backlog_of(cohort, index) == 0) {
        if (ftruncate(end->file, 0) != 0) {
            return gy_fail(GY_IO, "cannot empty a spilled file: %s", strerrordesc_np(errno));
        }
        atomic_store_explicit(&channel->file_base, tail, memory_order_seq_cst);
    }
    uint64_t base = atomic_load_explicit(&channel->file_base, memory_order_seq_cst);
    GY_TRY(gy_flow_spill_write(end->file, data, size_bytes, tail - base));
    end->spilled += size_bytes;
    gy_mutex_lock(&pipe->lock);
    atomic_store_explicit(&channel->file_tail, tail + size_bytes, memory_order_seq_cst);
    gy_cond_signal(&pipe->more);
    gy_mutex_unlock(&pipe->lock);
    if (!pipe->has_pump) {
        GY_TRY(gy_thread_start(&pipe->pump, "gy-pump", pump, pipe));
        pipe->has_pump = true;
    }
    return GY_OK;
}

/* Write all bytes in order: to the socket until the first deadlock, to the file from then
 * on. */
static gy_status put_all(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                         size_t size_bytes)
{
    const gy_pipe *pipe = cohort->ends[index].pipe;
    gy_flow_shared_channel *channel = &cohort->channels[index];
    while (size_bytes > 0 && !is_reader_gone(cohort, index)) {
        size_t piece = 0;
        bool must_spill = atomic_load_explicit(&channel->must_spill, memory_order_seq_cst) != 0;
        if (pipe->has_pump || must_spill) {
            size_t room = gy_flow_spill_room(cohort, index);
            piece = GY_MIN(size_bytes, room);
            if (piece > 0) {
                GY_TRY(spill(cohort, index, data, piece));
            }
        } else {
            ssize_t sent = send_some(cohort, index, data, size_bytes);
            if (sent < 0 && !is_reader_gone(cohort, index)) {
                /* a reader that leaves in order announces it just before its socket closes */
                GY_TRY(gy_cohort_check(cohort));
                return lost(strerrordesc_np(errno));
            }
            piece = sent > 0 ? (size_t)sent : 0;
        }
        if (pipe->has_pump && atomic_load_explicit(&pipe->has_failed, memory_order_acquire)) {
            GY_TRY(gy_cohort_check(cohort));
        }
        if (piece == 0) {
            GY_TRY(gy_cohort_wait(cohort, gy_wait_write(index), may_send,
                                  pipe->has_pump ? -1 : pipe->socket, POLLOUT));
        }
        data += piece;
        size_bytes -= piece;
    }
    return GY_OK;
}

gy_status gy_pipe_flush(gy_cohort *cohort, uint32_t index)
{
    gy_pipe *pipe = cohort->ends[index].pipe;
    uint32_t size = (uint32_t)pipe->used;
    if (size == 0) {
        return GY_OK;
    }
    if (pipe->socket < 0) {
        GY_TRY(call_reader(cohort, index));
    }
    memcpy(pipe->buffer, &size, sizeof(size));
    pipe->used = 0; /* so that a wait does not flush these bytes again */
    return put_all(cohort, index, pipe->buffer, sizeof(size) + size);
}

gy_status gy_pipe_write(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                        size_t size_bytes)
{
    gy_end *end = &cohort->ends[index];
    if (end->pipe == NULL) {
        GY_TRY(make_pipe(cohort, index));
    }
    gy_pipe *pipe = end->pipe;
    GY_ASSERT(pipe != NULL);
    end->bytes += size_bytes;
    pipe->total += size_bytes;
    while (size_bytes > 0) {
        size_t piece = GY_MIN(size_bytes, FRAME_BYTES - pipe->used);
        memcpy(pipe->buffer + sizeof(uint32_t) + pipe->used, data, piece);
        gy_hash_feed(&pipe->hash, data, piece);
        pipe->used += piece;
        data += piece;
        size_bytes -= piece;
        if (pipe->used == FRAME_BYTES) {
            GY_TRY(gy_pipe_flush(cohort, index));
        }
    }
    return GY_OK;
}

gy_status gy_pipe_finish(gy_cohort *cohort, uint32_t index)
{
    gy_end *end = &cohort->ends[index];
    if (end->pipe == NULL) {
        GY_TRY(make_pipe(cohort, index));
    }
    gy_pipe *pipe = end->pipe;
    GY_ASSERT(pipe != NULL);
    GY_TRY(gy_pipe_flush(cohort, index));
    if (pipe->socket < 0) {
        GY_TRY(call_reader(cohort, index));
    }
    uint8_t closing[CLOSING_BYTES] = {0};
    uint64_t says[2] = {pipe->total, gy_hash_end(&pipe->hash)};
    memcpy(closing + 4, says, sizeof(says));
    GY_TRY(put_all(cohort, index, closing, sizeof(closing)));
    gy_mutex_lock(&pipe->lock);
    pipe->is_finished = true;
    gy_cond_signal(&pipe->more);
    gy_mutex_unlock(&pipe->lock);
    return GY_OK;
}

void gy_pipe_close(gy_cohort *cohort, uint32_t index)
{
    gy_end *end = &cohort->ends[index];
    gy_pipe *pipe = end->pipe;
    if (pipe->has_pump) {
        gy_mutex_lock(&pipe->lock);
        /* the pump still sends the rest, unless the cohort is broken */
        pipe->is_finished = true;
        gy_cond_signal(&pipe->more);
        gy_mutex_unlock(&pipe->lock);
        gy_thread_join(&pipe->pump);
    }
    close_file(&pipe->socket);
    close_file(&pipe->listener);
    close_file(&end->file);
    gy_cond_fini(&pipe->more);
    gy_mutex_fini(&pipe->lock);
    gy_free(pipe->buffer);
    gy_free(pipe);
    end->pipe = NULL;
}
