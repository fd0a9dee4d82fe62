/* Which ranks a host has, and other data that the plans of all ranks share: computed once, so
 * that planning for all ranks does not take p^2 steps. */
#include "plan/plan_priv.h"

#include "base/base.h"

static gy_status take_numbers(gy_plan_shared *shared, int32_t **numbers, size_t count)
{
    *numbers = gy_arena_alloc(&shared->arena, GY_MAX(count, (size_t)1) * sizeof(**numbers));
    return *numbers == NULL ? GY_NOMEM : GY_OK;
}

static gy_status take_runs(gy_plan_shared *shared, gy_block_run **runs, size_t count)
{
    *runs = gy_arena_alloc(&shared->arena, GY_MAX(count, (size_t)1) * sizeof(**runs));
    return *runs == NULL ? GY_NOMEM : GY_OK;
}

static gy_status take_all(gy_plan_shared *shared, size_t ranks, unsigned from)
{
    size_t hosts = (size_t)shared->hosts;
    GY_TRY(take_numbers(shared, &shared->ranks, ranks));
    GY_TRY(take_numbers(shared, &shared->places, ranks));
    GY_TRY(take_numbers(shared, &shared->begins, hosts + 1));
    GY_TRY(take_numbers(shared, &shared->leaders, hosts));
    if ((from & GY_FROM_HOSTS) != 0) {
        GY_TRY(take_numbers(shared, &shared->run_begins, hosts + 1));
        GY_TRY(take_runs(shared, &shared->singles, ranks));
        GY_TRY(take_runs(shared, &shared->runs, ranks));
    }
    if ((from & GY_FROM_TOUR) != 0) {
        GY_TRY(take_numbers(shared, &shared->tour, ranks));
        GY_TRY(take_numbers(shared, &shared->tour_places, ranks));
        GY_TRY(take_runs(shared, &shared->tour_runs, ranks));
    }
    if ((from & GY_FROM_TREE) != 0) {
        GY_TRY(take_numbers(shared, &shared->parents, ranks));
        GY_TRY(take_numbers(shared, &shared->depths, ranks));
        GY_TRY(take_numbers(shared, &shared->child_begins, ranks + 1));
        GY_TRY(take_numbers(shared, &shared->children, ranks));
    }
    return GY_OK;
}

/* Sort the ranks by host. */
static void sort_ranks(const gy_plan_request *request, gy_plan_shared *shared)
{
    for (int rank = 0; rank < request->ranks; rank++) {
        int host = gy_host_of(request->topology, rank);
        shared->places[rank] = shared->begins[host + 1]++;
    }
    for (int host = 0; host < shared->hosts; host++) {
        shared->widest = GY_MAX(shared->widest, shared->begins[host + 1]);
        shared->begins[host + 1] += shared->begins[host];
    }
    for (int rank = 0; rank < request->ranks; rank++) {
        int host = gy_host_of(request->topology, rank);
        shared->ranks[shared->begins[host] + shared->places[rank]] = rank;
    }
}

/* The root is its host's leader; on other hosts it is the lowest rank. */
static gy_status find_leaders(const gy_plan_request *request, gy_plan_shared *shared)
{
    for (int host = 0; host < shared->hosts; host++) {
        if (shared->begins[host] == shared->begins[host + 1]) {
            return gy_fail(GY_ARG, "host %d has no rank", host);
        }
        shared->leaders[host] = shared->ranks[shared->begins[host]];
    }
    if (request->operation == GY_OPERATION_BROADCAST ||
        request->operation == GY_OPERATION_REDUCE) {
        shared->leaders[gy_host_of(request->topology, request->root)] = request->root;
    }
    return GY_OK;
}

static void find_runs(gy_plan_shared *shared)
{
    int count = 0;
    for (int host = 0; host < shared->hosts; host++) {
        for (int i = shared->begins[host]; i < shared->begins[host + 1]; i++) {
            bool goes_on =
                i > shared->begins[host] && shared->ranks[i] == shared->ranks[i - 1] + 1;
            shared->singles[i] = (gy_block_run){shared->ranks[i], 1};
            if (goes_on) {
                shared->runs[count - 1].run++;
            } else {
                shared->runs[count++] = shared->singles[i];
            }
        }
        shared->run_begins[host + 1] = count;
    }
}

static gy_status find_out(const gy_plan_request *request, unsigned from, gy_plan_shared *shared)
{
    if ((from & (GY_FROM_HOSTS | GY_FROM_TOUR | GY_FROM_TREE)) == 0) {
        return GY_OK;
    }
    shared->hosts = request->topology == NULL ? 1 : request->topology->hosts;
    GY_TRY(take_all(shared, (size_t)request->ranks, from));
    sort_ranks(request, shared);
    if ((from & GY_FROM_HOSTS) != 0) {
        GY_TRY(find_leaders(request, shared));
        find_runs(shared);
    }
    if ((from & GY_FROM_TOUR) != 0) {
        GY_TRY(gy_plan_find_tour(request, shared));
    }
    /* otherwise the binomial tree */
    bool has_tree = (from & GY_FROM_TREE) != 0 && shared->hosts > 1;
    return has_tree ? gy_plan_grow_tree(request, shared) : GY_OK;
}

gy_status gy_plan_share(const gy_algorithm *algorithm, const gy_plan_request *request,
                        gy_plan_shared **shared)
{
    GY_TRY(gy_plan_request_check(algorithm, request));
    gy_plan_shared *made = gy_alloc_zero("plan.shared", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_status status = find_out(request, algorithm->limits, made);
    if (status != GY_OK) {
        gy_plan_shared_free(made);
        return status;
    }
    *shared = made;
    return GY_OK;
}

void gy_plan_shared_free(gy_plan_shared *shared)
{
    if (shared != NULL) {
        gy_arena_free(&shared->arena);
        gy_free(shared);
    }
}

gy_status gy_plan_with_shared(const gy_plan_request *request, int rank, gy_plan_sink *sink,
                              unsigned from, gy_planner planner)
{
    if (request->shared != NULL) {
        return planner(request, rank, sink);
    }
    gy_plan_shared own = {.hosts = 0};
    gy_plan_request with_own = *request;
    with_own.shared = &own;
    gy_status status = find_out(request, from, &own);
    if (status == GY_OK) {
        status = planner(&with_own, rank, sink);
    }
    gy_arena_free(&own.arena);
    return status;
}
