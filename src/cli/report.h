/**
 * What `gyre train` prints, and how failures end a rank.
 */
#ifndef GY_CLI_REPORT_H
#define GY_CLI_REPORT_H

#include "cli/options.h"

#include <gyre/gyre.h>

/** What was read: files, lines and bytes by class. */
void gy_cli_report_corpus(const gy_corpus *corpus, double seconds, int ranks);

/** Accuracy by line and by file, and the confusion table. */
void gy_cli_report_score(const gy_language_score *score);

/** Where the time of a training went. */
void gy_cli_report_time(const gy_train_result *result);

/**
 * Say what failed: on standard error, after `what`; in a rank through the launcher, which says
 * the first cause once for all. Returns the exit status.
 */
int gy_cli_report_failure(const char *what, gy_status status);

/**
 * Say what is wrong with how the command was called, one line: once, also when all ranks of a
 * run see it. Returns GY_EXIT_USAGE.
 */
int gy_cli_report_usage(const char *format, ...) GY_PRINTF(1, 2);

#endif
