/**
 * The vertex side of room flow: how a process runs a task, and what it reports.
 *
 * Reading order: section.h (files), cohort.h (pipes and FIFOs), this file, vertex_priv.h;
 * fault.h (bad records).
 */
#ifndef GY_FLOW_CHANNEL_CHANNEL_H
#define GY_FLOW_CHANNEL_CHANNEL_H

#include "base/thread.h"
#include "flow/channel/fault.h"
#include "store/versions/stamp.h"
#include "worker/worker.h"

#include <gyre/flow.h>

/** Outputs of at most so many bytes together travel in the report, not in a file. */
enum { GY_SMALL_BYTES = 4096 };

typedef enum gy_input_kind {
    GY_INPUT_SECTION, /* an output of another attempt, in that attempt's file */
    GY_INPUT_INLINE,  /* an output of another attempt that travelled in messages */
    GY_INPUT_PLAIN,   /* a user's file, or a range of it */
    GY_INPUT_FIFO,
    GY_INPUT_PIPE,
    GY_INPUT_FETCHED, /* a SECTION that was copied from another host */
    GY_INPUT_OBJECT,  /* an object of S3 or HDFS, or a range of it */
} gy_input_kind;

typedef struct gy_flow_task_input {
    gy_input_kind kind;
    /* SECTION, FETCHED: index of the output within its producer */
    uint32_t section;
    /* SECTION: the attempt that wrote the file; the key replaces (job, task), since later jobs
     * may read the file */
    uint32_t epoch, attempt, member;
    uint32_t channel;    /* FIFO, PIPE: row in gy_flow_task.channels */
    gy_key key;          /* SECTION: the producer's key */
    gy_key content;      /* SECTION, FETCHED: from the producer's report */
    const char *path;    /* SECTION, PLAIN, FETCHED; OBJECT: its URI */
    const char *version; /* OBJECT: gy_place_facts.version */
    const void *data;    /* INLINE */
    /* PLAIN, OBJECT: UINT64_MAX: up to the end; INLINE: the size */
    uint64_t offset, size_bytes;
    uint64_t total_bytes; /* OBJECT: size of the whole object */
    gy_stamp stamp;       /* PLAIN: the version that the file must have */
} gy_flow_task_input;

typedef enum gy_output_kind {
    GY_OUTPUT_SECTION, /* a section of the attempt's file, or bytes in the report */
    /* a file for users at `path` that contains nothing but the output; not synced */
    GY_OUTPUT_FINAL,
    GY_OUTPUT_FIFO,
    GY_OUTPUT_PIPE,
} gy_output_kind;

typedef struct gy_flow_task_output {
    gy_output_kind kind;
    uint32_t channel; /* FIFO, PIPE: row in gy_flow_task.channels */
    const char *path; /* FINAL */
} gy_flow_task_output;

/** A channel within a cohort. The tasks of all members have the same rows. */
typedef struct gy_flow_task_channel {
    uint16_t from, to; /* member numbers */
    bool is_pipe;
} gy_flow_task_channel;

/**
 * State that a vertex caches in its process for the next vertex of the same stage, such as
 * memory that is already mapped. A vertex of another stage does not get it.
 */
typedef struct gy_launch_keep {
    gy_mutex lock;
    const char *stage; /* of the vertex that cached it */
    void *state;       /* NULL: nothing is cached */
    void (*drop)(void *state);
} gy_launch_keep;

void gy_keep_init(gy_launch_keep *keep);
void gy_keep_fini(gy_launch_keep *keep);
/** Cache a state; `drop` frees it unless another vertex takes it. NULL: nothing. */
void gy_vertex_keep(gy_vertex *vertex, void *state, void (*drop)(void *state));
/** Take the state that a vertex of this stage cached; NULL: there is none. */
void *gy_vertex_kept(gy_vertex *vertex);
/** Drop the state unless a vertex of `stage` cached it. */
void gy_keep_drop(gy_launch_keep *keep, const char *stage);

/** A task for a process to run. Its pointers are borrowed for the call. */
typedef struct gy_flow_task {
    gy_attempt id;
    gy_key key;
    uint32_t member;
    const char *name;   /* for messages: "stage[index]" */
    const char *stage;  /* for the trace; static or of the process's lifetime */
    gy_vertex_work run; /* NULL: `command` */
    gy_any_work user;
    const gy_function *functions; /* (function_count) of the program, by name */
    uint32_t function_count;
    const void *parameter;
    size_t parameter_bytes;
    uint32_t index, copies;
    size_t memory_bytes; /* 0: none */
    const char *folder;  /* of the job: spills, scratch */
    const char
        *path; /* of the attempt's file; its last component also names the scratch folder */
    const gy_flow_task_input *inputs;   /* (input_count) */
    const gy_flow_task_output *outputs; /* (output_count) */
    uint32_t input_count, output_count;
    const gy_flow_record_id
        *bad; /* (bad_count) records to skip, ascending by (source, offset) */
    size_t bad_count;
    int64_t record_timeout_ns; /* 0: none */
    /* A command may leave child processes that hold its output open; after so long without a
     * write the wait ends. 0: 5 s */
    int64_t still_ns;

    uint32_t width; /* number of members of the cohort; 0 or 1: no cohort */
    uint32_t channel_count;
    const gy_flow_task_channel *channels; /* (channel_count) */
    /* path of the cohort's table, which the first member creates */
    const char *cohort;
    size_t ring_bytes; /* size of a FIFO's ring; 0: 1 MiB */
    uint64_t token[2]; /* random secret of this attempt that authenticates a
                          pipe's connection */

    const char *const *command; /* argv, NULL-ended */
    /* files linked into the command's working folder; NULL-ended, or NULL */
    const char *const *files;
    const gy_stamp *stamps; /* versions of `files`, one each; NULL: unchecked */
    int ranks; /* > 0: `command` runs as so many ranks, without standard input and output */
    /* above 1: member m of `width` is rank m, and the first member of each host starts all
     * ranks of that host */
    int hosts;
    const char *address; /* "HOST:PORT" of this host's daemon */
    bool is_plain;       /* no encryption between the ranks */
    bool is_reported;    /* the ranks' output is sent to the manager */
    /* connection through which members on several hosts find each other; NULL: one host */
    const gy_worker_task *task;

    gy_launch_keep *keep; /* the process's cached state; NULL: no caching */

    gy_deadline deadline; /* the job's deadline, which ends every wait */
} gy_flow_task;

/**
 * Run one task to its end and fill in the answer with its result. Several tasks may run at
 * once, each on a thread of its own.
 *
 * @param fault  the process's fault handler; NULL: faults are not caught
 * @param board  (GY_BOARD_BYTES) shared memory that outlives the process, zeroed; NULL: none
 */
void gy_vertex_execute(gy_env *env, const gy_flow_task *order, gy_fault *fault, void *board,
                       const _Atomic bool *is_cancelled, gy_worker_answer *answer);

/* ---- reports ---- */

typedef struct gy_counter {
    const char *name; /* NUL-terminated, within the report */
    int64_t value;
} gy_counter;

/**
 * The report of an attempt, decoded in place. It is empty when all outputs are empty and there
 * is nothing else to report. It has the sizes of outputs of every kind.
 */
typedef struct gy_report {
    gy_key content; /* content of the SECTION and FINAL outputs; zero for the empty report */
    bool is_inline; /* the report itself contains the SECTION outputs */
    uint32_t output_count, counter_count;
    int64_t skipped; /* number of bad records that the attempt skipped */
    const void *sample;
    size_t sample_bytes; /* size of the sample of gy_vertex_set_sample */
    /* positions of these parts within the report */
    const unsigned char *sizes, *ends, *inlined, *counters;
    uint32_t size_width, counter_bytes;
} gy_report;

/** Decode a report, whose bytes are borrowed. Allocates nothing. GY_FORMAT @threads any */
GY_MUST_CHECK gy_status gy_report_read(const void *data, size_t size_bytes, gy_report *report);

typedef struct gy_report_part {
    uint64_t size_bytes;
    const void *inlined; /* NULL: the output is in a file */
} gy_report_part;

/** Get one output of a report; an output that the report does not have is empty. @cost O(1) */
gy_report_part gy_report_output(const gy_report *report, uint32_t output);
/** Get the next counter; *at is 0 at first. False at the end. */
bool gy_report_counter(const gy_report *report, size_t *at, gy_counter *counter);

#endif
