/* Goal: the hash index finds what a plain list finds, through growth, removal and collisions.
 */
#include "base/index.h"

#include "gy_test.h"

enum { KEYS = 3000, CLUSTER = 40 };

static gy_key key_of(uint32_t number)
{
    return gy_key_of(&number, sizeof(number));
}

/* Each key is where `is_there` says, with its own value. */
static void check(const gy_index *table, const bool *is_there, gy_key (*key)(uint32_t number))
{
    size_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(gy_index_find(table, key(i)), is_there[i] ? i * 2 : GY_NONE);
        count += is_there[i];
    }
    assert_int_equal(table->count, count);
}

/* Add all, remove every third, add half of those again, remove all. */
static void go_through(gy_key (*key)(uint32_t number))
{
    static bool is_there[KEYS];
    gy_index table = {.cells = NULL};
    check(&table, is_there, key);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(gy_index_put(&table, key(i), i * 2), GY_OK);
        is_there[i] = true;
    }
    check(&table, is_there, key);
    for (uint32_t i = 0; i < KEYS; i += 3) {
        gy_index_remove(&table, key(i));
        is_there[i] = false;
    }
    gy_index_remove(&table, key(0)); /* it is not there any more */
    check(&table, is_there, key);
    for (uint32_t i = 0; i < KEYS; i += 6) {
        assert_int_equal(gy_index_put(&table, key(i), i * 2), GY_OK);
        is_there[i] = true;
    }
    check(&table, is_there, key);
    const size_t bytes = gy_index_bytes(&table);
    assert_true(bytes >= KEYS * sizeof(gy_index_cell));
    for (uint32_t i = KEYS; i-- > 0;) {
        gy_index_remove(&table, key(i));
        is_there[i] = false;
    }
    check(&table, is_there, key);
    assert_int_equal(gy_index_bytes(&table), bytes); /* it does not shrink */
    gy_index_free(&table);
    assert_int_equal(gy_index_bytes(&table), 0);
}

GY_TEST(hashes_are_found_through_growth_and_removal)
{
    go_through(key_of);
}

/* Clusters of keys that begin at one cell whatever the size of the table. */
static gy_key colliding(uint32_t number)
{
    return (gy_key){.high = (uint64_t)number << 32, .low = number / CLUSTER};
}

GY_TEST(keys_that_collide_are_told_apart)
{
    go_through(colliding);
}

GY_TEST(numbers_follow_the_order_of_arrival)
{
    gy_index table = {.cells = NULL};
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < KEYS; i++) {
            uint32_t number = GY_NONE;
            assert_int_equal(gy_index_number(&table, key_of(i), &number), GY_OK);
            assert_int_equal(number, i);
        }
    }
    assert_int_equal(table.count, KEYS);
    gy_index_free(&table);
}

GY_TEST(without_memory_the_table_is_as_before)
{
    gy_index table = {.cells = NULL};
    uint32_t number = 7;
    gy_alloc_fail_after(1);
    assert_int_equal(gy_index_number(&table, key_of(0), &number), GY_NOMEM);
    gy_alloc_fail_after(0);
    assert_int_equal(number, 7);
    assert_int_equal(table.count, 0);
    assert_int_equal(gy_index_find(&table, key_of(0)), GY_NONE);
    assert_int_equal(gy_index_number(&table, key_of(0), &number), GY_OK);
    assert_int_equal(number, 0);
    gy_index_free(&table);
}

GY_TEST_MAIN(NULL, NULL)
