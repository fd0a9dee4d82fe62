#!/usr/bin/env python3
"""scripts/test, on a tree of a few tests: one that fails beside others and passes alone does not fail the run and is named;
a failure alone, a crash and what a sanitizer reports do."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LISTS = "cmake_minimum_required(VERSION 3.25)\nproject(few NONE)\nenable_testing()\n"


class Suite(unittest.TestCase):
    def run_suite(self, tests):
        """Of {name: shell}, where `once` holds in a test's first run alone: the exit status, and what was said."""
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            for name in ("scripts", "tools", "once"):
                (top / name).mkdir()
            shutil.copy(TOP / "scripts/test", top / "scripts/test")
            (top / "tools/costs.py").write_text("")
            (top / "scripts/build").write_text("#!/bin/sh\nexec cmake -S . -B build/$1 >build/build.log\n")
            (top / "scripts/build").chmod(0o755)
            (top / "build").mkdir()
            lists = LISTS
            for name, shell in tests.items():
                script = top / f"{name}.sh"
                script.write_text(f"once() {{ mkdir {top}/once/{name} 2>/dev/null; }}\n{shell}\n")
                lists += f"add_test(NAME {name} COMMAND sh {script})\nset_tests_properties({name} PROPERTIES TIMEOUT 5)\n"
            (top / "CMakeLists.txt").write_text(lists)
            plain = {name: value for name, value in os.environ.items() if name != "GYRE_SOAK"}
            done = subprocess.run(["scripts/test", "dev"], cwd=top, env={**plain, "JOBS": "2"}, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return done.returncode, done.stdout

    def test_all_are_well(self):
        status, said = self.run_suite({"good_test": "true"})
        self.assertEqual((status, said.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"), said)
        self.assertNotIn("unstable", said)

    def test_who_passes_alone_is_unstable(self):
        status, said = self.run_suite({"good_test": "true", "load_test": "! once || { echo so it was; exit 1; }"})
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"), said)
        self.assertIn("unstable: load_test failed beside others and passed alone", said)
        self.assertIn("so it was", said)

    def test_who_fails_twice_has_failed(self):
        status, said = self.run_suite({"load_test": "! once", "bad_test": "echo never well; false"})
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed, 0 skipped"), said)
        self.assertIn("bad_test failed alone, too:", said)
        self.assertEqual(len(re.findall("^never well$", said, re.M)), 2)

    def test_a_crash_and_a_race_are_not_the_load(self):
        status, said = self.run_suite({"crash_test": "! once || kill -SEGV $$",
                                       "race_test": "! once || { echo 'WARNING: ThreadSanitizer: data race'; exit 66; }"})
        self.assertEqual((status, said.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"), said)
        self.assertIn("race_test crashed or was reported by a sanitizer", said)

    def test_many_are_not_the_load(self):
        status, said = self.run_suite({f"load{i}_test": "! once" for i in range(6)})
        self.assertEqual((status, said.splitlines()[-1]), (1, "0 passed, 6 failed, 0 skipped"), said)


if __name__ == "__main__":
    unittest.main()
