/**
 * Kernels as text: of a row over given views, CUDA C, how it is launched, and the words that it
 * is launched with. A pure function: no device, no library, no clock; a compiler for the device
 * (NVRTC) or, in the tests, the C compiler makes a kernel of the text.
 *
 * A text holds what decides its shape (types, ranks, which strides repeat); sizes, strides and
 * attributes are words of the launch. So one text serves many shapes, and its bytes are the key
 * of a cache.
 */
#ifndef GY_OPS_CUDA_TEXT_TEXT_H
#define GY_OPS_CUDA_TEXT_TEXT_H

#include "base/base.h"
#include "ops/ops.h"

enum {
    GY_CUDA_LAUNCHES_MAX = 8,
    GY_CUDA_NUMBERS_MAX = 384,
    /* Pointers of inputs and outputs, workspace, fault, and the numbers. */
    GY_CUDA_WORDS_MAX = GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX + 2 + GY_CUDA_NUMBERS_MAX,
};

/** One kernel of a text: grid (blocks, 1, 1), block (threads, 1, 1), no dynamic shared memory.
 */
typedef struct gy_cuda_launch {
    char name[32];
    int64_t blocks; /* 0: nothing to launch */
    int threads;
} gy_cuda_launch;

/**
 * The kernels of one application of a row. Launches run in their order, in one stream. Each
 * kernel has one parameter, by value: a struct of 8-byte words, gy_cuda_text_words.
 */
typedef struct gy_cuda_text {
    const char *reason; /* static; NULL: there is a text. Else why the row runs on the CPU */
    gy_text source;
    int launch_count;
    gy_cuda_launch launches[GY_CUDA_LAUNCHES_MAX];
    int input_count, output_count;
    int number_count;
    uint64_t numbers[GY_CUDA_NUMBERS_MAX];
    size_t workspace_bytes; /* in device memory, aligned to 16 bytes; contents do not matter */
    /*
     * Input whose integers are checked; -1: none. The caller sets *fault to UINT64_MAX before
     * the first launch; afterwards it is that, or the row-major place of the first integer
     * outside [0, index_size), and the outputs are worthless. gy_call_index has the message.
     */
    int index_input;
    const char *index_what; /* "label" */
    int64_t index_size;
    uint8_t in_place;  /* as in gy_kernel */
    bool in_place_any; /* as in gy_kernel */
} gy_cuda_text;

/**
 * Print the kernels of a row.
 *
 * @param call  op, attributes, views (data is not looked at), offsets and global types; strided
 *              inputs are taken by element-wise rows, reductions and programs alone
 * @param text  written whole; the caller owns it, gy_cuda_text_fini. Where text->reason says
 *              so there is no kernel for this row, or none for these views
 * @return GY_OK; GY_NOMEM
 * @threads any
 * @cost some 10 us
 */
GY_MUST_CHECK gy_status gy_cuda_text_make(const gy_kernel_call *call, gy_cuda_text *text);
void gy_cuda_text_fini(gy_cuda_text *text);

/**
 * The part of a convolution that a product of matrices leaves: images (N,C,H,W) to columns
 * (N, C R S, P Q), or for conv2d_input_gradient the columns back to images, where those that
 * overlap add up. With f as (K, C R S) and dy_n as (K, P Q), for each image n:
 *
 *     conv2d:                  y_n = f columns_n
 *     conv2d_input_gradient:   columns_n = t(f) dy_n, then this text
 *     conv2d_filter_gradient:  df = sum of dy_n t(columns_n)
 *
 * Or columns of all images are joined, (C R S, N P Q), and with y and dy as (K, N P Q):
 * y = f columns, columns = t(f) dy, df = dy t(columns).
 *
 * @param call   one of the three rows; images are dense
 * @param is_joined  the columns are
 * @param sizes  takes those of the columns, whose element type is the images'
 * @param text   of one input and one output: images and columns, or columns and images
 * @return as gy_cuda_text_make
 * @threads any
 */
GY_MUST_CHECK gy_status gy_cuda_text_columns(const gy_kernel_call *call, bool is_joined,
                                             int64_t sizes[3], gy_cuda_text *text);

/**
 * What a matmul or conv2d does to its result when the product is there: bias, then activation.
 *
 * @param call  the row's
 * @param text  of one output, the result, which is read and written; and one input, the bias,
 *              where there is one. A reason where neither is asked for
 * @return as gy_cuda_text_make
 * @threads any
 */
GY_MUST_CHECK gy_status gy_cuda_text_finish(const gy_kernel_call *call, gy_cuda_text *text);

/** Of a matmul_update, what its product and what it adds to are multiplied by, for a library
 * that reads both on the device: -s, and 1 half of GY_CUDA_SCALES_BYTES behind it, in s's type.
 * @param text  of one input, s, and one output of GY_CUDA_SCALES_BYTES
 * @return as gy_cuda_text_make @threads any */
GY_MUST_CHECK gy_status gy_cuda_text_scales(const gy_kernel_call *call, gy_cuda_text *text);
enum { GY_CUDA_SCALES_BYTES = 32 };

/** Why a row never has a text; NULL: over some views it has one. Static. @threads any */
const char *gy_cuda_text_reason(const gy_op *op);

/**
 * The words that every launch of the text gets: inputs, outputs, workspace, fault, numbers.
 *
 * @param inputs, outputs  device addresses of the first elements
 * @param fault            8 bytes of device memory; 0 where index_input is -1
 * @return how many words there are
 * @threads any
 */
int gy_cuda_text_words(const gy_cuda_text *text, const uint64_t *inputs,
                       const uint64_t *outputs, uint64_t workspace, uint64_t fault,
                       uint64_t words[GY_CUDA_WORDS_MAX]);

#endif
