/* Goal: the number of ranks, and how a batch is cut, change nothing but rounding; and equal
 * runs have equal bits. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "gy_test.h"
#include "trial_kit.h"

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
    /* Real digits where they are, else noisy ones, among whose windows some are equal but for
     * rounding: max pooling then chooses another one, and a loss moves by up to 1e-3. */
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
                      train != NULL ? 1e-4 : 5e-3, "lenet f32");
    }
    gy_dataset_free(train);
    gy_dataset_free(test);
}

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
