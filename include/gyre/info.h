/**
 * Descriptions of this machine and of the libraries that Gyre found on it, for people.
 */
#ifndef GYRE_INFO_H
#define GYRE_INFO_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Describe CPU, cores, caches and instruction sets as lines "name: value".
 * @param out  cut to size_bytes with its NUL; 2048 are enough
 * @return `out`
 * @threads any
 */
GY_API const char *gy_info_machine(char *out, size_t size_bytes);

/**
 * Describe the libraries that the kernels use, with their versions and the BLAS kernel, in the
 * same form; the line of a library that cannot be opened has the reason. Opens the libraries.
 * @return `out`
 * @threads any
 */
GY_API const char *gy_info_libraries(char *out, size_t size_bytes);

/** What a device has done since it was opened. */
typedef struct gy_device_counts {
    uint64_t kernels;  /* that it was given, products among them */
    uint64_t launches; /* calls that gave it one kernel, or many at once */
    uint64_t graphs;   /* of these, many at once */
    uint64_t copies_there, copies_back;
    uint64_t bytes_there, bytes_back;
} gy_device_counts;

/**
 * Describe the devices that this process may compute on, in the same form: name, memory,
 * compute capability, version of the driver; or why there are none. GYRE_DEVICE chooses which
 * are shown. Opens the driver and asks it (up to a second where devices are).
 * @return `out`
 * @threads any
 */
GY_API const char *gy_info_devices(char *out, size_t size_bytes);
/**
 * Check words that say which devices ranks take, as GYRE_DEVICE has them: none, auto, or
 * numbers from 0 to 999 with commas between. Opens nothing.
 * @param name     of the option, for the message
 * @param devices  NULL is fine
 * @return GY_OK; GY_ARG other words: names option, words and what was expected
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_info_check_devices(const char *name, const char *devices);

/** How many cores this process can use: its cpuset, limited by the control group's quota; >= 1.
 * @threads any */
GY_API int gy_info_cores(void);

/** The names of all environment variables that Gyre reads or sets for ranks, NULL at the end.
 */
GY_API extern const char *const gy_info_settings[];

/**
 * Check the values of all environment variables that Gyre reads.
 * @return GY_OK; GY_ARG a wrong value: names the variable, the value and what was expected
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_info_check_settings(void);

#ifdef __cplusplus
}
#endif
#endif
