/*
 * An update: one batch after the other through all stages, or micro-batches by the lists of a
 * schedule (room plan), whose costs are what each stage takes alone for its forward pass and
 * for the rest, which are segments of its rank's program as the runner has them. Behind its
 * last micro-batch a stage does what the update adds: it completes the sums of gradients and
 * applies them; where that needs other stages (a clipped norm, a tied table), it begins when
 * all are there.
 */
#include "graph/pipe/pipe.h"
#include "graph/simulate/simulate.h"

#include <math.h>
#include <string.h>

typedef struct player {
    const gy_virtual_update *update;
    const gy_virtual_cluster *cluster;
    gy_virtual_links links;
    gy_virtual_program *programs[2]; /* [run][rank along pipe] */
    gy_virtual_span *spans[2];       /* (stages) each, to play in */
    gy_graph **ordered;              /* (stages) of the first run, by segments */
    int32_t **segments;              /* (stages, nodes) */
    gy_pipe_cost *costs;             /* (stages, chunks) of stage s of all */
    gy_pipe_rank *ranks;
    int stages, chunks; /* ranks along pipe; stages of each */
} player;

/* The program of rank `s`, sorted as the runner would. */
static gy_status order_program(player *p, int s, const gy_graph **graph)
{
    GY_ASSERT(p->ordered != NULL && p->segments != NULL && p->ordered[s] == NULL);
    GY_TRY(gy_pipe_order(*graph, &p->ordered[s], &p->segments[s]));
    *graph = p->ordered[s];
    return GY_OK;
}

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
            const gy_graph *graph = u->graphs[s * u->run_count + run];
            const bool is_scheduled = u->lists != NULL && run == 0;
            GY_TRY(is_scheduled ? order_program(p, s, &graph) : GY_OK);
            GY_TRY(gy_virtual_program_new(graph, &p->links, rates, &p->programs[run][s]));
            p->programs[run][s].segments = is_scheduled ? p->segments[s] : NULL;
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
    return GY_OK;
}

static gy_status make_room(player *p)
{
    static const char what[] = "graph.simulate";
    GY_ASSERT(p->stages >= 1 && p->chunks >= 1);
    const size_t ranks = (size_t)p->stages;
    p->ordered = gy_alloc_zero(what, ranks, sizeof(gy_graph *));
    p->segments = gy_alloc_zero(what, ranks, sizeof(int32_t *));
    p->costs = gy_alloc_zero(what, ranks * (size_t)p->chunks, sizeof(*p->costs));
    p->ranks = gy_alloc_zero(what, ranks, sizeof(*p->ranks));
    return p->ordered != NULL && p->segments != NULL && p->costs != NULL && p->ranks != NULL
               ? GY_OK
               : GY_NOMEM;
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
    for (int s = 0; s < p->stages; s++) {
        gy_graph_free(p->ordered != NULL ? p->ordered[s] : NULL);
        gy_free(p->segments != NULL ? p->segments[s] : NULL);
    }
    gy_free(p->ordered);
    gy_free(p->segments);
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

/* What a rank takes for stage s: `forward_s` and `back_s` of its segments alone. */
static gy_pipe_cost cost_of(const player *p, int s, double forward_s, double back_s)
{
    const gy_virtual_program *program = &p->programs[0][s % p->stages];
    const int32_t input = gy_pipe_input(p->chunks, s / p->stages);
    double input_s = 0, all_s = 0, send_s[2] = {0, 0}, bytes[2] = {0, 0};
    for (int32_t i = 0; i < program->count; i++) {
        const gy_virtual_task *task = &program->tasks[i];
        const gy_attributes *attributes = &program->graph->nodes[i].attributes;
        const int32_t segment = program->segments[i];
        if (task->lane == GY_VIRTUAL_WORK && (segment == input || segment == input + 1)) {
            all_s += task->seconds;
            input_s += segment == input ? task->seconds : 0;
        }
        if (task->is_send && attributes->message.from == s) {
            const int way = attributes->message.is_made_backward ? 1 : 0;
            send_s[way] += task->seconds;
            bytes[way] += task->sent_bytes;
        }
    }
    const double share = all_s > 0 ? input_s / all_s : 1;
    return (gy_pipe_cost){.forward = forward_s,
                          .input = back_s * share,
                          .weight = back_s * (1 - share),
                          .send = fmax(send_s[0], send_s[1]),
                          .send_bytes = (int64_t)fmax(bytes[0], bytes[1])};
}

/* Of all stages; spans are overwritten. */
static gy_status find_costs(player *p)
{
    const int v = p->chunks;
    GY_ASSERT(v >= 1 && p->update->lists->stages == v * p->stages);
    for (int chunk = 0; chunk < v; chunk++) {
        const int32_t f = gy_pipe_forward(v, chunk), b = gy_pipe_input(v, chunk);
        GY_TRY(gy_virtual_program_play_range(p->programs[0], p->stages,
                                             (gy_virtual_range){f, f + 1}, p->spans[0]));
        GY_TRY(gy_virtual_program_play_range(p->programs[0], p->stages,
                                             (gy_virtual_range){b, b + 2}, p->spans[1]));
        for (int rank = 0; rank < p->stages; rank++) {
            const int s = chunk * p->stages + rank;
            p->costs[s] = cost_of(p, s, p->spans[0][rank].end_s, p->spans[1][rank].end_s);
        }
    }
    return GY_OK;
}

/* Instances of a rank's program that are there at a time, of which each has what all stages of
 * the rank make. */
static gy_status count_instances(const player *p, int rank, int *instances)
{
    const gy_pipe_schedule *lists = p->update->lists;
    gy_pipe_places places;
    GY_ASSERT(rank >= 0 && rank < lists->ranks && lists->micros >= 1);
    gy_micro_batch *micros =
        gy_alloc_zero("graph.simulate", (size_t)lists->micros, sizeof(*micros));
    if (micros == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < lists->micros; k++) {
        micros[k].rows = 1;
    }
    const gy_status status = gy_pipe_place(&lists->lists[rank], micros, lists->micros, &places);
    *instances = places.slots;
    gy_pipe_places_free(&places);
    gy_free(micros);
    return status;
}

static gy_status play_micros(player *p, gy_virtual_step *step)
{
    double end_s = 0, tail_s = 0, both_s = 0;
    gy_pipe_step played = {.ranks = p->ranks};
    bool is_together = false; /* the update needs other stages */
    GY_ASSERT(p->update->lists->ranks == p->stages && p->update->run_count == 2);
    GY_ASSERT(p->update->before % p->update->lists->micros == 0);
    GY_TRY(find_costs(p));
    GY_TRY(gy_virtual_program_play(p->programs[0], p->stages, GY_PART_ALONE, p->spans[0]));
    GY_TRY(gy_virtual_program_play(p->programs[1], p->stages, GY_PART_ALONE, p->spans[1]));
    for (int s = 0; s < p->stages; s++) {
        is_together = is_together || count_messages(&p->programs[1][s]) > 0;
    }
    GY_TRY(gy_pipe_simulate(p->update->lists, p->costs, p->stages * p->chunks, &played));
    const int batches = p->update->before / p->update->lists->micros - 1;
    for (int s = 0; s < p->stages; s++) {
        const double tail = p->spans[1][s].end_s;
        end_s = fmax(end_s, p->ranks[s].end_s);
        tail_s = fmax(tail_s, tail);
        both_s = fmax(both_s, p->ranks[s].end_s + tail);
    }
    step->time_s = batches * end_s + (is_together ? end_s + tail_s : both_s);
    for (int s = 0; s < p->stages; s++) {
        int instances = 0;
        GY_TRY(count_instances(p, s, &instances));
        add_stage(p, s, p->update->before, step);
        add_memory(p, s, (instances - 1) * gy_virtual_program_held(&p->programs[0][s]), step);
    }
    return GY_OK;
}

gy_status gy_virtual_update_play(const gy_virtual_update *update,
                                 const gy_virtual_cluster *cluster,
                                 const gy_kernel_rates *rates, gy_virtual_step *step)
{
    const gy_virtual_rates how = {.flops_s = cluster->flops_s,
                                  .memory_bytes_s = gy_simulate_memory_rate(cluster),
                                  .rates = rates};
    GY_ASSERT(update->before >= 0 && (rates != NULL || cluster->flops_s > 0));
    player *p = gy_alloc_zero("graph.simulate", 1, sizeof(*p));
    if (p == NULL) {
        return GY_NOMEM;
    }
    p->update = update;
    p->cluster = cluster;
    p->stages = GY_MAX(update->mesh->stages, 1);
    p->chunks = GY_MAX(update->mesh->chunks, 1);
    gy_virtual_links_init(&p->links, cluster, update->mesh);
    gy_virtual_step made = {.ranks = gy_virtual_cluster_ranks(cluster),
                            .stages = p->stages * p->chunks};
    gy_status status = make_room(p);
    status = status >= 0 ? open_programs(p, &how) : status;
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
