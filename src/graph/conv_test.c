/*
 * Goal: convolutions with strides and padding of each axis its own, and both gradients, are
 * what the sums of their definition are, in every type and layout.
 */
#include "base/base.h"
#include "graph/graph.h"

#include <math.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { IMAGES = 2, HEIGHT = 7, WIDTH = 6 };

typedef struct conv_case {
    gy_dtype dtype;
    int64_t channels, filters, rows, columns; /* of images and filters */
    gy_conv_options options;
} conv_case;

static double number(int64_t i)
{
    return (double)(i * 7 % 11) / 4 - 1;
}

static gy_tensor *numbers(gy_dtype dtype, const int64_t sizes[4], int64_t shift)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_new(NULL, dtype, sizes, 4, &tensor));
    for (int64_t i = 0; i < gy_tensor_count(tensor); i++) {
        gy_tensor_set(tensor, i, number(i + shift));
    }
    return tensor;
}

/* The plain sums of one output element, and what it gives to both gradients when its own is 1.
 */
static double one_output(const conv_case *c, gy_tensor *x, gy_tensor *w, const int64_t at[4],
                         double *dx, double *dw)
{
    double sum = 0;
    for (int64_t i = 0; i < c->channels * c->rows * c->columns; i++) {
        const int64_t channel = i / (c->rows * c->columns);
        const int64_t r = i / c->columns % c->rows, s = i % c->columns;
        const int64_t row = at[2] * c->options.stride[0] - c->options.pad[0] + r;
        const int64_t column = at[3] * c->options.stride[1] - c->options.pad[1] + s;
        if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH) {
            continue;
        }
        const int64_t in = ((at[0] * c->channels + channel) * HEIGHT + row) * WIDTH + column;
        const int64_t by = at[1] * c->channels * c->rows * c->columns + i;
        sum += gy_tensor_get(x, in) * gy_tensor_get(w, by);
        dx[in] += gy_tensor_get(w, by);
        dw[by] += gy_tensor_get(x, in);
    }
    return sum;
}

static void expect_near(gy_tensor *got, const double *expected)
{
    for (int64_t i = 0; i < gy_tensor_count(got); i++) {
        if (!(fabs(gy_tensor_get(got, i) - expected[i]) < 1e-4)) {
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, gy_tensor_get(got, i),
                     expected[i]);
        }
    }
}

static void expect_plain(const conv_case *c, gy_tensor *x, gy_tensor *w, gy_tensor **results)
{
    const int64_t height =
        (HEIGHT + 2 * c->options.pad[0] - c->rows) / c->options.stride[0] + 1;
    const int64_t width =
        (WIDTH + 2 * c->options.pad[1] - c->columns) / c->options.stride[1] + 1;
    const int64_t count = IMAGES * c->filters * height * width;
    assert_true(gy_tensor_size(results[0], 2) == height);
    assert_true(gy_tensor_size(results[0], 3) == width);
    double *y = gy_alloc_zero("test", (size_t)count, sizeof(*y));
    double *dx = gy_alloc_zero("test", (size_t)gy_tensor_count(x), sizeof(*dx));
    double *dw = gy_alloc_zero("test", (size_t)gy_tensor_count(w), sizeof(*dw));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at[4] = {i / (c->filters * height * width),
                               i / (height * width) % c->filters, i / width % height,
                               i % width};
        y[i] = one_output(c, x, w, at, dx, dw);
    }
    expect_near(results[0], y);
    expect_near(results[1], dx);
    expect_near(results[2], dw);
    gy_free(y);
    gy_free(dx);
    gy_free(dw);
}

static void check(const conv_case *c)
{
    const int64_t images[] = {IMAGES, c->channels, HEIGHT, WIDTH};
    const int64_t filters[] = {c->filters, c->channels, c->rows, c->columns};
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", c->dtype, images, 4);
    gy_node w = gy_graph_input(g, "w", c->dtype, filters, 4);
    gy_node y = gy_op_conv2d(x, w, &c->options);
    gy_node total = gy_op_sum(y, 0, false);
    gy_node fetches[] = {y, gy_op_gradient(total, x), gy_op_gradient(total, w)};
    gy_session *session = NULL;
    gy_tensor *results[3];
    assert_ok(gy_graph_status(g));
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    gy_tensor *data[] = {numbers(c->dtype, images, 0), numbers(c->dtype, filters, 3)};
    const gy_feed feeds[] = {{x, data[0]}, {w, data[1]}};
    assert_ok(gy_session_run(session, feeds, 2, 0, fetches, 3, results));
    expect_plain(c, data[0], data[1], results);
    for (int i = 0; i < 3; i++) {
        gy_tensor_drop(results[i]);
    }
    gy_tensor_drop(data[0]);
    gy_tensor_drop(data[1]);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(each_axis_has_its_own_stride_and_padding)
{
    static const gy_conv_options options[] = {
        {.stride = {1, 1}},
        {.stride = {2, 2}, .pad = {1, 1}},
        {.stride = {2, 1}, .pad = {0, 2}},
        {.stride = {1, 3}, .pad = {2, 0}},
        {.stride = {3, 2}, .pad = {1, 2}},
    };
    static const int64_t windows[][2] = {{3, 3}, {1, 3}, {3, 2}};
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < GY_COUNT(options) * GY_COUNT(windows); i++) {
            const int64_t *window = windows[i % GY_COUNT(windows)];
            check(&(conv_case){.dtype = kind & 1 ? GY_F32 : GY_F64,
                               .channels = kind & 2 ? 16 : 3, /* the blocked layout, or not */
                               .filters = kind & 2 ? 16 : 2,
                               .rows = window[0],
                               .columns = window[1],
                               .options = options[i / GY_COUNT(windows)]});
        }
    }
}

GY_TEST(no_options_are_steps_of_one_without_padding)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){1, 1, 5, 8}, 4);
    gy_node w = gy_graph_input(g, "w", GY_F32, (int64_t[]){4, 1, 2, 3}, 4);
    gy_node y = gy_op_conv2d(x, w, NULL);
    assert_ok(gy_graph_status(g));
    const gy_type *type = gy_graph_type(g, (gy_value){y.index, y.output});
    assert_true(type->sizes[1] == 4 && type->sizes[2] == 4 && type->sizes[3] == 6);
    (void)gy_op_conv2d(x, w, &(gy_conv_options){.struct_size = 3});
    assert_status(gy_graph_status(g), GY_ARG);
    gy_graph_free(g);
    g = kit_graph();
    x = gy_graph_input(g, "x", GY_F32, (int64_t[]){1, 1, 5, 8}, 4);
    w = gy_graph_input(g, "w", GY_F32, (int64_t[]){4, 1, 2, 3}, 4);
    (void)gy_op_conv2d(x, w, &(gy_conv_options){.stride = {1, -2}});
    assert_status(gy_graph_status(g), GY_ARG);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
