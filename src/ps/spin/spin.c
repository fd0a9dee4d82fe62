/*
 * A wait spins for as long as it paid lately: twice as long after a wait that ended within its
 * time, half as long after one that did not; a wait in 32 tries again. Who lost the core
 * meanwhile shares it with others, and sleeps at once for a while.
 *
 * @source Karlin et al., "Empirical studies of competitive spinning", SOSP 1991
 */
#include "ps/spin/spin.h"

#include "topo/topo.h"

static const int64_t budget_ns_max = 60000; /* about what waking costs */
static const int64_t budget_ns_min = 4000;
static const int64_t away_ns = 500000; /* a longer gap between two looks: the core was lost */
static const int64_t crowded_for_ns = 250000000;

enum { PROBE_EVERY = 32 };

static bool begin(ps_spin *spin, int64_t now_ns)
{
    if (!spin->is_set) {
        spin->is_set = true;
        spin->is_alone = gy_topo_cores() < 2;
        spin->budget_ns = budget_ns_max;
    }
    spin->begun_ns = spin->looked_ns = now_ns;
    bool is_probe = ++spin->waits % PROBE_EVERY == 0;
    return !spin->is_alone && now_ns >= spin->crowded_ns &&
           (spin->budget_ns >= budget_ns_min || is_probe);
}

bool gy_ps_spin_more(ps_spin *spin, int64_t now_ns)
{
    if (spin->begun_ns == 0) {
        return begin(spin, now_ns);
    }
    if (now_ns - spin->looked_ns > away_ns) {
        spin->crowded_ns = now_ns + crowded_for_ns;
        return false;
    }
    spin->looked_ns = now_ns;
    return !spin->is_alone && now_ns >= spin->crowded_ns &&
           now_ns - spin->begun_ns < GY_MAX(spin->budget_ns, budget_ns_min);
}

void gy_ps_spin_end(ps_spin *spin, bool has_slept)
{
    if (spin->begun_ns == 0) {
        return; /* there was nothing to wait for */
    }
    GY_ASSERT(spin->budget_ns <= budget_ns_max);
    spin->begun_ns = 0;
    spin->budget_ns =
        has_slept ? spin->budget_ns / 2
                  : GY_MIN(GY_MAX(2 * spin->budget_ns, 2 * budget_ns_min), budget_ns_max);
}
