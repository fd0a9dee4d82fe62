/* A rank's device: its life, its memory, its kernels. */
#include "ops/cuda/device_priv.h"

#include <string.h>

enum { STAGING_BYTES = 4 << 20, LOCK_RANK = 10 };

/* ---- failures ---- */

/* Which device this thread's calls go to. */
static _Thread_local uint64_t entered;

/* A call lacked memory of the device: how much is there. Without a context a device does not
 * tell. */
static gy_status tell_memory(const gy_cuda_device *device, gy_status status)
{
    gy_cuda_memory memory = {.total_bytes = 0};
    gy_error error;
    char total[32], is_free[32];
    GY_ASSERT(status < 0);
    gy_error_take(&error, status);
    gy_text_bytes(total, device->properties.memory_bytes);
    if (entered != device->id ||
        device->driver->memory_info(&memory.free_bytes, &memory.total_bytes) != 0) {
        return gy_fail(status, "%s; other programs may hold its %s", error.text, total);
    }
    return gy_fail(status, "%s; of %s there are %s free", error.text, total,
                   gy_text_bytes(is_free, memory.free_bytes));
}

gy_status gy_cuda_device_check(gy_cuda_device *device, int code, const char *symbol)
{
    gy_status status = gy_cuda_check(device->driver, code, symbol);
    if (status == GY_OK) {
        return GY_OK;
    }
    status = gy_fail_within(status, "device %d (%s)%s", device->properties.index,
                            device->properties.name, gy_cuda_is_lost(code) ? " is lost" : "");
    if (code == GY_CUDA_OUT_OF_MEMORY && symbol != gy_cuda_symbol.host_alloc) {
        status = tell_memory(device, status);
    }
    if (gy_cuda_is_lost(code)) {
        gy_mutex_lock(&device->lock);
        if (!atomic_load_explicit(&device->is_lost, memory_order_relaxed)) {
            gy_error_take(&device->lost, status);
            /* Pairs with gy_cuda_device_enter. */
            atomic_store_explicit(&device->is_lost, true, memory_order_release);
        }
        gy_mutex_unlock(&device->lock);
    }
    return status;
}

void gy_cuda_device_warn(gy_cuda_device *device, gy_status status)
{
    if (status < 0 && !atomic_load_explicit(&device->is_lost, memory_order_acquire)) {
        gy_warn("%s", gy_error_text());
    }
}

gy_status gy_cuda_device_enter_anyway(gy_cuda_device *device)
{
    if (entered != device->id) {
        GY_CUDA_DEVICE_TRY(device, context_set, device->context);
        entered = device->id;
    }
    return GY_OK;
}

gy_status gy_cuda_device_enter(gy_cuda_device *device)
{
    if (atomic_load_explicit(&device->is_lost, memory_order_acquire)) {
        return gy_error_raise(&device->lost);
    }
    return gy_cuda_device_enter_anyway(device);
}

/* ---- life ---- */

static gy_status open_context(gy_cuda_device *device)
{
    const int handle = device->properties.handle;
    GY_CUDA_DEVICE_TRY(device, context_retain, &device->context, handle);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, device_pool, &device->pool, handle);
    uint64_t all = UINT64_MAX; /* a free byte stays with the pool */
    GY_CUDA_DEVICE_TRY(device, pool_set, device->pool, GY_CUDA_POOL_KEPT_BYTES, &all);
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        GY_TRY(gy_cuda_pinned_alloc(device, device->staging_bytes, &memory));
        device->halves[i].memory = memory;
    }
    return GY_OK;
}

gy_status gy_cuda_device_open(int index, size_t staging_bytes, gy_cuda_device **device)
{
    static _Atomic uint64_t ids = 1;
    gy_cuda_device *made = gy_alloc_zero("ops.cuda.device", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_mutex_init(&made->staging_lock, LOCK_RANK + 1);
    made->staging_bytes = staging_bytes > 0 ? staging_bytes : STAGING_BYTES;
    made->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed);
    gy_status status = gy_cuda_driver_get(&made->driver);
    status = status == GY_OK ? gy_cuda_device_describe(index, &made->properties) : status;
    status = status == GY_OK ? open_context(made) : status;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_device_close(made);
        return gy_error_raise(&error);
    }
    *device = made;
    return GY_OK;
}

static void close_context(gy_cuda_device *device)
{
    gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
    for (int i = 0; i < 2; i++) {
        gy_cuda_event_drop(device, device->halves[i].event);
        gy_cuda_pinned_free(device, device->halves[i].memory);
    }
    GY_ASSERT(atomic_load_explicit(&device->live, memory_order_relaxed) == 0);
    for (size_t i = 0; i < device->kept_count; i++) {
        GY_CUDA_DEVICE_RELEASE(device, event_destroy, device->kept[i]);
    }
    GY_CUDA_DEVICE_RELEASE(device, context_set, NULL);
    entered = 0;
    GY_CUDA_DEVICE_RELEASE(device, context_release, device->properties.handle);
}

void gy_cuda_device_close(gy_cuda_device *device)
{
    if (device == NULL) {
        return;
    }
    if (device->context != NULL) {
        close_context(device);
    }
    gy_mutex_fini(&device->lock);
    gy_mutex_fini(&device->staging_lock);
    gy_free(device->kept);
    gy_free(device);
}

const gy_cuda_properties *gy_cuda_device_properties(const gy_cuda_device *device)
{
    return &device->properties;
}

void gy_cuda_device_count_live(gy_cuda_device *device, int change)
{
    const int before = atomic_fetch_add_explicit(&device->live, change, memory_order_relaxed);
    GY_ASSERT(before + change >= 0);
}

/* ---- memory ---- */

gy_status gy_cuda_memory_read(gy_cuda_device *device, gy_cuda_memory *memory)
{
    GY_TRY(gy_cuda_device_enter(device));
    gy_cuda_memory read = {.total_bytes = 0};
    uint64_t reserved = 0, used = 0;
    GY_CUDA_DEVICE_TRY(device, memory_info, &read.free_bytes, &read.total_bytes);
    GY_CUDA_DEVICE_TRY(device, pool_get, device->pool, GY_CUDA_POOL_RESERVED_BYTES, &reserved);
    GY_CUDA_DEVICE_TRY(device, pool_get, device->pool, GY_CUDA_POOL_USED_BYTES, &used);
    read.pool_bytes = reserved > used ? reserved - used : 0;
    *memory = read;
    return GY_OK;
}

static gy_status refuse_memory(gy_cuda_device *device, size_t size_bytes)
{
    gy_cuda_memory memory;
    char asked[32], is_free[32], total[32], fits[32];
    gy_text_bytes(asked, size_bytes);
    if (gy_cuda_memory_read(device, &memory) < 0) {
        return gy_fail(GY_NOMEM, "device %d (%s) is out of memory: %s were asked for",
                       device->properties.index, device->properties.name, asked);
    }
    return gy_fail(
        GY_NOMEM,
        "device %d (%s) is out of memory: %s were asked for, of %s there are %s free, "
        "and with what its pool holds %s would fit",
        device->properties.index, device->properties.name, asked,
        gy_text_bytes(total, memory.total_bytes), gy_text_bytes(is_free, memory.free_bytes),
        gy_text_bytes(fits, memory.free_bytes + memory.pool_bytes));
}

gy_status gy_cuda_memory_alloc(gy_cuda_device *device, gy_cuda_stream *stream,
                               size_t size_bytes, gy_cuda_address *address)
{
    GY_ASSERT(size_bytes > 0 && stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    const gy_cuda_driver *driver = device->driver;
    gy_cuda_address made = 0;
    int code = driver->memory_alloc(&made, size_bytes, stream);
    if (code == GY_CUDA_OUT_OF_MEMORY) {
        /* The pool may hold pieces that are too small each: give them back, and ask again. */
        GY_CUDA_DEVICE_TRY(device, pool_trim, device->pool, 0);
        code = driver->memory_alloc(&made, size_bytes, stream);
    }
    if (code == GY_CUDA_OUT_OF_MEMORY) {
        return refuse_memory(device, size_bytes);
    }
    GY_TRY(gy_cuda_device_check(device, code, gy_cuda_symbol.memory_alloc));
    gy_cuda_device_count_live(device, 1);
    *address = made;
    return GY_OK;
}

void gy_cuda_memory_free(gy_cuda_device *device, gy_cuda_stream *stream,
                         gy_cuda_address address)
{
    if (address != 0) {
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, memory_free, address, stream);
        gy_cuda_device_count_live(device, -1);
    }
}

gy_status gy_cuda_pinned_alloc(gy_cuda_device *device, size_t size_bytes, void **memory)
{
    GY_ASSERT(size_bytes > 0);
    GY_TRY(gy_cuda_device_enter(device));
    void *made = NULL;
    const gy_status status = gy_cuda_device_check(
        device, device->driver->host_alloc(&made, size_bytes, GY_CUDA_HOST_PORTABLE),
        gy_cuda_symbol.host_alloc);
    if (status < 0) {
        char asked[32];
        return gy_fail_within(status, "%s of the host's memory, pinned",
                              gy_text_bytes(asked, size_bytes));
    }
    gy_cuda_device_count_live(device, 1);
    *memory = made;
    return GY_OK;
}

void gy_cuda_pinned_free(gy_cuda_device *device, void *memory)
{
    if (memory != NULL) {
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, host_free, memory);
        gy_cuda_device_count_live(device, -1);
    }
}

/* ---- streams and events ---- */

gy_status gy_cuda_stream_open(gy_cuda_device *device, gy_cuda_stream **stream)
{
    GY_TRY(gy_cuda_device_enter(device));
    gy_cuda_stream *made = NULL;
    GY_CUDA_DEVICE_TRY(device, stream_create, &made, GY_CUDA_STREAM_NON_BLOCKING);
    gy_cuda_device_count_live(device, 1);
    *stream = made;
    return GY_OK;
}

void gy_cuda_stream_close(gy_cuda_device *device, gy_cuda_stream *stream)
{
    if (stream != NULL) {
        gy_cuda_device_warn(device, gy_cuda_stream_wait(device, stream, gy_deadline_after(10)));
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, stream_destroy, stream);
        gy_cuda_device_count_live(device, -1);
    }
}

/* An event that is kept, or a new one. */
static gy_status take_event(gy_cuda_device *device, gy_cuda_event **event)
{
    gy_mutex_lock(&device->lock);
    gy_cuda_event *taken = device->kept_count > 0 ? device->kept[--device->kept_count] : NULL;
    gy_mutex_unlock(&device->lock);
    if (taken == NULL) {
        GY_CUDA_DEVICE_TRY(device, event_create, &taken, GY_CUDA_EVENT_UNTIMED);
    }
    gy_cuda_device_count_live(device, 1);
    *event = taken;
    return GY_OK;
}

void gy_cuda_event_drop(gy_cuda_device *device, gy_cuda_event *event)
{
    if (event == NULL) {
        return;
    }
    gy_mutex_lock(&device->lock);
    const gy_status status =
        GY_GROW("ops.cuda.events", device->kept, device->kept_capacity, device->kept_count + 1);
    if (status == GY_OK) {
        device->kept[device->kept_count++] = event;
    }
    gy_mutex_unlock(&device->lock);
    if (status < 0) {
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, event_destroy, event);
    }
    gy_cuda_device_count_live(device, -1);
}

gy_status gy_cuda_event_record(gy_cuda_device *device, gy_cuda_stream *stream,
                               gy_cuda_event **event)
{
    GY_ASSERT(stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    gy_cuda_event *made = NULL;
    GY_TRY(take_event(device, &made));
    const gy_status status = gy_cuda_device_check(
        device, device->driver->event_record(made, stream), gy_cuda_symbol.event_record);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_event_drop(device, made);
        return gy_error_raise(&error);
    }
    *event = made;
    return GY_OK;
}

gy_status gy_cuda_stream_after(gy_cuda_device *device, gy_cuda_stream *stream,
                               gy_cuda_event *event)
{
    GY_ASSERT(stream != NULL && event != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, stream_wait_event, stream, event, 0);
    return GY_OK;
}

gy_status gy_cuda_event_poll(gy_cuda_device *device, gy_cuda_event *event)
{
    GY_ASSERT(event != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    const int code = device->driver->event_query(event);
    return code == GY_CUDA_NOT_READY
               ? GY_AGAIN
               : gy_cuda_device_check(device, code, gy_cuda_symbol.event_query);
}

/* Poll until something has happened. The driver's own waits have no deadline. */
static gy_status wait_for(gy_cuda_device *device,
                          gy_status (*poll)(gy_cuda_device *device, void *what), void *what,
                          gy_deadline deadline)
{
    gy_env *env = gy_env_real();
    gy_status status = poll(device, what);
    for (uint64_t round = 0; status == GY_AGAIN; round++) {
        if (gy_now_ns(env) >= deadline.at_ns) {
            return gy_fail(GY_TIMEOUT, "deadline passed waiting for device %d (%s)",
                           device->properties.index, device->properties.name);
        }
        env->ops->pause(env, round);
        status = poll(device, what);
    }
    return status;
}

static gy_status poll_event(gy_cuda_device *device, void *event)
{
    return gy_cuda_event_poll(device, event);
}

static gy_status poll_stream(gy_cuda_device *device, void *stream)
{
    GY_TRY(gy_cuda_device_enter(device));
    const int code = device->driver->stream_query(stream);
    return code == GY_CUDA_NOT_READY
               ? GY_AGAIN
               : gy_cuda_device_check(device, code, gy_cuda_symbol.stream_query);
}

gy_status gy_cuda_event_wait(gy_cuda_device *device, gy_cuda_event *event, gy_deadline deadline)
{
    return wait_for(device, poll_event, event, deadline);
}

gy_status gy_cuda_stream_wait(gy_cuda_device *device, gy_cuda_stream *stream,
                              gy_deadline deadline)
{
    GY_ASSERT(stream != NULL);
    return wait_for(device, poll_stream, stream, deadline);
}

/* ---- graphs: what is pushed once, to be launched as one ---- */

gy_status gy_cuda_capture_begin(gy_cuda_device *device, gy_cuda_stream *stream)
{
    GY_ASSERT(stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, capture_begin, stream, GY_CUDA_CAPTURE_THREAD);
    return GY_OK;
}

gy_status gy_cuda_capture_end(gy_cuda_device *device, gy_cuda_stream *stream,
                              gy_cuda_graph_exec **graph)
{
    GY_ASSERT(stream != NULL);
    gy_cuda_graph *captured = NULL;
    gy_cuda_graph_exec *made = NULL;
    /* Also of a device that is lost: the stream is captured until it is ended. */
    GY_CUDA_DEVICE_TRY(device, capture_end, stream, &captured);
    GY_ASSERT(captured != NULL);
    const gy_status status =
        gy_cuda_device_check(device, device->driver->graph_instantiate(&made, captured, 0),
                             gy_cuda_symbol.graph_instantiate);
    gy_error error;
    (void)gy_error_keep(&error, status);
    GY_CUDA_DEVICE_RELEASE(device, graph_destroy, captured);
    if (status < 0) {
        return gy_error_raise(&error);
    }
    gy_cuda_device_count_live(device, 1);
    *graph = made;
    return GY_OK;
}

void gy_cuda_capture_cancel(gy_cuda_device *device, gy_cuda_stream *stream)
{
    GY_ASSERT(stream != NULL);
    gy_cuda_graph *captured = NULL;
    if (device->driver->capture_end(stream, &captured) == GY_CUDA_SUCCESS && captured != NULL) {
        GY_CUDA_DEVICE_RELEASE(device, graph_destroy, captured);
    }
}

gy_status gy_cuda_graph_launch(gy_cuda_device *device, gy_cuda_stream *stream,
                               gy_cuda_graph_exec *graph)
{
    GY_ASSERT(stream != NULL && graph != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, graph_launch, graph, stream);
    return GY_OK;
}

void gy_cuda_graph_free(gy_cuda_device *device, gy_cuda_graph_exec *graph)
{
    if (graph != NULL) {
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, graph_exec_destroy, graph);
        gy_cuda_device_count_live(device, -1);
    }
}

/* ---- kernels ---- */

gy_status gy_cuda_module_open(gy_cuda_device *device, const gy_text *image, const char *name,
                              gy_cuda_module **module)
{
    GY_ASSERT(image->size_bytes > 0);
    GY_TRY(gy_cuda_device_enter(device));
    char log[512] = "";
    int options[] = {GY_CUDA_JIT_LOG, GY_CUDA_JIT_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    gy_cuda_module *made = NULL;
    const int code = device->driver->module_load(&made, image->data,
                                                 (unsigned)GY_COUNT(options), options, values);
    const gy_status status = gy_cuda_device_check(device, code, gy_cuda_symbol.module_load);
    if (status < 0) {
        return gy_fail_within(status, "kernel of %s%s%.*s", name, log[0] != '\0' ? ": " : "",
                              (int)strcspn(log, "\n"), log);
    }
    gy_cuda_device_count_live(device, 1);
    *module = made;
    return GY_OK;
}

void gy_cuda_module_close(gy_cuda_device *device, gy_cuda_module *module)
{
    if (module != NULL) {
        gy_cuda_device_warn(device, gy_cuda_device_enter_anyway(device));
        GY_CUDA_DEVICE_RELEASE(device, module_unload, module);
        gy_cuda_device_count_live(device, -1);
    }
}

gy_status gy_cuda_module_kernel(gy_cuda_device *device, gy_cuda_module *module,
                                const char *name, gy_cuda_function **kernel)
{
    GY_ASSERT(module != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    const gy_status status =
        gy_cuda_device_check(device, device->driver->module_function(kernel, module, name),
                             gy_cuda_symbol.module_function);
    return status < 0 ? gy_fail_within(status, "kernel %s", name) : GY_OK;
}

gy_status gy_cuda_launch_kernel(gy_cuda_device *device, gy_cuda_stream *stream,
                                gy_cuda_function *kernel, gy_cuda_grid grid, void *words)
{
    GY_ASSERT(grid.blocks > 0 && grid.threads > 0 && stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    void *arguments[] = {words};
    GY_CUDA_DEVICE_TRY(device, launch_kernel, kernel, grid.blocks, 1, 1, grid.threads, 1, 1, 0,
                       stream, arguments, NULL);
    return GY_OK;
}
