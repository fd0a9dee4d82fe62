#!/usr/bin/env python3
"""From exec of `gyre train mlp` on the digits to the end of the first step, and the size of what is installed.

Usage: startup.py GYRE_BINARY DIGITS_FOLDER [--runs N] [--csv FILE]
The command runs with GYRE_LOG=info; the clock starts before it is spawned and stops when its line about the first
step arrives here, so process start, loading, reading the digits, compiling the graph and the step itself are all
inside, and a pipe read by Python as well. Wall clock: run it on a quiet machine, or under `chrt -f 10` on a busy one
(as the committed results were). The CPU time of the whole command,
to its end with everything saved, stands beside.
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_MS = 100
LIMIT_BYTES = 5 << 20


def once(binary, data, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    child = subprocess.Popen(
        [binary, "train", "mlp", "--data", data, "--steps-max", "1", "--quiet", "--output", folder],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "GYRE_LOG": "info"})
    seconds, said = None, ""
    for line in child.stderr:
        said += line
        if seconds is None and "first step" in line:
            seconds = time.monotonic() - start
    if child.wait() != 0 or seconds is None:
        sys.exit(f"{binary} ended with {child.returncode}: {said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stripped_bytes(paths, folder):
    total = 0
    for path in paths:
        copy = os.path.join(folder, os.path.basename(path))
        shutil.copyfile(os.path.realpath(path), copy)
        subprocess.run(["strip", copy], check=True)
        total += os.path.getsize(copy)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("data")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--csv")
    options = parser.parse_args()
    library = os.path.join(os.path.dirname(os.path.realpath(options.binary)), "libgyre.so")
    with tempfile.TemporaryDirectory() as folder:
        once(options.binary, options.data, folder)
        runs = [once(options.binary, options.data, folder) for _ in range(options.runs)]
        size = stripped_bytes([options.binary, library], folder)
    wall = [1000 * seconds for seconds, _ in runs]
    rows = [
        ("start to first step, ms, median", f"{statistics.median(wall):.1f}", LIMIT_MS),
        ("start to first step, ms, least", f"{min(wall):.1f}", ""),
        ("CPU of the whole command, ms, median", f"{1000 * statistics.median(cpu for _, cpu in runs):.1f}", ""),
        ("command and library, stripped, bytes", str(size), LIMIT_BYTES),
    ]
    for name, value, limit in rows:
        print(f"{name:40} {value:>10}" + (f"  (at most {limit})" if limit else ""))
    if options.csv:
        with open(options.csv, "w") as file:
            file.write("what,value,limit\n")
            file.writelines(f'"{name}",{value},{limit}\n' for name, value, limit in rows)


if __name__ == "__main__":
    main()
