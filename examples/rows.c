/*
 * The five most popular pages of a log, as a query made of calls.
 *
 *     cc rows.c -lgyre -o rows
 *     ./rows 'log/*.csv'             the answer
 *     ./rows 'log/*.csv' explain     how it is computed
 *
 * The files have a header and columns page and status.
 */
#include <gyre/gyre.h>

#include <stdio.h>
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

int main(int argc, char **argv)
{
    gy_rows_session *session = NULL;
    const int is_plan = argc == 3 && strcmp(argv[2], "explain") == 0;
    if (argc != 2 && !is_plan) {
        fputs("usage: rows FILES [explain]\n", stderr);
        return 2;
    }
    gy_status status = gy_rows_session_new(NULL, &session);
    if (status != GY_OK) {
        fprintf(stderr, "rows: %s\n", gy_error_text());
        return 1;
    }
    gy_rows *top = popular(session, argv[1]);
    status = is_plan ? print_plan(top) : print_answer(top);
    if (status != GY_OK) {
        fputs(gy_rows_report(top), stderr);
    }
    gy_rows_session_free(session); /* and all rows */
    return status != GY_OK;
}
