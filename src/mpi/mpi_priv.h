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
    size_t item_bytes; /* size of what `combine` counts */
    /* how many of those an MPI element has: 2 for a sum of complex numbers */
    size_t items;
    gy_dtype dtype;
    gy_reduction reduction;
    uint8_t how;   /* for logical values: and, or, xor (1, 2, 3) */
    bool is_plain; /* Gyre's communicator supports dtype and reduction too */
} gy_mpi_fold;

void gy_mpi_types_init(void);
/** False: the library must execute this combination of type and operation. */
bool gy_mpi_fold_of(MPI_Datatype type, MPI_Op op, gy_mpi_fold *fold);
/** Bytes that one element of `type` transfers. Returns an MPI code. */
int gy_mpi_type_bytes(MPI_Datatype type, size_t *bytes);

/** A buffer of one rank: `count` elements at `data`, each `extent` bytes after the previous
 * one. */
typedef struct gy_mpi_span {
    void *data; /* never written for a send */
    int64_t count;
    MPI_Datatype type;
    size_t element;  /* bytes that an element transfers */
    size_t bytes;    /* bytes that all of them transfer */
    MPI_Aint extent; /* of an element */
    bool is_plain;   /* the bytes are contiguous, in the order in which they are transferred */
} gy_mpi_span;

/** MPI_SUCCESS, MPI_ERR_COUNT, MPI_ERR_TYPE. */
int gy_mpi_span_of(const void *data, int64_t count, MPI_Datatype type, gy_mpi_span *span);
/** Pack the elements contiguously into `to`. */
int gy_mpi_pack(const gy_mpi_span *span, void *to);
/** Unpack `count` elements, beginning at element `first` of the span. */
int gy_mpi_unpack(const gy_mpi_span *span, MPI_Aint first, int64_t count, const void *from);

/* ---- large.c ---- */

/** Position in packed bytes; advances with them. */
typedef struct gy_mpi_packed {
    uint8_t *at;
    size_t piece_bytes; /* most bytes that the library packs at once */
    bool is_packing;
} gy_mpi_packed;

/** Pack or unpack one element of any size of the span's type. Returns an MPI code. */
int gy_mpi_move_large(const gy_mpi_span *span, void *element, gy_mpi_packed *packed);

/** Numbers of a call, one for each rank, in the width of the form that was called. */
typedef struct gy_mpi_numbers {
    const int *narrow;      /* (size) */
    const MPI_Count *wide;  /* (size) counts of the large-count forms */
    const MPI_Aint *places; /* (size) displacements of the large-count forms */
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

/** A collective executed as a pull. */
typedef struct gy_pull {
    struct gy_pull *next;
    gy_mpi_context *door;
    gy_pull_kind kind;
    int root;
    uint64_t number;
    gy_mpi_fold fold;
    gy_mpi_span give; /* what this rank publishes when it starts */
    gy_mpi_span take; /* destination of one rank's data, or of a reduction's result */
    bool is_in_place; /* allgather: the own part is in place */
    bool is_even;     /* reduce-scatter: all parts have the same size */
    size_t offset;    /* reduce-scatter: begin of this rank's part, in bytes */
    gy_mpi_numbers counts, displacements; /* allgatherv; otherwise: take.count for each rank */
    MPI_Count *kept;                      /* owned copies of both, if there is a request */
    int present;                          /* all ranks below it have published */
    bool owns_type, is_over;
    int code;                /* MPI_SUCCESS or an error */
    _Atomic bool is_settled; /* the members above are final */
    MPI_Request request;     /* MPI_REQUEST_NULL: a blocking call */
} gy_pull;

/** Publish this rank's input. GY_NOMEM: nothing has happened. Never waits. */
GY_MUST_CHECK gy_status gy_pull_start(gy_pull *pull);
/** Start, and wait until it has ended, driving the MPI library meanwhile. Returns an MPI
 * code. */
int gy_pull_run(gy_pull *pull);
/** Start a copy of `pull` with a request of the library. Returns an MPI code. */
int gy_pull_post(const gy_pull *pull, MPI_Request *request);
/** Make progress on all contexts, and complete requests. Never waits. @threads any */
void gy_mpi_pulls_progress(void);
/** Does this process have requests that have not ended? */
bool gy_mpi_pulls_are_flying(void);
/** A context is being freed: free its memory, and forget pulls that have not ended. */
void gy_mpi_pulls_forget(gy_mpi_context *door);
/** Check whether the peers of contexts with pulls under way are alive; call it from time to
 * time. */
void gy_mpi_pulls_check(void);

/* ---- call.c ---- */

/** The arguments of a collective; those that an operation lacks are zero. */
typedef struct gy_mpi_call {
    const void *send;
    void *recv;
    int64_t send_count, recv_count;
    int root;
    bool lacks_counts; /* a form with counts got none */
    MPI_Datatype send_type, recv_type;
    gy_mpi_numbers counts, displacements;
    MPI_Op op;
} gy_mpi_call;

enum { GY_MPI_LEFT = -1 }; /* different from all MPI codes */

/* Return the first error of a call. */
#define GY_MPI_TRY(expr)                                                                       \
    do {                                                                                       \
        int gy_code_ = (expr);                                                                 \
        if (gy_code_ != MPI_SUCCESS) {                                                         \
            return gy_code_;                                                                   \
        }                                                                                      \
    } while (0)

/**
 * Decide about a call on a context.
 * @return MPI_SUCCESS Gyre executes it; GY_MPI_LEFT the library executes it, on all ranks alike
 *     (or there is no context); otherwise this rank's arguments are wrong: the error class
 */
int gy_mpi_prepare(gy_mpi_context *door, gy_pull_kind kind, const gy_mpi_call *call,
                   gy_pull *pull);

/* ---- blocking.c, entries.c ---- */

/** Run what gy_mpi_prepare prepared with `code`, or refuse it; not for GY_MPI_LEFT. Returns an
 * MPI code. */
int gy_mpi_run(gy_pull *pull, int code);
/** The same, with a request. */
int gy_mpi_post(const gy_pull *pull, int code, MPI_Request *request);

/* ---- context.c ---- */

/** The context of a communicator, stored as its attribute. */
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
    gy_pull *first, *last; /* pulls that have not ended */
    /* the library has nonblocking collectives from before the context was made */
    bool has_left;
    /* the communicator was freed; the context is freed with its last pull */
    _Atomic bool is_freed;
};

/** After MPI_Init: prepare, and make the world's context. */
void gy_mpi_contexts_open(void);
/** Before MPI_Finalize. */
void gy_mpi_contexts_close(void);
/**
 * The context of a communicator, or NULL. `may_attach`: the call blocks, so its ranks can
 * synchronise to make a context, which they do after enough calls. `caller`: the library's own
 * communicators have none.
 */
gy_mpi_context *gy_mpi_context_of(MPI_Comm comm, bool may_attach, const void *caller);
/** For entries that programs call. */
#define GY_DOOR_OF(comm, may_attach)                                                           \
    gy_mpi_context_of((comm), (may_attach), __builtin_return_address(0))

/** Does the library have nonblocking collectives of a communicator from before its context was
 * made? */
bool gy_mpi_context_has_left(MPI_Comm comm);

/** Why this rank takes no part in a collective of Gyre. */
typedef enum gy_mpi_why {
    GY_WHY_LEFT,   /* the library executes it */
    GY_WHY_WRONG,  /* its arguments are wrong */
    GY_WHY_POSTED, /* it is a pull */
} gy_mpi_why;

/** The context's next number is not used by Gyre's communicator on this rank. */
void gy_mpi_context_skip(gy_mpi_context *door, gy_mpi_why why, gy_pull_kind kind);
/** A call goes to the library; door NULL: the communicator has no context. */
void gy_mpi_context_leave(gy_mpi_context *door, gy_pull_kind kind);
/** Pass the error class `code` of a call with wrong arguments to the communicator's error
 * handler, and return it. */
int gy_mpi_context_refuse(gy_mpi_context *door, gy_pull_kind kind, int code);
/** Pass a failure (this thread's error text) to the communicator's error handler; returns an
 * MPI code. */
int gy_mpi_context_fail(const gy_mpi_context *door, gy_status status);
/** Free the contexts whose communicators were freed and that have no pulls left. */
void gy_mpi_contexts_sweep(void);

/** Lock and return all contexts; the caller must release them. NULL (not locked) when there are
 * none, or another thread has them. */
gy_mpi_context *gy_mpi_contexts_hold(void);
void gy_mpi_contexts_release(void);

/* ---- roster.c: ranks that use Gyre ---- */

/** Before MPI_Init: make this rank visible to the others. */
void gy_mpi_roster_enter(void);
/** After MPI_Init: find the others. */
void gy_mpi_roster_read(void);
void gy_mpi_roster_leave(void);
/** Do all ranks of a communicator use Gyre, on this host? The result is the same on all of
 * them. */
bool gy_mpi_roster_covers(MPI_Comm comm);
/** Does this host have more ranks than cores? */
bool gy_mpi_roster_is_crowded(void);
/** The same number for processes that see the same /proc, which can share memory. */
uint64_t gy_mpi_host_identity(void);

/** Count a call for the closing log line at level info. */
void gy_mpi_count(bool is_taken);

/* ---- drive.c ---- */

/** Let the MPI library make progress. */
void gy_mpi_drive(void);
/** From now on a rank that waits on `transport` drives the MPI library too, and never sleeps
 * long. */
void gy_mpi_drive_with(gy_transport *transport);
/** Does this process share its core? Then waits yield. */
bool gy_mpi_is_crowded(void);
/** Number of cores that the ranks of `host` may use together; all of them call it. */
int gy_mpi_cores_of(MPI_Comm host);
/** `is_whole`: all ranks of the world call it. */
void gy_mpi_drive_open(bool is_whole);
void gy_mpi_drive_close(void);

/* ---- collect.c: MPI's own collectives for Gyre's ranks ---- */

/** All ranks call it; false: `is_allowed` is false, or MPI cannot make communicators. */
bool gy_mpi_collect_open(bool is_allowed);
void gy_mpi_collect_close(void);
/** Without `lose`, which the transport provides. */
extern const gy_library gy_mpi_library;

#endif
