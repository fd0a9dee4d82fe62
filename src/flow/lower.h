/**
 * Lowering: turns a graph into the columns that the manager takes. It checks the graph and
 * groups its vertices into tasks (one vertex, or a cohort of vertices that pipes and FIFOs
 * connect). Pure. After a refinement the same functions lower the new vertices alone.
 */
#ifndef GY_FLOW_LOWER_H
#define GY_FLOW_LOWER_H

#include "flow/dag.h"
#include "sched/job.h"

/** The graph as lowered so far; zero at first. Columns cover all vertices and tasks. */
typedef struct gy_lowering {
    /* (vertices + 1) a vertex's inputs: a range of dag->edges, in order */
    uint32_t *edge_first;
    size_t edge_first_capacity;
    uint32_t *task; /* (vertices) */
    size_t task_capacity;
    /* (member_count) vertices, ordered by task, ascending; a gang over hosts has an entry for
     * each of its ranks */
    uint32_t *members;
    size_t members_capacity;
    uint32_t member_count;
    /* the caller sets it where gangs that request several hosts can get them */
    bool is_over_hosts;
    uint32_t *member_first; /* (tasks + 1) */
    size_t member_first_capacity;
    uint32_t task_count;
    /* items from these numbers on are new */
    size_t vertex_floor, edge_floor, final_floor, refinement_floor;
} gy_lowering;

void gy_lowering_fini(gy_lowering *lowering);

/**
 * Check the new vertices and edges; sorts the edges by (to, input) and makes edge_first.
 *
 * @return GY_OK; GY_ARG names vertex and port: an input without an edge or with two, an output
 * that goes nowhere, a pipe with two readers, a cycle; or the error that the dag recorded;
 * GY_NOMEM
 * @cost O(vertices + edges)
 */
GY_MUST_CHECK gy_status gy_flow_lower_check(gy_lowering *lowering, gy_dag *dag);

/**
 * Group the new vertices into tasks of at most `width_max` members: makes task, members and
 * member_first. Some pipes become files: in a cohort that is too wide those with the fewest
 * expected bytes; in a cohort that would wait for itself through a file all of them.
 *
 * @param cut_count how many pipes became files
 */
GY_MUST_CHECK gy_status gy_flow_lower_cohorts(gy_lowering *lowering, gy_dag *dag,
                                              uint32_t width_max, size_t *cut_count);

/** What the keys of the new tasks depend on besides the graph. */
typedef struct gy_lower_source {
    /* Gives a prototype's key, whether its result may be memoised, and the total size of its
     * input files from outside the graph. */
    void (*proto)(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key, bool *is_kept,
                  int64_t *bytes);
    void *arg;
    /* Optional: the hosts that a prototype's vertices prefer, and whether they must run there;
     * NULL: anywhere. The text must live as long as the growth. */
    const char *(*places)(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned);
} gy_lower_source;

/**
 * Give the new tasks and their edges to the manager; afterwards they no longer count as new.
 *
 * @return GY_OK; GY_UNSUPPORTED a vertex with pipes or FIFOs is restricted to some hosts;
 *     GY_NOMEM
 * @param growth  the caller frees its arrays with gy_flow_growth_free
 */
GY_MUST_CHECK gy_status gy_flow_lower_growth(gy_lowering *lowering, const gy_dag *dag,
                                             const gy_lower_source *source, gy_growth *growth);
void gy_flow_growth_free(gy_growth *growth);

/** How many members of its task a vertex stands for: its number of ranks in a gang over hosts;
 * else 1. */
uint32_t gy_flow_lower_ranks(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex);
/** The number of a vertex among the members of its task. @cost O(log width) */
uint32_t gy_flow_lower_member(const gy_lowering *lowering, uint32_t vertex);
/** The number of the vertex's output 0 among its task's outputs. @cost O(members before it) */
uint32_t gy_flow_lower_output(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex);
/** The final outputs of a vertex: a range of dag->finals. */
void gy_flow_lower_finals(const gy_dag *dag, uint32_t vertex, size_t *first, size_t *count);

/**
 * Find the cycles among the new tasks (among the new vertices when `task` is NULL).
 *
 * @param component (new nodes) becomes the number of the node's strongly connected component,
 *     from 1, if the node can reach itself; else 0
 * @param count becomes the number of such components
 * @cost O(vertices + edges)
 */
GY_MUST_CHECK gy_status gy_flow_lower_cycles(const gy_lowering *lowering, const gy_dag *dag,
                                             const uint32_t *task, uint32_t *component,
                                             uint32_t *count);

#endif
