/**
 * Measuring which algorithm is fastest for each collective on a machine, and showing the
 * choice. Every communicator reads the resulting table (GYRE_TUNE in gyre(1)).
 */
#ifndef GYRE_TUNE_H
#define GYRE_TUNE_H

#include <gyre/base.h>
#include <gyre/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Zero fields take the defaults. */
typedef struct gy_tune_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    const char *path;   /* of the table; NULL: where communicators read it */
    double duration_s;  /* of measuring; 0: 20 */
} gy_tune_options;

/**
 * Measure links and algorithms between the ranks of `comm`, and write the table on rank 0. All
 * ranks call it, with no operation in flight. Measurements of the same machine with other
 * numbers of ranks stay in the table.
 *
 * @param report  on rank 0 becomes the findings, for people; free it with gy_string_free
 * @return GY_OK; GY_ARG one rank alone; GY_FORMAT the file exists and is no table; GY_IO; as
 * gy_allreduce
 * @cost about options->seconds; 16 MiB of memory on each rank
 */
GY_API GY_MUST_CHECK gy_status gy_tune(gy_comm *comm, const gy_tune_options *options,
                                       char **report);

/** A layout of ranks. */
typedef struct gy_tune_query {
    int ranks, hosts; /* ranks are placed on hosts in equal blocks; hosts 0: 1 */
    bool is_tcp;      /* no shared memory inside a host */
} gy_tune_query;

/**
 * Describe which algorithm each operation would use, from which size on, and why: by the table,
 * GYRE_TUNE and GYRE_COLL. Measures nothing.
 * @param text  becomes the description; free it with gy_string_free
 * @return GY_OK; GY_ARG; GY_FORMAT; GY_IO; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_tune_show(const gy_tune_query *query, char **text);

#ifdef __cplusplus
}
#endif
#endif
