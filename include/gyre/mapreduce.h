/**
 * MapReduce over the graphs of <gyre/flow.h>: a map reads the records of files; the pairs that
 * it emits are combined, partitioned by key and given to a reduce, key by key.
 *
 *     static void count_words(gy_map *map, const gy_record *line)
 *     {
 *         for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
 *             gy_emit(map, word.data, word.size, 1);
 *         }
 *     }
 *     int main(int argc, char **argv)
 *     {
 *         const gy_function functions[] = {GY_MAP("count", count_words)};
 *         gy_flow *flow = NULL;
 *         gy_dag *dag = NULL;
 *         gy_status status = gy_flow_start(&argc, &argv, functions, 1, &flow);
 *         if (status == GY_DONE) {
 *             return 0;
 *         }
 *         status = status < 0 ? status : gy_map_reduce(flow, &(gy_map_reduce_options){
 *             .inputs = (const char *const[]){argv[1], NULL}, .format = GY_RECORDS_LINES,
 *             .map = "count", .combine = GY_COMBINE_SUM}, &dag);
 *         status = status < 0 ? status
 *             : gy_flow_run(flow, dag, &(gy_flow_options){.output = argv[2]}, NULL);
 *         ...
 *     }
 *
 * A reduce gets its keys in the order of (hash, key), which is the same on every machine and in
 * every attempt; GY_ORDER_KEY gives them in the order of keys. A map or reduce reports an error
 * with gy_map_fail or gy_reduce_fail. A record that kills its process twice is skipped and
 * reported (gy_flow_options.bad_records_max).
 *
 * @source lecture A, "MapReduce"; Dean, Ghemawat, OSDI 2004
 */
#ifndef GYRE_MAPREDUCE_H
#define GYRE_MAPREDUCE_H

#include <gyre/flow.h>
#include <gyre/format.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- records ---- */

/** The format of the inputs' records. Compressed files are decompressed (gy_encoding); a
 * compressed file, and a CSV file in an object store, are one split each. In all formats but
 * FIXED a byte order mark (UTF-8) at the file's start is not part of the first record. */
typedef enum gy_record_format {
    GY_RECORDS_LINES, /* a line without its line end (gy_line_end); other bytes as they are */
    GY_RECORDS_TEXT,  /* several whole lines at once, up to 64 KiB or one longer line: for maps
                         that  find words themselves */
    GY_RECORDS_CSV,   /* a row as <gyre/csv.h> reads it, with its quotes, without its line end;
                         all rows must have as many fields as the first one of their file,
                         which is a row like the others. A large file is read once more when
                         the graph is made, to split it where rows begin */
    GY_RECORDS_KEY_VALUE, /* a line: key, tab, value; without a tab all of it is the key */
    GY_RECORDS_FIXED,     /* record_bytes each */
} gy_record_format;

/** A record; its texts are borrowed for the call. In a reduce, key and data are both the key.
 */
typedef struct gy_record {
    const char *data; /* (size) KEY_VALUE: the value */
    size_t size;
    const char *key; /* (key_size) of KEY_VALUE; NULL */
    size_t key_size;
    uint64_t offset;  /* of its first byte in the (decompressed) file */
    const char *file; /* its path */
    char delimiter;   /* of CSV */
} gy_record;

/** A word or field of a record. Size 0: there is none (of fields: data NULL). */
typedef struct gy_token {
    const char *data;
    size_t size;
    const char *end; /* of the record */
    char delimiter;
} gy_token;

/** Where a word begins, and its size; size 0: there is none. */
typedef struct gy_word {
    const char *data;
    size_t size;
} gy_word;
/** Find the first word from `at` on, before `end`: the longest run of bytes other than space,
 * tab, newline and carriage return. @threads any @cost about 3 ns */
GY_API gy_word gy_word_within(const char *at, const char *end);

/** The first word of a record. @threads any */
static inline gy_token gy_first_word(const gy_record *record)
{
    const char *end = record->data + record->size;
    const gy_word word = gy_word_within(record->data, end);
    const gy_token token = {word.data, word.size, end, record->delimiter};
    return token;
}

/** The word behind `last` in its record. @threads any */
static inline gy_token gy_next_word(gy_token last)
{
    const gy_word word = gy_word_within(last.data + last.size, last.end);
    const gy_token token = {word.data, word.size, last.end, last.delimiter};
    return token;
}

/** The first field of a CSV row, with its quotes if it has any; data NULL: none. @threads any
 */
GY_API gy_token gy_first_field(const gy_record *record);
/** The field behind `field` in its row; data NULL: none. @threads any */
GY_API gy_token gy_next_field(gy_token field);
/** Write a field without its quotes into `out` (field.size bytes); returns how many bytes it
 * has.
 * @threads any */
GY_API size_t gy_field_text(gy_token field, char *out);

/* ---- maps ---- */

/** A running map. Only the function's own thread uses it, during the call. */
typedef struct gy_map gy_map;
typedef void (*gy_map_work)(gy_map *map, const gy_record *record);

/** A pair of a key and a number. */
typedef struct gy_emission {
    const void *key;
    size_t key_size;
    int64_t value;
} gy_emission;

/** Emit a key (any bytes) with a number; both are copied. The map remembers a failure and ends
 * after this record. */
GY_API void gy_emit(gy_map *map, const void *key, size_t key_size, int64_t value);
/** Emit a key with bytes, for GY_COMBINE_NONE and GY_COMBINE_USER. A map emits numbers or
 * bytes, not both. */
GY_API void gy_emit_bytes(gy_map *map, const void *key, size_t key_size, const void *value,
                          size_t value_size);
/** Emit many pairs at once; faster than gy_emit. */
GY_API void gy_emit_batch(gy_map *map, const gy_emission *items, size_t count);
/** Emit all words of a text, each with the number 1; fastest. For GY_COMBINE_SUM. */
GY_API void gy_emit_words(gy_map *map, const char *text, size_t size);
/** Write bytes to the output as they are, in a map without a reduce. */
GY_API void gy_map_write(gy_map *map, const void *data, size_t size);
/** End the job with an error that another attempt would meet again. `text` is copied. */
GY_API void gy_map_fail(gy_map *map, const char *text);
/** The parameter of the job's options. */
GY_API const void *gy_map_parameter(const gy_map *map, size_t *size_bytes);
/** A pointer for the map's own state, NULL before the first record of a split. After the last
 * record `drop` frees it (also when it is NULL). */
GY_API void **gy_map_state(gy_map *map, void (*drop)(void *state));
/** The vertex that runs the map, for gy_vertex_count and others. */
GY_API gy_vertex *gy_map_vertex(gy_map *map);

/** A number as a key whose bytes have the numbers' order under memcmp. */
typedef struct gy_number_key {
    unsigned char bytes[8];
} gy_number_key;
GY_API gy_number_key gy_key_of_int64(int64_t number);
GY_API gy_number_key gy_key_of_uint64(uint64_t number);
/** -0 before 0, NaN beyond the infinity of its sign. */
GY_API gy_number_key gy_key_of_float64(double number);
GY_API int64_t gy_int64_of_key(const void *key);
GY_API uint64_t gy_uint64_of_key(const void *key);
GY_API double gy_float64_of_key(const void *key);

/* ---- reduces ---- */

typedef struct gy_reducer gy_reducer;
/** The values of a key, in the order of the inputs and of emission; combined when the options
 * say so. */
typedef struct gy_values gy_values;
typedef void (*gy_reduce_work)(gy_reducer *reduce, const gy_record *key, gy_values *values);

/** The next number; false: there is none. */
GY_API bool gy_values_number(gy_values *values, int64_t *value);
/** The next bytes, valid until the next call; false: there are none. */
GY_API bool gy_values_bytes(gy_values *values, const void **value, size_t *size_bytes);

/** Write a line: key, tab, number. The reduce remembers a failure. */
GY_API void gy_reduce_put(gy_reducer *reduce, const void *key, size_t key_size, int64_t value);
/** Write a line: key, tab, value. */
GY_API void gy_reduce_put_bytes(gy_reducer *reduce, const void *key, size_t key_size,
                                const void *value, size_t value_size);
/** Write bytes as they are. */
GY_API void gy_reduce_write(gy_reducer *reduce, const void *data, size_t size);
/**
 * Emit a value in place of those that were read, in a combiner of bytes. The job calls a
 * combiner with some neighbouring values of a key, any number of times or never, so the reduce
 * must give the same result for the combined value as for the values themselves. A combiner
 * writes nothing else.
 */
GY_API void gy_combine_put(gy_reducer *combiner, const void *value, size_t value_size);
GY_API void gy_reduce_fail(gy_reducer *reduce, const char *text);
GY_API const void *gy_reduce_parameter(const gy_reducer *reduce, size_t *size_bytes);
GY_API gy_vertex *gy_reduce_vertex(gy_reducer *reduce);

/* ---- functions of a program ---- */

/** Combines two numbers of a key; must be associative; left came first. */
typedef int64_t (*gy_combine_work)(int64_t left, int64_t right);
/** The partition of a key, less than `partitions`, by its bytes alone. */
typedef uint32_t (*gy_partition_work)(const void *key, size_t key_size, uint32_t partitions);

/** Runs a vertex of a map; the macros below name it. */
GY_API gy_status gy_mapreduce_run(gy_vertex *vertex);
/** Runs a vertex of a reduce. The other two are no vertices and return GY_ARG: they mark what
 * kind of function a row of the list is. */
GY_API gy_status gy_mapreduce_run_reduce(gy_vertex *vertex);
GY_API gy_status gy_mapreduce_run_combine(gy_vertex *vertex);
GY_API gy_status gy_mapreduce_run_partition(gy_vertex *vertex);

#ifdef __cplusplus
#define GY_MAPREDUCE_ROW(name, run, type, work)                                                \
    {                                                                                          \
        name, run, reinterpret_cast<gy_any_work>(static_cast<type>(work))                      \
    }
#else
#define GY_MAPREDUCE_ROW(name, run, type, work)                                                \
    {                                                                                          \
        name, run, (gy_any_work)(1 ? (work) : (type)0)                                         \
    }
#endif
/** Rows of the function list for gy_flow_start; the compiler checks the type of `work`. */
#define GY_MAP(name, work) GY_MAPREDUCE_ROW(name, gy_mapreduce_run, gy_map_work, work)
#define GY_REDUCE(name, work)                                                                  \
    GY_MAPREDUCE_ROW(name, gy_mapreduce_run_reduce, gy_reduce_work, work)
#define GY_COMBINE(name, work)                                                                 \
    GY_MAPREDUCE_ROW(name, gy_mapreduce_run_combine, gy_combine_work, work)
#define GY_PARTITION(name, work)                                                               \
    GY_MAPREDUCE_ROW(name, gy_mapreduce_run_partition, gy_partition_work, work)

/* ---- jobs ---- */

/** How the values of a key are combined before the reduce. */
typedef enum gy_combine {
    GY_COMBINE_NONE,  /* not: all of them reach the reduce */
    GY_COMBINE_SUM,   /* of numbers, modulo 2^64 */
    GY_COMBINE_COUNT, /* how many there are */
    GY_COMBINE_MIN,
    GY_COMBINE_MAX,
    GY_COMBINE_SET,  /* each number once; a map emits them in ascending order for each key */
    GY_COMBINE_USER, /* combine_function */
} gy_combine;

/*
 * Hot keys. A key with a large part of all values makes its reduce the slowest. Where the job
 * permits it, several vertices (stage "hot key", each with the values of neighbouring maps)
 * share the values of that key, and the reduce reads their results; the output is the same to
 * the byte. A job permits it with the order GY_ORDER_HASH and two partitions or more,
 *   - without a reduce, for lists and GY_COMBINE_SET: the lines of the shares are joined;
 *   - with a reduce of bytes (has_bytes), when GY_COMBINE_USER declares a combiner.
 * A map combines numbers to one number a key, so no key of numbers is hot. A reduce without a
 * combiner always gets all values of a key. hot_key_bytes SIZE_MAX forbids sharing. The sample
 * of a map in such a job (gy_vertex_set_sample) lists its heavy keys, in place of the
 * function's own.
 */

typedef enum gy_reduce_order {
    GY_ORDER_HASH,  /* (hash, key): nothing is sorted */
    GY_ORDER_KEY,   /* keys as memcmp, a prefix before its continuations */
    GY_ORDER_VALUE, /* the same, and the values of a key too (secondary sort); GY_COMBINE_NONE,
                       bytes */
} gy_reduce_order;

typedef struct gy_map_reduce_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    /* Paths of files, or URIs of objects in S3 and HDFS, NULL at the end. "file://HOST/path"
     * lies on that host's own disk (gy_vertex_options.files); its size is not known before it
     * runs, so it is one split. */
    const char *const *inputs;
    const char *const *names; /* of the inputs in outputs and messages; NULL: their paths */
    gy_record_format format;
    gy_encoding encoding; /* of all inputs */
    gy_line_end line_end; /* the same */
    size_t record_bytes;  /* FIXED */
    char delimiter;       /* CSV: ASCII, neither quote nor line end; 0: ',' */
    const char *map;      /* name of a GY_MAP */
    gy_combine combine;
    const char *combine_function; /* GY_COMBINE_USER: a GY_COMBINE; with has_bytes a GY_REDUCE
                                     that gives values by gy_combine_put */
    const char *reduce; /* a GY_REDUCE; NULL: lines of key, tab, value, one for each value */
    const char *partition_function; /* a GY_PARTITION; NULL: by hash (GY_ORDER_HASH), or by a
                                       hash of the key */
    gy_reduce_order order;
    bool has_bytes;      /* the map emits bytes */
    bool is_map_only;    /* no reduce: gy_map_write makes the output, a file a split */
    int partitions;      /* reduces, and files of the output; 0: two a core */
    size_t split_bytes;  /* of input a map takes, about; 0: by the size of the inputs, 32 to 256
                            MiB */
    size_t memory_bytes; /* of a vertex; 0: 1 GiB */
    const void *parameter; /* (parameter_bytes) for gy_map_parameter and gy_reduce_parameter */
    size_t parameter_bytes;
    const char *const *files; /* side files, NULL at the end: their contents are part of the
                                 job; may be NULL */
    const char *name;         /* of the output's files; NULL: "part" */
    /* A key is hot when it has at least so many bytes of values, more than half of a
     * partition's fair share, and its partition has more than 9/8 of the fair share. 0: 1 MiB;
     * SIZE_MAX: no key is hot */
    size_t hot_key_bytes;
} gy_map_reduce_options;

/**
 * The graph of a MapReduce job: a stage "map" over splits of the inputs, a stage "reduce", and
 * "hot key" when there is one. The call looks up the sizes of the inputs.
 *
 * @param dag caller owns
 * @return GY_OK; GY_ARG a wrong option; GY_NOTFOUND, GY_IO an input cannot be read; GY_FORMAT
 * an input is not what it is named as; of objects as gy_store_list; GY_NOMEM
 * @cost a system call a file; a request an object whose size no listing gave before, and one
 * more when it is larger than a split
 */
GY_API GY_MUST_CHECK gy_status gy_map_reduce(gy_flow *flow,
                                             const gy_map_reduce_options *options,
                                             gy_dag **dag);

/* ---- ready-made jobs: *dag is the caller's, the returns are those of gy_map_reduce ---- */

/** The functions that the jobs below need, for gy_flow_start. */
GY_API extern const gy_function gy_mapreduce_functions[];
GY_API extern const int gy_mapreduce_function_count;

typedef struct gy_job_options {
    size_t struct_size;               /* GY_OPTIONS; 0: as compiled */
    const char *const *inputs;        /* paths and objects, NULL at the end */
    const char *const *names;         /* as of gy_map_reduce_options */
    int partitions;                   /* 0: two a core */
    size_t split_bytes, memory_bytes; /* as of gy_map_reduce_options */
    const char *name;                 /* of the output's files; NULL: "part" */
    size_t hot_key_bytes;             /* as of gy_map_reduce_options */
    gy_encoding encoding;             /* of all inputs */
    gy_line_end line_end;             /* the same */
} gy_job_options;

/** Count words: lines of word, tab, count. */
GY_API GY_MUST_CHECK gy_status gy_dag_wordcount(gy_flow *flow, const gy_job_options *options,
                                                gy_dag **dag);

typedef struct gy_grep_options {
    size_t struct_size;        /* GY_OPTIONS; 0: as compiled */
    const gy_job_options *job; /* needed; borrowed, of a size of its own */
    const char *pattern;
    bool is_fixed; /* the pattern's bytes; else an extended regular expression (POSIX) */
    bool ignores_case;
    bool is_inverted; /* lines that do not match */
    bool is_counting; /* how many lines of each file match: lines of path, tab, count */
} gy_grep_options;
/** Find the lines that match, in the order of the inputs. */
GY_API GY_MUST_CHECK gy_status gy_dag_grep(gy_flow *flow, const gy_grep_options *options,
                                           gy_dag **dag);

/** Build an inverted index: lines of word, tab, the numbers of the inputs that have it,
 * ascending, separated by spaces. Input i of `inputs` has the number i. */
GY_API GY_MUST_CHECK gy_status gy_dag_index(gy_flow *flow, const gy_job_options *options,
                                            gy_dag **dag);
/** Add an output `name` to a graph that maps numbers to `inputs` (NULL at the end): lines of
 * number, tab, path. The graph keeps an error. */
GY_API void gy_dag_list_inputs(gy_dag *dag, const char *const *inputs, const char *name);

/** Counters of lines that lack the field or the number that a ready-made job needs: it skipped
 * them, or took them as 0. */
#define GY_COUNTER_NO_FIELD  "lines without the field"
#define GY_COUNTER_NO_NUMBER "lines without a number"

typedef struct gy_topk_options {
    size_t struct_size;        /* GY_OPTIONS; 0: as compiled */
    const gy_job_options *job; /* needed; borrowed, of a size of its own */
    int field;                 /* of a line, from 1; 0: the whole line */
    int k;                     /* 0: 5 */
    int weight_field; /* sum the integer in that field, exactly: an overflow of int64_t, also of
                         a partial sum, fails the job; 0: count lines */
    char separator;   /* of fields; 0: any spaces and tabs */
    bool is_strict; /* a line without the field or the number fails the job; else it is skipped
                       and counted (GY_COUNTER_NO_FIELD, GY_COUNTER_NO_NUMBER) */
} gy_topk_options;
/** Find the k most frequent values of a field, the most frequent first, of equal ones the
 * smaller key first: lines of value, tab, count, in one file. The stages of its graph exchange
 * no files.
 */
GY_API GY_MUST_CHECK gy_status gy_dag_topk(gy_flow *flow, const gy_topk_options *options,
                                           gy_dag **dag);

typedef struct gy_commands_options {
    size_t struct_size;        /* GY_OPTIONS; 0: as compiled */
    const gy_job_options *job; /* needed; borrowed, of a size of its own */
    const char *const *map; /* a program and its arguments, NULL at the end: lines in, lines of
                               key, tab, value out */
    const char *const *reduce; /* reads lines of key, tab, value, those of a key together, keys
                                  in order; NULL: none */
    const char *const *files;  /* put into the folder of both, NULL at the end; may be NULL */
} gy_commands_options;
/** Run any programs as map and reduce, by standard input and output. */
GY_API GY_MUST_CHECK gy_status gy_dag_commands(gy_flow *flow,
                                               const gy_commands_options *options,
                                               gy_dag **dag);

#ifdef __cplusplus
}
#endif
#endif
