/**
 * Placement: what each node can do, what changes of placement cost, which of it costs least in
 * all, and the graph that follows.
 */
#ifndef GY_GRAPH_PLACE_PLACE_PRIV_H
#define GY_GRAPH_PLACE_PLACE_PRIV_H

#include "graph/graph.h"

/** Where a value lives along every axis of the mesh. */
typedef struct gy_spot {
    gy_placement along[GY_MESH_MAX];
} gy_spot;

enum {
    GY_PRICE_POINTS = 16,
    GY_ROUTE_MAX = 3 * GY_MESH_MAX /* single moves from one spot to another */
};

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
/** Seconds of a change of placement that makes no Partial, of a value of which the ranks of the
 * axis share `bytes`. */
double gy_place_price_step(gy_prices *prices, gy_placement from, gy_placement to, double bytes,
                           int ranks);

/** Values of one type, among which the same moves cost the same. */
typedef struct gy_kin {
    gy_type type;   /* its placement is not looked at */
    bool is_fill;   /* a fill is made again where it is wanted */
    gy_spot *spots; /* where some node of the graph may have or want such a value */
    int32_t spot_count;
    size_t spot_capacity;
    double *seconds; /* [from][to] of spots; negative: not asked yet */
} gy_kin;

/** What one node can do: one line a choice. */
typedef struct gy_candidates {
    int32_t count, operands; /* operands: inputs, then outputs */
    double *cost_s;    /* [choice] of the busiest rank, and for what it holds of the outputs */
    int32_t *spots;    /* [choice][operand], a number among its kin's spots */
    bool *is_expanded; /* [choice] the node's expansion does it */
} gy_candidates;

/** The spots of one choice's operands. */
static inline int32_t *gy_candidate_spots(const gy_candidates *all, int32_t choice)
{
    return all->spots + (size_t)choice * (size_t)all->operands;
}

/** A value that was brought to another spot, kept for its next user. */
typedef struct gy_moved {
    gy_spot to;
    gy_value value; /* of the new graph */
    struct gy_moved *next;
} gy_moved;

/** Which nodes use which value, each once: list[first[v] .. first[v + 1]). */
typedef struct gy_users {
    int32_t *first, *list;
} gy_users;

/** What nodes of a kind can do along one axis once they are expanded. */
typedef struct gy_expansion {
    int32_t node;  /* one of the kind */
    int axis, dim; /* what is cut: a dimension of the first input */
    bool is_possible;
    gy_signature signature;
    double seconds; /* of the busiest rank along this axis, exchanges too; no other axis cuts */
} gy_expansion;

typedef struct gy_placer {
    gy_pass pass;
    gy_prices prices[GY_MESH_MAX]; /* those of another search of the mesh may be given */
    uint32_t
        *rows; /* value number of `in` -> bits of the dimensions that are rows of a batch */
    gy_users users;
    int32_t *kin_of; /* value number -> its kin */
    gy_kin *kins;
    int32_t kin_count;
    size_t kin_capacity;
    gy_candidates *candidates; /* of each node of `in`; nodes alike share their arrays */
    double *exposure;          /* value number -> the share of its moves that no work hides */
    /* Types of parameters that are pinned, and no rows of the batch: what has their sizes, such
       as their gradients, may be cut as they are. */
    const gy_type **pinned;
    int32_t pinned_count;
    bool may_expand; /* nodes may run as their expansions */
    gy_expansion *expansions;
    int32_t expansion_count;
    size_t expansion_capacity;
    bool keeps_all;   /* choices that cost more than others are kept, for tests */
    int32_t *chosen;  /* node -> its choice */
    gy_spot *kept;    /* value number -> where it is kept for its users */
    double byte_s;    /* the mesh's, which the search adds to times */
    double cost_s;    /* of all choices and moves, as the search reckons it */
    double time_s;    /* the same without the price of memory */
    gy_moved **moved; /* value number of `in` -> what there is; the first is as produced */
    gy_arena arena;
} gy_placer;

static inline bool gy_placement_is(gy_placement a, gy_placement b)
{
    return a.kind == b.kind && (a.kind == GY_SHARD     ? a.dim == b.dim && a.bounds == b.bounds
                                : a.kind == GY_PARTIAL ? a.reduction == b.reduction
                                                       : true);
}

/** Equal along all axes of the mesh. */
bool gy_spot_is(const gy_mesh *mesh, const gy_spot *a, const gy_spot *b);

/* ---- rows.c ---- */

/**
 * Fill in placer->rows of a node's outputs, nodes taken in order, from the signatures of its
 * row.
 */
void gy_placer_mark_rows(gy_placer *placer, int32_t index, const gy_signature *signatures,
                         int count);
/** May the axis, by its kind, run the node so? */
bool gy_placer_allows(const gy_placer *placer, const gy_graph_node *node, int axis,
                      const gy_signature *signature);
/** Is a parameter of these sizes pinned so along the axis? */
bool gy_placer_is_like_pinned(const gy_placer *placer, const gy_type *type, int axis,
                              gy_placement to);

/* ---- route.c ---- */

/** One exchange, or one local step, along one axis. */
typedef struct gy_route_step {
    int axis;
    gy_placement to;
} gy_route_step;

/** A way from one spot to another. */
typedef struct gy_route {
    gy_route_step steps[GY_ROUTE_MAX];
    int count;
    double seconds; /* INFINITY: there is none, count is 0 */
} gy_route;

/** The cheapest way for a value of kin `of`. */
gy_route gy_route_find(gy_placer *placer, const gy_kin *of, const gy_spot *from,
                       const gy_spot *to);
/** The same between spots of a kin, remembered. */
double gy_kin_route(gy_placer *placer, int32_t kin, int32_t from, int32_t to);
/** What the mesh adds, in seconds, for what the busiest rank holds of such a value there. */
double gy_kin_held(const gy_placer *placer, int32_t kin, int32_t spot);
/** The number of a spot among its kin's, added when it is new. GY_NOMEM. */
gy_status gy_kin_spot(gy_placer *placer, int32_t kin, const gy_spot *spot, int32_t *number);
/** Find or make the kin of every value: placer->kin_of. */
gy_status gy_kins_list(gy_placer *placer);
/** Room for what routes cost, when no more spots are added. */
gy_status gy_kins_close(gy_placer *placer);

/* ---- candidates.c ---- */

/** All that each node can do: placer->candidates, placer->rows. */
gy_status gy_candidates_list(gy_placer *placer);
/** What the mesh adds for the outputs of node `index` at these spots of its operands. */
double gy_candidates_held(const gy_placer *placer, int32_t index, const int32_t *spots);

/* ---- pins.c ---- */

/** Is the node one that pins its value along the axis? */
bool gy_placer_is_pinned(const gy_graph_node *node, int axis);
/** Does a pin allow its value there? True of other nodes. */
bool gy_placer_pin_holds(const gy_mesh *mesh, const gy_graph_node *node, const gy_spot *spot);
/** May the value of pin `index`, whose rows are known, be kept so along the axis? GY_ARG says
 * why not. */
gy_status gy_placer_check_pin(const gy_placer *placer, int32_t index, int axis);
/** GY_ARG: a pin that no way leads to. GY_OK: there is none. */
gy_status gy_placer_refuse_pins(gy_placer *placer);

/* ---- expansion.c ---- */

/**
 * What node `index` of placer->pass.in, whose row has an expansion, can do along `axis` with
 * dimension `dim` of its first input cut; tried once for nodes alike.
 * @return GY_OK; GY_NOMEM; what building the expansion fails with
 */
gy_status gy_expansion_find(gy_placer *placer, int32_t index, int axis, int dim,
                            gy_expansion *found);

/* ---- place.c ---- */

/** Choices and spots for the graph of placer->pass. gy_placer_free in any case. */
gy_status gy_placer_decide(gy_placer *placer);
void gy_placer_free(gy_placer *placer);

/* ---- search.c ---- */

/** Decide placer->chosen and placer->kept. */
gy_status gy_search(gy_placer *placer);

#endif
