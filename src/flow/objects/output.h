/**
 * An output in an object store: files that a job has saved in a folder become objects below a
 * prefix, several at once, and when all are there the manifest does, exclusively.
 *
 * No object is ever replaced or removed: each is created exclusively, and one that is there
 * counts when it has the same bytes. So of managers that bring the same output at the same
 * time, whichever stops where, all come to the same objects, and what one has found another
 * does not take away.
 */
#ifndef GY_FLOW_OBJECTS_OUTPUT_H
#define GY_FLOW_OBJECTS_OUTPUT_H

#include "base/base.h"

typedef struct gy_object_output gy_object_output;

typedef struct gy_object_output_options {
    const char *uri;    /* the prefix; ends with a slash */
    const char *folder; /* has the files */
    const char *fence;  /* a path that is gone once a newer manager has taken over */
    const char *manifest;
    size_t manifest_bytes;
    size_t same_bytes; /* of these the first, which one that is there must have, too */
    bool is_again;     /* a manager before this one may have brought some of it */
} gy_object_output_options;

/** What is in `options` is copied. GY_NOMEM */
GY_MUST_CHECK gy_status gy_object_output_new(gy_env *env,
                                             const gy_object_output_options *options,
                                             gy_object_output **output);
/** One file, before the start: its name in the folder and below the prefix. GY_NOMEM */
GY_MUST_CHECK gy_status gy_object_output_add(gy_object_output *output, const char *name,
                                             uint64_t size_bytes);
/**
 * Begin, on threads of its own. Memory: four parts of 8 MiB (twice that for each 8 GB of a
 * file).
 * @return GY_OK; GY_LIMIT no thread
 */
GY_MUST_CHECK gy_status gy_object_output_start(gy_object_output *output);
/**
 * Whether it is over.
 *
 * @return GY_AGAIN it is not; GY_OK all is there; GY_EXISTS something else has one of the
 * names; GY_NOTFOUND a file is gone; GY_STATE a newer manager has taken over; GY_CANCELLED; as
 * gy_place_writer_finish
 * @threads the one that made it
 */
GY_MUST_CHECK gy_status gy_object_output_look(gy_object_output *output);
/** Wait until it is over, for which each request has its time. */
void gy_object_output_wait(gy_object_output *output);
/** End what is under way; parts that were sent are taken back, for 10 s at most. */
void gy_object_output_stop(gy_object_output *output);
/** How many of its files are known to be there. */
size_t gy_object_output_done(gy_object_output *output);
/** Stops it. NULL is fine. */
void gy_object_output_free(gy_object_output *output);

/**
 * Can a new job's output be there?
 *
 * @param patience_s of each question; 0: the usual
 * @return GY_OK; GY_EXISTS something is below the prefix; GY_UNSUPPORTED the store creates
 * nothing exclusively; GY_ARG the URI; as gy_place_list
 */
GY_MUST_CHECK gy_status gy_object_output_check(gy_env *env, const char *uri, double patience_s);
/** Is there a manifest that begins so? False also when the store does not say. */
bool gy_object_output_begins(gy_env *env, const char *uri, double patience_s,
                             const char *beginning);

#endif
