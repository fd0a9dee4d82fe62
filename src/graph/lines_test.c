/* Goal: softmax, layer norm, cross entropy and argmax over a dimension that a mesh cuts give
 * what one rank gives; where it pays, their lines are not gathered.
 */
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { RANKS_MAX = 4, RANK = 3, CLASSES_MIN = 61, VALUES_MAX = 2048, TRIALS = 10 };

typedef enum form { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, CROSS_ENTROPY, ARGMAX, FORMS } form;

static const gy_op *const form_rows[] = {&gy_ops_row_softmax, &gy_ops_row_log_softmax,
                                         &gy_ops_row_layer_norm, &gy_ops_row_cross_entropy,
                                         &gy_ops_row_argmax};
static const char *const form_names[] = {"softmax", "log_softmax", "layer_norm",
                                         "cross_entropy", "argmax"};

/* One graph over x, which a pin cuts along the dimension that the lines lie in. */
typedef struct sample {
    uint64_t seed;
    form what;
    int64_t sizes[RANK];
    int dim;
    gy_graph *graph;
    gy_node labels, fetches[2]; /* a small value, and x takes its slope */
    int fetch_count;
} sample;

/* ---- samples ---- */

static gy_node scalar_of(gy_node y)
{
    gy_node wave = gy_op_sin(gy_op_add(y, gy_graph_scalar(y.graph, GY_F64, 0.3)));
    return gy_op_sum(gy_op_mul(wave, y), 0, false);
}

static gy_node result_of(sample *s, gy_node x)
{
    gy_graph *g = s->graph;
    gy_node gain, bias;
    switch (s->what) {
    case SOFTMAX:
        return gy_op_softmax(x, s->dim);
    case LOG_SOFTMAX:
        return gy_op_log_softmax(x, s->dim);
    case LAYER_NORM:
        gain = gy_graph_parameter(g, "gain", GY_F64, &s->sizes[RANK - 1], 1,
                                  (gy_init){GY_INIT_UNIFORM, 1, NULL});
        bias = gy_graph_parameter(g, "bias", GY_F64, &s->sizes[RANK - 1], 1,
                                  (gy_init){GY_INIT_UNIFORM, 1, NULL});
        return gy_op_layer_norm(x, gain, bias, 1, 1e-5);
    case CROSS_ENTROPY:
        s->labels = gy_graph_input(g, "labels", GY_I32, s->sizes, RANK - 1);
        return gy_op_cross_entropy(x, s->labels);
    case ARGMAX:
    case FORMS:
    default:
        return gy_op_argmax(x, s->dim);
    }
}

static void draw(sample *s, uint64_t seed, const char *const *axes, int axis_count)
{
    gy_random random = {.key = seed};
    *s = (sample){.seed = seed, .graph = kit_graph(), .what = (form)(seed % FORMS)};
    for (int k = 0; k < RANK; k++) {
        s->sizes[k] = 1 + (int64_t)gy_random_below(&random, 3);
    }
    s->dim = s->what == LAYER_NORM || s->what == CROSS_ENTROPY
                 ? RANK - 1
                 : (int)gy_random_below(&random, RANK);
    s->sizes[s->dim] = CLASSES_MIN + (int64_t)gy_random_below(&random, CLASSES_MIN);
    gy_node x = gy_graph_parameter(s->graph, "x", GY_F64, s->sizes, RANK,
                                   (gy_init){GY_INIT_UNIFORM, 4, NULL});
    for (int i = 0; i < axis_count; i++) { /* the next axis another dimension, or none */
        const int dim = (s->dim + i) % RANK;
        const gy_placement cut = {.kind = GY_SHARD, .dim = (uint8_t)dim};
        assert_ok(s->sizes[dim] >= 2 ? gy_pin(x, axes[i], cut) : GY_OK);
    }
    gy_node y = result_of(s, x);
    if (s->what == ARGMAX) {
        s->fetches[s->fetch_count++] = y;
    } else {
        gy_node loss = s->what == CROSS_ENTROPY ? gy_op_square(y) : scalar_of(y);
        s->fetches[s->fetch_count++] = loss;
        s->fetches[s->fetch_count++] = gy_op_assign(x, gy_op_gradient(loss, x));
    }
    assert_ok(gy_graph_status(s->graph));
}

/* ---- ranks ---- */

typedef struct member {
    gy_thread thread;
    gy_comm *comm;
    const char *axes;
    const sample *of;
    double values[VALUES_MAX];
    int count;
    gy_error error;
} member;

/* What is sent costs much, what is computed little: nothing large is sent. */
static const gy_links slow = {.alpha = 1e-15, .beta = 1e-3, .gamma = 1e-18};

static gy_status feed_labels(const sample *s, gy_tensor **labels)
{
    gy_random random = {.key = s->seed ^ 5};
    GY_TRY(gy_tensor_new(NULL, GY_I32, s->sizes, RANK - 1, labels));
    for (int64_t i = 0; i < gy_tensor_count(*labels); i++) {
        gy_tensor_set(*labels, i,
                      (double)gy_random_below(&random, (uint64_t)s->sizes[RANK - 1]));
    }
    return GY_OK;
}

static void keep(member *me, gy_tensor *tensor)
{
    for (int64_t k = 0; k < gy_tensor_count(tensor) && me->count < VALUES_MAX; k++) {
        me->values[me->count++] = gy_tensor_get(tensor, k);
    }
    gy_tensor_drop(tensor);
}

static gy_status compute(member *me, gy_session *session)
{
    const sample *s = me->of;
    gy_tensor *labels = NULL, *results[GY_COUNT(s->fetches)] = {NULL};
    GY_TRY(feed_labels(s, &labels));
    const gy_feed feed = {s->labels, labels};
    gy_status status = GY_OK;
    for (int run = 0; status >= 0 && run < 2; run++) {
        status = gy_session_run(session, &feed, s->what == CROSS_ENTROPY, 1, s->fetches,
                                s->fetch_count, results);
        if (status >= 0) {
            keep(me, results[0]);
        }
    }
    if (status >= 0) {
        status = gy_session_gather(session, "x", &results[0]);
    }
    if (status >= 0) {
        keep(me, results[0]);
    }
    gy_tensor_drop(labels);
    return status;
}

static gy_status run_member(member *me)
{
    gy_mesh *mesh = NULL;
    gy_session *session = NULL;
    GY_TRY(gy_mesh_new(me->comm, me->axes, &mesh));
    gy_status status = gy_session_new(
        me->of->graph, &(gy_session_options){.mesh = mesh, .workers = 1, .seed = 3}, &session);
    for (int axis = 0; status >= 0 && axis < session->mesh.axes; axis++) {
        session->mesh.links[axis] = slow;
    }
    status = status < 0 ? status : compute(me, session);
    gy_session_free(session);
    gy_mesh_free(mesh);
    return status;
}

static void *member_thread(void *arg)
{
    member *me = arg;
    gy_error_take(&me->error, run_member(me));
    return NULL;
}

/* A graph of its own for each rank, as processes have. */
static void run_ranks(int ranks, const char *axes, sample *samples, member *members)
{
    gy_transport *transports[RANKS_MAX] = {NULL};
    const gy_transport_segment_options segment = {.ranks = ranks, .pool_bytes = 8 << 20};
    memset(members, 0, (size_t)ranks * sizeof(*members));
    assert_ok(ranks > 1 ? gy_transport_shm_open_all(&segment, gy_env_real(), transports)
                        : GY_OK);
    for (int rank = 0; rank < ranks; rank++) {
        members[rank].axes = axes;
        members[rank].of = &samples[rank];
        assert_ok(ranks > 1 ? gy_comm_new(transports[rank], NULL, &members[rank].comm) : GY_OK);
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(
            gy_thread_start(&members[rank].thread, "rank", member_thread, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
        gy_comm_free(members[rank].comm);
        gy_graph_free(samples[rank].graph);
    }
}

static void assert_same(const sample *s, const char *axes, const member *one,
                        const member *other)
{
    if (other->error.status != GY_OK) {
        fail_msg("seed %llu, %s on %s: %s", (unsigned long long)s->seed, form_names[s->what],
                 axes, other->error.text);
    }
    assert_int_equal(one->count, other->count);
    for (int i = 0; i < one->count; i++) {
        if (!(fabs(one->values[i] - other->values[i]) <=
              1e-12 * fmax(1, fabs(one->values[i])))) {
            fail_msg("seed %llu, %s on %s, value %d: %.17g, expected %.17g",
                     (unsigned long long)s->seed, form_names[s->what], axes, i,
                     other->values[i], one->values[i]);
        }
    }
}

/* Is the sample's operator one of several others, once it is placed? */
static bool is_expanded(const sample *s, gy_mesh mesh)
{
    gy_graph *bound = NULL, *placed = NULL;
    bool is_found = false;
    gy_value fetches[GY_COUNT(s->fetches)];
    for (int i = 0; i < s->fetch_count; i++) {
        fetches[i] = (gy_value){s->fetches[i].index, 0};
    }
    for (int axis = 0; axis < mesh.axes; axis++) {
        mesh.links[axis] = slow;
    }
    assert_ok(gy_bind(s->graph, &mesh, 1, fetches, s->fetch_count, &bound));
    assert_ok(gy_place(bound, &placed));
    for (int32_t i = 0; i < placed->node_count; i++) {
        is_found = is_found || placed->nodes[i].op == form_rows[s->what];
    }
    gy_graph_free(bound);
    gy_graph_free(placed);
    return !is_found;
}

GY_TEST(cut_lines_give_what_whole_ones_do)
{
    static const struct {
        int ranks;
        const char *text, *axes[2];
        int axis_count;
        gy_mesh mesh;
    } meshes[] = {
        {2, "model=2", {"model"}, 1, {.axes = 1, .kinds = {GY_AXIS_MODEL}, .sizes = {2}}},
        {4, "model=4", {"model"}, 1, {.axes = 1, .kinds = {GY_AXIS_MODEL}, .sizes = {4}}},
        {4, "auto=4", {"auto"}, 1, {.axes = 1, .kinds = {GY_AXIS_AUTO}, .sizes = {4}}},
        {4,
         "model=2,auto=2",
         {"model", "auto"},
         2,
         {.axes = 2, .kinds = {GY_AXIS_MODEL, GY_AXIS_AUTO}, .sizes = {2, 2}}},
        {4,
         "data=2,model=2",
         {"model"},
         1,
         {.axes = 2, .kinds = {GY_AXIS_DATA, GY_AXIS_MODEL}, .sizes = {2, 2}}},
    };
    int tried = 0, expanded = 0;
    static member alone[1], together[RANKS_MAX];
    const uint64_t seed = gy_test_seed();
    const uint64_t trials = (uint64_t)gy_test_cases(TRIALS);
    for (uint64_t trial = seed; trial < seed + trials; trial++) {
        for (size_t i = 0; i < GY_COUNT(meshes); i++) {
            sample samples[RANKS_MAX], whole[1];
            draw(&whole[0], trial, meshes[i].axes, meshes[i].axis_count);
            tried++;
            expanded += is_expanded(&whole[0], meshes[i].mesh) ? 1 : 0;
            run_ranks(1, "data=1", whole, alone);
            assert_same(whole, "one rank", alone, alone);
            for (int rank = 0; rank < meshes[i].ranks; rank++) {
                draw(&samples[rank], trial, meshes[i].axes, meshes[i].axis_count);
            }
            run_ranks(meshes[i].ranks, meshes[i].text, samples, together);
            for (int rank = 0; rank < meshes[i].ranks; rank++) {
                assert_same(whole, meshes[i].text, alone, &together[rank]);
            }
        }
    }
    printf("%d of %d were expanded\n", expanded, tried);
    assert_true(trials < TRIALS || 4 * expanded >= tried); /* few may be others */
}

/* ---- what is chosen ---- */

enum { BATCH = 8, TOKENS = 64, WIDTH = 64 };

/* Logits (B,T,V) of a table (V,d) that a pin cuts by its words, and the loss and its slope with
 * respect to the table; placed. */
static gy_graph *place_loss(int64_t words, gy_links links, double *seconds)
{
    gy_graph *g = kit_graph(), *bound = NULL, *placed = NULL;
    const gy_mesh mesh = {.axes = 1, .kinds = {GY_AXIS_MODEL}, .sizes = {4}, .links = {links}};
    gy_node table =
        gy_graph_parameter(g, "table", GY_F32, (int64_t[]){words, WIDTH}, 2, gy_init_zeros());
    gy_node h = gy_graph_input(g, "h", GY_F32, (int64_t[]){GY_BATCH, TOKENS, WIDTH}, 3);
    gy_node labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH, TOKENS}, 2);
    gy_node loss = gy_op_cross_entropy(gy_op_matmul_transposed(h, false, table, true), labels);
    gy_node update = gy_op_assign(table, gy_op_gradient(loss, table));
    const gy_value fetches[] = {{loss.index, 0}, {update.index, 0}};
    assert_ok(gy_graph_status(g));
    assert_ok(gy_pin(table, "model", (gy_placement){.kind = GY_SHARD, .dim = 0}));
    assert_ok(gy_bind(g, &mesh, BATCH, fetches, 2, &bound));
    assert_ok(gy_place(bound, &placed));
    *seconds = placed->predicted_s;
    gy_graph_free(bound);
    gy_graph_free(g);
    return placed;
}

/* Exchanges of values that have so many words; all of them when it is 0. */
static int count_moves(const gy_graph *placed, int64_t words)
{
    int count = 0;
    for (int32_t i = 0; i < placed->node_count; i++) {
        const gy_type *type = &placed->nodes[i].types[0];
        const bool is_move = (placed->nodes[i].op->flags & GY_OP_COLLECTIVE) != 0;
        count +=
            is_move && (words == 0 || (type->rank > 0 && type->sizes[type->rank - 1] == words));
    }
    return count;
}

static int count_nodes(const gy_graph *placed, const gy_op *op)
{
    int count = 0;
    for (int32_t i = 0; i < placed->node_count; i++) {
        count += placed->nodes[i].op == op ? 1 : 0;
    }
    return count;
}

/* Over a network nothing as large as the logits is sent. */
GY_TEST(words_stay_cut_where_that_pays)
{
    static const gy_links ethernet = {.alpha = 2e-5, .beta = 1e-9, .gamma = 1e-10};
    double seconds = 0;
    gy_graph *placed = place_loss(4096, ethernet, &seconds);
    printf("4096 words: %.3g s, %d exchanges\n", seconds, count_moves(placed, 0));
    assert_int_equal(count_moves(placed, 4096), 0);
    assert_int_equal(count_nodes(placed, &gy_ops_row_cross_entropy), 0);
    assert_int_equal(count_nodes(placed, &gy_ops_row_cross_entropy_gradient), 0);
    assert_int_equal(count_nodes(placed, &gy_ops_row_max), 1); /* both losses share it */
    gy_graph_free(placed);
}

/* A few words are gathered at once: three exchanges of their maxima, sums and logits would take
 * longer to begin. */
GY_TEST(few_words_are_gathered)
{
    static const gy_links late = {.alpha = 1e-3, .beta = 1e-10, .gamma = 1e-10};
    double seconds = 0;
    gy_graph *placed = place_loss(8, late, &seconds);
    assert_int_equal(count_nodes(placed, &gy_ops_row_cross_entropy), 1);
    assert_int_equal(count_nodes(placed, &gy_ops_row_max), 0);
    gy_graph_free(placed);
}

GY_TEST_MAIN(NULL, NULL)
