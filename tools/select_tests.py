#!/usr/bin/env python3
"""What of the tests, the linted files and the fuzz targets a change calls for: all that may include what changed, by the
graph of src/rooms.txt, and a quarter of the rest that turns from day to day. Of tests that a change of a low room touches
the nearest are taken, as long as SPAN_S lasts.

usage: select_tests.py [--day N] [--all] tests BUILD JOBS | files | fuzz
Prints the names of what runs; on stderr why, and what is left out. A change is what differs from the newest commit of the
history that is over a day old; without history everything runs. tools/select_tests_test.py tests the choice itself.
"""
import hashlib
import re
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

sys.dont_write_bytecode = True
import costs  # noqa: E402

TOP = Path(__file__).resolve().parent.parent
TURNS = 4
DAY_S = 86400
# Seconds that a sanitized build may test, for each process at a time; and of a test whose cost nobody knows.
SPAN_S = 60
UNKNOWN_S = 0.5
# Beneath all tests: one changed file of these calls for everything. The rest of tests/ is found by its includes.
ALL = re.compile(r"CMakeLists\.txt$|CMakePresets\.json$|cmake/|tests/(gy_test\.h|program\.[ch]|one_thread\.c|tsan\.supp)$"
                 r"|src/(rooms\.txt|base/)|include/gyre/(base|gyre)\.h$|scripts/(test|build)$")
# No program that a test builds or runs is made of these.
NOTHING = re.compile(r".*\.md$|docs/|bench/|\.ci/|\.git|\.clang|LICENSE$|Makefile$|tools/|tests/fuzz/|tests/costs\.txt$|scripts/")

# A test: `source` is its path, or "" when it has none; `labels` are the rooms that it names by itself.
Test = namedtuple("Test", "name source labels")
Choice = namedtuple("Choice", "run left_out touched why")


def read_rooms(text):
    """The rooms (folders of src) and those that each may include; base is implied. A room is one library, so that its
    folders, which stand indented below it, count as the room."""
    rooms = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words and not line[0].isspace():
            below = {folder.split("/")[0] for folder in words[2:]}
            rooms[words[1]] = below | ({"base"} if words[1] != "base" else set())
    return rooms


def room_of(path, rooms):
    """The innermost room that a file lies in, or None."""
    parts = path.split("/")
    if parts[0] == "include" and len(parts) > 2:
        stem = parts[-1].rsplit(".", 1)[0]
        return stem if stem in rooms else None
    for end in range(len(parts) - 1, 1, -1):
        if parts[0] == "src" and "/".join(parts[1:end]) in rooms:
            return "/".join(parts[1:end])
    return None


def users(changed, rooms):
    """The rooms in `changed` and all that may include one of them, however far above: {room: steps up to it}."""
    found, nearest, steps = {}, set(changed), 0
    while nearest:
        found.update(dict.fromkeys(nearest, steps))
        nearest = {room for room, below in rooms.items() if below & nearest} - set(found)
        steps += 1
    return found


def days_to(name, day):
    """Days until it is this name's turn: each has one in four."""
    return (int(hashlib.sha256(name.encode()).hexdigest(), 16) - day) % TURNS


def turn(name, day):
    return days_to(name, day) == 0


def calls_for_all(path, rooms):
    """Whether a changed file may be in every program: the ground of all, or of a room that is not known."""
    if ALL.match(path):
        return True
    return path.startswith(("include/", "src/")) and not NOTHING.match(path) and room_of(path, rooms) is None


def steps_to(test, rooms, above, matters, files):
    """How far a change is from a test: 0 in its room or files, more further below; None when it is not touched."""
    if files & matters:
        return 0
    if test.source.startswith("src/"):
        own = {room_of(test.source, rooms)}
    else:
        own = ({room_of(path, rooms) for path in files} | (set(test.labels) & set(rooms))) - {None, "base"}
    if not own:  # it runs the command, which has all rooms
        return 2 if above else None
    return min((above[room] for room in own if room in above), default=None)


def within(touched, day, known, budget_s):
    """Of what is touched: the nearest, those whose turn comes first, as long as their seconds last."""
    kept = set()
    for name in sorted(touched, key=lambda name: (touched[name], days_to(name, day), known.get(name, UNKNOWN_S), name)):
        budget_s -= known.get(name, UNKNOWN_S)
        if budget_s >= 0 or touched[name] == 0:
            kept.add(name)
    return kept


def choose(rooms, changed, tests, day, includes=lambda source: set(), known={}, budget_s=float("inf")):
    """Which tests run: the pure choice. `changed`: paths, None when it is not known; `includes`: all files of the
    project that a source includes, itself too. What is touched stays below `budget_s`, the nearest first; tests of what
    changed itself are never left out."""
    names = [test.name for test in tests]
    if changed is None:
        return Choice(names, [], names, "no history to compare with: everything runs")
    matters = {path for path in changed if not NOTHING.match(path)}
    above = users({room_of(path, rooms) for path in matters} - {None}, rooms)
    ground = [path for path in changed if calls_for_all(path, rooms)]
    touched = {}
    for test in tests:
        files = includes(test.source) | {test.source} if test.source else set()
        steps = steps_to(test, rooms, above, matters, files)
        if steps is not None or ground:
            touched[test.name] = 1 if ground and steps != 0 else steps
    kept = within(touched, day, known, budget_s)
    run = [name for name in names if name in kept or turn(name, day)]
    left_out = [name for name in names if name not in set(run)]
    what = f"everything, by {ground[0]}" if ground else ", ".join(sorted(above)) or "no room"
    why = f"touched: {what} ({len(touched)} of {len(names)} tests)"
    if len(kept) < len(touched):
        why += f", the nearest {len(kept)} of them in {budget_s:.0f} s of processes"
    why += f"; of the rest turn {day % TURNS + 1} of {TURNS}"
    return Choice(run, left_out, [name for name in names if name in touched], why)


# ---- What is there ----

def git(*words):
    done = subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def changed_files():
    """The paths that differ from the newest commit over a day old; None without such a history."""
    about = (git("rev-parse", "--is-shallow-repository", "--show-toplevel") or "").split("\n")
    if about[0] != "false" or Path(about[1]).resolve() != TOP:  # cut off, or unpacked within another project's
        return None
    base = (git("rev-list", "-1", f"--before={int(time.time()) - DAY_S}", "HEAD") or "").strip()
    differ = git("diff", "--no-renames", "--name-only", base) if base else None
    fresh = git("ls-files", "-o", "--exclude-standard")
    return None if differ is None or fresh is None else sorted(set(differ.split("\n") + fresh.split("\n")) - {""})


def closure(source, cache={}):
    """The files of the project that a source includes, itself too; what is made in the build folder is not among them."""
    if source in cache:
        return cache[source]
    found, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        if path in found or not (TOP / path).is_file():
            continue
        found.add(path)
        text = (TOP / path).read_text(errors="replace")
        for name in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.M):
            folder = path.rsplit("/", 1)[0]
            waiting += [f"{top}/{name}" for top in (folder, "src", "include", "tests") if (TOP / top / name).is_file()]
    cache[source] = found
    return found


def read_tests(build):
    """The tests of a build folder: those of ctest, with their sources where they have one."""
    import json
    sources = dict(line.split() for line in (build / "tests.txt").read_text().splitlines())
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True)
    tests = []
    for test in json.loads(shown.stdout)["tests"]:
        labels = [value for property in test.get("properties", []) if property["name"] == "LABELS" for value in property["value"]]
        if "lint" not in labels:
            tests.append(Test(test["name"], sources.get(test["name"], ""), tuple(labels)))
    return tests


def folder_of(test):
    return test.source.rsplit("/", 1)[0] if test.source else "others"


def say_left_out(names, folders):
    """A line in all and one a folder."""
    if names:
        print(f"   left out: {len(names)} (--all runs them)", file=sys.stderr)
    for folder in sorted({folders[name] for name in names}):
        inside = [name for name in names if folders[name] == folder]
        print(f"      {folder}: {len(inside)}: {' '.join(inside)}", file=sys.stderr)


def linted_files():
    """The sources that clang-tidy reads, as tests of their own."""
    paths = (git("ls-files", "-co", "--exclude-standard", "src/*.c") or "").split("\n")
    if paths == [""]:
        paths = sorted(str(path.relative_to(TOP)) for path in (TOP / "src").rglob("*.c"))
    return [path for path in paths if path and not re.search(r"_(test|fuzz|bench)\.c$", path) and (TOP / path).is_file()]


def choose_files(changed, files, day, includes):
    """Which sources are linted: those that changed or include what did, and a quarter. The pure choice."""
    if changed is None or any(path in (".clang-tidy", "tools/analyzer.h") for path in changed):
        return Choice(files, [], files, "everything may have changed: all files are read")
    touched = [path for path in files if includes(path) & set(changed)]
    run = [path for path in files if path in set(touched) or turn(path, day)]
    left_out = [path for path in files if path not in set(run)]
    return Choice(run, left_out, touched, f"{len(touched)} of {len(files)} files touched, and of the rest turn "
                  f"{day % TURNS + 1} of {TURNS}")


def fuzz_targets():
    """Name and source of each target."""
    rows = []
    for path in sorted((TOP / "src").rglob("*_fuzz.c")):
        source = str(path.relative_to(TOP))
        rows.append(Test(f"{source.split('/')[1]}_{path.stem}", source, ()))
    return rows


def main(arguments):
    day = int(time.time()) // DAY_S
    is_all = "--all" in arguments
    words = [word for word in arguments if word != "--all"]
    if words[:1] == ["--day"]:
        day = int(words[1])
        words = words[2:]
    if not words or words[0] not in ("tests", "files", "fuzz") or len(words) != (3 if words[0] == "tests" else 1):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    changed = None if is_all else changed_files()
    rooms = read_rooms((TOP / "src/rooms.txt").read_text())
    if words[0] == "files":
        files = linted_files()
        choice = choose_files(changed, files, day, closure)
        folders = {path: path.rsplit("/", 1)[0] for path in files}
    else:
        known, budget_s, tests = {}, float("inf"), fuzz_targets() if words[0] == "fuzz" else read_tests(Path(words[1]))
        if words[0] == "tests":
            kept = Path(words[1]) / "Testing/Temporary/CTestCostData.txt"
            known = costs.read_ctest(kept.read_text()) if kept.exists() else {}
            budget_s = SPAN_S * int(words[2])
        choice = choose(rooms, changed, tests, day, closure, known, budget_s)
        folders = {test.name: folder_of(test) for test in tests}
    if not is_all:
        print(f"   {choice.why}", file=sys.stderr)
        say_left_out(choice.left_out, folders)
    print("\n".join(choice.run))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
