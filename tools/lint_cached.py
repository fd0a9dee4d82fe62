#!/usr/bin/env python3
"""Runs clang-tidy on the sources that a change calls for (tools/select_tests.py), but not on what was clean before: a clean
file is remembered by the content of all that its result hangs on (cache_folder(); findings are never remembered).

usage: lint_cached.py [--all]   build/clang must be configured; --all leaves no file out
Prints findings and how many files were read; exits 1 when there are any. What a file includes of the system counts by
the versions of the tool and of the packages' headers that the build was configured with.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import select_tests as chosen

TOP = chosen.TOP
BUILD = TOP / "build/clang"


def cache_folder(what):
    """Where results are kept: XDG_CACHE_HOME when that is set, else the build folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) / "gyre" if home else TOP / "build/cache") / what


def key_of(parts):
    """One name of many contents; where the tree lies is no part of it."""
    made = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        data = data.replace(str(TOP).encode(), b"TOP")
        made.update(str(len(data)).encode() + b":" + data)
    return made.hexdigest()


def file_key(source, ground, flags, includes, read):
    """Of what a result hangs on: tool and rules, flags, the file and all that it includes of the project."""
    return key_of([*ground, flags, *(part for path in sorted(includes(source)) for part in (path, read(path)))])


def read_flags(commands):
    """Of each source of the compile database: its flags."""
    return {str(Path(row["file"]).resolve()): row.get("command", "") for row in commands}


def tidy(source):
    """What clang-tidy says of a file: (is clean, findings)."""
    done = subprocess.run(["clang-tidy", "-p", str(BUILD), "--quiet", "--extra-arg=-include",
                           f"--extra-arg={TOP}/tools/analyzer.h", source], cwd=TOP, capture_output=True, text=True)
    found = re.findall(r"^.*: (?:error|warning): .*$", done.stdout, re.M)
    if done.returncode != 0 and not found:
        found = [f"{source}: {done.stderr.strip()[-400:]}"]
    return done.returncode == 0 and not found, found


def lint(files, keys, cache, run, jobs):
    """Reads those that are not known to be clean: (findings, how many were read). A clean one is remembered."""
    waiting = [path for path in files if not (cache / keys[path]).exists()]
    findings = set()
    cache.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        for path, (is_clean, found) in zip(waiting, pool.map(run, waiting)):
            findings.update(found)
            if is_clean:
                (cache / keys[path]).touch()
    return sorted(findings), len(waiting)


def main(arguments):
    if arguments not in ([], ["--all"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    files = chosen.linted_files()
    changed = None if arguments else chosen.changed_files()
    choice = chosen.choose_files(changed, files, int(time.time()) // chosen.DAY_S, chosen.closure)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    ground = [version, (TOP / ".clang-tidy").read_bytes(), (TOP / "tools/analyzer.h").read_bytes()]
    flags = read_flags(json.loads((BUILD / "compile_commands.json").read_text()))
    keys = {path: file_key(path, ground, flags.get(str(TOP / path), ""), chosen.closure, lambda name: (TOP / name).read_bytes())
            for path in files}
    cache = cache_folder("tidy")
    left_out = [path for path in choice.left_out if not (cache / keys[path]).exists()]
    if not arguments:
        print(f"   {choice.why}")
    sys.stdout.flush()
    chosen.say_left_out(left_out, {path: path.rsplit("/", 1)[0] for path in files})
    findings, count = lint(choice.run, keys, cache, tidy, int(os.environ.get("JOBS", os.cpu_count())))
    print("\n".join([*findings, f"   {count} files read, {len(choice.run) - count} were clean before"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
