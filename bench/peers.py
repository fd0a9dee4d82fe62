"""What the benchmarks of records share: runs in turn, medians, memory while a program runs, outputs compared."""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # work folders go


class Peer:
    """A program under test: how to run it, and what it writes. Times are of its last runs."""

    def __init__(self, name, command, outputs, environment=None, fresh=None):
        self.name, self.command, self.outputs = name, command, outputs
        self.environment = {**os.environ, **(environment or {})}
        self.fresh = fresh  # a folder that is empty before each run
        self.walls, self.cpus, self.memory = [], [], 0

    def clear(self):
        for path in self.outputs:
            if os.path.exists(path):
                os.unlink(path)
        if self.fresh is not None:
            shutil.rmtree(self.fresh, ignore_errors=True)
            os.mkdir(self.fresh)

    def run(self, watched=False):
        self.clear()
        before, began = os.times(), time.monotonic()
        process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            while watched and process.poll() is None:
                self.memory = max(self.memory, anonymous_bytes(process.pid))
                time.sleep(0.005)
            said = process.communicate()[0]
        finally:
            process.kill()  # ended already, unless this program was told to end
            process.wait()
        after = os.times()
        if process.returncode != 0:
            raise SystemExit(f"{self.name}: ended with status {process.returncode}")
        if not watched:
            self.walls.append(time.monotonic() - began)
            self.cpus.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return said


def anonymous_bytes(pid):
    """RssAnon + RssShmem of a process and its children, 0 when it is gone."""
    total = 0
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) << 10
        for child in open(f"/proc/{pid}/task/{pid}/children").read().split():
            total += anonymous_bytes(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def same(first, second):
    """Whether two lists of files hold the same bytes, one after the other."""
    def pieces(paths):
        for path in paths:
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    yield piece
    a, b = pieces(first), pieces(second)
    left = right = b""
    while True:
        left, right = left or next(a, b""), right or next(b, b"")
        some = min(len(left), len(right))
        if left[:some] != right[:some]:
            return False
        if some == 0:
            return left == right
        left, right = left[some:], right[some:]


def in_turn(peers, rounds, warm=None):
    """Run the peers in turn, `rounds` times each."""
    for _ in range(rounds):
        for peer in peers:
            if warm is not None:
                warm()
            peer.run()


def warm_file(path):
    """Read a file once: what the machine dropped from its cache is nobody's time."""
    with open(path, "rb", buffering=0) as file:
        room = bytearray(1 << 20)
        while file.readinto(room):
            pass


def table(peers, than):
    """Medians of wall and CPU seconds, and how many times the wall of `than` is each one's."""
    print(f"{'':24} {'wall s':>8} {'least':>8} {'CPU s':>8} {'ratio':>7} {'MiB':>7}")
    base = statistics.median(than.walls)
    for peer in peers:
        wall = statistics.median(peer.walls)
        memory = f"{peer.memory / (1 << 20):7.1f}" if peer.memory else ""
        print(f"{peer.name:24} {wall:8.3f} {min(peer.walls):8.3f} {statistics.median(peer.cpus):8.3f} {base / wall:7.2f} {memory}")


def ratio(peer, than):
    return statistics.median(than.walls) / statistics.median(peer.walls)
