"""Sizes, widths and names of source files: under 800 lines (the grammar 500), 100 columns, no tabs,
a first comment that says what the file is, file names unique in the tree.

usage: check_files.py TOP
"""
import os
import sys

import tree

MAX_LINES, MAX_GRAMMAR_LINES, MAX_COLUMNS = 800, 500, 100
COMMON_NAMES = {"CMakeLists.txt", "README.md", "__init__.py"}
CODE_FOLDERS = ("dsl/", "compiler/", "kernels/", "runtime/", "cli/", "tests/unit/", "tests/fuzz/")


def complaints_about(name, text):
    lines = text.splitlines()
    limit = MAX_GRAMMAR_LINES if name.endswith(".y") else MAX_LINES
    if len(lines) > limit:
        yield f"{name}: {len(lines)} lines, at most {limit}"
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield f"{name}:{number}: a tab"
        if len(line) > MAX_COLUMNS:
            yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
        if line != line.rstrip():
            yield f"{name}:{number}: white space at the end of the line"
    first = next((line.strip() for line in lines if line.strip() not in ("", "%{")), "")
    if not first.startswith(("/*", "//", "%top{", "#pragma once")):
        yield f"{name}:1: a file opens with a comment that says what it is"


def complaints(top):
    errors, checked, seen = [], 0, {}
    for name in tree.files(top):
        base = os.path.basename(name)
        if name.startswith(CODE_FOLDERS) and name.endswith(tree.SOURCE_SUFFIXES):
            checked += 1
            errors += complaints_about(name, tree.read(top, name))
            if base in seen and base not in COMMON_NAMES:
                errors.append(f"{name}: the name is taken by {seen[base]}")
            seen.setdefault(base, name)
    return errors, checked


if __name__ == "__main__":
    tree.finish("files", *complaints(sys.argv[1]))
