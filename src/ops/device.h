/**
 * A rank's device: a second memory, and kernels that run there one behind another. What fills
 * the table in stands in ops/cuda, behind gy_device_open; a graph that uses it knows no driver.
 */
#ifndef GY_OPS_DEVICE_H
#define GY_OPS_DEVICE_H

#include "ops/ops.h"

#include <gyre/info.h>

typedef struct gy_device gy_device;

/** What a choice of nodes for a device reckons with. */
typedef struct gy_device_rates {
    double flops_s[GY_DTYPE_COUNT];    /* by the type of a node's first input; 0: as F32 */
    double bytes_s;                    /* of its memory */
    double launch_s;                   /* of each kernel */
    double copy_s, copy_bytes_s;       /* of each copy between the CPU's memory and its */
    double host_flops_s, host_bytes_s; /* of the CPU */
    uint64_t memory_bytes;             /* for values; 0: no limit */
} gy_device_rates;

/** A kernel's launch; or without a kernel a copy of inputs[1] over inputs[0], both there. */
typedef struct gy_device_work {
    void *kernel;
    const gy_kernel_call *call;
    const char *name; /* of the node, for messages */
} gy_device_work;

/**
 * Launches and copies act as if each began when all before it had ended. They return when they
 * are queued; a failure of the device itself is told by a later call. Calls from several
 * threads are in the order in which they are made.
 */
typedef struct gy_device_ops {
    /** Has it a kernel? Else `why` gets a static text. Pure. */
    bool (*accepts)(gy_device *device, const gy_kernel_query *query, const char **why);
    /** What that kernel wants of the device's memory beside inputs and outputs. */
    size_t (*workspace_bytes)(gy_device *device, const gy_kernel_query *query);
    /**
     * Make the kernel of a call whose data lies there. `name` is the node's, for messages.
     * GY_FORMAT it does not compile; GY_NOMEM; failures of the device.
     */
    gy_status (*prepare)(gy_device *device, const gy_kernel_call *call, const char *name,
                         void **kernel);
    void (*release)(gy_device *device, void *kernel);
    /** Queue it: data and workspace of `call` are addresses there. */
    gy_status (*launch)(gy_device *device, void *kernel, const gy_kernel_call *call);
    /** Optional: queue them all, in their order. The same again may cost less. A failure names
     * its node. */
    gy_status (*launch_all)(gy_device *device, const gy_device_work *work, int count);
    /** Memory there, aligned to 256 bytes. GY_NOMEM says what was asked, what is free. */
    gy_status (*take)(gy_device *device, size_t size_bytes, void **address);
    /** What was queued before may still use it. */
    void (*give)(gy_device *device, void *address);
    /** Queue a copy. The CPU's side is neither written nor freed until it has ended; `mark`
     * numbers it. */
    gy_status (*copy_there)(gy_device *device, void *to, const void *from, size_t size_bytes,
                            uint64_t *mark);
    gy_status (*copy_back)(gy_device *device, void *to, const void *from, size_t size_bytes,
                           uint64_t *mark);
    /** Queue a copy within its memory; the two do not overlap. */
    gy_status (*copy_inside)(gy_device *device, void *to, const void *from, size_t size_bytes);
    /** Optional: queue that each byte becomes this one. What needs it else copies. */
    gy_status (*fill)(gy_device *device, void *to, uint8_t byte, size_t size_bytes);
    /** Has a copy ended, with all before it that go the same way? GY_AGAIN: not yet. A failure
     * of what was queued (an index outside its range names its node), which stays. */
    gy_status (*poll)(gy_device *device, uint64_t mark);
    /** Has all that was queued ended well? Waits for it, at most until the deadline. */
    gy_status (*finish)(gy_device *device, gy_deadline deadline);
    /** Optional: what it has done so far. */
    void (*count)(gy_device *device, gy_device_counts *counts);
} gy_device_ops;

struct gy_device {
    const gy_device_ops *ops;
    const char *name;
    gy_device_rates rates;
};

/** Which device a process takes, in the words of users. Zero: GYRE_DEVICE says which. */
typedef struct gy_device_choice {
    int number;        /* 1 and its number as the driver counts from 0; 0: `names` says which;
                          below: none */
    const char *names; /* "none"; "auto"; a number, or several with commas between; NULL: the
                          value of GYRE_DEVICE, in the same words, else none */
    int rank, ranks;   /* of this process among those of its host that choose so; 0 ranks: it is
                          alone */
} gy_device_choice;

/**
 * Open the device of a process. Of several numbers the process of rank r takes the r-th, from
 * the first again behind the last; auto: of all that the driver shows, and none where it shows
 * none or is missing. Processes of one host that take the same device have equal parts of what
 * is free of its memory. Opens no library unless a device is asked for.
 *
 * @param device  caller owns it: gy_device_close; NULL: none
 * @return GY_OK; GY_ARG neither of these words; GY_NOTFOUND no such device, driver or library;
 * GY_UNSUPPORTED they do not fit each other; GY_NOMEM; GY_PEER, GY_STATE of the driver
 * @threads any
 */
GY_MUST_CHECK gy_status gy_device_open(const gy_device_choice *choice, gy_device **device);
/** Waits for what is queued; nothing that was made of it is left. NULL is fine. */
void gy_device_close(gy_device *device);

/**
 * The choice alone, of a machine that shows `shown` devices. Pure.
 *
 * @param index   of the device; -1: none
 * @param sharers how many of choice->ranks take it, 1 at least
 * @return GY_OK; GY_ARG
 */
GY_MUST_CHECK gy_status gy_device_choose(const gy_device_choice *choice, int shown, int *index,
                                         int *sharers);

#endif
