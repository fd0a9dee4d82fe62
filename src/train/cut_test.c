/* Goal: any cut of any graph into stages ends, with one rank's values and the same bits each
 * time; a parameter of several stages has one sum of its gradient; a failure is all ranks'. */
#include "graph/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "delays_kit.h"
#include "gy_test.h"
#include "training_kit.h"

enum { VALUES_MAX = 512, TRIALS = 4, LATE_TRIALS = 10, BATCH = 7, RUNS = 3 };

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
    bool is_late;       /* messages are, and overtake each other */
    uint64_t overtaken; /* such messages */
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
    if (s->is_late) {
        static delays late;
        gy_transport *transports[DELAYS_RANKS];
        delays_open(&late, s->seed, ranks, transports);
        kit_run_on(transports, NULL, ranks, run_rank, s, members);
        s->overtaken = late.overtaken;
    } else {
        kit_run_ranks(ranks, run_rank, s, members);
    }
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
            status = i <= RANDOM_PARAMETERS ? keep(got, results[i])
                     : results[i] == NULL   ? GY_OK
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
        status = gy_session_new(
            r.graph,
            &(gy_session_options){
                .mesh = mesh, .workers = 1, .seed = 9, .has_no_overlap = s->is_sequential},
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

/* Nothing stands in the order of its messages, so that none needs another to come first. */
GY_TEST(messages_that_are_late_and_overtake_each_other_change_nothing)
{
    static const char *const meshes[] = {"pipe=2", "pipe=3", "pipe=4", "data=2,pipe=2",
                                         "pipe=2,model=2"};
    static const int stages[] = {2, 3, 4, 2, 2};
    static scene alone, late;
    static kit_rank members[KIT_RANKS_MAX];
    const uint64_t seed = gy_test_seed();
    const long count = gy_test_cases(LATE_TRIALS);
    uint64_t overtaken = 0;
    for (uint64_t trial = seed; trial < seed + (uint64_t)count; trial++) {
        const size_t i = trial % GY_COUNT(meshes);
        int ranks = 0;
        assert_ok(gy_mesh_places(meshes[i], &ranks));
        alone = (scene){.axes = "data=1", .seed = trial, .run = run_random, .stages = 1};
        play(&alone, members);
        assert_all_ok(&alone, members);
        late = (scene){.axes = meshes[i],
                       .seed = trial,
                       .run = run_random,
                       .stages = stages[i],
                       .is_late = true};
        play(&late, members);
        assert_all_ok(&late, members);
        for (int rank = 0; rank < ranks; rank++) {
            assert_same(&alone, &late, rank);
        }
        overtaken += late.overtaken;
    }
    printf("soak: %ld graphs, %llu messages overtook others\n", count,
           (unsigned long long)overtaken);
    assert_true(overtaken > (uint64_t)count);
}

/* ---- by hand ---- */

/* A table that is looked up in the first stage and multiplied with in the second. */
static gy_status run_tied(scene *s, gy_mesh *mesh, outcome *got)
{
    gy_graph *g = NULL;
    gy_session *session = NULL;
    gy_tensor *first = NULL, *token = NULL, *label = NULL, *results[2] = {NULL};
    const double values[] = {1, 2};
    const int32_t ids[] = {(int32_t)s->seed, 1};
    GY_TRY(gy_graph_new(&g));
    GY_TRY(gy_tensor_from(NULL, GY_F64, (int64_t[]){2, 1}, 2, values, &first));
    GY_TRY(gy_tensor_from(NULL, GY_I32, (int64_t[]){1}, 1, &ids[0], &token));
    GY_TRY(gy_tensor_from(NULL, GY_I32, (int64_t[]){1}, 1, &ids[1], &label));
    gy_node e = gy_graph_parameter(g, "E", GY_F64, (int64_t[]){2, 1}, 2,
                                   (gy_init){GY_INIT_TENSOR, 0, first});
    gy_node x = gy_graph_input(g, "token", GY_I32, (int64_t[]){1}, 1);
    gy_node y = gy_graph_input(g, "label", GY_I32, (int64_t[]){1}, 1);
    gy_node h = gy_op_embedding(e, x);
    gy_node logits = gy_node_named(gy_op_matmul_transposed(h, false, e, true), "head");
    gy_node loss = gy_op_cross_entropy(logits, y), gradient = gy_op_gradient(loss, e);
    gy_node fetches[] = {loss, gy_op_assign(e, gy_op_sub(e, gradient))};
    const char *names[] = {"head"};
    gy_status status = gy_graph_cut(g, names, s->stages - 1);
    status = status < 0 ? status
                        : gy_session_new(g, &(gy_session_options){.mesh = mesh, .workers = 1},
                                         &session);
    const gy_feed feeds[] = {{x, token}, {y, label}};
    status = status < 0 ? status : gy_session_run(session, feeds, 2, 1, fetches, 2, results);
    if (status >= 0) {
        status = keep(got, results[0]);
        gy_tensor *here = gy_session_parameter(session, "E");
        got->values[got->count++] = here != NULL ? gy_tensor_get(here, 0) : NAN;
        got->values[got->count++] = here != NULL ? gy_tensor_get(here, 1) : NAN;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_session_free(session);
    gy_graph_free(g);
    gy_tensor_drop(first);
    gy_tensor_drop(token);
    gy_tensor_drop(label);
    return gy_error_raise(&error);
}

GY_TEST(a_tied_head_has_one_gradient_in_two_stages)
{
    static scene s;
    kit_rank members[KIT_RANKS_MAX];
    s = (scene){.axes = "pipe=2", .run = run_tied, .stages = 2};
    play(&s, members);
    assert_all_ok(&s, members);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(fabs(s.got[rank].values[0] - log1p(exp(-1))) < 1e-12);
        assert_true(fabs(s.got[rank].values[1] - 1) < 1e-5);
        assert_true(fabs(s.got[rank].values[2] - 2.26894) < 1e-5);
    }
}

/* The token is no row of the table, which the first stage alone looks up. */
GY_TEST(a_failure_of_one_stage_is_all_ranks)
{
    static scene s;
    kit_rank members[KIT_RANKS_MAX];
    s = (scene){.axes = "pipe=2", .run = run_tied, .stages = 2, .seed = 7};
    play(&s, members);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(members[rank].error.status < 0);
        if (strstr(members[rank].error.text, "7") == NULL ||
            strstr(members[rank].error.text, "gather") == NULL) {
            fail_msg("rank %d: %s", rank, members[rank].error.text);
        }
    }
}

/* Gradients 3 and 4, each in a stage, of norm 5. */
static gy_status run_clipped(scene *s, gy_mesh *mesh, outcome *got)
{
    gy_graph *g = NULL;
    gy_session *session = NULL;
    gy_node w[2], parts[2], gradients[2], fetches[2];
    gy_tensor *results[2] = {NULL};
    GY_TRY(gy_graph_new(&g));
    for (int i = 0; i < 2; i++) {
        w[i] = gy_graph_parameter(g, i == 0 ? "a" : "b", GY_F64, NULL, 0, gy_init_zeros());
        parts[i] = gy_op_mul(w[i], gy_graph_scalar(g, GY_F64, 3 + i));
        gradients[i] = w[i];
    }
    gy_status status = gy_stage(parts[0], 0);
    status = status < 0 ? status : gy_stage(parts[1], s->stages - 1);
    status =
        status < 0 ? status : gy_op_gradients(gy_op_add(parts[0], parts[1]), w, 2, gradients);
    gy_node total =
        gy_op_add(gy_op_mul(gradients[0], gradients[0]), gy_op_mul(gradients[1], gradients[1]));
    gy_node norm = gy_op_add(gy_op_sqrt(total), gy_graph_scalar(g, GY_F64, 1e-6));
    gy_node scale = gy_op_minimum(gy_graph_scalar(g, GY_F64, 1),
                                  gy_op_div(gy_graph_scalar(g, GY_F64, 2.5), norm));
    for (int i = 0; i < 2; i++) {
        fetches[i] = gy_op_assign(w[i], gy_op_mul(gradients[i], scale));
    }
    status = status < 0 ? status
                        : gy_session_new(g, &(gy_session_options){.mesh = mesh, .workers = 1},
                                         &session);
    status = status < 0 ? status : gy_session_run(session, NULL, 0, 1, fetches, 2, results);
    for (int i = 0; i < 2 && status >= 0; i++) {
        gy_tensor *whole = NULL;
        status = gy_session_gather(session, i == 0 ? "a" : "b", &whole);
        status = status < 0 ? status : keep(got, whole);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_session_free(session);
    gy_graph_free(g);
    return gy_error_raise(&error);
}

GY_TEST(the_norm_is_of_all_stages)
{
    static scene s;
    kit_rank members[KIT_RANKS_MAX];
    s = (scene){.axes = "pipe=2", .run = run_clipped, .stages = 2};
    play(&s, members);
    assert_all_ok(&s, members);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(fabs(s.got[rank].values[0] - 1.5) < 1e-6);
        assert_true(fabs(s.got[rank].values[1] - 2) < 1e-6);
    }
}

/* ---- what is no cut ---- */

/* Three stages of one node; a stage that the mesh has not. */
static gy_status run_refused(scene *s, gy_mesh *mesh, outcome *got)
{
    (void)got;
    gy_graph *g = NULL;
    gy_session *session = NULL;
    gy_tensor *result = NULL;
    GY_TRY(gy_graph_new(&g));
    gy_node w = gy_graph_parameter(g, "w", GY_F64, NULL, 0, gy_init_zeros());
    gy_node loss = gy_node_named(gy_op_exp(w), "loss"), gradient = gy_op_gradient(loss, w);
    gy_status status = s->seed == 1 ? gy_stage(loss, s->stages) : GY_OK;
    status = status < 0 ? status
                        : gy_session_new(g, &(gy_session_options){.mesh = mesh, .workers = 1},
                                         &session);
    status = status < 0 ? status : gy_session_run(session, NULL, 0, 1, &gradient, 1, &result);
    gy_error error;
    gy_error_take(&error, status);
    gy_tensor_drop(result);
    gy_session_free(session);
    gy_graph_free(g);
    return gy_error_raise(&error);
}

GY_TEST(what_cannot_be_cut_is_refused_on_all_ranks)
{
    static const char *const words[] = {
        "pipe: 3 stages of a model that has only 1 places where",
        "node loss is of stage 3, the mesh has stages 0 to 2"};
    static scene s;
    kit_rank members[KIT_RANKS_MAX];
    for (uint64_t seed = 0; seed < 2; seed++) {
        s = (scene){.axes = "pipe=3", .run = run_refused, .stages = 3, .seed = seed};
        play(&s, members);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(members[rank].error.status, GY_ARG);
            if (strstr(members[rank].error.text, words[seed]) == NULL) {
                fail_msg("%s", members[rank].error.text);
            }
        }
    }
}

GY_TEST(names_of_a_cut_are_those_of_nodes)
{
    gy_graph *g = NULL;
    assert_ok(gy_graph_new(&g));
    gy_node w = gy_graph_parameter(g, "weight", GY_F64, NULL, 0, gy_init_zeros());
    gy_node inner = gy_node_named(gy_op_exp(w), "inner");
    gy_node outer = gy_node_named(gy_op_tanh(inner), "outer");
    gy_node beside = gy_node_named(gy_op_exp(inner), "beside");
    assert_true(beside.index >= 0 && gy_op_gradient(outer, w).index >= 0);
    const struct {
        const char *names[2];
        int count;
        const char *words;
    } cases[] = {
        {{"utter"},
         1,
         "no node or parameter 'utter'; the nearest names where a stage may begin: outer, "
         "inner"},
        {{"beside"}, 1, "no gradient passes through node 'beside'"},
        {{"inner", "weight"}, 2, "two stages begin at node 'inner'"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_graph_cut(g, cases[i].names, cases[i].count), GY_ARG);
        if (strstr(gy_error_text(), cases[i].words) == NULL) {
            fail_msg("%s", gy_error_text());
        }
    }
    assert_status(gy_graph_cut(g, cases[0].names, 64), GY_ARG);
    assert_status(gy_stage(outer, 64), GY_ARG);
    assert_status(gy_stage(outer, -1), GY_ARG);
    assert_ok(gy_graph_cut(g, (const char *[]){"outer", "weight"}, 2));
    assert_int_equal(g->cuts.first[0], inner.index);
    assert_int_equal(g->cuts.first[1], outer.index);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
