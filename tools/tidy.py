#!/usr/bin/env python3
"""House rules as a test: includes, sizes, banned calls, dead files, room pages, words (tools/words.py).

Exits 1 with one line per breach: file:line: what, limit. Known exceptions stand in
tools/tidy_ratchet.txt ("file:function lines", "file:function() parameters", "folder files",
"prefix:room functions"); an entry says the size that is there, and goes with the last excess.
tools/tidy_test.py breaks each rule once.
"""
import functools
import re
import subprocess
import sys
from pathlib import Path

import words

TOP = Path(__file__).resolve().parent.parent
FUNCTION_LINES, FILE_LINES, PARAMETERS, ROOM_FILES = 70, 800, 6, 15
BANNED = {  # call: what to use, and where it is allowed all the same
    "malloc": ("gy_alloc", {"base"}), "calloc": ("gy_alloc_zero", {"base"}),
    "realloc": ("gy_resize", {"base"}), "free": ("gy_free", {"base"}),
    "strdup": ("gy_copy_text", set()), "strcpy": ("memcpy with a size", set()),
    "strcat": ("gy_text", set()), "sprintf": ("snprintf", set()), "vsprintf": ("vsnprintf", set()),
    "strncpy": ("gy_print", set()), "strncat": ("gy_text", set()), "gets": ("fgets", set()),
    "atoi": ("a checked parse", set()), "atof": ("a checked parse", set()),
    "atol": ("a checked parse", set()), "atoll": ("a checked parse", set()),
    "rand": ("gy_random", set()), "srand": ("gy_random", set()),
    "exit": ("a status", {"cli"}), "system": ("posix_spawn", set()),
    "getenv": ("gy_setting_get", {"base", "cli"}),  # a door sees include/gyre alone
    "usleep": ("a condition", set()), "sleep": ("a condition", set()),
}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bnot (yet )?implemented\b", re.I)
breaches = []


def breach(path, line, text):
    breaches.append(f"{path.relative_to(TOP)}:{line}: {text}")


def read_rooms():
    rooms = {}
    for line in (TOP / "src/rooms.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            rank, room, *below = line.split()
            rooms[room] = (int(rank), set(below))
    for room, (rank, below) in rooms.items():
        for other in below:
            if other not in rooms:
                breach(TOP / "src/rooms.txt", 0, f"room {room} may include {other}, which is no room")
            elif rooms[other][0] >= rank:
                breach(TOP / "src/rooms.txt", 0, f"room {room} of rank {rank} includes {other} upward")
    return rooms


def room_of(path):
    parts = path.relative_to(TOP).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def is_test(path):
    return bool(re.search(r"_test\.[ch]$", path.name)) or path.relative_to(TOP).parts[0] == "tests"


def check_includes(path, text, rooms):
    room = room_of(path)
    sees_all = bool(re.search(r"_(test|fuzz|bench)\.c$", path.name))
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not found:
            continue
        kind, name = found.groups()
        if ".." in name:
            breach(path, number, f"include of {name}: no ../ in includes")
            continue
        if path.is_relative_to(TOP / "include") and kind == '"':
            breach(path, number, f"public header includes {name}: only <gyre/…> and system headers")
        target = name.split("/")[0]
        if kind == "<" and target in rooms and "/" in name:
            breach(path, number, f"include of <{name}>: a room's header stands in quotes")
        if room is None or kind == "<" or "/" not in name:
            continue
        if target == room or target == "base":
            if rooms[room][0] >= 10 and target == "base":
                breach(path, number, f"door {room} includes {name}: doors see include/gyre alone")
            continue
        if target not in rooms:
            breach(path, number, f"include of {name}: no such room")
        elif target not in rooms[room][1]:
            breach(path, number, f"room {room} may not include {name} (src/rooms.txt)")
        elif name.endswith("_priv.h") and not sees_all:
            breach(path, number, f"room {room} includes {name}, private to {target}")


def functions(lines):
    """(name, first line, lines, parameters) of each function: '{' and '}' stand in column 0."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            head = start - 1
            while head > 0 and lines[head - 1].strip() and not lines[head - 1].rstrip().endswith((";", "}", "*/")) \
                    and not lines[head - 1].startswith("#"):
                head -= 1
            signature = " ".join(lines[head:start])
            found = re.search(r"(\w+)\s*\((.*)\)\s*\w*$", signature)
            if found:
                depth = commas = 0
                for char in found.group(2):
                    depth += char in "(" 
                    depth -= char in ")"
                    commas += char == "," and depth == 0
                yield found.group(1), number - (number - start), number - start + 1, commas + 1
            start = None


@functools.cache
def strip_comments(text):
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", blank, text, flags=re.S)


def check_size(path, line, name, size, known):
    """`size` is (found, limit, unit); `known` what the ratchet allows, None when it has no entry."""
    found, limit, unit = size
    if found > max(limit, known or 0):
        breach(path, line, f"{name} has {found} {unit}, at most {max(limit, known or 0)}")
    elif known is not None and found < known:
        what = "remove the entry" if found <= limit else "lower it"
        breach(path, line, f"{name} has {found} {unit}, tools/tidy_ratchet.txt allows {known}: {what}")


def check_sizes(path, text, ratchet):
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        breach(path, len(lines), f"{len(lines)} lines, at most {FILE_LINES}")
    for name, first, length, parameters in functions(lines):
        key = f"{path.relative_to(TOP)}:{name}"
        check_size(path, first + 1, name, (length, FUNCTION_LINES, "lines"), ratchet.pop(key, None))
        if not path.name.endswith("_test.c") and not name.startswith("MPI_"): # the standard's
            check_size(path, first + 1, name, (parameters, PARAMETERS, "parameters"),
                       ratchet.pop(key + "()", None))


def check_words(path, text):
    room = room_of(path)
    plain = strip_comments(text)
    for number, line in enumerate(plain.splitlines(), 1):
        for call in re.findall(r"(?<![\w.>])(\w+)\s*\(", line):
            if call in BANNED and room not in BANNED[call][1]:
                if is_test(path) and call in ("exit", "getenv"):
                    continue
                # Programs of users, who have no gy_alloc.
                is_users = path.parts[len(TOP.parts)] in ("bench", "examples") or path.is_relative_to(TOP / "tests/mpi")
                if is_users and call not in ("sleep", "usleep"):
                    continue
                breach(path, number, f"{call}() is banned: use {BANNED[call][0]}")
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            breach(path, number, f"looks unfinished: {line.strip()[:60]}")


PRINTS = re.compile(r"\bv?snprintf\s*\(")


def call_end(text, at):
    """Where the call whose parenthesis opens at `at` ends."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    return len(text)


def check_prints(path, text):
    """What snprintf returns is the size that was wanted: it is compared with a bound, there or in the
    next statement, or thrown away, never taken for a length."""
    plain = re.sub(r"^[ \t]*#[^\n]*", lambda m: ";" + " " * (len(m.group(0)) - 1), strip_comments(text), flags=re.M)
    for found in PRINTS.finditer(plain):
        before = plain[:found.start()].rstrip()
        end = call_end(plain, found.end() - 1)
        if before.endswith((";", "{", "}", ")", "\\")) and not before.endswith(("(size_t)", "(int)", "(ssize_t)")):
            continue  # a statement; `)` is a condition or a cast to void
        if re.match(r"\s*(>=|<|>|<=)", plain[end:]) or re.match(r"\s*NULL\b", plain[found.end():]):
            continue
        taken = re.search(r"(\w+)\s*=(?:[^;={}]|==|>=|<=|!=)*$", before)
        begin = max(before.rfind(c) for c in ";{}")
        is_sum = re.search(r"[+]=", before[begin:])
        close = plain.find(";", end)
        tail = "\n".join(plain[close:].split("\n")[:4])
        bound = taken and rf"\b{taken.group(1)}\s*(>=|<|>|<=)|assert_in_range\({taken.group(1)}\b"
        if taken and not is_sum and re.search(bound, tail):
            continue
        name = found.group(0).rstrip("( ")
        number = plain.count("\n", 0, found.start()) + 1
        breach(path, number, f"what {name}() returns is taken for a length: use gy_print, or compare it with the size")


TAGGED = re.compile(r"\b(?:struct|enum|union)\s+(?:[A-Z]\w*(?:\([^()]*\))?\s+)*(gy_\w+)\s*\{")
TYPEDEF = re.compile(r"\btypedef\b([^;{}]*)(\{)?")


def type_names(plain):
    """(name, offset) of each gy_ type that a text without comments defines: tags with a body, and
    typedefs that are no forward declaration."""
    for found in TAGGED.finditer(plain):
        yield found.group(1), found.start()
    for found in TYPEDEF.finditer(plain):
        head = found.group(1)
        if found.group(2):  # the name follows the body; the tag has been named above
            depth, at = 1, found.end()
            while depth and at < len(plain):
                depth += (plain[at] == "{") - (plain[at] == "}")
                at += 1
            name = re.match(r"[^;]*?\b(gy_\w+)\s*;", plain[at:])
            if name and not re.search(rf"\b{name.group(1)}\s*$", head):
                yield name.group(1), found.start()
            continue
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", head)
        name = pointer or re.search(r"(\w+)\s*(?:\[[^]]*\]|\([^()]*\))?\s*$", head)
        forward = re.fullmatch(r"\s*(?:struct|enum|union)\s+(\w+)\s+(\w+)\s*", head)
        if name and name.group(1).startswith("gy_") and not (forward and forward.group(1) == forward.group(2)):
            yield name.group(1), found.start()


def check_types(texts):
    """One noun, one type: each gy_ type name is defined once in the tree."""
    first = {}
    for path, text in sorted(texts.items()):
        plain = strip_comments(text)
        for name, at in type_names(plain):
            number = plain.count("\n", 0, at) + 1
            place = f"{path.relative_to(TOP)}:{number}"
            if first.setdefault(name, place) != place:
                breach(path, number, f"type {name} is defined in {first[name]} too: one noun, one type")


def check_prefixes(texts, ratchet):
    """Exported functions of a room begin with gy_<room>_, gy_<folder>_ or a type that the room defines; what
    include/gyre declares may keep its noun. `ratchet` says how many of a room ("prefix:room") do not."""
    public, nouns, odd = set(), {}, {}
    for path, text in texts.items():
        if path.is_relative_to(TOP / "include"):
            public.update(re.findall(r"\b(gy_\w+)\s*\(", strip_comments(text)))
        elif room_of(path):
            nouns.setdefault(room_of(path), set()).update(name for name, _ in type_names(strip_comments(text)))
    for path, text in sorted(texts.items()):
        room = room_of(path)
        if room is None or path.suffix != ".c" or re.search(r"_(test|fuzz|bench)\.c$", path.name):
            continue
        folders = {f"gy_{folder}" for folder in path.relative_to(TOP / "src").parts[:-1]}
        lines = text.splitlines()
        for name, first, _, _ in functions(lines):
            words = name.split("_")
            starts = {"_".join(words[:i]) for i in range(2, len(words) + 1)}
            if name.startswith("gy_") and name not in public and not starts & (folders | nouns[room]) \
                    and not is_static(lines, first):
                odd.setdefault(room, []).append((path, first + 1, name))
    allowed = {key[7:]: ratchet.pop(key) for key in sorted(ratchet) if key.startswith("prefix:")}
    for room, known in allowed.items():
        if len(odd.get(room, [])) < known:
            print(f"note: tools/tidy_ratchet.txt: prefix:{room} allows {known}, there are {len(odd.get(room, []))}: lower it")
    for room, found in sorted(odd.items()):
        known = allowed.get(room, 0)
        path, line, name = found[-1]
        if len(found) > known:
            breach(path, line, f"{name} does not begin with gy_{room}_, its folder or a type of the room:"
                               f" {len(found)} such functions in {room}, at most {known}")


def is_static(lines, first):
    """Whether the function whose brace stands in lines[first] is static."""
    while first > 0 and lines[first - 1].strip() and not lines[first - 1].rstrip().endswith((";", "}", "*/")) \
            and not lines[first - 1].startswith("#"):
        first -= 1
        if re.match(r"\s*(static|GY_\w+\s+static)\b", lines[first]):
            return True
    return False


def check_settings(texts):
    """Every variable that code names stands in the list that users are warned by, and is named outside it."""
    lists = {TOP / "src/base/setting.c", TOP / "src/cli/environment.c"}
    named = re.compile(r'"(GYRE_[A-Z_]*[A-Z])"')
    listed = {path: set(named.findall(texts.get(path, ""))) for path in lists}
    known, used = set().union(*listed.values()), set()
    for path, text in texts.items():
        if path in lists:
            continue
        pattern = re.compile(r'\bgetenv\("(GYRE_\w+)"\)') if is_test(path) else named
        for number, line in enumerate(text.splitlines(), 1):
            for name in pattern.findall(line):
                used.add(name)
                allowed = known if is_test(path) or room_of(path) is None else listed[TOP / "src/base/setting.c"]
                if name not in allowed and not (is_test(path) and name.startswith("GYRE_TEST_")):
                    breach(path, number, f"{name} is missing in the list of src/base/setting.c")
    for name in sorted(listed[TOP / "src/base/setting.c"] - used):
        breach(TOP / "src/base/setting.c", 1, f"{name} is listed, and nobody reads or sets it")


def check_rooms(rooms, files, ratchet):
    for folder in sorted((TOP / "src").iterdir()):
        if not folder.is_dir():
            continue
        if folder.name not in rooms:
            breach(folder, 0, "a folder that is no room (src/rooms.txt)")
            continue
        if not (folder / "README.md").exists():
            breach(folder, 0, "room without README.md")
        own = [f for f in files if f.parent == folder and f.suffix == ".c"
               and not re.search(r"_(test|fuzz|bench)\.c$", f.name)]
        if not [f for f in files if f.is_relative_to(folder) and f.suffix == ".c"]:
            breach(folder, 0, "an empty room")
        check_size(folder, 0, folder.name, (len(own), ROOM_FILES + 1, ".c files"),
                   ratchet.pop(str(folder.relative_to(TOP)), None))


def check_dead(files, texts):
    """A header nobody includes is dead; scripts/lint names the one that it passes with -include."""
    lint = TOP / "scripts/lint"
    passed = lint.read_text() if lint.exists() else ""
    everything = "\n".join(texts.values())
    for path in files:
        if path.suffix not in (".h", ".def", ".inc") or str(path.relative_to(TOP)) in passed:
            continue
        base = next((b for b in (TOP / "include", TOP / "src") if path.is_relative_to(b)), path.parent.parent)
        name = path.relative_to(base)
        if f'"{name}"' not in everything and f"<{name}>" not in everything and f'"{path.name}"' not in everything:
            breach(path, 1, "no file includes it")


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.def", "*.inc"],
                            cwd=TOP, capture_output=True, text=True)
    if listed.returncode == 0:
        files = [TOP / name for name in listed.stdout.split()]
    else:
        files = [p for p in TOP.rglob("*") if p.suffix in (".c", ".h", ".def", ".inc")
                 and "build" not in p.parts]
    files = [f for f in files if f.exists() and "build" not in f.relative_to(TOP).parts]
    ratchet_path = TOP / "tools/tidy_ratchet.txt"
    ratchet = {}
    if ratchet_path.exists():
        for line in ratchet_path.read_text().splitlines():
            if line and not line.startswith("#"):
                key, length = line.rsplit(" ", 1)
                ratchet[key] = int(length)
    rooms = read_rooms()
    texts = {path: path.read_text(errors="replace") for path in files}
    for path, text in texts.items():
        check_includes(path, text, rooms)
        check_sizes(path, text, ratchet)
        check_words(path, text)
        check_prints(path, text)
    check_settings(texts)
    check_rooms(rooms, files, ratchet)
    check_dead(files, texts)
    check_types(texts)
    check_prefixes(texts, ratchet)
    for key in ratchet:
        breaches.append(f"tools/tidy_ratchet.txt:0: {key} is gone: remove the entry")
    breaches.extend(words.check(TOP))
    for line in breaches:
        print(line)
    print(f"tidy: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
