/* Goal: the mesh that is chosen is the cheapest of all that fit, lies on hosts and links as
 * they are, trains to one rank's losses, and all ranks take the same one or fail with one
 * cause. */
#include "graph/simulate/simulate.h"
#include "train/train.h"

#include <gyre/gpt.h>

#include <math.h>
#include <string.h>

#include "gy_test.h"
#include "spread_kit.h"
#include "training_story.h"

enum { WIDE = 512, DEPTH = 8 };

static gy_mesh_choice choice;

static gy_virtual_cluster two_by_two(double far_bytes_s)
{
    return (gy_virtual_cluster){.hosts = 2,
                                .ranks_per_host = 2,
                                .near_bytes_s = 10e9,
                                .near_latency_s = 1e-6,
                                .far_bytes_s = far_bytes_s,
                                .far_latency_s = 1e-6,
                                .flops_s = 50e9,
                                .memory_bytes_s = 1e12};
}

static gy_status make_story(void *arg, gy_mesh *mesh, gy_model **model)
{
    return story_model(*(const model_kind *)arg, mesh, model);
}

/* Many parameters, few values between layers. */
static gy_status make_wide(void *arg, gy_mesh *mesh, gy_model **model)
{
    gy_layer layers[2 * DEPTH + 2] = {gy_layer_flatten()};
    for (int i = 0; i < DEPTH; i++) {
        layers[1 + 2 * i] = gy_layer_dense(WIDE);
        layers[2 + 2 * i] = gy_layer_relu();
    }
    layers[2 * DEPTH + 1] = gy_layer_dense(KIT_CLASSES);
    gy_model_options base =
        GY_OPTIONS(gy_model_options, .name = "wide", .dtype = GY_F32, .seed = 11, .mesh = mesh,
                   .workers = 1, .layers = layers, .layer_count = GY_COUNT(layers),
                   .input_rank = 3, .input_sizes = {1, 6, 6});
    (void)arg;
    return gy_model_new(&base, model);
}

/* The second layer lies in front of the first one's stage. */
static gy_status build_back(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    x = gy_model_layer(builder, "flat", gy_layer_flatten(), x);
    x = gy_model_layer(builder, "first", gy_layer_dense(9), x);
    GY_TRY(gy_stage(x, 1));
    x = gy_model_layer(builder, "second", gy_layer_dense(8), x);
    GY_TRY(gy_stage(x, 0));
    *logits = gy_model_layer(builder, "third", gy_layer_dense(KIT_CLASSES), x);
    return gy_stage(*logits, 1);
}

static gy_status make_back(void *arg, gy_mesh *mesh, gy_model **model)
{
    const gy_model_options base = GY_OPTIONS(
        gy_model_options, .name = "back", .dtype = GY_F64, .seed = 11, .mesh = mesh,
        .workers = 1, .build = build_back, .input_rank = 3, .input_sizes = {1, 6, 6});
    (void)arg;
    return gy_model_new(&base, model);
}

static gy_mesh_search search_of(const gy_virtual_cluster *cluster,
                                const gy_train_options *options, model_kind *kind)
{
    return GY_OPTIONS(gy_mesh_search, .cluster = *cluster, .options = options,
                      .make = kind != NULL ? make_story : make_wide, .arg = kind);
}

static const gy_mesh_trial *trial_of(const char *axes)
{
    for (int i = 0; i < choice.count; i++) {
        if (strcmp(choice.trials[i].mesh.axes, axes) == 0) {
            return &choice.trials[i];
        }
    }
    fail_msg("no mesh %s was tried", axes);
    return NULL;
}

static void assert_chosen(const char *axes)
{
    if (strcmp(choice.trials[0].mesh.axes, axes) != 0) {
        const gy_mesh_trial *expected = trial_of(axes);
        fail_msg("%s takes %g s, %s %g s (%s)", choice.trials[0].mesh.axes,
                 choice.trials[0].step.time_s, axes, expected->step.time_s, expected->why);
    }
}

/* Many parameters in many layers, few rows. Where links are equal no stage waits for another.
 * Where far ones are a hundredth, what goes between two layers crosses hosts, once each way;
 * parts of products, which are exchanged in each layer, stay inside one. */
GY_TEST(far_is_slow_so_stages_lie_across)
{
    const gy_virtual_cluster slow = two_by_two(100e6), equal = two_by_two(10e9);
    const gy_train_options options = {.batch = 128};
    gy_mesh_search search = search_of(&slow, &options, NULL);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_chosen("pipe=2,model=2");
    gy_mesh_trial plain = choice.trials[0];
    assert_true(plain.micro_batches > 8 || plain.schedule[0] != '\0');
    plain.micro_batches = 8; /* as all meshes are tried at first */
    plain.schedule[0] = '\0';
    assert_ok(gy_mesh_trial_play(&search, NULL, &plain));
    assert_true(plain.step.time_s > choice.trials[0].step.time_s);
    /* the same sizes, with rows or parts of products across */
    assert_true(trial_of("data=2,pipe=2")->step.time_s >
                2 * trial_of("pipe=2,data=2")->step.time_s);
    assert_true(trial_of("model=4")->step.time_s > 1.2 * choice.trials[0].step.time_s);
    const double time_s = choice.trials[0].step.time_s;
    search = search_of(&equal, &options, NULL);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_int_equal(choice.trials[0].mesh.pipe, 1);
    assert_true(choice.trials[0].step.time_s < time_s);
}

/* Few parameters, many rows: rows are cut. Where far is so slow that computing twice costs less
 * than the sum of gradients, they are cut inside hosts. */
GY_TEST(rows_are_cut_where_parameters_are_few)
{
    model_kind kind = MLP;
    const gy_virtual_cluster slow = two_by_two(1e6), equal = two_by_two(10e9);
    const gy_train_options options = {.batch = 4096};
    gy_mesh_search search = search_of(&equal, &options, &kind);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_chosen("data=4");
    search = search_of(&slow, &options, &kind);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_chosen("model=2,data=2");
    assert_true(trial_of("data=4")->step.exposed_s > 2 * choice.trials[0].step.time_s);
}

/* None of the others, played by itself, is cheaper; the order and its costs do not depend on
 * who asks. */
GY_TEST(the_choice_is_the_cheapest)
{
    static const char *const axes[] = {"data=4",         "pipe=4",        "model=4",
                                       "data=2,pipe=2",  "pipe=2,data=2", "data=2,model=2",
                                       "model=2,data=2", "pipe=2,model=2"};
    static const double far[] = {1e6, 1e9};
    model_kind kind = MLP;
    const gy_train_options options = {.batch = 64};
    for (size_t i = 0; i < GY_COUNT(far); i++) {
        const gy_virtual_cluster cluster = two_by_two(far[i]);
        const gy_mesh_search search = search_of(&cluster, &options, &kind);
        assert_ok(gy_mesh_choose(&search, NULL, &choice));
        assert_int_equal(choice.count, GY_COUNT(axes));
        assert_int_equal(choice.left, 0);
        for (size_t k = 0; k < GY_COUNT(axes); k++) {
            gy_mesh_trial trial = *trial_of(axes[k]);
            const double time_s = trial.step.time_s;
            const int micros = trial.micro_batches;
            assert_true(trial.is_played && trial.fits);
            assert_true(trial.mesh.pipe > 1 || micros == 0);
            assert_ok(gy_mesh_trial_play(&search, NULL, &trial));
            assert_true(trial.step.time_s == time_s && trial.micro_batches == micros);
            assert_true(choice.trials[0].step.time_s <= time_s);
        }
        for (int k = 1; k < choice.count; k++) {
            assert_true(choice.trials[k - 1].step.time_s <= choice.trials[k].step.time_s);
        }
    }
}

GY_TEST(micro_batches_are_those_given_or_those_that_rows_allow)
{
    model_kind kind = MLP;
    const gy_virtual_cluster cluster = two_by_two(1e9);
    gy_train_options options = {.batch = 64, .micro_batches = 3, .pipe_schedule = "gpipe"};
    gy_mesh_search search = search_of(&cluster, &options, &kind);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    for (int i = 0; i < choice.count; i++) {
        gy_train_options taken;
        const gy_mesh_trial *trial = &choice.trials[i];
        assert_int_equal(trial->micro_batches, 3);
        assert_string_equal(trial->schedule, "");
        assert_ok(gy_mesh_trial_options(trial, &options, &taken));
        assert_int_equal(taken.micro_batches, 3);
        assert_true((taken.pipe_schedule != NULL) == (trial->mesh.pipe > 1));
    }
    options = (gy_train_options){.batch = 2};
    search = search_of(&cluster, &options, &kind);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_int_equal(trial_of("pipe=2,data=2")->micro_batches, 0); /* a row a rank */
    options = (gy_train_options){.batch = 4};
    search = search_of(&cluster, &options, &kind);
    search.cluster.flops_s = 1e3; /* computing is all */
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_int_equal(trial_of("pipe=4")->micro_batches, 4);
    options = (gy_train_options){.batch = 8};
    search = search_of(&cluster, &options, NULL);
    search.make = make_back;
    search.cluster.ranks_per_host = 1;
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    gy_mesh_trial back = *trial_of("pipe=2");
    assert_true(back.is_played && back.micro_batches == 0); /* its stages do not run whole */
    back.micro_batches = 4;
    assert_ok(gy_mesh_trial_play(&search, NULL, &back));
    assert_true(!back.is_played && strstr(back.why, "stages that run whole cannot") != NULL);
}

/* A limit that the cheapest mesh breaks and others keep; one that none does. */
GY_TEST(what_does_not_fit_is_left_out)
{
    gy_virtual_cluster cluster = two_by_two(10e9);
    const gy_train_options options = {.batch = 64};
    gy_mesh_search search = search_of(&cluster, &options, NULL);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    const gy_mesh_trial first = choice.trials[0];
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < choice.count; i++) {
        least = GY_MIN(least, choice.trials[i].step.memory_bytes);
    }
    assert_true(least < first.step.memory_bytes);
    search.cluster.memory_bytes = first.step.memory_bytes - 1;
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_true(choice.trials[0].fits && choice.trials[0].step.time_s > first.step.time_s);
    assert_true(choice.trials[0].step.memory_bytes < first.step.memory_bytes);
    assert_true(trial_of(first.mesh.axes)->is_played && !trial_of(first.mesh.axes)->fits);
    search.cluster.memory_bytes = least / 2;
    assert_status(gy_mesh_choose(&search, NULL, &choice), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "needs least"));
    assert_true(choice.count > 0 && !choice.trials[0].fits);
}

/* One layer has no four stages; a cut names two. */
GY_TEST(what_cannot_be_says_why)
{
    model_kind kind = MLP;
    const gy_virtual_cluster cluster = two_by_two(1e9);
    gy_train_options options = {.batch = 64, .cut = "dense3.weight"};
    const gy_parameter_pin pin = {.name = "nothing", .axis = "data"};
    const gy_mesh_search search = search_of(&cluster, &options, &kind);
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_false(trial_of("pipe=4")->is_played);
    assert_non_null(strstr(trial_of("pipe=4")->why, "stages"));
    assert_true(trial_of("pipe=2,data=2")->is_played && trial_of("data=4")->is_played);
    options = (gy_train_options){.batch = 64, .pins = &pin, .pin_count = 1};
    assert_status(gy_mesh_choose(&search, NULL, &choice), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "no mesh of these ranks can be used"));
    options = (gy_train_options){.batch = 0};
    assert_status(gy_mesh_choose(&search, NULL, &choice), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "a batch of 0 rows"));
}

static const gy_mesh_trial *best_with_stages(void)
{
    int best = 0;
    while (choice.trials[best].mesh.pipe == 1) {
        best++;
    }
    assert_true(best < choice.count);
    return &choice.trials[best];
}

/* The choice for near ranks and for far ones, and the best with stages. */
GY_TEST(the_choice_trains_as_one_rank)
{
    static story alone, chosen;
    model_kind kind = MLP;
    gy_virtual_cluster clusters[] = {two_by_two(10e9), two_by_two(10e3)};
    const gy_train_options options = {.batch = BATCH};
    alone = (story){.kind = kind, .axes = "data=1", .accumulate = 1};
    (void)story_play(&alone);
    for (size_t i = 0; i < 2 * GY_COUNT(clusters); i++) {
        clusters[i / 2].flops_s = 50e6;
        const gy_mesh_search search = search_of(&clusters[i / 2], &options, &kind);
        assert_ok(gy_mesh_choose(&search, NULL, &choice));
        const gy_mesh_trial *trial = i % 2 == 0 ? &choice.trials[0] : best_with_stages();
        printf("%s, %d micro-batches %s\n", trial->mesh.axes, trial->micro_batches,
               trial->schedule);
        chosen = (story){.kind = kind,
                         .axes = trial->mesh.axes,
                         .accumulate = 1,
                         .micros = trial->micro_batches,
                         .schedule = trial->schedule[0] != '\0' ? trial->schedule : NULL};
        story_assert_same(&alone, &chosen, story_play(&chosen));
    }
}

/* ---- ranks ---- */

typedef struct meeting {
    bool fails; /* on rank 0 */
    bool looks; /* at hosts alone */
    gy_virtual_cluster clusters[KIT_RANKS_MAX];
    gy_mesh_choice choices[KIT_RANKS_MAX];
} meeting;

static gy_status make_nothing(void *arg, gy_mesh *mesh, gy_model **model)
{
    (void)arg;
    (void)mesh;
    (void)model;
    return gy_fail(GY_NOMEM, "a model that is too large");
}

static gy_status meet_ranks(kit_rank *me)
{
    meeting *m = me->arg;
    model_kind kind = MLP;
    const gy_train_options options = {.batch = 64};
    GY_TRY(gy_virtual_cluster_of(me->comm, &m->clusters[me->rank]));
    if (m->looks) {
        return GY_OK;
    }
    m->clusters[me->rank].flops_s = 1e9;
    gy_mesh_search search = search_of(&m->clusters[me->rank], &options, &kind);
    search.make = m->fails ? make_nothing : search.make;
    return gy_mesh_choose(&search, me->comm, &m->choices[me->rank]);
}

/* Ranks of two hosts know them, and one memory inside each; uneven ones count each for itself.
 */
GY_TEST(all_ranks_take_one_mesh)
{
    static meeting even, uneven;
    static kit_rank members[KIT_RANKS_MAX];
    const spread two = {.hosts = 2, .counts = {2, 2}};
    const spread odd[] = {{.hosts = 2, .counts = {1, 3}}, {.hosts = 2, .counts = {1, 2}}};
    gy_transport *transports[KIT_RANKS_MAX];
    assert_ok(spread_open(&two, transports));
    kit_run_on(transports, NULL, 4, meet_ranks, &even, members);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(members[rank].error.status, GY_OK);
        assert_int_equal(even.clusters[rank].hosts, 2);
        assert_int_equal(even.clusters[rank].ranks_per_host, 2);
        assert_true(even.clusters[rank].far_bytes_s > 0 &&
                    even.clusters[rank].near_bytes_s == 0);
        assert_memory_equal(&even.choices[0].trials[0], &even.choices[rank].trials[0],
                            sizeof(gy_mesh_trial));
        assert_int_equal(even.choices[rank].count, rank == 0 ? 8 : 1);
    }
    for (size_t i = 0; i < GY_COUNT(odd); i++) {
        const int ranks = spread_size(&odd[i]);
        uneven = (meeting){.looks = true};
        assert_ok(spread_open(&odd[i], transports));
        kit_run_on(transports, NULL, ranks, meet_ranks, &uneven, members);
        assert_int_equal(members[0].error.status, GY_OK);
        assert_int_equal(uneven.clusters[0].hosts, ranks);
        assert_int_equal(uneven.clusters[0].ranks_per_host, 1);
    }
}

GY_TEST(a_failure_of_the_first_rank_is_all_ranks)
{
    static meeting m;
    static kit_rank members[KIT_RANKS_MAX];
    m = (meeting){.fails = true};
    kit_run_ranks(2, meet_ranks, &m, members);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(members[rank].error.status, GY_NOMEM);
        assert_non_null(strstr(members[rank].error.text, "a model that is too large"));
        assert_int_equal(m.clusters[rank].hosts, 1);
        assert_int_equal(m.clusters[rank].ranks_per_host, 2);
    }
}

/* Without operations a second a batch's share is run; where one rank cannot hold the model,
 * kernels count by nominal rates. */
GY_TEST(kernels_are_measured_where_they_are_not_given)
{
    model_kind kind = MLP;
    gy_dataset set = story_set(MLP);
    gy_virtual_cluster cluster = two_by_two(1e9);
    const gy_train_options options = {.batch = 16};
    cluster.flops_s = 0;
    gy_mesh_search search = search_of(&cluster, &options, &kind);
    search.train = &set;
    assert_ok(gy_mesh_choose(&search, NULL, &choice));
    assert_false(choice.is_nominal);
    assert_true(choice.trials[0].step.time_s > 0);
    search.cluster.memory_bytes = 1;
    assert_status(gy_mesh_choose(&search, NULL, &choice), GY_LIMIT);
    assert_true(choice.is_nominal);
}

GY_TEST_MAIN(NULL, NULL)
