#!/usr/bin/env python3
"""Sorting of 100-byte records by 10-byte keys: Gyre (threads, a job in processes with its output synced, runs
as for what is emitted) beside GNU sort and the floor (a copy), in turn; outputs compared.

Usage: sort.py BUILD/bench [--records N] [--memory BYTES] [--heavy PER_CENT] [--rounds R] [--folder WORK]
With --memory the budget of both; without, GNU sort gets 3 GB. --heavy: so many records have one key. Files lie in a folder
of its own within WORK, which is removed.
"""
import argparse
import os
import sys
import tempfile

import peers

BARS = {False: 4.0, True: 2.0}  # GNU sort's wall over Gyre's: in memory, under a budget


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--heavy", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".sort-", dir=options.folder) as work:
        return measure(options, work)


def measure(options, work):
    bench, given = os.path.join(options.build, "bench_sort"), os.path.join(work, "input")
    if os.system(f"{bench} make {given} {options.records} 7 {options.heavy}") != 0:
        sys.exit("the input cannot be made")
    for name in ("gyre", "runs", "copy", "gnu", "job"):
        os.mkdir(os.path.join(work, name))
    def parts(name):
        return [os.path.join(work, name, f"part-{i:05}") for i in range(2)]
    budget = [f"{options.memory}"] if options.memory else []
    size = [f"-S{options.memory >> 10}K", "--batch-size=64"] if options.memory else ["-S3G"]
    out = os.path.join(work, "gnu", "out")
    gyre = peers.Peer("gyre, 2 threads", [bench, "sort", given, os.path.join(work, "gyre"), "2", *budget], parts("gyre"))
    runs = peers.Peer("gyre, by runs", [bench, "runs", given, os.path.join(work, "runs"), "2", f"{options.memory or 3 << 30}"], parts("runs"))
    folder = os.path.join(work, "job")
    job = peers.Peer("gyre, a job", [bench, "job", given, folder, "2", *budget], [os.path.join(folder, "out", f"part-{i:05}") for i in range(2)],
                     fresh=folder)
    copy = peers.Peer("floor: copy", [bench, "copy", given, os.path.join(work, "copy"), "2"], parts("copy"))
    gnu = peers.Peer("GNU sort", ["sort", "-s", "-k1.1,1.10", "--parallel=2", *size, given, "-o", out], [out],
                     {"LC_ALL": "C", "TMPDIR": work})
    everyone = [copy, gyre, job, runs, gnu]
    ours = (gyre, job, runs)
    for peer in ours:
        peer.run(watched=True)
    peers.in_turn(everyone, options.rounds, lambda: peers.warm_file(given))
    is_same = all(peers.same(peer.outputs, gnu.outputs) for peer in ours)
    peers.table(everyone, gnu)
    print(f"{options.records} records, {options.heavy} % of one key: a job {peers.ratio(job, gnu):.1f} times GNU sort "
          f"(bar {BARS[options.memory > 0]}), outputs {'equal' if is_same else 'DIFFER'}")
    for peer in ours if options.memory else ():
        print(f"{peer.name}: RssAnon + RssShmem {peer.memory} of {options.memory}: {peer.memory / options.memory:.3f}")
    return 0 if is_same else 1


sys.exit(main())
