/* What ranks do after a failure: end the launch, revoke, agree, continue with the live ranks.
 */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <unistd.h>

void gy_comm_abort(gy_comm *comm, int code, const char *text)
{
    GY_COMM_EXPECT(comm);
    gy_error error;
    GY_ASSERT(code > 0 && code < 256);
    gy_error_take(&error, gy_fail(GY_CANCELLED, "rank %d aborted the launch: %.800s",
                                  gy_comm_peer(comm, comm->rank), text));
    gy_comm_refuse(comm, &error);
    if (!gy_transport_run_report_abort(&error)) {
        gy_log_message("%s", error.text);
    }
    fflush(NULL);
    _exit(code);
}

void gy_comm_revoke(gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    gy_error error;
    gy_error_take(&error, gy_fail(GY_CANCELLED, "rank %d revoked the communicator",
                                  gy_comm_peer(comm, comm->rank)));
    gy_comm_refuse(comm, &error);
}

static gy_status check(const gy_comm *comm, const char *what)
{
    GY_ASSERT(what != NULL);
    if (comm->root != comm) {
        return gy_fail(GY_ARG, "%s: a group, expected the communicator that it stems from",
                       what);
    }
    if (comm->is_succeeded) {
        return gy_fail(GY_STATE, "%s: the communicator was shrunk before", what);
    }
    return comm->is_astray ? gy_fail(GY_STATE, "%s: the ranks could not agree before", what)
                           : GY_OK;
}

static gy_status agree(gy_comm *comm, gy_agreement *agreement) GY_REQUIRES(comm->root->lock)
{
    GY_ASSERT(agreement != NULL);
    GY_TRY(check(comm, "agree"));
    bool *is_lost = gy_alloc_zero("coll.agree", (size_t)comm->size, sizeof(bool));
    if (is_lost == NULL) {
        return GY_NOMEM;
    }
    gy_ground_listen(comm->ground, comm->epoch);
    gy_status status = gy_agree(comm, agreement, is_lost);
    gy_free(is_lost);
    return status;
}

gy_status gy_comm_agree(gy_comm *comm, gy_agreement *agreement)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(agreement != NULL);
    gy_agreement agreed = *agreement;
    gy_mutex_lock(&comm->root->lock);
    gy_status status = agree(comm, &agreed);
    gy_mutex_unlock(&comm->root->lock);
    if (status >= 0) {
        *agreement = agreed;
    }
    return status;
}

/* Returns a number above all that this rank has used, in any communicator slot. */
static uint64_t numbers_above(const gy_comm *root)
{
    GY_ASSERT(root->root == root);
    uint64_t base = root->next_base;
    for (const gy_comm *each = root; each != NULL; each = each->next) {
        base = GY_MAX(base, (each->next_number / GY_CHANNELS + 2) * GY_CHANNELS);
    }
    GY_ASSERT(base % GY_CHANNELS == 0);
    return base;
}

/* Makes a root of the live ranks, as if it were a group of the old one. */
static gy_status make_root(gy_comm *old, const bool *is_lost, uint64_t base, gy_comm **made_to)
{
    GY_ASSERT(!is_lost[old->rank]);
    gy_comm *made = gy_alloc_zero("coll.comm", 1, sizeof(*made));
    int *ranks = gy_alloc_zero("coll.comm", (size_t)old->size, sizeof(*ranks));
    if (made == NULL || ranks == NULL) {
        gy_free(made);
        gy_free(ranks);
        return GY_NOMEM;
    }
    for (int rank = 0; rank < old->size; rank++) {
        made->rank = rank == old->rank ? made->size : made->rank;
        if (!is_lost[rank]) {
            ranks[made->size++] = gy_comm_peer(old, rank);
        }
    }
    GY_ASSERT(made->size >= 1 && ranks[made->rank] == gy_comm_peer(old, old->rank));
    made->root = old;
    made->ranks = ranks;
    made->next_number = made->ended = made->next_base = base;
    made->life = (uint32_t)(base / GY_CHANNELS) + 1;
    gy_status status = gy_comm_init_group(made);
    if (status < 0) {
        gy_comm_release(made);
        return status;
    }
    made->root = made;
    made->comm_slots = 1;
    made->shared_comm_slots = old->shared_comm_slots;
    made->ground = old->ground;
    made->epoch = old->ground->epoch;
    gy_comm_init_lock(made);
    GY_ASSERT(made->ground != NULL && made->root == made);
    atomic_fetch_add_explicit(&made->ground->holders, 1, memory_order_relaxed);
    old->is_succeeded = true;
    for (gy_comm *each = old; each != NULL; each = each->next) {
        each->records = NULL; /* the new root records the communicator slots from now on */
    }
    *made_to = made;
    return GY_OK;
}

static gy_status shrink(gy_comm *comm, bool *is_lost, gy_comm **survivors)
    GY_REQUIRES(comm->root->lock)
{
    gy_ground *ground = comm->ground;
    GY_TRY(check(comm, "shrink"));
    if (!comm->is_failed) {
        gy_comm_fail(comm, gy_fail(GY_CANCELLED, "rank %d shrinks the communicator",
                                   gy_comm_peer(comm, comm->rank)));
        gy_comm_call_ends(comm);
    }
    gy_agreement agreement = {.value_max = (int64_t)numbers_above(comm)};
    gy_ground_listen(ground, comm->epoch + 1);
    GY_TRY(gy_agree(comm, &agreement, is_lost));
    for (int rank = 0; rank < comm->size; rank++) {
        ground->is_lost[gy_comm_peer(comm, rank)] |= is_lost[rank];
    }
    ground->epoch = comm->epoch + 1;
    gy_ground_listen(ground, ground->epoch);
    GY_ASSERT(!is_lost[comm->rank]);
    return make_root(comm, is_lost, (uint64_t)agreement.value_max, survivors);
}

gy_status gy_comm_shrink(gy_comm *comm, gy_comm **survivors)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(survivors != NULL);
    bool *is_lost = gy_alloc_zero("coll.shrink", (size_t)comm->size, sizeof(bool));
    if (is_lost == NULL) {
        return GY_NOMEM;
    }
    gy_mutex_lock(&comm->root->lock);
    gy_status status = shrink(comm, is_lost, survivors);
    gy_mutex_unlock(&comm->root->lock);
    gy_free(is_lost);
    return status;
}
