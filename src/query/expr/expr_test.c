/* Goal: an expression has PostgreSQL's type and value, whatever the rows, nulls and slices it
 * is evaluated over, and what has no value says so. */
#include "query/expr/expr.h"

#include "gy_test.h"

static gy_sql_report report;

/* A text with what it becomes. */
typedef struct reading {
    gy_sql_script script;
    gy_arena arena;
    gy_sql_source source;
    const gy_expr *expr;
} reading;

static gy_status find_column(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type)
{
    const gy_frame *frame = arg;
    *index = frame != NULL ? gy_schema_find(gy_frame_schema(frame), node->text) : -1;
    if (*index < 0) {
        return GY_ARG;
    }
    const gy_field *field = gy_schema_field(gy_frame_schema(frame), *index);
    *type = (gy_expr_type){.kind = field->kind,
                           .precision = field->precision,
                           .scale = field->scale,
                           .is_nullable = true};
    return GY_OK;
}

static gy_status bind(reading *at, const char *text, gy_frame *frame)
{
    gy_sql_node *node = NULL;
    report = (gy_sql_report){.status = GY_OK};
    *at = (reading){
        .source = {.path = "query", .text = text, .size = strlen(text), .report = &report}};
    const gy_expr_scope scope = {
        .source = &at->source, .arena = &at->arena, .column = find_column, .arg = frame};
    GY_TRY(gy_sql_read_expression(&at->source, &at->script, &node));
    return gy_expr_bind(&scope, node, &at->expr);
}

static void fini(reading *at)
{
    gy_arena_free(&at->arena);
    gy_sql_script_fini(&at->script);
}

/* The values of the expression, as the one column of a frame. */
static gy_status evaluate(const reading *at, const gy_frame *frame, gy_frame **out)
{
    const gy_field field = gy_expr_field(at->expr, "x");
    gy_schema *schema = NULL;
    GY_TRY(gy_schema_new(&field, 1, &schema));
    const gy_status status = gy_expr_project(&at->expr, 1, schema, frame, out);
    gy_schema_drop(schema);
    return status;
}

static void write_value(const gy_frame *frame, int64_t row, char *out, size_t size)
{
    const gy_column column = gy_frame_column(frame, 0);
    if (gy_column_is_null(&column, row)) {
        snprintf(out, size, "null");
    } else if (column.field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(&column, row);
        snprintf(out, size, "%.*s", (int)text.size_bytes, text.data);
    } else {
        char value[GY_FRAME_VALUE_BYTES];
        gy_frame_write(&column, row, value);
        snprintf(out, size, "%s", value);
    }
}

/* A frame of so many rows, with a column that nobody asks for. */
static gy_frame *rows_of(int count)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("one int", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int i = 0; i < count; i++) {
        gy_frame_add_int64(builder, i + 1);
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    return frame;
}

typedef struct expected {
    const char *sql, *type, *value;
} expected;

/* How many of them have another type or value, which is said. */
static int wrong_values(const expected *rows, size_t count)
{
    gy_frame *frame = rows_of(1);
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        reading at;
        gy_frame *made = NULL;
        char value[256] = "";
        const char *type = "";
        gy_status status = bind(&at, rows[i].sql, frame);
        status = status == GY_OK ? evaluate(&at, frame, &made) : status;
        if (status == GY_OK) {
            write_value(made, 0, value, sizeof(value));
            type = gy_field_kind_name(gy_expr_type_of(at.expr)->kind);
        }
        if (strcmp(value, rows[i].value) != 0 || strcmp(type, rows[i].type) != 0) {
            print_message("%s: %s %s, expected %s %s: %s\n", rows[i].sql, type, value,
                          rows[i].type, rows[i].value, status < 0 ? gy_error_text() : "");
            wrong++;
        }
        gy_frame_drop(made);
        fini(&at);
    }
    gy_frame_drop(frame);
    return wrong;
}

/* What PostgreSQL 15 says (tools/sql_cases.py). */
static const expected cases[] = {
#include "query/expr/cases_test.def"
};

GY_TEST(values_are_those_of_postgresql)
{
    assert_int_equal(wrong_values(cases, GY_COUNT(cases)), 0);
}

/* ---- what is no expression ---- */

static const struct {
    const char *sql;
    gy_status status;
    const char *said; /* of the report */
} refused[] = {
    {"one + 'x'", GY_FORMAT, "query:1:7: invalid input syntax for type int64: \"x\"\n"},
    {"one + true", GY_TYPE, "query:1:5: operator does not exist: int64 + bool\n"},
    {"one = date '2024-01-01'", GY_TYPE, "query:1:5: operator does not exist: int64 = date\n"},
    {"- true", GY_TYPE, "query:1:1: operator does not exist: - bool\n"},
    {"one and true", GY_TYPE, "query:1:1: argument of AND must be type bool, not type int64\n"},
    {"not one", GY_TYPE, "query:1:5: argument of NOT must be type bool, not type int64\n"},
    {"case when one then 1 end", GY_TYPE,
     "query:1:11: argument of CASE/WHEN must be type bool, not type int64\n"},
    {"case when true then 1 else 'x' end", GY_FORMAT,
     "query:1:28: invalid input syntax for type int64: \"x\"\n"},
    {"case when true then one else true end", GY_TYPE,
     "query:1:1: CASE types int64 and bool cannot be matched\n"},
    {"coalesce(one, date '2024-01-01')", GY_TYPE,
     "query:1:1: COALESCE types int64 and date cannot be matched\n"},
    {"uper('x')", GY_NOTFOUND,
     "query:1:1: function uper(unknown) does not exist: is it upper?\n"},
    {"frobnicate(1)", GY_NOTFOUND, "query:1:1: function frobnicate(int64) does not exist\n"},
    {"upper(1)", GY_TYPE,
     "query:1:1: function upper(int64) does not exist: there is one of other arguments\n"},
    {"cast(one as date)", GY_TYPE, "query:1:1: cannot cast type int64 to date\n"},
    {"cast(1 as json)", GY_UNSUPPORTED,
     "query:1:1: not supported: type json (bool, int, double, decimal(p, s), date, timestamp, "
     "text, interval)\n"},
    {"cast('2024-01-01' as timestamp(0))", GY_UNSUPPORTED,
     "query:1:1: not supported: timestamp of fewer digits of a second (use date_trunc)\n"},
    {"cast(1 as decimal(40, 2))", GY_FORMAT,
     "query:1:1: type numeric(40): expected at most 38 digits, and a scale from 0 to them\n"},
    {"date '2024-02-30'", GY_FORMAT,
     "query:1:6: invalid input syntax for type date: \"2024-02-30\"\n"},
    {"interval 'soon'", GY_FORMAT,
     "query:1:10: invalid input syntax for type interval: \"soon\"\n"},
    {"'a' like 'b\\'", GY_ARG,
     "query:1:10: LIKE pattern must not end with escape character: 'b\\'\n"},
    {"'a' like 'b' escape 'xy'", GY_ARG,
     "query:1:10: invalid escape string 'xy': expected one character or none\n"},
    {"'a' ~ '('", GY_ARG,
     "query:1:7: invalid regular expression '(': missing closing parenthesis at byte 1\n"},
    {"'a' ~ '\\C'", GY_ARG,
     "query:1:7: invalid regular expression '\\C': using \\C is disabled by the application at "
     "byte 2\n"},
    {"upper('\xff')", GY_FORMAT, "query:1:8: bytes that are no UTF-8\n"},
    {"one ~ 'a'", GY_TYPE, "query:1:5: operator does not exist: int64 ~ unknown\n"},
    {"one like 'a'", GY_TYPE, "query:1:5: operator does not exist: int64 ~~ unknown\n"},
    {"extract(hour from date '2024-01-01')", GY_FORMAT,
     "query:1:1: unit \"hour\" is not one of type date\n"},
    {"extract(moon from date '2024-01-01')", GY_FORMAT,
     "query:1:1: unit \"moon\" is not one of type date\n"},
    {"one in (1, true)", GY_TYPE, "query:1:5: operator does not exist: int64 = bool\n"},
    {"count(*)", GY_FORMAT, "query:1:1: count(*) is no function of one row\n"},
    {"(select 1)", GY_UNSUPPORTED, "query:1:1: not supported: a sub-query here\n"},
    {"1e99999", GY_FORMAT, "query:1:1: not a number, or one that no type can hold: 1e99999\n"},
};

GY_TEST(what_has_no_type_is_refused_at_its_place)
{
    gy_frame *frame = rows_of(1);
    int wrong = 0;
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        reading at;
        const gy_status status = bind(&at, refused[i].sql, frame);
        const size_t size = strcspn(report.text, "\n") + 1;
        if (status != refused[i].status || size != strlen(refused[i].said) ||
            memcmp(report.text, refused[i].said, size) != 0) {
            print_message("%s: %d %s\n", refused[i].sql, status, report.text);
            wrong++;
        }
        fini(&at);
    }
    gy_frame_drop(frame);
    assert_int_equal(wrong, 0);
}

static const struct {
    const char *sql;
    gy_status status;
    const char *said;
} failing[] = {
    {"1 / (one - 1)", GY_NUMERIC, "division by zero: 1 / 0"},
    {"1.5 / (one - 1)", GY_NUMERIC, "division by zero: 1.5 / 0"},
    {"1::float8 / (one - 1)", GY_NUMERIC, "division by zero: 1 / 0"},
    {"5 % (one - 1)", GY_NUMERIC, "division by zero: 5 % 0"},
    {"9223372036854775807 + one", GY_LIMIT, "int64 out of range: 9223372036854775807 + 1"},
    {"-9223372036854775808 - one", GY_LIMIT, "int64 out of range: -9223372036854775808 - 1"},
    {"9223372036854775807 * (one + 1)", GY_LIMIT,
     "int64 out of range: 9223372036854775807 * 2"},
    {"- (one - 9223372036854775807 - 2)", GY_LIMIT,
     "int64 out of range: -(-9223372036854775808)"},
    {"99999999999999999999999999999999999999 + one", GY_LIMIT,
     "decimal of 38 digits out of range: 99999999999999999999999999999999999999 + 1"},
    {"1e300 * (one * 1e300)", GY_LIMIT, "double out of range: 1e+300 * 1e+300"},
    {"(one || 'x')::int", GY_FORMAT, "invalid input syntax for type int64: \"1x\""},
    {"(one || 'x')::date", GY_FORMAT, "invalid input syntax for type date: \"1x\""},
    {"(one || '000')::decimal(3, 1)", GY_FORMAT,
     "value out of range for type decimal(3, 1): \"1000\""},
    {"(one * 1000)::decimal(3, 1)", GY_LIMIT, "decimal(3, 1) out of range: 1000"},
    {"(one * 1e19)::int", GY_LIMIT, "int64 out of range: 10000000000000000000"},
    {"date '9999-12-31' + one", GY_LIMIT,
     "date out of range: + gives a year outside 1 to 9999"},
    {"regexp_replace('a', 'b', 'c', 'gx')", GY_ARG,
     "regexp_replace: flags 'gx': expected letters of g, i and c"},
    {"regexp_replace('a', '(', 'c')", GY_ARG,
     "invalid regular expression '(': missing closing "
     "parenthesis at byte 1"},
    {"sqrt(0::float8 - one)", GY_NUMERIC, "cannot take square root of a negative number: -1"},
    {"ln(one - 1)", GY_NUMERIC, "cannot take logarithm of zero: 0"},
    {"'a' like (one || '\\')", GY_ARG,
     "LIKE pattern must not end with escape character: '1\\'"},
    {"'a' ~ (one || '(')", GY_ARG,
     "invalid regular expression '1(': missing closing parenthesis at byte 2"},
    {"substring('abc', 1, one - 2)", GY_NUMERIC, "negative substring length not allowed: -1"},
    {"repeat('abcdefgh', one * 1000000000)", GY_LIMIT,
     "repeat: a text of 8000000000 bytes, expected at most 268435456"},
    {"lpad('x', one * 2000000000, 'ab')", GY_LIMIT,
     "lpad: a text of 2000000000 bytes, expected at most 268435456"},
    {"1 / 0", GY_NUMERIC, "division by zero: 1 / 0"},
    {"round(99999999999999999999999999999999999999 * one, -1)", GY_LIMIT,
     "decimal of 38 digits out of range: round"},
    {"extract(epoch from interval '178000000 years')::decimal(20, 6)", GY_LIMIT,
     "decimal(20, 6) out of range: 5617252800000000.000000"},
};

GY_TEST(what_has_no_value_says_operation_and_value)
{
    gy_frame *frame = rows_of(1), *none = rows_of(0), *made = NULL;
    int wrong = 0;
    for (size_t i = 0; i < GY_COUNT(failing); i++) {
        reading at;
        assert_ok(bind(&at, failing[i].sql, frame));
        const gy_status status = evaluate(&at, frame, &made);
        if (status != failing[i].status || strcmp(gy_error_text(), failing[i].said) != 0) {
            print_message("%s: %d %s\n", failing[i].sql, status, gy_error_text());
            wrong++;
        }
        assert_ok(evaluate(&at, none, &made)); /* of no row nothing is asked */
        assert_int_equal(gy_frame_rows(made), 0);
        gy_frame_drop(made);
        fini(&at);
    }
    gy_frame_drop(none);
    gy_frame_drop(frame);
    assert_int_equal(wrong, 0);
}

/* Large texts are made for few rows at once, and refused where these are still too many. */
GY_TEST(texts_take_bounded_memory)
{
    static const struct {
        const char *sql;
        size_t bytes_max;
        gy_status status;
    } made_of[] = {{"repeat('x', one * 0 + 1001)", 70000, GY_OK},
                   {"length(repeat('x', one * 0 + 1001)) = 1001", 70000, GY_OK},
                   {"repeat('x', one * 0 + 1001)", 60000, GY_LIMIT},
                   {"length(repeat('x', one * 0 + 1001)) = 1001", 60000, GY_LIMIT}};
    const size_t usual = gy_expr_texts_max;
    gy_frame *frame = rows_of(3000), *made = NULL;
    for (size_t i = 0; i < GY_COUNT(made_of); i++) {
        reading at;
        assert_ok(bind(&at, made_of[i].sql, frame));
        gy_expr_texts_max = made_of[i].bytes_max;
        const gy_status status = evaluate(&at, frame, &made);
        const bool is_condition = i % 2 == 1;
        uint64_t kept[3000 / 64 + 1];
        int64_t count = 3000;
        const gy_status tested =
            is_condition ? gy_expr_test(at.expr, frame, kept, &count) : status;
        gy_expr_texts_max = usual;
        assert_int_equal(status, made_of[i].status);
        assert_int_equal(tested, made_of[i].status);
        if (status == GY_OK) {
            assert_int_equal(count, 3000);
            const gy_column column = gy_frame_column(made, 0);
            for (int64_t row = 0; row < 3000; row++) {
                assert_true(column.field->kind == GY_FIELD_BOOL
                                ? gy_column_bool(&column, row)
                                : gy_column_text(&column, row).size_bytes == 1001);
            }
            gy_frame_drop(made);
        } else {
            assert_string_equal(gy_error_text(),
                                "texts of over 60000 bytes are made for 64 rows");
        }
        fini(&at);
    }
    gy_frame_drop(frame);
}

/* Trees as deep as they may be, and deeper ones. */
GY_TEST(depth_is_bounded)
{
    static const struct {
        const char *first, *more;
    } chains[] = {{"one", " + 1"}, {"one", " is null"}, {"one::text", " || one"}};
    gy_frame *frame = rows_of(1), *made = NULL;
    for (size_t i = 0; i < 2 * GY_COUNT(chains); i++) {
        const int levels = i % 2 == 0 ? 2490 : 2600;
        gy_text text = {.data = NULL};
        reading at;
        gy_text_add(&text, "%s", chains[i / 2].first);
        for (int k = 0; k < levels; k++) {
            gy_text_add(&text, "%s", chains[i / 2].more);
        }
        const gy_status status = bind(&at, gy_text_get(&text), frame);
        assert_int_equal(status, i % 2 == 0 ? GY_OK : GY_LIMIT);
        if (status == GY_OK) {
            assert_ok(evaluate(&at, frame, &made));
            gy_frame_drop(made);
        } else {
            assert_non_null(strstr(report.text, "an expression of more than 2500 levels"));
        }
        gy_text_free(&text);
        fini(&at);
    }
    gy_frame_drop(frame);
}

/* ---- where the meaning is our own ---- */

static const expected own[] = {
    {"1.0 / 3", "decimal", "0.3333333333333333"}, /* 16 places, not 16 digits */
    {"2.0 / 3", "decimal", "0.6666666666666667"},
    {"-2.0 / 3", "decimal", "-0.6666666666666667"},
    {"1 / 8.0", "decimal", "0.1250000000000000"},
    {"1 / 0.0000003", "decimal", "3333333.3333333333333333"},
    {"case when true then 1 else 2.5 end", "decimal", "1.0"}, /* one scale a column */
    {"coalesce(one, 2.5)", "decimal", "1.0"},
    {"2 ^ 0.5", "double", "1.4142135623730951"}, /* of decimals, too */
    {"sqrt(2.0)", "double", "1.4142135623730951"},
    {"exp(1.0)", "double", "2.718281828459045"},
    {"ln(2.0)", "double", "0.6931471805599453"},
    {"log(2.0, 64.0)", "double", "6"},
    {"power(2.0, 3)", "double", "8"},
    {"one::float8::numeric", "decimal", "1.0000000000000000"},
    {"('2.5' || '')::numeric", "decimal", "2.5"},
    {"one in (0.00000000000000000001, 1.0)", "bool", "true"},
    {"9223372036854775807 * one in (0.00000000000000000001, 1.0)", "bool", "false"},
    {"99999999999999999999999999999999999999 in (0.5, 1)", "bool", "false"},
    {"one in (10000000000000000000000000000000000000, 0.5)", "bool", "false"},
    {"2147483647 + one", "int64", "2147483648"}, /* one integer type */
    {"round(12.5, -4294967296)", "decimal", "0"},
    {"round(12.5, -9223372036854775807 - 1)", "decimal", "0"},
    {"substring('abc', -9223372036854775807 - 1, 0)", "text", ""},
    {"substring('xab' from 'ab\\K|x(?=(?R))')", "text", ""}, /* it begins behind its end */
    {"3000000000::int", "int64", "3000000000"},
    {"timestamptz '2024-01-01 12:00:00+02'", "timestamp", "2024-01-01 10:00:00"},
    {"1e300", "double", "1e+300"},
};

GY_TEST(own_meanings_are_kept)
{
    assert_int_equal(wrong_values(own, GY_COUNT(own)), 0);
}

/* ---- the examples of the room's page: `expression` is `value` ---- */

static const char *next_example(const char *at, char *sql, char *value, size_t size)
{
    static const char between[] = "` is `";
    for (const char *is = strstr(at, between); is != NULL; is = strstr(is + 1, between)) {
        const char *begin = is, *end = strchr(is + sizeof(between) - 1, '`');
        while (begin > at && begin[-1] != '`') {
            begin--;
        }
        assert_non_null(end);
        snprintf(sql, size, "%.*s", (int)(is - begin), begin);
        is += sizeof(between) - 1;
        snprintf(value, size, "%.*s", (int)(end - is), is);
        return end + 1;
    }
    return NULL;
}

GY_TEST(examples_of_the_page_are_true)
{
    static char page[1 << 16];
    char sql[256], value[256], made[256];
    gy_frame *frame = rows_of(1), *out = NULL;
    int examples = 0;
    FILE *file = fopen(GYRE_QUERY_PAGE, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    for (const char *at = page; (at = next_example(at, sql, value, sizeof(sql))) != NULL;) {
        reading one;
        gy_status status = bind(&one, sql, frame);
        status = status == GY_OK ? evaluate(&one, frame, &out) : status;
        if (status < 0) {
            fail_msg("%s: %s", sql, gy_error_text());
        }
        write_value(out, 0, made, sizeof(made));
        if (strcmp(made, value) != 0) {
            fail_msg("%s is %s, the page says %s", sql, made, value);
        }
        gy_frame_drop(out);
        fini(&one);
        examples++;
    }
    assert_true(examples > 100);
    gy_frame_drop(frame);
}

/* ---- whole frames ---- */

/* A plain column shares its buffers, a computed one stands beside it. */
GY_TEST(columns_are_shared)
{
    gy_frame *frame = rows_of(3000), *slice = NULL, *made = NULL;
    reading plain, sum;
    gy_schema *schema = NULL;
    assert_ok(gy_frame_slice(frame, 7, 2900, &slice));
    assert_ok(bind(&plain, "one", frame));
    assert_ok(bind(&sum, "one * 2", frame));
    assert_ok(gy_schema_parse("a int, b int, c int", &schema));
    const gy_expr *exprs[] = {sum.expr, plain.expr, plain.expr};
    assert_ok(gy_expr_project(exprs, 3, schema, slice, &made));
    const gy_column source = gy_frame_column(slice, 0), first = gy_frame_column(made, 0),
                    shared = gy_frame_column(made, 1);
    assert_ptr_equal(source.values, shared.values);
    assert_string_equal(gy_schema_field(gy_frame_schema(made), 2)->name, "c");
    for (int64_t row = 0; row < 2893; row++) {
        assert_int_equal(gy_column_int64(&first, row), 2 * (row + 8));
        assert_int_equal(gy_column_int64(&shared, row), row + 8);
    }
    gy_frame_drop(made);
    gy_schema_drop(schema);
    fini(&plain);
    fini(&sum);
    gy_frame_drop(slice);
    gy_frame_drop(frame);
}

static void count_column(void *arg, int index)
{
    *(int *)arg += index + 1;
}

GY_TEST(trees_say_what_they_use)
{
    gy_frame *frame = rows_of(2), *made = NULL;
    reading at;
    int used = 0;
    int64_t value = 0;
    const int map[] = {1};
    const gy_expr *other = NULL;
    assert_ok(bind(&at, "one + one * 2", frame));
    gy_expr_visit_columns(at.expr, count_column, &used);
    assert_int_equal(used, 2);
    assert_false(gy_expr_is_column(at.expr, NULL));
    assert_false(gy_expr_is_constant(at.expr));
    assert_ok(gy_expr_remap(&at.arena, at.expr, map, &other));
    used = 0;
    gy_expr_visit_columns(other, count_column, &used);
    assert_int_equal(used, 4);
    fini(&at);
    assert_ok(bind(&at, "1 + 2 * 3", frame));
    assert_true(gy_expr_is_constant(at.expr) && gy_expr_constant_int64(at.expr, &value));
    assert_int_equal(value, 7);
    fini(&at);
    assert_ok(bind(&at, "null", frame));
    assert_true(gy_expr_is_null(at.expr));
    assert_ok(evaluate(&at, frame, &made));
    gy_frame_drop(made);
    fini(&at);
    gy_frame_drop(frame);
}

static const char busy[] =
    "case when one % 3 = 0 then upper(one || 'x') when (one || 'y') ~ '^1.*y$' then 'match' "
    "when one in (2, 5, 8) then null else coalesce(nullif(replace(one::text, '1', 'é'), '7'), "
    "'none') end";

/* Each failed allocation leaves nothing behind. */
GY_TEST(failed_allocations_are_survived)
{
    gy_frame *frame = rows_of(1500), *made = NULL;
    gy_sql_node *node = NULL;
    reading at = {
        .source = {.path = "query", .text = busy, .size = sizeof(busy) - 1, .report = &report}};
    assert_ok(gy_sql_read_expression(&at.source, &at.script, &node));
    const int64_t live = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t tries = 0;
    while (status == GY_NOMEM && tries++ < 1000) {
        const gy_expr_scope scope = {
            .source = &at.source, .arena = &at.arena, .column = find_column, .arg = frame};
        gy_alloc_fail_after(tries);
        status = gy_expr_bind(&scope, node, &at.expr);
        status = status == GY_OK ? evaluate(&at, frame, &made) : status;
        gy_alloc_fail_after(0);
        if (status == GY_OK) {
            gy_frame_drop(made);
        }
        gy_arena_free(&at.arena);
        assert_int_equal(gy_alloc_live(), live);
    }
    assert_ok(status);
    assert_true(tries > 10);
    gy_sql_script_fini(&at.script);
    gy_frame_drop(frame);
}

typedef struct evaluating {
    const reading *at;
    const gy_frame *frame;
    gy_frame *made;
    gy_status status;
} evaluating;

static void *evaluate_there(void *arg)
{
    evaluating *one = arg;
    one->status = evaluate(one->at, one->frame, &one->made);
    return NULL;
}

GY_TEST(threads_share_an_expression)
{
    enum { THREADS = 4, ROWS = 3000 };
    gy_frame *frame = rows_of(ROWS);
    evaluating all[THREADS];
    gy_thread threads[THREADS] = {{.is_started = false}};
    reading at;
    assert_ok(bind(&at, busy, frame));
    for (int i = 0; i < THREADS; i++) {
        all[i] = (evaluating){.at = &at, .frame = frame};
        assert_ok(gy_thread_start(&threads[i], "evaluate", evaluate_there, &all[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        gy_thread_join(&threads[i]);
        assert_ok(all[i].status);
    }
    for (int64_t row = 0; row < ROWS; row++) {
        char first[64], other[64];
        write_value(all[0].made, row, first, sizeof(first));
        for (int i = 1; i < THREADS; i++) {
            write_value(all[i].made, row, other, sizeof(other));
            assert_string_equal(first, other);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        gy_frame_drop(all[i].made);
    }
    fini(&at);
    gy_frame_drop(frame);
}

/* A tree that is printed and read again is bound to the same values. */
GY_TEST(printed_trees_have_the_same_values)
{
    gy_frame *frame = rows_of(1);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        reading at, again;
        gy_sql_node *node = NULL;
        gy_text text = {.data = NULL};
        gy_frame *first = NULL, *second = NULL;
        char one[256], two[256];
        assert_ok(bind(&at, cases[i].sql, frame));
        gy_sql_script script;
        assert_ok(gy_sql_read_expression(&at.source, &script, &node));
        gy_sql_print_node(node, &text);
        assert_ok(bind(&again, gy_text_get(&text), frame));
        assert_ok(evaluate(&at, frame, &first));
        assert_ok(evaluate(&again, frame, &second));
        write_value(first, 0, one, sizeof(one));
        write_value(second, 0, two, sizeof(two));
        assert_string_equal(one, two);
        gy_frame_drop(first);
        gy_frame_drop(second);
        gy_text_free(&text);
        gy_sql_script_fini(&script);
        fini(&again);
        fini(&at);
    }
    gy_frame_drop(frame);
}

GY_TEST_MAIN(NULL, NULL)
