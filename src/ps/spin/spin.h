/** Inside room ps: how long a wait may spin before it sleeps. Waking a sleeper costs 40 to 70
 * microseconds, more than a small push. */
#ifndef GY_PS_SPIN_SPIN_H
#define GY_PS_SPIN_SPIN_H

#include "base/base.h"

/** How well spinning has paid so far. Zero-initialise. */
typedef struct ps_spin {
    int64_t budget_ns;  /* of a wait */
    int64_t begun_ns;   /* of this wait; 0: none */
    int64_t looked_ns;  /* last look at the clock in it */
    int64_t crowded_ns; /* until then: others want the core */
    uint32_t waits;
    bool is_set, is_alone; /* is_alone: there is one core, so that spinning delays the other */
} ps_spin;

/** Nothing was there: may the wait look again at once? Otherwise it sleeps. */
bool gy_ps_spin_more(ps_spin *spin, int64_t now_ns);
/** Something has come, while it spun or after it slept: the wait is over. */
void gy_ps_spin_end(ps_spin *spin, bool has_slept);

#endif
