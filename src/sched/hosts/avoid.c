/*
 * Decides whether a failure is the task's fault or the host's. A task that failed on a host
 * counts against the host once it succeeds on another, or has run there for longer than it took
 * to fail. A host with GY_BAD_TASKS such tasks is avoided, unless it is the only host, or the
 * tasks are few beside what the host completed recently: tasks that fail now and then must not
 * cost the job one host after the other. A host that holds the only places of pinned tasks is
 * never avoided, since these tasks could run nowhere else. When only an avoided host has enough
 * slots, it is used again.
 */
#include "sched/hosts/hosts.h"

static const int64_t longer_ns = 1000000000;
enum { DONE_A_FAILURE = 20 };

void gy_manager_blame(gy_manager *manager, uint32_t task, uint32_t host, int64_t took_ns)
{
    host_row *row = &manager->hosts.rows[host];
    uint32_t at = 0;
    while (at < GY_MIN(row->suspect_count, (uint32_t)GY_SUSPECTS) &&
           row->suspects[at].task != task) {
        at++;
    }
    bool is_known = at < GY_MIN(row->suspect_count, (uint32_t)GY_SUSPECTS);
    if (!is_known) {
        at = row->suspect_count++ % GY_SUSPECTS; /* the new suspect replaces the oldest */
        row->done /= 2;
    }
    bool was_well = is_known && row->suspects[at].is_well;
    row->suspects[at] = (suspect){.task = task, .is_well = was_well, .took_ns = took_ns};
}

void gy_manager_acquit(gy_manager *manager, uint32_t task, uint32_t host)
{
    for (uint32_t other = 0; other < manager->hosts.count; other++) {
        host_row *row = &manager->hosts.rows[other];
        uint32_t count = GY_MIN(row->suspect_count, (uint32_t)GY_SUSPECTS);
        for (uint32_t i = 0; i < count; i++) {
            if (row->suspects[i].task == task && (other != host || GY_PLANTED(BLAMED_HERE))) {
                row->suspects[i].is_well = true;
            }
        }
    }
}

static bool runs_elsewhere(const gy_manager *manager, const suspect *about, uint32_t host)
{
    uint32_t index = manager->rows[about->task].run;
    for (; index != GY_NONE; index = manager->runs[index].next) {
        const run_place *other = &manager->places[index];
        int64_t age_ns = manager->now_ns - other->placed_ns;
        if (manager->runs[index].is_live && other->host != host &&
            age_ns > 2 * about->took_ns + longer_ns) {
            return true;
        }
    }
    return false;
}

static bool has_other(const gy_manager *manager, uint32_t host)
{
    for (uint32_t other = 0; other < manager->hosts.count; other++) {
        if (other != host && manager->hosts.rows[other].heap.count > 0) {
            return true;
        }
    }
    return false;
}

void gy_manager_pardon(gy_manager *manager, uint32_t host)
{
    host_row *row = &manager->hosts.rows[host];
    row->is_avoided = false;
    row->suspect_count = row->done = 0;
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        const slot *at = &manager->slots[process];
        if (at->host == host && at->state == SLOT_UP && at->heap[0] == GY_NONE) {
            gy_manager_heap_put(manager, process);
        }
    }
    gy_manager_note_host(
        manager, host,
        gy_manager_text(
            manager,
            "host %s (%s) is used although tasks failed there: no other host has enough slots",
            row->name, row->address));
}

bool gy_manager_is_bad(const gy_manager *manager, uint32_t host)
{
    const host_row *row = &manager->hosts.rows[host];
    uint32_t count = GY_MIN(row->suspect_count, (uint32_t)GY_SUSPECTS), bad = 0;
    for (uint32_t i = 0; i < count && count >= GY_BAD_TASKS; i++) {
        bad += row->suspects[i].is_well || runs_elsewhere(manager, &row->suspects[i], host);
    }
    return bad >= GY_BAD_TASKS && bad * DONE_A_FAILURE >= row->done && row->state == HOST_UP &&
           !row->is_avoided && has_other(manager, host) &&
           !gy_manager_has_pinned(manager, host);
}
