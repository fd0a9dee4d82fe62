/* Goal: a region's bytes are zeros until written, stay where they are while it grows, are gone
 * when trimmed; a limit on addresses makes it smaller, not impossible. */
#include "base/base.h"
#include "mapreduce/region.h"

#include <string.h>
#include <sys/resource.h>

#include "gy_test.h"

enum { MIB = 1 << 20 };

static bool is_zero(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

GY_TEST(bytes_stay_while_it_grows)
{
    gy_region region;
    assert_ok(gy_region_reserve(&region, 10 * MIB + 5, MIB));
    assert_int_equal(region.reserved, 10 * MIB + GY_REGION_PAGE);
    assert_int_equal(region.bytes, 0);
    size_t written = 0;
    const char *at = region.at;
    for (size_t size = 1; size <= 8 * MIB; size = size * 3 + 1) {
        assert_ok(gy_region_grow(&region, size));
        assert_true(region.bytes >= size && region.bytes < size + GY_REGION_PAGE);
        assert_ptr_equal(region.at, at);
        assert_true(is_zero(region.at + written, region.bytes - written));
        memset(region.at + written, 7, region.bytes - written);
        written = region.bytes;
    }
    assert_ok(gy_region_grow(&region, 1)); /* never smaller */
    assert_int_equal(region.bytes, written);
    gy_region_trim(&region, MIB + 1);
    assert_int_equal(region.bytes, MIB + GY_REGION_PAGE);
    assert_int_equal(region.at[MIB], 7);
    assert_ok(gy_region_grow(&region, region.reserved));
    assert_true(
        is_zero(region.at + MIB + GY_REGION_PAGE, region.reserved - MIB - GY_REGION_PAGE));
    gy_region_release(&region);
    assert_null(region.at);
    gy_region_release(&region);
}

GY_TEST(a_limit_makes_it_smaller)
{
    struct rlimit before;
    long pages = 0;
    if (gy_test_cases(8) == 1) {
        printf("skipped: sanitizers take address space of their own\n");
        skip();
    }
    FILE *file = fopen("/proc/self/statm", "rb");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit tight = {.rlim_cur = (rlim_t)pages * 4096 + ((rlim_t)100 * MIB),
                                 .rlim_max = before.rlim_max};
    gy_region region, none;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const gy_status status = gy_region_reserve(&region, (size_t)1 << 40, MIB);
    const gy_status refused = gy_region_reserve(&none, (size_t)1 << 40, 90 * MIB);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_ok(status);
    assert_int_equal(region.reserved, 64 * MIB);
    assert_int_equal(refused, GY_NOMEM);
    assert_non_null(strstr(gy_error_text(), "1099511627776 bytes of addresses"));
    gy_region_release(&region);
}

GY_TEST_MAIN(NULL, NULL)
