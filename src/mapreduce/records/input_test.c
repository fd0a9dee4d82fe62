/* Goal: parts that make up a file have each record once, with its offset, wherever they are
 * cut; compressed files give the same records; what is no such file is refused by path and
 * place. */
#include "base/base.h"
#include "mapreduce/input.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "gy_test.h"

#define MARK "\xef\xbb\xbf"

enum { RECORDS_MAX = 4000 };

typedef struct seen {
    gy_text bytes; /* offset:data (key) of each record, in order */
    int64_t count;
    size_t longest;
} seen;

static gy_status see(void *arg, const gy_record *record)
{
    seen *all = arg;
    gy_text_add(&all->bytes, "%llu:", (unsigned long long)record->offset);
    if (record->key != NULL) {
        gy_text_add_bytes(&all->bytes, record->key, record->key_size);
        gy_text_add(&all->bytes, "=");
    }
    gy_text_add_bytes(&all->bytes, record->data, record->size);
    gy_text_add(&all->bytes, ";");
    all->longest = GY_MAX(all->longest, record->size);
    all->count++;
    return all->bytes.status;
}

static gy_input input_of(gy_record_format format, const char *data, size_t size)
{
    return (gy_input){.path = "file",
                      .data = data,
                      .size_bytes = size,
                      .end = UINT64_MAX,
                      .format = format,
                      .record_bytes = 7,
                      .delimiter = ',',
                      .record_most = 1 << 20};
}

static void check_same(seen *a, seen *b)
{
    assert_int_equal(a->count, b->count);
    assert_string_equal(gy_text_get(&a->bytes), gy_text_get(&b->bytes));
    assert_int_equal(a->bytes.size_bytes, b->bytes.size_bytes);
    assert_true(a->bytes.size_bytes == 0 ||
                memcmp(a->bytes.data, b->bytes.data, a->bytes.size_bytes) == 0);
    gy_text_free(&b->bytes);
    *b = (seen){0};
}

/* Lines and keys, one byte after the other. */
static void visit_naively(const gy_input *input, seen *all)
{
    const char *data = input->data;
    const size_t size = input->size_bytes;
    const bool has_lone =
        input->line_end == GY_LINE_END_ANY ||
        (input->line_end == GY_LINE_END_AUTO && memchr(data, '\n', size) == NULL);
    size_t begin = size >= 3 && memcmp(data, MARK, 3) == 0 ? 3 : 0;
    for (size_t i = begin; i <= size; i++) {
        const bool is_end = i == size, is_lone = !is_end && has_lone && data[i] == '\r' &&
                                                 (i + 1 == size || data[i + 1] != '\n');
        if (is_end ? begin == i : data[i] != '\n' && !is_lone) {
            continue;
        }
        const size_t cut =
            input->line_end != GY_LINE_END_LF && i > begin && data[i - 1] == '\r';
        gy_record record = {.data = data + begin, .size = i - begin - cut, .offset = begin};
        if (input->format == GY_RECORDS_KEY_VALUE) {
            record.key = record.data;
            const size_t whole = record.size;
            while (record.key_size < whole && record.key[record.key_size] != '\t') {
                record.key_size++;
            }
            const size_t taken = GY_MIN(record.key_size + 1, whole);
            record.data += taken;
            record.size -= taken;
        }
        assert_ok(see(all, &record));
        begin = i + 1;
    }
}

static char *draw_text(gy_random *random, size_t size, const char *bytes)
{
    char *text = gy_alloc("test", size); /* exact, for the sanitizer */
    const size_t kinds = strlen(bytes);
    for (size_t i = 0; i < size; i++) {
        text[i] = bytes[gy_random_below(random, kinds)];
    }
    return text;
}

GY_TEST(parts_cut_at_every_byte)
{
    gy_random random = {.key = gy_test_seed()};
    static const gy_record_format formats[] = {GY_RECORDS_LINES, GY_RECORDS_KEY_VALUE,
                                               GY_RECORDS_FIXED};
    for (size_t i = 0; i < (size_t)gy_test_cases(200); i++) {
        size_t size = gy_random_below(&random, 60);
        const gy_record_format format = formats[i % GY_COUNT(formats)];
        size -= format == GY_RECORDS_FIXED ? size % 7 : 0;
        static const char *const bytes[] = {"\n\n\ta", "abcdefg\t \n\r", "a\r\n", "ab\r"};
        char *text = draw_text(&random, size, bytes[i / 3 % GY_COUNT(bytes)]);
        if (i % 5 == 0 && size >= 3 && format != GY_RECORDS_FIXED) {
            memcpy(text, MARK, 3);
        }
        seen whole = {0}, naive = {0}, parts = {0};
        gy_input input = input_of(format, text, size);
        input.line_end = (gy_line_end)(i / 12 % 3);
        assert_ok(gy_input_visit(&input, see, &whole));
        if (format == GY_RECORDS_LINES || format == GY_RECORDS_KEY_VALUE) {
            visit_naively(&input, &naive);
            check_same(&whole, &naive);
        }
        if (!gy_input_can_part(&input, text, size)) { /* '\r' and no '\n': seen in all of it */
            assert_int_equal(input.line_end, GY_LINE_END_AUTO);
            input.line_end = GY_LINE_END_ANY;
        }
        for (size_t cut = 0; cut <= size; cut++) {
            for (size_t other = cut; other <= size; other += 1 + other / 16) {
                const size_t bounds[] = {0, cut, other, SIZE_MAX};
                for (int part = 0; part < 3; part++) {
                    input.begin = bounds[part];
                    input.end = bounds[part + 1];
                    assert_ok(gy_input_visit(&input, see, &parts));
                }
                check_same(&whole, &parts);
            }
        }
        gy_text_free(&whole.bytes);
        gy_free(text);
    }
}

typedef struct pieces {
    const char *data;
    size_t at;
} pieces;

/* Texts follow each other without a gap and end with lines. */
static gy_status see_text(void *arg, const gy_record *record)
{
    pieces *all = arg;
    assert_int_equal(record->offset, all->at);
    assert_memory_equal(record->data, all->data + all->at, record->size);
    assert_true(record->size > 0);
    all->at += record->size;
    return GY_OK;
}

GY_TEST(texts_are_whole_lines)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t i = 0; i < (size_t)gy_test_cases(60); i++) {
        const size_t size = gy_random_below(&random, i % 2 == 0 ? 400 : 400000);
        char *text = draw_text(&random, size, "abcdefghijklmnopqrstuvwxyz \n");
        if (size > 200000) {
            memset(text + 10000, 'x', 150000); /* a line longer than a text */
        }
        const size_t first = gy_random_below(&random, size + 1);
        const size_t second = first + gy_random_below(&random, size + 1 - first);
        const size_t bounds[] = {0, first, second, SIZE_MAX};
        pieces all = {text, 0};
        for (int part = 0; part < 3; part++) {
            gy_input input = input_of(GY_RECORDS_TEXT, text, size);
            input.begin = bounds[part];
            input.end = bounds[part + 1];
            assert_ok(gy_input_visit(&input, see_text, &all));
            assert_true(all.at == size || all.at == 0 || text[all.at - 1] == '\n');
            assert_true(all.at >= GY_MIN(input.end, size));
        }
        assert_int_equal(all.at, size);
        gy_free(text);
    }
}

static char *gzip_of(const char *data, size_t size, size_t *packed)
{
    z_stream stream = {.next_in = NULL};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    const size_t room = deflateBound(&stream, size) + 64;
    unsigned char *out = gy_alloc("test", room), *in = gy_alloc("test", size);
    memcpy(in, data, size);
    stream.next_in = in;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed = room - stream.avail_out;
    deflateEnd(&stream);
    gy_free(in);
    return (char *)out;
}

static char *zstd_of(const char *data, size_t size, size_t *packed)
{
    const size_t room = ZSTD_compressBound(size);
    char *out = gy_alloc("test", room);
    *packed = ZSTD_compress(out, room, data, size, 3);
    assert_false(ZSTD_isError(*packed));
    return out;
}

GY_TEST(compressed_files_have_the_same_records)
{
    gy_random random = {.key = gy_test_seed()};
    static const gy_record_format formats[] = {GY_RECORDS_LINES, GY_RECORDS_KEY_VALUE,
                                               GY_RECORDS_FIXED, GY_RECORDS_CSV};
    for (size_t i = 0; i < (size_t)gy_test_cases(40); i++) {
        size_t size = gy_random_below(&random, i % 4 == 3 ? 3000000 : 5000);
        const gy_record_format format = formats[i / 2 % GY_COUNT(formats)];
        size -= format == GY_RECORDS_FIXED ? size % 7 : 0;
        char *text =
            draw_text(&random, size, format == GY_RECORDS_CSV ? "abcdefgh\n" : "abcdefg\t \n");
        seen whole = {0}, expanded = {0};
        gy_input input = input_of(format, text, size);
        assert_ok(gy_input_visit(&input, see, &whole));
        input.data = i % 2 == 0 ? gzip_of(text, size, &input.size_bytes)
                                : zstd_of(text, size, &input.size_bytes);
        if (format == GY_RECORDS_FIXED) { /* such files may begin with any bytes */
            input.encoding = i % 2 == 0 ? GY_ENCODING_GZIP : GY_ENCODING_ZSTD;
        }
        assert_false(gy_input_can_part(&input, input.data, input.size_bytes));
        assert_ok(gy_input_visit(&input, see, &expanded));
        check_same(&whole, &expanded);
        input.size_bytes -= 1 + gy_random_below(&random, input.size_bytes - 8);
        assert_status(gy_input_visit(&input, see, &expanded), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), "file: "));
        assert_non_null(strstr(gy_error_text(), "cut short at byte"));
        gy_text_free(&expanded.bytes);
        gy_text_free(&whole.bytes);
        gy_free((void *)(uintptr_t)input.data);
        gy_free(text);
    }
}

GY_TEST(a_long_record_grows_the_buffer_to_its_limit)
{
    const size_t size = 3 << 20;
    char *text = gy_alloc("test", size);
    memset(text, 'x', size);
    gy_input input = input_of(GY_RECORDS_LINES, NULL, 0);
    char *packed = zstd_of(text, size, &input.size_bytes);
    input.data = packed;
    seen all = {0};
    input.record_most = size + 1;
    assert_ok(gy_input_visit(&input, see, &all));
    assert_int_equal(all.longest, size);
    input.record_most = size - 1;
    assert_status(gy_input_visit(&input, see, &all), GY_LIMIT);
    assert_string_equal(gy_error_text(),
                        "file: the record at offset 0 is longer than 3145727 bytes");
    gy_text_free(&all.bytes);
    gy_free(packed);
    gy_free(text);
}

static void check_refused(gy_record_format format, const char *data, size_t size,
                          const char *expected)
{
    seen all = {0};
    char *copy = gy_alloc("test", size);
    memcpy(copy, data, size);
    gy_input input = input_of(format, copy, size);
    assert_status(gy_input_visit(&input, see, &all), GY_FORMAT);
    assert_string_equal(gy_error_text(), expected);
    gy_text_free(&all.bytes);
    gy_free(copy);
}

GY_TEST(bad_files_are_refused_by_place)
{
    check_refused(GY_RECORDS_CSV, "a,b\nc\n", 6,
                  "file:2: 1 field in a row: expected 2 as in the first row");
    check_refused(GY_RECORDS_CSV, "a,\"b\n\nc\"\nd,e,f", 14,
                  "file:4: 3 fields in a row: expected 2 as in the first row");
    check_refused(GY_RECORDS_CSV, "a\n\"b\nc", 6, "file:2: a quote that is not closed");
    check_refused(GY_RECORDS_CSV, "a\nb\"c", 5,
                  "file:2: a quote within a field that does not begin with one");
    check_refused(GY_RECORDS_CSV, "\"a\"b\n", 5, "file:1: bytes behind a closing quote");
    check_refused(GY_RECORDS_CSV, "a\nb\0c\n", 6, "file:2: a NUL byte");
    check_refused(GY_RECORDS_CSV, "a\nb\xffz\n", 6, "file:2: byte 0xff is no UTF-8");
    check_refused(GY_RECORDS_CSV, "\xfe\xff\0a", 4,
                  "file: begins as UTF-16BE does (fe ff): expected UTF-8 or bytes: convert it "
                  "first (iconv -f UTF-16BE -t UTF-8)");
    check_refused(GY_RECORDS_FIXED, "0123456789", 10,
                  "file: the record at offset 7 has 3 bytes: expected 7");
    check_refused(GY_RECORDS_LINES,
                  "\xff\xfe"
                  "a\0",
                  4,
                  "file: begins as UTF-16LE does (ff fe): expected UTF-8 or bytes: convert it "
                  "first (iconv -f UTF-16LE -t UTF-8)");
    check_refused(GY_RECORDS_TEXT, "\xfe\xff\0a", 4,
                  "file: begins as UTF-16BE does (fe ff): expected UTF-8 or bytes: convert it "
                  "first (iconv -f UTF-16BE -t UTF-8)");
    size_t size = 0;
    char *packed = gzip_of("a\nb\n", 4, &size);
    gy_input part = input_of(GY_RECORDS_CSV, packed, size);
    part.begin = 2;
    assert_status(gy_input_visit(&part, see, NULL), GY_ARG);
    gy_free(packed);
}

static void check_lines(gy_input input, const char *expected)
{
    seen all = {0};
    assert_ok(gy_input_visit(&input, see, &all));
    assert_string_equal(gy_text_get(&all.bytes), expected);
    gy_text_free(&all.bytes);
}

GY_TEST(what_ends_lines_is_an_option)
{
    static const char mixed[] = MARK "a\r\nb\rc\r\r\n\nd\r", old[] = MARK "a\rb\r\rc";
    gy_input input = input_of(GY_RECORDS_LINES, mixed, sizeof(mixed) - 1);
    check_lines(input, "3:a;6:b\rc\r;12:;13:d;");
    input.line_end = GY_LINE_END_LF;
    check_lines(input, "3:a\r;6:b\rc\r\r;12:;13:d\r;");
    input.line_end = GY_LINE_END_ANY;
    check_lines(input, "3:a;6:b;8:c;10:;12:;13:d;");
    input = input_of(GY_RECORDS_LINES, old, sizeof(old) - 1);
    check_lines(input, "3:a;5:b;7:;8:c;");
    assert_false(gy_input_can_part(&input, old, sizeof(old) - 1));
    input.line_end = GY_LINE_END_LF;
    check_lines(input, "3:a\rb\r\rc;");
    /* Within quotes a field keeps its bytes. */
    static const char rows[] = MARK "\"a\r\n\",b\r\"c\r\",d\r\n\re,f\r";
    input = input_of(GY_RECORDS_CSV, rows, sizeof(rows) - 1);
    check_lines(input, "3:\"a\r\n\",b;11:\"c\r\",d;20:e,f;");
    /* An empty line is a row of one column, and none of several. */
    check_lines(input_of(GY_RECORDS_CSV, "a\n\nb", 4), "0:a;2:;3:b;");
    check_lines(input_of(GY_RECORDS_CSV, "\n\na,b\n\nc,d", 10), "2:a,b;7:c,d;");
}

/* What is compressed and longer than the buffer: '\r' and '\n' on both sides of its end. */
GY_TEST(ends_of_lines_meet_ends_of_buffers)
{
    const size_t size = (2 << 20) + 100;
    for (int shift = 0; shift < 3; shift++) {
        char *text = gy_alloc("test", size);
        for (size_t i = 0; i < size; i++) {
            text[i] = "ab\r\n"[(i + (size_t)shift) % 4];
        }
        for (int end = 0; end < 3; end++) {
            seen whole = {0}, expanded = {0};
            gy_input input = input_of(GY_RECORDS_LINES, text, size);
            input.line_end = (gy_line_end)end;
            visit_naively(&input, &whole);
            char *packed = gzip_of(text, size, &input.size_bytes);
            input.data = packed;
            assert_ok(gy_input_visit(&input, see, &expanded));
            check_same(&whole, &expanded);
            gy_text_free(&whole.bytes);
            gy_free(packed);
        }
        gy_free(text);
    }
}

/* Records of a fixed size are taken as they are, whatever they begin with. */
GY_TEST(fixed_records_are_not_looked_at)
{
    static const char *const heads[] = {"\x1f\x8b\x08", "\x28\xb5\x2f\xfd", "PK\3\4",
                                        "BZh91AY&SY",   "\xff\xfe",         "\xef\xbb\xbf"};
    for (size_t i = 0; i < GY_COUNT(heads); i++) {
        char records[21];
        memset(records, '.', sizeof(records));
        memcpy(records, heads[i], strlen(heads[i]));
        gy_input input = input_of(GY_RECORDS_FIXED, records, sizeof(records));
        seen all = {0};
        assert_true(gy_input_can_part(&input, records, sizeof(records)));
        assert_ok(gy_input_visit(&input, see, &all));
        assert_int_equal(all.count, 3);
        assert_memory_equal(all.bytes.data + 2, records, 7);
        gy_text_free(&all.bytes);
    }
}

/* Of what is compressed the contents are looked at, too; and what was said counts. */
GY_TEST(containers_within_containers_are_refused)
{
    static const char zip[] = "PK\3\4 and words";
    gy_input input = input_of(GY_RECORDS_LINES, NULL, 0);
    seen all = {0};
    char *packed = gzip_of(zip, sizeof(zip) - 1, &input.size_bytes);
    input.data = packed;
    assert_status(gy_input_visit(&input, see, &all), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "file: is a zip archive"));
    input.encoding = GY_ENCODING_GZIP;
    assert_ok(gy_input_visit(&input, see, &all));
    assert_int_equal(all.count, 1);
    input.encoding = GY_ENCODING_ZSTD;
    assert_status(gy_input_visit(&input, see, &all), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "not zstd"));
    input.encoding = GY_ENCODING_PLAIN;
    assert_true(gy_input_can_part(&input, input.data, input.size_bytes));
    assert_ok(gy_input_visit(&input, see, &all));
    gy_text_free(&all.bytes);
    gy_free(packed);
}

/* ---- parts as streams ---- */

typedef struct flow_of {
    const char *data;
    size_t size, at, taken_most; /* how far anybody asked */
} flow_of;

static gy_status fill_flow(void *arg, char *data, size_t wanted, size_t *got)
{
    flow_of *from = arg;
    *got = GY_MIN(wanted, from->size - from->at);
    memcpy(data, from->data + from->at, *got);
    from->at += *got;
    from->taken_most = GY_MAX(from->taken_most, from->at);
    return GY_OK;
}

/* The bytes alone: texts are cut elsewhere in a stream. */
static gy_status see_bytes(void *arg, const gy_record *record)
{
    gy_text_add_bytes(arg, record->data, record->size);
    return ((gy_text *)arg)->status;
}

/* A part by mapping and as a stream: the same records; *taken: how far the stream was read. */
static void check_part(gy_input part, size_t *taken)
{
    seen mapped = {0}, streamed = {0};
    gy_text texts[2] = {{0}, {0}};
    flow_of from = {.data = part.data, .size = part.size_bytes};
    from.at = (size_t)GY_MIN(gy_input_stream_begin(part.format, part.record_bytes, part.begin),
                             (uint64_t)part.size_bytes);
    const bool is_text = part.format == GY_RECORDS_TEXT;
    assert_ok(is_text ? gy_input_visit(&part, see_bytes, &texts[0])
                      : gy_input_visit(&part, see, &mapped));
    gy_input stream = part;
    stream.data = NULL;
    stream.size_bytes = 0;
    assert_ok(is_text ? gy_input_visit_stream(&stream, fill_flow, &from, see_bytes, &texts[1])
                      : gy_input_visit_stream(&stream, fill_flow, &from, see, &streamed));
    assert_int_equal(texts[0].size_bytes, texts[1].size_bytes);
    assert_true(texts[0].size_bytes == 0 ||
                memcmp(texts[0].data, texts[1].data, texts[0].size_bytes) == 0);
    *taken = from.taken_most;
    gy_text_free(&texts[0]);
    gy_text_free(&texts[1]);
    check_same(&mapped, &streamed);
    gy_text_free(&mapped.bytes);
}

GY_TEST(parts_as_streams_have_the_same_records)
{
    gy_random random = {.key = gy_test_seed()};
    static const gy_record_format formats[] = {GY_RECORDS_LINES, GY_RECORDS_KEY_VALUE,
                                               GY_RECORDS_FIXED, GY_RECORDS_TEXT};
    for (size_t i = 0; i < (size_t)gy_test_cases(80); i++) {
        /* now and then more than the buffer, and records as long as several pieces */
        const bool is_large = i / GY_COUNT(formats) % 10 == 0;
        size_t size = gy_random_below(&random, is_large ? 2500000 : 60);
        const gy_record_format format = formats[i % GY_COUNT(formats)];
        size -= format == GY_RECORDS_FIXED ? size % 7 : 0;
        char *text = draw_text(&random, size, i % 3 == 0 ? "\n\n\ta" : "abcdefg\t \n\r");
        if (is_large && i % 3 != 1 && size > 0) {
            memset(text + gy_random_below(&random, size) / 2, 'x', size / 3);
        }
        gy_input part = input_of(format, text, size);
        part.record_most = 4 << 20;
        part.line_end = (gy_line_end)(i / 8 % 3);
        if (!is_large && i % 8 >= 4) { /* room for little more than a record */
            for (size_t at = 8; at < size && format != GY_RECORDS_FIXED; at += 9) {
                text[at] = '\n';
            }
            part.record_most = 10 + gy_random_below(&random, 20);
        }
        if (!gy_input_can_part(&part, text, size)) {
            part.line_end = GY_LINE_END_ANY;
        }
        size_t taken = 0;
        for (int cut = 0; cut < 5; cut++) {
            part.begin = gy_random_below(&random, size + 1);
            part.end = cut == 0
                           ? UINT64_MAX
                           : part.begin + 1 + gy_random_below(&random, size - part.begin + 1);
            check_part(part, &taken);
        }
        gy_free(text);
    }
}

/* A text whose line goes on beyond its part is not cut where the buffer ends. */
GY_TEST(a_line_longer_than_memory_is_refused)
{
    char text[41];
    memset(text, 'x', sizeof(text));
    text[40] = '\n';
    flow_of from = {.data = text, .size = sizeof(text)};
    gy_input part = input_of(GY_RECORDS_TEXT, NULL, 0);
    gy_text all = {0};
    part.end = 5;
    part.record_most = 16;
    assert_status(gy_input_visit_stream(&part, fill_flow, &from, see_bytes, &all), GY_LIMIT);
    assert_int_equal(all.size_bytes, 0);
    part.record_most = 64;
    from.at = 0;
    assert_ok(gy_input_visit_stream(&part, fill_flow, &from, see_bytes, &all));
    assert_int_equal(all.size_bytes, sizeof(text));
    gy_text_free(&all);
}

/* What lies behind the end of a part is another's, and is not paid for. */
GY_TEST(a_stream_ends_soon_behind_its_part)
{
    const size_t size = 2 << 20;
    char *text = gy_alloc("test", size);
    memset(text, 'x', size);
    for (size_t i = 99; i < size; i += 100) {
        text[i] = '\n';
    }
    gy_input part = input_of(GY_RECORDS_LINES, text, size);
    size_t taken = 0;
    part.end = 1000050;
    check_part(part, &taken);
    assert_int_equal(taken, 1000050 + (64 << 10));
    part.end = 1000000; /* a line ends there: nothing is missing */
    check_part(part, &taken);
    assert_int_equal(taken, 1000000);
    gy_free(text);
}

/* The fields of each row, unquoted, beside what they were made of. */
static gy_text *expected_rows;

static gy_status see_fields(void *arg, const gy_record *record)
{
    gy_text *all = arg;
    for (gy_token field = gy_first_field(record); field.data != NULL;
         field = gy_next_field(field)) {
        char out[256];
        assert_true(field.size < sizeof(out));
        gy_text_add_bytes(all, out, gy_field_text(field, out));
        gy_text_add(all, "|");
    }
    gy_text_add(all, "$");
    return all->status;
}

static void put_field(gy_random *random, gy_text *file)
{
    static const char bytes[] = "ab,\"\n\r ";
    char field[16];
    const size_t size = gy_random_below(random, sizeof(field));
    const bool is_quoted = gy_random_below(random, 2) == 0;
    gy_text_add(file, is_quoted ? "\"" : "");
    for (size_t i = 0; i < size; i++) {
        field[i] = bytes[gy_random_below(random, is_quoted ? sizeof(bytes) - 1 : 2)];
        gy_text_add_bytes(file, &field[i], 1);
        gy_text_add(file, field[i] == '"' ? "\"" : "");
    }
    gy_text_add(file, is_quoted ? "\"" : "");
    gy_text_add_bytes(expected_rows, field, size);
    gy_text_add(expected_rows, "|");
}

static gy_status see_begin(void *arg, const gy_record *record)
{
    uint64_t *begin = arg; /* of the first record from there on */
    if (begin[1] == UINT64_MAX && record->offset >= begin[0]) {
        begin[1] = record->offset;
    }
    return GY_OK;
}

/* Two parts that meet where a row begins have the rows of the whole. */
static void check_two_parts(gy_random *random, gy_input input, gy_text *expected)
{
    gy_text found = {0};
    uint64_t begin[2] = {gy_random_below(random, input.size_bytes + 1), UINT64_MAX};
    assert_ok(gy_input_visit(&input, see_begin, begin));
    input.end = GY_MIN(begin[1], (uint64_t)input.size_bytes);
    assert_ok(gy_input_visit(&input, see_fields, &found));
    input.begin = input.end;
    input.end = UINT64_MAX;
    assert_ok(gy_input_visit(&input, see_fields, &found));
    assert_string_equal(gy_text_get(&found), gy_text_get(expected));
    gy_text_free(&found);
}

GY_TEST(fields_come_back_as_they_were)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t i = 0; i < (size_t)gy_test_cases(300); i++) {
        gy_text file = {0}, expected = {0}, found = {0};
        expected_rows = &expected;
        const uint64_t rows = gy_random_below(&random, 20),
                       fields = 2 + gy_random_below(&random, 4);
        for (uint64_t row = 0; row < rows; row++) {
            for (uint64_t j = 0; j < fields; j++) {
                gy_text_add(&file, j > 0 ? "," : "");
                put_field(&random, &file);
            }
            gy_text_add(&expected, "$");
            if (row + 1 < rows || i % 2 == 0) {
                gy_text_add(&file, i % 3 == 0 ? "\r\n" : i % 3 == 1 ? "\r" : "\n");
            }
        }
        char *exact = gy_alloc("test", file.size_bytes);
        memcpy(exact, gy_text_get(&file), file.size_bytes);
        gy_input input = input_of(GY_RECORDS_CSV, exact, file.size_bytes);
        assert_ok(gy_input_visit(&input, see_fields, &found));
        assert_string_equal(gy_text_get(&found), gy_text_get(&expected));
        check_two_parts(&random, input, &expected);
        if (file.size_bytes > 0) { /* the same in pieces that cut rows anywhere */
            gy_text_free(&found);
            char *packed = gzip_of(exact, file.size_bytes, &input.size_bytes);
            input.data = packed;
            assert_ok(gy_input_visit(&input, see_fields, &found));
            assert_string_equal(gy_text_get(&found), gy_text_get(&expected));
            gy_free(packed);
        }
        gy_free(exact);
        gy_text_free(&file);
        gy_text_free(&expected);
        gy_text_free(&found);
    }
}

GY_TEST(words_of_records)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t i = 0; i < (size_t)gy_test_cases(2000); i++) {
        const size_t size = gy_random_below(&random, 100);
        char *text = draw_text(&random, size, "abcdefghijklmno\r  \t");
        const gy_record record = {.data = text, .size = size};
        gy_token word = gy_first_word(&record);
        for (size_t at = 0; at < size;) {
            size_t end = at;
            while (end < size && strchr(" \t\n\r", text[end]) == NULL) {
                end++;
            }
            if (end > at) {
                assert_ptr_equal(word.data, text + at);
                assert_int_equal(word.size, end - at);
                word = gy_next_word(word);
            }
            at = end + 1;
        }
        assert_int_equal(word.size, 0);
        assert_int_equal(gy_next_word(word).size, 0);
        gy_free(text);
    }
}

GY_TEST_MAIN(NULL, NULL)
