/* Goal: SQL becomes the tree that it means, the tree's text reads to the same tree, and what is
 * no SQL, not run, too large or too deep is refused at its place. */
#include "query/sql/sql.h"

#include "gy_test.h"

static gy_sql_report report;

static gy_status read_text(const char *text, size_t size, gy_sql_script *script)
{
    report = (gy_sql_report){.status = GY_OK};
    const gy_sql_source source = {
        .path = "query", .text = text, .size = size, .report = &report};
    return gy_sql_read(&source, script);
}

/* The statement's text; gy_text_free. */
static gy_text printed(const char *sql)
{
    gy_sql_script script;
    gy_text text = {.data = NULL};
    const gy_status status = read_text(sql, strlen(sql), &script);
    if (status != GY_OK) {
        fail_msg("%s: %s", sql, gy_error_text());
    }
    assert_int_equal(script.count, 1);
    gy_sql_print(&script.statements[0], &text);
    gy_sql_script_fini(&script);
    return text;
}

/* What is asked, and how it is understood. */
static const struct {
    const char *sql, *tree;
} understood[] = {
    {"SELECT a, B AS \"B c\" FROM t", "select a, b as \"B c\" from t"},
    {"select 1 + 2 * 3 - -4", "select ((1 + (2 * 3)) - (-4))"},
    {"select not a or b and c", "select ((not a) or (b and c))"},
    {"select a from \"log/*.csv\" where status = 200",
     "select a from \"log/*.csv\" where (status = 200)"},
    {"select count(*), count(distinct x), sum(y) from t group by 1, z having count(*) > 2",
     "select \"count\"(*), \"count\"(distinct x), \"sum\"(y) from t group by 1, z having "
     "(\"count\"(*) > 2)"},
    {"select * from a, b join c on a.x = c.x left join d using (y, z)",
     "select * from (a cross join ((b join c on (\"a\".x = \"c\".x)) left join d using (y, "
     "z)))"},
    {"select t.* from (select 1) as t(x)", "select \"t\".* from (select 1) as t(x)"},
    {"select * from read_csv('f', delim => '|', header => false) r",
     "select * from \"read_csv\"('f', \"delim\" => '|', \"header\" => false) as r"},
    {"select case x when 1 then 'a' else 'b' end, case when x is null then 0 end from t",
     "select case when (x = 1) then 'a' else 'b' end, case when (x is null) then 0 end from "
     "t"},
    {"select x::decimal(15, 2), cast(y as int), date '1998-12-01', 'a''b'",
     "select cast(x as pg_catalog.numeric(15, 2)), cast(y as pg_catalog.int4), "
     "cast('1998-12-01' as pg_catalog.date), 'a''b'"},
    {"select a in (1, 2), b not in (3), c between 1 and 2, d not like 'x%' escape '!', e ilike "
     "'y' from t",
     "select (a in (1, 2)), (b not in (3)), (c between 1 and 2), (d not like 'x%' escape '!'), "
     "(e ilike 'y') from t"},
    {"select exists (select 1), (select 2), a in (select b from c), a > all (select 1) from t",
     "select (exists (select 1)), ((select 2)), (a in (select b from c)), (a > all (select 1)) "
     "from t"},
    {"with v(x) as (select 1) select x from v order by x desc nulls last, 1 limit 3 offset 2",
     "with v(x) as (select 1) select x from v order by x desc nulls last, 1 limit 3 offset 2"},
    {"select 1 union all select 2 except select 3 order by 1",
     "((select 1) union all (select 2)) except (select 3) order by 1"},
    {"values (1, 'a'), (2, null)", "values (1, 'a'), (2, null)"},
    {"create or replace view v(a) as select 1", "create or replace view v(a) as select 1"},
    {"drop view if exists v", "drop view if exists v"},
    {"select extract(year from d), substring(s from 2 for 3), a || b, a <> 'x', s ~ '^a' from "
     "t",
     "select \"extract\"('year', d), \"substring\"(s, 2, 3), (a || b), (a <> 'x'), (s ~ '^a') "
     "from t"},
    {"select a is not distinct from b, a is not true, nullif(a, 1), coalesce(a, b, 0), "
     "greatest(a, 1) from t",
     "select (a is not distinct from b), (a is not true), nullif(a, 1), coalesce(a, b, 0), "
     "greatest(a, 1) from t"},
    {"select 99999999999999999999.5, 1e3, 9223372036854775807, 0, false, true, null",
     "select 99999999999999999999.5, 1e3, 9223372036854775807, 0, false, true, null"},
    {"select distinct a from t", "select distinct a from t"},
    {"select count(*) filter (where a > 1), sum(distinct b) filter (where c) from t",
     "select \"count\"(case when (a > 1) then 1 end), \"sum\"(distinct case when c then b end) "
     "from t"},
    {"select year from t as month", "select year from t as month"},
};

GY_TEST(trees_are_understood_and_read_again)
{
    for (size_t i = 0; i < GY_COUNT(understood); i++) {
        gy_text tree = printed(understood[i].sql);
        assert_string_equal(gy_text_get(&tree), understood[i].tree);
        gy_text again = printed(gy_text_get(&tree));
        assert_string_equal(gy_text_get(&again), gy_text_get(&tree));
        gy_text_free(&tree);
        gy_text_free(&again);
    }
}

/* Names beyond the 63 bytes at which the parser cuts them. */
GY_TEST(long_names_are_whole)
{
    enum { LONG = 200 };
    char name[LONG + 1], sql[2 * LONG + 100];
    for (int i = 0; i < LONG; i++) {
        name[i] = (char)('a' + i % 26);
    }
    name[LONG] = '\0';
    snprintf(sql, sizeof(sql), "select %s from t", name);
    gy_text tree = printed(sql);
    assert_string_equal(gy_text_get(&tree), sql);
    gy_text_free(&tree);
    snprintf(sql, sizeof(sql), "select %s, %.*sX from t", name, LONG - 1, name);
    gy_sql_script script;
    assert_int_equal(read_text(sql, strlen(sql), &script), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(),
                           "query:1:210: not supported: names that differ only "
                           "behind their first 63 bytes"));
    gy_sql_script_fini(&script);
}

static const struct {
    const char *sql;
    gy_status status;
    const char *said; /* the first line of the report */
} refused[] = {
    {"select a from 'a.csv'", GY_FORMAT,
     "query:1:15: syntax error at or near \"'a.csv'\" (write a file's name in double "
     "quotes)\n"},
    {"select a from t join log/a.csv", GY_FORMAT,
     "query:1:25: syntax error at or near \"/\" (write a file's name in double quotes)\n"},
    {"from 'a'", GY_FORMAT, "query:1:1: syntax error at or near \"from\"\n"},
    {"select 1 afrom 'a'", GY_FORMAT, "query:1:16: syntax error at or near \"'a'\"\n"},
    {"explain select 1", GY_UNSUPPORTED,
     "query:1:1: not supported: explain (the option --explain does it)\n"},
    {"select median(a) filter (where a > 1)", GY_UNSUPPORTED,
     "query:1:8: not supported: filter, but of avg, bool_and, bool_or, count, every, max, min "
     "and sum of one value\n"},
    {"select a frm t", GY_FORMAT, "query:1:14: syntax error at or near \"t\"\n"},
    {"select\n  'a", GY_FORMAT, "query:2:3: unterminated quoted string at or near \"'a\"\n"},
    {"insert into t values (1)", GY_UNSUPPORTED, "query:1:1: not supported: insert\n"},
    {" select sum(a) over () from t", GY_UNSUPPORTED,
     "query:1:9: not supported: window functions\n"},
    {"select a from s.t", GY_UNSUPPORTED,
     "query:1:15: not supported: names of schemas (write a file's name in double quotes)\n"},
    {"select $1", GY_UNSUPPORTED, "query:1:8: not supported: parameters\n"},
    {"select (1, 2) = (3, 4)", GY_UNSUPPORTED, "query:1:8: not supported: row values\n"},
    {"select array[1]", GY_UNSUPPORTED, "query:1:8: not supported: arrays\n"},
    {"select now(), current_date", GY_UNSUPPORTED,
     "query:1:15: not supported: what depends on the time of the run or on its user\n"},
    {"select a from t for update", GY_UNSUPPORTED, "query:1:1: not supported: for update\n"},
    {"with recursive r as (select 1) select 1", GY_UNSUPPORTED,
     "query:1:1: not supported: with recursive\n"},
    {"values (1), (2, 3)", GY_FORMAT,
     "query:1:14: VALUES lists must all be the same length: 1 and 2\n"},
    {"select '\xc3\xa9', a b c", GY_FORMAT, "query:1:18: syntax error at or near \"c\"\n"},
    {"select 1; drop table t", GY_UNSUPPORTED,
     "query:1:11: not supported: drop, but of one view\n"},
};

GY_TEST(what_is_not_run_is_named)
{
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        gy_sql_script script;
        assert_int_equal(read_text(refused[i].sql, strlen(refused[i].sql), &script),
                         refused[i].status);
        char first[300];
        snprintf(first, sizeof(first), "%.*s",
                 (int)(strchr(report.text, '\n') - report.text + 1), report.text);
        assert_string_equal(first, refused[i].said);
        gy_sql_script_fini(&script);
    }
}

/* A text of `count` pieces between `before` and `after`; the caller frees it. */
static char *repeated(const char *before, const char *piece, size_t count, const char *after)
{
    const size_t size = strlen(before) + strlen(piece) * count + strlen(after) + 1;
    char *text = gy_alloc("test", size);
    assert_non_null(text);
    memcpy(text, before, strlen(before));
    char *at = text + strlen(before);
    for (size_t i = 0; i < count; i++) {
        memcpy(at, piece, strlen(piece));
        at += strlen(piece);
    }
    memcpy(at, after, strlen(after) + 1);
    return text;
}

static void expect_limit(char *text, gy_status status, const char *said)
{
    gy_sql_script script;
    const gy_status found = read_text(text, strlen(text), &script);
    if (found != status || strstr(report.text, said) == NULL) {
        fail_msg("%d, not %d: %s", found, status, report.text);
    }
    gy_sql_script_fini(&script);
    gy_free(text);
}

GY_TEST(depth_and_size_are_bounded)
{
    expect_limit(repeated("select ", "(", 100000, "1"), GY_LIMIT,
                 "more than 1000 brackets in one another");
    expect_limit(repeated("select 1", " + 1", 64000, ""), GY_LIMIT,
                 "an expression of more than 25000 words and signs");
    expect_limit(repeated("select 1", " + (1)", 64000, ""), GY_LIMIT, "words and signs");
    expect_limit(repeated("select 1", " + 1", 11000, ""), GY_LIMIT,
                 "an expression of more than 10000 levels");
    expect_limit(repeated("select 1", " + 1", 9000, ""), GY_OK, "");
    expect_limit(repeated("select 1 = 0", " or 1 = 2", 20000, ""), GY_OK, "");
    expect_limit(repeated("select 1 in (1", ", 2", 100000, ")"), GY_OK, "");
    expect_limit(repeated("select 1", " is null", 12000, ""), GY_LIMIT, "levels");
    expect_limit(repeated("select 1", " union select 1, 2", 11000, ""), GY_LIMIT,
                 "a query of more than 10000 levels");
    expect_limit(repeated("select ", "not ", 20000, "true"), GY_FORMAT, "memory exhausted");
    expect_limit(repeated("select 1", ", 1", 200000, ""), GY_LIMIT, "expected at most 262144");
    expect_limit(repeated("select '", "0123456789", 1 << 20, "'"), GY_LIMIT,
                 "expected at most 8388608");
}

GY_TEST(bytes_that_are_no_text_are_refused)
{
    static const char text[] = "select 1\0, 2";
    gy_sql_script script;
    assert_int_equal(read_text(text, sizeof(text) - 1, &script), GY_FORMAT);
    assert_non_null(strstr(report.text, "query:1:9: a byte 0 in the text"));
    gy_sql_script_fini(&script);
    static const char other[] = "select \"a\xcdnlect\"";
    assert_int_equal(read_text(other, sizeof(other) - 1, &script), GY_FORMAT);
    assert_non_null(strstr(report.text, "query:1:10: bytes that are no UTF-8"));
    gy_sql_script_fini(&script);
    assert_int_equal(read_text("", 0, &script), GY_OK);
    assert_int_equal(script.count, 0);
    gy_sql_script_fini(&script);
}

GY_TEST(expressions_are_read_alone)
{
    gy_sql_script script;
    gy_sql_node *node = NULL;
    report = (gy_sql_report){.status = GY_OK};
    gy_sql_source source = {
        .path = "where", .text = "status = 200", .size = 12, .report = &report};
    gy_text text = {.data = NULL};
    assert_ok(gy_sql_read_expression(&source, &script, &node));
    gy_sql_print_node(node, &text);
    assert_string_equal(gy_text_get(&text), "(status = 200)");
    assert_int_equal(node->place, 7); /* of the operator */
    gy_text_free(&text);
    gy_sql_script_fini(&script);
    static const char *const wrong[] = {"a, b", "a from t",    "a as b",
                                        "",     "1; select 2", "a limit 1"};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        report = (gy_sql_report){.status = GY_OK};
        source.text = wrong[i];
        source.size = strlen(wrong[i]);
        assert_int_equal(gy_sql_read_expression(&source, &script, &node), GY_FORMAT);
        assert_non_null(strstr(report.text, "where:1:1: expected one expression"));
        gy_sql_script_fini(&script);
    }
    report = (gy_sql_report){.status = GY_OK};
    source.text = "a + * b";
    source.size = 7;
    assert_int_equal(gy_sql_read_expression(&source, &script, &node), GY_FORMAT);
    assert_non_null(strstr(report.text,
                           "where:1:5: syntax error at or near \"*\"\n    a + * b\n        ^"));
    gy_sql_script_fini(&script);
}

GY_TEST_MAIN(NULL, NULL)
