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
    int seen;                    /* units, as bits of a list */
    bool has_any;
} reader;

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
    for (size_t i = 0; i < GY_COUNT(units); i++) {
        if (strcmp(units[i].name, name) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

/* Behind "HH:": MM[:SS[.ffffff]]. */
static bool take_clock(reader *in, double sign, double hours)
{
    double minutes = 0, seconds = 0;
    bool is_whole = false;
    if (!take_number(in, &minutes, &is_whole) || minutes >= 60) {
        return false;
    }
    if (!is_whole) { /* "12:30.5" is minutes and seconds */
        seconds = minutes;
        minutes = hours;
        hours = 0;
    } else if (in->at < in->end && *in->at == ':') {
        in->at++;
        if (!take_number(in, &seconds, &is_whole) || seconds >= 60) {
            return false;
        }
    }
    add_part(in, sign * hours, 0, 0, (double)MICROS_AN_HOUR);
    add_part(in, sign * minutes, 0, 0, (double)MICROS_A_MINUTE);
    add_part(in, sign * seconds, 0, 0, (double)MICROS_A_SECOND);
    return true;
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
        return take_clock(in, sign, value);
    }
    if (in->at < in->end && *in->at == '-' && is_whole) {
        in->at++;
        if (!take_number(in, &more, &is_whole) || more >= 12) {
            return false;
        }
        add_part(in, sign * value, 12, 0, 0);
        add_part(in, sign * more, 1, 0, 0);
        return true;
    }
    skip(in);
    const unit *found = take_unit(in);
    if (found == NULL) {
        if (in->at < in->end) {
            return false;
        }
        found = unit_of(fields);
    }
    add_part(in, sign * value, found->months, found->days, found->micros);
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
    for (skip(&in); in.at < in.end; skip(&in)) {
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
