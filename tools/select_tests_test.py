#!/usr/bin/env python3
"""The choice of tests on a small tree: who runs, who is left out, and when everything does; the table of their costs."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import costs  # noqa: E402
import select_tests as chosen  # noqa: E402

ROOMS = chosen.read_rooms("# the law\n0 base\n1 low\n1 aside\n2 mid low\n2 mid/inner low\n3 high mid\n10 cli\n")
TESTS = [chosen.Test(*row) for row in [
    ("low_a_test", "src/low/a_test.c", ("low",)), ("aside_a_test", "src/aside/a_test.c", ("aside",)),
    ("mid_a_test", "src/mid/a_test.c", ("mid",)), ("inner_a_test", "src/mid/inner/a_test.c", ("mid",)),
    ("high_a_test", "src/high/a_test.c", ("high",)), ("system_command_test", "tests/system/command_test.c", ("system",)),
    ("system_high_test", "tests/system/high_test.c", ("system",)), ("high_example", "", ("high",))]]
INCLUDES = {"tests/system/high_test.c": {"src/high/high.h", "tests/kit.h"}}


def includes(source):
    return INCLUDES.get(source, set()) | {source}


def touched(*changed):
    return set(chosen.choose(ROOMS, list(changed), TESTS, 0, includes).touched)


class Choices(unittest.TestCase):
    def test_a_room_and_all_above_it_run(self):
        self.assertEqual(chosen.users({"low"}, ROOMS), {"low": 0, "mid": 1, "mid/inner": 1, "high": 2})
        self.assertEqual(touched("src/high/h.c"), {"high_a_test", "system_high_test", "high_example", "system_command_test"})
        self.assertEqual(touched("src/low/deep/l.c") & {"low_a_test", "mid_a_test", "inner_a_test", "aside_a_test"},
                         {"low_a_test", "mid_a_test", "inner_a_test"})

    def test_a_folder_that_is_a_room_is_not_its_outer_one(self):
        self.assertEqual(touched("src/mid/inner/x.c"), {"inner_a_test", "system_command_test"})
        self.assertNotIn("inner_a_test", touched("src/mid/m.c"))

    def test_who_names_no_room_runs_with_any(self):
        self.assertIn("system_command_test", touched("src/aside/a.c"))
        self.assertIn("system_command_test", touched("src/cli/main.c"))

    def test_a_kit_calls_for_who_includes_it(self):
        self.assertEqual(touched("tests/kit.h"), {"system_high_test"})
        self.assertEqual(touched("tests/system/command_test.c"), {"system_command_test"})

    def test_what_all_may_include_calls_for_all(self):
        for path in ("src/base/text.h", "tests/gy_test.h", "cmake/tests.cmake", "CMakeLists.txt", "src/rooms.txt",
                     "src/none/x.c", "include/gyre/none.h"):
            choice = chosen.choose(ROOMS, ["README.md", path], TESTS, 0, includes)
            self.assertEqual((len(choice.run), choice.left_out), (len(TESTS), []), path)
            self.assertIn(path, choice.why)

    def test_without_history_all_runs_and_that_is_said(self):
        choice = chosen.choose(ROOMS, None, TESTS, 0, includes)
        self.assertEqual(choice.run, [test.name for test in TESTS])
        self.assertIn("no history", choice.why)

    def test_the_nearest_come_first_when_seconds_are_few(self):
        known = dict.fromkeys(("low_a_test", "mid_a_test", "inner_a_test", "high_a_test"), 10.0)
        for budget_s, expected in ((1000, {"low_a_test", "mid_a_test", "inner_a_test", "high_a_test"}),
                                   (31, {"low_a_test", "mid_a_test", "inner_a_test"}), (1, {"low_a_test"})):
            kept = set()
            for day in range(1000, 1004):  # whose turn it is runs in any case
                ran = set(chosen.choose(ROOMS, ["src/low/l.c"], TESTS, day, includes, known, budget_s).run) & set(known)
                kept = ran if not kept else kept & ran
            self.assertEqual(kept, expected, budget_s)
        self.assertEqual(chosen.within({"a": 0, "b": 0}, 0, {"a": 9.0, "b": 9.0}, 1), {"a", "b"})
        one, other = sorted(("a", "b"), key=lambda name: chosen.days_to(name, 0))
        self.assertEqual(chosen.within({one: 1, other: 1}, 0, {"a": 9.0, "b": 9.0}, 10), {one})

    def test_texts_call_for_nothing(self):
        self.assertEqual(touched("README.md", "src/low/README.md", "docs/x/y", "tools/tidy.py"), set())

    def test_each_has_its_day_in_four(self):
        days = [set(chosen.choose(ROOMS, [], TESTS, day, includes).run) for day in range(1000, 1004)]
        self.assertEqual(set().union(*days), {test.name for test in TESTS})
        self.assertEqual(sum(map(len, days)), len(TESTS))
        many = [f"test_{i}" for i in range(1000)]
        for day in range(4):
            self.assertTrue(200 < sum(chosen.turn(name, day) for name in many) < 300)

    def test_what_runs_and_what_is_left_out_is_all(self):
        choice = chosen.choose(ROOMS, ["src/aside/a.c"], TESTS, 3, includes)
        self.assertEqual(sorted(choice.run + choice.left_out), sorted(test.name for test in TESTS))
        self.assertTrue(set(choice.touched) <= set(choice.run))

    def test_files_that_include_what_changed_are_linted(self):
        files = ["src/low/a.c", "src/high/h.c"]
        reach = {"src/low/a.c": {"src/low/a.c", "src/low/low.h"}, "src/high/h.c": {"src/high/h.c"}}
        choice = chosen.choose_files(["src/low/low.h"], files, 0, reach.get)
        self.assertEqual(choice.touched, ["src/low/a.c"])
        self.assertEqual(chosen.choose_files([".clang-tidy"], files, 0, reach.get).run, files)
        self.assertEqual(chosen.choose_files(None, files, 0, reach.get).run, files)


class Costs(unittest.TestCase):
    def test_a_table_is_read_as_it_was_written(self):
        table = {"a_test": {"dev": 2.5, "tsan": 9.0}, "b_test": {"dev": 1.0, "asan": 3.0, "tsan": 4.0}}
        self.assertEqual(costs.read_table(costs.write_table(table)), table)
        self.assertNotIn("quick", costs.write_table({"quick_test": {"dev": 0.2}}))

    def test_what_ctest_reads_is_what_it_writes(self):
        self.assertEqual(costs.read_ctest(costs.write_ctest({"a_test": 3.0})), {"a_test": 3.0})
        self.assertEqual(costs.read_ctest("a_test 4 1.5\n---\nfailed_test\n"), {"a_test": 1.5})

    def test_the_last_run_counts_and_who_is_gone_goes(self):
        table = {"a_test": {"dev": 2.0, "asan": 5.0}, "gone_test": {"dev": 3.0}}
        self.assertEqual(costs.merged(table, {"dev": {"a_test": 4.0, "gone_test": 1.0}}, {"a_test"}),
                         {"a_test": {"dev": 4.0, "asan": 5.0}})


if __name__ == "__main__":
    unittest.main()
