/* A graph as text, one line a node: what --explain and the tests of passes show. */
#include "base/index.h"
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

const char *gy_graph_placement_text(const gy_placement *placement, char out[16])
{
    static const char *const reductions[] = {"sum", "prod", "min", "max"};
    GY_ASSERT(placement->kind != GY_SHARD || placement->dim < GY_TENSOR_RANK_MAX);
    if (placement->kind == GY_SHARD) {
        gy_print(out, 16, "S%d", placement->dim);
    } else if (placement->kind == GY_PARTIAL) {
        GY_ASSERT(placement->reduction < GY_COUNT(reductions));
        gy_print(out, 16, "P(%s)", reductions[placement->reduction]);
    } else {
        gy_print(out, 16, "R");
    }
    return out;
}

static void print_placement(const gy_graph *graph, const gy_type *type, gy_text *text)
{
    char one[16];
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        gy_text_add(text, "%s%s", axis == 0 ? " " : ",",
                    gy_graph_placement_text(&type->placement[axis], one));
    }
}

static void print_bits(uint32_t bits, gy_text *text)
{
    const char *separator = "";
    for (int i = 0; i < 32; i++) {
        if ((bits >> i & 1) != 0) {
            gy_text_add(text, "%s%d", separator, i);
            separator = ",";
        }
    }
}

/* "%3 = mul %0 %1, %4 = relu %3; sum %4 over 0": inputs come first. */
static void print_program(const gy_fused *program, gy_text *text)
{
    GY_ASSERT(program->output_count >= 1);
    for (int s = 0; s < program->step_count; s++) {
        const gy_fused_step *step = &program->steps[s];
        gy_text_add(text, "%s%%%d = %s", s == 0 ? " " : ", ", program->input_count + s,
                    step->op->name);
        for (int k = 0; k < step->op->input_count; k++) {
            gy_text_add(text, " %%%d", step->inputs[k]);
        }
    }
    for (int o = 0; o < program->output_count; o++) {
        const gy_fused_output *output = &program->outputs[o];
        gy_text_add(text, "%s%s %%%d", o == 0 ? " -> " : ", ",
                    output->reduction != NULL ? output->reduction->name : "store",
                    output->register_index);
        if (output->reduction != NULL) {
            gy_text_add(text, " over ");
            print_bits(output->axes, text);
        }
    }
}

static void print_order(const int32_t *dims, int rank, gy_text *text)
{
    GY_ASSERT(rank >= 0 && rank <= GY_TENSOR_RANK_MAX);
    gy_text_add(text, " to");
    for (int i = 0; i < rank; i++) {
        gy_text_add(text, " %d", (int)dims[i]);
    }
}

static void print_product(const gy_attributes *attributes, gy_text *text)
{
    gy_text_add(text, "%s%s%s%s", attributes->matmul.transpose_a ? " ta" : "",
                attributes->matmul.transpose_b ? " tb" : "",
                attributes->matmul.has_bias ? " bias" : "",
                attributes->matmul.activation != 0 ? " relu" : "");
}

static void print_attributes(const gy_graph_node *node, gy_text *text)
{
    const gy_attributes *attributes = &node->attributes;
    if (node->op == &gy_ops_row_matmul || node->op == &gy_ops_row_matmul_update) {
        print_product(attributes, text);
    } else if ((node->op->flags & GY_OP_REDUCTION) != 0 || node->op == &gy_ops_row_mean ||
               node->op == &gy_ops_row_count || node->op == &gy_ops_row_variance) {
        gy_text_add(text, " over ");
        print_bits(attributes->reduce.axes, text);
        gy_text_add(text, "%s", attributes->reduce.keep ? " keep" : "");
    } else if (node->op == &gy_ops_row_fill) {
        bool is_whole = node->types[0].dtype > GY_BF16; /* the integers stand behind */
        gy_text_add(text, is_whole ? " %.0f" : " %g", attributes->shape.value);
    } else if (node->op == &gy_ops_row_transpose) {
        print_order(attributes->permute.dims, node->types[0].rank, text);
    } else if (node->op == &gy_ops_row_conv2d) {
        gy_text_add(text, " stride %d pad %d%s%s", (int)attributes->conv.stride[0],
                    (int)attributes->conv.pad[0], attributes->conv.has_bias ? " bias" : "",
                    attributes->conv.activation != 0 ? " relu" : "");
    } else if (node->op == &gy_ops_row_fused) {
        print_program(attributes->fused.program, text);
    } else if (node->op == &gy_ops_row_reorder) {
        gy_text_add(text, " %s",
                    attributes->reorder.format == GY_FORMAT_BLOCKED ? "blocked" : "dense");
    } else if (node->op == &gy_ops_row_slice) {
        gy_text_add(text, " dim %d [%lld,%lld)", (int)attributes->slice.dim,
                    (long long)attributes->slice.begin, (long long)attributes->slice.end);
    }
}

static void print_cost(const gy_graph *graph, const gy_graph_node *node, gy_text *text)
{
    if (graph->batch == 0 || node->op->cost == NULL || (node->op->flags & GY_OP_LEAF) != 0) {
        return;
    }
    gy_type inputs[GY_OP_INPUTS_MAX];
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = *gy_graph_type(graph, node->inputs[i]);
    }
    gy_cost cost = {.flops = 0};
    node->op->cost(&node->attributes, inputs, node->input_count, node->types, &cost);
    char bytes[32];
    gy_text_bytes(bytes, (uint64_t)(cost.bytes_read + cost.bytes_written));
    gy_text_add(text, "  # %.3g flop, %s", cost.flops, bytes);
}

void gy_graph_print_name(const char *name, gy_text *text)
{
    GY_ASSERT(name != NULL);
    for (;;) {
        const size_t plain = strcspn(name, "\n\r");
        gy_text_add_bytes(text, name, plain);
        if (name[plain] == '\0') {
            return;
        }
        gy_text_add(text, "?");
        name += plain + 1;
    }
}

/* A value by its node's index, or by its name, which lasts from pass to pass. */
static void print_value(const gy_graph *graph, gy_value value, bool by_name, gy_text *text)
{
    GY_ASSERT(value.node >= 0 && value.node < graph->node_count);
    if (by_name) {
        gy_graph_print_name(graph->nodes[value.node].name, text);
    } else {
        gy_text_add(text, "%d", (int)value.node);
    }
    if (value.output != 0) {
        gy_text_add(text, ".%d", (int)value.output);
    }
}

static void print_node(const gy_graph *graph, int32_t index, bool by_name, gy_text *text)
{
    GY_ASSERT(index >= 0 && index < graph->node_count);
    const gy_graph_node *node = &graph->nodes[index];
    char type[160];
    if (by_name) {
        gy_text_add(text, "     ");
    } else {
        gy_text_add(text, "%4d ", (int)index);
    }
    gy_graph_print_name(node->name, text);
    gy_text_add(text, ": ");
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_text_add(text, "%s%s", k == 0 ? "" : "; ", gy_type_text(&node->types[k], type));
        print_placement(graph, &node->types[k], text);
    }
    gy_text_add(text, " = %s(", node->op->name);
    for (int i = 0; i < node->input_count; i++) {
        gy_text_add(text, "%s", i == 0 ? "" : ", ");
        print_value(graph, node->inputs[i], by_name, text);
    }
    gy_text_add(text, ")%s", node->is_on_device ? " on device" : "");
    print_attributes(node, text);
    print_cost(graph, node, text);
    gy_text_add(text, "\n");
}

static void print_graph(const gy_graph *graph, bool by_name, gy_text *text)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        print_node(graph, i, by_name, text);
    }
    if (graph->root_count > 0) {
        gy_text_add(text, "     fetched:");
        for (int32_t i = 0; i < graph->root_count; i++) {
            gy_text_add(text, " ");
            print_value(graph, graph->roots[i].value, by_name, text);
        }
        gy_text_add(text, "\n");
    }
}

void gy_graph_print(const gy_graph *graph, gy_text *text)
{
    print_graph(graph, false, text);
}

/* The lines of a text, to be found by the whole of each or by the name at its begin. */
typedef struct line_set {
    gy_index keys;
    bool is_by_name;
} line_set;

static const char *next_line(const char *line)
{
    const char *end = line + strcspn(line, "\n");
    GY_ASSERT(*end != '\0'); /* every line has its end */
    return end + 1;
}

/* With the sign that ends it. */
static size_t key_bytes(const line_set *set, const char *line)
{
    return strcspn(line, set->is_by_name ? ":" : "\n") + 1;
}

static bool has_line(const line_set *set, const char *line)
{
    return gy_index_find(&set->keys, gy_key_of(line, key_bytes(set, line))) != GY_NONE;
}

static gy_status set_lines(line_set *set, const char *text, bool is_by_name)
{
    uint32_t number = 0;
    set->is_by_name = is_by_name;
    for (const char *line = text; *line != '\0'; line = next_line(line)) {
        GY_TRY(gy_index_number(&set->keys, gy_key_of(line, key_bytes(set, line)), &number));
    }
    return GY_OK;
}

/* Names of nodes that `before` has and `names` has not. */
static void print_gone(const char *before, const line_set *names, gy_text *text)
{
    GY_ASSERT(names->is_by_name);
    size_t column = 0;
    for (const char *line = before; *line != '\0'; line = next_line(line)) {
        size_t size_bytes = key_bytes(names, line);
        GY_ASSERT(size_bytes > 5);
        if (has_line(names, line)) {
            continue;
        }
        gy_text_add(text, column == 0 ? "   -" : column > 80 ? "\n    " : "");
        column = column > 80 ? 0 : column;
        gy_text_add_bytes(text, line + 4, size_bytes - 5);
        column += size_bytes - 4;
    }
    gy_text_add(text, column == 0 ? "" : "\n");
}

/* Lines of `now` that are not in `lines`: '+' for a new name, '~' for one that changed. */
static void print_changed(const char *now, const line_set *lines, const line_set *names,
                          gy_text *text)
{
    GY_ASSERT(!lines->is_by_name && names->is_by_name);
    for (const char *line = now; *line != '\0'; line = next_line(line)) {
        if (!has_line(lines, line)) {
            gy_text_add(text, "   %c", !has_line(names, line) ? '+' : '~');
            gy_text_add_bytes(text, line + 4, key_bytes(lines, line) - 4);
        }
    }
}

static void print_difference(const char *before, const char *now, gy_text *text)
{
    line_set lines = {.is_by_name = false}, names = lines, now_names = lines;
    if (set_lines(&lines, before, false) < 0 || set_lines(&names, before, true) < 0 ||
        set_lines(&now_names, now, true) < 0) {
        text->status = GY_NOMEM;
    } else {
        print_gone(before, &now_names, text);
        print_changed(now, &lines, &names, text);
    }
    gy_index_free(&lines.keys);
    gy_index_free(&names.keys);
    gy_index_free(&now_names.keys);
}

void gy_graph_print_stage(const gy_graph *graph, const char *stage, gy_text *before,
                          gy_text *text)
{
    GY_ASSERT(stage != NULL && before != text);
    gy_text now = {.data = NULL}, difference = {.data = NULL};
    print_graph(graph, true, &now);
    if (before->data == NULL) {
        gy_text_add_bytes(&difference, gy_text_get(&now), now.size_bytes);
    } else if (now.status >= 0 && before->status >= 0) { /* or the last line may lack its end */
        print_difference(before->data, gy_text_get(&now), &difference);
    }
    gy_text_add(text, "== %s: %d nodes%s\n", stage, (int)graph->node_count,
                difference.size_bytes == 0 ? ", as before" : "");
    gy_text_add_bytes(text, gy_text_get(&difference), difference.size_bytes);
    if (now.status < 0 || difference.status < 0) {
        text->status = GY_NOMEM;
    }
    gy_text_free(&difference);
    gy_text_free(before);
    *before = now;
}
