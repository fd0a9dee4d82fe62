#!/usr/bin/env python3
"""TPC-H for query_tpch_test.c: data, query texts and answers of DuckDB's extension, and a comparison with Gyre's answers.

usage: tpch.py make FOLDER SCALE QUERY...   tables as FOLDER/NAME.csv, texts as FOLDER/N.sql, answers as FOLDER/N.expected
       tpch.py same EXPECTED ANSWER         exit status 0: the rows are equal, doubles to two places
"""

import csv
import json
import sys
from decimal import Decimal


def make(folder, scale, numbers):
    import duckdb

    database = duckdb.connect()
    database.execute("load tpch")
    database.execute(f"call dbgen(sf={float(scale)})")
    tables = database.execute("select table_name from information_schema.tables").fetchall()
    for (table,) in tables:
        database.execute(f"copy {table} to '{folder}/{table}.csv' (header true)")
    for number in numbers:
        text = database.execute("select query from tpch_queries() where query_nr = ?", [int(number)]).fetchone()[0]
        answer = database.execute(text)
        kinds = [str(column[1]) for column in answer.description]
        rows = [[None if value is None else str(value) for value in row] for row in answer.fetchall()]
        with open(f"{folder}/{number}.sql", "w") as file:
            file.write(text)
        with open(f"{folder}/{number}.expected", "w") as file:
            json.dump({"kinds": kinds, "rows": rows}, file)


def is_same(kind, expected, got):
    if expected is None or got == "":
        return expected is None and got == ""
    if kind in ("NUMBER", "DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        return abs(Decimal(expected) - Decimal(got)) <= Decimal("0.01")
    return expected == got


def same(expected, answer):
    with open(expected) as file:
        wanted = json.load(file)
    with open(answer, newline="") as file:
        rows = list(csv.reader(file))[1:]
    if len(rows) != len(wanted["rows"]):
        sys.exit(f"{len(rows)} rows, expected {len(wanted['rows'])}")
    for number, (row, want) in enumerate(zip(rows, wanted["rows"]), 1):
        for kind, value, got in zip(wanted["kinds"], want, row):
            if not is_same(kind, value, got):
                sys.exit(f"row {number}: {row}, expected {want}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        same(sys.argv[2], sys.argv[3])
