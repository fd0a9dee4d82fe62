/* Goal: queries become the plans that they mean, conditions and columns at the readers; what is
 * wrong is refused at its place, with the nearest name. */
#include "query/plan/plan.h"

#include <malloc.h>

#include "gy_test.h"

/* ---- Tables ---- */

static struct {
    const char *name, *columns;
    double rows;
    gy_query_table table;
} tables[] = {
    {"t", "a int, b int, c text", 1000, {.name = "t"}},
    {"u", "a int, d double", 100, {.name = "u"}},
    {"v", "e int, \"F\" text, \"f g\" decimal(5, 2)", 10, {.name = "v"}},
    {"w", "x date, \"X\" int", 10, {.name = "w"}},
};

static gy_status find(void *arg, const gy_sql_from *from, const gy_query_table **table)
{
    (void)arg;
    for (size_t i = 0; i < GY_COUNT(tables); i++) {
        if (from->kind == GY_SQL_TABLE && strcmp(tables[i].name, from->name.text) == 0) {
            *table = &tables[i].table;
            return GY_OK;
        }
    }
    return gy_fail(GY_NOTFOUND, "there is no table \"%s\"", from->name.text);
}

static int make_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(tables); i++) {
        assert_int_equal(gy_schema_parse(tables[i].columns, &tables[i].table.schema), GY_OK);
        tables[i].table.rows = tables[i].rows;
        tables[i].table.bytes = 8 * tables[i].rows;
    }
    return 0;
}

static int drop_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(tables); i++) {
        gy_schema_drop(tables[i].table.schema);
    }
    return 0;
}

/* ---- Plans ---- */

static gy_sql_report report;
static size_t held_bytes; /* by the last plan and all else */

/* Bytes of the heap in use; of sanitizers' heaps 0. */
static size_t held(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* The plan's text without guesses, or the first line of what was refused. */
static gy_status plan_of(const char *sql, char *out, size_t size)
{
    const gy_query_catalog catalog = {.find = find};
    report = (gy_sql_report){.status = GY_OK};
    const gy_sql_source source = {
        .path = "query", .text = sql, .size = strlen(sql), .report = &report};
    gy_sql_script script;
    gy_query_plan plan;
    gy_text text = {.data = NULL};
    gy_status status = gy_sql_read(&source, &script);
    assert_int_equal(status, GY_OK);
    assert_int_equal(script.count, 1);
    status = gy_query_plan_make(&source, script.statements[0].select, &catalog, NULL, &plan);
    held_bytes = held();
    if (status == GY_OK) {
        gy_query_plan_print(&plan, &text);
        size_t to = 0;
        for (const char *at = gy_text_get(&text); *at != '\0' && to + 1 < size; at++) {
            if (strncmp(at, "  (about ", 9) == 0) {
                at = strchr(at, '\n');
            }
            out[to++] = *at;
        }
        out[to] = '\0';
        gy_query_plan_fini(&plan);
    } else {
        snprintf(out, size, "%.*s", (int)strcspn(report.text, "\n"), report.text);
    }
    gy_text_free(&text);
    gy_sql_script_fini(&script);
    return status;
}

static const struct {
    const char *sql, *plan;
} planned[] = {
#include "query/plan/plans_test.def"
};

GY_TEST(queries_become_plans)
{
    static char plan[8192];
    for (size_t i = 0; i < GY_COUNT(planned); i++) {
        const gy_status status = plan_of(planned[i].sql, plan, sizeof(plan));
        if (status != GY_OK || strcmp(plan, planned[i].plan) != 0) {
            fail_msg("%s\nis planned as\n%s\nand not as\n%s", planned[i].sql, plan,
                     planned[i].plan);
        }
    }
}

static const struct {
    const char *sql;
    gy_status status;
    const char *said;
} refused[] = {
    {"select q from t", GY_NOTFOUND, "query:1:8: there is no column \"q\""},
    {"select bb from t where a = 1", GY_NOTFOUND,
     "query:1:8: there is no column \"bb\"; the nearest name is \"b\""},
    {"select t.a from t as s", GY_NOTFOUND, "query:1:8: there is no table \"t\" here"},
    {"select a from nowhere", GY_NOTFOUND, "query:1:15: there is no table \"nowhere\""},
    {"select a from t, u", GY_ARG,
     "query:1:8: column \"a\" is ambiguous: 2 columns have this name"},
    {"select * from t, t", GY_ARG,
     "query:1:18: table name \"t\" is there twice: give one an alias"},
    {"select a, count(*) from t group by b", GY_FORMAT,
     "query:1:8: column \"a\" must appear in the GROUP BY clause or be used in an aggregate "
     "function"},
    {"select a from t where count(*) > 1", GY_FORMAT,
     "query:1:23: aggregate functions are not allowed in WHERE"},
    {"select sum(count(*)) from t", GY_FORMAT,
     "query:1:12: aggregate functions are not allowed in an aggregate's argument"},
    {"select sum(c) from t", GY_TYPE, "query:1:8: there is no sum of text"},
    {"select a from t order by 2", GY_FORMAT,
     "query:1:26: position 2 is not in the select list, which has 1 columns"},
    {"select a from t limit -1", GY_ARG, "query:1:23: LIMIT must not be negative"},
    {"select a from t limit true", GY_TYPE, "query:1:23: LIMIT must be an integer"},
    {"select a from t limit 'x'", GY_FORMAT,
     "query:1:23: invalid input syntax for type int64: \"x\""},
    {"select distinct a from t order by b", GY_FORMAT,
     "query:1:35: for SELECT DISTINCT, ORDER BY expressions must appear in the select list"},
    {"select a, b from t union select a from u", GY_FORMAT,
     "query:1:33: the sides of a set operation have 2 and 1 columns"},
    {"select a from t union select c from t", GY_TYPE,
     "query:1:30: column 1 is int64 on one side and text on the other"},
    {"select (select a, b from t)", GY_FORMAT,
     "query:1:8: this sub-query gives 2 columns; it must give one"},
    {"select * from t where (select max(d) from u where u.a < t.a) > 1", GY_UNSUPPORTED,
     "query:1:23: not supported: a sub-query that uses columns from outside below an "
     "aggregate, but for equalities"},
    {"select 1 from t where a", GY_TYPE, NULL},
    {"select a = c from t", GY_TYPE, NULL},
    {"select * from (select a from t) as s(x, y)", GY_FORMAT,
     "query:1:23: 2 names for a table of 1 columns"},
    {"select nofunction(a) from t", GY_NOTFOUND, NULL},
    {"select sun(a) from t", GY_NOTFOUND,
     "query:1:8: function sun(int64) does not exist: is it sum?"},
    {"select * from t join u using (d)", GY_NOTFOUND, NULL},
    {"select *", GY_FORMAT, "query:1:8: * without a table"},
    {"select b from t where \"Berlin\" = c", GY_NOTFOUND,
     "query:1:23: there is no column \"Berlin\"; a text stands in single quotes"},
    {"select b from t where a > now()", GY_UNSUPPORTED,
     "query:1:27: not supported: now, which differs from run to run: write a constant"},
    {"select coun(*) from t", GY_NOTFOUND,
     "query:1:8: function coun() does not exist: is it count?"},
    {"select a from t group by a, 'a'", GY_FORMAT,
     "query:1:29: non-integer constant in GROUP BY"},
    {"select a from t order by null", GY_FORMAT,
     "query:1:26: non-integer constant in ORDER BY"},
    /* what WITH names and nobody uses */
    {"with s as (select a = c from t), r as (select 1) select * from r", GY_TYPE,
     "query:1:21: operator does not exist: int64 = text"},
    {"with s(x, y) as (select a from t) select 1", GY_FORMAT,
     "query:1:6: 2 names for a table of 1 columns"},
    {"with s as (select a from t), s as (select 1) select * from s", GY_EXISTS,
     "query:1:30: WITH has the name \"s\" twice"},
};

/* Views of which each stands twice in the next one have no end. */
GY_TEST(views_that_double_are_refused)
{
    char said[2048];
    gy_text sql = {.data = NULL};
    gy_text_add(&sql, "with v0 as (select a from t)");
    for (int i = 1; i < 64; i++) {
        gy_text_add(&sql, ", v%d as (select x.a from v%d as x join v%d as y on x.a = y.a)", i,
                    i - 1, i - 1);
    }
    gy_text_add(&sql, " select a from v63");
    assert_int_equal(plan_of(gy_text_get(&sql), said, sizeof(said)), GY_LIMIT);
    assert_non_null(strstr(said, "each use of a view plans it once more"));
    gy_text_free(&sql);
}

/* What is long and flat takes memory by its length, not by its square. */
GY_TEST(long_conditions_take_little_memory)
{
    static char plan[8192];
    for (int is_case = 0; is_case < 2; is_case++) {
        gy_text sql = {.data = NULL};
        gy_text_add(&sql, is_case ? "select case" : "select a from t where a > 0");
        for (int i = 0; i < 6000; i++) {
            gy_text_add(&sql, is_case ? " when a = %d then %d" : " and a <> %d", i, i);
        }
        gy_text_add(&sql, is_case ? " end from t" : "");
        const size_t before = held();
        assert_ok(plan_of(gy_text_get(&sql), plan, sizeof(plan)));
        assert_true(held_bytes < before + (60 << 20));
        gy_text_free(&sql);
    }
}

GY_TEST(what_is_wrong_is_refused_at_its_place)
{
    char said[2048];
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        const gy_status status = plan_of(refused[i].sql, said, sizeof(said));
        if (status != refused[i].status ||
            (refused[i].said != NULL && strcmp(said, refused[i].said) != 0)) {
            fail_msg("%s\nsays %d: %s", refused[i].sql, status, said);
        }
        assert_non_null(strchr(report.text, '^'));
    }
}

GY_TEST_MAIN(make_tables, drop_tables)
