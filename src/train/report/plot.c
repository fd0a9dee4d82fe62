#include "train/report/plot.h"

#include "base/base.h"
#include "store/store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 760,
    HEIGHT = 440,
    LEFT = 64,
    RIGHT = 24,
    TOP = 48,
    BOTTOM = 56,
    MAX_SERIES = 6,
    MAX_POINTS = 400, /* of a line: more are averaged */
    MARKED_POINTS = 40,
};

typedef struct plot_axis {
    double low, high, step;
    double begin, end; /* pixels of low and high */
} plot_axis;

static const char *const colours[MAX_SERIES] = {"#1f6feb", "#d1495b", "#2a9d8f",
                                                "#e9a03b", "#7a5195", "#5f6b7a"};

double gy_train_plot_step(double low, double high)
{
    GY_ASSERT(low < high);
    double power = pow(10, floor(log10((high - low) / 4)));
    double step = power;
    if ((high - low) / (5 * power) >= 4) {
        step = 5 * power;
    } else if ((high - low) / (2 * power) >= 4) {
        step = 2 * power;
    }
    return step;
}

static double x_of(const gy_series *series, size_t i)
{
    return series->x != NULL ? series->x[i] : (double)i + 1;
}

static double pixel(const plot_axis *axis, double value)
{
    double part = (value - axis->low) / (axis->high - axis->low);
    return axis->begin + part * (axis->end - axis->begin);
}

/* The range of all finite points, widened to whole steps (and to 0 when near it). */
static plot_axis fit(const gy_plot *plot, bool is_y)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t s = 0; s < plot->series_count; s++) {
        const gy_series *series = &plot->series[s];
        for (size_t i = 0; i < series->count; i++) {
            if (isfinite(x_of(series, i)) && isfinite(series->y[i])) {
                double value = is_y ? series->y[i] : x_of(series, i);
                low = fmin(low, value);
                high = fmax(high, value);
            }
        }
    }
    if (!(low <= high)) {
        low = 0;
        high = 1;
    }
    if (low > 0 && low < high / 2) {
        low = 0;
    }
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double margin = fmax(fabs(low) / 2, 1e-9);
        low -= margin;
        high += margin;
    }
    plot_axis axis = {.step = gy_train_plot_step(low, high)};
    axis.low = is_y ? floor(low / axis.step) * axis.step : low;
    axis.high = is_y ? ceil(high / axis.step) * axis.step : high;
    axis.begin = is_y ? HEIGHT - BOTTOM : LEFT;
    axis.end = is_y ? TOP : WIDTH - RIGHT;
    return axis;
}

static void add_escaped(gy_text *svg, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '<':
            gy_text_add(svg, "&lt;");
            break;
        case '>':
            gy_text_add(svg, "&gt;");
            break;
        case '&':
            gy_text_add(svg, "&amp;");
            break;
        default:
            /* Control characters may not stand in XML at all. */
            gy_text_add_bytes(svg, (unsigned char)*c < ' ' ? " " : c, 1);
        }
    }
}

static void add_label(gy_text *svg, double x, double y, const char *attributes,
                      const char *text)
{
    gy_text_add(svg, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    add_escaped(svg, text);
    gy_text_add(svg, "</text>\n");
}

static void add_grid(gy_text *svg, const plot_axis *x, const plot_axis *y)
{
    for (double k = ceil(y->low / y->step - 1e-9); k * y->step <= y->high + y->step * 1e-6;
         k++) {
        char label[32];
        double at = pixel(y, k * y->step);
        snprintf(label, sizeof(label), "%.6g", k * y->step + 0.0);
        gy_text_add(svg, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
                    LEFT, at, WIDTH - RIGHT, at);
        add_label(svg, LEFT - 8, at + 4, "text-anchor=\"end\"", label);
    }
    for (double k = ceil(x->low / x->step - 1e-9); k * x->step <= x->high + x->step * 1e-6;
         k++) {
        char label[32];
        double at = pixel(x, k * x->step);
        snprintf(label, sizeof(label), "%.6g", k * x->step + 0.0);
        gy_text_add(svg, "<line class=\"axis\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
                    at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 5);
        add_label(svg, at, HEIGHT - BOTTOM + 19, "text-anchor=\"middle\"", label);
    }
    gy_text_add(svg, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT,
                HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
}

/* Mean of the points [begin, end); false when one of them is not finite. */
static bool mean_point(const gy_series *series, size_t begin, size_t end, double *x, double *y)
{
    *x = 0;
    *y = 0;
    for (size_t i = begin; i < end; i++) {
        *x += x_of(series, i) / (double)(end - begin);
        *y += series->y[i] / (double)(end - begin);
    }
    return isfinite(*x) && isfinite(*y);
}

static void add_series(gy_text *svg, const gy_series *series, const char *colour,
                       const plot_axis *x_axis, const plot_axis *y_axis)
{
    size_t points = GY_MIN(series->count, (size_t)MAX_POINTS);
    bool is_open = false;
    gy_text_add(svg, "<path class=\"line\" stroke=\"%s\" d=\"M%d %d", colour, LEFT,
                HEIGHT - BOTTOM);
    for (size_t i = 0; i < points; i++) {
        double x, y;
        bool is_point = mean_point(series, i * series->count / points,
                                   (i + 1) * series->count / points, &x, &y);
        if (is_point) {
            gy_text_add(svg, " %s%.1f %.1f", is_open ? "L" : "M", pixel(x_axis, x),
                        pixel(y_axis, y));
        }
        is_open = is_point;
    }
    gy_text_add(svg, "\"/>\n");
    for (size_t i = 0; i < points && series->count <= MARKED_POINTS; i++) {
        if (isfinite(x_of(series, i)) && isfinite(series->y[i])) {
            gy_text_add(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                        pixel(x_axis, x_of(series, i)), pixel(y_axis, series->y[i]), colour);
        }
    }
}

static void add_legend(gy_text *svg, const gy_plot *plot)
{
    double x = WIDTH - RIGHT - 130;
    for (size_t s = 0; s < plot->series_count; s++) {
        double y = TOP + 14 + 20 * (double)s;
        gy_text_add(svg,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"3\" fill=\"%s\"/>\n", x,
                    y - 5, colours[s]);
        add_label(svg, x + 26, y, "fill=\"#24292f\"", plot->series[s].name);
    }
}

gy_status gy_train_plot_svg(const gy_plot *plot, gy_text *svg)
{
    if (plot->series_count == 0 || plot->series_count > MAX_SERIES) {
        return gy_fail(GY_ARG, "plot: %zu series, expected 1 to %d", plot->series_count,
                       MAX_SERIES);
    }
    plot_axis x = fit(plot, false), y = fit(plot, true);
    gy_text_add(svg,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
                "fill=\"#57606a\">\n<style>.grid{stroke:#d8dee4;stroke-width:1}"
                ".axis{stroke:#57606a;stroke-width:1}.line{fill:none;stroke-width:1.8;"
                "stroke-linejoin:round}</style>\n<rect width=\"%d\" height=\"%d\" "
                "fill=\"#ffffff\"/>\n",
                WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    add_label(svg, LEFT, 28, "font-size=\"16\" font-weight=\"600\" fill=\"#24292f\"",
              plot->title);
    add_grid(svg, &x, &y);
    for (size_t s = 0; s < plot->series_count; s++) {
        add_series(svg, &plot->series[s], colours[s], &x, &y);
    }
    add_legend(svg, plot);
    add_label(svg, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 14, "text-anchor=\"middle\"",
              plot->x_label);
    char turned[96];
    double middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
    snprintf(turned, sizeof(turned), "text-anchor=\"middle\" transform=\"rotate(-90 16 %.1f)\"",
             middle);
    add_label(svg, 16, middle, turned, plot->y_label);
    gy_text_add(svg, "</svg>\n");
    return svg->status;
}

gy_status gy_plot_save(const gy_plot *plot, const char *path)
{
    gy_text svg = {.data = NULL};
    gy_status status = gy_train_plot_svg(plot, &svg);
    if (status == GY_OK) {
        status = gy_store_file_write(gy_env_real(), path, svg.data, svg.size_bytes);
    }
    gy_text_free(&svg);
    return status;
}
