/* Goal: what is compressed as gzip or zstd is expanded to the same bytes, whatever pieces it
 * came in; a sink that fails is asked no more; names of files say their compression. */
#include "store/files_test.h"

#include <gyre/store.h>

#include "gy_test.h"

typedef struct gathered {
    char *data; /* (size_max) */
    size_t size_bytes, size_max;
    int calls;
} gathered;

/* GY_IO where there is no room. */
static gy_status gather(void *arg, const void *data, size_t size_bytes)
{
    gathered *to = arg;
    to->calls++;
    if (size_bytes > to->size_max - to->size_bytes) {
        return gy_fail(GY_IO, "full");
    }
    memcpy(to->data + to->size_bytes, data, size_bytes);
    to->size_bytes += size_bytes;
    return GY_OK;
}

enum { PLAIN_BYTES = 300000, PACKED_BYTES = 400000 };

/* Compress in pieces of random sizes. */
static gy_status compress_pieces(gy_encoding encoding, const char *data, size_t size,
                                 gy_random *random, gathered *to)
{
    gy_compressor *compressor = NULL;
    assert_ok(gy_compressor_new(encoding, gather, to, &compressor));
    gy_status status = GY_OK;
    for (size_t at = 0; at < size && status == GY_OK;) {
        const size_t wanted =
            gy_random_below(random, UINT64_C(1) << gy_random_below(random, 18));
        const size_t piece = GY_MIN(size - at, wanted);
        status = gy_compressor_add(compressor, data + at, piece);
        at += piece;
    }
    status = status == GY_OK ? gy_compressor_end(compressor) : status;
    const int calls = to->calls;
    if (status != GY_OK) { /* it is remembered */
        assert_int_equal(gy_compressor_add(compressor, data, 1), status);
        assert_int_equal(gy_compressor_end(compressor), status);
        assert_int_equal(to->calls, calls);
    }
    gy_compressor_free(compressor);
    return status;
}

static void expect_expanded(const gathered *packed, gy_encoding encoding, const char *data,
                            size_t size)
{
    static char back[PLAIN_BYTES + 1];
    gy_source *source = NULL;
    size_t got = 0;
    assert_ok(gy_source_of(packed->data, packed->size_bytes, "x", encoding, &source));
    assert_ok(gy_source_read(source, back, sizeof(back), &got));
    assert_int_equal(got, size);
    assert_memory_equal(back, data, size);
    gy_source_close(source);
}

GY_TEST(what_is_compressed_is_expanded_again)
{
    static char data[PLAIN_BYTES], packed[PACKED_BYTES];
    static const gy_encoding encodings[] = {GY_ENCODING_GZIP, GY_ENCODING_ZSTD};
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < 12; i++) {
        const size_t size = i < 2 ? 0 : gy_random_below(&random, PLAIN_BYTES);
        const uint64_t letters = 1 + gy_random_below(&random, 256);
        for (size_t k = 0; k < size; k++) {
            data[k] = (char)gy_random_below(&random, letters);
        }
        gathered to = {.data = packed, .size_max = PACKED_BYTES};
        assert_ok(compress_pieces(encodings[i % 2], data, size, &random, &to));
        expect_expanded(&to, encodings[i % 2], data, size);
        gathered full = {.data = packed, .size_max = to.size_bytes - 1};
        assert_status(compress_pieces(encodings[i % 2], data, size, &random, &full), GY_IO);
    }
}

GY_TEST(names_say_their_compression)
{
    gy_compressor *compressor = NULL;
    assert_int_equal(gy_encoding_of_name("a/b.csv"), GY_ENCODING_PLAIN);
    assert_int_equal(gy_encoding_of_name("a.gz/b"), GY_ENCODING_PLAIN);
    assert_int_equal(gy_encoding_of_name("b.csv.gz"), GY_ENCODING_GZIP);
    assert_int_equal(gy_encoding_of_name("b.csv.ZST"), GY_ENCODING_ZSTD);
    assert_int_equal(gy_encoding_of_name("b.xz"), GY_ENCODING_XZ);
    assert_int_equal(gy_encoding_of_name("b.parquet"), GY_ENCODING_AUTO);
    assert_status(gy_compressor_new(GY_ENCODING_XZ, gather, NULL, &compressor), GY_UNSUPPORTED);
    gy_compressor_free(NULL);
}

GY_TEST_MAIN(NULL, NULL)
