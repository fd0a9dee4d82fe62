/**
 * The handle of a program that runs jobs, for the files of this room: its functions by name.
 */
#ifndef GY_FLOW_FLOW_H
#define GY_FLOW_FLOW_H

#include "base/base.h"

#include <gyre/flow.h>

struct gy_flow {
    gy_function *functions; /* (count) by name */
    uint32_t count;
    uint64_t hash; /* hash of the names */
    char **argv;   /* main's argv */
};

/** Find a function's number by its name; UINT32_MAX: none has that name. @cost O(log count) */
uint32_t gy_flow_find(const gy_flow *flow, const char *name);

/** Make a handle without the rest of gy_flow_start. GY_ARG a name is missing, too long or
 * listed twice; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_flow_new(const gy_function *functions, int count, gy_flow **flow);

/** Serve a job in this process, which the job started; 0 it is needed no more, else it could
 * not, which the log has (serve.c). */
int gy_flow_serve(const gy_flow *flow, int socket);

#endif
