/* The one file of this room that reads environment variables. */
#include "transport/environment_priv.h"
#include "transport/rendezvous.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gy_status read_number(const char *name, const char *text, int *number)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > INT_MAX) {
        return gy_fail(GY_ARG, "%s is \"%s\": expected a number from 0", name, text);
    }
    *number = (int)value;
    return GY_OK;
}

static gy_status join_run(int socket, int rank, int size, gy_env *env, gy_transport **transport)
{
    gy_run_place place;
    int segment = -1;
    GY_TRY(gy_rendezvous_take(socket, &place, &segment));
    gy_run_report_to(socket); /* first, so that a failure to join is told too */
    gy_status status = GY_OK;
    if (place.rank != rank || place.size != size) {
        status = gy_fail(GY_MISMATCH,
                         "the launcher says rank %d of %d, the environment rank %d of %d",
                         place.rank, place.size, rank, size);
    } else {
        status = gy_shm_open(segment, rank, env, transport);
    }
    close(segment);
    if (status >= 0) {
        /* Programs that this rank starts must not hold the launcher's socket. */
        (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
        gy_log_set_rank(rank);
    }
    return status;
}

gy_status gy_transport_open_from_environment(gy_env *env, gy_transport **transport)
{
    const char *rank_text = getenv(GY_RUN_RANK), *size_text = getenv(GY_RUN_SIZE);
    const char *socket_text = getenv(GY_RUN_SOCKET);
    if (rank_text == NULL && size_text == NULL && socket_text == NULL) {
        return gy_self_open(env, transport);
    }
    if (rank_text == NULL || size_text == NULL || socket_text == NULL) {
        return gy_fail(GY_ARG, "%s, %s and %s are set together or not at all", GY_RUN_RANK,
                       GY_RUN_SIZE, GY_RUN_SOCKET);
    }
    int rank = 0, size = 0, socket = -1;
    GY_TRY(read_number(GY_RUN_RANK, rank_text, &rank));
    GY_TRY(read_number(GY_RUN_SIZE, size_text, &size));
    GY_TRY(read_number(GY_RUN_SOCKET, socket_text, &socket));
    if (rank >= size) {
        return gy_fail(GY_ARG, "%s is %d: expected less than %s, %d", GY_RUN_RANK, rank,
                       GY_RUN_SIZE, size);
    }
    return join_run(socket, rank, size, env, transport);
}
