"""Rows of bench/jobs.py: word count of the text files of Linux and an inverted index of some."""
import os

import peers

MAWK = '{for(i=1;i<=NF;i++)c[$i]++}END{for(w in c)print w"\\t"c[w]}'
INDEX = """FNR == 1 { file++ }
{ for (i = 1; i <= NF; i++) if (last[$i] != file) { last[$i] = file; files[$i] = files[$i] " " (file - 1) } }
END { for (word in files) print word "\\t" substr(files[word], 2) }"""

READ = """read_csv('{path}', columns={{'l': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false, auto_detect=false,
    strict_mode=false, max_line_size=4000000, new_line='\\n')"""
SPLIT = "select unnest(string_split({line}, ' ')) w from {read}"
LINES = {"all": "replace(l, chr(9), ' ')", "some": "case when contains(l, chr(9)) then replace(l, chr(9), ' ') else l end"}


def queries(corpus, out):
    """Forms of the count that DuckDB may like: empty words left out before or after, tabs replaced in all or in some lines."""
    counts = []
    for line in LINES.values():
        words = SPLIT.format(line=line, read=READ.format(path=corpus))
        counts += [f"select w, count(*) n from ({words}) where w <> '' group by w",
                   f"select w, n from (select w, count(*) n from ({words}) group by w) where w <> ''"]
    return [f"copy ({count}) to '{out}' (header false, delimiter '\t', quote '', escape '')" for count in counts]


def gyre(options, work, name, verb, processes, *files):
    folder = os.path.join(work, f"{verb}{processes}")
    parts = [os.path.join(folder, "out", f"part-0000{i}") for i in range(2)]
    return peers.Peer(name, [os.path.join(options.build, "bench_jobs"), verb, folder, str(processes), "0", *files], parts, fresh=folder)


def bound(options, work, corpus):
    folder = os.path.join(work, "bound")
    return peers.Peer("bound", [os.path.join(options.build, "bench_words_bound"), corpus, folder],
                      [os.path.join(folder, f"part-0000{i}") for i in range(2)], fresh=folder)


def measure_count(options, inputs, work, report):
    corpus = inputs.quarter
    by_hand, alone = bound(options, work, corpus), gyre(options, work, "gyre, 1 process", "words", 1, corpus)
    two, own = gyre(options, work, "gyre, 2 processes", "words", 2, corpus), gyre(options, work, "gyre, own map", "lines", 1, corpus)
    one = os.path.join(work, "mawk")
    mawk = peers.Peer("mawk", ["sh", "-c", f"LC_ALL=C exec mawk '{MAWK}' '{corpus}' > '{one}'"], [one])
    databases = []
    for threads in (1, 2) if options.python else ():
        out = os.path.join(work, f"duckdb{threads}")
        databases.append(peers.Database(f"DuckDB, {threads} thread{'s'[:threads - 1]}", options.python, queries(corpus, out), threads, [out]))
    everyone = [by_hand, alone, two, own, mawk, *databases]
    outputs = peers.Outputs()

    def compare(peer):  # the bound and Gyre write the same bytes
        if peer in (by_hand, alone, two, own):
            outputs.check(peer, "bytes", peers.digest(peer.outputs))

    peers.in_turn(everyone, options.rounds, lambda: peers.warm_file(corpus), compare)
    for peer in (by_hand, mawk, *databases):
        outputs.check(peer, "lines", peers.sorted_digest(peer.outputs, work))
    report.peers("words", everyone, by_hand)
    report.equal("word count", outputs)
    report.row("word count: mawk's CPU over the bound's", peers.cpu(mawk) / peers.cpu(by_hand), 14, "times", False)
    report.row("word count: wall over the bound's", peers.wall(alone) / peers.wall(by_hand), 1.5, "times")
    report.row("word count: CPU over the bound's", peers.cpu(alone) / peers.cpu(by_hand), 1.8, "times")
    report.row("word count: a user's map, wall over the bound's", peers.wall(own) / peers.wall(by_hand), 2.5, "times")
    for ours, database in zip((alone, two), databases):
        report.row(f"word count: {database.name}, wall over Gyre's", peers.wall(database) / peers.wall(ours), 4, "times", False)
    if not databases:
        report.absent("word count beside DuckDB", "GYRE_DUCKDB names no python with it")


def measure_whole(options, inputs, work, report):
    by_hand, two = bound(options, work, inputs.whole), gyre(options, work, "gyre, 2 processes", "words", 2, inputs.whole)
    outputs = peers.Outputs()
    peers.in_turn([by_hand, two], options.rounds, lambda: peers.warm_file(inputs.whole),
                  lambda peer: outputs.check(peer, "bytes", peers.digest(peer.outputs)))
    report.peers("words_whole", [by_hand, two], by_hand)
    report.equal("word count of all", outputs)
    report.row("word count of all: two workers' wall over the bound's", peers.wall(two) / peers.wall(by_hand), 1, "times")


def measure_index(options, inputs, work, report):
    listed, script, theirs = (os.path.join(work, name) for name in ("list", "script", "mawk"))
    with open(listed, "w") as file:
        file.writelines(f"{path}\n" for path in inputs.files)
    with open(script, "w") as file:
        file.write(INDEX)
    job = gyre(options, work, "gyre, 2 processes", "index", 2, f"@{listed}")
    # One mawk for all files: with two, file numbers would begin anew.
    mawk = peers.Peer("mawk", ["sh", "-c", f"LC_ALL=C xargs -x -n {len(inputs.files)} -s 2000000 mawk -f {script} < {listed} > {theirs}"],
                      [theirs])
    floor = peers.Peer("floor: cat", ["sh", "-c", f"xargs -s 2000000 cat < {listed} > /dev/null"])
    outputs = peers.Outputs()

    def compare(peer):
        if peer is job:
            outputs.check(peer, "bytes", peers.digest(peer.outputs))

    peers.in_turn([floor, job, mawk], options.rounds, lambda: [peers.warm_file(path) for path in inputs.files], compare)
    for peer in (mawk, job):
        outputs.check(peer, "lines", peers.sorted_digest(peer.outputs, work))
    report.peers("index", [floor, job, mawk], mawk)
    report.equal("inverted index", outputs)
    report.row("inverted index: mawk's wall over Gyre's", peers.wall(mawk) / peers.wall(job), 8, "times", False,
               floor=peers.wall(floor) / peers.wall(job))
