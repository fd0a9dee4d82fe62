/**
 * From a graph to what the manager takes: checked, cut into tasks (a vertex, or a cohort of
 * vertices joined by pipes and FIFOs), in columns. Pure. Growth goes through the same functions
 * with what is new alone.
 */
#ifndef GY_FLOW_LOWER_H
#define GY_FLOW_LOWER_H

#include "flow/dag.h"
#include "sched/job.h"

/** What was lowered so far; zero at first. Columns are of all vertices and tasks. */
typedef struct gy_lowering {
    uint32_t *edge_first; /* (vertices + 1) its inputs: a range of dag->edges, in order */
    size_t edge_first_capacity;
    uint32_t *task; /* (vertices) */
    size_t task_capacity;
    uint32_t *members; /* (member_count) task by task, rising; a gang over hosts stands there
                          once for each of its ranks */
    size_t members_capacity;
    uint32_t member_count;
    bool is_over_hosts;     /* set by who lowers: gangs that ask for hosts get them */
    uint32_t *member_first; /* (tasks + 1) */
    size_t member_first_capacity;
    uint32_t task_count;
    /* from here on it is new */
    size_t vertex_floor, edge_floor, final_floor, refinement_floor;
} gy_lowering;

void gy_lowering_fini(gy_lowering *lowering);

/**
 * Look at what is new in the graph: sorts its edges by (to, input), makes edge_first.
 *
 * @return GY_OK; GY_ARG names vertex and port: an input without an edge or with two, an output
 * that goes nowhere, a pipe with two readers, a cycle; or the mistake that the dag keeps;
 * GY_NOMEM
 * @cost O(vertices + edges)
 */
GY_MUST_CHECK gy_status gy_lower_check(gy_lowering *lowering, gy_dag *dag);

/**
 * Group the new vertices into tasks of at most `width_max` members: makes task, members,
 * member_first. Pipes that do not fit become files: of a cohort that is too wide those of the
 * fewest expected bytes, of one that waits for itself through a file all.
 *
 * @param cut_count how many pipes became files
 */
GY_MUST_CHECK gy_status gy_lower_cohorts(gy_lowering *lowering, gy_dag *dag, uint32_t width_max,
                                         size_t *cut_count);

/** What the new tasks' keys stand on, beside the graph. */
typedef struct gy_lower_source {
    /* Of a prototype: its key, and whether its result may be kept for later jobs; external
     * bytes. */
    void (*proto)(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key, bool *is_kept,
                  int64_t *bytes);
    void *arg;
    /* Optional: names of hosts where its vertices would best run, and whether they must be
     * there; NULL: anywhere. As long as the growth lives. */
    const char *(*places)(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned);
} gy_lower_source;

/**
 * The new tasks and their edges for the manager; then they are new no more.
 *
 * @return GY_OK; GY_UNSUPPORTED a vertex with pipes or FIFOs must be on some hosts; GY_NOMEM
 * @param growth  its arrays are the caller's: gy_growth_free
 */
GY_MUST_CHECK gy_status gy_lower_growth(gy_lowering *lowering, const gy_dag *dag,
                                        const gy_lower_source *source, gy_growth *growth);
void gy_growth_free(gy_growth *growth);

/** Ranks that a vertex has as members of its task: of a gang over hosts; else 1. */
uint32_t gy_lower_ranks(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex);
/** Number of a member in its task. @cost O(log width) */
uint32_t gy_lower_member(const gy_lowering *lowering, uint32_t vertex);
/** Number of output 0 of the vertex among its task's outputs. @cost O(members before it) */
uint32_t gy_lower_output(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex);
/** The final outputs of a vertex: a range of dag->finals. */
void gy_lower_finals(const gy_dag *dag, uint32_t vertex, size_t *first, size_t *count);

/**
 * The cycles of the graph of tasks (of vertices when `task` is NULL) among what is new.
 *
 * @param component (new nodes) of a node that can reach itself: a number from 1, the same for
 * all that reach each other; else 0
 * @param count how many such components there are
 * @cost O(vertices + edges)
 */
GY_MUST_CHECK gy_status gy_lower_cycles(const gy_lowering *lowering, const gy_dag *dag,
                                        const uint32_t *task, uint32_t *component,
                                        uint32_t *count);

#endif
