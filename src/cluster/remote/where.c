/* Where slots are wished: near what tasks read, and for tasks that run on few hosts alone at
 * these. */
#include "cluster/remote/tenant.h"

#include <assert.h>
#include <string.h>

static_assert((int)GY_WANTED_HOSTS == (int)GY_CONTROL_HOSTS_MAX,
              "all that are wanted are said");
enum { MISSED_TIMES = 5 }; /* as long as a silent daemon is waited for */

void gy_tenant_where_wish(gy_tenant *tenant, gy_manager_wishes *wishes)
{
    gy_wanted_where *where = &tenant->where;
    gy_manager_wanted_where(tenant->manager, where);
    for (uint32_t i = 0; i < where->count; i++) {
        wishes->hosts[i] = where->hosts[i];
    }
    wishes->must = where->must;
    wishes->is_limited = where->is_limited;
    wishes->elsewhere = where->elsewhere;
}

void gy_tenant_where_hear(gy_tenant *tenant, uint64_t sequence, uint32_t missing)
{
    const char *gone[GY_WANTED_HOSTS];
    uint32_t count = 0;
    if (sequence != tenant->sequence) {
        return; /* of wishes that were others */
    }
    for (uint32_t i = 0; i < tenant->where.must; i++) {
        if ((missing & 1u << i) != 0) {
            gone[count++] = tenant->where.hosts[i];
        }
    }
    const uint32_t task =
        count > 0 ? gy_manager_stranded(tenant->manager, gone, count) : (uint32_t)GY_NONE;
    const int64_t now_ns = gy_now_ns(tenant->env);
    if (task == GY_NONE) {
        tenant->missed_ns = 0;
    } else if (tenant->missed_ns == 0) {
        tenant->missed_ns = now_ns;
    } else if (now_ns - tenant->missed_ns >= MISSED_TIMES * tenant->dead_ns) {
        gy_sched_task_state state;
        gy_manager_task(tenant->manager, task, &state);
        tenant->ops->fail(
            tenant->arg,
            gy_fail(GY_NOTFOUND,
                    "a task of stage '%s' reads a file on the disk of host %s: for %.0f s no "
                    "daemon there could run this job",
                    gy_manager_stage_name(tenant->manager, state.stage), gone[0],
                    (double)(now_ns - tenant->missed_ns) / 1e9));
    }
}

/* Is it of a host whose slots others cannot stand in for? */
static bool is_there(const gy_tenant *tenant, uint32_t slot)
{
    const char *name = tenant->hosts[tenant->seats[slot].host].name;
    bool is_there = false;
    for (uint32_t i = 0; i < tenant->where.must && !is_there; i++) {
        is_there = strcmp(tenant->where.hosts[i], name) == 0;
    }
    return is_there;
}

void gy_tenant_where_give(gy_tenant *tenant, int64_t now_ns)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < tenant->slot_count && tenant->where.is_limited; i++) {
        const tenant_seat *seat = &tenant->seats[i];
        others += seat->lease != 0 && seat->gang == 0 && !is_there(tenant, i);
    }
    if (!tenant->where.is_limited || others <= tenant->where.elsewhere) {
        tenant->others_ns = now_ns;
        return;
    }
    for (uint32_t i = tenant->slot_count; i-- > 0 && others > tenant->where.elsewhere &&
                                          !tenant->ops->has_ended(tenant->arg) &&
                                          now_ns - tenant->others_ns >= tenant->dead_ns / 2;) {
        const tenant_seat *seat = &tenant->seats[i];
        if (seat->is_open && seat->gang == 0 && seat->running == 0 && !is_there(tenant, i)) {
            gy_tenant_seat_close(tenant, i, "what is left to run must be on other hosts",
                                 TENANT_BACK);
            others--;
        }
    }
}
