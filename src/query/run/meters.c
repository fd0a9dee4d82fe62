/* What operators did, as a text. */
#include "query/run/run.h"

static void print_meter(const gy_query_run *run, const gy_query_node *node, int depth,
                        gy_text *text)
{
    const gy_query_meter *meter = &run->meters[node->number];
    char bytes[32];
    if (meter->frames > 0 || meter->time_ns > 0) {
        gy_text_add(text, "%12lld rows %9.3f s  spilled %s in %lld  ", (long long)meter->rows,
                    (double)meter->time_ns / 1e9,
                    gy_text_bytes(bytes, meter->counts.spilled_bytes),
                    (long long)meter->counts.spills);
    } else {
        gy_text_add(text, "%*s", 52, "");
    }
    gy_text_add(text, "%*s", 2 * depth, "");
    gy_query_node_print(run->plan, node, text);
    gy_text_add(text, "\n");
    if (node->left != NULL) {
        print_meter(run, node->left, depth + 1, text);
    }
    if (node->right != NULL) {
        print_meter(run, node->right, depth + 1, text);
    }
}

void gy_query_print_meters(const gy_query_run *run, gy_text *text)
{
    print_meter(run, run->plan->root, 0, text);
}
