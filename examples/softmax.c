/* Lecture A's example: y = softmax(x W), trained by cross entropy, on the digits.
 *
 *     cc softmax.c -lgyre -o softmax && ./softmax IMAGES LABELS      (IDX files, plain or .gz)
 *     gyre run --ranks 4 ./softmax IMAGES LABELS   the same on four
 */
#include <gyre/gyre.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gy_graph *g = NULL;
    gy_tensor *images, *digits;
    gy_session_options ranks = {.comm = NULL};
    gy_session *s;
    int status = gy_graph_new(&g) || argc != 3 || gy_read_idx(argv[1], &images) ||
                 gy_read_idx(argv[2], &digits) || gy_comm_world(&ranks.comm);
    gy_node pixels = gy_graph_input(g, "pixels", GY_U8, (int64_t[]){GY_BATCH, 28, 28}, 3);
    gy_node labels = gy_graph_input(g, "labels", GY_U8, (int64_t[]){GY_BATCH}, 1);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){784, 10}, 2, gy_init_zeros());
    gy_node rows = gy_op_cast(gy_op_reshape(pixels, (int64_t[]){GY_BATCH, 784}, 2), GY_F32);
    gy_node loss = gy_op_cross_entropy(gy_op_matmul(rows, w), labels); /* of softmax(x W) */
    gy_node move = gy_op_mul(gy_graph_scalar(g, GY_F32, 3e-6), gy_op_gradient(loss, w));
    gy_node fetch[] = {loss, gy_op_assign(w, gy_op_sub(w, move))};
    status = status || gy_session_new(g, &ranks, &s); /* the session allreduces gradients */
    int r = status ? 0 : gy_comm_rank(ranks.comm), p = status ? 1 : gy_comm_size(ranks.comm);
    for (int64_t i = 0, n = 100; !status && i + n <= gy_tensor_size(images, 0); i += n) {
        gy_tensor *x = NULL, *y = NULL, *out[2] = {NULL, NULL};
        int64_t from = i + gy_part_begin(n, r, p), to = i + gy_part_begin(n, r + 1, p);
        status = gy_tensor_slice(images, 0, from, to, 1, &x) ||
                 gy_tensor_slice(digits, 0, from, to, 1, &y) ||
                 gy_session_run(s, (gy_feed[]){{pixels, x}, {labels, y}}, 2, n, fetch, 2, out);
        (void)(status || r || printf("%6d loss %.4f\n", (int)i, gy_tensor_get(out[0], 0)));
        gy_tensor_drop(x), gy_tensor_drop(y), gy_tensor_drop(out[0]);
    }
    const char *text = argc != 3 ? "usage: softmax IMAGES LABELS" : gy_error_text();
    return status ? fprintf(stderr, "%s\n", text), 1 : 0;
}
