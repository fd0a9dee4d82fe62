/**
 * Measuring which algorithm each collective takes on a machine, and showing the choice. The
 * table that comes of it is read by every communicator (GYRE_TUNE in gyre(1)).
 */
#ifndef GYRE_TUNE_H
#define GYRE_TUNE_H

#include <gyre/base.h>
#include <gyre/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Zero fields are the defaults. */
typedef struct gy_tune_options {
    const char *path;  /* of the table; NULL: where communicators look for it */
    double duration_s; /* to measure for; 0: 20 */
} gy_tune_options;

/**
 * Measure links and algorithms between the ranks of `comm`, all of which call it with nothing
 * in flight, and write the table on rank 0. What was measured before with other numbers of
 * ranks on the same machine stays.
 *
 * @param report  on rank 0 becomes what was found, for people; free it with gy_tune_text_free
 * @return GY_OK; GY_ARG one rank alone; GY_FORMAT the file is there and no table; GY_IO; as
 * gy_allreduce
 * @cost about options->seconds; 16 MiB of memory on each rank
 */
GY_API GY_MUST_CHECK gy_status gy_tune(gy_comm *comm, const gy_tune_options *options,
                                       char **report);

/** Ranks as they might run. */
typedef struct gy_tune_query {
    int ranks, hosts; /* dealt to hosts in equal blocks; hosts 0: 1 */
    bool is_tcp;      /* no shared memory inside a host */
} gy_tune_query;

/**
 * What every operation would take, from which size on, and why; as the table, GYRE_TUNE and
 * GYRE_COLL have it. Nothing is measured.
 * @param text  free it with gy_tune_text_free
 * @return GY_OK; GY_ARG; GY_FORMAT; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_tune_show(const gy_tune_query *query, char **text);
GY_API void gy_tune_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
