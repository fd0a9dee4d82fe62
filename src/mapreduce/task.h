/**
 * The parameter of a vertex of a MapReduce job, which job.c writes and run.c reads, and the
 * state of running maps and reduces.
 */
#ifndef GY_MAPREDUCE_TASK_H
#define GY_MAPREDUCE_TASK_H

#include "base/text.h"
#include "mapreduce/gather.h"
#include "mapreduce/input.h"
#include "mapreduce/rows.h"

#include <gyre/mapreduce.h>

/* ---- the parameter ---- */

typedef enum gy_phase {
    GY_PHASE_MAP = 1,
    GY_PHASE_REDUCE,
    GY_PHASE_SHARE, /* reduces a share of a hot key */
} gy_phase;

/** A range of an input file; gy_task_stage.paths has its path. */
typedef struct gy_task_part {
    uint64_t begin, end;
    uint64_t number; /* number of the file among the job's inputs */
} gy_task_part;

typedef struct gy_task_options {
    gy_phase phase;
    gy_record_format format;
    gy_encoding encoding; /* of the input files */
    gy_line_end line_end;
    gy_mapreduce_fold fold;
    gy_reduce_order order;
    bool is_counting; /* each emission counts 1 */
    bool has_reduce, is_map_only;
    char delimiter;
    uint32_t partitions;
    size_t record_bytes, memory_bytes;
    const char *combine, *partition; /* names of functions; NULL: none */
    const void *parameter;           /* (parameter_bytes) the user's */
    size_t parameter_bytes;
    /* of a map: report keys with so many bytes in its sample; 0: no sample */
    size_t hot_key_bytes;
    /* (hot_bytes) by gy_hot_write: the key of a share, or the hot keys of a reduce */
    const void *hot;
    size_t hot_bytes;
    /* of a reduce's inputs: the shares of hot keys come after the tables, and the side files
     * after those */
    uint32_t shares, sides;
} gy_task_options;

/** A parameter after reading; its pointers are borrowed from the parameter's bytes. */
typedef struct gy_task_stage {
    gy_task_options options;
    const gy_task_part *parts; /* (part_count) */
    const char *paths;         /* paths of the parts, concatenated, each with its NUL */
    uint32_t part_count;
} gy_task_stage;

/** Append the parameter, with the paths of the parts; the text records a failure. */
void gy_mapreduce_task_write(gy_text *out, const gy_task_options *options,
                             const gy_task_part *parts, const char *const *paths,
                             size_t part_count);
/** Read a parameter. GY_FORMAT: gy_mapreduce_task_write did not write it. */
GY_MUST_CHECK gy_status gy_mapreduce_task_read(const void *data, size_t size_bytes,
                                               gy_task_stage *stage);

/** The fold for these options; has_bytes: the map emits bytes. */
gy_mapreduce_fold gy_mapreduce_combine_fold(gy_combine combine, bool has_bytes);

/* ---- running maps and reduces ---- */

enum {
    GY_EMIT_ITEMS = 256,
    GY_EMIT_BYTES =
        8 << 10, /* bytes of copied keys and values; a larger pair is a batch of its own */
    GY_VALUE_BYTES_MAX = 1 << 30,
};

struct gy_sorter;

struct gy_map {
    gy_vertex *vertex;
    const gy_task_stage *stage;
    gy_gather *gather;              /* GY_ORDER_HASH; NULL: map only */
    struct gy_sorter **sorters;     /* (partitions) for the other orders */
    gy_partition_work partition;    /* NULL: by hash */
    gy_outlet output;               /* of a map without reduces */
    int64_t number;                 /* number of the current file among the job's inputs */
    gy_mapreduce_progress progress; /* through the task's input, by offsets of records */
    uint64_t sorted;                /* items that went to sorters */
    void *state;                    /* gy_map_state */
    void (*drop_state)(void *state);
    gy_status status;    /* of the first failure */
    char text[256];      /* text of the first failure */
    const char *lasting; /* (lasting_size) keys inside this memory need no copy */
    size_t lasting_size;
    size_t count, used;
    size_t capacity; /* in items; 0: the map may not emit numbers */
    bool is_counting;
    gy_item items[GY_EMIT_ITEMS];
    char bytes[GY_EMIT_BYTES + 16];
};

/** Empty the batch of emitted pairs. */
GY_MUST_CHECK gy_status gy_map_flush(gy_map *map);
/** Record a failure with its text, unless there was an earlier one. */
void gy_map_keep(gy_map *map, gy_status status);

struct gy_values {
    gy_mapreduce_fold fold;
    gy_status status;
    void *arg;
    /* Gets the next value; GY_AGAIN: there are no more. */
    gy_status (*next)(void *arg, gy_item *item);
};

/** The values of lists that arrive in segments; of a set each value once, also across segments.
 * Initialise the first three members, the rest with zero. */
typedef struct gy_listed {
    /* Gets the next segment; `list` NULL: there are no more. */
    gy_status (*more)(void *arg, const char **list, size_t *size);
    void *arg;
    gy_mapreduce_fold fold;
    gy_piece piece;
    int64_t last;
    bool has_last;
} gy_listed;
gy_values gy_listed_values(gy_listed *list);

struct gy_reducer {
    gy_vertex *vertex;
    const gy_task_stage *stage;
    gy_outlet output;
    bool is_combining; /* it emits values, not lines */
    gy_status status;
    char text[256];
};

void gy_mapreduce_reduce_keep(gy_reducer *reduce, gy_status status);

/** Append "KEY\tNUMBER\n". */
GY_MUST_CHECK gy_status gy_mapreduce_put_number(gy_outlet *output, const void *key,
                                                size_t key_size, int64_t number);

/** The user's function that combines numbers; NULL: the fold needs none. */
gy_join_numbers gy_mapreduce_task_join(const gy_vertex *vertex, const gy_task_options *options);

/** The memory budget of a vertex: the job's option, else three quarters of the process's, else
 * 1 GiB. */
size_t gy_mapreduce_task_memory(const gy_vertex *vertex, const gy_task_stage *stage);

/** Pass a key with its values to the user's reduce, or write them as a job without a reduce
 * does. */
GY_MUST_CHECK gy_status gy_mapreduce_reduce_key(gy_reducer *reduce, const char *key,
                                                size_t key_size, gy_values *values);
/** Write the numbers of a set, separated by spaces, and before the first one `key` and a tab
 * (key NULL: neither). */
GY_MUST_CHECK gy_status gy_mapreduce_put_set(gy_outlet *output, const gy_record *key,
                                             gy_values *values);

/** Run a vertex of a phase (run.c, reduce.c). */
GY_MUST_CHECK gy_status gy_map_run(gy_vertex *vertex, const gy_task_stage *stage);
GY_MUST_CHECK gy_status gy_mapreduce_reduce_run(gy_vertex *vertex, const gy_task_stage *stage);

/** Make a sink of output `number` of a vertex. `to` outlives it. */
typedef struct gy_output_of {
    gy_vertex *vertex;
    int number;
} gy_output_of;
gy_sink gy_sink_of(gy_output_of *to);

/** Make a source of input `number` of a vertex. `from` outlives it. */
typedef struct gy_input_of {
    gy_vertex *vertex;
    int number;
} gy_input_of;
gy_byte_source gy_byte_source_of(gy_input_of *from, const char *name);

/** Read the tables of all inputs of a vertex as one. `inputs` (count) outlive the groups.
 * GY_NOMEM; as gy_vertex_read and gy_mapreduce_rows_next */
GY_MUST_CHECK gy_status gy_mapreduce_task_tables(gy_input_of *inputs, size_t count,
                                                 gy_mapreduce_fold fold, gy_join_numbers join,
                                                 gy_groups **groups);

#endif
