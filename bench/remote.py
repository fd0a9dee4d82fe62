#!/usr/bin/env python3
"""Reading one object of S3: `gyre store cat` (signed ranges, one asked for ahead) beside curl (one plain GET), in turn, from s3rver on
loopback; and what a start of gyre costs.

Usage: remote.py BUILD/bench [--size 256] [--rounds 5] [--csv FILE]
SIZE is in MiB. s3rver is in build/s3rver (scripts/s3rver). Bytes go to /dev/null; those of the first round are compared by their sums.
"""
import argparse
import hashlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server goes, too
S3RVER = "build/s3rver/node_modules/s3rver/bin/s3rver.js"


def serve(folder):
    server = subprocess.Popen(["node", "--openssl-legacy-provider", S3RVER, "-d", folder, "-a", "127.0.0.1", "-p", "0", "-s",
                               "--configure-bucket", "bench"], stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if "listening on" in line:
            return server, line.rsplit(":", 1)[1].strip()
    sys.exit("remote.py: s3rver does not start")


def timed(command, out, environment):
    began = time.monotonic()
    subprocess.run(command, stdout=out, env=environment, check=True)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--csv")
    options = parser.parse_args()
    gyre = os.path.join(options.build, "gyre")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        server, port = serve(folder)
        try:
            environment = dict(os.environ, GYRE_S3_ENDPOINT=f"http://127.0.0.1:{port}", AWS_ACCESS_KEY_ID="S3RVER",
                               AWS_SECRET_ACCESS_KEY="S3RVER")
            path, uri = os.path.join(folder, "object"), "s3://bench/object"
            with open(path, "wb") as file:
                for _ in range(options.size):
                    file.write(os.urandom(1 << 20))
            subprocess.run([gyre, "store", "cp", path, uri], env=environment, check=True)
            readers = {"gyre": [gyre, "store", "cat", uri],
                       "curl": ["curl", "-sf", f"http://127.0.0.1:{port}/bench/object"]}
            with open(path, "rb") as file:
                wanted = hashlib.file_digest(file, "sha256").digest()
            for name, command in readers.items():
                read = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True).stdout
                if hashlib.sha256(read).digest() != wanted:
                    sys.exit(f"remote.py: {name} read something else")
            seconds = {name: [] for name in readers}
            for _ in range(options.rounds):
                for name, command in readers.items():
                    seconds[name].append(timed(command, subprocess.DEVNULL, environment))
        finally:
            server.kill()
            server.wait()
    rows = [("reader", "MiB", "seconds", "MB_per_s")]
    for name, times in seconds.items():
        middle = statistics.median(times)
        rows.append((name, options.size, f"{middle:.4f}", f"{options.size * 1.048576 / middle:.0f}"))
    starts = sorted(timed([gyre, "--version"], subprocess.DEVNULL, None) for _ in range(50))
    for row in rows:
        print("%-8s %6s %10s %10s" % row)
    print(f"curl / gyre: {statistics.median(seconds['curl']) / statistics.median(seconds['gyre']):.2f} of curl's throughput")
    print(f"gyre --version: {starts[len(starts) // 2] * 1e3:.2f} ms")
    if options.csv:
        with open(options.csv, "w") as file:
            file.writelines(",".join(str(word) for word in row) + "\n" for row in rows)


main()
