/* Draws a job's stages as progress bars and updates them in place. */
#include "flow/progress.h"

#include "base/fail.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_CELLS = 24, NAME_CELLS = 16, LINES_MAX = 12, COLUMNS_DEFAULT = 80 };

static void add_bar(gy_text *out, const gy_job_stage *stage)
{
    int64_t total = stage->tasks > 0 ? stage->tasks : 1;
    int done = (int)(stage->committed * BAR_CELLS / total);
    int reached = (int)((stage->committed + stage->running) * BAR_CELLS / total);
    for (int i = 0; i < BAR_CELLS; i++) {
        gy_text_add(out, "%c", i < done ? '#' : i < reached ? '-' : '.');
    }
}

static void add_stage(gy_text *out, const gy_job_stage *stage, int columns)
{
    gy_text line = {0};
    char bytes[32];
    gy_text_add(&line, "%-*.*s ", NAME_CELLS, NAME_CELLS, stage->name);
    add_bar(&line, stage);
    gy_text_add(&line, " %lld/%lld %s", (long long)stage->committed, (long long)stage->tasks,
                gy_text_bytes(bytes, (uint64_t)stage->bytes));
    const struct {
        const char *name;
        int64_t count;
    } rare[] = {{"memoised", stage->memoised},
                {"failed", stage->failures},
                {"backups", stage->backups}};
    for (size_t i = 0; i < sizeof(rare) / sizeof(rare[0]); i++) {
        if (rare[i].count > 0) {
            gy_text_add(&line, ", %lld %s", (long long)rare[i].count, rare[i].name);
        }
    }
    gy_text_add(out, "%.*s\n", columns, gy_text_get(&line));
    out->status = out->status != GY_OK ? out->status : line.status;
    gy_text_free(&line);
}

int gy_flow_progress_bars(const gy_job_report *report, int columns, gy_text *out)
{
    GY_ASSERT(columns > 0);
    int lines = 0, left_out = 0;
    for (size_t i = 0; i < report->stage_count; i++) {
        const gy_job_stage *stage = &report->stages[i];
        bool is_idle =
            stage->running == 0 && (stage->committed == stage->tasks || stage->committed == 0);
        if (report->stage_count > LINES_MAX && (is_idle || lines == LINES_MAX)) {
            left_out++;
            continue;
        }
        add_stage(out, stage, columns);
        lines++;
    }
    if (left_out > 0) {
        gy_text_add(out, "and %d more stages\n", left_out);
        lines++;
    }
    return lines;
}

static int terminal_columns(int file)
{
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1
                                                                  : COLUMNS_DEFAULT;
}

void gy_flow_bars_draw(void *arg, const gy_job_report *report)
{
    gy_flow_bars *progress = arg;
    GY_ASSERT(progress->lines >= 0);
    if (!isatty(progress->file)) {
        return;
    }
    gy_text text = {0};
    if (progress->lines > 0) {
        gy_text_add(&text, "\033[%dA\033[J", progress->lines);
    }
    int lines = gy_flow_progress_bars(report, terminal_columns(progress->file), &text);
    if (text.status == GY_OK) { /* failing to draw is no failure of the job */
        (void)!write(progress->file, gy_text_get(&text), text.size_bytes);
        progress->lines = lines;
    }
    gy_text_free(&text);
}
