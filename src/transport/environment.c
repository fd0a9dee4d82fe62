/* The only file of this room that reads environment variables. */
#include "transport/environment_priv.h"
#include "transport/foreign_priv.h"
#include "transport/rendezvous.h"
#include "transport/tcp.h"
#include "transport/transport.h"
#include "transport/ucx_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static gy_status read_number(const char *name, const char *text, int *number)
{
    GY_ASSERT(text != NULL);
    GY_ASSERT(number != NULL);
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > INT_MAX) {
        return gy_fail(GY_ARG, "%s is \"%s\": expected a number from 0", name, text);
    }
    *number = (int)value;
    return GY_OK;
}

/* How GYRE_TRANSPORT asks for messages to be sent. */
typedef enum message_way { WAY_OF_LAUNCHER, WAY_MPI, WAY_UCX } message_way;

static gy_status join_run(int socket, const gy_run_place *told, message_way way, gy_env *env,
                          gy_transport **transport)
{
    GY_ASSERT(socket >= 0);
    GY_ASSERT(told->rank >= 0);
    GY_ASSERT(told->rank < told->size);
    gy_run_ticket ticket;
    int rank = told->rank, size = told->size;
    GY_TRY(gy_run_ticket_take(socket, &ticket));
    gy_transport_run_report_to(socket); /* first, so that a failure to join is reported too */
    const gy_run_place *place = &ticket.place;
    gy_status status =
        place->rank == rank && place->size == size
            ? gy_run_ticket_join(&ticket, way == WAY_UCX, env, transport)
            : gy_fail(GY_MISMATCH,
                      "the launcher says rank %d of %d, the environment rank %d of %d",
                      place->rank, place->size, rank, size);
    gy_run_ticket_drop(&ticket);
    if (status >= 0) {
        /* Programs that this rank starts must not inherit the launcher's socket. */
        (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
        gy_log_set_rank(rank);
    }
    return status;
}

/* Read the launcher's variables. size 0: there was no launcher. */
static gy_status read_environment(gy_run_place *place, int *socket)
{
    GY_ASSERT(place != NULL);
    GY_ASSERT(socket != NULL);
    const char *rank_text = gy_setting_get(GY_RUN_RANK),
               *size_text = gy_setting_get(GY_RUN_SIZE),
               *socket_text = gy_setting_get(GY_RUN_SOCKET);
    *place = (gy_run_place){.size = 0};
    if (rank_text == NULL && size_text == NULL && socket_text == NULL) {
        return GY_OK;
    }
    if (rank_text == NULL || size_text == NULL || socket_text == NULL) {
        return gy_fail(GY_ARG, "%s, %s and %s are set together or not at all", GY_RUN_RANK,
                       GY_RUN_SIZE, GY_RUN_SOCKET);
    }
    gy_run_place got = {.rank = 0};
    GY_TRY(read_number(GY_RUN_RANK, rank_text, &got.rank));
    GY_TRY(read_number(GY_RUN_SIZE, size_text, &got.size));
    GY_TRY(read_number(GY_RUN_SOCKET, socket_text, socket));
    if (got.rank >= got.size) {
        return gy_fail(GY_ARG, "%s is %d: expected less than %s, %d", GY_RUN_RANK, got.rank,
                       GY_RUN_SIZE, got.size);
    }
    *place = got;
    return GY_OK;
}

/* The MPI whose launcher started this process among several, by what launchers tell their
 * ranks: Open MPI's mpirun, PMIx (srun --mpi=pmix), PMI (MPICH's mpiexec, srun --mpi=pmi2). */
static const char *find_foreign(void)
{
    const char *open_mpi = gy_setting_get("OMPI_COMM_WORLD_SIZE"),
               *pmi = gy_setting_get("PMI_SIZE");
    const char *slurm = gy_setting_get("SLURM_NTASKS");
    bool has_pmix = gy_setting_get("PMIX_RANK") != NULL;
    if (open_mpi != NULL) {
        return strcmp(open_mpi, "1") != 0 ? "openmpi" : NULL;
    }
    if (pmi != NULL) {
        return strcmp(pmi, "1") != 0 ? "mpich" : NULL;
    }
    bool is_several = slurm != NULL && strcmp(slurm, "1") != 0;
    if (is_several && gy_setting_get("PMI_FD") != NULL) {
        return "mpich";
    }
    return is_several && has_pmix ? "openmpi" : NULL;
}

bool gy_transport_run_has_place(void)
{
    return gy_setting_get(GY_RUN_RANK) != NULL || find_foreign() != NULL;
}

static gy_status read_way(message_way *way)
{
    GY_ASSERT(way != NULL);
    static const char *const names[] = {
        [WAY_OF_LAUNCHER] = "auto", [WAY_MPI] = "mpi", [WAY_UCX] = "ucx"};
    const char *name = gy_setting_get("GYRE_TRANSPORT");
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (name == NULL || strcmp(name, names[i]) == 0) {
            *way = (message_way)i;
            return GY_OK;
        }
    }
    return gy_fail(GY_ARG, "GYRE_TRANSPORT is \"%s\": expected auto, mpi or ucx", name);
}

gy_status gy_transport_check_environment(void)
{
    gy_run_place place;
    int socket = -1;
    message_way way = WAY_OF_LAUNCHER;
    GY_TRY(read_way(&way));
    return read_environment(&place, &socket);
}

void gy_transport_run_find_launcher(void)
{
    gy_run_place place;
    int socket = -1, kind = 0;
    socklen_t size = sizeof(kind);
    if (read_environment(&place, &socket) == GY_OK && place.size > 0 &&
        getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &kind, &size) == 0 && kind == AF_UNIX) {
        gy_transport_run_report_to(socket);
    }
}

gy_status gy_transport_open_from_environment(gy_env *env, gy_transport **transport)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transport != NULL);
    gy_run_place place;
    int socket = -1;
    message_way way = WAY_OF_LAUNCHER;
    GY_TRY(read_environment(&place, &socket));
    GY_TRY(read_way(&way));
    const char *library = place.size == 0 ? find_foreign() : NULL;
    if (library != NULL && way == WAY_UCX) {
        return gy_fail(GY_ARG, "GYRE_TRANSPORT is \"ucx\": only ranks that gyre run started "
                               "can use it");
    }
    if (library != NULL) {
        return gy_transport_foreign_open(library, way == WAY_MPI, env, transport);
    }
    if (way == WAY_MPI && place.size > 0) {
        return gy_fail(GY_ARG, "GYRE_TRANSPORT is \"mpi\": only ranks that an MPI's launcher "
                               "started can use it");
    }
    if (place.size == 0) {
        return gy_transport_self_open(env, transport);
    }
    return join_run(socket, &place, way, env, transport);
}
