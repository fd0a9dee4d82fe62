#include "cli/report.h"

#include <gyre/launch.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void gy_cli_report_corpus(const gy_corpus *corpus, double seconds, int ranks)
{
    long long unreadable = 0, binary = 0;
    printf("read on %d rank%s in %.1f s:\n", ranks, ranks == 1 ? "" : "s", seconds);
    printf("  %-8s %8s %10s %10s %11s %9s %9s\n", "class", "files", "lines", "MB", "distinct",
           "to train", "to test");
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        const gy_corpus_class *class = gy_corpus_class_of(corpus, (gy_language)k);
        printf("  %-8s %8lld %10lld %10.1f %11lld %9lld %9lld\n",
               gy_language_name((gy_language)k), (long long)class->files,
               (long long)class->lines, (double)class->bytes / 1e6,
               (long long)class->kept_lines, (long long)class->train_lines,
               (long long)class->test_lines);
        unreadable += class->unreadable;
        binary += class->binary;
    }
    printf("  skipped: %lld unreadable, %lld binary files\n", unreadable, binary);
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

void gy_cli_report_score(const gy_language_score *score)
{
    printf("\ntest accuracy: %.2f %% of %lld lines, %.2f %% of %lld files\n\n",
           percent(score->lines_right, score->lines), (long long)score->lines,
           percent(score->files_right, score->files), (long long)score->files);
    printf("  class      predicted\n  %-8s", "");
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        printf(" %7s", gy_language_name((gy_language)k));
    }
    printf("\n");
    for (int is = 0; is < GY_LANGUAGE_COUNT; is++) {
        printf("  %-8s", gy_language_name((gy_language)is));
        for (int said = 0; said < GY_LANGUAGE_COUNT; said++) {
            printf(" %7lld", (long long)score->confusion[is][said]);
        }
        printf("\n");
    }
}

/* In percent. */
static double share_of(double part_s, double whole_s)
{
    return whole_s > 0 ? 100 * part_s / whole_s : 0;
}

/* What is neither of the figures. */
static double rest_of(const gy_train_account *a)
{
    const double rest = a->wall_s - a->aside_s - a->compute_s - a->bubble_s -
                        a->exposed_communication_s - a->input_s;
    return rest > 0 ? rest : 0;
}

/* Ranks of a mesh with stages, in seconds. */
static void report_accounts(const gy_train_result *result)
{
    printf("  rank   compute    bubble  transfer     input     other  bubble %%     tests      "
           "wall\n");
    for (int rank = 0; rank < result->account_count; rank++) {
        const gy_train_account *a = &result->accounts[rank];
        const double updates_s = a->wall_s - a->aside_s;
        printf("  %4d %9.3f %9.3f %9.3f %9.3f %9.3f %9.1f %9.3f %9.3f\n", rank, a->compute_s,
               a->bubble_s, a->exposed_communication_s, a->input_s, rest_of(a),
               share_of(a->bubble_s, updates_s), a->aside_s, a->wall_s);
    }
}

void gy_cli_report_time(const gy_train_result *result, bool has_device)
{
    const gy_train_account own = {result->wall_s,   result->compute_s,
                                  result->bubble_s, result->exposed_communication_s,
                                  result->input_s,  result->aside_s};
    char bubble[48] = "";
    if (result->account_count > 0) {
        snprintf(bubble, sizeof(bubble), "bubble %.2f s, ", result->bubble_s);
    }
    printf("\ntrained %lld steps in %.2f s on rank 0: compute %.2f s, %sexposed communication "
           "%.2f s (hidden %.2f s), input %.2f s, %s %.2f s; tests and checkpoints %.2f s\n",
           (long long)result->steps, result->wall_s - result->aside_s, result->compute_s,
           bubble, result->exposed_communication_s, result->hidden_communication_s,
           result->input_s, has_device ? "device and other" : "other", rest_of(&own),
           result->aside_s);
    if (result->account_count > 0) {
        report_accounts(result);
    }
    if (result->resumed_step > 0) {
        printf("resumed after step %lld\n", (long long)result->resumed_step);
    }
    if (result->loss_scale > 0) {
        printf("loss scale %.12g, steps skipped %lld\n", result->loss_scale,
               (long long)result->skipped_steps);
    }
}

gy_status gy_cli_report_exchanges(gy_model *model, int lines_max)
{
    char *text = NULL;
    gy_status status = gy_train_explain_runs(model, lines_max, &text);
    if (status == GY_OK) {
        printf("%s", text);
        gy_string_free(text);
    }
    return status;
}

const char *gy_cli_memory_text(double bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

static void report_exchange(const char *axis, const gy_exchange_stats *row, double updates)
{
    char bytes[32];
    const double hidden_ms = 1e3 * row->hidden_s / updates;
    const double exposed_ms = 1e3 * row->exposed_s / updates;
    printf("  %-6s %-15s %9.1f %12s %9.3f %9.3f %9.3f\n", axis,
           axis[0] == '\0'                        ? "all"
           : row->operation == GY_OPERATION_COUNT ? "message"
                                                  : gy_operation_name(row->operation),
           (double)row->count / updates,
           gy_cli_memory_text((double)row->sent_bytes / updates, bytes), hidden_ms + exposed_ms,
           hidden_ms, exposed_ms);
}

void gy_cli_report_updates(const gy_train_result *result, const char *unit, double per_sample,
                           long long peak_bytes)
{
    const double updates = (double)(result->steps - result->resumed_step);
    gy_exchange_stats all = {.count = 0};
    char memory[32];
    if (updates < 1) {
        return;
    }
    printf("an update on rank 0:\n  %-6s %-15s %9s %12s %9s %9s %9s\n", "axis", "exchange",
           "count", "sent", "ms", "hidden", "exposed");
    for (int i = 0; i < result->exchange_count; i++) {
        const gy_exchange_stats *row = &result->exchanges[i];
        if (row->count > 0) {
            report_exchange(row->axis, row, updates);
        }
        all.count += row->count;
        all.sent_bytes += row->sent_bytes;
        all.hidden_s += row->hidden_s;
        all.exposed_s += row->exposed_s;
    }
    report_exchange("", &all, updates);
    char bubble[48] = "";
    double exposed_s = all.exposed_s;
    if (result->account_count > 0) { /* messages wait for what other stages still compute */
        exposed_s = result->exposed_communication_s;
        snprintf(bubble, sizeof(bubble), "%.1f %% of it bubble, ",
                 share_of(result->bubble_s, result->update_s));
    }
    printf("  %.3f ms an update, %.0f %s/s, %s%.1f %% of it exposed communication; peak memory "
           "of a rank %s\n",
           1e3 * result->update_s / updates,
           result->update_s > 0 ? (double)result->samples * per_sample / result->update_s : 0,
           unit, bubble, share_of(exposed_s, result->update_s),
           gy_cli_memory_text((double)peak_bytes, memory));
}

int gy_cli_report_failure(const char *what, gy_status status)
{
    const char *rank = getenv("GYRE_RANK");
    fflush(stdout);
    /* When many ranks fail, the launcher prints the first cause once. */
    if (!gy_run_report_failure(status)) {
        gy_print_to(stderr, "gyre %s: %s%s%s%s\n", what, rank == NULL ? "" : "rank ",
                    rank == NULL ? "" : rank, rank == NULL ? "" : ": ", gy_error_text());
    }
    return GY_EXIT_FAILURE;
}

int gy_cli_report_usage(const char *format, ...)
{
    static char whole[1 << 18]; /* an argument has at most half of it */
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(whole, sizeof(whole), format, args);
    va_end(args);
    gy_printable(text, sizeof(text), whole, strlen(whole), "");
    if (getenv("GYRE_RANK") == NULL || !gy_run_report_message(GY_ARG, text)) {
        fprintf(stderr, "%s\n", text);
    }
    return GY_EXIT_USAGE;
}

bool gy_cli_make_folder(const char *command, const char *folder)
{
    char path[2048];
    snprintf(path, sizeof(path), "%s", folder);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777); /* only the result for the whole path matters */
        *slash = '/';
    }
    struct stat about;
    if ((mkdir(path, 0777) != 0 && errno != EEXIST) || stat(path, &about) != 0) {
        gy_print_to(stderr, "gyre %s: cannot make folder '%s': %s\n", command, path,
                    strerror(errno));
        return false;
    }
    if (!S_ISDIR(about.st_mode) || access(path, W_OK) != 0) {
        gy_print_to(stderr, "gyre %s: cannot write to '%s': %s\n", command, path,
                    S_ISDIR(about.st_mode) ? strerror(errno) : "it is not a folder");
        return false;
    }
    return true;
}
