/* Goal: a training whose layers are cut into stages has one rank's losses and parameters, on
 * any mesh and with state in parts, and goes on from its checkpoints on any other. */
#include "train/train_priv.h"

#include <string.h>

#include "gy_test.h"
#include "training_story.h"

static const struct {
    const char *axes;
    int zero, accumulate;
} meshes[] = {
    {"pipe=2", 0, 1},
    {"pipe=3", 1, 2},
    {"pipe=4", 0, 1},
    {"data=2,pipe=2", 1, 1},
    {"pipe=2,model=2", 0, 2},
    {"pipe=2,data=3", 2, 2},
    {"data=2,pipe=2,model=2", 1, 1},
    {"data=2,pipe=4", 2, 2},
    {"model=4,pipe=2", 0, 1},
};

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
static const bool is_slow = true; /* eight ranks or a GPT take minutes */
#else
static const bool is_slow = false;
#endif

/* Each mesh with one model or two; sums over several batches where it says so. */
static void check_model(model_kind kind)
{
    static story alone[2], once, again;
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        alone[accumulate - 1] =
            (story){.kind = kind, .axes = "data=1", .accumulate = accumulate};
        (void)story_play(&alone[accumulate - 1]);
    }
    for (size_t i = 0; i < GY_COUNT(meshes); i++) {
        const bool is_due = i % MODELS == (size_t)kind || (kind == GPT && i == 6);
        if (!is_due || (is_slow && i >= MODELS)) {
            continue;
        }
        once = (story){.kind = kind,
                       .axes = meshes[i].axes,
                       .zero = (meshes[i].zero + (int)kind) % 3,
                       .accumulate = meshes[i].accumulate};
        const int ranks = story_play(&once);
        story_assert_same(&alone[meshes[i].accumulate - 1], &once, ranks);
        if (i < MODELS) {
            again = once;
            (void)story_play(&again);
            assert_memory_equal(once.got, again.got, sizeof(once.got));
        }
    }
}

GY_TEST(layers_in_stages_train_as_one_rank)
{
    check_model(MLP);
}

GY_TEST(images_in_stages_train_as_one_rank)
{
    check_model(IMAGES);
}

GY_TEST(a_gpt_with_a_tied_head_trains_as_one_rank)
{
    if (is_slow) {
        printf("a GPT takes minutes under a sanitizer\n");
        skip();
    }
    check_model(GPT);
}

/* Rows over two ranks, layers over two stages, products over two ranks of each; a GPT in the
 * soak. */
GY_TEST(three_axes_with_state_in_parts_train_as_one_rank)
{
    static story alone, all;
    const model_kind kind = gy_test_cases(1) > 1 ? GPT : MLP;
    alone = (story){.kind = kind, .axes = "data=1", .accumulate = 2};
    (void)story_play(&alone);
    for (int zero = 1; zero <= 2; zero++) {
        all = (story){
            .kind = kind, .axes = "data=2,pipe=2,model=2", .zero = zero, .accumulate = 2};
        story_assert_same(&alone, &all, story_play(&all));
    }
}

GY_TEST(checkpoints_know_no_stage_and_no_micro_batches)
{
    static story alone, begun, first, second;
    const model_kind kind = is_slow ? MLP : GPT;
    char folder[] = "/tmp/gyre-stages-XXXXXX";
    assert_non_null(mkdtemp(folder));
    alone = (story){.kind = kind, .axes = "data=1", .accumulate = 1};
    (void)story_play(&alone);
    begun =
        (story){.kind = kind, .axes = "data=1", .accumulate = 1, .folder = folder, .limit = 1};
    (void)story_play(&begun);
    first = (story){.kind = kind,
                    .axes = "data=2,pipe=2",
                    .accumulate = 1,
                    .micros = 3,
                    .zero = 1,
                    .folder = folder,
                    .resumes = true,
                    .limit = 2};
    (void)story_play(&first);
    second = (story){.kind = kind,
                     .axes = "pipe=3",
                     .accumulate = 1,
                     .folder = folder,
                     .resumes = true,
                     .cut = is_slow ? "dense3.weight,dense5.weight"
                                    : "block0.norm2.weight,block1.norm1.weight"};
    story_assert_same(&alone, &second, story_play(&second));
    kit_remove_folder(folder);
}

GY_TEST(a_cut_by_names_has_as_many_as_stages_but_one)
{
    gy_model *model = NULL;
    gy_train_options filled;
    assert_ok(story_model(MLP, NULL, &model));
    assert_ok(gy_train_defaults(
        &GY_OPTIONS(gy_train_options, .batch = BATCH, .cut = "dense2.weight"), &filled));
    assert_status(gy_model_build(model, &filled), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "1 name makes 2 stages, the mesh has 1"));
    gy_model_free(model);
}

GY_TEST_MAIN(NULL, NULL)
