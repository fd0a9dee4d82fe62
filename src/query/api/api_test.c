/* Goal: chains of calls answer what they say. */
#include "query/api/kit_test.h"

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

static gy_rows *behind_lines(void)
{
    const gy_rows_read_options options = GY_OPTIONS(gy_rows_read_options, .has_no_header = true,
                                                    .skip_lines = 1, .null_text = "200");
    return gy_rows_select(read_file("log.csv", &options),
                          "count(*) as n, count(column2) as failed");
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
        gy_frame_add_text(builder, &"abcdef"[i], 1);
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

static gy_rows *of_statement(void)
{
    gy_rows *rows =
        gy_rows_sql(session, "with w as (select url, bytes from log where bytes > 5) "
                             "select url, sum(bytes) as s from w group by url;");
    return gy_rows_order_by(rows, "s");
}

static gy_rows *of_values(void)
{
    gy_rows *rows = gy_rows_sql(session, "values (1, 'a'), (2, null)");
    return gy_rows_where(rows, "column1 < 5");
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

static gy_rows *cached_right(void)
{
    return gy_rows_union_all(urls("status = 500"), gy_rows_cache(urls("status = 404")));
}

static const struct {
    gy_rows *(*make)(void);
    const char *answer;
} answered[] = {
    {cached_right, "url\n/a\n/b\n"},
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
    {behind_lines, "n,failed\n6,2\n"},
    {first_behind_all, "n\n0\n"},
    {limited_then_filtered, "bytes\n5\n"},
    {different, "url\n/c\n/b\n/a\n"},
    {all_groups, "n,urls\n6,3\n"},
    {groups_by_name, "class,n\n2,4\n4,1\n5,1\n"},
    {several_lines, "bytes,status\n10,200\n30,200\n"},
    {in_memory, "k,v,unused\n0,a,\n1,b,\n2,c,\n0,d,\n1,e,\n2,f,\n"},
    {frames_grouped, "k,v\n0,d\n1,e\n"},
    {no_frames, "n,k\n0,\n"},
    {of_statement, "url,s\n/b,7\n/a,40\n"},
    {of_values, "column1,column2\n1,a\n2,\n"},
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

static void write_numbers(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* What a cache has is read once, in memory or in a file, also by two sides of a join; one that
 * could not be filled is filled later. */
static void check_cache(uint64_t memory_bytes)
{
    gy_rows_session *own = NULL;
    gy_text out = {.data = NULL};
    char path[512];
    path_of("numbers.csv", path);
    const gy_rows_session_options options = GY_OPTIONS(
        gy_rows_session_options, .workers = 2, .memory_bytes = memory_bytes, .scratch = folder);
    assert_int_equal(gy_rows_session_new(&options, &own), GY_OK);
    write_numbers(path, "n\n3\n0\n");
    gy_rows *some = gy_rows_select(gy_rows_read(own, path, NULL), "6 / n as n");
    gy_rows *sorted = gy_rows_cache(gy_rows_order_by(some, "n"));
    gy_rows *less = gy_rows_take(sorted, 1);
    gy_rows *pairs =
        gy_rows_join(sorted, sorted, GY_JOIN_INNER, "l.n < r.n", "l.n as a, r.n as b");
    char *plan = gy_rows_explain(less);
    assert_non_null(strstr(plan, "scan cache: n"));
    gy_string_free(plan);
    assert_int_equal(answer_of(less, &out), GY_NUMERIC);
    assert_non_null(strstr(gy_text_get(&out), "numbers.csv:3: division by zero"));
    gy_text_free(&out);
    out = (gy_text){.data = NULL};
    write_numbers(path, "n\n3\n2\n");
    assert_int_equal(answer_of(less, &out), GY_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(answer_of(pairs, &out), GY_OK);
    assert_int_equal(answer_of(sorted, &out), GY_OK);
    assert_int_equal(answer_of(some, &out), GY_NOTFOUND);
    assert_int_equal(strncmp(gy_text_get(&out), "n\n2\na,b\n2,3\nn\n2\n3\n", 18), 0);
    gy_text_free(&out);
    gy_rows_session_free(own);
}

GY_TEST(caches_are_filled_once)
{
    check_cache(0);
    check_cache(48); /* a row of two */
    check_cache(1);
}

/* ---- Functions of the program ---- */

static gy_status half(gy_function_call *call, const gy_function_value *arguments,
                      gy_function_value *result)
{
    (void)call;
    result->real = (double)arguments[0].integer / 2;
    return GY_OK;
}

static void begin_product(gy_function_call *call, void *state)
{
    (void)call;
    *(int64_t *)state = 1;
}

static gy_status multiply(gy_function_call *call, void *state,
                          const gy_function_value *arguments)
{
    (void)call;
    *(int64_t *)state *= arguments[0].integer;
    return GY_OK;
}

static gy_status multiply_states(gy_function_call *call, void *state, const void *other)
{
    (void)call;
    *(int64_t *)state *= *(const int64_t *)other;
    return GY_OK;
}

static gy_status end_product(gy_function_call *call, const void *state,
                             gy_function_value *result)
{
    (void)call;
    result->integer = *(const int64_t *)state;
    return GY_OK;
}

GY_TEST(texts_call_functions_of_the_program)
{
    static const gy_field number[] = {{.name = "x", .kind = GY_FIELD_INT64}};
    gy_query_function all[] = {{.name = "half",
                                .version = 1,
                                .parameters = number,
                                .parameter_count = 1,
                                .result = {.kind = GY_FIELD_DOUBLE},
                                .scalar = half},
                               {.name = "product",
                                .version = 1,
                                .parameters = number,
                                .parameter_count = 1,
                                .result = {.kind = GY_FIELD_INT64},
                                .state_bytes = sizeof(int64_t),
                                .initialise = begin_product,
                                .accumulate = multiply,
                                .merge = multiply_states,
                                .finish = end_product}};
    gy_rows_session *own = NULL;
    gy_text out = {.data = NULL};
    const gy_rows_session_options options =
        GY_OPTIONS(gy_rows_session_options, .tables = folder, .workers = 2,
                   .functions = {.items = all, .count = GY_COUNT(all)});
    assert_int_equal(gy_rows_session_new(&options, &own), GY_OK);
    gy_rows *large = gy_rows_where(gy_rows_table(own, "log"), "half(bytes) > 2");
    gy_rows *products = gy_rows_group(large, "url", "url, product(bytes) as p");
    assert_int_equal(answer_of(gy_rows_order_by(products, "url"), &out), GY_OK);
    assert_string_equal(gy_text_get(&out), "url,p\n/a,300\n/b,7\n/c,5\n");
    gy_text_free(&out);
    gy_rows_session_free(own);
    own = NULL;
    all[1].name = "count"; /* as a builtin one */
    assert_int_equal(gy_rows_session_new(&options, &own), GY_ARG);
    assert_null(own);
}

/* Where a guess of types was wrong a note says it, of what a cache was filled with, too. */
GY_TEST(notes_say_where_types_were_wrong)
{
    char path[512];
    path_of("late.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("n\n", file);
    for (int i = 0; i < 300000; i++) {
        fprintf(file, "%d\n", i);
    }
    fputs("x\n", file);
    assert_int_equal(fclose(file), 0);
    for (int has_cache = 0; has_cache < 2; has_cache++) {
        gy_text out = {.data = NULL};
        gy_rows *late = gy_rows_select(gy_rows_table(session, "late"), "max(n) as n");
        gy_rows *rows = gy_rows_select(has_cache ? gy_rows_cache(late) : late, "n");
        assert_int_equal(answer_of(rows, &out), GY_OK);
        assert_string_equal(gy_text_get(&out), "n\nx\n");
        assert_non_null(strstr(gy_rows_note(rows), "late.csv:300002: "));
        gy_text_free(&out);
    }
    assert_int_equal(unlink(path), 0);
}

/* Large frames are taken in pieces by all workers, and come out in their order. */
GY_TEST(frames_are_shared_by_workers)
{
    enum { ROWS = 200000 };
    gy_rows_session *own = NULL;
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frames[3] = {NULL, NULL, NULL};
    gy_text out = {.data = NULL};
    assert_int_equal(gy_schema_parse("k int", &schema), GY_OK);
    assert_int_equal(gy_frame_builder_new(schema, &builder), GY_OK);
    for (int i = 0; i < ROWS; i++) {
        gy_frame_add_int64(builder, i);
        gy_frame_row_end(builder);
    }
    assert_int_equal(gy_frame_finish(builder, &frames[0]), GY_OK);
    assert_int_equal(gy_frame_finish(builder, &frames[1]), GY_OK); /* without rows */
    assert_int_equal(gy_frame_slice(frames[0], 7, 9, &frames[2]), GY_OK);
    assert_int_equal(
        gy_rows_session_new(&GY_OPTIONS(gy_rows_session_options, .workers = 2), &own), GY_OK);
    gy_rows *all = gy_rows_frames(own, schema, frames, 3);
    gy_rows *some = gy_rows_select(gy_rows_where(all, "k % 50000 = 8"), "k + 1 as k");
    assert_int_equal(answer_of(some, &out), GY_OK);
    assert_int_equal(answer_of(gy_rows_select(all, "count(*) as n, sum(k) as s"), &out), GY_OK);
    assert_string_equal(gy_text_get(&out), "k\n9\n50009\n100009\n150009\n9\n"
                                           "n,s\n200002,19999900015\n");
    assert_int_equal(answer_of(gy_rows_select(all, "10 / (k - 150000)"), &out), GY_NUMERIC);
    gy_rows_session_free(own);
    gy_text_free(&out);
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    for (int i = 0; i < 3; i++) {
        gy_frame_drop(frames[i]);
    }
}

GY_TEST_MAIN(begin, end)
