/* Joins a run through the MPI of the launcher that started it (see foreign.h). */
#include "transport/foreign.h"

#include "transport/carried_priv.h"
#include "transport/foreign_priv.h"
#include "transport/tcp.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const gy_foreign_run *run;    /* of this process; stays open */
static gy_transport_ops foreign_ops; /* those of what is below, but for the end */
static const gy_transport_ops *below;

static void foreign_close(gy_transport *transport)
{
    below->close(transport);
    run->leave();
}

/* Beside the library that this code is in, else wherever the loader looks. */
static void *open_library(const char *library)
{
    Dl_info here;
    char path[4096] = "";
    if (dladdr((const void *)&foreign_ops, &here) != 0 && here.dli_fname != NULL) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash != NULL ? (int)(slash - here.dli_fname) + 1 : 0;
        snprintf(path, sizeof(path), "%.*slibgyre-mpi-%s.so", folder, here.dli_fname, library);
    }
    /* GLOBAL: an MPI's own plug-ins look for its names. */
    void *opened = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (opened == NULL) {
        snprintf(path, sizeof(path), "libgyre-mpi-%s.so", library);
        opened = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return opened;
}

static gy_status load(const char *library)
{
    void *opened = open_library(library);
    if (opened == NULL) {
        return gy_fail(GY_UNSUPPORTED, "this rank was started by the launcher of %s: %s",
                       library, dlerror());
    }
    run = dlsym(opened, "gy_foreign");
    if (run == NULL || run->version != GY_FOREIGN_VERSION) {
        run = NULL;
        return gy_fail(GY_UNSUPPORTED, "libgyre-mpi-%s.so is of another version of Gyre",
                       library);
    }
    return GY_OK;
}

static gy_status open_ways(const gy_foreign_place *place, gy_env *env, gy_transport **transport)
{
    gy_transport *near = NULL, *far = NULL;
    bool is_shared = place->segment >= 0;
    if (is_shared) {
        GY_TRY(gy_shm_open_process(place->process, place->segment,
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
    return is_shared ? gy_hosts_open(near, far, place->hosts, transport) : GY_OK;
}

gy_status gy_foreign_open(const char *library, bool is_apart, gy_env *env,
                          gy_transport **transport)
{
    gy_foreign_place place = {.segment = -1};
    char why[256] = "";
    GY_TRY(load(library));
    if (!run->join(is_apart, &place, why, sizeof(why))) {
        return gy_fail(GY_UNSUPPORTED, "%s", why);
    }
    gy_status status = open_ways(&place, env, transport);
    if (!run->met(status >= 0) && status >= 0) {
        gy_transport_close(*transport);
        status = gy_fail(GY_PEER, "another rank could not join the run");
    }
    if (status < 0) {
        run->leave();
        return status;
    }
    below = (*transport)->ops;
    foreign_ops = *below;
    foreign_ops.close = foreign_close;
    (*transport)->ops = &foreign_ops;
    gy_log_set_rank(place.rank);
    gy_info("ranks started by %s's launcher: %s", library,
            !place.has_carrier   ? "shared memory"
            : place.segment >= 0 ? "shared memory, MPI's messages between hosts"
                                 : "MPI's messages");
    return GY_OK;
}
