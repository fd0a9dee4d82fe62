#!/usr/bin/env python3
"""What is remembered of clang-tidy and of fuzz targets: a clean result by all that it hangs on, and nothing else."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import fuzz_cached as fuzzed  # noqa: E402
import lint_cached as linted  # noqa: E402

FILES = {"src/low/a.c": b"a", "src/low/low.h": b"h", "src/low/b.c": b"b"}
REACH = {"src/low/a.c": {"src/low/a.c", "src/low/low.h"}, "src/low/b.c": {"src/low/b.c"}}


def key(source="src/low/a.c", ground=("14", "rules"), flags="-O1", files=FILES):
    return linted.file_key(source, ground, flags, REACH.get, files.get)


class Keys(unittest.TestCase):
    def test_a_key_is_of_all_that_a_result_hangs_on(self):
        self.assertEqual(key(), key())
        for other in (key(ground=("15", "rules")), key(ground=("14", "more")), key(flags="-O2"), key(source="src/low/b.c"),
                      key(files={**FILES, "src/low/low.h": b"new"}), key(files={**FILES, "src/low/a.c": b"new"})):
            self.assertNotEqual(key(), other)
        self.assertEqual(key(), key(files={**FILES, "src/low/b.c": b"not included"}))

    def test_where_the_tree_lies_is_no_part_of_it(self):
        self.assertEqual(linted.key_of([f"-I{linted.TOP}/src"]), linted.key_of(["-ITOP/src"]))
        self.assertNotEqual(linted.key_of(["ab", "c"]), linted.key_of(["a", "bc"]))


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.cache = Path(self.folder.name) / "tidy"

    def test_the_clean_are_read_once_and_the_others_again(self):
        calls, wrong = [], {"b.c"}

        def run(path):
            calls.append(path)
            return path not in wrong, [f"{path}:1: error: x"] if path in wrong else []

        keys = {"a.c": "1", "b.c": "2"}
        self.assertEqual(linted.lint(list(keys), keys, self.cache, run, 2), (["b.c:1: error: x"], 2))
        self.assertEqual(linted.lint(list(keys), keys, self.cache, run, 2), (["b.c:1: error: x"], 1))
        wrong.clear()
        self.assertEqual(linted.lint(list(keys), keys, self.cache, run, 2), ([], 1))
        self.assertEqual(linted.lint(list(keys), keys, self.cache, run, 2), ([], 0))
        self.assertEqual(sorted(calls), ["a.c", "b.c", "b.c", "b.c"])

    def test_a_planted_bug_is_proved_when_touched_or_in_turn_and_not_known(self):
        keys = {"a": "1", "b": "2", "c": "3"}
        self.assertEqual(fuzzed.to_prove(keys, {"a", "b"}, {"2"}), (["a"], ["c"], ["b"]))
        self.assertEqual(fuzzed.to_prove(keys, set(keys), set()), (["a", "b", "c"], [], []))


if __name__ == "__main__":
    unittest.main()
