/**
 * How a job's progress is shown.
 */
#ifndef GY_FLOW_PROGRESS_H
#define GY_FLOW_PROGRESS_H

#include "base/text.h"

#include <gyre/flow.h>

/** Append a line of at most `columns` characters for each stage (with many stages only for
 * active ones) to `out`. Returns the number of lines. */
int gy_flow_progress_bars(const gy_job_report *report, int columns, gy_text *out);

#endif
