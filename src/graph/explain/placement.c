/*
 * Where the values of a scheduled graph live, and why: a line a value with its placement along
 * each axis of the mesh, how it came there and which nodes wanted it so; and a line an exchange
 * with what it sends and takes, by prediction and, after runs, as measured.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_WIDTH_MAX = 44, TYPE_WIDTH_MAX = 28, NAMED_MAX = 2 };

static bool is_move(const gy_op *op)
{
    return ((op->flags & GY_OP_COLLECTIVE) != 0 && op != &gy_ops_row_send &&
            op != &gy_ops_row_receive) ||
           op == &gy_ops_row_take_shard;
}

/* ---- for whom ---- */

/* Readers of a value so far: the first few by name. */
typedef struct readers {
    const gy_graph *graph;
    int count;
    gy_text *text;
} readers;

static void add_reader(readers *r, const char *name, const char *what)
{
    GY_ASSERT(r->count >= 0);
    if (r->count < NAMED_MAX) {
        gy_text_add(r->text, "%s", r->count > 0 ? ", " : "");
        gy_graph_print_name(name, r->text);
        gy_text_add(r->text, "%s", what);
    }
    r->count++;
}

static bool reads(const gy_graph_node *node, int32_t index)
{
    GY_ASSERT(node->input_count >= 0 && index >= 0);
    const int first = node->op == &gy_ops_row_assign ? 1 : 0;
    for (int k = first; k < node->input_count; k++) {
        if (node->inputs[k].node == index) {
            return true;
        }
    }
    return false;
}

/* Those that read the value itself or what further moves make of it. */
static void find_readers(readers *r, int32_t index)
{
    const gy_graph *graph = r->graph;
    GY_ASSERT(index >= 0 && index < graph->node_count);
    for (int32_t i = index + 1; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if (!reads(node, index)) {
            continue;
        }
        if (is_move(node->op)) {
            find_readers(r, i);
        } else if (node->op == &gy_ops_row_assign) {
            add_reader(r, gy_graph_at(graph, node->inputs[0])->name, ", which is kept so");
        } else {
            add_reader(r, node->name, "");
        }
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        if (graph->roots[i].value.node == index &&
            graph->nodes[index].op != &gy_ops_row_assign) {
            add_reader(r, "the one who fetches it", "");
        }
    }
}

static void print_readers(const gy_graph *graph, int32_t index, gy_text *text)
{
    readers r = {.graph = graph, .text = text};
    GY_ASSERT(is_move(graph->nodes[index].op) || /* nobody asks why else */
              graph->nodes[index].op == &gy_ops_row_receive);
    find_readers(&r, index);
    if (r.count > NAMED_MAX) {
        gy_text_add(text, " and %d more", r.count - NAMED_MAX);
    }
}

/* ---- what does not divide ---- */

/* Would the axis cut dimension `dim` of the input, were it to divide? An axis `data` cuts rows
 * alone, an axis `model` none: they stand first. */
static bool may_cut(const gy_graph *graph, const gy_type *input, int axis, int dim)
{
    const gy_axis_kind kind = graph->mesh.kinds[axis];
    GY_ASSERT(dim < input->rank && kind < GY_AXIS_KINDS);
    const bool is_rows = dim == 0 && input->sizes[0] % graph->batch == 0;
    return kind == GY_AXIS_AUTO || (kind == GY_AXIS_DATA) == is_rows;
}

/* A cut of a view whose parts would not have the same elements before and after. */
typedef struct undivided {
    int64_t size; /* -1: there is none */
    int dim;      /* of the result */
} undivided;

static undivided undivided_cut(const gy_graph *graph, const gy_graph_node *node, int axis)
{
    const int ranks = graph->mesh.sizes[axis];
    GY_ASSERT(graph->is_placed && ranks >= 1);
    if ((node->op->flags & GY_OP_VIEW) == 0 || node->op->placements == NULL || ranks == 1) {
        return (undivided){-1, 0};
    }
    GY_ASSERT(node->input_count >= 1 && node->output_count == 1);
    const gy_type *from = gy_graph_type(graph, node->inputs[0]), *to = &node->types[0];
    gy_signature list[GY_OP_SIGNATURES_MAX];
    memset(list, 0, sizeof(list));
    const int count = node->op->placements(&node->attributes, from, 1, to, list);
    for (int i = 0; i < GY_MIN(count, GY_OP_SIGNATURES_MAX); i++) {
        const gy_placement in = list[i].inputs[0], out = list[i].outputs[0];
        if (in.kind != GY_SHARD || out.kind != GY_SHARD ||
            !may_cut(graph, from, axis, in.dim)) {
            continue;
        }
        const int64_t before = from->sizes[in.dim], after = to->sizes[out.dim];
        if (before != after && (before % ranks != 0 || after % ranks != 0)) {
            return (undivided){after % ranks != 0 ? after : before, out.dim};
        }
    }
    return (undivided){-1, 0};
}

/* The node that made a value, before its moves. */
static const gy_graph_node *maker(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    while (is_move(node->op)) {
        GY_ASSERT(node->input_count == 1 && node->inputs[0].node < value.node);
        value = node->inputs[0];
        node = gy_graph_at(graph, value);
    }
    return node;
}

/* Of a view the cut that it cannot have; of what is whole and reads such a view, the same. */
static void print_undivided_along(const gy_graph *graph, const gy_graph_node *node, int axis,
                                  gy_text *text)
{
    const char *name = gy_mesh_axis_name(&graph->mesh, axis);
    const int ranks = graph->mesh.sizes[axis];
    const bool is_whole = node->types[0].placement[axis].kind == GY_REPLICATE;
    undivided cut = undivided_cut(graph, node, axis);
    GY_ASSERT(cut.size != 0); /* nothing of nothing divides */
    if (cut.size >= 0) {
        gy_text_add(text, is_whole ? "whole along %s: " : "of %s: ", name);
        gy_text_add(text, "dimension %d has %lld, which does not divide over %d ranks", cut.dim,
                    (long long)cut.size, ranks);
        return;
    }
    for (int k = 0; is_whole && k < node->input_count; k++) {
        const gy_graph_node *made = maker(graph, node->inputs[k]);
        cut = undivided_cut(graph, made, axis);
        if (cut.size >= 0) {
            gy_text_add(text, "whole along %s: %lld in ", name, (long long)cut.size);
            gy_graph_print_name(made->name, text);
            gy_text_add(text, " does not divide over %d ranks", ranks);
            return;
        }
    }
}

static void print_undivided(const gy_graph *graph, const gy_graph_node *node, gy_text *text)
{
    const size_t begin = text->size_bytes;
    GY_ASSERT(node->output_count >= 1);
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        const size_t before = text->size_bytes;
        gy_text one = {.data = NULL};
        print_undivided_along(graph, node, axis, &one);
        if (one.size_bytes > 0) {
            gy_text_add(text, "%s%s", before > begin ? "; " : "", gy_text_get(&one));
        }
        gy_text_free(&one);
    }
}

/* ---- values ---- */

/* The columns of the table of values. */
typedef struct widths {
    int name, type;
} widths;

static int value_name_width(const gy_graph_node *node, int32_t output)
{
    return (int)GY_MIN(strlen(node->name), 200) + (output > 0 ? 2 : 0);
}

static widths measure(const gy_graph *graph)
{
    GY_ASSERT(graph->mesh.axes >= 1 && graph->mesh.axes <= GY_MESH_MAX);
    widths w = {.name = 5, .type = 4};
    char type[160];
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < graph->nodes[i].output_count; k++) {
            w.name = GY_MAX(w.name, value_name_width(&graph->nodes[i], k));
            w.type = GY_MAX(w.type, (int)strlen(gy_type_text(&graph->nodes[i].types[k], type)));
        }
    }
    return (widths){GY_MIN(w.name, NAME_WIDTH_MAX), GY_MIN(w.type, TYPE_WIDTH_MAX)};
}

static void print_spaces(gy_text *text, int count)
{
    gy_text_add(text, "%*s", GY_MAX(count, 0), "");
}

/* "allreduce along model, P(sum) -> R: 16.0 KiB a rank, 0.012 ms, for add_4" */
static void print_exchange(const gy_graph *graph, const gy_graph_exchange *exchange,
                           gy_text *text)
{
    char from[16], to[16], bytes[32];
    GY_ASSERT(exchange->sent_bytes >= 0 && exchange->predicted_s >= 0);
    gy_text_add(text, "%s along %s, %s -> %s: %s a rank, %.3f ms, for ",
                gy_operation_name(exchange->operation),
                gy_mesh_axis_name(&graph->mesh, exchange->axis),
                gy_graph_placement_text(&exchange->from, from),
                gy_graph_placement_text(&exchange->to, to),
                gy_text_bytes(bytes, (uint64_t)(exchange->sent_bytes + 0.5)),
                1e3 * exchange->predicted_s);
    print_readers(graph, exchange->node, text);
}

static void print_cut(const gy_graph *graph, int32_t index, gy_text *text)
{
    const gy_graph_node *node = &graph->nodes[index];
    char from[16], to[16];
    GY_ASSERT(node->op == &gy_ops_row_take_shard);
    gy_text_add(text, "cut here along %s, %s -> %s, for ",
                gy_mesh_axis_name(&graph->mesh, node->attributes.move.mesh_axis),
                gy_graph_placement_text(&node->attributes.move.from, from),
                gy_graph_placement_text(&node->attributes.move.to, to));
    print_readers(graph, index, text);
}

static void print_value(const gy_graph *graph, int32_t index, int32_t output, const widths *w,
                        gy_text *text)
{
    const gy_graph_node *node = &graph->nodes[index];
    const gy_type *type = &node->types[output];
    char one[160];
    GY_ASSERT(output >= 0 && output < node->output_count);
    gy_text_add(text, "  ");
    gy_graph_print_name(node->name, text);
    if (output > 0) {
        gy_text_add(text, ".%d", (int)output);
    }
    print_spaces(text, w->name - value_name_width(node, output));
    gy_text_add(text, "  %-*s", w->type, gy_type_text(type, one));
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        gy_text_add(text, "  %-6s", gy_graph_placement_text(&type->placement[axis], one));
    }
}

/* Spaces at a line's end are dropped. */
static void end_line(gy_text *text)
{
    while (text->size_bytes > 0 && text->data[text->size_bytes - 1] == ' ') {
        text->data[--text->size_bytes] = '\0';
    }
    gy_text_add(text, "\n");
}

/* `exchange` is the first one that stands at node `first` or behind it. */
static void print_values(const gy_graph *graph, const gy_graph_exchange *exchange, int32_t left,
                         gy_text *text)
{
    const widths w = measure(graph);
    GY_ASSERT(left >= 0);
    gy_text_add(text, "  %-*s  %-*s", w.name, "value", w.type, "type");
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        gy_text_add(text, "  %-6s", gy_mesh_axis_name(&graph->mesh, axis));
    }
    gy_text_add(text, "  how and why\n");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int32_t k = 0; k < node->output_count; k++) {
            print_value(graph, i, k, &w, text);
            gy_text_add(text, "  ");
            if (left > 0 && exchange->node == i) {
                print_exchange(graph, exchange, text);
            } else if (node->op == &gy_ops_row_take_shard) {
                print_cut(graph, i, text);
            } else if (k == 0) {
                print_undivided(graph, node, text);
            }
            end_line(text);
        }
        const bool is_told = left > 0 && exchange->node == i;
        exchange += is_told ? 1 : 0;
        left -= is_told ? 1 : 0;
    }
}

/* ---- exchanges ---- */

/* What is told of exchanges beside the prediction. */
typedef struct report {
    const gy_graph_spent *spent; /* by number; NULL: nothing ran */
    uint64_t runs;
    int lines_max; /* 0: all */
} report;

static int by_time(const void *a, const void *b)
{
    const gy_graph_exchange *x = a, *y = b;
    if (x->predicted_s != y->predicted_s) {
        return x->predicted_s > y->predicted_s ? -1 : 1;
    }
    return x->node < y->node ? -1 : 1;
}

/* What stands behind a column's name is of one run. */
static void print_spent(const gy_graph_spent *spent, uint64_t runs, gy_text *text)
{
    char bytes[32];
    const double of = (double)GY_MAX(runs, 1);
    GY_ASSERT(spent->count >= runs); /* a run that failed may have had some */
    gy_text_add(text, "  %10s %9.3f %9.3f",
                gy_text_bytes(bytes, (uint64_t)((double)spent->sent_bytes / of + 0.5)),
                1e3 * (spent->hidden_s + spent->exposed_s) / of, 1e3 * spent->exposed_s / of);
}

static void print_sums(const gy_graph_exchange *list, int32_t count, const report *told,
                       gy_text *text)
{
    char bytes[32];
    double sent_bytes = 0, predicted_s = 0;
    gy_graph_spent all = {.count = told->runs};
    GY_ASSERT(count > 0);
    for (int32_t i = 0; i < count; i++) {
        sent_bytes += list[i].sent_bytes;
        predicted_s += list[i].predicted_s;
        if (told->spent != NULL) {
            all.sent_bytes += told->spent[i].sent_bytes;
            all.hidden_s += told->spent[i].hidden_s;
            all.exposed_s += told->spent[i].exposed_s;
        }
    }
    gy_text_add(text, "  %-14s %-6s %-6s    %-6s  %10s %9.3f", "all", "", "", "",
                gy_text_bytes(bytes, (uint64_t)(sent_bytes + 0.5)), 1e3 * predicted_s);
    if (told->spent != NULL) {
        print_spent(&all, told->runs, text);
    }
    end_line(text);
}

/* Whose value the exchange moves. */
static const char *moved_name(const gy_graph *graph, const gy_graph_node *node)
{
    GY_ASSERT(node->input_count <= 1);
    return node->input_count == 0 ? node->name : gy_graph_at(graph, node->inputs[0])->name;
}

/* Kind, axis and placements. */
static void print_kind(const gy_graph *graph, const gy_graph_exchange *exchange, gy_text *text)
{
    char from[16], to[16];
    GY_ASSERT(exchange->axis < graph->mesh.axes);
    if (exchange->axis < 0) {
        const gy_graph_node *node = &graph->nodes[exchange->node];
        gy_text_add(text, "  %-14s %-6s %-6s %s %-6d", node->op->name, "pipe", "",
                    node->op == &gy_ops_row_send ? "->" : "<-",
                    (int)node->attributes.message.peer);
        return;
    }
    gy_text_add(text, "  %-14s %-6s %-6s -> %-6s", gy_operation_name(exchange->operation),
                gy_mesh_axis_name(&graph->mesh, exchange->axis),
                gy_graph_placement_text(&exchange->from, from),
                gy_graph_placement_text(&exchange->to, to));
}

/* `number` is that of the exchange. */
static void print_line(const gy_graph *graph, const gy_graph_exchange *exchange, int32_t number,
                       const report *told, gy_text *text)
{
    char bytes[32];
    const gy_graph_node *node = &graph->nodes[exchange->node];
    GY_ASSERT(node->input_count <= 1 && number >= 0);
    print_kind(graph, exchange, text);
    gy_text_add(text, "  %10s %9.3f",
                gy_text_bytes(bytes, (uint64_t)(exchange->sent_bytes + 0.5)),
                1e3 * exchange->predicted_s);
    if (told->spent != NULL) {
        print_spent(&told->spent[number], told->runs, text);
    }
    gy_text_add(text, "  ");
    gy_graph_print_name(moved_name(graph, node), text);
    if (node->op != &gy_ops_row_send) {
        gy_text_add(text, ", for ");
        print_readers(graph, exchange->node, text);
    }
    gy_text_add(text, "\n");
}

/* Sorts the list, which stands in the order of numbers. */
static void print_exchanges(const gy_graph *graph, gy_graph_exchange *list, int32_t count,
                            const report *told, gy_text *text)
{
    int32_t *numbers =
        gy_alloc("graph.explain", ((size_t)graph->node_count + 1) * sizeof(*numbers));
    if (numbers == NULL) {
        text->status = GY_NOMEM;
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        GY_ASSERT(i == 0 || list[i - 1].node < list[i].node);
        numbers[list[i].node] = i;
    }
    const int32_t shown = told->lines_max > 0 ? GY_MIN(count, (int32_t)told->lines_max) : count;
    gy_text_add(text, "  %-14s %-6s %-6s    %-6s  %10s %9s", "exchange", "axis", "from", "to",
                "sent", "ms");
    gy_text_add(text, "%s  value, and the nodes that read it so\n",
                told->spent == NULL ? "" : "     counted  measured   exposed");
    print_sums(list, count, told, text);
    qsort(list, (size_t)count, sizeof(*list), by_time);
    for (int32_t i = 0; i < shown; i++) {
        print_line(graph, &list[i], numbers[list[i].node], told, text);
    }
    if (shown < count) {
        gy_text_add(text, "  and %d more\n", (int)(count - shown));
    }
    gy_free(numbers);
}

static bool reads_alike(const gy_placement *a, const gy_placement *b)
{
    char one[16], other[16];
    return strcmp(gy_graph_placement_text(a, one), gy_graph_placement_text(b, other)) == 0;
}

static bool is_like(const gy_graph_exchange *a, const gy_graph_exchange *b)
{
    return a->operation == b->operation && a->axis == b->axis &&
           reads_alike(&a->from, &b->from) && reads_alike(&a->to, &b->to);
}

/* A line for each kind of exchange, in the order in which they come first. */
static void print_kinds(const gy_graph *graph, const gy_graph_exchange *list, int32_t count,
                        gy_text *text)
{
    char from[16], to[16], bytes[32];
    for (int32_t i = 0; i < count; i++) {
        double sent_bytes = 0;
        int32_t alike = 0, first = 0;
        while (!is_like(&list[first], &list[i])) {
            first++;
        }
        for (int32_t k = i; first == i && k < count; k++) {
            alike += is_like(&list[k], &list[i]) ? 1 : 0;
            sent_bytes += is_like(&list[k], &list[i]) ? list[k].sent_bytes : 0;
        }
        if (alike > 0) {
            GY_ASSERT(list[i].axis >= 0 && list[i].axis < graph->mesh.axes);
            gy_text_add(text, "  sum: %3d %s along %s, %s -> %s: %s a rank\n", (int)alike,
                        gy_operation_name(list[i].operation),
                        gy_mesh_axis_name(&graph->mesh, list[i].axis),
                        gy_graph_placement_text(&list[i].from, from),
                        gy_graph_placement_text(&list[i].to, to),
                        gy_text_bytes(bytes, (uint64_t)(sent_bytes + 0.5)));
        }
    }
}

/* ---- both ---- */

static gy_status explain(const gy_graph *graph, bool has_values, const report *told,
                         gy_text *text)
{
    GY_ASSERT(graph->is_placed);
    gy_graph_exchange *list =
        gy_alloc("graph.explain", ((size_t)graph->node_count + 1) * sizeof(*list));
    int32_t count = 0;
    if (list == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = gy_graph_exchanges(graph, list, &count);
    const bool is_uncut = has_values && graph->mesh.stages > 1; /* before there are messages */
    if (status >= 0) {
        if (has_values) {
            print_values(graph, list, count, text);
        }
        gy_text_add(text, "== exchanges of a run: %d%s%s\n", (int)count,
                    is_uncut ? " within stages, whose messages stand below" : "",
                    count > 0 ? ", by predicted time" : "");
        if (has_values) {
            print_kinds(graph, list, count, text);
        }
        if (count > 0) {
            print_exchanges(graph, list, count, told, text);
        }
    }
    gy_free(list);
    return status;
}

gy_status gy_graph_explain_placement(const gy_graph *graph, gy_text *text)
{
    GY_ASSERT(graph->mesh.axes >= 1);
    gy_text_add(text, "== placement: mesh ");
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        gy_text_add(text, "%s%s=%d", axis == 0 ? "" : ",",
                    gy_mesh_axis_name(&graph->mesh, axis), graph->mesh.sizes[axis]);
    }
    if (graph->mesh.stages > 1) {
        gy_text_add(text, ", in each of pipe=%d", graph->mesh.stages);
    }
    gy_text_add(text, "\n");
    return explain(graph, true, &(report){.spent = NULL}, text);
}

gy_status gy_graph_explain_exchanges(const gy_graph *graph, const gy_graph_spent *spent,
                                     uint64_t runs, int lines_max, gy_text *text)
{
    GY_ASSERT(lines_max >= 0);
    return explain(graph, false, &(report){spent, runs, lines_max}, text);
}
