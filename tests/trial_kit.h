/**
 * Trainings that are compared: on one rank and on several, one way and another.
 */
#ifndef GY_TESTS_TRIAL_KIT_H
#define GY_TESTS_TRIAL_KIT_H

#include "training_kit.h"

#include <gyre/gpt.h>

#include <math.h>

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

static inline gy_status keep_parameters(gy_model *model, trial *t)
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

static inline gy_status new_gpt(const trial *t, gy_model_options *options, gy_model **model)
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
static inline gy_status hash_first(gy_model *model, trial *t)
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

static inline gy_status train_one(kit_rank *me)
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
static inline trial trained(trial t, int ranks)
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

static inline double relative(double a, double b)
{
    return a == b ? 0 : fabs(a - b) / fmax(fabs(a), fabs(b));
}

static inline void assert_close(const trial *a, const trial *b, double tolerance,
                                const char *what)
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

static inline void assert_same_bits(const trial *a, const trial *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->losses, b->losses, (size_t)a->steps * sizeof(double));
    assert_true(a->parameters == b->parameters);
    assert_true(a->test_loss == b->test_loss && a->test_accuracy == b->test_accuracy);
}

static const gy_layer dropped[] = {
    {.kind = GY_LAYER_FLATTEN},
    {.kind = GY_LAYER_DENSE, .units = 24},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DROPOUT, .rate = 0.5},
    {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
};

#endif
