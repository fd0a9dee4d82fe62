/**
 * Kernels of texts on a device: what cuda_text_kit.h does instead of the C compiler where
 * GYRE_TEST_DEVICE is set. Each view lies in memory of the device that ends where the view
 * does.
 */
#ifndef GY_TESTS_CUDA_TEXT_DEVICE_H
#define GY_TESTS_CUDA_TEXT_DEVICE_H

#include "ops/cuda/text/text.h"
#include "standin/standin_kit.h"
#include "tensor/tensor.h"

typedef struct texts_device {
    gy_cuda_device *device; /* NULL: the kernels run here */
    gy_cuda_stream *stream;
    gy_cuda_module **modules; /* of each distinct source */
    int module_count;
} texts_device;

/* What a view reaches of its memory, from its first element on. */
typedef struct texts_block {
    void *data;
    size_t size_bytes;
    gy_cuda_address address;
} texts_block;

enum { TEXTS_BLOCKS_MAX = GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX };

static inline bool texts_wants_device(void)
{
    return getenv("GYRE_TEST_DEVICE") != NULL;
}

static inline void texts_device_open(texts_device *on, int module_count)
{
    assert_int_equal(standin_find(NULL), 0);
    standin->reset(gy_test_seed());
    assert_ok(gy_cuda_device_open(0, 0, &on->device));
    assert_ok(gy_cuda_stream_open(on->device, &on->stream));
    on->modules = gy_alloc_zero("test.modules", (size_t)module_count, sizeof(*on->modules));
    on->module_count = module_count;
}

static inline void texts_device_close(texts_device *on)
{
    if (on->device != NULL) {
        for (int i = 0; i < on->module_count; i++) {
            gy_cuda_module_close(on->device, on->modules[i]);
        }
        gy_free(on->modules);
        gy_cuda_stream_close(on->device, on->stream);
        gy_cuda_device_close(on->device);
        standin_expect_clean();
    }
}

static inline void texts_device_compile(texts_device *on, int source, const gy_cuda_text *text)
{
    gy_text image = {.data = NULL};
    const int capability = gy_cuda_device_properties(on->device)->capability;
    assert_ok(gy_cuda_compile(gy_text_get(&text->source), text->launches[0].name, capability,
                              NULL, &image));
    assert_ok(
        gy_cuda_module_open(on->device, &image, text->launches[0].name, &on->modules[source]));
    gy_text_free(&image);
}

/* The view's address on the device. Views of the same memory share a block. */
static inline uint64_t texts_device_send(const texts_device *on, const gy_view *view,
                                         texts_block *blocks, int *count)
{
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++) {
        assert_true(view->strides[d] >= 0);
        last += (view->sizes[d] - 1) * view->strides[d];
    }
    if (gy_view_count(view) == 0) {
        return 0;
    }
    const size_t size_bytes = (size_t)(last + 1) * gy_dtype_bytes(view->dtype);
    for (int i = 0; i < *count; i++) {
        if (blocks[i].data == view->data && blocks[i].size_bytes == size_bytes) {
            return blocks[i].address;
        }
    }
    texts_block *block = &blocks[(*count)++];
    *block = (texts_block){.data = view->data, .size_bytes = size_bytes};
    assert_ok(gy_cuda_memory_alloc(on->device, on->stream, size_bytes, &block->address));
    assert_ok(
        gy_cuda_upload(on->device, on->stream, block->address, view->data, size_bytes, soon()));
    return block->address;
}

/* Memory for the text itself, filled with one byte; 0 where it takes none. */
static inline uint64_t texts_device_fill(const texts_device *on, size_t size_bytes,
                                         uint8_t value)
{
    gy_cuda_address address = 0;
    if (size_bytes > 0) {
        assert_ok(gy_cuda_memory_alloc(on->device, on->stream, size_bytes, &address));
        assert_ok(gy_cuda_fill(on->device, on->stream, address, value, size_bytes));
    }
    return address;
}

static inline void texts_device_launch(const texts_device *on, int source,
                                       const gy_cuda_text *text, uint64_t *words)
{
    for (int n = 0; n < text->launch_count; n++) {
        const gy_cuda_launch *launch = &text->launches[n];
        gy_cuda_function *kernel = NULL;
        assert_ok(
            gy_cuda_module_kernel(on->device, on->modules[source], launch->name, &kernel));
        if (launch->blocks > 0) {
            const gy_cuda_grid grid = {.blocks = (unsigned)launch->blocks,
                                       .threads = (unsigned)launch->threads};
            assert_ok(gy_cuda_launch_kernel(on->device, on->stream, kernel, grid, words));
        }
    }
}

/* As texts_run. */
static inline uint64_t texts_device_run(const texts_device *on, int source,
                                        const gy_cuda_text *text, const gy_kernel_call *call)
{
    texts_block blocks[TEXTS_BLOCKS_MAX];
    uint64_t inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX], words[GY_CUDA_WORDS_MAX];
    uint64_t fault = UINT64_MAX;
    int count = 0;
    for (int i = 0; i < call->input_count; i++) {
        inputs[i] = texts_device_send(on, &call->inputs[i], blocks, &count);
    }
    for (int o = 0; o < call->output_count; o++) {
        outputs[o] = texts_device_send(on, &call->outputs[o], blocks, &count);
    }
    const uint64_t workspace = texts_device_fill(on, text->workspace_bytes, 0x7b);
    const bool checks = text->index_input >= 0;
    const uint64_t checked = texts_device_fill(on, checks ? sizeof(fault) : 0, 0xff);
    (void)gy_cuda_text_words(text, inputs, outputs, workspace, checked, words);
    texts_device_launch(on, source, text, words);
    for (int o = 0; o < call->output_count; o++) {
        for (int i = 0; i < count; i++) {
            if (outputs[o] == blocks[i].address) {
                assert_ok(gy_cuda_download(on->device, on->stream, blocks[i].data,
                                           blocks[i].address, blocks[i].size_bytes, soon()));
            }
        }
    }
    if (checks) {
        assert_ok(
            gy_cuda_download(on->device, on->stream, &fault, checked, sizeof(fault), soon()));
    }
    for (int i = 0; i < count; i++) {
        gy_cuda_memory_free(on->device, on->stream, blocks[i].address);
    }
    gy_cuda_memory_free(on->device, on->stream, workspace);
    gy_cuda_memory_free(on->device, on->stream, checked);
    assert_ok(gy_cuda_stream_wait(on->device, on->stream, soon()));
    return fault;
}

#endif
