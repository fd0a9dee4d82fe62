/**
 * Settings that come from environment variables: one list of names, one way to read a word of a
 * list. An empty value is as good as none.
 */
#ifndef GY_BASE_SETTING_H
#define GY_BASE_SETTING_H

#include <gyre/base.h>

/** The value of variable `name`; NULL when it is not set or empty. @threads any */
const char *gy_setting_get(const char *name);

/**
 * Which word of `choices` ("error|warn|info") the variable holds, counted from 0; *index stays
 * as it is when the variable is not set.
 *
 * @return GY_OK; GY_ARG it holds another word: names variable, value and choices
 * @threads any
 */
GY_MUST_CHECK gy_status gy_setting_choice(const char *name, const char *choices, int *index);

/**
 * A path of the user's: $VARIABLE/gyreNAME, or ~/UNDER/gyreNAME where the variable is not set.
 *
 * @param path (size_bytes) is filled in
 * @return GY_OK; GY_ARG neither variable nor HOME is set, or the path is too long
 * @threads any
 */
GY_MUST_CHECK gy_status gy_setting_user_path(const char *variable, const char *under,
                                             const char *name, char *path, size_t size_bytes);

/** gy_setting_choice for code that cannot fail: a wrong word is logged as a warning and
 * `fallback` holds. The caller keeps the answer, so that it is said once. */
int gy_setting_choose(const char *name, const char *choices, int fallback);

#endif
