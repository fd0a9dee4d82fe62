/**
 * The text of a progress line; the bar of <gyre/report.h> draws it.
 */
#ifndef GY_TRAIN_PROGRESS_H
#define GY_TRAIN_PROGRESS_H

#include <gyre/report.h>

enum { GY_PROGRESS_BYTES = 256 };

/**
 * One line of at most `columns` (and GY_PROGRESS_BYTES - 1) characters without a newline: part
 * done, bar when there is room, loss, samples/s, time to go. Returns `out`. @threads any
 */
const char *gy_train_progress_line(char out[GY_PROGRESS_BYTES], const gy_progress *progress,
                                   double elapsed_s, int columns);

#endif
