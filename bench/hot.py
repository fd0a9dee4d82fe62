#!/usr/bin/env python3
"""A hot key, shared and whole: wall time, the longest reduce, outputs compared; two processes.

Usage: hot.py BUILD/bench [--records N] [--percent P] [--partitions R] [--rounds K] [--folder WORK]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import peers


def spans(folder):
    """Stage -> durations of its tasks in seconds; and from the first to the last of all but maps."""
    tasks, begin, end = {}, [], []
    with open(os.path.join(folder, "trace.json")) as file:
        for event in json.load(file)["traceEvents"]:
            if event["ph"] == "X":
                tasks.setdefault(event["name"], []).append(event["dur"] / 1e6)
                if event["name"] != "map":
                    begin.append(event["ts"] / 1e6)
                    end.append((event["ts"] + event["dur"]) / 1e6)
    return tasks, max(end) - min(begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--records", type=int, default=10000000)
    parser.add_argument("--percent", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kind", default="sets,combined")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".hot-", dir=options.folder) as work:
        return measure(options, work)


def measure(options, work):
    program, data = os.path.join(options.build, "bench_hot"), os.path.join(work, "input")
    subprocess.run([program, "make", data, str(options.records), str(options.percent)], check=True)
    all_same = True
    for kind in options.kind.split(","):
        runs = []
        for how in ("whole", "shared"):
            folder = os.path.join(work, how)
            outputs = [os.path.join(folder, "out", f"part-{i:05}") for i in range(options.partitions)]
            runs.append((peers.Peer(f"{kind}, {how}", [program, kind, how, str(options.partitions), data, folder], outputs, fresh=folder), [], []))
        for _ in range(options.rounds):
            for peer, longest, phase in runs:
                peers.warm_file(data)
                peer.run()
                tasks, seconds = spans(peer.fresh)
                longest.append(max(tasks["reduce"] + tasks.get("hot key", [])))
                phase.append(seconds)
        is_same = peers.digest(runs[0][0].outputs) == peers.digest(runs[1][0].outputs)
        all_same = all_same and is_same
        for peer, longest, phase in runs:
            tasks, _ = spans(peer.fresh)
            print(f"{peer.name}: wall {statistics.median(peer.walls):.3f} s, CPU {statistics.median(peer.cpus):.3f}, reduces "
                  f"{statistics.median(phase):.3f}, the longest {statistics.median(longest):.3f}; "
                  f"last: {', '.join(f'{stage} {max(of):.3f}' for stage, of in tasks.items())}")
        print(f"outputs {'equal' if is_same else 'DIFFER'}, {sum(map(os.path.getsize, runs[0][0].outputs))} bytes")
    return 0 if all_same else 1


sys.exit(main())
