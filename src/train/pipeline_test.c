/* Goal: by any schedule of stages a training has one rank's losses and parameters, whatever the
 * micro-batches, twice with the same bits; what a schedule cannot run is refused by name. */
#include "train/train_priv.h"

#include <string.h>

#include "gy_test.h"
#include "training_story.h"

static const struct {
    model_kind kind;
    const char *axes, *schedule;
    int micros, chunks, accumulate, zero;
} cases[] = {
    {MLP, "pipe=2", "gpipe", 3, 0, 1, 0},
    {MLP, "pipe=2", "1f1b", 5, 0, 2, 1},
    {MLP, "pipe=4", NULL, 9, 0, 1, 0},
    {MLP, "pipe=3", "zb-h1", 5, 0, 1, 1},
    {MLP, "data=2,pipe=2", "1f1b", 2, 0, 1, 2},
    {MLP, "pipe=2,model=2", "gpipe", 1, 0, 1, 0},
    {IMAGES, "pipe=2", "1f1b", 1, 0, 1, 0},
    {IMAGES, "pipe=2", "gpipe", 9, 0, 2, 1},
    {IMAGES, "data=2,pipe=2", "zb-h1", 3, 0, 1, 1},
    {IMAGES, "pipe=2,model=2", "1f1b", 5, 0, 1, 0},
    {GPT, "pipe=2", "1f1b", 3, 0, 1, 0},
    {GPT, "pipe=3", "gpipe", 2, 0, 1, 1},
    {GPT, "data=2,pipe=2", "1f1b", 5, 0, 2, 1},
    {GPT, "pipe=2,model=2", "zb-h1", 9, 0, 1, 0},
    {GPT, "pipe=4", "1f1b", 5, 0, 1, 0},
    {MLP, "pipe=2", "interleaved", 4, 2, 1, 0},
    {GPT, "pipe=2", "interleaved", 2, 0, 1, 1},
    {GPT, "data=2,pipe=2", "interleaved", 8, 2, 1, 0},
    {IMAGES, "pipe=2", "interleaved", 2, 2, 1, 0},
};

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
static const bool is_slow = true; /* a GPT takes minutes */
#else
static const bool is_slow = false;
#endif

static void check_model(model_kind kind)
{
    static story alone[2], once, again;
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        alone[accumulate - 1] =
            (story){.kind = kind, .axes = "data=1", .accumulate = accumulate};
        (void)story_play(&alone[accumulate - 1]);
    }
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        if (cases[i].kind != kind) {
            continue;
        }
        once = (story){.kind = kind,
                       .axes = cases[i].axes,
                       .schedule = cases[i].schedule,
                       .micros = cases[i].micros,
                       .chunks = cases[i].chunks,
                       .accumulate = cases[i].accumulate,
                       .zero = cases[i].zero};
        story_assert_same(&alone[cases[i].accumulate - 1], &once, story_play(&once));
        again = once;
        (void)story_play(&again);
        assert_memory_equal(once.got, again.got, sizeof(once.got));
    }
}

GY_TEST(layers_by_schedules_train_as_one_rank)
{
    check_model(MLP);
}

GY_TEST(images_by_schedules_train_as_one_rank)
{
    check_model(IMAGES);
}

GY_TEST(a_gpt_with_a_tied_head_trains_by_schedules_as_one_rank)
{
    if (is_slow) {
        printf("a GPT takes minutes under a sanitizer\n");
        skip();
    }
    check_model(GPT);
}

/* Each rank of two waits for the other, and its figures are parts of its wall. */
static gy_status account(kit_rank *me)
{
    gy_train_account *accounts = (gy_train_account *)me->arg + 2 * me->rank;
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_dataset set = story_set(MLP);
    gy_train_result result;
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    GY_TRY(story_model(MLP, mesh, &model));
    GY_TRY(gy_train(
        model, &set, NULL,
        &GY_OPTIONS(gy_train_options, .steps = 6, .batch = 16, .rate = 0.1, .micro_batches = 4),
        &result));
    GY_ASSERT(result.account_count == 2);
    memcpy(accounts, result.accounts, 2 * sizeof(*accounts));
    GY_ASSERT(accounts[me->rank].bubble_s == result.bubble_s);
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

GY_TEST(accounts_of_ranks_add_up_to_the_wall)
{
    gy_train_account accounts[4];
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, account, accounts, members);
    assert_int_equal(members[0].error.status, GY_OK);
    assert_memory_equal(accounts, accounts + 2, 2 * sizeof(accounts[0]));
    for (int rank = 0; rank < 2; rank++) {
        const gy_train_account *a = &accounts[rank];
        assert_true(a->bubble_s > 0 && a->compute_s > 0);
        assert_true(a->exposed_communication_s >= 0 && a->input_s > 0);
        assert_true(a->compute_s + a->bubble_s + a->exposed_communication_s + a->input_s <=
                    a->wall_s * 1.0001);
    }
}

GY_TEST_MAIN(NULL, NULL)
