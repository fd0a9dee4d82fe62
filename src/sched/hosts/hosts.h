/**
 * The hosts of a job, inside the manager: what each stores, where tasks are placed, which hosts
 * are avoided.
 *
 * Invariant: only committed tasks read an input that is committed on a lost host. When a task
 * must run again, the tasks that made such inputs run again too.
 */
#ifndef GY_SCHED_HOSTS_HOSTS_H
#define GY_SCHED_HOSTS_HOSTS_H

#include "sched/state/state.h"

/* ---- hosts.c: the list of hosts and their states ---- */
/**
 * At BEGIN: recover what is committed on which host; exact tasks wait for the hosts that the
 * journal names.
 */
void gy_manager_hosts_begin(gy_manager *manager);
/** Delay the task: an earlier run of it may still be alive on a host that cannot be reached. */
void gy_manager_exact_wait(gy_manager *manager, uint32_t task, int64_t until_ns);
/**
 * Its committed output is lost. An older manager may have seen the same loss and started it
 * again, so it waits too.
 */
void gy_manager_exact_lost(gy_manager *manager, uint32_t task);
/** How long a process may live on a host that cannot be reached. */
int64_t gy_manager_lease(const gy_manager *manager);
/** Make the exact tasks ready whose wait has expired. */
void gy_manager_exact_release(gy_manager *manager);
void gy_manager_hosts_free(gy_manager *manager);

/* ---- pinned.c: tasks that run on their places alone ---- */
/**
 * The next pinned task that may start now, and the heap whose first slot it takes. Slots of
 * host `kept` are reserved and not used. GY_NONE: no task may start.
 */
uint32_t gy_manager_pinned_next(gy_manager *manager, uint32_t kept, gy_sched_heap **from);
/** Do pinned tasks with few alternatives wait for slots of this host? */
bool gy_manager_is_pinned_at(const gy_manager *manager, uint32_t host);
/** Has the job tasks that are pinned to this host? */
bool gy_manager_has_pinned(const gy_manager *manager, uint32_t host);
/** Is the host one of the task's places? */
bool gy_manager_is_place(const gy_manager *manager, uint32_t task, uint32_t host);
/** May the task run on this host? */
bool gy_manager_may_be_at(const gy_manager *manager, uint32_t task, uint32_t host);

/* ---- near.c: locality ---- */
/**
 * The host whose free slots are reserved for the cohort at the head of the queue; GY_NONE:
 * none.
 */
uint32_t gy_manager_kept(gy_manager *manager, uint32_t head);

/**
 * The next ready task that may start now, and the heap whose first slots it takes; `head` is
 * the oldest ready task. GY_NONE: none may start. GY_NONE and *again: the oldest was set aside,
 * so call again.
 */
uint32_t gy_manager_pick(gy_manager *manager, uint32_t head, gy_sched_heap **from, bool *again);
/** More slots are open: return the cohorts that were set aside to the queue. */
void gy_manager_aside_again(gy_manager *manager);

/**
 * Set the next task aside: it needs at least `least` slots on one host, and no host has them.
 */
void gy_manager_set_aside(gy_manager *manager, uint32_t task, uint32_t least);

/* ---- spread.c: cohorts over several hosts ---- */
/**
 * gy_manager_pick for such a task: hosts.chosen receives its hosts, *from is the heap of the
 * first one.
 */
uint32_t gy_manager_pick_spread(gy_manager *manager, uint32_t head, gy_sched_heap **from,
                                bool *again);

/* ---- avoid.c: hosts where tasks fail ---- */
/** The task failed on the host by itself, after running for a while. */
void gy_manager_blame(gy_manager *manager, uint32_t task, uint32_t host, int64_t took_ns);
/** The task succeeded on the host: this counts against the other hosts where it failed. */
void gy_manager_acquit(gy_manager *manager, uint32_t task, uint32_t host);
/** No other host has enough slots: use it again, until new failures show that it is bad. */
void gy_manager_pardon(gy_manager *manager, uint32_t host);
/** Do tasks fail on the host that succeed elsewhere, and can the job do without it? */
bool gy_manager_is_bad(const gy_manager *manager, uint32_t host);

#endif
