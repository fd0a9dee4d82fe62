/* Lecture A's example: y = softmax(x W), trained by cross entropy, on the digits.
 *
 *     cc softmax.c -lgyre -o softmax && ./softmax IMAGES LABELS      (IDX files, plain or .gz)
 *     gyre run -n 4 ./softmax IMAGES LABELS                          the same on four ranks
 */
#include <gyre/gyre.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gy_tensor *images, *digits, *x, *y, *out[2];
    if (argc != 3 || gy_read_idx(argv[1], &images) || gy_read_idx(argv[2], &digits)) {
        return fprintf(stderr, "usage: softmax IMAGES LABELS\n%s\n", gy_error_text()), 2;
    }
    gy_graph *g = gy_graph_new();
    gy_node pixels = gy_input(g, "pixels", GY_U8, (int64_t[]){GY_BATCH, 28, 28}, 3);
    gy_node labels = gy_input(g, "labels", GY_U8, (int64_t[]){GY_BATCH}, 1);
    gy_node w = gy_parameter(g, "w", GY_F32, (int64_t[]){784, 10}, 2, gy_init_zeros());
    gy_node rows = gy_cast(gy_reshape(pixels, (int64_t[]){GY_BATCH, 784}, 2), GY_F32);
    gy_node logits = gy_matmul(gy_div(rows, gy_scalar(g, GY_F32, 255)), w);
    gy_node loss = gy_cross_entropy(logits, labels); /* -mean log softmax(x W)[label] */
    gy_node move = gy_mul(gy_scalar(g, GY_F32, 0.2), gy_gradient(loss, w));
    gy_node fetches[] = {loss, gy_assign(w, gy_sub(w, move))};
    gy_session *session;
    gy_session_options options = {.comm = gy_comm_world()}; /* brings its allreduce itself */
    int status = gy_session_new(g, &options, &session), rank = gy_comm_rank(options.comm);
    for (int64_t i = 0, n = 100; !status && i + n <= gy_tensor_size(images, 0); i += n) {
        int64_t from = i + gy_part_begin(n, rank, gy_comm_size(options.comm));
        int64_t to = i + gy_part_begin(n, rank + 1, gy_comm_size(options.comm));
        status = gy_tensor_slice(images, 0, from, to, 1, &x) ||
                 gy_tensor_slice(digits, 0, from, to, 1, &y) ||
                 gy_session_run(session, (gy_feed[]){{pixels, x}, {labels, y}}, 2, n, fetches,
                                2, out);
        if (!status && rank == 0) {
            printf("%6d loss %.4f\n", (int)i, gy_tensor_get(out[0], 0));
        }
        gy_tensor_drop(x), gy_tensor_drop(y), gy_tensor_drop(status ? NULL : out[0]);
    }
    return status ? fprintf(stderr, "softmax: %s\n", gy_error_text()), 1 : 0;
}
