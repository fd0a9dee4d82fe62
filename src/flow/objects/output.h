/**
 * An output in an object store: the files that a job has saved in a folder become objects
 * below a prefix, several at once. When all exist, the manifest is created exclusively.
 *
 * No object is ever replaced or removed: each is created exclusively, and an existing one
 * counts when it has the same bytes. So managers that upload the same output at the same time
 * arrive at the same objects, wherever one of them stops, and none removes an object that
 * another has found.
 */
#ifndef GY_FLOW_OBJECTS_OUTPUT_H
#define GY_FLOW_OBJECTS_OUTPUT_H

#include "base/base.h"

typedef struct gy_object_output gy_object_output;

typedef struct gy_object_output_options {
    const char *uri;    /* the prefix; ends with a slash */
    const char *folder; /* folder with the files */
    const char *fence;  /* a path that is missing once a newer manager has taken over */
    const char *manifest;
    size_t manifest_bytes;
    /* length of the manifest's beginning that an existing manifest must have too */
    size_t same_bytes;
    bool is_again; /* an earlier manager may have uploaded some of it */
} gy_object_output_options;

/** Make an upload; `options` is copied. GY_NOMEM */
GY_MUST_CHECK gy_status gy_object_output_new(gy_env *env,
                                             const gy_object_output_options *options,
                                             gy_object_output **output);
/** Add a file before the start: its name in the folder and below the prefix. GY_NOMEM */
GY_MUST_CHECK gy_status gy_object_output_add(gy_object_output *output, const char *name,
                                             uint64_t size_bytes);
/**
 * Start the upload on threads of its own. Memory: four parts of 8 MiB (twice that for each 8
 * GB of a file).
 * @return GY_OK; GY_LIMIT no thread
 */
GY_MUST_CHECK gy_status gy_object_output_start(gy_object_output *output);
/**
 * Get the state of the upload; never blocks.
 *
 * @return GY_AGAIN under way; GY_OK complete; GY_EXISTS an object of the same name differs;
 *     GY_NOTFOUND a file is missing; GY_STATE a newer manager has taken over; GY_CANCELLED; as
 *     gy_place_writer_finish
 * @threads the one that made it
 */
GY_MUST_CHECK gy_status gy_object_output_look(gy_object_output *output);
/** Wait until the upload ends; each request has a time limit. */
void gy_object_output_wait(gy_object_output *output);
/** Stop the upload; removes parts that were sent, for at most 10 s. */
void gy_object_output_stop(gy_object_output *output);
/** How many files are known to be uploaded. */
size_t gy_object_output_done(gy_object_output *output);
/** Stop and free the upload. NULL is fine. */
void gy_object_output_free(gy_object_output *output);

/**
 * Check whether a new job's output can be put there.
 *
 * @param patience_s time limit of each request; 0: the default
 * @return GY_OK; GY_EXISTS there are objects below the prefix; GY_UNSUPPORTED the store cannot
 *     create exclusively; GY_ARG the URI; as gy_place_list
 */
GY_MUST_CHECK gy_status gy_object_output_check(gy_env *env, const char *uri, double patience_s);
/** Does a manifest exist that begins so? False also when the store does not answer. */
bool gy_object_output_begins(gy_env *env, const char *uri, double patience_s,
                             const char *beginning);

#endif
