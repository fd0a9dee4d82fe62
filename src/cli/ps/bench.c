/* `gyre ps bench`: prints what <gyre/ps.h> measures. */
#include "cli/ps/ps.h"

#include "cli/cluster/common.h"
#include "cli/report.h"

#include <stdio.h>

static gy_status print_figure(void *arg, const gy_ps_figure *figure)
{
    (void)arg;
    printf("%-24s  %9llu  %10.1f  %10.1f  %-10s  %10.1f  %6.2f  %7.2f\n", figure->name,
           (unsigned long long)figure->size_bytes, figure->time_s * 1e6, figure->floor_s * 1e6,
           figure->reference, figure->reference_s * 1e6, figure->time_s / figure->reference_s,
           figure->faults);
    fflush(stdout);
    return ferror(stdout) ? GY_CANCELLED : GY_OK; /* main reports that it cannot be written */
}

static void print_stats(const gy_ps_stats *stats)
{
    printf("pushes %llu, pulls %llu, of prefetched rows %llu, clocks %llu\n",
           (unsigned long long)stats->pushes, (unsigned long long)stats->pulls,
           (unsigned long long)stats->prefetched, (unsigned long long)stats->clocks);
    printf("bytes pushed %llu, pulled %llu; keys sent %llu, spared %llu\n",
           (unsigned long long)stats->pushed_bytes, (unsigned long long)stats->pulled_bytes,
           (unsigned long long)stats->key_bytes, (unsigned long long)stats->spared_key_bytes);
    printf("dropped %llu, duplicates %llu\n", (unsigned long long)stats->dropped,
           (unsigned long long)stats->duplicates);
    printf("seconds waited: queue %.3f, pushes %.3f, clocks %.3f, rows %.3f\n",
           stats->queue_wait_s, stats->push_wait_s, stats->clock_wait_s, stats->pull_wait_s);
    printf("pulls by staleness in clocks:");
    for (int i = 0; i < GY_PS_STALENESS_BINS; i++) {
        if (stats->staleness[i] > 0) {
            printf(" %d%s: %llu", i, i == GY_PS_STALENESS_BINS - 1 ? " or more" : "",
                   (unsigned long long)stats->staleness[i]);
        }
    }
    printf("\n");
}

int gy_cli_ps_bench(const char *key_file, double duration_s, bool has_stats)
{
    gy_ps_stats stats;
    const gy_ps_bench_options options =
        GY_OPTIONS(gy_ps_bench_options, .key_file = key_file, .duration_s = duration_s);
    printf("one worker, one server, %s; microseconds, medians. The floor is max(n/B, pn/(kB)) "
           "for p workers\nand k servers, B being the bandwidth of a stream of 16 MiB.\n",
           key_file == NULL ? "plain text" : "TLS");
    printf("%-24s  %9s  %10s  %10s  %-10s  %10s  %6s  %7s\n", "", "bytes", "time", "floor",
           "beside", "its time", "ratio", "faults");
    gy_status status = gy_ps_bench(&options, print_figure, NULL, &stats);
    if (status < 0) {
        return ferror(stdout) ? GY_EXIT_OK : gy_cli_failure("ps bench", status);
    }
    if (has_stats) {
        print_stats(&stats);
    }
    return GY_EXIT_OK;
}
