/**
 * A job's graph in memory, for the files of this room: columns of vertices, an array of edges,
 * parts as runs of vertices. A million clones are a run each list and 16 bytes a vertex and
 * edge.
 *
 * Copies of a prototype (what gy_dag_vertex was told) share everything but their number.
 */
#ifndef GY_FLOW_DAG_H
#define GY_FLOW_DAG_H

#include "base/base.h"

#include <gyre/flow.h>

#include <assert.h>

enum {
    GY_DAG_VERTICES_MAX = 1 << 28,
    GY_DAG_PORTS_MAX = 65535, /* of a vertex */
    GY_DAG_NAME_BYTES = 128,  /* of a function, stage, output */
    GY_DAG_MISTAKE_BYTES = 512,
};

typedef struct gy_proto {
    const char *function;               /* NULL: a command */
    const void *parameter;              /* (parameter_bytes) */
    const char *const *files;           /* NULL at the end; NULL: none */
    const char *const *command;         /* the same */
    const char *const *preferred_hosts; /* the same */
    size_t parameter_bytes, memory_bytes;
    int64_t output_bytes;
    uint32_t stage, base; /* base: vertices of the stage when it was made */
    uint32_t copies;
    int32_t inputs, outputs, ranks, hosts;
    uint8_t determinism;
} gy_proto;

/** The program's function of that name; NULL: it lists none. */
const gy_function *gy_dag_function(const gy_dag *dag, const char *name);

/** Output `output` of `from` goes to input `input` of `to`. */
typedef struct gy_dag_edge {
    uint32_t from, output, to;
    uint32_t input : 30, channel : 2;
} gy_dag_edge;
static_assert(sizeof(gy_dag_edge) == 16, "an edge is 16 bytes");

/** first, first + stride, …; of edges: a range, stride 1. */
typedef struct gy_dag_run {
    uint32_t first, count, stride;
} gy_dag_run;

/** Lists of a part; a vertex in `INPUTS` has all its input ports free. */
typedef enum gy_part_list {
    GY_PART_VERTICES,
    GY_PART_INPUTS,
    GY_PART_OUTPUTS,
    GY_PART_EDGES,
    GY_PART_LISTS
} gy_part_list;

typedef struct gy_dag_part {
    uint32_t at[GY_PART_LISTS], count[GY_PART_LISTS]; /* runs in gy_dag.runs */
} gy_dag_part;

/** Output `output` of `vertex` is file `number` of output `name`. */
typedef struct gy_dag_final {
    uint32_t vertex, output, name, number;
} gy_dag_final;

typedef struct gy_dag_stage {
    const char *name;
    uint32_t vertices;
    bool is_gate, is_growth; /* is_growth: of vertices that a growth function makes */
} gy_dag_stage;

typedef struct gy_dag_refinement {
    gy_refine_work work;
    const void *parameter;
    size_t parameter_bytes;
    int32_t part;
    uint32_t *ports; /* (port_count, 2) vertex and output, in order; owned */
    uint32_t port_count;
    uint32_t stages_left; /* of its part, that are not done; UINT32_MAX: not counted so far */
    bool is_done;
} gy_dag_refinement;

struct gy_dag {
    gy_flow *flow;
    const char *name;
    gy_arena arena; /* names, parameters */
    gy_proto *protos;
    size_t proto_count, proto_capacity;
    uint32_t *proto, *index, *inputs, *outputs; /* (vertex_count); ports: so many are there */
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
    size_t part_floor; /* parts below were made before the run: of no use in growth */
    bool is_running;   /* in growth: new stages are a mistake */
    gy_status status;  /* of the first mistake */
    char mistake[GY_DAG_MISTAKE_BYTES];
};

/** Keep a mistake, if it is the first. */
void gy_dag_fail(gy_dag *dag, gy_status status, const char *format, ...) GY_PRINTF(3, 4);
/** "stage[7]" */
const char *gy_dag_vertex_name(const gy_dag *dag, uint32_t vertex, char out[GY_DAG_NAME_BYTES]);
/** A number of the stage, made if it is not there. False: out of memory, or a new one in
 * growth. */
bool gy_dag_stage_of(gy_dag *dag, const char *name, uint32_t *stage);
/** Make room for `more` vertices; for marks of all vertices. False: a mistake was kept. */
bool gy_dag_reserve(gy_dag *dag, size_t more);
bool gy_dag_marks(gy_dag *dag);
/** A vertex of the prototype, within what was reserved. */
uint32_t gy_dag_add_vertex(gy_dag *dag, uint32_t proto);
/** False: a mistake was kept. */
bool gy_dag_add_edge(gy_dag *dag, gy_dag_edge edge);

/** A prototype, the last one then. False: a mistake was kept. */
bool gy_dag_add_proto(gy_dag *dag, const gy_vertex_options *options);
/** An edge between (vertex, port) and (vertex, port); a port UINT32_MAX is the next one of a
 * vertex with any number of them. Out of memory is kept. */
void gy_dag_join(gy_dag *dag, const uint32_t from[2], const uint32_t to[2], gy_channel channel);

/* ---- parts ---- */

/** A list while it is read; survives growth of the dag's arrays. */
typedef struct gy_part_cursor {
    const gy_dag *dag;
    uint32_t run, runs_end, at; /* at: within the run */
    bool is_output;             /* gy_part_next_port: of outputs */
    uint32_t port;
} gy_part_cursor;

/** The part's lists; NULL: not of this dag, or of before the run. */
const gy_dag_part *gy_part_get(const gy_dag *dag, gy_part part);
gy_part_cursor gy_part_read(const gy_dag *dag, const gy_dag_part *part, gy_part_list list);
bool gy_part_next(gy_part_cursor *cursor, uint32_t *vertex);
/** The next free port; a vertex with any number of ports has one. port: UINT32_MAX for those.
 */
bool gy_part_next_port(gy_part_cursor *cursor, uint32_t *vertex, uint32_t *port);
uint64_t gy_part_size(const gy_dag *dag, const gy_dag_part *part, gy_part_list list);

/** A new part, list after list, in the order of gy_part_list. */
typedef struct gy_part_maker {
    gy_dag *dag;
    gy_dag_part part;
    gy_part_list list;
} gy_part_maker;

void gy_part_begin_list(gy_part_maker *maker, gy_part_list list);
/** Out of memory is kept in the dag. */
void gy_part_add(gy_part_maker *maker, uint32_t vertex);
void gy_part_add_run(gy_part_maker *maker, gy_dag_run run);
void gy_part_add_edges(gy_part_maker *maker, uint32_t first, uint32_t count);
gy_part gy_part_end(gy_part_maker *maker);

static inline bool gy_proto_is_any(const gy_dag *dag, uint32_t vertex, bool is_output)
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    return (is_output ? proto->outputs : proto->inputs) == GY_PORTS_ANY;
}

#endif
