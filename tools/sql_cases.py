#!/usr/bin/env python3
"""Compare a table of SQL expressions with a PostgreSQL server, or write it anew with its answers.

usage: tools/sql_cases.py [--write] FILE PSQL...

FILE has lines {"expression", "type", "value"}, of which --write needs the first alone; PSQL... is
the command that reaches a server: psql -h /run/postgresql. Texts are ordered by bytes: the
server's locale is C for all but the case of letters.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

TYPES = {"integer": "int64", "bigint": "int64", "smallint": "int64", "numeric": "decimal",
         "double precision": "double", "boolean": "bool", "text": "text", "unknown": "text",
         "character varying": "text", "date": "date", "timestamp without time zone": "timestamp",
         "timestamp with time zone": "timestamp", "interval": "interval"}
LINE = re.compile(r'\s*\{("(?:[^"\\]|\\.)*")(?:,\s*("(?:[^"\\]|\\.)*"),\s*("(?:[^"\\]|\\.)*"))?\},?\s*')


def ask(psql, expression):
    query = f"select pg_typeof(e), case when e is null then 'null' else e::text end from (select {expression} as e) t"
    answer = subprocess.run([*psql, "-XAtc", query], capture_output=True, text=True)
    if answer.returncode != 0:
        return None, answer.stderr.strip().splitlines()[0]
    kind, value = answer.stdout.rstrip("\n").split("|", 1)
    return TYPES.get(kind, kind), value


def main(words):
    write = words[:1] == ["--write"]
    path, *psql = words[1:] if write else words
    out, wrong = [], 0
    for line in Path(path).read_text().splitlines():
        found = LINE.fullmatch(line)
        if not found:
            out.append(line)
            continue
        expression, kind, value = (json.loads(text) if text else None for text in found.groups())
        said = ask(psql, expression)
        if said[0] is None or (not write and said != (kind, value)):
            print(f"{expression}: {kind} {value}, PostgreSQL: {said[0]} {said[1]}")
            wrong += 1
        row = ", ".join(json.dumps(text or "", ensure_ascii=False) for text in (expression, *said))
        out.append(f"    {{{row}}},")
    if write:
        Path(path).write_text("\n".join(out) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
