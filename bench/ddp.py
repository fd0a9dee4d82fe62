#!/usr/bin/env python3
"""Two ranks of one core each: a GPT's training step of Gyre against PyTorch's DistributedDataParallel over gloo.

Usage: ddp.py STEPS_BINARY GYRE_BINARY [--csv FILE] [--rounds N] [--python PYTHON] [--batch B]
Both live through the whole comparison; each round runs a few steps of one, then of the other, and which goes first
alternates. The GPT has 4 layers of width 256, 4 heads, windows of 128 of 1,024 tokens, and is updated by Adam; half of
the batch is on each rank. First both run three steps and their losses are compared. The table has medians over the
rounds of wall time, so run it on a quiet machine with a core a rank. PYTHON has PyTorch, of PyPI in an environment.
"""
import argparse
import os
import statistics
import sys

from steps import TUNED, Peer


class Ranks(Peer):
    def run(self, steps):
        """Seconds of a step, the loss, and of our own side the seconds of a step that communication is exposed."""
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        seconds, loss, *exposed = map(float, self.process.stdout.readline().split())
        return seconds / steps, loss, exposed[0] / steps if exposed else 0


def tuned():
    environment = dict(TUNED)
    if "avx512f" in open("/proc/cpuinfo").read():
        environment["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    return environment


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("gyre")
    parser.add_argument("--csv")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5, help="of each side a round")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    batch = str(options.batch)
    ours = Ranks([options.gyre, "run", "--ranks", "2", options.binary, "gpt", batch], {})
    theirs = Ranks([options.python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_peer.py"), "gpt", batch, "ddp"],
                   tuned())
    losses = [side.run(3)[1] for side in (ours, theirs)]
    if abs(losses[0] - losses[1]) > 1e-4 * abs(losses[1]):
        sys.exit(f"losses differ after three steps: {losses[0]} and {losses[1]}")
    rounds = []
    for number in range(options.rounds):
        first, second = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        times = {first: first.run(options.steps), second: second.run(options.steps)}
        rounds.append((times[ours][0], times[theirs][0], times[ours][2]))
    about = " ".join(theirs.about)
    ours.close()
    theirs.close()
    mine, peer, exposed = (statistics.median(column) for column in zip(*rounds))
    speedup = statistics.median(b / a for a, b, _ in rounds)
    share = statistics.median(100 * e / a for a, _, e in rounds)
    print(f"{'batch':>6}{'gyre ms':>10}{'ddp ms':>10}{'ddp / gyre':>12}{'exposed ms':>12}{'exposed %':>11}  peer")
    print(f"{options.batch:6}{mine * 1e3:10.2f}{peer * 1e3:10.2f}{speedup:12.2f}{exposed * 1e3:12.3f}{share:11.1f}  {about}")
    print("bars: ddp / gyre at least 1.3, exposed at most 8 %")
    if options.csv:
        with open(options.csv, "w") as out:
            out.write("batch,gyre_ms,ddp_ms,ddp_over_gyre,exposed_ms,exposed_percent,peer\n")
            out.write(f"{options.batch},{mine * 1e3:.3f},{peer * 1e3:.3f},{speedup:.3f},{exposed * 1e3:.3f},{share:.2f},{about}\n")


if __name__ == "__main__":
    main()
