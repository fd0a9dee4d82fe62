/**
 * Hosts of a job, inside the manager: what waits for whom, where a task goes, who fails where.
 *
 * Invariant: only committed tasks read an input that is committed on a lost host. When a task
 * must run again, the tasks that made such inputs of it run again too.
 */
#ifndef GY_SCHED_HOSTS_HOSTS_H
#define GY_SCHED_HOSTS_HOSTS_H

#include "sched/state/state.h"

/* ---- hosts.c: the list of hosts and their states ---- */
/** BEGIN: what was committed where; exact tasks wait for hosts that are expected. */
void gy_manager_hosts_begin(gy_manager *manager);
/** It does not start before: a run of it may go on where nobody can look. */
void gy_manager_exact_wait(gy_manager *manager, uint32_t task, int64_t until_ns);
/** Its committed output is lost: an older manager may have lost it too, and run it again. */
void gy_manager_exact_lost(gy_manager *manager, uint32_t task);
/** So long a process may go on where nobody can look. */
int64_t gy_manager_lease(const gy_manager *manager);
/** Exact tasks whose time has come. */
void gy_manager_exact_release(gy_manager *manager);
void gy_manager_hosts_free(gy_manager *manager);

/* ---- pinned.c: tasks that run on their places alone ---- */
/** One that may start now, and the heap whose first slot it takes; `kept` is a host that is
 * left alone. GY_NONE: none may. */
uint32_t gy_manager_pinned_next(gy_manager *manager, uint32_t kept, gy_sched_heap **from);
/** Do tasks wait for this host's slots that can have few others? */
bool gy_manager_is_pinned_at(const gy_manager *manager, uint32_t host);
/** Are there tasks that may run at no other host, or at few? */
bool gy_manager_has_pinned(const gy_manager *manager, uint32_t host);
/** Is it one of the task's places? */
bool gy_manager_is_place(const gy_manager *manager, uint32_t task, uint32_t host);
/** May the task run there? */
bool gy_manager_may_be_at(const gy_manager *manager, uint32_t task, uint32_t host);

/* ---- near.c: where to ---- */
/** Where the cohort at the head of the queue shall be, for which slots are kept; GY_NONE. */
uint32_t gy_manager_kept(gy_manager *manager, uint32_t head);

/** The next ready task that may start now, and the heap whose first slots it takes; `head` is
 * the oldest. GY_NONE: none may. GY_NONE and *again: the oldest was set aside. */
uint32_t gy_manager_pick(gy_manager *manager, uint32_t head, gy_sched_heap **from, bool *again);
/** There are more slots: cohorts that were set aside are ready again. */
void gy_manager_aside_again(gy_manager *manager);

/** Set the task aside, the next one, which needs `least` slots on one host at least. */
void gy_manager_set_aside(gy_manager *manager, uint32_t task, uint32_t least);

/* ---- spread.c: cohorts over several hosts ---- */
/** gy_manager_pick for such a task: hosts.chosen gets its hosts, *from the first one's heap. */
uint32_t gy_manager_pick_spread(gy_manager *manager, uint32_t head, gy_sched_heap **from,
                                bool *again);

/* ---- avoid.c: who fails where ---- */
/** It failed there by itself, after a while. */
void gy_manager_blame(gy_manager *manager, uint32_t task, uint32_t host, int64_t took_ns);
/** It did well there: others where it failed have one against them. */
void gy_manager_acquit(gy_manager *manager, uint32_t task, uint32_t host);
/** Nothing else has slots enough: it is avoided no more, until it has been found bad again. */
void gy_manager_pardon(gy_manager *manager, uint32_t host);
/** Do tasks fail there that run well elsewhere, and is it not needed? */
bool gy_manager_is_bad(const gy_manager *manager, uint32_t host);

#endif
