/**
 * Inside room transport: joining a run that an MPI's launcher started.
 */
#ifndef GY_TRANSPORT_FOREIGN_PRIV_H
#define GY_TRANSPORT_FOREIGN_PRIV_H

#include "transport/transport.h"

/** The ranks of a launcher of MPI `name` ("openmpi", "mpich"): memory within a host, but for
 * `is_apart`, MPI's messages else. GY_UNSUPPORTED; GY_IO */
GY_MUST_CHECK gy_status gy_transport_foreign_open(const char *name, bool is_apart, gy_env *env,
                                                  gy_transport **transport);

#endif
