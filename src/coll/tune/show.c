/* The choice as text: which algorithm every operation takes, from which size on, and why. */
#include "coll/coll_priv.h"

#include <string.h>

#include <gyre/tune.h>

enum { SMALLEST = 1 << 10, LARGEST = 64 << 20 };

void gy_tuning_show_links(const gy_tuning *tuning, gy_text *out)
{
    for (int i = 0; i < GY_LINK_CLASSES; i++) {
        const gy_link_figures *link = &tuning->links[i];
        if (link->is_measured && i == GY_LINK_WORD) {
            gy_text_add(out, "link %-9s %10.3g us\n", gy_link_name((gy_link_class)i),
                        link->alpha * 1e6);
        } else if (link->is_measured) {
            gy_text_add(out, "link %-9s %10.3g us %10.3g GB/s\n",
                        gy_link_name((gy_link_class)i), link->alpha * 1e6, 1e-9 / link->beta);
        }
    }
    for (int i = 0; i < GY_TYPE_CLASSES; i++) {
        if (tuning->gamma[i] > 0) {
            gy_text_add(out, "combine %-6s %24.3g GB/s\n", gy_type_name((gy_type_class)i),
                        1e-9 / tuning->gamma[i]);
        }
    }
}

static bool is_same(const gy_pick *a, const gy_pick *b)
{
    return a->row == b->row && a->reason == b->reason &&
           strcmp(a->parameter, b->parameter) == 0;
}

/* Writes one line for each size from which on another algorithm is taken. */
static gy_status show_kind(gy_site *site, gy_need_of need, gy_text *out)
{
    gy_pick last = {.row = NULL}, pick;
    char name[64], why[64], size[32];
    bool is_barrier = need.operation == GY_OPERATION_BARRIER;
    for (need.bytes = SMALLEST; need.bytes <= LARGEST; need.bytes *= 2) {
        bool is_tiny = site->has_shared && need.bytes <= GY_TINY_BYTES;
        if (is_tiny) {
            continue;
        }
        GY_TRY(gy_site_pick(site, &need, &pick));
        if (!is_same(&pick, &last)) {
            bool is_first = last.row == NULL;
            gy_text_add(out, "%-15s %-6s %-10s %10s  %-26s %s\n",
                        gy_operation_name(need.operation), gy_type_name(need.type),
                        gy_memory_name(need.memory),
                        is_first ? "" : gy_text_bytes(size, (uint64_t)need.bytes),
                        gy_pick_name(&pick, name), gy_pick_why(&pick, why));
        }
        GY_ASSERT(pick.row != NULL || pick.reason == GY_REASON_NONE);
        last = pick;
        if (is_barrier) {
            return GY_OK; /* a barrier has no size */
        }
    }
    return GY_OK;
}

static gy_status show_all(gy_site *site, gy_text *out)
{
    gy_text_add(out, "%-15s %-6s %-10s %10s  %-26s %s\n", "operation", "type", "memory", "from",
                "takes", "because");
    if (site->has_shared) {
        gy_text_add(out, "%-15s %-6s %-10s %10s  %-26s %s\n", "all", "all", "all", "", "slots",
                    "up to 8 KiB");
    }
    for (int i = 0; i < GY_OPERATION_COUNT * GY_TYPE_CLASSES * GY_MEMORY_COUNT; i++) {
        int pair = i / GY_MEMORY_COUNT;
        gy_operation operation = (gy_operation)(pair / GY_TYPE_CLASSES);
        gy_need_of need = {.operation = operation,
                           .type = (gy_type_class)(pair % GY_TYPE_CLASSES),
                           .memory = (gy_memory)(i % GY_MEMORY_COUNT),
                           .is_known = true};
        bool is_combined = gy_call_reduces(&(gy_coll_call){.operation = operation});
        bool is_here = (need.memory != GY_MEMORY_MESSAGES) == site->has_shared &&
                       (is_combined || need.type == GY_TYPE_PLAIN) &&
                       !(operation == GY_OPERATION_BARRIER && site->has_shared);
        if (is_here) {
            GY_TRY(show_kind(site, need, out));
        }
    }
    return GY_OK;
}

static gy_status init_site(const gy_tune_query *query, const gy_tuning *tuning,
                           const gy_forced *forced, gy_site *site)
{
    int hosts = GY_MAX(query->hosts, 1), ranks = query->ranks;
    if (ranks < 2 || ranks > GY_PLAN_RANKS || hosts > ranks) {
        return gy_fail(GY_ARG, "%d ranks on %d hosts, expected 2 to %d on at most as many",
                       ranks, hosts, GY_PLAN_RANKS);
    }
    GY_ASSERT(hosts >= 1 && hosts <= ranks);
    int32_t *host_of = gy_alloc_zero("coll.show", (size_t)ranks, sizeof(*host_of));
    if (host_of == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < ranks; rank++) {
        host_of[rank] = (int32_t)((int64_t)rank * hosts / ranks);
    }
    gy_status status = gy_site_init(site, ranks, host_of, tuning);
    gy_free(host_of);
    site->has_shared = hosts == 1 && !query->is_tcp;
    site->near = query->is_tcp ? GY_LINK_LOOPBACK : GY_LINK_RING;
    site->region_bytes = (GY_WORLD_STAGING - GY_CHANNELS * sizeof(gy_coll_slot)) / GY_CHANNELS /
                         GY_CACHE_LINE * GY_CACHE_LINE;
    site->forced = forced;
    return status;
}

gy_status gy_tune_show(const gy_tune_query *query, char **text)
{
    GY_ASSERT(query != NULL && text != NULL);
    gy_text out = {.data = NULL};
    gy_tuning *tuning = NULL;
    gy_forced forced = {.hash = 0};
    gy_site site = {.ranks = 0};
    gy_status status = gy_tuning_open(NULL, gy_env_real(), true, &tuning);
    if (status == GY_OK) {
        status = gy_forced_from_environment(&forced);
    }
    if (status == GY_OK) {
        status = init_site(query, tuning, &forced, &site);
    }
    if (status == GY_OK && tuning != NULL) {
        gy_text_add(&out, "table %08x, %s, of %s\n", tuning->hash, tuning->path,
                    tuning->machine);
        gy_tuning_show_links(tuning, &out);
    } else if (status == GY_OK) {
        gy_text_add(&out, "no table: built-in figures\n");
    }
    if (status == GY_OK) {
        status = show_all(&site, &out);
    }
    gy_site_fini(&site);
    gy_forced_fini(&forced);
    gy_tuning_free(tuning);
    if (status != GY_OK || out.status < 0) {
        gy_text_free(&out);
        return status != GY_OK ? status : out.status;
    }
    *text = out.data;
    return GY_OK;
}
