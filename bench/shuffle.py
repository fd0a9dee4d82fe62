#!/usr/bin/env python3
"""A shuffle of many small sections between three daemons: word count of MAPS files into REDUCES parts, each map's output for a reduce some
KiB, so that what is measured are the messages and transfers, not the bytes. Several builds take turns.

Usage: shuffle.py BUILD/bench [BUILD/bench ...] [--maps 200] [--reduces 50] [--kib 160] [--rounds 3] [--tls]
KIB is of one file. Name server and daemons (two slots each) run on loopback, folders in TMPDIR. Times are of the whole command `gyre job
submit`; the program is shipped before the first round.
"""
import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile

from cluster import Cluster, timed


class Three(Cluster):
    def __init__(self, gyre, folder, key):
        self.more = [(gyre, folder, i) for i in range(1, 3)]
        super().__init__(gyre, folder, key)

    def start(self, command, folder):
        if command[1] == "daemon":
            command = command[:-1] + ["2", "--hostname", "h0"]
        super().start(command, folder)
        while command[1] == "daemon" and self.more:
            gyre, folder, i = self.more.pop()
            super().start([gyre, "daemon", "--nameservers", self.names, "--listen", "127.0.0.1:0", "--work-folder", f"{folder}/daemon{i}",
                           "--slots", "2", "--hostname", f"h{i}"], folder)


def write_inputs(folder, count, size):
    words = [f"word{number}" for number in range(200000)]
    for i in range(count):
        with open(os.path.join(folder, f"in{i:04}"), "w") as file:
            while file.tell() < size:
                file.write(" ".join(random.choices(words, k=500)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+")
    parser.add_argument("--maps", type=int, default=200)
    parser.add_argument("--reduces", type=int, default=50)
    parser.add_argument("--kib", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    random.seed(1)
    clusters = []
    with tempfile.TemporaryDirectory() as folder:  # not /dev/shm: processes of jobs have one of their own
        inputs = os.path.join(folder, "inputs")
        os.mkdir(inputs)
        write_inputs(inputs, options.maps, options.kib << 10)
        try:
            for i, build in enumerate(options.builds):
                gyre, own = os.path.abspath(os.path.join(build, "gyre")), os.path.join(folder, f"cluster{i}")
                os.mkdir(own)
                key = os.path.join(own, "key")
                subprocess.run([gyre, "key", "new", key], stdout=subprocess.DEVNULL, check=True)
                cluster = Three(gyre, own, key if options.tls else None)
                clusters.append(cluster)
                cluster.command = [gyre, "job", "submit"] + cluster.way + ["--", gyre, "mr", "wordcount", inputs, "--split", str((options.kib + 8) << 10),
                                                                          "-r", str(options.reduces)]
                timed(cluster.command, os.path.join(folder, f"out{i}"))  # shipped
            times = [[] for _ in clusters]
            for _ in range(options.rounds):
                for i, cluster in enumerate(clusters):
                    times[i].append(timed(cluster.command, os.path.join(folder, f"out{i}")))
            for i in range(1, len(clusters)):
                if subprocess.run(["diff", "-r", "-x", "MANIFEST.json", os.path.join(folder, "out0"),
                                   os.path.join(folder, f"out{i}")]).returncode != 0:
                    sys.exit("shuffle.py: the builds' outputs differ")
        finally:
            for cluster in clusters:
                cluster.stop()
    for build, of in zip(options.builds, times):
        print(f"{options.maps} maps, {options.reduces} reduces, {'TLS' if options.tls else 'plain'}, {build}: "
              f"{statistics.median(of) * 1000:.0f} ms ({', '.join(f'{one * 1000:.0f}' for one in of)})")


if __name__ == "__main__":
    main()
