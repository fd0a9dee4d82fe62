/*
 * Functions of a program in its queries: which sites of a log sent most?
 *
 *     cc functions.c -lgyre -o functions
 *     ./functions 'SELECT …' [PROCESSES]
 *
 * Statements may call site(url), the host of a URL, the aggregate median(bytes), to the next
 * power of two, and in FROM largest((select …), partition_by => '…', order_by => '…'), the
 * first two rows of each partition. With PROCESSES each query is a job of so many processes,
 * which are this program, too.
 */
#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- site(url): what stands between :// and the next slash; null without one ---- */

static gy_status site(gy_function_call *call, const gy_function_value *arguments,
                      gy_function_value *result)
{
    const gy_text_view url = arguments[0].text;
    size_t begin = 0;
    while (begin + 3 <= url.size_bytes && memcmp(url.data + begin, "://", 3) != 0) {
        begin++;
    }
    begin += 3;
    if (begin >= url.size_bytes) {
        result->is_null = true;
        return GY_OK;
    }
    const char *slash = memchr(url.data + begin, '/', url.size_bytes - begin);
    const size_t end = slash != NULL ? (size_t)(slash - url.data) : url.size_bytes;
    if (end == begin) {
        return gy_function_fail(call, "a URL without a host: %.*s", (int)url.size_bytes,
                                url.data);
    }
    result->text = (gy_text_view){url.data + begin, end - begin}; /* part of an argument */
    return GY_OK;
}

/* ---- median(n): counts of numbers by their binary digits are a state that can be merged,
 * in any order ---- */

enum { DIGITS = 64 };

static gy_status add_number(gy_function_call *call, void *state,
                            const gy_function_value *arguments)
{
    int64_t *counts = state;
    int digits = 0;
    if (arguments[0].integer < 0) {
        return gy_function_fail(call, "%lld is below 0", (long long)arguments[0].integer);
    }
    while (digits < DIGITS - 1 && arguments[0].integer >> digits != 0) {
        digits++;
    }
    counts[digits]++;
    return GY_OK;
}

static gy_status add_counts(gy_function_call *call, void *state, const void *other)
{
    int64_t *counts = state;
    (void)call;
    for (int i = 0; i < DIGITS; i++) {
        counts[i] += ((const int64_t *)other)[i];
    }
    return GY_OK;
}

static gy_status middle(gy_function_call *call, const void *state, gy_function_value *result)
{
    const int64_t *counts = state;
    int64_t all = 0, below = 0;
    (void)call;
    for (int i = 0; i < DIGITS; i++) {
        all += counts[i];
    }
    result->is_null = all == 0;
    for (int i = 0; i < DIGITS && below * 2 < all; i++) {
        below += counts[i];
        result->integer = i == 0 ? 0 : (int64_t)((UINT64_C(1) << i) - 1);
    }
    return GY_OK;
}

/* ---- largest((select site, url, bytes …), …): the first rows of a partition, as they come
 * ---- */

static gy_status largest(gy_function_call *call, const gy_frame_source *rows)
{
    int64_t left = 2;
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while (left > 0 && (status = rows->next(rows->arg, &frame)) == GY_OK) {
        gy_frame *some = NULL;
        const int64_t count = gy_frame_rows(frame) < left ? gy_frame_rows(frame) : left;
        status = gy_frame_slice(frame, 0, count, &some);
        status = status == GY_OK ? gy_function_emit(call, some) : status;
        gy_frame_drop(some);
        gy_frame_drop(frame);
        if (status != GY_OK) {
            return status;
        }
        left -= count;
    }
    return status == GY_DONE ? GY_OK : status;
}

/* ---- the program ---- */

static gy_query_functions functions(void)
{
    static const gy_field url[] = {{.name = "url", .kind = GY_FIELD_TEXT}};
    static const gy_field page[] = {{.name = "site", .kind = GY_FIELD_TEXT},
                                    {.name = "url", .kind = GY_FIELD_TEXT},
                                    {.name = "bytes", .kind = GY_FIELD_INT64}};
    static const gy_field number[] = {{.name = "n", .kind = GY_FIELD_INT64}};
    static const gy_query_function list[] = {{.name = "site",
                                              .version = 1,
                                              .parameters = url,
                                              .parameter_count = 1,
                                              .result = {.kind = GY_FIELD_TEXT},
                                              .scalar = site},
                                             {.name = "median",
                                              .version = 1,
                                              .parameters = number,
                                              .parameter_count = 1,
                                              .result = {.kind = GY_FIELD_INT64},
                                              .state_bytes = DIGITS * sizeof(int64_t),
                                              .accumulate = add_number,
                                              .merge = add_counts,
                                              .finish = middle},
                                             {.name = "largest",
                                              .version = 1,
                                              .parameters = page,
                                              .parameter_count = 3,
                                              .columns = page,
                                              .column_count = 3,
                                              .apply = largest}};
    return (gy_query_functions){.items = list, .count = sizeof(list) / sizeof(list[0])};
}

static gy_status print_answer(gy_frame_source *rows)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while (status == GY_OK && (status = rows->next(rows->arg, &frame)) == GY_OK) {
        status = gy_frame_print(frame, stdout, NULL);
        gy_frame_drop(frame);
    }
    rows->close(rows->arg);
    return status == GY_DONE ? GY_OK : status;
}

static gy_status ask(gy_flow *flow, const char *sql, int processes)
{
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = processes);
    const gy_query_options options =
        GY_OPTIONS(gy_query_options, .text = sql, .functions = functions(),
                   .job = processes > 0 ? &job : NULL, .flow = flow);
    gy_query *query = NULL;
    gy_status status = gy_query_new(&options, &query);
    while (status == GY_OK) {
        gy_schema *schema = NULL;
        gy_frame_source rows;
        status = gy_query_next(query, &schema, &rows);
        if (status == GY_OK) {
            status = print_answer(&rows);
            gy_schema_drop(schema);
        }
    }
    if (status < 0) {
        fputs(query != NULL ? gy_query_report(query) : gy_error_text(), stderr);
    }
    gy_query_free(query);
    return status;
}

int main(int argc, char **argv)
{
    static const gy_function vertices[] = {GY_QUERY_VERTEX_OF(functions)};
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, vertices, 1, &flow);
    if (started != GY_OK) { /* GY_DONE: the work of a process of a job */
        return started < 0;
    }
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: functions 'SELECT …' [PROCESSES]\n");
        gy_flow_end(flow);
        return 2;
    }
    const gy_status status = ask(flow, argv[1], argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0);
    gy_flow_end(flow);
    return status < 0;
}
