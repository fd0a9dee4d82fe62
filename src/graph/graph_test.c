/* Goal: nodes are built or say what is wrong with node and shapes; every allocation may fail;
 * parameters and inputs have names of their own. */
#include "graph/session.h"

#include <stdio.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

static void assert_says(const gy_graph *graph, const char *const *words, int count)
{
    assert_true(gy_graph_status(graph) < 0);
    for (int i = 0; i < count; i++) {
        if (strstr(gy_error_text(), words[i]) == NULL) {
            fail_msg("\"%s\" does not say %s", gy_error_text(), words[i]);
        }
    }
}

GY_TEST(shapes_that_do_not_fit_are_named)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "pixels", GY_F32, (int64_t[]){GY_BATCH, 784}, 2);
    gy_node w =
        gy_graph_parameter(g, "weights", GY_F32, (int64_t[]){785, 10}, 2, gy_init_zeros());
    gy_node y = gy_op_matmul(x, w);
    assert_int_equal(y.index, -1);
    /* What is built on it is harmless, and the first failure stays. */
    gy_node z = gy_op_add(gy_op_relu(y), gy_op_matmul(w, x));
    assert_int_equal(z.index, -1);
    assert_status(gy_graph_status(g), GY_SHAPE);
    assert_says(
        g, (const char *[]){"matmul_2", "pixels", "weights", "f32[batch,784]", "f32[785,10]"},
        5);
    gy_graph_free(g);
}

GY_TEST(names_are_unique)
{
    const int64_t sizes[] = {3};
    gy_graph *g = kit_graph();
    gy_graph_parameter(g, "w", GY_F32, sizes, 1, gy_init_zeros());
    gy_graph_input(g, "w", GY_F32, sizes, 1); /* an input may have a parameter's */
    assert_ok(gy_graph_status(g));
    assert_int_equal(gy_graph_parameter(g, "w", GY_F32, sizes, 1, gy_init_zeros()).index, -1);
    assert_says(g, (const char *[]){"w", "parameter of that name"}, 2);
    gy_graph_free(g);
}

GY_TEST(bad_arguments_are_named)
{
    const int64_t sizes[] = {2, 3}, symbolic[] = {2, GY_BATCH};
    for (int i = 0; i < 8; i++) {
        gy_graph *g = kit_graph(), *other = kit_graph();
        gy_node a = gy_graph_input(g, "a", GY_F32, sizes, 2);
        gy_node b = gy_graph_input(other, "b", GY_F32, sizes, 2);
        const char *word = "";
        switch (i) {
        case 0:
            gy_op_add(a, b);
            word = "another graph";
            break;
        case 1:
            gy_op_reshape(a, (int64_t[]){4, GY_ANY}, 2);
            word = "f32[2,3]";
            break;
        case 2:
            gy_op_dropout(a, 1.5);
            word = "1.5";
            break;
        case 3:
            gy_graph_input(g, "c", GY_F32, symbolic, 2);
            word = "first size";
            break;
        case 4:
            gy_graph_parameter(g, "c", GY_F32, symbolic, 2, gy_init_zeros());
            word = "expected a number";
            break;
        case 5:
            gy_op_assign(a, a);
            word = "needs a parameter";
            break;
        case 6:
            gy_graph_input(g, "c", GY_F32, sizes, 9);
            word = "rank 9";
            break;
        default:
            gy_op_softmax(a, 2);
            word = "softmax";
            break;
        }
        assert_says(g, &word, 1);
        gy_graph_free(g);
        gy_graph_free(other);
    }
}

GY_TEST(many_parts_are_joined)
{
    gy_graph *g = kit_graph();
    gy_node parts[40];
    for (int i = 0; i < 40; i++) {
        gy_node value = gy_graph_scalar(g, GY_F64, i);
        parts[i] = gy_op_broadcast_to(value, (int64_t[]){2}, 1);
    }
    gy_node all = gy_op_concat(parts, 40, 0);
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *result;
    assert_ok(gy_session_run(session, NULL, 0, 0, &all, 1, &result));
    assert_int_equal(gy_tensor_count(result), 80);
    for (int i = 0; i < 80; i++) {
        assert_true(gy_tensor_get(result, i) == i / 2);
    }
    gy_tensor_drop(result);
    gy_session_free(session);
    gy_graph_free(g);
}

enum { CHAIN = 300 };

/* Nodes of a chain, `letter` and a number. */
static gy_graph *chain_of(char letter)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 3}, 2);
    for (int i = 0; i < CHAIN; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%c%d", letter, i);
        x = gy_node_named(gy_op_exp(x), name);
    }
    assert_ok(gy_graph_status(g));
    return g;
}

/* A stage shows what is gone and what is new, of many nodes each one. */
GY_TEST(stages_show_what_changed)
{
    gy_graph *graphs[] = {chain_of('a'), chain_of('b')};
    gy_text before = {.data = NULL}, first = {.data = NULL}, second = {.data = NULL};
    gy_graph_print_stage(graphs[0], "one", &before, &first);
    gy_graph_print_stage(graphs[1], "two", &before, &second);
    int added = 0, gone = 0;
    const char *text = gy_text_get(&second);
    for (const char *at = text; (at = strstr(at, "   + b")) != NULL; at++) {
        added++;
    }
    for (int i = 0; i < CHAIN; i++) {
        char name[16];
        snprintf(name, sizeof(name), " a%d", i);
        const char *at = strstr(text, name);
        gone += at != NULL && strchr(" \n", at[strlen(name)]) != NULL;
    }
    if (added != CHAIN || gone != CHAIN) {
        fail_msg("%d new, %d gone, of %d:\n%s", added, gone, CHAIN, text);
    }
    gy_text_free(&first);
    gy_text_free(&second);
    gy_graph_print_stage(graphs[1], "three", &before, &second);
    assert_string_equal(gy_text_get(&second), "== three: 301 nodes, as before\n");
    gy_text_free(&second);
    gy_text_free(&before);
    gy_graph_free(graphs[0]);
    gy_graph_free(graphs[1]);
}

/* Build, differentiate, compile and run once; whatever fails on the way must be said. */
static gy_status build_and_run(void)
{
    gy_graph *g = NULL;
    if (gy_graph_new(&g) < 0) {
        assert_null(g);
        return GY_NOMEM;
    }
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 3}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 2}, 2, gy_init_glorot());
    gy_node y = gy_op_dropout(gy_op_softmax(gy_op_matmul(x, w), 1), 0.25);
    gy_node loss = gy_op_mean(gy_op_mul(y, y), 0, false);
    gy_node fetches[] = {loss, gy_op_assign(w, gy_op_sub(w, gy_op_gradient(loss, w)))};
    gy_tensor *rows = NULL, *results[2] = {NULL};
    gy_session *session = NULL;
    gy_status status = gy_graph_status(g);
    if (status >= 0) {
        status = gy_tensor_zeros(NULL, GY_F64, (int64_t[]){4, 3}, 2, &rows);
    }
    if (status >= 0) {
        status = gy_session_new(g, &(gy_session_options){.workers = 1}, &session);
    }
    const gy_feed feed = {x, rows};
    if (status >= 0) {
        status = gy_session_run(session, &feed, 1, 0, fetches, 2, results);
    }
    gy_tensor_drop(results[0]);
    gy_session_free(session);
    gy_tensor_drop(rows);
    gy_graph_free(g);
    return status;
}

GY_TEST(every_allocation_may_fail)
{
    assert_ok(build_and_run()); /* what is kept for good is there now */
    const int64_t before = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t n = 1;
    for (; status != GY_OK; n++) {
        gy_alloc_fail_after(n);
        status = build_and_run();
        gy_alloc_fail_after(0);
        if (status != GY_OK && status != GY_NOMEM) {
            fail_msg("allocation %d failed, and the run said %s (%s)", (int)n,
                     gy_status_text(status), gy_error_text());
        }
        assert_int_equal(gy_alloc_live(), before);
    }
    assert_true(n > 50);
}

GY_TEST_MAIN(NULL, NULL)
