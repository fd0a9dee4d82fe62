/* On which hosts slots are requested: near the tasks' inputs, and on the required hosts of
 * pinned tasks. */
#include "driver/lease/lease_client.h"

#include <assert.h>
#include <string.h>

static_assert((int)GY_WANTED_HOSTS == (int)GY_CONTROL_HOSTS_MAX,
              "all resource requests are listed");
enum { MISSED_TIMES = 5 }; /* times dead_ns; as long as for a silent daemon */

void gy_lease_client_where_request(gy_lease_client *client, gy_manager_requests *requests)
{
    gy_wanted_where *where = &client->where;
    gy_manager_wanted_where(client->manager, where);
    for (uint32_t i = 0; i < where->count; i++) {
        requests->hosts[i] = where->hosts[i];
    }
    requests->must = where->must;
    requests->is_limited = where->is_limited;
    requests->elsewhere = where->elsewhere;
}

void gy_lease_client_where_handle(gy_lease_client *client, uint64_t sequence, uint32_t missing)
{
    const char *gone[GY_WANTED_HOSTS];
    uint32_t count = 0;
    if (sequence != client->sequence) {
        return; /* it concerns earlier requests */
    }
    for (uint32_t i = 0; i < client->where.must; i++) {
        if ((missing & 1u << i) != 0) {
            gone[count++] = client->where.hosts[i];
        }
    }
    const uint32_t task =
        count > 0 ? gy_manager_stranded(client->manager, gone, count) : (uint32_t)GY_NONE;
    const int64_t now_ns = gy_now_ns(client->env);
    if (task == GY_NONE) {
        client->missed_ns = 0;
    } else if (client->missed_ns == 0) {
        client->missed_ns = now_ns;
    } else if (now_ns - client->missed_ns >= MISSED_TIMES * client->dead_ns) {
        gy_sched_task_state state;
        gy_manager_task(client->manager, task, &state);
        client->ops->fail(
            client->arg,
            gy_fail(GY_NOTFOUND,
                    "a task of stage '%s' reads a file on the disk of host %s: for %.0f s no "
                    "daemon there could run this job",
                    gy_manager_stage_name(client->manager, state.stage), gone[0],
                    (double)(now_ns - client->missed_ns) / 1e9));
    }
}

/* Is the slot on a host whose slots others cannot replace? */
static bool is_there(const gy_lease_client *client, uint32_t slot)
{
    const char *name = client->hosts[client->executors[slot].host].name;
    bool is_there = false;
    for (uint32_t i = 0; i < client->where.must && !is_there; i++) {
        is_there = strcmp(client->where.hosts[i], name) == 0;
    }
    return is_there;
}

void gy_lease_client_where_release(gy_lease_client *client, int64_t now_ns)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < client->slot_count && client->where.is_limited; i++) {
        const lease_executor *executor = &client->executors[i];
        others += executor->lease != 0 && executor->gang == 0 && !is_there(client, i);
    }
    if (!client->where.is_limited || others <= client->where.elsewhere) {
        client->others_ns = now_ns;
        return;
    }
    for (uint32_t i = client->slot_count; i-- > 0 && others > client->where.elsewhere &&
                                          !client->ops->has_ended(client->arg) &&
                                          now_ns - client->others_ns >= client->dead_ns / 2;) {
        const lease_executor *executor = &client->executors[i];
        if (executor->is_open && executor->gang == 0 && executor->running == 0 &&
            !is_there(client, i)) {
            gy_lease_client_executor_close(
                client, i, "the remaining tasks must run on other hosts", LEASE_CLIENT_BACK);
            others--;
        }
    }
}
