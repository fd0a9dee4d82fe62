/*
 * Pinned tasks run only on their places, such as readers of a file on one host's local disk.
 * Each stands in a list for every name of its places, outside the normal queues, so that no
 * task waits behind a task whose host is busy, and no slot of that host waits for tasks of
 * others.
 *
 * A task that starts from another list, or is no longer ready, leaves its entry behind; entries
 * of such tasks are skipped. Removing an entry clears the task's mark, so a task may stand in a
 * list twice but is never missing from all.
 */
#include "sched/hosts/hosts.h"

#include <string.h>

/* Entries of a list to inspect: the first ones may have failed on this host. */
enum { WINDOW = 32 };

bool gy_manager_is_place(const gy_manager *manager, uint32_t task, uint32_t host)
{
    const uint32_t *place = gy_manager_places_of(manager, task);
    const uint32_t name = gy_manager_name_of(manager, host);
    while (place != NULL && *place != GY_NONE && *place != name) {
        place++;
    }
    return place != NULL && *place != GY_NONE;
}

bool gy_manager_may_be_at(const gy_manager *manager, uint32_t task, uint32_t host)
{
    return (manager->rows[task].flags & GY_TASK_PINNED) == 0 || GY_PLANTED(PINNED_ANYWHERE) ||
           gy_manager_is_place(manager, task, host);
}

void gy_manager_placed(const gy_manager *manager, uint32_t *near, uint32_t *far)
{
    *near = manager->hosts.near;
    *far = manager->hosts.far;
}

/* Has another of its hosts a process that is up? */
static bool has_other_place(const gy_manager *manager, uint32_t task, uint32_t host)
{
    const gy_hosts *hosts = &manager->hosts;
    for (const uint32_t *place = gy_manager_places_of(manager, task); *place != GY_NONE;
         place++) {
        for (uint32_t other = hosts->name_rows[*place].first; other != GY_NONE;
             other = hosts->rows[other].name_next) {
            if (other != host && hosts->rows[other].heap.count > 0) {
                return true;
            }
        }
    }
    return false;
}

/* Remove stale entries at the head of the list. */
static void trim(gy_manager *manager, gy_host_name *name)
{
    gy_tasks *list = &name->pinned;
    while (name->pinned_head < list->count &&
           manager->rows[list->items[name->pinned_head]].state != TASK_READY) {
        manager->rows[list->items[name->pinned_head++]].marks &= (uint8_t)~MARK_QUEUED;
        manager->hosts.pinned_entries--;
    }
    if (name->pinned_head > list->count / 2) {
        list->count -= name->pinned_head;
        memmove(list->items, list->items + name->pinned_head, list->count * sizeof(uint32_t));
        name->pinned_head = 0;
    }
}

/* The oldest task of the list that may start at the host's first process. */
static uint32_t oldest_for(gy_manager *manager, const gy_host_name *name, uint32_t host)
{
    const gy_sched_heap *heap = &manager->hosts.rows[host].heap;
    const size_t end = GY_MIN(name->pinned.count, name->pinned_head + WINDOW);
    const uint32_t load =
        heap->count > 0 ? gy_manager_weight(manager, heap->items[0]) : GY_NONE;
    for (size_t i = name->pinned_head; i < end && load != GY_NONE; i++) {
        const uint32_t task = name->pinned.items[i];
        const task_row *row = &manager->rows[task];
        if (row->state == TASK_READY &&
            load < manager->options.threads * gy_manager_depth(manager, row) &&
            (row->host != host || !has_other_place(manager, task, host))) {
            return task;
        }
    }
    return GY_NONE;
}

uint32_t gy_manager_pinned_next(gy_manager *manager, uint32_t kept, gy_sched_heap **from)
{
    gy_hosts *hosts = &manager->hosts;
    for (size_t i = 0; i < hosts->name_count && hosts->pinned_entries > 0; i++) {
        gy_host_name *name = &hosts->name_rows[i];
        if (name->pinned.count == 0) {
            continue;
        }
        trim(manager, name);
        for (uint32_t host = name->first; host != GY_NONE; host = hosts->rows[host].name_next) {
            const uint32_t task =
                host != kept ? oldest_for(manager, name, host) : (uint32_t)GY_NONE;
            if (task != GY_NONE) {
                *from = &hosts->rows[host].heap;
                manager->rows[task].marks &= (uint8_t)~MARK_QUEUED;
                return task;
            }
        }
    }
    return GY_NONE;
}

bool gy_manager_is_pinned_at(const gy_manager *manager, uint32_t host)
{
    const gy_hosts *hosts = &manager->hosts;
    const uint32_t name =
        hosts->pinned_ready > 0 ? gy_manager_name_of(manager, host) : (uint32_t)GY_NONE;
    return name != GY_NONE &&
           hosts->name_rows[name].pinned.count > hosts->name_rows[name].pinned_head;
}

bool gy_manager_has_pinned(const gy_manager *manager, uint32_t host)
{
    const uint32_t name = gy_manager_name_of(manager, host);
    return name != GY_NONE && manager->hosts.name_rows[name].has_pinned;
}

/* ---- Requests for slots ---- */

/* Count the names of places of the oldest queued tasks, one name for each task. */
static void weigh_places(gy_manager *manager)
{
    enum { LOOK = 64 };
    uint32_t task = 0;
    for (size_t i = 0; i < LOOK && (task = gy_manager_queue_at(manager, i)) != GY_NONE; i++) {
        const uint32_t *place = gy_manager_places_of(manager, task);
        for (; place != NULL && manager->rows[task].state == TASK_READY && *place != GY_NONE;
             place++) {
            manager->hosts.name_rows[*place].weight++;
        }
    }
}

/* Count the hosts where backup tasks may run. */
static void weigh_backups(gy_manager *manager)
{
    const gy_hosts *hosts = &manager->hosts;
    const uint32_t unwanted = gy_manager_unwanted(manager);
    for (uint32_t host = 0; host < hosts->count && unwanted != GY_NONE; host++) {
        const uint32_t name = gy_manager_name_of(manager, host);
        if (gy_manager_has_slots(&hosts->rows[host], 0) && name != GY_NONE &&
            name != gy_manager_name_of(manager, unwanted)) {
            hosts->name_rows[name].weight = 1;
        }
    }
}

/* Count the names with pinned tasks; names where the job has no slot come first. */
static void weigh_pinned(gy_manager *manager)
{
    const uint32_t without = 1u << 30, pinned = 1u << 29;
    for (size_t i = 0; i < manager->hosts.name_count; i++) {
        gy_host_name *name = &manager->hosts.name_rows[i];
        trim(manager, name);
        const size_t waiting = name->pinned.count - name->pinned_head;
        uint32_t slots = 0;
        for (uint32_t host = name->first; host != GY_NONE;
             host = manager->hosts.rows[host].name_next) {
            slots += manager->hosts.rows[host].slots;
        }
        if (waiting > 0) {
            name->weight =
                (slots == 0 ? without : pinned) + (uint32_t)GY_MIN(waiting, (size_t)pinned - 1);
        }
    }
}

/* Write the names with the highest weights into `where`, in descending order. */
static void pick_names(gy_manager *manager, gy_wanted_where *where)
{
    uint32_t picked[GY_WANTED_HOSTS] = {0};
    for (uint32_t i = 0; i < manager->hosts.name_count; i++) {
        const uint32_t weight = manager->hosts.name_rows[i].weight;
        uint32_t at = GY_MIN(where->count, (uint32_t)GY_WANTED_HOSTS - 1);
        const bool is_in = where->count < GY_WANTED_HOSTS ||
                           weight > manager->hosts.name_rows[picked[at]].weight;
        if (weight == 0 || !is_in) {
            continue;
        }
        for (; at > 0 && manager->hosts.name_rows[picked[at - 1]].weight < weight; at--) {
            picked[at] = picked[at - 1];
        }
        picked[at] = i;
        where->count = GY_MIN(where->count + 1, (uint32_t)GY_WANTED_HOSTS);
    }
    for (uint32_t i = 0; i < where->count; i++) {
        where->hosts[i] = manager->hosts.name_rows[picked[i]].text;
        where->must += manager->hosts.name_rows[picked[i]].weight >= 1u << 29;
    }
}

/* Slots in use by tasks on hosts for which pinned tasks wait. */
static uint32_t load_there(const gy_manager *manager, const gy_wanted_where *where)
{
    uint32_t load = 0;
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        const slot *at = &manager->slots[process];
        bool is_there = false;
        for (uint32_t i = 0; i < where->must && at->load > 0 && at->host != GY_NONE; i++) {
            is_there =
                is_there || strcmp(manager->hosts.rows[at->host].name, where->hosts[i]) == 0;
        }
        load += is_there ? at->load : 0;
    }
    return load;
}

void gy_manager_wanted_where(gy_manager *manager, gy_wanted_where *where)
{
    gy_hosts *hosts = &manager->hosts;
    *where = (gy_wanted_where){.is_limited = hosts->pinned_ready > 0};
    if (hosts->name_count == 0) {
        return;
    }
    weigh_backups(manager);
    weigh_places(manager);
    weigh_pinned(manager);
    pick_names(manager, where);
    for (size_t i = 0; i < hosts->name_count; i++) {
        hosts->name_rows[i].weight = 0;
    }
    if (where->is_limited) {
        const uint32_t others = manager->ready_width - hosts->pinned_ready +
                                manager->backups_due + manager->in_flight -
                                load_there(manager, where);
        where->elsewhere = (others + manager->options.threads - 1) / manager->options.threads;
    }
}

static bool is_stranded(const gy_manager *manager, uint32_t task, const char *const *hosts,
                        uint32_t count)
{
    const gy_hosts *all = &manager->hosts;
    for (const uint32_t *place = gy_manager_places_of(manager, task); *place != GY_NONE;
         place++) {
        const gy_host_name *name = &all->name_rows[*place];
        uint32_t at = 0;
        while (at < count && strcmp(hosts[at], name->text) != 0) {
            at++;
        }
        for (uint32_t host = name->first; host != GY_NONE && at < count;
             host = all->rows[host].name_next) {
            at = all->rows[host].slots > 0 ? count : at;
        }
        if (at == count) {
            return false;
        }
    }
    return true;
}

uint32_t gy_manager_stranded(const gy_manager *manager, const char *const *hosts,
                             uint32_t count)
{
    for (size_t i = 0; i < manager->hosts.name_count; i++) {
        const gy_host_name *name = &manager->hosts.name_rows[i];
        for (size_t k = name->pinned_head; k < name->pinned.count; k++) {
            const uint32_t task = name->pinned.items[k];
            if (manager->rows[task].state == TASK_READY &&
                is_stranded(manager, task, hosts, count)) {
                return task;
            }
        }
    }
    return GY_NONE;
}
