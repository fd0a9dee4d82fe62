#!/usr/bin/env python3
"""Word count of the text files of Linux: Gyre, ready-made and through the public map, beside a bound by hand, mawk and DuckDB, in turn.

Usage: words.py BUILD/bench [--corpus FILE | --archive linux-source-6.1.tar.xz] [--share 4] [--python PROGRAM] [--rounds R]
                [--only NAME,...] [--folder WORK] [--csv FILE]
The corpus is every fourth text file (no NUL byte in it) of the archive, one behind the other; --share 1: all of them. PROGRAM is a
python with duckdb; DuckDB's time is of its query alone, without its start. All write their result to WORK: put that on a file
system in memory, since Gyre alone waits for the disk. The outputs of the bound and of Gyre are compared byte by byte, the others'
as sets of lines.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile

import peers

ARCHIVE = "/usr/src/linux-source-6.1.tar.xz"
MAWK = '{for(i=1;i<=NF;i++)c[$i]++}END{for(w in c)print w"\\t"c[w]}'
DUCKDB = r'''
import duckdb, resource, sys, time
path, out, threads = sys.argv[1:4]
database = duckdb.connect()
database.execute(f"set threads = {threads}; set preserve_insertion_order = false; set enable_progress_bar = false")
query = f"""copy (select w, count(*) n from (select unnest(string_split(replace(l, chr(9), ' '), ' ')) w from read_csv('{path}',
    columns={{'l': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false, auto_detect=false, strict_mode=false,
    max_line_size=4000000, new_line='\\n')) where w <> '' group by w) to '{out}' (header false, delimiter '\t', quote '', escape '')"""
def used():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
for line in sys.stdin:
    began, before = time.monotonic(), used()
    database.execute(query)
    print(time.monotonic() - began, used() - before, flush=True)
'''


def make_corpus(archive, share, path):
    """The text files of the archive in the order of their names."""
    with tarfile.open(archive) as source:
        members = {member.name: member for member in source if member.isreg()}
        texts = 0
        with open(path, "wb") as out:
            for name in sorted(members):
                data = source.extractfile(members[name]).read()
                if b"\0" not in data:
                    if texts % share == 0:
                        out.write(data)
                    texts += 1


class Database(peers.Peer):
    """DuckDB in a process that lives through the comparison."""

    def __init__(self, name, python, corpus, output, threads):
        super().__init__(name, [], [output])
        self.process = subprocess.Popen([python, "-c", DUCKDB, corpus, output, str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, watched=False):
        self.clear()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise SystemExit(f"{self.name} failed")
        self.walls.append(float(words[0]))
        self.cpus.append(float(words[1]))


def sorted_lines(paths, work):
    """The hash of all lines, sorted."""
    command = "LC_ALL=C sort -T '%s' %s | sha256sum" % (work, " ".join(f"'{path}'" for path in paths))
    return subprocess.run(command, shell=True, check=True, capture_output=True).stdout.split()[0]


def make_peers(options, corpus, work):
    bench = os.path.join(options.build, "bench_words")
    state = {"XDG_STATE_HOME": os.path.join(work, "state")}

    def parts(folder):
        os.mkdir(os.path.join(work, folder))
        return [os.path.join(work, folder, f"part-0000{i}") for i in range(2)]

    def gyre(name, mode, processes):
        outputs = parts(name.replace(" ", "_").replace(",", ""))
        folder = os.path.dirname(outputs[0])
        peer = peers.Peer(name, [bench, mode, str(processes), "2", "0", folder, corpus], outputs, state)
        peer.outputs = outputs + [os.path.join(folder, "MANIFEST.json")]
        return peer

    bound = parts("bound")
    one = os.path.join(work, "mawk")
    made = [peers.Peer("bound", [os.path.join(options.build, "bench_words_bound"), corpus, os.path.dirname(bound[0])], bound),
            gyre("gyre, 1 process", "words", 1), gyre("gyre, 2 processes", "words", 2),
            gyre("gyre, own map", "lines", 1),
            peers.Peer("mawk", ["sh", "-c", f"LC_ALL=C mawk '{MAWK}' '{corpus}' > '{one}'"], [one])]
    if options.python:
        for threads in (1, 2):
            made.append(Database(f"DuckDB, {threads} threads", options.python, corpus, os.path.join(work, f"duckdb{threads}"), threads))
    wanted = options.only.split(",") if options.only else []
    return [peer for peer in made if not wanted or any(peer.name.startswith(name) for name in wanted)]


def compare(made, work):
    whole = {peer.name: peer for peer in made}
    first = whole.get("bound")
    if first is None:
        return True
    lines = sorted_lines(first.outputs, work)
    equal = True
    for peer in made[1:]:
        files = [path for path in peer.outputs if not path.endswith(".json")]
        is_same = peers.same(first.outputs, files) if peer.name.startswith("gyre") else sorted_lines(files, work) == lines
        if not is_same:
            print(f"{peer.name}: another output than the bound's")
            equal = False
    return equal


def report(options, made, equal):
    bound = made[0]
    peers.table(made, bound)
    rows = [(peer.name, statistics.median(peer.walls), statistics.median(peer.cpus)) for peer in made]
    for name, wall, cpu in rows[1:]:
        print(f"{name}: wall {wall / rows[0][1]:.2f}, CPU {cpu / max(rows[0][2], 1e-9):.2f} times the {bound.name}'s")
    print("outputs equal" if equal else "outputs DIFFER")
    if options.csv:
        with open(options.csv, "w") as out:
            out.write("name,wall_s,cpu_s\n")
            out.writelines(f"\"{name}\",{wall:.4f},{cpu:.4f}\n" for name, wall, cpu in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--corpus")
    parser.add_argument("--archive", default=ARCHIVE)
    parser.add_argument("--share", type=int, default=4)
    parser.add_argument("--python", help="a python with duckdb; without it DuckDB is left out")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="names that begin so, parted by commas; the first is what the others are compared with")
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir())
    parser.add_argument("--csv")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".words-", dir=options.folder) as work:
        corpus = options.corpus
        if corpus is None:
            corpus = os.path.join(work, "corpus")
            make_corpus(options.archive, options.share, corpus)
        made = make_peers(options, corpus, work)
        for _ in range(options.rounds):
            peers.warm_file(corpus)
            for peer in made:
                peer.run()
        equal = compare(made, work)
        report(options, made, equal)
        for peer in made:
            if isinstance(peer, Database):
                peer.process.stdin.close()
                peer.process.wait(timeout=20)
    return 0 if equal else 1


sys.exit(main())
