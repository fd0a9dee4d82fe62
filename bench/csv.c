/*
 * CSV: bytes a core and second, of reading some of many columns and of looking for rows alone.
 * Seconds are those of the processor: other programs of the machine change little.
 *
 *   bench_csv write FILE ROWS     16 columns: numbers, texts, decimals, dates; a text is quoted
 *   bench_csv read FILE COLUMNS   so many columns from the middle, five times; the median
 */
#include "base/base.h"

#include <gyre/csv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLUMNS = 16, RUNS = 5 };

static int fail(const char *what)
{
    fprintf(stderr, "bench_csv: %s: %s\n", what, gy_error_text());
    return 1;
}

static int write_rows(const char *path, long rows)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return fail(path);
    }
    for (int i = 0; i < COLUMNS; i++) {
        fprintf(out, "%sc%d", i > 0 ? "," : "", i);
    }
    gy_random random = {.key = 1};
    for (long row = 0; row < rows; row++) {
        fprintf(out, "\n%ld", row);
        for (int i = 1; i < COLUMNS; i++) {
            const uint64_t value = gy_random_below(&random, 1000000);
            switch (i % 4) {
            case 0:
                fprintf(out, ",%llu", (unsigned long long)value);
                break;
            case 1:
                fprintf(out, ",name%llu", (unsigned long long)value % 5000);
                break;
            case 2:
                fprintf(out, ",%llu.%02llu", (unsigned long long)value / 100,
                        (unsigned long long)value % 100);
                break;
            default:
                fprintf(out, i == 7 ? ",\"a quoted, text\"" : ",2024-%02d-%02d",
                        (int)(value % 12) + 1, (int)(value % 28) + 1);
            }
        }
    }
    return fclose(out) == 0 ? 0 : fail(path);
}

static double cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Read once; seconds, or below 0. */
static double read_once(const char *path, const gy_csv_options *options, int64_t *rows)
{
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    const double begin = cpu_now();
    *rows = 0;
    if (gy_csv_open(path, options, &csv) < 0) {
        return -1;
    }
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        *rows += gy_frame_rows(frame);
        gy_frame_drop(frame);
    }
    gy_csv_close(csv);
    return status == GY_DONE ? cpu_now() - begin : -1;
}

static double split_once(const char *path)
{
    gy_csv *csv = NULL;
    if (gy_csv_open(path, NULL, &csv) < 0) {
        return -1;
    }
    const double begin = cpu_now();
    const gy_status status = gy_csv_split(csv, NULL);
    const double taken = cpu_now() - begin;
    gy_csv_close(csv);
    return status == GY_OK ? taken : -1;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int read_rows(const char *path, int count)
{
    char names[COLUMNS][8];
    const char *used[COLUMNS];
    double times[RUNS], splits[RUNS];
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        (void)gy_print(names[i], sizeof(names[i]), "c%d", (4 + i) % COLUMNS);
        used[i] = names[i];
    }
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return fail(path);
    }
    const double size = (double)ftell(file);
    (void)fclose(file);
    const gy_csv_options options =
        GY_OPTIONS(gy_csv_options, .used = used, .used_count = count);
    for (int i = 0; i < RUNS; i++) {
        times[i] = read_once(path, &options, &rows);
        splits[i] = split_once(path);
        if (times[i] < 0 || splits[i] < 0) {
            return fail(path);
        }
    }
    qsort(times, RUNS, sizeof(times[0]), by_size);
    qsort(splits, RUNS, sizeof(splits[0]), by_size);
    printf("columns,rows,bytes,read_gb_s,best_gb_s,split_gb_s\n%d,%lld,%.0f,%.2f,%.2f,%.2f\n",
           count, (long long)rows, size, size / times[RUNS / 2] * 1e-9, size / times[0] * 1e-9,
           size / splits[RUNS / 2] * 1e-9);
    return 0;
}

int main(int argc, char **argv)
{
    const bool is_write = argc == 4 && strcmp(argv[1], "write") == 0;
    if (!is_write && (argc != 4 || strcmp(argv[1], "read") != 0)) {
        fprintf(stderr, "usage: bench_csv write FILE ROWS | read FILE COLUMNS\n");
        return 2;
    }
    const long number = strtol(argv[3], NULL, 10);
    if (is_write) {
        return write_rows(argv[2], number);
    }
    return number >= 0 && number <= COLUMNS ? read_rows(argv[2], (int)number) : 2;
}
