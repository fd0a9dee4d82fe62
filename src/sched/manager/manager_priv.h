/** What the manager's files offer each other. They build on state/ and hosts/. */
#ifndef GY_SCHED_MANAGER_MANAGER_PRIV_H
#define GY_SCHED_MANAGER_MANAGER_PRIV_H

#include "sched/hosts/hosts.h"
#include "sched/state/state.h"

/* ---- place.c ---- */
void gy_manager_place(gy_manager *manager);
typedef enum copied { COPY_STARTED, COPY_NOWHERE, COPY_NOT_NOW } copied;
/**
 * Start a backup task. may_stay: also on the same host if no other has processes, even if
 * another may get some soon. NOWHERE: no suitable process is free. NOT_NOW: its inputs have
 * changed.
 */
copied gy_manager_backup_start(gy_manager *manager, uint32_t first, bool may_stay);

/* ---- process.c ---- */
gy_status gy_manager_slots_new(gy_manager *manager);
void gy_manager_spawn(gy_manager *manager);
void gy_manager_up(gy_manager *manager, const gy_sched_event *event);
void gy_manager_down(gy_manager *manager, const gy_sched_event *event);
/** The process is alive. false: no process has this generation (any more). */
bool gy_manager_heard(gy_manager *manager, const gy_sched_event *event);
void gy_manager_kill(gy_manager *manager, uint32_t process, const char *reason);
/** Start nothing more at this process; its placements stay. No effect when it is not up. */
void gy_manager_close(gy_manager *manager, uint32_t process);
/** The slot leaves its host; what runs in it is lost, without counting as a failure. */
void gy_manager_slot_take(gy_manager *manager, uint32_t process, const char *reason);
/** The slot may be used, on a host. */
void gy_manager_slot_give(gy_manager *manager, uint32_t process, uint32_t host);
/**
 * Find the processes without a message for too long. was_asleep: the manager itself was
 * suspended, so nobody is blamed.
 */
void gy_manager_check_processes(gy_manager *manager, bool was_asleep);

/* ---- commit.c ---- */
void gy_manager_done(gy_manager *manager, const gy_sched_event *event);
void gy_manager_failed(gy_manager *manager, const gy_sched_event *event);
/**
 * The run ended without a commit; its task runs again. `is_counted`: the failure counts against
 * the task.
 */
void gy_manager_run_fail(gy_manager *manager, uint32_t index, bool is_counted,
                         const char *reason);
void gy_manager_memoise(gy_manager *manager, uint32_t task, gy_key key,
                        const gy_sched_memo *memo);

/* ---- lose.c ---- */
/** A committed output is lost. */
void gy_manager_lose(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_lost(gy_manager *manager, const gy_attempt *id, const char *reason);
/** All outputs on a lost host that are needed are lost. */
void gy_manager_lose_host(gy_manager *manager, uint32_t host, const char *reason);
/** New tasks from `first` on may read outputs on lost hosts. */
void gy_manager_lose_gone(gy_manager *manager, uint32_t first);
/** Will any task read its output? */
bool gy_manager_is_needed(const gy_manager *manager, uint32_t task);
/** The task's earlier output is invalid: its readers run again, and recursively theirs. */
void gy_manager_lose_readers(gy_manager *manager, uint32_t task, const char *reason);

/* ---- straggler.c ---- */
void gy_manager_sample(gy_manager *manager, uint32_t task, int64_t run_ns);
void gy_manager_check_runs(gy_manager *manager);
/** Start a backup task for one extreme straggler, before any ready task. */
void gy_manager_backup_stragglers(gy_manager *manager);
/** The longest time between two checks for stragglers. */
int64_t gy_manager_pace(const gy_manager *manager);

/* ---- grow.c ---- */
/** Ask for growth if the stage's last task has just been committed. */
void gy_manager_check_refinement(gy_manager *manager, uint32_t stage);
void gy_manager_grow(gy_manager *manager, const gy_sched_event *event);
/** Add a growth, live or from the journal; live tasks wait until its record is synced. */
gy_status gy_manager_take_growth(gy_manager *manager, uint32_t stage, const gy_growth *growth);
void gy_manager_release(gy_manager *manager, uint64_t position);

/* ---- finish.c ---- */
void gy_manager_finish(gy_manager *manager);
void gy_manager_synced(gy_manager *manager, uint64_t position);
void gy_manager_saved(gy_manager *manager, const gy_sched_event *event);
void gy_manager_published(gy_manager *manager, const gy_sched_event *event);

/* ---- members.c: hosts and slots that come and go ---- */
void gy_manager_host_up(gy_manager *manager, const gy_sched_event *event);
void gy_manager_host_lost(gy_manager *manager, const gy_sched_event *event);
void gy_manager_slot_open(gy_manager *manager, const gy_sched_event *event);
void gy_manager_slot_close(gy_manager *manager, const gy_sched_event *event);
/** Check whether there are hosts where tasks fail that succeed elsewhere. */
void gy_manager_check_hosts(gy_manager *manager);

#endif
