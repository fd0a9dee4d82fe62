/*
 * What exchanges cost on links that hosts share. Along an axis of a mesh ranks are equally far
 * apart, so that each host has as many of a line as any other, and as many lines as its ranks
 * are to these: they share the link of the host.
 *
 * Up to 16 ranks the plans themselves are played on the links (room plan), and the fastest
 * counts. Beyond that its formula does, which is that of halving inside a host and of halving
 * or rings among hosts, each rank of a host with its part of the vector.
 *
 * @source Thakur, Rabenseifner, Gropp 2005; lecture C, "Hierarchical"
 */
#include "graph/simulate/simulate.h"

#include "coll/coll.h"

#include <math.h>
#include <string.h>

/* Ranks of this host, as placement has them (place/price.c). */
static const double memory_latency_s = 1e-6, memory_byte_s = 1e-10;
/* And messages there, as the cut of stages has them (stages/balance.c). */
static const double message_latency_s = 2e-6, message_byte_s = 2e-10;

enum { SMALLEST_BYTES = 64 };

gy_virtual_line gy_virtual_line_of(const gy_virtual_cluster *cluster, int last, int ranks,
                                   int apart)
{
    gy_virtual_line line = {.ranks = ranks,
                            .hosts = 1,
                            .per_host = 1,
                            .is_shared_memory =
                                cluster->near_bytes_s == 0 &&
                                (cluster->hosts == 1 || cluster->ranks_per_host > 1)};
    GY_ASSERT(ranks >= 1 && apart >= 1 && last >= (ranks - 1) * apart);
    int here = 0, host = -1;
    for (int i = 0; i < ranks; i++) {
        const int at = (last - (ranks - 1 - i) * apart) / cluster->ranks_per_host;
        line.hosts += host >= 0 && at != host ? 1 : 0;
        here = at == host ? here + 1 : 1;
        line.per_host = GY_MAX(line.per_host, here);
        host = at;
        if (ranks <= GY_VIRTUAL_PLAYED) {
            line.host_of[i] = line.hosts - 1;
        }
    }
    const double sharing = (double)cluster->ranks_per_host / line.per_host;
    line.near_latency_s = line.is_shared_memory ? memory_latency_s : cluster->near_latency_s;
    line.near_byte_s = line.is_shared_memory ? memory_byte_s
                       : cluster->near_bytes_s > 0
                           ? 1 / cluster->near_bytes_s
                           : 1 / cluster->far_bytes_s; /* no two ranks */
    line.combine_byte_s = line.is_shared_memory ? memory_byte_s : 0;
    line.far_latency_s = cluster->far_latency_s;
    line.far_byte_s = cluster->far_bytes_s > 0 ? sharing / cluster->far_bytes_s : 0;
    GY_ASSERT(line.hosts == 1 || line.far_byte_s > 0);
    GY_ASSERT(line.per_host <= ranks && line.hosts <= ranks && line.near_byte_s > 0);
    return line;
}

void gy_virtual_links_init(gy_virtual_links *links, const gy_virtual_cluster *cluster,
                           const gy_mesh *mesh)
{
    const int last = gy_virtual_cluster_ranks(cluster) - 1;
    GY_ASSERT(mesh->axes >= 1 && mesh->axes <= GY_MESH_MAX);
    for (int axis = 0; axis < mesh->axes; axis++) {
        links->lines[axis] =
            gy_virtual_line_of(cluster, last, mesh->sizes[axis], GY_MAX(mesh->apart[axis], 1));
    }
    links->pipe = gy_virtual_line_of(cluster, last, GY_MAX(mesh->stages, 1),
                                     GY_MAX(mesh->stage_apart, 1));
    /* A message goes to the next stage, and so do those of all ranks of the host that have
       theirs on another one. */
    const int crossing = GY_MIN(GY_MAX(mesh->stage_apart, 1), cluster->ranks_per_host);
    if (links->pipe.hosts > 1) {
        links->pipe.far_byte_s = crossing / cluster->far_bytes_s;
    }
}

double gy_virtual_links_message(const gy_virtual_links *links, double bytes)
{
    const gy_virtual_line *pipe = &links->pipe;
    GY_ASSERT(bytes >= 0 && pipe->ranks > 1);
    if (pipe->is_shared_memory && pipe->hosts == 1) {
        return message_latency_s + bytes * message_byte_s;
    }
    return pipe->hosts > 1 ? fmax(pipe->far_latency_s + bytes * pipe->far_byte_s,
                                  pipe->near_latency_s + bytes * pipe->near_byte_s)
                           : pipe->near_latency_s + bytes * pipe->near_byte_s;
}

/* ---- by formula ---- */

/* Halving or a ring of n ranks, half an allreduce: log2 n or n - 1 messages, (n - 1)/n of the
 * vector. */
static double half_of(int n, double latency_s, double byte_s, double bytes)
{
    GY_ASSERT(n >= 1 && bytes >= 0);
    return n == 1 ? 0 : ceil(log2(n)) * latency_s + bytes * (n - 1) / n * byte_s;
}

double gy_virtual_line_closed(const gy_virtual_line *line, gy_operation operation, double bytes)
{
    GY_ASSERT(bytes >= 0);
    GY_ASSERT(line->ranks >= line->per_host && line->ranks >= line->hosts);
    if (line->ranks == 1) {
        return 0;
    }
    if (operation == GY_OPERATION_ALLTOALL) { /* to each rank its part, far ones last */
        const double part = bytes / line->ranks, far = line->ranks - line->per_host;
        return (line->per_host - 1) * (line->near_latency_s + part * line->near_byte_s) +
               far * (line->far_latency_s + part * line->far_byte_s * line->per_host);
    }
    const bool combines = operation != GY_OPERATION_ALLGATHER;
    const int times = operation == GY_OPERATION_ALLREDUCE ? 2 : 1;
    return times * (half_of(line->per_host, line->near_latency_s, line->near_byte_s, bytes) +
                    half_of(line->hosts, line->far_latency_s, line->far_byte_s, bytes)) +
           (combines ? bytes * line->combine_byte_s : 0);
}

/* ---- played ---- */

/* Plans that somebody would take: of one memory those of room coll, else of messages. */
static bool is_candidate(const gy_virtual_line *line, const gy_algorithm *row)
{
    GY_ASSERT(line->ranks > 1);
    static const char *const names[] = {"ring", "halving", "doubling", "tree", "hierarchy"};
    if (line->is_shared_memory && line->hosts == 1) {
        return gy_coll_is_usual(row);
    }
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (row->need == GY_NEED_MESSAGES && strcmp(row->name, names[i]) == 0) {
            return row->parameter != GY_PARAMETER_PAIR || line->hosts > 1;
        }
    }
    return false;
}

/* Memory of one host: no link is shared, and staging is no message. */
static gy_status cost_here(const gy_virtual_line *line, const gy_algorithm *row,
                           const gy_plan_request *request, const gy_volume *volume,
                           double *seconds)
{
    gy_plan *plan = NULL;
    gy_plan_costs costs;
    const gy_links links = {.alpha = line->near_latency_s,
                            .beta = line->near_byte_s,
                            .gamma = line->combine_byte_s};
    GY_ASSERT(line->hosts == 1);
    GY_TRY(gy_plan_new(row, request, &plan));
    const gy_status status = gy_plan_cost_of(plan, volume, &links, &costs);
    gy_plan_free(plan);
    *seconds = costs.time_s;
    return status;
}

/* Between hosts, which share their links. */
static gy_status play_there(const gy_virtual_line *line, const gy_algorithm *row,
                            const gy_plan_request *request, const gy_volume *volume,
                            double *seconds)
{
    const gy_links links = {.alpha = line->near_latency_s,
                            .beta = line->near_byte_s,
                            .gamma = line->combine_byte_s,
                            .alpha_across = line->far_latency_s};
    const gy_fault_model shared = {.uplink_beta = line->far_byte_s};
    gy_simulation_result result;
    GY_ASSERT(line->hosts > 1);
    GY_TRY(gy_plan_run_simulated(&(gy_simulation){.algorithm = row,
                                                  .request = request,
                                                  .volume = volume,
                                                  .links = &links,
                                                  .faults = &shared},
                                 &result));
    *seconds = result.time_s;
    return GY_OK;
}

/* The fastest plan over a vector of so many bytes. */
static gy_status play(const gy_virtual_line *line, gy_operation operation, int64_t bytes,
                      double *best)
{
    const gy_topology topology = {.host_of = line->host_of,
                                  .hosts = line->hosts,
                                  .within = 1,
                                  .across = line->far_byte_s / line->near_byte_s};
    const gy_plan_request request = {.operation = operation,
                                     .ranks = line->ranks,
                                     .topology = line->hosts > 1 ? &topology : NULL};
    const gy_volume volume = {.count = bytes, .element_bytes = 1};
    *best = INFINITY;
    GY_ASSERT(bytes > 0 && line->ranks <= GY_VIRTUAL_PLAYED);
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        double seconds = 0;
        if (row->operation == operation && is_candidate(line, row)) {
            GY_TRY(line->hosts == 1 ? cost_here(line, row, &request, &volume, &seconds)
                                    : play_there(line, row, &request, &volume, &seconds));
            *best = fmin(*best, seconds);
        }
    }
    GY_ASSERT(isfinite(*best));
    return GY_OK;
}

static double at_point(gy_virtual_line *line, gy_operation operation, int point)
{
    GY_ASSERT(point >= 0 && point < GY_VIRTUAL_POINTS);
    double *seconds = &line->seconds[operation][point];
    if (*seconds == 0 && line->status >= 0) { /* an exchange takes time */
        line->status = play(line, operation, (int64_t)SMALLEST_BYTES << (2 * point), seconds);
        *seconds = line->status < 0 ? 0 : *seconds;
    }
    return *seconds;
}

double gy_virtual_line_seconds(gy_virtual_line *line, gy_operation operation, double bytes)
{
    int point = 0;
    double from = SMALLEST_BYTES;
    GY_ASSERT(bytes >= 0 && (int)operation >= 0 && operation < GY_OPERATION_COUNT);
    if (line->ranks == 1) {
        return 0;
    }
    if (line->ranks > GY_VIRTUAL_PLAYED || operation == GY_OPERATION_ALLTOALL) {
        return gy_virtual_line_closed(line, operation, bytes);
    }
    while (point < GY_VIRTUAL_POINTS - 2 && from * 4 < bytes) {
        from *= 4;
        point++;
    }
    const double low = at_point(line, operation, point);
    const double high = at_point(line, operation, point + 1);
    const double share = fmax(0, (bytes - from) / (3 * from)); /* beyond the last: its line */
    return low + share * (high - low);
}

gy_status gy_virtual_exchange(const gy_virtual_cluster *cluster, int ranks, int apart,
                              const char *operation, double bytes, double *time_s)
{
    gy_operation which = GY_OPERATION_COUNT;
    const int all = gy_virtual_cluster_ranks(cluster);
    GY_TRY(gy_plan_operation_find(operation, &which));
    if (which != GY_OPERATION_ALLREDUCE && which != GY_OPERATION_REDUCE_SCATTER &&
        which != GY_OPERATION_ALLGATHER && which != GY_OPERATION_ALLTOALL) {
        return gy_fail(GY_ARG,
                       "operation %s: expected allreduce, reduce-scatter, allgather or "
                       "alltoall",
                       operation);
    }
    if (ranks < 1 || apart < 1 || ranks > all || (int64_t)(ranks - 1) * apart >= all ||
        !(bytes >= 0)) {
        return gy_fail(GY_ARG, "%g bytes over %d ranks %d apart: the cluster has %d ranks",
                       bytes, ranks, apart, all);
    }
    if (cluster->hosts > 1 && cluster->far_bytes_s <= 0) {
        return gy_fail(GY_ARG, "cluster: %d hosts and no speed between them", cluster->hosts);
    }
    gy_virtual_line *line = gy_alloc("graph.simulate", sizeof(*line));
    if (line == NULL) {
        return GY_NOMEM;
    }
    *line = gy_virtual_line_of(cluster, all - 1, ranks, apart);
    *time_s = gy_virtual_line_seconds(line, which, bytes);
    const gy_status status = line->status;
    gy_free(line);
    return status;
}
