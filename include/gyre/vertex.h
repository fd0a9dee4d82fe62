/**
 * A vertex of a dataflow job while it runs: what its function reads and writes.
 *
 * All calls are for the thread that the function was called on. A call that failed is
 * remembered: a function may stop at once and return what it got, or return anything; its
 * vertex has failed.
 */
#ifndef GYRE_VERTEX_H
#define GYRE_VERTEX_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A vertex while it runs; lives as long as the call of its function. */
typedef struct gy_vertex gy_vertex;

/** What a vertex does. GY_OK: its outputs stand. GY_FORMAT, GY_ARG, GY_TYPE, GY_SHAPE, GY_LIMIT
 * and GY_UNSUPPORTED of its own: wrong data or a mistake, which end the job at once. Another
 * failure: it runs again, a few times. */
typedef gy_status (*gy_vertex_work)(gy_vertex *vertex);

/** Any function: what `gy_function.user` is cast to and back from. */
typedef void (*gy_any_work)(void);

/* ---- who it is ---- */

GY_API int gy_vertex_inputs(const gy_vertex *vertex);
GY_API int gy_vertex_outputs(const gy_vertex *vertex);
/** Which copy of its stage this is, from 0, and how many there are. */
GY_API int gy_vertex_index(const gy_vertex *vertex);
GY_API int gy_vertex_clones(const gy_vertex *vertex);
/** The bytes given when the graph was built; aligned to 8. */
GY_API const void *gy_vertex_parameter(const gy_vertex *vertex, size_t *size_bytes);
/** `user` of its gy_function; NULL for a plain vertex. */
GY_API gy_any_work gy_vertex_user(const gy_vertex *vertex);
/** `user` of the program's function of that name; NULL: there is none, or it has none. */
GY_API gy_any_work gy_vertex_function(const gy_vertex *vertex, const char *name);
/** Bytes of memory that it shall keep to; 0: no limit was set. */
GY_API size_t gy_vertex_memory(const gy_vertex *vertex);
/** The job no longer wants its outputs; reads and writes then fail with GY_CANCELLED, and a
 * function that computes for long without them looks here. */
GY_API bool gy_vertex_is_cancelled(const gy_vertex *vertex);
/** A fresh folder for files of its own, swept when the vertex has ended. NULL: it cannot be
 * made, gy_error_text says why. */
GY_API const char *gy_vertex_scratch(gy_vertex *vertex);

/* ---- bytes ---- */

/**
 * The next bytes of an input: at least one, *size_bytes 0 at the end. They are valid until the
 * next read of this input; a file is given whole, mapped, an object in pieces. Whether a file's
 * checksums hold was found out before.
 *
 * @return GY_OK; GY_IO, GY_FORMAT, GY_NOTFOUND the input is gone or damaged: it is made again
 * and the vertex runs again; GY_STATE an object is another one than it was; GY_PEER the other
 * end of a pipe or FIFO is gone; GY_CANCELLED; GY_TIMEOUT; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_vertex_read(gy_vertex *vertex, int input, const void **data,
                                              size_t *size_bytes);
/** Append bytes to an output. GY_LIMIT the disk is full; GY_IO; GY_PEER; GY_CANCELLED;
 * GY_TIMEOUT; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_vertex_write(gy_vertex *vertex, int output, const void *data,
                                               size_t size_bytes);
/** Room for at least size_bytes, to write them in place: valid until the next call for this
 * output, which is gy_vertex_advance. Errors as gy_vertex_write. */
GY_API GY_MUST_CHECK gy_status gy_vertex_reserve(gy_vertex *vertex, int output,
                                                 size_t size_bytes, void **room);
/** How much of that room was filled. */
GY_API GY_MUST_CHECK gy_status gy_vertex_advance(gy_vertex *vertex, int output,
                                                 size_t size_bytes);

/* ---- what the job is told ---- */

/** Add to a counter of the job (`counter` is copied, at most 64 different ones a vertex); of
 * all attempts of a vertex the one whose outputs stand counts. Cheap: may be called for each
 * record.
 */
GY_API void gy_vertex_count(gy_vertex *vertex, const char *counter, int64_t by);
enum { GY_SAMPLE_BYTES_MAX = 64 << 10 };
/** Bytes (GY_SAMPLE_BYTES_MAX at most, copied; the last call counts) for the function that
 * decides how the graph grows: a sample of keys, a size. GY_LIMIT too many; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_vertex_set_sample(gy_vertex *vertex, const void *data,
                                                    size_t size_bytes);

/* ---- bad records ---- */

/** From now on the record at `offset` of input `source` (numbers that mean the same in every
 * attempt; that of one of its files makes reports name the file) is worked on: should the
 * process die, this record is named. Two stores. */
GY_API void gy_vertex_at_record(gy_vertex *vertex, uint32_t source, uint64_t offset);
/** The same for a key, as a reduce has it: known by its hash, listed by its first bytes. */
GY_API void gy_vertex_at_key(gy_vertex *vertex, const void *key, size_t size_bytes);
/** No record is worked on any more: what dies now is the vertex itself. */
GY_API void gy_vertex_at_none(gy_vertex *vertex);
/** Whether any record shall be skipped: when not, none need be asked for. */
GY_API bool gy_vertex_has_bad_records(const gy_vertex *vertex);
/** Whether this record killed earlier attempts and shall be skipped; counted in the report. */
GY_API bool gy_vertex_is_bad_record(gy_vertex *vertex, uint32_t source, uint64_t offset);
GY_API bool gy_vertex_is_bad_key(gy_vertex *vertex, const void *key, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
