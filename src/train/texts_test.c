/*
 * Goal: of the graphs that trainings of a convolutional network and of a GPT compile, all but
 * products, convolutions and what is fed or stored has a kernel's text, and on the values of
 * one call it gives what the CPU's kernel gives.
 */
#include "cuda_text_kit.h"
#include "graph/session.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>

#include "gy_test.h"
#include "letters_kit.h"
#include "training_kit.h"

enum { LENGTH = 16, NODES_MAX = 512, BELOW = 10 };

/* A node of a compiled graph, with values of its own. */
typedef struct taken {
    gy_graph_node node; /* its attributes are the graph's, which outlives it */
    gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX], wanted[GY_OP_OUTPUTS_MAX];
    int input_count, output_count, at;
} taken;

typedef struct collected {
    texts all;
    taken nodes[NODES_MAX];
    int count, products;
} collected;

static void make_values(gy_view *view, gy_random *random)
{
    const size_t bytes = gy_view_bytes(view);
    view->data = gy_alloc_zero("test.view", 1, bytes);
    assert_non_null(view->data);
    for (size_t i = 0; i < bytes / gy_dtype_bytes(view->dtype); i++) {
        if (view->dtype == GY_F32) {
            ((float *)view->data)[i] = (float)(0.1 + gy_random_unit(random));
        } else { /* labels, letters, seeds, masks */
            gy_element_set_whole(view->dtype, view->data, (int64_t)i,
                                 (int64_t)gy_random_below(random, BELOW));
        }
    }
}

static gy_kernel_call call_of(taken *t, gy_view *outputs)
{
    return (gy_kernel_call){.op = t->node.op,
                            .attributes = &t->node.attributes,
                            .inputs = t->views,
                            .input_count = t->input_count,
                            .outputs = outputs,
                            .output_count = t->output_count};
}

static void run_here(taken *t)
{
    gy_kernel_call call = call_of(t, t->wanted);
    const gy_kernel_query query = gy_kernel_query_of(&call, 1);
    const gy_kernel *kernel = gy_kernel_choose(&query);
    if (kernel == NULL) {
        assert_ok(call.op->reference(&call));
        return;
    }
    const size_t bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(&query) : 0;
    call.workspace = gy_alloc("test.workspace", bytes);
    assert_ok(kernel->prepare != NULL ? kernel->prepare(&query, &call.state) : GY_OK);
    assert_ok(kernel->run(&call));
    if (kernel->release != NULL) {
        kernel->release(call.state);
    }
    gy_free(call.workspace);
}

static bool is_product(const gy_op *op)
{
    return strncmp(op->name, "matmul", 6) == 0 || strncmp(op->name, "conv2d", 6) == 0;
}

/* What a node computes by the CPU now; its text for later. */
static void take_node(collected *c, const gy_graph *graph, int32_t index, gy_random *random)
{
    assert_true(c->count < NODES_MAX);
    taken *t = &c->nodes[c->count];
    *t = (taken){.node = graph->nodes[index]};
    const gy_kernel_query query = gy_graph_query(graph, index, 1, t->views);
    t->input_count = query.input_count;
    t->output_count = query.output_count;
    const gy_kernel_call call = call_of(t, t->views + t->input_count);
    t->at = texts_add(&c->all, &call);
    if (is_product(t->node.op)) {
        assert_int_equal(t->at, -1);
        c->products++;
        return;
    }
    if (t->at < 0) {
        fail_msg("%s: %s", t->node.op->name, c->all.reason);
    }
    for (int k = 0; k < t->input_count + t->output_count; k++) {
        make_values(&t->views[k], random);
    }
    for (int o = 0; o < t->output_count; o++) {
        t->wanted[o] = t->views[t->input_count + o];
        make_values(&t->wanted[o], random);
    }
    run_here(t);
    c->count++;
}

static void take_session(collected *c, const gy_session *session, gy_random *random)
{
    for (size_t i = 0; i < session->program_count; i++) {
        const gy_graph *graph = session->programs[i]->graph;
        for (int32_t n = 0; n < graph->node_count; n++) {
            if ((graph->nodes[n].op->flags & (GY_OP_LEAF | GY_OP_EFFECT)) == 0) {
                take_node(c, graph, n, random);
            }
        }
    }
}

static void check_node(const collected *c, taken *t)
{
    gy_kernel_call call = call_of(t, t->views + t->input_count);
    assert_int_equal(texts_run(&c->all, t->at, &call), UINT64_MAX);
    for (int o = 0; o < t->output_count; o++) {
        const gy_view *wanted = &t->wanted[o], *got = &call.outputs[o];
        for (int64_t i = 0; i < gy_view_count(wanted); i++) {
            const double a = gy_element_get(wanted->dtype, wanted->data, i);
            const double b = gy_element_get(got->dtype, got->data, i);
            if (!(fabs(a - b) <= 1e-5 * (1 + fabs(a))) && !(isnan(a) && isnan(b)) && a != b) {
                fail_msg("%s, output %d at %lld: %.9g, the CPU gave %.9g", t->node.op->name, o,
                         (long long)i, b, a);
            }
        }
    }
}

static void free_node(taken *t)
{
    for (int k = 0; k < t->input_count + t->output_count; k++) {
        gy_free(t->views[k].data);
    }
    for (int o = 0; o < t->output_count; o++) {
        gy_free(t->wanted[o].data);
    }
}

static gy_model *new_model(bool is_gpt)
{
    const gy_layer lenet[] = {
        gy_layer_conv2d(8, 3, 1), gy_layer_relu(), gy_layer_max_pool(2), gy_layer_flatten(),
        gy_layer_dense(64),       gy_layer_relu(), gy_layer_dense(10)};
    return is_gpt ? kit_letters_gpt(LENGTH, 32, 1)
                  : kit_digits_model(lenet, (int)GY_COUNT(lenet), 12, 1);
}

static void train(gy_model *model, bool is_gpt)
{
    gy_train_result result = {.losses = NULL};
    gy_dataset set = is_gpt ? kit_letters(80, KIT_LETTERS, LENGTH) : kit_digits(80, 12);
    const gy_train_options options = GY_OPTIONS(gy_train_options, .steps = 2, .batch = 40,
                                                .clip_norm = 1, .optimizer = GY_OPTIMIZER_ADAMW,
                                                .rate = 0.003, .weight_decay = 0.01, .seed = 3);
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    gy_train_result_free(&result);
}

GY_TEST(what_trainings_compute_beside_products_has_texts)
{
    gy_random random = {.key = gy_test_seed()};
    collected *c = gy_alloc_zero("test", 1, sizeof(*c));
    gy_model *models[2];
    texts_open(&c->all);
    for (int kind = 0; kind < 2; kind++) {
        models[kind] = new_model(kind == 1);
        train(models[kind], kind == 1);
        take_session(c, gy_model_session(models[kind]), &random);
    }
    assert_in_range(c->count, 80, NODES_MAX);
    assert_in_range(c->products, 10, NODES_MAX);
    assert_in_range(c->all.source_count, 10, c->count / 2); /* most texts serve several nodes */
    texts_compile(&c->all);
    for (int n = 0; n < c->count; n++) {
        check_node(c, &c->nodes[n]);
        free_node(&c->nodes[n]);
    }
    texts_close(&c->all);
    gy_model_free(models[0]);
    gy_model_free(models[1]);
    gy_free(c);
}

GY_TEST_MAIN(NULL, NULL)
