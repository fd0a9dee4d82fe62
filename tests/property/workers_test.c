/*
 * Goal: workers of parameter servers train as ranks with an allreduce do: BSP has the bits of
 * one worker that pushes all parts in order, and with two workers those of two ranks; the other
 * rules learn as well; who leaves is not waited for; and the loop as lecture D prints it, with
 * the pull before the push, computes with parameters that lack the last update.
 */
#include "training_kit.h"

#include <gyre/ps.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gy_test.h"

enum { SERVERS_MAX = 3, WORKERS_MAX = 4, STEPS_MAX = 64 };

/* ---- Servers ---- */

typedef struct scene {
    gy_ps_server *servers[SERVERS_MAX];
    gy_thread threads[SERVERS_MAX];
    int count;
    char list[SERVERS_MAX * 64];
} scene;

static void *serve(void *arg)
{
    GY_ASSERT(gy_ps_server_run(arg, -1) == GY_OK);
    return NULL;
}

static void open_servers(scene *at, int count)
{
    memset(at, 0, sizeof(*at));
    at->count = count;
    for (int i = 0; i < count; i++) {
        assert_ok(
            gy_ps_server_open(&(gy_ps_server_options){.is_plaintext = true}, &at->servers[i]));
        const size_t used = strlen(at->list);
        snprintf(at->list + used, sizeof(at->list) - used, "%s%s", i > 0 ? "," : "",
                 gy_ps_server_address(at->servers[i]));
        assert_ok(gy_thread_start(&at->threads[i], "test-server", serve, at->servers[i]));
    }
}

static void close_servers(scene *at)
{
    for (int i = 0; i < at->count; i++) {
        gy_ps_server_stop(at->servers[i]);
        gy_thread_join(&at->threads[i]);
        gy_ps_server_close(at->servers[i]);
    }
}

/* ---- Trainings ---- */

typedef struct trial {
    const char *model;
    gy_dataset *train, *test;
    gy_train_options options;
    gy_ps_sync sync;
    gy_codec codec;
    int fetch;
    int64_t leaves_after[WORKERS_MAX]; /* steps after which a worker fails; 0: never */
    gy_status fails;                   /* worker 0; then the others' ends are not looked at */
} trial;

/* What a training has made. */
typedef struct outcome {
    uint64_t parameters; /* a hash of their bits */
    double weights;      /* the sum of their squares */
    int64_t steps;
    double test_loss, test_accuracy;
    double losses[STEPS_MAX]; /* of the worker, as far as there is room */
    int64_t resumed_step;
    bool is_stopped_early;
} outcome;

static gy_model *new_model(const trial *t)
{
    gy_model_options options = {.input_rank = t->train->input_rank, .seed = 11, .workers = 1};
    gy_model *model = NULL;
    memcpy(options.input_sizes, t->train->input_sizes, sizeof(options.input_sizes));
    if (gy_model_named(t->model, &options, KIT_CLASSES, &model) < 0) {
        gy_panic("no model: %s", gy_error_text());
    }
    return model;
}

static void look(gy_model *model, outcome *out)
{
    out->parameters = 0;
    out->weights = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = gy_session_parameter(model->session, model->slots[i].name);
        GY_ASSERT(value != NULL);
        if (model->slots[i].kind == GY_SLOT_STATE) {
            continue;
        }
        const gy_view view = gy_tensor_pin(value);
        const int64_t count = gy_view_count(&view);
        out->parameters =
            gy_hash(view.data, (size_t)count * gy_dtype_bytes(view.dtype), out->parameters);
        gy_tensor_unpin(value);
        for (int64_t j = 0; j < count; j++) {
            out->weights += gy_tensor_get(value, j) * gy_tensor_get(value, j);
        }
    }
}

/* ---- By workers ---- */

typedef struct member {
    const trial *t;
    const scene *at;
    uint32_t worker, workers;
    gy_thread thread;
    outcome out;
    gy_error error;
} member;

static gy_status leave(void *arg, const gy_progress *progress)
{
    const member *me = arg;
    const int64_t after = me->t->leaves_after[me->worker];
    return after > 0 && progress->step == after ? GY_CANCELLED : GY_OK;
}

static gy_status work(member *me)
{
    const trial *t = me->t;
    const gy_train_servers servers =
        GY_OPTIONS(gy_train_servers, .servers = me->at->list, .is_plaintext = true,
                   .worker = me->worker, .workers = me->workers, .sync = t->sync,
                   .fetch = t->fetch, .codec = t->codec, .timeout_s = 60);
    gy_train_options options = t->options;
    gy_train_result result;
    gy_model *model = new_model(t);
    options.servers = &servers;
    options.on_step = leave;
    options.arg = me;
    gy_status status = gy_train(model, t->train, t->test, &options, &result);
    if (status == GY_OK) {
        me->out.steps = result.steps;
        me->out.test_loss = result.test_loss;
        me->out.test_accuracy = result.test_accuracy;
        me->out.resumed_step = result.resumed_step;
        me->out.is_stopped_early = result.is_stopped_early;
        for (int64_t i = 0; i < GY_MIN(result.steps, STEPS_MAX); i++) {
            me->out.losses[i] = result.losses[i];
        }
        gy_train_result_free(&result);
        look(model, &me->out);
    }
    gy_model_free(model);
    return status;
}

static void *work_main(void *arg)
{
    member *me = arg;
    gy_error_take(&me->error, work(me));
    return NULL;
}

/* Worker 0 has what it came to; workers that the trial does not make leave have to end well. */
static void work_all(const trial *t, const scene *at, uint32_t workers, member *all)
{
    memset(all, 0, WORKERS_MAX * sizeof(*all));
    for (uint32_t i = 0; i < workers; i++) {
        all[i] = (member){.t = t, .at = at, .worker = i, .workers = workers};
        assert_ok(gy_thread_start(&all[i].thread, "test-worker", work_main, &all[i]));
    }
    for (uint32_t i = 0; i < workers; i++) {
        gy_thread_join(&all[i].thread);
    }
    for (uint32_t i = 0; i < workers && t->fails == GY_OK; i++) {
        const bool is_gone = t->leaves_after[i] > 0;
        if (all[i].error.status != (is_gone ? GY_CANCELLED : GY_OK)) {
            fail_msg("worker %u of %u: %s", i, workers, all[i].error.text);
        }
        if (!is_gone) {
            assert_true(all[i].out.parameters == all[0].out.parameters);
        }
    }
}

static outcome by_workers(const trial *t, uint32_t workers, int servers)
{
    scene at;
    member all[WORKERS_MAX];
    open_servers(&at, servers);
    work_all(t, &at, workers, all);
    close_servers(&at);
    return all[0].out;
}

/* ---- By ranks, and by one worker that pushes all parts in order ---- */

static gy_status train_rank(kit_rank *me)
{
    const trial *t = me->arg;
    gy_model_options options = {
        .input_rank = t->train->input_rank, .seed = 11, .workers = 1, .comm = me->comm};
    gy_train_result result;
    gy_model *model = NULL;
    outcome out = {.steps = 0};
    memcpy(options.input_sizes, t->train->input_sizes, sizeof(options.input_sizes));
    GY_TRY(gy_model_named(t->model, &options, KIT_CLASSES, &model));
    gy_status status = gy_train(model, t->train, NULL, &t->options, &result);
    if (status == GY_OK) {
        out.steps = result.steps;
        gy_train_result_free(&result);
        look(model, &out);
        /* all ranks have the same bits: that is another test's matter */
        gy_error_take(&me->error, GY_OK);
    }
    gy_model_free(model);
    if (status == GY_OK && me->rank == 0) {
        *(outcome *)(uintptr_t)t->options.arg = out;
    }
    return status;
}

static outcome by_ranks(const trial *t, int ranks)
{
    kit_rank members[KIT_RANKS_MAX];
    outcome out = {.steps = 0};
    trial own = *t;
    own.options.arg = &out; /* written by rank 0 alone, read when all have ended */
    kit_run_ranks(ranks, train_rank, &own, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status < 0) {
            fail_msg("rank %d: %s", rank, members[rank].error.text);
        }
    }
    return out;
}

/* One batch's gradients of rows [first, last) of `order`, as the model's update of workers
 * fetches them, pushed in the order of the tables. */
static void push_part(gy_model *model, const trial *t, gy_ps_table **tables,
                      const int64_t *order, int64_t rows, double share)
{
    const gy_update *u = &model->update;
    gy_tensor *results[32] = {NULL}, *x = NULL, *labels = NULL, *weight = NULL;
    gy_batch batch;
    assert_ok(gy_batch_new(model, rows, &batch));
    assert_ok(gy_batch_fill(&batch, t->train, order, rows, &x, &labels));
    assert_ok(gy_tensor_zeros(NULL, model->dtype, NULL, 0, &weight));
    gy_tensor_set(weight, 0, share);
    const gy_feed feeds[] = {{model->x, x}, {model->labels, labels}, {u->share, weight}};
    assert_true(u->fetch_count <= 32);
    assert_ok(
        gy_session_run(model->session, feeds, 3, rows, u->fetches, u->fetch_count, results));
    for (int i = 1; i < u->fetch_count; i++) {
        const gy_view view = gy_tensor_pin(results[i]);
        assert_ok(gy_ps_push(tables[i - 1], NULL, (size_t)view.sizes[0], view.data, NULL));
        gy_tensor_unpin(results[i]);
    }
    for (int i = 0; i < u->fetch_count; i++) {
        gy_tensor_drop(results[i]);
    }
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    gy_tensor_drop(weight);
    gy_batch_free(&batch);
}

static gy_ps_update update_of(gy_optimizer_kind kind)
{
    static const gy_ps_update updates[] = {GY_PS_SGD, GY_PS_MOMENTUM, GY_PS_NESTEROV,
                                           GY_PS_ADAM, GY_PS_ADAMW};
    return updates[kind];
}

static size_t open_tables(gy_ps *ps, gy_model *model, const gy_train_options *o,
                          gy_ps_table **tables)
{
    size_t count = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = gy_session_parameter(model->session, model->slots[i].name);
        const int64_t rows = gy_tensor_size(value, 0);
        const gy_ps_table_options options =
            GY_OPTIONS(gy_ps_table_options, .rows = (uint64_t)rows,
                       .width = (uint32_t)(gy_tensor_count(value) / rows),
                       .update = update_of(o->optimizer), .rate = o->rate);
        assert_ok(gy_ps_table_open(ps, model->slots[i].name, &options, &tables[count]));
        const gy_view view = gy_tensor_pin(value);
        assert_ok(gy_ps_put(tables[count++], NULL, (size_t)rows, view.data, NULL));
        gy_tensor_unpin(value);
    }
    return count;
}

static void pull_all(gy_model *model, gy_ps_table **tables)
{
    size_t count = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = gy_session_parameter(model->session, model->slots[i].name);
        const gy_view view = gy_tensor_pin(value);
        assert_ok(gy_ps_pull(tables[count++], NULL, (size_t)view.sizes[0], view.data, NULL));
        gy_tensor_unpin(value);
    }
}

/* The loop by hand: one worker, which pushes what `parts` workers would, at a constant rate. */
static outcome by_hand(const trial *t, int parts)
{
    scene at;
    gy_ps *ps = NULL;
    gy_ps_table *tables[32];
    outcome out = {.steps = 0};
    const gy_train_servers servers = {.fetch = 1};
    gy_train_options options;
    int64_t *order = gy_alloc_zero("test", (size_t)t->train->count, sizeof(*order));
    assert_non_null(order);
    open_servers(&at, 1);
    gy_model *model = new_model(t);
    assert_ok(gy_train_defaults(&t->options, &options));
    options.servers = &servers;
    assert_ok(gy_model_build(model, &options));
    assert_ok(gy_ps_open(&(gy_ps_options){.servers = at.list, .is_plaintext = true}, &ps));
    const size_t count = open_tables(ps, model, &options, tables);
    for (int epoch = 0; epoch < options.epochs; epoch++) {
        gy_train_order_fill(options.seed, epoch, order, t->train->count);
        for (int64_t b = 0; b < t->train->count; b += options.batch, out.steps++) {
            const int64_t rows = GY_MIN(options.batch, t->train->count - b);
            for (int p = 0; p < parts; p++) {
                const int64_t first = gy_part_begin(rows, p, parts);
                const int64_t last = gy_part_begin(rows, p + 1, parts);
                push_part(model, t, tables, order + b + first, last - first,
                          (double)(last - first) / (double)rows);
            }
            for (size_t i = 0; i < count; i++) {
                assert_ok(gy_ps_clock(tables[i]));
            }
            pull_all(model, tables);
        }
    }
    gy_free(order);
    gy_ps_close(ps);
    close_servers(&at);
    look(model, &out);
    gy_model_free(model);
    return out;
}

/* ---- BSP ---- */

static void compare_bits(const char *model, gy_optimizer_kind optimizer)
{
    gy_dataset train = kit_digits(96, 8);
    const trial t = {.model = model,
                     .train = &train,
                     .fetch = 1,
                     .options = {.epochs = 1,
                                 .batch = 32,
                                 .optimizer = optimizer,
                                 .rate = optimizer >= GY_OPTIMIZER_ADAM ? 1e-3 : 1e-2,
                                 .seed = 2}};
    for (uint32_t workers = 1; workers <= WORKERS_MAX; workers *= 2) {
        const outcome several = by_workers(&t, workers, workers == 2 ? 2 : 1);
        const outcome hand = by_hand(&t, (int)workers);
        assert_int_equal(several.steps, hand.steps);
        if (several.parameters != hand.parameters) {
            fail_msg("%s, optimizer %d, %u workers: squares sum to %.17g, by hand %.17g", model,
                     (int)optimizer, workers, several.weights, hand.weights);
        }
        if (workers <= 2) {
            const outcome ranks = by_ranks(&t, (int)workers);
            if (several.parameters != ranks.parameters) {
                fail_msg("%s, optimizer %d, %u workers: squares sum to %.17g, by ranks %.17g",
                         model, (int)optimizer, workers, several.weights, ranks.weights);
            }
        }
    }
}

GY_TEST(bsp_has_the_bits_of_one_worker_and_of_an_allreduce)
{
    static const gy_optimizer_kind optimizers[] = {GY_OPTIMIZER_SGD, GY_OPTIMIZER_MOMENTUM,
                                                   GY_OPTIMIZER_ADAM};
    const size_t step = gy_test_cases(8) == 1 ? 2 : 1; /* under a sanitizer the ends alone */
    for (size_t i = 0; i < GY_COUNT(optimizers); i += step) {
        compare_bits("softmax", optimizers[i]);
        compare_bits("mlp", optimizers[i]);
    }
}

/* A schedule's rate comes with each push: a cosine ends elsewhere than a constant rate, and
 * where ranks end. */
GY_TEST(the_rate_of_a_clock_comes_with_it)
{
    gy_dataset train = kit_digits(64, 6);
    trial t = {.model = "softmax",
               .train = &train,
               .fetch = 1,
               .options = {.epochs = 2,
                           .batch = 16,
                           .rate = 0.1,
                           .warmup_steps = 2,
                           .schedule = GY_SCHEDULE_COSINE}};
    const outcome curve = by_workers(&t, 2, 1), ranks = by_ranks(&t, 2);
    assert_true(curve.parameters == ranks.parameters);
    t.options.schedule = GY_SCHEDULE_CONSTANT;
    const outcome flat = by_workers(&t, 2, 1);
    assert_true(curve.parameters != flat.parameters);
}

/* ---- Other rules ---- */

/* Rows that no number of workers divides, batches of fewer rows than workers, several batches
 * between exchanges: all learn the digits that ranks learn. */
GY_TEST(every_rule_learns)
{
    gy_dataset train = kit_digits(202, 6), test = kit_digits(50, 6);
    trial t = {.model = "softmax",
               .train = &train,
               .test = &test,
               .options = {.epochs = 10,
                           .batch = 25,
                           .optimizer = GY_OPTIMIZER_ADAM,
                           .rate = 0.05,
                           .seed = 3}};
    const gy_ps_sync rules[] = {gy_ps_bsp(), gy_ps_asp(), gy_ps_ssp(2), gy_ps_backup(1),
                                gy_ps_weighted()};
    for (size_t i = 0; i < GY_COUNT(rules); i++) {
        for (t.fetch = 1; t.fetch <= 3; t.fetch += 2) {
            char rule[32];
            t.sync = rules[i];
            gy_ps_sync_print(t.sync, rule, sizeof(rule));
            const outcome out = by_workers(&t, 3, 2);
            printf("%s, fetch=%d: test loss %.3f, accuracy %.2f\n", rule, t.fetch,
                   out.test_loss, out.test_accuracy);
            assert_int_equal(out.steps, 90);
            assert_true(out.test_accuracy >
                        0.8); /* of ten classes; who is late is a matter of chance */
        }
    }
}

/* With one worker that sums two gradients and updates its own parameters in between, SGD goes
 * the way of plain SGD: what is pushed is what it did itself. */
GY_TEST(own_updates_are_those_of_the_servers)
{
    gy_dataset train = kit_digits(80, 6);
    trial t = {.model = "softmax",
               .train = &train,
               .fetch = 2,
               .options = {.epochs = 2, .batch = 16, .rate = 0.05}};
    const outcome own = by_workers(&t, 1, 1), plain = by_ranks(&t, 1);
    printf("squares sum to %.9g, of plain SGD to %.9g\n", own.weights, plain.weights);
    assert_true(fabs(own.weights - plain.weights) < 1e-5 * plain.weights);
}

/* A worker that fails leaves its tables: the others go on, and end with one model. */
GY_TEST(who_leaves_is_not_waited_for)
{
    gy_dataset train = kit_digits(96, 6);
    const trial t = {.model = "softmax",
                     .train = &train,
                     .fetch = 1,
                     .options = {.epochs = 4, .batch = 24, .rate = 0.1},
                     .leaves_after = {0, 3}};
    const outcome out = by_workers(&t, 3, 2);
    assert_int_equal(out.steps, 16);
}

/* ---- Checkpoints, and early stops ---- */

static void remove_folder(const char *folder)
{
    char line[128], said[256];
    snprintf(line, sizeof(line), "rm -r %s", folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

/* Stopped after some steps and resumed at servers that know nothing of it, a training under BSP
 * goes the way of one that was not stopped: parameters and the losses of all workers. */
static void compare_resumed(trial t, int64_t stop_at)
{
    enum { WORKERS = 2 };
    char folders[2][64] = {"/tmp/gyre-workers-XXXXXX", "/tmp/gyre-workers-XXXXXX"};
    scene at;
    member whole[WORKERS_MAX], resumed[WORKERS_MAX];
    for (int i = 0; i < 2; i++) {
        assert_non_null(mkdtemp(folders[i]));
    }
    t.options.checkpoint_folder = folders[0];
    open_servers(&at, 2);
    work_all(&t, &at, WORKERS, whole);
    close_servers(&at);
    t.options.checkpoint_folder = folders[1];
    t.options.step_limit = stop_at;
    (void)by_workers(&t, WORKERS, 2);
    t.options.step_limit = 0;
    t.options.resume = true;
    open_servers(&at, t.codec.kind == GY_CODEC_NONE ? 1 : 2); /* which encode by themselves */
    work_all(&t, &at, WORKERS, resumed);
    close_servers(&at);
    for (int w = 0; w < WORKERS; w++) {
        assert_int_equal(resumed[w].out.resumed_step, stop_at);
        assert_int_equal(resumed[w].out.steps, whole[w].out.steps);
        for (int64_t i = stop_at; i < whole[w].out.steps; i++) {
            if (resumed[w].out.losses[i] != whole[w].out.losses[i]) {
                fail_msg("worker %d, step %lld: loss %.17g, without a stop %.17g", w,
                         (long long)i, resumed[w].out.losses[i], whole[w].out.losses[i]);
            }
        }
        assert_true(resumed[w].out.parameters == whole[w].out.parameters);
    }
    for (int i = 0; i < 2; i++) {
        remove_folder(folders[i]);
    }
}

GY_TEST(a_resumed_training_has_the_bits_of_a_whole_one)
{
    gy_dataset train = kit_digits(96, 6), test = kit_digits(20, 6);
    const struct {
        gy_optimizer_kind optimizer;
        gy_codec codec;
        int fetch;
        int64_t every,
            stop_at; /* checkpoints; in the middle of an epoch of 8, and of a fetch */
    } cases[] = {
        {GY_OPTIMIZER_SGD, {GY_CODEC_NONE, 0}, 1, 5, 5},
        {GY_OPTIMIZER_MOMENTUM, {GY_CODEC_NONE, 0}, 1, 0, 8},
        {GY_OPTIMIZER_ADAM, {GY_CODEC_TOPK, 0.05}, 1, 3, 10},
        {GY_OPTIMIZER_ADAMW, {GY_CODEC_INT8, 0}, 3, 5, 10},
        {GY_OPTIMIZER_NESTEROV, {GY_CODEC_NONE, 0}, 2, 3, 9},
    };
    const size_t step = gy_test_cases(8) == 1 ? 2 : 1; /* fewer under a sanitizer */
    for (size_t i = 0; i < GY_COUNT(cases); i += step) {
        trial t = {.model = "softmax",
                   .train = &train,
                   .test = &test,
                   .codec = cases[i].codec,
                   .fetch = cases[i].fetch,
                   .options = {.epochs = 2, .batch = 12, .rate = 0.02, .seed = 5}};
        t.options.optimizer = cases[i].optimizer;
        t.options.checkpoint_every = cases[i].every;
        t.options.weight_decay = 0.01;
        compare_resumed(t, cases[i].stop_at);
    }
}

/* A checkpoint is not put over what servers have; and one of other settings is another run. */
GY_TEST(a_checkpoint_is_resumed_at_new_servers_alone)
{
    char folder[] = "/tmp/gyre-workers-XXXXXX";
    gy_dataset train = kit_digits(40, 6);
    trial t = {.model = "softmax",
               .train = &train,
               .fetch = 1,
               .options = {.epochs = 2, .batch = 10, .rate = 0.1, .step_limit = 4}};
    scene at;
    member all[WORKERS_MAX];
    assert_non_null(mkdtemp(folder));
    t.options.checkpoint_folder = folder;
    open_servers(&at, 1);
    work_all(&t, &at, 1, all);
    t.options.step_limit = 0;
    t.fails = GY_EXISTS;
    work_all(&t, &at, 1, all); /* not resumed: the folder has a checkpoint */
    assert_int_equal(all[0].error.status, GY_EXISTS);
    assert_non_null(strstr(all[0].error.text, "of an earlier training run"));
    t.options.resume = true;
    work_all(&t, &at, 1, all);
    assert_int_equal(all[0].error.status, GY_EXISTS);
    assert_non_null(strstr(all[0].error.text, "under another name"));
    close_servers(&at);
    open_servers(&at, 1);
    t.sync = gy_ps_ssp(2);
    work_all(&t, &at, 1, all);
    assert_int_equal(all[0].error.status, GY_MISMATCH);
    assert_non_null(strstr(all[0].error.text, "sync bsp"));
    close_servers(&at);
    remove_folder(folder);
}

/* Worker 0 tests, and all stop at the same epoch: also those that resume what was stopped. */
GY_TEST(all_workers_stop_early_together)
{
    char folder[] = "/tmp/gyre-workers-XXXXXX";
    gy_dataset train = kit_digits(60, 6), test = kit_digits(30, 6);
    const gy_ps_sync rules[] = {gy_ps_bsp(), gy_ps_ssp(2), gy_ps_asp()};
    for (size_t i = 0; i < GY_COUNT(rules); i++) {
        trial t = {.model = "softmax",
                   .train = &train,
                   .test = &test,
                   .sync = rules[i],
                   .fetch = 1,
                   .options = {.epochs = 40, .batch = 20, .patience = 2}};
        t.options.rate = 1e-30; /* no weight changes: no epoch is better than the first */
        scene at;
        member all[WORKERS_MAX];
        snprintf(folder, sizeof(folder), "/tmp/gyre-workers-XXXXXX");
        assert_non_null(mkdtemp(folder));
        t.options.checkpoint_folder = folder;
        for (int again = 0; again < 2; again++) {
            open_servers(&at, 2);
            t.options.resume = again > 0;
            work_all(&t, &at, 3, all);
            close_servers(&at);
            for (int w = 0; w < 3; w++) {
                assert_true(all[w].out.is_stopped_early);
                assert_int_equal(all[w].out.steps, 9); /* the first epoch, and two no better */
                assert_int_equal(all[w].out.resumed_step, again > 0 ? 9 : 0);
            }
        }
        remove_folder(folder);
    }
}

/* ---- Codecs ---- */

/* With error feedback, what the server has summed and what the worker keeps is what was pushed:
 * to the bit, as all numbers are whole and small. */
GY_TEST(codecs_lose_nothing_over_the_wire)
{
    enum { COUNT = 600, ROUNDS = 9 };
    const gy_codec codecs[] = {{GY_CODEC_NONE, 0}, {GY_CODEC_BF16, 0}, {GY_CODEC_TOPK, 0.02}};
    gy_random random = {.key = gy_test_seed()};
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        scene at;
        gy_ps *ps = NULL;
        gy_ps_table *table = NULL;
        static double pushed[COUNT], whole[COUNT], residual[COUNT], pulled[COUNT];
        memset(whole, 0, sizeof(whole));
        memset(residual, 0, sizeof(residual));
        open_servers(&at, 3);
        assert_ok(gy_ps_open(&(gy_ps_options){.servers = at.list, .is_plaintext = true}, &ps));
        assert_ok(gy_ps_table_open(ps, "sums",
                                   &(gy_ps_table_options){.dtype = GY_F64,
                                                          .rows = COUNT / 2,
                                                          .width = 2,
                                                          .update = GY_PS_SUM,
                                                          .sync = gy_ps_asp()},
                                   &table));
        assert_ok(gy_ps_set_codec(table, codecs[c], residual));
        for (int round = 0; round < ROUNDS; round++) {
            const uint64_t first = gy_random_below(&random, COUNT / 2);
            const size_t rows = 1 + (size_t)gy_random_below(&random, COUNT / 2 - first);
            for (size_t i = 0; i < 2 * rows; i++) {
                pushed[i] = (double)gy_random_below(&random, 2001) - 1000;
                whole[2 * first + i] += pushed[i];
            }
            assert_ok(gy_ps_push(table, &first, rows, pushed, NULL));
        }
        assert_ok(gy_ps_pull(table, NULL, COUNT / 2, pulled, NULL));
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(pulled[i] + residual[i] == whole[i]);
        }
        gy_ps_close(ps);
        close_servers(&at);
    }
}

/* Trained with each codec, several batches between exchanges or one, the digits are learned. */
GY_TEST(every_codec_learns)
{
    gy_dataset train = kit_digits(200, 6), test = kit_digits(50, 6);
    const gy_codec codecs[] = {{GY_CODEC_BF16, 0}, {GY_CODEC_INT8, 0}, {GY_CODEC_TOPK, 0.05}};
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        trial t = {.model = "softmax",
                   .train = &train,
                   .test = &test,
                   .codec = codecs[c],
                   .fetch = c == 2 ? 2 : 1,
                   .options = {.epochs = 10, .batch = 25, .rate = 1, .seed = 3}};
        t.options.optimizer = GY_OPTIMIZER_MOMENTUM;
        t.options.rate = 0.05;
        const outcome out = by_workers(&t, 2, 2);
        printf("codec %d: test loss %.3f, accuracy %.2f\n", (int)codecs[c].kind, out.test_loss,
               out.test_accuracy);
        assert_true(out.test_accuracy > 0.8);
    }
}

/* What cannot be encoded is refused. */
GY_TEST(codecs_are_of_dense_tables)
{
    scene at;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    const gy_codec topk = {GY_CODEC_TOPK, 0.5}, wrong = {GY_CODEC_TOPK, 0};
    open_servers(&at, 1);
    assert_ok(gy_ps_open(&(gy_ps_options){.servers = at.list, .is_plaintext = true}, &ps));
    assert_ok(
        gy_ps_table_open(ps, "sparse", &(gy_ps_table_options){.is_sparse = true}, &table));
    assert_status(gy_ps_set_codec(table, topk, NULL), GY_ARG);
    assert_string_equal(gy_error_text(),
                        "table sparse: a codec is of dense tables of floating point");
    assert_status(gy_ps_set_codec(table, wrong, NULL), GY_ARG);
    gy_ps_close(ps);
    close_servers(&at);
}

/* ---- The loop as printed ---- */

/* Each gradient is 1 and the model is their sum: parameters tell how many updates they have.
 * Returns how many of its own updates a worker's parameters lack in the worst step. */
static int64_t updates_lost(bool pushes_first, int fetch, int steps)
{
    scene at;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    int64_t parameters = 0, sum = 0, lost = 0;
    open_servers(&at, 1);
    assert_ok(gy_ps_open(&(gy_ps_options){.servers = at.list, .is_plaintext = true}, &ps));
    assert_ok(gy_ps_table_open(
        ps, "sum", &(gy_ps_table_options){.dtype = GY_I64, .rows = 1, .update = GY_PS_SUM},
        &table));
    for (int made = 0; made < steps; made++) {
        const bool is_due = made % fetch == 0;
        for (int turn = 0; is_due && turn < 2; turn++) {
            if ((turn == 0) == pushes_first) {
                assert_ok(gy_ps_push(table, NULL, 1, &sum, NULL));
                assert_ok(gy_ps_clock(table));
                sum = 0;
            } else {
                assert_ok(gy_ps_pull(table, NULL, 1, &parameters, NULL));
            }
        }
        lost = GY_MAX(lost, made - parameters); /* the gradient is computed with these */
        sum += 1;
        parameters += 1; /* its own update */
    }
    gy_ps_close(ps);
    close_servers(&at);
    return lost;
}

/* As printed, the pull of a step with an exchange comes before the push: the parameters lose
 * what the worker has summed since the last one. */
GY_TEST(the_loop_as_printed_loses_updates)
{
    assert_int_equal(updates_lost(false, 1, 12), 1);
    assert_int_equal(updates_lost(false, 4, 12), 4);
    assert_int_equal(updates_lost(true, 1, 12), 0);
    assert_int_equal(updates_lost(true, 4, 12), 0);
}

/* ---- What is refused ---- */

GY_TEST(wrong_options_are_refused_before_a_server_is_asked)
{
    gy_dataset train = kit_digits(16, 6);
    const trial t = {.model = "softmax", .train = &train};
    const struct {
        gy_train_servers servers;
        gy_train_options options;
        const char *says;
    } cases[] = {
        {{.worker = 2, .workers = 2}, {.epochs = 1, .batch = 4}, "worker 2, expected 0 to 1"},
        {{.fetch = -1}, {.epochs = 1, .batch = 4}, "fetch is -1, expected 1"},
        {{.sync = {GY_PS_BACKUP, 2}, .workers = 2},
         {.epochs = 1, .batch = 4},
         "2 backup workers of 2 workers"},
        {{.fetch = 1}, {.epochs = 1, .batch = 4, .accumulate = 2}, "expected fetch=N"},
        {{.fetch = 1}, {.epochs = 1, .batch = 4, .zero = 1}, "zero exclude each other"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_model *model = new_model(&t);
        gy_train_options options = cases[i].options;
        gy_train_result result;
        options.servers = &cases[i].servers;
        assert_status(gy_train(model, &train, NULL, &options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].says));
        gy_model_free(model);
    }
}

GY_TEST_MAIN(NULL, NULL)
