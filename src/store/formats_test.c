/* Goal: what a file is stands in its first bytes, and whatever it is, it is expanded whole or
 * refused by name; frames to skip, several members and padding may stand wherever their formats
 * let them. */
#include "store/files_test.h"

#include <dlfcn.h>
#include <zlib.h>
#include <zstd.h>

#include "gy_test.h"

enum { ROOM = 5 << 20, FORMATS = 5 };

/* ---- compressing: by libraries that Gyre itself opens late, and only to expand ---- */

static void *function_of(const char *library, const char *name)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(opened);
    void *found = dlsym(opened, name);
    assert_non_null(found);
    return found;
}

static size_t gzip(void *out, const void *in, size_t size)
{
    z_stream stream = {.next_out = out, .avail_out = ROOM};
    gz_header header = {.name = (Bytef *)"a name", .comment = (Bytef *)"words", .hcrc = 1};
    header.extra = (Bytef *)"ab\2\0xy";
    header.extra_len = 6;
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflateSetHeader(&stream, &header), Z_OK);
    memcpy(&stream.next_in, &in, sizeof(in));
    stream.avail_in = (uInt)size;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return ROOM - stream.avail_out;
}

static size_t zstd(void *out, const void *in, size_t size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    const size_t made = ZSTD_compress2(context, out, ROOM, in, size);
    assert_false(ZSTD_isError(made));
    (void)ZSTD_freeCCtx(context);
    return made;
}

static size_t bzip2(void *out, const void *in, size_t size)
{
    int (*compress)(char *, unsigned *, const char *, unsigned, int, int, int) = NULL;
    *(void **)&compress = function_of("libbz2.so.1.0", "BZ2_bzBuffToBuffCompress");
    unsigned made = ROOM;
    assert_int_equal(compress(out, &made, in, (unsigned)size, 9, 0, 0), 0);
    return made;
}

static size_t xz(void *out, const void *in, size_t size)
{
    int (*encode)(uint32_t, int, const void *, const void *, size_t, void *, size_t *, size_t) =
        NULL;
    *(void **)&encode = function_of("liblzma.so.5", "lzma_easy_buffer_encode");
    size_t made = 0;
    assert_int_equal(encode(0, 4, NULL, in, size, out, &made, ROOM), 0);
    return made;
}

static size_t lz4(void *out, const void *in, size_t size)
{
    size_t (*compress)(void *, size_t, const void *, size_t, const void *) = NULL;
    *(void **)&compress = function_of("liblz4.so.1", "LZ4F_compressFrame");
    const struct { /* LZ4F_preferences_t: with a checksum of the content */
        int block_size, mode, has_checksum, type;
        unsigned long long content_size;
        unsigned dictionary;
        int has_block_checksums, level;
        unsigned spare[5];
    } preferences = {.has_checksum = 1};
    const size_t made = compress(out, ROOM, in, size, &preferences);
    assert_true(made < ROOM);
    return made;
}

static const struct {
    const char *name;
    size_t (*compress)(void *out, const void *in, size_t size);
    gy_encoding encoding;
    bool has_skippable;
    size_t padding;
} formats[FORMATS] = {{"gzip", gzip, GY_ENCODING_GZIP, false, 1},
                      {"zstd", zstd, GY_ENCODING_ZSTD, true, 0},
                      {"bzip2", bzip2, GY_ENCODING_BZIP2, false, 1},
                      {"xz", xz, GY_ENCODING_XZ, false, 4},
                      {"lz4", lz4, GY_ENCODING_LZ4, true, 0}};

/* ---- expanding ---- */

static gy_status expand_as(gy_encoding encoding, const void *data, size_t size, size_t piece,
                           gy_text *out)
{
    char buffer[4096];
    gy_source *source = NULL;
    gy_text_free(out);
    GY_TRY(gy_source_of(data, size, "file", encoding, &source));
    gy_status status = GY_OK;
    for (size_t got = piece; status == GY_OK && got == piece;) {
        got = 0;
        status = gy_source_read(source, buffer, piece, &got);
        gy_text_add_bytes(out, buffer, got);
    }
    gy_source_close(source);
    return status;
}

static gy_status expand(const gy_text *packed, size_t piece, gy_text *out)
{
    return expand_as(GY_ENCODING_AUTO, packed->data, packed->size_bytes, piece, out);
}

static void check_is(const gy_text *out, const char *text, size_t size, int times)
{
    assert_int_equal(out->size_bytes, size * (size_t)times);
    for (int i = 0; i < times && size > 0; i++) {
        assert_memory_equal(out->data + size * (size_t)i, text, size);
    }
}

static void add_packed(gy_text *to, size_t format, const char *text, size_t size)
{
    unsigned char *out = gy_alloc("test", ROOM);
    gy_text_add_bytes(to, out, formats[format].compress(out, text, size));
    gy_free(out);
}

static void add_skippable(gy_text *to, int number, size_t size)
{
    const unsigned char head[8] = {
        (unsigned char)(0x50 + number), 0x2a, 0x4d, 0x18, (unsigned char)size,
        (unsigned char)(size >> 8)};
    gy_text_add_bytes(to, head, sizeof(head));
    for (size_t i = 0; i < size; i++) { /* what is no frame */
        gy_text_add_bytes(to, &"\x28\xb5\x2f\xfd"[i % 4], 1);
    }
}

/* ---- tests ---- */

GY_TEST(members_expand_to_what_was_compressed)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t format = 0; format < FORMATS; format++) {
        for (size_t size = 0; size < 300000; size = size * 8 + 5) {
            char *text = test_text(&random, size);
            gy_text both = {0}, out = {0};
            add_packed(&both, format, text, size);
            add_packed(&both, format, text, size);
            for (size_t piece = size < 5000 ? 1 : 4096; piece <= 4096; piece = piece * 63 + 1) {
                assert_ok(expand(&both, piece, &out));
                check_is(&out, text, size, 2);
                assert_ok(expand_as(formats[format].encoding, both.data, both.size_bytes, piece,
                                    &out));
                check_is(&out, text, size, 2);
            }
            gy_text_free(&out);
            gy_text_free(&both);
            gy_free(text);
        }
    }
}

/* No cut gives less without a word, no tail and no bit another text. */
GY_TEST(every_cut_tail_and_bit_is_refused)
{
    gy_random random = {.key = gy_test_seed()};
    char *text = test_text(&random, 300);
    for (size_t format = 0; format < FORMATS; format++) {
        gy_text whole = {0}, out = {0};
        add_packed(&whole, format, text, 300);
        for (size_t cut = 4; cut < whole.size_bytes; cut++) {
            assert_status(expand_as(GY_ENCODING_AUTO, whole.data, cut, 100, &out), GY_FORMAT);
            char expected[64];
            snprintf(expected, sizeof(expected), "file: %s cut short at byte %zu",
                     formats[format].name, cut);
            assert_string_equal(gy_error_text(), expected);
        }
        const size_t step = gy_test_takes(0) ? 1 : 7;
        for (size_t bit = 10 * 8; bit < whole.size_bytes * 8; bit += step) {
            whole.data[bit / 8] ^= (char)(1u << bit % 8);
            const gy_status status = expand(&whole, 100, &out);
            assert_true(
                status == GY_FORMAT || status == GY_LIMIT ||
                (status == GY_OK && out.size_bytes == 300 && memcmp(out.data, text, 300) == 0));
            whole.data[bit / 8] ^= (char)(1u << bit % 8);
        }
        gy_text_add(&whole, "tail of no format");
        assert_status(expand(&whole, 100, &out), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), "bytes that are no"));
        gy_text_free(&out);
        gy_text_free(&whole);
    }
    gy_free(text);
}

/* 16 magic numbers that zstd and lz4 share: in front, between, behind. */
GY_TEST(frames_to_skip_stand_anywhere)
{
    static const size_t sizes[] = {0, 5, 300, 70000};
    for (size_t format = 0; format < FORMATS; format++) {
        for (int number = 0; number < 16; number++) {
            const size_t size = GY_MIN(sizes[number % 4], (size_t)UINT16_MAX);
            gy_text all = {0}, out = {0};
            add_skippable(&all, number, size);
            if (number % 2 == 0) {
                add_skippable(&all, 15 - number, 3);
            }
            add_packed(&all, format, "alpha beta\n", 11);
            if (!formats[format].has_skippable) {
                assert_status(expand(&all, 100, &out), GY_FORMAT);
                assert_non_null(strstr(gy_error_text(), "bytes that are no zstd or lz4"));
            } else {
                add_skippable(&all, (number + 3) % 16, size);
                add_packed(&all, format, "alpha beta\n", 11);
                add_skippable(&all, (number + 7) % 16, size);
                assert_ok(expand(&all, 100, &out));
                check_is(&out, "alpha beta\n", 11, 2);
                all.size_bytes -= 1 + size / 2; /* into the last one */
                assert_status(expand(&all, 100, &out), GY_FORMAT);
                assert_non_null(strstr(gy_error_text(), "cut short"));
            }
            gy_text_free(&out);
            gy_text_free(&all);
        }
    }
    gy_text only = {0}, out = {0};
    add_skippable(&only, 0, 9);
    add_skippable(&only, 5, 0);
    assert_ok(expand(&only, 100, &out));
    assert_int_equal(out.size_bytes, 0);
    gy_text_add(&only, "text");
    assert_status(expand(&only, 100, &out), GY_FORMAT);
    gy_text_free(&out);
    gy_text_free(&only);
}

/* One format does not follow another. */
GY_TEST(members_of_two_formats_are_refused)
{
    for (size_t i = 0; i < FORMATS * FORMATS; i++) {
        const size_t first = i / FORMATS, second = i % FORMATS;
        gy_text both = {0}, out = {0};
        add_packed(&both, first, "a", 1);
        add_packed(&both, second, "a", 1);
        assert_status(expand(&both, 100, &out), first == second ? GY_OK : GY_FORMAT);
        assert_status(
            expand_as(formats[second].encoding, both.data, both.size_bytes, 100, &out),
            first == second ? GY_OK : GY_FORMAT);
        gy_text_free(&out);
        gy_text_free(&both);
    }
}

GY_TEST(nuls_may_lie_behind)
{
    static const char nuls[70000];
    for (size_t format = 0; format < FORMATS; format++) {
        const size_t padding = formats[format].padding;
        for (size_t count = 1; count < sizeof(nuls); count = count * 5 + 3) {
            gy_text all = {0}, out = {0};
            add_packed(&all, format, "alpha", 5);
            gy_text_add_bytes(&all, nuls, count);
            const bool is_fine = padding > 0 && count % padding == 0;
            assert_status(expand(&all, 100, &out), is_fine ? GY_OK : GY_FORMAT);
            if (is_fine) {
                check_is(&out, "alpha", 5, 1);
                add_packed(&all, format, "alpha", 5);
                assert_ok(expand(&all, 100, &out));
                check_is(&out, "alpha", 5, 2);
                gy_text_add(&all, "x");
                assert_status(expand(&all, 100, &out), GY_FORMAT);
            }
            gy_text_free(&out);
            gy_text_free(&all);
        }
    }
}

#define BYTES(text) (text), sizeof(text) - 1

GY_TEST(what_is_not_read_is_refused_by_name)
{
    static const struct {
        const char *head;
        size_t size;
        const char *name;
    } refused[] = {
        {BYTES("PK\3\4\24\0"), "a zip archive"},
        {BYTES("PK\5\6\0\0\0\0"), "an empty zip archive"},
        {BYTES("7z\xbc\xaf\x27\x1c\0\4"), "a 7z archive"},
        {BYTES("Rar!\x1a\7\1\0"), "a RAR archive"},
        {BYTES("!<arch>\ndebian-binary"), "an ar archive"},
        {BYTES("PAR1\x15\4\x15\x10"), "Parquet"},
        {BYTES("ORC\n\6\n\4\10"), "ORC"},
        {BYTES("Obj\1\4\26avro"), "an Avro file"},
        {BYTES("ARROW1\0\0\xff\xff"), "an Arrow file"},
        {BYTES("SEQ\6\x19org.apache"), "a Hadoop SequenceFile"},
        {BYTES("SQLite format 3\0\x10\0"), "a SQLite database"},
        {BYTES("\x1f\x9d\x90words"), "compress (.Z)"},
        {BYTES("\x1f\xa0words"), "LZH (.z)"},
        {BYTES("\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0\x30"), "lzma (.lzma)"},
        {BYTES("LZIP\1\x0c"), "lzip"},
        {BYTES("\x89LZO\0\r\n\x1a\n\x10"), "lzop"},
        {BYTES("\2\x21\x4c\x18\5\0\0\0"), "lz4 of before 2013 (legacy)"},
        {BYTES("\xff\6\0\0sNaPpY\1"), "Snappy"},
        {BYTES("x\x9c\x4b\xcc\4\2"), "zlib"},
        {BYTES("\xfd\x2f\xb5\x1e\0\0"), "zstd of version 0.1"},
        {BYTES("\x22\xb5\x2f\xfd\0"), "zstd of version 0.2"},
        {BYTES("\x27\xb5\x2f\xfd\0"), "zstd of version 0.7"},
        {BYTES("\x37\xa4\x30\xec\0"), "a dictionary of zstd"},
    };
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        gy_text out = {0};
        char expected[128];
        assert_status(expand_as(GY_ENCODING_AUTO, refused[i].head, refused[i].size, 100, &out),
                      GY_FORMAT);
        snprintf(expected, sizeof(expected), "file: is %s, which Gyre does not read: expected ",
                 refused[i].name);
        assert_memory_equal(gy_error_text(), expected, strlen(expected));
        assert_ok(expand_as(GY_ENCODING_PLAIN, refused[i].head, refused[i].size, 100, &out));
        check_is(&out, refused[i].head, refused[i].size, 1);
        gy_text_free(&out);
    }
    char tar[1024] = "a.txt";
    memcpy(tar + 257, "ustar\00000", 8);
    assert_status(gy_store_format_check("t", tar, sizeof(tar)), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "a tar archive"));
}

/* Letters that a format also begins with, before a text. */
GY_TEST(texts_stay_texts)
{
    static const char *const texts[] = {"",
                                        "B",
                                        "BZh",
                                        "BZh9 is no block",
                                        "PK\n",
                                        "PAR1 is a field\n",
                                        "ORC\n",
                                        "7z x file",
                                        "Rar! it said",
                                        "SEQ\tkey",
                                        "]",
                                        "x^2 + y^2",
                                        "P*M",
                                        "ustar",
                                        "Obj",
                                        "LZIP them",
                                        "Sq",
                                        "MSCF",
                                        "x\t1",
                                        "\x1b[1mbold\x1b[0m",
                                        "h\bhe\beading",
                                        "caf\xc3\xa9",
                                        "\xe9t\xe9"};
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        gy_text out = {0};
        const size_t size = strlen(texts[i]);
        assert_ok(expand_as(GY_ENCODING_AUTO, texts[i], size, 100, &out));
        check_is(&out, texts[i], size, 1);
        assert_ok(gy_store_format_check_text("file", false, texts[i], size));
        assert_ok(gy_store_format_check_text("called.gz", false, texts[i], size));
        assert_false(gy_store_format_is_packed(GY_ENCODING_AUTO, texts[i], size));
        gy_text_free(&out);
    }
}

GY_TEST(what_shall_be_text_is_looked_at)
{
    const struct {
        const char *path, *head;
        size_t size;
        bool is_expanded;
        const char *words;
    } refused[] = {{"u", BYTES("\xff\xfe\x61\0"), false, "UTF-16LE"},
                   {"u", BYTES("\xfe\xff\0\x61"), true, "UTF-16BE"},
                   {"u", BYTES("\xff\xfe\0\0\x61\0\0\0"), false, "UTF-32LE"},
                   {"u", BYTES("\0\0\xfe\xff\0\0\0\x61"), false, "UTF-32BE"},
                   {"a.gz", BYTES("\1\2\3"), false, "its name says gzip"},
                   {"a.BZ2", BYTES("\1\2\3"), false, "its name says bzip2"},
                   {"s3://b/a.br", BYTES("\1\2\3"), false, "its name says Brotli"},
                   {"a.zst", BYTES("("), false, "zstd cut short at byte 1"},
                   {"a.zst", BYTES("(\xb5"), false, "zstd cut short at byte 2"},
                   {"a.bz2", BYTES("BZh"), false, "bzip2 cut short at byte 3"},
                   {"a.xz", BYTES("\xfd\x37"), false, "xz cut short at byte 2"},
                   {"a.gz", BYTES("\x1f\x8b\x08\0"), true, "there is gzip within"}};
    for (size_t i = 0; i < GY_COUNT(refused); i++) {
        assert_status(gy_store_format_check_text(refused[i].path, refused[i].is_expanded,
                                                 refused[i].head, refused[i].size),
                      GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), refused[i].words));
    }
    assert_ok(gy_store_format_check_text("a.gz", true, "\1\2\3", 3));
    assert_ok(gy_store_format_check_text("a.bz2", false, "BZ\n", 3));
    assert_ok(gy_store_format_check_text("a.bz2", false, "", 0));
    assert_ok(gy_store_format_check_text("a.txt", false, "BZ", 2));
    assert_ok(gy_store_format_check_text("a.d.gz/b", false, "\1\2\3", 3));
}

GY_TEST(what_was_said_counts)
{
    assert_int_equal(gy_store_encoding_for(GY_ENCODING_AUTO, "a", false), GY_ENCODING_AUTO);
    assert_int_equal(gy_store_encoding_for(GY_ENCODING_AUTO, "a", true), GY_ENCODING_PLAIN);
    assert_int_equal(gy_store_encoding_for(GY_ENCODING_AUTO, "a.bin", true), GY_ENCODING_PLAIN);
    assert_int_equal(gy_store_encoding_for(GY_ENCODING_AUTO, "d/a.gz", true), GY_ENCODING_AUTO);
    assert_int_equal(gy_store_encoding_for(GY_ENCODING_XZ, "d/a.gz", true), GY_ENCODING_XZ);
    for (size_t format = 0; format < FORMATS; format++) {
        gy_text all = {0}, out = {0};
        const gy_encoding own = formats[format].encoding;
        assert_status(expand_as(own, "plain text", 10, 100, &out), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), "in front"));
        assert_status(expand_as(own, "", 0, 100, &out), GY_FORMAT);
        add_packed(&all, format, "alpha", 5);
        assert_true(gy_store_format_is_packed(GY_ENCODING_AUTO, all.data, all.size_bytes));
        assert_ok(expand_as(GY_ENCODING_PLAIN, all.data, all.size_bytes, 100, &out));
        check_is(&out, all.data, all.size_bytes, 1);
        gy_text_free(&out);
        gy_text_free(&all);
    }
}

/* A dictionary or window of 128 MiB is the most: what asks for more is refused before it gets
 * any. */
GY_TEST(memory_is_bounded)
{
    gy_text all = {0}, out = {0};
    /* zstd: no size, a window of 2^27 or 2^28, one raw block. */
    assert_ok(expand_as(GY_ENCODING_AUTO, "\x28\xb5\x2f\xfd\0\x88\x09\0\0a", 10, 100, &out));
    check_is(&out, "a", 1, 1);
    assert_status(expand_as(GY_ENCODING_AUTO, "\x28\xb5\x2f\xfd\0\x90\x09\0\0a", 10, 100, &out),
                  GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "128 MiB"));
    /* xz: the header of the first block, which tells the dictionary's size, at byte 12. */
    for (unsigned char code = 30; code <= 32; code += 2) {
        gy_text_free(&all);
        add_packed(&all, 3, "alpha", 5);
        unsigned char *header = (unsigned char *)all.data + 12;
        const size_t size = 4 * (size_t)header[0];              /* without its checksum */
        unsigned char *filter = memchr(header + 2, 0x21, size); /* LZMA2, one byte of it */
        assert_int_equal(filter[1], 1);
        filter[2] = code; /* 2^27, 2^28 */
        const uLong sum = crc32(0, header, (uInt)size);
        for (int i = 0; i < 4; i++) {
            header[size + (size_t)i] = (unsigned char)(sum >> 8 * i);
        }
        assert_status(expand(&all, 100, &out), code == 30 ? GY_OK : GY_LIMIT);
    }
    assert_non_null(strstr(gy_error_text(), "128 MiB"));
    gy_text_free(&out);
    gy_text_free(&all);
}

GY_TEST(bombs_stay_within_their_bounds)
{
    const size_t size = 4 << 20;
    char *zeros = gy_alloc_zero("test", size, 1);
    for (size_t format = 0; format < FORMATS; format++) {
        gy_text bomb = {0};
        add_packed(&bomb, format, zeros, size);
        gy_source *source = NULL;
        assert_ok(gy_source_of(bomb.data, bomb.size_bytes, "bomb", GY_ENCODING_AUTO, &source));
        assert_true(gy_source_is_packed(source));
        assert_true(gy_source_bound(source) >= size);
        gy_source_close(source);
        gy_text_free(&bomb);
    }
    gy_free(zeros);
}

GY_TEST(failed_allocations_leak_nothing)
{
    for (size_t format = 0; format < FORMATS; format++) {
        gy_text all = {0};
        add_packed(&all, format, "alpha", 5);
        add_packed(&all, format, "alpha", 5);
        const int64_t live = gy_alloc_live();
        gy_status status = GY_NOMEM;
        for (int n = 1; n < 40 && status != GY_OK; n++) {
            char out[100];
            size_t got = 0;
            gy_source *source = NULL;
            gy_alloc_fail_after(n);
            status = gy_source_of(all.data, all.size_bytes, "x", GY_ENCODING_AUTO, &source);
            if (status == GY_OK) {
                status = gy_source_read(source, out, sizeof(out), &got);
                gy_source_close(source);
            }
            gy_alloc_fail_after(0);
            assert_true(status == GY_OK ? got == 10 : status == GY_NOMEM);
            assert_int_equal(gy_alloc_live(), live);
        }
        assert_int_equal(status, GY_OK);
        gy_text_free(&all);
    }
}

GY_TEST_MAIN(NULL, NULL)
