#!/bin/sh
# Goal: the example of batch norm learns, on one rank and on three, and tells a row apart alike
# alone and among others.
# usage: example_test.sh PROGRAM GYRE
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for start in "" "$2 run -n 3"; do
    line=$($start "$1" "$folder/model.safetensors") || exit 1
    echo "$line"
    echo "$line" | awk '{ exit !($1 == "accuracy" && $2 > 0.9) }' || exit 1
done
