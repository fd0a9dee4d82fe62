#!/usr/bin/env python3
"""Jobs on a cluster of one daemon beside the same at home, with encryption and without, in turn.

Usage: cluster.py BUILD/bench [--size 64] [--rounds 3] [--rows words,empty,cohort,many] [--disk FOLDER] [--csv FILE]
words: word count of SIZE MiB; empty: of 100 bytes, one job behind the other, so that what the last one leaves to be done (processes that
end, one that is started ahead) takes its part of the cores, and rested: once nothing is left to do; one slot beside one process. cohort: five vertices joined by FIFOs that run at once
(examples/popular.c), of a small log and of a large one, five slots beside five processes. many: 100 empty jobs one after the other (the
first and the last ten) and all at once (a job of them), four slots beside four processes at home.
Name server and daemon run on loopback, folders in a tmpfs of its own (root mounts it) or in /tmp; --disk: the name server's table, the
daemon's folder and outputs are there. Times are of the whole command: the program, or `gyre job submit` from its start to the job's end.
The program is shipped once, before the first round.
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


REST_SECONDS = 0.2


class Cluster:
    def __init__(self, gyre, folder, key, slots):
        self.way = ["--key", key] if key else ["--plaintext"]
        self.started = []
        port = os.path.join(folder, "port")
        self.start([gyre, "nameserver", "--listen", "127.0.0.1:0", "--table", f"sqlite:{folder}/table", "--port-file", port], folder)
        self.names = self.wait_for(port)
        self.way = ["--nameservers", self.names] + self.way
        self.start([gyre, "daemon", "--nameservers", self.names, "--listen", "127.0.0.1:0", "--work-folder", f"{folder}/daemon",
                    "--slots", str(slots)], folder)
        end = time.monotonic() + 20
        while b" up " not in subprocess.run([gyre, "cluster", "list"] + self.way, stdout=subprocess.PIPE).stdout:
            if time.monotonic() > end:
                sys.exit("cluster.py: the daemon does not come up")
            time.sleep(0.05)

    def start(self, command, folder):
        way = [word for word in self.way if word not in ("--nameservers",)]
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


def timed(command, output, rest=0):
    shutil.rmtree(output, ignore_errors=True)
    time.sleep(rest)
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def write_words(path, size):
    words = [f"word{random.randrange(1 << 16)}" for _ in range(1 << 16)]
    line = " ".join(words) + "\n"
    with open(path, "w") as file:
        while file.tell() < size:
            file.write(line)


def write_log(path, lines):
    with open(path, "w") as file:
        for _ in range(lines):
            file.write(f'127.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET /page/{min(random.randrange(20000), random.randrange(20000))} '
                       'HTTP/1.1" 200 4711\n')


class Bench:
    """Clusters of one kind, and what is run at each of them and at home."""

    def __init__(self, options, folder, slots):
        self.options = options
        self.folder = folder
        self.gyre = os.path.abspath(os.path.join(options.build, "gyre"))
        self.slots = slots
        self.clusters = {}
        self.rows = []

    def __enter__(self):
        key = os.path.join(self.folder, "key")
        if not os.path.exists(key):
            subprocess.run([self.gyre, "key", "new", key], stdout=subprocess.DEVNULL, check=True)
        try:
            for name in ("plain", "tls"):
                folder = os.path.join(self.folder, f"{name}-{self.slots}")
                os.mkdir(folder)
                self.clusters[name] = Cluster(self.gyre, folder, key if name == "tls" else None, self.slots)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for cluster in self.clusters.values():
            cluster.stop()

    def output(self, name):
        return os.path.join(self.folder, "out-" + name)

    def command(self, name, words):
        """The words of a program, OUTPUT and PROCESSES filled in, at home or as a job."""
        words = [self.output(name) if word == "OUTPUT" else word for word in words]
        if name == "home":
            return [str(self.slots) if word == "PROCESSES" else word for word in words]
        while "PROCESSES" in words:  # slots say how many
            at = words.index("PROCESSES")
            del words[at - 1:at + 1]
        return [self.gyre, "job", "submit"] + self.clusters[name].way + ["--"] + words

    def compare(self, part):
        home = self.output("home")
        for name in self.clusters:
            for file in os.listdir(home):
                if file.startswith(part) and not filecmp.cmp(os.path.join(home, file), os.path.join(self.output(name), file), False):
                    sys.exit(f"cluster.py: {file} of {name} differs")

    def row(self, job, times):
        self.rows.append((job, {name: statistics.median(of) for name, of in times.items()}))

    def in_turn(self, job, words, part, rounds, rest=0):
        names = ["home"] + list(self.clusters)
        times = {name: [] for name in names}
        for name in names:
            timed(self.command(name, words), self.output(name))  # shipped
        for _ in range(rounds):
            for name in names:
                times[name].append(timed(self.command(name, words), self.output(name), rest))
        self.compare(part)
        self.row(job, times)

    def many(self, words, count):
        names = ["home"] + list(self.clusters)
        first, last, at_once = {}, {}, {}
        for name in names:
            timed(self.command(name, words), self.output(name))
            times = [timed(self.command(name, words), self.output(name)) for _ in range(count)]
            first[name], last[name] = times[:10], times[-10:]
            outputs = [f"{self.output(name)}-{i}" for i in range(count)]
            for output in outputs:
                shutil.rmtree(output, ignore_errors=True)
            began = time.monotonic()
            started = [subprocess.Popen([output if word == self.output(name) else word for word in self.command(name, words)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for output in outputs]
            if any(one.wait(120) != 0 for one in started):
                sys.exit(f"cluster.py: {name}: a job of {count} failed")
            at_once[name] = [(time.monotonic() - began) / count]
        self.row("first", first)
        self.row("last", last)
        self.row("once", at_once)


def measure(options, folder):
    empty, words = os.path.join(folder, "empty"), os.path.join(folder, "words")
    rows = []
    write_words(empty, 1)
    os.truncate(empty, 100)
    gyre = os.path.abspath(os.path.join(options.build, "gyre"))

    def count(path):
        return [gyre, "mr", "wordcount", path, "-p", "PROCESSES", "-o", "OUTPUT"]

    if "words" in options.rows or "empty" in options.rows:
        with Bench(options, folder, 1) as bench:
            if "words" in options.rows:
                write_words(words, options.size << 20)
                bench.in_turn("words", count(words), "part", options.rounds)
            if "empty" in options.rows:
                bench.in_turn("empty", count(empty), "part", options.rounds * 5)
                bench.in_turn("rested", count(empty), "part", options.rounds * 5, REST_SECONDS)
        rows += bench.rows
    if "cohort" in options.rows:
        popular = os.path.abspath(os.path.join(options.build, "bench", "bench_popular"))
        with Bench(options, folder, 5) as bench:
            for job, lines in (("small", 100), ("large", 200000)):
                log = os.path.join(folder, job)
                write_log(log, lines)
                bench.in_turn(job, [popular, log, "OUTPUT"], "top", options.rounds * 3)
        rows += bench.rows
    if "many" in options.rows:
        with Bench(options, folder, 4) as bench:
            bench.many(count(empty), 100)
        rows += bench.rows
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="words,empty")
    parser.add_argument("--disk")
    parser.add_argument("--csv")
    options = parser.parse_args()
    options.rows = options.rows.split(",")
    random.seed(1)
    with tempfile.TemporaryDirectory(dir=options.disk) if options.disk else own_folder() as folder:
        rows = measure(options, folder)
    for job, row in rows:
        for name, seconds in row.items():
            print(f"{job:6} {name:6} {seconds * 1000:9.1f} ms  {seconds / row['home']:.2f} of home")
        if job == "words":
            print(f"words: encryption costs {(row['tls'] / row['plain'] - 1) * 100:.1f} %")
    if options.csv:
        with open(options.csv, "a") as file:
            for job, row in rows:
                for name, seconds in row.items():
                    file.write(f"cluster,{job},{name},{seconds:.6f}\n")


if __name__ == "__main__":
    main()
