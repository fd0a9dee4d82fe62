/**
 * A vertex of a dataflow job while it runs: what its function reads and writes.
 *
 * All calls belong to the thread on which the function was called. The vertex remembers a call
 * that failed: the function may return that status at once, or return anything; the vertex has
 * failed.
 */
#ifndef GYRE_VERTEX_H
#define GYRE_VERTEX_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A running vertex; it lives as long as the call of its function. */
typedef struct gy_vertex gy_vertex;

/** The function of a vertex. It returns GY_OK when its outputs are complete. GY_FORMAT, GY_ARG,
 * GY_TYPE, GY_SHAPE, GY_LIMIT and GY_UNSUPPORTED of its own mean wrong data or a wrong program
 * and end the job at once. After another failure the vertex runs again, a few times. */
typedef gy_status (*gy_vertex_work)(gy_vertex *vertex);

/** Any function: what `gy_function.user` is cast to and back from. */
typedef void (*gy_any_work)(void);

/* ---- its place in the graph ---- */

/** Number of input ports. */
GY_API int gy_vertex_inputs(const gy_vertex *vertex);
/** Number of output ports. */
GY_API int gy_vertex_outputs(const gy_vertex *vertex);
/** The vertex's number among the clones of its stage, from 0. */
GY_API int gy_vertex_index(const gy_vertex *vertex);
/** How many clones its stage has. */
GY_API int gy_vertex_clones(const gy_vertex *vertex);
/** The bytes given when the graph was built; aligned to 8. */
GY_API const void *gy_vertex_parameter(const gy_vertex *vertex, size_t *size_bytes);
/** `user` of its gy_function; NULL for a plain vertex. */
GY_API gy_any_work gy_vertex_user(const gy_vertex *vertex);
/** `user` of the program's function of that name; NULL: no such function, or it has none. */
GY_API gy_any_work gy_vertex_function(const gy_vertex *vertex, const char *name);
/** The vertex's memory budget in bytes; 0: no limit was set. */
GY_API size_t gy_vertex_memory(const gy_vertex *vertex);
/** Whether the job no longer wants the outputs. Reads and writes then fail with GY_CANCELLED; a
 * function that computes for long without them polls this. */
GY_API bool gy_vertex_is_cancelled(const gy_vertex *vertex);
/** An empty folder for the vertex's own files, removed when the vertex has ended. NULL: it
 * cannot be created; gy_error_text says why. */
GY_API const char *gy_vertex_scratch(gy_vertex *vertex);

/* ---- bytes ---- */

/**
 * Read the next bytes of an input: at least one, *size_bytes 0 at the end. They are valid until
 * the next read of this input. A file comes whole, mapped; an object comes in segments. The
 * checksums of a file were verified before.
 *
 * @return GY_OK; GY_IO, GY_FORMAT, GY_NOTFOUND the input is lost or damaged: the job computes
 * it again and runs this vertex again; GY_STATE an object changed since the job began; GY_PEER
 * the other end of a pipe or FIFO was lost; GY_CANCELLED; GY_TIMEOUT; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_vertex_read(gy_vertex *vertex, int input, const void **data,
                                              size_t *size_bytes);
/** Append bytes to an output. GY_LIMIT the disk is full; GY_IO; GY_PEER; GY_CANCELLED;
 * GY_TIMEOUT; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_vertex_write(gy_vertex *vertex, int output, const void *data,
                                               size_t size_bytes);
/** Reserve room for at least size_bytes of an output, to write them in place. The room is valid
 * until the next call for this output, which is gy_vertex_advance. Errors as gy_vertex_write.
 */
GY_API GY_MUST_CHECK gy_status gy_vertex_reserve(gy_vertex *vertex, int output,
                                                 size_t size_bytes, void **room);
/** Append the first size_bytes of the reserved room to the output. Errors as gy_vertex_write.
 */
GY_API GY_MUST_CHECK gy_status gy_vertex_advance(gy_vertex *vertex, int output,
                                                 size_t size_bytes);

/* ---- what the vertex reports to the job ---- */

/** Add `by` to a counter of the job. `counter` is copied; a vertex has at most 64 of them. Of
 * all attempts of a vertex only the committed one counts. @cost a lookup: cheap enough for each
 * record */
GY_API void gy_vertex_count(gy_vertex *vertex, const char *counter, int64_t by);
enum { GY_SAMPLE_BYTES_MAX = 64 << 10 };
/** Give bytes (GY_SAMPLE_BYTES_MAX at most, copied; the last call wins) to the refinement
 * function that waits for this vertex: a sample of keys, for example. GY_LIMIT too many;
 * GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_vertex_set_sample(gy_vertex *vertex, const void *data,
                                                    size_t size_bytes);

/* ---- bad records ---- */

/** Name the record that the function processes from now on, by its record id: `offset` in input
 * `source`, numbers that are equal in every attempt (of the vertex's files, `source` lets
 * reports name the file). When the process dies, the job blames this record. @cost two stores
 */
GY_API void gy_vertex_at_record(gy_vertex *vertex, uint32_t source, uint64_t offset);
/** The same for a key of a reduce: its hash identifies it, reports show its first bytes. */
GY_API void gy_vertex_at_key(gy_vertex *vertex, const void *key, size_t size_bytes);
/** The function processes no record from now on: when the process dies, the job blames the
 * vertex itself. */
GY_API void gy_vertex_at_none(gy_vertex *vertex);
/** Whether the vertex has any record to skip. When not, the calls below are not needed. */
GY_API bool gy_vertex_has_bad_records(const gy_vertex *vertex);
/** Whether this record killed earlier attempts and shall be skipped; the report counts it. */
GY_API bool gy_vertex_is_bad_record(gy_vertex *vertex, uint32_t source, uint64_t offset);
/** The same for a key of a reduce. */
GY_API bool gy_vertex_is_bad_key(gy_vertex *vertex, const void *key, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
