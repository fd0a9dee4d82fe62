/**
 * A rank's device: its context, its pool of memory, streams and events, copies through pinned
 * memory, kernels.
 *
 * Work is pushed to streams and runs later, in each stream in the order pushed; streams are
 * ordered by events alone. No call waits for what the device computes but those that take a
 * deadline.
 *
 * Failures name the function of the driver and the device. Once a device is lost (a kernel that
 * touched foreign memory, a device that fell off the bus) every call fails with GY_PEER, at
 * once and with the first reason; what was made is given back all the same. What gives
 * something back cannot fail; what the driver says against it is a warning.
 */
#ifndef GY_OPS_CUDA_DEVICE_H
#define GY_OPS_CUDA_DEVICE_H

#include "ops/cuda/devices.h"

typedef struct gy_cuda_device gy_cuda_device;

/**
 * Open device `index`, as the driver counts them, for this process.
 *
 * @param staging_bytes  of each of the two pinned halves that copies go through; 0: 4 MiB
 * @param device         caller owns it: gy_cuda_device_close
 * @return GY_OK; GY_NOTFOUND no such device; GY_NOMEM; failures of gy_cuda_driver_get and of
 * the driver
 * @threads any @cost 0.1 to 1 s, and some 300 MiB of device memory for the context
 */
GY_MUST_CHECK gy_status gy_cuda_device_open(int index, size_t staging_bytes,
                                            gy_cuda_device **device);
/** Whatever was made of the device must have been given back. NULL is fine. */
void gy_cuda_device_close(gy_cuda_device *device);
/** Of the open device; valid as long as it. @threads any */
const gy_cuda_properties *gy_cuda_device_properties(const gy_cuda_device *device);

/* ---- memory ---- */

/**
 * Memory of the device, in the order of `stream`: other streams use it behind an event of that
 * stream. What is freed stays with the device's pool, for later calls.
 *
 * @param address  aligned to 256 bytes; give back with gy_cuda_memory_free
 * @return GY_OK; GY_NOMEM: says what was asked, what is free and what would fit; GY_PEER
 * @threads any @cost 1 us from the pool
 */
GY_MUST_CHECK gy_status gy_cuda_memory_alloc(gy_cuda_device *device, gy_cuda_stream *stream,
                                             size_t size_bytes, gy_cuda_address *address);
/** Behind all work of `stream`; work of other streams on it must stand before. 0 is fine. */
void gy_cuda_memory_free(gy_cuda_device *device, gy_cuda_stream *stream,
                         gy_cuda_address address);

typedef struct gy_cuda_memory {
    size_t total_bytes;
    size_t free_bytes; /* of no process */
    size_t pool_bytes; /* this process's pool holds and does not use */
} gy_cuda_memory;

/** What a device has free. @threads any @cost some 10 us */
GY_MUST_CHECK gy_status gy_cuda_memory_read(gy_cuda_device *device, gy_cuda_memory *memory);

/** Memory of the host that the device copies from and to by itself. @cost 1 ms for each 4 MiB
 */
GY_MUST_CHECK gy_status gy_cuda_pinned_alloc(gy_cuda_device *device, size_t size_bytes,
                                             void **memory);
void gy_cuda_pinned_free(gy_cuda_device *device, void *memory);

/* ---- order ---- */

/** @return GY_OK; GY_PEER; GY_STATE @threads any */
GY_MUST_CHECK gy_status gy_cuda_stream_open(gy_cuda_device *device, gy_cuda_stream **stream);
/** Waits for its work, 10 s at most. NULL is fine. */
void gy_cuda_stream_close(gy_cuda_device *device, gy_cuda_stream *stream);
/** Wait for all its work. @return GY_OK; GY_TIMEOUT names the device; GY_PEER */
GY_MUST_CHECK gy_status gy_cuda_stream_wait(gy_cuda_device *device, gy_cuda_stream *stream,
                                            gy_deadline deadline);

/** An event behind all work of `stream` so far; give back with gy_cuda_event_drop. Events are
 * kept and used again. @threads any @cost 1 us */
GY_MUST_CHECK gy_status gy_cuda_event_record(gy_cuda_device *device, gy_cuda_stream *stream,
                                             gy_cuda_event **event);
/** NULL is fine. */
void gy_cuda_event_drop(gy_cuda_device *device, gy_cuda_event *event);
/** GY_OK it has happened; GY_AGAIN it has not; GY_PEER; GY_STATE. Never waits. @threads any */
GY_MUST_CHECK gy_status gy_cuda_event_poll(gy_cuda_device *device, gy_cuda_event *event);
/** @return GY_OK; GY_TIMEOUT names the device; GY_PEER */
GY_MUST_CHECK gy_status gy_cuda_event_wait(gy_cuda_device *device, gy_cuda_event *event,
                                           gy_deadline deadline);
/** Later work of `stream` runs after the event, which may be of another stream. */
GY_MUST_CHECK gy_status gy_cuda_stream_after(gy_cuda_device *device, gy_cuda_stream *stream,
                                             gy_cuda_event *event);

/* ---- copies ---- */

/**
 * Copy from any memory of the host, which is free when the call returns, in pieces through
 * pinned memory. Waits until a half of it is free.
 * @return GY_OK; GY_TIMEOUT; GY_PEER; of what was pushed before a failure nothing is taken back
 * @threads any, one at a time
 * @cost a copy of the host, at PCIe's rate beside it
 */
GY_MUST_CHECK gy_status gy_cuda_upload(gy_cuda_device *device, gy_cuda_stream *stream,
                                       gy_cuda_address to, const void *from, size_t size_bytes,
                                       gy_deadline deadline);
/** The other way; the bytes are there when it returns. */
GY_MUST_CHECK gy_status gy_cuda_download(gy_cuda_device *device, gy_cuda_stream *stream,
                                         void *to, gy_cuda_address from, size_t size_bytes,
                                         gy_deadline deadline);
/**
 * Copy from and to pinned memory, which is left alone until the copy has ended: an event that
 * is recorded behind it says so.
 */
GY_MUST_CHECK gy_status gy_cuda_push(gy_cuda_device *device, gy_cuda_stream *stream,
                                     gy_cuda_address to, const void *pinned, size_t size_bytes);
GY_MUST_CHECK gy_status gy_cuda_pull(gy_cuda_device *device, gy_cuda_stream *stream,
                                     void *pinned, gy_cuda_address from, size_t size_bytes);
/** From memory of the device to memory of the device, which do not overlap. */
GY_MUST_CHECK gy_status gy_cuda_copy(gy_cuda_device *device, gy_cuda_stream *stream,
                                     gy_cuda_address to, gy_cuda_address from,
                                     size_t size_bytes);
GY_MUST_CHECK gy_status gy_cuda_fill(gy_cuda_device *device, gy_cuda_stream *stream,
                                     gy_cuda_address to, uint8_t value, size_t size_bytes);

/* ---- graphs ---- */

/**
 * What this thread pushes to the stream from now on does not run: kernels, products and copies
 * within the device become a graph. Until the capture is ended the thread calls nothing else,
 * and no other thread uses the stream.
 * @return GY_OK; GY_PEER; GY_STATE
 */
GY_MUST_CHECK gy_status gy_cuda_capture_begin(gy_cuda_device *device, gy_cuda_stream *stream);
/**
 * End it, well or not.
 * @param graph  of what was pushed, which has not run; caller owns it: gy_cuda_graph_free
 * @return GY_OK; GY_NOMEM; GY_UNSUPPORTED something cannot be captured; GY_PEER; GY_STATE
 * @cost some 10 us a node
 */
GY_MUST_CHECK gy_status gy_cuda_capture_end(gy_cuda_device *device, gy_cuda_stream *stream,
                                            gy_cuda_graph_exec **graph);
/** End it; what was pushed is forgotten. */
void gy_cuda_capture_cancel(gy_cuda_device *device, gy_cuda_stream *stream);
/** Its work, behind all of `stream` so far. Its memory is what it was. @cost 10 us */
GY_MUST_CHECK gy_status gy_cuda_graph_launch(gy_cuda_device *device, gy_cuda_stream *stream,
                                             gy_cuda_graph_exec *graph);
/** A launch that has not ended ends well all the same. NULL is fine. */
void gy_cuda_graph_free(gy_cuda_device *device, gy_cuda_graph_exec *graph);

/* ---- kernels ---- */

/**
 * Load an image that gy_cuda_compile made for this device.
 * @param name  of what it is, for failures
 * @return GY_OK; GY_STATE the driver refuses the image: why; GY_UNSUPPORTED it is for other
 * devices
 */
GY_MUST_CHECK gy_status gy_cuda_module_open(gy_cuda_device *device, const gy_text *image,
                                            const char *name, gy_cuda_module **module);
/** No work of its kernels may be left. NULL is fine. */
void gy_cuda_module_close(gy_cuda_device *device, gy_cuda_module *module);
/** A kernel of the module; lives as long as it. GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_cuda_module_kernel(gy_cuda_device *device, gy_cuda_module *module,
                                              const char *name, gy_cuda_function **kernel);

/** How a kernel is launched: blocks of threads, in one dimension. */
typedef struct gy_cuda_grid {
    unsigned blocks, threads; /* >= 1 */
} gy_cuda_grid;

/** Launch a kernel with one parameter, a struct of which `words` is copied. @cost 3 us */
GY_MUST_CHECK gy_status gy_cuda_launch_kernel(gy_cuda_device *device, gy_cuda_stream *stream,
                                              gy_cuda_function *kernel, gy_cuda_grid grid,
                                              void *words);

#endif
