/* The table of all operators, and what can be said of a type. */
#include "base/text.h"
#include "ops/ops_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const gy_op *const gy_ops_all[] = {
#define GY_X(name) &gy_ops_row_##name,
#include "ops/ops.def"
#undef GY_X
};
const int gy_ops_all_count = (int)GY_COUNT(gy_ops_all);

const gy_op *gy_ops_find(const char *name)
{
    for (int i = 0; i < gy_ops_all_count; i++) {
        if (strcmp(gy_ops_all[i]->name, name) == 0) {
            return gy_ops_all[i];
        }
    }
    return NULL;
}

const char *gy_size_text(int64_t size, char out[32])
{
    if (size == GY_BATCH) {
        snprintf(out, 32, "batch");
    } else if (size < 0) {
        snprintf(out, 32, "%" PRIu64 "batch", 0 - (uint64_t)size);
    } else {
        snprintf(out, 32, "%" PRId64, size);
    }
    return out;
}

const char *gy_type_text(const gy_type *type, char out[160])
{
    size_t used = gy_print(out, 160, "%s[", gy_dtype_name(type->dtype));
    for (int dim = 0; dim < type->rank; dim++) {
        char size[32];
        (void)gy_size_text(type->sizes[dim], size);
        if (used + strlen(size) + 16 > GY_TYPE_TEXT_BYTES) {
            used += gy_print(out + used, GY_TYPE_TEXT_BYTES - used, ",...");
            break;
        }
        used +=
            gy_print(out + used, GY_TYPE_TEXT_BYTES - used, "%s%s", dim == 0 ? "" : ",", size);
    }
    snprintf(out + used, GY_TYPE_TEXT_BYTES - used, "]%s",
             type->format == GY_FORMAT_BLOCKED ? ":blocked" : "");
    return out;
}

static bool has_sizes_of(const gy_type *a, const gy_type *b)
{
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) == 0;
}

bool gy_type_is_same_shape(const gy_type *a, const gy_type *b)
{
    return a->dtype == b->dtype && has_sizes_of(a, b);
}

int64_t gy_sizes_product(const int64_t *sizes, int from, int to)
{
    int64_t product = 1;
    bool is_empty = false, is_lost = false;
    int symbols = 0;
    for (int dim = from; dim < to; dim++) {
        symbols += sizes[dim] < 0;
        is_empty |= sizes[dim] == 0;
        is_lost |= __builtin_mul_overflow(product, sizes[dim], &product);
    }
    if (is_empty) {
        return 0;
    }
    return symbols > 1 || is_lost ? INT64_MIN : product;
}

int64_t gy_type_count(const gy_type *type)
{
    return gy_sizes_product(type->sizes, 0, type->rank);
}

double gy_type_elements(const gy_type *type)
{
    double count = 1;
    for (int dim = 0; dim < type->rank; dim++) {
        double size = (double)type->sizes[dim];
        count *= size < 0 ? -size : size;
    }
    return count;
}

gy_type gy_type_plain(gy_dtype dtype, int rank)
{
    gy_type type = {.dtype = dtype, .rank = rank};
    return type;
}

gy_type gy_type_like(const gy_type *type)
{
    gy_type like = gy_type_plain(type->dtype, type->rank);
    memcpy(like.sizes, type->sizes, (size_t)type->rank * sizeof(like.sizes[0]));
    return like;
}

bool gy_dtype_is_real(gy_dtype dtype)
{
    return dtype == GY_F64 || dtype == GY_F32;
}

bool gy_dtype_is_whole(gy_dtype dtype)
{
    return dtype == GY_I64 || dtype == GY_I32 || dtype == GY_I16 || dtype == GY_I8 ||
           dtype == GY_U32 || dtype == GY_U16 || dtype == GY_U8;
}

gy_status gy_need_real(const char *name, const gy_type *inputs, int index)
{
    char text[GY_TYPE_TEXT_BYTES];
    if (!gy_dtype_is_real(inputs[index].dtype)) {
        return gy_fail(GY_TYPE, "%s: input %d is %s, expected f64 or f32 (cast it)", name,
                       index, gy_type_text(&inputs[index], text));
    }
    return GY_OK;
}

static bool is_half(gy_dtype dtype)
{
    return dtype == GY_BF16 || dtype == GY_F16;
}

gy_dtype gy_ops_product_dtype(const gy_type *operand)
{
    return is_half(operand->dtype) ? GY_F32 : operand->dtype;
}

gy_status gy_ops_need_operands(const char *name, const gy_type *inputs)
{
    char text[GY_TYPE_TEXT_BYTES];
    if (!gy_dtype_is_real(inputs[0].dtype) && !is_half(inputs[0].dtype)) {
        return gy_fail(GY_TYPE, "%s: input 0 is %s, expected f64, f32, bf16 or f16 (cast it)",
                       name, gy_type_text(&inputs[0], text));
    }
    return gy_need_same_dtype(name, &inputs[0], &inputs[1]);
}

gy_status gy_need_whole(const char *name, const gy_type *inputs, int index)
{
    char text[GY_TYPE_TEXT_BYTES];
    if (!gy_dtype_is_whole(inputs[index].dtype)) {
        return gy_fail(GY_TYPE, "%s: input %d is %s, expected integers", name, index,
                       gy_type_text(&inputs[index], text));
    }
    return GY_OK;
}

gy_status gy_need_same_dtype(const char *name, const gy_type *a, const gy_type *b)
{
    char left[GY_TYPE_TEXT_BYTES], right[GY_TYPE_TEXT_BYTES];
    if (a->dtype != b->dtype) {
        return gy_fail(GY_TYPE, "%s: element types differ: %s and %s (cast one)", name,
                       gy_type_text(a, left), gy_type_text(b, right));
    }
    return GY_OK;
}

gy_status gy_need_same_shape(const char *name, const gy_type *a, const gy_type *b)
{
    char left[GY_TYPE_TEXT_BYTES], right[GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_same_dtype(name, a, b));
    if (!has_sizes_of(a, b)) {
        return gy_fail(GY_SHAPE, "%s: shapes differ: %s, expected %s", name,
                       gy_type_text(b, right), gy_type_text(a, left));
    }
    return GY_OK;
}

gy_status gy_broadcast_sizes(const char *name, const gy_type *a, const gy_type *b, gy_type *out)
{
    gy_type result = gy_type_plain(b->dtype, GY_MAX(a->rank, b->rank));
    for (int back = 1; back <= result.rank; back++) {
        int64_t left = back <= a->rank ? a->sizes[a->rank - back] : 1;
        int64_t right = back <= b->rank ? b->sizes[b->rank - back] : 1;
        if (left != right && left != 1 && right != 1) {
            char texts[2][GY_TYPE_TEXT_BYTES];
            char sizes[2][32];
            return gy_fail(GY_SHAPE, "%s: sizes differ: %s and %s (%s against %s)", name,
                           gy_type_text(a, texts[0]), gy_type_text(b, texts[1]),
                           gy_size_text(left, sizes[0]), gy_size_text(right, sizes[1]));
        }
        result.sizes[result.rank - back] = left == 1 ? right : left;
    }
    *out = result;
    return GY_OK;
}

/* What is too large stays so large that check_bytes refuses it, and is none of the marks that
 * sizes in attributes may be. */
void gy_bind_size(int64_t *size, int64_t batch)
{
    static const int64_t size_max = INT64_MAX / 2;
    if (*size < 0 && (__builtin_mul_overflow(*size, -batch, size) || *size > size_max)) {
        *size = size_max;
    }
}

void gy_bind_sizes(int64_t *sizes, int count, int64_t batch)
{
    for (int dim = 0; dim < count; dim++) {
        gy_bind_size(&sizes[dim], batch);
    }
}

void gy_bind_shape(gy_attributes *attributes, int64_t batch)
{
    gy_bind_sizes(attributes->shape.sizes, attributes->shape.rank, batch);
}

static gy_status check_bytes(const gy_op *op, const gy_type *type)
{
    char text[GY_TYPE_TEXT_BYTES];
    int64_t bytes = (int64_t)gy_dtype_bytes(type->dtype);
    bool fits = true;
    for (int dim = 0; dim < type->rank; dim++) {
        int64_t size = type->sizes[dim];
        fits = fits && size != INT64_MIN &&
               (size == 0 || !__builtin_mul_overflow(bytes, size < 0 ? -size : size, &bytes)) &&
               bytes <= INT64_C(1) << 62;
    }
    return fits ? GY_OK
                : gy_fail(GY_SHAPE, "%s: a result %s has more than 2^62 bytes", op->name,
                          gy_type_text(type, text));
}

gy_status gy_ops_infer(const gy_op *op, const gy_attributes *attributes, const gy_type *inputs,
                       int input_count, gy_type *outputs)
{
    gy_type made[GY_OP_OUTPUTS_MAX];
    GY_TRY(op->infer(attributes, inputs, input_count, made));
    const int count =
        op == &gy_ops_row_fused ? attributes->fused.program->output_count : op->output_count;
    for (int i = 0; i < count; i++) {
        GY_TRY(check_bytes(op, &made[i]));
    }
    memcpy(outputs, made, (size_t)count * sizeof(made[0]));
    return GY_OK;
}

void gy_cost_of(const gy_type *inputs, int input_count, const gy_type *output, double flops,
                gy_cost *cost)
{
    *cost = (gy_cost){.flops = flops};
    for (int i = 0; i < input_count; i++) {
        cost->bytes_read +=
            gy_type_elements(&inputs[i]) * (double)gy_dtype_bytes(inputs[i].dtype);
    }
    cost->bytes_written = gy_type_elements(output) * (double)gy_dtype_bytes(output->dtype);
}

void gy_cost_elementwise(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, gy_type_elements(outputs), cost);
}

void gy_cost_move(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                  const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, 0, cost);
}
