/**
 * One row on tensors, now: for programs whose next operation is not known before this one is
 * done, such as scripts.
 *
 *     static gy_apply site;
 *     gy_tensor *y = NULL;
 *     gy_status status = gy_apply_run(&site, &gy_ops_row_conv2d, &attributes, inputs, 2, &y);
 *     gy_apply_fini(&site);
 */
#ifndef GY_OPS_APPLY_APPLY_H
#define GY_OPS_APPLY_APPLY_H

#include "ops/ops.h"

/** A call site: what was found out for the operator, attributes and types of the last call is
 * kept for the next one. Zero-initialise. */
typedef struct gy_apply {
    const gy_op *op; /* NULL: nothing is kept */
    gy_attributes attributes;
    gy_type inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    int input_count, output_count;
    const gy_kernel *kernel; /* NULL: the row's reference */
    void *state, *workspace;
} gy_apply;

/**
 * Compute an operator's outputs.
 *
 * @param inputs   (input_count) borrowed; strided ones are copied for kernels, which are chosen
 *     for row-major ones
 * @param outputs  (op->output_count) new row-major tensors; the caller owns a hold of each
 * @return GY_OK; what the row's inference refuses; GY_NOMEM; GY_UNSUPPORTED a row with neither
 *     kernel nor reference. Outputs are untouched on failure
 * @threads one at a time for each site
 */
GY_MUST_CHECK gy_status gy_apply_run(gy_apply *site, const gy_op *op,
                                     const gy_attributes *attributes, gy_tensor *const *inputs,
                                     int input_count, gy_tensor **outputs);
/** Free what the site has kept; it can be used again. */
void gy_apply_fini(gy_apply *site);

#endif
