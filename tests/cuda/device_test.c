/* Goal: copies, memory, order and kernels of a device do what they say, and each call of the
 * driver that fails becomes one failure with its name and leaves nothing behind. */
#include "standin/standin_kit.h"

enum { STAGING = 4096, BYTES = 3 * STAGING + 100 };

static gy_cuda_device *open_device(void)
{
    gy_cuda_device *device = NULL;
    assert_ok(gy_cuda_device_open(0, STAGING, &device));
    return device;
}

static void fill_random(uint8_t *bytes, size_t count, gy_random *random)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)gy_random_u64(random);
    }
}

/* ---- copies ---- */

/* Bytes go into a block, from there into another, and back. */
static void go_around(gy_cuda_device *device, gy_random *random)
{
    static uint8_t sent[BYTES], got[BYTES];
    const size_t count = 1 + gy_random_below(random, BYTES);
    const size_t skip = gy_random_below(random, count);
    gy_cuda_stream *streams[2] = {NULL, NULL};
    gy_cuda_event *event = NULL;
    gy_cuda_address a = 0, b = 0;
    fill_random(sent, count, random);
    memset(got, 0, sizeof(got));
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_cuda_stream_open(device, &streams[i]));
    }
    assert_ok(gy_cuda_memory_alloc(device, streams[0], count, &a));
    assert_ok(gy_cuda_memory_alloc(device, streams[1], count, &b));
    assert_int_equal(a % 256, 0);
    assert_ok(gy_cuda_fill(device, streams[0], a, 7, count));
    assert_ok(gy_cuda_upload(device, streams[0], a + skip, sent + skip, count - skip, soon()));
    assert_ok(gy_cuda_event_record(device, streams[0], &event));
    assert_ok(gy_cuda_stream_after(device, streams[1], event));
    assert_ok(gy_cuda_copy(device, streams[1], b, a, count));
    assert_ok(gy_cuda_download(device, streams[1], got, b, count, soon()));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(got[i], i < skip ? 7 : sent[i]);
    }
    gy_cuda_event_drop(device, event);
    gy_cuda_memory_free(device, streams[1], a); /* it knows of the copy from a */
    gy_cuda_memory_free(device, streams[1], b);
    gy_cuda_stream_close(device, streams[0]);
    gy_cuda_stream_close(device, streams[1]);
}

GY_TEST(bytes_come_back)
{
    gy_random random = {.key = gy_test_seed()};
    standin->reset(gy_random_u64(&random));
    gy_cuda_device *device = open_device();
    for (long i = 0; i < gy_test_cases(200); i++) {
        go_around(device, &random);
    }
    gy_cuda_device_close(device);
    standin_expect_clean();
}

typedef struct copier {
    gy_thread thread;
    gy_cuda_device *device;
    uint64_t seed;
    long wrong;
} copier;

static void *copy_often(void *arg)
{
    copier *me = arg;
    uint8_t sent[2 * STAGING + 5], got[sizeof(sent)];
    gy_random random = {.key = me->seed};
    gy_cuda_stream *stream = NULL;
    gy_cuda_address address = 0;
    me->wrong = gy_cuda_stream_open(me->device, &stream) != GY_OK;
    for (int i = 0; i < 20 && me->wrong == 0; i++) {
        fill_random(sent, sizeof(sent), &random);
        me->wrong +=
            gy_cuda_memory_alloc(me->device, stream, sizeof(sent), &address) != GY_OK ||
            gy_cuda_upload(me->device, stream, address, sent, sizeof(sent), soon()) != GY_OK ||
            gy_cuda_download(me->device, stream, got, address, sizeof(got), soon()) != GY_OK ||
            memcmp(sent, got, sizeof(sent)) != 0;
        gy_cuda_memory_free(me->device, stream, address);
    }
    gy_cuda_stream_close(me->device, stream);
    return NULL;
}

GY_TEST(threads_copy_side_by_side)
{
    copier all[3];
    standin->reset(gy_test_seed());
    gy_cuda_device *device = open_device();
    for (int t = 0; t < 3; t++) {
        all[t] = (copier){.device = device, .seed = (uint64_t)t};
        assert_ok(gy_thread_start(&all[t].thread, "copier", copy_often, &all[t]));
    }
    for (int t = 0; t < 3; t++) {
        gy_thread_join(&all[t].thread);
        assert_int_equal(all[t].wrong, 0);
    }
    gy_cuda_device_close(device);
    standin_expect_clean();
}

/* ---- memory that is not there, devices that are lost or do not answer ---- */

GY_TEST(out_of_memory_says_what_would_fit)
{
    gy_cuda_stream *stream = NULL;
    gy_cuda_address small = 0, large = 0;
    standin_needed();
    standin->reset(1);
    gy_cuda_device *device = open_device();
    assert_ok(gy_cuda_stream_open(device, &stream));
    assert_ok(gy_cuda_memory_alloc(device, stream, 16 << 20, &small));
    assert_status(gy_cuda_memory_alloc(device, stream, 50 << 20, &large), GY_NOMEM);
    assert_string_equal(
        gy_error_text(),
        "device 0 (Stand-in 0) is out of memory: 50.0 MiB were asked for, of 64.0 "
        "MiB there are 48.0 MiB free, and with what its pool holds 48.0 MiB would "
        "fit");
    assert_ok(gy_cuda_memory_alloc(device, stream, 48 << 20, &large));
    gy_cuda_memory_free(device, stream, large);
    /* What is freed stays with the pool, and is given back for what does not fit otherwise. */
    assert_ok(gy_cuda_stream_wait(device, stream, soon()));
    gy_cuda_memory memory;
    assert_ok(gy_cuda_memory_read(device, &memory));
    assert_int_equal(memory.free_bytes, 0);
    assert_int_equal(memory.pool_bytes, 48 << 20);
    standin->fail_call("cuMemAllocAsync", 1, GY_CUDA_OUT_OF_MEMORY);
    assert_ok(gy_cuda_memory_alloc(device, stream, 1 << 20, &large));
    gy_cuda_memory_free(device, stream, large);
    gy_cuda_memory_free(device, stream, small);
    gy_cuda_stream_close(device, stream);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

/* Other programs have it: the call is told with what there is, or would be. */
GY_TEST(a_call_that_lacks_memory_tells_what_is_free)
{
    gy_cuda_device *device = NULL;
    gy_cuda_stream *stream = NULL;
    void *memory = NULL;
    standin_needed();
    standin->reset(1);
    standin->fail_call("cuDevicePrimaryCtxRetain", 1, GY_CUDA_OUT_OF_MEMORY);
    assert_status(gy_cuda_device_open(0, 0, &device), GY_NOMEM);
    assert_string_equal(gy_error_text(),
                        "device 0 (Stand-in 0): cuDevicePrimaryCtxRetain: "
                        "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; other programs may hold "
                        "its 64.0 MiB");
    device = open_device();
    standin->fail_call("cuMemHostAlloc", 1, GY_CUDA_OUT_OF_MEMORY);
    assert_status(gy_cuda_pinned_alloc(device, 3 << 20, &memory), GY_NOMEM);
    assert_string_equal(gy_error_text(),
                        "3.0 MiB of the host's memory, pinned: device 0 (Stand-in 0): "
                        "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    standin->fail_call("cuStreamCreate", 1, GY_CUDA_OUT_OF_MEMORY);
    assert_status(gy_cuda_stream_open(device, &stream), GY_NOMEM);
    assert_string_equal(gy_error_text(),
                        "device 0 (Stand-in 0): cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2): "
                        "out of memory; of 64.0 MiB there are 64.0 MiB free");
    gy_cuda_device_close(device);
    standin_expect_clean();
}

GY_TEST(a_lost_device_fails_all_calls_alike)
{
    static const char reason[] = "device 0 (Stand-in 0) is lost: cuStreamQuery: "
                                 "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure";
    gy_cuda_stream *stream = NULL, *other = NULL;
    gy_cuda_address address = 0, none = 0;
    gy_cuda_memory memory;
    uint8_t byte = 0;
    standin_needed();
    standin->reset(1);
    gy_cuda_device *device = open_device();
    assert_ok(gy_cuda_stream_open(device, &stream));
    assert_ok(gy_cuda_memory_alloc(device, stream, 1, &address));
    standin->fail_call("cuStreamQuery", 1, GY_CUDA_LAUNCH_FAILED);
    assert_status(gy_cuda_stream_wait(device, stream, soon()), GY_PEER);
    assert_string_equal(gy_error_text(), reason);
    const gy_status later[] = {
        gy_cuda_memory_alloc(device, stream, 1, &none),
        gy_cuda_memory_read(device, &memory),
        gy_cuda_stream_open(device, &other),
        gy_cuda_stream_wait(device, stream, soon()),
        gy_cuda_upload(device, stream, address, &byte, 1, soon()),
        gy_cuda_download(device, stream, &byte, address, 1, soon()),
        gy_cuda_fill(device, stream, address, 0, 1),
    };
    for (size_t i = 0; i < GY_COUNT(later); i++) {
        assert_int_equal(later[i], GY_PEER);
    }
    assert_string_equal(gy_error_text(), reason);
    assert_null(other);
    gy_cuda_memory_free(device, stream, address);
    gy_cuda_stream_close(device, stream);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

GY_TEST(a_device_that_does_not_answer_ends_at_the_deadline)
{
    static uint8_t bytes[BYTES];
    gy_cuda_stream *stream = NULL;
    gy_cuda_event *event = NULL;
    gy_cuda_address address = 0;
    standin_needed();
    standin->reset(1);
    gy_cuda_device *device = open_device();
    assert_ok(gy_cuda_stream_open(device, &stream));
    assert_ok(gy_cuda_memory_alloc(device, stream, BYTES, &address));
    standin->stall(true);
    assert_ok(gy_cuda_fill(device, stream, address, 3, BYTES));
    assert_ok(gy_cuda_event_record(device, stream, &event));
    assert_int_equal(gy_cuda_event_poll(device, event), GY_AGAIN);
    const gy_status waits[] = {
        gy_cuda_event_wait(device, event, gy_deadline_after(0.01)),
        gy_cuda_stream_wait(device, stream, gy_deadline_after(0.01)),
        gy_cuda_upload(device, stream, address, bytes, BYTES, gy_deadline_after(0.01)),
        gy_cuda_download(device, stream, bytes, address, BYTES, gy_deadline_after(0.01)),
    };
    for (size_t i = 0; i < GY_COUNT(waits); i++) {
        assert_int_equal(waits[i], GY_TIMEOUT);
    }
    assert_string_equal(gy_error_text(), "deadline passed waiting for device 0 (Stand-in 0)");
    standin->stall(false);
    assert_ok(gy_cuda_event_wait(device, event, soon()));
    assert_ok(gy_cuda_download(device, stream, bytes, address, BYTES, soon()));
    assert_int_equal(bytes[BYTES - 1], 3); /* only the first pieces were copied again */
    gy_cuda_event_drop(device, event);
    gy_cuda_memory_free(device, stream, address);
    gy_cuda_stream_close(device, stream);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

/* ---- kernels ---- */

/* As ops/cuda/text prints them, shorter: to[i] = from[i] * by. */
static const char kernel_text[] =
    "#ifndef GY_KERNEL\n"
    "#define GY_KERNEL(name) extern \"C\" __global__ void name(const gy_arguments g)\n"
    "#endif\n"
    "typedef struct gy_arguments {\n"
    "    const float *from;\n"
    "    float *to;\n"
    "    long long count;\n"
    "    double by;\n"
    "} gy_arguments;\n"
    "GY_KERNEL(scale)\n"
    "{\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < g.count) {\n"
    "        g.to[i] = (float)(g.from[i] * g.by);\n"
    "    }\n"
    "}\n";

enum { FLOATS = 1000 };

typedef struct scale_words {
    gy_cuda_address from, to;
    int64_t count;
    double by;
} scale_words;

/* What a scenario has made, so that it is given back from any point. */
typedef struct scene {
    gy_cuda_device *device;
    gy_cuda_stream *streams[2];
    gy_cuda_event *event;
    gy_cuda_address a, b;
    gy_text image;
    gy_cuda_module *module;
    gy_cuda_graph_exec *graph;
    float got[FLOATS];
} scene;

static gy_status capture(scene *s, gy_cuda_function *kernel, gy_cuda_grid grid, void *words)
{
    GY_TRY(gy_cuda_capture_begin(s->device, s->streams[0]));
    const gy_status status =
        gy_cuda_launch_kernel(s->device, s->streams[0], kernel, grid, words);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_capture_cancel(s->device, s->streams[0]);
        return gy_error_raise(&error);
    }
    return gy_cuda_capture_end(s->device, s->streams[0], &s->graph);
}

static gy_status compute(scene *s)
{
    gy_cuda_function *kernel = NULL;
    float sent[FLOATS];
    for (int i = 0; i < FLOATS; i++) {
        sent[i] = (float)i;
    }
    GY_TRY(gy_cuda_module_kernel(s->device, s->module, "scale", &kernel));
    GY_TRY(gy_cuda_upload(s->device, s->streams[0], s->a, sent, sizeof(sent), soon()));
    scale_words words = {.from = s->a, .to = s->b, .count = FLOATS, .by = 0.5};
    const gy_cuda_grid grid = {.blocks = (FLOATS + 63) / 64, .threads = 64};
    GY_TRY(gy_cuda_launch_kernel(s->device, s->streams[0], kernel, grid, &words));
    words = (scale_words){.from = s->b, .to = s->b, .count = FLOATS / 2, .by = -2};
    GY_TRY(capture(s, kernel, grid, &words));
    words.by = 1e9; /* the graph has a copy */
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_cuda_graph_launch(s->device, s->streams[0], s->graph));
    }
    GY_TRY(gy_cuda_event_record(s->device, s->streams[0], &s->event));
    GY_TRY(gy_cuda_stream_after(s->device, s->streams[1], s->event));
    GY_TRY(gy_cuda_fill(s->device, s->streams[1], s->a, 0, sizeof(sent)));
    GY_TRY(gy_cuda_copy(s->device, s->streams[1], s->a, s->b, 4 * (FLOATS - 1)));
    GY_TRY(gy_cuda_event_wait(s->device, s->event, soon()));
    return gy_cuda_download(s->device, s->streams[1], s->got, s->a, sizeof(sent), soon());
}

static gy_status begin(scene *s)
{
    GY_TRY(gy_cuda_device_open(0, STAGING / 2, &s->device));
    const int capability = gy_cuda_device_properties(s->device)->capability;
    GY_TRY(gy_cuda_compile(kernel_text, "scale", capability, NULL, &s->image));
    GY_TRY(gy_cuda_module_open(s->device, &s->image, "scale", &s->module));
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_cuda_stream_open(s->device, &s->streams[i]));
    }
    GY_TRY(gy_cuda_memory_alloc(s->device, s->streams[0], sizeof(s->got), &s->a));
    GY_TRY(gy_cuda_memory_alloc(s->device, s->streams[0], sizeof(s->got), &s->b));
    return compute(s);
}

static void end(scene *s)
{
    if (s->device != NULL) {
        settle(s->device, s->streams[0]); /* each uses what the other frees */
        settle(s->device, s->streams[1]);
        gy_cuda_memory_free(s->device, s->streams[0], s->a);
        gy_cuda_memory_free(s->device, s->streams[0], s->b);
        gy_cuda_event_drop(s->device, s->event);
        gy_cuda_graph_free(s->device, s->graph);
        gy_cuda_stream_close(s->device, s->streams[0]);
        gy_cuda_stream_close(s->device, s->streams[1]);
        gy_cuda_module_close(s->device, s->module);
    }
    gy_cuda_device_close(s->device);
    gy_text_free(&s->image);
}

GY_TEST(kernels_compute_in_the_order_of_streams)
{
    gy_random random = {.key = gy_test_seed()};
    for (long n = 0; n < gy_test_cases(16); n++) {
        scene s = {.device = NULL};
        standin->reset(gy_random_u64(&random));
        assert_ok(begin(&s));
        for (int i = 0; i < FLOATS; i++) {
            const double wanted = i < FLOATS / 2 ? 2.0 * i : i < FLOATS - 1 ? 0.5 * i : 0;
            assert_true(s.got[i] == (float)wanted);
        }
        end(&s);
        standin_expect_clean();
    }
}

GY_TEST(a_text_that_does_not_compile_is_named)
{
    gy_text image = {.data = NULL};
    standin->reset(1);
    assert_status(
        gy_cuda_compile("typedef struct gy_arguments {\n long long n;\n} gy_arguments;\n"
                        "GY_KERNEL(bad) { return g.m; }\n",
                        "node 'loss'", 80, NULL, &image),
        GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "the kernel of node 'loss' does not compile: "));
    assert_non_null(strstr(gy_error_text(), "error: "));
    assert_null(image.data);
    standin_needed(); /* whose compiler knows three devices */
    /* For a device that is newer than the compiler there is PTX; for an older one nothing. */
    assert_ok(gy_cuda_compile(kernel_text, "scale", 86, NULL, &image));
    gy_text_free(&image);
    image = (gy_text){.data = NULL};
    assert_status(gy_cuda_compile(kernel_text, "scale", 35, NULL, &image), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "compute capability 3.5: it begins with 5.0"));
    gy_cuda_device *device = open_device();
    gy_cuda_module *module = NULL;
    gy_text_add(&image, "this is no image of anything");
    assert_status(gy_cuda_module_open(device, &image, "node 'loss'", &module), GY_STATE);
    assert_string_equal(
        gy_error_text(),
        "kernel of node 'loss': no image of the stand-in: device 0 (Stand-in 0): "
        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (200): device kernel image "
        "is invalid");
    gy_text_free(&image);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

/* ---- each call fails ---- */

/* Calls whose failure is a warning, since they give something back, or that only tell of
 * others. */
static bool is_forgiven(const char *symbol)
{
    return strstr(symbol, "Destroy") != NULL || strstr(symbol, "Free") != NULL ||
           strstr(symbol, "Unload") != NULL || strstr(symbol, "Release") != NULL ||
           strstr(symbol, "cuGetError") != NULL;
}

/* The n-th call of the symbol gives the code. */
static void fail_once(const char *symbol, int n, int code)
{
    const int64_t live = gy_alloc_live();
    scene s = {.device = NULL};
    standin->reset((uint64_t)n);
    standin->fail_call(symbol, n, code);
    const gy_status status = begin(&s);
    char text[1024];
    (void)gy_print(text, sizeof(text), "%s", status < 0 ? gy_error_text() : "");
    const bool has_come = standin->count(symbol) >= n;
    end(&s);
    const bool is_named = strncmp(symbol, "nvrtc", 5) == 0 ? strstr(text, "NVRTC") != NULL
                                                           : strstr(text, symbol) != NULL;
    if (has_come && (status == GY_OK ? !is_forgiven(symbol) : !is_named)) {
        fail_msg("call %d of %s gives %d: %s, \"%s\"", n, symbol, code, gy_status_text(status),
                 text);
    }
    if (standin->live() != 0 || gy_alloc_live() != live) {
        fail_msg("call %d of %s gives %d: %d things and %lld allocations are left", n, symbol,
                 code, standin->live(), (long long)(gy_alloc_live() - live));
    }
    standin_expect_clean();
}

GY_TEST(each_call_that_fails_is_one_failure)
{
    const char *symbols[128];
    int counts[128], count = 0, cases = 0;
    scene s = {.device = NULL};
    standin_needed();
    standin->reset(1);
    assert_ok(begin(&s));
    end(&s);
    for (const char *symbol; (symbol = standin->called(count)) != NULL; count++) {
        symbols[count] = symbol;
        counts[count] = standin->count(symbol);
    }
    assert_true(count > 25);
    standin_expect_clean();
    gy_log_set_level(GY_LOG_ERROR); /* of what gives something back there are warnings */
    for (int i = 0; i < count; i++) {
        const bool is_driver = strncmp(symbols[i], "nvrtc", 5) != 0;
        const int calls = (int)GY_MIN((long)counts[i], gy_test_cases(8));
        for (int n = 1; n <= calls; n++, cases++) {
            fail_once(symbols[i], n, is_driver ? GY_CUDA_INVALID_VALUE : 5);
            if (is_driver) {
                fail_once(symbols[i], n, GY_CUDA_LAUNCH_FAILED);
            }
        }
    }
    gy_log_set_level(GY_LOG_WARN);
    printf("%d calls of %d functions failed\n", cases, count);
}

GY_TEST(without_memory_of_the_host_nothing_is_left)
{
    for (int64_t n = 1; n <= 8; n++) {
        const int64_t live = gy_alloc_live();
        scene s = {.device = NULL};
        standin->reset(1);
        gy_alloc_fail_after(n);
        const gy_status status = begin(&s);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        end(&s);
        standin_expect_clean();
        assert_int_equal(gy_alloc_live(), live);
    }
}

GY_TEST_MAIN(standin_find, NULL)
