/* Goal: each pass alone does what it says on a small graph (text before and after), and random
 * graphs give the same results with and without it. */
#include "graph/graph.h"
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph/passes/pass_test.h"
#include "graph_kit.h"

GY_TEST(common_subexpressions_are_one)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = matrix(g, "y");
    gy_node left = gy_op_mul(x, y), right = gy_op_mul(y, x);
    gy_node sum = gy_op_add(left, right);
    check(gy_rewrite_common, g, &sum, 1,
          "   0 x: f64[4,3] R = input()\n"
          "   1 y: f64[4,3] R = input()\n"
          "   2 mul_2: f64[4,3] R = mul(0, 1)\n"
          "   3 mul_3: f64[4,3] R = mul(1, 0)\n"
          "   4 add_4: f64[4,3] R = add(2, 3)\n"
          "     fetched: 4\n",
          "   0 x: f64[4,3] R = input()\n"
          "   1 y: f64[4,3] R = input()\n"
          "   2 mul_2: f64[4,3] R = mul(0, 1)\n"
          "   3 add_4: f64[4,3] R = add(2, 2)\n"
          "     fetched: 3\n");
}

GY_TEST(two_dropouts_stay_two)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node both[] = {gy_op_dropout(x, 0.5), gy_op_dropout(x, 0.5)};
    gy_graph *bound = bind(g, 1, 4, both, 2), *out;
    assert_ok(gy_rewrite_common(bound, &out));
    assert_int_not_equal(out->roots[0].value.node, out->roots[1].value.node);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

GY_TEST(constants_are_computed)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node three = gy_graph_scalar(g, GY_F64, 3), also = gy_graph_scalar(g, GY_F64, 3);
    gy_node one = gy_op_exp(gy_op_sub(three, also));
    gy_node wide = gy_op_broadcast_to(one, (int64_t[]){1000, 1000}, 2);
    gy_node fetches[] = {gy_op_mul(x, one), gy_op_sqrt(wide)};
    check(gy_rewrite_constants, g, fetches, 2,
          "   0 x: f64[4,3] R = input()\n"
          "   1 fill_1: f64[] R = fill() 3\n"
          "   2 fill_2: f64[] R = fill() 3\n"
          "   3 sub_3: f64[] R = sub(1, 2)\n"
          "   4 exp_4: f64[] R = exp(3)\n"
          "   5 broadcast_to_5: f64[1000,1000] R = broadcast_to(4)\n"
          "   6 mul_6: f64[4,3] R = mul(0, 4)\n"
          "   7 sqrt_7: f64[1000,1000] R = sqrt(5)\n"
          "     fetched: 6 7\n",
          "   0 x: f64[4,3] R = input()\n"
          "   1 fill_1: f64[] R = fill() 3\n"
          "   2 fill_2: f64[] R = fill() 3\n"
          "   3 sub_3: f64[] R = fill() 0\n"
          "   4 exp_4: f64[] R = fill() 1\n"
          "   5 broadcast_to_5: f64[1000,1000] R = fill() 1\n"
          "   6 mul_6: f64[4,3] R = mul(0, 4)\n"
          "   7 sqrt_7: f64[1000,1000] R = fill() 1\n"
          "     fetched: 6 7\n");
}

GY_TEST(what_nobody_needs_goes)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), fetches[] = {gy_op_exp(x), gy_op_tanh(x)};
    gy_graph *bound = bind(g, 1, 4, fetches, 2), *out;
    bound->root_count = 1;
    assert_ok(gy_rewrite_dead(bound, &out));
    assert_prints(out, "   0 x: f64[4,3] R = input()\n"
                       "   1 exp_1: f64[4,3] R = exp(0)\n"
                       "     fetched: 1\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

GY_TEST(algebra_removes_neutral_elements)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), one = gy_graph_scalar(g, GY_F64, 1),
            zero = gy_graph_scalar(g, GY_F64, 0);
    gy_node plain = gy_op_neg(gy_op_neg(gy_op_add(gy_op_mul(one, x), zero)));
    gy_node eight = gy_graph_scalar(g, GY_F64, 8), two = gy_graph_scalar(g, GY_F64, 2);
    gy_node fetches[] = {plain, gy_op_pow(gy_op_div(x, eight), two)};
    check(gy_rewrite_algebra, g, fetches, 2,
          "   0 x: f64[4,3] R = input()\n"
          "   1 fill_1: f64[] R = fill() 1\n"
          "   2 fill_2: f64[] R = fill() 0\n"
          "   3 mul_3: f64[4,3] R = mul(1, 0)\n"
          "   4 add_4: f64[4,3] R = add(3, 2)\n"
          "   5 neg_5: f64[4,3] R = neg(4)\n"
          "   6 neg_6: f64[4,3] R = neg(5)\n"
          "   7 fill_7: f64[] R = fill() 8\n"
          "   8 fill_8: f64[] R = fill() 2\n"
          "   9 div_9: f64[4,3] R = div(0, 7)\n"
          "  10 pow_10: f64[4,3] R = pow(9, 8)\n"
          "     fetched: 6 10\n",
          "   0 x: f64[4,3] R = input()\n"
          "   1 fill_1: f64[] R = fill() 1\n"
          "   2 fill_2: f64[] R = fill() 0\n"
          "   3 neg_5: f64[4,3] R = neg(0)\n"
          "   4 fill_7: f64[] R = fill() 8\n"
          "   5 fill_8: f64[] R = fill() 2\n"
          "   6 div_9: f64[] R = fill() 0.125\n"
          "   7 div_9: f64[4,3] R = mul(0, 6)\n"
          "   8 pow_10: f64[4,3] R = square(7)\n"
          "     fetched: 0 8\n");
}

GY_TEST(algebra_moves_shapes_out_of_the_way)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = matrix(g, "y");
    const int swap[] = {1, 0};
    gy_node fetches[] = {
        gy_op_matmul(gy_op_transpose(x, swap), y),
        gy_op_transpose(gy_op_transpose(x, swap), swap),
        gy_op_log(gy_op_softmax(x, 1)),
        gy_op_sum(gy_op_reshape(gy_op_reshape(y, (int64_t[]){3, GY_BATCH}, 2),
                                (int64_t[]){GY_BATCH, 1, 3}, 3),
                  2, false),
    };
    check(gy_rewrite_algebra, g, fetches, 4,
          "   0 x: f64[4,3] R = input()\n"
          "   1 y: f64[4,3] R = input()\n"
          "   2 transpose_2: f64[3,4] R = transpose(0) to 1 0\n"
          "   3 matmul_3: f64[3,3] R = matmul(2, 1)\n"
          "   4 transpose_4: f64[3,4] R = transpose(0) to 1 0\n"
          "   5 transpose_5: f64[4,3] R = transpose(4) to 1 0\n"
          "   6 softmax_6: f64[4,3] R = softmax(0)\n"
          "   7 log_7: f64[4,3] R = log(6)\n"
          "   8 reshape_8: f64[3,4] R = reshape(1)\n"
          "   9 reshape_9: f64[4,1,3] R = reshape(8)\n"
          "  10 sum_10: f64[4,3] R = sum(9) over 1\n"
          "     fetched: 3 5 7 10\n",
          "   0 x: f64[4,3] R = input()\n"
          "   1 y: f64[4,3] R = input()\n"
          "   2 transpose_2: f64[3,4] R = transpose(0) to 1 0\n"
          "   3 matmul_3: f64[3,3] R = matmul(0, 1) ta\n"
          "   4 transpose_4: f64[3,4] R = transpose(0) to 1 0\n"
          "   5 softmax_6: f64[4,3] R = softmax(0)\n"
          "   6 log_7: f64[4,3] R = log_softmax(0)\n"
          "   7 reshape_8: f64[3,4] R = reshape(1)\n"
          "   8 reshape_9: f64[4,1,3] R = reshape(1)\n"
          "   9 sum_10: f64[4,3] R = reshape(8)\n"
          "     fetched: 3 0 6 9\n");
}

GY_TEST(a_sum_of_what_was_broadcast_is_a_product)
{
    gy_graph *g = kit_graph();
    gy_node row = gy_graph_parameter(g, "row", GY_F64, (int64_t[]){3}, 1, gy_init_zeros());
    gy_node sum = gy_op_sum(gy_op_broadcast_to(row, (int64_t[]){5, 3}, 2), 1, false);
    check(gy_rewrite_algebra, g, &sum, 1,
          "   0 row: f64[3] R = parameter()\n"
          "   1 broadcast_to_1: f64[5,3] R = broadcast_to(0)\n"
          "   2 sum_2: f64[3] R = sum(1) over 0\n"
          "     fetched: 2\n",
          "   0 row: f64[3] R = parameter()\n"
          "   1 broadcast_to_1: f64[5,3] R = broadcast_to(0)\n"
          "   2 sum_2: f64[3] R = reshape(0)\n"
          "   3 fill_3: f64[] R = fill() 5\n"
          "   4 mul_4: f64[3] R = mul(2, 3)\n"
          "     fetched: 4\n");
}

/* The allreduce of the gradient stands between t(x) dy and the update; nobody wrote it. */
GY_TEST(placement_inserts_the_gradients_allreduce)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 784}, 2);
    gy_node labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){784, 10}, 2, gy_init_zeros());
    gy_node loss = gy_op_cross_entropy(gy_op_matmul(x, w), labels);
    gy_node gradient = gy_op_gradient(loss, w), rate = gy_graph_scalar(g, GY_F32, 0.5);
    gy_node step = gy_op_mul(rate, gradient);
    gy_node fetches[] = {loss, gy_op_assign(w, gy_op_sub(w, step))};
    gy_graph *bound = bind(g, 4, 64, fetches, 2), *out;
    assert_ok(gy_compile(bound, 0, NULL, &out));
    assert_prints(out, "   0 x: f32[64,784] S0 = input()\n"
                       "   1 labels: i32[64] S0 = input()\n"
                       "   2 w: f32[784,10] R = parameter()\n"
                       "   3 matmul_3: f32[64,10] S0 = matmul(0, 2)\n"
                       "   4 cross_entropy_4: f32[] P(sum) = cross_entropy(3, 1)\n"
                       "   5 cross_entropy_4.allreduce: f32[] R = allreduce(4)\n"
                       "   6 fill_5: f32[] R = fill() 1\n"
                       "   7 cross_entropy_gradient_6: f32[64,10] S0 = "
                       "cross_entropy_gradient(3, 1, 6)\n"
                       "   8 matmul_8: f32[784,10] P(sum) = matmul(0, 7) ta\n"
                       "   9 matmul_8.allreduce: f32[784,10] R = allreduce(8)\n"
                       "  10 fill_9: f32[] R = fill() 0.5\n"
                       "  11 sub_11: f32[784,10] R = fused(10, 9, 2) %3 = mul %0 %1, "
                       "%4 = sub %2 %3 -> store %4\n"
                       "  12 assign_12: f32[784,10] R = assign(2, 11)\n"
                       "     fetched: 5 12\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* A hidden layer cut by columns, the next by rows, one sum over the model axis behind them;
 * what is Partial or cut along one axis stays so through the exchanges of the other. */
GY_TEST(layers_are_cut_along_the_model_axis)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 4096}, 2);
    gy_node w1 =
        gy_graph_parameter(g, "w1", GY_F32, (int64_t[]){4096, 4096}, 2, gy_init_zeros());
    gy_node w2 = gy_graph_parameter(g, "w2", GY_F32, (int64_t[]){4096, 16}, 2, gy_init_zeros());
    gy_node hidden = gy_op_relu(gy_op_matmul(x, w1));
    gy_node second = gy_op_matmul(hidden, w2);
    gy_node total = gy_op_sum(second, 0, false);
    gy_node fetches[] = {total, gy_op_gradient(total, w2)};
    const gy_mesh mesh = {.axes = 2,
                          .kinds = {GY_AXIS_DATA, GY_AXIS_MODEL},
                          .sizes = {2, 2},
                          .links = {{0}, {.alpha = 1e-7, .beta = 1e-12, .gamma = 1e-12}}};
    gy_graph *bound = bind_mesh(g, &mesh, 2, fetches, 2), *out;
    assert_ok(gy_compile(bound, 0, NULL, &out));
    assert_prints(out, "   0 x: f32[2,4096] S0,R = input()\n"
                       "   1 w1: f32[4096,4096] R,R = parameter()\n"
                       "   2 w2: f32[4096,16] R,R = parameter()\n"
                       "   3 w1.take_shard: f32[4096,4096] R,S1 = take_shard(1)\n"
                       "   4 relu_4: f32[2,4096] S0,S1 = matmul(0, 3) relu\n"
                       "   5 w2.take_shard: f32[4096,16] R,S0 = take_shard(2)\n"
                       "   6 matmul_5: f32[2,16] S0,P(sum) = matmul(4, 5)\n"
                       "   7 matmul_5.allreduce: f32[2,16] S0,R = allreduce(6)\n"
                       "   8 sum_6: f32[] P(sum),R = sum(7) over 0,1\n"
                       "   9 sum_6.allreduce: f32[] R,R = allreduce(8)\n"
                       "  10 broadcast_to_9: f32[2,16] S0,R = fill() 1\n"
                       "  11 matmul_11: f32[4096,16] P(sum),S0 = matmul(4, 10) ta\n"
                       "  12 matmul_11.allreduce: f32[4096,16] R,S0 = allreduce(11)\n"
                       "  13 matmul_11.allreduce.allgather: f32[4096,16] R,R = allgather(12)\n"
                       "     fetched: 9 13\n");
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* Rows, transposed or not, that the axis cuts. */
static int cut_rows(const gy_graph *graph, int64_t batch)
{
    int found = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_type *type = &graph->nodes[i].types[0];
        const gy_placement *placement = &type->placement[0];
        found += placement->kind == GY_SHARD && type->sizes[placement->dim] == batch;
    }
    return found;
}

GY_TEST(the_model_axis_cuts_no_rows)
{
    enum { ROWS = 4097 };
    for (gy_axis_kind kind = GY_AXIS_MODEL; kind <= GY_AXIS_AUTO; kind++) {
        const gy_mesh mesh = {.axes = 1,
                              .kinds = {kind},
                              .sizes = {4},
                              .links = {{.alpha = 1e-15, .beta = 1e-18, .gamma = 1e-18}}};
        gy_graph *g = kit_graph(), *placed = NULL;
        gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 96}, 2);
        gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){96, 3}, 2, gy_init_zeros());
        gy_node turned = gy_op_transpose(gy_op_exp(x), (int[]){1, 0});
        gy_node y = gy_op_tanh(gy_op_matmul_transposed(turned, true, w, false));
        gy_node fetch = gy_op_sum(gy_op_mul(y, y), 0, false);
        gy_graph *bound = bind_mesh(g, &mesh, ROWS, &fetch, 1);
        assert_ok(gy_place(bound, &placed));
        const int rows = cut_rows(placed, ROWS);
        assert_true(kind == GY_AXIS_MODEL ? rows == 0 : rows > 0);
        gy_graph_free(placed);
        gy_graph_free(bound);
        gy_graph_free(g);
    }
}

/* Seconds of a node's work, as placement sees it, which knows what memory fusion spares. */
static double work_of(const gy_graph *graph, int32_t index, double bytes)
{
    const gy_graph_node *node = &graph->nodes[index];
    gy_cost cost = {.flops = 0};
    gy_type inputs[2];
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(graph, node->inputs[k]);
    }
    node->op->cost(&node->attributes, inputs, node->input_count, node->types, &cost);
    return fmax(cost.flops / 50e9, bytes / 10e9);
}

/* Cutting w saves half of exp and half of its square, and costs a copy of half of w and one of
 * half of what the fetch gathers; it is done if that is less. */
GY_TEST(a_node_that_reads_twice_is_one_user)
{
    enum { COUNT = 1 << 20 };
    gy_graph *g = kit_graph();
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){COUNT}, 1, gy_init_zeros());
    gy_node y = gy_op_exp(w), square = gy_op_mul(y, y);
    gy_mesh mesh = {.axes = 2, .kinds = {GY_AXIS_DATA, GY_AXIS_MODEL}, .sizes = {1, 2}};
    for (int i = 0; i < 2; i++) {
        gy_graph *bound = bind_mesh(g, &mesh, 1, &square, 1), *out;
        const double saved = /* exp reads w, its square is written */
            (work_of(bound, 1, 4.0 * COUNT) + work_of(bound, 2, 4.0 * COUNT)) / 2;
        gy_graph_free(bound);
        const double copy_s = saved / 2 * (i == 0 ? 0.9 : 1.1); /* of half of w */
        mesh.links[1] =
            (gy_links){.alpha = 1e-15, .beta = 1e-18, .gamma = copy_s / (COUNT * 4 / 2)};
        bound = bind_mesh(g, &mesh, 1, &square, 1);
        assert_ok(gy_place(bound, &out));
        bool is_cut = false;
        for (int32_t k = 0; k < out->node_count; k++) {
            is_cut = is_cut || out->nodes[k].op == &gy_ops_row_take_shard;
        }
        assert_true(is_cut == (i == 0));
        gy_graph_free(out);
        gy_graph_free(bound);
    }
    gy_graph_free(g);
}

/* As of an operator with one placement more than the pass has room for. */
static int too_many_placements(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, const gy_type *outputs,
                               gy_signature *signatures)
{
    (void)attributes;
    (void)inputs;
    (void)input_count;
    (void)outputs;
    (void)signatures;
    return GY_OP_SIGNATURES_MAX + 1;
}

GY_TEST(placements_that_do_not_fit_refuse_the_node)
{
    gy_graph *g = kit_graph();
    gy_node y = gy_op_exp(matrix(g, "x"));
    gy_graph *bound = bind(g, 2, 4, &y, 1), *out;
    gy_op many = *bound->nodes[1].op;
    many.placements = too_many_placements;
    bound->nodes[1].op = &many;
    assert_status(gy_place(bound, &out), GY_LIMIT);
    assert_string_equal(gy_error_text(), "operator exp has 17 placements, at most 16");
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* Statistics over a cut batch: expanded, so that they are of all ranks; and on one rank too, as
 * no kernel runs it. */
GY_TEST(batch_norm_is_expanded_on_any_number_of_ranks)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 2, 3, 3}, 4);
    gy_node gain = gy_graph_parameter(g, "gain", GY_F64, (int64_t[]){2}, 1, gy_init_zeros());
    gy_node bias = gy_graph_parameter(g, "bias", GY_F64, (int64_t[]){2}, 1, gy_init_zeros());
    gy_node y = gy_op_batch_norm(x, gain, bias, 1e-5);
    for (int ranks = 1; ranks <= 2; ranks++) {
        gy_graph *bound = bind(g, ranks, 6, &y, 1), *out;
        assert_ok(gy_expand(bound, &out));
        int found = 0;
        for (int32_t i = 0; i < out->node_count; i++) {
            found += out->nodes[i].op == &gy_ops_row_batch_norm;
        }
        assert_int_equal(found, 0);
        gy_graph_free(out);
        gy_graph_free(bound);
    }
    gy_graph_free(g);
}

/* A collective stands right behind its input, assignments at the end. */
GY_TEST(schedule_hoists_collectives)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 3}, 2, gy_init_zeros());
    gy_node square = gy_node_named(gy_op_matmul_transposed(x, true, x, false), "square");
    gy_node other = gy_node_named(gy_op_tanh(gy_op_exp(x)), "other");
    gy_node fetches[] = {gy_op_assign(w, square), other, w};
    gy_graph *bound = bind(g, 2, 4, fetches, 3), *placed, *out;
    assert_ok(gy_place(bound, &placed));
    assert_ok(gy_schedule(placed, &out));
    assert_prints(out, "   0 x: f64[4,3] S0 = input()\n"
                       "   1 w: f64[3,3] R = parameter()\n"
                       "   2 square: f64[3,3] P(sum) = matmul(0, 0) ta\n"
                       "   3 square.allreduce: f64[3,3] R = allreduce(2)\n"
                       "   4 exp_3: f64[4,3] S0 = exp(0)\n"
                       "   5 other: f64[4,3] S0 = tanh(4)\n"
                       "   6 w.before: f64[3,3] R = identity(1)\n"
                       "   7 assign_5: f64[3,3] R = assign(1, 3)\n"
                       "     fetched: 7 5 6\n");
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* The numbers given after placement hold, whatever later passes do to the order of nodes. */
GY_TEST(schedule_keeps_the_order_of_collectives)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y = matrix(g, "y");
    gy_node first = gy_op_matmul_transposed(x, true, x, false);
    gy_node second = gy_op_matmul_transposed(y, true, y, false);
    gy_node fetches[] = {gy_node_named(first, "first"), gy_node_named(second, "second")};
    gy_graph *bound = bind(g, 2, 4, fetches, 2), *placed, *numbered, *turned, *out;
    assert_ok(gy_place(bound, &placed));
    assert_ok(gy_schedule(placed, &numbered));
    gy_pass pass;
    assert_ok(gy_pass_begin(&pass, numbered));
    const int32_t order[] = {1, 4, 5, 0, 2, 3}; /* y and what follows it, then x */
    assert_int_equal(numbered->node_count, GY_COUNT(order));
    for (size_t i = 0; i < GY_COUNT(order); i++) {
        gy_pass_copy(&pass, order[i]);
    }
    assert_ok(gy_pass_end(&pass, GY_OK, &turned));
    assert_ok(gy_schedule(turned, &out));
    const char *seen[2];
    int count = 0;
    for (int32_t i = 0; i < out->node_count; i++) {
        if (out->nodes[i].op == &gy_ops_row_allreduce) {
            seen[count++] = out->nodes[i].name;
        }
    }
    assert_int_equal(count, 2);
    assert_string_equal(seen[0], "first.allreduce");
    assert_string_equal(seen[1], "second.allreduce");
    gy_graph_free(out);
    gy_graph_free(turned);
    gy_graph_free(numbered);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* Two exchanges, the second of what came of the first, and numbers that say otherwise. */
GY_TEST(schedule_refuses_what_waits_for_itself)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node first = gy_op_matmul_transposed(x, true, x, false);
    gy_node second = gy_op_sum(gy_op_matmul(x, gy_op_tanh(first)), 0, false);
    gy_graph *bound = bind(g, 2, 4, &second, 1), *placed, *out;
    assert_ok(gy_place(bound, &placed));
    gy_graph_node *exchanges[2];
    int count = 0;
    for (int32_t i = 0; i < placed->node_count; i++) {
        if (placed->nodes[i].op == &gy_ops_row_allreduce) {
            exchanges[count++] = &placed->nodes[i];
        }
    }
    assert_int_equal(count, 2);
    exchanges[0]->origin = -2 - 1;
    exchanges[1]->origin = -2 - 0;
    assert_int_equal(gy_schedule(placed, &out), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "waits for itself"));
    exchanges[1]->origin = -1; /* number 0 is nowhere */
    assert_int_equal(gy_schedule(placed, &out), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "none is number 0"));
    exchanges[0]->origin = -2 - 0;
    exchanges[1]->origin = -2 - 1;
    assert_ok(gy_schedule(placed, &out));
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* A send to rank 1 of a value. */
static void send_value(gy_pass *pass, gy_value value)
{
    gy_attributes attributes = {.bytes = {0}};
    const gy_type nothing = {.dtype = GY_U8};
    attributes.message.peer = 1;
    assert_false(gy_value_is_none(gy_graph_apply_typed(pass->out, &gy_ops_row_send, &attributes,
                                                       &value, 1, &nothing, 1, "send")));
}

/* Two values are sent; what stands first in the graph is for the second, or for none. */
GY_TEST(what_another_stage_waits_for_soonest_goes_first)
{
    enum { NODES = 8 };
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x"), y[4];
    gy_node (*const makers[])(gy_node) = {gy_op_exp, gy_op_tanh, gy_op_sigmoid, gy_op_relu};
    for (int i = 0; i < 4; i++) { /* x, exp, tanh(exp), sigmoid, relu(sigmoid) */
        y[i] = makers[i](i % 2 == 1 ? y[i - 1] : x);
    }
    gy_graph *bound = bind(g, 1, 4, y, 4), *placed, *out;
    assert_ok(gy_place(bound, &placed));
    assert_int_equal(placed->node_count, 5);
    gy_pass pass;
    assert_ok(gy_pass_begin(&pass, placed));
    for (int32_t i = 0; i < 5; i++) {
        const gy_value copy = gy_pass_copy(&pass, i);
        if (i == 4) {
            send_value(&pass, copy);                                 /* 5 */
            send_value(&pass, gy_pass_get(&pass, (gy_value){1, 0})); /* 6 */
        }
    }
    assert_ok(gy_pass_end(&pass, GY_OK, &out));
    int32_t priorities[NODES];
    assert_ok(gy_graph_prioritize(out, priorities));
    assert_int_equal(out->node_count, 7);
    /* relu is sent first and sigmoid is for it; exp is sent then; tanh is for nobody */
    const int32_t order[] = {4, 1, 0, 3, 2};
    for (int i = 0; i + 1 < 5; i++) {
        assert_true(priorities[order[i]] > priorities[order[i + 1]]);
    }
    assert_true(priorities[2] >= 1 && priorities[4] <= 2 * out->node_count);
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* On a mesh: placement prices exchanges, which takes memory too. */
GY_TEST(every_allocation_of_the_passes_may_fail)
{
    gy_graph *g = kit_graph();
    gy_node x = matrix(g, "x");
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 3}, 2, gy_init_zeros());
    gy_node loss = gy_op_sum(gy_op_relu(gy_op_matmul(x, w)), 0, false);
    gy_node fetches[] = {loss, gy_op_assign(w, gy_op_sub(w, gy_op_gradient(loss, w)))};
    const gy_mesh mesh = {.axes = 2,
                          .kinds = {GY_AXIS_DATA, GY_AXIS_MODEL},
                          .sizes = {2, 2},
                          .links = {{0}, {.alpha = 1e-15, .beta = 1e-18, .gamma = 1e-18}}};
    gy_graph *bound = bind_mesh(g, &mesh, 4, fetches, 2), *out = NULL;
    const int64_t before = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t n = 0;
    while (status != GY_OK) {
        gy_alloc_fail_after(++n);
        status = gy_compile(bound, 0, NULL, &out);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_true(status == GY_OK || gy_alloc_live() == before);
    }
    printf("%d allocations\n", (int)n - 1);
    assert_true(n > 50);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* ---- with and without ---- */

enum { FETCHES = 1 + RANDOM_PARAMETERS + 4 };

static void run_without(random_graph *r, const gy_node *fetches, uint32_t skip,
                        gy_tensor **results)
{
    gy_session *session;
    assert_ok(gy_session_new(r->graph, &(gy_session_options){.workers = 1}, &session));
    session->skip = skip;
    gy_tensor *x, *y;
    double data[5 * RANDOM_FEATURES];
    for (int i = 0; i < 5 * RANDOM_FEATURES; i++) {
        data[i] = sin(i);
    }
    const int64_t sizes[] = {5, RANDOM_FEATURES};
    assert_ok(gy_tensor_from(NULL, GY_F64, sizes, 2, data, &x));
    assert_ok(gy_tensor_from(NULL, GY_F64, sizes, 2, data, &y));
    const gy_feed feeds[] = {{r->x, x}, {r->y, y}};
    assert_ok(gy_session_run(session, feeds, 2, 0, fetches, FETCHES, results));
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    gy_session_free(session);
}

GY_TEST(results_do_not_depend_on_any_pass)
{
    uint64_t seed = gy_test_seed();
    const long trials = gy_test_cases(20);
    printf("%ld random graphs%s\n", trials,
           trials < 20 ? ": a sanitizer makes each take seconds" : "");
    for (uint64_t trial = 0; trial < (uint64_t)trials; trial++) {
        random_graph r;
        random_graph_make(&r, seed + trial, false, 24);
        gy_node fetches[FETCHES];
        fetches[0] = r.loss;
        assert_ok(gy_op_gradients(r.loss, r.parameters, RANDOM_PARAMETERS, fetches + 1));
        for (int i = 0; i < 4; i++) {
            fetches[1 + RANDOM_PARAMETERS + i] = r.values[r.count - 1 - i];
        }
        gy_tensor *plain[FETCHES], *without[FETCHES];
        run_without(&r, fetches, 0, plain);
        for (int skipped = 0; skipped < gy_compile_pass_count; skipped++) {
            const char *name = gy_compile_passes[skipped].name;
            uint32_t skip = 0;
            for (int i = 0; i < gy_compile_pass_count; i++) {
                skip |= strcmp(gy_compile_passes[i].name, name) == 0 ? 1u << i : 0;
            }
            if (strcmp(name, "place") == 0 || strcmp(name, "schedule") == 0) {
                continue; /* no program without them */
            }
            run_without(&r, fetches, skip, without);
            for (int i = 0; i < FETCHES; i++) {
                for (int64_t k = 0; k < gy_tensor_count(plain[i]); k++) {
                    double a = gy_tensor_get(plain[i], k), b = gy_tensor_get(without[i], k);
                    if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(a)))) {
                        fail_msg("seed %llu: %.17g, without %s %.17g",
                                 (unsigned long long)(seed + trial), a, name, b);
                    }
                }
                gy_tensor_drop(without[i]);
            }
        }
        for (int i = 0; i < FETCHES; i++) {
            gy_tensor_drop(plain[i]);
        }
        gy_graph_free(r.graph);
    }
}

GY_TEST_MAIN(NULL, NULL)
