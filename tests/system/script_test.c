/*
 * Goal: gyre script takes SystemDS's arguments, finds what scripts source and call, writes what
 * they write, and says in file, line and column what is wrong.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *const lines[] = {
    /* where a script comes from, and its arguments */
    "[ \"$(gyre script -s 'print(1 + 2)')\" = 3 ]",
    "echo 'print($1 + $2)' >a.dml; [ \"$(gyre script a.dml -args 3 4)\" = 7 ]",
    "[ \"$(gyre script -f a.dml -args a b)\" = ab ]",
    "[ \"$(gyre script -s 'print($x + ifdef($y, 5))' -nvargs x=1)\" = 6 ]",
    "[ \"$(gyre script -s 'print($x + ifdef($y, 5))' -nvargs x=1 y=2)\" = 3 ]",
    /* wrong usage is status 2 and one line */
    "gyre script 2>said; [ $? = 2 ] && grep -q 'FILE is missing' said",
    "gyre script -s 2>said; [ $? = 2 ] && grep -q 'needs a value' said",
    "gyre script -x 2>said; [ $? = 2 ] && grep -q \"unknown option '-x'\" said",
    "gyre script a.dml b 2>said; [ $? = 2 ] && grep -q \"'b' is one too many\" said",
    "gyre script a.dml -nvargs b 2>said; [ $? = 2 ] && grep -q 'expected NAME=VALUE' said",
    /* help */
    "gyre script --help | grep -q 'Behind -args'",
    "gyre script --help removeEmpty | grep -q 'removeEmpty(target, margin, select=, '",
    "gyre script -h nosuch 2>said; [ $? = 2 ] && grep -q 'no builtin function' said",
    /* errors are status 1: what was printed comes first */
    ("printf 'print(1)\\nx = 3\\ny = x + z1\\n' >b.dml; gyre script b.dml >out 2>said; "
     "[ $? = 1 ] && [ ! -s out ] && grep -qx 'b.dml:3:9: z1 is not defined' said && "
     "grep -qx '    y = x + z1' said && grep -qx '            ^' said"),
    ("printf 'print(1)\\nx = matrix(0, 2, 2) %%*%% matrix(0, 3, 3)\\n' >b.dml; gyre script "
     "b.dml "
     ">out 2>said; [ $? = 1 ] && [ \"$(cat out)\" = 1 ] && grep -q 'b.dml:2:21: %\\*%' said"),
    "gyre script nosuch.dml 2>said; [ $? = 1 ] && grep -q 'cannot read nosuch.dml' said",
    "gyre script -s 'print(1)' >/dev/full 2>said; [ $? = 1 ]",
    /* source and the library */
    ("mkdir -p s lib; printf 'f = function(int a) return (int b) { b = a + 1 }\\n' >s/f.dml; "
     "printf 'source(\"f.dml\") as n\\nprint(n::f(4))\\n' >s/g.dml; "
     "[ \"$(gyre script s/g.dml)\" = 5 ]"),
    ("printf 'm_twice = function(matrix[double] X) return (matrix[double] Y) { Y = 2 * X }\\n' "
     ">lib/twice.dml; [ \"$(GYRE_DML_PATH=$PWD/none:$PWD/lib gyre script -s "
     "'print(sum(twice(matrix(3, 1, 1))))')\" = 6.0 ]"),
    ("printf 'source(\"a1.dml\") as b\\nf = function(int x) return (int y) { y = x }\\n' "
     ">s/a2.dml; printf 'source(\"a2.dml\") as a\\nprint(a::f(8))\\n' >s/a1.dml; "
     "[ \"$(gyre script s/a1.dml)\" = 8 ]"),
    /* setwd, read and write */
    ("mkdir -p d; gyre script -s 'setwd(\"d\"); write(matrix(\"1 2 3 4\", 2, 2), \"m.csv\", "
     "format=\"csv\")' && grep -qx 1.0,2.0 d/m.csv && grep -q '\"rows\": 2' d/m.csv.mtd"),
    "[ \"$(gyre script -s 'print(sum(read(\"d/m.csv\")))')\" = 10.0 ]",
};

GY_TEST(each_line_ends_well)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        must(lines[i]);
    }
}

/* Lecture D's script, with %*% where the slide's text has **: w solves the normal equations. */
GY_TEST(conjugate_gradient_runs_as_printed)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "printf '1,0\\n1,1\\n1,2\\n1,3\\n' >X.csv; printf '1\\n3\\n5\\n7\\n' >y.csv; "
             "gyre script %s/examples/scripts/cg.dml -args X.csv y.csv 0 res/w && "
             "awk '{print $1, $2, ($3 > $1 - 0.01 && $3 < $1 + 0.01)}' res/w >got && "
             "printf '1 1 1\\n2 1 1\\n' | cmp - got",
             GYRE_SOURCE);
    must(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_ends_well),
        cmocka_unit_test(conjugate_gradient_runs_as_printed),
    };
    return cmocka_run_group_tests(tests, kit_make_folder, kit_remove_folder);
}
