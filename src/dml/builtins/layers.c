/*
 * Convolutions and pools. Scripts have images as rows of a matrix, (N, C*H*W): the rows of room
 * ops take the same memory as (N, C, H, W).
 */
#include "dml/builtins/builtins_priv.h"

#include "ops/apply/apply.h"

#include <string.h>

/* [a, b, …] or a column as whole numbers; `count` of them, the last one repeated. */
static gy_status numbers(const gy_dml_call *call, const char *name, int count, int64_t *out)
{
    const int at = gy_dml_builtin_parameter(call->builtin, name);
    const gy_dml_value *given = &call->args[at];
    const int64_t have = given->kind == GY_DML_IS_LIST     ? (int64_t)given->list->count
                         : given->kind == GY_DML_IS_MATRIX ? gy_dml_matrix_count(given->matrix)
                                                           : 1;
    if (given->kind == GY_DML_IS_NOTHING) {
        return GY_OK;
    }
    if (have < 1 || have > count) {
        return gy_fail(GY_ARG, "%s: %s has %lld numbers, expected %d", call->builtin->name,
                       name, (long long)have, count);
    }
    for (int i = 0; i < count; i++) {
        const int64_t k = GY_MIN(i, have - 1);
        if (given->kind == GY_DML_IS_LIST) {
            GY_TRY(gy_dml_as_integer(&given->list->items[k], name, &out[i]));
        } else if (given->kind == GY_DML_IS_MATRIX) {
            out[i] = (int64_t)given->matrix->data[k];
        } else {
            GY_TRY(gy_dml_as_integer(given, name, &out[i]));
        }
        if (out[i] < 0 || out[i] > INT32_MAX) {
            return gy_fail(GY_ARG, "%s: %s: %lld is out of range", call->builtin->name, name,
                           (long long)out[i]);
        }
    }
    return GY_OK;
}

typedef struct layer {
    int64_t input[4], filter[4], stride[2], pad[2], window[2];
} layer;

static gy_status layer_of(const gy_dml_call *call, layer *of)
{
    *of = (layer){.stride = {1, 1}, .pad = {0, 0}};
    const bool is_pool = strstr(call->builtin->name, "pool") != NULL;
    GY_TRY(numbers(call, "input_shape", 4, of->input));
    GY_TRY(numbers(call, "stride", 2, of->stride));
    GY_TRY(numbers(call, "padding", 2, of->pad));
    if (of->stride[0] < 1 || of->stride[1] < 1) {
        return gy_fail(GY_ARG, "%s: stride: expected numbers from 1", call->builtin->name);
    }
    return is_pool ? numbers(call, "pool_size", 2, of->window)
                   : numbers(call, "filter_shape", 4, of->filter);
}

/* The output's height and width. */
static gy_status area_of(const gy_dml_call *call, const layer *of, int64_t out[2])
{
    const bool is_pool = strstr(call->builtin->name, "pool") != NULL;
    for (int k = 0; k < 2; k++) {
        const int64_t window = is_pool ? of->window[k] : of->filter[2 + k];
        const int64_t room = of->input[2 + k] + 2 * of->pad[k] - window;
        if (window < 1 || room < 0) {
            return gy_fail(GY_SHAPE, "%s: a window of %lld does not fit %lld with padding %lld",
                           call->builtin->name, (long long)window, (long long)of->input[2 + k],
                           (long long)of->pad[k]);
        }
        out[k] = room / of->stride[k] + 1;
    }
    return GY_OK;
}

/* Argument i as a tensor of these sizes, in the same memory. */
static gy_status shaped(const gy_dml_call *call, int i, const int64_t sizes[4], gy_tensor **out)
{
    gy_dml_matrix *matrix = NULL;
    char name[96];
    GY_TRY(gy_dml_arg_matrix(call, i, &matrix));
    gy_status status = GY_OK;
    if (matrix->rows != sizes[0] || matrix->columns != sizes[1] * sizes[2] * sizes[3]) {
        status = gy_fail(GY_SHAPE, "%s has %lldx%lld, expected %lldx%lld",
                         gy_dml_arg_name(call, i, name), (long long)matrix->rows,
                         (long long)matrix->columns, (long long)sizes[0],
                         (long long)(sizes[1] * sizes[2] * sizes[3]));
    }
    status = status == GY_OK ? gy_tensor_reshape(matrix->tensor, sizes, 4, out) : status;
    gy_dml_matrix_drop(matrix);
    return status;
}

/* A tensor (n, …) as a matrix of n rows. */
static gy_status give_tensor(gy_dml_call *call, gy_tensor *tensor)
{
    const int64_t rows = gy_tensor_size(tensor, 0), count = gy_tensor_count(tensor);
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_matrix_new(rows, rows > 0 ? count / rows : 0, &out));
    const gy_view view = gy_tensor_pin(tensor);
    memcpy(out->data, view.data, (size_t)count * sizeof(double));
    gy_tensor_unpin(tensor);
    return gy_dml_give(call, out);
}

static gy_status apply(gy_dml_call *call, const gy_op *op, const gy_attributes *attributes,
                       gy_tensor *const *inputs, int count)
{
    gy_apply site = {.op = NULL};
    gy_tensor *out = NULL;
    gy_status status = gy_apply_run(&site, op, attributes, inputs, count, &out);
    status = status == GY_OK ? give_tensor(call, out) : status;
    gy_tensor_drop(out);
    gy_apply_fini(&site);
    return status;
}

static void conv_attributes(const layer *of, gy_attributes *attributes)
{
    memset(attributes, 0, sizeof(*attributes));
    for (int k = 0; k < 2; k++) {
        attributes->conv.stride[k] = (int32_t)of->stride[k];
        attributes->conv.pad[k] = (int32_t)of->pad[k];
    }
}

gy_status gy_dml_run_conv2d(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    const bool to_filter = strstr(name, "filter") != NULL,
               to_data = strstr(name, "data") != NULL;
    const gy_op *op = to_filter ? &gy_ops_row_conv2d_filter_gradient
                      : to_data ? &gy_ops_row_conv2d_input_gradient
                                : &gy_ops_row_conv2d;
    layer of;
    int64_t area[2];
    gy_attributes attributes;
    gy_tensor *inputs[2] = {NULL};
    GY_TRY(layer_of(call, &of));
    GY_TRY(area_of(call, &of, area));
    if (of.filter[1] != of.input[1]) {
        return gy_fail(GY_SHAPE, "%s: filters of %lld channels for images of %lld", name,
                       (long long)of.filter[1], (long long)of.input[1]);
    }
    const int64_t out[4] = {of.input[0], of.filter[0], area[0], area[1]};
    conv_attributes(&of, &attributes);
    if (to_filter || to_data) {
        memcpy(attributes.conv.input_sizes, to_filter ? of.filter : of.input, sizeof(of.input));
    }
    /* scripts give (filter, dout) for the data's gradient, the row takes (dout, filter) */
    gy_status status = shaped(call, 0, to_data ? of.filter : of.input, &inputs[to_data]);
    status = status == GY_OK
                 ? shaped(call, 1, to_data || to_filter ? out : of.filter, &inputs[!to_data])
                 : status;
    status = status == GY_OK ? apply(call, op, &attributes, inputs, 2) : status;
    gy_tensor_drop(inputs[0]);
    gy_tensor_drop(inputs[1]);
    return status;
}

gy_status gy_dml_run_pool(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    const bool is_back = strstr(name, "backward") != NULL, is_max = name[0] == 'm';
    const gy_op *op =
        is_max ? (is_back ? &gy_ops_row_max_pool_gradient : &gy_ops_row_max_pool)
               : (is_back ? &gy_ops_row_average_pool_gradient : &gy_ops_row_average_pool);
    layer of;
    int64_t area[2];
    gy_attributes attributes;
    gy_tensor *inputs[2] = {NULL};
    GY_TRY(layer_of(call, &of));
    GY_TRY(area_of(call, &of, area));
    const int64_t out[4] = {of.input[0], of.input[1], area[0], area[1]};
    memset(&attributes, 0, sizeof(attributes));
    for (int k = 0; k < 2; k++) {
        attributes.pool.stride[k] = (int32_t)of.stride[k];
        attributes.pool.pad[k] = (int32_t)of.pad[k];
        attributes.pool.window[k] = (int32_t)of.window[k];
    }
    attributes.pool.count_pad = !is_max;
    gy_status status = shaped(call, 0, of.input, &inputs[0]);
    status = status == GY_OK && is_back ? shaped(call, 1, out, &inputs[1]) : status;
    if (status == GY_OK && is_back && !is_max) { /* of dout alone */
        memcpy(attributes.pool.input_sizes, of.input, sizeof(of.input));
        status = apply(call, op, &attributes, &inputs[1], 1);
    } else if (status == GY_OK) {
        status = apply(call, op, &attributes, inputs, is_back ? 2 : 1);
    }
    gy_tensor_drop(inputs[0]);
    gy_tensor_drop(inputs[1]);
    return status;
}

/* b (channels, 1) onto each channel of x (N, channels * area), added or multiplied. */
gy_status gy_dml_run_bias(gy_dml_call *call)
{
    const bool is_add = strcmp(call->builtin->name, "bias_add") == 0;
    gy_dml_matrix *x = NULL, *b = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = gy_dml_arg_matrix(call, 1, &b);
    if (status == GY_OK && (b->columns != 1 || b->rows == 0 || x->columns % b->rows != 0)) {
        status = gy_fail(GY_SHAPE, "%s: a bias of %lldx%lld does not fit %lld columns",
                         call->builtin->name, (long long)b->rows, (long long)b->columns,
                         (long long)x->columns);
    }
    status = status == GY_OK ? gy_dml_matrix_new(x->rows, x->columns, &out) : status;
    const int64_t area = b != NULL && b->rows > 0 ? GY_MAX(x->columns / b->rows, 1) : 1;
    for (int64_t i = 0; out != NULL && i < gy_dml_matrix_count(x); i++) {
        const double by = b->data[i % x->columns / area];
        out->data[i] = is_add ? x->data[i] + by : x->data[i] * by;
    }
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(b);
    GY_TRY(status);
    return gy_dml_give(call, out);
}
