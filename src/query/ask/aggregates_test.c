/* Goal: aggregates of a program give in queries what builtin ones do, with any number of
 * workers, within little memory and as a job of processes. */
#include "query/ask/functions_test.h"

/* Any scalar function. */
static gy_status nothing(gy_function_call *call, const gy_function_value *arguments,
                         gy_function_value *result)
{
    (void)call;
    (void)arguments;
    result->is_null = true;
    return GY_OK;
}

typedef struct moments {
    int64_t count, sum, squares;
} moments;

static gy_status add_moments(gy_function_call *call, void *state,
                             const gy_function_value *arguments)
{
    moments *to = state;
    const int64_t value = arguments[0].integer;
    (void)call;
    to->count++;
    to->sum += value;
    to->squares += value * value;
    return GY_OK;
}

static gy_status merge_moments(gy_function_call *call, void *state, const void *other)
{
    moments *to = state;
    const moments *from = other;
    (void)call;
    to->count += from->count;
    to->sum += from->sum;
    to->squares += from->squares;
    return GY_OK;
}

static gy_status variance(gy_function_call *call, const void *state, gy_function_value *result)
{
    const moments *of = state;
    const double count = (double)of->count, sum = (double)of->sum;
    (void)call;
    result->is_null = of->count == 0;
    result->real = of->count == 0 ? 0 : ((double)of->squares - sum * sum / count) / count;
    return GY_OK;
}

static gy_status count_of(gy_function_call *call, const void *state, gy_function_value *result)
{
    (void)call;
    result->integer = ((const moments *)state)->count;
    return GY_OK;
}

static gy_status sum_of(gy_function_call *call, const void *state, gy_function_value *result)
{
    (void)call;
    result->is_null = ((const moments *)state)->count == 0;
    result->integer = ((const moments *)state)->sum;
    return GY_OK;
}

/* The text beside the largest number; of several the least one. */
typedef struct best {
    int64_t by;
    uint8_t has, size;
    char text[38];
} best;

static void take_best(best *to, const best *from)
{
    const int order = memcmp(from->text, to->text, sizeof(to->text)); /* zeros behind them */
    if (from->has != 0 &&
        (to->has == 0 || from->by > to->by || (from->by == to->by && order < 0))) {
        *to = *from;
    }
}

static gy_status add_best(gy_function_call *call, void *state,
                          const gy_function_value *arguments)
{
    const gy_text_view text = arguments[0].text;
    best one = {.by = arguments[1].integer, .has = 1, .size = (uint8_t)text.size_bytes};
    if (text.size_bytes > sizeof(one.text)) {
        return gy_function_fail(call, "a text of %zu bytes", text.size_bytes);
    }
    memcpy(one.text, text.data, text.size_bytes);
    take_best(state, &one);
    return GY_OK;
}

static gy_status merge_best(gy_function_call *call, void *state, const void *other)
{
    (void)call;
    take_best(state, other);
    return GY_OK;
}

static gy_status give_best(gy_function_call *call, const void *state, gy_function_value *result)
{
    const best *of = state;
    char *text = gy_function_text(call, of->size);
    if (text == NULL) {
        return GY_NOMEM;
    }
    memcpy(text, of->text, of->size);
    result->is_null = of->has == 0;
    result->text = (gy_text_view){text, of->size};
    return GY_OK;
}

/* The least number, of a state that does not begin with zeros. */
static void begin_least(gy_function_call *call, void *state)
{
    *(int64_t *)state = *(const int64_t *)gy_function_context(call);
}

static gy_status add_least(gy_function_call *call, void *state,
                           const gy_function_value *arguments)
{
    (void)call;
    *(int64_t *)state = GY_MIN(*(int64_t *)state, arguments[0].integer);
    return GY_OK;
}

static gy_status merge_least(gy_function_call *call, void *state, const void *other)
{
    (void)call;
    *(int64_t *)state = GY_MIN(*(int64_t *)state, *(const int64_t *)other);
    return GY_OK;
}

static gy_status give_least(gy_function_call *call, const void *state,
                            gy_function_value *result)
{
    result->integer = *(const int64_t *)state;
    result->is_null = result->integer == *(const int64_t *)gy_function_context(call);
    return GY_OK;
}

/* The largest value of any kind but text. */
typedef struct most {
    int64_t has;
    int64_t words[2]; /* of a decimal both */
} most;

static void value_of(const most *of, gy_field_kind kind, gy_function_value *value)
{
    if (kind == GY_FIELD_DECIMAL) {
        memcpy(&value->decimal, of->words, sizeof(value->decimal));
    } else if (kind == GY_FIELD_DOUBLE) {
        memcpy(&value->real, of->words, sizeof(value->real));
    } else if (kind == GY_FIELD_BOOL) {
        value->truth = of->words[0] != 0;
    } else {
        value->integer = of->words[0];
    }
}

static bool is_less(const gy_function_value *a, const gy_function_value *b, gy_field_kind kind)
{
    return kind == GY_FIELD_DECIMAL  ? a->decimal < b->decimal
           : kind == GY_FIELD_DOUBLE ? a->real < b->real
           : kind == GY_FIELD_BOOL   ? a->truth < b->truth
                                     : a->integer < b->integer;
}

static void take_most(most *to, gy_field_kind kind, const gy_function_value *value)
{
    gy_function_value had = {.is_null = false};
    value_of(to, kind, &had);
    if (to->has != 0 && !is_less(&had, value, kind)) {
        return;
    }
    to->has = 1;
    if (kind == GY_FIELD_DECIMAL) {
        memcpy(to->words, &value->decimal, sizeof(value->decimal));
    } else if (kind == GY_FIELD_DOUBLE) {
        memcpy(to->words, &value->real, sizeof(value->real));
    } else {
        to->words[0] = kind == GY_FIELD_BOOL ? value->truth : value->integer;
    }
}

static gy_field_kind kind_of(gy_function_call *call)
{
    return *(const gy_field_kind *)gy_function_context(call);
}

static gy_status add_most(gy_function_call *call, void *state,
                          const gy_function_value *arguments)
{
    take_most(state, kind_of(call), &arguments[0]);
    return GY_OK;
}

static gy_status merge_most(gy_function_call *call, void *state, const void *other)
{
    gy_function_value value = {.is_null = false};
    value_of(other, kind_of(call), &value);
    take_most(state, kind_of(call), &value);
    return GY_OK;
}

static gy_status give_most(gy_function_call *call, const void *state, gy_function_value *result)
{
    value_of(state, kind_of(call), result);
    result->is_null = ((const most *)state)->has == 0;
    return GY_OK;
}

/* Numbers by their rest; a state as large as one may be. */
enum { BUCKETS = 128 };

static gy_status add_bucket(gy_function_call *call, void *state,
                            const gy_function_value *arguments)
{
    (void)call;
    ((int64_t *)state)[(arguments[0].integer + 1024) % BUCKETS]++;
    return GY_OK;
}

static gy_status merge_buckets(gy_function_call *call, void *state, const void *other)
{
    (void)call;
    for (int i = 0; i < BUCKETS; i++) {
        ((int64_t *)state)[i] += ((const int64_t *)other)[i];
    }
    return GY_OK;
}

static gy_status give_buckets(gy_function_call *call, const void *state,
                              gy_function_value *result)
{
    (void)call;
    for (int i = 0; i < BUCKETS; i++) {
        result->integer += i * ((const int64_t *)state)[i];
    }
    return GY_OK;
}

static gy_status fail_merge(gy_function_call *call, void *state, const void *other)
{
    (void)state;
    (void)other;
    return gy_function_fail(call, "no merging");
}

static gy_status fail_finish(gy_function_call *call, const void *state,
                             gy_function_value *result)
{
    (void)state;
    (void)result;
    return gy_function_fail(call, "no end");
}

static int64_t largest = INT64_MAX;
static gy_field_kind kinds[] = {GY_FIELD_BOOL, GY_FIELD_DOUBLE, GY_FIELD_DECIMAL, GY_FIELD_DATE,
                                GY_FIELD_TIMESTAMP};

static const gy_field doubles[] = {{.name = "x", .kind = GY_FIELD_DOUBLE}};
static const gy_field decimals[] = {
    {.name = "d", .kind = GY_FIELD_DECIMAL, .precision = 12, .scale = 3}};
static const gy_field bools[] = {{.name = "b", .kind = GY_FIELD_BOOL}};
static const gy_field dates[] = {{.name = "d", .kind = GY_FIELD_DATE}};
static const gy_field times[] = {{.name = "t", .kind = GY_FIELD_TIMESTAMP}};
static const gy_field beside[] = {{.name = "t", .kind = GY_FIELD_TEXT},
                                  {.name = "by", .kind = GY_FIELD_INT64}};
static const gy_field number[] = {{.name = "a", .kind = GY_FIELD_INT64}};

#define OF(name_, state_, fields, add_, merge_, finish_, ...)                                  \
    {                                                                                          \
        .name = name_, .version = 1, .parameters = (fields),                                   \
        .parameter_count = (int)GY_COUNT(fields), .state_bytes = (state_),                     \
        .accumulate = (add_), .merge = (merge_), .finish = (finish_), __VA_ARGS__              \
    }
#define GIVES(...) .result = {__VA_ARGS__}
#define MOST(name_, fields, which, ...)                                                        \
    OF(name_, sizeof(most), fields, add_most, merge_most, give_most, .context = &kinds[which], \
       GIVES(.kind = __VA_ARGS__))

static gy_query_functions functions(void)
{
    static const gy_query_function list[] = {
        OF("variance", sizeof(moments), number, add_moments, merge_moments, variance,
           GIVES(.kind = GY_FIELD_DOUBLE)),
        OF("rows_of", sizeof(moments), number, add_moments, merge_moments, count_of,
           GIVES(.kind = GY_FIELD_INT64), .takes_nulls = true),
        OF("sum_of", sizeof(moments), number, add_moments, merge_moments, sum_of,
           GIVES(.kind = GY_FIELD_INT64)),
        OF("best", sizeof(best), beside, add_best, merge_best, give_best,
           GIVES(.kind = GY_FIELD_TEXT)),
        OF("least_of", sizeof(int64_t), number, add_least, merge_least, give_least,
           GIVES(.kind = GY_FIELD_INT64), .initialise = begin_least, .context = &largest),
        MOST("most_bool", bools, 0, GY_FIELD_BOOL),
        MOST("most_double", doubles, 1, GY_FIELD_DOUBLE),
        MOST("most_decimal", decimals, 2, GY_FIELD_DECIMAL, .precision = 12, .scale = 3),
        MOST("most_date", dates, 3, GY_FIELD_DATE),
        MOST("most_time", times, 4, GY_FIELD_TIMESTAMP),
        OF("buckets", BUCKETS * sizeof(int64_t), number, add_bucket, merge_buckets,
           give_buckets, GIVES(.kind = GY_FIELD_INT64)),
        OF("fail_merge", 8, number, add_least, fail_merge, give_least,
           GIVES(.kind = GY_FIELD_INT64), .context = &largest),
        OF("fail_finish", 8, number, add_least, merge_least, fail_finish,
           GIVES(.kind = GY_FIELD_INT64)),
    };
    return (gy_query_functions){.items = list, .count = (int)GY_COUNT(list)};
}

/* ---- Aggregates ---- */

GY_TEST(aggregates_are_as_builtin_ones)
{
    static const char *const same_answers[][2] = {
        {"select k, variance(a) as v, rows_of(a) as n, least_of(b) as m, count(*) as c from t "
         "group by k order by k",
         "select k, (sum(a * a)::float8 - sum(a)::float8 * sum(a)::float8 / count(a)) / "
         "count(a) as v, count(*) as n, min(b) as m, count(*) as c from t group by k order by "
         "k"},
        {"select k, best(t, a) as best from t group by k having best(t, a) > 'text 5' order by "
         "k",
         "select t.k, min(t.t) as best from t join (select k, max(a) as m from t where t is "
         "not "
         "null group by k) g on t.k = g.k and t.a = g.m where t is not null group by t.k "
         "having "
         "min(t.t) > 'text 5' order by 1"},
        {"select k % 3 as k, most_bool(yes) as b, most_double(x) as x, most_decimal(d) as d, "
         "most_date(day) as day, most_time(at) as at, most_time(day) as t from t group by 1 "
         "order by 1",
         "select k % 3 as k, bool_or(yes) as b, max(x::float8) as x, max(d::decimal(12, 3)) as "
         "d, "
         "max(day) as day, max(at) as at, max(day)::timestamp as t from t group by 1 order by "
         "1"},
        {"select sum_of(distinct a) as a, variance(b) as v, rows_of(b) as n from t",
         "select sum(distinct a)::int8 as a, (sum(b * b)::float8 - sum(b)::float8 * "
         "sum(b)::float8 / count(b)) / count(b) as v, count(*) as n from t"},
        {"select k, sum_of(distinct a % 10) as a from t group by k order by k",
         "select k, sum(distinct a % 10)::int8 as a from t group by k order by k"},
        {"select variance(a) as v, rows_of(a) as n, least_of(a) as l, best(t, a) as b, "
         "most_date(day) as d from t where a > 5000",
         "select null::float8 as v, 0 as n, null::int as l, null::text as b, null::date as d"},
        {"select max(v) as v from (select k, sum_of(a) + least_of(b + 1) as v from t "
         "group by k) r",
         "select max(v)::int8 as v from (select k, sum(a) + min(b + 1) as v from t "
         "group by k) r"},
    };
    gy_random chance = {.key = gy_test_seed() + 1};
    write_table("t.csv", &chance, (int)gy_test_cases(16000));
    for (size_t i = 0; i < GY_COUNT(same_answers); i++) {
        if (gy_test_takes(i)) {
            in_each_way(same_answers[i][0], same_answers[i][1]);
        }
    }
}

/* Groups of states of 1 KiB are many times what memory holds. */
GY_TEST(states_are_spilled)
{
    const char *own =
        "select a, k % 7 as k, buckets(b) as s from t where a is not null group by "
        "a, k % 7 order by 1, 2";
    const gy_query_options little =
        GY_OPTIONS(gy_query_options, .workers = 2, .memory_bytes = 2 << 20, .text = own,
                   .tables = folder, .functions = functions());
    gy_random chance = {.key = gy_test_seed() + 2};
    gy_query *query = NULL;
    gy_text out = {.data = NULL};
    write_table("t.csv", &chance, 16000);
    in_each_way(
        own, "select a, k % 7 as k, coalesce(sum((b + 1024) % 128), 0)::int8 as s from t where "
             "a is not null group by a, k % 7 order by 1, 2");
    assert_ok(gy_query_new(&little, &query));
    assert_ok(take_rows(query, &out));
    char *statistics = gy_query_statistics(query);
    const char *node = strstr(statistics, "aggregate buckets("), *line = node;
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

/* States of a group are merged where it was spilled. */
GY_TEST(a_merge_that_fails_is_reported)
{
    gy_random chance = {.key = gy_test_seed() + 3};
    write_table("t.csv", &chance, 16000);
    check_refused("select t, k, fail_merge(a) from t group by 1, 2", GY_ARG,
                  "query: function fail_merge: no merging",
                  &GY_OPTIONS(gy_query_options, .workers = 1, .memory_bytes = 1 << 19));
}

GY_TEST(aggregates_that_cannot_be_are_refused)
{
    static const refusal refused[] = {
        {"select variance('x') from luck", GY_FORMAT, "query:1:17: "},
        {"select variance(1.5) from luck", GY_TYPE,
         "function variance(decimal(2, 1)) does not exist: there is variance(int64)"},
        {"select best('a') from luck", GY_TYPE, "there is best(text, int64)"},
        {"select variance(*) from luck", GY_FORMAT, "variance takes no *"},
        {"select best(distinct 'a', a) from luck", GY_UNSUPPORTED,
         "not supported: distinct of several arguments"},
        {"select a from luck where variance(a) > 1", GY_FORMAT,
         "aggregate functions are not allowed in WHERE"},
        {"select variance(variance(a)) from luck", GY_FORMAT,
         "aggregate functions are not allowed in an aggregate's argument"},
        {"select variance(a), b from luck", GY_FORMAT,
         "column \"b\" must appear in the GROUP BY"},
        {"select varance(a) from luck", GY_NOTFOUND, "is it variance?"},
        {"select best(repeat('x', 39), a) from luck", GY_ARG,
         "query: function best: a text of 39 bytes"},
        {"select fail_finish(a) from luck", GY_ARG, "query: function fail_finish: no end"},
    };
    check_refusals(refused, GY_COUNT(refused));
}

GY_TEST(lists_of_aggregates_that_cannot_be_are_refused)
{
    const struct {
        gy_query_function one;
        const char *text;
    } refused[] = {
        {OWN("any", nothing, number, .kind = GY_FIELD_INT64), "a builtin function any"},
        {OF("none", 8, number, add_least, NULL, give_least, GIVES(.kind = GY_FIELD_INT64)),
         "function none has nothing to run"},
        {OF("none", 8, number, add_least, merge_least, give_least, .scalar = nothing,
            GIVES(.kind = GY_FIELD_INT64)),
         "function none has nothing to run"},
        {OF("none", 0, number, add_least, merge_least, give_least,
            GIVES(.kind = GY_FIELD_INT64)),
         "aggregate none has a state of 0 bytes"},
        {OF("none", 1025, number, add_least, merge_least, give_least,
            GIVES(.kind = GY_FIELD_INT64)),
         "aggregate none has a state of 1025 bytes"},
        {{.name = "none",
          .state_bytes = 8,
          .accumulate = add_least,
          .merge = merge_least,
          .finish = give_least,
          .result = {.kind = GY_FIELD_INT64}},
         "aggregate none has no parameter"},
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
