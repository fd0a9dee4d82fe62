#!/usr/bin/env python3
"""Those of random_queries.py, and as many of all types, nested deeply, which Gyre answers in one process, with little memory and as jobs.

usage: random_wide.py GYRE FOLDER SEED COUNT     exit status 77: there is no PostgreSQL 15 (says so)
"""

import collections
import re
import subprocess
import sys

from random_queries import CHANCE, FOLDER, GYRE, SEED, ask_all, ask_simple, normal, psql, quoted, start_postgres

KINDS = {"int": "bigint", "num": "numeric(12,3)", "real": "float8", "text": "text", "date": "date", "time": "timestamp", "bool": "boolean"}
# Columns by their names in SQL; the last table never has rows.
TABLES = {
    "t": [("a", "int"), ("b", "int"), ("p", "num"), ("s", "text"), ("d", "date"), ("w", "time"), ("f", "bool")],
    "u": [("a", "int"), ('"K k"', "int"), ("x", "real"), ("s", "text"), ("w", "time")],
    "v": [('"é,""q"', "int"), ("p", "num"), ("d", "date"), ("f", "bool"), ("n", "int")],
    "k": [("a", "int")],
    "e": [("a", "int"), ("p", "num"), ("x", "real"), ("s", "text"), ("d", "date"), ("w", "time"), ("f", "bool")],
}
TEXTS = ["x", "y", "xy", "x y", "X", "a,b", 'q"q', "line\nend", "", "é", "%", "_x", "\\", "12", " x ", "ß€😀"]
NUMBERS = {"int", "num", "real"}
COMPARED = ["=", "<>", "<", ">", "<=", ">="]
VIEWS = "".join(
    f"create view {name} as select * from read_csv('{FOLDER}/{name}.csv', columns => '{', '.join(f'{column} {KINDS[kind]}' for column, kind in columns)}');\n"
    for name, columns in TABLES.items()
)


def pick(*of):
    return CHANCE.choice(of)


def value(kind):
    if CHANCE.random() < 0.15:
        return None
    if kind == "int":
        return str(pick(CHANCE.randint(0, 3), CHANCE.randint(-20, 20), CHANCE.randint(0, 3), pick(2147483648, -3000000000)))
    if kind == "num":
        return f"{CHANCE.randint(-3000, 3000) / 1000:.3f}" if CHANCE.random() < 0.5 else f"{CHANCE.randint(-2, 2)}.{pick('000', '500')}"
    if kind == "real":
        return pick(repr(CHANCE.randint(-4096, 4096) / 1024), repr(CHANCE.randint(-2, 2) / 1.0), pick("NaN", "Infinity", "-Infinity", "-0", "0", "1.5", "2"))
    if kind == "date":
        return pick(f"20{CHANCE.randint(20, 24)}-{CHANCE.randint(1, 12):02}-{CHANCE.randint(1, 28):02}", "2024-02-29", "2024-05-31", "1969-12-31", "0001-01-01", "9999-12-31")
    if kind == "time":
        return pick(f"2024-0{CHANCE.randint(1, 3)}-{CHANCE.randint(1, 28):02} {CHANCE.randint(0, 23):02}:00:00", "2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-01-01 00:00:00")
    if kind == "bool":
        return pick("true", "false")
    return pick(*TEXTS)


def make_tables():
    for name, columns in TABLES.items():
        end = pick("\n", "\r\n")
        rows = [",".join('"' + column.strip('"') + '"' if '"' in column else column for column, _ in columns)]
        # The columns of "e" are of no rows; a skewed table has the same row often.
        for _ in range(0 if name == "e" else pick(1, 5, 12, 40, 40, 40, 150)):
            rows.append(rows[-1] if len(rows) > 1 and CHANCE.random() < 0.2 else ",".join(quoted(value(kind)) for _, kind in columns))
        with open(f"{FOLDER}/{name}.csv", "wb") as file:
            file.write((b"\xef\xbb\xbf" if CHANCE.random() < 0.3 else b"") + (end.join(rows) + pick(end, "" if rows[-1] != "" else end)).encode())


# ---- Expressions: scope is a list of (text, kind), outer ones behind ----


class Scope:
    def __init__(self, columns, outer=(), ctes=()):
        self.columns, self.outer, self.ctes = columns, list(outer), list(ctes)

    def of(self, kind):
        return [text for text, one in self.columns if one == kind]

    def of_outer(self, kind):
        return [text for text, one in self.outer if one == kind]


LITERALS = {
    "int": lambda: str(CHANCE.randint(-3, 9)),
    "num": lambda: pick("0.5", "1.25", "-2.000", "3.0"),
    "real": lambda: pick("1.5::float8", "'NaN'::float8", "-0.25::float8", "'-0'::float8", "'Infinity'::float8"),
    "text": lambda: "'" + pick(*TEXTS).replace("'", "''") + "'",
    "date": lambda: f"date '{pick('2022-06-15', '2024-02-29', '2023-12-31')}'",
    "time": lambda: f"timestamp '{pick('2024-02-29 12:00:00', '2024-01-31 23:59:59.999999', '1970-01-01 00:00:00')}'",
    "bool": lambda: pick("true", "false"),
}
INTERVALS = ["1 month", "-1 month", "13 months", "1 day", "36 hours", "1 year -1 day", "90 minutes 1.5 seconds", "-1 day 1 hour"]


def leaf(scope, kind):
    found = scope.of(kind)
    if found and CHANCE.random() < 0.85:
        return pick(*found)
    return f"null::{KINDS[kind]}" if CHANCE.random() < 0.08 else LITERALS[kind]()


def common(scope, kind, depth):
    a, b = expression(scope, kind, depth - 1), expression(scope, kind, depth - 1)
    return pick(
        f"coalesce({a}, {b})",
        f"case when {boolean(scope, depth - 1)} then {a} else {b} end",
        f"case {a} when {b} then {LITERALS[kind]()} when {LITERALS[kind]()} then {b} end",
        f"nullif({a}, {b})",
        f"greatest({a}, {b}, null)",
        f"least({a}, {b})",
    )


def own(scope, kind, depth):
    e = lambda of: expression(scope, of, depth - 1)
    if kind == "int":
        return pick(
            f"({e('int')} {pick('+', '-')} {e('int')})",
            f"({e('int')} % 7 * 3)",
            f"({e('int')} / {pick(2, 3, -7)})",
            f"({e('int')} % {pick(2, 5, -3)})",
            f"abs({e('int')})",
            f"length({e('text')})",
            f"position({e('text')} in {e('text')})",
            f"({e('date')} - {e('date')})",
            f"extract({pick('year', 'month', 'day', 'dow', 'doy', 'week', 'isoyear', 'quarter')} from {e(pick('date', 'time'))})::bigint",
            f"- ({e('int')})",
            f"round({e('num')})::bigint",
            f"octet_length({e('text')})",
            f"ascii({e('text')})",
            f"sign({e('int')})::bigint",
        )
    if kind == "num":
        return pick(f"({e('num')} {pick('+', '-')} {e(pick('num', 'int'))})", f"({leaf(scope, 'num')} * {leaf(scope, 'num')})", f"round({e('num')}, {pick(0, 1, 2)})", f"abs({e('num')})", f"trunc({e('num')})",
                    f"floor({e('num')})", f"ceil({e('num')})", f"mod({e('num')}, 0.75)", f"{e('int')}::numeric(30,2)", f"round({e('num')}, -1)")
    if kind == "real":
        return pick(f"({e('real')} {pick('+', '-', '*')} {leaf(scope, 'real')})", f"({e('num')})::float8", f"({e('int')})::float8", f"abs({e('real')})", f"floor({e('real')})", f"- {e('real')}", f"round({e('real')})")
    if kind == "text":
        return pick(
            f"({e('text')} || {e(pick('text', 'int'))})", f"{pick('upper', 'lower')}(replace(replace({e('text')}, 'é', ''), 'ß', ''))", f"{pick('trim', 'ltrim', 'rtrim', 'reverse')}({e('text')})", f"substring({e('text')} from {pick(-1, 0, 1, 2)} for {pick(0, 1, 2, 3)})",
            f"substring({e('text')} from {pick(-1, 0, 1, 2, 9)})", f"replace({e('text')}, {e('text')}, {e('text')})", f"{pick('left', 'right')}({e('text')}, {pick(-1, 0, 1, 2)})",
            f"{pick('lpad', 'rpad')}({e('text')}, {pick(-1, 0, 2, 5)}, 'ab')", f"({e(pick('int', 'date', 'time', 'bool'))})::text", f"concat({e('text')}, null, {e('int')})", f"repeat({leaf(scope, 'text')}, {pick(-1, 0, 2)})",
            f"split_part({e('text')}, 'x', {pick(1, 2, -1)})", f"translate({e('text')}, 'xya', 'ab')", f"concat_ws('-', {e('text')}, {e('text')})", f"({e('text')})::varchar(2)",
        )
    if kind == "date":
        return pick(f"({leaf(scope, 'date')} - {pick(-1, 0, 1, 31)})" if CHANCE.random() < 0.3 else LITERALS["date"](), f"({e('time')})::date", f"(date '2024-01-31' + {pick(0, 1, 30)})", f"({e('time')} - interval '1 day')::date")
    if kind == "time":
        return pick(f"({leaf(scope, 'time')} {pick('+', '-')} interval '{pick(*INTERVALS)}')", f"date_trunc('{pick('year', 'month', 'week', 'day', 'hour', 'quarter', 'minute')}', {e('time')})", f"({e('date')})::timestamp",
                    f"({LITERALS['date']()} + interval '{pick(*INTERVALS)}')")
    return boolean(scope, depth)


def expression(scope, kind, depth=2):
    if depth <= 0 or CHANCE.random() < 0.35:
        return leaf(scope, kind)
    if CHANCE.random() < 0.06 and depth > 1:
        return scalar(scope, kind)
    return common(scope, kind, depth) if CHANCE.random() < 0.3 else own(scope, kind, depth)


def boolean(scope, depth=2):
    kind = pick("int", "int", "num", "real", "text", "date", "time", "bool")
    deep = depth - 1
    form = CHANCE.randint(0, 13 if depth > 1 else 11 if depth > 0 else 5)
    e = lambda: expression(scope, pick(*NUMBERS) if kind in NUMBERS and CHANCE.random() < 0.3 else kind, deep)
    if form == 0:
        return f"{e()} is {pick('', 'not ')}null"
    if form == 1:
        return f"{e()} is {pick('', 'not ')}distinct from {e()}"
    if form == 2:
        return f"{e()} {pick('', 'not ')}in ({leaf(scope, kind)}, {LITERALS[kind]()}{pick('', ', null')})"
    if form == 3:
        return f"{e()} {pick('', 'not ')}between {pick('', 'symmetric ')}{leaf(scope, kind)} and {e()}"
    if form == 4:
        pattern = pick("x%", "%y", "_", "%", "", "%x%", "x_%", "_%_", "%\\\\%", "!%%")
        return pick(f"{expression(scope, 'text', deep)} {pick('', 'not ')}{pick('like', 'ilike')} '{pattern}'{' escape ' + chr(39) + '!' + chr(39) if pattern[:1] == '!' else ''}",
                    f"{expression(scope, 'text', deep)} {pick('~', '~*', '!~')} '{pick('^x', 'y$', '[a-z]+', 'x|é', '^.$')}'")
    if form == 5 and scope.of("bool"):
        return f"{leaf(scope, 'bool')} is {pick('', 'not ')}{pick('true', 'false', 'unknown')}"
    if form in (6, 7, 8):
        return f"({boolean(scope, deep)} {pick('and', 'or')} {boolean(scope, deep)})"
    if form == 9:
        return f"not ({boolean(scope, deep)})"
    if form == 10:
        return f"({boolean(scope, deep)}) is {pick('', 'not ')}{pick('true', 'false', 'unknown')}"
    if form >= 12:
        return inner(scope)
    return f"{e()} {pick(*COMPARED)} {e()}"


# ---- Sub-queries ----


def correlation(scope):
    """A condition of an inner scope, of its own columns, or of those of outer ones by an equality."""
    kind = pick("int", "int", "text", "date", "num")
    if scope.of(kind) and scope.of_outer(kind) and CHANCE.random() < 0.6:
        text = f"{pick(*scope.of(kind))} = {pick(*scope.of_outer(kind))}"
        return text if CHANCE.random() < 0.6 else f"{text} and {boolean(Scope(scope.columns), 0)}"
    return boolean(Scope(scope.columns), 1)


def opened(scope):
    text, columns = source(scope.ctes, 1)
    return text, Scope(columns, scope.columns, scope.ctes)


def scalar(scope, kind):
    text, here = opened(scope)
    alone = Scope(here.columns)
    if kind == "bool":
        what = f"bool_{pick('and', 'or')}({boolean(alone, 0)})"
    elif kind == "int" and CHANCE.random() < 0.5:
        what = pick("count(*)", f"count({leaf(alone, pick('int', 'text'))})", f"coalesce(max({leaf(alone, 'int')}), 0)", f"count(distinct {leaf(alone, 'int')})")
    else:
        what = f"{pick('min', 'max')}({expression(alone, kind, 1)})"
    return f"(select {what} from {text} where {correlation(here)})"


def inner(scope):
    text, here = opened(scope)
    alone = Scope(here.columns)
    kind = pick("int", "int", "text", "num", "date")
    form = CHANCE.randint(0, 3)
    if form == 0:
        return f"{pick('', 'not ')}exists (select {pick('1', '*')} from {text} where {correlation(here)})"
    if form == 1:
        where = f" where {correlation(here)}" if CHANCE.random() < 0.6 else ""
        return f"{expression(scope, kind, 1)} {pick('', 'not ')}in (select {expression(alone, kind, 1)} from {text}{where})"
    if form == 2:
        return f"{expression(scope, kind, 1)} {pick(*COMPARED)} {pick('any', 'all')} (select {expression(alone, kind, 1)} from {text} where {boolean(alone, 1)})"
    return f"{expression(scope, kind, 1)} {pick(*COMPARED)} {scalar(scope, kind)}"


# ---- Sources ----

NAMES = [0]


def fresh():
    NAMES[0] += 1
    return f"q{NAMES[0]}"


def single(ctes, depth):
    alias = fresh()
    form = CHANCE.random()
    if form < 0.15 and ctes:
        name, kinds = CHANCE.choice(ctes)
        return f"{name} {alias}", [(f"{alias}.c{i}", kind) for i, kind in enumerate(kinds)]
    if form < 0.4 and depth > 0:
        kinds = [pick(*KINDS) for _ in range(CHANCE.randint(1, 3))]
        return f"({body(kinds, ctes, depth - 1)}) as {alias}({', '.join(f'c{i}' for i in range(len(kinds)))})", [(f"{alias}.c{i}", kind) for i, kind in enumerate(kinds)]
    if form < 0.45:
        rows = ", ".join(f"({pick(1, 2, 3, 'null')}, {pick(LITERALS['text'](), 'null')})" for _ in range(CHANCE.randint(1, 4)))
        return f"(values (1, 'x'), {rows}) as {alias}(a, s)", [(f"{alias}.a", "int"), (f"{alias}.s", "text")]
    table = pick("t", "t", "t", "u", "u", "u", "v", "v", "k", "e")
    return f"{table} {alias}", [(f"{alias}.{column}", kind) for column, kind in TABLES[table]]


def joined(ctes, depth, count):
    if count == 1:
        return single(ctes, depth)
    left = pick(1, count - 1)
    a, here = joined(ctes, depth, left)
    b, there = joined(ctes, depth, count - left)
    both = here + there
    if left < count - left:
        b = f"({b})"
    kind = pick("join", "left join", "right join", "full join", "cross join", "left join")
    if kind == "cross join":
        return f"{a} cross join {b}", both
    last = lambda column: column.split(".")[-1]
    named = [(last(x), k) for x, k in here for y, other in there if k == other and k != "bool" and last(x) == last(y)]
    if named and CHANCE.random() < 0.3:
        name, kind_of = CHANCE.choice(named)
        if all(sum(last(x) == name for x, _ in side) == 1 for side in (here, there)):
            return f"{a} {kind} {b} using ({name})", both + ([(name, kind_of)] if count == 2 else [])
    pairs = [(x, y) for x, k in here for y, other in there if k == other and k != "bool" or {k, other} <= NUMBERS]
    on = " and ".join(f"{x} = {y}" for x, y in CHANCE.sample(pairs, min(len(pairs), pick(1, 1, 2))))
    if on == "":
        return (f"{a} {kind} {b} on {boolean(Scope(both), 0)}" if kind != "full join" else f"{a} cross join {b}"), both
    if kind != "full join" and CHANCE.random() < 0.4:
        on = f"{on} and {boolean(Scope(both, (), ctes), pick(0, 1, 2))}" if CHANCE.random() < 0.7 else boolean(Scope(both), 1)
    return f"{a} {kind} {b} on {on}", both


def source(ctes, depth):
    return joined(ctes, depth, pick(1, 1, 1, 2, 2, 3))


# ---- Selects: of columns of these kinds ----


def aggregated(scope, kind):
    alone = Scope(scope.columns)
    distinct = pick("", "", "distinct ")
    if kind == "int":
        return pick("count(*)", f"count({distinct}{expression(alone, pick('int', 'text', 'real', 'date'), 1)})", f"sum({distinct}{expression(alone, 'int', 1)} % 1000)::bigint", f"max({expression(alone, 'int', 1)})")
    if kind == "num":
        return pick(f"sum({distinct}{expression(alone, pick('num', 'int'), 1)})", f"avg({distinct}{expression(alone, pick('num', 'int'), 1)})", f"min({expression(alone, 'num', 1)})")
    if kind == "bool":
        return pick(f"bool_and({boolean(alone, 1)})", f"bool_or({boolean(alone, 1)})", f"every({boolean(alone, 0)})", f"count(*) > {pick(0, 1, 2)}")
    return f"{pick('min', 'max')}({expression(alone, kind, 1)})"


def grouped(kinds, ctes, depth):
    text, columns = source(ctes, depth)
    scope = Scope(columns, (), ctes)
    keys = [expression(Scope(columns), kind, pick(0, 0, 1)) for kind in kinds]
    is_key = [CHANCE.random() < 0.5 and any(name in key for name, _ in columns) for key in keys]
    values = [key if of else aggregated(scope, kind) for key, of, kind in zip(keys, is_key, kinds)]
    values = [pick(one, f"coalesce({one}, {LITERALS[kind]()})") if not of else one for one, of, kind in zip(values, is_key, kinds)]
    where = f" where {boolean(scope)}" if CHANCE.random() < 0.5 else ""
    by = [pick(key, str(i + 1)) for i, (key, of) in enumerate(zip(keys, is_key)) if of]
    if CHANCE.random() < 0.15 and columns:
        by.append(CHANCE.choice(columns)[0])
    having = f" having {pick('not ', '')}({aggregated(scope, 'bool')})" if CHANCE.random() < 0.3 else ""
    return f"select {', '.join(values)} from {text}{where}{' group by ' + ', '.join(by) if by else ''}{having}"


def plain(kinds, ctes, depth):
    if CHANCE.random() < 0.04:
        return f"select {', '.join(expression(Scope([]), kind, 1) for kind in kinds)}{pick('', ' where ' + boolean(Scope([]), 1))}"
    text, columns = source(ctes, depth)
    scope = Scope(columns, (), ctes)
    where = f" where {boolean(scope, pick(1, 2, 3))}" if CHANCE.random() < 0.6 else ""
    values = [expression(scope, kind) for kind in kinds]
    if CHANCE.random() < 0.15:
        by = [f"{expression(Scope(columns), pick(*KINDS), 1)}{pick('', ' desc')}", *[f"{i + 1}{pick('', ' desc nulls last')}" for i in range(len(kinds))]]
        by[0] = f"({by[0].removesuffix(' desc')} is null){' desc' if by[0].endswith(' desc') else ''}"
        return f"select {', '.join(values)} from {text}{where} order by {', '.join(by)} limit {pick(2, 7, 30)}"
    return f"select {pick('', '', 'distinct ')}{', '.join(values)} from {text}{where}"


def body(kinds, ctes, depth):
    form = CHANCE.random()
    if form < 0.12 and depth > 0:
        kind = pick("union", "union all", "intersect", "intersect all", "except", "except all")
        # A column of numbers of two types has the wider one; `kinds` say which.
        other = [pick("int", one) if one == "num" else pick("int", "num", one) if one == "real" else one for one in kinds]
        sides = [body(kinds, ctes, depth - 1), body(other, ctes, depth - 1)]
        CHANCE.shuffle(sides)
        text = f"({sides[0]}) {kind} ({sides[1]})"
    elif form < 0.45:
        text = grouped(kinds, ctes, depth)
    else:
        text = plain(kinds, ctes, depth)
    if CHANCE.random() < 0.2:
        order = [f"{i + 1}{pick('', ' desc', ' nulls first', ' desc nulls last', ' asc')}" for i in range(len(kinds))]
        CHANCE.shuffle(order)
        text += f" order by {', '.join(order)}{pick('', ' limit 0', ' limit 3', ' limit 5 offset 2', ' offset 1', ' offset 1000', ' limit 10')}"
    return text


def query():
    NAMES[0] = 0
    ctes, texts = [], []
    for i in range(pick(0, 0, 0, 1, 2)):
        kinds = [pick(*KINDS) for _ in range(CHANCE.randint(1, 3))]
        texts.append(f"c{i}({', '.join(f'c{j}' for j in range(len(kinds)))}) as ({body(kinds, ctes, 1)})")
        ctes.append((f"c{i}", kinds))
    text = body([pick(*KINDS) for _ in range(CHANCE.randint(1, 3))], ctes, 2)
    return f"with {', '.join(texts)} {text}" if texts else text


# ---- Answers ----


def load():
    for name, columns in TABLES.items():
        lines = open(f"{FOLDER}/{name}.csv", "rb").read()
        with open(f"{FOLDER}/pg/{name}.load", "wb") as file:
            file.write(lines[3:] if lines.startswith(b"\xef\xbb\xbf") else lines)
        done = psql(f"drop table if exists {name}; create table {name} ({', '.join(f'{c} {KINDS[k]}' for c, k in columns)})")
        done = psql(f"\\copy {name} from '{FOLDER}/pg/{name}.load' csv header") if done.returncode == 0 else done
        if done.returncode != 0:
            sys.exit(f"seed {SEED}: {done.stderr}")


CELL = re.compile(r'("(?:[^"]|"")*"|[^,\n]*)(,|\r?\n|$)')


def rows_of(text):
    """Rows of CSV, in which null is not the empty text."""
    rows, row, at = [], [], 0
    while at < len(text):
        cell = CELL.match(text, at)
        row.append("<null>" if cell[1] == "" else "'" + cell[1][1:-1].replace('""', '"') if cell[1][0] == '"' else cell[1])
        at = cell.end()
        if cell[2] != ",":
            rows.append(tuple(map(clean, row)))
            row = []
    return rows


def clean(cell):
    return normal(cell.removeprefix("'")) if cell != "'" else cell


OUTCOMES = collections.Counter()


def ask(text, options):
    try:
        done = subprocess.run([GYRE, "query", "--format", "csv", *options, VIEWS + text], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return 124, "", "no end in 120 s"


def compare(text):
    wanted = psql(f"copy ({text}) to stdout csv")
    got = ask(text, ["-w", "1"])
    options = pick(["-w", "2"], ["-w", "2", "--memory", "64KiB"], *[["-w", "1", "-p", str(p), "--split", str(split)] for p in (2, 3) for split in (64, 1024)])
    other = ask(text, options)
    if other[:2] != got[:2]:
        return f"other bytes with {options}: {other}\nin one process: {got}"
    if got[0] not in (0, 1) or (got[0] == 1 and not got[2].startswith("query:") and FOLDER not in got[2]):
        return f"ended with {got[0]}: {got[2]}"
    if "not supported" in got[2] or "outside 1 to 9999" in got[2]:
        OUTCOMES["not supported"] += 1
        return None
    if wanted.returncode != 0 or got[0] != 0:
        OUTCOMES["refused by both"] += 1
        return None if wanted.returncode != 0 and got[0] != 0 else f"PostgreSQL: {wanted.stderr or 'an answer'}\nGyre: {got[2] or 'an answer'}"
    OUTCOMES["answered"] += 1
    left, right = rows_of(wanted.stdout), rows_of(got[1])[1:]
    OUTCOMES["with rows"] += len(left) > 0
    if re.search(r"order by [0-9a-z, ]*$", text) is None:
        left, right = sorted(left), sorted(right)
    return None if left == right else f"PostgreSQL: {left[:20]}\nGyre: {right[:20]}"


def main():
    def make():
        make_tables()
        load()

    stop = start_postgres()
    try:
        failed = ask_simple() + ask_all(make, query, compare, OUTCOMES)
    finally:
        stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
