/*
 * Least squares by workers and parameter servers: each worker has its own samples, pulls the
 * weights, pushes its gradient, and says that its clock is over (lecture D's loop, with the
 * push before the pull of the next round).
 *
 *     cc parameters.c -lgyre -o parameters
 *     gyre ps serve --listen 127.0.0.1:7900 --plaintext &
 *     ./parameters 127.0.0.1:7900 0 2 ssp:4 &
 *     ./parameters 127.0.0.1:7900 1 2 ssp:4
 *
 * The arguments: servers HOST:PORT,..., this worker, how many there are, the rule of
 * consistency.
 */
#include <gyre/ps.h>

#include <stdio.h>
#include <stdlib.h>

/* Pass a failure up. */
#define TRY(call)                                                                              \
    do {                                                                                       \
        gy_status status_ = (call);                                                            \
        if (status_ < 0) {                                                                     \
            return status_;                                                                    \
        }                                                                                      \
    } while (0)

enum { WEIGHTS = 16, ROUNDS = 400 };

/* Values in [-1, 1) that all processes agree on. */
static float noise(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

/* The gradient of (w x - y)² / 2 for one sample, whose y is that of weights 1, 2, 3, ... */
static float gradient_of(const float *w, float *gradient, unsigned *state)
{
    float x[WEIGHTS], error = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        x[i] = noise(state);
        error += (w[i] - (float)(i + 1)) * x[i];
    }
    for (int i = 0; i < WEIGHTS; i++) {
        gradient[i] = error * x[i];
    }
    return error * error / 2;
}

static gy_status learn(gy_ps *ps, gy_ps_sync sync, unsigned worker)
{
    gy_ps_table *table = NULL;
    gy_ps_table_options options = GY_OPTIONS(gy_ps_table_options, .rows = WEIGHTS,
                                             .update = GY_PS_SGD, .rate = 0.1, .sync = sync);
    float w[WEIGHTS], gradient[WEIGHTS], loss = 0;
    unsigned state = worker + 1;
    TRY(gy_ps_table_open(ps, "weights", &options, &table));
    for (int round = 0; round < ROUNDS; round++) {
        TRY(gy_ps_pull(table, NULL, WEIGHTS, w, NULL));
        loss = gradient_of(w, gradient, &state);
        TRY(gy_ps_push(table, NULL, WEIGHTS, gradient, NULL));
        TRY(gy_ps_clock(table));
    }
    printf("worker %u: loss %.2g, the last weight is %.3f\n", worker, (double)loss,
           (double)w[WEIGHTS - 1]);
    return GY_OK;
}

static gy_status run(char **argv)
{
    gy_ps *ps = NULL;
    gy_ps_sync sync;
    unsigned worker = (unsigned)strtoul(argv[2], NULL, 10);
    gy_ps_options options =
        GY_OPTIONS(gy_ps_options, .servers = argv[1], .is_plaintext = true, .worker = worker,
                   .workers = (unsigned)strtoul(argv[3], NULL, 10));
    TRY(gy_ps_sync_read(argv[4], &sync));
    TRY(gy_ps_open(&options, &ps));
    gy_status status = learn(ps, sync, worker);
    gy_ps_close(ps); /* nobody waits for this worker any more */
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: parameters HOST:PORT,... WORKER WORKERS RULE\n");
        return 2;
    }
    if (run(argv) < 0) {
        fprintf(stderr, "parameters: %s\n", gy_error_text());
        return 1;
    }
    return 0;
}
