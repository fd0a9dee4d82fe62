/**
 * The inner loops: combine and copy.
 */
#ifndef GY_COLL_KERNELS_H
#define GY_COLL_KERNELS_H

#include "base/base.h"

#include <gyre/base.h>
#include <gyre/coll.h>

/** to = a op b over `count` elements; `to` may be a or b, or apart from both. */
typedef void (*gy_coll_combine)(void *to, const void *a, const void *b, size_t count);

/** Return the loop of a type and a reduction (avg: the sum); NULL: the pair has none. Integers
 * wrap; f16 and bf16 are combined in float32 and rounded to nearest even; min and max of
 * floating types are those of tensor/extreme.h: NaN where either is, -0 below +0. @threads any
 */
gy_coll_combine gy_coll_combine_of(gy_dtype dtype, gy_reduction reduction);
/** to = terms[0] + terms[1] + ... over `count` elements, from left to right; `to` may be one of
 * the terms, or apart from all. */
typedef void (*gy_coll_combine_many)(void *to, const void *const *terms, int term_count,
                                     size_t count);
/** Return the loop that sums several contributions at once, with the same bits as the loop of
 * gy_coll_combine_of applied to one after another; NULL: the pair has none (f16, bf16,
 * reductions other than sum and avg). @threads any */
gy_coll_combine_many gy_coll_combine_many_of(gy_dtype dtype, gy_reduction reduction);
/** data = data / divisor, of integers towards 0. */
void gy_divide(gy_dtype dtype, void *data, size_t count, int divisor);
/** f16 or bf16 to float32 and back, to nearest even. */
void gy_half_widen(gy_dtype dtype, float *to, const void *from, size_t count);
void gy_half_narrow(gy_dtype dtype, void *to, const float *from, size_t count);

/** "sum"; static. */
const char *gy_reduction_name(gy_reduction reduction);

/** Prefetch a cache line for writing: it may lie in another core's cache. */
static inline void gy_fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* Without -mprfchw the builtin prefetches for reading alone. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

/** Copy and bypass the cache; other threads see the copy after the next gy_stream_end of this
 * thread. */
void gy_stream_copy(void *to, const void *from, size_t size_bytes);
void gy_stream_end(void);

/** The targets of a result: to[0], ..., each bypassing the cache if `is_streamed`. */
typedef struct gy_targets {
    uint8_t *const *to;
    int count;
    bool is_streamed;
} gy_targets;

/**
 * How a call combines. Where all contributions are folded by one rank, and in scans, running
 * sums of f16 and bf16 are float32 ("wide") and rounded once.
 */
typedef struct gy_coll_fold {
    gy_coll_combine loop;      /* NULL: the user's reduction */
    gy_coll_combine_many many; /* NULL: contributions are combined one by one */
    const gy_user_reduction *user;
    size_t element_bytes;
    gy_dtype dtype;
    gy_reduction reduction;
    int divisor; /* of a finished sum; 0: none */
} gy_coll_fold;

/** Return the fold of a reduction over `ranks` contributions; of the user's if not NULL. */
gy_coll_fold gy_coll_fold_of(gy_dtype dtype, gy_reduction reduction,
                             const gy_user_reduction *user, int ranks);
/** Test whether running sums are float32. */
static inline bool gy_coll_fold_is_wide(const gy_coll_fold *fold)
{
    return fold->user == NULL && (fold->dtype == GY_F16 || fold->dtype == GY_BF16);
}
/** Return the bytes of an element of a running sum. */
static inline size_t gy_coll_fold_sum_bytes(const gy_coll_fold *fold)
{
    GY_CHECK_DEEP(fold->element_bytes > 0);
    return gy_coll_fold_is_wide(fold) ? sizeof(float) : fold->element_bytes;
}
/** to = a op b as the elements are, not finished. */
static inline void gy_coll_fold_combine(const gy_coll_fold *fold, void *to, const void *a,
                                        const void *b, size_t count)
{
    GY_CHECK_DEEP(fold->loop != NULL || fold->user != NULL);
    if (fold->loop != NULL) {
        fold->loop(to, a, b, count);
    } else {
        fold->user->combine(to, a, b, count, fold->user->arg);
    }
}
/** Finish a sum: divide it where the reduction is avg. */
static inline void gy_coll_fold_finish(const gy_coll_fold *fold, void *data, size_t count)
{
    GY_CHECK_DEEP(fold->divisor >= 0);
    if (fold->divisor != 0) {
        gy_divide(fold->dtype, data, count, fold->divisor);
    }
}

/** The maximum of contributions combined at once: the core reads each as a stream of its own.
 */
enum { GY_FOLD_TERMS = 16 };

/** An operand or result of a fold: elements, or a running sum. */
typedef struct gy_term {
    const void *data;
    bool is_sum;
} gy_term;

/** All targets = a op b, a tile that fits the first cache at a time; finished unless they are
 * running sums. */
void gy_coll_fold_into(const gy_targets *targets, bool is_sum, const gy_coll_fold *fold,
                       gy_term a, gy_term b, size_t count);
/** All targets = terms[0] op terms[1] op ..., finished: as gy_coll_fold_into would have it term
 * by term. The fold has `many`. */
void gy_coll_fold_many_into(const gy_targets *targets, const gy_coll_fold *fold,
                            const void *const *terms, int term_count, size_t count);
/** All targets = the elements of a running sum of f16 or bf16, finished. */
void gy_finish_into(const gy_targets *targets, const gy_coll_fold *fold, const void *sum,
                    size_t count);
/** All targets = a op b of plain elements, not finished. */
void gy_coll_combine_into(const gy_targets *targets, const gy_coll_fold *fold, const void *a,
                          const void *b, size_t count);
/** All targets, from byte `at` on, = from; a target that is `from` itself is left alone. */
void gy_stream_put(const gy_targets *targets, size_t at, const void *from, size_t size_bytes);
/** All targets = from. */
void gy_copy_into(const gy_targets *targets, const void *from, size_t size_bytes);

#endif
