/* Goal: a table that is told how far its input is takes the slots it will need at once, within
 * a quarter of its memory, and holds the same keys. */
#include "base/base.h"
#include "mapreduce/table_priv.h"

#include "gy_test.h"

enum { KEYS = 100000, KEY_BYTES = 16 };

static gy_status never_full(void *arg)
{
    (void)arg;
    return gy_fail(GY_LIMIT, "the table is full");
}

static gy_status count_row(void *arg, const gy_row *row)
{
    assert_int_equal(row->number, 1);
    ++*(size_t *)arg;
    return GY_OK;
}

/* Add KEYS keys, all different; how often the slots grew once there were 16384. */
static int grow_with(const gy_progress *progress, uint64_t *done, size_t memory_bytes,
                     size_t *first_larger)
{
    gy_table *table = NULL;
    const gy_table_options options = {.fold = GY_FOLD_SUM,
                                      .memory_bytes = memory_bytes,
                                      .sample_items = SIZE_MAX,
                                      .progress = progress,
                                      .full = never_full};
    assert_int_equal(gy_table_new(&options, &table), GY_OK);
    int growths = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        char key[KEY_BYTES + 1];
        (void)snprintf(key, sizeof(key), "%016u", i * 2654435761u);
        gy_item item = {.key = key, .key_size = KEY_BYTES};
        item.number = 1;
        const size_t before = table->capacity;
        *done += KEY_BYTES;
        assert_int_equal(gy_table_add(table, &item, 1), GY_OK);
        if (table->capacity != before && before >= 16384) {
            *first_larger = growths++ == 0 ? table->capacity : *first_larger;
        }
        assert_true(table->used * 2 <= table->capacity);
    }
    size_t rows = 0;
    assert_int_equal(gy_table_visit(table, count_row, &rows), GY_OK);
    assert_int_equal(rows, KEYS);
    gy_table_free(table);
    return growths;
}

static void slots_are_foreseen(void **state)
{
    (void)state;
    uint64_t unused = 0;
    size_t first = 0;
    assert_int_equal(grow_with(NULL, &unused, 256 << 20, &first), 4); /* 2^14 to 2^18 */
    assert_int_equal(first, 32768);
    gy_progress progress = {.total = (uint64_t)KEYS * KEY_BYTES};
    assert_int_equal(grow_with(&progress, &progress.done, 256 << 20, &first), 2);
    assert_int_equal(first, 131072); /* for 54,000 keys: text has fewer and fewer new ones */
}

static void a_quarter_of_the_memory_is_the_most(void **state)
{
    (void)state;
    size_t first = 0;
    gy_progress progress = {.total = UINT64_MAX};
    (void)grow_with(&progress, &progress.done, 64 << 20, &first);
    assert_int_equal(first, (64 << 20) / 4 / sizeof(gy_slot));
}

static void what_is_done_may_be_more_than_all(void **state)
{
    (void)state;
    size_t first = 0;
    gy_progress progress = {.done = 1 << 20, .total = 1}; /* of a compressed file */
    assert_int_equal(grow_with(&progress, &progress.done, 256 << 20, &first), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_are_foreseen),
                                       cmocka_unit_test(a_quarter_of_the_memory_is_the_most),
                                       cmocka_unit_test(what_is_done_may_be_more_than_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
