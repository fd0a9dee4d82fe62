/**
 * Settings that are numbers: those that choose some of several things, counted from 0, or none
 * of them, and seconds.
 */
#ifndef GY_BASE_SETTING_NUMBERS_H
#define GY_BASE_SETTING_NUMBERS_H

#include <gyre/base.h>

enum { GY_SETTING_NUMBERS_MAX = 64 };

/** Zero: nothing is said. */
typedef struct gy_setting_numbers {
    bool is_said; /* then neither is_auto nor numbers: none */
    bool is_auto;
    int count;
    int numbers[GY_SETTING_NUMBERS_MAX]; /* (count) */
} gy_setting_numbers;

/**
 * Read "none", "auto", a number from 0 to 999, or several of them with commas between.
 *
 * @param name   of the option or variable, for the message
 * @param value  NULL: nothing is said
 * @return GY_OK; GY_ARG it is something else: names it, the value and what was expected
 * @threads any
 */
GY_MUST_CHECK gy_status gy_base_setting_numbers(const char *name, const char *value,
                                                gy_setting_numbers *numbers);

/**
 * A variable with a number of seconds, above 0 and up to 1e9; *seconds stays as it is when the
 * variable is not set.
 *
 * @return GY_OK; GY_ARG it holds something else: names variable and value
 * @threads any
 */
GY_MUST_CHECK gy_status gy_base_setting_seconds(const char *name, double *seconds);

#endif
