/* Goal: queries over small files answer what SQL means, with one worker and with several,
 * within little memory too; what cannot be answered is refused without a partial answer. */
#include "query/plan/plan.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/query.h>

#include <sys/stat.h>

/* ---- Files ---- */

static char folder[] = "/tmp/gyre-query-XXXXXX";

static const struct {
    const char *name, *text;
} files[] = {
    {"t.csv", "a,b,c\n1,10,x\n2,20,y\n3,,x\n4,40,\n,50,\"\"\n"},
    {"u.csv", "a,d\n1,1.5\n1,2.25\n3,-0.5\n9,\n"},
    {"days.csv", "day,at\n2024-01-31,2024-01-31 10:00:00\n2023-12-25,2023-12-25 23:30:00\n"},
    {"Mixed.csv", "Key,value\n1,a\n2,b\n"},
    {"empty.csv", "a,b\n"},
    {"part1.csv", "n,s\n1,one\n2,two\n"},
    {"part2.csv", "n,s\n3.5,three\n"},
    {"late2.csv", "n,m\n1.5,1\n"},
    {"broken.csv", "n,c\n1,\"a\nb,c\"\n2,abc\n3,\"a\n\nb\"\n"},
    {"void1.csv", "n,m,o\n1,,\n"},
    {"void2.csv", "n,m,o\n2.5,30,\n"},
    {"void3.csv", "n,m,o\n3,9,\n"},
    {"other.csv", "n\n1\n2\n"},
    {"bar.csv", "1|2\n3|4\n"},
    {"noted.csv", "# by \"us\"\nn|s\n1|NA\n3|\"NA\"\n"},
    {"tabs.tsv", "n\ts\n1\ta\n"},
    {"ragged.csv", "a,b\n1,2\n3\n"},
};

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static void write_file(const char *name, const char *text)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* A column of integers that ends in a text, behind what is looked at for its type. */
static void write_late(void)
{
    char path[512];
    path_of("late.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("n,m\n", file);
    for (int i = 0; i < 300000; i++) {
        fprintf(file, "%d,1\n", i);
    }
    fputs("x,1\n", file);
    assert_int_equal(fclose(file), 0);
}

static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        write_file(files[i].name, files[i].text);
    }
    write_late();
    return 0;
}

static int remove_files(void **state)
{
    char path[512];
    (void)state;
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        path_of(files[i].name, path);
        unlink(path);
    }
    path_of("late.csv", path);
    unlink(path);
    return rmdir(folder);
}

/* ---- Answers ---- */

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

/* All answers of a text as CSV; a report if it fails. FOLDER stands for the files' folder. */
static gy_status answer_of(const char *sql, const gy_query_options *how, gy_text *out,
                           gy_text *note)
{
    gy_text text = {.data = NULL};
    gy_query *query = NULL;
    for (const char *at = sql; *at != '\0'; at++) {
        if (strncmp(at, "FOLDER", 6) == 0) {
            gy_text_add(&text, "%s", folder);
            at += 5;
        } else {
            gy_text_add(&text, "%c", *at);
        }
    }
    gy_query_options options = *how;
    options.text = gy_text_get(&text);
    options.tables = folder;
    gy_status status = gy_query_new(&options, &query);
    while (status == GY_OK) {
        gy_schema *schema = NULL;
        gy_frame_source rows;
        int count = 0;
        status = gy_query_next(query, &schema, &rows);
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
        if (schema != NULL) {
            gy_text_add(note, "%s", gy_query_note(query));
            rows.close(rows.arg);
            gy_schema_drop(schema);
            status = status == GY_DONE ? GY_OK : status;
        }
    }
    if (status < 0) {
        gy_text_add(out, "%s", gy_query_report(query));
    }
    gy_query_free(query);
    gy_text_free(&text);
    return status;
}

static const struct {
    const char *sql, *answer;
} answered[] = {
#include "query/run/answers_test.def"
};

static void check_answers(const gy_query_options *how)
{
    for (size_t i = 0; i < GY_COUNT(answered); i++) {
        gy_text out = {.data = NULL}, note = {.data = NULL};
        const gy_status status = answer_of(answered[i].sql, how, &out, &note);
        if (status != GY_DONE || strcmp(gy_text_get(&out), answered[i].answer) != 0) {
            fail_msg("%s\nis answered by\n%s\nand not by\n%s", answered[i].sql,
                     gy_text_get(&out), answered[i].answer);
        }
        gy_text_free(&out);
        gy_text_free(&note);
    }
}

GY_TEST(queries_are_answered)
{
    check_answers(&GY_OPTIONS(gy_query_options, .workers = 1));
}

GY_TEST(workers_and_little_memory_change_nothing)
{
    check_answers(&GY_OPTIONS(gy_query_options, .workers = 3, .memory_bytes = 1 << 20,
                              .scratch = folder));
}

static const struct {
    const char *sql;
    gy_status status;
    const char *said; /* part of the report */
} refused[] = {
    {"select (select a from t)", GY_ARG,
     "query:1:8: more than one row returned by a sub-query that is a value"},
    {"select (select d from u where u.a = t.a) from t", GY_ARG,
     "query:1:8: more than one row returned by a sub-query that is a value"},
    {"select case when a > 1 then (select a from t) end from t", GY_ARG,
     "more than one row returned by a sub-query that is a value"},
    {"select case when a = 1 then (select d from u where u.a = t.a) end from t", GY_ARG,
     "more than one row returned by a sub-query that is a value"},
    {"select coalesce(b, (select 1 / (a - a) from u limit 1)) from t", GY_NUMERIC,
     "u.csv:2: division by zero"},
    {"select coalesce(b, (select 7 / (u.a - 3) from u where u.a = t.a)) from t", GY_NUMERIC,
     "division by zero"},
    {"select a / 0 from t", GY_NUMERIC, "division by zero"},
    {"select 10 / (a - 3) from t where a > 1", GY_NUMERIC, "t.csv:4: division by zero: 10 / 0"},
    {"select a from t where c::int > 1", GY_FORMAT, "t.csv:2: invalid input syntax"},
    {"select sum(length(c)) from broken where 1 / (length(c) - 3) < 9", GY_NUMERIC,
     "broken.csv:4: division by zero"},
    {"select * from ragged", GY_FORMAT, "ragged.csv:3: 1 field in a row: expected 2"},
    {"select * from nowhere", GY_NOTFOUND, "there is no table \"nowhere\""},
    {"select * from \"FOLDER/none*.csv\"", GY_NOTFOUND, "no file has such a name"},
    {"select * from read_csv('FOLDER/bar.csv', '|')", GY_ARG, "argument 2 needs a name"},
    {"select * from read_csv('FOLDER/bar.csv', quote => 'x')", GY_ARG, "argument quote"},
    {"select * from read_csv('FOLDER/bar.csv', skip => 1.5)", GY_ARG, "argument skip"},
    {"select * from read_csv('FOLDER/bar.csv', skip => -1)", GY_ARG, "argument skip"},
    {"select * from read_csv('FOLDER/bar.csv', delim => '\\n')", GY_ARG, "argument delim"},
    {"select * from read_csv('FOLDER/bar.csv', nullstr => '1,')", GY_ARG, "a text for null"},
    {"select 1; selct", GY_FORMAT, NULL},
    {"create view v as select q from t", GY_NOTFOUND, "there is no column \"q\""},
    {"create view v as select 1; create view v as select 2", GY_EXISTS,
     "there is a view \"v\" already"},
    {"drop view v", GY_NOTFOUND, "there is no view \"v\""},
    {"select cast(c as int) from t where c = 'x'", GY_FORMAT, NULL},
    {"select (select max(n) from (select count(*) as n from u where u.a = t.a) s) from t",
     GY_UNSUPPORTED, "below an aggregate without groups"},
    {"select (select count(*) from u where u.a = t.a having count(*) = 0) from t",
     GY_UNSUPPORTED, "below an aggregate without groups"},
    {"select exists (select count(*) from u where u.a = t.a) from t", GY_UNSUPPORTED,
     "below an aggregate without groups"},
    {"select a from t where a in (values (b), (3))", GY_UNSUPPORTED, "in VALUES"},
    {"select (select count(*) from u group by t.a) from t", GY_UNSUPPORTED,
     "uses columns from outside"},
    {"select (select sum(t.a) from u) from t", GY_UNSUPPORTED, "uses columns from outside"},
    {"select (select d from u order by t.a limit 1) from t", GY_UNSUPPORTED,
     "uses columns from outside"},
    {"values (interval '1 day')", GY_UNSUPPORTED, "intervals as a column"},
    {"select a in (select a, d from u) from t", GY_FORMAT, "it must give one"},
    {"create view a as select 1 as x; create or replace view a as select x from a; "
     "select x from a",
     GY_LIMIT, "view \"a\" uses itself"},
    {"select * from sum(1)", GY_NOTFOUND,
     "there is no table function sum: read_csv is one; sum gives a value"},
};

GY_TEST(what_cannot_be_answered_is_refused)
{
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        gy_text out = {.data = NULL}, note = {.data = NULL};
        const gy_status status =
            answer_of(refused[i].sql, &GY_OPTIONS(gy_query_options, .workers = 1), &out, &note);
        if (status != refused[i].status ||
            (refused[i].said != NULL && strstr(gy_text_get(&out), refused[i].said) == NULL)) {
            fail_msg("%s\nsays %d: %s", refused[i].sql, status, gy_text_get(&out));
        }
        gy_text_free(&out);
        gy_text_free(&note);
    }
}

GY_TEST(types_fit_all_rows)
{
    gy_text out = {.data = NULL}, note = {.data = NULL};
    assert_int_equal(answer_of("select max(n), count(*), sum(m) from late",
                               &GY_OPTIONS(gy_query_options, .workers = 2), &out, &note),
                     GY_DONE);
    assert_string_equal(gy_text_get(&out), "max,count,sum\nx,300001,300001\n");
    assert_non_null(strstr(gy_text_get(&note), "late.csv:300002: "));
    gy_text_free(&out);
    gy_text_free(&note);
}

GY_TEST(types_fit_all_rows_of_all_files)
{
    gy_text out = {.data = NULL}, note = {.data = NULL};
    assert_int_equal(answer_of("select max(n), count(*) from \"FOLDER/late*.csv\"",
                               &GY_OPTIONS(gy_query_options, .workers = 2), &out, &note),
                     GY_DONE);
    assert_string_equal(gy_text_get(&out), "max,count\nx,300002\n");
    assert_non_null(strstr(gy_text_get(&note), "late.csv:300002: "));
    gy_text_free(&out);
    gy_text_free(&note);
}

/* A column has its first value behind what is looked at for its type. */
static void write_behind_nulls(void)
{
    char path[512];
    path_of("nulls.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("n,m\n", file);
    for (int i = 0; i < 300000; i++) {
        fprintf(file, "%d,\n", i);
    }
    fputs("1,9\n1,10\n", file);
    assert_int_equal(fclose(file), 0);
}

GY_TEST(a_column_without_values_takes_the_type_of_later_ones)
{
    char path[512];
    gy_text out = {.data = NULL}, note = {.data = NULL};
    write_behind_nulls();
    assert_int_equal(answer_of("select max(m) from nulls",
                               &GY_OPTIONS(gy_query_options, .workers = 2), &out, &note),
                     GY_DONE);
    assert_string_equal(gy_text_get(&out), "max\n10\n"); /* as texts 9 is the larger */
    assert_non_null(strstr(gy_text_get(&note), "nulls.csv:300002: 9 in column 'm', which is "));
    gy_text_free(&out);
    gy_text_free(&note);
    /* with one more of another type: what is given then is found of all rows */
    write_file("nulls2.csv", "n,m\n1.5,\n");
    assert_int_equal(answer_of("select max(m), max(n) from \"FOLDER/nulls*.csv\"",
                               &GY_OPTIONS(gy_query_options, .workers = 2), &out, &note),
                     GY_DONE);
    assert_string_equal(gy_text_get(&out), "max,max\n10,299999.0\n");
    gy_text_free(&out);
    gy_text_free(&note);
    path_of("nulls.csv", path);
    assert_int_equal(unlink(path), 0);
    path_of("nulls2.csv", path);
    assert_int_equal(unlink(path), 0);
}

GY_TEST(a_file_that_became_another_is_refused)
{
    gy_query *query = NULL;
    gy_schema *schema = NULL;
    gy_frame_source rows;
    const gy_query_options options = GY_OPTIONS(
        gy_query_options, .text = "select sum(n) from other; select sum(n) from other",
        .tables = folder, .workers = 1);
    assert_int_equal(gy_query_new(&options, &query), GY_OK);
    assert_int_equal(gy_query_next(query, &schema, &rows), GY_OK);
    rows.close(rows.arg);
    gy_schema_drop(schema);
    write_file("other.csv", "n\nx\ny\n");
    assert_int_equal(gy_query_next(query, &schema, &rows), GY_STATE);
    assert_non_null(strstr(gy_query_report(query), "other.csv: the types of its columns"));
    gy_query_free(query);
    write_file("other.csv", "n\n1\n2\n");
}

GY_TEST(few_rows_of_several_files_are_one_frame)
{
    gy_query *query = NULL;
    gy_schema *schema = NULL;
    gy_frame_source rows;
    gy_frame *frame = NULL;
    char text[600];
    snprintf(text, sizeof(text), "select n from \"%s/part*.csv\"", folder);
    const gy_query_options options = GY_OPTIONS(gy_query_options, .text = text, .workers = 1);
    assert_int_equal(gy_query_new(&options, &query), GY_OK);
    assert_int_equal(gy_query_next(query, &schema, &rows), GY_OK);
    assert_int_equal(rows.next(rows.arg, &frame), GY_OK);
    assert_int_equal(gy_frame_rows(frame), 3);
    gy_frame_drop(frame);
    assert_int_equal(rows.next(rows.arg, &frame), GY_DONE);
    rows.close(rows.arg);
    gy_schema_drop(schema);
    gy_query_free(query);
}

GY_TEST(plans_and_statistics_are_told)
{
    gy_query *query = NULL;
    gy_schema *schema = NULL;
    gy_frame_source rows;
    const gy_query_options options =
        GY_OPTIONS(gy_query_options, .text = "select a, count(*) from t group by a",
                   .tables = folder, .workers = 1);
    assert_int_equal(gy_query_new(&options, &query), GY_OK);
    assert_int_equal(gy_query_next(query, &schema, &rows), GY_OK);
    char *plan = gy_query_explain(query), *statistics = gy_query_statistics(query);
    assert_non_null(strstr(plan, "aggregate count(*) by a  (about "));
    assert_non_null(strstr(plan, "  scan t.csv: a  (about "));
    assert_non_null(strstr(statistics, " 5 rows"));
    gy_string_free(plan);
    gy_string_free(statistics);
    rows.close(rows.arg);
    gy_schema_drop(schema);
    assert_int_equal(gy_query_next(query, &schema, &rows), GY_DONE);
    gy_query_free(query);
}

GY_TEST_MAIN(make_files, remove_files)
