/* Goal: the number of ranks, and how a batch is cut, change nothing but rounding; and equal
 * runs have equal bits. */
#include "training_kit.h"

#include <gyre/gpt.h>

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "gy_test.h"

enum { STEPS_MAX = 64, RANKS_MAX = 5 };

/* One training, and what it gave. */
typedef struct trial {
    const char *model; /* of gy_model_named, or NULL: `layers` */
    const gy_layer *layers;
    int layer_count;
    int heads; /* of a gpt instead; 0: none */
    gy_dtype dtype;
    gy_dataset *train, *test;
    gy_train_options options;
    const char *mesh; /* NULL: all ranks along data */
    /* Of rank 0; the other ranks must have the same losses. */
    double losses[STEPS_MAX];
    int64_t steps, resumed_step;
    double test_loss, test_accuracy;
    uint64_t parameters; /* a hash of their bits */
    double weights;      /* the sum of their squares */
    uint64_t first;      /* a hash of the bits of the first ones */
    double *values;      /* (value_count) of all of them; NULL: not kept */
    size_t value_count;
} trial;

enum { GPT_CLASSES = 65, GPT_LENGTH = 5 };

/* That hash on every rank of the last training. */
static uint64_t parameters_of[KIT_RANKS_MAX];

static gy_status keep_parameters(gy_model *model, trial *t)
{
    size_t count = 0;
    t->parameters = 0;
    t->weights = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = NULL;
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &value));
        gy_view view = gy_tensor_pin(value);
        t->parameters =
            gy_hash(view.data, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype),
                    t->parameters);
        gy_tensor_unpin(value);
        for (int64_t j = 0; model->slots[i].kind != GY_SLOT_STATE && j < gy_tensor_count(value);
             j++) {
            t->weights += gy_tensor_get(value, j) * gy_tensor_get(value, j);
            if (t->values != NULL) {
                GY_ASSERT(count < t->value_count);
                t->values[count++] = gy_tensor_get(value, j);
            }
        }
        gy_tensor_drop(value);
    }
    t->value_count = count;
    return GY_OK;
}

static gy_status new_gpt(const trial *t, gy_model_options *options, gy_model **model)
{
    char names[GPT_CLASSES][2] = {{0}};
    const char *pointers[GPT_CLASSES];
    for (int i = 0; i < GPT_CLASSES; i++) {
        names[i][0] = (char)('0' + i);
        pointers[i] = names[i];
    }
    options->class_names = pointers;
    options->class_count = GPT_CLASSES;
    return gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = 1, .width = 12, .heads = t->heads,
                                  .dropout = 0.1),
                      options, model);
}

/* A hash of the first values, as this rank's layout of the model makes them. */
static gy_status hash_first(gy_model *model, trial *t)
{
    gy_train_options filled;
    t->first = 0;
    GY_TRY(gy_train_defaults(&t->options, &filled));
    GY_TRY(gy_model_build(model, &filled));
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = NULL;
        if (model->slots[i].kind == GY_SLOT_STATE) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &value));
        gy_view view = gy_tensor_pin(value);
        t->first = gy_hash(view.data, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype),
                           t->first);
        gy_tensor_unpin(value);
        gy_tensor_drop(value);
    }
    return GY_OK;
}

static trial trained_by_first; /* what rank 0 has of it, for all read the trial meanwhile */

static gy_status train_one(kit_rank *me)
{
    const trial *t = me->arg;
    trial own = *t;
    gy_model_options options = {.name = "trial",
                                .layers = t->layers,
                                .layer_count = t->layer_count,
                                .dtype = t->dtype,
                                .input_rank = t->train->input_rank,
                                .seed = 11,
                                .workers = 1};
    memcpy(options.input_sizes, t->train->input_sizes, sizeof(options.input_sizes));
    gy_model *model = NULL;
    GY_TRY(gy_mesh_new(me->comm, me->ranks > 1 ? t->mesh : NULL, &options.mesh));
    GY_TRY(t->heads > 0       ? new_gpt(t, &options, &model)
           : t->model != NULL ? gy_model_named(t->model, &options, KIT_CLASSES, &model)
                              : gy_model_new(&options, &model));
    gy_train_result result;
    double *values = own.values;
    own.values = me->rank == 0 ? values : NULL;
    gy_status status = values != NULL ? hash_first(model, &own) : GY_OK;
    status =
        status == GY_OK ? gy_train(model, t->train, t->test, &t->options, &result) : status;
    if (status == GY_OK) {
        GY_ASSERT(result.steps <= STEPS_MAX);
        memcpy(own.losses, result.losses, (size_t)result.steps * sizeof(double));
        own.steps = result.steps;
        own.resumed_step = result.resumed_step;
        own.test_loss = result.test_loss;
        own.test_accuracy = result.test_accuracy;
        gy_train_result_free(&result);
        status = keep_parameters(model, &own);
        parameters_of[me->rank] = own.parameters;
    }
    gy_model_free(model);
    gy_mesh_free(options.mesh);
    if (me->rank == 0) {
        trained_by_first = own;
    }
    return status;
}

/* `t` trained on `ranks` ranks. */
static trial trained(trial t, int ranks)
{
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(ranks, train_one, &t, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, members[rank].error.text);
        }
    }
    return trained_by_first;
}

static double relative(double a, double b)
{
    return a == b ? 0 : fabs(a - b) / fmax(fabs(a), fabs(b));
}

static void assert_close(const trial *a, const trial *b, double tolerance, const char *what)
{
    double worst = 0;
    assert_int_equal(a->steps, b->steps);
    for (int64_t i = 0; i < a->steps; i++) {
        worst = fmax(worst, relative(a->losses[i], b->losses[i]));
    }
    worst = fmax(worst, relative(a->weights, b->weights));
    worst = fmax(worst, relative(a->test_loss, b->test_loss));
    printf("%s: %lld losses from %g to %g differ by %.2g at most\n", what, (long long)a->steps,
           a->losses[0], a->losses[a->steps - 1], worst);
    if (!(worst <= tolerance)) {
        fail_msg("%s: differ by %g, expected at most %g", what, worst, tolerance);
    }
}

static void assert_same_bits(const trial *a, const trial *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->losses, b->losses, (size_t)a->steps * sizeof(double));
    assert_true(a->parameters == b->parameters);
    assert_true(a->test_loss == b->test_loss && a->test_accuracy == b->test_accuracy);
}

/* On 1, 2 and 4 ranks, each twice; with a sanitizer once, and on 2 twice. */
static void compare_ranks(const trial *t, double tolerance, const char *what)
{
    trial alone = trained(*t, 1);
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        trial first = ranks == 1 ? alone : trained(*t, ranks);
        char text[64];
        snprintf(text, sizeof(text), "%s, %d ranks", what, ranks);
        if (ranks == 2 || gy_test_cases(8) > 1) {
            trial again = trained(*t, ranks);
            assert_same_bits(&first, &again);
        }
        assert_close(&alone, &first, tolerance, text);
    }
}

GY_TEST(mlp_curves_agree_in_f64)
{
    gy_dataset train = kit_digits(96, 12);
    gy_dataset test = kit_digits(30, 12);
    int epochs = gy_test_cases(8) == 1 ? 1 : 2; /* three steps show what a sanitizer sees */
    compare_ranks(&(trial){.model = "mlp",
                           .dtype = GY_F64,
                           .train = &train,
                           .test = &test,
                           .options = {.epochs = epochs,
                                       .batch = 32,
                                       .optimizer = GY_OPTIMIZER_ADAM,
                                       .rate = 1e-3,
                                       .clip_norm = 1,
                                       .seed = 2}},
                  1e-9, "mlp f64");
}

GY_TEST(lenet_curves_agree_in_f64)
{
    gy_dataset train = kit_digits(24, 8);
    gy_dataset test = kit_digits(10, 8);
    int epochs = gy_test_cases(8) == 1 ? 1 : 2; /* as above */
    compare_ranks(&(trial){.model = "lenet",
                           .dtype = GY_F64,
                           .train = &train,
                           .test = &test,
                           .options = {.epochs = epochs,
                                       .batch = 8,
                                       .optimizer = GY_OPTIMIZER_MOMENTUM,
                                       .rate = 0.01,
                                       .seed = 2}},
                  1e-9, "lenet f64");
}

GY_TEST(lenet_curves_agree_in_f32)
{
#ifdef GYRE_TSAN
    printf("oneDNN shares its compiled kernels among threads unseen by the race detector\n");
    skip();
#endif
    /* Real digits where they are, else noisy ones. */
    char path[1024];
    gy_dataset noisy = kit_digits(320, 28);
    gy_dataset *train = NULL;
    gy_dataset *test = NULL;
    if (gy_test_data(path, "mnist/t10k-labels-idx1-ubyte.gz") != NULL) {
        *strrchr(path, '/') = '\0';
        assert_ok(gy_dataset_open_mnist(path, &train, &test));
    }
    gy_train_options options = gy_train_recipe("lenet");
    options.step_limit = gy_test_cases(8) == 1 ? 3 : 10;
    options.batch = 32;
    /* The last of these needs equal windows to stay equal: one rank and two then choose alike
     * in max pooling. */
    const uint64_t seeds[] = {1, 5, 10};
    /* The hardest alone, unless there is time. */
    for (size_t i = getenv("GYRE_SOAK") != NULL ? 0 : 2; i < GY_COUNT(seeds); i++) {
        options.seed = seeds[i];
        compare_ranks(&(trial){.model = "lenet",
                               .dtype = GY_F32,
                               .train = train != NULL ? train : &noisy,
                               .options = options},
                      1e-4, "lenet f32");
    }
    gy_dataset_free(train);
    gy_dataset_free(test);
}

static const gy_layer dropped[] = {
    {.kind = GY_LAYER_FLATTEN},
    {.kind = GY_LAYER_DENSE, .units = 24},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DROPOUT, .rate = 0.5},
    {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
};

/* Batches that no number of ranks divides, one row above and below the number of ranks, the
 * last one smaller than that number (of 7 rows rank 2 of 5 has more than of 8), and units
 * dropped alike wherever a sample is. */
GY_TEST(uneven_batches_and_dropout_know_no_ranks)
{
    gy_dataset train = kit_digits(47, 6);
    gy_dataset test = kit_digits(13, 6);
    static const int64_t batches[] = {8, 7, 5, 4, 3, 2, 1, 47, 1000};
    const size_t step =
        gy_test_cases(8) == 1 ? 3 : 1; /* 8, 4, 1: with rest, without, too few */
    for (size_t i = 0; i < GY_COUNT(batches); i += step) {
        trial t = {.layers = dropped,
                   .layer_count = GY_COUNT(dropped),
                   .dtype = GY_F64,
                   .train = &train,
                   .test = &test,
                   .options = {.epochs = 1,
                               .batch = batches[i],
                               .optimizer = GY_OPTIMIZER_NESTEROV,
                               .rate = 0.02,
                               .seed = 4}};
        trial alone = trained(t, 1);
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            char text[64];
            snprintf(text, sizeof(text), "batch %lld, %d ranks", (long long)batches[i], ranks);
            trial several = trained(t, ranks);
            assert_close(&alone, &several, 1e-9, text);
            assert_true(alone.test_accuracy == several.test_accuracy);
        }
    }
}

/* Rows that no axis divides, clipping by a norm of all ranks, units dropped alike. */
GY_TEST(meshes_train_as_one_rank_does)
{
    static const struct {
        const char *axes;
        int ranks;
    } meshes[] = {{"data=2,model=2", 4}, {"model=2", 2},        {"model=3,data=1", 3},
                  {"auto=3", 3},         {"data=1,model=4", 4}, {"model=2,data=2", 4}};
    gy_dataset train = kit_digits(23, 6);
    gy_dataset test = kit_digits(13, 6);
    trial t = {.layers = dropped,
               .layer_count = GY_COUNT(dropped),
               .dtype = GY_F64,
               .train = &train,
               .test = &test,
               .options = {.epochs = 1,
                           .batch = 7,
                           .optimizer = GY_OPTIMIZER_ADAM,
                           .clip_norm = 0.1,
                           .seed = 4}};
    const size_t step = gy_test_cases(8) == 1 ? 3 : 1;
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        t.options.accumulate = accumulate;
        const trial alone = trained(t, 1);
        for (size_t i = 0; i < GY_COUNT(meshes); i += step) {
            t.mesh = meshes[i].axes;
            const trial several = trained(t, meshes[i].ranks);
            assert_close(&alone, &several, 1e-9, meshes[i].axes);
            assert_true(alone.test_accuracy == several.test_accuracy);
        }
    }
}

/* What ranks keep in parts changes no result; sums of gradients have one exchange an update. */
GY_TEST(stages_of_zero_train_as_one_rank_does)
{
    static const struct {
        const char *axes;
        int ranks;
    } meshes[] = {{"data=2", 2}, {"data=3", 3}, {"data=2,model=2", 4}, {"data=5", 5}};
    static const gy_optimizer_kind optimizers[] = {GY_OPTIMIZER_ADAM, GY_OPTIMIZER_SGD,
                                                   GY_OPTIMIZER_ADAMW, GY_OPTIMIZER_NESTEROV};
    gy_dataset train = kit_digits(23, 6);
    gy_dataset test = kit_digits(13, 6);
    const int step = gy_test_cases(8) == 1 ? 3 : 1;
    for (int i = 0; i < 8; i += step) { /* stage, mesh, accumulation and optimizer in turn */
        trial t = {.layers = dropped,
                   .layer_count = GY_COUNT(dropped),
                   .dtype = GY_F64,
                   .train = &train,
                   .test = &test,
                   .options = {.epochs = 1,
                               .batch = 4,
                               .accumulate = i % 3 == 0 ? 1 : i % 3 + 1,
                               .optimizer = optimizers[(i + i / 4) % 4],
                               .weight_decay = 1e-3,
                               .clip_norm = i % 2 == 0 ? 0.1 : 0,
                               .seed = 4}};
        const trial alone = trained(t, 1);
        for (int stage = 0; stage <= 3; stage++) {
            char text[64];
            const int mesh = (i + stage) % (int)GY_COUNT(meshes);
            t.mesh = meshes[mesh].axes;
            t.options.zero = stage;
            snprintf(text, sizeof(text), "zero %d, %s", stage, t.mesh);
            const trial several = trained(t, meshes[mesh].ranks);
            const trial again = trained(t, meshes[mesh].ranks);
            assert_close(&alone, &several, 1e-9, text);
            assert_same_bits(&several, &again);
            for (int rank = 1; rank < meshes[mesh].ranks; rank++) {
                assert_true(parameters_of[rank] == parameters_of[0]);
            }
        }
    }
}

/* ---- every mesh, stage, model, accumulation and optimizer ---- */

static gy_status fill_text(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count * GPT_LENGTH; i++) {
        const int64_t at = indices[i / GPT_LENGTH] * 11 + i % GPT_LENGTH * 7;
        ((int32_t *)x->data)[i] = (int32_t)(at % GPT_CLASSES);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)((at + 7) % GPT_CLASSES);
        }
    }
    return GY_OK;
}

static const gy_dataset_ops text_ops = {.name = "text", .fill = fill_text, .free = kit_free};

static gy_dataset text_set(const gy_dataset_ops *ops)
{
    return (gy_dataset){.ops = ops,
                        .count = 23,
                        .classes = GPT_CLASSES,
                        .input_rank = 1,
                        .input_sizes = {GPT_LENGTH},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {GPT_LENGTH}};
}

enum { MESHES = 20, STAGES = 4, MODELS = 3, OPTIMIZERS = 4, VALUES_MAX = 10000 };

static const gy_layer small_lenet[] = {
    {.kind = GY_LAYER_CONV2D, .units = 3, .window = 5, .pad = 2},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_MAX_POOL, .window = 2},
    {.kind = GY_LAYER_CONV2D, .units = 5, .window = 3, .pad = 1},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_MAX_POOL, .window = 2},
    {.kind = GY_LAYER_FLATTEN},
    {.kind = GY_LAYER_DENSE, .units = 20},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DROPOUT, .rate = 0.3},
    {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
};

/* The numbers of one case. */
typedef struct grid {
    int mesh, stage, model, is_accumulated, optimizer;
} grid;

/* The mesh-th of the grids of up to eight ranks. */
static int mesh_text(int mesh, char out[32])
{
    for (int data = 1; data <= KIT_RANKS_MAX; data++) {
        for (int model = 1; data * model <= KIT_RANKS_MAX; model++) {
            if (mesh-- == 0) {
                snprintf(out, 32, "data=%d,model=%d", data, model);
                return data * model;
            }
        }
    }
    fail_msg("there are %d meshes", MESHES);
    return 0;
}

/* What one rank gives, of each model (gpt with 3 heads and with 4), accumulation, optimizer. */
enum { BASES = (MODELS + 1) * 2 * OPTIMIZERS };
static trial bases[BASES];
static double base_values[BASES][VALUES_MAX], values_of[VALUES_MAX];

static const trial *base_of(const grid *at, const trial *t)
{
    const int model = at->model + (t->heads == 4);
    const int index = (model * 2 + at->is_accumulated) * OPTIMIZERS + at->optimizer;
    if (bases[index].values == NULL) {
        trial alone = *t;
        alone.options.zero = 0;
        alone.values = base_values[index];
        bases[index] = trained(alone, 1);
    }
    return &bases[index];
}

static trial trial_of(const grid *at, gy_dataset *digits, gy_dataset *text)
{
    trial t = {
        .dtype = GY_F64,
        .train = digits,
        .options = {.epochs = 5,
                    .batch = 7,
                    .step_limit = 5,
                    .zero = at->stage,
                    .accumulate = at->is_accumulated ? 3 : 1,
                    .optimizer = at->optimizer % 2 == 0 ? GY_OPTIMIZER_SGD : GY_OPTIMIZER_ADAM,
                    .clip_norm = at->optimizer < 2 ? 0 : 0.1,
                    .seed = 4}};
    if (at->model == 0) {
        t.layers = dropped;
        t.layer_count = GY_COUNT(dropped);
    } else if (at->model == 1) {
        t.layers = small_lenet;
        t.layer_count = GY_COUNT(small_lenet);
    } else {
        t.heads = at->mesh % 2 == 0 ? 3 : 4;
        t.train = text;
    }
    return t;
}

static void assert_values_close(const trial *a, const trial *b, const char *what)
{
    assert_int_equal(a->value_count, b->value_count);
    assert_true(a->value_count > 0 && a->first == b->first);
    for (size_t i = 0; i < a->value_count; i++) {
        if (!(fabs(a->values[i] - b->values[i]) <= 1e-9 * fmax(1, fabs(a->values[i])))) {
            fail_msg("%s: parameter %zu is %.17g, on one rank %.17g", what, i, b->values[i],
                     a->values[i]);
        }
    }
}

/* A mask of dropout that differed would change the losses; so would a first value. */
static void compare_case(const grid *at, gy_dataset *digits, gy_dataset *text)
{
    static const char *const models[MODELS] = {"mlp", "lenet", "gpt"};
    char mesh[32], what[96];
    const int ranks = mesh_text(at->mesh, mesh);
    trial t = trial_of(at, digits, text);
    t.mesh = mesh;
    t.value_count = VALUES_MAX;
    t.values = values_of;
    snprintf(what, sizeof(what), "%s, zero %d, %s%s%s, %d batches", mesh, at->stage,
             models[at->model], at->optimizer % 2 == 0 ? ", sgd" : ", adam",
             at->optimizer < 2 ? "" : ", clipped", t.options.accumulate);
    const trial *alone = base_of(at, &t);
    const trial several = trained(t, ranks);
    assert_int_equal(several.steps, 5);
    assert_close(alone, &several, 1e-9, what);
    assert_values_close(alone, &several, what);
    for (int rank = 1; rank < ranks; rank++) {
        assert_true(parameters_of[rank] == parameters_of[0]);
    }
    if ((at->mesh + at->stage) % 4 == 0) {
        const trial again = trained(t, ranks);
        assert_same_bits(&several, &again);
    }
}

/* Rows in which each value of a number stands beside each value of every other one. */
static grid pairwise(int row)
{
    const int mesh = row % MESHES, stage = row / MESHES;
    return (grid){.mesh = mesh,
                  .stage = stage,
                  .model = (mesh + stage) % MODELS,
                  .is_accumulated = (mesh + stage) % 2,
                  .optimizer = (stage + mesh / 2) % OPTIMIZERS};
}

static grid every(int row)
{
    return (grid){.mesh = row % MESHES,
                  .stage = row / MESHES % STAGES,
                  .model = row / (MESHES * STAGES) % MODELS,
                  .is_accumulated = row / (MESHES * STAGES * MODELS) % 2,
                  .optimizer = row / (MESHES * STAGES * MODELS * 2) % OPTIMIZERS};
}

/* Is each pair of numbers in one of the rows? */
static void assert_pairwise(void)
{
    static const int sizes[] = {MESHES, STAGES, MODELS, 2, OPTIMIZERS};
    static bool has[GY_COUNT(sizes)][GY_COUNT(sizes)][MESHES][MESHES];
    for (int row = 0; row < MESHES * STAGES; row++) {
        const grid at = pairwise(row);
        const int of[] = {at.mesh, at.stage, at.model, at.is_accumulated, at.optimizer};
        for (size_t a = 0; a < GY_COUNT(sizes); a++) {
            for (size_t b = 0; b < a; b++) {
                has[a][b][of[a]][of[b]] = true;
            }
        }
    }
    for (size_t a = 0; a < GY_COUNT(sizes); a++) {
        for (size_t b = 0; b < a; b++) {
            for (int i = 0; i < sizes[a] * sizes[b]; i++) {
                assert_true(has[a][b][i / sizes[b]][i % sizes[b]]);
            }
        }
    }
}

GY_TEST(every_mesh_trains_as_one_rank_does)
{
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const int rows = MESHES * STAGES * (is_soak ? MODELS * 2 * OPTIMIZERS : 1);
    const int step = gy_test_cases(8) == 1 ? 13 : 1; /* under a sanitizer */
    gy_dataset digits = kit_digits(23, 8);
    gy_dataset text = text_set(&text_ops);
    assert_pairwise();
    for (int row = 0; row < rows; row += step) {
        const grid at = is_soak ? every(row) : pairwise(row);
        compare_case(&at, &digits, &text);
    }
}

/* ---- labels ---- */

static int64_t bad_sample;

static gy_status fill_bad_text(gy_dataset *dataset, const int64_t *indices, int64_t count,
                               gy_view *x, gy_view *labels)
{
    GY_TRY(fill_text(dataset, indices, count, x, labels));
    for (int64_t i = 0; i < count && labels != NULL; i++) {
        if (indices[i] == bad_sample) {
            ((int32_t *)labels->data)[i * GPT_LENGTH + 2] = GPT_CLASSES + 34;
        }
    }
    return GY_OK;
}

/* Wherever the sample lies, and where the classes are cut: all ranks say the same. */
GY_TEST(a_label_outside_the_vocabulary_is_named_by_all_ranks)
{
    static const gy_dataset_ops bad_ops = {
        .name = "bad text", .fill = fill_bad_text, .free = kit_free};
    static const gy_parameter_pin cut[] = {
        {"embedding", "model", {.kind = GY_SHARD, .dim = 0}}};
    static const char *const meshes[] = {"data=2,model=2", "data=4", "model=4"};
    gy_dataset text = text_set(&bad_ops);
    for (int i = 0; i < 6; i++) {
        kit_rank members[KIT_RANKS_MAX];
        trial t = {.dtype = GY_F64,
                   .train = &text,
                   .heads = 3,
                   .mesh = meshes[i % 3],
                   .options = {.epochs = 1,
                               .batch = 23,
                               .pins = cut,
                               .pin_count = strstr(meshes[i % 3], "model") != NULL,
                               .seed = 4}};
        char words[64];
        bad_sample = i * 4;
        snprintf(words, sizeof(words), "sample %d has label 99, expected 0 to 64", i * 4);
        kit_run_ranks(4, train_one, &t, members);
        for (int rank = 0; rank < 4; rank++) {
            const gy_error *error = &members[rank].error;
            if (error->status != GY_ARG || strstr(error->text, words) == NULL) {
                fail_msg("%s, rank %d says '%s'", t.mesh, rank, error->text);
            }
        }
    }
}

static void remove_checkpoints(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0); /* but for . and .. */
    }
    closedir(entries);
    assert_int_equal(rmdir(folder), 0);
}

/* A checkpoint of each way to lay a model out is gone on with in each other one. */
GY_TEST(checkpoints_know_no_mesh)
{
    static const struct {
        const char *axes;
        int ranks, zero;
    } ways[] = {{NULL, 1, 0},     {"data=3", 3, 3},         {"data=2,model=2", 4, 1},
                {"data=2", 2, 2}, {"model=2,data=2", 4, 3}, {"auto=3", 3, 0}};
    gy_dataset train = kit_digits(23, 6);
    trial t = {.layers = dropped,
               .layer_count = GY_COUNT(dropped),
               .dtype = GY_F64,
               .train = &train,
               .options = {.epochs = 2,
                           .batch = 4,
                           .accumulate = 2,
                           .optimizer = GY_OPTIMIZER_ADAM,
                           .step_limit = 5,
                           .seed = 4}};
    const trial whole = trained(t, 1);
    const int step = gy_test_cases(8) == 1 ? 5 : 1;
    for (int from = 0; from < (int)GY_COUNT(ways); from++) {
        for (int to = from == 0 ? step : 0; to < (int)GY_COUNT(ways); to += step) {
            char folder[] = "/tmp/gyre-mesh-XXXXXX", text[96];
            assert_non_null(mkdtemp(folder));
            trial first = t;
            first.options.checkpoint_folder = folder;
            first.options.step_limit = 2;
            first.options.zero = ways[from].zero;
            first.mesh = ways[from].axes;
            (void)trained(first, ways[from].ranks);
            trial rest = t;
            rest.options.checkpoint_folder = folder;
            rest.options.resume = true;
            rest.options.zero = ways[to].zero;
            rest.mesh = ways[to].axes;
            const trial resumed = trained(rest, ways[to].ranks);
            snprintf(text, sizeof(text), "%s zero %d, then %s zero %d",
                     ways[from].axes != NULL ? ways[from].axes : "one rank", ways[from].zero,
                     ways[to].axes != NULL ? ways[to].axes : "one rank", ways[to].zero);
            assert_int_equal(resumed.resumed_step, 2);
            assert_close(&whole, &resumed, 1e-9, text);
            if (from == to) {
                rest.options.checkpoint_folder = NULL;
                rest.options.resume = false;
                const trial straight = trained(rest, ways[to].ranks);
                assert_same_bits(&straight, &resumed);
            }
            remove_checkpoints(folder);
        }
    }
}

/* 47 samples: the last update of an epoch has fewer batches, the last batch fewer rows. */
GY_TEST(accumulated_batches_are_one_large_batch)
{
    static const gy_layer plain[] = {
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = 16},
        {.kind = GY_LAYER_TANH},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    gy_dataset train = kit_digits(47, 6);
    for (int kind = GY_OPTIMIZER_SGD; kind <= GY_OPTIMIZER_ADAMW; kind++) {
        trial t = {.layers = plain,
                   .layer_count = GY_COUNT(plain),
                   .dtype = GY_F64,
                   .train = &train,
                   .options = {.epochs = 3,
                               .batch = 20,
                               .optimizer = (gy_optimizer_kind)kind,
                               .rate = 0.01,
                               .weight_decay = 1e-3,
                               .clip_norm = 0.5,
                               .seed = 6}};
        trial large = trained(t, 1);
        t.options.batch = 5;
        t.options.accumulate = 4;
        trial small = trained(t, 1);
        assert_close(&large, &small, 1e-12, "20 or 4 times 5");
        trial spread = trained(t, 3);
        assert_close(&large, &spread, 1e-9, "the same on 3 ranks");
    }
}

/* Mean and variance are of the global batch, whose last has 7 rows: 1, 2 or none a rank. Every
 * rank keeps the same running ones, by which the test set is judged. */
GY_TEST(batch_norm_knows_no_ranks)
{
    static const gy_layer normal[] = {
        {.kind = GY_LAYER_CONV2D, .units = 3, .window = 3},
        {.kind = GY_LAYER_BATCH_NORM},
        {.kind = GY_LAYER_RELU},
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = 12},
        {.kind = GY_LAYER_BATCH_NORM, .momentum = 0.3},
        {.kind = GY_LAYER_TANH},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    gy_dataset train = kit_digits(47, 6);
    gy_dataset test = kit_digits(13, 6);
    static const int64_t batches[] = {8, 3}; /* 3: less than a row a rank */
    const size_t count = gy_test_cases(8) == 1 ? 1 : GY_COUNT(batches);
    for (size_t i = 0; i < count; i++) {
        trial t = {.layers = normal,
                   .layer_count = GY_COUNT(normal),
                   .dtype = GY_F64,
                   .train = &train,
                   .test = &test,
                   .options = {.epochs = 1,
                               .batch = batches[i],
                               .optimizer = GY_OPTIMIZER_MOMENTUM,
                               .rate = 0.02,
                               .seed = 4}};
        trial alone = trained(t, 1);
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            char text[64];
            snprintf(text, sizeof(text), "batch norm, batch %lld, %d ranks",
                     (long long)batches[i], ranks);
            trial several = trained(t, ranks);
            assert_close(&alone, &several, 1e-9, text);
            assert_true(alone.test_accuracy == several.test_accuracy);
            for (int rank = 1; rank < ranks; rank++) {
                assert_true(parameters_of[rank] == parameters_of[0]);
            }
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
