/**
 * An object of S3 or HDFS as an input of a vertex: its bytes come from the store while the
 * vertex runs, two ranges ahead, all of the version that the job was planned with.
 */
#ifndef GY_FLOW_OBJECTS_INPUT_H
#define GY_FLOW_OBJECTS_INPUT_H

#include "flow/channel/channel.h"

enum { GY_OBJECT_PIECE_BYTES = 256 << 10 };

typedef struct gy_object_input gy_object_input;

/** Nothing is asked before the first byte is wanted. `from` and the flag are borrowed. */
GY_MUST_CHECK gy_status gy_object_input_open(gy_env *env, const gy_flow_task_input *from,
                                             size_t memory_bytes,
                                             const _Atomic bool *is_cancelled,
                                             gy_object_input **input);
/** NULL is fine. */
void gy_object_input_close(gy_object_input *input);

/**
 * The next bytes of the order's range, a piece; *size_bytes 0 at its end. Valid until the next
 * call.
 *
 * @return GY_OK; GY_STATE the object is another one than it was; GY_UNSUPPORTED a wall has no
 * network behind it; as gy_place_read
 */
GY_MUST_CHECK gy_status gy_object_input_next(gy_object_input *input, const void **data,
                                             size_t *size_bytes);
/**
 * Fill `data` with what follows; is_beyond: the range's end is no end, but the object's. Fewer
 * only at the end. Beyond the range 64 KiB are asked for, then twice as much each time: records
 * that begin in the range end there.
 */
GY_MUST_CHECK gy_status gy_object_input_fill(gy_object_input *input, bool is_beyond, char *data,
                                             size_t wanted, size_t *got);

/** Whether a vertex's input is an object, whose bytes gy_vertex_fill gives. */
bool gy_vertex_is_object(const gy_vertex *vertex, int input);
/** Of which so many bytes there are, whatever its range. */
uint64_t gy_vertex_object_bytes(const gy_vertex *vertex, int input);
/** Whether its range reaches the object's end. */
bool gy_vertex_has_object_end(const gy_vertex *vertex, int input);
/** Of so much memory a sixteenth is taken for each of its two buffers, 8 MiB at most; before
 * its first byte, else the vertex's memory counts. */
void gy_vertex_object_budget(gy_vertex *vertex, int input, size_t memory_bytes);
/** gy_object_input_fill, with failures and cancelling as gy_vertex_read has them. */
GY_MUST_CHECK gy_status gy_vertex_fill(gy_vertex *vertex, int input, bool is_beyond, char *data,
                                       size_t wanted, size_t *got);

#endif
