/* Dates, timestamps and intervals: operators, extract and date_trunc. */
#include "query/expr/expr_priv.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define SECONDS_A_DAY 86400.0
#define MICROS        1000000

int64_t gy_expr_days(int64_t micros)
{
    const int64_t days = micros / GY_MICROS_A_DAY;
    return days - (micros % GY_MICROS_A_DAY < 0);
}

static gy_status fail_range(const gy_expr *expr)
{
    char type[48];
    return gy_fail(GY_LIMIT, "%s out of range: %s gives a year outside 1 to 9999",
                   gy_expr_type_text(&expr->type, type), expr->name);
}

static gy_status give_days(const gy_expr *expr, int64_t days, gy_expr_cell *out)
{
    out->integer = days;
    return days >= GY_DAYS_MIN && days < GY_DAYS_END ? GY_OK : fail_range(expr);
}

static gy_status give_micros(const gy_expr *expr, int64_t micros, gy_expr_cell *out)
{
    out->integer = micros;
    return micros >= GY_DAYS_MIN * GY_MICROS_A_DAY && micros < GY_DAYS_END * GY_MICROS_A_DAY
               ? GY_OK
               : fail_range(expr);
}

static gy_status give_interval(const gy_expr *expr, gy_int128 months, gy_int128 days,
                               gy_int128 micros, gy_expr_cell *out)
{
    if (months > INT32_MAX || months < INT32_MIN || days > INT32_MAX || days < INT32_MIN ||
        micros > INT64_MAX || micros < INT64_MIN) {
        return gy_fail(GY_LIMIT, "interval out of range: %s", expr->name);
    }
    out->interval = (gy_interval){(int32_t)months, (int32_t)days, (int64_t)micros};
    return GY_OK;
}

/* ---- operators ---- */

#define ROW(name)                                                                              \
    static gy_status name(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,   \
                          gy_expr_cell *out)

ROW(date_between)
{
    (void)work, (void)expr;
    out->integer = args[0].integer - args[1].integer;
    return GY_OK;
}

/* Days that are too many for any date stay so. */
static int64_t near(int64_t days)
{
    return GY_MAX(GY_MIN(days, (int64_t)1 << 40), -((int64_t)1 << 40));
}

ROW(date_plus)
{
    (void)work;
    return give_days(expr, near(args[0].integer) + near(args[1].integer), out);
}

ROW(date_minus)
{
    (void)work;
    return give_days(expr, args[0].integer - near(args[1].integer), out);
}

/* The months first, whose last day is the most that there is; then days, then time. */
static gy_status shift(const gy_expr *expr, int64_t micros, gy_interval by, int sign,
                       gy_expr_cell *out)
{
    int64_t days = gy_expr_days(micros);
    const int64_t time = micros - days * GY_MICROS_A_DAY;
    if (by.months != 0) {
        int year = 0, month = 0, day = 0;
        gy_frame_civil((int32_t)days, &year, &month, &day);
        const int64_t all = (int64_t)year * 12 + month - 1 + sign * (int64_t)by.months;
        if (all < 12 || all >= 120000) {
            return fail_range(expr);
        }
        year = (int)(all / 12);
        month = (int)(all % 12) + 1;
        days = gy_frame_days(year, month, GY_MIN(day, gy_frame_month_days(year, month)));
    }
    days += sign * (int64_t)by.days;
    const gy_int128 made =
        (gy_int128)days * GY_MICROS_A_DAY + time + (gy_int128)sign * by.micros;
    if (made > INT64_MAX || made < INT64_MIN) {
        return fail_range(expr);
    }
    return give_micros(expr, (int64_t)made, out);
}

ROW(time_plus)
{
    (void)work;
    return shift(expr, args[0].integer, args[1].interval, 1, out);
}

ROW(time_plus_turned)
{
    (void)work;
    return shift(expr, args[1].integer, args[0].interval, 1, out);
}

ROW(time_minus)
{
    (void)work;
    return shift(expr, args[0].integer, args[1].interval, -1, out);
}

ROW(time_between)
{
    (void)work;
    const int64_t micros = args[0].integer - args[1].integer;
    return give_interval(expr, 0, micros / GY_MICROS_A_DAY, micros % GY_MICROS_A_DAY, out);
}

ROW(interval_plus)
{
    (void)work;
    const gy_interval a = args[0].interval, b = args[1].interval;
    return give_interval(expr, (gy_int128)a.months + b.months, (gy_int128)a.days + b.days,
                         (gy_int128)a.micros + b.micros, out);
}

ROW(interval_minus)
{
    (void)work;
    const gy_interval a = args[0].interval, b = args[1].interval;
    return give_interval(expr, (gy_int128)a.months - b.months, (gy_int128)a.days - b.days,
                         (gy_int128)a.micros - b.micros, out);
}

/* To microseconds, which hides what doubles lack. */
static double rounded(double value)
{
    return rint(value * MICROS) / MICROS;
}

/* What is no whole month becomes days of 30 a month, what is no whole day time. */
static gy_status scale(const gy_expr *expr, gy_interval a, double factor, bool divides,
                       gy_expr_cell *out)
{
    const double months = divides ? a.months / factor : a.months * factor;
    const double days = divides ? a.days / factor : a.days * factor;
    const double micros = divides ? (double)a.micros / factor : (double)a.micros * factor;
    if (!(fabs(months) < INT32_MAX && fabs(days) < INT32_MAX / 2.0 && fabs(micros) < 0x1p62)) {
        return gy_fail(GY_LIMIT, "interval out of range: %s", expr->name);
    }
    const double more_days = rounded((months - trunc(months)) * 30);
    double more = rounded((days - trunc(days) + more_days - trunc(more_days)) * SECONDS_A_DAY);
    double whole_days = trunc(days);
    if (fabs(more) >= SECONDS_A_DAY) {
        whole_days += trunc(more / SECONDS_A_DAY);
        more -= trunc(more / SECONDS_A_DAY) * SECONDS_A_DAY;
    }
    whole_days += trunc(more_days);
    out->interval = (gy_interval){(int32_t)months, (int32_t)whole_days,
                                  (int64_t)rint(micros + more * MICROS)};
    return GY_OK;
}

ROW(interval_times)
{
    (void)work;
    return scale(expr, args[0].interval, args[1].real, false, out);
}

ROW(interval_times_turned)
{
    (void)work;
    return scale(expr, args[1].interval, args[0].real, false, out);
}

ROW(interval_divided)
{
    (void)work;
    if (args[1].real == 0) {
        return gy_fail(GY_NUMERIC, "division by zero: an interval / 0");
    }
    return scale(expr, args[0].interval, args[1].real, true, out);
}

enum {
    DATE = GY_FIELD_DATE,
    TIMESTAMP = GY_FIELD_TIMESTAMP,
    INTEGER = GY_FIELD_INT64,
    REAL = GY_FIELD_DOUBLE,
    INTERVAL = GY_EXPR_INTERVAL
};

/* A literal without a type takes that of the first line that fits. */
static const struct {
    const char *name;
    int left, right, result;
    gy_expr_row row;
} operators[] = {
    {"-", DATE, DATE, INTEGER, date_between},
    {"-", TIMESTAMP, TIMESTAMP, INTERVAL, time_between},
    {"+", TIMESTAMP, INTERVAL, TIMESTAMP, time_plus},
    {"+", INTERVAL, TIMESTAMP, TIMESTAMP, time_plus_turned},
    {"-", TIMESTAMP, INTERVAL, TIMESTAMP, time_minus},
    {"+", DATE, INTEGER, DATE, date_plus},
    {"+", INTEGER, DATE, DATE, date_plus},
    {"-", DATE, INTEGER, DATE, date_minus},
    {"+", INTERVAL, INTERVAL, INTERVAL, interval_plus},
    {"-", INTERVAL, INTERVAL, INTERVAL, interval_minus},
    {"*", INTERVAL, REAL, INTERVAL, interval_times},
    {"*", REAL, INTERVAL, INTERVAL, interval_times_turned},
    {"/", INTERVAL, REAL, INTERVAL, interval_divided},
};

static bool is_time(const gy_expr_type *type)
{
    const int of = gy_expr_class(type);
    return !type->is_unknown && (of == DATE || of == TIMESTAMP || of == INTERVAL);
}

gy_status gy_expr_time_operation(gy_expr_binder *in, const gy_sql_node *node,
                                 const gy_expr **args, bool *is_done, const gy_expr **out)
{
    *is_done = false;
    if (!is_time(&args[0]->type) && !is_time(&args[1]->type)) {
        return GY_OK;
    }
    for (size_t i = 0; i < GY_COUNT(operators); i++) {
        if (strcmp(operators[i].name, node->text) != 0 ||
            !gy_expr_is_implicit(&args[0]->type, operators[i].left) ||
            !gy_expr_is_implicit(&args[1]->type, operators[i].right)) {
            continue;
        }
        GY_TRY(gy_expr_to_class(in, &args[0], operators[i].left));
        GY_TRY(gy_expr_to_class(in, &args[1], operators[i].right));
        const gy_expr_spec spec = {
            .row = operators[i].row,
            .type = gy_expr_simple(operators[i].result,
                                   args[0]->type.is_nullable || args[1]->type.is_nullable),
            .args = args,
            .count = 2,
            .name = node->text,
            .place = node->place};
        *is_done = true;
        return gy_expr_make(in, &spec, out);
    }
    return GY_OK;
}

/* ---- parts of times ---- */

typedef enum part {
    MICROSECONDS,
    MILLISECONDS,
    SECOND,
    MINUTE,
    HOUR,
    DAY,
    WEEK,
    MONTH,
    QUARTER,
    YEAR,
    DECADE,
    CENTURY,
    MILLENNIUM,
    ISOYEAR,
    DOW,
    ISODOW,
    DOY,
    EPOCH
} part;

static const struct {
    const char *name;
    part part;
} part_names[] = {
    {"microseconds", MICROSECONDS},
    {"microsecond", MICROSECONDS},
    {"us", MICROSECONDS},
    {"milliseconds", MILLISECONDS},
    {"millisecond", MILLISECONDS},
    {"ms", MILLISECONDS},
    {"second", SECOND},
    {"seconds", SECOND},
    {"sec", SECOND},
    {"minute", MINUTE},
    {"minutes", MINUTE},
    {"min", MINUTE},
    {"hour", HOUR},
    {"hours", HOUR},
    {"h", HOUR},
    {"day", DAY},
    {"days", DAY},
    {"d", DAY},
    {"week", WEEK},
    {"weeks", WEEK},
    {"w", WEEK},
    {"month", MONTH},
    {"months", MONTH},
    {"mon", MONTH},
    {"quarter", QUARTER},
    {"qtr", QUARTER},
    {"year", YEAR},
    {"years", YEAR},
    {"y", YEAR},
    {"decade", DECADE},
    {"decades", DECADE},
    {"century", CENTURY},
    {"centuries", CENTURY},
    {"millennium", MILLENNIUM},
    {"millennia", MILLENNIUM},
    {"isoyear", ISOYEAR},
    {"dow", DOW},
    {"isodow", ISODOW},
    {"doy", DOY},
    {"epoch", EPOCH},
};

/* -1: none. */
static int part_of(gy_text_view text)
{
    for (size_t i = 0; i < GY_COUNT(part_names); i++) {
        if (strlen(part_names[i].name) == text.size_bytes &&
            strncasecmp(part_names[i].name, text.data, text.size_bytes) == 0) {
            return (int)part_names[i].part;
        }
    }
    return -1;
}

/* Monday of the ISO week, and the year that this week belongs to. */
static int32_t week_of(int32_t day, int *iso_year)
{
    int month = 0, of_month = 0;
    const int32_t monday = day - (int32_t)(((int64_t)day + 3 + 7 * INT64_C(1000000)) % 7);
    gy_frame_civil(monday + 3, iso_year, &month, &of_month); /* its Thursday's year */
    return monday;
}

/* Fields of a day. */
static int64_t part_of_day(part of, int32_t day)
{
    int year = 0, month = 0, of_month = 0, iso_year = 0;
    gy_frame_civil(day, &year, &month, &of_month);
    const int64_t weekday = ((int64_t)day + 4 + 7 * INT64_C(1000000)) % 7;
    switch (of) {
    case DAY:
        return of_month;
    case WEEK: {
        const int32_t monday = week_of(day, &iso_year);
        return (monday + 3 - gy_frame_days(iso_year, 1, 1)) / 7 + 1;
    }
    case MONTH:
        return month;
    case QUARTER:
        return (month - 1) / 3 + 1;
    case YEAR:
        return year;
    case DECADE:
        return year / 10;
    case CENTURY:
        return (year + 99) / 100;
    case MILLENNIUM:
        return (year + 999) / 1000;
    case ISOYEAR:
        (void)week_of(day, &iso_year);
        return iso_year;
    case DOW:
        return weekday;
    case ISODOW:
        return weekday == 0 ? 7 : weekday;
    case DOY:
        return day - gy_frame_days(year, 1, 1) + 1;
    case MICROSECONDS:
    case MILLISECONDS:
    case SECOND:
    case MINUTE:
    case HOUR:
    case EPOCH:
        break;
    }
    gy_panic("a part of a day's time");
}

/* Fields of a time of day (or of an interval's time), in units of the part's scale. */
static int64_t part_of_time(part of, int64_t micros)
{
    switch ((int)of) {
    case HOUR:
        return micros / (INT64_C(3600) * MICROS);
    case MINUTE:
        return micros / (INT64_C(60) * MICROS) % 60;
    default:
        return micros % (INT64_C(60) * MICROS);
    }
}

static bool is_of_time(int of)
{
    return of <= HOUR;
}

/* Places of a part's value. */
static int part_scale(int of, int from)
{
    return of == SECOND || (of == EPOCH && from != DATE) ? 6 : of == MILLISECONDS ? 3 : 0;
}

ROW(extract_day)
{
    (void)work;
    out->decimal = expr->op == EPOCH ? (gy_int128)args[0].integer * 86400
                                     : part_of_day((part)expr->op, (int32_t)args[0].integer);
    return GY_OK;
}

ROW(extract_time)
{
    (void)work;
    const int64_t days = gy_expr_days(args[0].integer);
    out->decimal = expr->op == EPOCH ? args[0].integer
                   : is_of_time(expr->op)
                       ? part_of_time((part)expr->op, args[0].integer - days * GY_MICROS_A_DAY)
                       : part_of_day((part)expr->op, (int32_t)days);
    return GY_OK;
}

ROW(extract_interval)
{
    (void)work;
    const gy_interval a = args[0].interval;
    const int years = a.months / 12, months = a.months % 12;
    switch (expr->op) {
    case DAY:
        out->decimal = a.days;
        return GY_OK;
    case MONTH:
        out->decimal = months;
        return GY_OK;
    case QUARTER:
        out->decimal = months / 3 + 1;
        return GY_OK;
    case YEAR:
        out->decimal = years;
        return GY_OK;
    case DECADE:
        out->decimal = years / 10;
        return GY_OK;
    case CENTURY:
        out->decimal = years / 100;
        return GY_OK;
    case MILLENNIUM:
        out->decimal = years / 1000;
        return GY_OK;
    case EPOCH: /* a year has 365.25 days there, a month 30 */
        out->decimal = ((gy_int128)years * 31557600 + (gy_int128)months * 30 * 86400 +
                        (gy_int128)a.days * 86400) *
                           MICROS +
                       a.micros;
        return GY_OK;
    default:
        out->decimal = part_of_time((part)expr->op, a.micros);
        return GY_OK;
    }
}

static gy_status no_part(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args)
{
    char type[48];
    const gy_text_view name = args[0]->cell.text;
    return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                         "unit \"%.*s\" is not one of type %s", (int)name.size_bytes, name.data,
                         gy_expr_type_text(&args[1]->type, type));
}

gy_status gy_expr_bind_extract(gy_expr_binder *in, const gy_sql_node *node,
                               const gy_expr **args, const gy_expr **out)
{
    const bool is_real = strcmp(node->text, "date_part") == 0;
    if (args[1]->type.is_unknown || (is_real && gy_expr_class(&args[1]->type) == DATE)) {
        GY_TRY(gy_expr_to_class(in, &args[1], TIMESTAMP));
    }
    const int from = gy_expr_class(&args[1]->type);
    if (!is_time(&args[1]->type) || !args[0]->is_constant || args[0]->cell.is_null ||
        gy_expr_class(&args[0]->type) != GY_FIELD_TEXT) {
        return gy_sql_refuse(in->scope->source, node->place, GY_TYPE,
                             "%s takes the name of a unit, and a date, timestamp or interval",
                             node->text);
    }
    const int of = part_of(args[0]->cell.text);
    const bool is_there = of >= 0 && (from != DATE || !is_of_time(of)) &&
                          (from != INTERVAL || (of != WEEK && of != ISOYEAR && of != DOW &&
                                                of != ISODOW && of != DOY));
    if (!is_there) {
        return no_part(in, node, args);
    }
    const int scale = part_scale(of, from);
    const int digits = from == INTERVAL && of == EPOCH ? 22 : 20; /* 2^31 months */
    const gy_expr_spec spec = {.row = from == DATE        ? extract_day
                                      : from == TIMESTAMP ? extract_time
                                                          : extract_interval,
                               .type =
                                   gy_expr_decimal(digits, scale, args[1]->type.is_nullable),
                               .args = gy_expr_pair(in, args[1], NULL),
                               .count = 1,
                               .op = of,
                               .name = node->text,
                               .place = node->place};
    if (spec.args == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_make(in, &spec, out));
    return is_real ? gy_expr_to_class(in, out, REAL) : GY_OK;
}

/* ---- date_trunc ---- */

static int32_t begin_of(part of, int32_t day)
{
    int year = 0, month = 0, of_month = 0;
    gy_frame_civil(day, &year, &month, &of_month);
    switch ((int)of) {
    case WEEK:
        return week_of(day, &year);
    case MONTH:
        return gy_frame_days(year, month, 1);
    case QUARTER:
        return gy_frame_days(year, (month - 1) / 3 * 3 + 1, 1);
    case YEAR:
        return gy_frame_days(year, 1, 1);
    case DECADE:
        return gy_frame_days(year / 10 * 10, 1, 1);
    case CENTURY:
        return gy_frame_days((year - 1) / 100 * 100 + 1, 1, 1);
    case MILLENNIUM:
        return gy_frame_days((year - 1) / 1000 * 1000 + 1, 1, 1);
    default:
        return day;
    }
}

ROW(trunc_row)
{
    static const int64_t units[] = {[MICROSECONDS] = 1,
                                    [MILLISECONDS] = 1000,
                                    [SECOND] = MICROS,
                                    [MINUTE] = INT64_C(60) * MICROS,
                                    [HOUR] = INT64_C(3600) * MICROS};
    (void)work;
    const int of = part_of(args[0].text);
    if (of < 0 || of >= ISOYEAR) {
        return gy_fail(GY_FORMAT, "date_trunc: unit \"%.*s\" is not one of type timestamp",
                       (int)GY_MIN(args[0].text.size_bytes, (size_t)60), args[0].text.data);
    }
    const int64_t days = gy_expr_days(args[1].integer);
    if (!is_of_time(of)) {
        return give_micros(expr, begin_of((part)of, (int32_t)days) * GY_MICROS_A_DAY, out);
    }
    const int64_t time = args[1].integer - days * GY_MICROS_A_DAY;
    out->integer = args[1].integer - time % units[of];
    return GY_OK;
}

const gy_expr_function gy_expr_times[] = {
    {"date_trunc", "tT", TIMESTAMP, trunc_row, .op = 0},
    {NULL, NULL, 0, NULL, .op = 0},
};
