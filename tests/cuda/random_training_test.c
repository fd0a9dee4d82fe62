/*
 * Goal: random trainings under the stand-in for a device have the losses, test results and
 * parameters of the CPU's, on every mesh, precision and optimizer, and go on from each other's
 * checkpoints; a training on a device that is resumed has the bits of the undisturbed one.
 */
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <unistd.h>

#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS_MAX = 8, LETTERS = 12, LAYERS_MAX = 12, VALUES_MAX = 1 << 19, CASES = 4 };

/* All that a case draws, and what it gave on rank 0. */
typedef struct trial {
    uint64_t seed;
    int kind, length, layer_count, ranks;
    gy_layer layers[LAYERS_MAX];
    int64_t side, units;
    gy_dtype dtype;
    double dropout;
    const char *axes;
    gy_train_options options;
    bool has_test, has_device;
    gy_device_rates rates;
    /* given */
    double losses[STEPS_MAX], test_loss;
    double values[VALUES_MAX];
    int64_t steps, skipped;
    int count, there;
} trial;

enum { SOFTMAX, LIST, GPT, LSTM, KINDS };

/* ---- drawing ---- */

static int below(gy_random *random, int bound)
{
    return (int)gy_random_below(random, (uint64_t)bound);
}

static void draw_layers(gy_random *random, trial *t)
{
    const bool is_spatial = below(random, 2) == 0;
    int n = 0;
    int64_t side = t->side;
    for (int i = 0; is_spatial && i < 1 + below(random, 2) && side >= 4; i++) {
        const int window = 2 + below(random, 2);
        t->layers[n++] = gy_layer_conv2d(1 + below(random, 4), window, window / 2);
        side += 2 * (window / 2) - window + 1;
        if (below(random, 3) == 0) {
            t->layers[n++] = gy_layer_batch_norm();
        }
        t->layers[n++] = (gy_layer){.kind = below(random, 2) ? GY_LAYER_RELU : GY_LAYER_TANH};
        t->layers[n++] = below(random, 2) ? gy_layer_average_pool(2) : gy_layer_max_pool(2);
        side /= 2;
    }
    t->layers[n++] = gy_layer_flatten();
    for (int i = below(random, 3); i > 0 && n < LAYERS_MAX - 3; i--) {
        static const gy_layer_kind kinds[] = {GY_LAYER_RELU, GY_LAYER_TANH, GY_LAYER_SIGMOID,
                                              GY_LAYER_GELU, GY_LAYER_BATCH_NORM};
        t->layers[n++] = gy_layer_dense(1 + below(random, 19));
        t->layers[n++] = (gy_layer){.kind = kinds[below(random, (int)GY_COUNT(kinds))]};
        if (below(random, 3) == 0 && n < LAYERS_MAX - 2) {
            t->layers[n++] = gy_layer_dropout(0.4);
        }
    }
    t->layers[n++] = gy_layer_dense(KIT_CLASSES);
    GY_ASSERT(n <= LAYERS_MAX);
    t->layer_count = n;
}

static void draw_options(gy_random *random, trial *t)
{
    static const char *const axes[] = {"data=1",         "data=1",        "data=1",  "data=1",
                                       "data=2",         "data=3",        "model=2", "pipe=2",
                                       "data=2,model=2", "data=2,pipe=2", "pipe=3"};
    gy_train_options *o = &t->options;
    *o = GY_OPTIONS(gy_train_options, .batch = 2 + below(random, 9), .rate = 0.01,
                    .steps = 2 + below(random, STEPS_MAX - 2),
                    .seed = gy_random_below(random, 100));
    t->axes = axes[below(random, (int)GY_COUNT(axes))];
    const bool has_stages = strstr(t->axes, "pipe") != NULL;
    o->optimizer = (gy_optimizer_kind)below(random, 5);
    o->rate = o->optimizer >= GY_OPTIMIZER_ADAM ? 0.003 : 0.02;
    o->clip_norm = below(random, 2) ? 0.3 : 0;
    o->weight_decay = below(random, 3) == 0 ? 0.01 : 0;
    o->zero = below(random, 3) == 0 ? below(random, 4) : 0;
    o->schedule = (gy_schedule_kind)below(random, 4);
    o->warmup_steps = below(random, 3) == 0 ? 2 : 0;
    o->recompute = below(random, 4) == 0 ? GY_RECOMPUTE_LAYERS : GY_RECOMPUTE_NONE;
    if (has_stages || below(random, 4) == 0) {
        o->micro_batches = 1 + below(random, 3);
        o->zero = has_stages ? 0 : o->zero;
    } else if (below(random, 4) == 0) {
        o->accumulate = 2 + below(random, 2);
    }
    t->dtype = below(random, 4) == 0 ? GY_F64 : GY_F32;
    if (t->dtype == GY_F32 && below(random, 3) == 0) {
        o->precision = below(random, 2) ? GY_BF16 : GY_F16;
        o->loss_scale = o->precision == GY_F16 && below(random, 2) ? 0x1p24 : 0;
    }
    if (t->dtype == GY_F32 && below(random, 4) == 0) {
        o->exchange = GY_BF16;
    }
}

/* Of a device on which all pays that can run there, or some of it. */
static void draw_rates(gy_random *random, trial *t)
{
    static const double times[] = {1e-12, 1e-12, 1e-9, 1e-7, 1e-6};
    t->rates.launch_s = times[below(random, (int)GY_COUNT(times))];
    t->rates.copy_s = times[below(random, (int)GY_COUNT(times))];
    t->rates.copy_bytes_s = t->rates.bytes_s = 1e15;
    t->rates.host_flops_s = t->rates.host_bytes_s = below(random, 2) ? 1e6 : 1e9;
}

/* Sizes whose products are worth 16 bits, and few of them: the stand-in multiplies in loops. */
static void widen(trial *t)
{
    t->units = 32;
    t->length = t->kind == GPT ? 32 : t->length;
    t->options.batch += t->kind == GPT ? 0 : 30;
    for (int i = 0; t->kind == LIST && i + 1 < t->layer_count; i++) {
        const int64_t units = t->layers[i].units;
        t->layers[i].units = t->layers[i].kind == GY_LAYER_CONV2D ? 16 * units
                             : units > 0                          ? 32 * (1 + units % 2)
                                                                  : 0;
    }
}

static void draw(uint64_t seed, trial *t)
{
    gy_random random = {.key = seed};
    *t = (trial){.seed = seed, .kind = below(&random, KINDS)};
    t->side = 4 + below(&random, 5);
    t->length = 3 + below(&random, 6);
    t->units = 4 * (1 + below(&random, 3));
    t->dropout = below(&random, 2) ? 0.2 : 0;
    draw_layers(&random, t);
    if (t->kind == SOFTMAX) {
        t->layers[0] = gy_layer_flatten();
        t->layers[1] = gy_layer_dense(KIT_CLASSES);
        t->layer_count = 2;
    }
    draw_options(&random, t);
    if (t->options.precision != GY_DTYPE_NONE) {
        widen(t);
    }
    draw_rates(&random, t);
    t->has_test = below(&random, 2);
}

static void describe(const trial *t)
{
    static const char *const kinds[] = {"softmax", "layers", "gpt", "lstm"};
    const gy_train_options *o = &t->options;
    printf(
        "case %llu: %s %s, %s, %s, exchange %s, zero %d, %d micro, %d accumulated, "
        "optimizer %d, clip %g, recompute %d, batch %lld, %lld steps, dropout %g, launch %g, "
        "copy %g, host %g\n",
        (unsigned long long)t->seed, kinds[t->kind], gy_dtype_name(t->dtype), t->axes,
        gy_dtype_name(o->precision == GY_DTYPE_NONE ? t->dtype : o->precision),
        o->exchange == GY_BF16 ? " in bf16" : "plain", o->zero, o->micro_batches, o->accumulate,
        (int)o->optimizer, o->clip_norm, (int)o->recompute, (long long)o->batch,
        (long long)o->steps, t->dropout, t->rates.launch_s, t->rates.copy_s,
        t->rates.host_flops_s);
    for (int i = 0; t->kind <= LIST && i < t->layer_count; i++) {
        printf("%s%d:%lld:%d", i > 0 ? " " : "  layers ", (int)t->layers[i].kind,
               (long long)t->layers[i].units, t->layers[i].window);
    }
    printf("%s", t->kind <= LIST ? "\n" : "");
    fflush(stdout);
}

/* ---- running ---- */

static gy_status new_model(const trial *t, gy_mesh *mesh, gy_model **model)
{
    gy_model_options base =
        GY_OPTIONS(gy_model_options, .dtype = t->dtype, .seed = 11, .mesh = mesh, .workers = 1);
    if (t->kind == GPT || t->kind == LSTM) {
        base.input_sizes[0] = t->length;
        base.class_names = kit_letter_names;
        base.class_count = LETTERS;
    }
    if (t->kind == GPT) {
        return gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = 2, .width = (int)t->units,
                                      .heads = 2, .dropout = t->dropout),
                          &base, model);
    }
    if (t->kind == LSTM) {
        return gy_lstm_new(&GY_OPTIONS(gy_lstm_options, .layers = 2, .hidden = (int)t->units,
                                       .dropout = t->dropout),
                           &base, model);
    }
    base.layers = t->layers;
    base.layer_count = t->layer_count;
    base.input_rank = 3;
    memcpy(base.input_sizes, (int64_t[]){1, t->side, t->side}, 3 * sizeof(int64_t));
    return gy_model_new(&base, model);
}

static gy_status keep(gy_model *model, trial *t, bool is_kept)
{
    if (is_kept) {
        t->count = 0;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *whole = NULL;
        if (strstr(model->slots[i].name, GY_TRAIN_CARRIED) != NULL) {
            continue;
        }
        GY_TRY(gy_session_gather(model->session, model->slots[i].name, &whole));
        for (int64_t k = 0; is_kept && k < gy_tensor_count(whole); k++) {
            GY_ASSERT(t->count < VALUES_MAX);
            t->values[t->count++] = gy_tensor_get(whole, k);
        }
        gy_tensor_drop(whole);
    }
    return GY_OK;
}

static int nodes_there(const gy_session *session)
{
    int there = 0;
    for (size_t i = 0; i < session->program_count; i++) {
        const gy_graph *graph = session->programs[i]->graph;
        for (int32_t n = 0; n < graph->node_count; n++) {
            there += graph->nodes[n].is_on_device;
        }
    }
    return there;
}

static gy_status train(kit_rank *me, trial *t, gy_mesh *mesh, gy_device *device)
{
    gy_model *model = NULL;
    gy_train_result result = {.losses = NULL};
    const int64_t count = 3 * t->options.batch + 1;
    gy_dataset set =
        t->kind >= GPT ? kit_letters(count, LETTERS, t->length) : kit_digits(count, t->side);
    GY_TRY(new_model(t, mesh, &model));
    model->device = device; /* lent */
    gy_status status = gy_train(model, &set, t->has_test ? &set : NULL, &t->options, &result);
    if (status == GY_OK && me->rank == 0) {
        t->steps = result.steps;
        t->skipped = result.skipped_steps;
        t->test_loss = t->has_test ? result.test_loss : 0;
        memcpy(t->losses, result.losses, (size_t)result.steps * sizeof(double));
        t->there = nodes_there(model->session);
    }
    status = status < 0 ? status : keep(model, t, me->rank == 0);
    gy_error error;
    gy_error_take(&error, status);
    gy_train_result_free(&result);
    gy_model_free(model);
    return gy_error_raise(&error);
}

static gy_status open_device(const trial *t, gy_device **device)
{
    if (!t->has_device) {
        return GY_OK;
    }
    GY_TRY(gy_cuda_executor_open(0, device));
    const gy_device_rates own = (*device)->rates;
    (*device)->rates = t->rates;
    memcpy((*device)->rates.flops_s, own.flops_s, sizeof(own.flops_s));
    (*device)->rates.memory_bytes = own.memory_bytes;
    return GY_OK;
}

static gy_status run_rank(kit_rank *me)
{
    trial *t = me->arg;
    gy_mesh *mesh = NULL;
    gy_device *device = NULL;
    GY_TRY(gy_mesh_new(me->comm, t->axes, &mesh));
    gy_status status = gy_train_tell(me->comm, open_device(t, &device));
    status = status < 0 ? status : train(me, t, mesh, device);
    gy_error error;
    gy_error_take(&error, status);
    if (device != NULL) {
        gy_cuda_executor_close(device);
    }
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

static gy_status play(trial *t)
{
    kit_rank members[KIT_RANKS_MAX];
    int ranks = 0;
    GY_TRY(gy_mesh_places(t->axes, &ranks));
    kit_run_ranks(ranks, run_rank, t, members);
    for (int rank = 0; rank < ranks; rank++) {
        GY_TRY(gy_error_raise(&members[rank].error));
    }
    return GY_OK;
}

/* ---- comparing ---- */

static double tolerance_of(const trial *t)
{
    const gy_train_options *o = &t->options;
    return o->precision != GY_DTYPE_NONE || o->exchange != GY_DTYPE_NONE ? 0.02
           : t->dtype == GY_F64                                          ? 1e-9
                                                                         : 1e-4;
}

static double apart(double a, double b)
{
    return a == b ? 0 : fabs(a - b) / fmax(1, fabs(a));
}

static void expect_near(const trial *a, const trial *b, const char *what)
{
    double losses = 0, values = 0;
    int at = 0;
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->steps; i++) {
        losses = fmax(losses, apart(a->losses[i], b->losses[i]));
    }
    losses = fmax(losses, apart(a->test_loss, b->test_loss));
    for (int i = 0; i < a->count; i++) {
        const double now = apart(a->values[i], b->values[i]);
        at = now > values ? i : at;
        values = fmax(values, now);
    }
    printf("  %s: losses %.6f to %.6f, %.2g apart, parameters %.2g, %d nodes there, %lld "
           "skipped\n",
           what, a->losses[0], a->losses[a->steps - 1], losses, values, b->there,
           (long long)b->skipped);
    if (!(losses <= tolerance_of(a)) || !isfinite(a->losses[a->steps - 1]) ||
        a->skipped != b->skipped) {
        fail_msg("case %llu %s: losses %g apart, skipped %lld and %lld, value %d is %g and %g",
                 (unsigned long long)a->seed, what, losses, (long long)a->skipped,
                 (long long)b->skipped, at, a->values[at], b->values[at]);
    }
}

static void expect_same(const trial *a, const trial *b, const char *what)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        if (memcmp(&a->values[i], &b->values[i], sizeof(double)) != 0) {
            fail_msg("case %llu %s: value %d is %.9g and %.9g", (unsigned long long)a->seed,
                     what, i, a->values[i], b->values[i]);
        }
    }
    assert_memory_equal(a->losses, b->losses, (size_t)a->steps * sizeof(double));
}

static trial alone, both, other;

/* A first part on one side, the rest on the other. */
static void resume(const trial *t, bool begins_there, bool ends_there, int64_t limit)
{
    char folder[] = "/tmp/gyre-random-XXXXXX";
    assert_non_null(mkdtemp(folder));
    other = *t;
    other.options.checkpoint_folder = folder;
    other.options.checkpoint_every = 1;
    other.options.step_limit = limit;
    other.has_device = begins_there;
    assert_ok(play(&other));
    other.options.step_limit = 0;
    other.options.resume = true;
    other.has_device = ends_there;
    assert_ok(play(&other));
    kit_remove_folder(folder);
}

static void check_case(uint64_t seed)
{
    draw(seed, &alone);
    describe(&alone);
    standin->reset(seed);
    const gy_status status = play(&alone);
    if (status != GY_OK) {
        printf("  refused: %s\n", gy_error_text());
        char words[256];
        snprintf(words, sizeof(words), "%s", gy_error_text());
        both = alone;
        both.has_device = true;
        assert_status(play(&both), status);
        standin_expect_clean();
        return;
    }
    both = alone;
    both.has_device = true;
    assert_ok(play(&both));
    standin_expect_clean();
    expect_near(&alone, &both, "device");
    gy_random random = {.key = seed, .next = 1000};
    const int64_t limit = 1 + below(&random, (int)alone.steps - 1);
    switch (below(&random, 4)) {
    case 0:
        resume(&alone, true, true, limit);
        expect_same(&both, &other, "resumed there");
        break;
    case 1:
        resume(&alone, false, true, limit);
        expect_near(&alone, &other, "CPU, then device");
        break;
    case 2:
        resume(&alone, true, false, limit);
        expect_near(&alone, &other, "device, then CPU");
        break;
    default:
        resume(&alone, false, false, limit);
        expect_same(&alone, &other, "resumed");
        break;
    }
    standin_expect_clean();
}

GY_TEST(random_trainings_on_a_device_are_those_of_the_cpu)
{
    const uint64_t seed = gy_test_seed();
    const int count = (int)gy_test_serial_cases(CASES);
    int begin = 0, end = 0;
    gy_test_rows(count, &begin, &end);
    for (int i = begin; i < end; i++) {
        check_case(seed + (uint64_t)i);
    }
}

/* ---- failures ---- */

enum { FAULTS = 24 };

/* Of a symbol that a training calls its n-th call. */
typedef struct fault {
    const char *symbol;
    int n, code;
} fault;

static fault draw_fault(gy_random *random)
{
    static const int codes[] = {GY_CUDA_OUT_OF_MEMORY,   GY_CUDA_LAUNCH_FAILED,
                                GY_CUDA_ILLEGAL_ADDRESS, GY_CUDA_UNKNOWN,
                                GY_CUDA_INVALID_VALUE,   GY_CUDA_NOT_SUPPORTED};
    fault drawn = {.n = 1};
    int symbols = 0;
    while (standin->called(symbols) != NULL) {
        symbols++;
    }
    do {
        drawn.symbol = standin->called(below(random, symbols));
    } while (standin->count(drawn.symbol) == 0);
    const int count = standin->count(drawn.symbol);
    drawn.n += below(random, below(random, 2) ? count : count < 6 ? count : 6);
    drawn.code = strncmp(drawn.symbol, "cu", 2) == 0 && drawn.symbol[2] != 'b'
                     ? codes[below(random, (int)GY_COUNT(codes))]
                     : 1 + below(random, 11); /* of a library */
    return drawn;
}

/* A message names the call, and what it was made for where there is such a thing; or what a
 * loss or a lack of memory made of it on another rank. */
static bool is_named(const fault *f, const char *text)
{
    const bool has_node = strstr(text, "kernel of ") != NULL || strstr(text, "node ") != NULL;
    if (strstr(text, "out of memory") != NULL || strstr(text, "is lost") != NULL) {
        return true;
    }
    return strncmp(f->symbol, "nvrtc", 5) == 0 ? has_node
           : strncmp(f->symbol, "cublasLtM", 9) == 0
               ? has_node && strstr(text, f->symbol) != NULL
               : strstr(text, f->symbol) != NULL;
}

/* All ranks fail with the same cause, or what failed is not needed, and nothing is left. */
static void check_fault(const trial *whole, const fault *f, uint64_t seed)
{
    other = *whole;
    standin->reset(seed);
    standin->fail_call(f->symbol, f->n, f->code);
    const gy_status status = play(&other);
    const bool has_failed = standin->count(f->symbol) >= f->n;
    gy_test_say("  %s call %d gives %d: %s\n", f->symbol, f->n, f->code,
                status < 0   ? gy_error_text()
                : has_failed ? "trained"
                             : "not called");
    if (status < 0) {
        assert_true(has_failed);
        if (!is_named(f, gy_error_text())) {
            fail_msg("%s call %d gives %d, and the message is '%s'", f->symbol, f->n, f->code,
                     gy_error_text());
        }
    } else {
        expect_near(whole, &other, "with a fault");
    }
    standin_expect_clean();
}

static void check_faults(uint64_t seed, int count)
{
    gy_random random = {.key = seed, .next = 2000};
    draw(seed, &both);
    both.has_device = true;
    describe(&both);
    standin->reset(seed);
    if (play(&both) < 0) {
        return;
    }
    fault faults[FAULTS];
    for (int i = 0; i < count; i++) {
        faults[i] = draw_fault(&random);
    }
    for (int i = 0; i < count; i++) {
        check_fault(&both, &faults[i], seed + (uint64_t)i);
    }
}

GY_TEST(a_call_that_fails_ends_a_training_by_name)
{
    standin_needed();
    const uint64_t seed = gy_test_seed();
    const int count = (int)gy_test_serial_cases(CASES / 2);
    int begin = 0, end = 0;
    gy_test_rows(count, &begin, &end);
    for (int i = begin; i < end; i++) {
        check_faults(seed + (uint64_t)i, getenv("GYRE_SOAK") != NULL ? FAULTS : FAULTS / 6);
    }
}

GY_TEST_MAIN(standin_find, NULL)
