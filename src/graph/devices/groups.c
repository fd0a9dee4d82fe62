/*
 * Which steps of a program the device is given together. Steps of the device that follow one
 * another in the program's order are one task, unless a copy back or a step of the CPU stands
 * between them. A copy there goes before the steps behind which it stands, as far as they leave
 * its memory alone, so that it parts no group.
 *
 * A group waits for all that its steps wait for. What was at the CPU between, or with peers,
 * may be late: so steps of a group have as many such passages behind them, and no more.
 */
#include "graph/session.h"

#include <string.h>

/* How many copies back and exchanges lie on the way to each node, at most. */
static void count_passages(const gy_graph *graph, int32_t *passages)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        int32_t most = 0;
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            most = GY_MAX(most, passages[node->inputs[k].node]);
        }
        const bool passes = node->op == &gy_ops_row_to_host ||
                            (node->op->flags & GY_OP_COLLECTIVE) != 0 ||
                            gy_collective_is_message(node->op);
        passages[i] = most + (passes ? 1 : 0);
    }
}

static bool is_kernel(const gy_program_step *step)
{
    GY_ASSERT(step->node != NULL);
    return step->node->is_on_device && !gy_devices_is_copy(step->node->op);
}

static bool has(gy_var *const *list, size_t count, const gy_var *var)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == var) {
            return true;
        }
    }
    return false;
}

/* May the copy go before the step? */
static bool may_pass(const gy_program_step *copy, const gy_program_step *step)
{
    GY_ASSERT(copy->mutate_count > 0 && is_kernel(step));
    for (size_t i = 0; i < copy->mutate_count; i++) {
        if (has(step->reads, step->read_count, copy->mutates[i]) ||
            has(step->mutates, step->mutate_count, copy->mutates[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < copy->read_count; i++) {
        if (has(step->mutates, step->mutate_count, copy->reads[i])) {
            return false;
        }
    }
    return true;
}

/* Move the copy at `index` before the kernels in front of it. */
static void advance(gy_program *program, int32_t first, int32_t index)
{
    const gy_program_step copy = program->steps[index];
    GY_ASSERT(copy.node->op == &gy_ops_row_to_device && copy.collective == NULL);
    while (index > first && is_kernel(&program->steps[index - 1]) &&
           may_pass(&copy, &program->steps[index - 1])) {
        program->steps[index] = program->steps[index - 1];
        index--;
    }
    program->steps[index] = copy;
}

/* All variables of one kind of the steps; the engine takes each once. */
static gy_status join(gy_program *program, gy_device_group *group, bool mutates)
{
    size_t count = 0;
    for (int32_t i = 0; i < group->count; i++) {
        const gy_program_step *step = &program->steps[group->first + i];
        count += mutates ? step->mutate_count : step->read_count;
    }
    GY_ASSERT(group->count > 1);
    gy_var **all = gy_arena_alloc(&program->arena, (count + 1) * sizeof(*all));
    if (all == NULL) {
        return GY_NOMEM;
    }
    *(mutates ? &group->mutates : &group->reads) = all;
    *(mutates ? &group->mutate_count : &group->read_count) = count;
    for (int32_t i = 0; i < group->count; i++) {
        const gy_program_step *step = &program->steps[group->first + i];
        const size_t some = mutates ? step->mutate_count : step->read_count;
        memcpy(all, mutates ? step->mutates : step->reads, some * sizeof(*all));
        all += some;
    }
    return GY_OK;
}

static gy_status add_group(gy_program *program, int32_t first, int32_t count)
{
    GY_ASSERT(count > 0 && first + count <= program->step_count);
    if (count == 1) {
        return GY_OK;
    }
    gy_device_group *group = gy_arena_alloc(&program->arena, sizeof(*group));
    gy_device_work *work =
        gy_arena_alloc(&program->arena, (size_t)count * sizeof(*group->work));
    if (group == NULL || work == NULL) {
        return GY_NOMEM;
    }
    *group = (gy_device_group){.program = program,
                               .first = first,
                               .count = count,
                               .work = work,
                               .priority = program->steps[first].priority};
    for (int32_t i = 0; i < count; i++) {
        const gy_program_step *step = &program->steps[first + i];
        const bool is_assign = step->node->op == &gy_ops_row_assign;
        GY_ASSERT(is_kernel(step) && (is_assign || step->state != NULL));
        work[i] = (gy_device_work){.kernel = is_assign ? NULL : step->state,
                                   .call = &step->call,
                                   .name = step->node->name};
        group->priority = GY_MAX(group->priority, step->priority);
    }
    GY_TRY(join(program, group, false));
    GY_TRY(join(program, group, true));
    program->steps[first].group = group;
    return GY_OK;
}

/* Steps [first, end) are kernels and copies there, of one segment. */
static gy_status add_groups(gy_program *program, const int32_t *passages, int32_t first,
                            int32_t end)
{
    const gy_graph *graph = program->graph;
    GY_ASSERT(first < end && end <= program->step_count);
    for (int32_t i = first; i < end; i++) {
        if (!is_kernel(&program->steps[i])) {
            advance(program, first, i);
        }
    }
    while (first < end) {
        if (!is_kernel(&program->steps[first])) {
            first++;
            continue;
        }
        const int32_t behind = passages[program->steps[first].node - graph->nodes];
        int32_t next = first + 1;
        while (next < end && is_kernel(&program->steps[next]) &&
               passages[program->steps[next].node - graph->nodes] == behind) {
            next++;
        }
        GY_TRY(add_group(program, first, next - first));
        first = next;
    }
    return GY_OK;
}

static bool is_groupable(const gy_program_step *step)
{
    return step->node->is_on_device;
}

gy_status gy_device_group_steps(gy_program *program)
{
    const gy_graph *graph = program->graph;
    GY_ASSERT(program->first[program->segment_count] == program->step_count);
    if (program->session->lane == NULL) {
        return GY_OK;
    }
    int32_t *passages =
        gy_alloc("graph.groups", ((size_t)graph->node_count + 1) * sizeof(*passages));
    if (passages == NULL) {
        return GY_NOMEM;
    }
    count_passages(graph, passages);
    gy_status status = GY_OK;
    for (int32_t s = 0; s < program->segment_count; s++) {
        const int32_t last = program->first[s + 1];
        for (int32_t i = program->first[s]; i < last && status >= 0;) {
            int32_t end = i;
            while (end < last && is_groupable(&program->steps[end])) {
                end++;
            }
            status = end > i ? add_groups(program, passages, i, end) : GY_OK;
            i = GY_MAX(end, i + 1);
        }
    }
    gy_free(passages);
    return status;
}
