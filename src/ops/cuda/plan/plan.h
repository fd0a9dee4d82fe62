/**
 * What the kernel of a row consists of: texts, products by cuBLASLt, and the steps that run
 * them, one behind another, on parts of inputs, outputs and workspace. Pure: no device.
 */
#ifndef GY_OPS_CUDA_PLAN_PLAN_H
#define GY_OPS_CUDA_PLAN_PLAN_H

#include "ops/cuda/plan/shape.h"
#include "ops/cuda/text/text.h"

enum { GY_CUDA_PLAN_TEXTS_MAX = 5, GY_CUDA_PLAN_PRODUCTS_MAX = 4 };

typedef enum gy_cuda_where {
    GY_CUDA_NOWHERE,
    GY_CUDA_INPUT,
    GY_CUDA_OUTPUT,
    GY_CUDA_WORKSPACE
} gy_cuda_where;

/** A part of what a call has. */
typedef struct gy_cuda_place {
    gy_cuda_where where;
    int index; /* of the input or output */
    size_t offset_bytes;
} gy_cuda_place;

/** One text or one product. */
typedef struct gy_cuda_step {
    bool is_product;
    int index;                 /* among the plan's texts or products */
    bool takes_all;            /* a text whose inputs and outputs are the call's */
    gy_cuda_place in, out;     /* of another text, which has one of each at most */
    gy_cuda_place a, b, c;     /* of a product, as the next two */
    gy_cuda_place bias, added; /* NOWHERE: none; of what it adds to: c itself */
    gy_cuda_place scales;      /* two numbers, gy_cuda_text_scales */
    gy_cuda_place workspace;   /* of the text or the product */
} gy_cuda_step;

/** What the plan may reckon with. */
typedef struct gy_cuda_plan_options {
    bool has_products;    /* there is cuBLASLt */
    bool may_round;       /* float32 operands of products to TF32 */
    bool joins_nothing;   /* no bias and activation to products: a text behind does that */
    size_t product_bytes; /* of the workspace, for a product's own use; 0: 4 MiB */
    size_t columns_bytes; /* that unfolded images take at once, for a few images at least; 0:
                             64 MiB */
    bool joins_images;    /* of convolutions, whatever it costs */
    size_t launch_bytes;  /* memory traffic that takes as long as a launch; 0: 4 MiB */
} gy_cuda_plan_options;

typedef struct gy_cuda_plan {
    const char *reason; /* static; why the row runs on the CPU. NULL: it has a kernel */
    gy_cuda_text texts[GY_CUDA_PLAN_TEXTS_MAX];
    int text_count;
    gy_cuda_product_shape products[GY_CUDA_PLAN_PRODUCTS_MAX];
    int product_count;
    gy_cuda_step *steps; /* (step_count) */
    size_t step_count, step_capacity;
    size_t workspace_bytes, product_bytes; /* of all; of a product for itself */
} gy_cuda_plan;

/**
 * Plan the kernel of a call, whose data is not looked at.
 * @param plan  written whole; the caller owns it, gy_cuda_plan_fini, also behind a failure
 * @return GY_OK, maybe with a reason; GY_NOMEM
 * @threads any @cost some 10 us
 */
GY_MUST_CHECK gy_status gy_cuda_plan_make(const gy_kernel_call *call,
                                          const gy_cuda_plan_options *options,
                                          gy_cuda_plan *plan);
void gy_cuda_plan_fini(gy_cuda_plan *plan);

#endif
