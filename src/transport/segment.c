#include "transport/segment_priv.h"

#include "topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t segment_magic = 0x31676573657267u; /* "gresug1" in a hex dump */

enum {
    PAGE_BYTES = 4096,
    STAGING_BYTES = 18 * 1024 * 1024, /* takes no memory until touched */
    RING_BYTES = 64 * 1024,
    /* Where few ranks have few rings, these are larger: a whole message between stages goes out
     * at once, and its sender need not come back to it between two tasks. */
    RING_BYTES_MAX = 1024 * 1024,
    RING_BYTES_ALL = 64 * 1024 * 1024,
};
#define POOL_BYTES     ((size_t)1 << 30)
#define POOL_BYTES_ALL ((size_t)1 << 36)

/* Append an area of count * stride bytes to the layout; false when the sum exceeds 62 bits. */
static bool lay(size_t *end, size_t *area, size_t count, size_t stride)
{
    GY_ASSERT(*end % PAGE_BYTES == 0);
    size_t bytes = 0;
    *area = *end;
    if (__builtin_mul_overflow(count, stride, &bytes) || bytes > SIZE_MAX / 4 - *end) {
        return false;
    }
    *end = gy_round_up(*end + bytes, PAGE_BYTES);
    return true;
}

gy_status gy_transport_segment_plan(int ranks, size_t staging_bytes, size_t ring_bytes,
                                    size_t pool_bytes, gy_transport_segment_layout *layout)
{
    GY_ASSERT(ranks > 0);
    GY_ASSERT(ranks <= GY_RANKS_MAX);
    size_t count = (size_t)ranks,
           end = gy_round_up(sizeof(gy_transport_segment_header), PAGE_BYTES);
    gy_transport_segment_layout plan = {.ring_stride = sizeof(gy_transport_ring) + ring_bytes};
    if (!lay(&end, &plan.states, count, sizeof(gy_rank_state)) ||
        !lay(&end, &plan.records, count, sizeof(gy_flight_record_area)) ||
        !lay(&end, &plan.words, count, GY_SHARED_WORDS * sizeof(gy_shared_word)) ||
        !lay(&end, &plan.slots, count, GY_SLOT_BYTES) ||
        !lay(&end, &plan.rings, count * count, plan.ring_stride) ||
        !lay(&end, &plan.staging, count, staging_bytes) ||
        !lay(&end, &plan.pools, count, pool_bytes)) {
        return gy_fail(GY_LIMIT, "a segment of %d ranks with %zu bytes each is too large",
                       ranks, pool_bytes);
    }
    plan.total = end;
    *layout = plan;
    return GY_OK;
}

/* Of each ordered pair of ranks. */
static size_t ring_bytes_for(int ranks)
{
    const size_t pairs = (size_t)ranks * (size_t)ranks;
    size_t bytes = RING_BYTES_MAX;
    GY_ASSERT(ranks > 0 && ranks <= GY_RANKS_MAX);
    while (bytes > RING_BYTES && bytes * pairs > RING_BYTES_ALL) {
        bytes /= 2;
    }
    return bytes;
}

static gy_status fill_in(const gy_transport_segment_options *options,
                         gy_transport_segment_options *out)
{
    GY_ASSERT(options != out);
    *out = *options;
    if (options->ranks < 1 || options->ranks > GY_RANKS_MAX) {
        return gy_fail(GY_ARG, "%d ranks: expected 1 to %d", options->ranks, GY_RANKS_MAX);
    }
    if (out->staging_bytes == 0) {
        out->staging_bytes = STAGING_BYTES;
    }
    if (out->ring_bytes == 0) {
        out->ring_bytes = ring_bytes_for(options->ranks);
    }
    if (out->pool_bytes == 0) {
        out->pool_bytes = GY_MIN(POOL_BYTES, POOL_BYTES_ALL / (size_t)options->ranks);
    }
    if (out->host_cores == 0) {
        out->host_cores = gy_topo_cores();
    }
    if ((out->ring_bytes & (out->ring_bytes - 1)) != 0 || out->ring_bytes < 64) {
        return gy_fail(GY_ARG, "ring of %zu bytes: expected a power of two from 64",
                       out->ring_bytes);
    }
    out->staging_bytes = gy_round_up(out->staging_bytes, PAGE_BYTES);
    out->pool_bytes = gy_round_up(out->pool_bytes, PAGE_BYTES);
    return GY_OK;
}

/* A write beyond the file size limit would kill this process by a signal, so check first. */
static gy_status check_file_limit(size_t size_bytes)
{
    GY_ASSERT(size_bytes > 0);
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size_bytes) {
        return gy_fail(
            GY_LIMIT,
            "shared memory of %zu bytes is over the limit of file sizes, %llu (ulimit -f)",
            size_bytes, (unsigned long long)limit.rlim_cur);
    }
    return GY_OK;
}

gy_status gy_transport_segment_make(const gy_transport_segment_options *options, int *fd)
{
    GY_ASSERT(options != NULL);
    GY_ASSERT(fd != NULL);
    gy_transport_segment_options wanted;
    gy_transport_segment_layout layout = {.total = 0};
    GY_TRY(fill_in(options, &wanted));
    GY_TRY(gy_transport_segment_plan(wanted.ranks, wanted.staging_bytes, wanted.ring_bytes,
                                     wanted.pool_bytes, &layout));
    gy_transport_segment_header header = {
        .magic = segment_magic,
        .version = GY_RANK_PROTOCOL,
        .ranks = wanted.ranks,
        .first_rank = wanted.first_rank,
        .run_size = GY_MAX(wanted.run_size, wanted.first_rank + wanted.ranks),
        .maker = (int32_t)getpid(),
        .made_ns = gy_now_ns(gy_env_real()),
        .made_ticks = gy_ticks(),
        .host_cores = wanted.host_cores,
        .staging_bytes = wanted.staging_bytes,
        .ring_bytes = wanted.ring_bytes,
        .pool_bytes = wanted.pool_bytes,
        .total_bytes = layout.total};
    GY_TRY(check_file_limit(layout.total));
    int made = memfd_create("gyre-segment", MFD_CLOEXEC);
    if (made < 0) {
        return gy_fail(GY_IO, "cannot make shared memory: %s", strerror(errno));
    }
    if (ftruncate(made, (off_t)layout.total) != 0 ||
        pwrite(made, &header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
        gy_status status = gy_fail(GY_IO, "cannot size shared memory to %zu bytes: %s",
                                   layout.total, strerror(errno));
        close(made);
        return status;
    }
    *fd = made;
    return GY_OK;
}

gy_status gy_transport_segment_look(int fd, gy_transport_segment_header *header,
                                    gy_transport_segment_layout *layout)
{
    GY_ASSERT(header != NULL);
    GY_ASSERT(layout != NULL);
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        return gy_fail(GY_IO, "cannot look at the segment, descriptor %d: %s", fd,
                       strerror(errno));
    }
    ssize_t size = pread(fd, header, sizeof(*header), 0);
    if (size != (ssize_t)sizeof(*header) || header->magic != segment_magic) {
        return gy_fail(GY_FORMAT, "descriptor %d is not a segment of shared memory", fd);
    }
    GY_TRY(gy_transport_protocol_check("the maker of the shared memory", header->version));
    if (header->ranks < 1 || header->ranks > GY_RANKS_MAX || header->first_rank < 0 ||
        header->first_rank > GY_RANKS_MAX - header->ranks || header->run_size > GY_RANKS_MAX ||
        header->run_size < header->first_rank + header->ranks) {
        return gy_fail(GY_FORMAT, "a segment of %d ranks from rank %d on, of %d", header->ranks,
                       header->first_rank, header->run_size);
    }
    GY_TRY(gy_transport_segment_plan(header->ranks, header->staging_bytes, header->ring_bytes,
                                     header->pool_bytes, layout));
    if (layout->total != header->total_bytes ||
        (uint64_t)facts.st_size != header->total_bytes) {
        return gy_fail(GY_FORMAT, "segment of %lld bytes: expected %zu",
                       (long long)facts.st_size, layout->total);
    }
    return GY_OK;
}

gy_status gy_transport_segment_map(int fd, gy_transport_segment **segment)
{
    GY_ASSERT(segment != NULL);
    gy_transport_segment_layout layout = {.total = 0};
    gy_transport_segment_header header = {.magic = 0};
    GY_TRY(gy_transport_segment_look(fd, &header, &layout));
    gy_transport_segment *made = gy_alloc_zero("transport.segment", 1, sizeof(*made));
    gy_pipe_end *pipes =
        gy_alloc_zero("transport.segment", (size_t)header.ranks, sizeof(*pipes));
    if (made == NULL || pipes == NULL) {
        gy_free(made);
        gy_free(pipes);
        return GY_NOMEM;
    }
    void *base =
        mmap(NULL, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        gy_free(made);
        gy_free(pipes);
        return gy_fail(GY_NOMEM, "cannot map %zu bytes of shared memory: %s", layout.total,
                       strerror(errno));
    }
    made->base = base;
    made->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    made->layout = layout;
    made->header = base;
    made->pipes = pipes;
    atomic_init(&made->holders, 1);
    *segment = made;
    return GY_OK;
}

void gy_transport_segment_hold(gy_transport_segment *segment)
{
    int before = atomic_fetch_add_explicit(&segment->holders, 1, memory_order_relaxed);
    GY_ASSERT(before > 0); /* only the holder of a reference can pass on another */
}

void gy_transport_segment_drop(gy_transport_segment *segment)
{
    if (segment == NULL) {
        return;
    }
    /* acq_rel: whoever unmaps does so after all accesses of the others */
    int before = atomic_fetch_sub_explicit(&segment->holders, 1, memory_order_acq_rel);
    GY_ASSERT(before > 0);
    if (before == 1) {
        for (int rank = 0; rank < segment->header->ranks; rank++) {
            int pipe =
                atomic_load_explicit(&segment->pipes[rank].descriptor, memory_order_relaxed);
            if (pipe > 0) {
                close(pipe);
            }
        }
        gy_free(segment->pipes);
        GY_ASSERT(munmap(segment->base, segment->layout.total) == 0);
        if (segment->fd >= 0) {
            close(segment->fd);
        }
        gy_free(segment);
    }
}
