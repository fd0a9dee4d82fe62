/* Goal: the stand-in for a device complains of what a device forgives, so that tests on it mean
 * something.
 */
#include "standin/standin_kit.h"

#include <signal.h>

enum { BYTES = 1000 };

/* A device with what misuse needs. */
typedef struct bench {
    const gy_cuda_driver *driver;
    gy_cuda_device *device;
    gy_cuda_stream *one, *two;
    gy_cuda_event *event;
    gy_cuda_address block;
    void *pinned;
    char text[BYTES];
} bench;

static bench begin(void)
{
    bench b = {.driver = NULL};
    standin->reset(gy_test_seed());
    assert_ok(gy_cuda_driver_get(&b.driver));
    assert_ok(gy_cuda_device_open(0, BYTES, &b.device));
    assert_ok(gy_cuda_stream_open(b.device, &b.one));
    assert_ok(gy_cuda_stream_open(b.device, &b.two));
    assert_ok(gy_cuda_memory_alloc(b.device, b.one, BYTES, &b.block));
    assert_ok(gy_cuda_pinned_alloc(b.device, BYTES, &b.pinned));
    assert_ok(gy_cuda_stream_wait(b.device, b.one, soon()));
    assert_int_equal(b.driver->event_create(&b.event, GY_CUDA_EVENT_UNTIMED), 0);
    return b;
}

static void end(bench *b)
{
    settle(b->device, b->one);
    settle(b->device, b->two);
    assert_int_equal(b->driver->event_destroy(b->event), 0);
    gy_cuda_memory_free(b->device, b->one, b->block);
    gy_cuda_pinned_free(b->device, b->pinned);
    gy_cuda_stream_close(b->device, b->one);
    gy_cuda_stream_close(b->device, b->two);
    gy_cuda_device_close(b->device);
}

/* ---- each takes one liberty ---- */

static void write_twice_unordered(bench *b)
{
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 1, BYTES));
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 2, BYTES));
}

static void read_unordered(bench *b)
{
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 1, BYTES));
    assert_int_equal(b->driver->copy_out(b->pinned, b->block, BYTES, b->two), 0);
}

static void write_what_is_read(bench *b)
{
    assert_int_equal(b->driver->copy_out(b->pinned, b->block, BYTES, b->one), 0);
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 1, BYTES));
}

static void order_by_too_early_an_event(bench *b)
{
    assert_int_equal(b->driver->event_record(b->event, b->one), 0);
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 1, BYTES));
    assert_ok(gy_cuda_stream_after(b->device, b->two, b->event));
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 2, BYTES));
}

static void free_what_is_used(bench *b)
{
    gy_cuda_address other = 0;
    assert_ok(gy_cuda_memory_alloc(b->device, b->one, BYTES, &other));
    gy_cuda_memory_free(b->device, b->two, other);
}

static void free_twice(bench *b)
{
    gy_cuda_address other = 0;
    assert_ok(gy_cuda_memory_alloc(b->device, b->one, BYTES, &other));
    gy_cuda_memory_free(b->device, b->one, other);
    assert_int_not_equal(b->driver->memory_free(other, b->one), 0);
}

static void use_what_is_freed(bench *b)
{
    gy_cuda_address other = 0;
    assert_ok(gy_cuda_memory_alloc(b->device, b->one, BYTES, &other));
    gy_cuda_memory_free(b->device, b->one, other);
    assert_int_not_equal(b->driver->memory_set(other, 0, 1, b->one), 0);
}

static void give_an_address_of_the_host(bench *b)
{
    assert_int_equal(b->driver->memory_set((uintptr_t)b->text, 0, 1, b->one),
                     GY_CUDA_INVALID_VALUE);
}

static void go_beyond_the_end(bench *b)
{
    assert_int_equal(b->driver->memory_set(b->block + 1, 0, BYTES, b->one),
                     GY_CUDA_INVALID_VALUE);
}

static void copy_from_pageable_memory(bench *b)
{
    assert_int_not_equal(b->driver->copy_in(b->block, b->text, BYTES, b->one), 0);
}

static void use_the_default_stream(bench *b)
{
    assert_int_not_equal(b->driver->memory_set(b->block, 0, BYTES, NULL), 0);
}

static void wait_for_an_event_before_it_is_recorded(bench *b)
{
    assert_int_not_equal(b->driver->stream_wait_event(b->two, b->event, 0), 0);
}

static void pass_unknown_flags(bench *b)
{
    assert_int_equal(b->driver->event_record(b->event, b->one), 0);
    assert_int_not_equal(b->driver->stream_wait_event(b->two, b->event, 4), 0);
}

static void ask_for_an_unknown_attribute(bench *b)
{
    int value = 0;
    assert_int_not_equal(b->driver->device_attribute(&value, 12345, 0), 0);
}

static void work_without_a_context(bench *b)
{
    assert_int_equal(b->driver->context_set(NULL), 0);
    assert_int_equal(b->driver->memory_set(b->block, 0, BYTES, b->one),
                     GY_CUDA_INVALID_CONTEXT);
    gy_cuda_context *context = NULL;
    assert_int_equal(b->driver->context_retain(&context, 0), 0);
    assert_int_equal(b->driver->context_set(context), 0);
    assert_int_equal(b->driver->context_release(0), 0);
}

/* ---- captures ---- */

static gy_cuda_graph *capture_fill(bench *b, gy_cuda_address to)
{
    gy_cuda_graph *graph = NULL;
    assert_int_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    assert_int_equal(b->driver->memory_set(to, 1, BYTES, b->one), 0);
    assert_int_equal(b->driver->capture_end(b->one, &graph), 0);
    return graph;
}

/* What it was captured for may not be called meanwhile: the capture is lost. */
static void expect_lost_capture(bench *b)
{
    gy_cuda_graph *graph = NULL;
    assert_int_equal(b->driver->capture_end(b->one, &graph), GY_CUDA_CAPTURE_INVALIDATED);
    assert_null(graph);
}

static void ask_while_it_captures(bench *b)
{
    assert_int_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    (void)b->driver->stream_query(b->two);
    expect_lost_capture(b);
}

static void allocate_while_it_captures(bench *b)
{
    void *memory = NULL;
    assert_int_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    assert_int_equal(b->driver->host_alloc(&memory, BYTES, 0), 0);
    expect_lost_capture(b);
    assert_int_equal(b->driver->host_free(memory), 0);
}

static void record_while_it_captures(bench *b)
{
    assert_int_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    assert_int_equal(b->driver->event_record(b->event, b->two), 0);
    expect_lost_capture(b);
}

static void capture_twice(bench *b)
{
    gy_cuda_graph *graph = NULL;
    assert_int_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    assert_int_not_equal(b->driver->capture_begin(b->one, GY_CUDA_CAPTURE_THREAD), 0);
    assert_int_not_equal(b->driver->capture_end(b->one, &graph), 0);
}

static void end_without_a_capture(bench *b)
{
    gy_cuda_graph *graph = NULL;
    assert_int_not_equal(b->driver->capture_end(b->one, &graph), 0);
}

static void launch_with_memory_that_is_freed(bench *b)
{
    gy_cuda_graph_exec *exec = NULL;
    gy_cuda_address other = 0;
    assert_ok(gy_cuda_memory_alloc(b->device, b->one, BYTES, &other));
    gy_cuda_graph *graph = capture_fill(b, other);
    assert_int_equal(b->driver->graph_instantiate(&exec, graph, 0), 0);
    gy_cuda_memory_free(b->device, b->one, other);
    assert_int_not_equal(b->driver->graph_launch(exec, b->one), 0);
    assert_int_equal(b->driver->graph_destroy(graph), 0);
    assert_int_equal(b->driver->graph_exec_destroy(exec), 0);
}

static void launch_a_graph_unordered(bench *b)
{
    gy_cuda_graph_exec *exec = NULL;
    gy_cuda_graph *graph = capture_fill(b, b->block);
    assert_int_equal(b->driver->graph_instantiate(&exec, graph, 0), 0);
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 2, BYTES));
    assert_int_equal(b->driver->graph_launch(exec, b->one), 0);
    assert_int_equal(b->driver->graph_destroy(graph), 0);
    assert_int_equal(b->driver->graph_exec_destroy(exec), 0);
}

static void destroy_a_graph_twice(bench *b)
{
    gy_cuda_graph *graph = capture_fill(b, b->block);
    assert_int_equal(b->driver->graph_destroy(graph), 0);
    assert_int_not_equal(b->driver->graph_destroy(graph), 0);
}

static void instantiate_with_unknown_flags(bench *b)
{
    gy_cuda_graph_exec *exec = NULL;
    gy_cuda_graph *graph = capture_fill(b, b->block);
    assert_int_not_equal(b->driver->graph_instantiate(&exec, graph, 8), 0);
    assert_int_equal(b->driver->graph_destroy(graph), 0);
}

GY_TEST(liberties_are_complaints)
{
    static const struct {
        void (*take)(bench *b);
        const char *words;
    } cases[] = {
        {write_twice_unordered,
         "cuMemsetD8Async in stream 0 use the same 1000 bytes, and no event"},
        {read_unordered, "cuMemcpyDtoHAsync_v2 in stream 1 and cuMemsetD8Async in stream 0"},
        {write_what_is_read,
         "cuMemsetD8Async in stream 1 and cuMemcpyDtoHAsync_v2 in stream 0"},
        {order_by_too_early_an_event, "no event orders them"},
        {free_what_is_used, "cuMemFreeAsync in stream 1 and cuMemAllocAsync in stream 0"},
        {free_twice, "cuMemFreeAsync"},
        {use_what_is_freed, "cuMemsetD8Async"},
        {give_an_address_of_the_host, "is no device memory"},
        {go_beyond_the_end, "of 1000 bytes goes beyond its block of 1000"},
        {copy_from_pageable_memory, "the host's memory is not pinned"},
        {use_the_default_stream, "the default stream"},
        {wait_for_an_event_before_it_is_recorded, "used before it is recorded"},
        {pass_unknown_flags, "unknown flags"},
        {ask_for_an_unknown_attribute, "unknown attribute"},
        {work_without_a_context, "no context is current"},
        {ask_while_it_captures, "cuStreamQuery: while this thread captures a stream"},
        {allocate_while_it_captures, "cuMemHostAlloc: while this thread captures a stream"},
        {record_while_it_captures, "cuEventRecord: while this thread captures a stream"},
        {capture_twice, "cuStreamBeginCapture_v2: "},
        {end_without_a_capture, "this thread captures no such stream"},
        {launch_with_memory_that_is_freed, "cuMemsetD8Async"},
        {launch_a_graph_unordered,
         "cuMemsetD8Async in stream 0 and cuMemsetD8Async in stream 1"},
        {destroy_a_graph_twice, "cuGraphDestroy: no graph"},
        {instantiate_with_unknown_flags, "unknown flags"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        bench b = begin();
        cases[i].take(&b);
        end(&b);
        standin_expect_complaint(cases[i].words);
    }
}

static void order_by_an_event(bench *b)
{
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 1, BYTES));
    assert_int_equal(b->driver->event_record(b->event, b->one), 0);
    assert_ok(gy_cuda_stream_after(b->device, b->two, b->event));
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 2, BYTES));
}

static void order_by_the_host(bench *b)
{
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 1, BYTES));
    assert_ok(gy_cuda_stream_wait(b->device, b->one, soon()));
    assert_ok(gy_cuda_fill(b->device, b->two, b->block, 2, BYTES));
}

/* What is captured does not run, and its graph does so each time that it is launched. */
static void launch_a_graph(bench *b)
{
    gy_cuda_graph_exec *exec = NULL;
    const char *bytes = b->pinned;
    assert_ok(gy_cuda_fill(b->device, b->one, b->block, 7, BYTES));
    gy_cuda_graph *graph = capture_fill(b, b->block);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b->driver->copy_out(b->pinned, b->block, BYTES, b->one), 0);
        assert_ok(gy_cuda_stream_wait(b->device, b->one, soon()));
        assert_int_equal(bytes[BYTES - 1], i == 0 ? 7 : 1);
        if (i == 0) {
            assert_int_equal(b->driver->graph_instantiate(&exec, graph, 0), 0);
            assert_int_equal(b->driver->graph_destroy(graph), 0);
        }
        assert_int_equal(b->driver->graph_launch(exec, b->one), 0);
    }
    assert_int_equal(b->driver->graph_exec_destroy(exec), 0); /* its last launch ends */
}

static void read_side_by_side(bench *b)
{
    assert_int_equal(b->driver->copy_out(b->pinned, b->block, 1, b->one), 0);
    assert_int_equal(b->driver->copy_out(b->pinned, b->block, 1, b->two), 0);
}

GY_TEST(what_is_ordered_is_none)
{
    void (*const cases[])(bench * b) = {order_by_an_event, order_by_the_host, launch_a_graph,
                                        read_side_by_side};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        bench b = begin();
        cases[i](&b);
        assert_ok(gy_cuda_stream_wait(b.device, b.two, soon()));
        end(&b);
        standin_expect_clean();
    }
}

/* Which of two streams has come to its end when little has run: bits. */
static unsigned ends_of(bench *b, uint64_t seed)
{
    gy_cuda_stream *streams[] = {b->one, b->two};
    gy_cuda_event *events[2] = {NULL, NULL};
    unsigned ends = 0;
    standin->stall(true);
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_cuda_event_record(b->device, streams[i], &events[i]));
    }
    standin->order(seed);
    standin->stall(false);
    for (unsigned i = 0; i < 2; i++) {
        ends |= gy_cuda_event_poll(b->device, events[i]) == GY_OK ? 1u << i : 0;
        standin->stall(true);
    }
    standin->stall(false);
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_cuda_event_wait(b->device, events[i], soon()));
        gy_cuda_event_drop(b->device, events[i]);
    }
    return ends;
}

GY_TEST(streams_run_in_any_order_of_a_seed)
{
    int times[4] = {0, 0, 0, 0};
    bench b = begin();
    for (uint64_t seed = 0; seed < 300; seed++) {
        const unsigned ends = ends_of(&b, seed);
        assert_int_equal(ends_of(&b, seed), ends);
        times[ends]++;
    }
    end(&b);
    standin_expect_clean();
    assert_true(times[1] > 0 && times[2] > 0 && times[3] > 0);
}

GY_TEST(a_wait_is_for_the_record_that_it_saw)
{
    enum { FIRST = 1u << 0 };
    gy_cuda_event *behind = NULL;
    bench b = begin();
    standin->hold(FIRST);
    assert_int_equal(b.driver->event_record(b.event, b.one), 0);
    assert_ok(gy_cuda_stream_after(b.device, b.two, b.event));
    assert_ok(gy_cuda_event_record(b.device, b.two, &behind));
    gy_cuda_stream *third = NULL;
    assert_ok(gy_cuda_stream_open(b.device, &third));
    assert_int_equal(b.driver->event_record(b.event, third), 0);
    assert_ok(gy_cuda_event_wait(b.device, b.event, soon()));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(gy_cuda_event_poll(b.device, behind), GY_AGAIN);
    }
    standin->hold(0);
    assert_ok(gy_cuda_event_wait(b.device, behind, soon()));
    gy_cuda_event_drop(b.device, behind);
    gy_cuda_stream_close(b.device, third);
    end(&b);
    standin_expect_clean();
}

/* In a process of its own; how it ends. */
static int end_of(void (*body)(void))
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        body();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void leave_memory(void)
{
    bench b = begin();
    gy_cuda_pinned_free(b.device, b.pinned);
}

static void leave_a_graph(void)
{
    bench b = begin();
    (void)capture_fill(&b, b.block);
    end(&b);
}

static void read_on_the_host(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would tell of it */
    bench b = begin();
    volatile const char *byte = (const char *)(uintptr_t)b.block;
    printf("%d\n", byte[0]);
}

GY_TEST(leaks_and_reads_by_the_host_end_the_process)
{
    standin->reset(1);
    int status = end_of(leave_memory);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == STANDIN_EXIT);
    status = end_of(leave_a_graph);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == STANDIN_EXIT);
    status = end_of(read_on_the_host);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

GY_TEST_MAIN(standin_find, NULL)
