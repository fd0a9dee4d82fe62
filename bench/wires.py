#!/usr/bin/env python3
"""Allreduce over TCP on loopback: Gyre beside Open MPI, MPICH and gloo, in turn inside one process.

Usage: wires.py BUILD/bench [--csv FILE] [--seconds S] [--ranks 2,4]
Runs bench_wires_LIBRARY with each library's settings, prints its tables and the worst ratio of each size beside its bar.
The CSV appears whole when all runs have ended, or not at all.
"""
import argparse
import csv
import os
import subprocess
import sys
import tempfile

LONGEST_S = 180  # of a run; the longest one takes 100 s here
MOST_BYTES = 64 << 20
# Peer's time over Gyre's; (ranks, bytes).
BARS = {(2, 8): 1.1, (2, 65536): 1.25, (2, 64 << 20): 1.1, (4, 8): 1.5, (4, 65536): 1.5}
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
            "--mca", "btl_tcp_if_include", "lo"]
RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]
# Name, program's suffix, launcher, smallest size. The ring beats the library's own choice for long vectors only.
PEERS = [("openmpi", "openmpi", OPEN_MPI, 0),
         ("openmpi ring", "openmpi", OPEN_MPI + RING, 1 << 20),
         ("mpich", "mpich", ["mpiexec.mpich"], 0)]
# MPICH goes over TCP between ranks of one host only when told so.
SETTINGS = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}


def binding(library, ranks):
    if ranks > os.cpu_count():
        return ["--bind-to", "none"] if library == "openmpi" else []
    return ["--bind-to", "core"] if library == "openmpi" else ["-bind-to", "core"]


def run(options, ranks, peer, part):
    name, library, launcher, least = peer
    program = os.path.join(options.folder, f"bench_wires_{library}")
    if not os.path.exists(program):
        print(f"{name} is left out: no {program}")
        return
    command = launcher + binding(library, ranks) + ["-n", str(ranks), program, "--name", name, "--seconds",
                                                    str(options.seconds), "--least", str(least), "--csv", part]
    finish(name, ranks, part, subprocess.Popen(command, env={**os.environ, **SETTINGS}, stdin=subprocess.DEVNULL))


def finish(name, ranks, part, process):
    """Wait for a run. MPICH over UCX's tcp hangs in MPI_Finalize at times: what was measured is kept, and that is said."""
    try:
        status = process.wait(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher ends its ranks
        process.wait(timeout=20)
        rows = csv.DictReader(open(part)) if os.path.exists(part) else []
        sizes = [row["bytes"] for row in rows if (row["library"], row["ranks"]) == (name, str(ranks))]
        if str(MOST_BYTES) not in sizes:
            sys.exit(f"{name}, {ranks} ranks: no end after {LONGEST_S} s, measured were {', '.join(sizes) or 'no'} bytes")
        print(f"{name}, {ranks} ranks: all was measured, but the processes did not end within {LONGEST_S} s")
        return
    if status != 0:
        sys.exit(f"{name}, {ranks} ranks: ended with status {status}")


def ratio(row):
    peers = [float(row[name]) for name in ("mpi_us", "gloo_us") if float(row[name]) > 0]
    return min(peers) / float(row["gyre_us"])


def judge(path):
    worst = {}
    for row in csv.DictReader(open(path)):
        key = int(row["ranks"]), int(row["bytes"])
        worst[key] = min(worst.get(key, (9e9, "")), (ratio(row), row["library"]))
    print(f"{'ranks':>5} {'bytes':>9} {'ratio':>6} {'bar':>5}")
    for (ranks, size), (value, name) in sorted(worst.items()):
        bar = BARS.get((ranks, size))
        verdict = "" if bar is None else f"{bar:5.2f} " + ("met" if value >= bar else "MISSED")
        print(f"{ranks:5} {size:9} {value:6.2f} {verdict} (beside {name}, gloo)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--csv")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each size")
    parser.add_argument("--ranks", default="2,4")
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(options.csv)) if options.csv else None
    with tempfile.TemporaryDirectory(dir=folder, prefix=".wires-") as work:
        part = os.path.join(work, "tcp.csv")
        for ranks in map(int, options.ranks.split(",")):
            for peer in PEERS:
                run(options, ranks, peer, part)
        if not os.path.exists(part):
            sys.exit("nothing was measured: is libgloo-dev there? (scripts/deps bench)")
        judge(part)
        if options.csv:
            os.replace(part, options.csv)


if __name__ == "__main__":
    main()
