/* Goal: zstd is expanded as libzstd wrote it, whatever the pieces read; cut, damaged or
 * followed streams are refused in bounded memory. */
#include "store/files_test.h"

#include <zstd.h>

#include "gy_test.h"

static unsigned char *compress_frame(const void *data, size_t size, size_t *out_size)
{
    const size_t room = ZSTD_compressBound(size);
    unsigned char *out = gy_alloc("test", room);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    *out_size = ZSTD_compress2(context, out, room, data, size);
    assert_false(ZSTD_isError(*out_size));
    (void)ZSTD_freeCCtx(context);
    return out;
}

/* Read all in pieces; the status of the first failure, or GY_OK and the size. */
static gy_status expand(const void *packed, size_t packed_size, size_t piece, char *out,
                        size_t room, size_t *size)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(packed, packed_size, "z", GY_ENCODING_AUTO, &source));
    gy_status status = GY_OK;
    size_t got = piece;
    *size = 0;
    while (status == GY_OK && got == piece) {
        got = 0;
        status = gy_source_read(source, out + *size, GY_MIN(piece, room - *size), &got);
        *size += got;
    }
    gy_source_close(source);
    return status;
}

GY_TEST(frames_expand_to_what_was_compressed)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t size = 0; size < 600000; size = size * 4 + 3) {
        char *text = test_text(&random, size), *out = gy_alloc("test", 2 * size + 10);
        size_t packed_size = 0, got = 0;
        unsigned char *packed = compress_frame(text, size, &packed_size);
        unsigned char *twice = gy_alloc("test", 2 * packed_size);
        memcpy(twice, packed, packed_size);
        memcpy(twice + packed_size, packed, packed_size);
        for (size_t piece = 1; piece < 2 * size + 10; piece = piece * 30 + 1) {
            assert_ok(expand(twice, 2 * packed_size, piece, out, 2 * size + 10, &got));
            assert_int_equal(got, 2 * size);
            assert_memory_equal(out, text, size);
            assert_memory_equal(out + size, text, size);
        }
        gy_free(twice);
        gy_free(packed);
        gy_free(text);
        gy_free(out);
    }
}

GY_TEST(every_cut_tail_and_bit_is_refused)
{
    gy_random random = {.key = gy_test_seed()};
    char *text = test_text(&random, 300), out[1000];
    size_t size = 0, got = 0;
    unsigned char *packed = compress_frame(text, 300, &size);
    for (size_t cut = 4; cut < size; cut++) {
        char expected[64];
        snprintf(expected, sizeof(expected), "z: zstd cut short at byte %zu", cut);
        assert_status(expand(packed, cut, 1000, out, sizeof(out), &got), GY_FORMAT);
        assert_string_equal(gy_error_text(), expected);
    }
    unsigned char *longer = gy_alloc("test", size + 4);
    memcpy(longer, packed, size);
    memcpy(longer + size, "tail", 4);
    assert_status(expand(longer, size + 4, 1000, out, sizeof(out), &got), GY_FORMAT);
    for (size_t bit = 7 * 8; bit < size * 8; bit++) { /* the sum sees each that matters */
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        gy_status status = expand(packed, size, 1000, out, sizeof(out), &got);
        assert_true(status == GY_FORMAT ||
                    (status == GY_OK && got == 300 && memcmp(out, text, 300) == 0));
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    gy_free(longer);
    gy_free(packed);
    gy_free(text);
}

GY_TEST(a_bomb_is_read_in_bounded_memory)
{
    const size_t size = 64 << 20;
    char *zeros = gy_alloc_zero("test", size, 1);
    size_t packed_size = 0, got = 0;
    unsigned char *packed = compress_frame(zeros, size, &packed_size);
    gy_free(zeros);
    assert_true(packed_size < 10000);
    gy_source *source = NULL;
    assert_ok(gy_source_of(packed, packed_size, "bomb", GY_ENCODING_AUTO, &source));
    assert_true(gy_source_bound(source) >= size);
    assert_true(gy_source_is_packed(source));
    char piece[1000];
    for (int i = 0; i < 1000; i++) {
        assert_ok(gy_source_read(source, piece, sizeof(piece), &got));
        assert_int_equal(got, sizeof(piece));
    }
    gy_source_close(source);
    gy_free(packed);
}

GY_TEST_MAIN(NULL, NULL)
