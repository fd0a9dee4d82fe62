/* Goal: options structs of older, equal and later callers are taken or refused by name. */
#include "base/base.h"

#include <string.h>

#include "gy_test.h"

typedef struct now_options {
    size_t struct_size;
    int workers;
    int64_t budget;
} now_options;

typedef struct old_options {
    size_t struct_size;
    int workers, gap;
} old_options;

typedef struct later_options {
    size_t struct_size;
    int workers;
    int64_t budget;
    double later;
} later_options;

static gy_status take(now_options *known, const void *options)
{
    return gy_options_take(now_options, known, options);
}

GY_TEST(no_options_are_the_defaults)
{
    now_options known;
    memset(&known, 0x55, sizeof(known));
    assert_int_equal(take(&known, NULL), GY_OK);
    assert_int_equal(known.struct_size, sizeof(known));
    assert_int_equal(known.workers, 0);
    assert_int_equal(known.budget, 0);
}

GY_TEST(a_size_of_zero_is_the_size_of_today)
{
    now_options known, given = {.workers = 3, .budget = 1 << 20};
    assert_int_equal(take(&known, &given), GY_OK);
    assert_int_equal(known.struct_size, sizeof(known));
    assert_int_equal(known.workers, 3);
    assert_int_equal(known.budget, 1 << 20);
    given = GY_OPTIONS(now_options, .workers = 4);
    assert_int_equal(given.struct_size, sizeof(given));
    assert_int_equal(take(&given, &given), GY_OK); /* in place */
    assert_int_equal(given.workers, 4);
}

GY_TEST(a_shorter_struct_leaves_later_members_alone)
{
    struct {
        old_options options;
        unsigned char behind[16]; /* what happens to lie behind an older caller's struct */
    } given = {.options = GY_OPTIONS(old_options, .workers = 5)};
    memset(given.behind, 0x55, sizeof(given.behind));
    now_options known;
    memset(&known, 0x55, sizeof(known));
    assert_int_equal(take(&known, &given), GY_OK);
    assert_int_equal(known.workers, 5);
    assert_int_equal(known.budget, 0);
}

GY_TEST(a_longer_struct_may_set_what_is_known_alone)
{
    later_options given = GY_OPTIONS(later_options, .workers = 6, .budget = 9);
    now_options known;
    assert_int_equal(take(&known, &given), GY_OK);
    assert_int_equal(known.workers, 6);
    assert_int_equal(known.budget, 9);
    given.later = 1;
    known.workers = 1;
    assert_int_equal(take(&known, &given), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "now_options: struct_size is 32"));
    assert_int_equal(known.workers, 1);
}

GY_TEST(a_size_that_is_none_is_refused_by_name)
{
    now_options known = {.workers = 1}, given = {.struct_size = 4};
    assert_int_equal(take(&known, &given), GY_ARG);
    assert_string_equal(gy_error_text(), "now_options: struct_size is 4, expected 0 or "
                                         "sizeof(now_options)");
    assert_int_equal(known.workers, 1);
}

GY_TEST_MAIN(NULL, NULL)
