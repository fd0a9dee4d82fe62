/* Joins a launch through the MPI whose launcher started it (see foreign.h). */
#include "transport/foreign.h"

#include "transport/carried_priv.h"
#include "transport/foreign_priv.h"
#include "transport/tcp.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { NAP_NS = 50000 };
#define SETTLE_S 1.0 /* time limit at the end for collectives that were cancelled */

/* A collective of the library that was cancelled while under way. */
typedef struct lost_call {
    struct lost_call *next;
    gy_carried request;
    void *memory;
} lost_call;

static const gy_foreign_run *run; /* of this process; stays open to the end */
/* the functions of the transport below, except naps and close */
static gy_transport_ops foreign_ops;
static const gy_transport_ops *below;
static gy_library library;        /* the library without the wrapper */
static const gy_library *theirs;  /* contains `theirs` */
static gy_foreign_place place_of; /* holds `theirs` */
static int under_way;
static lost_call *lost;
static bool is_lost; /* a cancelled collective could not be recorded */

/* ---- The library's collectives ---- */

static bool start_counted(const gy_library_call *call, gy_carried *request)
{
    GY_ASSERT(theirs != NULL);
    GY_ASSERT(under_way >= 0);
    bool has_started = theirs->start(call, request);
    under_way += has_started;
    return has_started;
}

static gy_status test_counted(gy_carried *request)
{
    GY_ASSERT(theirs != NULL);
    GY_ASSERT(under_way > 0);
    gy_status status = theirs->test(request);
    under_way -= status != GY_AGAIN;
    return status;
}

static void lose_call(const gy_carried *request, void *memory)
{
    GY_ASSERT(under_way > 0);
    lost_call *noted = gy_alloc("transport.lost", sizeof(*noted));
    if (noted == NULL) {
        is_lost = true; /* its memory is leaked */
        return;
    }
    *noted = (lost_call){.next = lost, .request = *request, .memory = memory};
    lost = noted;
}

/* Free cancelled collectives that have completed meanwhile. */
static void settle(void)
{
    GY_ASSERT(theirs != NULL || lost == NULL);
    for (lost_call **at = &lost; *at != NULL;) {
        lost_call *one = *at;
        if (theirs->test(&one->request) == GY_AGAIN) {
            at = &one->next;
            continue;
        }
        GY_ASSERT(under_way > 0);
        under_way--;
        *at = one->next;
        gy_free(one->memory);
        gy_free(one);
    }
}

static void show_library(gy_transport *transport)
{
    GY_ASSERT(transport->library == NULL);
    if (place_of.has_library) {
        theirs = &place_of.library;
        library = (gy_library){.name = theirs->name,
                               .knows = theirs->knows,
                               .start = start_counted,
                               .test = test_counted,
                               .lose = lose_call};
        transport->library = &library;
    }
}

/* ---- The transport ---- */

/* The library's collectives progress only when they are polled, and nothing wakes a sleeper,
 * so do not sleep. */
static void foreign_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(below != NULL);
    GY_ASSERT(nap_ns >= 0);
    below->nap(transport, under_way > 0 ? GY_MIN(nap_ns, (int64_t)NAP_NS) : nap_ns);
}

static void foreign_close(gy_transport *transport)
{
    GY_ASSERT(below != NULL);
    GY_ASSERT(run != NULL);
    gy_env *env = transport->env;
    int64_t end_ns = gy_env_deadline(env, SETTLE_S).at_ns;
    settle();
    while (lost != NULL && gy_now_ns(env) < end_ns) {
        env->ops->pause(env, UINT64_MAX);
        settle();
    }
    below->close(transport);
    run->leave(is_lost || lost != NULL);
}

/* Open it from the folder of this library, else from the loader's search path. */
static void *open_library(const char *name)
{
    GY_ASSERT(name != NULL);
    Dl_info here;
    char path[4096] = "";
    if (dladdr((const void *)&foreign_ops, &here) != 0 && here.dli_fname != NULL) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash != NULL ? (int)(slash - here.dli_fname) + 1 : 0;
        snprintf(path, sizeof(path), "%.*slibgyre-mpi-%s.so", folder, here.dli_fname, name);
    }
    /* RTLD_GLOBAL, because an MPI's own plug-ins resolve its symbols */
    void *opened = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (opened == NULL) {
        snprintf(path, sizeof(path), "libgyre-mpi-%s.so", name);
        opened = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return opened;
}

static gy_status load(const char *name)
{
    GY_ASSERT(name != NULL);
    void *opened = open_library(name);
    if (opened == NULL) {
        return gy_fail(GY_UNSUPPORTED, "this rank was started by the launcher of %s: %s", name,
                       dlerror());
    }
    run = dlsym(opened, "gy_foreign");
    if (run == NULL || run->version != GY_FOREIGN_VERSION) {
        run = NULL;
        return gy_fail(GY_UNSUPPORTED, "libgyre-mpi-%s.so is of another version of Gyre", name);
    }
    return GY_OK;
}

static gy_status open_ways(const gy_foreign_place *place, gy_env *env, gy_transport **transport)
{
    GY_ASSERT(place->rank >= 0);
    GY_ASSERT(place->rank < place->size);
    GY_ASSERT(place->first_rank >= 0);
    GY_ASSERT(place->first_rank <= place->rank);
    gy_transport *near = NULL, *far = NULL;
    bool is_shared = place->segment >= 0;
    if (is_shared) {
        GY_TRY(gy_transport_shm_open_process(place->process, place->segment,
                                             place->rank - place->first_rank, env, &near));
    }
    if (!place->has_carrier) {
        GY_ASSERT(near != NULL);
        *transport = near;
        return GY_OK;
    }
    gy_carried_options options = {.rank = place->rank,
                                  .size = place->size,
                                  .near_first = place->first_rank,
                                  .near_count = is_shared ? place->host_ranks : 0,
                                  .host_ranks = place->host_ranks,
                                  .host_cores = place->host_cores};
    gy_status status = gy_carried_open(&options, &place->carrier, env, &far);
    if (status < 0) {
        gy_transport_close(near);
        return status;
    }
    *transport = far;
    return is_shared ? gy_transport_hosts_open(near, far, place->hosts, transport) : GY_OK;
}

gy_status gy_transport_foreign_open(const char *name, bool is_apart, gy_env *env,
                                    gy_transport **transport)
{
    GY_ASSERT(name != NULL);
    GY_ASSERT(transport != NULL);
    gy_foreign_place *place = &place_of;
    char why[256] = "";
    *place = (gy_foreign_place){.segment = -1};
    GY_TRY(load(name));
    if (!run->join(is_apart, place, why, sizeof(why))) {
        return gy_fail(GY_UNSUPPORTED, "%s", why);
    }
    gy_status status = open_ways(place, env, transport);
    if (!run->met(status >= 0) && status >= 0) {
        gy_transport_close(*transport);
        status = gy_fail(GY_PEER, "another rank could not join the launch");
    }
    if (status < 0) {
        run->leave(false);
        return status;
    }
    below = (*transport)->ops;
    foreign_ops = *below;
    foreign_ops.close = foreign_close;
    foreign_ops.nap = foreign_nap;
    (*transport)->ops = &foreign_ops;
    show_library(*transport);
    gy_log_set_rank(place->rank);
    gy_info("ranks started by %s's launcher: %s", name,
            !place->has_carrier   ? "shared memory"
            : place->segment >= 0 ? "shared memory, MPI's messages between hosts"
                                  : "MPI's messages");
    return GY_OK;
}
