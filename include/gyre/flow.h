/**
 * Dataflow jobs: a directed acyclic graph of vertices (any code, several inputs and outputs)
 * and channels (files, TCP pipes, FIFOs in shared memory), run by processes of this same
 * program.
 *
 * Parts of a graph are values that compose as Dryad's do: clone, pointwise, bipartite, merge,
 * fork. What depends on sizes is decided at run time, by refinement functions that see complete
 * sizes alone (gy_part_refine).
 *
 * Errors. Makers of graphs (gy_dag_new, gy_map_reduce, gy_dag_sort, …) return a gy_status and
 * give the graph by an out parameter, which a failure leaves untouched. What builds on a graph
 * is as in <gyre/graph.h>: a call that fails returns a failed part (index -1) and keeps its
 * failure in the graph; a failed part may be passed on and gives failed parts. The first
 * failure is reported by gy_dag_status() and gy_flow_run(), so no composition needs a check of
 * its own.
 *
 * @source lecture A, "Dryad"; Isard, Budiu, Yu, Birrell, Fetterly, EuroSys 2007
 */
#ifndef GYRE_FLOW_H
#define GYRE_FLOW_H

#include <gyre/base.h>
#include <gyre/job.h>
#include <gyre/vertex.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the program ---- */

/** The handle of a program that runs jobs: it has the functions that vertices may name. */
typedef struct gy_flow gy_flow;

/** A function that vertices name. */
typedef struct gy_function {
    const char *name;   /* static */
    gy_vertex_work run; /* what a vertex of it does */
    gy_any_work user;   /* what `run` may call (gy_vertex_user); NULL for a plain vertex */
} gy_function;
#define GY_VERTEX(name, work)                                                                  \
    {                                                                                          \
        name, work, NULL                                                                       \
    }

/**
 * Register the program's functions; call it first in main, before any thread starts.
 *
 * A job starts more processes of the same program, its workers, and this call is how they work:
 * there it runs vertices until the job needs the process no more, and returns GY_DONE (or why
 * it could not work) without a handle. main then returns at once, since what follows is the
 * part of the job's manager; what precedes the call in main runs in each worker, too:
 *
 *     gy_flow *flow = NULL;
 *     gy_status status = gy_flow_start(&argc, &argv, functions, 2, &flow);
 *     if (status == GY_DONE) {
 *         return 0;
 *     }
 *
 * The job does not depend on the exit status of workers. A worker is forked where the call is
 * made, so that main goes on from there in several processes. A vertex function that goes on
 * after its job has ended ends with its process, from which main then does not return.
 *
 * @param argc, argv  as main got them; borrowed for the life of the program
 * @param functions   (count) names are unique and not empty; copied, their names borrowed
 * @param flow        becomes the handle, for gy_flow_end
 * @return GY_OK; GY_DONE a worker whose work is done; GY_ARG a wrong list; GY_NOMEM; GY_STATE a
 * worker that cannot work
 * @threads the first, once
 */
GY_API GY_MUST_CHECK gy_status gy_flow_start(const int *argc, char ***argv,
                                             const gy_function *functions, int count,
                                             gy_flow **flow);
/** Free the handle, after all jobs. NULL is fine. */
GY_API void gy_flow_end(gy_flow *flow);

/**
 * Measure an input and pin its version, before the graph names ranges of it
 * ("path:offset:size"): the next job of this process reads the version that is there now, or
 * fails and names the input. An input that was not pinned is pinned when the job begins.
 *
 * @param path a file, or an object by its URI
 * @param size_bytes becomes the input's size
 * @return GY_OK; GY_NOTFOUND; GY_IO it is a folder, a pipe or on another host, or cannot be
 * read; GY_ARG no path; of objects as gy_store_list
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_flow_input(const char *path, uint64_t *size_bytes);

/* ---- graphs ---- */

/** The graph of a job while it is built. Not thread-safe. */
typedef struct gy_dag gy_dag;

/** What connects an output to an input. */
typedef enum gy_channel {
    GY_CHANNEL_FILE, /* the reader starts when the writer has ended; any number of readers */
    GY_CHANNEL_PIPE, /* TCP; both run at once, as a cohort: they fail and get backups together
                      */
    GY_CHANNEL_FIFO, /* shared memory; as a pipe */
} gy_channel;

/** What a vertex's outputs have in common when it runs again over the same inputs. */
typedef enum gy_determinism {
    GY_OUTPUT_DETERMINISTIC, /* the same bytes; other bytes fail the job */
    GY_OUTPUT_UNORDERED,     /* the same records in another order */
    GY_OUTPUT_INDETERMINATE, /* anything: when it is lost, all its consumers run again; it is
                                never memoised */
} gy_determinism;

/** A number of ports that composition decides: as many as are connected. */
enum { GY_PORTS_ANY = -1 };

typedef struct gy_vertex_options {
    size_t struct_size;   /* GY_OPTIONS; 0: as compiled */
    const char *function; /* a name of gy_flow_start; NULL with `command` */
    const char *stage; /* for reports, and what gy_part_refine waits for; NULL: the function's
                          (or command's) name */
    const void *parameter; /* (parameter_bytes) copied; gy_vertex_parameter */
    size_t parameter_bytes;
    int inputs,
        outputs; /* ports, each of which must be connected; GY_PORTS_ANY: as many as are */
    gy_determinism determinism;
    size_t memory_bytes;  /* the vertex's budget (gy_vertex_memory); 0: the process's */
    int64_t output_bytes; /* expected of each output; 0: unknown. In a cohort that is wider than
                             the processes it decides which pipes become files */
    /* Files from outside the graph, NULL at the end: "path" or "path:offset:size". A function
     * reads them as inputs behind the connected ones; a command finds them in its working
     * folder. Their contents are part of the key under which the result is memoised. May be
     * NULL. "file://HOST/path" (or HOST,HOST: any of them) lies on that host's own disk: on a
     * cluster the vertex runs on that host alone and waits while its slots are taken; the job
     * fails when the hosts have had no daemon for 10 s. Such a vertex has no pipes or FIFOs,
     * and belongs to the graph before refinement; changes of the file between attempts are not
     * detected. "s3://BUCKET/KEY" and "hdfs://HOST:PORT/PATH" are objects, for functions alone.
     * The vertex reads them from their store, a segment at a time, in the version that they
     * have when the job begins; a change meanwhile fails the job. On a cluster, vertices
     * without preferred_hosts prefer the hosts where HDFS has their blocks. */
    const char *const *files;
    /* Hosts that have the vertex's inputs nearby, NULL at the end. On a cluster it runs there
     * while they have free slots, else anywhere. May be NULL. */
    const char *const *preferred_hosts;
    /* In place of a function: a program with its arguments, NULL at the end. Input 0 is its
     * standard input, its standard output is output 0. The parameter "\n" (one byte) makes them
     * lines: a last line without a line end gets one. Its result is memoised only when `files`
     * lists what the program consists of. */
    const char *const *command;
    /* With command: start so many ranks of it, which meet in gy_comm_world(); 0: a plain
     * process. They may have any number of inputs: files $GYRE_INPUTS/0, 1, ... at each host;
     * the one output is the file $GYRE_OUTPUT as rank 0 sees it when all ranks have ended.
     * parameter: nothing, or a gy_run_options (<gyre/launch.h>) of which the numbers and flags
     * count, except `ranks` and what says where other nodes are. */
    int ranks;
    /* With ranks, on a cluster: spread them over so many hosts, ranks / hosts on each, with a
     * slot for each rank, all at once or none; between hosts they communicate over TCP. When a
     * host is lost, all of them run again elsewhere. 0: on one host, in one slot, whatever else
     * runs there. Without a cluster they always run on this machine. */
    int hosts;
} gy_vertex_options;

/** A part of a graph: vertices in an order, some of them with free inputs or outputs. A small
 * value; valid as long as its dag. */
typedef struct gy_part {
    gy_dag *dag;
    int32_t index;
} gy_part;

/**
 * An empty graph; caller owns it.
 *
 * @param name of the job, for reports; copied
 * @return GY_OK; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_dag_new(gy_flow *flow, const char *name, gy_dag **dag);
/** NULL is fine. Not while it runs. */
GY_API void gy_dag_free(gy_dag *dag);
/** The first failure of any call on the graph, in words in gy_error_text(); GY_OK if none so
 * far (gy_flow_run checks the whole graph). */
GY_API gy_status gy_dag_status(const gy_dag *dag);

/** Add a vertex; all its ports are free. @cost O(1) */
GY_API gy_part gy_dag_vertex(gy_dag *dag, const gy_vertex_options *options);
/** Add `count` vertices of options[0], options[1], …, in this order. @cost O(count) */
GY_API gy_part gy_dag_vertices(gy_dag *dag, const gy_vertex_options *options, int count);

/**
 * A^n: n clones of a part with the edges inside it; the part itself is the first. Their ports
 * are in the order of the clones. gy_vertex_index is a vertex's number among its clones.
 *
 * @param clones >= 1
 * @cost O(clones) vertices and edges of 16 bytes
 */
GY_API gy_part gy_part_clone(gy_part part, int clones);

/**
 * A >= B: connect free output k of a to free input k of b; the part with fewer of them starts
 * over from its first. An output that feeds several inputs needs files; an input takes one
 * edge, unless its vertex takes any number (GY_PORTS_ANY).
 *
 * @return the vertices of both, inputs of a, outputs of b
 */
GY_API gy_part gy_part_pointwise(gy_part a, gy_part b, gy_channel channel);

/**
 * A >> B: connect each vertex of a that has free outputs to each vertex of b that has free
 * inputs. Output j of a's i-th vertex (its only output, if it has one) feeds input i of b's
 * j-th vertex.
 *
 * @return the vertices of both, inputs of a, outputs of b
 */
GY_API gy_part gy_part_bipartite(gy_part a, gy_part b, gy_channel channel);

/** A || B: the vertices of a, then those of b that are not in a. A port is free when it is free
 * in each part that has its vertex. */
GY_API gy_part gy_part_merge(gy_part a, gy_part b);

/** Like gy_part_pointwise, but the outputs of a stay free, before those of b: a bypass. */
GY_API gy_part gy_part_fork(gy_part a, gy_part b, gy_channel channel);

/** Let the free outputs become files NAME-00000, NAME-00001, … of the job's output, in order.
 * @param name letters, digits, '-', '_' and '.', not starting with '.'; once a dag */
GY_API void gy_part_output(gy_part part, const char *name);

/* ---- dynamic graph refinement ---- */

/** A refinement point: what a refinement function sees of the vertices that it waited for.
 * Lives as long as the call. */
typedef struct gy_refinement gy_refinement;

/**
 * A refinement function: decides how the graph continues once all vertices of a part are
 * committed, by their complete sizes. It is a pure function of what the refinement point shows,
 * since after a crash of the manager it is called again.
 *
 * @param outputs the part's free outputs: compose them with new vertices, gy_part_output or
 * gy_part_refine; parts made before the run cannot be used here
 */
typedef void (*gy_refine_work)(gy_refinement *refinement, gy_dag *dag, gy_part outputs);

typedef struct gy_refine_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    gy_refine_work work;
    const void *parameter; /* (parameter_bytes) copied; gy_refinement_parameter */
    size_t parameter_bytes;
    const char *const *stages; /* of the vertices that it makes, NULL at the end; making others
                                  is an error */
} gy_refine_options;

/** Let options->work continue the graph behind the free outputs of `part`. */
GY_API void gy_part_refine(gy_part part, const gy_refine_options *options);

/** How many outputs arrive at the refinement point; the functions below number them from 0, in
 * order. @cost O(1) */
GY_API int64_t gy_refinement_outputs(const gy_refinement *refinement);
/** The size of an output in bytes. */
GY_API int64_t gy_refinement_bytes(const gy_refinement *refinement, int64_t output);
/** The sample of the vertex of that output (gy_vertex_set_sample); NULL and 0 bytes: none. */
GY_API const void *gy_refinement_sample(const gy_refinement *refinement, int64_t output,
                                        size_t *size_bytes);
/** The parameter of the gy_refine_options. */
GY_API const void *gy_refinement_parameter(const gy_refinement *refinement, size_t *size_bytes);
/** How many processes the job has. */
GY_API int gy_refinement_processes(const gy_refinement *refinement);

/**
 * For refinement functions: an aggregation tree of `combiner` vertices (any number of inputs,
 * one output) over the outputs. Neighbours share a vertex as long as they have at most
 * bytes_per_vertex together, at least two of them; further levels have the fan-in of the first.
 * A single output has a vertex too.
 *
 * @return a part with one free output
 */
GY_API gy_part gy_refinement_aggregate(gy_refinement *refinement, gy_part outputs,
                                       const gy_vertex_options *combiner,
                                       int64_t bytes_per_vertex);
/**
 * For refinement functions: repartition the outputs. Makes as many vertices of `consumer` as
 * the sizes require; each reads neighbouring outputs of about bytes_per_vertex together.
 *
 * @return the consumers, with free outputs
 */
GY_API gy_part gy_refinement_repartition(gy_refinement *refinement, gy_part outputs,
                                         const gy_vertex_options *consumer,
                                         int64_t bytes_per_vertex);

/** gy_part_refine with an aggregation tree (gy_refinement_aggregate), whose result is output
 * `name` of the job. */
GY_API void gy_part_aggregate(gy_part part, const gy_vertex_options *combiner,
                              int64_t bytes_per_vertex, const char *name);

/** A key of a sample, with the bytes or records that it stands for. */
typedef struct gy_sample_key {
    const void *key;
    size_t key_bytes;
    int64_t weight;
} gy_sample_key;

/** A range of keys: from `first` (the first range: from the beginning) to before the next
 * range's. */
typedef struct gy_key_range {
    const void *first; /* (first_bytes) borrowed from the sample */
    size_t first_bytes;
    int64_t weight;
    int shares; /* above 1: the range is a single key, so heavy that so many vertices should
                   share it, which a combiner permits */
} gy_key_range;

/**
 * Split a sample of keys into at most `ranges` ranges of about equal weight, in the order of
 * memcmp (a shorter key before its continuations). Equal keys stay together; a key heavier than
 * a range has one of its own. Pure.
 *
 * @param keys  (count) sorted in place
 * @param out   (ranges) filled from the first
 * @return how many ranges there are, >= 1; of an empty sample: 1
 * @cost O(count log count)
 */
GY_API int gy_plan_key_ranges(gy_sample_key *keys, int64_t count, int ranges,
                              gy_key_range *out);

/* ---- running ---- */

/** The smallest gy_flow_options.memory_bytes: what every process of a job needs would leave
 * little of less. */
#define GY_FLOW_MEMORY_BYTES_MIN (8 << 20)

typedef struct gy_flow_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    /* Folder that appears atomically, by its MANIFEST.json; absent or empty before. Or a prefix
     * in a store (s3://BUCKET/PREFIX, hdfs://HOST:PORT/PATH) below which no object is: the
     * output is made in the job's folder, then sent, the manifest last and exclusively. Nothing
     * there is replaced or removed, and a resumed job sends what is missing. NULL: none; the
     * graph then has no gy_part_output. */
    const char *output;
    const char *folder; /* of the job: journal, intermediates, log; NULL: a new one in
                           $XDG_STATE_HOME/gyre/jobs (~/.local/state/gyre/jobs) */
    const char *memo; /* folder of memoised results for later jobs, final outputs too where they
                         are their vertex's only one; NULL: none */
    int64_t memo_bytes_max; /* of that folder, the least recently used results go; 0: 10 GiB */
    int processes;          /* 0: one a core */
    int threads;            /* vertices at once in a process; 0: 1 */
    size_t memory_bytes;    /* limit of a process, >= GY_FLOW_MEMORY_BYTES_MIN; 0: none */
    int failures_max;       /* of a vertex by its own fault; 0: 6 */
    double backup_floor_s; /* a vertex runs at least so long before it gets a backup task; 0: 1;
                              <0: no backup tasks */
    double heartbeat_timeout_s; /* a process without heartbeats for so long is lost; 0: 10 */
    double timeout_s;           /* of the job; 0: none */
    double record_timeout_s;    /* of one record (gy_vertex_at_record); 0: none */
    int64_t bad_records_max; /* so many are skipped, one more fails the job; <0: any number */
    bool is_resume;          /* resume the job of `folder`, which must be this one */
    const char *trace;       /* file for a Chrome trace of all processes; NULL: none */
    /* Sandbox of the job's processes: "strict" (all restrictions, or the job does not start),
     * "available" (all that this machine has), or a list separated by commas of rights,
     * processes, network, files, calls, read=PATH and write=PATH; docs: gyre(1), SANDBOX. The
     * processes may read what vertices name as files, and write the job's folders and its
     * output. NULL or "none": no sandbox. */
    const char *sandbox;
    /* Called a few times a second with the report so far, on the thread of gy_flow_run; NULL:
     * not called. */
    void (*progress)(void *arg, const gy_job_report *report);
    void *progress_arg;
    /* Takes what the ranks of vertices print, whole lines, as they come; with text NULL, the
     * exit status with which an attempt of them failed, as `gyre run` has it. Called on the
     * thread of gy_flow_run. NULL: the output goes to the job's log. */
    void (*on_output)(void *arg, const char *text, size_t size_bytes, int exit_status);
    void *on_output_arg;
} gy_flow_options;

/**
 * Run a job to its end and publish its output.
 *
 * The output's files get their names and are synced, then MANIFEST.json is created exclusively:
 * a reader that finds the manifest finds every file. After a failure the output folder is
 * empty; of a prefix in a store the error says which objects are there.
 *
 * @param report  becomes the caller's (gy_job_report_free), also after a failure, or NULL; it
 * has stages, counters, notes and bad records. May be NULL
 * @return GY_OK; GY_ARG an error in the graph (as gy_dag_status), a refinement or the options:
 * names vertex and port; GY_EXISTS the output exists, or the folder holds another job;
 * GY_NOTFOUND an input file is missing, or there is no job to resume; GY_MISMATCH the job to
 * resume is another one; GY_STATE the graph was run before, another manager runs this job, the
 * memo folder is being collected, or the job failed: says which vertex and why; GY_TIMEOUT;
 * GY_CANCELLED by a signal; GY_IO; GY_LIMIT; GY_NOMEM
 * @threads the one that called gy_flow_start
 * @cost about 5 us a vertex beside its work
 */
GY_API GY_MUST_CHECK gy_status gy_flow_run(gy_flow *flow, gy_dag *dag,
                                           const gy_flow_options *options,
                                           gy_job_report **report);
/** Free a report that gy_flow_run made. NULL is fine. */
GY_API void gy_job_report_free(gy_job_report *report);

/** Bars on a terminal, for gy_flow_bars_draw. */
typedef struct gy_flow_bars {
    int file;  /* a descriptor, such as STDERR_FILENO */
    int lines; /* that stand on the terminal; 0 at first */
} gy_flow_bars;

/** For options->progress, with a gy_flow_bars as progress_arg: draw a bar for each stage on
 * bars->file, over those of the last call; nothing when that is no terminal. */
GY_API void gy_flow_bars_draw(void *bars, const gy_job_report *report);

/** Inputs of a job, some of them as copies in the job's folder. */
typedef struct gy_flow_spool {
    const char *const *inputs; /* NULL at the end: as they were given, or paths of copies */
    const char *folder;        /* for options->folder of the job; NULL: nothing was copied */
} gy_flow_spool;

/**
 * Copy inputs that can be read only once into the job's folder, since a job reads its inputs
 * where and as often as it needs. Such inputs are standard input, which the name "-" stands for
 * (a file of that name is "./-"), and files whose contents do not have the size that the system
 * reports, as in /proc and /sys. A resumed job reads the copies that it has.
 *
 * @param inputs as in gy_map_reduce_options, NULL at the end; borrowed until the close
 * @param folder as in gy_flow_options; NULL: the call chooses one
 * @param spool  caller owns; gy_flow_spool_close, after the job
 * @return GY_OK; GY_ARG "-" twice, a terminal, closed, or a malformed input; GY_UNSUPPORTED "-"
 * in a job on a cluster; GY_EXISTS the folder holds a job; GY_NOTFOUND a resumed job has no
 * copy; GY_IO; GY_NOMEM
 * @cost a system call an input, and the bytes that are copied
 */
GY_API GY_MUST_CHECK gy_status gy_flow_spool_open(const char *const *inputs, const char *folder,
                                                  gy_flow_spool **spool);
/** Remove the copies, unless the job can be resumed. NULL is fine. */
GY_API void gy_flow_spool_close(gy_flow_spool *spool);

/**
 * Replace fields of `options` by the variables GYRE_JOB_PROCESSES, _THREADS, _MEMORY (bytes),
 * _TIMEOUT (seconds), _FOLDER, _MEMO, _TRACE and _SANDBOX, as `gyre job run` sets them.
 * gy_flow_run calls this first.
 *
 * @return GY_OK; GY_ARG a variable holds something else: names it and what was expected
 */
GY_API GY_MUST_CHECK gy_status gy_flow_options_override(gy_flow_options *options);

/**
 * Describe which sandbox restrictions this machine supports for the processes of jobs
 * (options.sandbox): a line for each, with the reason when it is missing.
 *
 * @return `out`, cut to size_bytes with its NUL
 * @threads any
 * @cost some milliseconds: each restriction is tried, in processes that end at once
 */
GY_API const char *gy_flow_describe_sandbox(char *out, size_t size_bytes);

/**
 * Remove memoised results from a memo folder until at most bytes_max are left, the least
 * recently used first, and files that its journal does not name.
 *
 * @param freed_bytes may be NULL
 * @return GY_OK; GY_NOTFOUND no such folder; GY_STATE a job uses it now; GY_IO; GY_FORMAT not a
 * memo folder
 */
GY_API GY_MUST_CHECK gy_status gy_flow_collect(const char *memo, int64_t bytes_max,
                                               int64_t *freed_bytes);

#ifdef __cplusplus
}
#endif
#endif
