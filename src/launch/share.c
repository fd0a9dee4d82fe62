#include "launch/launch_priv.h"

void gy_launch_share_of_cores(const cpu_set_t *all, int rank, int ranks, cpu_set_t *share)
{
    int cores = CPU_COUNT(all);
    GY_ASSERT(rank >= 0 && rank < ranks);
    if (ranks > cores) {
        *share = *all;
        return;
    }
    int first = (int)((int64_t)cores * rank / ranks);
    int last = (int)((int64_t)cores * (rank + 1) / ranks), index = 0;
    CPU_ZERO(share);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, all)) {
            if (index >= first && index < last) {
                CPU_SET(core, share);
            }
            index++;
        }
    }
}
