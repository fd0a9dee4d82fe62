/* Goal: plots are well-formed XML whatever the data, ticks are round, points stand where they
 * belong. */
#include "train/report/plot.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

/* A small checker: tags balance, attributes are quoted, no stray < or &. Returns its complaint
 * or NULL. */
static const char *check_xml(const char *text)
{
    const char *open[32];
    size_t depth = 0;
    bool had_root = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '&') {
            if (strncmp(c, "&lt;", 4) != 0 && strncmp(c, "&gt;", 4) != 0 &&
                strncmp(c, "&amp;", 5) != 0) {
                return "stray &";
            }
        } else if ((unsigned char)*c < ' ' && *c != '\n') {
            return "control character";
        } else if (*c == '<') {
            const char *end = strchr(c, '>');
            size_t quotes = 0;
            if (end == NULL || memchr(c + 1, '<', (size_t)(end - c - 1)) != NULL) {
                return "tag without end";
            }
            for (const char *q = c; q < end; q++) {
                quotes += *q == '"' ? 1 : 0;
            }
            if (quotes % 2 != 0) {
                return "odd quotes";
            }
            if (c[1] == '/') {
                size_t size = (size_t)(end - c - 2);
                if (depth == 0 || strncmp(open[depth - 1], c + 2, size) != 0) {
                    return "tags cross";
                }
                depth--;
            } else if (end[-1] != '/') {
                if (depth == GY_COUNT(open) || (depth == 0 && had_root)) {
                    return "second root or too deep";
                }
                had_root = true;
                open[depth++] = c + 1;
            }
            c = end;
        }
    }
    return depth == 0 && had_root ? NULL : "unclosed tag";
}

static void assert_well_formed(const gy_plot *plot)
{
    gy_text svg = {.data = NULL};
    assert_ok(gy_train_plot_svg(plot, &svg));
    const char *complaint = check_xml(svg.data);
    if (complaint != NULL) {
        fail_msg("%s in:\n%s", complaint, svg.data);
    }
    assert_null(strstr(svg.data, "nan"));
    assert_null(strstr(svg.data, "inf"));
    gy_text_free(&svg);
}

GY_TEST(any_data_gives_well_formed_svg)
{
    gy_random random = {.key = gy_test_seed()};
    static double x[5000], y[5000];
    static const size_t counts[] = {0, 1, 2, 40, 41, 5000};
    for (int round = 0; round < 60; round++) {
        size_t count = counts[round % (int)GY_COUNT(counts)];
        double scale = pow(10, (double)gy_random_below(&random, 30) - 15);
        for (size_t i = 0; i < count; i++) {
            x[i] = (double)i;
            y[i] = round % 3 == 0 ? scale : scale * gy_random_normal(&random);
            if (gy_random_below(&random, 50) == 0) {
                y[i] = i % 2 == 0 ? NAN : INFINITY;
            }
        }
        gy_series series[2] = {{"a <b> & \"c\"\n", x, y, count},
                               {"test", round % 2 == 0 ? x : NULL, y, count / 2}};
        gy_plot plot = {"loss & <more>", "step", "loss", series, 2};
        assert_well_formed(&plot);
    }
}

GY_TEST(points_stand_inside_the_axes)
{
    double x[] = {0, 10}, y[] = {0, 1};
    gy_series series = {"train", x, y, 2};
    gy_plot plot = {"t", "x", "y", &series, 1};
    gy_text svg = {.data = NULL};
    assert_ok(gy_train_plot_svg(&plot, &svg));
    assert_non_null(strstr(svg.data, "cx=\"64.0\" cy=\"384.0\""));
    assert_non_null(strstr(svg.data, "cx=\"736.0\" cy=\"48.0\""));
    gy_text_free(&svg);
}

GY_TEST(steps_are_round_and_few)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 1000; round++) {
        double low = gy_random_normal(&random);
        double high = low + pow(10, 8 * gy_random_unit(&random) - 4);
        double step = gy_train_plot_step(low, high);
        double digit = step / pow(10, floor(log10(step) + 1e-9));
        assert_true(fabs(digit - 1) < 1e-6 || fabs(digit - 2) < 1e-6 || fabs(digit - 5) < 1e-6);
        assert_in_range((int)floor((high - low) / step), 3, 10);
    }
}

GY_TEST(no_series_is_an_error)
{
    gy_plot plot = {.title = "t"};
    gy_text svg = {.data = NULL};
    assert_status(gy_train_plot_svg(&plot, &svg), GY_ARG);
    plot.series_count = 7;
    assert_status(gy_train_plot_svg(&plot, &svg), GY_ARG);
    assert_null(svg.data);
}

GY_TEST_MAIN(NULL, NULL)
