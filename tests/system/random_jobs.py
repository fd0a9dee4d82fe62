#!/usr/bin/env python3
"""Random queries over random tables: as jobs of 1, 2 and 4 processes, over pieces of files, they give the bytes of one process.

usage: random_jobs.py GYRE FOLDER SEED COUNT
"""

import subprocess
import sys

from random_queries import CHANCE, COUNT, FOLDER, GYRE, SEED, make_tables, query

DIRECTIONS = ["", " desc", " nulls first", " desc nulls last"]


def ask(text, *options):
    done = subprocess.run([GYRE, "query", "--tables", FOLDER, "--format", "csv", *options, text], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def main():
    failed = answered = 0
    for i in range(COUNT):
        if i % 10 == 0:
            make_tables()
        text = query()
        if CHANCE.random() < 0.2:
            text = f"select * from ({text}) as q{' limit 7 offset 2' if CHANCE.random() < 0.5 else ''}"
        if CHANCE.random() < 0.4:
            text = f"select * from ({text}) as o order by 1{CHANCE.choice(DIRECTIONS)}{CHANCE.choice(['', '', ' limit 40 offset 3'])}"
        wanted = ask(text, "-w", "1")
        split = CHANCE.choice(["64", "256", "4096", "16MiB"])
        answered += wanted[0] == 0
        for processes in CHANCE.sample(["1", "2", "4"], 2):
            got = ask(text, "--processes", processes, "--split", split)
            if got != wanted:
                print(f"seed {SEED}, query {i}: {text}\n{processes} processes, pieces of {split}: {got}\none process: {wanted}\n")
                failed += 1
    print(f"{COUNT - failed} of {COUNT} queries have the same bytes as jobs, {answered} of them have an answer")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
