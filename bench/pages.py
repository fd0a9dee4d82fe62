#!/usr/bin/env python3
"""Lecture A's question (the five most popular pages of a log) asked in three ways: what each costs its author and the machine.

Usage: pages.py BUILD/bench [--gigabytes 1] [--rounds 5] [--folder WORK] [--csv FILE]
Lines are those of the source that are neither empty nor comments; bytes are all that its processes write: to files, FIFOs and
sockets. The floor is what reading the bytes of the log once takes.
"""
import argparse
import csv
import os
import random
import sys
import tempfile
import time

import peers

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
PAGES, SOME = 200000, 1 << 16


def write_log(path, size):
    """Common log format; pages by Zipf's law, a tenth of the requests none that ask for a page."""
    draw = random.Random(1)
    pages = draw.choices(range(1, PAGES + 1), weights=[1 / k for k in range(1, PAGES + 1)], k=SOME)
    lines = [f'10.{i % 250}.{i % 241}.{i % 239} - - [27/Nov/2026:10:{i % 60:02}:{i * 7 % 60:02} +0000] "{"POST" if i % 10 == 0 else "GET"} '
             f'/shop/item/{page} HTTP/1.1" {404 if i % 17 == 0 else 200} {i * 48271 % 65536}\n' for i, page in enumerate(pages)]
    with open(path, "w") as file:
        while file.tell() < size:
            draw.shuffle(lines)
            file.writelines(lines)


def lines_of(name):
    """Lines of a source without comments."""
    count, is_comment = 0, False
    with open(os.path.join(EXAMPLES, name)) as file:
        for line in map(str.strip, file):
            is_comment = is_comment or line.startswith("/*")
            count += bool(line) and not is_comment and not line.startswith("--")
            is_comment = is_comment and not line.endswith("*/")
    return count


def written():
    """Bytes that this process and the children that it waited for have written so far."""
    with open("/proc/self/io") as io:
        return next(int(line.split()[1]) for line in io if line.startswith("wchar:"))


def answer(said):
    return [line.replace(",", " ") for line in said.decode().splitlines() if not line.startswith("visits")]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--csv")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    table = options.csv and os.path.abspath(options.csv)
    peers.stop_with_cleaning()
    with tempfile.TemporaryDirectory(prefix=".gyre-bench-", dir=options.folder) as work:
        write_log(os.path.join(work, "access.log"), options.gigabytes * 1e9)
        os.chdir(work)
        output = os.path.join(work, "outputs")
        query = [os.path.join(build, "..", "gyre"), "query", "--format", "csv", "-f", os.path.join(EXAMPLES, "popular.sql")]
        own = {"XDG_STATE_HOME": os.path.join(work, "state"), "TMPDIR": work}
        ways = {"two MapReduce jobs": ("popular_jobs.c", [os.path.join(build, "bench_popular_jobs"), "access.log", "outputs/top"]),
                "a graph made by hand": ("popular.c", [os.path.join(build, "bench_popular"), "access.log", "outputs/top"]),
                "a query, one process": ("popular.sql", query),
                "a query, as a job": ("popular.sql", [*query, "--processes", "2"])}
        programs = [peers.Peer(name, command, environment=own, fresh=output) for name, (_, command) in ways.items()]
        outputs, moved = peers.Outputs(), {}
        for program in programs:
            before = written()
            outputs.check(program, "pages", answer(program.run()))
            moved[program.name] = written() - before
            program.walls.clear()
        peers.in_turn(programs, options.rounds, lambda: peers.warm_file("access.log"),
                      lambda program: outputs.check(program, "pages", answer(program.said)))
        began = time.monotonic()
        peers.warm_file("access.log")
        floor = time.monotonic() - began
    rows = [[name, lines_of(source), moved[name], f"{peers.wall(program):.3f}"] for (name, (source, _)), program in zip(ways.items(), programs)]
    print(f"{'':24} {'lines':>6} {'bytes written':>14} {'wall s':>8}   floor {floor:.3f} s")
    for name, lines, size, wall in rows:
        print(f"{name:24} {lines:6} {size:14} {wall:>8}")
    if table:
        with open(table, "w", newline="") as file:
            csv.writer(file).writerows([["way", "lines", "bytes_written", "wall_s"], *rows])
    return 0 if outputs.are_equal else 1


sys.exit(main())
