/** Sessions, programs and their steps: what runs a compiled graph. */
#ifndef GY_GRAPH_SESSION_PRIV_H
#define GY_GRAPH_SESSION_PRIV_H

#include "graph/graph_priv.h"
#include "ops/collective.h"

typedef struct gy_program gy_program;
typedef struct gy_program_step gy_program_step;
typedef struct gy_device_lane gy_device_lane;

/** The exchanges of one kind. */
typedef struct gy_meter_row {
    int under_way; /* now */
    uint64_t count, sent_bytes;
    double hidden_ns, exposed_ns;
} gy_meter_row;

/** The runs of one exchange. */
typedef struct gy_meter_span {
    uint64_t count, sent_bytes;
    double hidden_ns,
        exposed_ns; /* while it is under way: less what the meter had at its begin */
} gy_meter_span;

/** Where the time of a process goes: it computes, or waits for peers, or neither. */
typedef struct gy_meter {
    gy_mutex lock;
    int64_t since_ns;
    int computing, exchanging;                /* tasks of each kind that run now */
    gy_meter_row rows[GY_EXCHANGE_KINDS_MAX]; /* the last two: messages between stages,
                                                 barriers of the mesh */
    bool is_on;                               /* inside a run */
    int64_t compute_ns, exposed_ns, bubble_ns, other_ns;
    /* On a mesh with stages: what a neighbour has yet to send, and of the pause that goes on
       how much was spent so and since when. */
    int awaited;
    int64_t pause_ns, pause_begin_ns;
    int64_t hidden_ns; /* of compute_ns, beside an exchange */
    /* What one exchange that is always under way would have had. */
    double hidden_each_ns, exposed_each_ns;
} gy_meter;

void gy_meter_init(gy_meter *meter);
void gy_meter_fini(gy_meter *meter);
/** Add to the counts; the time since the last change goes to what was going on. @threads any */
void gy_meter_change(gy_meter *meter, int computing);
/** An exchange of kind `row` begins (change 1), or has ended (-1) and sent so many bytes;
 * `span` (may be NULL) counts it alone. @threads any */
void gy_meter_exchange(gy_meter *meter, int row, gy_meter_span *span, int change,
                       uint64_t sent_bytes);
/** Something that another stage has to send is awaited from now on (1), or has come (-1), of
 * which its transfer took `transfer_ns` by the model of costs. @threads any */
void gy_meter_await(gy_meter *meter, int change, int64_t transfer_ns);
/** What ended exchanges had. @threads any */
gy_graph_spent gy_meter_spent(gy_meter *meter, const gy_meter_span *span);
void gy_meter_run(gy_meter *meter, bool begins);
/** The row of exchanges by this operator along a mesh axis, which messages between stages do
 * not have; -1: it is none. */
int gy_meter_kind(const gy_op *op, int axis);

/** A parameter's tensor, pinned as long as the session lives. */
typedef struct gy_parameter_slot {
    int32_t node; /* in the user's graph */
    const char *name;
    gy_tensor *tensor;
    gy_view view;
    gy_var *var; /* what programs that run beside each other do with it keeps its order */
    void *there; /* memory of the device, where that is its home; else NULL */
    bool is_same_there;  /* or newer: nothing is to be sent */
    bool is_newer_there; /* the value here is old */
} gy_parameter_slot;

/** A copy to or from the device that has not ended. */
typedef struct gy_device_copy {
    gy_done *done;
    uint64_t mark;
    int64_t begun_ns;
    gy_program_step *next; /* that began behind it */
} gy_device_copy;

/** Steps of a program that the device is given together. */
typedef struct gy_device_group {
    gy_program *program;
    int32_t first, count;      /* of the program's steps */
    gy_device_work *work;      /* (count) */
    gy_var **reads, **mutates; /* of all of them, some more than once */
    size_t read_count, mutate_count;
    int priority; /* the highest of theirs */
} gy_device_group;

/** One task of a program, unless it is in a group. */
struct gy_program_step {
    gy_program *program;
    const gy_graph_node *node;
    const char *trace_name;
    void *state;             /* of the kernel, on the device or the CPU */
    const gy_kernel *kernel; /* NULL: the reference */
    gy_device_copy copy;     /* where it is one and under way */
    gy_device_group *group;  /* whose first step it is; else NULL */
    gy_kernel_call call;
    gy_collective *collective; /* NULL: a computation */
    gy_attributes *message;    /* of the collective, where it is a message; else NULL */
    int exchange;              /* its kind, of gy_meter_kind */
    int64_t transfer_ns;       /* of a receive, as predicted */
    gy_meter_span span;        /* of the collective */
    int64_t ran_ns;            /* computing in the last run of a session that is timed */
    gy_var **reads, **mutates;
    size_t read_count, mutate_count;
    int priority; /* of gy_graph_prioritize */
    int32_t root; /* the first of the fetches that it completes; -1: none */
};

/** A view of memory that is fed, or of the rows of a run, filled in at each run. */
typedef struct gy_patch {
    gy_view *view;
    int32_t storage;
} gy_patch;

/** What a program is made of. */
typedef struct gy_program_source {
    gy_planned_run run;
    gy_graph *graph;   /* compiled for the run; taken where it succeeds */
    int32_t *segments; /* (nodes) ascending: which nodes are pushed together; taken. NULL:
                          all are one */
    gy_program *base;  /* an instance of the same: its graph and segments are this one's,
                          and its memory for what no segment leaves to another; outlives
                          this one. NULL: none, then `graph` is wanted */
    gy_program *twin;  /* an instance of the same: this one runs in its memory, in turn, as
                          the engine orders what both do with a buffer; but fetches are its
                          own. Outlives this one. NULL: none */
    gy_memory_chunks *chunks; /* where the rest of its memory lies */
} gy_program_source;

struct gy_program {
    gy_session *session;
    gy_arena arena;          /* all arrays below */
    gy_program *base, *twin; /* of gy_program_source */
    gy_memory_chunks *chunks;
    int32_t *segments; /* node -> its segment; NULL: there is one */
    int32_t *first;    /* segment -> its first step; one more than there are */
    int32_t segment_count;
    bool is_lent;          /* graph and segments are the caller's still */
    bool *is_passing;      /* storage -> it serves within segments alone */
    int64_t seed_words[3]; /* what the seed input is fed with: seed, step, first row */
    gy_graph *graph;
    gy_memory_plan memory;
    bool is_sharing; /* its buffers are counted among the users of the session's chunks */
    void **data;     /* storage -> memory; fed ones per run */
    gy_var **vars;   /* storage -> its engine variable */
    gy_program_step *steps;
    int32_t step_count;
    bool has_exchanges; /* of all ranks or none */
    gy_patch *patches;
    int32_t patch_count;
    gy_scope *scope;
    gy_tensor **fed;          /* storage -> what is pinned there in this run */
    gy_tensor **staging;      /* storage -> row-major copy of a fed view with strides */
    gy_tensor **results;      /* of a run, until all are there */
    int32_t *next_root;       /* of a fetch: the next that the same step completes; -1: none */
    bool *is_told, *is_taken; /* of a fetch, in a run with a hook */
    /* What it was compiled for. */
    gy_value *fetches;
    int32_t fetch_count;
    int64_t batch;
    int loss;      /* as gy_graph's */
    uint64_t used; /* when last, in runs */
    uint64_t runs; /* that ended well */
};

#define GY_SKIP_SHARING (1u << 31)

struct gy_session {
    gy_graph *graph;
    gy_engine *engine;
    bool owns_engine, has_no_overlap;
    gy_comm *comms[GY_MESH_MAX]; /* by mesh axis; NULL: it has one rank */
    bool has_pipe;               /* its communicator is driven by the engine */
    gy_device_lane *lane;        /* NULL: the CPU alone */
    gy_device *opened;           /* by the session itself; NULL: it is lent, or there is none */
    gy_device_home *homes;       /* node of the user's graph -> where its parameter lies */
    size_t home_count, home_capacity;
    gy_device_share share;       /* of the program with most nodes; 0 of them: there was none */
    gy_precision_share narrowed; /* of the program with most products; 0: there was none */
    gy_pool *pool;
    gy_mesh mesh;
    uint64_t seed, step, runs;
    gy_parameter_slot *parameters;
    size_t parameter_count, parameter_capacity;
    gy_fetch_hook hook; /* NULL: none */
    void *hook_arg;
    gy_session_fill fill; /* NULL: inits alone */
    void *fill_arg;
    gy_program **programs;
    size_t program_count, program_capacity;
    gy_memory_chunks chunks;       /* what all programs write to in turn */
    struct gy_pipe_programs *pipe; /* of micro-batches; NULL: none were under way */
    bool is_timed;                 /* each step's time is taken */
    uint32_t skip; /* passes left out, for tests; GY_SKIP_SHARING: one buffer a value */
    gy_meter meter;
};

/**
 * The parameter of node `index` of the user's graph, made and initialised at first use; its
 * value is in the memory of the CPU, brought there from the device where that has a newer one.
 */
gy_status gy_session_slot(gy_session *session, int32_t index, const gy_parameter_slot **slot);
/** The same wherever its value is. */
gy_status gy_session_find_slot(gy_session *session, int32_t index, gy_parameter_slot **slot);

/* ---- the device of a session (graph/devices) ---- */

static inline bool gy_devices_is_copy(const gy_op *op)
{
    return op == &gy_ops_row_to_device || op == &gy_ops_row_to_host;
}
/** Is the task of the node one of the device? */
static inline bool gy_devices_runs(const gy_graph_node *node)
{
    return node->is_on_device || node->op == &gy_ops_row_to_host;
}
/** Is the node work for a kernel of the device, where it lies there? */
static inline bool gy_devices_is_work(const gy_graph_node *node)
{
    GY_ASSERT(node->op != NULL);
    return node->op == &gy_ops_row_fill ||
           ((node->op->flags & (GY_OP_LEAF | GY_OP_VIEW | GY_OP_EFFECT)) == 0 &&
            !gy_devices_is_copy(node->op));
}
/** What that kernel wants of the device's memory beside inputs and outputs, in bytes; 0 of what
 * is no work for one. */
size_t gy_devices_workspace(const gy_graph *graph, int32_t index);
/** Have the engine ask the device what has ended. */
gy_status gy_device_lane_new(gy_device *device, gy_engine *engine, gy_device_lane **out);
/** Nothing is under way any more. NULL is fine. */
void gy_device_lane_free(gy_device_lane *lane);
gy_device *gy_device_lane_device(const gy_device_lane *lane);
/** Push the task of a step that is_on_device or is a copy; `task` has all but `run` and `lane`.
 */
gy_status gy_device_lane_push(gy_device_lane *lane, gy_task *task);
/** The same of a group; its first step's task. */
gy_status gy_device_lane_push_group(gy_device_lane *lane, gy_device_group *group,
                                    gy_task *task);
/** Find groups among the steps of a program, which are all there; copies there move before the
 * kernels that do not touch their memory. */
gy_status gy_device_group_steps(gy_program *program);
/** The kernel of a step, whose call has its memory. */
gy_status gy_device_lane_prepare(gy_device_lane *lane, gy_program_step *step);
/** Wait until all that was queued has ended, well or not. NULL: nothing is queued. */
gy_status gy_device_lane_await(gy_device_lane *lane);
/** Memory there for a parameter; given back by gy_device_lane_drop. */
gy_status gy_device_lane_place(gy_device_lane *lane, gy_parameter_slot *slot);
void gy_device_lane_drop(gy_device_lane *lane, gy_parameter_slot *slot);
/** Queue its copy there, unless its value is there. */
gy_status gy_device_lane_send(gy_device_lane *lane, gy_parameter_slot *slot);
/** Have its newest value here, and from now on only here: it may be written. */
gy_status gy_device_lane_bring(gy_device_lane *lane, gy_parameter_slot *slot);
/**
 * Fill this rank's part of a new parameter: a pure function of (seed, name, element of the
 * whole), whatever the part.
 * @param type     of the whole
 * @param offsets  where the part begins there
 */
gy_status gy_init_fill(gy_session *session, const gy_graph_node *node, const gy_type *type,
                       const int64_t *offsets, gy_tensor *tensor);

/** On a mesh with stages: is the parameter kept by this rank's? True where that is not decided
 * yet, and on other meshes. */
bool gy_session_keeps(const gy_session *session, int32_t index);
/** On a mesh with stages: decide which keep parameters that are not decided yet and that the
 * run reads. All ranks alike. */
GY_MUST_CHECK gy_status gy_session_find_homes(gy_session *session, const gy_planned_run *run);

/** Keep how many products of the largest compiled graph have operands of 16 bits. */
void gy_session_keep_narrowed(gy_session *session, const gy_graph *compiled);
/** Keep where the parameters of a compiled graph lie, for all later programs, and how much of
 * the largest one the device runs. GY_NOMEM. */
GY_MUST_CHECK gy_status gy_session_keep_homes(gy_session *session, const gy_graph *compiled);
/** gy_bind of the user's graph, with what this session adds: its device, where parameters lie.
 */
GY_MUST_CHECK gy_status gy_session_bind(const gy_session *session, const gy_mesh *mesh,
                                        const gy_planned_run *run, gy_graph **bound);
/** Bind to the mesh and run the passes for fetches of the user's graph. */
gy_status gy_session_compile(const gy_session *session, const gy_mesh *mesh,
                             const gy_planned_run *run, gy_text *text, gy_graph **out);
gy_status gy_program_new(gy_session *session, int64_t batch, const gy_value *fetches,
                         int fetch_count, gy_program **out);
/** The same of a graph that is compiled already. On failure the graph and the segments are
 * still the caller's. */
gy_status gy_program_make(gy_session *session, const gy_program_source *source,
                          gy_program **out);
void gy_program_free(gy_program *program);
/**
 * Pin the feeds of all inputs that the program reads (names node and shapes when one is wrong),
 * push all steps, wait, make new tensors with the fetched values: all or none. Of a program
 * with exchanges a failure is told to the peers.
 */
gy_status gy_program_run(gy_program *program, const gy_micro_batch *batch, gy_tensor **results);
/**
 * A run in pieces, while other programs run. Begin: pin what is fed, and take the number of a
 * micro-batch for the tags of messages (-1: none has one). Push segments [from, to) in the
 * order of all that run; `priority` is added to that of each step. Wait for all that is pushed.
 * Take: make tensors of the fetches. End: unpin, also after a failure.
 */
GY_MUST_CHECK gy_status gy_program_begin(gy_program *program, const gy_micro_batch *batch,
                                         int micro);
GY_MUST_CHECK gy_status gy_program_push(gy_program *program, int32_t from, int32_t to,
                                        int priority);
GY_MUST_CHECK gy_status gy_program_wait(gy_program *program);
GY_MUST_CHECK gy_status gy_program_take(gy_program *program, gy_tensor **results);
void gy_program_end(gy_program *program);
/** The end of a run on all ranks; returns `status`, or what others failed with. */
GY_MUST_CHECK gy_status gy_session_meet(gy_session *session, bool has_exchanges,
                                        gy_status status);
/** gy_session_run_micros by a schedule, all options checked. */
GY_MUST_CHECK gy_status gy_session_run_pipe(gy_session *session, const gy_micro_run *run,
                                            gy_tensor **results);
/** Which buffers no segment leaves to another: each value there is made and read in one. They
 * are all instances', and kept from then on. `segments` NULL: none. */
void gy_pipe_find_passing(const gy_graph *graph, const int32_t *segments,
                          gy_memory_plan *memory, bool *is_passing);
void gy_pipe_programs_free(gy_session *session);
/** The index-th program of micro-batches under way together; NULL: there are fewer. Programs of
 * several slots are instances of one. */
const gy_program *gy_pipe_program_at(const gy_session *session, size_t index);
/** Values of the nodes to be fetched, (count). GY_ARG one is not of the session's graph. */
gy_status gy_session_fetches(const gy_session *session, const gy_node *nodes, int count,
                             gy_value *values);
/** Tell the peers of all axes that this rank goes no further. Returns `status`, its text kept.
 */
gy_status gy_session_refuse(gy_session *session, gy_status status);
/** Append kernels and memory of a scheduled graph. */
void gy_explain_program(const gy_graph *graph, int workers, gy_text *text);
/** The kernel and workspace of every node of a placed graph. */
void gy_choose_kernels(const gy_graph *graph, int workers, gy_graph_choice *choices);

#endif
