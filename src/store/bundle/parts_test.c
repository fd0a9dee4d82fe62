/* Goal: a file that several processes write has the bytes of one that one process wrote; parts
 * of it are read as they were; what is damaged or killed is found. */
#include "store/bundle/bundle_priv.h"
#include "store/bundle/tensors_test.h"
#include "store/files_test.h"
#include "tensor/tensor.h"

#include <gyre/types.h>

#include <unistd.h>

#include "gy_test.h"

enum { TENSORS = 5, WRITERS_MAX = 6 };

static char path[TEST_PATH_BYTES], other[TEST_PATH_BYTES];

static int make_folder(void **state)
{
    (void)test_make_home(state);
    test_path(path, test_home, "parts.safetensors");
    test_path(other, test_home, "whole.safetensors");
    return 0;
}

/* Tensors with elements; with the same texts, an outline of them. */
static void make_bundles(gy_random *random, gy_bundle **whole, gy_bundle **outline)
{
    assert_ok(gy_bundle_new(whole));
    assert_ok(gy_bundle_new(outline));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        gy_tensor *tensor = random_tensor(
            random, (gy_dtype)(1 + gy_random_below(random, GY_DTYPE_COUNT - 1)), 7);
        assert_ok(gy_bundle_add(*whole, name, tensor));
        const gy_view shape = gy_tensor_pin(tensor);
        gy_tensor_unpin(tensor);
        assert_ok(gy_bundle_outline(*outline, name, shape.dtype, shape.sizes, shape.rank));
        gy_tensor_drop(tensor);
    }
    assert_ok(gy_bundle_set(*whole, "key", "value"));
}

/* The elements of a box of a tensor, row-major; gy_free. */
static unsigned char *cut_box(const gy_view *view, const gy_box *box)
{
    const size_t bytes = gy_dtype_bytes(view->dtype);
    const int64_t count = gy_box_count(view, box);
    unsigned char *data = gy_alloc("test", (size_t)count * bytes);
    assert_non_null(data);
    for (int64_t at = 0; at < count; at++) {
        int64_t rest = at, index = 0, stride = 1;
        for (int dim = view->rank - 1; dim >= 0; dim--) {
            index += (box->offsets[dim] + rest % box->sizes[dim]) * stride;
            rest /= box->sizes[dim];
            stride *= view->sizes[dim];
        }
        memcpy(data + (size_t)at * bytes, (const char *)view->data + (size_t)index * bytes,
               bytes);
    }
    return data;
}

/* Part `rank` of `ranks` along a dimension of choice, or of the elements of the whole. */
static void give_part(gy_bundle_writer *writer, size_t index, gy_tensor *tensor, int rank,
                      int ranks, bool is_windowed, gy_bundle_writer *first)
{
    const gy_view view = gy_tensor_pin(tensor);
    gy_box box = gy_box_whole(&view);
    int64_t from = 0, to = 0;
    const int dim = view.rank > 0 ? (int)(index % (size_t)view.rank) : 0;
    if (view.rank > 0 && index % 2 == 0) {
        box.offsets[dim] = gy_part_begin(view.sizes[dim], rank, ranks);
        box.sizes[dim] = gy_part_begin(view.sizes[dim], rank + 1, ranks) - box.offsets[dim];
        to = gy_box_count(&view, &box);
    } else {
        from = gy_part_begin(gy_view_count(&view), rank, ranks);
        to = gy_part_begin(gy_view_count(&view), rank + 1, ranks);
    }
    unsigned char *data = cut_box(&view, &box);
    const size_t bytes = gy_dtype_bytes(view.dtype);
    if (!is_windowed) {
        const int64_t middle = from + (to - from) / 3; /* inside of a run, too */
        assert_ok(
            gy_bundle_put(writer, index, &box, from, middle, data + (size_t)from * bytes));
        assert_ok(
            gy_bundle_put(writer, index, &box, middle, to, data + (size_t)middle * bytes));
    } else { /* another process writes what this one takes the sum of */
        gy_bundle_take(writer, index, &box, from, to, data + (size_t)from * bytes);
        int64_t run = 0;
        for (int64_t at = from; at < to; at += run) {
            const int64_t start = gy_box_index(&view, &box, at, &run);
            run = GY_MIN(run, to - at);
            assert_ok(gy_bundle_put_range(first, index, start, start + run,
                                          data + (size_t)at * bytes));
        }
    }
    gy_free(data);
    gy_tensor_unpin(tensor);
}

/* Write `whole` by `ranks` writers; the sums of all in sums. */
static gy_bundle_writer *write_parts(gy_bundle *whole, gy_bundle *outline, int ranks,
                                     bool is_windowed, uint64_t sums[TENSORS])
{
    gy_bundle_writer *writers[WRITERS_MAX] = {NULL};
    assert_ok(gy_bundle_create(whole, gy_env_real(), path, &writers[0]));
    const gy_bundle_place place = gy_bundle_writer_place(writers[0]);
    for (int rank = 1; rank < ranks; rank++) {
        char elsewhere[TEST_PATH_BYTES + 16];
        snprintf(elsewhere, sizeof(elsewhere), "%s%s", is_windowed ? "/nonexistent" : "", path);
        assert_ok(gy_bundle_join(outline, gy_env_real(), elsewhere, &place, &writers[rank]));
        assert_int_equal(gy_bundle_writer_has_file(writers[rank]), !is_windowed);
    }
    for (int rank = ranks - 1; rank >= 0; rank--) {
        for (size_t i = 0; i < TENSORS; i++) {
            give_part(writers[rank], i, gy_bundle_tensor(whole, i), rank, ranks, is_windowed,
                      writers[0]);
            sums[i] += gy_bundle_writer_sums(writers[rank])[i];
        }
        if (rank > 0) {
            assert_ok(gy_bundle_leave(writers[rank], rank % 2 == 0));
        }
    }
    return writers[0];
}

static void expect_same_files(void)
{
    gy_bytes left = {NULL, 0}, right = {NULL, 0};
    assert_ok(gy_store_file_read(gy_env_real(), path, 1 << 20, &left));
    assert_ok(gy_store_file_read(gy_env_real(), other, 1 << 20, &right));
    assert_int_equal(left.size_bytes, right.size_bytes);
    assert_memory_equal(left.data, right.data, left.size_bytes);
    gy_free(left.data);
    gy_free(right.data);
}

/* Any box of any tensor is what it was. */
static void expect_boxes(const gy_bundle *whole, const gy_bundle *open, gy_random *random)
{
    for (size_t i = 0; i < TENSORS; i++) {
        size_t index = 0;
        gy_tensor *tensor = gy_bundle_tensor(whole, i);
        const gy_view view = gy_tensor_pin(tensor);
        assert_true(gy_bundle_index(open, gy_bundle_name(whole, i), &index));
        gy_box box = gy_box_whole(&view);
        for (int dim = 0; dim < view.rank; dim++) {
            box.offsets[dim] = (int64_t)gy_random_below(random, (uint64_t)view.sizes[dim] + 1);
            box.sizes[dim] = (int64_t)gy_random_below(
                random, (uint64_t)(view.sizes[dim] - box.offsets[dim]) + 1);
        }
        const size_t size = (size_t)gy_box_count(&view, &box) * gy_dtype_bytes(view.dtype);
        unsigned char *expected = cut_box(&view, &box), *seen = gy_alloc("test", size);
        assert_non_null(seen);
        assert_ok(gy_bundle_read_box(open, index, &box, 0, gy_box_count(&view, &box), seen));
        if (size > 0) {
            assert_memory_equal(seen, expected, size);
        }
        gy_free(expected);
        gy_free(seen);
        gy_tensor_unpin(tensor);
    }
}

/* Verified by `shares` processes. */
static gy_status verify(gy_bundle *open, int shares)
{
    uint64_t sums[TENSORS] = {0};
    for (int share = 0; share < shares; share++) {
        uint64_t own[TENSORS] = {0};
        GY_TRY(gy_bundle_sum_share(open, share, shares, own));
        for (int i = 0; i < TENSORS; i++) {
            sums[i] += own[i];
        }
    }
    return gy_bundle_verify(open, sums);
}

GY_TEST(parts_make_the_file_of_the_whole)
{
    gy_random random = {.key = gy_test_seed()};
    const int64_t live = gy_alloc_live();
    for (int round = 0; round < 60; round++) {
        gy_bundle *whole = NULL, *outline = NULL, *open = NULL;
        uint64_t sums[TENSORS] = {0};
        const int ranks = 1 + (int)gy_random_below(&random, WRITERS_MAX);
        make_bundles(&random, &whole, &outline);
        gy_bundle_writer *writer = write_parts(whole, outline, ranks, round % 3 == 2, sums);
        assert_ok(gy_bundle_finish(writer, sums));
        assert_ok(gy_bundle_write(whole, other));
        expect_same_files();
        assert_ok(gy_bundle_open(gy_env_real(), path, &open));
        assert_false(gy_bundle_is_verified(open));
        assert_ok(verify(open, 1 + (int)gy_random_below(&random, 4)));
        assert_true(gy_bundle_is_verified(open));
        assert_string_equal(gy_bundle_get(open, "key"), "value");
        expect_boxes(whole, open, &random);
        gy_bundle_free(open);
        gy_bundle_free(whole);
        gy_bundle_free(outline);
    }
    assert_int_equal(gy_alloc_live(), live);
}

/* The file stays what it was until all parts are there. */
GY_TEST(a_writer_that_gives_up_leaves_the_old_file)
{
    gy_random random = {.key = gy_test_seed()};
    gy_bundle *whole = NULL, *outline = NULL;
    uint64_t sums[TENSORS] = {0};
    make_bundles(&random, &whole, &outline);
    assert_ok(gy_bundle_write(whole, path));
    assert_ok(gy_bundle_write(whole, other));
    gy_bundle_writer *writer = write_parts(whole, outline, 3, false, sums);
    expect_same_files();
    gy_bundle_abort(writer);
    expect_same_files();
    assert_int_equal(test_entry_count(test_home), 2);
    gy_bundle_free(whole);
    gy_bundle_free(outline);
}

/* A file of the older checksum, by hashes of whole tensors in their order. */
static void write_chained(gy_bundle *bundle)
{
    char checksum[GY_BUNDLE_CHECKSUM_BYTES];
    gy_text header = {.data = NULL}, file = {.data = NULL};
    assert_ok(gy_bundle_checksum(bundle, true, checksum));
    assert_ok(gy_bundle_header(bundle, checksum, &header));
    const uint64_t size = header.size_bytes;
    gy_text_add_bytes(&file, &size, sizeof(size));
    gy_text_add_bytes(&file, header.data, header.size_bytes);
    gy_bytes now = {NULL, 0};
    uint64_t data_begin = 0;
    assert_ok(gy_bundle_write(bundle, path));
    assert_ok(gy_store_file_read(gy_env_real(), path, 1 << 20, &now));
    memcpy(&data_begin, now.data, sizeof(data_begin));
    data_begin += sizeof(data_begin);
    gy_text_add_bytes(&file, now.data + data_begin, now.size_bytes - data_begin);
    assert_ok(file.status);
    assert_ok(gy_store_file_write(gy_env_real(), path, file.data, file.size_bytes));
    gy_free(now.data);
    gy_text_free(&header);
    gy_text_free(&file);
}

GY_TEST(files_of_the_older_checksum_are_verified)
{
    gy_random random = {.key = gy_test_seed()};
    for (int shares = 1; shares < 4; shares++) {
        gy_bundle *whole = NULL, *outline = NULL, *open = NULL, *back = NULL;
        make_bundles(&random, &whole, &outline);
        write_chained(whole);
        assert_ok(gy_bundle_read(path, &back));
        assert_true(gy_bundle_is_verified(back));
        assert_ok(gy_bundle_open(gy_env_real(), path, &open));
        assert_int_equal(strncmp(gy_bundle_get(open, "gyre.checksum"), "xxh3:", 5), 0);
        assert_ok(verify(open, shares));
        assert_true(gy_bundle_is_verified(open));
        gy_bundle_free(open);
        gy_bundle_free(back);
        gy_bundle_free(whole);
        gy_bundle_free(outline);
    }
}

/* Four numbers, so that the checksum is the same in ten years. */
static gy_bundle *four_numbers(void)
{
    gy_bundle *bundle = NULL;
    gy_tensor *tensor = NULL;
    assert_ok(gy_bundle_new(&bundle));
    assert_ok(gy_tensor_from(NULL, GY_F32, (int64_t[]){4}, 1, (float[]){1, 2, 3, 4}, &tensor));
    assert_ok(gy_bundle_add(bundle, "four", tensor));
    gy_tensor_drop(tensor);
    return bundle;
}

GY_TEST(every_flipped_bit_is_found_by_parts)
{
    static const char known[] = "\"sum:066a8fa924766762\"";
    gy_bundle *bundle = four_numbers(), *open = NULL;
    gy_bytes file = {NULL, 0};
    assert_ok(gy_bundle_write(bundle, other));
    assert_ok(gy_store_file_read(gy_env_real(), other, 1 << 20, &file));
    assert_non_null(memmem(file.data, file.size_bytes, known, strlen(known)));
    for (size_t bit = 8 * (file.size_bytes - 16); bit < 8 * file.size_bytes; bit++) {
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        assert_ok(gy_store_file_write(gy_env_real(), path, file.data, file.size_bytes));
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        assert_ok(gy_bundle_open(gy_env_real(), path, &open));
        assert_status(verify(open, 3), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), "damaged: checksum sum:"));
        gy_bundle_free(open);
    }
    gy_free(file.data);
    gy_bundle_free(bundle);
}

/* Two elements that changed their places are as many of the same values. */
GY_TEST(elements_in_other_places_are_found)
{
    gy_bundle *bundle = four_numbers(), *open = NULL;
    gy_bytes file = {NULL, 0};
    assert_ok(gy_bundle_write(bundle, other));
    assert_ok(gy_store_file_read(gy_env_real(), other, 1 << 20, &file));
    char *data = file.data + file.size_bytes - 16, first[4];
    memcpy(first, data, 4);
    memcpy(data, data + 8, 4);
    memcpy(data + 8, first, 4);
    assert_ok(gy_store_file_write(gy_env_real(), path, file.data, file.size_bytes));
    assert_ok(gy_bundle_open(gy_env_real(), path, &open));
    assert_status(verify(open, 1), GY_FORMAT);
    assert_status(verify(open, 2), GY_FORMAT);
    gy_bundle_free(open);
    gy_free(file.data);
    gy_bundle_free(bundle);
}

/* Each disk call and each allocation of both sides fails once: the old file stays. */
GY_TEST(failures_of_either_side_are_told)
{
    gy_bundle *bundle = four_numbers();
    const gy_view shape = gy_bundle_shape(bundle, 0);
    const gy_box box = gy_box_whole(&shape);
    const float values[4] = {1, 2, 3, 4};
    const int64_t live = gy_alloc_live();
    int refused = 0;
    assert_ok(gy_bundle_write(bundle, path));
    assert_ok(gy_bundle_write(bundle, other));
    for (int n = 1; n < 60; n++) {
        gy_bundle_writer *first = NULL, *second = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_bundle_create(bundle, gy_env_real(), path, &first);
        if (status == GY_OK) {
            const gy_bundle_place place = gy_bundle_writer_place(first);
            status = gy_bundle_join(bundle, gy_env_real(), path, &place, &second);
        }
        if (status == GY_OK) {
            status = gy_bundle_put(second, 0, &box, 0, 4, values);
        }
        gy_alloc_fail_after(0);
        refused += status == GY_NOMEM;
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_bundle_abort(second);
        gy_bundle_abort(first);
        assert_int_equal(gy_alloc_live(), live);
        assert_int_equal(test_entry_count(test_home), 2);
        expect_same_files();
    }
    assert_in_range(refused, 8, 59);
    gy_bundle_writer *writer = NULL;
    test_disk_state = (test_disk){.countdown = 0}; /* its files have no offsets */
    assert_status(gy_bundle_create(bundle, test_env(), path, &writer), GY_IO);
    assert_int_equal(test_entry_count(test_home), 2);
    gy_bundle_free(bundle);
}

GY_TEST(a_file_that_changes_under_a_reader_is_named)
{
    gy_bundle *bundle = four_numbers(), *open = NULL;
    float values[4];
    assert_ok(gy_bundle_write(bundle, path));
    assert_ok(gy_bundle_open(gy_env_real(), path, &open));
    const gy_view shape = gy_bundle_shape(open, 0);
    const gy_box box = gy_box_whole(&shape);
    assert_ok(
        gy_bundle_write(bundle, path)); /* another file of that name: the open one stays */
    assert_ok(gy_bundle_read_box(open, 0, &box, 0, 4, values));
    assert_true(values[0] == 1 && values[3] == 4);
    gy_bundle_free(open);
    assert_ok(gy_bundle_open(gy_env_real(), path, &open));
    assert_int_equal(truncate(path, 20), 0);
    assert_status(gy_bundle_read_box(open, 0, &box, 0, 4, values), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "inside tensor 'four'"));
    gy_bundle_free(open);
    gy_bundle_free(bundle);
}

GY_TEST_MAIN(make_folder, test_remove_home)
