"""Includes go down only: dsl and kernels at the bottom, then compiler, runtime, cli.

usage: check_includes.py TOP
"""
import os
import re
import sys

import tree

MAY_INCLUDE = {
    "dsl": {"dsl"},
    "kernels": {"kernels"},
    "compiler": {"compiler", "dsl", "kernels"},
    "runtime": {"runtime", "compiler", "dsl", "kernels"},
    "cli": {"cli", "runtime", "compiler", "dsl", "kernels"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def target_folder(top, name, included):
    """The top folder an include leads to: beside the file, else from the top of the tree."""
    beside = os.path.normpath(os.path.join(os.path.dirname(name), included))
    if os.path.exists(os.path.join(top, beside)):
        return beside.split("/")[0]
    return os.path.normpath(included).split("/")[0] if "/" in included else name.split("/")[0]


def complaints(top):
    errors, checked = [], 0
    for name in tree.files(top, tree.SOURCE_SUFFIXES):
        folder = name.split("/")[0]
        if folder not in MAY_INCLUDE:
            continue
        checked += 1
        for number, line in enumerate(tree.read(top, name).splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = target_folder(top, name, match.group(1))
            if target not in MAY_INCLUDE[folder]:
                errors.append(f"{name}:{number}: {folder}/ must not include {match.group(1)}")
    return errors, checked


if __name__ == "__main__":
    tree.finish("includes", *complaints(sys.argv[1]))
