#include "train/report/gather.h"

#include "base/base.h"
#include "train/train.h"

#include <string.h>

/* Allgather with every part padded to the longest one. */
static gy_status gather_padded(gy_comm *comm, const void *mine, const uint64_t *sizes,
                               uint64_t longest, gy_text *all)
{
    int ranks = gy_comm_size(comm), rank = gy_comm_rank(comm);
    char *out = gy_alloc_zero("train.gather", (size_t)ranks + 1, (size_t)longest);
    if (out == NULL) {
        return GY_NOMEM;
    }
    char *padded = out + (size_t)ranks * longest;
    if (sizes[rank] > 0) {
        memcpy(padded, mine, (size_t)sizes[rank]);
    }
    gy_status status = gy_allgather(comm, padded, out, (size_t)longest, GY_U8);
    for (int r = 0; r < ranks && status == GY_OK; r++) {
        gy_text_add_bytes(all, out + (size_t)r * longest, (size_t)sizes[r]);
        status = all->status;
    }
    gy_free(out);
    return status;
}

gy_status gy_train_gather_bytes(gy_comm *comm, const void *mine, size_t size_bytes,
                                gy_text *all, size_t *begins)
{
    begins[0] = all->size_bytes;
    if (comm == NULL || gy_comm_size(comm) == 1) {
        gy_text_add_bytes(all, mine, size_bytes);
        begins[1] = all->size_bytes;
        return all->status;
    }
    int ranks = gy_comm_size(comm);
    uint64_t *sizes = gy_alloc_zero("train.gather", (size_t)ranks, sizeof(*sizes));
    if (sizes == NULL) {
        return gy_train_tell(comm, GY_NOMEM);
    }
    uint64_t own = size_bytes, longest = 0;
    gy_status status = gy_allgather(comm, &own, sizes, 1, GY_U64);
    for (int r = 0; r < ranks && status == GY_OK; r++) {
        longest = GY_MAX(longest, sizes[r]);
        begins[r + 1] = begins[r] + (size_t)sizes[r];
    }
    if (status == GY_OK && longest > 0) {
        status = gather_padded(comm, mine, sizes, longest, all);
    }
    gy_free(sizes);
    return gy_train_tell(comm, status);
}
