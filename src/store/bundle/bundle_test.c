/* Goal: bundles come back as written, byte for byte the same each time; damaged or hostile
 * files are refused by name. */
#include "store/bundle/bundle.h"
#include "store/bundle/tensors_test.h"
#include "store/files_test.h"
#include "tensor/tensor.h"

#include "gy_test.h"

static char path[TEST_PATH_BYTES];

static int make_folder(void **state)
{
    (void)test_make_home(state);
    test_path(path, test_home, "model.safetensors");
    return 0;
}

static void add(gy_bundle *bundle, const char *name, gy_tensor *tensor)
{
    assert_ok(gy_bundle_add(bundle, name, tensor));
    gy_tensor_drop(tensor);
}

/* Shape, type and bits are those of `a`, contiguous. */
static void expect_same(gy_tensor *a, gy_tensor *b)
{
    gy_view left = gy_tensor_pin(a), right = gy_tensor_pin(b);
    assert_int_equal(left.dtype, right.dtype);
    assert_true(gy_view_same_shape(&left, &right));
    if (gy_view_bytes(&left) > 0) {
        assert_memory_equal(left.data, right.data, gy_view_bytes(&left));
    }
    gy_tensor_unpin(a);
    gy_tensor_unpin(b);
}

GY_TEST(random_bundles_come_back)
{
    gy_random random = {.key = gy_test_seed()};
    const int64_t live = gy_alloc_live();
    for (int round = 0; round < 60; round++) {
        gy_bundle *bundle = NULL, *back = NULL;
        assert_ok(gy_bundle_new(&bundle));
        const size_t count = gy_random_below(&random, 20);
        for (size_t i = 0; i < count; i++) {
            char name[64];
            snprintf(name, sizeof(name), "l%llu.\"w\\\n%zu\xc3\xa9",
                     (unsigned long long)gy_random_below(&random, 100), i);
            add(bundle, name,
                random_tensor(&random,
                              (gy_dtype)(1 + gy_random_below(&random, GY_DTYPE_COUNT - 1)), 5));
        }
        assert_ok(gy_bundle_set(bundle, "step", "11"));
        assert_ok(gy_bundle_set(bundle, "epoch", "7"));
        assert_ok(gy_bundle_set(bundle, "step", "12"));
        assert_false(gy_bundle_is_verified(bundle));
        assert_ok(gy_bundle_write(bundle, path));
        assert_ok(gy_bundle_read(path, &back));
        assert_true(gy_bundle_is_verified(back));
        assert_int_equal(gy_bundle_count(back), count);
        assert_string_equal(gy_bundle_get(back, "step"), "12");
        assert_string_equal(gy_bundle_get(back, "epoch"), "7");
        assert_null(gy_bundle_get(back, "other"));
        for (size_t i = 0; i < count; i++) {
            gy_tensor *found = gy_bundle_find(back, gy_bundle_name(bundle, i));
            assert_non_null(found);
            expect_same(gy_bundle_tensor(bundle, i), found);
        }
        assert_null(gy_bundle_find(back, "none"));
        gy_bundle_free(bundle);
        gy_bundle_free(back);
    }
    gy_bundle_free(NULL);
    assert_int_equal(gy_alloc_live(), live);
}

/* Three tensors in an order of choice, one of them strided. */
static gy_bundle *small_bundle(bool is_reversed)
{
    gy_bundle *bundle = NULL;
    gy_tensor *tensors[3] = {NULL}, *wide = NULL;
    static const char *const names[3] = {"bias", "weight", "mask"};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    const double large[1] = {0.5};
    const uint8_t small[3] = {1, 0, 1};
    assert_ok(gy_bundle_new(&bundle));
    assert_ok(gy_tensor_from(NULL, GY_F64, NULL, 0, large, &tensors[0]));
    assert_ok(gy_tensor_from(NULL, GY_F32, (int64_t[]){2, 3}, 2, values, &wide));
    assert_ok(gy_tensor_permute(wide, (int[]){1, 0}, &tensors[1]));
    assert_ok(gy_tensor_from(NULL, GY_U8, (int64_t[]){3}, 1, small, &tensors[2]));
    gy_tensor_drop(wide);
    for (int i = 0; i < 3; i++) {
        int at = is_reversed ? 2 - i : i;
        add(bundle, names[at], tensors[at]);
    }
    assert_ok(gy_bundle_set(bundle, is_reversed ? "b" : "a", "1"));
    assert_ok(gy_bundle_set(bundle, is_reversed ? "a" : "b", "1"));
    return bundle;
}

GY_TEST(equal_bundles_give_equal_bytes)
{
    gy_bytes first = {NULL, 0}, second = {NULL, 0};
    gy_bundle *bundle = small_bundle(false), *other = small_bundle(true), *back = NULL;
    assert_ok(gy_bundle_write(bundle, path));
    assert_ok(gy_store_file_read(gy_env_real(), path, 10000, &first));
    assert_ok(gy_bundle_write(other, path));
    assert_ok(gy_store_file_read(gy_env_real(), path, 10000, &second));
    assert_int_equal(first.size_bytes, second.size_bytes);
    assert_memory_equal(first.data, second.data, first.size_bytes);
    uint64_t header_size = 0;
    memcpy(&header_size, first.data, 8);
    assert_int_equal(header_size % 8, 0);
    assert_int_equal(first.size_bytes, 8 + header_size + 8 + 24 + 3);
    static const char start[] =
        "{\"__metadata__\":{\"a\":\"1\",\"b\":\"1\",\"gyre.checksum\":\"sum:";
    assert_memory_equal(first.data + 8, start, sizeof(start) - 1);
    static const float turned[6] = {1, 4, 2, 5, 3, 6}; /* the strided tensor, row-major */
    assert_memory_equal(first.data + 8 + header_size + 8, turned, sizeof(turned));
    assert_ok(gy_bundle_read(path, &back));
    assert_string_equal(gy_bundle_name(back, 0), "bias"); /* in the order of the file */
    assert_string_equal(gy_bundle_name(back, 1), "weight");
    assert_string_equal(gy_bundle_name(back, 2), "mask");
    gy_free(first.data);
    gy_free(second.data);
    gy_bundle_free(bundle);
    gy_bundle_free(other);
    gy_bundle_free(back);
}

static gy_status load_bytes(const void *data, size_t size, gy_bundle **bundle)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size, "f", GY_ENCODING_PLAIN, &source));
    gy_status status = gy_bundle_load(source, NULL, bundle);
    gy_source_close(source);
    return status;
}

/* Bad input 15: any flipped bit is refused, or leaves everything that counts as it was. */
GY_TEST(every_flipped_bit_is_found)
{
    gy_bytes file = {NULL, 0};
    gy_bundle *bundle = small_bundle(false), *intact = NULL;
    assert_ok(gy_bundle_write(bundle, path));
    assert_ok(gy_store_file_read(gy_env_real(), path, 10000, &file));
    assert_ok(load_bytes(file.data, file.size_bytes, &intact));
    size_t refused = 0, passed = 0;
    for (size_t bit = 0; bit < file.size_bytes * 8; bit++) {
        gy_bundle *back = NULL;
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        gy_status status = load_bytes(file.data, file.size_bytes, &back);
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        refused += status < 0;
        passed += status == GY_OK;
        if (status == GY_OK) { /* white space, or the name of the checksum itself */
            for (size_t i = 0; i < gy_bundle_count(intact); i++) {
                assert_string_equal(gy_bundle_name(intact, i), gy_bundle_name(back, i));
                expect_same(gy_bundle_tensor(intact, i), gy_bundle_tensor(back, i));
            }
            assert_string_equal(gy_bundle_get(back, "a"), "1");
            assert_string_equal(gy_bundle_get(back, "b"), "1");
        }
        gy_bundle_free(back);
    }
    printf("%zu flips refused, %zu harmless\n", refused, passed);
    assert_true(passed < 13 * 8 + 8);
    char *shape = memmem(file.data, file.size_bytes, "[3,2]", 5);
    assert_non_null(shape);
    memcpy(shape, "[2,3]", 5); /* more than a bit: as many elements in another shape */
    gy_bundle *other = NULL;
    assert_status(load_bytes(file.data, file.size_bytes, &other), GY_FORMAT);
    memcpy(shape, "[3,2]", 5);
    for (size_t cut = 0; cut < file.size_bytes; cut++) {
        gy_bundle *back = NULL;
        assert_status(load_bytes(file.data, cut, &back), GY_FORMAT);
    }
    file.data[file.size_bytes - 1] ^= 1;
    gy_bundle *back = NULL;
    assert_status(load_bytes(file.data, file.size_bytes, &back), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "f: damaged: checksum sum:"));
    gy_free(file.data);
    gy_bundle_free(bundle);
    gy_bundle_free(intact);
}

/* A file of a header and `data_bytes` zeros must fail so; nothing leaks. */
static void expect_failure(const char *header, size_t data_bytes, gy_status expected,
                           const char *text)
{
    static unsigned char file[4096];
    memset(file, 0, sizeof(file));
    const uint64_t size = strlen(header);
    memcpy(file, &size, 8);
    memcpy(file + 8, header, size);
    gy_bundle *bundle = NULL;
    const int64_t live = gy_alloc_live();
    assert_status(load_bytes(file, 8 + size + data_bytes, &bundle), expected);
    assert_string_equal(gy_error_text(), text);
    assert_null(bundle);
    assert_int_equal(gy_alloc_live(), live);
}

#define TENSOR(name, type, shape, begin, end)                                                  \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin       \
    "," #end "]}"

/* Bad input 12: overlapping or outside offsets, gaps, doubled names. */
GY_TEST(offsets_must_cover_the_data_exactly)
{
    expect_failure("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 2, 6) "}", 6,
                   GY_FORMAT, "f: tensor 'b' begins at data byte 2, expected 4: an overlap");
    expect_failure("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 0, 4) "}", 4,
                   GY_FORMAT, "f: tensor 'b' begins at data byte 0, expected 4: an overlap");
    expect_failure("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[1]", 5, 6) "}", 6,
                   GY_FORMAT, "f: tensor 'b' begins at data byte 5, expected 4: a gap");
    expect_failure("{" TENSOR("a", "U8", "[4]", 0, 4) "}", 5, GY_FORMAT,
                   "f: the tensors take 4 bytes of data, the file has 5");
    expect_failure("{}", 1, GY_FORMAT, "f: the tensors take 0 bytes of data, the file has 1");
    expect_failure("{" TENSOR("a", "U8", "[4]", 0, 4) "}", 3, GY_FORMAT,
                   "f: tensor 'a': data_offsets [0,4] outside the 3 bytes of data");
    expect_failure("{" TENSOR("a", "U8", "[4]", -1, 3) "}", 4, GY_FORMAT,
                   "f: tensor 'a': data_offsets [-1,3] outside the 4 bytes of data");
    expect_failure("{" TENSOR("a", "U8", "[4]", 4, 0) "}", 4, GY_FORMAT,
                   "f: tensor 'a': data_offsets [4,0] outside the 4 bytes of data");
    expect_failure("{" TENSOR("a", "F32", "[4]", 0, 4) "}", 4, GY_FORMAT,
                   "f: tensor 'a': f32[4] takes 16 bytes, data_offsets give 4");
    expect_failure("{" TENSOR("a", "U8", "[1]", 0, 1) "," TENSOR("a", "U8", "[1]", 1, 2) "}", 2,
                   GY_FORMAT, "f: header, byte 64: duplicate object key near '\"a\"'");
    expect_failure("{" TENSOR("a", "U8", "[0,4611686018427387904,2]", 0, 0) "}", 0, GY_FORMAT,
                   "f: tensor 'a': shape: shape [0,4611686018427387904,2] has more than 2^62 "
                   "bytes");
}

GY_TEST(malformed_headers_are_named)
{
    expect_failure("", 0, GY_FORMAT, "f: the header does not begin with '{' at byte 8");
    expect_failure(" {}", 0, GY_FORMAT, "f: the header does not begin with '{' at byte 8");
    expect_failure("{", 0, GY_FORMAT,
                   "f: header, byte 9: string or '}' expected near end of file");
    expect_failure("{} x", 0, GY_FORMAT, "f: header, byte 12: end of file expected near 'x'");
    expect_failure("{\"a\":7}", 0, GY_FORMAT,
                   "f: tensor 'a': expected an object of dtype, shape and data_offsets");
    expect_failure("{\"a\\n\":{}}", 0, GY_FORMAT,
                   "f: tensor 'a?': expected an object of dtype, shape and data_offsets");
    expect_failure("{" TENSOR("a", "BOOL", "[1]", 0, 1) "}", 1, GY_UNSUPPORTED,
                   "f: tensor 'a': dtype 'BOOL', expected F64, F32, F16, BF16 or an integer");
    expect_failure("{" TENSOR("a", "U8", "7", 0, 1) "}", 1, GY_FORMAT,
                   "f: tensor 'a': shape is not a list of 0 to 8 sizes");
    expect_failure("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, GY_FORMAT,
                   "f: tensor 'a': shape is not a list of 0 to 8 sizes");
    expect_failure("{" TENSOR("a", "U8", "[1.5]", 0, 1) "}", 1, GY_FORMAT,
                   "f: tensor 'a': size 0 of the shape is not a count");
    expect_failure("{" TENSOR("a", "U8", "[-1]", 0, 1) "}", 1, GY_FORMAT,
                   "f: tensor 'a': size 0 of the shape is not a count");
    expect_failure("{" TENSOR("a", "U8", "[1]", 0, 1.0) "}", 1, GY_FORMAT,
                   "f: tensor 'a': data_offsets is not a pair of numbers");
    expect_failure("{\"__metadata__\":[]}", 0, GY_FORMAT, "f: __metadata__ is not an object");
    expect_failure("{\"__metadata__\":{\"k\":1}}", 0, GY_FORMAT,
                   "f: __metadata__ of 'k' is not a text");
    expect_failure("{\"__metadata__\":{\"gyre.checksum\":\"xxh3:no\"}}", 0, GY_FORMAT,
                   "f: damaged: checksum xxh3:c77b3abb6f87acd9, the file says xxh3:no");
}

/* Bad input 12: a header of 100 MB, and one larger than the file. */
GY_TEST(oversized_headers_are_refused_before_memory_is_taken)
{
    gy_bundle *bundle = NULL;
    const uint64_t sizes[] = {100000000, UINT64_MAX, 1000};
    static const char *const texts[] = {
        "f: a header of 100000000 bytes, expected at most 16777216",
        "f: a header of 18446744073709551615 bytes, expected at most 16777216",
        "f: a header of 1000 bytes in a file of 8"};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        assert_status(load_bytes(&sizes[i], 8, &bundle), i < 2 ? GY_LIMIT : GY_FORMAT);
        assert_string_equal(gy_error_text(), texts[i]);
    }
    assert_status(load_bytes("short", 5, &bundle), GY_FORMAT);
    assert_string_equal(gy_error_text(), "f: ends at byte 5, inside the length of the header");
}

GY_TEST(too_many_texts_are_refused)
{
    gy_bundle *bundle = NULL;
    gy_text file = {.data = NULL};
    for (int count = 8192; count <= 8193; count++) {
        uint64_t size = 0;
        gy_text_add_bytes(&file, &size, sizeof(size));
        for (int i = 0; i < count; i++) {
            gy_text_add(&file, "%s\"%d\":\"\"", i == 0 ? "{\"__metadata__\":{" : ",", i);
        }
        gy_text_add(&file, "}}");
        assert_ok(file.status);
        size = file.size_bytes - sizeof(size);
        memcpy(file.data, &size, sizeof(size));
        assert_status(load_bytes(file.data, file.size_bytes, &bundle),
                      count == 8192 ? GY_OK : GY_LIMIT);
        gy_text_free(&file);
    }
    assert_string_equal(gy_error_text(),
                        "f: 8193 texts in __metadata__, expected at most 8192");
    assert_string_equal(gy_bundle_get(bundle, "8191"), "");
    gy_bundle_free(bundle);
}

GY_TEST(foreign_files_without_checksum_are_read)
{
    static const char header[] =
        "{" TENSOR("b", "I16", "[2]", 2, 6) "," TENSOR("a", "U8", "[1,2]", 0, 2) "}   ";
    unsigned char file[256] = {sizeof(header) - 1};
    memcpy(file + 8, header, sizeof(header) - 1);
    static const unsigned char data[6] = {7, 8, 1, 0, 255, 255};
    memcpy(file + 8 + sizeof(header) - 1, data, sizeof(data));
    gy_bundle *bundle = NULL;
    assert_ok(load_bytes(file, 8 + sizeof(header) - 1 + sizeof(data), &bundle));
    assert_false(gy_bundle_is_verified(bundle));
    assert_string_equal(gy_bundle_name(bundle, 0), "a");
    assert_true(gy_tensor_get(gy_bundle_find(bundle, "a"), 1) == 8);
    assert_true(gy_tensor_get(gy_bundle_find(bundle, "b"), 0) == 1);
    assert_true(gy_tensor_get(gy_bundle_find(bundle, "b"), 1) == -1);
    gy_bundle_free(bundle);
}

GY_TEST(bad_names_are_refused)
{
    gy_bundle *bundle = small_bundle(false);
    gy_tensor *tensor = gy_bundle_tensor(bundle, 0);
    assert_status(gy_bundle_add(bundle, "", tensor), GY_ARG);
    assert_status(gy_bundle_add(bundle, "__metadata__", tensor), GY_ARG);
    assert_status(gy_bundle_add(bundle, "bias", tensor), GY_EXISTS);
    assert_string_equal(gy_error_text(), "a tensor named 'bias' is in the bundle already");
    static const char *const broken[] = {"\xff",
                                         "a\xc3",
                                         "\xc0\x80",
                                         "\xed\xa0\x80",
                                         "\xf4\x90\x80\x80",
                                         "\xe0\x80\x80",
                                         "\xf0\x80\x80\x80",
                                         "\x80"};
    for (size_t i = 0; i < GY_COUNT(broken); i++) {
        assert_status(gy_bundle_add(bundle, broken[i], tensor), GY_ARG);
        assert_status(gy_bundle_set(bundle, broken[i], ""), GY_ARG);
        assert_status(gy_bundle_set(bundle, "k", broken[i]), GY_ARG);
    }
    assert_status(gy_bundle_set(bundle, "gyre.checksum", "1"), GY_ARG);
    assert_ok(gy_bundle_set(bundle, "\xf0\x9f\x98\x80\xed\x9f\xbf", "\xe2\x82\xac"));
    assert_int_equal(gy_bundle_count(bundle), 3);
    gy_bundle_free(bundle);
}

/* Bad input 24: read-only output, missing folder; and the drill of a failing disk: the old file
 * stays. */
GY_TEST(failed_writes_leave_the_old_bundle)
{
    gy_bundle *bundle = small_bundle(false), *back = NULL;
    assert_status(gy_bundle_write(bundle, "/nonexistent/model"), GY_NOTFOUND);
    assert_string_equal(gy_error_text(),
                        "cannot write /nonexistent/model: No such file or directory");
    assert_status(gy_bundle_write(bundle, "/proc/model"), GY_NOTFOUND);
    assert_ok(gy_bundle_write(bundle, path));
    for (int n = 1; n < 40; n++) {
        test_disk_state = (test_disk){.countdown = n, .error = -ENOSPC};
        gy_status status = gy_bundle_save(bundle, test_env(), path);
        assert_int_equal(test_disk_state.open_files, 0);
        assert_true(status == GY_OK || status == GY_IO);
        assert_ok(gy_bundle_read(path, &back));
        assert_true(gy_bundle_is_verified(back));
        gy_bundle_free(back);
        if (status == GY_OK && test_disk_state.countdown > 0) {
            break;
        }
    }
    assert_int_equal(test_entry_count(test_home), 1);
    gy_bundle_free(bundle);
}

GY_TEST(failed_allocations_leak_nothing)
{
    gy_bundle *bundle = small_bundle(false), *back = NULL;
    const int64_t live = gy_alloc_live();
    int n = 1;
    for (; n < 100; n++) {
        gy_alloc_fail_after(n);
        gy_status status = gy_bundle_write(bundle, path);
        gy_alloc_fail_after(0);
        assert_int_equal(gy_alloc_live(), live);
        if (status == GY_OK) {
            break;
        }
        assert_int_equal(status, GY_NOMEM);
    }
    assert_in_range(n, 5, 99);
    for (n = 1; n < 100; n++) {
        gy_alloc_fail_after(n);
        gy_status status = gy_bundle_read(path, &back);
        gy_alloc_fail_after(0);
        if (status == GY_OK) {
            break;
        }
        assert_int_equal(status, GY_NOMEM);
        assert_int_equal(gy_alloc_live(), live);
    }
    assert_in_range(n, 10, 99);
    gy_bundle_free(back);
    gy_bundle_free(bundle);
}

GY_TEST_MAIN(make_folder, test_remove_home)
