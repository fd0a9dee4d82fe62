/**
 * The parts of how a fused program is printed: steps (steps.c), what runs them (program.c) and
 * what reduces their values (reduce.c).
 */
#ifndef GY_OPS_CUDA_TEXT_PROGRAM_PRIV_H
#define GY_OPS_CUDA_TEXT_PROGRAM_PRIV_H

#include "ops/cuda/text/text_priv.h"
#include "ops/kernels/fused_plan.h"

typedef struct gy_cuda_fused {
    gy_cuda_writer *w;
    const gy_fused *steps;
    gy_fused_plan plan;
    int64_t linear[GY_PLAN_RANK]; /* row-major strides of the common shape */
    int64_t count;
    const char *index; /* type of an index */
    bool needs[GY_PLAN_REGISTERS];
    bool is_wide;      /* direct inputs are element n of four that are loaded */
    bool is_scattered; /* this is a part of what dropout counts the elements of */
} gy_cuda_fused;

/** A line of the kernels. */
void gy_cuda_line(gy_cuda_fused *p, const char *format, ...) GY_PRINTF(2, 3);
/** Has the dimension more than one element, or none? */
bool gy_cuda_is_live(const gy_cuda_fused *p, int dim);
const gy_plan_register *gy_cuda_reg_of(const gy_cuda_fused *p, int index);
/** Mark what a register is made of. A seed is no value of the common shape. */
void gy_cuda_need(gy_cuda_fused *p, int index);
/** The indices of these dimensions, from the row-major number `from` of an element of them. */
void gy_cuda_print_split(gy_cuda_fused *p, const bool *dims, const char *from,
                         const char *indent);
/** From indices to values: all that is needed; and the stores of outputs that are not reduced.
 */
void gy_cuda_print_values(gy_cuda_fused *p);
void gy_cuda_print_stores(gy_cuda_fused *p);
/** The kernels of all reductions, of which the last stores what is stored; false: it has none.
 */
bool gy_cuda_write_reductions(gy_cuda_fused *p);

/** The expression of an element-wise operator or a cast; NULL: none for these types. Dropout,
 * which reads a seed and counts elements, is printed by the program. */
const char *gy_cuda_step_text(gy_ops_code code, gy_dtype operand, gy_dtype result);

#endif
