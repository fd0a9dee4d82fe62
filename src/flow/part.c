/*
 * Parts as runs of vertices: iterates and builds their lists. Adjacent runs are merged, so a
 * million clones are one run.
 */
#include "flow/dag.h"

const gy_dag_part *gy_flow_part_get(const gy_dag *dag, gy_part part)
{
    if (part.dag != dag || part.index < 0 || (size_t)part.index >= dag->part_count ||
        (size_t)part.index < dag->part_floor) {
        return NULL;
    }
    return &dag->parts[part.index];
}

gy_part_cursor gy_flow_part_read(const gy_dag *dag, const gy_dag_part *part, gy_part_list list)
{
    return (gy_part_cursor){.dag = dag,
                            .run = part->at[list],
                            .runs_end = part->at[list] + part->count[list],
                            .is_output = list == GY_PART_OUTPUTS};
}

bool gy_flow_part_next(gy_part_cursor *cursor, uint32_t *vertex)
{
    if (cursor->run == cursor->runs_end) {
        return false;
    }
    const gy_dag_run *run = &cursor->dag->runs[cursor->run];
    *vertex = run->first + cursor->at * run->stride;
    if (++cursor->at == run->count) {
        cursor->at = 0;
        cursor->run++;
    }
    return true;
}

bool gy_flow_part_next_port(gy_part_cursor *cursor, uint32_t *vertex, uint32_t *port)
{
    if (cursor->run == cursor->runs_end) {
        return false;
    }
    const gy_dag_run *run = &cursor->dag->runs[cursor->run];
    const uint32_t at = run->first + cursor->at * run->stride;
    *vertex = at;
    if (gy_proto_is_any(cursor->dag, at, cursor->is_output)) {
        *port = UINT32_MAX;
        return gy_flow_part_next(cursor, vertex);
    }
    *port = cursor->port++;
    if (cursor->port == (cursor->is_output ? cursor->dag->outputs : cursor->dag->inputs)[at]) {
        cursor->port = 0;
        return gy_flow_part_next(cursor, vertex);
    }
    return true;
}

uint64_t gy_flow_part_size(const gy_dag *dag, const gy_dag_part *part, gy_part_list list)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < part->count[list]; i++) {
        size += dag->runs[part->at[list] + i].count;
    }
    return size;
}

void gy_flow_part_begin_list(gy_part_maker *maker, gy_part_list list)
{
    maker->list = list;
    maker->part.at[list] = (uint32_t)maker->dag->run_count;
    maker->part.count[list] = 0;
}

static void add_run(gy_part_maker *maker, gy_dag_run run)
{
    gy_dag *dag = maker->dag;
    if (dag->run_count >= UINT32_MAX - 1 ||
        GY_GROW("flow.runs", dag->runs, dag->run_capacity, dag->run_count + 1) < 0) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return;
    }
    dag->runs[dag->run_count++] = run;
    maker->part.count[maker->list]++;
}

void gy_flow_part_add_run(gy_part_maker *maker, gy_dag_run run)
{
    gy_dag *dag = maker->dag;
    if (maker->part.count[maker->list] > 0) {
        gy_dag_run *last = &dag->runs[dag->run_count - 1];
        const uint32_t step = last->count > 1 ? last->stride : run.first - last->first;
        if (run.first > last->first && run.first == last->first + last->count * step &&
            (run.count == 1 || run.stride == step)) {
            last->stride = step;
            last->count += run.count;
            return;
        }
    }
    add_run(maker, run);
}

void gy_flow_part_add(gy_part_maker *maker, uint32_t vertex)
{
    gy_flow_part_add_run(maker, (gy_dag_run){vertex, 1, 1});
}

/* Ranges of edges must come in ascending order. */
void gy_flow_part_add_edges(gy_part_maker *maker, uint32_t first, uint32_t count)
{
    gy_dag *dag = maker->dag;
    if (count == 0) {
        return;
    }
    if (maker->part.count[maker->list] > 0) {
        gy_dag_run *last = &dag->runs[dag->run_count - 1];
        if (first <= last->first + last->count) {
            last->count = GY_MAX(last->count, first + count - last->first);
            return;
        }
    }
    add_run(maker, (gy_dag_run){first, count, 1});
}

gy_part gy_flow_part_end(gy_part_maker *maker)
{
    gy_dag *dag = maker->dag;
    if (dag->status < 0) {
        return (gy_part){dag, -1};
    }
    if (dag->part_count >= INT32_MAX ||
        GY_GROW("flow.parts", dag->parts, dag->part_capacity, dag->part_count + 1) < 0) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return (gy_part){dag, -1};
    }
    dag->parts[dag->part_count] = maker->part;
    return (gy_part){dag, (int32_t)dag->part_count++};
}
