/* Intervals from and to texts, as PostgreSQL writes and reads them. */
#include "query/values/values.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define MICROS_A_SECOND INT64_C(1000000)
#define MICROS_A_MINUTE INT64_C(60000000)
#define MICROS_AN_HOUR  INT64_C(3600000000)

/* What the modifier of an interval's type names: bits of PostgreSQL's grammar. */
enum {
    MONTH = 1 << 1,
    YEAR = 1 << 2,
    DAY = 1 << 3,
    HOUR = 1 << 10,
    MINUTE = 1 << 11,
    SECOND = 1 << 12,
    FIELDS = MONTH | YEAR | DAY | HOUR | MINUTE | SECOND
};

/* ---- writing ---- */

size_t gy_interval_write(gy_interval interval, char *out, size_t size_bytes)
{
    const int32_t parts[3] = {interval.months / 12, interval.months % 12, interval.days};
    static const char *const names[3][2] = {
        {"year", "years"}, {"mon", "mons"}, {"day", "days"}};
    size_t size = 0;
    bool was_negative = false;
    out[0] = '\0';
    for (int i = 0; i < 3; i++) {
        if (parts[i] != 0) {
            size += gy_print(out + size, size_bytes - size, "%s%s%d %s", size > 0 ? " " : "",
                             was_negative && parts[i] > 0 ? "+" : "", (int)parts[i],
                             names[i][parts[i] != 1]);
            was_negative = parts[i] < 0;
        }
    }
    if (interval.micros == 0 && size > 0) {
        return size;
    }
    const bool is_negative = interval.micros < 0;
    const uint64_t micros =
        is_negative ? 0 - (uint64_t)interval.micros : (uint64_t)interval.micros;
    const uint64_t seconds = micros / 1000000, rest = micros % 1000000;
    size +=
        gy_print(out + size, size_bytes - size, "%s%s%02llu:%02llu:%02llu", size > 0 ? " " : "",
                 is_negative    ? "-"
                 : was_negative ? "+"
                                : "",
                 (unsigned long long)(seconds / 3600), (unsigned long long)(seconds / 60 % 60),
                 (unsigned long long)(seconds % 60));
    if (rest != 0) {
        size += gy_print(out + size, size_bytes - size, ".%06llu", (unsigned long long)rest);
        while (out[size - 1] == '0') {
            out[--size] = '\0';
        }
    }
    return size;
}

/* ---- reading ---- */

typedef struct reader {
    const char *at, *end;
    double months, days, micros; /* so far */
    int seen;                    /* SEEN_…: each unit stands there once */
    bool has_any;
} reader;

/* Units that were seen. */
enum {
    SEEN_MONTH = 1 << 0,
    SEEN_YEAR = 1 << 1,
    SEEN_DECADE = 1 << 2,
    SEEN_CENTURY = 1 << 3,
    SEEN_MILLENNIUM = 1 << 4,
    SEEN_DAY = 1 << 5,
    SEEN_WEEK = 1 << 6,
    SEEN_HOUR = 1 << 7,
    SEEN_MINUTE = 1 << 8,
    SEEN_SECOND = 1 << 9,
    SEEN_MILLI = 1 << 10,
    SEEN_MICRO = 1 << 11,
    SEEN_PARTS = SEEN_SECOND | SEEN_MILLI | SEEN_MICRO, /* seconds with a fraction */
    SEEN_CLOCK = SEEN_HOUR | SEEN_MINUTE | SEEN_PARTS
};

/* False: one of them was seen before. */
static bool see(reader *in, int units)
{
    const bool is_new = (in->seen & units) == 0;
    in->seen |= units;
    return is_new;
}

static void skip(reader *in)
{
    while (in->at < in->end && (*in->at == ' ' || (*in->at >= '\t' && *in->at <= '\r'))) {
        in->at++;
    }
}

static bool is_digit(const reader *in)
{
    return in->at < in->end && *in->at >= '0' && *in->at <= '9';
}

/* "12", "12.5" or ".5"; false: it is none. */
static bool take_number(reader *in, double *value, bool *is_whole)
{
    const char *begin = in->at;
    double sum = 0, unit = 1;
    while (is_digit(in)) {
        sum = sum * 10 + (*in->at++ - '0');
    }
    *is_whole = in->at == in->end || *in->at != '.';
    if (!*is_whole) {
        in->at++;
        while (is_digit(in)) {
            unit *= 10;
            sum = sum * 10 + (*in->at++ - '0');
        }
    }
    *value = sum / unit;
    return in->at - begin > (*is_whole ? 0 : 1);
}

/* Add so many of a unit; what is no whole month is days of 30 a month, of a day its hours.
 * Years and what is longer are rounded to months. */
static void add_part(reader *in, double value, int months, double days, double micros)
{
    if (months > 0) {
        const double all = value * months, whole = months == 1 ? trunc(all) : rint(all);
        in->months += whole;
        if (months == 1) {
            const double extra = (all - whole) * 30, full = trunc(extra);
            in->days += full;
            in->micros += rint((extra - full) * (double)GY_MICROS_A_DAY);
        }
    } else if (days > 0) {
        const double all = value * days, whole = trunc(all);
        in->days += whole;
        in->micros += rint((all - whole) * (double)GY_MICROS_A_DAY);
    } else {
        in->micros += rint(value * micros);
    }
    in->has_any = true;
}

typedef struct unit {
    const char *name;
    int months;
    double days, micros;
} unit;

static int seen_of_months(int months)
{
    return months == 1      ? SEEN_MONTH
           : months == 12   ? SEEN_YEAR
           : months == 120  ? SEEN_DECADE
           : months == 1200 ? SEEN_CENTURY
                            : SEEN_MILLENNIUM;
}

/* Which one it is of those that stand once. */
static int seen_of(const unit *of, double value)
{
    if (of->months > 0) {
        return seen_of_months(of->months);
    }
    if (of->days > 0) {
        return of->days == 1 ? SEEN_DAY : SEEN_WEEK;
    }
    if (of->micros == 1e6) {
        return value == trunc(value) ? SEEN_SECOND : SEEN_PARTS;
    }
    return of->micros == 3600e6 ? SEEN_HOUR
           : of->micros == 60e6 ? SEEN_MINUTE
           : of->micros == 1e3  ? SEEN_MILLI
                                : SEEN_MICRO;
}

static bool add_unit(reader *in, double value, const unit *of)
{
    if (!see(in, seen_of(of, value))) {
        return false;
    }
    add_part(in, value, of->months, of->days, of->micros);
    return true;
}

static const unit units[] = {
    {"year", 12, 0, 0},
    {"years", 12, 0, 0},
    {"y", 12, 0, 0},
    {"yr", 12, 0, 0},
    {"yrs", 12, 0, 0},
    {"decade", 120, 0, 0},
    {"decades", 120, 0, 0},
    {"century", 1200, 0, 0},
    {"centuries", 1200, 0, 0},
    {"millennium", 12000, 0, 0},
    {"month", 1, 0, 0},
    {"months", 1, 0, 0},
    {"mon", 1, 0, 0},
    {"mons", 1, 0, 0},
    {"week", 0, 7, 0},
    {"weeks", 0, 7, 0},
    {"w", 0, 7, 0},
    {"day", 0, 1, 0},
    {"days", 0, 1, 0},
    {"d", 0, 1, 0},
    {"hour", 0, 0, 3600e6},
    {"hours", 0, 0, 3600e6},
    {"h", 0, 0, 3600e6},
    {"hr", 0, 0, 3600e6},
    {"hrs", 0, 0, 3600e6},
    {"minute", 0, 0, 60e6},
    {"minutes", 0, 0, 60e6},
    {"m", 0, 0, 60e6},
    {"min", 0, 0, 60e6},
    {"mins", 0, 0, 60e6},
    {"second", 0, 0, 1e6},
    {"seconds", 0, 0, 1e6},
    {"s", 0, 0, 1e6},
    {"sec", 0, 0, 1e6},
    {"secs", 0, 0, 1e6},
    {"millisecond", 0, 0, 1e3},
    {"milliseconds", 0, 0, 1e3},
    {"ms", 0, 0, 1e3},
    {"microsecond", 0, 0, 1},
    {"microseconds", 0, 0, 1},
    {"us", 0, 0, 1},
};

static const unit *take_unit(reader *in)
{
    const char *begin = in->at;
    while (in->at < in->end && (*in->at | 0x20) >= 'a' && (*in->at | 0x20) <= 'z') {
        in->at++;
    }
    const size_t size = (size_t)(in->at - begin);
    for (size_t i = 0; i < GY_COUNT(units); i++) {
        if (strlen(units[i].name) == size && strncasecmp(units[i].name, begin, size) == 0) {
            return &units[i];
        }
    }
    in->at = begin;
    return NULL;
}

static const unit *unit_named(const char *name)
{
    for (size_t i = 0; i < GY_COUNT(units); i++) {
        if (strcmp(units[i].name, name) == 0) {
            return &units[i];
        }
    }
    gy_panic("no unit %s", name);
}

/* The unit of a number that has none: the last of the fields, else seconds. */
static const unit *unit_of(int fields)
{
    static const struct {
        int field;
        const char *name;
    } all[] = {{SECOND, "second"}, {MINUTE, "minute"}, {HOUR, "hour"},
               {DAY, "day"},       {MONTH, "month"},   {YEAR, "year"}};
    const char *name = "second";
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        if ((fields & all[i].field) != 0) {
            name = all[i].name;
            break;
        }
    }
    return unit_named(name);
}

/* Behind "HH:": MM[:SS[.ffffff]]. Of minutes to seconds two numbers are these. */
static bool take_clock(reader *in, double sign, double hours, int fields)
{
    double minutes = 0, seconds = 0;
    bool is_whole = false;
    if (!take_number(in, &minutes, &is_whole) || minutes >= 60) {
        return false;
    }
    const bool has_more = is_whole && in->at < in->end && *in->at == ':';
    if (!is_whole || (!has_more && fields == (MINUTE | SECOND))) { /* "12:30.5", too */
        seconds = minutes;
        minutes = hours;
        hours = 0;
    } else if (has_more) {
        in->at++;
        if (!take_number(in, &seconds, &is_whole) || seconds >= 60) {
            return false;
        }
    }
    add_part(in, sign * hours, 0, 0, (double)MICROS_AN_HOUR);
    add_part(in, sign * minutes, 0, 0, (double)MICROS_A_MINUTE);
    add_part(in, sign * seconds, 0, 0, (double)MICROS_A_SECOND);
    return see(in, SEEN_CLOCK);
}

/* Whether a time of day follows: "4:05". */
static bool is_clock_next(const reader *in)
{
    const char *at = in->at;
    at += at < in->end && (*at == '-' || *at == '+');
    const char *digits = at;
    while (at < in->end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at > digits && at < in->end && *at == ':';
}

/* A part: "-3 days", "04:05", "1-2" (years and months), "7". */
static bool take_part(reader *in, int fields)
{
    double value = 0, more = 0;
    bool is_whole = false;
    const double sign = in->at < in->end && *in->at == '-' ? -1 : 1;
    in->at += in->at < in->end && (*in->at == '-' || *in->at == '+');
    if (!take_number(in, &value, &is_whole)) {
        return false;
    }
    if (in->at < in->end && *in->at == ':') {
        in->at++;
        return take_clock(in, sign, value, fields);
    }
    if (in->at < in->end && *in->at == '-' && is_whole) {
        in->at++;
        if (!take_number(in, &more, &is_whole) || more >= 12) {
            return false;
        }
        add_part(in, sign * value, 12, 0, 0);
        add_part(in, sign * more, 1, 0, 0);
        return see(in, SEEN_MONTH);
    }
    skip(in);
    const unit *found = take_unit(in);
    if (found == NULL && is_clock_next(in)) { /* "3 4:05" */
        found = unit_named("day");
    } else if (found == NULL) {
        if (in->at < in->end) {
            return false;
        }
        found = unit_of(fields);
    }
    return add_unit(in, sign * value, found);
}

/* ---- ISO 8601 ---- */

/* Behind "PYYYY-": MM-DD. */
static bool take_iso_date(reader *in, double years)
{
    double months = 0, days = 0;
    bool is_whole = false;
    in->at++;
    if (!take_number(in, &months, &is_whole) || !is_whole || in->at == in->end ||
        *in->at != '-') {
        return false;
    }
    in->at++;
    if (!take_number(in, &days, &is_whole) || !is_whole) {
        return false;
    }
    return add_unit(in, years, unit_named("year")) &&
           add_unit(in, months, unit_named("month")) && add_unit(in, days, unit_named("day"));
}

/* Behind "P": "1Y2M3DT4H5M6S" or "0001-02-03T04:05:06", to the end. */
static bool take_iso(reader *in)
{
    static const char letters[2][5] = {"YMWD", "HMS"};
    static const char *const names[2][4] = {{"year", "month", "week", "day"},
                                            {"hour", "minute", "second", NULL}};
    int part = 0; /* 1: behind the T */
    while (in->at < in->end) {
        double value = 0;
        bool is_whole = false;
        if (*in->at == 'T' && part == 0) {
            part = 1;
            in->at++;
        }
        const double sign = in->at < in->end && *in->at == '-' ? -1 : 1;
        in->at += in->at < in->end && (*in->at == '-' || *in->at == '+');
        if (!take_number(in, &value, &is_whole) || in->at == in->end) {
            return false;
        }
        const char *letter = strchr(letters[part], *in->at);
        bool is_done = false;
        if (letter != NULL && *letter != '\0') {
            in->at++;
            is_done =
                add_unit(in, sign * value, unit_named(names[part][letter - letters[part]]));
        } else if (*in->at == (part == 0 ? '-' : ':') && is_whole) {
            in->at += part;
            is_done =
                part == 0 ? take_iso_date(in, sign * value) : take_clock(in, sign, value, 0);
        }
        if (!is_done) {
            return false;
        }
    }
    return true;
}

/* An interval type without days and below has no such parts, and so on. */
static void cut_to(reader *in, int fields)
{
    const int lowest = fields & -fields;
    if ((fields & FIELDS) == 0) {
        return;
    }
    if ((fields & (DAY | HOUR | MINUTE | SECOND)) == 0) {
        in->days = in->micros = 0;
        in->months = (fields & MONTH) != 0 ? in->months : trunc(in->months / 12) * 12;
    } else if ((fields & SECOND) == 0) {
        const double unit_micros = (fields & MINUTE) != 0 ? (double)MICROS_A_MINUTE
                                   : (fields & HOUR) != 0 ? (double)MICROS_AN_HOUR
                                                          : 0;
        in->micros = unit_micros > 0 ? trunc(in->micros / unit_micros) * unit_micros : 0;
    }
    GY_ASSERT(lowest > 0);
}

bool gy_interval_read(gy_text_view text, int fields, gy_interval *out)
{
    reader in = {.at = text.data, .end = text.data + text.size_bytes};
    const int named = fields == 0x7FFF ? 0 : fields;
    bool is_ago = false;
    skip(&in);
    if (in.at < in.end && *in.at == 'P') {
        in.at++;
        if (!take_iso(&in)) {
            return false;
        }
    }
    for (; in.at < in.end; skip(&in)) {
        if (in.has_any && in.end - in.at >= 3 && strncasecmp(in.at, "ago", 3) == 0) {
            is_ago = true;
            in.at += 3;
            skip(&in);
            if (in.at < in.end) {
                return false;
            }
            break;
        }
        if ((*in.at == '@' && !in.has_any) && in.at++ != NULL) {
            continue;
        }
        if (!take_part(&in, named)) {
            return false;
        }
    }
    cut_to(&in, named);
    if (!in.has_any || !(fabs(in.months) <= INT32_MAX && fabs(in.days) <= INT32_MAX &&
                         fabs(in.micros) < 0x1p63)) { /* of NaN, too */
        return false;
    }
    const double turn = is_ago ? -1 : 1;
    *out = (gy_interval){(int32_t)(turn * in.months), (int32_t)(turn * in.days),
                         (int64_t)(turn * in.micros)};
    return true;
}
