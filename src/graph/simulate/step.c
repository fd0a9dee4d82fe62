/*
 * An update: one batch after the other through all stages, or micro-batches by the lists of a
 * schedule (room plan), whose costs are what each stage takes alone for its forward pass and
 * for the rest. Behind its last micro-batch a stage does what the update adds: it completes the
 * sums of gradients and applies them; where that needs other stages (a clipped norm, a tied
 * table), it begins when all are there.
 */
#include "graph/simulate/simulate.h"

#include <math.h>
#include <string.h>

typedef struct player {
    const gy_virtual_update *update;
    const gy_virtual_cluster *cluster;
    gy_virtual_links links;
    gy_virtual_program *programs[2]; /* [run][stage] */
    gy_virtual_span *spans[3];       /* (stages) each, to play in */
    gy_pipe_cost *costs;             /* (stages) */
    gy_pipe_rank *ranks;
    int stages;
} player;

static gy_status open_programs(player *p, const gy_virtual_rates *rates)
{
    const gy_virtual_update *u = p->update;
    GY_ASSERT(u->run_count >= 1 && u->run_count <= 2);
    for (int run = 0; run < u->run_count; run++) {
        p->programs[run] =
            gy_alloc_zero("graph.simulate", (size_t)p->stages, sizeof(**p->programs));
        if (p->programs[run] == NULL) {
            return GY_NOMEM;
        }
        for (int s = 0; s < p->stages; s++) {
            GY_TRY(gy_virtual_program_new(u->graphs[s * u->run_count + run], &p->links, rates,
                                          &p->programs[run][s]));
        }
        GY_TRY(gy_virtual_program_mark(p->programs[run], p->stages));
    }
    for (size_t i = 0; i < GY_COUNT(p->spans); i++) {
        p->spans[i] =
            gy_alloc_zero("graph.simulate", (size_t)p->stages, sizeof(gy_virtual_span));
        if (p->spans[i] == NULL) {
            return GY_NOMEM;
        }
    }
    p->costs = gy_alloc_zero("graph.simulate", (size_t)p->stages, sizeof(*p->costs));
    p->ranks = gy_alloc_zero("graph.simulate", (size_t)p->stages, sizeof(*p->ranks));
    return p->costs != NULL && p->ranks != NULL ? GY_OK : GY_NOMEM;
}

static void close_programs(player *p)
{
    for (int run = 0; run < 2; run++) {
        for (int s = 0; s < p->stages && p->programs[run] != NULL; s++) {
            gy_virtual_program_free(&p->programs[run][s]);
        }
        gy_free(p->programs[run]);
    }
    for (size_t i = 0; i < GY_COUNT(p->spans); i++) {
        gy_free(p->spans[i]);
    }
    gy_free(p->costs);
    gy_free(p->ranks);
}

static double last_end(const gy_virtual_span *spans, int stages)
{
    double end_s = 0;
    GY_ASSERT(stages >= 1);
    for (int s = 0; s < stages; s++) {
        GY_ASSERT(spans[s].end_s >= 0);
        end_s = fmax(end_s, spans[s].end_s);
    }
    return end_s;
}

/* `before` runs of the first program, then one of the last: what a stage has of both. */
static void add_stage(const player *p, int stage, int before, gy_virtual_step *step)
{
    const gy_virtual_span *first = &p->spans[0][stage], *last = &p->spans[1][stage];
    const int run = p->update->run_count - 1;
    const double work_s = before * first->work_s + last->work_s;
    const double exposed_s = before * first->exposed_s + last->exposed_s;
    const double sent =
        (before > 0 ? before * gy_virtual_program_sent(&p->programs[0][stage]) : 0) +
        gy_virtual_program_sent(&p->programs[run][stage]);
    GY_ASSERT(before >= 0 && p->stages > 0);
    step->compute_s += work_s / p->stages;
    step->exposed_s += fmin(exposed_s, fmax(0, step->time_s - work_s)) / p->stages;
    step->sent_bytes = fmax(step->sent_bytes, sent);
}

static void add_memory(const player *p, int stage, double held_more, gy_virtual_step *step)
{
    const gy_footprint *f = &p->update->footprints[stage];
    GY_ASSERT(held_more >= 0 && stage < p->stages);
    const uint64_t bytes = gy_footprint_bytes(f) + (uint64_t)held_more;
    if (bytes > step->memory_bytes) {
        step->memory_bytes = bytes;
        step->parameter_bytes = f->parameter_bytes;
    }
}

/* Batches one after the other. */
static gy_status play_batches(player *p, gy_virtual_step *step)
{
    const int before = p->update->before, last = p->update->run_count - 1;
    GY_ASSERT(before >= 0 && (before == 0 || last == 1));
    if (before > 0) {
        GY_TRY(
            gy_virtual_program_play(p->programs[0], p->stages, GY_PART_TOGETHER, p->spans[0]));
    }
    GY_TRY(
        gy_virtual_program_play(p->programs[last], p->stages, GY_PART_TOGETHER, p->spans[1]));
    step->time_s = before * last_end(p->spans[0], p->stages) + last_end(p->spans[1], p->stages);
    for (int s = 0; s < p->stages; s++) {
        add_stage(p, s, before, step);
        add_memory(p, s, 0, step);
    }
    return GY_OK;
}

/* ---- micro-batches ---- */

static int count_messages(const gy_virtual_program *program)
{
    int count = 0;
    for (int32_t i = 0; i < program->count; i++) {
        count += program->tasks[i].peer >= 0 ? 1 : 0;
    }
    return count;
}

/* spans[0] is the stage alone, spans[2] its forward pass alone. */
static gy_pipe_cost cost_of(const player *p, int stage)
{
    const gy_virtual_program *program = &p->programs[0][stage];
    const double forward_s = p->spans[2][stage].end_s;
    const double back_s = fmax(0, p->spans[0][stage].end_s - forward_s);
    double input_s = 0, all_s = 0, send_s[2] = {0, 0}, bytes[2] = {0, 0};
    for (int32_t i = 0; i < program->count; i++) {
        const gy_virtual_task *task = &program->tasks[i];
        const bool is_back = !task->is_forward;
        all_s += is_back && task->lane == GY_VIRTUAL_WORK ? task->seconds : 0;
        input_s +=
            is_back && task->is_input && task->lane == GY_VIRTUAL_WORK ? task->seconds : 0;
        send_s[is_back] += task->is_send ? task->seconds : 0;
        bytes[is_back] += task->is_send ? task->sent_bytes : 0;
    }
    const double share = all_s > 0 ? input_s / all_s : 1;
    return (gy_pipe_cost){.forward = forward_s,
                          .input = back_s * share,
                          .weight = back_s * (1 - share),
                          .send = fmax(send_s[0], send_s[1]),
                          .send_bytes = (int64_t)fmax(bytes[0], bytes[1]),
                          .held_bytes = (int64_t)gy_virtual_program_held(program)};
}

static gy_status play_micros(player *p, gy_virtual_step *step)
{
    double end_s = 0, tail_s = 0, both_s = 0;
    gy_pipe_step played = {.ranks = p->ranks};
    bool is_together = false; /* the update needs other stages */
    GY_ASSERT(p->update->lists->ranks == p->stages && p->update->run_count == 2);
    GY_ASSERT(p->update->before % p->update->lists->micros == 0);
    GY_TRY(gy_virtual_program_play(p->programs[0], p->stages, GY_PART_ALONE, p->spans[0]));
    GY_TRY(gy_virtual_program_play(p->programs[0], p->stages, GY_PART_FORWARD, p->spans[2]));
    GY_TRY(gy_virtual_program_play(p->programs[1], p->stages, GY_PART_ALONE, p->spans[1]));
    for (int s = 0; s < p->stages; s++) {
        p->costs[s] = cost_of(p, s);
        is_together = is_together || count_messages(&p->programs[1][s]) > 0;
    }
    GY_TRY(gy_pipe_simulate(p->update->lists, p->costs, p->stages, &played));
    const int batches = p->update->before / p->update->lists->micros - 1;
    for (int s = 0; s < p->stages; s++) {
        const double tail = p->spans[1][s].end_s;
        end_s = fmax(end_s, p->ranks[s].end_s);
        tail_s = fmax(tail_s, tail);
        both_s = fmax(both_s, p->ranks[s].end_s + tail);
    }
    step->time_s = batches * end_s + (is_together ? end_s + tail_s : both_s);
    for (int s = 0; s < p->stages; s++) {
        add_stage(p, s, p->update->before, step);
        add_memory(p, s, (double)(p->ranks[s].alive_max - 1) * (double)p->costs[s].held_bytes,
                   step);
    }
    return GY_OK;
}

gy_status gy_virtual_update_play(const gy_virtual_update *update,
                                 const gy_virtual_cluster *cluster,
                                 const gy_kernel_rates *rates, gy_virtual_step *step)
{
    const gy_virtual_rates how = {.flops_s = cluster->flops_s,
                                  .memory_bytes_s = cluster->memory_bytes_s > 0
                                                        ? cluster->memory_bytes_s
                                                        : cluster->flops_s / 100,
                                  .rates = rates};
    GY_ASSERT(update->before >= 0 && (rates != NULL || cluster->flops_s > 0));
    player *p = gy_alloc_zero("graph.simulate", 1, sizeof(*p));
    if (p == NULL) {
        return GY_NOMEM;
    }
    p->update = update;
    p->cluster = cluster;
    p->stages = GY_MAX(update->mesh->stages, 1);
    gy_virtual_links_init(&p->links, cluster, update->mesh);
    gy_virtual_step made = {.ranks = gy_virtual_cluster_ranks(cluster), .stages = p->stages};
    gy_status status = open_programs(p, &how);
    if (status >= 0) {
        status = update->lists != NULL ? play_micros(p, &made) : play_batches(p, &made);
    }
    close_programs(p);
    gy_free(p);
    GY_TRY(status);
    made.bubble_s = fmax(0, made.time_s - made.compute_s - made.exposed_s);
    made.struct_size = step->struct_size;
    *step = made;
    return GY_OK;
}
