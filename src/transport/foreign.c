/* Joins a run through the MPI of the launcher that started it (see foreign.h). */
#include "transport/foreign.h"

#include "transport/foreign_priv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const gy_foreign_run *run;      /* of this process; stays open */
static gy_transport_ops foreign_ops;   /* shared memory's, but for the end */
static const gy_transport_ops *shared; /* what is below */

static void foreign_close(gy_transport *transport)
{
    shared->close(transport);
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

gy_status gy_foreign_open(const char *library, gy_env *env, gy_transport **transport)
{
    gy_foreign_place place;
    char why[256] = "";
    GY_TRY(load(library));
    if (!run->join(&place, why, sizeof(why))) {
        return gy_fail(GY_UNSUPPORTED, "%s", why);
    }
    gy_status status =
        gy_shm_open_process(place.process, place.segment, place.rank, env, transport);
    if (!run->met(status >= 0) && status >= 0) {
        gy_transport_close(*transport);
        status = gy_fail(GY_PEER, "another rank could not join the shared memory of the run");
    }
    if (status < 0) {
        run->leave();
        return status;
    }
    shared = (*transport)->ops;
    foreign_ops = *shared;
    foreign_ops.close = foreign_close;
    (*transport)->ops = &foreign_ops;
    gy_log_set_rank(place.rank);
    return GY_OK;
}
