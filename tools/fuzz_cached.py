#!/usr/bin/env python3
"""Runs fuzz targets side by side: each first proves, within 60 s, that it finds its planted bug, then runs as it is.

usage: fuzz_cached.py [--all] SECONDS [NAME...]
A proof is remembered by the content of the target's room, of all that it includes and of its seeds; it is made anew when
that has changed. Where none is remembered, those are proved that a change calls for (tools/select_tests.py), and a quarter
of the rest by the day; --all and names leave none out. scripts/fuzz is how it is called.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lint_cached as linted
import select_tests as chosen

TOP = chosen.TOP
BUILD = TOP / "build/fuzz"
CRASHES = BUILD / "crashes"
PROOF_S = 60


def to_prove(keys, wanted, known):
    """The targets whose planted bug is looked for, those left out, and those proved before."""
    proved = [name for name, key in keys.items() if key in known]
    run = [name for name in keys if name in wanted and name not in proved]
    return run, [name for name in keys if name not in run and name not in proved], proved


def files_of(target, rooms):
    """What a proof hangs on."""
    room = TOP / "src" / (chosen.room_of(target.source, rooms) or target.source.split("/")[1])
    seeds = TOP / "tests/fuzz" / target.name
    found = {path for path in room.rglob("*") if path.suffix in (".c", ".h", ".def", ".inc") and "_test." not in path.name}
    found |= {TOP / path for path in chosen.closure(target.source)}
    found |= set(seeds.glob("*")) if seeds.is_dir() else set()
    found |= {seeds.with_suffix(".dict")} if seeds.with_suffix(".dict").exists() else set()
    return sorted(path for path in found if path.is_file())


def key_of(target, rooms):
    return linted.key_of([part for path in files_of(target, rooms) for part in (str(path), path.read_bytes())])


def fuzz(name, binary, seconds, prefix):
    """Runs on a fresh copy of the seeds; crashes go to prefix*: (exit code, what it said)."""
    seeds = TOP / "tests/fuzz" / name
    with tempfile.TemporaryDirectory() as work:
        corpus = Path(work) / "corpus"
        if seeds.is_dir():
            shutil.copytree(seeds, corpus)
        else:
            corpus.mkdir()
        words = [f"-dict={seeds}.dict"] if Path(f"{seeds}.dict").exists() else []
        done = subprocess.run(["nice", str(BUILD / binary), *words, f"-max_total_time={seconds}", "-timeout=10",
                               "-rss_limit_mb=2048", "-max_len=4096", "-seed=1", f"-artifact_prefix={prefix or work + '/'}",
                               str(corpus)], env={**os.environ, "TMPDIR": work}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def prove(name):
    """Why the planted bug was not found, or None, and how long it took."""
    code, said = fuzz(name, f"{name}_planted", PROOF_S, None)
    if code == 0:
        return f"did NOT find its planted bug in {PROOF_S} s", 0
    if "ERROR: AddressSanitizer" not in said:
        return "the planted build failed otherwise\n" + "\n".join(said.splitlines()[-5:]), 0
    return None, len(re.findall(r"^#", said, re.M))


def one(name, seconds, is_due, is_known, remember):
    """A target from its proof to its end: (is well, what is said of it)."""
    words = "planted bug found before" if is_known else "planted bug not looked for"
    if is_due:
        wrong, events = prove(name)
        if wrong is not None:
            return False, f"{name}: {wrong}"
        remember()
        words = f"planted bug found ({events} events)"
    code, said = fuzz(name, name, seconds, f"{CRASHES}/{name}-")
    if code != 0:
        return False, "\n".join(said.splitlines()[-30:]) + f"\n{name}: FAILED, input kept in {CRASHES.relative_to(TOP)}"
    done = re.findall(r"^Done.*$", said, re.M)
    return True, f"{name}: {words}; {done[-1] if done else 'no count'}, clean"


def main(arguments):
    is_all = "--all" in arguments
    words = [word for word in arguments if word != "--all"]
    targets = chosen.fuzz_targets()
    names = words[1:] or [target.name for target in targets]
    unknown = set(names) - {target.name for target in targets}
    if not words or not re.fullmatch("[1-9][0-9]*", words[0]) or unknown:
        print(f"scripts/fuzz: no target {' '.join(sorted(unknown))}" if unknown else __doc__.strip(), file=sys.stderr)
        return 2
    targets = [target for target in targets if target.name in names]
    changed = None if is_all or words[1:] else chosen.changed_files()
    rooms = chosen.read_rooms((TOP / "src/rooms.txt").read_text())
    choice = chosen.choose(rooms, changed, targets, int(time.time()) // chosen.DAY_S, chosen.closure)
    cache = linted.cache_folder("fuzz")
    cache.mkdir(parents=True, exist_ok=True)
    keys = {target.name: key_of(target, rooms) for target in targets}
    proving, left_out, proved = to_prove(keys, set(choice.run), {path.name for path in cache.iterdir()})
    built = subprocess.run(["nice", "scripts/build", "fuzz", *names, *(f"{name}_planted" for name in proving)], cwd=TOP)
    if built.returncode != 0:
        return 1
    CRASHES.mkdir(parents=True, exist_ok=True)
    print(f"   planted bugs: {len(proving)} to be found, {len(proved)} found before with the same content, {len(left_out)} "
          f"left out{': ' if left_out else ''}{' '.join(left_out)}", flush=True)
    status = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        def run(name):
            return one(name, int(words[0]), name in proving, name in proved, (cache / keys[name]).touch)
        for is_well, said in pool.map(run, names):
            print(said, flush=True)
            status = status if is_well else 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
