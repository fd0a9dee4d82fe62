/* What operators did, as a text. */
#include "query/run/run.h"

void gy_query_meter_add(gy_query_meter *meter, const gy_frame *frame)
{
    const int64_t bytes = (int64_t)gy_rows_bytes(frame);
    (void)__atomic_add_fetch(&meter->rows, gy_frame_rows(frame), __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&meter->bytes, bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&meter->frames, 1, __ATOMIC_RELAXED);
}

void gy_query_meter_print(const gy_query_meter *meter, gy_text *text)
{
    char bytes[32], spilled[32];
    gy_text_add(text, "%12lld rows %10s", (long long)meter->rows,
                gy_text_bytes(bytes, (uint64_t)meter->bytes));
    if (meter->time_ns == 0) { /* within that of the operator above */
        gy_text_add(text, "%34s", "");
        return;
    }
    gy_text_add(text, " %9.3f s  spilled %s in %lld  ", (double)meter->time_ns / 1e9,
                gy_text_bytes(spilled, meter->counts.spilled_bytes),
                (long long)meter->counts.spills);
    if (meter->counts.rows_passed > 0) {
        gy_text_add(text, "%lld passed  ", (long long)meter->counts.rows_passed);
    }
}

static void print_meter(const gy_query_run *run, const gy_query_node *node, int depth,
                        gy_text *text)
{
    const gy_query_meter *meter = &run->meters[node->number];
    if (meter->frames > 0 || meter->time_ns > 0) {
        gy_query_meter_print(meter, text);
    } else {
        gy_text_add(text, "%*s", 63, "");
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
