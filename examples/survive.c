/*
 * A sum of many steps that survives the loss of ranks: kill any of them with kill -9, and the
 * last line stays the same.
 *
 *     gyre run -n 4 --on-failure=restart ./survive
 */
#include <gyre/gyre.h>

#include <stdio.h>

static int give_up(void)
{
    fprintf(stderr, "%s\n", gy_error_text());
    return 1;
}

int main(void)
{
    struct {
        int64_t step;
        double x;
    } state = {0, 1};
    int64_t checkpoints = 0;
    gy_recoverable *work = NULL;
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0 || gy_recoverable_new(comm, NULL, &work) < 0 ||
        gy_recoverable_load(work, &state, sizeof(state), &checkpoints) < 0) {
        return give_up();
    }
    int rank = gy_comm_rank(comm);
    while (state.step < 20000) {
        double mine = state.x / (rank + 3) + rank, sum = 0;
        if (gy_recoverable_allreduce(work, &mine, &sum, 1, GY_F64, GY_SUM) < 0) {
            return give_up();
        }
        state.x = sum / 2;
        if (++state.step % 500 == 0 &&
            gy_recoverable_checkpoint(work, &state, sizeof(state)) < 0) {
            return give_up();
        }
    }
    if (gy_recoverable_finish(work) < 0) {
        return give_up();
    }
    if (rank == 0) {
        printf("%.17g\n", state.x);
    }
    gy_recoverable_free(work);
    gy_comm_world_close();
    return 0;
}
