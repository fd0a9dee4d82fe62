#!/bin/sh
# Goal: the examples of batch norm and of a model of one's own learn, on one rank and on three,
# and what their saved file says is what the trained model said.
# With MESH also on two ranks of that mesh.
# usage: example_test.sh PROGRAM GYRE [MESH]
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for start in "" "$2 run -n 3" ${3:+"$2 run -n 2"}; do
    mesh=
    case $start in *"-n 2") mesh=$3 ;; esac
    line=$($start "$1" "$folder/model.safetensors" $mesh) || exit 1
    echo "$line"
    echo "$line" | awk '{ exit !($1 == "accuracy" && $2 + 0 > 0.9) }' || exit 1
done
