/* Goal: a table that is told how far its input is takes the slots it will need at once, within
 * a quarter of its memory; growing in place loses no key, whatever their hashes; the memory of
 * one table serves the next. */
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
static int grow_with(const gy_mapreduce_progress *progress, uint64_t *done, size_t memory_bytes,
                     size_t *first_larger)
{
    gy_mapreduce_table *table = NULL;
    const gy_mapreduce_table_options options = {.fold = GY_FOLD_SUM,
                                                .memory_bytes = memory_bytes,
                                                .sample_items = SIZE_MAX,
                                                .progress = progress,
                                                .full = never_full};
    assert_int_equal(gy_mapreduce_table_new(&options, &table), GY_OK);
    int growths = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        char key[KEY_BYTES + 1];
        (void)snprintf(key, sizeof(key), "%016u", i * 2654435761u);
        gy_item item = {.key = key, .key_size = KEY_BYTES};
        item.number = 1;
        const size_t before = table->capacity;
        *done += KEY_BYTES;
        assert_int_equal(gy_mapreduce_table_add(table, &item, 1), GY_OK);
        if (table->capacity != before && before >= 16384) {
            *first_larger = growths++ == 0 ? table->capacity : *first_larger;
        }
        assert_true(table->used * 2 <= table->capacity);
    }
    size_t rows = 0;
    assert_int_equal(gy_mapreduce_table_visit(table, count_row, &rows), GY_OK);
    assert_int_equal(rows, KEYS);
    gy_mapreduce_table_free(table);
    return growths;
}

GY_TEST(slots_are_foreseen)
{
    uint64_t unused = 0;
    size_t first = 0;
    assert_int_equal(grow_with(NULL, &unused, 256 << 20, &first), 4); /* 2^14 to 2^18 */
    assert_int_equal(first, 32768);
    gy_mapreduce_progress progress = {.total = (uint64_t)KEYS * KEY_BYTES};
    assert_int_equal(grow_with(&progress, &progress.done, 256 << 20, &first), 2);
    assert_in_range(first, 157000, 168000); /* for 79,000 keys: text has fewer and fewer new */
}

GY_TEST(a_quarter_of_the_memory_is_the_most)
{
    size_t first = 0;
    gy_mapreduce_progress progress = {.total = UINT64_MAX};
    (void)grow_with(&progress, &progress.done, 8 << 20, &first);
    assert_int_equal(first, (8 << 20) / 4 / sizeof(gy_mapreduce_slot));
}

GY_TEST(what_is_done_may_be_more_than_all)
{
    size_t first = 0;
    gy_mapreduce_progress progress = {.done = 1 << 20, .total = 1}; /* of a compressed file */
    assert_int_equal(grow_with(&progress, &progress.done, 256 << 20, &first), 4);
}

typedef struct seen {
    size_t rows;
    int64_t sum;
    uint64_t last;
} seen;

static gy_status see_row(void *arg, const gy_row *row)
{
    seen *of = arg;
    assert_true(row->hash >= of->last);
    assert_true(row->hash ==
                gy_key_hash(row->key, row->key_size, gy_key_head_of(row->key, row->key_size)));
    of->last = row->hash;
    of->rows++;
    of->sum += row->number;
    return GY_OK;
}

static void add_key(gy_mapreduce_table *table, uint64_t kind)
{
    char key[GY_KEY_HEAD + sizeof(kind)] = {0};
    memcpy(key + kind % GY_KEY_HEAD, &kind, sizeof(kind)); /* below and above the head */
    gy_item item = {.key = key, .key_size = (uint32_t)(kind % GY_KEY_HEAD + sizeof(kind))};
    item.number = 3;
    assert_int_equal(gy_mapreduce_table_add(table, &item, 1), GY_OK);
}

/* The hash of add_key's key of a kind. */
static uint64_t hash_of(uint64_t kind)
{
    char key[GY_KEY_HEAD + sizeof(kind)] = {0};
    memcpy(key + kind % GY_KEY_HEAD, &kind, sizeof(kind));
    const size_t size = kind % GY_KEY_HEAD + sizeof(kind);
    return gy_key_hash(key, size, gy_key_head_of(key, size));
}

/* Keys of the last hashes crowd at the end of the slots, where there is no way round; others
 * come between, and slots grow by drawn steps. */
GY_TEST(crowded_slots_grow_in_place)
{
    enum { CROWD = 450, OTHERS = 30000, ROUNDS = 3 };
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < ROUNDS; round++) {
        gy_mapreduce_progress progress = {.done = 1, .total = 1 + gy_random_below(&random, 40)};
        const gy_mapreduce_table_options options = {.fold = GY_FOLD_SUM,
                                                    .memory_bytes = 64 << 20,
                                                    .sample_items = SIZE_MAX,
                                                    .progress = round == 0 ? NULL : &progress,
                                                    .full = never_full};
        gy_mapreduce_table *table = NULL;
        assert_int_equal(gy_mapreduce_table_new(&options, &table), GY_OK);
        const uint64_t base = gy_random_u64(&random) >> 8;
        uint64_t kind = base;
        for (size_t crowd = 0; crowd < CROWD; kind++) {
            if (hash_of(kind) >> 54 == 1023) {
                add_key(table, kind);
                crowd++;
            }
        }
        for (uint64_t i = 0; i < OTHERS; i++) {
            add_key(table, base + ((uint64_t)1 << 60) + (i << 20));
        }
        assert_false(gy_mapreduce_table_is_passing(table));
        for (uint64_t again = base; again < kind; again++) {
            if (hash_of(again) >> 54 == 1023) {
                add_key(table, again);
            }
        }
        const size_t keys = gy_mapreduce_table_size(table);
        assert_int_equal(keys, CROWD + OTHERS);
        seen all = {0};
        assert_int_equal(gy_mapreduce_table_visit(table, see_row, &all), GY_OK);
        assert_int_equal(all.rows, keys);
        assert_int_equal(all.sum, 3 * (2 * CROWD + OTHERS));
        gy_mapreduce_table_free(table);
    }
}

/* The second table finds the first one's bytes in its memory, and none of its keys; one with
 * another budget takes memory of its own size. */
GY_TEST(a_table_leaves_its_memory)
{
    gy_mapreduce_table_space *space = gy_mapreduce_table_space_new();
    assert_non_null(space);
    gy_mapreduce_table_options options = {.fold = GY_FOLD_SUM,
                                          .memory_bytes = 64 << 20,
                                          .sample_items = SIZE_MAX,
                                          .full = never_full,
                                          .space = space};
    const char *at = NULL;
    for (int round = 0; round < 3; round++) {
        const uint64_t keys = round == 1 ? 20 : 50000 * (uint64_t)(round + 1);
        gy_mapreduce_table *table = NULL;
        assert_int_equal(gy_mapreduce_table_new(&options, &table), GY_OK);
        assert_true(round == 0 || table->space.arena.at == at);
        assert_true(round == 0 || gy_mapreduce_table_bytes(table) > 1 << 20);
        at = table->space.arena.at;
        for (uint64_t i = 0; i < keys; i++) {
            add_key(table, i << 8 | (uint64_t)round);
        }
        seen all = {0};
        assert_int_equal(gy_mapreduce_table_visit(table, see_row, &all), GY_OK);
        assert_int_equal(all.rows, keys);
        assert_int_equal(all.sum, 3 * keys);
        gy_mapreduce_table_free(table);
        assert_ptr_equal(space->arena.at, at);
    }
    options.memory_bytes = 32 << 20;
    gy_mapreduce_table *table = NULL;
    assert_int_equal(gy_mapreduce_table_new(&options, &table), GY_OK);
    assert_true(gy_mapreduce_table_bytes(table) < 1 << 20);
    assert_true(table->space.arena.reserved == 32 << 20);
    gy_mapreduce_table_free(table);
    gy_mapreduce_table_space_free(space);
}

static gy_status count_and_clear(void *arg)
{
    gy_mapreduce_table **table = arg;
    gy_mapreduce_table_clear(*table);
    return GY_OK;
}

/* What one table left unused gives way when another part of the budget is short: as many keys
 * fit as into new memory. */
GY_TEST(what_was_left_counts_once)
{
    gy_mapreduce_table_space *space = gy_mapreduce_table_space_new();
    assert_non_null(space);
    size_t most[2] = {0, 0};
    for (int round = 0; round < 2; round++) {
        gy_mapreduce_table *table = NULL;
        gy_mapreduce_table_options options = {.fold = GY_FOLD_SUM,
                                              .memory_bytes = 1 << 20,
                                              .sample_items = SIZE_MAX,
                                              .full = count_and_clear,
                                              .arg = &table,
                                              .space = space};
        if (round == 1) { /* a table that left nothing but slots */
            gy_mapreduce_progress progress = {.done = 1, .total = 1};
            gy_mapreduce_table_options before = options;
            before.progress = &progress;
            assert_int_equal(gy_mapreduce_table_new(&before, &table), GY_OK);
            assert_int_equal(gy_region_grow(&table->space.slots, 900 << 10), GY_OK);
            gy_mapreduce_table_free(table);
            table = NULL;
        }
        assert_int_equal(gy_mapreduce_table_new(&options, &table), GY_OK);
        for (uint64_t i = 0; table->clears == 0; i++) {
            most[round] = GY_MAX(most[round], gy_mapreduce_table_size(table));
            add_key(table, i << 8);
            assert_true(gy_mapreduce_table_bytes(table) <= 1 << 20);
        }
        gy_mapreduce_table_free(table);
        gy_mapreduce_table_space_empty(space);
    }
    assert_true(most[0] > 10000);
    assert_int_equal(most[1], most[0]);
    gy_mapreduce_table_space_free(space);
}

GY_TEST_MAIN(NULL, NULL)
