#!/usr/bin/env python3
"""An inverted index of text files: Gyre's job beside mawk, in turn; outputs compared after sorting.

Usage: index.py BUILD/bench TOP [--every N] [--rounds R] [--folder WORK]
The files are every N-th one below TOP that is neither empty nor binary, by name; a word is what mawk's fields are, and of each
word the numbers of the files that have it are listed, rising.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import peers

BAR = 8.0
MAWK = """FNR == 1 { file++ }
{ for (i = 1; i <= NF; i++) if (last[$i] != file) { last[$i] = file; files[$i] = files[$i] " " (file - 1) } }
END { for (word in files) print word "\\t" substr(files[word], 2) }"""


def texts(top, every):
    found = []
    for folder, folders, names in os.walk(top):
        folders.sort()
        found += [os.path.join(folder, name) for name in sorted(names)]
    chosen = []
    for path in found[::every]:
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                data = file.read()
            if data and b"\0" not in data:
                chosen.append(path)
    return chosen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("top")
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".index-", dir=options.folder) as work:
        return measure(options, work)


def measure(options, work):
    paths = texts(os.path.abspath(options.top), options.every)
    listed, script, theirs = (os.path.join(work, name) for name in ("list", "script", "mawk"))
    with open(listed, "w") as file:
        file.writelines(f"{path}\n" for path in paths)
    with open(script, "w") as file:
        file.write(MAWK)
    folder = os.path.join(work, "job")
    gyre = peers.Peer("gyre, a job", [os.path.join(options.build, "bench_jobs"), "index", listed, folder],
                      [os.path.join(folder, "out", f"part-{i:05}") for i in range(2)], fresh=folder)
    mawk = peers.Peer("mawk", ["sh", "-c", f"xargs -s 2000000 mawk -f {script} < {listed} > {theirs}"], [theirs])
    peers.in_turn([gyre, mawk], options.rounds, lambda: [peers.warm_file(path) for path in paths])
    def ordered(files):
        return subprocess.run(["sort", *files], env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.PIPE, check=True).stdout
    is_same = ordered(gyre.outputs) == ordered(mawk.outputs)
    peers.table([gyre, mawk], mawk)
    print(f"{len(paths)} files, {sum(map(os.path.getsize, paths))} bytes: {peers.ratio(gyre, mawk):.1f} times mawk (bar {BAR}), "
          f"outputs {'equal' if is_same else 'DIFFER'}")
    return 0 if is_same else 1


sys.exit(main())
