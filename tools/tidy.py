#!/usr/bin/env python3
"""House rules as a test: includes, sizes, banned calls, dead files, room pages, words (tools/words.py).

Exits 1 with one line per breach: file:line: what, limit. Known exceptions stand in
tools/tidy_ratchet.txt ("file:function lines", "file:function() parameters", "folder files",
"prefix:room functions"), the density of assertions of each room in tools/assert_ratchet.txt; an entry says the size that is there, and goes with the last excess.
tools/tidy_test.py breaks each rule once.
"""
import functools
import re
import subprocess
import sys
from pathlib import Path

import words

TOP = Path(__file__).resolve().parent.parent
FUNCTION_LINES, FILE_LINES, PARAMETERS, ROOM_FILES, CIRCLE_FILES = 70, 800, 6, 15, 3
STRICT = {"sched", "persist", "worker", "control", "driver", "cluster"}
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


def room_name(folder):
    return folder.split("/")[0]


def circles(graph):
    """The strongly connected parts of {node: nodes}, each sorted (Tarjan, without recursion)."""
    number, low, stack, found = {}, {}, [], []
    for root in sorted(graph):
        work = [(root, None)]
        while work:
            node, rest = work.pop()
            if rest is None:
                if node in number:
                    continue
                number[node] = low[node] = len(number)
                stack.append(node)
                rest = iter(sorted(graph.get(node, ())))
            for other in rest:
                if other not in number:
                    work += [(node, rest), (other, None)]
                    break
                if other in stack:
                    low[node] = min(low[node], low[other])
            else:
                if low[node] == number[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    del stack[at:]
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return found


def read_rooms():
    """Of each folder of src/rooms.txt its rank, which is its room's, and the folders it may include."""
    law, rooms, room = TOP / "src/rooms.txt", {}, None
    for number, line in enumerate(law.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():  # a folder of the room above
            folder, *below = line.split()
            if room is None or room_name(folder) != room:
                breach(law, number, f"folder {folder} stands below room {room}")
                continue
            rank = rooms[room][0]
        else:
            rank, folder, *below = line.split()
            rank, room = int(rank), folder
        rooms[folder] = (rank, set(below))
    for folder, (rank, below) in rooms.items():
        reached = {room_name(other) for other in rooms[room_name(folder)][1]} | {room_name(folder), "base"}
        for other in sorted(below):
            if other not in rooms:
                breach(law, 0, f"room {folder} may include {other}, which is no room")
            elif room_name(other) != room_name(folder) and rooms[other][0] >= rank:
                breach(law, 0, f"room {folder} of rank {rank} includes {other} upward")
            elif room_name(other) not in reached:
                breach(law, 0, f"folder {folder} may include {other}, the room around it may not")
    for circle in circles({f: below & set(rooms) for f, (_, below) in rooms.items()}):
        if len(circle) > 1 and len({room_name(folder) for folder in circle}) == 1:
            breach(law, 0, f"folders include each other: {', '.join(circle)}")
    return rooms


def room_of(path):
    parts = path.relative_to(TOP).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def folder_of(path):
    """The folder below src that a file is in, as src/rooms.txt names it."""
    parts = path.relative_to(TOP).parts
    return "/".join(parts[1:-1]) if parts[0] == "src" and len(parts) > 2 else None


def is_test(path):
    return bool(re.search(r"_test\.[ch]$", path.name)) or path.relative_to(TOP).parts[0] == "tests"


def is_beside(path):
    """A test, fuzz target or bench, or what they share."""
    return bool(re.search(r"_(test|fuzz|bench)\.[ch]$", path.name))


def check_includes(path, text, rooms, excesses):
    """`excesses` gathers, by "folder>folder" or "folder>header", includes that the ratchet may know."""
    room, folder = room_of(path), folder_of(path)
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
        target, at = room_name(name), name.rpartition("/")[0]
        if kind == "<" and target in rooms and "/" in name:
            breach(path, number, f"include of <{name}>: a room's header stands in quotes")
        if room not in rooms or kind == "<" or "/" not in name:
            continue
        rank, below = rooms.get(folder, rooms[room])
        reached = {room_name(other) for other in rooms[room][1]} | {room}
        if target == "base" and room != "base":
            if rank >= 10:
                breach(path, number, f"door {room} includes {name}: doors see include/gyre alone")
        elif target not in rooms:
            breach(path, number, f"include of {name}: no such room")
        elif target not in reached:
            breach(path, number, f"room {room} may not include {name} (src/rooms.txt)")
        elif at != folder and at not in below and not is_beside(path):
            excesses.setdefault(f"{folder}>{at}", []).append(
                (path, number, f"folder {folder} may not include {name} (src/rooms.txt)"))
        elif at != folder and name.endswith("_priv.h"):
            excesses.setdefault(f"{folder}>{name}", []).append(
                (path, number, f"folder {folder} includes {name}, private to {at}"))


def check_excesses(excesses, ratchet):
    """An entry of the ratchet says how many includes of its kind are known."""
    for key, places in sorted(excesses.items()):
        known = ratchet.pop(key, None)
        path, number, _ = places[-1]
        if known is not None:
            check_size(path, number, key, (len(places), 0, "includes"), known)
        for path, number, what in places if known is None else ():
            breach(path, number, what)


def check_circles(files, texts, ratchet):
    """Headers and the .c files of their names (x.h, x_priv.h, x.c) include each other in small circles alone."""
    def node(name):
        return re.sub(r"(_priv)?\.[ch]$", "", name)
    graph, first = {}, {}
    for path in sorted(files):
        if folder_of(path) is None or path.suffix not in (".c", ".h") or is_beside(path):
            continue
        own = node(str(path.relative_to(TOP / "src")))
        found = re.findall(r'^\s*#\s*include\s+"([^"]+/[^"]+\.h)"', texts[path], re.M)
        graph.setdefault(own, set()).update(node(name) for name in found)
        first.setdefault(own, path)
    for circle in circles(graph):
        if len(circle) > 1:
            what = f"a circle of includes ({', '.join(circle)})"
            check_size(first[circle[0]], 1, what, (len(circle), CIRCLE_FILES, "files"),
                       ratchet.pop(f"circle of {circle[0]}", None))


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


ASSERTED = re.compile(r"\bGY_(?:ASSERT|CHECK_DEEP)\s*\(")


def check_assertions(texts):
    """Assertions a function of a room, tests left out: tools/assert_ratchet.txt says "room assertions functions"
    as they were counted last, and the density (the first by the second) may only rise."""
    known = TOP / "tools/assert_ratchet.txt"
    found = {}
    for path, text in texts.items():
        room = room_of(path)
        if room is None or re.search(r"_(test|fuzz|bench)\.[ch]$", path.name):
            continue
        facts, count = found.get(room, (0, 0))
        plain = re.sub(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", "", strip_comments(text), flags=re.M)
        found[room] = (facts + len(ASSERTED.findall(plain)), count + text.splitlines().count("{"))
    for number, line in enumerate(known.read_text().splitlines() if known.exists() else (), 1):
        if not line or line.startswith("#"):
            continue
        room, *least = line.split()
        facts, count = found.get(room, (0, 0))
        if count == 0:
            breach(known, number, f"{room} is gone: remove the entry")
            continue
        least_facts, least_count = map(int, least)
        # Integers, so that a density that stayed is never taken for one that fell.
        if facts * least_count < least_facts * count:
            breach(known, number, f"{room} has {facts} assertions in {count} functions ({facts / count:.3f} a function),"
                                  f" at least {least_facts / least_count:.3f}: state what the new functions rely on")
        elif facts / count > least_facts / least_count + 0.1:
            print(f"note: tools/assert_ratchet.txt: {room} has {facts} {count}, the entry says {' '.join(least)}: raise it")


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
    named = re.compile(r'"(GYRE_[A-Z0-9_]*[A-Z0-9])"')
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
    law, sources = TOP / "src/rooms.txt", [f for f in files if f.suffix == ".c" and folder_of(f)]
    folders = {f for f in (TOP / "src").iterdir() if f.is_dir()} | {f.parent for f in files if folder_of(f)}
    for folder in sorted(folders):
        name = str(folder.relative_to(TOP / "src"))
        if name not in rooms:
            breach(folder, 0, "a folder that is no room (src/rooms.txt)")
            continue
        if "/" not in name and not (folder / "README.md").exists():
            breach(folder, 0, "room without README.md")
        if "/" not in name and not any(f.is_relative_to(folder) for f in sources):
            breach(folder, 0, "an empty room")
        own = [f for f in sources if f.parent == folder and not is_beside(f)]
        check_size(folder, 0, name, (len(own), ROOM_FILES, ".c files"), ratchet.pop(f"src/{name}", None))
    for name in rooms:
        if "/" in name and not (TOP / "src" / name).is_dir():
            breach(law, 0, f"{name} is no folder")


def check_strict(ratchet):
    """Rooms that were made under the law of folders have no exception from it."""
    for key in list(ratchet):
        room = room_name(re.sub("^(src/|circle of )", "", key).split(">")[0])
        if room in STRICT and ":" not in key:
            ratchet.pop(key)
            breach(TOP / "tools/tidy_ratchet.txt", 0, f"{key}: room {room} has no exceptions")


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
    rooms, excesses = read_rooms(), {}
    check_strict(ratchet)
    texts = {path: path.read_text(errors="replace") for path in files}
    for path, text in texts.items():
        check_includes(path, text, rooms, excesses)
        check_sizes(path, text, ratchet)
        check_words(path, text)
        check_prints(path, text)
    check_excesses(excesses, ratchet)
    check_circles(files, texts, ratchet)
    check_settings(texts)
    check_rooms(rooms, files, ratchet)
    check_dead(files, texts)
    check_types(texts)
    check_prefixes(texts, ratchet)
    check_assertions(texts)
    for key in ratchet:
        breaches.append(f"tools/tidy_ratchet.txt:0: {key} is gone: remove the entry")
    breaches.extend(words.check(TOP))
    for line in breaches:
        print(line)
    print(f"tidy: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
