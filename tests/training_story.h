/**
 * Trainings of small models on any mesh: what they give on every rank, compared with one
 * rank's.
 */
#ifndef GY_TRAINING_STORY_H
#define GY_TRAINING_STORY_H

#include "graph/graph.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <string.h>

#include "gy_test.h"
#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS = 5, BATCH = 7, LENGTH = 6, LETTERS = 5, VALUES_MAX = 8192 };

/* An LSTM hands state on from batch to batch, which the others do not. */
typedef enum model_kind { MLP, IMAGES, GPT, MODELS, LSTM = MODELS } model_kind;

static inline gy_dataset story_set(model_kind kind)
{
    if (kind < GPT) {
        return kit_digits(20, 6);
    }
    return kit_letters(kind == LSTM ? 4 * BATCH + 2 : 20, LETTERS, LENGTH);
}

static inline gy_status story_model(model_kind kind, gy_mesh *mesh, gy_model **model)
{
    static const char *const names[LETTERS] = {"a", "b", "c", "d", "e"};
    const gy_layer dense[] = {
        gy_layer_flatten(), gy_layer_dense(9), gy_layer_relu(), gy_layer_dense(8),
        gy_layer_relu(),    gy_layer_dense(7), gy_layer_relu(), gy_layer_dense(KIT_CLASSES)};
    const gy_layer image[] = {
        gy_layer_conv2d(4, 3, 1), gy_layer_relu(), gy_layer_max_pool(2),
        gy_layer_conv2d(6, 3, 1), gy_layer_relu(), gy_layer_flatten(),
        gy_layer_dense(8),        gy_layer_relu(), gy_layer_dense(KIT_CLASSES)};
    gy_model_options base =
        GY_OPTIONS(gy_model_options, .dtype = GY_F64, .seed = 11, .mesh = mesh, .workers = 1);
    if (kind >= GPT) {
        base.input_sizes[0] = LENGTH;
        base.class_names = names;
        base.class_count = LETTERS;
    }
    if (kind == LSTM) {
        return gy_lstm_new(
            &GY_OPTIONS(gy_lstm_options, .layers = 2, .hidden = 6, .dropout = 0.2), &base,
            model);
    }
    if (kind == GPT) {
        return gy_gpt_new(
            &GY_OPTIONS(gy_gpt_options, .layers = 2, .width = 8, .heads = 2, .dropout = 0.1),
            &base, model);
    }
    base.name = "layers";
    base.layers = kind == MLP ? dense : image;
    base.layer_count = (int)(kind == MLP ? GY_COUNT(dense) : GY_COUNT(image));
    base.input_rank = 3;
    memcpy(base.input_sizes, (int64_t[]){1, 6, 6}, 3 * sizeof(int64_t));
    return gy_model_new(&base, model);
}

/* A training on one mesh, and what it gives on every rank. */
typedef struct story {
    model_kind kind;
    const char *axes;
    int zero, accumulate;
    int micros;    /* 0: batches are not split */
    int64_t batch; /* 0: BATCH */
    const char *schedule;
    int chunks;
    gy_recompute recompute;
    bool predicts; /* what is made again */
    const char *cut;
    const gy_parameter_pin *pin; /* NULL: none */
    const char *folder;          /* NULL: no checkpoints */
    bool resumes;
    int64_t limit;
    struct {
        double losses[STEPS], test_loss, values[VALUES_MAX];
        int count;
        int recomputed; /* chunks */
    } got[KIT_RANKS_MAX];
} story;

static inline gy_status story_keep(gy_model *model, story *s, int rank)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (model->slots[i].kind == GY_SLOT_STATE) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        for (int64_t k = 0; k < gy_tensor_count(whole); k++) {
            GY_ASSERT(s->got[rank].count < VALUES_MAX);
            s->got[rank].values[s->got[rank].count++] = gy_tensor_get(whole, k);
        }
        gy_tensor_drop(whole);
    }
    return GY_OK;
}

static inline gy_status story_train(story *s, int rank, gy_model *model)
{
    gy_dataset set = story_set(s->kind);
    gy_train_result result;
    const gy_train_options options = GY_OPTIONS(
        gy_train_options, .steps = STEPS, .batch = s->batch > 0 ? s->batch : BATCH,
        .accumulate = s->accumulate, .micro_batches = s->micros, .pipe_schedule = s->schedule,
        .chunks = s->chunks, .zero = s->zero, .pins = s->pin, .pin_count = s->pin != NULL,
        .cut = s->cut, .clip_norm = 0.3,
        .optimizer = s->kind == MLP ? GY_OPTIMIZER_MOMENTUM : GY_OPTIMIZER_ADAMW, .rate = 0.01,
        .weight_decay = 0.01, .seed = 3, .recompute = s->recompute,
        .checkpoint_folder = s->folder, .resume = s->resumes, .step_limit = s->limit);
    GY_TRY(gy_train(model, &set, &set, &options, &result));
    memcpy(s->got[rank].losses, result.losses, (size_t)result.steps * sizeof(double));
    s->got[rank].test_loss = result.test_loss;
    gy_train_result_free(&result);
    if (s->predicts) {
        gy_footprint f;
        gy_train_options filled;
        GY_TRY(gy_train_defaults(&options, &filled));
        GY_TRY(gy_train_predict(model, &filled, &(gy_train_counts){set.count, set.count}, &f));
        s->got[rank].recomputed = f.recomputed;
    }
    return story_keep(model, s, rank);
}

static inline gy_status story_rank(kit_rank *me)
{
    story *s = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    GY_TRY(gy_mesh_new(me->comm, s->axes, &mesh));
    gy_status status = story_model(s->kind, mesh, &model);
    status = status < 0 ? status : story_train(s, me->rank, model);
    gy_error error;
    gy_error_take(&error, status);
    if (model != NULL) {
        gy_model_free(model);
    }
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static inline const char *story_text(const story *s, char out[160])
{
    snprintf(out, 160, "model %d, %s, zero %d, %d micro-batches, %s, %d batches an update",
             (int)s->kind, s->axes, s->zero, s->micros,
             s->schedule != NULL ? s->schedule : "no schedule", s->accumulate);
    return out;
}

/* The number of ranks; 0: all of them refused it by these words (NULL: none may). */
static inline int story_try(story *s, const char *words)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0, refused = 0;
    char what[160];
    assert_ok(gy_mesh_places(s->axes, &ranks));
    memset(s->got, 0, sizeof(s->got));
    kit_run_ranks(ranks, story_rank, s, members);
    for (int rank = 0; rank < ranks; rank++) {
        const gy_error *error = &members[rank].error;
        if (error->status == GY_ARG && words != NULL && strstr(error->text, words) != NULL) {
            refused++;
        } else if (error->status != GY_OK) {
            fail_msg("%s, rank %d: %s", story_text(s, what), rank, error->text);
        }
    }
    assert_true(refused == 0 || refused == ranks);
    return refused == 0 ? ranks : 0;
}

static inline int story_play(story *s)
{
    return story_try(s, NULL);
}

static inline double story_apart(const double *a, const double *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) {
        most = fmax(most, fabs(a[i] - b[i]) / fmax(1, fabs(a[i])));
    }
    return most;
}

static inline void story_assert_same(const story *alone, const story *s, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(alone->got[0].count, s->got[rank].count);
        const double losses = story_apart(alone->got[0].losses, s->got[rank].losses, STEPS);
        const double values =
            story_apart(alone->got[0].values, s->got[rank].values, alone->got[0].count);
        const double test = fabs(alone->got[0].test_loss - s->got[rank].test_loss);
        if (!(losses <= 1e-9 && values <= 1e-9 && test <= 1e-9)) {
            char what[160];
            fail_msg("%s, rank %d: losses differ by %g, parameters by %g, the test by %g",
                     story_text(s, what), rank, losses, values, test);
        }
    }
}

#endif
