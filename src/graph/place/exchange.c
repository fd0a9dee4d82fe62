/*
 * The exchanges of a placed graph: what each sends and takes, by the same prices as the search
 * decided with.
 */
#include "graph/place/place_priv.h"

#include <string.h>

static gy_operation operation_of(const gy_op *op)
{
    GY_ASSERT((op->flags & GY_OP_COLLECTIVE) != 0);
    GY_ASSERT(op != &gy_ops_row_take_shard); /* its rank has all that it takes */
    return op == &gy_ops_row_allreduce        ? GY_OPERATION_ALLREDUCE
           : op == &gy_ops_row_reduce_scatter ? GY_OPERATION_REDUCE_SCATTER
           : op == &gy_ops_row_allgather      ? GY_OPERATION_ALLGATHER
                                              : GY_OPERATION_ALLTOALL;
}

static int64_t part_size(int64_t n, int rank, int ranks)
{
    GY_ASSERT(n >= 0 && rank >= 0 && rank < ranks);
    return gy_part_begin(n, rank + 1, ranks) - gy_part_begin(n, rank, ranks);
}

/* Elements that stay where they are when parts of one dimension become parts of another. */
static double kept_elements(const gy_type *shared, int from, int to, int ranks)
{
    GY_ASSERT(from != to && from < shared->rank && to < shared->rank);
    double rest = 1, kept = 0;
    for (int dim = 0; dim < shared->rank; dim++) {
        rest *= dim == from || dim == to ? 1 : (double)shared->sizes[dim];
    }
    for (int rank = 0; rank < ranks; rank++) {
        kept += (double)part_size(shared->sizes[from], rank, ranks) *
                (double)part_size(shared->sizes[to], rank, ranks) * rest;
    }
    return kept;
}

/* What all ranks of a line send together: each element goes to the p - 1 others once, in an
 * allreduce twice; an all-to-all moves what does not stay. */
static double line_elements(const gy_graph_exchange *exchange, const gy_type *shared, int ranks)
{
    const double count = (double)gy_type_count(shared);
    GY_ASSERT(ranks > 1 && count >= 0);
    if (exchange->operation == GY_OPERATION_ALLTOALL) {
        return count - kept_elements(shared, exchange->from.dim, exchange->to.dim, ranks);
    }
    return (exchange->operation == GY_OPERATION_ALLREDUCE ? 2 : 1) * (ranks - 1) * count;
}

static gy_graph_exchange message_of(const gy_graph *graph, int32_t index)
{
    const gy_graph_node *node = &graph->nodes[index];
    const bool sends = node->op == &gy_ops_row_send;
    const gy_value value = sends ? node->inputs[0] : (gy_value){index, 0};
    const double bytes = gy_stages_bytes(graph, value);
    GY_ASSERT(graph->mesh.stages > 1);
    return (gy_graph_exchange){.node = index,
                               .axis = -1,
                               .operation = GY_OPERATION_COUNT,
                               .sent_bytes = sends ? bytes : 0,
                               .predicted_s = gy_stages_transfer(&graph->mesh, bytes)};
}

gy_status gy_graph_exchanges(const gy_graph *graph, gy_graph_exchange *list, int32_t *count)
{
    GY_ASSERT(graph->is_placed && list != NULL);
    gy_prices prices[GY_MESH_MAX];
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        gy_prices_init(&prices[axis], graph->mesh.sizes[axis], &graph->mesh.links[axis]);
    }
    *count = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if ((node->op->flags & GY_OP_COLLECTIVE) == 0) {
            continue;
        }
        gy_graph_exchange *made = &list[(*count)++];
        if (node->op == &gy_ops_row_send || node->op == &gy_ops_row_receive) {
            *made = message_of(graph, i);
            continue;
        }
        *made = (gy_graph_exchange){.node = i,
                                    .axis = node->attributes.move.mesh_axis,
                                    .operation = operation_of(node->op),
                                    .from = node->attributes.move.from,
                                    .to = node->attributes.move.to};
        const int ranks = graph->mesh.sizes[made->axis];
        GY_ASSERT(made->axis < graph->mesh.axes && node->output_count == 1);
        const gy_type shared = gy_axis_type(&graph->mesh, &node->types[0], made->axis);
        const double element_bytes = (double)gy_dtype_bytes(shared.dtype);
        made->sent_bytes = line_elements(made, &shared, ranks) * element_bytes / ranks;
        made->predicted_s =
            gy_place_price_step(&prices[made->axis], made->from, made->to,
                                (double)gy_type_count(&shared) * element_bytes, ranks);
        GY_TRY(prices[made->axis].status);
    }
    return GY_OK;
}
