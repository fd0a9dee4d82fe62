/**
 * Runs a fused program tile by tile: inputs are read once, results stay in fast memory until
 * they are stored or reduced. Single element-wise operators and reductions are programs of one
 * step and go the same way.
 *
 * Reductions add up in pieces that depend on the shape alone; pieces are put together in order.
 */
#include "ops/kernels/fused_plan.h"
#include "ops/kernels/kernels_priv.h"

#include <math.h>
#include <string.h>

typedef struct pass {
    const gy_fused_plan *plan;
    const gy_kernel_call *call;
    const gy_fused *program;
    bool is_deferred[GY_OP_OUTPUTS_MAX]; /* stored after the last step */
    /* Dropout: the global sizes; NULL when the part is all, or a run of whole rows. */
    const int64_t *global_sizes, *global_offsets;
    int64_t global_shift;
} pass;

/* Where one tile lies. */
typedef struct tile_spot {
    int64_t at[GY_PLAN_RANK]; /* the last two: first row and column */
    int64_t rows, columns, linear;
} tile_spot;

typedef struct registers {
    const void *at[GY_PLAN_REGISTERS];
    const void *copied[GY_OP_INPUTS_MAX]; /* what a slot holds a copy of */
    int64_t copied_count[GY_OP_INPUTS_MAX];
    _Alignas(64) unsigned char slots[GY_PLAN_SLOTS][GY_TILE_BYTES];
    _Alignas(64) unsigned char filled[GY_TILE_BYTES];
} registers;

static void find_spot(const gy_fused_plan *plan, int64_t tile, tile_spot *spot)
{
    int last = plan->rank - 1;
    spot->at[last] = tile % plan->column_tiles * plan->columns;
    tile /= plan->column_tiles;
    spot->at[last - 1] = tile % plan->row_tiles * plan->rows;
    tile /= plan->row_tiles;
    for (int dim = last - 2; dim >= 0; dim--) {
        spot->at[dim] = tile % plan->sizes[dim];
        tile /= plan->sizes[dim];
    }
    spot->rows = GY_MIN(plan->rows, plan->sizes[last - 1] - spot->at[last - 1]);
    spot->columns = GY_MIN(plan->columns, plan->sizes[last] - spot->at[last]);
    spot->linear = 0;
    for (int dim = 0; dim <= last; dim++) {
        spot->linear = spot->linear * plan->sizes[dim] + spot->at[dim];
    }
}

static int64_t offset_of(const gy_fused_plan *plan, const int64_t *strides,
                         const tile_spot *spot)
{
    int64_t offset = 0;
    for (int dim = 0; dim < plan->rank; dim++) {
        offset += spot->at[dim] * strides[dim];
    }
    return offset;
}

/* ---- loads ---- */

#define COPY_STRIDED(type)                                                                     \
    for (int64_t r = 0; r < rows; r++) {                                                       \
        const type *x = (const type *)from + r * row;                                          \
        type *y = (type *)to + r * columns;                                                    \
        for (int64_t c = 0; c < columns; c++) {                                                \
            y[c] = x[c * column];                                                              \
        }                                                                                      \
    }

static void copy_block(void *to, const void *from, size_t bytes, const int64_t *lengths,
                       const int64_t *strides)
{
    int64_t rows = lengths[0], columns = lengths[1], row = strides[0], column = strides[1];
    if (column == 1) {
        size_t width = (size_t)columns * bytes;
        for (int64_t r = 0; r < rows; r++) {
            memcpy((char *)to + (size_t)r * width,
                   (const char *)from + r * row * (int64_t)bytes, width);
        }
    } else if (bytes == 4) {
        COPY_STRIDED(uint32_t)
    } else if (bytes == 8) {
        COPY_STRIDED(uint64_t)
    } else if (bytes == 2) {
        COPY_STRIDED(uint16_t)
    } else {
        COPY_STRIDED(uint8_t)
    }
}

static void fill(void *to, const void *value, size_t bytes, int64_t count)
{
    copy_block(to, value, bytes, (int64_t[]){1, count}, (int64_t[]){0, 0});
}

static void load(const pass *run, registers *regs, int index, const tile_spot *spot)
{
    const gy_fused_plan *plan = run->plan;
    const gy_plan_register *reg = &plan->registers[index];
    const char *data = run->call->inputs[index].data;
    size_t bytes = gy_dtype_bytes(reg->dtype);
    if (reg->kind == GY_PLACE_SCALAR || reg->kind == GY_PLACE_UNUSED) {
        return;
    }
    const void *from = data + offset_of(plan, reg->strides, spot) * (int64_t)bytes;
    if (reg->kind != GY_PLACE_COPY) {
        regs->at[index] = from;
        return;
    }
    const int64_t *strides = &reg->strides[plan->rank - 2];
    int64_t count = spot->rows * spot->columns;
    if (strides[0] == 0 && regs->copied[index] == from && regs->copied_count[index] == count) {
        return;
    }
    regs->copied[index] = from;
    regs->copied_count[index] = count;
    regs->at[index] = regs->slots[reg->slot];
    copy_block(regs->slots[reg->slot], from, bytes, (int64_t[]){spot->rows, spot->columns},
               strides);
}

/* ---- steps ---- */

static void run_step(const pass *run, registers *regs, int s, const tile_spot *spot)
{
    const gy_fused_plan *plan = run->plan;
    const gy_plan_step *step = &plan->steps[s];
    const gy_plan_register *reg = &plan->registers[plan->input_count + s];
    gy_tile tile = {.scalars = step->scalars, .attributes = &step->attributes, .count = 1};
    for (int i = 0; i < step->input_count; i++) {
        tile.inputs[i] = regs->at[step->inputs[i]];
    }
    tile.output = regs->slots[reg->slot];
    if (!step->is_hoisted) {
        tile.count = spot->rows * spot->columns;
        tile.index = spot->linear + run->global_shift;
        if (reg->kind == GY_PLACE_OUTPUT && !run->is_deferred[reg->output]) {
            size_t bytes = gy_dtype_bytes(reg->dtype);
            tile.output =
                (char *)run->call->outputs[reg->output].data + (size_t)spot->linear * bytes;
        }
    }
    regs->at[plan->input_count + s] = tile.output;
    step->run(&tile);
}

/* Dropout of a part that is no run of whole rows: element by element. */
static void run_scattered(const pass *run, registers *regs, int s, const tile_spot *spot)
{
    const gy_fused_plan *plan = run->plan;
    const gy_plan_step *step = &plan->steps[s];
    const gy_plan_register *reg = &plan->registers[plan->input_count + s];
    size_t bytes = gy_dtype_bytes(reg->dtype);
    char *to = (char *)regs->slots[reg->slot];
    if (reg->kind == GY_PLACE_OUTPUT && !run->is_deferred[reg->output]) {
        to = (char *)run->call->outputs[reg->output].data + (size_t)spot->linear * bytes;
    }
    const char *from = regs->at[step->inputs[0]];
    for (int64_t i = 0; i < spot->rows * spot->columns; i++) {
        int64_t rest = spot->linear + i, index = 0, unit = 1;
        for (int dim = plan->program_rank - 1; dim >= 0; dim--) {
            int64_t size = plan->program_sizes[dim];
            index += (rest % size + run->global_offsets[dim]) * unit;
            rest /= size;
            unit *= run->global_sizes[dim];
        }
        gy_tile tile = {.inputs = {from + ((step->scalars & 1) != 0 ? 0 : (size_t)i * bytes),
                                   regs->at[step->inputs[1]]},
                        .output = to + (size_t)i * bytes,
                        .count = 1,
                        .scalars = step->scalars,
                        .attributes = &step->attributes,
                        .index = index};
        step->run(&tile);
    }
    regs->at[plan->input_count + s] = to;
}

/* ---- outputs ---- */

/* The tile of a register, made of its one element where that is all there is. */
static const void *whole_tile(const pass *run, registers *regs, int index, int64_t count)
{
    const gy_plan_register *reg = &run->plan->registers[index];
    if (reg->kind != GY_PLACE_SCALAR) {
        return regs->at[index];
    }
    fill(regs->filled, regs->at[index], gy_dtype_bytes(reg->dtype), count);
    return regs->filled;
}

static void store(const pass *run, registers *regs, int o, const tile_spot *spot)
{
    const gy_plan_output *out = &run->plan->outputs[o];
    const gy_plan_register *reg = &run->plan->registers[out->register_index];
    size_t bytes = gy_dtype_bytes(out->dtype);
    char *to = (char *)run->call->outputs[o].data + (size_t)spot->linear * bytes;
    int64_t count = spot->rows * spot->columns;
    const void *from = regs->at[out->register_index];
    if (reg->kind == GY_PLACE_SCALAR) {
        fill(to, from, bytes, count);
    } else if (from != to) {
        memcpy(to, from, (size_t)count * bytes);
    }
}

static void reduce(const pass *run, registers *regs, int o, const tile_spot *spot,
                   char *accumulators)
{
    const gy_fused_plan *plan = run->plan;
    const gy_plan_output *out = &plan->outputs[o];
    int64_t count = spot->rows * spot->columns, row = out->strides[plan->rank - 2];
    const void *x = whole_tile(run, regs, out->register_index, count);
    char *acc = accumulators + 8 * (out->offset + offset_of(plan, out->strides, spot));
    if (out->columns_reduced == out->rows_reduced) {
        out->fold(x, 1, count, acc, 1);
    } else {
        out->fold(x, spot->rows, spot->columns, acc, out->columns_reduced ? row : 1);
    }
}

static void run_tile(const pass *run, registers *regs, int64_t index, char *accumulators)
{
    const gy_fused_plan *plan = run->plan;
    tile_spot spot;
    find_spot(plan, index, &spot);
    for (int i = 0; i < plan->input_count; i++) {
        load(run, regs, i, &spot);
    }
    for (int s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].is_hoisted || plan->steps[s].is_absorbed) {
            continue;
        }
        if (plan->steps[s].is_dropout && run->global_sizes != NULL) {
            run_scattered(run, regs, s, &spot);
        } else {
            run_step(run, regs, s, &spot);
        }
    }
    for (int o = 0; o < plan->output_count; o++) {
        if (plan->outputs[o].is_reduced) {
            reduce(run, regs, o, &spot, accumulators);
        }
    }
    /* Inputs that pass through go first: a deferred result may replace their memory. */
    for (int turn = 0; turn < 2; turn++) {
        for (int o = 0; o < plan->output_count; o++) {
            bool is_step = plan->outputs[o].register_index >= plan->input_count;
            if (!plan->outputs[o].is_reduced && is_step == (turn == 1)) {
                store(run, regs, o, &spot);
            }
        }
    }
}

/* ---- accumulators ---- */

static double real_start(gy_ops_code reduction)
{
    return reduction == GY_CODE_sum    ? 0
           : reduction == GY_CODE_prod ? 1
           : reduction == GY_CODE_max  ? -INFINITY
                                       : INFINITY;
}

/* Of no elements the extreme is the type's own, as in the plain definition. */
static int64_t whole_start(gy_ops_code reduction, gy_dtype dtype)
{
    const bool is_max = reduction == GY_CODE_max;
    if (reduction == GY_CODE_sum || reduction == GY_CODE_prod) {
        return reduction == GY_CODE_prod;
    }
    return dtype == GY_I64   ? (is_max ? INT64_MIN : INT64_MAX)
           : dtype == GY_I32 ? (is_max ? INT32_MIN : INT32_MAX)
                             : (is_max ? 0 : UINT8_MAX);
}

static void start_accumulators(const gy_fused_plan *plan, void *accumulators)
{
    for (int o = 0; o < plan->output_count; o++) {
        const gy_plan_output *out = &plan->outputs[o];
        for (int64_t i = 0; out->is_reduced && i < out->count; i++) {
            if (gy_dtype_is_real(out->dtype)) {
                ((double *)accumulators)[out->offset + i] = real_start(out->reduction);
            } else {
                ((int64_t *)accumulators)[out->offset + i] =
                    whole_start(out->reduction, out->dtype);
            }
        }
    }
}

/* How many elements one result of a mean stands for, in the global value. */
static double mean_count(const pass *run, const gy_plan_output *out)
{
    double count = 1;
    if (out->mean_count > 0) {
        return out->mean_count;
    }
    for (int dim = 0; dim < run->program->rank; dim++) {
        if ((out->axes >> dim & 1u) == 0) {
            continue;
        }
        int64_t size = run->program->sizes[dim];
        for (int i = 0; i < run->call->input_count && run->call->input_types != NULL; i++) {
            const gy_type *type = &run->call->input_types[i];
            int own = dim - (run->program->rank - type->rank);
            if (own >= 0 && type->sizes[own] > size) {
                size = type->sizes[own];
            }
        }
        count *= (double)size;
    }
    return count;
}

static void put_results(const pass *run, const gy_plan_output *out, gy_view *view,
                        const void *accumulators)
{
    const double *real = (const double *)accumulators + out->offset;
    const int64_t *whole = (const int64_t *)accumulators + out->offset;
    double scale = out->is_mean ? mean_count(run, out) : 1;
    for (int64_t i = 0; i < out->count; i++) {
        double value = gy_dtype_is_real(out->dtype) && out->is_mean ? real[i] / scale : real[i];
        if (out->dtype == GY_F32) {
            ((float *)view->data)[i] = (float)value;
        } else if (out->dtype == GY_F64) {
            ((double *)view->data)[i] = value;
        } else if (out->dtype == GY_I64) {
            ((int64_t *)view->data)[i] = whole[i];
        } else if (out->dtype == GY_I32) {
            ((int32_t *)view->data)[i] = (int32_t)whole[i];
        } else {
            ((uint8_t *)view->data)[i] = (uint8_t)whole[i];
        }
    }
}

/* Put the pieces together in order, into the first one's accumulators. */
static void join_pieces(const gy_fused_plan *plan, char *accumulators)
{
    for (int64_t piece = 1; piece < plan->pieces && !plan->shares_accumulators; piece++) {
        char *from = accumulators + piece * plan->accumulators * 8;
        for (int o = 0; o < plan->output_count; o++) {
            const gy_plan_output *out = &plan->outputs[o];
            if (out->is_reduced) {
                gy_dtype wide = gy_dtype_is_real(out->dtype) ? GY_F64 : GY_I64;
                gy_tiles()->find_fold(out->reduction, wide, false)(
                    from + out->offset * 8, 1, out->count, accumulators + out->offset * 8, 1);
            }
        }
    }
}

/* ---- the call ---- */

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const pass *run = arg;
    const gy_fused_plan *plan = run->plan;
    registers regs; /* slots need no value before a step writes them */
    for (int i = 0; i < plan->input_count; i++) {
        regs.at[i] = run->call->inputs[i].data;
        regs.copied[i] = NULL;
    }
    for (int s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].is_hoisted) {
            run_step(run, &regs, s, NULL);
        }
    }
    for (int64_t piece = begin; piece < end; piece++) {
        char *accumulators = NULL;
        if (plan->has_reduction) {
            int64_t own = plan->shares_accumulators ? 0 : piece;
            accumulators = (char *)run->call->workspace + own * plan->accumulators * 8;
        }
        int64_t last = GY_MIN((piece + 1) * plan->piece_tiles, plan->tiles);
        for (int64_t tile = piece * plan->piece_tiles; tile < last; tile++) {
            run_tile(run, &regs, tile, accumulators);
        }
    }
}

/* A result cannot go straight to its output while an input there is still to be read. */
static void find_deferred(pass *run)
{
    const gy_fused_plan *plan = run->plan;
    for (int s = 0; s < plan->step_count; s++) {
        const gy_plan_register *reg = &plan->registers[plan->input_count + s];
        for (int i = 0; i < plan->input_count && reg->kind == GY_PLACE_OUTPUT; i++) {
            if (plan->registers[i].last > s &&
                run->call->inputs[i].data == run->call->outputs[reg->output].data) {
                run->is_deferred[reg->output] = true;
            }
        }
    }
}

/* Dropout counts elements in the global tensor: where is this part of it? */
static void find_global(pass *run)
{
    const gy_kernel_call *call = run->call;
    int rank = run->program->rank;
    for (int o = 0; o < call->output_count; o++) {
        if (call->output_types == NULL || call->output_offsets == NULL ||
            run->program->outputs[o].reduction != NULL) {
            continue;
        }
        const int64_t *sizes = call->output_types[o].sizes, *offsets = call->output_offsets[o];
        bool is_run = true;
        int64_t row = 1;
        for (int dim = 1; dim < rank; dim++) {
            is_run = is_run && sizes[dim] == run->program->sizes[dim];
            row *= sizes[dim];
        }
        if (is_run) {
            run->global_shift = rank > 0 ? offsets[0] * row : 0;
        } else {
            run->global_sizes = sizes;
            run->global_offsets = offsets;
        }
        return;
    }
}

static gy_status run_program(const gy_kernel_call *call, const gy_fused *program)
{
    pass run = {.plan = call->state, .call = call, .program = program};
    const gy_fused_plan *plan = run.plan;
    find_deferred(&run);
    find_global(&run);
    if (plan->has_reduction) {
        int64_t sets = plan->shares_accumulators ? 1 : GY_MAX(plan->pieces, (int64_t)1);
        for (int64_t i = 0; i < sets; i++) {
            start_accumulators(plan, (char *)call->workspace + i * plan->accumulators * 8);
        }
    }
    if (plan->pieces == 1) {
        run_pieces(&run, 0, 1);
    } else {
        gy_parallel_for(call->engine, plan->pieces, 1, run_pieces, &run);
    }
    if (plan->has_reduction) {
        join_pieces(plan, call->workspace);
        for (int o = 0; o < plan->output_count; o++) {
            if (plan->outputs[o].is_reduced) {
                put_results(&run, &plan->outputs[o], &call->outputs[o], call->workspace);
            }
        }
    }
    return GY_OK;
}

static bool plan_query(const gy_kernel_query *query, gy_fused_plan *plan)
{
    if (query->op == &gy_ops_row_fused) {
        return gy_fused_plan_make(query->attributes->fused.program, query, plan);
    }
    gy_fused program;
    return gy_fused_from_query(query, &program) && gy_fused_plan_make(&program, query, plan);
}

static bool fused_accepts(const gy_kernel_query *query)
{
    gy_fused_plan plan;
    return plan_query(query, &plan);
}

static size_t fused_workspace(const gy_kernel_query *query)
{
    gy_fused_plan plan;
    if (!plan_query(query, &plan) || !plan.has_reduction) {
        return 0;
    }
    int64_t sets = plan.shares_accumulators ? 1 : GY_MAX(plan.pieces, (int64_t)1);
    return (size_t)(sets * plan.accumulators) * 8;
}

static gy_status fused_prepare(const gy_kernel_query *query, void **state)
{
    gy_fused_plan *plan = gy_alloc("ops.fused", sizeof(*plan));
    if (plan == NULL) {
        return GY_NOMEM;
    }
    if (!plan_query(query, plan)) {
        gy_free(plan);
        return gy_fail(GY_UNSUPPORTED, "%s: tiles cannot run these views", query->op->name);
    }
    *state = plan;
    return GY_OK;
}

static gy_status fused_run(const gy_kernel_call *call)
{
    return run_program(call, call->attributes->fused.program);
}

static gy_status single_run(const gy_kernel_call *call)
{
    gy_kernel_query query = gy_kernel_query_of(call, 0);
    gy_fused program;
    bool is_one = gy_fused_from_query(&query, &program);
    GY_ASSERT(is_one);
    return run_program(call, &program);
}

static bool is_common(const gy_view *view, int rank, const int64_t *sizes)
{
    return view->rank == rank &&
           memcmp(view->sizes, sizes, (size_t)rank * sizeof(sizes[0])) == 0;
}

/* Blocked when an input of the common shape already is: then all of that shape are. */
static void fused_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs)
{
    bool is_program = query->op == &gy_ops_row_fused;
    bool is_step =
        (query->op->flags & GY_OP_ELEMENTWISE) != 0 || query->op == &gy_ops_row_dropout;
    const gy_view *shape = is_step ? &query->outputs[0] : &query->inputs[0];
    int rank = is_program ? query->attributes->fused.program->rank : shape->rank;
    const int64_t *sizes = is_program ? query->attributes->fused.program->sizes : shape->sizes;
    bool any = false;
    for (int i = 0; i < query->input_count; i++) {
        any = any || (query->inputs[i].format == GY_FORMAT_BLOCKED &&
                      is_common(&query->inputs[i], rank, sizes));
    }
    any = any && rank == 4 && sizes[1] % 16 == 0;
    for (int i = 0; i < query->input_count; i++) {
        bool full = any && is_common(&query->inputs[i], rank, sizes);
        inputs[i] = full ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
    }
    for (int o = 0; o < query->output_count; o++) {
        bool stored = is_program
                          ? query->attributes->fused.program->outputs[o].reduction == NULL
                          : is_step;
        outputs[o] = any && stored ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
    }
    /* What cannot run blocked is asked for dense. */
    gy_view views[GY_OP_INPUTS_MAX], results[GY_OP_OUTPUTS_MAX];
    gy_kernel_query asked = *query;
    for (int i = 0; i < query->input_count; i++) {
        views[i] = query->inputs[i];
        views[i].format = inputs[i];
    }
    for (int o = 0; o < query->output_count; o++) {
        results[o] = query->outputs[o];
        results[o].format = outputs[o];
    }
    asked.inputs = views;
    asked.outputs = results;
    if (any && !fused_accepts(&asked)) {
        memset(inputs, 0, (size_t)query->input_count * sizeof(inputs[0]));
        memset(outputs, 0, (size_t)query->output_count * sizeof(outputs[0]));
    }
}

const gy_kernel gy_kernel_fused = {
    .name = "tiles fused",
    .accepts = fused_accepts,
    .formats = fused_formats,
    .workspace_bytes = fused_workspace,
    .prepare = fused_prepare,
    .release = gy_free,
    .run = fused_run,
    .takes_strides = true,
    .in_place = 0xff,
    .in_place_any = true,
};

const gy_kernel gy_kernel_tiles = {
    .name = "tiles",
    .accepts = fused_accepts,
    .formats = fused_formats,
    .workspace_bytes = fused_workspace,
    .prepare = fused_prepare,
    .release = gy_free,
    .run = single_run,
    .takes_strides = true,
    .in_place = 0x07,
};
