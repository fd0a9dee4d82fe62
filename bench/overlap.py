#!/usr/bin/env python3
"""What exchanging gradients beside the backward pass gains: `gyre train --overlap on` against `off`, two ranks.

Usage: overlap.py GYRE_BINARY DIGITS_FOLDER [--pairs N] [--csv FILE]
Each pair runs both ways, which goes first alternates; the table has medians over the pairs, per step. Two ranks of one
worker on two cores: run it on a quiet machine, or under `chrt -r 10` on a busy one (as the committed results were).
"""
import argparse
import gzip
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

CASES = [("mlp", 1024, 200), ("lenet", 64, 200)]  # model, batch over both ranks, steps
REPORT = re.compile(r"trained (\d+) steps in ([\d.]+) s .*exposed communication ([\d.]+) s \(hidden ([\d.]+) s\)")


def with_small_test(data, folder):
    """The same digits to train, 64 to test: the time of tests is not what is looked at."""
    for name in os.listdir(data):
        if name.startswith("train-"):
            shutil.copy(os.path.join(data, name), folder)
        elif name.startswith("t10k-"):
            with (gzip.open if name.endswith(".gz") else open)(os.path.join(data, name), "rb") as file:
                whole = file.read()
            head, item = (16, 784) if "images" in name else (8, 1)
            with open(os.path.join(folder, name.removesuffix(".gz")), "wb") as file:
                file.write(whole[:4] + (64).to_bytes(4, "big") + whole[8:head + 64 * item])


def once(options, model, batch, steps, overlap, folder):
    """Milliseconds a step: all, exposed communication, hidden communication."""
    child = subprocess.run(
        [options.binary, "train", model, "--data", os.path.join(folder, "digits"), "--epochs", "1000", "--ranks", "2", "--workers", "1", "--quiet",
         "--batch", str(batch), "--steps-max", str(steps), "--overlap", overlap, "--output", os.path.join(folder, "out")],
        capture_output=True, text=True)
    found = REPORT.search(child.stdout)
    if child.returncode != 0 or found is None or int(found.group(1)) != steps:
        sys.exit(f"{options.binary} ended with {child.returncode}: {child.stdout}{child.stderr}")
    return [1000 * float(found.group(i)) / steps for i in (2, 3, 4)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("data")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--csv")
    options = parser.parse_args()
    lines = ["model,batch,overlap,step_ms,exposed_ms,hidden_ms"]
    for model, batch, steps in CASES:
        times = {"on": [], "off": []}
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "digits"))
            with_small_test(options.data, os.path.join(folder, "digits"))
            once(options, model, batch, 5, "on", folder)  # warms files and kernels
            for pair in range(options.pairs):
                for overlap in ("on", "off") if pair % 2 == 0 else ("off", "on"):
                    times[overlap].append(once(options, model, batch, steps, overlap, folder))
        medians = {way: [statistics.median(run[i] for run in runs) for i in range(3)] for way, runs in times.items()}
        for way, (step, exposed, hidden) in medians.items():
            print(f"{model:6} batch {batch:5}  overlap {way:3}  {step:7.2f} ms a step, "
                  f"exposed {exposed:.2f}, hidden {hidden:.2f}")
            lines.append(f"{model},{batch},{way},{step:.2f},{exposed:.2f},{hidden:.2f}")
        gains = [off[0] / on[0] for on, off in zip(times["on"], times["off"])]
        print(f"{model:6} off takes {statistics.median(gains):.3f} of on (median of pairs, {min(gains):.3f} to {max(gains):.3f})")
    if options.csv:
        with open(options.csv, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
