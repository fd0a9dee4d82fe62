/* Goal: copies run beside kernels that leave their memory alone, and whatever is queued acts as
 * if each piece began when all before it had ended. */
#include "cuda/order_kit.h"

enum { BLOCKS = 5, PIECES = 60 };

static void wait_for(gy_device *device, uint64_t mark)
{
    const gy_deadline deadline = soon();
    gy_status status = GY_AGAIN;
    while (status == GY_AGAIN && gy_now_ns(gy_env_real()) < deadline.at_ns) {
        status = device->ops->poll(device, mark);
    }
    assert_ok(status);
}

GY_TEST(a_copy_waits_for_no_kernel_that_leaves_its_memory_alone)
{
    static float sent[COUNT], got[COUNT];
    enum { KERNELS = 1u << 0 }; /* the executor's first stream */
    gy_device *device = NULL;
    void *blocks[3];
    twice kernel;
    uint64_t mark = 0;
    standin->reset(gy_test_seed());
    assert_ok(gy_cuda_executor_open(0, &device));
    for (int i = 0; i < 3; i++) {
        assert_ok(device->ops->take(device, BYTES, &blocks[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        sent[i] = (float)i;
    }
    twice_new(device, blocks[1], blocks[0], &kernel);
    assert_ok(device->ops->copy_there(device, blocks[0], sent, BYTES, &mark));
    assert_ok(device->ops->copy_there(device, blocks[2], sent, BYTES, &mark));
    assert_ok(device->ops->finish(device, soon()));
    standin->hold(KERNELS);
    assert_ok(device->ops->launch(device, kernel.kernel, &kernel.call));
    const int waits = standin->count("cuStreamWaitEvent");
    assert_ok(device->ops->copy_there(device, blocks[2], sent, BYTES, &mark)); /* the next */
    assert_int_equal(standin->count("cuStreamWaitEvent"), waits);
    wait_for(device, mark);
    assert_ok(device->ops->copy_back(device, got, blocks[2], BYTES, &mark));
    assert_int_equal(standin->count("cuStreamWaitEvent"), waits);
    wait_for(device, mark);
    assert_memory_equal(got, sent, BYTES);
    /* What the kernel writes is waited for, and so is what it reads. */
    assert_ok(device->ops->copy_there(device, blocks[0], got, BYTES, &mark));
    assert_int_equal(standin->count("cuStreamWaitEvent"), waits + 1);
    assert_int_equal(device->ops->poll(device, mark), GY_AGAIN);
    assert_ok(device->ops->copy_back(device, got, blocks[1], BYTES, &mark));
    assert_int_equal(standin->count("cuStreamWaitEvent"), waits + 2);
    assert_int_equal(device->ops->poll(device, mark), GY_AGAIN);
    standin->hold(0);
    wait_for(device, mark);
    for (int i = 0; i < COUNT; i++) {
        assert_true(got[i] == 2 * (float)i);
    }
    assert_ok(device->ops->finish(device, soon()));
    device->ops->release(device, kernel.kernel);
    for (int i = 0; i < 3; i++) {
        device->ops->give(device, blocks[i]);
    }
    gy_cuda_executor_close(device);
    standin_expect_clean();
}

/* A device, and beside it what its memory holds if all is done at once. */
typedef struct world {
    gy_device *device;
    void *blocks[BLOCKS];
    float wanted[BLOCKS][COUNT];
    float sent[PIECES][COUNT], got[PIECES][COUNT], expected[PIECES][COUNT];
    twice kernels[BLOCKS][BLOCKS];
} world;

static world w;

static void do_piece(gy_random *random, int piece)
{
    const size_t to = gy_random_below(random, BLOCKS);
    const size_t from = (to + 1 + gy_random_below(random, BLOCKS - 1)) % BLOCKS;
    uint64_t mark = 0;
    switch (gy_random_below(random, 8)) {
    case 0:
        for (int i = 0; i < COUNT; i++) {
            w.sent[piece][i] = w.wanted[to][i] = (float)gy_random_below(random, 100);
        }
        assert_ok(
            w.device->ops->copy_there(w.device, w.blocks[to], w.sent[piece], BYTES, &mark));
        break;
    case 1:
        memcpy(w.expected[piece], w.wanted[from], BYTES);
        assert_ok(
            w.device->ops->copy_back(w.device, w.got[piece], w.blocks[from], BYTES, &mark));
        break;
    case 2:
        memcpy(w.wanted[to], w.wanted[from], BYTES);
        assert_ok(w.device->ops->copy_inside(w.device, w.blocks[to], w.blocks[from], BYTES));
        break;
    case 3: /* memory goes while it is used, and comes anew */
        w.device->ops->give(w.device, w.blocks[to]);
        assert_ok(w.device->ops->take(w.device, BYTES, &w.blocks[to]));
        memset(w.wanted[to], 0, BYTES);
        assert_ok(
            w.device->ops->copy_there(w.device, w.blocks[to], w.wanted[to], BYTES, &mark));
        break;
    case 4:
        memset(w.wanted[to], 0x3f, BYTES); /* 0.74707 */
        assert_ok(w.device->ops->fill(w.device, w.blocks[to], 0x3f, BYTES));
        break;
    default:
        for (int i = 0; i < COUNT; i++) {
            w.wanted[to][i] = 2 * w.wanted[from][i];
        }
        twice *kernel = &w.kernels[to][from];
        twice_bind(kernel, w.blocks[to], w.blocks[from]);
        assert_ok(w.device->ops->launch(w.device, kernel->kernel, &kernel->call));
    }
}

GY_TEST(all_acts_as_if_done_at_once)
{
    gy_random random = {.key = gy_test_seed()};
    uint64_t mark = 0;
    memset(&w, 0, sizeof(w));
    standin->reset(gy_random_u64(&random));
    assert_ok(gy_cuda_executor_open(0, &w.device));
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(w.device->ops->take(w.device, BYTES, &w.blocks[i]));
        assert_ok(w.device->ops->copy_there(w.device, w.blocks[i], w.wanted[i], BYTES, &mark));
    }
    for (int to = 0; to < BLOCKS; to++) {
        for (int from = 0; from < BLOCKS; from++) {
            twice_new(w.device, w.blocks[to], w.blocks[from], &w.kernels[to][from]);
        }
    }
    for (long n = 0; n < gy_test_cases(30); n++) {
        standin->order(gy_random_u64(&random));
        memset(w.got, 0, sizeof(w.got));
        memset(w.expected, 0, sizeof(w.expected));
        for (int piece = 0; piece < PIECES; piece++) {
            do_piece(&random, piece);
        }
        assert_ok(w.device->ops->finish(w.device, soon()));
        assert_memory_equal(w.got, w.expected, sizeof(w.got));
    }
    for (int to = 0; to < BLOCKS; to++) {
        for (int from = 0; from < BLOCKS; from++) {
            w.device->ops->release(w.device, w.kernels[to][from].kernel);
        }
        w.device->ops->give(w.device, w.blocks[to]);
    }
    gy_cuda_executor_close(w.device);
    standin_expect_clean();
}

GY_TEST_MAIN(standin_find, NULL)
