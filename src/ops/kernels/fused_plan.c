#include "ops/kernels/fused_plan.h"

#include <string.h>

gy_ops_code gy_ops_code_of(const gy_op *op)
{
    static const gy_op *const rows[] = {
#define GY_X(name) &gy_ops_row_##name,
#include "ops/ops.def"
#undef GY_X
    };
    for (int code = 0; code < GY_CODE_COUNT; code++) {
        if (rows[code] == op) {
            return (gy_ops_code)code;
        }
    }
    return GY_CODE_COUNT;
}

const gy_tile_table *gy_tiles(void)
{
    static const gy_tile_table *const tables[] = {
#if defined(__x86_64__)
        &gy_tiles_baseline,
        &gy_tiles_avx2,
        &gy_tiles_avx512
#else
        &gy_tiles_baseline,
        &gy_tiles_baseline,
        &gy_tiles_baseline
#endif
    };
    return tables[gy_tile_isa_level()];
}

/* ---- the common shape ---- */

/* Strides of a view along the program's dimensions: 0 where it repeats. False: sizes differ. */
static bool spread(const gy_view *view, const gy_fused *program, int64_t *strides)
{
    if (view->rank > program->rank) {
        return false;
    }
    int shift = program->rank - view->rank;
    for (int dim = 0; dim < program->rank; dim++) {
        int64_t size = dim < shift ? 1 : view->sizes[dim - shift];
        if (size != program->sizes[dim] && size != 1) {
            return false;
        }
        strides[dim] = size == 1 ? 0 : view->strides[dim - shift];
    }
    return true;
}

/* Row-major strides of the accumulator of an output along the program's dimensions. */
static int64_t accumulator_strides(const gy_fused *program, uint32_t axes, int64_t *strides)
{
    int64_t count = 1;
    for (int dim = program->rank - 1; dim >= 0; dim--) {
        bool is_reduced = (axes >> dim & 1u) != 0;
        strides[dim] = is_reduced ? 0 : count;
        count *= is_reduced ? 1 : program->sizes[dim];
    }
    return count;
}

/* (N,C,H,W) becomes (N,C/16,H,W,16). */
static void block_strides(int64_t *strides, bool is_full, const int64_t *sizes)
{
    if (is_full) {
        int64_t at = 1;
        for (int dim = 4; dim >= 0; dim--) {
            strides[dim] = at;
            at *= sizes[dim];
        }
        return;
    }
    strides[4] = strides[1];
    strides[1] *= 16;
}

typedef struct walk {
    const gy_fused *program;
    const gy_kernel_query *query;
    gy_fused_plan *plan;
    bool is_blocked;
} walk;

static bool is_full(const gy_view *view, const gy_fused *program)
{
    return view->rank == program->rank &&
           memcmp(view->sizes, program->sizes,
                  (size_t)program->rank * sizeof(view->sizes[0])) == 0;
}

/* The seed of a dropout is read as it is, whatever shape it broadcasts to. */
static bool is_seed(const gy_fused *program, int index)
{
    for (int s = 0; s < program->step_count; s++) {
        if (program->steps[s].op == &gy_ops_row_dropout &&
            program->steps[s].inputs[1] == index) {
            return true;
        }
    }
    return false;
}

/* Layouts: all dense, or every full-shape value blocked and the rest per channel. */
static bool check_layout(walk *w)
{
    const gy_kernel_query *query = w->query;
    int blocked = 0;
    for (int i = 0; i < query->input_count; i++) {
        blocked += query->inputs[i].format == GY_FORMAT_BLOCKED;
    }
    for (int i = 0; i < query->output_count; i++) {
        blocked += query->outputs[i].format == GY_FORMAT_BLOCKED;
    }
    w->is_blocked = blocked > 0;
    if (blocked == 0) {
        return true;
    }
    if (w->program->rank != 4 || w->program->sizes[1] % 16 != 0) {
        return false;
    }
    for (int i = 0; i < query->input_count; i++) {
        const gy_view *view = &query->inputs[i];
        bool full = is_full(view, w->program);
        int64_t strides[GY_PLAN_RANK] = {0};
        if (full != (view->format == GY_FORMAT_BLOCKED) || !spread(view, w->program, strides)) {
            return false;
        }
    }
    for (int i = 0; i < query->output_count; i++) {
        bool full = w->program->outputs[i].reduction == NULL;
        if (full != (query->outputs[i].format == GY_FORMAT_BLOCKED)) {
            return false;
        }
    }
    return true;
}

static bool place_inputs(walk *w)
{
    gy_fused_plan *plan = w->plan;
    for (int i = 0; i < plan->input_count; i++) {
        const gy_view *view = &w->query->inputs[i];
        gy_plan_register *reg = &plan->registers[i];
        reg->dtype = view->dtype;
        if (is_seed(w->program, i)) {
            if (!gy_view_is_contiguous(view)) {
                return false; /* its numbers are read one behind another */
            }
            continue; /* strides are zero: a scalar for all tiles */
        }
        if (!spread(view, w->program, reg->strides)) {
            return false;
        }
        if (w->is_blocked) {
            block_strides(reg->strides, view->format == GY_FORMAT_BLOCKED, plan->sizes);
        }
    }
    return true;
}

static bool place_outputs(walk *w)
{
    gy_fused_plan *plan = w->plan;
    for (int o = 0; o < plan->output_count; o++) {
        const gy_fused_output *from = &w->program->outputs[o];
        gy_plan_output *out = &plan->outputs[o];
        *out = (gy_plan_output){.register_index = from->register_index,
                                .dtype = w->query->outputs[o].dtype,
                                .is_reduced = from->reduction != NULL};
        if (!out->is_reduced) {
            continue;
        }
        uint32_t axes = gy_reduce_axes(from->axes, w->program->rank);
        out->reduction = gy_ops_code_of(from->reduction);
        out->axes = axes;
        if (out->reduction == GY_CODE_mean) {
            out->is_mean = true;
            out->mean_count = from->count;
            out->reduction = GY_CODE_sum;
        }
        out->count = accumulator_strides(w->program, axes, out->strides);
        out->offset = plan->accumulators;
        plan->accumulators += (int64_t)gy_round_up((size_t)out->count, 8);
        plan->has_reduction = true;
        if (w->is_blocked) {
            bool is_flat = ((axes >> 2 & 1u) != 0 || plan->sizes[2] == 1) &&
                           ((axes >> 3 & 1u) != 0 || plan->sizes[3] == 1);
            if (!is_flat) {
                return false;
            }
            block_strides(out->strides, false, plan->sizes);
        }
    }
    return true;
}

/* ---- fewer dimensions ---- */

static bool run_together(const int64_t *strides, int dim, int64_t inner)
{
    return strides[dim] == strides[dim + 1] * inner;
}

/* May dimensions dim and dim + 1 be one? */
static bool can_join(const gy_fused_plan *plan, int dim)
{
    int64_t inner = plan->sizes[dim + 1];
    for (int i = 0; i < plan->input_count; i++) {
        if (!run_together(plan->registers[i].strides, dim, inner)) {
            return false;
        }
    }
    for (int o = 0; o < plan->output_count; o++) {
        const gy_plan_output *out = &plan->outputs[o];
        if (out->is_reduced && !run_together(out->strides, dim, inner)) {
            return false;
        }
    }
    return true;
}

static void remove_dimension(gy_fused_plan *plan, int dim)
{
    size_t bytes = (size_t)(plan->rank - dim - 1) * sizeof(plan->sizes[0]);
    memmove(plan->sizes + dim, plan->sizes + dim + 1, bytes);
    for (int i = 0; i < plan->input_count; i++) {
        int64_t *strides = plan->registers[i].strides;
        memmove(strides + dim, strides + dim + 1, bytes);
    }
    for (int o = 0; o < plan->output_count; o++) {
        int64_t *strides = plan->outputs[o].strides;
        memmove(strides + dim, strides + dim + 1, bytes);
    }
    plan->rank--;
}

static void insert_dimension(gy_fused_plan *plan)
{
    size_t bytes = (size_t)plan->rank * sizeof(plan->sizes[0]);
    memmove(plan->sizes + 1, plan->sizes, bytes);
    plan->sizes[0] = 1;
    for (int i = 0; i < plan->input_count; i++) {
        int64_t *strides = plan->registers[i].strides;
        memmove(strides + 1, strides, bytes);
        strides[0] = 0;
    }
    for (int o = 0; o < plan->output_count; o++) {
        int64_t *strides = plan->outputs[o].strides;
        memmove(strides + 1, strides, bytes);
        strides[0] = 0;
    }
    plan->rank++;
}

static void join_dimensions(gy_fused_plan *plan)
{
    for (int dim = plan->rank - 1; dim >= 0; dim--) {
        if (plan->sizes[dim] == 1 && plan->rank > 1) {
            remove_dimension(plan, dim);
        }
    }
    for (int dim = plan->rank - 2; dim >= 0; dim--) {
        if (can_join(plan, dim)) {
            int64_t outer = plan->sizes[dim];
            remove_dimension(plan, dim);
            plan->sizes[dim] *= outer;
        }
    }
    while (plan->rank < 2) {
        insert_dimension(plan);
    }
}

/* ---- tiles ---- */

static int64_t divide_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

static void cut_tiles(gy_fused_plan *plan)
{
    size_t bytes = 1;
    for (int r = 0; r < plan->input_count + plan->step_count; r++) {
        bytes = GY_MAX(bytes, gy_dtype_bytes(plan->registers[r].dtype));
    }
    int64_t limit = GY_TILE_BYTES / (int64_t)GY_MAX(bytes, (size_t)4);
    int64_t rows = plan->sizes[plan->rank - 2], columns = plan->sizes[plan->rank - 1];
    plan->columns = GY_MIN(columns, limit);
    plan->rows = columns > limit / 2 ? 1 : GY_MIN(rows, limit / GY_MAX(columns, (int64_t)1));
    plan->columns = GY_MAX(plan->columns, (int64_t)1);
    plan->rows = GY_MAX(plan->rows, (int64_t)1);
    plan->row_tiles = divide_up(rows, plan->rows);
    plan->column_tiles = divide_up(columns, plan->columns);
    plan->tiles = plan->row_tiles * plan->column_tiles;
    for (int dim = 0; dim < plan->rank - 2; dim++) {
        plan->tiles *= plan->sizes[dim];
    }
}

/* Pieces depend on shapes alone, never on the number of workers. */
static void cut_pieces(gy_fused_plan *plan)
{
    int64_t tile = plan->rows * plan->columns;
    plan->piece_tiles = GY_MAX(32768 / tile, (int64_t)1);
    if (plan->has_reduction) {
        int first = 0; /* the outermost dimension of which there is more than one */
        bool keeps_first = true;
        while (first < plan->rank - 1 && plan->sizes[first] == 1) {
            first++;
        }
        for (int o = 0; o < plan->output_count; o++) {
            const gy_plan_output *out = &plan->outputs[o];
            keeps_first = keeps_first && (!out->is_reduced || out->strides[first] != 0);
        }
        int64_t unit = 1; /* tiles of one step along `first` */
        if (first < plan->rank - 2) {
            unit = plan->tiles / GY_MAX(plan->sizes[first], (int64_t)1);
        } else if (first == plan->rank - 2) {
            unit = plan->column_tiles;
        }
        plan->shares_accumulators = keeps_first;
        int64_t most = GY_PLAN_PIECES;
        if (!keeps_first) {
            unit = 1;
            /* An empty part may have none. */
            const int64_t accumulators = GY_MAX(plan->accumulators, (int64_t)1);
            most = GY_MIN(most, 1 + plan->tiles * tile / (8 * accumulators));
        }
        int64_t least = divide_up(GY_MAX(plan->tiles, (int64_t)1), most);
        plan->piece_tiles = GY_MAX(plan->piece_tiles, least);
        plan->piece_tiles =
            divide_up(plan->piece_tiles, GY_MAX(unit, (int64_t)1)) * GY_MAX(unit, (int64_t)1);
    }
    plan->pieces = divide_up(plan->tiles, plan->piece_tiles);
}

/* ---- registers ---- */

static gy_dtype step_dtype(const gy_plan_register *registers, const gy_plan_step *step,
                           gy_ops_code code)
{
    if (code == GY_CODE_cast) {
        return step->attributes.cast.dtype;
    }
    if (code >= GY_CODE_equal && code <= GY_CODE_greater_equal) {
        return GY_U8;
    }
    return registers[step->inputs[code == GY_CODE_select ? 1 : 0]].dtype;
}

static bool plan_steps(walk *w)
{
    gy_fused_plan *plan = w->plan;
    for (int s = 0; s < plan->step_count; s++) {
        const gy_fused_step *from = &w->program->steps[s];
        gy_plan_step *step = &plan->steps[s];
        gy_ops_code code = gy_ops_code_of(from->op);
        *step = (gy_plan_step){.attributes = from->attributes,
                               .input_count = from->op->input_count,
                               .is_dropout = code == GY_CODE_dropout};
        if (step->input_count < 1 || step->input_count > 3) {
            return false;
        }
        memcpy(step->inputs, from->inputs, sizeof(step->inputs));
        gy_plan_register *reg = &plan->registers[plan->input_count + s];
        reg->dtype = step_dtype(plan->registers, step, code);
        int value = code == GY_CODE_select ? 1 : 0;
        step->run =
            gy_tiles()->find(code, plan->registers[step->inputs[value]].dtype, reg->dtype);
        if (step->run == NULL || (step->is_dropout && w->is_blocked)) {
            return false;
        }
        if (code == GY_CODE_select && plan->registers[step->inputs[0]].dtype != GY_U8) {
            return false;
        }
        for (int i = 0; i < step->input_count; i++) {
            plan->registers[step->inputs[i]].last = s;
        }
    }
    for (int o = 0; o < plan->output_count; o++) {
        plan->registers[plan->outputs[o].register_index].last = plan->step_count;
    }
    return true;
}

static bool is_all_zero(const int64_t *strides, int rank)
{
    for (int dim = 0; dim < rank; dim++) {
        if (strides[dim] != 0) {
            return false;
        }
    }
    return true;
}

/* Does a step that needs a tile of it read register `index`? */
static bool needs_tile(const gy_fused_plan *plan, int index)
{
    for (int s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].input_count == 1 && plan->steps[s].inputs[0] == index) {
            return true;
        }
    }
    for (int o = 0; o < plan->output_count; o++) {
        if (plan->outputs[o].register_index == index) {
            return true;
        }
    }
    return false;
}

static gy_place_kind input_kind(const gy_fused_plan *plan, int index)
{
    const gy_plan_register *reg = &plan->registers[index];
    int64_t row = reg->strides[plan->rank - 2], column = reg->strides[plan->rank - 1];
    bool one_row = plan->rows == 1, one_column = plan->columns == 1;
    if (reg->last < 0) {
        return GY_PLACE_UNUSED;
    }
    if (is_all_zero(reg->strides, plan->rank)) {
        return GY_PLACE_SCALAR;
    }
    if ((column == 1 || one_column) && (one_row || row == plan->columns)) {
        return GY_PLACE_DIRECT;
    }
    if (column == 0 && (one_row || row == 0) && !needs_tile(plan, index)) {
        return GY_PLACE_POINT;
    }
    return GY_PLACE_COPY;
}

static void hoist(gy_fused_plan *plan, int s)
{
    gy_plan_step *step = &plan->steps[s];
    gy_plan_register *reg = &plan->registers[plan->input_count + s];
    step->is_hoisted = !step->is_dropout;
    for (int i = 0; i < step->input_count; i++) {
        gy_place_kind kind = plan->registers[step->inputs[i]].kind;
        step->is_hoisted = step->is_hoisted && kind == GY_PLACE_SCALAR;
        if (kind == GY_PLACE_SCALAR || kind == GY_PLACE_POINT) {
            step->scalars |= 1u << i;
        }
    }
    reg->kind = step->is_hoisted ? GY_PLACE_SCALAR : GY_PLACE_SLOT;
}

static int free_slot(const int *busy_until, int now)
{
    int slot = 0;
    while (slot < GY_PLAN_SLOTS && busy_until[slot] >= now) {
        slot++;
    }
    return slot;
}

/*
 * Inputs that are copied and results of hoisted steps keep their slots: they are made before
 * the first tile, or once for many. So do outputs, which a reduction or a copy reads last. The
 * other slots are given out anew once the last reader of a register has run.
 */
static bool assign_slots(gy_fused_plan *plan)
{
    int busy_until[GY_PLAN_SLOTS];
    for (int i = 0; i < GY_PLAN_SLOTS; i++) {
        busy_until[i] = -1;
    }
    int count = plan->input_count + plan->step_count;
    for (int turn = 0; turn < 2; turn++) {
        for (int r = 0; r < count; r++) {
            gy_plan_register *reg = &plan->registers[r];
            bool is_input = r < plan->input_count;
            bool keeps = is_input ? reg->kind == GY_PLACE_COPY : reg->kind == GY_PLACE_SCALAR;
            if (turn == 0) {
                reg->slot = -1;
            }
            if (keeps != (turn == 0) || (is_input && !keeps)) {
                continue;
            }
            int now = keeps ? 0 : r - plan->input_count;
            int slot = free_slot(busy_until, now);
            if (slot == GY_PLAN_SLOTS) {
                return false;
            }
            bool is_last = keeps || reg->last >= plan->step_count;
            busy_until[slot] = is_last ? GY_PLAN_REGISTERS : GY_MAX(reg->last, now);
            reg->slot = slot;
        }
    }
    return true;
}

/* How many steps and outputs read a register. */
static int count_readers(const gy_fused_plan *plan, int index)
{
    int readers = 0;
    for (int s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < plan->steps[s].input_count; i++) {
            readers += plan->steps[s].inputs[i] == index;
        }
    }
    for (int o = 0; o < plan->output_count; o++) {
        readers += plan->outputs[o].register_index == index;
    }
    return readers;
}

/* select(less_equal(a, z), z, b) with one z, relu's gradient, is one loop instead of two. */
static void absorb_mask(gy_fused_plan *plan, const gy_fused *program, int s)
{
    gy_plan_step *step = &plan->steps[s];
    int mask = step->inputs[0] - plan->input_count;
    if (program->steps[s].op != &gy_ops_row_select || step->scalars != 2 || mask < 0 ||
        program->steps[mask].op != &gy_ops_row_less_equal) {
        return;
    }
    gy_plan_step *compare = &plan->steps[mask];
    const gy_plan_register *a = &plan->registers[compare->inputs[0]];
    gy_tile_function gate = gy_tiles()->find_gate(a->dtype);
    if (compare->scalars != 2 || compare->inputs[1] != step->inputs[1] || gate == NULL ||
        a->dtype != plan->registers[step->inputs[2]].dtype ||
        count_readers(plan, step->inputs[0]) != 1) {
        return;
    }
    plan->registers[step->inputs[0]].kind = GY_PLACE_UNUSED;
    compare->is_absorbed = true;
    step->run = gate;
    step->inputs[0] = compare->inputs[0];
    plan->registers[step->inputs[0]].last = GY_MAX(plan->registers[step->inputs[0]].last, s);
}

static bool place_registers(gy_fused_plan *plan, const gy_fused *program)
{
    for (int i = 0; i < plan->input_count; i++) {
        plan->registers[i].kind = input_kind(plan, i);
    }
    for (int s = 0; s < plan->step_count; s++) {
        hoist(plan, s);
    }
    for (int s = 0; s < plan->step_count; s++) {
        absorb_mask(plan, program, s);
    }
    for (int o = 0; o < plan->output_count; o++) {
        gy_plan_output *out = &plan->outputs[o];
        gy_plan_register *reg = &plan->registers[out->register_index];
        if (out->is_reduced) {
            bool is_value = reg->dtype == out->dtype;
            out->rows_reduced = out->strides[plan->rank - 2] == 0;
            out->columns_reduced = out->strides[plan->rank - 1] == 0;
            out->fold = gy_tiles()->find_fold(out->reduction, reg->dtype, out->columns_reduced);
            if (out->fold == NULL || !is_value) {
                return false;
            }
        } else if (reg->kind == GY_PLACE_SLOT) {
            reg->kind = GY_PLACE_OUTPUT;
            reg->output = o;
        }
        if (!out->is_reduced && reg->dtype != out->dtype) {
            return false;
        }
    }
    return assign_slots(plan);
}

bool gy_fused_plan_make(const gy_fused *program, const gy_kernel_query *query,
                        gy_fused_plan *plan)
{
    walk w = {.program = program, .query = query, .plan = plan};
    memset(plan, 0, sizeof(*plan));
    if (program->input_count > GY_OP_INPUTS_MAX || program->input_count != query->input_count ||
        program->output_count != query->output_count || !check_layout(&w)) {
        return false;
    }
    plan->rank = program->rank;
    plan->input_count = program->input_count;
    plan->step_count = program->step_count;
    plan->output_count = program->output_count;
    plan->program_rank = program->rank;
    memcpy(plan->sizes, program->sizes, sizeof(program->sizes));
    memcpy(plan->program_sizes, program->sizes, sizeof(program->sizes));
    for (int r = 0; r < GY_PLAN_REGISTERS; r++) {
        plan->registers[r].last = -1;
    }
    if (w.is_blocked) {
        plan->sizes[1] /= 16;
        plan->sizes[4] = 16;
        plan->rank = 5;
    }
    if (!place_inputs(&w) || !place_outputs(&w) || !plan_steps(&w)) {
        return false;
    }
    join_dimensions(plan);
    cut_tiles(plan);
    cut_pieces(plan);
    return place_registers(plan, program);
}

static void one_step(const gy_kernel_query *query, gy_fused *program)
{
    program->step_count = 1;
    program->steps[0].op = query->op;
    program->steps[0].attributes = *query->attributes;
    for (int i = 0; i < query->input_count; i++) {
        program->steps[0].inputs[i] = (int16_t)i;
    }
    program->outputs[0].register_index = (int16_t)query->input_count;
}

static void one_reduction(const gy_kernel_query *query, gy_fused *program)
{
    program->outputs[0] = (gy_fused_output){.register_index = 0,
                                            .reduction = query->op,
                                            .axes = query->attributes->reduce.axes,
                                            .keep = query->attributes->reduce.keep};
}

bool gy_fused_from_query(const gy_kernel_query *query, gy_fused *program)
{
    bool is_step =
        (query->op->flags & GY_OP_ELEMENTWISE) != 0 || query->op == &gy_ops_row_dropout;
    bool is_reduction =
        (query->op->flags & GY_OP_REDUCTION) != 0 || query->op == &gy_ops_row_mean;
    if ((!is_step && !is_reduction) || query->input_count < 1 || query->input_count > 3 ||
        query->output_count != 1) {
        return false;
    }
    memset(program, 0, sizeof(*program));
    const gy_view *common = is_step ? &query->outputs[0] : &query->inputs[0];
    program->input_count = query->input_count;
    program->output_count = 1;
    program->rank = common->rank;
    memcpy(program->sizes, common->sizes, sizeof(common->sizes));
    (is_step ? one_step : one_reduction)(query, program);
    return true;
}
