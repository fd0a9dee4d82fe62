/*
 * Packets over UCX's tag matching: a context, a worker and an endpoint for each rank. The tag
 * of a packet is its lane and its sender. A worker belongs to one thread at a time and is
 * driven by whoever asks for a packet.
 */
#include "base/base.h"
#include "transport/ucx.h"

#include <stdio.h>
#include <string.h>

#include <ucp/api/ucp.h>

#define CLOSE_S 1.0 /* for what is on its way when a rank leaves */

typedef struct ucx_peer {
    ucp_ep_h endpoint; /* NULL: not connected */
    bool is_lost;
    int packets; /* under way, to it or from it */
} ucx_peer;

typedef struct ucx_context {
    ucp_context_h library;
    ucp_worker_h worker;
    int rank, size;
    ucx_peer peers[];
} ucx_context;

static ucp_tag_t tag_of(int lane, int from)
{
    return (ucp_tag_t)(uint32_t)lane << 32 | (uint32_t)from;
}

/* ---- Packets ---- */

/* NULL: done. */
static void keep(gy_carried *packet, ucx_peer *peer, ucs_status_ptr_t request)
{
    packet->opaque[0] = (uint64_t)(uintptr_t)request;
    packet->opaque[1] = (uint64_t)(uintptr_t)peer;
    peer->packets += request != NULL;
}

/* Who is lost gets nothing: that is told by asking whether it is lost. */
static bool send_packet(void *context, int to, int lane, const void *data, size_t size_bytes,
                        gy_carried *packet)
{
    ucx_context *ucx = context;
    ucx_peer *peer = &ucx->peers[to];
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    keep(packet, peer, NULL);
    if (peer->is_lost) {
        return true;
    }
    GY_ASSERT(peer->endpoint != NULL);
    ucs_status_ptr_t request =
        ucp_tag_send_nbx(peer->endpoint, data, size_bytes, tag_of(lane, ucx->rank), &plain);
    if (UCS_PTR_IS_ERR(request)) {
        peer->is_lost = true;
        return true;
    }
    keep(packet, peer, request);
    return true;
}

static bool receive_packet(void *context, int from, int lane, void *data, size_t size_bytes,
                           gy_carried *packet)
{
    ucx_context *ucx = context;
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    ucs_status_ptr_t request =
        ucp_tag_recv_nbx(ucx->worker, data, size_bytes, tag_of(lane, from), UINT64_MAX, &plain);
    keep(packet, &ucx->peers[from], UCS_PTR_IS_ERR(request) ? NULL : request);
    return !UCS_PTR_IS_ERR(request);
}

static bool look_for_packet(void *context, int *from, int lane, size_t *size_bytes)
{
    ucx_context *ucx = context;
    ucp_tag_recv_info_t found;
    bool is_any = *from == GY_CARRIER_ANY;
    ucp_tag_t mask = is_any ? ~(ucp_tag_t)UINT32_MAX : UINT64_MAX;
    (void)ucp_worker_progress(ucx->worker);
    if (ucp_tag_probe_nb(ucx->worker, tag_of(lane, is_any ? 0 : *from), mask, 0, &found) ==
        NULL) {
        return false;
    }
    *from = (int)(uint32_t)found.sender_tag;
    *size_bytes = found.length;
    return true;
}

/* One that fails is done too: its peer is lost. */
static bool is_packet_done(void *context, gy_carried *packet)
{
    ucx_context *ucx = context;
    void *request = (void *)(uintptr_t)packet->opaque[0];
    if (request == NULL) {
        return true;
    }
    (void)ucp_worker_progress(ucx->worker);
    if (ucp_request_check_status(request) == UCS_INPROGRESS) {
        return false;
    }
    ucp_request_free(request);
    ucx_peer *peer = (ucx_peer *)(uintptr_t)packet->opaque[1];
    keep(packet, peer, NULL);
    peer->packets--;
    return true;
}

static bool is_lost(void *context, int rank)
{
    return ((const ucx_context *)context)->peers[rank].is_lost;
}

/* ---- Life ---- */

static void lose(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    ucx_peer *peer = arg;
    (void)endpoint;
    peer->is_lost = true;
    gy_debug("UCX lost a rank: %s", ucs_status_string(status));
}

static bool say(char why[256], const char *what, ucs_status_t status)
{
    snprintf(why, 256, "UCX %s: %s", what, ucs_status_string(status));
    return false;
}

static ucs_status_t open_library(bool is_loopback, ucp_context_h *library)
{
    ucp_config_t *config = NULL;
    const ucp_params_t wanted = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }
    if (is_loopback) {
        status = ucp_config_modify(config, "NET_DEVICES", "lo");
    }
    if (status == UCS_OK) {
        status = ucp_init(&wanted, config, library);
    }
    ucp_config_release(config);
    return status;
}

/* False: the deadline came first. */
static bool finish(const ucx_context *ucx, ucs_status_ptr_t request, gy_deadline deadline)
{
    bool is_done = !UCS_PTR_IS_PTR(request);
    while (!is_done && gy_now_ns(gy_env_real()) < deadline.at_ns) {
        if (ucp_worker_progress(ucx->worker) == 0) {
            gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
        }
        is_done = ucp_request_check_status(request) != UCS_INPROGRESS;
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    return is_done;
}

/* What is left of an endpoint is written, or given up at the deadline: UCX ends a process that
 * closes what still has packets under way otherwise. A flush waits neither for a large packet
 * that nobody asks for nor for one that comes: they are given up with their endpoint. */
static void close_endpoint(ucx_context *ucx, ucx_peer *peer, gy_deadline deadline)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE},
                              plain = {.op_attr_mask = 0};
    bool is_written = !peer->is_lost &&
                      finish(ucx, ucp_ep_flush_nbx(peer->endpoint, &plain), deadline) &&
                      !peer->is_lost && peer->packets == 0;
    ucs_status_ptr_t request = ucp_ep_close_nbx(peer->endpoint, is_written ? &plain : &force);
    (void)finish(ucx, request, is_written ? deadline : gy_deadline_after(CLOSE_S));
    peer->endpoint = NULL;
}

/* Notes that nobody heard any more: UCX would complain of them. Larger messages are the
 * sender's until somebody asks for them. */
static void drain(const ucx_context *ucx)
{
    enum { NOTE_BYTES = 4096 };
    static const ucp_request_param_t plain = {.op_attr_mask = 0};
    uint8_t rest[NOTE_BYTES];
    ucp_tag_recv_info_t found;
    (void)ucp_worker_progress(ucx->worker);
    while (ucp_tag_probe_nb(ucx->worker, 0, 0, 0, &found) != NULL &&
           found.length <= NOTE_BYTES) {
        ucs_status_ptr_t request = ucp_tag_recv_nbx(ucx->worker, rest, found.length,
                                                    found.sender_tag, UINT64_MAX, &plain);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_cancel(ucx->worker, request); /* it is done unless it was cut */
            ucp_request_free(request);
        }
    }
}

static void close_context(void *context)
{
    ucx_context *ucx = context;
    gy_deadline deadline = gy_deadline_after(CLOSE_S);
    for (int rank = 0; rank < ucx->size; rank++) {
        if (ucx->peers[rank].endpoint != NULL) {
            close_endpoint(ucx, &ucx->peers[rank], deadline);
        }
    }
    if (ucx->worker != NULL) {
        drain(ucx);
        ucp_worker_destroy(ucx->worker);
    }
    if (ucx->library != NULL) {
        ucp_cleanup(ucx->library);
    }
    gy_free(ucx);
}

static bool open_context(int rank, int size, bool is_loopback, gy_carrier *carrier,
                         char why[256])
{
    const ucp_worker_params_t wanted = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucx_context *ucx =
        gy_alloc_zero("ucx", 1, sizeof(*ucx) + (size_t)size * sizeof(ucx->peers[0]));
    if (ucx == NULL) {
        return say(why, "cannot be opened", UCS_ERR_NO_MEMORY);
    }
    ucx->rank = rank;
    ucx->size = size;
    ucs_status_t status = open_library(is_loopback, &ucx->library);
    if (status == UCS_OK) {
        status = ucp_worker_create(ucx->library, &wanted, &ucx->worker);
    }
    if (status != UCS_OK) {
        close_context(ucx);
        return say(why, "cannot be opened", status);
    }
    *carrier = (gy_carrier){.name = "ucx",
                            .context = ucx,
                            .send = send_packet,
                            .recv = receive_packet,
                            .look = look_for_packet,
                            .is_done = is_packet_done,
                            .is_lost = is_lost,
                            .close = close_context};
    return true;
}

static bool tell_address(void *context, void *to, size_t *size_bytes, char why[256])
{
    ucx_context *ucx = context;
    ucp_address_t *address = NULL;
    size_t size = 0;
    ucs_status_t status = ucp_worker_get_address(ucx->worker, &address, &size);
    if (status != UCS_OK) {
        return say(why, "knows no address of its own", status);
    }
    bool fits = size <= GY_UCX_ADDRESS_BYTES;
    if (fits) {
        memcpy(to, address, size);
        *size_bytes = size;
    }
    ucp_worker_release_address(ucx->worker, address);
    return fits || say(why, "has too long an address", UCS_ERR_BUFFER_TOO_SMALL);
}

static bool connect_rank(void *context, int rank, const void *address, char why[256])
{
    ucx_context *ucx = context;
    const ucp_ep_params_t wanted = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = lose, .arg = &ucx->peers[rank]}};
    char what[64];
    ucs_status_t status = ucp_ep_create(ucx->worker, &wanted, &ucx->peers[rank].endpoint);
    snprintf(what, sizeof(what), "finds no way to rank %d", rank);
    return status == UCS_OK || say(why, what, status);
}

__attribute__((visibility("default"))) extern const gy_ucx_plugin gy_ucx;
const gy_ucx_plugin gy_ucx = {.version = GY_UCX_VERSION,
                              .open = open_context,
                              .address = tell_address,
                              .connect = connect_rank};
