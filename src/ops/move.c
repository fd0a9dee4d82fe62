/*
 * Rows that the compiler makes: changes of memory format, of placement, and fused chains. They
 * are put in after differentiation and placement, so they have no gradients, and collectives
 * alone have signatures, for the other axes of a mesh. The plain definition of a collective is
 * that of one rank alone.
 */
#include "ops/ops_priv.h"

#include <string.h>

static const char made_late[] = "made by the compiler after differentiation";
static const char placed_already[] = "made by the compiler after placement";

/* ---- reorder ---- */

static gy_status reorder_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    if (attributes->reorder.format == GY_FORMAT_BLOCKED && inputs[0].rank != 4) {
        return gy_fail(GY_SHAPE, "reorder: %s to blocks of channels, expected (N,C,H,W)",
                       gy_type_text(&inputs[0], text));
    }
    *outputs = inputs[0];
    outputs->format = attributes->reorder.format;
    return GY_OK;
}

static const gy_ops_sample reorder_samples[] = {
    {.attributes.reorder = {GY_FORMAT_DENSE},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 3, 4, 5)}},
    {.attributes.reorder = {GY_FORMAT_BLOCKED},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 19, 2, 3)}},
};

const gy_op gy_ops_row_reorder = {
    .name = "reorder",
    .input_count = 1,
    .output_count = 1,
    .infer = reorder_infer,
    .cost = gy_cost_move,
    .no_gradient = made_late,
    .no_placements = placed_already,
    .reference = gy_reference_copy,
    GY_SAMPLES(reorder_samples),
};

/* ---- between the memory of the CPU and of a device ---- */

static gy_status copy_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)attributes;
    GY_ASSERT(input_count == 1);
    *outputs = inputs[0];
    return GY_OK;
}

static const gy_ops_sample copy_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 3, 5)}},
};

/* Where the device is the CPU, a copy. */
#define COPY(row_name)                                                                         \
    const gy_op gy_ops_row_##row_name = {                                                      \
        .name = #row_name,                                                                     \
        .input_count = 1,                                                                      \
        .output_count = 1,                                                                     \
        .infer = copy_infer,                                                                   \
        .cost = gy_cost_move,                                                                  \
        .no_gradient = made_late,                                                              \
        .no_placements = placed_already,                                                       \
        .reference = gy_reference_copy,                                                        \
        GY_SAMPLES(copy_samples),                                                              \
    }

COPY(to_device);
COPY(to_host);

/* ---- collectives ---- */

static gy_status move_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)input_count;
    if (attributes->move.mesh_axis >= GY_MESH_MAX) {
        return gy_fail(GY_ARG, "mesh axis %d, expected 0 to %d", attributes->move.mesh_axis,
                       GY_MESH_MAX - 1);
    }
    *outputs = inputs[0];
    outputs->placement[attributes->move.mesh_axis] = attributes->move.to;
    return GY_OK;
}

/* Along another mesh axis than its own: what it does not cut may be sharded, sums pass. */
static int move_placements(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const gy_placement from = attributes->move.from, to = attributes->move.to;
    const int before = from.kind == GY_SHARD ? from.dim : -1;
    const int behind = to.kind == GY_SHARD ? to.dim : -1;
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        if (dim != before && dim != behind && inputs[0].sizes[dim] != 1) {
            gy_signatures_shard(&made, dim, dim);
        }
    }
    if (from.kind != GY_PARTIAL || from.reduction == GY_SUM) {
        gy_signatures_partial(&made, 0);
    }
    return made.count;
}

/* Sizes are global and do not change: with one rank every move is a copy. */
static gy_status alone_reference(const gy_kernel_call *call)
{
    if (!gy_view_same_shape(&call->inputs[0], &call->outputs[0])) {
        char texts[2][GY_SHAPE_TEXT_BYTES];
        return gy_fail(GY_STATE, "%s of %s to %s needs the other ranks", call->op->name,
                       gy_view_text(&call->inputs[0], texts[0]),
                       gy_view_text(&call->outputs[0], texts[1]));
    }
    return gy_reference_copy(call);
}

/* This rank's part of a value that every rank has. */
static gy_status take_shard_reference(const gy_kernel_call *call)
{
    const gy_view *out = &call->outputs[0];
    gy_view part = call->inputs[0];
    for (int dim = 0; dim < part.rank; dim++) {
        int64_t begin = call->output_offsets != NULL ? call->output_offsets[0][dim] : 0;
        int64_t own = call->input_offsets != NULL ? call->input_offsets[0][dim] : 0;
        GY_ASSERT(begin >= own && begin - own + out->sizes[dim] <= part.sizes[dim]);
        part = gy_view_cut(&part, dim, begin - own, out->sizes[dim], 1);
    }
    return gy_view_copy(&call->outputs[0], &part);
}

static const gy_ops_sample move_samples[] = {
    {.attributes.move = {.mesh_axis = 0, .from = {.kind = GY_PARTIAL}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 4, 3)}},
};

#define MOVE(row_name, row_flags, row_reference)                                               \
    const gy_op gy_ops_row_##row_name = {                                                      \
        .name = #row_name,                                                                     \
        .input_count = 1,                                                                      \
        .output_count = 1,                                                                     \
        .flags = (row_flags),                                                                  \
        .infer = move_infer,                                                                   \
        .cost = gy_cost_move,                                                                  \
        .no_gradient = made_late,                                                              \
        .placements = move_placements,                                                         \
        .reference = (row_reference),                                                          \
        GY_SAMPLES(move_samples),                                                              \
    }

MOVE(allreduce, GY_OP_COLLECTIVE, alone_reference);
MOVE(reduce_scatter, GY_OP_COLLECTIVE, alone_reference);
MOVE(allgather, GY_OP_COLLECTIVE, alone_reference);
MOVE(alltoall, GY_OP_COLLECTIVE, alone_reference);
MOVE(take_shard, 0, take_shard_reference);

/* ---- between stages ---- */

static const char made_by_the_cut[] = "made by the compiler, between two stages";

/* Every node has a value: this one is never written. */
static gy_status send_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)inputs;
    (void)input_count;
    *outputs = gy_type_plain(GY_U8, 0);
    return GY_OK;
}

static gy_status receive_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)inputs;
    (void)input_count;
    (void)outputs;
    return gy_fail(GY_STATE, "receive: message %d of stage %d has the type of what is sent",
                   (int)attributes->message.tag, (int)attributes->message.peer);
}

const gy_op gy_ops_row_send = {
    .name = "send",
    .input_count = 1,
    .output_count = 1,
    .flags = GY_OP_COLLECTIVE,
    .infer = send_infer,
    .cost = gy_cost_move,
    .no_gradient = made_late,
    .no_placements = placed_already,
    .no_reference = made_by_the_cut,
};

const gy_op gy_ops_row_receive = {
    .name = "receive",
    .input_count = 0,
    .output_count = 1,
    .flags = GY_OP_COLLECTIVE,
    .infer = receive_infer,
    .cost = gy_cost_move,
    .no_gradient = made_late,
    .no_placements = placed_already,
    .no_reference = made_by_the_cut,
};

/* ---- fused ---- */

enum { REGISTERS = GY_OP_INPUTS_MAX + 32 };

static gy_status fused_check(const gy_fused *program, int input_count)
{
    if (program == NULL || program->input_count != input_count || program->step_count < 0 ||
        program->step_count > 32 || program->output_count < 1 ||
        program->output_count > GY_OP_OUTPUTS_MAX || input_count > GY_OP_INPUTS_MAX) {
        return gy_fail(GY_ARG, "fused: %d inputs do not fit the program", input_count);
    }
    for (int i = 0; i < program->step_count; i++) {
        const gy_fused_step *step = &program->steps[i];
        bool fits =
            (step->op->flags & GY_OP_ELEMENTWISE) != 0 || step->op == &gy_ops_row_dropout;
        fits = fits && step->op->input_count <= 3;
        for (int k = 0; fits && k < step->op->input_count; k++) {
            fits = step->inputs[k] >= 0 && step->inputs[k] < input_count + i;
        }
        if (!fits) {
            return gy_fail(GY_ARG,
                           "fused: step %d (%s) is not element-wise over earlier results", i,
                           step->op->name);
        }
    }
    for (int i = 0; i < program->output_count; i++) {
        int from = program->outputs[i].register_index;
        if (from < 0 || from >= input_count + program->step_count) {
            return gy_fail(GY_ARG, "fused: output %d is register %d of %d", i, from,
                           input_count + program->step_count);
        }
    }
    return GY_OK;
}

static gy_attributes reduction_of(const gy_fused_output *output)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.reduce.axes = output->axes;
    attributes.reduce.keep = output->keep;
    return attributes;
}

/* Element types of all registers; every one has the common shape. */
static gy_status fused_types(const gy_fused *program, const gy_type *inputs, int input_count,
                             gy_type *registers)
{
    for (int i = 0; i < input_count; i++) {
        registers[i] = gy_type_plain(inputs[i].dtype, program->rank);
        memcpy(registers[i].sizes, program->sizes, sizeof(program->sizes));
    }
    for (int i = 0; i < program->step_count; i++) {
        const gy_fused_step *step = &program->steps[i];
        gy_type of[3];
        for (int k = 0; k < step->op->input_count; k++) {
            of[k] = registers[step->inputs[k]];
        }
        GY_TRY(step->op->infer(&step->attributes, of, step->op->input_count,
                               &registers[input_count + i]));
    }
    return GY_OK;
}

/* Sizes are those of this rank's part. */
static gy_status fused_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    const gy_fused *program = attributes->fused.program;
    gy_type registers[REGISTERS], made[GY_OP_OUTPUTS_MAX];
    GY_TRY(fused_check(program, input_count));
    GY_TRY(fused_types(program, inputs, input_count, registers));
    for (int i = 0; i < program->output_count; i++) {
        const gy_fused_output *output = &program->outputs[i];
        made[i] = registers[output->register_index];
        if (output->reduction != NULL) {
            const gy_attributes how = reduction_of(output);
            GY_TRY(output->reduction->infer(&how, &registers[output->register_index], 1,
                                            &made[i]));
        }
    }
    memcpy(outputs, made, (size_t)program->output_count * sizeof(made[0]));
    return GY_OK;
}

static void fused_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       const gy_type *outputs, gy_cost *cost)
{
    const gy_fused *program = attributes->fused.program;
    double elements = 1;
    for (int dim = 0; dim < program->rank; dim++) {
        elements *= (double)program->sizes[dim];
    }
    gy_cost_of(inputs, input_count, &outputs[0], elements * program->step_count, cost);
    for (int i = 1; i < program->output_count; i++) {
        cost->bytes_written +=
            gy_type_elements(&outputs[i]) * (double)gy_dtype_bytes(outputs[i].dtype);
    }
}

/* `types`: of the inputs, global; NULL: as the views. */
static gy_status run_row(const gy_op *op, const gy_attributes *attributes,
                         const gy_view *inputs, const gy_type *types, gy_view *output)
{
    const gy_kernel_call call = {.op = op,
                                 .attributes = attributes,
                                 .inputs = inputs,
                                 .input_count = op->input_count,
                                 .outputs = output,
                                 .output_count = 1,
                                 .input_types = types};
    return op->reference(&call);
}

/* A mean is told its global count as the size of one reduced dimension. */
static gy_status run_reduction(const gy_fused_output *output, const gy_view *from, gy_view *to)
{
    const gy_attributes how = reduction_of(output);
    const uint32_t axes = gy_reduce_axes(output->axes, from->rank);
    gy_type type = gy_type_plain(from->dtype, from->rank);
    int64_t left = (int64_t)output->count;
    for (int dim = 0; dim < from->rank; dim++) {
        bool is_reduced = (axes >> dim & 1) != 0;
        type.sizes[dim] = is_reduced ? left : from->sizes[dim];
        left = is_reduced ? 1 : left;
    }
    return run_row(output->reduction, &how, from, output->count > 0 ? &type : NULL, to);
}

/* Step by step, each into a register of full size; `memory` is owned by the caller. */
static gy_status fused_run(const gy_kernel_call *call, gy_view *registers, void **memory)
{
    const gy_fused *program = call->attributes->fused.program;
    for (int i = 0; i < program->step_count; i++) {
        const gy_fused_step *step = &program->steps[i];
        const int to = call->input_count + i;
        gy_view of[3];
        for (int k = 0; k < step->op->input_count; k++) {
            of[k] = registers[step->inputs[k]];
        }
        const size_t bytes =
            (size_t)gy_view_count(&registers[to]) * gy_dtype_bytes(registers[to].dtype);
        memory[i] = gy_alloc("ops.fused", bytes);
        if (memory[i] == NULL) {
            return GY_NOMEM;
        }
        registers[to].data = memory[i];
        GY_TRY(run_row(step->op, &step->attributes, of, NULL, &registers[to]));
    }
    for (int i = 0; i < program->output_count; i++) {
        const gy_fused_output *output = &program->outputs[i];
        const gy_view *from = &registers[output->register_index];
        GY_TRY(output->reduction == NULL ? gy_view_copy(&call->outputs[i], from)
                                         : run_reduction(output, from, &call->outputs[i]));
    }
    return GY_OK;
}

static gy_status fused_reference(const gy_kernel_call *call)
{
    const gy_fused *program = call->attributes->fused.program;
    gy_type inputs[GY_OP_INPUTS_MAX], types[REGISTERS];
    gy_view registers[REGISTERS];
    void *memory[32] = {NULL};
    GY_TRY(fused_check(program, call->input_count));
    for (int i = 0; i < call->input_count; i++) {
        inputs[i] = gy_type_plain(call->inputs[i].dtype, 0);
        registers[i] = gy_view_spread(&call->inputs[i], program->sizes, program->rank);
    }
    GY_TRY(fused_types(program, inputs, call->input_count, types));
    for (int i = call->input_count; i < call->input_count + program->step_count; i++) {
        registers[i] = gy_view_of(NULL, types[i].dtype, program->sizes, program->rank);
    }
    gy_status status = fused_run(call, registers, memory);
    for (int i = 0; i < program->step_count; i++) {
        gy_free(memory[i]);
    }
    return status;
}

/* relu(a b + c) in full, and its sum over the rows. */
static const gy_fused sample_program = {
    .input_count = 3,
    .step_count = 3,
    .output_count = 2,
    .rank = 2,
    .sizes = {3, 4},
    .steps = {{.op = &gy_ops_row_mul, .inputs = {0, 1}},
              {.op = &gy_ops_row_add, .inputs = {3, 2}},
              {.op = &gy_ops_row_relu, .inputs = {4}}},
    .outputs = {{.register_index = 5},
                {.register_index = 5, .reduction = &gy_ops_row_sum, .axes = 1}},
};

static const gy_ops_sample fused_samples[] = {
    {.attributes.fused = {&sample_program},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 4), GY_IN_SCALAR(-1, 1)}},
};

const gy_op gy_ops_row_fused = {
    .name = "fused",
    .input_count = -1,
    .output_count = -1,
    .infer = fused_infer,
    .cost = fused_cost,
    .no_gradient = made_late,
    .no_placements = placed_already,
    .reference = fused_reference,
    GY_SAMPLES(fused_samples),
};
