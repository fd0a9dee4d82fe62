/*
 * An executor's queues. Copies go through pinned memory that is kept; what the host waits for
 * stands in a list of its queue in the order of the stream, each with its event.
 */
#include "base/setting.h"
#include "ops/cuda/executor_priv.h"

#include <gyre/info.h>

#include <string.h>

enum { CACHE_RANK = 20, LOCK_RANK = 19, PINNED_MIN = 4096, CLOSE_S = 10 };

/* ---- pinned memory ---- */

/* The smallest that is large enough, or new memory of a power of two. */
static gy_status take_pinned(gy_cuda_executor *executor, size_t size_bytes,
                             gy_cuda_pinned **pinned)
{
    gy_cuda_pinned **best = NULL;
    for (gy_cuda_pinned **at = &executor->spare_pinned; *at != NULL; at = &(*at)->next) {
        if ((*at)->size_bytes >= size_bytes &&
            (best == NULL || (*at)->size_bytes < (*best)->size_bytes)) {
            best = at;
        }
    }
    if (best != NULL) {
        *pinned = *best;
        *best = (*best)->next;
        return GY_OK;
    }
    size_t whole = PINNED_MIN;
    while (whole < size_bytes) {
        whole *= 2;
    }
    gy_cuda_pinned *made = gy_alloc_zero("ops.cuda.pinned", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = gy_cuda_pinned_alloc(executor->device, whole, &made->memory);
    if (status < 0) {
        gy_free(made);
        return status;
    }
    made->size_bytes = whole;
    *pinned = made;
    return GY_OK;
}

static void put_pinned(gy_cuda_executor *executor, gy_cuda_pinned *pinned)
{
    if (pinned != NULL) {
        pinned->next = executor->spare_pinned;
        executor->spare_pinned = pinned;
    }
}

/* ---- what the host waits for ---- */

static gy_status take_pending(gy_cuda_executor *executor, gy_cuda_pending **pending)
{
    gy_cuda_pending *taken = executor->spare_pending;
    if (taken != NULL) {
        executor->spare_pending = taken->next;
    } else {
        taken = gy_alloc("ops.cuda.pending", sizeof(*taken));
    }
    if (taken == NULL) {
        return GY_NOMEM;
    }
    *taken = (gy_cuda_pending){.next = NULL};
    *pending = taken;
    return GY_OK;
}

static void put_pending(gy_cuda_executor *executor, gy_cuda_pending *pending)
{
    put_pinned(executor, pending->buffer);
    gy_cuda_event_drop(executor->device, pending->event);
    *pending = (gy_cuda_pending){.next = executor->spare_pending};
    executor->spare_pending = pending;
}

/* A piece of work whose end is waited for; `size_bytes` of pinned memory for it, if not 0. */
static gy_status begin_pending(gy_cuda_executor *executor, size_t size_bytes,
                               gy_cuda_pending **pending)
{
    GY_TRY(take_pending(executor, pending));
    (*pending)->size_bytes = size_bytes;
    const gy_status status =
        size_bytes > 0 ? take_pinned(executor, size_bytes, &(*pending)->buffer) : GY_OK;
    if (status < 0) {
        put_pending(executor, *pending);
    }
    return status;
}

/* It was pushed with `status`: it ends behind all that was pushed to its queue so far. Where no
 * event can be had its memory is given back once the stream is idle. */
static gy_status end_pending(gy_cuda_executor *executor, gy_cuda_queue_kind kind,
                             gy_cuda_pending *pending, gy_status status)
{
    gy_cuda_queue *queue = &executor->queues[kind];
    if (status == GY_OK) {
        status = gy_cuda_event_record(executor->device, queue->stream, &pending->event);
    }
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        if (gy_cuda_stream_wait(executor->device, queue->stream, gy_deadline_after(CLOSE_S)) ==
            GY_TIMEOUT) {
            pending->buffer = NULL; /* the device may still copy: it is lost to us */
        }
        put_pending(executor, pending);
        return gy_error_raise(&error);
    }
    pending->mark = ++queue->mark;
    pending->tick = queue->tick;
    *(queue->first == NULL ? &queue->first : &queue->last->next) = pending;
    queue->last = pending;
    return GY_OK;
}

/* Push a copy of `pending` between its pinned memory and the device. */
static gy_status push_copy(gy_cuda_executor *executor, gy_cuda_queue_kind kind,
                           gy_cuda_pending *pending, gy_cuda_address address)
{
    gy_status status = GY_OK;
    if (pending->size_bytes > 0) {
        const bool goes_there = kind == GY_CUDA_THERE;
        gy_cuda_stream *stream = executor->queues[kind].stream;
        const gy_cuda_access access = {.address = address, .writes = goes_there};
        void *pinned = pending->buffer->memory;
        status = gy_cuda_order_push(executor, kind, &access, 1);
        if (status == GY_OK && goes_there) {
            executor->counts.copies_there++;
            executor->counts.bytes_there += pending->size_bytes;
            status =
                gy_cuda_push(executor->device, stream, address, pinned, pending->size_bytes);
        } else if (status == GY_OK) {
            executor->counts.copies_back += pending->has_faults ? 0 : 1;
            executor->counts.bytes_back += pending->has_faults ? 0 : pending->size_bytes;
            status =
                gy_cuda_pull(executor->device, stream, pinned, address, pending->size_bytes);
        }
    }
    return end_pending(executor, kind, pending, status);
}

/* Read the faults, if a kernel may have left one. */
static gy_status push_faults(gy_cuda_executor *executor)
{
    if (!executor->may_have_faults) {
        return GY_OK;
    }
    gy_cuda_pending *pending = NULL;
    GY_TRY(begin_pending(executor, GY_CUDA_FAULTS_MAX * sizeof(uint64_t), &pending));
    pending->has_faults = true;
    executor->may_have_faults = false;
    return push_copy(executor, GY_CUDA_BACK, pending, executor->faults);
}

static gy_status look_for_faults(gy_cuda_executor *executor, const gy_cuda_pending *pending)
{
    uint64_t places[GY_CUDA_FAULTS_MAX];
    memcpy(places, pending->buffer->memory, sizeof(places));
    for (int i = 0; i < GY_CUDA_FAULTS_MAX; i++) {
        if (executor->checking[i] != NULL && places[i] != UINT64_MAX) {
            return gy_cuda_kernel_fault(executor, executor->checking[i], places[i]);
        }
    }
    return GY_OK;
}

/* The first that is waited for has ended. */
static gy_status complete(gy_cuda_executor *executor, gy_cuda_queue *queue)
{
    gy_cuda_pending *pending = queue->first;
    gy_status status = GY_OK;
    if (pending->has_faults) {
        status = look_for_faults(executor, pending);
    } else if (pending->to != NULL) {
        memcpy(pending->to, pending->buffer->memory, pending->size_bytes);
    }
    queue->done = pending->mark;
    queue->ended = pending->tick;
    queue->first = pending->next;
    queue->last = queue->first != NULL ? queue->last : NULL;
    put_pending(executor, pending);
    return gy_error_keep(&executor->failure, status);
}

/* Complete what has ended; GY_AGAIN when the mark is not among it. Locked. */
static gy_status advance(gy_cuda_executor *executor, gy_cuda_queue_kind kind, uint64_t mark,
                         gy_deadline deadline)
{
    gy_cuda_queue *queue = &executor->queues[kind];
    while (queue->done < mark) {
        if (executor->failure.status < 0) {
            return gy_error_raise(&executor->failure);
        }
        GY_ASSERT(queue->first != NULL);
        const gy_status status =
            deadline.at_ns == 0
                ? gy_cuda_event_poll(executor->device, queue->first->event)
                : gy_cuda_event_wait(executor->device, queue->first->event, deadline);
        if (status == GY_AGAIN || status == GY_TIMEOUT) {
            return status;
        }
        GY_TRY(gy_error_keep(&executor->failure, status));
        GY_TRY(complete(executor, queue));
    }
    return executor->failure.status < 0 ? gy_error_raise(&executor->failure) : GY_OK;
}

/* ---- the table ---- */

static gy_status take_locked(gy_cuda_executor *executor, size_t size_bytes,
                             gy_cuda_address *address)
{
    gy_cuda_address made = 0;
    GY_TRY(gy_cuda_memory_alloc(executor->device, executor->stream, size_bytes, &made));
    const gy_status status = gy_cuda_order_add(executor, made, size_bytes);
    if (status < 0) {
        gy_cuda_memory_free(executor->device, executor->stream, made);
        return status;
    }
    *address = made;
    return GY_OK;
}

static gy_status take(gy_device *device, size_t size_bytes, void **address)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_cuda_address made = 0;
    gy_mutex_lock(&executor->lock);
    const gy_status status = take_locked(executor, GY_MAX(size_bytes, 1), &made);
    gy_mutex_unlock(&executor->lock);
    GY_TRY(status);
    *address = (void *)(uintptr_t)made; // NOLINT(performance-no-int-to-ptr)
    return GY_OK;
}

/* All queues are idle, or the time is over. */
static void settle(gy_cuda_executor *executor)
{
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        gy_cuda_stream *stream = executor->queues[i].stream;
        if (stream != NULL &&
            gy_cuda_stream_wait(executor->device, stream, gy_deadline_after(CLOSE_S)) < 0) {
            gy_debug("%s", gy_error_text()); /* its failure has been told, or nobody asks */
        }
    }
}

static void give_locked(gy_cuda_executor *executor, gy_cuda_address address)
{
    const gy_cuda_access access = {.address = address, .writes = true};
    if (gy_cuda_order_push(executor, GY_CUDA_KERNELS, &access, 1) < 0) {
        gy_debug("%s", gy_error_text());
        settle(executor);
    }
    gy_cuda_memory_free(executor->device, executor->stream, address);
    gy_cuda_order_remove(executor, address);
}

static void give(gy_device *device, void *address)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    give_locked(executor, (uintptr_t)address);
    gy_mutex_unlock(&executor->lock);
}

static gy_status push_there(gy_cuda_executor *executor, void *to, const void *from,
                            size_t size_bytes)
{
    gy_cuda_pending *pending = NULL;
    GY_TRY(begin_pending(executor, size_bytes, &pending));
    if (size_bytes > 0) {
        memcpy(pending->buffer->memory, from, size_bytes);
    }
    return push_copy(executor, GY_CUDA_THERE, pending, (uintptr_t)to);
}

static gy_status push_back(gy_cuda_executor *executor, void *to, const void *from,
                           size_t size_bytes)
{
    gy_cuda_pending *pending = NULL;
    GY_TRY(push_faults(executor)); /* before what they have spoilt is taken for good */
    GY_TRY(begin_pending(executor, size_bytes, &pending));
    pending->to = size_bytes > 0 ? to : NULL;
    return push_copy(executor, GY_CUDA_BACK, pending, (uintptr_t)from);
}

/* Marks of all queues are told apart by what a division by their number leaves. */
static uint64_t mark_of(const gy_cuda_executor *executor, gy_cuda_queue_kind kind)
{
    return executor->queues[kind].mark * GY_CUDA_QUEUES + (uint64_t)kind;
}

static gy_status copy_there(gy_device *device, void *to, const void *from, size_t size_bytes,
                            uint64_t *mark)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    const gy_status status = push_there(executor, to, from, size_bytes);
    *mark = mark_of(executor, GY_CUDA_THERE);
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status copy_back(gy_device *device, void *to, const void *from, size_t size_bytes,
                           uint64_t *mark)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    const gy_status status = push_back(executor, to, from, size_bytes);
    *mark = mark_of(executor, GY_CUDA_BACK);
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status fill(gy_device *device, void *to, uint8_t byte, size_t size_bytes)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    const gy_cuda_access access = {.address = (uintptr_t)to, .writes = true};
    GY_ASSERT(to != NULL || size_bytes == 0);
    gy_mutex_lock(&executor->lock);
    gy_status status = gy_cuda_order_push(executor, GY_CUDA_KERNELS, &access, 1);
    status = status == GY_OK ? gy_cuda_fill(executor->device, executor->stream, (uintptr_t)to,
                                            byte, size_bytes)
                             : status;
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status copy_inside(gy_device *device, void *to, const void *from, size_t size_bytes)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    const gy_cuda_access accesses[] = {{.address = (uintptr_t)to, .writes = true},
                                       {.address = (uintptr_t)from}};
    if (size_bytes == 0) {
        return GY_OK;
    }
    gy_mutex_lock(&executor->lock);
    gy_status status = gy_cuda_order_push(executor, GY_CUDA_KERNELS, accesses, 2);
    if (status == GY_OK) {
        status = gy_cuda_copy(executor->device, executor->stream, accesses[0].address,
                              accesses[1].address, size_bytes);
    }
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status poll(gy_device *device, uint64_t mark)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    const gy_cuda_queue_kind kind = (gy_cuda_queue_kind)(mark % GY_CUDA_QUEUES);
    gy_mutex_lock(&executor->lock);
    const gy_status status = advance(executor, kind, mark / GY_CUDA_QUEUES, (gy_deadline){0});
    gy_mutex_unlock(&executor->lock);
    return status;
}

static gy_status finish_locked(gy_cuda_executor *executor, gy_deadline deadline)
{
    gy_cuda_pending *pending = NULL;
    GY_TRY(push_faults(executor));
    GY_TRY(begin_pending(executor, 0, &pending));
    GY_TRY(end_pending(executor, GY_CUDA_KERNELS, pending, GY_OK));
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        GY_TRY(advance(executor, (gy_cuda_queue_kind)i, executor->queues[i].mark, deadline));
    }
    return GY_OK;
}

static gy_status finish(gy_device *device, gy_deadline deadline)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    const gy_status status = finish_locked(executor, deadline);
    gy_mutex_unlock(&executor->lock);
    return status;
}

static void count(gy_device *device, gy_device_counts *counts)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    gy_mutex_lock(&executor->lock);
    *counts = executor->counts;
    gy_mutex_unlock(&executor->lock);
}

static const gy_device_ops executor_ops = {.accepts = gy_cuda_kernel_accepts,
                                           .workspace_bytes = gy_cuda_kernel_workspace,
                                           .prepare = gy_cuda_kernel_prepare,
                                           .release = gy_cuda_kernel_release,
                                           .launch = gy_cuda_kernel_launch,
                                           .launch_all = gy_cuda_segment_launch,
                                           .take = take,
                                           .give = give,
                                           .copy_there = copy_there,
                                           .copy_back = copy_back,
                                           .copy_inside = copy_inside,
                                           .fill = fill,
                                           .poll = poll,
                                           .finish = finish,
                                           .count = count};

/* ---- life ---- */

/*
 * Estimates. A multiprocessor has 64 or 128 lanes that multiply and add in float32 in a cycle,
 * and units for 16-bit products with eight times the rate from compute capability 7.0 on;
 * float64 has half of float32's rate on the devices of computing centres (x.0), else 1/32. Half
 * of the peak is reached.
 * @source NVIDIA, "CUDA C++ Programming Guide", table of arithmetic throughput
 */
static gy_device_rates estimate(const gy_cuda_properties *device, uint64_t memory_bytes)
{
    const bool has_64_lanes =
        device->capability == 70 || device->capability == 75 || device->capability == 80;
    const double cycles_s = 1e3 * device->clock_khz * device->multiprocessors;
    const double f32 = 0.5 * 2 * (has_64_lanes ? 64 : 128) * cycles_s;
    gy_device_rates rates = {.bytes_s = 0.8 * device->memory_bytes_per_second,
                             .launch_s = 5e-6,
                             .copy_s = 10e-6,
                             .copy_bytes_s = 12e9,
                             .host_flops_s = 40e9 * gy_info_cores(),
                             .host_bytes_s = 15e9 * gy_info_cores(),
                             .memory_bytes = memory_bytes};
    rates.flops_s[GY_F32] = f32;
    rates.flops_s[GY_F64] = device->capability % 10 == 0 ? f32 / 2 : f32 / 32;
    rates.flops_s[GY_F16] = rates.flops_s[GY_BF16] = device->capability >= 70 ? 8 * f32 : f32;
    return rates;
}

static gy_status open_rest(gy_cuda_executor *executor, int index)
{
    gy_cuda_memory memory;
    int graphs = 0;
    GY_TRY(gy_setting_choice("GYRE_DEVICE_GRAPHS", "on|off", &graphs));
    executor->has_no_graphs = graphs == 1;
    GY_TRY(gy_cuda_device_open(index, 0, &executor->device));
    const gy_cuda_properties *properties = gy_cuda_device_properties(executor->device);
    const gy_cuda_compiler *compiler = NULL;
    GY_TRY(gy_cuda_compiler_get(&compiler));
    gy_cuda_images_open(&executor->images);
    int tf32 = 0;
    GY_TRY(gy_setting_choice("GYRE_TF32", "0|1", &tf32));
    executor->may_round = tf32 == 1;
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        GY_TRY(gy_cuda_stream_open(executor->device, &executor->queues[i].stream));
    }
    executor->stream = executor->queues[GY_CUDA_KERNELS].stream;
    GY_TRY(take_locked(executor, GY_CUDA_FAULTS_MAX * sizeof(uint64_t), &executor->faults));
    GY_TRY(gy_cuda_fill(executor->device, executor->stream, executor->faults, 0xff,
                        GY_CUDA_FAULTS_MAX * sizeof(uint64_t)));
    const gy_status status = gy_cuda_products_open(executor->device, &executor->products);
    if (status == GY_NOTFOUND || status == GY_UNSUPPORTED) {
        gy_warn("products run on the CPU: %s", gy_error_text());
    } else {
        GY_TRY(status);
    }
    GY_TRY(gy_cuda_memory_read(executor->device, &memory));
    gy_print(executor->name, sizeof(executor->name), "%d (%s)", index, properties->name);
    executor->base.name = executor->name;
    /* A tenth is left to the libraries and to what pieces do not fill. */
    executor->base.rates =
        estimate(properties, GY_MAX(memory.free_bytes / 10 * 9, 1)); /* 0 is no limit */
    return GY_OK;
}

gy_status gy_cuda_executor_open(int index, gy_device **device)
{
    gy_cuda_executor *made = gy_alloc_zero("ops.cuda.executor", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->base.ops = &executor_ops;
    gy_mutex_init(&made->cache_lock, CACHE_RANK);
    gy_mutex_init(&made->lock, LOCK_RANK);
    const gy_status status = open_rest(made, index);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_executor_close(&made->base);
        return gy_error_raise(&error);
    }
    *device = &made->base;
    return GY_OK;
}

void gy_cuda_executor_share(gy_device *device, int processes)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    const size_t size = strlen(executor->name);
    GY_ASSERT(processes >= 1);
    if (processes > 1) {
        gy_device_rates *rates = &device->rates;
        for (int i = 0; i < GY_DTYPE_COUNT; i++) {
            rates->flops_s[i] /= processes;
        }
        rates->bytes_s /= processes;
        rates->copy_bytes_s /= processes;
        rates->memory_bytes = GY_MAX(rates->memory_bytes / (uint64_t)processes, 1);
        gy_print(executor->name + size, sizeof(executor->name) - size,
                 " shared by %d processes", processes);
    }
}

static void close_device(gy_cuda_executor *executor)
{
    settle(executor);
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        gy_cuda_queue *queue = &executor->queues[i];
        while (queue->first != NULL) {
            gy_cuda_pending *pending = queue->first;
            queue->first = pending->next;
            put_pending(executor, pending);
        }
    }
    for (gy_cuda_pinned *pinned; (pinned = executor->spare_pinned) != NULL;) {
        executor->spare_pinned = pinned->next;
        gy_cuda_pinned_free(executor->device, pinned->memory);
        gy_free(pinned);
    }
    gy_cuda_segments_forget(executor, UINT64_MAX);
    gy_cuda_products_close(executor->products);
    gy_cuda_memory_free(executor->device, executor->stream, executor->faults);
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        gy_cuda_stream_close(executor->device, executor->queues[i].stream);
    }
    for (size_t i = 0; i < executor->compiled_count; i++) {
        gy_cuda_module_close(executor->device, executor->compiled[i].module);
    }
    gy_cuda_device_close(executor->device);
}

void gy_cuda_executor_close(gy_device *device)
{
    if (device == NULL) {
        return;
    }
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    for (int i = 0; i < GY_CUDA_FAULTS_MAX; i++) {
        GY_ASSERT(executor->checking[i] == NULL);
    }
    if (executor->device != NULL) {
        close_device(executor);
    }
    while (executor->spare_pending != NULL) {
        gy_cuda_pending *pending = executor->spare_pending;
        executor->spare_pending = pending->next;
        gy_free(pending);
    }
    gy_mutex_fini(&executor->cache_lock);
    gy_mutex_fini(&executor->lock);
    gy_free(executor->compiled);
    gy_free(executor->blocks);
    gy_free(executor);
}
