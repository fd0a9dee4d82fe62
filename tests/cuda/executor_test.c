/* Goal: a session on a device has the values of one on the CPU alone; an integer outside its
 * range names its node, a device that is lost ends the run, and nothing is left of either. */
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"

#include <math.h>

#include "graph_kit.h"

enum { ROWS = 6, FEATURES = 5, WIDTH = 7, CLASSES = 3, STEPS = 3, PARAMETERS = 3 };

/* Whatever it can run pays on it. */
static gy_device *open_eager(void)
{
    gy_device *device = NULL;
    assert_ok(gy_cuda_executor_open(0, &device));
    assert_true(device->rates.flops_s[GY_F32] > 0 && device->rates.memory_bytes > 0);
    device->rates.launch_s = device->rates.copy_s = 1e-12;
    device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
    return device;
}

/* A network of two layers, its loss, and a step of each parameter. */
typedef struct network {
    gy_graph *graph;
    gy_node x, labels, fetches[1 + PARAMETERS];
} network;

static network make_network(gy_dtype dtype)
{
    network n = {.graph = kit_graph()};
    gy_graph *g = n.graph;
    n.x = gy_graph_input(g, "x", dtype, (int64_t[]){GY_BATCH, FEATURES}, 2);
    n.labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    const gy_node p[PARAMETERS] = {
        gy_graph_parameter(g, "w", dtype, (int64_t[]){FEATURES, WIDTH}, 2, gy_init_he()),
        gy_graph_parameter(g, "b", dtype, (int64_t[]){WIDTH}, 1, gy_init_zeros()),
        gy_graph_parameter(g, "v", dtype, (int64_t[]){WIDTH, CLASSES}, 2, gy_init_he()),
    };
    const gy_node hidden = gy_op_relu(gy_op_add(gy_op_matmul(n.x, p[0]), p[1]));
    n.fetches[0] = gy_op_cross_entropy(gy_op_matmul(hidden, p[2]), n.labels);
    for (int i = 0; i < PARAMETERS; i++) {
        const gy_node rate = gy_graph_scalar(g, dtype, 0.3);
        n.fetches[1 + i] = gy_op_assign(
            p[i], gy_op_sub(p[i], gy_op_mul(rate, gy_op_gradient(n.fetches[0], p[i]))));
    }
    assert_ok(gy_graph_status(g));
    return n;
}

typedef struct fed {
    gy_tensor *x, *labels;
} fed;

static fed feed_of(gy_dtype dtype, uint64_t seed, int64_t label)
{
    fed f;
    gy_random random = {.key = seed};
    assert_ok(gy_tensor_zeros(NULL, dtype, (int64_t[]){ROWS, FEATURES}, 2, &f.x));
    assert_ok(gy_tensor_zeros(NULL, GY_I32, (int64_t[]){ROWS}, 1, &f.labels));
    for (int64_t i = 0; i < ROWS * FEATURES; i++) {
        gy_tensor_set(f.x, i, gy_random_unit(&random) - 0.5);
    }
    for (int64_t i = 0; i < ROWS; i++) {
        gy_tensor_set(f.labels, i, i == 4 ? (double)label : (double)(i % CLASSES));
    }
    return f;
}

/* Of the last step of the last training on a device. */
static gy_device_counts last_step;

/* Losses of some steps, and how many nodes ran on the device. */
static gy_status train(gy_dtype dtype, gy_device *device, int64_t label, double losses[STEPS],
                       int *there)
{
    network n = make_network(dtype);
    const fed f = feed_of(dtype, 5, label);
    const gy_feed feeds[] = {{n.x, f.x}, {n.labels, f.labels}};
    gy_tensor *results[1 + PARAMETERS] = {NULL};
    gy_session *session = NULL;
    gy_error error = {.status = GY_OK};
    assert_ok(gy_session_new(n.graph, &(gy_session_options){.workers = 2}, &session));
    if (device != NULL) {
        assert_ok(gy_session_set_device(session, device));
    }
    *there = 0;
    for (int step = 0; step < STEPS && error.status == GY_OK; step++) {
        gy_device_counts before = {0};
        if (device != NULL) {
            device->ops->count(device, &before);
        }
        (void)gy_error_keep(
            &error, gy_session_run(session, feeds, 2, 0, n.fetches, 1 + PARAMETERS, results));
        if (error.status == GY_OK) {
            losses[step] = gy_tensor_get(results[0], 0);
            gy_tensor_drop(results[0]);
        }
        if (device != NULL) {
            device->ops->count(device, &last_step);
            last_step.kernels -= before.kernels;
            last_step.launches -= before.launches;
            last_step.graphs -= before.graphs;
        }
    }
    const gy_graph *graph = session->program_count > 0
                                ? session->programs[session->program_count - 1]->graph
                                : NULL;
    for (int32_t i = 0; graph != NULL && i < graph->node_count; i++) {
        *there += graph->nodes[i].is_on_device;
    }
    gy_session_free(session);
    gy_tensor_drop(f.x);
    gy_tensor_drop(f.labels);
    gy_graph_free(n.graph);
    return error.status < 0 ? gy_error_raise(&error) : GY_OK;
}

GY_TEST(a_session_on_a_device_has_the_losses_of_the_cpu)
{
    static const gy_dtype types[] = {GY_F32, GY_F64};
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        double alone[STEPS], both[STEPS];
        int there = 0;
        standin->reset(gy_test_seed());
        gy_device *device = open_eager();
        assert_ok(train(types[i], NULL, 0, alone, &there));
        assert_int_equal(there, 0);
        assert_ok(train(types[i], device, 0, both, &there));
        printf("%d nodes on the device\n", there);
        assert_true(there > 5);
        const double tolerance = types[i] == GY_F32 ? 1e-5 : 1e-12;
        for (int step = 0; step < STEPS; step++) {
            assert_true(fabs(alone[step] - both[step]) <= tolerance * fabs(alone[step]));
        }
        assert_true(both[STEPS - 1] < both[0]);
        printf("last step: %d kernels, %d launches, %d of graphs\n", (int)last_step.kernels,
               (int)last_step.launches, (int)last_step.graphs);
        assert_true(last_step.kernels >= 8 && last_step.graphs >= 1);
        assert_true(last_step.launches <= 6 && last_step.launches < last_step.kernels);
        gy_cuda_executor_close(device);
        standin_expect_clean();
    }
}

/* Libraries differ in what they join to a product: where one has no algorithm with a bias, the
 * session has the same losses by a kernel more. */
GY_TEST(a_bias_that_no_product_takes_is_a_kernel_of_its_own)
{
    double joined[STEPS], apart[STEPS];
    int there = 0;
    standin_needed();
    for (int is_apart = 0; is_apart < 2; is_apart++) {
        static int modules;
        standin->reset(7);
        gy_device *device = open_eager();
        if (is_apart == 1) { /* of the first product, which has bias and relu */
            standin->fail_call("cublasLtMatmulAlgoGetHeuristic", 1, 15);
        }
        assert_ok(train(GY_F32, device, 0, is_apart == 1 ? apart : joined, &there));
        assert_true(there > 5);
        gy_cuda_executor_close(device);
        standin_expect_clean();
        const int count = standin->count("cuModuleLoadDataEx");
        assert_true(is_apart == 0 || count == modules + 1);
        modules = count;
    }
    for (int step = 0; step < STEPS; step++) {
        assert_true(fabs(joined[step] - apart[step]) <= 1e-6 * fabs(joined[step]));
    }
}

GY_TEST(an_integer_outside_its_range_names_its_node)
{
    double losses[STEPS];
    int there = 0;
    standin->reset(1);
    gy_device *device = open_eager();
    assert_status(train(GY_F32, device, CLASSES + 4, losses, &there), GY_ARG);
    printf("%s\n", gy_error_text());
    assert_non_null(strstr(gy_error_text(), "label 7 at place 4, expected 0 to 2"));
    assert_non_null(strstr(gy_error_text(), "node "));
    gy_cuda_executor_close(device);
    standin_expect_clean();
}

/* One call of each function fails for good while a session runs. */
GY_TEST(a_call_that_fails_ends_the_run)
{
    static const char *const symbols[] = {"cuLaunchKernel",       "cuMemcpyHtoDAsync_v2",
                                          "cuMemcpyDtoHAsync_v2", "cuEventRecord",
                                          "cuEventQuery",         "cuMemAllocAsync",
                                          "cuModuleLoadDataEx",   "cuMemsetD8Async",
                                          "cublasLtMatmul",       "cuEventCreate",
                                          "cuModuleGetFunction",  "cuMemHostAlloc",
                                          "cuStreamWaitEvent",    "cuStreamBeginCapture_v2",
                                          "cuStreamEndCapture",   "cuGraphInstantiateWithFlags",
                                          "cuGraphLaunch"};
    standin_needed();
    gy_log_set_level(GY_LOG_ERROR);
    for (size_t i = 0; i < GY_COUNT(symbols); i++) {
        for (int lost = 0; lost < 2; lost++) {
            const bool is_driver = symbols[i][2] != 'b';
            const int64_t live = gy_alloc_live();
            double losses[STEPS];
            int there = 0;
            standin->reset(i);
            gy_device *device = open_eager();
            standin->fail_call(symbols[i], 1,
                               is_driver && lost ? GY_CUDA_LAUNCH_FAILED
                                                 : GY_CUDA_INVALID_VALUE);
            const gy_status status = train(GY_F32, device, 0, losses, &there);
            if (status != (is_driver && lost ? GY_PEER : GY_STATE) ||
                strstr(gy_error_text(), symbols[i]) == NULL) {
                fail_msg("%s: %s: %s", symbols[i], gy_status_text(status), gy_error_text());
            }
            gy_cuda_executor_close(device);
            if (standin->live() != 0 || gy_alloc_live() != live) {
                fail_msg("%s: %d things and %lld allocations are left", symbols[i],
                         standin->live(), (long long)(gy_alloc_live() - live));
            }
            standin_expect_clean();
        }
    }
    gy_log_set_level(GY_LOG_WARN);
}

GY_TEST_MAIN(standin_find, NULL)
