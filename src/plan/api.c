/* The public functions: plans by names. */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

enum {
    STORED_STEPS = 1 << 22, /* for all ranks; longer plans are read through windows */
    WINDOW = 256,
    CHECKED_STEPS = 1 << 24, /* steps times ranks: the memory of the checker's clocks */
};

/* A query with its names resolved. */
typedef struct named_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_topology topology;
    int32_t *host_of;
    gy_volume volume;
    gy_links links;
} named_plan;

const char *gy_plan_operation(int index)
{
    return index >= 0 && index < GY_OPERATION_COUNT ? gy_operation_name((gy_operation)index)
                                                    : NULL;
}

/* "exclusive-scan" is "exclusive scan". */
static bool is_same_name(const char *name, const char *given)
{
    while (*name != '\0' && (*name == *given || (*name == ' ' && *given == '-'))) {
        name++;
        given++;
    }
    return *name == *given;
}

gy_status gy_plan_operation_find(const char *name, gy_operation *operation)
{
    gy_text names = {.data = NULL};
    for (int i = 0; i < GY_OPERATION_COUNT; i++) {
        *operation = (gy_operation)i;
        if (is_same_name(gy_operation_name(*operation), name)) {
            gy_text_free(&names);
            return GY_OK;
        }
        gy_text_add(&names, "%s%s", i == 0 ? "" : ", ", gy_operation_name(*operation));
    }
    gy_status status = gy_fail(GY_ARG, "no operation is called \"%s\"; there are %s", name,
                               gy_text_get(&names));
    gy_text_free(&names);
    return status;
}

bool gy_plan_algorithm_at(const char *operation, int index, gy_plan_algorithm *algorithm)
{
    static const char *const takes[] = {[GY_PARAMETER_NONE] = "",
                                        [GY_PARAMETER_NUMBER] = "[:NUMBER]",
                                        [GY_PARAMETER_PAIR] = "[:INSIDE+ACROSS]"};
    static const char *const needs[] = {[GY_NEED_MESSAGES] = "messages",
                                        [GY_NEED_STAGE] = "staging",
                                        [GY_NEED_DIRECT] = "registered"};
    static const char *const orders[] = {
        [GY_ORDER_ANY] = "any", [GY_ORDER_RANK] = "rank", [GY_ORDER_FOLD] = "fold"};
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (is_same_name(gy_operation_name(row->operation), operation) && index-- == 0) {
            *algorithm = (gy_plan_algorithm){.name = row->name,
                                             .takes = takes[row->parameter],
                                             .needs = needs[row->need],
                                             .order = orders[row->order]};
            return true;
        }
    }
    return false;
}

static gy_status place_ranks(const gy_plan_query *query, named_plan *named)
{
    int ranks = query->ranks, hosts = query->hosts;
    if (hosts < 0 || hosts > ranks) {
        return gy_fail(GY_ARG, "%d hosts for %d ranks, expected 1 to %d", hosts, ranks, ranks);
    }
    if (hosts <= 1) {
        return GY_OK;
    }
    named->host_of = gy_alloc("plan.hosts", (size_t)ranks * sizeof(*named->host_of));
    if (named->host_of == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < ranks; rank++) {
        named->host_of[rank] = query->host_of != NULL
                                   ? query->host_of[rank]
                                   : (int32_t)((int64_t)rank * hosts / ranks);
    }
    bool is_other = query->beta_across > 0 && query->links.beta > 0;
    named->topology =
        (gy_topology){.host_of = named->host_of,
                      .hosts = hosts,
                      .within = 1,
                      .across = is_other ? query->beta_across / query->links.beta : 1};
    named->request.topology = &named->topology;
    if (query->host_of != NULL) { /* the topology's costs are in seconds then */
        named->topology.within = query->links.beta;
        named->topology.across = query->beta_across;
        named->topology.between = query->beta_between;
        named->links.beta = 1;
    }
    return GY_OK;
}

static gy_status read_query(const gy_plan_query *query, named_plan *named)
{
    gy_operation operation;
    *named = (named_plan){.algorithm = NULL, .links = query->links};
    GY_TRY(gy_plan_operation_find(query->operation, &operation));
    int64_t width = query->element_bytes > 0 ? query->element_bytes : 4;
    named->request = (gy_plan_request){.operation = operation,
                                       .ranks = query->ranks,
                                       .root = query->root,
                                       .chunks = query->chunks,
                                       .in_place = query->is_in_place};
    named->volume =
        (gy_volume){.count = (query->bytes + width - 1) / width, .element_bytes = width};
    GY_TRY(gy_algorithm_parse(operation, query->algorithm, &named->algorithm,
                              named->request.parameter));
    if (query->ranks < 1 || query->ranks > GY_PLAN_RANKS) {
        return gy_fail(GY_ARG, "%d ranks, expected 1 to %d", query->ranks, GY_PLAN_RANKS);
    }
    return place_ranks(query, named);
}

static gy_status never_take(gy_plan_sink *sink, const gy_step *step)
{
    (void)sink;
    (void)step;
    return GY_OK;
}

/* The longest of a few ranks' plans. */
static gy_status longest(const named_plan *named, int64_t *steps)
{
    int ranks = named->request.ranks;
    const int some[] = {0, named->request.root, ranks / 2, ranks - 1};
    *steps = 0;
    for (size_t i = 0; i < GY_COUNT(some); i++) {
        gy_plan_sink sink = {.take = never_take, .first = UINT32_MAX};
        GY_TRY(gy_plan_rank(named->algorithm, &named->request, some[i], &sink));
        *steps = GY_MAX(*steps, (int64_t)sink.count);
    }
    return GY_OK;
}

static gy_status make_plan(const named_plan *named, gy_plan **plan)
{
    int64_t steps = 0;
    GY_TRY(longest(named, &steps));
    bool is_long = steps * named->request.ranks > STORED_STEPS;
    return gy_plan_new_lazy(named->algorithm, &named->request, is_long ? WINDOW : 0, plan);
}

gy_status gy_plan_length(const gy_plan_query *query, int64_t *steps)
{
    named_plan named;
    gy_status status = read_query(query, &named);
    if (status == GY_OK) {
        status = longest(&named, steps);
    }
    gy_free(named.host_of);
    return status;
}

gy_status gy_plan_cost(const gy_plan_query *query, gy_plan_costs *price)
{
    named_plan named;
    gy_plan *plan = NULL;
    gy_status status = read_query(query, &named);
    if (status == GY_OK) {
        status = make_plan(&named, &plan);
    }
    if (status == GY_OK) {
        status = gy_plan_cost_of(plan, &named.volume, &named.links, price);
    }
    gy_plan_free(plan);
    gy_free(named.host_of);
    return status;
}

gy_status gy_plan_prove(const gy_plan_query *query)
{
    named_plan named;
    gy_plan *plan = NULL;
    int64_t steps = 0;
    gy_status status = read_query(query, &named);
    if (status == GY_OK) {
        status = longest(&named, &steps);
    }
    int ranks = named.request.ranks;
    if (status == GY_OK && steps * ranks * ranks > CHECKED_STEPS * INT64_C(64)) {
        status = gy_fail(GY_LIMIT,
                         "%s of %s: %d ranks with %lld steps each are more than can be checked",
                         named.algorithm->name, query->operation, ranks, (long long)steps);
    }
    if (status == GY_OK) {
        status = gy_plan_new(named.algorithm, &named.request, &plan);
    }
    if (status == GY_OK) {
        status = gy_plan_check(plan);
    }
    gy_plan_free(plan);
    gy_free(named.host_of);
    return status;
}

gy_status gy_plan_picture(const gy_plan_query *query, int width, char **text)
{
    named_plan named;
    gy_plan *plan = NULL;
    gy_text out = {.data = NULL};
    gy_status status = read_query(query, &named);
    if (status == GY_OK) {
        status = make_plan(&named, &plan);
    }
    if (status == GY_OK) {
        status = width > 0 ? gy_picture_text(plan, width, &out) : gy_picture_svg(plan, &out);
    }
    gy_plan_free(plan);
    gy_free(named.host_of);
    if (status == GY_OK && out.status < 0) {
        status = out.status;
    }
    if (status != GY_OK) {
        gy_text_free(&out);
        return status;
    }
    *text = out.data;
    return GY_OK;
}

gy_status gy_plan_simulate(const gy_plan_query *query, const gy_fault_model *faults,
                           gy_simulation_result *result)
{
    named_plan named;
    *result = (gy_simulation_result){.ended = 0};
    gy_status status = read_query(query, &named);
    if (status == GY_OK && (faults->loss < 0 || faults->loss > 1 || faults->retry_s < 0)) {
        status = gy_fail(GY_ARG, "loss %g and retry %g, expected 0 to 1 and no less than 0",
                         faults->loss, faults->retry_s);
    }
    if (status == GY_OK) {
        status = gy_plan_run_simulated(&(gy_simulation){.algorithm = named.algorithm,
                                                        .request = &named.request,
                                                        .volume = &named.volume,
                                                        .links = &named.links,
                                                        .faults = faults},
                                       result);
    }
    gy_free(named.host_of);
    return status;
}
