/*
 * Goal: parameters, gradients and optimizer state take what the stages of ZeRO say; what a rank
 * is predicted to hold is what ranks hold, with as many instances of values as a schedule of
 * stages has micro-batches alive; a training beyond its limit does not
 * begin, and its message names what fits.
 */
#include "graph/graph.h"
#include "training_kit.h"

#include <gyre/gpt.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { RANKS = 4, TOKENS = 64, CHARACTERS = 65 };

/* ---- a text that means nothing ---- */

static gy_status fill_tokens(gy_dataset *dataset, const int64_t *indices, int64_t count,
                             gy_view *x, gy_view *labels)
{
    const int64_t length = dataset->input_sizes[0];
    for (int64_t i = 0; i < count * length; i++) {
        const int64_t at = indices[i / length] * length + i % length;
        ((int32_t *)x->data)[i] = (int32_t)(at * 7 % CHARACTERS);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)((at + 1) * 7 % CHARACTERS);
        }
    }
    return GY_OK;
}

static const gy_dataset_ops token_ops = {
    .name = "tokens", .fill = fill_tokens, .free = kit_free};

static gy_dataset tokens(int64_t count, int64_t length)
{
    return (gy_dataset){.ops = &token_ops,
                        .count = count,
                        .classes = CHARACTERS,
                        .input_dtype = GY_I32,
                        .input_rank = 1,
                        .input_sizes = {length},
                        .label_rank = 1,
                        .label_sizes = {length}};
}

/* ---- trainings ---- */

typedef struct shape {
    int layers, width;
    int64_t batch, length;
    int zero, accumulate;
    int micros; /* 0: batches are not split */
    const char *schedule;
} shape;

static gy_status make_gpt(const shape *s, gy_comm *comm, gy_mesh *mesh, gy_model **model)
{
    const char *characters[CHARACTERS];
    for (int i = 0; i < CHARACTERS; i++) {
        characters[i] = &"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-+*"[i];
    }
    gy_model_options base = GY_OPTIONS(gy_model_options, .input_sizes = {s->length},
                                       .comm = comm, .mesh = mesh, .workers = 1, .seed = 3);
    base.class_names = characters;
    base.class_count = CHARACTERS;
    return gy_gpt_new(
        &GY_OPTIONS(gy_gpt_options, .layers = s->layers, .width = s->width, .heads = 8), &base,
        model);
}

static gy_train_options adam(const shape *s)
{
    gy_train_options filled;
    assert_ok(gy_train_defaults(&(gy_train_options){.steps = 2,
                                                    .batch = s->batch,
                                                    .zero = s->zero,
                                                    .accumulate = s->accumulate,
                                                    .micro_batches = s->micros,
                                                    .pipe_schedule = s->schedule,
                                                    .optimizer = GY_OPTIMIZER_ADAM},
                                &filled));
    return filled;
}

static double count_parameters(const gy_model *model)
{
    double count = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        if (model->slots[i].kind == GY_SLOT_PARAMETER) {
            count += (double)gy_type_count(
                gy_graph_type(model->graph, (gy_value){model->slots[i].node.index, 0}));
        }
    }
    return count;
}

/* A rank of four that do not exist, along data. */
static gy_footprint predicted(const shape *s, double *parameters)
{
    gy_mesh mesh = {.axes = 1, .sizes = {RANKS}};
    gy_model *model = NULL;
    gy_footprint footprint;
    const gy_train_options options = adam(s);
    assert_ok(make_gpt(s, NULL, &mesh, &model));
    assert_ok(gy_model_build(model, &options));
    assert_ok(gy_train_predict(model, &options, &(gy_train_counts){.train = 0}, &footprint));
    *parameters = count_parameters(model);
    gy_model_free(model);
    return footprint;
}

/*
 * Bytes a parameter of parameters, gradients and Adam's state: what a layer more takes. What is
 * there of one layer at a time, gathered or not yet summed, is told beside it.
 */
GY_TEST(stages_take_what_they_say)
{
    static const double table[] = {16, 8 + 8.0 / RANKS, 4 + 12.0 / RANKS, 16.0 / RANKS};
    for (int zero = 0; zero <= 3; zero++) {
        double n[2], kept[2];
        for (int i = 0; i < 2; i++) {
            const shape s = {6 * (i + 1), 512, TOKENS, TOKENS, zero, 1, 0, NULL};
            const gy_footprint f = predicted(&s, &n[i]);
            kept[i] = (double)(f.parameter_bytes + f.shared_bytes);
        }
        const double more = (kept[1] - kept[0]) / (n[1] - n[0]);
        printf("zero %d: %.3f bytes a parameter, expected %.3f; of 6 layers %.3f with what is "
               "exchanged\n",
               zero, more, table[zero], kept[0] / n[0]);
        assert_true(more <= 1.1 * table[zero]);
        assert_true(kept[0] / n[0] <= 1.1 * table[zero] || zero == 3);
        assert_true(kept[0] <= 1.1 * table[zero] * n[0] + 4 * n[0] / 6); /* and a layer */
    }
}

/* Batches that only accumulate have a program of their own, and it computes in the memory of
 * the update's. */
GY_TEST(programs_compute_in_the_memory_of_one)
{
    uint64_t values[2];
    for (int i = 0; i < 2; i++) {
        const shape s = {4, 256, TOKENS, TOKENS, 0, i == 0 ? 1 : 4, 0, NULL};
        double n = 0;
        const gy_footprint f = predicted(&s, &n);
        values[i] = f.program_bytes + f.shared_bytes;
        printf("%d batches an update: values and what is exchanged take %.1f MiB\n",
               i == 0 ? 1 : 4, (double)values[i] / (1 << 20));
    }
    assert_true((double)values[1] <= 1.1 * (double)values[0]);
}

/* Values of the stage that holds most, of two that do not exist: held, or made again. */
static double values_of_stages(const char *schedule, int micros, bool is_again)
{
    gy_mesh mesh = {.axes = 1, .sizes = {1}, .stages = 2};
    const shape s = {4, 64, 32, TOKENS, 0, 1, micros, schedule};
    gy_model *model = NULL;
    gy_footprint f;
    const gy_train_options options = adam(&s);
    assert_ok(make_gpt(&s, NULL, &mesh, &model));
    assert_ok(gy_model_build(model, &options));
    assert_ok(gy_graph_recompute(model->graph, is_again ? INT_MAX : 0));
    assert_ok(gy_train_predict(model, &options, &(gy_train_counts){.train = 0}, &f));
    gy_model_free(model);
    return (double)(f.program_bytes + f.shared_bytes) / (1 << 20);
}

/* What is made again serves the backward pass of one micro-batch after the other. */
GY_TEST(stages_that_recompute_hold_little_of_each_micro_batch)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    for (size_t i = 0; i < GY_COUNT(schedules); i++) {
        const double held = values_of_stages(schedules[i], 4, false);
        const double again = values_of_stages(schedules[i], 4, true);
        printf("%s: values take %.1f MiB held, %.1f made again\n", schedules[i], held, again);
        /* By zb-h1 it is held from I to W, which others come between. */
        assert_true(again < (strcmp(schedules[i], "zb-h1") == 0 ? 1 : 0.7) * held);
    }
}

/* Of chunks of layers as few are made again as fit all micro-batches that are alive. */
GY_TEST(auto_counts_every_micro_batch_that_is_alive)
{
    gy_mesh mesh = {.axes = 1, .sizes = {1}, .stages = 2};
    const shape s = {4, 64, 32, TOKENS, 0, 1, 4, "gpipe"};
    gy_model *model = NULL;
    gy_footprint held, again, fit;
    gy_train_options options = adam(&s);
    const gy_train_counts counts = {.train = 0};
    assert_ok(make_gpt(&s, NULL, &mesh, &model));
    assert_ok(gy_model_build(model, &options));
    assert_ok(gy_train_predict(model, &options, &counts, &held));
    assert_ok(gy_graph_recompute(model->graph, INT_MAX));
    assert_ok(gy_train_predict(model, &options, &counts, &again));
    options.recompute = GY_RECOMPUTE_AUTO;
    options.memory_bytes = (gy_footprint_bytes(&held) + gy_footprint_bytes(&again)) / 2;
    assert_ok(gy_train_fit_chunks(model, &options, &counts));
    assert_ok(gy_train_predict(model, &options, &counts, &fit));
    printf("%d of %d chunks made again\n", fit.recomputed, again.recomputed);
    assert_true(gy_footprint_bytes(&fit) <= options.memory_bytes);
    assert_true(fit.recomputed > 0 && fit.recomputed < again.recomputed);
    gy_model_free(model);
}

/* ---- what is held ---- */

/* Kilobytes of a line of /proc/self/status. */
static double status_kb(const char *name)
{
    char line[256];
    double found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            found = strtod(line + strlen(name) + 1, NULL);
        }
    }
    assert_int_equal(fclose(file), 0);
    return found;
}

static double held_bytes(void)
{
    return 1024 * (status_kb("RssAnon") + status_kb("RssShmem"));
}

typedef struct trial {
    shape s;
    const char *axes; /* of the mesh; NULL: data */
    double limit;     /* bytes a parameter; 0: none */
    double before, after, parameters;
    uint64_t predicted;
    uint64_t predicted_all; /* of all stages, where there are */
    int stages;
    double loss;
    gy_status status;
    char text[GY_ERROR_TEXT_BYTES];
} trial;

static gy_status look(void *arg, const gy_progress *progress)
{
    trial *t = arg;
    if (progress->step == 2 && t != NULL) {
        t->after = held_bytes();
    }
    return GY_OK;
}

static gy_status train_gpt(kit_rank *me)
{
    trial *t = me->arg;
    gy_dataset data = tokens(2 * t->s.batch * GY_MAX(t->s.accumulate, 1), t->s.length);
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    GY_TRY(t->axes != NULL ? gy_mesh_new(me->comm, t->axes, &mesh) : GY_OK);
    if (mesh != NULL) { /* exchanges begin late: the fewer the faster */
        mesh->links[0] = (gy_links){.alpha = 1e-3, .beta = 1e-10, .gamma = 1e-10};
    }
    GY_TRY(make_gpt(&t->s, mesh == NULL ? me->comm : NULL, mesh, &model));
    const double parameters = count_parameters(model);
    gy_train_options options = adam(&t->s);
    options.memory_bytes = (uint64_t)(t->limit * parameters);
    options.on_step = look;
    options.arg = me->rank == 0 ? t : NULL;
    gy_train_result result;
    gy_status status = gy_train(model, &data, NULL, &options, &result);
    if (status == GY_OK) {
        assert_true(isfinite(result.loss));
        if (me->rank == 0) {
            t->loss = result.loss;
        }
        gy_train_result_free(&result);
    }
    if (me->rank == 0) {
        gy_footprint f;
        t->parameters = parameters;
        t->status = status;
        snprintf(t->text, sizeof(t->text), "%s", status < 0 ? gy_error_text() : "");
        const gy_train_counts counts = {data.count, 0};
        if (status == GY_OK && gy_train_predict(model, &options, &counts, &f) == GY_OK) {
            t->predicted = gy_footprint_bytes(&f);
        }
        gy_mesh other = mesh != NULL ? *mesh : (gy_mesh){.stages = 0};
        for (; status == GY_OK && other.stages > 1 && t->stages < other.stages; t->stages++) {
            other.chunks = model->chunks;
            other.stage = t->stages;
            GY_TRY(gy_train_predict_on(model, &options, &counts, &other, &f));
            t->predicted_all += gy_footprint_bytes(&f);
        }
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

static trial trained_on(const char *axes, const shape *s, double limit)
{
    kit_rank members[KIT_RANKS_MAX];
    trial t = {.s = *s, .axes = axes, .limit = limit, .before = held_bytes()};
    kit_run_ranks(RANKS, train_gpt, &t, members);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(members[rank].error.status, GY_OK);
    }
    return t;
}

static trial trained(const shape *s, double limit)
{
    return trained_on(NULL, s, limit);
}

/* In a process of its own, which has trained a small model before: what the process, the links
 * and the kernels take is there already, and no memory of earlier tests. */
static trial trained_apart(const char *axes, const shape *s, double limit)
{
    trial *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(t, MAP_FAILED);
    int ended = 0;
    const pid_t child = fork();
    if (child == 0) {
        shape small = *s;
        small.width = 64;
        if (s->micros > 0) { /* what is freed again would be held by nobody then */
            small.batch = s->micros;
        }
        (void)trained_on(axes, &small, 0);
        *t = trained_on(axes, s, limit);
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    const trial got = *t;
    assert_int_equal(munmap(t, sizeof(*t)), 0);
    return got;
}

/* Less may be held than predicted: exchanges whose ranks do not meet at one time, as on a
 * machine that is busy elsewhere, have some of their buffers touched by none. More may not. */
static bool is_near(double held, double predicted, double above)
{
    return held <= (1 + above) * predicted && held >= 0.75 * predicted;
}

GY_TEST(ranks_hold_what_is_predicted)
{
    if (gy_test_cases(8) < 8) {
        printf("skipped: a sanitizer's own memory is more than what is measured\n");
        return;
    }
    for (int zero = 0; zero <= 3; zero++) {
        /* What a program is itself, some 2 MB a rank here, comes on top: a tenth of little. */
        const shape s = {4, zero < 2 ? 256 : 384, 32, 16, zero, zero == 2 ? 2 : 1, 0, NULL};
        const trial t = trained_apart(NULL, &s, 0);
        assert_int_equal(t.status, GY_OK);
        const double held = (t.after - t.before) / RANKS;
        printf("zero %d: %.2f bytes a parameter held, %.2f predicted\n", zero,
               held / t.parameters, (double)t.predicted / t.parameters);
        assert_true(is_near(held, (double)t.predicted, 0.1));
    }
}

/* Of four stages rank i holds what its list has alive: min(m, 4 - i) micro-batches by 1f1b, all
 * by gpipe. */
GY_TEST(stages_hold_the_micro_batches_of_their_lists)
{
    static const struct {
        const char *schedule;
        int micros;
    } lists[] = {{"1f1b", 6}, {"gpipe", 6}};
    double predicted[2];
    if (gy_test_cases(8) < 8) {
        printf("skipped: a sanitizer's own memory is more than what is measured\n");
        return;
    }
    for (size_t i = 0; i < GY_COUNT(lists); i++) {
        const shape s = {4, 128, 36, 48, 0, 1, lists[i].micros, lists[i].schedule};
        const trial t = trained_apart("pipe=4", &s, 0);
        if (t.status < 0) {
            fail_msg("%s", t.text);
        }
        /* Rings of 1 MiB each way between neighbours fill, which are the transport's. */
        const double held = t.after - t.before - 6 * (1 << 20);
        predicted[i] = (double)t.predicted_all;
        printf("%s, %d micro-batches: %.1f MiB held by four stages, %.1f predicted\n",
               lists[i].schedule, lists[i].micros, held / (1 << 20), predicted[i] / (1 << 20));
        /* What kernels are compiled to for these sizes, and threads keep, comes on top. */
        assert_true(is_near(held, predicted[i], 0.4));
    }
    assert_true(predicted[1] > 1.4 * predicted[0]);
}

/* Adam's whole state is 8 bytes a parameter. */
GY_TEST(a_model_trains_in_less_than_its_state)
{
    const bool is_measured = gy_test_cases(8) >= 8; /* not where a sanitizer has memory, too */
    const shape s = {4, is_measured ? 512 : 128, 8, 16, 3, 1, 0, NULL};
    const trial t = is_measured ? trained_apart(NULL, &s, 8) : trained(&s, 8);
    if (t.status < 0) {
        fail_msg("%s", t.text);
    }
    const double held = (t.after - t.before) / RANKS;
    printf("%.2f bytes a parameter predicted, %.2f held\n", (double)t.predicted / t.parameters,
           held / t.parameters);
    assert_true((double)t.predicted <= 8 * t.parameters);
    assert_true(!is_measured || held <= 8 * t.parameters);
}

GY_TEST(a_training_beyond_its_limit_does_not_begin)
{
    double n = 0, fits[4];
    for (int zero = 0; zero <= 3; zero++) {
        const shape s = {4, 256, 8, 16, zero, 2, 0, NULL};
        const gy_footprint f = predicted(&s, &n);
        fits[zero] = (double)gy_footprint_bytes(&f) / n + 0.01;
        assert_true(zero == 0 || fits[zero] < fits[zero - 1]);
    }
    const struct {
        int zero;
        double limit; /* bytes a parameter */
        const char *text;
    } cases[] = {
        {0, fits[1], "; zero 1 takes "},
        {0, fits[3], "; zero 3 takes "},
        {1, fits[2], "; zero 2 takes "},
        {3, fits[3] - 0.1, "; recomputing layers takes "},
        {3, fits[3] - 1.2, "; zero 3 on 8 ranks, data=8 takes "},
        {0, 0.01, "; the least is "},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const shape s = {4, 256, 8, 16, cases[i].zero, 2, 0, NULL};
        const trial t = trained(&s, cases[i].limit);
        printf("%s\n", t.text);
        assert_status(t.status, GY_LIMIT);
        assert_non_null(strstr(t.text, "training: a rank will hold "));
        assert_non_null(strstr(t.text, cases[i].text));
    }
}

/* Along an axis that may do anything the fastest placement is not the smallest: with a limit
 * between both, one that fits is found, and it learns the same. */
GY_TEST(what_fits_is_found_where_there_is_a_choice)
{
    const shape s = {2, 64, 8, 16, 0, 1, 0, NULL};
    const trial fast = trained_on("auto=4", &s, 0);
    assert_int_equal(fast.status, GY_OK);
    const double most = (double)fast.predicted / fast.parameters;
    const trial small = trained_on("auto=4", &s, 0.6 * most);
    if (small.status < 0) {
        fail_msg("%s", small.text);
    }
    printf("%.2f bytes a parameter at the fastest placement, %.2f under a limit of %.2f\n",
           most, (double)small.predicted / small.parameters, 0.6 * most);
    assert_true((double)small.predicted <= 0.6 * most * small.parameters);
    assert_true(fabs(small.loss - fast.loss) < 1e-4 * fast.loss);
    const trial none = trained_on("auto=4", &s, 0.1);
    assert_status(none.status, GY_LIMIT);
    assert_non_null(strstr(none.text, "training: a rank will hold "));
}

GY_TEST_MAIN(NULL, NULL)
