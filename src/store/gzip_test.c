/* Goal: gzip is expanded as zlib wrote it; cut, damaged, followed or exploding streams are
 * refused in bounded memory. */
#include "store/files_test.h"

#include <zlib.h>

#include "gy_test.h"

/* One gzip member; gy_free. */
static unsigned char *compress_member(const void *data, size_t size, size_t *out_size)
{
    z_stream stream = {.next_in = NULL};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    size_t room = deflateBound(&stream, size) + 64;
    unsigned char *out = gy_alloc("test", room);
    void *in = gy_alloc("test", size); /* zlib's input has no const */
    memcpy(in, data, size);
    stream.next_in = in;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *out_size = room - stream.avail_out;
    deflateEnd(&stream);
    gy_free(in);
    return out;
}

GY_TEST(members_expand_to_what_was_compressed)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t size = 0; size < 600000; size = size * 4 + 3) {
        char *text = test_text(&random, size);
        size_t packed_size = 0;
        unsigned char *packed = compress_member(text, size, &packed_size);
        unsigned char *twice = gy_alloc("test", 2 * packed_size);
        memcpy(twice, packed, packed_size);
        memcpy(twice + packed_size, packed, packed_size);
        gy_bytes out = {NULL, 0};
        assert_ok(gy_store_gzip_expand(packed, packed_size, "one", size, &out));
        assert_int_equal(out.size_bytes, size);
        assert_memory_equal(out.data, text, size);
        gy_free(out.data);
        assert_ok(gy_store_gzip_expand(twice, 2 * packed_size, "two", 2 * size, &out));
        assert_int_equal(out.size_bytes, 2 * size);
        assert_memory_equal(out.data + size, text, size);
        gy_free(out.data);
        for (size_t cut = 1; cut < packed_size;
             cut += 1 + packed_size / 9) { /* in the second */
            assert_status(gy_store_gzip_expand(twice, packed_size + cut, "cut", 2 * size, &out),
                          GY_FORMAT);
        }
        if (size > 0) {
            assert_status(gy_store_gzip_expand(packed, packed_size, "one", size - 1, &out),
                          GY_LIMIT);
        }
        gy_free(twice);
        gy_free(packed);
        gy_free(text);
    }
}

GY_TEST(every_cut_and_every_tail_is_refused)
{
    gy_random random = {.key = gy_test_seed()};
    char *text = test_text(&random, 300);
    size_t size = 0;
    unsigned char *packed = compress_member(text, 300, &size);
    gy_bytes out = {NULL, 0};
    for (size_t cut = 0; cut < size; cut++) {
        assert_status(gy_store_gzip_expand(packed, cut, "cut", 1000, &out), GY_FORMAT);
        if (cut >= 2) {
            char expected[64];
            snprintf(expected, sizeof(expected), "cut: gzip cut short at byte %zu", cut);
            assert_string_equal(gy_error_text(), expected);
        }
    }
    assert_status(gy_store_gzip_expand("plain", 5, "p", 1000, &out), GY_FORMAT);
    assert_string_equal(gy_error_text(), "p: not gzip: expected 1f 8b in front");
    unsigned char *longer = gy_alloc("test", size + 4);
    memcpy(longer, packed, size);
    memcpy(longer + size, "tail", 4);
    assert_status(gy_store_gzip_expand(longer, size + 4, "t", 1000, &out), GY_FORMAT);
    size_t unread = 0; /* bits behind the last block, until the next byte begins */
    for (size_t bit = 80; bit < size * 8;
         bit++) { /* behind the header every other bit counts */
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const gy_status status = gy_store_gzip_expand(packed, size, "flip", 1000, &out);
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (status != GY_OK) {
            assert_status(status, GY_FORMAT);
            continue;
        }
        assert_int_equal(out.size_bytes, 300);
        assert_memory_equal(out.data, text, 300);
        gy_free(out.data);
        out = (gy_bytes){NULL, 0};
        unread++;
    }
    assert_true(unread < 8);
    assert_null(out.data);
    gy_free(longer);
    gy_free(packed);
    gy_free(text);
}

GY_TEST(a_bomb_stops_at_the_limit)
{
    const size_t size = 64 << 20;
    char *zeros = gy_alloc_zero("test", size, 1);
    size_t packed_size = 0;
    unsigned char *packed = compress_member(zeros, size, &packed_size);
    gy_free(zeros);
    assert_true(packed_size < 70000);
    gy_bytes out = {NULL, 0};
    assert_status(gy_store_gzip_expand(packed, packed_size, "bomb", 1 << 20, &out), GY_LIMIT);
    assert_string_equal(gy_error_text(), "bomb: expands to more than 1048576 bytes");
    gy_source *source = NULL;
    assert_ok(gy_source_of(packed, packed_size, "bomb", GY_ENCODING_AUTO, &source));
    assert_true(gy_source_bound(source) >= size);
    gy_source_close(source);
    gy_free(packed);
}

GY_TEST(failed_allocations_leak_nothing)
{
    size_t size = 0;
    char text[1000] = "x";
    unsigned char *packed = compress_member(text, sizeof(text), &size);
    const int64_t live = gy_alloc_live();
    gy_bytes out = {NULL, 0};
    int n = 1;
    for (; n < 20; n++) {
        gy_alloc_fail_after(n);
        gy_status status = gy_store_gzip_expand(packed, size, "x", 1000, &out);
        gy_alloc_fail_after(0);
        if (status == GY_OK) {
            break;
        }
        assert_int_equal(status, GY_NOMEM);
        assert_int_equal(gy_alloc_live(), live);
    }
    assert_in_range(n, 5, 19);
    gy_free(out.data);
    assert_int_equal(gy_alloc_live(), live);
    gy_free(packed);
}

GY_TEST_MAIN(NULL, NULL)
