/* Goal: sessions on 1, 2, 3 and 4 ranks, and on meshes of data and model ranks, give what one
 * rank gives, bit-identical from run to run; the gradient's allreduce stands in the compiled
 * graph without anyone having written it.
 */
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { RANKS_MAX = 8, VALUES_MAX = 512, TRIALS = 8, BATCH = 7 };

/* What one program gave on every rank, values one after the other. */
typedef struct outcome {
    double values[VALUES_MAX];
    int count;
} outcome;

typedef struct member {
    gy_thread thread;
    gy_comm *comm;
    gy_mesh *mesh;
    char axes[32];
    int rank, ranks; /* along the data axis */
    int number;      /* in the mesh */
    bool pins;       /* parameters are kept in parts */
    bool decides;    /* the program decides where they are kept */
    int cut_count;   /* of its parameters this rank has parts of so many */
    bool cuts;       /* exchanges are said to be free: the model axis is used wherever it can */
    uint64_t seed;
    gy_status (*run)(struct member *me);
    outcome got;
    double hidden_s; /* of run_random: exchanges beside computing */
    gy_error error;
} member;

static bool are_exchanges_alone; /* in all sessions, since no test runs beside another */

static uint32_t skipped; /* passes, in all sessions */

static gy_status open_session(const member *me, gy_graph *graph, uint64_t seed,
                              gy_session **session)
{
    const gy_session_options options = {
        .mesh = me->mesh, .workers = 1, .seed = seed, .has_no_overlap = are_exchanges_alone};
    GY_TRY(gy_session_new(graph, &options, session));
    (*session)->skip = skipped;
    if (me->cuts) {
        (*session)->mesh.links[(*session)->mesh.axes - 1] =
            (gy_links){.alpha = 1e-15, .beta = 1e-18, .gamma = 1e-18};
    }
    return GY_OK;
}

static gy_status keep(member *me, gy_tensor *tensor)
{
    for (int64_t i = 0; i < gy_tensor_count(tensor) && me->got.count < VALUES_MAX; i++) {
        me->got.values[me->got.count++] = gy_tensor_get(tensor, i);
    }
    gy_tensor_drop(tensor);
    return GY_OK;
}

/* This rank's rows of a batch that is a function of the seed alone. */
static gy_status rows_of(const member *me, uint64_t key, gy_tensor **tensor)
{
    int64_t begin = gy_part_begin(BATCH, me->rank, me->ranks);
    int64_t end = gy_part_begin(BATCH, me->rank + 1, me->ranks);
    GY_TRY(gy_tensor_new(NULL, GY_F64, (int64_t[]){end - begin, RANDOM_FEATURES}, 2, tensor));
    gy_random random = {.key = key};
    for (int64_t i = 0; i < BATCH * RANDOM_FEATURES; i++) {
        double value = 2 * gy_random_unit(&random) - 1;
        if (i / RANDOM_FEATURES >= begin && i / RANDOM_FEATURES < end) {
            gy_tensor_set(*tensor, i - begin * RANDOM_FEATURES, value);
        }
    }
    return GY_OK;
}

static gy_placement shard(int dim)
{
    return (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
}

/* Three steps of gradient descent on a random graph; loss, gradients and what becomes of w. */
static gy_status train(member *me, random_graph *r, gy_session *session)
{
    gy_node fetches[1 + 2 * RANDOM_PARAMETERS];
    gy_node gradients[RANDOM_PARAMETERS];
    GY_TRY(gy_op_gradients(r->loss, r->parameters, RANDOM_PARAMETERS, gradients));
    fetches[0] = r->loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        gy_node step = gy_op_mul(gradients[i], gy_graph_scalar(r->graph, GY_F64, 0.1));
        fetches[1 + i] = gradients[i];
        fetches[1 + RANDOM_PARAMETERS + i] =
            gy_op_assign(r->parameters[i], gy_op_sub(r->parameters[i], step));
    }
    GY_TRY(gy_graph_status(r->graph));
    if (me->decides) {
        GY_TRY(gy_session_decide(session, BATCH, fetches, (int)GY_COUNT(fetches)));
    }
    gy_tensor *x = NULL, *y = NULL;
    GY_TRY(rows_of(me, 1, &x));
    GY_TRY(rows_of(me, 2, &y));
    const gy_feed feeds[] = {{r->x, x}, {r->y, y}};
    gy_status status = GY_OK;
    for (int run = 0; status >= 0 && run < 3; run++) {
        gy_tensor *results[1 + 2 * RANDOM_PARAMETERS];
        status =
            gy_session_run(session, feeds, 2, BATCH, fetches, (int)GY_COUNT(fetches), results);
        for (int i = 0; status >= 0 && i < 1 + RANDOM_PARAMETERS; i++) {
            status = keep(me, results[i]);
        }
    }
    for (int i = 0; status >= 0 && i < RANDOM_PARAMETERS; i++) {
        gy_tensor *whole = NULL;
        const char *name = gy_graph_at(r->graph, (gy_value){r->parameters[i].index, 0})->name;
        status = gy_session_gather(session, name, &whole);
        me->cut_count += status >= 0 && gy_tensor_count(gy_session_parameter(session, name)) <
                                            gy_tensor_count(whole)
                             ? 1
                             : 0;
        status = status >= 0 ? keep(me, whole) : status;
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    return status;
}

/* Every parameter is cut along both axes, by dimensions that differ from one to the next. */
static gy_status pin_parameters(const random_graph *r, uint64_t seed)
{
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        const int rank =
            gy_graph_at(r->graph, (gy_value){r->parameters[i].index, 0})->types[0].rank;
        const int first = rank == 0 ? 0 : (int)((seed + (uint64_t)i) % (uint64_t)rank);
        if (rank > 0) {
            GY_TRY(gy_pin(r->parameters[i], "data", shard(first)));
        }
        if (rank > 1) {
            GY_TRY(gy_pin(r->parameters[i], "model", shard((first + 1) % rank)));
        }
    }
    for (int i = 2 + RANDOM_PARAMETERS; i < r->count; i += 3) { /* values that operators make */
        const gy_type *type = random_type(r->values[i]);
        const int dim = type->rank - 1;
        if (dim >= 0 && type->sizes[dim] >= 0) {
            GY_TRY(gy_pin(r->values[i], "model",
                          seed % 3 == 0 ? (gy_placement){.kind = GY_REPLICATE} : shard(dim)));
        }
    }
    return GY_OK;
}

static gy_status run_random(member *me)
{
    random_graph r;
    random_graph_make(&r, me->seed, false, 16);
    gy_session *session = NULL;
    gy_status status = gy_graph_status(r.graph);
    if (status >= 0 && me->pins) {
        status = pin_parameters(&r, me->seed);
    }
    if (status >= 0) {
        status = open_session(me, r.graph, 9, &session);
    }
    if (status >= 0) {
        status = train(me, &r, session);
        me->hidden_s = gy_session_statistics(session).hidden_communication_s;
    }
    gy_session_free(session);
    gy_graph_free(r.graph);
    return status;
}

static gy_status run_pinned(member *me)
{
    me->pins = true;
    return run_random(me);
}

static gy_status run_decided(member *me)
{
    me->decides = true;
    return run_random(me);
}

static gy_status run_pinned_and_decided(member *me)
{
    me->pins = true;
    return run_decided(me);
}

static void *member_thread(void *arg)
{
    member *me = arg;
    gy_status status = gy_mesh_new(me->comm, me->axes, &me->mesh);
    gy_error_take(&me->error, status < 0 ? status : me->run(me));
    gy_mesh_free(me->mesh);
    return NULL;
}

/* Ranks (0,0), (0,1), ... of a mesh; `cuts` as in member. */
static void run_mesh(const int mesh[3], bool cuts, uint64_t seed, gy_status (*run)(member *me),
                     member *members)
{
    const int ranks = mesh[0] * mesh[1] * mesh[2];
    memset(members, 0, (size_t)ranks * sizeof(*members));
    const gy_transport_segment_options segment = {.ranks = ranks, .pool_bytes = 32 << 20};
    gy_transport *transports[RANKS_MAX] = {NULL};
    assert_ok(ranks > 1 ? gy_transport_shm_open_all(&segment, gy_env_real(), transports)
                        : GY_OK);
    for (int rank = 0; ranks > 1 && rank < ranks; rank++) {
        assert_ok(gy_comm_new(transports[rank], NULL, &members[rank].comm));
    }
    for (int rank = 0; rank < ranks; rank++) {
        members[rank].number = rank;
        members[rank].rank = rank / (mesh[1] * mesh[2]);
        members[rank].ranks = mesh[0];
        snprintf(members[rank].axes, sizeof(members[rank].axes), "data=%d,model=%d,auto=%d",
                 mesh[0], mesh[1], mesh[2]);
        members[rank].cuts = cuts;
        members[rank].seed = seed;
        members[rank].run = run;
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(
            gy_thread_start(&members[rank].thread, "rank", member_thread, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_comm_free(members[rank].comm);
    }
}

static void run_ranks(int ranks, uint64_t seed, gy_status (*run)(member *me), member *members)
{
    run_mesh((const int[]){ranks, 1, 1}, false, seed, run, members);
}

static void assert_members_ok(const member *members, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("seed %llu rank %d of %d: %s", (unsigned long long)members[rank].seed,
                     rank, ranks, members[rank].error.text);
        }
    }
}

static void assert_same(const member *alone, const member *other)
{
    const outcome *one = &alone->got, *all = &other->got;
    assert_int_equal(one->count, all->count);
    for (int i = 0; i < one->count; i++) {
        if (!(fabs(one->values[i] - all->values[i]) <= 1e-12 * fmax(1, fabs(one->values[i])))) {
            fail_msg("seed %llu, value %d: %.17g on one rank, %.17g on rank %d of %d",
                     (unsigned long long)other->seed, i, one->values[i], all->values[i],
                     other->rank, other->ranks);
        }
    }
}

/* Four ranks take turns on two cores: a graph takes seconds under a sanitizer. */
static uint64_t trials(long plainly)
{
    const long count = gy_test_cases(plainly);
    printf("%ld random graphs%s\n", count,
           count < plainly ? ": a sanitizer makes each take seconds" : "");
    return (uint64_t)count;
}

GY_TEST(random_graphs_agree_on_any_number_of_ranks)
{
    uint64_t seed = gy_test_seed();
    static member alone[1], together[RANKS_MAX], again[RANKS_MAX];
    for (uint64_t trial = seed, end = seed + trials(TRIALS); trial < end; trial++) {
        run_ranks(1, trial, run_random, alone);
        assert_members_ok(alone, 1);
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            run_ranks(ranks, trial, run_random, together);
            assert_members_ok(together, ranks);
            run_ranks(ranks, trial, run_random, again);
            assert_members_ok(again, ranks);
            for (int rank = 0; rank < ranks; rank++) {
                assert_same(&alone[0], &together[rank]);
                assert_memory_equal(&together[rank].got, &again[rank].got, sizeof(outcome));
            }
        }
    }
}

/* Rows that come from everywhere: each rank fetches its own part of the joined ones. */
static gy_status run_rows(member *me)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, RANDOM_FEATURES}, 2);
    gy_node joined = gy_op_concat((gy_node[]){x, gy_op_exp(x)}, 2, 0);
    gy_node fetches[] = {joined, gy_op_transpose(x, (int[]){1, 0})};
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *results[2] = {NULL};
    gy_status status = open_session(me, g, 0, &session);
    if (status >= 0) {
        status = rows_of(me, 1, &rows);
    }
    const gy_feed feed = {x, rows};
    if (status >= 0) {
        status = gy_session_run(session, &feed, 1, BATCH, fetches, 2, results);
    }
    for (int i = 0; status >= 0 && i < 2; i++) {
        status = keep(me, results[i]);
    }
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
    return status;
}

GY_TEST(fetched_rows_are_the_ranks_own)
{
    static member alone[1], together[RANKS_MAX];
    const int all = BATCH * RANDOM_FEATURES;
    run_ranks(1, 0, run_rows, alone);
    assert_members_ok(alone, 1);
    assert_int_equal(alone[0].got.count, 3 * all);
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        run_ranks(ranks, 0, run_rows, together);
        assert_members_ok(together, ranks);
        for (int rank = 0; rank < ranks; rank++) {
            const int first = (int)gy_part_begin(2 * BATCH, rank, ranks) * RANDOM_FEATURES;
            const int count = together[rank].got.count - all;
            assert_int_equal(count + first,
                             (int)gy_part_begin(2 * BATCH, rank + 1, ranks) * RANDOM_FEATURES);
            for (int i = 0; i < count; i++) {
                assert_true(fabs(together[rank].got.values[i] -
                                 alone[0].got.values[first + i]) < 1e-15);
            }
            assert_memory_equal(together[rank].got.values + count,
                                alone[0].got.values + 2 * all, (size_t)all * sizeof(double));
        }
    }
}

enum { NOT_FED = 16 };

/*
 * The labels of rank `seed` in the mesh are out of range, so its loss fails; or, of rank
 * `seed - NOT_FED`, not fed, so that it runs nothing.
 */
static gy_status run_bad_label(member *me)
{
    const int number = me->number, seed = (int)me->seed;
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, RANDOM_FEATURES}, 2);
    gy_node labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    gy_node loss = gy_node_named(gy_op_cross_entropy(x, labels), "the loss");
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *truth = NULL, *result = NULL;
    gy_status status = open_session(me, g, 0, &session);
    if (status >= 0) {
        status = rows_of(me, 1, &rows);
    }
    if (status >= 0) {
        status = gy_tensor_zeros(NULL, GY_I32, (int64_t[]){gy_tensor_size(rows, 0)}, 1, &truth);
    }
    if (status >= 0) {
        for (int64_t i = 0; i < gy_tensor_count(truth); i++) {
            gy_tensor_set(truth, i, number == seed ? 99 : 0);
        }
        const gy_feed feeds[] = {{x, rows}, {labels, truth}};
        const int fed = number + NOT_FED == seed ? 1 : 2;
        status = gy_session_run(session, feeds, fed, BATCH, &loss, 1, &result);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_tensor_drop(rows);
    gy_tensor_drop(truth);
    gy_session_free(session);
    gy_graph_free(g);
    return gy_error_raise(&error);
}

static void assert_all_say(const member *members, int count, const char *what, const char *why)
{
    for (int i = 0; i < count; i++) {
        const gy_error *error = &members[i].error;
        if (error->status >= 0 || strstr(error->text, what) == NULL ||
            strstr(error->text, why) == NULL) {
            fail_msg("rank %d of %d says \"%s\" (fault %d%s)", i, count, error->text,
                     (int)members[i].seed, members[i].cuts ? ", exchanges are free" : "");
        }
    }
}

GY_TEST(a_failed_kernel_is_told_to_all_ranks)
{
    static member members[3];
    run_ranks(3, 1, run_bad_label, members);
    assert_all_say(members, 3, "the loss", "99");
    run_ranks(3, 2 + NOT_FED, run_bad_label, members);
    assert_all_say(members, 3, "labels", "is not fed");
}

/* Nothing is exchanged along the model axis, unless exchanges are free: it hears all the same.
 */
GY_TEST(a_failure_reaches_the_ranks_of_both_axes)
{
    static member members[4];
    for (int i = 0; i < 8; i++) {
        const uint64_t number = (uint64_t)(i / 2);
        run_mesh((const int[]){2, 2, 1}, i % 2 != 0, number, run_bad_label, members);
        assert_all_say(members, 4, "the loss", "99");
        run_mesh((const int[]){2, 2, 1}, i % 2 != 0, number + NOT_FED, run_bad_label, members);
        assert_all_say(members, 4, "labels", "is not fed");
    }
}

/* Without overlap: the same bits, nothing beside an exchange, and failures are told all the
 * same. */
GY_TEST(exchanges_can_be_alone)
{
    uint64_t seed = gy_test_seed();
    static member together[RANKS_MAX], apart[RANKS_MAX];
    for (uint64_t trial = seed; trial < seed + TRIALS / 2; trial++) {
        run_ranks(3, trial, run_random, together);
        assert_members_ok(together, 3);
        are_exchanges_alone = true;
        run_ranks(3, trial, run_random, apart);
        are_exchanges_alone = false;
        assert_members_ok(apart, 3);
        for (int rank = 0; rank < 3; rank++) {
            assert_memory_equal(&together[rank].got, &apart[rank].got, sizeof(outcome));
            assert_true(apart[rank].hidden_s == 0);
        }
    }
    are_exchanges_alone = true;
    a_failed_kernel_is_told_to_all_ranks(state);
    are_exchanges_alone = false;
}

/* An optimizer's step in the large: a layer norm, an embedding, a batch norm over cut rows. */
static gy_status run_network(member *me)
{
    gy_graph *g = kit_graph();
    const int64_t channels[] = {RANDOM_FEATURES}, filter_sizes[] = {RANDOM_FEATURES, 1, 2, 2};
    const gy_init draw = {GY_INIT_UNIFORM, 1, NULL};
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, RANDOM_FEATURES}, 2);
    gy_node filters = gy_graph_parameter(g, "filters", GY_F64, filter_sizes, 4, draw);
    gy_node gain = gy_graph_parameter(g, "gain", GY_F64, channels, 1, draw);
    gy_node bias = gy_graph_parameter(g, "bias", GY_F64, channels, 1, draw);
    gy_node w =
        gy_graph_parameter(g, "w", GY_F64, (int64_t[]){2 * RANDOM_FEATURES, 3}, 2, draw);
    gy_node image = gy_op_reshape(x, (int64_t[]){GY_BATCH, 1, 2, 2}, 4);
    gy_node maps = gy_op_conv2d(image, filters, &(gy_conv_options){.pad = {1, 1}});
    gy_node normal = gy_op_batch_norm(maps, gain, bias, 1e-5), running[2];
    gy_op_batch_norm_updates(maps, gain, bias, 0.25, running);
    gy_node pooled = gy_op_max_pool(gy_op_relu(normal),
                                    &(gy_window_options){.window = {2, 2}, .stride = {1, 1}});
    gy_node flat = gy_op_reshape(
        gy_op_average_pool(pooled, &(gy_window_options){.window = {2, 2}, .stride = {1, 1}}),
        (int64_t[]){GY_BATCH, GY_ANY}, 2);
    gy_node normed = gy_op_layer_norm(gy_op_mul(x, flat), gain, bias, 1, 1e-5);
    gy_node both = gy_op_concat((gy_node[]){normed, gy_op_dropout(flat, 0.25)}, 2, 1);
    gy_node best = gy_op_argmax(x, 1);
    gy_node loss = gy_op_cross_entropy(
        gy_op_matmul(both, w),
        gy_op_minimum(gy_op_cast(best, GY_I32), gy_graph_scalar(g, GY_I32, 2)));
    gy_node parameters[] = {filters, gain, bias, w}, gradients[4], fetches[8] = {loss, best};
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *results[8] = {NULL};
    gy_status status = gy_op_gradients(loss, parameters, 4, gradients);
    for (int i = 0; i < 4; i++) {
        fetches[2 + i] = gradients[i];
    }
    for (int i = 0; i < 2; i++) { /* what would be assigned */
        fetches[6 + i] = gy_op_exp(running[i]);
    }
    if (status >= 0) {
        status = open_session(me, g, 4, &session);
    }
    if (status >= 0) {
        status = rows_of(me, 1, &rows);
    }
    const gy_feed feed = {x, rows};
    if (status >= 0) {
        status = gy_session_run(session, &feed, 1, BATCH, fetches, 8, results);
    }
    for (int i = 0; status >= 0 && i < 8; i++) {
        status = i == 1 ? GY_OK : keep(me, results[i]);
    }
    gy_tensor_drop(status >= 0 ? results[1] : NULL);
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
    return status;
}

GY_TEST(a_network_agrees_on_any_number_of_ranks)
{
    static member alone[1], together[RANKS_MAX];
    run_ranks(1, 0, run_network, alone);
    assert_members_ok(alone, 1);
    assert_true(alone[0].got.count > 40);
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        run_ranks(ranks, 0, run_network, together);
        assert_members_ok(together, ranks);
        for (int rank = 0; rank < ranks; rank++) {
            assert_same(&alone[0], &together[rank]);
        }
    }
}

/* Two dense layers and an embedding, trained for some steps. */
static gy_status run_layers(member *me)
{
    gy_graph *g = kit_graph();
    const gy_init draw = {GY_INIT_UNIFORM, 1, NULL};
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, RANDOM_FEATURES}, 2);
    gy_node w1 = gy_graph_parameter(g, "w1", GY_F64, (int64_t[]){RANDOM_FEATURES, 6}, 2, draw);
    gy_node b1 = gy_graph_parameter(g, "b1", GY_F64, (int64_t[]){6}, 1, draw);
    gy_node w2 = gy_graph_parameter(g, "w2", GY_F64, (int64_t[]){6, 3}, 2, draw);
    gy_node table = gy_graph_parameter(g, "table", GY_F64, (int64_t[]){5, 3}, 2, draw);
    gy_node best = gy_node_named(gy_op_argmax(x, 1), "best");
    gy_node hidden = gy_node_named(gy_op_relu(gy_op_add(gy_op_matmul(x, w1), b1)), "hidden");
    gy_node y = gy_op_add(gy_node_named(gy_op_matmul(hidden, w2), "second"),
                          gy_op_gather(table, best, 0));
    gy_node labels = gy_op_minimum(gy_op_cast(best, GY_I32), gy_graph_scalar(g, GY_I32, 2));
    gy_node loss = gy_op_cross_entropy(y, labels), gradients[4], fetches[6] = {loss};
    gy_node parameters[] = {w1, b1, w2, table};
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *results[6] = {NULL};
    /* A sum of gradients: of each rank those of its rows. */
    const int64_t sizes[] = {RANDOM_FEATURES, 6};
    gy_node sum = gy_graph_parameter(g, "sum", GY_F64, sizes, 2, gy_init_zeros());
    const gy_placement partial = {.kind = GY_PARTIAL, .reduction = GY_SUM};
    gy_status status = gy_op_gradients(loss, parameters, 4, gradients);
    for (int i = 0; i < 4; i++) {
        fetches[1 + i] = gy_op_assign(
            parameters[i],
            gy_op_sub(parameters[i], gy_op_mul(gradients[i], gy_graph_scalar(g, GY_F64, 0.3))));
    }
    fetches[5] = gy_op_assign(sum, gy_op_add(sum, gradients[0]));
    status = status < 0 ? status : gy_pin(sum, "data", partial);
    status = status < 0 ? status : gy_pin(table, "data", shard(0));
    status = status < 0 ? status : gy_pin(w2, "model", shard(1));
    status = status < 0 ? status : open_session(me, g, 5, &session);
    status = status < 0 ? status : rows_of(me, 1, &rows);
    const gy_feed feed = {x, rows};
    for (int step = 0; status >= 0 && step < 6; step++) {
        status = gy_session_run(session, &feed, 1, BATCH, fetches, 6, results);
        status = status < 0 ? status : keep(me, results[0]);
    }
    for (int i = 0; status >= 0 && i < 5; i++) {
        static const char *const names[] = {"w1", "b1", "w2", "table", "sum"};
        gy_tensor *now = NULL;
        status = gy_session_gather(session, names[i], &now);
        status = status < 0 ? status : keep(me, now);
    }
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
    return status;
}

static const int meshes[][3] = {{2, 2, 1}, {1, 2, 1}, {1, 4, 1}, {4, 1, 1}, {1, 3, 1}};

static int decided_cuts; /* parameters of rank 0 that programs decided to cut */

static void assert_mesh_agrees(const int mesh[3], bool cuts, uint64_t seed,
                               gy_status (*run)(member *me), const member *alone)
{
    static member together[RANKS_MAX], again[RANKS_MAX];
    const int ranks = mesh[0] * mesh[1] * mesh[2];
    run_mesh(mesh, cuts, seed, run, together);
    assert_members_ok(together, ranks);
    decided_cuts += together[0].decides ? together[0].cut_count : 0;
    run_mesh(mesh, cuts, seed, run, again);
    for (int rank = 0; rank < ranks; rank++) {
        assert_same(alone, &together[rank]);
        assert_memory_equal(&together[rank].got, &again[rank].got, sizeof(outcome));
    }
}

static void assert_meshes_agree(uint64_t seed, gy_status (*run)(member *me))
{
    static member alone[1];
    run_ranks(1, seed, run, alone);
    assert_members_ok(alone, 1);
    for (size_t i = 0; i < 2 * GY_COUNT(meshes); i++) {
        assert_mesh_agrees(meshes[i / 2], i % 2 != 0, seed, run, alone);
    }
}

GY_TEST(training_agrees_on_any_mesh)
{
    assert_meshes_agree(0, run_layers);
    assert_meshes_agree(0, run_network);
}

GY_TEST(random_graphs_agree_on_any_mesh)
{
    uint64_t seed = gy_test_seed();
    for (uint64_t trial = seed, end = seed + trials(TRIALS / 2); trial < end; trial++) {
        assert_meshes_agree(trial, run_random);
    }
}

GY_TEST(pinned_parameters_train_as_whole_ones_do)
{
    uint64_t seed = gy_test_seed();
    for (uint64_t trial = seed, end = seed + trials(TRIALS / 4); trial < end; trial++) {
        assert_meshes_agree(trial, run_pinned);
    }
}

GY_TEST(decided_parameters_train_as_whole_ones_do)
{
    uint64_t seed = gy_test_seed();
    decided_cuts = 0;
    for (uint64_t trial = seed, end = seed + trials(2); trial < end; trial++) {
        assert_meshes_agree(trial, run_decided);
    }
    printf("%d times a program cut a parameter\n", decided_cuts);
    assert_true(decided_cuts > 0);
}

/* Two axes are pinned, the third one decides. */
GY_TEST(parameters_are_cut_along_three_axes)
{
#if defined(GYRE_TSAN)
    printf("eight ranks take minutes under the race detector; four do the same above\n");
    skip();
#endif
    static member alone[1];
    uint64_t seed = gy_test_seed();
    for (uint64_t trial = seed, end = seed + trials(1); trial < end; trial++) {
        run_ranks(1, trial, run_pinned_and_decided, alone);
        assert_members_ok(alone, 1);
        for (int cuts = 0; cuts < 2; cuts++) {
            assert_mesh_agrees((const int[]){2, 2, 2}, cuts != 0, trial, run_pinned_and_decided,
                               alone);
        }
    }
}

/* Whether the gathered copy of a parameter is dropped or kept, and whether buffers serve again,
 * no bit is another. */
GY_TEST(parameters_gathered_again_have_the_same_bits)
{
    static member once[RANKS_MAX], again[RANKS_MAX];
    uint64_t seed = gy_test_seed();
    enum { RANKS = 4 };
    for (uint64_t trial = seed, end = seed + trials(TRIALS / 2); trial < end; trial++) {
        run_ranks(RANKS, trial, run_pinned, again);
        assert_members_ok(again, RANKS);
        for (int i = 0; i < gy_compile_pass_count; i++) {
            skipped |= strcmp(gy_compile_passes[i].name, "reshard") == 0 ? 1u << i : 0;
        }
        skipped |= GY_SKIP_SHARING;
        run_ranks(RANKS, trial, run_pinned, once);
        skipped = 0;
        assert_members_ok(once, RANKS);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(once[rank].got.count, again[rank].got.count);
            assert_memory_equal(once[rank].got.values, again[rank].got.values,
                                (size_t)once[rank].got.count * sizeof(double));
        }
    }
}

/* What is whole on every rank, or cut, becomes a sum over them. */
static gy_status run_misplaced(member *me)
{
    gy_graph *g = kit_graph();
    const int64_t sizes[] = {3};
    const gy_init draw = {GY_INIT_UNIFORM, 1, NULL};
    gy_node sum = gy_graph_parameter(g, "sum", GY_F64, sizes, 1, gy_init_zeros());
    gy_node other = gy_graph_parameter(g, "other", GY_F64, sizes, 1, gy_init_zeros());
    gy_node w = gy_graph_parameter(g, "w", GY_F64, sizes, 1, draw);
    gy_node cut = gy_graph_parameter(g, "cut", GY_F64, sizes, 1, draw);
    gy_node fetches[] = {gy_op_assign(sum, gy_op_exp(w)), gy_op_assign(other, gy_op_exp(cut))};
    const gy_placement partial = {.kind = GY_PARTIAL, .reduction = GY_SUM};
    gy_session *session = NULL;
    gy_tensor *results[2] = {NULL};
    gy_status status = gy_pin(sum, "data", partial);
    status = status < 0 ? status : gy_pin(other, "data", partial);
    status = status < 0 ? status : gy_pin(cut, "data", shard(0));
    status = status < 0 ? status : open_session(me, g, 5, &session);
    status = status < 0 ? status : gy_session_run(session, NULL, 0, 1, fetches, 2, results);
    for (int i = 0; status >= 0 && i < 2; i++) {
        gy_tensor *whole = NULL;
        status = gy_session_gather(session, i == 0 ? "sum" : "other", &whole);
        status = status < 0 ? status : keep(me, whole);
    }
    gy_session_free(session);
    gy_graph_free(g);
    return status;
}

GY_TEST(what_is_whole_or_cut_becomes_a_summand)
{
    assert_meshes_agree(0, run_misplaced);
}

GY_TEST(pins_that_do_not_fit_are_refused)
{
    gy_graph *g = kit_graph();
    const int64_t sizes[] = {3, 4};
    const gy_placement partial = {.kind = GY_PARTIAL, .reduction = GY_SUM};
    const gy_placement largest = {.kind = GY_PARTIAL, .reduction = GY_MAX};
    gy_node w = gy_graph_parameter(g, "w", GY_F64, sizes, 2, gy_init_zeros());
    gy_node drawn =
        gy_graph_parameter(g, "drawn", GY_F64, sizes, 2, (gy_init){GY_INIT_UNIFORM, 1, NULL});
    assert_ok(gy_pin(w, "data", shard(0)));
    assert_ok(gy_pin(w, "model", shard(1)));
    assert_status(gy_pin(w, "model", shard(0)), GY_ARG); /* which data cuts */
    assert_status(gy_pin(w, "auto", shard(2)), GY_ARG);
    assert_status(gy_pin(w, "rows", shard(1)), GY_ARG);
    assert_status(gy_pin(w, "data", largest), GY_ARG);
    assert_ok(gy_pin(w, "data", partial));
    assert_status(gy_pin(drawn, "data", partial), GY_ARG);
    gy_graph_free(g);
}

/* The extremes of a batch that holds a NaN in one column and zeros of both signs in another. */
static gy_status run_extremes(member *me)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, RANDOM_FEATURES}, 2);
    gy_node fetches[] = {gy_op_max(x, 1, false), gy_op_min(x, 1, false), gy_op_max(x, 0, false),
                         gy_op_min(gy_op_neg(x), 1, true)};
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *results[4] = {NULL};
    gy_status status = open_session(me, g, 0, &session);
    if (status >= 0) {
        status = rows_of(me, 1, &rows);
    }
    int64_t begin = gy_part_begin(BATCH, me->rank, me->ranks);
    for (int64_t i = 0; status >= 0 && i < gy_tensor_size(rows, 0); i++) {
        int64_t row = begin + i;
        gy_tensor_set(rows, i * RANDOM_FEATURES, row == (int64_t)me->seed ? NAN : -1.5);
        gy_tensor_set(rows, i * RANDOM_FEATURES + 1, row == (int64_t)me->seed ? -0.0 : 0.0);
        gy_tensor_set(rows, i * RANDOM_FEATURES + 2, row == (int64_t)me->seed ? 0.0 : -0.0);
    }
    const gy_feed feed = {x, rows};
    if (status >= 0) {
        status = gy_session_run(session, &feed, 1, BATCH, fetches, 4, results);
    }
    for (int i = 0; status >= 0 && i < 4; i++) {
        status = keep(me, results[i]);
    }
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
    return status;
}

/* The seed is the row that is odd: each in turn. */
GY_TEST(extremes_are_the_same_on_any_number_of_ranks)
{
    static member together[RANKS_MAX];
    for (uint64_t row = 0; row < BATCH; row++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            run_ranks(ranks, row, run_extremes, together);
            assert_members_ok(together, ranks);
            for (int rank = 0; rank < ranks; rank++) {
                const double *most = together[rank].got.values, *least = most + RANDOM_FEATURES;
                const double *turned = least + RANDOM_FEATURES + 1;
                assert_true(isnan(most[0]) && isnan(least[0]) && isnan(turned[0]));
                assert_true(isnan(most[2 * RANDOM_FEATURES]));
                assert_true(most[1] == 0 && !signbit(most[1]) && signbit(least[1]));
                assert_true(most[2] == 0 && !signbit(most[2]) && signbit(least[2]));
                assert_true(turned[1] == 0 && signbit(turned[1]) && signbit(turned[2]));
            }
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
