#include "train/report/progress.h"

#include "base/base.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_COLUMNS = 100, BAR_MAX = 32, BAR_MIN = 6 };
#define REDRAW_NS     INT64_C(100000000)
#define PLAIN_LINE_NS INT64_C(3000000000)

struct gy_progress_bar {
    int file;
    bool is_terminal, is_drawn;
    int64_t start_ns, shown_ns;
};

/* "0:07", "1:02:03". */
static void add_time(char *out, size_t size, double seconds)
{
    long long s = isfinite(seconds) && seconds >= 0 && seconds < 1e9 ? llround(seconds) : 0;
    if (s >= 3600) {
        snprintf(out, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(out, size, "%lld:%02lld", s / 60, s % 60);
    }
}

const char *gy_train_progress_line(char out[GY_PROGRESS_BYTES], const gy_progress *progress,
                                   double elapsed_s, int columns)
{
    double part = progress->steps > 0 ? (double)progress->step / (double)progress->steps : 0;
    part = fmin(fmax(part, 0), 1);
    char left[32], tail[160], bar[BAR_MAX + 4] = "";
    add_time(left, sizeof(left), part > 0 ? elapsed_s * (1 - part) / part : 0);
    int tail_bytes = (int)gy_print(tail, sizeof(tail), " loss %.4f  %.0f samples/s  %s to go",
                                   progress->loss, progress->samples_per_s, left);
    int limit = GY_MIN(columns, GY_PROGRESS_BYTES - 1);
    int head_bytes = 18; /* "epoch 12  100% " and spare */
    int width = GY_MIN(limit - head_bytes - tail_bytes - 3, BAR_MAX);
    if (width >= BAR_MIN) {
        int full = (int)(part * width);
        bar[0] = '[';
        memset(bar + 1, '=', (size_t)full);
        memset(bar + 1 + full, ' ', (size_t)(width - full));
        if (full < width) {
            bar[1 + full] = '>';
        }
        memcpy(bar + 1 + width, "] ", 3);
    }
    snprintf(out, GY_PROGRESS_BYTES, "epoch %d %3.0f%% %s%s", progress->epoch + 1,
             floor(part * 100), bar, tail);
    if (limit >= 0 && strlen(out) > (size_t)limit) {
        out[limit] = '\0';
    }
    return out;
}

gy_status gy_progress_bar_new(int file, gy_progress_bar **bar)
{
    GY_ASSERT(bar != NULL);
    gy_progress_bar *made = gy_alloc_zero("train.progress", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->file = file;
    made->is_terminal = isatty(file) == 1;
    made->start_ns = gy_now_ns(gy_env_real());
    made->shown_ns = made->start_ns;
    *bar = made;
    return GY_OK;
}

/* One write, so that lines of several programs do not mix; nobody can be told if it fails. */
static void send_line(const gy_progress_bar *bar, const char *before, const char *line,
                      const char *after)
{
    char text[GY_PROGRESS_BYTES + 16];
    size_t size = gy_print(text, sizeof(text), "%s%s%s", before, line, after);
    ssize_t written = write(bar->file, text, size);
    (void)written;
}

static int terminal_columns(int file)
{
    struct winsize size;
    if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return 80;
    }
    return size.ws_col - 1;
}

void gy_progress_bar_show(gy_progress_bar *bar, const gy_progress *progress)
{
    int64_t now_ns = gy_now_ns(gy_env_real());
    char line[GY_PROGRESS_BYTES];
    if (progress->is_epoch_end) {
        char test[96] = "";
        /* Both are 0 without a test set; a loss that is not a number is told. */
        if (progress->test_accuracy != 0 || progress->test_loss != 0) {
            snprintf(test, sizeof(test), ", test loss %.4f, test accuracy %.2f %%",
                     progress->test_loss, 100 * progress->test_accuracy);
        }
        snprintf(line, sizeof(line), "epoch %d: loss %.4f%s", progress->epoch + 1,
                 progress->loss, test);
        send_line(bar, bar->is_drawn ? "\r\033[K" : "", line, "\n");
        bar->is_drawn = false;
        bar->shown_ns = now_ns;
        return;
    }
    if (now_ns - bar->shown_ns < (bar->is_terminal ? REDRAW_NS : PLAIN_LINE_NS)) {
        return;
    }
    bar->shown_ns = now_ns;
    int columns = bar->is_terminal ? terminal_columns(bar->file) : PLAIN_COLUMNS;
    gy_train_progress_line(line, progress, (double)(now_ns - bar->start_ns) / 1e9, columns);
    send_line(bar, bar->is_terminal ? "\r" : "", line, bar->is_terminal ? "\033[K" : "\n");
    bar->is_drawn = bar->is_terminal;
}

void gy_progress_bar_free(gy_progress_bar *bar)
{
    if (bar != NULL && bar->is_drawn) {
        send_line(bar, "\r\033[K", "", "");
    }
    gy_free(bar);
}
