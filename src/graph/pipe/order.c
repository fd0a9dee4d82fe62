/*
 * Segments of a rank's program. What is needed is found backwards from the messages, each of
 * which has its segment, and from the loss: a node is of the earliest segment that needs it.
 * What nobody needs but an assignment or a fetch (gradients of parameters and their sums) comes
 * as early as what it reads allows. Each node then stands behind what it reads, and the order
 * within a segment stays.
 */
#include "graph/pipe/pipe.h"

typedef struct orderer {
    const gy_graph *in;
    int chunks;
    int32_t *segment; /* node -> its segment */
    bool *is_needed;  /* node -> by messages or the loss */
    bool *is_read;    /* node -> by any */
} orderer;

static int chunk_of(const orderer *o, int stage)
{
    GY_ASSERT(stage >= 0 && stage < gy_mesh_stages(&o->in->mesh));
    return stage / o->in->mesh.stages;
}

/* The segment that makes what is sent, or that wants what comes. */
static int segment_of_message(const orderer *o, const gy_graph_node *node)
{
    const bool sends = node->op == &gy_ops_row_send;
    GY_ASSERT(sends || node->op == &gy_ops_row_receive);
    const bool is_backward = sends ? node->attributes.message.is_made_backward
                                   : node->attributes.message.is_wanted_backward;
    const int chunk =
        chunk_of(o, sends ? node->attributes.message.from : node->attributes.message.to);
    return is_backward ? gy_pipe_input(o->chunks, chunk) : gy_pipe_forward(o->chunks, chunk);
}

static void need(orderer *o, int32_t index, int32_t segment)
{
    GY_ASSERT(segment >= 0 && segment < gy_pipe_segment_count(o->chunks));
    if (!o->is_needed[index] || segment < o->segment[index]) {
        o->segment[index] = segment;
    }
    o->is_needed[index] = true;
}

/* Backwards: the earliest segment that needs each node. */
static void find_needed(orderer *o)
{
    const gy_graph *in = o->in;
    const int32_t loss = in->roots[in->loss - 1].value.node;
    GY_ASSERT(loss >= 0 && loss < in->node_count);
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &in->nodes[i];
        if (node->op == &gy_ops_row_send) {
            need(o, i, segment_of_message(o, node));
        } else if (i == loss && node->op != &gy_ops_row_receive) {
            need(o, i, gy_pipe_forward(o->chunks, o->chunks - 1));
        }
        for (int k = 0; k < node->input_count; k++) {
            o->is_read[node->inputs[k].node] = true;
            if (o->is_needed[i]) {
                need(o, node->inputs[k].node, o->segment[i]);
            }
        }
    }
}

/* The one that makes gradients of parameters of the same stage. */
static int32_t behind(const orderer *o, int32_t segment)
{
    const int32_t v = o->chunks;
    GY_ASSERT(segment >= 0 && segment < gy_pipe_segment_count(v));
    return segment < v ? gy_pipe_weight(v, segment)
                       : segment + ((segment - v) % 2 == 0 ? 1 : 0);
}

/* What reads nothing that another node makes: it is there before all. */
static bool is_leaf(const gy_graph_node *node)
{
    return node->input_count == 0 && (node->op->flags & GY_OP_COLLECTIVE) == 0;
}

/* The parameter whose memory it is; -1: none. */
static int32_t parameter_of(const gy_graph *in, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(in, value);
    GY_ASSERT(in->is_placed);
    while ((node->op->flags & GY_OP_VIEW) != 0) {
        GY_ASSERT(node->input_count >= 1);
        value = node->inputs[0];
        node = gy_graph_at(in, value);
    }
    return node->op == &gy_ops_row_parameter ? value.node : -1;
}

/* Does it assign rows, which each micro-batch has for itself? */
static bool assigns_rows(const gy_graph *in, const gy_graph_node *node)
{
    const int32_t parameter =
        node->op == &gy_ops_row_assign ? parameter_of(in, node->inputs[0]) : -1;
    return parameter >= 0 && gy_graph_has_rows(&in->nodes[parameter]);
}

/* Forwards: those that nobody needs. */
static void find_rest(orderer *o)
{
    const int32_t last = gy_pipe_weight(o->chunks, 0);
    for (int32_t i = 0; i < o->in->node_count; i++) {
        const gy_graph_node *node = &o->in->nodes[i];
        int32_t most = -1;
        GY_ASSERT(o->segment[i] >= 0 && o->segment[i] <= last);
        if (is_leaf(node)) {
            o->segment[i] = 0;
            continue;
        }
        if (o->is_needed[i]) {
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            const int32_t input = node->inputs[k].node;
            GY_ASSERT(input < i);
            most = is_leaf(&o->in->nodes[input]) ? most : GY_MAX(most, o->segment[input]);
        }
        if (assigns_rows(o->in, node)) { /* behind all that read the old ones */
            o->segment[i] = last;
        } else if (node->op == &gy_ops_row_receive) {
            o->segment[i] = o->is_read[i] ? segment_of_message(o, node) : last;
        } else {
            o->segment[i] = most < 0 ? last : behind(o, most);
        }
    }
}

/* A message of the backward pass in the forward pass: a node would wait for itself. */
static gy_status check_messages(const orderer *o)
{
    for (int32_t i = 0; i < o->in->node_count; i++) {
        const gy_graph_node *node = &o->in->nodes[i];
        if (node->op == &gy_ops_row_receive && node->attributes.message.is_made_backward &&
            o->segment[i] < o->chunks) {
            return gy_fail(GY_STATE, "micro-batches: the forward pass reads %s", node->name);
        }
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(o->segment[node->inputs[k].node] <= o->segment[i]);
        }
    }
    return GY_OK;
}

/* Several micro-batches are under way: what one of them assigns, others may not read meanwhile
 * but where they assign it themselves, which goes in their order. */
static gy_status check_assigned(const orderer *o, int32_t assign)
{
    const gy_graph *in = o->in;
    const int32_t assigned = parameter_of(in, in->nodes[assign].inputs[0]);
    GY_ASSERT(assigned >= 0);
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        for (int k = node->op == &gy_ops_row_assign ? 1 : 0; k < node->input_count; k++) {
            if ((node->op->flags & GY_OP_VIEW) == 0 &&
                parameter_of(in, node->inputs[k]) == assigned &&
                o->segment[i] != o->segment[assign]) {
                return gy_fail(GY_ARG,
                               "micro-batches: parameter %s is assigned for each, and node %s "
                               "reads it elsewhere: run the micro-batches one after the other",
                               in->nodes[assigned].name, node->name);
            }
        }
    }
    return GY_OK;
}

static gy_status sort(const orderer *o, gy_graph **out, int32_t *segments)
{
    gy_pass pass;
    int32_t made = 0;
    GY_ASSERT(segments != NULL);
    GY_TRY(gy_pass_begin(&pass, o->in));
    for (int32_t s = 0; s < gy_pipe_segment_count(o->chunks); s++) {
        for (int32_t i = 0; i < o->in->node_count; i++) {
            if (o->segment[i] == s) {
                (void)gy_pass_copy(&pass, i); /* the graph keeps a failure */
                segments[made++] = s;
            }
        }
    }
    GY_ASSERT(made == o->in->node_count);
    return gy_pass_end(&pass, gy_graph_status(pass.out), out);
}

static gy_status order(orderer *o, gy_graph **out, int32_t *segments)
{
    GY_ASSERT(o->chunks >= 1 && o->in->loss <= o->in->root_count);
    find_needed(o);
    find_rest(o);
    GY_TRY(check_messages(o));
    for (int32_t i = 0; i < o->in->node_count; i++) {
        const gy_graph_node *node = &o->in->nodes[i];
        GY_TRY(node->op == &gy_ops_row_assign && !assigns_rows(o->in, node)
                   ? check_assigned(o, i)
                   : GY_OK);
    }
    return sort(o, out, segments);
}

void gy_pipe_join(int32_t *segments, int32_t count, int chunks)
{
    GY_ASSERT(chunks >= 1 && count >= 0);
    for (int32_t i = 0; i < count; i++) {
        GY_ASSERT(segments[i] < gy_pipe_segment_count(chunks));
        segments[i] -= segments[i] >= chunks && (segments[i] - chunks) % 2 == 1 ? 1 : 0;
    }
}

gy_status gy_pipe_order(const gy_graph *in, gy_graph **out, int32_t **segments)
{
    GY_ASSERT(in->is_placed && in->mesh.stages > 1 && in->loss > 0);
    const size_t nodes = (size_t)in->node_count + 1;
    gy_arena arena = {0};
    orderer o = {.in = in, .chunks = GY_MAX(in->mesh.chunks, 1)};
    o.segment = gy_arena_alloc(&arena, nodes * sizeof(int32_t));
    o.is_needed = gy_arena_alloc(&arena, nodes * sizeof(bool));
    o.is_read = gy_arena_alloc(&arena, nodes * sizeof(bool));
    int32_t *found = gy_alloc_zero("graph.segments", nodes, sizeof(*found));
    const bool is_there =
        o.segment != NULL && o.is_needed != NULL && o.is_read != NULL && found != NULL;
    const gy_status status = is_there ? order(&o, out, found) : GY_NOMEM;
    gy_arena_free(&arena);
    if (status < 0) {
        gy_free(found);
        return status;
    }
    *segments = found;
    return GY_OK;
}
