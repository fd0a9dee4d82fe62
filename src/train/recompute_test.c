/*
 * Goal: a training whose layers are made again has the bits of one that holds them, losses and
 * parameters, on any mesh, with dropout and batch norm; a GPT of eight layers takes at most
 * two fifths of the memory for values; `auto` makes as few again as the limit asks for.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <limits.h>
#include <string.h>

#include "gy_test.h"
#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS = 5, LETTERS = 11, VALUES_MAX = 1 << 17 };

typedef enum model_kind { MLP, LENET, NORMED, GPT, DEEP_GPT } model_kind;

/* ---- data ---- */

static int64_t length_of(model_kind kind)
{
    return kind == DEEP_GPT ? 64 : 8;
}

static gy_dataset set_of(model_kind kind)
{
    if (kind < GPT) {
        return kit_digits(20, 12);
    }
    return kit_letters(20, LETTERS, length_of(kind));
}

/* ---- models ---- */

static const gy_layer *layers_of(model_kind kind, int *count)
{
    static gy_layer dense[9], image[9], normed[10];
    const gy_layer mlp[] = {gy_layer_flatten(),    gy_layer_dense(24), gy_layer_relu(),
                            gy_layer_dropout(0.2), gy_layer_dense(16), gy_layer_relu(),
                            gy_layer_dense(12),    gy_layer_relu(),    gy_layer_dense(10)};
    const gy_layer lenet[] = {gy_layer_conv2d(4, 3, 1), gy_layer_relu(), gy_layer_max_pool(2),
                              gy_layer_conv2d(6, 3, 1), gy_layer_relu(), gy_layer_flatten(),
                              gy_layer_dense(16),       gy_layer_relu(), gy_layer_dense(10)};
    const gy_layer norm[] = {gy_layer_conv2d(4, 3, 1), gy_layer_batch_norm(), gy_layer_relu(),
                             gy_layer_conv2d(4, 3, 1), gy_layer_batch_norm(), gy_layer_relu(),
                             gy_layer_flatten(),       gy_layer_dense(12),    gy_layer_relu(),
                             gy_layer_dense(10)};
    memcpy(dense, mlp, sizeof(dense));
    memcpy(image, lenet, sizeof(image));
    memcpy(normed, norm, sizeof(normed));
    *count = kind == NORMED ? 10 : 9;
    return kind == MLP ? dense : kind == LENET ? image : normed;
}

static gy_status make_model(model_kind kind, gy_mesh *mesh, gy_model **model)
{
    static const char *const names[LETTERS] = {"a", "b", "c", "d", "e", "f",
                                               "g", "h", "i", "j", "k"};
    gy_model_options base =
        GY_OPTIONS(gy_model_options, .seed = 11, .mesh = mesh, .workers = 1);
    if (kind >= GPT) {
        base.input_sizes[0] = length_of(kind);
        base.class_names = names;
        base.class_count = LETTERS;
        return gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = kind == GPT ? 2 : 8,
                                      .width = kind == GPT ? 16 : 32, .heads = 4,
                                      .dropout = 0.1),
                          &base, model);
    }
    base.name = "layers";
    base.layers = layers_of(kind, &base.layer_count);
    base.input_rank = 3;
    memcpy(base.input_sizes, (int64_t[]){1, 12, 12}, 3 * sizeof(int64_t));
    return gy_model_new(&base, model);
}

/* ---- trainings ---- */

/* A training on one mesh, and what it gives on every rank. */
typedef struct story {
    model_kind kind;
    const char *axes;
    int zero, accumulate;
    gy_recompute recompute;
    uint64_t memory_bytes;
    struct {
        double losses[STEPS];
        float *values;
        int count, recomputed;
        uint64_t size_bytes, value_bytes;
    } got[KIT_RANKS_MAX];
} story;

static gy_train_options options_of(const story *s)
{
    return GY_OPTIONS(gy_train_options, .steps = STEPS, .batch = s->kind == DEEP_GPT ? 16 : 8,
                      .accumulate = s->accumulate, .zero = s->zero, .clip_norm = 0.3,
                      .optimizer = GY_OPTIMIZER_ADAMW, .rate = 0.01, .weight_decay = 0.01,
                      .seed = 3, .recompute = s->recompute, .memory_bytes = s->memory_bytes);
}

static gy_status keep_parameters(gy_model *model, story *s, int rank)
{
    s->got[rank].values = gy_alloc("test", VALUES_MAX * sizeof(float));
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (model->slots[i].kind == GY_SLOT_STATE) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        for (int64_t k = 0; k < gy_tensor_count(whole); k++) {
            GY_ASSERT(s->got[rank].count < VALUES_MAX);
            s->got[rank].values[s->got[rank].count++] = (float)gy_tensor_get(whole, k);
        }
        gy_tensor_drop(whole);
    }
    return GY_OK;
}

static gy_status train_model(story *s, int rank, gy_model *model)
{
    gy_dataset set = set_of(s->kind);
    gy_train_result result;
    gy_footprint f;
    const gy_train_options options = options_of(s);
    gy_train_options filled;
    GY_TRY(gy_train(model, &set, &set, &options, &result));
    memcpy(s->got[rank].losses, result.losses, (size_t)result.steps * sizeof(double));
    gy_train_result_free(&result);
    GY_TRY(gy_train_defaults(&options, &filled));
    GY_TRY(gy_train_predict(model, &filled, &(gy_train_counts){.train = 16}, &f));
    s->got[rank].recomputed = f.recomputed;
    s->got[rank].size_bytes = gy_footprint_bytes(&f);
    s->got[rank].value_bytes = f.program_bytes + f.shared_bytes;
    return keep_parameters(model, s, rank);
}

static gy_status run_rank(kit_rank *me)
{
    story *s = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    GY_TRY(gy_mesh_new(me->comm, s->axes, &mesh));
    gy_status status = make_model(s->kind, mesh, &model);
    status = status < 0 ? status : train_model(s, me->rank, model);
    gy_error error;
    gy_error_take(&error, status);
    if (model != NULL) {
        gy_model_free(model);
    }
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static int play(story *s)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0;
    assert_ok(gy_mesh_places(s->axes, &ranks));
    memset(s->got, 0, sizeof(s->got));
    kit_run_ranks(ranks, run_rank, s, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("model %d, %s, zero %d, rank %d: %s", (int)s->kind, s->axes, s->zero, rank,
                     members[rank].error.text);
        }
    }
    return ranks;
}

static void forget(story *s)
{
    for (int rank = 0; rank < KIT_RANKS_MAX; rank++) {
        gy_free(s->got[rank].values);
        s->got[rank].values = NULL;
    }
}

/* Train twice, held and made again; `held` and `again` are the caller's to forget. */
static void compare(story *held, story *again)
{
    *again = *held;
    again->recompute = GY_RECOMPUTE_LAYERS;
    const int ranks = play(held);
    (void)play(again);
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(held->got[rank].recomputed, 0);
        /* A dense layer and its relu hold what the next layer reads, and no more. */
        assert_true(held->kind < NORMED || again->got[rank].recomputed > 0);
        assert_int_equal(held->got[rank].count, again->got[rank].count);
        const bool is_same = memcmp(held->got[rank].losses, again->got[rank].losses,
                                    sizeof(held->got[rank].losses)) == 0 &&
                             memcmp(held->got[rank].values, again->got[rank].values,
                                    (size_t)held->got[rank].count * sizeof(float)) == 0;
        if (!is_same) {
            fail_msg("model %d, %s, zero %d, rank %d: other bits when made again: losses %.17g "
                     "and %.17g",
                     (int)held->kind, held->axes, held->zero, rank,
                     held->got[rank].losses[STEPS - 1], again->got[rank].losses[STEPS - 1]);
        }
    }
}

GY_TEST(eight_layers_take_two_fifths)
{
    static story held, again;
    held = (story){.kind = DEEP_GPT, .axes = "data=1", .accumulate = 1};
    compare(&held, &again);
    const double ratio = (double)again.got[0].value_bytes / (double)held.got[0].value_bytes;
    printf("values: %llu bytes held, %llu with %d chunks made again: %.3f\n",
           (unsigned long long)held.got[0].value_bytes,
           (unsigned long long)again.got[0].value_bytes, again.got[0].recomputed, ratio);
    assert_true(ratio <= 0.4);
    assert_true(again.got[0].recomputed >= 7);
    forget(&held);
    forget(&again);
}

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
static const long meshes_max = 4;
#else
static const long meshes_max = 8;
#endif

GY_TEST(any_mesh_has_the_same_bits)
{
    static const struct {
        model_kind kind;
        const char *axes;
        int zero, accumulate;
    } table[] = {
        {MLP, "data=1", 0, 1},
        {NORMED, "data=2", 0, 1},
        {GPT, "data=2,model=2", 3, 1},
        {LENET, "pipe=2", 0, 2},
        {MLP, "model=2", 0, 1},
        {GPT, "pipe=2", 0, 2},
        {GPT, "data=3", 3, 1},
        {GPT, "model=2", 0, 1},
        /* in the soak */
        {LENET, "data=2", 1, 2},
        {GPT, "data=2", 2, 2},
        {MLP, "pipe=2,data=2", 2, 1},
        {GPT, "pipe=2,model=2", 0, 1},
        {GPT, "auto=2", 0, 1},
    };
    const size_t count = (size_t)gy_test_cases(meshes_max);
    static story held, again;
    for (size_t i = 0; i < GY_COUNT(table) && i < count; i++) {
        held = (story){.kind = table[i].kind,
                       .axes = table[i].axes,
                       .zero = table[i].zero,
                       .accumulate = table[i].accumulate};
        compare(&held, &again);
        printf("model %d, %s, zero %d: %d chunks made again\n", (int)held.kind, held.axes,
               held.zero, again.got[0].recomputed);
        forget(&held);
        forget(&again);
    }
}

/* ---- under a limit ---- */

static gy_status predict(story *s, int chunks, gy_footprint *f)
{
    gy_model *model = NULL;
    gy_train_options filled;
    const gy_train_options options = options_of(s);
    GY_TRY(gy_train_defaults(&options, &filled));
    GY_TRY(make_model(s->kind, NULL, &model));
    GY_TRY(gy_model_build(model, &filled));
    GY_TRY(gy_graph_recompute(model->graph, chunks));
    GY_TRY(gy_train_predict(model, &filled, &(gy_train_counts){.train = 20, .test = 20}, f));
    gy_model_free(model);
    return GY_OK;
}

GY_TEST(auto_makes_as_few_again_as_the_limit_asks_for)
{
    static story s;
    gy_footprint none, some, all;
    s = (story){.kind = DEEP_GPT, .axes = "data=1", .accumulate = 1};
    assert_ok(predict(&s, 0, &none));
    assert_ok(predict(&s, 3, &some));
    assert_ok(predict(&s, INT_MAX, &all));
    assert_true(gy_footprint_bytes(&all) < gy_footprint_bytes(&some) &&
                gy_footprint_bytes(&some) < gy_footprint_bytes(&none));
    s.recompute = GY_RECOMPUTE_AUTO;
    const struct {
        uint64_t limit;
        int chunks;
    } table[] = {{gy_footprint_bytes(&none), 0},
                 {gy_footprint_bytes(&some), 3},
                 {gy_footprint_bytes(&all), all.recomputed}};
    for (size_t i = 0; i < GY_COUNT(table); i++) {
        s.memory_bytes = table[i].limit;
        (void)play(&s);
        printf("%llu bytes: %d chunks\n", (unsigned long long)s.memory_bytes,
               s.got[0].recomputed);
        assert_true(s.got[0].recomputed <= table[i].chunks);
        assert_true(i == 0 || s.got[0].recomputed > table[i - 1].chunks - (i == 2 ? 1 : 0));
        assert_true(s.got[0].size_bytes <= s.memory_bytes);
        forget(&s);
    }
}

static gy_status train_alone(story *s)
{
    gy_model *model = NULL;
    gy_train_result result;
    gy_dataset set = set_of(s->kind);
    const gy_train_options options = options_of(s);
    GY_TRY(make_model(s->kind, NULL, &model));
    const gy_status status = gy_train(model, &set, NULL, &options, &result);
    if (status >= 0) {
        gy_train_result_free(&result);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_model_free(model);
    return gy_error_raise(&error);
}

GY_TEST(limits_that_cannot_be_kept_are_refused)
{
    static story s;
    gy_footprint none, all;
    s = (story){.kind = DEEP_GPT, .axes = "data=1", .accumulate = 1};
    assert_ok(predict(&s, 0, &none));
    assert_ok(predict(&s, INT_MAX, &all));
    s.memory_bytes = gy_footprint_bytes(&all);
    assert_status(train_alone(&s), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "recomputing layers takes"));
    s.recompute = GY_RECOMPUTE_AUTO;
    s.memory_bytes = gy_footprint_bytes(&all) / 2;
    assert_status(train_alone(&s), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "the limit is"));
    s.memory_bytes = 0;
    assert_status(train_alone(&s), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "auto needs memory_bytes"));
    s.recompute = (gy_recompute)7;
    assert_status(train_alone(&s), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "recompute"));
}

GY_TEST_MAIN(NULL, NULL)
