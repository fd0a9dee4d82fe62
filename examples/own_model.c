/* A model of one's own: a C function builds its nodes, and gy_train, checkpoints and model
 * files work as they do for a list of layers. This one adds to its input what a layer makes of
 * it (a residual network), and its output layer uses the weights of its input layer again.
 *
 *     cc own_model.c -lgyre -lm -o own_model && ./own_model MODEL      (a file to write)
 *     gyre run -n 4 ./own_model MODEL                                  the same on four ranks
 *     gyre run -n 4 ./own_model MODEL data=2,model=2                   layers are cut, too
 *
 * Along an axis `model` a pin keeps the words of each sum cut: what is done to them one by one
 * is done on parts, and the products between get and leave them by an allgather and a
 * reduce-scatter where they are cut another way.
 */
#include <gyre/gyre.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 512, WORDS = 16, WINDOW = 4, WIDTH = 24 };

/* Words that follow a rule; the label of each is the word after it. */
static gy_status fill(gy_dataset *set, const int64_t *rows, int64_t n, gy_view *x, gy_view *y)
{
    (void)set;
    for (int64_t i = 0; i < n; i++) {
        int32_t word = (int32_t)(rows[i] % WORDS);
        for (int64_t t = i * WINDOW; t < (i + 1) * WINDOW; t++) {
            ((int32_t *)x->data)[t] = word;
            word = (word * word + 3 * word + 1) % WORDS;
            if (y != NULL) {
                ((int32_t *)y->data)[t] = word;
            }
        }
    }
    return GY_OK;
}

/* x (batch, WINDOW) words -> logits (batch, WINDOW, WORDS). */
static gy_status build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    const int64_t sizes[2] = {WORDS, WIDTH};
    (void)arg;
    gy_node table = gy_model_parameter(builder, "table", sizes, 2,
                                       (gy_init){.kind = GY_INIT_NORMAL, .scale = 0.3});
    gy_node h = gy_op_embedding(table, x);
    for (int block = 0; block < 2; block++) {
        char name[16];
        snprintf(name, sizeof(name), "block%d", block);
        h = gy_op_add(h, gy_op_gelu(gy_model_layer(builder, name, gy_layer_dense(WIDTH), h)));
        snprintf(name, sizeof(name), "words%d", block);
        h = gy_node_named(h, name);
    }
    *logits = gy_op_matmul_transposed(h, false, table, true);
    return GY_OK;
}

int main(int argc, char **argv)
{
    static const gy_dataset_ops ops = {.name = "words", .fill = fill};
    static const gy_parameter_pin words = {"words*", "model", {.kind = GY_SHARD, .dim = 1}};
    gy_dataset set = {&ops, SAMPLES, WORDS, NULL, 1, {WINDOW}, GY_I32, 1, {WINDOW}};
    gy_model_options own =
        GY_OPTIONS(gy_model_options, .name = "own", .build = build, .input_rank = 1,
                   .input_sizes = {WINDOW}, .input_dtype = GY_I32, .label_rank = 1,
                   .label_sizes = {WINDOW});
    gy_train_options plan = GY_OPTIONS(gy_train_options, .epochs = 12, .batch = 32,
                                       .optimizer = GY_OPTIMIZER_ADAM, .rate = 0.01);
    gy_train_result result = {0};
    gy_model *model = NULL, *loaded = NULL;
    double loss = 0, accuracy = 0;
    gy_comm *world = NULL;
    int status = argc < 2 || argc > 3 || gy_comm_world(&world) ||
                 gy_mesh_new(world, argc == 3 ? argv[2] : NULL, &own.mesh);
    int first = !status && gy_comm_rank(world) == 0;
    plan.pins = &words;
    plan.pin_count = !status && gy_mesh_find(own.mesh, "model") >= 0;
    status = status || gy_model_new(&own, &model) ||
             gy_train(model, &set, &set, &plan, &result) ||
             (first && gy_model_save(model, argv[1], NULL));
    if (!status && first) { /* another program loads the file with the same function */
        status = gy_model_load(argv[1], &(gy_model_options){.build = build}, &loaded) ||
                 gy_model_evaluate(loaded, &set, 64, &loss, &accuracy, NULL);
        printf("accuracy %.3f, loss %.3f a word\n", accuracy, loss);
    }
    gy_model_free(loaded), gy_model_free(model);
    gy_train_result_free(&result);
    gy_mesh_free(own.mesh);
    if (status) {
        fprintf(stderr, "%s\n",
                argc < 2 || argc > 3 ? "usage: own_model MODEL [MESH]" : gy_error_text());
        return 1;
    }
    gy_comm_world_close();
    return fabs(loss - result.test_loss) > 1e-4 && first;
}
