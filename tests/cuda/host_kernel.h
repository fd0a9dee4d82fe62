/**
 * What the C compiler needs to compile a kernel's text (src/ops/cuda/text) for the CPU: it is
 * passed with -include before the text.
 *
 * Each kernel becomes a function that runs its blocks one after another:
 *
 *     int NAME(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
 *              void **parameters);
 *
 * It returns 0, or 1 when some threads of a block ended while others waited at a barrier. The
 * threads of a block kernel are fibers that switch at barriers, of the block or of a warp;
 * others are a loop. Between two barriers threads run in ascending order, or descending where
 * gy_host_order is 1: a kernel without races gives the same bits both ways.
 *
 * Several texts in one file: define names of kernels and gy_arguments anew before each.
 *
 * Compile with -ffp-contract=off: a text says where a product and a sum are one operation.
 */
#ifndef GY_TESTS_CUDA_HOST_KERNEL_H
#define GY_TESTS_CUDA_HOST_KERNEL_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* NOLINT(bugprone-reserved-identifier): for mmap's flags */
#endif
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __SANITIZE_ADDRESS__ /* what a fiber that never returned has left behind */
#define GY_HOST_FORGET(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define GY_HOST_FORGET(memory, bytes) ((void)(memory))
#endif

#define GY_DEVICE        static inline __attribute__((unused))
#define __shared__       static _Thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define GY_UNROLL

typedef struct gy_host_dim3 {
    unsigned x, y, z;
} gy_host_dim3;
static _Thread_local gy_host_dim3 threadIdx, blockIdx, blockDim, gridDim;

int gy_host_order; /* 1: threads in descending order */

/* ---- fibers ---- */

enum { GY_HOST_THREADS_MAX = 1024, GY_HOST_STACK_BYTES = 64 << 10 };

typedef struct gy_host_fiber {
#if defined(__x86_64__)
    void *at; /* its stack pointer */
#else
    ucontext_t at;
#endif
    char *stack;
    int has_ended, is_in_warp; /* it waits for its warp alone */
    unsigned exchanges;        /* of its warp that it took part in */
} gy_host_fiber;

typedef struct gy_host_block {
    gy_host_fiber *fibers, home;
    unsigned count, now, waiting;
    int any, was_any; /* of __syncthreads_or */
    void (*body)(const void *arguments);
    const void *arguments;
    const void *home_stack;
    size_t home_bytes;
} gy_host_block;
static _Thread_local gy_host_block *gy_host_now;

#if defined(__x86_64__)
/* Callee-saved registers on the stack that is left; the other stack, and its own from there. */
void gy_host_switch(void **from, void *to) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".type gy_host_switch, @function\n"
        ".hidden gy_host_switch\n"
        "gy_host_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
        "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n"
        "    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size gy_host_switch, .-gy_host_switch\n");
#endif

static __attribute__((noinline)) void gy_host_go(gy_host_fiber *from, gy_host_fiber *to,
                                                 const void *stack, size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    void *own = NULL;
    __sanitizer_start_switch_fiber(from->has_ended ? NULL : &own, stack, bytes);
#else
    (void)stack;
    (void)bytes;
#endif
#if defined(__x86_64__)
    gy_host_switch(&from->at, to->at);
#else
    swapcontext(&from->at, &to->at);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(own, NULL, NULL);
#endif
}

static void gy_host_go_home(gy_host_block *b)
{
    gy_host_go(&b->fibers[b->now], &b->home, b->home_stack, b->home_bytes);
}

static __attribute__((noreturn)) void gy_host_live(void)
{
    gy_host_block *b = gy_host_now;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &b->home_stack, &b->home_bytes);
#endif
    b->body(b->arguments);
    b->fibers[b->now].has_ended = 1;
    gy_host_go_home(b);
    abort(); /* nobody goes on with what has ended */
}

static void gy_host_begin(gy_host_fiber *fiber)
{
    fiber->has_ended = fiber->is_in_warp = 0;
    fiber->exchanges = 0;
    GY_HOST_FORGET(fiber->stack, GY_HOST_STACK_BYTES);
#if defined(__x86_64__)
    /* As if gy_host_switch had left it: six registers, then where `ret` goes; aligned as after
       a call. */
    void **top = (void **)(void *)(fiber->stack + GY_HOST_STACK_BYTES) - 2;
    memset(top - 6, 0, 6 * sizeof(*top));
    top[0] = (void *)gy_host_live;
    top[1] = NULL;
    fiber->at = top - 6;
#else
    getcontext(&fiber->at);
    fiber->at.uc_stack.ss_sp = fiber->stack;
    fiber->at.uc_stack.ss_size = GY_HOST_STACK_BYTES;
    fiber->at.uc_link = NULL;
    makecontext(&fiber->at, (void (*)(void))gy_host_live, 0);
#endif
}

static __attribute__((noinline)) void __syncthreads(void)
{
    gy_host_block *b = gy_host_now;
    const gy_host_dim3 own = threadIdx;
    if (b == NULL) {
        abort(); /* a barrier in a kernel that is declared to have none */
    }
    b->waiting++;
    gy_host_go_home(b);
    threadIdx = own;
}

static inline __attribute__((unused)) int __syncthreads_or(int is_true)
{
    gy_host_now->any |= is_true != 0;
    __syncthreads();
    return gy_host_now->was_any;
}

static __attribute__((noinline, unused)) void __syncwarp(void)
{
    gy_host_block *b = gy_host_now;
    const gy_host_dim3 own = threadIdx;
    if (b == NULL) {
        abort(); /* a barrier in a kernel that is declared to have none */
    }
    b->fibers[b->now].is_in_warp = 1;
    gy_host_go_home(b);
    threadIdx = own;
}

/* ---- what the lanes of a warp exchange ---- */

/* By turns one of two, so that a lane may be an exchange ahead of the others of its warp. */
typedef struct gy_host_exchange {
    unsigned words[32][6];
    float sums[16][8];
    int is_multiplied;
} gy_host_exchange;
static _Thread_local gy_host_exchange gy_host_exchanges[GY_HOST_THREADS_MAX / 32][2];

/* Put `count` words of this lane, and wait for those of the others. */
static __attribute__((noinline, unused)) gy_host_exchange *
gy_host_meet_warp(const unsigned *first, int first_count, const unsigned *second,
                  int second_count)
{
    gy_host_fiber *fiber = &gy_host_now->fibers[gy_host_now->now];
    gy_host_exchange *e = &gy_host_exchanges[threadIdx.x / 32][fiber->exchanges++ % 2];
    unsigned *to = e->words[threadIdx.x % 32];
    e->is_multiplied = 0;
    memcpy(to, first, (size_t)first_count * sizeof(*to));
    memcpy(to + first_count, second, (size_t)second_count * sizeof(*to));
    __syncwarp();
    return e;
}

static inline __attribute__((unused)) unsigned __shfl_sync(unsigned mask, unsigned x, int lane)
{
    (void)mask;
    return gy_host_meet_warp(&x, 1, &x, 0)->words[lane][0];
}

static inline __attribute__((unused)) float __shfl_xor_sync(unsigned mask, float x, int bits)
{
    unsigned word;
    (void)mask;
    memcpy(&word, &x, sizeof(word));
    word = gy_host_meet_warp(&word, 1, &word, 0)->words[(int)(threadIdx.x % 32) ^ bits][0];
    memcpy(&x, &word, sizeof(x));
    return x;
}

#if defined(__GNUC__) && !defined(__clang__)
#define GY_HOST_FAST __attribute__((noinline, unused, optimize("O3")))
#else
#define GY_HOST_FAST __attribute__((noinline, unused))
#endif

/* sums += a t(b), of matrices (16, 16) and (8, 16). */
static GY_HOST_FAST void gy_host_multiply(float (*a)[16], float (*b)[8], float (*sums)[8])
{
    for (int row = 0; row < 16; row++) {
        for (int k = 0; k < 16; k++) {
            for (int column = 0; column < 8; column++) {
                sums[row][column] += a[row][k] * b[k][column];
            }
        }
    }
}

/*
 * mma.sync.aligned.m16n8k16.row.col with halves that `widen` reads, sums of float32. Lane
 * 4 g + t has of a the rows g and g + 8 of columns 2 t, 2 t + 1 and of those 8 further; of b
 * column g of the same rows; of the sums rows g and g + 8 of columns 2 t, 2 t + 1.
 * @source NVIDIA, "PTX ISA", "Matrix Fragments for mma.m16n8k16 with floating point type"
 */
#define GY_HOST_MMA 1
static GY_HOST_FAST void gy_host_mma(float *c, const unsigned *a, const unsigned *b,
                                     float (*widen)(unsigned short half))
{
    gy_host_exchange *e = gy_host_meet_warp(a, 4, b, 2);
    const unsigned lane = threadIdx.x % 32;
    if (!e->is_multiplied) {
        float rows[16][16], columns[16][8];
        memset(e->sums, 0, sizeof(e->sums));
        for (unsigned n = 0; n < 32 * 6 * 2; n++) {
            const unsigned g = n / 12 / 4, t = n / 12 % 4, i = n % 12 / 2, k = 2 * t + n % 2;
            const float x = widen((unsigned short)(e->words[n / 12][i] >> n % 2 * 16));
            if (i < 4) {
                rows[g + i % 2 * 8][k + i / 2 * 8] = x;
            } else {
                columns[k + (i - 4) * 8][g] = x;
            }
        }
        gy_host_multiply(rows, columns, e->sums);
        e->is_multiplied = 1;
    }
    for (unsigned i = 0; i < 4; i++) {
        c[i] += e->sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
}

/* ---- blocks ---- */

/* All lanes of a warp up to the next barrier of their block, or their end; how many have ended,
 * or -1: some have, or wait for the block, and others for their warp. */
static int gy_host_warp(gy_host_block *b, unsigned first)
{
    const unsigned count = b->count - first < 32 ? b->count - first : 32;
    unsigned ended = 0, waiting = count;
    while (waiting > 0) {
        waiting = 0;
        for (unsigned i = 0; i < count; i++) {
            b->now = first + (gy_host_order == 1 ? count - 1 - i : i);
            gy_host_fiber *fiber = &b->fibers[b->now];
            threadIdx = (gy_host_dim3){b->now, 0, 0};
            if (fiber->has_ended) {
                return -1;
            }
            fiber->is_in_warp = 0;
            gy_host_go(&b->home, fiber, fiber->stack, GY_HOST_STACK_BYTES);
            ended += fiber->has_ended != 0;
            waiting += fiber->is_in_warp != 0;
        }
        if (waiting > 0 && waiting < count) {
            return -1;
        }
    }
    return (int)ended;
}

/* All threads up to the next barrier or their end; 0: go on, 1: they have ended, 2: some have
 * and others wait. */
static int gy_host_round(gy_host_block *b)
{
    const unsigned warps = (b->count + 31) / 32;
    unsigned ended = 0;
    b->waiting = 0;
    for (unsigned i = 0; i < warps; i++) {
        const int of_warp = gy_host_warp(b, 32 * (gy_host_order == 1 ? warps - 1 - i : i));
        if (of_warp < 0) {
            return 2;
        }
        ended += (unsigned)of_warp;
    }
    b->was_any = b->any;
    b->any = 0;
    return ended == b->count ? 1 : ended > 0 ? 2 : 0;
}

static int gy_host_meet(const unsigned *grid, const unsigned *block,
                        void (*body)(const void *arguments), const void *arguments)
{
    gy_host_block b = {.count = block[0], .body = body, .arguments = arguments};
    int state = 1;
    const size_t bytes = b.count * (sizeof(*b.fibers) + GY_HOST_STACK_BYTES);
    char *stacks =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED || b.count > GY_HOST_THREADS_MAX) {
        abort();
    }
    GY_HOST_FORGET(stacks, bytes);
    b.fibers = (gy_host_fiber *)(void *)(stacks + (size_t)b.count * GY_HOST_STACK_BYTES);
    gy_host_now = &b;
    for (unsigned i = 0; i < grid[0] && state == 1; i++) {
        blockIdx = (gy_host_dim3){i, 0, 0};
        for (unsigned t = 0; t < b.count; t++) {
            b.fibers[t].stack = stacks + (size_t)t * GY_HOST_STACK_BYTES;
            gy_host_begin(&b.fibers[t]);
        }
        do {
            state = gy_host_round(&b);
        } while (state == 0);
    }
    gy_host_now = NULL;
    GY_HOST_FORGET(stacks, bytes); /* before others map their memory there */
    munmap(stacks, bytes);
    return state == 1 ? 0 : 1;
}

static int gy_host_loop(const unsigned *grid, const unsigned *block,
                        void (*body)(const void *arguments), const void *arguments)
{
    for (unsigned i = 0; i < grid[0]; i++) {
        blockIdx = (gy_host_dim3){i, 0, 0};
        for (unsigned t = 0; t < block[0]; t++) {
            threadIdx = (gy_host_dim3){gy_host_order == 1 ? block[0] - 1 - t : t, 0, 0};
            body(arguments);
        }
    }
    return 0;
}

#define GY_HOST_KERNEL(name, run)                                                              \
    static void name##_thread(const gy_arguments g);                                           \
    static void name##_body(const void *arguments)                                             \
    {                                                                                          \
        name##_thread(*(const gy_arguments *)arguments);                                       \
    }                                                                                          \
    int name(const unsigned *grid, const unsigned *block, unsigned shared_bytes,               \
             void **parameters);                                                               \
    int name(const unsigned *grid, const unsigned *block, unsigned shared_bytes,               \
             void **parameters)                                                                \
    {                                                                                          \
        if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1 ||                  \
            shared_bytes != 0) {                                                               \
            return 1;                                                                          \
        }                                                                                      \
        gridDim = (gy_host_dim3){grid[0], 1, 1};                                               \
        blockDim = (gy_host_dim3){block[0], 1, 1};                                             \
        return run(grid, block, name##_body, parameters[0]);                                   \
    }                                                                                          \
    static void name##_thread(const gy_arguments g)
#define GY_KERNEL(name)       GY_HOST_KERNEL(name, gy_host_loop)
#define GY_BLOCK_KERNEL(name) GY_HOST_KERNEL(name, gy_host_meet)

/* ---- what CUDA C has built in ---- */

typedef struct float2 {
    float x, y;
} float2;
typedef struct __align__(16) float4
{
    float x, y, z, w;
}
float4;
typedef struct __align__(16) uint4
{
    unsigned x, y, z, w;
}
uint4;

static inline __attribute__((unused)) unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline __attribute__((unused)) float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline __attribute__((unused)) long long __double_as_longlong(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline __attribute__((unused)) double __longlong_as_double(long long bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline __attribute__((unused)) unsigned long long atomicMin(unsigned long long *at,
                                                                   unsigned long long value)
{
    const unsigned long long old = *at;
    *at = value < old ? value : old;
    return old;
}

#endif
