/**
 * What the files of `gyre plan` share.
 */
#ifndef GY_CLI_PLANS_PLAN_H
#define GY_CLI_PLANS_PLAN_H

#include "cli/options.h"

#include <gyre/pipe.h>
#include <gyre/plan.h>

/** How `gyre plan table` prints. */
typedef struct gy_table_format {
    bool is_csv, has_all; /* has_all: also algorithms over the memory of one host */
    double rate;          /* exchanges a second, for the bandwidth of one server */
    double steps_most;    /* of the longest rank, times ranks: rows with more are not priced */
} gy_table_format;

/** The table of all algorithms of query->operation. */
GY_MUST_CHECK gy_status gy_cli_print_plan_table(const gy_plan_query *query,
                                                const gy_table_format *format);

/** What `gyre plan pipe` shall do. */
typedef struct gy_pipe_request {
    gy_pipe_query query;
    const char *costs, *lists, *read, *svg; /* NULL: not given */
    int width;
    long long bytes; /* of a transfer */
} gy_pipe_request;

/** Plan or read lists, then draw and cost or print them. Returns the exit status. */
int gy_cli_plan_pipe(const gy_pipe_request *request);

/** "97.5 MB" of bytes into `out`; returns it. */
const char *gy_cli_bytes_text(double bytes, char out[32]);

#endif
