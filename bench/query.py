#!/usr/bin/env python3
"""Queries beside DuckDB: the rows of "as fast as" for queries, in turn, answers compared, with their bars.

Usage: query.py BUILD/bench --python PROGRAM [--rounds 5] [--rows NAME,...] [--scale 1] [--rows-millions 30] [--workers 2] [--folder WORK]
                [--results FOLDER]
Rows: tpch (ten queries, unmodified), pages (five most popular pages of a log of 1 GB), groups (10 M keys of 30 M rows), join (30 M rows with 1 M), hot (one key has half of the rows,
one worker against several), memory (a tenth of the data). PROGRAM is a python with duckdb, which makes the data. Both read the same
CSV files; DuckDB has the fastest of its forms: types that it finds and types that are given. The floor is what reading the bytes
of the files once takes.
"""
import argparse
import csv
import json
import os
import shutil
import signal
import sys
import tempfile
import time

import peers

NUMBERS = (1, 3, 4, 6, 9, 12, 13, 14, 16, 18)
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
BAR = 1.5
LAYOUT = """
import duckdb, sys
database = duckdb.connect()
database.execute(sys.argv[1])
"""


def in_duckdb(options, text):
    peers.call([options.python, "-c", LAYOUT, text])


def described(options, path):
    """The types of a file's columns, as DuckDB takes them."""
    code = "import duckdb, json, sys; print(json.dumps(duckdb.sql(f\"describe select * from read_csv('{sys.argv[1]}')\").fetchall()))"
    columns = json.loads(peers.call([options.python, "-c", code, path]))
    return "{" + ", ".join(f"'{column[0]}': '{column[1]}'" for column in columns) + "}"


def forms(options, tables, query):
    """Forms of a query: its tables as views over their files, with types that DuckDB finds, and with types that are given."""
    made = []
    for is_given in (False, True):
        views = []
        for name, path in tables.items():
            how = f", columns={described(options, path)}, auto_detect=false, header=true, delim=',', quote='\"'" if is_given else ""
            views.append(f"create or replace view {name} as select * from read_csv('{path}'{how})")
        made.append(";\n".join([*views, query]))
    return made


def floor(paths):
    """Seconds of reading the bytes of files that lie in memory."""
    began = time.monotonic()
    for path in paths:
        peers.warm_file(path)
    return time.monotonic() - began


def gyre(options, work, name, text, workers, memory=None):
    path = os.path.join(work, f"{name.replace(' ', '-')}.sql")
    with open(path, "w") as file:
        file.write(text)
    command = [os.path.join(options.build, "..", "gyre"), "query", "--file", path, "--tables", work, "--format", "csv",
               "--workers", str(workers), *(["--memory", str(memory)] if memory else [])]
    return peers.Peer(name, command, environment={"TMPDIR": work})


def rows_of(said):
    """An answer as rows whose order counts where the query gives one; numbers to seven digits: DuckDB adds doubles in any order."""
    def value(text):
        try:
            return f"{float(text):.7g}"
        except (TypeError, ValueError):
            return "" if text is None else str(text)
    rows = list(csv.reader(said.decode().splitlines()))[1:] if isinstance(said, bytes) else said
    return [[value(one) for one in row] for row in rows]


def beside(options, work, report, what, tables, text):
    """One query by both, in turn; what Gyre's and DuckDB's medians are."""
    one = gyre(options, work, f"gyre {what}", text, options.workers)
    other = peers.Database(f"DuckDB {what}", options.python, forms(options, tables, text), options.workers)
    outputs = peers.Outputs()
    paths = list(tables.values())
    peers.in_turn([one, other], options.rounds, lambda: [peers.warm_file(path) for path in paths],
                  lambda peer: outputs.check(peer, what, rows_of(peer.said)))
    report.equal(what, outputs)
    return peers.wall(one), peers.wall(other)


def measure_tpch(options, work, report):
    maker = os.path.join(os.path.dirname(__file__), "..", "tests", "system", "tpch.py")
    peers.call([options.python, maker, "make", work, str(options.scale), *map(str, NUMBERS)])
    tables = {name: os.path.join(work, f"{name}.csv") for name in TABLES}
    lines, ours, theirs = [], 0, 0
    for number in NUMBERS:
        with open(os.path.join(work, f"{number}.sql")) as file:
            text = file.read()
        used = {name: path for name, path in tables.items() if name in text}
        one, other = beside(options, work, report, f"Q{number}", used, text)
        print(f"TPC-H {number:2}  gyre {one:7.3f} s  DuckDB {other:7.3f} s  {one / other:5.2f}", flush=True)
        lines.append([number, f"{one:.4f}", f"{other:.4f}"])
        ours, theirs = ours + one, theirs + other
    report.write("query_tpch.csv", ["query", "gyre_s", "duckdb_s"], lines)
    report.row(f"TPC-H at scale {options.scale:g}, ten queries, of DuckDB's time", ours / theirs, BAR, floor=floor(tables.values()) / theirs)


def make_pair(options, work, rows, keys, is_hot=False):
    """Rows with keys in no order, and a row a key."""
    key = f"(i * 2654435761) % {keys}"
    key = f"case when i % 2 = 0 then 7 else {key} end" if is_hot else key
    paths = {name: os.path.join(work, f"{name}.csv") for name in ("facts", "names")}
    in_duckdb(options, f"copy (select {key} k, i % 1000 v from range({rows}) t(i)) to '{paths['facts']}' (header true);"
                       f"copy (select i k, i % 97 w from range({keys}) t(i)) to '{paths['names']}' (header true)")
    return paths


def measure_groups(options, work, report):
    rows = options.rows_millions * 10**6
    paths = make_pair(options, work, rows, rows // 3)
    text = "select count(*), sum(s), max(n) from (select k, sum(v) s, count(*) n from facts group by k) t"
    one, other = beside(options, work, report, "groups", {"facts": paths["facts"]}, text)
    report.row(f"groups: {rows // 3} keys of {rows} rows, of DuckDB's time", one / other, BAR, floor=floor([paths["facts"]]) / other)


def measure_join(options, work, report):
    rows = options.rows_millions * 10**6
    paths = make_pair(options, work, rows, rows // 30)
    text = "select count(*), sum(v * w) from facts join names on facts.k = names.k"
    one, other = beside(options, work, report, "join", paths, text)
    report.row(f"join: {rows} rows with {rows // 30}, of DuckDB's time", one / other, BAR, floor=floor(paths.values()) / other)


def measure_pages(options, work, report):
    rows = options.rows_millions * 10**6 // 3
    path = os.path.join(work, "log.csv")
    in_duckdb(options, f"copy (select (i * 7919) % 254 || '.' || (i * 104729) % 251 || '.10.' || i % 250 as client, "
                       f"timestamp '2024-05-01' + to_milliseconds(i * 37) as at, "
                       f"'/shop/' || floor(sqrt((i * 2654435761) % 1000000007))::int as page, "
                       f"case when i % 17 = 0 then 404 else 200 end as status, (i * 48271) % 65536 as size, "
                       f"'Mozilla/5.0 (X11; Linux x86_64)' as agent from range({rows}) t(i)) to '{path}' (header true)")
    text = "select page, count(*) n from log group by page order by n desc, page limit 5"
    one, other = beside(options, work, report, "pages", {"log": path}, text)
    report.row(f"pages: {os.path.getsize(path) / 1e9:.2f} GB of a log, of DuckDB's time", one / other, 1, floor=floor([path]) / other)


def measure_hot(options, work, report):
    rows = options.rows_millions * 10**6
    paths = make_pair(options, work, rows, rows // 30, is_hot=True)
    text = "select count(*) from facts join names on facts.k = names.k"
    alone, several = (gyre(options, work, f"gyre {n} workers", text, n) for n in (1, options.workers))
    outputs = peers.Outputs()
    peers.in_turn([alone, several], options.rounds, lambda: [peers.warm_file(path) for path in paths.values()],
                  lambda peer: outputs.check(peer, "hot", rows_of(peer.said)))
    report.equal("hot", outputs)
    report.row(f"join of a key with half of {rows} rows, {options.workers} workers", peers.wall(alone) / peers.wall(several), BAR,
               "times", is_most=False, floor=floor(paths.values()) / peers.wall(several))


def measure_memory(options, work, report):
    """Anonymous memory under a tenth of the data: 25 columns, of which no two rows are alike, are grouped, and all groups come."""
    rows = options.rows_millions * 10**5
    names = [f"k{k}" for k in range(25)]
    values = ["i k0", *(f"(i * {7919 + 2 * k} + {k}) % 100000 k{k}" for k in range(1, 25))]
    in_duckdb(options, f"copy (select {', '.join(values)} from range({rows}) t(i)) to '{work}/facts.csv' (header true)")
    budget, base = rows * len(names) * 8 // 10, 24 << 20
    text = f"select {', '.join(names)}, count(*) from facts group by {', '.join(names)}"
    one = gyre(options, work, "gyre in a tenth", text, options.workers, budget)
    answer = os.path.join(work, "answer.csv")  # not a pipe, which nobody reads while memory is watched
    one.command += ["--output", answer]
    one.run(watched=True)
    with open(answer, "rb") as file:
        lines = sum(1 for _ in file)
    report.row(f"groups of {rows} rows in {budget / 1e6:.0f} MB: rows that come", lines - 1, rows, is_most=False)
    report.row("the same: anonymous memory but 24 MiB, of the budget", (one.memory - base) / budget, 1.1)


ROWS = {"tpch": measure_tpch, "pages": measure_pages, "groups": measure_groups, "join": measure_join, "hot": measure_hot, "memory": measure_memory}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rows-millions", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder")
    parser.add_argument("--results")
    options = parser.parse_args()
    rows = options.rows.split(",")
    if not set(rows) <= set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(set(rows) - set(ROWS)))}")
    peers.stop_with_cleaning()
    report = peers.Report(options.results, "query.csv")
    with tempfile.TemporaryDirectory(prefix=".gyre-bench-", dir=options.folder) as work:
        for row in rows:
            print(f"-- {row}", flush=True)
            own = os.path.join(work, row)
            os.mkdir(own)
            ROWS[row](options, own, report)
            shutil.rmtree(own)
    return 0 if report.end() else 1


try:
    sys.exit(main())
except KeyboardInterrupt:  # end as programs do that know nothing of signals: a script around this one ends too
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
