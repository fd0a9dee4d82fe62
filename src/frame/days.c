/* Days of the Gregorian calendar.
 * Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
#include "frame/frame.h"

int32_t gy_frame_days(int year, int month, int day)
{
    const int y = year - (month <= 2), era = y / 400, of_era = y - era * 400;
    const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    GY_ASSERT(month >= 1 && month <= 12);
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void gy_frame_civil(int32_t days, int *year, int *month, int *day)
{
    const int64_t z = (int64_t)days + 719468;
    const int64_t era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
    const int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    const int64_t shifted = (5 * of_year + 2) / 153;
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = (int)(y + era * 400) + (*month <= 2);
    *day = (int)(of_year - (153 * shifted + 2) / 5 + 1);
}

int gy_frame_month_days(int year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    GY_ASSERT(month >= 1 && month <= 12);
    return lengths[month - 1] + (month == 2 && is_leap);
}
