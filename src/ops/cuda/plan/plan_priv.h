/** What the planners share: plan.c, matmul.c and convolution.c. */
#ifndef GY_OPS_CUDA_PLAN_PLAN_PRIV_H
#define GY_OPS_CUDA_PLAN_PLAN_PRIV_H

#include "ops/cuda/plan/plan.h"

/** The row has no kernel; the first reason stays. */
void gy_cuda_plan_refuse(gy_cuda_plan *plan, const char *reason);
/** `number` of products of that type; refuses others. */
void gy_cuda_plan_number(gy_cuda_plan *plan, gy_dtype dtype, gy_cuda_product_shape *shape);
/** Add what steps name by its index. An empty text is refused with its reason. */
int gy_cuda_plan_product(gy_cuda_plan *plan, const gy_cuda_product_shape *shape);
/** The next text, to be made in place; *index is what names it. */
gy_cuda_text *gy_cuda_plan_text(gy_cuda_plan *plan, int *index);
GY_MUST_CHECK gy_status gy_cuda_plan_add(gy_cuda_plan *plan, const gy_cuda_step *step);
/** So many bytes more of the workspace, aligned; nowhere for 0. */
gy_cuda_place gy_cuda_plan_take(gy_cuda_plan *plan, size_t size_bytes);
static inline gy_cuda_place gy_cuda_plan_input(int index, size_t offset_bytes)
{
    return (gy_cuda_place){
        .where = GY_CUDA_INPUT, .index = index, .offset_bytes = offset_bytes};
}

static inline gy_cuda_place gy_cuda_plan_output(size_t offset_bytes)
{
    return (gy_cuda_place){.where = GY_CUDA_OUTPUT, .offset_bytes = offset_bytes};
}

/** Bias and activation of the row, behind its product. */
GY_MUST_CHECK gy_status gy_cuda_plan_finish(gy_cuda_plan *plan, const gy_kernel_call *call);

/** Products of matrices; `shape` has the operands' type. */
GY_MUST_CHECK gy_status gy_cuda_plan_matmul(gy_cuda_plan *plan, const gy_kernel_call *call,
                                            const gy_cuda_plan_options *options,
                                            gy_cuda_product_shape *shape);

/** The convolution and its gradients. */
GY_MUST_CHECK gy_status gy_cuda_plan_conv(gy_cuda_plan *plan, const gy_kernel_call *call,
                                          const gy_cuda_plan_options *options);

#endif
