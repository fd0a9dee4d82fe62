#!/bin/sh
# One model trained in five ways: the flag alone changes, and the loss does not. Of each way the
# script prints what --explain says of it: what a rank holds, what it sends and for whom.
# usage: five_ways.sh [FILE], which is the text to learn; gyre is found through PATH
set -eu
text=${1:-/usr/share/common-licenses/GPL-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines of --explain: the memory of a rank, the stages, and a line for each kind of exchange.
tell() {
    awk '
        /^== memory of a rank/ { sub("== m", "m"); sub(" predicted", ""); print "  " $0 }
        /^== stages/ { in_stages = 1; next }
        /^== the update/ { part = ", of an update" }
        /^==/ { in_stages = 0 }
        in_stages && $1 ~ /^[0-9]+$/ && NF > 10 {
            printf "  stage %d: layers %s to %s, sends %s %s a micro-batch\n", $1, $11, $NF, $5, $6
        }
        /^  sum: / { sub("sum: ", ""); sub(": ", part ": "); line[++lines] = $0 }
        END {
            for (i = 1; i <= lines; i++) {
                if (part != "" && line[i] !~ part) { sub(": ", ", of a micro-batch: ", line[i]) }
                print line[i]
            }
        }' "$1"
}

way() {
    name=$1
    shift
    gyre train gpt --data "$text" --layers 2 --model-width 64 --context 32 --batch 12 --steps 8 \
        --dtype f64 --quiet --explain --output "$work/out" "$@" >"$work/said"
    echo "$name: gyre train gpt $*"
    tell "$work/said"
    sed -n 's/^test loss: \([0-9.]*\).*/  test loss \1/p' "$work/said"
}

way data --mesh data=2
way "zero 3" --mesh data=2 --zero 3
way operator --mesh model=2
way pipeline --mesh pipe=2 --micro-batches 4
way 3-D --mesh data=2,pipe=2,model=2 --micro-batches 4
