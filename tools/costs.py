#!/usr/bin/env python3
"""How long tests take, kept from run to run: ctest starts the longest first by the times in its build folder, and a fresh
one has none.

usage: costs.py seed PRESET   gives build/PRESET the times of tests/costs.txt, when it has none of its own
       costs.py write         makes tests/costs.txt of the times that the build folders have
"""
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PRESETS = ("dev", "asan", "tsan")
HEAD = """# Seconds of each test, by preset; tools/costs.py write makes this of the last runs. A fresh clone starts its long tests first by it.
# test dev asan tsan
"""


def read_table(text):
    """The committed times: {test: {preset: seconds}}."""
    table = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            table[words[0]] = {preset: float(cost) for preset, cost in zip(PRESETS, words[1:]) if cost != "-"}
    return table


def write_table(table):
    def cell(cost):
        return "-" if cost is None else f"{cost:.1f}"
    return HEAD + "".join(f"{name} {' '.join(cell(costs.get(preset)) for preset in PRESETS)}\n"
                          for name, costs in sorted(table.items()) if any(cost >= 1 for cost in costs.values()))


def read_ctest(text):
    """What ctest keeps: "name runs seconds" until a line of dashes."""
    rows = (line.split() for line in text.split("---")[0].splitlines())
    return {row[0]: float(row[2]) for row in rows if len(row) == 3}


def write_ctest(costs):
    return "".join(f"{name} 1 {cost:g}\n" for name, cost in costs.items()) + "---\n"


def merged(table, runs, known):
    """The table with what was measured; rows of tests that are gone go."""
    return {name: {**table.get(name, {}), **{preset: costs[name] for preset, costs in runs.items() if name in costs}}
            for name in known}


def main(arguments):
    file = TOP / "tests/costs.txt"
    kept = {preset: TOP / f"build/{preset}/Testing/Temporary/CTestCostData.txt" for preset in PRESETS}
    if len(arguments) == 2 and arguments[0] == "seed":
        path = kept.get(arguments[1])
        if path is not None and file.exists() and not path.exists():
            table = read_table(file.read_text())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write_ctest({name: costs[arguments[1]] for name, costs in table.items() if arguments[1] in costs}))
        return 0
    if arguments == ["write"]:
        runs = {preset: read_ctest(path.read_text()) for preset, path in kept.items() if path.exists()}
        if not runs:
            print("costs.py: no build folder has times: scripts/test dev asan tsan", file=sys.stderr)
            return 1
        shown = subprocess.run(["ctest", "-N"], cwd=TOP / f"build/{next(iter(runs))}", capture_output=True, text=True, check=True)
        known = {line.split()[-1] for line in shown.stdout.splitlines() if line.lstrip().startswith("Test ")}
        file.write_text(write_table(merged(read_table(file.read_text()), runs, known)))
        return 0
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
