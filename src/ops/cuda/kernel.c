/* An executor's kernels: texts that are compiled, and products. */
#include "ops/cuda/executor_priv.h"

#include "base/hash.h"

#include <string.h>

/* Functions of the launches of a text. */
typedef struct text_functions {
    gy_cuda_function *of[GY_CUDA_LAUNCHES_MAX];
} text_functions;

struct gy_cuda_kernel {
    char *name; /* of its node */
    gy_cuda_plan plan;
    text_functions functions[GY_CUDA_PLAN_TEXTS_MAX];
    gy_cuda_product *products[GY_CUDA_PLAN_PRODUCTS_MAX];
    int fault;                  /* its word of the faults; -1: it checks no integers */
    const gy_kernel_call *call; /* of the last launch */
    uint64_t id;                /* no other of the executor has or had it */
    uint64_t graphs;            /* a bit for each segment that has it */
};

/* A product that is cut along its sums has parts to keep, and a device of many multiprocessors
 * asks for many. @source NVIDIA, "cuBLAS", cublasSetWorkspace: 32 MiB from Hopper on, else 4 */
static gy_cuda_plan_options options_of(const gy_cuda_executor *executor)
{
    const bool is_large = gy_cuda_device_properties(executor->device)->capability >= 90;
    return (gy_cuda_plan_options){.has_products = executor->products != NULL,
                                  .product_bytes = (size_t)(is_large ? 32 : 4) << 20,
                                  .may_round = executor->may_round,
                                  .columns_bytes = executor->columns_bytes,
                                  .launch_bytes = executor->launch_bytes,
                                  .joins_images = executor->joins_images};
}

/* ---- what graphs ask ---- */

/* The plan of a query: why there is none, or NULL; *workspace_bytes what it takes. */
static const char *try_plan(const gy_cuda_executor *executor, const gy_kernel_query *query,
                            size_t *workspace_bytes)
{
    gy_view outputs[GY_OP_OUTPUTS_MAX];
    gy_cuda_plan plan;
    const gy_cuda_plan_options options = options_of(executor);
    memcpy(outputs, query->outputs, (size_t)query->output_count * sizeof(*outputs));
    const gy_kernel_call call = {.op = query->op,
                                 .attributes = query->attributes,
                                 .inputs = query->inputs,
                                 .input_count = query->input_count,
                                 .outputs = outputs,
                                 .output_count = query->output_count};
    const gy_status status = gy_cuda_plan_make(&call, &options, &plan);
    const char *why = status == GY_OK ? plan.reason : "out of memory";
    *workspace_bytes = plan.workspace_bytes;
    gy_cuda_plan_fini(&plan);
    return why;
}

bool gy_cuda_kernel_accepts(gy_device *device, const gy_kernel_query *query, const char **why)
{
    size_t workspace_bytes = 0;
    const char *reason = try_plan(gy_cuda_executor_of(device), query, &workspace_bytes);
    *why = reason != NULL ? reason : "";
    return reason == NULL;
}

size_t gy_cuda_kernel_workspace(gy_device *device, const gy_kernel_query *query)
{
    size_t workspace_bytes = 0;
    (void)try_plan(gy_cuda_executor_of(device), query, &workspace_bytes);
    return workspace_bytes;
}

/* ---- texts ---- */

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
    for (int t = 0; t < kernel->plan.text_count; t++) {
        const gy_cuda_text *text = &kernel->plan.texts[t];
        gy_cuda_module *module = NULL;
        GY_TRY(compile(executor, &text->source, kernel->name, &module));
        for (int i = 0; i < text->launch_count; i++) {
            GY_TRY(gy_cuda_module_kernel(executor->device, module, text->launches[i].name,
                                         &kernel->functions[t].of[i]));
        }
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
        const gy_cuda_access access = {.address = executor->faults, .writes = true};
        status = gy_cuda_order_push(executor, GY_CUDA_KERNELS, &access, 1);
    }
    if (status == GY_OK) {
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

/* The text that checks integers: the only one of its kernel, or none. */
static const gy_cuda_text *checking_text(const gy_cuda_kernel *kernel)
{
    const gy_cuda_text *first = &kernel->plan.texts[0];
    return kernel->plan.text_count == 1 && first->index_input >= 0 ? first : NULL;
}

/* Plan the kernel, and its products. GY_UNSUPPORTED there is no algorithm for one. */
static gy_status plan_with(gy_cuda_executor *executor, const gy_kernel_call *call,
                           const gy_cuda_plan_options *options, gy_cuda_kernel *kernel)
{
    gy_cuda_plan *plan = &kernel->plan;
    GY_TRY(gy_cuda_plan_make(call, options, plan));
    if (plan->reason != NULL) {
        return gy_fail(GY_UNSUPPORTED, "node %s: no kernel for the device: %s", kernel->name,
                       plan->reason);
    }
    for (int i = 0; i < plan->product_count; i++) {
        const gy_status status = gy_cuda_product_new(executor->products, &plan->products[i],
                                                     plan->product_bytes, &kernel->products[i]);
        if (status < 0) {
            return gy_fail_within(status, "kernel of %s", kernel->name);
        }
    }
    return GY_OK;
}

/* Which bias and activation the library joins to which types is its version's: where it has no
 * algorithm that does, a text does it. */
static gy_status plan_kernel(gy_cuda_executor *executor, const gy_kernel_call *call,
                             gy_cuda_kernel *kernel)
{
    gy_cuda_plan_options options = options_of(executor);
    const gy_status status = plan_with(executor, call, &options, kernel);
    const gy_cuda_product_shape *shape = &kernel->plan.products[0];
    if (status != GY_UNSUPPORTED || kernel->plan.product_count != 1 ||
        kernel->products[0] != NULL || !(shape->has_bias || shape->has_relu)) {
        return status;
    }
    gy_debug("%s: bias and activation are a kernel of their own", gy_error_text());
    gy_cuda_plan_fini(&kernel->plan);
    options.joins_nothing = true;
    return plan_with(executor, call, &options, kernel);
}

static gy_status prepare(gy_cuda_executor *executor, const gy_kernel_call *call,
                         gy_cuda_kernel *kernel)
{
    GY_TRY(plan_kernel(executor, call, kernel));
    gy_mutex_lock(&executor->cache_lock);
    const gy_status status = load(executor, kernel);
    gy_mutex_unlock(&executor->cache_lock);
    GY_TRY(status);
    return checking_text(kernel) != NULL ? take_fault(executor, kernel) : GY_OK;
}

gy_status gy_cuda_kernel_prepare(gy_device *device, const gy_kernel_call *call,
                                 const char *name, void **kernel)
{
    gy_cuda_kernel *made = gy_alloc_zero("ops.cuda.kernel", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    made->fault = -1;
    gy_mutex_lock(&executor->lock);
    made->id = ++executor->kernel_ids;
    gy_mutex_unlock(&executor->lock);
    made->name = gy_copy_text("ops.cuda.kernel", name);
    const gy_status status = made->name != NULL ? prepare(executor, call, made) : GY_NOMEM;
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
    gy_mutex_lock(&executor->lock);
    gy_cuda_segments_forget(executor, kernel->graphs);
    if (kernel->fault >= 0) {
        GY_ASSERT(executor->checking[kernel->fault] == kernel);
        executor->checking[kernel->fault] = NULL;
    }
    gy_mutex_unlock(&executor->lock);
    for (size_t i = 0; i < GY_COUNT(kernel->products); i++) {
        gy_cuda_product_free(kernel->products[i]);
    }
    gy_cuda_plan_fini(&kernel->plan);
    gy_free(kernel->name);
    gy_free(kernel);
}

/* ---- launches ---- */

static gy_cuda_address address_of(const void *data)
{
    return (gy_cuda_address)(uintptr_t)data;
}

/* Where a place is in this call; 0: nowhere. */
static gy_cuda_address resolve(const gy_kernel_call *call, const gy_cuda_place *place)
{
    const void *from = place->where == GY_CUDA_INPUT       ? call->inputs[place->index].data
                       : place->where == GY_CUDA_OUTPUT    ? call->outputs[place->index].data
                       : place->where == GY_CUDA_WORKSPACE ? call->workspace
                                                           : NULL;
    GY_ASSERT((from == NULL) == (place->where == GY_CUDA_NOWHERE));
    return address_of(from) + place->offset_bytes;
}

static gy_status launch_text(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                             const gy_cuda_step *step, const gy_kernel_call *call)
{
    const gy_cuda_text *text = &kernel->plan.texts[step->index];
    uint64_t inputs[GY_OP_INPUTS_MAX] = {resolve(call, &step->in)};
    uint64_t outputs[GY_OP_OUTPUTS_MAX] = {resolve(call, &step->out)};
    uint64_t words[GY_CUDA_WORDS_MAX];
    GY_ASSERT(step->takes_all || (text->input_count <= 1 && text->output_count == 1));
    for (int i = 0; step->takes_all && i < call->input_count; i++) {
        inputs[i] = address_of(call->inputs[i].data);
    }
    for (int o = 0; step->takes_all && o < call->output_count; o++) {
        outputs[o] = address_of(call->outputs[o].data);
    }
    const gy_cuda_address fault =
        kernel->fault >= 0 ? executor->faults + (uint64_t)kernel->fault * sizeof(uint64_t) : 0;
    (void)gy_cuda_text_words(text, inputs, outputs, resolve(call, &step->workspace), fault,
                             words);
    for (int i = 0; i < text->launch_count; i++) {
        const gy_cuda_launch *launch = &text->launches[i];
        if (launch->blocks > 0) {
            const gy_cuda_grid grid = {.blocks = (unsigned)launch->blocks,
                                       .threads = (unsigned)launch->threads};
            executor->counts.kernels++;
            executor->counts.launches++;
            GY_TRY(gy_cuda_launch_kernel(executor->device, executor->stream,
                                         kernel->functions[step->index].of[i], grid, words));
        }
    }
    return GY_OK;
}

static gy_status launch_product(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                                const gy_cuda_step *step, const gy_kernel_call *call)
{
    const gy_cuda_operands operands = {.a = resolve(call, &step->a),
                                       .b = resolve(call, &step->b),
                                       .c = resolve(call, &step->c),
                                       .bias = resolve(call, &step->bias),
                                       .added = resolve(call, &step->added),
                                       .scales = resolve(call, &step->scales),
                                       .workspace = resolve(call, &step->workspace)};
    executor->counts.kernels++;
    executor->counts.launches++;
    return gy_cuda_product_run(kernel->products[step->index], executor->stream, &operands);
}

gy_status gy_cuda_kernel_order(gy_cuda_executor *executor, gy_cuda_kernel *kernel,
                               const gy_kernel_call *call)
{
    gy_cuda_access accesses[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX + 2];
    int count = 0;
    for (int i = 0; i < call->input_count; i++) {
        accesses[count++] = (gy_cuda_access){.address = address_of(call->inputs[i].data)};
    }
    for (int o = 0; o < call->output_count; o++) {
        accesses[count++] =
            (gy_cuda_access){.address = address_of(call->outputs[o].data), .writes = true};
    }
    accesses[count++] =
        (gy_cuda_access){.address = address_of(call->workspace), .writes = true};
    accesses[count++] =
        (gy_cuda_access){.address = kernel->fault >= 0 ? executor->faults : 0, .writes = true};
    kernel->call = call;
    executor->may_have_faults |= kernel->fault >= 0;
    return gy_cuda_order_push(executor, GY_CUDA_KERNELS, accesses, count);
}

/* All numbers of a launch are its kernel's but the addresses. */
void gy_cuda_kernel_key(const gy_cuda_kernel *kernel, const gy_kernel_call *call,
                        uint64_t key[2])
{
    uint64_t words[4 + GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX] = {key[0], key[1], kernel->id,
                                                                address_of(call->workspace)};
    size_t count = 4;
    for (int i = 0; i < call->input_count; i++) {
        words[count++] = address_of(call->inputs[i].data);
    }
    for (int o = 0; o < call->output_count; o++) {
        words[count++] = address_of(call->outputs[o].data);
    }
    gy_hash_wide(words, count * sizeof(words[0]), key);
}

uint64_t *gy_cuda_kernel_graphs(gy_cuda_kernel *kernel)
{
    GY_ASSERT(kernel->id > 0);
    return &kernel->graphs;
}

gy_status gy_cuda_kernel_issue(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                               const gy_kernel_call *call)
{
    gy_status status = GY_OK;
    for (size_t i = 0; i < kernel->plan.step_count && status == GY_OK; i++) {
        const gy_cuda_step *step = &kernel->plan.steps[i];
        status =
            (step->is_product ? launch_product : launch_text)(executor, kernel, step, call);
    }
    return status;
}

gy_status gy_cuda_kernel_launch(gy_device *device, void *made, const gy_kernel_call *call)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    gy_status status = gy_cuda_kernel_order(executor, made, call);
    status = status == GY_OK ? gy_cuda_kernel_issue(executor, made, call) : status;
    gy_mutex_unlock(&executor->lock);
    return status;
}

gy_status gy_cuda_kernel_fault(gy_cuda_executor *executor, const gy_cuda_kernel *kernel,
                               uint64_t place)
{
    const gy_kernel_call *call = kernel->call;
    const gy_cuda_text *text = checking_text(kernel);
    GY_ASSERT(text != NULL && call != NULL);
    const int input = text->index_input;
    gy_view views[GY_OP_INPUTS_MAX];
    memcpy(views, call->inputs, (size_t)call->input_count * sizeof(views[0]));
    const size_t size_bytes =
        (size_t)gy_view_count(&views[input]) * gy_dtype_bytes(views[input].dtype);
    void *values = gy_alloc("ops.cuda.fault", size_bytes);
    if (values == NULL) {
        return GY_NOMEM;
    }
    const gy_cuda_access access = {.address = address_of(views[input].data)};
    gy_status status = gy_cuda_order_push(executor, GY_CUDA_KERNELS, &access, 1);
    if (status == GY_OK) {
        status = gy_cuda_download(executor->device, executor->stream, values, access.address,
                                  size_bytes, gy_deadline_after(10));
    }
    if (status == GY_OK) {
        gy_kernel_call host = *call;
        int64_t index = 0;
        views[input].data = values;
        host.inputs = views;
        status = gy_call_index(&host, input, (int64_t)place, text->index_what, text->index_size,
                               &index);
        if (status == GY_OK) { /* a later step has written over what was wrong */
            status = gy_fail(GY_ARG, "%s at place %llu, expected 0 to %lld", text->index_what,
                             (unsigned long long)place, (long long)text->index_size - 1);
        }
    }
    gy_free(values);
    return gy_fail_within(status, "node %s", kernel->name);
}
