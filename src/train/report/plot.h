/**
 * Plots as SVG text; gy_plot_save of <gyre/report.h> writes them to a file.
 */
#ifndef GY_TRAIN_PLOT_H
#define GY_TRAIN_PLOT_H

#include "base/text.h"
#include <gyre/report.h>

/** Append the plot as SVG. GY_ARG no series or more than 6; GY_NOMEM. @threads any */
GY_MUST_CHECK gy_status gy_train_plot_svg(const gy_plot *plot, gy_text *svg);

/**
 * Ticks for a range: a step of 1, 2 or 5 times a power of ten, so that 4 to 8 multiples of it
 * lie in [low, high]. Needs low < high, both finite.
 */
double gy_train_plot_step(double low, double high);

#endif
