/* Goal: any cut of any graph into stages ends, with one rank's values and the same bits each
 * time; a parameter of several stages has one sum of its gradient; a failure is all ranks'. */
#include "graph/random_graph.h"
#include "graph/session_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gy_test.h"
#include "training_kit.h"

enum { VALUES_MAX = 512, TRIALS = 8, BATCH = 7, RUNS = 3 };

typedef struct outcome {
    double values[VALUES_MAX];
    int count;
} outcome;

/* One training on one mesh. */
typedef struct scene {
    const char *axes;
    uint64_t seed;
    int stages;
    bool is_sequential; /* nothing runs beside a message */
    gy_status (*run)(struct scene *scene, gy_mesh *mesh, outcome *got);
    outcome got[KIT_RANKS_MAX];
    int counted[KIT_RANKS_MAX];
} scene;

static gy_status run_rank(kit_rank *me)
{
    scene *s = me->arg;
    gy_mesh *mesh = NULL;
    GY_TRY(gy_mesh_new(me->comm, s->axes, &mesh));
    const gy_status status = s->run(s, mesh, &s->got[me->rank]);
    gy_error error;
    gy_error_take(&error, status);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static void play(scene *s, kit_rank members[KIT_RANKS_MAX])
{
    int ranks = 0;
    assert_ok(gy_mesh_places(s->axes, &ranks));
    memset(s->got, 0, sizeof(s->got));
    kit_run_ranks(ranks, run_rank, s, members);
}

static void assert_all_ok(const scene *s, const kit_rank *members)
{
    int ranks = 0;
    assert_ok(gy_mesh_places(s->axes, &ranks));
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("seed %llu, %s, rank %d: %s", (unsigned long long)s->seed, s->axes, rank,
                     members[rank].error.text);
        }
    }
}

static gy_status keep(outcome *got, gy_tensor *tensor)
{
    for (int64_t i = 0; i < gy_tensor_count(tensor) && got->count < VALUES_MAX; i++) {
        got->values[got->count++] = gy_tensor_get(tensor, i);
    }
    gy_tensor_drop(tensor);
    return GY_OK;
}

/* This rank's rows of a batch that is a function of the key. */
static gy_status rows_of(const gy_mesh *mesh, uint64_t key, gy_tensor **tensor)
{
    const int axis = gy_mesh_find(mesh, "data");
    const int rank = gy_mesh_rank(mesh, axis), ranks = gy_mesh_size(mesh, axis);
    const int64_t begin = gy_part_begin(BATCH, rank, ranks);
    const int64_t end = gy_part_begin(BATCH, rank + 1, ranks);
    GY_TRY(gy_tensor_new(NULL, GY_F64, (int64_t[]){end - begin, RANDOM_FEATURES}, 2, tensor));
    gy_random random = {.key = key};
    for (int64_t i = 0; i < (int64_t)BATCH * RANDOM_FEATURES; i++) {
        const double value = 2 * gy_random_unit(&random) - 1;
        if (i / RANDOM_FEATURES >= begin && i / RANDOM_FEATURES < end) {
            gy_tensor_set(*tensor, i - begin * RANDOM_FEATURES, value);
        }
    }
    return GY_OK;
}

/* By the seed: each node anywhere, every third one, or none, which is by cost. */
static gy_status put_on_stages(const scene *s, gy_graph *graph)
{
    gy_random random = {.key = s->seed * 31 + (uint64_t)s->stages};
    for (int32_t i = 0; i < graph->node_count && s->seed % 3 < 2; i++) {
        const int stage = (int)gy_random_below(&random, (uint64_t)s->stages);
        if (s->seed % 3 == 0 || i % 3 == 0) {
            GY_TRY(gy_stage((gy_node){graph, i, 0}, stage));
        }
    }
    return GY_OK;
}

static gy_status descend(random_graph *r, gy_node *fetches)
{
    gy_node gradients[RANDOM_PARAMETERS];
    GY_TRY(gy_op_gradients(r->loss, r->parameters, RANDOM_PARAMETERS, gradients));
    fetches[0] = r->loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        gy_node step = gy_op_mul(gradients[i], gy_graph_scalar(r->graph, GY_F64, 0.1));
        fetches[1 + i] = gradients[i];
        fetches[1 + RANDOM_PARAMETERS + i] =
            gy_op_assign(r->parameters[i], gy_op_sub(r->parameters[i], step));
    }
    return gy_graph_status(r->graph);
}

enum { FETCHES = 1 + 2 * RANDOM_PARAMETERS };

static gy_status train_random(gy_session *session, random_graph *r, const gy_node *fetches,
                              const gy_mesh *mesh, outcome *got)
{
    gy_tensor *x = NULL, *y = NULL;
    GY_TRY(rows_of(mesh, 1, &x));
    GY_TRY(rows_of(mesh, 2, &y));
    const gy_feed feeds[] = {{r->x, x}, {r->y, y}};
    gy_status status = GY_OK;
    for (int run = 0; status >= 0 && run < RUNS; run++) {
        gy_tensor *results[FETCHES];
        status = gy_session_run(session, feeds, 2, BATCH, fetches, FETCHES, results);
        for (int i = 0; status >= 0 && i < FETCHES; i++) {
            status = i <= RANDOM_PARAMETERS   ? keep(got, results[i])
                     : results[i] == NULL ? GY_OK
                                          : gy_fail(GY_STATE, "an assignment has a value");
        }
    }
    for (int i = 0; status >= 0 && i < RANDOM_PARAMETERS; i++) {
        gy_tensor *whole = NULL;
        status = gy_session_gather(
            session, gy_graph_at(r->graph, (gy_value){r->parameters[i].index, 0})->name,
            &whole);
        status = status >= 0 ? keep(got, whole) : status;
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    return status;
}

static gy_status run_random(scene *s, gy_mesh *mesh, outcome *got)
{
    random_graph r;
    gy_node fetches[FETCHES];
    gy_session *session = NULL;
    random_graph_make(&r, s->seed, false, 16);
    gy_status status = descend(&r, fetches);
    status = status >= 0 && s->stages > 1 ? put_on_stages(s, r.graph) : status;
    if (status >= 0) {
        status = gy_session_new(r.graph,
                                &(gy_session_options){.mesh = mesh,
                                                      .workers = 1,
                                                      .seed = 9,
                                                      .has_no_overlap = s->is_sequential},
                                &session);
    }
    if (status >= 0 && s->seed % 2 == 0) {
        status = gy_session_decide(session, BATCH, fetches, FETCHES);
    }
    status = status >= 0 ? train_random(session, &r, fetches, mesh, got) : status;
    gy_error error;
    gy_error_take(&error, status);
    gy_session_free(session);
    gy_graph_free(r.graph);
    return gy_error_raise(&error);
}

static void assert_same(const scene *alone, const scene *other, int rank)
{
    const outcome *one = &alone->got[0], *all = &other->got[rank];
    assert_int_equal(one->count, all->count);
    for (int i = 0; i < one->count; i++) {
        if (!(fabs(one->values[i] - all->values[i]) <= 1e-11 * fmax(1, fabs(one->values[i])))) {
            fail_msg("seed %llu, value %d: %.17g on one rank, %.17g on rank %d of %s",
                     (unsigned long long)other->seed, i, one->values[i], all->values[i], rank,
                     other->axes);
        }
    }
}

static void check_meshes(const char *const *meshes, const int *stages, size_t count,
                         uint64_t trial)
{
    static scene alone, together, again;
    static kit_rank members[KIT_RANKS_MAX];
    alone = (scene){.axes = "data=1", .seed = trial, .run = run_random, .stages = 1};
    play(&alone, members);
    assert_all_ok(&alone, members);
    for (size_t i = 0; i < count; i++) {
        int ranks = 0;
        assert_ok(gy_mesh_places(meshes[i], &ranks));
        together = (scene){.axes = meshes[i],
                           .seed = trial,
                           .run = run_random,
                           .stages = stages[i],
                           .is_sequential = (trial + i) % 4 == 3};
        again = together;
        again.is_sequential = false;
        play(&together, members);
        assert_all_ok(&together, members);
        play(&again, members);
        assert_all_ok(&again, members);
        for (int rank = 0; rank < ranks; rank++) {
            assert_same(&alone, &together, rank);
            assert_memory_equal(&together.got[rank], &again.got[rank], sizeof(outcome));
        }
    }
}

GY_TEST(random_graphs_cut_anywhere_end_with_one_ranks_values)
{
    static const char *const meshes[] = {"pipe=2", "pipe=3", "pipe=4"};
    static const int stages[] = {2, 3, 4};
    const uint64_t seed = gy_test_seed();
    const long count = gy_test_cases(TRIALS);
    printf("%ld random graphs\n", count);
    for (uint64_t trial = seed; trial < seed + (uint64_t)count; trial++) {
        check_meshes(meshes, stages, GY_COUNT(meshes), trial);
    }
}

GY_TEST(stages_go_with_rows_and_operators_in_parts)
{
    static const char *const meshes[] = {"data=2,pipe=2", "pipe=2,model=2", "model=2,pipe=3"};
    static const int stages[] = {2, 2, 3};
    const uint64_t seed = gy_test_seed();
    for (uint64_t trial = seed; trial < seed + (uint64_t)gy_test_cases(3); trial++) {
        check_meshes(meshes, stages, GY_COUNT(meshes), trial);
    }
}

GY_TEST_MAIN(NULL, NULL)
