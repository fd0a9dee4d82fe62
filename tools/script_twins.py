#!/usr/bin/env python3
"""Run scripts of SystemDS that have an R twin beside them, and count how many give what R gives.

usage: tools/script_twins.py FOLDER [--gyre build/release/gyre] [--take N] [--seed N] [--list] [--only TEXT]

FOLDER is a checkout of SystemDS (its src/test/scripts is searched); nothing of it is kept. Needs
Rscript with the packages Matrix and matrixStats. A pair is taken when all that its two scripts
want is files and the same number of scalars: inputs are drawn at random, as its JUnit test draws
them where DRAWS says how, else in the shapes and kinds of KINDS until R accepts them (R recycles
what scripts refuse, so that its word is not the last); both results are compared cell by cell.
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
# What single pairs want: shapes, how cells are drawn (of each input, the last one is repeated), scalars in their order.
DRAWS = {
    "applications/descriptivestats/Categorical": ([(60, 1)], "whole", ["2"]),
    "applications/descriptivestats/CategoricalCategorical": ([(90, 1)], "whole", ["2"]),
    "applications/descriptivestats/CategoricalCategoricalWithWeightsTest": ([(90, 1)], "whole", ["2"]),
    "applications/descriptivestats/OddsRatio": ([(60, 1)], "two", ["2"]),
    "applications/descriptivestats/ScaleCategorical": ([(60, 1)], ["whole", "real"], ["2"]),
    "applications/descriptivestats/ScaleCategoricalWithWeightsTest": ([(60, 1)], ["whole", "real", "whole"], ["2"]),
    "applications/descriptivestats/WeightedCategoricalTest": ([(60, 1)], "whole", ["2"]),
    "applications/id3/id3": ([(60, 5), (60, 1)], "whole", ["2"]),
    "applications/linear_regression/LinearRegression": ([(30, 7), (30, 1)], "real", ["1.0E-8"]),
    "functions/binary/matrix/IQM": ([(50, 1)], "real", ["2"]),
    "functions/builtin/intersect": ([(12, 1), (9, 1)], "whole", ["2"]),
    "functions/builtin/lmpredict": ([(30, 5), (30, 1)], "real", ["2"]),
    "functions/builtin/logsumexp": ([(20, 10)], "real", ["rows"]),
    "functions/builtin/setdiff": ([(12, 1), (9, 1)], "whole", ["2"]),
    "functions/builtin/steplm": ([(10, 3), (10, 1)], "real", ["2"]),
    "functions/builtin/symmetricDifference": ([(12, 1), (9, 1)], "whole", ["2"]),
    "functions/builtin/union": ([(12, 1), (9, 1)], "whole", ["2"]),
    "functions/misc/ZeroMatrix_RemoveEmpty": ([(1, 1)], "real", ["7", "TRUE"]),
    "functions/recompile/grpagg_rand_recompile": ([(60, 2)], "whole", ["2"]),
    "functions/recompile/rblk_recompile2": ([(60, 1)], "whole", ["2"]),
    "functions/recompile/rblk_recompile3": ([(60, 1)], "whole", ["2"]),
    "functions/reorg/MatrixReshape1": ([(12, 6)], "real", ["8", "9"]),
    "functions/reorg/MatrixReshape2": ([(12, 6)], "real", ["8", "9"]),
    "functions/reorg/VectorReshape": ([(1, 72)], "real", ["8", "9"]),
    "functions/rewrite/RewriteDetMixed": ([(6, 6), (6, 6), (1, 1)], "real", ["2"]),
    "functions/rewrite/RewriteDetScalarMatrixMult": ([(6, 6), (1, 1)], "real", ["2"]),
    "functions/rewrite/RewriteIfElseMatrix": ([(10, 10)], "real", ["2"]),
    "functions/rewrite/RewriteIfElseScalar": ([(1, 1)], "real", ["TRUE"]),
    "functions/rewrite/RewritePushdownBinaryOperationOnDiag": ([(12, 1)], "real", ["1"]),
    "functions/rewrite/RewriteScalarMinusMatrixMinusScalar": ([(12, 12), (1, 1), (1, 1)], "real", ["2"]),
    "functions/rewrite/RewriteScalarPlusMatrixMinusScalar": ([(12, 12), (1, 1), (1, 1)], "real", ["2"]),
    "functions/rewrite/RewriteSimplifyUnion": ([(1, 1)], "real", ["1", "12"]),
    "functions/ternary/CTableRowHist": ([(40, 12)], "sparse", ["2"]),
}
# Tests that take the values in any order, and those whose tolerance is wide.
UNORDERED = {"functions/builtin/union", "functions/builtin/setdiff", "functions/builtin/symmetricDifference", "functions/builtin/intersect"}
TOLERANCES = {"functions/builtin/dist": 1e-3, "functions/builtin/logsumexp": 1e-4}
READ = re.compile(r"\bread\(\s*(\$\w+)\s*((?:,[^()]*)?)\)")
WRITE = re.compile(r"\bwrite\(\s*([^,]+?)\s*,\s*(\$\w+)")
WRITE_R = re.compile(r"\bwrite(?:MM)?\(\s*(?:as\()?\s*([\w.]*)[^\n]*?paste\(\s*args\[\d+\]\s*,\s*\"/?(\w+)\"")
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


def key_of(pair):
    """Its name in the tables above."""
    return pair["dml"].as_posix().split("src/test/scripts/")[-1].removesuffix(".dml")


def draws(pair):
    """All that may be tried, as [(shapes of the inputs, their kinds, scalars)], each as long as what it is for."""
    def stretch(what, length):
        what = what if isinstance(what, list) else [what]
        return (what + what[-1:] * length)[:length]

    count, names = len(pair["inputs"]), len(pair["others"])
    made = []
    for shapes, kinds, scalars in [DRAWS[key_of(pair)]] if key_of(pair) in DRAWS else KINDS:
        shapes = stretch(shapes, count)
        for i, (_, options) in enumerate(pair["reads"]):  # sizes that the script itself has
            sizes = {what: int(size) for what, size in re.findall(r"(rows|cols)\s*=\s*(\d+)", options)}
            shapes[i] = (sizes.get("rows", shapes[i][0]), sizes.get("cols", shapes[i][1]))
        made.append((shapes, stretch(kinds, count), stretch(scalars, names)))
    return made


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
    reads, written = READ.findall(dml), WRITE.findall(dml)
    writes = [arg for _, arg in written]
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
    names_r = dict(WRITE_R.findall(twin))
    if len(dict(written)) == len(set(writes)) and set(names_r) == set(dict(written)):  # both call what they write the same
        writes, outputs = [arg for _, arg in written], [(outputs[0][0], names_r[name]) for name, _ in written]
    return {"dml": path, "reads": reads, "inputs": inputs, "writes": list(dict.fromkeys(writes)), "outputs": outputs,
            "others": others, "scalars": scalars}


def draw(kind, shape, dice):
    rows, columns = shape
    if kind == "whole":
        return [[float(dice.randint(1, 6)) for _ in range(columns)] for _ in range(rows)]
    if kind == "two":
        return [[float(dice.randint(1, 2)) for _ in range(columns)] for _ in range(rows)]
    if kind == "sparse":
        return [[float(dice.randint(1, 6)) if dice.random() < 0.3 else 0.0 for _ in range(columns)] for _ in range(rows)]
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
    shapes, kinds, scalars = draws(pair)[number]
    dice = random.Random(f"{seed} {pair['dml'].name} {number}")
    (folder / "in").mkdir(parents=True)
    (folder / "r").mkdir()
    for i, (_, name) in enumerate(pair["inputs"]):
        put(folder / "in" / f"{name}.mtx", draw(kinds[i], shapes[i], dice))
    args = {a: f"{folder}/in/" for a, _ in pair["inputs"]}
    args |= {a: f"{folder}/r/" for a, _ in pair["outputs"]} | dict(zip(pair["scalars"], scalars))
    line = [args.get(str(i + 1), "1") for i in range(max(int(a) for a in args))]
    return "\t".join([str(folder), str(pair["dml"].with_suffix(".R")), *line])


def run_gyre(gyre, library, pair, number, folder):
    shapes, _, scalars = draws(pair)[number]
    args = dict(zip(pair["others"], scalars))
    for i, (arg, options) in enumerate(pair["reads"]):
        args[arg] = f"{folder}/in/{pair['inputs'][i][1]}.ijv"
        for what, size in re.findall(r"(rows|cols)\s*=\s*(\$\w+)", options):
            args[size] = str(shapes[i][0 if what == "rows" else 1])
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


def in_order(cells):
    return {(i + 1, 1): v for i, v in enumerate(sorted(cells.values()))}


def as_text(gyre, path):
    """What write(format="binary") wrote is read by Gyre alone."""
    if Path(f"{path}.mtd").exists() and b'"format": "binary"' in Path(f"{path}.mtd").read_bytes():
        subprocess.run([gyre, "script", "-s", 'write(read($1), $2, format="text")', "-args", str(path), f"{path}.t"], check=True)
        return Path(f"{path}.t")
    return path


def difference(gyre, pair, folder):
    """What differs first; None: nothing."""
    tolerance = TOLERANCES.get(key_of(pair), 1e-8)
    for i, (_, name) in enumerate(dict.fromkeys(pair["outputs"])):
        ours, theirs = cells_of(as_text(gyre, folder / f"g{i}")), cells_of(folder / "r" / name)
        if key_of(pair) in UNORDERED:
            ours, theirs = in_order(ours), in_order(theirs)
        if max((p[1] for p in theirs), default=1) == 1 < max((p[1] for p in ours), default=1):
            ours = {(j, i): v for (i, j), v in ours.items()}  # a row of Gyre's is a vector in R
        for place in sorted(set(ours) | set(theirs)):
            a, b = ours.get(place, 0.0), theirs.get(place, 0.0)
            is_lost = abs(b) >= 1e308 and not math.isfinite(a)  # writeMM has no NaN and no Inf
            if not (a == b or is_lost or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance * max(1, abs(a), abs(b))):
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
                text = difference(gyre, pair, folder_of(number))
                return ("agree" if text is None else "differ"), text
            what = "refused"
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            return "not compared", str(error)
    return what, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gyre", default="build/release/gyre")
    parser.add_argument("--take", type=int, default=0, help="so many pairs, chosen at random; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="pairs whose paths have this text")
    parser.add_argument("--list", action="store_true", help="name what differs and what is refused")
    given = parser.parse_args()
    gyre = str(Path(given.gyre).resolve())
    library = f"{given.folder.resolve()}/scripts/builtin"
    paths = sorted(p for p in (given.folder / "src/test/scripts").rglob("*.dml") if p.with_suffix(".R").exists() and given.only in str(p))
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
        lines = [prepare(pair, k, top / f"{n}-{k}", given.seed) for n, pair in enumerate(pairs) for k in range(len(draws(pair)))]
        (top / "driver.R").write_text(DRIVER)
        (top / "jobs").write_text("\n".join(lines) + "\n")
        ran = subprocess.run(["Rscript", str(top / "driver.R"), str(top / "jobs")], capture_output=True, text=True)
        accepted = {line.split("\t")[0] for line in ran.stdout.split("\n") if line.endswith("\tok")}
        for n, pair in enumerate(pairs):
            numbers = [k for k in range(len(draws(pair))) if str(top / f"{n}-{k}") in accepted]
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
