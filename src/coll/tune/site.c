/* Sites: where ranks run, what links between them cost, and which algorithm a call takes
 * (docs/decisions/014). The built-in figures were measured on the development machine
 * (docs/decisions/004, 017). */
#include "base/text.h"
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

enum {
    EXCHANGE_BYTES = 128 * 1024,
    CLAIMED_BYTES = 256 * 1024,
    DOUBLING_BYTES = 64 * 1024,
    FOLDED_BYTES = 4 << 20
};

static const gy_link_figures built_in[GY_LINK_CLASSES] = {
    [GY_LINK_WORD] = {.alpha = 0.2e-6},
    [GY_LINK_STAGED] = {.beta = 0.08e-9},
    [GY_LINK_DIRECT] = {.beta = 0.05e-9},
    [GY_LINK_RING] = {.alpha = 1e-6, .beta = 0.15e-9},
    [GY_LINK_LOOPBACK] = {.alpha = 10e-6, .beta = 0.35e-9},
    [GY_LINK_FAR] = {.alpha = 30e-6, .beta = 0.8e-9},
};
static const double built_in_gamma[GY_TYPE_CLASSES] = {0.1e-9, 0.3e-9};

static gy_link_figures figures_of(const gy_site *site, gy_link_class link)
{
    GY_ASSERT((unsigned)link < GY_LINK_CLASSES);
    bool is_measured = site->tuning != NULL && site->tuning->links[link].is_measured;
    return is_measured ? site->tuning->links[link] : built_in[link];
}

gy_links gy_site_links(const gy_site *site, gy_need need, gy_type_class type)
{
    GY_ASSERT(need != GY_NEED_LIBRARY && (unsigned)type < GY_TYPE_CLASSES);
    static const gy_link_class shared[] = {
        [GY_NEED_STAGE] = GY_LINK_STAGED, [GY_NEED_DIRECT] = GY_LINK_DIRECT};
    bool has_gamma = site->tuning != NULL && site->tuning->gamma[type] > 0;
    gy_links links = {.gamma = has_gamma ? site->tuning->gamma[type] : built_in_gamma[type]};
    if (need == GY_NEED_MESSAGES) {
        gy_link_figures near = figures_of(site, site->near);
        links.alpha = near.alpha;
        links.beta = near.beta;
        links.alpha_across = figures_of(site, GY_LINK_FAR).alpha;
    } else {
        links.alpha = figures_of(site, GY_LINK_WORD).alpha;
        links.beta = figures_of(site, shared[need]).beta;
    }
    GY_ASSERT(links.gamma > 0 && links.alpha >= 0 && links.beta >= 0);
    return links;
}

static void select_rules(gy_site *site)
{
    GY_ASSERT(site->ranks > 0 && site->hosts.hosts > 0);
    for (int i = 0; i < GY_OPERATION_COUNT * GY_TYPE_CLASSES * GY_MEMORY_COUNT; i++) {
        int pair = i / GY_MEMORY_COUNT;
        gy_rule kind = {.operation = (gy_operation)(pair / GY_TYPE_CLASSES),
                        .type = (gy_type_class)(pair % GY_TYPE_CLASSES),
                        .memory = (gy_memory)(i % GY_MEMORY_COUNT)};
        if (site->tuning != NULL) {
            site->rules[kind.operation][kind.type][kind.memory] =
                gy_tuning_select(site->tuning, &kind, site->ranks, site->hosts.hosts);
        }
    }
}

gy_status gy_site_init(gy_site *site, int ranks, const int32_t *host_of,
                       const gy_tuning *tuning)
{
    GY_ASSERT(ranks > 0 && ranks <= GY_PLAN_RANKS);
    *site = (gy_site){.ranks = ranks, .near = GY_LINK_RING, .tuning = tuning};
    site->hosts.hosts = 1;
    site->stage_slots =
        gy_alloc_zero("coll.site", gy_algorithm_count, sizeof(*site->stage_slots));
    site->host_of = gy_alloc_zero("coll.site", (size_t)ranks, sizeof(*site->host_of));
    if (site->stage_slots == NULL || site->host_of == NULL) {
        return GY_NOMEM;
    }
    /* Hosts are numbered in the order of their first ranks. */
    int hosts = 0;
    for (int rank = 0; rank < ranks && host_of != NULL; rank++) {
        int first = 0;
        while (host_of[first] != host_of[rank]) {
            first++;
        }
        site->host_of[rank] = first == rank ? hosts++ : site->host_of[first];
    }
    GY_ASSERT(hosts <= ranks);
    site->hosts = (gy_topology){.host_of = site->host_of,
                                .hosts = GY_MAX(hosts, 1),
                                .within = 1,
                                .across = figures_of(site, GY_LINK_FAR).beta /
                                          figures_of(site, GY_LINK_RING).beta};
    select_rules(site);
    return GY_OK;
}

void gy_site_fini(gy_site *site)
{
    gy_free(site->stage_slots);
    gy_free(site->host_of);
    *site = (gy_site){.ranks = 0};
}

static bool reduces(gy_operation operation)
{
    GY_ASSERT((unsigned)operation < GY_OPERATION_COUNT);
    return gy_call_reduces(&(gy_coll_call){.operation = operation});
}

bool gy_site_allows(const gy_site *site, const gy_need_of *need, const gy_algorithm *row)
{
    GY_ASSERT(row != NULL && need->bytes >= 0);
    bool is_registered = need->memory == GY_MEMORY_REGISTERED;
    if (gy_row_is_library(row)) {
        return row->operation == need->operation && need->fits_library &&
               (!reduces(need->operation) || row->order >= need->order);
    }
    bool is_reached = row->need == GY_NEED_MESSAGES ||
                      (site->has_shared && (row->need == GY_NEED_STAGE || is_registered));
    bool is_known = need->is_known || (row->limits & GY_LIMIT_KNOWN) == 0 ||
                    (need->is_longest_known && row->need == GY_NEED_STAGE);
    return row->operation == need->operation && is_reached && is_known &&
           (!reduces(need->operation) || row->order >= need->order);
}

bool gy_row_keeps_bits(const gy_algorithm *row)
{
    GY_ASSERT(row != NULL);
    return !reduces(row->operation) || row->order == GY_ORDER_FOLD;
}

const char *gy_site_message_name(gy_operation operation, int64_t bytes)
{
    switch (operation) {
    case GY_OPERATION_ALLREDUCE:
        /* Doubling has the fewest rounds, the ring sends less. */
        return bytes <= DOUBLING_BYTES ? "doubling" : "ring";
    case GY_OPERATION_REDUCE_SCATTER:
    case GY_OPERATION_ALLGATHER:
        return "ring";
    case GY_OPERATION_BROADCAST:
    case GY_OPERATION_REDUCE:
        return "tree";
    case GY_OPERATION_GATHER:
    case GY_OPERATION_SCATTER:
    case GY_OPERATION_ALLTOALL:
        return "flat";
    case GY_OPERATION_SCAN:
    case GY_OPERATION_EXCLUSIVE_SCAN:
        return "chain";
    case GY_OPERATION_BARRIER:
    case GY_OPERATION_COUNT:
    default:
        return "dissemination";
    }
}

/* Takes a row by its name if it is possible. */
static bool take(const gy_site *site, const gy_need_of *need, const char *name,
                 gy_reason reason, gy_pick *pick)
{
    GY_ASSERT((unsigned)need->operation < GY_OPERATION_COUNT);
    const gy_algorithm *row = name == NULL ? NULL : gy_row_find(need->operation, name);
    if (row == NULL || !gy_site_allows(site, need, row)) {
        return false;
    }
    *pick = (gy_pick){.row = row, .reason = reason};
    return true;
}

static gy_status take_forced(const gy_site *site, const gy_need_of *need, gy_pick *pick,
                             bool *is_taken)
{
    GY_ASSERT((unsigned)need->operation < GY_OPERATION_COUNT);
    const char *name = site->forced == NULL ? NULL : site->forced->names[need->operation];
    const gy_algorithm *row = NULL;
    *is_taken = take(site, need, name, GY_REASON_FORCED, pick);
    return *is_taken ? gy_row_parse(need->operation, name, &row, pick->parameter) : GY_OK;
}

static bool take_measured(const gy_site *site, const gy_need_of *need, gy_pick *pick)
{
    GY_ASSERT((unsigned)need->operation < GY_OPERATION_COUNT);
    GY_ASSERT((unsigned)need->type < GY_TYPE_CLASSES &&
              (unsigned)need->memory < GY_MEMORY_COUNT);
    const gy_rule *rule =
        gy_rules_find(site->rules[need->operation][need->type][need->memory], need->bytes);
    if (rule == NULL || !gy_site_allows(site, need, rule->row)) {
        return false;
    }
    *pick = (gy_pick){.row = rule->row, .reason = GY_REASON_MEASURED, .seconds = rule->seconds};
    memcpy(pick->parameter, rule->parameter, sizeof(pick->parameter));
    return true;
}

/* Crowded ranks on the loopback: the ranks of each core sum first, then one rank of each core
 * doubles. */
static bool take_folded(const gy_site *site, const gy_need_of *need, gy_pick *pick)
{
    GY_ASSERT(site->loop_cores >= 0);
    bool is_fit = site->loop_cores > 0 && need->operation == GY_OPERATION_ALLREDUCE &&
                  need->bytes <= FOLDED_BYTES;
    if (!is_fit || !take(site, need, "folded", GY_REASON_BUILT_IN, pick)) {
        return false;
    }
    snprintf(pick->parameter, sizeof(pick->parameter), "%d", site->loop_cores);
    return true;
}

/*
 * Takes the built-in choice on one host. Of two ranks, one meeting wins for small vectors and
 * half of the bytes between the cores for large ones. Among crowded ranks, those that run do
 * the sums while vectors fit staging.
 */
static bool take_built_in(const gy_site *site, const gy_need_of *need, gy_pick *pick)
{
    bool is_private = need->memory == GY_MEMORY_PRIVATE;
    bool exchanges = site->ranks == 2 && need->bytes <= EXCHANGE_BYTES && is_private;
    bool claims = site->is_crowded && need->bytes <= CLAIMED_BYTES && is_private;
    const char *const wanted[] = {is_private ? NULL : "direct", exchanges ? "exchange" : NULL,
                                  claims ? "claimed" : NULL, "staged",
                                  gy_site_message_name(need->operation, need->bytes)};
    if (!site->has_shared && take_folded(site, need, pick)) {
        return true;
    }
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        if (take(site, need, wanted[i], GY_REASON_BUILT_IN, pick)) {
            return true;
        }
    }
    return false;
}

gy_status gy_site_pick(gy_site *site, const gy_need_of *need, gy_pick *pick)
{
    GY_ASSERT(need->bytes >= 0);
    GY_ASSERT(site->ranks > 0 && site->host_of != NULL);
    bool is_taken = false;
    GY_TRY(take_forced(site, need, pick, &is_taken));
    if (is_taken || take_measured(site, need, pick)) {
        return GY_OK;
    }
    if (site->tuning != NULL || site->hosts.hosts > 1) {
        GY_TRY(gy_site_predict(site, need, pick));
        if (pick->reason != GY_REASON_NONE) {
            return GY_OK;
        }
    }
    if (take_built_in(site, need, pick)) {
        return GY_OK;
    }
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        if (gy_site_allows(site, need, &gy_algorithms[i])) {
            *pick = (gy_pick){.row = &gy_algorithms[i], .reason = GY_REASON_ONLY};
            return GY_OK;
        }
    }
    *pick = (gy_pick){.reason = GY_REASON_NONE};
    return GY_OK;
}

const char *gy_pick_name(const gy_pick *pick, char out[64])
{
    bool has_parameter = pick->parameter[0] != '\0';
    snprintf(out, 64, "%s%s%s", pick->row == NULL ? "none" : pick->row->name,
             has_parameter ? ":" : "", pick->parameter);
    return out;
}

const char *gy_pick_why(const gy_pick *pick, char out[64])
{
    static const char *const reasons[] = {[GY_REASON_NONE] = "no algorithm keeps the order",
                                          [GY_REASON_FORCED] = "GYRE_COLL",
                                          [GY_REASON_MEASURED] = "measured",
                                          [GY_REASON_BUILT_IN] = "built in",
                                          [GY_REASON_MODEL] = "model",
                                          [GY_REASON_ONLY] = "keeps the order"};
    size_t size = gy_print(out, 64, "%s", reasons[pick->reason]);
    GY_ASSERT((size_t)pick->reason < GY_COUNT(reasons));
    if (pick->seconds > 0) {
        snprintf(out + size, 64 - size, ", %.3g us", pick->seconds * 1e6);
    }
    return out;
}

gy_links gy_coll_links(const gy_comm *comm)
{
    GY_ASSERT(comm != NULL);
    const gy_site *site = &comm->site;
    GY_ASSERT(site->ranks > 0);
    if (site->has_shared) {
        const bool is_measured =
            site->tuning != NULL && site->tuning->links[GY_LINK_DIRECT].is_measured;
        return is_measured ? gy_site_links(site, GY_NEED_DIRECT, GY_TYPE_PLAIN)
                           : (gy_links){.alpha = 0};
    }
    gy_links links = gy_site_links(site, GY_NEED_MESSAGES, GY_TYPE_PLAIN);
    if (site->hosts.hosts > 1) { /* the slowest link bounds an exchange */
        const gy_link_figures far = figures_of(site, GY_LINK_FAR);
        links.alpha = far.alpha;
        links.beta = far.beta;
    }
    links.alpha_across = 0;
    return links;
}
