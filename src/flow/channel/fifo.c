/* FIFOs: a ring that is mapped twice in a row, so that a range that wraps around is still
 * contiguous, and the file that takes the overflow while the ring's reader waits for another
 * member. */
#include "flow/channel/cohort_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_PIECE_BYTES = 256 << 10, SPILL_LEAST = 1 << 20 };

/* ---- spilled files ---- */

gy_status gy_flow_spill_open(gy_cohort *cohort, int *file)
{
    int made = open(cohort->options.folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        gy_text path = {.data = NULL}; /* this file system has no O_TMPFILE */
        gy_text_add(&path, "%s/spill-XXXXXX", cohort->options.folder);
        if (path.status == GY_OK) {
            made = mkostemp(path.data, O_CLOEXEC);
            if (made >= 0) {
                (void)unlink(path.data);
            }
        }
        gy_text_free(&path);
    }
    if (made < 0) {
        return gy_fail(GY_IO, "cannot make a file in %s: %s", cohort->options.folder,
                       strerrordesc_np(errno));
    }
    *file = made;
    return GY_OK;
}

gy_status gy_flow_spill_write(int file, const void *data, size_t size_bytes, uint64_t offset)
{
    const uint8_t *at = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t put = pwrite(file, at + done, size_bytes - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            int error = put < 0 ? errno : EIO;
            bool is_full = error == ENOSPC || error == EDQUOT;
            return gy_fail(is_full ? GY_LIMIT : GY_IO, "%scannot spill %zu bytes: %s",
                           is_full ? "disk full: " : "", size_bytes, strerrordesc_np(error));
        }
        done += (size_t)put;
    }
    return GY_OK;
}

gy_status gy_flow_spill_read(int file, void *data, size_t size_bytes, uint64_t offset)
{
    uint8_t *at = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = pread(file, at + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return gy_fail(GY_IO, "cannot read a spilled file: %s",
                           strerrordesc_np(got < 0 ? errno : EIO));
        }
        done += (size_t)got;
    }
    return GY_OK;
}

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_seq_cst);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_seq_cst);
}

size_t gy_flow_spill_room(gy_cohort *cohort, uint32_t index)
{
    gy_flow_shared_channel *channel = &cohort->channels[index];
    uint64_t backlog = load(&channel->file_tail) - load(&channel->file_head);
    if (atomic_exchange_explicit(&channel->must_spill, 0, memory_order_seq_cst) != 0 &&
        load(&channel->file_limit) <= backlog) {
        /* double the limit each time, so that a long spill needs few deadlock walks */
        uint64_t more = GY_MAX((uint64_t)SPILL_LEAST, (uint64_t)cohort->ring_bytes);
        store(&channel->file_limit, backlog + GY_MAX(more, backlog));
    }
    uint64_t limit = load(&channel->file_limit);
    return limit > backlog ? (size_t)(limit - backlog) : 0;
}

/* ---- who may proceed ---- */

static size_t ring_room(gy_cohort *cohort, const gy_flow_shared_channel *channel)
{
    return cohort->ring_bytes - (size_t)(load(&channel->tail) - load(&channel->head));
}

static bool is_reader_gone(gy_cohort *cohort, uint32_t index)
{
    uint32_t to = cohort->options.channels[index].to;
    return atomic_load_explicit(&cohort->members[to].state, memory_order_acquire) ==
           GY_MEMBER_WELL;
}

static bool may_write(gy_cohort *cohort, uint32_t index)
{
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    uint64_t backlog = load(&channel->file_tail) - load(&channel->file_head);
    return (backlog == 0 && ring_room(cohort, channel) > 0) ||
           load(&channel->file_limit) > backlog ||
           atomic_load_explicit(&channel->must_spill, memory_order_seq_cst) != 0 ||
           is_reader_gone(cohort, index);
}

static bool may_read(gy_cohort *cohort, uint32_t index)
{
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    return atomic_load_explicit(&channel->is_closed, memory_order_seq_cst) != 0 ||
           load(&channel->tail) != load(&channel->head) ||
           load(&channel->file_tail) != load(&channel->file_head);
}

bool gy_flow_wait_is_true(gy_cohort *cohort, uint32_t wait)
{
    uint32_t index = (wait - 1) / 2;
    if (index >= cohort->options.channel_count) {
        return false;
    }
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    if (wait == gy_wait_read(index)) {
        /* bytes that a pipe spilled are not sent yet */
        if (cohort->options.channels[index].is_pipe) {
            return atomic_load_explicit(&channel->is_closed, memory_order_seq_cst) == 0 &&
                   load(&channel->tail) == load(&channel->head);
        }
        return !may_read(cohort, index);
    }
    /* the number of bytes in a socket's buffers is unknown */
    if (cohort->options.channels[index].is_pipe) {
        return load(&channel->tail) != load(&channel->head) &&
               atomic_load_explicit(&channel->must_spill, memory_order_seq_cst) == 0;
    }
    return !may_write(cohort, index);
}

/* ---- mapping ---- */

gy_status gy_flow_fifo_map(gy_cohort *cohort, uint32_t index)
{
    size_t size = cohort->ring_bytes;
    off_t offset = (off_t)(cohort->rings_offset + index * size);
    uint8_t *base = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return gy_fail(GY_NOMEM, "no room to map a ring of %zu bytes", size);
    }
    for (size_t half = 0; half < 2; half++) {
        if (mmap(base + half * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 cohort->memory, offset) == MAP_FAILED) {
            GY_ASSERT(munmap(base, 2 * size) == 0);
            return gy_fail(GY_NOMEM, "cannot map a ring of %zu bytes", size);
        }
    }
    cohort->ends[index].ring = base;
    return GY_OK;
}

/* ---- writing ---- */

static gy_status publish_file(gy_cohort *cohort, uint32_t index)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    GY_TRY(gy_flow_spill_open(cohort, &end->file));
    atomic_store_explicit(&channel->file, end->file + 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&cohort->shared->spills, 1, memory_order_seq_cst);
    /* on whatever the reader sleeps, it opens the file now */
    gy_cohort_ring(cohort, end->to, 0);
    return GY_OK;
}

static gy_status spill(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                       size_t size_bytes)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    if (end->file < 0) {
        GY_TRY(publish_file(cohort, index));
    }
    uint64_t tail = load(&channel->file_tail);
    /* the reader has read everything: reuse the file from its beginning */
    if (tail == load(&channel->file_head)) {
        if (ftruncate(end->file, 0) != 0) {
            return gy_fail(GY_IO, "cannot empty a spilled file: %s", strerrordesc_np(errno));
        }
        store(&channel->file_base, tail);
    }
    GY_TRY(gy_flow_spill_write(end->file, data, size_bytes, tail - load(&channel->file_base)));
    store(&channel->file_tail, tail + size_bytes);
    end->spilled += size_bytes;
    gy_cohort_ring(cohort, end->to, gy_wait_read(index));
    return GY_OK;
}

static void advance(gy_cohort *cohort, uint32_t index, size_t size_bytes)
{
    gy_flow_shared_channel *channel = &cohort->channels[index];
    store(&channel->tail, load(&channel->tail) + size_bytes);
    gy_cohort_ring(cohort, cohort->ends[index].to, gy_wait_read(index));
}

gy_status gy_flow_fifo_write(gy_cohort *cohort, uint32_t index, const uint8_t *data,
                             size_t size_bytes)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    end->bytes += size_bytes;
    while (size_bytes > 0) {
        uint64_t backlog = load(&channel->file_tail) - load(&channel->file_head);
        size_t room = backlog == 0 ? ring_room(cohort, channel) : 0;
        size_t piece = 0;
        if (room > 0) {
            /* the file is empty again: return to the ring */
            if (load(&channel->file_limit) > 0) {
                store(&channel->file_limit, 0);
                atomic_store_explicit(&channel->must_spill, 0, memory_order_seq_cst);
            }
            piece = GY_MIN(room, size_bytes);
            memcpy(end->ring + load(&channel->tail) % cohort->ring_bytes, data, piece);
            advance(cohort, index, piece);
        } else if ((room = gy_flow_spill_room(cohort, index)) > 0) {
            piece = GY_MIN(room, size_bytes);
            GY_TRY(spill(cohort, index, data, piece));
        } else if (is_reader_gone(cohort, index)) {
            return GY_OK;
        } else {
            GY_TRY(gy_cohort_wait(cohort, gy_wait_write(index), may_write, -1, 0));
        }
        data += piece;
        size_bytes -= piece;
    }
    return GY_OK;
}

gy_status gy_flow_fifo_room(gy_cohort *cohort, uint32_t index, size_t size_bytes, void **room)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    bool is_filed = load(&channel->file_tail) != load(&channel->file_head);
    end->is_room_ring = !end->is_pipe && !is_filed && size_bytes > 0 &&
                        ring_room(cohort, channel) >= size_bytes;
    end->room_bytes = size_bytes;
    if (end->is_room_ring) {
        *room = end->ring + load(&channel->tail) % cohort->ring_bytes;
        return GY_OK;
    }
    if (end->buffer_bytes < size_bytes || end->buffer == NULL) {
        void *buffer = gy_resize("flow.room", end->buffer, GY_MAX(size_bytes, (size_t)1));
        if (buffer == NULL) {
            return GY_NOMEM;
        }
        end->buffer = buffer;
        end->buffer_bytes = size_bytes;
    }
    *room = end->buffer;
    return GY_OK;
}

gy_status gy_flow_fifo_wrote(gy_cohort *cohort, uint32_t index, size_t size_bytes)
{
    gy_end *end = &cohort->ends[index];
    GY_ASSERT(size_bytes <= end->room_bytes);
    end->room_bytes = 0;
    if (!end->is_room_ring) {
        return end->is_pipe ? gy_pipe_write(cohort, index, end->buffer, size_bytes)
                            : gy_flow_fifo_write(cohort, index, end->buffer, size_bytes);
    }
    if (size_bytes > 0) {
        end->bytes += size_bytes;
        advance(cohort, index, size_bytes);
    }
    return GY_OK;
}

void gy_flow_fifo_end(gy_cohort *cohort, uint32_t index)
{
    atomic_store_explicit(&cohort->channels[index].is_closed, 1, memory_order_seq_cst);
    gy_cohort_ring(cohort, cohort->ends[index].to, gy_wait_read(index));
}

/* ---- reading ---- */

void gy_flow_fifo_settle(gy_cohort *cohort)
{
    for (uint32_t i = 0; i < cohort->options.channel_count; i++) {
        const gy_end *end = &cohort->ends[i];
        if (end->is_reader && !end->is_pipe && may_write(cohort, i)) {
            gy_cohort_ring(cohort, end->from, gy_wait_write(i));
        }
    }
}

/* Release the bytes of the last read. The writer is woken only once half the ring is free. */
static void release(gy_cohort *cohort, uint32_t index)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    if (end->held_bytes == 0) {
        return;
    }
    store(&channel->head, load(&channel->head) + end->held_bytes);
    end->held_bytes = 0;
    if (ring_room(cohort, channel) >= cohort->ring_bytes / 2) {
        gy_cohort_ring(cohort, end->from, gy_wait_write(index));
    }
}

/* Read the next bytes of the file; only while the ring is empty. */
static gy_status read_file(gy_cohort *cohort, uint32_t index, size_t ready, const void **data,
                           size_t *size_bytes)
{
    gy_end *end = &cohort->ends[index];
    gy_flow_shared_channel *channel = &cohort->channels[index];
    if (end->file < 0) {
        GY_TRY(gy_flow_spills_take(cohort));
    }
    GY_ASSERT(end->file >= 0);
    if (end->buffer == NULL) {
        end->buffer = gy_alloc("flow.spill", FILE_PIECE_BYTES);
        if (end->buffer == NULL) {
            return GY_NOMEM;
        }
    }
    size_t piece = GY_MIN(ready, (size_t)FILE_PIECE_BYTES);
    uint64_t head = load(&channel->file_head);
    GY_TRY(gy_flow_spill_read(end->file, end->buffer, piece, head - load(&channel->file_base)));
    store(&channel->file_head, head + piece);
    gy_cohort_ring(cohort, end->from, gy_wait_write(index));
    *data = end->buffer;
    *size_bytes = piece;
    return GY_OK;
}

gy_status gy_flow_fifo_read(gy_cohort *cohort, uint32_t index, const void **data,
                            size_t *size_bytes)
{
    gy_end *end = &cohort->ends[index];
    const gy_flow_shared_channel *channel = &cohort->channels[index];
    release(cohort, index);
    for (;;) {
        /* The order of these loads matters. Nothing follows a close; and while the file is not
         * empty, its writer adds nothing to the ring. So if the ring is empty afterwards, the
         * bytes that the file had come next. */
        bool is_closed = atomic_load_explicit(&channel->is_closed, memory_order_seq_cst) != 0;
        size_t filed = (size_t)(load(&channel->file_tail) - load(&channel->file_head));
        size_t ready = (size_t)(load(&channel->tail) - load(&channel->head));
        if (ready > 0) {
            /* return a quarter of the ring at most, so that the writer fills the rest
             * meanwhile */
            end->held_bytes = GY_MIN(ready, cohort->ring_bytes / 4);
            *data = end->ring + load(&channel->head) % cohort->ring_bytes;
            *size_bytes = end->held_bytes;
            return GY_OK;
        }
        if (filed > 0) {
            return read_file(cohort, index, filed, data, size_bytes);
        }
        if (is_closed) {
            *data = "";
            *size_bytes = 0;
            return GY_OK;
        }
        GY_TRY(gy_cohort_wait(cohort, gy_wait_read(index), may_read, -1, 0));
    }
}
