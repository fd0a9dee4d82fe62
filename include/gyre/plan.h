/**
 * Collectives as plans: the list of algorithms, and of each one its cost on given links, a
 * proof, a drawing and a simulation, for any number of ranks and without running it.
 *
 * @source the α-β-γ model; lecture B
 */
#ifndef GYRE_PLAN_H
#define GYRE_PLAN_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Costs of links and arithmetic: a message costs alpha + bytes * beta, combining or copying
 * bytes
 * * gamma. Between hosts a byte costs beta times the topology's relative cost.
 */
typedef struct gy_links {
    double alpha, beta, gamma;   /* s, s per byte, s per byte combined or copied */
    double alpha_across;         /* s, of a message between hosts; 0: alpha */
    const double *alpha_between; /* (hosts, hosts) from, to: instead of alpha_across; NULL: all
                                    alike */
} gy_links;

/** The costs of a plan. */
typedef struct gy_plan_costs {
    int rounds;       /* in a round a rank sends at most one message and receives one */
    int depth;        /* messages or posts on the longest chain that must be in sequence */
    int64_t sent_max; /* bytes that a rank sends, or others read from it; of the busiest rank */
    int64_t received_max; /* likewise received */
    int64_t sent_sum;     /* over all ranks */
    int64_t across_sum;   /* between hosts */
    int64_t across_max;   /* bytes that leave or enter a host; of the busiest host */
    int fan_in_max;       /* ranks that a rank receives from */
    double time_s;
} gy_plan_costs;

/** Which plan; zero fields take the defaults. */
typedef struct gy_plan_query {
    const char *operation; /* "allreduce" */
    const char *algorithm; /* "ring", "servers:4" */
    int ranks;
    int hosts; /* ranks are placed on them in equal blocks; 0: one host */
    int root, chunks;
    bool is_in_place;
    int64_t bytes, element_bytes; /* of the vector; of an element (0: 4) */
    gy_links links;
    double beta_across; /* s per byte between hosts; 0: links.beta */
    const int32_t
        *host_of; /* (ranks) in [0, hosts), each host with a rank; NULL: as `hosts` says */
    const double *beta_between; /* (hosts, hosts) from, to, s per byte: instead of beta_across;
                                   NULL: all alike */
} gy_plan_query;

/** The contents of a file of links and placements. */
typedef struct gy_plan_links gy_plan_links;

/**
 * Parse such a file: text, one fact a line, in the format of `--links` in gyre(1). The table of
 * `gyre tune` is one too; its lines for messages (ring, far) and for combining count.
 *
 * @param path  for messages
 * @param links caller owns; gy_plan_links_free
 * @return GY_OK; GY_FORMAT names path and line; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_plan_links_parse(const char *text, size_t size_bytes,
                                                   const char *path, gy_plan_links **links);
/**
 * Set the links of a query, and its hosts when the file names some. `links` must outlive the
 * query. query->ranks 0 becomes the number of ranks that the file places.
 * @return GY_OK; GY_ARG the file places another number of ranks, or names hosts and places none
 */
GY_API GY_MUST_CHECK gy_status gy_plan_links_use(const gy_plan_links *links,
                                                 gy_plan_query *query);
/** NULL is fine. */
GY_API void gy_plan_links_free(gy_plan_links *links);

/** A row of the table of algorithms; static texts. */
typedef struct gy_plan_algorithm {
    const char *name;
    const char *takes; /* its parameter, behind the name: "[:NUMBER]"; "": none */
    const char *needs; /* what it moves data by: "messages", "staging" or "registered" memory */
    const char *order; /* in which it combines: "any", "rank" or "fold" */
} gy_plan_algorithm;

/** Name of the operation `index` = 0, 1, ...; NULL: the list has ended. @threads any */
GY_API const char *gy_plan_operation(int index);
/** Get the algorithm `index` of an operation; false: the list has ended, or no such operation.
 * @threads any */
GY_API bool gy_plan_algorithm_at(const char *operation, int index,
                                 gy_plan_algorithm *algorithm);

/** Count the steps of one rank: the largest of the first, the root's and the last rank's
 * counts.
 * @return GY_OK; GY_ARG unknown names (the text lists the known ones) or numbers */
GY_API GY_MUST_CHECK gy_status gy_plan_length(const gy_plan_query *query, int64_t *steps);
/** Compute the costs of a plan. @return GY_OK; GY_ARG; GY_NOMEM; @cost O(ranks * steps) */
GY_API GY_MUST_CHECK gy_status gy_plan_cost(const gy_plan_query *query, gy_plan_costs *costs);
/** Prove a plan: each result has each contribution exactly once, no deadlock, no race. @return
 * GY_OK; GY_ARG; GY_STATE names rank, step and cause; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_plan_prove(const gy_plan_query *query);

/**
 * Draw a plan as text, with rounds as rows and ranks as columns, in panels of ranks that fit
 * `width` characters; with width 0 as a self-contained SVG file.
 *
 * @param text  becomes the drawing; free it with gy_string_free
 * @return GY_OK; GY_ARG; GY_LIMIT too many ranks or steps to draw; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_plan_picture(const gy_plan_query *query, int width,
                                               char **text);

/** A rank that stops at a time. */
typedef struct gy_rank_failure {
    int rank;
    double at_s;
} gy_rank_failure;

/** The fault model of a simulation, and which links are shared; zero fields: none. */
typedef struct gy_fault_model {
    uint64_t seed;        /* of the losses */
    double loss, retry_s; /* probability that a message is lost; time until it is sent again */
    double uplink_beta;   /* s per byte of each host's uplink and downlink; 0: not shared */
    const gy_rank_failure *failures; /* (failure_count) borrowed */
    size_t failure_count;
} gy_fault_model;

/** The result of a simulation. */
typedef struct gy_simulation_result {
    double time_s; /* virtual, until the last event */
    int64_t messages, lost;
    double bytes;    /* sent */
    int ended;       /* ranks that finished */
    uint64_t digest; /* of all events with their times: equal runs have equal digests */
} gy_simulation_result;

/**
 * Simulate all ranks on a virtual clock. A pure function of its arguments. Messages use the
 * links in the order of time; the fault model says which links are shared.
 *
 * @return GY_OK; GY_ARG; GY_PEER ranks do not finish: the text names the rank that failed and
 * one that waits for it; GY_STATE a deadlock; GY_NOMEM. *result is set in each of the last
 * four.
 * @cost about 0.3 us a message on one core; memory some KB a rank
 */
GY_API GY_MUST_CHECK gy_status gy_plan_simulate(const gy_plan_query *query,
                                                const gy_fault_model *faults,
                                                gy_simulation_result *result);

#ifdef __cplusplus
}
#endif
#endif
