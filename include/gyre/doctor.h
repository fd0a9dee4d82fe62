/**
 * Looking at a run from outside, live or after a crash: what `gyre doctor` does.
 */
#ifndef GYRE_DOCTOR_H
#define GYRE_DOCTOR_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_doctor_options {
    int process;      /* of a live run: its launcher, keeper or a rank; 0: the only run here */
    const char *file; /* what a run left (gyre run --record) instead */
    bool is_json;
} gy_doctor_options;

/**
 * Say on standard output what each rank of a run on this host does, who waits for whom and
 * why, and who enters late. Runs of other users are not to be seen. With neither process nor
 * file and several runs, lists them (a failure when JSON was asked for).
 *
 * @return 0 said; 1 there is no such run, or its records cannot be read, said on standard error
 * @threads any
 */
GY_API int gy_doctor(const gy_doctor_options *options);

#ifdef __cplusplus
}
#endif
#endif
