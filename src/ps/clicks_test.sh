#!/bin/sh
# Goal: the example of sparse FTRL reaches the test loss of logistic regression, whose model
# `gyre train` makes of the same rows.
# usage: clicks_test.sh PROGRAM GYRE FILE
[ -e "$3" ] || { echo "no test data at $3"; exit 77; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
"$2" train logistic -q -d "$3" -o "$folder" >"$folder/logistic" || exit 1
"$1" "$3" >"$folder/clicks" || exit 1
cat "$folder/clicks"
want=$(sed -n 's/^test accuracy: .* loss //p' "$folder/logistic")
got=$(sed -n '$s/.*test loss //p' "$folder/clicks")
echo "clicks $got, logistic $want"
awk "BEGIN { exit !($got > 0 && $got <= 1.02 * $want) }"
