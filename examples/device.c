/* A network of two layers, trained on the device of GYRE_DEVICE where there is one, else on the
 * CPU: what runs where (with --explain), and the loss of each step.
 *
 *     cc device.c -lgyre -o device && GYRE_DEVICE=0 ./device --explain
 *     GYRE_DEVICE=auto gyre run --ranks 2 ./device        each rank of a host has its own
 */
#include <gyre/gyre.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 64, FEATURES = 256, HIDDEN = 256, CLASSES = 10, STEPS = 4 };

/* Rows [from, to) of a pattern for each class. */
static int make_rows(int64_t from, int64_t to, gy_tensor **x, gy_tensor **labels)
{
    if (gy_tensor_zeros(NULL, GY_F32, (int64_t[]){to - from, FEATURES}, 2, x) != GY_OK ||
        gy_tensor_zeros(NULL, GY_I32, (int64_t[]){to - from}, 1, labels) != GY_OK) {
        return 1;
    }
    for (int64_t i = from; i < to; i++) {
        for (int64_t k = 0; k < FEATURES; k++) {
            gy_tensor_set(*x, (i - from) * FEATURES + k, k % CLASSES == i % CLASSES ? 1 : 0);
        }
        gy_tensor_set(*labels, i - from, (double)(i % CLASSES));
    }
    return 0;
}

/* Each rank says where it is, rank 0 what runs there. */
static int show(gy_session *session, gy_comm *comm, gy_node loss, int is_explained)
{
    const char *device = gy_session_device(session);
    char *text = NULL;
    printf("rank %d: %s%s\n", gy_comm_rank(comm), device != NULL ? "device " : "the CPU alone",
           device != NULL ? device : "");
    if (!is_explained || gy_comm_rank(comm) > 0) {
        return 0;
    }
    if (gy_session_explain(session, ROWS, &loss, 1, &text) != GY_OK) {
        return 1;
    }
    printf("%s", text);
    gy_string_free(text);
    return 0;
}

int main(int argc, char **argv)
{
    const int is_explained = argc > 1 && strcmp(argv[1], "--explain") == 0;
    gy_graph *g = NULL;
    gy_session *s = NULL;
    gy_tensor *rows = NULL, *classes = NULL;
    gy_session_options options = {.seed = 7}; /* .device = 0: GYRE_DEVICE says which */
    int failed = gy_comm_world(&options.comm) || gy_graph_new(&g);
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, FEATURES}, 2);
    gy_node labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    gy_node w =
        gy_graph_parameter(g, "w", GY_F32, (int64_t[]){FEATURES, HIDDEN}, 2, gy_init_he());
    gy_node v =
        gy_graph_parameter(g, "v", GY_F32, (int64_t[]){HIDDEN, CLASSES}, 2, gy_init_he());
    gy_node scores = gy_op_matmul(gy_op_relu(gy_op_matmul(x, w)), v);
    gy_node loss = gy_op_cross_entropy(scores, labels);
    gy_node rate = gy_graph_scalar(g, GY_F32, 0.02);
    gy_node fetch[] = {loss,
                       gy_op_assign(w, gy_op_sub(w, gy_op_mul(rate, gy_op_gradient(loss, w)))),
                       gy_op_assign(v, gy_op_sub(v, gy_op_mul(rate, gy_op_gradient(loss, v))))};
    failed = failed || gy_session_new(g, &options, &s);
    if (!failed) {
        const int r = gy_comm_rank(options.comm), p = gy_comm_size(options.comm);
        failed = make_rows(gy_part_begin(ROWS, r, p), gy_part_begin(ROWS, r + 1, p), &rows,
                           &classes) ||
                 show(s, options.comm, loss, is_explained);
        for (int step = 0; step < STEPS && !failed; step++) {
            gy_tensor *out[3] = {NULL, NULL, NULL};
            failed = gy_session_run(s, (gy_feed[]){{x, rows}, {labels, classes}}, 2, ROWS,
                                    fetch, 3, out);
            if (!failed && r == 0) {
                printf("step %d loss %.5f\n", step, gy_tensor_get(out[0], 0));
            }
            for (int i = 0; i < 3; i++) {
                gy_tensor_drop(out[i]);
            }
        }
    }
    if (failed) {
        fprintf(stderr, "rank %d: %s\n", gy_comm_rank(options.comm), gy_error_text());
    }
    gy_session_free(s);
    gy_graph_free(g);
    gy_tensor_drop(rows);
    gy_tensor_drop(classes);
    return failed ? 1 : 0;
}
