#!/usr/bin/env python3
"""The five most popular pages of a log: Gyre's kernels and its job (no file between its stages) beside
DuckDB and the floor (every byte looked at), in turn.

Usage: log.py BUILD/bench [--lines N] [--pages P] [--python PROGRAM] [--rounds R] [--folder WORK]
PROGRAM is a python with duckdb. DuckDB's time is of its queries alone, without its start; the best of two formulations counts.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import peers

COLUMNS = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(10))
READ = "read_csv('{path}', delim='{by}', header=false, quote='', escape='', auto_detect=false, columns={{{columns}}})"
DUCKDB = f'''
import duckdb, sys, time
path, rounds = sys.argv[1], int(sys.argv[2])
one, ten = {READ!r}.format(path=path, by="\\x01", columns="'l': 'VARCHAR'"), {READ!r}.format(path=path, by=" ", columns={COLUMNS!r})
queries = [f"select c6 p, count(*) c from {{ten}} group by p", f"select split_part(l, ' ', 7) p, count(*) c from {{one}} group by p"]
database = duckdb.connect()
database.execute("set threads = 2; set preserve_insertion_order = false")
for line in sys.stdin:
    best = None
    for query in queries:
        began = time.monotonic()
        rows = database.execute(query + " order by c desc, p limit 5").fetchall()
        took = time.monotonic() - began
        best = took if best is None else min(best, took)
    print(best, *[f"{{count}}\\t{{page}}" for page, count in rows], sep="|", flush=True)
'''


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--lines", type=int, default=10_600_000)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".log-", dir=options.folder) as work:
        return measure(options, work)


def measure(options, work):
    bench, log = os.path.join(options.build, "bench_log"), os.path.join(work, "log")
    if os.system(f"{bench} make {log} {options.lines} 7 {options.pages}") != 0:
        sys.exit("the log cannot be made")
    gyre = peers.Peer("gyre, 2 threads", [bench, "top", log, "2", "5"], [])
    folder = os.path.join(work, "job")
    job = peers.Peer("gyre, a job", [os.path.join(options.build, "bench_jobs"), "top", log, folder], [], fresh=folder)
    floor = peers.Peer("floor: scan", [bench, "scan", log, "2", "5"], [])
    duckdb = peers.Peer("DuckDB, 2 threads", [], [])
    database = subprocess.Popen([options.python, "-c", DUCKDB, log, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    is_same = True
    for _ in range(options.rounds):
        peers.warm_file(log)
        floor.run()
        rows = gyre.run().decode().splitlines()
        job.run()
        with open(os.path.join(folder, "out", "part-00000")) as file:
            of_job = [f"{count}\t{page}" for page, count in (line.split() for line in file)]
        database.stdin.write("\n")
        database.stdin.flush()
        took, *theirs = database.stdout.readline().strip().split("|")
        duckdb.walls.append(float(took))
        duckdb.cpus.append(0)
        is_same = is_same and rows == theirs and of_job == theirs
    database.stdin.close()
    database.wait(timeout=20)
    peers.table([floor, gyre, job, duckdb], duckdb)
    print(f"{options.lines} lines, {os.path.getsize(log)} bytes: a job {peers.ratio(job, duckdb):.2f} times DuckDB (bar 1.0), "
          f"outputs {'equal' if is_same else 'DIFFER'}")
    print(*rows, sep="\n")
    return 0 if is_same else 1


sys.exit(main())
