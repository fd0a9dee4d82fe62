/*
 * Goal: trainings whose products read bf16 learn as those of float32 do, to 0.02 nats, have the
 * same bits when resumed and when layers are made again, and run on ranks that cut parameters;
 * what cannot be trained so is refused by name.
 */
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"
#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS = 12, LETTERS = 40, LENGTH = 32, VALUES_MAX = 1 << 17 };

typedef enum model_kind { MLP, LENET, GPT } model_kind;

/* A training, and what it gives on rank 0. */
typedef struct story {
    model_kind kind;
    gy_dtype precision, exchange;
    const char *axes;
    int zero, micro_batches;
    gy_recompute recompute;
    const char *folder;
    int64_t step_limit;
    double loss_scale, last_scale;
    int64_t skipped;
    double losses[STEPS];
    float values[VALUES_MAX];
    int count;
} story;

static gy_status make_model(model_kind kind, gy_mesh *mesh, gy_model **model)
{
    static const char *const names[LETTERS] = {
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
        "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "0", "1",
        "2", "3", "4", "5", "6", "7", "8", "9", ".", ",", ";", "!"};
    const gy_layer mlp[] = {gy_layer_flatten(), gy_layer_dense(64), gy_layer_relu(),
                            gy_layer_dense(48), gy_layer_relu(),    gy_layer_dense(10)};
    const gy_layer lenet[] = {
        gy_layer_conv2d(8, 3, 1), gy_layer_relu(), gy_layer_max_pool(2), gy_layer_flatten(),
        gy_layer_dense(64),       gy_layer_relu(), gy_layer_dense(10)};
    gy_model_options base =
        GY_OPTIONS(gy_model_options, .seed = 11, .mesh = mesh, .workers = 1);
    if (kind == GPT) {
        base.input_sizes[0] = LENGTH;
        base.class_names = names;
        base.class_count = LETTERS;
        return gy_gpt_new(
            &GY_OPTIONS(gy_gpt_options, .layers = 2, .width = 32, .heads = 2, .dropout = 0.1),
            &base, model);
    }
    base.name = "layers";
    base.layers = kind == MLP ? mlp : lenet;
    base.layer_count = kind == MLP ? (int)GY_COUNT(mlp) : (int)GY_COUNT(lenet);
    base.input_rank = 3;
    memcpy(base.input_sizes, (int64_t[]){1, 12, 12}, 3 * sizeof(int64_t));
    return gy_model_new(&base, model);
}

static gy_train_options options_of(const story *s)
{
    return GY_OPTIONS(gy_train_options, .steps = STEPS, .batch = 80, .zero = s->zero,
                      .micro_batches = s->micro_batches, .clip_norm = 1,
                      .optimizer = GY_OPTIMIZER_ADAMW, .rate = 0.003, .weight_decay = 0.01,
                      .seed = 3, .recompute = s->recompute, .checkpoint_folder = s->folder,
                      .checkpoint_every = 5, .resume = s->folder != NULL,
                      .step_limit = s->step_limit, .precision = s->precision,
                      .loss_scale = s->loss_scale, .exchange = s->exchange);
}

static gy_status keep_parameters(gy_model *model, story *s, bool is_kept)
{
    if (is_kept) {
        s->count = 0;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (model->slots[i].kind == GY_SLOT_STATE) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        GY_ASSERT(gy_tensor_dtype(whole) == GY_F32);
        for (int64_t k = 0; is_kept && k < gy_tensor_count(whole); k++) {
            GY_ASSERT(s->count < VALUES_MAX);
            s->values[s->count++] = (float)gy_tensor_get(whole, k);
        }
        gy_tensor_drop(whole);
    }
    return GY_OK;
}

static gy_status run_rank(kit_rank *me)
{
    story *s = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_train_result result = {.losses = NULL};
    gy_dataset set = s->kind == GPT ? kit_letters(400, LETTERS, LENGTH) : kit_digits(400, 12);
    const gy_train_options options = options_of(s);
    GY_TRY(gy_mesh_new(me->comm, s->axes != NULL ? s->axes : "data=1", &mesh));
    gy_status status = make_model(s->kind, mesh, &model);
    status = status < 0 ? status : gy_train(model, &set, NULL, &options, &result);
    if (status >= 0 && me->rank == 0) {
        memcpy(s->losses, result.losses, (size_t)result.steps * sizeof(double));
        s->last_scale = result.loss_scale;
        s->skipped = result.skipped_steps;
    }
    status = status < 0 ? status : keep_parameters(model, s, me->rank == 0);
    gy_error error;
    gy_error_take(&error, status);
    gy_train_result_free(&result);
    if (model != NULL) {
        gy_model_free(model);
    }
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static gy_status play(story *s)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0;
    GY_TRY(gy_mesh_places(s->axes != NULL ? s->axes : "data=1", &ranks));
    kit_run_ranks(ranks, run_rank, s, members);
    for (int rank = 0; rank < ranks; rank++) {
        GY_TRY(gy_error_raise(&members[rank].error));
    }
    return GY_OK;
}

static void assert_same_bits(const story *a, const story *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, (size_t)a->count * sizeof(float));
}

static story wide, narrow, other;

GY_TEST(models_learn_as_in_float32)
{
    for (int i = 0; i < 2 * (GPT + 1); i++) {
        const model_kind kind = (model_kind)(i / 2);
        narrow = (story){.kind = kind, .precision = i % 2 == 0 ? GY_BF16 : GY_F16};
        if (i % 2 == 0) {
            wide = (story){.kind = kind};
            assert_ok(play(&wide));
        }
        assert_ok(play(&narrow));
        double most = 0;
        for (int step = 0; step < STEPS; step++) {
            most = fmax(most, fabs(wide.losses[step] - narrow.losses[step]));
        }
        printf("model %d: loss %.4f to %.4f in float32, %.4f in %s; at most %.4f apart\n",
               (int)kind, wide.losses[0], wide.losses[STEPS - 1], narrow.losses[STEPS - 1],
               gy_dtype_name(narrow.precision), most);
        assert_true(most > 0 && most <= 0.02);
        assert_true(narrow.losses[STEPS - 1] < 0.9 * narrow.losses[0]);
    }
}

/* Gradients of 2^24 times the loss are no numbers of f16: steps are skipped until they are. */
GY_TEST(steps_that_overflow_change_nothing)
{
    wide = (story){.kind = MLP, .precision = GY_F16, .step_limit = 1};
    assert_ok(play(&wide));
    assert_int_equal(wide.skipped, 0);
    assert_true(wide.last_scale == 0x1p16);
    narrow = (story){.kind = MLP, .precision = GY_F16, .loss_scale = 0x1p24};
    assert_ok(play(&narrow));
    assert_in_range(narrow.skipped, 1, 10);
    assert_true(narrow.last_scale == ldexp(1, 24 - (int)narrow.skipped));
    assert_true(narrow.losses[STEPS - 1] < narrow.losses[0]);
    /* the first step was skipped, so the second began with what the first had */
    other = (story){.kind = MLP, .precision = GY_F16, .loss_scale = 0x1p24, .step_limit = 1};
    assert_ok(play(&other));
    assert_int_equal(other.skipped, 1);
    for (int i = 0; i < other.count; i++) {
        assert_true(isfinite(other.values[i]));
    }
    wide = other;
    wide.micro_batches = 2; /* what they summed up is cleared */
    wide.step_limit = 0;
    assert_ok(play(&wide));
    assert_in_range(wide.skipped, 1, 10);
    assert_true(wide.losses[STEPS - 1] < wide.losses[0]);
}

GY_TEST(good_steps_double_the_scale)
{
    gy_model *model = NULL;
    gy_train_result result;
    const gy_layer layers[] = {gy_layer_flatten(), gy_layer_dense(10)};
    gy_dataset set = kit_digits(8, 2);
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .input_rank = 3, .input_sizes = {1, 2, 2},
                   .layers = layers, .layer_count = 2, .workers = 1);
    assert_ok(gy_model_new(&base, &model));
    for (int64_t steps = 1999; steps <= 2000; steps++) {
        const gy_train_options options =
            GY_OPTIONS(gy_train_options, .steps = steps, .batch = 2, .precision = GY_F16,
                       .loss_scale = 1024);
        assert_ok(gy_train(model, &set, NULL, &options, &result));
        assert_int_equal(result.skipped_steps, 0);
        assert_true(result.loss_scale == (steps < 2000 ? 1024 : 2048));
        gy_train_result_free(&result);
    }
    gy_model_free(model);
}

GY_TEST(layers_made_again_have_the_same_bits)
{
    narrow = (story){.kind = GPT, .precision = GY_BF16};
    assert_ok(play(&narrow));
    other = narrow;
    other.recompute = GY_RECOMPUTE_LAYERS;
    assert_ok(play(&other));
    assert_same_bits(&narrow, &other);
}

/* The scale and what was skipped go on, too. */
static void check_resumed(gy_dtype precision, const char *mismatch)
{
    char folder[] = "/tmp/gyre-precision-XXXXXX";
    assert_non_null(mkdtemp(folder));
    narrow = (story){.kind = precision == GY_F16 ? MLP : GPT, .precision = precision};
    narrow.loss_scale = precision == GY_F16 ? 0x1p24 : 0;
    assert_ok(play(&narrow));
    other = narrow;
    other.folder = folder;
    other.step_limit = 7;
    assert_ok(play(&other));
    other.precision = GY_F32;
    other.loss_scale = 0;
    other.step_limit = 0;
    assert_status(play(&other), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), mismatch));
    other.precision = precision;
    other.loss_scale = precision == GY_F16 ? 2 : 0; /* the checkpoint's goes on */
    assert_ok(play(&other));
    assert_same_bits(&narrow, &other);
    assert_true(other.last_scale == narrow.last_scale);
    assert_true(other.skipped == narrow.skipped);
    kit_remove_folder(folder);
}

GY_TEST(resumed_trainings_have_the_same_bits)
{
    check_resumed(GY_BF16, "it has 'precision bf16', this training run 'precision f32'");
    assert_true(narrow.last_scale == 0);
    check_resumed(GY_F16, "it has 'precision f16', this training run 'precision f32'");
    assert_true(narrow.skipped > 0 && narrow.last_scale < 0x1p24);
}

/* A scale that would make gradients of nothing or NaN of all. */
GY_TEST(a_kept_scale_that_is_none_is_refused)
{
    char folder[] = "/tmp/gyre-precision-XXXXXX";
    static const float scales[] = {INFINITY, NAN, 0, -1, 0x1p25F};
    gy_model *model = NULL;
    gy_train_result result;
    gy_dataset set = kit_digits(400, 12);
    assert_non_null(mkdtemp(folder));
    narrow = (story){.kind = MLP, .precision = GY_F16, .folder = folder, .step_limit = 7};
    gy_train_options options = options_of(&narrow), filled;
    assert_ok(make_model(MLP, NULL, &model));
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    assert_ok(gy_train_defaults(&options, &filled));
    for (size_t i = 0; i < GY_COUNT(scales); i++) {
        char said[80];
        gy_train_state kept = {.step = 7, .losses = result.losses};
        gy_tensor *scale = gy_session_parameter(model->session, GY_TRAIN_SCALE);
        assert_non_null(scale);
        gy_tensor_set(scale, 0, (double)scales[i]);
        assert_ok(gy_train_checkpoint_write(model, &filled, &set, &kept));
        gy_train_state read = {.losses = NULL};
        assert_status(gy_train_checkpoint_read_step(model, &filled, &set, 7, &read), GY_FORMAT);
        snprintf(said, sizeof(said), "the loss scale is %g, expected", (double)scales[i]);
        assert_non_null(strstr(gy_error_text(), said));
        assert_non_null(strstr(gy_error_text(), folder));
        gy_free(read.losses);
    }
    gy_train_result_free(&result);
    gy_model_free(model);
    kit_remove_folder(folder);
}

/* Rounded gradients: near those that are not, on one rank and on two, and resumed alike. */
GY_TEST(rounded_gradients_teach_as_well)
{
    static const char *const axes[] = {"data=1", "data=2", "data=2"};
#ifdef GYRE_TSAN
    printf("oneDNN shares its compiled kernels among threads unseen by the race detector\n");
    skip();
#endif
    wide = (story){.kind = MLP};
    assert_ok(play(&wide));
    for (size_t i = 0; i < GY_COUNT(axes); i++) {
        other = (story){.kind = MLP, .exchange = GY_BF16, .axes = axes[i]};
        other.zero = i == 2 ? 3 : 0;
        assert_ok(play(&other));
        assert_true(other.losses[STEPS - 1] < other.losses[0]);
        assert_memory_not_equal(other.losses, wide.losses, sizeof(wide.losses));
        for (int step = 0; step < STEPS; step++) {
            assert_true(fabs(other.losses[step] - wide.losses[step]) <= 0.02);
        }
    }
}

/* Ranks sum in another order; what is cut, gathered and narrowed is the same. */
GY_TEST(ranks_learn_alike)
{
    static const struct {
        const char *axes;
        int zero, micro_batches;
    } cases[] = {{"data=2", 0, 0},
                 {"data=2", 3, 0},
                 {"model=2", 0, 0},
                 {"data=1", 0, 2},
                 {"pipe=2", 0, 2}};
#ifdef GYRE_TSAN
    printf("oneDNN shares its compiled kernels among threads unseen by the race detector\n");
    skip();
#endif
    for (size_t k = 0; k < 2 * GY_COUNT(cases); k++) {
        const size_t i = k % GY_COUNT(cases);
        const bool is_scaled = k >= GY_COUNT(cases);
        if (i == 0) {
            narrow = (story){.kind = MLP, .precision = is_scaled ? GY_F16 : GY_BF16};
            narrow.loss_scale = is_scaled ? 0x1p24 : 0;
            assert_ok(play(&narrow));
        }
        other = (story){.kind = MLP,
                        .precision = narrow.precision,
                        .axes = cases[i].axes,
                        .loss_scale = narrow.loss_scale,
                        .zero = cases[i].zero,
                        .micro_batches = cases[i].micro_batches};
        assert_ok(play(&other));
        assert_true(!is_scaled || (other.skipped > 0 && other.last_scale < 0x1p24));
        assert_true(other.losses[STEPS - 1] < other.losses[0]);
        /* Micro-batches have larger gradients, and may skip a step more. */
        for (int step = 0; step < STEPS && other.skipped == narrow.skipped; step++) {
            if (fabs(other.losses[step] - narrow.losses[step]) > 0.02) {
                fail_msg("%s %s zero %d step %d: loss %.6f, of one rank %.6f",
                         gy_dtype_name(other.precision), cases[i].axes, cases[i].zero, step,
                         other.losses[step], narrow.losses[step]);
            }
        }
    }
}

GY_TEST(what_cannot_be_narrow_is_refused)
{
    gy_model *model = NULL;
    gy_train_result result;
    const gy_layer layers[] = {gy_layer_flatten(), gy_layer_dense(10)};
    gy_dataset set = kit_digits(40, 12);
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .dtype = GY_F64, .input_rank = 3,
                   .input_sizes = {1, 12, 12}, .layers = layers, .layer_count = 2);
    assert_ok(gy_model_new(&base, &model));
    gy_train_options options =
        GY_OPTIONS(gy_train_options, .steps = 1, .batch = 4, .precision = GY_BF16);
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_string_equal(gy_error_text(),
                        "training: precision bf16 of a model of f64, expected none");
    gy_model_free(model);
    assert_ok(make_model(MLP, NULL, &model));
    options.precision = GY_I8;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_string_equal(gy_error_text(),
                        "training: precision i8 of a model of f32, expected f32, bf16 or f16");
    options.exchange = GY_F16;
    options.precision = GY_F32;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "exchange of gradients of f32 in f16, expected"));
    options.exchange = GY_DTYPE_NONE;
    options.precision = GY_F16;
    options.loss_scale = INFINITY;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_string_equal(gy_error_text(),
                        "training: loss scale inf of precision f16, expected 0 "
                        "(65536) or a power of two up to 16777216");
    static const double wrong[] = {NAN, -1, 1000, 0x1p25};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        options.loss_scale = wrong[i];
        assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), "of precision f16, expected 0"));
    }
    options.precision = GY_BF16;
    options.loss_scale = 2;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    options.precision = GY_F16;
    options.servers = &(gy_train_servers){.servers = "127.0.0.1:1", .is_plaintext = true};
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "f16 by parameter servers"));
    gy_model_free(model);
}

GY_TEST_MAIN(NULL, NULL)
