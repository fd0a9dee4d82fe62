/*
 * Goal: whole numbers beyond 2^53 are set, read, kept as constants, folded, added, compared and
 * picked with every bit, in 64-bit types of either sign.
 */
#include "graph/graph.h"

#include <gyre/graph.h>

#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

#define BEYOND (INT64_C(1) << 53)

GY_TEST(elements_keep_every_bit)
{
    const int64_t values[] = {BEYOND + 1, -BEYOND - 1, INT64_MAX, INT64_MIN, INT64_MAX - 1, 0};
    gy_tensor *tensor = NULL;
    for (int kind = 0; kind < 2; kind++) {
        gy_dtype dtype = kind == 0 ? GY_I64 : GY_U64;
        assert_ok(gy_tensor_zeros(NULL, dtype, (int64_t[]){2, 3}, 2, &tensor));
        for (int64_t i = 0; i < 6; i++) {
            gy_tensor_set_int64(tensor, i, values[i]);
        }
        gy_tensor *turned = NULL; /* strides too */
        assert_ok(gy_tensor_permute(tensor, (int[]){1, 0}, &turned));
        for (int64_t i = 0; i < 6; i++) {
            assert_true(gy_tensor_get_int64(tensor, i) == values[i]);
            assert_true(gy_tensor_get_int64(turned, i) == values[i % 2 * 3 + i / 2]);
        }
        gy_tensor_drop(turned);
        gy_tensor_drop(tensor);
    }
}

GY_TEST(other_types_are_converted_as_they_say)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_zeros(NULL, GY_I8, (int64_t[]){2}, 1, &tensor));
    gy_tensor_set_int64(tensor, 0, 300); /* the low bits */
    gy_tensor_set(tensor, 1, 300);       /* the end of the range */
    assert_true(gy_tensor_get_int64(tensor, 0) == 44 && gy_tensor_get_int64(tensor, 1) == 127);
    gy_tensor_drop(tensor);
    assert_ok(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){1}, 1, &tensor));
    gy_tensor_set(tensor, 0, -2.75);
    assert_true(gy_tensor_get_int64(tensor, 0) == -2);
    gy_tensor_set(tensor, 0, 1e300);
    assert_true(gy_tensor_get_int64(tensor, 0) == INT64_MAX);
    gy_tensor_drop(tensor);
}

/* The one element of a node that needs no input. */
static int64_t value_of(gy_node node)
{
    gy_session *session = NULL;
    gy_tensor *result = NULL;
    assert_ok(gy_graph_status(node.graph));
    assert_ok(gy_session_new(node.graph, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_run(session, NULL, 0, 0, &node, 1, &result));
    int64_t value = gy_tensor_get_int64(result, 0);
    gy_tensor_drop(result);
    gy_session_free(session);
    return value;
}

GY_TEST(constants_keep_every_bit)
{
    const int64_t values[] = {0,           -1,        BEYOND - 1, BEYOND,       BEYOND + 1,
                              -BEYOND - 1, INT64_MAX, INT64_MIN,  INT64_MAX - 1};
    for (size_t k = 0; k < GY_COUNT(values); k++) {
        gy_graph *g = kit_graph();
        gy_node a = gy_graph_scalar_int64(g, GY_I64, values[k]),
                one = gy_graph_scalar_int64(g, GY_I64, 1);
        int64_t next = (int64_t)((uint64_t)values[k] + 1);
        assert_true(value_of(a) == values[k]);
        assert_true(value_of(gy_op_add(a, one)) == next); /* folded before it runs */
        assert_true(value_of(gy_op_sub(gy_op_add(a, one), one)) == values[k]);
        assert_true(value_of(gy_graph_scalar_int64(g, GY_U64, values[k])) == values[k]);
        gy_graph_free(g);
    }
}

/* Narrow types keep the low bits, floats are rounded; a type that does not exist is told. */
GY_TEST(constants_of_other_types)
{
    gy_graph *g = kit_graph();
    assert_true(value_of(gy_graph_scalar_int64(g, GY_I32, BEYOND + 7)) == 7);
    assert_true(value_of(gy_graph_scalar_int64(g, GY_U8, 300)) == 44);
    assert_true(value_of(gy_graph_scalar_int64(g, GY_F64, BEYOND + 1)) == BEYOND);
    assert_true(value_of(gy_graph_scalar_int64(g, GY_F32, -5)) == -5);
    (void)gy_graph_scalar_int64(g, (gy_dtype)99, 1);
    assert_status(gy_graph_status(g), GY_ARG);
    gy_graph_free(g);
    (void)gy_graph_scalar_int64(NULL, GY_I64, 1);
}

/* Neighbours that are one double: kernels tell them apart. */
GY_TEST(neighbours_are_told_apart)
{
    enum { COUNT = 37 };
    int64_t data[COUNT];
    for (int64_t i = 0; i < COUNT; i++) {
        data[i] = BEYOND + (i == 23 ? 1 : 0);
    }
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_I64, (int64_t[]){COUNT}, 1);
    gy_node fetches[] = {
        gy_op_max(x, 0, false), gy_op_argmax(x, 0), gy_op_sum(x, 0, false),
        gy_op_sum(
            gy_op_cast(gy_op_equal(x, gy_graph_scalar_int64(g, GY_I64, BEYOND + 1)), GY_I32), 0,
            false)};
    gy_session *session = NULL;
    gy_tensor *rows = NULL, *results[4];
    assert_ok(gy_graph_status(g));
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_tensor_from(NULL, GY_I64, (int64_t[]){COUNT}, 1, data, &rows));
    assert_ok(gy_session_run(session, &(gy_feed){x, rows}, 1, 0, fetches, 4, results));
    const int64_t expected[] = {BEYOND + 1, 23, COUNT * BEYOND + 1, 1};
    for (int i = 0; i < 4; i++) {
        assert_true(gy_tensor_get_int64(results[i], 0) == expected[i]);
        gy_tensor_drop(results[i]);
    }
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
}

/* What is explained has the digits of a whole number. */
GY_TEST(constants_are_printed_whole)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_I64, (int64_t[]){GY_BATCH}, 1);
    gy_node y = gy_op_add(x, gy_graph_scalar_int64(g, GY_I64, 123456789012));
    gy_session *session = NULL;
    char *text = NULL;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_explain(session, 4, &y, 1, &text));
    assert_non_null(strstr(text, "123456789012"));
    gy_string_free(text);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
