/* Cohorts that span several hosts with the same number of members on each: gangs of ranks. One
 * step takes all their processes or none. While a cohort waits for processes on hosts with
 * enough slots, nothing younger starts, as on one machine. */
#include "sched/hosts/hosts.h"

/* Choose the `wanted` hosts with `each` slots that have the most free processes. Returns how
 * many exist. */
static uint32_t choose_hosts(gy_manager *manager, uint32_t each, uint32_t wanted)
{
    gy_hosts *hosts = &manager->hosts;
    uint32_t *chosen = hosts->chosen.items, count = 0;
    for (uint32_t host = 0; host < hosts->count; host++) {
        const uint32_t open = hosts->rows[host].open;
        uint32_t at = count;
        if (!gy_manager_has_slots(&hosts->rows[host], each)) {
            continue;
        }
        while (at > 0 && hosts->rows[chosen[at - 1]].open < open) {
            at--;
        }
        if (at == wanted) {
            continue;
        }
        count += count < wanted;
        for (uint32_t i = count - 1; i > at; i--) {
            chosen[i] = chosen[i - 1];
        }
        chosen[at] = host;
    }
    return count;
}

uint32_t gy_manager_pick_spread(gy_manager *manager, uint32_t head, gy_sched_heap **from,
                                bool *again)
{
    gy_hosts *hosts = &manager->hosts;
    const uint32_t wanted = gy_manager_spread(manager, head);
    const uint32_t each = manager->rows[head].width / wanted;
    if (GY_GROW("manager.spread", hosts->chosen.items, hosts->chosen.capacity, wanted) < 0) {
        manager->status = GY_NOMEM;
        return GY_NONE;
    }
    hosts->chosen.count = choose_hosts(manager, each, wanted);
    if (hosts->chosen.count < wanted) {
        gy_manager_set_aside(manager, head, each);
        *again = manager->status >= 0;
        return GY_NONE;
    }
    /* The last chosen host has the fewest free processes. */
    if (hosts->rows[hosts->chosen.items[wanted - 1]].open < each) {
        return GY_NONE;
    }
    *from = &hosts->rows[hosts->chosen.items[0]].heap;
    return head;
}
