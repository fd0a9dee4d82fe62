#!/bin/sh
# Goal: the example of functions, built with the public headers alone, calls them in a query, in one process and as a
# job of two; one that fails names file and line.
# usage: example_test.sh PROGRAM
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_STATE_HOME="$work/state"
{
    echo url,bytes
    for i in 1 2 3 4 5 6 7; do
        echo "https://a.org/page$i,$i"
        echo "https://b.org,10"
    done
    echo 'mailto:me,5'
} >log.csv
cat >expected <<'END'
 site  | visits | bytes | median
-------+--------+-------+--------
 b.org |      7 |    70 |     15
 a.org |      7 |    28 |      7
 null  |      1 |     5 |      7
(3 rows)
END
for processes in '' 2; do
    "$1" 'select site(url) as site, count(*) as visits, sum(bytes) as bytes, median(bytes) from "log.csv" group by 1
        order by 3 desc' $processes | sed 's/ *$//' >got
    diff expected got
done
cat >expected <<'END'
 site  | url                 | bytes
-------+---------------------+-------
 a.org | https://a.org/page7 |     7
 a.org | https://a.org/page6 |     6
 b.org | https://b.org       |    10
 b.org | https://b.org       |    10
(4 rows)
END
for processes in '' 2; do
    "$1" "select * from largest((select site(url) as site, url, bytes from \"log.csv\"), partition_by => 'site',
        order_by => 'bytes desc') where site is not null order by site, bytes desc" $processes | sed 's/ *$//' >got
    diff expected got
done
echo 'https:///page,1' >>log.csv
if "$1" 'select site(url) from "log.csv"' 2>note; then
    exit 1
fi
grep -q 'log.csv:17: function site: a URL without a host: https:///page' note
if "$1" 'select sit(url) from "log.csv"' 2>note; then
    exit 1
fi
grep -q '^query:1:8: function sit(text) does not exist: is it site?' note
