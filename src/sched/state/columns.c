/* Tasks and edges in columns. A growth is checked whole before any of it is added: sizes,
 * dangling edges, cycles (Kahn's algorithm, only if an edge points forward). */
#include "sched/state/state.h"

#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

/* ---- Checks ---- */

static gy_status check_task(const gy_manager *manager, const gy_sched_task *task,
                            const char *places, size_t at)
{
    if (task->stage >= manager->options.stage_count) {
        return gy_fail(GY_ARG, "task %zu is of stage %u of %u", at, task->stage,
                       manager->options.stage_count);
    }
    const char *stage = manager->stages[task->stage].name;
    if (task->width < 1 || task->width > manager->options.process_max) {
        return gy_fail(GY_ARG,
                       "task %zu of stage '%s' needs %u processes at once, %u are there", at,
                       stage, task->width, manager->options.process_max);
    }
    if (task->hosts > 1 && (task->width % task->hosts != 0 || manager->options.host_max == 0 ||
                            (task->flags & GY_TASK_EXACT) == 0)) {
        return gy_fail(GY_ARG,
                       "task %zu of stage '%s' has %u members on %u hosts: expected the same "
                       "number on each, no backup tasks, and a job over hosts",
                       at, stage, task->width, task->hosts);
    }
    const int known = GY_TASK_FINAL | GY_TASK_NO_MEMO | GY_TASK_EXACT | GY_TASK_PINNED;
    if (task->determinism > GY_OUTPUT_INDETERMINATE || (task->flags & ~known) != 0) {
        return gy_fail(GY_ARG, "task %zu of stage '%s' has determinism %u and flags %#x", at,
                       stage, task->determinism, task->flags);
    }
    const bool is_pinned = (task->flags & GY_TASK_PINNED) != 0;
    if (is_pinned && (task->width > 1 || places == NULL ||
                      places[strspn(places, " ")] == '\0' || manager->options.host_max == 0)) {
        return gy_fail(GY_ARG, "task %zu of stage '%s' is pinned to '%s', with %u members", at,
                       stage, places != NULL ? places : "nothing", task->width);
    }
    return GY_OK;
}

static uint32_t outputs_of(const gy_manager *manager, const gy_growth *growth, uint32_t task)
{
    return task < manager->task_count ? manager->rows[task].output_count
                                      : growth->tasks[task - manager->task_count].output_count;
}

static gy_status check_edge(const gy_manager *manager, const gy_growth *growth, uint32_t task,
                            const gy_edge *edge)
{
    uint32_t total = manager->task_count + growth->task_count;
    if (edge->from >= total || edge->from == manager->task_count + task) {
        return gy_fail(GY_ARG, "task %u reads task %u of %u", manager->task_count + task,
                       edge->from, total);
    }
    uint32_t outputs = outputs_of(manager, growth, edge->from);
    if (edge->output >= outputs) {
        return gy_fail(GY_ARG, "task %u reads output %u of task %u, which has %u",
                       manager->task_count + task, edge->output, edge->from, outputs);
    }
    return GY_OK;
}

/* Check for cycles: repeatedly take the tasks whose inputs are all taken until none is left. */
static gy_status check_cycles(const gy_manager *manager, const gy_growth *growth)
{
    uint32_t count = growth->task_count, taken = 0, head = 0, base = manager->task_count;
    uint32_t *missing = gy_alloc_zero("manager.check", (size_t)count * 3, sizeof(*missing));
    uint32_t *next = gy_alloc("manager.check", (growth->edge_count + 1) * 2 * sizeof(*next));
    if (missing == NULL || next == NULL) {
        gy_free(missing);
        gy_free(next);
        return GY_NOMEM;
    }
    uint32_t *first = missing + count, *order = first + count,
             *reader = next + growth->edge_count;
    memset(first, 0xff, count * sizeof(*first));
    for (uint32_t task = 0, edge = 0; task < count; task++) {
        for (uint32_t i = 0; i < growth->tasks[task].input_count; i++, edge++) {
            reader[edge] = task;
            if (growth->edges[edge].from >= base) {
                uint32_t from = growth->edges[edge].from - base;
                missing[task]++;
                next[edge] = first[from];
                first[from] = edge;
            }
        }
        if (missing[task] == 0) {
            order[taken++] = task;
        }
    }
    while (head < taken) {
        for (uint32_t edge = first[order[head++]]; edge != GY_NONE; edge = next[edge]) {
            if (--missing[reader[edge]] == 0) {
                order[taken++] = reader[edge];
            }
        }
    }
    uint32_t stuck = 0;
    while (stuck < count && missing[stuck] == 0) {
        stuck++;
    }
    gy_free(missing);
    gy_free(next);
    return taken == count ? GY_OK
                          : gy_fail(GY_ARG, "a cycle: task %u waits for itself, over others",
                                    base + stuck);
}

static gy_status check(const gy_manager *manager, const gy_growth *growth)
{
    size_t edge = 0;
    bool is_forward = false;
    if (growth->task_count > (uint32_t)GY_TASKS_MAX - manager->task_count ||
        growth->edge_count > (size_t)GY_STALE - manager->edge_count) {
        return gy_fail(GY_LIMIT, "%u tasks and %zu edges more than %u and %u",
                       growth->task_count, growth->edge_count, manager->task_count,
                       manager->edge_count);
    }
    for (uint32_t task = 0; task < growth->task_count; task++) {
        const gy_sched_task *added = &growth->tasks[task];
        GY_TRY(check_task(manager, added, growth->places != NULL ? growth->places[task] : NULL,
                          (size_t)manager->task_count + task));
        if (added->input_count > growth->edge_count - edge) {
            return gy_fail(GY_ARG, "task %u has %u inputs, %zu edges are left",
                           manager->task_count + task, added->input_count,
                           growth->edge_count - edge);
        }
        for (uint32_t i = 0; i < added->input_count; i++, edge++) {
            GY_TRY(check_edge(manager, growth, task, &growth->edges[edge]));
            is_forward |= growth->edges[edge].from > manager->task_count + task;
        }
    }
    if (edge != growth->edge_count) {
        return gy_fail(GY_ARG, "%zu edges belong to no task", growth->edge_count - edge);
    }
    return is_forward ? check_cycles(manager, growth) : GY_OK;
}

/* ---- Taking ---- */

static gy_status reserve(gy_manager *manager, const gy_growth *growth)
{
    size_t tasks = (size_t)manager->task_count + growth->task_count;
    size_t edges = manager->edge_count + growth->edge_count, inputs = 0;
    for (uint32_t task = 0; task < growth->task_count; task++) {
        inputs = GY_MAX(inputs, (size_t)growth->tasks[task].input_count);
    }
    void *scratch = manager->scratch;
    gy_status status = GY_GROW("manager.rows", manager->rows, manager->row_capacity, tasks + 1);
    if (status >= 0) {
        status = GY_GROW("manager.keys", manager->keys, manager->key_capacity, tasks);
    }
    if (status >= 0) {
        status = GY_GROW("manager.edges", manager->edges, manager->edge_capacity, edges);
    }
    if (status >= 0) {
        status = GY_GROW("manager.links", manager->links, manager->link_capacity, edges);
    }
    if (status >= 0) {
        status = gy_reserve("manager.scratch", &scratch, &manager->scratch_capacity,
                            sizeof(gy_key) + inputs * (sizeof(gy_key) + sizeof(uint32_t)), 1);
        manager->scratch = scratch;
    }
    return status;
}

static void take_task(gy_manager *manager, const gy_sched_task *added, uint32_t task)
{
    task_row *row = &manager->rows[task];
    uint32_t first_edge = row->first_edge;
    *row = (task_row){.first_edge = first_edge,
                      .first_reader = GY_NONE,
                      .run = GY_NONE,
                      .output_count = added->output_count,
                      .input_bytes = (float)added->input_bytes,
                      .host = GY_HOST_NOWHERE,
                      .stage = (uint16_t)added->stage,
                      .width = added->width,
                      .state = TASK_WAITING,
                      .flags = added->flags,
                      .determinism = added->determinism,
                      .marks = added->hosts > 1 ? MARK_SPREAD : 0};
    row[1].first_edge = first_edge + added->input_count;
    manager->keys[task] = (task_keys){.fixed = added->key};
    manager->stages[added->stage].state.tasks++;
    manager->final_count += (added->flags & GY_TASK_FINAL) != 0;
    manager->has_exact |= (added->flags & GY_TASK_EXACT) != 0;
}

gy_status gy_manager_add(gy_manager *manager, const gy_growth *growth)
{
    GY_TRY(check(manager, growth));
    GY_TRY(reserve(manager, growth));
    GY_TRY(gy_manager_take_places(manager, growth, manager->task_count));
    GY_TRY(gy_manager_take_spreads(manager, growth, manager->task_count));
    uint32_t base = manager->task_count;
    manager->rows[base].first_edge = manager->edge_count;
    for (uint32_t task = 0; task < growth->task_count; task++) {
        take_task(manager, &growth->tasks[task], base + task);
    }
    if (growth->edge_count > 0) {
        memcpy(&manager->edges[manager->edge_count], growth->edges,
               growth->edge_count * sizeof(gy_edge));
    }
    manager->task_count += growth->task_count;
    manager->edge_count += (uint32_t)growth->edge_count;
    /* Backwards, since each reader is pushed at the front: the lists are then in ascending
     * order. */
    for (uint32_t task = manager->task_count; task-- > base;) {
        for (uint32_t edge = gy_manager_edges_end(manager, task);
             edge-- > manager->rows[task].first_edge;) {
            task_row *from = &manager->rows[manager->edges[edge].from];
            manager->links[edge] = (gy_sched_edge){.reader = task, .next = from->first_reader};
            from->first_reader = edge;
            manager->rows[task].missing += !gy_manager_is_there(manager, from);
        }
    }
    return GY_OK;
}

/* ---- Keys and reports ---- */

gy_key gy_manager_key(const gy_manager *manager, uint32_t task)
{
    uint8_t *out = manager->scratch;
    memcpy(out, &manager->keys[task].fixed, sizeof(gy_key));
    out += sizeof(gy_key);
    uint32_t end = gy_manager_edges_end(manager, task);
    for (uint32_t edge = manager->rows[task].first_edge; edge < end; edge++) {
        memcpy(out, &manager->keys[manager->edges[edge].from].content, sizeof(gy_key));
        memcpy(out + sizeof(gy_key), &manager->edges[edge].output, sizeof(uint32_t));
        out += sizeof(gy_key) + sizeof(uint32_t);
    }
    return gy_key_of(manager->scratch, (size_t)(out - manager->scratch));
}

gy_key gy_manager_job_key(const gy_growth *growth)
{
    const gy_key sums[] = {gy_key_of(growth->tasks, growth->task_count * sizeof(gy_sched_task)),
                           gy_key_of(growth->edges, growth->edge_count * sizeof(gy_edge))};
    return gy_key_of(sums, sizeof(sums));
}

const uint8_t *gy_manager_copy_report(gy_manager *manager, const void *data, size_t size_bytes)
{
    if (size_bytes == 0) {
        return NULL;
    }
    GY_ASSERT(size_bytes <= UINT32_MAX);
    size_t needed = gy_round_up(sizeof(uint32_t) + size_bytes, sizeof(uint32_t));
    chunk *last = manager->chunks;
    if (last == NULL || last->capacity - last->used < needed) {
        size_t capacity = GY_MAX((size_t)CHUNK_BYTES - sizeof(chunk), needed);
        chunk *fresh = gy_alloc("manager.reports", sizeof(chunk) + capacity);
        if (fresh == NULL) {
            manager->status = GY_NOMEM;
            return NULL;
        }
        *fresh = (chunk){.next = last, .capacity = capacity};
        manager->chunks = last = fresh;
        manager->chunk_bytes += sizeof(chunk) + capacity;
    }
    uint8_t *kept = last->bytes + last->used;
    uint32_t size = (uint32_t)size_bytes;
    memcpy(kept, &size, sizeof(size));
    memcpy(kept + sizeof(size), data, size_bytes);
    last->used += needed;
    return kept;
}
