/* Makes a communicator of full size again, after the launcher has restarted the dead ranks. */
#include "coll/coll_priv.h"

static gy_status check(const gy_comm *comm)
{
    GY_ASSERT(comm->root != NULL);
    if (comm->root != comm) {
        return gy_fail(GY_ARG,
                       "recover: a group, expected the communicator that it stems from");
    }
    if (comm->is_succeeded) {
        return gy_fail(GY_STATE, "recover: the communicator was shrunk before");
    }
    return comm->options.renew == NULL
               ? gy_fail(GY_UNSUPPORTED, "recover: the ranks of this launch are not restarted: "
                                         "expected gyre run --on-failure=restart")
               : GY_OK;
}

gy_status gy_comm_recover(gy_comm *comm, gy_comm **whole)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(whole != NULL);
    GY_TRY(check(comm));
    gy_mutex_lock(&comm->lock);
    if (!comm->is_failed) {
        gy_comm_fail(comm, gy_fail(GY_CANCELLED, "rank %d recovers the communicator",
                                   gy_comm_peer(comm, comm->rank)));
    }
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->lock);
    const gy_comm_options *options = &comm->options;
    gy_deadline deadline = {gy_now_ns(comm->transport->env) + comm->timeout_ns};
    gy_transport *transport = NULL;
    GY_TRY(options->renew(options->launcher, deadline, &transport));
    GY_ASSERT(transport != NULL && transport != comm->transport);
    gy_mutex_lock(&comm->lock);
    gy_transport_part(comm->transport); /* all ranks use the new transport now */
    gy_mutex_unlock(&comm->lock);
    GY_TRY(gy_comm_new(transport, options, whole));
    GY_ASSERT((*whole)->size == comm->size && (*whole)->rank == comm->rank);
    gy_comm_world_succeed(comm, *whole);
    return GY_OK;
}
