/**
 * How a fused program walks its common shape: which dimensions run together, what a tile is,
 * where each register lives. A plan is a value made from shapes alone; fused.c runs it.
 *
 * A tile is `rows` by `columns` elements, contiguous in row-major order of the common shape
 * (in physical order when values are blocked). All but the last two dimensions are outer.
 */
#ifndef GY_OPS_KERNELS_FUSED_PLAN_H
#define GY_OPS_KERNELS_FUSED_PLAN_H

#include "ops/kernels/tiles.h"

enum {
    GY_PLAN_RANK = GY_TENSOR_RANK_MAX + 2, /* a blocked dimension counts twice; at least two */
    GY_PLAN_REGISTERS = GY_OP_INPUTS_MAX + 32,
    GY_PLAN_SLOTS = 24,
    GY_PLAN_PIECES = 16, /* of a program that reduces */
};

/** How a tile of an input or a step's result is reached. */
typedef enum gy_place_kind {
    GY_PLACE_DIRECT, /* in the caller's memory, contiguous */
    GY_PLACE_SCALAR, /* one element for all tiles */
    GY_PLACE_POINT,  /* one element, another for other tiles */
    GY_PLACE_COPY,   /* copied into its slot */
    GY_PLACE_SLOT,   /* a step's result in its slot */
    GY_PLACE_OUTPUT, /* a step's result in the caller's output, or in its slot when an input
                        that is read later lies there */
    GY_PLACE_UNUSED,
} gy_place_kind;

typedef struct gy_plan_register {
    gy_place_kind kind;
    gy_dtype dtype;
    int slot;                      /* -1: none */
    int output;                    /* of GY_PLACE_OUTPUT */
    int last;                      /* last step that reads it; step_count: outputs do */
    int64_t strides[GY_PLAN_RANK]; /* inputs: in elements */
} gy_plan_register;

typedef struct gy_plan_step {
    gy_tile_function run;
    int16_t inputs[3];
    int input_count;
    uint32_t scalars;
    bool is_hoisted;  /* of scalars alone: computed once */
    bool is_absorbed; /* the step that reads it does its work */
    bool is_dropout;
    gy_attributes attributes;
} gy_plan_step;

typedef struct gy_plan_output {
    int register_index;
    gy_dtype dtype;
    bool is_reduced, is_mean;
    double mean_count; /* given; 0: to be found */
    uint32_t axes;     /* of the program */
    gy_ops_code reduction;
    gy_tile_fold fold;
    bool rows_reduced, columns_reduced;
    int64_t strides[GY_PLAN_RANK]; /* of the accumulator */
    int64_t count;                 /* elements of the accumulator */
    int64_t offset;                /* of the accumulator in a piece's, in 8-byte elements */
} gy_plan_output;

typedef struct gy_fused_plan {
    int rank;
    int64_t sizes[GY_PLAN_RANK];
    int64_t rows, columns; /* of a full tile */
    int64_t row_tiles, column_tiles, tiles;
    int input_count, step_count, output_count;
    gy_plan_register registers[GY_PLAN_REGISTERS];
    gy_plan_step steps[32];
    gy_plan_output outputs[GY_OP_OUTPUTS_MAX];
    int64_t piece_tiles, pieces;
    int64_t accumulators;     /* 8-byte elements of one piece */
    bool shares_accumulators; /* pieces reduce into different elements */
    bool has_reduction;
    int program_rank; /* for dropout: the common shape as the graph sees it */
    int64_t program_sizes[GY_TENSOR_RANK_MAX];
} gy_fused_plan;

/**
 * Plan `program` over these views (data is not looked at).
 * @return false when a type, an operator or a layout is none that tiles can do
 * @threads any
 */
bool gy_fused_plan_make(const gy_fused *program, const gy_kernel_query *query,
                        gy_fused_plan *plan);

/** The program that a single element-wise operator or reduction is; false: it is none. */
bool gy_fused_from_query(const gy_kernel_query *query, gy_fused *program);

#endif
