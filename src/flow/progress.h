/**
 * How a job's progress is shown.
 */
#ifndef GY_FLOW_PROGRESS_H
#define GY_FLOW_PROGRESS_H

#include "base/text.h"

#include <gyre/flow.h>

/** Add a line of at most `columns` characters for each stage (of many: for those at work) to
 * `out`. Returns how many. */
int gy_flow_progress_bars(const gy_job_report *report, int columns, gy_text *out);

#endif
