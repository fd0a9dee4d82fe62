/*
 * Hierarchy: a plan inside each host, one across hosts between the hosts' leaders, and one
 * inside again (`hierarchy:inside+across`, any two algorithms that take messages). Two hosts of
 * three ranks, leaders 0 and 3:
 *
 *   inside    1>0 2>0   4>3 5>3        reduce to the leaders
 *   across    0<>3                     allreduce among them
 *   inside    0>1 0>2   3>4 3>5        broadcast
 *
 * "flat+ring" is a parameter server within a server and a ring across servers. Which operation
 * is made of which:
 *
 *   allreduce       reduce, allreduce, broadcast       broadcast   -, broadcast, broadcast
 *   reduce-scatter  reduce, reduce-scatter, scatter    reduce      reduce, reduce, -
 *   allgather       gather, allgather, broadcast       barrier     barrier, barrier, barrier
 *
 * cost: the sum of the three; the links between hosts carry one vector a host instead of one a
 * rank. Sums are in rank order inside a host and across, not over all.
 *
 * source: lecture A, "Case study: NVLink + RDMA"; Karonis et al.: "Exploiting hierarchy in
 * parallel computer networks to optimize collective operation performance", IPDPS 2000
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum {
    PLANE = 0,
    INNER_PLANE = 1
}; /* private vectors: the leader's, and what inner plans use */

/* Who is where. The first of a host is its leader. */
typedef struct host_map {
    const gy_plan_request *request;
    gy_plan_sink *sink;
    int rank, hosts, host, chunks;
    int32_t *leaders; /* (hosts) */
    int32_t *mates;   /* (mate_count) this rank's host, the leader first */
    int32_t *begins;  /* (blocks + 1) for the part at hand */
    gy_block_run *runs;
    size_t begin_capacity, run_capacity, run_count;
    int mate_count;
    int32_t scratch_end; /* slots that the parts so far may still be sending from */
} host_map;

static void map_fini(host_map *map)
{
    gy_free(map->leaders);
    gy_free(map->mates);
    gy_free(map->begins);
    gy_free(map->runs);
}

/* The leader: the root where it is on that host, or its lowest rank. */
static gy_status find_leaders(host_map *map)
{
    const gy_plan_request *request = map->request;
    for (int rank = request->ranks - 1; rank >= 0; rank--) {
        map->leaders[gy_host_of(request->topology, rank)] = rank + 1;
    }
    bool is_rooted = request->operation == GY_OPERATION_BROADCAST ||
                     request->operation == GY_OPERATION_REDUCE;
    for (int host = 0; host < map->hosts; host++) {
        if (map->leaders[host]-- == 0) {
            return gy_fail(GY_ARG, "host %d has no rank", host);
        }
        if (is_rooted && gy_host_of(request->topology, request->root) == host) {
            map->leaders[host] = request->root;
        }
    }
    return GY_OK;
}

static gy_status map_init(host_map *map, const gy_plan_request *request, int rank,
                          gy_plan_sink *sink)
{
    size_t ranks = (size_t)request->ranks;
    *map = (host_map){.request = request,
                      .sink = sink,
                      .rank = rank,
                      .hosts = request->topology == NULL ? 1 : request->topology->hosts,
                      .host = gy_host_of(request->topology, rank),
                      .chunks = gy_request_chunks(request)};
    map->leaders = gy_alloc_zero("plan.hosts", (size_t)map->hosts, sizeof(*map->leaders));
    map->mates = gy_alloc_zero("plan.hosts", ranks, sizeof(*map->mates));
    if (map->leaders == NULL || map->mates == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(find_leaders(map));
    map->mates[map->mate_count++] = map->leaders[map->host];
    for (int other = 0; other < request->ranks; other++) {
        if (gy_host_of(request->topology, other) == map->host && other != map->mates[0]) {
            map->mates[map->mate_count++] = other;
        }
    }
    return GY_OK;
}

/* Begin a table of which blocks outside each inner block is. */
static gy_status begin_blocks(host_map *map, size_t blocks)
{
    void *begins = map->begins;
    GY_TRY(gy_reserve("plan.hosts", &begins, &map->begin_capacity, blocks + 1,
                      sizeof(*map->begins)));
    map->begins = begins;
    map->begins[0] = 0;
    map->run_count = 0;
    return GY_OK;
}

static gy_status add_run(host_map *map, int first, int run)
{
    void *runs = map->runs;
    GY_TRY(gy_reserve("plan.hosts", &runs, &map->run_capacity, map->run_count + 1,
                      sizeof(*map->runs)));
    map->runs = runs;
    map->runs[map->run_count++] = (gy_block_run){first, run};
    return GY_OK;
}

/* Inner block 0 is the whole vector. */
static gy_status map_all(host_map *map, int blocks)
{
    GY_TRY(begin_blocks(map, 1));
    GY_TRY(add_run(map, 0, blocks));
    map->begins[1] = 1;
    return GY_OK;
}

/* Inner part i is that of the host's i-th rank. */
static gy_status map_mates(host_map *map)
{
    GY_TRY(begin_blocks(map, (size_t)map->mate_count));
    for (int i = 0; i < map->mate_count; i++) {
        GY_TRY(add_run(map, map->mates[i] * map->chunks, map->chunks));
        map->begins[i + 1] = i + 1;
    }
    return GY_OK;
}

/* Inner part h is those of all ranks of host h; *width becomes the most blocks of a host. */
static gy_status map_hosts(host_map *map, int32_t *width)
{
    const gy_plan_request *request = map->request;
    GY_TRY(begin_blocks(map, (size_t)map->hosts));
    *width = 0;
    for (int host = 0; host < map->hosts; host++) {
        int32_t blocks = 0;
        for (int rank = 0; rank < request->ranks; rank++) {
            if (gy_host_of(request->topology, rank) == host) {
                GY_TRY(add_run(map, rank * map->chunks, map->chunks));
                blocks += map->chunks;
            }
        }
        map->begins[host + 1] = (int32_t)map->run_count;
        *width = GY_MAX(*width, blocks);
    }
    return GY_OK;
}

/* Give a part memory that the parts before it did not use. */
static void keep_apart(host_map *map, gy_part *part)
{
    part->work_plane = INNER_PLANE;
    part->scratch_slot = map->scratch_end;
    part->scratch_end = &map->scratch_end;
}

/* A part inside this rank's host, by the inner algorithm. */
static gy_status inside(host_map *map, gy_operation operation, int chunks, gy_part *part)
{
    part->algorithm = gy_request_inner(map->request, operation);
    part->request.operation = operation;
    part->request.ranks = map->mate_count;
    part->request.chunks = chunks;
    part->ranks = map->mates;
    keep_apart(map, part);
    return gy_plan_part(part, map->rank, map->sink);
}

/* A part among the leaders, by the outer algorithm. */
static gy_status across(host_map *map, int chunks, gy_part *part)
{
    gy_plan_request outer;
    part->algorithm = gy_request_outer(map->request, &outer);
    outer.in_place = part->request.in_place;
    outer.chunks = chunks;
    outer.root = gy_host_of(map->request->topology, map->request->root);
    part->request = outer;
    part->ranks = map->leaders;
    keep_apart(map, part);
    return map->leaders[map->host] == map->rank ? gy_plan_part(part, map->rank, map->sink)
                                                : GY_OK;
}

static const gy_blocks in = {.buffer = GY_BUFFER_IN}, out = {.buffer = GY_BUFFER_OUT},
                       work = {.buffer = GY_BUFFER_WORK, .slot = PLANE};

static int block_count(const gy_plan_request *request)
{
    return gy_cut_parts(GY_CUT_OUTER, request) * gy_cut_chunks(GY_CUT_OUTER, request);
}

static gy_status allreduce(host_map *map)
{
    int blocks = block_count(map->request);
    gy_part up = {.in = in, .out = out, .request.in_place = map->request->in_place};
    gy_part over = {.in = out, .out = out, .request.in_place = true};
    gy_part down = {.in = out, .out = out};
    GY_TRY(inside(map, GY_OPERATION_REDUCE, blocks, &up));
    GY_TRY(across(map, map->chunks, &over));
    return inside(map, GY_OPERATION_BROADCAST, blocks, &down);
}

static gy_status broadcast(host_map *map)
{
    gy_part over = {.in = out, .out = out}, down = {.in = out, .out = out};
    GY_TRY(across(map, map->chunks, &over));
    return inside(map, GY_OPERATION_BROADCAST, block_count(map->request), &down);
}

static gy_status reduce(host_map *map)
{
    gy_part up = {.in = in, .out = work}, over = {.in = work, .out = out};
    GY_TRY(inside(map, GY_OPERATION_REDUCE, block_count(map->request), &up));
    return across(map, map->chunks, &over);
}

static gy_status allgather(host_map *map)
{
    gy_part up = {.in = in, .out = out, .request.in_place = map->request->in_place};
    gy_part over = {.in = out, .out = out, .request.in_place = true};
    gy_part down = {.in = out, .out = out};
    GY_TRY(map_mates(map));
    up.runs = map->runs;
    up.begins = map->begins;
    up.width = map->chunks;
    GY_TRY(inside(map, GY_OPERATION_GATHER, 1, &up));
    GY_TRY(map_hosts(map, &over.width));
    over.runs = map->runs;
    over.begins = map->begins;
    GY_TRY(across(map, 1, &over));
    GY_TRY(map_all(map, map->request->ranks * map->chunks));
    down.runs = map->runs;
    down.begins = map->begins;
    return inside(map, GY_OPERATION_BROADCAST, 1, &down);
}

static gy_status reduce_scatter(host_map *map)
{
    int blocks = map->request->ranks * map->chunks;
    gy_part up = {.in = in, .out = work, .width = blocks};
    gy_part over = {.in = work, .out = work, .request.in_place = true};
    gy_part down = {.in = work, .out = out, .width = map->chunks};
    GY_TRY(map_all(map, blocks));
    up.runs = map->runs;
    up.begins = map->begins;
    GY_TRY(inside(map, GY_OPERATION_REDUCE, 1, &up));
    GY_TRY(map_hosts(map, &over.width));
    over.runs = map->runs;
    over.begins = map->begins;
    GY_TRY(across(map, 1, &over));
    GY_TRY(map_mates(map));
    down.runs = map->runs;
    down.begins = map->begins;
    return inside(map, GY_OPERATION_SCATTER, 1, &down);
}

static gy_status barrier(host_map *map)
{
    gy_part before = {.in = in, .out = out}, over = before, after = before;
    GY_TRY(inside(map, GY_OPERATION_BARRIER, 1, &before));
    GY_TRY(across(map, 1, &over));
    return inside(map, GY_OPERATION_BARRIER, 1, &after);
}

static gy_status with_hosts(gy_status (*plan)(host_map *), const gy_plan_request *request,
                            int rank, gy_plan_sink *sink)
{
    host_map map;
    gy_status status = map_init(&map, request, rank, sink);
    if (status == GY_OK) {
        status = plan(&map);
    }
    map_fini(&map);
    return status;
}

#define GY_HIERARCHY(name)                                                                     \
    gy_status gy_plan_hierarchy_##name(const gy_plan_request *request, int rank,               \
                                       gy_plan_sink *sink)                                     \
    {                                                                                          \
        return with_hosts(name, request, rank, sink);                                          \
    }
GY_HIERARCHY(allreduce)
GY_HIERARCHY(reduce_scatter)
GY_HIERARCHY(allgather)
GY_HIERARCHY(broadcast)
GY_HIERARCHY(reduce)
GY_HIERARCHY(barrier)
#undef GY_HIERARCHY
