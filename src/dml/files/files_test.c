/* Goal: data files are read as they are meant, errors name line and column, and what is written
 * is read back with the same bits. */
#include "dml/files/files.h"
#include "dml/values/frame.h"

#include <sys/stat.h>

#include "gy_test.h"

static const struct {
    const char *data;
    gy_dml_file_format format;
    const char *wanted; /* rows of numbers, or "!" and a part of the failure */
} cases[] = {
    {"1,2\n3,4\n", GY_DML_FILE_CSV, "1 2;3 4;"},
    {"1,2\r\n3,4", GY_DML_FILE_CSV, "1 2;3 4;"},
    {"1, ,-2.5e3\n,NaN,Infinity\n", GY_DML_FILE_CSV, "1 0 -2500;0 nan inf;"},
    {"", GY_DML_FILE_CSV, ""},
    {"1,-2\n\n 3 ,4\r\n\r\n5,\n+6,.5\n7.,1e1\n", GY_DML_FILE_CSV, "1 -2;3 4;5 0;6 0.5;7 10;"},
    {"1,2\n3,4\n\n5,6 7\n", GY_DML_FILE_CSV,
     "!f: line 4, column 2: expected a number, found \"6 7\""},
    {"1,2\n3,1e\n", GY_DML_FILE_CSV, "!f: line 2, column 2: expected a number, found \"1e\""},
    {"12345678,1234567890123456789\n123456789,12345678.12345678\n", GY_DML_FILE_CSV,
     "12345678 1.234567890123457e+18;123456789 12345678.12345678;"},
    {"1,2\n3\n", GY_DML_FILE_CSV, "!f: line 2 has 1 fields, expected 2"},
    {"1,2\n3,4,5\n", GY_DML_FILE_CSV, "!f: line 2 has 3 fields, expected 2"},
    {"1,2\n3,x4\n", GY_DML_FILE_CSV, "!f: line 2, column 2: expected a number, found \"x4\""},
    {"0.1,9007199254740993,1e400,4.9e-324\n", GY_DML_FILE_CSV,
     "0.1 9007199254740992 inf 4.940656458412465e-324;"},
    {"2 1 5\n1 3 -1\n", GY_DML_FILE_TEXT, "0 0 -1;5 0 0;"},
    {"2 1\n", GY_DML_FILE_TEXT, "!f: line 1, column 2: expected row, column, value"},
    {"0 1 5\n", GY_DML_FILE_TEXT, "!f: line 1, column 1: expected a row from 1"},
    {"1 1 q\n", GY_DML_FILE_TEXT, "!f: line 1, column 3: expected a number, found \"q\""},
    {"%%MatrixMarket matrix coordinate real general\n% c\n2 2 1\n1 2 7\n", GY_DML_FILE_MARKET,
     "0 7;0 0;"},
    {"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n", GY_DML_FILE_MARKET,
     "0 1;1 0;"},
    {"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n", GY_DML_FILE_MARKET,
     "0 -3;3 0;"},
    {"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", GY_DML_FILE_MARKET,
     "1 3;2 4;"},
    {"%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n", GY_DML_FILE_MARKET,
     "1 2;2 3;"},
    {"%%MatrixMarket matrix array real general\n1 1\n1\n2\n", GY_DML_FILE_MARKET,
     "!expected the end"},
    {"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", GY_DML_FILE_MARKET,
     "!a cell in row 3, column 1 of 2x2"},
    {"%%MatrixMarket matrix coordinate complex general\n", GY_DML_FILE_MARKET,
     "!matrix of real numbers"},
    {"1 2:3 4:-1.5e2\n-1 1:0.5\n", GY_DML_FILE_LIBSVM, "0 3 0 -150 1;0.5 0 0 0 -1;"},
    {"1 2:3 1:4\n", GY_DML_FILE_LIBSVM, "!f:1:7: '1': expected indices that ascend"},
    {"1 2:3\n2 1:x\n", GY_DML_FILE_LIBSVM, "!f:2:5: 'x': expected a finite number"},
    {"1 9999999999999:3\n", GY_DML_FILE_LIBSVM, "!feature 9999999999999 is beyond 2^40"},
    {"1 1 4\n", GY_DML_FILE_UNKNOWN, "4;"},
    {"1,1,4\n", GY_DML_FILE_UNKNOWN, "1 1 4;"},
    {"%%MatrixMarket matrix array real general\n1 1\n4\n", GY_DML_FILE_UNKNOWN, "4;"},
};

static void show_frame(const gy_dml_frame *frame, gy_text *text)
{
    for (int64_t j = 0; j < frame->columns; j++) {
        gy_text_add(text, "%s", j > 0 ? " " : "");
        gy_dml_frame_add_name(text, frame, j);
        gy_text_add(text, ":%s", gy_dml_column_type_name(frame->items[j]->type));
    }
    gy_text_add(text, ";");
    for (int64_t i = 0; i < frame->rows; i++) {
        for (int64_t j = 0; j < frame->columns; j++) {
            gy_text_add(text, "%s", j > 0 ? "|" : "");
            gy_text_add(text, "%s", gy_dml_column_is_missing(frame->items[j], i) ? "null" : "");
            gy_dml_column_add(text, frame->items[j], i);
        }
        gy_text_add(text, ";");
    }
}

static void show(const gy_dml_value *value, gy_text *text)
{
    const gy_dml_matrix *matrix = value->matrix;
    if (value->kind == GY_DML_IS_FRAME) {
        show_frame(value->frame, text);
        return;
    }
    for (int64_t i = 0; i < matrix->rows; i++) {
        for (int64_t j = 0; j < matrix->columns; j++) {
            gy_text_add(text, "%s%.16g", j > 0 ? " " : "",
                        matrix->data[i * matrix->columns + j]);
        }
        gy_text_add(text, ";");
    }
}

static void test_cases(void **state)
{
    const int64_t live = gy_alloc_live();
    (void)state;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        gy_dml_value value = GY_DML_NONE;
        gy_text text = {.data = NULL};
        meta.format = cases[i].format;
        const gy_status status =
            gy_dml_file_parse("f", &meta, cases[i].data, strlen(cases[i].data), &value);
        if (status == GY_OK) {
            show(&value, &text);
            gy_dml_drop(&value);
        } else {
            gy_text_add(&text, "!%s", gy_error_text());
        }
        const char *got = gy_text_get(&text), *wanted = cases[i].wanted;
        if (wanted[0] == '!' ? got[0] != '!' || strstr(got, wanted + 1) == NULL
                             : strcmp(got, wanted) != 0) {
            fail_msg("case %zu: got %s, expected %s", i, got, wanted);
        }
        gy_text_free(&text);
    }
    assert_int_equal(gy_alloc_live(), live);
}

static void test_options(void **state)
{
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    gy_dml_value value = GY_DML_NONE;
    gy_text text = {.data = NULL};
    static const char data[] = "a||b\n1||NA\n||3\n";
    (void)state;
    meta.format = GY_DML_FILE_CSV;
    meta.has_header = true;
    meta.fill_value = -1;
    meta.na_count = 1;
    gy_print(meta.separator, sizeof(meta.separator), "||");
    gy_print(meta.na_strings[0], sizeof(meta.na_strings[0]), "NA");
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &value), GY_OK);
    show(&value, &text);
    assert_string_equal(gy_text_get(&text), "1 nan;-1 3;");
    gy_dml_drop(&value);
    gy_text_free(&text);
    meta.is_filled = false;
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &value), GY_FORMAT);
    meta.rows = 5;
    meta.is_filled = true;
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &value), GY_FORMAT);
}

/* Separators that may also stand in a number part fields all the same. */
static void test_odd_separators(void **state)
{
    static const struct {
        const char *separator, *data, *wanted;
    } odd[] = {{"e", "1e2\n3e4\n", "1 2;3 4;"},   {".", "1.2\n3.4\n", "1 2;3 4;"},
               {"0", "102\n304\n", "1 2;3 4;"},   {"-", "1-2\n3-4\n", "1 2;3 4;"},
               {"e", "5\n1e2\n", NULL},           {";", "1;-2\n3;4\n", "1 -2;3 4;"},
               {"::", "1::2\n3::4\n", "1 2;3 4;"}};
    (void)state;
    for (size_t i = 0; i < GY_COUNT(odd); i++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        gy_dml_value value = GY_DML_NONE;
        gy_text text = {.data = NULL};
        meta.format = GY_DML_FILE_CSV;
        gy_print(meta.separator, sizeof(meta.separator), "%s", odd[i].separator);
        const gy_status status =
            gy_dml_file_parse("f", &meta, odd[i].data, strlen(odd[i].data), &value);
        if (odd[i].wanted == NULL) { /* two fields where one is expected */
            assert_int_equal(status, GY_FORMAT);
            continue;
        }
        assert_int_equal(status, GY_OK);
        show(&value, &text);
        assert_string_equal(gy_text_get(&text), odd[i].wanted);
        gy_dml_drop(&value);
        gy_text_free(&text);
    }
}

/* What csv gives as a frame, with all that RFC 4180 lets stand in quotes. */
static const struct {
    const char *data, *schema, *wanted;
    bool has_header;
} frames[] = {
    {"a,b\n1,x\n2,y\n", "int,string", "a:INT64 b:STRING;1|x;2|y;", true},
    {"1,x\n2,y", NULL, "C1:STRING C2:STRING;1|x;2|y;", false},
    {"\"a,b\",\"c\"\"d\"\r\n\"e\nf\",\"\"\r\n", NULL, "C1:STRING C2:STRING;a,b|c\"d;e\nf|;",
     false},
    {"\"p\"\"q\",\"r,s\"\n1,2\n", "*", "p\"q:STRING r,s:STRING;1|2;", true},
    {"1,\n, 2 \nNA,NA\n", "string,double", "C1:STRING C2:FP64;1|0.0;null|2.0;null|0.0;", false},
    {"1,5\" pipe,3\n", NULL, "C1:STRING C2:STRING C3:STRING;1|5\" pipe|3;", false},
    {"TRUE,0.1,7\n", "BOOLEAN,FP32,INT32", "C1:BOOLEAN C2:FP32 C3:INT32;true|0.1|7;", false},
    {"1,2\n", "string,", "C1:STRING C2:STRING;1|2;", false},
    {"", NULL, ";", false},
    {"a,b\n", NULL, "a:STRING b:STRING;", true},
    {"1,2\n3\n", NULL, "!f: line 2 has 1 fields, expected 2", false},
    {"1\nx\n", "int", "!f: line 2, column 1: expected INT64, found \"x\"", false},
    {"\"a\n\",1\n2,x\n", "string,int", "!f: line 3, column 2: expected INT64, found \"x\"",
     false},
    {"1,\"a\n2,3\n", NULL, "!f: line 1, column 2: expected a quote that is closed", false},
    {"\"a\"b,2\n", NULL, "!f: line 1, column 1: expected a separator behind the quote", false},
    {"a\n1,2\n", NULL, "!line 1, the header", true},
    {"1,2\n", "int,int,int", "!the schema has 3 types for 2 columns", false},
};

static void test_frames(void **state)
{
    const int64_t live = gy_alloc_live();
    (void)state;
    for (size_t i = 0; i < GY_COUNT(frames); i++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        gy_dml_value value = GY_DML_NONE;
        gy_text text = {.data = NULL};
        meta.format = GY_DML_FILE_CSV;
        meta.is_frame = true;
        meta.has_header = frames[i].has_header;
        meta.na_count = 1;
        gy_print(meta.na_strings[0], sizeof(meta.na_strings[0]), "NA");
        if (frames[i].schema != NULL) {
            assert_int_equal(gy_dml_meta_set(&meta.schema, frames[i].schema), GY_OK);
        }
        if (gy_dml_file_parse("f", &meta, frames[i].data, strlen(frames[i].data), &value) ==
            GY_OK) {
            show(&value, &text);
            gy_dml_drop(&value);
        } else {
            gy_text_add(&text, "!%s", gy_error_text());
        }
        const char *got = gy_text_get(&text), *wanted = frames[i].wanted;
        if (wanted[0] == '!' ? got[0] != '!' || strstr(got, wanted + 1) == NULL
                             : strcmp(got, wanted) != 0) {
            fail_msg("case %zu: got %s, expected %s", i, got, wanted);
        }
        gy_text_free(&text);
        gy_dml_meta_fini(&meta);
    }
    assert_int_equal(gy_alloc_live(), live);
}

/* Several chunks, with quoted line ends across their cuts and without any quote, give what one
 * line at a time gives: the sum of each column, and the place of a wrong cell. */
static void test_many_chunks(void **state)
{
    enum { ROWS = 60000 };
    (void)state;
    for (int is_quoted = 0; is_quoted < 2; is_quoted++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        gy_dml_value value = GY_DML_NONE;
        gy_text text = {.data = NULL};
        meta.format = GY_DML_FILE_CSV;
        meta.is_frame = is_quoted != 0;
        for (int64_t i = 0; i < ROWS; i++) {
            gy_text_add(&text,
                        is_quoted ? "%lld,\"line\n%lld, \"\"more\"\" of it\"\n"
                                  : "%lld,%lld.125,1234567.0625\n",
                        (long long)i, (long long)i * 7);
        }
        assert_true(text.size_bytes > 3 << 19);
        assert_int_equal(gy_dml_file_parse("f", &meta, text.data, text.size_bytes, &value),
                         GY_OK);
        for (int64_t i = 0; i < ROWS; i += 17) {
            if (is_quoted) {
                char wanted[64];
                gy_print(wanted, sizeof(wanted), "line\n%lld, \"more\" of it",
                         (long long)i * 7);
                assert_string_equal(value.frame->items[1]->texts[i]->data, wanted);
            } else {
                assert_true(value.matrix->data[3 * i] == (double)i);
                assert_true(value.matrix->data[3 * i + 1] == (double)(i * 7) + 0.125);
            }
        }
        gy_dml_drop(&value);
        gy_text_add(&text, is_quoted ? "7,8,9" : "7,x,9");
        assert_int_equal(gy_dml_file_parse("f", &meta, text.data, text.size_bytes, &value),
                         GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), is_quoted ? "line 120001 has 3 fields"
                                                          : "line 60001, column 2"));
        gy_text_free(&text);
    }
}

static char folder[] = "/tmp/gyre-files-XXXXXX";

static void put(const char *name, const char *data)
{
    char path[128];
    gy_print(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(data, file);
    fclose(file);
}

static void test_written_is_read(void **state)
{
    static const gy_dml_file_format formats[] = {
        GY_DML_FILE_TEXT, GY_DML_FILE_CSV, GY_DML_FILE_MARKET, GY_DML_FILE_BINARY,
        GY_DML_FILE_NPY,  GY_DML_FILE_IDX, GY_DML_FILE_LIBSVM};
    char path[128];
    gy_random random = {.key = gy_test_seed()};
    gy_dml_matrix *matrix = NULL;
    (void)state;
    assert_int_equal(gy_dml_matrix_new(7, 5, &matrix), GY_OK);
    for (int64_t i = 0; i < 35; i++) {
        matrix->data[i] = i % 3 == 0 ? 0 : gy_random_normal(&random) * 1e3;
    }
    const gy_dml_value value = gy_dml_of_matrix(matrix);
    for (size_t k = 0; k < GY_COUNT(formats); k++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT, read = GY_DML_META_DEFAULT;
        gy_dml_value again = GY_DML_NONE;
        meta.format = formats[k];
        gy_print(path, sizeof(path), "%s/deep/er/m%zu", folder, k);
        assert_int_equal(gy_dml_file_write(path, &meta, &value), GY_OK);
        assert_int_equal(gy_dml_meta_read(path, &read), GY_OK);
        assert_int_equal(read.format, formats[k]);
        assert_int_equal(read.rows, 7);
        assert_int_equal(gy_dml_file_read(path, &read, &again), GY_OK);
        assert_memory_equal(again.matrix->data, matrix->data, 35 * sizeof(double));
        gy_dml_drop(&again);
    }
    gy_dml_matrix_drop(matrix);
}

/* A frame with all types comes back from csv and from text cells. */
static void test_frame_is_read_again(void **state)
{
    static const gy_dml_column_type types[] = {GY_DML_COLUMN_STRING, GY_DML_COLUMN_INT64,
                                               GY_DML_COLUMN_FP64, GY_DML_COLUMN_BOOLEAN,
                                               GY_DML_COLUMN_FP32};
    static const char *const cells[] = {"plain", "a,b", "with \"quotes\"", " spaced ",
                                        "\xc3\xa4"};
    static const gy_dml_file_format formats[] = {GY_DML_FILE_CSV, GY_DML_FILE_TEXT,
                                                 GY_DML_FILE_BINARY};
    gy_random random = {.key = gy_test_seed()};
    gy_dml_frame *frame = NULL;
    (void)state;
    assert_int_equal(gy_dml_frame_new(6, 5, types, &frame), GY_OK);
    for (int64_t i = 0; i < 5; i++) { /* the last row has nothing, and its first cell a word */
        assert_int_equal(gy_dml_column_set(frame->items[0], i, cells[i], strlen(cells[i])),
                         GY_OK);
        frame->items[1]->wholes[i] = (int64_t)gy_random_u64(&random);
        frame->items[2]->reals[i] = gy_random_normal(&random) * 1e-5;
        frame->items[3]->truths[i] = i % 2 == 0;
        frame->items[4]->reals[i] = (double)(float)gy_random_normal(&random);
    }
    assert_int_equal(gy_dml_column_set(frame->items[0], 5, "end", 3), GY_OK);
    assert_int_equal(gy_dml_frame_set_name(frame, 0, "the, name", 9), GY_OK);
    const gy_dml_value value = gy_dml_of_frame(frame);
    for (size_t k = 0; k < GY_COUNT(formats); k++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT, read = GY_DML_META_DEFAULT;
        gy_dml_value again = GY_DML_NONE;
        gy_text wanted = {.data = NULL}, got = {.data = NULL};
        char path[128];
        gy_print(path, sizeof(path), "%s/f%zu", folder, k);
        meta.format = formats[k];
        meta.has_header = true;
        assert_int_equal(gy_dml_meta_set(&meta.description, "what it is"), GY_OK);
        assert_int_equal(gy_dml_file_write(path, &meta, &value), GY_OK);
        assert_int_equal(gy_dml_meta_read(path, &read), GY_OK);
        assert_true(read.is_frame);
        assert_string_equal(read.description, "what it is");
        assert_int_equal(gy_dml_file_read(path, &read, &again), GY_OK);
        if (formats[k] == GY_DML_FILE_TEXT) { /* it has no names */
            assert_int_equal(gy_dml_frame_set_name(again.frame, 0, "the, name", 9), GY_OK);
        }
        show(&value, &wanted);
        show(&again, &got);
        assert_string_equal(gy_text_get(&got), gy_text_get(&wanted));
        gy_text_free(&wanted);
        gy_text_free(&got);
        gy_dml_drop(&again);
        gy_dml_meta_fini(&meta);
        gy_dml_meta_fini(&read);
    }
    gy_dml_frame_drop(frame);
}

/* NPY and IDX files as others write them. */
static const struct {
    const char *data;
    size_t size;
    const char *wanted;
} arrays[] = {
#define NPY(header, elements)                                                                  \
    "\x93NUMPY\x01\x00\x40\x00" header "\n" elements,                                          \
        sizeof("0123456789" header "\n" elements) - 1
    {NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }      ",
         "\x00\x00\x80\x3f\x00\x00\x00\xc0"),
     "1;-2;"},
    {NPY("{'descr': '>i2', 'fortran_order': False, 'shape': (1, 2), }    ", "\x01\x02\xff\xff"),
     "258 -1;"},
    {NPY("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }     ", "\x01\x02\x03\xff"),
     "1 3;2 255;"},
    {NPY("{'descr': '|b1', 'fortran_order': False, 'shape': (), }        ", "\x01"), "1;"},
    {NPY("{'descr': '|i1', 'fortran_order': False, 'shape': (1, 2, 2), } ", "\x80\x01\x02\x03"),
     "-128 1 2 3;"},
    {NPY("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 2), }    ", "\x01\x02"),
     "!says 3x2 elements of 1 bytes, 2 bytes follow"},
    {NPY("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }      ", "12345678"),
     "!elements of type '<c8' are not read"},
    {NPY("{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,), }      ", "12345678"),
     "!expected 'fortran_order'"},
    {NPY("{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999, 9999999999999), }",
         ""),
     "!expected"},
    {"\x93NUMPY\x01\x00\xff\xff{", 11, "!ends inside the NPY header"},
    {"\x93NUMPY\x09\x00\x01\x00 ", 11, "!NPY version 9"},
    {"\x93NUMPX", 6, "!not NPY"},
    {"\x00\x00\x08\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x02\x01\x02\x03\x04", 20,
     "1 2 3 4;"},
    {"\x00\x00\x0c\x01\x00\x00\x00\x01\xff\xff\xff\xfe", 12, "-2;"},
    {"\x00\x00\x08\x01\x00\x00\x00\x02\x01", 9, "!10 bytes in all"},
#undef NPY
};

static void test_arrays(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(arrays); i++) {
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        gy_dml_value value = GY_DML_NONE;
        gy_text text = {.data = NULL};
        meta.format = arrays[i].data[0] == 0 ? GY_DML_FILE_IDX : GY_DML_FILE_NPY;
        if (gy_dml_file_parse("f", &meta, arrays[i].data, arrays[i].size, &value) == GY_OK) {
            show(&value, &text);
            gy_dml_drop(&value);
        } else {
            gy_text_add(&text, "!%s", gy_error_text());
        }
        const char *got = gy_text_get(&text), *wanted = arrays[i].wanted;
        if (wanted[0] == '!' ? got[0] != '!' || strstr(got, wanted + 1) == NULL
                             : strcmp(got, wanted) != 0) {
            fail_msg("array %zu: got %s, expected %s", i, got, wanted);
        }
        gy_text_free(&text);
    }
}

static void write_blocks(const gy_dml_value *value, int64_t rows, int64_t columns, char *path)
{
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    meta.format = GY_DML_FILE_BINARY;
    meta.block_rows = rows;
    meta.block_columns = columns;
    gy_print(path, 128, "%s/blocks", folder);
    assert_int_equal(gy_dml_file_write(path, &meta, value), GY_OK);
}

/* A byte that is wrong anywhere in a file of blocks is found, and so is each cut. */
static void test_damaged_blocks(void **state)
{
    char path[128], data[8192];
    gy_dml_matrix *matrix = NULL;
    gy_dml_frame *frame = NULL;
    (void)state;
    assert_int_equal(gy_dml_matrix_fill(5, 4, 0, &matrix), GY_OK);
    matrix->data[3] = -2.5;
    matrix->data[14] = matrix->data[15] = matrix->data[18] = matrix->data[19] = 7;
    assert_int_equal(gy_dml_frame_new(3, 2, NULL, &frame), GY_OK);
    assert_int_equal(gy_dml_column_set(frame->items[0], 1, "text", 4), GY_OK);
    for (int k = 0; k < 2; k++) {
        const gy_dml_value value = k == 0 ? gy_dml_of_matrix(matrix) : gy_dml_of_frame(frame);
        gy_dml_value again = GY_DML_NONE;
        gy_dml_meta meta = GY_DML_META_DEFAULT;
        meta.format = GY_DML_FILE_BINARY;
        meta.is_frame = k == 1;
        write_blocks(&value, 2, 2, path);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        const size_t size = fread(data, 1, sizeof(data), file);
        fclose(file);
        assert_in_range(size, 100, sizeof(data) - 1);
        for (size_t i = 0; i < size; i++) {
            data[i] = (char)(data[i] ^ 1 << i % 8);
            assert_true(gy_dml_file_parse("f", &meta, data, size, &again) < 0);
            data[i] = (char)(data[i] ^ 1 << i % 8);
            assert_true(gy_dml_file_parse("f", &meta, data, i, &again) < 0);
        }
        data[size] = 0;
        assert_int_equal(gy_dml_file_parse("f", &meta, data, size + 1, &again), GY_FORMAT);
        assert_int_equal(gy_dml_file_parse("f", &meta, data, size, &again), GY_OK);
        gy_dml_drop(&again);
    }
    gy_dml_matrix_drop(matrix);
    gy_dml_frame_drop(frame);
}

/* A folder of files of blocks is their rows, one below the other. */
static void test_parts_of_blocks(void **state)
{
    char path[128];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    gy_dml_value again = GY_DML_NONE;
    (void)state;
    meta.format = GY_DML_FILE_BINARY;
    for (int k = 0; k < 3; k++) {
        gy_dml_matrix *matrix = NULL;
        assert_int_equal(gy_dml_matrix_fill(k, 2, k, &matrix), GY_OK);
        const gy_dml_value value = gy_dml_of_matrix(matrix);
        gy_print(path, sizeof(path), "%s/pieces/_part", folder);
        gy_print(path + strlen(path) - 5, 16, "part%d", k);
        assert_int_equal(gy_dml_file_write(path, &meta, &value), GY_OK);
        gy_print(path + strlen(path), 8, ".mtd");
        remove(path); /* the folder has one of its own */
        gy_dml_matrix_drop(matrix);
    }
    gy_print(path, sizeof(path), "%s/pieces", folder);
    meta.rows = 3;
    assert_int_equal(gy_dml_file_read(path, &meta, &again), GY_OK);
    assert_int_equal(again.matrix->rows, 3);
    assert_true(again.matrix->data[0] == 1 && again.matrix->data[5] == 2);
    gy_dml_drop(&again);
}

static void test_parts_and_scalars(void **state)
{
    char path[128];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    gy_dml_value value = GY_DML_NONE;
    (void)state;
    gy_print(path, sizeof(path), "%s/parts", folder);
    mkdir(path, 0777);
    put("parts/part-1", "3,4");
    put("parts/part-0", "1,2");
    put("parts/_SUCCESS", "7,7\n");
    put("parts/.hidden", "9");
    assert_int_equal(gy_dml_file_read(path, &meta, &value), GY_OK);
    assert_int_equal(value.matrix->rows, 2);
    assert_true(value.matrix->data[3] == 4);
    gy_dml_drop(&value);
    put("s", "12\n");
    put("s.mtd", "{\"data_type\": \"scalar\", \"value_type\": \"int\"}");
    gy_print(path, sizeof(path), "%s/s", folder);
    assert_int_equal(gy_dml_meta_read(path, &meta), GY_OK);
    assert_int_equal(gy_dml_file_read(path, &meta, &value), GY_OK);
    assert_int_equal(value.kind, GY_DML_IS_INTEGER);
    assert_int_equal(value.whole, 12);
    put("s.mtd", "{");
    assert_int_equal(gy_dml_meta_read(path, &meta), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "s.mtd: line 1"));
    put("s.mtd", "{\"format\": \"odd\"}");
    assert_int_equal(gy_dml_meta_read(path, &meta), GY_UNSUPPORTED);
    gy_print(path, sizeof(path), "%s/none", folder);
    assert_int_equal(gy_dml_file_read(path, &meta, &value), GY_NOTFOUND);
}

/* A file that is read in pieces on all cores has the bytes of one that is read in order. */
static void test_large(void **state)
{
    enum { ROWS = 1100000 }; /* of 16 bytes: more than LARGE_BYTES of whole.c */
    char path[128];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    gy_dml_value value = GY_DML_NONE;
    (void)state;
    gy_print(path, sizeof(path), "%s/large", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < ROWS; i++) {
        fprintf(file, "%07d,%07d\n", i, ROWS - i);
    }
    fclose(file);
    meta.format = GY_DML_FILE_CSV;
    assert_int_equal(gy_dml_file_read(path, &meta, &value), GY_OK);
    assert_int_equal(value.matrix->rows, ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_true(value.matrix->data[2 * i] == i);
        assert_true(value.matrix->data[2 * i + 1] == ROWS - i);
    }
    gy_dml_drop(&value);
    remove(path);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    char line[128], out[16];
    (void)state;
    gy_print(line, sizeof(line), "rm -r %s", folder);
    return gy_test_shell(line, out, sizeof(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),           cmocka_unit_test(test_options),
        cmocka_unit_test(test_odd_separators),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_frames),          cmocka_unit_test(test_many_chunks),
        cmocka_unit_test(test_written_is_read), cmocka_unit_test(test_frame_is_read_again),
        cmocka_unit_test(test_arrays),          cmocka_unit_test(test_damaged_blocks),
        cmocka_unit_test(test_parts_of_blocks), cmocka_unit_test(test_parts_and_scalars),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
