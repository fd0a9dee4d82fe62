/* Communicators: how they are made over a transport, and the blocking calls on them. */
#include "base/setting_numbers.h"
#include "coll/record_priv.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMM_LOCK_RANK = 20, DEFAULT_TIMEOUT_S = 60, ROUNDS_UNDER_LOCK = 64 };

gy_status gy_comm_read_timeout(double wanted, int64_t *timeout_ns)
{
    double seconds = wanted > 0 ? wanted : DEFAULT_TIMEOUT_S;
    if (wanted == 0) {
        GY_TRY(gy_base_setting_seconds("GYRE_TIMEOUT", &seconds));
    }
    GY_ASSERT(seconds > 0);
    *timeout_ns = (int64_t)(seconds * 1e9);
    return GY_OK;
}

static gy_status check_algorithm(void)
{
    gy_forced forced;
    gy_tuning *tuning = NULL;
    GY_TRY(gy_forced_from_environment(&forced));
    gy_forced_fini(&forced);
    GY_TRY(gy_tuning_open(NULL, gy_env_real(), false, &tuning));
    gy_tuning_free(tuning);
    return GY_OK;
}

gy_status gy_comm_check_settings(void)
{
    int64_t timeout_ns = 0;
    GY_TRY(gy_comm_read_timeout(0, &timeout_ns));
    GY_TRY(check_algorithm());
    return gy_transport_check_environment();
}

/* Returns the bytes of staging that the communicator slot has. */
static size_t comm_slot_bytes(const gy_comm *comm)
{
    GY_ASSERT(comm->shared != NULL);
    GY_ASSERT(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    size_t all = comm->shared->staging_bytes;
    return comm->comm_slot == 0 ? GY_MIN(all, (size_t)GY_WORLD_STAGING)
                                : (size_t)GY_GROUP_STAGING;
}

/* Counts the communicator slots that have words and staging. */
static int count_shared_comm_slots(const gy_shared *shared)
{
    size_t beyond =
        shared->staging_bytes - GY_MIN(shared->staging_bytes, (size_t)GY_WORLD_STAGING);
    size_t comm_slots =
        GY_MIN(beyond / GY_GROUP_STAGING + 1, (size_t)GY_SHARED_WORDS / GY_COMM_SLOT_WORDS);
    GY_ASSERT(comm_slots >= 1); /* the world's */
    return (int)GY_MIN(comm_slots, (size_t)GY_COMM_SLOTS);
}

static gy_status init_comm_slot(gy_comm *comm)
{
    GY_ASSERT(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    if (comm->shared == NULL) {
        return GY_OK;
    }
    size_t slots = GY_CHANNELS * sizeof(gy_coll_slot), all = comm_slot_bytes(comm);
    size_t least = slots + (size_t)GY_CHANNELS * (size_t)comm->size * 2 * GY_CACHE_LINE;
    if (all < least) {
        return gy_fail(GY_ARG, "%zu bytes of staging a rank, at least %zu are needed", all,
                       least);
    }
    comm->region_bytes = (all - slots) / GY_CHANNELS / GY_CACHE_LINE * GY_CACHE_LINE;
    GY_ASSERT(slots + comm->region_bytes * GY_CHANNELS <= all);
    return GY_OK;
}

/* Tests whether all ranks of the communicator share this host's memory. */
static bool is_together(const gy_comm *comm)
{
    GY_ASSERT(comm->size > 0);
    const gy_shared *shared = gy_transport_shared(comm->transport);
    bool is = shared != NULL && comm->size > 1;
    for (int rank = 0; rank < comm->size && is; rank++) {
        int place = gy_comm_peer(comm, rank) - shared->first_rank;
        is = place >= 0 && place < shared->size;
    }
    return is;
}

/* Sets up shared memory. On several hosts, a group uses it if all its ranks are on one host. */
static gy_status init_shared(gy_comm *comm, const gy_comm_options *options)
{
    GY_ASSERT(comm->root == comm && comm->ground != NULL);
    GY_ASSERT(comm->ground->pool == NULL);
    const gy_shared *shared = gy_transport_shared(comm->transport);
    comm->pool = gy_pool_heap();
    if (shared == NULL || shared->size == 1 || options->has_messages_only) {
        return GY_OK;
    }
    comm->shared = is_together(comm) ? shared : NULL;
    GY_TRY(init_comm_slot(comm));
    comm->shared_comm_slots = count_shared_comm_slots(shared);
    GY_TRY(gy_pool_new(gy_shared_pool(shared, shared->rank), shared->pool_bytes,
                       &comm->ground->pool));
    comm->pool = comm->shared != NULL ? comm->ground->pool : comm->pool;
    return GY_OK;
}

/* Allocates the tables that every communicator has. */
static gy_status init_tables(gy_comm *comm)
{
    GY_ASSERT(comm->size > 0);
    GY_ASSERT(comm->peer_ended == NULL && comm->mapped == NULL);
    comm->peer_ended =
        gy_alloc_zero("coll.comm", (size_t)comm->size, sizeof(*comm->peer_ended));
    comm->mapped = gy_alloc_zero("coll.comm", (size_t)comm->size, sizeof(*comm->mapped));
    return comm->peer_ended == NULL || comm->mapped == NULL ? GY_NOMEM : GY_OK;
}

/* Returns the cores of the host if its ranks are crowded and share no memory, else 0. The
 * result is the same on all ranks, since a rank that sees all ranks on its host is on the host
 * of every other rank. */
static int find_loop_cores(const gy_comm *comm)
{
    const gy_transport *transport = comm->transport;
    bool is_one = transport->hosts == NULL && gy_transport_shared(transport) == NULL &&
                  transport->host_ranks == transport->size;
    GY_ASSERT(transport != NULL && comm->size > 0);
    return is_one && comm->size > transport->host_cores ? transport->host_cores : 0;
}

/* Describes the site, after the communicator slot and the ranks are set. */
static gy_status init_site(gy_comm *comm)
{
    const gy_transport *transport = comm->transport;
    int32_t *hosts = NULL;
    GY_ASSERT(comm->root != NULL);
    GY_ASSERT(comm->shared == NULL || comm->region_bytes > 0);
    if (transport->hosts != NULL) {
        hosts = gy_alloc_zero("coll.comm", (size_t)comm->size, sizeof(*hosts));
        if (hosts == NULL) {
            return GY_NOMEM;
        }
        for (int rank = 0; rank < comm->size; rank++) {
            hosts[rank] = transport->hosts[gy_comm_peer(comm, rank)];
        }
    }
    gy_status status = gy_site_init(&comm->site, comm->size, hosts, comm->root->tuning);
    gy_free(hosts);
    comm->site.has_shared = comm->shared != NULL;
    comm->site.is_crowded = gy_comm_is_crowded(comm);
    comm->site.loop_cores = find_loop_cores(comm);
    comm->site.region_bytes = comm->region_bytes;
    comm->site.forced = &comm->root->forced;
    comm->site.near = transport->hosts != NULL || gy_transport_shared(transport) != NULL
                          ? GY_LINK_RING
                          : GY_LINK_LOOPBACK;
    return status;
}

static gy_status init(gy_comm *comm, const gy_comm_options *options)
{
    GY_ASSERT(comm->root == comm && comm->ranks == NULL);
    GY_TRY(
        gy_tuning_open(options->table, comm->transport->env, comm->rank == 0, &comm->tuning));
    if (options->algorithm != NULL || options->is_self) {
        GY_TRY(gy_forced_parse(options->algorithm, &comm->forced));
    } else {
        GY_TRY(gy_forced_from_environment(&comm->forced));
    }
    comm->options = *options;
    GY_TRY(gy_comm_read_timeout(options->timeout_s, &comm->timeout_ns));
    comm->ground->is_lost = gy_alloc_zero("coll.ground", (size_t)comm->size, sizeof(bool));
    GY_TRY(comm->ground->is_lost == NULL ? GY_NOMEM : init_tables(comm));
    comm->comm_slots = 1;
    GY_TRY(init_shared(comm, options));
    gy_record_comm_open(comm);
    return init_site(comm);
}

gy_status gy_comm_new(gy_transport *transport, const gy_comm_options *options, gy_comm **comm)
{
    GY_ASSERT(transport != NULL && comm != NULL);
    gy_comm *made = gy_alloc_zero("coll.comm", 1, sizeof(*made));
    gy_ground *ground = gy_alloc_zero("coll.ground", 1, sizeof(*ground));
    if (made == NULL || ground == NULL) {
        gy_free(made);
        gy_free(ground);
        gy_transport_close(transport);
        return GY_NOMEM;
    }
    atomic_init(&ground->holders, 1);
    ground->transport = transport;
    made->mark = GY_COMM_MARK;
    made->ground = ground;
    made->root = made;
    made->transport = transport;
    made->rank = gy_transport_rank(transport);
    made->size = gy_transport_size(transport);
    GY_ASSERT(gy_comm_has_rank(made, made->rank));
    gy_comm_init_lock(made);
    gy_status status =
        init(made, options != NULL ? options : &(gy_comm_options){.timeout_s = 0});
    if (status != GY_OK) {
        gy_comm_free(made);
        return status;
    }
    *comm = made;
    return GY_OK;
}

void gy_comm_init_lock(gy_comm *root)
{
    GY_ASSERT(root->root == root);
    gy_mutex_init(&root->lock, COMM_LOCK_RANK);
}

gy_status gy_comm_init_group(gy_comm *group)
{
    const gy_comm *root = group->root;
    GY_ASSERT(root != NULL && group->ranks != NULL);
    GY_ASSERT(gy_comm_has_rank(group, group->rank));
    GY_ASSERT(group->next_number == group->ended);
    group->mark = GY_COMM_MARK;
    group->transport = root->transport;
    bool has_shared = group->comm_slot < root->shared_comm_slots && is_together(group);
    group->shared = has_shared ? gy_transport_shared(root->transport) : NULL;
    group->pool = has_shared ? root->ground->pool : root->pool;
    group->timeout_ns = root->timeout_ns;
    GY_TRY(init_tables(group));
    gy_record_comm_open(group);
    for (int rank = 0; rank < group->size; rank++) {
        group->peer_ended[rank] = group->ended;
    }
    GY_TRY(init_comm_slot(group));
    return init_site(group);
}

static void free_coll(gy_coll *coll)
{
    GY_ASSERT(coll->runner.plan == NULL);
    GY_ASSERT(!coll->runner.is_in_library);
    gy_free(coll->runner.scratch);
    gy_free(coll->runner.sends);
    gy_free(coll->remote);
    gy_free(coll->any.transfers);
    gy_free(coll->numbers);
    gy_free(coll);
}

/* A program that ends early may still hold tensors. Their memory is lost, and a later release
 * of a tensor must not crash. */
static void free_pool(gy_pool *pool)
{
    size_t used = gy_pool_used_bytes(pool);
    if (used > 0) {
        gy_debug("%zu bytes of registered memory were not released", used);
        return;
    }
    gy_pool_free(pool);
}

/* The last root that stands on the ground frees it. */
static void drop_ground(gy_ground *ground)
{
    /* acq_rel: the close comes after everything that the other holders did */
    int before = atomic_fetch_sub_explicit(&ground->holders, 1, memory_order_acq_rel);
    GY_ASSERT(before > 0);
    if (before > 1) {
        return;
    }
    if (ground->pool != NULL) {
        free_pool(ground->pool);
    }
    gy_transport_close(ground->transport);
    gy_free(ground->is_lost);
    gy_free(ground);
}

void gy_comm_release(gy_comm *comm)
{
    GY_ASSERT(comm->mark == GY_COMM_MARK);
    GY_ASSERT(comm->flying == NULL);
    while (comm->spare != NULL) {
        gy_coll *coll = comm->spare;
        comm->spare = coll->next;
        free_coll(coll);
    }
    gy_plans_free(comm);
    gy_record_comm_close(comm);
    gy_free(comm->peer_ended);
    gy_free(comm->mapped);
    gy_site_fini(&comm->site);
    gy_forced_fini(&comm->forced);
    gy_tuning_free(comm->tuning);
    gy_free(comm->ranks);
    comm->mark = 0;
    gy_free(comm);
}

static void free_root(gy_comm *root)
{
    GY_ASSERT(root->root == root);
    gy_mutex_lock(&root->lock);
    GY_ASSERT(root->in_flight >= 0);
    if (root->in_flight > 0) {
        gy_comm_fail(
            root, gy_fail(GY_CANCELLED, "rank %d left with collectives in flight", root->rank));
    }
    gy_comm_call_ends(root);
    gy_mutex_unlock(&root->lock);
    while (root->next != NULL) {
        gy_comm *group = root->next;
        GY_ASSERT(group->root == root);
        root->next = group->next;
        gy_debug("group %d.%u was not freed", group->comm_slot, group->life);
        gy_comm_release(group);
    }
    gy_requests_free(root);
    gy_record_comm_close(root);
    drop_ground(root->ground);
    gy_mutex_fini(&root->lock);
    gy_comm_release(root);
}

void gy_comm_misused(const gy_comm *comm, const char *function)
{
    if (comm == NULL) {
        gy_panic("%s: the communicator is NULL: it was never made (gy_comm_world, "
                 "gy_comm_split and their like say why by their status)",
                 function);
    }
    gy_panic("%s: the communicator at %p was freed, or is none", function, (const void *)comm);
}

void gy_comm_free(gy_comm *comm)
{
    if (comm == NULL) {
        return;
    }
    GY_COMM_EXPECT(comm);
    if (comm->options.is_self) {
        return;
    }
    if (comm->root == comm) {
        free_root(comm);
    } else {
        gy_group_leave(comm);
    }
}

int gy_comm_rank(const gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    GY_CHECK_DEEP(gy_comm_has_rank(comm, comm->rank));
    return comm->rank;
}

int gy_comm_size(const gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    GY_CHECK_DEEP(comm->size > 0);
    return comm->size;
}

int gy_comm_host_count(const gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(comm->site.hosts.hosts > 0);
    return comm->site.hosts.hosts;
}

static const gy_topology *hosts_of(const gy_comm *comm)
{
    return comm->site.hosts.hosts > 1 ? &comm->site.hosts : NULL;
}

int gy_comm_host(const gy_comm *comm, int rank)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(rank >= 0 && rank < comm->size);
    return gy_host_of(hosts_of(comm), rank);
}

/* Counts the ranks below `end` that are on this process's host. */
static int count_local(const gy_comm *comm, int end)
{
    GY_ASSERT(end >= 0 && end <= comm->size);
    int count = 0, own = gy_host_of(hosts_of(comm), comm->rank);
    for (int rank = 0; rank < end; rank++) {
        count += gy_host_of(hosts_of(comm), rank) == own;
    }
    return count;
}

int gy_comm_local_size(const gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    return count_local(comm, comm->size);
}

int gy_comm_local_rank(const gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    return count_local(comm, comm->rank);
}

gy_pool *gy_comm_pool(gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(comm->pool != NULL);
    return comm->pool;
}

int64_t gy_comm_in_flight(gy_comm *comm)
{
    gy_mutex_lock(&comm->root->lock);
    int64_t count = (int64_t)(comm->next_number - comm->ended);
    for (int i = 0; i < GY_CHANNELS; i++) {
        count -= comm->is_ended[i];
    }
    if (comm->root->is_failed) {
        count = comm->unended; /* a failed communicator counts no number as ended */
    }
    GY_ASSERT(count >= 0);
    gy_mutex_unlock(&comm->root->lock);
    return count;
}

gy_comm_stats gy_comm_statistics(gy_comm *comm)
{
    gy_mutex_lock(&comm->root->lock);
    gy_comm_stats stats = comm->stats;
    GY_ASSERT(stats.collectives >= 0 && stats.wait_ns >= 0);
    gy_mutex_unlock(&comm->root->lock);
    return stats;
}

gy_status gy_coll_reserve(gy_comm *comm, gy_coll **coll)
{
    gy_mutex_lock(&comm->root->lock);
    gy_coll *taken = gy_coll_take(comm);
    gy_mutex_unlock(&comm->root->lock);
    if (taken == NULL) {
        return GY_NOMEM;
    }
    GY_ASSERT(taken->stage == GY_COLL_RESERVED && taken->comm == comm);
    *coll = taken;
    return GY_OK;
}

gy_status gy_comm_check_buffers(gy_comm *comm, const gy_coll_call *call)
{
    gy_status status = gy_call_check_buffers(comm, call);
    if (status < 0 && comm->size > 1) {
        gy_error cause;
        gy_error_take(&cause, status);
        gy_comm_refuse(comm, &cause);
        status = gy_error_raise(&cause);
    }
    return status;
}

void gy_coll_count(gy_coll *coll, uint64_t *bytes)
{
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && coll->kind == GY_COLL_COLLECTIVE);
    coll->sent_bytes = bytes;
}

void gy_coll_start(gy_coll *coll, const gy_coll_call *call, gy_coll_end end, void *arg)
{
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && coll->kind == GY_COLL_COLLECTIVE);
    GY_ASSERT(call != NULL && end != NULL);
    gy_comm *comm = coll->comm;
    gy_mutex_lock(&comm->root->lock);
    coll->call = *call;
    coll->end = end;
    coll->arg = arg;
    gy_status status = gy_call_check(comm, call);
    status = status == GY_OK ? gy_call_check_buffers(comm, call) : status;
    if (comm->root->is_failed) {
        status = gy_error_raise(&comm->root->failure);
    }
    if (status == GY_OK && gy_average_is_wide(comm, call)) {
        status = gy_average_start(coll);
    }
    if (status < 0) {
        coll->call = (gy_coll_call){.operation = GY_OPERATION_BARRIER};
    }
    gy_coll_launch(coll);
    if (status < 0) {
        gy_comm_fail(comm, status);
    }
    (void)gy_progress_all(comm);
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->root->lock);
}

void gy_coll_poison(gy_coll *coll, const gy_error *cause, gy_coll_end end, void *arg)
{
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && end != NULL);
    gy_comm *comm = coll->comm;
    GY_ASSERT(cause->status < 0);
    gy_mutex_lock(&comm->root->lock);
    coll->call = (gy_coll_call){.operation = GY_OPERATION_BARRIER};
    coll->end = end;
    coll->arg = arg;
    gy_coll_launch(coll);
    gy_comm_fail(comm, gy_error_raise(cause));
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->root->lock);
}

void gy_comm_refuse(gy_comm *comm, const gy_error *cause)
{
    GY_ASSERT(cause->status < 0);
    gy_mutex_lock(&comm->root->lock);
    gy_comm_fail(comm, gy_error_raise(cause));
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->root->lock);
}

gy_status gy_coll_begin(gy_comm *comm, const gy_coll_call *call, gy_coll_end end, void *arg)
{
    GY_ASSERT(end != NULL);
    gy_coll *coll = NULL;
    GY_TRY(gy_call_check(comm, call));
    GY_TRY(gy_comm_check_buffers(comm, call));
    GY_TRY(gy_coll_reserve(comm, &coll));
    gy_coll_start(coll, call, end, arg);
    return GY_OK;
}

bool gy_comm_progress(gy_comm *comm)
{
    GY_ASSERT(comm->root != NULL);
    if (!gy_mutex_try(&comm->root->lock)) {
        return false;
    }
    bool has_moved = comm->root->in_flight > 0 && gy_progress_all(comm);
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->root->lock);
    return has_moved;
}

/* ---- Blocking ---- */

void gy_note_end(void *arg, gy_status status)
{
    gy_wait_note *note = arg;
    GY_ASSERT(status <= GY_OK);
    GY_ASSERT(!atomic_load_explicit(&note->is_over, memory_order_relaxed)); /* exactly once */
    note->error.status = GY_OK;
    if (status != GY_OK) {
        gy_error_take(&note->error, status);
    }
    /* release: the error; with the acquire of the waiting thread */
    atomic_store_explicit(&note->is_over, true, memory_order_release);
}

/* Lets other threads start calls, and moves what they started, while a tiny call waits. */
static void give_way(gy_comm *comm) GY_REQUIRES(comm->root->lock)
{
    gy_mutex_unlock(&comm->root->lock);
    gy_mutex_lock(&comm->root->lock);
    if (comm->root->in_flight > 0) {
        (void)gy_progress_all(comm);
        gy_comm_call_ends(comm);
    }
}

static gy_status fail_tiny(gy_comm *comm, gy_coll *coll, gy_status status)
    GY_REQUIRES(comm->root->lock)
{
    char text[192];
    GY_ASSERT(status < 0 || comm->root->is_failed);
    GY_ASSERT(coll->kind == GY_COLL_COLLECTIVE);
    gy_record_end(coll, GY_RECORD_FAILED);
    if (comm->root->is_failed) {
        return gy_error_raise(&comm->root->failure);
    }
    if (status == GY_MISMATCH && comm->root->options.outlives_mismatch) {
        /* All ranks see the mismatch before any data has moved. */
        gy_comm_end_number(comm, coll->number);
        return status;
    }
    if (status != GY_MISMATCH) {
        (void)gy_fail_within(status, "%s", gy_coll_text(coll, text));
        (void)gy_record_blame(coll, status);
    }
    gy_comm_fail(comm, status);
    return status;
}

/* Enters when the channel is free, then compares. The record is written while the signatures of
 * the others are on their way. */
static inline gy_status try_tiny(gy_coll *coll, bool is_first, bool *has_entered)
{
    gy_comm *comm = coll->comm;
    GY_CHECK_DEEP(comm->shared != NULL);
    GY_CHECK_DEEP(coll->stage == GY_COLL_ENTERED);
    if (!*has_entered && gy_channel_is_free(comm, coll->number, &coll->peer)) {
        gy_coll_slot_enter(coll, true);
        *has_entered = true;
        if (!is_first) {
            gy_record_entered(coll);
        }
    }
    if (is_first) {
        gy_record_tiny(coll, *has_entered);
    }
    if (!*has_entered) {
        return GY_AGAIN;
    }
    return gy_comm_has_pairs(comm) ? gy_coll_slot_compare_spinning(coll)
                                   : gy_coll_slot_compare(coll);
}

/* Runs a tiny call while nothing else is in flight: it writes one slot and reads all slots,
 * without a list and without a callback. */
static gy_status run_tiny(gy_comm *comm, const gy_coll_call *call) GY_REQUIRES(comm->root->lock)
{
    GY_CHECK_DEEP(comm->next_number == comm->ended);
    GY_CHECK_DEEP(comm->root->in_flight == 0);
    GY_CHECK_DEEP(gy_call_is_tiny(comm, call));
    gy_coll coll;
    coll.comm = comm;
    coll.call = *call;
    coll.kind = GY_COLL_COLLECTIVE;
    coll.number = comm->next_number++;
    coll.signature = gy_coll_signature_of(comm, call, true);
    coll.checked = 0;
    coll.has_remote = false;
    coll.peer = -1;
    coll.stage = GY_COLL_ENTERED;
    gy_wait wait = gy_wait_start(comm->transport, -1, "its call", GY_NEVER);
    bool has_entered = false;
    gy_status status = GY_AGAIN;
    for (int round = 1;; round++) {
        status = try_tiny(&coll, round == 1, &has_entered);
        if (status != GY_AGAIN) {
            break;
        }
        wait.peer = coll.peer;
        gy_record_waits(&coll);
        if (wait.start_ns != 0 && wait.deadline.at_ns == INT64_MAX) {
            wait.deadline.at_ns = wait.start_ns + comm->timeout_ns;
        }
        status = gy_wait_round(&wait);
        if (status >= 0 && round % ROUNDS_UNDER_LOCK == 0) {
            status = has_entered ? gy_coll_slot_compare_later(&coll) : GY_OK;
            give_way(comm);
        }
        if (status < 0 || comm->root->is_failed) {
            break;
        }
    }
    if (status != GY_OK || comm->root->is_failed) {
        return fail_tiny(comm, &coll, status);
    }
    GY_CHECK_DEEP(has_entered);
    gy_coll_slot_finish(&coll);
    coll.peer = -1;
    gy_record_tiny_end(&coll);
    gy_comm_end_number(comm, coll.number);
    comm->stats.collectives++;
    comm->stats.bytes += (int64_t)gy_call_out_bytes(comm, call);
    return GY_OK;
}

/* Releases the lock now and then, so that other threads can start calls. */
gy_status gy_comm_drive(gy_comm *comm, gy_coll *coll, gy_wait_note *note)
{
    char what[192];
    gy_wait wait =
        gy_wait_start(comm->transport, -1, "its call", (gy_deadline){coll->deadline_ns});
    GY_ASSERT(coll->stage > GY_COLL_RESERVED);
    GY_ASSERT(coll->comm == comm);
    wait.is_driven = true;
    bool is_short = true; /* the text of the call is made when the wait naps, not before */
    int64_t start_ns = gy_now_ns(comm->transport->env);
    /* acquire: with the release in gy_note_end */
    for (int round = 1; !atomic_load_explicit(&note->is_over, memory_order_acquire); round++) {
        comm->transport->awaited = coll->stage == GY_COLL_STARTED ? 0 : coll->peer + 1;
        if (gy_progress_all(comm)) {
            gy_comm_call_ends(comm);
            gy_wait_again(&wait);
            continue;
        }
        wait.peer = coll->stage == GY_COLL_STARTED ? -1 : coll->peer;
        if (is_short && wait.is_napping) {
            wait.what = gy_coll_text(coll, what);
            is_short = false;
        }
        gy_status status = gy_wait_round(&wait);
        if (status < 0) {
            status = gy_record_blame(coll, status);
            gy_comm_fail(comm, status);
            gy_comm_call_ends(comm);
        }
        if (round % ROUNDS_UNDER_LOCK == 0) {
            gy_mutex_unlock(&comm->root->lock);
            gy_mutex_lock(&comm->root->lock);
        }
    }
    comm->transport->awaited = 0;
    comm->stats.wait_ns += gy_now_ns(comm->transport->env) - start_ns;
    return note->error.status != GY_OK ? gy_error_raise(&note->error) : GY_OK;
}

static gy_status run_locked(gy_comm *comm, const gy_coll_call *call)
    GY_REQUIRES(comm->root->lock)
{
    GY_CHECK_DEEP(comm->root != NULL && comm->next_number >= comm->ended);
    if (comm->root->is_failed) {
        return gy_error_raise(&comm->root->failure);
    }
    if (comm->next_number == comm->ended && comm->root->in_flight == 0 &&
        call->timeout_s == 0 && gy_call_is_tiny(comm, call)) {
        return run_tiny(comm, call);
    }
    gy_coll *coll = gy_coll_take(comm);
    if (coll == NULL) {
        return GY_NOMEM;
    }
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && coll->comm == comm);
    gy_wait_note note = {.is_over = false};
    coll->call = *call;
    coll->end = gy_note_end;
    coll->arg = &note;
    gy_coll_launch(coll);
    return gy_comm_drive(comm, coll, &note);
}

static gy_status run_average(gy_comm *comm, const gy_coll_call *call)
{
    GY_ASSERT(gy_average_is_wide(comm, call));
    gy_average *average = NULL;
    gy_coll_call sums = *call;
    GY_TRY(gy_average_begin(comm, &sums, &average));
    gy_mutex_lock(&comm->root->lock);
    gy_status status = run_locked(comm, &sums);
    gy_mutex_unlock(&comm->root->lock);
    return gy_average_end(average, status);
}

/* Meets the other ranks after a refusal. If all ranks were refused their buffers they can go
 * on; if not, the communicator fails and no rank waits for ever. */
static gy_status meet_refused(gy_comm *comm, const gy_coll_call *call, gy_status status)
{
    GY_ASSERT(status < 0);
    GY_ASSERT(comm->size > 1);
    gy_error cause;
    const gy_coll_call refusal = gy_call_refusal(call);
    gy_error_take(&cause, status);
    gy_mutex_lock(&comm->root->lock);
    (void)run_locked(comm, &refusal);
    gy_mutex_unlock(&comm->root->lock);
    return gy_error_raise(&cause);
}

gy_status gy_coll_run(gy_comm *comm, const gy_coll_call *call)
{
    GY_COMM_EXPECT(comm);
    GY_CHECK_DEEP(call != NULL);
    GY_TRY(gy_call_check(comm, call));
    gy_status status = gy_call_check_buffers(comm, call);
    if (status < 0) {
        return comm->size > 1 ? meet_refused(comm, call, status) : status;
    }
    if (comm->size == 1) {
        gy_call_alone(call);
        return GY_OK;
    }
    if (gy_average_is_wide(comm, call)) {
        return run_average(comm, call);
    }
    gy_mutex_lock(&comm->root->lock);
    status = run_locked(comm, call);
    gy_mutex_unlock(&comm->root->lock);
    return status;
}
