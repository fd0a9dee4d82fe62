/**
 * The two halves of how a fused program is printed: steps (steps.c) and what runs them
 * (program.c).
 */
#ifndef GY_OPS_CUDA_TEXT_PROGRAM_PRIV_H
#define GY_OPS_CUDA_TEXT_PROGRAM_PRIV_H

#include "ops/cuda/text/text_priv.h"

/** The expression of an element-wise operator or a cast; NULL: none for these types. Dropout,
 * which reads a seed and counts elements, is printed by the program. */
const char *gy_cuda_step_text(gy_ops_code code, gy_dtype operand, gy_dtype result);

#endif
