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
    GY_INPUT_SECTION, /* an output of another attempt, in its file */
    GY_INPUT_INLINE,  /* such an output that travelled in messages */
    GY_INPUT_PLAIN,   /* a user's file, or a range of it */
    GY_INPUT_FIFO,
    GY_INPUT_PIPE,
    GY_INPUT_FETCHED, /* a SECTION that was fetched from another host */
    GY_INPUT_OBJECT,  /* an object of S3 or HDFS, or a range of it */
} gy_input_kind;

typedef struct gy_flow_task_input {
    gy_input_kind kind;
    uint32_t section;                /* SECTION, FETCHED: which output of its producer */
    uint32_t epoch, attempt, member; /* SECTION: the attempt that wrote the file; the key stands
                                        for (job, task), since later jobs may read it */
    uint32_t channel;                /* FIFO, PIPE: row of gy_flow_task.channels */
    gy_key key;                      /* SECTION: the producer's */
    gy_key content;                  /* SECTION, FETCHED: from the producer's report */
    const char *path;                /* SECTION, PLAIN, FETCHED; OBJECT: its URI */
    const char *version;             /* OBJECT: gy_place_facts.version */
    const void *data;                /* INLINE */
    uint64_t offset, size_bytes; /* PLAIN, OBJECT: UINT64_MAX: to its end; INLINE: the size */
    uint64_t total_bytes;        /* OBJECT: of the whole */
    gy_stamp stamp;              /* PLAIN: the version that it must have */
} gy_flow_task_input;

typedef enum gy_output_kind {
    GY_OUTPUT_SECTION, /* of the attempt's file, or in the report */
    GY_OUTPUT_FINAL,   /* a file for users at `path`, its bytes alone; not synced */
    GY_OUTPUT_FIFO,
    GY_OUTPUT_PIPE,
} gy_output_kind;

typedef struct gy_flow_task_output {
    gy_output_kind kind;
    uint32_t channel; /* FIFO, PIPE: row of gy_flow_task.channels */
    const char *path; /* FINAL */
} gy_flow_task_output;

/** A channel within a cohort. The tasks of all members have the same rows. */
typedef struct gy_flow_task_channel {
    uint16_t from, to; /* members */
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
    const char *stage;  /* for the trace: lives as long as the process */
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
        *path; /* of the attempt's file; its last component names the scratch folder too */
    const gy_flow_task_input *inputs;   /* (input_count) */
    const gy_flow_task_output *outputs; /* (output_count) */
    uint32_t input_count, output_count;
    const gy_flow_record_id
        *bad; /* (bad_count) records to skip, ascending by (source, offset) */
    size_t bad_count;
    int64_t record_timeout_ns; /* 0: none */
    int64_t still_ns; /* how long processes that a command left behind may hold its output open
                         without writing; 0: 5 s */

    uint32_t width; /* members of the cohort; 0, 1: none */
    uint32_t channel_count;
    const gy_flow_task_channel *channels; /* (channel_count) */
    const char *cohort;                   /* path of its table, which the first member makes */
    size_t ring_bytes;                    /* of a FIFO; 0: 1 MiB */
    uint64_t token[2];                    /* random secret of this attempt that authenticates a
                                             pipe's connection */

    const char *const *command; /* argv, NULL-ended */
    const char *const *files;   /* linked into its working folder; NULL-ended, or NULL */
    const gy_stamp *stamps;     /* of files; NULL: of none */
    int ranks; /* > 0: so many ranks of `command`, which have no standard input and output */
    int hosts; /* above 1: member m of `width` is rank m; the first of each host's starts all of
                  that host's */
    const char *address;        /* of this host: "HOST:PORT" of its daemon */
    bool is_plain;              /* no encryption between the ranks */
    bool is_reported;           /* the ranks' output goes to the manager */
    const gy_worker_task *task; /* through which members at several hosts meet; NULL: alone */

    gy_launch_keep *keep; /* of the process; NULL: nothing is cached */

    gy_deadline deadline; /* of the job: every wait ends by it */
} gy_flow_task;

/**
 * Run one task to its end and fill in the answer with its result. Several may run at once, on
 * threads of their own.
 *
 * @param fault  of this process; NULL: nothing is caught
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
 * The report of an attempt, encoded as bytes: empty when all its outputs are empty and it has
 * nothing else to report. It has the sizes of outputs of every kind.
 */
typedef struct gy_report {
    gy_key content; /* of its SECTION and FINAL outputs; zero for the empty report */
    bool is_inline; /* the report itself has the SECTION outputs */
    uint32_t output_count, counter_count;
    int64_t skipped; /* bad records */
    const void *sample;
    size_t sample_bytes; /* of gy_vertex_set_sample */
    /* positions of the parts */
    const unsigned char *sizes, *ends, *inlined, *counters;
    uint32_t size_width, counter_bytes;
} gy_report;

/** Decode a report, whose bytes are borrowed. Allocates nothing. GY_FORMAT @threads any */
GY_MUST_CHECK gy_status gy_report_read(const void *data, size_t size_bytes, gy_report *report);

typedef struct gy_report_part {
    uint64_t size_bytes;
    const void *inlined; /* NULL: in a file */
} gy_report_part;

/** Get one output of a report; an output that the report does not have is empty. @cost O(1) */
gy_report_part gy_report_output(const gy_report *report, uint32_t output);
/** Get the next counter; *at is 0 at first. False at the end. */
bool gy_report_counter(const gy_report *report, size_t *at, gy_counter *counter);

#endif
