"""Every C file is as clang-format 14 with .clang-format would write it. Leaves with 77 (skipped)
where there is no clang-format 14, since other versions disagree with it.

usage: check_format.py TOP
"""
import re
import shutil
import subprocess
import sys

import tree


def find_tool():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", text):
                return path
    return None


def complaints(top, tool):
    names = tree.files(top, (".c", ".h", ".cu", ".cuh"))
    command = [tool, "--dry-run", "-Werror", "--ferror-limit=1", *names]
    done = subprocess.run(command, cwd=top, capture_output=True, text=True)
    errors = []
    if done.returncode != 0:
        bad = re.findall(r"^([^:\n]+:\d+):\d+: error: code should be clang-formatted", done.stderr, re.M)
        errors = [f"{place}: not formatted" for place in bad] or [done.stderr]
        errors.append("`./x format` formats everything")
    return errors, len(names)


if __name__ == "__main__":
    clang_format = find_tool()
    if not clang_format:
        print("format: there is no clang-format 14 here")
        sys.exit(77)
    tree.finish("format", *complaints(sys.argv[1], clang_format))
