/*
 * Where chunks end: the largest chunk may have so many bytes; under this bound the borders that
 * hold least are a shortest path over the line, found in one walk with a queue of the best
 * begins that are near enough. The bound runs over a geometric row, and the best of all stays.
 */
#include "graph/recompute/recompute.h"

#include <math.h>
#include <string.h>

enum { BOUNDS = 64 };

typedef struct cutter {
    const double *cross;
    const bool *may;
    int32_t count;
    double *sum;    /* (count + 1) of `inside` */
    double *best;   /* (count + 1) bytes held at borders before a begin */
    int32_t *from;  /* (count + 1) the begin of the chunk that ends before this one */
    int32_t *queue; /* (count + 1) begins, `best` ascending */
} cutter;

/* Least bytes at borders when no chunk has more than `bound`; INFINITY: there is no such cut. A
 * begin b stands behind place b - 1. */
static double walk(cutter *c, double bound)
{
    int32_t head = 0, tail = 0;
    c->best[0] = 0;
    c->queue[tail++] = 0;
    for (int32_t b = 1; b <= c->count; b++) {
        c->best[b] = INFINITY;
        if (!c->may[b - 1] && b != c->count) {
            continue;
        }
        while (head < tail && c->sum[b] - c->sum[c->queue[head]] > bound) {
            head++;
        }
        if (head == tail) {
            return INFINITY; /* each later chunk would be larger still */
        }
        const double here = b == c->count ? 0 : c->cross[b - 1];
        c->from[b] = c->queue[head];
        c->best[b] = c->best[c->queue[head]] + here;
        GY_ASSERT(c->from[b] < b && c->best[b] >= 0);
        while (tail > head && c->best[c->queue[tail - 1]] > c->best[b]) {
            tail--;
        }
        c->queue[tail++] = b;
    }
    return c->best[c->count];
}

static double largest_chunk(const cutter *c)
{
    double largest = 0;
    GY_ASSERT(c->best[c->count] < INFINITY);
    for (int32_t b = c->count; b > 0; b = c->from[b]) {
        largest = fmax(largest, c->sum[b] - c->sum[c->from[b]]);
    }
    return largest;
}

/* The bounds descend, and a smaller one must be better: of equals the fewest chunks stay. */
static double best_bound(cutter *c)
{
    const double total = c->sum[c->count];
    double least = INFINITY, found = total, bound = total;
    for (int i = 0; i < BOUNDS && bound > 0; i++) {
        const double held = walk(c, bound);
        if (!(held < INFINITY)) {
            break;
        }
        const double largest = largest_chunk(c);
        GY_ASSERT(largest <= bound && largest >= 0);
        if (held + largest < least) {
            least = held + largest;
            found = bound;
        }
        bound = fmin(largest, bound) * 0.9;
    }
    return found;
}

gy_status gy_recompute_cut(const double *cross, const double *inside, const bool *may,
                           int32_t count, int32_t *ends, int32_t *end_count)
{
    GY_ASSERT(count >= 1 && ends != NULL);
    const size_t size = (size_t)count + 1;
    gy_arena arena = {0};
    cutter c = {.cross = cross,
                .may = may,
                .count = count,
                .sum = gy_arena_alloc(&arena, size * sizeof(double)),
                .best = gy_arena_alloc(&arena, size * sizeof(double)),
                .from = gy_arena_alloc(&arena, size * sizeof(int32_t)),
                .queue = gy_arena_alloc(&arena, size * sizeof(int32_t))};
    if (c.sum == NULL || c.best == NULL || c.from == NULL || c.queue == NULL) {
        gy_arena_free(&arena);
        return GY_NOMEM;
    }
    c.sum[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        GY_ASSERT(cross[i] >= 0 && inside[i] >= 0);
        c.sum[i + 1] = c.sum[i] + inside[i];
    }
    const double held = walk(&c, best_bound(&c));
    GY_ASSERT(held < INFINITY);
    *end_count = 0;
    for (int32_t b = count; b > 0; b = c.from[b]) {
        ends[(*end_count)++] = b - 1;
    }
    for (int32_t i = 0, k = *end_count - 1; i < k; i++, k--) {
        const int32_t end = ends[i];
        ends[i] = ends[k];
        ends[k] = end;
    }
    gy_arena_free(&arena);
    return GY_OK;
}
