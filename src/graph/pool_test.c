/*
 * Goal: average pooling divides by what it says: the window's elements inside the image, or all
 * of the window with padding as zeros; its gradient alike; in every type and layout. Max
 * pooling and relu keep a NaN.
 */
#include "base/base.h"
#include "graph/graph.h"

#include <math.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { HEIGHT = 5, WIDTH = 4 };

/* x(i): small numbers that differ. */
static double number(int64_t i)
{
    return (double)(i * 7 % 11) - 4;
}

/* The elements of window `out` along `axis` (height, width) that lie in the image. */
static int64_t part(const gy_window_options *w, int axis, int64_t out, int64_t *begin)
{
    const int64_t size = axis == 0 ? HEIGHT : WIDTH;
    const int64_t from = out * w->stride[axis] - w->pad[axis];
    *begin = GY_MAX(from, (int64_t)0);
    return GY_MIN(from + w->window[axis], size) - *begin;
}

typedef struct pool_case {
    gy_dtype dtype;
    int channels;
    gy_window_options window;
} pool_case;

/* The mean of window (i, j) of one plane, and its gradient: 1 / divisor to each element. */
static double window_mean(const pool_case *c, int64_t plane, int64_t i, int64_t j, double *dx)
{
    const gy_window_options *w = &c->window;
    int64_t top = 0, left = 0;
    int64_t rows = part(w, 0, i, &top), columns = part(w, 1, j, &left);
    double divisor = w->counts_padding ? w->window[0] * w->window[1] : (double)(rows * columns);
    double sum = 0;
    for (int64_t r = top; r < top + rows; r++) {
        for (int64_t k = left; k < left + columns; k++) {
            int64_t at = (plane * HEIGHT + r) * WIDTH + k;
            sum += number(at);
            dx[at] += 1 / divisor;
        }
    }
    return sum / divisor;
}

/* The largest of window (i, j) of one plane. */
static double window_maximum(const gy_window_options *w, int64_t plane, int64_t i, int64_t j)
{
    int64_t top = 0, left = 0;
    int64_t rows = part(w, 0, i, &top), columns = part(w, 1, j, &left);
    double largest = -INFINITY;
    for (int64_t r = top; r < top + rows; r++) {
        for (int64_t k = left; k < left + columns; k++) {
            largest = fmax(largest, number((plane * HEIGHT + r) * WIDTH + k));
        }
    }
    return largest;
}

static void check(const pool_case *c)
{
    const int64_t sizes[] = {2, c->channels, HEIGHT, WIDTH};
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", c->dtype, sizes, 4);
    gy_node y = gy_op_average_pool(x, &c->window);
    gy_node fetches[] = {y, gy_op_gradient(gy_op_sum(y, 0, false), x),
                         gy_op_max_pool(x, &c->window)};
    gy_session *session = NULL;
    gy_tensor *data = NULL, *results[3];
    assert_ok(gy_graph_status(g));
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_tensor_new(NULL, c->dtype, sizes, 4, &data));
    int64_t count = gy_tensor_count(data);
    for (int64_t i = 0; i < count; i++) {
        gy_tensor_set(data, i, number(i));
    }
    assert_ok(gy_session_run(session, &(gy_feed){x, data}, 1, 0, fetches, 3, results));
    double *dx = gy_alloc_zero("test", (size_t)count, sizeof(*dx));
    int64_t height = gy_tensor_size(results[0], 2), width = gy_tensor_size(results[0], 3);
    const gy_window_options *w = &c->window;
    assert_true(height == (HEIGHT + 2 * w->pad[0] - w->window[0]) / w->stride[0] + 1);
    assert_true(width == (WIDTH + 2 * w->pad[1] - w->window[1]) / w->stride[1] + 1);
    for (int64_t plane = 0, at = 0; plane < sizes[0] * sizes[1]; plane++) {
        for (int64_t i = 0; i < height * width; i++, at++) {
            double expected = window_mean(c, plane, i / width, i % width, dx);
            assert_true(fabs(gy_tensor_get(results[0], at) - expected) < 1e-5);
            expected = window_maximum(w, plane, i / width, i % width);
            assert_true(gy_tensor_get(results[2], at) == expected);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabs(gy_tensor_get(results[1], i) - dx[i]) < 1e-5);
    }
    gy_free(dx);
    gy_tensor_drop(results[0]);
    gy_tensor_drop(results[1]);
    gy_tensor_drop(results[2]);
    gy_tensor_drop(data);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(the_mean_is_over_what_it_says)
{
    static const gy_window_options windows[] = {
        {.window = {2, 2}, .stride = {1, 1}, .pad = {1, 1}},
        {.window = {3, 3}, .stride = {1, 1}, .pad = {1, 1}},
        {.window = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
        {.window = {2, 2}, .stride = {2, 2}},
        {.window = {3, 1}, .stride = {1, 2}, .pad = {1, 0}}, /* each axis its own */
        {.window = {1, 3}, .stride = {2, 1}, .pad = {0, 1}},
        {.window = {2, 3}, .stride = {3, 1}, .pad = {1, 0}},
    };
    for (int kind = 0; kind < 8; kind++) {
        for (size_t k = 0; k < GY_COUNT(windows); k++) {
            pool_case one = {.dtype = kind & 1 ? GY_F32 : GY_F64,
                             .channels = kind & 2 ? 16 : 3, /* the blocked layout, or not */
                             .window = windows[k]};
            one.window.counts_padding = (kind & 4) != 0;
            check(&one);
        }
    }
}

/* A stride of 0 is the window's size. */
GY_TEST(windows_lie_side_by_side_unless_told)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){1, 1, 6, 9}, 4);
    gy_node y = gy_op_max_pool(x, &GY_OPTIONS(gy_window_options, .window = {2, 3}));
    assert_ok(gy_graph_status(g));
    const gy_type *type = gy_graph_type(g, (gy_value){y.index, y.output});
    assert_true(type->sizes[2] == 3 && type->sizes[3] == 3);
    (void)gy_op_max_pool(x, NULL);
    assert_status(gy_graph_status(g), GY_ARG);
    gy_graph_free(g);
}

/* A NaN anywhere in a window is the window's maximum. */
GY_TEST(a_maximum_keeps_nan)
{
    for (int kind = 0; kind < 4; kind++) {
        const gy_dtype dtype = kind & 1 ? GY_F32 : GY_F64;
        const int64_t sizes[] = {1, kind & 2 ? 16 : 1, 4, 4};
        gy_graph *g = kit_graph();
        gy_node x = gy_graph_input(g, "x", dtype, sizes, 4);
        gy_node fetches[] = {
            gy_op_max_pool(gy_op_relu(x), &(gy_window_options){.window = {2, 2}}),
            gy_op_softmax(x, 3)};
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
