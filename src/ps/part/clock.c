/*
 * Workers and rules. A worker's clock is how often it has called gy_ps_clock. After c calls a
 * pull is answered
 *
 *   bsp       once every live worker has made c calls: clocks below c are closed
 *   backup:b  once all live workers but b have: the same, with fewer
 *   ssp:s     once every live worker has made c - s calls
 *   asp, weighted  at once
 *
 * @source Valiant, CACM 1990 (BSP); Ho et al., NIPS 2013 (SSP); Chen et al., 2016, "Revisiting
 * distributed synchronous SGD" (backup workers)
 */
#include "ps/part/part_priv.h"

/* What a worker has pushed for a clock that it has made counts, though it has left since. */
bool gy_ps_clocks_may_close(const ps_clocks *clocks)
{
    uint32_t behind = 0, beyond = 0;
    for (uint32_t i = 0; i < clocks->count; i++) {
        const ps_worker *worker = &clocks->workers[i];
        bool is_beyond = worker->clock > clocks->closed;
        behind += worker->is_live && !is_beyond;
        beyond += is_beyond && (worker->is_live || !GY_PS_PLANTED(LEFT_UNSUMMED));
    }
    uint32_t spare = clocks->sync.rule == GY_PS_BACKUP ? clocks->sync.bound : 0;
    spare += GY_PS_PLANTED(CLOSED_EARLY) ? 1 : 0;
    return beyond > 0 && behind <= spare;
}

bool gy_ps_clocks_are_ready(const ps_clocks *clocks, uint64_t clock, uint32_t *behind)
{
    uint64_t least = UINT64_MAX;
    *behind = UINT32_MAX;
    for (uint32_t i = 0; i < clocks->count; i++) {
        const ps_worker *worker = &clocks->workers[i];
        if (worker->is_live && worker->clock < least) {
            least = worker->clock;
            *behind = i;
        }
    }
    switch (clocks->sync.rule) {
    case GY_PS_BSP:
    case GY_PS_BACKUP:
        return clock <= clocks->closed;
    case GY_PS_SSP:
        least += GY_PS_PLANTED(STALE_READ) ? 1 : 0;
        return clock <= clocks->sync.bound || least >= clock - clocks->sync.bound;
    case GY_PS_ASP:
    case GY_PS_WEIGHTED:
    case GY_PS_RULES:
    default:
        return true;
    }
}
