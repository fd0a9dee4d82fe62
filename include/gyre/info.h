/**
 * What this machine is and what Gyre found on it, for people to read.
 */
#ifndef GYRE_INFO_H
#define GYRE_INFO_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * CPU, cores, caches and instruction sets as lines "name: value" into `out`, cut to size_bytes
 * with its NUL (2048 are enough). Returns `out`. @threads any
 */
GY_API const char *gy_info_machine(char *out, size_t size_bytes);

/**
 * The libraries that kernels stand on, with versions and the BLAS kernel chosen, in the same
 * form; one that cannot be opened says why. Opens them. @threads any
 */
GY_API const char *gy_info_libraries(char *out, size_t size_bytes);

/** Cores worth of work this process can do: its cpuset, cut by the control group's quota. At
 * least 1. @threads any */
GY_API int gy_info_cores(void);

/** The names of all environment variables that Gyre reads or sets for ranks, NULL at the end.
 */
GY_API extern const char *const gy_info_settings[];

/**
 * Look at the environment variables before anything depends on them.
 * @return GY_OK; GY_ARG one holds what it cannot hold: names it, the value and what was
 * expected
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_info_check_settings(void);

#ifdef __cplusplus
}
#endif
#endif
