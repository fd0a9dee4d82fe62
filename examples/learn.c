/*
 * A dataflow job that trains: map vertices parse parts of a text in parallel, then ranks on
 * HOSTS hosts train y = softmax(x W) on the result; W is the job's output.
 *
 *     cc learn.c -lgyre -o learn
 *     ./learn FOLDER RANKS HOSTS TEXT...                               on this host
 *     gyre job submit --nameservers ... -- ./learn FOLDER RANKS HOSTS TEXT...   on a cluster
 *
 * A line of TEXT is a class (0 to 2) and 8 numbers. FOLDER/w-00000 gets the 8 x 3 numbers of W,
 * one per line. When a host is lost, all ranks start again on other hosts.
 */
#define _GNU_SOURCE
#include <gyre/gyre.h>

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pass a failure up. */
#define TRY(call)                                                                              \
    do {                                                                                       \
        gy_status status_ = (call);                                                            \
        if (status_ != GY_OK) {                                                                \
            return status_;                                                                    \
        }                                                                                      \
    } while (0)

enum { FEATURES = 8, CLASSES = 3, ROW = FEATURES + 1, BATCH = 64, EPOCHS = 20, TEXTS = 64 };

/* ---- a map: lines to rows of numbers, the class last ---- */

static gy_status prepare(gy_vertex *vertex)
{
    char *text = NULL;
    size_t used = 0, size = 1;
    while (size > 0) { /* a text fits into memory */
        const void *data = NULL;
        TRY(gy_vertex_read(vertex, 0, &data, &size));
        char *more = realloc(text, used + size + 1);
        if (more == NULL) {
            free(text);
            return GY_NOMEM;
        }
        text = more;
        memcpy(text + used, data, size);
        used += size;
    }
    text[used] = '\0';
    gy_status status = GY_OK;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL && status == GY_OK;
         line = strsep(&rest, "\n")) {
        float row[ROW];
        char *at = line, *end = line;
        row[FEATURES] = strtof(at, &end);
        for (int i = 0; i < FEATURES; i++) {
            at = end;
            row[i] = strtof(at, &end);
        }
        if (end != at) { /* else the line is malformed */
            gy_vertex_count(vertex, "rows", 1);
            status = gy_vertex_write(vertex, 0, row, sizeof(row));
        }
    }
    free(text);
    return status;
}

/* ---- a rank ---- */

/* All rows, in the order of the parts; -1: they cannot be read. */
static int64_t read_rows(float **rows)
{
    const char *folder = getenv("GYRE_INPUTS");
    char path[4096];
    int64_t count = 0;
    for (int part = 0; folder != NULL; part++) {
        float row[ROW];
        if (snprintf(path, sizeof(path), "%s/%d", folder, part) >= (int)sizeof(path)) {
            fprintf(stderr, "learn: the path of the inputs is too long\n");
            return -1;
        }
        FILE *file = fopen(path, "rb");
        if (file == NULL) {
            return count;
        }
        while (fread(row, sizeof(row), 1, file) == 1) {
            float *more = realloc(*rows, (size_t)(count + 1) * sizeof(row));
            if (more == NULL) {
                return -1;
            }
            *rows = more;
            memcpy(*rows + count++ * ROW, row, sizeof(row));
        }
        fclose(file);
    }
    return -1;
}

/* Rows [from, to) as numbers and classes. */
static gy_status cut_batch(const float *rows, int64_t from, int64_t to, gy_tensor **x,
                           gy_tensor **y)
{
    TRY(gy_tensor_new(NULL, GY_F32, (int64_t[]){to - from, FEATURES}, 2, x));
    TRY(gy_tensor_new(NULL, GY_U8, (int64_t[]){to - from}, 1, y));
    for (int64_t i = from; i < to; i++) {
        for (int k = 0; k < FEATURES; k++) {
            gy_tensor_set(*x, (i - from) * FEATURES + k, (double)rows[i * ROW + k]);
        }
        gy_tensor_set(*y, i - from, (double)rows[i * ROW + FEATURES]);
    }
    return GY_OK;
}

static gy_status write_parameters(gy_tensor *w)
{
    FILE *file = fopen(getenv("GYRE_OUTPUT"), "w");
    for (int64_t i = 0; file != NULL && i < FEATURES * CLASSES; i++) {
        fprintf(file, "%a\n", gy_tensor_get(w, i));
    }
    if (file == NULL || fclose(file) != 0) {
        perror("cannot write $GYRE_OUTPUT");
        return GY_IO;
    }
    return GY_OK;
}

static gy_status learn(const float *rows, int64_t count)
{
    gy_graph *g = NULL;
    TRY(gy_graph_new(&g));
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, FEATURES}, 2);
    gy_node y = gy_graph_input(g, "y", GY_U8, (int64_t[]){GY_BATCH}, 1);
    gy_node w =
        gy_graph_parameter(g, "w", GY_F32, (int64_t[]){FEATURES, CLASSES}, 2, gy_init_zeros());
    gy_node loss = gy_op_cross_entropy(gy_op_matmul(x, w), y);
    gy_node move = gy_op_mul(gy_graph_scalar(g, GY_F32, 0.1), gy_op_gradient(loss, w));
    gy_node fetch[] = {loss, gy_op_assign(w, gy_op_sub(w, move)), w};
    gy_comm *comm = NULL;
    gy_session *s = NULL;
    gy_status status = gy_comm_world(&comm);
    if (status == GY_OK) { /* the session allreduces gradients */
        status = gy_session_new(g, &(gy_session_options){.comm = comm}, &s);
    }
    const int r = status == GY_OK ? gy_comm_rank(comm) : 0;
    const int p = status == GY_OK ? gy_comm_size(comm) : 1;
    for (int64_t step = 0; status == GY_OK && step < EPOCHS * (count / BATCH); step++) {
        const int64_t first = step % (count / BATCH) * BATCH;
        gy_tensor *rows_x = NULL, *rows_y = NULL, *out[3] = {NULL};
        status = cut_batch(rows, first + gy_part_begin(BATCH, r, p),
                           first + gy_part_begin(BATCH, r + 1, p), &rows_x, &rows_y);
        if (status == GY_OK) {
            status = gy_session_run(s, (gy_feed[]){{x, rows_x}, {y, rows_y}}, 2, BATCH, fetch,
                                    step + 1 < EPOCHS * (count / BATCH) ? 2 : 3, out);
        }
        if (status == GY_OK && r == 0 && step % 20 == 0) {
            printf("step %d loss %.4f\n", (int)step, gy_tensor_get(out[0], 0));
            fflush(stdout);
        }
        if (status == GY_OK && r == 0 && out[2] != NULL) {
            status = write_parameters(out[2]);
        }
        gy_tensor *all[] = {rows_x, rows_y, out[0], out[2]};
        for (int i = 0; i < 4; i++) {
            gy_tensor_drop(all[i]);
        }
    }
    gy_session_free(s);
    gy_graph_free(g);
    return status;
}

static int be_rank(void)
{
    float *rows = NULL;
    const int64_t count = read_rows(&rows);
    if (count < BATCH) {
        fprintf(stderr, "a rank of learn has %lld rows\n", (long long)count);
        return 1;
    }
    const gy_status status = learn(rows, count);
    free(rows);
    return status == GY_OK ? 0 : (fprintf(stderr, "%s\n", gy_error_text()), 1);
}

/* ---- the job ---- */

static gy_status run(gy_flow *flow, char **argv, int texts)
{
    gy_dag *dag = NULL;
    TRY(gy_dag_new(flow, "learn", &dag));
    const char *files[TEXTS][2];
    gy_vertex_options maps[TEXTS];
    for (int i = 0; i < texts; i++) {
        files[i][0] = argv[4 + i];
        files[i][1] = NULL;
        maps[i] = (gy_vertex_options){.function = "prepare", .outputs = 1, .files = files[i]};
    }
    /* A name without a slash is found beside this program, on every host. */
    const char *command[] = {basename(argv[0]), NULL};
    gy_part gang =
        gy_dag_vertex(dag, &(gy_vertex_options){.command = command,
                                                .stage = "learn",
                                                .inputs = GY_PORTS_ANY,
                                                .outputs = 1,
                                                .determinism = GY_OUTPUT_INDETERMINATE,
                                                .ranks = atoi(argv[2]),
                                                .hosts = atoi(argv[3])});
    gy_part_output(gy_part_bipartite(gy_dag_vertices(dag, maps, texts), gang, GY_CHANNEL_FILE),
                   "w");
    const gy_status status =
        gy_flow_run(flow, dag, &(gy_flow_options){.output = argv[1]}, NULL);
    gy_dag_free(dag);
    return status;
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {GY_VERTEX("prepare", prepare)};
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, functions, 1, &flow);
    if (started !=
        GY_OK) { /* GY_DONE: this process has run vertices of the job, all it is for */
        return started < 0 ? fprintf(stderr, "learn: %s\n", gy_error_text()), 1 : 0;
    }
    if (gy_run_is_rank()) {
        const int status = be_rank();
        gy_flow_end(flow);
        return status;
    }
    if (argc < 5 || argc > 4 + TEXTS) {
        fprintf(stderr, "usage: learn FOLDER RANKS HOSTS TEXT...\n");
        return 2;
    }
    const gy_status status = run(flow, argv, argc - 4);
    gy_flow_end(flow);
    return status == GY_OK ? 0 : (fprintf(stderr, "learn: %s\n", gy_error_text()), 1);
}
