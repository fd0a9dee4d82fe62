#!/bin/sh
# Goal: the examples of batch norm and of a model of one's own learn, on one rank and on three,
# and what their saved file says is what the trained model said.
# usage: example_test.sh PROGRAM GYRE
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for start in "" "$2 run -n 3"; do
    line=$($start "$1" "$folder/model.safetensors") || exit 1
    echo "$line"
    echo "$line" | awk '{ exit !($1 == "accuracy" && $2 + 0 > 0.9) }' || exit 1
done
