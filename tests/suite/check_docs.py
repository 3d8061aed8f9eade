"""What the documents print is true: runs their marked blocks. A block is marked by the comment in
front of it, which a reader does not see:

    <!-- run -->             a console block: lines with `$ ` are run from the top of the tree and
                             must print the lines that follow; times and rates may differ, a line
                             of `...` stands for any lines
    <!-- check ARGS -->      an slc block: `sluice check ARGS` must accept it
    <!-- refuse ARGS: MESSAGE -->  an slc block: `sluice check ARGS` must refuse it with MESSAGE

usage: check_docs.py TOP SLUICE_FOLDER
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

import tree

BLOCK = re.compile(r"^<!-- (run|check|refuse)\b(.*?) *-->\n+```(\w+)\n(.*?)^```$", re.M | re.S)
MEASURED = re.compile(r"\b\d[\d.,]* (?:s|ms|us|ns|GB/s|KiB/s|MiB/s|GiB/s)\b|\bon \d+ threads?\b")


def normal(line):
    """A line without what differs from run to run."""
    return re.sub(r"\s+", " ", MEASURED.sub("#", line)).strip()


def matches(expected, printed):
    """Whether lines are as expected; `...` in expected stands for any lines."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and matches(expected[1:], printed[1:])


def run_console(top, environment, body):
    """Errors of one console block."""
    steps = []
    for line in body.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
    if not steps:
        yield "no line starts with `$ `"
    for command, expected in steps:
        done = subprocess.run(["bash", "-c", command], cwd=top, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed = [normal(line) for line in done.stdout.splitlines() if normal(line)]
        wanted = [normal(line) for line in expected if normal(line)]
        if not matches(wanted, printed):
            yield f"`{command}` prints something else:\n{done.stdout}"


def run_schedule(environment, verb, arguments, body):
    """Errors of one slc block."""
    arguments, _, message = arguments.partition(":") if verb == "refuse" else (arguments, "", "")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "block.slc")
        with open(path, "w", encoding="utf-8") as f:
            f.write(body)
        done = subprocess.run(["sluice", "check", *shlex.split(arguments), path], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if verb == "check" and done.returncode != 0:
        yield f"is not accepted:\n{done.stdout}"
    if verb == "refuse" and (done.returncode != 1 or not message.strip() or message.strip() not in done.stdout):
        yield f"is not refused with '{message.strip()}':\n{done.stdout}"


def complaints(top, sluice_folder):
    environment = dict(os.environ, PATH=sluice_folder + os.pathsep + os.environ["PATH"], NO_COLOR="1")
    errors, checked = [], 0
    for name in tree.files(top, (".md",)):
        text = tree.read(top, name)
        marks = len(re.findall(r"^<!-- (?:run|check|refuse)\b", text, re.M))
        blocks = list(BLOCK.finditer(text))
        if marks != len(blocks):
            errors.append(f"{name}: {marks} marks, but {len(blocks)} blocks behind them")
        for block in blocks:
            checked += 1
            verb, arguments, language, body = block.groups()
            number = text.count("\n", 0, block.start()) + 1
            if language != ("console" if verb == "run" else "slc"):
                errors.append(f"{name}:{number}: `{verb}` does not go with a block of {language}")
                continue
            found = (run_console(top, environment, body) if verb == "run"
                     else run_schedule(environment, verb, arguments, body))
            errors += [f"{name}:{number}: {error}" for error in found]
    return errors, checked


if __name__ == "__main__":
    found, blocks = complaints(sys.argv[1], sys.argv[2])
    for line in found:
        print(line)
    print(f"docs: {blocks} blocks")
    sys.exit(1 if found else 0)
