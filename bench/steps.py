#!/usr/bin/env python3
"""Training steps of Gyre against PyTorch: same inputs, same run, alternating, medians of CPU time.

Usage: steps.py STEPS_BINARY [--csv FILE] [--rounds N] [--python PYTHON] [--peak GFLOPS] [--only MODEL]
Both processes live through the whole comparison; each round runs a few steps of one, then of the other.
First both run three steps without dropout and their losses are compared.
"""
import argparse
import os
import statistics
import subprocess
import sys

CASES = [("mlp", 64, 0.75), ("mlp", 256, 0.85), ("mlp", 1024, 0.93), ("lenet", 64, 0.65), ("lenet", 256, 0.65),
         ("gpt", 8, 0.85)]
TUNED = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "1000000000",
         "MALLOC_TOP_PAD_": "268435456", "OMP_NUM_THREADS": "1"}


def flops(model, batch):
    """Multiply-adds of forward, input gradient (not of the first layer) and weight gradient, times two.

    Of a GPT's attention the half that a causal mask leaves: two products forward, five back.
    """
    if model == "gpt":
        layers, width, length, vocabulary = 4, 256, 128, 1024
        products = batch * length * (12 * layers * width * width + vocabulary * width)
        return 2 * (3 * products + 7 * layers * batch * length * length * width / 2)
    if model == "mlp":
        layers = [784 * 512, 512 * 512, 512 * 10]
    else:
        layers = [28 * 28 * 25 * 32, 14 * 14 * 25 * 32 * 64, 3136 * 512, 512 * 10]
    return 2 * batch * (3 * sum(layers) - layers[0])


class Peer:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.about = self.process.stdout.readline().split()[1:]
        if not self.about:
            sys.exit(f"{command[0]} did not start")

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        seconds, loss = self.process.stdout.readline().split()
        return float(seconds) / steps, float(loss)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def compare(options, model, batch, bar):
    tuned = dict(TUNED)
    if "avx512f" in open("/proc/cpuinfo").read():
        tuned["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    torch = [options.python, os.path.join(os.path.dirname(__file__), "torch_peer.py"), model, str(batch)]
    torch += ["compile"] if options.compile else []
    ours = [options.binary, model, str(batch)]
    checks = [Peer(ours + ["nodropout"], TUNED), Peer(torch + ["nodropout"], tuned)]
    losses = [peer.run(3)[1] for peer in checks]
    for peer in checks:
        peer.close()
    if abs(losses[0] - losses[1]) > 1e-4 * abs(losses[1]):
        sys.exit(f"{model} {batch}: losses differ after three steps: {losses[0]} and {losses[1]}")

    a, b = Peer(ours, {}), Peer(torch, tuned)
    steps = max(2, int(0.15 / b.run(3)[0]))
    a.run(3)
    pairs = []
    for round in range(options.rounds):
        first, second = (a, b) if round % 2 == 0 else (b, a)
        times = {first: first.run(steps)[0], second: second.run(steps)[0]}
        pairs.append((times[a], times[b]))
    about = " ".join(b.about)
    a.close()
    b.close()
    mine, theirs = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(x / y for x, y in pairs)
    floor = flops(model, batch) / (options.peak * 1e9)
    return [model, batch, mine * 1e3, theirs * 1e3, ratio, bar, floor * 1e3, about]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--csv")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--compile", action="store_true", help="the peer compiles and fuses its step")
    parser.add_argument("--peak", type=float, default=268.0, help="float32 GFLOP/s of one core")
    parser.add_argument("--only", default="", help="a model, or a model and batch as mlp64")
    options = parser.parse_args()
    rows = [compare(options, *case) for case in CASES if f"{case[0]}{case[1]}".startswith(options.only)]
    print(f"{'model':8}{'batch':>6}{'gyre ms':>10}{'torch ms':>10}{'ratio':>8}{'bar':>7}{'floor ms':>10}  peer")
    for model, batch, mine, theirs, ratio, bar, floor, about in rows:
        print(f"{model:8}{batch:6}{mine:10.3f}{theirs:10.3f}{ratio:8.3f}{bar:7.2f}{floor:10.3f}  {about}")
    if options.csv:
        with open(options.csv, "w") as out:
            out.write("model,batch,gyre_ms,torch_ms,ratio,bar,floor_ms,peer\n")
            for row in rows:
                out.write(",".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) + "\n")


if __name__ == "__main__":
    main()
