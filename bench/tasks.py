"""Rows of bench/jobs.py: an empty job, a million empty tasks, and their journal read again. On a disk: syncing is part of them."""
import os
import re
import statistics

import peers

GRAPH = re.compile(r"([\d.]+) us a vertex, peak ([\d.]+) MB, read again in ([\d.]+) s")
DRIVER = re.compile(r"([\d.]+) us a task \(floor ([\d.]+)\)")
EMPTY = re.compile(r"median ([\d.]+) ms.* floor ([\d.]+)")
RUNS = 3  # of the empty job, a round


def measure(options, work, report):
    graph = os.path.join(options.build, "bench_flow_graph")
    state, folder = os.path.join(work, "state"), os.path.join(work, "graph")
    os.mkdir(state)
    empty = peers.Peer("empty job", [graph, "empty", folder, str(RUNS)], environment={"XDG_STATE_HOME": state}, fresh=folder)
    public = peers.Peer("a graph", [graph, "graph", folder], environment={"XDG_STATE_HOME": state}, fresh=folder)
    driver = peers.Peer("its driver", [os.path.join(options.build, "bench_flow_tasks"), "1000000", "2", work])
    said = {peer.name: [] for peer in (empty, public, driver)}
    patterns = {"empty job": EMPTY, "a graph": GRAPH, "its driver": DRIVER}

    def keep(peer):
        found = patterns[peer.name].search(peer.said.decode())
        if found is None:
            raise SystemExit(f"{peer.name}: said '{peer.said.decode()}'")
        said[peer.name].append([float(number) for number in found.groups()])

    peers.in_turn([empty, public, driver], options.rounds, after=keep)
    job_ms, job_floor = (statistics.median(column) for column in zip(*said["empty job"]))
    task_us, peak_mb, again_s = (statistics.median(column) for column in zip(*said["a graph"]))
    driver_us, floor_us = (statistics.median(column) for column in zip(*said["its driver"]))
    print(f"tasks of the driver alone, without the graph: {driver_us:.2f} us each")
    report.row(f"empty job, exec to exit, synced to {file_system(work)}", job_ms, 60, "ms", floor=job_floor)
    report.row("1,000,000 tasks with two edges, each", task_us, 5, "us", floor=floor_us)
    report.row("1,000,000 tasks: the manager's peak", peak_mb, 500, "MB")
    report.row("1,000,000 tasks: restart", again_s, 1, "s")


def file_system(path):
    """What the folder lies on, by the longest mount point above it."""
    with open("/proc/mounts") as mounts:
        points = [line.split()[1:3] for line in mounts]
    path = os.path.realpath(path)
    above = [(len(point), kind) for point, kind in points if os.path.commonpath([point, path]) == point]
    return max(above)[1]
