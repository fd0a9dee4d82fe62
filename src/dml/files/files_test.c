/* Goal: data files are read as they are meant, errors name line and column, and what is written
 * is read back with the same bits. */
#include "dml/files/files.h"

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
    {"1 1 4\n", GY_DML_FILE_UNKNOWN, "4;"},
    {"1,1,4\n", GY_DML_FILE_UNKNOWN, "1 1 4;"},
    {"%%MatrixMarket matrix array real general\n1 1\n4\n", GY_DML_FILE_UNKNOWN, "4;"},
};

static void show(const gy_dml_matrix *matrix, gy_text *text)
{
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
        gy_dml_matrix *matrix = NULL;
        gy_text text = {.data = NULL};
        meta.format = cases[i].format;
        const gy_status status =
            gy_dml_file_parse("f", &meta, cases[i].data, strlen(cases[i].data), &matrix);
        if (status == GY_OK) {
            show(matrix, &text);
            gy_dml_matrix_drop(matrix);
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
    gy_dml_matrix *matrix = NULL;
    gy_text text = {.data = NULL};
    static const char data[] = "a||b\n1||NA\n||3\n";
    (void)state;
    meta.format = GY_DML_FILE_CSV;
    meta.has_header = true;
    meta.fill_value = -1;
    meta.na_count = 1;
    gy_print(meta.separator, sizeof(meta.separator), "||");
    gy_print(meta.na_strings[0], sizeof(meta.na_strings[0]), "NA");
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &matrix), GY_OK);
    show(matrix, &text);
    assert_string_equal(gy_text_get(&text), "1 nan;-1 3;");
    gy_dml_matrix_drop(matrix);
    gy_text_free(&text);
    meta.is_filled = false;
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &matrix), GY_FORMAT);
    meta.rows = 5;
    meta.is_filled = true;
    assert_int_equal(gy_dml_file_parse("f", &meta, data, strlen(data), &matrix), GY_FORMAT);
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
    static const gy_dml_file_format formats[] = {GY_DML_FILE_TEXT, GY_DML_FILE_CSV,
                                                 GY_DML_FILE_MARKET};
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
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_written_is_read),
        cmocka_unit_test(test_parts_and_scalars),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
