/* Goal: IDX files of all types, plain and gzip, give their tensor; every malformed one a
 * message that says where. */
#include "store/files_test.h"
#include "tensor/tensor.h"

#include <zlib.h>

#include "gy_test.h"

static gy_status read_bytes(const void *data, size_t size, uint64_t limit, gy_tensor **tensor)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size, "f", GY_ENCODING_AUTO, &source));
    gy_status status = gy_store_idx_read(source, NULL, limit, tensor);
    gy_source_close(source);
    return status;
}

static void expect_failure(const void *data, size_t size, gy_status expected, const char *text)
{
    gy_tensor *tensor = NULL;
    const int64_t live = gy_alloc_live();
    assert_status(read_bytes(data, size, 1 << 20, &tensor), expected);
    assert_string_equal(gy_error_text(), text);
    assert_null(tensor);
    assert_int_equal(gy_alloc_live(), live);
}

#define BYTES(...)                                                                             \
    (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

GY_TEST(all_types_are_read_high_byte_first)
{
    static const struct {
        unsigned char bytes[24];
        size_t size;
        gy_dtype dtype;
        double values[2];
    } files[] = {
        {{0, 0, 0x08, 1, 0, 0, 0, 2, 200, 7}, 10, GY_U8, {200, 7}},
        {{0, 0, 0x09, 1, 0, 0, 0, 2, 200, 7}, 10, GY_I8, {-56, 7}},
        {{0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0}, 12, GY_I16, {-2, 256}},
        {{0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff},
         16,
         GY_I32,
         {258, -1}},
        {{0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0},
         16,
         GY_F32,
         {1, -2.5}},
        {{0, 0, 0x0e, 1, 0, 0, 0, 2, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 4, 0, 0, 0, 0, 0, 0},
         24,
         GY_F64,
         {1, -2.5}},
    };
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        gy_tensor *tensor = NULL;
        assert_ok(read_bytes(files[i].bytes, files[i].size, 100, &tensor));
        assert_int_equal(gy_tensor_dtype(tensor), files[i].dtype);
        assert_int_equal(gy_tensor_count(tensor), 2);
        assert_true(gy_tensor_get(tensor, 0) == files[i].values[0]);
        assert_true(gy_tensor_get(tensor, 1) == files[i].values[1]);
        gy_tensor_drop(tensor);
    }
    gy_tensor *empty = NULL;
    assert_ok(read_bytes(BYTES(0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 28), 100, &empty));
    assert_int_equal(gy_tensor_count(empty), 0);
    assert_int_equal(gy_tensor_size(empty, 1), 28);
    gy_tensor_drop(empty);
}

GY_TEST(bad_headers_are_named)
{
    expect_failure("", 0, GY_FORMAT, "f: ends inside the IDX header");
    expect_failure(BYTES(0, 0, 8), GY_FORMAT, "f: ends inside the IDX header");
    expect_failure(BYTES(0, 0, 8, 2, 0, 0, 0, 1, 0), GY_FORMAT,
                   "f: ends inside the IDX header");
    expect_failure("PNG.....", 8, GY_FORMAT, "f: not IDX: begins with 50 4e, expected 00 00");
    expect_failure(BYTES(0, 0, 0x0a, 1, 0, 0, 0, 0), GY_FORMAT,
                   "f: IDX element type 0x0a at byte 2, expected 08, 09, 0b, 0c, 0d or 0e");
    expect_failure(BYTES(0, 0, 8, 0), GY_FORMAT, "f: 0 sizes at byte 3, expected 1 to 8");
    expect_failure(BYTES(0, 0, 8, 9), GY_FORMAT, "f: 9 sizes at byte 3, expected 1 to 8");
}

/* Bad input 8: the product of the sizes does not fit 64 bits. */
GY_TEST(sizes_whose_product_overflows_are_refused)
{
    expect_failure(
        BYTES(0, 0, 0x0e, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255),
        GY_FORMAT,
        "f: IDX header: shape [4294967295,4294967295,4294967295] has more than 2^62 "
        "bytes");
    expect_failure(
        BYTES(0, 0, 8, 4, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), GY_FORMAT,
        "f: IDX header: shape [16777216,16777216,16777216,0] has more than 2^62 bytes");
}

/* Bad input 9, and its opposite: fewer or more bytes than the header says. */
GY_TEST(other_lengths_than_the_header_says_are_refused)
{
    expect_failure(BYTES(0, 0, 8, 1, 0, 0, 0, 3, 1, 2), GY_FORMAT,
                   "f: the header says u8[3], 11 bytes in all, but there are 10");
    expect_failure(BYTES(0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4), GY_FORMAT,
                   "f: the header says u8[3], but bytes follow after its 3");
    expect_failure(
        BYTES(0, 0, 8, 1, 0x7f, 0, 0, 0), GY_LIMIT,
        "f: the header says u8[2130706432], 2130706432 bytes, expected at most 1048576");
    expect_failure(BYTES(0, 0, 8, 1, 0, 0xf, 0, 0), GY_FORMAT,
                   "f: the header says u8[983040], 983048 bytes in all, but there are 8");
}

static void write_gzip(const char *path, const void *data, size_t size)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Bad input 14: gzip that is cut short or announces what it cannot hold. */
GY_TEST(gzip_files_are_read_whole_or_refused)
{
    char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    test_folder(folder);
    test_path(path, folder, "digits.gz");
    static unsigned char file[16 + 100 * 100] = {0, 0, 8, 3,  0, 0, 0, 100,
                                                 0, 0, 0, 10, 0, 0, 0, 10};
    for (size_t i = 16; i < sizeof(file); i++) {
        file[i] = (unsigned char)(i * i >> 3);
    }
    write_gzip(path, file, sizeof(file));
    gy_tensor *tensor = NULL;
    assert_ok(gy_read_idx(path, &tensor));
    assert_int_equal(gy_tensor_rank(tensor), 3);
    assert_int_equal(gy_tensor_size(tensor, 0), 100);
    gy_view view = gy_tensor_pin(tensor);
    assert_memory_equal(view.data, file + 16, sizeof(file) - 16);
    gy_tensor_unpin(tensor);
    gy_tensor_drop(tensor);

    gy_bytes packed = {NULL, 0};
    assert_ok(gy_store_file_read(gy_env_real(), path, 1 << 20, &packed));
    for (size_t cut = 2; cut < packed.size_bytes;
         cut += cut < packed.size_bytes - 20 ? 97 : 1) {
        assert_status(read_bytes(packed.data, cut, 1 << 20, &tensor), GY_FORMAT);
    }
    assert_non_null(strstr(gy_error_text(), "f: gzip cut short at byte"));
    packed.data[packed.size_bytes - 5] ^= 1; /* its checksum */
    assert_status(read_bytes(packed.data, packed.size_bytes, 1 << 20, &tensor), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "incorrect data check"));
    gy_free(packed.data);

    write_gzip(path, file, sizeof(file) - 1);
    assert_status(gy_read_idx(path, &tensor), GY_FORMAT);
    assert_non_null(
        strstr(gy_error_text(), "u8[100,10,10], 10000 bytes, but only 9999 follow it"));
    file[4] = 1; /* 2^24 + 100 images, in a file of a few KB */
    write_gzip(path, file, 100);
    assert_status(gy_read_idx(path, &tensor), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "but there are at most "));
    file[4] = 0;
    test_remove(folder);
}

/* Bad input 24: a missing file, a folder for a file. */
GY_TEST(missing_files_and_folders_are_named)
{
    gy_tensor *tensor = NULL;
    assert_status(gy_read_idx("/nonexistent/train-images", &tensor), GY_NOTFOUND);
    assert_string_equal(gy_error_text(),
                        "cannot open /nonexistent/train-images: No such file or directory");
    assert_status(gy_read_idx("/tmp", &tensor), GY_IO);
    assert_string_equal(gy_error_text(), "cannot read /tmp: it is a folder, expected a file");
}

GY_TEST(random_bytes_never_crash)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 20000; round++) {
        unsigned char file[64] = {0, 0, 8, 2, 0, 0, 0, 4, 0, 0, 0, 5};
        for (size_t i = gy_random_below(&random, 12); i < sizeof(file); i++) {
            file[i] = (unsigned char)gy_random_below(&random, round % 2 == 0 ? 3 : 256);
        }
        gy_tensor *tensor = NULL;
        gy_status status =
            read_bytes(file, gy_random_below(&random, sizeof(file) + 1), 1 << 20, &tensor);
        assert_true(status == GY_OK || status == GY_FORMAT || status == GY_LIMIT);
        assert_true((status == GY_OK) == (tensor != NULL));
        gy_tensor_drop(tensor);
    }
}

GY_TEST(the_real_digits_have_their_shapes)
{
    char path[1024];
    static const char *const parts[] = {"train", "t10k"};
    for (size_t part = 0; part < GY_COUNT(parts); part++) {
        char name[64];
        snprintf(name, sizeof(name), "mnist/%s-images-idx3-ubyte.gz", parts[part]);
        if (gy_test_data(path, name) == NULL) {
            printf("the digits are not there: skipped\n");
            skip();
        }
        gy_tensor *images = NULL, *labels = NULL;
        assert_ok(gy_read_idx(path, &images));
        snprintf(name, sizeof(name), "mnist/%s-labels-idx1-ubyte.gz", parts[part]);
        assert_ok(gy_read_idx(gy_test_data(path, name), &labels));
        assert_int_equal(gy_tensor_rank(images), 3);
        assert_int_equal(gy_tensor_size(images, 0), 10000);
        assert_int_equal(gy_tensor_size(images, 1), 28);
        assert_int_equal(gy_tensor_size(images, 2), 28);
        assert_int_equal(gy_tensor_rank(labels), 1);
        assert_int_equal(gy_tensor_size(labels, 0), 10000);
        gy_view view = gy_tensor_pin(labels);
        unsigned seen = 0;
        for (int i = 0; i < 10000; i++) {
            unsigned label = ((const uint8_t *)view.data)[i];
            assert_in_range(label, 0, 9);
            seen |= 1u << label;
        }
        assert_int_equal(seen, 0x3ff);
        gy_tensor_unpin(labels);
        gy_tensor_drop(images);
        gy_tensor_drop(labels);
    }
}

GY_TEST_MAIN(NULL, NULL)
