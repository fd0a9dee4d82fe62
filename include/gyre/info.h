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

#ifdef __cplusplus
}
#endif
#endif
