/**
 * Sorting of files as a job: lines or records of fixed size, by their bytes, numbers or fields.
 * Compressed files are decompressed (gy_encoding).
 */
#ifndef GYRE_SORT_H
#define GYRE_SORT_H

#include <gyre/flow.h>
#include <gyre/format.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How keys are ordered. */
typedef enum gy_sort_order {
    GY_SORT_BYTES,   /* as memcmp; a key before its continuations */
    GY_SORT_INT64,   /* 8 bytes in this machine's byte order; records of fixed size alone */
    GY_SORT_FLOAT64, /* the same; -0 before 0, NaN beyond the infinity of its sign */
    GY_SORT_NUMBER,  /* the decimal number at the key's start, after whitespace: a sign '-',
                        digits, a point and digits, any number of each; no digits: 0 */
} gy_sort_order;

/** How a vertex gets its range out of the inputs. */
typedef enum gy_sort_method {
    GY_SORT_METHOD_AUTO,  /* scans when the inputs fit into memory, else runs */
    GY_SORT_METHOD_SCANS, /* read all keys as often as needed and the records in place; write
                             nothing but the output */
    GY_SORT_METHOD_RUNS,  /* read once, write sorted runs into the scratch folder, merge them */
} gy_sort_method;

typedef struct gy_sort_options {
    size_t struct_size;        /* GY_OPTIONS; 0: as compiled */
    const char *const *inputs; /* paths of files, URIs of objects; NULL at the end */
    size_t record_bytes;       /* 0: lines; the last may lack its line end */
    size_t key_offset;         /* of the key in its record */
    size_t key_bytes;          /* of lines a maximum; 0: to the end of the record */
    gy_sort_order order;
    bool is_descending; /* the largest first, equal keys in the inputs' order */
    int field;          /* of lines: which field, from 1, of the bytes that key_offset and
                           key_bytes select is the key; 0: all of them. A line without it has an
                           empty key */
    char separator;     /* of fields; 0: any spaces and tabs */
    bool is_strict;     /* a line without the field, or without a number where it is sorted by
                           one, fails the job; else it is sorted as an empty key or as 0, and
                           counted (GY_COUNTER_NO_FIELD, GY_COUNTER_NO_NUMBER) */
    gy_sort_method method; /* GY_SORT_NUMBER, is_descending and field take runs */
    int partitions;        /* ranges of the order, and files of the output; 0: one a core */
    size_t memory_bytes;   /* of a vertex, beside mapped inputs; at least 4 MiB; 0: 1 GiB */
    const char *name;      /* of the output's files; NULL: "part" */
    gy_encoding encoding;  /* of all inputs */
    gy_line_end line_end;  /* the same */
} gy_sort_options;

/**
 * The graph of a sort: one vertex a partition, which reads all inputs and writes its range of
 * the order. The output's files one after the other are the sorted whole; the sort is stable.
 * There are no intermediate files, except that a compressed input or an object is first copied
 * into a file by a vertex of its own. GY_SORT_FUNCTION must be among the functions of
 * gy_flow_start.
 *
 * @param dag caller owns
 * @return as gy_map_reduce; GY_UNSUPPORTED an input is on the disk of some hosts alone
 */
GY_API GY_MUST_CHECK gy_status gy_dag_sort(gy_flow *flow, const gy_sort_options *options,
                                           gy_dag **dag);

/** Runs a vertex of a sort. */
GY_API gy_status gy_sort_vertex(gy_vertex *vertex);
#define GY_SORT_FUNCTION GY_VERTEX("gyre.sort", gy_sort_vertex)

#ifdef __cplusplus
}
#endif
#endif
