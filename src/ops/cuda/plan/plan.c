#include "ops/cuda/plan/plan_priv.h"

enum { ALIGNMENT = 256, PRODUCT_BYTES = 4 << 20 };

/* ---- parts of a plan ---- */

void gy_cuda_plan_refuse(gy_cuda_plan *plan, const char *reason)
{
    plan->reason = plan->reason == NULL ? reason : plan->reason;
}

void gy_cuda_plan_number(gy_cuda_plan *plan, gy_dtype dtype, gy_cuda_product_shape *shape)
{
    static const struct {
        gy_dtype dtype;
        gy_cuda_number number;
    } all[] = {{GY_F32, GY_CUDA_F32},
               {GY_F64, GY_CUDA_F64},
               {GY_F16, GY_CUDA_F16},
               {GY_BF16, GY_CUDA_BF16}};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        if (all[i].dtype == dtype) {
            shape->number = all[i].number;
            return;
        }
    }
    gy_cuda_plan_refuse(plan, "no product of these types");
}

int gy_cuda_plan_product(gy_cuda_plan *plan, const gy_cuda_product_shape *shape)
{
    GY_ASSERT(plan->product_count < GY_CUDA_PLAN_PRODUCTS_MAX);
    if (shape->m < 1 || shape->n < 1 || shape->k < 1 || shape->batch > INT32_MAX) {
        gy_cuda_plan_refuse(plan, "it is empty");
    }
    plan->products[plan->product_count] = *shape;
    return plan->product_count++;
}

gy_cuda_text *gy_cuda_plan_text(gy_cuda_plan *plan, int *index)
{
    GY_ASSERT(plan->text_count < GY_CUDA_PLAN_TEXTS_MAX);
    *index = plan->text_count;
    return &plan->texts[plan->text_count++];
}

gy_status gy_cuda_plan_add(gy_cuda_plan *plan, const gy_cuda_step *step)
{
    GY_ASSERT(step->index < (step->is_product ? plan->product_count : plan->text_count));
    if (!step->is_product) {
        gy_cuda_plan_refuse(plan, plan->texts[step->index].reason);
    }
    GY_TRY(GY_GROW("ops.cuda.plan", plan->steps, plan->step_capacity, plan->step_count + 1));
    plan->steps[plan->step_count++] = *step;
    return GY_OK;
}

gy_cuda_place gy_cuda_plan_take(gy_cuda_plan *plan, size_t size_bytes)
{
    const gy_cuda_place place = {.where = size_bytes > 0 ? GY_CUDA_WORKSPACE : GY_CUDA_NOWHERE,
                                 .offset_bytes = size_bytes > 0 ? plan->workspace_bytes : 0};
    plan->workspace_bytes += (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

gy_status gy_cuda_plan_finish(gy_cuda_plan *plan, const gy_kernel_call *call)
{
    gy_cuda_step step = {.in = call->input_count > 2 ? gy_cuda_plan_input(2, 0)
                                                     : (gy_cuda_place){.index = 0},
                         .out = gy_cuda_plan_output(0)};
    GY_TRY(gy_cuda_text_finish(call, gy_cuda_plan_text(plan, &step.index)));
    return gy_cuda_plan_add(plan, &step);
}

/* ---- rows ---- */

static bool is_conv(const gy_op *op)
{
    return op == &gy_ops_row_conv2d || op == &gy_ops_row_conv2d_input_gradient ||
           op == &gy_ops_row_conv2d_filter_gradient;
}

static bool is_product(const gy_op *op)
{
    return op == &gy_ops_row_matmul || op == &gy_ops_row_matmul_over_rows ||
           op == &gy_ops_row_matmul_update || is_conv(op);
}

static gy_status plan_product(gy_cuda_plan *plan, const gy_kernel_call *call,
                              const gy_cuda_plan_options *options)
{
    const int first = call->op == &gy_ops_row_matmul_update ? 1 : 0; /* of the operands */
    gy_cuda_product_shape shape = {.may_round = options->may_round};
    if (!options->has_products) {
        gy_cuda_plan_refuse(plan, "there is no cuBLASLt");
    }
    for (int i = 0; i < call->input_count; i++) {
        if (call->inputs[i].format != GY_FORMAT_DENSE ||
            !gy_view_is_contiguous(&call->inputs[i])) {
            gy_cuda_plan_refuse(plan, "an operand is strided or blocked");
        }
    }
    if (call->inputs[first].dtype != call->inputs[first + 1].dtype) {
        gy_cuda_plan_refuse(plan, "no product of these types");
    }
    gy_cuda_plan_number(plan, call->inputs[first].dtype, &shape);
    if (plan->reason != NULL) {
        return GY_OK;
    }
    return is_conv(call->op) ? gy_cuda_plan_conv(plan, call, options)
                             : gy_cuda_plan_matmul(plan, call, options, &shape);
}

static gy_status plan_text(gy_cuda_plan *plan, const gy_kernel_call *call)
{
    gy_cuda_step step = {.takes_all = true};
    gy_cuda_text *text = gy_cuda_plan_text(plan, &step.index);
    GY_TRY(gy_cuda_text_make(call, text));
    step.workspace = gy_cuda_plan_take(plan, text->workspace_bytes);
    return gy_cuda_plan_add(plan, &step);
}

static bool is_empty(const gy_kernel_call *call)
{
    for (int o = 0; o < call->output_count; o++) {
        if (gy_view_count(&call->outputs[o]) == 0) {
            return true;
        }
    }
    return false;
}

gy_status gy_cuda_plan_make(const gy_kernel_call *call, const gy_cuda_plan_options *options,
                            gy_cuda_plan *plan)
{
    *plan = (gy_cuda_plan){.reason = is_empty(call) ? "it is empty" : NULL,
                           .product_bytes = options->product_bytes > 0 ? options->product_bytes
                                                                       : PRODUCT_BYTES};
    if (plan->reason != NULL) {
        return GY_OK;
    }
    return is_product(call->op) ? plan_product(plan, call, options) : plan_text(plan, call);
}

void gy_cuda_plan_fini(gy_cuda_plan *plan)
{
    for (int i = 0; i < plan->text_count; i++) {
        gy_cuda_text_fini(&plan->texts[i]);
    }
    gy_free(plan->steps);
    *plan = (gy_cuda_plan){.text_count = 0};
}
