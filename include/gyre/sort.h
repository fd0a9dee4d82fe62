/**
 * Sorting of files as a job: lines or records of fixed size, by bytes, numbers or fields of
 * each. Compressed files are expanded (gy_encoding).
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
    GY_SORT_BYTES,   /* as memcmp; a key comes before those that it begins */
    GY_SORT_INT64,   /* 8 bytes of this machine; records of fixed size alone */
    GY_SORT_FLOAT64, /* the same; -0 before 0, NaN beyond the infinity of its sign */
    GY_SORT_NUMBER,  /* the decimal number that a key begins with, after blanks: a sign '-',
                        digits, a point and digits, as many as there are; none is 0 */
} gy_sort_order;

/** How a vertex takes its part out of the inputs. */
typedef enum gy_sort_method {
    GY_SORT_METHOD_AUTO,  /* scans when memory can keep the inputs mapped, else runs */
    GY_SORT_METHOD_SCANS, /* read all keys as often as needed, records where they lie: nothing
                      is written but the output */
    GY_SORT_METHOD_RUNS,  /* read once, sorted runs in the vertex's scratch folder, merged */
} gy_sort_method;

typedef struct gy_sort_options {
    const char *const *inputs; /* paths of files, URIs of objects; NULL at the end */
    size_t record_bytes;       /* 0: lines, of which the last may lack its end */
    size_t key_offset;         /* of the key in its record */
    size_t key_bytes;          /* of lines at most so many; 0: to the end of the record */
    gy_sort_order order;
    bool is_descending; /* the largest first, equal ones as they stand in the inputs */
    int field;          /* of lines: the key is this one, from 1, of what key_offset and
                           key_bytes leave; 0: all of that. A line without it: an empty key */
    char separator;     /* of fields; 0: any spaces and tabs */
    bool is_strict;     /* a line without the field, or without a number where it is sorted by
                           one, fails the job; else it is sorted as an empty key or as 0, and
                           counted (GY_COUNTER_NO_FIELD, GY_COUNTER_NO_NUMBER) */
    gy_sort_method method; /* GY_SORT_NUMBER, is_descending and field take runs */
    int partitions;        /* parts of the order, and files of the output; 0: one a core */
    size_t memory_bytes;   /* of a vertex, beside mapped inputs; at least 4 MiB; 0: 1 GiB */
    const char *name;      /* of the output's files; NULL: "part" */
    gy_encoding encoding;  /* of all inputs */
    gy_line_end line_end;  /* the same */
} gy_sort_options;

/**
 * The graph of a sort: one vertex a part, which reads all inputs and writes its range of the
 * order; the parts one after the other are the whole, in order, records with equal keys as they
 * stand in the inputs. No file lies between; but what is compressed or an object is brought
 * into one before, by a vertex each. Its function must be among those of gy_flow_start:
 * GY_SORT_FUNCTION.
 *
 * @return NULL: out of memory; mistakes are in the dag (gy_dag_error, gy_flow_run)
 */
GY_API GY_MUST_CHECK gy_dag *gy_dag_sort(gy_flow *flow, const gy_sort_options *options);

/** What a vertex of a sort does. */
GY_API gy_status gy_sort_vertex(gy_vertex *vertex);
#define GY_SORT_FUNCTION GY_VERTEX("gyre.sort", gy_sort_vertex)

#ifdef __cplusplus
}
#endif
#endif
