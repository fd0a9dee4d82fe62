/*
 * Goal: gradients that are exchanged in bf16 are, on every mesh and stage of ZeRO, those of a
 * plain loop to the rounding of each rank's part and of each sum, also of one element, of none,
 * and where they are denormal, overflow or are no numbers; ranks that differ in it are named.
 */
#include "tensor/half.h"
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"
#include "training_kit.h"

enum { FEATURES_MAX = 70, CLASSES_MAX = 9, ROWS = 8, NUMBERS_MAX = 1024 };

/* One update by plain descent at rate 1/4 of weights that are 0: they become -gradient / 4. */
typedef struct trial {
    const char *axes;
    int features, classes, zero, micro_batches, accumulate;
    gy_dtype exchange, exchange_others;
    double scale;              /* of the samples */
    double factor;             /* of the logits; 0: 1 */
    double odd;                /* if not 0, feature 0 of sample 3 */
    float values[NUMBERS_MAX]; /* the gradients that rank 0 found, parameter by parameter */
    int count;
} trial;

static double feature(const trial *t, int64_t row, int64_t k)
{
    gy_random random = {.key = 5, .next = (uint64_t)(row * FEATURES_MAX + k)};
    if (t->odd != 0 && row == 3 && k == 0) {
        return t->odd;
    }
    return (double)(float)(t->scale * (2 * gy_random_unit(&random) - 1));
}

static const trial *filled; /* what the data set is of */

static gy_status fill(gy_dataset *dataset, const int64_t *indices, int64_t count, gy_view *x,
                      gy_view *labels)
{
    const int64_t features = dataset->input_sizes[0];
    for (int64_t i = 0; i < count * features; i++) {
        ((float *)x->data)[i] = (float)feature(filled, indices[i / features], i % features);
    }
    for (int64_t i = 0; labels != NULL && i < count; i++) {
        ((int32_t *)labels->data)[i] = (int32_t)(indices[i] % dataset->classes);
    }
    return GY_OK;
}

static void free_nothing(gy_dataset *dataset)
{
    (void)dataset;
}

static const gy_dataset_ops rows_ops = {.name = "rows", .fill = fill, .free = free_nothing};

/* x W + b, with one number more in the first column, and the sum of none in the others. */
static gy_status build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    const trial *t = arg;
    const int64_t sizes[] = {t->features, t->classes};
    const gy_node w = gy_model_parameter(builder, "w", sizes, 2, gy_init_zeros());
    const gy_node b = gy_model_parameter(builder, "b", &sizes[1], 1, gy_init_zeros());
    const gy_node one = gy_model_parameter(builder, "one", (int64_t[]){1}, 1, gy_init_zeros());
    const gy_node none =
        gy_model_parameter(builder, "none", (int64_t[]){0}, 1, gy_init_zeros());
    const gy_node all = gy_op_add(gy_op_matmul(x, w), b);
    const gy_node parts[] = {
        gy_op_add(gy_op_slice(all, 1, 0, 1, 1), one),
        gy_op_add(gy_op_slice(all, 1, 1, t->classes, 1), gy_op_sum(none, 1, true))};
    *logits = gy_op_concat(parts, 2, 1);
    if (t->factor != 0) {
        *logits = gy_op_mul(*logits, gy_graph_scalar(x.graph, GY_F32, t->factor));
    }
    return GY_OK;
}

static gy_status keep(gy_model *model, trial *t, bool is_kept)
{
    int count = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (model->slots[i].kind != GY_SLOT_PARAMETER) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        for (int64_t k = 0; is_kept && k < gy_tensor_count(whole); k++) {
            GY_ASSERT(count < NUMBERS_MAX);
            t->values[count++] = (float)(-4 * gy_tensor_get(whole, k));
        }
        gy_tensor_drop(whole);
    }
    if (is_kept) {
        t->count = count;
    }
    return GY_OK;
}

static gy_status run_rank(kit_rank *me)
{
    trial *t = me->arg;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_train_result result = {.losses = NULL};
    gy_dataset set = {.ops = &rows_ops,
                      .count = ROWS,
                      .classes = t->classes,
                      .input_rank = 1,
                      .input_sizes = {t->features}};
    GY_TRY(gy_mesh_new(me->comm, t->axes, &mesh));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .name = "rows", .build = build, .arg = t, .input_rank = 1,
                   .input_sizes = {t->features}, .seed = 3, .mesh = mesh, .workers = 1);
    const gy_train_options options = GY_OPTIONS(
        gy_train_options, .steps = 1, .batch = t->accumulate > 0 ? ROWS / t->accumulate : ROWS,
        .accumulate = t->accumulate, .micro_batches = t->micro_batches, .rate = 0.25,
        .zero = t->zero, .exchange = me->rank > 0 ? t->exchange_others : t->exchange);
    gy_status status = gy_model_new(&base, &model);
    status = status < 0 ? status : gy_train(model, &set, NULL, &options, &result);
    status = status < 0 ? status : keep(model, t, me->rank == 0);
    gy_error error;
    gy_error_take(&error, status);
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static gy_status play(trial *t)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0;
    filled = t;
    GY_TRY(gy_mesh_places(t->axes, &ranks));
    kit_run_ranks(ranks, run_rank, t, members);
    for (int rank = 0; rank < ranks; rank++) {
        GY_TRY(gy_error_raise(&members[rank].error));
    }
    return GY_OK;
}

/* ---- the same by hand ---- */

typedef struct reference {
    double sum, size; /* of the rows' parts, and of their absolute values */
} reference;

/* Of weights 0 each class has the same probability. */
static reference gradient_of(const trial *t, int64_t feature_index, int64_t class)
{
    reference all = {.sum = 0};
    for (int64_t row = 0; row < ROWS; row++) {
        const double slope = (1.0 / t->classes - (row % t->classes == class ? 1 : 0)) / ROWS;
        const double part =
            slope * (feature_index < t->features ? feature(t, row, feature_index) : 1);
        all.sum += part;
        all.size += fabs(part);
    }
    return all;
}

static void expect_near(const trial *t, int index, reference want, int ranks, const char *what)
{
    const float value = t->values[index];
    const double ulps = t->exchange == GY_BF16 ? 0x1p-8 * (ranks + 1) * 1.01 : 0x1p-20;
    if (!(fabs((double)value - want.sum) <= ulps * want.size + 0x1p-133)) {
        fail_msg("%s: gradient %d is %g, expected %g, of rows that have %g", what, index,
                 (double)value, want.sum, want.size);
    }
    if (t->exchange == GY_BF16 && gy_bf16_to(gy_bf16_from((double)value)) != value) {
        fail_msg("%s: gradient %d is %.9g, which is no bf16", what, index, (double)value);
    }
}

static void check(trial *t)
{
    char what[160];
    int ranks = 0, at = 0;
    snprintf(what, sizeof(what), "%s, %d by %d, zero %d, %d micro, %d batches, scale %g in %s",
             t->axes, t->features, t->classes, t->zero, t->micro_batches, t->accumulate,
             t->scale, gy_dtype_name(t->exchange));
    t->exchange_others = t->exchange;
    assert_ok(gy_mesh_places(t->axes, &ranks));
    assert_ok(play(t));
    assert_int_equal(t->count, (t->features + 1) * t->classes + 1);
    for (int64_t k = 0; k <= t->features; k++) {
        for (int64_t class = 0; class < t->classes; class ++) {
            expect_near(t, at++, gradient_of(t, k, class), ranks, what);
        }
    }
    expect_near(t, at, gradient_of(t, t->features, 0), ranks, what);
}

static trial one;

GY_TEST(gradients_are_those_of_a_plain_loop)
{
    static const struct {
        const char *axes;
        int zero, micro_batches, accumulate;
    } ways[] = {{"data=1", 0, 0, 0},  {"data=1", 0, 3, 0},         {"data=1", 0, 0, 2},
                {"data=2", 0, 0, 0},  {"data=2", 1, 0, 0},         {"data=2", 2, 0, 2},
                {"data=2", 3, 2, 0},  {"data=3", 0, 0, 0},         {"data=3", 3, 0, 0},
                {"data=8", 0, 0, 0},  {"data=8", 2, 0, 0},         {"model=2", 0, 0, 0},
                {"model=3", 0, 0, 0}, {"data=2,model=2", 3, 0, 0}, {"data=2,model=2", 0, 2, 0}};
    static const int sizes[][2] = {{1, 2}, {5, 3}, {FEATURES_MAX, CLASSES_MAX}};
    static const double scales[] = {1, 1e-39, 1e30};
    const size_t step = gy_test_cases(8) == 1 ? 4 : 1; /* under a sanitizer */
    for (size_t i = 0; i < GY_COUNT(ways); i += step) {
        for (size_t k = 0; k < GY_COUNT(sizes) * GY_COUNT(scales); k++) {
            const int *size = sizes[k % GY_COUNT(sizes)];
            one = (trial){.axes = ways[i].axes,
                          .features = size[0],
                          .classes = size[1],
                          .zero = ways[i].zero,
                          .micro_batches = ways[i].micro_batches,
                          .accumulate = ways[i].accumulate,
                          .scale = scales[k / GY_COUNT(sizes)],
                          .exchange = k % 2 == 0 ? GY_BF16 : GY_F32};
            check(&one);
            if (k % 2 == 1) {
                one.exchange = GY_BF16;
                check(&one);
            }
        }
    }
}

/* What bf16 rounds to infinity, and what is no number, ends the training by name on all ranks.
 */
GY_TEST(gradients_that_are_not_finite_are_named)
{
    static const char *const axes[] = {"data=1", "data=2", "data=8", "model=2"};
    static const float odd[] = {3.4e38F, -3.4e38F, INFINITY, NAN};
    const size_t step = gy_test_cases(8) == 1 ? 7 : 1;
    for (size_t i = 0; i < GY_COUNT(axes) * GY_COUNT(odd) * 4; i += step) {
        const float value = odd[i / GY_COUNT(axes) % GY_COUNT(odd)];
        one = (trial){.axes = axes[i % GY_COUNT(axes)],
                      .features = 3,
                      .classes = 2,
                      .zero = (int)(i / GY_COUNT(axes) / GY_COUNT(odd)),
                      .scale = 1,
                      .odd = (double)value,
                      .factor = isfinite(value) ? 16 : 1};
        if (isfinite(value)) { /* in f32 odd * 16 / 2 / 8 is a number */
            assert_ok(play(&one));
        }
        one.exchange = one.exchange_others = GY_BF16;
        assert_status(play(&one), GY_NUMERIC);
        if (strstr(gy_error_text(), isfinite(value) ? "w is not finite after step 1 of 1"
                                                    : "not a number at step 1 of 1") == NULL) {
            fail_msg("%s", gy_error_text());
        }
    }
}

GY_TEST(ranks_that_differ_in_it_are_named)
{
    for (int zero = 0; zero < 4; zero++) {
        one = (trial){.axes = "data=2", .features = 3, .classes = 2, .scale = 1, .zero = zero};
        one.exchange = zero % 2 == 0 ? GY_BF16 : GY_F32;
        one.exchange_others = zero % 2 == 0 ? GY_F32 : GY_BF16;
        assert_status(play(&one), GY_MISMATCH);
        assert_non_null(strstr(gy_error_text(), "'exchange bf16'"));
    }
}

GY_TEST_MAIN(NULL, NULL)
