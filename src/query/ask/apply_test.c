/* Goal: functions of rows get each partition whole and in order, and what they emit is what a
 * plain loop makes, with any number of workers, within little memory and as a job. */
#include "query/ask/functions_test.h"

enum { GAP = 40 };

/* ---- Functions ---- */

typedef struct session {
    bool has;
    int64_t who, number, first, last, rows;
} session;

static void add_session(const session *one, gy_frame_builder *builder)
{
    if (one->has) {
        gy_frame_add_int64(builder, one->who);
        gy_frame_add_int64(builder, one->number);
        gy_frame_add_int64(builder, one->first);
        gy_frame_add_int64(builder, one->rows);
        gy_frame_row_end(builder);
    }
}

/* Another row of somebody; times ascend. */
static void take_event(session *at, int64_t who, int64_t time, gy_frame_builder *builder)
{
    if (!at->has || at->who != who || time - at->last > GAP) {
        add_session(at, builder);
        at->number = at->has && at->who == who ? at->number + 1 : 0;
        at->first = time;
        at->rows = 0;
    }
    at->has = true;
    at->who = who;
    at->last = time;
    at->rows++;
}

/* Emit what the builder has; frees it. */
static gy_status emit_all(gy_function_call *call, gy_frame_builder *builder, gy_status status)
{
    gy_frame *frame = NULL;
    status = status == GY_OK || status == GY_DONE ? gy_frame_finish(builder, &frame) : status;
    status = status == GY_OK ? gy_function_emit(call, frame) : status;
    gy_frame_drop(frame);
    gy_frame_builder_free(builder);
    return status;
}

/* Its rows must be of one. */
static gy_status sessions(gy_function_call *call, const gy_frame_source *rows)
{
    session at = {.has = false};
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    gy_status status = gy_frame_builder_new(gy_function_columns(call), &builder);
    while (status == GY_OK && (status = rows->next(rows->arg, &frame)) == GY_OK) {
        const gy_column who = gy_frame_column(frame, 0), time = gy_frame_column(frame, 1);
        for (int64_t i = 0; i < who.rows; i++) {
            if (at.has && at.who != gy_column_int64(&who, i)) {
                status = gy_function_fail(call, "rows of two partitions");
            } else if (at.has && at.last > gy_column_int64(&time, i)) {
                status = gy_function_fail(call, "rows are not in order");
            } else {
                take_event(&at, gy_column_int64(&who, i), gy_column_int64(&time, i), builder);
            }
        }
        gy_frame_drop(frame);
    }
    add_session(&at, builder);
    return emit_all(call, builder, status);
}

/* All rows as they are, if their columns have the names of the parameters. */
static gy_status same(gy_function_call *call, const gy_frame_source *rows)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while ((status = rows->next(rows->arg, &frame)) == GY_OK) {
        status = gy_schema_find(gy_frame_schema(frame), "a") == 0
                     ? gy_function_emit(call, frame)
                     : gy_function_fail(call, "the first column is not a");
        gy_frame_drop(frame);
        if (status != GY_OK) {
            return status;
        }
    }
    return status == GY_DONE ? GY_OK : status;
}

/* The first row alone. */
static gy_status first(gy_function_call *call, const gy_frame_source *rows)
{
    gy_frame *frame = NULL, *one = NULL;
    gy_status status = rows->next(rows->arg, &frame);
    if (status != GY_OK) {
        return status == GY_DONE ? GY_OK : status;
    }
    status = gy_frame_slice(frame, 0, 1, &one);
    gy_frame_drop(frame);
    status = status == GY_OK ? gy_function_emit(call, one) : status;
    gy_frame_drop(one);
    return status;
}

/* Each frame forty times. */
static gy_status often(gy_function_call *call, const gy_frame_source *rows)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while ((status = rows->next(rows->arg, &frame)) == GY_OK) {
        for (int i = 0; i < 40 && status == GY_OK; i++) {
            status = gy_function_emit(call, frame);
        }
        gy_frame_drop(frame);
        if (status != GY_OK) {
            return status;
        }
    }
    return status == GY_DONE ? GY_OK : status;
}

/* How many rows there are, whatever becomes of the input. */
static gy_status count(gy_function_call *call, const gy_frame_source *rows)
{
    int64_t all = 0;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    while (rows->next(rows->arg, &frame) == GY_OK) {
        all += gy_frame_rows(frame);
        gy_frame_drop(frame);
    }
    const gy_status status = gy_frame_builder_new(gy_function_columns(call), &builder);
    if (status == GY_OK) {
        gy_frame_add_int64(builder, all);
        gy_frame_row_end(builder);
    }
    return emit_all(call, builder, status);
}

static gy_status refuse(gy_function_call *call, const gy_frame_source *rows)
{
    gy_frame *frame = NULL;
    const gy_status status = rows->next(rows->arg, &frame);
    if (status != GY_OK) {
        return status;
    }
    const gy_column column = gy_frame_column(frame, 0);
    const int64_t value = gy_column_int64(&column, 0);
    gy_frame_drop(frame);
    return value == 13 ? gy_function_fail(call, "%d brings bad luck", 13) : GY_OK;
}

static const gy_field events[] = {{.name = "who", .kind = GY_FIELD_INT64},
                                  {.name = "at", .kind = GY_FIELD_INT64}};
static const gy_field session_columns[] = {{.name = "who", .kind = GY_FIELD_INT64},
                                           {.name = "number", .kind = GY_FIELD_INT64},
                                           {.name = "first", .kind = GY_FIELD_INT64},
                                           {.name = "rows", .kind = GY_FIELD_INT64}};
static const gy_field all[] = {
    {.name = "a", .kind = GY_FIELD_INT64},
    {.name = "x", .kind = GY_FIELD_DOUBLE},
    {.name = "d", .kind = GY_FIELD_DECIMAL, .precision = 12, .scale = 3},
    {.name = "t", .kind = GY_FIELD_TEXT},
    {.name = "yes", .kind = GY_FIELD_BOOL},
    {.name = "day", .kind = GY_FIELD_DATE},
    {.name = "at", .kind = GY_FIELD_TIMESTAMP}};
static const gy_field number[] = {{.name = "n", .kind = GY_FIELD_INT64}};

#define ROWS(name_, work, in, out)                                                             \
    {                                                                                          \
        .name = name_, .version = 3, .parameters = (in), .parameter_count = (int)GY_COUNT(in), \
        .columns = (out), .column_count = (int)GY_COUNT(out), .apply = (work)                  \
    }

static gy_query_functions functions(void)
{
    static const gy_query_function list[] = {
        ROWS("sessions", sessions, events, session_columns),
        ROWS("same", same, all, all),
        ROWS("first_of", first, events, events),
        ROWS("often", often, events, events),
        ROWS("count_of", count, number, number),
        ROWS("refuse", refuse, number, number),
        ROWS("wrong", often, events, session_columns),
    };
    return (gy_query_functions){.items = list, .count = (int)GY_COUNT(list)};
}

/* ---- Rows ---- */

/* The answer of a statement to a plain loop. */
static void sessions_plainly(gy_text *out)
{
    const gy_query_options options = GY_OPTIONS(
        gy_query_options, .text = "select k, a from t where a is not null order by k, a",
        .tables = folder, .workers = 1);
    gy_query *query = NULL;
    gy_schema *schema = NULL, *columns = NULL;
    gy_frame_source rows;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    session at = {.has = false};
    assert_ok(gy_query_new(&options, &query));
    assert_ok(gy_query_next(query, &schema, &rows));
    assert_ok(gy_schema_new(session_columns, GY_COUNT(session_columns), &columns));
    assert_ok(gy_frame_builder_new(columns, &builder));
    while (rows.next(rows.arg, &frame) == GY_OK) {
        const gy_column who = gy_frame_column(frame, 0), time = gy_frame_column(frame, 1);
        for (int64_t i = 0; i < who.rows; i++) {
            take_event(&at, gy_column_int64(&who, i), gy_column_int64(&time, i), builder);
        }
        gy_frame_drop(frame);
    }
    add_session(&at, builder);
    assert_ok(gy_frame_finish(builder, &frame));
    assert_ok(gy_csv_write(frame, NULL, take_bytes, out));
    gy_frame_drop(frame);
    gy_frame_builder_free(builder);
    gy_schema_drop(columns);
    gy_schema_drop(schema);
    rows.close(rows.arg);
    gy_query_free(query);
}

GY_TEST(partitions_are_whole_and_in_order)
{
    const char *sql =
        "select * from sessions((select k, a from t where a is not null), partition_by => 'k', "
        "order_by => 'a') order by who, number";
    gy_random chance = {.key = gy_test_seed()};
    gy_text out = {.data = NULL}, expected = {.data = NULL};
    write_table("t.csv", &chance, (int)gy_test_cases(20000));
    sessions_plainly(&expected);
    assert_ok(answer_of(sql, &GY_OPTIONS(gy_query_options, .workers = 2), &out));
    if (strcmp(gy_text_get(&out), gy_text_get(&expected)) != 0) {
        fail_msg("sessions are\n%.700s\nand not\n%.700s", gy_text_get(&out),
                 gy_text_get(&expected));
    }
    in_each_way(sql, sql);
    sql =
        "select * from sessions((select k, a from t where a is not null), partition_by => 'k', "
        "order_by => 'a')"; /* by the hash of k, everywhere */
    in_each_way(sql, sql);
    gy_text_free(&out);
    gy_text_free(&expected);
}

GY_TEST(rows_go_in_and_come_out)
{
    static const char *const same_answers[][2] = {
        {"select * from same((select a, x, d, t, yes, day, at from t), partition_by => 't, "
         "yes') order by 1, 2, 3, 4, 5, 6, 7",
         "select a, x::float8 as x, d::decimal(12, 3) as d, t, yes, day, at from t order by "
         "1, 2, 3, 4, 5, 6, 7"},
        {"select * from same((select a, a, a, t, yes, day, day from t)) r(b)",
         "select a as b, a::float8 as x, a::decimal(12, 3) as d, t, yes, day, day::timestamp "
         "as at from t"},
        {"select * from first_of((select k, a from t), partition_by => 'k', order_by => 'a "
         "desc nulls last') where at is not null order by 1",
         "select k as who, max(a) as at from t group by k having max(a) is not null order by "
         "1"},
        {"select f.who, g.n from first_of((select k, 1 from t), partition_by => 'k') f join "
         "(select k, count(*) as n from t group by k) g on g.k = f.who order by 1",
         "select k as who, count(*) as n from t group by k order by 1"},
        {"select count(*) as n, sum(at) as s from often((select k, a from t), partition_by "
         "=> 'k')",
         "select 40 * count(*) as n, 40 * sum(a) as s from t"},
        {"select n from count_of((select a from t))", "select count(*) as n from t"},
        {"select n from count_of((select a from t where a > 5000))", "select 0 as n"},
        {"select n from count_of((select a from t where a > 5000), partition_by => 'a')",
         "select 0 as n from t where a > 5000"},
    };
    gy_random chance = {.key = gy_test_seed() + 1};
    write_table("t.csv", &chance, (int)gy_test_cases(8000));
    for (size_t i = 0; i < GY_COUNT(same_answers); i++) {
        if (gy_test_takes(i)) {
            in_each_way(same_answers[i][0], same_answers[i][1]);
        }
    }
}

/* The answer of rows that a chain of calls describes, or what is wrong with them. */
static gy_status run_rows(gy_rows *rows, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_frame *frame = NULL;
    gy_status status = gy_rows_run(rows, &schema, &source);
    if (status != GY_OK) {
        gy_text_add(out, "%s", gy_rows_report(rows));
        return status;
    }
    while ((status = source.next(source.arg, &frame)) == GY_OK) {
        assert_ok(gy_csv_write(frame, NULL, take_bytes, out));
        gy_frame_drop(frame);
    }
    source.close(source.arg);
    gy_schema_drop(schema);
    return status;
}

GY_TEST(operators_in_c_apply_functions)
{
    const gy_rows_session_options options = GY_OPTIONS(
        gy_rows_session_options, .tables = folder, .workers = 2, .functions = functions());
    const char *sql = "select sum(first) as s, count(*) as n, max(number) as m from "
                      "sessions((select k, a from t where a > 0), partition_by => 'k', "
                      "order_by => 'a')";
    gy_random chance = {.key = gy_test_seed() + 5};
    gy_rows_session *with = NULL;
    gy_text out = {.data = NULL}, expected = {.data = NULL}, report = {.data = NULL};
    write_table("t.csv", &chance, 3000);
    assert_ok(gy_rows_session_new(&options, &with));
    gy_rows *rows = gy_rows_select(gy_rows_where(gy_rows_table(with, "t"), "a > 0"), "k, a");
    gy_rows *made = gy_rows_apply(rows, "sessions", "k", "a");
    made = gy_rows_select(made, "sum(first) as s, count(*) as n, max(number) as m");
    assert_int_equal(run_rows(made, &out), GY_DONE);
    assert_ok(answer_of(sql, &GY_OPTIONS(gy_query_options, .workers = 1), &expected));
    assert_string_equal(gy_text_get(&out), gy_text_get(&expected));
    assert_int_equal(run_rows(gy_rows_apply(rows, "sessions", "b", NULL), &report),
                     GY_NOTFOUND);
    assert_int_equal(run_rows(gy_rows_apply(rows, "nobody", NULL, NULL), &report), GY_NOTFOUND);
    assert_int_equal(run_rows(gy_rows_apply(rows, "sessions", "k", "a +"), &report), GY_FORMAT);
    if (strstr(gy_text_get(&report), "there is no column \"b\"") == NULL ||
        strstr(gy_text_get(&report), "no table function nobody") == NULL ||
        strstr(gy_text_get(&report), "sessions: order_by takes names of columns") == NULL) {
        fail_msg("%s", gy_text_get(&report));
    }
    gy_rows_session_free(with);
    gy_text_free(&out);
    gy_text_free(&expected);
    gy_text_free(&report);
}

/* As a job partitions come to parts by the hash of their keys; without keys to one vertex. */
GY_TEST(partitions_are_divided)
{
    static const struct {
        const char *sql, *stage;
    } plans[] = {
        {"select * from sessions((select k, a from t), partition_by => 'k', order_by => 'a')",
         "3 parts by the hash of k"},
        {"select * from sessions((select k, a from t), order_by => 'k, a desc')",
         "apply sessions(k, a) order by k, a desc"},
    };
    gy_random chance = {.key = gy_test_seed() + 4};
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = 3);
    write_table("t.csv", &chance, 100);
    for (size_t i = 0; i < GY_COUNT(plans); i++) {
        const gy_query_options planning = GY_OPTIONS(
            gy_query_options, .text = plans[i].sql, .tables = folder, .functions = functions(),
            .is_planning = true, .job = &job, .split_bytes = 1024);
        gy_query *query = NULL;
        gy_text out = {.data = NULL};
        assert_ok(gy_query_new(&planning, &query));
        assert_ok(take_rows(query, &out));
        char *plan = gy_query_explain(query);
        assert_non_null(plan);
        if (strstr(plan, plans[i].stage) == NULL) {
            fail_msg("no '%s' in\n%s", plans[i].stage, plan);
        }
        gy_string_free(plan);
        gy_query_free(query);
        gy_text_free(&out);
    }
}

/* Neither the rows of a partition nor what is made of them fit in memory. */
GY_TEST(rows_are_spilled)
{
    const gy_query_options little = GY_OPTIONS(
        gy_query_options, .workers = 1, .memory_bytes = 1 << 20, .tables = folder,
        .functions = functions(),
        .text = "select count(*) from often((select k, a from t), partition_by => 'k')");
    gy_random chance = {.key = gy_test_seed() + 2};
    gy_query *query = NULL;
    gy_text out = {.data = NULL};
    write_table("t.csv", &chance, 60000);
    assert_ok(gy_query_new(&little, &query));
    assert_ok(take_rows(query, &out));
    assert_string_equal(gy_text_get(&out), "count\n2400000\n");
    char *statistics = gy_query_statistics(query);
    const char *node = strstr(statistics, "apply often(k, a) partition by k\n"), *line = node;
    assert_non_null(node);
    while (line > statistics && line[-1] != '\n') {
        line--;
    }
    const char *none = strstr(line, " in 0 ");
    if (none != NULL && none < node) {
        fail_msg("nothing was spilled:\n%s", statistics);
    }
    gy_string_free(statistics);
    gy_query_free(query);
    gy_text_free(&out);
}

/* ---- What is wrong ---- */

GY_TEST(functions_of_rows_that_fail_are_refused)
{
    static const refusal refused[] = {
        {"select refuse(1)", GY_FORMAT,
         "query:1:8: function refuse gives rows: it stands in FROM"},
        {"select * from refuse((select a from luck), partition_by => 'a')", GY_ARG,
         "query: function refuse: 13 brings bad luck"},
        {"select * from wrong((select a, b from luck))", GY_ARG,
         "function wrong: it gives a frame of other columns than it declares"},
        {"select * from count_of((select 1 / (a - 13) from luck))", GY_NUMERIC,
         "luck.csv:3: division by zero"},
        {"select * from count_of((select a, b from luck))", GY_TYPE,
         "query:1:15: function count_of(int64, int64) does not exist: there is "
         "count_of(int64)"},
        {"select * from count_of((select 'x' from luck))", GY_FORMAT, "int64"},
        {"select * from count_of((select 1.5 from luck))", GY_TYPE, "there is count_of(int64)"},
        {"select * from count_of((select nobody from luck))", GY_NOTFOUND, "query:1:32: "},
        {"select * from count_of()", GY_FORMAT, "count_of takes a sub-query in parentheses"},
        {"select * from count_of('luck')", GY_FORMAT,
         "count_of takes a sub-query in parentheses"},
        {"select * from count_of((select a from luck), by => 'a')", GY_FORMAT,
         "count_of takes a sub-query in parentheses, partition_by => 'columns'"},
        {"select * from count_of((select a from luck), order_by => 'a', order_by => 'a')",
         GY_FORMAT, "count_of takes a sub-query in parentheses"},
        {"select * from count_of((select a from luck), partition_by => 'b')", GY_NOTFOUND,
         "there is no column \"b\""},
        {"select * from count_of((select a from luck), partition_by => 'a + 1')", GY_FORMAT,
         "count_of: partition_by takes names of columns"},
        {"select * from count_of((select a from luck), partition_by => '')", GY_FORMAT,
         "count_of: partition_by takes names of columns"},
        {"select * from count_of((select a from luck), order_by => 'a limit 1')", GY_FORMAT,
         "count_of: order_by takes names of columns"},
        {"select * from count_off((select a from luck))", GY_NOTFOUND,
         "query:1:15: there is no table function count_off: read_csv is one; is it count_of?"},
    };
    check_refusals(refused, GY_COUNT(refused));
}

GY_TEST(lists_of_functions_of_rows_that_cannot_be_are_refused)
{
    static const gy_field unnamed[] = {{.kind = GY_FIELD_INT64}};
    static const gy_field wrong[] = {{.name = "n", .kind = (gy_field_kind)0}};
    const struct {
        gy_query_function one;
        const char *text;
    } refused[] = {
        {{.name = "none", .apply = count, .parameters = number, .parameter_count = 1},
         "function none gives no columns"},
        {{.name = "none", .apply = count, .columns = number, .column_count = 1},
         "function none has no parameter"},
        {ROWS("none", count, number, unnamed), "function none gives a column without a name"},
        {ROWS("none", count, number, wrong), "function none: "},
        {ROWS("none", count, wrong, number), "function none: "},
        {ROWS("none", NULL, number, number), "function none has nothing to run"},
    };
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        check_refused(
            "select 1", GY_ARG, refused[i].text,
            &GY_OPTIONS(gy_query_options, .functions = {.items = &refused[i].one, .count = 1}));
    }
}

static int tests(void)
{
    return GY_TESTS_RUN(make_folder, remove_folder);
}

int main(int argc, char **argv)
{
    return run_program(argc, argv, tests);
}
