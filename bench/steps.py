#!/usr/bin/env python3
"""Training steps of Gyre against PyTorch: same inputs, same run, alternating, medians of CPU time.

Usage: steps.py STEPS_BINARY [--csv FILE] [--rounds N] [--python PYTHON] [--peak GFLOPS] [--only MODEL]
                [--precision bf16]
Both processes live through the whole comparison; each round runs a few steps of one, then of the other.
First both run three steps without dropout and their losses are compared. With --precision bf16 Gyre's float32 step
runs beside its own of 16 bits and PyTorch's under torch.autocast, and the ratio to float32 is printed, too; the losses
of the first step may then differ by 0.01.
"""
import argparse
import os
import statistics
import subprocess
import sys

CASES = [("mlp", 64, 0.75), ("mlp", 256, 0.85), ("mlp", 1024, 0.93), ("lenet", 64, 0.65), ("lenet", 256, 0.65),
         ("gpt", 8, 0.85)]
BF16_CASES = [("mlp", 1024, 0.9), ("lenet", 64, 0.9), ("gpt", 8, 0.9)]
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
    kinds = [ours, torch]
    if options.precision != "f32":
        kinds = [ours + [options.precision], torch + [options.precision], ours]
    checks = [Peer(kind + ["nodropout"], TUNED if kind[0] == options.binary else tuned) for kind in kinds]
    losses = [peer.run(3 if options.precision == "f32" else 1)[1] for peer in checks]
    for peer in checks:
        peer.close()
    apart = max(losses) - min(losses)
    if apart > (1e-4 * abs(losses[1]) if options.precision == "f32" else 0.01):
        sys.exit(f"{model} {batch}: losses differ: {losses}")

    peers = [Peer(kind, {} if kind[0] == options.binary else tuned) for kind in kinds]
    steps = max(2, int(0.15 / peers[1].run(3)[0]))
    for peer in peers:
        peer.run(3)
    rounds = []
    for round in range(options.rounds):
        order = list(range(len(peers)))
        if round % 2 == 1:
            order.reverse()
        times = {k: peers[k].run(steps)[0] for k in order}
        rounds.append([times[k] for k in range(len(peers))])
    about = " ".join(peers[1].about)
    for peer in peers:
        peer.close()
    medians = [statistics.median(column) * 1e3 for column in zip(*rounds)]
    ratios = [statistics.median(row[0] / row[k] for row in rounds) for k in range(1, len(peers))]
    floor = flops(model, batch) / (options.peak * (1 if options.precision == "f32" else 2) * 1e9)
    wide = [medians[2], ratios[1]] if len(peers) > 2 else []
    return [model, batch, medians[0], medians[1], ratios[0], bar, floor * 1e3] + wide + [about]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--csv")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--compile", action="store_true", help="the peer compiles and fuses its step")
    parser.add_argument("--peak", type=float, default=268.0, help="float32 GFLOP/s of one core; of bf16 twice that")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--only", default="", help="a model, or a model and batch as mlp64")
    options = parser.parse_args()
    cases = CASES if options.precision == "f32" else BF16_CASES
    rows = [compare(options, *case) for case in cases if f"{case[0]}{case[1]}".startswith(options.only)]
    heads = ["gyre ms", "torch ms", "ratio", "bar", "floor ms"]
    heads += ["f32 ms", "of f32"] if options.precision != "f32" else []
    print(f"{'model':8}{'batch':>6}" + "".join(f"{head:>10}" for head in heads) + "  peer")
    for model, batch, *figures, about in rows:
        print(f"{model:8}{batch:6}" + "".join(f"{figure:10.3f}" for figure in figures) + f"  {about}")
    if options.csv:
        with open(options.csv, "w") as out:
            out.write(",".join(["model", "batch"] + [head.replace(" ", "_") for head in heads] + ["peer"]) + "\n")
            for row in rows:
                out.write(",".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) + "\n")


if __name__ == "__main__":
    main()
