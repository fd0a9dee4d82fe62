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


def make_hot():
    """Tables h and s, whose keys have nulls and duplicates, and in h one or two that many rows have."""
    hot = [7, CHANCE.randint(0, 900)][: CHANCE.randint(1, 2)]
    for name, rows in (("h", CHANCE.choice([300, 3000, 3000])), ("s", CHANCE.choice([5, 1000, 1000]))):
        share = CHANCE.choice([0.3, 0.5, 0.9]) if name == "h" else 0.01
        with open(f"{FOLDER}/{name}.csv", "w", encoding="ascii") as file:
            file.write("k,x\n")
            for i in range(rows):
                key = CHANCE.choice(hot) if CHANCE.random() < share else CHANCE.randint(0, 900)
                file.write(f"{'' if CHANCE.random() < 0.1 else key},{i}\n")


def hot_query():
    sides = CHANCE.choice(["h {} s", "s {} h"]).format(CHANCE.choice(["join", "left join", "right join", "full join"]))
    more = CHANCE.choice(["", "", " and h.x % 3 = s.x % 3", " and h.x > s.x"])
    return CHANCE.choice([
        f"select h.x, s.x from {sides} on h.k = s.k{more}",
        f"select count(*), sum(h.x), max(s.x) from {sides} on h.k = s.k{more}",
        f"select h.k, count(*), sum(s.x) from {sides} on h.k = s.k{more} group by h.k",
        f"select {CHANCE.choice('hs')}.k, count(distinct h.x % 5), max(s.x) from {sides} on h.k = s.k{more} group by 1",
        f"select distinct {CHANCE.choice('hs')}.k from {sides} on h.k = s.k{more}",
        f"select h.x, q.n from h {CHANCE.choice(['join', 'left join', 'full join'])} (select k, count(*) as n from {CHANCE.choice('hs')} group by k) as q on h.k = q.k",
        f"select p.k, n, m from (select k, count(*) as n from h group by k) as p {CHANCE.choice(['join', 'left join', 'full join'])} "
        "(select k, max(x) as m from s group by k) as q on p.k = q.k",
        f"select t.x from h join s as t on h.k = t.k join s on s.k = h.k{more}",
        f"select x from {CHANCE.choice('hs')} where {CHANCE.choice(['', 'not '])}exists (select 1 from {CHANCE.choice('hs')} as o where o.k = k)",
    ])


def main():
    failed = answered = 0
    for i in range(COUNT):
        if i % 10 == 0:
            make_tables()
            make_hot()
        text = query() if CHANCE.random() < 0.6 else hot_query()
        if CHANCE.random() < 0.2:
            text = f"select * from ({text}) as q{' limit 7 offset 2' if CHANCE.random() < 0.5 else ''}"
        if CHANCE.random() < 0.4:
            text = f"select * from ({text}) as o order by 1{CHANCE.choice(DIRECTIONS)}{CHANCE.choice(['', '', ' limit 40 offset 3'])}"
        wanted = ask(text, "-w", "1")
        split = CHANCE.choice(["64", "256", "1024", "4096", "16MiB"])
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
