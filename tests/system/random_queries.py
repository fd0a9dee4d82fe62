#!/usr/bin/env python3
"""Random queries over random tables, answered by PostgreSQL 15 and by Gyre with 1, 2 and 4 workers and with little memory.

usage: random_queries.py GYRE FOLDER SEED COUNT     exit status 77: there is no PostgreSQL 15 (says so)
"""

import collections
import csv
import glob
import io
import os
import random
import shutil
import subprocess
import sys
from decimal import Decimal, InvalidOperation

GYRE, FOLDER, SEED, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CHANCE = random.Random(SEED)
TABLES = {
    "t": [("a", "bigint"), ("b", "bigint"), ("p", "numeric(10,2)"), ("s", "text"), ("d", "date")],
    "u": [("a", "bigint"), ("k", "bigint"), ("x", "float8"), ("s", "text")],
    "v": [("k", "bigint"), ("y", "numeric(8,3)"), ("e", "date"), ("f", "boolean")],
}
# A value of each type, so that no column is one of texts for want of values.
SURE = {"text": "x", "boolean": "true", "date": "2024-02-29", "bigint": "1", "float8": "1.5", "numeric(10,2)": "1.00", "numeric(8,3)": "1.000"}
TEXTS = ["x", "y", "xy", "x y", "Xyz", "a,b", 'q"q', "line\nend", "", "é"]


def value(kind):
    if CHANCE.random() < 0.12:
        return None
    if kind == "bigint":
        return str(CHANCE.choice([CHANCE.randint(0, 3), CHANCE.randint(-20, 20)]))
    if kind.startswith("numeric"):
        places = int(kind[:-1].split(",")[1])
        return f"{Decimal(CHANCE.randint(-5000, 5000)).scaleb(-places):.{places}f}"
    if kind == "float8":
        return repr(CHANCE.randint(-4096, 4096) / 1024)
    if kind == "date":
        return f"20{CHANCE.randint(20, 24)}-{CHANCE.randint(1, 12):02}-{CHANCE.randint(1, 28):02}"
    if kind == "boolean":
        return CHANCE.choice(["true", "false"])
    return CHANCE.choice(TEXTS)


def quoted(text):
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if text == "" or any(c in text for c in ',"\n') else text


def make_tables():
    for name, columns in TABLES.items():
        end = CHANCE.choice(["\n", "\r\n"])
        rows = [",".join(column for column, _ in columns)]
        for _ in range(CHANCE.choice([1, 30, 200])):
            rows.append(",".join(quoted(value(kind)) for _, kind in columns))
        rows.append(",".join(SURE[kind] for _, kind in columns))
        with open(f"{FOLDER}/{name}.csv", "wb") as file:
            file.write((b"\xef\xbb\xbf" if CHANCE.random() < 0.3 else b"") + (end.join(rows) + end).encode())


# ---- Queries ----


def columns_of(scope, kinds):
    return [f"{alias}.{column}" for alias, table in scope for column, kind in TABLES[table] if kind.split("(")[0] in kinds]


def number(scope, depth=2):
    found = columns_of(scope, ("bigint", "numeric"))
    form = CHANCE.randint(0, 6 if depth > 0 else 1)
    if form <= 1 or not found:
        return CHANCE.choice(found) if found and CHANCE.random() < 0.8 else str(CHANCE.randint(-3, 9))
    if form == 2:
        return f"({number(scope, depth - 1)} {CHANCE.choice('+-*')} {number(scope, depth - 1)})"
    if form == 3:
        return f"coalesce({number(scope, depth - 1)}, {CHANCE.randint(0, 5)})"
    if form == 4:
        return f"case when {condition(scope, depth - 1)} then {number(scope, depth - 1)} else {number(scope, depth - 1)} end"
    if form == 5:
        return f"abs({number(scope, depth - 1)})"
    texts = columns_of(scope, ("text",))
    return f"length({CHANCE.choice(texts)})" if texts else "4"


def sub_query(scope, depth):
    table = CHANCE.choice(list(TABLES))
    inner = [("z", table)]
    ints = [column for column, kind in TABLES[table] if kind == "bigint"]
    outer = columns_of(scope, ("bigint",))
    where = f"z.{CHANCE.choice(ints)} = {CHANCE.choice(outer)}" if outer and CHANCE.random() < 0.5 else condition(inner, 0)
    form = CHANCE.randint(0, 4)
    if form == 0:
        return f"{CHANCE.choice(['', 'not '])}exists (select 1 from {table} z where {where})"
    if form == 1 and outer:
        return f"{CHANCE.choice(outer)} {CHANCE.choice(['', 'not '])}in (select z.{CHANCE.choice(ints)} from {table} z where {where})"
    if form == 2:
        return f"{number(scope, 0)} {CHANCE.choice(['<', '>=', '='])} (select {CHANCE.choice(['max', 'min', 'sum', 'count'])}(z.{CHANCE.choice(ints)}) from {table} z where {where})"
    if form == 3:
        return f"{number(scope, 0)} {CHANCE.choice(['<', '>=', '=', '<>'])} {CHANCE.choice(['any', 'all'])} (select z.{CHANCE.choice(ints)} from {table} z where {condition(inner, 0)})"
    return f"(select count(*) from {table} z where {where}) > {CHANCE.randint(0, 3)}"


def condition(scope, depth=2):
    form = CHANCE.randint(0, 9 if depth > 1 else 8 if depth > 0 else 5)
    texts, dates = columns_of(scope, ("text",)), columns_of(scope, ("date",))
    if form == 0 and texts:
        pattern = CHANCE.choice(["x%", "%y", "_"])
        return f"{CHANCE.choice(texts)} {CHANCE.choice(['like', 'not like'])} '{pattern}'"
    if form == 1 and dates:
        return f"{CHANCE.choice(dates)} {CHANCE.choice(['<', '>='])} date '2022-06-15'"
    if form == 2:
        return f"{number(scope, 0)} is {CHANCE.choice(['', 'not '])}null"
    if form == 3:
        return f"{number(scope, 0)} {CHANCE.choice(['', 'not '])}in (1, 2, {CHANCE.choice(['3', 'null', '-4'])})"
    if form == 4:
        return f"{number(scope, 0)} between -2 and {number(scope, 0)}"
    if form in (6, 7):
        return f"({condition(scope, depth - 1)} {CHANCE.choice(['and', 'or'])} {condition(scope, depth - 1)})"
    if form == 8:
        return f"not ({condition(scope, depth - 1)})"
    if form == 9:
        return sub_query(scope, depth)
    return f"{number(scope, depth - 1)} {CHANCE.choice(['=', '<>', '<', '>', '<=', '>='])} {number(scope, depth - 1)}"


def source():
    names = CHANCE.sample(list(TABLES), CHANCE.choice([1, 1, 2, 2, 3]))
    scope = [(f"{name}{i}", name) for i, name in enumerate(names)]
    text = f"{scope[0][1]} {scope[0][0]}"
    for i in range(1, len(scope)):
        kind = CHANCE.choice(["join", "left join", "right join", "full join"])
        here, before = columns_of(scope[i : i + 1], ("bigint",)), columns_of(scope[:i], ("bigint",))
        on = f"{CHANCE.choice(before)} = {CHANCE.choice(here)}"
        if kind != "full join" and CHANCE.random() < 0.4:
            on += f" and {condition(scope[: i + 1], 0)}"
        text += f" {kind} {scope[i][1]} {scope[i][0]} on {on}"
    return text, scope


def aggregate(scope):
    form = CHANCE.randint(0, 4)
    if form == 0:
        return "count(*)"
    if form == 1:
        return f"count(distinct {number(scope, 0)})"
    return f"{CHANCE.choice(['sum', 'min', 'max', 'avg', 'count'])}({number(scope, 1)})"


def query(depth=1):
    text, scope = source()
    where = f" where {condition(scope)}" if CHANCE.random() < 0.7 else ""
    form = CHANCE.randint(0, 4 if depth > 0 else 3)
    if form == 4:
        sides = []
        for _ in range(2):
            text, scope = source()
            sides.append(f"select {number(scope, 1)}, {CHANCE.choice(columns_of(scope, ('bigint',)))} from {text}")
        return f"{sides[0]} {CHANCE.choice(['union', 'union all', 'intersect', 'intersect all', 'except', 'except all'])} {sides[1]}"
    if form in (2, 3):
        keys = [CHANCE.choice(columns_of(scope, ("bigint", "text", "date")) + [number(scope, 1)]) for _ in range(CHANCE.randint(0, 2))]
        keys = [f"({key} + 0)" if key.lstrip("-").isdigit() else key for key in keys]
        values = keys + [aggregate(scope) for _ in range(CHANCE.randint(1, 3))]
        by = f" group by {', '.join(keys)}" if keys else ""
        having = f" having {aggregate(scope)} > {CHANCE.randint(0, 3)}" if CHANCE.random() < 0.3 else ""
        return f"select {', '.join(values)} from {text}{where}{by}{having}"
    values = [CHANCE.choice([number(scope), CHANCE.choice(columns_of(scope, ("text", "date", "boolean", "float8", "bigint")))]) for _ in range(CHANCE.randint(1, 3))]
    distinct = "distinct " if CHANCE.random() < 0.3 else ""
    body = f"select {distinct}{', '.join(values)} from {text}{where}"
    if CHANCE.random() < 0.3:
        order = ", ".join(f"{i + 1}{CHANCE.choice(['', ' desc', ' nulls first'])}" for i in range(len(values)))
        body += f" order by {order} limit {CHANCE.randint(0, 20)}"
    return body


# ---- Answers ----


def start_postgres():
    found = sorted(glob.glob("/usr/lib/postgresql/15/bin"))
    if not found:
        print("skipped: there is no PostgreSQL 15 (Debian's postgresql-15)")
        sys.exit(77)
    data = f"{FOLDER}/pg"
    os.mkdir(data)
    prefix = []
    if os.getuid() == 0:
        shutil.chown(data, "nobody")
        prefix = ["setpriv", "--reuid=nobody", "--clear-groups"]
    os.chmod(FOLDER, 0o755)
    run = lambda *line: subprocess.run([*prefix, *line], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    run(f"{found[0]}/initdb", "-D", f"{data}/d", "-E", "UTF8", "--locale=C", "-U", "gyre", "-A", "trust")
    run(f"{found[0]}/pg_ctl", "-D", f"{data}/d", "-w", "-t", "60", "-l", f"{data}/log", "-o", f"-k {data} -h '' -c fsync=off", "start")
    return lambda: run(f"{found[0]}/pg_ctl", "-D", f"{data}/d", "-m", "immediate", "stop")


def psql(text):
    return subprocess.run(["psql", "-h", f"{FOLDER}/pg", "-U", "gyre", "-d", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", text], capture_output=True, text=True)


def load():
    for name, columns in TABLES.items():
        text = f"drop table if exists {name}; create table {name} ({', '.join(f'{c} {k}' for c, k in columns)})"
        done = psql(text)
        lines = open(f"{FOLDER}/{name}.csv", "rb").read()
        with open(f"{FOLDER}/pg/{name}.load", "wb") as file:
            file.write(lines[3:] if lines.startswith(b"\xef\xbb\xbf") else lines)
        done = psql(f"\\copy {name} from '{FOLDER}/pg/{name}.load' csv header")
        if done.returncode != 0:
            sys.exit(f"seed {SEED}: {done.stderr}")


def csv_rows(text):
    return list(csv.reader(io.StringIO(text)))


def normal(cell):
    try:
        return f"{Decimal(cell):.6f}".rstrip("0").rstrip(".").replace("-0", "0") if Decimal(cell) == 0 else f"{Decimal(cell):.6f}".rstrip("0").rstrip(".")
    except InvalidOperation:
        return {"t": "true", "f": "false"}.get(cell, cell.removesuffix(" 00:00:00"))


OUTCOMES = collections.Counter()


def compare(text):
    wanted = psql(f"copy ({text}) to stdout csv")
    answers = []
    for options in (["-w", "1"], ["-w", "2"], ["-w", "4"], ["-w", "2", "--memory", "256KiB"]):
        answers.append(subprocess.run([GYRE, "query", "--tables", FOLDER, "--format", "csv", *options, text], capture_output=True, text=True))
    got = answers[0]
    if any((one.returncode, one.stdout) != (got.returncode, got.stdout) for one in answers):
        return f"other bytes with other options: {[one.stderr for one in answers]}"
    if wanted.returncode != 0 or got.returncode != 0:
        OUTCOMES["not supported" if "not supported" in got.stderr else "refused by both"] += 1
        if "not supported" in got.stderr:
            return None
        return None if wanted.returncode != 0 and got.returncode != 0 else f"PostgreSQL: {wanted.stderr or 'an answer'}\nGyre: {got.stderr or 'an answer'}"
    left = sorted(tuple(map(normal, row)) for row in csv_rows(wanted.stdout))
    right = sorted(tuple(map(normal, row)) for row in csv_rows(got.stdout)[1:])
    OUTCOMES["answered"] += 1
    left = [row or ("",) for row in left]
    right = [row or ("",) for row in right]
    return None if sorted(left) == sorted(right) else f"PostgreSQL: {left[:20]}\nGyre: {right[:20]}"


def ask_all(make, ask, judge, outcomes):
    """Ask COUNT queries, of new tables each 25; how many have another answer."""
    failed = 0
    for i in range(COUNT):
        if i % 25 == 0:
            make()
        text = ask()
        wrong = judge(text)
        if wrong is not None:
            print(f"seed {SEED}, query {i}: {text}\n{wrong}\n", flush=True)
            failed += 1
    print(f"{COUNT - failed} of {COUNT} queries are answered as by PostgreSQL 15: {dict(outcomes)}")
    return failed


def ask_simple():
    def make():
        make_tables()
        load()

    return ask_all(make, query, compare, OUTCOMES)


def main():
    stop = start_postgres()
    try:
        failed = ask_simple()
    finally:
        stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
