/* Goal: functions of a program give in queries what builtin expressions of the same meaning do,
 * with any number of workers and as a job of processes; what is wrong with them is refused, and
 * says which. */
#include "query/ask/functions_test.h"

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

/* ---- Functions of a row ---- */

static const char *const pairs[][2] = {
    {"mix(a, b)", "a * 31 + b"},
    {"shout(t)", "upper(t) || '!'"},
    {"shout('x' || k)", "'X' || k || '!'"},
    {"same_text(t)", "t"},
    {"same_double(x)", "x::float8"},
    {"same_decimal(d)", "d::decimal(12, 3)"},
    {"same_bool(yes)", "yes"},
    {"same_date(day)", "day"},
    {"same_time(at)", "at"},
    {"same_double(a)", "a::float8"},
    {"same_double(d)", "d::float8"},
    {"same_decimal(a)", "a::decimal(12, 3)"},
    {"same_time(day)", "day::timestamp"},
    {"twice(a) + 1", "2.0::float8 * a + 1"},
    {"twice(null)", "null::float8"},
    {"twice('2.5')", "5::float8"},
    {"same_date('2024-02-29')", "date '2024-02-29'"},
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
    gy_text own = {.data = NULL}, builtin = {.data = NULL};
    for (size_t i = 0; i < GY_COUNT(pairs); i++) {
        gy_text_add(&own, "%s%s as c%zu", i == 0 ? "select " : ", ", pairs[i][0], i);
        gy_text_add(&builtin, "%s%s as c%zu", i == 0 ? "select " : ", ", pairs[i][1], i);
    }
    gy_text_add(&own, " from t");
    gy_text_add(&builtin, " from t");
    in_each_way(gy_text_get(&own), gy_text_get(&builtin));
    gy_text_free(&own);
    gy_text_free(&builtin);
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

GY_TEST(calls_that_cannot_be_are_refused)
{
    static const refusal refused[] = {
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
    check_refusals(refused, GY_COUNT(refused));
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
        {OWN("coalesce", mix, integers, .kind = GY_FIELD_INT64), "a builtin function coalesce"},
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

static int tests(void)
{
    return GY_TESTS_RUN(make_folder, remove_folder);
}

int main(int argc, char **argv)
{
    return run_program(argc, argv, tests);
}
