#include "base/log.h"
#include "base/fail.h"

#include "base/setting.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static const char *const level_choices = "error|warn|info|debug|trace";
static _Atomic int chosen_level = -1; /* -1: not read yet */
static _Atomic int own_rank = -1;
static gy_log_handler own_handler; /* set before there are threads */
static void *own_arg;

enum { LINE_BYTES = 2048 };

static int read_level(void)
{
    /* First what holds if the variable is wrong: the warning about it comes here again. */
    atomic_store_explicit(&chosen_level, GY_LOG_WARN, memory_order_relaxed);
    int level = gy_setting_choose("GYRE_LOG", level_choices, GY_LOG_WARN);
    atomic_store_explicit(&chosen_level, level, memory_order_relaxed);
    return level;
}

gy_status gy_log_check(void)
{
    int level = GY_LOG_WARN;
    int before = atomic_exchange_explicit(&chosen_level, level, memory_order_relaxed);
    GY_TRY(gy_setting_choice("GYRE_LOG", level_choices, &level));
    atomic_store_explicit(&chosen_level, before < 0 ? level : before, memory_order_relaxed);
    return GY_OK;
}

bool gy_log_is_on(gy_log_level level)
{
    int chosen = atomic_load_explicit(&chosen_level, memory_order_relaxed);
    return (int)level <= (chosen < 0 ? read_level() : chosen);
}

void gy_log_set_level(gy_log_level level)
{
    atomic_store_explicit(&chosen_level, (int)level, memory_order_relaxed);
}

void gy_log_set_rank(int rank)
{
    atomic_store_explicit(&own_rank, rank, memory_order_relaxed);
}

void gy_log_set_handler(gy_log_handler handler, void *arg)
{
    own_handler = handler;
    own_arg = arg;
}

/* One write a line, so that lines of several ranks do not mix; an error of it has no reader. */
static void emit(gy_log_level level, char *line, size_t size)
{
    if (own_handler != NULL) {
        line[size] = '\0';
        own_handler(own_arg, level, line);
        return;
    }
    line[size] = '\n';
    ssize_t written = write(STDERR_FILENO, line, size + 1);
    (void)written;
}

void gy_log_message(const char *format, ...)
{
    char line[4 * LINE_BYTES + 16], words[LINE_BYTES];
    size_t size = gy_print(line, sizeof(line), "gyre: ");
    va_list args;
    va_start(args, format);
    const size_t wanted = gy_print_list(words, sizeof(words), format, args);
    va_end(args);
    size += gy_printable(line + size, sizeof(line) - size - 1, words, wanted, "");
    emit(GY_LOG_ERROR, line, size);
}

void gy_base_log_pass(gy_log_level level, const char *line)
{
    char copy[4 * LINE_BYTES + 16];
    const size_t size = strnlen(line, sizeof(copy) - 1);
    memcpy(copy, line, size);
    emit(level, copy, size);
}

void gy_log_at(gy_log_level level, const char *file, int line, const char *format, ...)
{
    if (!gy_log_is_on(level)) {
        return;
    }
    char text[2048], words[4096];
    size_t size = gy_print(text, sizeof(text), "gyre: ");
    int rank = atomic_load_explicit(&own_rank, memory_order_relaxed);
    if (rank >= 0) {
        size += gy_print(text + size, sizeof(text) - size, "rank %d: ", rank);
    }
    if (level != GY_LOG_INFO) {
        size += gy_print(text + size, sizeof(text) - size, "%s: ", level_names[level]);
    }
    if (level >= GY_LOG_DEBUG) {
        size += gy_print(text + size, sizeof(text) - size, "%s:%d: ", file, line);
    }
    va_list args;
    va_start(args, format);
    const size_t wanted = gy_print_list(words, sizeof(words), format, args);
    va_end(args);
    size += gy_printable(text + size, sizeof(text) - size - 1, words, wanted, "");
    emit(level, text, size);
}
