/* Where the time of runs goes: with a computation running it is compute, else with a collective
 * under way exposed communication, else neither. */
#include "graph/session_priv.h"

void gy_meter_init(gy_meter *meter)
{
    *meter = (gy_meter){.since_ns = 0};
    gy_mutex_init(&meter->lock, 5);
}

void gy_meter_fini(gy_meter *meter)
{
    gy_mutex_fini(&meter->lock);
}

static void account(gy_meter *meter) GY_REQUIRES(meter->lock)
{
    GY_ASSERT(meter->computing >= 0 && meter->exchanging >= 0);
    int64_t now = gy_now_ns(gy_env_real());
    int64_t *where = meter->computing > 0    ? &meter->compute_ns
                     : meter->exchanging > 0 ? &meter->exposed_ns
                                             : &meter->other_ns;
    int64_t passed = meter->is_on ? now - meter->since_ns : 0;
    GY_ASSERT(now >= meter->since_ns || !meter->is_on);
    *where += passed;
    meter->hidden_ns += meter->computing > 0 && meter->exchanging > 0 ? passed : 0;
    meter->since_ns = now;
}

void gy_meter_change(gy_meter *meter, int computing, int exchanging)
{
    gy_mutex_lock(&meter->lock);
    account(meter);
    meter->computing += computing;
    meter->exchanging += exchanging;
    GY_ASSERT(meter->computing >= 0 && meter->exchanging >= 0);
    gy_mutex_unlock(&meter->lock);
}

void gy_meter_run(gy_meter *meter, bool begins)
{
    gy_mutex_lock(&meter->lock);
    account(meter);
    GY_ASSERT(meter->is_on != begins);
    meter->is_on = begins;
    gy_mutex_unlock(&meter->lock);
}
