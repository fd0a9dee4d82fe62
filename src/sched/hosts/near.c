/*
 * Locality in a job over hosts. A task goes near its inputs, unless the processes there are
 * loaded more than others by a bound; away from hosts where it failed; a cohort goes onto one
 * host. When the oldest task would run far from its inputs, one of the next few that would be
 * near starts first; no task waits while a process could run it. A task that starts early
 * leaves its entry in the queue, so the window also bounds how many may pass. This is delay
 * scheduling with the queue as its clock: the number of tasks that pass is bounded instead of
 * the time.
 *
 * Source: Zaharia et al., "Delay scheduling", EuroSys 2010, 3.4 (skip counts).
 */
#include "sched/hosts/hosts.h"

enum { WINDOW = 32 };
static const float strong =
    2.0f / 3; /* a task prefers a host with this share of its input bytes */

static uint32_t top_weight(const gy_manager *manager, const gy_sched_heap *heap)
{
    return heap->count > 0 ? gy_manager_weight(manager, heap->items[0]) : GY_NONE;
}

/* Has another host a process that is up? */
static bool has_other(const gy_manager *manager, uint32_t host)
{
    return manager->heap.count > manager->hosts.rows[host].heap.count;
}

/* The heap whose first process is least loaded, without two of the hosts. */
static gy_sched_heap *heap_without(gy_manager *manager, uint32_t first, uint32_t second)
{
    if (first == GY_NONE && second == GY_NONE) {
        return &manager->heap;
    }
    gy_sched_heap *best = NULL;
    for (uint32_t host = 0; host < manager->hosts.count; host++) {
        gy_sched_heap *heap = &manager->hosts.rows[host].heap;
        if (host != first && host != second && heap->count > 0 &&
            (best == NULL || top_weight(manager, heap) < top_weight(manager, best))) {
            best = heap;
        }
    }
    return best;
}

/* A heap whose first process has room for this task of one member; NULL: none has. `near` is
 * the preferred host, `taken` a host whose slots are reserved. */
static gy_sched_heap *choose(gy_manager *manager, uint32_t task, uint32_t near, uint32_t taken)
{
    const task_row *row = &manager->rows[task];
    uint32_t failed = row->host == GY_HOST_NOWHERE || GY_PLANTED(FAILS_HERE_AGAIN)
                          ? GY_NONE
                          : (uint32_t)row->host;
    if (failed != GY_NONE && !has_other(manager, failed)) {
        failed = GY_NONE;
    }
    gy_sched_heap *all = heap_without(manager, failed, taken);
    uint32_t limit = manager->options.threads * gy_manager_depth(manager, row);
    if (all == NULL) {
        return NULL;
    }
    uint32_t least = top_weight(manager, all);
    if (near != GY_NONE && near != failed && near != taken) {
        gy_sched_heap *own = &manager->hosts.rows[near].heap;
        uint32_t load = top_weight(manager, own);
        bool is_idle = load < manager->options.threads;
        if (load < limit && (is_idle || load - GY_MIN(least, load) <= limit / 4)) {
            return own;
        }
    }
    return least < limit ? all : NULL;
}

static bool is_single(const gy_manager *manager, uint32_t task)
{
    return manager->rows[task].state == TASK_READY && manager->rows[task].width == 1;
}

/* Find one of the next few tasks: near `host` if one is given, else anywhere but on `taken`. */
static uint32_t pick_near(gy_manager *manager, uint32_t host, uint32_t taken,
                          gy_sched_heap **from)
{
    uint32_t task = 0;
    for (size_t i = 1; i <= WINDOW && (task = gy_manager_queue_at(manager, i)) != GY_NONE;
         i++) {
        float share = 0;
        if (!is_single(manager, task)) {
            continue;
        }
        uint32_t near = gy_manager_near(manager, task, &share);
        if (host != GY_NONE && (near != host || share < strong)) {
            continue;
        }
        gy_sched_heap *heap = choose(manager, task, near, taken);
        if (heap != NULL && (host == GY_NONE || manager->slots[heap->items[0]].host == host)) {
            *from = heap;
            return task;
        }
    }
    return GY_NONE;
}

static uint32_t pick_single(gy_manager *manager, uint32_t head, gy_sched_heap **from)
{
    float share = 0;
    /* With memoised outputs only the oldest task was looked up. */
    bool may_pass = manager->memo_count == 0;
    uint32_t near = gy_manager_near(manager, head, &share);
    *from = choose(manager, head, near, GY_NONE);
    if (*from == NULL) { /* the task must not run where there is room */
        bool has_room = top_weight(manager, &manager->heap) < manager->options.threads;
        return may_pass && has_room ? pick_near(manager, GY_NONE, GY_NONE, from) : GY_NONE;
    }
    uint32_t host = manager->slots[(*from)->items[0]].host;
    if (host == near || near == GY_NONE || share < strong || !may_pass) {
        return head;
    }
    gy_sched_heap *other = NULL;
    uint32_t task = pick_near(manager, host, GY_NONE, &other);
    *from = task != GY_NONE ? other : *from;
    return task != GY_NONE ? task : head;
}

/* ---- Cohorts ---- */

/* The host with enough slots that has the most free processes, without the host where the
 * cohort failed if another has slots; GY_NONE: none has. */
static uint32_t cohort_host(gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    uint32_t best = GY_NONE, width = row->width;
    float share = 0;
    uint32_t near = gy_manager_near(manager, task, &share);
    for (uint32_t host = 0; host < manager->hosts.count; host++) {
        const host_row *at = &manager->hosts.rows[host];
        if (host != row->host && gy_manager_has_slots(at, width) &&
            (best == GY_NONE || at->open > manager->hosts.rows[best].open ||
             (host == near && at->open >= width))) {
            best = host;
            if (host == near && at->open >= width) {
                break;
            }
        }
    }
    bool may_stay = row->host != GY_HOST_NOWHERE &&
                    gy_manager_has_slots(&manager->hosts.rows[row->host], width);
    return best == GY_NONE && may_stay ? row->host : best;
}

uint32_t gy_manager_kept(gy_manager *manager, uint32_t head)
{
    bool is_cohort = head != GY_NONE && manager->rows[head].width > 1 &&
                     (manager->rows[head].marks & MARK_SPREAD) == 0;
    return is_cohort ? cohort_host(manager, head) : GY_NONE;
}

/* Note the reason for `gyre job show`. */
static void note_aside(gy_manager *manager, uint32_t task, uint32_t hosts)
{
    const task_row *row = &manager->rows[task];
    uint32_t most = 0, there = 0;
    for (uint32_t host = 0; host < manager->hosts.count; host++) {
        const host_row *at = &manager->hosts.rows[host];
        most = GY_MAX(most, gy_manager_has_slots(at, 1) ? at->slots : 0);
        there += gy_manager_has_slots(at, row->width / hosts);
    }
    const char *words =
        hosts > 1 ? gy_manager_text(manager,
                                    "needs %u processes on each of %u hosts, but only %u hosts "
                                    "have that many slots for this job: the job waits for more",
                                    row->width / hosts, hosts, there)
                  : gy_manager_text(manager,
                                    "needs %u processes on one host, but no host has more than "
                                    "%u slots for this job: the job waits for more",
                                    row->width, most);
    gy_manager_note_wait(manager, task, words);
}

void gy_manager_set_aside(gy_manager *manager, uint32_t task, uint32_t least)
{
    gy_hosts *hosts = &manager->hosts;
    task_row *row = &manager->rows[task];
    if (GY_GROW("manager.aside", hosts->aside.items, hosts->aside.capacity,
                hosts->aside.count + 1) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    bool is_first = hosts->aside.count == 0;
    hosts->aside_min = is_first ? least : GY_MIN(hosts->aside_min, least);
    if (is_first || row->width > hosts->aside_max) {
        hosts->aside_max = row->width;
        hosts->aside_hosts = gy_manager_spread(manager, task);
    }
    hosts->aside.items[hosts->aside.count++] = task;
    gy_manager_pop(manager);
    row->marks |= MARK_QUEUED;
    note_aside(manager, task, gy_manager_spread(manager, task));
}

void gy_manager_aside_again(gy_manager *manager)
{
    for (size_t i = 0; i < manager->hosts.aside.count; i++) {
        gy_manager_push_again(manager, manager->hosts.aside.items[i]);
    }
    manager->hosts.aside.count = 0;
}

static uint32_t pick_for_cohort(gy_manager *manager, uint32_t head, gy_sched_heap **from,
                                bool *again)
{
    uint32_t host = cohort_host(manager, head);
    if (host == GY_NONE) {
        gy_manager_set_aside(manager, head, manager->rows[head].width);
        *again = manager->status >= 0;
        return GY_NONE;
    }
    *from = GY_PLANTED(COHORT_SPLIT) && manager->open_count >= manager->rows[head].width
                ? &manager->heap
                : &manager->hosts.rows[host].heap;
    if (*from == &manager->heap ||
        manager->hosts.rows[host].open >= manager->rows[head].width) {
        return head;
    }
    /* Processes that become free on that host are reserved for the cohort; other hosts go on.
     */
    bool may_pass = manager->memo_count == 0 && has_other(manager, host);
    return may_pass ? pick_near(manager, GY_NONE, host, from) : GY_NONE;
}

uint32_t gy_manager_pick(gy_manager *manager, uint32_t head, gy_sched_heap **from, bool *again)
{
    *again = false;
    if ((manager->rows[head].marks & MARK_SPREAD) != 0) {
        return gy_manager_pick_spread(manager, head, from, again);
    }
    return manager->rows[head].width > 1 ? pick_for_cohort(manager, head, from, again)
                                         : pick_single(manager, head, from);
}
