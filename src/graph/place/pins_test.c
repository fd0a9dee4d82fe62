/* Goal: a value that is pinned is where the pin says and its users read it there; a pin that no
 * placement can take is refused by name, with the axis and what it could be.
 */
#include "graph/place/place_priv.h"

#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { BATCH = 4, TOKENS = 8, WIDTH = 6 };

static gy_placement cut(int dim)
{
    return (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
}

static const gy_placement whole = {.kind = GY_REPLICATE};

static gy_mesh line(gy_axis_kind kind, int ranks)
{
    return (gy_mesh){.axes = 1, .kinds = {kind}, .sizes = {ranks}};
}

/* Of a run of one batch; the graph is freed. */
static gy_status place(gy_graph *g, const gy_mesh *mesh, gy_node fetch, gy_graph **placed)
{
    gy_graph *bound = NULL;
    const gy_value value = {fetch.index, fetch.output};
    *placed = NULL;
    assert_ok(gy_graph_status(g));
    assert_ok(gy_bind(g, mesh, BATCH, &value, 1, &bound));
    const gy_status status = gy_place(bound, placed);
    gy_graph_free(bound);
    gy_graph_free(g);
    return status;
}

static const gy_graph_node *find(const gy_graph *placed, const char *name)
{
    for (int32_t i = 0; i < placed->node_count; i++) {
        if (strcmp(placed->nodes[i].name, name) == 0) {
            return &placed->nodes[i];
        }
    }
    fail_msg("no node %s", name);
    return NULL;
}

/* A small value that no search would cut is cut for both its users, or kept whole. */
GY_TEST(users_read_a_value_where_it_is_pinned)
{
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        for (gy_axis_kind kind = GY_AXIS_MODEL; kind <= GY_AXIS_AUTO; kind++) {
            const gy_mesh mesh = line(kind, 2);
            const char *axis = gy_mesh_axis_name(&mesh, 0);
            const gy_placement to = is_cut != 0 ? cut(1) : whole;
            gy_graph *g = kit_graph(), *placed = NULL;
            gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, TOKENS, WIDTH}, 3);
            gy_node h = gy_node_named(gy_op_tanh(x), "h");
            gy_node first = gy_node_named(gy_op_exp(h), "first");
            gy_node second = gy_node_named(gy_op_abs(h), "second");
            assert_ok(gy_pin(h, axis, cut(2))); /* the later one counts */
            assert_ok(gy_pin(h, axis, to));
            assert_ok(place(g, &mesh, gy_op_add(first, second), &placed));
            for (int32_t i = 0; i < placed->node_count; i++) {
                assert_ptr_not_equal(placed->nodes[i].op, &gy_ops_row_pin);
            }
            const gy_graph_node *users[] = {find(placed, "first"), find(placed, "second")};
            for (int i = 0; i < 2; i++) {
                const gy_type *read = gy_graph_type(placed, users[i]->inputs[0]);
                assert_true(gy_placement_is(read->placement[0], to));
            }
            gy_graph_free(placed);
        }
    }
}

/* A value that is made as a sum over the ranks is brought to the pin at once. */
GY_TEST(a_sum_is_scattered_to_its_pin)
{
    const gy_mesh mesh = line(GY_AXIS_MODEL, 2);
    gy_graph *g = kit_graph(), *placed = NULL;
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, TOKENS, WIDTH}, 3);
    gy_node u =
        gy_graph_parameter(g, "u", GY_F64, (int64_t[]){WIDTH, WIDTH}, 2, gy_init_zeros());
    gy_node w =
        gy_graph_parameter(g, "w", GY_F64, (int64_t[]){WIDTH, WIDTH}, 2, gy_init_zeros());
    gy_node h = gy_node_named(gy_op_matmul(gy_op_matmul(x, u), w), "h");
    assert_ok(gy_pin(u, "model", cut(1)));
    assert_ok(gy_pin(w, "model", cut(0)));
    assert_ok(gy_pin(h, "model", cut(1)));
    assert_ok(place(g, &mesh, gy_op_relu(h), &placed));
    const gy_graph_node *made = find(placed, "h.reduce_scatter");
    assert_true(gy_placement_is(made->types[0].placement[0], cut(1)));
    for (int32_t i = 0; i < placed->node_count; i++) {
        assert_ptr_not_equal(placed->nodes[i].op, &gy_ops_row_allreduce);
    }
    gy_graph_free(placed);
}

/* ---- what is refused ---- */

static void assert_refused(gy_graph *g, const gy_mesh *mesh, gy_node fetch, const char *text)
{
    gy_graph *placed = NULL;
    assert_status(place(g, mesh, fetch, &placed), GY_ARG);
    if (strstr(gy_error_text(), text) == NULL) {
        fail_msg("'%s', expected '%s'", gy_error_text(), text);
    }
    assert_null(placed);
}

GY_TEST(the_model_axis_takes_no_rows)
{
    const gy_mesh mesh = line(GY_AXIS_MODEL, 2);
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, WIDTH}, 2);
    gy_node h = gy_node_named(gy_op_transpose(x, (int[]){1, 0}), "h");
    assert_ok(gy_pin(h, "model", cut(1)));
    assert_refused(g, &mesh, gy_op_exp(h),
                   "pin of h: dimension 1 has the rows of the batch, which model=2 does not "
                   "cut, expected data or auto");
}

/* Heads that a reshape makes of columns. */
GY_TEST(three_heads_are_not_cut_in_two)
{
    enum { HEADS = 3 };
    for (int ranks = 2; ranks <= 3; ranks++) {
        const gy_mesh mesh = line(GY_AXIS_MODEL, ranks);
        gy_graph *g = kit_graph(), *placed = NULL;
        gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, TOKENS, WIDTH}, 3);
        gy_node h = gy_op_reshape(gy_op_exp(x), (int64_t[]){GY_BATCH, TOKENS, HEADS, 2}, 4);
        gy_node_named(h, "heads");
        assert_ok(gy_pin(h, "model", cut(2)));
        if (ranks == 2) {
            assert_refused(g, &mesh, gy_op_exp(h),
                           "pin of heads: dimension 2 has 3 elements, which model=2 does not "
                           "cut evenly, expected 1 or 3 ranks along model");
        } else {
            assert_ok(place(g, &mesh, gy_op_exp(h), &placed));
            gy_graph_free(placed);
        }
    }
}

GY_TEST(what_is_no_sum_is_no_partial)
{
    const gy_mesh mesh = line(GY_AXIS_AUTO, 2);
    gy_graph *g = kit_graph();
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){WIDTH}, 1, gy_init_zeros());
    gy_node h = gy_node_named(gy_op_exp(w), "h");
    assert_ok(gy_pin(h, "auto", (gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM}));
    assert_refused(g, &mesh, gy_op_exp(h),
                   "pin of h: nothing makes it a Partial along auto=2, expected R or S0 to S0");
}

GY_TEST(what_has_no_such_place_is_refused_at_once)
{
    gy_graph *g = kit_graph();
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){WIDTH, 4}, 2, gy_init_zeros());
    gy_node h = gy_node_named(gy_op_exp(w), "h");
    gy_node kept = gy_op_assign(w, h);
    assert_ok(gy_pin(h, "model", cut(0)));
    assert_status(gy_pin(h, "auto", cut(0)), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "pin of h: two axes cut dimension 0"));
    assert_status(gy_pin(h, "auto", cut(2)), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "cannot cut dimension 2"));
    assert_status(gy_pin(kept, "model", cut(0)), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "it is an effect, pin the parameter"));
    assert_status(gy_pin(h, "rows", whole), GY_ARG);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
