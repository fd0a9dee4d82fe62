/**
 * Trace events in per-thread rings, written as Chrome trace JSON. Costs one load when off.
 */
#ifndef GY_BASE_TRACE_H
#define GY_BASE_TRACE_H

#include "base/text.h"
#include <gyre/base.h>

#include <stdatomic.h>

extern _Atomic bool gy_trace_is_on;

/** Start recording: each thread keeps its last `events_per_thread` events. Again: the same
 * number. */
void gy_trace_start(size_t events_per_thread);

/** Record that `name` (static text) ran on this thread from start_ns to end_ns; `value` is
 * shown. */
void gy_trace_span(const char *name, int64_t start_ns, int64_t end_ns, int64_t value);

/**
 * The recorded events as the inside of a Chrome trace's "traceEvents" array, with `process` as
 * pid and `process_name` as its name. Text grows in `out`; no other thread may record
 * meanwhile.
 */

void gy_trace_write(gy_text *out, int process, const char *process_name);

/** Append what this thread has recorded since it last called this, as rows that another process
 * of this machine's kind shows. `out` remembers GY_NOMEM. @threads any */
void gy_trace_take(gy_text *out);
/** Rows that gy_trace_take made, which anybody may have scribbled over, as events of `process`,
 * each with ",\n" before it; shift_ns is added to their times. GY_FORMAT no rows */
GY_MUST_CHECK gy_status gy_trace_show(gy_text *out, const void *rows, size_t size_bytes,
                                      int64_t process, int64_t shift_ns);

static inline bool gy_trace_on(void)
{
    return atomic_load_explicit(&gy_trace_is_on, memory_order_relaxed);
}

#endif
