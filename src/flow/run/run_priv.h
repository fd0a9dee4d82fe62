/**
 * What the files that run a job offer each other. All on one thread.
 */
#ifndef GY_FLOW_RUN_RUN_PRIV_H
#define GY_FLOW_RUN_RUN_PRIV_H

#include "flow/output/job.h"

/* ---- run.c ---- */

/** gy_flow_run with another disk than the real one. */
GY_MUST_CHECK gy_status gy_flow_run_execute(gy_env *env, gy_flow *flow, gy_dag *dag,
                                            const gy_flow_options *options,
                                            gy_job_report **report);

/* ---- sandbox.c ---- */

/** job->sandbox, of options.sandbox, the job's folders and its inputs; what the machine lacks
 * is told. GY_ARG; GY_STATE a part is not there; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_prepare_sandbox(gy_flow_job *job);

/* ---- cluster.c: what is different on a cluster ---- */

/** The ticket of a daemon, and what follows from it: id, epoch, folder. GY_FORMAT, GY_STATE,
 * GY_IO the ticket; GY_STATE another process of the program runs a job; GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_run_look_for_cluster(gy_flow_job *job);
/** The end of that; nothing without a ticket. */
void gy_flow_run_leave_cluster(gy_flow_job *job);
/** Which job of the program it is: 1, 2, ...; without a ticket 0. */
uint32_t gy_flow_run_round(const gy_flow_job *job);
/** gy_manager_options.generation: over epochs and over jobs of a program none comes twice. */
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
/** What goes to an object store goes no more: at the job's end. */
void gy_flow_run_end_upload(gy_flow_job *job);

/* ---- encode.c ---- */

/** gy_driver_ops.encode, .welcome */
gy_status gy_flow_run_encode(void *arg, const gy_manager *manager, const gy_effect *start,
                             gy_driver_place *place, gy_text *message);
gy_status gy_flow_run_welcome(void *arg, const char *folder, gy_text *message);
/** A member's report within its task's. GY_FORMAT */
GY_MUST_CHECK gy_status gy_flow_run_report(const gy_flow_job *job, uint32_t task,
                                           const void *data, size_t size_bytes, uint32_t member,
                                           gy_report *report);

/* ---- regrow.c ---- */

/** The first growth: all that the graph has; checks it. *cut: pipes that became files. */
GY_MUST_CHECK gy_status gy_flow_run_lower(gy_flow_job *job, gy_growth *growth);
/** gy_driver_ops.grow */
gy_status gy_flow_run_grow(void *arg, const gy_manager *manager, uint32_t stage,
                           const gy_growth **growth);
/** Make the growths that the manager found in its journal. */
GY_MUST_CHECK gy_status gy_flow_run_follow(gy_flow_job *job, const gy_manager *manager);
/** GY_STATE a refinement has never opened: then what should come of it is missing. */
GY_MUST_CHECK gy_status gy_flow_run_check_refinements(const gy_flow_job *job);
/** Which stages the manager shall ask about. */
GY_MUST_CHECK gy_status gy_flow_run_mark_refinements(gy_flow_job *job);

/* ---- tell.c ---- */

/** gy_driver_ops.committed, .note, .tick */
void gy_flow_run_committed(void *arg, const gy_effect *effect);
void gy_flow_run_note(void *arg, const gy_effect *effect);
void gy_flow_run_tick(void *arg, const gy_manager *manager);
void gy_flow_run_note_text(gy_flow_job *job, const char *format, ...) GY_PRINTF(2, 3);
/** Counters, bytes and skipped records of what stands committed, each task once: also after
 * losses and in a job that goes on. */
void gy_flow_run_recount(gy_flow_job *job);
/** The program's own view of it: options.progress. */
void gy_flow_run_show(gy_flow_job *job);
/** What stands now; NULL: no memory. */
gy_job_report *gy_flow_run_make_report(const gy_flow_job *job);

/* ---- history.c ---- */

/** A gy_bad_namer; `arg` is a job. */
void gy_flow_run_name_record(void *arg, const gy_bad_record *record, gy_text *out);
/** Fill in the report's bad records; they live in the arena. False: no memory. */
GY_MUST_CHECK bool gy_running_list_bad(const gy_flow_job *job, gy_arena *arena,
                                       gy_job_report *report);
/** Into the history: `state` as it is. */
void gy_flow_run_tell_history(gy_flow_job *job, gy_job_state state, const char *reason);

/* ---- trace.c ---- */

/** An empty trace in the file that was asked for, so that one that cannot be written is told of
 * before anything runs. GY_IO, GY_ARG */
GY_MUST_CHECK gy_status gy_flow_run_trace_begin(const gy_flow_job *job);
/** gy_driver_ops.traced */
void gy_flow_run_traced(void *arg, const gy_driver_guest *guest, uint32_t pid, const void *rows,
                        size_t size_bytes);
/** What all processes left of their traces, in the file that was asked for. */
void gy_flow_run_trace(gy_flow_job *job);

#endif
