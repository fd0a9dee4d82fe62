/**
 * A job's graph in memory, for the files of this room: columns of vertices, an array of edges,
 * and parts as runs of vertices. A part of a million clones has one run in each of its lists;
 * each vertex and edge takes 16 bytes.
 *
 * The clones of a prototype (the options of gy_dag_vertex) share everything but their number.
 */
#ifndef GY_FLOW_DAG_H
#define GY_FLOW_DAG_H

#include "base/base.h"

#include <gyre/flow.h>

#include <assert.h>

enum {
    GY_DAG_VERTICES_MAX = 1 << 28,
    GY_DAG_PORTS_MAX = 65535, /* ports of a vertex */
    GY_DAG_NAME_BYTES = 128,  /* length of the name of a function, stage or output */
    GY_DAG_ERROR_BYTES = 512,
};

typedef struct gy_proto {
    const char *function;               /* NULL: a command */
    const void *parameter;              /* (parameter_bytes) */
    const char *const *files;           /* NULL at the end; NULL: none */
    const char *const *command;         /* as `files` */
    const char *const *preferred_hosts; /* as `files` */
    size_t parameter_bytes, memory_bytes;
    int64_t output_bytes;
    /* base: number of vertices that the stage had when the prototype was made */
    uint32_t stage, base;
    uint32_t copies;
    int32_t inputs, outputs, ranks, hosts;
    uint8_t determinism;
} gy_proto;

/** Find the program's function of that name; NULL: it lists none. */
const gy_function *gy_dag_function(const gy_dag *dag, const char *name);

/** An edge from output `output` of `from` to input `input` of `to`. */
typedef struct gy_dag_edge {
    uint32_t from, output, to;
    uint32_t input : 30, channel : 2;
} gy_dag_edge;
static_assert(sizeof(gy_dag_edge) == 16, "an edge is 16 bytes");

/** The vertices first, first + stride, ...; for edges a contiguous range, stride 1. */
typedef struct gy_dag_run {
    uint32_t first, count, stride;
} gy_dag_run;

/** The lists of a part. All input ports of a vertex in INPUTS are free; likewise all output
 * ports of one in OUTPUTS. */
typedef enum gy_part_list {
    GY_PART_VERTICES,
    GY_PART_INPUTS,
    GY_PART_OUTPUTS,
    GY_PART_EDGES,
    GY_PART_LISTS
} gy_part_list;

typedef struct gy_dag_part {
    uint32_t at[GY_PART_LISTS], count[GY_PART_LISTS]; /* ranges of runs in gy_dag.runs */
} gy_dag_part;

/** A final output: output `output` of `vertex` becomes file `number` of the job's output
 * `name`. */
typedef struct gy_dag_final {
    uint32_t vertex, output, name, number;
} gy_dag_final;

typedef struct gy_dag_stage {
    const char *name;
    uint32_t vertices;
    bool is_gate, is_growth; /* is_growth: a refinement function creates the stage's vertices */
} gy_dag_stage;

typedef struct gy_dag_refinement {
    gy_refine_work work;
    const void *parameter;
    size_t parameter_bytes;
    int32_t part;
    uint32_t *ports; /* (port_count, 2) vertex and output, in order; owned */
    uint32_t port_count;
    uint32_t stages_left; /* unfinished stages of its part; UINT32_MAX: not counted yet */
    bool is_done;
} gy_dag_refinement;

struct gy_dag {
    gy_flow *flow;
    const char *name;
    gy_arena arena; /* memory of names and parameters */
    gy_proto *protos;
    size_t proto_count, proto_capacity;
    uint32_t *proto, *index, *inputs,
        *outputs; /* (vertex_count); inputs, outputs: numbers of ports */
    size_t vertex_count, vertex_capacity;
    gy_dag_edge *edges;
    size_t edge_count, edge_capacity;
    gy_dag_run *runs;
    size_t run_count, run_capacity;
    gy_dag_part *parts;
    size_t part_count, part_capacity;
    gy_dag_final *finals;
    size_t final_count, final_capacity;
    const char **output_names;
    size_t name_count, name_capacity;
    gy_dag_stage *stages;
    size_t stage_count, stage_capacity;
    gy_dag_refinement *refinements;
    size_t refinement_count, refinement_capacity;
    uint32_t *marks; /* (mark_capacity) scratch, all 0 between calls */
    size_t mark_capacity;
    /* parts below this number were made before the run; refinement cannot use them */
    size_t part_floor;
    bool is_running;  /* during refinement: making a new stage is an error */
    gy_status status; /* status of the first error */
    char error[GY_DAG_ERROR_BYTES];
};

/** The text of gy_dag_status; NULL: no call has failed. */
static inline const char *gy_dag_failure(const gy_dag *dag)
{
    return dag->status < 0 ? dag->error : NULL;
}
/** Record an error, if it is the graph's first. */
void gy_dag_fail(gy_dag *dag, gy_status status, const char *format, ...) GY_PRINTF(3, 4);
/** Write a vertex's name for messages, "stage[7]"; returns `out`. */
const char *gy_dag_vertex_name(const gy_dag *dag, uint32_t vertex, char out[GY_DAG_NAME_BYTES]);
/** Find a stage's number, and make the stage when it is new. False: out of memory, or a new
 * stage during refinement. */
bool gy_dag_stage_of(gy_dag *dag, const char *name, uint32_t *stage);
/** Make room for `more` vertices. False: out of memory, which the dag records. */
bool gy_dag_reserve(gy_dag *dag, size_t more);
/** Make room for the marks of all vertices. False: as gy_dag_reserve. */
bool gy_dag_marks(gy_dag *dag);
/** Add a vertex of the prototype in the room that gy_dag_reserve made. */
uint32_t gy_dag_add_vertex(gy_dag *dag, uint32_t proto);
/** Add an edge. False: an error, which the dag records. */
bool gy_dag_add_edge(gy_dag *dag, gy_dag_edge edge);

/** Append a prototype. False: an error, which the dag records. */
bool gy_dag_add_proto(gy_dag *dag, const gy_vertex_options *options);
/** Add an edge between (vertex, port) and (vertex, port). A port UINT32_MAX is the next port of
 * a vertex with any number of ports. The dag records an error. */
void gy_dag_join(gy_dag *dag, const uint32_t from[2], const uint32_t to[2], gy_channel channel);

/* ---- parts ---- */

/** A position in a list; it stays valid when the dag's arrays are reallocated. */
typedef struct gy_part_cursor {
    const gy_dag *dag;
    uint32_t run, runs_end, at; /* at: position within the run */
    bool is_output;             /* for gy_flow_part_next_port: iterate over outputs */
    uint32_t port;
} gy_part_cursor;

/** Get a part's lists; NULL: a part of another dag, or one from before the run. */
const gy_dag_part *gy_flow_part_get(const gy_dag *dag, gy_part part);
gy_part_cursor gy_flow_part_read(const gy_dag *dag, const gy_dag_part *part, gy_part_list list);
bool gy_flow_part_next(gy_part_cursor *cursor, uint32_t *vertex);
/** Get the next free port. A vertex with any number of ports counts as one, with port
 * UINT32_MAX.
 */
bool gy_flow_part_next_port(gy_part_cursor *cursor, uint32_t *vertex, uint32_t *port);
uint64_t gy_flow_part_size(const gy_dag *dag, const gy_dag_part *part, gy_part_list list);

/** A part under construction; its lists are filled in the order of gy_part_list. */
typedef struct gy_part_maker {
    gy_dag *dag;
    gy_dag_part part;
    gy_part_list list;
} gy_part_maker;

void gy_flow_part_begin_list(gy_part_maker *maker, gy_part_list list);
/** Append to the current list; the dag records a lack of memory. */
void gy_flow_part_add(gy_part_maker *maker, uint32_t vertex);
void gy_flow_part_add_run(gy_part_maker *maker, gy_dag_run run);
void gy_flow_part_add_edges(gy_part_maker *maker, uint32_t first, uint32_t count);
gy_part gy_flow_part_end(gy_part_maker *maker);

static inline bool gy_proto_is_any(const gy_dag *dag, uint32_t vertex, bool is_output)
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    return (is_output ? proto->outputs : proto->inputs) == GY_PORTS_ANY;
}

#endif
