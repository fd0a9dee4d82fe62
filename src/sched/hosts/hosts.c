/*
 * Hosts that come and go, and the slots that a job has on them. A host is its number; the
 * number is of one daemon and incarnation for ever, so what a commit says of it stays true.
 */
#include "sched/manager/manager_priv.h"

#include <string.h>

host_row *gy_manager_host_row(gy_manager *manager, uint32_t host)
{
    gy_hosts *hosts = &manager->hosts;
    if (GY_GROW("manager.hosts", hosts->rows, hosts->capacity, (size_t)host + 1) < 0) {
        manager->status = GY_NOMEM;
        return NULL;
    }
    for (; hosts->count <= host; hosts->count++) {
        hosts->rows[hosts->count] = (host_row){.name_next = GY_NONE};
    }
    return &hosts->rows[host];
}

void gy_manager_hosts_free(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    for (size_t i = 0; i < hosts->count; i++) {
        gy_free(hosts->rows[i].heap.items);
        gy_free(hosts->rows[i].held);
    }
    for (size_t i = 0; i < hosts->name_count; i++) {
        gy_free(hosts->name_rows[i].pinned.items);
    }
    gy_index_free(&hosts->names);
    gy_arena_free(&hosts->texts);
    void *const all[] = {hosts->rows,        hosts->waits,          hosts->gone.items,
                         hosts->aside.items, hosts->place_of.items, hosts->place_items.items,
                         hosts->name_rows,   hosts->spreads,        hosts->chosen.items};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_free(all[i]);
    }
}

/* ---- Exact tasks ---- */

/* It does not start before: a run of it may go on where nobody can look. */
void gy_manager_exact_wait(gy_manager *manager, uint32_t task, int64_t until_ns)
{
    gy_hosts *hosts = &manager->hosts;
    if (GY_GROW("manager.waits", hosts->waits, hosts->wait_capacity, hosts->wait_count + 1) <
        0) {
        manager->status = GY_NOMEM;
        return;
    }
    hosts->waits[hosts->wait_count++] = (exact_wait){task, until_ns};
    manager->rows[task].missing++;
    if (manager->rows[task].state == TASK_READY) {
        gy_manager_set_state(manager, task, TASK_WAITING);
    }
}

void gy_manager_exact_lost(gy_manager *manager, uint32_t task)
{
    if ((manager->rows[task].flags & GY_TASK_EXACT) != 0 &&
        manager->hosts.older_ns > manager->now_ns) {
        gy_manager_exact_wait(manager, task, manager->hosts.older_ns);
    }
}

void gy_manager_exact_release(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    int64_t next_ns = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < hosts->wait_count; i++) {
        const exact_wait wait = hosts->waits[i];
        if (wait.until_ns > manager->now_ns) {
            hosts->waits[kept++] = wait;
            next_ns = GY_MIN(next_ns, wait.until_ns);
            continue;
        }
        manager->rows[wait.task].missing--;
        if (manager->rows[wait.task].state == TASK_WAITING) {
            gy_manager_requeue(manager, wait.task, true);
        }
    }
    hosts->wait_count = kept;
    if (next_ns < INT64_MAX) {
        gy_manager_wake(manager, next_ns);
    }
}

int64_t gy_manager_lease(const gy_manager *manager)
{
    return manager->lease_ns > 0 ? manager->lease_ns : manager->options.lease_ns;
}

/* Leases are as long as the cluster lends them. */
static void take_lease(gy_manager *manager, int64_t lease_ns)
{
    gy_hosts *hosts = &manager->hosts;
    const int64_t before_ns = gy_manager_lease(manager);
    manager->lease_ns = GY_MAX(manager->lease_ns, lease_ns);
    const int64_t more_ns = gy_manager_lease(manager) - before_ns;
    if (hosts->older_ns > manager->now_ns && hosts->older_ns < INT64_MAX) {
        hosts->older_ns += more_ns;
    }
    for (size_t i = 0; i < hosts->wait_count && more_ns != 0; i++) {
        exact_wait *wait = &hosts->waits[i];
        wait->until_ns += wait->until_ns == INT64_MAX ? 0 : more_ns;
    }
}

/* All hosts of the journal are told: processes of an older manager live on lost ones alone. */
static void end_expectation(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    int64_t until_ns =
        manager->now_ns + (hosts->has_lost_expected ? gy_manager_lease(manager) : 0);
    for (size_t i = 0; i < hosts->wait_count; i++) {
        hosts->waits[i].until_ns =
            hosts->waits[i].until_ns == INT64_MAX ? until_ns : hosts->waits[i].until_ns;
    }
    hosts->older_ns = until_ns;
}

void gy_manager_hosts_begin(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    for (size_t i = 0; i < hosts->count; i++) {
        hosts->rows[i].held_count = 0;
    }
    if (hosts->count == 0 && !manager->is_blind) {
        return;
    }
    const bool has_older = hosts->expected > 0 && !GY_PLANTED(EXACT_RESUMED);
    hosts->older_ns = has_older ? INT64_MAX : 0;
    for (uint32_t task = 0; task < manager->task_count; task++) {
        const task_row *row = &manager->rows[task];
        if (row->state == TASK_COMMITTED && row->host != GY_HOST_NOWHERE) {
            gy_manager_hold(manager, task);
        } else if (row->state != TASK_COMMITTED && (row->flags & GY_TASK_EXACT) != 0 &&
                   has_older) {
            gy_manager_exact_wait(manager, task, INT64_MAX);
        } else if (manager->is_blind && (row->flags & GY_TASK_EXACT) != 0) {
            gy_manager_exact_wait(manager, task, manager->now_ns + gy_manager_lease(manager));
        }
    }
}

/* ---- Hosts ---- */

static void misuse(gy_manager *manager, const gy_sched_event *event, const char *what)
{
    gy_manager_end(manager, GY_ARG,
                   gy_manager_text(manager, "host %u of at most %u: %s", event->host,
                                   manager->options.host_max, what));
}

/* Is this the id that the number had, or has the new number an id that no other has? */
static bool is_own_id(gy_manager *manager, const gy_sched_event *event, const host_row *row)
{
    if (row->state != HOST_UNKNOWN) {
        return memcmp(&row->id, &event->host_id, sizeof(gy_key)) == 0;
    }
    for (size_t i = 0; i < manager->hosts.count; i++) {
        const host_row *other = &manager->hosts.rows[i];
        if (other->state != HOST_UNKNOWN &&
            memcmp(&other->id, &event->host_id, sizeof(gy_key)) == 0) {
            return false;
        }
    }
    return true;
}

/* false: a text is too long. *is_new: it is another than before. */
static bool take_texts(host_row *row, const gy_sched_event *event, bool *is_new)
{
    char address[GY_HOST_TEXT], name[GY_HOST_TEXT];
    if (!gy_step_take_text(address, sizeof(address), event->address) ||
        !gy_step_take_text(name, sizeof(name),
                           event->name != NULL ? event->name : event->address)) {
        return false;
    }
    char *colon = event->name == NULL ? strrchr(name, ':') : NULL;
    if (colon != NULL) {
        *colon = '\0';
    }
    *is_new = strcmp(row->address, address) != 0 || strcmp(row->name, name) != 0;
    memcpy(row->address, address, sizeof(address));
    memcpy(row->name, name, sizeof(name));
    return true;
}

/* Whether readers find what lies there has changed. */
static void count_readers(gy_manager *manager, uint32_t host, bool may_start)
{
    const host_row *row = &manager->hosts.rows[host];
    for (size_t i = 0; i < row->held_count; i++) {
        uint32_t edge = manager->rows[row->held[i].task].first_reader;
        for (; edge != GY_NONE && gy_manager_holds(manager, host, &row->held[i]);
             edge = manager->links[edge].next) {
            uint32_t reader = manager->links[edge].reader & ~(uint32_t)GY_STALE;
            task_row *fed = &manager->rows[reader];
            GY_ASSERT(fed->missing > 0);
            if (--fed->missing == 0 && may_start && fed->state == TASK_WAITING) {
                gy_manager_requeue(manager, reader, fed->attempt != 0);
            }
        }
    }
}

void gy_manager_host_up(gy_manager *manager, const gy_sched_event *event)
{
    if (manager->options.host_max == 0) {
        return;
    }
    if (event->host >= manager->options.host_max) {
        misuse(manager, event, "there are no more numbers");
        return;
    }
    host_row *row = gy_manager_host_row(manager, event->host);
    bool is_new = false;
    if (row == NULL) {
        return;
    }
    if (!is_own_id(manager, event, row)) {
        misuse(manager, event, "another daemon than the number or the daemon had");
        return;
    }
    if (!take_texts(row, event, &is_new)) {
        misuse(manager, event, "its address or its name is too long");
        return;
    }
    host_state before = row->state;
    row->state = HOST_UP;
    row->id = event->host_id;
    if (is_new || before == HOST_UNKNOWN) {
        gy_manager_take_name(manager, event->host);
        gy_manager_write_host(manager, event->host);
        row->position = manager->position;
    }
    if (row->position > manager->synced && manager->has_exact) {
        gy_manager_sync(manager); /* no successor shall take it for one without processes */
    }
    manager->hosts.lost -= before == HOST_LOST;
    if (before == HOST_EXPECTED) {
        manager->hosts.expected--;
        count_readers(manager, event->host, true);
        if (manager->hosts.expected == 0) {
            end_expectation(manager);
        }
    }
}

void gy_manager_host_lost(gy_manager *manager, const gy_sched_event *event)
{
    if (event->host >= manager->hosts.count) {
        return;
    }
    host_row *row = &manager->hosts.rows[event->host];
    host_state before = row->state;
    if (before != HOST_UP && before != HOST_EXPECTED) {
        return;
    }
    const char *reason =
        gy_manager_text(manager, "lost with host %s (%s): %s", row->name, row->address,
                        event->reason != NULL ? event->reason : "it is gone");
    gy_manager_note_host(manager, event->host, reason);
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        if (manager->slots[process].host == event->host) {
            gy_manager_slot_take(manager, process, reason);
        }
    }
    row->state = HOST_LOST;
    manager->hosts.lost++;
    if (before == HOST_EXPECTED) {
        manager->hosts.expected--;
        manager->hosts.has_lost_expected = true;
        count_readers(manager, event->host, false);
        if (manager->hosts.expected == 0) {
            end_expectation(manager);
        }
    }
    gy_manager_lose_host(manager, event->host, reason);
}

/* ---- Slots ---- */

void gy_manager_slot_open(gy_manager *manager, const gy_sched_event *event)
{
    bool is_known = event->process < manager->options.process_max &&
                    event->host < manager->hosts.count &&
                    manager->hosts.rows[event->host].state == HOST_UP;
    if (!is_known) {
        if (manager->options.host_max > 0) {
            gy_manager_note_host(manager, GY_NONE,
                                 gy_manager_text(manager,
                                                 "slot %u is not opened: host %u is not up",
                                                 event->process, event->host));
        }
        return;
    }
    host_row *row = &manager->hosts.rows[event->host];
    if (row->is_avoided && event->is_last) {
        gy_manager_pardon(manager, event->host);
    }
    if (row->is_avoided) {
        gy_effect *effect = gy_manager_emit(manager, GY_EFFECT_AVOID);
        effect->host = event->host;
        effect->reason = "tasks failed there and did well elsewhere";
        return;
    }
    if (manager->slots[event->process].state != SLOT_CLOSED) {
        if (manager->slots[event->process].host == event->host) {
            return;
        }
        gy_manager_slot_take(manager, event->process, "its slot is opened on another host");
    }
    take_lease(manager, event->lease_ns);
    gy_manager_slot_give(manager, event->process, event->host);
    const gy_hosts *hosts = &manager->hosts;
    if (hosts->aside.count > 0 && row->slots >= hosts->aside_min) {
        gy_manager_aside_again(manager);
    }
}

void gy_manager_slot_close(gy_manager *manager, const gy_sched_event *event)
{
    if (manager->options.host_max == 0 || event->process >= manager->options.process_max) {
        return;
    }
    gy_manager_slot_take(manager, event->process,
                         gy_manager_text(manager, "lost with the lease of slot %u: %s",
                                         event->process,
                                         event->reason != NULL ? event->reason : "it is over"));
}
