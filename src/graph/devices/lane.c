/*
 * What a session's device does: launches and copies are tasks. A launch has ended when it is
 * queued, for the device keeps the order; a copy when the device says so, which threads that
 * wait ask it. Parameters that have their home there are copied when the other side wants them.
 */
#include "graph/session.h"

#include <string.h>

enum { PATIENCE_S = 600 };

struct gy_device_lane {
    gy_device *device;
    gy_engine *engine;
    int64_t patience_ns;    /* of a wait for what the device does */
    _Atomic int64_t end_ns; /* of the last copy that has ended */
    gy_error stuck;         /* GUARDED(lock): one waited in vain; then all fails with it, since
                               the device may still write where its copies go */
    gy_mutex lock;
    struct copies {
        gy_program_step *first, *last;
    } there, back; /* that have not ended, in their order */
};

/* Keep the failure of a wait that was in vain. */
static gy_status keep_stuck(gy_device_lane *lane, gy_status status)
{
    if (status == GY_TIMEOUT) {
        gy_mutex_lock(&lane->lock);
        status = gy_error_keep(&lane->stuck, status);
        gy_mutex_unlock(&lane->lock);
    }
    return status;
}

static gy_status check_stuck(gy_device_lane *lane)
{
    gy_mutex_lock(&lane->lock);
    const gy_status status = lane->stuck.status < 0 ? gy_error_raise(&lane->stuck) : GY_OK;
    gy_mutex_unlock(&lane->lock);
    return status;
}

/* A copy has not ended: GY_AGAIN while that is no wonder. */
static gy_status wait_on(gy_device_lane *lane, const gy_program_step *step)
{
    const int64_t ended_ns = atomic_load_explicit(&lane->end_ns, memory_order_relaxed);
    const int64_t now_ns = gy_now_ns(gy_env_real());
    GY_ASSERT(step->copy.begun_ns > 0);
    return now_ns - GY_MAX(step->copy.begun_ns, ended_ns) <= lane->patience_ns
               ? GY_AGAIN
               : keep_stuck(lane,
                            gy_fail(GY_TIMEOUT,
                                    "device %s has not ended a copy in %g s: it hangs, or "
                                    "GYRE_TIMEOUT is too short for its work",
                                    lane->device->name, 1e-9 * (double)lane->patience_ns));
}

/* Wait for all that was queued. */
static gy_status settle(gy_device_lane *lane)
{
    GY_TRY(check_stuck(lane));
    const gy_deadline deadline = gy_deadline_after(1e-9 * (double)lane->patience_ns);
    return keep_stuck(lane, lane->device->ops->finish(lane->device, deadline));
}

static bool end_copies(gy_device_lane *lane, struct copies *copies)
{
    bool any = false;
    GY_ASSERT(copies == &lane->there || copies == &lane->back);
    for (;;) {
        gy_mutex_lock(&lane->lock);
        gy_program_step *step = copies->first;
        gy_mutex_unlock(&lane->lock);
        gy_status status =
            step == NULL ? GY_AGAIN : lane->device->ops->poll(lane->device, step->copy.mark);
        status = status == GY_AGAIN && step != NULL ? wait_on(lane, step) : status;
        if (status == GY_AGAIN) {
            return any;
        }
        any = true;
        atomic_store_explicit(&lane->end_ns, gy_now_ns(gy_env_real()), memory_order_relaxed);
        gy_mutex_lock(&lane->lock);
        copies->first = step->copy.next;
        copies->last = copies->first == NULL ? NULL : copies->last;
        gy_mutex_unlock(&lane->lock);
        gy_done *done = step->copy.done;
        GY_ASSERT(done != NULL && gy_devices_is_copy(step->node->op));
        step->copy = (gy_device_copy){.mark = 0};
        if (status < 0) {
            gy_fail_within(status, "node %s", step->node->name);
            gy_done_fail(done, status);
        } else {
            gy_done_ok(done);
        }
    }
}

static bool progress(void *arg)
{
    gy_device_lane *lane = arg;
    GY_ASSERT(lane->device != NULL);
    const bool any = end_copies(lane, &lane->there);
    return end_copies(lane, &lane->back) || any;
}

gy_status gy_device_lane_new(gy_device *device, gy_engine *engine, gy_device_lane **out)
{
    GY_ASSERT(device != NULL && device->ops != NULL);
    gy_device_lane *lane = gy_alloc_zero("graph.device", 1, sizeof(*lane));
    if (lane == NULL) {
        return GY_NOMEM;
    }
    lane->device = device;
    lane->engine = engine;
    lane->stuck.status = GY_OK;
    gy_mutex_init(&lane->lock, 21);
    const double wanted_s = gy_setting_get("GYRE_TIMEOUT") != NULL ? 0 : PATIENCE_S;
    gy_status status = gy_comm_read_timeout(wanted_s, &lane->patience_ns);
    status = status >= 0 ? gy_engine_add_progress(engine, progress, lane) : status;
    if (status < 0) {
        gy_mutex_fini(&lane->lock);
        gy_free(lane);
        return status;
    }
    *out = lane;
    return GY_OK;
}

void gy_device_lane_free(gy_device_lane *lane)
{
    if (lane == NULL) {
        return;
    }
    GY_ASSERT(lane->there.first == NULL && lane->back.first == NULL);
    gy_engine_remove_progress(lane->engine, progress, lane);
    gy_mutex_fini(&lane->lock);
    gy_free(lane);
}

gy_device *gy_device_lane_device(const gy_device_lane *lane)
{
    GY_ASSERT(lane != NULL && lane->device != NULL);
    return lane->device;
}

/* ---- steps ---- */

static size_t bytes_of(const gy_view *view)
{
    GY_ASSERT(view->format == GY_FORMAT_DENSE);
    return (size_t)gy_view_count(view) * gy_dtype_bytes(view->dtype);
}

/* Queue the copy and stand in line, so that both have one order. */
static gy_status begin_copy(gy_device_lane *lane, gy_program_step *step, gy_done *done)
{
    const gy_device_ops *ops = lane->device->ops;
    const gy_view *from = &step->call.inputs[0], *to = &step->call.outputs[0];
    const bool goes_there = step->node->op == &gy_ops_row_to_device;
    struct copies *copies = goes_there ? &lane->there : &lane->back;
    GY_ASSERT(bytes_of(from) == bytes_of(to) && step->copy.done == NULL);
    gy_mutex_lock(&lane->lock);
    const gy_status status = (goes_there ? ops->copy_there : ops->copy_back)(
        lane->device, to->data, from->data, bytes_of(from), &step->copy.mark);
    if (status >= 0) {
        step->copy.done = done;
        step->copy.next = NULL;
        step->copy.begun_ns = gy_now_ns(gy_env_real());
        *(copies->first == NULL ? &copies->first : &copies->last->copy.next) = step;
        copies->last = step;
    }
    gy_mutex_unlock(&lane->lock);
    return status;
}

static gy_status queue(gy_device_lane *lane, const gy_program_step *step)
{
    const gy_device_ops *ops = lane->device->ops;
    const gy_kernel_call *call = &step->call;
    GY_ASSERT(step->node->is_on_device);
    if (step->node->op == &gy_ops_row_assign) {
        GY_ASSERT(bytes_of(&call->inputs[0]) == bytes_of(&call->inputs[1]));
        return ops->copy_inside(lane->device, call->inputs[0].data, call->inputs[1].data,
                                bytes_of(&call->inputs[1]));
    }
    return ops->launch(lane->device, step->state, call);
}

static void run_step(void *arg, gy_done *done)
{
    gy_program_step *step = arg;
    gy_device_lane *lane = step->program->session->lane;
    const bool is_copy = gy_devices_is_copy(step->node->op);
    GY_ASSERT(lane != NULL && step->collective == NULL);
    gy_status status = check_stuck(lane);
    if (status >= 0) {
        status = is_copy ? begin_copy(lane, step, done) : queue(lane, step);
    }
    if (status < 0) {
        gy_fail_within(status, "node %s", step->node->name);
        gy_done_fail(done, status);
    } else if (!is_copy) {
        gy_done_ok(done);
    }
}

gy_status gy_device_lane_push(gy_device_lane *lane, gy_task *task)
{
    GY_ASSERT(task->arg != NULL);
    task->run = run_step;
    task->lane = GY_LANE_NETWORK;
    return gy_engine_push(lane->engine, task);
}

static gy_status queue_group(gy_device_lane *lane, const gy_device_group *group)
{
    const gy_device_ops *ops = lane->device->ops;
    GY_ASSERT(group->work != NULL && group->first >= 0);
    GY_TRY(check_stuck(lane));
    if (ops->launch_all != NULL) {
        return ops->launch_all(lane->device, group->work, group->count);
    }
    for (int32_t i = 0; i < group->count; i++) {
        const gy_program_step *step = &group->program->steps[group->first + i];
        const gy_status status = queue(lane, step);
        if (status < 0) {
            return gy_fail_within(status, "node %s", step->node->name);
        }
    }
    return GY_OK;
}

static void run_group(void *arg, gy_done *done)
{
    const gy_device_group *group = arg;
    GY_ASSERT(group->count > 1 && group->program->session->lane != NULL);
    const gy_status status = queue_group(group->program->session->lane, group);
    if (status < 0) {
        gy_done_fail(done, status);
    } else {
        gy_done_ok(done);
    }
}

gy_status gy_device_lane_push_group(gy_device_lane *lane, gy_device_group *group, gy_task *task)
{
    GY_ASSERT(group->mutate_count > 0 && task->scope != NULL);
    task->run = run_group;
    task->arg = group;
    task->lane = GY_LANE_NETWORK;
    task->reads = group->reads;
    task->read_count = group->read_count;
    task->mutates = group->mutates;
    task->mutate_count = group->mutate_count;
    return gy_engine_push(lane->engine, task);
}

gy_status gy_device_lane_prepare(gy_device_lane *lane, gy_program_step *step)
{
    const gy_device_ops *ops = lane->device->ops;
    GY_ASSERT(step->state == NULL);
    if (gy_devices_is_copy(step->node->op) || step->node->op == &gy_ops_row_assign) {
        return GY_OK;
    }
    GY_TRY(ops->prepare(lane->device, &step->call, step->node->name, &step->state));
    if (step->node->op != &gy_ops_row_fill) {
        return GY_OK;
    }
    /* Its memory is its own: filled once. */
    gy_status status = ops->launch(lane->device, step->state, &step->call);
    status = status == GY_OK ? settle(lane) : status;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        ops->release(lane->device, step->state);
        step->state = NULL;
        return gy_error_raise(&error);
    }
    return GY_OK;
}

gy_status gy_device_lane_await(gy_device_lane *lane)
{
    GY_ASSERT(lane == NULL || lane->device->ops->finish != NULL);
    return lane != NULL ? settle(lane) : GY_OK;
}

/* ---- parameters ---- */

gy_status gy_device_lane_place(gy_device_lane *lane, gy_parameter_slot *slot)
{
    GY_ASSERT(lane != NULL);
    const size_t bytes = bytes_of(&slot->view);
    return slot->there != NULL
               ? GY_OK
               : lane->device->ops->take(lane->device, GY_MAX(bytes, 1), &slot->there);
}

void gy_device_lane_drop(gy_device_lane *lane, gy_parameter_slot *slot)
{
    if (slot->there != NULL) {
        GY_ASSERT(lane != NULL);
        lane->device->ops->give(lane->device, slot->there);
        slot->there = NULL;
    }
}

/* Is each byte the first one? Bytes that are not are found out at once, mostly. */
static bool is_even(const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    GY_ASSERT(size_bytes == 0 || data != NULL);
    return size_bytes > 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

/* Zeros, as moments of an optimizer are at first, are made there. */
gy_status gy_device_lane_send(gy_device_lane *lane, gy_parameter_slot *slot)
{
    uint64_t mark;
    GY_ASSERT(slot->there != NULL);
    GY_TRY(check_stuck(lane));
    if (slot->is_same_there) {
        return GY_OK;
    }
    const gy_device_ops *ops = lane->device->ops;
    const size_t size_bytes = bytes_of(&slot->view);
    GY_TRY(
        ops->fill != NULL && is_even(slot->view.data, size_bytes)
            ? ops->fill(lane->device, slot->there, *(const uint8_t *)slot->view.data,
                        size_bytes)
            : ops->copy_there(lane->device, slot->there, slot->view.data, size_bytes, &mark));
    slot->is_same_there = true;
    return GY_OK;
}

gy_status gy_device_lane_bring(gy_device_lane *lane, gy_parameter_slot *slot)
{
    uint64_t mark;
    if (!slot->is_newer_there) {
        slot->is_same_there = false;
        return GY_OK;
    }
    GY_ASSERT(lane != NULL && slot->there != NULL);
    GY_TRY(check_stuck(lane));
    GY_TRY(lane->device->ops->copy_back(lane->device, slot->view.data, slot->there,
                                        bytes_of(&slot->view), &mark));
    GY_TRY(settle(lane));
    slot->is_same_there = slot->is_newer_there = false;
    return GY_OK;
}
