/* Copies between any memory of the host and a device, in pieces through two halves of pinned
 * memory: the host fills or empties one while the device copies the other. */
#include "ops/cuda/device_priv.h"

#include <string.h>

/* Wait until nothing reads or writes the half. */
static gy_status await_half(gy_cuda_device *device, gy_cuda_half *half, gy_deadline deadline)
{
    if (half->event == NULL) {
        return GY_OK;
    }
    const gy_status status = gy_cuda_event_wait(device, half->event, deadline);
    if (status == GY_TIMEOUT) {
        return status; /* the device may still copy */
    }
    gy_cuda_event_drop(device, half->event);
    half->event = NULL;
    return status;
}

/* What was pushed on a half is over when its event has happened; without one, when the stream
 * is idle. */
static gy_status mark_half(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_half *half,
                           gy_deadline deadline)
{
    const gy_status status = gy_cuda_event_record(device, stream, &half->event);
    if (status == GY_OK) {
        return GY_OK;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_cuda_device_warn(device, gy_cuda_stream_wait(device, stream, deadline));
    return gy_error_raise(&error);
}

static gy_status upload(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_address to,
                        const char *from, size_t size_bytes, gy_deadline deadline)
{
    for (size_t at = 0, turn = 0; at < size_bytes; turn++) {
        gy_cuda_half *half = &device->halves[turn % 2];
        const size_t piece = GY_MIN(size_bytes - at, device->staging_bytes);
        GY_TRY(await_half(device, half, deadline));
        memcpy(half->memory, from + at, piece);
        GY_CUDA_DEVICE_TRY(device, copy_in, to + at, half->memory, piece, stream);
        GY_TRY(mark_half(device, stream, half, deadline));
        at += piece;
    }
    return GY_OK;
}

gy_status gy_cuda_upload(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_address to,
                         const void *from, size_t size_bytes, gy_deadline deadline)
{
    GY_ASSERT(stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    gy_mutex_lock(&device->staging_lock);
    const gy_status status = upload(device, stream, to, from, size_bytes, deadline);
    gy_mutex_unlock(&device->staging_lock);
    return status;
}

/* A piece is pushed before the one before it is taken out. */
static gy_status download(gy_cuda_device *device, gy_cuda_stream *stream, char *to,
                          gy_cuda_address from, size_t size_bytes, gy_deadline deadline)
{
    const size_t whole = device->staging_bytes;
    const size_t count = (size_bytes + whole - 1) / whole;
    for (size_t i = 0; i <= count; i++) {
        if (i < count) {
            gy_cuda_half *half = &device->halves[i % 2];
            GY_TRY(await_half(device, half, deadline));
            GY_CUDA_DEVICE_TRY(device, copy_out, half->memory, from + i * whole,
                               GY_MIN(size_bytes - i * whole, whole), stream);
            GY_TRY(mark_half(device, stream, half, deadline));
        }
        if (i > 0) {
            gy_cuda_half *half = &device->halves[(i - 1) % 2];
            GY_TRY(await_half(device, half, deadline));
            memcpy(to + (i - 1) * whole, half->memory,
                   GY_MIN(size_bytes - (i - 1) * whole, whole));
        }
    }
    return GY_OK;
}

gy_status gy_cuda_download(gy_cuda_device *device, gy_cuda_stream *stream, void *to,
                           gy_cuda_address from, size_t size_bytes, gy_deadline deadline)
{
    GY_ASSERT(stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    gy_mutex_lock(&device->staging_lock);
    const gy_status status = download(device, stream, to, from, size_bytes, deadline);
    gy_mutex_unlock(&device->staging_lock);
    return status;
}

gy_status gy_cuda_push(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_address to,
                       const void *pinned, size_t size_bytes)
{
    GY_ASSERT(stream != NULL && size_bytes > 0);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, copy_in, to, pinned, size_bytes, stream);
    return GY_OK;
}

gy_status gy_cuda_pull(gy_cuda_device *device, gy_cuda_stream *stream, void *pinned,
                       gy_cuda_address from, size_t size_bytes)
{
    GY_ASSERT(stream != NULL && size_bytes > 0);
    GY_TRY(gy_cuda_device_enter(device));
    GY_CUDA_DEVICE_TRY(device, copy_out, pinned, from, size_bytes, stream);
    return GY_OK;
}

gy_status gy_cuda_copy(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_address to,
                       gy_cuda_address from, size_t size_bytes)
{
    GY_ASSERT(to + size_bytes <= from || from + size_bytes <= to);
    GY_TRY(gy_cuda_device_enter(device));
    if (size_bytes > 0) {
        GY_CUDA_DEVICE_TRY(device, copy_within, to, from, size_bytes, stream);
    }
    return GY_OK;
}

gy_status gy_cuda_fill(gy_cuda_device *device, gy_cuda_stream *stream, gy_cuda_address to,
                       uint8_t value, size_t size_bytes)
{
    GY_ASSERT(stream != NULL);
    GY_TRY(gy_cuda_device_enter(device));
    if (size_bytes > 0) {
        GY_CUDA_DEVICE_TRY(device, memory_set, to, value, size_bytes, stream);
    }
    return GY_OK;
}
