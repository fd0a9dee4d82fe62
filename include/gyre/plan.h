/**
 * Collectives as plans: which algorithms there are, what they cost on given links, a proof, a
 * drawing and a simulation of each, at any number of ranks and without running it.
 */
#ifndef GYRE_PLAN_H
#define GYRE_PLAN_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Links and arithmetic: one message costs alpha + bytes * beta, combining or copying bytes *
 * gamma. Between hosts a byte costs beta times the topology's relative cost.
 */
typedef struct gy_links {
    double alpha, beta, gamma;   /* s, s per byte, s per byte combined or copied */
    double alpha_across;         /* s, of a message between hosts; 0: alpha */
    const double *alpha_between; /* (hosts, hosts) from, to: instead of alpha_across; NULL: all
                                    alike */
} gy_links;

/** What a plan costs. */
typedef struct gy_plan_costs {
    int rounds;       /* a rank sends one message and takes one message a round */
    int depth;        /* messages or posts that must follow each other, however many at once */
    int64_t sent_max; /* bytes a rank sends (or others read from it), the most of any rank */
    int64_t received_max; /* likewise received */
    int64_t sent_sum;     /* over all ranks */
    int64_t across_sum;   /* between hosts */
    int64_t across_max;   /* the most that leaves a host, or enters it */
    int fan_in_max;       /* ranks that one rank gets data from */
    double time_s;
} gy_plan_costs;

/** A plan in words; zero fields are the defaults. */
typedef struct gy_plan_query {
    const char *operation; /* "allreduce" */
    const char *algorithm; /* "ring", "servers:4" */
    int ranks;
    int hosts; /* ranks are dealt to them in equal blocks; 0: one host */
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

/** What a file says of links and of where ranks are. */
typedef struct gy_plan_links gy_plan_links;

/**
 * Read it: text, one fact a line, as gyre(1) has it under `--links`; also the table of `gyre
 * tune`, whose lines for messages (ring, far) and for combining count.
 *
 * @param path  stands in messages
 * @return GY_OK, caller frees *links; GY_FORMAT names path and line; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_plan_links_parse(const char *text, size_t size_bytes,
                                                   const char *path, gy_plan_links **links);
/**
 * Let a query use them: links, and hosts where the file names some; `links` must outlive it.
 * query->ranks 0 becomes the number of ranks that are placed.
 * @return GY_OK; GY_ARG the file places another number of ranks, or none and names hosts
 */
GY_API GY_MUST_CHECK gy_status gy_plan_links_use(const gy_plan_links *links,
                                                 gy_plan_query *query);
GY_API void gy_plan_links_free(gy_plan_links *links);

/** A row of the table of algorithms; static texts. */
typedef struct gy_plan_algorithm {
    const char *name;
    const char *takes; /* what may follow the name: "[:NUMBER]", "" nothing */
    const char *needs; /* "messages", "staging" or "registered" memory */
    const char *order; /* of combining: "any", "rank" or "fold" */
} gy_plan_algorithm;

/** Name of the operation `index` = 0, 1, ...; NULL: there are no more. @threads any */
GY_API const char *gy_plan_operation(int index);
/** The algorithm `index` of an operation; false: there are no more, or no such operation.
 * @threads any */
GY_API bool gy_plan_algorithm_at(const char *operation, int index,
                                 gy_plan_algorithm *algorithm);

/** Steps that one rank of the plan has, the most of the first, the root and the last rank.
 * @return GY_OK; GY_ARG bad names (the text lists those there are) or numbers */
GY_API GY_MUST_CHECK gy_status gy_plan_length(const gy_plan_query *query, int64_t *steps);
/** Price it. @return GY_OK; GY_ARG; GY_NOMEM; @cost O(ranks * steps) */
GY_API GY_MUST_CHECK gy_status gy_plan_cost(const gy_plan_query *query, gy_plan_costs *price);
/** Prove it: each contribution exactly once, no deadlock, no race. @return GY_OK; GY_ARG;
 * GY_STATE names rank, step and cause; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_plan_prove(const gy_plan_query *query);

/**
 * Draw it as text, rounds as rows and ranks as columns, in panels of ranks that fit `width`
 * characters; or, with width 0, as a self-contained SVG file.
 *
 * @param text  becomes the drawing; free it with gy_plan_text_free
 * @return GY_OK; GY_ARG; GY_LIMIT more than can be drawn; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_plan_picture(const gy_plan_query *query, int width,
                                               char **text);
GY_API void gy_plan_text_free(char *text);

/** A rank stops at a time. */
typedef struct gy_rank_failure {
    int rank;
    double at_s;
} gy_rank_failure;

/** What is shared, and what goes wrong; zero fields: nothing. */
typedef struct gy_fault_model {
    uint64_t seed; /* of the losses */
    double loss,
        retry_s; /* chance that a message is lost, in [0, 1]; s until it is sent again */
    double
        uplink_beta; /* s per byte of the link that each host has up, and down; 0: not shared */
    const gy_rank_failure *failures; /* (failure_count) borrowed */
    size_t failure_count;
} gy_fault_model;

/** What came of it. */
typedef struct gy_simulation_result {
    double time_s; /* virtual; until the last thing that happened */
    int64_t messages, lost;
    double bytes;    /* sent */
    int ended;       /* ranks that came to their end */
    uint64_t digest; /* two runs share it only if the same happened at the same times */
} gy_simulation_result;

/**
 * Let all ranks run on a virtual clock: a function of its arguments. Links are used in the
 * order of time, and shared where the fault model says so.
 *
 * @return GY_OK; GY_ARG; GY_PEER ranks do not end, the text names the rank that failed and one
 * that waits for it; GY_STATE a deadlock; GY_NOMEM. *result is set in each of the last four.
 * @cost about 0.3 us a message on one core; memory some KB a rank
 */
GY_API GY_MUST_CHECK gy_status gy_plan_simulate(const gy_plan_query *query,
                                                const gy_fault_model *faults,
                                                gy_simulation_result *result);

#ifdef __cplusplus
}
#endif
#endif
