/* Goal: what is written as CSV is read again with the same values, nulls and empty texts apart,
 * and lines of JSON are what other programs take. */
#include "frame/csv/csv_priv.h"

#include "gy_test.h"

static int64_t live;

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

static gy_status gather(void *arg, const void *data, size_t size_bytes)
{
    gy_text *text = arg;
    gy_text_add_bytes(text, data, size_bytes);
    return text->status;
}

/* Random rows of two texts and a number. */
static gy_frame *make_rows(gy_random *random, const char *columns)
{
    static const char *const pieces[] = {"a", ",", "\"", "\n", "\r", "\xef\xbb\xbf", " ", ";"};
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse(columns, &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (uint64_t rows = gy_random_below(random, 30); rows > 0; rows--) {
        for (int i = 0; i < gy_schema_count(schema); i++) {
            gy_text text = {.data = NULL};
            for (uint64_t k = gy_random_below(random, 4); k > 0; k--) {
                gy_text_add(&text, "%s", pieces[gy_random_below(random, GY_COUNT(pieces))]);
            }
            if (gy_random_below(random, 5) == 0) {
                gy_frame_add_null(builder);
            } else if (gy_schema_field(schema, i)->kind == GY_FIELD_TEXT) {
                gy_frame_add_text(builder, gy_text_get(&text), text.size_bytes);
            } else {
                gy_frame_add_int64(builder, (int64_t)gy_random_u64(random));
            }
            gy_text_free(&text);
        }
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    return frame;
}

static void check_same(const gy_frame *a, int64_t from, const gy_frame *b)
{
    for (int i = 0; i < gy_schema_count(gy_frame_schema(b)); i++) {
        const gy_column left = gy_frame_column(a, i), right = gy_frame_column(b, i);
        for (int64_t row = 0; row < gy_frame_rows(b); row++) {
            assert_int_equal(gy_column_is_null(&left, from + row),
                             gy_column_is_null(&right, row));
            if (gy_column_is_null(&right, row)) {
                continue;
            }
            if (left.field->kind == GY_FIELD_INT64) {
                assert_true(gy_column_int64(&left, from + row) == gy_column_int64(&right, row));
                continue;
            }
            const gy_text_view x = gy_column_text(&left, from + row),
                               y = gy_column_text(&right, row);
            assert_int_equal(x.size_bytes, y.size_bytes);
            assert_memory_equal(x.data, y.data, x.size_bytes);
        }
    }
}

GY_TEST(what_is_written_is_read_again)
{
    gy_random random = {.key = gy_test_seed()};
    static const char *const schemas[] = {"a text", "a text, \"b,c\" int, d text"};
    for (long i = gy_test_serial_cases(600); i > 0; i--) {
        const char *columns = schemas[i % 2];
        gy_frame *frame = make_rows(&random, columns);
        gy_text text = {.data = NULL};
        const bool has_no_header = gy_random_below(&random, 2) == 0;
        const char delimiter = ",;"[gy_random_below(&random, 2)];
        assert_ok(gy_csv_write(frame,
                               &GY_OPTIONS(gy_csv_write_options, .delimiter = delimiter,
                                           .has_no_header = has_no_header),
                               gather, &text));
        gy_csv *csv = NULL;
        assert_ok(gy_csv_open_memory(
            gy_text_get(&text), text.size_bytes, "x.csv",
            &GY_OPTIONS(gy_csv_options, .columns = columns, .delimiter = delimiter,
                        .has_no_header = has_no_header, .cut_bytes = 64),
            &csv));
        int64_t rows = 0;
        gy_frame *got = NULL;
        gy_status status = GY_OK;
        while ((status = gy_csv_next(csv, &got)) == GY_OK) {
            check_same(frame, rows, got);
            rows += gy_frame_rows(got);
            gy_frame_drop(got);
        }
        assert_status(status, GY_DONE);
        assert_int_equal(rows, gy_frame_rows(frame));
        gy_csv_close(csv);
        gy_text_free(&text);
        gy_frame_drop(frame);
    }
}

static gy_frame *make_mixed(void)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("f bool, i int, d double, m decimal(6, 2), at timestamp, "
                              "\"na\"\"me\" text",
                              &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    gy_schema_drop(schema);
    for (int row = 0; row < 2; row++) {
        gy_frame_add_bool(builder, row == 0);
        gy_frame_add_int64(builder, -row);
        gy_frame_add_double(builder, row == 0 ? 0.1 : -1.0 / 0.0);
        gy_frame_add_decimal(builder, 150);
        gy_frame_add_timestamp(builder, 500000);
        if (row == 0) {
            gy_frame_add_text(builder, "a\"\\\n\xc3\xa9", 6);
        } else {
            gy_frame_add_null(builder);
        }
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    return frame;
}

GY_TEST(lines_of_json)
{
    gy_frame *frame = make_mixed(), *none = NULL;
    gy_text text = {.data = NULL};
    assert_ok(gy_json_write(frame, gather, &text));
    assert_string_equal(
        text.data,
        "{\"f\":true,\"i\":0,\"d\":0.1,\"m\":1.50,\"at\":\"1970-01-01 00:00:00.5\","
        "\"na\\\"me\":\"a\\\"\\\\\\u000a\xc3\xa9\"}\n"
        "{\"f\":false,\"i\":-1,\"d\":\"-Infinity\",\"m\":1.50,\"at\":\"1970-01-01 00:00:00.5\","
        "\"na\\\"me\":null}\n");
    gy_text_free(&text);
    assert_ok(gy_frame_select(frame, NULL, 0, &none));
    assert_ok(gy_json_write(none, gather, &text));
    assert_string_equal(text.data, "{}\n{}\n");
    gy_text_free(&text);
    gy_frame_drop(none);
    gy_frame_drop(frame);
}

static gy_status refuse(void *arg, const void *data, size_t size_bytes)
{
    (void)arg;
    (void)data;
    (void)size_bytes;
    return gy_fail(GY_IO, "the pipe is closed");
}

GY_TEST(files_appear_whole_or_not_at_all)
{
    char folder[] = "/tmp/gyre-csv-XXXXXX", from[64], to[64];
    assert_non_null(mkdtemp(folder));
    (void)gy_print(from, sizeof(from), "%s/a.csv", folder);
    (void)gy_print(to, sizeof(to), "%s/b.csv", folder);
    static const char text[] = "id,name\n1,x\n2,\"y,\"\n,\"\"\n";
    static const char bad[] = "id,name\n1,x\n2\n";
    gy_csv *csv = NULL;
    assert_ok(gy_save_file(from, text, sizeof(text) - 1));
    assert_ok(gy_csv_open(from, NULL, &csv));
    gy_schema *schema = gy_schema_hold(gy_csv_schema(csv));
    gy_frame_source source = gy_csv_source(csv);
    assert_ok(gy_csv_save(to, schema, &source, NULL));
    gy_bytes bytes;
    assert_ok(gy_store_file_read(gy_env_real(), to, 1000, &bytes));
    assert_int_equal(bytes.size_bytes, sizeof(text) - 1);
    assert_memory_equal(bytes.data, text, sizeof(text) - 1);
    gy_free(bytes.data);
    for (int how = 0; how < 2; how++) { /* the name says how the file is compressed */
        (void)gy_print(to, sizeof(to), "%s/b.csv.%s", folder, how == 0 ? "gz" : "zst");
        assert_ok(gy_csv_open(from, NULL, &csv));
        source = gy_csv_source(csv);
        assert_ok(gy_csv_save(to, schema, &source, NULL));
        assert_ok(
            gy_csv_open(to,
                        &GY_OPTIONS(gy_csv_options,
                                    .encoding = how == 0 ? GY_ENCODING_GZIP : GY_ENCODING_ZSTD),
                        &csv));
        gy_frame *frame = NULL;
        assert_ok(gy_csv_next(csv, &frame));
        assert_int_equal(gy_frame_rows(frame), 3);
        gy_frame_drop(frame);
        gy_csv_close(csv);
        assert_int_equal(unlink(to), 0);
    }
    (void)gy_print(to, sizeof(to), "%s/b.csv.xz", folder);
    source = (gy_frame_source){.next = NULL};
    assert_status(gy_csv_save(to, schema, &source, NULL), GY_UNSUPPORTED);
    (void)gy_print(to, sizeof(to), "%s/b.csv", folder);
    assert_ok(gy_save_file(from, bad, sizeof(bad) - 1));
    assert_ok(
        gy_csv_open(from, &GY_OPTIONS(gy_csv_options, .columns = "id int, name text"), &csv));
    source = gy_csv_source(csv);
    assert_int_equal(unlink(to), 0);
    assert_status(gy_csv_save(to, schema, &source, NULL), GY_FORMAT);
    assert_int_equal(access(to, F_OK), -1);
    gy_schema_drop(schema);
    gy_frame *frame = make_mixed();
    assert_status(gy_csv_write(frame, NULL, refuse, NULL), GY_IO);
    assert_status(gy_json_write(frame, refuse, NULL), GY_IO);
    assert_status(
        gy_csv_write(frame, &GY_OPTIONS(gy_csv_write_options, .delimiter = '"'), refuse, NULL),
        GY_ARG);
    gy_frame_drop(frame);
    assert_int_equal(unlink(from), 0);
    assert_int_equal(rmdir(folder), 0);
}

GY_TEST_MAIN(begin, end)
