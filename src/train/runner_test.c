/* Goal: micro-batches by a schedule give by hand what the whole batch gives, a failure in one
 * stage is all ranks', and what a schedule cannot run is refused by its names. */
#include "graph/graph.h"
#include "graph/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gy_test.h"
#include "training_kit.h"

enum { MICROS = 10 };

/* What one rank's graph runs of each micro-batch, and how. */
typedef struct scene {
    const char *schedule; /* NULL: one after the other */
    const char *lists;    /* instead of a schedule */
    int micros;
    int64_t rows[MICROS]; /* of each */
    int32_t token;
    bool has_twins;       /* the second stage has one slot, micro-batches of one size */
    bool goes_back;       /* the second half of the model is in the first stage */
    bool assigns_at_once; /* each micro-batch changes the table */
    double got[2][3];     /* by rank */
} scene;

/* A table that is looked up in the first stage and multiplied with in the second; its sum of
 * gradients. */
typedef struct tied {
    gy_graph *graph;
    gy_node e, x, y, share, fetches[2], update[2];
} tied;

static gy_status build(const scene *s, gy_tensor *first, tied *t)
{
    GY_TRY(gy_graph_new(&t->graph));
    gy_graph *g = t->graph;
    t->e = gy_graph_parameter(g, "E", GY_F64, (int64_t[]){2, 1}, 2,
                              (gy_init){GY_INIT_TENSOR, 0, first});
    gy_node sum = gy_graph_parameter(g, "sum", GY_F64, (int64_t[]){2, 1}, 2, gy_init_zeros());
    t->x = gy_graph_input(g, "token", GY_I32, (int64_t[]){GY_BATCH}, 1);
    t->y = gy_graph_input(g, "label", GY_I32, (int64_t[]){GY_BATCH}, 1);
    t->share = gy_graph_input(g, "share", GY_F64, NULL, 0);
    gy_node h = gy_node_named(gy_op_embedding(t->e, t->x), "lookup");
    gy_node logits = gy_node_named(gy_op_matmul_transposed(h, false, t->e, true), "head");
    gy_node loss = gy_op_cross_entropy(logits, t->y), gradient = gy_op_gradient(loss, t->e);
    gy_node total = gy_op_add(sum, gy_op_mul(gradient, t->share));
    t->fetches[0] = loss;
    t->fetches[1] = s->assigns_at_once ? gy_op_assign(t->e, gy_op_sub(t->e, gradient))
                                       : gy_op_assign(sum, total);
    t->update[0] = gy_op_assign(t->e, gy_op_sub(t->e, sum));
    GY_TRY(gy_stage(h, s->goes_back ? 1 : 0));
    GY_TRY(gy_stage(logits, s->goes_back ? 0 : 1));
    return gy_graph_status(g);
}

/* All rows are alike: token and label 1. */
static gy_status run_all(const scene *s, gy_session *session, const tied *t, double got[3])
{
    gy_tensor *tensors[MICROS][3] = {{NULL}}, *results[2 * MICROS] = {NULL}, *none = NULL;
    gy_feed feeds[MICROS][3];
    gy_micro_batch micros[MICROS];
    gy_pipe_schedule *schedule = NULL;
    int64_t all = 0, first = 0;
    for (int k = 0; k < s->micros; k++) {
        all += s->rows[k];
    }
    for (int k = 0; k < s->micros; k++) {
        const int64_t rows = GY_MAX(s->rows[k], 0);
        GY_TRY(gy_tensor_zeros(NULL, GY_I32, &rows, 1, &tensors[k][0]));
        GY_TRY(gy_tensor_zeros(NULL, GY_I32, &rows, 1, &tensors[k][1]));
        GY_TRY(gy_tensor_zeros(NULL, GY_F64, NULL, 0, &tensors[k][2]));
        for (int64_t i = 0; i < rows; i++) {
            gy_tensor_set(tensors[k][0], i, k == s->micros - 1 ? s->token : 0);
            gy_tensor_set(tensors[k][1], i, 1);
        }
        gy_tensor_set(tensors[k][2], 0, (double)rows / (double)all);
        const gy_node nodes[] = {t->x, t->y, t->share};
        for (int i = 0; i < 3; i++) {
            feeds[k][i] = (gy_feed){nodes[i], tensors[k][i]};
        }
        micros[k] = (gy_micro_batch){feeds[k], 3, s->rows[k], first};
        first += rows;
    }
    const gy_pipe_query query = {.schedule = s->schedule, .ranks = 2, .micros = s->micros};
    gy_status status = s->lists != NULL
                           ? gy_pipe_parse(s->lists, strlen(s->lists), "lists", &schedule)
                       : s->schedule != NULL ? gy_pipe_plan(&query, &schedule)
                                             : GY_OK;
    const gy_micro_run run =
        GY_OPTIONS(gy_micro_run, .micros = micros, .count = s->micros, .fetches = t->fetches,
                   .fetch_count = 2, .schedule = schedule);
    status = status >= 0 ? gy_session_run_micros(session, &run, results) : status;
    status = status >= 0 && !s->assigns_at_once
                 ? gy_session_run(session, NULL, 0, 1, t->update, 1, &none)
                 : status;
    got[0] = 0;
    for (int k = 0; k < s->micros && status >= 0; k++) {
        got[0] += results[2 * k] != NULL
                      ? gy_tensor_get(results[2 * k], 0) * gy_tensor_get(tensors[k][2], 0)
                      : 0;
    }
    gy_error error;
    gy_error_take(&error, status);
    for (int i = 0; i < 2 * MICROS; i++) {
        gy_tensor_drop(results[i]);
    }
    for (int k = 0; k < s->micros; k++) {
        for (int i = 0; i < 3; i++) {
            gy_tensor_drop(tensors[k][i]);
        }
    }
    gy_pipe_free(schedule);
    return gy_error_raise(&error);
}

/* The second of two stages holds one micro-batch at a time, and pushes the next meanwhile: two
 * instances of one program, in one memory but for what is fetched. */
static void check_twins(const gy_session *session)
{
    const gy_program *first = gy_pipe_program_at(session, 0);
    const gy_program *second = gy_pipe_program_at(session, 1);
    GY_ASSERT(first != NULL && second != NULL && gy_pipe_program_at(session, 2) == NULL);
    GY_ASSERT(second->twin == first && second->graph == first->graph);
    const gy_value loss = first->graph->roots[0].value;
    const int32_t fetched = first->memory.of_value[gy_graph_value(first->graph, loss)];
    int shared = 0;
    for (int32_t i = 0; i < first->memory.buffer_count; i++) {
        const bool is_ours = first->memory.buffers[i].kind == GY_STORAGE_OWN ||
                             first->memory.buffers[i].kind == GY_STORAGE_SHARED;
        const bool is_one = first->vars[i] == second->vars[i];
        GY_ASSERT(i == fetched || !is_ours || first->memory.buffers[i].is_kept || is_one);
        GY_ASSERT(is_one == (first->data[i] == second->data[i]) || !is_ours);
        shared += is_ours && is_one ? 1 : 0;
    }
    GY_ASSERT(shared > 0 && first->vars[fetched] != second->vars[fetched]);
    GY_ASSERT(first->data[fetched] != second->data[fetched]);
}

static gy_status run_rank(kit_rank *me)
{
    scene *s = me->arg;
    const double values[] = {1, 2};
    gy_mesh *mesh = NULL;
    gy_tensor *first = NULL;
    gy_session *session = NULL;
    tied t = {.graph = NULL};
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    GY_TRY(gy_tensor_from(NULL, GY_F64, (int64_t[]){2, 1}, 2, values, &first));
    gy_status status = build(s, first, &t);
    status = status >= 0
                 ? gy_session_new(t.graph, &(gy_session_options){.mesh = mesh, .workers = 1},
                                  &session)
                 : status;
    status = status >= 0 ? run_all(s, session, &t, s->got[me->rank]) : status;
    if (status >= 0 && s->has_twins && me->rank == 1) {
        check_twins(session);
    }
    gy_tensor *here = status >= 0 ? gy_session_parameter(session, "E") : NULL;
    for (int i = 0; i < 2; i++) {
        s->got[me->rank][1 + i] = here != NULL ? gy_tensor_get(here, i) : NAN;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_session_free(session);
    gy_graph_free(t.graph);
    gy_tensor_drop(first);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

GY_TEST(a_tied_head_by_hand)
{
    static const scene scenes[] = {
        {.micros = 3, .rows = {1, 0, 1}},
        {.schedule = "gpipe", .micros = 3, .rows = {1, 1, 0}},
        {.schedule = "1f1b", .micros = 4, .rows = {2, 1, 0, 2}},
        {.schedule = "zb-h1", .micros = 4, .rows = {1, 1, 1, 1}},
        {.schedule = "1f1b", .micros = 1, .rows = {1}},
        {.schedule = "1f1b", .micros = 4, .rows = {1, 1, 1, 1}, .has_twins = true},
        {.schedule = "gpipe", .micros = 10, .rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
        {.schedule = "zb-h1", .micros = 10, .rows = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
        {.lists = "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", .micros = 2, .rows = {1, 2}},
    };
    for (size_t i = 0; i < GY_COUNT(scenes); i++) {
        scene s = scenes[i];
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(2, run_rank, &s, members);
        for (int rank = 0; rank < 2; rank++) {
            if (members[rank].error.status < 0) {
                fail_msg("case %zu, rank %d: %s", i, rank, members[rank].error.text);
            }
            assert_true(fabs(s.got[rank][0] - log1p(exp(-1))) < 1e-12);
            assert_true(fabs(s.got[rank][1] - 1) < 1e-5);
            assert_true(fabs(s.got[rank][2] - 2.26894) < 1e-5);
        }
    }
}

static void refuse(scene s, gy_status status, const char *words)
{
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, run_rank, &s, members);
    for (int rank = 0; rank < 2; rank++) {
        if ((status < 0 && members[rank].error.status != status) ||
            members[rank].error.status >= 0 ||
            strstr(members[rank].error.text, words) == NULL) {
            fail_msg("rank %d, '%s' expected: %s", rank, words, members[rank].error.text);
        }
    }
}

/* The token of the last micro-batch is no row of the table, which the first stage alone looks
 * up: the second has the others under way. */
GY_TEST(a_failure_in_a_micro_batch_is_all_ranks)
{
    static const char *const names[] = {"gpipe", "1f1b", "zb-h1"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        refuse((scene){.schedule = names[i], .micros = 4, .rows = {1, 1, 1, 1}, .token = 7}, 0,
               "gather");
    }
}

GY_TEST(what_a_schedule_cannot_run_is_named)
{
    scene back = {.micros = 2, .rows = {1, 1}, .goes_back = true};
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, run_rank, &back, members); /* node by node it runs */
    assert_int_equal(members[0].error.status, GY_OK);
    back.schedule = "1f1b";
    refuse(back, GY_ARG, "in the forward pass stage 0 reads lookup of stage 1, for node head");
    refuse((scene){.schedule = "1f1b", .micros = 2, .rows = {1, 1}, .assigns_at_once = true},
           GY_ARG, "parameter E is assigned for each, and node");
    refuse((scene){.lists = "0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n", .micros = 2, .rows = {1, 1}},
           GY_STATE, "rank 1 action");
    refuse((scene){.micros = 2, .rows = {1, -1}}, GY_ARG, "micro-batch 1 has -1 rows");
    refuse((scene){.schedule = "1f1b", .micros = 2, .rows = {-1, 2}}, GY_ARG,
           "micro-batch 0 has -1 rows");
    refuse((scene){.lists = "0F0,0B0\n1F0,1B0\n", .micros = 2, .rows = {1, 1}}, GY_ARG,
           "a schedule of 2 ranks, 2 stages and 1 micro-batches for pipe=2");
}

GY_TEST_MAIN(NULL, NULL)
