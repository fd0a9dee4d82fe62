/*
 * The order of an executor's queues. Each block of memory knows the last work of each queue
 * that reads and that writes it; each queue knows up to where the others' work runs before its
 * own. Both are ticks, so that work which touches other memory, or is ordered already, waits
 * for nothing (vector clocks of three entries; Mattern 1989).
 */
#include "base/hash.h"
#include "ops/cuda/executor_priv.h"
#include "tensor/tensor.h"

#include <string.h>

/* The place of the first block whose address is above. */
static size_t place_above(const gy_cuda_executor *executor, gy_cuda_address address)
{
    size_t low = 0, high = executor->block_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (executor->blocks[middle].address > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static gy_cuda_block *block_of(const gy_cuda_executor *executor, gy_cuda_address address)
{
    const size_t above = place_above(executor, address);
    GY_ASSERT(above > 0); /* it was taken */
    gy_cuda_block *block = &executor->blocks[above - 1];
    GY_ASSERT(address - block->address < block->size_bytes);
    return block;
}

gy_status gy_cuda_order_add(gy_cuda_executor *executor, gy_cuda_address address,
                            size_t size_bytes)
{
    GY_ASSERT(address != 0 && size_bytes > 0);
    GY_TRY(GY_GROW("ops.cuda.blocks", executor->blocks, executor->block_capacity,
                   executor->block_count + 1));
    const size_t at = place_above(executor, address);
    memmove(&executor->blocks[at + 1], &executor->blocks[at],
            (executor->block_count - at) * sizeof(executor->blocks[0]));
    executor->blocks[at] = (gy_cuda_block){.address = address, .size_bytes = size_bytes};
    executor->blocks[at].written[GY_CUDA_KERNELS] = ++executor->queues[GY_CUDA_KERNELS].tick;
    executor->block_count++;
    return GY_OK;
}

void gy_cuda_order_remove(gy_cuda_executor *executor, gy_cuda_address address)
{
    const gy_cuda_block *block = block_of(executor, address);
    GY_ASSERT(block->address == address);
    const size_t at = (size_t)(block - executor->blocks);
    executor->block_count--;
    memmove(&executor->blocks[at], &executor->blocks[at + 1],
            (executor->block_count - at) * sizeof(executor->blocks[0]));
}

/* What is pushed to `queue` from now on runs behind all that was pushed to `other`. */
static gy_status follow(gy_cuda_executor *executor, gy_cuda_queue_kind queue,
                        gy_cuda_queue_kind other)
{
    gy_cuda_queue *later = &executor->queues[queue];
    const gy_cuda_queue *before = &executor->queues[other];
    gy_cuda_event *event = NULL;
    GY_TRY(gy_cuda_event_record(executor->device, before->stream, &event));
    const gy_status status = gy_cuda_stream_after(executor->device, later->stream, event);
    gy_cuda_event_drop(executor->device, event); /* the wait is for what it was recorded for */
    GY_TRY(status);
    for (int i = 0; i < GY_CUDA_QUEUES; i++) {
        later->behind[i] = GY_MAX(later->behind[i], before->behind[i]);
    }
    later->behind[other] = before->tick;
    return GY_OK;
}

gy_status gy_cuda_order_push(gy_cuda_executor *executor, gy_cuda_queue_kind queue,
                             const gy_cuda_access *accesses, int count)
{
    gy_cuda_queue *own = &executor->queues[queue];
    uint64_t wanted[GY_CUDA_QUEUES] = {0};
    for (int i = 0; i < count; i++) {
        if (accesses[i].address == 0) {
            continue;
        }
        const gy_cuda_block *block = block_of(executor, accesses[i].address);
        for (int other = 0; other < GY_CUDA_QUEUES; other++) {
            const uint64_t read = accesses[i].writes ? block->read[other] : 0;
            wanted[other] = GY_MAX(wanted[other], GY_MAX(block->written[other], read));
        }
    }
    for (int other = 0; other < GY_CUDA_QUEUES; other++) {
        if (other != (int)queue &&
            wanted[other] > GY_MAX(own->behind[other], executor->queues[other].ended)) {
            GY_TRY(follow(executor, queue, (gy_cuda_queue_kind)other));
        }
    }
    own->tick++;
    for (int i = 0; i < count; i++) {
        if (accesses[i].address != 0) {
            gy_cuda_block *block = block_of(executor, accesses[i].address);
            *(accesses[i].writes ? &block->written[queue] : &block->read[queue]) = own->tick;
        }
    }
    return GY_OK;
}

/*
 * ---- segments: what is launched together ----
 *
 * One that comes again with the same kernels and addresses is captured as a graph, and launched
 * as one from then on. What changes from step to step (rate, step number, seed) is fed, so it
 * lies in device memory and changes no number of a launch.
 */

static void key_of(const gy_device_work *work, int count, uint64_t key[2])
{
    memset(key, 0, 2 * sizeof(*key));
    for (int i = 0; i < count; i++) {
        if (work[i].kernel != NULL) {
            gy_cuda_kernel_key(work[i].kernel, work[i].call, key);
        } else {
            const gy_view *inputs = work[i].call->inputs;
            const uint64_t words[] = {key[0], key[1], (uintptr_t)inputs[0].data,
                                      (uintptr_t)inputs[1].data, gy_view_bytes(&inputs[1])};
            gy_hash_wide(words, sizeof(words), key);
        }
    }
}

/* Have the queue wait for what the work must follow. */
static gy_status order(gy_cuda_executor *executor, const gy_device_work *work)
{
    if (work->kernel != NULL) {
        return gy_cuda_kernel_order(executor, work->kernel, work->call);
    }
    const gy_view *inputs = work->call->inputs;
    const gy_cuda_access accesses[] = {{.address = (uintptr_t)inputs[0].data, .writes = true},
                                       {.address = (uintptr_t)inputs[1].data}};
    return gy_cuda_order_push(executor, GY_CUDA_KERNELS, accesses, 2);
}

static gy_status issue(gy_cuda_executor *executor, const gy_device_work *work)
{
    if (work->kernel != NULL) {
        return gy_cuda_kernel_issue(executor, work->kernel, work->call);
    }
    const gy_view *inputs = work->call->inputs;
    return gy_cuda_copy(executor->device, executor->stream, (uintptr_t)inputs[0].data,
                        (uintptr_t)inputs[1].data, gy_view_bytes(&inputs[1]));
}

/* The work one by one; first each is ordered, unless all are. */
static gy_status push_all(gy_cuda_executor *executor, const gy_device_work *work, int count,
                          bool is_ordered)
{
    for (int i = 0; i < count; i++) {
        gy_status status = is_ordered ? GY_OK : order(executor, &work[i]);
        status = status == GY_OK ? issue(executor, &work[i]) : status;
        if (status < 0) {
            return gy_fail_within(status, "node %s", work[i].name);
        }
    }
    return GY_OK;
}

/* ---- the segments that were seen ---- */

static void drop_graph(gy_cuda_executor *executor, gy_cuda_segment *segment)
{
    const uint64_t bit = (uint64_t)1 << (segment - executor->segments);
    for (int i = 0; i < segment->kernel_count; i++) {
        *gy_cuda_kernel_graphs(segment->kernels[i]) &= ~bit;
    }
    gy_free(segment->kernels);
    gy_cuda_graph_free(executor->device, segment->graph);
    *segment = (gy_cuda_segment){.used = 0};
}

void gy_cuda_segments_forget(gy_cuda_executor *executor, uint64_t graphs)
{
    for (int i = 0; i < GY_CUDA_SEGMENTS_MAX; i++) {
        if ((graphs >> i & 1) != 0) {
            drop_graph(executor, &executor->segments[i]);
        }
    }
}

/* The segment of a key, or one that was used least recently in its place: then *is_new. */
static gy_cuda_segment *find(gy_cuda_executor *executor, const uint64_t key[2], bool *is_new)
{
    gy_cuda_segment *oldest = &executor->segments[0];
    *is_new = false;
    for (int i = 0; i < GY_CUDA_SEGMENTS_MAX; i++) {
        gy_cuda_segment *segment = &executor->segments[i];
        if (segment->used > 0 && memcmp(segment->key, key, sizeof(segment->key)) == 0) {
            return segment;
        }
        oldest = segment->used < oldest->used ? segment : oldest;
    }
    drop_graph(executor, oldest);
    memcpy(oldest->key, key, sizeof(oldest->key));
    *is_new = true;
    return oldest;
}

/* ---- graphs ---- */

static gy_status capture(gy_cuda_executor *executor, gy_cuda_segment *segment,
                         const gy_device_work *work, int count)
{
    GY_TRY(gy_cuda_capture_begin(executor->device, executor->stream));
    const gy_status status = push_all(executor, work, count, true);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_capture_cancel(executor->device, executor->stream);
        return gy_error_raise(&error);
    }
    return gy_cuda_capture_end(executor->device, executor->stream, &segment->graph);
}

/* The graph of a segment that has come again; its kernels know of it. */
static gy_status make_graph(gy_cuda_executor *executor, gy_cuda_segment *segment,
                            const gy_device_work *work, int count)
{
    segment->kernels = gy_alloc("ops.cuda.segment", (size_t)count * sizeof(*segment->kernels));
    if (segment->kernels == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(capture(executor, segment, work, count));
    for (int i = 0; i < count; i++) {
        if (work[i].kernel != NULL) {
            segment->kernels[segment->kernel_count++] = work[i].kernel;
            *gy_cuda_kernel_graphs(work[i].kernel) |= (uint64_t)1
                                                      << (segment - executor->segments);
        }
    }
    return GY_OK;
}

/* Can it go on without a graph? Says so where it can. */
static bool is_spared(const gy_cuda_executor *executor, gy_status status)
{
    if (status != GY_NOMEM && status != GY_UNSUPPORTED) {
        return false;
    }
    gy_debug("device %s: kernels are launched one by one: %s", executor->name, gy_error_text());
    return true;
}

static gy_status launch_graph(gy_cuda_executor *executor, gy_cuda_segment *segment,
                              const gy_device_work *work, int count)
{
    for (int i = 0; i < count; i++) {
        const gy_status status = order(executor, &work[i]);
        if (status < 0) {
            return gy_fail_within(status, "node %s", work[i].name);
        }
    }
    const gy_status status =
        gy_cuda_graph_launch(executor->device, executor->stream, segment->graph);
    if (status == GY_OK) {
        executor->counts.graphs++;
        executor->counts.launches++;
        executor->counts.kernels += segment->launch_count;
        return GY_OK;
    }
    if (!is_spared(executor, status)) {
        return status;
    }
    return push_all(executor, work, count, true);
}

static gy_status launch(gy_cuda_executor *executor, const gy_device_work *work, int count)
{
    uint64_t key[2];
    bool is_new;
    if (executor->has_no_graphs || count < 2) {
        return push_all(executor, work, count, false);
    }
    key_of(work, count, key);
    gy_cuda_segment *segment = find(executor, key, &is_new);
    segment->used = ++executor->segment_uses;
    if (!is_new && segment->graph == NULL && !segment->is_refused) {
        const gy_device_counts before = executor->counts;
        const gy_status status = make_graph(executor, segment, work, count);
        segment->launch_count = executor->counts.kernels - before.kernels;
        executor->counts = before; /* nothing has run */
        segment->is_refused = status < 0;
        if (status < 0 && !is_spared(executor, status)) {
            return status;
        }
    }
    return segment->graph != NULL ? launch_graph(executor, segment, work, count)
                                  : push_all(executor, work, count, false);
}

gy_status gy_cuda_segment_launch(gy_device *device, const gy_device_work *work, int count)
{
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    GY_ASSERT(count > 0);
    gy_mutex_lock(&executor->lock);
    const gy_status status = launch(executor, work, count);
    gy_mutex_unlock(&executor->lock);
    return status;
}
