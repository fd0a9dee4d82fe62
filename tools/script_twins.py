#!/usr/bin/env python3
"""Run scripts of SystemDS that have an R twin beside them, and count how many give what R gives.

usage: tools/script_twins.py FOLDER [--gyre build/release/gyre] [--take N] [--seed N] [--list]

FOLDER is a checkout of SystemDS (its src/test/scripts is searched); nothing of it is kept. Needs
Rscript with the packages Matrix and matrixStats. A pair is taken when all that its two scripts
want is files and the same number of scalars: inputs are drawn at random, in the shapes and kinds
of KINDS until R accepts them, and both results are compared cell by cell.
"""
import argparse
import collections
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Shapes of the inputs in their order (the last one is repeated), how cells are drawn, and what scalars are.
KINDS = [([(12, 12)], "real", "2"), ([(12, 1), (1, 7)], "real", "2"), ([(12, 12)], "whole", "2"), ([(12, 7)], "real", "2"), ([(12, 1)], "real", "2"),
         ([(12, 7), (12, 1)], "real", "2"), ([(12, 7), (7, 5)], "real", "2"), ([(12, 7), (7, 1)], "real", "2"),
         ([(12, 7), (1, 7)], "real", "2"), ([(12, 1)], "whole", "2"), ([(1, 12)], "real", "2"),
         ([(12, 12)], "real", "0.25"), ([(12, 1)], "real", "0.25")]
READ = re.compile(r"\bread\(\s*(\$\w+)\s*((?:,[^()]*)?)\)")
WRITE = re.compile(r"\bwrite\(\s*[^,]+,\s*(\$\w+)")
DRIVER = r"""
options(warn = -1, digits = 22)
suppressMessages({library(Matrix); library(matrixStats)})
jobs <- readLines(file(commandArgs(TRUE)[1]))
accepted <- list()
for (job in jobs) {
  part <- strsplit(job, "\t")[[1]]
  if (isTRUE(accepted[[part[2]]] >= 3)) next
  given <- part[-(1:2)]
  env <- new.env(parent = globalenv())
  env$commandArgs <- function(...) given
  env$args <- given
  env$quit <- function(...) stop("quit")
  setTimeLimit(elapsed = 5, transient = TRUE)
  done <- tryCatch({
    capture.output(suppressMessages(suppressWarnings(eval(parse(part[2]), env))))
    "ok"
  }, error = function(e) paste("failed:", conditionMessage(e)))
  setTimeLimit()
  if (done == "ok") accepted[[part[2]]] <- sum(accepted[[part[2]]]) + 1
  cat(part[1], "\t", gsub("[\n\t]", " ", done), "\n", sep = "")
}
"""


def uncommented(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return "\n".join(re.sub(r"#.*", "", line) for line in text.split("\n"))


def plan(path):
    """What the two scripts of a pair want, or why they cannot be run so."""
    dml = uncommented(path.read_text(errors="replace"))
    twin = uncommented(path.with_suffix(".R").read_text(errors="replace"))
    if re.search(r"(library|require)\((?!\s*\"?(Matrix|matrixStats)\"?\s*\))", twin):
        return "the twin wants other packages"
    if "source(" in dml or "$$" in dml or "source(" in twin:
        return "sources or templates"
    reads, writes = READ.findall(dml), WRITE.findall(dml)
    inputs = re.findall(r"readMM\(\s*paste\(\s*args\[(\d+)\]\s*,\s*\"/?(\w+)\.mtx\"", twin)
    outputs = re.findall(r"write(?:MM)?\(.*?paste\(\s*args\[(\d+)\]\s*,\s*\"/?(\w+)\"", twin)
    names = {arg for arg, _ in reads} | set(writes)
    sizes = [s for _, options in reads for s in re.findall(r"=\s*(\$\w+)", options)]
    others = [a for a in dict.fromkeys(re.findall(r"\$\w+", dml)) if a not in names and a not in sizes]
    folders = {a for a, _ in inputs} | {a for a, _ in outputs}
    scalars = [a for a in dict.fromkeys(re.findall(r"args\[(\d+)\]", twin)) if a not in folders]
    if len(reads) != len(inputs) or not outputs or len(set(writes)) != len({n for _, n in outputs}):
        return "files that do not pair"
    if len(others) != len(scalars) or len({a for a, _ in outputs}) != 1 or any(not a[1:].isdigit() for a in names):
        return "arguments that do not pair"
    return {"dml": path, "reads": reads, "inputs": inputs, "writes": list(dict.fromkeys(writes)), "outputs": outputs,
            "others": others, "scalars": scalars}


def draw(kind, shape, dice):
    rows, columns = shape
    if kind == "whole":
        return [[float(dice.randint(1, 6)) for _ in range(columns)] for _ in range(rows)]
    return [[dice.uniform(0.05, 1) if dice.random() < 0.8 else 0.0 for _ in range(columns)] for _ in range(rows)]


def put(path, cells):
    """MatrixMarket for R, and text cells."""
    rows, columns = len(cells), len(cells[0])
    held = [(i + 1, j + 1, v) for i, row in enumerate(cells) for j, v in enumerate(row) if v != 0]
    lines = ["%%MatrixMarket matrix coordinate real general", f"{rows} {columns} {len(held)}"]
    path.write_text("\n".join(lines + [f"{i} {j} {v!r}" for i, j, v in held]) + "\n")
    cells_path = path.with_suffix(".ijv")  # the same for Gyre: what scripts' format="text" reads
    cells_path.write_text("".join(f"{i} {j} {v!r}\n" for i, j, v in held))
    Path(f"{cells_path}.mtd").write_text(f'{{"data_type": "matrix", "format": "text", "rows": {rows}, "cols": {columns}}}')


def prepare(pair, number, folder, seed):
    """The inputs of one try; its line for R's driver."""
    shapes, kind, scalar = KINDS[number]
    dice = random.Random(f"{seed} {pair['dml'].name} {number}")
    (folder / "in").mkdir(parents=True)
    (folder / "r").mkdir()
    for i, (_, name) in enumerate(pair["inputs"]):
        put(folder / "in" / f"{name}.mtx", draw(kind, shapes[min(i, len(shapes) - 1)], dice))
    args = {a: f"{folder}/in/" for a, _ in pair["inputs"]}
    args |= {a: f"{folder}/r/" for a, _ in pair["outputs"]} | {a: scalar for a in pair["scalars"]}
    line = [args.get(str(i + 1), "1") for i in range(max(int(a) for a in args))]
    return "\t".join([str(folder), str(pair["dml"].with_suffix(".R")), *line])


def run_gyre(gyre, library, pair, number, folder):
    shapes, _, scalar = KINDS[number]
    args = {name: scalar for name in pair["others"]}
    for i, (arg, options) in enumerate(pair["reads"]):
        shape = shapes[min(i, len(shapes) - 1)]
        args[arg] = f"{folder}/in/{pair['inputs'][i][1]}.ijv"
        for what, size in re.findall(r"(rows|cols)\s*=\s*(\$\w+)", options):
            args[size] = str(shape[0 if what == "rows" else 1])
        for name in re.findall(r"format\s*=\s*(\$\w+)", options):
            args[name] = "text"
    for i, name in enumerate(pair["writes"]):
        args[name] = f"{folder}/g{i}"
    line = [args.get(f"${i + 1}", "1") for i in range(max(int(a[1:]) for a in args if a[1:].isdigit()))]
    named = [f"{a[1:]}={v}" for a, v in args.items() if not a[1:].isdigit()]
    command = [gyre, "script", "-f", str(pair["dml"]), "-args", *line] + (["-nvargs", *named] if named else [])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, env=os.environ | {"GYRE_DML_PATH": library})
    return done.returncode == 0, done.stderr.strip().split("\n")[0]


def cells_of(path):
    """{(row, column): value} without zeros, of MatrixMarket, text cells or one number."""
    cells, lines = {}, path.read_text().split("\n")
    is_market = lines[0].startswith("%%")
    is_array = is_market and " array " in lines[0]
    is_mirrored = is_market and "symmetric" in lines[0]
    rows = [line.split() for line in lines if line.strip() and not line.startswith("%")]
    if is_array:
        size = int(float(rows[0][0]))
        return {(i % size + 1, i // size + 1): float(r[0]) for i, r in enumerate(rows[1:]) if float(r[0]) != 0}
    for row in rows[1:] if is_market else rows:
        if len(row) == 1:
            row = ["1", "1", {"TRUE": "1", "FALSE": "0"}.get(row[0], row[0])]
        value = 1.0 if len(row) == 2 else float(row[2])
        for place in {(int(row[0]), int(row[1])), (int(row[1]), int(row[0])) if is_mirrored else (int(row[0]), int(row[1]))}:
            cells[place] = value
    return {place: value for place, value in cells.items() if value != 0}


def difference(pair, folder):
    """What differs first; None: nothing."""
    for i, (_, name) in enumerate(dict.fromkeys(pair["outputs"])):
        ours, theirs = cells_of(folder / f"g{i}"), cells_of(folder / "r" / name)
        if max((p[1] for p in theirs), default=1) == 1 < max((p[1] for p in ours), default=1):
            ours = {(j, i): v for (i, j), v in ours.items()}  # a row of Gyre's is a vector in R
        for place in sorted(set(ours) | set(theirs)):
            a, b = ours.get(place, 0.0), theirs.get(place, 0.0)
            is_lost = abs(b) >= 1e308 and not math.isfinite(a)  # writeMM has no NaN and no Inf
            if not (a == b or is_lost or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-8 * max(1, abs(a), abs(b))):
                return f"{name}[{place[0]}, {place[1]}] is {a!r}, in R {b!r}"
    return None


NO_INPUT = "not run: R takes none of the inputs"


def compare(gyre, library, pair, numbers, folder_of):
    """R recycles where scripts refuse: of the inputs that R takes, the first that Gyre takes too."""
    what, text = NO_INPUT, ""
    for number in numbers:
        try:
            is_done, text = run_gyre(gyre, library, pair, number, folder_of(number))
            if is_done:
                text = difference(pair, folder_of(number))
                return ("agree" if text is None else "differ"), text
            what = "refused"
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
            return "not compared", str(error)
    return what, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gyre", default="build/release/gyre")
    parser.add_argument("--take", type=int, default=0, help="so many pairs, chosen at random; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name what differs and what is refused")
    given = parser.parse_args()
    gyre = str(Path(given.gyre).resolve())
    library = f"{given.folder.resolve()}/scripts/builtin"
    paths = sorted(p for p in (given.folder / "src/test/scripts").rglob("*.dml") if p.with_suffix(".R").exists())
    random.Random(given.seed).shuffle(paths)
    counts, pairs = collections.Counter(), []
    for path in paths[:given.take or None]:
        pair = plan(path)
        if isinstance(pair, str):
            counts[f"not run: {pair}"] += 1
        else:
            pairs.append(pair)
    with tempfile.TemporaryDirectory() as top:
        top = Path(top)
        lines = [prepare(pair, k, top / f"{n}-{k}", given.seed) for n, pair in enumerate(pairs) for k in range(len(KINDS))]
        (top / "driver.R").write_text(DRIVER)
        (top / "jobs").write_text("\n".join(lines) + "\n")
        ran = subprocess.run(["Rscript", str(top / "driver.R"), str(top / "jobs")], capture_output=True, text=True)
        accepted = {line.split("\t")[0] for line in ran.stdout.split("\n") if line.endswith("\tok")}
        for n, pair in enumerate(pairs):
            numbers = [k for k in range(len(KINDS)) if str(top / f"{n}-{k}") in accepted]
            what, text = compare(gyre, library, pair, numbers, lambda k, n=n: top / f"{n}-{k}")
            counts[what] += 1
            if given.list and what not in ("agree", NO_INPUT):
                print(f"{what}: {pair['dml'].relative_to(given.folder)}: {text}")
    for what, count in sorted(counts.items()):
        print(f"{count:5} {what}")
    compared = counts["agree"] + counts["differ"] + counts["refused"]
    print(f"{counts['agree']} of {compared} agree: {100 * counts['agree'] / max(1, compared):.1f} %")
    return 0 if compared else 1


if __name__ == "__main__":
    sys.exit(main())
