#include "launch/renewal.h"

void gy_renewal_init(gy_renewal *renewal, int node, int nodes, const gy_renewal_ops *ops,
                     void *arg)
{
    GY_ASSERT(node >= 0 && node < nodes && nodes <= GY_RUN_NODES_MAX);
    *renewal = (gy_renewal){.ops = ops, .arg = arg, .node = node, .nodes = nodes};
}

static void begin(gy_renewal *renewal)
{
    GY_ASSERT(renewal->generation + 1 == renewal->offered);
    renewal->generation = renewal->offered;
    renewal->is_ready = false;
    renewal->ops->begin(renewal->arg, renewal->generation);
}

/* Node 0: if all nodes have listeners, send the table. */
static void gather(gy_renewal *renewal)
{
    for (int i = 0; i < renewal->nodes; i++) {
        if (renewal->offers[i] != renewal->wanted) {
            return;
        }
    }
    renewal->ops->tell(renewal->arg, -1, GY_FRAME_TABLE, renewal->wanted, NULL);
    begin(renewal);
}

static void offer(gy_renewal *renewal, uint32_t wanted, const gy_run_end *cause)
{
    renewal->ops->say(renewal->arg, cause);
    if (wanted == renewal->offered || !renewal->ops->offer(renewal->arg, wanted, cause)) {
        return;
    }
    renewal->offered = wanted;
    if (renewal->node != 0) {
        renewal->ops->tell(renewal->arg, 0, GY_FRAME_NODE, wanted, NULL);
        return;
    }
    renewal->offers[0] = wanted;
    gather(renewal);
}

/* Node 0: a loss reported after all ranks have done their work in this generation changes
 * nothing. */
static gy_status handle_lost(gy_renewal *renewal, uint32_t generation, const gy_run_end *cause)
{
    if (generation > renewal->generation) {
        return gy_fail(GY_FORMAT, "a rank lost in generation %u of %u", generation,
                       renewal->generation);
    }
    if (renewal->is_over) {
        return GY_OK;
    }
    if (generation == renewal->wanted) {
        renewal->wanted++;
    }
    renewal->ops->tell(renewal->arg, -1, GY_FRAME_RENEW, renewal->wanted, cause);
    offer(renewal, renewal->wanted, cause);
    return GY_OK;
}

static gy_status handle_offer(gy_renewal *renewal, int from, uint32_t generation)
{
    if (generation != renewal->wanted || renewal->offers[from] == generation) {
        return gy_fail(GY_FORMAT, "doors for generation %u, %u is wanted", generation,
                       renewal->wanted);
    }
    renewal->offers[from] = generation;
    gather(renewal);
    return GY_OK;
}

static void handle_ready(gy_renewal *renewal, int from, uint32_t generation)
{
    renewal->ready[from] = generation + 1;
    for (int i = 0; i < renewal->nodes; i++) {
        if (renewal->ready[i] != renewal->wanted + 1) {
            return;
        }
    }
    renewal->is_over = true;
    renewal->ops->tell(renewal->arg, -1, GY_FRAME_OVER, renewal->wanted, NULL);
    renewal->ops->over(renewal->arg);
}

void gy_renewal_lose(gy_renewal *renewal, uint32_t generation, const gy_run_end *cause)
{
    GY_ASSERT(generation <= renewal->generation);
    if (renewal->node == 0) {
        gy_status status = handle_lost(renewal, generation, cause);
        GY_ASSERT(status == GY_OK);
    } else {
        renewal->ops->tell(renewal->arg, 0, GY_FRAME_LOST, generation, cause);
    }
}

void gy_renewal_done(gy_renewal *renewal)
{
    if (renewal->is_ready || renewal->is_over || gy_renewal_is_on(renewal)) {
        return;
    }
    renewal->is_ready = true;
    if (renewal->node == 0) {
        handle_ready(renewal, 0, renewal->generation);
    } else {
        renewal->ops->tell(renewal->arg, 0, GY_FRAME_READY, renewal->generation, NULL);
    }
}

/* Messages of node 0, which come in order: each generation is offered, then begins. */
static gy_status handle_first(gy_renewal *renewal, gy_transport_frame_type type,
                              uint32_t generation, const gy_run_end *cause)
{
    uint32_t offered = renewal->offered, now = renewal->generation;
    if (type == GY_FRAME_RENEW && (generation == offered || generation == now + 1)) {
        offer(renewal, generation, cause);
        return GY_OK;
    }
    if (type == GY_FRAME_TABLE && generation == offered && offered == now + 1) {
        begin(renewal);
        return GY_OK;
    }
    if (type == GY_FRAME_OVER && generation == now) {
        renewal->is_over = true;
        renewal->ops->over(renewal->arg);
        return GY_OK;
    }
    return gy_fail(GY_FORMAT, "node 0 reports %d for generation %u: expected generation %u",
                   (int)type, generation, now);
}

gy_status gy_renewal_handle(gy_renewal *renewal, int from, gy_transport_frame_type type,
                            uint32_t generation, const gy_run_end *cause)
{
    if (renewal->node != 0) {
        return handle_first(renewal, type, generation, cause);
    }
    if (type == GY_FRAME_LOST) {
        return handle_lost(renewal, generation, cause);
    }
    if (type == GY_FRAME_NODE) {
        return handle_offer(renewal, from, generation);
    }
    if (type == GY_FRAME_READY && generation <= renewal->generation) {
        handle_ready(renewal, from, generation);
        return GY_OK;
    }
    return gy_fail(GY_FORMAT, "node %d reports %d for generation %u: expected generation %u",
                   from, (int)type, generation, renewal->generation);
}

bool gy_renewal_is_on(const gy_renewal *renewal)
{
    return renewal->offered > renewal->generation;
}

int gy_renewal_missing(const gy_renewal *renewal)
{
    int missing = 0;
    while (renewal->node == 0 && missing < renewal->nodes - 1 &&
           renewal->offers[missing] == renewal->wanted) {
        missing++;
    }
    return missing;
}
