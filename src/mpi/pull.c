/*
 * Pulls: collectives that need nothing from a rank except that it has started them.
 *
 * For each pull a rank publishes a *card*: a block of its pool with all its input. A rank's
 * cards are a list, so it may be any number of collectives ahead. A pull has ended on a rank
 * once all ranks' cards exist and the rank has copied its share from them; so a rank may be
 * anywhere else, for instance in a blocking receive, while its peers finish. Pulls end in the
 * order in which they were started. A card is free when all peers have read the next one.
 *
 * Of a rank's words, number 16 is the position of its first card, and number 17 the number up
 * to which it has read the cards of all others.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <sched.h>
#include <string.h>

enum { FIRST_WORD = 16, SEEN_WORD = 17 };
enum { TILE_BYTES = 16 * 1024, ROUNDS_A_DRIVE = 8, ROUNDS_A_CHECK = 4096 };
enum { PATIENT_ROUNDS = 1024 }; /* after so many rounds the core is yielded */
enum { CHECK_EVERY_NS = 20000000 };

typedef struct card {
    alignas(
        GY_CACHE_LINE) _Atomic uint64_t next; /* offset + 1 in the rank's pool; 0: none yet */
    uint64_t number, bytes;
    int32_t kind, root;
    uint32_t combine; /* 0: none */
} card;

static _Atomic int flying; /* requests that have not ended */

bool gy_mpi_pulls_are_flying(void)
{
    return atomic_load_explicit(&flying, memory_order_acquire) > 0;
}

static _Atomic uint64_t *word_of(const gy_mpi_context *door, int rank, int index)
{
    return &gy_shared_words(door->shared, rank)[index].value;
}

/* `place` is an offset + 1. */
static card *card_at(const gy_mpi_context *door, int rank, uint64_t place)
{
    GY_ASSERT(place > 0 && place <= door->shared->pool_bytes);
    return (card *)(void *)(gy_shared_pool(door->shared, rank) + place - 1);
}

static const uint8_t *data_of(const gy_pull *pull, int rank)
{
    return (const uint8_t *)(card_at(pull->door, rank, pull->door->seen[rank]) + 1);
}

/* ---- Publishing ---- */

/* Free own cards that no peer needs any more; all of them when the context is freed. */
static void reclaim(gy_mpi_context *door, uint64_t below)
{
    while (door->own_first != 0) {
        card *oldest = card_at(door, door->rank, door->own_first);
        if (oldest->number >= below) {
            break;
        }
        door->own_first = atomic_load_explicit(&oldest->next, memory_order_relaxed);
        gy_pool_give(gy_comm_pool(door->coll), oldest);
    }
}

static uint64_t seen_by_all(const gy_mpi_context *door)
{
    uint64_t least = UINT64_MAX;
    for (int rank = 0; rank < door->size; rank++) {
        /* acquire: pairs with the release in finish, after which that rank reads no more */
        uint64_t seen =
            atomic_load_explicit(word_of(door, rank, SEEN_WORD), memory_order_acquire);
        least = GY_MIN(least, seen);
    }
    return least;
}

/* A reduction's type and operation as a number that ranks compare. */
static uint32_t combine_of(const gy_pull *pull)
{
    const gy_mpi_fold *fold = &pull->fold;
    return fold->combine == NULL ? 0
                                 : 1U + ((uint32_t)fold->dtype << 16 |
                                         (uint32_t)fold->reduction << 8 | fold->how);
}

gy_status gy_pull_start(gy_pull *pull)
{
    gy_mpi_context *door = pull->door;
    uint8_t *pool = gy_shared_pool(door->shared, door->rank);
    gy_mutex_lock(&door->lock);
    reclaim(door, seen_by_all(door));
    gy_mutex_unlock(&door->lock);
    card *made = gy_pool_take(gy_comm_pool(door->coll), sizeof(*made) + pull->give.bytes);
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (pull->give.bytes > 0 && gy_mpi_pack(&pull->give, made + 1) != MPI_SUCCESS) {
        gy_pool_give(gy_comm_pool(door->coll), made);
        return gy_fail(GY_ARG, "the MPI library cannot pack what is sent");
    }
    gy_mutex_lock(&door->lock);
    pull->number = gy_comm_next(door->coll) + 1;
    made->number = pull->number;
    made->bytes = pull->give.bytes;
    made->kind = (int32_t)pull->kind;
    made->root = pull->root;
    made->combine = combine_of(pull);
    atomic_store_explicit(&made->next, 0, memory_order_relaxed);
    uint64_t place = (uint64_t)((uint8_t *)made - pool) + 1;
    _Atomic uint64_t *link = door->own_last != 0
                                 ? &card_at(door, door->rank, door->own_last)->next
                                 : word_of(door, door->rank, FIRST_WORD);
    /* release: publishes the card and its data; pairs with the acquire in find_card */
    atomic_store_explicit(link, place, memory_order_release);
    door->own_last = place;
    door->own_first = door->own_first != 0 ? door->own_first : place;
    pull->present = 0;
    pull->code = MPI_SUCCESS;
    pull->next = NULL;
    if (door->last != NULL) {
        door->last->next = pull;
    } else {
        door->first = pull;
    }
    door->last = pull;
    gy_mutex_unlock(&door->lock);
    gy_mpi_context_skip(door, GY_WHY_POSTED, pull->kind);
    return GY_OK;
}

/* ---- Taking ---- */

typedef enum presence { ABSENT, PRESENT, ASTRAY } presence;

/* Advance along the cards of `rank` to that of the pull. ASTRAY: it has none for this
 * number. */
static presence find_card(gy_mpi_context *door, const gy_pull *pull, int rank)
{
    /* Must be read first: a rank beyond the number has published its card before, or never
     * will. */
    bool is_past = gy_comm_ended_by(door->coll, rank) >= pull->number;
    for (;;) {
        uint64_t at = door->seen[rank];
        const card *last = at != 0 ? card_at(door, rank, at) : NULL;
        if (last != NULL && last->number >= pull->number) {
            return last->number == pull->number ? PRESENT : ASTRAY;
        }
        const _Atomic uint64_t *link =
            last != NULL ? &last->next : word_of(door, rank, FIRST_WORD);
        /* acquire: pairs with the release in gy_pull_start */
        uint64_t next = atomic_load_explicit(link, memory_order_acquire);
        if (next == 0) {
            return is_past ? ASTRAY : ABSENT;
        }
        door->seen[rank] = next;
    }
}

static int fail_astray(const gy_pull *pull, int rank)
{
    (void)gy_comm_skipped(pull->door->coll, rank, pull->number - 1, "another form of it");
    gy_error_log("%s", gy_error_text());
    return MPI_ERR_TRUNCATE;
}

static int check_card(const gy_pull *pull, int rank)
{
    const card *theirs = card_at(pull->door, rank, pull->door->seen[rank]);
    size_t expected = pull->give.bytes;
    if (pull->kind == GY_PULL_BROADCAST) {
        expected = rank == pull->root ? pull->take.bytes : 0;
    } else if (pull->kind == GY_PULL_ALLGATHER) {
        expected = gy_mpi_has(&pull->counts)
                       ? pull->take.element * (size_t)gy_mpi_at(&pull->counts, rank)
                       : pull->take.bytes;
    }
    GY_ASSERT(theirs->number == pull->number);
    if (theirs->kind == (int32_t)pull->kind && theirs->root == pull->root &&
        theirs->bytes == expected && theirs->combine == combine_of(pull)) {
        return MPI_SUCCESS;
    }
    (void)gy_fail(GY_MISMATCH,
                  "collective %llu: rank %d gives %llu bytes (operation %d, root %d), expected "
                  "%zu (operation %d, root %d)",
                  (unsigned long long)pull->number, rank, (unsigned long long)theirs->bytes,
                  theirs->kind, theirs->root, expected, (int)pull->kind, pull->root);
    gy_error_log("%s", gy_error_text());
    return MPI_ERR_TRUNCATE;
}

/* out = left fold over the ranks, one tile at a time, which stays in the L1 cache. */
static void fold_ranks(const gy_pull *pull, size_t bytes)
{
    const gy_mpi_fold *fold = &pull->fold;
    uint8_t *out = pull->take.data;
    for (size_t at = 0; at < bytes; at += TILE_BYTES) {
        size_t items = GY_MIN(bytes - at, (size_t)TILE_BYTES) / fold->item_bytes;
        const uint8_t *sum = data_of(pull, 0) + pull->offset + at;
        for (int rank = 1; rank < pull->door->size; rank++) {
            fold->combine(out + at, sum, data_of(pull, rank) + pull->offset + at, items);
            sum = out + at;
        }
    }
}

static int take_part(const gy_pull *pull, int rank)
{
    if (pull->kind == GY_PULL_ALLTOALL) {
        return gy_mpi_unpack(&pull->take, (MPI_Aint)(rank * pull->take.count), pull->take.count,
                             data_of(pull, rank) + (size_t)pull->door->rank * pull->take.bytes);
    }
    if (rank == pull->door->rank && pull->is_in_place) {
        return MPI_SUCCESS;
    }
    bool has_counts = gy_mpi_has(&pull->counts);
    int64_t count = has_counts ? gy_mpi_at(&pull->counts, rank) : pull->take.count;
    MPI_Aint first = has_counts ? (MPI_Aint)gy_mpi_at(&pull->displacements, rank)
                                : (MPI_Aint)(rank * pull->take.count);
    return gy_mpi_unpack(&pull->take, first, count, data_of(pull, rank));
}

static int take_all(const gy_pull *pull)
{
    int code = MPI_SUCCESS;
    switch (pull->kind) {
    case GY_PULL_ALLREDUCE:
    case GY_PULL_REDUCE_SCATTER:
        fold_ranks(pull, pull->take.bytes);
        break;
    case GY_PULL_REDUCE:
        if (pull->door->rank == pull->root) {
            fold_ranks(pull, pull->take.bytes);
        }
        break;
    case GY_PULL_BROADCAST:
        if (pull->door->rank != pull->root) {
            code = gy_mpi_unpack(&pull->take, 0, pull->take.count, data_of(pull, pull->root));
        }
        break;
    case GY_PULL_ALLGATHER:
    case GY_PULL_ALLTOALL:
        for (int rank = 0; rank < pull->door->size && code == MPI_SUCCESS; rank++) {
            code = take_part(pull, rank);
        }
        break;
    case GY_PULL_BARRIER:
    default:
        break;
    }
    return code;
}

/* Cards below it are not read any more; for a rank that went astray this is its last card. */
static uint64_t seen_here(const gy_mpi_context *door, const gy_pull *pull)
{
    uint64_t least = pull->number;
    for (int rank = 0; rank < door->size; rank++) {
        uint64_t at = door->seen[rank];
        least = GY_MIN(least, at != 0 ? card_at(door, rank, at)->number : 0);
    }
    return least;
}

/* False: not all ranks have started it. */
static bool finish(gy_mpi_context *door, gy_pull *pull)
{
    for (; pull->present < door->size; pull->present++) {
        presence found = find_card(door, pull, pull->present);
        if (found == ABSENT) {
            return false;
        }
        if (found == ASTRAY) { /* there is no need to wait for the others */
            pull->code = fail_astray(pull, pull->present);
            break;
        }
    }
    for (int rank = 0; rank < door->size && pull->code == MPI_SUCCESS; rank++) {
        pull->code = check_card(pull, rank);
    }
    if (pull->code == MPI_SUCCESS) {
        pull->code = take_all(pull);
    }
    /* release: our reads of earlier cards have ended; pairs with the acquire in seen_by_all */
    atomic_store_explicit(word_of(door, door->rank, SEEN_WORD), seen_here(door, pull),
                          memory_order_release);
    return true;
}

/* Remove the pulls that have ended, in order; `code` not MPI_SUCCESS: end all others with
 * it. */
static gy_pull *end_pulls(gy_mpi_context *door, int code) GY_REQUIRES(door->lock)
{
    gy_pull *ended = NULL, **last = &ended;
    while (door->first != NULL) {
        gy_pull *pull = door->first;
        if (!finish(door, pull)) {
            if (code == MPI_SUCCESS) {
                break;
            }
            pull->code = code;
        }
        door->first = pull->next;
        door->last = door->first != NULL ? door->last : NULL;
        pull->next = NULL;
        pull->is_over = true;
        if (pull->request != MPI_REQUEST_NULL) { /* otherwise its owner may continue at once */
            *last = pull;
            last = &pull->next;
        }
    }
    return ended;
}

/* ---- Requests ---- */

static void free_pull(gy_pull *pull)
{
    gy_free(pull->kept);
    gy_free(pull);
}

static bool is_settled(const gy_pull *pull)
{
    /* acquire: pairs with the release in complete, by a thread with which this one shares no
     * lock */
    return atomic_load_explicit(&pull->is_settled, memory_order_acquire);
}

static int query_request(void *state, MPI_Status *status)
{
    const gy_pull *pull = state;
    GY_ASSERT(is_settled(pull));
    (void)PMPI_Status_set_elements(status, MPI_BYTE, 0);
    (void)PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return pull->code;
}

static int free_request(void *state)
{
    (void)is_settled(state);
    free_pull(state);
    return MPI_SUCCESS;
}

static int cancel_request(void *state, int is_complete)
{
    (void)state;
    (void)is_complete;
    return MPI_SUCCESS; /* a collective cannot be cancelled */
}

/* Call without locks: the library may call back. */
static void complete(gy_pull *ended)
{
    while (ended != NULL) {
        gy_pull *pull = ended;
        MPI_Request request = pull->request;
        ended = pull->next;
        if (pull->owns_type) {
            (void)PMPI_Type_free(&pull->take.type);
        }
        atomic_fetch_sub_explicit(&flying, 1, memory_order_release);
        /* release: publishes the whole pull; pairs with the acquire in is_settled */
        atomic_store_explicit(&pull->is_settled, true, memory_order_release);
        (void)PMPI_Grequest_complete(request);
    }
}

/* End what has completed on all contexts; `is_check`: also what a dead peer will never
 * complete. */
static void walk_doors(bool is_check)
{
    gy_pull *ended = NULL, **last = &ended;
    gy_mpi_context *first = gy_mpi_contexts_hold();
    for (gy_mpi_context *door = first; door != NULL; door = door->next) {
        if (!gy_mutex_try(&door->lock)) {
            continue;
        }
        if (door->first != NULL) {
            int code = MPI_SUCCESS;
            if (is_check && gy_transport_check(door->transport, -1) < 0) {
                gy_error_log("%s", gy_error_text());
                code = MPI_ERR_OTHER;
            }
            *last = end_pulls(door, code);
            while (*last != NULL) {
                last = &(*last)->next;
            }
        }
        gy_mutex_unlock(&door->lock);
    }
    if (first != NULL) {
        gy_mpi_contexts_release();
    }
    complete(ended);
}

void gy_mpi_pulls_progress(void)
{
    walk_doors(false);
}

void gy_mpi_pulls_check(void)
{
    walk_doors(true);
}

/* The user may free the type before the collective has ended, and reuse the counts' memory. */
static gy_status keep_arguments(gy_pull *pull)
{
    size_t ranks = (size_t)pull->door->size;
    if (gy_mpi_has(&pull->counts)) {
        pull->kept = gy_alloc_zero("mpi.pull", 2 * ranks, sizeof(*pull->kept));
        if (pull->kept == NULL) {
            return GY_NOMEM;
        }
        for (size_t rank = 0; rank < ranks; rank++) {
            pull->kept[rank] = gy_mpi_at(&pull->counts, (int)rank);
            pull->kept[ranks + rank] = gy_mpi_at(&pull->displacements, (int)rank);
        }
        pull->counts = (gy_mpi_numbers){.wide = pull->kept};
        pull->displacements = (gy_mpi_numbers){.wide = pull->kept + ranks};
    }
    if (!pull->take.is_plain && pull->take.bytes > 0) {
        pull->owns_type = PMPI_Type_dup(pull->take.type, &pull->take.type) == MPI_SUCCESS;
    }
    return GY_OK;
}

int gy_pull_post(const gy_pull *pull, MPI_Request *request)
{
    gy_mpi_context *door = pull->door;
    gy_pull *kept = gy_alloc("mpi.pull", sizeof(*kept));
    if (kept == NULL) {
        return gy_mpi_context_refuse(door, pull->kind, MPI_ERR_NO_MEM);
    }
    *kept = *pull;
    gy_status status = keep_arguments(kept);
    if (status != GY_OK) {
        gy_free(kept);
        return gy_mpi_context_refuse(door, pull->kind, MPI_ERR_NO_MEM);
    }
    int code =
        PMPI_Grequest_start(query_request, free_request, cancel_request, kept, &kept->request);
    if (code != MPI_SUCCESS) {
        free_pull(kept);
        return gy_mpi_context_refuse(door, pull->kind, code);
    }
    MPI_Request made = kept->request;
    atomic_fetch_add_explicit(&flying, 1, memory_order_acq_rel);
    status = gy_pull_start(kept);
    if (status != GY_OK) {
        complete(kept);
        (void)gy_pmpi.Request_free(&made);
        gy_mpi_context_skip(door, GY_WHY_WRONG, pull->kind);
        return gy_mpi_context_fail(door, status);
    }
    *request = made;
    gy_mpi_pulls_progress();
    return MPI_SUCCESS;
}

/* ---- Blocking ---- */

/* True when it has ended. Earlier requests are completed on the way. */
static bool step(gy_mpi_context *door, const gy_pull *pull, int code)
{
    gy_mutex_lock(&door->lock);
    gy_pull *ended = end_pulls(door, code);
    bool is_over = pull->is_over;
    gy_mutex_unlock(&door->lock);
    complete(ended);
    return is_over;
}

int gy_pull_run(gy_pull *pull)
{
    gy_mpi_context *door = pull->door;
    int64_t check_ns = 0;
    gy_status status = gy_pull_start(pull);
    if (status != GY_OK) {
        gy_mpi_context_skip(door, GY_WHY_WRONG, pull->kind);
        return gy_mpi_context_fail(door, status);
    }
    for (unsigned round = 1; !step(door, pull, MPI_SUCCESS); round++) {
        if (gy_mpi_is_crowded() || round > PATIENT_ROUNDS) {
            sched_yield();
        }
        if (round % ROUNDS_A_DRIVE == 0 || gy_mpi_is_crowded()) {
            gy_mpi_drive();
        }
        if (round % ROUNDS_A_CHECK != 0 || gy_now_ns(gy_env_real()) < check_ns) {
            continue;
        }
        check_ns = gy_now_ns(gy_env_real()) + CHECK_EVERY_NS;
        if (gy_transport_check(door->transport, -1) < 0 && step(door, pull, MPI_ERR_OTHER)) {
            return gy_mpi_context_fail(door, GY_PEER);
        }
    }
    if (pull->code != MPI_SUCCESS) {
        (void)PMPI_Comm_call_errhandler(door->comm, pull->code);
    }
    return pull->code;
}

void gy_mpi_pulls_forget(gy_mpi_context *door)
{
    while (door->first != NULL) {
        gy_pull *pull = door->first;
        door->first = pull->next;
        if (pull->request != MPI_REQUEST_NULL) {
            free_pull(pull);
        }
    }
    door->last = NULL;
    reclaim(door, UINT64_MAX);
}
