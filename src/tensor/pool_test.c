/* Goal: a range pool gives aligned pieces that never overlap, joins what is given back, and
 * says when it is full. */
#include "base/base.h"
#include "tensor/tensor.h"

#include <string.h>

#include "gy_test.h"

enum { RANGE_BYTES = 64 * 1024 };

static _Alignas(64) unsigned char range[RANGE_BYTES];

GY_TEST(full_pool_says_so_and_recovers)
{
    gy_pool *pool = NULL;
    assert_ok(gy_pool_new(range, 1024, &pool));
    void *all = gy_pool_take(pool, 1024);
    assert_non_null(all);
    assert_null(gy_pool_take(pool, 1));
    assert_string_equal(
        gy_error_text(),
        "pool exhausted: requested 64 bytes, largest free block 0, 1024 of 1024 in use");
    gy_pool_give(pool, all);
    void *a = gy_pool_take(pool, 400), *b = gy_pool_take(pool, 500);
    assert_ptr_equal(a, all);
    assert_non_null(b);
    gy_pool_give(pool, a);
    assert_null(gy_pool_take(pool, 512)); /* 448 free in front, 64 behind */
    assert_null(gy_pool_take(pool, SIZE_MAX));
    gy_pool_give(pool, b);
    gy_pool_give(pool, NULL);
    assert_ptr_equal(gy_pool_take(pool, 1000), all); /* all joined again */
    gy_pool_give(pool, all);
    gy_pool_free(pool);
    gy_pool_free(NULL);
}

GY_TEST(bad_ranges_are_refused)
{
    gy_pool *pool = NULL;
    assert_status(gy_pool_new(NULL, 4096, &pool), GY_ARG);
    assert_status(gy_pool_new(range, 63, &pool), GY_ARG);
    assert_status(gy_pool_new(range + 1, 126, &pool), GY_ARG);
    assert_null(pool);
    assert_ok(gy_pool_new(range + 1, 127, &pool)); /* 63 lost to alignment */
    void *piece = gy_pool_take(pool, 64);
    assert_ptr_equal(piece, range + 64);
    gy_pool_give(pool, piece);
    gy_pool_free(pool);
    int64_t live = gy_alloc_live();
    for (int n = 1; n <= 2; n++) {
        gy_alloc_fail_after(n);
        assert_status(gy_pool_new(range, RANGE_BYTES, &pool), GY_NOMEM);
    }
    gy_alloc_fail_after(0);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(random_takes_never_overlap)
{
    gy_random random = {.key = gy_test_seed()};
    gy_pool *pool = NULL;
    assert_ok(gy_pool_new(range, RANGE_BYTES, &pool));
    struct {
        unsigned char *data;
        size_t size;
    } taken[200] = {{NULL, 0}};
    for (int round = 0; round < 20000; round++) {
        size_t at = gy_random_below(&random, GY_COUNT(taken));
        if (taken[at].data != NULL) {
            for (size_t i = 0; i < taken[at].size; i++) { /* nobody else wrote here */
                if (taken[at].data[i] != (unsigned char)at) {
                    fail_msg("byte %zu of piece %zu was overwritten", i, at);
                }
            }
            gy_pool_give(pool, taken[at].data);
            taken[at].data = NULL;
            continue;
        }
        taken[at].size = gy_random_below(&random, 1500);
        taken[at].data = gy_pool_take(pool, taken[at].size);
        if (taken[at].data != NULL) {
            assert_int_equal((uintptr_t)taken[at].data % 64, 0);
            assert_true(taken[at].data + taken[at].size <= range + RANGE_BYTES);
            memset(taken[at].data, (int)at, taken[at].size);
        }
    }
    for (size_t at = 0; at < GY_COUNT(taken); at++) {
        gy_pool_give(pool, taken[at].data);
    }
    assert_int_equal(gy_pool_used_bytes(pool), 0);
    void *all = gy_pool_take(pool, RANGE_BYTES); /* everything was joined */
    assert_non_null(all);
    assert_int_equal(gy_pool_piece_count(pool), 1);
    gy_pool_give(pool, all);
    gy_pool_free(pool);
}

GY_TEST(a_book_that_cannot_grow_leaves_the_pool_whole)
{
    gy_pool *pool = NULL;
    void *pieces[64];
    assert_ok(gy_pool_new(range, RANGE_BYTES, &pool));
    for (size_t i = 0; i < 63; i++) { /* the book has room for 64 pieces */
        pieces[i] = gy_pool_take(pool, 64);
        assert_non_null(pieces[i]);
    }
    gy_alloc_fail_after(1);
    assert_null(gy_pool_take(pool, 64));
    gy_alloc_fail_after(0);
    assert_int_equal(gy_pool_piece_count(pool), 63);
    pieces[63] = gy_pool_take(pool, 64);
    assert_non_null(pieces[63]);
    for (size_t i = 0; i < 64; i++) {
        gy_pool_give(pool, pieces[i]);
    }
    gy_pool_free(pool);
}

static void *take_and_give(void *arg)
{
    gy_pool *pool = arg;
    gy_random random = {.key = (uint64_t)(uintptr_t)&random};
    for (int i = 0; i < 3000; i++) {
        size_t size = 1 + gy_random_below(&random, 900);
        unsigned char *data = gy_pool_take(pool, size);
        if (data != NULL) {
            memset(data, i & 0xff, size);
            GY_ASSERT(data[size - 1] == (unsigned char)(i & 0xff));
            gy_pool_give(pool, data);
        }
    }
    return NULL;
}

GY_TEST(threads_share_a_pool)
{
    gy_pool *pool = NULL;
    assert_ok(gy_pool_new(range, 8192, &pool));
    gy_thread threads[4] = {{.is_started = false}};
    for (size_t i = 0; i < GY_COUNT(threads); i++) {
        assert_ok(gy_thread_start(&threads[i], "pool", take_and_give, pool));
    }
    for (size_t i = 0; i < GY_COUNT(threads); i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(gy_pool_used_bytes(pool), 0);
    gy_pool_free(pool);
}

GY_TEST(heap_pool_aligns_and_counts_nothing)
{
    int64_t live = gy_alloc_live();
    void *piece = gy_pool_take(gy_pool_heap(), 0);
    assert_non_null(piece);
    assert_int_equal((uintptr_t)piece % 64, 0);
    assert_int_equal(gy_pool_used_bytes(gy_pool_heap()), 0);
    assert_int_equal(gy_pool_piece_count(gy_pool_heap()), 0);
    gy_pool_give(gy_pool_heap(), piece);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST_MAIN(NULL, NULL)
