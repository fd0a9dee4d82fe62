/* Goal: slices, permutations, reshapes and copies of random tensors equal a plain index oracle;
 * errors name shapes. */
#include "base/base.h"
#include "tensor/tensor.h"

#include <string.h>

#include "gy_test.h"

enum { MOST = 4096 };

/* What a tensor should hold: sizes and row-major values. */
typedef struct oracle {
    int rank;
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int64_t count;
    double values[MOST];
} oracle;

static void unravel(const oracle *from, int64_t index, int64_t place[GY_TENSOR_RANK_MAX])
{
    for (int dim = from->rank - 1; dim >= 0; dim--) {
        place[dim] = index % from->sizes[dim];
        index /= from->sizes[dim];
    }
}

static int64_t ravel(const oracle *in, const int64_t place[GY_TENSOR_RANK_MAX])
{
    int64_t index = 0;
    for (int dim = 0; dim < in->rank; dim++) {
        index = index * in->sizes[dim] + place[dim];
    }
    return index;
}

static void recount(oracle *of)
{
    of->count = 1;
    for (int dim = 0; dim < of->rank; dim++) {
        of->count *= of->sizes[dim];
    }
}

static void oracle_slice(oracle *of, int dim, int64_t begin, int64_t end, int64_t step)
{
    static oracle old;
    old = *of;
    of->sizes[dim] = (end - begin + step - 1) / step;
    recount(of);
    for (int64_t i = 0; i < of->count; i++) {
        int64_t place[GY_TENSOR_RANK_MAX];
        unravel(of, i, place);
        place[dim] = begin + place[dim] * step;
        of->values[i] = old.values[ravel(&old, place)];
    }
}

static void oracle_permute(oracle *of, const int *dims)
{
    static oracle old;
    old = *of;
    for (int dim = 0; dim < of->rank; dim++) {
        of->sizes[dim] = old.sizes[dims[dim]];
    }
    for (int64_t i = 0; i < of->count; i++) {
        int64_t place[GY_TENSOR_RANK_MAX], from[GY_TENSOR_RANK_MAX];
        unravel(of, i, place);
        for (int dim = 0; dim < of->rank; dim++) {
            from[dims[dim]] = place[dim];
        }
        of->values[i] = old.values[ravel(&old, from)];
    }
}

static void expect_equal(gy_tensor *tensor, const oracle *expected)
{
    assert_int_equal(gy_tensor_rank(tensor), expected->rank);
    assert_int_equal(gy_tensor_count(tensor), expected->count);
    for (int dim = 0; dim < expected->rank; dim++) {
        assert_int_equal(gy_tensor_size(tensor, dim), expected->sizes[dim]);
    }
    for (int64_t i = 0; i < expected->count; i++) {
        if (gy_tensor_get(tensor, i) != expected->values[i]) {
            fail_msg("element %lld is %g, expected %g", (long long)i, gy_tensor_get(tensor, i),
                     expected->values[i]);
        }
    }
}

static void random_shape(gy_random *random, oracle *out)
{
    out->rank = (int)gy_random_below(random, 6);
    for (int dim = 0; dim < out->rank; dim++) {
        out->sizes[dim] = (int64_t)gy_random_below(random, 12) == 0
                              ? 0
                              : 1 + (int64_t)gy_random_below(random, 5);
    }
    recount(out);
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = (double)gy_random_below(random, 128);
    }
}

static gy_tensor *make(const oracle *from, gy_dtype dtype, gy_pool *pool)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_zeros(pool, dtype, from->sizes, from->rank, &tensor));
    for (int64_t i = 0; i < from->count; i++) {
        gy_tensor_set(tensor, i, from->values[i]);
    }
    return tensor;
}

/* One random step on both; the tensor is replaced. */
static void random_step(gy_random *random, gy_tensor **tensor, oracle *expected)
{
    gy_tensor *next = NULL;
    const uint64_t kind = gy_random_below(random, 3);
    if (kind == 0 && expected->rank > 0) {
        int dim = (int)gy_random_below(random, (uint64_t)expected->rank);
        int64_t size = expected->sizes[dim];
        int64_t begin = (int64_t)gy_random_below(random, (uint64_t)size + 1);
        int64_t end = begin + (int64_t)gy_random_below(random, (uint64_t)(size - begin) + 1);
        int64_t step = 1 + (int64_t)gy_random_below(random, 3);
        assert_ok(gy_tensor_slice(*tensor, dim, begin, end, step, &next));
        oracle_slice(expected, dim, begin, end, step);
    } else if (kind == 1) {
        int dims[GY_TENSOR_RANK_MAX];
        for (int i = 0; i < expected->rank; i++) {
            int at = (int)gy_random_below(random, (uint64_t)i + 1);
            dims[i] = dims[at];
            dims[at] = i;
        }
        assert_ok(gy_tensor_permute(*tensor, dims, &next));
        oracle_permute(expected, dims);
    } else { /* split or join: factor the count by trial */
        int64_t rest = expected->count;
        expected->rank = 0;
        for (int64_t unit = 2; unit <= 5 && expected->rank < 6; unit++) {
            if (rest > 0 && rest % unit == 0 && gy_random_below(random, 2) == 0) {
                expected->sizes[expected->rank++] = unit;
                rest /= unit;
            }
        }
        expected->sizes[expected->rank++] = rest;
        int64_t sizes[GY_TENSOR_RANK_MAX];
        memcpy(sizes, expected->sizes, sizeof(sizes));
        if (rest > 0 && gy_random_below(random, 2) == 0) {
            sizes[gy_random_below(random, (uint64_t)expected->rank)] = -1;
        }
        assert_ok(gy_tensor_reshape(*tensor, sizes, expected->rank, &next));
    }
    gy_tensor_drop(*tensor);
    *tensor = next;
}

GY_TEST(random_views_equal_the_oracle)
{
    static oracle expected;
    static _Alignas(64) unsigned char range[256 * 1024];
    gy_random random = {.key = gy_test_seed()};
    gy_pool *pool = NULL;
    assert_ok(gy_pool_new(range, sizeof(range), &pool));
    int64_t live = gy_alloc_live();
    for (int round = 0; round < 1500; round++) {
        random_shape(&random, &expected);
        gy_dtype dtype = (gy_dtype)(1 + gy_random_below(&random, GY_DTYPE_COUNT - 1));
        gy_tensor *tensor = make(&expected, dtype, round % 2 == 0 ? pool : NULL);
        for (int step = 0; step < 5; step++) {
            random_step(&random, &tensor, &expected);
            expect_equal(tensor, &expected);
        }
        gy_tensor *copy = NULL;
        gy_dtype other = (gy_dtype)(1 + gy_random_below(&random, GY_DTYPE_COUNT - 1));
        assert_ok(gy_tensor_new(NULL, other, expected.sizes, expected.rank, &copy));
        assert_ok(gy_tensor_copy(copy, tensor));
        expect_equal(copy, &expected);
        gy_tensor_drop(copy);
        gy_tensor_drop(tensor);
    }
    assert_int_equal(gy_pool_used_bytes(pool), 0);
    assert_int_equal(gy_alloc_live(), live);
    gy_pool_free(pool);
}

/* Copy into a strided target: between the written elements nothing changes. */
GY_TEST(copies_into_slices_leave_the_rest)
{
    gy_tensor *all = NULL, *part = NULL, *turned = NULL, *source = NULL;
    assert_ok(gy_tensor_zeros(NULL, GY_I32, (int64_t[]){5, 7}, 2, &all));
    assert_ok(gy_tensor_slice(all, 1, 1, 7, 2, &part)); /* columns 1 3 5 */
    assert_ok(gy_tensor_permute(part, (int[]){1, 0}, &turned));
    const float values[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    assert_ok(gy_tensor_from(NULL, GY_F32, (int64_t[]){3, 5}, 2, values, &source));
    assert_ok(gy_tensor_copy(turned, source));
    for (int64_t row = 0; row < 5; row++) {
        for (int64_t column = 0; column < 7; column++) {
            double expected =
                column % 2 == 1 && column < 6 ? (double)((column / 2) * 5 + row + 1) : 0;
            assert_true(gy_tensor_get(all, row * 7 + column) == expected);
        }
    }
    gy_tensor *drops[] = {all, part, turned, source};
    for (size_t i = 0; i < GY_COUNT(drops); i++) {
        gy_tensor_drop(drops[i]);
    }
}

/* Larger than the tiles in which turned dimensions are copied, and no multiple of them. */
GY_TEST(turned_planes_are_copied_whole)
{
    static const int64_t shapes[][3] = {{1, 37, 53}, {3, 16, 17}, {2, 48, 5}, {5, 1, 40}};
    for (size_t i = 0; i < GY_COUNT(shapes); i++) {
        const int64_t *from = shapes[i], to[3] = {from[0], from[2], from[1]};
        for (int type = GY_DTYPE_NONE + 1; type < GY_DTYPE_COUNT; type++) {
            gy_tensor *source = NULL, *turned = NULL, *copy = NULL;
            assert_ok(gy_tensor_new(NULL, GY_I32, from, 3, &source));
            for (int64_t k = 0; k < gy_tensor_count(source); k++) {
                gy_tensor_set(source, k, (double)(k % 127));
            }
            assert_ok(gy_tensor_permute(source, (int[]){0, 2, 1}, &turned));
            assert_ok(gy_tensor_zeros(NULL, (gy_dtype)type, to, 3, &copy));
            assert_ok(gy_tensor_copy(copy, turned));
            for (int64_t k = 0; k < gy_tensor_count(copy); k++) {
                int64_t plane = k / (to[1] * to[2]), row = k / to[2] % to[1],
                        column = k % to[2];
                int64_t at = (plane * from[1] + column) * from[2] + row;
                assert_true(gy_tensor_get(copy, k) == (double)(at % 127));
            }
            gy_tensor_drop(source);
            gy_tensor_drop(turned);
            gy_tensor_drop(copy);
        }
    }
}

/* Cut, turned and spread views read the same elements; integers keep every bit. */
GY_TEST(views_of_views_read_the_same_elements)
{
    int64_t numbers[12];
    for (int i = 0; i < 12; i++) {
        numbers[i] = INT64_MAX - i;
    }
    const gy_view whole = gy_view_of(numbers, GY_I64, (int64_t[]){3, 4}, 2);
    const gy_view odd = gy_view_cut(&whole, 1, 1, gy_slice_count(1, 4, 2), 2);
    const gy_view turned = gy_view_permute(&odd, (int[]){1, 0});
    static const int places[6] = {1, 5, 9, 3, 7, 11};
    assert_int_equal(turned.sizes[0], 2);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(gy_element_get_whole(GY_I64, turned.data, gy_view_offset(&turned, i)),
                         INT64_MAX - places[i]);
    }
    const gy_view last = gy_view_cut(&whole, 0, 2, gy_slice_count(2, 3, INT64_MAX), INT64_MAX);
    assert_int_equal(last.strides[0], 4); /* one element: the step does not count */
    const gy_view spread = gy_view_spread(&last, (int64_t[]){2, 5, 4}, 3);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(gy_element_get_whole(GY_I64, spread.data, gy_view_offset(&spread, i)),
                         INT64_MAX - 8 - i % 4);
    }
    int16_t small = 0;
    gy_element_set_whole(GY_I16, &small, 0, 0x12345);
    assert_int_equal(small, 0x2345);
    assert_int_equal(gy_slice_count(3, 3, 1), 0);
}

GY_TEST(zeroing_a_strided_view_spares_its_neighbours)
{
    for (int type = GY_DTYPE_NONE + 1; type < GY_DTYPE_COUNT; type++) {
        gy_tensor *all = NULL, *part = NULL;
        assert_ok(gy_tensor_new(NULL, (gy_dtype)type, (int64_t[]){4, 6}, 2, &all));
        for (int64_t i = 0; i < 24; i++) {
            gy_tensor_set(all, i, 9);
        }
        assert_ok(gy_tensor_slice(all, 1, 0, 6, 3, &part));
        gy_view view = gy_tensor_pin(part);
        gy_view_zero(&view);
        gy_tensor_unpin(part);
        for (int64_t i = 0; i < 24; i++) {
            assert_true(gy_tensor_get(all, i) == (i % 3 == 0 ? 0 : 9));
        }
        gy_tensor_drop(all);
        gy_tensor_drop(part);
    }
}

GY_TEST(blocked_copies_keep_elements_and_clear_padding)
{
    static oracle expected;
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 60; round++) {
        const int64_t channels = 1 + (int64_t)gy_random_below(&random, 40);
        expected = (oracle){.rank = 4, .sizes = {2, channels, 3, 1 + round % 4}};
        recount(&expected);
        for (int64_t i = 0; i < expected.count; i++) {
            expected.values[i] = (double)(i % 100 + 1);
        }
        gy_tensor *dense = make(&expected, GY_F32, NULL), *blocked = NULL, *back = NULL;
        gy_dtype dtype = round % 3 == 0 ? GY_BF16 : GY_F32;
        assert_ok(gy_tensor_new_blocked(NULL, dtype, expected.sizes, &blocked));
        gy_view view = gy_tensor_pin(blocked);
        const size_t bytes = gy_view_bytes(&view);
        assert_int_equal(bytes,
                         (size_t)(2 * ((channels + 15) / 16 * 16) * 3 * (1 + round % 4)) *
                             gy_dtype_bytes(dtype));
        assert_false(gy_view_is_contiguous(&view));
        memset(view.data, 0xff, bytes);
        assert_ok(gy_tensor_copy(blocked, dense));
        size_t zeros = 0;
        for (size_t i = 0; i < bytes / gy_dtype_bytes(dtype); i++) {
            zeros += gy_element_get(dtype, view.data, (int64_t)i) == 0;
        }
        assert_int_equal(zeros, bytes / gy_dtype_bytes(dtype) - (size_t)expected.count);
        gy_tensor_unpin(blocked);
        expect_equal(blocked, &expected);
        assert_ok(gy_tensor_reshape(blocked, (int64_t[]){2, -1}, 2, &back));
        expected.rank = 2;
        expected.sizes[1] = expected.count / 2;
        expect_equal(back, &expected);
        gy_tensor_drop(back);
        assert_status(gy_tensor_slice(blocked, 0, 0, 1, 1, &back), GY_UNSUPPORTED);
        gy_tensor_drop(dense);
        gy_tensor_drop(blocked);
    }
}

#define expect_text(text) assert_string_equal(gy_error_text(), text)

GY_TEST(bad_arguments_name_the_shapes)
{
    gy_tensor *tensor = NULL, *out = NULL, *other = NULL;
    const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    assert_status(gy_tensor_new(NULL, GY_DTYPE_NONE, huge, 0, &tensor), GY_ARG);
    expect_text("tensor: element type 0 does not exist");
    assert_status(gy_tensor_new(NULL, GY_DTYPE_COUNT, huge, 0, &tensor), GY_ARG);
    double memory = 0;
    assert_status(gy_tensor_wrap(&(gy_view){.data = &memory}, NULL, NULL, &tensor), GY_ARG);
    assert_status(gy_tensor_new(NULL, GY_F32, huge, 2, &tensor), GY_ARG);
    expect_text("shape [1099511627776,1099511627776] has more than 2^62 bytes");
    assert_status(gy_tensor_new(NULL, GY_U8, (int64_t[]){0, INT64_MAX, 8}, 3, &tensor), GY_ARG);
    assert_status(gy_tensor_new(NULL, GY_F32, (int64_t[]){3, -1}, 2, &tensor), GY_ARG);
    expect_text("size -1 in dimension 1 of [3,-1], expected 0 or more");
    assert_status(gy_tensor_new(NULL, GY_F32, huge, 9, &tensor), GY_ARG);
    expect_text("rank 9, expected 0 to 8");
    assert_status(gy_tensor_new(NULL, GY_F32, huge, -1, &tensor), GY_ARG);
    assert_status(
        gy_tensor_new_blocked(NULL, GY_F32, (int64_t[]){1 << 20, 1 << 20, 1 << 19, 1}, &tensor),
        GY_ARG);
    assert_null(tensor);

    assert_ok(gy_tensor_zeros(NULL, GY_F32, (int64_t[]){64, 784}, 2, &tensor));
    assert_status(gy_tensor_slice(tensor, 2, 0, 1, 1, &out), GY_SHAPE);
    expect_text("slice of dimension 2 of f32[64,784], expected 0 to 1");
    assert_status(gy_tensor_slice(tensor, 0, 5, 65, 1, &out), GY_SHAPE);
    expect_text("slice [5,65) of dimension 0 of f32[64,784], which has 64");
    assert_status(gy_tensor_slice(tensor, 0, 5, 4, 1, &out), GY_SHAPE);
    assert_status(gy_tensor_slice(tensor, 0, -1, 4, 1, &out), GY_SHAPE);
    assert_status(gy_tensor_slice(tensor, 0, 0, 4, 0, &out), GY_ARG);
    assert_status(gy_tensor_permute(tensor, (int[]){1, 1}, &out), GY_SHAPE);
    expect_text(
        "permutation of f32[64,784] names dimension 1 at place 1: expected each of 0 to "
        "1 once");
    assert_status(gy_tensor_permute(tensor, (int[]){0, 2}, &out), GY_SHAPE);
    assert_status(gy_tensor_reshape(tensor, (int64_t[]){64, 783}, 2, &out), GY_SHAPE);
    expect_text("cannot reshape f32[64,784] (50176 elements) to [64,783]");
    assert_status(gy_tensor_reshape(tensor, (int64_t[]){-1, -1}, 2, &out), GY_SHAPE);
    assert_status(gy_tensor_reshape(tensor, (int64_t[]){-1, 3}, 2, &out), GY_SHAPE);
    assert_status(gy_tensor_reshape(tensor, (int64_t[]){-1, 0}, 2, &out), GY_SHAPE);
    assert_status(gy_tensor_reshape(tensor, (int64_t[]){-2, 3}, 2, &out), GY_ARG);
    assert_status(gy_tensor_reshape(tensor, huge, 9, &out), GY_ARG);
    assert_ok(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){64}, 1, &other));
    assert_status(gy_tensor_copy(other, tensor), GY_SHAPE);
    expect_text("cannot copy f32[64,784] to f64[64]");
    assert_null(out);
    gy_view nowhere = gy_view_of(NULL, GY_F32, (int64_t[]){3}, 1);
    assert_status(gy_tensor_wrap(&nowhere, NULL, NULL, &out), GY_ARG);
    gy_tensor_drop(tensor);
    gy_tensor_drop(other);
    gy_tensor_drop(NULL);
}

GY_TEST(texts_fit_their_buffer)
{
    char text[GY_SHAPE_TEXT_BYTES];
    assert_string_equal(gy_shape_text(NULL, 0, text), "[]");
    const int64_t most[8] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                             INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    gy_shape_text(most, 8, text);
    assert_true(strlen(text) < GY_SHAPE_TEXT_BYTES);
    assert_string_equal(text + strlen(text) - 4, "...]");
    gy_view view = gy_view_of(NULL, GY_F32, (int64_t[]){64, 784}, 2);
    assert_string_equal(gy_view_text(&view, text), "f32[64,784]");
    assert_int_equal(gy_view_bytes(&view), 64 * 784 * 4);
    view = gy_view_blocked(NULL, GY_BF16, (int64_t[]){8, 3, 5, 5});
    assert_string_equal(gy_view_text(&view, text), "bf16[8,3,5,5]:blocked");
    view = gy_view_of(NULL, GY_F32, (int64_t[]){64, 0}, 2);
    assert_int_equal(gy_view_bytes(&view), 0);
    assert_int_equal(gy_view_count(&view), 0);
    assert_true(gy_view_is_contiguous(&view));
}

GY_TEST(failed_allocations_leak_nothing)
{
    static _Alignas(64) unsigned char range[4096];
    gy_pool *pool = NULL;
    gy_tensor *tensor = NULL, *slice = NULL, *out = NULL;
    assert_ok(gy_pool_new(range, sizeof(range), &pool));
    assert_ok(gy_tensor_zeros(pool, GY_F32, (int64_t[]){16, 16}, 2, &tensor));
    assert_ok(gy_tensor_slice(tensor, 1, 0, 15, 1, &slice));
    int64_t live = gy_alloc_live();
    size_t used = gy_pool_used_bytes(pool);
    gy_alloc_fail_after(1);
    assert_status(gy_tensor_new(NULL, GY_F32, (int64_t[]){16}, 1, &out), GY_NOMEM);
    gy_alloc_fail_after(2);
    assert_status(gy_tensor_new(NULL, GY_F32, (int64_t[]){16}, 1, &out), GY_NOMEM);
    gy_alloc_fail_after(1);
    assert_status(gy_tensor_slice(tensor, 0, 0, 3, 1, &out), GY_NOMEM);
    gy_alloc_fail_after(1);
    assert_status(gy_tensor_reshape(slice, (int64_t[]){-1}, 1, &out), GY_NOMEM);
    gy_alloc_fail_after(0);
    assert_status(gy_tensor_new(pool, GY_F64, (int64_t[]){1024}, 1, &out), GY_NOMEM);
    expect_text("tensor f64[1024]: pool exhausted: requested 8192 bytes, largest free block "
                "3072, 1024 of 4096 in use");
    assert_null(out);
    assert_int_equal(gy_alloc_live(), live);
    assert_int_equal(gy_pool_used_bytes(pool), used);
    gy_tensor_drop(tensor);
    assert_int_equal(gy_pool_used_bytes(pool), used); /* the slice keeps the storage */
    gy_tensor_drop(slice);
    gy_pool_free(pool);
}

static void count_release(void *arg)
{
    ++*(int *)arg;
}

GY_TEST(wrapped_memory_is_released_once)
{
    float memory[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    gy_view view = gy_view_of(memory, GY_F32, (int64_t[]){2, 3}, 2);
    gy_tensor *tensor = NULL, *column = NULL;
    assert_ok(gy_tensor_wrap(&view, count_release, &released, &tensor));
    assert_ok(gy_tensor_slice(tensor, 1, 2, 3, 1, &column));
    assert_null(gy_tensor_pool(tensor));
    gy_tensor_drop(tensor);
    assert_int_equal(released, 0);
    assert_true(gy_tensor_get(column, 1) == 6);
    gy_view pinned = gy_tensor_pin(column);
    assert_ptr_equal(pinned.data, &memory[2]);
    gy_tensor_unpin(column);
    gy_tensor_drop(column);
    assert_int_equal(released, 1);
}

static void *hold_and_drop(void *arg)
{
    gy_tensor *tensor = arg; /* comes with a hold */
    for (int i = 0; i < 2000; i++) {
        gy_tensor *again = gy_tensor_hold(tensor), *view = NULL;
        GY_ASSERT(gy_tensor_slice(again, 0, 0, 4, 1, &view) == GY_OK);
        gy_tensor_drop(again);
        GY_ASSERT(gy_tensor_get(view, 3) == 3);
        gy_tensor_drop(view);
    }
    gy_view memory = gy_tensor_pin(tensor);
    GY_ASSERT(memory.rank == 1);
    gy_tensor_unpin(tensor);
    gy_tensor_drop(tensor);
    return NULL;
}

GY_TEST(threads_hold_and_drop_one_tensor)
{
    int64_t live = gy_alloc_live();
    gy_tensor *tensor = NULL;
    const int64_t values[5] = {0, 1, 2, 3, 4};
    assert_ok(gy_tensor_from(NULL, GY_I64, (int64_t[]){5}, 1, values, &tensor));
    gy_thread threads[4] = {{.is_started = false}};
    for (size_t i = 0; i < GY_COUNT(threads); i++) {
        assert_ok(gy_thread_start(&threads[i], "hold", hold_and_drop, gy_tensor_hold(tensor)));
    }
    gy_tensor_drop(tensor); /* the last thread frees it */
    for (size_t i = 0; i < GY_COUNT(threads); i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST_MAIN(NULL, NULL)
