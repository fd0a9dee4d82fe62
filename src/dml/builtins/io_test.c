/* Goal: each option of read and write does what its help says, seen from scripts; what is not
 * so is refused. */
#include "dml/run/run.h"

#include "gy_test.h"

static char folder[] = "/tmp/gyre-io-XXXXXX";

static void take(void *arg, const char *text, size_t size)
{
    gy_text_add_bytes(arg, text, size);
}

/* What a script prints, or its report behind "!"; its paths lie in the folder. */
static void run(const char *statements, gy_text *printed)
{
    char text[2048];
    gy_dml_script *script = NULL;
    gy_print(text, sizeof(text), "setwd(\"%s\")\n%s", folder, statements);
    const gy_dml_script_options options = {
        .path = "io", .text = text, .print = take, .print_arg = printed};
    gy_status status = gy_dml_script_open(&options, &script);
    status = status == GY_OK ? gy_dml_script_run(script) : status;
    if (status != GY_OK) {
        gy_text_add(printed, "!%s", gy_dml_script_report(script));
    }
    gy_dml_script_close(script);
}

static const struct {
    const char *statements, *wanted; /* printed, or "!" and a part of the report */
} cases[] = {
    /* frames, as FrameGeneral reads, changes and writes them */
    {"F = frame(list(\"a\", \"b,c\", \"d\", \"e\"), 2, 2); write(F, \"f.csv\", "
     "format=\"csv\")\n"
     "G = read(\"f.csv\", data_type=\"frame\"); print(toString(G)); print(sum(as.matrix(F == "
     "G)))",
     "# FRAME: nrow = 2, ncol = 2\n# C1 C2\n# STRING STRING\na b,c\nd e\n\n4.0\n"},
    {"F = frame(list(\"1\", \"x\"), 1, 2, list(\"int\", \"string\")); write(F, \"g\")\n"
     "G = read(\"g\"); G[1, 1] = 5; write(G[, 1], \"h\", format=\"csv\", header=TRUE)\n"
     "H = read(\"h\"); print(as.scalar(H) + 1); print(toString(typeof(H)))",
     "6\n# FRAME: nrow = 1, ncol = 1\n# C1\n# STRING\nINT64\n\n"},
    {"write(matrix(\"1 2 3 4\", 2, 2), \"m\", format=\"csv\")\n"
     "F = read(\"m\", data_type=\"frame\", schema=\"string,double\"); print(as.scalar(F[2, 1]) "
     "+ "
     "\"|\" + as.scalar(F[2, 2]))",
     "3.0|4.0\n"},
    {"write(matrix(\"1 2 3 4\", 2, 2), \"m\", format=\"csv\")\n"
     "F = read(\"m\", data_type=\"frame\", schema=\"string\", rows=3)",
     "!m has 2 rows, expected 3"},
    {"write(frame(\"q\", 1, 1), \"q\", format=\"csv\"); X = read(\"q\", data_type=\"matrix\")",
     "!q: line 1, column 1: expected a number, found \"q\""},
    {"write(frame(1, 1, 1), \"q\", format=\"mm\")", "!frames are not written as mm"},
    {"write(matrix(1, 1, 1), \"q\", format=\"mm\"); F = read(\"q\", data_type=\"frame\")",
     "!frames are not read from mm"},
    /* sparse: zeros are left out, and come back */
    {"X = matrix(\"0 2 0 3 0 0\", 2, 3); write(X, \"s\", format=\"csv\", sparse=TRUE)\n"
     "F = read(\"s\", data_type=\"frame\", schema=\"*\"); print(toString(F, sep=\"|\"))\n"
     "print(sum(read(\"s\", data_type=\"matrix\") == X))",
     "# FRAME: nrow = 2, ncol = 3\n#|C1|C2|C3\n#|STRING|STRING|STRING\nnull|2.0|null\n"
     "3.0|null|null\n\n6.0\n"},
    {"write(matrix(0, 3, 1), \"s\", format=\"csv\", sparse=TRUE); print(nrow(read(\"s\")))",
     "3\n"},
    /* description: in the .mtd file */
    {"write(matrix(1, 1, 1), \"d\", description=\"what \\\"it\\\" is\")\n"
     "F = read(\"d.mtd\", data_type=\"frame\", format=\"csv\", sep=\";\"); n = 0\n"
     "for (i in 1:nrow(F)) { if (as.scalar(F[i, 1]) == \"\\\"description\\\": \\\"what "
     "\\\\\\\"it\\\\\\\" "
     "is\\\"\") { n = n + 1 } }\nprint(n)",
     "1\n"},
    /* nnz: held against the values */
    {"write(matrix(\"1 0 2\", 3, 1), \"n\", nnz=2); print(sum(read(\"n\", nnz=2)))", "3.0\n"},
    {"write(matrix(\"1 0 2\", 3, 1), \"n\"); X = read(\"n\", nnz=3)",
     "!n has 2 cells that are not 0, expected 3"},
    {"write(matrix(\"1 0 2\", 3, 1), \"n\", nnz=3)",
     "!nnz: X has 2 cells that are not 0, not 3"},
    {"write(matrix(1, 1, 1), \"n\", nnz=-2)", "!nnz: expected -1 or more, found -2"},
    {"write(matrix(1, 1, 1), \"n\", nnz=\"many\")", "!nnz: expected a number"},
    /* what has no meaning is of its type and range at least */
    {"write(matrix(1, 1, 1), \"b\", rows_in_block=1000, cols_in_block=1000); "
     "print(sum(read(\"b\", "
     "rows_in_block=1000, cols_in_block=1000)))",
     "1.0\n"},
    {"write(matrix(1, 1, 1), \"b\", rows_in_block=0)", "!rows_in_block: expected 1 or more"},
    {"X = read(\"b\", cols_in_block=\"a\")", "!cols_in_block: expected a number"},
    {"X = read(\"b\", description=\"a\")", "!read has no parameter description"},
    {"write(matrix(1, 1, 1), \"b\", sparse=\"perhaps\")", "!sparse: expected TRUE or FALSE"},
    {"X = rand(rows=7, cols=5, sparsity=0.3, seed=4); n = 0\n"
     "for (r in 1:8) { for (c in 1:6) { write(X, \"b\", format=\"binary\", rows_in_block=r, "
     "cols_in_block=c); n = n + sum(read(\"b\") == X) } }\nprint(n)",
     "1680.0\n"},
    {"write(matrix(1, 1, 1), \"b\", format=\"binary\", rows_in_block=100000, "
     "cols_in_block=100000)",
     "!more than 2^32 - 1 cells"},
    {"write(frame(1, 2, 2), \"b\", format=\"binary\"); X = read(\"b\", data_type=\"matrix\")",
     "!b has a frame, expected a matrix"},
    {"write(matrix(\"1 2 3 4 5 6\", 2, 3), \"n.npy\", format=\"npy\"); "
     "print(toString(read(\"n.npy\"), "
     "decimal=0))",
     "1 2 3\n4 5 6\n\n"},
    {"write(matrix(\"1 2 3 4 5 6\", 2, 3), \"n.idx\", format=\"idx\"); "
     "print(toString(read(\"n.idx\"), "
     "decimal=0))",
     "1 2 3\n4 5 6\n\n"},
    {"write(matrix(\"0 2 1 4 0 -1\", 2, 3), \"l\", format=\"libsvm\"); X = read(\"l\", "
     "cols=4); "
     "print(toString(X, decimal=0))",
     "0 2 0 1\n4 0 0 -1\n\n"},
    {"write(matrix(\"0 2 1 4 0 -1\", 2, 3), \"l\", format=\"libsvm\"); "
     "print(toString(read(\"l\"), decimal=0))",
     "0 2 1\n4 0 -1\n\n"},
    {"write(matrix(0, 2, 0), \"l\", format=\"libsvm\")", "!without columns has no labels"},
    {"X = read(\"n.npy\", cols=2)", "!n.npy has 3 columns, expected 2"},
    /* types that are said are those that are there */
    {"write(matrix(1, 1, 1), \"t\", data_type=\"matrix\", value_type=\"double\"); "
     "write(2, \"u\", data_type=\"scalar\", value_type=\"int\"); print(read(\"u\") + 1)",
     "3\n"},
    {"write(matrix(1, 1, 1), \"t\", data_type=\"frame\")", "!X is a matrix, not \"frame\""},
    {"write(2, \"t\", value_type=\"double\")", "!X has values of type int, not \"double\""},
    {"X = read(\"t\", data_type=\"odd\")", "!\"odd\" is none of matrix, frame, scalar"},
    {"X = read(\"t\", value_type=\"odd\")", "!\"odd\" is none of double, int, boolean, string"},
    {"X = read(\"t\", data_type=\"frame\", format=\"csv\", schema=\"odd\")",
     "!the schema's type 1, \"odd\""},
    {"X = read(\"none\", format=\"odd\")", "!\"odd\" is none of text, csv"},
    {"X = read(\"t\", rows=-5)", "!rows: expected -1 or more"},
};

static void test_cases(void **state)
{
    const int64_t live = gy_alloc_live();
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_text printed = {.data = NULL};
        run(cases[i].statements, &printed);
        const char *got = gy_text_get(&printed), *wanted = cases[i].wanted;
        if (wanted[0] == '!' ? got[0] != '!' || strstr(got, wanted + 1) == NULL
                             : strcmp(got, wanted) != 0) {
            print_error("%s: got %s, expected %s\n", cases[i].statements, got, wanted);
            wrong++;
        }
        gy_text_free(&printed);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(gy_alloc_live(), live);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
