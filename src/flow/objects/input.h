/**
 * An object of S3 or HDFS as an input of a vertex. Its bytes come from the store while the
 * vertex runs, two ranges ahead, and all are of the version that the job was planned with.
 */
#ifndef GY_FLOW_OBJECTS_INPUT_H
#define GY_FLOW_OBJECTS_INPUT_H

#include "flow/channel/channel.h"

enum { GY_OBJECT_PIECE_BYTES = 256 << 10 };

typedef struct gy_object_input gy_object_input;

/** Open an input; sends no request before the first read. `from` and the flag are borrowed. */
GY_MUST_CHECK gy_status gy_object_input_open(gy_env *env, const gy_flow_task_input *from,
                                             size_t memory_bytes,
                                             const _Atomic bool *is_cancelled,
                                             gy_object_input **input);
/** Close an input. NULL is fine. */
void gy_object_input_close(gy_object_input *input);

/**
 * Read the next bytes of the order's range; *size_bytes 0 at its end. The data are valid until
 * the next call.
 *
 * @return GY_OK; GY_STATE the object has changed; GY_UNSUPPORTED the sandbox permits no
 *     network; as gy_place_read
 */
GY_MUST_CHECK gy_status gy_object_input_next(gy_object_input *input, const void **data,
                                             size_t *size_bytes);
/**
 * Fill `data` with the following bytes; is_beyond: continue past the range's end to the
 * object's. Returns fewer bytes only at the end. Beyond the range it requests 64 KiB, then
 * twice as much each time, because a record that begins in the range may end there.
 */
GY_MUST_CHECK gy_status gy_object_input_fill(gy_object_input *input, bool is_beyond, char *data,
                                             size_t wanted, size_t *got);

/** Whether a vertex's input is an object, which gy_vertex_fill reads. */
bool gy_vertex_is_object(const gy_vertex *vertex, int input);
/** Size of the whole object, whatever the range. */
uint64_t gy_vertex_object_bytes(const gy_vertex *vertex, int input);
/** Whether the range extends to the object's end. */
bool gy_vertex_has_object_end(const gy_vertex *vertex, int input);
/** Set the memory of which each of the two buffers takes a sixteenth, at most 8 MiB. Must come
 * before the first read; otherwise the vertex's memory counts. */
void gy_vertex_object_budget(gy_vertex *vertex, int input, size_t memory_bytes);
/** gy_object_input_fill, with failures and cancellation as in gy_vertex_read. */
GY_MUST_CHECK gy_status gy_vertex_fill(gy_vertex *vertex, int input, bool is_beyond, char *data,
                                       size_t wanted, size_t *got);

#endif
