#!/usr/bin/env python3
"""A job on a cluster of one daemon with one slot beside the same job at home with one process: word count of many bytes and a job of
next to nothing, with encryption and without, in turn.

Usage: cluster.py BUILD/bench [--size 64] [--rounds 3] [--csv FILE]
SIZE is in MiB. Name server and daemon run on loopback, folders in a tmpfs of its own (root mounts it) or in /tmp. Times are of the whole command: `gyre mr`, or `gyre job
submit` from its start to the job's end. The program is shipped once, before the first round.
"""
import argparse
import contextlib
import filecmp
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started goes, too


class Cluster:
    def __init__(self, gyre, folder, key):
        self.way = ["--key", key] if key else ["--plaintext"]
        self.started = []
        port = os.path.join(folder, "port")
        self.start([gyre, "nameserver", "--listen", "127.0.0.1:0", "--table", f"sqlite:{folder}/table", "--port-file", port], folder)
        self.names = self.wait_for(port)
        self.way = ["--names", self.names] + self.way
        self.start([gyre, "daemon", "--names", self.names, "--listen", "127.0.0.1:0", "--folder", f"{folder}/daemon", "--slots", "1"],
                   folder)
        end = time.monotonic() + 20
        while b" up " not in subprocess.run([gyre, "cluster", "list"] + self.way, stdout=subprocess.PIPE).stdout:
            if time.monotonic() > end:
                sys.exit("cluster.py: the daemon does not come up")
            time.sleep(0.05)

    def start(self, command, folder):
        way = [word for word in self.way if word not in ("--names",)]
        with open(f"{folder}/{command[1]}.log", "wb") as log:
            self.started.append(subprocess.Popen(command + way[-2:] if "--key" in way else command + ["--plaintext"], stdout=log,
                                                 stderr=log))

    def wait_for(self, path):
        end = time.monotonic() + 20
        while not os.path.exists(path):
            if time.monotonic() > end:
                sys.exit("cluster.py: the name server does not come up")
            time.sleep(0.01)
        with open(path) as file:
            return file.read().strip()

    def stop(self):
        for one in reversed(self.started):
            one.terminate()
            one.wait(30)


@contextlib.contextmanager
def own_folder():
    """In memory where that is possible, but not in /dev/shm: processes of jobs have another one."""
    with tempfile.TemporaryDirectory() as folder:
        is_mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder]).returncode == 0
        try:
            yield folder
        finally:
            if is_mounted:
                subprocess.run(["umount", folder], check=True)


def timed(command, output):
    shutil.rmtree(output, ignore_errors=True)
    began = time.monotonic()
    subprocess.run(command + ["-o", output], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def write_words(path, size):
    words = [f"word{random.randrange(1 << 16)}" for _ in range(1 << 16)]
    line = " ".join(words) + "\n"
    with open(path, "w") as file:
        while file.tell() < size:
            file.write(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv")
    options = parser.parse_args()
    gyre = os.path.abspath(os.path.join(options.build, "gyre"))
    random.seed(1)
    with own_folder() as folder:
        key = os.path.join(folder, "key")
        subprocess.run([gyre, "key", "new", key], stdout=subprocess.DEVNULL, check=True)
        clusters = {}
        try:
            for name in ("plain", "tls"):
                os.mkdir(os.path.join(folder, name))
                clusters[name] = Cluster(gyre, os.path.join(folder, name), key if name == "tls" else None)
            inputs = {"words": os.path.join(folder, "words"), "empty": os.path.join(folder, "empty")}
            write_words(inputs["words"], options.size << 20)
            write_words(inputs["empty"], 1)
            os.truncate(inputs["empty"], 100)
            rows = {}
            for job, path in inputs.items():
                home = [gyre, "mr", "wordcount", path, "-p", "1"]
                ways = {"home": home}
                for name, cluster in clusters.items():
                    ways[name] = [gyre, "job", "submit"] + cluster.way + ["--", gyre, "mr", "wordcount", path]
                    timed(ways[name], os.path.join(folder, "out-" + name))  # shipped
                times = {name: [] for name in ways}
                for _ in range(options.rounds if job == "words" else options.rounds * 5):
                    for name, command in ways.items():
                        times[name].append(timed(command, os.path.join(folder, "out-" + name)))
                for name in clusters:
                    for part in os.listdir(os.path.join(folder, "out-home")):
                        if part.startswith("part") and not filecmp.cmp(os.path.join(folder, "out-home", part),
                                                                       os.path.join(folder, "out-" + name, part), False):
                            sys.exit(f"cluster.py: {part} of {name} differs")
                rows[job] = {name: statistics.median(of) for name, of in times.items()}
        finally:
            for cluster in clusters.values():
                cluster.stop()
    for job, row in rows.items():
        for name, seconds in row.items():
            print(f"{job:6} {name:6} {seconds * 1000:9.1f} ms  {seconds / row['home']:.2f} of home")
    print(f"words: encryption costs {(rows['words']['tls'] / rows['words']['plain'] - 1) * 100:.1f} %")
    if options.csv:
        with open(options.csv, "a") as file:
            for job, row in rows.items():
                for name, seconds in row.items():
                    file.write(f"cluster,{job},{name},{seconds:.6f}\n")


if __name__ == "__main__":
    main()
