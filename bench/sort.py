"""Rows of bench/jobs.py: sorting 100-byte records by 10-byte keys, and the most popular pages of a log."""
import os

import peers

MEMORY = 256 << 20  # the budget of "4 GB under 256 MiB"
HEAVY_MEMORY = 100_000_000
COLUMNS = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(10))
READ = "read_csv('{path}', delim='{by}', header=false, quote='', escape='', auto_detect=false, columns={{{columns}}})"


def gyre(options, work, name, verb, memory, given, parts):
    folder = os.path.join(work, verb)
    return peers.Peer(name, [os.path.join(options.build, "bench_jobs"), verb, folder, "2", str(memory), given],
                      [os.path.join(folder, "out", f"part-{i:05}") for i in range(parts)], fresh=folder)


def measure_sort(options, work, report, records, memory=0, heavy=0):
    """Gyre's job, its output synced, and the same by runs beside GNU sort and a copy by two threads."""
    given = os.path.join(work, "input")
    records_of = os.path.join(options.build, "bench_records")
    peers.call([records_of, "sort", given, str(records), "7", str(heavy)])
    os.mkdir(os.path.join(work, "temporary"))
    # As much as is needed for GNU sort to have its best; it writes runs beside the input.
    size = [f"-S{memory >> 10}K", "--batch-size=64"] if memory else ["-S3G"]
    out, copies = os.path.join(work, "gnu"), os.path.join(work, "copy")
    copy = peers.Peer("floor: copy", [records_of, "copy", given, copies], fresh=copies)
    job = gyre(options, work, "gyre, 2 processes", "sort", memory, given, 2)
    gnu = peers.Peer("GNU sort", ["sort", "-s", "-k1.1,1.10", "--parallel=2", *size, given, "-o", out], [out],
                     {"LC_ALL": "C", "TMPDIR": os.path.join(work, "temporary")})
    everyone = [copy, job, gnu]
    if not memory:
        everyone.insert(2, gyre(options, work, "gyre, by runs", "runs", 0, given, 2))
    outputs = peers.Outputs()

    def compare(peer):  # at once: the outputs of all would be too much for a file system in memory
        if peer is not copy:
            outputs.check(peer, "bytes", peers.digest(peer.outputs))
        peer.clear()

    if memory:
        job.run(watched=True)
        compare(job)
    peers.in_turn(everyone, options.rounds, lambda: peers.warm_file(given), compare)
    name = "sort_heavy" if heavy else "sort_memory" if memory else "sort"
    what = f"sort of {records // 10_000_000} GB{f' under {memory >> 20} MiB' if memory else ''}{f', {heavy} % of one key' if heavy else ''}"
    report.peers(name, everyone, gnu)
    report.equal(what, outputs)
    report.row(f"{what}: GNU sort's wall over Gyre's", peers.wall(gnu) / peers.wall(job), 2 if memory else 4, "times", False,
               floor=peers.wall(gnu) / peers.wall(copy))
    if memory:
        report.row(f"{what}: RssAnon over the budget", job.memory / memory, 1.1, "times")


def measure_top(options, work, report, lines, pages=200_000):
    log = os.path.join(work, "log")
    records = os.path.join(options.build, "bench_records")
    peers.call([records, "log", log, str(lines), "7", str(pages)])
    job = gyre(options, work, "gyre, 2 processes", "top", 0, log, 1)
    floor = peers.Peer("floor: scan", [records, "scan", log])
    everyone = [floor, job]
    one, ten = READ.format(path=log, by="\x01", columns="'l': 'VARCHAR'"), READ.format(path=log, by=" ", columns=COLUMNS)
    tail = "group by p order by c desc, p limit 5"
    if options.python:
        everyone.append(peers.Database("DuckDB, 2 threads", options.python,
                                       [f"select c6 p, count(*) c from {ten} {tail}",
                                        f"select split_part(l, ' ', 7) p, count(*) c from {one} {tail}"], 2))
    outputs = peers.Outputs()

    def compare(peer):
        if peer is job:
            with open(job.outputs[0]) as file:
                outputs.check(peer, "rows", [(page, int(count)) for page, count in (line.split() for line in file)])
        elif peer is not floor:
            outputs.check(peer, "rows", [(page, count) for page, count in peer.said])

    peers.in_turn(everyone, options.rounds, lambda: peers.warm_file(log), compare)
    report.peers("top", everyone, everyone[-1])
    report.equal("top 5", outputs)
    if options.python:
        report.row("top 5 of a log of 1 GB: wall over DuckDB's", peers.wall(job) / peers.wall(everyone[-1]), 1, "times",
                   floor=peers.wall(floor) / peers.wall(everyone[-1]))
    else:
        report.absent("top 5 of a log beside DuckDB", "GYRE_DUCKDB names no python with it")
