/**
 * Room mpi: collectives of unmodified MPI programs over Gyre. Reading order: mpi_priv.h,
 * pmpi_priv.h, types.c, large.c, roster.c, context.c, drive.c, pull.c, blocking.c, entries.c,
 * requests.c, creators.c.
 *
 * The sources are compiled once for each MPI library (its mpi.h, its handles) and loaded in
 * front of it. A *door* is what a communicator gets on top: a segment of shared memory, a Gyre
 * communicator over it, and its *pulls*: collectives whose ranks publish all that they give
 * when they start, so that nobody depends on what a rank does later. Nonblocking collectives
 * are pulls, since their rank may be inside any MPI call afterwards.
 *
 * Whether a call is taken over depends on what MPI demands to be alike on all ranks only: the
 * operation, the root, types and counts of reductions, bytes (never the form of a type) of all
 * that is moved.
 */
#ifndef GY_MPI_MPI_PRIV_H
#define GY_MPI_MPI_PRIV_H

#include "coll/coll.h"
#include "coll/kernels.h"
#include "transport/library.h"

#include "mpi/pmpi_priv.h"

/* ---- types.c ---- */

/** How elements are combined. */
typedef struct gy_mpi_fold {
    gy_coll_combine combine;
    size_t item_bytes; /* of what `combine` counts */
    size_t items;      /* of those in an MPI element: 2 for a sum of complex numbers */
    gy_dtype dtype;
    gy_reduction reduction;
    uint8_t how;   /* of truth values: and, or, xor (1, 2, 3) */
    bool is_plain; /* Gyre's communicator knows dtype and reduction too */
} gy_mpi_fold;

void gy_mpi_types_init(void);
/** False: this pair of a type and an operation stays with the library. */
bool gy_mpi_fold_of(MPI_Datatype type, MPI_Op op, gy_mpi_fold *fold);
/** Bytes that one element of `type` moves. An MPI code. */
int gy_mpi_type_bytes(MPI_Datatype type, size_t *bytes);

/** What one rank gives or gets: `count` elements at `data`, the k-th `extent` bytes further. */
typedef struct gy_mpi_span {
    void *data; /* sends are only read */
    int64_t count;
    MPI_Datatype type;
    size_t element;  /* bytes that one moves */
    size_t bytes;    /* moved by all of them */
    MPI_Aint extent; /* of one */
    bool is_plain;   /* they lie side by side in the order in which they are moved */
} gy_mpi_span;

/** MPI_SUCCESS, MPI_ERR_COUNT, MPI_ERR_TYPE. */
int gy_mpi_span_of(const void *data, int64_t count, MPI_Datatype type, gy_mpi_span *span);
/** What is moved, one after the other, into `to`. */
int gy_mpi_pack(const gy_mpi_span *span, void *to);
/** From there to `count` elements, the first of them `first` elements into the span. */
int gy_mpi_unpack(const gy_mpi_span *span, MPI_Aint first, int64_t count, const void *from);

/* ---- large.c ---- */

/** Where packed bytes are, or go to; moves on with them. */
typedef struct gy_mpi_packed {
    uint8_t *at;
    size_t piece_bytes; /* that the library packs at once */
    bool is_packing;
} gy_mpi_packed;

/** Pack or unpack one element, of any size, of the span's type. An MPI code. */
int gy_mpi_move_large(const gy_mpi_span *span, void *element, gy_mpi_packed *packed);

/** Numbers of a call, one a rank, in the width that the caller's name for it has. */
typedef struct gy_mpi_numbers {
    const int *narrow;      /* (size) */
    const MPI_Count *wide;  /* (size) counts of the large forms */
    const MPI_Aint *places; /* (size) displacements of the large forms */
} gy_mpi_numbers;

static inline bool gy_mpi_has(const gy_mpi_numbers *numbers)
{
    return numbers->narrow != NULL || numbers->wide != NULL || numbers->places != NULL;
}

static inline int64_t gy_mpi_at(const gy_mpi_numbers *numbers, int rank)
{
    return numbers->narrow != NULL ? numbers->narrow[rank]
           : numbers->wide != NULL ? (int64_t)numbers->wide[rank]
                                   : (int64_t)numbers->places[rank];
}

/* ---- pull.c ---- */

typedef enum gy_pull_kind {
    GY_PULL_ALLREDUCE,
    GY_PULL_REDUCE,
    GY_PULL_REDUCE_SCATTER,
    GY_PULL_ALLGATHER,
    GY_PULL_BROADCAST,
    GY_PULL_ALLTOALL,
    GY_PULL_BARRIER,
} gy_pull_kind;

typedef struct gy_mpi_context gy_mpi_context;

/** A collective in the pull form. */
typedef struct gy_pull {
    struct gy_pull *next;
    gy_mpi_context *door;
    gy_pull_kind kind;
    int root;
    uint64_t number;
    gy_mpi_fold fold;
    gy_mpi_span give; /* what this rank publishes when it starts */
    gy_mpi_span take; /* where what comes from one rank goes, or the result of a reduction */
    bool is_in_place; /* allgather: the own part is there already */
    bool is_even;     /* reduce-scatter: the parts are alike */
    size_t offset;    /* reduce-scatter: where this rank's part begins, in bytes */
    gy_mpi_numbers counts, displacements; /* allgatherv; none: take.count for each */
    MPI_Count *kept;                      /* owned copies of both, once it has a request */
    int present;                          /* ranks below have published theirs */
    bool owns_type, is_over;
    int code;                /* MPI_SUCCESS or an error */
    _Atomic bool is_settled; /* nothing above changes any more */
    MPI_Request request;     /* MPI_REQUEST_NULL: of a blocking call */
} gy_pull;

/** Publish what this rank gives. GY_NOMEM; nothing has happened then. Never waits. */
GY_MUST_CHECK gy_status gy_pull_start(gy_pull *pull);
/** Start and wait until it is over, the MPI library driven all the while. An MPI code. */
int gy_pull_run(gy_pull *pull);
/** Start a copy of `pull` with a request of the library's. An MPI code. */
int gy_pull_post(const gy_pull *pull, MPI_Request *request);
/** Move what can be moved on all doors; ends requests. Never waits. @threads any */
void gy_mpi_pulls_progress(void);
/** Requests posted and not over, of this process. */
bool gy_mpi_pulls_are_flying(void);
/** A door is about to go: give its memory back, forget pulls that are not over. */
void gy_mpi_pulls_forget(gy_mpi_context *door);
/** Look whether the peers of doors with pulls in flight are alive; call it now and then. */
void gy_mpi_pulls_check(void);

/* ---- call.c ---- */

/** The arguments of a collective; what an operation does not have is zero. */
typedef struct gy_mpi_call {
    const void *send;
    void *recv;
    int64_t send_count, recv_count;
    int root;
    bool lacks_counts; /* a form that has them was given none */
    MPI_Datatype send_type, recv_type;
    gy_mpi_numbers counts, displacements;
    MPI_Op op;
} gy_mpi_call;

enum { GY_MPI_LEFT = -1 }; /* no code of MPI's */

/* Stop at the first thing that is wrong with a call. */
#define GY_MPI_TRY(expr)                                                                       \
    do {                                                                                       \
        int gy_code_ = (expr);                                                                 \
        if (gy_code_ != MPI_SUCCESS) {                                                         \
            return gy_code_;                                                                   \
        }                                                                                      \
    } while (0)

/**
 * What a call means on a door.
 * @return MPI_SUCCESS taken over; GY_MPI_LEFT it stays with the library, on all ranks alike (or
 * there is no door); else this rank's arguments are wrong: the class of the error
 */
int gy_mpi_prepare(gy_mpi_context *door, gy_pull_kind kind, const gy_mpi_call *call,
                   gy_pull *pull);

/* ---- blocking.c, entries.c ---- */

/** Run what gy_mpi_prepare made with `code`, or refuse it; not GY_MPI_LEFT. An MPI code. */
int gy_mpi_run(gy_pull *pull, int code);
/** The same, with a request. */
int gy_mpi_post(const gy_pull *pull, int code, MPI_Request *request);

/* ---- context.c ---- */

/** A communicator's, kept with it as an attribute. */
struct gy_mpi_context {
    gy_mpi_context *next; /* of all */
    MPI_Comm comm;
    int rank, size;
    gy_comm *coll;
    gy_transport *transport;
    const gy_shared *shared;
    gy_mutex lock;         /* of all below */
    uint64_t own_last;     /* its newest card, as an offset into its pool + 1; 0 none */
    uint64_t own_first;    /* its oldest that peers may still look at */
    uint64_t *seen;        /* (size) the newest card looked at of each rank, in the same form */
    gy_pull *first, *last; /* pulls that are not over */
    bool has_left;         /* nonblocking collectives, before there was the door */
    _Atomic bool is_freed; /* the communicator is gone; the door goes with its last pull */
};

/** After MPI_Init: prepare, and a door for the world. */
void gy_mpi_contexts_open(void);
/** Before MPI_Finalize. */
void gy_mpi_contexts_close(void);
/**
 * The door of a communicator or NULL. `may_attach`: the call blocks, so that its ranks can meet
 * to make one if there is none, which they do once they have called often enough. `caller`: the
 * library itself has no doors.
 */
gy_mpi_context *gy_mpi_context_of(MPI_Comm comm, bool may_attach, const void *caller);
/** In an entry that programs call. */
#define GY_DOOR_OF(comm, may_attach)                                                           \
    gy_mpi_context_of((comm), (may_attach), __builtin_return_address(0))

/** Has the library nonblocking collectives of a communicator that came too early for a door? */
bool gy_mpi_context_has_left(MPI_Comm comm);

/** Why this rank takes no part in a collective of Gyre's. */
typedef enum gy_mpi_why {
    GY_WHY_LEFT,   /* the library has it */
    GY_WHY_WRONG,  /* its arguments are */
    GY_WHY_POSTED, /* it is a pull */
} gy_mpi_why;

/** The next number of the door is none of Gyre's communicator's here. */
void gy_mpi_context_skip(gy_mpi_context *door, gy_mpi_why why, gy_pull_kind kind);
/** A call that goes to the library; door NULL: that has none. */
void gy_mpi_context_leave(gy_mpi_context *door, gy_pull_kind kind);
/** A call whose arguments are wrong: `code` to the communicator's handler, and back. */
int gy_mpi_context_refuse(gy_mpi_context *door, gy_pull_kind kind, int code);
/** Tell a failure (this thread's error text) to the communicator's handler; an MPI code. */
int gy_mpi_context_fail(const gy_mpi_context *door, gy_status status);
/** Free the doors whose communicators are gone and that have no pulls left. */
void gy_mpi_contexts_sweep(void);

/** All doors, for whoever drives them, then release; NULL (nothing held) when there are none or
 * another thread is at it. */
gy_mpi_context *gy_mpi_contexts_hold(void);
void gy_mpi_contexts_release(void);

/* ---- roster.c: ranks that have Gyre in front ---- */

/** Before MPI_Init: the others can see that this rank has. */
void gy_mpi_roster_enter(void);
/** After MPI_Init: look for the others. */
void gy_mpi_roster_read(void);
void gy_mpi_roster_leave(void);
/** Have all ranks of a communicator Gyre in front, on this host? Alike on all of them. */
bool gy_mpi_roster_covers(MPI_Comm comm);
/** More ranks on this host than cores? */
bool gy_mpi_roster_is_crowded(void);
/** Alike for processes that see the same /proc, so that they can share memory. */
uint64_t gy_mpi_host_identity(void);

/** Counted for the closing line at log level info. */
void gy_mpi_count(bool is_taken);

/* ---- drive.c ---- */

/** Let the MPI library move what it can. */
void gy_mpi_drive(void);
/** From now on whoever waits on `transport` drives the MPI library too, and never sleeps. */
void gy_mpi_drive_with(gy_transport *transport);
/** Does this process have to share its core? Then waits yield. */
bool gy_mpi_is_crowded(void);
/** Cores that the ranks of `host` may use, all together; they all call it. */
int gy_mpi_cores_of(MPI_Comm host);
/** `is_whole`: all ranks of the world are in this call. */
void gy_mpi_drive_open(bool is_whole);
void gy_mpi_drive_close(void);

/* ---- collect.c: MPI's own collectives for Gyre's ranks ---- */

/** All ranks call it; false: `is_allowed` is, or MPI makes no communicators. */
bool gy_mpi_collect_open(bool is_allowed);
void gy_mpi_collect_close(void);
/** But for `lose`, which is the transport's. */
extern const gy_library gy_mpi_library;

#endif
