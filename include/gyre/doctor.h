/**
 * Examining a launch of ranks from outside, live or after a crash: what `gyre doctor` does.
 */
#ifndef GYRE_DOCTOR_H
#define GYRE_DOCTOR_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_doctor_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int process; /* of a live launch: its launcher, keeper or a rank; 0: the only launch here */
    const char *file; /* NULL; or a flight record (gyre run --recording) to read instead */
    bool is_json;     /* JSON for programs in place of text for people */
} gy_doctor_options;

/**
 * Describe what each rank of a launch on this host does, which rank waits for which and why,
 * which ranks enter collectives late and, of ranks that train, where their time went. Launches
 * of other users are not visible. With neither process nor file and several launches, the
 * description lists them.
 *
 * @param text becomes the description, also one that precedes a failure; free it with
 * gy_string_free; NULL when there is none
 * @return GY_OK; GY_NOTFOUND no such launch or file; GY_ARG several launches, and JSON was
 * asked for; GY_FORMAT the records are damaged; GY_IO; GY_NOMEM
 * @threads any
 * @cost reads /proc of this user's processes once
 */
GY_API GY_MUST_CHECK gy_status gy_doctor(const gy_doctor_options *options, char **text);

#ifdef __cplusplus
}
#endif
#endif
