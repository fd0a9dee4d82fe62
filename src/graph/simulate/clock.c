/*
 * The virtual clock: each stage has a lane that works, one for exchanges inside hosts and one
 * for those that leave them; a lane does one task at a time, of those that are ready the one of
 * highest priority, which stands first in the program. A message is there when its send has
 * ended. Events are ordered by time, and among equals by when they were made, so that a play is
 * a function of its programs.
 *
 * @cost O(tasks log tasks)
 */
#include "graph/simulate/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A binary heap: the smallest key first, among equals the smallest number. */
typedef struct entry {
    double key;
    int64_t number;
    int32_t stage, task;
} entry;

typedef struct heap {
    entry *items;
    size_t count, capacity;
} heap;

static bool is_before(const entry *a, const entry *b)
{
    return a->key < b->key || (a->key == b->key && a->number < b->number);
}

static gy_status heap_push(heap *h, entry made)
{
    GY_TRY(GY_GROW("graph.simulate", h->items, h->capacity, h->count + 1));
    size_t at = h->count++;
    GY_ASSERT(h->count <= h->capacity);
    while (at > 0 && is_before(&made, &h->items[(at - 1) / 2])) {
        h->items[at] = h->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->items[at] = made;
    return GY_OK;
}

static entry heap_pop(heap *h)
{
    GY_ASSERT(h->count > 0);
    const entry first = h->items[0], last = h->items[--h->count];
    size_t at = 0;
    for (size_t child = 1; child < h->count; child = 2 * at + 1) {
        child += child + 1 < h->count && is_before(&h->items[child + 1], &h->items[child]);
        if (is_before(&last, &h->items[child])) {
            break;
        }
        h->items[at] = h->items[child];
        at = child;
    }
    if (h->count > 0) {
        h->items[at] = last;
    }
    return first;
}

/* When a stage's exchanges, or its work, went on. */
typedef struct interval {
    double begin_s, end_s;
} interval;
typedef struct intervals {
    interval *items;
    size_t count, capacity;
} intervals;

typedef struct stage {
    const gy_virtual_program *program;
    int32_t *waits;         /* task -> inputs, and its message, that are not there */
    int32_t *first, *users; /* of task i: users[first[i] .. first[i + 1]) */
    heap ready[GY_VIRTUAL_LANES];
    bool is_busy[GY_VIRTUAL_LANES];
    intervals work, wire;
    double end_s;
    int32_t done;
} stage;

typedef struct clock_of {
    stage *stages; /* (count) */
    int count;
    gy_virtual_part part;
    gy_virtual_range range;
    heap events; /* ends of tasks */
    int64_t number;
    double now_s;
} clock_of;

static bool is_played(const clock_of *c, const stage *s, int32_t index)
{
    GY_ASSERT(index >= 0 && index < s->program->count);
    return c->range.last == 0 || (s->program->segments[index] >= c->range.first &&
                                  s->program->segments[index] < c->range.last);
}

static bool is_receive(const gy_virtual_task *task)
{
    return task->lane == GY_VIRTUAL_ARRIVAL;
}

/* ---- users ---- */

static gy_status list_users(stage *s)
{
    const gy_graph *graph = s->program->graph;
    const int32_t count = s->program->count;
    GY_ASSERT(graph->node_count == count);
    size_t edges = 0;
    for (int32_t i = 0; i < count; i++) {
        edges += (size_t)graph->nodes[i].input_count;
    }
    s->waits = gy_alloc_zero("graph.simulate", (size_t)count + 1, sizeof(int32_t));
    s->first = gy_alloc_zero("graph.simulate", (size_t)count + 2, sizeof(int32_t));
    s->users = gy_alloc_zero("graph.simulate", edges + 1, sizeof(int32_t));
    if (s->waits == NULL || s->first == NULL || s->users == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < count; i++) {
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            s->first[graph->nodes[i].inputs[k].node + 2]++;
        }
    }
    for (int32_t i = 2; i <= count + 1; i++) {
        s->first[i] += s->first[i - 1];
    }
    for (int32_t i = 0; i < count; i++) { /* first[i + 1] is where the next user of i goes */
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            s->users[s->first[graph->nodes[i].inputs[k].node + 1]++] = i;
        }
    }
    return GY_OK;
}

/* ---- the play ---- */

static gy_status add_event(clock_of *c, double at_s, int of, int32_t task)
{
    GY_ASSERT(at_s >= c->now_s);
    return heap_push(&c->events, (entry){at_s, c->number++, of, task});
}

/* A task has all that it needs. */
static gy_status make_ready(clock_of *c, int of, int32_t index)
{
    stage *s = &c->stages[of];
    const gy_virtual_task *task = &s->program->tasks[index];
    GY_ASSERT(s->waits[index] == 0);
    if (!is_played(c, s, index)) {
        return GY_OK;
    }
    if (task->lane == GY_VIRTUAL_NOTHING || is_receive(task) ||
        (task->is_send && c->part != GY_PART_TOGETHER)) {
        return add_event(c, c->now_s, of, index);
    }
    return heap_push(&s->ready[task->lane], (entry){-(double)task->priority, index, of, index});
}

static gy_status release(clock_of *c, int of, int32_t index)
{
    GY_ASSERT(c->stages[of].waits[index] > 0);
    return --c->stages[of].waits[index] == 0 ? make_ready(c, of, index) : GY_OK;
}

/* The receive of a send that has ended. */
static gy_status deliver(clock_of *c, int from, const gy_virtual_task *send)
{
    const gy_virtual_program *to = c->stages[send->peer].program;
    GY_ASSERT(send->is_send && send->peer >= 0 && send->peer < c->count);
    GY_ASSERT(send->peer != from);
    for (int32_t i = 0; i < to->count; i++) {
        if (is_receive(&to->tasks[i]) && to->tasks[i].peer == from &&
            to->tasks[i].tag == send->tag) {
            intervals *wire = &c->stages[send->peer].wire;
            GY_TRY(GY_GROW("graph.simulate", wire->items, wire->capacity, wire->count + 1));
            wire->items[wire->count++] = (interval){c->now_s - send->seconds, c->now_s};
            return release(c, send->peer, i);
        }
    }
    return GY_OK;
}

static gy_status end_task(clock_of *c, const entry *event)
{
    stage *s = &c->stages[event->stage];
    const gy_virtual_task *task = &s->program->tasks[event->task];
    s->done++;
    GY_ASSERT(s->done <= s->program->count && s->end_s <= c->now_s);
    s->end_s = c->now_s;
    if (task->lane != GY_VIRTUAL_NOTHING && !is_receive(task)) {
        s->is_busy[task->lane] = false;
    }
    for (int32_t k = s->first[event->task]; k < s->first[event->task + 1]; k++) {
        GY_TRY(release(c, event->stage, s->users[k]));
    }
    return task->is_send && c->part == GY_PART_TOGETHER ? deliver(c, event->stage, task)
                                                        : GY_OK;
}

/* The next task of each lane that is free. */
static gy_status start_next(clock_of *c, int of)
{
    stage *s = &c->stages[of];
    for (int lane = GY_VIRTUAL_WORK; lane <= GY_VIRTUAL_FAR; lane++) {
        if (s->is_busy[lane] || s->ready[lane].count == 0) {
            continue;
        }
        const entry next = heap_pop(&s->ready[lane]);
        GY_ASSERT(s->program->tasks[next.task].seconds >= 0);
        const double end_s = c->now_s + s->program->tasks[next.task].seconds;
        intervals *list = lane == GY_VIRTUAL_WORK ? &s->work : &s->wire;
        GY_TRY(GY_GROW("graph.simulate", list->items, list->capacity, list->count + 1));
        list->items[list->count++] = (interval){c->now_s, end_s};
        s->is_busy[lane] = true;
        GY_TRY(add_event(c, end_s, of, next.task));
    }
    return GY_OK;
}

/* What a task waits for: inputs that are played, and a message. */
static void count_waits(const clock_of *c, stage *s)
{
    const gy_graph *graph = s->program->graph;
    GY_ASSERT(c->range.last == 0 || s->program->segments != NULL);
    for (int32_t i = 0; i < s->program->count; i++) {
        const bool waits = is_receive(&s->program->tasks[i]);
        s->waits[i] = waits && c->part == GY_PART_TOGETHER ? 1 : 0;
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            s->waits[i] += is_played(c, s, graph->nodes[i].inputs[k].node) ? 1 : 0;
        }
    }
}

static gy_status begin(clock_of *c, const gy_virtual_program *programs)
{
    GY_ASSERT(c->events.count == 0 && c->now_s == 0);
    for (int of = 0; of < c->count; of++) {
        stage *s = &c->stages[of];
        s->program = &programs[of];
        GY_TRY(list_users(s));
        count_waits(c, s);
    }
    for (int of = 0; of < c->count; of++) {
        for (int32_t i = 0; i < c->stages[of].program->count; i++) {
            GY_TRY(c->stages[of].waits[i] == 0 ? make_ready(c, of, i) : GY_OK);
        }
        GY_TRY(start_next(c, of));
    }
    return GY_OK;
}

static gy_status go_on(clock_of *c)
{
    while (c->events.count > 0) {
        const double now_s = c->events.items[0].key;
        GY_ASSERT(now_s >= c->now_s);
        c->now_s = now_s;
        while (c->events.count > 0 && c->events.items[0].key == now_s) {
            const entry event = heap_pop(&c->events);
            GY_TRY(end_task(c, &event));
        }
        for (int of = 0; of < c->count; of++) {
            GY_TRY(start_next(c, of));
        }
    }
    return GY_OK;
}

/* ---- what it was ---- */

static int by_begin(const void *a, const void *b)
{
    const interval *x = a, *y = b;
    return x->begin_s < y->begin_s ? -1 : x->begin_s > y->begin_s ? 1 : 0;
}

/* Work is in order and apart. Exchanges may overlap: what they cover together, without the
 * work, is exposed. */
static gy_virtual_span measure(stage *s)
{
    gy_virtual_span span = {.end_s = s->end_s};
    double covered_s = 0;
    size_t at = 0;
    for (size_t i = 0; i < s->work.count; i++) {
        span.work_s += s->work.items[i].end_s - s->work.items[i].begin_s;
    }
    if (s->wire.count > 0) {
        qsort(s->wire.items, s->wire.count, sizeof(interval), by_begin);
    }
    for (size_t i = 0; i < s->wire.count; i++) {
        double from = fmax(s->wire.items[i].begin_s, covered_s);
        const double to = s->wire.items[i].end_s;
        covered_s = fmax(covered_s, to);
        for (; at < s->work.count && from < to; at++) {
            const interval *work = &s->work.items[at];
            span.exposed_s += fmax(0, fmin(work->begin_s, to) - from);
            from = fmax(from, work->end_s);
            if (work->end_s > to) {
                break;
            }
        }
        span.exposed_s += fmax(0, to - from);
    }
    GY_ASSERT(span.work_s >= 0 && span.exposed_s >= 0);
    return span;
}

static gy_status find_stuck(const clock_of *c)
{
    for (int of = 0; of < c->count; of++) {
        const stage *s = &c->stages[of];
        int32_t played = 0;
        for (int32_t i = 0; i < s->program->count; i++) {
            played += is_played(c, s, i) ? 1 : 0;
        }
        if (s->done < played) {
            return gy_fail(GY_STATE, "stage %d waits for ever: %d of %d nodes end", of,
                           (int)s->done, (int)played);
        }
    }
    return GY_OK;
}

static void free_stage(stage *s)
{
    gy_free(s->waits);
    gy_free(s->first);
    gy_free(s->users);
    for (int lane = 0; lane < GY_VIRTUAL_LANES; lane++) {
        gy_free(s->ready[lane].items);
    }
    gy_free(s->work.items);
    gy_free(s->wire.items);
}

static gy_status play(clock_of c, const gy_virtual_program *programs, gy_virtual_span *spans)
{
    const int stages = c.count;
    GY_ASSERT(stages >= 1 && spans != NULL);
    c.stages = gy_alloc_zero("graph.simulate", (size_t)stages, sizeof(*c.stages));
    if (c.stages == NULL) {
        return GY_NOMEM;
    }
    gy_status status = begin(&c, programs);
    status = status >= 0 ? go_on(&c) : status;
    status = status >= 0 ? find_stuck(&c) : status;
    for (int of = 0; of < stages; of++) {
        if (status >= 0) {
            spans[of] = measure(&c.stages[of]);
        }
        free_stage(&c.stages[of]);
    }
    gy_free(c.stages);
    gy_free(c.events.items);
    return status;
}

gy_status gy_virtual_program_play(const gy_virtual_program *programs, int stages,
                                  gy_virtual_part part, gy_virtual_span *spans)
{
    return play((clock_of){.count = stages, .part = part}, programs, spans);
}

gy_status gy_virtual_program_play_range(const gy_virtual_program *programs, int stages,
                                        gy_virtual_range range, gy_virtual_span *spans)
{
    GY_ASSERT(range.first >= 0 && range.first < range.last);
    return play((clock_of){.count = stages, .part = GY_PART_ALONE, .range = range}, programs,
                spans);
}
