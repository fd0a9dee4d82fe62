#!/bin/sh
# Goal: the lecture's question has awk's answer, and no file is left between.
# usage: example_test.sh PROGRAM
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++)
    printf "10.0.0.%d - - [day] \"GET /page/%d HTTP/1.1\" 200 %d\n", i % 255, int(1 / (rand() + 0.001)), i }' >"$work/log"
awk '{ split($0, a, "\"GET "); split(a[2], b, " "); count[b[1]]++ } END { for (k in count) print count[k], k }' "$work/log" |
    LC_ALL=C sort -k1,1nr -k2 | head -n 5 >"$work/expected"
"$1" "$work/log" "$work/graph" >"$work/said"
cmp "$work/said" "$work/expected"
[ "$(ls -A "$work/graph" | tr '\n' ' ')" = "MANIFEST.json top-00000 " ]
if "$1" "$work/log" "$work/graph" 2>"$work/said"; then
    echo "an output that is there was written over"
    exit 1
fi
grep -q 'not empty' "$work/said"
