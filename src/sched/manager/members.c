/* Hosts and slots that come and go. A host number belongs to one daemon and incarnation for
 * ever, so what a commit records about it stays true. */
#include "sched/manager/manager_priv.h"

#include <string.h>

/* ---- Leases ---- */

/* Remember the longest lease that the cluster has given. */
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

/* The state of all hosts in the journal is known: processes of an older manager can live only
 * on lost ones. */
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

/* ---- Hosts ---- */

static void misuse(gy_manager *manager, const gy_sched_event *event, const char *what)
{
    gy_manager_end(manager, GY_ARG,
                   gy_manager_text(manager, "host %u of at most %u: %s", event->host,
                                   manager->options.host_max, what));
}

/* Is this the id that the number already has, or a new id that no other number has? */
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

/* Copy the address and name; false: one is too long. *is_new: one has changed. */
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

/* Adjust the readers after a change of whether outputs on the host can be read. */
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
        misuse(manager, event, "all host numbers are in use");
        return;
    }
    host_row *row = gy_manager_host_row(manager, event->host);
    bool is_new = false;
    if (row == NULL) {
        return;
    }
    if (!is_own_id(manager, event, row)) {
        misuse(manager, event, "the number or the daemon belongs to another host");
        return;
    }
    if (!take_texts(row, event, &is_new)) {
        misuse(manager, event, "the address or name of the daemon is too long");
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
        /* A later manager must not assume that the host had no processes. */
        gy_manager_sync(manager);
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
                        event->reason != NULL ? event->reason : "it is lost");
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
        effect->reason = "tasks failed there and succeeded elsewhere";
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
    gy_manager_slot_take(
        manager, event->process,
        gy_manager_text(manager, "lost with the lease of slot %u: %s", event->process,
                        event->reason != NULL ? event->reason : "it has expired"));
}

/* ---- Avoided hosts ---- */

static void avoid(gy_manager *manager, uint32_t host)
{
    host_row *row = &manager->hosts.rows[host];
    row->is_avoided = true;
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        if (manager->slots[process].host == host) {
            /* Tasks that already run there may finish. */
            gy_manager_heap_remove(manager, process);
        }
        if (manager->slots[process].host == host &&
            manager->slots[process].state == SLOT_EMPTY) {
            gy_manager_slot_take(manager, process, "its host is avoided");
        }
    }
    gy_effect *effect = gy_manager_emit(manager, GY_EFFECT_AVOID);
    effect->host = host;
    effect->reason = gy_manager_text(
        manager, "%u tasks failed on host %s (%s) and succeeded elsewhere: the host is avoided",
        GY_BAD_TASKS, row->name, row->address);
    gy_manager_note_host(manager, host, effect->reason);
}

void gy_manager_check_hosts(gy_manager *manager)
{
    for (uint32_t host = 0; host < manager->hosts.count; host++) {
        if (gy_manager_is_bad(manager, host)) {
            avoid(manager, host);
        }
    }
}
