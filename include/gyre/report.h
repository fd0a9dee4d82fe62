/**
 * What a training shows to people: a progress bar and a plot.
 */
#ifndef GYRE_REPORT_H
#define GYRE_REPORT_H

#include <gyre/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A line that follows a training: redrawn in place on a terminal, else a plain line every few
 * seconds. An epoch's end always leaves a line of its own. @threads owner
 */
typedef struct gy_progress_bar gy_progress_bar;

/** Writes to `file` (a descriptor, borrowed). NULL when out of memory. */
GY_API gy_progress_bar *gy_progress_bar_new(int file);
/** Draw, at most about ten times a second; cheap otherwise. What cannot be written is lost. */
GY_API void gy_progress_bar_show(gy_progress_bar *bar, const gy_progress *progress);
/** Clears the line that is being redrawn. NULL is fine. */
GY_API void gy_progress_bar_free(gy_progress_bar *bar);

/** Points of one line of a plot. Those that are not finite leave a gap. */
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
 * Write the plot as a self-contained SVG file, whole or not at all. A long series is drawn as
 * means of neighbouring points, a short one with its points marked.
 *
 * @return GY_OK; GY_ARG no series or more than 6; GY_NOMEM; what writing the file failed with
 */
GY_API GY_MUST_CHECK gy_status gy_plot_save(const gy_plot *plot, const char *path);

/** Record from now on what runs when: each thread keeps its last 16,384 events. @threads any */
GY_API void gy_trace_begin(void);
/**
 * Write what all ranks of `comm` (NULL: this process) recorded as one file in Chrome's trace
 * format, whole or not at all; rank 0 writes, all call it. Nothing may run meanwhile.
 *
 * @return GY_OK; GY_NOMEM; on rank 0 what writing failed with
 */
GY_API GY_MUST_CHECK gy_status gy_trace_save(gy_comm *comm, const char *path);

#ifdef __cplusplus
}
#endif
#endif
