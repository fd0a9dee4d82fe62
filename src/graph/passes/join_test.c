/* Goal: sums over time steps become products of stacked operands and concats, and nothing else
 * changes: neither values nor what other nodes read. */
#include "graph/passes/pass_test.h"

#include <math.h>

enum { TIMES_MAX = 40, ROWS = 2, COLUMNS = 6 };

static int count_of(const gy_graph *graph, const gy_op *op)
{
    int count = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        count += graph->nodes[i].op == op;
    }
    return count;
}

static gy_node input(gy_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return gy_graph_input(g, name, GY_F64, (int64_t[]){rows, columns}, 2);
}

/* t(x w^t) y, t = 0 … times - 1, added up one behind the other. */
static gy_node sum_of_products(gy_node x, gy_node w, gy_node y, int times, gy_node *first)
{
    gy_node total = {.index = -1};
    for (int t = 0; t < times; t++) {
        const gy_node product = gy_op_matmul_transposed(x, true, y, false);
        *first = t == 0 ? product : *first;
        total = t == 0 ? product : gy_op_add(total, product);
        x = gy_op_tanh(gy_op_matmul(x, w));
    }
    return total;
}

static gy_graph *joined(gy_graph *graph, const gy_node *fetches, int count)
{
    gy_graph *bound = bind(graph, 1, 4, fetches, count), *out = NULL;
    assert_ok(gy_pass_join(bound, &out));
    gy_graph_free(bound);
    gy_graph_free(graph);
    return out;
}

GY_TEST(up_to_sixteen_products_become_one)
{
    static const struct {
        int times, joined, single;
    } cases[] = {{1, 0, 1}, {2, 1, 0}, {16, 1, 0}, {17, 1, 1}, {40, 3, 0}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_graph *g = NULL;
        gy_node first;
        assert_ok(gy_graph_new(&g));
        const gy_node x = input(g, "x", ROWS, COLUMNS), w = input(g, "w", COLUMNS, COLUMNS);
        const gy_node y = input(g, "y", ROWS, COLUMNS);
        const gy_node total = sum_of_products(x, w, y, cases[i].times, &first);
        gy_graph *out = joined(g, &total, 1);
        const int forward = cases[i].times - 1;
        assert_int_equal(count_of(out, &gy_ops_row_matmul_over_rows), cases[i].joined);
        assert_int_equal(count_of(out, &gy_ops_row_matmul), forward + cases[i].single);
        assert_int_equal(count_of(out, &gy_ops_row_add),
                         GY_MAX(cases[i].joined + cases[i].single - 1, 0));
        gy_graph_free(out);
    }
}

/* Many rows, a reader beside the sum, other rows: these stay products of their own. */
GY_TEST(what_would_not_pay_stays)
{
    gy_graph *g = NULL;
    gy_node first, fetches[2];
    assert_ok(gy_graph_new(&g));
    gy_node x = input(g, "x", 3 * COLUMNS, COLUMNS), w = input(g, "w", COLUMNS, COLUMNS);
    gy_node y = input(g, "y", 3 * COLUMNS, COLUMNS);
    fetches[0] = sum_of_products(x, w, y, 4, &first);
    gy_graph *out = joined(g, fetches, 1);
    assert_int_equal(count_of(out, &gy_ops_row_matmul_over_rows), 0);
    assert_int_equal(count_of(out, &gy_ops_row_add), 3);
    gy_graph_free(out);

    assert_ok(gy_graph_new(&g));
    x = input(g, "x", ROWS, COLUMNS);
    w = input(g, "w", COLUMNS, COLUMNS);
    y = input(g, "y", ROWS, COLUMNS);
    gy_node z = input(g, "z", 1, COLUMNS);
    fetches[0] = gy_op_add(gy_op_matmul_transposed(z, true, z, false),
                           sum_of_products(x, w, y, 4, &first));
    fetches[1] = first;
    out = joined(g, fetches, 2);
    assert_int_equal(count_of(out, &gy_ops_row_matmul_over_rows), 1);
    assert_int_equal(count_of(out, &gy_ops_row_matmul), 3 + 2);
    gy_graph_free(out);
}

static gy_node pad(gy_node x, int k, int parts)
{
    return gy_op_pad(x, 1, k * COLUMNS, (parts - 1 - k) * COLUMNS);
}

GY_TEST(pads_side_by_side_are_a_concat)
{
    gy_graph *g = NULL;
    assert_ok(gy_graph_new(&g));
    gy_node x = input(g, "x", ROWS, COLUMNS), y = input(g, "y", ROWS, COLUMNS);
    gy_node z = input(g, "z", ROWS, COLUMNS);
    gy_node fetch = gy_op_add(gy_op_add(pad(z, 2, 3), pad(x, 0, 3)), pad(y, 1, 3));
    gy_graph *out = joined(g, &fetch, 1);
    assert_prints(out, "   0 x: f64[2,6] R = input()\n"
                       "   1 y: f64[2,6] R = input()\n"
                       "   2 z: f64[2,6] R = input()\n"
                       "   3 add_7: f64[2,18] R = concat(0, 1, 2)\n"
                       "     fetched: 3\n");
    gy_graph_free(out);
    /* A gap, an overlap, a whole that reaches further: sums. */
    for (int wrong = 0; wrong < 3; wrong++) {
        assert_ok(gy_graph_new(&g));
        x = input(g, "x", ROWS, COLUMNS);
        y = input(g, "y", ROWS, COLUMNS);
        fetch = gy_op_add(pad(x, wrong == 0, 3), pad(y,
                                                     wrong == 1   ? 0
                                                     : wrong == 2 ? 1
                                                                  : 2,
                                                     3));
        out = joined(g, &fetch, 1);
        assert_int_equal(count_of(out, &gy_ops_row_concat), 0);
        gy_graph_free(out);
    }
}

/* ---- the same values ---- */

/* A recurrent model with gates as slices, and all its gradients. */
static int recurrent(gy_graph *g, gy_random *random, gy_node *fetches)
{
    const int times = 2 + (int)gy_random_below(random, TIMES_MAX - 2);
    gy_node x = input(g, "x", ROWS, COLUMNS), w = input(g, "w", COLUMNS, 2 * COLUMNS);
    gy_node u = input(g, "u", COLUMNS, 2 * COLUMNS), h = x;
    for (int t = 0; t < times; t++) {
        const gy_node gates = gy_op_add(gy_op_matmul(h, w), gy_op_matmul(gy_op_neg(h), u));
        h = gy_op_mul(gy_op_tanh(gy_op_slice(gates, 1, 0, COLUMNS, 1)),
                      gy_op_sigmoid(gy_op_slice(gates, 1, COLUMNS, 2 * COLUMNS, 1)));
        h = gy_random_below(random, 4) == 0 ? gy_op_add(h, x) : h;
    }
    fetches[0] = gy_op_sum(gy_op_mul(h, h), 0, false);
    const gy_node wrt[] = {x, w, u};
    assert_ok(gy_op_gradients(fetches[0], wrt, 3, fetches + 1));
    return 4;
}

static void run(gy_graph *g, const gy_node *fetches, int count, uint32_t skip,
                gy_tensor **results)
{
    gy_session *session = NULL;
    gy_tensor *tensors[3];
    gy_feed feeds[3];
    static const char *const names[] = {"x", "w", "u"};
    static const int64_t sizes[][2] = {
        {ROWS, COLUMNS}, {COLUMNS, 2 * COLUMNS}, {COLUMNS, 2 * COLUMNS}};
    gy_random values = {.key = 17};
    int found = 0;
    for (int32_t i = 0; i < g->node_count && found < 3; i++) {
        if (g->nodes[i].op == &gy_ops_row_input) {
            assert_string_equal(g->nodes[i].name, names[found]);
            assert_ok(gy_tensor_zeros(NULL, GY_F64, sizes[found], 2, &tensors[found]));
            for (int64_t k = 0; k < gy_tensor_count(tensors[found]); k++) {
                gy_tensor_set(tensors[found], k, gy_random_normal(&values));
            }
            feeds[found] = (gy_feed){{g, i, 0}, tensors[found]};
            found++;
        }
    }
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    session->skip = skip;
    assert_ok(gy_session_run(session, feeds, 3, 1, fetches, count, results));
    for (int i = 0; i < 3; i++) {
        gy_tensor_drop(tensors[i]);
    }
    gy_session_free(session);
}

GY_TEST(values_are_those_without_it)
{
    uint32_t skip = 0;
    for (int i = 0; i < gy_compile_pass_count; i++) {
        skip |= gy_compile_passes[i].run == gy_pass_join ? 1u << i : 0;
    }
    assert_int_not_equal(skip, 0);
    const uint64_t seed = gy_test_seed();
    for (uint64_t k = 0; k < 12; k++) {
        gy_graph *g = NULL;
        gy_node fetches[4];
        gy_tensor *with[4], *without[4];
        gy_random random = {.key = seed + k};
        assert_ok(gy_graph_new(&g));
        const int count = recurrent(g, &random, fetches);
        run(g, fetches, count, 0, with);
        run(g, fetches, count, skip, without);
        for (int i = 0; i < count; i++) {
            for (int64_t e = 0; e < gy_tensor_count(with[i]); e++) {
                const double a = gy_tensor_get(with[i], e), b = gy_tensor_get(without[i], e);
                if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(a)))) {
                    fail_msg("seed %llu: value %d: %g, without the pass %g",
                             (unsigned long long)(seed + k), i, a, b);
                }
            }
            gy_tensor_drop(with[i]);
            gy_tensor_drop(without[i]);
        }
        gy_graph_free(g);
    }
}

GY_TEST_MAIN(NULL, NULL)
