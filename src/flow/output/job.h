/**
 * A job while gy_flow_run runs it: the graph as lowered, its folders, what it counts; and what
 * is done with its folders and its output. All on one thread.
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

enum { GY_JOB_HOSTS = 4096 /* that a job ever had, lost ones too */ };
enum { GY_JOB_PROCESSES = 4096 };
#define GY_JOB_SHARED_NAME ".gyre-job-"  /* and its id: folder of a job on a cluster */
#define GY_JOB_KEPT_NAME   ".gyre-kept-" /* of one that failed, which may be resumed */
enum { GY_JOB_STORE_SECONDS = 5 /* that a manager of a cluster waits for a store, silent */ };
enum { GY_JOB_PATH = 4096, GY_JOB_NOTES = 10000, GY_HIDDEN_NAME_BYTES = GY_JOB_ID_BYTES + 40 };
enum { GY_JOB_MANIFEST_BYTES = 256 << 20 /* of a manifest, at most */ };

/** Sizes and samples that a refinement has seen so far. */
typedef struct gy_refinement_state {
    int64_t *bytes;                    /* (ports) -1: not done */
    gy_refinement_sample_row *samples; /* (ports) data in gy_flow_job.arena */
    uint32_t seen;
    bool is_done;
} gy_refinement_state;

typedef struct gy_flow_job gy_flow_job;

/** Where a job runs: this machine, or a cluster whose daemon has left it a ticket. Functions
 * may be NULL where they say so. */
typedef struct gy_flow_site {
    const char *name;
    uint32_t host_max;    /* 0: one machine, whose processes share its folders */
    int process_max;      /* when the job does not say; 0: as many as cores */
    double store_seconds; /* to wait for a store before the job begins; 0: no limit */
    bool has_history;     /* the user's history lists its jobs; else the name server does */
    /* What whoever started the process has set. GY_ARG */
    gy_status (*begin)(gy_flow_job *job);
    /* Options that make no sense here; NULL: all do. GY_UNSUPPORTED; GY_ARG */
    gy_status (*check)(const gy_flow_job *job);
    /* job->id */
    void (*choose_id)(gy_flow_job *job);
    /* job->folder, of a job that was given none. GY_ARG; GY_IO */
    gy_status (*find_folder)(gy_flow_job *job);
    /* job->journal, when it is not in the job's folder; NULL: `begin` knows. GY_ARG; GY_IO */
    gy_status (*place_journal)(gy_flow_job *job);
    /* NULL: it listens to nobody. For faults that tests order. */
    gy_status (*listen)(gy_flow_job *job);

    /* Of epochs that follow each other, all or none: */
    /* Has an earlier manager published the output, and forgotten the journal? Sets is_done. */
    bool (*is_done)(gy_flow_job *job);
    /* Of a job without an output: what is_done finds. GY_IO */
    gy_status (*say_done)(gy_flow_job *job);
    /* Of a job that is resumed: is its journal there? GY_NOTFOUND */
    gy_status (*check_left)(const gy_flow_job *job);
    /* Does a failed job leave something to go on with? */
    bool (*is_left)(const gy_flow_job *job);
    /* job->width, as all managers of the job say; NULL: as many as it has processes. */
    gy_status (*agree_on_width)(gy_flow_job *job);
} gy_flow_site;

extern const gy_flow_site gy_flow_site_local;   /* run.c */
extern const gy_flow_site gy_flow_site_cluster; /* cluster.c */

struct gy_flow_job {
    gy_env *env;
    gy_flow *flow;
    gy_dag *dag;
    gy_flow_options options;
    gy_arena arena;       /* texts of the job */
    gy_arena start_arena; /* of the START at hand */
    gy_lowering lowering;
    gy_proto_keys keys;
    uint8_t *task_flags; /* (tasks) GY_TASK_ */
    size_t task_flags_capacity, task_count;
    gy_manager *manager;
    gy_memo_store *memo;
    int processes;
    int width;                   /* of a cohort, at most */
    int64_t started_ns, wall_ns; /* monotonic; since 1970 */
    gy_deadline deadline;
    bool is_resumed, is_published;
    bool is_ours; /* the folders: nobody else's manager is at work in them */
    bool is_over; /* a manager of a newer epoch is */
    const gy_flow_site *site;
    gy_ticket *ticket;   /* gy_flow_site_cluster's; else NULL */
    int ticket_lock;     /* no other process of the program runs a job; with a ticket */
    uint64_t epoch;      /* of the manager; 0: it has none */
    const char *journal; /* with an epoch: a URI, on a cluster also a folder; NULL: the journal
                            is in the job's folder */

    /* folders */
    char id[GY_JOB_ID_BYTES], folder[GY_JOB_PATH], data[GY_JOB_PATH];
    char output[GY_JOB_PATH];  /* "" when the job has none */
    char target[GY_URI_BYTES]; /* where it goes from there: a prefix of an object store, with
                                  its slash; "": it stays. `output` is in `folder` then */
    gy_object_output *upload;  /* how it goes; NULL: it has not begun */
    char hidden[GY_JOB_PATH];  /* in output, until the job ends */
    bool is_output_made;
    bool is_folder_own; /* of a job on a cluster: in the output, and goes with the job */
    bool is_restored;   /* hidden: it was kept in the job's folder */
    bool is_done;       /* an earlier manager of this job has published all of it */

    /* growth */
    gy_refinement_state *refinements; /* (refinement_count) */
    size_t refinement_count, refinement_capacity;
    uint32_t grown_count; /* growths that the dag has */
    gy_growth growth;     /* the last one, lent to the driver */
    gy_text detail;

    /* STARTs: arrays kept from one to the next */
    gy_driver_place *place; /* where the one at hand goes; NULL: this machine */
    uint64_t secret[2];
    gy_vertex_start_input *inputs;
    gy_vertex_start_output *outputs;
    gy_flow_task_channel *channels;
    uint32_t *channel_outputs; /* of which port each channel comes */
    size_t input_capacity, output_capacity, channel_capacity, channel_output_capacity;

    /* faults */
    gy_fault_context *door;
    gy_bad *bad;
    gy_text learnt;        /* of the last failure, for the journal */
    uint32_t learnt_count; /* that came from the journal */

    gy_sandbox sandbox; /* a sandbox around its processes */

    /* what is told */
    gy_history *history;
    gy_job_counter *counters; /* (counter_count) names in the arena */
    size_t counter_count, counter_capacity;
    int64_t *stage_bytes; /* (stages) */
    int64_t bytes, output_bytes, skipped;
    uint32_t *cohorts; /* (cohort_count) tasks of several members */
    size_t cohort_count, cohort_capacity;
    bool has_told_resume;
    bool has_lock;      /* this job's driver had the folder's */
    bool is_new;        /* its folder was not there before */
    bool has_begun;     /* the history has it */
    gy_job_note *notes; /* (note_count) texts in the arena */
    size_t note_count, note_capacity;
    struct last_note {
        int64_t wall_ns;
        char text[GY_DRIVER_NOTE_BYTES];
    } last_notes[GY_DRIVER_ROWS]; /* the i-th at i % GY_DRIVER_ROWS */
    uint64_t last_note_count;
    int64_t saved_ns;          /* when the history was */
    gy_text traced;            /* of processes at daemons: events of the trace */
    int64_t *traced_processes; /* (traced_count) that have a name in it */
    size_t traced_count, traced_room;
    gy_driver_traffic traffic; /* between the hosts of a cluster */
    gy_status cause;           /* of a failed growth, save or publication */
    char fatal[512];           /* why a failure was said to be for good */
};

/* ---- folder.c ---- */

/** The job's id and folders, made or found again; data, trace and run folders in it. */
GY_MUST_CHECK gy_status gy_flow_run_make_folder(gy_flow_job *job);
/** The output folder: absent or empty before, or as the resumed job left it. GY_EXISTS */
GY_MUST_CHECK gy_status gy_flow_run_make_output(gy_flow_job *job);
/** GY_EXISTS: it is of a new job, and not empty. To be called before and after the hidden
 * folder is made: of two jobs that begin at once both see each other then, or one does. */
GY_MUST_CHECK gy_status gy_flow_run_check_output(const gy_flow_job *job);
/** With all above it; may be there. GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_make_own_folder(const char *path);
/** job->output, from the root, and job->target; of an output in an object store the job's
 * folder must be known. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_name_output(gy_flow_job *job);
/** job->folder, from the root, that was given; of a job on a cluster that was given none where
 * its output will be, since that is in storage that all hosts have. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_name_folder(gy_flow_job *job);
/** An id that no other job has: the date and a number. */
void gy_flow_run_new_id(gy_env *env, int64_t wall_ns, char id[GY_JOB_ID_BYTES]);
/** Where the folder of a job of this machine lies that was given none. GY_ARG; GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_find_folder(gy_flow_job *job);
/** job->output itself, with all above it; may be there. GY_EXISTS: it is no folder; GY_IO;
 * GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_make_output_folder(gy_flow_job *job);
/** Of a failed job: no name of the output stays. Nothing, without its hidden folder. */
void gy_flow_run_remove_names(const gy_flow_job *job);
/** Nothing but the published output and the log stays; after a failure, nothing of the output.
 */
void gy_flow_run_clean(gy_flow_job *job, gy_status status);
/** "a/b"; GY_ARG too long. */
GY_MUST_CHECK gy_status gy_flow_run_path(char out[GY_JOB_PATH], const char *folder,
                                         const char *name);

/* ---- inputs.c ---- */

#define GY_JOB_INPUTS_FILE "inputs"
/** Which versions of files a new job has as inputs, into its folder: for
 * gy_flow_run_name_changed. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_save_inputs(const gy_flow_job *job);
/** A resumed job that is another one than its journal's, `status`: GY_STATE with the name of an
 * input that changed since, if there is one, else `status` and its text. */
gy_status gy_flow_run_name_changed(const gy_flow_job *job, gy_status status);

/* ---- resume.c ---- */

/** The variables that this program was told by, a line of NAME=VALUE each. */
void gy_flow_run_settings(gy_text *out);
/** A program that is started again to go on finds the folder in its environment, and the
 * manager's epoch, if it has one. GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_look_for_resume(gy_flow_job *job);

/** Of a job on a cluster whose journal shall lie elsewhere than in its folder: job->journal, a
 * place of its own (id) below. GY_ARG; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_place_journal(gy_flow_job *job);

/* ---- retained.c: what a failed job of a cluster leaves, so that it can be resumed ---- */

/** Something of it is committed, and nothing is published. */
bool gy_flow_run_is_left(const gy_flow_job *job);
/** What final outputs are committed goes from the output into the job's folder. */
void gy_flow_run_keep_hidden(const gy_flow_job *job);
/** The job's folder, if it is in the output, gets the name of one that is kept. */
void gy_flow_run_keep_folder(const gy_flow_job *job);
/** What lies in an output under this name is of no job that runs. */
bool gy_flow_run_is_kept_name(const char *name);
/** A job that is resumed finds its folder again. GY_NOTFOUND nothing is left; GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_take_back(const gy_flow_job *job);
/** And its journal. GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_flow_run_check_left(const gy_flow_job *job);
/** And what gy_flow_run_keep_hidden kept; false: nothing. */
bool gy_flow_run_restore_hidden(gy_flow_job *job);
/** What earlier jobs left in the output goes: another one is begun there. */
void gy_flow_run_forget_kept(gy_flow_job *job);
/**
 * All of it goes, as its user wants: what is in the output and below a folder or place of the
 * job's own. The daemon is told. GY_OK the job was published, which is_done says; GY_CANCELLED
 * else; GY_IO, GY_ARG something stays
 */
GY_MUST_CHECK gy_status gy_flow_run_forget(gy_flow_job *job);

/* ---- epoch.c ---- */

/** What the output's hidden folder is called. */
void gy_flow_run_hidden_name(const gy_flow_job *job, char out[GY_HIDDEN_NAME_BYTES]);
/** Whether it is called so by a manager of this job, and of which epoch. */
bool gy_flow_run_is_hidden(const gy_flow_job *job, const char *name, uint64_t *epoch);
/** gy_driver_ops.began, .over */
gy_status gy_flow_run_began(void *arg);
void gy_flow_run_over(void *arg);

/* ---- published.c ---- */

/** Has an earlier manager published the output, and forgotten the journal? Sets is_done. */
bool gy_flow_run_is_done(gy_flow_job *job);
/** Of a job without an output: what gy_flow_run_is_done finds. GY_IO */
GY_MUST_CHECK gy_status gy_flow_run_say_done(gy_flow_job *job);
/** Of a job on a cluster that keeps a memo intermediates lie in its folder, which all hosts
 * have, and not at daemons. */
bool gy_flow_run_is_shared(const gy_flow_job *job);
/** Final outputs have their names, so that a job that goes on may take them as they are. */
bool gy_flow_run_has_saved(const gy_flow_job *job);
/** The output has a manifest, and it is this job's. */
bool gy_flow_run_is_published(const gy_flow_job *job);
/** Name of a final output: "NAME-00000". */
const char *gy_flow_run_final_name(const gy_dag *dag, const gy_dag_final *final,
                                   char out[GY_DAG_NAME_BYTES]);
/** By which a manifest shows whose it is. */
void gy_running_begin_manifest(const gy_flow_job *job, gy_text *text);

#endif
