/**
 * Inside the manager: what its files offer each other. Below it stand its state and what is
 * known of hosts.
 */
#ifndef GY_SCHED_MANAGER_MANAGER_PRIV_H
#define GY_SCHED_MANAGER_MANAGER_PRIV_H

#include "sched/hosts/hosts.h"
#include "sched/state/state.h"

/* ---- place.c ---- */
void gy_manager_place(gy_manager *manager);
typedef enum copied { COPY_STARTED, COPY_NOWHERE, COPY_NOT_NOW } copied;
/** may_stay: also on the same host if no other has processes, though one that is up may get
 * some. NOWHERE: no process that may have it is free. NOT_NOW: its inputs are others by now. */
copied gy_manager_backup_start(gy_manager *manager, uint32_t first, bool may_stay);

/* ---- process.c ---- */
gy_status gy_manager_slots_new(gy_manager *manager);
void gy_manager_spawn(gy_manager *manager);
void gy_manager_up(gy_manager *manager, const gy_sched_event *event);
void gy_manager_down(gy_manager *manager, const gy_sched_event *event);
/** It lives. false: that process is not there (any more). */
bool gy_manager_heard(gy_manager *manager, const gy_sched_event *event);
void gy_manager_kill(gy_manager *manager, uint32_t process, const char *reason);
/** Nothing starts at this process any more; its placements stay. Nothing when it is not up. */
void gy_manager_close(gy_manager *manager, uint32_t process);
/** Of no host any more; what runs there is lost, and counted against nobody. */
void gy_manager_slot_take(gy_manager *manager, uint32_t process, const char *reason);
/** It may be used, for a host. */
void gy_manager_slot_give(gy_manager *manager, uint32_t process, uint32_t host);
/** Who is silent? was_asleep: the manager itself heard nothing for long, so all are forgiven.
 */
void gy_manager_look_at_processes(gy_manager *manager, bool was_asleep);

/* ---- commit.c ---- */
void gy_manager_done(gy_manager *manager, const gy_sched_event *event);
void gy_manager_failed(gy_manager *manager, const gy_sched_event *event);
/** The run is over without a commit; its task goes again. `is_counted`: its own failure. */
void gy_manager_run_fail(gy_manager *manager, uint32_t index, bool is_counted,
                         const char *reason);
void gy_manager_memoise(gy_manager *manager, uint32_t task, gy_key key,
                        const gy_sched_memo *memo);

/* ---- lose.c ---- */
/** A committed output is gone. */
void gy_manager_lose(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_lost(gy_manager *manager, const gy_attempt *id, const char *reason);
/** All that lies on a lost host and is needed. */
void gy_manager_lose_host(gy_manager *manager, uint32_t host, const char *reason);
/** New tasks from `first` on may read what lies on lost hosts. */
void gy_manager_lose_gone(gy_manager *manager, uint32_t first);
/** Will anybody read it? */
bool gy_manager_is_needed(const gy_manager *manager, uint32_t task);
/** What was read of the task no longer stands: its readers go again, recursively down. */
void gy_manager_lose_readers(gy_manager *manager, uint32_t task, const char *reason);

/* ---- straggler.c ---- */
void gy_manager_sample(gy_manager *manager, uint32_t task, int64_t run_ns);
void gy_manager_look_at_runs(gy_manager *manager);
/** One that is very late, before any ready task. */
void gy_manager_backup_stragglers(gy_manager *manager);
/** Time between two looks, at most. */
int64_t gy_manager_pace(const gy_manager *manager);

/* ---- grow.c ---- */
/** Its last task may just have been committed. */
void gy_manager_look_at_gate(gy_manager *manager, uint32_t stage);
void gy_manager_grow(gy_manager *manager, const gy_sched_event *event);
/** Take a growth, live or from the journal; live tasks wait until its record is safe. */
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
/** Are there hosts by now where tasks fail that run well elsewhere? */
void gy_manager_look_at_hosts(gy_manager *manager);

#endif
