/**
 * What the parts of an executor share: its queues (executor.c), the order of what they hold
 * (order.c) and its kernels (kernel.c).
 */
#ifndef GY_OPS_CUDA_EXECUTOR_PRIV_H
#define GY_OPS_CUDA_EXECUTOR_PRIV_H

#include "ops/cuda/device.h"
#include "ops/cuda/executor.h"
#include "ops/cuda/plan/plan.h"
#include "ops/cuda/product.h"

enum { GY_CUDA_FAULTS_MAX = 512, GY_CUDA_SEGMENTS_MAX = 64 /* bits of a word */ };

typedef struct gy_cuda_kernel gy_cuda_kernel;

/** Each has a stream of its own: copies run beside kernels that do not touch their memory. */
typedef enum gy_cuda_queue_kind {
    GY_CUDA_KERNELS, /* and copies within the device's memory */
    GY_CUDA_THERE,
    GY_CUDA_BACK,
    GY_CUDA_QUEUES
} gy_cuda_queue_kind;

/** What the host waits for: a copy, or a reading of the faults. */
typedef struct gy_cuda_pending {
    struct gy_cuda_pending *next;
    gy_cuda_event *event;
    uint64_t mark, tick;           /* of its queue */
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

/** A stream, and what the host waits for there, in its order. */
typedef struct gy_cuda_queue {
    gy_cuda_stream *stream;
    gy_cuda_pending *first, *last;
    uint64_t mark, done;             /* of the last that is waited for, and that has ended */
    uint64_t tick;                   /* pieces of work that were pushed */
    uint64_t ended;                  /* the host has seen that those up to this tick have */
    uint64_t behind[GY_CUDA_QUEUES]; /* those of each other queue that run before all that is
                                        pushed from now on */
} gy_cuda_queue;

/** Memory that was taken, and the tick of the last work of each queue that touches it; 0: none.
 */
typedef struct gy_cuda_block {
    gy_cuda_address address;
    size_t size_bytes;
    uint64_t written[GY_CUDA_QUEUES], read[GY_CUDA_QUEUES];
} gy_cuda_block;

/** An address that a piece of work reads or writes from. 0: none. */
typedef struct gy_cuda_access {
    gy_cuda_address address;
    bool writes;
} gy_cuda_access;

/** What was launched together, by its content. */
typedef struct gy_cuda_segment {
    uint64_t key[2];
    uint64_t used;             /* when last; 0: never, it is free */
    gy_cuda_graph_exec *graph; /* NULL: it came but once, or is refused */
    gy_cuda_kernel **kernels;  /* (kernel_count) of the graph */
    int kernel_count;
    uint64_t launch_count;
    bool is_refused; /* it cannot be captured */
} gy_cuda_segment;

typedef struct gy_cuda_executor {
    gy_device base; /* first */
    gy_cuda_device *device;
    gy_cuda_stream *stream;     /* of the queue of kernels */
    gy_cuda_products *products; /* NULL: no cuBLASLt */
    bool may_round;             /* float32 operands of products to TF32 */
    size_t columns_bytes;       /* gy_cuda_plan_options, as the next two */
    size_t launch_bytes;
    bool joins_images;
    char name[192];
    gy_mutex cache_lock;        /* taken before `lock` */
    gy_cuda_images images;      /* GUARDED(cache_lock) */
    gy_cuda_compiled *compiled; /* GUARDED(cache_lock) */
    size_t compiled_count, compiled_capacity;
    gy_mutex lock; /* GUARDED(lock), as all that follows */
    gy_cuda_queue queues[GY_CUDA_QUEUES];
    gy_cuda_block *blocks; /* ascending */
    size_t block_count, block_capacity;
    gy_cuda_pending *spare_pending;
    gy_cuda_pinned *spare_pinned;
    gy_cuda_address
        faults; /* (GY_CUDA_FAULTS_MAX) a word for each kernel that checks integers */
    gy_cuda_kernel *checking[GY_CUDA_FAULTS_MAX];
    bool may_have_faults; /* one was launched since they were read */
    bool has_no_graphs;
    gy_cuda_segment segments[GY_CUDA_SEGMENTS_MAX];
    uint64_t segment_uses;
    uint64_t kernel_ids; /* given so far */
    gy_device_counts counts;
    gy_error failure; /* stays */
} gy_cuda_executor;

static inline gy_cuda_executor *gy_cuda_executor_of(gy_device *device)
{
    return (gy_cuda_executor *)(void *)device;
}

/*
 * order.c: what is pushed acts as if it began when all before it had ended. Work of another
 * queue is waited for where it touches memory of the same take and one of the two
 * writes; all locked.
 */
/** Memory that work may touch. The allocation is work of the queue of kernels. */
GY_MUST_CHECK gy_status gy_cuda_order_add(gy_cuda_executor *executor, gy_cuda_address address,
                                          size_t size_bytes);
/** No later work touches it. */
void gy_cuda_order_remove(gy_cuda_executor *executor, gy_cuda_address address);
/**
 * Before a piece of work is pushed: have its queue wait for the work of others that it must
 * follow, and note what it touches.
 * @return GY_OK; failures of the device: then it must not be pushed
 */
GY_MUST_CHECK gy_status gy_cuda_order_push(gy_cuda_executor *executor, gy_cuda_queue_kind queue,
                                           const gy_cuda_access *accesses, int count);

/* kernel.c: the entries of gy_device_ops. */
bool gy_cuda_kernel_accepts(gy_device *device, const gy_kernel_query *query, const char **why);
size_t gy_cuda_kernel_workspace(gy_device *device, const gy_kernel_query *query);
GY_MUST_CHECK gy_status gy_cuda_kernel_prepare(gy_device *device, const gy_kernel_call *call,
                                               const char *name, void **kernel);
void gy_cuda_kernel_release(gy_device *device, void *made);
GY_MUST_CHECK gy_status gy_cuda_kernel_launch(gy_device *device, void *kernel,
                                              const gy_kernel_call *call);
/* Its parts, all locked: wait for what it must follow; launch it; make of `key` that of what
 * came before and of this launch. */
GY_MUST_CHECK gy_status gy_cuda_kernel_order(gy_cuda_executor *executor, gy_cuda_kernel *kernel,
                                             const gy_kernel_call *call);
GY_MUST_CHECK gy_status gy_cuda_kernel_issue(gy_cuda_executor *executor,
                                             const gy_cuda_kernel *kernel,
                                             const gy_kernel_call *call);
void gy_cuda_kernel_key(const gy_cuda_kernel *kernel, const gy_kernel_call *call,
                        uint64_t key[2]);
/** A bit for each segment whose graph has it. */
uint64_t *gy_cuda_kernel_graphs(gy_cuda_kernel *kernel);

/* order.c: an entry of gy_device_ops. */
GY_MUST_CHECK gy_status gy_cuda_segment_launch(gy_device *device, const gy_device_work *work,
                                               int count);
/** Free the graphs whose bits are set. Locked. */
void gy_cuda_segments_forget(gy_cuda_executor *executor, uint64_t graphs);

/** The failure of a kernel that has met an integer outside its range: names node and place. */
GY_MUST_CHECK gy_status gy_cuda_kernel_fault(gy_cuda_executor *executor,
                                             const gy_cuda_kernel *kernel, uint64_t place);

#endif
