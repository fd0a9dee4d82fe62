/* One rank's failure is everybody's, with the same words. */
#include "coll/coll.h"
#include "graph/files/files_priv.h"

gy_status gy_session_agree(gy_comm *comm, gy_status status)
{
    if (comm == NULL || gy_comm_size(comm) == 1) {
        return status;
    }
    gy_error error = {.status = GY_OK};
    GY_ASSERT(gy_comm_rank(comm) < gy_comm_size(comm));
    if (status < 0) {
        gy_error_take(&error, status);
    }
    int32_t size = gy_comm_size(comm);
    int32_t culprit = status < 0 ? gy_comm_rank(comm) : size;
    GY_TRY(gy_allreduce(comm, &culprit, &culprit, 1, GY_I32, GY_MIN));
    if (culprit == size) {
        return status;
    }
    GY_ASSERT(culprit >= 0 && culprit < size);
    GY_TRY(gy_broadcast(comm, &error, sizeof(error), GY_U8, culprit));
    return gy_error_raise(&error);
}

gy_status gy_session_agree_named(gy_comm *comm, gy_status status)
{
    GY_ASSERT(status <= GY_AGAIN);
    if (status < 0 && comm != NULL && gy_comm_size(comm) > 1) {
        status = gy_fail_within(status, "rank %d", gy_comm_rank(comm));
    }
    return gy_session_agree(comm, status);
}
