/* How a vector is cut: into legs, which limit the length of plans, and chunks, which follow
 * each other through a plan. */
#include "coll/coll_priv.h"

#include <string.h>

enum {
    STAGE_CHUNK_BYTES =
        64 * 1024, /* two slots and their part of the vectors fit the second cache */
    DIRECT_CHUNK_BYTES = 256 * 1024, /* so that other calls in flight get their turn */
    MESSAGE_CHUNK_BYTES = 1 << 20,
};

static int64_t divide_up(int64_t a, int64_t b)
{
    GY_ASSERT(a >= 0 && b > 0);
    return (a + b - 1) / b;
}

static gy_plan_request request_of(const gy_site *site, const gy_pick *pick, int chunks)
{
    GY_ASSERT(pick->row != NULL && chunks >= 1);
    gy_plan_request request = {.operation = pick->row->operation,
                               .ranks = site->ranks,
                               .chunks = chunks,
                               .topology = gy_site_topology(site)};
    memcpy(request.parameter, pick->parameter, sizeof(request.parameter));
    return request;
}

/* Finds how many staging slots the algorithm's plans use here. */
static gy_status find_stage_slots(gy_site *site, const gy_algorithm *row, int32_t *slots)
{
    GY_ASSERT(row >= gy_algorithms && row < gy_algorithms + gy_algorithm_count);
    int32_t *known = &site->stage_slots[row - gy_algorithms];
    if (*known == 0) {
        bool is_one = (row->limits & GY_LIMIT_WINDOW) != 0;
        gy_plan_request request = request_of(site, &(gy_pick){.row = row}, is_one ? 1 : 8);
        gy_steps steps;
        gy_steps_init(&steps);
        /* All ranks are planned, since only the root of a broadcast stages. */
        for (int rank = 0; rank < site->ranks; rank++) {
            gy_status status = gy_plan_rank(row, &request, rank, &steps.sink);
            if (status != GY_OK) {
                gy_steps_free(&steps);
                return status;
            }
            steps.count = 0;
        }
        *known = GY_MAX(steps.stage_slots, 1);
        gy_steps_free(&steps);
    }
    GY_ASSERT(*known >= 1);
    *slots = *known;
    return GY_OK;
}

gy_status gy_site_chunk_bytes(gy_site *site, const gy_algorithm *row, int64_t *bytes)
{
    GY_ASSERT(row->need != GY_NEED_LIBRARY);
    *bytes = row->need == GY_NEED_DIRECT ? DIRECT_CHUNK_BYTES : MESSAGE_CHUNK_BYTES;
    if (row->need == GY_NEED_STAGE) {
        int32_t slots = 1;
        GY_TRY(find_stage_slots(site, row, &slots));
        int64_t room = (int64_t)site->region_bytes / slots / GY_CACHE_LINE * GY_CACHE_LINE;
        *bytes = GY_MIN((int64_t)STAGE_CHUNK_BYTES, room);
    }
    GY_ASSERT(*bytes >= 0);
    return GY_OK;
}

/* Returns how many blocks lie side by side in the elements that `count` counts. */
static int64_t spread_of(const gy_site *site, const gy_pick *pick)
{
    GY_ASSERT(site->ranks > 0);
    gy_plan_request request = request_of(site, pick, 1);
    if (gy_operation_has_parts(request.operation)) {
        return 1;
    }
    return pick->row->cut == GY_CUT_WINDOWS ? site->ranks
                                            : gy_cut_parts(pick->row->cut, &request);
}

gy_status gy_site_cut(gy_site *site, const gy_pick *pick, int64_t count, int64_t element_bytes,
                      gy_pieces *pieces)
{
    GY_ASSERT(count >= 0 && element_bytes > 0);
    int64_t unit = gy_unit_of(element_bytes), chunk = 0;
    GY_TRY(gy_site_chunk_bytes(site, pick->row, &chunk));
    /* From here on, `chunk` counts the elements of one block. */
    chunk = GY_MAX(chunk / element_bytes / unit * unit, unit);
    int64_t parts = gy_operation_has_parts(pick->row->operation) ? site->ranks : 1;
    int64_t spread = spread_of(site, pick);
    int64_t leg_limit = GY_MAX((int64_t)GY_LEG_BYTES / parts / element_bytes, 2 * unit);
    if ((pick->row->limits & GY_LIMIT_WINDOW) != 0) {
        leg_limit = GY_MIN(leg_limit, chunk * spread);
    }
    pieces->legs = GY_MAX(divide_up(count, leg_limit), (int64_t)1);
    pieces->leg = divide_up(divide_up(count, pieces->legs), unit) * unit;
    pieces->legs = GY_MAX(divide_up(count, GY_MAX(pieces->leg, (int64_t)1)), (int64_t)1);
    GY_ASSERT(pieces->legs >= 1 && pieces->leg * pieces->legs >= count);
    int64_t leg = GY_MIN(pieces->leg, count);
    pieces->chunks = (int)GY_MAX(divide_up(leg, chunk * spread), (int64_t)1);
    GY_ASSERT(pieces->chunks <= UINT16_MAX);
    return GY_OK;
}
