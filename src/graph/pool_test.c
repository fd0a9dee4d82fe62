/*
 * Goal: average pooling divides by what it says: the window's elements inside the image, or all
 * of the window with padding as zeros; its gradient alike; in every type and layout. Max
 * pooling and relu keep a NaN.
 */
#include <gyre/graph.h>

#include "base/base.h"

#include <math.h>

#include "gy_test.h"

enum { HEIGHT = 5, WIDTH = 4 };

typedef gy_node (*pool_of)(gy_node x, int window, int stride, int pad);

/* x(i): small numbers that differ. */
static double number(int64_t i)
{
    return (double)(i * 7 % 11) - 4;
}

static int64_t part(int64_t out, int window, int stride, int pad, int64_t size, int64_t *begin)
{
    int64_t from = out * stride - pad, to = GY_MIN(from + window, size);
    *begin = GY_MAX(from, (int64_t)0);
    return to - *begin;
}

typedef struct pool_case {
    gy_dtype dtype;
    int channels, window, stride, pad;
    bool is_padded;
} pool_case;

/* The mean of window (i, j) of one plane, and its gradient: 1 / divisor to each element. */
static double window_mean(const pool_case *c, int64_t plane, int64_t i, int64_t j, double *dx)
{
    int64_t top = 0, left = 0;
    int64_t rows = part(i, c->window, c->stride, c->pad, HEIGHT, &top);
    int64_t columns = part(j, c->window, c->stride, c->pad, WIDTH, &left);
    double divisor = c->is_padded ? c->window * c->window : (double)(rows * columns), sum = 0;
    for (int64_t r = top; r < top + rows; r++) {
        for (int64_t k = left; k < left + columns; k++) {
            int64_t at = (plane * HEIGHT + r) * WIDTH + k;
            sum += number(at);
            dx[at] += 1 / divisor;
        }
    }
    return sum / divisor;
}

static void check(const pool_case *c)
{
    const int64_t sizes[] = {2, c->channels, HEIGHT, WIDTH};
    const pool_of pool = c->is_padded ? gy_op_average_pool_padded : gy_op_average_pool;
    gy_graph *g = gy_graph_new();
    gy_node x = gy_graph_input(g, "x", c->dtype, sizes, 4);
    gy_node y = pool(x, c->window, c->stride, c->pad);
    gy_node fetches[] = {y, gy_op_gradient(gy_op_sum(y, 0, false), x)};
    gy_session *session = NULL;
    gy_tensor *data = NULL, *results[2];
    assert_ok(gy_graph_status(g));
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_tensor_new(NULL, c->dtype, sizes, 4, &data));
    int64_t count = gy_tensor_count(data);
    for (int64_t i = 0; i < count; i++) {
        gy_tensor_set(data, i, number(i));
    }
    assert_ok(gy_session_run(session, &(gy_feed){x, data}, 1, 0, fetches, 2, results));
    double *dx = gy_alloc_zero("test", (size_t)count, sizeof(*dx));
    int64_t height = gy_tensor_size(results[0], 2), width = gy_tensor_size(results[0], 3);
    assert_true(height == (HEIGHT + 2 * c->pad - c->window) / c->stride + 1);
    for (int64_t plane = 0, at = 0; plane < sizes[0] * sizes[1]; plane++) {
        for (int64_t i = 0; i < height * width; i++, at++) {
            double expected = window_mean(c, plane, i / width, i % width, dx);
            assert_true(fabs(gy_tensor_get(results[0], at) - expected) < 1e-5);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabs(gy_tensor_get(results[1], i) - dx[i]) < 1e-5);
    }
    gy_free(dx);
    gy_tensor_drop(results[0]);
    gy_tensor_drop(results[1]);
    gy_tensor_drop(data);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(the_mean_is_over_what_it_says)
{
    static const int shapes[][3] = {{2, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 2, 2}, {2, 2, 0}};
    for (int kind = 0; kind < 8; kind++) {
        for (size_t k = 0; k < GY_COUNT(shapes); k++) {
            check(&(pool_case){.dtype = kind & 1 ? GY_F32 : GY_F64,
                               .channels = kind & 2 ? 16 : 3, /* the blocked layout, or not */
                               .is_padded = (kind & 4) != 0,
                               .window = shapes[k][0],
                               .stride = shapes[k][1],
                               .pad = shapes[k][2]});
        }
    }
}

/* A NaN anywhere in a window is the window's maximum. */
GY_TEST(a_maximum_keeps_nan)
{
    for (int kind = 0; kind < 4; kind++) {
        const gy_dtype dtype = kind & 1 ? GY_F32 : GY_F64;
        const int64_t sizes[] = {1, kind & 2 ? 16 : 1, 4, 4};
        gy_graph *g = gy_graph_new();
        gy_node x = gy_graph_input(g, "x", dtype, sizes, 4);
        gy_node fetches[] = {gy_op_max_pool(gy_op_relu(x), 2, 2, 0), gy_op_softmax(x, 3)};
        gy_session *session = NULL;
        gy_tensor *data = NULL, *results[2];
        assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
        assert_ok(gy_tensor_zeros(NULL, dtype, sizes, 4, &data));
        for (int64_t place = 0; place < 16; place++) {
            gy_tensor_set(data, place, NAN);
            assert_ok(gy_session_run(session, &(gy_feed){x, data}, 1, 0, fetches, 2, results));
            int64_t window = place / 8 * 2 + place % 4 / 2;
            for (int64_t i = 0; i < 4; i++) {
                assert_true(isnan(gy_tensor_get(results[0], i)) == (i == window));
                assert_true(isnan(gy_tensor_get(results[1], place / 4 * 4 + i)));
            }
            gy_tensor_set(data, place, (double)place);
            gy_tensor_drop(results[0]);
            gy_tensor_drop(results[1]);
        }
        gy_tensor_drop(data);
        gy_session_free(session);
        gy_graph_free(g);
    }
}

GY_TEST_MAIN(NULL, NULL)
