/* The communicators that exist without a parent: the launch's, this process's own, and one of
 * ranks that another library started. */
#include "coll/coll_priv.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;
static gy_comm *world;
static bool is_world_tried;
static gy_error world_error;

static gy_status renew(void *launcher, gy_deadline deadline, gy_transport **transport)
{
    GY_ASSERT(transport != NULL);
    (void)launcher;
    *transport = NULL;
    return gy_transport_generation_meet(gy_env_real(), deadline, transport);
}

static gy_status finish(void *launcher, gy_deadline deadline)
{
    (void)launcher;
    return gy_transport_generation_finish(gy_env_real(), deadline);
}

/* A rank that dies before all ranks have met is restarted, and the meeting returns another
 * transport. */
static gy_status open_renewable(gy_transport *transport)
{
    GY_ASSERT(transport != NULL && world == NULL);
    const gy_comm_options options = {.renew = renew, .finish = finish};
    int64_t timeout_ns = 0;
    gy_status status = gy_comm_read_timeout(0, &timeout_ns);
    if (status < 0) {
        gy_transport_close(transport);
        return status;
    }
    gy_deadline deadline = {gy_now_ns(transport->env) + timeout_ns};
    GY_TRY(gy_transport_generation_meet(transport->env, deadline, &transport));
    return gy_comm_new(transport, &options, &world);
}

static gy_status open_world(void)
{
    GY_ASSERT(world == NULL);
    gy_transport *transport = NULL;
    GY_TRY(gy_transport_open_from_environment(gy_env_real(), &transport));
    GY_ASSERT(transport != NULL);
    gy_comm *made = NULL;
    if (gy_transport_run_is_renewable()) {
        return open_renewable(transport);
    }
    GY_TRY(gy_comm_new(transport, NULL, &made));
    gy_deadline deadline = {gy_now_ns(transport->env) + made->timeout_ns};
    gy_status status = gy_transport_meet(transport, deadline);
    if (status < 0) {
        gy_comm_free(made);
        return status;
    }
    world = made;
    return GY_OK;
}

void gy_comm_world_succeed(const gy_comm *old, gy_comm *whole)
{
    GY_ASSERT(whole != NULL && whole != old);
    pthread_mutex_lock(&world_lock);
    if (world == old) {
        world = whole;
    }
    pthread_mutex_unlock(&world_lock);
}

gy_status gy_comm_world(gy_comm **comm)
{
    GY_ASSERT(comm != NULL);
    pthread_mutex_lock(&world_lock);
    gy_status status = GY_OK;
    if (!is_world_tried) {
        is_world_tried = true;
        status = gy_error_keep(&world_error, open_world());
    } else if (world == NULL) {
        status = gy_error_raise(&world_error);
    }
    GY_ASSERT((world == NULL) == (status < 0));
    if (world != NULL) {
        *comm = world;
    }
    pthread_mutex_unlock(&world_lock);
    return status;
}

void gy_comm_world_close(void)
{
    pthread_mutex_lock(&world_lock);
    gy_comm_free(world);
    world = NULL;
    is_world_tried = true;
    (void)gy_fail(GY_STATE, "the launch was left");
    gy_error_take(&world_error, GY_STATE);
    pthread_mutex_unlock(&world_lock);
}

static pthread_once_t self_once = PTHREAD_ONCE_INIT;
static gy_comm *self;

/* No setting of the launch can make this fail: it has no table, no forced algorithm and a fixed
 * timeout. */
static void make_self(void)
{
    GY_ASSERT(self == NULL);
    static const gy_comm_options options = {.timeout_s = 60, .table = "none", .is_self = true};
    gy_transport *transport = NULL;
    gy_status status = gy_transport_self_open(gy_env_real(), &transport);
    status = status < 0 ? status : gy_comm_new(transport, &options, &self);
    if (status < 0) {
        gy_panic("GY_COMM_SELF cannot be made: %s", gy_status_text(status));
    }
}

gy_comm *gy_comm_self(void)
{
    pthread_once(&self_once, make_self);
    GY_ASSERT(self != NULL && self->size == 1);
    return self;
}

/* ---- Ranks that another library brought together ---- */

/* What a rank sends to the others. */
typedef struct introduction {
    int64_t protocol; /* GY_RANK_PROTOCOL, before the fields whose layout it numbers */
    uint64_t host;    /* equal for processes that see the same /proc */
    int64_t status;
    int64_t process, segment; /* of rank 0: its process and file descriptor of the shared
                                 memory; -1: not made */
    cpu_set_t cores;
} introduction;

static uint64_t host_identity(void)
{
    char boot[64] = "";
    struct stat names = {.st_ino = 0};
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, boot, sizeof(boot)) : 0;
    if (file >= 0) {
        close(file);
    }
    (void)stat("/proc/self/ns/pid", &names);
    return gy_hash(boot, size > 0 ? (size_t)size : 0, (uint64_t)names.st_ino);
}

/* Returns the first failure among the ranks; the result is the same on all of them. */
static gy_status look_at_all(const gy_bootstrap *from, const introduction *all,
                             const gy_error *own)
{
    GY_ASSERT(from->rank >= 0 && from->rank < from->size);
    for (int rank = 0; rank < from->size; rank++) {
        char who[32];
        (void)snprintf(who, sizeof(who), "rank %d", rank);
        GY_TRY(gy_transport_protocol_check(who, all[rank].protocol));
    }
    for (int rank = 0; rank < from->size; rank++) {
        if (all[rank].host != all[0].host) {
            return gy_fail(
                GY_UNSUPPORTED,
                "ranks 0 and %d are on different hosts: gy_comm_world joins the ranks "
                "of several",
                rank);
        }
    }
    for (int rank = 0; rank < from->size; rank++) {
        if (all[rank].status < 0) {
            return rank == from->rank
                       ? gy_error_raise(own)
                       : gy_fail(GY_PEER, "rank %d could not make the communicator: %s", rank,
                                 gy_status_text((gy_status)all[rank].status));
        }
    }
    return GY_OK;
}

/* Sends this rank's status to all ranks and receives theirs. */
static gy_status exchange(const gy_bootstrap *from, introduction *mine, gy_status status,
                          introduction *all)
{
    gy_error own = {.status = GY_OK};
    GY_ASSERT(status <= GY_OK && all != NULL);
    (void)gy_error_keep(&own, status);
    mine->status = status;
    status = from->allgather(from->arg, mine, all, sizeof(*mine));
    if (status < 0) {
        return gy_fail(status, "bootstrap: the ranks cannot exchange bytes: %s",
                       gy_status_text(status));
    }
    return look_at_all(from, all, &own);
}

static gy_status make_segment(const gy_bootstrap *from, const introduction *all,
                              introduction *mine, int *segment)
{
    GY_ASSERT(from->rank == 0 && segment != NULL);
    cpu_set_t cores = all[0].cores;
    for (int rank = 1; rank < from->size; rank++) {
        CPU_OR(&cores, &cores, &all[rank].cores);
    }
    const gy_transport_segment_options options = {.ranks = from->size,
                                                  .host_cores = GY_MAX(CPU_COUNT(&cores), 1)};
    GY_TRY(gy_transport_segment_make(&options, segment));
    GY_ASSERT(*segment >= 0);
    mine->process = getpid();
    mine->segment = *segment;
    return GY_OK;
}

/* All ranks make the same rounds, so that a failure of one is a failure of all. */
static gy_status join_bootstrap(const gy_bootstrap *from, introduction *all, int *segment,
                                gy_comm **comm)
{
    GY_ASSERT(from->size >= 1 && from->size <= GY_RANKS_MAX);
    gy_transport *transport = NULL;
    introduction mine = {.protocol = GY_RANK_PROTOCOL, .host = host_identity(), .segment = -1};
    gy_status status = sched_getaffinity(0, sizeof(mine.cores), &mine.cores) == 0
                           ? GY_OK
                           : gy_fail(GY_IO, "the cores of this process are not known");
    GY_TRY(exchange(from, &mine, status, all));
    if (from->rank == 0) {
        status = make_segment(from, all, &mine, segment);
    }
    GY_TRY(exchange(from, &mine, status, all));
    status = gy_transport_shm_open_process((int)all[0].process, (int)all[0].segment, from->rank,
                                           gy_env_real(), &transport);
    gy_comm *made = NULL;
    status = status < 0 ? status : gy_comm_new(transport, NULL, &made);
    status = exchange(from, &mine, status, all);
    if (status < 0) {
        gy_comm_free(made);
        return status;
    }
    GY_ASSERT(made != NULL && made->size == from->size);
    *comm = made;
    return GY_OK;
}

gy_status gy_comm_from_bootstrap(const gy_bootstrap *bootstrap, gy_comm **comm)
{
    GY_ASSERT(bootstrap != NULL && comm != NULL);
    int segment = -1;
    if (bootstrap->size < 1 || bootstrap->rank < 0 || bootstrap->rank >= bootstrap->size ||
        bootstrap->allgather == NULL) {
        return gy_fail(GY_ARG, "bootstrap: rank %d of %d ranks%s", bootstrap->rank,
                       bootstrap->size,
                       bootstrap->allgather == NULL ? " without an allgather" : "");
    }
    if (bootstrap->size > GY_RANKS_MAX) {
        return gy_fail(GY_LIMIT, "bootstrap: %d ranks, at most %d", bootstrap->size,
                       GY_RANKS_MAX);
    }
    introduction *all = gy_alloc_zero("coll.bootstrap", (size_t)bootstrap->size, sizeof(*all));
    if (all == NULL) {
        return GY_NOMEM;
    }
    gy_status status = join_bootstrap(bootstrap, all, &segment, comm);
    if (segment >= 0) {
        close(segment);
    }
    gy_free(all);
    return status;
}
