/**
 * What `gyre train` prints, and how failures end a rank.
 */
#ifndef GY_CLI_REPORT_H
#define GY_CLI_REPORT_H

#include "cli/options.h"

#include <gyre/demo/language.h>
#include <gyre/gyre.h>

/** What was read: files, lines and bytes by class. */
void gy_cli_report_corpus(const gy_corpus *corpus, double seconds, int ranks);

/** Accuracy by line and by file, and the confusion table. */
void gy_cli_report_score(const gy_language_score *score);

/** Where the time of a training went, where it went on from, what its loss scale did. The time
 * of a device counts as computing nowhere: it is in the rest. */
void gy_cli_report_time(const gy_train_result *result, bool has_device);

/**
 * The exchanges of a training that should take most time.
 * @param lines_max  0: all of them
 * @return what gy_train_explain_runs failed with
 */
gy_status gy_cli_report_exchanges(gy_model *model, int lines_max);
/** "12.3 MiB", in `out`. */
const char *gy_cli_memory_text(double bytes, char out[32]);

/**
 * What the updates of a training took on this rank: exchanges by axis and operation, times and
 * rates.
 * @param unit        what the rate counts: "samples", "characters"
 * @param per_sample  of these in a sample
 * @param peak_bytes  memory of the largest rank
 */
void gy_cli_report_updates(const gy_train_result *result, const char *unit, double per_sample,
                           long long peak_bytes);

/**
 * Report a failure on standard error, after `what`; a rank reports it through the launcher,
 * which prints the first cause once for all ranks. Returns the exit status.
 */
int gy_cli_report_failure(const char *what, gy_status status);

/** Make the folder and its parents; false and a message when it cannot be written. */
bool gy_cli_make_folder(const char *command, const char *folder);

/**
 * Report wrong usage in one line: once, also when all ranks of a launch detect it. Returns
 * GY_EXIT_USAGE.
 */
int gy_cli_report_usage(const char *format, ...) GY_PRINTF(1, 2);

#endif
