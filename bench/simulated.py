#!/usr/bin/env python3
"""A step as `gyre train --simulate` plays it beside one that runs: four models on one and two ranks of this machine.

Usage: simulated.py GYRE_BINARY DIGITS_FOLDER TEXT [--rounds N] [--csv FILE]
A real step is the difference of a long and a short training, so that compiling is not in it; of all rounds the smallest
counts on both sides. Told are the median error, and how many pairs of meshes of a model that differ by more than a fifth
stand in the wrong order. Two ranks on two cores: run it on a quiet machine, or under `chrt -f 1` on a busy one (as the
committed results were: what waits for a message from a rank that is not scheduled waits for the scheduler).
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

MODELS = {"softmax": (20, 220), "mlp": (10, 60), "lenet": (3, 9), "gpt": (3, 9)}  # steps of the short and the long training
MESHES = {"data=1": 1, "data=2": 2, "pipe=2": 2, "model=2": 2}
UPDATE = re.compile(r"([\d.]+) ms an update")
STEP = re.compile(r"([\d.]+) ms ")


def output(command):
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}: {child.stdout}{child.stderr}")
    return child.stdout


def real(train, mesh, steps, folder):
    took = [n * float(UPDATE.search(output(train + ["--mesh", mesh, "--steps-max", str(n), "--stats", "-q", "-o", folder])).group(1))
            for n in steps]
    return (took[1] - took[0]) / (steps[1] - steps[0])


def simulated(train, mesh, ranks):
    return float(STEP.search(output(train + ["--mesh", mesh, "--simulate", f"gpus={ranks}"]).splitlines()[-1]).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("digits")
    parser.add_argument("text")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--csv")
    options = parser.parse_args()
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for model, steps in MODELS.items():
                train = [options.binary, "train", model, "--data", options.text if model == "gpt" else options.digits]
                for mesh, ranks in MESHES.items():
                    found = real(train, mesh, steps, folder), simulated(train, mesh, ranks)
                    best[model, mesh] = tuple(map(min, best.get((model, mesh), found), found))
    lines = ["model,mesh,real_ms,simulated_ms,error"]
    lines += [f"{model},{mesh},{ran:.3f},{played:.3f},{played / ran - 1:+.3f}" for (model, mesh), (ran, played) in best.items()]
    pairs = [(a, b) for a in best for b in best if a[0] == b[0] and best[a][0] > 1.2 * best[b][0]]
    wrong = sum(best[a][1] <= best[b][1] for a, b in pairs)
    print("\n".join(lines))
    print(f"median error {statistics.median(abs(p / r - 1) for r, p in best.values()):.1%}, order wrong in {wrong} of {len(pairs)} pairs, "
          f"load {os.getloadavg()[0]:.1f}")
    if options.csv:
        with open(options.csv, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
