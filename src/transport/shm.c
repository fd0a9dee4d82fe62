#include "transport/transport.h"

#include "transport/match_priv.h"
#include "transport/peers_priv.h"
#include "transport/segment_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Header of a message in the ring; its bytes follow. */
typedef struct frame {
    uint64_t tag, size_bytes;
} frame;

typedef struct shm_peer {
    gy_transport_ring_end out, in;
    gy_transfer *sends; /* the first one may be partly written */
    bool is_frame_out;  /* the first one's header is in the ring */
    /* a partly written message was cancelled, so no further message can follow */
    bool is_cut;
    bool is_listed; /* in `busy` */
    gy_inbox inbox;
} shm_peer;

typedef struct shm_transport {
    gy_transport base;
    gy_shared shared;
    gy_transport_segment *segment;
    /* number of this host's first rank within the launch; `peers` and the segment count from
     * it */
    int first;
    uint32_t bell; /* its value when the nap was announced */
    /* used instead of the futex by a rank that sleeps on descriptors; -1: none */
    int pipe;
    int busy_count;
    int *busy; /* peers with transfers under way */
    shm_peer peers[];
} shm_transport;

static shm_transport *shm_of(gy_transport *transport)
{
    return (shm_transport *)(void *)transport;
}

static void list(shm_transport *shm, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < shm->shared.size);
    if (!shm->peers[peer].is_listed) {
        shm->peers[peer].is_listed = true;
        GY_ASSERT(shm->busy_count < shm->shared.size);
        shm->busy[shm->busy_count++] = peer;
    }
}

static void shm_wake(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= shm_of(transport)->first);
    gy_transport_peers_ring(shm_of(transport)->segment, peer - shm_of(transport)->first);
}

static bool push_sends(shm_transport *shm, int to)
{
    GY_ASSERT(to >= 0);
    GY_ASSERT(to < shm->shared.size);
    shm_peer *peer = &shm->peers[to];
    bool has_moved = false;
    while (peer->sends != NULL) {
        gy_transfer *send = peer->sends;
        if (!peer->is_frame_out) {
            frame head = {.tag = send->tag, .size_bytes = send->size_bytes};
            if (gy_transport_ring_room(&peer->out, sizeof(head)) < sizeof(head)) {
                break;
            }
            gy_transport_ring_put(&peer->out, &head, sizeof(head));
            peer->is_frame_out = true;
            has_moved = true;
        }
        GY_ASSERT(send->done_bytes <= send->size_bytes);
        size_t left = send->size_bytes - send->done_bytes;
        size_t room =
            gy_transport_ring_room(&peer->out, GY_MIN(left, peer->out.ring_bytes / 4));
        size_t size = GY_MIN(left, room);
        gy_transport_ring_put(&peer->out, send->data + send->done_bytes, size);
        gy_transport_ring_publish(&peer->out);
        send->done_bytes += size;
        has_moved = has_moved || size > 0;
        if (send->done_bytes < send->size_bytes) {
            break;
        }
        peer->sends = send->next;
        peer->is_frame_out = false;
        gy_transfer_end(send, GY_OK);
    }
    if (has_moved) {
        gy_transport_peers_ring(shm->segment, to);
    }
    return has_moved;
}

static bool pull_receives(shm_transport *shm, int from)
{
    GY_ASSERT(from >= 0);
    GY_ASSERT(from < shm->shared.size);
    shm_peer *peer = &shm->peers[from];
    bool has_moved = false;
    while (gy_inbox_is_busy(&peer->inbox)) {
        if (!peer->inbox.is_arriving) {
            frame head;
            if (gy_transport_ring_ready(&peer->in, sizeof(head)) < sizeof(head)) {
                break;
            }
            gy_transport_ring_peek(&peer->in, &head, sizeof(head));
            if (!gy_inbox_begin(&peer->inbox, head.tag, (size_t)head.size_bytes)) {
                break;
            }
            gy_transport_ring_get(&peer->in, NULL, sizeof(head));
            has_moved = true;
            continue;
        }
        uint8_t *to = NULL;
        size_t missing = gy_inbox_space(&peer->inbox, &to),
               ready = gy_transport_ring_ready(&peer->in, 1);
        size_t size = GY_MIN(missing, ready);
        if (size == 0) {
            break;
        }
        gy_transport_ring_get(&peer->in, to, size);
        gy_inbox_filled(&peer->inbox, size);
        has_moved = true;
    }
    if (has_moved) {
        gy_transport_peers_ring(shm->segment, from); /* it may wait for room */
    }
    return has_moved;
}

static gy_status shm_progress(gy_transport *transport)
{
    GY_ASSERT(shm_of(transport)->busy_count >= 0);
    shm_transport *shm = shm_of(transport);
    bool has_moved = false;
    for (int i = 0; i < shm->busy_count;) {
        int at = shm->busy[i];
        shm_peer *peer = &shm->peers[at];
        has_moved = push_sends(shm, at) || has_moved;
        has_moved = pull_receives(shm, at) || has_moved;
        if (peer->sends == NULL && !gy_inbox_is_busy(&peer->inbox)) {
            peer->is_listed = false;
            shm->busy[i] = shm->busy[--shm->busy_count];
        } else {
            i++;
        }
    }
    return has_moved ? GY_OK : GY_AGAIN;
}

static gy_status shm_send(gy_transport *transport, gy_transfer *transfer)
{
    shm_transport *shm = shm_of(transport);
    int at = transfer->peer - shm->first;
    GY_ASSERT(at >= 0);
    GY_ASSERT(at < shm->shared.size);
    shm_peer *peer = &shm->peers[at];
    if (peer->is_cut) {
        return gy_fail(GY_STATE,
                       "a message to rank %d was abandoned half sent: no message can follow",
                       transfer->peer);
    }
    gy_transport_transfers_push(&peer->sends, transfer);
    (void)push_sends(shm, at);
    if (peer->sends != NULL) {
        list(shm, at);
    }
    return GY_OK;
}

static gy_status shm_recv(gy_transport *transport, gy_transfer *transfer)
{
    shm_transport *shm = shm_of(transport);
    int at = transfer->peer - shm->first;
    GY_ASSERT(at >= 0);
    GY_ASSERT(at < shm->shared.size);
    shm_peer *peer = &shm->peers[at];
    gy_inbox_post(&peer->inbox, transfer);
    (void)pull_receives(shm, at);
    if (gy_inbox_is_busy(&peer->inbox)) {
        list(shm, at);
    }
    return GY_OK;
}

/* Complete a partly written message from a copy. */
static void shm_cancel(gy_transport *transport, gy_transfer *transfer)
{
    shm_transport *shm = shm_of(transport);
    GY_ASSERT(transfer->peer >= shm->first);
    GY_ASSERT(transfer->peer - shm->first < shm->shared.size);
    shm_peer *peer = &shm->peers[transfer->peer - shm->first];
    if (!gy_transport_transfers_cancel(&peer->sends, &peer->inbox, transfer,
                                       peer->is_frame_out)) {
        peer->is_frame_out = false;
        peer->is_cut = true;
    }
}

static gy_status shm_aborted(gy_transport *transport)
{
    return gy_transport_peers_aborted(shm_of(transport)->segment, transport->survival.epoch);
}

static gy_status shm_check(gy_transport *transport, int peer)
{
    shm_transport *shm = shm_of(transport);
    GY_ASSERT(peer < shm->first + shm->shared.size);
    if (peer >= 0) {
        return gy_transport_peers_check(shm->segment, peer - shm->first, true);
    }
    for (int rank = 0; rank < shm->shared.size; rank++) {
        if (rank != shm->shared.rank && !gy_transport_is_lost(transport, shm->first + rank)) {
            GY_TRY(gy_transport_peers_check(shm->segment, rank, false));
        }
    }
    return GY_OK;
}

static int shm_absent(gy_transport *transport, gy_absent *absent, int room)
{
    GY_ASSERT(room >= 0);
    shm_transport *shm = shm_of(transport);
    int count = 0;
    for (int rank = 0; rank < shm->shared.size; rank++) {
        if (rank != shm->shared.rank && gy_transport_peers_is_stopped(shm->segment, rank)) {
            if (count < room) {
                absent[count] = (gy_absent){.rank = shm->first + rank, .is_stopped = true};
            }
            count++;
        }
    }
    return count;
}

static void shm_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    gy_transport_peers_abort(shm_of(transport)->segment, transport->survival.epoch,
                             transport->rank, error);
}

static bool shm_has_joined(gy_transport *transport, int peer)
{
    const shm_transport *shm = shm_of(transport);
    gy_rank_stage stage = gy_transport_peers_stage(shm->segment, peer - shm->first);
    return stage >= GY_RANK_JOINED && stage != GY_RANK_GAVE_UP;
}

static void shm_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    shm_transport *shm = shm_of(transport);
    shm->bell = gy_transport_peers_nap(
        gy_transport_segment_state(shm->segment, shm->shared.rank), shm->bell, nap_ns);
}

static gy_status shm_hang_bell(gy_transport *transport, int *descriptor)
{
    GY_ASSERT(descriptor != NULL);
    shm_transport *shm = shm_of(transport);
    if (shm->pipe < 0) {
        GY_TRY(gy_transport_peers_hang_bell(shm->segment, shm->shared.rank, &shm->pipe));
    }
    *descriptor = shm->pipe;
    return GY_OK;
}

static gy_status shm_announce(gy_transport *transport)
{
    shm_transport *shm = shm_of(transport);
    GY_ASSERT(shm->pipe >= 0); /* shm_hang_bell was called before */
    gy_rank_state *state = gy_transport_segment_state(shm->segment, shm->shared.rank);
    if (atomic_load_explicit(&state->is_muted, memory_order_relaxed) != 0) {
        return GY_UNSUPPORTED;
    }
    return gy_transport_peers_announce(state) ? GY_AGAIN : GY_OK;
}

static void shm_close(gy_transport *transport)
{
    GY_ASSERT(shm_of(transport)->segment != NULL);
    shm_transport *shm = shm_of(transport);
    gy_transport_peers_leave(shm->segment, shm->shared.rank, transport->has_given_up);
    if (shm->pipe >= 0) {
        close(shm->pipe);
    }
    for (int peer = 0; peer < shm->shared.size; peer++) {
        gy_transport_transfers_end(&shm->peers[peer].sends, GY_STATE);
        gy_inbox_fini(&shm->peers[peer].inbox);
    }
    gy_transport_segment_drop(shm->segment);
    gy_free(shm->busy);
    gy_free(shm);
}

static const gy_transport_ops shm_ops = {
    .name = "shm",
    .close = shm_close,
    .send = shm_send,
    .recv = shm_recv,
    .progress = shm_progress,
    .cancel = shm_cancel,
    .aborted = shm_aborted,
    .check = shm_check,
    .abort = shm_abort,
    .has_joined = shm_has_joined,
    .nap = shm_nap,
    .wake = shm_wake,
    .absent = shm_absent,
    .hang_bell = shm_hang_bell,
    .announce = shm_announce,
};

static gy_shared see_areas(const gy_transport_segment *segment, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < segment->header->ranks);
    return (gy_shared){
        .rank = rank,
        .size = segment->header->ranks,
        .first_rank = segment->header->first_rank,
        .cores = segment->header->host_cores,
        .words = segment->base + segment->layout.words,
        .slots = segment->base + segment->layout.slots,
        .staging = segment->base + segment->layout.staging,
        .pool = segment->base + segment->layout.pools,
        .words_stride = GY_SHARED_WORDS * sizeof(gy_shared_word),
        .slot_stride = GY_SLOT_BYTES,
        .staging_bytes = segment->header->staging_bytes,
        .pool_bytes = segment->header->pool_bytes,
    };
}

/* Join a mapped segment; on success takes another reference. */
static gy_status join(gy_transport_segment *segment, int rank, gy_env *env,
                      gy_transport **transport)
{
    GY_ASSERT(transport != NULL);
    int size = segment->header->ranks;
    if (rank < 0 || rank >= size) {
        return gy_fail(GY_ARG, "rank %d does not exist: expected 0 to %d", rank, size - 1);
    }
    shm_transport *shm = gy_alloc_zero("transport.shm", 1,
                                       sizeof(shm_transport) + (size_t)size * sizeof(shm_peer));
    int *busy = gy_alloc_zero("transport.shm", (size_t)size, sizeof(int));
    gy_status status =
        shm == NULL || busy == NULL ? GY_NOMEM : gy_transport_peers_join(segment, rank);
    if (status < 0) {
        gy_free(busy);
        gy_free(shm);
        return status;
    }
    gy_transport_segment_hold(segment);
    shm->segment = segment;
    shm->pipe = -1;
    shm->first = segment->header->first_rank;
    shm->busy = busy;
    shm->shared = see_areas(segment, rank);
    shm->base = (gy_transport){.ops = &shm_ops,
                               .env = env,
                               .rank = shm->first + rank,
                               .size = size,
                               .host_ranks = size,
                               .is_oversubscribed = size > segment->header->host_cores,
                               .shared = &shm->shared};
    gy_transport_peers_record(&shm->base, segment);
    size_t ring_bytes = segment->header->ring_bytes;
    for (int peer = 0; peer < size; peer++) {
        shm->peers[peer].inbox.survival = &shm->base.survival;
        shm->peers[peer].out = gy_transport_ring_writer(
            gy_transport_segment_ring(segment, rank, peer), ring_bytes);
        shm->peers[peer].in = gy_transport_ring_reader(
            gy_transport_segment_ring(segment, peer, rank), ring_bytes);
    }
    *transport = &shm->base;
    return GY_OK;
}

gy_status gy_transport_shm_open(int fd, int rank, gy_env *env, gy_transport **transport)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transport != NULL);
    gy_transport_segment *segment = NULL;
    GY_TRY(gy_transport_segment_map(fd, &segment));
    gy_status status = join(segment, rank, env, transport);
    gy_transport_segment_drop(segment);
    return status;
}

gy_status gy_transport_shm_open_process(int process, int fd, int rank, gy_env *env,
                                        gy_transport **transport)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transport != NULL);
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", process, fd);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0) {
        return gy_fail(GY_IO, "cannot open the segment %s: %s", path, strerror(errno));
    }
    gy_status status = gy_transport_shm_open(opened, rank, env, transport);
    close(opened);
    return status;
}

gy_status gy_transport_shm_open_all(const gy_transport_segment_options *options, gy_env *env,
                                    gy_transport **transports)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transports != NULL);
    int fd = -1;
    GY_TRY(gy_transport_segment_make(options, &fd));
    gy_transport_segment *segment = NULL;
    gy_status status = gy_transport_segment_map(fd, &segment);
    close(fd);
    GY_TRY(status);
    int joined = 0;
    while (joined < options->ranks && status >= 0) {
        status = join(segment, joined, env, &transports[joined]);
        joined += status >= 0 ? 1 : 0;
    }
    while (status < 0 && joined > 0) {
        gy_transport_close(transports[--joined]);
        transports[joined] = NULL;
    }
    gy_transport_segment_drop(segment);
    return status;
}
