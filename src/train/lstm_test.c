/* Goal: an LSTM of two loops of nodes computes what its formulas say, hands its state from
 * batch to batch along streams of the text, and learns alike on any mesh and after any resume.
 */
#include "graph/session.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gy_test.h"
#include "training_kit.h"

enum {
    CLASSES = 5,
    LENGTH = 4, /* of a window */
    HIDDEN = 6,
    LAYERS = 2,
    ROWS = 3,               /* of a batch: streams */
    SAMPLES = 4 * ROWS + 2, /* the last two are read by nobody */
    STEPS = 5,              /* the fifth begins an epoch */
    VALUES_MAX = 1024
};

static const char *const letters[CLASSES] = {"\n", "a", "b", "c", "d"};

/* A text without a rule. */
static int32_t letter(int64_t at)
{
    gy_random random = {.key = 5, .next = (uint64_t)at};
    return (int32_t)gy_random_below(&random, CLASSES);
}

static gy_status letters_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                              gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count * LENGTH; i++) {
        const int64_t at = indices[i / LENGTH] * LENGTH + i % LENGTH;
        ((int32_t *)x->data)[i] = letter(at);
        ((int32_t *)labels->data)[i] = letter(at + 1);
    }
    return GY_OK;
}

static const gy_dataset_ops letters_ops = {
    .name = "letters", .fill = letters_fill, .free = kit_free};

static gy_dataset text_set(int64_t samples)
{
    return (gy_dataset){.ops = &letters_ops,
                        .count = samples,
                        .classes = CLASSES,
                        .input_rank = 1,
                        .input_sizes = {LENGTH},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {LENGTH}};
}

static gy_status new_lstm(double dropout, gy_mesh *mesh, gy_model **model)
{
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .dtype = GY_F64, .input_sizes = {LENGTH}, .seed = 11,
                   .mesh = mesh, .workers = 1, .class_names = letters, .class_count = CLASSES);
    return gy_lstm_new(
        &GY_OPTIONS(gy_lstm_options, .layers = LAYERS, .hidden = HIDDEN, .dropout = dropout),
        &base, model);
}

/* Parameters far from zero, so that gates are neither open nor shut. */
static gy_status stir(gy_model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        gy_random random = {.key = i + 1};
        if (model->slots[i].kind != GY_SLOT_PARAMETER) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        for (int64_t k = 0; k < gy_tensor_count(whole); k++) {
            gy_tensor_set(whole, k, 0.7 * gy_random_normal(&random));
        }
        GY_TRY(gy_session_scatter(model->session, model->slots[i].name, whole));
        gy_tensor_drop(whole);
    }
    return GY_OK;
}

static gy_model *stirred(void)
{
    gy_model *model = NULL;
    assert_ok(new_lstm(0, NULL, &model));
    assert_ok(stir(model));
    return model;
}

/* ---- the same by hand: loops over plain arrays ---- */

/* As PyTorch has them: gates input, forget, cell, output, one below the other. */
typedef struct plain {
    double embedding[CLASSES][HIDDEN];
    struct {
        double w_ih[4 * HIDDEN][HIDDEN], w_hh[4 * HIDDEN][HIDDEN], bias[4 * HIDDEN];
    } layers[LAYERS];
    double decoder[CLASSES][HIDDEN], decoder_bias[CLASSES];
} plain;

static void read_matrix(gy_model *model, const char *name, int rows, int columns,
                        bool is_transposed, double *out)
{
    gy_tensor *tensor = gy_session_parameter(gy_model_session(model), name);
    assert_non_null(tensor);
    assert_int_equal(gy_tensor_count(tensor), rows * columns);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            out[i * columns + j] =
                gy_tensor_get(tensor, is_transposed ? j * rows + i : i * columns + j);
        }
    }
}

static void read_plain(gy_model *model, plain *p)
{
    read_matrix(model, "embedding", CLASSES, HIDDEN, false, &p->embedding[0][0]);
    for (int i = 0; i < LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof(name), "layer%d.input.weight", i);
        read_matrix(model, name, 4 * HIDDEN, HIDDEN, true, &p->layers[i].w_ih[0][0]);
        snprintf(name, sizeof(name), "layer%d.hidden.weight", i);
        read_matrix(model, name, 4 * HIDDEN, HIDDEN, true, &p->layers[i].w_hh[0][0]);
        snprintf(name, sizeof(name), "layer%d.bias", i);
        read_matrix(model, name, 1, 4 * HIDDEN, false, p->layers[i].bias);
    }
    read_matrix(model, "decoder.weight", CLASSES, HIDDEN, true, &p->decoder[0][0]);
    read_matrix(model, "decoder.bias", 1, CLASSES, false, p->decoder_bias);
}

typedef struct plain_state {
    double h[LAYERS][HIDDEN], c[LAYERS][HIDDEN];
} plain_state;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One time step; log-probabilities (CLASSES) of the next letter. */
static void plain_step(const plain *p, plain_state *s, int32_t token, double *out)
{
    const double *x = p->embedding[token];
    double total = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        double gates[4 * HIDDEN];
        for (int k = 0; k < 4 * HIDDEN; k++) {
            gates[k] = p->layers[layer].bias[k];
            for (int i = 0; i < HIDDEN; i++) {
                gates[k] += p->layers[layer].w_ih[k][i] * x[i] +
                            p->layers[layer].w_hh[k][i] * s->h[layer][i];
            }
        }
        for (int i = 0; i < HIDDEN; i++) {
            double *c = &s->c[layer][i];
            *c = sigmoid(gates[HIDDEN + i]) * *c +
                 sigmoid(gates[i]) * tanh(gates[2 * HIDDEN + i]);
            s->h[layer][i] = sigmoid(gates[3 * HIDDEN + i]) * tanh(*c);
        }
        x = s->h[layer];
    }
    for (int k = 0; k < CLASSES; k++) {
        out[k] = p->decoder_bias[k];
        for (int i = 0; i < HIDDEN; i++) {
            out[k] += p->decoder[k][i] * x[i];
        }
        total += exp(out[k]);
    }
    for (int k = 0; k < CLASSES; k++) {
        out[k] -= log(total);
    }
}

/* Mean loss of windows [first, last) of one stream, whose state goes on. */
static double plain_loss(const plain *p, plain_state *s, int64_t first, int64_t last)
{
    double sum = 0, out[CLASSES];
    for (int64_t at = first * LENGTH; at < last * LENGTH; at++) {
        plain_step(p, s, letter(at), out);
        sum -= out[letter(at + 1)];
    }
    return sum / (double)((last - first) * LENGTH);
}

GY_TEST(a_window_computes_its_formulas)
{
    gy_model *model = stirred();
    gy_tensor *x = NULL, *y = NULL;
    const int32_t tokens[2 * LENGTH] = {1, 4, 2, 2, 0, 3, 3, 1};
    plain p;
    assert_int_equal(model->slot_count, 1 + 3 * LAYERS + 2);
    read_plain(model, &p);
    assert_ok(gy_tensor_from(NULL, GY_I32, (int64_t[]){2, LENGTH}, 2, tokens, &x));
    assert_ok(gy_model_predict(model, x, &y));
    for (int row = 0; row < 2; row++) {
        plain_state s = {.h = {{0}}};
        for (int t = 0; t < LENGTH; t++) {
            double out[CLASSES];
            plain_step(&p, &s, tokens[row * LENGTH + t], out);
            for (int k = 0; k < CLASSES; k++) { /* predictions are f32 */
                const double got = gy_tensor_get(y, (row * LENGTH + t) * CLASSES + k);
                assert_true(fabs(got - out[k]) < 1e-5);
            }
        }
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    gy_model_free(model);
}

/* ---- state ---- */

/* With a rate that changes nothing the losses are those of long streams, cut nowhere, and
 * begin anew in the second epoch. */
GY_TEST(state_goes_from_batch_to_batch)
{
    gy_model *model = stirred();
    gy_dataset set = text_set(SAMPLES);
    gy_train_result result;
    plain p;
    plain_state s[ROWS] = {0};
    const int64_t length = SAMPLES / ROWS;
    const gy_train_options options =
        GY_OPTIONS(gy_train_options, .epochs = 2, .batch = ROWS, .rate = 1e-200);
    read_plain(model, &p);
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    assert_int_equal(result.steps, 2 * length);
    for (int64_t step = 0; step < result.steps; step++) {
        double loss = 0;
        if (step == length) {
            memset(s, 0, sizeof(s));
        }
        for (int row = 0; row < ROWS; row++) {
            const int64_t window = row * length + step % length;
            loss += plain_loss(&p, &s[row], window, window + 1) / ROWS;
        }
        assert_true(fabs(loss - result.losses[step]) < 1e-12);
    }
    gy_train_result_free(&result);
    gy_model_free(model);
}

GY_TEST(an_evaluation_reads_streams)
{
    gy_model *model = stirred();
    gy_dataset set = text_set(SAMPLES);
    int32_t predicted[SAMPLES * LENGTH];
    plain p;
    double loss = 0, accuracy = 0, expected = 0;
    int right = 0;
    const int64_t length = SAMPLES / ROWS;
    read_plain(model, &p);
    assert_ok(gy_model_evaluate(model, &set, ROWS, &loss, &accuracy, predicted));
    for (int row = 0; row < ROWS; row++) {
        plain_state s = {.h = {{0}}};
        expected += plain_loss(&p, &s, row * length, (row + 1) * length) / ROWS;
    }
    assert_true(fabs(loss - expected) < 1e-12);
    for (int i = 0; i < ROWS * length * LENGTH; i++) {
        right += predicted[i] == letter(i + 1);
    }
    assert_true(fabs(accuracy - right / (double)(ROWS * length * LENGTH)) < 1e-12);
    gy_model_free(model);
}

/* A prompt and what follows it are one stream, longer than a window. */
static gy_status keep_text(void *arg, const char *character)
{
    char *end = strchr(arg, '\0');
    end[0] = character[0];
    end[1] = '\0';
    return GY_OK;
}

GY_TEST(text_is_written_step_by_step)
{
    static const char prompt[] = "abdcabba";
    gy_model *model = stirred();
    char greedy[64] = "", drawn[64] = "", again[64] = "", expected[64] = "";
    plain p;
    plain_state s = {.h = {{0}}};
    double out[CLASSES];
    gy_generate_options options = {
        .length = 20, .top_k = 1, .on_text = keep_text, .arg = greedy};
    read_plain(model, &p);
    assert_ok(gy_gpt_generate(model, prompt, &options));
    for (size_t i = 0; i < strlen(prompt); i++) {
        plain_step(&p, &s, prompt[i] - 'a' + 1, out);
    }
    for (int i = 0; i < options.length; i++) {
        int best = 0;
        for (int k = 1; k < CLASSES; k++) {
            best = out[k] > out[best] ? k : best;
        }
        assert_ok(keep_text(expected, letters[best]));
        plain_step(&p, &s, best, out);
    }
    assert_string_equal(greedy, expected);
    options =
        (gy_generate_options){.length = 20, .seed = 7, .on_text = keep_text, .arg = drawn};
    assert_ok(gy_gpt_generate(model, prompt, &options));
    options.arg = again;
    assert_ok(gy_gpt_generate(model, prompt, &options));
    assert_string_equal(drawn, again);
    assert_string_not_equal(drawn, greedy);
    gy_model_free(model);
}

/* ---- gradients ---- */

static double first_loss(const plain *p)
{
    double loss = 0;
    for (int row = 0; row < ROWS; row++) {
        plain_state s = {.h = {{0}}};
        const int64_t window = row * (int64_t)(SAMPLES / ROWS);
        loss += plain_loss(p, &s, window, window + 1) / ROWS;
    }
    return loss;
}

/* What a step of SGD of rate 1 takes away is the gradient. */
GY_TEST(gradients_are_finite_differences)
{
    static const double shift = 1e-5;
    gy_model *model = stirred();
    gy_dataset set = text_set(SAMPLES);
    gy_train_result result;
    plain before, after;
    read_plain(model, &before);
    assert_ok(gy_train(model, &set, NULL,
                       &GY_OPTIONS(gy_train_options, .steps = 1, .batch = ROWS, .rate = 1),
                       &result));
    gy_train_result_free(&result);
    read_plain(model, &after);
    double *place = &before.embedding[0][0];
    const double *moved = &after.embedding[0][0];
    for (size_t i = 0; i < sizeof(plain) / sizeof(double); i++) {
        const double kept = place[i];
        place[i] = kept + shift;
        const double above = first_loss(&before);
        place[i] = kept - shift;
        const double below = first_loss(&before);
        place[i] = kept;
        const double expected = (above - below) / (2 * shift);
        if (!(fabs(kept - moved[i] - expected) < 1e-7)) {
            fail_msg("value %zu: gradient %g, finite difference %g", i, kept - moved[i],
                     expected);
        }
    }
    gy_model_free(model);
}

/* ---- meshes and checkpoints ---- */

typedef struct story {
    const char *axes, *cut, *folder; /* NULL: no checkpoints */
    int zero, accumulate;
    bool resumes;
    int64_t limit;
    double dropout;
    struct {
        double losses[STEPS], test_loss, values[VALUES_MAX];
        int count, gathers; /* allgathers of an update, beside those of parameters in parts */
    } got[KIT_RANKS_MAX];
} story;

static gy_status keep_parameters(gy_model *model, story *s, int rank)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (model->slots[i].kind == GY_SLOT_PARAMETER) {
            GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
            for (int64_t k = 0; k < gy_tensor_count(whole); k++) {
                GY_ASSERT(s->got[rank].count < VALUES_MAX);
                s->got[rank].values[s->got[rank].count++] = gy_tensor_get(whole, k);
            }
            gy_tensor_drop(whole);
        }
    }
    return GY_OK;
}

static gy_status train_model(story *s, int rank, gy_model *model)
{
    gy_dataset set = text_set(SAMPLES), test = text_set(7);
    gy_train_result result;
    const gy_train_options options = GY_OPTIONS(
        gy_train_options, .steps = STEPS, .batch = ROWS, .accumulate = s->accumulate,
        .zero = s->zero, .cut = s->cut, .clip_norm = 0.3, .optimizer = GY_OPTIMIZER_ADAMW,
        .rate = 0.01, .weight_decay = 0.01, .checkpoint_folder = s->folder,
        .checkpoint_every = s->folder ? 1 : 0, .resume = s->resumes, .step_limit = s->limit);
    GY_TRY(gy_train(model, &set, s->limit == 0 ? &test : NULL, &options, &result));
    memcpy(s->got[rank].losses, result.losses, (size_t)result.steps * sizeof(double));
    s->got[rank].test_loss = result.test_loss;
    for (int i = 0; i < result.exchange_count && s->zero == 0; i++) {
        if (result.exchanges[i].operation == GY_OPERATION_ALLGATHER) {
            s->got[rank].gathers += (int)result.exchanges[i].count;
        }
    }
    gy_train_result_free(&result);
    return keep_parameters(model, s, rank);
}

static gy_status run_rank(kit_rank *me)
{
    story *s = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    GY_TRY(gy_mesh_new(me->comm, s->axes, &mesh));
    gy_status status = new_lstm(s->dropout, mesh, &model);
    status = status < 0 ? status : train_model(s, me->rank, model);
    gy_error error;
    gy_error_take(&error, status);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static int play(story *s)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0;
    assert_ok(gy_mesh_places(s->axes, &ranks));
    kit_run_ranks(ranks, run_rank, s, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("%s, zero %d, rank %d: %s", s->axes, s->zero, rank,
                     members[rank].error.text);
        }
    }
    return ranks;
}

static double apart(const double *a, const double *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) {
        most = fmax(most, fabs(a[i] - b[i]) / fmax(1, fabs(a[i])));
    }
    return most;
}

static void assert_same(const story *alone, const story *s, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(alone->got[0].count, s->got[rank].count);
        const double losses = apart(alone->got[0].losses, s->got[rank].losses, STEPS);
        const double values =
            apart(alone->got[0].values, s->got[rank].values, alone->got[0].count);
        const double test = fabs(alone->got[0].test_loss - s->got[rank].test_loss);
        if (!(losses <= 1e-9 && values <= 1e-9 && test <= 1e-9)) {
            fail_msg("%s, zero %d, rank %d: losses differ by %g, parameters by %g, the test by "
                     "%g",
                     s->axes, s->zero, rank, losses, values, test);
        }
    }
}

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
enum { MESHES = 2 }; /* the others take minutes */
#else
enum { MESHES = 7 };
#endif

GY_TEST(the_losses_know_no_mesh)
{
    static const struct {
        const char *axes, *cut;
        int zero;
    } meshes[] = {{"data=2", NULL, 1},        {"pipe=2", "layer1.input.weight", 0},
                  {"data=2", NULL, 0},        {"pipe=2", NULL, 2},
                  {"data=2,pipe=2", NULL, 2}, {"model=2", NULL, 0},
                  {"pipe=3", NULL, 1}};
    static story alone, s, again;
    alone = (story){.axes = "data=1", .dropout = 0.2};
    (void)play(&alone);
    for (int i = 0; i < MESHES; i++) {
        s = (story){.axes = meshes[i].axes,
                    .cut = meshes[i].cut,
                    .zero = meshes[i].zero,
                    .dropout = 0.2};
        assert_same(&alone, &s, play(&s));
        if (meshes[i].axes[0] == 'd') { /* rows of the batch and of the state stay apart */
            assert_int_equal(s.got[0].gathers, 0);
        }
        if (i < 2) {
            again = (story){.axes = meshes[i].axes,
                            .cut = meshes[i].cut,
                            .zero = meshes[i].zero,
                            .dropout = 0.2};
            (void)play(&again);
            assert_memory_equal(s.got, again.got, sizeof(s.got));
        }
    }
}

/* Values of one time step are small and gradients of weights large: each rank has its rows all
 * the same, and sends what a weight's gradient has. */
typedef struct exchange_count {
    const char *axes;
    bool is_by_cost;                     /* where the cut is */
    _Atomic uint64_t allreduces, others; /* of all ranks */
} exchange_count;

/* No send waits for one before it. */
static void check_sends(const gy_model *model)
{
    for (size_t p = 0; p < model->session->program_count; p++) {
        const gy_program *program = model->session->programs[p];
        for (int32_t i = 0; i < program->step_count; i++) {
            const gy_program_step *step = &program->steps[i];
            GY_ASSERT(step->node->op != &gy_ops_row_send || step->mutate_count == 0);
        }
    }
}

static gy_status count_exchanges(kit_rank *me)
{
    exchange_count *count = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_dataset set = text_set(SAMPLES);
    gy_train_result result;
    GY_TRY(gy_mesh_new(me->comm, count->axes, &mesh));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .input_sizes = {LENGTH}, .mesh = mesh, .workers = 1,
                   .class_names = letters, .class_count = CLASSES);
    const bool has_stages = count->axes[0] == 'p';
    gy_status status =
        gy_lstm_new(&GY_OPTIONS(gy_lstm_options, .layers = has_stages ? 2 : 1, .hidden = 256),
                    &base, &model);
    if (status == GY_OK) {
        status = gy_train(
            model, &set, NULL,
            &GY_OPTIONS(gy_train_options, .steps = 1, .batch = 6,
                        .cut = has_stages && !count->is_by_cost ? "layer1.input.weight" : NULL),
            &result);
    }
    if (status == GY_OK) {
        check_sends(model);
        for (int i = 0; i < result.exchange_count; i++) {
            const gy_operation operation = result.exchanges[i].operation;
            if (operation != GY_OPERATION_BARRIER) {
                *(operation == GY_OPERATION_ALLREDUCE ? &count->allreduces : &count->others) +=
                    result.exchanges[i].count;
            }
        }
        gy_train_result_free(&result);
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    return status;
}

static void count_on(exchange_count *count)
{
#ifdef GYRE_TSAN
    printf("oneDNN shares its compiled kernels among threads unseen by the race detector\n");
    skip();
#endif
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, count_exchanges, count, members);
    assert_int_equal(members[0].error.status, GY_OK);
    assert_int_equal(members[1].error.status, GY_OK);
}

GY_TEST(ranks_along_data_keep_their_rows)
{
    exchange_count count = {.axes = "data=2"};
    count_on(&count);
    assert_int_equal(count.others, 0);
    /* What the first layer's table gets (its embedding, input weights and bias follow from it),
     * three more parameters and the loss. */
    assert_int_equal(count.allreduces, 2 * (1 + 3 + 1));
}

/* Of each time its value goes up and its gradient down, and nothing goes twice. */
GY_TEST(stages_send_each_time_once)
{
    exchange_count count = {.axes = "pipe=2"};
    count_on(&count);
    assert_int_equal(count.allreduces, 0);
    assert_int_equal(count.others, 2 * (2 * LENGTH + 1)); /* and the loss; sent and received */
}

/* Stages of equal length would be one after the other: a cut in time. */
GY_TEST(a_cut_by_cost_is_between_layers)
{
    exchange_count count = {.axes = "pipe=2", .is_by_cost = true};
    count_on(&count);
    assert_int_equal(count.others, 2 * (2 * LENGTH + 1));
}

/* What batches hand on is of a training: the file has the parameters alone. */
GY_TEST(a_trained_model_comes_back_from_its_file)
{
    char path[] = "/tmp/gyre-lstm-XXXXXX";
    const int file = mkstemp(path);
    gy_model *model = stirred(), *loaded = NULL;
    gy_dataset set = text_set(SAMPLES);
    gy_train_result result;
    double loss[2] = {0, 0}, accuracy[2];
    assert_true(file >= 0);
    close(file);
    assert_ok(gy_train(model, &set, NULL,
                       &GY_OPTIONS(gy_train_options, .steps = 2, .batch = ROWS), &result));
    gy_train_result_free(&result);
    assert_ok(gy_model_save(model, path, NULL));
    assert_ok(gy_model_load(path, NULL, &loaded));
    assert_string_equal(gy_model_metadata(loaded, "gyre.configuration"),
                        "layers 2, hidden 6, dropout 0, classes 5");
    assert_ok(gy_model_evaluate(model, &set, 2, &loss[0], &accuracy[0], NULL));
    assert_ok(gy_model_evaluate(loaded, &set, 2, &loss[1], &accuracy[1], NULL));
    assert_true(loss[0] == loss[1]);
    gy_model_free(model);
    gy_model_free(loaded);
    unlink(path);
}

GY_TEST(a_resumed_training_has_the_same_bits)
{
    static story alone, first, second;
    for (int64_t limit = 2; limit <= 4; limit += 2) { /* within an epoch, and at its end */
        char folder[] = "/tmp/gyre-lstm-XXXXXX";
        assert_non_null(mkdtemp(folder));
        alone = (story){.axes = "data=1", .dropout = 0.2};
        (void)play(&alone);
        first = (story){.axes = "data=1", .folder = folder, .limit = limit, .dropout = 0.2};
        (void)play(&first);
        second = (story){.axes = "data=1", .folder = folder, .resumes = true, .dropout = 0.2};
        (void)play(&second);
        assert_memory_equal(alone.got, second.got, sizeof(alone.got));
        kit_remove_folder(folder);
    }
}

GY_TEST(a_checkpoint_is_resumed_on_another_mesh)
{
    static story alone, first, second;
    char folder[] = "/tmp/gyre-lstm-XXXXXX";
    assert_non_null(mkdtemp(folder));
    alone = (story){.axes = "data=1"};
    (void)play(&alone);
    first = (story){.axes = "data=2", .zero = 1, .folder = folder, .limit = 2};
    (void)play(&first);
    second = (story){.axes = "pipe=2", .folder = folder, .resumes = true};
    assert_same(&alone, &second, play(&second));
    kit_remove_folder(folder);
}

/* Two windows an update: state goes on between them as well. */
GY_TEST(batches_of_one_update_follow_one_another)
{
    static story alone, s;
    alone = (story){.axes = "data=1", .accumulate = 2};
    (void)play(&alone);
    s = (story){.axes = "data=2", .accumulate = 2};
    assert_same(&alone, &s, play(&s));
    gy_model *model = stirred();
    gy_dataset set = text_set(SAMPLES);
    gy_train_result result;
    plain p;
    double expected = 0;
    read_plain(model, &p);
    assert_ok(gy_train(model, &set, NULL,
                       &GY_OPTIONS(gy_train_options, .steps = 1, .batch = ROWS, .accumulate = 2,
                                   .rate = 1e-200),
                       &result));
    for (int row = 0; row < ROWS; row++) {
        plain_state stream = {.h = {{0}}};
        const int64_t window = row * (int64_t)(SAMPLES / ROWS);
        expected += plain_loss(&p, &stream, window, window + 2) / ROWS;
    }
    assert_true(fabs(result.losses[0] - expected) < 1e-12);
    gy_train_result_free(&result);
    gy_model_free(model);
}

/* ---- what is refused ---- */

GY_TEST(wrong_sizes_are_named)
{
    gy_model *model = stirred();
    gy_dataset set = text_set(ROWS - 1);
    gy_train_result result;
    const gy_train_servers servers = GY_OPTIONS(gy_train_servers, .servers = "127.0.0.1:1",
                                                .is_plaintext = true, .workers = 1);
    gy_train_options options = GY_OPTIONS(gy_train_options, .steps = 1, .batch = ROWS);
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "2 samples are no 3 streams"));
    set = text_set(SAMPLES);
    options.servers = &servers;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "hands state on from batch to batch"));
    gy_model_free(model);
    static const struct {
        gy_lstm_options options;
        const char *words;
    } cases[] = {{{.layers = -1}, "layers is -1"},
                 {{.hidden = 1 << 20}, "hidden is 1048576"},
                 {{.dropout = 1}, "dropout 1, expected 0 to below 1"}};
    const gy_model_options base = GY_OPTIONS(gy_model_options, .input_sizes = {LENGTH},
                                             .class_names = letters, .class_count = CLASSES);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_lstm_new(&cases[i].options, &base, &model), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].words));
    }
}

GY_TEST_MAIN(NULL, NULL)
