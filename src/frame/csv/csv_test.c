/* Goal: the rows and fields of a CSV file are those of a reference that reads byte by byte,
 * wherever the file is cut and by whichever thread, with any instruction set; types fit all
 * rows; and what is no CSV is refused by file and line. */
#include "frame/csv/csv_priv.h"
#include "frame/csv/reference_test.h"

#include "gy_test.h"

#include <zlib.h>

static int64_t live;
static reference expected;

static int begin(void **state)
{
    (void)state;
    live = gy_alloc_live();
    return 0;
}

static int end(void **state)
{
    (void)state;
    return gy_alloc_live() == live ? 0 : -1;
}

/* ---- random files ---- */

enum { FILE_BYTES = 3000 };

typedef struct random_file {
    char text[FILE_BYTES];
    size_t size;
    char delimiter;
} random_file;

static void put(random_file *file, const char *text)
{
    const size_t size = strlen(text);
    assert_true(file->size + size < FILE_BYTES);
    memcpy(file->text + file->size, text, size);
    file->size += size;
}

static void put_field(random_file *file, gy_random *random)
{
    static const char *const pieces[] = {"a", "bc", "\xc3\xa9", "7", " ", "'"};
    const bool is_quoted = gy_random_below(random, 4) == 0;
    put(file, is_quoted ? "\"" : "");
    for (uint64_t i = gy_random_below(random, 6); i > 0; i--) {
        static const char *const quoted[] = {"\n", "\r\n", ",", ";", "\"\"", "\r"};
        put(file, is_quoted && gy_random_below(random, 3) == 0
                      ? quoted[gy_random_below(random, GY_COUNT(quoted))]
                      : pieces[gy_random_below(random, GY_COUNT(pieces))]);
    }
    put(file, is_quoted ? "\"" : "");
}

/* A file that is right but, one time in four, for a byte. */
static void make_table(random_file *file, gy_random *random)
{
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    const char *end = ends[gy_random_below(random, 3)];
    const char delimiter[2] = {file->delimiter, '\0'};
    const uint64_t columns = 1 + gy_random_below(random, 4);
    put(file, gy_random_below(random, 4) == 0 ? "\xef\xbb\xbf" : "");
    for (uint64_t rows = gy_random_below(random, 20); rows > 0; rows--) {
        for (uint64_t i = 0; i < columns; i++) {
            put(file, i > 0 ? delimiter : "");
            put_field(file, random);
        }
        put(file, rows > 1 || gy_random_below(random, 2) == 0 ? end : "");
        put(file, gy_random_below(random, 10) == 0 ? end : "");
        end = gy_random_below(random, 8) == 0 ? ends[gy_random_below(random, 3)] : end;
    }
    if (file->size > 0 && gy_random_below(random, 4) == 0) {
        static const char bytes[] = "\"\n\r,;a";
        file->text[gy_random_below(random, file->size)] = bytes[gy_random_below(random, 6)];
    }
}

/* Bytes without a plan. */
static void make_bytes(random_file *file, gy_random *random)
{
    static const char bytes[] = "aab,,;\"\"\n\n\r";
    for (uint64_t i = gy_random_below(random, 200); i > 0; i--) {
        const char text[2] = {bytes[gy_random_below(random, sizeof(bytes) - 1)], '\0'};
        put(file, text);
    }
}

static void make_file(random_file *file, gy_random *random)
{
    *file = (random_file){.delimiter = gy_random_below(random, 2) == 0 ? ',' : ';'};
    if (gy_random_below(random, 3) == 0) {
        make_bytes(file, random);
    } else {
        make_table(file, random);
    }
}

/* "c0 text, c1 text, ..." */
static void name_columns(size_t count, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        at += gy_print(out + at, size - at, "%sc%zu text", i > 0 ? ", " : "", i);
    }
}

/* The rows of a frame are those of the reference from `row` on; how many. */
static size_t check_rows(const gy_frame *frame, size_t row)
{
    const size_t rows = (size_t)gy_frame_rows(frame);
    assert_true(row + rows <= expected.rows);
    for (size_t i = 0; i < expected.columns; i++) {
        const gy_column column = gy_frame_column(frame, (int)i);
        for (size_t r = 0; r < rows; r++) {
            const reference_cell *cell = &expected.cells[(row + r) * expected.columns + i];
            assert_int_equal(gy_column_is_null(&column, (int64_t)r), cell->is_null);
            const gy_text_view text = gy_column_text(&column, (int64_t)r);
            assert_int_equal(text.size_bytes, cell->size);
            assert_memory_equal(text.data, cell->data, cell->size);
        }
    }
    return rows;
}

/* Read a file in order to its end. GY_OK, or how it failed. */
static gy_status read_in_order(gy_csv *csv)
{
    size_t row = 0;
    gy_status status = GY_OK;
    gy_frame *frame = NULL;
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        if (!expected.is_wrong) {
            row += check_rows(frame, row);
        }
        gy_frame_drop(frame);
    }
    if (status == GY_DONE && !expected.is_wrong) {
        assert_int_equal(row, expected.rows);
    }
    return status == GY_DONE ? GY_OK : status;
}

/* Read each cut by itself, the last first: the rows that begin in it. */
static gy_status read_cuts(gy_csv *csv, size_t cut_bytes)
{
    GY_TRY(gy_csv_split(csv, NULL));
    size_t row = expected.rows;
    for (int64_t cut = gy_csv_cut_count(csv) - 1; cut >= 0; cut--) {
        gy_frame *frame = NULL;
        GY_TRY(gy_csv_read_cut(csv, cut, &frame));
        if (!expected.is_wrong) {
            while (row > 0 && expected.begins[row - 1] >= (size_t)cut * cut_bytes) {
                row--;
            }
            assert_true(row + (size_t)gy_frame_rows(frame) <= expected.rows);
            const size_t rows = check_rows(frame, row);
            assert_true(row + rows == expected.rows ||
                        expected.begins[row + rows] >= (size_t)(cut + 1) * cut_bytes);
        }
        gy_frame_drop(frame);
    }
    return GY_OK;
}

/* gzip of a file. */
static size_t pack(const random_file *file, unsigned char *out, size_t size)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)file->text,
                       .avail_in = (unsigned)file->size,
                       .next_out = out,
                       .avail_out = (unsigned)size};
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return stream.total_out;
}

static gy_status read_file(const random_file *file, int how, size_t cut_bytes)
{
    char columns[256];
    unsigned char packed[FILE_BYTES + 200];
    name_columns(expected.columns, columns, sizeof(columns));
    const gy_csv_options options = GY_OPTIONS(
        gy_csv_options, .delimiter = file->delimiter, .has_no_header = true, .columns = columns,
        .cut_bytes = cut_bytes, .encoding = how == 2 ? GY_ENCODING_GZIP : GY_ENCODING_PLAIN);
    const void *data = how == 2 ? packed : (const void *)file->text;
    const size_t size = how == 2 ? pack(file, packed, sizeof(packed)) : file->size;
    gy_csv *csv = NULL;
    GY_TRY(gy_csv_open_memory(data, size, "x.csv", &options, &csv));
    const gy_status status = how == 1 ? read_cuts(csv, cut_bytes) : read_in_order(csv);
    gy_csv_close(csv);
    return status;
}

GY_TEST(rows_are_those_of_the_reference_for_every_cut)
{
    gy_random random = {.key = gy_test_seed()};
    long good = 0, bad = 0;
    for (long i = gy_test_serial_cases(6000); i > 0; i--) {
        random_file file;
        const gy_random before = random;
        make_file(&file, &random);
        reference_read(file.text, file.size, file.delimiter, &expected);
        const size_t cut_bytes = (size_t)64 << gy_random_below(&random, 4);
        for (int how = 0; how < 3; how++) {
            const gy_status status = read_file(&file, how, cut_bytes);
            if (status != GY_OK && status != GY_FORMAT) {
                fail_msg("%s: %s", gy_status_text(status), gy_error_text());
            }
            if ((status != GY_OK) != expected.is_wrong) {
                fail_msg("file %llu (how %d, cuts of %zu): %s, expected %s\n%.*s",
                         (unsigned long long)before.next, how, cut_bytes,
                         status == GY_OK ? "ok" : gy_error_text(),
                         expected.is_wrong ? "a failure" : "rows", (int)file.size, file.text);
            }
        }
        good += !expected.is_wrong;
        bad += expected.is_wrong;
    }
    assert_true(good > bad / 4 && bad > good / 4);
}

/* ---- separators ---- */

GY_TEST(each_instruction_set_finds_the_same_separators)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = gy_test_serial_cases(20000); i > 0; i--) {
        static const char bytes[] = "abcdefg,,;\"\"\n\r\xc3\0";
        char text[300];
        const size_t size = gy_random_below(&random, sizeof(text));
        const uint64_t plain = gy_random_below(&random, 4);
        for (size_t k = 0; k < size; k++) {
            text[k] = gy_random_below(&random, 4) < plain
                          ? 'x'
                          : bytes[gy_random_below(&random, sizeof(bytes) - 1)];
        }
        const char next = "a\n"[gy_random_below(&random, 2)];
        uint32_t edges[300 + GY_CSV_EDGE_SLACK], plainly[300];
        size_t count = 0, row_ends = 0;
        bool is_inside = false;
        uint64_t ends[2] = {0, 0};
        for (size_t k = 0; k < size; k++) {
            const char behind = k + 1 < size ? text[k + 1] : next;
            const bool is_end = text[k] == '\n' || (text[k] == '\r' && behind != '\n');
            is_inside = is_inside != (text[k] == '"');
            ends[is_inside] += is_end;
            row_ends += is_end && !is_inside;
            if (!is_inside && (is_end || text[k] == ',')) {
                plainly[count++] = (uint32_t)k;
            }
        }
        for (gy_way way = GY_WAY_PLAIN; way < GY_WAY_COUNT; way++) {
            if (!gy_way_is_here(way)) {
                continue;
            }
            gy_csv_marks marks;
            gy_csv_cut cut;
            const gy_text_view view = {text, size};
            gy_csv_find(way, ',', view, next, edges, &marks);
            assert_int_equal(marks.edges, count);
            assert_int_equal(marks.row_ends, row_ends);
            assert_int_equal(marks.is_inside, is_inside);
            assert_memory_equal(edges, plainly, count * sizeof(*edges));
            gy_csv_look(way, view, next, &cut);
            assert_int_equal(cut.is_odd, is_inside);
            assert_true(cut.row_ends[0] == ends[0] && cut.row_ends[1] == ends[1]);
        }
    }
}

/* ---- types ---- */

static gy_status open_text(const char *text, const gy_csv_options *options, gy_csv **csv)
{
    return gy_csv_open_memory(text, strlen(text), "x.csv", options, csv);
}

GY_TEST(a_column_has_the_type_that_fits_all_rows)
{
    static const struct {
        const char *values, *type;
    } rows[] = {
        {"1\n-2\n0", "int64"},
        {"1\n\n\"3\"", "int64"},
        {"9223372036854775807", "int64"},
        {"9223372036854775808", "double"},
        {"1\n007", "text"},
        {"+49", "text"},
        {"1\n2.50", "decimal(18, 2)"},
        {".5\n-12345", "decimal(18, 1)"},
        {"123456789012345.678", "decimal(18, 3)"},
        {"1234567890123456.789", "double"},
        {"1\n2.5\n1e3", "double"},
        {"NaN\n-Infinity\n1", "double"},
        {"1e999", "text"},
        {"-0", "double"},
        {"true\nFALSE", "bool"},
        {"true\n1", "text"},
        {"2024-02-29", "date"},
        {"2023-02-29", "text"},
        {"2024-02-29\n2024-02-29 12:00", "timestamp"},
        {"2024-02-29T12:00:00.5+01:00\n2024-02-29 12:00Z", "timestamp"},
        {"1\n\"\"", "text"},
        {"1\nx", "text"},
        {"x\n11111111\n11111111\n11111111\n11111111\n11111111\n11111111\n11111111", "text"},
        {"2.5\n11111111\n11111111\n11111111\n11111111\n11111111\n11111111\n1.25\n11111111",
         "decimal(18, 2)"},
        {" 1", "text"},
        {"", "text"},
        {"\n\n", "text"},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        char text[256], shown[128];
        (void)gy_print(text, sizeof(text), "a\n%s\n", rows[i].values);
        for (int whole = 0; whole < 2; whole++) {
            gy_csv *csv = NULL;
            char *schema = NULL;
            assert_ok(open_text(text, &GY_OPTIONS(gy_csv_options, .cut_bytes = 64), &csv));
            if (whole) {
                assert_ok(gy_csv_retype(csv, NULL));
            }
            assert_ok(gy_schema_text(gy_csv_schema(csv), &schema));
            (void)gy_print(shown, sizeof(shown), "a %s", rows[i].type);
            assert_string_equal(schema, shown);
            gy_string_free(schema);
            gy_frame *frame = NULL;
            gy_status status = GY_OK;
            while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
                gy_frame_drop(frame);
            }
            assert_status(status, GY_DONE);
            gy_csv_close(csv);
        }
    }
}

/* Rows of a CSV file, read to the end. */
static int64_t count_rows(gy_csv *csv)
{
    int64_t rows = 0;
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        rows += gy_frame_rows(frame);
        gy_frame_drop(frame);
    }
    assert_status(status, GY_DONE);
    return rows;
}

/* 1000 rows of numbers, then what is none. */
static void make_misleading(gy_text *text)
{
    gy_text_add(text, "id,name\n");
    for (int i = 0; i < 1000; i++) {
        gy_text_add(text, "%d,\"n\n%d\"\n", i, i);
    }
    gy_text_add(text, "x7,last\n");
}

GY_TEST(a_sample_that_misleads_is_told_by_file_and_line)
{
    gy_text text = {.data = NULL};
    make_misleading(&text);
    gy_engine *engine = NULL;
    assert_ok(gy_engine_new(&GY_OPTIONS(gy_engine_options, .workers = 2), &engine));
    for (int how = 0; how < 2; how++) {
        gy_csv *csv = NULL;
        gy_frame *frame = NULL;
        assert_ok(open_text(text.data,
                            &GY_OPTIONS(gy_csv_options, .cut_bytes = 1024, .sample_bytes = 100),
                            &csv));
        gy_status status = GY_OK;
        while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
            gy_frame_drop(frame);
        }
        assert_status(status, GY_TYPE);
        assert_string_equal(gy_error_text(), "x.csv:2002: x7 in column 'id' is no int64, the "
                                             "type that its first rows have");
        assert_ok(gy_csv_retype(csv, how == 0 ? NULL : engine));
        assert_int_equal(gy_schema_field(gy_csv_schema(csv), 0)->kind, GY_FIELD_TEXT);
        assert_int_equal(count_rows(csv), 1001);
        gy_csv_close(csv);
    }
    gy_engine_free(engine);
    gy_text_free(&text);
}

GY_TEST(a_column_that_begins_without_values_waits_for_its_type)
{
    gy_text text = {.data = NULL};
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    gy_text_add(&text, "id,late,never\n");
    for (int i = 0; i < 1000; i++) {
        gy_text_add(&text, "%d,%s,\n", i, i < 900 ? "" : "7");
    }
    assert_ok(open_text(
        text.data, &GY_OPTIONS(gy_csv_options, .cut_bytes = 1024, .sample_bytes = 100), &csv));
    assert_int_equal(gy_schema_field(gy_csv_schema(csv), 1)->kind, GY_FIELD_TEXT);
    assert_false(gy_csv_is_empty(csv, 0));
    assert_true(gy_csv_is_empty(csv, 1));
    gy_status status = GY_OK;
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        gy_frame_drop(frame);
    }
    assert_status(status, GY_TYPE);
    assert_string_equal(gy_error_text(),
                        "x.csv:902: 7 in column 'late', which is empty in the first rows");
    assert_ok(gy_csv_retype(csv, NULL));
    assert_int_equal(gy_schema_field(gy_csv_schema(csv), 1)->kind, GY_FIELD_INT64);
    assert_int_equal(gy_schema_field(gy_csv_schema(csv), 2)->kind, GY_FIELD_TEXT);
    assert_true(!gy_csv_is_empty(csv, 1) && gy_csv_is_empty(csv, 2));
    assert_int_equal(count_rows(csv), 1000);
    gy_csv_close(csv);
    gy_text_free(&text);
}

GY_TEST(rows_of_cuts_are_told_by_file_and_line)
{
    gy_text text = {.data = NULL};
    gy_csv *csv = NULL;
    int64_t line = 1, lines[300];
    gy_text_add(&text, "id,note\n");
    for (int i = 0; i < 300; i++) {
        lines[i] = ++line;
        gy_text_add(&text, "%d,%s\n", i, i % 3 == 0 ? "\"two\r\nlines\"" : "x");
        line += i % 3 == 0;
    }
    assert_ok(open_text(text.data, &GY_OPTIONS(gy_csv_options, .cut_bytes = 256), &csv));
    assert_ok(gy_csv_split(csv, NULL));
    for (int64_t cut = 0, row = 0; cut < gy_csv_cut_count(csv); cut++) {
        gy_frame *frame = NULL;
        char place[64], wanted[64];
        assert_ok(gy_csv_read_cut(csv, cut, &frame));
        const int64_t rows = gy_frame_rows(frame);
        gy_frame_drop(frame);
        for (int64_t i = 0; i < rows; i++) {
            assert_ok(gy_csv_row_place(csv, cut, i, place, sizeof(place)));
            snprintf(wanted, sizeof(wanted), "x.csv:%lld", (long long)lines[row++]);
            assert_string_equal(place, wanted);
        }
        assert_status(gy_csv_row_place(csv, cut, rows, place, sizeof(place)), GY_STATE);
    }
    gy_csv_close(csv);
    gy_text_free(&text);
}

typedef struct reading {
    gy_csv *csv;
    int64_t *rows; /* (cuts) each written by one task */
} reading;

static void read_some(void *arg, int64_t from, int64_t to)
{
    const reading *of = arg;
    for (int64_t cut = from; cut < to; cut++) {
        gy_frame *frame = NULL;
        of->rows[cut] =
            gy_csv_read_cut(of->csv, cut, &frame) == GY_OK ? gy_frame_rows(frame) : -100000;
        gy_frame_drop(frame);
    }
}

GY_TEST(cuts_are_parsed_by_threads)
{
    gy_text text = {.data = NULL};
    gy_csv *csv = NULL;
    gy_engine *engine = NULL;
    make_misleading(&text);
    assert_ok(gy_engine_new(&GY_OPTIONS(gy_engine_options, .workers = 3), &engine));
    assert_ok(open_text(text.data, &GY_OPTIONS(gy_csv_options, .cut_bytes = 256), &csv));
    assert_ok(gy_csv_split(csv, engine));
    const int64_t cuts = gy_csv_cut_count(csv);
    reading of = {.csv = csv, .rows = gy_alloc_zero("test", (size_t)cuts, sizeof(int64_t))};
    assert_non_null(of.rows);
    gy_parallel_for(engine, cuts, 1, read_some, &of);
    int64_t rows = 0;
    for (int64_t i = 0; i < cuts; i++) {
        rows += of.rows[i];
    }
    assert_int_equal(rows, 1001);
    /* an append moves none of the cuts before the last */
    gy_csv *longer = NULL;
    gy_text_add(&text, "8,\"\n\n\"\n");
    assert_ok(open_text(text.data, &GY_OPTIONS(gy_csv_options, .cut_bytes = 256), &longer));
    assert_ok(gy_csv_split(longer, NULL));
    for (int64_t i = 0; i < cuts; i++) {
        assert_true(gy_csv_cut_begin(longer, i) == gy_csv_cut_begin(csv, i));
    }
    gy_csv_close(longer);
    gy_free(of.rows);
    gy_csv_close(csv);
    gy_engine_free(engine);
    gy_text_free(&text);
}

/* ---- options ---- */

GY_TEST(used_columns_alone_are_parsed)
{
    static const char text[] = "a,b,c\n1,x,2.5\n3,\"y,z\",\n";
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    const char *const used[] = {"c", "a"};
    assert_ok(
        open_text(text, &GY_OPTIONS(gy_csv_options, .used = used, .used_count = 2), &csv));
    assert_ok(gy_csv_next(csv, &frame));
    const gy_column c = gy_frame_column(frame, 0), a = gy_frame_column(frame, 1);
    assert_int_equal(gy_schema_count(gy_csv_schema(csv)), 2);
    assert_true(gy_column_decimal(&c, 0) == 25);
    assert_true(gy_column_is_null(&c, 1));
    assert_int_equal(gy_column_int64(&a, 1), 3);
    gy_frame_drop(frame);
    assert_status(gy_csv_next(csv, &frame), GY_DONE);
    gy_csv_close(csv);
    assert_ok(open_text(text, &GY_OPTIONS(gy_csv_options, .used = used), &csv));
    assert_int_equal(count_rows(csv), 2); /* no columns, and its rows */
    gy_csv_close(csv);
    const char *const none[] = {"d"};
    assert_status(
        open_text(text, &GY_OPTIONS(gy_csv_options, .used = none, .used_count = 1), &csv),
        GY_ARG);
    assert_non_null(strstr(gy_error_text(), "no column 'd'"));
}

GY_TEST(headers_and_files_without_rows)
{
    static const struct {
        const char *text;
        bool has_no_header;
        const char *schema;
        int64_t rows;
    } rows[] = {
        {"", false, "", 0},
        {"\xef\xbb\xbf", false, "", 0},
        {"\n\r\n", false, "", 0},
        {"", true, "", 0},
        {"a,b\n", false, "a text, b text", 0},
        {"a,b", false, "a text, b text", 0},
        {"\xef\xbb\xbf\"a\"\"x\",\n1,2", false, "\"a\"\"x\" int64, column2 int64", 1},
        {"\n\na,b\r\n\r\n1,2\r\n\r\n", false, "a int64, b int64", 1},
        {"1,x\n2,y\n", true, "column1 int64, column2 text", 2},
        {"\n1\n\n", true, "column1 int64", 3},
        {"a\n\n1\n\n", false, "a int64", 3},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_csv *csv = NULL;
        char *schema = NULL;
        assert_ok(open_text(rows[i].text,
                            &GY_OPTIONS(gy_csv_options, .has_no_header = rows[i].has_no_header),
                            &csv));
        assert_ok(gy_schema_text(gy_csv_schema(csv), &schema));
        assert_string_equal(schema, rows[i].schema);
        assert_int_equal(count_rows(csv), rows[i].rows);
        gy_string_free(schema);
        gy_csv_close(csv);
    }
}

static gy_status take_text(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

/* All rows as CSV: in order, or cut by cut. */
static void write_rows(gy_csv *csv, bool is_cut, gy_text *out)
{
    const gy_csv_write_options how = GY_OPTIONS(gy_csv_write_options, .has_no_header = true);
    gy_frame *frame = NULL;
    gy_status status = is_cut ? gy_csv_split(csv, NULL) : GY_OK;
    assert_ok(status);
    for (int64_t cut = 0; is_cut && cut < gy_csv_cut_count(csv); cut++) {
        assert_ok(gy_csv_read_cut(csv, cut, &frame));
        assert_ok(gy_csv_write(frame, &how, take_text, out));
        gy_frame_drop(frame);
    }
    while (!is_cut && (status = gy_csv_next(csv, &frame)) == GY_OK) {
        assert_ok(gy_csv_write(frame, &how, take_text, out));
        gy_frame_drop(frame);
    }
}

/* Lines before the header have quotes and delimiters of their own; NA is null where no quotes
 * stand around it. */
static void make_annotated(random_file *file, gy_text *rows)
{
    *file = (random_file){.delimiter = ','};
    put(file, "\xef\xbb\xbf# by \"us\n\n and\" 1,2,3\r\nsaid \"it\"\nid,v,t\n");
    for (int i = 0; i < 60; i++) {
        char row[64];
        (void)gy_print(row, sizeof(row), "%d,%s,\"NA\n%s\"\n", i,
                       i % 3 == 0   ? "NA"
                       : i % 3 == 1 ? ""
                                    : "7",
                       i == 30 ? "\"\"" : "");
        put(file, row);
        gy_text_add(rows, "%d,%s,\"NA\n%s\"\n", i, i % 3 == 2 ? "7" : "",
                    i == 30 ? "\"\"" : "");
    }
    put(file, "60,NA,NA\n61,8,\"NA\"\n");
    gy_text_add(rows, "60,,\n61,8,NA\n");
}

GY_TEST(lines_are_skipped_and_a_text_is_null)
{
    random_file file;
    unsigned char packed[FILE_BYTES + 200];
    gy_text rows = {.data = NULL};
    make_annotated(&file, &rows);
    const size_t packed_bytes = pack(&file, packed, sizeof(packed));
    for (int how = 0; how < 4; how++) { /* in order, by cuts, compressed, types of all rows */
        gy_text read = {.data = NULL};
        gy_csv *csv = NULL;
        const gy_csv_options options =
            GY_OPTIONS(gy_csv_options, .skip_lines = 4, .null_text = "NA", .cut_bytes = 64,
                       .encoding = how == 2 ? GY_ENCODING_GZIP : GY_ENCODING_PLAIN);
        assert_ok(gy_csv_open_memory(how == 2 ? packed : (const void *)file.text,
                                     how == 2 ? packed_bytes : file.size, "x.csv", &options,
                                     &csv));
        assert_ok(how == 3 ? gy_csv_retype(csv, NULL) : GY_OK);
        assert_int_equal(gy_schema_field(gy_csv_schema(csv), 1)->kind, GY_FIELD_INT64);
        write_rows(csv, how == 1, &read);
        assert_string_equal(gy_text_get(&read), gy_text_get(&rows));
        gy_text_free(&read);
        gy_csv_close(csv);
    }
    gy_text_free(&rows);
    gy_csv *csv = NULL;
    assert_ok(open_text(
        "a\nb\n1\nx\n",
        &GY_OPTIONS(gy_csv_options, .skip_lines = 1, .sample_bytes = 1, .cut_bytes = 64),
        &csv));
    gy_frame *frame = NULL;
    assert_status(gy_csv_next(csv, &frame), GY_TYPE); /* lines are those of the file */
    assert_non_null(strstr(gy_error_text(), "x.csv:4: x in column 'b'"));
    gy_csv_close(csv);
    assert_ok(open_text("a\nb", &GY_OPTIONS(gy_csv_options, .skip_lines = 3), &csv));
    assert_int_equal(gy_schema_count(gy_csv_schema(csv)), 0);
    gy_csv_close(csv);
}

GY_TEST(bad_files_are_refused_by_file_and_line)
{
    static const struct {
        const char *text, *columns, *words;
    } rows[] = {
        {"a,b\n1,2\n3\n", NULL, "x.csv:3: 1 field in a row: expected 2 as in the header"},
        {"a,b\n1,2\n3,4,5\n", NULL, "x.csv:3: 3 fields in a row: expected 2 as in the header"},
        {"a,b\n\"1\n\",2\n\n3,4,5", NULL, "x.csv:5: 3 fields"},
        {"a,b\n1,\"2\n3\n", NULL, "x.csv:2: a quote that is not closed"},
        {"a,\"b\n", NULL, "x.csv:1: a quote that is not closed"},
        {"a,b\n1,2\"\n", NULL, "x.csv:2: a quote within a field that does not begin with one"},
        {"a,b\n1,\"2\" \n", NULL, "x.csv:2: bytes behind a closing quote"},
        {"a,b\n1,\xff\n", NULL, "x.csv:2: byte 0xff is no UTF-8"},
        {"a,b\r1,2\r1,\xff\n", NULL, "x.csv:3: byte 0xff is no UTF-8"},
        {"a\xff,b\n1,2\n", NULL, "x.csv:1: a column's name that is no UTF-8"},
        {"a,b\n1,2\n", "a int",
         "x.csv:1: 2 fields in a row: expected 1 as in the columns given"},
        {"a,b\n1,2\n1,x\n", "a int, b int", "x.csv:3: x in column 'b' is no int64"},
        {"a,b\n1,2\n1,\"\"\n", "a int, b date", "x.csv:2: 2 in column 'b' is no date"},
        {"a\n99999\n", "a decimal(6, 2)", "x.csv:2: 99999 in column 'a' is no decimal(6, 2)"},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        for (size_t cut = 64; cut <= 128; cut *= 2) {
            gy_csv *csv = NULL;
            gy_frame *frame = NULL;
            gy_status status = open_text(
                rows[i].text,
                &GY_OPTIONS(gy_csv_options, .columns = rows[i].columns, .cut_bytes = cut),
                &csv);
            if (status == GY_OK) {
                status = gy_csv_next(csv, &frame);
                gy_csv_close(csv);
            }
            assert_status(status, GY_FORMAT);
            if (strncmp(gy_error_text(), rows[i].words, strlen(rows[i].words)) != 0) {
                fail_msg("%s: expected %s", gy_error_text(), rows[i].words);
            }
        }
    }
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    static const char nul[] = "a,b\n1,\0\n";
    assert_ok(gy_csv_open_memory(nul, sizeof(nul) - 1, "x.csv",
                                 &GY_OPTIONS(gy_csv_options, .columns = "a int, b text"),
                                 &csv));
    assert_status(gy_csv_next(csv, &frame), GY_FORMAT);
    assert_string_equal(gy_error_text(), "x.csv:2: a NUL byte");
    gy_csv_close(csv);
}

/* Rows of the middle of a file: their types were found, and what stands first is a value. */
GY_TEST(parts_are_read_as_the_file_is)
{
    static const char marked[] = "\xef\xbb\xbf,1\n";
    gy_csv_options how = GY_OPTIONS(gy_csv_options, .columns = "a text, b int64",
                                    .has_no_header = true, .is_part = true, .is_found = true);
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    assert_ok(open_text(marked, &how, &csv));
    assert_ok(gy_csv_next(csv, &frame));
    const gy_column texts = gy_frame_column(frame, 0);
    assert_int_equal(gy_column_text(&texts, 0).size_bytes, 3);
    gy_frame_drop(frame);
    gy_csv_close(csv);
    assert_ok(open_text("x,007\n", &how, &csv)); /* no int64, where it is found */
    assert_status(gy_csv_next(csv, &frame), GY_TYPE);
    gy_csv_close(csv);
    how.is_found = false;
    assert_ok(open_text("x,007\n", &how, &csv));
    assert_ok(gy_csv_next(csv, &frame));
    const gy_column numbers = gy_frame_column(frame, 1);
    assert_int_equal(gy_column_int64(&numbers, 0), 7);
    gy_frame_drop(frame);
    gy_csv_close(csv);
}

GY_TEST(bad_options_are_refused)
{
    gy_csv *csv = NULL;
    char long_text[GY_CSV_NULL_BYTES_MAX + 2];
    memset(long_text, 'x', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    const gy_csv_options rows[] = {
        {.delimiter = '"'},       {.delimiter = '\n'},   {.delimiter = '\r'},
        {.delimiter = '\xa7'},    {.cut_bytes = 100},    {.cut_bytes = 32},
        {.columns = "a money"},   {.used_count = -1},    {.skip_lines = -1},
        {.null_text = "a,b"},     {.null_text = "\"\""}, {.delimiter = ';', .null_text = "a;"},
        {.null_text = long_text},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        assert_status(open_text("a\n1\n", &rows[i], &csv), GY_ARG);
    }
    assert_status(gy_csv_open("/no/such.csv", NULL, &csv), GY_NOTFOUND);
    assert_status(
        open_text("a \"b\nc\n\"1\"\n", &GY_OPTIONS(gy_csv_options, .skip_lines = 2), &csv),
        GY_FORMAT);
    assert_string_equal(
        gy_error_text(),
        "x.csv:2: an odd number of double quotes in the lines that are skipped");
}

GY_TEST(a_row_has_a_limit)
{
    gy_text text = {.data = NULL};
    gy_text_add(&text, "1,2\n\"");
    for (int i = 0; i < 30000; i++) {
        gy_text_add(&text, "%d", i % 10000 + 10000);
    }
    for (int is_quoted = 0; is_quoted < 2; is_quoted++) {
        text.data[4] = is_quoted ? '"' : '1';
        gy_csv_bytes bytes;
        assert_ok(gy_csv_bytes_open_memory((gy_text_view){text.data, text.size_bytes}, "x.csv",
                                           GY_ENCODING_PLAIN, &bytes));
        const gy_csv_rows rows = {.bytes = &bytes,
                                  .delimiter = ',',
                                  .columns = 2,
                                  .source = "the header",
                                  .row_bytes_max = 100000};
        gy_csv_window window = {.data = NULL};
        gy_csv_types types = {.count = 0};
        const gy_csv_visitor visitor = gy_csv_types_visitor(&types);
        assert_status(gy_csv_visit(&rows, &window, UINT64_MAX, &visitor), GY_LIMIT);
        assert_non_null(strstr(gy_error_text(), "x.csv:2: a row of more than 100000 bytes"));
        assert_int_equal(strstr(gy_error_text(), "quote") != NULL, is_quoted);
        gy_csv_window_fini(&window);
        gy_csv_bytes_close(&bytes);
    }
    gy_text_free(&text);
}

GY_TEST(memory_that_runs_out_leaves_nothing)
{
    static const char text[] = "id,name,price\n1,\"a\"\"b\",2.5\n2,,3\n";
    for (int64_t n = 1; n < 80; n++) {
        const int64_t before = gy_alloc_live();
        gy_csv *csv = NULL;
        gy_frame *frame = NULL;
        gy_alloc_fail_after(n);
        gy_status status = open_text(text, NULL, &csv);
        status = status == GY_OK ? gy_csv_split(csv, NULL) : status;
        status = status == GY_OK ? gy_csv_next(csv, &frame) : status;
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_frame_drop(frame);
        gy_csv_close(csv);
        assert_int_equal(gy_alloc_live(), before);
    }
}

GY_TEST_MAIN(begin, end)
