/**
 * A device for tests: its memory cannot be touched from outside, and what it is given runs when
 * somebody asks what has ended, some of it earlier by chance. Its kernels are the CPU's.
 */
#ifndef GY_GRAPH_DEVICES_LATE_DEVICE_TEST_H
#define GY_GRAPH_DEVICES_LATE_DEVICE_TEST_H

#include "base/hash.h"
#include "ops/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gy_test.h"

enum { LATE_PIECES = 4096, LATE_ITEMS = 65536 };

typedef struct late_item {
    const gy_kernel *kernel;    /* NULL: the reference, or no kernel's */
    const gy_kernel_call *call; /* NULL: a copy, or a fill */
    void *state, *to;
    const void *from; /* NULL: a fill */
    uint8_t byte;
    size_t size_bytes;
} late_item;

typedef struct late_kernel {
    const gy_kernel *kernel;
    void *state;
} late_kernel;

typedef struct late_device {
    gy_device device;
    gy_mutex lock;
    gy_random random;
    struct {
        void *data;
        size_t size_bytes;
    } pieces[LATE_PIECES];
    int piece_count, taken;
    late_item *items; /* (LATE_ITEMS) by their number */
    uint64_t begun, ended;
    uint64_t launches, copies, fills;
    uint64_t kernels;      /* not released */
    uint64_t lost_at;      /* the item with which the device is lost; 0: never */
    uint64_t refuse, seed; /* one operator of so many has no kernel, by the seed; 0: all have */
} late_device;

static inline size_t late_pages(size_t size_bytes)
{
    return (size_bytes + 4095) / 4096 * 4096 + 4096;
}

static inline void late_open(late_device *d, bool is_open)
{
    for (int i = 0; i < d->piece_count; i++) {
        if (d->pieces[i].data != NULL) {
            assert_int_equal(mprotect(d->pieces[i].data, d->pieces[i].size_bytes,
                                      is_open ? PROT_READ | PROT_WRITE : PROT_NONE),
                             0);
        }
    }
}

static inline const gy_kernel *late_choose(const gy_kernel_query *query)
{
    for (const gy_kernel *const *kernel = gy_ops_kernels(query->op); *kernel != NULL;
         kernel++) {
        if ((*kernel)->formats == NULL && (*kernel)->accepts(query)) {
            return *kernel;
        }
    }
    return NULL;
}

static inline bool late_accepts(gy_device *device, const gy_kernel_query *query,
                                const char **why)
{
    const late_device *d = (const late_device *)(const void *)device;
    const uint64_t hash = gy_hash(query->op->name, strlen(query->op->name), d->seed);
    const bool may = (d->refuse == 0 || hash % d->refuse != 0) &&
                     (late_choose(query) != NULL || query->op->reference != NULL);
    *why = may ? "" : "no kernel";
    return may;
}

static inline size_t late_workspace(gy_device *device, const gy_kernel_query *query)
{
    (void)device;
    const gy_kernel *kernel = late_choose(query);
    return kernel != NULL && kernel->workspace_bytes != NULL ? kernel->workspace_bytes(query)
                                                             : 0;
}

static inline gy_status late_prepare(gy_device *device, const gy_kernel_call *call,
                                     const char *name, void **out)
{
    late_device *d = (late_device *)(void *)device;
    late_kernel *kernel = gy_alloc_zero("test.device", 1, sizeof(*kernel));
    const gy_kernel_query query = gy_kernel_query_of(call, 1);
    assert_non_null(kernel);
    assert_non_null(name);
    kernel->kernel = late_choose(&query);
    if (kernel->kernel != NULL && kernel->kernel->prepare != NULL) {
        assert_ok(kernel->kernel->prepare(&query, &kernel->state));
    }
    gy_mutex_lock(&d->lock);
    d->kernels++;
    gy_mutex_unlock(&d->lock);
    *out = kernel;
    return GY_OK;
}

static inline void late_release(gy_device *device, void *made)
{
    late_device *d = (late_device *)(void *)device;
    late_kernel *kernel = made;
    if (kernel->state != NULL && kernel->kernel->release != NULL) {
        kernel->kernel->release(kernel->state);
    }
    gy_free(kernel);
    gy_mutex_lock(&d->lock);
    d->kernels--;
    gy_mutex_unlock(&d->lock);
}

/* The next of what was queued. Locked. */
static inline gy_status late_run_one(late_device *d)
{
    late_item *item = &d->items[d->ended];
    gy_status status = GY_OK;
    if (d->lost_at != 0 && d->ended + 1 >= d->lost_at) {
        return gy_fail(GY_PEER, "device late is lost");
    }
    late_open(d, true);
    if (item->call == NULL && item->from == NULL) {
        memset(item->to, item->byte, item->size_bytes);
    } else if (item->call == NULL) {
        memcpy(item->to, item->from, item->size_bytes);
    } else {
        gy_kernel_call call = *item->call;
        call.state = item->state;
        call.engine = NULL;
        status = item->kernel != NULL ? item->kernel->run(&call) : call.op->reference(&call);
    }
    late_open(d, false);
    d->ended++;
    return status;
}

static inline gy_status late_run_until(late_device *d, uint64_t mark)
{
    while (d->ended < mark) {
        GY_TRY(late_run_one(d));
    }
    return GY_OK;
}

/* Now and then some of it runs at once. */
static inline gy_status late_queue(gy_device *device, late_item item, uint64_t *mark)
{
    late_device *d = (late_device *)(void *)device;
    gy_mutex_lock(&d->lock);
    assert_true(d->begun < LATE_ITEMS);
    d->items[d->begun++] = item;
    *(item.call != NULL ? &d->launches : item.from != NULL ? &d->copies : &d->fills) += 1;
    *mark = d->begun;
    const uint64_t early = gy_random_below(&d->random, 8) == 0
                               ? d->ended + gy_random_below(&d->random, d->begun - d->ended + 1)
                               : 0;
    (void)late_run_until(d, early);
    gy_mutex_unlock(&d->lock);
    return GY_OK;
}

static inline gy_status late_launch(gy_device *device, void *made, const gy_kernel_call *call)
{
    const late_kernel *kernel = made;
    uint64_t mark;
    return late_queue(
        device, (late_item){.kernel = kernel->kernel, .state = kernel->state, .call = call},
        &mark);
}

static inline gy_status late_copy(gy_device *device, void *to, const void *from,
                                  size_t size_bytes, uint64_t *mark)
{
    return late_queue(device, (late_item){.to = to, .from = from, .size_bytes = size_bytes},
                      mark);
}

static inline gy_status late_copy_inside(gy_device *device, void *to, const void *from,
                                         size_t size_bytes)
{
    uint64_t mark;
    return late_copy(device, to, from, size_bytes, &mark);
}

static inline gy_status late_fill(gy_device *device, void *to, uint8_t byte, size_t size_bytes)
{
    uint64_t mark;
    return late_queue(device, (late_item){.to = to, .byte = byte, .size_bytes = size_bytes},
                      &mark);
}

static inline gy_status late_take(gy_device *device, size_t size_bytes, void **address)
{
    late_device *d = (late_device *)(void *)device;
    const size_t pages = late_pages(size_bytes);
    gy_mutex_lock(&d->lock);
    assert_true(d->piece_count < LATE_PIECES);
    void *data = mmap(NULL, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(data, MAP_FAILED);
    d->pieces[d->piece_count].data = data;
    d->pieces[d->piece_count++].size_bytes = pages;
    d->taken++;
    gy_mutex_unlock(&d->lock);
    *address = data;
    return GY_OK;
}

static inline void late_give(gy_device *device, void *address)
{
    late_device *d = (late_device *)(void *)device;
    gy_mutex_lock(&d->lock);
    (void)late_run_until(d, d->begun);
    for (int i = 0; i < d->piece_count; i++) {
        if (d->pieces[i].data == address) {
            assert_int_equal(munmap(address, d->pieces[i].size_bytes), 0);
            d->pieces[i].data = NULL;
            d->taken--;
        }
    }
    gy_mutex_unlock(&d->lock);
}

static inline gy_status late_poll(gy_device *device, uint64_t mark)
{
    late_device *d = (late_device *)(void *)device;
    gy_mutex_lock(&d->lock);
    const bool waits = d->ended < mark && gy_random_below(&d->random, 3) != 0;
    gy_status status = waits ? GY_AGAIN : late_run_until(d, mark);
    gy_mutex_unlock(&d->lock);
    return status;
}

static inline gy_status late_finish(gy_device *device, gy_deadline deadline)
{
    late_device *d = (late_device *)(void *)device;
    (void)deadline;
    gy_mutex_lock(&d->lock);
    gy_status status = late_run_until(d, d->begun);
    gy_mutex_unlock(&d->lock);
    return status;
}

static inline void late_begin(late_device *d, uint64_t seed)
{
    static const gy_device_ops ops = {.accepts = late_accepts,
                                      .workspace_bytes = late_workspace,
                                      .prepare = late_prepare,
                                      .release = late_release,
                                      .launch = late_launch,
                                      .take = late_take,
                                      .give = late_give,
                                      .copy_there = late_copy,
                                      .copy_back = late_copy,
                                      .copy_inside = late_copy_inside,
                                      .fill = late_fill,
                                      .poll = late_poll,
                                      .finish = late_finish};
    *d = (late_device){.device = {.ops = &ops, .name = "late"}, .random = {.key = seed}};
    d->items = gy_alloc_zero("test.device", LATE_ITEMS, sizeof(*d->items));
    assert_non_null(d->items);
    gy_mutex_init(&d->lock, 20);
}

/* All that was taken and made was given back. */
static inline void late_end(late_device *d)
{
    assert_int_equal(d->taken, 0);
    assert_int_equal(d->kernels, 0);
    gy_mutex_fini(&d->lock);
    gy_free(d->items);
}

/** One whose rates, and operators without a kernel, are drawn. */
static inline void late_imagine(gy_random *random, late_device *device)
{
    static const double launches[] = {1e-9, 1e-7, 1e-6}, copies[] = {1e-9, 1e-7, 3e-6};
    late_begin(device, gy_random_below(random, 1000));
    device->seed = gy_random_below(random, 1000);
    device->refuse = gy_random_below(random, 4) * 3;
    device->device.rates = (gy_device_rates){.bytes_s = 50e9,
                                             .launch_s = launches[gy_random_below(random, 3)],
                                             .copy_s = copies[gy_random_below(random, 3)],
                                             .copy_bytes_s = 10e9,
                                             .host_flops_s = 1e8,
                                             .host_bytes_s = 1e8};
    device->device.rates.flops_s[GY_F32] = 1e10;
}

#endif
