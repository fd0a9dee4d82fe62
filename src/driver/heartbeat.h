/**
 * Who speaks for a manager while none of its jobs runs: before the first one, between two, and
 * behind the last one, as long as its program lives. Else the name server would find it silent
 * and start the next one.
 */
#ifndef GY_DRIVER_HEARTBEAT_H
#define GY_DRIVER_HEARTBEAT_H

#include "control/net/ticket.h"

/** From now on, on a thread of its own, if it is quiet for some time; a failure is a warning.
 * Once more: nothing. @threads one at a time, as gy_driver_heartbeat_stop */
void gy_driver_heartbeat_start(gy_env *env, const gy_ticket *ticket);
/** No more, when this returns. */
void gy_driver_heartbeat_stop(void);

#endif
