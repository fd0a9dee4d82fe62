/* Ranks meet on another transport, exchange their UCX addresses there, and continue over
 * UCX. */
#include "transport/carried_priv.h"
#include "transport/ucx_priv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define MEET_S 60.0

/* UCX sends a packet of this size by rendezvous (three messages), so it stays with the sender
 * until the receiver asks for it. */
enum { PACKET_BYTES = 512 * 1024 };

/* What each rank sends to each other. */
typedef struct letter {
    uint64_t size_bytes;
    uint8_t address[GY_UCX_ADDRESS_BYTES];
} letter;

static gy_status load(const gy_ucx_plugin **plugin)
{
    static const char name[] = "libgyre-ucx.so";
    Dl_info here;
    char path[4096] = "";
    if (dladdr((const void *)name, &here) != 0 && here.dli_fname != NULL) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash != NULL ? (int)(slash - here.dli_fname) + 1 : 0;
        snprintf(path, sizeof(path), "%.*s%s", folder, here.dli_fname, name);
    }
    void *opened = dlopen(path, RTLD_NOW);
    opened = opened != NULL ? opened : dlopen(name, RTLD_NOW);
    if (opened == NULL) {
        return gy_fail(GY_UNSUPPORTED, "GYRE_TRANSPORT is \"ucx\": %s", dlerror());
    }
    *plugin = dlsym(opened, "gy_ucx");
    return *plugin != NULL && (*plugin)->version == GY_UCX_VERSION
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "%s is of another version of Gyre", name);
}

static bool is_far(const gy_ucx_options *options, const gy_transport *guide, int rank)
{
    int first = options->near_first;
    return rank != guide->rank && (rank < first || rank >= first + options->near_count);
}

static gy_status exchange_one(gy_transport *guide, int rank, const letter *mine, letter *theirs)
{
    gy_deadline deadline = gy_env_deadline(guide->env, MEET_S);
    gy_transfer send, receive;
    GY_TRY(gy_transport_send(guide, rank, 0, mine, sizeof(*mine), &send));
    gy_status status = gy_transport_recv(guide, rank, 0, theirs, sizeof(*theirs), &receive);
    if (status == GY_OK) {
        status = gy_transport_finish(guide, &receive, deadline);
    }
    if (status == GY_OK) {
        status = gy_transport_finish(guide, &send, deadline);
    }
    gy_transport_cancel(guide, &send);
    if (status == GY_OK && (receive.size_bytes != sizeof(*theirs) ||
                            theirs->size_bytes > sizeof(theirs->address))) {
        status = gy_fail(GY_FORMAT, "rank %d reported no address of UCX", rank);
    }
    return status;
}

/* Exchange with one rank after the other, in the same order everywhere, so that no cycle of
 * waiting ranks arises. */
static gy_status exchange(const gy_ucx_plugin *plugin, const gy_ucx_options *options,
                          gy_transport *guide, void *context)
{
    char why[256] = "";
    letter mine, theirs;
    memset(&mine, 0, sizeof(mine));
    size_t size = 0;
    if (!plugin->address(context, mine.address, &size, why)) {
        return gy_fail(GY_UNSUPPORTED, "%s", why);
    }
    mine.size_bytes = size;
    for (int rank = 0; rank < guide->size; rank++) {
        if (!is_far(options, guide, rank)) {
            continue;
        }
        GY_TRY(exchange_one(guide, rank, &mine, &theirs));
        if (!plugin->connect(context, rank, theirs.address, why)) {
            return gy_fail(GY_UNSUPPORTED, "%s", why);
        }
    }
    return GY_OK;
}

/* ---- The first packets, which establish UCX's connections ---- */

enum { HELLO_LANE = 2 }; /* messages have 0 and 1 */

typedef struct hello {
    gy_carried sent, received;
    uint8_t byte;
    bool is_sent, is_coming, is_here;
} hello;

static bool greet(const gy_ucx_options *options, gy_transport *guide, const gy_carrier *carrier,
                  hello *hellos)
{
    bool are_all = true;
    for (int rank = 0; rank < guide->size; rank++) {
        hello *one = &hellos[rank];
        int from = rank;
        size_t size = 0;
        if (!is_far(options, guide, rank)) {
            continue;
        }
        if (!one->is_coming && carrier->look(carrier->context, &from, HELLO_LANE, &size)) {
            one->is_coming = size == 1 && carrier->recv(carrier->context, rank, HELLO_LANE,
                                                        &one->byte, 1, &one->received);
        }
        one->is_here = one->is_here ||
                       (one->is_coming && carrier->is_done(carrier->context, &one->received));
        one->is_sent = one->is_sent || carrier->is_done(carrier->context, &one->sent);
        are_all = are_all && one->is_here && one->is_sent;
    }
    return are_all;
}

/* Closes the carrier on failure. */
static gy_status greet_all(const gy_ucx_options *options, gy_transport *guide,
                           const gy_carrier *carrier)
{
    static const uint8_t byte = 1;
    gy_deadline deadline = gy_env_deadline(guide->env, MEET_S);
    gy_wait wait = gy_wait_start(guide, -1, "UCX to reach all ranks", deadline);
    gy_status status = GY_OK;
    hello *hellos = gy_alloc_zero("transport.hello", (size_t)guide->size, sizeof(*hellos));
    if (hellos == NULL) {
        carrier->close(carrier->context);
        return GY_NOMEM;
    }
    for (int rank = 0; rank < guide->size && status == GY_OK; rank++) {
        if (is_far(options, guide, rank) &&
            !carrier->send(carrier->context, rank, HELLO_LANE, &byte, 1, &hellos[rank].sent)) {
            status = gy_fail(GY_IO, "%s cannot send to rank %d", carrier->name, rank);
        }
    }
    while (status == GY_OK && !greet(options, guide, carrier, hellos)) {
        status = gy_wait_round(&wait);
    }
    if (status < 0) {
        /* must come before the memory that it may write to is freed */
        carrier->close(carrier->context);
    }
    gy_free(hellos);
    return status;
}

static gy_status open_data(const gy_ucx_options *options, gy_transport *guide,
                           gy_transport **data)
{
    const gy_ucx_plugin *plugin = NULL;
    gy_carrier carrier;
    char why[256] = "";
    GY_TRY(load(&plugin));
    GY_ASSERT(plugin != NULL);
    GY_TRY(gy_transport_meet(guide, gy_env_deadline(guide->env, MEET_S)));
    if (!plugin->open(guide->rank, guide->size, options->is_loopback, &carrier, why)) {
        return gy_fail(GY_UNSUPPORTED, "%s", why);
    }
    const gy_carried_options carried = {.rank = guide->rank,
                                        .size = guide->size,
                                        .packet_bytes = PACKET_BYTES,
                                        .near_first = options->near_first,
                                        .near_count = options->near_count,
                                        .host_ranks = guide->host_ranks,
                                        .host_cores =
                                            guide->is_oversubscribed ? 0 : guide->host_ranks};
    gy_status status = exchange(plugin, options, guide, carrier.context);
    if (status < 0) {
        carrier.close(carrier.context);
        return status;
    }
    GY_TRY(greet_all(options, guide, &carrier));
    status = gy_carried_open(&carried, &carrier, guide->env, data);
    if (status < 0) {
        carrier.close(carrier.context);
    }
    return status;
}

gy_status gy_ucx_open(const gy_ucx_options *options, gy_transport *guide,
                      gy_transport **transport)
{
    gy_transport *data = NULL;
    gy_status status = open_data(options, guide, &data);
    if (status < 0) {
        gy_transport_close(guide);
        return status;
    }
    return gy_transport_guided_open(guide, data, transport);
}
