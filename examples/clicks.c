/* Click-through rates, the classic work of parameter servers: sparse rows, a weight for each
 * feature that was ever seen, and FTRL-proximal at the server (McMahan et al., KDD 2013).
 * Prints the log loss of every tenth row: `gyre train logistic` tests with them, too.
 *     cc clicks.c -lgyre -lm -lpthread -o clicks && ./clicks w6a.libsvm */
#include <gyre/data.h>
#include <gyre/ps.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { EPOCHS = 4, KEYS = 4096 };

static void need(gy_status status)
{
    if (status < 0) {
        fprintf(stderr, "clicks: %s\n", gy_error_text());
        exit(1);
    }
}

static void *serve(void *server)
{
    need(gy_ps_server_run(server, -1));
    return NULL;
}

/* Pull the weights of a row, push their gradient unless it is a test; its log loss. */
static double learn(gy_ps_table *table, const gy_libsvm *d, size_t row)
{
    uint64_t keys[KEYS];
    float w[KEYS], g[KEYS];
    const size_t first = d->begins[row], count = d->begins[row + 1] - first;
    double z = 0, y = d->labels[row] > 0;
    need(count < KEYS ? GY_OK : GY_LIMIT);
    for (size_t i = 0; i <= count; i++) { /* the last key is of a constant feature */
        keys[i] = i < count ? d->indices[first + i] : d->features;
    }
    need(gy_ps_pull(table, keys, count + 1, w, NULL));
    for (size_t i = 0; i <= count; i++) {
        z += w[i] * (i < count ? d->values[first + i] : 1);
    }
    for (size_t i = 0; i <= count; i++) {
        g[i] = (float)((1 / (1 + exp(-z)) - y) * (i < count ? d->values[first + i] : 1));
    }
    need(row % 10 == 9 ? GY_OK : gy_ps_push(table, keys, count + 1, g, NULL));
    return log1p(exp(-fabs(z))) + (z > 0 ? z : 0) - y * z;
}

int main(int argc, char **argv)
{
    gy_libsvm *d = NULL;
    gy_ps *ps = NULL;
    gy_ps_table *table = NULL;
    gy_ps_server *server = NULL;
    pthread_t thread;
    need(gy_read_libsvm(argc == 2 ? argv[1] : "", &d));
    need(gy_ps_server_open(&GY_OPTIONS(gy_ps_server_options, .is_plaintext = 1), &server));
    need(pthread_create(&thread, NULL, serve, server) == 0 ? GY_OK : GY_LIMIT);
    need(gy_ps_open(
        &GY_OPTIONS(gy_ps_options, .is_plaintext = 1, .servers = gy_ps_server_address(server)),
        &ps));
    need(gy_ps_table_open(ps, "clicks",
                          &GY_OPTIONS(gy_ps_table_options, .is_sparse = 1, .rate = 0.3,
                                      .update = GY_PS_FTRL, .sync = gy_ps_asp(), .l1 = 0.1),
                          &table));
    for (int pass = 1; pass <= 2 * EPOCHS; pass++) { /* training and test in turn */
        const size_t tests = d->rows / 10, seen = pass % 2 == 0 ? tests : d->rows - tests;
        double loss = 0;
        for (size_t i = 0, row = 0; i < d->rows; i++) {
            row = i * 7919 % d->rows; /* an order that mixes the labels */
            loss += (row % 10 == 9) == (pass % 2 == 0) ? learn(table, d, row) : 0;
        }
        printf("%s loss %.4f\n", pass % 2 == 0 ? "test" : "training", loss / (double)seen);
    }
    gy_ps_close(ps);
    gy_libsvm_free(d);
    return 0;
}
