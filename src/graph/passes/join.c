/*
 * Sums of many terms, as the gradient of a weight has them that each time step of a recurrent
 * model uses:
 *
 *   t(X0) G0 + t(X1) G1 + …   =   t([X0; X1; …]) [G0; G1; …]
 *
 * A product of few rows and a large result reads and writes the result more than it computes.
 * Up to JOINED of them become one, of the stacked operands, where its rows are fewer than its
 * result has elements. More would wait for all times: so the products of a stage still fill the
 * time in which it waits for its neighbours.
 *
 * A sum of pads that lie side by side, as the gradients of slices are, is a concat.
 *
 * Either way the sum is the same numbers in another order.
 *
 * @source lecture B, "Model Parallel Training"; Appleyard, Kočiský & Blunsom, "Optimizing
 * performance of recurrent neural networks on GPUs", 2016
 */
#include "graph/graph.h"

#include <string.h>

enum { JOINED = GY_OP_INPUTS_MAX, NONE = -1 };

/* A sum: terms [begin, begin + count) of all. */
typedef struct sum {
    int32_t begin, count;
    int32_t products, seen;  /* that are joined; those that the walk has passed */
    int32_t pending[JOINED]; /* (pending_count) nodes of `in`, not yet in a product */
    int32_t pending_count;
    gy_value total; /* of `out`: the joined products so far */
    bool is_concat; /* all terms are pads */
} sum;

typedef struct joiner {
    gy_pass pass;
    int32_t *uses;   /* [node] of its values, by nodes and roots */
    int32_t *sum_of; /* [node] the sum that an addition or a term is part of; NONE */
    int32_t *sum_at; /* [node] the sum whose last addition it is; NONE */
    gy_value *terms; /* of all sums, in the order of the additions */
    int32_t term_count;
    sum *sums;
    size_t sum_count, sum_capacity;
    int32_t *stack; /* [node] */
} joiner;

static const gy_graph_node *node_at(const joiner *j, int32_t index)
{
    GY_ASSERT(index >= 0 && index < j->pass.in->node_count);
    return &j->pass.in->nodes[index];
}

/* An addition of two values of its own sizes. */
static bool is_addition(const joiner *j, int32_t index)
{
    const gy_graph_node *node = node_at(j, index);
    if (node->op != &gy_ops_row_add ||
        (node->types[0].dtype != GY_F32 && node->types[0].dtype != GY_F64)) {
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (!gy_type_is_same_shape(gy_graph_type(j->pass.in, node->inputs[k]),
                                   &node->types[0])) {
            return false;
        }
    }
    return true;
}

/* t(a) b of few rows, which nobody else reads. */
static bool is_product(const joiner *j, gy_value term)
{
    GY_ASSERT(!gy_value_is_none(term));
    const gy_graph_node *node = node_at(j, term.node);
    if (node->op != &gy_ops_row_matmul || j->uses[term.node] != 1 || node->input_count != 2 ||
        !node->attributes.matmul.transpose_a || node->attributes.matmul.transpose_b ||
        node->attributes.matmul.activation != GY_ACTIVATION_NONE) {
        return false;
    }
    const gy_type *a = gy_graph_type(j->pass.in, node->inputs[0]);
    const gy_type *b = gy_graph_type(j->pass.in, node->inputs[1]);
    return a->rank == 2 && b->rank == 2 &&
           a->sizes[0] * (a->sizes[1] + b->sizes[1]) < a->sizes[1] * b->sizes[1];
}

static int64_t rows_of(const joiner *j, gy_value term)
{
    const gy_graph_node *node = node_at(j, term.node);
    GY_ASSERT(node->op == &gy_ops_row_matmul);
    return gy_graph_type(j->pass.in, node->inputs[0])->sizes[0];
}

/* Do the pads lie side by side, in some order, and fill the whole? Sorts them by place. */
static bool are_side_by_side(const joiner *j, gy_value *terms, int32_t count)
{
    int64_t end = 0;
    for (int32_t i = 0; i < count; i++) {
        const gy_graph_node *node = node_at(j, terms[i].node);
        if (node->op != &gy_ops_row_pad || j->uses[terms[i].node] != 1 ||
            node->attributes.slice.step != 1 ||
            node->attributes.slice.dim != node_at(j, terms[0].node)->attributes.slice.dim) {
            return false;
        }
        for (int32_t k = i; k > 0 && node_at(j, terms[k].node)->attributes.slice.begin <
                                         node_at(j, terms[k - 1].node)->attributes.slice.begin;
             k--) {
            const gy_value kept = terms[k];
            terms[k] = terms[k - 1];
            terms[k - 1] = kept;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const gy_attributes *attributes = &node_at(j, terms[i].node)->attributes;
        if (attributes->slice.begin != end) {
            return false;
        }
        end = attributes->slice.end;
    }
    return end == node_at(j, terms[0].node)->attributes.slice.size;
}

/* ---- finding sums ---- */

static void count_uses(joiner *j)
{
    const gy_graph *in = j->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        for (int k = 0; k < in->nodes[i].input_count; k++) {
            j->uses[in->nodes[i].inputs[k].node]++;
        }
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        j->uses[in->roots[i].value.node]++;
    }
}

/* The additions below `root` that it alone reads, and what they add up. */
static void collect(joiner *j, int32_t root, sum *made)
{
    int32_t depth = 0;
    GY_ASSERT(j->sum_of[root] == NONE && is_addition(j, root));
    *made = (sum){.begin = j->term_count, .total = GY_NO_VALUE};
    j->stack[depth++] = root;
    while (depth > 0) {
        const int32_t index = j->stack[--depth];
        for (int k = 0; k < 2; k++) {
            const gy_value input = node_at(j, index)->inputs[k];
            if (j->uses[input.node] == 1 && is_addition(j, input.node)) {
                j->sum_of[input.node] = (int32_t)j->sum_count;
                j->stack[depth++] = input.node;
            } else {
                j->terms[j->term_count++] = input;
            }
        }
    }
    made->count = j->term_count - made->begin;
    GY_ASSERT(made->count >= 2 && j->term_count <= 2 * j->pass.in->node_count);
}

/* The number of rows that most products have, if more than half of them do (a vote). */
static int64_t common_rows(const joiner *j, const gy_value *terms, int32_t count)
{
    int64_t rows = 0, votes = 0;
    for (int32_t i = 0; i < count; i++) {
        if (is_product(j, terms[i])) {
            rows = votes == 0 ? rows_of(j, terms[i]) : rows;
            votes += rows_of(j, terms[i]) == rows ? 1 : -1;
        }
    }
    return rows;
}

/* Which of its products are joined: those with as many rows. */
static void choose(joiner *j, sum *made)
{
    gy_value *terms = j->terms + made->begin;
    const int64_t rows = common_rows(j, terms, made->count);
    made->is_concat =
        made->count <= GY_OP_INPUTS_MAX && are_side_by_side(j, terms, made->count);
    for (int32_t i = 0; i < made->count && !made->is_concat; i++) {
        made->products += is_product(j, terms[i]) && rows_of(j, terms[i]) == rows;
    }
    made->products = made->products > 1 ? made->products : 0;
    for (int32_t i = 0; i < made->count; i++) {
        const bool is_joined =
            made->products > 0 && is_product(j, terms[i]) && rows_of(j, terms[i]) == rows;
        if (is_joined || made->is_concat) {
            j->sum_of[terms[i].node] = (int32_t)j->sum_count;
        }
    }
}

/* From the last node back, so that a sum is found by its last addition. */
static gy_status find_sums(joiner *j)
{
    count_uses(j);
    for (int32_t i = j->pass.in->node_count - 1; i >= 0; i--) {
        if (j->sum_of[i] != NONE || !is_addition(j, i)) {
            continue;
        }
        GY_TRY(GY_GROW("graph.join", j->sums, j->sum_capacity, j->sum_count + 1));
        sum *made = &j->sums[j->sum_count];
        collect(j, i, made);
        choose(j, made);
        j->sum_at[i] = (int32_t)j->sum_count++;
    }
    return GY_OK;
}

/* ---- the new graph ---- */

/* A node for one of `in`, with its name and stage. */
static gy_value apply(joiner *j, int32_t index, const gy_op *op,
                      const gy_attributes *attributes, const gy_value *inputs, int count)
{
    gy_graph *out = j->pass.out;
    out->mark = node_at(j, index)->mark;
    const gy_value made =
        gy_graph_apply(out, op, attributes, inputs, count, node_at(j, index)->name);
    out->mark = (gy_stage_mark){.source = -1};
    return made;
}

/* Of the pending products the one whose source comes first: where stages are cut between them,
 * gradients reach its stage last, so that it reads nothing that is made later. */
static int32_t first_source(const joiner *j, const sum *of)
{
    int32_t first = of->pending[of->pending_count - 1];
    GY_ASSERT(of->pending_count >= 1 && of->pending_count <= JOINED);
    for (int32_t i = 0; i < of->pending_count; i++) {
        const gy_stage_mark *mark = &node_at(j, of->pending[i])->mark;
        const gy_stage_mark *best = &node_at(j, first)->mark;
        GY_ASSERT(mark->source >= -1);
        if (mark->source >= 0 && (best->source < 0 || mark->source < best->source)) {
            first = of->pending[i];
        }
    }
    return first;
}

/* Operand k of the pending products, (rows, columns) each, as (products, rows, columns). */
static gy_value stack(joiner *j, const sum *of, int k)
{
    gy_value parts[JOINED];
    GY_ASSERT(of->pending_count > 1 && k < 2);
    for (int32_t i = 0; i < of->pending_count; i++) {
        const gy_value input = node_at(j, of->pending[i])->inputs[k];
        const gy_type *type = gy_graph_type(j->pass.in, input);
        gy_attributes attributes = {.bytes = {0}};
        attributes.shape.rank = 3;
        attributes.shape.sizes[0] = 1;
        attributes.shape.sizes[1] = type->sizes[0];
        attributes.shape.sizes[2] = type->sizes[1];
        const gy_value mapped = gy_pass_get(&j->pass, input);
        /* What a layer reads another stage may read as well, so its view is where the product
         * is; its gradient is read by its own products alone, which share one. */
        const int32_t at = k == 0 ? of->pending[i] : input.node;
        parts[i] = apply(j, at, &gy_ops_row_reshape, &attributes, &mapped, 1);
    }
    return apply(j, first_source(j, of), &gy_ops_row_concat, &(gy_attributes){.bytes = {0}},
                 parts, of->pending_count);
}

/* Add `value` to what the sum has. */
static void add_to(joiner *j, sum *to, int32_t index, gy_value value)
{
    GY_ASSERT(!gy_value_is_none(value) || gy_graph_status(j->pass.out) < 0);
    const gy_value both[] = {to->total, value};
    to->total = gy_value_is_none(to->total)
                    ? value
                    : apply(j, index, &gy_ops_row_add, &(gy_attributes){.bytes = {0}}, both, 2);
}

static void join_pending(joiner *j, sum *of)
{
    GY_ASSERT(of->pending_count >= 1 && of->pending_count <= JOINED);
    const int32_t at = first_source(j, of);
    if (of->pending_count == 1) {
        add_to(j, of, at, gy_pass_copy(&j->pass, at));
    } else {
        const gy_value stacks[] = {stack(j, of, 0), stack(j, of, 1)};
        add_to(j, of, at,
               apply(j, at, &gy_ops_row_matmul_over_rows, &(gy_attributes){.bytes = {0}},
                     stacks, 2));
    }
    of->pending_count = 0;
}

/* At the last addition: the terms that are not in `total`. */
static void finish(joiner *j, int32_t index, sum *of)
{
    const gy_value *terms = j->terms + of->begin;
    GY_ASSERT(of->pending_count == 0 && of->seen == of->products);
    if (of->is_concat) {
        gy_value parts[GY_OP_INPUTS_MAX];
        gy_attributes attributes = {.bytes = {0}};
        attributes.axis.dim = node_at(j, terms[0].node)->attributes.slice.dim;
        for (int32_t i = 0; i < of->count; i++) {
            parts[i] = gy_pass_get(&j->pass, node_at(j, terms[i].node)->inputs[0]);
        }
        of->total = apply(j, index, &gy_ops_row_concat, &attributes, parts, of->count);
    }
    for (int32_t i = 0; i < of->count && !of->is_concat; i++) {
        if (j->sum_of[terms[i].node] == NONE) {
            add_to(j, of, index, gy_pass_get(&j->pass, terms[i]));
        }
    }
    gy_pass_set(&j->pass, (gy_value){index, 0}, of->total);
}

static bool is_changed(const sum *of)
{
    return of->products > 0 || of->is_concat;
}

/* Of one stage and one precision, as far as a hand has said. */
static bool are_alike(const joiner *j, int32_t a, int32_t b)
{
    const gy_stage_mark *first = &node_at(j, a)->mark, *second = &node_at(j, b)->mark;
    return first->by_hand == second->by_hand && first->precision == second->precision;
}

static void walk(joiner *j, int32_t index)
{
    sum *at = j->sum_at[index] != NONE ? &j->sums[j->sum_at[index]] : NULL;
    sum *of = j->sum_of[index] != NONE ? &j->sums[j->sum_of[index]] : NULL;
    if (at != NULL && is_changed(at)) {
        finish(j, index, at);
    } else if (of == NULL || !is_changed(of)) {
        (void)gy_pass_copy(&j->pass, index);
    } else if (node_at(j, index)->op == &gy_ops_row_matmul) {
        if (of->pending_count > 0 && !are_alike(j, of->pending[0], index)) {
            join_pending(j, of);
        }
        of->pending[of->pending_count++] = index;
        of->seen++;
        if (of->pending_count == JOINED || of->seen == of->products) {
            join_pending(j, of);
        }
    }
}

static gy_status make_room(joiner *j)
{
    static const char what[] = "graph.join";
    const size_t nodes = (size_t)j->pass.in->node_count;
    j->uses = gy_alloc_zero(what, nodes, sizeof(*j->uses));
    j->sum_of = gy_alloc(what, nodes * sizeof(*j->sum_of));
    j->sum_at = gy_alloc(what, nodes * sizeof(*j->sum_at));
    j->stack = gy_alloc(what, (nodes + 2) * sizeof(*j->stack));
    j->terms = gy_alloc(what, (2 * nodes + 2) * sizeof(*j->terms));
    if (j->uses == NULL || j->sum_of == NULL || j->sum_at == NULL || j->stack == NULL ||
        j->terms == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < nodes; i++) {
        j->sum_of[i] = j->sum_at[i] = NONE;
    }
    return GY_OK;
}

gy_status gy_pass_join(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && !in->is_placed);
    joiner j = {.uses = NULL};
    GY_TRY(gy_pass_begin(&j.pass, in));
    gy_status status = make_room(&j);
    if (status == GY_OK) {
        status = find_sums(&j);
    }
    for (int32_t i = 0; i < in->node_count && status == GY_OK; i++) {
        walk(&j, i);
        status = gy_graph_status(j.pass.out);
    }
    gy_free(j.uses);
    gy_free(j.sum_of);
    gy_free(j.sum_at);
    gy_free(j.stack);
    gy_free(j.terms);
    gy_free(j.sums);
    return gy_pass_end(&j.pass, status, out);
}
