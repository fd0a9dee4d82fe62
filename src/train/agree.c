/**
 * What ranks do so that one's failure is everybody's, with the same words.
 */
#include "coll/coll.h"
#include "train/train_priv.h"

gy_status gy_train_tell(gy_comm *comm, gy_status status)
{
    if (status >= 0 || comm == NULL || gy_comm_size(comm) == 1) {
        return status;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_comm_refuse(comm, &error);
    return gy_error_raise(&error);
}
