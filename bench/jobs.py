#!/usr/bin/env python3
"""Jobs beside other programs: all rows of "as fast as" for one machine, in turn, outputs compared, with their bars.

Usage: jobs.py BUILD/bench [--rounds 7] [--rows NAME,...] [--python PROGRAM] [--archive linux-source-6.1.tar.xz] [--folder WORK]
               [--disk FOLDER] [--results FOLDER]
Rows: words, whole, index, top, sort, memory, tasks; heavy (30 % of one key) only when named. PROGRAM is a python with duckdb,
whose rows are left out without it. Inputs and outputs lie in WORK: on a file system in memory, where there is room for them, so
that disks are nobody's time; rows whose syncing counts use FOLDER. Both are left as they were, also after Ctrl-C.
"""
import argparse
import os
import shutil
import signal
import sys
import tempfile

import inputs
import peers
import sort
import tasks
import words

ARCHIVE = "/usr/src/linux-source-6.1.tar.xz"
GB = 10_000_000  # records
NEEDED = {"words": 3, "whole": 3, "index": 2, "top": 2, "sort": 5, "memory": 13, "heavy": 4, "tasks": 0}  # GB of files at once
ROWS = {
    "words": words.measure_count,
    "whole": words.measure_whole,
    "index": words.measure_index,
    "top": lambda options, texts, work, report: sort.measure_top(options, work, report, 10_600_000),
    "sort": lambda options, texts, work, report: sort.measure_sort(options, work, report, GB),
    "memory": lambda options, texts, work, report: sort.measure_sort(options, work, report, 4 * GB, sort.MEMORY),
    "heavy": lambda options, texts, work, report: sort.measure_sort(options, work, report, GB, sort.HEAVY_MEMORY, 30),
    "tasks": lambda options, texts, work, report: tasks.measure(options, work, report),
}


def free_bytes(folder):
    """What a file system has left; of one in memory what the machine has, with a quarter for programs."""
    left = shutil.disk_usage(folder).free
    if tasks.file_system(folder) == "tmpfs":
        left = min(left, peers.available_bytes() * 3 // 4)
    return left


def choose_folder(wanted, needed):
    """The first folder with room: what was asked for, TMPDIR, memory, the system's."""
    folders = [wanted] if wanted else [os.environ.get("TMPDIR"), "/dev/shm", tempfile.gettempdir(), "/var/tmp"]
    for folder in folders:
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK) and free_bytes(folder) >= needed:
            return folder
    raise SystemExit(f"no room for {needed / 1e9:.0f} GB of files in {', '.join(filter(None, folders))}: name a folder (--folder, TMPDIR)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", default="words,whole,index,top,sort,memory,tasks")
    parser.add_argument("--python")
    parser.add_argument("--archive", default=ARCHIVE)
    parser.add_argument("--folder")
    parser.add_argument("--disk")
    parser.add_argument("--results")
    options = parser.parse_args()
    rows = options.rows.split(",")
    if not set(rows) <= set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(set(rows) - set(ROWS)))}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    peers.stop_with_cleaning()
    report = peers.Report(options.results)
    if not os.path.exists(options.archive) and set(rows) & set(inputs.OF):
        for row in [row for row in rows if row in inputs.OF]:
            report.absent(row, f"no {options.archive} (scripts/deps bench)")
        rows = [row for row in rows if row not in inputs.OF]
    folder = choose_folder(options.folder, max([NEEDED[row] for row in rows], default=0) * 10**9)
    with tempfile.TemporaryDirectory(prefix=".gyre-bench-", dir=folder) as work, \
            tempfile.TemporaryDirectory(prefix=".gyre-bench-", dir=options.disk or options.build) as disk:
        texts = inputs.Texts(options.archive, work, rows)
        for row in rows:
            print(f"-- {row}, in {tasks.file_system(disk if row == 'tasks' else work)}", flush=True)
            with tempfile.TemporaryDirectory(dir=disk if row == "tasks" else work) as own:
                ROWS[row](options, texts, own, report)
            texts.done(row)
        all_met = report.end()
    return 0 if all_met else 1


try:
    sys.exit(main())
except KeyboardInterrupt:  # end as programs do that know nothing of signals: a script around this one ends too
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
