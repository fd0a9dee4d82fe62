/**
 * Slots of the driver that are at daemons: what the driver asks of them. Each slot that is open
 * stands on a lease; its process is an executor at the daemon, and what the two say to each
 * other goes over rpc instead of a socket.
 *
 * All on the driver's thread. What comes from the cluster becomes events of the machine from
 * within gy_remote_turn and gy_remote_tick alone; the other functions are good within a step.
 */
#ifndef GY_DRIVER_REMOTE_H
#define GY_DRIVER_REMOTE_H

#include "driver/loop.h"

/** A node, dialling the name servers of the ticket. GY_ARG; what gy_rpc_new gives; GY_NOMEM */
GY_MUST_CHECK gy_status gy_remote_open(gy_driver *driver);
/** After replay: look for the hosts that the journal knows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_remote_begin(gy_driver *driver);
/** To be watched; then, and when `next` has come: turn. */
int gy_remote_fd(const gy_driver *driver);
int64_t gy_remote_watch_ns(const gy_driver *driver); /* gy_lease_client_watch_ns */
int64_t gy_remote_next_ns(const gy_driver *driver);
void gy_remote_turn(gy_driver *driver);
/** Ten times a second: what is due. */
void gy_remote_tick(gy_driver *driver, int64_t now_ns);
/** After steps: requests that have changed, asked for soon. */
void gy_remote_settle(gy_driver *driver);
/** Say that the job is over, unless its epoch is, and hang up. NULL within: nothing. */
void gy_remote_close(gy_driver *driver);

/** Start a process on the slot's lease. GY_PEER the lease is gone; GY_AGAIN; GY_NOMEM */
GY_MUST_CHECK gy_status gy_remote_spawn(gy_driver *driver, const gy_process *process);
/** Kill it; its end is told. */
void gy_remote_kill(gy_driver *driver, const gy_process *process, const char *reason);
/** The slot's process is gone or forgotten: what was to be told to it, too. */
void gy_remote_forget(gy_driver *driver, const gy_process *process);
/** Send what its window and the queue allow of process->out. */
void gy_remote_send(gy_driver *driver, gy_process *process);
/** It has answered a START. */
void gy_remote_answered(gy_driver *driver, const gy_process *process);
/** Where the slot is: its host, and the job's folder there (NULL: no such slot). */
uint32_t gy_remote_host(const gy_driver *driver, uint32_t slot);
const char *gy_remote_folder(const gy_driver *driver, uint32_t slot);

/** Whose host that is. */
void gy_remote_guest(const gy_driver *driver, uint32_t slot, gy_driver_guest *guest);

/** Tell the process of a START: once what it needs is at its host. GY_NOMEM: as if not said */
GY_MUST_CHECK gy_status gy_remote_start(gy_driver *driver, gy_process *process,
                                        const gy_effect *effect, const gy_driver_place *place);
/** A START that still waits is taken back: true. */
bool gy_remote_unstart(gy_driver *driver, const gy_effect *effect);
/** Files of an attempt that ran on `host` (GY_NONE: any) may go: names, each with its NUL. */
void gy_remote_discard(gy_driver *driver, uint32_t host, const gy_text *names);
/** Do it later: leases of the host go back as bad. */
void gy_remote_avoid(gy_driver *driver, uint32_t host, const char *reason);

#endif
