/**
 * For tests of an executor's queues: memory of a device as vectors, and a kernel that doubles
 * one.
 */
#ifndef GY_TESTS_CUDA_ORDER_KIT_H
#define GY_TESTS_CUDA_ORDER_KIT_H

#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"

enum { COUNT = 300, BYTES = COUNT * (int)sizeof(float) };

/* to = 2 from, of COUNT elements. */
typedef struct twice {
    gy_kernel_call call;
    gy_view from[2], to;
    gy_attributes attributes;
    void *kernel;
} twice;

static inline gy_view view_of(void *data)
{
    return gy_view_of(data, GY_F32, (int64_t[]){COUNT}, 1);
}

static inline void twice_bind(twice *made, void *to, void *from)
{
    made->from[0] = made->from[1] = view_of(from);
    made->to = view_of(to);
}

static inline void twice_new(gy_device *device, void *to, void *from, twice *made)
{
    *made = (twice){.kernel = NULL};
    twice_bind(made, to, from);
    made->call = (gy_kernel_call){.op = &gy_ops_row_add,
                                  .attributes = &made->attributes,
                                  .inputs = made->from,
                                  .input_count = 2,
                                  .outputs = &made->to,
                                  .output_count = 1};
    assert_ok(device->ops->prepare(device, &made->call, "twice", &made->kernel));
}

#endif
