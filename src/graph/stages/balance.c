/*
 * Where to cut so that the longest stage is as short as can be: sources in their order, each
 * with the work of its node and of the node's gradients; at each place between two of them the
 * bytes that cross there, both ways. Exact by dynamic programming over the places.
 *
 * @cost stages x places²; graphs of many nodes are cut at every second place, or third, …
 *
 * Stages of equal length need not work at the same time: a recurrent model that is cut in time
 * is one stage after the other, and cut between layers a wave. So where a batch is run whole,
 * cuts are moved while a step, played node by node in the order of the graph, becomes shorter
 * by a tenth: graphs of one chain, whose stages never overlap, keep the balanced ones.
 */
#include "graph/stages/stages.h"

#include <math.h>
#include <string.h>

enum { PLACES_MAX = 1024 };

/* As the search of placements reckons. */
static const double flops_s = 50e9, usual_bytes_s = 10e9;

double gy_stages_work(const gy_graph *graph, int32_t index)
{
    const gy_mesh mesh = gy_mesh_largest(&graph->mesh);
    gy_cost cost;
    if ((graph->nodes[index].op->flags & (GY_OP_LEAF | GY_OP_VIEW)) != 0) {
        return 0;
    }
    gy_graph_cost(graph, &mesh, index, &cost);
    const double memory_bytes_s = mesh.memory_bytes_s > 0 ? mesh.memory_bytes_s : usual_bytes_s;
    return fmax(cost.flops / flops_s, (cost.bytes_read + cost.bytes_written) / memory_bytes_s);
}

double gy_stages_bytes(const gy_graph *graph, gy_value value)
{
    const gy_mesh mesh = gy_mesh_largest(&graph->mesh);
    GY_ASSERT(graph->is_placed);
    return (double)gy_local_bytes(&mesh, gy_graph_type(graph, value));
}

double gy_stages_transfer(const gy_mesh *mesh, double bytes)
{
    static const double alpha = 2e-6, beta = 2e-10; /* within a host */
    const gy_links *links = &mesh->stage_links;
    GY_ASSERT(bytes >= 0);
    return links->beta > 0 ? links->alpha + links->beta * bytes : alpha + beta * bytes;
}

typedef struct balance {
    const gy_graph *graph;
    const bool *is_told;
    int32_t *place; /* node -> the place of its source, of those that are told */
    int32_t *source;
    double *work_s;  /* place -> of all places before it */
    double *cross_s; /* place -> the transfers of a cut before it */
    int32_t places;
} balance;

static void number_places(balance *b, int32_t source_count)
{
    const gy_graph *graph = b->graph;
    GY_ASSERT(b->places == 0 && source_count >= 0);
    for (int32_t i = 0; i < source_count; i++) {
        b->source[i] = -1;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (b->is_told[i]) {
            GY_ASSERT(graph->nodes[i].mark.source >= 0);
            b->source[graph->nodes[i].mark.source] = 0;
        }
    }
    for (int32_t i = 0; i < source_count; i++) {
        b->source[i] = b->source[i] == 0 ? b->places++ : -1;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        b->place[i] = b->is_told[i] ? b->source[graph->nodes[i].mark.source] : -1;
    }
    for (int32_t i = 0; i < source_count; i++) { /* place -> source, in the same array */
        if (b->source[i] >= 0) {
            GY_ASSERT(b->source[i] <= i);
            b->source[b->source[i]] = i;
        }
    }
}

/* Bytes cross all places between a value and its users, before and behind it. */
static void measure(balance *b)
{
    const gy_graph *graph = b->graph;
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (b->place[i] < 0) {
            continue;
        }
        GY_ASSERT(b->place[i] < b->places);
        b->work_s[b->place[i] + 1] += gy_stages_work(graph, i);
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            const int32_t from = b->place[node->inputs[k].node];
            if (from >= 0 && from != b->place[i]) {
                const double seconds =
                    gy_stages_transfer(&graph->mesh, gy_stages_bytes(graph, node->inputs[k]));
                b->cross_s[GY_MIN(from, b->place[i]) + 1] += seconds;
                b->cross_s[GY_MAX(from, b->place[i]) + 1] -= seconds;
            }
        }
    }
    for (int32_t i = 1; i <= b->places; i++) {
        b->work_s[i] += b->work_s[i - 1];
        b->cross_s[i] += b->cross_s[i - 1];
    }
    b->cross_s[0] = b->cross_s[b->places] = 0;
}

static double length_of(const balance *b, int32_t from, int32_t to)
{
    GY_ASSERT(from >= 0 && from < to && to <= b->places);
    return b->work_s[to] - b->work_s[from] + fmax(b->cross_s[from], 0) +
           fmax(b->cross_s[to], 0);
}

/* best[s][j]: the longest of stages 0 … s that end before place j; from[s][j]: where s begins.
 */
static void solve(const balance *b, int stages, double *best, int32_t *from)
{
    const int32_t n = b->places, width = n + 1, step = n / PLACES_MAX + 1;
    GY_ASSERT(stages > 1 && stages <= n && step >= 1);
    for (int s = 0; s < stages; s++) {
        for (int32_t j = s + 1; j <= n; j++) {
            best[s * width + j] = s == 0 ? length_of(b, 0, j) : INFINITY;
            from[s * width + j] = 0;
            if (s > 0 && j < n && j % step != 0 && n > stages * step) {
                continue;
            }
            for (int32_t i = s; s > 0 && i < j; i++) {
                const double longest = fmax(best[(s - 1) * width + i], length_of(b, i, j));
                if (longest < best[s * width + j]) {
                    best[s * width + j] = longest;
                    from[s * width + j] = i;
                }
            }
        }
    }
}

/* Of the rank with most, and, of equal ones, of the longest stage. Stage s begins at first[s].
 */
static double longest_rank(const balance *b, const int32_t *first, int stages)
{
    const int ranks = b->graph->mesh.stages;
    double loads_s[GY_STAGES_MAX] = {0}, rank_s = 0, stage_s = 0;
    GY_ASSERT(ranks > 1 && stages <= GY_STAGES_MAX);
    for (int s = 0; s < stages; s++) {
        const double length_s = length_of(b, first[s], first[s + 1]);
        loads_s[s % ranks] += length_s;
        rank_s = fmax(rank_s, loads_s[s % ranks]);
        stage_s = fmax(stage_s, length_s);
    }
    return rank_s + 1e-3 * stage_s;
}

/* Stage s begins at `at`; its neighbours are pushed along where they must be. */
static void put_cut(int32_t *first, int stages, int s, int32_t at)
{
    GY_ASSERT(s > 0 && s < stages);
    first[s] = at;
    for (int k = s + 1; k < stages; k++) {
        first[k] = GY_MAX(first[k], first[k - 1] + 1);
    }
    for (int k = s - 1; k > 0; k--) {
        first[k] = GY_MIN(first[k], first[k + 1] - 1);
    }
}

/* Ranks of several stages: a cut moves while the rank with most has less of it. The shortest
 * longest stage alone may leave one rank all the long ones. */
static void share_among_ranks(const balance *b, int32_t *first, int stages)
{
    double best_s = longest_rank(b, first, stages), before_s = INFINITY;
    GY_ASSERT(first[0] == 0 && first[stages] == b->places);
    for (int round = 0; round < 4 && best_s < before_s; round++) {
        before_s = best_s;
        for (int s = 1; s < stages; s++) {
            int32_t best[GY_STAGES_MAX + 1], trial[GY_STAGES_MAX + 1];
            const size_t bytes = ((size_t)stages + 1) * sizeof(*first);
            memcpy(best, first, bytes);
            for (int32_t at = s; at <= b->places - (stages - s); at++) {
                memcpy(trial, first, bytes);
                put_cut(trial, stages, s, at);
                const double found_s = longest_rank(b, trial, stages);
                if (found_s < best_s) {
                    best_s = found_s;
                    memcpy(best, trial, bytes);
                }
            }
            memcpy(first, best, bytes);
        }
    }
}

static gy_status cut(const balance *b, gy_stage_cuts *cuts)
{
    const int stages = gy_mesh_stages(&b->graph->mesh);
    const size_t cells = (size_t)stages * ((size_t)b->places + 1);
    GY_ASSERT(stages > 1 && stages <= GY_STAGES_MAX);
    if (b->places < stages) {
        return gy_fail(GY_ARG,
                       "pipe: %d stages of a model that has only %d places where a stage may "
                       "begin: choose at most %d stages",
                       stages, (int)b->places, (int)b->places);
    }
    double *best = gy_alloc("graph.stages", cells * sizeof(*best));
    int32_t *from = gy_alloc_zero("graph.stages", cells, sizeof(*from));
    if (best != NULL && from != NULL) {
        for (size_t i = 0; i < cells; i++) {
            best[i] = INFINITY;
        }
        solve(b, stages, best, from);
        int32_t first[GY_STAGES_MAX + 1] = {0};
        first[stages] = b->places;
        for (int s = stages - 1; s > 0; s--) {
            first[s] = from[s * (b->places + 1) + first[s + 1]];
            GY_ASSERT(first[s] >= s);
        }
        if (stages > b->graph->mesh.stages) {
            share_among_ranks(b, first, stages);
        }
        cuts->count = stages - 1;
        for (int s = 1; s < stages; s++) {
            cuts->first[s - 1] = b->source[first[s]];
            GY_ASSERT(cuts->first[s - 1] >= 0);
        }
    }
    const bool is_there = best != NULL && from != NULL;
    gy_free(best);
    gy_free(from);
    return is_there ? GY_OK : GY_NOMEM;
}

/* ---- stages that overlap ---- */

typedef struct player {
    const balance *b;
    double *work_s; /* node */
    double *ends_s; /* node, of the last play */
    bool *is_begin; /* place: a layer begins there */
    int stages;
    int32_t
        first[GY_STAGES_MAX + 1]; /* stage -> its first place; behind the last, all places */
    double free_s[GY_STAGES_MAX]; /* stage -> when it has done what it began */
    int32_t stage_of[];           /* place */
} player;

static void set_stages(player *p)
{
    GY_ASSERT(p->first[0] == 0 && p->first[p->stages] == p->b->places);
    for (int s = 0; s < p->stages; s++) {
        p->free_s[s] = 0;
        for (int32_t i = p->first[s]; i < p->first[s + 1]; i++) {
            p->stage_of[i] = s;
        }
    }
}

/* Seconds of a step: each stage does its nodes in the order of the graph, as soon as what they
 * read is there. What has no place takes no time. */
static double play(player *p)
{
    const gy_graph *graph = p->b->graph;
    double last_s = 0;
    set_stages(p);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const int32_t place = p->b->place[i];
        const int stage = place >= 0 ? p->stage_of[place] : -1;
        double begin_s = stage >= 0 ? p->free_s[stage] : 0;
        for (int k = 0; k < node->input_count; k++) {
            const int32_t maker = node->inputs[k].node, from = p->b->place[maker];
            GY_ASSERT(maker < i);
            const bool crosses = stage >= 0 && from >= 0 && p->stage_of[from] != stage;
            const double moved_s =
                crosses
                    ? gy_stages_transfer(&graph->mesh, gy_stages_bytes(graph, node->inputs[k]))
                    : 0;
            begin_s = fmax(begin_s, p->ends_s[maker] + moved_s);
        }
        p->ends_s[i] = begin_s + (stage >= 0 ? p->work_s[i] : 0);
        if (stage >= 0) {
            p->free_s[stage] = p->ends_s[i];
        }
        last_s = fmax(last_s, p->ends_s[i]);
    }
    return last_s;
}

/* A layer begins where a parameter is read first. */
static void find_layers(const balance *b, bool *is_begin, int32_t *first)
{
    const gy_graph *graph = b->graph;
    for (int32_t i = 0; i < graph->node_count; i++) {
        first[i] = b->places;
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            const int32_t read = graph->nodes[i].inputs[k].node;
            const bool is_parameter = graph->nodes[read].op == &gy_ops_row_parameter;
            if (is_parameter && b->place[i] >= 0) {
                first[read] = GY_MIN(first[read], b->place[i]);
            }
        }
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        GY_ASSERT(first[i] >= 0 && first[i] <= b->places);
        is_begin[first[i]] = true;
    }
}

/* Move where stage s begins, within its neighbours, to the best begin of a layer. */
static double move_cut(player *p, int s, double best_s)
{
    int32_t best = p->first[s];
    GY_ASSERT(s > 0 && s < p->stages);
    for (int32_t at = p->first[s - 1] + 1; at < p->first[s + 1]; at++) {
        p->first[s] = at;
        const double found_s = p->is_begin[at] ? play(p) : INFINITY;
        if (found_s < best_s) {
            best_s = found_s;
            best = at;
        }
    }
    p->first[s] = best;
    return best_s;
}

static void overlap(player *p, gy_stage_cuts *cuts)
{
    const balance *b = p->b;
    const double balanced_s = play(p);
    double best_s = balanced_s, before_s = INFINITY;
    for (int round = 0; round < 3 && best_s < before_s; round++) {
        before_s = best_s;
        for (int s = 1; s < p->stages; s++) {
            best_s = move_cut(p, s, best_s);
        }
    }
    for (int s = 1; s < p->stages && best_s < 0.9 * balanced_s; s++) {
        cuts->first[s - 1] = b->source[p->first[s]];
        GY_ASSERT(cuts->first[s - 1] >= 0);
    }
}

static gy_status find_overlap(const balance *b, gy_stage_cuts *cuts)
{
    const size_t nodes = (size_t)b->graph->node_count + 1;
    gy_arena arena = {0};
    player *p =
        gy_arena_alloc(&arena, sizeof(*p) + ((size_t)b->places + 1) * sizeof(*p->stage_of));
    double *work_s = gy_arena_alloc(&arena, nodes * sizeof(double));
    double *ends_s = gy_arena_alloc(&arena, nodes * sizeof(double));
    bool *is_begin = gy_arena_alloc(&arena, (size_t)b->places + 1);
    int32_t *first = gy_arena_alloc(&arena, nodes * sizeof(int32_t));
    const bool is_there =
        p != NULL && work_s != NULL && ends_s != NULL && is_begin != NULL && first != NULL;
    if (is_there) {
        p->b = b;
        p->work_s = work_s;
        p->ends_s = ends_s;
        p->is_begin = is_begin;
        find_layers(b, is_begin, first);
        p->stages = cuts->count + 1;
        p->first[p->stages] = b->places;
        for (int s = 1; s < p->stages; s++) {
            while (b->source[p->first[s]] != cuts->first[s - 1]) {
                p->first[s]++;
            }
            GY_ASSERT(p->first[s] < b->places);
        }
        for (int32_t i = 0; i < b->graph->node_count; i++) {
            work_s[i] = b->place[i] >= 0 ? gy_stages_work(b->graph, i) : 0;
        }
        overlap(p, cuts);
    }
    gy_arena_free(&arena);
    return is_there ? GY_OK : GY_NOMEM;
}

gy_status gy_stages_balance(const gy_graph *graph, const bool *is_told, gy_stage_cuts *cuts)
{
    GY_ASSERT(graph->mesh.stages > 1);
    int32_t source_count = 0;
    gy_arena arena = {0};
    balance b = {.graph = graph, .is_told = is_told};
    for (int32_t i = 0; i < graph->node_count; i++) {
        source_count = GY_MAX(source_count, graph->nodes[i].mark.source + 1);
    }
    const size_t sources = (size_t)source_count + 2;
    b.place = gy_arena_alloc(&arena, ((size_t)graph->node_count + 1) * sizeof(int32_t));
    b.source = gy_arena_alloc(&arena, sources * sizeof(int32_t));
    b.work_s = gy_arena_alloc(&arena, sources * sizeof(double));
    b.cross_s = gy_arena_alloc(&arena, sources * sizeof(double));
    gy_status status = GY_NOMEM;
    if (b.place != NULL && b.source != NULL && b.work_s != NULL && b.cross_s != NULL) {
        number_places(&b, source_count);
        measure(&b);
        status = cut(&b, cuts);
        status = status >= 0 && graph->loss == 0 ? find_overlap(&b, cuts) : status;
    }
    gy_arena_free(&arena);
    return status;
}
