/* Contexts of communicators: made where all ranks share a host, stored as an attribute of the
 * communicator, freed with it. */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DOORS_LOCK_RANK = 40, DOOR_LOCK_RANK = 30 };

static gy_mutex doors_lock;
static gy_mpi_context *doors GY_GUARDED(doors_lock);
static int keyval = MPI_KEYVAL_INVALID; /* INVALID: all calls go to the library */
static bool has_warned;
static _Atomic uint64_t taken, passed;
/* Increases when a communicator gets or loses its attribute, which invalidates the threads'
 * caches. */
static _Atomic uint64_t generation;
static _Atomic int freed; /* contexts whose communicators were freed */

/*
 * Attribute values of a communicator without a context. Making a context costs as much as a
 * thousand small collectives, so the library executes the first few calls of each
 * communicator; all ranks count alike.
 */
enum { CALLS_BEFORE = 4 };
static char no_door; /* its address means: checked, and left to the library */
/* called[n]: n blocking calls; posted[n]: the same, and a nonblocking one, which the library
 * executes too. */
static char called[CALLS_BEFORE + 1], posted[CALLS_BEFORE + 1];

static bool is_posted(const void *value)
{
    const char *at = value;
    return at >= posted && at <= posted + CALLS_BEFORE;
}

static bool is_door(const void *value)
{
    const char *at = value;
    bool is_called = at >= called && at <= called + CALLS_BEFORE;
    return at != NULL && at != &no_door && !is_called && !is_posted(value);
}

void gy_mpi_count(bool is_taken)
{
    _Atomic uint64_t *counter = is_taken ? &taken : &passed;
    /* Not an atomic addition, which costs a tenth of a small collective; the counter may lose
     * some calls. */
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + 1, memory_order_relaxed);
}

gy_mpi_context *gy_mpi_contexts_hold(void)
{
    if (keyval == MPI_KEYVAL_INVALID || !gy_mutex_try(&doors_lock)) {
        return NULL;
    }
    gy_mpi_context *first = doors;
    if (first == NULL) {
        gy_mutex_unlock(&doors_lock);
    }
    return first;
}

void gy_mpi_contexts_release(void)
{
    gy_mutex_unlock(&doors_lock);
}

static void free_door(gy_mpi_context *door)
{
    gy_mpi_pulls_forget(door);
    gy_comm_free(door->coll);
    gy_mutex_fini(&door->lock);
    gy_free(door->seen);
    gy_free(door);
}

void gy_mpi_contexts_sweep(void)
{
    if (keyval == MPI_KEYVAL_INVALID ||
        atomic_load_explicit(&freed, memory_order_acquire) == 0) {
        return;
    }
    gy_mutex_lock(&doors_lock);
    for (gy_mpi_context **at = &doors; *at != NULL;) {
        gy_mpi_context *door = *at;
        /* acquire: pairs with the release in forget_comm */
        bool is_idle = atomic_load_explicit(&door->is_freed, memory_order_acquire);
        if (is_idle) {
            gy_mutex_lock(&door->lock);
            is_idle = door->first == NULL;
            gy_mutex_unlock(&door->lock);
        }
        if (is_idle) {
            *at = door->next;
            atomic_fetch_sub_explicit(&freed, 1, memory_order_relaxed);
            free_door(door);
        } else {
            at = &door->next;
        }
    }
    gy_mutex_unlock(&doors_lock);
}

/* Called when the communicator loses its attribute, possibly with a lock of the library held,
 * so only mark the context. */
static int forget_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)extra;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    if (is_door(value)) {
        gy_mpi_context *door = value;
        atomic_store_explicit(&door->is_freed, true, memory_order_release);
        atomic_fetch_add_explicit(&freed, 1, memory_order_release);
    }
    return MPI_SUCCESS;
}

/* ---- Making ---- */

/* What rank 0 sends to the others. */
typedef struct invitation {
    uint64_t host;
    int process, segment; /* -1: none */
} invitation;

/* As large as memory: untouched pages cost nothing. */
static size_t pool_bytes_for(int ranks)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t most = (size_t)1 << 36;
    return GY_MIN(memory, most / (size_t)ranks) / GY_CACHE_LINE * GY_CACHE_LINE;
}

static invitation invite(int ranks)
{
    invitation made = {.host = gy_mpi_host_identity(), .process = (int)getpid(), .segment = -1};
    gy_transport_segment_options options = {.ranks = ranks,
                                            .pool_bytes = pool_bytes_for(ranks),
                                            .host_cores = gy_mpi_is_crowded() ? 1 : ranks};
    if (gy_transport_segment_make(&options, &made.segment) != GY_OK) {
        made.segment = -1;
    }
    return made;
}

/* ---- What a rank does instead ---- */

enum { WHY_SHIFT = 4 }; /* above the bits of the kind */

static const char *skip_text(uint8_t why)
{
    static const char *const names[] = {[GY_PULL_ALLREDUCE] = "allreduce",
                                        [GY_PULL_REDUCE] = "reduce",
                                        [GY_PULL_REDUCE_SCATTER] = "reduce-scatter",
                                        [GY_PULL_ALLGATHER] = "allgather",
                                        [GY_PULL_BROADCAST] = "broadcast",
                                        [GY_PULL_ALLTOALL] = "all-to-all",
                                        [GY_PULL_BARRIER] = "barrier"};
    static const char *const reasons[] = {
        [GY_WHY_LEFT] = "called an empty %s or one that the MPI library has",
        [GY_WHY_WRONG] = "gave wrong arguments to %s",
        [GY_WHY_POSTED] = "called another form of %s, or a nonblocking one"};
    static _Thread_local char text[128];
    size_t reason = why >> WHY_SHIFT, kind = why % (1U << WHY_SHIFT);
    if (reason >= GY_COUNT(reasons) || kind >= GY_COUNT(names)) {
        return NULL;
    }
    const char *format = reasons[reason], *at = strstr(format, "%s");
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - format), format, names[kind], at + 2);
    return text;
}

void gy_mpi_context_skip(gy_mpi_context *door, gy_mpi_why why, gy_pull_kind kind)
{
    gy_comm_skip(door->coll, (uint8_t)((unsigned)why << WHY_SHIFT | (unsigned)kind));
}

void gy_mpi_context_leave(gy_mpi_context *door, gy_pull_kind kind)
{
    gy_mpi_count(false);
    if (door != NULL) {
        gy_mpi_context_skip(door, GY_WHY_LEFT, kind);
    }
}

int gy_mpi_context_refuse(gy_mpi_context *door, gy_pull_kind kind, int code)
{
    gy_mpi_count(false);
    gy_mpi_context_skip(door, GY_WHY_WRONG, kind);
    (void)PMPI_Comm_call_errhandler(door->comm, code);
    return code;
}

/* ---- Making a context: the ranks synchronise ---- */

static gy_status open_coll(gy_mpi_context *door, const invitation *where)
{
    GY_TRY(gy_transport_shm_open_process(where->process, where->segment, door->rank,
                                         gy_env_real(), &door->transport));
    gy_mpi_drive_with(door->transport);
    /* A program may compute between two calls for any length of time. */
    gy_comm_options options = {.timeout_s = gy_setting_get("GYRE_TIMEOUT") != NULL ? 0 : 1e9,
                               .outlives_mismatch = true,
                               .skip_text = skip_text};
    return gy_comm_new(door->transport, &options, &door->coll);
}

/* NULL: this rank cannot; the error text says why. */
static gy_mpi_context *make_door(MPI_Comm comm, int rank, int size, const invitation *where)
{
    gy_mpi_context *door = gy_alloc_zero("mpi.door", 1, sizeof(*door));
    uint64_t *seen = gy_alloc_zero("mpi.door", (size_t)size, sizeof(*seen));
    if (door == NULL || seen == NULL) {
        gy_free(seen);
        gy_free(door);
        return NULL;
    }
    door->comm = comm;
    door->rank = rank;
    door->size = size;
    door->seen = seen;
    if (open_coll(door, where) != GY_OK) {
        gy_free(seen);
        gy_free(door);
        return NULL;
    }
    door->shared = gy_transport_shared(door->transport);
    gy_mutex_init(&door->lock, DOOR_LOCK_RANK);
    return door;
}

static void warn_once(bool is_same_host)
{
    if (is_same_host && !has_warned) {
        has_warned = true;
        gy_warn("collectives stay with the MPI library: %s", gy_error_text());
    }
}

/* All ranks of `comm` call it. NULL on all of them when one cannot. */
static gy_mpi_context *meet(MPI_Comm comm, int rank, int size)
{
    invitation where = {.segment = -1};
    if (rank == 0) {
        where = invite(size);
    }
    if (gy_pmpi.Bcast(&where, (int)sizeof(where), MPI_BYTE, 0, comm) != MPI_SUCCESS) {
        return NULL;
    }
    bool is_same_host = where.host == gy_mpi_host_identity();
    gy_mpi_context *door = NULL;
    if (is_same_host && where.segment >= 0) {
        door = make_door(comm, rank, size, &where);
    }
    int is_made = door != NULL, are_all_made = 0;
    int code = gy_pmpi.Allreduce(&is_made, &are_all_made, 1, MPI_INT, MPI_MIN, comm);
    if (rank == 0 && where.segment >= 0) {
        close(where.segment);
    }
    if (!is_made) {
        warn_once(is_same_host);
    }
    if ((code != MPI_SUCCESS || !are_all_made) && door != NULL) {
        free_door(door);
        door = NULL;
    }
    return door;
}

static void attach(MPI_Comm comm)
{
    int is_inter = 0, size = 0, rank = 0;
    gy_mpi_contexts_sweep();
    gy_mpi_context *door = NULL;
    if (PMPI_Comm_test_inter(comm, &is_inter) == MPI_SUCCESS && !is_inter &&
        PMPI_Comm_size(comm, &size) == MPI_SUCCESS && size > 1 && size <= GY_RANKS_MAX &&
        PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && gy_mpi_roster_covers(comm)) {
        door = meet(comm, rank, size);
    }
    (void)PMPI_Comm_set_attr(comm, keyval, door != NULL ? (void *)door : (void *)&no_door);
    if (door != NULL) {
        gy_mutex_lock(&doors_lock);
        door->next = doors;
        doors = door;
        gy_mutex_unlock(&doors_lock);
    }
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

/* ---- Finding ---- */

typedef struct memory {
    MPI_Comm comm;
    uint64_t generation; /* + 1; 0: the cache is empty */
    gy_mpi_context *door;
} memory;

/* Count a collective of a communicator without a context, alike on all ranks. Returns the new
 * attribute value. */
static void *count_call(MPI_Comm comm, const char *before, bool is_blocking)
{
    bool has_posted = is_posted(before) || !is_blocking;
    ptrdiff_t calls = before == NULL      ? 0
                      : is_posted(before) ? before - posted
                                          : before - called;
    calls += is_blocking;
    if (calls <= CALLS_BEFORE) {
        char *now = has_posted ? &posted[calls] : &called[calls];
        if (now != before) {
            (void)PMPI_Comm_set_attr(comm, keyval, now);
        }
        return now;
    }
    void *value = NULL;
    int is_set = 0;
    attach(comm);
    (void)PMPI_Comm_get_attr(comm, keyval, (void *)&value, &is_set);
    if (is_set && is_door(value)) {
        ((gy_mpi_context *)value)->has_left = has_posted;
    }
    return is_set ? value : NULL;
}

static gy_mpi_context *look_up(MPI_Comm comm, bool may_attach)
{
    void *value = NULL;
    int is_set = 0;
    if (PMPI_Comm_get_attr(comm, keyval, (void *)&value, &is_set) != MPI_SUCCESS) {
        return NULL;
    }
    value = is_set ? value : NULL;
    if (value != &no_door && !is_door(value)) {
        value = count_call(comm, value, may_attach);
    }
    return is_door(value) ? value : NULL;
}

gy_mpi_context *gy_mpi_context_of(MPI_Comm comm, bool may_attach, const void *caller)
{
    static _Thread_local memory last;
    uint64_t now = atomic_load_explicit(&generation, memory_order_acquire) + 1;
    if (keyval == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL ||
        gy_mpi_pmpi_is_inside(caller)) {
        return NULL;
    }
    if (last.comm == comm && last.generation == now && last.door != NULL) {
        return last.door;
    }
    gy_mpi_context *door = look_up(comm, may_attach);
    now = atomic_load_explicit(&generation, memory_order_acquire) + 1;
    last = (memory){.comm = comm, .generation = now, .door = door};
    return door;
}

bool gy_mpi_context_has_left(MPI_Comm comm)
{
    void *value = NULL;
    int is_set = 0;
    if (keyval == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL ||
        PMPI_Comm_get_attr(comm, keyval, (void *)&value, &is_set) != MPI_SUCCESS || !is_set) {
        return false;
    }
    return is_posted(value) || (is_door(value) && ((const gy_mpi_context *)value)->has_left);
}

int gy_mpi_context_fail(const gy_mpi_context *door, gy_status status)
{
    int code = status == GY_NOMEM      ? MPI_ERR_NO_MEM
               : status == GY_MISMATCH ? MPI_ERR_TRUNCATE
                                       : MPI_ERR_OTHER;
    bool is_freed = atomic_load_explicit(&door->is_freed, memory_order_acquire);
    gy_error_log("%s", gy_error_text());
    (void)PMPI_Comm_call_errhandler(is_freed ? MPI_COMM_SELF : door->comm, code);
    return code;
}

/* ---- The whole process ---- */

/* A packed element of a type with gaps must be exactly its bytes: only then may one rank use
 * such a type where another uses contiguous data. */
static bool packs_plainly(void)
{
    static const int values[] = {1, 2, 3, 4, 5, 6};
    int packed[3] = {0, 0, 0}, position = 0;
    MPI_Datatype gaps = MPI_DATATYPE_NULL;
    bool is_plain = PMPI_Type_vector(3, 1, 2, MPI_INT, &gaps) == MPI_SUCCESS &&
                    PMPI_Type_commit(&gaps) == MPI_SUCCESS &&
                    PMPI_Pack(values, 1, gaps, packed, (int)sizeof(packed), &position,
                              MPI_COMM_SELF) == MPI_SUCCESS;
    (void)PMPI_Type_free(&gaps);
    return is_plain && position == (int)sizeof(packed) && packed[0] == 1 && packed[1] == 3 &&
           packed[2] == 5;
}

void gy_mpi_contexts_open(void)
{
    int rank = 0, key = MPI_KEYVAL_INVALID;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gy_log_set_rank(rank);
    gy_mutex_init(&doors_lock, DOORS_LOCK_RANK);
    gy_mpi_roster_read();
    gy_mpi_types_init();
    if (!packs_plainly()) {
        gy_warn("collectives stay with the MPI library: it packs data in a form of its own");
        return;
    }
    gy_mpi_drive_open(gy_mpi_roster_covers(MPI_COMM_WORLD));
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &key, NULL) ==
        MPI_SUCCESS) {
        keyval = key;
        attach(MPI_COMM_WORLD);
    }
}

void gy_mpi_contexts_close(void)
{
    if (keyval == MPI_KEYVAL_INVALID) {
        return;
    }
    gy_info("%llu collectives taken over, %llu left to the MPI library",
            (unsigned long long)atomic_load_explicit(&taken, memory_order_relaxed),
            (unsigned long long)atomic_load_explicit(&passed, memory_order_relaxed));
    (void)PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    gy_mpi_contexts_sweep();
    (void)PMPI_Comm_free_keyval(&keyval);
    keyval = MPI_KEYVAL_INVALID;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    gy_mpi_drive_close();
    gy_mpi_roster_leave();
}
