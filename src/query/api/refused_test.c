/* Goal: whatever is wrong in a chain of calls is reported by its run, with the call's name, its
 * place in the text and a caret. */
#include "query/api/kit_test.h"

/* ---- Errors ---- */

static gy_rows *unknown_column(void)
{
    return gy_rows_take(gy_rows_where(gy_rows_take(log_rows(), 5), "  statsu = 200"), 1);
}

static gy_rows *second_line(void)
{
    return gy_rows_select(log_rows(), "url,\n  lenght(url)");
}

static gy_rows *no_sql(void)
{
    return gy_rows_select(gy_rows_where(log_rows(), "status = = 200"), "url");
}

static gy_rows *no_condition(void)
{
    return gy_rows_where(log_rows(), "bytes + 1");
}

static gy_rows *two_conditions(void)
{
    return gy_rows_where(log_rows(), "true, false");
}

static gy_rows *more_than_a_condition(void)
{
    return gy_rows_where(log_rows(), "true group by url");
}

static gy_rows *another_table(void)
{
    return gy_rows_select(log_rows(), "url from pages");
}

static gy_rows *a_statement(void)
{
    return gy_rows_where(log_rows(), "true; select 1");
}

static gy_rows *not_grouped(void)
{
    return gy_rows_group(log_rows(), "url", "url, status");
}

static gy_rows *aggregate_in_where(void)
{
    return gy_rows_where(log_rows(), "count(*) > 1");
}

static gy_rows *types_differ(void)
{
    return gy_rows_where(log_rows(), "url > 3");
}

static gy_rows *order_unknown(void)
{
    return gy_rows_top(log_rows(), "hits desc", 3);
}

static gy_rows *hidden_column(void)
{
    return gy_rows_order_by(gy_rows_select(log_rows(), "url"), "url, status");
}

static gy_rows *ambiguous(void)
{
    return gy_rows_where(gy_rows_select(log_rows(), "url, url || 'x' as url"), "url = 'a'");
}

static gy_rows *negative(void)
{
    return gy_rows_limit(log_rows(), -3, 0);
}

static gy_rows *empty_text(void)
{
    return gy_rows_where(log_rows(), "");
}

static gy_rows *null_text(void)
{
    return gy_rows_group(log_rows(), "url", NULL);
}

static gy_rows *no_table(void)
{
    return gy_rows_table(session, "nothing");
}

static gy_rows *no_file(void)
{
    return gy_rows_select(gy_rows_read(session, "/nowhere/*.csv", NULL), "1 as one");
}

static gy_rows *wrong_options(void)
{
    const gy_rows_read_options options =
        GY_OPTIONS(gy_rows_read_options, .columns = "a nothing");
    return read_file("bar.csv", &options);
}

static gy_rows *other_frames(void)
{
    gy_schema *schemas[2] = {NULL, NULL};
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_int_equal(gy_schema_parse("k int", &schemas[0]), GY_OK);
    assert_int_equal(gy_schema_parse("k text", &schemas[1]), GY_OK);
    assert_int_equal(gy_frame_builder_new(schemas[0], &builder), GY_OK);
    assert_int_equal(gy_frame_finish(builder, &frame), GY_OK);
    gy_rows *rows = gy_rows_frames(session, schemas[1], &frame, 1);
    gy_frame_builder_free(builder);
    gy_frame_drop(frame);
    gy_schema_drop(schemas[0]);
    gy_schema_drop(schemas[1]);
    return rows;
}

static gy_rows *wrong_row(void)
{
    return gy_rows_select(gy_rows_table(session, "wrong"), "s, 10 / n as n");
}

static gy_rows *two_statements(void)
{
    return gy_rows_sql(session, "select 1; select 2");
}

static gy_rows *a_view(void)
{
    return gy_rows_sql(session, "create view v as select 1");
}

static gy_rows *wrong_statement(void)
{
    return gy_rows_take(gy_rows_sql(session, "select url\nfrom log\nwhere stat = 1"), 3);
}

static gy_rows *no_utf8(void)
{
    return gy_rows_where(log_rows(), "url = '\xff'");
}

static gy_rows *join_with(const char *on, const char *columns)
{
    return gy_rows_join(log_rows(), gy_rows_table(session, "pages"), GY_JOIN_INNER, on,
                        columns);
}

static gy_rows *both_sides_have_it(void)
{
    return join_with("url = r.url", NULL);
}

static gy_rows *both_sides_give_it(void)
{
    return gy_rows_where(join_with("l.url = r.url", NULL), "status = 200 and url = '/a'");
}

static gy_rows *listed_unknown(void)
{
    return join_with("l.url = r.url", "l.url,\n r.titel");
}

static gy_rows *no_such_side(void)
{
    return join_with("log.url = r.url", NULL);
}

static gy_rows *on_is_no_condition(void)
{
    return join_with("l.bytes", NULL);
}

static gy_rows *more_than_using(void)
{
    return join_with("using (url) join s using (url)", NULL);
}

static gy_rows *using_unknown(void)
{
    return join_with("using (title)", NULL);
}

static gy_rows *semi_lists_right(void)
{
    return gy_rows_join(log_rows(), gy_rows_table(session, "pages"), GY_JOIN_SEMI,
                        "l.url = r.url", "l.url, r.title");
}

static gy_rows *no_on(void)
{
    return gy_rows_join(log_rows(), log_rows(), GY_JOIN_LEFT, NULL, NULL);
}

static gy_rows *no_kind(void)
{
    return gy_rows_join(log_rows(), log_rows(), (gy_join_kind)17, "true", NULL);
}

static gy_rows *other_count(void)
{
    gy_rows *two = gy_rows_select(log_rows(), "url, bytes");
    return gy_rows_where(gy_rows_union(two, urls("true")), "true");
}

static gy_rows *other_types(void)
{
    return gy_rows_except_all(urls("true"), gy_rows_select(log_rows(), "bytes"));
}

static gy_rows *one_side_failed(void)
{
    return gy_rows_join(log_rows(), gy_rows_where(log_rows(), "status ="), GY_JOIN_INNER,
                        "also wrong =", NULL);
}

static const struct {
    gy_rows *(*make)(void);
    gy_status status;
    const char *report; /* its beginning */
} refused[] = {
    {unknown_column, GY_NOTFOUND,
     "gy_rows_where:1:3: there is no column \"statsu\"; the nearest name is \"status\"\n"
     "      statsu = 200\n"
     "      ^\n"},
    {second_line, GY_NOTFOUND, "gy_rows_select:2:3: "},
    {no_sql, GY_FORMAT, "gy_rows_where:1:10: syntax error at or near \"=\"\n"},
    {no_condition, GY_TYPE, "gy_rows_where:1:7: "},
    {two_conditions, GY_FORMAT, "gy_rows_where:1:1: expected one condition\n"},
    {more_than_a_condition, GY_FORMAT, "gy_rows_where:1:1: expected a condition, and nothing"},
    {another_table, GY_FORMAT, "gy_rows_select:1:1: expected a list of columns, and nothing"},
    {a_statement, GY_FORMAT, "gy_rows_where:1:1: expected a condition, and nothing else\n"},
    {not_grouped, GY_FORMAT, "gy_rows_group:1:6: column \"status\""},
    {aggregate_in_where, GY_FORMAT, "gy_rows_where:1:1: aggregate functions are not allowed"},
    {types_differ, GY_TYPE, "gy_rows_where:1:5: "},
    {order_unknown, GY_NOTFOUND, "gy_rows_top:1:1: there is no column \"hits\"\n"},
    {hidden_column, GY_NOTFOUND, "gy_rows_order_by:1:6: there is no column \"status\"\n"},
    {ambiguous, GY_ARG, "gy_rows_where:1:1: column \"url\" is ambiguous: 2 columns"},
    {negative, GY_ARG, "gy_rows_limit: -3 rows: expected 0 or more\n"},
    {empty_text, GY_ARG, "gy_rows_where: no text: expected a condition\n"},
    {null_text, GY_ARG, "gy_rows_group: no text: expected a list of columns\n"},
    {no_table, GY_NOTFOUND, "gy_rows_table:1:1: there is no table \"nothing\": "},
    {no_file, GY_NOTFOUND, "gy_rows_read:1:1: /nowhere/*.csv: no file has such a name\n"},
    {wrong_options, GY_ARG, "gy_rows_read:1:1: "},
    {other_frames, GY_TYPE, "gy_rows_frames: frame 0 has other columns than the schema\n"},
    {wrong_row, GY_NUMERIC, "gy_rows_run: "},
    {both_sides_have_it, GY_ARG, "gy_rows_join:1:1: column \"url\" is ambiguous: 2 columns"},
    {both_sides_give_it, GY_ARG, "gy_rows_where:1:18: column \"url\" is ambiguous: 2 columns"},
    {listed_unknown, GY_NOTFOUND,
     "gy_rows_join:2:2: there is no column \"titel\"; the nearest name is \"title\"\n"},
    {no_such_side, GY_NOTFOUND, "gy_rows_join:1:1: there is no table \"log\" here\n"},
    {on_is_no_condition, GY_TYPE, "gy_rows_join:1:1: "},
    {more_than_using, GY_FORMAT,
     "gy_rows_join:1:1: expected using (columns), and nothing else"},
    {using_unknown, GY_NOTFOUND, "gy_rows_join:1:1: there is no column \"title\""},
    {semi_lists_right, GY_NOTFOUND, "gy_rows_join:1:8: there is no table \"r\" here\n"},
    {no_on, GY_ARG, "gy_rows_join: no text: expected a condition, or using (columns)\n"},
    {no_kind, GY_ARG, "gy_rows_join:1:1: a join of kind 17\n"},
    {other_count, GY_FORMAT,
     "gy_rows_union: the sides of a set operation have 2 and 1 columns\n"},
    {other_types, GY_TYPE, "gy_rows_except_all: column 1 is text on one side and int64 on the"},
    {one_side_failed, GY_FORMAT, "gy_rows_where:1:9: syntax error at end of input\n"},
    {two_statements, GY_FORMAT, "gy_rows_sql:1:1: expected one statement with an answer\n"},
    {a_view, GY_FORMAT, "gy_rows_sql:1:1: expected one statement with an answer\n"},
    {wrong_statement, GY_NOTFOUND,
     "gy_rows_sql:3:7: there is no column \"stat\"\n    where stat = 1\n"},
    {no_utf8, GY_FORMAT, "gy_rows_where:1:8: bytes that are no UTF-8\n"},
};

GY_TEST(what_is_wrong_is_reported_by_the_run)
{
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        gy_text out = {.data = NULL};
        gy_rows *rows = refused[i].make();
        const gy_status status = answer_of(rows, &out);
        const char *wanted = refused[i].report;
        if (status != refused[i].status ||
            strncmp(gy_text_get(&out), wanted, strlen(wanted)) != 0) {
            fail_msg("chain %zu ends with %d and says\n%s\nand not %d\n%s", i, status,
                     gy_text_get(&out), refused[i].status, wanted);
        }
        /* the failure of the thread is said in the report */
        assert_int_equal(
            gy_rows_run(rows, &(gy_schema *){NULL}, &(gy_frame_source){.arg = NULL}), status);
        assert_non_null(strstr(gy_text_get(&out), gy_error_text()));
        assert_null(gy_rows_statistics(rows));
        gy_text_free(&out);
    }
}

GY_TEST(rows_of_two_sessions_do_not_meet)
{
    gy_rows_session *own = NULL;
    gy_text out = {.data = NULL};
    char path[512];
    path_of("log.csv", path);
    assert_int_equal(gy_rows_session_new(NULL, &own), GY_OK);
    gy_rows *other = gy_rows_read(own, path, NULL);
    assert_int_equal(answer_of(gy_rows_union(log_rows(), other), &out), GY_ARG);
    assert_int_equal(
        answer_of(gy_rows_join(other, log_rows(), GY_JOIN_SEMI, "true", NULL), &out), GY_ARG);
    assert_string_equal(gy_text_get(&out), "gy_rows_union: rows of two sessions\n"
                                           "gy_rows_join:1:1: rows of two sessions\n"
                                           "    true\n    ^\n");
    gy_text_free(&out);
    gy_rows_session_free(own);
}

/* Without memory a call gives rows that say so; those that had it are right. */
GY_TEST(calls_without_memory_are_reported)
{
    const int64_t live = gy_alloc_live();
    int failures = 0;
    for (int64_t n = 1; n < 200; n++) {
        gy_rows_session *own = NULL;
        gy_text out = {.data = NULL};
        char path[512];
        path_of("log.csv", path);
        gy_alloc_fail_after(n);
        gy_status status = gy_rows_session_new(NULL, &own);
        if (status == GY_OK) {
            gy_rows *log =
                gy_rows_where(gy_rows_read(own, path, NULL), "bytes > 5 or url ~ 'x'");
            gy_rows *rows =
                gy_rows_join(log, log, GY_JOIN_SEMI, "using (url)", "bytes, 'a' as a");
            rows = gy_rows_top(gy_rows_cache(gy_rows_distinct(rows)), "bytes", 1);
            gy_alloc_fail_after(0);
            status = answer_of(rows, &out);
            assert_string_equal(gy_text_get(&out),
                                status == GY_OK
                                    ? "bytes,a\n7,a\n"
                                    : "gy_rows: there was no memory for the rows of a query\n");
        }
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        failures += status == GY_NOMEM;
        gy_text_free(&out);
        gy_rows_session_free(own);
        assert_int_equal(gy_alloc_live(), live);
    }
    assert_true(failures > 5 && failures < 199);
}

GY_TEST(sessions_refuse_what_they_cannot_do)
{
    gy_rows_session *own = NULL;
    assert_int_equal(
        gy_rows_session_new(&GY_OPTIONS(gy_rows_session_options, .workers = -1), &own), GY_ARG);
    assert_int_equal(
        gy_rows_session_new(&GY_OPTIONS(gy_rows_session_options, .split_bytes = 100), &own),
        GY_ARG);
    assert_null(own);
    gy_rows_session_free(NULL);
    assert_int_equal(gy_rows_session_new(NULL, &own), GY_OK);
    gy_text out = {.data = NULL};
    assert_int_equal(answer_of(gy_rows_table(own, "log"), &out), GY_NOTFOUND);
    assert_string_equal(
        gy_text_get(&out),
        "gy_rows_table:1:1: there is no table \"log\": the session has no folder "
        "of tables\n    log\n    ^\n");
    gy_text_free(&out);
    gy_rows_session_free(own);
}

GY_TEST_MAIN(begin, end)
