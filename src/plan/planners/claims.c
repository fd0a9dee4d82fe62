/*
 * Sums that any rank can compute are claims: ranks that share their cores take them one after
 * another as they run, so that no rank waits for one that does not run. The assignment cannot
 * be known in advance. So a planner writes the claims once (fold_claim), and emits either all
 * of them with marks for the runner, or those of one rank under a fixed assignment for all
 * other readers: the checker proves the usual and random assignments (docs/decisions/004).
 */
#include "plan/plan_priv.h"

#include "base/base.h"
#include "base/random.h"

static int owner_of(const gy_claims *claims, int block)
{
    const gy_plan_request *request = claims->request;
    if (request->claims == GY_CLAIMS_USUAL) {
        return block / claims->chunks;
    }
    gy_random random = {.key = (uint64_t)request->claims, .next = (uint64_t)block << 8};
    return (int)gy_random_below(&random, (uint64_t)request->ranks);
}

/* x0 op x1 op ...; the running sum stays in scratch, hence in the cache. */
static gy_status fold_claim(const gy_claims *claims, int block, gy_plan_sink *sink)
{
    const gy_plan_request *request = claims->request;
    gy_blocks sum = claims->operand(request, 0, block);
    for (int of = 1; of < request->ranks; of++) {
        bool is_last = of == request->ranks - 1;
        gy_blocks next =
            is_last ? claims->result(request, block) : gy_scratch(claims->rank, 0, block);
        GY_TRY(gy_plan_emit_reduce(sink, sum, claims->operand(request, of, block), next));
        sum = next;
    }
    return GY_OK;
}

static gy_status wait_for_owners(const gy_claims *claims, int blocks, gy_plan_sink *sink)
{
    const gy_plan_request *request = claims->request;
    if (request->claims == GY_CLAIMS_USUAL) {
        return gy_plan_emit_wait(sink, GY_EVERY, claims->mark);
    }
    for (int owner = 0; owner < request->ranks; owner++) {
        bool has_any = false;
        for (int block = 0; block < blocks && !has_any; block++) {
            has_any = owner_of(claims, block) == owner;
        }
        if (has_any && owner != claims->rank) {
            GY_TRY(gy_plan_emit_wait(sink, owner, claims->mark));
        }
    }
    return GY_OK;
}

gy_status gy_plan_emit_claims(const gy_claims *claims, gy_plan_sink *sink)
{
    int blocks = claims->request->ranks * claims->chunks;
    bool is_free = claims->request->claims == GY_CLAIMS_FREE, has_any = false;
    for (int block = 0; block < blocks; block++) {
        uint32_t number = (uint32_t)block + 1;
        if (is_free) {
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_CLAIM, .mark = number}));
        }
        if (is_free || owner_of(claims, block) == claims->rank) {
            GY_TRY(fold_claim(claims, block, sink));
            has_any = true;
        }
    }
    if (is_free) {
        return gy_plan_emit(sink,
                            &(gy_step){.kind = GY_STEP_CLAIMED, .mark = (uint32_t)blocks});
    }
    if (has_any) {
        GY_TRY(gy_plan_emit_post(sink, claims->mark));
    }
    return wait_for_owners(claims, blocks, sink);
}
