/* Goal: chains of calls answer what they say; whatever is wrong in one is reported by the run,
 * with the call's name, its place in the text and a caret. */
#include "base/base.h"
#include "base/text.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/rows.h>

#include <sys/stat.h>

/* ---- Files ---- */

static char folder[] = "/tmp/gyre-rows-XXXXXX";
static gy_rows_session *session;

static const struct {
    const char *name, *text;
} files[] = {
    {"log.csv",
     "url,status,bytes\n/a,200,10\n/b,404,\n/a,200,30\n/c,200,5\n/b,200,7\n/a,500,1\n"},
    {"pages.csv", "url,title\n/a,Home\n/b,News\n/d,Lost\n"},
    {"log2.csv", "url,status,bytes\n/d,200,2\n"},
    {"bar.csv", "1|2\n3|4\n"},
    {"wrong.csv", "n,s\n1,a\n0,b\n"},
};

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static int begin(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        char path[512];
        path_of(files[i].name, path);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(files[i].text, 1, strlen(files[i].text), file),
                         strlen(files[i].text));
        assert_int_equal(fclose(file), 0);
    }
    const gy_rows_session_options options =
        GY_OPTIONS(gy_rows_session_options, .tables = folder, .workers = 1);
    return gy_rows_session_new(&options, &session);
}

static int end(void **state)
{
    (void)state;
    gy_rows_session_free(session);
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        char path[512];
        path_of(files[i].name, path);
        unlink(path);
    }
    return rmdir(folder);
}

/* ---- Answers ---- */

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

static gy_status print_all(const gy_frame_source *source, gy_text *out)
{
    for (int count = 0;; count++) {
        gy_frame *frame = NULL;
        const gy_csv_write_options lines =
            GY_OPTIONS(gy_csv_write_options, .has_no_header = count > 0);
        gy_status status = source->next(source->arg, &frame);
        if (status != GY_OK) {
            return status == GY_DONE ? GY_OK : status;
        }
        status = gy_csv_write(frame, &lines, take_bytes, out);
        gy_frame_drop(frame);
        GY_TRY(status);
    }
}

/* The answer as CSV, or the report. */
static gy_status answer_of(gy_rows *rows, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_status status = gy_rows_run(rows, &schema, &source);
    if (status != GY_OK) {
        gy_text_add(out, "%s", gy_rows_report(rows));
        return status;
    }
    status = print_all(&source, out);
    source.close(source.arg);
    gy_schema_drop(schema);
    return status;
}

static gy_rows *log_rows(void)
{
    return gy_rows_table(session, "log");
}

static gy_rows *read_file(const char *name, const gy_rows_read_options *options)
{
    char path[512];
    path_of(name, path);
    return gy_rows_read(session, path, options);
}

static gy_rows *popular(void)
{
    gy_rows *good = gy_rows_where(log_rows(), "status = 200");
    gy_rows *pages = gy_rows_group(good, "url", "url, count(*) as hits, sum(bytes) as bytes");
    return gy_rows_top(pages, "hits desc, url", 2);
}

static gy_rows *all_logs(void)
{
    return gy_rows_select(read_file("log*.csv", NULL), "count(*) as n, max(bytes) as most");
}

static gy_rows *bars(void)
{
    const gy_rows_read_options options =
        GY_OPTIONS(gy_rows_read_options, .delimiter = '|', .has_no_header = true,
                   .columns = "a int, b text");
    return gy_rows_select(read_file("bar.csv", &options), "a + 1 as a, b || '!' as b");
}

static gy_rows *ordered(void)
{
    return gy_rows_select(gy_rows_order_by(log_rows(), "bytes desc nulls last, url"),
                          "url as u, bytes");
}

static gy_rows *filtered_order(void)
{
    return gy_rows_where(gy_rows_order_by(gy_rows_select(log_rows(), "bytes"), "1"),
                         "bytes % 10 <> 0");
}

/* Limits of limits; the order is the first one's. */
static gy_rows *windows(void)
{
    gy_rows *sorted = gy_rows_order_by(gy_rows_select(log_rows(), "bytes"), "bytes");
    return gy_rows_skip(gy_rows_limit(gy_rows_skip(sorted, 1), 3, 0), 1);
}

static gy_rows *few(void)
{
    return gy_rows_take(gy_rows_take(gy_rows_select(log_rows(), "url"), 2), 9);
}

static gy_rows *first_behind_all(void)
{
    gy_rows *none = gy_rows_skip(gy_rows_take(log_rows(), 2), 5);
    return gy_rows_select(none, "count(*) as n");
}

static gy_rows *limited_then_filtered(void)
{
    gy_rows *two = gy_rows_top(gy_rows_select(log_rows(), "bytes"), "bytes", 2);
    return gy_rows_where(two, "bytes > 1");
}

static gy_rows *different(void)
{
    gy_rows *urls = gy_rows_distinct(gy_rows_select(log_rows(), "url"));
    return gy_rows_order_by(urls, "url desc");
}

static gy_rows *all_groups(void)
{
    return gy_rows_group(log_rows(), NULL, "count(*) as n, count(distinct url) as urls");
}

static gy_rows *groups_by_name(void)
{
    return gy_rows_order_by(
        gy_rows_group(log_rows(), "class", "status / 100 as class, count(*) as n"), "class");
}

static gy_rows *several_lines(void)
{
    return gy_rows_where(gy_rows_select(log_rows(), "bytes -- of the body\n, status"),
                         "status = 200 -- good\n and bytes > 7");
}

static gy_rows *in_memory(void)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frames[2] = {NULL, NULL};
    assert_int_equal(gy_schema_parse("k int, v text, unused double", &schema), GY_OK);
    assert_int_equal(gy_frame_builder_new(schema, &builder), GY_OK);
    for (int i = 0; i < 6; i++) {
        gy_frame_add_int64(builder, i % 3);
        gy_frame_add_text(builder, "abcdef" + i, 1);
        gy_frame_add_null(builder);
        gy_frame_row_end(builder);
        if (i % 3 == 2) {
            assert_int_equal(gy_frame_finish(builder, &frames[i / 3]), GY_OK);
        }
    }
    gy_rows *rows = gy_rows_frames(session, schema, frames, 2);
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    gy_frame_drop(frames[0]);
    gy_frame_drop(frames[1]);
    return rows;
}

static gy_rows *frames_grouped(void)
{
    gy_rows *later = gy_rows_where(in_memory(), "v > 'a' and k < 2");
    return gy_rows_order_by(gy_rows_group(later, "k", "k, max(v) as v"), "k");
}

static gy_rows *no_frames(void)
{
    gy_schema *schema = NULL;
    assert_int_equal(gy_schema_parse("k int", &schema), GY_OK);
    gy_rows *rows = gy_rows_frames(session, schema, NULL, 0);
    gy_schema_drop(schema);
    return gy_rows_select(rows, "count(*) as n, sum(k) as k");
}

/* ---- Two inputs ---- */

static gy_rows *urls(const char *condition)
{
    return gy_rows_select(gy_rows_where(log_rows(), condition), "url");
}

static gy_rows *joined(gy_join_kind kind, const char *on, const char *columns)
{
    gy_rows *hits = gy_rows_group(log_rows(), "url", "url, count(*) as hits");
    gy_rows *both = gy_rows_join(hits, gy_rows_table(session, "pages"), kind, on, columns);
    return gy_rows_order_by(both, "1, 2");
}

static gy_rows *inner(void)
{
    return joined(GY_JOIN_INNER, "l.url = r.url", "title, hits");
}

static gy_rows *inner_all_columns(void)
{
    return joined(GY_JOIN_INNER, "l.url = r.url", NULL);
}

static gy_rows *left_join(void)
{
    return joined(GY_JOIN_LEFT, "l.url = r.url and hits > 1", "l.url, r.title");
}

static gy_rows *right_join(void)
{
    return joined(GY_JOIN_RIGHT, "l.url = r.url", "r.url, hits");
}

static gy_rows *full_join(void)
{
    return joined(GY_JOIN_FULL, " USING (url)", NULL);
}

static gy_rows *semi_join(void)
{
    return joined(GY_JOIN_SEMI, "l.url = r.url", NULL);
}

static gy_rows *anti_join(void)
{
    return joined(GY_JOIN_ANTI, "using (url)", "url, hits * 10 as tens");
}

static gy_rows *all_pairs(void)
{
    return gy_rows_select(joined(GY_JOIN_INNER, NULL, "title, hits"), "count(*) as n");
}

/* Rows that stand in three calls; the limits of a side are its own. */
static gy_rows *with_itself(void)
{
    gy_rows *two = gy_rows_top(gy_rows_select(log_rows(), "bytes"), "bytes desc nulls last", 2);
    gy_rows *more = gy_rows_join(two, two, GY_JOIN_INNER, "l.bytes < r.bytes",
                                 "l.bytes as less, r.bytes as more");
    return gy_rows_union_all(more, gy_rows_select(two, "bytes, -bytes"));
}

static gy_rows *in_either(void)
{
    return gy_rows_order_by(
        gy_rows_union(urls("status = 200"),
                      gy_rows_select(gy_rows_table(session, "pages"), "url as page")),
        "url");
}

static gy_rows *in_both(void)
{
    return gy_rows_intersect(urls("status = 200"), urls("status = 500"));
}

static gy_rows *often_in_both(void)
{
    return gy_rows_intersect_all(urls("true"), urls("url = '/a'"));
}

static gy_rows *not_in_the_other(void)
{
    return gy_rows_except(urls("true"), urls("status >= 400"));
}

static gy_rows *rest(void)
{
    return gy_rows_order_by(gy_rows_except_all(urls("true"), urls("status >= 400")), "url");
}

static gy_rows *common_type(void)
{
    return gy_rows_union_all(gy_rows_select(gy_rows_take(log_rows(), 1), "bytes"),
                             gy_rows_select(gy_rows_take(log_rows(), 1), "2.5"));
}

static const struct {
    gy_rows *(*make)(void);
    const char *answer;
} answered[] = {
    {inner, "title,hits\nHome,3\nNews,2\n"},
    {inner_all_columns, "url,hits,url,title\n/a,3,/a,Home\n/b,2,/b,News\n"},
    {left_join, "url,title\n/a,Home\n/b,News\n/c,\n"},
    {right_join, "url,hits\n/a,3\n/b,2\n/d,\n"},
    {full_join, "url,hits,title\n/a,3,Home\n/b,2,News\n/c,1,\n/d,,Lost\n"},
    {semi_join, "url,hits\n/a,3\n/b,2\n"},
    {anti_join, "url,tens\n/c,10\n"},
    {all_pairs, "n\n9\n"},
    {with_itself, "less,more\n10,30\n30,-30\n10,-10\n"},
    {in_either, "url\n/a\n/b\n/c\n/d\n"},
    {in_both, "url\n/a\n"},
    {often_in_both, "url\n/a\n/a\n/a\n"},
    {not_in_the_other, "url\n/c\n"},
    {rest, "url\n/a\n/a\n/b\n/c\n"},
    {common_type, "bytes\n10.0\n2.5\n"},
    {popular, "url,hits,bytes\n/a,2,40\n/b,1,7\n"},
    {all_logs, "n,most\n7,30\n"},
    {bars, "a,b\n2,2!\n4,4!\n"},
    {ordered, "u,bytes\n/a,30\n/a,10\n/b,7\n/c,5\n/a,1\n/b,\n"},
    {filtered_order, "bytes\n1\n5\n7\n"},
    {windows, "bytes\n7\n10\n"},
    {few, "url\n/a\n/b\n"},
    {first_behind_all, "n\n0\n"},
    {limited_then_filtered, "bytes\n5\n"},
    {different, "url\n/c\n/b\n/a\n"},
    {all_groups, "n,urls\n6,3\n"},
    {groups_by_name, "class,n\n2,4\n4,1\n5,1\n"},
    {several_lines, "bytes,status\n10,200\n30,200\n"},
    {in_memory, "k,v,unused\n0,a,\n1,b,\n2,c,\n0,d,\n1,e,\n2,f,\n"},
    {frames_grouped, "k,v\n0,d\n1,e\n"},
    {no_frames, "n,k\n0,\n"},
};

GY_TEST(chains_are_answered)
{
    for (size_t i = 0; i < GY_COUNT(answered); i++) {
        gy_text out = {.data = NULL};
        gy_rows *rows = answered[i].make();
        for (int again = 0; again < 2; again++) { /* rows may run again */
            gy_text_free(&out);
            out = (gy_text){.data = NULL};
            const gy_status status = answer_of(rows, &out);
            if (status != GY_OK || strcmp(gy_text_get(&out), answered[i].answer) != 0) {
                fail_msg("chain %zu is answered %d\n%s\nand not\n%s", i, status,
                         gy_text_get(&out), answered[i].answer);
            }
        }
        gy_text_free(&out);
    }
}

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
        assert_int_equal(gy_rows_run(rows, &(gy_schema *){NULL}, &(gy_frame_source){NULL}),
                         status);
        assert_non_null(strstr(gy_text_get(&out), gy_error_text()));
        assert_null(gy_rows_statistics(rows));
        gy_text_free(&out);
    }
}

/* ---- What is told ---- */

GY_TEST(schemas_plans_and_statistics_are_told)
{
    gy_text out = {.data = NULL};
    gy_schema *schema = NULL;
    gy_rows *rows = popular();
    assert_int_equal(gy_rows_schema(rows, &schema), GY_OK);
    assert_int_equal(gy_schema_count(schema), 3);
    assert_string_equal(gy_schema_field(schema, 1)->name, "hits");
    gy_schema_drop(schema);
    assert_null(gy_rows_statistics(rows)); /* it did not run */
    char *plan = gy_rows_explain(rows);
    assert_non_null(strstr(plan, "aggregate count(*), sum(bytes) by url"));
    assert_non_null(strstr(plan, "filter (status = 200)"));
    gy_string_free(plan);
    assert_int_equal(answer_of(rows, &out), GY_OK);
    char *statistics = gy_rows_statistics(rows);
    assert_non_null(strstr(statistics, " 2 rows"));
    gy_string_free(statistics);
    plan = gy_rows_explain(rows);
    assert_non_null(strstr(plan, "scan log.csv"));
    gy_string_free(plan);
    assert_string_equal(gy_rows_report(rows), "");
    assert_string_equal(gy_rows_note(rows), "");
    gy_text_free(&out);
}

/* A long chain is planned; one that is longer than it may be is refused, and so are rows that
 * double with each call. */
GY_TEST(chains_have_a_bound)
{
    gy_text out = {.data = NULL};
    gy_rows *rows = gy_rows_select(log_rows(), "bytes");
    for (int i = 2; i < GY_ROWS_OPERATORS_MAX; i++) {
        rows = gy_rows_where(rows, "bytes > 7");
    }
    assert_int_equal(answer_of(rows, &out), GY_OK);
    assert_string_equal(gy_text_get(&out), "bytes\n10\n30\n");
    gy_text_free(&out);
    out = (gy_text){.data = NULL};
    rows = gy_rows_where(rows, "true");
    assert_int_equal(answer_of(gy_rows_where(rows, "true"), &out), GY_LIMIT);
    assert_non_null(
        strstr(gy_text_get(&out), "gy_rows_where:1:1: rows of more than 1000 oper"));
    gy_text_free(&out);
}

/* An answer outlives what it was made with, also where it waits in a file. */
GY_TEST(answers_outlive_their_session)
{
    gy_rows_session *own = NULL;
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_text out = {.data = NULL};
    char path[512];
    path_of("log.csv", path);
    const gy_rows_session_options options = GY_OPTIONS(gy_rows_session_options, .workers = 2,
                                                       .memory_bytes = 64, .scratch = folder);
    assert_int_equal(gy_rows_session_new(&options, &own), GY_OK);
    gy_rows *rows =
        gy_rows_order_by(gy_rows_select(gy_rows_read(own, path, NULL), "bytes"), "1");
    assert_int_equal(gy_rows_run(rows, &schema, &source), GY_OK);
    gy_rows_session_free(own);
    assert_int_equal(print_all(&source, &out), GY_OK);
    assert_string_equal(gy_text_get(&out), "bytes\n1\n5\n7\n10\n30\n\n");
    source.close(source.arg);
    gy_schema_drop(schema);
    gy_text_free(&out);
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
            rows = gy_rows_top(gy_rows_distinct(rows), "bytes", 1);
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
