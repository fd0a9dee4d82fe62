/* Goal: libsvm files give their rows; every malformed one a line with file, line, column, what
 * is there and what was expected. */
#include "store/files_test.h"

#include <gyre/data.h>

#include "gy_test.h"

static gy_status read_text(const char *text, gy_libsvm **rows)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(text, strlen(text), "f", GY_ENCODING_AUTO, &source));
    gy_status status = gy_store_libsvm_read(source, 1 << 20, rows);
    gy_source_close(source);
    return status;
}

GY_TEST(rows_are_as_they_stand)
{
    gy_libsvm *rows = NULL;
    assert_ok(read_text("-1 3:1 11:0.5\t14:-2e-3 \r\n# nothing\n\n+1\n"
                        "2.5 1:1 9223372036854775807:4 # the end",
                        &rows));
    const double labels[] = {-1, 1, 2.5}, values[] = {1, 0.5, -2e-3, 1, 4};
    const size_t begins[] = {0, 3, 3, 5};
    const uint64_t indices[] = {2, 10, 13, 0, INT64_MAX - 1};
    assert_int_equal(rows->rows, 3);
    assert_int_equal(rows->count, 5);
    assert_true(rows->features == INT64_MAX);
    assert_memory_equal(rows->labels, labels, sizeof(labels));
    assert_memory_equal(rows->begins, begins, sizeof(begins));
    assert_memory_equal(rows->indices, indices, sizeof(indices));
    assert_memory_equal(rows->values, values, sizeof(values));
    gy_libsvm_free(rows);
}

GY_TEST(what_is_wrong_is_said_with_its_place)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"1 2:1\n1 0:1\n", "f:2:3: '0': expected an index of 1 to 9223372036854775807"},
        {"1 2:1 2:1\n", "f:1:7: '2': expected indices that ascend in a line"},
        {"1 5:1 4:1\n", "f:1:7: '4': expected indices that ascend in a line"},
        {"1 9223372036854775808:1",
         "f:1:3: '9223372036854775808': expected an index of 1 to 9223372036854775807"},
        {"1 -3:1", "f:1:3: '-3': expected an index of 1 to 9223372036854775807"},
        {"1 3:x", "f:1:5: 'x': expected a finite number"},
        {"1 3:", "f:1:5: '': expected a finite number"},
        {"1 3:nan", "f:1:5: 'nan': expected a finite number"},
        {"1 3:1e999", "f:1:5: '1e999': expected a finite number"},
        {"1 3:0x10", "f:1:5: '0x10': expected a finite number"},
        {"\n\none 3:1", "f:3:1: 'one': expected a label, which is a finite number"},
        {"1 qid:3 1:1", "f:1:3: 'qid': expected an index of 1 to 9223372036854775807"},
        {"1 3", "f:1:3: '3': expected INDEX:VALUE"},
        {"1 3:1:1", "f:1:5: '1:1': expected a finite number"},
        {"", "f: no rows: expected LABEL INDEX:VALUE ..."},
        {"# nothing\n\n", "f: no rows: expected LABEL INDEX:VALUE ..."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gy_libsvm *rows = NULL;
        const int64_t live = gy_alloc_live();
        assert_status(read_text(cases[i].text, &rows), GY_FORMAT);
        assert_string_equal(gy_error_text(), cases[i].says);
        assert_null(rows);
        assert_int_equal(gy_alloc_live(), live);
    }
}

/* A NUL byte is no end of the file, and no part of a number. */
GY_TEST(bytes_that_are_no_text_are_refused)
{
    static const char bytes[] = "1 1:1\n\0 1:1\n";
    gy_source *source = NULL;
    gy_libsvm *rows = NULL;
    assert_ok(gy_source_of(bytes, sizeof(bytes) - 1, "f", GY_ENCODING_AUTO, &source));
    assert_status(gy_store_libsvm_read(source, 1 << 20, &rows), GY_FORMAT);
    assert_string_equal(gy_error_text(),
                        "f:2:1: '?': expected a label, which is a finite number");
    gy_source_close(source);
    assert_ok(gy_source_of(bytes, 6, "f", GY_ENCODING_AUTO, &source));
    assert_status(gy_store_libsvm_read(source, 5, &rows), GY_LIMIT);
    gy_source_close(source);
}

GY_TEST_MAIN(NULL, NULL)
