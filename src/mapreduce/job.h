/**
 * Parts of MapReduce graphs, for job.c and the ready-made jobs.
 */
#ifndef GY_MAPREDUCE_JOB_H
#define GY_MAPREDUCE_JOB_H

#include "base/alloc.h"
#include "mapreduce/task.h"
#include "store/store.h"

/** The facts of an input before the job runs. */
typedef struct gy_job_file {
    uint64_t size_bytes;
    char head[GY_FORMAT_HEAD_BYTES]; /* (head_bytes) its first bytes */
    size_t head_bytes;
    bool has_cr_lines; /* its lines end with '\r' (GY_LINE_END_AUTO) */
    bool is_elsewhere; /* a file on other hosts ("file://HOST/"): only its name is known */
    bool is_object;    /* of S3 or HDFS: only its size is known */
} gy_job_file;
/** Get the facts of an input; errors name it. GY_NOTFOUND; GY_IO, also for a file that is not
 * regular */
GY_MUST_CHECK gy_status gy_mapreduce_job_look_at(const char *path, gy_job_file *file);

/** Write "PATH:0:SIZE", which fixes the file's size; UINT64_MAX: the size at the time of
 * reading. NULL: out of memory. */
const char *gy_mapreduce_job_range(gy_arena *arena, const char *path, uint64_t size_bytes);

/** The end of each maker: *dag becomes `made`; where that keeps a failure, or `status` is one,
 * the failure is returned and `made` freed. */
GY_MUST_CHECK gy_status gy_mapreduce_job_end(gy_status status, gy_dag *made, gy_dag **dag);

/** Add the maps over the inputs, one vertex a split, with free outputs; *count becomes their
 * number. */
gy_part gy_mapreduce_job_maps(gy_dag *dag, const gy_map_reduce_options *options,
                              const char *stage, int *count);
/** Add the reduces, with free inputs and outputs; `function` NULL: that of the map or reduce.
 */
gy_part gy_mapreduce_job_reduces(gy_dag *dag, const gy_map_reduce_options *options,
                                 const char *function);
/** Add maps that read lines of key, tab, value from one input in place of files. */
gy_part gy_mapreduce_job_streams(gy_dag *dag, const gy_map_reduce_options *options, int count);

/** The number of reduces: `partitions`, or two for each core when it is 0. */
int gy_mapreduce_job_partitions(int partitions);
int gy_mapreduce_job_cores(void);

/** The size of a line of a text record without the '\r' before its '\n'; with GY_LINE_END
 * options that keep '\r', that byte counts. */
static inline size_t gy_line_size(const gy_map *map, const char *line, size_t size)
{
    return size - (size > 0 && line[size - 1] == '\r' &&
                   map->stage->options.line_end != GY_LINE_END_LF);
}

/** Map functions of the ready-made jobs. */
void gy_map_words(gy_map *map, const gy_record *record);
void gy_map_grep(gy_map *map, const gy_record *record);
void gy_map_index(gy_map *map, const gy_record *record);
void gy_map_fields(gy_map *map, const gy_record *record);
void gy_map_copy(gy_map *map, const gy_record *record);
void gy_map_pairs(gy_map *map, const gy_record *record);
gy_status gy_top_run(gy_vertex *vertex);
/** A gy_combine_work that adds; INT64_MIN marks an overflow, and stays so whatever is added. */
int64_t gy_mapreduce_add_weights(int64_t left, int64_t right);
/** The function "gyre.say": writes its parameter to its only output. */
gy_status gy_mapreduce_say_run(gy_vertex *vertex);

#endif
