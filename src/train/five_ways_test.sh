#!/bin/sh
# Goal: the example trains one model in five ways to one loss, and tells of each what sets it apart.
# usage: five_ways_test.sh SCRIPT FOLDER_OF_GYRE
text=/usr/share/common-licenses/GPL-3
PATH=$2:$PATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
head -c 4000 "$text" >"$work/text" || { echo "skipped: no $text"; exit 77; }
sh "$1" "$work/text" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
cat "$work/said"
has() { sed -n "/^$1: /,/test loss/p" "$work/said" | grep -q "$2" || { echo "$1 does not say $2"; exit 1; }; }
[ "$(grep -c '^  test loss' "$work/said")" -eq 5 ] || exit 1
[ "$(grep '^  test loss' "$work/said" | sort -u | wc -l)" -eq 1 ] || { echo "losses differ"; exit 1; }
[ "$(grep -c '^  memory of a rank: ' "$work/said")" -eq 5 ] || exit 1
has data ' allreduce along data, P(sum) -> R: '
has 'zero 3' ' allgather along data, S0 -> R: '
has 'zero 3' ' reduce-scatter along data, P(sum) -> S0: '
has operator ' along model, '
has pipeline '  stage 1: layers .* a micro-batch'
has 3-D ' along model, .* a micro-batch: '
has 3-D ' allreduce along data, .* an update: '
has 3-D '  stage 1: layers .* a micro-batch'
