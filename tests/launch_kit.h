/* A launch of this program's ranks, by its exit status, as tests ask for it. */
#ifndef LAUNCH_KIT_H
#define LAUNCH_KIT_H

#include <gyre/launch.h>

#include <stdio.h>

static inline int launch_run(const gy_run_options *options, char *const argv[])
{
    gy_run_report report;
    const gy_status status = gy_run(options, argv, &report);
    if ((status == GY_OK) != (report.exit_status == 0) || status > 0) {
        fprintf(stderr, "gy_run: status %d, exit status %d\n", status, report.exit_status);
        return -1;
    }
    if (status < 0 && !report.is_started) {
        fprintf(stderr, "gyre: %s\n", gy_error_text());
    }
    return report.exit_status;
}

#endif
