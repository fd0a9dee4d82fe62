/*
 * Goal: whatever a session is asked for, it has the values of a session on the CPU alone when a
 * device runs what is chosen, all that it can, or any part of it: random graphs with gradients,
 * updates, several programs, batches and parameters that the user changes, in little memory, in
 * two threads; within 1e-12 in float64, 1e-4 in float32. After a call that failed the device
 * serves as before.
 */
#include "graph/random_graph.h"
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"

#include "base/hash.h"

#include <math.h>
#include <pthread.h>

#include "graph_kit.h"

enum { STEPS = 6, ACTIONS = 9, SEEN = 3, EMPTY = 4, VALUES_MAX = 1 << 14, BATCH_MAX = 7 };

static const char *const names[RANDOM_PARAMETERS] = {"u", "v", "w", "row"};

/* ---- what a session is asked for ---- */

typedef struct story {
    uint64_t seed;
    gy_dtype dtype;
    int steps;
    gy_device *device; /* NULL: the CPU alone */
    gy_status status;  /* of the first run that fails */
    int there;         /* nodes on the device */
    int count;
    double values[VALUES_MAX]; /* all that was fetched */
} story;

typedef struct told {
    random_graph of;
    gy_session *session;
    gy_random random;
    gy_node updates[1 + RANDOM_PARAMETERS], seen[SEEN], empty[EMPTY];
} told;

static void note(story *s, gy_tensor *tensor)
{
    for (int64_t i = 0; i < gy_tensor_count(tensor); i++) {
        GY_ASSERT(s->count < VALUES_MAX);
        s->values[s->count++] = gy_tensor_get(tensor, i);
    }
}

/* Values without elements, and what becomes of them. */
static void make_empty(told *t)
{
    const gy_node none = gy_op_slice(t->of.x, 1, 2, 2, 1);
    t->empty[0] = gy_op_tanh(none);
    t->empty[1] = gy_op_sum(none, 2, false);
    t->empty[2] = gy_op_concat((gy_node[]){gy_op_exp(none), t->of.y}, 2, 1);
    t->empty[3] = gy_op_add(gy_op_matmul_transposed(none, false, none, true),
                            gy_graph_scalar(t->of.graph, t->of.dtype, 2));
}

static void begin(story *s, told *t)
{
    random_graph_make_of(&t->of, s->dtype, s->seed, false, s->steps);
    t->random = (gy_random){.key = s->seed + 1};
    t->updates[0] = t->of.loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        const gy_node p = t->of.parameters[i];
        const gy_node rate = gy_graph_scalar(t->of.graph, s->dtype, 0.1);
        t->updates[1 + i] =
            gy_op_assign(p, gy_op_sub(p, gy_op_mul(rate, gy_op_gradient(t->of.loss, p))));
    }
    for (int i = 0; i < SEEN; i++) {
        t->seen[i] = random_pick(&t->of);
    }
    make_empty(t);
    GY_ASSERT(gy_graph_status(t->of.graph) == GY_OK);
    s->count = s->there = 0;
    s->status = gy_session_new(
        t->of.graph, &(gy_session_options){.workers = 2, .seed = s->seed}, &t->session);
    GY_ASSERT(s->status == GY_OK);
    if (s->device != NULL) {
        GY_ASSERT(gy_session_set_device(t->session, s->device) == GY_OK);
    }
}

static gy_tensor *fed(story *s, told *t, int64_t rows)
{
    gy_tensor *tensor = NULL;
    const int64_t sizes[] = {rows, RANDOM_FEATURES};
    GY_ASSERT(gy_tensor_zeros(NULL, s->dtype, sizes, 2, &tensor) == GY_OK);
    for (int64_t i = 0; i < rows * RANDOM_FEATURES; i++) {
        gy_tensor_set(tensor, i, gy_random_unit(&t->random) - 0.5);
    }
    return tensor;
}

static void run(story *s, told *t, const gy_node *fetches, int count)
{
    const int64_t rows = 1 + (int64_t)gy_random_below(&t->random, BATCH_MAX);
    gy_tensor *results[1 + RANDOM_PARAMETERS] = {NULL};
    gy_tensor *x = fed(s, t, rows), *y = fed(s, t, rows);
    const gy_feed feeds[] = {{t->of.x, x}, {t->of.y, y}};
    s->status = gy_session_run(t->session, feeds, 2, 0, fetches, count, results);
    for (int i = 0; i < count && s->status == GY_OK; i++) {
        if (results[i] != NULL) { /* an assignment gives none */
            note(s, results[i]);
            gy_tensor_drop(results[i]);
        }
    }
    const size_t programs = t->session->program_count;
    for (size_t k = 0; k < programs && s->device != NULL; k++) {
        const gy_graph *graph = t->session->programs[k]->graph;
        for (int32_t i = 0; i < graph->node_count; i++) {
            s->there += graph->nodes[i].is_on_device;
        }
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
}

/* Of one parameter, or all; some elements are the user's from then on. */
static void look(story *s, told *t, bool changes)
{
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        gy_tensor *tensor = gy_session_parameter(t->session, names[i]);
        if (tensor == NULL) {
            s->status = GY_STATE; /* it could not be brought */
            return;
        }
        note(s, tensor);
        if (changes && gy_random_below(&t->random, 2) == 0) {
            gy_tensor_set(tensor, (int64_t)gy_random_below(&t->random, 3),
                          gy_random_unit(&t->random) - 0.5);
        }
    }
}

static void tell(story *s)
{
    told t;
    begin(s, &t);
    for (int n = 0; n < ACTIONS && s->status == GY_OK; n++) {
        switch (n == 0 ? 0 : gy_random_below(&t.random, 6)) {
        case 0:
        case 1:
            run(s, &t, t.updates, 1 + RANDOM_PARAMETERS);
            break;
        case 2:
            run(s, &t, t.updates, 1 + (int)gy_random_below(&t.random, RANDOM_PARAMETERS));
            break;
        case 3:
            run(s, &t, t.seen, SEEN);
            break;
        case 4:
            run(s, &t, t.empty, EMPTY);
            break;
        default:
            look(s, &t, true);
            break;
        }
    }
    if (s->status == GY_OK) {
        look(s, &t, false);
    }
    gy_session_free(t.session);
    gy_graph_free(t.of.graph);
}

static story *new_story(uint64_t seed, gy_dtype dtype, gy_device *device)
{
    story *s = gy_alloc_zero("test", 1, sizeof(*s));
    assert_non_null(s);
    *s = (story){.seed = seed, .dtype = dtype, .steps = STEPS, .device = device};
    return s;
}

static void expect_same(const story *alone, const story *both, const char *how)
{
    const double tolerance = alone->dtype == GY_F64 ? 1e-12 : 1e-4;
    if (both->status != alone->status || both->count != alone->count) {
        fail_msg("seed %llu %s: %s after %d values: %s; alone %s after %d",
                 (unsigned long long)alone->seed, how, gy_status_text(both->status),
                 both->count, gy_error_text(), gy_status_text(alone->status), alone->count);
    }
    for (int i = 0; i < alone->count; i++) {
        const double a = alone->values[i], b = both->values[i];
        if (!(fabs(a - b) <= tolerance * fmax(1, fabs(a)))) {
            fail_msg("seed %llu %s, %s: value %d of %d is %.17g, alone %.17g",
                     (unsigned long long)alone->seed, gy_dtype_name(alone->dtype), how, i,
                     alone->count, b, a);
        }
    }
}

/* ---- devices that choose otherwise ---- */

/* Whatever it can run pays there. */
static gy_device *open_eager(int index)
{
    gy_device *device = NULL;
    assert_ok(gy_cuda_executor_open(index, &device));
    device->rates.launch_s = device->rates.copy_s = 1e-12;
    device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
    return device;
}

static const gy_device_ops *executor_ops;
static uint64_t refusing; /* the seed of which nodes the picky device refuses */

/* One node of three has no kernel, by its operator and sizes. */
static bool picky_accepts(gy_device *device, const gy_kernel_query *query, const char **why)
{
    uint64_t hash = gy_hash(query->op->name, strlen(query->op->name), refusing);
    if (query->input_count > 0) {
        hash = gy_hash(query->inputs[0].sizes, sizeof(query->inputs[0].sizes), hash);
    }
    if (hash % 3 == 0) {
        *why = "refused";
        return false;
    }
    return executor_ops->accepts(device, query, why);
}

static void make_picky(gy_device *device, uint64_t seed)
{
    static gy_device_ops ops;
    executor_ops = device->ops;
    ops = *device->ops;
    ops.accepts = picky_accepts;
    device->ops = &ops;
    refusing = seed;
}

/* Rates that pay for chains of some length only, or little memory. */
static void draw_rates(gy_device *device, gy_random *random)
{
    static const double launches[] = {1e-12, 1e-7, 1e-6}, copies[] = {1e-12, 1e-7, 3e-6};
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e8;
    device->rates.launch_s = launches[gy_random_below(random, 3)];
    device->rates.copy_s = copies[gy_random_below(random, 3)];
}

/* ---- tests ---- */

typedef enum manner { EAGER, PICKY, DRAWN, LITTLE, MANNERS } manner;

static const char *const manner_names[MANNERS] = {"all that can", "picked nodes", "drawn rates",
                                                  "little memory"};

static int check_manner(const story *alone, manner how)
{
    gy_random random = {.key = alone->seed + 7};
    gy_device *device = open_eager(0);
    if (how == PICKY) {
        make_picky(device, alone->seed);
    } else if (how == DRAWN) {
        draw_rates(device, &random);
    } else if (how == LITTLE) {
        device->rates.memory_bytes = 1000 + gy_random_below(&random, 3000);
    }
    story *both = new_story(alone->seed, alone->dtype, device);
    tell(both);
    expect_same(alone, both, manner_names[how]);
    const int there = both->there;
    gy_free(both);
    gy_cuda_executor_close(device);
    standin_expect_clean();
    return there;
}

GY_TEST(whatever_runs_there_has_the_values_of_the_cpu)
{
    const uint64_t seed = gy_test_seed();
    int there[MANNERS] = {0};
    for (long i = 0; i < gy_test_serial_cases(8); i++) {
        const gy_dtype dtype = (i + i / MANNERS) % 2 == 0 ? GY_F64 : GY_F32;
        story *alone = new_story(seed + (uint64_t)i, dtype, NULL);
        standin->reset(seed + (uint64_t)i);
        tell(alone);
        assert_int_equal(alone->status, GY_OK);
        const manner how = (manner)(i % MANNERS);
        there[how] += check_manner(alone, how);
        gy_free(alone);
    }
    for (int how = 0; how < MANNERS; how++) {
        printf("%s: %d nodes\n", manner_names[how], there[how]);
    }
    assert_true(there[EAGER] > 20);
}

static void expect_failure(story *both, gy_status status, const char *words)
{
    tell(both);
    if (both->status != status || strstr(gy_error_text(), words) == NULL) {
        fail_msg("%s: %s, expected %s: … %s", gy_status_text(both->status), gy_error_text(),
                 gy_status_text(status), words);
    }
}

/* A story that was told without a device, and the same to be told on the one that is opened. */
static gy_device *begin_pair(uint64_t seed, story **alone, story **both)
{
    *alone = new_story(seed, GY_F64, NULL);
    *both = new_story(seed, GY_F64, NULL);
    (*alone)->steps = (*both)->steps = 3;
    tell(*alone);
    standin->reset(seed);
    (*both)->device = open_eager(0);
    gy_log_set_level(GY_LOG_ERROR);
    return (*both)->device;
}

static void end_pair(gy_device *device, story *alone, story *both)
{
    gy_log_set_level(GY_LOG_WARN);
    gy_cuda_executor_close(device);
    standin_expect_clean();
    gy_free(both);
    gy_free(alone);
}

GY_TEST(a_call_that_fails_leaves_the_device_usable)
{
    standin_needed();
    static const char *const symbols[] = {"cuLaunchKernel", "cuMemcpyDtoHAsync_v2",
                                          "cuMemcpyHtoDAsync_v2", "cublasLtMatmul"};
    const uint64_t seed = gy_test_seed();
    gy_random random = {.key = seed};
    story *alone, *both;
    gy_device *device = begin_pair(seed, &alone, &both);
    for (size_t i = 0; i < GY_COUNT(symbols); i++) {
        const int before = standin->count(symbols[i]);
        tell(both);
        expect_same(alone, both, "undisturbed");
        const uint64_t made = (uint64_t)(standin->count(symbols[i]) - before);
        for (long n = 0; n < gy_test_serial_cases(6) && made > 0; n++) {
            standin->fail_call(symbols[i], 1 + (int)gy_random_below(&random, made),
                               GY_CUDA_INVALID_VALUE);
            expect_failure(both, GY_STATE, symbols[i]);
            tell(both);
            expect_same(alone, both, "after a failure");
        }
    }
    end_pair(device, alone, both);
}

/* All of the device's memory but `left_bytes`. */
static void *hog(gy_device *device, size_t left_bytes)
{
    void *address = NULL;
    size_t size_bytes = 64 << 20; /* the stand-in's */
    while (device->ops->take(device, size_bytes, &address) != GY_OK) {
        size_bytes -= 256;
    }
    device->ops->give(device, address);
    assert_ok(device->ops->finish(device, soon()));
    assert_ok(device->ops->take(device, size_bytes - left_bytes, &address));
    return address;
}

/* At any place: named, with what was asked for and what would fit. */
GY_TEST(out_of_memory_leaves_the_device_usable)
{
    const uint64_t seed = gy_test_seed();
    gy_random random = {.key = seed};
    story *alone, *both;
    gy_device *device = begin_pair(seed, &alone, &both);
    for (long n = 0; n < gy_test_serial_cases(8); n++) {
        const size_t left = n == 0 ? 0 : (size_t)(4096 << gy_random_below(&random, 10));
        void *taken = hog(device, left);
        tell(both);
        if (both->status == GY_OK && n > 0) {
            expect_same(alone, both, "with enough memory"); /* few of them multiply there */
        } else if (both->status != GY_NOMEM ||
                   strstr(gy_error_text(), "asked for, of 64.0 MiB there are ") == NULL ||
                   strstr(gy_error_text(), "would fit") == NULL) {
            fail_msg("%s: %s", gy_status_text(both->status), gy_error_text());
        }
        device->ops->give(device, taken);
        tell(both);
        expect_same(alone, both, "with memory again");
    }
    end_pair(device, alone, both);
}

static void *tell_thread(void *arg)
{
    tell(arg);
    return NULL;
}

/* On two devices, and on one that both use. */
GY_TEST(sessions_of_two_threads_do_not_meet)
{
    const uint64_t seed = gy_test_seed();
    for (int shared = 0; shared < 2; shared++) {
        story *alone[2], *both[2];
        gy_device *devices[2] = {NULL};
        pthread_t threads[2];
        standin->reset(seed);
        for (int k = 0; k < 2; k++) {
            alone[k] = new_story(seed + (uint64_t)k, GY_F64, NULL);
            alone[k]->steps = 4;
            tell(alone[k]);
            devices[k] = shared == 0 || k == 0 ? open_eager(k) : NULL;
            both[k] = new_story(seed + (uint64_t)k, GY_F64, devices[shared == 1 ? 0 : k]);
            both[k]->steps = 4;
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(pthread_create(&threads[k], NULL, tell_thread, both[k]), 0);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(pthread_join(threads[k], NULL), 0);
        }
        for (int k = 0; k < 2; k++) {
            expect_same(alone[k], both[k], shared == 1 ? "on one device" : "on two devices");
            assert_true(both[k]->there > 0);
            gy_free(alone[k]);
            gy_free(both[k]);
            gy_cuda_executor_close(devices[k]);
        }
        standin_expect_clean();
    }
}

/* Two devices, and a text that several sessions need is compiled once in this process. */
static char images[64];

static int begin_all(void **state)
{
    (void)gy_print(images, sizeof(images), "/tmp/gyre-session-XXXXXX");
    return mkdtemp(images) == NULL || setenv("GYRE_CACHE_DIR", images, 1) != 0 ||
           setenv("GYRE_TEST_CUDA_DEVICES", "2", 1) != 0 || standin_find(state) != 0;
}

static int end_all(void **state)
{
    char line[128], said[256];
    (void)state;
    (void)gy_print(line, sizeof(line), "rm -r %s", images);
    return gy_test_shell(line, said, sizeof(said));
}

GY_TEST_MAIN(begin_all, end_all)
