/**
 * Dataflow jobs: a directed acyclic graph of vertices (any code, several inputs and outputs)
 * and channels (files, TCP pipes, FIFOs in shared memory), run by processes of this same
 * program.
 *
 * Parts of a graph are values that compose as Dryad's do: clone, pointwise, bipartite, merge,
 * fork. A mistake in a graph is kept in it and told by gy_flow_run, so that no composition
 * needs a check of its own. What shall depend on sizes is decided at run time, by functions of
 * complete sizes alone (gy_part_refine).
 *
 * @source lecture A, "Dryad"; Isard, Budiu, Yu, Birrell, Fetterly, EuroSys 2007
 */
#ifndef GYRE_FLOW_H
#define GYRE_FLOW_H

#include <gyre/base.h>
#include <gyre/vertex.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the program ---- */

/** The program's door to jobs: the functions that its vertices may be. */
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
 * First thing in main, before any thread: list the program's functions. In a process that a job
 * started to run vertices it serves that job and exits instead of returning; so what precedes
 * it runs in each of them too.
 *
 * @param argc, argv  as main got them; borrowed for the life of the program
 * @param functions   (count) names are unique and not empty; copied, their names borrowed
 * @return the door, ended by gy_flow_end; NULL: a wrong list or no memory, said on standard
 * error
 * @threads the first, once
 */
GY_API GY_MUST_CHECK gy_flow *gy_flow_start(const int *argc, char ***argv,
                                            const gy_function *functions, int count);
/** After all jobs. NULL is fine. */
GY_API void gy_flow_end(gy_flow *flow);

/**
 * Look at an input before a graph of parts of it ("path:offset:size") is made: the next job of
 * this process reads the version that is there now, or fails and names it. Without, the version
 * that is there when the job begins.
 *
 * @param path a file, or an object by its URI
 * @param size_bytes how large it is
 * @return GY_OK; GY_NOTFOUND; GY_IO it is a folder, a pipe or on another host, or cannot be
 * looked at; GY_ARG no path; of objects as gy_store_list
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_flow_input(const char *path, uint64_t *size_bytes);

/* ---- graphs ---- */

/** A job while it is built. Not thread-safe. */
typedef struct gy_dag gy_dag;

/** What joins an output to an input. */
typedef enum gy_channel {
    GY_CHANNEL_FILE, /* the reader starts when the writer has ended; any number of readers */
    GY_CHANNEL_PIPE, /* TCP; both run at once, fail and are copied together (a cohort) */
    GY_CHANNEL_FIFO, /* shared memory; as a pipe */
} gy_channel;

/** What is guaranteed for a vertex's outputs when it runs again over the same inputs. */
typedef enum gy_determinism {
    GY_OUTPUT_DETERMINISTIC, /* the same bytes; others fail the job */
    GY_OUTPUT_UNORDERED,     /* the same records in another order */
    GY_OUTPUT_INDETERMINATE, /* anything: its loss runs all its consumers again; never kept */
} gy_determinism;

/** A number of ports that is as large as what composition joins to it. */
enum { GY_PORTS_ANY = -1 };

typedef struct gy_vertex_options {
    const char *function; /* a name of gy_flow_start; NULL with `command` */
    const char *stage; /* for reports, and what gy_part_refine waits for; NULL: the function's
                          (or command's) name */
    const void *parameter; /* (parameter_bytes) copied; gy_vertex_parameter */
    size_t parameter_bytes;
    int inputs, outputs; /* ports, each of which must be joined; GY_PORTS_ANY: what comes */
    gy_determinism determinism;
    size_t memory_bytes;  /* budget told to the vertex; 0: the process's */
    int64_t output_bytes; /* expected of each output; decides which pipes of a cohort that is
                             wider than the processes become files; 0: unknown */
    /* Files from outside, NULL at the end: "path" or "path:offset:size". Of a function they are
     * inputs behind the joined ones, of a command they lie in its working folder. What they
     * hold is part of what the result is remembered by. May be NULL.
     * "file://HOST/path" (or HOST,HOST: any of them) lies on that host's own disk: on a cluster
     * the vertex runs there and nowhere else, and waits while its slots are taken; a job whose
     * hosts have had no daemon for 10 s fails. Such a vertex has no pipes and FIFOs and is of
     * the job's beginning; nobody compares the file's bytes from one run to the next.
     * "s3://BUCKET/KEY" and "hdfs://HOST:PORT/PATH" are objects, of functions alone: read from
     * their store, a piece at a time, in the version that they have when the job begins; one
     * that changes meanwhile fails the job. On a cluster vertices without `near` best run where
     * HDFS has what they read. */
    const char *const *files;
    /* Names of hosts where it would best run, since what it reads is near; NULL at the end. On
     * a cluster it runs there while they have free slots, else anywhere. May be NULL. */
    const char *const *preferred_hosts;
    /* Instead of a function: a program with its arguments, NULL at the end. Input 0 is its
     * standard input, its standard output is output 0. With the parameter "\n" (one byte) that
     * is lines, and a last one without an end gets it. Its result is kept for later jobs only
     * when `files` lists what it is made of. */
    const char *const *command;
    /* With command: so many ranks of it that meet in gy_comm_world(); 0: a plain process. They
     * may have any number of inputs: files $GYRE_INPUTS/0, 1, ... at each host; the one output
     * is what stands in $GYRE_OUTPUT when all have ended, as rank 0 sees that file. parameter:
     * nothing, or a gy_run_options (<gyre/launch.h>) of which the plain numbers count, and
     * neither `ranks` nor what says where other nodes are. */
    int ranks;
    /* With ranks, on a cluster: they are spread over so many hosts, ranks / hosts on each, with
     * a slot for each rank, all at once or none; they speak over TCP between hosts. When one
     * host is lost all of them run again elsewhere. 0: on one host, in one slot, whatever else
     * runs there. At home they run on this one in any case. */
    int hosts;
} gy_vertex_options;

/** A part of a graph: vertices, of which some have free inputs or outputs, in an order. A small
 * value; lives as long as its dag. */
typedef struct gy_part {
    gy_dag *dag;
    int32_t index;
} gy_part;

/**
 * An empty graph.
 *
 * @param name of the job, for reports; copied
 * @return NULL: out of memory
 */
GY_API GY_MUST_CHECK gy_dag *gy_dag_new(gy_flow *flow, const char *name);
/** NULL is fine. Not while it runs. */
GY_API void gy_dag_free(gy_dag *dag);
/** The first mistake made in the graph, NULL when none was seen so far (gy_flow_run looks at
 * the whole). */
GY_API const char *gy_dag_error(const gy_dag *dag);

/** A vertex. All its ports are free. @cost O(1) */
GY_API gy_part gy_dag_vertex(gy_dag *dag, const gy_vertex_options *options);
/** `count` vertices of options[0], options[1], …, in this order. @cost O(count) */
GY_API gy_part gy_dag_vertices(gy_dag *dag, const gy_vertex_options *options, int count);

/**
 * A^n: n copies of a part, with the edges inside it; the part itself is the first. Ports in the
 * order of copies. A vertex's number among the copies of it is gy_vertex_index.
 *
 * @param copies >= 1
 * @cost O(copies) vertices and edges of 16 bytes
 */
GY_API gy_part gy_part_clone(gy_part part, int copies);

/**
 * A >= B: free output k of a to free input k of b; whichever has fewer is gone through again
 * from its first. An output that goes to several inputs needs files; an input takes one edge,
 * unless its vertex takes any number.
 *
 * @return the vertices of both, inputs of a, outputs of b
 */
GY_API gy_part gy_part_pointwise(gy_part a, gy_part b, gy_channel channel);

/**
 * A >> B: each vertex of a that has free outputs to each vertex of b that has free inputs. The
 * j-th vertex of b gets output j of each of a (a vertex with one output: that one); from the
 * i-th of a it comes in at input i.
 *
 * @return the vertices of both, inputs of a, outputs of b
 */
GY_API gy_part gy_part_bipartite(gy_part a, gy_part b, gy_channel channel);

/** A || B: the vertices of a, then those of b that are not of a. A port is free when it is free
 * in each part that has its vertex. */
GY_API gy_part gy_part_merge(gy_part a, gy_part b);

/** As gy_part_pointwise, but the outputs of a stay free, before those of b: a bypass. */
GY_API gy_part gy_part_fork(gy_part a, gy_part b, gy_channel channel);

/** The free outputs become files NAME-00000, NAME-00001, … of the job's output, in order.
 * @param name letters, digits, '-', '_' and '.', not starting with '.'; once a dag */
GY_API void gy_part_output(gy_part part, const char *name);

/* ---- rewriting at run time ---- */

/** What a growth function sees of the vertices that it waited for. Lives as long as the call.
 */
typedef struct gy_refinement gy_refinement;

/**
 * Decides how the graph goes on once all vertices of a part are done, by their complete sizes.
 * Must be a pure function of what the refinement shows: after a crash of the manager it is
 * asked again.
 *
 * @param outputs the part's free outputs: compose them with new vertices, gy_part_output or
 * gy_part_refine; parts made before the run are of no use here
 */
typedef void (*gy_refine_work)(gy_refinement *refinement, gy_dag *dag, gy_part outputs);

typedef struct gy_refine_options {
    gy_refine_work work;
    const void *parameter; /* (parameter_bytes) copied; gy_refinement_parameter */
    size_t parameter_bytes;
    const char *const
        *stages; /* of the vertices it makes, NULL at the end; others are a mistake */
} gy_refine_options;

/** The free outputs of `part` go where options->work says. */
GY_API void gy_part_refine(gy_part part, const gy_refine_options *options);

/** How many outputs the refinement has; numbers below are in their order. @cost O(1) */
GY_API int64_t gy_refinement_outputs(const gy_refinement *refinement);
/** Bytes of one. */
GY_API int64_t gy_refinement_bytes(const gy_refinement *refinement, int64_t output);
/** What the vertex of that output told (gy_vertex_set_sample); NULL and 0 bytes when nothing.
 */
GY_API const void *gy_refinement_sample(const gy_refinement *refinement, int64_t output,
                                        size_t *size_bytes);
GY_API const void *gy_refinement_parameter(const gy_refinement *refinement, size_t *size_bytes);
/** Processes that the job runs on. */
GY_API int gy_refinement_processes(const gy_refinement *refinement);

/**
 * For growth functions: a tree of `combiner` vertices (any number of inputs, one output) over
 * the refinement's outputs. Neighbours share a vertex as long as they have at most
 * bytes_per_vertex together (two at least); further levels have the fan-in of the first. A
 * single output has a vertex too.
 *
 * @return a part with one free output
 */
GY_API gy_part gy_refinement_aggregate(gy_refinement *refinement, gy_part outputs,
                                       const gy_vertex_options *combiner,
                                       int64_t bytes_per_vertex);
/**
 * For growth functions: as many vertices of `consumer` as the sizes ask for, each with a row of
 * neighbouring outputs of about bytes_per_vertex.
 *
 * @return the consumers, with free outputs
 */
GY_API gy_part gy_refinement_repartition(gy_refinement *refinement, gy_part outputs,
                                         const gy_vertex_options *consumer,
                                         int64_t bytes_per_vertex);

/** gy_part_refine by gy_refinement_aggregate; what comes out of it is output `name`. */
GY_API void gy_part_aggregate(gy_part part, const gy_vertex_options *combiner,
                              int64_t bytes_per_vertex, const char *name);

/** A key of a sample, with the bytes or records that it stands for. */
typedef struct gy_sample_key {
    const void *key;
    size_t key_bytes;
    int64_t weight;
} gy_sample_key;

/** A range of keys: from `first` (of the first range: from the beginning) up to the next one's.
 */
typedef struct gy_key_range {
    const void *first; /* (first_bytes) borrowed from the sample */
    size_t first_bytes;
    int64_t weight;
    int shares; /* above 1: one key alone is so heavy that so many vertices shall share it,
                 which a combiner permits */
} gy_key_range;

/**
 * Cut a sample of keys into at most `ranges` ranges of about equal weight, in the order of
 * memcmp (a shorter key before its continuations). Equal keys stay together; a key heavier than
 * a range has one of its own. Pure.
 *
 * @param keys  (count) sorted in place
 * @param out   (ranges) filled from the first
 * @return how many ranges there are, >= 1; of no sample: 1
 * @cost O(count log count)
 */
GY_API int gy_plan_key_ranges(gy_sample_key *keys, int64_t count, int ranges,
                              gy_key_range *out);

/* ---- running ---- */

typedef struct gy_flow_report gy_flow_report;

/** What a process of a job takes whatever it does leaves little of less memory. */
#define GY_FLOW_MEMORY_BYTES_MIN (8 << 20)

typedef struct gy_flow_options {
    /* Folder that appears whole, by its MANIFEST.json; absent or empty before. Or a prefix in a
     * store (s3://BUCKET/PREFIX, hdfs://HOST:PORT/PATH) below which nothing is: the output is
     * made in the job's folder, then sent, the manifest last and exclusively; nothing there is
     * replaced or removed, and what fails on the way is sent by who resumes. NULL: none, the
     * graph has no gy_part_output then. */
    const char *output;
    const char *folder; /* of the job: journal, intermediates, log; NULL: a new one in
                           $XDG_STATE_HOME/gyre/jobs (~/.local/state/gyre/jobs) */
    const char *memo;   /* folder where results are kept for later jobs, final outputs too where
                           they are their vertex's only one; NULL: none */
    int64_t memo_bytes_max; /* at most so much stays there, the least recently used goes; 0: 10
                               GiB */
    int processes;          /* 0: one a core */
    int threads;            /* vertices at once in a process; 0: 1 */
    size_t memory_bytes;    /* of a process, at least GY_FLOW_MEMORY_BYTES_MIN; 0: no limit */
    int failures_max;       /* of its own, a vertex; 0: 6 */
    double backup_floor_s;  /* no second copy of a slow vertex before this; 0: 1; <0: never
                                   one */
    double heartbeat_timeout_s; /* a process that says nothing for so long is lost; 0: 10 */
    double timeout_s;           /* of the job; 0: none */
    double record_timeout_s;    /* of a record (gy_vertex_at_record); 0: none */
    int64_t bad_records_max;    /* skipped before the job fails; <0: any number */
    bool is_resume;             /* go on with the job of `folder`, which must be this one */
    const char *trace;          /* file for a Chrome trace of all processes; NULL: none */
    /* Walls around the processes of the job: "strict" (all parts, or the job does not start),
     * "available" (all that this machine has), or a list with commas between of rights,
     * processes, network, files, calls, read=PATH and write=PATH; docs: gyre(1), SANDBOX. What
     * vertices name as files may be read, the job's own folders and its output written. NULL or
     * "none": none. */
    const char *sandbox;
    /* Called some times a second from the thread of gy_flow_run, with what stands so far. */
    void (*progress)(void *arg, const gy_flow_report *report);
    void *progress_arg;
    /* Of vertices of ranks: what they print, as it comes, whole lines; with text NULL the exit
     * status with which a run of them failed, as `gyre run` has it. Called from the thread of
     * gy_flow_run. NULL: what they print stands in the job's log. */
    void (*on_output)(void *arg, const char *text, size_t size_bytes, int exit_status);
    void *on_output_arg;
} gy_flow_options;

typedef struct gy_flow_stage {
    const char *name;
    /* Vertices; a cohort counts as one, in each of its stages. What follows `done` stands at
     * the first of them. */
    int64_t tasks, done, running;
    int64_t attempts; /* begun since gy_flow_run was called, whatever their ends */
    int64_t failures, backups, backups_won;
    int64_t memoised; /* of done: taken from an earlier job */
    int64_t bytes;    /* written by what is done */
    double run_s;     /* summed over its tasks */
} gy_flow_stage;

typedef struct gy_flow_counter {
    const char *name;
    int64_t value;
} gy_flow_counter;

/** What a job did. Each committed vertex counts once, whatever the attempts. */
struct gy_flow_report {
    const char *name, *folder;
    double seconds;
    const gy_flow_stage *stages; /* (stage_count) in the order of making */
    int stage_count;
    const gy_flow_counter *counters; /* (counter_count) by name */
    int counter_count;
    int64_t bytes, output_bytes; /* written in all; in the job's output */
    int64_t skipped_records;
    const char *bad_records; /* a line each: where, signal, backtrace; "" when none */
    const char *const
        *notes; /* (note_count) why something failed, was lost, waited or ran again */
    int note_count;
};

/**
 * Run a job to its end and publish its output.
 *
 * The output's files get their names and are synced, then MANIFEST.json is created exclusively:
 * who finds it finds everything. A failure leaves nothing in the output folder; of a prefix in
 * a store it is told what is there.
 *
 * @param report  may be NULL; else *report is the caller's (gy_flow_report_free), also after a
 * failure, unless it is NULL then
 * @return GY_OK; GY_ARG a mistake in the graph, a growth or the options: names vertex and port;
 * GY_EXISTS the output is there already, or the folder holds another job; GY_NOTFOUND an input
 * file is not there, or no job to resume; GY_MISMATCH the job to resume is another one;
 * GY_STATE the graph was run before, another manager runs this job, the memo folder is being
 * collected, or the job failed: says which vertex and why; GY_TIMEOUT; GY_CANCELLED by a
 * signal; GY_IO; GY_LIMIT; GY_NOMEM
 * @threads the one that called gy_flow_start
 * @cost about 5 us a vertex beside its work
 */
GY_API GY_MUST_CHECK gy_status gy_flow_run(gy_flow *flow, gy_dag *dag,
                                           const gy_flow_options *options,
                                           gy_flow_report **report);
/** What gy_flow_show_progress keeps between its calls; zero at first. */
typedef struct gy_flow_bars {
    int lines; /* that stand on the terminal */
} gy_flow_bars;

/** For options->progress, with a gy_flow_bars as progress_arg: draws a bar for each stage on
 * standard error, over what it drew before; nothing when that is no terminal. */
GY_API void gy_flow_show_progress(void *progress, const gy_flow_report *report);

/** Inputs of a job, and where its copies of some lie. */
typedef struct gy_flow_spool {
    const char *const *inputs; /* NULL at the end: as they were given, or paths of copies */
    const char *folder;        /* for options->folder of the job; NULL: nothing was copied */
} gy_flow_spool;

/**
 * A job reads its inputs where and as often as it needs: what can be read once only is copied
 * to files in the job's folder. That is standard input, which the name "-" stands for (a file
 * of that name is "./-"), and files with other bytes than their size says, as those of /proc
 * and /sys. A job that is resumed goes on with the copies that it has.
 *
 * @param inputs as of gy_map_reduce_options, NULL at the end; borrowed until the close
 * @param folder as of gy_flow_options; NULL: one is chosen
 * @param spool  caller owns; gy_flow_spool_close, after the job
 * @return GY_OK; GY_ARG "-" twice, a terminal, closed, an input that makes no sense;
 * GY_UNSUPPORTED "-" in a job on a cluster; GY_EXISTS the folder holds a job; GY_NOTFOUND a
 * job that is resumed has no copy; GY_IO; GY_NOMEM
 * @cost a system call an input, and the bytes of what is copied
 */
GY_API GY_MUST_CHECK gy_status gy_flow_spool_open(const char *const *inputs, const char *folder,
                                                  gy_flow_spool **spool);
/** Remove the copies, unless the job can be resumed. NULL is fine. */
GY_API void gy_flow_spool_close(gy_flow_spool *spool);

/**
 * Let the variables GYRE_JOB_PROCESSES, _THREADS, _MEMORY (bytes), _TIMEOUT (seconds), _FOLDER,
 * _MEMO, _TRACE and _SANDBOX take the place of what `options` says, as `gyre job run` sets
 * them, and draw progress where the program does not show it itself. gy_flow_run does so first.
 *
 * @return GY_OK; GY_ARG a variable holds something else: names it and what was expected
 */
GY_API GY_MUST_CHECK gy_status gy_flow_options_override(gy_flow_options *options);

/**
 * What walls this machine can put around the processes of jobs (options.sandbox): a line for
 * each part, with the reason of one that is missing.
 *
 * @return `out`
 * @threads any
 * @cost some milliseconds: it is tried, in processes that end at once
 */
GY_API const char *gy_flow_describe_sandbox(char *out, size_t size_bytes);

/** NULL is fine. */
GY_API void gy_flow_report_free(gy_flow_report *report);
/** The counter's value, 0 when nobody counted it. */
GY_API int64_t gy_flow_report_counter(const gy_flow_report *report, const char *name);

/**
 * Remove what is kept in a memo folder until at most limit_bytes are left, the least recently
 * used first, and whatever no journal names.
 *
 * @param freed_bytes may be NULL
 * @return GY_OK; GY_NOTFOUND no such folder; GY_STATE a job uses it now; GY_IO; GY_FORMAT not a
 * memo folder
 */
GY_API GY_MUST_CHECK gy_status gy_flow_collect(const char *memo, int64_t limit_bytes,
                                               int64_t *freed_bytes);

#ifdef __cplusplus
}
#endif
#endif
