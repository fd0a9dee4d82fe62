/** The contents of drawings of plans: which rank does what in which round. */
#ifndef GY_PLAN_PICTURE_PRIV_H
#define GY_PLAN_PICTURE_PRIV_H

#include "plan/plan_priv.h"

typedef enum gy_mark_kind {
    GY_MARK_MESSAGE, /* sent by `rank` in round `row`, received by `peer` in round `end_row` */
    GY_MARK_READ,    /* `rank` reads from, */
    GY_MARK_WRITE,   /* or writes to, the buffer of `peer` (GY_EVERY: of all) */
    GY_MARK_LOCAL,
    GY_MARK_POST,
    GY_MARK_WAIT,
} gy_mark_kind;

typedef struct gy_mark {
    gy_mark_kind kind;
    bool is_reduced; /* combined with the old contents instead of replacing them */
    int32_t rank, peer, row, end_row;
    int32_t first, run; /* blocks; for POST and WAIT: first is the mark */
} gy_mark;

/** Everything that a plan does, in an order that a run could have. Row 0 is before any
 * message. */
typedef struct gy_picture {
    gy_mark *marks; /* (count) */
    size_t count, capacity;
    int rows, blocks; /* rounds + 1; blocks of the vector */
} gy_picture;

/** Walk the plan. GY_LIMIT more than `most` marks; GY_STATE, GY_NOMEM as gy_plan_walk. Free
 * picture->marks in any case. */
GY_MUST_CHECK gy_status gy_picture_take(gy_plan *plan, size_t most, gy_picture *picture);

/** "3", "0-3", "all", "" for none, "slots" for whole slots. */
const char *gy_picture_blocks(const gy_picture *picture, const gy_mark *mark, char out[32]);

#endif
