/*
 * Goal: gyre query answers SQL over CSV files as table, csv and JSON lines, on standard output
 * or into a file, says how it will run and how it ran, and what is wrong in line and column.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *const lines[] = {
    "printf 'id,price,name\\n1,2.50,\"a, b\"\\n2,,c\\n' >t.csv; mkdir -p log; "
    "printf 'k,n\\nx,1\\n' >log/1.csv; printf 'k,n\\ny,2\\n' >log/2.csv",
    /* where tables come from */
    "[ \"$(gyre query --format csv 'select id from \"t.csv\" order by id desc')\" = \"$(printf "
    "'id\\n2\\n1')\" ]",
    "gyre query --tables . --format csv 'select name from t where id = 1' | tail -1 | grep -qx "
    "'\"a, b\"'",
    "[ \"$(gyre query --format csv 'select sum(n) from \"log/*.csv\"' | tail -1)\" = 3 ]",
    "gzip -k t.csv && [ \"$(gyre query --format csv 'select count(*) from \"t.csv.gz\"' | tail "
    "-1)\" = 2 ]",
    /* answers */
    "gyre query --tables . 'select id, price from t order by id' | sed 's/ *$//' >said && "
    "printf "
    "' id | price\\n----+-------\\n  1 |  2.50\\n  2 |  null\\n(2 rows)\\n' | cmp - said",
    "[ \"$(gyre query --tables . --format json 'select price, name from t where id = 1')\" = "
    "'{\"price\":2.50,\"name\":\"a, b\"}' ]",
    "gyre query --tables . -o out.csv 'select id from t' && [ \"$(head -1 out.csv)\" = id ] && "
    "[ $(wc -l <out.csv) = 3 ]",
    /* the output's name says its form */
    "gyre query --tables . -o a.jsonl 'select id from t' && head -1 a.jsonl | grep -qx "
    "'{\"id\":1}'; gyre query --tables . -o a.tsv 'select id, name from t' && head -2 a.tsv | "
    "tail -1 | grep -qx \"$(printf '1\ta, b')\"",
    "gyre query --tables . -o a.csv.gz 'select id, name from t' && gyre query --tables . -o "
    "a.csv.zst 'select id, name from t' && gyre query --tables . -o a.csv 'select id, name "
    "from "
    "t' && gzip -dc a.csv.gz | cmp - a.csv && for f in gz zst; do gyre query --format csv "
    "'select "
    "* from \"a.csv.'$f'\"' | cmp - a.csv || exit 1; done",
    "gyre query --tables . -o a.JSON.gz 'select id from t' && gzip -dc a.JSON.gz | grep -c "
    "'^{' | "
    "grep -qx 2; gyre query --tables . -o a.json --format csv 'select id from t' && head -1 "
    "a.json | grep -qx id",
    "gyre query --tables . -o a.parquet 'select 1' 2>said; [ $? = 2 ] && [ ! -e a.parquet ] && "
    "grep -q 'a.parquet: answers are text' said",
    "! gyre query --tables . -o none.gz 'select id / 0 from t' 2>said && [ ! -e none.gz ]",
    "! gyre query --tables . -o none.csv 'select id / 0 from t' 2>said && [ ! -e none.csv ] && "
    "grep -q 'division by zero' said",
    "[ \"$(gyre query --tables . --format csv 'select id from t where id > 9')\" = id ]",
    "gyre query 'select n from \"log/*.csv\"' | tail -1 | grep -qx '(2 rows)'",
    "mkfifo pipe; ! gyre query --tables . -o pipe 'select id from t' 2>said && [ -p pipe ] && "
    "grep -q 'no file' said",
    "printf 'k\\n7\\n' >'a[1].csv'; printf 'k\\n8\\n' >a1.csv; [ \"$(gyre query --format csv "
    "'select k from \"a[1].csv\"' | tail -1)\" = 7 ]",
    "! gyre query \"select * from read_csv('t.csv', header => true, header => false)\" 2>said "
    "&& "
    "grep -q 'header is there twice' said",
    "for text in '# 1\\r# 2\\ra\\r7\\r' '# 1\\r\\n# 2\\r\\na\\r\\n7\\r\\n' '\\r\\r\\na\\n7'; "
    "do printf "
    "\"$text\" >skipped.csv; [ \"$(gyre query --format csv \"select a from "
    "read_csv('skipped.csv', skip => 2)\" | tr '\\n' ' ')\" = 'a 7 ' ] || exit 1; done",
    /* an output is there whole or not at all, whatever ends the process */
    "seq 9999 | sed 1ia >long.csv; ! (ulimit -c 0; ulimit -f 1; gyre query -o killed.csv "
    "'select a "
    "from "
    "\"long.csv\"') 2>said && [ -z \"$(ls | grep killed)\" ]",
    "printf 'a\\n' >out.csv; gyre query --tables . -o out.csv 'select id from t where id = 2' "
    "&& "
    "[ \"$(tail -1 out.csv)\" = 2 ] && ! ls | grep -q part",
    "! gyre query --tables . -o nowhere/out.csv 'select id from t' 2>said && grep -q 'cannot "
    "be "
    "written: No such file' said",
    /* that a signal ends a job is no failure to write */
    "{ gyre query -p 1 --folder jf -o k.csv 'select count(*) from \"long.csv\" x, \"long.csv\" "
    "y, "
    "\"long.csv\" z where x.a + y.a + z.a < 0' 2>said & } && until [ -n \"$(ls -d jf/data/*)\" "
    "]; do :; done "
    "&& pkill -TERM -P $! && ! wait $! && ! grep -q 'cannot be written' said && grep -q "
    "SIGTERM said",
    /* statements of a file */
    "printf '\\357\\273\\277select 5 as n' >s.sql; [ \"$(gyre query -f s.sql --format csv | "
    "tail -1)\" "
    "= 5 ]",
    "printf -- '-- views\\ncreate view v as select id from t;\\nselect count(*) as n from "
    "v;\\ndrop "
    "view v;\\nselect 2 as n' >s.sql; [ \"$(gyre query --tables . -f s.sql --format csv | tr "
    "'\\n' ' ')\" = 'n 2 n 2 ' ]",
    "[ \"$(printf 'select 1 as n;\\nselect 2 as n' | gyre query -f - --format csv | tr '\\n' ' "
    "')\" = "
    "'n 1 n 2 ' ]; printf 'select\\n x' | gyre query -f - 2>said; [ $? = 1 ] && grep -q "
    "'^query:2:2: ' said",
    "head -c 8388609 /dev/zero | tr '\\0' ' ' | gyre query -f - 2>said; [ $? = 1 ] && grep -q "
    "'expected at most 8388608 bytes' said",
    /* how it runs */
    "gyre query --tables . --explain 'select id from t where price > 1' | grep -q '^    scan "
    "t.csv: id, price  (about .* rows, .* B)$'",
    "gyre query --tables . --stats 'select id from t' 2>said >/dev/null && grep -q '2 rows .* "
    "scan "
    "t.csv: id' said",
    "seq 100000 | sed 's/$/,x/; 1i k,v' >big.csv; gyre query --tables . --memory 300KiB -w 2 "
    "--stats --format csv 'select k, count(*) from big group by k' 2>said | wc -l | grep -qx "
    "100001 && grep -Eq 'spilled [0-9.]+ .iB in [1-9]' said",
    "! gyre query --tables . --format csv 'select k from big' >/dev/full 2>said && grep -q "
    "'cannot write to standard output' said",
    "! TMPDIR=/nonexistent gyre query --tables . --memory 300KiB 'select k, count(*) from big "
    "group by k' 2>said && grep -q 'memory does not hold can be made in /nonexistent: ' said",
    /* what is wrong */
    "gyre query 'select\\n nme' 2>said; [ $? = 1 ]",
    "gyre query --tables . 'select nme from t' 2>said; [ $? = 1 ] && grep -q '^query:1:8: "
    "there is "
    "no column \"nme\"; the nearest name is \"name\"$' said && grep -q '^ *^$' said",
    "printf 'select 1;\\nselect x' >s.sql; gyre query -f s.sql 2>said >out; [ $? = 1 ] && grep "
    "-q "
    "'^s.sql:2:8: ' said",
    "gyre query 2>said; [ $? = 2 ] && grep -q 'expected statements of SQL' said",
    "gyre query -f s.sql 'select 1' 2>said; [ $? = 2 ] && grep -q 'not both' said",
    "gyre query -f nosuch 2>said; [ $? = 1 ] && grep -q 'nosuch' said",
    "gyre query --format xml 'select 1' 2>said; [ $? = 2 ]",
    "gyre query --tables . -o nosuch/a.csv 'select 1' 2>said; [ $? = 1 ] && grep -qx 'gyre "
    "query: --output nosuch/a.csv: cannot be written: No such file or directory' said",
    "gyre query --tables . 'select * from "
    "bigg' "
    "2>said; [ $? = 1 ] && grep -q 'has no file bigg.csv; the nearest name is \"big\"' said",
    "gyre query 'select * from \"nosuch.csv\"' 2>said; [ $? = 1 ] && grep -q "
    "'^query:1:15: .*nosuch.csv' said",
};

GY_TEST(each_line_of_shell_ends_well)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (shell(lines[i]) != 0) {
            fail_msg("'%s': %s", lines[i], output);
        }
    }
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
