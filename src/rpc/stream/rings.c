/*
 * Two rings of bytes in shared memory, one in each direction, between two processes of a host.
 *
 * What the other end writes is not trusted: each end keeps its own counts in its own memory and
 * only publishes them; the other's counts are judged before they are used; bytes are copied out
 * before anything looks at them. The memory cannot be cut short (it is sealed), so that reading
 * it never faults.
 *
 * Who is about to sleep says so and looks once more; who publishes looks whether the other
 * sleeps, and then sends a byte over the connection, the bell. Both orders are total (seq_cst),
 * so that one of the two sees the other (Dekker).
 */
#include "rpc/stream/rings_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RING_BYTES = 1 << 20,
    CHUNK_BYTES = 128 * 1024, /* published at a time, so that the other end works meanwhile */
    LINE = 64,                /* of the cache */
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

/* One direction. Each count has one end that writes it. */
typedef struct ring_counts {
    _Alignas(LINE) _Atomic uint64_t put; /* bytes that were put in so far */
    _Alignas(LINE) _Atomic uint64_t taken;
} ring_counts;

/* What lies at the beginning of the memory; ways[0] comes from the caller. */
typedef struct rings_head {
    uint8_t token[GY_RINGS_TOKEN_BYTES];
    ring_counts ways[2];
    struct {
        _Alignas(LINE) _Atomic uint32_t flag; /* this end wants a bell */
    } sleeps[2];
} rings_head;

enum { HEAD_BYTES = 4096, ALL_BYTES = HEAD_BYTES + 2 * RING_BYTES };
_Static_assert(sizeof(rings_head) <= HEAD_BYTES, "the head has a page");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "counts wrap around with the ring");

struct stream_rings {
    rings_head *head;
    ring_counts *out_counts, *in_counts;
    uint8_t *out, *in; /* (RING_BYTES) */
    uint64_t put, taken;
    _Atomic uint32_t *sleeps, *other_sleeps;
    int file; /* -1: closed; the caller's, until the other end has it */
    bool is_armed;
};

/* ---- Open and close ---- */

static gy_status map(int file, bool is_caller, stream_rings **rings)
{
    stream_rings *made = gy_alloc_zero("rpc.rings", 1, sizeof(*made));
    if (made == NULL) {
        close(file);
        return GY_NOMEM;
    }
    void *memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        gy_status status = gy_fail(GY_LIMIT, "no shared memory: %s", strerror(errno));
        close(file);
        gy_free(made);
        return status;
    }
    int own = is_caller ? 0 : 1;
    uint8_t *bytes = (uint8_t *)memory + HEAD_BYTES;
    made->head = memory;
    made->file = file;
    made->out_counts = &made->head->ways[own];
    made->in_counts = &made->head->ways[1 - own];
    made->out = bytes + (size_t)own * RING_BYTES;
    made->in = bytes + (size_t)(1 - own) * RING_BYTES;
    made->sleeps = &made->head->sleeps[own].flag;
    made->other_sleeps = &made->head->sleeps[1 - own].flag;
    *rings = made;
    return GY_OK;
}

gy_status gy_rpc_rings_make(const uint8_t token[GY_RINGS_TOKEN_BYTES], stream_rings **rings)
{
    int file = memfd_create("gyre-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) {
        return gy_fail(GY_LIMIT, "no shared memory: %s", strerror(errno));
    }
    if (ftruncate(file, ALL_BYTES) != 0 || fcntl(file, F_ADD_SEALS, SEALS) != 0) {
        gy_status status = gy_fail(GY_LIMIT, "no shared memory: %s", strerror(errno));
        close(file);
        return status;
    }
    GY_TRY(map(file, true, rings));
    memcpy((*rings)->head->token, token, GY_RINGS_TOKEN_BYTES);
    return GY_OK;
}

/* Another kind of file, one that can be cut short, or another's memory is not opened. */
gy_status gy_rpc_rings_open(uint32_t process, uint32_t file,
                            const uint8_t token[GY_RINGS_TOKEN_BYTES], stream_rings **rings)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", process, file);
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return gy_fail(GY_NOTFOUND, "no memory of process %u is seen here", process);
    }
    int opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0) {
        return gy_fail(GY_NOTFOUND, "memory of process %u: %s", process, strerror(errno));
    }
    const int seals = fcntl(opened, F_GET_SEALS); /* -1: a file that knows none */
    if (fstat(opened, &facts) != 0 || facts.st_size != ALL_BYTES || seals < 0 ||
        (seals & SEALS) != SEALS) {
        close(opened);
        return gy_fail(GY_FORMAT, "memory of process %u is not sealed, or has another size",
                       process);
    }
    GY_TRY(map(opened, false, rings));
    if (memcmp((*rings)->head->token, token, GY_RINGS_TOKEN_BYTES) != 0) {
        gy_rpc_rings_free(*rings);
        *rings = NULL;
        return gy_fail(GY_FORMAT, "memory of process %u is of another connection", process);
    }
    gy_rpc_rings_close_file(*rings);
    return GY_OK;
}

int gy_rpc_rings_file(const stream_rings *rings)
{
    return rings->file;
}

void gy_rpc_rings_close_file(stream_rings *rings)
{
    if (rings->file >= 0) {
        close(rings->file);
        rings->file = -1;
    }
}

void gy_rpc_rings_free(stream_rings *rings)
{
    if (rings != NULL) {
        gy_rpc_rings_close_file(rings);
        munmap(rings->head, ALL_BYTES);
        gy_free(rings);
    }
}

/* ---- Bytes ---- */

static gy_status spoilt(void)
{
    return gy_fail(GY_FORMAT, "the counts of shared memory are wrong");
}

/* Bytes that wait in a ring, by this end's own count of one side and the other's of the other.
 */
static gy_status waiting(uint64_t put, uint64_t taken, size_t *bytes)
{
    uint64_t size = put - taken;
    if (taken > put || size > RING_BYTES) {
        return spoilt();
    }
    *bytes = (size_t)size;
    return GY_OK;
}

static gy_status waiting_in(const stream_rings *rings, size_t *bytes)
{
    /* the other end's release in gy_rpc_rings_write */
    return waiting(atomic_load(&rings->in_counts->put), rings->taken, bytes);
}

static gy_status waiting_out(const stream_rings *rings, size_t *bytes)
{
    return waiting(rings->put, atomic_load(&rings->out_counts->taken), bytes);
}

static void copy_out(const stream_rings *rings, uint8_t *to, size_t size_bytes)
{
    size_t at = (size_t)(rings->taken & (RING_BYTES - 1));
    size_t first = GY_MIN(size_bytes, (size_t)RING_BYTES - at);
    memcpy(to, rings->in + at, first);
    memcpy(to + first, rings->in, size_bytes - first);
}

static void copy_in(const stream_rings *rings, const uint8_t *from, size_t size_bytes)
{
    size_t at = (size_t)(rings->put & (RING_BYTES - 1));
    size_t first = GY_MIN(size_bytes, (size_t)RING_BYTES - at);
    memcpy(rings->out + at, from, first);
    memcpy(rings->out, from + first, size_bytes - first);
}

gy_status gy_rpc_rings_read(stream_rings *rings, const struct iovec *pieces, int count,
                            size_t *got)
{
    size_t ready = 0;
    *got = 0;
    GY_TRY(waiting_in(rings, &ready));
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < pieces[i].iov_len && ready > 0;) {
            size_t size = GY_MIN(GY_MIN(pieces[i].iov_len - at, ready), (size_t)CHUNK_BYTES);
            copy_out(rings, (uint8_t *)pieces[i].iov_base + at, size);
            rings->taken += size;
            atomic_store(&rings->in_counts->taken, rings->taken);
            at += size;
            ready -= size;
            *got += size;
        }
    }
    return *got > 0 ? GY_OK : GY_AGAIN;
}

gy_status gy_rpc_rings_write(stream_rings *rings, const struct iovec *pieces, int count,
                             size_t *put)
{
    size_t used = 0;
    *put = 0;
    GY_TRY(waiting_out(rings, &used));
    size_t room = RING_BYTES - used;
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < pieces[i].iov_len && room > 0;) {
            size_t size = GY_MIN(GY_MIN(pieces[i].iov_len - at, room), (size_t)CHUNK_BYTES);
            copy_in(rings, (const uint8_t *)pieces[i].iov_base + at, size);
            rings->put += size;
            atomic_store(&rings->out_counts->put, rings->put);
            at += size;
            room -= size;
            *put += size;
        }
    }
    return *put > 0 ? GY_OK : GY_AGAIN;
}

/* ---- Sleeping and waking ---- */

/* Wrong counts are work, too: the next read or write fails. */
bool gy_rpc_rings_has_work(const stream_rings *rings, bool has_output)
{
    size_t in = 0, out = 0;
    bool is_wrong = waiting_in(rings, &in) < 0 || waiting_out(rings, &out) < 0;
    return is_wrong || in > 0 || (has_output && out <= RING_BYTES / 2);
}

bool gy_rpc_rings_arm(stream_rings *rings, bool has_output)
{
    atomic_store(rings->sleeps, 1); /* before the look; pairs with gy_rpc_rings_must_ring */
    rings->is_armed = true;
    return !gy_rpc_rings_has_work(rings, has_output);
}

void gy_rpc_rings_disarm(stream_rings *rings)
{
    if (rings->is_armed) {
        rings->is_armed = false;
        atomic_store_explicit(rings->sleeps, 0, memory_order_relaxed); /* a hint from here on */
    }
}

bool gy_rpc_rings_must_ring(const stream_rings *rings)
{
    return atomic_load(rings->other_sleeps) != 0 &&
           atomic_exchange(rings->other_sleeps, 0) != 0;
}

/* Who waits for room is not woken before half of it is there. */
bool gy_rpc_rings_is_roomy(const stream_rings *rings)
{
    size_t in = 0;
    return waiting_in(rings, &in) < 0 || in <= RING_BYTES / 2;
}
