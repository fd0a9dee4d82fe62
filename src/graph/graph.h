/**
 * Room graph: the nodes of a computation, the passes that turn them into a program, the session
 * that runs it.
 *
 * A graph is an array of nodes in an order in which inputs come before their users. A pass is a
 * pure function from a graph to a new graph; gy_pass copies and maps for it. Reading order:
 * graph, mesh, print, nodes, gradient, passes/ (pass, bind, constants, algebra, common, expand,
 * precision, epilogue, layout, fuse, schedule), place/ (rows, price, route, pins, expansion,
 * candidates, choose, search, place, exchange), stages/ (assign, balance, cut, hand, loads),
 * recompute/ (line, cut, recompute, report), explain/ (placement), memory/ (reshard, memory,
 * chunks), simulate/ (cluster, links, rates, tasks, clock, step), compile, program, init,
 * session, run.
 */
#ifndef GY_GRAPH_GRAPH_H
#define GY_GRAPH_GRAPH_H

#include "ops/device.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <gyre/graph.h>

/** What an axis of a mesh may cut (gy_mesh_new). */
typedef enum gy_axis_kind {
    GY_AXIS_DATA,
    GY_AXIS_MODEL,
    GY_AXIS_AUTO,
    GY_AXIS_KINDS,
    GY_AXIS_PIPE = GY_AXIS_KINDS /* cuts the graph, and no value */
} gy_axis_kind;

/** Sets of stages are bits. */
enum { GY_STAGES_MAX = 64 };

/** What tells the stage of a node, and the chunk that it is made again with; kept by passes. */
typedef struct gy_stage_mark {
    int32_t source;         /* the node of the user's graph whose work it is, or that of its
                               gradient; -1: made by a pass */
    bool is_differentiated; /* gradients pass through the source */
    uint8_t by_hand;        /* gy_stage: the stage and 1; 0: it follows from others */
    uint8_t precision;      /* gy_pin_precision of the source: a gy_dtype; 0: none */
    bool is_gradient;       /* made by gy_op_gradients */
    bool is_again;          /* a copy that gy_recompute_chunks made */
    int32_t chunk;          /* of gy_recompute_chunks, from 1; 0: none */
} gy_stage_mark;

/** Where a session keeps a parameter. */
typedef enum gy_device_home {
    GY_HOME_OPEN, /* not decided */
    GY_HOME_CPU,
    GY_HOME_DEVICE
} gy_device_home;

/** One application of an operator. Everything it points to is the graph's. */
typedef struct gy_graph_node {
    const gy_op *op;
    gy_attributes attributes;
    const gy_value *inputs; /* indices smaller than this node's */
    gy_type *types;         /* of the outputs */
    const char *name;       /* "matmul_12", or the caller's; kept by passes */
    const gy_init *init;    /* of a parameter */
    /* In the user's graph: how a parameter is kept by the session along axes of each kind,
       zero: whole; how output 0 of another node is kept for its users, where it is pinned. */
    gy_placement pins[GY_AXIS_KINDS];
    uint8_t pinned_kinds; /* bits of the kinds that gy_pin was called for */
    int32_t input_count, output_count;
    int32_t first_value; /* value number of output 0; output k is first_value + k */
    int32_t origin;      /* index in the user's graph; -1: made by a pass */
    gy_stage_mark mark;
    uint64_t homes;      /* of a parameter: bits of the stages that keep it; 0: not decided */
    gy_device_home home; /* of a parameter: where it lies between runs */
    bool is_on_device;   /* from devices on: the device runs it, its outputs lie there */
} gy_graph_node;

/** The grid of ranks. Placements are decided from sizes alone, so that all ranks agree. */
struct gy_mesh {
    int axes; /* the leftmost is the outer one */
    gy_axis_kind kinds[GY_MESH_MAX];
    int sizes[GY_MESH_MAX];
    int coordinates[GY_MESH_MAX]; /* of this rank */
    int apart[GY_MESH_MAX];       /* from a rank to the next one along the axis; 0: not known */
    gy_links links[GY_MESH_MAX];  /* what placement reckons with; zero: one host's. On all
                                     ranks alike */
    double memory_bytes_s; /* of a rank's memory, as placement reckons with it where a rank does
                              its 50e9 operations a second; 0: 10e9. On all ranks alike */
    double byte_s; /* what placement adds for a byte that a rank holds, in seconds; on all ranks
                      alike */
    gy_comm *comms[GY_MESH_MAX]; /* of this rank's line along each axis; NULL: it is alone
                                    there */
    gy_comm *whole;              /* of all ranks, borrowed; NULL: this process alone */
    /* Axis `pipe`, of which placement knows nothing: ranks along it have parts of the graph. */
    int stages; /* 0: there is no such axis */
    int stage;  /* of this rank: its place along the axis */
    int chunks; /* stages of a rank: stage s is of rank s % stages; 0: 1 */
    int stage_apart;
    gy_links stage_links;
    gy_comm *pipe; /* of the ranks that differ in their stage alone; NULL: it has one */
};

/** All ranks of `comm` (NULL: this process alone) along one data axis. */
gy_mesh gy_mesh_line(gy_comm *comm);
/**
 * The mesh of `ranks` ranks that do not exist, as the last of them sees it, whose parts are the
 * largest; in stage 0. Programs are compiled for it and none is run.
 * @return GY_OK; GY_ARG as gy_mesh_new
 */
GY_MUST_CHECK gy_status gy_mesh_imagine(const char *axes, int ranks, gy_mesh *mesh);
/** The mesh as its last rank sees it, whose parts are the largest; this rank's stage. Who
 * decides by sizes of parts what all ranks must decide alike asks for those, not for its own.
 */
gy_mesh gy_mesh_largest(const gy_mesh *mesh);
/** The axis that cuts the rows of batches, -1: none; and the ranks along it, 1 where there is
 * none. */
int gy_mesh_data_axis(const gy_mesh *mesh);
int gy_mesh_row_ranks(const gy_mesh *mesh);

/** Stages of all ranks; the rank of one; the stages of a set that are this rank's. */
static inline int gy_mesh_stages(const gy_mesh *mesh)
{
    return mesh->stages * GY_MAX(mesh->chunks, 1);
}
static inline int gy_mesh_stage_rank(const gy_mesh *mesh, int stage)
{
    GY_ASSERT(stage >= 0 && stage < gy_mesh_stages(mesh));
    return stage % mesh->stages;
}
uint64_t gy_mesh_stages_of(const gy_mesh *mesh, int rank);
/**
 * Of a failure that has to do with ranks (GY_PEER, GY_TIMEOUT): say behind each rank that this
 * thread's text names which stage it has. A mesh without stages (or NULL) changes nothing.
 * Returns `status`.
 */
gy_status gy_mesh_name_stages(const gy_mesh *mesh, gy_status status);

/** What a program is for: a value that is fetched, or an effect, and where it shall live. */
typedef struct gy_root {
    gy_value value;
    gy_placement placement[GY_MESH_MAX];
    bool is_elsewhere; /* an effect of other stages; the value stands for nothing */
} gy_root;

/** Where stages 1, 2, … begin: sources, which ascend. */
typedef struct gy_stage_cuts {
    int count; /* 0: none are decided */
    int32_t first[GY_STAGES_MAX - 1];
} gy_stage_cuts;

struct gy_graph {
    gy_builder builder; /* first: the graph is a builder of itself */
    gy_arena arena;
    gy_graph_node *nodes;
    size_t node_capacity;
    int32_t node_count, value_count;
    gy_root *roots; /* none in the user's graph */
    int32_t root_count;
    gy_mesh mesh;       /* from bind on */
    int64_t batch;      /* from bind on: no size is a symbol any more; 0 before */
    bool is_placed;     /* from place on: types hold placements, kernels see parts */
    double predicted_s; /* from place on: a run on several ranks, by the model of costs */
    gy_stage_cuts cuts;
    gy_dtype precision;          /* that products read; none: no pass looks at precision */
    gy_device *device;           /* of this rank, borrowed; NULL: the CPU alone */
    gy_device_share share;       /* from devices on: how much of it that runs */
    gy_precision_share narrowed; /* from precision on, where it was asked for */
    int32_t recompute_max; /* chunks of the forward pass that may be made again; 0: none */
    int32_t recomputed;    /* those that are, behind gy_recompute_chunks */
    int32_t loss; /* root whose ancestors are the forward pass, and 1: messages between stages
                     say to which pass they belong; 0: they need not */
    gy_stage_mark mark; /* of nodes to come; without a source those of a user are their own */
    gy_error failure;   /* the first one of any call; status GY_OK: none */
};

/* ---- Nodes ---- */

/**
 * Append a node whose output types are inferred (placements zero). GY_NO_VALUE after a failure,
 * which the graph keeps with the node's name; an input that is GY_NO_VALUE gives GY_NO_VALUE.
 * @param name  copied; NULL: operator and index
 */
gy_value gy_graph_apply(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                        const gy_value *inputs, int input_count, const char *name);
/** The same with given types (`output_count` of them, copied): for passes after place. */
gy_value gy_graph_apply_typed(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                              const gy_value *inputs, int input_count, const gy_type *types,
                              int output_count, const char *name);
/** Record a failure (this thread's text, after `name`) unless there is one. Returns `status`.
 */
gy_status gy_graph_fail(gy_graph *graph, gy_status status, const char *name);

static inline const gy_graph_node *gy_graph_at(const gy_graph *graph, gy_value value)
{
    GY_ASSERT(value.node >= 0 && value.node < graph->node_count);
    return &graph->nodes[value.node];
}
static inline gy_type *gy_graph_type(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    GY_ASSERT(value.output >= 0 && value.output < node->output_count);
    return &node->types[value.output];
}
/** In [0, graph->value_count). */
static inline int32_t gy_graph_value(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    GY_ASSERT(value.output >= 0 && value.output < node->output_count);
    GY_CHECK_DEEP(node->first_value + node->output_count <= graph->value_count);
    return node->first_value + value.output;
}
static inline bool gy_value_is_none(gy_value value)
{
    return value.node < 0;
}
static inline bool gy_value_is(gy_value a, gy_value b)
{
    return a.node == b.node && a.output == b.output;
}

/** Is it fed or kept row by row of the batch? */
static inline bool gy_graph_has_batch(const gy_graph_node *node)
{
    return (node->op == &gy_ops_row_input || node->op == &gy_ops_row_parameter) &&
           node->attributes.shape.is_batched;
}

/**
 * `a` rounded to a type of fewer bytes and back. Where it is a sum over ranks, each rank's part
 * is rounded and the parts are exchanged and summed in that type, whose sums round again.
 */
gy_node gy_graph_exchange_as(gy_node a, gy_dtype dtype);

/** `made` is `from` in another graph. */
static inline void gy_graph_inherit(gy_graph_node *made, const gy_graph_node *from)
{
    GY_ASSERT(made != from);
    made->origin = from->origin;
    made->mark = from->mark;
    made->homes = from->homes;
    made->home = from->home;
    made->is_on_device = from->is_on_device;
}

/** A new graph with the mesh, batch and stage of `like` (NULL: a user's). NULL: out of memory.
 */
gy_graph *gy_graph_new_like(const gy_graph *like);
/** Keep `root`. GY_NOMEM. */
gy_status gy_graph_add_root(gy_graph *graph, const gy_root *root);
/** How often each value is used, roots included: counts[value number]. Caller's array, zeroed
 * here. */
void gy_graph_count_uses(const gy_graph *graph, int32_t *counts);

/** One line a node: number, name, type, placement, operator, inputs, cost. */
void gy_graph_print(const gy_graph *graph, gy_text *text);
/**
 * The same under a heading, nodes by name; when `before` holds an earlier stage, only what is
 * gone (-), new (+) or changed (~). `before` then holds this one; the caller frees it.
 */
void gy_graph_print_stage(const gy_graph *graph, const char *stage, gy_text *before,
                          gy_text *text);

/** "S0", "P(sum)" or "R". Returns `out`. */
const char *gy_graph_placement_text(const gy_placement *placement, char out[16]);
/** On one line, whatever the caller has named the node. */
void gy_graph_print_name(const char *name, gy_text *text);

/* ---- Exchanges ---- */

/** A node of a placed graph by which ranks exchange a value. */
typedef struct gy_graph_exchange {
    int32_t node;
    int axis;
    gy_operation operation; /* GY_OPERATION_COUNT: a message to or from another stage, without
                               an axis */
    gy_placement from, to;
    double sent_bytes;  /* by a rank, on a ring; the mean of the ranks along the axis */
    double predicted_s; /* by the model of costs, as the search reckons */
} gy_graph_exchange;

/** What the runs of one exchange sent, and the time that they had. */
typedef struct gy_graph_spent {
    uint64_t count, sent_bytes;
    double hidden_s, exposed_s; /* computing beside it, or not; of several at once, a share */
} gy_graph_spent;

/**
 * List the exchanges of a placed graph in the order of its nodes, which after gy_schedule is
 * that of their numbers.
 * @param list  room for all nodes of the graph
 * @return GY_OK; what pricing them failed with
 */
GY_MUST_CHECK gy_status gy_graph_exchanges(const gy_graph *graph, gy_graph_exchange *list,
                                           int32_t *count);
/**
 * Append where each value of a scheduled graph lives along each axis, how it came there and for
 * which nodes; then its exchanges as gy_graph_explain_exchanges does. GY_NOMEM in text->status.
 */
gy_status gy_graph_explain_placement(const gy_graph *graph, gy_text *text);
/**
 * Append the exchanges of a scheduled graph, those first that take longest by prediction.
 * @param spent      (exchanges) what `runs` runs of each took, by number; NULL: nothing ran
 * @param lines_max  0: all
 */
gy_status gy_graph_explain_exchanges(const gy_graph *graph, const gy_graph_spent *spent,
                                     uint64_t runs, int lines_max, gy_text *text);

/* ---- Passes ---- */

/** The work of turning `in` into `out`. */
typedef struct gy_pass {
    const gy_graph *in;
    gy_graph *out;
    gy_value *map; /* value number of `in` -> value of `out`; GY_NO_VALUE: nothing yet */
} gy_pass;

/** GY_NOMEM leaves nothing to end. */
gy_status gy_pass_begin(gy_pass *pass, const gy_graph *in);
gy_value gy_pass_get(const gy_pass *pass, gy_value in);
void gy_pass_set(gy_pass *pass, gy_value in, gy_value out);
/** Append node `index` of `in` as it is, on mapped inputs, with its types; maps its outputs. */
gy_value gy_pass_copy(gy_pass *pass, int32_t index);
/** Map the roots and hand the graph out; frees it when it (or `status`) failed. */
gy_status gy_pass_end(gy_pass *pass, gy_status status, gy_graph **out);

/** Numbers for `batch`, the mesh, roots: inputs with a symbolic first size get Shard(0). */
gy_status gy_bind(const gy_graph *in, const gy_mesh *mesh, int64_t batch,
                  const gy_value *fetches, int fetch_count, gy_graph **out);
/** Do all nodes that a bound graph's one root needs, but that itself, work on the rows of the
 * batch apart from each other? GY_ARG names the first that does not; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_graph_check_rows(const gy_graph *bound);
gy_status gy_rewrite_dead(const gy_graph *in, gy_graph **out);
gy_status gy_rewrite_common(const gy_graph *in, gy_graph **out);
gy_status gy_rewrite_constants(const gy_graph *in, gy_graph **out);
gy_status gy_rewrite_algebra(const gy_graph *in, gy_graph **out);
/** Sums whose terms share their operands' sizes, such as the gradients of all time steps,
 * become a few products of stacked operands; sums of pads become concats. */
gy_status gy_pass_join(const gy_graph *in, gy_graph **out);
/** The operands of products in the type that graph->precision and pins ask for. */
gy_status gy_pass_precision(const gy_graph *in, gy_graph **out);
/** Append what gy_pass_precision chose for each product. GY_NOMEM. */
GY_MUST_CHECK gy_status gy_graph_explain_precision(const gy_graph *graph, gy_text *text);
/** Rows with an expansion that no signature lets run on its sharded inputs. */
gy_status gy_expand(const gy_graph *in, gy_graph **out);
/** Nodes that are marked, [node], give way to their expansions; each has one. */
gy_status gy_graph_expand_nodes(const gy_graph *in, const bool *is_marked, gy_graph **out);
/** A placement for every value, collectives where they change. */
gy_status gy_place(const gy_graph *in, gy_graph **out);
/** Parameters that are cut along the data axis: gathered before each group of users and dropped
 * behind it. */
gy_status gy_memory_reshard(const gy_graph *in, gy_graph **out);
/** Is the node one of these allgathers? The places that gy_memory_reshard gives them stay. */
bool gy_memory_is_gather(const gy_graph *graph, int32_t index);
/** Chunks of the forward pass, at most graph->recompute_max of them, are made again for the way
 * back, those first that free most bytes for their time. */
gy_status gy_recompute_chunks(const gy_graph *in, gy_graph **out);
/** Append the chunks of such a graph; nothing where there are none. GY_NOMEM in text->status.
 */
gy_status gy_graph_explain_recompute(const gy_graph *graph, gy_text *text);
/** The nodes of this rank's stage, with messages to and from the others. Only of a mesh with
 * stages. */
gy_status gy_stages_cut(const gy_graph *in, gy_graph **out);
/** Keep in the user's graph which stages have which parameters of a scheduled one, where that
 * is not decided, and where it was cut. GY_ARG, GY_NOMEM as gy_stages_cut. */
GY_MUST_CHECK gy_status gy_stages_keep(const gy_graph *scheduled, gy_graph *user);
/** Bytes of the largest part that a rank has of a value. */
double gy_stages_bytes(const gy_graph *graph, gy_value value);
/** Seconds of a message between two stages. */
double gy_stages_transfer(const gy_mesh *mesh, double bytes);
/** Append what each stage of a scheduled graph computes and sends. GY_NOMEM in text->status. */
gy_status gy_graph_explain_stages(const gy_graph *graph, gy_text *text);
/** Bias and relu into the product or convolution before them. */
gy_status gy_fuse_epilogues(const gy_graph *in, gy_graph **out);
/** Blocks of channels where kernels want them, `reorder` at the borders. */
gy_status gy_lay_out(const gy_graph *in, gy_graph **out);
/** The same of what a device leaves to the CPU: behind gy_pass_devices. */
gy_status gy_graph_lay_out_rest(const gy_graph *in, gy_graph **out);
/** Element-wise chains and trees with their reductions into `fused` nodes. */
gy_status gy_fuse(const gy_graph *in, gy_graph **out);
/** Collectives right after what they wait for, assignments last. */
gy_status gy_schedule(const gy_graph *in, gy_graph **out);
/** Nodes that graph->device shall run, with copies of values between it and the CPU.
 * GY_LIMIT what must lie there does not fit. */
gy_status gy_pass_devices(const gy_graph *in, gy_graph **out);
/** Note where the parameters of a compiled graph lie: (nodes of the user's graph). */
void gy_devices_keep(const gy_graph *compiled, gy_device_home *homes);
/** Append what the device runs and what is copied for it. GY_NOMEM. */
GY_MUST_CHECK gy_status gy_graph_explain_devices(const gy_graph *graph, gy_text *text);
/**
 * Which of several ready nodes of a scheduled graph goes first: what a collective reads, so
 * that its exchange overlaps the rest; of all others what another stage waits for soonest, by
 * the order of the sends that depend on them; what no send depends on comes last. Where that is
 * the same, in the order of the graph.
 * @param priorities (nodes) 1 to 2 nodes; larger: first
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_graph_prioritize(const gy_graph *graph, int32_t *priorities);

typedef struct gy_compile_pass {
    const char *name;
    gy_status (*run)(const gy_graph *in, gy_graph **out);
} gy_compile_pass;
/** What follows bind, in order. */
extern const gy_compile_pass gy_compile_passes[];
extern const int gy_compile_pass_count;

/** Run them all but those whose bit is set in `skip`; `text` (may be NULL) gets every stage. */
gy_status gy_compile(const gy_graph *bound, uint32_t skip, gy_text *text, gy_graph **out);
/** Where to end before the last pass. */
typedef enum gy_compile_end {
    GY_COMPILE_PLACED,    /* all values are placed */
    GY_COMPILE_SCHEDULED, /* exchanges have their order: what follows is this rank's own */
    GY_COMPILE_CUT        /* of a mesh with stages this one's nodes; else as scheduled */
} gy_compile_end;
gy_status gy_graph_compile_placed(const gy_graph *bound, uint32_t skip, gy_compile_end end,
                                  gy_graph **out);
/** The passes behind GY_COMPILE_SCHEDULED, for the stage that scheduled->mesh is in. */
gy_status gy_graph_compile_rest(const gy_graph *scheduled, uint32_t skip, gy_graph **out);

/* ---- Parts ---- */

/**
 * A parameter with a row for each row of the batch: sizes (rank), the first of them that of the
 * whole batch. Nodes read and assign it as (GY_BATCH, sizes…), of which each run has its rows:
 * a micro-batch those from gy_micro_batch.first on, and of these each rank along data its own.
 * Fetched itself it is whole. Begins with zeros. It may be pinned along data as a sum, where
 * the rows of a rank's micro-batches are none of the parts that a cut would make: then each
 * rank has memory for all rows, and those that it does not compute are to be zero.
 */
gy_node gy_graph_rows_parameter(gy_graph *graph, const char *name, gy_dtype dtype,
                                const int64_t *sizes, int rank);
static inline bool gy_graph_has_rows(const gy_graph_node *node)
{
    return node->op == &gy_ops_row_parameter && node->attributes.shape.rows > 0;
}
/** The whole type of a parameter: with numbers alone. */
gy_type gy_graph_whole_type(const gy_graph_node *parameter);
/** The type of a parameter as a session on `mesh` keeps it. */
gy_type gy_graph_parameter_type(const gy_mesh *mesh, const gy_graph_node *parameter);
/** The kind of axis of that name. GY_ARG there is none. */
GY_MUST_CHECK gy_status gy_mesh_kind_parse(const char *name, gy_axis_kind *kind);

/** This rank's part of a value: sizes and where it begins in the whole. */
void gy_local_part(const gy_mesh *mesh, const gy_type *type, int64_t sizes[GY_TENSOR_RANK_MAX],
                   int64_t offsets[GY_TENSOR_RANK_MAX]);
/** `type` with the sizes of this rank's part. */
gy_type gy_mesh_local_type(const gy_mesh *mesh, const gy_type *type);
/** `type` as the ranks along `axis` share it: local sizes in all other axes, whole in this. */
gy_type gy_axis_type(const gy_mesh *mesh, const gy_type *type, int axis);
/** A row-major (or blocked) view of this rank's part. */
gy_view gy_local_view(const gy_mesh *mesh, const gy_type *type, void *data);
/** Bytes of this rank's part, blocked padding included. */
size_t gy_local_bytes(const gy_mesh *mesh, const gy_type *type);
/** What this rank's part of node `index` costs on `mesh`; 0 of what has no cost. */
void gy_graph_cost(const gy_graph *graph, const gy_mesh *mesh, int32_t index, gy_cost *cost);
/** What a kernel is asked for node `index`; views: GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX of
 * them. */
gy_kernel_query gy_graph_query(const gy_graph *graph, int32_t index, int workers,
                               gy_view *views);

/* ---- Memory ---- */

typedef enum gy_storage_kind {
    GY_STORAGE_OWN,       /* the program's, from the heap */
    GY_STORAGE_SHARED,    /* the program's, from the communicator's pool: collectives */
    GY_STORAGE_INPUT,     /* what was fed */
    GY_STORAGE_PARAMETER, /* the session's */
    GY_STORAGE_LITERAL,   /* the graph's */
    GY_STORAGE_DEVICE,    /* the program's, in the memory of the device */
} gy_storage_kind;

/** One piece of memory with one engine variable: tasks on it keep their order. */
typedef struct gy_storage {
    gy_storage_kind kind;
    int32_t leaf; /* node of an input, parameter or literal; else -1 */
    size_t size_bytes;
    bool is_kept;  /* the program's, in no chunk: from run to run, or when others run already */
    int32_t chunk; /* of gy_memory_share; -1: memory of its own */
    size_t offset; /* in the chunk, bytes */
} gy_storage;

/** What runs a node. */
typedef struct gy_graph_choice {
    const gy_kernel *kernel; /* NULL: the reference */
    size_t workspace_bytes;
} gy_graph_choice;

/** Which values live where. */
typedef struct gy_memory_plan {
    gy_storage *buffers;
    int32_t buffer_count;
    int32_t *of_value;     /* value number -> buffer */
    int32_t *of_workspace; /* node -> buffer; -1: none */
    int scratch_count;     /* buffers that kernels take as workspace in turn */
    bool is_plain;         /* one buffer a value */
    gy_arena arena;        /* of the arrays */
} gy_memory_plan;

enum { GY_SCRATCH_MAX = 4 };

/**
 * Assign buffers. The tasks are pushed in the order of the nodes, so two values may share a
 * buffer when every use of the one stands before the other's node: the engine's variable keeps
 * them apart.
 *
 * @param scratch_count  workspaces that kernels take in turn; 0: one buffer for each value and
 *                       workspace, nothing in place (for tests)
 */
gy_status gy_plan_memory(const gy_graph *graph, const gy_graph_choice *choices,
                         int scratch_count, gy_memory_plan *plan);
void gy_memory_plan_free(gy_memory_plan *plan);

/** A piece of memory that the programs of a session use in turn, for they never run at a time.
 */
typedef struct gy_memory_chunk {
    gy_storage_kind kind; /* OWN or SHARED */
    size_t size_bytes;    /* 0: none stands at this index */
    void *data;           /* the session's to set and to free */
    int users;            /* programs */
} gy_memory_chunk;

typedef struct gy_memory_chunks {
    gy_memory_chunk *list; /* gy_free it */
    size_t count, capacity;
} gy_memory_chunks;

/**
 * Lay the buffers of a program, but those that it keeps, into the chunks of those before it,
 * the largest first, and what finds no room into a new chunk. A plan with one buffer a value
 * keeps memory of their own. GY_NOMEM: nothing changed.
 */
GY_MUST_CHECK gy_status gy_memory_share(gy_memory_chunks *chunks, gy_memory_plan *plan);
/** The same place for a program with the same buffers as one that is placed: they never run at
 * a time, or as variables order what both do. GY_NOMEM: nothing changed. */
GY_MUST_CHECK gy_status gy_memory_share_with(gy_memory_chunks *chunks,
                                             const gy_memory_plan *placed,
                                             gy_memory_plan *plan);
/** The program is gone: chunks without users may be freed. */
void gy_memory_unshare(gy_memory_chunks *chunks, const gy_memory_plan *plan);

/** What a rank will hold at its peak, in bytes. */
typedef struct gy_footprint {
    uint64_t
        parameter_bytes;    /* of the session: parameters, state of optimizers, accumulators */
    uint64_t input_bytes;   /* of the run that is fed most */
    uint64_t program_bytes; /* values and workspaces of all programs, which stay compiled and
                               use one memory in turn */
    uint64_t shared_bytes;  /* the same of what exchanges read and write */
    int recomputed;         /* chunks that are made again, of the program that has most */
} gy_footprint;

/** A program that a session will run. */
typedef struct gy_planned_run {
    int64_t batch;
    const gy_value *fetches;
    int fetch_count;
    int loss; /* as gy_graph's */
    /* By which lists micro-batches run on a mesh with stages, or NULL; of a footprint also in
       how many the batch is, as even as they can be. Of a footprint without lists they run one
       after the other, and `batch` is that of the largest. */
    int micros;
    const gy_pipe_schedule *schedule;
} gy_planned_run;

/**
 * Predict what this rank of `mesh` holds when the session runs all of `runs`, by compiling
 * them. Neither the session nor the ranks need to have run anything. @threads owner
 * @param mesh  NULL: the session's; else only its sizes, kinds, coordinates and links are read
 * @return GY_OK; what compiling fails with; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_session_footprint(gy_session *session, const gy_mesh *mesh,
                                             const gy_planned_run *runs, int run_count,
                                             gy_footprint *footprint);
uint64_t gy_footprint_bytes(const gy_footprint *footprint);

/**
 * What every stage of a mesh runs and holds, for ranks that need not exist. Placement is
 * searched once a program, whatever the number of stages.
 * @param mesh        its coordinates say which rank of each stage
 * @param graphs      (stages, run_count) the caller's, zeroed; takes compiled graphs, each
 * freed by the caller, also those that are there after a failure
 * @param footprints  (stages)
 * @return as gy_session_footprint
 */
GY_MUST_CHECK gy_status gy_session_foresee(gy_session *session, const gy_mesh *mesh,
                                           const gy_planned_run *runs, int run_count,
                                           gy_graph **graphs, gy_footprint *footprints);

/** What runs of the same fetches and batch exchanged. */
typedef struct gy_session_runs {
    gy_graph *graph;       /* scheduled: gy_graph_exchanges lists its exchanges */
    gy_graph_spent *spent; /* by their numbers, of all runs together */
    uint64_t count;        /* runs that ended well */
} gy_session_runs;

/** Of the batch that ran oftenest with these fetches; gy_session_runs_free frees it.
 * @return GY_OK; GY_NOTFOUND no run had them; GY_ARG; what compiling failed with. @threads
 * owner */
GY_MUST_CHECK gy_status gy_session_spent(const gy_session *session, const gy_node *fetches,
                                         int fetch_count, gy_session_runs *runs);
void gy_session_runs_free(gy_session_runs *runs);

/**
 * From now on programs run on this device what pays there. Before the first run, of a session
 * that has none. The device outlives the session. GY_NOMEM; GY_LIMIT. @threads owner
 */
GY_MUST_CHECK gy_status gy_session_set_device(gy_session *session, gy_device *device);

/** Take the time of each node in the runs to come. @threads owner */
void gy_session_set_timed(gy_session *session, bool is_timed);
/** The compiled graph of the last run, borrowed until the next; NULL: there was none. */
const gy_graph *gy_session_last_graph(const gy_session *session);
/** What each of its nodes took, in a session that is timed: (node_count); 0: it is none that
 * computes. */
void gy_session_last_times(const gy_session *session, int64_t *node_ns);

/**
 * From now on placement adds so many seconds for a byte that a rank holds, so that programs
 * take less memory and more time. On all ranks alike, before gy_session_decide and the first
 * run; 0, as at first: time alone counts. @threads owner
 */
void gy_session_price_memory(gy_session *session, double byte_s);
double gy_session_memory_price(const gy_session *session);

/**
 * The parameter's tensor if a run or gy_session_parameter has made it, else NULL: then it has
 * the value that its init, name and the session's seed give. Borrowed. @threads owner
 */
gy_tensor *gy_session_made(gy_session *session, const char *name);

/** What this rank has of a parameter. */
typedef struct gy_session_part {
    const gy_mesh *mesh;
    gy_type type;                        /* of the whole, with its placements */
    gy_view view;                        /* of the part: row-major, the session's memory */
    int64_t offsets[GY_TENSOR_RANK_MAX]; /* where the part begins in the whole */
    bool has_rows;         /* of gy_graph_rows_parameter: each rank may want any row */
    bool is_elsewhere;     /* other stages keep it: there is no part here, and it is not made */
    int replicas, replica; /* stages that keep the same part, and which of them this is */
} gy_session_part;

/** Do other stages keep the parameter, and not this one? @threads owner */
bool gy_session_is_elsewhere(const gy_session *session, const char *name);
/** Has the parameter a value, in this rank or another? Alike on all. @threads owner */
bool gy_session_has(gy_session *session, const char *name);

/** Find a parameter's part, which is made when it is first asked for. GY_NOTFOUND; GY_NOMEM;
 * what the session's source failed with. @threads owner */
gy_status gy_session_part_of(gy_session *session, const char *name, gy_session_part *part);

/**
 * Where first values of parameters come from instead of their inits: fill this rank's part of
 * parameter `name`, which begins at `offsets` of the whole.
 * @return GY_OK; GY_AGAIN not this one, which its init fills; a failure
 */
typedef gy_status (*gy_session_fill)(void *arg, const char *name, const int64_t *offsets,
                                     gy_tensor *tensor);
/** Takes effect on what is not made yet; `arg` outlives the session. */
void gy_session_set_fill(gy_session *session, gy_session_fill fill, void *arg);

#endif
