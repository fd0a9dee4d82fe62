#!/bin/sh
# Goal: the lecture's example, built with the public headers alone, learns the digits.
# usage: example_test.sh PROGRAM FOLDER
images=$2/t10k-images-idx3-ubyte.gz
labels=$2/t10k-labels-idx1-ubyte.gz
if [ ! -f "$images" ]; then
    echo "skipped: no digits at $images"
    exit 77
fi
mean=$("$1" "$images" "$labels" | tail -n 20 | awk '{ sum += $3 } END { printf "%d", 1000 * sum / NR }')
echo "mean loss of the last 20 batches: $mean / 1000"
[ "$mean" -gt 0 ] && [ "$mean" -lt 450 ]
