/** Functions shared by the files that run a job. All on one thread. */
#ifndef GY_FLOW_RUN_RUN_PRIV_H
#define GY_FLOW_RUN_RUN_PRIV_H

#include "flow/output/job.h"

/* ---- run.c ---- */

/** gy_flow_run with another disk than the real one; for tests. */
GY_MUST_CHECK gy_status gy_flow_run_execute(gy_env *env, gy_flow *flow, gy_dag *dag,
                                            const gy_flow_options *options,
                                            gy_job_report **report);

/* ---- sandbox.c ---- */

/** Make job->sandbox from options.sandbox, the job's folders and its inputs; warns about parts
 * that the machine does not support. GY_ARG; GY_STATE a required part is not supported;
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_prepare_sandbox(gy_flow_job *job);

/* ---- cluster.c: what is different on a cluster ---- */

/** Read the daemon's ticket and set id, epoch and folder from it. GY_FORMAT, GY_STATE, GY_IO
 * the ticket; GY_STATE another process of the program runs a job; GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_look_for_cluster(gy_flow_job *job);
/** Undo gy_flow_run_look_for_cluster; does nothing without a ticket. */
void gy_flow_run_leave_cluster(gy_flow_job *job);
/** Number of this job within the program: 1, 2, ...; 0 without a ticket. */
uint32_t gy_flow_run_round(const gy_flow_job *job);
/** gy_manager_options.generation: unique over epochs and over the jobs of a program. */
uint32_t gy_flow_run_generation(const gy_flow_job *job);
/** gy_driver_ops.held, .say */
int64_t gy_flow_run_held(void *arg, const gy_manager *manager, const gy_sched_event *done);
void gy_flow_run_say(void *arg, const gy_manager *manager, gy_text *line);
/** gy_driver_ops.view */
void gy_flow_run_view(void *arg, gy_driver_view *view);

/* ---- publish.c ---- */

/** gy_driver_ops.save, .publish */
gy_status gy_flow_run_save(void *arg, const gy_manager *manager, gy_attempt *lost);
gy_status gy_flow_run_publish(void *arg, const gy_manager *manager);
/** Stop the upload to an object store at the job's end. */
void gy_flow_run_end_upload(gy_flow_job *job);

/* ---- encode.c ---- */

/** gy_driver_ops.encode, .welcome */
gy_status gy_flow_run_encode(void *arg, const gy_manager *manager, const gy_effect *start,
                             gy_driver_place *place, gy_text *message);
gy_status gy_flow_run_welcome(void *arg, const char *folder, gy_text *message);
/** Find a member's report within its task's report. GY_FORMAT */
GY_MUST_CHECK gy_status gy_flow_run_report(const gy_flow_job *job, uint32_t task,
                                           const void *data, size_t size_bytes, uint32_t member,
                                           gy_report *report);

/* ---- regrow.c ---- */

/** The first growth: lower and check the whole graph. *cut: number of pipes that became
 * files. */
GY_MUST_CHECK gy_status gy_flow_run_lower(gy_flow_job *job, gy_growth *growth);
/** gy_driver_ops.grow */
gy_status gy_flow_run_grow(void *arg, const gy_manager *manager, uint32_t stage,
                           const gy_growth **growth);
/** Repeat the growths that the manager found in its journal. */
GY_MUST_CHECK gy_status gy_flow_run_follow(gy_flow_job *job, const gy_manager *manager);
/** GY_STATE a refinement point never ran, so its vertices are missing. */
GY_MUST_CHECK gy_status gy_flow_run_check_refinements(const gy_flow_job *job);
/** Mark the stages whose completion the manager must report. */
GY_MUST_CHECK gy_status gy_flow_run_mark_refinements(gy_flow_job *job);

/* ---- tell.c ---- */

/** gy_driver_ops.committed, .note, .tick */
void gy_flow_run_committed(void *arg, const gy_effect *effect);
void gy_flow_run_note(void *arg, const gy_effect *effect);
void gy_flow_run_tick(void *arg, const gy_manager *manager);
void gy_flow_run_note_text(gy_flow_job *job, const char *format, ...) GY_PRINTF(2, 3);
/** Count again the counters, bytes and skipped records of the committed tasks, each task once;
 * needed after losses and in a resumed job. */
void gy_flow_run_recount(gy_flow_job *job);
/** Show the job's progress to the program: options.progress. */
void gy_flow_run_show(gy_flow_job *job);
/** Make a report of the current state; NULL: out of memory. */
gy_job_report *gy_flow_run_make_report(const gy_flow_job *job);

/* ---- history.c ---- */

/** A gy_bad_namer; `arg` is the job. */
void gy_flow_run_name_record(void *arg, const gy_bad_record *record, gy_text *out);
/** Fill in the report's bad records, which are in the arena. False: out of memory. */
GY_MUST_CHECK bool gy_running_list_bad(const gy_flow_job *job, gy_arena *arena,
                                       gy_job_report *report);
/** Write the job's row in the history with this state. */
void gy_flow_run_tell_history(gy_flow_job *job, gy_job_state state, const char *reason);

/* ---- trace.c ---- */

/** Create an empty trace file at the requested path, so that an unwritable path is reported
 * before anything runs. GY_IO, GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_trace_begin(const gy_flow_job *job);
/** gy_driver_ops.traced */
void gy_flow_run_traced(void *arg, const gy_driver_guest *guest, uint32_t pid, const void *rows,
                        size_t size_bytes);
/** Write the traces of all processes to the requested file. */
void gy_flow_run_trace(gy_flow_job *job);

#endif
