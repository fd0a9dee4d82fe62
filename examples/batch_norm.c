/* A model with batch norm: training uses the statistics of each batch, evaluation the running
 * statistics, so that a row gets the same class alone and in a batch.
 *
 *     cc batch_norm.c -lgyre -lm -o batch_norm && ./batch_norm MODEL     (a file to write)
 *     gyre run -n 4 ./batch_norm MODEL                                   the same on four ranks
 */
#include <gyre/gyre.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 600, WIDTH = 3, CLASSES = 2 };

/* Features of very different sizes; the class is the side of a curve. */
static gy_status fill(gy_dataset *set, const int64_t *rows, int64_t n, gy_view *x, gy_view *y)
{
    (void)set;
    for (int64_t i = 0; i < n; i++) {
        float *f = (float *)x->data + i * WIDTH, t = (float)rows[i];
        f[0] = 1000 + 100 * sinf(t), f[1] = 0.01f * cosf(3 * t), f[2] = 50 * sinf(7 * t);
        if (y != NULL) {
            ((int32_t *)y->data)[i] = sinf(t) * cosf(3 * t) + sinf(7 * t) > 0;
        }
    }
    return GY_OK;
}

/* Log-probabilities of all rows, `n` at a time. */
static gy_status predict(gy_model *model, gy_tensor *rows, int64_t n, float *out)
{
    gy_status status = GY_OK;
    for (int64_t i = 0; !status && i < SAMPLES; i += n) {
        gy_tensor *x = NULL, *y = NULL;
        status = gy_tensor_slice(rows, 0, i, i + n, 1, &x);
        status = status ? status : gy_model_predict(model, x, &y);
        for (int64_t k = 0; !status && k < n * CLASSES; k++) {
            out[i * CLASSES + k] = (float)gy_tensor_get(y, k);
        }
        gy_tensor_drop(x), gy_tensor_drop(y);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const gy_dataset_ops ops = {.name = "curve", .fill = fill};
    static float one[SAMPLES * CLASSES], all[SAMPLES * CLASSES];
    gy_dataset set = {.ops = &ops,
                      .count = SAMPLES,
                      .classes = CLASSES,
                      .input_rank = 1,
                      .input_sizes = {WIDTH}};
    gy_layer layers[] = {gy_layer_batch_norm(), gy_layer_dense(24), gy_layer_batch_norm(),
                         gy_layer_relu(), gy_layer_dense(CLASSES)};
    gy_model_options options = {.layers = layers,
                                .layer_count = 5,
                                .dtype = GY_F32,
                                .input_rank = 1,
                                .input_sizes = {WIDTH}};
    gy_train_options plan = {
        .epochs = 20, .batch = 50, .optimizer = GY_OPTIMIZER_ADAM, .rate = 0.01};
    gy_train_result result = {0};
    gy_model *model = NULL, *loaded = NULL;
    gy_tensor *rows = NULL;
    double loss, accuracy, apart = 0;
    int status = argc != 2 || gy_comm_world(&options.comm);
    int first = !status && gy_comm_rank(options.comm) == 0;
    status = status || gy_model_new(&options, &model) ||
             gy_train(model, &set, NULL, &plan, &result) ||
             gy_model_evaluate(model, &set, 64, &loss, &accuracy, NULL) ||
             (first && gy_model_save(model, argv[1], NULL));
    if (!status && first) { /* evaluate the saved file on one rank, as another program would */
        status = gy_model_load(argv[1], NULL, &loaded) ||
                 gy_tensor_zeros(NULL, GY_F32, (int64_t[]){SAMPLES, WIDTH}, 2, &rows);
        for (int64_t i = 0; !status && i < SAMPLES; i++) {
            float features[WIDTH];
            gy_view view = {.data = features};
            status = fill(&set, &i, 1, &view, NULL);
            for (int k = 0; k < WIDTH; k++) {
                gy_tensor_set(rows, i * WIDTH + k, features[k]);
            }
        }
        status = status || predict(loaded, rows, 1, one) || predict(loaded, rows, SAMPLES, all);
        for (int i = 0; i < SAMPLES * CLASSES; i++) {
            apart = fmax(apart, fabs(one[i] - all[i]));
        }
        printf("accuracy %.3f; rows alone and together differ by %.1g\n", accuracy, apart);
    }
    gy_tensor_drop(rows);
    gy_model_free(loaded);
    gy_train_result_free(&result);
    gy_model_free(model);
    if (status) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: batch_norm MODEL" : gy_error_text());
        return 1;
    }
    gy_comm_world_close();
    return apart > 1e-4;
}
