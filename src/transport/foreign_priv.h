/** Inside room transport: joining a launch that an MPI's launcher started. */
#ifndef GY_TRANSPORT_FOREIGN_PRIV_H
#define GY_TRANSPORT_FOREIGN_PRIV_H

#include "transport/transport.h"

/** Join the ranks of the launcher of MPI `name` ("openmpi", "mpich"): shared memory within a
 * host unless `is_apart`, otherwise MPI's messages. GY_UNSUPPORTED; GY_IO */
GY_MUST_CHECK gy_status gy_transport_foreign_open(const char *name, bool is_apart, gy_env *env,
                                                  gy_transport **transport);

#endif
