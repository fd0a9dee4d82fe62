/**
 * Sends heartbeats for a manager while none of its jobs runs: before the first one, between
 * two, and after the last, as long as its program lives. Otherwise the name server would find
 * it silent and start a successor.
 */
#ifndef GY_DRIVER_HEARTBEAT_H
#define GY_DRIVER_HEARTBEAT_H

#include "control/net/ticket.h"

/**
 * Start the thread that sends heartbeats once no job has run for some time; a failure is a
 * warning. A second call has no effect. @threads one at a time, as gy_driver_heartbeat_stop
 */
void gy_driver_heartbeat_start(gy_env *env, const gy_ticket *ticket);
/** Stop it before this returns. */
void gy_driver_heartbeat_stop(void);

#endif
