/**
 * Settings that choose one of several things that are counted from 0, or none of them.
 */
#ifndef GY_BASE_SETTING_INDEX_H
#define GY_BASE_SETTING_INDEX_H

#include <gyre/base.h>

enum { GY_SETTING_NONE = -1, GY_SETTING_UNSET = -2 };

/**
 * The environment variable holds a number from 0 to 999, or the word `none` (GY_SETTING_NONE);
 * *index stays as it is when the variable is not set.
 *
 * @return GY_OK; GY_ARG it holds something else: names variable, value and what was expected
 * @threads any
 */
GY_MUST_CHECK gy_status gy_base_setting_index(const char *name, const char *none, int *index);

#endif
