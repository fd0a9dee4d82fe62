/*
 * May a batch be cut by its rows? A node that works on rows apart from each other has a
 * signature by which inputs and outputs are cut where the rows are, as for ranks along `data`.
 * The loss, a mean over rows, need not have one; nor what normalises by the batch, which works
 * on each part by itself.
 */
#include "graph/graph.h"

typedef struct walk {
    const gy_graph *graph;
    uint32_t *rows; /* value number -> bits of the dimensions that are rows of the batch */
} walk;

static uint32_t rows_of(const walk *w, gy_value value)
{
    return w->rows[gy_graph_value(w->graph, value)];
}

static bool is_row(uint32_t rows, gy_placement placement)
{
    GY_ASSERT(placement.kind != GY_SHARD || placement.dim < GY_TENSOR_RANK_MAX);
    return placement.kind == GY_SHARD && (rows >> placement.dim & 1) != 0;
}

/* A value of one number has rows where its users want them. */
static bool fits(const walk *w, const gy_graph_node *node, const gy_signature *signature)
{
    bool any = false;
    for (int k = 0; k < node->input_count; k++) {
        const uint32_t rows = rows_of(w, node->inputs[k]);
        const bool is_cut = is_row(rows, signature->inputs[k]);
        GY_ASSERT(rows < 1u << GY_TENSOR_RANK_MAX);
        if (!is_cut && (rows != 0 || signature->inputs[k].kind != GY_REPLICATE) &&
            gy_graph_at(w->graph, node->inputs[k])->op != &gy_ops_row_fill) {
            return false;
        }
        any = any || is_cut;
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        any = any && signature->outputs[k].kind == GY_SHARD;
    }
    return any;
}

static int signatures_of(const walk *w, const gy_graph_node *node, gy_signature *list)
{
    gy_type inputs[GY_OP_INPUTS_MAX];
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(w->graph, node->inputs[k]);
    }
    const int count = node->op->placements == NULL
                          ? 0
                          : node->op->placements(&node->attributes, inputs, node->input_count,
                                                 node->types, list);
    return GY_MIN(count, GY_OP_SIGNATURES_MAX);
}

/* Its statistics are of the batch that it is given, by definition. */
static bool is_norm(const gy_op *op)
{
    return op == &gy_ops_row_batch_norm || op == &gy_ops_row_variance;
}

/* By which dimensions the node's outputs have rows; false: it mixes rows. */
static bool mark(walk *w, int32_t index)
{
    const gy_graph_node *node = &w->graph->nodes[index];
    GY_ASSERT(w->rows[node->first_value] == 0);
    gy_signature list[GY_OP_SIGNATURES_MAX];
    uint32_t read = 0;
    bool any = false;
    for (int k = 0; k < node->input_count; k++) {
        read |= rows_of(w, node->inputs[k]);
    }
    if (gy_graph_has_batch(node)) {
        w->rows[node->first_value] = 1;
    }
    if (read == 0 || node->op == &gy_ops_row_pin || is_norm(node->op)) {
        for (int32_t k = 0; k < node->output_count && read != 0; k++) {
            w->rows[node->first_value + k] = rows_of(w, node->inputs[0]);
        }
        return true;
    }
    const int count = signatures_of(w, node, list);
    for (int i = 0; i < count; i++) {
        if (fits(w, node, &list[i])) {
            any = true;
            for (int32_t k = 0; k < node->output_count; k++) {
                w->rows[node->first_value + k] |= 1u << list[i].outputs[k].dim;
            }
        }
    }
    return any;
}

gy_status gy_graph_check_rows(const gy_graph *bound)
{
    GY_ASSERT(bound->batch > 0 && bound->root_count == 1);
    walk w = {.graph = bound,
              .rows =
                  gy_alloc_zero("graph.rows", (size_t)bound->value_count + 1, sizeof(*w.rows))};
    gy_status status = w.rows == NULL ? GY_NOMEM : GY_OK;
    for (int32_t i = 0; i < bound->node_count && status >= 0; i++) {
        if (!mark(&w, i) && i != bound->roots[0].value.node) {
            char text[160];
            const gy_graph_node *node = &bound->nodes[i];
            status = gy_fail(GY_ARG,
                             "micro-batches: node %s (%s) makes %s of several rows of the "
                             "batch: the batch of this model cannot be split",
                             node->name, node->op->name, gy_type_text(&node->types[0], text));
        }
    }
    gy_free(w.rows);
    return status;
}
