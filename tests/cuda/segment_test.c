/* Goal: what a device is given to launch together becomes a graph when it comes again as it
 * was, with the values of launches one by one; graphs are bounded and end with their kernels,
 * and without them the device goes on where it can. */
#include "cuda/order_kit.h"

enum { BLOCKS = 4, LENGTH = BLOCKS, GRAPHS_MAX = 64 };

/* A chain: block i + 1 is twice block i, and a copy of the last to the first. */
typedef struct chain {
    gy_device *device;
    void *blocks[BLOCKS];
    twice kernels[LENGTH - 1];
    gy_kernel_call copy;
    gy_view copied[2];
    gy_device_work work[LENGTH];
    double value; /* of all elements of the first block */
} chain;

static gy_device_counts counts_of(const chain *c)
{
    gy_device_counts counts;
    c->device->ops->count(c->device, &counts);
    return counts;
}

static void set_first(chain *c, double value)
{
    float sent[COUNT];
    uint64_t mark = 0;
    for (int i = 0; i < COUNT; i++) {
        sent[i] = (float)value;
    }
    c->value = value;
    assert_ok(c->device->ops->copy_there(c->device, c->blocks[0], sent, BYTES, &mark));
}

static chain begin(void)
{
    chain c = {.value = 1};
    standin->reset(gy_test_seed());
    assert_ok(gy_cuda_executor_open(0, &c.device));
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(c.device->ops->take(c.device, BYTES, &c.blocks[i]));
    }
    set_first(&c, 1);
    return c;
}

/* The work points into the chain, which stays where it is. */
static void add_work(chain *c)
{
    for (int i = 0; i < LENGTH - 1; i++) {
        twice_new(c->device, c->blocks[i + 1], c->blocks[i], &c->kernels[i]);
        c->work[i] = (gy_device_work){c->kernels[i].kernel, &c->kernels[i].call, "twice"};
    }
    c->copied[0] = view_of(c->blocks[0]);
    c->copied[1] = view_of(c->blocks[BLOCKS - 1]);
    c->copy = (gy_kernel_call){.inputs = c->copied, .input_count = 2};
    c->work[LENGTH - 1] = (gy_device_work){NULL, &c->copy, "copy"};
}

static void release_work(chain *c)
{
    for (int i = 0; i < LENGTH - 1; i++) {
        c->device->ops->release(c->device, c->kernels[i].kernel);
    }
}

static void end(chain *c)
{
    for (int i = 0; i < BLOCKS; i++) {
        c->device->ops->give(c->device, c->blocks[i]);
    }
    gy_cuda_executor_close(c->device);
    standin_expect_clean();
}

static void launch(chain *c)
{
    assert_ok(c->device->ops->launch_all(c->device, c->work, LENGTH));
    c->value *= 1 << (LENGTH - 1);
}

static void check_chain(chain *c)
{
    float got[COUNT];
    uint64_t mark = 0;
    assert_ok(c->device->ops->copy_back(c->device, got, c->blocks[0], BYTES, &mark));
    assert_ok(c->device->ops->finish(c->device, soon()));
    for (int i = 0; i < COUNT; i++) {
        assert_true((double)got[i] == c->value);
    }
}

GY_TEST(what_comes_again_is_one_launch)
{
    chain c = begin();
    add_work(&c);
    for (int i = 0; i < 5; i++) {
        launch(&c);
    }
    check_chain(&c);
    assert_int_equal(counts_of(&c).graphs, 4); /* all but the first */
    assert_int_equal(counts_of(&c).kernels, 5 * (LENGTH - 1));
    assert_int_equal(counts_of(&c).launches, LENGTH - 1 + 4);
    assert_int_equal(standin->count("cuGraphInstantiateWithFlags"), 1);
    /* A value that is fed between is the next launch's, and waits for the one before. */
    for (int i = 0; i < 3; i++) {
        set_first(&c, i + 1);
        launch(&c);
        check_chain(&c);
    }
    assert_int_equal(counts_of(&c).graphs, 7);
    release_work(&c);
    end(&c);
}

GY_TEST(another_address_is_another_segment)
{
    chain c = begin();
    add_work(&c);
    for (int i = 0; i < 3; i++) {
        launch(&c);
    }
    const int made = standin->count("cuGraphInstantiateWithFlags");
    const gy_device_counts before = counts_of(&c);
    /* The middle of the chain goes another way: over the last block, twice. */
    twice_bind(&c.kernels[1], c.blocks[3], c.blocks[1]);
    twice_bind(&c.kernels[2], c.blocks[2], c.blocks[3]);
    c.copied[1] = view_of(c.blocks[2]);
    launch(&c);
    assert_int_equal(counts_of(&c).graphs, before.graphs);
    assert_int_equal(counts_of(&c).launches, before.launches + LENGTH - 1);
    launch(&c);
    assert_int_equal(counts_of(&c).graphs, before.graphs + 1);
    assert_int_equal(standin->count("cuGraphInstantiateWithFlags"), made + 1);
    check_chain(&c);
    release_work(&c);
    end(&c);
}

GY_TEST(graphs_are_bounded_and_end_with_their_kernels)
{
    static twice kernels[GRAPHS_MAX + 8];
    gy_device_work work[GRAPHS_MAX + 8][2];
    chain c = begin();
    const int count = (int)GY_COUNT(kernels);
    for (int i = 0; i < count; i++) {
        twice_new(c.device, c.blocks[1], c.blocks[0], &kernels[i]);
        work[i][0] = work[i][1] =
            (gy_device_work){kernels[i].kernel, &kernels[i].call, "twice"};
    }
    assert_ok(c.device->ops->launch(c.device, kernels[0].kernel, &kernels[0].call));
    assert_ok(c.device->ops->finish(c.device, soon())); /* its events are there */
    const int live = standin->live();
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            assert_ok(c.device->ops->launch_all(c.device, work[i], 2));
        }
        assert_int_equal(standin->live(), live + GY_MIN(i + 1, GRAPHS_MAX));
    }
    /* The least recently used went: the first are new again, the last are not. */
    const int made = standin->count("cuGraphInstantiateWithFlags");
    assert_int_equal(made, count);
    assert_ok(c.device->ops->launch_all(c.device, work[count - 1], 2));
    assert_int_equal(counts_of(&c).graphs, 2 * count + 1);
    assert_ok(c.device->ops->launch_all(c.device, work[0], 2));
    assert_int_equal(counts_of(&c).graphs, 2 * count + 1);
    for (int i = 0; i < count; i++) {
        c.device->ops->release(c.device, kernels[i].kernel);
    }
    assert_int_equal(standin->live(), live); /* while the last of them may run yet */
    assert_ok(c.device->ops->finish(c.device, soon()));
    end(&c);
}

GY_TEST(without_room_for_a_graph_kernels_are_launched_one_by_one)
{
    static const struct {
        const char *symbol;
        int code;
    } cases[] = {{"cuStreamBeginCapture_v2", GY_CUDA_OUT_OF_MEMORY},
                 {"cuStreamEndCapture", GY_CUDA_CAPTURE_INVALIDATED},
                 {"cuGraphInstantiateWithFlags", GY_CUDA_OUT_OF_MEMORY},
                 {"cuGraphLaunch", GY_CUDA_OUT_OF_MEMORY}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        chain c = begin();
        add_work(&c);
        launch(&c);
        standin->fail_call(cases[i].symbol, 1, cases[i].code);
        launch(&c);
        const bool is_made = strcmp(cases[i].symbol, "cuGraphLaunch") == 0;
        assert_int_equal(counts_of(&c).graphs, 0);
        launch(&c); /* what cannot be captured is not tried again */
        assert_int_equal(counts_of(&c).graphs, is_made ? 1 : 0);
        assert_int_equal(standin->count("cuStreamBeginCapture_v2"), 1);
        assert_int_equal(counts_of(&c).kernels, 3 * (LENGTH - 1));
        check_chain(&c);
        release_work(&c);
        end(&c);
    }
}

GY_TEST(a_failure_in_a_capture_is_told_and_leaves_nothing)
{
    static const char *const symbols[] = {
        "cuLaunchKernel",     "cuMemcpyDtoDAsync_v2",        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    for (size_t i = 0; i < 2 * GY_COUNT(symbols); i++) {
        const char *symbol = symbols[i / 2];
        const bool is_lost = i % 2 == 1;
        const int64_t live = gy_alloc_live();
        chain c = begin();
        add_work(&c);
        launch(&c);
        standin->fail_call(symbol, 1, is_lost ? GY_CUDA_LAUNCH_FAILED : GY_CUDA_INVALID_VALUE);
        assert_status(c.device->ops->launch_all(c.device, c.work, LENGTH),
                      is_lost ? GY_PEER : GY_STATE);
        assert_non_null(strstr(gy_error_text(), symbol));
        release_work(&c);
        end(&c);
        assert_int_equal(gy_alloc_live(), live);
    }
}

GY_TEST(without_memory_of_the_host_no_graph_is_left)
{
    for (int64_t n = 1; n <= 3; n++) {
        const int64_t live = gy_alloc_live();
        chain c = begin();
        add_work(&c);
        launch(&c);
        gy_alloc_fail_after(n);
        launch(&c);
        gy_alloc_fail_after(0);
        check_chain(&c);
        release_work(&c);
        end(&c);
        assert_int_equal(gy_alloc_live(), live);
    }
}

GY_TEST(graphs_can_be_switched_off)
{
    gy_device *device = NULL;
    assert_int_equal(setenv("GYRE_DEVICE_GRAPHS", "maybe", 1), 0);
    assert_status(gy_cuda_executor_open(0, &device), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "GYRE_DEVICE_GRAPHS"));
    assert_int_equal(setenv("GYRE_DEVICE_GRAPHS", "off", 1), 0);
    chain c = begin();
    add_work(&c);
    for (int i = 0; i < 3; i++) {
        launch(&c);
    }
    check_chain(&c);
    assert_int_equal(counts_of(&c).graphs, 0);
    assert_int_equal(standin->count("cuStreamBeginCapture_v2"), 0);
    release_work(&c);
    end(&c);
    assert_int_equal(unsetenv("GYRE_DEVICE_GRAPHS"), 0);
}

GY_TEST_MAIN(standin_find, NULL)
