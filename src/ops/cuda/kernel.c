/* An executor's kernels: texts that are compiled, and products. */
#include "ops/cuda/executor_priv.h"

#include "base/hash.h"

#include <string.h>

enum { WORKSPACE_BYTES = 4 << 20, ALIGNMENT = 256 };

struct gy_cuda_kernel {
    char *name;        /* of its node */
    gy_cuda_text text; /* of a product none: launch_count 0 */
    gy_cuda_function *functions[GY_CUDA_LAUNCHES_MAX];
    gy_cuda_product *product;   /* or NULL */
    int fault;                  /* its word of the faults; -1: it checks no integers */
    const gy_kernel_call *call; /* of the last launch */
};

/* ---- products ---- */

static const char *shape_of_rows(const gy_kernel_query *query, gy_cuda_product_shape *shape)
{
    const gy_view *a = &query->inputs[0], *b = &query->inputs[1];
    shape->m = a->sizes[a->rank - 1];
    shape->n = b->sizes[b->rank - 1];
    shape->k = gy_view_count(a) / GY_MAX(shape->m, 1);
    shape->is_a_transposed = true;
    return NULL;
}

/* How many matrices the view has before its last two dimensions. */
static int64_t matrices(const gy_view *view)
{
    int64_t count = 1;
    for (int dim = 0; dim + 2 < view->rank; dim++) {
        count *= view->sizes[dim];
    }
    return count;
}

static const char *shape_of_matmul(const gy_kernel_query *query, gy_cuda_product_shape *shape)
{
    const gy_view *a = &query->inputs[0], *b = &query->inputs[1], *c = &query->outputs[0];
    const int64_t a_count = matrices(a), b_count = matrices(b), count = matrices(c);
    shape->is_a_transposed = query->attributes->matmul.transpose_a;
    shape->is_b_transposed = query->attributes->matmul.transpose_b;
    shape->has_bias = query->attributes->matmul.has_bias;
    shape->has_relu = query->attributes->matmul.activation == GY_ACTIVATION_RELU;
    shape->m = c->sizes[c->rank - 2];
    shape->n = c->sizes[c->rank - 1];
    shape->k = a->sizes[a->rank - (shape->is_a_transposed ? 2 : 1)];
    if ((a_count != 1 && a_count != count) || (b_count != 1 && b_count != count)) {
        return "leading dimensions of both operands are repeated";
    }
    if (b_count == 1 && !shape->is_a_transposed) {
        shape->m *= count; /* rows of all matrices lie one behind another */
        return NULL;
    }
    shape->batch = count;
    shape->a_stride = a_count == 1 ? 0 : shape->m * shape->k;
    shape->b_stride = b_count == 1 ? 0 : shape->k * shape->n;
    return NULL;
}

static bool number_of(gy_dtype dtype, gy_cuda_number *number)
{
    const struct {
        gy_dtype dtype;
        gy_cuda_number number;
    } all[] = {{GY_F32, GY_CUDA_F32},
               {GY_F64, GY_CUDA_F64},
               {GY_F16, GY_CUDA_F16},
               {GY_BF16, GY_CUDA_BF16}};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        if (all[i].dtype == dtype) {
            *number = all[i].number;
            return true;
        }
    }
    return false;
}

static bool is_product(const gy_op *op)
{
    return op == &gy_ops_row_matmul || op == &gy_ops_row_matmul_over_rows;
}

/* The product that the query asks for; else why there is none. */
static const char *product_shape(const gy_kernel_query *query, gy_cuda_product_shape *shape)
{
    *shape = (gy_cuda_product_shape){.m = 0};
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].format != GY_FORMAT_DENSE ||
            !gy_view_is_contiguous(&query->inputs[i])) {
            return "an operand is strided or blocked";
        }
    }
    if (!number_of(query->inputs[0].dtype, &shape->number) ||
        query->inputs[0].dtype != query->inputs[1].dtype) {
        return "no product of these types";
    }
    const char *why = query->op == &gy_ops_row_matmul ? shape_of_matmul(query, shape)
                                                      : shape_of_rows(query, shape);
    if (why == NULL &&
        (shape->m < 1 || shape->n < 1 || shape->k < 1 || shape->batch > INT32_MAX)) {
        why = "it is empty";
    }
    if (why == NULL && shape->number == GY_CUDA_F64 && (shape->has_bias || shape->has_relu)) {
        why = "cuBLASLt joins nothing to products of float64";
    }
    return why;
}

/* ---- texts ---- */

static gy_kernel_call call_of(const gy_kernel_query *query, gy_view *outputs)
{
    memcpy(outputs, query->outputs, (size_t)query->output_count * sizeof(*outputs));
    return (gy_kernel_call){.op = query->op,
                            .attributes = query->attributes,
                            .inputs = query->inputs,
                            .input_count = query->input_count,
                            .outputs = outputs,
                            .output_count = query->output_count};
}

static bool is_empty(const gy_kernel_query *query)
{
    for (int o = 0; o < query->output_count; o++) {
        if (gy_view_count(&query->outputs[o]) == 0) {
            return true;
        }
    }
    return false;
}

/* The text for a query; *workspace_bytes what it takes. Why there is none, or NULL. */
static const char *try_text(const gy_kernel_query *query, size_t *workspace_bytes)
{
    gy_view outputs[GY_OP_OUTPUTS_MAX];
    gy_cuda_text text;
    const gy_kernel_call call = call_of(query, outputs);
    if (gy_cuda_text_make(&call, &text) < 0) {
        return "out of memory";
    }
    *workspace_bytes = text.workspace_bytes;
    const char *why = text.reason;
    gy_cuda_text_fini(&text);
    return why;
}

bool gy_cuda_kernel_accepts(gy_device *device, const gy_kernel_query *query, const char **why)
{
    const gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_cuda_product_shape shape;
    size_t workspace_bytes = 0;
    const char *reason = NULL;
    if (is_empty(query)) {
        reason = "it is empty";
    } else if (!is_product(query->op)) {
        reason = try_text(query, &workspace_bytes);
    } else {
        reason =
            executor->products != NULL ? product_shape(query, &shape) : "there is no cuBLASLt";
    }
    *why = reason != NULL ? reason : "";
    return reason == NULL;
}

size_t gy_cuda_kernel_workspace(gy_device *device, const gy_kernel_query *query)
{
    (void)device;
    size_t workspace_bytes = 0;
    if (is_product(query->op)) {
        return WORKSPACE_BYTES;
    }
    (void)try_text(query, &workspace_bytes);
    return workspace_bytes;
}

static gy_cuda_module *find_compiled(const gy_cuda_executor *executor, const uint64_t key[2])
{
    for (size_t i = 0; i < executor->compiled_count; i++) {
        if (memcmp(executor->compiled[i].key, key, sizeof(executor->compiled[i].key)) == 0) {
            return executor->compiled[i].module;
        }
    }
    return NULL;
}

/* Compile a text, unless one of the same bytes is there. Locked: cache_lock. */
static gy_status compile(gy_cuda_executor *executor, const gy_text *source, const char *name,
                         gy_cuda_module **module)
{
    uint64_t key[2];
    gy_hash_wide(source->data, source->size_bytes, key);
    *module = find_compiled(executor, key);
    if (*module != NULL) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("ops.cuda.compiled", executor->compiled, executor->compiled_capacity,
                   executor->compiled_count + 1));
    gy_text image = {.data = NULL};
    const int capability = gy_cuda_device_properties(executor->device)->capability;
    GY_TRY(gy_cuda_compile(gy_text_get(source), name, capability, &executor->images, &image));
    const gy_status status = gy_cuda_module_open(executor->device, &image, name, module);
    gy_text_free(&image);
    if (status == GY_OK) {
        executor->compiled[executor->compiled_count++] =
            (gy_cuda_compiled){.key = {key[0], key[1]}, .module = *module};
    }
    return status;
}

static gy_status load(gy_cuda_executor *executor, gy_cuda_kernel *kernel)
{
    gy_cuda_module *module = NULL;
    GY_TRY(compile(executor, &kernel->text.source, kernel->name, &module));
    for (int i = 0; i < kernel->text.launch_count; i++) {
        GY_TRY(gy_cuda_module_kernel(executor->device, module, kernel->text.launches[i].name,
                                     &kernel->functions[i]));
    }
    return GY_OK;
}

/* A word of the faults for a kernel that checks integers. */
static gy_status take_fault(gy_cuda_executor *executor, gy_cuda_kernel *kernel)
{
    gy_mutex_lock(&executor->lock);
    int at = 0;
    while (at < GY_CUDA_FAULTS_MAX && executor->checking[at] != NULL) {
        at++;
    }
    gy_status status = GY_OK;
    if (at == GY_CUDA_FAULTS_MAX) {
        status = gy_fail(GY_LIMIT, "node %s: over %d kernels that check integers", kernel->name,
                         GY_CUDA_FAULTS_MAX);
    } else {
        status = gy_cuda_fill(executor->device, executor->stream,
                              executor->faults + (uint64_t)at * sizeof(uint64_t), 0xff,
                              sizeof(uint64_t));
    }
    if (status == GY_OK) {
        executor->checking[at] = kernel;
        kernel->fault = at;
    }
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status prepare(gy_cuda_executor *executor, const gy_kernel_call *call,
                         gy_cuda_kernel *kernel)
{
    if (is_product(call->op)) {
        gy_cuda_product_shape shape;
        const gy_kernel_query query = gy_kernel_query_of(call, 1);
        const char *why = product_shape(&query, &shape);
        GY_ASSERT(why == NULL && executor->products != NULL); /* it was accepted */
        const gy_status status =
            gy_cuda_product_new(executor->products, &shape, WORKSPACE_BYTES, &kernel->product);
        return status < 0 ? gy_fail_within(status, "kernel of %s", kernel->name) : GY_OK;
    }
    GY_TRY(gy_cuda_text_make(call, &kernel->text));
    if (kernel->text.reason != NULL) {
        return gy_fail(GY_UNSUPPORTED, "node %s: no kernel for the device: %s", kernel->name,
                       kernel->text.reason);
    }
    gy_mutex_lock(&executor->cache_lock);
    const gy_status status = load(executor, kernel);
    gy_mutex_unlock(&executor->cache_lock);
    GY_TRY(status);
    return kernel->text.index_input >= 0 ? take_fault(executor, kernel) : GY_OK;
}

gy_status gy_cuda_kernel_prepare(gy_device *device, const gy_kernel_call *call,
                                 const char *name, void **kernel)
{
    gy_cuda_kernel *made = gy_alloc_zero("ops.cuda.kernel", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->fault = -1;
    made->text.index_input = -1;
    made->name = gy_copy_text("ops.cuda.kernel", name);
    const gy_status status =
        made->name != NULL ? prepare(gy_cuda_executor_of(device), call, made) : GY_NOMEM;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_kernel_release(device, made);
        return gy_error_raise(&error);
    }
    *kernel = made;
    return GY_OK;
}

void gy_cuda_kernel_release(gy_device *device, void *made)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_cuda_kernel *kernel = made;
    if (kernel == NULL) {
        return;
    }
    if (kernel->fault >= 0) {
        gy_mutex_lock(&executor->lock);
        GY_ASSERT(executor->checking[kernel->fault] == kernel);
        executor->checking[kernel->fault] = NULL;
        gy_mutex_unlock(&executor->lock);
    }
    gy_cuda_product_free(kernel->product);
    gy_cuda_text_fini(&kernel->text);
    gy_free(kernel->name);
    gy_free(kernel);
}

/* ---- launches ---- */

static gy_cuda_address address_of(const void *data)
{
    return (gy_cuda_address)(uintptr_t)data;
}

static gy_status launch_text(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                             const gy_kernel_call *call)
{
    uint64_t inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX], words[GY_CUDA_WORDS_MAX];
    for (int i = 0; i < call->input_count; i++) {
        inputs[i] = address_of(call->inputs[i].data);
    }
    for (int o = 0; o < call->output_count; o++) {
        outputs[o] = address_of(call->outputs[o].data);
    }
    const gy_cuda_address fault =
        kernel->fault >= 0 ? executor->faults + (uint64_t)kernel->fault * sizeof(uint64_t) : 0;
    (void)gy_cuda_text_words(&kernel->text, inputs, outputs, address_of(call->workspace), fault,
                             words);
    executor->may_have_faults |= fault != 0;
    for (int i = 0; i < kernel->text.launch_count; i++) {
        const gy_cuda_launch *launch = &kernel->text.launches[i];
        if (launch->blocks > 0) {
            const gy_cuda_grid grid = {.blocks = (unsigned)launch->blocks,
                                       .threads = (unsigned)launch->threads};
            GY_TRY(gy_cuda_launch_kernel(executor->device, executor->stream,
                                         kernel->functions[i], grid, words));
        }
    }
    return GY_OK;
}

gy_status gy_cuda_kernel_launch(gy_device *device, void *made, const gy_kernel_call *call)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_cuda_kernel *kernel = made;
    gy_mutex_lock(&executor->lock);
    kernel->call = call;
    gy_status status = GY_OK;
    if (kernel->product != NULL) {
        const bool has_bias = call->input_count > 2;
        const gy_cuda_operands operands = {
            .a = address_of(call->inputs[0].data),
            .b = address_of(call->inputs[1].data),
            .c = address_of(call->outputs[0].data),
            .bias = has_bias ? address_of(call->inputs[2].data) : 0,
            .workspace = address_of(call->workspace),
        };
        status = gy_cuda_product_run(kernel->product, executor->stream, &operands);
    } else {
        status = launch_text(executor, kernel, call);
    }
    gy_mutex_unlock(&executor->lock);
    return status;
}

gy_status gy_cuda_kernel_fault(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                               uint64_t place)
{
    const gy_kernel_call *call = kernel->call;
    const int input = kernel->text.index_input;
    GY_ASSERT(input >= 0 && call != NULL);
    gy_view views[GY_OP_INPUTS_MAX];
    memcpy(views, call->inputs, (size_t)call->input_count * sizeof(views[0]));
    const size_t size_bytes =
        (size_t)gy_view_count(&views[input]) * gy_dtype_bytes(views[input].dtype);
    void *values = gy_alloc("ops.cuda.fault", size_bytes);
    if (values == NULL) {
        return GY_NOMEM;
    }
    gy_status status =
        gy_cuda_download(executor->device, executor->stream, values,
                         address_of(views[input].data), size_bytes, gy_deadline_after(10));
    if (status == GY_OK) {
        gy_kernel_call host = *call;
        int64_t index = 0;
        views[input].data = values;
        host.inputs = views;
        status = gy_call_index(&host, input, (int64_t)place, kernel->text.index_what,
                               kernel->text.index_size, &index);
        if (status == GY_OK) { /* a later step has written over what was wrong */
            status =
                gy_fail(GY_ARG, "%s at place %llu, expected 0 to %lld", kernel->text.index_what,
                        (unsigned long long)place, (long long)kernel->text.index_size - 1);
        }
    }
    gy_free(values);
    return gy_fail_within(status, "node %s", kernel->name);
}
