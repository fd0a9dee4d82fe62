"""What the rows of bench/jobs.py share: programs run in turn, medians, memory while one runs, outputs compared, verdicts."""
import csv
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time


def end(process):
    """Kill a process that still runs, and all that it started."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def call(command):
    """Run a command to its end; what it started ends with this program."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    try:
        said = process.communicate()[0]
    finally:
        end(process)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with status {process.returncode}")
    return said


class Peer:
    """A program under test: how to run it, and what it writes. Times are of its last runs."""

    def __init__(self, name, command, outputs=(), environment=None, fresh=None):
        self.name, self.command, self.outputs = name, command, list(outputs)
        self.environment = {**os.environ, **(environment or {})}
        self.fresh = fresh  # a folder that is empty before each run
        self.walls, self.cpus, self.memory, self.said = [], [], 0, b""

    def clear(self):
        for path in self.outputs:
            if os.path.exists(path):
                os.unlink(path)
        if self.fresh is not None:
            shutil.rmtree(self.fresh, ignore_errors=True)
            os.mkdir(self.fresh)

    def run(self, watched=False):
        self.clear()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   start_new_session=True)
        try:
            while watched and process.poll() is None:
                self.memory = max(self.memory, anonymous_bytes(process.pid))
                time.sleep(0.005)
            self.said = process.communicate()[0]
            took = time.monotonic() - began
        finally:
            end(process)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode != 0:
            raise SystemExit(f"{self.name}: ended with status {process.returncode}")
        if not watched:
            self.walls.append(took)
            self.cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return self.said

    def close(self):
        """Nothing of a program is left when its run is over."""


DATABASE = r'''
import duckdb, json, resource, sys, time
threads, queries = int(sys.argv[1]), json.loads(sys.argv[2])
database = duckdb.connect()
database.execute(f"set threads = {threads}; set preserve_insertion_order = false; set enable_progress_bar = false")
def used():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
for line in sys.stdin:
    began, before = time.monotonic(), used()
    rows = database.execute(queries[int(line)]).fetchall()
    print(json.dumps([time.monotonic() - began, used() - before, rows], default=str), flush=True)
'''


class Database(Peer):
    """
    DuckDB in a process that lives through the comparison, so that neither its start nor its first use of memory counts; with
    the fastest of several forms of a query, found by two runs of each before the first that counts.
    """

    def __init__(self, name, python, queries, threads, outputs=()):
        super().__init__(name, [], outputs)
        self.process = subprocess.Popen([python, "-c", DATABASE, str(threads), json.dumps(queries)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.chosen = None
        self.count = len(queries)

    def ask(self, number):
        self.clear()
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed")
        return json.loads(line)

    def run(self, watched=False):
        if self.chosen is None:
            seconds = [min(self.ask(i)[0] for _ in range(2)) for i in range(self.count)]
            self.chosen = seconds.index(min(seconds))
        wall, cpu, rows = self.ask(self.chosen)
        self.walls.append(wall)
        self.cpus.append(cpu)
        self.said = rows
        return rows

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        finally:
            end(self.process)


def anonymous_bytes(pid):
    """RssAnon of a process and its children, 0 when it is gone. Mapped files of a tmpfs would be in RssShmem: left out."""
    total = 0
    try:
        with open(f"/proc/{pid}/status") as status:
            total += sum(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            total += sum(anonymous_bytes(int(child)) for child in children.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def digest(paths):
    """The hash of what files hold, one after the other."""
    state = hashlib.sha256()
    room = memoryview(bytearray(1 << 20))
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while size := file.readinto(room):
                state.update(room[:size])
    return state.hexdigest()


def sorted_digest(paths, work):
    """The hash of all lines, in order, whatever order they stand in."""
    script = 'LC_ALL=C sort -T "$0" --parallel=2 -S 1G "$@" | sha256sum'
    return call(["sh", "-c", script, work, *paths]).split()[0].decode()


class Memory:
    """
    What memory costs that nobody uses: a machine's host may have taken it back, and then its first touch takes several times as
    long. Each program is run on memory that was used before it, so that this is nobody's time, nor a gift of who ran before.
    """
    BYTES = 1 << 30
    costs = []  # ns a byte

    @staticmethod
    def touch(size):
        return float(call([sys.executable, os.path.join(os.path.dirname(__file__), "warm.py"), str(size)]))

    @classmethod
    def warm(cls):
        size = min(cls.BYTES, available_bytes() // 4) >> 12 << 12
        cls.costs.append(cls.touch(size))

    @classmethod
    def tell(cls):
        """Once: what it cost before the runs so far, and what it costs once more."""
        if cls.costs:
            used = cls.touch(64 << 20)
            print(f"-- memory: the first touch of what nobody used took {statistics.median(cls.costs):.2f} ns a byte "
                  f"({min(cls.costs):.2f} to {max(cls.costs):.2f}), that of what was used {used:.2f}", flush=True)
            cls.costs = []


def available_bytes():
    with open("/proc/meminfo") as memory:
        return next(int(line.split()[1]) << 10 for line in memory if line.startswith("MemAvailable:"))


def order_of(peers, turn):
    """Each turn another one first and, where there are more than two, other neighbours."""
    steps = [step for step in range(1, max(len(peers), 2)) if math.gcd(step, len(peers)) == 1]
    return [peers[(turn + i * steps[turn % len(steps)]) % len(peers)] for i in range(len(peers))]


def in_turn(peers, rounds, warm=None, after=None):
    """Run the peers in turn, `rounds` times, on memory that was used; `after` each run, with the peer."""
    try:
        for i in range(rounds):
            for peer in order_of(peers, i):
                if warm is not None:
                    warm()
                Memory.warm()
                peer.run()
                if after is not None:
                    after(peer)
    finally:
        for peer in peers:
            peer.close()
        Memory.tell()


class Outputs:
    """Compares what peers wrote: those of one group must agree in each of their runs."""

    def __init__(self):
        self.first, self.are_equal = {}, True

    def check(self, peer, group, value):
        name, seen = self.first.setdefault(group, (peer.name, value))
        if seen != value:
            print(f"{peer.name}: another output than {name}'s")
            self.are_equal = False


def warm_file(path):
    """Read a file once: what the machine dropped from its cache is nobody's time."""
    with open(path, "rb", buffering=0) as file:
        room = bytearray(1 << 20)
        while file.readinto(room):
            pass


def wall(peer):
    return statistics.median(peer.walls)


def cpu(peer):
    return statistics.median(peer.cpus)


class Report:
    """What was measured and how it stands against the bars."""

    def __init__(self, results, table="jobs.csv"):
        self.results = results  # folder for tables; None: none
        self.table = table  # of the rows
        self.rows = []

    def peers(self, name, peers, than):
        """Print and keep medians of wall and CPU seconds, and how many times the wall of `than` is each one's."""
        print(f"{'':24} {'wall s':>8} {'least':>8} {'CPU s':>8} {'ratio':>7}")
        for peer in peers:
            print(f"{peer.name:24} {wall(peer):8.3f} {min(peer.walls):8.3f} {cpu(peer):8.3f} {wall(than) / wall(peer):7.2f}")
        self.write(f"{name}.csv", ["name", "rounds", "wall_s", "least_s", "cpu_s"],
                   [[peer.name, len(peer.walls), f"{wall(peer):.4f}", f"{min(peer.walls):.4f}", f"{cpu(peer):.4f}"] for peer in peers])

    def row(self, what, value, bar, unit="", is_most=True, floor=None):
        """A row of the issue: is_most: the bar is the most that is allowed, else the least."""
        is_met = value <= bar if is_most else value >= bar
        self.rows.append([what, f"{value:.3g}", unit, "" if floor is None else f"{floor:.3g}", f"{'<=' if is_most else '>='} {bar:g}",
                          "met" if is_met else "missed"])
        self.show(self.rows[-1])

    def equal(self, what, outputs):
        if not outputs.are_equal:
            self.rows.append([what, "outputs DIFFER", "", "", "equal", "missed"])
            self.show(self.rows[-1])

    def absent(self, what, why):
        self.rows.append([what, "", "", "", "", f"not measured: {why}"])
        self.show(self.rows[-1])

    @staticmethod
    def show(row):
        what, value, unit, floor, bar, verdict = row
        print(f"{what:62} {value:>8} {unit:6} {bar:>8}  {verdict}{f'  (floor {floor})' if floor else ''}", flush=True)

    def write(self, name, head, rows):
        if self.results is not None:
            with open(os.path.join(self.results, name), "w", newline="") as out:
                table = csv.writer(out, lineterminator="\n")
                table.writerow(head)
                table.writerows(rows)

    def end(self):
        """Print all rows once more, one below the other. True: no bar was missed."""
        print()
        for row in self.rows:
            self.show(row)
        self.write(self.table, ["row", "value", "unit", "floor", "bar", "verdict"], self.rows)
        return not any(row[-1] == "missed" for row in self.rows)


def stop_with_cleaning():
    """So that a SIGTERM removes work folders and ends programs as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
