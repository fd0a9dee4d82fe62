/**
 * Goal: what tests of a program's functions in queries share: tables, answers, and the ways in
 * which a query runs. A test defines `functions`.
 */
#ifndef GY_QUERY_ASK_FUNCTIONS_TEST_H
#define GY_QUERY_ASK_FUNCTIONS_TEST_H

#include "base/text.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/query.h>
#include <gyre/rows.h>

#include "base/base.h"
#include "base/disk.h"
#include "base/random.h"

/* The program's functions, also in processes of jobs. */
static gy_query_functions functions(void);

static char folder[] = "/tmp/gyre-functions-XXXXXX";
static gy_flow *flow;

/* ---- Answers ---- */

static inline gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

static inline gy_status take_rows(gy_query *query, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source rows;
    int count = 0;
    gy_status status = gy_query_next(query, &schema, &rows);
    if (status != GY_OK) {
        return status;
    }
    while (status == GY_OK) {
        gy_frame *frame = NULL;
        status = rows.next(rows.arg, &frame);
        if (status == GY_OK) {
            const gy_csv_write_options lines =
                GY_OPTIONS(gy_csv_write_options, .has_no_header = count++ > 0);
            status = gy_csv_write(frame, &lines, take_bytes, out);
            gy_frame_drop(frame);
        }
    }
    rows.close(rows.arg);
    gy_schema_drop(schema);
    return status == GY_DONE ? GY_OK : status;
}

/* The answer of a statement as CSV; what is reported if it fails. */
static inline gy_status answer_of(const char *sql, const gy_query_options *how, gy_text *out)
{
    gy_query_options options = *how;
    gy_query *query = NULL;
    options.text = sql;
    options.tables = folder;
    options.functions = options.functions.items != NULL ? options.functions : functions();
    gy_status status = gy_query_new(&options, &query);
    if (status != GY_OK) {
        gy_text_add(out, "%s%s", gy_query_report(query), query == NULL ? gy_error_text() : "");
        gy_query_free(query);
        return status;
    }
    status = take_rows(query, out);
    if (status != GY_OK) {
        gy_text_add(out, "%s", gy_query_report(query));
    }
    gy_query_free(query);
    return status;
}

static inline void check_same(const char *own, const char *builtin, const gy_query_options *how)
{
    gy_text out = {.data = NULL}, expected = {.data = NULL};
    const gy_query_options one = GY_OPTIONS(gy_query_options, .workers = 1);
    if (answer_of(builtin, &one, &expected) != GY_OK) {
        fail_msg("%s\n%s", builtin, gy_text_get(&expected));
    }
    if (answer_of(own, how, &out) != GY_OK ||
        strcmp(gy_text_get(&out), gy_text_get(&expected)) != 0) {
        fail_msg("%s\nis answered by\n%.700s\nand not by\n%.700s", own, gy_text_get(&out),
                 gy_text_get(&expected));
    }
    gy_text_free(&out);
    gy_text_free(&expected);
}

/* ---- Tables ---- */

static inline void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static inline void write_table(const char *name, gy_random *chance, int rows)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("k,a,b,x,d,t,yes,day,at\n", file);
    for (int i = 0; i < rows; i++) {
        fprintf(file, "%d,", (int)gy_random_below(chance, (uint64_t)rows / 20 + 3));
        for (int column = 0; column < 8; column++) {
            const int value = (int)gy_random_below(chance, 2000) - 1000;
            const bool is_null = gy_random_below(chance, 10) == 0 && i > 0;
            switch (is_null ? -1 : column) {
            case 0:
            case 1:
                fprintf(file, "%d", value);
                break;
            case 2:
                fprintf(file, "%.10f", value / 1024.0);
                break;
            case 3:
                fprintf(file, "%d.%02d", value, (int)gy_random_below(chance, 100));
                break;
            case 4:
                fprintf(file, "\"text %d,\n\"", value);
                break;
            case 5:
                fputs(value < 0 ? "true" : "false", file);
                break;
            case 6:
                fprintf(file, "%04d-%02d-%02d", 1960 + (value + 1000) / 20,
                        1 + (int)gy_random_below(chance, 12),
                        1 + (int)gy_random_below(chance, 28));
                break;
            case 7:
                fprintf(file, "%04d-05-06 07:08:09.%06d", 1960 + (value + 1000) / 20,
                        (int)gy_random_below(chance, 1000000));
                break;
            default:
                break;
            }
            fputc(column < 7 ? ',' : '\n', file);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return gy_disk_remove_tree(folder) != GY_OK;
}

/* In one process by 1, 2 and 4 workers, within little memory, and as a job of 2
 * processes. */
static inline void in_each_way(const char *own, const char *builtin)
{
    static const int workers[] = {1, 2, 4};
    for (size_t i = 0; i < GY_COUNT(workers); i++) {
        check_same(own, builtin, &GY_OPTIONS(gy_query_options, .workers = workers[i]));
    }
    check_same(own, builtin,
               &GY_OPTIONS(gy_query_options, .workers = 2, .memory_bytes = 1 << 20));
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = 2);
    check_same(own, builtin,
               &GY_OPTIONS(gy_query_options, .workers = 2, .job = &job, .flow = flow,
                           .split_bytes = 1 << 18));
}

static inline void check_refused(const char *sql, gy_status expected, const char *text,
                                 const gy_query_options *how)
{
    gy_text out = {.data = NULL};
    const gy_status status = answer_of(sql, how, &out);
    if (status != expected || strstr(gy_text_get(&out), text) == NULL) {
        fail_msg("%s\ngave %d\n%s\nand not '%s'", sql, (int)status, gy_text_get(&out), text);
    }
    gy_text_free(&out);
}

#define OWN(name_, work, fields, ...)                                                          \
    {                                                                                          \
        .name = name_, .version = 7, .parameters = (fields),                                   \
        .parameter_count = (int)GY_COUNT(fields), .scalar = (work), .result = {                \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }

/* A main that runs tests, and in processes of jobs vertices. */
/* A statement that is refused, and what the report says. */
typedef struct refusal {
    const char *sql;
    gy_status status;
    const char *text;
} refusal;

/* In one process; failures of a function over table luck of two rows, a and b, also as jobs. */
static inline void check_refusals(const refusal *refused, size_t count)
{
    char path[512];
    path_of("luck.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("a,b\n1,1\n13,1\n", file);
    assert_int_equal(fclose(file), 0);
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = 2);
    for (size_t i = 0; i < count; i++) {
        const refusal *one = &refused[i];
        check_refused(one->sql, one->status, one->text,
                      &GY_OPTIONS(gy_query_options, .workers = 2));
        if ((one->status == GY_ARG || one->status == GY_NUMERIC) &&
            strstr(one->sql, "luck") != NULL) {
            check_refused(
                one->sql, one->status, one->text,
                &GY_OPTIONS(gy_query_options, .workers = 1, .job = &job, .flow = flow));
        }
    }
}

static inline int run_program(int argc, char **argv, int (*tests)(void))
{
    static const gy_function vertices[] = {GY_QUERY_VERTEX_OF(functions)};
    const gy_status started = gy_flow_start(&argc, &argv, vertices, 1, &flow);
    if (started != GY_OK) {
        return started < 0;
    }
    const int failed = tests();
    gy_flow_end(flow);
    return failed;
}

#endif
