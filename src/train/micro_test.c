/* Goal: a batch in micro-batches, even, uneven or empty, has the update of the whole batch, on
 * one rank and on meshes of ranks, twice with the same bits; what cannot be split is refused.
 */
#include "train/train_priv.h"

#include <string.h>

#include "gy_test.h"
#include "training_story.h"

/* A story of `micros` of a batch of 7 has that of the whole batch. */
static void check(model_kind kind, const char *axes, int micros, int accumulate, int zero)
{
    static story alone, once, again;
    alone = (story){.kind = kind, .axes = "data=1", .accumulate = accumulate};
    (void)story_play(&alone);
    once = (story){
        .kind = kind, .axes = axes, .accumulate = accumulate, .zero = zero, .micros = micros};
    story_assert_same(&alone, &once, story_play(&once));
    again = once;
    (void)story_play(&again);
    assert_memory_equal(once.got, again.got, sizeof(once.got));
}

GY_TEST(one_rank_adds_up_its_micro_batches)
{
    static const int counts[] = {1, 2, 3, 5, 7, 9};
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        check((model_kind)(i % MODELS), "data=1", counts[i], 1 + (int)(i % 2), 0);
    }
}

/* Of one row all parts but one are empty, and a dimension of one row looks like one that is
 * broadcast. */
GY_TEST(a_batch_of_one_row_has_empty_micro_batches)
{
    static story alone, once;
    for (int kind = MLP; kind <= LSTM; kind++) {
        alone =
            (story){.kind = (model_kind)kind, .axes = "data=1", .accumulate = 1, .batch = 1};
        (void)story_play(&alone);
        once = alone;
        once.axes = kind % 2 == 0 ? "pipe=2" : "data=2";
        once.micros = 3;
        story_assert_same(&alone, &once, story_play(&once));
    }
}

GY_TEST(ranks_along_data_add_up_theirs)
{
    check(MLP, "data=2", 3, 1, 0);
    check(GPT, "data=2", 5, 2, 1);
    check(IMAGES, "data=3", 2, 1, 2);
    check(MLP, "data=4", 9, 1, 3);
    check(MLP, "data=2,model=2", 2, 1, 1);
}

GY_TEST(stages_take_micro_batches_in_turn)
{
    check(MLP, "pipe=2", 3, 1, 0);
    check(IMAGES, "data=2,pipe=2", 2, 1, 1);
}

/* Bytes that go along data do not grow with the number of micro-batches. */
static gy_status count_bytes(kit_rank *me)
{
    uint64_t *sent = me->arg;
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_dataset set = story_set(MLP);
    GY_TRY(gy_mesh_new(me->comm, "data=2", &mesh));
    GY_TRY(story_model(MLP, mesh, &model));
    gy_train_result result;
    GY_TRY(gy_train(model, &set, NULL,
                    &GY_OPTIONS(gy_train_options, .steps = 1, .batch = 8,
                                .micro_batches = (int)*sent, .rate = 0.1),
                    &result));
    uint64_t bytes = 0;
    for (int i = 0; i < result.exchange_count; i++) {
        bytes += result.exchanges[i].sent_bytes;
    }
    *sent = bytes;
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

static gy_status count_both(kit_rank *me)
{
    uint64_t *sent = (uint64_t *)me->arg + 2 * me->rank;
    kit_rank other = {.comm = me->comm, .rank = me->rank, .ranks = me->ranks};
    other.arg = &sent[0];
    GY_TRY(count_bytes(&other));
    other.arg = &sent[1];
    return count_bytes(&other);
}

GY_TEST(gradients_are_exchanged_once_an_update)
{
    uint64_t sent[4] = {1, 4, 1, 4};
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, count_both, sent, members);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(members[rank].error.status, GY_OK);
        /* the loss of each micro-batch is a sum of its own, of 8 bytes or a few more */
        assert_true(sent[2 * rank] > 1000);
        assert_true(sent[2 * rank + 1] < sent[2 * rank] + 500);
    }
}

/* Stage 3 would cut what the pin keeps whole. */
static gy_status train_pinned(kit_rank *me)
{
    const gy_parameter_pin *pin = me->arg;
    gy_model *model = NULL;
    gy_dataset set = story_set(MLP);
    gy_mesh *mesh = NULL;
    gy_train_result result;
    GY_TRY(gy_mesh_new(me->comm, "data=2", &mesh));
    GY_TRY(story_model(MLP, mesh, &model));
    GY_TRY(gy_train(model, &set, NULL,
                    &GY_OPTIONS(gy_train_options, .steps = 1, .batch = 8, .zero = 3,
                                .pins = pin, .pin_count = pin != NULL, .rate = 0.1),
                    &result));
    GY_ASSERT(gy_model_is_sharded(model) == (pin == NULL));
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

GY_TEST(a_pin_that_keeps_parameters_whole_wins_over_zero)
{
    static const gy_parameter_pin whole = {"*", "data", {.kind = GY_REPLICATE}};
    kit_rank members[KIT_RANKS_MAX];
    for (int i = 0; i < 2; i++) {
        kit_run_ranks(2, train_pinned, i == 0 ? NULL : (void *)(uintptr_t)&whole, members);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(members[rank].error.status, GY_OK);
        }
    }
}

/* ---- refusals ---- */

/* Subtracts the mean over the batch. */
static gy_status centre(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    const gy_node w = gy_model_parameter(builder, "w", (int64_t[]){3, 2}, 2, gy_init_zeros());
    const gy_node y = gy_op_matmul(x, w);
    *logits = gy_op_sub(y, gy_node_named(gy_op_mean(y, 1u << 0, true), "batch mean"));
    return gy_graph_status(x.graph);
}

static gy_status rows_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            ((float *)x->data)[3 * i + k] = (float)(indices[i] + k);
        }
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)(indices[i] % 2);
        }
    }
    return GY_OK;
}

GY_TEST(a_node_that_mixes_rows_is_named)
{
    static const gy_dataset_ops ops = {.name = "rows", .fill = rows_fill, .free = kit_free};
    gy_dataset set = {
        .ops = &ops, .count = 8, .classes = 2, .input_rank = 1, .input_sizes = {3}};
    gy_model *model = NULL;
    gy_train_result result;
    gy_model_options options =
        GY_OPTIONS(gy_model_options, .build = centre, .input_rank = 1, .input_sizes = {3});
    assert_ok(gy_model_new(&options, &model));
    gy_train_options training =
        GY_OPTIONS(gy_train_options, .steps = 1, .batch = 4, .micro_batches = 2);
    assert_status(gy_train(model, &set, NULL, &training, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "micro-batches: node batch mean (mean) makes"));
    training.micro_batches = 0;
    assert_ok(gy_train(model, &set, NULL, &training, &result));
    gy_train_result_free(&result);
    training.micro_batches = -1;
    assert_status(gy_train(model, &set, NULL, &training, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "micro-batches is -1"));
    gy_model_free(model);
}

GY_TEST(batch_norm_takes_two_rows_of_each)
{
    const gy_layer layers[] = {gy_layer_flatten(), gy_layer_dense(4), gy_layer_batch_norm(),
                               gy_layer_dense(KIT_CLASSES)};
    gy_model_options options =
        GY_OPTIONS(gy_model_options, .layers = layers, .layer_count = GY_COUNT(layers),
                   .input_rank = 3, .input_sizes = {1, 6, 6});
    gy_dataset set = kit_digits(20, 6);
    gy_model *model = NULL;
    gy_train_result result;
    assert_ok(gy_model_new(&options, &model));
    gy_train_options training =
        GY_OPTIONS(gy_train_options, .epochs = 1, .batch = 10, .micro_batches = 6);
    assert_status(gy_train(model, &set, NULL, &training, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "a batch of 10 rows in 6 micro-batches"));
    training.micro_batches = 5;
    assert_ok(gy_train(model, &set, NULL, &training, &result));
    gy_train_result_free(&result);
    gy_model_free(model);
}

GY_TEST_MAIN(NULL, NULL)
