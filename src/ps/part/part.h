/**
 * Parts of tables: a pure machine, without sockets, clocks of its own or threads. A part has
 * the rows of a table that one server serves, the optimizer's state of each, and a table of
 * workers: how often each has called gy_ps_clock, and the number of its last push. All five
 * rules of consistency are questions about that table.
 *
 * Reading order: update.c what a gradient does to rows · rows.c where they are · clock.c
 * workers and rules · held.c pushes of a clock that is not over · part.c all together · image.c
 * a part as bytes · keys.c which part a key belongs to.
 */
#ifndef GY_PS_PART_PART_H
#define GY_PS_PART_PART_H

#include "base/base.h"
#include "base/text.h"

#include <gyre/ps.h>

/** What a serving program may do with a row itself: `row` (width) and `gradient` (width) are of
 * the table's dtype. */
typedef void (*gy_ps_function)(void *arg, uint64_t key, void *row, const void *gradient,
                               uint32_t width, double rate);

enum {
    GY_PS_WORKERS_MAX = 4096,
    GY_PS_WIDTH_MAX = 1 << 20,
    GY_PS_PARTS_MAX = 1024,
};

/** The options with their defaults, judged. GY_ARG says which is wrong. @threads any */
GY_MUST_CHECK gy_status gy_ps_table_judge(const char *name, const gy_ps_table_options *options,
                                          uint32_t workers, gy_ps_table_options *judged);

/* ---- Keys ---- */

/** The part of `parts` that a key belongs to. @threads any */
uint32_t gy_ps_key_part(const gy_ps_table_options *table, uint64_t key, uint32_t parts);
/** GY_ARG: the keys are not strictly ascending, or one is not of the part (its place and value
 * are named). `part` UINT32_MAX: of any. @threads any */
GY_MUST_CHECK gy_status gy_ps_keys_check(const gy_ps_table_options *table, const uint64_t *keys,
                                         size_t count, uint32_t part, uint32_t parts);
/** The rows of a dense table's part: [first, end). @threads any */
void gy_ps_part_range(const gy_ps_table_options *table, uint32_t part, uint32_t parts,
                      uint64_t *first, uint64_t *end);

/* ---- A part ---- */

typedef struct gy_ps_part gy_ps_part;

typedef struct gy_ps_part_options {
    const char *name;          /* of the table, for messages; copied */
    gy_ps_table_options table; /* judged */
    uint32_t part, parts;
    uint32_t workers;        /* how many there are from the start */
    size_t held_bytes_max;   /* of pushes whose clock is not over; 0: 1 GiB */
    gy_ps_function function; /* of GY_PS_FUNCTION */
    /* takes the rooms of pushes back; NULL: gy_free */
    void (*release)(void *arg, void *room);
    void *release_arg;
    void *function_arg;
} gy_ps_part_options;

GY_MUST_CHECK gy_status gy_ps_part_new(const gy_ps_part_options *options, gy_ps_part **part);
void gy_ps_part_free(gy_ps_part *part);

/** Rows that a message is about. */
typedef struct gy_ps_rows {
    const uint64_t *keys; /* (count) of a sparse table, strictly ascending */
    uint64_t first;       /* of a dense table: rows first .. first + count - 1 */
    size_t count;
    uint32_t slot; /* of a dense table: which array beside the values the update keeps, from 1
                      on; 0: the values */
} gy_ps_rows;

typedef struct gy_ps_gradient {
    uint32_t worker;
    uint64_t client, number; /* numbers of a client ascend; one that is not new was applied */
    uint64_t clock;          /* calls of gy_ps_clock that the worker had made */
    uint64_t seen;           /* of GY_PS_WEIGHTED: updates of the part that it has seen */
    double rate;             /* 0: the table's */
    gy_ps_rows rows;
    const void *values; /* (count, width) */
    /* Memory that keys and values lie in; the part takes it in any case, also on failure. NULL:
     * they are borrowed for the call. */
    void *room;
} gy_ps_gradient;

typedef enum gy_ps_outcome {
    GY_PS_APPLIED,
    GY_PS_HELD,      /* until its clock is over */
    GY_PS_DROPPED,   /* its clock was closed without it */
    GY_PS_DUPLICATE, /* it was taken before */
} gy_ps_outcome;

/**
 * A worker comes, for the first time or again. *clock becomes the number of its calls so far.
 * GY_ARG worker; GY_EXISTS another client is that worker; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ps_part_join(gy_ps_part *part, uint32_t worker, uint64_t client,
                                        uint64_t *clock);
/** It has no batches left, or is dead: nobody waits for it. Another client is ignored. */
void gy_ps_part_leave(gy_ps_part *part, uint32_t worker, uint64_t client);
/**
 * Take a push. On failure nothing is applied.
 * @return GY_OK; GY_ARG keys; GY_NUMERIC a value that is not finite; GY_STATE the worker has
 * not joined, or the clock is not its; GY_LIMIT too much is held; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ps_part_push(gy_ps_part *part, const gy_ps_gradient *push,
                                        gy_ps_outcome *outcome);
/** Set rows as they are, at once, for a start; it may be done again. The same failures. With
 * state of the update comes the number of the part's updates, which some of them count. */
GY_MUST_CHECK gy_status gy_ps_part_put(gy_ps_part *part, const gy_ps_rows *rows,
                                       const void *values, uint64_t updates);
/** A worker has made `clock` calls. Saying it again changes nothing. GY_STATE it has not
 * joined, or made more than one more */
GY_MUST_CHECK gy_status gy_ps_part_clock(gy_ps_part *part, uint32_t worker, uint64_t client,
                                         uint64_t clock);
/** May a pull of a worker that has made `clock` calls be answered? If not, the worker with the
 * fewest calls is *behind. */
bool gy_ps_part_is_ready(const gy_ps_part *part, uint64_t clock, uint32_t *behind);
/** Read rows: `out` (count, width). Rows that are not there have their initial values. The
 * number of the part's updates becomes *updates. GY_ARG keys */
GY_MUST_CHECK gy_status gy_ps_part_pull(const gy_ps_part *part, const gy_ps_rows *rows,
                                        void *out, uint64_t *updates);

typedef struct gy_ps_part_facts {
    uint64_t rows, updates, pushes, duplicates, dropped, refused, held_bytes;
    uint64_t clock_min, clock_max; /* of live workers */
    uint32_t live;
    uint64_t closed; /* clocks that are over, of BSP and BACKUP */
} gy_ps_part_facts;
void gy_ps_part_look(const gy_ps_part *part, gy_ps_part_facts *facts);
const gy_ps_table_options *gy_ps_part_table(const gy_ps_part *part);
/** A worker that is waited for and has joined: its client. False: it is none. */
bool gy_ps_part_has_worker(const gy_ps_part *part, uint32_t worker, uint64_t *client);
/** Workers have smaller numbers than this. */
uint32_t gy_ps_part_worker_count(const gy_ps_part *part);

/** Where the part is: of BSP and BACKUP the clocks that are over; else the fewest calls of a
 * live worker, and without any the most of all workers. */
uint64_t gy_ps_part_now(const gy_ps_part *part);
/**
 * Begin again from here at a clock, with other clients: all its first workers are waited for,
 * nobody has joined, what was held is dropped. Rows and the state of their update stay.
 */
void gy_ps_part_rewind(gy_ps_part *part, uint64_t clock);

/* ---- image.c ---- */

/** Append all that the part is: rows, the state of their update, workers, what is held, and
 * what it has counted but for refusals, which no replica hears of. A part of the same options
 * that loads it has the same bits. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_part_save(const gy_ps_part *part, gy_text *image);
/**
 * Take the place of a new part's state. *used becomes the bytes that were read.
 * @return GY_OK; GY_FORMAT it is no image of such a part; GY_NOMEM. After a failure the part
 * can only be freed
 */
GY_MUST_CHECK gy_status gy_ps_part_load(gy_ps_part *part, const void *image, size_t size_bytes,
                                        size_t *used);

#endif
