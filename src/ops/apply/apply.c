/* One row on tensors: infer, choose a kernel, allocate, run. */
#include "ops/apply/apply.h"

#include "tensor/tensor.h"

#include <string.h>

enum { WORKERS = 1 };

static gy_type type_of(const gy_tensor *tensor)
{
    gy_type type;
    memset(&type, 0, sizeof(type));
    type.dtype = gy_tensor_dtype(tensor);
    type.format = GY_FORMAT_DENSE;
    type.rank = gy_tensor_rank(tensor);
    for (int i = 0; i < type.rank; i++) {
        type.sizes[i] = gy_tensor_size(tensor, i);
    }
    return type;
}

static gy_view view_of(const gy_type *type)
{
    return gy_view_of(NULL, type->dtype, type->sizes, type->rank);
}

/* Kernels may want other formats than row-major; those are passed over here. */
static bool is_dense(const gy_kernel *kernel, const gy_kernel_query *query)
{
    gy_format inputs[GY_OP_INPUTS_MAX] = {GY_FORMAT_DENSE};
    gy_format outputs[GY_OP_OUTPUTS_MAX] = {GY_FORMAT_DENSE};
    bool is_it = true;
    if (kernel->formats != NULL) {
        kernel->formats(query, inputs, outputs);
    }
    for (int i = 0; i < query->input_count; i++) {
        is_it = is_it && inputs[i] == GY_FORMAT_DENSE;
    }
    for (int i = 0; i < query->output_count; i++) {
        is_it = is_it && outputs[i] == GY_FORMAT_DENSE;
    }
    return is_it;
}

void gy_apply_fini(gy_apply *site)
{
    if (site->kernel != NULL && site->kernel->release != NULL) {
        site->kernel->release(site->state);
    }
    gy_free(site->workspace);
    memset(site, 0, sizeof(*site));
}

/* The kernel of the site's types, its state and workspace. */
static gy_status prepare(gy_apply *site)
{
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    for (int i = 0; i < site->input_count; i++) {
        inputs[i] = view_of(&site->inputs[i]);
    }
    for (int i = 0; i < site->output_count; i++) {
        outputs[i] = view_of(&site->outputs[i]);
    }
    const gy_kernel_query query = {.op = site->op,
                                   .attributes = &site->attributes,
                                   .inputs = inputs,
                                   .input_count = site->input_count,
                                   .outputs = outputs,
                                   .output_count = site->output_count,
                                   .workers = WORKERS};
    const gy_kernel *kernel = gy_kernel_choose(&query);
    if (kernel == NULL || !is_dense(kernel, &query)) {
        return GY_OK;
    }
    const size_t size = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(&query) : 0;
    if (size > 0) {
        site->workspace = gy_alloc("ops.apply", GY_MAX(size, (size_t)GY_CACHE_LINE));
        if (site->workspace == NULL) {
            return GY_NOMEM;
        }
    }
    GY_TRY(kernel->prepare != NULL ? kernel->prepare(&query, &site->state) : GY_OK);
    site->kernel = kernel;
    return GY_OK;
}

/* Keep the site if the call is as the last one was; else begin it anew. */
static gy_status adopt(gy_apply *site, const gy_op *op, const gy_attributes *attributes,
                       gy_tensor *const *inputs, int input_count)
{
    gy_type types[GY_OP_INPUTS_MAX];
    for (int i = 0; i < input_count; i++) {
        types[i] = type_of(inputs[i]);
    }
    if (site->op == op && site->input_count == input_count &&
        memcmp(site->attributes.bytes, attributes->bytes, sizeof(attributes->bytes)) == 0 &&
        memcmp(site->inputs, types, (size_t)input_count * sizeof(types[0])) == 0) {
        return GY_OK;
    }
    gy_apply_fini(site);
    GY_TRY(gy_ops_infer(op, attributes, types, input_count, site->outputs));
    site->attributes = *attributes;
    memcpy(site->inputs, types, (size_t)input_count * sizeof(types[0]));
    site->input_count = input_count;
    site->output_count = op->output_count;
    site->op = op;
    const gy_status status = prepare(site);
    if (status != GY_OK) {
        gy_apply_fini(site);
    }
    return status;
}

typedef struct operands {
    gy_tensor *held[GY_OP_INPUTS_MAX]; /* copies of strided inputs; NULL: the input itself */
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    gy_tensor *made[GY_OP_OUTPUTS_MAX];
} operands;

static gy_status gather(const gy_apply *site, gy_tensor *const *inputs, operands *of)
{
    const bool takes_strides =
        site->kernel == NULL; /* kernels are prepared for row-major ones */
    for (int i = 0; i < site->input_count; i++) {
        of->inputs[i] = gy_tensor_pin(inputs[i]);
        if (!takes_strides && !gy_view_is_contiguous(&of->inputs[i])) {
            const gy_type *type = &site->inputs[i];
            GY_TRY(gy_tensor_new(NULL, type->dtype, type->sizes, type->rank, &of->held[i]));
            GY_TRY(gy_tensor_copy(of->held[i], inputs[i]));
            gy_tensor_unpin(inputs[i]);
            of->inputs[i] = gy_tensor_pin(of->held[i]);
        }
    }
    for (int i = 0; i < site->output_count; i++) {
        const gy_type *type = &site->outputs[i];
        GY_TRY(gy_tensor_new(NULL, type->dtype, type->sizes, type->rank, &of->made[i]));
        of->outputs[i] = gy_tensor_pin(of->made[i]);
    }
    return GY_OK;
}

static void scatter(const gy_apply *site, gy_tensor *const *inputs, operands *of)
{
    for (int i = 0; i < site->input_count; i++) {
        if (of->inputs[i].data != NULL || of->inputs[i].dtype != GY_DTYPE_NONE) {
            gy_tensor_unpin(of->held[i] != NULL ? of->held[i] : inputs[i]);
        }
        gy_tensor_drop(of->held[i]);
    }
    for (int i = 0; i < site->output_count; i++) {
        if (of->made[i] != NULL) {
            gy_tensor_unpin(of->made[i]);
        }
    }
}

gy_status gy_apply_run(gy_apply *site, const gy_op *op, const gy_attributes *attributes,
                       gy_tensor *const *inputs, int input_count, gy_tensor **outputs)
{
    GY_ASSERT(input_count >= 0 && input_count <= GY_OP_INPUTS_MAX);
    GY_ASSERT(op->output_count >= 1 && op->output_count <= GY_OP_OUTPUTS_MAX);
    operands of = {.held = {NULL}};
    GY_TRY(adopt(site, op, attributes, inputs, input_count));
    gy_status status = gather(site, inputs, &of);
    const gy_kernel_call call = {.op = op,
                                 .attributes = &site->attributes,
                                 .inputs = of.inputs,
                                 .input_count = input_count,
                                 .outputs = of.outputs,
                                 .output_count = site->output_count,
                                 .workspace = site->workspace,
                                 .state = site->state};
    if (status == GY_OK && site->kernel != NULL) {
        status = site->kernel->run(&call);
    } else if (status == GY_OK && op->reference != NULL) {
        status = op->reference(&call);
    } else if (status == GY_OK) {
        status = gy_fail(GY_UNSUPPORTED, "%s: nothing computes it alone: %s", op->name,
                         op->no_reference);
    }
    scatter(site, inputs, &of);
    for (int i = 0; i < site->output_count; i++) {
        if (status == GY_OK) {
            outputs[i] = of.made[i];
        } else {
            gy_tensor_drop(of.made[i]);
        }
    }
    return status;
}
