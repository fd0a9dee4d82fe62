/* Starts one rank: its segment, pipes, socket and place. */
#include "launch/keeper_priv.h"

#include "topo/topo.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

gy_status gy_launch_keeper_make_segment(run_keeper *keeper)
{
    gy_transport_segment_options segment = {.ranks = keeper->options->ranks,
                                            .first_rank = keeper->first_rank,
                                            .run_size = keeper->size,
                                            .pool_bytes = keeper->options->pool_bytes};
    return gy_transport_segment_make(&segment, &keeper->segment);
}

gy_status gy_launch_keeper_take_net(run_keeper *keeper)
{
    gy_run_net *net = NULL;
    GY_TRY(gy_nodes_net(keeper->nodes, &net));
    gy_free(keeper->net);
    keeper->net = net;
    net->host_cores = gy_topo_cores();
    keeper->first_rank = net->first_rank;
    keeper->size = net->size;
    return GY_OK;
}

/* A pipe for one of a rank's outputs: [0] read here without blocking, [1] for the rank. */
static gy_status open_output(gy_launch_lines **lines, int rank, int to, int *write_end)
{
    int pair[2];
    gy_launch_lines *made = gy_alloc_zero("launch.lines", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (pipe2(pair, O_CLOEXEC) != 0) {
        gy_free(made);
        return gy_fail(GY_IO, "cannot make a pipe: %s", strerror(errno));
    }
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    made->from = pair[0];
    made->to = to;
    made->rank = rank;
    *lines = made;
    *write_end = pair[1];
    return GY_OK;
}

static void close_all(const int *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
}

static gy_run_place place_of(const run_keeper *keeper, int rank)
{
    return (gy_run_place){.rank = keeper->first_rank + rank,
                          .size = keeper->size,
                          .has_net = keeper->net != NULL && !keeper->is_over,
                          .is_renewable = keeper->options->on_failure == GY_RUN_RESTART,
                          .is_over = keeper->is_over};
}

static gy_status start_rank(run_keeper *keeper, int rank, const cpu_set_t *cores)
{
    run_rank *who = &keeper->ranks[rank];
    int number = keeper->first_rank + rank;
    int sockets[2] = {-1, -1},
        ends[3] = {-1, -1, -1}; /* the rank's ends: output, error, socket */
    gy_status status = gy_transport_rendezvous_pair(sockets);
    if (status >= 0) {
        who->socket = sockets[0];
        ends[2] = sockets[1];
        gy_run_place place = place_of(keeper, rank);
        status = gy_transport_rendezvous_greet(sockets[0], &place, keeper->segment);
    }
    if (status >= 0 && keeper->net != NULL) {
        status =
            gy_transport_rendezvous_greet_net(sockets[0], keeper->net, keeper->listeners[rank]);
    }
    if (status >= 0 && keeper->options->has_prefix) {
        status = open_output(&who->out, number, STDOUT_FILENO, &ends[0]);
        if (status >= 0) {
            status = open_output(&who->err, number, STDERR_FILENO, &ends[1]);
        }
    }
    if (status >= 0) {
        gy_spawn spawn = {.options = keeper->options,
                          .argv = keeper->argv,
                          .rank = number,
                          .size = keeper->size,
                          .socket = ends[2],
                          .outputs = {ends[0], ends[1]},
                          .failures = keeper->failures_in,
                          .cores = cores,
                          .mask = *keeper->mask,
                          .is_pipe_ignored = keeper->is_pipe_ignored};
        status = gy_spawn_rank(&spawn, &who->process);
    }
    close_all(ends, GY_COUNT(ends));
    return status;
}

void gy_launch_keeper_close_listeners(run_keeper *keeper)
{
    if (keeper->listeners != NULL) {
        close_all(keeper->listeners, (size_t)keeper->options->ranks);
        gy_free(keeper->listeners);
        keeper->listeners = NULL;
    }
}

gy_status gy_launch_keeper_start(run_keeper *keeper, int rank)
{
    int ranks = keeper->options->ranks;
    cpu_set_t all, share;
    bool is_bound = !keeper->options->has_no_binding && ranks <= gy_topo_cores() &&
                    sched_getaffinity(0, sizeof(all), &all) == 0;
    if (is_bound) {
        gy_launch_share_of_cores(&all, rank, ranks, &share);
    }
    keeper->ranks[rank].socket = -1;
    GY_TRY(start_rank(keeper, rank, is_bound ? &share : NULL));
    keeper->alive++;
    return GY_OK;
}

gy_status gy_launch_keeper_send_place(const run_keeper *keeper, int rank)
{
    gy_run_place place = place_of(keeper, rank);
    int socket = keeper->ranks[rank].socket;
    GY_TRY(gy_transport_rendezvous_greet(socket, &place, keeper->segment));
    return place.has_net
               ? gy_transport_rendezvous_greet_net(socket, keeper->net, keeper->listeners[rank])
               : GY_OK;
}

void gy_launch_keeper_forget(run_rank *who)
{
    gy_launch_lines *const lines[] = {who->out, who->err};
    for (size_t i = 0; i < GY_COUNT(lines); i++) {
        if (lines[i] != NULL && lines[i]->from >= 0) {
            close(lines[i]->from);
        }
        gy_free(lines[i]);
    }
    if (who->socket >= 0) {
        close(who->socket);
    }
    *who = (run_rank){.socket = -1};
}
