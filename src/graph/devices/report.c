/* What a device runs, what is copied for it, and what stays on the CPU and why, for --explain.
 */
#include "graph/devices/devices.h"

#include <string.h>

enum { REASONS_MAX = 32 }; /* of tables of kernels: more than any graph has */

typedef struct sums {
    int copies;
    double there_s, here_s, copies_s, copied_bytes;
} sums;

static bool is_work(const gy_graph_node *node)
{
    GY_ASSERT(node->op != NULL);
    return (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW | GY_OP_EFFECT)) == 0;
}

static bool is_copy(const gy_graph_node *node)
{
    return node->op == &gy_ops_row_to_device || node->op == &gy_ops_row_to_host;
}

static void add(const gy_graph *graph, int32_t index, sums *all)
{
    const gy_graph_node *node = &graph->nodes[index];
    GY_ASSERT(index >= 0 && index < graph->node_count);
    if (is_copy(node)) {
        const gy_value value = {index, 0};
        all->copies++;
        all->copied_bytes += (double)gy_local_bytes(&graph->mesh, &node->types[0]);
        all->copies_s += gy_devices_copy_seconds(graph, value);
    } else if (is_work(node)) {
        *(node->is_on_device ? &all->there_s : &all->here_s) +=
            gy_devices_seconds(graph, index, node->is_on_device);
    }
}

static void print_copies(const gy_graph *graph, gy_text *text)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        char type[160], bytes[32];
        GY_ASSERT(node->output_count >= 1);
        if (!is_copy(node)) {
            continue;
        }
        gy_text_add(text, node->op == &gy_ops_row_to_device ? "  to the device: " : "  back: ");
        gy_graph_print_name(gy_graph_at(graph, node->inputs[0])->name, text);
        gy_text_add(text, " %s, %s, %.3g ms\n", gy_type_text(&node->types[0], type),
                    gy_text_bytes(bytes, gy_local_bytes(&graph->mesh, &node->types[0])),
                    1e3 * gy_devices_copy_seconds(graph, (gy_value){i, 0}));
    }
}

/* Nodes of the same operator for the same reason are one line, where the first of them stands.
 */
static void print_here(const gy_graph *graph, const char *const *why, int32_t index,
                       gy_text *text)
{
    const gy_op *op = graph->nodes[index].op;
    int count = 0;
    double seconds = 0;
    GY_ASSERT(why[index] != NULL);
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == op && why[i] != NULL && strcmp(why[i], why[index]) == 0) {
            if (i < index) {
                return;
            }
            count++;
            seconds += gy_devices_seconds(graph, i, false);
        }
    }
    gy_text_add(text, "  on the CPU: %d %s, %.3g ms: %s\n", count, op->name, 1e3 * seconds,
                why[index]);
}

/* May the device run it? Then what there is gained is less than its copies cost, unless there
 * was no room. */
static const char *why_not(const gy_graph *graph, int32_t index)
{
    const char *why = "";
    GY_ASSERT(!graph->nodes[index].is_on_device);
    if (!gy_devices_can(graph, index, &why)) {
        return why;
    }
    return graph->share.short_bytes > 0 ? "no room there, or no faster, with its copies"
                                        : "no faster there, with its copies";
}

/* What the CPU does for one reason. */
typedef struct reason {
    const char *why;
    double seconds;
} reason;

/* Count the node with its reason; false: there is no room for another. */
static bool add_reason(const gy_graph *graph, int32_t index, reason *reasons, int count,
                       int *at)
{
    const char *why = why_not(graph, index);
    int i = 0;
    GY_ASSERT(count >= 0 && count <= REASONS_MAX);
    while (i < count && strcmp(reasons[i].why, why) != 0) {
        i++;
    }
    if (i == REASONS_MAX) {
        return false;
    }
    if (i == count) {
        reasons[i] = (reason){.why = why};
    }
    reasons[i].seconds += gy_devices_seconds(graph, index, false);
    *at = i;
    return true;
}

gy_device_share gy_devices_share(const gy_graph *graph)
{
    reason reasons[REASONS_MAX];
    int count = 0, most = 0, at = 0;
    gy_device_share share = {.why = "", .short_bytes = graph->share.short_bytes};
    GY_ASSERT(graph->device != NULL);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if (!is_work(node) || is_copy(node)) {
            continue;
        }
        share.nodes++;
        share.there += node->is_on_device ? 1 : 0;
        if (!node->is_on_device && add_reason(graph, i, reasons, count, &at)) {
            count = GY_MAX(count, at + 1);
            most = reasons[at].seconds > reasons[most].seconds ? at : most;
        }
    }
    share.why = count > 0 ? reasons[most].why : "";
    share.memory_bytes = graph->device->rates.memory_bytes;
    GY_ASSERT(share.there >= 0 && share.there <= share.nodes);
    return share;
}

gy_status gy_graph_explain_devices(const gy_graph *graph, gy_text *text)
{
    sums all = {.copies = 0};
    double cpu_s = 0;
    char copied[32], most[32], wanted[32];
    const bool is_short = graph->share.short_bytes > 0;
    const char **why =
        gy_alloc_zero("graph.devices", (size_t)graph->node_count + 1, sizeof(*why));
    bool *is_there =
        gy_alloc_zero("graph.devices", (size_t)graph->node_count + 1, sizeof(bool));
    GY_ASSERT(graph->device != NULL);
    for (int32_t i = 0; i < graph->node_count && why != NULL && is_there != NULL; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        add(graph, i, &all);
        is_there[i] = node->is_on_device;
        if (is_work(node) && !is_copy(node)) {
            cpu_s += gy_devices_seconds(graph, i, false);
        }
        if (is_work(node) && !is_copy(node) && !node->is_on_device) {
            why[i] = why_not(graph, i);
        }
    }
    if (why != NULL && is_there != NULL) {
        gy_text_add(text,
                    "device %s: %d of %d nodes, %.3g ms; CPU %.3g ms; %d copies, %s, %.3g ms; "
                    "all on the CPU %.3g ms; at most %s there%s%s\n",
                    graph->device->name, graph->share.there, graph->share.nodes,
                    1e3 * all.there_s, 1e3 * all.here_s, all.copies,
                    gy_text_bytes(copied, (uint64_t)all.copied_bytes), 1e3 * all.copies_s,
                    1e3 * cpu_s, gy_text_bytes(most, gy_devices_bytes(graph, is_there)),
                    is_short ? ", with more memory " : "",
                    is_short ? gy_text_bytes(wanted, graph->share.short_bytes) : "");
        print_copies(graph, text);
        for (int32_t i = 0; i < graph->node_count; i++) {
            if (why[i] != NULL) {
                print_here(graph, why, i, text);
            }
        }
    } else {
        text->status = GY_NOMEM;
    }
    gy_free(why);
    gy_free(is_there);
    return text->status;
}
