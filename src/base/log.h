/**
 * Log lines, to standard error or to gy_log_set_handler's: "gyre: rank 3: text". GYRE_LOG
 * chooses the level (error, warn, info, debug, trace; default warn).
 */
#ifndef GY_BASE_LOG_H
#define GY_BASE_LOG_H

#include <gyre/base.h>

void gy_log_at(gy_log_level level, const char *file, int line, const char *format, ...)
    GY_PRINTF(4, 5);
/** A message to the user, whatever GYRE_LOG says: "gyre: text", in one write. External text in
 * it becomes printable. @threads any, also between fork and exec */
void gy_log_message(const char *format, ...) GY_PRINTF(1, 2);
/** Log a line that another process of this program made, as it is; at most 8 KiB. */
void gy_base_log_pass(gy_log_level level, const char *line);
/** GY_ARG GYRE_LOG holds no level: names it and the levels. */
GY_MUST_CHECK gy_status gy_log_check(void);
bool gy_log_is_on(gy_log_level level);
void gy_log_set_level(gy_log_level level);
/** Every later line names this rank (-1: none). */
void gy_log_set_rank(int rank);

#define gy_log(level, ...)                                                                     \
    do {                                                                                       \
        if (gy_log_is_on(level)) {                                                             \
            gy_log_at((level), __FILE__, __LINE__, __VA_ARGS__);                               \
        }                                                                                      \
    } while (0)
#define gy_error_log(...) gy_log(GY_LOG_ERROR, __VA_ARGS__)
#define gy_warn(...)      gy_log(GY_LOG_WARN, __VA_ARGS__)
#define gy_info(...)      gy_log(GY_LOG_INFO, __VA_ARGS__)
#define gy_debug(...)     gy_log(GY_LOG_DEBUG, __VA_ARGS__)

#endif
