/*
 * The five most popular pages of a log, as a query made of calls.
 *
 *     cc rows.c -lgyre -o rows
 *     ./rows 'log-*.csv'             the answer
 *     ./rows 'log-*.csv' explain     how it is computed
 *     ./rows 'log-*.csv' 4           the answer by a job of four processes
 *
 * The files have a header and columns page and status.
 */
#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gy_rows *popular(gy_rows_session *session, const char *files)
{
    gy_rows *log = gy_rows_read(session, files, NULL);
    gy_rows *pages = gy_rows_where(log, "page not like '%.css'");
    gy_rows *visits = gy_rows_group(pages, "page",
                                    "page, count(*) as visits, "
                                    "count(case when status >= 400 then 1 end) as failed");
    return gy_rows_top(visits, "visits desc, page", 5);
}

static gy_status print_answer(gy_rows *rows)
{
    gy_schema *schema = NULL;
    gy_frame *frame = NULL;
    gy_frame_source answer;
    gy_status status = gy_rows_run(rows, &schema, &answer);
    if (status != GY_OK) {
        return status;
    }
    while (status == GY_OK && (status = answer.next(answer.arg, &frame)) == GY_OK) {
        status = gy_frame_print(frame, stdout, NULL);
        gy_frame_drop(frame);
    }
    answer.close(answer.arg);
    gy_schema_drop(schema);
    return status == GY_DONE ? GY_OK : status;
}

static gy_status print_plan(gy_rows *rows)
{
    char *plan = gy_rows_explain(rows);
    if (plan == NULL) {
        return GY_ARG;
    }
    fputs(plan, stdout);
    gy_string_free(plan);
    return GY_OK;
}

static int answer(const gy_rows_session_options *options, const char *files, int is_plan)
{
    gy_rows_session *session = NULL;
    gy_status status = gy_rows_session_new(options, &session);
    if (status != GY_OK) {
        fprintf(stderr, "rows: %s\n", gy_error_text());
        return 1;
    }
    gy_rows *top = popular(session, files);
    status = is_plan ? print_plan(top) : print_answer(top);
    if (status != GY_OK) {
        fputs(gy_rows_report(top), stderr);
    }
    gy_rows_session_free(session); /* and all rows */
    return status != GY_OK;
}

/* 0: it is no number of processes. */
static int number_of(const char *text)
{
    char *end = NULL;
    const long number = strtol(text, &end, 10);
    return *end == '\0' && number > 0 && number <= 1000 ? (int)number : 0;
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {GY_QUERY_VERTEX};
    gy_flow *flow = NULL;
    gy_flow_options job = {.processes = 0};
    /* A process of a job is this program, too: it serves in this call. */
    gy_status status = gy_flow_start(&argc, &argv, functions, 1, &flow);
    if (status != GY_OK) {
        return status < 0;
    }
    const int is_plan = argc == 3 && strcmp(argv[2], "explain") == 0;
    job.processes = argc == 3 ? number_of(argv[2]) : 0;
    if (argc < 2 || argc > 3 || (argc == 3 && !is_plan && job.processes == 0)) {
        fputs("usage: rows FILES [explain | PROCESSES]\n", stderr);
        gy_flow_end(flow);
        return 2;
    }
    const gy_rows_session_options options = GY_OPTIONS(
        gy_rows_session_options, .job = job.processes > 0 ? &job : NULL, .flow = flow);
    const int failed = answer(&options, argv[1], is_plan);
    gy_flow_end(flow);
    return failed;
}
