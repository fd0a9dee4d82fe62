#!/usr/bin/env python3
"""Every house rule can fail: a small tree that keeps them all, then one breach at a time in a fresh copy.

Exits 1 with one line per rule that tools/tidy.py let pass, or named otherwise than expected.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TIDY = Path(__file__).resolve().parent / "tidy.py"
HEADER = "#ifndef H\n#define H\n#include <gyre/low.h>\n#endif\n"
CLEAN = {
    "src/rooms.txt": "# rank, room, what it may include\n0 base\n1 low\n  low/deep low\n2 high low low/deep\n10 cli\n",
    "include/gyre/low.h": "int gy_low(void);\n",
    "src/base/README.md": "# base\n", "src/base/base.h": HEADER, "src/base/base.c": '#include "base/base.h"\n',
    "src/base/setting.c": 'static const char *const names[] = {"GYRE_LOG"};\n',
    "src/base/log.c": 'static const char *const name = "GYRE_LOG";\n',
    "src/low/README.md": "# low\n", "src/low/low.h": HEADER, "src/low/low_priv.h": HEADER,
    "src/low/low.c": '#include "low/low.h"\n#include "low/low_priv.h"\n',
    "src/low/deep/deep.h": HEADER, "src/low/deep/deep.c": '#include "low/deep/deep.h"\n#include "low/low.h"\n',
    "src/high/README.md": "# high\n", "src/high/high.h": HEADER,
    "src/high/high.c": '#include "high/high.h"\n#include "low/low.h"\n#include "low/deep/deep.h"\n',
    "src/cli/README.md": "# cli\n", "src/cli/main.c": "#include <gyre/low.h>\n",
}


def function(lines=3, parameters=1):
    """A function of so many lines, braces included, and so many parameters."""
    words = ", ".join(f"int p{i}" for i in range(parameters))
    return f"static int gy_big({words})\n{{\n" + "    p0++;\n" * (lines - 2) + "}\n"


# What is written (path, text added; None: the file goes) and how the report then begins.
BREACHES = {
    "a type that is defined twice": ("src/high/high.c", "typedef struct gy_thing {\n    int a;\n} gy_thing;\nenum gy_thing { GY_THING };\n",
                                     "src/high/high.c:7: type gy_thing is defined in src/high/high.c:4 too"),
    "a pointer's type that is defined twice": ("src/high/high.c", "typedef int (*gy_call)(int);\ntypedef void (*gy_call)(void);\n",
                                               "src/high/high.c:5: type gy_call is defined"),
    "a function that does not say its room": ("src/low/low.c", "int gy_lone(int p)\n{\n}\n",
                                              "src/low/low.c:4: gy_lone does not begin with gy_low_"),
    "upward include": ("src/low/low.c", '#include "high/high.h"\n', "src/low/low.c:3: room low may not include"),
    "include of no room": ("src/low/low.c", '#include "none/x.h"\n', "src/low/low.c:3: include of none/x.h"),
    "room in angle brackets": ("src/low/low.c", "#include <high/high.h>\n", "src/low/low.c:3: include of <high/high.h>"),
    "another room's private header": ("src/high/high.c", '#include "low/low_priv.h"\n', "src/high/high.c:4: folder high includes low/low_priv.h"),
    "a private header of the folder above": ("src/low/deep/deep.c", '#include "low/low_priv.h"\n', "src/low/deep/deep.c:3: folder low/deep includes low/low_priv.h"),
    "a private header in a test elsewhere": ("src/low/deep/deep_test.c", '#include "low/low_priv.h"\n', "src/low/deep/deep_test.c:1: folder low/deep includes low/low_priv.h"),
    "a folder of the room that is not named": ("src/low/low.c", '#include "low/deep/deep.h"\n', "src/low/low.c:3: folder low may not include low/deep/deep.h"),
    "a folder without a line": ("src/low/other/x.c", "int x;\n", "src/low/other:0: a folder that is no room"),
    "a line without a folder": ("src/rooms.txt", "1 low\n  low/deep low\n  low/gone low\n", "src/rooms.txt:0: low/gone is no folder"),
    "a folder below another room": ("src/rooms.txt", "  low/deep low\n", "src/rooms.txt:7: folder low/deep stands below room cli"),
    "folders that include each other": ("src/rooms.txt", "1 low low/deep\n  low/deep low\n", "src/rooms.txt:0: folders include each other: low, low/deep"),
    "an exception in a room that has none": ("tools/tidy_ratchet.txt", "sched/state>sched/hosts 1\n", "tools/tidy_ratchet.txt:0: sched/state>sched/hosts: room sched has no exceptions"),
    "door into base": ("src/cli/main.c", '#include "base/base.h"\n', "src/cli/main.c:2: door cli"),
    "door into a room": ("src/cli/main.c", '#include "low/low.h"\n', "src/cli/main.c:2: room cli may not include"),
    "include of ../": ("src/low/low.c", '#include "../low/low.h"\n', "src/low/low.c:3: include of ../low/low.h"),
    "public header into a room": ("include/gyre/low.h", '#include "low/low.h"\n', "include/gyre/low.h:2: public header"),
    "upward rule": ("src/rooms.txt", "1 mid high\n", "src/rooms.txt:0: room mid of rank 1 includes high upward"),
    "rule of no room": ("src/rooms.txt", "3 top none\n", "src/rooms.txt:0: room top may include none"),
    "function of 71 lines": ("src/low/low.c", function(lines=71), "src/low/low.c:4: gy_big has 71 lines, at most 70"),
    "7 parameters": ("src/low/low.c", function(parameters=7), "src/low/low.c:4: gy_big has 7 parameters, at most 6"),
    "file of 801 lines": ("src/low/long.c", "\n" * 801, "src/low/long.c:801: 801 lines, at most 800"),
    "header of 801 lines": ("src/low/low.h", "\n" * 797, "src/low/low.h:801: 801 lines, at most 800"),
    "malloc in a room": ("src/low/low.c", "void *gy_get(void);\nvoid *get = malloc(1);\n", "src/low/low.c:4: malloc() is banned"),
    "exit in a room": ("src/low/low.c", "    exit(1);\n", "src/low/low.c:3: exit() is banned"),
    "sleep in a test": ("src/low/low_test.c", "    sleep(1);\n", "src/low/low_test.c:1: sleep() is banned"),
    "getenv in a room": ("src/low/low.c", '    getenv("GYRE_LOG");\n', "src/low/low.c:3: getenv() is banned"),
    "strncpy in a room": ("src/low/low.c", "    strncpy(a, b, 4);\n", "src/low/low.c:3: strncpy() is banned"),
    "a print taken for a length": ("src/low/low.c", '    int n = snprintf(a, 4, "%s", b);\n    write(1, a, n);\n', "src/low/low.c:3: what snprintf() returns"),
    "a print added to an offset": ("src/low/low.c", '    at += snprintf(a + at, 4, "%s", b);\n', "src/low/low.c:3: what snprintf() returns"),
    "a print cast and returned": ("src/low/low.c", '    return (size_t)vsnprintf(a, 4, f, args);\n', "src/low/low.c:3: what vsnprintf() returns"),
    "a print of an example": ("examples/x.c", '    f(a, snprintf(a, 4, "%s", b));\n', "examples/x.c:1: what snprintf() returns"),
    "variable not listed": ("src/low/low.c", '    gy_setting_get("GYRE_NEW");\n', "src/low/low.c:3: GYRE_NEW is missing"),
    "variable of a test not listed": ("src/low/low_test.c", '    getenv("GYRE_NEW");\n', "src/low/low_test.c:1: GYRE_NEW is missing"),
    "variable that nobody reads": ("src/base/log.c", None, "src/base/setting.c:1: GYRE_LOG is listed"),
    "unfinished": ("src/low/low.c", "/* TO" "DO: the rest */\n", "src/low/low.c:3: looks unfinished"),
    "no page of the room": ("src/low/README.md", None, "src/low:0: room without README.md"),
    "folder that is no room": ("src/other/x.c", "int x;\n", "src/other:0: a folder that is no room"),
    "empty room": ("src/cli/main.c", None, "src/cli:0: an empty room"),
    "dead header": ("src/low/dead.h", HEADER, "src/low/dead.h:1: no file includes it"),
    "dead .inc": ("src/low/dead.inc", "int x;\n", "src/low/dead.inc:1: no file includes it"),
    "word in a public header": ("include/gyre/low.h", "/* The warden ends. */\n", "include/gyre/low.h:2: 'warden', write: supervisor"),
    "word in a public identifier": ("include/gyre/low.h", "int gy_low_tell(void);\n", "include/gyre/low.h:2: 'gy_low_tell', write: output"),
    "bound without _max": ("include/gyre/low.h", "int gy_low(int bytes_most);\n", "include/gyre/low.h:2: 'bytes_most', write: _max"),
    "phrase over two lines": ("include/gyre/low.h", "/* It runs at\n * home. */\n", "include/gyre/low.h:2: 'at * home', write: locally"),
    "word in a text of the command": ("src/cli/main.c", 'const char *help = "a wish";\n', "src/cli/main.c:2: 'wish', write: resource request"),
    "word in README.md": ("README.md", "The weather is fine.\n", "README.md:1: 'weather', write: fault model"),
    "word in a room's page": ("src/low/README.md", "It promises order.\n", "src/low/README.md:2: 'promises', write: determinism"),
    "word in a room": ("src/low/low.c", "int gy_nursery_new(void); /* a nursery */\n", "src/low:0: 2 words that the field does not have, at most 0"),
    "exception that is gone": ("tools/tidy_ratchet.txt", "src/low/low.c:gone 80\n", "tools/tidy_ratchet.txt:0: src/low/low.c:gone is gone"),
}
# What looks like a breach and is none.
HARMLESS = {
    "a forward typedef": ("src/low/low.c", "typedef struct gy_thing gy_thing;\ntypedef struct gy_thing gy_thing;\n"
                                           "struct gy_thing {\n    int a;\n};\n"),
    "a function of the room's type": ("src/low/low.c", "struct gy_thing {\n    int a;\n};\n\nint gy_thing_add(int p)\n{\n}\n"),
    "a public function": ("src/low/low.c", "int gy_low(void)\n{\n}\n"),
    "function of 70 lines": ("src/low/low.c", function(lines=70)),
    "6 parameters": ("src/low/low.c", function(parameters=6)),
    "file of 800 lines": ("src/low/long.c", "\n" * 800),
    "word in the code of the command": ("src/cli/main.c", "int wish; /* a wish */\n"),
    "part of a word": ("include/gyre/low.h", "int gy_low_lookup(int fortold, int retell); /* wishbone */\n"),
    "malloc in base": ("src/base/base.c", "void *get = malloc(1);\n"),
    "malloc in a comment and a string": ("src/low/low.c", '/* malloc(1) */ const char *s = "free(x)"; char c = \'"\';\n'),
    "a print whose size is thrown away": ("src/low/low.c", '    snprintf(a, 4, "%s", b);\n    (void)snprintf(a, 4, "%s", b);\n'),
    "a print that is compared": ("src/low/low.c", '    if (snprintf(a, 4, "%s", b) >= 4) {\n'),
    "a print that is compared in the next line": ("src/low/low.c", '    int n = snprintf(a, 4, "%s", b);\n    if (n >= 4) {\n'),
    "a print that measures": ("src/low/low.c", '    int n = snprintf(NULL, 0, "%s", b);\n'),
    "a member called free": ("src/low/low.c", "    pool->free(x);\n"),
    "a variable of tests alone": ("src/low/low_test.c", '    getenv("GYRE_TEST_MARK");\n'),
    "a test sees private headers of its folder": ("src/low/low_test.c", '#include "low/low_priv.h"\n'),
    "a test sees all folders of its room": ("src/low/low_test.c", '#include "low/deep/deep.h"\n'),
}


def write_tree(top):
    for name, text in CLEAN.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (top / "tools").mkdir()
    for name in ("tidy.py", "words.py"):
        shutil.copy(TIDY.parent / name, top / "tools" / name)


def report_on(changes):
    """(exit status, the report's lines) of a fresh tree after (path, text) changes."""
    with tempfile.TemporaryDirectory(prefix="gyre-tidy-") as folder:
        top = Path(folder)
        write_tree(top)
        for name, text in changes:
            path = top / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(text)
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(top.parent)}  # a tree without git
        ran = subprocess.run([sys.executable, top / "tools/tidy.py"], env=environment,
                             capture_output=True, text=True)
        return ran.returncode, ran.stdout.splitlines() + ran.stderr.splitlines()


def main():
    wrong = []

    def expect_clean(rule, changes):
        code, lines = report_on(changes)
        if code != 0:
            wrong.append(f"{rule}: expected no breach, got {lines}")

    def expect_breach(rule, changes, start):
        code, lines = report_on(changes)
        if code != 1 or len(lines) != 2 or not lines[0].startswith(start):
            wrong.append(f"{rule}: expected status 1 and one line '{start}…', got status {code} and {lines}")

    expect_clean("the clean tree", [])
    for rule, (path, text, start) in BREACHES.items():
        expect_breach(rule, [(path, text)], start)
    for rule, change in HARMLESS.items():
        expect_clean(rule, [change])

    long = ("src/low/low.c", function(lines=75))
    entry = "tools/tidy_ratchet.txt"
    expect_clean("an exception", [long, (entry, "src/low/low.c:gy_big 75\n")])
    expect_breach("an exception that grew", [long, (entry, "src/low/low.c:gy_big 74\n")],
                  "src/low/low.c:4: gy_big has 75 lines, at most 74")
    expect_breach("an exception that shrank", [long, (entry, "src/low/low.c:gy_big 76\n")],
                  "src/low/low.c:4: gy_big has 75 lines, tools/tidy_ratchet.txt allows 76: lower it")
    words = ("src/low/low.c", "/* a nursery, a tenant */\n")
    known = "tools/words_ratchet.txt"
    expect_clean("words of the ratchet", [words, (known, "src/low 2\n")])
    expect_clean("words that moved", [words, (known, "src/high 2\n")])
    expect_breach("words that grew", [words, (known, "src/low 1\n")], "src/low:0: 2 words that the field")
    expect_breach("words of a page that grew", [("src/low/README.md", "A tenant.\n"), (known, "src/low 2\n")],
                  "src/low/README.md:2: 'tenant'")
    lone = ("src/low/low.c", "int gy_lone(int p)\n{\n}\n")
    expect_clean("a room's allowance", [lone, (entry, "prefix:low 1\n")])
    expect_clean("an allowance that shrank", [lone, (entry, "prefix:low 2\n")])
    expect_breach("an allowance that grew", [lone, ("src/low/low.c", "int gy_alone(int p)\n{\n}\n"), (entry, "prefix:low 1\n")],
                  "src/low/low.c:7: gy_alone does not begin with gy_low_")
    asserts = "tools/assert_ratchet.txt"
    checked = ("src/low/low.c", "static int checked(int p)\n{\n    GY_ASSERT(p > 0);\n}\n\nstatic int bare(int p)\n{\n}\n")
    expect_clean("assertions of the ratchet", [checked, (asserts, "# room assertions functions\nlow 1 2\n")])
    expect_breach("assertions that grew thin", [checked, (asserts, "low 2 3\n")],
                  "tools/assert_ratchet.txt:1: low has 1 assertions in 2 functions (0.500 a function), at least 0.667")
    expect_breach("an assertion in a comment", [("src/low/low.c", "/* GY_ASSERT(p) */\nstatic int bare(int p)\n{\n}\n"), (asserts, "low 1 1\n")],
                  "tools/assert_ratchet.txt:1: low has 0 assertions in 1 functions")
    expect_breach("an assertion of a test", [("src/low/low.c", "static int bare(int p)\n{\n}\n"), ("src/low/low_test.c", "GY_ASSERT(1);\n"), (asserts, "low 1 1\n")],
                  "tools/assert_ratchet.txt:1: low has 0 assertions in 1 functions")
    expect_breach("assertions of a room that is gone", [(asserts, "other 1 1\n")], "tools/assert_ratchet.txt:1: other is gone")
    crowd = [(f"src/low/part{i}.c", "int x;\n") for i in range(15)]
    expect_breach("16 files in a room", crowd, "src/low:0: low has 16 .c files, at most 15")
    expect_clean("a crowd that is known", [*crowd, (entry, "src/low 16\n")])
    expect_breach("16 files in a folder of a room", [(f"src/low/deep/part{i}.c", "int x;\n") for i in range(15)],
                  "src/low/deep:0: low/deep has 16 .c files, at most 15")
    private = ("src/low/deep/deep.c", '#include "low/low_priv.h"\n')
    expect_clean("an include that is known", [private, (entry, "low/deep>low/low_priv.h 1\n")])
    expect_breach("one include more than known", [private, private, (entry, "low/deep>low/low_priv.h 1\n")],
                  "src/low/deep/deep.c:4: low/deep>low/low_priv.h has 2 includes, at most 1")
    expect_breach("one include less than known", [private, (entry, "low/deep>low/low_priv.h 2\n")],
                  "src/low/deep/deep.c:3: low/deep>low/low_priv.h has 1 includes, tools/tidy_ratchet.txt allows 2: lower it")
    expect_breach("a folder that reaches further than its room",
                  [("src/high/part/x.c", "int x;\n"), ("src/rooms.txt", "1 other\n2 high low low/deep\n  high/part other\n")],
                  "src/rooms.txt:0: folder high/part may include other, the room around it may not")

    def ring(length):
        """x0.h, which x1.c includes, and so on around."""
        return [(f"src/low/x{i}.{kind}", f'#include "low/x{(i + more) % length}.h"\n')
                for i in range(length) for kind, more in (("c", 0), ("c", 1), ("h", 0))][:3 * length]
    expect_clean("a circle of 3 files", ring(3))
    expect_breach("a circle of 4 files", ring(4), "src/low/x0.c:1: a circle of includes (low/x0, low/x1, low/x2, low/x3) has 4 files")
    expect_clean("a circle that is known", [*ring(4), (entry, "circle of low/x0 4\n")])

    for line in wrong:
        print(line)
    print(f"tidy_test: {len(BREACHES) + 12} breaches, {len(HARMLESS) + 7} harmless, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
