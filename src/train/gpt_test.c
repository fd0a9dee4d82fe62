/* Goal: a GPT computes what its formulas say, looks at nothing behind a place, learns alike on
 * any number of ranks, and comes back from its file. */
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"
#include "training_kit.h"

enum { CLASSES = 5, LENGTH = 6, WIDTH = 8, HEADS = 2, SIZE = WIDTH / HEADS, LAYERS = 2 };

static const char *const letters[CLASSES] = {"\n", "a", "b", "c", "d"};

static gy_status new_gpt(const gy_gpt_options *options, gy_comm *comm, gy_mesh *mesh,
                         gy_model **model)
{
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .dtype = GY_F64, .input_sizes = {LENGTH}, .seed = 11,
                   .comm = mesh != NULL ? NULL : comm, .mesh = mesh, .workers = 1,
                   .class_names = letters, .class_count = CLASSES);
    return gy_gpt_new(options, &base, model);
}

static gy_model *small_gpt(double dropout)
{
    gy_model *model = NULL;
    assert_ok(new_gpt(&GY_OPTIONS(gy_gpt_options, .layers = LAYERS, .width = WIDTH,
                                  .heads = HEADS, .dropout = dropout),
                      NULL, NULL, &model));
    return model;
}

/* Log-probabilities of one window, out (LENGTH, CLASSES). */
static void say(gy_model *model, const int32_t *window, double out[LENGTH * CLASSES])
{
    gy_tensor *x = NULL, *y = NULL;
    assert_ok(gy_tensor_from(NULL, GY_I32, (int64_t[]){1, LENGTH}, 2, window, &x));
    assert_ok(gy_model_predict(model, x, &y));
    for (int i = 0; i < LENGTH * CLASSES; i++) {
        out[i] = gy_tensor_get(y, i);
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
}

/* ---- the same by hand: loops over plain arrays ---- */

static gy_model *oracle; /* whose parameters are read */

static double parameter(const char *block, const char *name, int64_t index)
{
    char whole[64];
    snprintf(whole, sizeof(whole), "%s%s", block, name);
    gy_tensor *tensor = gy_session_parameter(gy_model_session(oracle), whole);
    assert_non_null(tensor);
    return gy_tensor_get(tensor, index);
}

static void by_hand_norm(const char *block, const char *name, const double *h, double *out)
{
    char gain[32], bias[32];
    double mean = 0, square = 0;
    snprintf(gain, sizeof(gain), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    for (int i = 0; i < WIDTH; i++) {
        mean += h[i] / WIDTH;
    }
    for (int i = 0; i < WIDTH; i++) {
        square += (h[i] - mean) * (h[i] - mean) / WIDTH;
    }
    for (int i = 0; i < WIDTH; i++) {
        out[i] = (h[i] - mean) / sqrt(square + 1e-5) * parameter(block, gain, i) +
                 parameter(block, bias, i);
    }
}

static void by_hand_linear(const char *block, const char *name, const double *h, int inputs,
                           int outputs, double *out)
{
    char weight[32], bias[32];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    for (int j = 0; j < outputs; j++) {
        out[j] = parameter(block, bias, j);
        for (int i = 0; i < inputs; i++) {
            out[j] += h[i] * parameter(block, weight, i * outputs + j);
        }
    }
}

/* What place `at` takes from the values up to itself; columns of qkv (LENGTH, HEADS, 3, SIZE).
 */
static void by_hand_mix(double qkv[LENGTH][3 * WIDTH], int at, double out[WIDTH])
{
    memset(out, 0, WIDTH * sizeof(*out));
    for (int head = 0; head < HEADS; head++) {
        double shares[LENGTH], total = 0;
        const double *q = &qkv[at][(ptrdiff_t)head * 3 * SIZE];
        for (int from = 0; from <= at; from++) {
            double score = 0;
            for (int i = 0; i < SIZE; i++) {
                score += q[i] * qkv[from][head * 3 * SIZE + SIZE + i];
            }
            shares[from] = exp(score / sqrt((double)SIZE));
            total += shares[from];
        }
        for (int from = 0; from <= at; from++) {
            for (int i = 0; i < SIZE; i++) {
                out[head * SIZE + i] +=
                    shares[from] / total * qkv[from][head * 3 * SIZE + 2 * SIZE + i];
            }
        }
    }
}

static void by_hand_block(const char *block, double h[LENGTH][WIDTH])
{
    double qkv[LENGTH][3 * WIDTH], inner[4 * WIDTH], a[WIDTH], b[WIDTH];
    for (int t = 0; t < LENGTH; t++) {
        by_hand_norm(block, "norm1", h[t], a);
        by_hand_linear(block, "qkv", a, WIDTH, 3 * WIDTH, qkv[t]);
    }
    for (int t = 0; t < LENGTH; t++) {
        by_hand_mix(qkv, t, a);
        by_hand_linear(block, "projection", a, WIDTH, WIDTH, b);
        for (int i = 0; i < WIDTH; i++) {
            h[t][i] += b[i];
        }
        by_hand_norm(block, "norm2", h[t], a);
        by_hand_linear(block, "up", a, WIDTH, 4 * WIDTH, inner);
        for (int i = 0; i < 4 * WIDTH; i++) {
            inner[i] *= 0.5 * (1 + erf(inner[i] / sqrt(2)));
        }
        by_hand_linear(block, "down", inner, 4 * WIDTH, WIDTH, b);
        for (int i = 0; i < WIDTH; i++) {
            h[t][i] += b[i];
        }
    }
}

static void by_hand(const int32_t *window, double out[LENGTH * CLASSES])
{
    double h[LENGTH][WIDTH];
    for (int t = 0; t < LENGTH; t++) {
        for (int i = 0; i < WIDTH; i++) {
            h[t][i] = parameter("", "embedding", (int64_t)window[t] * WIDTH + i) +
                      parameter("", "positions", (int64_t)t * WIDTH + i);
        }
    }
    by_hand_block("block0.", h);
    by_hand_block("block1.", h);
    for (int t = 0; t < LENGTH; t++) {
        double last[WIDTH], total = 0, *logits = out + (ptrdiff_t)t * CLASSES;
        by_hand_norm("", "norm", h[t], last);
        for (int c = 0; c < CLASSES; c++) {
            logits[c] = 0;
            for (int i = 0; i < WIDTH; i++) {
                logits[c] += last[i] * parameter("", "embedding", (int64_t)c * WIDTH + i);
            }
            total += exp(logits[c]);
        }
        for (int c = 0; c < CLASSES; c++) {
            logits[c] -= log(total);
        }
    }
}

/* Values that are far from those at first, where the attention is nearly even. */
static void stir(gy_model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *tensor = NULL;
        gy_random random = {.key = i + 1};
        assert_ok(gy_train_slot_tensor(model, model->slots[i].name, &tensor));
        for (int64_t k = 0; k < gy_tensor_count(tensor); k++) {
            gy_tensor_set(tensor, k,
                          gy_tensor_get(tensor, k) + 0.6 * gy_random_normal(&random));
        }
    }
}

GY_TEST(it_computes_its_formulas)
{
    static const int32_t window[LENGTH] = {1, 4, 2, 2, 0, 3};
    double got[LENGTH * CLASSES], expected[LENGTH * CLASSES];
    oracle = small_gpt(0.5); /* dropout is none of evaluation */
    assert_int_equal(oracle->slot_count, 2 + LAYERS * 12 + 2);
    stir(oracle);
    say(oracle, window, got);
    by_hand(window, expected);
    for (int i = 0; i < LENGTH * CLASSES; i++) {
        assert_true(fabs(got[i] - expected[i]) < 1e-5); /* predictions are f32 */
    }
    gy_model_free(oracle);
}

GY_TEST(no_place_looks_behind_itself)
{
    gy_model *model = small_gpt(0);
    const int32_t window[LENGTH] = {1, 4, 2, 2, 0, 3};
    double before[LENGTH * CLASSES], after[LENGTH * CLASSES];
    stir(model);
    say(model, window, before);
    for (int changed = 1; changed < LENGTH; changed++) {
        int32_t other[LENGTH];
        memcpy(other, window, sizeof(window));
        other[changed] = (other[changed] + 1) % CLASSES;
        say(model, other, after);
        assert_memory_equal(before, after, (size_t)changed * CLASSES * sizeof(double));
        assert_memory_not_equal(before + (ptrdiff_t)changed * CLASSES,
                                after + (ptrdiff_t)changed * CLASSES, CLASSES * sizeof(double));
    }
    gy_model_free(model);
}

/* ---- training ---- */

enum { TEXTS = 22 };

static gy_status letters_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                              gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count * LENGTH; i++) {
        /* "abcdabcd…", from another letter in each text, backwards in every third. */
        const int64_t text = indices[i / LENGTH], at = i % LENGTH, way = text % 3 == 0 ? 3 : 1;
        ((int32_t *)x->data)[i] = (int32_t)((text + at * way) % 4 + 1);
        ((int32_t *)labels->data)[i] = (int32_t)((text + (at + 1) * way) % 4 + 1);
    }
    return GY_OK;
}

static const gy_dataset_ops letters_ops = {
    .name = "letters", .fill = letters_fill, .free = kit_free};

static gy_dataset text_set(void)
{
    return (gy_dataset){.ops = &letters_ops,
                        .count = TEXTS,
                        .classes = CLASSES,
                        .input_rank = 1,
                        .input_sizes = {LENGTH},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {LENGTH}};
}

enum { STEPS = 20 };

static gy_status train_with(const kit_rank *me, gy_mesh *mesh, const gy_parameter_pin *pins,
                            int pin_count)
{
    gy_dataset set = text_set();
    gy_model *model = NULL;
    gy_train_result result;
    gy_train_options options = gy_train_recipe(GY_GPT_MODEL);
    options.steps = STEPS;
    options.batch = 6; /* of the last one of an epoch there are four */
    options.warmup_steps = 2;
    options.rate = 0.01;
    options.pins = pins;
    options.pin_count = pin_count;
    GY_TRY(new_gpt(&GY_OPTIONS(gy_gpt_options, .layers = LAYERS, .width = WIDTH, .heads = HEADS,
                               .dropout = 0.1),
                   me->comm, mesh, &model));
    gy_status status = gy_train(model, &set, &set, &options, &result);
    if (status == GY_OK) {
        double *losses = (double *)me->arg + (ptrdiff_t)(STEPS + 1) * me->rank;
        GY_ASSERT(result.steps == STEPS);
        memcpy(losses, result.losses, STEPS * sizeof(double));
        losses[STEPS] = result.test_loss;
        gy_train_result_free(&result);
    }
    gy_model_free(model);
    return status;
}

static gy_status train_some(kit_rank *me)
{
    return train_with(me, NULL, NULL, 0);
}

/* Tokens stay cut between the products, and with four ranks rows as well. */
static gy_status train_cut_tokens(kit_rank *me)
{
    static const gy_parameter_pin pin = {"*residual*", "model", {.kind = GY_SHARD, .dim = 1}};
    gy_mesh *mesh = NULL;
    GY_TRY(gy_mesh_new(me->comm, me->ranks == 4 ? "data=2,model=2" : "model=2", &mesh));
    const gy_status status = train_with(me, mesh, &pin, 1);
    gy_mesh_free(mesh);
    return status;
}

GY_TEST(the_losses_know_no_cut_tokens)
{
    static double alone[KIT_RANKS_MAX * (STEPS + 1)], losses[KIT_RANKS_MAX * (STEPS + 1)];
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(1, train_some, alone, members);
    assert_int_equal(members[0].error.status, GY_OK);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        double apart = 0;
        kit_run_ranks(ranks, train_cut_tokens, losses, members);
        for (int i = 0; i < ranks * (STEPS + 1); i++) {
            if (members[i / (STEPS + 1)].error.status != GY_OK) {
                fail_msg("%s", members[i / (STEPS + 1)].error.text);
            }
            apart = fmax(apart, fabs(losses[i] - alone[i % (STEPS + 1)]));
        }
        printf("%d ranks, cut tokens: losses differ by %.2g at most\n", ranks, apart);
        assert_true(apart < 1e-10);
    }
}

GY_TEST(the_losses_know_no_ranks)
{
    static const int ranks[] = {1, 2, 3, 5};
    static double losses[GY_COUNT(ranks)][KIT_RANKS_MAX * (STEPS + 1)];
    for (size_t k = 0; k < GY_COUNT(ranks); k++) {
        kit_rank members[KIT_RANKS_MAX];
        double apart = 0;
        kit_run_ranks(ranks[k], train_some, losses[k], members);
        for (int i = 0; i < ranks[k] * (STEPS + 1); i++) {
            assert_int_equal(members[i / (STEPS + 1)].error.status, GY_OK);
            apart = fmax(apart, fabs(losses[k][i] - losses[0][i % (STEPS + 1)]));
        }
        printf("%d ranks: losses differ by %.2g at most\n", ranks[k], apart);
        assert_true(apart < 1e-10);
    }
    assert_true(fabs(losses[0][0] - log(CLASSES)) < 0.05);
    assert_true(losses[0][STEPS] < losses[0][0] - 0.1);
}

/* Letters that follow a rule are learned from the second on. */
GY_TEST(it_learns_a_rule)
{
    gy_dataset set = text_set();
    gy_model *model = small_gpt(0);
    gy_train_options options = gy_train_recipe(GY_GPT_MODEL);
    gy_train_result result;
    options.steps = 300;
    options.warmup_steps = 10;
    options.rate = 0.01;
    assert_ok(gy_train(model, &set, &set, &options, &result));
    assert_int_equal(result.steps, 300);
    /* Of the first letter the way is not known: a half of texts forwards, and so on. */
    assert_true(result.test_loss < 0.2);
    gy_train_result_free(&result);
    gy_model_free(model);
}

GY_TEST(it_comes_back_from_its_file)
{
    static const int32_t window[LENGTH] = {1, 4, 2, 2, 0, 3};
    double before[LENGTH * CLASSES], after[LENGTH * CLASSES];
    char path[] = "/tmp/gyre-gpt-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    gy_model *model = small_gpt(0), *loaded = NULL;
    say(model, window, before);
    assert_ok(gy_model_save(model, path, NULL));
    gy_model_free(model);
    assert_ok(gy_model_load(path, NULL, &loaded));
    say(loaded, window, after);
    assert_memory_equal(before, after, sizeof(before));
    assert_string_equal(gy_model_class_name(loaded, 0), "\n");
    assert_string_equal(gy_model_metadata(loaded, "gyre.configuration"),
                        "layers 2, width 8, heads 2, dropout 0, classes 5");
    gy_model_free(loaded);
    static const struct {
        const char *text;
        gy_status status;
        const char *words;
    } cases[] = {
        {"layers 2, width 8", GY_FORMAT, "configuration 'layers 2, width 8', expected"},
        {"layers 2, width 8, heads 2, dropout 0, classes 5, more", GY_FORMAT, "expected"},
        {"layers 2, width 8, heads 3, dropout 0, classes 5", GY_ARG, "not divisible by 3"},
        {"layers 0, width 8, heads 2, dropout 0, classes 5", GY_ARG, "layers is 0"},
        {"layers 3, width 8, heads 2, dropout 0, classes 5", GY_FORMAT,
         "'block2.norm1.weight'"},
        {"layers 2, width 10, heads 2, dropout 0, classes 5", GY_FORMAT, "'embedding'"},
        {"layers 2, width 8, heads 2, dropout 0, classes 6", GY_FORMAT, "'embedding'"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_bundle *bundle = NULL;
        assert_ok(gy_bundle_read(path, &bundle));
        assert_ok(gy_bundle_set(bundle, "gyre.configuration", cases[i].text));
        assert_ok(gy_bundle_write(bundle, path));
        gy_bundle_free(bundle);
        assert_status(gy_model_load(path, NULL, &loaded), cases[i].status);
        if (strstr(gy_error_text(), cases[i].words) == NULL) {
            fail_msg("%s: %s", cases[i].text, gy_error_text());
        }
    }
    unlink(path);
}

GY_TEST(options_that_do_not_fit_are_named)
{
    static const struct {
        gy_gpt_options options;
        const char *words;
    } cases[] = {
        {{.width = 10, .heads = 3}, "width 10 is not divisible by 3 heads"},
        {{.layers = -1}, "layers is -1, expected 1 to 1000"},
        {{.width = -8}, "width is -8"},
        {{.heads = -2}, "heads is -2"},
        {{.dropout = 1}, "dropout 1, expected 0 to below 1"},
        {{.dropout = -0.1}, "dropout -0.1"},
    };
    gy_model *model = NULL;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(new_gpt(&cases[i].options, NULL, NULL, &model), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].words));
    }
    const gy_model_options nameless = {.input_sizes = {LENGTH}, .workers = 1};
    assert_status(gy_gpt_new(NULL, &nameless, &model), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "classes is 0"));
}

/* By this option's rank biases and gains keep what plain training would take from them. */
GY_TEST(weight_decay_spares_what_has_one_dimension)
{
    gy_dataset set = text_set();
    for (int rank = 0; rank <= 2; rank += 2) {
        gy_model *model = small_gpt(0);
        gy_train_result result;
        const gy_train_options options =
            GY_OPTIONS(gy_train_options, .steps = 1, .batch = TEXTS, .rate = 1e-12,
                       .optimizer = GY_OPTIMIZER_ADAMW, .weight_decay = 1e5,
                       .weight_decay_rank_min = rank);
        gy_tensor *gain = gy_session_parameter(gy_model_session(model), "norm.weight");
        const double before =
            gy_tensor_get(gy_session_parameter(gy_model_session(model), "embedding"), 0);
        assert_true(gy_tensor_get(gain, 0) == 1);
        assert_ok(gy_train(model, &set, NULL, &options, &result));
        gain = gy_session_parameter(gy_model_session(model), "norm.weight");
        const double after =
            gy_tensor_get(gy_session_parameter(gy_model_session(model), "embedding"), 0);
        assert_true(fabs(after / before - (1 - 1e-7)) < 1e-9);
        assert_true(fabs(gy_tensor_get(gain, 0) - (rank == 0 ? 1 - 1e-7 : 1)) < 1e-10);
        gy_train_result_free(&result);
        gy_model_free(model);
    }
}

GY_TEST_MAIN(NULL, NULL)
