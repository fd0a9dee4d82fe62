/* Goal: functions of a program give in queries what builtin expressions of the same meaning do,
 * with any number of workers and as a job of processes; what is wrong with them is refused, and
 * says which. */
#include "base/text.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/query.h>

#include "base/base.h"
#include "base/disk.h"
#include "base/random.h"

static char folder[] = "/tmp/gyre-functions-XXXXXX";
static gy_flow *flow;

/* ---- Functions of a row ---- */

static gy_status mix(gy_function_call *call, const gy_function_value *arguments,
                     gy_function_value *result)
{
    if (__builtin_mul_overflow(arguments[0].integer, 31, &result->integer) ||
        __builtin_add_overflow(result->integer, arguments[1].integer, &result->integer)) {
        return gy_function_fail(call, "%lld is too large", (long long)arguments[0].integer);
    }
    return GY_OK;
}

static gy_status shout(gy_function_call *call, const gy_function_value *arguments,
                       gy_function_value *result)
{
    const gy_text_view in = arguments[0].text;
    char *out = gy_function_text(call, in.size_bytes + 1);
    if (out == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < in.size_bytes; i++) {
        out[i] = in.data[i] >= 'a' && in.data[i] <= 'z' ? (char)(in.data[i] - 32) : in.data[i];
    }
    out[in.size_bytes] = '!';
    result->text = (gy_text_view){out, in.size_bytes + 1};
    return GY_OK;
}

static gy_status same(gy_function_call *call, const gy_function_value *arguments,
                      gy_function_value *result)
{
    (void)call;
    *result = arguments[0];
    return GY_OK;
}

static gy_status twice(gy_function_call *call, const gy_function_value *arguments,
                       gy_function_value *result)
{
    const int64_t *factor = gy_function_context(call);
    result->real = arguments[0].real * (double)*factor;
    return GY_OK;
}

static gy_status nulls(gy_function_call *call, const gy_function_value *arguments,
                       gy_function_value *result)
{
    (void)call;
    for (int i = 0; i < 3; i++) {
        result->integer += arguments[i].is_null;
    }
    return GY_OK;
}

/* Null where both are the same. */
static gy_status other(gy_function_call *call, const gy_function_value *arguments,
                       gy_function_value *result)
{
    (void)call;
    *result = arguments[0];
    result->is_null = arguments[0].integer == arguments[1].integer;
    return GY_OK;
}

static gy_status refuse(gy_function_call *call, const gy_function_value *arguments,
                        gy_function_value *result)
{
    result->truth = true;
    return arguments[0].integer != 13  ? GY_OK
           : arguments[1].integer == 0 ? GY_IO
                                       : gy_function_fail(call, "%d brings bad luck", 13);
}

static gy_status bad_text(gy_function_call *call, const gy_function_value *arguments,
                          gy_function_value *result)
{
    (void)call;
    (void)arguments;
    result->text = (gy_text_view){"\xff", 1};
    return GY_OK;
}

/* As a decimal, a date and a timestamp too large. */
static gy_status too_large(gy_function_call *call, const gy_function_value *arguments,
                           gy_function_value *result)
{
    (void)call;
    (void)arguments;
    result->decimal = 0;
    result->integer = INT64_MAX;
    return GY_OK;
}

static int64_t two = 2;

static const gy_field integers[] = {{.name = "a", .kind = GY_FIELD_INT64},
                                    {.name = "b", .kind = GY_FIELD_INT64}};
static const gy_field texts[] = {{.name = "t", .kind = GY_FIELD_TEXT}};
static const gy_field doubles[] = {{.name = "x", .kind = GY_FIELD_DOUBLE}};
static const gy_field decimals[] = {
    {.name = "d", .kind = GY_FIELD_DECIMAL, .precision = 12, .scale = 3}};
static const gy_field bools[] = {{.name = "b", .kind = GY_FIELD_BOOL}};
static const gy_field dates[] = {{.name = "d", .kind = GY_FIELD_DATE}};
static const gy_field times[] = {{.name = "t", .kind = GY_FIELD_TIMESTAMP}};
static const gy_field several[] = {{.name = "a", .kind = GY_FIELD_INT64},
                                   {.name = "x", .kind = GY_FIELD_DOUBLE},
                                   {.name = "t", .kind = GY_FIELD_TEXT}};

#define OWN(name_, work, fields, ...)                                                          \
    {                                                                                          \
        .name = name_, .version = 7, .parameters = (fields),                                   \
        .parameter_count = (int)GY_COUNT(fields), .scalar = (work), .result = {                \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }

static gy_query_functions functions(void)
{
    static const gy_query_function list[] = {
        OWN("mix", mix, integers, .kind = GY_FIELD_INT64),
        OWN("shout", shout, texts, .kind = GY_FIELD_TEXT),

        OWN("same_text", same, texts, .kind = GY_FIELD_TEXT),
        OWN("same_double", same, doubles, .kind = GY_FIELD_DOUBLE),
        OWN("same_decimal", same, decimals, .kind = GY_FIELD_DECIMAL, .precision = 12,
            .scale = 3),
        OWN("same_bool", same, bools, .kind = GY_FIELD_BOOL),
        OWN("same_date", same, dates, .kind = GY_FIELD_DATE),
        OWN("same_time", same, times, .kind = GY_FIELD_TIMESTAMP),
        {.name = "twice",
         .parameters = doubles,
         .parameter_count = 1,
         .result = {.kind = GY_FIELD_DOUBLE},
         .context = &two,
         .scalar = twice},
        {.name = "nulls",
         .parameters = several,
         .parameter_count = 3,
         .result = {.kind = GY_FIELD_INT64},
         .takes_nulls = true,
         .scalar = nulls},
        OWN("other", other, integers, .kind = GY_FIELD_INT64),
        OWN("refuse", refuse, integers, .kind = GY_FIELD_BOOL),
        OWN("bad_text", bad_text, texts, .kind = GY_FIELD_TEXT),
        OWN("bad_decimal", too_large, texts, .kind = GY_FIELD_DECIMAL, .precision = 18),
        OWN("bad_date", too_large, texts, .kind = GY_FIELD_DATE),
        OWN("bad_time", too_large, texts, .kind = GY_FIELD_TIMESTAMP),
    };
    return (gy_query_functions){.items = list, .count = (int)GY_COUNT(list)};
}

/* ---- Answers ---- */

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

static gy_status take_rows(gy_query *query, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source rows;
    int count = 0;
    gy_status status = gy_query_next(query, &schema, &rows);
    if (status != GY_OK) {
        return status;
    }
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
    rows.close(rows.arg);
    gy_schema_drop(schema);
    return status == GY_DONE ? GY_OK : status;
}

/* The answer of a statement as CSV; what is reported if it fails. */
static gy_status answer_of(const char *sql, const gy_query_options *how, gy_text *out)
{
    gy_query_options options = *how;
    gy_query *query = NULL;
    options.text = sql;
    options.tables = folder;
    options.functions = options.functions.items != NULL ? options.functions : functions();
    gy_status status = gy_query_new(&options, &query);
    if (status != GY_OK) {
        gy_text_add(out, "%s%s", gy_query_report(query), query == NULL ? gy_error_text() : "");
        gy_query_free(query);
        return status;
    }
    status = take_rows(query, out);
    if (status != GY_OK) {
        gy_text_add(out, "%s", gy_query_report(query));
    }
    gy_query_free(query);
    return status;
}

static void check_same(const char *own, const char *builtin, const gy_query_options *how)
{
    gy_text out = {.data = NULL}, expected = {.data = NULL};
    const gy_query_options one = GY_OPTIONS(gy_query_options, .workers = 1);
    if (answer_of(builtin, &one, &expected) != GY_OK) {
        fail_msg("%s\n%s", builtin, gy_text_get(&expected));
    }
    if (answer_of(own, how, &out) != GY_OK ||
        strcmp(gy_text_get(&out), gy_text_get(&expected)) != 0) {
        fail_msg("%s\nis answered by\n%.700s\nand not by\n%.700s", own, gy_text_get(&out),
                 gy_text_get(&expected));
    }
    gy_text_free(&out);
    gy_text_free(&expected);
}

/* ---- Tables ---- */

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static void write_table(const char *name, gy_random *chance, int rows)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("k,a,b,x,d,t,yes,day,at\n", file);
    for (int i = 0; i < rows; i++) {
        fprintf(file, "%d,", (int)gy_random_below(chance, (uint64_t)rows / 20 + 3));
        for (int column = 0; column < 8; column++) {
            const int value = (int)gy_random_below(chance, 2000) - 1000;
            const bool is_null = gy_random_below(chance, 10) == 0 && i > 0;
            switch (is_null ? -1 : column) {
            case 0:
            case 1:
                fprintf(file, "%d", value);
                break;
            case 2:
                fprintf(file, "%.10f", value / 1024.0);
                break;
            case 3:
                fprintf(file, "%d.%02d", value, (int)gy_random_below(chance, 100));
                break;
            case 4:
                fprintf(file, "\"text %d,\n\"", value);
                break;
            case 5:
                fputs(value < 0 ? "true" : "false", file);
                break;
            case 6:
                fprintf(file, "%04d-%02d-%02d", 1960 + (value + 1000) / 20,
                        1 + (int)gy_random_below(chance, 12),
                        1 + (int)gy_random_below(chance, 28));
                break;
            case 7:
                fprintf(file, "%04d-05-06 07:08:09.%06d", 1960 + (value + 1000) / 20,
                        (int)gy_random_below(chance, 1000000));
                break;
            default:
                break;
            }
            fputc(column < 7 ? ',' : '\n', file);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return gy_disk_remove_tree(folder) != GY_OK;
}

/* Run `check` in one process by 1, 2 and 4 workers, and as a job of 1 and 3 processes. */
static void in_each_way(const char *own, const char *builtin)
{
    static const int workers[] = {1, 2, 4};
    for (size_t i = 0; i < GY_COUNT(workers); i++) {
        check_same(own, builtin, &GY_OPTIONS(gy_query_options, .workers = workers[i]));
    }
    for (int processes = 1; processes < 4; processes += 2) {
        const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = processes);
        check_same(own, builtin,
                   &GY_OPTIONS(gy_query_options, .workers = 2, .job = &job, .flow = flow,
                               .split_bytes = 16384));
    }
}

/* ---- Functions of a row ---- */

static const char *const pairs[][2] = {
    {"mix(a, b)", "a * 31 + b"},
    {"shout(t)", "upper(t) || '!'"},
    {"shout('x' || k)", "'X' || k || '!'"},
    {"same_text(t), same_double(x), same_decimal(d), same_bool(yes), same_date(day), "
     "same_time(at)",
     "t, x::float8, d::decimal(12, 3), yes, day, at"},
    {"same_double(a), same_double(d), same_decimal(a), same_time(day)",
     "a::double precision, d::double precision, a::decimal(12, 3), day::timestamp"},
    {"twice(a) + 1", "2.0::float8 * a + 1"},
    {"twice(null), twice('2.5'), same_date('2024-02-29')",
     "null::float8, 5::float8, date '2024-02-29'"},
    {"nulls(a, x, t)", "(a is null)::int + (x is null)::int + (t is null)::int"},
    {"nulls(null, 1, t)", "1 + (t is null)::int"},
    {"other(a, b % 3)", "nullif(a, case when b is null then a else b % 3 end)"},
    {"mix(mix(k, 1), mix(2, k))", "(k * 31 + 1) * 31 + 62 + k"},
    {"case when a <> 13 then refuse(a, 1) end", "case when a <> 13 then true end"},
};

GY_TEST(functions_of_a_row_are_as_builtin_expressions)
{
    gy_random chance = {.key = gy_test_seed()};
    write_table("t.csv", &chance, 3000);
    for (size_t i = 0; i < GY_COUNT(pairs); i++) {
        char own[1024], builtin[1024];
        char names[128] = "";
        size_t used = 0, count = 1;
        int depth = 0;
        for (const char *at = pairs[i][0]; *at != '\0'; at++) { /* as both have them */
            depth += (*at == '(') - (*at == ')');
            count += *at == ',' && depth == 0;
        }
        for (size_t n = 0; n < count; n++) {
            used +=
                gy_print(names + used, sizeof(names) - used, "%sc%zu", n > 0 ? ", " : "", n);
        }
        snprintf(own, sizeof(own), "select * from (select %s from t) r(%s)", pairs[i][0],
                 names);
        snprintf(builtin, sizeof(builtin), "select * from (select %s from t) r(%s)",
                 pairs[i][1], names);
        in_each_way(own, builtin);
    }
    in_each_way(
        "select k, sum(mix(a, b)) as s from t where nulls(a, x, t) = 0 and same_bool(yes) "
        "group by k having count(*) > mix(0, 2) order by mix(k, 0) desc",
        "select k, sum(a * 31 + b) as s from t where a is not null and x is not null and t "
        "is not null and yes group by k having count(*) > 2 order by k desc");
    in_each_way("select l.k, r.t from t l join t r on shout(l.t) = shout(r.t) order by 1, 2",
                "select l.k, r.t from t l join t r on l.t = r.t order by 1, 2");
    in_each_way("create view v as select mix(k, 0) as m from t; select count(*) as n from v "
                "where m > 310",
                "select count(*) as n from t where k > 10");
}

/* ---- What is wrong ---- */

static void check_refused(const char *sql, gy_status expected, const char *text,
                          const gy_query_options *how)
{
    gy_text out = {.data = NULL};
    const gy_status status = answer_of(sql, how, &out);
    if (status != expected || strstr(gy_text_get(&out), text) == NULL) {
        fail_msg("%s\ngave %d\n%s\nand not '%s'", sql, (int)status, gy_text_get(&out), text);
    }
    gy_text_free(&out);
}

GY_TEST(calls_that_cannot_be_are_refused)
{
    static const struct {
        const char *sql;
        gy_status status;
        const char *text;
    } refused[] = {
        {"select mix(1)", GY_TYPE,
         "query:1:8: function mix(int64) does not exist: there is mix(int64, int64)"},
        {"select mix(1, 'x')", GY_FORMAT, "query:1:15: "},
        {"select mix(1, 1.5)", GY_TYPE, "function mix(int64, decimal(2, 1)) does not exist"},
        {"select same_decimal(interval '1 day')", GY_TYPE,
         "function same_decimal(interval) does not exist: there is same_decimal(decimal(12, "
         "3))"},
        {"select shoot('a')", GY_NOTFOUND,
         "function shoot(unknown) does not exist: is it shout?"},
        {"select mix(*)", GY_FORMAT, "mix(*) is no function of one row"},
        {"select refuse(13, 1)", GY_ARG, "query: function refuse: 13 brings bad luck"},
        {"select refuse(13, 0)", GY_ARG, "query: function refuse: input or output failed"},
        {"select mix(9223372036854775807, 1)", GY_ARG,
         "function mix: 9223372036854775807 is too large"},
        {"select bad_text('')", GY_ARG,
         "function bad_text: its result is a text that is no UTF-8 or has a NUL"},
        {"select bad_decimal('')", GY_ARG,
         "function bad_decimal: its result is a decimal of too many digits"},
        {"select bad_date('')", GY_ARG,
         "function bad_date: its result is a date outside the years 1 to 9999"},
        {"select bad_time('')", GY_ARG, "function bad_time: its result is a timestamp outside"},
        {"select refuse(a, b) from luck", GY_ARG, "luck.csv:3: function refuse: 13 brings"},
        {"select same_decimal(1e10::decimal(20, 2))", GY_LIMIT,
         "decimal(12, 3) out of range: 10000000000.00"},
    };
    char path[512];
    path_of("luck.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("a,b\n1,1\n13,1\n", file);
    assert_int_equal(fclose(file), 0);
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = 2);
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        check_refused(refused[i].sql, refused[i].status, refused[i].text,
                      &GY_OPTIONS(gy_query_options, .workers = 2));
        check_refused(refused[i].sql, refused[i].status, refused[i].text,
                      &GY_OPTIONS(gy_query_options, .workers = 1, .job = &job, .flow = flow));
    }
}

GY_TEST(lists_that_cannot_be_are_refused)
{
    static const gy_field wrong[] = {{.name = "d", .kind = GY_FIELD_DECIMAL, .precision = 39}};
    static const gy_query_function good = OWN("mix", mix, integers, .kind = GY_FIELD_INT64);
    const struct {
        gy_query_function one;
        const char *text;
    } refused[] = {
        {OWN("upper", mix, integers, .kind = GY_FIELD_INT64), "a builtin function upper"},
        {OWN("sum", mix, integers, .kind = GY_FIELD_INT64), "a builtin function sum"},
        {OWN("read_csv", mix, integers, .kind = GY_FIELD_INT64), "a builtin function read_csv"},
        {OWN("mix", mix, integers, .kind = GY_FIELD_INT64), "functions 0 and 1 of the query's"},
        {OWN("Mix", mix, integers, .kind = GY_FIELD_INT64), "has the name \"Mix\": expected"},
        {OWN("9mix", mix, integers, .kind = GY_FIELD_INT64), "has the name \"9mix\": expected"},
        {OWN("", mix, integers, .kind = GY_FIELD_INT64), "has the name \"\": expected"},
        {OWN(NULL, mix, integers, .kind = GY_FIELD_INT64), "has the name \"\": expected"},
        {OWN("none", NULL, integers, .kind = GY_FIELD_INT64),
         "function none has nothing to run"},
        {OWN("none", mix, integers, .kind = (gy_field_kind)0), "function none: "},
        {OWN("none", mix, wrong, .kind = GY_FIELD_INT64), "function none: "},
        {{.name = "none", .scalar = mix, .parameter_count = 17, .parameters = wrong},
         "function none has 17 parameters"},
    };
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        const gy_query_function list[] = {good, refused[i].one};
        check_refused("select 1", GY_ARG, refused[i].text,
                      &GY_OPTIONS(gy_query_options, .functions = {.items = list, .count = 2}));
    }
}

/* Workers have the list of the flow's functions; the query is planned with another one. */
GY_TEST(workers_must_have_the_functions_of_the_plan)
{
    const gy_query_function newer = {.name = "mix",
                                     .version = 8,
                                     .parameters = integers,
                                     .parameter_count = 2,
                                     .result = {.kind = GY_FIELD_INT64},
                                     .scalar = mix};
    const gy_query_function unknown = OWN("only_here", mix, integers, .kind = GY_FIELD_INT64);
    char memo[512];
    path_of("memo", memo);
    const gy_flow_options job = GY_OPTIONS(gy_flow_options, .processes = 1, .memo = memo);
    gy_query_options how =
        GY_OPTIONS(gy_query_options, .workers = 1, .job = &job, .flow = flow);
    check_same("select sum(mix(a, b)) as m from luck", "select sum(a * 31 + b) as m from luck",
               &how);
    how.functions = (gy_query_functions){.items = &newer, .count = 1};
    check_refused("select sum(mix(a, b)) as m from luck", GY_STATE,
                  "has version 7 of function mix, the query was planned with version 8", &how);
    how.functions = (gy_query_functions){.items = &unknown, .count = 1};
    check_refused("select only_here(a, b) from luck", GY_STATE,
                  "this worker has no function only_here: list it", &how);
}

int main(int argc, char **argv)
{
    static const gy_function vertices[] = {GY_QUERY_VERTEX_OF(functions)};
    const gy_status started = gy_flow_start(&argc, &argv, vertices, 1, &flow);
    if (started != GY_OK) {
        return started < 0;
    }
    const int failed = GY_TESTS_RUN(make_folder, remove_folder);
    gy_flow_end(flow);
    return failed;
}
