/** Placement: what changes of placement cost and how they are made. */
#ifndef GY_GRAPH_PLACE_PRIV_H
#define GY_GRAPH_PLACE_PRIV_H

#include "graph/graph.h"

/** A value that was brought to another placement, kept for its next user. */
typedef struct gy_moved {
    gy_placement to;
    gy_value value; /* of the new graph */
    struct gy_moved *next;
} gy_moved;

enum { GY_PRICE_POINTS = 16 };

/** Seconds of exchanges along one mesh axis, priced when first asked for. */
typedef struct gy_prices {
    gy_links links;
    int ranks;
    double seconds[GY_OPERATION_COUNT][GY_PRICE_POINTS]; /* 0: not asked yet */
    gy_status status; /* of pricing: what failed costs INFINITY */
} gy_prices;

/** `links` zero: those of one host. */
void gy_prices_init(gy_prices *prices, int ranks, const gy_links *links);
/** Seconds of the best plan for `operation` over a whole vector of `bytes`. */
double gy_price_exchange(gy_prices *prices, gy_operation operation, double bytes);
/** Seconds to copy `bytes` here. */
double gy_price_copy(const gy_prices *prices, double bytes);

/** What one node can do along the axis that is being decided. */
typedef struct gy_candidates {
    gy_signature *list; /* the first: all replicated */
    int count;
    double *work_s; /* of the busiest rank, for each signature */
} gy_candidates;

typedef struct gy_placer {
    gy_pass pass;
    int axis, ranks;   /* the mesh axis that is being decided */
    gy_prices *prices; /* along it */
    uint32_t
        *rows; /* value number of `in` -> bits of the dimensions that are rows of a batch */
    gy_candidates *candidates; /* of each node of `in` */
    /* Types of parameters that are pinned along this axis: what has their sizes, such as their
       gradients, may be cut as they are. */
    const gy_type **pinned;
    int32_t pinned_count;
    gy_moved **moved; /* value number of `in` -> what there is; the first is as produced */
    gy_arena arena;
} gy_placer;

static inline bool gy_placement_is(gy_placement a, gy_placement b)
{
    return a.kind == b.kind && (a.kind == GY_SHARD     ? a.dim == b.dim && a.bounds == b.bounds
                                : a.kind == GY_PARTIAL ? a.reduction == b.reduction
                                                       : true);
}

/**
 * The signatures of a node's row that the axis allows, nodes taken in order; fills in
 * placer->rows of its outputs.
 * @param signatures  GY_OP_SIGNATURES_MAX of them
 * @return how many; above GY_OP_SIGNATURES_MAX: the row has too many, none is written beyond
 */
int gy_placer_signatures(gy_placer *placer, int32_t index, gy_signature *signatures);

/** Seconds to bring a value from one placement to another; INFINITY when it cannot be. */
double gy_move_cost(const gy_placer *placer, const gy_type *type, gy_placement from,
                    gy_placement to, bool is_fill);
/** The same from the cheapest of what there is of a placed value of `in`. */
double gy_move_cost_of(const gy_placer *placer, gy_value in, gy_placement to);
/** The value of `in` in placement `to`: found, or made by collectives. */
gy_status gy_move(gy_placer *placer, gy_value in, gy_placement to, gy_value *out);
/** Keep that `out` is `in` placed as `to`. */
gy_status gy_move_note(gy_placer *placer, gy_value in, gy_placement to, gy_value out);

#endif
