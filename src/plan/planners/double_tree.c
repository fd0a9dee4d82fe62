/*
 * Two binary trees below one root: each carries half of the vector, and whoever is inside one
 * tree is a leaf of the other, so that all links are used where a single tree leaves its leaves
 * idle. The seven ranks below the root of eight, as places in each tree:
 *
 *   first      0              second     1           an odd number: the first, moved by one;
 *              4                         5           an even one: the first seen from the other
 *          2       6                 3       0       end
 *         1 3     5                 2 4     6
 *
 * Each half goes up in chunks to the root and, for allreduce, down again. Sums are not in the
 * order of the ranks. In a round of its schedule (tree.c) a rank sends as much as it takes: as
 * an inner place two blocks from below and one from above, as a leaf of the other tree one.
 *
 * cost: with k chunks a tree and h = ceil(log2 p): broadcast, reduce 2 (k + h) (a + n b / 2k),
 * near n b; allreduce near 2 n b. A rank sends at most n bytes up and n down, and takes as
 * much, however many ranks there are.
 *
 * source: Sanders, Speck, Traeff: "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", Parallel Computing 2009
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum { CHILDREN = 2 };

/* A place in one of the trees; -1: none. */
typedef struct tree_place {
    int parent, children[CHILDREN];
} tree_place;

/* The in-order tree over places 0 .. places - 1: 0 is the root, and a place with lowest set
 * bit b is the parent of the two places at distance b/2. */
static tree_place place_in_order(int places, int place)
{
    tree_place spot = {.parent = -1, .children = {-1, -1}};
    int bit = 1;
    if (place == 0) {
        while (bit < places) {
            bit *= 2;
        }
        spot.children[0] = places > 1 ? bit / 2 : -1;
        return spot;
    }
    while ((place & bit) == 0) {
        bit *= 2;
    }
    spot.parent = (place ^ bit) | (bit * 2);
    if (spot.parent >= places) {
        spot.parent = place ^ bit;
    }
    int step = bit / 2;
    /* the last place may cut off the right subtree */
    while (step > 0 && place + step >= places) {
        step /= 2;
    }
    spot.children[0] = bit > 1 ? place - bit / 2 : -1;
    spot.children[1] = step > 0 ? place + step : -1;
    return spot;
}

/* The second tree is the first one mirrored, or shifted by one place. */
static int turn(int places, int tree, int place, int sign)
{
    if (tree == 0 || place < 0) {
        return place;
    }
    return places % 2 == 0 ? places - 1 - place : (place + sign + places) % places;
}

static int rank_at(const gy_plan_request *request, int tree, int place)
{
    int turned = turn(request->ranks - 1, tree, place, 1);
    return turned < 0 ? -1 : (turned + request->root + 1) % request->ranks;
}

/* The depth of an in-order tree. */
static int depth_of(int places)
{
    int depth = 1;
    for (int bit = 1; bit < places; bit *= 2) {
        depth++;
    }
    return depth;
}

/* The trees contain all ranks but the root, which is above both. */
static gy_tree_plan plan_of(const gy_plan_request *request, int rank,
                            int32_t children[GY_TREES][CHILDREN], gy_plan_sink *sink)
{
    gy_tree_plan plan = {.request = request,
                         .sink = sink,
                         .rank = rank,
                         .trees = GY_TREES,
                         .top = request->root,
                         .deepest = depth_of(request->ranks - 1)};
    int places = request->ranks - 1;
    int from_root = (rank - request->root - 1 + request->ranks) % request->ranks;
    for (int tree = 0; tree < GY_TREES; tree++) {
        gy_tree_spot *spot = &plan.spots[tree];
        tree_place place = {.parent = -1, .children = {places > 0 ? 0 : -1, -1}};
        spot->parent = -1;
        if (rank != request->root) {
            place = place_in_order(places, turn(places, tree, from_root, -1));
            int parent = rank_at(request, tree, place.parent);
            spot->parent = parent < 0 ? request->root : parent;
            spot->depth = 1;
            for (int above = place.parent; above >= 0;
                 above = place_in_order(places, above).parent) {
                spot->depth++;
            }
        }
        spot->children = children[tree];
        for (int i = 0; i < CHILDREN; i++) {
            if (place.children[i] >= 0) {
                children[tree][spot->child_count++] = rank_at(request, tree, place.children[i]);
            }
        }
    }
    return plan;
}

gy_status gy_plan_double_tree_allreduce(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    int32_t children[GY_TREES][CHILDREN];
    gy_tree_plan plan = plan_of(request, rank, children, sink);
    return gy_plan_trees_allreduce(&plan);
}

gy_status gy_plan_double_tree_broadcast(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    int32_t children[GY_TREES][CHILDREN];
    gy_tree_plan plan = plan_of(request, rank, children, sink);
    return gy_plan_trees_broadcast(&plan);
}

gy_status gy_plan_double_tree_reduce(const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink)
{
    int32_t children[GY_TREES][CHILDREN];
    gy_tree_plan plan = plan_of(request, rank, children, sink);
    return gy_plan_trees_reduce(&plan);
}
