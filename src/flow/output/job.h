/**
 * A job while gy_flow_run runs it: the lowered graph, its folders and counters, and the
 * operations on its folders and output. All on one thread.
 */
#ifndef GY_FLOW_OUTPUT_JOB_H
#define GY_FLOW_OUTPUT_JOB_H

#include "driver/driver.h"
#include "flow/channel/channel.h"
#include "flow/channel/start.h"
#include "flow/flow.h"
#include "flow/lower.h"
#include "flow/memo/key.h"
#include "flow/memo/memo.h"
#include "flow/objects/output.h"
#include "flow/refine.h"
#include "persist/history/history.h"
#include "store/remote/remote.h"

enum { GY_JOB_HOSTS = 4096 /* hosts that a job ever had, including lost ones */ };
enum { GY_JOB_PROCESSES = 4096 };
#define GY_JOB_SHARED_NAME ".gyre-job-"  /* followed by its id: folder of a job on a cluster */
#define GY_JOB_KEPT_NAME   ".gyre-kept-" /* folder of a failed job that can be resumed */
enum {
    GY_JOB_STORE_SECONDS =
        5 /* time that a manager on a cluster waits for a store without printing */
};
enum { GY_JOB_PATH = 4096, GY_JOB_NOTES = 10000, GY_HIDDEN_NAME_BYTES = GY_JOB_ID_BYTES + 40 };
enum { GY_JOB_MANIFEST_BYTES = 256 << 20 /* largest manifest */ };

/** Sizes and samples that a refinement point has gathered so far. */
typedef struct gy_refinement_state {
    int64_t *bytes;                    /* (ports) -1: not finished */
    gy_refinement_sample_row *samples; /* (ports) their data are in gy_flow_job.arena */
    uint32_t seen;
    bool is_done;
} gy_refinement_state;

typedef struct gy_flow_job gy_flow_job;

/** Where a job runs: on one machine, or on a cluster whose daemon gave it a ticket. A function
 * may be NULL where its comment says so. */
typedef struct gy_flow_site {
    const char *name;
    uint32_t host_max;    /* 0: one machine, whose processes share the job's folders */
    int process_max;      /* default number of processes; 0: the number of cores */
    double store_seconds; /* time limit of store requests before the job begins; 0: none */
    /* true: the user's history lists the jobs; false: the name server does */
    bool has_history;
    /* Read the settings that the launcher of the process made. GY_ARG */
    gy_status (*begin)(gy_flow_job *job);
    /* Reject options that make no sense here; NULL: all are accepted. GY_UNSUPPORTED; GY_ARG */
    gy_status (*check)(const gy_flow_job *job);
    /* Set job->id. */
    void (*choose_id)(gy_flow_job *job);
    /* Set job->folder when the program gave none. GY_ARG; GY_IO */
    gy_status (*find_folder)(gy_flow_job *job);
    /* Set job->journal when it is outside the job's folder; NULL: `begin` does. GY_ARG;
     * GY_IO */
    gy_status (*place_journal)(gy_flow_job *job);
    /* Accept faults that tests inject; NULL: none are accepted. */
    gy_status (*listen)(gy_flow_job *job);

    /* The next functions are for sites with epochs; a site has all of them or none. */
    /* Has an earlier manager published the output and removed the journal? Sets is_done. */
    bool (*is_done)(gy_flow_job *job);
    /* Leave the mark that is_done finds for a job without an output. GY_IO */
    gy_status (*say_done)(gy_flow_job *job);
    /* Check that a job to be resumed has its journal. GY_NOTFOUND */
    gy_status (*check_left)(const gy_flow_job *job);
    /* Does a failed job leave something to resume? */
    bool (*is_left)(const gy_flow_job *job);
    /* Set job->width, on which all managers of the job agree; NULL: the number of its
     * processes. */
    gy_status (*agree_on_width)(gy_flow_job *job);
} gy_flow_site;

extern const gy_flow_site gy_flow_site_local;   /* run.c */
extern const gy_flow_site gy_flow_site_cluster; /* cluster.c */

struct gy_flow_job {
    gy_env *env;
    gy_flow *flow;
    gy_dag *dag;
    gy_flow_options options;
    gy_arena arena;       /* memory of the job's texts */
    gy_arena start_arena; /* memory of the current START */
    gy_lowering lowering;
    gy_proto_keys keys;
    uint8_t *task_flags; /* (tasks) flags GY_TASK_* */
    size_t task_flags_capacity, task_count;
    gy_manager *manager;
    gy_memo_store *memo;
    int processes;
    int width;                   /* most members of a cohort */
    int64_t started_ns, wall_ns; /* monotonic; since 1970 */
    gy_deadline deadline;
    bool is_resumed, is_published;
    bool is_ours; /* the folders are ours: no other manager works in them */
    bool is_over; /* a manager of a newer epoch has taken over */
    const gy_flow_site *site;
    gy_ticket *ticket; /* of gy_flow_site_cluster; else NULL */
    /* with a ticket: lock that excludes other processes of the program that run a job */
    int ticket_lock;
    uint64_t epoch; /* epoch of the manager; 0: it has none */
    /* with an epoch: a URI, on a cluster also a folder; NULL: the journal is in the job's
     * folder */
    const char *journal;

    /* folders */
    char id[GY_JOB_ID_BYTES], folder[GY_JOB_PATH], data[GY_JOB_PATH];
    char output[GY_JOB_PATH]; /* "" when the job has none */
    /* destination of the output: a prefix of an object store, with its slash, while `output`
     * is a staging folder in `folder`; "": the output stays there */
    char target[GY_URI_BYTES];
    gy_object_output *upload; /* the upload's state; NULL: not begun */
    char hidden[GY_JOB_PATH]; /* hidden folder inside output until the job ends */
    bool is_output_made;
    /* of a job on a cluster: `folder` is inside the output and removed with the job */
    bool is_folder_own;
    bool is_restored; /* the hidden folder was moved back from the job's folder */
    bool is_done;     /* an earlier manager of this job has published all of the output */

    /* refinement */
    gy_refinement_state *refinements; /* (refinement_count) */
    size_t refinement_count, refinement_capacity;
    uint32_t grown_count; /* refinements that were added to the dag */
    gy_growth growth;     /* the last growth, lent to the driver */
    gy_text detail;

    /* arrays reused from one START to the next */
    gy_driver_place *place; /* destination of the current START; NULL: this machine */
    uint64_t secret[2];
    gy_vertex_start_input *inputs;
    gy_vertex_start_output *outputs;
    gy_flow_task_channel *channels;
    uint32_t *channel_outputs; /* output port that feeds each channel */
    size_t input_capacity, output_capacity, channel_capacity, channel_output_capacity;

    /* faults */
    gy_fault_context *door;
    gy_bad *bad;
    gy_text learnt;        /* last bad record, encoded for the journal */
    uint32_t learnt_count; /* bad records that came from the journal */

    gy_sandbox sandbox; /* sandbox of the job's processes */

    /* reporting */
    gy_history *history;
    gy_job_counter *counters; /* (counter_count) names in the arena */
    size_t counter_count, counter_capacity;
    int64_t *stage_bytes; /* (stages) */
    int64_t bytes, output_bytes, skipped;
    uint32_t *cohorts; /* (cohort_count) tasks with several members */
    size_t cohort_count, cohort_capacity;
    bool has_told_resume;
    bool has_lock;      /* this job's driver held the folder's lock */
    bool is_new;        /* the folder did not exist before */
    bool has_begun;     /* the history has a row of the job */
    gy_job_note *notes; /* (note_count) texts in the arena */
    size_t note_count, note_capacity;
    struct last_note {
        int64_t wall_ns;
        char text[GY_DRIVER_NOTE_BYTES];
    } last_notes[GY_DRIVER_ROWS]; /* the i-th at i % GY_DRIVER_ROWS */
    uint64_t last_note_count;
    int64_t saved_ns;          /* time of the last write to the history */
    gy_text traced;            /* trace events of processes at daemons */
    int64_t *traced_processes; /* (traced_count) processes that are named in the trace */
    size_t traced_count, traced_room;
    gy_driver_traffic traffic; /* between the hosts of a cluster */
    gy_status cause;           /* failure of a refinement, save or publication */
    char fatal[512];           /* why a failure was classified as fatal */
};

/* ---- folder.c ---- */

/** Create the job's id and folders or find them again, with data, trace and run folders
 * inside. */
GY_MUST_CHECK gy_status gy_flow_run_make_folder(gy_flow_job *job);
/** Create the output folder: absent or empty before, or as the resumed job left it.
 * GY_EXISTS */
GY_MUST_CHECK gy_status gy_flow_run_make_output(gy_flow_job *job);
/** GY_EXISTS: the output of a new job is not empty. Called before and after the hidden folder
 * is created, so that of two jobs that begin at once at least one sees the other. */
GY_MUST_CHECK gy_status gy_flow_run_check_output(const gy_flow_job *job);
/** Create a folder and its parents; it may exist. GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_make_own_folder(const char *path);
/** Make job->output absolute, and set job->target. An output in an object store needs the job's
 * folder first. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_name_output(gy_flow_job *job);
/** Make a given job->folder absolute. A job on a cluster that was given none gets one at its
 * output, which is in storage that all hosts share. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_name_folder(gy_flow_job *job);
/** Make an id that no other job has, from the date and a number. */
void gy_flow_run_new_id(gy_env *env, int64_t wall_ns, char id[GY_JOB_ID_BYTES]);
/** Choose the folder of a job on this machine that was given none. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_find_folder(gy_flow_job *job);
/** Create job->output and its parents; it may exist. GY_EXISTS: it is no folder; GY_IO;
 * GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_make_output_folder(gy_flow_job *job);
/** Remove the names of a failed job's outputs. Does nothing without its hidden folder. */
void gy_flow_run_remove_names(const gy_flow_job *job);
/** Remove everything but the published output and the log; after a failure remove the output
 * too. */
void gy_flow_run_clean(gy_flow_job *job, gy_status status);
/** Join "a/b"; GY_ARG too long. */
GY_MUST_CHECK gy_status gy_flow_run_path(char out[GY_JOB_PATH], const char *folder,
                                         const char *name);

/* ---- inputs.c ---- */

#define GY_JOB_INPUTS_FILE "inputs"
/** Save the versions of a new job's input files in its folder, for gy_flow_run_name_changed.
 * GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_save_inputs(const gy_flow_job *job);
/** For a resumed job that differs from its journal with `status`: GY_STATE with the name of an
 * input that changed since, if there is one; else `status` and its text. */
gy_status gy_flow_run_name_changed(const gy_flow_job *job, gy_status status);

/* ---- resume.c ---- */

/** Append the environment variables that configured this program, a line NAME=VALUE each. */
void gy_flow_run_settings(gy_text *out);
/** Read the environment: a program that is started again to resume finds the job's folder
 * there, and the manager's epoch if it has one. GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_look_for_resume(gy_flow_job *job);

/** Set job->journal of a job on a cluster whose journal is outside its folder: a place named by
 * the id below the given one. GY_ARG; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_place_journal(gy_flow_job *job);

/* ---- retained.c: files that a failed job on a cluster leaves, so that it can be resumed
 * ---- */

/** True when tasks are committed and nothing is published. */
bool gy_flow_run_is_left(const gy_flow_job *job);
/** Move committed final outputs from the output into the job's folder. */
void gy_flow_run_keep_hidden(const gy_flow_job *job);
/** Rename the job's folder, if it is in the output, to the name of a retained one. */
void gy_flow_run_keep_folder(const gy_flow_job *job);
/** True for the name of a retained folder in an output, which no running job uses. */
bool gy_flow_run_is_kept_name(const char *name);
/** Find the folder of a job to be resumed. GY_NOTFOUND nothing is left; GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_take_back(const gy_flow_job *job);
/** Find its journal. GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_flow_run_check_left(const gy_flow_job *job);
/** Move back what gy_flow_run_keep_hidden moved; false: nothing was there. */
bool gy_flow_run_restore_hidden(gy_flow_job *job);
/** Remove what earlier failed jobs left in the output, because another job begins there. */
void gy_flow_run_forget_kept(gy_flow_job *job);
/**
 * Remove everything of a job at its user's request: its entries in the output and below a
 * folder or place of the job's own; then tell the daemon. GY_OK the job was published, as
 * is_done says; GY_CANCELLED otherwise; GY_IO, GY_ARG something remains
 */
GY_MUST_CHECK gy_status gy_flow_run_forget(gy_flow_job *job);

/* ---- epoch.c ---- */

/** Make the name of the output's hidden folder. */
void gy_flow_run_hidden_name(const gy_flow_job *job, char out[GY_HIDDEN_NAME_BYTES]);
/** Is `name` the hidden folder of a manager of this job, and of which epoch? */
bool gy_flow_run_is_hidden(const gy_flow_job *job, const char *name, uint64_t *epoch);
/** gy_driver_ops.began, .over */
gy_status gy_flow_run_began(void *arg);
void gy_flow_run_over(void *arg);

/* ---- published.c ---- */

/** Has an earlier manager published the output and removed the journal? Sets is_done. */
bool gy_flow_run_is_done(gy_flow_job *job);
/** Leave the mark that gy_flow_run_is_done finds for a job without an output. GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_say_done(gy_flow_job *job);
/** True for a job on a cluster with a memo store: its intermediate files are in its folder,
 * which all hosts share, and not at daemons. */
bool gy_flow_run_is_shared(const gy_flow_job *job);
/** True when final outputs have their names, so that a resumed job takes them as they are. */
bool gy_flow_run_has_saved(const gy_flow_job *job);
/** True when the output has a manifest of this job. */
bool gy_flow_run_is_published(const gy_flow_job *job);
/** The file name of a final output: "NAME-00000". */
const char *gy_flow_run_final_name(const gy_dag *dag, const gy_dag_final *final,
                                   char out[GY_DAG_NAME_BYTES]);
/** Write the beginning of a manifest, which identifies its job. */
void gy_running_begin_manifest(const gy_flow_job *job, gy_text *text);

#endif
