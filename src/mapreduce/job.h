/**
 * Parts of MapReduce graphs, for job.c and the ready-made jobs.
 */
#ifndef GY_MAPREDUCE_JOB_H
#define GY_MAPREDUCE_JOB_H

#include "base/alloc.h"
#include "mapreduce/task.h"
#include "store/store.h"

/** What is known of an input before anything runs. */
typedef struct gy_job_file {
    uint64_t size_bytes;
    char head[GY_FORMAT_HEAD_BYTES]; /* (head_bytes) its first bytes */
    size_t head_bytes;
    bool has_cr_lines; /* '\r' ends its lines (GY_LINE_END_AUTO) */
    bool is_elsewhere; /* on disks of hosts, by its name: nothing else is known of it */
    bool is_object;    /* of S3 or HDFS: of it the size alone */
} gy_job_file;
/** Errors name the file. GY_NOTFOUND; GY_IO also of what is no regular file */
GY_MUST_CHECK gy_status gy_job_look_at(const char *path, gy_job_file *file);

/** "PATH:0:SIZE": a file as large as it was; UINT64_MAX: as it will be. NULL: no memory. */
const char *gy_job_range(gy_arena *arena, const char *path, uint64_t size_bytes);

/** A graph whose first mistake is kept in it; NULL: out of memory. */
gy_dag *gy_job_new(gy_flow *flow, const char *name);

/** The maps over the inputs, a vertex a split, with free outputs; *count is how many. */
gy_part gy_job_maps(gy_dag *dag, const gy_map_reduce_options *options, const char *stage,
                    int *count);
/** The reduces, with free inputs and outputs; `function` NULL: of the map or reduce. */
gy_part gy_job_reduces(gy_dag *dag, const gy_map_reduce_options *options, const char *function);
/** Maps that read lines of key, tab, value from one input instead of files. */
gy_part gy_job_streams(gy_dag *dag, const gy_map_reduce_options *options, int count);

/** The number of reduces: as given, or two a core. */
int gy_job_partitions(int partitions);
int gy_job_cores(void);

/** A line of a text record without the '\r' before its '\n', unless that is a byte of it; how
 * many bytes that are. */
static inline size_t gy_line_size(const gy_map *map, const char *line, size_t size)
{
    return size - (size > 0 && line[size - 1] == '\r' &&
                   map->stage->options.line_end != GY_LINE_END_LF);
}

/** The functions of the ready-made jobs. */
void gy_map_words(gy_map *map, const gy_record *record);
void gy_map_grep(gy_map *map, const gy_record *record);
void gy_map_index(gy_map *map, const gy_record *record);
void gy_map_fields(gy_map *map, const gy_record *record);
void gy_map_copy(gy_map *map, const gy_record *record);
void gy_map_pairs(gy_map *map, const gy_record *record);
gy_status gy_top_run(gy_vertex *vertex);
/** A gy_combine_work: INT64_MIN is beyond 64 bits, and stays it. */
int64_t gy_add_weights(int64_t left, int64_t right);
/** Writes its parameter to its one output: "gyre.say". */
gy_status gy_say_run(gy_vertex *vertex);

#endif
