/* Goal: epilogues, formats, fusion and the plan of memory each do what they say on a small
 * graph, never fuse what would wait for itself, never put two live values into one place. */
#include "graph/random_graph.h"

#include <math.h>

#include "graph/passes/pass_test.h"
#include "graph_kit.h"
#include "ops/kernels/libraries.h"

/* A mean ends a group as a sum does, also of a cut batch: it divides by the global number. */
GY_TEST(means_end_groups)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = matrix(g, "y");
    gy_node loss = gy_op_mean(gy_op_exp(gy_op_sub(x, y)), 0, false);
    gy_graph *bound = bind(g, 2, 4, &loss, 1), *placed, *out;
    assert_ok(gy_place(bound, &placed));
    assert_ok(gy_fuse(placed, &out));
    assert_prints(out, "   0 x: f64[4,3] S0 = input()\n"
                       "   1 y: f64[4,3] S0 = input()\n"
                       "   2 mean_4: f64[] P(sum) = fused(0, 1) %2 = sub %0 %1, "
                       "%3 = exp %2 -> mean %3 over 0,1\n"
                       "   3 mean_4.allreduce: f64[] R = allreduce(2)\n"
                       "     fetched: 3\n");
    assert_true(out->nodes[2].attributes.fused.program->outputs[0].count == 12);
    double rows[2][6] = {{0}}, result = 0;
    gy_view views[3] = {gy_view_of(rows[0], GY_F64, (int64_t[]){2, 3}, 2),
                        gy_view_of(rows[1], GY_F64, (int64_t[]){2, 3}, 2),
                        gy_view_of(&result, GY_F64, NULL, 0)};
    const gy_kernel_call call = {.op = &gy_ops_row_fused,
                                 .attributes = &out->nodes[2].attributes,
                                 .inputs = views,
                                 .input_count = 2,
                                 .outputs = &views[2],
                                 .output_count = 1};
    assert_ok(gy_ops_row_fused.reference(&call)); /* 6 ones of 12: this rank has two rows */
    assert_true(result == 0.5);
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

GY_TEST(bias_and_relu_move_into_products)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 3}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){3, 5}, 2, gy_init_zeros());
    gy_node b = gy_graph_parameter(g, "b", GY_F32, (int64_t[]){5}, 1, gy_init_zeros());
    gy_node plain = gy_op_matmul_transposed(w, true, x, true);
    gy_node fetches[] = {gy_op_relu(gy_op_add(gy_op_matmul(x, w), b)), gy_op_relu(plain),
                         plain};
    check(gy_fuse_epilogues, g, fetches, 3,
          "   0 x: f32[4,3] R = input()\n"
          "   1 w: f32[3,5] R = parameter()\n"
          "   2 b: f32[5] R = parameter()\n"
          "   3 matmul_3: f32[5,4] R = matmul(1, 0) ta tb\n"
          "   4 matmul_4: f32[4,5] R = matmul(0, 1)\n"
          "   5 add_5: f32[4,5] R = add(4, 2)\n"
          "   6 relu_6: f32[4,5] R = relu(5)\n"
          "   7 relu_7: f32[5,4] R = relu(3)\n"
          "     fetched: 6 7 3\n",
          "   0 x: f32[4,3] R = input()\n"
          "   1 w: f32[3,5] R = parameter()\n"
          "   2 b: f32[5] R = parameter()\n"
          "   3 matmul_3: f32[5,4] R = matmul(1, 0) ta tb\n"
          "   4 relu_6: f32[4,5] R = matmul(0, 1, 2) bias relu\n"
          "   5 relu_7: f32[5,4] R = relu(3)\n"
          "     fetched: 4 5 3\n");
}

/* A bias of (K,1,1) is the convolution's; one of another shape stays an addition. */
GY_TEST(bias_of_channels_moves_into_convolutions)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 2, 5, 5}, 4);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){3, 2, 3, 3}, 4, gy_init_zeros());
    gy_node b = gy_graph_parameter(g, "b", GY_F32, (int64_t[]){3}, 1, gy_init_zeros());
    gy_node row = gy_graph_parameter(g, "row", GY_F32, (int64_t[]){3}, 1, gy_init_zeros());
    gy_node y = gy_op_add(gy_op_conv2d(x, w, NULL), gy_op_reshape(b, (int64_t[]){3, 1, 1}, 3));
    gy_node fetches[] = {y, gy_op_add(gy_op_conv2d(x, w, NULL), row)};
    gy_graph *bound = bind(g, 1, 4, fetches, 2), *out;
    assert_ok(gy_fuse_epilogues(bound, &out));
    assert_prints(out, "   0 x: f32[4,2,5,5] R = input()\n"
                       "   1 w: f32[3,2,3,3] R = parameter()\n"
                       "   2 b: f32[3] R = parameter()\n"
                       "   3 row: f32[3] R = parameter()\n"
                       "   4 add_6: f32[4,3,3,3] R = conv2d(0, 1, 2) stride 1 pad 0 bias\n"
                       "   5 conv2d_7: f32[4,3,3,3] R = conv2d(0, 1) stride 1 pad 0\n"
                       "   6 add_8: f32[4,3,3,3] R = add(5, 3)\n"
                       "     fetched: 4 6\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* w - r t(x) dy is one node; a gradient that something else reads is stored. */
GY_TEST(the_gradient_is_subtracted_where_it_is_made)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), dy = matrix(g, "dy");
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 3}, 2, gy_init_zeros());
    gy_node rate = gy_graph_input(g, "rate", GY_F64, NULL, 0);
    gy_node once = gy_op_matmul_transposed(x, true, dy, false);
    gy_node twice = gy_op_matmul_transposed(dy, true, x, false);
    gy_node fetches[] = {gy_op_sub(w, gy_op_mul(once, rate)),
                         gy_op_sub(w, gy_op_mul(rate, twice)), twice};
    gy_graph *bound = bind(g, 1, 4, fetches, 3), *out;
    assert_ok(gy_fuse_epilogues(bound, &out));
    assert_prints(out, "   0 x: f64[4,3] R = input()\n"
                       "   1 dy: f64[4,3] R = input()\n"
                       "   2 w: f64[3,3] R = parameter()\n"
                       "   3 rate: f64[] R = input()\n"
                       "   4 matmul_5: f64[3,3] R = matmul(1, 0) ta\n"
                       "   5 sub_7: f64[3,3] R = matmul_update(2, 0, 1, 3) ta\n"
                       "   6 mul_8: f64[3,3] R = mul(3, 4)\n"
                       "   7 sub_9: f64[3,3] R = sub(2, 6)\n"
                       "     fetched: 5 7 4\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

static int count_of(const gy_graph *graph, const gy_op *op)
{
    int found = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        found += graph->nodes[i].op == op;
    }
    return found;
}

/* What a gradient needs of relu is stored and summed in one pass. */
GY_TEST(chains_and_their_sums_are_one_node)
{
    gy_graph *g = kit_graph();
    gy_node y = matrix(g, "y"), dy = matrix(g, "dy"), zero = gy_graph_scalar(g, GY_F64, 0);
    gy_node masked = gy_op_select(gy_op_greater(y, zero), dy, zero);
    gy_node wide =
        gy_op_broadcast_to(gy_graph_scalar(g, GY_F64, 2), (int64_t[]){GY_BATCH, 3}, 2);
    gy_node fetches[] = {masked, gy_op_sum(masked, 1, false), gy_op_mul(wide, masked)};
    check(
        gy_fuse, g, fetches, 3,
        "   0 y: f64[4,3] R = input()\n"
        "   1 dy: f64[4,3] R = input()\n"
        "   2 fill_2: f64[] R = fill() 0\n"
        "   3 greater_3: u8[4,3] R = greater(0, 2)\n"
        "   4 select_4: f64[4,3] R = select(3, 1, 2)\n"
        "   5 fill_5: f64[] R = fill() 2\n"
        "   6 broadcast_to_6: f64[4,3] R = broadcast_to(5)\n"
        "   7 sum_7: f64[3] R = sum(4) over 0\n"
        "   8 mul_8: f64[4,3] R = mul(6, 4)\n"
        "     fetched: 4 7 8\n",
        "   0 y: f64[4,3] R = input()\n"
        "   1 dy: f64[4,3] R = input()\n"
        "   2 fill_2: f64[] R = fill() 0\n"
        "   3 fill_5: f64[] R = fill() 2\n"
        "   4 mul_8: f64[4,3] R; f64[3] R; f64[4,3] R = fused(0, 2, 1, 3) %4 = greater %0 %1, "
        "%5 = select %4 %2 %1, %6 = mul %3 %5 -> store %5, sum %5 over 0, store %6\n"
        "     fetched: 4 4.1 4.2\n");
}

/* All of it reads x: what looked at each pair of readers took minutes for these nodes. */
GY_TEST(a_long_chain_is_fused_in_time)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = x;
    for (int i = 0; i < gy_test_cases(4000); i++) {
        y = i % 7 != 0 ? gy_op_tanh(gy_op_add(y, x))
                       : gy_op_sub(y, gy_op_mean(gy_op_exp(y), 0, false));
    }
    gy_graph *bound = bind(g, 1, 4, &y, 1), *out;
    assert_ok(gy_fuse(bound, &out));
    assert_in_range(out->node_count, 2, bound->node_count / 10);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* exp and add cannot be one: the product between them reads the one for the other. */
GY_TEST(what_comes_back_is_not_fused)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 3}, 2, gy_init_zeros());
    gy_node a = gy_op_exp(x), sum = gy_op_add(a, gy_op_matmul(a, w));
    gy_node fetches[] = {gy_op_tanh(sum), gy_op_sub(a, gy_op_sum(a, 0, false))};
    gy_graph *bound = bind(g, 1, 4, fetches, 2), *out;
    assert_ok(gy_fuse(bound, &out));
    assert_prints(out, "   0 x: f64[4,3] R = input()\n"
                       "   1 w: f64[3,3] R = parameter()\n"
                       "   2 sum_6: f64[4,3] R; f64[] R = fused(0) %1 = exp %0 -> store %1, "
                       "sum %1 over 0,1\n"
                       "   3 matmul_3: f64[4,3] R = matmul(2, 1)\n"
                       "   4 sub_7: f64[4,3] R; f64[4,3] R = fused(2, 3, 2.1) %3 = add %0 %1, "
                       "%4 = tanh %3, %5 = sub %0 %2 -> store %4, store %5\n"
                       "     fetched: 4 4.1\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* No program reads both what an allreduce waits for and what it gives. */
GY_TEST(nothing_is_fused_across_a_collective)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = matrix(g, "y");
    gy_node total = gy_op_sum(gy_op_mul(x, x), 0, false);
    gy_node ready = gy_op_exp(y), late = gy_op_tanh(gy_op_mul(ready, total));
    gy_node fetches[] = {late};
    gy_graph *bound = bind(g, 2, 4, fetches, 1), *placed, *out;
    assert_ok(gy_place(bound, &placed));
    assert_ok(gy_fuse(placed, &out));
    assert_int_equal(count_of(out, &gy_ops_row_allreduce), 1);
    assert_int_equal(count_of(out, &gy_ops_row_exp), 1);
    assert_int_equal(count_of(out, &gy_ops_row_fused), 2);
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* ---- formats ---- */

typedef struct images {
    gy_graph *graph;
    gy_node x, pooled, parameters[4], loss;
} images;

/* Two convolutions of 16 channels with relu and pooling between, then a product. */
static images make_images(void)
{
    images n = {.graph = kit_graph()};
    const gy_init init = {GY_INIT_UNIFORM, 0.2, NULL};
    n.x = gy_graph_input(n.graph, "x", GY_F32, (int64_t[]){GY_BATCH, 1, 8, 8}, 4);
    n.parameters[0] =
        gy_graph_parameter(n.graph, "a", GY_F32, (int64_t[]){16, 1, 3, 3}, 4, init);
    n.parameters[1] = gy_graph_parameter(n.graph, "b", GY_F32, (int64_t[]){16}, 1, init);
    n.parameters[2] =
        gy_graph_parameter(n.graph, "c", GY_F32, (int64_t[]){16, 16, 3, 3}, 4, init);
    n.parameters[3] = gy_graph_parameter(n.graph, "d", GY_F32, (int64_t[]){64, 4}, 2, init);
    gy_node bias = gy_op_reshape(n.parameters[1], (int64_t[]){16, 1, 1}, 3);
    gy_node y = gy_op_relu(
        gy_op_add(gy_op_conv2d(n.x, n.parameters[0], &(gy_conv_options){.pad = {1, 1}}), bias));
    y = n.pooled = gy_op_max_pool(y, &(gy_window_options){.window = {2, 2}});
    y = gy_op_max_pool(
        gy_op_relu(gy_op_conv2d(y, n.parameters[2], &(gy_conv_options){.pad = {1, 1}})),
        &(gy_window_options){.window = {2, 2}});
    y = gy_op_tanh(
        gy_op_matmul(gy_op_reshape(y, (int64_t[]){GY_BATCH, 64}, 2), n.parameters[3]));
    n.loss = gy_op_mean(gy_op_mul(y, y), 0, false);
    return n;
}

/* One reorder where the images become rows, one where the rows' gradient becomes images, one
 * for what is fetched. */
GY_TEST(values_stay_blocked_between_convolutions)
{
    images n = make_images();
    gy_node fetches[6] = {n.loss, n.pooled};
    assert_ok(gy_op_gradients(n.loss, n.parameters, 4, fetches + 2));
    gy_graph *bound = bind(n.graph, 1, 3, fetches, 6), *out;
    assert_ok(gy_compile(bound, 0, NULL, &out));
    const bool is_blocked = gy_tile_isa_level() == GY_TILE_ISA_AVX512; /* faster there alone */
    assert_int_equal(count_of(out, &gy_ops_row_reorder), is_blocked ? 3 : 0);
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        bool is_images = node->types[0].rank == 4 && node->types[0].sizes[0] == 3 &&
                         node->types[0].sizes[1] == 16;
        if (is_images && node->op != &gy_ops_row_reorder && node->op != &gy_ops_row_reshape) {
            assert_int_equal(node->types[0].format,
                             is_blocked ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE);
        }
    }
    for (int32_t i = 0; i < out->root_count; i++) {
        assert_int_equal(gy_graph_type(out, out->roots[i].value)->format, GY_FORMAT_DENSE);
    }
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(n.graph);
}

/* relu's mask is taken of the pooled value, and the bias' gradient is a sum of that. */
GY_TEST(the_mask_is_taken_where_it_is_small)
{
    images n = make_images();
    gy_node gradient = gy_op_gradient(n.loss, n.parameters[1]);
    gy_graph *bound = bind(n.graph, 1, 3, &gradient, 1), *out;
    assert_ok(gy_compile(bound, 0, NULL, &out));
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        if (node->op == &gy_ops_row_fused && node->types[0].rank == 4) {
            assert_true(node->types[0].sizes[2] <= 4);
        }
    }
    assert_int_equal(count_of(out, &gy_ops_row_max_pool), 2);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(n.graph);
}

static uint32_t bits_of(const char *name)
{
    uint32_t bits = 0;
    for (int i = 0; i < gy_compile_pass_count; i++) {
        bits |= strcmp(gy_compile_passes[i].name, name) == 0 ? 1u << i : 0;
    }
    return bits;
}

/* Three steps of descent on the images; the loss of each and all parameters. */
static int train_images(uint32_t skip, double *values)
{
    images n = make_images();
    gy_node fetches[5] = {n.loss}, gradients[4];
    gy_node rate = gy_graph_scalar(n.graph, GY_F32, 0.5);
    int count = 0;
    assert_ok(gy_op_gradients(n.loss, n.parameters, 4, gradients));
    for (int i = 0; i < 4; i++) {
        fetches[1 + i] = gy_op_assign(
            n.parameters[i], gy_op_sub(n.parameters[i], gy_op_mul(rate, gradients[i])));
    }
    gy_session *session;
    assert_ok(gy_session_new(n.graph, &(gy_session_options){.workers = 1}, &session));
    session->skip = skip;
    gy_tensor *x, *results[5];
    assert_ok(gy_tensor_new(NULL, GY_F32, (int64_t[]){3, 1, 8, 8}, 4, &x));
    for (int i = 0; i < 3 * 64; i++) {
        gy_tensor_set(x, i, sin(i));
    }
    for (int step = 0; step < 3; step++) {
        const gy_feed feed = {n.x, x};
        assert_ok(gy_session_run(session, &feed, 1, 0, fetches, 5, results));
        values[count++] = gy_tensor_get(results[0], 0);
        gy_tensor_drop(results[0]);
    }
    for (int i = 0; i < 4; i++) {
        gy_tensor *p =
            gy_session_parameter(session, n.graph->nodes[n.parameters[i].index].name);
        for (int64_t k = 0; k < gy_tensor_count(p); k++) {
            values[count++] = gy_tensor_get(p, k);
        }
    }
    gy_tensor_drop(x);
    gy_session_free(session);
    gy_graph_free(n.graph);
    return count;
}

GY_TEST(training_on_images_does_not_depend_on_passes)
{
    static double plain[4096], other[4096];
    static const char *const names[] = {"algebra", "epilogues", "layout", "fuse"};
    int count = train_images(0, plain);
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        assert_int_equal(train_images(bits_of(names[i]), other), count);
        for (int k = 0; k < count; k++) {
            if (!(fabs(plain[k] - other[k]) <= 1e-5 * fmax(1, fabs(plain[k])))) {
                fail_msg("value %d: %.9g, without %s %.9g", k, plain[k], names[i], other[k]);
            }
        }
    }
    train_images(GY_SKIP_SHARING, other);
    assert_memory_equal(plain, other, (size_t)count * sizeof(plain[0]));
}

/* ---- memory ---- */

/* The value whose memory a value is. */
static int32_t base_of(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    while ((node->op->flags & GY_OP_VIEW) != 0 || node->op == &gy_ops_row_assign) {
        value = node->inputs[0];
        node = gy_graph_at(graph, value);
    }
    return gy_graph_value(graph, value);
}

/* Whoever reads a value last, from the graph alone. */
static void find_last(const gy_graph *graph, int32_t *made, int32_t *last)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int32_t k = 0; k < node->output_count; k++) {
            made[node->first_value + k] = last[node->first_value + k] = i;
        }
        for (int k = 0; k < node->input_count; k++) {
            if (node->op != &gy_ops_row_assign || k == 1) {
                last[base_of(graph, node->inputs[k])] = i;
            }
        }
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        if (gy_graph_at(graph, graph->roots[i].value)->op != &gy_ops_row_assign) {
            last[base_of(graph, graph->roots[i].value)] = INT32_MAX;
        }
    }
}

/* A node may write over what it reads last: an allreduce, or where its kernel says so. */
static bool is_in_place(const gy_graph *graph, const gy_graph_choice *choice, int32_t index)
{
    const gy_kernel *kernel = choice->kernel;
    const gy_op *op = graph->nodes[index].op;
    return op == &gy_ops_row_allreduce ||
           (kernel != NULL &&
            (op == &gy_ops_row_fused ? kernel->in_place_any : kernel->in_place != 0));
}

/* The workspace of a kernel is nobody else's, that of an exchange is while it lasts. */
static void assert_workspace(const gy_graph *graph, const gy_graph_choice *choices,
                             const gy_memory_plan *plan, int32_t index, const int32_t *made,
                             const int32_t *last)
{
    for (int32_t v = 0; plan->of_workspace[index] >= 0 && v < graph->value_count; v++) {
        const bool is_apart =
            choices[index].kernel == NULL && (last[v] < index || made[v] > index);
        assert_true(is_apart || plan->of_value[v] != plan->of_workspace[index]);
    }
}

/* No value is written over before its last reader has it. Returns how many share a buffer. */
static int assert_sound(const gy_graph *graph, const gy_graph_choice *choices,
                        const gy_memory_plan *plan)
{
    static int32_t made[4096], last[4096];
    int shared = 0;
    assert_in_range(graph->value_count, 1, 4096);
    find_last(graph, made, last);
    for (int32_t b = 0; b < graph->node_count; b++) {
        const gy_graph_node *node = &graph->nodes[b];
        for (int32_t k = 0; k < node->output_count; k++) {
            int32_t v = node->first_value + k;
            if (base_of(graph, (gy_value){b, k}) != v) {
                continue;
            }
            int32_t buffer = plan->of_value[v];
            assert_true(plan->buffers[buffer].size_bytes >=
                        gy_local_bytes(&graph->mesh, &node->types[k]));
            for (int32_t u = 0; u < v; u++) {
                if (plan->of_value[u] != buffer || made[u] == -1) {
                    continue;
                }
                if (last[u] > b || (last[u] == b && !is_in_place(graph, &choices[b], b)) ||
                    made[u] == b) {
                    fail_msg("values %d and %d share buffer %d", (int)u, (int)v, (int)buffer);
                }
                shared++;
            }
        }
        assert_workspace(graph, choices, plan, b, made, last);
    }
    return shared;
}

static void hide_views(const gy_graph *graph, gy_memory_plan *plan)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < graph->nodes[i].output_count; k++) {
            int32_t v = graph->nodes[i].first_value + k;
            if (base_of(graph, (gy_value){i, k}) != v) {
                plan->of_value[v] = -2; /* its base stands for it */
            }
        }
    }
}

static int check_plan(gy_graph *user, int ranks, const gy_node *fetches, int count)
{
    gy_graph *bound = bind(user, ranks, 6, fetches, count), *out;
    assert_ok(gy_compile(bound, 0, NULL, &out));
    gy_graph_choice *choices =
        gy_alloc_zero("test", (size_t)out->node_count + 1, sizeof(*choices));
    assert_non_null(choices);
    gy_choose_kernels(out, 1, choices);
    int shared = 0;
    for (int scratch = 0; scratch < 3; scratch++) {
        gy_memory_plan plan;
        assert_ok(gy_plan_memory(out, choices, scratch, &plan));
        hide_views(out, &plan);
        int found = assert_sound(out, choices, &plan);
        assert_true(scratch > 0 || found == 0);
        shared += found;
        gy_memory_plan_free(&plan);
    }
    gy_free(choices);
    gy_graph_free(out);
    gy_graph_free(bound);
    return shared;
}

GY_TEST(no_two_live_values_share_memory)
{
    uint64_t seed = gy_test_seed();
    int shared = 0;
    for (uint64_t trial = 0; trial < 40; trial++) {
        random_graph r;
        random_graph_make(&r, seed + trial, false, 30);
        gy_node fetches[1 + RANDOM_PARAMETERS + 2], gradients[RANDOM_PARAMETERS];
        fetches[0] = r.loss;
        assert_ok(gy_op_gradients(r.loss, r.parameters, RANDOM_PARAMETERS, gradients));
        for (int i = 0; i < RANDOM_PARAMETERS; i++) {
            gy_node step = gy_op_mul(gradients[i], gy_graph_scalar(r.graph, GY_F64, 0.1));
            fetches[1 + i] = gy_op_assign(r.parameters[i], gy_op_sub(r.parameters[i], step));
        }
        fetches[1 + RANDOM_PARAMETERS] = r.values[r.count - 1];
        fetches[2 + RANDOM_PARAMETERS] = r.parameters[trial % RANDOM_PARAMETERS];
        shared += check_plan(r.graph, trial % 2 == 0 ? 1 : 3, fetches, (int)GY_COUNT(fetches));
        gy_graph_free(r.graph);
    }
    images n = make_images();
    gy_node fetches[5] = {n.loss};
    assert_ok(gy_op_gradients(n.loss, n.parameters, 4, fetches + 1));
    shared += check_plan(n.graph, 2, fetches, 5);
    gy_graph_free(n.graph);
    assert_true(shared > 500);
}

/* w -= r g writes w's own memory: no copy is left, nor a task for the assignment. */
GY_TEST(updates_are_made_in_place)
{
    gy_graph *g = kit_graph();
    const int64_t sizes[] = {64, 8};
    const gy_init init = {GY_INIT_UNIFORM, 1, NULL};
    gy_node w = gy_graph_parameter(g, "w", GY_F64, sizes, 2, init);
    gy_node v = gy_graph_parameter(g, "v", GY_F64, sizes, 2, init);
    gy_node next = gy_op_add(gy_op_mul(v, gy_graph_scalar(g, GY_F64, 0.9)), gy_op_tanh(w));
    gy_node loss = gy_op_sum(gy_op_mul(w, v), 0, false);
    gy_node fetches[] = {loss, gy_op_assign(w, gy_op_sub(w, next)), gy_op_assign(v, next)};
    gy_session *session;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    gy_tensor *results[3];
    double wanted = 0;
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_session_run(session, NULL, 0, 0, fetches, 3, results));
        assert_true(i == 0 || fabs(gy_tensor_get(results[0], 0) - wanted) < 1e-9);
        gy_tensor_drop(results[0]);
        wanted = 0;
        for (int k = 0; k < 64 * 8; k++) {
            wanted += gy_tensor_get(gy_session_parameter(session, "w"), k) *
                      gy_tensor_get(gy_session_parameter(session, "v"), k);
        }
    }
    const gy_program *program = session->programs[0];
    for (int32_t i = 0; i < program->step_count; i++) {
        assert_ptr_not_equal(program->steps[i].node->op, &gy_ops_row_assign);
        assert_ptr_not_equal(program->steps[i].node->op, &gy_ops_row_fill);
    }
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
