/* Goal: plans are cut where rows have to come together, and a stage's text says the same for
 * the same work, is read to a stage, and is refused where it is anything else. */
#include "query/dag/dag.h"

#include "base/random.h"

#include "gy_test.h"

/* ---- Tables ---- */

static struct {
    const char *name, *columns;
    double rows;
    gy_query_table table;
} tables[] = {
    {"t", "a int, b int, c text, x double", 1e6, {.name = "t"}},
    {"u", "a int, d decimal(5, 2)", 100, {.name = "u"}},
    {"v", "a int, e date", 2e6, {.name = "v"}},
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

/* ---- Cuts ---- */

typedef struct case_of {
    gy_sql_report report;
    gy_sql_source source;
    gy_sql_script script;
    gy_query_plan plan;
    gy_query_stages stages;
} case_of;

static void begin(case_of *of, const char *sql, uint32_t parts)
{
    const gy_query_catalog catalog = {.find = find};
    const gy_query_cut_options how = {
        .parts = parts, .broadcast_bytes = 1 << 20, .has_decisions = true};
    of->report = (gy_sql_report){.status = GY_OK};
    of->source = (gy_sql_source){
        .path = "query", .text = sql, .size = strlen(sql), .report = &of->report};
    assert_int_equal(gy_sql_read(&of->source, &of->script), GY_OK);
    if (gy_query_plan_make(&of->source, of->script.statements[0].select, &catalog, NULL,
                           &of->plan) != GY_OK) {
        fail_msg("%s", of->report.text);
    }
    assert_int_equal(gy_query_cut(&of->plan, &how, &of->stages), GY_OK);
}

static void end(case_of *of)
{
    gy_query_stages_fini(&of->stages);
    gy_query_plan_fini(&of->plan);
    gy_sql_script_fini(&of->script);
}

/* Without what is guessed. */
static void print_stages(const case_of *of, char *out, size_t size)
{
    gy_text text = {.data = NULL};
    gy_query_stages_print(&of->stages, &text);
    size_t to = 0;
    for (const char *at = gy_text_get(&text); *at != '\0' && to + 1 < size; at++) {
        if (strncmp(at, "  (about ", 9) == 0) {
            at = strchr(at, '\n');
        }
        out[to++] = *at;
    }
    out[to] = '\0';
    gy_text_free(&text);
}

static const struct {
    const char *sql, *stages;
} cuts[] = {
#include "query/dag/cuts_test.def"
};

GY_TEST(plans_are_cut_where_rows_come_together)
{
    static char said[8192];
    for (size_t i = 0; i < GY_COUNT(cuts); i++) {
        case_of of;
        begin(&of, cuts[i].sql, 4);
        print_stages(&of, said, sizeof(said));
        if (strcmp(said, cuts[i].stages) != 0) {
            fail_msg("%s\nis cut as\n%s\nand not as\n%s", cuts[i].sql, said, cuts[i].stages);
        }
        end(&of);
    }
}

/* ---- Sizes ---- */

static void write_stage(const gy_query_stages *stages, uint32_t stage, gy_text *text)
{
    const gy_query_reading reading = {
        .columns = "a int", .delimiter = '|', .is_part = true, .null_text = "N A"};
    gy_query_fragment_write(stages, stages->items[stage], &reading, text);
    assert_int_equal(text->status, GY_OK);
}

/* A join of some size goes one way; what ran before that was known is the same work. */
static void check_size(const case_of *of, double size, bool is_broadcast)
{
    enum { NODES_MAX = 64 };
    double sizes[NODES_MAX];
    const gy_query_cut_options how = {
        .parts = 4, .broadcast_bytes = 1 << 20, .has_decisions = true, .sizes = sizes};
    gy_query_stages cut;
    assert_true(of->plan.node_count <= NODES_MAX);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        sizes[i] = size;
    }
    assert_int_equal(gy_query_cut(&of->plan, &how, &cut), GY_OK);
    assert_int_equal(cut.decision_count, of->stages.decision_count);
    uint32_t first = 0;
    for (; first < of->stages.count && of->stages.items[first]->is_first; first++) {
        gy_text a = {.data = NULL}, b = {.data = NULL};
        assert_true(cut.items[first]->is_first);
        write_stage(&of->stages, first, &a);
        write_stage(&cut, first, &b);
        assert_string_equal(gy_text_get(&a), gy_text_get(&b));
        gy_text_free(&a);
        gy_text_free(&b);
    }
    assert_true(first > 0 && first < cut.count && !cut.items[first]->is_first);
    for (uint32_t i = 0; i < cut.decision_count; i++) {
        assert_int_equal(cut.decisions[i].is_broadcast, is_broadcast);
        assert_true(cut.decisions[i].bytes == size);
        for (uint32_t k = 0; k < cut.decisions[i].stage_count; k++) {
            assert_true(cut.decisions[i].stages[k] < first);
            assert_int_equal(cut.items[cut.decisions[i].stages[k]]->sink.parts, 1);
        }
    }
    gy_query_stages_fini(&cut);
}

static const struct {
    const char *sql;
    uint32_t decisions;
} joins[] = {
    {"select t.c from t join v on t.a = v.a where v.e > '2024-05-01'", 1},
    {"select t.c from t join v on t.a = v.a where t.b = 1 and t.x = 2.5", 1},
    /* a join within a side is decided by its guess */
    {"select t.c from t join (select v.a, count(*) as n from v join t w on v.a = w.b where w.x "
     "> 1 "
     "group by 1) z on t.a = z.a",
     1},
    {"select t.c from v join t on t.a = v.a and t.x > 1 join t w on w.b = v.a and w.x > 2 "
     "order by t.c",
     2},
    {"select count(*) from v where a in (select b from t where x < 3) union all "
     "select count(*) from v left join (select * from t where x > 0) z on z.a = v.a",
     2},
};

GY_TEST(sizes_decide_joins_and_change_nothing_that_ran)
{
    for (size_t i = 0; i < GY_COUNT(joins); i++) {
        case_of of;
        begin(&of, joins[i].sql, 4);
        if (of.stages.decision_count != joins[i].decisions) {
            fail_msg("%s has %u decisions", joins[i].sql, of.stages.decision_count);
        }
        check_size(&of, 1 << 20, true);
        check_size(&of, (1 << 20) + 1, false);
        check_size(&of, 0, true);
        end(&of);
    }
}

/* What cannot be large, has no keys or gives rows of its own waits for no size. */
GY_TEST(joins_that_sizes_cannot_decide_have_no_decision)
{
    static const char *const plain[] = {
        "select t.c from t join u on t.a = u.a",
        "select t.c from t full join v on t.a = v.a",
        "select t.c from t join v on t.a < v.a",
        "select a from t where a not in (select a from v)",
        "select t.c from t join (values (1), (2)) z(a) on t.a = z.a",
        "select c from t where b = (select max(a) from v)",
        "select t.c from t join (select a from v order by a limit 9) z on t.a = z.a",
        "select t.c from t join (select a, count(*) as n from u group by a) z on t.a = z.a"};
    for (size_t i = 0; i < GY_COUNT(plain); i++) {
        case_of of;
        begin(&of, plain[i], 4);
        assert_int_equal(of.stages.decision_count, 0);
        end(&of);
    }
    case_of one;
    begin(&one, joins[0].sql, 1);
    assert_int_equal(one.stages.decision_count, 0);
    end(&one);
}

/* ---- Texts ---- */

static const char *const same[][2] = {
    {"select c, sum(b + 1) from t where a > 5 group by c",
     "select   h.c as other, sum(h.b+1) as s\nfrom t as h where (h.a > 5) group by 1"},
    {"select t.a from t join u on t.a = u.a where d < 2.5",
     "with w as (select * from u where d < 2.5) select t.a from t join w on w.a = t.a"},
    {"select distinct c from t order by c desc limit 3",
     "select distinct c as z from t order by 1 desc limit 3"},
};

GY_TEST(the_same_work_has_the_same_text)
{
    for (size_t i = 0; i < GY_COUNT(same); i++) {
        case_of left, right;
        begin(&left, same[i][0], 4);
        begin(&right, same[i][1], 4);
        assert_int_equal(left.stages.count, right.stages.count);
        for (uint32_t k = 0; k < left.stages.count; k++) {
            gy_text a = {.data = NULL}, b = {.data = NULL};
            write_stage(&left.stages, k, &a);
            write_stage(&right.stages, k, &b);
            assert_string_equal(gy_text_get(&a), gy_text_get(&b));
            gy_text_free(&a);
            gy_text_free(&b);
        }
        end(&left);
        end(&right);
    }
}

/* A text that lost a byte, or has another one, is a stage or refused. */
static void break_text(const gy_text *text, gy_random *chance)
{
    gy_query_fragment read;
    assert_int_equal(gy_query_fragment_read(text->data, text->size_bytes, &read), GY_OK);
    assert_int_equal(read.reading.delimiter, '|');
    assert_true(read.reading.is_part && !read.reading.is_found);
    assert_string_equal(read.reading.null_text, "N A");
    gy_query_fragment_fini(&read);
    for (size_t size = 0; size < text->size_bytes; size++) {
        assert_int_equal(gy_query_fragment_read(text->data, size, &read), GY_FORMAT);
    }
    char *other = gy_alloc("test", text->size_bytes);
    assert_non_null(other);
    for (int i = 0; i < 500; i++) {
        memcpy(other, text->data, text->size_bytes);
        other[gy_random_below(chance, text->size_bytes)] =
            "0123456789- x"[gy_random_below(chance, 13)];
        if (gy_query_fragment_read(other, text->size_bytes, &read) == GY_OK) {
            gy_query_fragment_fini(&read);
        }
    }
    gy_free(other);
}

GY_TEST(texts_that_are_no_stage_are_refused)
{
    gy_random chance = {.key = gy_test_seed()};
    for (size_t i = 0; i < GY_COUNT(cuts); i++) {
        case_of of;
        begin(&of, cuts[i].sql, 4);
        for (uint32_t k = 0; k < of.stages.count; k++) {
            gy_text text = {.data = NULL};
            write_stage(&of.stages, k, &text);
            break_text(&text, &chance);
            gy_text_free(&text);
        }
        end(&of);
    }
}

GY_TEST_MAIN(make_tables, drop_tables)
