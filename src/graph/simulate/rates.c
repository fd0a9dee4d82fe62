/*
 * How long nodes take. Without a measurement: operations and bytes at given rates, whichever
 * take longer (a roofline). With one: for each operator a line through what its nodes took,
 * over what they would take at nominal rates, so that small ones have their fixed part.
 */
#include "graph/simulate/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As the search of placements reckons. */
const double gy_simulate_nominal_flops_s = 50e9, gy_simulate_nominal_bytes_s = 10e9;

double gy_simulate_memory_rate(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->flops_s >= 0 && cluster->memory_bytes_s >= 0);
    return cluster->memory_bytes_s > 0 ? cluster->memory_bytes_s : cluster->flops_s / 100;
}

double gy_simulate_nominal(const gy_cost *cost, double flops_s, double memory_bytes_s)
{
    GY_ASSERT(flops_s > 0 && memory_bytes_s > 0);
    return fmax(cost->flops / flops_s,
                fmax(cost->bytes_read + cost->bytes_written, 0) / memory_bytes_s);
}

/* seconds = fixed_s + slope * nominal */
typedef struct line {
    const char *name; /* static */
    double fixed_s, slope;
} line;

struct gy_kernel_rates {
    line *lines; /* (count) */
    size_t count;
    double task_s; /* beside each kernel */
    double slope;  /* of operators that were not measured */
};

static int by_name(const void *a, const void *b)
{
    const gy_kernel_point *x = a, *y = b;
    GY_ASSERT(x->name != NULL && y->name != NULL);
    return strcmp(x->name, y->name);
}

/* Least squares, neither part below 0. */
static line fit(const gy_kernel_point *points, size_t count)
{
    double n = (double)count, x = 0, y = 0, xx = 0, xy = 0;
    GY_ASSERT(count > 0);
    for (size_t i = 0; i < count; i++) {
        x += points[i].nominal_s;
        y += points[i].measured_s;
        xx += points[i].nominal_s * points[i].nominal_s;
        xy += points[i].nominal_s * points[i].measured_s;
    }
    const double spread = n * xx - x * x;
    line found = {.name = points[0].name};
    found.slope = spread > 1e-9 * n * xx ? (n * xy - x * y) / spread : 0;
    found.fixed_s = (y - found.slope * x) / n;
    if (found.slope < 0 || spread <= 1e-9 * n * xx) { /* all alike: in proportion */
        found.slope = x > 0 ? y / x : 0;
        found.fixed_s = x > 0 ? 0 : y / n;
    } else if (found.fixed_s < 0) {
        found.fixed_s = 0;
        found.slope = xx > 0 ? xy / xx : 0;
    }
    GY_ASSERT(found.slope >= 0 && found.fixed_s >= 0);
    return found;
}

gy_status gy_kernel_rates_fit(gy_kernel_point *points, size_t count, double task_s,
                              gy_kernel_rates **rates)
{
    GY_ASSERT(task_s >= 0 && rates != NULL);
    gy_kernel_rates *made = gy_alloc_zero("graph.rates", 1, sizeof(*made));
    line *lines = gy_alloc_zero("graph.rates", count + 1, sizeof(*lines));
    if (made == NULL || lines == NULL) {
        gy_free(made);
        gy_free(lines);
        return GY_NOMEM;
    }
    *made = (gy_kernel_rates){.lines = lines, .task_s = task_s};
    double nominal_s = 0, measured_s = 0;
    qsort(points, count, sizeof(*points), by_name);
    for (size_t first = 0, end = 0; first < count; first = end) {
        for (end = first; end < count && strcmp(points[end].name, points[first].name) == 0;
             end++) {
            GY_ASSERT(points[end].measured_s >= 0 && points[end].nominal_s >= 0);
            nominal_s += points[end].nominal_s;
            measured_s += points[end].measured_s;
        }
        lines[made->count++] = fit(points + first, end - first);
    }
    made->slope = nominal_s > 0 ? measured_s / nominal_s : 1;
    GY_ASSERT(made->count <= count);
    *rates = made;
    return GY_OK;
}

double gy_kernel_rates_seconds(const gy_kernel_rates *rates, const char *name, double nominal_s)
{
    GY_ASSERT(nominal_s >= 0);
    size_t low = 0, high = rates->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(rates->lines[middle].name, name);
        if (order == 0) {
            return rates->task_s + rates->lines[middle].fixed_s +
                   rates->lines[middle].slope * nominal_s;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return rates->task_s + rates->slope * nominal_s;
}

void gy_kernel_rates_free(gy_kernel_rates *rates)
{
    if (rates != NULL) {
        gy_free(rates->lines);
        gy_free(rates);
    }
}
