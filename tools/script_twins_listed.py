#!/usr/bin/env python3
"""Run the scripts of SystemDS that issue 25 names, unmodified, with inputs of the sizes and kinds that their
JUnit tests draw, and compare each result with its R twin's at the test's tolerance.

usage: tools/script_twins_listed.py FOLDER [--gyre build/release/gyre] [--only TEXT] [--seed N]

FOLDER is a checkout of SystemDS; nothing of it is kept. Needs Rscript with the package Matrix.
"""
import argparse
import csv
import dataclasses
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from script_twins import cells_of, put

GLM = [(10000, 50, 1, 0.0, 1, 0.0, 3.0, 10.0, 2.0, 2.5), (1000, 100, 1, 1.0, 1, 0.0, 3.0, 0.0, 1.0, 2.5),
       (10000, 50, 1, 2.0, 1, 0.0, 3.0, 0.0, 2.0, 2.5), (10000, 50, 2, -1.0, 1, 0.0, 3.0, -5.0, 1.0, 1.0),
       (1000, 100, 2, -1.0, 2, 0.0, 3.0, 0.0, 2.0, 1.0), (2000, 100, 2, -1.0, 3, 0.0, 3.0, 0.0, 2.0, 1.0),
       (10000, 50, 2, 1.0, 1, 0.0, 3.0, -5.0, 1.0, 2.5), (1000, 100, 2, 1.0, 2, 0.0, 3.0, 0.0, 2.0, 2.5),
       (2000, 100, 2, 1.0, 3, 0.0, 3.0, 0.0, 2.0, 2.5)]


@dataclasses.dataclass
class Case:
    name: str
    make: object  # of dice: the inputs by name
    ours: list
    theirs: list
    results: dict  # the script's by the twin's
    tolerance: float
    is_relative: bool = False  # to the twin's largest cell
    is_first_column: bool = False  # the rest is what the twin does not compute


def uniform(dice, rows, columns, low=0.0, high=1.0, density=1.0):
    return [[dice.uniform(low, high) if dice.random() < density else 0.0 for _ in range(columns)] for _ in range(rows)]


def poisson(dice, mean):
    if mean > 500:  # in parts, so that exp(-mean) stays above zero
        return poisson(dice, mean / 2) + poisson(dice, mean / 2)
    count, left = 0, math.exp(-mean)
    at = dice.random()
    while at > left:
        at *= dice.random()
        count += 1
    return count


def answer(dice, eta, family, parameter, link, dispersion):
    """One row of y: what the family draws at the linear form eta (the links of GLM above: log, logit, probit)."""
    mean = {1: math.exp(min(eta, 700)), 2: 1 / (1 + math.exp(-eta)), 3: 0.5 * math.erfc(-eta / math.sqrt(2))}[link]
    if family == 1 and parameter == 0:
        return [dice.gauss(mean, math.sqrt(dispersion))]
    if family == 1 and parameter == 1:
        rate = (dispersion - 1) * dice.gammavariate(mean / (dispersion - 1), 1) if mean > 0 else 0
        return [float(poisson(dice, rate))]
    if family == 1:
        return [max(dispersion * mean * dice.gammavariate(1 / dispersion, 1), 1e-300)]
    if parameter != 1:
        return [1.0 if dice.random() < mean else parameter]
    trials = round(dispersion * (1 + 2 * dice.random()) + 1)
    spread = (trials - dispersion) / (dispersion - 1)
    chance = dice.betavariate(max(mean * spread, 1e-12), max((1 - mean) * spread, 1e-12))
    hits = sum(dice.random() < chance for _ in range(trials))
    return [float(hits), float(trials - hits)]


def glm_data(dice, case):
    """X with columns of unlike variance, and y of weights whose linear form has the mean and the deviation asked for."""
    rows, columns, family, parameter, link, _, unlike, mean, deviation, dispersion = case
    factors = [10 ** (unlike * (-0.25 + j / (2 * columns - 2))) for j in range(columns)]
    x = [[1 + dice.uniform(-1, 1) * f for f in factors] for _ in range(rows)]
    beta = [dice.gauss(0, 1) for _ in range(columns)]
    for _ in range(50):  # a*beta + b has both; found by turns, as both move
        forms = [sum(map(float.__mul__, row, beta)) for row in x]
        middle = sum(forms) / rows
        spread = math.sqrt(sum((f - middle) ** 2 for f in forms) / rows)
        shift = (mean - middle * deviation / spread) / columns
        beta = [b * deviation / spread + shift for b in beta]
        if abs(shift) * columns < 1e-3 and abs(spread / deviation - 1) < 1e-3:
            break
    forms = [sum(map(float.__mul__, row, beta)) for row in x]
    return {"X": x, "Y": [answer(dice, eta, family, parameter, link, dispersion) for eta in forms]}


def glm_cases():
    for case in GLM:
        _, _, family, parameter, link, power = case[:6]
        is_two = family == 2 and parameter != 1
        for intercept in (0, 1, 2):
            named = [f"dfam={family}", f"{'yneg' if is_two else 'vpow'}={parameter}", f"{'vpow' if is_two else 'yneg'}=0.0",
                     f"link={link}", f"lpow={power}", f"icpt={intercept}", "disp=0.0", "reg=0.0", "tol=0.000000000001",
                     "moi=300", "mii=0", "X={in}/X", "Y={in}/Y", "B={out}/B"]
            given = ["{in}/X.mtx", "{in}/Y.mtx", family, parameter, link, power, intercept, "0.000000000001", "{r}/B"]
            yield Case(f"functions/builtin/glmTest {case} icpt={intercept}", lambda dice, c=case: glm_data(dice, c),
                       ["-nvargs", *named], given, {"B": "B"}, 2e-4 if parameter == 0 else 1e-4, is_relative=True, is_first_column=True)


def cases():
    """Sizes, kinds and tolerances as the JUnit tests have them."""
    yield Case("functions/codegen/rowAggPattern1", lambda dice: {}, ["-args", "{out}/S"], ["x", "{r}/"], {"S": "S"}, 1e-10)
    for density in (0.8, 0.002):
        yield Case(f"functions/quaternary/WeightedCeMM density {density}",
                   lambda dice, d=density: {"X": uniform(dice, 1201, 1103, density=d), "U": uniform(dice, 1201, 10), "V": uniform(dice, 1103, 10)},
                   ["-args", "{in}/X", "{in}/U", "{in}/V", "{out}/R"], ["{in}/", "{r}/"], {"R": "R"}, 1e-6)
    for sizes in ((1201, 1103, 10, 0.6), (3401, 2403, 100, 0.001)):
        yield Case(f"functions/quaternary/WeightedDivMMLeft density {sizes[3]}",
                   lambda dice, s=sizes: {"W": uniform(dice, s[0], s[1], density=s[3]), "U": uniform(dice, s[0], s[2]), "V": uniform(dice, s[1], s[2])},
                   ["-args", "{in}/W", "{in}/U", "{in}/V", "{out}/R"], ["{in}/", "{r}/"], {"R": "R"}, 1e-6)
    for density in (0.7, 0.3):
        for p in (0.25, 0.5, 0.75):
            yield Case(f"functions/binary/matrix/Quantile p={p} density {density}", lambda dice, d=density: {"A": uniform(dice, 1973, 1, 1, 7, d)},
                       ["-args", "{in}/A", p, "{out}/R"], ["{in}/", p, "{r}/"], {"R": "R"}, 1e-8)
    yield Case("functions/misc/ZeroMatrix_Aggregates", lambda dice: {}, ["-args", 1372, 1, "{out}/R"], [1372, 1, "{r}/"], {"R": "R"}, 1e-10)
    yield Case("functions/misc/ListNamedFun", lambda dice: {}, ["-args", "{out}/R"], ["{r}/"], {"R": "R"}, 1e-10)
    for density in (0.7, 0.1):
        yield Case(f"functions/parfor/parfor_pr_resultmerge1a density {density}", lambda dice, d=density: {"V": uniform(dice, 1100, 70, density=d)},
                   ["-args", "{in}/V", 1100, 70, "{out}/R"], ["{in}/", "{r}/"], {"R": "Rout"}, 1e-10)
    yield Case("functions/vect/VectorizeForLoopBinaryColPos", lambda dice: {"A": uniform(dice, 20, 15)},
               ["-args", "{in}/A", "{out}/R"], ["{in}/", "{r}/"], {"R": "R"}, 1e-10)
    for rows, columns, density in ((100, 50, 0.01), (1000, 500, 0.01), (100, 50, 0.7), (1000, 500, 0.7)):
        yield Case(f"applications/linear_regression/LinearRegression {rows}x{columns} density {density}",
                   lambda dice, m=rows, n=columns, d=density: {"v": uniform(dice, m, n, density=d), "y": uniform(dice, m, 1, 1, 10)},
                   ["-args", "{in}/v", "{in}/y", "1.0E-8", "{out}/w"], ["{in}/", "1.0E-8", "{r}/"], {"w": "w"}, 1e-10)
    for m, n, k in ((100, 50, 5), (2000, 1500, 50)):
        yield Case(f"applications/gnmf/GNMF {m}x{n} rank {k}",
                   lambda dice, m=m, n=n, k=k: {"v": uniform(dice, m, n, 1, 5, 0.2), "w": uniform(dice, m, k), "h": uniform(dice, k, n)},
                   ["-args", "{in}/v", "{in}/w", "{in}/h", 2, "{out}/w", "{out}/h"], ["{in}/", 2, "{r}/"], {"w": "w", "h": "h"}, 1e-6)
    yield from glm_cases()


def run(gyre, scripts, name, arguments, folder):
    """What either of the two said when it failed; None."""
    places = {"in": folder / "in", "out": folder / "out", "r": folder / "r"}
    ours, theirs = ([str(a).format(**places) for a in given] for given in arguments)
    path = scripts / name
    for command in ([gyre, "script", f"{path}.dml", *ours], ["Rscript", f"{path}.R", *theirs]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | {"GYRE_DML_PATH": ""})
        if done.returncode != 0:
            return f"{Path(command[0]).name}: {done.stderr.strip()[:300]}"
    return None


def compare_cells(ours, theirs, tolerance):
    for place in sorted(set(ours) | set(theirs)):
        a, b = ours.get(place, 0.0), theirs.get(place, 0.0)
        if not (a == b or abs(a - b) <= tolerance):
            return f"{place} is {a!r}, in R {b!r}"
    return None


def frame_cell(dice, kind):
    value = dice.uniform(-10, 10)
    return [f"t{value:.6f}", f"{value:.9f}", str(int(value)), "true" if value > 0 else "false"][kind]


def same_cell(a, b):
    try:
        return abs(float(a) - float(b)) <= 1e-9
    except ValueError:
        return a.lower() == b.lower()  # R writes TRUE


def frame_general(gyre, scripts, folder, dice):
    """The one pair over frames: ranges of 2245x1264 cells of four types, by CSV."""
    rows, columns, (a, b, c, d), (e, f, g, h) = 2245, 1264, (234, 1478, 125, 568), (124, 1178, 143, 368)
    types, words = [j * 4 // columns for j in range(columns)], ["string", "double", "int64", "boolean"]
    for name, sizes, kinds in (("A", (rows, columns), types), ("B", (b - a + 1, d - c + 1), types[c - 1:d])):
        text = "".join(",".join(frame_cell(dice, kind) for kind in kinds) + "\n" for _ in range(sizes[0]))
        (folder / "in" / f"{name}.csv").write_text(text)
        (folder / "in" / name).write_text(text)
        schema = ",".join(words[kind] for kind in kinds)
        (folder / "in" / f"{name}.mtd").write_text(f'{{"data_type": "frame", "format": "csv", "header": false, "rows": {sizes[0]}, '
                                                   f'"cols": {sizes[1]}, "schema": "{schema}"}}')
    ours = ["-args", "{in}/A", rows, columns, "{in}/B", b - a + 1, d - c + 1, a, b, c, d, "{out}/AB", e, f, g, h, "{out}/C"]
    failed = run(gyre, scripts, "functions/frame/FrameGeneral", (ours, ["{in}/", a, b, c, d, "{r}/", e, f, g, h]), folder)
    if failed:
        return failed
    for name in ("AB", "C"):
        with open(folder / "r" / f"{name}.csv", newline="") as text:
            theirs = list(csv.reader(text))[1:]
        seen = 0
        for line in (folder / "out" / name).read_text().splitlines():
            i, j, cell = line.split(" ", 2)
            if not same_cell(cell, theirs[int(i) - 1][int(j) - 1]):
                return f"{name}[{i}, {j}] is {cell}, in R {theirs[int(i) - 1][int(j) - 1]}"
            seen += 1
        if seen < sum(len(row) for row in theirs) / 2:  # cells that are 0 need not be written
            return f"{name} has {seen} cells"
    return None


def compare(gyre, scripts, case, folder, dice):
    for key, cells in case.make(dice).items():
        put(folder / "in" / f"{key}.mtx", cells)
        (folder / "in" / f"{key}.ijv").rename(folder / "in" / key)
        (folder / "in" / f"{key}.ijv.mtd").rename(folder / "in" / f"{key}.mtd")
    failed = run(gyre, scripts, case.name.split(" ")[0], (case.ours, case.theirs), folder)
    if failed:
        return failed
    for mine, twin in case.results.items():
        ours, theirs = cells_of(folder / "out" / mine), cells_of(folder / "r" / twin)
        ours = {p: v for p, v in ours.items() if p[1] == 1 or not case.is_first_column}
        failed = failed or compare_cells(ours, theirs, case.tolerance * (max(map(abs, theirs.values())) if case.is_relative else 1))
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gyre", default="build/release/gyre")
    parser.add_argument("--only", default="", help="cases whose names have this text")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    gyre, scripts = str(Path(given.gyre).resolve()), given.folder.resolve() / "src/test/scripts"
    failures = 0
    for case in ["functions/frame/FrameGeneral", *cases()]:
        name = case if isinstance(case, str) else case.name
        if given.only not in name:
            continue
        dice = random.Random(f"{given.seed} {name}")
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top)
            for place in ("in", "out", "r"):
                (folder / place).mkdir()
            what = frame_general(gyre, scripts, folder, dice) if case is name else compare(gyre, scripts, case, folder, dice)
        failures += what is not None
        print(f"{'agree ' if what is None else 'differ'} {name}{'' if what is None else ': ' + what}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
