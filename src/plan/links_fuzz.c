/* Fuzz target: any bytes as a file of links give figures and places within their bounds, or a
 * failure. */
#include "plan/plan.h"

#include "base/base.h"

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_plan_links *links = NULL;
    gy_plan_query query = {.ranks = 0};
    if (gy_plan_links_parse((const char *)data, size, "fuzz", &links) != GY_OK) {
        return 0;
    }
    GY_ASSERT(gy_plan_links_use(links, &query) == GY_OK);
    GY_ASSERT(query.links.alpha >= 0 && query.links.beta >= 0 && query.beta_across >= 0);
    GY_ASSERT((query.host_of == NULL) == (query.ranks == 0) && query.ranks <= GY_PLAN_RANKS);
    for (int rank = 0; rank < query.ranks; rank++) {
        GY_ASSERT(query.host_of[rank] >= 0 && query.host_of[rank] < query.hosts);
    }
    int pairs = query.beta_between == NULL ? 0 : query.hosts * query.hosts;
    for (int i = 0; i < pairs; i++) {
        GY_ASSERT(query.beta_between[i] >= 0 && query.links.alpha_between[i] >= 0);
    }
#ifdef GYRE_PLANTED_BUG
    /* as if there were never more than two hosts */
    int32_t *counts = gy_alloc_zero("fuzz", 2, sizeof(*counts));
    for (int rank = 0; counts != NULL && rank < query.ranks; rank++) {
        ((volatile int32_t *)counts)[query.host_of[rank]]++;
    }
    gy_free(counts);
#endif
    gy_plan_links_free(links);
    return 0;
}
