/**
 * SIGINT, SIGTERM and SIGHUP, whichever thread they reach, as a descriptor to wait for.
 */
#ifndef GY_BASE_SIGNALS_H
#define GY_BASE_SIGNALS_H

#include "base/base.h"

/** Watch them; their descriptor. GY_STATE they are watched already: another job runs; GY_LIMIT
 */
GY_MUST_CHECK gy_status gy_signals_open(int *file);
/** How many came since the opening. */
int gy_signals_count(int file);
/** The number of the last one; 0: none came. */
int gy_signals_last(void);
void gy_signals_close(int file);

#endif
