/* Goal: what is kept are the k largest of a full sort, whatever the order of offers. */
#include "mapreduce/top.h"

#include "base/base.h"
#include "base/text.h"

#include "gy_test.h"

#include <string.h>

typedef struct offer {
    char key[12];
    size_t key_bytes;
    int64_t count;
} offer;

static int compare(const void *a, const void *b)
{
    const offer *first = a, *second = b;
    if (first->count != second->count) {
        return first->count > second->count ? -1 : 1;
    }
    const int order =
        memcmp(first->key, second->key, GY_MIN(first->key_bytes, second->key_bytes));
    return order != 0 ? order : (int)first->key_bytes - (int)second->key_bytes;
}

GY_TEST(the_largest_are_kept)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_cases(200); round++) {
        offer offers[300];
        const size_t count = gy_random_below(&random, 300), most = gy_random_below(&random, 40);
        const uint64_t values = round % 2 == 0 ? 4 : UINT64_MAX; /* ties; sums of 64 bits */
        for (size_t i = 0; i < count; i++) {                     /* each key once */
            offers[i].key_bytes =
                gy_print(offers[i].key, sizeof(offers[i].key), "%zx", i * 0x9E3779B1u % 65536);
            offers[i].count = (int64_t)gy_random_below(&random, values);
        }
        gy_top *top = NULL;
        assert_int_equal(gy_top_new(most, &top), GY_OK);
        for (size_t i = 0; i < count; i++) {
            char gone[12];
            memcpy(gone, offers[i].key, sizeof(gone));
            assert_int_equal(gy_top_add(top, gone, offers[i].key_bytes, offers[i].count),
                             GY_OK);
            memset(gone, 0, sizeof(gone));
        }
        qsort(offers, count, sizeof(*offers), compare);
        const size_t kept = gy_top_end(top);
        assert_int_equal(kept, GY_MIN(count, most));
        for (size_t i = 0; i < kept; i++) {
            const gy_top_row row = gy_top_get(top, i);
            assert_int_equal(row.count, offers[i].count);
            assert_int_equal(row.key_bytes, offers[i].key_bytes);
            assert_memory_equal(row.key, offers[i].key, row.key_bytes);
        }
        gy_top_free(top);
    }
}

GY_TEST(no_memory_leaves_nothing)
{
    const int64_t live = gy_alloc_live();
    gy_status status = GY_NOMEM;
    for (int n = 1; status != GY_OK; n++) {
        gy_top *top = NULL;
        gy_alloc_fail_after(n);
        status = gy_top_new(3, &top);
        for (int i = 0; status == GY_OK && i < 9; i++) {
            status = gy_top_add(top, "abcdefgh", (size_t)i, i);
        }
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_top_free(top);
        assert_int_equal(gy_alloc_live(), live);
    }
}

GY_TEST_MAIN(NULL, NULL)
