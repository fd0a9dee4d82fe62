/**
 * What the two halves of an executor share: its queue (executor.c) and its kernels (kernel.c).
 */
#ifndef GY_OPS_CUDA_EXECUTOR_PRIV_H
#define GY_OPS_CUDA_EXECUTOR_PRIV_H

#include "ops/cuda/device.h"
#include "ops/cuda/executor.h"
#include "ops/cuda/plan.h"

enum { GY_CUDA_FAULTS_MAX = 512 };

typedef struct gy_cuda_kernel gy_cuda_kernel;

/** What the host waits for: a copy, or a reading of the faults. */
typedef struct gy_cuda_pending {
    struct gy_cuda_pending *next;
    gy_cuda_event *event;
    uint64_t mark;
    struct gy_cuda_pinned *buffer; /* NULL: there is none */
    void *to;                      /* the host's end of a copy back; else NULL */
    size_t size_bytes;
    bool has_faults; /* the buffer holds the device's faults */
} gy_cuda_pending;

/** Pinned memory, kept for the next copies. */
typedef struct gy_cuda_pinned {
    struct gy_cuda_pinned *next;
    void *memory;
    size_t size_bytes;
} gy_cuda_pinned;

/** A text that was compiled, by its content. */
typedef struct gy_cuda_compiled {
    uint64_t key[2];
    gy_cuda_module *module;
} gy_cuda_compiled;

typedef struct gy_cuda_executor {
    gy_device base; /* first */
    gy_cuda_device *device;
    gy_cuda_stream *stream;
    gy_cuda_products *products; /* NULL: no cuBLASLt */
    bool may_round;             /* float32 operands of products to TF32 */
    size_t columns_bytes;       /* gy_cuda_plan_options */
    char name[192];
    gy_mutex cache_lock;        /* taken before `lock` */
    gy_cuda_images images;      /* GUARDED(cache_lock) */
    gy_cuda_compiled *compiled; /* GUARDED(cache_lock) */
    size_t compiled_count, compiled_capacity;
    gy_mutex lock; /* GUARDED(lock), as all that follows */
    gy_cuda_pending *first, *last, *spare_pending;
    gy_cuda_pinned *spare_pinned;
    uint64_t mark, done;
    gy_cuda_address
        faults; /* (GY_CUDA_FAULTS_MAX) a word for each kernel that checks integers */
    gy_cuda_kernel *checking[GY_CUDA_FAULTS_MAX];
    bool may_have_faults; /* one was launched since they were read */
    gy_error failure;     /* stays */
} gy_cuda_executor;

static inline gy_cuda_executor *gy_cuda_executor_of(gy_device *device)
{
    return (gy_cuda_executor *)(void *)device;
}

/* kernel.c: the entries of gy_device_ops. */
bool gy_cuda_kernel_accepts(gy_device *device, const gy_kernel_query *query, const char **why);
size_t gy_cuda_kernel_workspace(gy_device *device, const gy_kernel_query *query);
GY_MUST_CHECK gy_status gy_cuda_kernel_prepare(gy_device *device, const gy_kernel_call *call,
                                               const char *name, void **kernel);
void gy_cuda_kernel_release(gy_device *device, void *made);
GY_MUST_CHECK gy_status gy_cuda_kernel_launch(gy_device *device, void *kernel,
                                              const gy_kernel_call *call);
/** The failure of a kernel that has met an integer outside its range: names node and place. */
GY_MUST_CHECK gy_status gy_cuda_kernel_fault(gy_cuda_executor *executor,
                                             const gy_cuda_kernel *kernel, uint64_t place);

#endif
