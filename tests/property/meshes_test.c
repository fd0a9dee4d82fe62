/* Goal: on every mesh of data and model, under every stage of ZeRO, models train as on one
 * rank, also where ranks have empty parts; what no rank can do is refused by all with its
 * numbers. */
#include <stdlib.h>

#include "gy_test.h"
#include "trial_kit.h"

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
    if ((at->mesh + at->stage) % 8 == 0) {
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
    int begin = 0, end = 0;
    assert_pairwise();
    gy_test_rows(rows, &begin, &end);
    for (int row = begin; row < end; row += step) {
        const grid at = is_soak ? every(row) : pairwise(row);
        printf("%d of %d: ", row, rows);
        compare_case(&at, &digits, &text);
        fflush(stdout);
    }
}

/* ---- empty parts ---- */

static const gy_layer narrow[] = {
    {.kind = GY_LAYER_FLATTEN},
    {.kind = GY_LAYER_DENSE, .units = 3},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DROPOUT, .rate = 0.3},
    {.kind = GY_LAYER_DENSE, .units = 2},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
};

/* A training of which ranks have empty parts: of a batch, of heads, of pinned parameters. */
typedef struct sparse {
    const char *mesh;
    int ranks, batch, zero, heads; /* heads 0: the perceptron */
    bool is_pinned;
} sparse;

static void compare_sparse(const sparse *of, gy_dataset *digits, gy_dataset *text)
{
    static const gy_parameter_pin pins[] = {
        {"dense*.weight", "model", {.kind = GY_SHARD, .dim = 1}},
        {"dense*.bias", "model", {.kind = GY_SHARD, .dim = 0}},
    };
    static const gy_parameter_pin gpt_pins[] = {
        {"positions", "model", {.kind = GY_SHARD, .dim = 0}}, /* 5 over 8 */
        {"block*.up.weight", "model", {.kind = GY_SHARD, .dim = 1}},
    };
    char what[96];
    trial t = {.dtype = GY_F64,
               .train = of->heads > 0 ? text : digits,
               .heads = of->heads,
               .layers = narrow,
               .layer_count = GY_COUNT(narrow),
               .options = {.epochs = 3,
                           .batch = of->batch,
                           .step_limit = 5,
                           .optimizer = GY_OPTIMIZER_ADAM,
                           .clip_norm = 0.1,
                           .seed = 4}};
    const trial alone = trained(t, 1);
    t.mesh = of->mesh;
    t.options.zero = of->zero;
    t.options.pins = of->heads > 0 ? gpt_pins : pins;
    t.options.pin_count = !of->is_pinned ? 0 : 2;
    snprintf(what, sizeof(what), "%s, batch %d, zero %d, heads %d%s", of->mesh, of->batch,
             of->zero, of->heads, of->is_pinned ? ", pinned" : "");
    const trial several = trained(t, of->ranks);
    const trial again = trained(t, of->ranks);
    assert_close(&alone, &several, 1e-9, what);
    assert_same_bits(&several, &again);
    for (int rank = 1; rank < of->ranks; rank++) {
        assert_true(parameters_of[rank] == parameters_of[0]);
    }
}

GY_TEST(more_ranks_than_elements_train_as_one_rank_does)
{
    static const sparse cases[] = {
        {"data=8", 8, 3, 0, 0, false},         {"model=4", 4, 3, 0, 3, false},
        {"model=8", 8, 3, 0, 0, true},         {"data=8", 8, 3, 3, 0, false},
        {"data=8", 8, 3, 3, 3, false},         {"model=8", 8, 3, 0, 3, true},
        {"auto=8", 8, 3, 0, 0, false},         {"auto=4", 4, 2, 0, 3, false},
        {"data=4,model=2", 8, 3, 2, 3, true},  {"data=2,model=4", 8, 1, 3, 0, true},
        {"model=4,data=2", 8, 1, 1, 3, false},
    };
    gy_dataset digits = kit_digits(23, 6);
    gy_dataset text = text_set(&text_ops);
    const size_t step = gy_test_cases(8) == 1 ? 4 : 1;
    for (size_t i = 0; i < GY_COUNT(cases); i += step) {
        compare_sparse(&cases[i], &digits, &text);
    }
}

/* Heads that are pinned over more ranks than there are: no rank begins. */
GY_TEST(heads_over_more_ranks_are_refused_with_both_numbers)
{
    static const gy_parameter_pin pin = {
        "block*.qkv.weight", "model", {.kind = GY_SHARD, .dim = 1}};
    gy_dataset text = text_set(&text_ops);
    kit_rank members[KIT_RANKS_MAX];
    trial t = {.dtype = GY_F64,
               .train = &text,
               .heads = 3,
               .mesh = "model=4",
               .options = {.epochs = 1, .batch = 3, .pins = &pin, .pin_count = 1}};
    kit_run_ranks(4, train_one, &t, members);
    for (int rank = 0; rank < 4; rank++) {
        assert_status(members[rank].error.status, GY_ARG);
        assert_non_null(strstr(members[rank].error.text,
                               "3 heads cannot be cut over 4 ranks, expected 1 or 3"));
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

int main(void)
{
    if (getenv("GYRE_TEST_ROWS") != NULL) {
        cmocka_set_test_filter("every_mesh_*");
    }
    return GY_TESTS_RUN(NULL, NULL);
}
