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

/* Rows over two ranks, layers over two stages, products over two ranks of each, and an
 * optimizer's state and sums in parts. */
GY_TEST(three_axes_by_schedules_train_as_one_rank)
{
    static const struct {
        model_kind kind;
        const char *schedule;
        int micros, zero;
    } trials[] = {
        {MLP, "1f1b", 3, 1},
        {MLP, "gpipe", 2, 2},
        /* in the soak */
        {MLP, "gpipe", 5, 1},
        {MLP, "1f1b", 9, 2},
        {IMAGES, "1f1b", 2, 2},
        {IMAGES, "gpipe", 3, 1},
        {GPT, "1f1b", 3, 2},
        {GPT, "gpipe", 5, 1},
        {LSTM, "1f1b", 3, 1},
        {LSTM, "gpipe", 5, 2},
    };
    static story alone, all;
    const size_t count = (size_t)gy_test_cases(2);
    for (size_t i = 0; i < GY_MIN(count, GY_COUNT(trials)); i++) {
        if (i == 0 || trials[i].kind != alone.kind) {
            alone = (story){.kind = trials[i].kind, .axes = "data=1", .accumulate = 1};
            (void)story_play(&alone);
        }
        all = (story){.kind = trials[i].kind,
                      .axes = "data=2,pipe=2,model=2",
                      .schedule = trials[i].schedule,
                      .micros = trials[i].micros,
                      .accumulate = 1,
                      .zero = trials[i].zero};
        story_assert_same(&alone, &all, story_play(&all));
    }
}

/* ---- a norm of both stages ---- */

/* logits (6 w x + 8 v, 0): of label 1 and zeros the gradients are 6 / 2 and 8 / 2. */
static gy_status two_slopes(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    const gy_node w = gy_model_parameter(builder, "w", (int64_t[]){1, 1}, 2, gy_init_zeros());
    const gy_node v = gy_model_parameter(builder, "v", (int64_t[]){1}, 1, gy_init_zeros());
    const gy_node six = gy_graph_scalar(x.graph, GY_F64, 6);
    const gy_node eight = gy_graph_scalar(x.graph, GY_F64, 8);
    const gy_node first = gy_op_mul(gy_op_matmul(x, w), six);
    const gy_node both = gy_op_add(first, gy_op_mul(v, eight));
    const gy_node none = gy_op_mul(both, gy_graph_scalar(x.graph, GY_F64, 0));
    *logits = gy_op_concat((gy_node[]){both, none}, 2, 1);
    return gy_graph_status(x.graph);
}

static gy_status ones_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    (void)dataset;
    (void)indices;
    for (int64_t i = 0; i < count; i++) {
        ((double *)x->data)[i] = 1;
        ((int32_t *)labels->data)[i] = 1;
    }
    return GY_OK;
}

typedef struct clipped {
    const char *schedule;
    int micros;
    double got[2][2]; /* by rank: w, v */
} clipped;

static gy_status clip_by_hand(kit_rank *me)
{
    static const gy_dataset_ops ops = {.name = "ones", .fill = ones_fill, .free = kit_free};
    static const char *const names[] = {"w", "v"};
    clipped *c = me->arg;
    gy_dataset set = {.ops = &ops, .count = 4, .classes = 2, .input_rank = 1};
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_train_result result;
    set.input_sizes[0] = 1;
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .build = two_slopes, .dtype = GY_F64, .input_rank = 1,
                   .input_sizes = {1}, .mesh = mesh, .workers = 1);
    GY_TRY(gy_model_new(&base, &model));
    GY_TRY(gy_train(model, &set, NULL,
                    &GY_OPTIONS(gy_train_options, .steps = 1, .batch = 4, .rate = 1,
                                .clip_norm = 2.5, .cut = "v", .micro_batches = c->micros,
                                .pipe_schedule = c->schedule),
                    &result));
    gy_train_result_free(&result);
    GY_ASSERT(gy_session_is_elsewhere(model->session, names[1 - me->rank]));
    for (int i = 0; i < 2; i++) {
        gy_tensor *whole = NULL;
        GY_TRY(gy_session_gather(model->session, names[i], &whole));
        c->got[me->rank][i] = gy_tensor_get(whole, 0);
        gy_tensor_drop(whole);
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

GY_TEST(gradients_of_two_stages_are_clipped_by_one_norm)
{
    static const clipped trials[] = {{.micros = 0},
                                     {.schedule = "1f1b", .micros = 2},
                                     {.schedule = "gpipe", .micros = 2},
                                     {.schedule = "zb-h1", .micros = 5}};
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        clipped c = trials[i];
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(2, clip_by_hand, &c, members);
        for (int rank = 0; rank < 2; rank++) {
            if (members[rank].error.status < 0) {
                fail_msg("case %zu, rank %d: %s", i, rank, members[rank].error.text);
            }
            assert_true(fabs(c.got[rank][0] + 1.5) < 1e-6);
            assert_true(fabs(c.got[rank][1] + 2) < 1e-6);
        }
    }
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
