#!/bin/sh
# Goal: the example of rows, built with the public headers alone, answers over several files, here and by processes, says
# how, and reports a column that is not there with its call and a caret.
# usage: example_test.sh PROGRAM
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'page,status\n/a,200\n/b,404\n/a.css,200\n/b,200\n' >1.csv
printf 'page,status\n/c,200\n/b,500\n/a,200\n' >2.csv
cat >expected <<'END'
 page | visits | failed
------+--------+--------
 /b   |      3 |      2
 /a   |      2 |      0
 /c   |      1 |      0
(3 rows)
END
"$1" '*.csv' | sed 's/ *$//' >got
diff expected got
HOME=$work XDG_STATE_HOME=$work/state "$1" '*.csv' 2 | sed 's/ *$//' >got
diff expected got
[ -d state/gyre/jobs ]
"$1" 1.csv explain >got
grep -q '^sort count desc, page, count limit 5' got
grep -q 'scan 1.csv: page, status' got
if "$1" 1.csv 0 2>note; then
    exit 1
fi
grep -q '^usage: ' note
printf 'pge,status\n/a,200\n' >wrong.csv
if "$1" wrong.csv 2>note; then
    exit 1
fi
grep -qx 'gy_rows_where:1:1: there is no column "page"; the nearest name is "pge"' note
grep -qx "    page not like '%.css'" note
