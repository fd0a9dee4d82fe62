/*
 * Products of matrices. What the library takes in one call is a batch whose operands lie at
 * equal distances, 0 where one is the same for all. Leading dimensions become that:
 *
 *   - neighbours along which a, b and c each go on at one distance are one dimension;
 *   - along the innermost one, where b is repeated and a is not transposed, rows of all
 *     matrices lie one behind another: they are rows of one matrix;
 *   - of what is left the largest is the batch, and each place of the others has a product of
 *     its own; or an operand that is repeated is first written out, so that fewer are left.
 *
 * With t(a) of (4,1,k,m) and b of (5,k,n): four products, each of a batch of 5 that repeats a,
 * or both written out to (4,5,...) and one product. The cheapest is taken, in bytes that memory
 * moves: a launch costs what it moves meanwhile, and what is written out three times its size
 * (written, read, and what has to leave the cache for it).
 */
#include "ops/cuda/plan/plan_priv.h"
#include "tensor/tensor.h"

#include <string.h>

enum { A, B, C, LAUNCH_BYTES = 4 << 20 };

/* A leading dimension, and the elements from one of its places to the next; 0: repeated. */
typedef struct lead {
    int64_t size, strides[3];
} lead;

/* How the products of a row are made. */
typedef struct layout {
    gy_cuda_product_shape shape;
    bool is_spread[2];              /* a and b: written out */
    lead leads[GY_TENSOR_RANK_MAX]; /* (count) along which each place is a product */
    int count;
    double cost;
} layout;

/* ---- leading dimensions ---- */

/* The matrices of an operand that is written out: as many as c has. */
static gy_view spread_of(const gy_view *operand, const gy_view *c)
{
    int64_t sizes[GY_TENSOR_RANK_MAX];
    GY_ASSERT(operand->rank >= 2 && operand->rank <= c->rank);
    memcpy(sizes, c->sizes, sizeof(sizes));
    sizes[c->rank - 2] = operand->sizes[operand->rank - 2];
    sizes[c->rank - 1] = operand->sizes[operand->rank - 1];
    return gy_view_of(NULL, operand->dtype, sizes, c->rank);
}

/* Elements between two places of dimension `dim` of a result of that rank. */
static int64_t stride_in(const gy_view *operand, int rank, int dim)
{
    const int own = dim - (rank - operand->rank);
    return own < 0 || operand->sizes[own] == 1 ? 0 : operand->strides[own];
}

static bool goes_on(const lead *outer, const lead *inner)
{
    bool is_one = true;
    for (int i = A; i <= C; i++) {
        is_one = is_one && outer->strides[i] == inner->strides[i] * inner->size;
    }
    return is_one;
}

static void find_leads(const gy_view operands[3], layout *made)
{
    const gy_view *c = &operands[C];
    for (int dim = 0; dim + 2 < c->rank; dim++) {
        lead *last = made->count > 0 ? &made->leads[made->count - 1] : NULL;
        lead next = {.size = c->sizes[dim]};
        if (next.size == 1) {
            continue;
        }
        for (int i = A; i <= C; i++) {
            next.strides[i] = stride_in(&operands[i], c->rank, dim);
        }
        if (last != NULL && goes_on(last, &next)) {
            next.size *= last->size;
            *last = next;
        } else {
            made->leads[made->count++] = next;
        }
    }
}

/* The largest becomes the batch. */
static void take_batch(layout *made)
{
    lead *largest = &made->leads[0];
    if (made->count == 0) {
        return;
    }
    for (int i = 1; i < made->count; i++) {
        largest = made->leads[i].size > largest->size ? &made->leads[i] : largest;
    }
    made->shape.batch = largest->size;
    made->shape.a_stride = largest->strides[A];
    made->shape.b_stride = largest->strides[B];
    made->shape.c_stride = largest->strides[C];
    const size_t behind = (size_t)(made->leads + --made->count - largest);
    memmove(largest, largest + 1, behind * sizeof(*largest));
}

static int64_t products_of(const layout *made)
{
    int64_t count = 1;
    for (int i = 0; i < made->count; i++) {
        count *= made->leads[i].size;
    }
    return count;
}

/* The layout with those operands written out. */
static layout lay_out(const gy_view views[3], const gy_cuda_product_shape *shape,
                      const bool is_spread[2], size_t launch_bytes)
{
    layout made = {.shape = *shape, .is_spread = {is_spread[A], is_spread[B]}};
    gy_view operands[3] = {views[A], views[B], views[C]};
    for (int i = A; i <= B; i++) {
        if (is_spread[i]) {
            operands[i] = spread_of(&views[i], &views[C]);
            made.cost += (double)launch_bytes + 3 * (double)gy_view_bytes(&operands[i]);
        }
    }
    find_leads(operands, &made);
    const lead *last = made.count > 0 ? &made.leads[made.count - 1] : NULL;
    if (last != NULL && last->strides[B] == 0 && !shape->is_a_transposed) {
        GY_ASSERT(last->strides[A] == shape->m * shape->k);
        GY_ASSERT(last->strides[C] == shape->m * shape->n);
        made.shape.m *= last->size;
        made.count--;
    }
    take_batch(&made);
    made.cost += (double)launch_bytes * (double)products_of(&made);
    return made;
}

static layout choose_layout(const gy_view views[3], const gy_cuda_product_shape *shape,
                            size_t launch_bytes)
{
    static const bool ways[][2] = {{false, false}, {true, false}, {false, true}, {true, true}};
    layout best = lay_out(views, shape, ways[0], launch_bytes);
    for (size_t i = 1; i < GY_COUNT(ways) && best.count > 0; i++) {
        const layout other = lay_out(views, shape, ways[i], launch_bytes);
        best = other.cost < best.cost ? other : best;
    }
    return best;
}

/* ---- steps ---- */

/* Write an operand out, in the workspace. */
static gy_status add_spread(gy_cuda_plan *plan, const gy_view *operand, const gy_view *c,
                            gy_cuda_place *place)
{
    gy_view output = spread_of(operand, c);
    const gy_attributes attributes = {.shape = {.rank = 0}}; /* sizes are the views' */
    const gy_kernel_call call = {.op = &gy_ops_row_broadcast_to,
                                 .attributes = &attributes,
                                 .inputs = operand,
                                 .input_count = 1,
                                 .outputs = &output,
                                 .output_count = 1};
    gy_cuda_step step = {.in = *place};
    GY_TRY(gy_cuda_text_make(&call, gy_cuda_plan_text(plan, &step.index)));
    step.out = *place = gy_cuda_plan_take(plan, gy_view_bytes(&output));
    return gy_cuda_plan_add(plan, &step);
}

/* What the addresses of all products are multiples of. */
static int alignment_of(const layout *made, const size_t bytes[3])
{
    size_t alignment = 16;
    for (int i = 0; i < made->count; i++) {
        for (int operand = A; operand <= C; operand++) {
            while ((size_t)made->leads[i].strides[operand] * bytes[operand] % alignment != 0) {
                alignment /= 2;
            }
        }
    }
    GY_ASSERT(alignment >= 2);
    return (int)alignment;
}

/* The product of each place of the leading dimensions that are no batch. */
static gy_status add_products(gy_cuda_plan *plan, const layout *made, const size_t bytes[3],
                              const gy_cuda_step *first)
{
    const int64_t count = products_of(made);
    GY_ASSERT(count == 1 || first->added.where == GY_CUDA_NOWHERE);
    for (int64_t n = 0; n < count; n++) {
        gy_cuda_step step = *first;
        int64_t rest = n;
        for (int i = made->count - 1; i >= 0; i--) {
            const lead *along = &made->leads[i];
            const size_t at = (size_t)(rest % along->size);
            rest /= along->size;
            step.a.offset_bytes += at * (size_t)along->strides[A] * bytes[A];
            step.b.offset_bytes += at * (size_t)along->strides[B] * bytes[B];
            step.c.offset_bytes += at * (size_t)along->strides[C] * bytes[C];
        }
        GY_TRY(gy_cuda_plan_add(plan, &step));
    }
    return GY_OK;
}

/* The products of operands `first` and the next, whose numbers and factors stand in `shape` and
 * `step`. */
static gy_status add_matmul(gy_cuda_plan *plan, const gy_kernel_call *call, size_t launch_bytes,
                            const gy_cuda_product_shape *shape, gy_cuda_step *step)
{
    const int first = step->a.index;
    if (shape->m < 1 || shape->n < 1 || shape->k < 1) {
        gy_cuda_plan_refuse(plan, "it is empty");
        return GY_OK;
    }
    const gy_view views[3] = {call->inputs[first], call->inputs[first + 1], call->outputs[0]};
    const size_t bytes[3] = {gy_dtype_bytes(views[A].dtype), gy_dtype_bytes(views[B].dtype),
                             gy_dtype_bytes(views[C].dtype)};
    layout made =
        choose_layout(views, shape, launch_bytes > 0 ? launch_bytes : (size_t)LAUNCH_BYTES);
    if (made.is_spread[A]) {
        GY_TRY(add_spread(plan, &views[A], &views[C], &step->a));
    }
    if (made.is_spread[B]) {
        GY_TRY(add_spread(plan, &views[B], &views[C], &step->b));
    }
    made.shape.alignment = alignment_of(&made, bytes);
    step->index = gy_cuda_plan_product(plan, &made.shape);
    step->workspace = gy_cuda_plan_take(plan, plan->product_bytes);
    return add_products(plan, &made, bytes, step);
}

/* ---- rows ---- */

/* Sizes of the product whose operands begin with input `first`. */
static void shape_of(const gy_kernel_call *call, int first, gy_cuda_product_shape *shape)
{
    const gy_view *a = &call->inputs[first], *c = &call->outputs[0];
    shape->is_a_transposed = call->attributes->matmul.transpose_a;
    shape->is_b_transposed = call->attributes->matmul.transpose_b;
    shape->m = c->sizes[c->rank - 2];
    shape->n = c->sizes[c->rank - 1];
    shape->k = a->sizes[a->rank - (shape->is_a_transposed ? 2 : 1)];
}

static gy_status plan_matmul(gy_cuda_plan *plan, const gy_kernel_call *call,
                             const gy_cuda_plan_options *options, gy_cuda_product_shape *shape)
{
    gy_cuda_step step = {.is_product = true,
                         .a = gy_cuda_plan_input(0, 0),
                         .b = gy_cuda_plan_input(1, 0),
                         .c = gy_cuda_plan_output(0)};
    const bool has_bias = call->attributes->matmul.has_bias;
    const bool has_relu = call->attributes->matmul.activation == GY_ACTIVATION_RELU;
    /* cuBLASLt joins nothing to those of float64. */
    const bool is_alone = shape->number == GY_CUDA_F64 || options->joins_nothing;
    shape_of(call, 0, shape);
    shape->has_bias = has_bias && !is_alone;
    shape->has_relu = has_relu && !is_alone;
    step.bias = shape->has_bias ? gy_cuda_plan_input(2, 0) : step.bias;
    GY_TRY(add_matmul(plan, call, options->launch_bytes, shape, &step));
    return is_alone && (has_bias || has_relu) ? gy_cuda_plan_finish(plan, call) : GY_OK;
}

/* w - s a b; the device has s, and so the library reads -s and 1 there. */
static gy_status plan_update(gy_cuda_plan *plan, const gy_kernel_call *call,
                             const gy_cuda_plan_options *options, gy_cuda_product_shape *shape)
{
    gy_cuda_step text = {.in = gy_cuda_plan_input(3, 0)};
    gy_cuda_step step = {.is_product = true,
                         .a = gy_cuda_plan_input(1, 0),
                         .b = gy_cuda_plan_input(2, 0),
                         .c = gy_cuda_plan_output(0),
                         .added = gy_cuda_plan_input(0, 0)};
    text.out = gy_cuda_plan_take(plan, GY_CUDA_SCALES_BYTES);
    GY_TRY(gy_cuda_text_scales(call, gy_cuda_plan_text(plan, &text.index)));
    GY_TRY(gy_cuda_plan_add(plan, &text));
    shape_of(call, 1, shape);
    shape->adds = shape->has_scales = true;
    step.scales = text.out;
    return add_matmul(plan, call, options->launch_bytes, shape, &step);
}

/* t(a) b over all dimensions but the last. */
static gy_status plan_over_rows(gy_cuda_plan *plan, const gy_kernel_call *call,
                                gy_cuda_product_shape *shape)
{
    const gy_view *a = &call->inputs[0], *b = &call->inputs[1];
    gy_cuda_step step = {.is_product = true,
                         .a = gy_cuda_plan_input(0, 0),
                         .b = gy_cuda_plan_input(1, 0),
                         .c = gy_cuda_plan_output(0)};
    shape->m = a->sizes[a->rank - 1];
    shape->n = b->sizes[b->rank - 1];
    shape->k = gy_view_count(a) / GY_MAX(shape->m, 1);
    shape->is_a_transposed = true;
    step.index = gy_cuda_plan_product(plan, shape);
    step.workspace = gy_cuda_plan_take(plan, plan->product_bytes);
    return gy_cuda_plan_add(plan, &step);
}

gy_status gy_cuda_plan_matmul(gy_cuda_plan *plan, const gy_kernel_call *call,
                              const gy_cuda_plan_options *options, gy_cuda_product_shape *shape)
{
    GY_ASSERT(call->output_count == 1 && call->input_count >= 2);
    GY_ASSERT(shape->batch == 0 && !shape->adds);
    return call->op == &gy_ops_row_matmul          ? plan_matmul(plan, call, options, shape)
           : call->op == &gy_ops_row_matmul_update ? plan_update(plan, call, options, shape)
                                                   : plan_over_rows(plan, call, shape);
}
