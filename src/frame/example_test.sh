#!/bin/sh
# Goal: the example of columns, built with the public headers alone, describes a column, reads again when its sample
# misled it, and refuses a ragged row by file and line.
# usage: example_test.sh PROGRAM
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'id,price,name\n1,2.50,"a,\nb"\n2,,""\n3,4.25,\n' >small.csv
cat >expected <<'END'
price decimal(18, 2): 3 rows, 1 null, sum 6.75
 id | price | name
----+-------+-------
  1 |  2.50 | a,\nb
  2 |  null |
  3 |  4.25 | null
(3 rows)
END
"$1" small.csv price | sed 's/ *$//' >got
diff expected got
{ printf 'id\n'; seq 400000; echo x; } | gzip -1 >long.csv.gz
"$1" long.csv.gz id >got 2>note
grep -q '^id text: 400001 rows, 0 null' got
grep -q "^note: .*long.csv.gz:400002: x in column 'id' is no int64" note
printf 'a,b\n1,2\n3\n' >ragged.csv
if "$1" ragged.csv a 2>note; then
    exit 1
fi
grep -q '^columns: .*ragged.csv:3: 1 field in a row: expected 2' note
