/* The stand-in's libcuda.so.1: its functions have our names and the driver's symbols. */
#include "standin/standin_priv.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const gy_cuda_symbols standin_symbol = {
#define GY_X(member, symbol, parameters) .member = symbol,
#include "ops/cuda/driver.def"
#undef GY_X
};

enum { CALLS_MAX = 128, HOST_BLOCKS_MAX = 2048, TEXT_BYTES = 512 };

typedef struct call {
    const char *symbol;
    int count, fails_at, fails_to, code;
} call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static call calls[CALLS_MAX];
static int complaint_count, live_count;
static char first_complaint[TEXT_BYTES];
static bool is_initialised, has_begun;

static gy_cuda_context contexts[STANDIN_DEVICES_MAX];
static struct {
    char *memory;
    size_t size_bytes;
} host_blocks[HOST_BLOCKS_MAX];
static size_t reserved_bytes, kept_bytes;
static _Thread_local gy_cuda_context *current;

/* ---- calls and complaints ---- */

void standin_complain(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "stand-in: %s (GYRE_TEST_CUDA_SEED=%llu)\n", text,
            (unsigned long long)standin_order_seed());
    if (complaint_count++ == 0) {
        memcpy(first_complaint, text, sizeof(text));
    }
}

void standin_count_live(int change)
{
    live_count += change;
}

static call *find_call(const char *symbol)
{
    int i = 0;
    while (calls[i].symbol != NULL && strcmp(calls[i].symbol, symbol) != 0) {
        i++;
    }
    STANDIN_EXPECT(i < CALLS_MAX - 1);
    calls[i].symbol = symbol;
    return &calls[i];
}

/* The environment's failure: SYMBOL:N:CODE, or SYMBOL:N-M:CODE. */
static void read_failure(void)
{
    static char symbol[64];
    const char *text = getenv("GYRE_TEST_CUDA_FAIL");
    const char *n = text != NULL ? strchr(text, ':') : NULL;
    const char *code = n != NULL ? strchr(n + 1, ':') : NULL;
    if (code != NULL) {
        snprintf(symbol, sizeof(symbol), "%.*s", (int)(n - text), text);
        call *of = find_call(symbol);
        char *rest = NULL;
        of->fails_at = of->fails_to = (int)strtol(n + 1, &rest, 10);
        of->fails_to = *rest == '-' ? (int)strtol(rest + 1, NULL, 10) : of->fails_to;
        of->code = (int)strtol(code + 1, NULL, 10);
    }
}

int standin_enter(const char *symbol)
{
    pthread_mutex_lock(&lock);
    if (!has_begun) {
        has_begun = true;
        standin_order_reset((uint64_t)standin_number("GYRE_TEST_CUDA_SEED", 20260101));
        read_failure();
    }
    standin_run((int)standin_random(3));
    call *of = find_call(symbol);
    of->count++;
    const bool fails = of->count >= of->fails_at && of->count <= of->fails_to;
    if (fails && of->code < 0) {
        (void)raise(-of->code);
    }
    return fails ? of->code : 0;
}

static void lose_all(void)
{
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++) {
        contexts[i].is_lost = contexts[i].holders > 0;
    }
    standin_order_drop();
}

/* Codes after which a context is lost. */
static bool is_lost(int code)
{
    return code == GY_CUDA_DEVICE_UNAVAILABLE || code == GY_CUDA_ILLEGAL_ADDRESS ||
           code == GY_CUDA_LAUNCH_TIMEOUT || code == GY_CUDA_UNKNOWN ||
           (code >= GY_CUDA_CONTEXT_DESTROYED && code <= GY_CUDA_LAUNCH_FAILED);
}

int standin_leave(int code)
{
    if (is_lost(code)) {
        lose_all();
    }
    if (code != 0 && code != GY_CUDA_NOT_READY) {
        standin_capture_failed();
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* The same for what works in the context of a device. */
int standin_enter_context(const char *symbol)
{
    const int code = standin_enter(symbol);
    if (code != 0) {
        return code;
    }
    standin_capture_check(symbol);
    if (current == NULL || current->holders == 0) {
        standin_complain("%s: no context is current", symbol);
        return GY_CUDA_INVALID_CONTEXT;
    }
    return current->is_lost ? GY_CUDA_LAUNCH_FAILED : 0;
}

int standin_refuse(const char *symbol, const char *what)
{
    standin_complain("%s: %s", symbol, what);
    return GY_CUDA_INVALID_VALUE;
}

/* ---- the driver and its devices ---- */

static int init(unsigned flags)
{
    if (flags != 0) {
        return standin_refuse("cuInit", "unknown flags");
    }
    is_initialised = true;
    return standin_number("GYRE_TEST_CUDA_DEVICES", 1) > 0 ? 0 : GY_CUDA_NO_DEVICE;
}

static int initialised(const char *symbol)
{
    const int code = standin_enter(symbol);
    return code != 0 ? code : is_initialised ? 0 : GY_CUDA_NOT_INITIALIZED;
}

static int give(int *to, int value)
{
    *to = value;
    return 0;
}

static int expect_device(int device)
{
    return device >= 0 && device < standin_number("GYRE_TEST_CUDA_DEVICES", 1)
               ? 0
               : GY_CUDA_INVALID_DEVICE;
}

static int device_name(char *name, int size_bytes, int device)
{
    snprintf(name, (size_t)size_bytes, "Stand-in %d", device);
    return expect_device(device);
}

static int attribute(int *value, int which, int device)
{
    const int capability = (int)standin_number("GYRE_TEST_CUDA_CAPABILITY", 80);
    const int known[][2] = {
        {GY_CUDA_DEVICE_CAPABILITY_MAJOR, capability / 10},
        {GY_CUDA_DEVICE_CAPABILITY_MINOR, capability % 10},
        {GY_CUDA_DEVICE_CLOCK_KHZ, 1000000},
        {GY_CUDA_DEVICE_MULTIPROCESSORS,
         (int)standin_number("GYRE_TEST_CUDA_MULTIPROCESSORS", 2)},
        {GY_CUDA_DEVICE_SHARED_BYTES_MAX, 48 << 10},
        {GY_CUDA_DEVICE_MEMORY_CLOCK_KHZ, 1000000},
        {GY_CUDA_DEVICE_MEMORY_BUS_BITS, 256},
        {GY_CUDA_DEVICE_HAS_POOLS, (int)standin_number("GYRE_TEST_CUDA_POOLS", 1)},
    };
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        if (known[i][0] == which) {
            return give(value, known[i][1] + 0 * expect_device(device));
        }
    }
    return standin_refuse("cuDeviceGetAttribute", "unknown attribute");
}

static int device_memory(size_t *size_bytes, int device)
{
    *size_bytes = standin_memory_total();
    return expect_device(device);
}

static int device_pool(gy_cuda_pool **pool, int device)
{
    *pool = (gy_cuda_pool *)&reserved_bytes; /* its address is a handle */
    return expect_device(device);
}

static const char *const texts[][3] = {
    {"1", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {"2", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {"3", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {"100", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {"101", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {"200", "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {"201", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {"400", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {"500", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {"719", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {"900", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted while capturing"},
    {"901", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "a call failed while capturing"},
};

static int error_text(int code, const char **text, int column)
{
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        if (strtol(texts[i][0], NULL, 10) == code) {
            *text = texts[i][column];
            return 0;
        }
    }
    *text = NULL;
    return GY_CUDA_INVALID_VALUE;
}

STANDIN(standin_enter, init, (unsigned flags), init(flags))
STANDIN(standin_enter, driver_version, (int *version),
        give(version, (int)standin_number("GYRE_TEST_CUDA_VERSION", 12040)))
STANDIN(standin_enter, error_name, (int code_, const char **name), error_text(code_, name, 1))
STANDIN(standin_enter, error_string, (int code_, const char **text), error_text(code_, text, 2))
STANDIN(initialised, device_count, (int *count),
        give(count, (int)standin_number("GYRE_TEST_CUDA_DEVICES", 1)))
STANDIN(initialised, device_get, (int *device, int index),
        give(device, index) + expect_device(index))
STANDIN(initialised, device_name, (char *name, int size_bytes, int device),
        device_name(name, size_bytes, device))
STANDIN(initialised, device_attribute, (int *value, int which, int device),
        attribute(value, which, device))
STANDIN(initialised, device_memory, (size_t * size_bytes, int device),
        device_memory(size_bytes, device))
STANDIN(initialised, device_pool, (gy_cuda_pool * *pool, int device), device_pool(pool, device))

/* ---- contexts ---- */

static int retain(gy_cuda_context **context, int device)
{
    if (expect_device(device) != 0) {
        return GY_CUDA_INVALID_DEVICE;
    }
    *context = &contexts[device];
    contexts[device].holders++;
    standin_count_live(1);
    return 0;
}

/* Things are counted over all devices: none is left when the last context ends. */
static bool is_any_held(void)
{
    for (int device = 0; device < STANDIN_DEVICES_MAX; device++) {
        if (contexts[device].holders > 0) {
            return true;
        }
    }
    return false;
}

static int release(int device)
{
    if (expect_device(device) != 0 || contexts[device].holders == 0) {
        return standin_refuse("cuDevicePrimaryCtxRelease", "the context is not retained");
    }
    standin_count_live(-1);
    if (--contexts[device].holders == 0) {
        if (live_count > 0 && !contexts[device].is_lost && !is_any_held()) {
            standin_complain("a context ends with %d things that were not released",
                             live_count);
        }
        contexts[device].is_lost = false;
    }
    return 0;
}

static int set_current(gy_cuda_context *context)
{
    if (context != NULL && (context < contexts || context >= contexts + STANDIN_DEVICES_MAX ||
                            context->holders == 0)) {
        return standin_refuse("cuCtxSetCurrent", "no context");
    }
    current = context;
    return 0;
}

STANDIN(initialised, context_retain, (gy_cuda_context * *context, int device),
        retain(context, device))
STANDIN_RELEASE(context_release, (int device), release(device))
STANDIN(initialised, context_set, (gy_cuda_context * context), set_current(context))

/* ---- memory ---- */

static void reserve(void)
{
    reserved_bytes = GY_MAX(reserved_bytes, standin_memory_used());
}

static int memory_info(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = standin_memory_total();
    *free_bytes = *total_bytes - reserved_bytes;
    return 0;
}

static bool is_pool(const gy_cuda_pool *pool)
{
    return (const void *)pool == (const void *)&reserved_bytes;
}

static int pool_set(gy_cuda_pool *pool, int which, const void *value)
{
    if (!is_pool(pool) || which != GY_CUDA_POOL_KEPT_BYTES) {
        return standin_refuse("cuMemPoolSetAttribute", "unknown pool or attribute");
    }
    uint64_t bytes = 0;
    memcpy(&bytes, value, sizeof(bytes));
    kept_bytes = bytes;
    return 0;
}

static int pool_get(gy_cuda_pool *pool, int which, void *value)
{
    uint64_t bytes = which == GY_CUDA_POOL_USED_BYTES ? standin_memory_used() : reserved_bytes;
    if (!is_pool(pool) ||
        (which != GY_CUDA_POOL_USED_BYTES && which != GY_CUDA_POOL_RESERVED_BYTES)) {
        return standin_refuse("cuMemPoolGetAttribute", "unknown pool or attribute");
    }
    memcpy(value, &bytes, sizeof(bytes));
    return 0;
}

static int pool_trim(gy_cuda_pool *pool, size_t bytes)
{
    if (!is_pool(pool)) {
        return standin_refuse("cuMemPoolTrimTo", "unknown pool");
    }
    reserved_bytes = GY_MAX(standin_memory_used(), GY_MIN(bytes, reserved_bytes));
    return 0;
}

bool standin_is_stream(const gy_cuda_stream *stream, const char *symbol)
{
    if (stream == NULL) {
        standin_complain("%s: the default stream", symbol);
        return false;
    }
    for (int i = 0; i < STANDIN_STREAMS_MAX; i++) {
        if (stream == &standin_streams[i] && stream->is_alive) {
            return true;
        }
    }
    standin_complain("%s: no stream", symbol);
    return false;
}

static int memory_alloc(gy_cuda_address *address, size_t size_bytes, gy_cuda_stream *stream)
{
    const char *by = standin_symbol.memory_alloc;
    if (size_bytes == 0) {
        return standin_refuse(by, "0 bytes");
    }
    if (!standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    standin_block *block = NULL;
    if (standin_block_new(size_bytes, &block) < 0) {
        standin_run(INT32_MAX); /* as the driver does: what is freed soon is waited for */
        if (standin_block_new(size_bytes, &block) < 0) {
            return GY_CUDA_OUT_OF_MEMORY;
        }
    }
    reserve();
    (void)standin_push(stream, STANDIN_WAIT); /* for nothing: a place in order */
    standin_use_block(stream, block, true, by);
    *address = block->address;
    return 0;
}

static int memory_free(gy_cuda_address address, gy_cuda_stream *stream)
{
    const char *by = standin_symbol.memory_free;
    if (!standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    standin_block *block = standin_block_of(address, 0, by);
    if (block == NULL || block->address != address) {
        return block != NULL ? standin_refuse(by, "an address inside a block")
                             : GY_CUDA_INVALID_VALUE;
    }
    if (current->is_lost) {
        standin_block_end(block);
        return GY_CUDA_LAUNCH_FAILED;
    }
    standin_work *work = standin_push(stream, STANDIN_FREE);
    work->blocks[work->block_count++] = block;
    standin_use_block(stream, block, true, by);
    block->is_freed = true;
    return 0;
}

static int host_alloc(void **memory, size_t size_bytes, unsigned flags)
{
    int i = 0;
    while (i < HOST_BLOCKS_MAX && host_blocks[i].memory != NULL) {
        i++;
    }
    if (size_bytes == 0 || (flags & ~(unsigned)GY_CUDA_HOST_PORTABLE) != 0) {
        return standin_refuse("cuMemHostAlloc", "0 bytes or unknown flags");
    }
    char *mapped = i < HOST_BLOCKS_MAX ? mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                       : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        return GY_CUDA_OUT_OF_MEMORY;
    }
    STANDIN_FORGET(mapped, size_bytes);
    host_blocks[i].memory = mapped;
    host_blocks[i].size_bytes = size_bytes;
    standin_count_live(1);
    *memory = mapped;
    return 0;
}

static int host_free(void *memory)
{
    for (int i = 0; i < HOST_BLOCKS_MAX; i++) {
        if (memory != NULL && host_blocks[i].memory == memory) {
            munmap(memory, host_blocks[i].size_bytes);
            host_blocks[i].memory = NULL;
            standin_count_live(-1);
            return 0;
        }
    }
    return standin_refuse("cuMemFreeHost", "no memory of cuMemHostAlloc");
}

static bool is_pinned(const void *memory, size_t size_bytes, const char *by)
{
    const uintptr_t at = (uintptr_t)memory;
    for (int i = 0; i < HOST_BLOCKS_MAX; i++) {
        const uintptr_t begin = (uintptr_t)host_blocks[i].memory;
        if (begin != 0 && at >= begin && at + size_bytes <= begin + host_blocks[i].size_bytes) {
            return true;
        }
    }
    standin_complain("%s of %zu bytes: the host's memory is not pinned", by, size_bytes);
    return false;
}

static char *host_of(gy_cuda_address address)
{
    return (char *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* Work on one or two ranges of device memory; an address of 0 stands for the host. */
static int push_copy(gy_cuda_stream *stream, standin_kind kind, const char *by,
                     const standin_work *wanted, const gy_cuda_address device[2])
{
    standin_block *used[2] = {NULL, NULL};
    if (!standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    for (int i = 0; i < 2; i++) {
        used[i] = device[i] != 0 ? standin_block_of(device[i], wanted->size_bytes, by) : NULL;
        if (device[i] != 0 && used[i] == NULL) {
            return GY_CUDA_INVALID_VALUE;
        }
    }
    standin_work *work = standin_push(stream, kind);
    work->to = wanted->to;
    work->from = wanted->from;
    work->size_bytes = wanted->size_bytes;
    work->value = wanted->value;
    for (int i = 0; i < 2; i++) {
        if (used[i] != NULL) {
            work->blocks[work->block_count++] = used[i];
            standin_use_block(stream, used[i], i == 0, by);
        }
    }
    return 0;
}

static int copy_in(gy_cuda_address to, const void *from, size_t size_bytes,
                   gy_cuda_stream *stream)
{
    const char *by = standin_symbol.copy_in;
    const standin_work wanted = {.to = host_of(to), .from = from, .size_bytes = size_bytes};
    return !is_pinned(from, size_bytes, by)
               ? GY_CUDA_INVALID_VALUE
               : push_copy(stream, STANDIN_COPY_IN, by, &wanted, (gy_cuda_address[2]){to, 0});
}

static int copy_out(void *to, gy_cuda_address from, size_t size_bytes, gy_cuda_stream *stream)
{
    const char *by = standin_symbol.copy_out;
    const standin_work wanted = {.to = to, .from = host_of(from), .size_bytes = size_bytes};
    return !is_pinned(to, size_bytes, by) ? GY_CUDA_INVALID_VALUE
                                          : push_copy(stream, STANDIN_COPY_OUT, by, &wanted,
                                                      (gy_cuda_address[2]){0, from});
}

static int copy_within(gy_cuda_address to, gy_cuda_address from, size_t size_bytes,
                       gy_cuda_stream *stream)
{
    const standin_work wanted = {
        .to = host_of(to), .from = host_of(from), .size_bytes = size_bytes};
    return push_copy(stream, STANDIN_COPY_WITHIN, standin_symbol.copy_within, &wanted,
                     (gy_cuda_address[2]){to, from});
}

static int memory_set(gy_cuda_address to, unsigned char value, size_t size_bytes,
                      gy_cuda_stream *stream)
{
    const standin_work wanted = {.to = host_of(to), .value = value, .size_bytes = size_bytes};
    return push_copy(stream, STANDIN_SET, standin_symbol.memory_set, &wanted,
                     (gy_cuda_address[2]){to, 0});
}

STANDIN(standin_enter_context, memory_info, (size_t * free_bytes, size_t *total_bytes),
        memory_info(free_bytes, total_bytes))
STANDIN(initialised, pool_set, (gy_cuda_pool * pool, int which, void *value),
        pool_set(pool, which, value))
STANDIN(initialised, pool_get, (gy_cuda_pool * pool, int which, void *value),
        pool_get(pool, which, value))
STANDIN(initialised, pool_trim, (gy_cuda_pool * pool, size_t bytes), pool_trim(pool, bytes))
STANDIN(standin_enter_context, memory_alloc,
        (gy_cuda_address * address, size_t size_bytes, gy_cuda_stream *stream),
        memory_alloc(address, size_bytes, stream))
STANDIN_RELEASE(memory_free, (gy_cuda_address address, gy_cuda_stream *stream),
                memory_free(address, stream))
STANDIN(standin_enter_context, host_alloc, (void **memory, size_t size_bytes, unsigned flags),
        host_alloc(memory, size_bytes, flags))
STANDIN_RELEASE(host_free, (void *memory), host_free(memory))
STANDIN(standin_enter_context, copy_in,
        (gy_cuda_address to, const void *from, size_t size_bytes, gy_cuda_stream *stream),
        copy_in(to, from, size_bytes, stream))
STANDIN(standin_enter_context, copy_out,
        (void *to, gy_cuda_address from, size_t size_bytes, gy_cuda_stream *stream),
        copy_out(to, from, size_bytes, stream))
STANDIN(standin_enter_context, copy_within,
        (gy_cuda_address to, gy_cuda_address from, size_t size_bytes, gy_cuda_stream *stream),
        copy_within(to, from, size_bytes, stream))
STANDIN(standin_enter_context, memory_set,
        (gy_cuda_address to, unsigned char value, size_t size_bytes, gy_cuda_stream *stream),
        memory_set(to, value, size_bytes, stream))

/* ---- what a test asks ---- */

static void reset(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    STANDIN_EXPECT(live_count == 0);
    has_begun = true;
    memset(calls, 0, sizeof(calls));
    complaint_count = 0;
    first_complaint[0] = '\0';
    reserved_bytes = 0; /* the pool of a device that nobody uses is empty */
    standin_order_reset(seed);
    pthread_mutex_unlock(&lock);
}

static void fail_call(const char *symbol, int n, int code)
{
    pthread_mutex_lock(&lock);
    call *of = find_call(symbol);
    of->fails_at = of->fails_to = of->count + n;
    of->code = code;
    pthread_mutex_unlock(&lock);
}

static int count(const char *symbol)
{
    pthread_mutex_lock(&lock);
    const int found = find_call(symbol)->count;
    pthread_mutex_unlock(&lock);
    return found;
}

static const char *called(int i)
{
    return i < CALLS_MAX ? calls[i].symbol : NULL;
}

static int complaints(char *first, size_t size_bytes)
{
    pthread_mutex_lock(&lock);
    const int found = complaint_count;
    snprintf(first, size_bytes, "%s", first_complaint);
    pthread_mutex_unlock(&lock);
    return found;
}

static void order(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    standin_order_reset(seed);
    pthread_mutex_unlock(&lock);
}

static void hold(unsigned streams)
{
    pthread_mutex_lock(&lock);
    standin_order_hold(streams);
    pthread_mutex_unlock(&lock);
}

static void stall(bool is_stalled)
{
    hold(is_stalled ? ~0u : 0);
}

static int live(void)
{
    pthread_mutex_lock(&lock);
    const int found = live_count;
    pthread_mutex_unlock(&lock);
    return found;
}

const standin_hooks *standin_get(void)
{
    static const standin_hooks hooks = {.reset = reset,
                                        .fail_call = fail_call,
                                        .count = count,
                                        .called = called,
                                        .complaints = complaints,
                                        .order = order,
                                        .stall = stall,
                                        .hold = hold,
                                        .live = live};
    return &hooks;
}

/* What a process leaves behind is a complaint, and complaints that no test has seen end it. */
__attribute__((destructor)) static void expect_nothing(void)
{
    if (live_count > 0) {
        standin_complain("the process ends with %d things that were not released", live_count);
    }
    if (complaint_count > 0) {
        _exit(STANDIN_EXIT);
    }
}
