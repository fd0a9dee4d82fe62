/* What `gyre job show` prints of a job, of this machine or of a cluster. */
#include "cli/jobs/common.h"

#include <stdio.h>
#include <time.h>

const char *gy_cli_date_text(int64_t wall_ns, char out[32])
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm parts;
    if (localtime_r(&seconds, &parts) == NULL ||
        strftime(out, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0) {
        snprintf(out, 32, "-");
    }
    return out;
}

void gy_cli_print_stages(const gy_job_stage *stages, size_t count)
{
    if (count > 0) {
        printf("\n%-24s %9s %9s %9s %8s %8s %8s %9s %10s\n", "stage", "tasks", "done",
               "attempts", "failed", "backups", "won", "memoised", "run s");
    }
    for (size_t i = 0; i < count; i++) {
        const gy_job_stage *stage = &stages[i];
        printf("%-24s %9lld %9lld %9lld %8lld %8lld %8lld %9lld %10.3f\n", stage->name,
               (long long)stage->tasks, (long long)stage->committed, (long long)stage->attempts,
               (long long)stage->failures, (long long)stage->backups,
               (long long)stage->backups_won, (long long)stage->memoised, stage->run_s);
    }
}

void gy_cli_print_counters(const gy_job_counter *counters, size_t count)
{
    if (count > 0) {
        printf("\ncounters\n");
    }
    for (size_t i = 0; i < count; i++) {
        printf("  %-30s %lld\n", counters[i].name, (long long)counters[i].value);
    }
}

void gy_cli_print_notes(const gy_job_note *notes, size_t count, int64_t begin_ns)
{
    if (count > 0) {
        printf("\nnotes\n");
    }
    for (size_t i = 0; i < count; i++) {
        char date[32];
        if (begin_ns == 0) {
            gy_print_to(stdout, "  %s  %s\n", gy_cli_date_text(notes[i].wall_ns, date),
                        notes[i].text);
        } else {
            gy_print_to(stdout, "  %+10.3f s  %s\n",
                        (double)(notes[i].wall_ns - begin_ns) * 1e-9, notes[i].text);
        }
    }
}
