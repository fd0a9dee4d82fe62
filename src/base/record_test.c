/* Goal: a record of any fields is packed little-endian without holes, and comes back as it was.
 */
#include "base/record.h"

#include "gy_test.h"

#define GY_RECORDS "base/record_test.def"
#include "base/record.inc"

static const record_all all = {.one = 0x01,
                               .two = 0x1213,
                               .four = 0x21222324,
                               .minus = -2,
                               .eight = 0x3132333435363738,
                               .low = INT64_MIN,
                               .key = {.high = 1, .low = 0x4142434445464748},
                               .text = "end"};

GY_TEST(the_lowest_byte_comes_first)
{
    static const uint8_t expected[] = {
        0x01, 0x13, 0x12, 0x24, 0x23, 0x22, 0x21, 0xfe, 0xff, 0xff, 0xff, 0x38,
        0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0,    0,    0,    0,    0,
        0,    0,    0x80, 1,    0,    0,    0,    0,    0,    0,    0,    0x48,
        0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, 'e',  'n',  'd',  0,    0};
    const record_all_packed packed = record_all_pack(&all);
    assert_int_equal(sizeof(packed), sizeof(expected));
    assert_memory_equal(&packed, expected, sizeof(expected));
}

GY_TEST(it_comes_back_as_it_was)
{
    uint8_t bytes[2 * sizeof(record_all_packed) + 3];
    const record_all_packed packed = record_all_pack(&all);
    memcpy(bytes + 1, &packed, sizeof(packed)); /* at an odd address */
    memcpy(bytes + 1 + sizeof(packed), &packed, sizeof(packed));
    const uint8_t *at = bytes + 1;
    size_t left = sizeof(bytes) - 1;
    for (size_t i = 1; i <= 2; i++) {
        record_all taken;
        assert_true(record_all_take(&at, &left, &taken));
        assert_int_equal(at - bytes, 1 + i * sizeof(packed));
        assert_int_equal(taken.one, all.one);
        assert_int_equal(taken.two, all.two);
        assert_int_equal(taken.four, all.four);
        assert_int_equal(taken.minus, all.minus);
        assert_true(taken.eight == all.eight && taken.low == all.low);
        assert_true(gy_key_is_same(taken.key, all.key));
        assert_memory_equal(taken.text, all.text, sizeof(all.text));
    }
    assert_int_equal(left, 2);
}

GY_TEST(of_too_few_bytes_none_is_taken)
{
    const record_all_packed packed = record_all_pack(&all);
    for (size_t size = 0; size < sizeof(packed); size++) {
        record_all taken;
        const uint8_t *at = (const uint8_t *)&packed;
        size_t left = size;
        assert_false(record_all_take(&at, &left, &taken));
        assert_true(at == (const uint8_t *)&packed && left == size);
    }
}

GY_TEST_MAIN(NULL, NULL)
