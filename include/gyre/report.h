/**
 * What a training run shows to people: a progress bar, a plot and a trace.
 */
#ifndef GYRE_REPORT_H
#define GYRE_REPORT_H

#include <gyre/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A progress line of a training run: redrawn in place on a terminal, else a plain line every
 * few seconds. The end of an epoch always leaves a line of its own. @threads owner
 */
typedef struct gy_progress_bar gy_progress_bar;

/** Make a bar that writes to `file` (a descriptor, borrowed). Caller owns it.
 * @return GY_OK; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_progress_bar_new(int file, gy_progress_bar **bar);
/** Draw the bar, at most about ten times a second; other calls are cheap. Errors of writing are
 * ignored. */
GY_API void gy_progress_bar_show(gy_progress_bar *bar, const gy_progress *progress);
/** Clear the line on the terminal and free the bar. NULL is fine. */
GY_API void gy_progress_bar_free(gy_progress_bar *bar);

/** The points of one line of a plot. Points that are not finite leave a gap. */
typedef struct gy_series {
    const char *name;
    const double *x; /* NULL: 1, 2, 3, … */
    const double *y;
    size_t count;
} gy_series;

typedef struct gy_plot {
    const char *title, *x_label, *y_label;
    const gy_series *series;
    size_t series_count; /* up to 6 */
} gy_plot;

/**
 * Write a plot as a self-contained SVG file, atomically. A long series is drawn as means of
 * neighbouring points, a short one with markers at its points.
 *
 * @return GY_OK; GY_ARG no series or more than 6; GY_NOMEM; a failure of writing the file
 */
GY_API GY_MUST_CHECK gy_status gy_plot_save(const gy_plot *plot, const char *path);

/** Start tracing: each thread keeps its last 16,384 events. @threads any */
GY_API void gy_trace_begin(void);
/**
 * Write the events of all ranks of `comm` (NULL: this process) as one file in Chrome's trace
 * format, atomically. All ranks call it, rank 0 writes; no other work may run meanwhile.
 *
 * @return GY_OK; GY_NOMEM; on rank 0 a failure of writing
 */
GY_API GY_MUST_CHECK gy_status gy_trace_save(gy_comm *comm, const char *path);

#ifdef __cplusplus
}
#endif
#endif
