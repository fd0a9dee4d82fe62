/* Goal: the placement of small graphs costs at most 1.05 times the best one, which is found by
 * trying everything; what a node cannot do better than another choice is not missed.
 */
#include "graph/place/place_priv.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { NODES_MAX = 16, INNER_MAX = 6 };

static const double bar = 1.05;

/* ---- random graphs ---- */

typedef struct drawn {
    gy_graph *graph;
    gy_random random;
    gy_node values[NODES_MAX];
    int count;
} drawn;

static int below(drawn *d, int bound)
{
    return (int)gy_random_below(&d->random, (uint64_t)bound);
}

static int64_t size_of(gy_node node, int dim)
{
    return gy_graph_type(node.graph, (gy_value){node.index, node.output})->sizes[dim];
}

/* One operator over what there is; the exponential where two values do not fit. */
static gy_node draw_node(drawn *d)
{
    const gy_node a = d->values[below(d, d->count)], b = d->values[below(d, d->count)];
    const bool fits = size_of(a, 0) == size_of(b, 0) && size_of(a, 1) == size_of(b, 1);
    switch (below(d, 7)) {
    case 0:
    case 1:
        return size_of(a, 1) == size_of(b, 0) ? gy_op_matmul(a, b) : gy_op_exp(a);
    case 2:
        return fits ? gy_op_add(a, b) : gy_op_exp(a);
    case 3:
        return gy_op_transpose(a, (int[]){1, 0});
    case 4:
        return gy_op_softmax(a, 1);
    case 5:
        return fits ? gy_op_mul(a, gy_op_sum(b, 2, true)) : gy_op_exp(a);
    default:
        return gy_op_exp(a);
    }
}

static gy_graph *draw(drawn *d, uint64_t seed, const gy_mesh *mesh, int inner)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 512, 2048};
    *d = (drawn){.graph = kit_graph(), .random = {.key = seed}};
    const int64_t size = sizes[below(d, (int)GY_COUNT(sizes))];
    const int64_t shape[] = {size, size};
    const int parameters = 1 + below(d, 2);
    for (int i = 0; i < 1 + parameters; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%c", i == 0 ? 'x' : 'u' + i);
        d->values[d->count++] =
            i == 0 ? gy_graph_input(d->graph, name, GY_F32,
                                    (int64_t[]){below(d, 2) == 0 ? GY_BATCH : size, size}, 2)
                   : gy_graph_parameter(d->graph, name, GY_F32, shape, 2, gy_init_zeros());
    }
    while (d->graph->node_count < 1 + parameters + inner) {
        d->values[d->count] = draw_node(d);
        assert_ok(gy_graph_status(d->graph));
        d->count++;
    }
    gy_value fetches[2] = {{d->values[d->count - 1].index, 0}};
    const int fetch_count = d->count > 1 + parameters + 1 && below(d, 3) == 0 ? 2 : 1;
    fetches[1] = (gy_value){d->values[d->count - 2].index, 0};
    gy_graph *bound = NULL;
    assert_ok(gy_bind(d->graph, mesh, size, fetches, fetch_count, &bound));
    return bound;
}

/* ---- what a placement costs ---- */

static int32_t spot_number(gy_placer *placer, int32_t kin, const gy_spot *spot)
{
    for (int32_t i = 0; i < placer->kins[kin].spot_count; i++) {
        if (gy_spot_is(&placer->pass.in->mesh, &placer->kins[kin].spots[i], spot)) {
            return i;
        }
    }
    fail_msg("a spot that no node has");
    return -1;
}

/* Moves of one value that is made at `from` and kept at `kept`, each wanted spot reached from
 * the nearest that there is. */
static double value_cost(gy_placer *placer, int32_t value, int32_t from, int32_t kept,
                         const int32_t *chosen)
{
    const gy_graph *in = placer->pass.in;
    const int32_t kin = placer->kin_of[value];
    int32_t have[64] = {from}, count = 1;
    double sum = 0;
    int32_t wanted[64] = {kept}, wanted_count = 1;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_candidates *all = &placer->candidates[i];
        for (int k = 0; k < in->nodes[i].input_count; k++) {
            if (gy_graph_value(in, in->nodes[i].inputs[k]) == value) {
                wanted[wanted_count++] = gy_candidate_spots(all, chosen[i])[k];
            }
        }
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_spot spot;
        memcpy(spot.along, in->roots[i].placement, sizeof(spot.along));
        if (gy_graph_value(in, in->roots[i].value) == value) {
            wanted[wanted_count++] = spot_number(placer, kin, &spot);
        }
    }
    for (int32_t w = 0; w < wanted_count; w++) {
        double nearest = INFINITY;
        for (int32_t h = 0; h < count; h++) {
            nearest = fmin(nearest, gy_kin_route(placer, kin, have[h], wanted[w]));
        }
        sum += nearest;
        have[count++] = wanted[w];
    }
    return sum < INFINITY ? sum * placer->exposure[value] : sum;
}

/* Of all nodes at their choices and all moves, every value kept where that is cheapest. */
static double whole_cost(gy_placer *placer, const int32_t *chosen, bool is_kept)
{
    const gy_graph *in = placer->pass.in;
    double sum = 0;
    for (int32_t i = 0; i < in->node_count && sum < INFINITY; i++) {
        const gy_candidates *all = &placer->candidates[i];
        sum += all->cost_s[chosen[i]];
        for (int32_t k = 0; k < in->nodes[i].output_count; k++) {
            const int32_t value = in->nodes[i].first_value + k;
            const gy_kin *kin = &placer->kins[placer->kin_of[value]];
            const int32_t made =
                gy_candidate_spots(all, chosen[i])[in->nodes[i].input_count + k];
            double best = INFINITY;
            if (is_kept) {
                best = value_cost(
                    placer, value, made,
                    spot_number(placer, placer->kin_of[value], &placer->kept[value]), chosen);
            }
            for (int32_t spot = 0; !is_kept && spot < kin->spot_count; spot++) {
                best = fmin(best, value_cost(placer, value, made, spot, chosen));
            }
            sum += best;
        }
    }
    return sum;
}

/* The least cost of all choices, `work` of them at most; 0: there are more. */
static double best_of_all(gy_placer *placer, int64_t work)
{
    const gy_graph *in = placer->pass.in;
    int32_t chosen[NODES_MAX] = {0};
    double best = INFINITY;
    int64_t count = 1;
    for (int32_t i = 0; i < in->node_count; i++) {
        count *= placer->candidates[i].count;
        if (count > work) {
            return 0;
        }
    }
    for (int32_t at = 0; at < in->node_count;) {
        best = fmin(best, whole_cost(placer, chosen, false));
        for (at = 0; at < in->node_count && ++chosen[at] == placer->candidates[at].count;
             at++) {
            chosen[at] = 0;
        }
    }
    return best;
}

/* ---- the tests ---- */

typedef struct tally {
    int cases, equal, skipped;
    double most;
} tally;

static void try_graph(uint64_t seed, tally *t)
{
    static const gy_links links[] = {{0},
                                     {.alpha = 1e-15, .beta = 1e-18, .gamma = 1e-18},
                                     {.alpha = 5e-5, .beta = 1e-9, .gamma = 1e-10}};
    gy_random random = {.key = seed ^ 0x5eed};
    const bool is_grid = gy_random_below(&random, 2) == 0;
    gy_mesh mesh = {.axes = is_grid ? 2 : 1};
    for (int axis = 0; axis < mesh.axes; axis++) {
        mesh.sizes[axis] = is_grid ? 2 : 2 + (int)gy_random_below(&random, 3);
        mesh.kinds[axis] = (gy_axis_kind)gy_random_below(&random, GY_AXIS_KINDS);
        mesh.links[axis] = links[gy_random_below(&random, GY_COUNT(links))];
    }
    if (is_grid && mesh.kinds[0] == mesh.kinds[1]) {
        mesh.kinds[1] = GY_AXIS_AUTO;
    }
    drawn d;
    gy_graph *bound = draw(&d, seed, &mesh, is_grid ? 4 : INNER_MAX);
    gy_placer all = {.keeps_all = true}, placer = {.keeps_all = false};
    assert_ok(gy_pass_begin(&all.pass, bound));
    assert_ok(gy_pass_begin(&placer.pass, bound));
    assert_ok(gy_placer_decide(&all));
    assert_ok(gy_placer_decide(&placer));
    const double best = best_of_all(&all, gy_test_cases(1) > 1 ? 2000000 : 60000);
    if (best > 0) {
        const double got = whole_cost(&placer, placer.chosen, true);
        t->cases++;
        t->equal += got <= best * (1 + 1e-9) ? 1 : 0;
        t->most = fmax(t->most, got / best);
        if (!(got <= best * bar)) {
            fail_msg("seed %llu: %g s, the best placement takes %g s", (unsigned long long)seed,
                     got, best);
        }
    } else {
        t->skipped++;
    }
    gy_graph *ended;
    assert_int_equal(gy_pass_end(&all.pass, GY_STATE, &ended), GY_STATE);
    assert_int_equal(gy_pass_end(&placer.pass, GY_STATE, &ended), GY_STATE);
    gy_placer_free(&all);
    gy_placer_free(&placer);
    gy_graph_free(bound);
    gy_graph_free(d.graph);
}

GY_TEST(small_graphs_are_placed_as_well_as_can_be)
{
    const uint64_t seed = gy_test_seed();
    tally t = {.most = 1};
    for (int i = 0; t.cases < gy_test_cases(200); i++) {
        try_graph(seed + (uint64_t)i, &t);
        assert_true(i < 20 * gy_test_cases(200));
    }
    printf("%d graphs: %d placed at the least cost, the others at most %.3f times it; %d have "
           "too many placements to try all\n",
           t.cases, t.equal, t.most, t.skipped);
}

GY_TEST_MAIN(NULL, NULL)
