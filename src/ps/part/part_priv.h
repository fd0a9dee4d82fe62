/** Inside parts of tables. */
#ifndef GY_PS_PART_PART_PRIV_H
#define GY_PS_PART_PART_PRIV_H

#include "base/index.h"
#include "ps/part/part.h"
#include "ps/part/plant.h"

enum { PS_SLOTS_MAX = 2 };

/* ---- update.c ---- */

/** Arrays of state that an update keeps for each value. */
int gy_ps_update_slots(gy_ps_update update);
/** Does it count the updates of each row? */
bool gy_ps_update_counts(gy_ps_update update);

/** One application of an update to contiguous values. */
typedef struct ps_step {
    const gy_ps_table_options *table;
    double rate;   /* of this update */
    uint64_t step; /* of these values: 1 for the first update */
    void *values;
    void *state[PS_SLOTS_MAX];
    const void *gradient;
    size_t count;
} ps_step;
void gy_ps_update_apply(const ps_step *step);

/** to += from. */
void gy_ps_values_add(gy_dtype dtype, void *to, const void *from, size_t count);
/** values *= by. Whole numbers: not called. */
void gy_ps_values_scale(gy_dtype dtype, void *values, size_t count, double by);
/** The place of the first value that is not finite; `count`: there is none. */
size_t gy_ps_values_find_non_finite(gy_dtype dtype, const void *values, size_t count);

/* ---- rows.c ---- */

/** Rows, and the state of an update beside each. */
typedef struct ps_rows {
    const gy_ps_table_options *table;
    size_t row_bytes;
    int slots;
    uint64_t first, end; /* of a dense table */
    gy_index index;      /* of a sparse one: from keys to places */
    uint64_t *keys;
    uint32_t *steps; /* updates of each row of a sparse table; NULL: not counted */
    size_t count, capacity;
    uint8_t *values, *state[PS_SLOTS_MAX];
} ps_rows;

GY_MUST_CHECK gy_status gy_ps_rows_init(ps_rows *rows, const gy_ps_table_options *table,
                                        uint64_t first, uint64_t end);
void gy_ps_rows_fini(ps_rows *rows);
/** Make room for so many more rows, so that gy_ps_rows_take does not fail. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_rows_admit(ps_rows *rows, size_t count);
/** The place of a sparse row, which is made if it is not there. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_rows_take(ps_rows *rows, uint64_t key, uint32_t *place);
/** Read a row, there or not. */
void gy_ps_rows_read(const ps_rows *rows, uint64_t key, void *out);

/** A number with all bits of the key in each of its bits: keys of one stride lie apart in the
 * index, too. */
static inline uint64_t gy_ps_key_mixed(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
    return key ^ (key >> 31);
}
/** The key will be taken or read soon. */
static inline void gy_ps_rows_prefetch(const ps_rows *rows, uint64_t key)
{
    gy_index_prefetch(&rows->index, gy_index_id(gy_ps_key_mixed(key)));
}

/* ---- clock.c ---- */

typedef struct ps_worker {
    uint64_t client, number, clock;
    bool is_live, has_joined;
} ps_worker;

typedef struct ps_clocks {
    gy_ps_sync sync;
    ps_worker *workers;
    size_t capacity;
    uint32_t count;
    uint64_t closed; /* clocks that are over */
} ps_clocks;

/** Can the next clock be closed? */
bool gy_ps_clocks_may_close(const ps_clocks *clocks);
/** Are a clock's pushes held until it is over? */
static inline bool gy_ps_clocks_hold(const ps_clocks *clocks)
{
    return clocks->sync.rule == GY_PS_BSP || clocks->sync.rule == GY_PS_BACKUP;
}
bool gy_ps_clocks_are_ready(const ps_clocks *clocks, uint64_t clock, uint32_t *behind);

/* ---- held.c ---- */

typedef struct ps_held {
    struct ps_held *next;
    uint32_t worker;
    uint64_t clock;
    double rate;
    gy_ps_rows rows;
    const void *values;
    void *room;
    bool is_copy; /* the room is the part's own */
    size_t size_bytes;
} ps_held;

struct gy_ps_part {
    gy_ps_part_options options;
    char name[64], function[64];
    ps_rows rows;
    ps_clocks clocks;
    ps_held *held; /* by clock, worker and arrival */
    size_t held_bytes;
    uint64_t updates, pushes, duplicates, dropped, refused;
    /* for sums of a clock */
    uint8_t *sums, *touched;
    size_t sums_capacity, touched_capacity;
    uint32_t *places; /* of the rows of a gradient */
    size_t places_capacity;
};

/** Apply one gradient: of a push, or of a clock. Rows of a sparse table were admitted. */
GY_MUST_CHECK gy_status gy_ps_part_apply(gy_ps_part *part, const gy_ps_rows *rows,
                                         const void *values, double rate);
/** Keep a push until its clock is over. Takes push->room. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_held_add(gy_ps_part *part, const gy_ps_gradient *push);
/** The clock is over: sum its pushes in the order of workers, and apply the sum; those of
 * workers that have not made the clock are dropped. GY_NOMEM: nothing was done */
GY_MUST_CHECK gy_status gy_ps_held_close(gy_ps_part *part);
void gy_ps_held_free(const gy_ps_part *part, ps_held *held);
/** Give back the room of a push; NULL is fine. */
void gy_ps_room_release(const gy_ps_part *part, void *room);

#endif
