/**
 * Apache Arrow's C data and C stream interfaces: frames handed between libraries of one process
 * without a copy (pyarrow, pandas, polars, DuckDB, R and others take and give them).
 *
 * The structs have the layout of ArrowSchema, ArrowArray and ArrowArrayStream; they carry names
 * of Gyre, so that a program may include both. A pointer to one of them is a pointer to the
 * other: `(struct ArrowArray *)array`. A frame is a struct array ("+s") whose children are its
 * columns; types: bool "b", int64 "l", double "g", decimal "d:P,S", date "tdD", timestamp
 * "tsu:UTC", text "u".
 *
 * Ownership. The consumer gives the memory of the struct itself; the producer fills it in. Who
 * has it calls `release` once, when the last use of the memory has ended; a struct whose
 * `release` is NULL has been released, or moved elsewhere by a copy of its bytes.
 *
 * @source Apache Arrow, "The Arrow C data interface" and "The Arrow C stream interface"
 */
#ifndef GYRE_ARROW_H
#define GYRE_ARROW_H

#include <gyre/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bits of gy_arrow_schema.flags. Numbers of Arrow. */
enum { GY_ARROW_DICTIONARY_ORDERED = 1, GY_ARROW_NULLABLE = 2, GY_ARROW_MAP_KEYS_SORTED = 4 };

/** ArrowSchema: a type. */
typedef struct gy_arrow_schema gy_arrow_schema;
struct gy_arrow_schema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    gy_arrow_schema **children;
    gy_arrow_schema *dictionary;
    void (*release)(gy_arrow_schema *self);
    void *private_data;
};

/** ArrowArray: values. */
typedef struct gy_arrow_array gy_arrow_array;
struct gy_arrow_array {
    int64_t length;
    int64_t null_count; /* -1: nobody counted */
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    gy_arrow_array **children;
    gy_arrow_array *dictionary;
    void (*release)(gy_arrow_array *self);
    void *private_data;
};

/** ArrowArrayStream: a sequence of arrays of one type. Calls return 0 or an errno. */
typedef struct gy_arrow_stream gy_arrow_stream;
struct gy_arrow_stream {
    int (*get_schema)(gy_arrow_stream *self, gy_arrow_schema *out);
    int (*get_next)(gy_arrow_stream *self, gy_arrow_array *out); /* released array: the end */
    const char *(*get_last_error)(gy_arrow_stream *self);
    void (*release)(gy_arrow_stream *self);
    void *private_data;
};

/** Describe a schema. @return GY_OK, `out` is the caller's to release; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_schema_to_arrow(const gy_schema *schema,
                                                  gy_arrow_schema *out);

/**
 * Hand a frame out. Each column of the array keeps the frame's memory until it is released, in
 * any order and by any thread.
 * @return GY_OK, `out` is the caller's to release; GY_NOMEM
 * @threads any
 * @cost no copy
 */
GY_API GY_MUST_CHECK gy_status gy_frame_to_arrow(const gy_frame *frame, gy_arrow_array *out);

/**
 * Hand a sequence of frames out as a stream.
 * @param source taken, also on failure; it is closed when the stream is released
 * @return GY_OK, `out` is the caller's to release; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_frames_to_arrow(gy_schema *schema,
                                                  const gy_frame_source *source,
                                                  gy_arrow_stream *out);

/**
 * Take the schema of a struct of columns in. `arrow` stays the caller's.
 * @return GY_OK, held once by the caller; GY_UNSUPPORTED a nested, dictionary-encoded or
 * otherwise unsupported type (names column and type); GY_ARG malformed, released; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_schema_from_arrow(const gy_arrow_schema *arrow,
                                                    gy_schema **schema);

/**
 * Take a frame of that schema in. The frame is over the memory of `array` and owns it from now
 * on: the last hold of the frame, its slices and selections releases it.
 *
 * @param array  moved from when the call succeeds (its `release` is NULL then); on failure it
 *               stays the caller's
 * @return GY_OK, held once by the caller; GY_ARG the array does not fit the schema, lacks a
 * buffer, has null rows, or offsets of a text that descend; GY_FORMAT a text that is no UTF-8,
 * or has a NUL byte, with column and row; GY_NOMEM
 * @threads any
 * @cost no copy; texts and their offsets are read once
 */
GY_API GY_MUST_CHECK gy_status gy_frame_from_arrow(gy_schema *schema, gy_arrow_array *array,
                                                   gy_frame **frame);

/**
 * Take a stream in, as a source of frames.
 * @param stream moved from when the call succeeds; on failure it stays the caller's
 * @param schema  held once by the caller
 * @param source  whoever has it closes it, which releases the stream
 * @return as gy_schema_from_arrow; GY_IO the stream failed, with its own words
 */
GY_API GY_MUST_CHECK gy_status gy_frames_from_arrow(gy_arrow_stream *stream, gy_schema **schema,
                                                    gy_frame_source *source);

#ifdef __cplusplus
}
#endif
#endif
