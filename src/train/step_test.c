/* Goal: a step on ranks that need not exist adds up, sends what is known by hand, knows what is
 * faster, takes no time itself; beside a real step it is right within a factor, and so is the
 * order of steps that differ by more. */
#include "graph/simulate/simulate.h"
#include "training_kit.h"

#include <gyre/gpt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gy_test.h"

enum { LENGTH = 32, LETTERS = 17, SIDE = 8, ATTEMPTS = 5 };

static gy_status fill_letters(gy_dataset *dataset, const int64_t *indices, int64_t count,
                              gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count * LENGTH; i++) {
        const int64_t at = indices[i / LENGTH] * 7 + i % LENGTH;
        ((int32_t *)x->data)[i] = (int32_t)(at % LETTERS);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)((at + 1) % LETTERS);
        }
    }
    return GY_OK;
}

static const gy_dataset_ops letters_ops = {
    .name = "letters", .fill = fill_letters, .free = kit_free};

static gy_dataset letters(int64_t count)
{
    return (gy_dataset){.ops = &letters_ops,
                        .count = count,
                        .classes = LETTERS,
                        .input_dtype = GY_I32,
                        .input_rank = 1,
                        .input_sizes = {LENGTH},
                        .label_rank = 1,
                        .label_sizes = {LENGTH}};
}

static gy_status make_gpt_of(int width, int64_t length, gy_mesh *mesh, gy_model **model)
{
    static char names[LETTERS][2];
    const char *list[LETTERS];
    for (int i = 0; i < LETTERS; i++) {
        names[i][0] = (char)('a' + i);
        list[i] = names[i];
    }
    return gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = 4, .width = width, .heads = 4),
                      &GY_OPTIONS(gy_model_options, .mesh = mesh, .workers = 1, .seed = 3,
                                  .input_sizes = {length}, .class_names = list,
                                  .class_count = LETTERS),
                      model);
}

static gy_status make_gpt(gy_mesh *mesh, gy_model **model)
{
    return make_gpt_of(64, LENGTH, mesh, model);
}

static gy_status make_wide_gpt(gy_mesh *mesh, gy_model **model)
{
    return make_gpt_of(128, 2 * LENGTH, mesh, model);
}

/* Two layers of 64 x 100 + 100 and 100 x 10 + 10 numbers. */
static gy_status make_mlp(gy_mesh *mesh, gy_model **model)
{
    const gy_layer layers[] = {gy_layer_flatten(), gy_layer_dense(100), gy_layer_relu(),
                               gy_layer_dense(KIT_CLASSES)};
    return gy_model_new(&GY_OPTIONS(gy_model_options, .mesh = mesh, .workers = 1, .seed = 3,
                                    .name = "mlp", .layers = layers, .layer_count = 4,
                                    .input_rank = 3, .input_sizes = {1, SIDE, SIDE}),
                        model);
}

/* 784-512-512-10: two layers with nearly all of the work, and one without. */
static gy_status make_two(gy_mesh *mesh, gy_model **model)
{
    const gy_layer layers[] = {gy_layer_flatten(),  gy_layer_dense(512), gy_layer_relu(),
                               gy_layer_dense(512), gy_layer_relu(),     gy_layer_dense(10)};
    return gy_model_new(&GY_OPTIONS(gy_model_options, .mesh = mesh, .workers = 1, .seed = 3,
                                    .name = "two", .layers = layers, .layer_count = 6,
                                    .input_rank = 3, .input_sizes = {1, 28, 28}),
                        model);
}

typedef gy_status (*maker)(gy_mesh *mesh, gy_model **model);

static gy_virtual_cluster cluster(int hosts, int gpus)
{
    return (gy_virtual_cluster){.hosts = hosts,
                                .ranks_per_host = gpus,
                                .near_bytes_s = 10e9,
                                .far_bytes_s = 1e9,
                                .near_latency_s = 1e-6,
                                .far_latency_s = 5e-6,
                                .flops_s = 50e9,
                                .memory_bytes_s = 10e9};
}

static gy_train_options options(int64_t batch)
{
    return GY_OPTIONS(gy_train_options, .epochs = 1, .batch = batch,
                      .optimizer = GY_OPTIMIZER_ADAM);
}

static gy_status simulate(maker make, const char *axes, const gy_virtual_cluster *c,
                          const gy_train_options *o, gy_virtual_step *step)
{
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    *step = GY_OPTIONS(gy_virtual_step, .ranks = 0);
    GY_TRY(gy_mesh_virtual(c, axes, &mesh));
    gy_status status = make(mesh, &model);
    status = status >= 0 ? gy_train_simulate_step(model, o, c, NULL, step) : status;
    gy_model_free(model);
    gy_mesh_free(mesh);
    return status;
}

static gy_virtual_step step_of(maker make, const char *axes, const gy_virtual_cluster *c,
                               const gy_train_options *o)
{
    gy_virtual_step step;
    assert_ok(simulate(make, axes, c, o, &step));
    const double sum = step.compute_s + step.exposed_s + step.bubble_s;
    if (!(step.time_s > 0 && fabs(sum - step.time_s) <= 1e-9 * step.time_s)) {
        fail_msg("%s: %g + %g + %g is not %g", axes, step.compute_s, step.exposed_s,
                 step.bubble_s, step.time_s);
    }
    assert_true(step.ranks == gy_virtual_cluster_ranks(c));
    assert_true(step.samples == o->batch * GY_MAX(o->accumulate, 1));
    return step;
}

GY_TEST(test_data_by_hand)
{
    const double parameters = 4.0 * (64 * 100 + 100 + 100 * 10 + 10);
    const gy_virtual_cluster one = cluster(1, 1), two = cluster(1, 2), far = cluster(2, 1);
    const gy_train_options o = options(64);
    const gy_virtual_step alone = step_of(make_mlp, "data=1", &one, &o);
    assert_true(alone.sent_bytes == 0 && alone.exposed_s == 0 && alone.bubble_s == 0);
    assert_true((double)alone.parameter_bytes >= 3 * parameters && /* with Adam's two moments */
                (double)alone.parameter_bytes < 3.2 * parameters);
    const gy_virtual_step both = step_of(make_mlp, "data=2", &two, &o);
    /* 2 (p - 1)/p n of gradients, and the loss */
    assert_true(both.sent_bytes >= parameters && both.sent_bytes < parameters + 64);
    assert_true(both.compute_s < alone.compute_s && both.compute_s > 0.4 * alone.compute_s);
    assert_true(both.bubble_s <= 1e-12);
    const gy_virtual_step slow = step_of(make_mlp, "data=2", &far, &o);
    assert_true(slow.time_s > both.time_s && slow.exposed_s > both.exposed_s);
    /* an allreduce of all gradients takes n / 1 GB/s between two hosts; the last cannot hide */
    assert_true(slow.exposed_s < parameters / 1e9 + 20 * 5e-6);
    gy_virtual_cluster fast = one;
    fast.flops_s *= 4;
    fast.memory_bytes_s *= 4;
    const gy_virtual_step quarter = step_of(make_mlp, "data=1", &fast, &o);
    assert_true(fabs(4 * quarter.time_s - alone.time_s) < 1e-6 * alone.time_s);
}

GY_TEST(test_model_and_zero)
{
    const gy_virtual_cluster c = cluster(1, 4);
    gy_train_options o = options(64);
    const gy_virtual_step data = step_of(make_gpt, "data=4", &c, &o);
    const gy_virtual_step model = step_of(make_gpt, "data=2,model=2", &c, &o);
    assert_true(model.compute_s < 1.6 * data.compute_s);
    o.zero = 3;
    const gy_virtual_step parts = step_of(make_gpt, "data=4", &c, &o);
    assert_true((double)parts.parameter_bytes < 0.4 * (double)data.parameter_bytes);
    assert_true(parts.sent_bytes > 1.2 * data.sent_bytes); /* 3 n of 2 n */
    o.zero = 0;
    o.accumulate = 4;
    const gy_virtual_step four = step_of(make_gpt, "data=4", &c, &o);
    assert_true(four.compute_s > 2.5 * data.compute_s && four.compute_s < 4.5 * data.compute_s);
    assert_true(four.sent_bytes < 1.1 * data.sent_bytes); /* one exchange an update */
}

/* One batch in stages leaves all but one waiting; micro-batches fill the pipeline as their
 * schedule says. */
GY_TEST(test_stages)
{
    const gy_virtual_cluster c = cluster(1, 4);
    gy_train_options o = options(256);
    const gy_virtual_step plain = step_of(make_gpt, "pipe=4", &c, &o);
    assert_int_equal(plain.stages, 4);
    assert_true(plain.bubble_s > 0.6 * plain.time_s && plain.bubble_s < 0.85 * plain.time_s);
    o.micro_batches = 8;
    const gy_virtual_step filled = step_of(make_gpt, "pipe=4", &c, &o);
    /* (p - 1)/(m + p - 1) = 3/11 of equal stages; the cut is not quite */
    assert_true(filled.bubble_s > 0.2 * filled.time_s && filled.bubble_s < 0.5 * filled.time_s);
    assert_true(filled.time_s < 0.6 * plain.time_s);
    o.pipe_schedule = "1f1b"; /* is what there is without one */
    const gy_virtual_step named = step_of(make_gpt, "pipe=4", &c, &o);
    assert_memory_equal(&named, &filled, sizeof(named));
    o.pipe_schedule = "gpipe";
    const gy_virtual_step held = step_of(make_gpt, "pipe=4", &c, &o);
    assert_true(held.memory_bytes > filled.memory_bytes); /* 8 alive, not 4 */
    o.pipe_schedule = "zb-h1";
    const gy_virtual_step zero = step_of(make_gpt, "pipe=4", &c, &o);
    assert_true(zero.time_s < filled.time_s);
    assert_true(filled.memory_bytes < plain.memory_bytes);
    o.pipe_schedule = NULL;
    o.accumulate = 3; /* batches follow each other, and one update all */
    const gy_virtual_step three = step_of(make_gpt, "pipe=4", &c, &o);
    assert_true(three.time_s > 2 * filled.time_s && three.time_s < 3 * filled.time_s);
    o.accumulate = 1;
    gy_pipe_schedule *lists = NULL;
    assert_ok(
        gy_pipe_plan(&(gy_pipe_query){.schedule = "gpipe", .ranks = 4, .micros = 8}, &lists));
    o.pipe_lists = lists;
    const gy_virtual_step listed = step_of(make_gpt, "pipe=4", &c, &o);
    assert_memory_equal(&listed, &held, sizeof(held));
    gy_pipe_free(lists);
    o.pipe_lists = NULL;
    o.pipe_schedule = "interleaved"; /* two stages a rank, of four layers not equal ones */
    const gy_virtual_step turns = step_of(make_gpt, "pipe=4", &c, &o);
    assert_int_equal(turns.stages, 8);
    assert_true(turns.compute_s > 0.8 * filled.compute_s && turns.time_s < 1.2 * filled.time_s);
    gy_virtual_step step;
    o.pipe_schedule = "none";
    assert_status(simulate(make_gpt, "pipe=4", &c, &o, &step), GY_ARG);
}

/* Two stages a rank: the two long layers are on two ranks, however many short stages follow. */
GY_TEST(test_stages_share_the_ranks)
{
    gy_virtual_cluster c = cluster(1, 2);
    c.near_bytes_s = 1e12;
    c.near_latency_s = 1e-8;
    gy_train_options o = options(256);
    o.micro_batches = 8;
    o.pipe_schedule = "interleaved";
    const gy_virtual_step step = step_of(make_two, "pipe=2", &c, &o);
    if (!(step.time_s < 1.7 * step.compute_s)) { /* on one rank: twice the mean */
        fail_msg("%g s, of which a rank computes %g", step.time_s, step.compute_s);
    }
}

/* A rank whose memory is slow for its operations does not compute all rows to save an exchange:
 * placement reckons with the bandwidth of the cluster. */
GY_TEST(test_rows_stay_cut_on_fast_ranks)
{
    gy_virtual_cluster c = cluster(512, 8);
    c.near_bytes_s = 450e9;
    c.far_bytes_s = 50e9;
    c.near_latency_s = 2e-6;
    c.flops_s = 400e12;
    c.memory_bytes_s = 0; /* a byte for each 100 operations */
    static const char *const meshes[] = {"data=512,model=8", "data=2048,model=2",
                                         "data=256,pipe=2,model=8"};
    gy_train_options o = options(4096);
    o.optimizer = GY_OPTIMIZER_ADAMW;
    o.clip_norm = 1;
    const gy_virtual_step data = step_of(make_wide_gpt, "data=4096", &c, &o);
    for (size_t i = 0; i < GY_COUNT(meshes); i++) {
        const gy_virtual_step cut = step_of(make_wide_gpt, meshes[i], &c, &o);
        if (!(cut.memory_bytes < 8 * data.memory_bytes && cut.time_s < 2 * data.time_s)) {
            fail_msg("%s: %llu bytes and %g s, by rows alone %llu and %g", meshes[i],
                     (unsigned long long)cut.memory_bytes, cut.time_s,
                     (unsigned long long)data.memory_bytes, data.time_s);
        }
    }
}

/* Made again, layers hold less and compute more; auto does so where they would not fit. */
GY_TEST(test_recompute)
{
    gy_virtual_cluster c = cluster(1, 1);
    gy_train_options o = options(64);
    const gy_virtual_step held = step_of(make_gpt, "data=1", &c, &o);
    o.recompute = GY_RECOMPUTE_LAYERS;
    const gy_virtual_step again = step_of(make_gpt, "data=1", &c, &o);
    assert_true((double)again.memory_bytes < 0.8 * (double)held.memory_bytes);
    assert_true(again.compute_s > 1.1 * held.compute_s);
    assert_true(again.compute_s < 1.4 * held.compute_s);
    o.recompute = GY_RECOMPUTE_AUTO;
    gy_virtual_step step;
    assert_status(simulate(make_gpt, "data=1", &c, &o, &step), GY_ARG);
    c.memory_bytes = held.memory_bytes;
    assert_true(step_of(make_gpt, "data=1", &c, &o).memory_bytes == held.memory_bytes);
    c.memory_bytes--;
    assert_true(step_of(make_gpt, "data=1", &c, &o).memory_bytes == again.memory_bytes);
}

/* Twice the same, and 4,096 ranks as fast as 8. */
GY_TEST(test_many)
{
    gy_virtual_mesh meshes[GY_VIRTUAL_MESHES_MAX];
    const gy_virtual_cluster c = cluster(512, 8);
    const gy_train_options o = options(8192);
    const int count = gy_virtual_meshes(&c, o.batch, meshes);
    assert_int_equal(count, GY_VIRTUAL_MESHES_MAX);
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    const gy_virtual_step first = step_of(make_gpt, "data=512,pipe=4,model=2", &c, &o);
    const gy_virtual_step again = step_of(make_gpt, "data=512,pipe=4,model=2", &c, &o);
    assert_memory_equal(&first, &again, sizeof(first));
    assert_true(gy_now_ns(gy_env_real()) - begun_ns < 60000000000); /* under a sanitizer, too */
}

GY_TEST(test_refused)
{
    const gy_virtual_cluster two = cluster(1, 2), four = cluster(1, 4);
    gy_virtual_cluster unknown = two;
    gy_virtual_step step;
    gy_train_options o = options(1);
    assert_status(simulate(make_mlp, "data=2", &two, &o, &step), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "1 rows for 2 ranks along data"));
    o = options(16);
    o.micro_batches = 9;
    assert_status(simulate(make_mlp, "data=2", &two, &o, &step), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "at least 18"));
    o = options(16);
    unknown.flops_s = 0;
    assert_status(simulate(make_mlp, "data=2", &unknown, &o, &step), GY_STATE);
    assert_status(simulate(make_mlp, "data=2,pipe=1000", &two, &o, &step), GY_ARG);
    const gy_virtual_cluster many = cluster(1, 64);
    assert_true(simulate(make_mlp, "pipe=64", &many, &o, &step) < 0); /* more than nodes */
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    assert_ok(gy_mesh_virtual(&two, "data=2", &mesh));
    assert_ok(make_mlp(mesh, &model));
    assert_status(gy_train_simulate_step(model, &o, &four, NULL, &step), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "of 2 ranks, the cluster has 4"));
    gy_kernel_rates *rates = NULL;
    gy_dataset set = kit_digits(20, SIDE);
    assert_status(gy_train_measure(model, &set, &o, &rates), GY_STATE);
    gy_train_result result = {.steps = 0};
    assert_status(gy_train(model, &set, NULL, &o, &result), GY_STATE);
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
}

enum { STEPS = 24 };
typedef struct stamps {
    int64_t at_ns[STEPS];
    int count;
} stamps;

static gy_status on_step(void *arg, const gy_progress *progress)
{
    stamps *s = arg;
    (void)progress;
    s->at_ns[s->count++] = gy_now_ns(gy_env_real());
    return GY_OK;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Seconds of a real update: the lower quartile, as of kernels. */
static double real_step(maker make, gy_dataset *set, const gy_train_options *o)
{
    stamps s = {.count = 0};
    gy_model *model = NULL;
    gy_train_result result = {.steps = 0};
    gy_train_options some = *o;
    int64_t steps_ns[STEPS];
    some.step_limit = STEPS;
    some.epochs = 100;
    some.on_step = on_step;
    some.arg = &s;
    assert_ok(make(NULL, &model));
    assert_ok(gy_train(model, set, NULL, &some, &result));
    assert_int_equal(s.count, STEPS);
    for (int i = 1; i < STEPS; i++) {
        steps_ns[i - 1] = s.at_ns[i] - s.at_ns[i - 1];
    }
    qsort(steps_ns, STEPS - 1, sizeof(*steps_ns), by_size);
    gy_train_result_free(&result);
    gy_model_free(model);
    return 1e-9 * (double)steps_ns[STEPS / 4];
}

static double measured_step(maker make, gy_dataset *set, const gy_train_options *o)
{
    gy_virtual_cluster one = cluster(1, 1);
    gy_kernel_rates *rates = NULL;
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_virtual_step step = GY_OPTIONS(gy_virtual_step, .ranks = 0);
    one.flops_s = 0;
    assert_ok(make(NULL, &model));
    assert_ok(gy_train_measure(model, set, o, &rates));
    gy_model_free(model);
    model = NULL;
    assert_ok(gy_mesh_virtual(&one, "data=1", &mesh));
    assert_ok(make(mesh, &model));
    assert_ok(gy_train_simulate_step(model, o, &one, rates, &step));
    gy_kernel_rates_free(rates);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return step.time_s;
}

/* Kernels measured here: what other work the machine has may come between, so a factor of 4,
 * and a case is tried again. */
GY_TEST(test_beside_a_real_step)
{
    static const struct {
        maker make;
        bool is_text;
        int64_t batch;
    } cases[] = {{make_mlp, false, 32},
                 {make_mlp, false, 1024},
                 {make_gpt, true, 4},
                 {make_gpt, true, 32}};
    double real[GY_COUNT(cases)], simulated[GY_COUNT(cases)];
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_dataset set =
            cases[i].is_text ? letters(cases[i].batch) : kit_digits(cases[i].batch, SIDE);
        const gy_train_options o = options(cases[i].batch);
        bool is_near = false;
        for (int attempt = 0; attempt < ATTEMPTS && !is_near; attempt++) {
            simulated[i] = measured_step(cases[i].make, &set, &o);
            real[i] = real_step(cases[i].make, &set, &o);
            is_near = simulated[i] < 4 * real[i] && real[i] < 4 * simulated[i];
        }
        if (!is_near) {
            fail_msg("case %zu: %g s simulated, %g s real", i, simulated[i], real[i]);
        }
    }
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        for (size_t k = 0; k < GY_COUNT(cases); k++) {
            if (real[i] > 16 * real[k] && simulated[i] <= simulated[k]) {
                fail_msg("case %zu takes %g s and case %zu %g s, simulated %g and %g", i,
                         real[i], k, real[k], simulated[i], simulated[k]);
            }
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
