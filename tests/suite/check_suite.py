"""Guards the lit tests against tests that cannot fail.

  * a test has a RUN line
  * a CHECK has its colon and a known suffix
  * every prefix that FileCheck is given has a line, every line has a FileCheck that reads it
  * what `not` prints is read: by FileCheck, or kept in a file

usage: check_suite.py TESTS_FOLDER
"""
import os
import re
import sys

import tree

SUFFIXES = (".slc", ".flow", ".tasks", ".test")
SKIPPED = {"Inputs", "unit", "fuzz", "data", "suite", "install", "gpu"}
KNOWN = re.compile(r"^(NEXT|SAME|EMPTY|NOT|DAG|LABEL|COUNT-\d+)(\{LITERAL\})?$")
KEYWORDS = {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "END", "ALLOW_RETRIES"}
COMMENT = r"^\s*(?:#|//|;)?\s*"
DIRECTIVE = re.compile(COMMENT + r"([A-Z][A-Z0-9_]*)((?:-[A-Za-z0-9]+)*(?:\{LITERAL\})?)(:?)")
SUFFIX_WORDS = ("NEXT", "SAME", "EMPTY", "NOT", "DAG", "LABEL", "COUNT")


def run_lines(text):
    """RUN lines with continuations joined, as (line number, command)."""
    result, pending, start = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"RUN:\s*(.*)$", line)
        if not match:
            continue
        start = start if pending else number
        part = match.group(1).rstrip()
        if part.endswith("\\"):
            pending += part[:-1] + " "
            continue
        result.append((start, pending + part))
        pending = ""
    if pending:
        result.append((start, pending))
    return result


def file_checks(command):
    """The FileCheck calls of a command: (prefixes, the file that holds the checks)."""
    for part in re.split(r"\||&&|;", command):
        words = part.split()
        if "FileCheck" not in words:
            continue
        prefixes, where, pending = [], None, False
        for word in words[words.index("FileCheck") + 1:]:
            match = re.match(r"^--?check-prefix(?:es)?(?:=(.*))?$", word)
            if match and match.group(1) is not None:
                prefixes += match.group(1).split(",")
            elif match:
                pending = True
            elif pending:
                prefixes += word.split(",")
                pending = False
            elif not word.startswith("-") and where is None:
                where = word
        yield prefixes or ["CHECK"], where


def split_directive(full, prefixes):
    """CHECK-NEXT -> (CHECK, NEXT), where a prefix may hold dashes: the longest known one decides."""
    for prefix in sorted(prefixes | {"CHECK"}, key=len, reverse=True):
        if full == prefix or full.startswith(prefix + "-"):
            return prefix, full[len(prefix) + 1:]
    prefix, _, suffix = full.partition("-")
    return prefix, suffix


def directive_errors(name, text, prefixes, seen):
    """Lines that look like a directive and are none, or that nobody reads."""
    for number, line in enumerate(text.splitlines(), 1):
        match = DIRECTIVE.match(line)
        if not match or match.group(1) in KEYWORDS:
            continue
        full, colon = match.group(1) + match.group(2), match.group(3)
        prefix, suffix = split_directive(full, prefixes)
        if prefix in prefixes or prefix == "CHECK":
            if not colon:
                yield f"{name}:{number}: '{full}' has no colon"
            elif suffix and not KNOWN.match(suffix):
                yield f"{name}:{number}: '{suffix}' is no suffix of FileCheck"
        if prefix in prefixes:
            seen.add(prefix)
        elif prefix == "CHECK" or (colon and suffix.split("-")[0] in SUFFIX_WORDS):
            yield f"{name}:{number}: no FileCheck reads '{prefix}'"


def not_errors(name, number, command):
    for part in re.split(r"&&|;", command):
        stages = part.split("|")
        for i, stage in enumerate(stages):
            words = stage.split()
            while words and (words[0] == "env" or re.match(r"^\w+=", words[0])):
                words = words[1:]
            if words and words[0] == "not" and i == len(stages) - 1 and not re.search(r">(?!&)", stage):
                yield f"{name}:{number}: what `not` prints is not looked at: pipe it into FileCheck"


def test_errors(top, name):
    text = tree.read(top, name)
    runs = run_lines(text)
    if not runs:
        yield f"{name}:1: no RUN line"
        return
    held = {}  # check file -> prefixes
    for number, command in runs:
        yield from not_errors(name, number, command)
        for prefixes, where in file_checks(command):
            if where is None:
                yield f"{name}:{number}: FileCheck without a check file"
                continue
            where = where.replace("%s", name).replace("%S", os.path.dirname(name))
            held.setdefault(os.path.normpath(where), set()).update(prefixes)
    for where in sorted(set(held) | {name}):
        prefixes = held.get(where, set())
        if not os.path.exists(os.path.join(top, where)):
            continue  # a file that the test itself makes
        seen = set()
        yield from directive_errors(where, tree.read(top, where), prefixes, seen)
        for prefix in sorted(prefixes - seen):
            yield f"{where}:1: FileCheck reads '{prefix}', but no line has it"


def complaints(top):
    errors, checked = [], 0
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), top)
            if name.endswith(SUFFIXES) and "/" in path:
                checked += 1
                errors += test_errors(top, path)
    return errors, checked


if __name__ == "__main__":
    tree.finish("suite", *complaints(sys.argv[1]))
