#!/usr/bin/env python3
"""Words that Gyre does not use, since the field has others: a house rule of tools/tidy.py.

The public headers, the texts of the command, the man page, README.md and ARCHITECTURE.md are free of them.
In the code and in the pages of rooms a ratchet counts them: tools/words_ratchet.txt has "KEY COUNT", KEY a
file or a room's folder. A count may grow only by files that move, that is while the sum over all rooms (or
all pages) does not. `tools/words.py` prints each place, `tools/words.py --lower` writes lower counts.
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RATCHET = "tools/words_ratchet.txt"

# A word, alone or as a part of an identifier: what stands there instead.
WORDS = {
    "nursery|nurseries": "fork server", "wardens?": "supervisor", "minders?": "shim, reaper",
    "guardians?": "supervisor", "tenants?": "lease client", "wish|wishes": "resource request",
    "hush": "idle heartbeat stop", "foretell|foretold": "prewarm hint", "bury|buried": "reap",
    "promises?|promised": "determinism, guarantee", "mistakes?": "error", "last_words": "log tail",
    "weather": "fault model", "copy_floor": "backup_floor", "silence_seconds": "heartbeat timeout",
}
# Several words, in running text.
PHRASES = {
    "asked back": "preempt", "at home": "locally, on one machine", "bad places?": "record id",
    "cry for help": "crash report", "last words": "log tail", "(take|leave)s? office": "become leader, step down",
    "parted by": "separated by", "(in )?(rising|falling) order": "ascending, descending", "blanks": "whitespace", "marks? of UTF-8": "byte order mark", "who may be less": "restricted key",
    "asks? to give": "preempt", "thrown? away": "discard",
}
# Parts of an identifier that are plain English elsewhere: public identifiers alone.
PARTS = {
    "gate|gates": "refinement point", "grow|growth": "refinement", "spread": "repartition", "well|spring": "source, sink",
    "said|say|hear|told|tell": "output, report", "look": "list, read, status", "door": "handle", "price": "cost",
    "outcome": "result", "least": "_min", "most": "_max", "seconds": "_s", "walls": "sandbox", "ahead": "prefetch, prewarm",
    "seats?": "executor, communicator slot", "patience": "which timeout it is", "card": "call signature", "leg": "segment",
}


def pattern(words, before, after):
    return re.compile(before + "(?:" + "|".join(f"(?P<g{i}>{word})" for i, word in enumerate(words)) + ")" + after, re.I)


ANYWHERE = (pattern(WORDS, r"(?<![A-Za-z])", r"(?![A-Za-z])"), list(WORDS.values()))
TEXT = (pattern([p.replace(" ", r"\s+(?:\*\s+)?") for p in PHRASES], r"\b", r"\b"), list(PHRASES.values()))
PUBLIC = (pattern(PARTS, r"\b(?:\w+_)?", r"(?:_\w+)?\b"), list(PARTS.values()))
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def found(rule, text):
    """(line, what stands there, what to write instead) of each match."""
    regex, instead = rule
    for match in regex.finditer(text):
        which = next(int(name[1:]) for name, value in match.groupdict().items()
                     if value is not None and re.fullmatch(r"g\d+", name))
        yield text.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split()), instead[which]


def places(name, text):
    """The words of a file that has to be free of them."""
    if name.startswith("src/cli/") and name.endswith((".c", ".h")):
        code = COMMENT.sub(blank, text)
        kept, at = [], 0
        for match in STRING.finditer(code):
            kept += [re.sub(r"[^\n]", " ", code[at:match.start()]), match.group(0)]
            at = match.end()
        text = "".join(kept)
    yield from found(ANYWHERE, text)
    yield from found(TEXT, text)
    if name.startswith("include/"):
        code = STRING.sub(blank, COMMENT.sub(blank, text))
        yield from found(PUBLIC, code)


def is_strict(name):
    return (name.startswith("include/gyre/") or name in ("docs/gyre.1", "README.md", "ARCHITECTURE.md")
            or (name.startswith("src/cli/") and not re.search(r"_(test|fuzz|bench)\.", name))
            or re.fullmatch(r"src/(?:[\w-]+/)+README\.md", name) is not None)


def key_of(name):
    if is_strict(name):
        return name
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "src" and len(parts) > 2 else None


def collect(top, names):
    """key: its places, each (file, line, word, instead)."""
    all_places = {}
    for name in sorted(names):
        key = key_of(name)
        if key is not None:
            text = (top / name).read_text(errors="replace")
            all_places.setdefault(key, []).extend((name, *place) for place in places(name, text))
    return all_places


def listed(top):
    names = {str(p.relative_to(top)) for folder in ("include", "src") if (top / folder).exists()
             for p in (top / folder).rglob("*") if p.suffix in (".c", ".h", ".def", ".inc", ".md")}
    return names | {name for name in ("docs/gyre.1", "README.md", "ARCHITECTURE.md") if (top / name).exists()}


def read_ratchet(top):
    path = top / RATCHET
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines if line and not line.startswith("#")}


def kind_of(key):
    return "" if not key.startswith("src/") or key.startswith("src/cli/") else "page" if key.endswith(".md") else "code"


def check(top):
    """The breaches, a line each: tools/tidy.py prints them."""
    allowed, breaches = read_ratchet(top), []
    all_places = collect(top, listed(top))
    grown = {kind: kind == "" or sum(len(held) for key, held in all_places.items() if kind_of(key) == kind)
             > sum(count for key, count in allowed.items() if kind_of(key) == kind) for kind in ("", "page", "code")}
    for key, held in all_places.items():
        limit = allowed.get(key, 0)
        if len(held) <= limit or not grown[kind_of(key)]:
            continue
        if is_strict(key) and limit == 0:
            breaches += [f"{name}:{line}: '{word}', write: {instead} (tools/words.py)" for name, line, word, instead in held]
        else:
            breaches.append(f"{key}:0: {len(held)} words that the field does not have, at most {limit} (tools/words.py lists them)")
    return breaches


def main():
    all_places = collect(TOP, listed(TOP))
    if sys.argv[1:] == ["--lower"]:
        allowed = read_ratchet(TOP)
        head = "# Words of tools/words.py that still stand there; a count may shrink or go, never grow.\n"
        counts = {key: len(held) for key, held in all_places.items() if key in allowed or kind_of(key) != ""}
        for kind in ("page", "code"):
            if sum(n for key, n in counts.items() if kind_of(key) == kind) > sum(
                    n for key, n in allowed.items() if kind_of(key) == kind):
                sys.exit(f"words: the counts of all {kind} have grown, tools/words.py lists the words")
        (TOP / RATCHET).write_text(head + "".join(f"{key} {count}\n" for key, count in sorted(counts.items()) if count))
        return 0
    for key, held in all_places.items():
        for name, line, word, instead in held:
            print(f"{name}:{line}: '{word}', write: {instead}")
    for key, held in all_places.items():
        if held:
            print(f"{key} {len(held)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
