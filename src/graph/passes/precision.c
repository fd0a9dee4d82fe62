/*
 * Which element type each product works in. Where the graph or a pin asks for 16 bits, a
 * product's float32 operands are narrowed by casts before it, one of each value, so that a
 * parameter is narrowed once a run for all its readers; products and their sums stay float32.
 * All else keeps its type: norms, softmax, losses, sums and updates, whose parameters are the
 * float32 masters.
 *
 * A cast is element-wise: it is fused into what makes the value, and a value that the products
 * of both passes read is held in 16 bits alone.
 *
 * @source Micikevicius et al., "Mixed precision training", ICLR 2018; Kalamkar et al., "A study
 * of BFLOAT16 for deep learning training", 2019
 */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

/* Below so many results or terms of a sum, narrowing costs what the product gains
 * (docs/decisions/058-mixed-precision.md). */
enum { LEAST_SIDE = 32, LEAST_HEAD = 16 };

typedef struct narrowing {
    gy_pass pass;
    gy_value
        *casts; /* value number of `in` -> the same in 16 bits; [0, values) bf16, then f16 */
} narrowing;

static bool is_convolution(const gy_op *op)
{
    return op == &gy_ops_row_conv2d || op == &gy_ops_row_conv2d_input_gradient ||
           op == &gy_ops_row_conv2d_filter_gradient;
}

static bool is_matmul(const gy_op *op)
{
    return op == &gy_ops_row_matmul || op == &gy_ops_row_matmul_over_rows;
}

/* Which inputs of a row are operands of its products; 0: it has none. */
static uint32_t operands_of(const gy_op *op)
{
    return is_matmul(op) || is_convolution(op)           ? 3
           : op == &gy_ops_row_attention                 ? 7          /* q, k, v */
           : op == &gy_ops_row_attention_gradient        ? 7 | 1 << 5 /* and dout */
           : op == &gy_ops_row_attention_packed          ? 1
           : op == &gy_ops_row_attention_packed_gradient ? 1 | 1 << 3
                                                         : 0;
}

static bool is_product(const gy_op *op)
{
    return operands_of(op) != 0;
}

static bool is_operand(const gy_graph_node *node, int input)
{
    return (operands_of(node->op) >> input & 1) != 0;
}

/* Terms of each sum. */
static double terms_of(const gy_graph *graph, const gy_graph_node *node)
{
    const gy_type *a = gy_graph_type(graph, node->inputs[0]);
    GY_ASSERT(is_matmul(node->op) && a->rank >= 2);
    if (node->op == &gy_ops_row_matmul) {
        return (double)a->sizes[a->rank - (node->attributes.matmul.transpose_a ? 2 : 1)];
    }
    double terms = 1;
    for (int dim = 0; dim < a->rank - 1; dim++) {
        terms *= (double)a->sizes[dim];
    }
    return terms;
}

/* Kernels of convolutions read channels by sixteen. */
static bool has_blocks(const gy_graph *graph, const gy_graph_node *node)
{
    const gy_type *filters = node->op == &gy_ops_row_conv2d_filter_gradient
                                 ? &node->types[0]
                                 : gy_graph_type(graph, node->inputs[1]);
    GY_ASSERT(is_convolution(node->op) && filters->rank == 4);
    return filters->sizes[0] % 16 == 0 && filters->sizes[1] % 16 == 0;
}

/* Heads (B,T,H,d), or packed (B,T,H,3,d), that are long and wide enough. */
static bool has_large_heads(const gy_graph *graph, const gy_graph_node *node)
{
    const gy_type *q = gy_graph_type(graph, node->inputs[0]);
    GY_ASSERT(q->rank == 4 || q->rank == 5);
    return q->sizes[1] >= LEAST_SIDE && q->sizes[q->rank - 1] >= LEAST_HEAD;
}

static bool pays(const gy_graph *graph, const gy_graph_node *node)
{
    if (is_convolution(node->op)) {
        return has_blocks(graph, node);
    }
    if (!is_matmul(node->op)) {
        return has_large_heads(graph, node);
    }
    const gy_type *c = &node->types[0];
    GY_ASSERT(c->rank >= 2);
    double rows = 1;
    for (int dim = 0; dim < c->rank - 1; dim++) {
        rows *= (double)c->sizes[dim];
    }
    return rows >= LEAST_SIDE && (double)c->sizes[c->rank - 1] >= LEAST_SIDE &&
           terms_of(graph, node) >= LEAST_SIDE;
}

/* The type of a product's operands; why it is float32 all the same, or NULL. */
static gy_dtype choose(const gy_graph *graph, const gy_graph_node *node, const char **why)
{
    const gy_dtype pinned = (gy_dtype)node->mark.precision;
    *why = NULL;
    GY_ASSERT(is_product(node->op));
    if (pinned != GY_DTYPE_NONE) {
        *why = "pinned";
        return pinned;
    }
    if (graph->precision != GY_F32 && !pays(graph, node)) {
        *why = is_convolution(node->op) ? "channels no multiple of 16"
               : is_matmul(node->op)    ? "a side below 32 gains nothing"
                                        : "below 32 positions or heads of 16 gains nothing";
        return GY_F32;
    }
    return graph->precision;
}

/* `in` in 16 bits. */
static gy_value narrowed(narrowing *n, gy_value in, gy_dtype dtype, const gy_graph_node *reader)
{
    gy_graph *out = n->pass.out;
    const gy_graph_node *maker = gy_graph_at(n->pass.in, in);
    GY_ASSERT(dtype == GY_BF16 || dtype == GY_F16);
    GY_ASSERT(gy_graph_type(n->pass.in, in)->dtype == GY_F32);
    gy_value *made = &n->casts[(dtype == GY_F16 ? n->pass.in->value_count : 0) +
                               gy_graph_value(n->pass.in, in)];
    if (!gy_value_is_none(*made)) {
        return *made;
    }
    if (maker->op == &gy_ops_row_cast &&
        gy_graph_type(n->pass.in, maker->inputs[0])->dtype == dtype) {
        *made = gy_pass_get(&n->pass, maker->inputs[0]); /* it was in 16 bits before */
        return *made;
    }
    const gy_value wide = gy_pass_get(&n->pass, in);
    gy_type type = *gy_graph_type(out, wide);
    gy_attributes attributes;
    gy_text name = {.data = NULL};
    memset(&attributes, 0, sizeof(attributes));
    attributes.cast.dtype = dtype;
    type.dtype = dtype;
    gy_text_add(&name, "%s in %s", maker->name, gy_dtype_name(dtype));
    *made = gy_graph_apply_typed(out, &gy_ops_row_cast, &attributes, &wide, 1, &type, 1,
                                 name.status < 0 ? NULL : gy_text_get(&name));
    gy_text_free(&name);
    if (!gy_value_is_none(*made)) {
        out->nodes[made->node].mark = reader->mark;
    }
    return *made;
}

static bool is_wide(const gy_graph *graph, const gy_graph_node *node)
{
    GY_ASSERT(is_product(node->op));
    for (int k = 0; k < node->input_count; k++) {
        if (gy_graph_type(graph, node->inputs[k])->dtype != GY_F32) {
            return false;
        }
    }
    return true;
}

static gy_status narrow(narrowing *n, int32_t index, gy_dtype dtype)
{
    const gy_graph_node *node = &n->pass.in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX];
    GY_ASSERT(index >= 0 && index < n->pass.in->node_count);
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX && node->types[0].dtype == GY_F32);
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = is_operand(node, k) ? narrowed(n, node->inputs[k], dtype, node)
                                        : gy_pass_get(&n->pass, node->inputs[k]);
    }
    const gy_value value =
        gy_graph_apply_typed(n->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, node->types, node->output_count, node->name);
    GY_TRY(gy_graph_status(n->pass.out));
    GY_ASSERT(n->pass.out->nodes[value.node].output_count == node->output_count);
    gy_graph_inherit(&n->pass.out->nodes[value.node], node);
    for (int k = 0; k < node->output_count; k++) {
        gy_pass_set(&n->pass, (gy_value){index, k}, (gy_value){value.node, value.output + k});
    }
    return GY_OK;
}

static gy_status narrow_all(narrowing *n)
{
    const gy_graph *in = n->pass.in;
    const char *why;
    GY_ASSERT(n->casts != NULL && !in->is_placed);
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        const bool may = is_product(node->op) && is_wide(in, node);
        const gy_dtype dtype = may ? choose(in, node, &why) : GY_F32;
        if (dtype != GY_F32) {
            GY_TRY(narrow(n, i, dtype));
        } else {
            (void)gy_pass_copy(&n->pass, i);
            GY_TRY(gy_graph_status(n->pass.out));
        }
    }
    return GY_OK;
}

/* A product of f32, with operands of 16 bits or without. */
static bool is_counted(const gy_graph_node *node)
{
    GY_ASSERT(node->op != NULL);
    return is_product(node->op) && node->types[0].dtype == GY_F32;
}

static gy_precision_share share_of(const gy_graph *graph)
{
    gy_precision_share share = {.why = ""};
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const char *why = NULL;
        if (!is_counted(node)) {
            continue;
        }
        share.products++;
        if (gy_graph_type(graph, node->inputs[0])->dtype != GY_F32) {
            share.narrowed++;
        } else if (share.why[0] == '\0') {
            (void)choose(graph, node, &why);
            share.why = why != NULL ? why : "";
        }
    }
    GY_ASSERT(share.narrowed <= share.products);
    return share;
}

gy_status gy_pass_precision(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && in->precision != GY_DTYPE_NONE);
    narrowing n = {.casts = NULL};
    GY_TRY(gy_pass_begin(&n.pass, in));
    const size_t values = 2 * (size_t)in->value_count;
    n.casts = gy_alloc("graph.precision", (values + 1) * sizeof(*n.casts));
    for (size_t i = 0; n.casts != NULL && i < values; i++) {
        n.casts[i] = GY_NO_VALUE;
    }
    const gy_status status = n.casts == NULL ? GY_NOMEM : narrow_all(&n);
    GY_ASSERT(status < 0 || n.pass.out->node_count >= in->node_count);
    gy_free(n.casts);
    GY_TRY(gy_pass_end(&n.pass, status, out));
    (*out)->narrowed = share_of(*out);
    return GY_OK;
}

/* ---- what is asked for ---- */

static gy_status check(gy_dtype dtype)
{
    if (dtype != GY_F32 && dtype != GY_BF16 && dtype != GY_F16) {
        return gy_fail(GY_ARG, "precision %s, expected f32, bf16 or f16",
                       dtype > GY_DTYPE_NONE && dtype < GY_DTYPE_COUNT ? gy_dtype_name(dtype)
                                                                       : "of no type");
    }
    return GY_OK;
}

gy_status gy_graph_precision(gy_graph *graph, gy_dtype dtype)
{
    GY_TRY(gy_graph_status(graph));
    GY_TRY(check(dtype));
    GY_ASSERT(graph->batch == 0); /* the user's */
    graph->precision = dtype;
    return GY_OK;
}

gy_status gy_pin_precision(gy_node node, gy_dtype dtype)
{
    GY_TRY(gy_graph_status(node.graph));
    GY_TRY(check(dtype));
    gy_graph_node *pinned = &node.graph->nodes[node.index];
    GY_ASSERT(node.index >= 0 && node.index < node.graph->node_count);
    char text[160];
    if (!is_product(pinned->op) || pinned->types[0].dtype != GY_F32) {
        return gy_fail(GY_ARG,
                       "precision %s of %s (%s, %s): only products of f32, by gy_op_matmul, "
                       "gy_op_conv2d and gy_op_attention, take one",
                       gy_dtype_name(dtype), pinned->name, pinned->op->name,
                       gy_type_text(&pinned->types[0], text));
    }
    pinned->mark.precision = (uint8_t)dtype;
    if (node.graph->precision == GY_DTYPE_NONE) {
        node.graph->precision = GY_F32;
    }
    return GY_OK;
}

/* ---- for --explain ---- */

gy_status gy_graph_explain_precision(const gy_graph *graph, gy_text *text)
{
    const gy_precision_share *share = &graph->narrowed;
    GY_ASSERT(graph->precision != GY_DTYPE_NONE && graph->batch > 0);
    gy_text rows = {.data = NULL};
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const char *why = NULL;
        char type[160];
        if (!is_counted(node)) {
            continue;
        }
        const gy_dtype dtype = gy_graph_type(graph, node->inputs[0])->dtype;
        (void)choose(graph, node, &why);
        gy_text_add(&rows, "  ");
        gy_graph_print_name(node->name, &rows);
        gy_text_add(&rows, " %s %s: %s%s%s\n", node->op->name,
                    gy_type_text(&node->types[0], type), gy_dtype_name(dtype),
                    why != NULL ? ", " : "", why != NULL ? why : "");
    }
    gy_text_add(text, "precision: %d products of 16-bit operands with sums in f32, %d in f32\n",
                share->narrowed, share->products - share->narrowed);
    gy_text_add_bytes(text, gy_text_get(&rows), rows.size_bytes);
    const gy_status status = rows.status < 0 ? rows.status : text->status;
    gy_text_free(&rows);
    return status;
}
