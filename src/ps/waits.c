/* What pulls at a server have waited for, and how stale their rows were. */
#include "ps/server_priv.h"

#include <string.h>

void gy_ps_waits_add(ps_waits *waits, uint64_t wait_ns, uint32_t behind)
{
    waits->waits++;
    waits->wait_ns += wait_ns;
    if (behind >= GY_PS_WORKERS_MAX) {
        return; /* nobody was named */
    }
    if (behind >= waits->worker_count) {
        if (GY_GROW("ps.waits", waits->by_worker, waits->worker_capacity, (size_t)behind + 1) <
            0) {
            return; /* it is a figure, no more */
        }
        memset(waits->by_worker + waits->worker_count, 0,
               (behind + 1 - waits->worker_count) * sizeof(*waits->by_worker));
        waits->worker_count = behind + 1;
    }
    waits->by_worker[behind] += wait_ns;
}

void gy_ps_waits_tell(const ps_waits *waits, Gy__Ps__Facts *facts)
{
    facts->spared_key_bytes = waits->spared_key_bytes;
    facts->pulls = waits->pulls;
    facts->waits = waits->waits;
    facts->wait_ns = waits->wait_ns;
    for (size_t i = 0; i < waits->worker_count; i++) {
        if (waits->by_worker[i] > facts->slow_wait_ns) {
            facts->slow_wait_ns = waits->by_worker[i];
            facts->slow_worker = (uint32_t)i;
        }
    }
    facts->n_staleness = GY_PS_STALENESS_BINS;
    facts->staleness = (uint64_t *)(uintptr_t)waits->staleness; /* only packed */
}

void gy_ps_waits_fini(ps_waits *waits)
{
    gy_free(waits->by_worker);
    *waits = (ps_waits){.pulls = 0};
}
